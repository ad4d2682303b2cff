"""Convolution and fully connected layers of int16 on Cortex-M4, M7 and M33 with 32-bit sums: when the kernels apply,
their constants and costs.

In: kernel-level nodes of int16 (ops/conv_wide.py), params and constants. Out: `Kernel`s. runtime_c/kernels/dsp/
ge_isa_dsp_wide.h, ge_dsp_wide_depthwise.h and ge_isa_dsp_wide_fc.h explain how they work.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from glowembed.graph.ir import Array, Node
from glowembed.graph.op import Cost, Kernel, only
from glowembed.kernels import dsp
from glowembed.kernels.shared.wide import grouped, of_weight, sums_why_not
from glowembed.ops.conv_wide import Conv2dS16Params, FcS16Params


def _channels_last(node: Node) -> tuple[int, ...]:
    return tuple(range(1, node.constants["weights"].materialize().ndim))


UNROLL = 16
"""The number of steps in the loop."""


def _steps(p: Conv2dS16Params, narrow: bool) -> int:
    """The number of pairs of products of an output. Expanded weights come in fours."""
    products = p.kernel_h * p.kernel_w * (p.in_c // p.groups)
    return int(-(-products // 4) * 2 if narrow else -(-products // 2))


def _tile(steps: int) -> int:
    """The pixels that the kernel copies at a time (ge_dsp_wide_tile)."""
    return min(max(2048 // steps & ~1, 8), 64)


def _conv_why_not(node: Node) -> str | None:
    if node.params.out_c // node.params.groups < 4:
        return "a group has fewer than 4 output channels"
    return sums_why_not(node, _channels_last(node))


STATE = 72
"""The bytes of ge_dsp_wide_call, which is in scratch and not on the stack."""


def _conv_scratch(p: Conv2dS16Params, narrow: bool) -> int:
    steps, weights = _steps(p, narrow), 32 + 16 * _steps(p, narrow) if narrow else 0
    return STATE + 4 * (_tile(steps) + 2) + 4 * steps * _tile(steps) + weights


def _conv_rows_cost(p: Conv2dS16Params, narrow: bool, rows: int) -> float:
    steps, pixels = _steps(p, narrow), rows * p.out_w
    tiles = -(-pixels // _tile(steps))
    fours = p.groups * -(-(p.out_c // p.groups) // 4)
    pair = 60 + 16 * steps + 6 * -(-steps // UNROLL)
    expand = 10 * steps + 40 if narrow else 0
    window = 70 + 3.2 * steps + 25 * p.kernel_h
    return float(fours * ((pixels + tiles) / 2 * pair + tiles * (70 + expand)) + pixels * p.groups * window + 200)


def _conv_kernel(weight: str) -> Kernel:
    narrow = weight == "int8_t"

    def stream(constants: Mapping[str, Array], p: Conv2dS16Params) -> Mapping[str, Array]:
        parts = grouped(constants, p.groups)
        return dsp.stream_of(np.concatenate([_fours(w.reshape(len(w), -1), b, m, narrow) for w, b, m in parts]))

    return Kernel(
        **of_weight("conv2d", "dsp", weight),
        isa="dsp",
        when=lambda node, target: _conv_why_not(node),
        constants={"stream": "uint32_t"},
        arrange=stream,
        scratch=lambda p: _conv_scratch(p, narrow),
        cost=lambda node, target: Cost(_conv_rows_cost(node.params, narrow, node.params.out_h), 2300),
        rows_cost=lambda node, target, rows: _conv_rows_cost(node.params, narrow, rows),
        store=lambda p: "rows" if p.groups == 1 else "disjoint",
    )


def _fours(weights: Array, bias: Array, multiplier: Array, narrow: bool) -> Array:
    """For each four channels: start values, weights of the four for each pair of k (or for each four, as bytes k0 k2 k1 k3),
    multipliers. weights [channels, K].
    """
    channels, count = weights.shape
    index = np.asarray([range(s, s + 4) for s in dsp.block_starts(channels)])
    unit = 4 if narrow else 2
    padded = np.pad(weights, ((0, 0), (0, -count % unit)))
    if narrow:
        words = padded.astype(np.int8).reshape(channels, -1, 4)[:, :, [0, 2, 1, 3]].copy().view("<u4")[..., 0]
    else:
        words = np.ascontiguousarray(padded.astype("<i2")).view("<u4")
    blocks = words[index].transpose(0, 2, 1).reshape(len(index), -1).astype(np.int64)
    parts = [bias.astype(np.int64)[index], blocks, multiplier.astype(np.int64)[index]]
    return np.concatenate(parts, axis=1).reshape(-1)


NARROW = _conv_kernel("int8_t")
WHOLE = _conv_kernel("int16_t")


def lines_why_not(p: Conv2dS16Params) -> str | None:
    """The reason why ge_dsp_wide_depthwise.h does not compute a depthwise convolution."""
    window = (p.kernel_h, p.kernel_w, p.dilation_h, p.dilation_w, p.stride_h, p.stride_w)
    if window != (3, 3, 1, 1, 1, 1):
        return "the window is not 3x3 with stride 1"
    if p.in_c != p.out_c or p.out_c < 2:
        return "it takes 2 channels and more in, and as many out"
    return None


def lines_scratch(p: Conv2dS16Params) -> int:
    """Bytes for the blocks of four channels and three lines of them."""
    return int(208 + 48 * ((max(p.out_h, p.out_w) + 3) // 2))


def lines_rows_cost(p: Conv2dS16Params, rows: int, each: float) -> float:
    """Cycles of ge_dsp_wide_depthwise.h. each: those of an output in the loop."""
    lines, length = (p.out_w, rows) if rows > p.out_w else (rows, p.out_w)
    pack = 140 + 9.5 * length
    four = lines * (4 * (75 + each * length) + pack + 90) + 2 * pack + 500
    return float(-(-p.out_c // 4) * four + 100)


def _depthwise_kernel(weight: str) -> Kernel:
    return Kernel(
        **of_weight("depthwise3x3", "dsp", weight),
        isa="dsp",
        when=lambda node, target: lines_why_not(node.params) or sums_why_not(node, (0, 1)),
        scratch=lines_scratch,
        cost=lambda node, target: Cost(lines_rows_cost(node.params, node.params.out_h, 15.3), 1900),
        rows_cost=lambda node, target, rows: lines_rows_cost(node.params, rows, 15.3),
    )


def _any_why_not(node: Node) -> str | None:
    zero = node.params.in_zero_point
    return f"inputs have a zero point of {zero}" if zero else sums_why_not(node, (0, 1))


def _any_rows_cost(p: Conv2dS16Params, rows: int) -> float:
    tap = 15.5 if p.in_c == p.out_c else 21.0
    four = 130 + p.kernel_h * (28 + tap * p.kernel_w)
    return float(rows * p.out_w * (60 + 6 * p.kernel_w + -(-p.out_c // 4) * four) + 200)


def _any_depthwise(weight: str) -> Kernel:
    narrow = weight == "int8_t"

    def stream(constants: Mapping[str, Array], p: Conv2dS16Params) -> Mapping[str, Array]:
        """For each four channels: biases, multipliers, for each tap a word of bytes 0 2 1 3, or two of half-words."""
        four = dsp.fours(p.out_c)
        taps = constants["weights"].reshape(-1, p.out_c)[:, four].transpose(1, 0, 2)
        ordered = taps[..., [0, 2, 1, 3]].astype(np.int8) if narrow else taps.astype("<i2")
        words = np.ascontiguousarray(ordered).view("<u4").reshape(len(four), -1).astype(np.int64)
        bias, multiplier = constants["bias"].astype(np.int64)[four], constants["multiplier"].astype(np.int64)[four]
        return dsp.stream_of(np.concatenate([bias, multiplier, words], axis=1))

    named = of_weight("depthwise", "dsp", weight)
    return Kernel(
        **({"symbol": named["symbol"]} if narrow else {**named, "words": {"WORDS": "2"}}),
        isa="dsp",
        when=lambda node, target: _any_why_not(node),
        constants={"stream": "uint32_t"},
        arrange=stream,
        cost=lambda node, target: Cost(_any_rows_cost(node.params, node.params.out_h), 900),
        rows_cost=lambda node, target, rows: _any_rows_cost(node.params, rows),
        store="rows",
    )


def _shared(constants: Mapping[str, Array], p: FcS16Params) -> Mapping[str, Array]:
    """For each four outputs: S01 (64 bits), S23 (64 bits), B01, B23, the pairs of k of both pairs of channels, multipliers."""
    index = np.asarray([[min(c, p.out_c - 1) for c in range(s, s + 4)] for s in dsp.block_starts(p.out_c)])
    weights = np.pad(constants["weights"].astype(np.int64), ((0, 0), (0, -p.in_c % 16)))[index]
    bias, multiplier = constants["bias"].astype(np.int64)[index], constants["multiplier"].astype(np.int64)[index]
    halves = 256 * weights[:, 0::2] + weights[:, 1::2]
    pairs = (halves[..., 0::2] & 0xFFFF) | (halves[..., 1::2] & 0xFFFF) << 16
    starts = 256 * bias[:, 0::2] + bias[:, 1::2]
    both = np.stack([starts & 0xFFFFFFFF, starts >> 32], axis=-1).reshape(len(index), 4)
    steps = pairs.transpose(0, 2, 1).reshape(len(index), -1)
    return dsp.stream_of(np.concatenate([both, bias[:, 1::2], steps, multiplier], axis=1))


def _whole(constants: Mapping[str, Array], p: FcS16Params) -> Mapping[str, Array]:
    """For each four outputs: start values, the pairs of k of the four, multipliers."""
    index = np.asarray([[min(c, p.out_c - 1) for c in range(s, s + 4)] for s in dsp.block_starts(p.out_c)])
    weights = np.pad(constants["weights"], ((0, 0), (0, -p.in_c % 16)))
    words = np.ascontiguousarray(weights.astype("<i2")).view("<u4")[index].transpose(0, 2, 1).reshape(len(index), -1)
    bias, multiplier = constants["bias"].astype(np.int64)[index], constants["multiplier"].astype(np.int64)[index]
    return dsp.stream_of(np.concatenate([bias, words.astype(np.int64), multiplier], axis=1))


def _fc_why_not(node: Node, pairs: bool) -> str | None:
    """The reason why the kernel does not apply. pairs: whether two channels share a word of weights."""
    if pairs and node.constants["weights"].materialize().min() < -127:
        return "a weight is -128"
    return sums_why_not(node, (1,))


def _fc_cost(node: Node, pairs: bool) -> Cost:
    p = node.params
    turns = -(-p.in_c // 16)
    turn = 86 if pairs else 84
    copy = p.in_c + 40 if p.in_c % 16 else 0
    return Cost(p.rows * (-(-p.out_c // 4) * (45 + turn * turns) + copy + 60), 700)


def _fc_kernel(weight: str) -> Kernel:
    pairs = weight == "int8_t"
    return Kernel(
        **of_weight("fc", "dsp", weight),
        isa="dsp",
        when=lambda node, target: _fc_why_not(node, pairs),
        constants={"stream": "uint32_t"},
        arrange=_shared if pairs else _whole,
        scratch=lambda p: 2 * (-(-p.in_c // 16) * 16) if p.in_c % 16 else 0,
        cost=lambda node, target: _fc_cost(node, pairs),
        store="rows",
    )


KERNELS = {
    "conv2d_s16": only(NARROW, WHOLE),
    "conv2d_s16_w16": only(WHOLE),
    "depthwise_s16": only(_depthwise_kernel("int8_t"), _any_depthwise("int8_t")),
    "depthwise_s16_w16": only(_depthwise_kernel("int16_t"), _any_depthwise("int16_t")),
    "fc_s16": only(_fc_kernel("int8_t")),
    "fc_s16_w16": only(_fc_kernel("int16_t")),
}
