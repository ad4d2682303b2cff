"""The commands of the command line, one file each. A command is added by adding its file to this folder.

Each file has `add_to(app)`, which adds the command to the application, and PLACE, its position in the list that --help
prints: the order in which a new user needs the commands.
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
