"""Layers of int16 whose sums need 64 bits, for Helium: when, their constants and costs.

In: kernel-level nodes of int16 (ops/conv_wide.py) with weights of int8 or int16, params and constants. Out: `Kernel`s. runtime_c/kernels/mve/
ge_mve_exact.h explains how they work. Depthwise layers have those of the dsp cores.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from glowembed.graph.ir import Array
from glowembed.graph.op import Cost, Kernel, KernelsOf, only
from glowembed.kernels.mve import STREAM
from glowembed.kernels.shared.wide import grouped, upper_word_why_not
from glowembed.ops.conv_wide import Conv2dS16Params, FcS16Params

LANES = 8
"""The half-words of a vector."""


def _steps(inputs: int) -> int:
    return -(-inputs // LANES)


def _stream(weights: Array, bias: Array, multiplier: Array) -> Array:
    """Multipliers up to a multiple of four; for each two channels their biases, and eights of both in turn. weights
    [channels, K].
    """
    channels = len(weights)
    index = np.minimum(np.arange(channels + channels % 2), channels - 1).reshape(-1, 2)
    padded = np.pad(weights, ((0, 0), (0, -weights.shape[1] % LANES))).astype("<i2")
    eights = padded.reshape(channels, -1, LANES)[index].transpose(0, 2, 1, 3).reshape(len(index), -1)
    starts = bias.astype("<i8")[index]
    scales = np.pad(multiplier.astype("<i4"), (0, -channels % 4))
    twos = np.concatenate([starts.view(np.int8), np.ascontiguousarray(eights).view(np.int8)], axis=1)
    return np.concatenate([scales.view(np.int8), twos.reshape(-1)])


def _conv_stream(constants: Mapping[str, Array], p: Conv2dS16Params) -> Mapping[str, Array]:
    parts = [_stream(w.reshape(len(w), -1), b, m) for w, b, m in grouped(constants, p.groups)]
    return {"stream": np.concatenate(parts)}


def _fc_stream(constants: Mapping[str, Array], p: FcS16Params) -> Mapping[str, Array]:
    return {"stream": _stream(constants["weights"], constants["bias"], constants["multiplier"])}


def _scratch(inputs: int, channels: int) -> int:
    """The bytes of two windows, and of the sums of two pixels."""
    return 32 * _steps(inputs) + 16 * (-(-channels // 4) * 4)


def _two_pixels(inputs: int, channels: int) -> float:
    """The cycles of all channels of two pixels."""
    return -(-channels // 2) * (26 + 14.0 * _steps(inputs)) + -(-channels // 4) * 50 + 110


def _inputs(p: Conv2dS16Params) -> int:
    return int(p.kernel_h * p.kernel_w * (p.in_c // p.groups))


def _conv_rows_cost(p: Conv2dS16Params, rows: int) -> float:
    points = p.kernel_h * p.kernel_w == 1 and (p.in_c // p.groups) % LANES == 0
    window = 25 if points else 65 + p.kernel_h * 40 + _steps(_inputs(p)) * 6
    pixels = rows * p.out_w
    return float(p.groups * (-(-pixels // 2) * _two_pixels(_inputs(p), p.out_c // p.groups) + pixels * window) + 200)


def _fc_cost(p: FcS16Params) -> float:
    return float(-(-p.rows // 2) * (_two_pixels(p.in_c, p.out_c) + 10 * _steps(p.in_c) + 100))


CONV = Kernel(
    "ge_conv2d_exact_s16_mve",
    isa="mve",
    when=lambda node, target: upper_word_why_not(node),
    constants=STREAM,
    arrange=_conv_stream,
    scratch=lambda p: _scratch(_inputs(p), p.out_c // p.groups),
    cost=lambda n, t: Cost(_conv_rows_cost(n.params, n.params.out_h), 1300),
    rows_cost=lambda n, t, rows: _conv_rows_cost(n.params, rows),
    store=lambda p: "rows" if p.groups == 1 else "disjoint",
)

FC = Kernel(
    "ge_fc_exact_s16_mve",
    isa="mve",
    when=lambda node, target: upper_word_why_not(node),
    constants=STREAM,
    arrange=_fc_stream,
    scratch=lambda p: _scratch(p.in_c, p.out_c),
    cost=lambda n, t: Cost(_fc_cost(n.params), 700),
    store="rows",
)

KERNELS: Mapping[str, KernelsOf] = {
    f"{op}_s16{suffix}": only(kernel) for op, kernel in (("conv2d", CONV), ("fc", FC)) for suffix in ("", "_w16")
}
