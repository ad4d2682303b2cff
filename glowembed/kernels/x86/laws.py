"""Requantization on x86-64 in floats: the float form of each law, and the proof that it gives the bits of the law.

In: the words of a law, and the sums that can occur. Out: rows of floats for runtime_c/kernels/x86/ge_x86_law*.h, which
explains how they are used.

The law of a channel is a monotone function of the sum, and so is its float form. They agree everywhere if they agree
around each threshold, which is the least sum whose output is at least some code; there are at most 255 thresholds. If
the two functions differ, they differ at a few sums next to thresholds. A channel may have up to `EXCEPTIONS` such sums,
whose outputs are corrected by one. A channel without a proof is computed in integers.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from glowembed.law.fixedpoint import LAWS, WORDS
from glowembed.law.modes import Mode
from glowembed.records import dataclass

Int64 = NDArray[np.int64]
Float32 = NDArray[np.float32]

NEIGHBOURS = 8
"""How many floats above and below the nearest one are tried as the multiplier."""

SHARES = (1.0, 0.9, 1.1, 0.95, 1.05, 0.85, 1.15)
"""The distances from zero that are tried, as shares of the expected one, the most likely first."""

EXACT_SUM, EXACT_OUTPUT = 2**24, 2**15 - 2**8
"""Sums below the first number are exact floats. Outputs below the second, with any zero point, are the low 16 bits of
1.5 * 2^23 + output.
"""

REGISTER = 16
"""The channels of the largest register, which a block of 64 consists of."""

EXCEPTIONS = 4
"""The number of sums of a channel whose output may be corrected."""

MOVED = 20_000
"""How far a sum is moved at most."""

GUESSED = 4
"""How many sums above and below the expected position are searched first for a threshold."""

AROUND = 2
"""How many sums above and below a threshold may be exceptions."""

ROWS: Mapping[Mode, int] = {"default": 1, "onnx": 2 + 2 * EXCEPTIONS, "glow": 1, "tflite": 3 + 2 * EXCEPTIONS}
"""The number of floats of a channel, GE_X86_ROWS_<law> in the C files."""


@dataclass(frozen=True)
class Channels:
    """Channels of a layer. words: [words of the law, channels]; reach: the smallest and the largest sum of each."""

    mode: Mode
    words: Int64
    shift: int
    zero_point: int
    limits: tuple[int, int]
    reach: tuple[Int64, Int64]

    @property
    def scale(self) -> NDArray[np.float64]:
        """The real number by which the law multiplies the sums of each channel."""
        first, last = self.words[0].astype(np.float64), self.words[-1]
        shift = {"default": np.full_like(last, self.shift), "onnx": last, "tflite": 31 - last}[self.mode]
        return np.asarray(np.ldexp(first, -shift), np.float64)

    def of(self, some: NDArray[np.bool_]) -> Channels:
        """The same for these channels only."""
        reach = (self.reach[0][some], self.reach[1][some])
        return Channels(self.mode, self.words[:, some], self.shift, self.zero_point, self.limits, reach)

    def outputs(self, acc: Int64) -> Int64:
        """The outputs of the law for sums [..., channels]."""
        y = LAWS[self.mode].scaled(acc, self.words, self.shift)
        return np.clip(y + self.zero_point, *self.limits)

    def thresholds(self) -> Int64:
        """[codes, channels]: the least sum in reach whose output is at least the code; a number above the largest sum
        if there is none.
        """
        codes = np.arange(self.limits[0] + 1, self.limits[1] + 1, dtype=np.int64)[:, None]
        first, behind = self.reach[0], self.reach[1] + 1
        guess = np.rint((codes - self.zero_point - 0.5) / self.scale).astype(np.int64)
        low, high = (np.clip(guess + i, first, behind) for i in (-GUESSED, GUESSED))
        low = np.where(self.outputs(low) >= codes, first, low)
        high = np.where(self.outputs(high) >= codes, high, behind)
        for _ in range(int(np.max(high - low, initial=1)).bit_length()):
            middle = (low + high) >> 1
            there = self.outputs(middle) >= codes
            high, low = np.where(there, middle, high), np.where(there, low, np.minimum(middle + 1, high))
        return high


def words(multiplier: NDArray[np.integer], mode: Mode) -> Int64:
    """Requantization words that are stored channel after channel, as [words, channels]."""
    return np.ascontiguousarray(multiplier.astype(np.int64).reshape(-1, WORDS[mode]).T)


def in_one_form(blocks: Float32) -> Float32:
    """Floats in blocks, [blocks, rows, channels], in which all channels of a block have the form of the worst of them:
    integers, or the most exceptions. In the default law, the row of forms contains the multipliers; in a block that is
    computed in integers, those of sixteen channels that all have one stay, but negated.
    """
    form, single = blocks[:, :1], blocks.shape[1] == 1
    integers = (form < 0).any(axis=2, keepdims=True)
    if single:
        together = np.where(integers, _negated(form), form)
    else:
        together = np.broadcast_to(np.where(integers, np.float32(-1), form.max(axis=2, keepdims=True)), form.shape)
    return np.concatenate([together, blocks[:, 1:]], axis=1).astype(np.float32)


def _negated(multipliers: Float32) -> Float32:
    """The negated multipliers of each sixteen channels that are computed in floats, and -1 for others."""
    registers = multipliers.reshape(*multipliers.shape[:2], -1, min(REGISTER, multipliers.shape[2]))
    low, high = (each(registers, axis=3, keepdims=True) for each in (np.min, np.max))
    return np.where((low >= 0) & (high > 0) & (high < 1), -registers, np.float32(-1)).reshape(multipliers.shape)


def float_rows(channels: Channels) -> Float32:
    """[ROWS, channels] for a law; the first float of a channel that must be computed in integers is -1.

    default: the multiplier. onnx and tflite: the number of exceptions, the multiplier, for tflite the distance from
    zero, and for each exception its sum and the change of the output. glow: 0 if the law can be computed in 32 bits.
    """
    rows = np.zeros((ROWS[channels.mode], channels.words.shape[1]), np.float32)
    if channels.mode == "glow":
        rows[0] = np.where(_fits(channels), 0, -1)
        return rows
    rows[0] = -1
    most = np.maximum(np.abs(channels.reach[0]), np.abs(channels.reach[1]))
    scale = channels.scale
    provable = (most < EXACT_SUM) & (most * scale < EXACT_OUTPUT) & (scale > 0)
    if provable.any():
        rows[:, provable] = _search(channels.of(provable))
    return rows


def moves(channels: Channels, rows: Float32) -> Int64:
    """What is added to the sum and to the output of a channel so that its float form is exact, [2, channels]; or 0.

    Only for the default law, and for channels whose multiplier in `rows` is -1, which becomes the one that is found.
    The output moves by a whole number, and the sum back by the nearest whole number, so that in all the float form
    moves by a fraction of a sum.
    """
    found = np.zeros((2, rows.shape[1]), np.int64)
    failed = np.flatnonzero(rows[0] == -1) if channels.mode == "default" else ()
    for c in failed:
        one = channels.of(np.arange(rows.shape[1]) == c)
        most = max(abs(int(end[0])) for end in one.reach) + MOVED
        if one.scale[0] > 0 and most < EXACT_SUM and most * one.scale[0] < EXACT_OUTPUT:
            found[:, c], rows[0, c] = _move(one)
    return found


def _move(channel: Channels) -> tuple[tuple[int, int], float]:
    """The move of one channel and its multiplier; no move and -1 if none is exact."""
    tests, nearest = _Tests.of(channel), channel.scale.astype(np.float32)
    for step in sorted(range(-NEIGHBOURS, NEIGHBOURS + 1), key=abs):
        m = neighbour(nearest, step)
        up = np.arange(1, int(MOVED * float(m[0])) + 1)
        up = np.concatenate([up, -up])
        back = -np.rint(up / float(m[0])).astype(np.int64)
        y = _floats(channel, tests.acc + back, m, np.zeros(1, np.float32)) + up
        right = (np.clip(y, *channel.limits) == tests.wanted).all(axis=0)
        if right.any():
            k = int(np.argmax(right))
            return (int(back[k]), int(up[k])), float(m[0])
    return (0, 0), -1.0


def _fits(channels: Channels) -> NDArray[np.bool_]:
    """Whether glow's product, with everything that is added to it, fits in int32."""
    multiplier, pre, post = channels.words
    most = np.maximum(np.abs(channels.reach[0]), np.abs(channels.reach[1]))
    product = ((most >> pre) + 1) * multiplier + ((np.int64(1) << post) >> 1)
    return np.asarray((product < 2**31) & (post < 32))


