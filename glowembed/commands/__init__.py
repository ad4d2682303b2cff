"""The commands of the command line, one file each. A command is added by adding its file to this folder.

The first line of each file says what the command does, in the form `glowembed NAME`: what it does. `add_to(app)` adds the command to
the application, and PLACE is its position in the list that --help prints: the order in which a new user needs the commands.
A file is imported when its command is called, because most of them import numpy, onnx and onnxruntime.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from dataclasses import astuple
from functools import cache
from pathlib import Path
from typing import Any

import typer
import typer.main

from glowembed.records import dataclass


@dataclass(frozen=True)
class Listed:
    """A command in the list that --help prints. module: the name of its file, which is not that of the command where Python
    has the word for itself.
    """

    place: int
    name: str
    module: str
    summary: str


@cache
def listed() -> Mapping[str, Listed]:
    """Every command of this folder by its name, in the order of their places. The files are read, not imported."""
    files = (path for path in Path(__file__).parent.glob("*.py") if path.name != Path(__file__).name)
    return {command.name: command for command in sorted(map(_read, files), key=astuple)}


_WORDS = re.compile(r'"""`glowembed [a-z]+`: (.+?)(?:"""|\n)', re.ASCII)
_PLACE = re.compile(r"^PLACE = (\d+)$", re.ASCII | re.MULTILINE)


def _read(path: Path) -> Listed:
    """What a file says. It is not parsed, which would take a tenth of a second for all files in every command."""
    text = path.read_text("utf-8")
    words, place = _WORDS.match(text), _PLACE.search(text)
    assert words is not None and place is not None, f"{path} does not begin as this folder says"
    return Listed(int(place[1]), path.stem.rstrip("_"), path.stem, words[1][:1].upper() + words[1][1:])


def add_all(app: typer.Typer) -> None:
    """Add every command to the application, with no more than its name and summary: `loaded` gives the whole command."""
    for command in listed().values():
        app.command(command.name, help=command.summary)(_summarized)


def _summarized() -> None:
    """The placeholder of a command that is not loaded yet."""


def loaded(name: str, markup: Any) -> Any:
    """The command of this name, from its file. markup: how its help is written."""
    own = typer.Typer(rich_markup_mode=markup)
    importlib.import_module(f"{__name__}.{listed()[name].module}").add_to(own)
    return typer.main.get_group(own).commands[name]
