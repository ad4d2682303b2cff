"""Arranges weights for the kernels of Cortex-M4, M7 and M33, and checks the conditions under which these are exact.

In: integer constants of an op. Out: streams of words in reading order; runtime_c/kernels/dsp/ge_isa_dsp.h explains their use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glowembed.graph.ir import Array, Node
from glowembed.graph.isa import Isa
from glowembed.graph.op import Cost, Kernel, Store
from glowembed.graph.target import Target
from glowembed.law import fixedpoint
from glowembed.law.fixedpoint import LAWS
from glowembed.law.modes import Mode
from glowembed.ops.conv import Conv2dParams
from glowembed.ops.gemm import FcParams

Words = NDArray[np.uint32]

SUM_LIMIT = 1 << 23
"""The limit of the sum of the higher channel if two channels share a product."""

SHIFTS = range(25, 33)


RIGHT_MAX = 23
"""The largest last shift in the laws of other engines, for which zero point and rounding constant, shifted left, fit in
32 bits together with a sum below SUM_LIMIT.
"""


def up_of(p: Conv2dParams | FcParams, mode: Mode) -> int:
    """The bits by which sums are shifted left: in the default law, 32 minus the shift; in the laws of other engines,
    sums are doubled.
    """
    return 1 if LAWS[mode].by_channel else int(32 - p.shift)


_RIGHT: Mapping[Mode, Callable[[Array], Array]] = {"tflite": lambda w: -w[:, 1], "onnx": lambda w: w[:, 1] - 31}
"""For the laws with one shift: the last shift of each channel. It takes into account that the sum is doubled and that
only the upper word is used.
"""


def _law_constants(multiplier: Array, mode: Mode) -> Array:
    return multiplier.astype(np.int64).reshape(-1, fixedpoint.WORDS[mode])


def law_words(multiplier: Array, p: Conv2dParams | FcParams, mode: Mode) -> Array:
    """The requantization words, [channels, words]: the multiplier; in the laws of other engines, multiplier, addend and
    shifts (ge_isa_dsp_law_<mode>.h).
    """
    return _PACKED[mode](_law_constants(multiplier, mode), p.out_zero_point)


def _packed_glow(words: Array, zero_point: int) -> Array:
    pre, post = words[:, 1], words[:, 2]
    half = (np.int64(1) << post) >> 1
    return np.stack([words[:, 0], (zero_point << post) + half, (pre + 1) | (post << 8)], axis=1)


def _packed_shift(words: Array, right: Array, zero_point: int, parity: int = 0) -> Array:
    constant = (words[:, 0] == 0) | (right > RIGHT_MAX)  # all sums become 0 here
    right = np.where(constant, 1, right)
    addend = (zero_point << right) + (np.int64(1) << (right - 1))
    return np.stack([np.where(constant, 0, words[:, 0]), addend, right | parity << 8], axis=1)


_PACKED: Mapping[Mode, Callable[[Array, int], Array]] = {
    "default": lambda words, zero_point: words,
    "glow": _packed_glow,
    "tflite": lambda words, zero_point: _packed_shift(words, _RIGHT["tflite"](words), zero_point),
    "onnx": lambda words, zero_point: _packed_shift(words, _RIGHT["onnx"](words), zero_point, zero_point & 1),
}
"""For each law, the function that makes the words which ge_isa_dsp_law_<mode>.h reads."""

_CONSTANT_SHIFTS: Mapping[Mode, int] = {"glow": 257, "tflite": 1, "onnx": 1}
"""For each law, the packed shifts of a channel with a constant output; each shift is 1."""


def law_why_not(node: Node, mode: Mode, bounds: Array) -> str | None:
    """The reason why the kernels cannot requantize sums within +-`bounds` [channels] by this law; None if they can.

    Channels that need not be considered have the bound 0.
    """
    p = node.params
    if not LAWS[mode].by_channel:
        known = f"{SHIFTS.start}..{SHIFTS.stop - 1}"
        return None if p.shift in SHIFTS else f"the shift of the requantization is {p.shift}, not {known}"
    worst = int(bounds.argmax())
    if bounds[worst] >= SUM_LIMIT:
        return f"the sum of channel {worst} can reach {bounds[worst]}, {SUM_LIMIT} and more is too much"
    words = _law_constants(node.constants["multiplier"].materialize(), mode)
    if mode in _RIGHT:
        large = (words[:, 0] != 0) & (_RIGHT[mode](words) < 1) & (bounds > 0)
        return f"the scale of channel {int(large.argmax())} is 1/2 or more" if large.any() else None
    post = np.minimum(words[:, 2], RIGHT_MAX + 1)
    products = ((bounds >> words[:, 1]) + 1) * words[:, 0] + (np.int64(129) << post)
    if post.max() > RIGHT_MAX or products.max() >= 1 << 31:
        return f"the products of channel {int(products.argmax())} do not fit 32 bits"
    return None


def bounds_of(node: Node, axis: int | tuple[int, ...]) -> Array:
    """The largest absolute sum of each channel. axis: the axes of the weights that are summed."""
    weights = np.abs(weights_of(node)).sum(axis=axis)
    return np.asarray(128 * weights + np.abs(node.constants["bias"].materialize().astype(np.int64)))


def without_zero_points(constants: Mapping[str, Array]) -> dict[str, Array]:
    """The constants with their weights minus the zero points, as int16. weights: [channels, ..], or [kh, kw, channels]
    for depthwise.
    """
    weights, zero = constants["weights"].astype(np.int16), constants["weight_zero_point"].astype(np.int16)
    first = weights.ndim != 3
    less = zero.reshape(-1, *[1] * (weights.ndim - 1)) if first else zero
    return {
        name: weights - less if name == "weights" else a for name, a in constants.items() if name != "weight_zero_point"
    }


def weights_of(node: Node) -> Array:
    """The weights minus their zero points."""
    constants = {
        name: node.constants[name].materialize() for name in ("weights", "weight_zero_point") if name in node.constants
    }
    whole: Array = (without_zero_points(constants) if "weight_zero_point" in constants else constants)["weights"]
    return whole.astype(np.int64)


def why_not(node: Node, mode: Mode = "default") -> str | None:
    """The reason why two channels must not share a half-word in the kernels of ge_isa_dsp.h; None if they may."""
    weights = node.constants["weights"].materialize().astype(np.int64)
    if weights.min() < -127:
        return "a weight is -128"
    sums = 128 * np.abs(weights).reshape(weights.shape[0], -1).sum(axis=1)
    bias = np.abs(node.constants["bias"].materialize().astype(np.int64))
    bounds = np.where(sums > 0, sums + bias, 0)
    worst = int(np.argmax(bounds))
    if bounds[worst] >= SUM_LIMIT:
        return f"the sum of channel {worst} can reach {bounds[worst]}, {SUM_LIMIT} and more is too much"
    return law_why_not(node, mode, bounds)


UNROLL_MAX = 18
"""The most steps in a loop. Each takes 56 bytes, so that the loop fits into the 1 KB of the smallest instruction
caches.
"""


def turns(steps: int, unroll: int) -> int:
    """The cycles that a loop over `steps` steps loses; it begins in its middle if necessary."""
    return (4 * -(-steps // unroll) if steps > unroll else 0) + (2 if steps % unroll else 0)


def unroll(steps: int) -> int:
    """The number of steps in the body of a loop over `steps` steps."""
    return min(range(1, min(max(steps, 1), UNROLL_MAX) + 1), key=lambda u: (turns(steps, u), u))


def why_not_wide(node: Node) -> str | None:
    """The reason why ge_dsp_gemm_wide cannot take the weights; None if it can."""
    p, weights = node.params, weights_of(node)
    if p.shift not in SHIFTS:
        return f"the shift of the requantization is {p.shift}, not {SHIFTS.start}..{SHIFTS.stop - 1}"
    sums = 128 * np.abs(weights).reshape(weights.shape[0], -1).sum(axis=1)
    largest = int(np.max(np.where(sums > 0, sums + np.abs(node.constants["bias"].materialize().astype(np.int64)), 0)))
    if largest << (32 - p.shift) >= 1 << 31:
        return f"a sum can reach {largest}, too much for a shift of {p.shift}"
    return None


def words(count: int) -> int:
    """The number of words that `count` int8 numbers take as int16 (ge_dsp_words)."""
    return count // 4 * 2 + (count % 4 + 1) // 2


def run_order(count: int) -> list[int]:
    """The index of the element in each half-word that ge_dsp_expand writes; -1 for none."""
    fours = [base + i for base in range(0, count // 4 * 4, 4) for i in (0, 2, 1, 3)]
    rest = list(range(count // 4 * 4, count))
    return [*fours, *rest, *([-1] * (len(rest) % 2))]


def block_starts(channels: int, size: int = 4) -> list[int]:
    """The first channels of the blocks of `size` channels. If the size does not divide the number of channels, the
    second block overlaps the first.
    """
    rest = channels % size
    overlap = rest and channels > size
    return [0, *range(rest, channels - size + 1, size)] if overlap else list(range(0, channels, size))


def fours(channels: int) -> Array:
    """[blocks, 4]: the channels of each block of four; where there are fewer, the last one is there again."""
    return np.minimum(np.asarray(block_starts(channels))[:, None] + np.arange(4), channels - 1)


def asymmetric(kernel: Kernel, op: str) -> Kernel:
    """The kernel of any law for weights with zero points."""
    return replace(
        kernel,
        symbol=f"ge_{op}_laws_aw_s8_dsp",
        template=kernel.symbol,
        words={"ASYMMETRIC": "1"},
        headers={"sums_s8.h": "sums_aw_s8.h"},
    )


Block = Callable[[Array, Array, Array], Words]


def gemm_stream(
    weights: Array,
    bias: Array,
    multiplier: Array,
    order: Sequence[int],
    p: Conv2dParams | FcParams,
    block: Block | None = None,
    size: int = 4,
    mode: Mode = "default",
) -> Words:
    """For each block of `size` channels: start values, weights of pairs of channels and of k, requantization words.

    weights: [channels, K]. order: the element of K in each half-word of a column; -1 for none.
    """
    block = block or shared_block
    bias, law = without_dead_channels(weights, bias, multiplier, p, mode)
    channels = weights.shape[0]
    index = np.asarray([[min(c, channels - 1) for c in range(s, s + size)] for s in block_starts(channels, size)])
    padded = np.concatenate([weights, np.zeros((channels, 1), np.int8)], axis=1)[:, list(order)].astype(np.int64)
    blocks = [block(padded[some], bias[some].astype(np.int64), law[some].reshape(-1)) for some in index]
    return np.concatenate(blocks)


def wide_block(weights: Array, bias: Array, multiplier: Array) -> Words:
    """A block as ge_dsp_gemm_wide reads it: four sums, for each pair of k the bytes a0 b0 a1 b1 and c0 d0 c1 d1,
    multipliers.
    """
    pairs = weights.astype(np.int8).reshape(2, 2, -1, 2).transpose(2, 0, 3, 1)
    parts = [bias.astype("<i4"), np.ascontiguousarray(pairs).reshape(-1), multiplier.astype("<i4")]
    return np.concatenate([part.view("<u4") for part in parts]).astype(np.uint32)


def pairs_block(weights: Array, bias: Array, multiplier: Array) -> Words:
    """A block as ge_dsp_gemm_pairs reads it: four sums, for each pair of k a word of each channel, multipliers."""
    words = (weights[:, 0::2] & 0xFFFF) | ((weights[:, 1::2] & 0xFFFF) << 16)
    block = np.concatenate([bias, words.T.reshape(-1), multiplier.astype(np.int64)])
    return (block & 0xFFFFFFFF).astype(np.uint32)


def shared_block(weights: Array, bias: Array, multiplier: Array) -> Words:
    """A block as ge_dsp_gemm reads it: two channels in a half-word."""
    a, b = weights[0::2], weights[1::2]
    halves = 256 * a + b
    pairs = (halves[:, 0::2] & 0xFFFF) | ((halves[:, 1::2] & 0xFFFF) << 16)
    start = np.stack([256 * bias[0::2] + bias[1::2], bias[1::2]], axis=1).reshape(-1)
    block = np.concatenate([start, pairs.T.reshape(-1), multiplier.astype(np.int64)])
    return (block & 0xFFFFFFFF).astype(np.uint32)


def without_dead_channels(
    weights: Array, bias: Array, multiplier: Array, p: Conv2dParams | FcParams, mode: Mode
) -> tuple[Array, Array]:
    """The bias and the requantization words, with small sums for channels whose weights are all 0 and whose output is
    therefore constant.
    """
    dead = ~np.any(weights.reshape(weights.shape[0], -1), axis=1)
    if LAWS[mode].by_channel:
        q = fixedpoint.Requant(tuple(multiplier.tolist()), 0, mode)
        outputs = fixedpoint.requantize(bias, q, p.out_zero_point, -128, 127).astype(np.int64)
        words = np.stack([0 * outputs, 2 * outputs + 1, 0 * outputs + _CONSTANT_SHIFTS[mode]], axis=1)
        return np.where(dead, 0, bias), np.where(dead[:, None], words, law_words(multiplier, p, mode))
    exact = (bias.astype(np.int64) * multiplier + (np.int64(1) << (p.shift - 1))) >> np.int64(p.shift)
    constant = np.clip(exact, -255, 255)
    return (
        np.where(dead, constant << 14, bias).astype(np.int32),
        np.where(dead, np.int64(1) << (p.shift - 14), multiplier).astype(np.int32)[:, None],
    )


def grouped(constants: Mapping[str, Array], groups: int) -> list[tuple[Array, Array, Array]]:
    """Weights, bias and multiplier of each group of output channels."""
    w, bias, m = constants["weights"], constants["bias"], constants["multiplier"]
    size, words = w.shape[0] // groups, len(m) // w.shape[0]
    starts = range(0, w.shape[0], size)
    return [(w[i : i + size], bias[i : i + size], m[words * i : words * (i + size)]) for i in starts]


def convolution(
    symbol: str,
    when: Callable[[Node, Target], str | None],
    arrange: Callable[[Mapping[str, Array], Any], Mapping[str, Array]],
    instance: Callable[[Any], Mapping[str, int]],
    scratch: Callable[[Any], int],
    cycles: Callable[[Any, int], float],
    code: Callable[[Any], int],
    store: Store = "rows",
    option: str = "",
    template: str = "",
) -> Kernel:
    """A kernel of conv2d_s8 that reads a stream of words. cycles: a function of params and the number of output rows;
    code: bytes.
    """
    return Kernel(
        symbol,
        isa="dsp",
        option=option,
        when=when,
        constants={"stream": "uint32_t"},
        arrange=arrange,
        instance=instance,
        scratch=scratch,
        cost=lambda node, target: Cost(cycles(node.params, node.params.out_h), code(node.params)),
        rows_cost=lambda node, target, rows: cycles(node.params, rows),
        store=store,
        template=template,
    )


def stream_of(blocks: Array) -> Mapping[str, Array]:
    """Integers in reading order as the words of a stream."""
    return {"stream": (blocks & 0xFFFFFFFF).astype(np.uint32).reshape(-1)}


def depthwise_sums_why_not(node: Node, mode: Mode = "default") -> str | None:
    """The reason why the sums of a channel's taps do not fit the requantization of a law; None if they do."""
    p = node.params
    bound = bounds_of(node, axis=(0, 1))
    if (reason := law_why_not(node, mode, bound)) is not None:
        return reason
    if bound.max() << up_of(p, mode) >= 2**31:
        return f"the sum of channel {int(bound.argmax())} is too large for the shift of the requantization"
    return None


ISAS = (
    Isa(
        "dsp",
        "defined(__ARM_FEATURE_DSP) && defined(__thumb2__)",
        "a core with the DSP extension, such as Cortex-M4, M7 or M33: compile it with -mcpu=cortex-m4 -mthumb",
        ("mps2-an386", "mps2-an505", "mps2-an500"),
    ),
)
