"""Sums over time of a stream: kernel-level ops that `lower/sums.py` makes of a mean over all rows of a window.

row_sums_s8 adds up the columns of each row, so that a row that is kept from hop to hop takes two bytes a channel, however wide it
is. running_sum_s8 and running_sum_s16 go from the sum of one window to that of the next: new rows are added, old ones subtracted. All
sums are exact, so their order does not matter. gather_sums and delayed_sum, of the same types, do so for windows whose rows at the
top were added up early: their sums wait in a queue, and take up the rows below them as these come.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from glowembed.graph.cstruct import i32
from glowembed.graph.geometry import Geometry, per_row, sliding
from glowembed.graph.ir import Array, Node
from glowembed.graph.op import Cost, Kernel, KernelOp, of_element
from glowembed.records import dataclass

MOST_ELEMENTS = 128
"""Elements minus their zero point have at most 255; the sum of so many fits int16."""


@dataclass(frozen=True)
class RowSumsParams:
    """The size of the image."""

    rows: int = i32("of input and output")
    columns: int = i32("of the input, at most 128")
    channels: int = i32("of input and output")
    zero: int = i32("the input's zero point, -128..127")


class RowSumsS8(KernelOp[RowSumsParams]):
    """y[row, c] = the int16 sum of x[row, column, c] - zero over the columns."""

    name = "row_sums_s8"
    params = RowSumsParams
    geometry = sliding(per_row(lambda p: ((p.columns * p.channels,), p.channels)))
    element_bytes = (1, 2)
    kernels = (
        Kernel(
            "ge_row_sums_s8",
            cost=lambda n, t: Cost(6.0 * n.params.rows * n.params.columns * n.params.channels + 20.0, 90),
            store="rows",
        ),
    )

    def int_ref(self, p: RowSumsParams, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        x = inputs[0].reshape(p.rows, p.columns, p.channels).astype(np.int16)
        return np.asarray((x - np.int16(p.zero)).sum(axis=1, dtype=np.int16))


@dataclass(frozen=True)
class RunningParams:
    """The rows that enter and leave a sum."""

    channels: int = i32("of each row and of the sums")
    zero: int = i32("the zero point of the rows; 0 for sums of rows")
    more_first: int = i32("first row of more that is added")
    more_count: int = i32("rows that are added")
    less_first: int = i32("first row of less that is subtracted")
    less_count: int = i32("rows that are subtracted; may be 0")


def _running_cost(node: Node, _: Any) -> Cost:
    p = node.params
    return Cost(p.channels * (8.0 + 4.0 * (p.more_count + p.less_count)) + 20.0, 150)


class RunningSumS8(KernelOp[RunningParams]):
    """y = old + the sum of x - zero over rows of more, minus that over rows of less, in int32."""

    name = "running_sum_s8"
    params = RunningParams
    inputs = ("old", "more", "less")
    geometry = Geometry(
        lambda p: 1,
        lambda p: ((p.channels,) * 3, p.channels),
        lambda p, y: (
            range(1),
            range(p.more_first, p.more_first + p.more_count),
            range(p.less_first, p.less_first + p.less_count),
        ),
    )
    kernels = (of_element("ge_running_sum", "s8", "ge_running_sum_s8", cost=_running_cost),)
    row_size = 1
    """The bytes of an element of a row."""

    def row_bytes(self, p: RunningParams) -> tuple[tuple[int, ...], int]:
        row = self.row_size * p.channels
        return (4 * p.channels, row, row), 4 * p.channels

    def int_ref(self, p: RunningParams, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        old, more, less = (x.reshape(-1, p.channels) for x in inputs)

        def total(x: Array, first: int, count: int) -> Array:
            return np.asarray((x[first : first + count].astype(np.int32) - p.zero).sum(axis=0, dtype=np.int32))

        added = total(more, p.more_first, p.more_count)
        return np.asarray(old[0] + added - total(less, p.less_first, p.less_count))


class RunningSumS16(RunningSumS8):
    """The same of rows of int16."""

    name = "running_sum_s16"
    kernels = (of_element("ge_running_sum", "s16", "ge_running_sum_s16", cost=_running_cost),)
    row_size = 2


@dataclass(frozen=True)
class GatherParams:
    """The sums that wait, and which of them take up the new rows."""

    channels: int = i32("of each row and of the sums")
    zero: int = i32("the zero point of the rows; 0 for sums of rows")
    waiting: int = i32("sums in the queue")
    period: int = i32("hops from a window to the next one that shares rows with it")
    added: int = i32("rows that are added, at most most")
    most: int = i32(
        "rows that a sum takes up: that in place period * k, from 1 on, begins with the new row added * k - most"
    )


def _gathered(p: GatherParams, number: int) -> range:
    """The new rows that the sum takes up which is `number` hops from being used, before the queue moves."""
    k, other = divmod(number, p.period)
    return range(0) if other else range(max(0, k * p.added - p.most), p.added)


class GatherSumsS8(KernelOp[GatherParams]):
    """y = the queue old without its first sum, then last; each plus the rows - zero of more that it takes up, in int16."""

    name = "gather_sums_s8"
    params = GatherParams
    inputs = ("old", "last", "more")
    geometry = Geometry(
        lambda p: 1,
        lambda p: ((p.waiting * p.channels, p.channels, p.channels), p.waiting * p.channels),
        lambda p, y: (range(1), range(1), range(p.added)),
    )
    kernels = (of_element("ge_gather_sums", "s8", "ge_gather_sums_s8", cost=lambda n, t: _gather_cost(n.params)),)
    row_size = 1
    """The bytes of an element of a row."""

    def row_bytes(self, p: GatherParams) -> tuple[tuple[int, ...], int]:
        queue = 2 * p.waiting * p.channels
        return (queue, 2 * p.channels, self.row_size * p.channels), queue

    def int_ref(self, p: GatherParams, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        old, last, more = (x.reshape(-1, p.channels) for x in inputs)
        sums = np.concatenate([old[1:], last]).astype(np.int32)
        for i in range(p.waiting):
            rows = _gathered(p, i + 1)
            sums[i] += (more[rows.start : rows.stop].astype(np.int32) - p.zero).sum(axis=0)
        return sums.astype(np.int16)


def _gather_cost(p: GatherParams) -> Cost:
    added = sum(len(_gathered(p, i + 1)) for i in range(p.waiting))
    return Cost(p.channels * (5.0 * p.waiting + 6.0 * added) + 20.0, 200)


class GatherSumsS16(GatherSumsS8):
    """The same of rows of int16."""

    name = "gather_sums_s16"
    kernels = (of_element("ge_gather_sums", "s16", "ge_gather_sums_s16", cost=lambda n, t: _gather_cost(n.params)),)
    row_size = 2


@dataclass(frozen=True)
class DelayedParams:
    """The rows that complete a sum."""

    channels: int = i32("of each row and of the sums")
    zero: int = i32("the zero point of the rows; 0 for sums of rows")
    rows: int = i32("rows that are added")


class DelayedSumS8(KernelOp[DelayedParams]):
    """y = the first sum of the queue, plus all rows - zero of more, in int32."""

    name = "delayed_sum_s8"
    params = DelayedParams
    inputs = ("queue", "more")
    geometry = Geometry(lambda p: 1, lambda p: ((p.channels,) * 2, p.channels), lambda p, y: (range(1), range(p.rows)))
    kernels = (of_element("ge_delayed_sum", "s8", "ge_delayed_sum_s8", cost=lambda n, t: _delayed_cost(n.params)),)
    row_size = 1
    """The bytes of an element of a row."""

    def row_bytes(self, p: DelayedParams) -> tuple[tuple[int, ...], int]:
        return (2 * p.channels, self.row_size * p.channels), 4 * p.channels

    def int_ref(self, p: DelayedParams, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        queue, more = (x.reshape(-1, p.channels).astype(np.int32) for x in inputs)
        return np.asarray(queue[0] + (more[: p.rows] - p.zero).sum(axis=0, dtype=np.int32))


def _delayed_cost(p: DelayedParams) -> Cost:
    return Cost(p.channels * (8.0 + 4.0 * p.rows) + 20.0, 120)


class DelayedSumS16(DelayedSumS8):
    """The same of rows of int16."""

    name = "delayed_sum_s16"
    kernels = (of_element("ge_delayed_sum", "s16", "ge_delayed_sum_s16", cost=lambda n, t: _delayed_cost(n.params)),)
    row_size = 2


KERNEL_OPS = (
    RowSumsS8(),
    *(RunningSumS8(), RunningSumS16()),
    *(GatherSumsS8(), GatherSumsS16()),
    *(DelayedSumS8(), DelayedSumS16()),
)
