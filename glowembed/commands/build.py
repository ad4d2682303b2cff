"""`glowembed build`: builds a bundle and the test harness into a firmware."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from glowembed import pipeline
from glowembed.cli import BundleDir, JsonFile, board_of, check_firmware, progress_bar, tell
from glowembed.graph.target import FIRMWARES
from glowembed.image.build import Image
from glowembed.judge.validation import build_bundle
from glowembed.show import report

PLACE = 40


def add_to(app: typer.Typer) -> None:
    app.command(epilog="Example:  glowembed build bundle --board mps2-an386")(build)


def build(
    bundle: BundleDir,
    board: Annotated[
        str | None, typer.Option("--board", help="A board; by default the test board of the bundle's target.")
    ] = None,
    build_dir: Annotated[
        Path | None, typer.Option("--build-dir", metavar="DIR", help="Build folder; by default BUNDLE.build/BOARD.")
    ] = None,
    transport: Annotated[
        str | None,
        typer.Option(
            "--transport",
            metavar="|".join(FIRMWARES),
            help="How the firmware communicates; mlperf: with the official tool of MLPerf Tiny.",
        ),
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Build a bundle with the test harness into a firmware for a board, and report what it needs of each memory."""
    opened = pipeline.load_bundle(bundle)
    place = board_of(opened, board)
    check_firmware(place, transport)
    with progress_bar() as progress, progress.stage("build"):
        image = build_bundle(opened, place, build_dir, transport)
    tell(json_file, result_of(place, image), lambda: report.built(image))


def result_of(board: str, image: Image) -> dict[str, Any]:
    """What --json writes."""
    keys = ("code", "rodata", "data", "bss", "weights", "stack")
    sizes = {"schema": 1, "board": board, "elf": str(image.elf), **{key: getattr(image, key) for key in keys}}
    deepest = image.deepest
    return sizes | ({} if deepest is None else {"stack_path": deepest.path, "indirect": deepest.indirect})
