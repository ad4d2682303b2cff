"""Operators of the user: a folder outside of the package, with op files and C kernels in the form of ours.

In: the folder of `--ops`, which the environment variable GLOWEMBED_OPS hands on to processes that are started. Out: its modules, and
the places of its C files. The Python files of the folder are executed, so it must be as trusted as glowembed itself.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import traceback
from functools import cache
from pathlib import Path
from types import ModuleType

from glowembed.errors import GlowembedError, UsageError

VARIABLE = "GLOWEMBED_OPS"
PREFIX = "glowembed_own_ops"


def folder() -> Path | None:
    """The folder of own operators, if one was named."""
    named = os.environ.get(VARIABLE)
    return Path(named) if named else None


def modules() -> tuple[ModuleType, ...]:
    """Its Python files in the order of their names, loaded once. Raises UsageError for a file that cannot be loaded."""
    place = folder()
    return () if place is None else _loaded(place)


@cache
def _loaded(place: Path) -> tuple[ModuleType, ...]:
    if not place.is_dir():
        raise UsageError(f"{place}: the folder of own operators (--ops) is not a folder")
    files = sorted(place.glob("*.py"))
    if not files:
        raise UsageError(f"{place}: the folder of own operators (--ops) has no Python file")
    return tuple(map(_load, files))


def _load(path: Path) -> ModuleType:
    name = f"{PREFIX}_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path}: Python cannot load it")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except GlowembedError:
        raise
    except Exception as error:
        own = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
        line = getattr(error, "lineno", None) if isinstance(error, SyntaxError) else own[-1] if own else None
        raise UsageError(f"{path}{f':{line}' if line else ''}: {type(error).__name__}: {error}") from error
    return module


def kernel_file(name: str) -> Path | None:
    """A C file of the folder by its name as a kernel has it, such as portable/snake_s8.c; the folder of the core may be left
    out.
    """
    place = folder()
    places = () if place is None else (place / name, place / Path(name).name)
    return next((path for path in places if path.is_file()), None)