def _search(channels: Channels) -> Float32:
    """The rows of channels whose sums are floats: for each channel, the candidate with the fewest exceptions."""
    count = channels.words.shape[1]
    rows = np.zeros((ROWS[channels.mode], count), np.float32)
    allowed = 0 if channels.mode == "default" else EXCEPTIONS
    fewest = np.full(count, allowed + 1)
    tests, nearest = _Tests.of(channels), channels.scale.astype(np.float32)
    for share in SHARES if channels.mode == "tflite" else (0.0,):
        for step in sorted(range(-NEIGHBOURS, NEIGHBOURS + 1), key=abs):
            left = fewest > 0
            if not left.any():
                break
            some = tests.some(left)
            m = neighbour(nearest[left], step)
            away = np.float32(share) * (2.0**30 / np.maximum(some.channels.words[0], 1)).astype(np.float32)
            found, wrong = some.exceptions(m, away)
            better = found < fewest[left]
            to = np.flatnonzero(left)[better]
            fewest[to] = found[better]
            numbers = [m[better], away[better]] if channels.mode == "tflite" else [m[better]]
            corrections = () if channels.mode == "default" else some.corrections(better, wrong)
            head = () if channels.mode == "default" else (found[better],)
            rows[:, to] = np.stack([*head, *numbers, *corrections])
    rows[:, fewest > allowed] = 0
    rows[0, fewest > allowed] = -1
    return rows


