"""`glowembed boards`: lists the boards that --board accepts."""

from __future__ import annotations

import typer

from glowembed.cli import AsJson, show
from glowembed.graph.target import board_names, load_board
from glowembed.show import report

PLACE = 130


def add_to(app: typer.Typer) -> None:
    app.command()(boards)


def boards(as_json: AsJson = False) -> None:
    """List the boards that `--board` accepts."""
    entries = [load_board(name) for name in board_names()]
    machine = [{"name": b.name, "target": b.target, "description": b.description} for b in entries]
    show(machine if as_json else report.boards(entries))
