"""`glowembed doctor`: says what is missing on this computer, and how to install it."""

from __future__ import annotations

from typing import Annotated

import typer

from glowembed.cli import JsonFile, tell
from glowembed.errors import ToolError
from glowembed.judge.doctor import checkup, targets_named
from glowembed.show import report

PLACE = 150


def add_to(app: typer.Typer) -> None:
    app.command(epilog="Example:  glowembed doctor --target cortex-m4")(doctor)


def doctor(
    targets: Annotated[
        list[str] | None,
        typer.Option("--target", help="Only what this target needs. Repeatable.", show_default="all with a board"),
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """List what is missing: compilers, C libraries, emulators, programs that flash boards, access to serial ports.

    The last line installs all of it on Debian and Ubuntu. The exit code is 4 if something that building or emulating
    needs is missing, and 0 if only optional parts are.
    """
    found = checkup(targets_named(targets or []))
    tell(json_file, found.json(), lambda: report.checkup(found))
    if not found.complete:
        raise typer.Exit(ToolError.exit_code)
