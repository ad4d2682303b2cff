"""Jobs of scripts that workers do not have: the folder of the script travels with them, as their other files do.

In: the folder, the function's module and name, and what it takes: words, and files. Out: what the function returns, which should be plain data,
because the classes of the script are known where it is imported.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

from glowembed.records import dataclass


@dataclass(frozen=True)
class Call:
    """A call of `function(*words, *files)`; function: `module.name` of a module in `folder`. needs: the tools that it starts."""

    folder: Path
    function: str
    words: tuple[Any, ...] = ()
    files: tuple[Path, ...] = ()
    needs: tuple[str, ...] = ()


def call(job: Call) -> Any:
    """Make the call."""
    place = str(job.folder)
    if place not in sys.path:
        sys.path.insert(0, place)
    module, _, name = job.function.rpartition(".")
    return getattr(importlib.import_module(module), name)(*job.words, *job.files)
