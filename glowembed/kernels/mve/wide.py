"""Convolution, depthwise and fully connected layers of int16 for Helium: when the kernels apply, their constants and
costs.

In: kernel-level nodes of int16 (ops/conv_wide.py), params and constants. Out: `Kernel`s. runtime_c/kernels/mve/ge_mve_wide.h,
ge_mve_wide_depthwise.h and ge_mve_wide_fc.h explain how they work.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from glowembed.graph.ir import Array, Node
from glowembed.graph.op import Cost, Kernel, only
from glowembed.kernels.mve import STREAM, lines
from glowembed.kernels.shared.wide import grouped, of_weight, sums_why_not
from glowembed.ops.conv_wide import Conv2dS16Params, FcS16Params

LANES = 8
"""The number of half-words in a vector."""

STATE = 96
"""The bytes of ge_mve_wide_call, which is in scratch and not on the stack."""


def _bytes(*parts: Array) -> Array:
    return np.concatenate([np.ascontiguousarray(part).reshape(-1).view(np.int8) for part in parts])


def _in_eights(weights: Array, dtype: str) -> Array:
    """The weights as [channels, steps, 8], with zeros after the last weight."""
    flat = weights.reshape(len(weights), -1)
    return np.pad(flat, ((0, 0), (0, -flat.shape[1] % LANES))).reshape(len(flat), -1, LANES).astype(dtype)


def _words(array: Array, channels: int) -> Array:
    return np.pad(array.astype(np.int64), (0, channels - len(array))).astype("<i4")


def _conv_steps(p: Conv2dS16Params) -> int:
    return int(-(-p.kernel_h * p.kernel_w * (p.in_c // p.groups) // LANES))


def _conv_stream(constants: Mapping[str, Array], p: Conv2dS16Params, dtype: str) -> Mapping[str, Array]:
    """For each four channels: eights of channels 0 and 2, then of 1 and 3, biases, multipliers."""
    parts = []
    for weights, bias, multiplier in grouped(constants, p.groups):
        channels = -(-len(weights) // 4) * 4
        eights = np.pad(_in_eights(weights, dtype), ((0, channels - len(weights)), (0, 0), (0, 0)))
        b, m = _words(bias, channels), _words(multiplier, channels)
        for c in range(0, channels, 4):
            passes = [eights[[c + first, c + first + 2]].transpose(1, 0, 2) for first in (0, 1)]
            parts.append(_bytes(*passes, b[c : c + 4], m[c : c + 4]))
    return {"stream": np.concatenate(parts)}


def _conv_cost(node: Node, target: Any) -> Cost:
    p = node.params
    fours = -(-(p.out_c // p.groups) // 4)
    points = p.kernel_h * p.kernel_w == 1 and (p.in_c // p.groups) % LANES == 0
    window = 0 if points else 40 + p.kernel_h * 40 + _conv_steps(p) * 6
    pixel = fours * (24 + 12.0 * _conv_steps(p)) + window + 25
    return Cost(p.groups * p.out_h * p.out_w * pixel + 200, 900)


def _conv(weight: str, dtype: str) -> Kernel:
    return Kernel(
        **of_weight("conv2d", "mve", weight),
        isa="mve",
        when=lambda node, target: sums_why_not(node, tuple(range(1, 4))),
        constants=STREAM,
        arrange=lambda constants, p: _conv_stream(constants, p, dtype),
        scratch=lambda p: STATE + 3 * 2 * LANES * _conv_steps(p),
        cost=_conv_cost,
        store=lambda p: "rows" if p.groups == 1 else "disjoint",
    )


def _depthwise_why_not(node: Node) -> str | None:
    p = node.params
    if (p.kernel_h, p.kernel_w, p.dilation_h, p.dilation_w) != (3, 3, 1, 1):
        return "the window is not 3x3"
    if p.stride_h != p.stride_w or p.stride_h > 2:
        return "the stride is not 1 or 2"
    if p.in_c != p.out_c:
        return "there are more channels out than in"
    return sums_why_not(node, (0, 1))


def _depthwise_stream(constants: Mapping[str, Array], p: Conv2dS16Params, dtype: str) -> Mapping[str, Array]:
    """For each eight channels: biases of the even and of the odd ones, multipliers likewise, weights [3][3][8]."""
    channels = -(-p.out_c // LANES) * LANES
    b, m = (_words(constants[name], channels).reshape(-1, 4, 2) for name in ("bias", "multiplier"))
    weights = np.pad(constants["weights"].reshape(9, -1), ((0, 0), (0, channels - p.out_c))).astype(dtype)
    eights = weights.reshape(9, -1, LANES).transpose(1, 0, 2)
    parts = [_bytes(b[i, :, 0], b[i, :, 1], m[i, :, 0], m[i, :, 1], eights[i]) for i in range(len(eights))]
    return {"stream": np.concatenate(parts)}


def _depthwise_scratch(p: Conv2dS16Params) -> int:
    return int(3 * 16 * -(-p.out_c // LANES) * ((p.out_w - 1) * p.stride_w + 3))


def _depthwise_rows_cost(p: Conv2dS16Params, rows: int) -> float:
    blocks = -(-p.out_c // LANES)
    row = blocks * (80 + 87.0 * p.out_w)
    copies = ((rows - 1) * p.stride_h + 3) * blocks * (60 + 9.0 * p.out_w * p.stride_w)
    return float(rows * row + copies + 150)


def _depthwise(weight: str, dtype: str) -> Kernel:
    return Kernel(
        **of_weight("depthwise3x3", "mve", weight),
        isa="mve",
        when=lambda node, target: _depthwise_why_not(node),
        constants=STREAM,
        arrange=lambda constants, p: _depthwise_stream(constants, p, dtype),
        scratch=_depthwise_scratch,
        cost=lambda node, target: Cost(_depthwise_rows_cost(node.params, node.params.out_h), 2000),
        rows_cost=lambda node, target, rows: _depthwise_rows_cost(node.params, rows),
        store="rows",
    )


def _lines_why_not(node: Node) -> str | None:
    p = node.params
    if p.out_zero_point:
        return f"outputs have a zero point of {p.out_zero_point}"
    return lines.why_not(p) or sums_why_not(node, (0, 1))


def _lines_stream(constants: Mapping[str, Array], dtype: str) -> Mapping[str, Array]:
    """For each channel: bias, multiplier, weights."""
    weights = constants["weights"].reshape(9, -1).T.astype(dtype)
    words = np.stack([constants["bias"], constants["multiplier"]], axis=1).astype("<i4")
    both = [np.ascontiguousarray(array).view(np.int8) for array in (words, weights)]
    return {"stream": np.concatenate(both, axis=1).reshape(-1)}


def _lines_rows_cost(p: Conv2dS16Params, rows: int) -> float:
    return lines.rows_cost(p, rows, lines.Cycles(two=68, one=42, gathered=0.8))


def _lines(weight: str, dtype: str) -> Kernel:
    narrow = weight == "int8_t"
    named = of_weight("depthwise_lines", "mve", weight)
    halves = {"BYTES": "2", "LOAD": "DEPTHWISE_LINES_S16_MVE_HALF"}
    return Kernel(
        **({"symbol": named["symbol"]} if narrow else {**named, "words": halves}),
        isa="mve",
        when=lambda node, target: _lines_why_not(node),
        constants=STREAM,
        arrange=lambda constants, p: _lines_stream(constants, dtype),
        scratch=lambda p: lines.scratch(p, 2),
        cost=lambda node, target: Cost(_lines_rows_cost(node.params, node.params.out_h), 1300),
        rows_cost=lambda node, target, rows: _lines_rows_cost(node.params, rows),
    )


def _any_why_not(node: Node) -> str | None:
    p = node.params
    if p.in_c != p.out_c:
        return "there are more channels out than in"
    if p.in_zero_point:
        return f"inputs have a zero point of {p.in_zero_point}"
    return sums_why_not(node, (0, 1))


def _any_stream(constants: Mapping[str, Array], p: Conv2dS16Params, dtype: str) -> Mapping[str, Array]:
    """For each eight channels: biases of the even and of the odd ones, multipliers likewise, weights [taps][8]."""
    channels = -(-p.out_c // LANES) * LANES
    b, m = (_words(constants[name], channels).reshape(-1, 4, 2) for name in ("bias", "multiplier"))
    taps = constants["weights"].reshape(-1, p.out_c)
    eights = np.pad(taps, ((0, 0), (0, channels - p.out_c))).astype(dtype).reshape(len(taps), -1, LANES)
    parts = [_bytes(b[i, :, 0], b[i, :, 1], m[i, :, 0], m[i, :, 1], eights[:, i]) for i in range(len(b))]
    return {"stream": np.concatenate(parts)}


def _any_rows_cost(p: Conv2dS16Params, rows: int) -> float:
    taps = p.kernel_h * p.kernel_w
    return float(rows * p.out_w * (100 + 11 * taps + -(-p.out_c // LANES) * (70 + 14.0 * taps)) + 150)


def _any_depthwise(weight: str, dtype: str) -> Kernel:
    narrow = weight == "int8_t"
    named = of_weight("depthwise", "mve", weight)
    halves = {"BYTES": "2", "LOAD": "DEPTHWISE_S16_MVE_HALVES"}
    return Kernel(
        **({"symbol": named["symbol"]} if narrow else {**named, "words": halves}),
        isa="mve",
        when=lambda node, target: _any_why_not(node),
        constants=STREAM,
        arrange=lambda constants, p: _any_stream(constants, p, dtype),
        scratch=lambda p: 8 * p.kernel_h * p.kernel_w,
        cost=lambda node, target: Cost(_any_rows_cost(node.params, node.params.out_h), 700),
        rows_cost=lambda node, target, rows: _any_rows_cost(node.params, rows),
        store="rows",
    )


def _fc_stream(constants: Mapping[str, Array], p: FcS16Params, dtype: str) -> Mapping[str, Array]:
    """For each four outputs: eights of the four in turn, biases, multipliers."""
    channels = -(-p.out_c // 4) * 4
    eights = np.pad(_in_eights(constants["weights"], dtype), ((0, channels - p.out_c), (0, 0), (0, 0)))
    b, m = (_words(constants[name], channels) for name in ("bias", "multiplier"))
    parts = [_bytes(eights[c : c + 4].transpose(1, 0, 2), b[c : c + 4], m[c : c + 4]) for c in range(0, channels, 4)]
    return {"stream": np.concatenate(parts)}


def _fc_cost(node: Node, target: Any) -> Cost:
    p = node.params
    return Cost(p.rows * (-(-p.out_c // 4) * (30 + 16.0 * -(-p.in_c // LANES)) + 40), 300)


def _fc(weight: str, dtype: str) -> Kernel:
    return Kernel(
        **of_weight("fc", "mve", weight),
        isa="mve",
        when=lambda node, target: sums_why_not(node, (1,)),
        constants=STREAM,
        arrange=lambda constants, p: _fc_stream(constants, p, dtype),
        cost=_fc_cost,
        store="rows",
    )


KERNELS = {
    f"{op}_s16{suffix}": only(*(make(weight, dtype) for make in makers))
    for op, makers in (("conv2d", (_conv,)), ("depthwise", (_lines, _depthwise, _any_depthwise)), ("fc", (_fc,)))
    for suffix, weight, dtype in (("", "int8_t", "int8"), ("_w16", "int16_t", "<i2"))
}
