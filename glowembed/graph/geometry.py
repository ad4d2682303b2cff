"""How a kernel-level op works row by row. In: its params. Out: how many rows, how many elements in each, which it needs.

A row is one index of the first axis of a stored tensor. The dtypes of a family share one geometry, which counts elements; the op says
how many bytes an element has (`KernelOp.in_bytes`, `out_bytes`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

Elements = tuple[tuple[int, ...], int]
"""Elements of one row of each input, and of the output."""


@dataclass(frozen=True)
class Geometry:
    """count: rows of the output. elements: of a row. needs: for each input, the rows that output row y reads, clipped to those that
    exist. part: the params of the op that computes only some rows of the output from only some rows of its inputs, which are all
    that these need; None if a row depends on more than the rows that it needs, such as on its number. across: the params of the op
    that computes only these columns of each row, and how many elements of a row of each input, and of the output, lie before them; None
    if a row has no columns that can be computed alone. columns: of a row of the output. outputs: the params of the op that computes only these elements of a row, each
    of which has its own index of the first axis of every constant; None if that is not so.
    """

    count: Callable[[Any], int]
    elements: Callable[[Any], Elements]
    needs: Callable[[Any, int], tuple[range, ...]]
    part: Callable[[Any, range, range], Any] | None = None
    across: Callable[[Any, range], tuple[Any, int, int] | None] = lambda params, columns: None
    outputs: Callable[[Any, range], Any] = lambda params, elements: None
    columns: Callable[[Any], int] = lambda params: 1


def per_row(elements: Callable[[Any], Elements]) -> Geometry:
    """`p.rows` rows; each needs the row of the same number of every input."""
    return Geometry(
        lambda p: int(p.rows), elements, lambda p, y: tuple(range(y, y + 1) for _ in range(len(elements(p)[0])))
    )


def sliding(geometry: Geometry) -> Geometry:
    """A geometry of `p.rows` rows, for an op that computes each of them in the same way."""
    return replace(geometry, part=lambda p, out, rows: replace(p, rows=len(out)))


def whole(elements: Callable[[Any], Elements]) -> Geometry:
    """One row, which needs all of every input."""
    return Geometry(lambda p: 1, elements, lambda p, y: tuple(range(1) for _ in range(len(elements(p)[0]))))


def elementwise(geometry: Geometry) -> Geometry:
    """A geometry of `p.row` elements in a row of the output and of every input, for an op that computes each from those of its place."""

    def across(params: Any, columns: range) -> tuple[Any, int, int]:
        return replace(params, row=len(columns)), columns.start, columns.start

    return replace(geometry, across=across, columns=lambda p: int(p.row))


ELEMENTWISE = elementwise(sliding(per_row(lambda p: ((p.row,), p.row))))
"""One input."""

PAIRS = elementwise(sliding(per_row(lambda p: ((p.row, p.row), p.row))))
"""Two inputs of the output's shape."""


def _not_said(p: object) -> Elements:
    raise NotImplementedError("a KernelOp needs a geometry, or row_bytes and needs of its own")


UNSPECIFIED = whole(_not_said)
"""The geometry of an op that has methods of its own instead."""
