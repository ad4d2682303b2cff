"""Kernels of int16 layers whose sums need 64 bits, for Helium: when they apply, their constants and their cost.

In: kernel-level nodes of int16 (ops/conv_wide.py) with weights of int8 or int16, params and constants. Out: `Kernel`s. runtime_c/kernels/mve/
ge_mve_exact.h and depthwise_exact_s16_mve.c explain how they work.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from glowembed.graph.ir import Array, Node
from glowembed.graph.op import Cost, Kernel, KernelsOf, only
from glowembed.kernels.mve import STREAM
from glowembed.kernels.mve.wide import STATE
from glowembed.kernels.shared.wide import grouped, upper_word_multipliers, upper_word_why_not
from glowembed.ops.conv_wide import Conv2dS16Params, FcS16Params

LANES = 8
"""The half-words of a vector."""


def _steps(inputs: int) -> int:
    return -(-inputs // LANES)


def _stream(weights: Array, bias: Array, multiplier: Array, shift: int) -> Array:
    """Multipliers up to a multiple of four; for each two channels their biases, and eights of both in turn. weights
    [channels, K].
    """
    channels = len(weights)
    index = np.minimum(np.arange(channels + channels % 2), channels - 1).reshape(-1, 2)
    padded = np.pad(weights, ((0, 0), (0, -weights.shape[1] % LANES))).astype("<i2")
    eights = padded.reshape(channels, -1, LANES)[index].transpose(0, 2, 1, 3).reshape(len(index), -1)
    starts = bias.astype("<i8")[index]
    scales = np.pad(upper_word_multipliers(multiplier, shift).astype("<u4"), (0, -channels % 4))
    twos = np.concatenate([starts.view(np.int8), np.ascontiguousarray(eights).view(np.int8)], axis=1)
    return np.concatenate([scales.view(np.int8), twos.reshape(-1)])


def _conv_stream(constants: Mapping[str, Array], p: Conv2dS16Params) -> Mapping[str, Array]:
    parts = [_stream(w.reshape(len(w), -1), b, m, p.shift) for w, b, m in grouped(constants, p.groups)]
    return {"stream": np.concatenate(parts)}


def _fc_stream(constants: Mapping[str, Array], p: FcS16Params) -> Mapping[str, Array]:
    return {"stream": _stream(constants["weights"], constants["bias"], constants["multiplier"], p.shift)}


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


HIGH = 256
"""The factor of the high part of a depthwise weight, which is HIGH times its high part plus its low part, 0..255."""


def _depthwise_bits(weights: Array, bias: Array) -> int | None:
    """The bits by which the largest sum exceeds 32; None if they are more than those of a low part, or if the sum of either part
    needs more than 32. weights [taps, channels].
    """
    high, low = weights >> 8, weights & (HIGH - 1)
    sums = [32768 * np.abs(part).sum(axis=0) for part in (weights, high, low)]
    whole, most = int((sums[0] + np.abs(bias)).max()), int((sums[1] + np.abs(bias >> 8)).max())
    bits = max(whole.bit_length() - 31, 0)
    return bits if bits <= 8 and max(most, int(sums[2].max()) + HIGH) < 2**31 - 2**24 else None


def _of_taps(constants: Mapping[str, Array]) -> Array:
    return constants["weights"].reshape(-1, constants["weights"].shape[-1]).astype(np.int64)


def _depthwise_why_not(node: Node) -> str | None:
    p = node.params
    if p.in_c != p.out_c:
        return "there are more channels out than in"
    if p.in_zero_point:
        return f"inputs have a zero point of {p.in_zero_point}"
    constants = {name: const.materialize() for name, const in node.constants.items()}
    bits = _depthwise_bits(_of_taps(constants), constants["bias"])
    if bits is None or int(upper_word_multipliers(constants["multiplier"], p.shift).max()) << bits >= 2**31:
        return "a sum has too many bits for two sums of 32"
    return upper_word_why_not(node)


def _depthwise_stream(constants: Mapping[str, Array], p: Conv2dS16Params) -> Mapping[str, Array]:
    """A header of 16 bytes, of which the first is k; for each eight channels A, B, M and M << k of the even and the odd
    ones, and for each tap the high and the low parts of their weights.
    """
    weights, bias, multiplier = _of_taps(constants), constants["bias"].astype(np.int64), constants["multiplier"]
    bits = _depthwise_bits(weights, bias)
    assert bits is not None, "the kernel does not apply"
    more = -p.out_c % LANES
    scale = upper_word_multipliers(multiplier, p.shift)
    words = np.stack([bias >> 8, bias & (HIGH - 1), scale, scale << bits])
    heads = np.pad(words, ((0, 0), (0, more))).astype("<i4").reshape(len(words), -1, LANES // 2, 2)
    parts = np.stack([weights >> 8, (weights & (HIGH - 1)).astype(np.uint8).view(np.int8)], axis=1).astype(np.int8)
    taps = np.pad(parts, ((0, 0), (0, 0), (0, more))).reshape(len(weights), 2, -1, LANES)
    blocks = [
        np.concatenate(
            [np.ascontiguousarray(heads[:, i].transpose(0, 2, 1)).reshape(-1).view(np.int8), taps[:, :, i].reshape(-1)]
        )
        for i in range(heads.shape[1])
    ]
    return {"stream": np.concatenate([np.asarray([bits] + 15 * [0], np.int8), *blocks])}


def _depthwise_rows_cost(p: Conv2dS16Params, rows: int) -> float:
    taps = p.kernel_h * p.kernel_w
    return float(rows * p.out_w * (100 + 11 * taps + -(-p.out_c // LANES) * (110 + 22.0 * taps)) + 150)


DEPTHWISE = Kernel(
    "ge_depthwise_exact_s16_mve",
    isa="mve",
    when=lambda node, target: _depthwise_why_not(node),
    constants=STREAM,
    arrange=_depthwise_stream,
    scratch=lambda p: 8 * p.kernel_h * p.kernel_w,
    cost=lambda n, t: Cost(_depthwise_rows_cost(n.params, n.params.out_h), 900),
    rows_cost=lambda n, t, rows: _depthwise_rows_cost(n.params, rows),
    store="rows",
)

COPIES = 4096
"""The bytes of copies that depthwise_lines_exact_s16_mve.c makes at a time, unless a line needs more."""

LINES_STEP = 9362
"""The largest number of elements from tap to tap of one channel."""


def _lines_why_not(node: Node) -> str | None:
    p = node.params
    window = (p.kernel_h, p.kernel_w, p.dilation_h, p.dilation_w, p.stride_h, p.stride_w)
    if window != (3, 3, 1, 1, 1, 1):
        return "the window is not 3x3 with stride 1"
    if p.in_c != p.out_c:
        return "there are more channels out than in"
    if p.out_w < 4:
        return f"a row has {p.out_w} outputs, it takes 4 and more"
    if p.in_c > LINES_STEP:
        return f"there are {p.in_c} channels, it takes at most {LINES_STEP}"
    return upper_word_why_not(node)


def _lines_at_a_time(length: int) -> int:
    """The lines of so many outputs whose copies are made at a time."""
    return max(COPIES // (6 * (length + 2)) - 4, 1)


def _lines_scratch(p: Conv2dS16Params) -> int:
    """The bytes of the sums of a line and of the copies of lines, whichever way the lines go, for this many rows or fewer."""
    ways = ((p.out_h, p.out_w), (p.out_w, p.out_h))
    return max(8 * (n + 1) + min(6 * (n + 2) * (lines + 4), max(COPIES, 30 * (n + 2))) for n, lines in ways)


def _lines_rows_cost(p: Conv2dS16Params, rows: int) -> float:
    lines, length = (p.out_w, rows) if rows > p.out_w else (rows, p.out_w)
    bands = -(-lines // _lines_at_a_time(length))
    line = 40 + 8.0 * length + 26 * -(-length // 4)
    copies = (lines + 2 * bands - 2) * (25 + 5.2 * length)
    return float(p.out_c * (lines * line + copies + 130 * bands) + 300)


def _lines_constants(constants: Mapping[str, Array], p: Conv2dS16Params) -> Mapping[str, Array]:
    """The weights as int16, and the multipliers for a shift of 33 and more, which are words without a sign."""
    scales = upper_word_multipliers(constants["multiplier"], p.shift).astype("<u4").view("<i4")
    return {"weights": constants["weights"].astype("<i2"), "bias": constants["bias"], "multiplier": scales}


LINES = Kernel(
    "ge_depthwise_lines_exact_s16_mve",
    isa="mve",
    when=lambda node, target: _lines_why_not(node),
    constants={"weights": "int16_t", "bias": "int64_t", "multiplier": "int32_t"},
    arrange=_lines_constants,
    scratch=_lines_scratch,
    cost=lambda n, t: Cost(_lines_rows_cost(n.params, n.params.out_h), 1700),
    rows_cost=lambda n, t, rows: _lines_rows_cost(n.params, rows),
)

CONV = Kernel(
    "ge_conv2d_exact_s16_mve",
    isa="mve",
    when=lambda node, target: upper_word_why_not(node),
    constants=STREAM,
    arrange=_conv_stream,
    scratch=lambda p: STATE + _scratch(_inputs(p), p.out_c // p.groups),
    cost=lambda n, t: Cost(_conv_rows_cost(n.params, n.params.out_h), 1500),
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
    f"{op}_s16{suffix}": only(*kernels)
    for op, kernels in (("conv2d", (CONV,)), ("depthwise", (LINES, DEPTHWISE)), ("fc", (FC,)))
    for suffix in ("", "_w16")
}
