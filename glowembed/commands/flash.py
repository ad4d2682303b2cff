"""`glowembed flash`: build the firmware of a bundle and put it onto a board."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from glowembed.run import flash as flashing
from glowembed.target import load_board
from glowembed.validation import build_bundle

PLACE = 100


def add_to(app: typer.Typer) -> None:
    app.command(epilog="Example:  glowembed flash bundle --board nucleo-l4r5zi")(flash)


def flash(
    bundle: Annotated[Path, typer.Argument(metavar="BUNDLE", help="The folder that `compile` wrote.")],
    board: Annotated[str, typer.Option("--board", help="A real board; `glowembed boards` lists them.")],
    port: Annotated[str | None, typer.Option("--port", metavar="PORT", help="For tools that need it.")] = None,
    build_dir: Annotated[
        Path | None, typer.Option("--build-dir", metavar="DIR", help="By default BUNDLE.build/BOARD-serial.")
    ] = None,
) -> None:
    """Build the firmware that validates over the serial line, and flash it with the board's own tool.

    The tool (openocd, st-flash, nrfjprog, probe-rs, dfu-util, or a copy to a UF2 drive) is named in the board's board.toml.
    """
    image = build_bundle(bundle, load_board(board).name, build_dir, "serial")
    flashing.flash(image, port)
    typer.echo(f"{image.elf} is on {board}; next: glowembed validate {bundle} --board {board} --port ... --data ...")
