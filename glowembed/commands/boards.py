"""`glowembed boards`: lists the boards that --board accepts."""

from __future__ import annotations

import typer

from glowembed.cli import JsonFile, tell
from glowembed.graph.target import board_names, load_board
from glowembed.show import report

PLACE = 130


def add_to(app: typer.Typer) -> None:
    app.command()(boards)


def boards(json_file: JsonFile = None) -> None:
    """List the boards that `--board` accepts."""
    entries = [load_board(name) for name in board_names()]
    machine = [{"name": b.name, "target": b.target, "description": b.description} for b in entries]
    tell(json_file, machine, lambda: report.boards(entries))
