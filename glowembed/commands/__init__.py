"""Commands of the command line, one file each, found by being here. Each has `add_to(app)`, which adds it."""

from __future__ import annotations

import importlib
import pkgutil

import typer


def add_all(app: typer.Typer) -> None:
    """Add every command of this folder, in the order of their names."""
    for name in sorted(module.name for module in pkgutil.iter_modules(__path__)):
        importlib.import_module(f"{__name__}.{name}").add_to(app)
