"""`glowembed combine`: puts several bundles into one program with one arena."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from glowembed.cli import JsonFile, tell
from glowembed.image.combine import combine
from glowembed.show import report

PLACE = 35


def add_to(app: typer.Typer) -> None:
    app.command(name="combine", epilog="Example:  glowembed combine wakeword gesture -o both")(combine_)


def combine_(
    bundles: Annotated[
        list[Path], typer.Argument(metavar="BUNDLE", help="The folders that `compile` wrote.", show_default=False)
    ],
    out: Annotated[Path, typer.Option("-o", "--output", metavar="DIR", help="The folder for the combination.")],
    name: Annotated[
        str, typer.Option("--name", metavar="NAME", help="Name of the header and prefix of its macros.")
    ] = ("combined"),
    json_file: JsonFile = None,
) -> None:
    """Put several bundles into one folder with one arena, as large as the largest of theirs.

    They run one at a time. Every bundle keeps its own header.
    """
    manifest = combine(bundles, out, name)
    tell(json_file, dict(manifest), lambda: report.combined(manifest, str(out)))
