"""Depthwise convolution on Cortex-M4, M7 and M33 along packed lines of four channels, and tap by tap: when the kernels
apply, their constants and costs.

In: kernel-level depthwise nodes and their params. Out: `Kernel`s. runtime_c/kernels/dsp/depthwise3x3_s8_dsp.c and
depthwise_s8_dsp.c explain how they work.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from glowembed.graph.ir import Array, Node
from glowembed.graph.op import Cost, Kernel, law_number, only, together
from glowembed.graph.target import Target
from glowembed.kernels import dsp
from glowembed.law.fixedpoint import LAWS
from glowembed.law.modes import Mode
from glowembed.ops.conv import Conv2dParams


def _down(p: Conv2dParams) -> int:
    """1 if lines should be columns. A line wastes about three outputs at its ends, so the better axis has fewer and
    longer lines.
    """
    along, down = p.out_h * (p.out_w + 3), p.out_w * (p.out_h + 3)
    return int(down < along and p.out_h <= 64 and p.out_w * p.out_c < 1024)


def _instance(p: Conv2dParams, mode: Mode) -> Mapping[str, int]:
    down = _down(p)
    step = p.out_w * p.out_c if down else p.out_c
    return {"STEP": step, "DOWN": down, "STRIDE": p.stride_h, **law_number(mode)}


def _pairs(p: Conv2dParams) -> int:
    length, stride = (p.out_h, p.stride_h) if _down(p) else (p.out_w, p.stride_w)
    return int(((length - 1) * stride + 4) // 2)


def _why_not(node: Node, mode: Mode) -> str | None:
    p = node.params
    if (p.kernel_h, p.kernel_w, p.dilation_h, p.dilation_w) != (3, 3, 1, 1):
        return "the window is not 3x3"
    if p.stride_h != p.stride_w or p.stride_h > 2:
        return "the stride is not 1 or 2"
    return _any_why_not(node, mode)


def _any_why_not(node: Node, mode: Mode = "default") -> str | None:
    p = node.params
    if p.in_c != p.out_c or not 4 <= p.out_c <= 1023:
        return "it takes 4..1023 channels in and as many out"
    return dsp.depthwise_sums_why_not(node, mode)


def _arrange(constants: Mapping[str, Array], p: Conv2dParams, mode: Mode) -> Mapping[str, Array]:
    """For each channel: bias, multiplier, three words of weights, then the other requantization words."""
    taps = constants["weights"].transpose((1, 0, 2) if _down(p) else (0, 1, 2))
    law = dsp.law_words(constants["multiplier"], p, mode)
    packed = np.zeros((p.out_c, 4 + law.shape[1]), np.int32)
    packed[:, 0], packed[:, 1], packed[:, 5:] = constants["bias"], law[:, 0], law[:, 1:]
    bytes_ = packed[:, 2:5].copy().view(np.int8).reshape(p.out_c, 3, 4)
    bytes_[:, :, :3] = taps.transpose(2, 0, 1)
    packed[:, 2:5] = bytes_.reshape(p.out_c, 12).view(np.int32)
    order = [c for start in dsp.block_starts(p.out_c) for c in range(start, start + 4)]
    return {"stream": packed[order].reshape(-1)}


def _pairs_arrange(constants: Mapping[str, Array], p: Conv2dParams) -> Mapping[str, Array]:
    """For each channel: bias, multiplier, and for each tap row (w0, w2) and (w1, 0) as int16."""
    taps = constants["weights"].transpose((1, 0, 2) if _down(p) else (0, 1, 2)).transpose(2, 0, 1).astype(np.int64)
    rows = np.stack([(taps[..., 0] & 0xFFFF) | (taps[..., 2] & 0xFFFF) << 16, taps[..., 1] & 0xFFFF], axis=-1)
    scale = np.stack([constants["bias"], constants["multiplier"]], axis=1).astype(np.int64)
    packed = np.concatenate([scale, rows.reshape(p.out_c, 6)], axis=1) & 0xFFFFFFFF
    order = [c for start in dsp.block_starts(p.out_c) for c in range(start, start + 4)]
    return {"stream": packed[order].astype(np.uint32).view(np.int32).reshape(-1)}


def _any_arrange(constants: Mapping[str, Array], p: Conv2dParams) -> Mapping[str, Array]:
    """For each four channels: bias 0 2 1 3, multipliers, for each tap (w0, w2) and (w1, w3) as int16."""
    up = 32 - p.shift
    index = np.asarray([range(s, s + 4) for s in dsp.block_starts(p.out_c)])
    weights = constants["weights"].reshape(-1, p.out_c)[:, index].astype(np.int64) << up
    taps = (weights[..., :2] & 0xFFFF) | ((weights[..., 2:] & 0xFFFF) << 16)
    bias = (constants["bias"].astype(np.int64) << up)[index][:, [0, 2, 1, 3]]
    blocks = [bias, constants["multiplier"].astype(np.int64)[index], taps.transpose(1, 0, 2).reshape(len(index), -1)]
    return {"stream": (np.concatenate(blocks, axis=1) & 0xFFFFFFFF).astype(np.uint32).reshape(-1)}


def _any_cost(node: Node, target: Target) -> Cost:
    p = node.params
    outputs = p.out_h * p.out_w * -(-p.out_c // 4)
    return Cost(outputs * (110 + p.kernel_h * (25 + 13 * p.kernel_w)) + 80 * p.out_h * p.out_w, 1420)


_LAW_CYCLES: Mapping[Mode, float] = {"default": 0.0, "glow": 3.8, "tflite": 3.3}
"""Additional cycles for each output, by law."""


def _lines_cost(p: Conv2dParams, lines: int, length: int, mode: Mode) -> float:
    """The cost for four channels of `lines` lines of outputs, each `length` long; inputs are packed once."""
    channel, output = (41, 14.25) if p.stride_h == 1 else (50, 15.5)
    packed = 35 + 15 * ((length - 1) * p.stride_h + 4) // 2
    return float(lines * (4 * (channel + (output + _LAW_CYCLES[mode]) * length) + 60 + p.stride_h * packed) + 400)


def _cost(node: Node, target: Target, mode: Mode = "default") -> Cost:
    p = node.params
    down = _down(p)
    lines, length = (p.out_w, p.out_h) if down else (p.out_h, p.out_w)
    code = 1250 + 800 * down - (300 if p.stride_h == 2 else 0)
    return Cost(-(-p.out_c // 4) * _lines_cost(p, lines, length, mode), code, 400)


def _rows_cost(node: Node, target: Target, rows: int, mode: Mode) -> float:
    """The cost of some rows. If rows lie in slots, vertical lines are only one row long, because the kernel starts
    again with each row.
    """
    p = node.params
    if rows == p.out_h:
        return _cost(node, target, mode).cycles
    lines, length, times = (p.out_w, 1, rows) if _down(p) else (rows, p.out_w, 1)
    return float(times * -(-p.out_c // 4) * _lines_cost(p, lines, length, mode))


def _same_place(p: Conv2dParams) -> bool:
    """Whether the output may lie exactly over the input, because three lines of four channels are in scratch before the
    first of them is written.
    """
    return p.stride_h == p.stride_w == 1 and (p.in_h, p.in_w) == (p.out_h, p.out_w) and p.out_c % 4 == 0


def lines_kernel(mode: Mode = "default") -> Kernel:
    """The kernel for 3x3 windows in one law."""
    taps = 224 if LAWS[mode].by_channel else 192
    return Kernel(
        "ge_depthwise3x3_s8_dsp",
        isa="dsp",
        when=lambda n, t: _why_not(n, mode),
        constants={"stream": "int32_t"},
        arrange=lambda constants, p: _arrange(constants, p, mode),
        instance=lambda p: _instance(p, mode),
        scratch=lambda p: taps + 48 * _pairs(p),
        cost=lambda n, t: _cost(n, t, mode),
        rows_cost=lambda n, t, rows: _rows_cost(n, t, rows, mode),
        same_place=_same_place,
        blocks=lambda p: 0 if p.out_c % 4 else 4,
    )


ANY = Kernel(
    "ge_depthwise_s8_dsp",
    isa="dsp",
    when=lambda n, t: _any_why_not(n),
    constants={"stream": "uint32_t"},
    arrange=_any_arrange,
    cost=_any_cost,
    store="rows",
)
"""The kernel for any window, tap by tap."""


_LINES = lines_kernel()
ASYMMETRIC = (
    replace(
        _LINES,
        symbol="ge_depthwise3x3_aw_s8_dsp",
        template=_LINES.symbol,
        words={"PAIRS": "1"},
        arrange=lambda constants, p: _pairs_arrange(dsp.without_zero_points(constants), p),
    ),
    replace(
        ANY,
        symbol="ge_depthwise_aw_s8_dsp",
        template=ANY.symbol,
        arrange=lambda constants, p: _any_arrange(dsp.without_zero_points(constants), p),
    ),
)
"""The same kernels for asymmetric weights, which are stored minus their zero points, in 16 bits."""


def _lines(mode: Mode) -> tuple[Kernel, ...]:
    return (lines_kernel(mode),) if mode in _LAW_CYCLES else ()


KERNELS = {"depthwise_s8": together(only(ANY), _lines), "depthwise_aw_s8": only(*ASYMMETRIC)}