def neighbour(x: Float32, steps: int) -> Float32:
    """The floats that are this many steps farther from zero than x."""
    return np.asarray(x.view(np.int32) + np.int32(steps)).view(np.float32)


@dataclass(frozen=True)
class _Tests:
    """The sums at which two monotone functions must agree: those around thresholds, and the ends. All arrays are [sums,
    channels].

    acc: the sums, ascending. wanted: the outputs of the law. first: whether the sum differs from the one before.
    outermost: whether a candidate must be right at this sum, because it stands for all sums farther from the threshold.
    """

    channels: Channels
    acc: Int64
    wanted: Int64
    first: NDArray[np.bool_]
    outermost: NDArray[np.bool_]

    @staticmethod
    def of(channels: Channels) -> _Tests:
        low, high = channels.reach
        around = 1 if channels.mode == "default" else AROUND
        offsets = np.arange(-around, around, dtype=np.int64)[:, None, None]
        tried = (channels.thresholds() + offsets).reshape(-1, len(low))
        at_edge = np.repeat((offsets == -around) | (offsets == around - 1), len(tried) // len(offsets))[:, None]
        outermost = at_edge & (tried >= low) & (tried <= high)
        acc = np.vstack([np.clip(tried, low, high), low, high])
        order = np.argsort(acc, axis=0, kind="stable")
        acc = np.take_along_axis(acc, order, axis=0)
        outermost = np.take_along_axis(np.pad(outermost, ((0, 2), (0, 0))), order, axis=0)
        first = np.vstack([np.ones((1, len(low)), np.bool_), acc[1:] != acc[:-1]])
        return _Tests(channels, acc, channels.outputs(acc), first, outermost)

    def some(self, chosen: NDArray[np.bool_]) -> _Tests:
        """The same for these channels only."""
        acc, wanted = self.acc[:, chosen], self.wanted[:, chosen]
        return _Tests(self.channels.of(chosen), acc, wanted, self.first[:, chosen], self.outermost[:, chosen])

    def exceptions(self, m: Float32, away: Float32) -> tuple[Int64, Int64]:
        """The number of exceptions of each channel, or EXCEPTIONS + 1 if there is no proof, and the errors of the
        outputs.
        """
        y = np.clip(_floats(self.channels, self.acc, m, away), *self.channels.limits)
        wrong = self.wanted - y.astype(np.int64)
        unproved = (self.outermost & (wrong != 0)).any(axis=0) | (np.abs(wrong) > 1).any(axis=0)
        return np.where(unproved, EXCEPTIONS + 1, (self.first & (wrong != 0)).sum(axis=0)), wrong

    def corrections(self, chosen: NDArray[np.bool_], wrong: Int64) -> list[Float32]:
        """For each of EXCEPTIONS, the sum and the change of its output: two rows for the chosen channels."""
        acc, wrong, first = self.acc[:, chosen], wrong[:, chosen], self.first[:, chosen]
        places = np.argsort(~(first & (wrong != 0)), axis=0, kind="stable")[:EXCEPTIONS]
        rows = []
        for place in places:
            at, change, own = (np.take_along_axis(a, place[None], axis=0)[0] for a in (acc, wrong, first))
            rows += [at.astype(np.float32), np.where(own, change, 0).astype(np.float32)]
        return rows


def _floats(channels: Channels, acc: Int64, m: Float32, away: Float32) -> NDArray[np.float64]:
    """The float form. In tflite, sums are first moved away from zero. One fused multiply-add with 1.5 * 2^23 + zero
    point rounds halves to even; onnx adds an odd zero point afterwards.
    """
    x = acc.astype(np.float32)
    if channels.mode == "tflite":
        x = x + np.copysign(away, x)
    whole_zero = 0 if channels.mode == "onnx" else channels.zero_point
    product = x.astype(np.float64) * m.astype(np.float64)
    below = np.floor(product)
    rest, odd = product - below, (below + whole_zero) % 2 == 1
    return np.asarray(below + ((rest > 0.5) | ((rest == 0.5) & odd)) + channels.zero_point)
