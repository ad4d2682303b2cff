"""Depthwise 3x3 on Cortex-M4, M7 and M33 from rows as they lie: when it is legal, its constants and its cost.

In: kernel-level depthwise nodes and their params. Out: the `Kernel`, for the op file to list.
runtime_c/kernels/depthwise3x3_rows_s8_dsp.c says how it works.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from glowembed.ir import Array, Node
from glowembed.op import Cost, Kernel
from glowembed.target import Target

UNROLL_MAX = 6
REST_MAX = 11
"""Outputs in the loop, and as many of a row as are written out without one."""

OFFSET_MAX = 4095
"""Of a load."""


def _right(p: Any) -> int:
    """Columns of padding on the right, as far as windows reach."""
    return int((p.out_w - 1) * p.stride_w + 3 - p.pad_left - p.in_w)


def _loop(p: Any) -> tuple[int, int, int]:
    """(turns, outputs in a turn, outputs behind the loop) for the outputs whose right column is no padding."""
    count, stride, step = p.out_w - max(_right(p), 0), p.stride_w, p.out_c
    most = OFFSET_MAX // step
    unit = 3 if stride == 1 else 2
    if count <= REST_MAX and (count + 1) * stride + 2 <= most:
        return 0, unit, count
    unroll = max((u for u in range(unit, UNROLL_MAX + 1, unit) if (u + 1) * stride + 2 <= most), default=0)
    return (count // unroll, unroll, count % unroll) if unroll and unroll <= count else (0, 0, count)


def _instance(p: Any) -> Mapping[str, int]:
    turns, unroll, rest = _loop(p)
    return {
        "STEP": p.out_c, "STRIDE": p.stride_w, "LEFT": p.pad_left, "RIGHT": max(_right(p), 0),
        "TURNS": turns, "UNROLL": unroll, "REST": rest, "UP": 32 - p.shift,
    }  # fmt: skip


def _window_why_not(p: Any) -> str | None:
    if p.in_c != p.out_c:
        return "there are more channels out than in"
    if (p.kernel_h, p.kernel_w, p.dilation_h, p.dilation_w) != (3, 3, 1, 1):
        return "the window is not 3x3"
    if p.stride_h != p.stride_w or p.stride_h > 2:
        return "the stride is not 1 or 2"
    bottom = (p.out_h - 1) * p.stride_h + 3 - p.pad_top - p.in_h
    if max(p.pad_top, p.pad_left, bottom, _right(p)) > 1:
        return "there is more than one row or column of padding"
    turns, unroll, _ = _loop(p)
    if not unroll or turns * unroll * p.stride_w * p.out_c > 0xFFFF:
        return "a row has too many bytes"
    return None


def rows_kernel(sums_why_not: Callable[[Node], str | None]) -> Kernel:
    """The kernel; `sums_why_not` proves that sums fit the shift of the requantization."""
    return Kernel(
        "ge_depthwise3x3_rows_s8_dsp",
        isa="dsp",
        when=lambda n, t: _window_why_not(n.params) or sums_why_not(n),
        constants={"stream": "int32_t"},
        arrange=_arrange,
        instance=_instance,
        cost=_cost,
        store="rows",
    )


def _arrange(constants: Mapping[str, Array], p: Any) -> Mapping[str, Array]:
    """For each channel: bias, multiplier, 12 bytes of weights so that SXTB16 makes operands of them.

    w[row][column]: 00 01 10 11 | 02 20 12 21 | 22 0 0 0.
    """
    w = constants["weights"].reshape(9, p.out_c)
    packed = np.zeros((p.out_c, 5), np.int32)
    packed[:, 0], packed[:, 1] = constants["bias"], constants["multiplier"]
    packed[:, 2:].view(np.int8)[:, :9] = w[[0, 1, 3, 4, 2, 6, 5, 7, 8]].T
    return {"stream": packed.reshape(-1)}


def _cost(node: Node, target: Target) -> Cost:
    p = node.params
    turns, unroll, rest = _loop(p)
    row = 35 + (18 if p.stride_w == 1 else 22) * p.out_w + turns * 10 + (p.shift < 32) * p.out_w
    code = 250 + 64 * (unroll * (turns > 0) + rest)
    return Cost(p.out_h * (p.out_c * row + 90), code)
