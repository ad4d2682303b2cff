"""Depthwise convolution on Cortex-M4, M7 and M33 that reads rows in place, for 3x3 and any window: when the kernels
apply, their constants and costs.

In: kernel-level depthwise nodes and their params. Out: `Kernel`s. runtime_c/kernels/dsp/depthwise3x3_rows_s8_dsp.c and
depthwise_window_s8_dsp.c explain how they work.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from glowembed.graph.ir import Array, Node
from glowembed.graph.op import Cost, Kernel, law_number
from glowembed.graph.target import Target
from glowembed.kernels import dsp
from glowembed.law.modes import Mode
from glowembed.ops.conv import Conv2dParams

UNROLL_MAX = 6
REST_MAX = 11
"""The most outputs in the loop, and the most outputs of a row that are unrolled without a loop."""

OFFSET_MAX = 4095
"""The largest offset of a load."""


def _right(p: Conv2dParams) -> int:
    """The columns of padding on the right that windows include."""
    return int((p.out_w - 1) * p.stride_w + 3 - p.pad_left - p.in_w)


def _loop(p: Conv2dParams) -> tuple[int, int, int]:
    """(turns, outputs in a turn, outputs after the loop) for the outputs whose right column is not padding."""
    count, stride, step = p.out_w - max(_right(p), 0), p.stride_w, p.out_c
    most = OFFSET_MAX // step
    unit = 3 if stride == 1 else 2
    if count <= REST_MAX and (count + 1) * stride + 2 <= most:
        return 0, unit, count
    unroll = max((u for u in range(unit, UNROLL_MAX + 1, unit) if (u + 1) * stride + 2 <= most), default=0)
    return (count // unroll, unroll, count % unroll) if unroll and unroll <= count else (0, 0, count)


def _pairs(p: Conv2dParams, mode: Mode) -> bool:
    """Whether two rows can be computed at a time: four input rows are in reach of one address.

    A layer that pads above and below is a whole map, which plans mostly compute row by row: it would only have the code.
    """
    turns, _, rest = _loop(p)
    if p.pad_top > 0 and p.out_h + 2 - p.pad_top > p.in_h:
        return False
    reach = (3 * p.in_w + p.in_w - 1) * p.in_c
    return mode == "default" and p.stride_w == 1 and turns == 0 and rest >= 2 and reach <= OFFSET_MAX


def _instance(p: Conv2dParams, mode: Mode) -> Mapping[str, int]:
    turns, unroll, rest = _loop(p)
    pairs = _pairs(p, mode)
    return {
        "STEP": p.out_c, "STRIDE": p.stride_w, "LEFT": p.pad_left, "RIGHT": max(_right(p), 0),
        "TURNS": turns, "UNROLL": unroll, "REST": rest, "UP": dsp.up_of(p, mode),
        "PAIRS": int(pairs), "ROW": p.in_w * p.in_c if pairs else 0, **law_number(mode),
    }  # fmt: skip


def _window_why_not(p: Conv2dParams) -> str | None:
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


def rows_kernel(mode: Mode = "default") -> Kernel:
    """The kernel in one law."""
    return Kernel(
        "ge_depthwise3x3_rows_s8_dsp",
        isa="dsp",
        when=lambda n, t: _window_why_not(n.params) or dsp.depthwise_sums_why_not(n, mode),
        constants={"stream": "int32_t"},
        arrange=lambda constants, p: _arrange(constants, p, mode),
        instance=lambda p: _instance(p, mode),
        cost=lambda n, t: _cost(n.params, mode, _pairs(n.params, mode)),
        rows_cost=lambda n, t, rows: _rows_cost(n.params, rows, mode, _pairs(n.params, mode)),
        store="rows",
    )


def part_kernel(mode: Mode = "default") -> Kernel:
    """The kernel that computes some channels, from the text of the one for all of them, which is as fast."""
    rows = rows_kernel(mode)

    def cost(node: Node, target: Target) -> Cost:
        whole, p = _cost(node.params, mode, False), node.params
        return replace(whole, cycles=p.groups / p.out_c * (whole.cycles - p.out_h * 90) + p.out_h * 100)

    return replace(
        rows,
        symbol="ge_depthwise3x3_part_s8_dsp",
        template=rows.symbol,
        headers={"ge_isa_dsp_depthwise_rows.h": "depthwise_part.h"},
        option="prefetch",
        instance=lambda p: {**_instance(p, mode), "PAIRS": 0, "ROW": 0},
        cost=cost,
        rows_cost=None,
        store="disjoint",
        blocks=lambda p: 4 if p.out_c % 4 == 0 else 1,
    )


def _arrange(constants: Mapping[str, Array], p: Conv2dParams, mode: Mode) -> Mapping[str, Array]:
    """For each channel: bias, requantization words, and 12 bytes of weights in the order in which SXTB16 gives
    operands.

    w[row][column]: 00 01 10 11 | 02 20 12 21 | 22 0 0 0.
    """
    w = constants["weights"].reshape(9, p.out_c)
    taps = np.zeros((p.out_c, 12), np.int8)
    taps[:, :9] = w[[0, 1, 3, 4, 2, 6, 5, 7, 8]].T
    law = dsp.law_words(constants["multiplier"], p, mode).astype(np.int32)
    packed = np.concatenate([constants["bias"][:, None].astype(np.int32), law, taps.view(np.int32)], axis=1)
    return {"stream": packed.reshape(-1)}


_ROWS_LAW_CYCLES: Mapping[Mode, int] = {"default": 0, "glow": 6, "tflite": 4}
"""Additional cycles for each output, by law."""


def _cost(p: Conv2dParams, mode: Mode, pairs: bool) -> Cost:
    turns, unroll, rest = _loop(p)
    code = 230 + 64 * (unroll * (turns > 0) + rest)
    return Cost(_rows_cost(p, p.out_h, mode, pairs), code + pairs * (210 + 120 * rest), 260 + 160 * pairs)


def _rows_cost(p: Conv2dParams, rows: int, mode: Mode, pairs: bool) -> float:
    """The cost of some rows. Of those that are computed in pairs, the ones that see padding above or below are computed
    alone.
    """
    turns, up = _loop(p)[0], dsp.up_of(p, mode) > 0
    output = (18 if p.stride_w == 1 else 22) + up + _ROWS_LAW_CYCLES[mode]
    row = p.out_c * (35 + output * p.out_w + turns * 10) + 90
    if not pairs:
        return float(rows * row)
    alone = (p.pad_top > 0) + (p.out_h + 2 - p.pad_top > p.in_h) if rows == p.out_h else 0
    together = max(rows - alone, 0) // 2
    pair = p.out_c * (34 + (34 + 2 * up) * p.out_w) + 220
    return float((rows - 2 * together) * row + together * pair)


UNROLL_TAPS, UNROLL_ROWS = 18, 40
"""The most taps that are unrolled, and the most for a window of one column, whose rows have no loop."""


def _pitch(p: Conv2dParams) -> int:
    """The bytes from one pixel to the next, copied or not."""
    return max(int(p.out_c), 4)


def _columns(p: Conv2dParams) -> int:
    """The columns that an output row depends on, including padding."""
    return int((p.out_w - 1) * p.stride_w + (p.kernel_w - 1) * p.dilation_w + 1)


def _copies(p: Conv2dParams) -> bool:
    return bool(p.in_c != _pitch(p) or p.pad_left > 0 or _columns(p) > p.in_w)


def _any_instance(p: Conv2dParams, mode: Mode = "default") -> Mapping[str, int]:
    loop = p.kernel_w > 1 and p.kernel_h * p.kernel_w > UNROLL_TAPS and p.kernel_h > 1
    step = p.dilation_w * _pitch(p) if p.kernel_w > 1 else 0
    return {
        "ROWS": p.kernel_h, "TAPS": p.kernel_w, "STEP": step, "UP": dsp.up_of(p, mode), "LOOP": int(loop), **law_number(mode)
    }  # fmt: skip


def _any_why_not(p: Conv2dParams) -> str | None:
    if (p.kernel_w - 1) * p.dilation_w * _pitch(p) > OFFSET_MAX:
        return "a row of the window has too many bytes"
    if p.kernel_h > UNROLL_ROWS or p.kernel_w > UNROLL_ROWS:
        return "the window is too large"
    return None


def _any_scratch(p: Conv2dParams) -> int:
    row = _columns(p) * _pitch(p) + 3 & ~3
    span = (p.kernel_h - 1) * p.dilation_h + 1
    ring = span if _copies(p) else 0
    return int(4 * max(p.kernel_h, 5) + 4 * span + row * (1 + ring) + (4 * p.out_w if p.out_c < 4 else 0))


def _any_arrange(constants: Mapping[str, Array], p: Conv2dParams, mode: Mode) -> Mapping[str, Array]:
    """For each four channels: bias 0 2 1 3, a word of four weights for each tap, requantization words."""
    weights, bias = constants["weights"].reshape(-1, p.out_c), constants["bias"]
    law = dsp.law_words(constants["multiplier"], p, mode)
    if p.out_c < 4:
        few = (0, 4 - p.out_c)
        weights, bias, law = np.pad(weights, ((0, 0), few)), np.pad(bias, few), np.pad(law, (few, (0, 0)))
    index = np.asarray([range(s, s + 4) for s in dsp.block_starts(len(bias))])
    words = np.ascontiguousarray(weights[:, index].transpose(1, 0, 2)).astype(np.int8).view("<u4")[..., 0]
    parts = [bias[index][:, [0, 2, 1, 3]].astype(np.int64), words, law[index].reshape(len(index), -1)]
    return dsp.stream_of(np.concatenate(parts, axis=1))


LAW_CYCLES: Mapping[Mode, int] = {"default": 0, "onnx": 46, "glow": 22, "tflite": 22}
"""Additional cycles for four outputs, by law."""


def _any_rows_cost(node: Node, target: Target, rows: int, mode: Mode = "default") -> float:
    """The cost of some rows, in blocks of four outputs. Rows are copied once, except that every call copies those of
    its first window again.
    """
    p = node.params
    blocks = -(-p.out_c // 4)
    pairs, odd = (
        (p.kernel_h // 2, p.kernel_h % 2)
        if p.kernel_w == 1
        else (p.kernel_w // 2 * p.kernel_h, p.kernel_w % 2 * p.kernel_h)
    )
    loads = 3.0 * pairs + 2.0 * odd if p.kernel_w == 1 else 3.0 * p.kernel_h
    loop = 9.0 * p.kernel_h if _any_instance(p)["LOOP"] else 0.0
    block = 28 + LAW_CYCLES[mode] + (4 if dsp.up_of(p, mode) else 0) + 21.0 * pairs + 11.0 * odd + loads + loop
    outputs = rows * p.out_w * (blocks * block + 12) + rows * (110 + 14 * p.kernel_h) + 1.2 * _pitch(p) * _columns(p)
    copied = min((rows - 1) * p.stride_h + (p.kernel_h - 1) * p.dilation_h + 1, p.in_h) if _copies(p) else 0
    each = 1.3 if p.in_c == _pitch(p) else 7.0
    few = 10.0 * rows * p.out_w * p.out_c if p.out_c < 4 else 0.0
    return float(outputs + copied * (60 + each * _columns(p) * _pitch(p)) + few + 150)


def window_kernel(mode: Mode = "default") -> Kernel:
    """The kernel for any window, in one law."""

    def cost(node: Node, target: Target) -> Cost:
        numbers = _any_instance(node.params)
        rows = 1 if numbers["LOOP"] else numbers["ROWS"]
        return Cost(_any_rows_cost(node, target, node.params.out_h, mode), 900 + 42 * numbers["TAPS"] * rows, 0)

    return Kernel(
        "ge_depthwise_window_s8_dsp",
        isa="dsp",
        when=lambda n, t: _any_why_not(n.params) or dsp.depthwise_sums_why_not(n, mode),
        constants={"stream": "uint32_t"},
        arrange=lambda constants, p: _any_arrange(constants, p, mode),
        instance=lambda p: _any_instance(p, mode),
        scratch=_any_scratch,
        cost=cost,
        rows_cost=lambda n, t, rows: _any_rows_cost(n, t, rows, mode),
        store="rows",
    )


def _kernels(mode: Mode) -> tuple[Kernel, ...]:
    return (*((rows_kernel(mode), part_kernel(mode)) if mode in _ROWS_LAW_CYCLES else ()), window_kernel(mode))


KERNELS = {"depthwise_s8": _kernels}
