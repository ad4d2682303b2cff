"""Cases that the tests of single ops give to the tests of all ops. In: a name. Out: its value in each file of
tests/ops.

A file may have SMALL, cases so small that each element of their inputs can be changed by itself, and random_case, which draws a case;
for an op that no ONNX node becomes, small_graphs and random_graph, which give lowered graphs.
"""

from __future__ import annotations

import runpy
from functools import cache
from pathlib import Path
from typing import Any


@cache
def own_cases(name: str) -> tuple[Any, ...]:
    """The value of this name in each file that has it, in the order of the files."""
    files = sorted((Path(__file__).resolve().parents[1] / "ops").glob("test_*.py"))
    found = (path for path in files if f"\n{name} = " in (text := path.read_text("utf-8")) or f"\ndef {name}(" in text)
    return tuple(runpy.run_path(str(path))[name] for path in found)
