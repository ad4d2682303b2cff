"""How a kernel-level op works row by row. In: its params. Out: how many rows, how many elements in each, which it needs.

A row is one index of the first axis of a stored tensor. The dtypes of a family share one geometry, which counts elements; the op says
how many bytes an element has (`KernelOp.in_bytes`, `out_bytes`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Elements = tuple[tuple[int, ...], int]
"""Elements of one row of each input, and of the output."""


@dataclass(frozen=True)
class Geometry:
    """count: rows of the output. elements: of a row. needs: for each input, the rows that output row y reads, clipped to those that
    exist.
    """

    count: Callable[[Any], int]
    elements: Callable[[Any], Elements]
    needs: Callable[[Any, int], tuple[range, ...]]


def per_row(elements: Callable[[Any], Elements]) -> Geometry:
    """`p.rows` rows; each needs the row of the same number of every input."""
    return Geometry(
        lambda p: int(p.rows), elements, lambda p, y: tuple(range(y, y + 1) for _ in range(len(elements(p)[0])))
    )


def whole(elements: Callable[[Any], Elements]) -> Geometry:
    """One row, which needs all of every input."""
    return Geometry(lambda p: 1, elements, lambda p, y: tuple(range(1) for _ in range(len(elements(p)[0]))))


ELEMENTWISE = per_row(lambda p: ((p.row,), p.row))
"""One input; `p.row` elements in a row of it and of the output."""

PAIRS = per_row(lambda p: ((p.row, p.row), p.row))
"""Two inputs of the output's shape."""


def _not_said(p: object) -> Elements:
    raise NotImplementedError("a KernelOp needs a geometry, or row_bytes and needs of its own")


UNSPECIFIED = whole(_not_said)
"""The geometry of an op that has methods of its own instead."""
