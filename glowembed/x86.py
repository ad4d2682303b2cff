"""The kernels of x86-64: when they are exact, how they want their constants, what they cost.

In: kernel-level nodes, params and constants. Out: `Kernel`s, for the op files to list. Each is one C text for all levels
(levels.py, runtime_c/ge_x86_portable.h) with one image of its constants: weights in blocks of [16 outputs][4 inputs],
biases for inputs + 128, multipliers, and the float multipliers of `float_multipliers` where they are proved. Costs are cycles
at the best level.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glowembed.ir import Array, Node
from glowembed.op import Cost, Kernel

OUTPUTS, INPUTS = 16, 4
"""Of a block of weights."""

Int64 = NDArray[np.int64]


def _up(n: int, unit: int) -> int:
    return -(-n // unit) * unit


def _padded(array: Array, axis: int, multiple: int, fill: float = 0) -> Array:
    """`fill` behind the end of `axis`, up to a multiple."""
    widths = [(0, 0)] * array.ndim
    widths[axis] = (0, -array.shape[axis] % multiple)
    return np.pad(array, widths, constant_values=fill)


# ----------------------------------------------------------------------------------------- requantization

NEIGHBOURS = 8
"""Floats above and below the nearest one that are tried as a multiplier."""

EXACT_SUM, EXACT_OUTPUT = 2**24, 2**21
"""Sums below the one are floats without rounding; outputs below the other keep their bits in 1.5 * 2^23 + output."""


def float_multipliers(
    multiplier: Int64, shift: int, zero_point: int, limits: tuple[int, int], reach: tuple[Int64, Int64]
) -> NDArray[np.float32]:
    """For each channel a float m such that round(acc * m) is the law for every sum in reach, clamped; -1 where none is.

    The law is clamp(((acc * multiplier + 2^(shift-1)) >> shift) + zero_point, *limits). The float form is one fused
    multiply-add, acc * m + (1.5 * 2^23 + zero_point), rounded once to the nearest integer, halves to even; the product
    itself is exact. Both are monotone in acc, so they agree everywhere if they agree at each threshold, the least sum
    whose output is at least some code, and at the sum just below it. There are at most 255 of them.
    """
    lowest, highest = reach
    codes = np.arange(limits[0] + 1, limits[1] + 1, dtype=np.int64)
    nearest = (multiplier / 2.0**shift).astype(np.float32)
    found = np.full(multiplier.shape, -1.0, np.float32)
    thresholds = _thresholds(multiplier, shift, codes - zero_point)
    for step in sorted(range(-NEIGHBOURS, NEIGHBOURS + 1), key=abs):
        candidate = _neighbour(nearest, step)
        left = found < 0
        if left.any():
            good = _agree(candidate[left], thresholds[left], codes, zero_point, lowest[left], highest[left])
            found[left] = np.where(good, candidate[left], found[left])
    bound = np.maximum(np.abs(lowest), np.abs(highest))
    provable = (bound < EXACT_SUM) & (bound * nearest.astype(np.float64) < EXACT_OUTPUT) & (multiplier > 0)
    return np.where(provable, found, np.float32(-1.0)).astype(np.float32)


def _thresholds(multiplier: Int64, shift: int, codes: Int64) -> Int64:
    """[channels, codes]: the least acc with (acc * multiplier + 2^(shift-1)) >> shift >= code."""
    wanted = (codes << shift) - (1 << (shift - 1))
    return -(-wanted[None, :] // np.maximum(multiplier, 1)[:, None])


def _neighbour(x: NDArray[np.float32], steps: int) -> NDArray[np.float32]:
    """The float so many steps above x > 0."""
    return np.maximum(x.view(np.int32) + steps, 0).astype(np.int32).view(np.float32)


def _agree(
    m: NDArray[np.float32], thresholds: Int64, codes: Int64, zero_point: int, lowest: Int64, highest: Int64
) -> NDArray[np.bool_]:
    inside = (thresholds > lowest[:, None]) & (thresholds <= highest[:, None])
    at, below = (np.clip(t, lowest[:, None], highest[:, None]) for t in (thresholds, thresholds - 1))
    right = (_rounded(at, m, zero_point) >= codes) & (_rounded(below, m, zero_point) < codes)
    return np.asarray((right | ~inside).all(axis=1) & _ends(m, thresholds, codes, zero_point, lowest, highest))


def _ends(
    m: NDArray[np.float32], thresholds: Int64, codes: Int64, zero_point: int, lowest: Int64, highest: Int64
) -> NDArray[np.bool_]:
    """The outputs of the smallest and the largest sum, which stand for all sums beyond the outermost thresholds."""
    right = np.ones(m.shape, np.bool_)
    for acc in (lowest, highest):
        code = np.rint(_rounded(acc[:, None], m, zero_point))
        right &= ((code >= codes) == (acc[:, None] >= thresholds)).all(axis=1)
    return right


def _rounded(acc: Int64, m: NDArray[np.float32], zero_point: int) -> NDArray[np.float64]:
    """The fused multiply-add: acc * m of 48 bits is exact in a double; halves go to the even sum with the zero point."""
    product = np.clip(acc, -EXACT_SUM, EXACT_SUM).astype(np.float64) * m.astype(np.float64)[:, None]
    whole = np.floor(product)
    odd_sum = (whole + zero_point) % 2 == 1
    rest = product - whole
    return np.asarray(whole + ((rest > 0.5) | ((rest == 0.5) & odd_sum)) + zero_point)


def _requantization(constants: Mapping[str, Array], weights: Int64, p: Any) -> dict[str, Array]:
    """bias, multiplier and scale of [channels, inputs] weights, in whole vectors of 16 channels."""
    bias, multiplier = (constants[name].astype(np.int64) for name in ("bias", "multiplier"))
    lowest, highest = _reach(weights, bias)
    scale = float_multipliers(multiplier, p.shift, p.out_zero_point, (p.lo, p.hi), (lowest, highest))
    blocks = _padded(scale, 0, OUTPUTS, 0.0).reshape(-1, OUTPUTS)
    blocks = np.where((blocks < 0).any(axis=1, keepdims=True), np.float32(-1.0), blocks)
    folded = (bias - 128 * weights.sum(axis=1)).astype(np.int64)
    return {
        "bias": _padded(folded, 0, OUTPUTS).astype(np.int32),
        "multiplier": _padded(multiplier, 0, OUTPUTS).astype(np.int32),
        "scale": blocks.reshape(-1).astype(np.float32),
    }


def _reach(weights: Int64, bias: Int64) -> tuple[Int64, Int64]:
    """The smallest and the largest sum of each channel over all inputs."""
    up, down = np.maximum(weights, 0).sum(axis=1), np.minimum(weights, 0).sum(axis=1)
    return bias - 128 * up + 127 * down, bias + 127 * up - 128 * down


def _outputs_fit(node: Node) -> str | None:
    """Outputs must fit int32 before they are clamped."""
    p = node.params
    weights = node.constants["weights"].materialize().astype(np.int64)
    channels = len(node.constants["bias"].materialize())
    matrix = weights.reshape(channels, -1) if weights.shape[0] == channels else weights.reshape(-1, channels).T
    lowest, highest = _reach(matrix, node.constants["bias"].materialize().astype(np.int64))
    multiplier = node.constants["multiplier"].materialize().astype(np.int64)
    largest = (np.maximum(np.abs(lowest), np.abs(highest)) * multiplier).max() >> p.shift
    return None if largest < 2**30 else "an output leaves int32 before it is clamped"


# ---------------------------------------------------------------------------------------------- matrix products

MATRIX = {"weights": "int8_t", "bias": "int32_t", "multiplier": "int32_t", "scale": "float"}


def _blocks(weights: Array) -> Array:
    """[outputs, runs, bytes of a run] -> [outputs / 16][runs][bytes / 4][16][4], zeros behind the ends."""
    whole = _padded(_padded(weights.astype(np.int8), 0, OUTPUTS), 2, INPUTS)
    split = whole.reshape(-1, OUTPUTS, whole.shape[1], whole.shape[2] // INPUTS, INPUTS)
    return np.ascontiguousarray(split.transpose(0, 2, 3, 1, 4)).reshape(-1)


def _runs(p: Any) -> int:
    """Runs of a window that lie in one piece: a row of the kernel, or a tap where columns are dilated."""
    return int(p.kernel_h * (1 if p.dilation_w == 1 else p.kernel_w))


def _conv_arrange(constants: Mapping[str, Array], p: Any) -> Mapping[str, Array]:
    matrix = constants["weights"].reshape(p.out_c, -1)
    weights = _blocks(matrix.reshape(p.out_c, _runs(p), -1))
    return {"weights": weights, **_requantization(constants, matrix.astype(np.int64), p)}


def _conv_when(node: Node, target: Any) -> str | None:
    return f"{node.params.groups} groups" if node.params.groups > 1 else _outputs_fit(node)


POINTS = 64
"""CONV2D_S8_X86_PIXELS"""

ELEMENT = 2
"""Bytes of an expanded input at the level that needs most."""

SLACK = 64
"""Bytes behind a plane of elements, which are read but do not matter."""


def _conv_scratch(p: Any) -> int:
    """Pointers to runs, and a ring of expanded rows, or the pixels that a kernel of one tap gathers."""
    columns = (p.out_w - 1) * p.stride_w + (p.kernel_w - 1) * p.dilation_w + 1
    plane = ((p.kernel_h - 1) * p.dilation_h + 1) * columns * p.in_c
    if p.kernel_h * p.kernel_w == 1:
        plane = max(p.out_w, POINTS, columns) * p.in_c
    return int(8 * _runs(p) + 63 + ELEMENT * plane + SLACK)


def _conv_rows_cost(node: Node, target: Any, count: int) -> float:
    """Products of 64 bytes, two a cycle at best; an epilogue for each vector; expanding the input."""
    p = node.params
    steps = _runs(p) * -(-(p.kernel_h * p.kernel_w * p.in_c // _runs(p)) // INPUTS)
    vectors = count * p.out_w * -(-p.out_c // OUTPUTS)
    rows = (count - 1) * p.stride_h + (p.kernel_h - 1) * p.dilation_h + 1
    return float(vectors * (0.6 * steps + 4) + rows * (15 + p.in_w * p.in_c / 24) + count * 30 + 100)


CONV2D = Kernel(
    "ge_conv2d_s8_x86",
    isa="x86",
    when=_conv_when,
    constants=MATRIX,
    arrange=_conv_arrange,
    scratch=_conv_scratch,
    cost=lambda node, target: Cost(_conv_rows_cost(node, target, node.params.out_h), 9000),
    rows_cost=_conv_rows_cost,
    store="rows",
)
