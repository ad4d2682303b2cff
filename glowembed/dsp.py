"""Weights as the kernels of Cortex-M4, M7 and M33 read them, and the proofs that they need.

In: integer constants of an op. Out: streams of words in reading order; runtime_c/ge_isa_dsp.h says what they are for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glowembed.ir import Array, Node
from glowembed.op import Cost, Kernel, Store
from glowembed.target import Target

Words = NDArray[np.uint32]

SUM_LIMIT = 1 << 23
"""Two channels share a product: the sum of the higher one must stay below this."""

SHIFTS = range(25, 33)


def why_not(node: Node) -> str | None:
    """None where two channels may share a half-word in the kernels of ge_isa_dsp.h; otherwise the reason."""
    p, weights = node.params, node.constants["weights"].materialize().astype(np.int64)
    if p.shift not in SHIFTS:
        return f"the shift of the requantization is {p.shift}, not {SHIFTS.start}..{SHIFTS.stop - 1}"
    if weights.min() < -127:
        return "a weight is -128"
    sums = 128 * np.abs(weights).reshape(weights.shape[0], -1).sum(axis=1)
    bias = np.abs(node.constants["bias"].materialize().astype(np.int64))
    worst = int(np.argmax(np.where(sums > 0, sums + bias, 0)))
    if sums[worst] > 0 and sums[worst] + bias[worst] >= SUM_LIMIT:
        return f"the sum of channel {worst} can reach {sums[worst] + bias[worst]}, {SUM_LIMIT} and more is too much"
    return None


UNROLL_MAX = 18
"""Steps of 56 bytes in a loop: it fits the 1 KB of the smallest instruction caches."""


def turns(steps: int, unroll: int) -> int:
    """Cycles that `steps` steps lose at the ends of the loop, which begins in its middle where it must."""
    return (4 * -(-steps // unroll) if steps > unroll else 0) + (2 if steps % unroll else 0)


def unroll(steps: int) -> int:
    """Steps to have in the loop, of `steps` that it makes."""
    return min(range(1, min(max(steps, 1), UNROLL_MAX) + 1), key=lambda u: (turns(steps, u), u))


def why_not_wide(node: Node) -> str | None:
    """None where ge_dsp_gemm_wide takes the weights; otherwise the reason."""
    p, weights = node.params, node.constants["weights"].materialize().astype(np.int64)
    if p.shift not in SHIFTS:
        return f"the shift of the requantization is {p.shift}, not {SHIFTS.start}..{SHIFTS.stop - 1}"
    sums = 128 * np.abs(weights).reshape(weights.shape[0], -1).sum(axis=1)
    largest = int(np.max(np.where(sums > 0, sums + np.abs(node.constants["bias"].materialize().astype(np.int64)), 0)))
    if largest << (32 - p.shift) >= 1 << 31:
        return f"a sum can reach {largest}, too much for a shift of {p.shift}"
    return None


def words(count: int) -> int:
    """Words that `count` int8 take as int16 (ge_dsp_words)."""
    return count // 4 * 2 + (count % 4 + 1) // 2


def run_order(count: int) -> list[int]:
    """Which element each half-word of ge_dsp_expand holds; -1: none."""
    fours = [base + i for base in range(0, count // 4 * 4, 4) for i in (0, 2, 1, 3)]
    rest = list(range(count // 4 * 4, count))
    return [*fours, *rest, *([-1] * (len(rest) % 2))]


def block_starts(channels: int, size: int = 4) -> list[int]:
    """First channels of the blocks of `size`. Where that does not divide, the second begins inside the first."""
    rest = channels % size
    overlap = rest and channels > size
    return [0, *range(rest, channels - size + 1, size)] if overlap else list(range(0, channels, size))


Block = Callable[[Array, Array, Array], Words]


def gemm_stream(
    weights: Array,
    bias: Array,
    multiplier: Array,
    order: Sequence[int],
    p: Any,
    block: Block | None = None,
    size: int = 4,
) -> Words:
    """For each block of `size` channels: start values, weights of pairs of channels and of k, multipliers.

    weights [channels, K]; `order` names the element of K for each half-word of a column, -1 for none.
    """
    block = block or shared_block
    bias, multiplier = without_dead_channels(weights, bias, multiplier, p)
    channels = weights.shape[0]
    index = np.asarray([[min(c, channels - 1) for c in range(s, s + size)] for s in block_starts(channels, size)])
    padded = np.concatenate([weights, np.zeros((channels, 1), np.int8)], axis=1)[:, list(order)].astype(np.int64)
    blocks = [block(padded[some], bias[some].astype(np.int64), multiplier[some]) for some in index]
    return np.concatenate(blocks)


def wide_block(weights: Array, bias: Array, multiplier: Array) -> Words:
    """As ge_dsp_gemm_wide reads it: four sums, for each pair of k the bytes a0 b0 a1 b1 and c0 d0 c1 d1, multipliers."""
    pairs = weights.astype(np.int8).reshape(2, 2, -1, 2).transpose(2, 0, 3, 1)
    parts = [bias.astype("<i4"), np.ascontiguousarray(pairs).reshape(-1), multiplier.astype("<i4")]
    return np.concatenate([part.view("<u4") for part in parts]).astype(np.uint32)


def shared_block(weights: Array, bias: Array, multiplier: Array) -> Words:
    """As ge_dsp_gemm reads it: two channels in a half-word."""
    a, b = weights[0::2], weights[1::2]
    halves = 256 * a + b
    pairs = (halves[:, 0::2] & 0xFFFF) | ((halves[:, 1::2] & 0xFFFF) << 16)
    start = np.stack([256 * bias[0::2] + bias[1::2], bias[1::2]], axis=1).reshape(-1)
    block = np.concatenate([start, pairs.T.reshape(-1), multiplier.astype(np.int64)])
    return (block & 0xFFFFFFFF).astype(np.uint32)


def without_dead_channels(weights: Array, bias: Array, multiplier: Array, p: Any) -> tuple[Array, Array]:
    """bias and multiplier with small sums in channels whose weights are all 0 and whose output is thus a constant."""
    dead = ~np.any(weights.reshape(weights.shape[0], -1), axis=1)
    exact = (bias.astype(np.int64) * multiplier + (np.int64(1) << (p.shift - 1))) >> np.int64(p.shift)
    constant = np.clip(exact, -255, 255)
    return (
        np.where(dead, constant << 14, bias).astype(np.int32),
        np.where(dead, np.int64(1) << (p.shift - 14), multiplier).astype(np.int32),
    )


def grouped(constants: Mapping[str, Array], groups: int) -> list[tuple[Array, Array, Array]]:
    """Weights, bias and multiplier of each group of output channels."""
    w, bias, m = constants["weights"], constants["bias"], constants["multiplier"]
    size = w.shape[0] // groups
    return [(w[i : i + size], bias[i : i + size], m[i : i + size]) for i in range(0, w.shape[0], size)]


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
) -> Kernel:
    """A kernel of conv2d_s8 that reads a stream of words. cycles: for params and so many output rows; code: bytes."""
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
    )


def stream_of(blocks: Array) -> Mapping[str, Array]:
    """Integers in reading order, as the words of a stream."""
    return {"stream": (blocks & 0xFFFFFFFF).astype(np.uint32).reshape(-1)}
