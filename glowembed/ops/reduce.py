"""Pools over a whole image, computed row by row.

The planner uses them so that no row has to be kept. They are kernel-level ops only: sum_rows_s8 adds rows in int32, and
mean_s32_s8 divides at the end, with the multiplier of avgpool_s8 and the same bits; max_rows_s8 has the bits of
maxpool_s8.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from glowembed.graph.cstruct import i32
from glowembed.graph.geometry import per_row, whole
from glowembed.graph.ir import Array, Node, QType
from glowembed.graph.op import Cost, Kernel, KernelOp, LowerContext, in_all_modes, in_mode
from glowembed.graph.spatial import PoolParams
from glowembed.law import fixedpoint
from glowembed.records import dataclass


@dataclass(frozen=True)
class RowsParams:
    """The size of the image."""

    rows: int = i32("of the input")
    columns: int = i32("of the input")
    channels: int = i32("of input and output")


@dataclass(frozen=True)
class MeanParams:
    """The constants with which the sums become means."""

    channels: int = i32("of input and output")
    zero: int = i32("the sum of so many input zero points")
    shift: int = i32("of the requantization, 1..32")
    out_zero_point: int = i32("-128..127")
    lo: int = i32("smallest output, the fused activation included")
    hi: int = i32("largest output")


def split_mean(node: Node, c: LowerContext, mode: str) -> bool:
    """Split a node avgpool_s8 whose one window is the whole image into sum_rows_s8 and mean_s32_s8."""
    p, x, y = node.params, node.inputs[0], node.outputs[0]
    if not is_whole(p):
        return False
    total = c.derive(y, "sum", (1, p.channels), QType("int32", (c.qtype(x).scale[0],), (0,)))
    c.add(node, "sum_rows_s8", [x], total, RowsParams(p.in_h, p.in_w, p.channels), role="sum")
    mean = MeanParams(p.channels, p.in_h * p.in_w * p.in_zero_point, p.shift, p.out_zero_point, p.lo, p.hi)
    c.add(node, in_mode("mean_s32_s8", mode), [total], y, mean, node.constants, role="mean")
    return True


def split_max(node: Node, c: LowerContext) -> bool:
    """Replace a node maxpool_s8 whose one window is the whole image by max_rows_s8."""
    p = node.params
    if not is_whole(p):
        return False
    c.nodes.append(replace(node, op="max_rows_s8", params=RowsParams(p.in_h, p.in_w, p.channels), kernel=None))
    return True


def is_whole(p: PoolParams) -> bool:
    """Whether one window covers the whole image."""
    whole = (p.kernel_h, p.kernel_w) == (p.in_h, p.in_w) and (p.out_h, p.out_w) == (1, 1)
    return whole and p.in_h > 1 and p.dilation_h == p.dilation_w == 1 and p.pad_top == p.pad_left == 0


class _Reduction(KernelOp[RowsParams]):
    params = RowsParams
    accumulates = True
    geometry = per_row(lambda p: ((p.columns * p.channels,), p.channels))


def _cost(node: Node, _: Any) -> Cost:
    p = node.params
    return Cost(8.0 * p.rows * p.columns * p.channels, 140)


class SumRowsS8(_Reduction):
    """The int32 sum over rows and columns."""

    name = "sum_rows_s8"
    kernels = (Kernel("ge_sum_rows_s8", cost=_cost, store="rows"),)
    element_bytes = (1, 4)

    def int_ref(self, p: RowsParams, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        return np.asarray(inputs[0].reshape(-1, p.channels).sum(axis=0, dtype=np.int32))


class MaxRowsS8(_Reduction):
    """The maximum over rows and columns."""

    name = "max_rows_s8"
    kernels = (Kernel("ge_max_rows_s8", cost=_cost, store="rows"),)

    def int_ref(self, p: RowsParams, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        return np.asarray(inputs[0].reshape(-1, p.channels).max(axis=0))


class MeanS32S8(KernelOp[MeanParams]):
    """y = requantize(sum - zero)."""

    name = "mean_s32_s8"
    params = MeanParams
    inputs = ("sum",)
    constants = {"multiplier": "int32_t"}
    kernels = (Kernel("ge_mean_s32_s8", cost=lambda n, t: Cost(25.0 * n.params.channels, 270)),)
    geometry = whole(lambda p: ((p.channels,), p.channels))
    element_bytes = (4, 1)

    def int_ref(self, p: MeanParams, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        acc = inputs[0].reshape(1, p.channels).astype(np.int64) - p.zero
        q = fixedpoint.Requant(tuple(constants["multiplier"].reshape(-1).tolist()), p.shift, self.requantization)
        return fixedpoint.requantize(acc.T, q, p.out_zero_point, p.lo, p.hi).T


KERNEL_OPS = (SumRowsS8(), MaxRowsS8(), *in_all_modes(MeanS32S8()))
