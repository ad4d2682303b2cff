"""The commands of the command line, one file each. A command is added by adding its file to this folder.

The first line of each file says what the command does, in the form `glowembed NAME`: what it does. `add_to(app)` adds the command to
the application, and PLACE is its position in the list that --help prints: the order in which a new user needs the commands.
A file is imported when its command is called, because most of them import numpy, onnx and onnxruntime.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from inspect import signature
from pathlib import Path
from typing import Any, get_args

import typer
import typer.main


@dataclass(frozen=True, order=True)
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
    return {command.name: command for command in sorted(map(_read, files))}


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


def read_here(command: Any, context: Any) -> None:
    """Read the values of a command's options and arguments by `_value` instead of by typer."""
    hints = {
        name: get_args(found.annotation)
        for name, found in signature(command.callback, eval_str=True).parameters.items()
    }
    for parameter in command.get_params(context):
        hint, told = hints.get(parameter.name, (bool, None))  # that of --help is none of the callback's
        parameter.process_value = partial(_value, parameter, get_args(hint) or (hint,), told, parameter.process_value)


def _value(
    parameter: Any, kinds: tuple[Any, ...], told: Any, otherwise: Callable[..., Any], context: Any, value: Any
) -> Any:
    """The value of an option or argument. kinds: the types it may have. told: its typer.Option or Argument. otherwise: how typer
    reads it.

    Values that are not given, texts, paths and whole numbers are read here, because newer versions of typer load pydantic for them,
    which takes a tenth of a second. Other values, and what is wrong, are left to typer.
    """
    read: Any
    if value is None and not parameter.required:
        read = () if parameter.multiple or parameter.nargs == -1 else None
    elif type(value) in kinds and type(value) in (str, bool, int, float):
        read = value
    elif type(value) is str and Path in kinds:
        read = Path(value)
    elif (
        type(value) is str and int in kinds and value.isascii() and value.isdecimal() and int(value) >= (told.min or 0)
    ):
        read = int(value)
    else:
        return otherwise(context, value)
    return read if parameter.callback is None else parameter.callback(context, parameter, read)
