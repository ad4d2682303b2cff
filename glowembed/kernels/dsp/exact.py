"""Kernels of int16 layers whose sums need 64 bits, on Cortex-M4, M7 and M33: when they apply, their constants and their
cost.

In: kernel-level nodes of int16 (ops/conv_wide.py) with weights of int8 or int16, params and constants. Out: `Kernel`s. runtime_c/kernels/dsp/
ge_isa_dsp_exact.h and depthwise_exact_s16_dsp.c explain how they work.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from glowembed.graph.ir import Array, Node
from glowembed.graph.op import Cost, Kernel, KernelsOf, only
from glowembed.graph.target import Target
from glowembed.kernels import dsp
from glowembed.kernels.dsp.wide import lines_rows_cost, lines_scratch, lines_why_not
from glowembed.kernels.shared.wide import grouped, upper_word_multipliers, upper_word_why_not
from glowembed.ops.conv_wide import Conv2dS16Params, FcS16Params


def _why_not(node: Node, target: Target) -> str | None:
    return upper_word_why_not(node)


def _depthwise_why_not(node: Node, target: Target) -> str | None:
    zero = node.params.in_zero_point
    return f"inputs have a zero point of {zero}" if zero else upper_word_why_not(node)


def _steps(inputs: int) -> int:
    """The pairs of inputs of an output."""
    return -(-inputs // 2)


def _two(inputs: int) -> int:
    """Cycles for two channels of two pixels."""
    return 58 + 9 * _steps(inputs) + 5 * -(-_steps(inputs) // 32)


def _twos(weights: Array, bias: Array, multiplier: Array, shift: int) -> Array:
    """For each two channels: biases of 64 bits, words of two k of both in turn, multipliers. weights [channels, K]."""
    channels = len(weights)
    index = np.minimum(np.arange(channels + channels % 2), channels - 1).reshape(-1, 2)
    padded = np.pad(weights, ((0, 0), (0, -weights.shape[1] % 2))).astype("<i2")
    words = np.ascontiguousarray(padded).view("<u4")[index].transpose(0, 2, 1).reshape(len(index), -1)
    scales = upper_word_multipliers(multiplier, shift)
    parts = [_long(bias)[index].reshape(len(index), -1), words.astype(np.int64), scales[index]]
    return np.concatenate(parts, axis=1).reshape(-1)


def _long(bias: Array) -> Array:
    """64-bit biases as [channels, 2]: the lower and the upper word."""
    whole = bias.astype(np.int64)
    return np.stack([whole & 0xFFFFFFFF, whole >> 32], axis=-1)


def _conv_stream(constants: Mapping[str, Array], p: Conv2dS16Params) -> Mapping[str, Array]:
    parts = [_twos(w.reshape(len(w), -1), b, m, p.shift) for w, b, m in grouped(constants, p.groups)]
    return dsp.stream_of(np.concatenate(parts))


def _conv_rows_cost(p: Conv2dS16Params, rows: int) -> float:
    inputs = p.kernel_h * p.kernel_w * (p.in_c // p.groups)
    twos = -(-(p.out_c // p.groups) // 2)
    pair = twos * _two(inputs) + 150
    window = 80 + 1.8 * inputs + 20 * p.kernel_h
    return float(p.groups * rows * p.out_w * (pair / 2 + window) + 200)


def _depthwise_stream(constants: Mapping[str, Array], p: Conv2dS16Params) -> Mapping[str, Array]:
    """For each two channels: biases of 64 bits, multipliers, a word of weights for each tap."""
    index = np.minimum(np.asarray(dsp.block_starts(p.out_c, 2))[:, None] + np.arange(2), p.out_c - 1)
    taps = constants["weights"].reshape(-1, p.out_c).astype("<i2")[:, index].transpose(1, 0, 2)
    words = np.ascontiguousarray(taps).view("<u4").reshape(len(index), -1).astype(np.int64)
    bias = _long(constants["bias"])[index].reshape(len(index), -1)
    scales = upper_word_multipliers(constants["multiplier"], p.shift)[index]
    return dsp.stream_of(np.concatenate([bias, scales, words], axis=1))


def _whole(constants: Mapping[str, Array], p: Conv2dS16Params) -> Mapping[str, Array]:
    """The weights as int16, and the multipliers for a shift of 33 and more, which are words without a sign."""
    scales = upper_word_multipliers(constants["multiplier"], p.shift).astype("<u4").view("<i4")
    return {"weights": constants["weights"].astype("<i2"), "bias": constants["bias"], "multiplier": scales}


def _depthwise_rows_cost(p: Conv2dS16Params, rows: int) -> float:
    taps = p.kernel_h * p.kernel_w
    two = 85 + 13.0 * taps
    return float(rows * p.out_w * (60 + 9 * taps + -(-p.out_c // 2) * two) + 200)


def _fc_stream(constants: Mapping[str, Array], p: FcS16Params) -> Mapping[str, Array]:
    return dsp.stream_of(_twos(constants["weights"], constants["bias"], constants["multiplier"], p.shift))


def _fc_cost(p: FcS16Params) -> float:
    return float(-(-p.rows // 2) * (-(-p.out_c // 2) * _two(p.in_c) + 3 * p.in_c + 220))


STATE = 48
"""The bytes of conv2d_exact_s16_dsp_call, which is in scratch and not on the stack."""

CONV = Kernel(
    "ge_conv2d_exact_s16_dsp",
    isa="dsp",
    when=_why_not,
    constants={"stream": "uint32_t"},
    arrange=_conv_stream,
    scratch=lambda p: STATE + 8 * _steps(p.kernel_h * p.kernel_w * (p.in_c // p.groups)),
    cost=lambda n, t: Cost(_conv_rows_cost(n.params, n.params.out_h), 3600),
    rows_cost=lambda n, t, rows: _conv_rows_cost(n.params, rows),
    store=lambda p: "rows" if p.groups == 1 else "disjoint",
)

DEPTHWISE = Kernel(
    "ge_depthwise_exact_s16_dsp",
    isa="dsp",
    when=_depthwise_why_not,
    constants={"stream": "uint32_t"},
    arrange=_depthwise_stream,
    scratch=lambda p: 8 * p.kernel_h * p.kernel_w,
    cost=lambda n, t: Cost(_depthwise_rows_cost(n.params, n.params.out_h), 1000),
    rows_cost=lambda n, t, rows: _depthwise_rows_cost(n.params, rows),
    store="rows",
)

DEPTHWISE3 = Kernel(
    "ge_depthwise3x3_exact_s16_dsp",
    isa="dsp",
    when=lambda n, t: lines_why_not(n.params) or upper_word_why_not(n),
    constants={"weights": "int16_t", "bias": "int64_t", "multiplier": "int32_t"},
    arrange=_whole,
    scratch=lines_scratch,
    cost=lambda n, t: Cost(lines_rows_cost(n.params, n.params.out_h, 24.0), 2200),
    rows_cost=lambda n, t, rows: lines_rows_cost(n.params, rows, 24.0),
)

FC = Kernel(
    "ge_fc_exact_s16_dsp",
    isa="dsp",
    when=_why_not,
    constants={"stream": "uint32_t"},
    arrange=_fc_stream,
    scratch=lambda p: 8 * _steps(p.in_c),
    cost=lambda n, t: Cost(_fc_cost(n.params), 1800),
    store="rows",
)

KERNELS: Mapping[str, KernelsOf] = {
    f"{op}_s16{suffix}": only(*kernels)
    for op, kernels in (("conv2d", (CONV,)), ("depthwise", (DEPTHWISE3, DEPTHWISE)), ("fc", (FC,)))
    for suffix in ("", "_w16")
}
