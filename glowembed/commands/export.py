"""`glowembed export`: turns a bundle into a package for a build system or a language."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from glowembed import pipeline
from glowembed.cli import BundleDir, JsonFile, tell
from glowembed.export.package import export, kinds
from glowembed.show import report

PLACE = 37


def add_to(app: typer.Typer) -> None:
    app.command(name="export", epilog="Example:  glowembed export bundle --as cmake -o net-cmake")(export_)


def export_(
    bundle: BundleDir,
    kind: Annotated[str, typer.Option("--as", metavar="KIND", help=f"What to make: {', '.join(kinds())}.")],
    out: Annotated[Path, typer.Option("-o", "--output", metavar="DIR", help="The folder for the package.")],
    version: Annotated[
        str, typer.Option("--version", metavar="X.Y.Z", help="Version of the package, for its users.")
    ] = "1.0.0",
    json_file: JsonFile = None,
) -> None:
    """Put a bundle into a package for a build system, a package manager or a language, with a self-test.

    The self-test makes its own inputs and compares a hash of the outputs with that of the integer reference, so that a
    build anywhere proves its bits. README.md in the folder says how to build it.
    """
    found = export(pipeline.load_bundle(bundle), kind, out, version)
    tell(json_file, dict(found), lambda: report.exported(found, str(out), kinds()[kind].build))
