"""Sums over time of a stream: kernel-level ops that `lower/sums.py` makes of a mean over all rows of a window.

row_sums_s8 adds up the columns of each row, so that a row that is kept from hop to hop takes two bytes a channel, however wide it
is. running_sum_s8 and running_sum_s16 go from the sum of one window to that of the next: new rows are added, old ones subtracted. All
sums are exact, so their order does not matter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from glowembed.graph.cstruct import i32
from glowembed.graph.geometry import Geometry, per_row, sliding
from glowembed.graph.ir import Array, Node
from glowembed.graph.op import Cost, Kernel, KernelOp, of_element

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


KERNEL_OPS = (RowSumsS8(), RunningSumS8(), RunningSumS16())
