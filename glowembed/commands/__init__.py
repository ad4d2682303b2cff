"""Commands of the command line, one file each, found by being here.

Each has `add_to(app)`, which adds it, and PLACE, its place in the list of --help: in the order that a new user needs
them.
"""

from __future__ import annotations

import importlib
import pkgutil

import typer


def add_all(app: typer.Typer) -> None:
    """Add every command of this folder, in the order of their places."""
    names = (module.name for module in pkgutil.iter_modules(__path__))
    for command in sorted((importlib.import_module(f"{__name__}.{name}") for name in names), key=lambda c: c.PLACE):
        command.add_to(app)
