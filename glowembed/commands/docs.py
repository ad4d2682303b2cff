"""`glowembed docs`: says where the documents are, and opens them in a browser."""

from __future__ import annotations

import webbrowser
from typing import Annotated

import typer

from glowembed import resources
from glowembed.cli import JsonFile, tell
from glowembed.errors import ToolError

PLACE = 155


def add_to(app: typer.Typer) -> None:
    app.command(epilog="Example:  glowembed docs --open")(docs)


def docs(
    browser: Annotated[bool, typer.Option("--open", help="Open them in a browser.")] = False,
    json_file: JsonFile = None,
) -> None:
    """Print the place of the documents of this version: the site in a wheel, or the folder docs/ of a checkout."""
    place = resources.documents()
    tell(json_file, {"schema": 1, "documents": str(place)}, lambda: str(place))
    if browser and not webbrowser.open(place.as_uri()):
        raise ToolError(f"no browser could be started; open {place} by hand")
