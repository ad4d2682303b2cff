"""Convolution with three products in one 64-bit multiplication: the proof that sums fit, the weights, and the cost.

In: kernel-level conv2d_s8 nodes and their params. Out: the `Kernel`s. The one for 1x1 is used only if the user allows
it, because weights take twice the flash. Another one is for windows with few products, whose weights are small.
runtime_c/kernels/dsp/ge_isa_dsp_polynomial.h explains how they work.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from glowembed.graph.ir import Array, Node
from glowembed.graph.op import Kernel, law_number, only, together
from glowembed.graph.target import Target
from glowembed.kernels import dsp
from glowembed.law.modes import Mode
from glowembed.ops.conv import Conv2dParams

FIELD = 21
"""The distance in bits between the sums in a 64-bit word. A sum is signed, so its absolute value must be below half of
that range.
"""

OFFSET_MAX = 4095
"""The largest offset of a load."""

TILE_BYTES = 3072
TILE_MAX = 24
OUT_MAX = 1360
"""The most output channels; with more, two pixels are too far apart for the offset of a store."""


def _tile(p: Conv2dParams) -> int:
    """The number of pixels in scratch."""
    pixels = -(-p.out_h * p.out_w // 3) * 3
    return int(max(6, min(TILE_BYTES // (8 * p.in_c) * 3, TILE_MAX, pixels)))


def _unroll(steps: int) -> int:
    """The number of steps in the loop, each of 32 bytes; the loop takes at most half a kilobyte."""
    return min(range(1, min(steps, dsp.UNROLL_MAX) + 1), key=lambda u: (dsp.turns(steps, u), u))


def _instance(p: Conv2dParams) -> Mapping[str, int]:
    return {
        "IN": p.in_c, "OUT": p.out_c, "TILE": _tile(p), "UNROLL": _unroll(p.in_c), "UP": 32 - p.shift,
    }  # fmt: skip


def _scratch(p: Conv2dParams) -> int:
    return _tile(p) // 3 * 8 * int(p.in_c)


def _why_not(node: Node, target: Target) -> str | None:
    p = node.params
    if p.kernel_h * p.kernel_w != 1 or p.groups > 1:
        return "it is for windows of one tap and one group"
    if p.pad_top or p.pad_left or (p.out_w - 1) * p.stride_w >= p.in_w or (p.out_h - 1) * p.stride_h >= p.in_h:
        return "a window of one tap lies in padding"
    if p.in_c % 4 or p.in_c > 8000 or not 4 <= p.out_c <= OUT_MAX:
        return f"it takes a multiple of 4 channels in and 4..{OUT_MAX} out"
    if p.out_w < 3:
        return "it takes three pixels at a time"
    return _sums_why_not(node)


def _sums_why_not(node: Node, mode: Mode = "default") -> str | None:
    p = node.params
    sums = 128 * np.abs(node.constants["weights"].materialize().astype(np.int64)).reshape(p.out_c, -1).sum(axis=1)
    worst = int(sums.argmax())
    if sums[worst] >= 1 << (FIELD - 1):
        return f"the sum of channel {worst} can reach {sums[worst]}, {1 << (FIELD - 1)} and more is too much"
    bound = sums + np.abs(node.constants["bias"].materialize().astype(np.int64))
    if (reason := dsp.law_why_not(node, mode, bound)) is not None:
        return reason
    if bound.max() << dsp.up_of(p, mode) >= 2**31:
        return f"the sum of channel {int(bound.argmax())} is too large for the shift of the requantization"
    return None


def _arrange(constants: Mapping[str, Array], p: Conv2dParams, mode: Mode = "default") -> Mapping[str, Array]:
    """For each four channels: w0 + w1 z and w2 + w3 z for each k; then for each channel what is added to its sum at the
    end, and its requantization words.
    """
    w = constants["weights"].astype(np.int64).reshape(p.out_c, -1)
    index = np.asarray([range(s, s + 4) for s in dsp.block_starts(p.out_c)])
    pairs = w[index][:, 0::2] + (w[index][:, 1::2] << FIELD)
    bias = (constants["bias"].astype(np.int64) - (1 << (FIELD - 1))) << dsp.up_of(p, mode)
    last = np.concatenate([bias[:, None], dsp.law_words(constants["multiplier"], p, mode)], axis=1)[index]
    words = [pairs.transpose(0, 2, 1).reshape(len(index), -1), last.reshape(len(index), -1)]
    return dsp.stream_of(np.concatenate(words, axis=1))


def _pixels_cycles(p: Conv2dParams, pixels: int) -> float:
    groups, tile = -(-p.out_c // 4), _tile(p)
    block = 107 + 9 * p.in_c + dsp.turns(p.in_c, _unroll(p.in_c))
    threes = -(-pixels // 3)
    return float(groups * threes * block + threes * (9.2 * p.in_c + 22) + -(-pixels // tile) * (70 + 12 * groups))


def _cycles(p: Conv2dParams, rows: int) -> float:
    """The cycles. Rows in slots are not contiguous, so groups of three pixels end with each row."""
    return _pixels_cycles(p, p.out_h * p.out_w) if rows == p.out_h else rows * _pixels_cycles(p, p.out_w)


ONE_TAP = dsp.convolution(
    "ge_conv2d_polynomial_s8_dsp",
    _why_not,
    _arrange,
    _instance,
    _scratch,
    _cycles,
    code=lambda p: 700 + 32 * _unroll(p.in_c),
    option="polynomial",
)


# For few products: the whole window is unrolled, and input rows are stored as words.

FEW_MAX = 48
"""The most products of an output, because each takes 32 bytes of code; so few weights are small even at twice the
flash.
"""

FEW_BYTES = 2048
"""The bytes for rows of words, unless one window needs more."""

FEW_LEAST = 512
"""The bytes of the rows of one window, if only these are kept; for each row of outputs, all of them except the newest
move.
"""


def _few_apart(p: Conv2dParams) -> tuple[int, int]:
    """The distance between taps, in rows and in columns."""
    return p.dilation_h if p.kernel_h > 1 else 1, p.dilation_w if p.kernel_w > 1 else 1


def _few_span(p: Conv2dParams) -> int:
    """The number of rows that a window depends on."""
    return int((p.kernel_h - 1) * _few_apart(p)[0] + 1)


def _few_row(p: Conv2dParams) -> int:
    """The bytes of a row of words, rounded up to fours, that the windows of all pixels except the last depend on."""
    columns = (p.out_w - 2) * p.stride_w + (p.kernel_w - 1) * _few_apart(p)[1] + 1
    return int(-(-max(columns, 1) * p.in_c // 4) * 16)


def _few_turn(p: Conv2dParams, least: bool = False) -> int:
    """The number of output rows after which rows of words move to the beginning of scratch. least: they move after
    every row.
    """
    span = _few_span(p)
    if least or p.stride_h >= span:
        return 1
    lines = max(span, FEW_BYTES // _few_row(p))
    return int(min((lines - span) // p.stride_h + 1, p.out_h))


def _few_instance(p: Conv2dParams, mode: Mode, least: bool) -> Mapping[str, int]:
    down, across = _few_apart(p)
    runs, taps = (1, p.kernel_w) if across == 1 else (p.kernel_w, 1)
    return {
        "HEIGHT": p.kernel_h, "RUNS": runs, "RUN": taps * p.in_c, "TAP": 4 * across * p.in_c, "LINE": down * _few_row(p),
        "ROW": _few_row(p), "PIXEL": 4 * p.stride_w * p.in_c, "OUT": p.out_c, "TURN": _few_turn(p, least), "UP": dsp.up_of(p, mode),
        **law_number(mode),
    }  # fmt: skip


def _few_scratch(p: Conv2dParams, least: bool) -> int:
    lines = _few_span(p) + (_few_turn(p, least) - 1) * p.stride_h
    return int(lines * _few_row(p))


def _few_why_not(node: Node, mode: Mode, least: bool) -> str | None:
    p = node.params
    if p.groups > 1:
        return "it takes one group"
    if p.kernel_h * p.kernel_w * p.in_c > FEW_MAX:
        return f"an output has more than {FEW_MAX} products"
    if p.out_w < 3:
        return "it takes three pixels at a time"
    if not 4 <= p.out_c <= OUT_MAX:
        return f"it takes 4..{OUT_MAX} channels out"
    down, across = _few_apart(p)
    reach = (p.kernel_h - 1) * down * _few_row(p) + 4 * ((p.kernel_w - 1) * across + 1 + p.stride_w) * p.in_c
    if reach > OFFSET_MAX or 12 * p.stride_w * p.in_c > OFFSET_MAX:
        return "a row is too long for the offset of a load"
    if least and (_few_turn(p) == 1 or _few_scratch(p, least) > FEW_LEAST):
        return f"it needs no less scratch, or more than {FEW_LEAST} bytes"
    return _sums_why_not(node, mode)


_LAW_CYCLES: Mapping[Mode, int] = {"default": 0, "onnx": 120, "glow": 38, "tflite": 38}
"""Additional cycles for twelve outputs, by law."""


def _few_cycles(p: Conv2dParams, rows: int, mode: Mode, least: bool) -> float:
    block = 9 * p.kernel_h * p.kernel_w * p.in_c + 107 + _LAW_CYCLES[mode]
    threes = -(-p.out_w // 3) * -(-p.out_c // 4) * block + (90 if p.out_w % 3 else 50)
    border = min((2 * p.pad_left + p.stride_w) * p.in_c, _few_row(p) // 4)
    line = 1.31 * _few_row(p) + 16 * border + 260
    span = _few_span(p) if p.stride_h % _few_apart(p)[0] else p.kernel_h
    more = 0.8 * max(0, _few_span(p) - p.stride_h) * _few_row(p) * rows * (1 - 1 / _few_turn(p)) if least else 0.0
    return float(rows * (threes + min(p.stride_h, span) * line) + max(0, span - p.stride_h) * line + more + 100)


def few(mode: Mode = "default", least: bool = False) -> Kernel:
    """The kernel for windows with few products, in one law. least: it keeps only as many rows of words as one window
    needs.
    """
    return dsp.convolution(
        f"ge_conv2d_few{1 if least else ''}_s8_dsp",
        lambda node, target: _few_why_not(node, mode, least),
        lambda constants, p: _arrange(constants, p, mode),
        lambda p: _few_instance(p, mode, least),
        lambda p: _few_scratch(p, least),
        lambda p, rows: _few_cycles(p, rows, mode, least),
        code=lambda p: 900 + 32 * p.kernel_h * p.kernel_w * p.in_c,
        template="ge_conv2d_few_s8_dsp" if least else "",
    )


KERNELS = {"conv2d_s8": together(only(ONE_TAP), lambda mode: (few(mode), few(mode, least=True)))}
