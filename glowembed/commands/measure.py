"""`glowembed measure`: counts instructions and estimates cycles of every layer, without hardware."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from glowembed import pipeline
from glowembed.cli import (
    STDOUT,
    BundleDir,
    ClockText,
    HtmlFile,
    JsonFile,
    Resume,
    StoreUrl,
    board_of,
    progress_bar,
    show,
    write_json,
)
from glowembed.files.output import write_file
from glowembed.graph.clock import clock_of
from glowembed.graph.target import load_board
from glowembed.jobs.store import DEFAULT, open_store
from glowembed.judge.measuring import Asked, measured
from glowembed.measure import Ruler, shown
from glowembed.show.page import views

PLACE = 60


def add_to(app: typer.Typer) -> None:
    app.command(epilog="Example:  glowembed measure bundle --hot 3")(measure)


def measure(
    bundle: BundleDir,
    board: Annotated[
        str | None, typer.Option("--board", help="An emulated board; by default the target's test board.")
    ] = None,
    hot: Annotated[
        int, typer.Option("--hot", metavar="N", min=0, help="Also show the N costliest stretches of machine code.")
    ] = 0,
    samples: Annotated[
        int,
        typer.Option(
            "--samples", metavar="N", min=1, help="Number of random inputs to run; the costliest is reported."
        ),
    ] = 1,
    ruler: Annotated[
        Ruler,
        typer.Option(
            "--ruler",
            help="What gives the cycles: the table of the core, or llvm-mca for cortex-m7 and cortex-m55.",
        ),
    ] = "table",
    build_dir: Annotated[
        Path | None, typer.Option("--build-dir", metavar="DIR", help="Build folder; by default BUNDLE.build/BOARD.")
    ] = None,
    clock: ClockText = None,
    store: StoreUrl = DEFAULT,
    resume: Resume = True,
    json_file: JsonFile = None,
    html: HtmlFile = None,
) -> None:
    """Count the instructions of every layer and function exactly, and estimate their cycles, without hardware.

    This needs QEMU, and a C compiler (cc) for the plugin that counts; without a compiler only instructions are counted.
    Cycles assume memories without wait states, except for weights in a slow memory that board.toml describes; docs/measuring.md says how
    far to trust them. What was measured is in the store, and is not measured again as long as nothing of it changes.
    """
    opened = pipeline.load_bundle(bundle)
    place = load_board(board_of(opened, board))
    asked = Asked(samples, hot, ruler, clock_of(place, clock))
    kept = open_store(store, afresh=not resume)
    with progress_bar() as progress:
        found = measured(opened, place, asked, kept, build_dir, progress)
    write_json(json_file, found.json())
    if html is not None:
        write_file(html, views.measurement(found, opened))
    if json_file != STDOUT:
        show(shown(found))
