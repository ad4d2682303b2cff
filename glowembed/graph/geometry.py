"""How a kernel-level op works row by row. In: its params. Out: the number of rows, the elements in each row, and the
input rows that each row needs.

A row is one index of the first axis of a stored tensor. The dtypes of a family share one geometry, which counts elements; the op says
how many bytes an element has (`KernelOp.in_bytes`, `out_bytes`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from glowembed.records import dataclass

Elements = tuple[tuple[int, ...], int]
"""The elements in one row of each input, and in one row of the output."""


@dataclass(frozen=True)
class Geometry:
    """count: the number of output rows. elements: in a row. needs: for each input, the existing rows that output row y
    reads. part: the params of the op that computes only some output rows, from only the input rows that these need;
    None if a row depends on something else, such as its number. across: the params of the op that computes only these
    columns of each row, and how many elements of a row of each input, and of the output, lie before them; None if no
    columns can be computed alone. columns: in a row of the output. outputs: the params of the op that computes only
    these elements of a row; None unless each element has its own index along the first axis of every constant.
    """

    count: Callable[[Any], int]
    elements: Callable[[Any], Elements]
    needs: Callable[[Any, int], tuple[range, ...]]
    part: Callable[[Any, range, range], Any] | None = None
    across: Callable[[Any, range], tuple[Any, int, int] | None] = lambda params, columns: None
    outputs: Callable[[Any, range], Any] = lambda params, elements: None
    columns: Callable[[Any], int] = lambda params: 1
    turned: Callable[[Any, int | None], Any] = lambda params, rows: None

    def tile(self, params: Any, columns: range) -> tuple[Any, int, int] | None:
        """As `across`; all columns of a row can always be computed."""
        made = self.across(params, columns)
        return (params, 0, 0) if made is None and columns == range(self.columns(params)) else made


def per_row(elements: Callable[[Any], Elements]) -> Geometry:
    """A geometry of `p.rows` rows, where row y needs row y of every input."""
    return Geometry(lambda p: int(p.rows), elements, lambda p, y: (range(y, y + 1),) * len(elements(p)[0]))


def sliding(geometry: Geometry) -> Geometry:
    """A geometry of `p.rows` rows, for an op that computes every row in the same way."""
    return replace(geometry, part=lambda p, out, rows: replace(p, rows=len(out)))


def whole(elements: Callable[[Any], Elements]) -> Geometry:
    """One row, which needs all of every input."""
    return Geometry(lambda p: 1, elements, lambda p, y: (range(1),) * len(elements(p)[0]))


def elementwise(geometry: Geometry) -> Geometry:
    """A geometry of `p.row` elements in each row of the output and of every input, for an op that computes each element
    from those in the same place.
    """

    def across(params: Any, columns: range) -> tuple[Any, int, int]:
        return replace(params, row=len(columns)), columns.start, columns.start

    return replace(geometry, across=across, columns=lambda p: int(p.row), turned=divided("row"))


def divided(name: str) -> Callable[[Any, int | None], Any]:
    """The function Geometry.turned for an op with `p.rows` rows that are independent and contain as many equal parts as
    the field `name` says.
    """

    def turned(params: Any, rows: int | None) -> Any:
        parts, count = params.rows * getattr(params, name), 1 if rows is None else rows
        if params.rows == count or (rows is not None and params.rows > 1) or parts % count:
            return None
        return replace(params, rows=count, **{name: parts // count})

    return turned


ELEMENTWISE = elementwise(sliding(per_row(lambda p: ((p.row,), p.row))))
"""The geometry of an elementwise op with one input."""

PAIRS = elementwise(sliding(per_row(lambda p: ((p.row, p.row), p.row))))
"""The geometry of an elementwise op with two inputs of the output's shape."""


def _not_said(p: object) -> Elements:
    raise NotImplementedError("a KernelOp needs a geometry, or row_bytes and needs of its own")


UNSPECIFIED = whole(_not_said)
"""The geometry of an op that defines the methods of KernelOp itself."""
