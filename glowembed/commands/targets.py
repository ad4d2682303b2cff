"""`glowembed targets`: lists the targets that --target accepts."""

from __future__ import annotations

import typer

from glowembed.cli import JsonFile, tell
from glowembed.graph.target import default_board, load_target, target_names
from glowembed.show import report

PLACE = 120


def add_to(app: typer.Typer) -> None:
    app.command()(targets)


def targets(json_file: JsonFile = None) -> None:
    """List the targets that `--target` accepts."""
    entries = [load_target(name) for name in target_names()]
    machine = [
        {"name": t.name, "description": t.description, "isa": list(t.isa), "board": default_board(t.name).name}
        for t in entries
    ]
    tell(json_file, machine, lambda: report.targets(entries))
