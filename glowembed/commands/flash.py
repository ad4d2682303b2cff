"""`glowembed flash`: builds the firmware of a bundle and writes it to a board."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from glowembed.cli import JsonFile, ProbeSerial, check_firmware, tell
from glowembed.judge.validation import build_bundle
from glowembed.run import flash as flashing

PLACE = 100


def add_to(app: typer.Typer) -> None:
    app.command(epilog="Example:  glowembed flash bundle --board nucleo-l4r5zi")(flash)


def flash(
    bundle: Annotated[Path, typer.Argument(metavar="BUNDLE", help="The folder that `compile` wrote.")],
    board: Annotated[str, typer.Option("--board", help="A real board; `glowembed boards` lists them.")],
    port: Annotated[str | None, typer.Option("--port", metavar="PORT", help="Port for tools that need one.")] = None,
    probe: ProbeSerial = None,
    build_dir: Annotated[
        Path | None,
        typer.Option("--build-dir", metavar="DIR", help="Build folder; by default BUNDLE.build/BOARD-serial."),
    ] = None,
    transport: Annotated[
        str,
        typer.Option(
            "--transport",
            metavar="serial|mlperf",
            help="The protocol of the firmware; mlperf is that of MLPerf Tiny's official tool.",
        ),
    ] = "serial",
    json_file: JsonFile = None,
) -> None:
    """Build the firmware that validates over the serial line, and flash it with the board's own tool.

    The tool (openocd, st-flash, nrfjprog, probe-rs, dfu-util, or a copy to a UF2 drive) is named in the board's board.toml.
    """
    check_firmware(board, transport)
    image = build_bundle(bundle, board, build_dir, transport)
    flashing.flash(image, {"port": port or "", "probe": probe or ""})
    after = f"glowembed validate {bundle} --board {board} --port ... --data ..."
    result = {"schema": 1, "board": image.board.name, "elf": str(image.elf), "transport": transport}
    following = after if transport == "serial" else "docs/mlperf.md"
    tell(json_file, result, lambda: f"{image.elf} is on {board}; next: {following}")
