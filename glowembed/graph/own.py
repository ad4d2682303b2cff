"""The user's own operators: a folder outside the package with op files and C kernels in the same form as glowembed's.

In: the folder of `--ops`, which the environment variable GLOWEMBED_OPS passes on to child processes. Out: its modules,
and the paths of its C files. The Python files of the folder are executed, so it must be as trusted as glowembed itself.
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
    """The folder of the user's operators, or None."""
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
    """The path of a C file of the folder, from the kernel's file name such as portable/snake_s8.c; the folder of the
    core may be missing in the user's folder.
    """
    place = folder()
    places = () if place is None else (place / name, place / Path(name).name)
    return next((path for path in places if path.is_file()), None)
