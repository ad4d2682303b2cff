"""The integer law: how an accumulator becomes an int8 output, in numpy.

In: int32 accumulators and multipliers made here at compile time. Out: exactly the bits that `runtime_c/ge_fixedpoint.h`
computes on the device. Nothing here ever rounds in float at run time.

Requantization has one rounding, half towards plus infinity:

    y = clamp(((acc * multiplier + 2^(shift-1)) >> shift) + zero_point, lo, hi)

with `multiplier = round(scale * 2^shift)` below 2^31 and `shift` from 1 to 32, chosen once per tensor: 32 while every
scale is below 1/2 (one SMMULR on Cortex-M4, one VRMULH on Helium), less for larger scales. A multiplier is off by at
most 1/2, so y is off by at most `|acc| / 2^(shift+1)` before the rounding, which is under 0.004 for accumulators of 25
bits.

That is the law "default". Three more laws reproduce the results of other engines wherever those are defined (where they
overflow, the result here is the true one, clamped); `runtime_c/ge_requantize_<law>.h` gives the same bits in C:

    onnx    round(acc * multiplier * 2^-shift) + zero_point                        multiplier of 31 bits, own shift
            one rounding, halves to even, as ONNX QuantizeLinear; a value that the multiplier cannot distinguish from a half counts as one
    glow    (((acc >> pre) * multiplier + 2^(post-1)) >> post) + zero_point       multiplier of 8 bits
    tflite  round(round(acc * multiplier / 2^31) / 2^-shift) + zero_point          multiplier of 31 bits
            the inner rounding takes halves up, the outer away from zero, as in TensorFlow Lite Micro's reference kernels
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from glowembed.errors import UnsupportedModelError
from glowembed.law.modes import Mode
from glowembed.records import dataclass

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]

MAX_SHIFT = 32
"""Shift of the requantization while every scale is below 1/2."""

MAX_PAIR_SHIFT = 22
"""Largest shift of `pair_multipliers`: keeps zero_point * 2^shift and both products inside int32."""


@dataclass(frozen=True)
class Requant:
    """The requantization words of each channel, channel after channel, and the shift that all channels share (1..32;
    default law only).
    """

    multiplier: tuple[int, ...]
    shift: int
    mode: Mode = "default"


def round_half_up(x: NDArray[np.float64] | float) -> NDArray[np.float64]:
    """floor(x + 1/2): the rounding of every compile-time constant."""
    return np.floor(np.asarray(x, dtype=np.float64) + 0.5)


def bias_steps(bias: NDArray[np.floating], scales: NDArray[np.float64], limit: float, name: str) -> Int64:
    """bias / scale in whole steps of the sum, halves to even.

    Raises UnsupportedModelError, which names the node and the output channel, if a bias is not below `limit`.
    """
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        steps = np.rint(bias.astype(np.float64) / scales)
    fits = np.abs(steps) < limit
    if not fits.all():
        channel = int(np.argmin(fits))
        raise UnsupportedModelError(
            f"{name}: the bias of output channel {channel}, {bias[channel]:g}, is {abs(steps[channel]):g} steps of the sum,"
            f" and fewer than {limit:g} fit: its weights, or the scales of input and weights, are far too small for it"
        )
    return steps.astype(np.int64)


def requant(scales: Sequence[float] | NDArray[np.float64], mode: Mode = "default", where: str = "") -> Requant:
    """The multipliers for real scales (input scale * weight scale / output scale), each finite and >= 0. where: begins an error.

    Raises UnsupportedModelError when a scale is 2^30 or more: no int8 output could hold such a sum.
    """
    real = np.atleast_1d(np.asarray(scales, dtype=np.float64))
    if not np.all(np.isfinite(real)) or np.any(real < 0):
        raise UnsupportedModelError(
            f"{where}requantization scales must be finite and positive, found {real.min()}..{real.max()}"
        )
    if round_half_up(real.max() * 2.0) >= 2.0**31:
        raise UnsupportedModelError(
            f"{where}requantization scale {real.max():g} is too large: the range of the output is far too small for the sums,"
            " or a scale that a rule gives to the input or the weights is far too large"
        )
    return LAWS[mode].requant(real)


def _one_shift(real: NDArray[np.float64]) -> Requant:
    shift = MAX_SHIFT
    while round_half_up(real.max() * 2.0**shift) >= 2.0**31:
        shift -= 1
    return Requant(tuple(int(m) for m in round_half_up(real * 2.0**shift)), shift)


def onnx_words(scale: float) -> tuple[int, int]:
    """The multiplier in [2^30, 2^31) and the shift, 1..62, with scale = multiplier * 2^-shift; below 2^-32 the
    multiplier is 0.
    """
    multiplier, left = tflite_words(scale)
    return multiplier, 31 - left


def glow_words(scale: float) -> tuple[int, int, int]:
    """The multiplier, pre and post that Glow chooses. A power of two is exact; below 2^-32 all are 0."""
    scale = float(np.float32(scale))
    if scale < 2.0**-32:
        return 0, 0, 0
    fraction, exponent = math.frexp(scale)
    if fraction == 0.5:
        return (int(scale), 0, 0) if scale > 1 else (1, 0, 1 - exponent)
    pre = post = 0
    while scale < 0.5 or (scale < 256 and post < 15):
        scale, post = 2 * scale, post + 1
    while scale < 255 and pre < post // 2:
        scale, pre = 2 * scale, pre + 1
    return int(round_half_up(scale)), pre, post


def tflite_words(scale: float) -> tuple[int, int]:
    """The multiplier in [2^30, 2^31) and the shift with scale = multiplier * 2^(shift - 31); below 2^-32 both are 0."""
    fraction, shift = math.frexp(scale)
    multiplier = int(round_half_up(fraction * 2.0**31))
    if multiplier == 2**31:
        multiplier, shift = 2**30, shift + 1
    return (multiplier, shift) if scale and shift >= -31 else (0, 0)


def tflite_mean_words(scale: float, count: int) -> tuple[int, int]:
    """The multiplier and shift for the mean of `count` elements as in TensorFlow Lite's MEAN: the multiplier of the
    scale, divided and truncated.
    """
    multiplier, shift = tflite_words(scale)
    up = min(count.bit_length() - 1, 32, 31 + shift)
    return (multiplier << up) // count, shift - up


def requantize(acc: NDArray[np.integer], q: Requant, zero_point: int, lo: int, hi: int) -> NDArray[np.int8]:
    """The law of q.mode. `acc` has the range of int32; its last axis is the channel axis if there are several
    channels.
    """
    words = np.asarray(q.multiplier, dtype=np.int64).reshape(-1, WORDS[q.mode]).T
    y = LAWS[q.mode].scaled(acc.astype(np.int64), words, q.shift)
    clamped: NDArray[np.int8] = np.clip(y + zero_point, lo, hi).astype(np.int8)
    return clamped


def _half(shift: Int64) -> Int64:
    """2^(shift-1); 0 for a shift of 0."""
    half: Int64 = (np.int64(1) << shift) >> 1
    return half


def rounded_to_even(x: Int64, doubt: Int64, shift: Int64 | int) -> Int64:
    """Return x / 2^shift, halves to even, for an x whose error is at most `doubt`; a value that may be a half counts as
    one. shift is 1..62.
    """
    raised = x + _half(np.asarray(shift, np.int64)) + doubt
    y = raised >> shift
    may_be_half = raised - (y << shift) <= 2 * doubt
    even: Int64 = y - (may_be_half & y & 1)
    return even


def doubling_high_mul(a: Int64, b: Int64 | int) -> Int64:
    """Return a * b / 2^31, halves up, as VQRDMULH and gemmlowp's SaturatingRoundingDoublingHighMul do. a and b are not
    both -2^31.
    """
    y: Int64 = (a * b + (1 << 30)) >> 31
    return y


def rounding_divide(x: Int64, exponent: Int64 | int) -> Int64:
    """Return x / 2^exponent, halves away from zero, as gemmlowp's RoundingDivideByPOT does."""
    exponent = np.asarray(exponent, np.int64)
    nudge = np.where(exponent > 0, _half(exponent) - (x < 0), 0)
    y: Int64 = (x + nudge) >> exponent
    return y


def multiply_tflite(x: Int64, multiplier: Int64 | int, shift: Int64 | int) -> Int64:
    """Return x * multiplier * 2^(shift - 31), rounded twice, as MultiplyByQuantizedMultiplier does. x << shift
    saturates.
    """
    left, right = np.maximum(shift, 0), np.maximum(np.negative(shift), 0)
    wide = np.clip(x * (np.int64(1) << left.astype(np.int64)), -(2**31), 2**31 - 1)
    return rounding_divide(doubling_high_mul(wide, multiplier), right)


def each_words(a: float, b: float, y: float, sign: int, mode: Mode) -> tuple[int, ...]:
    """The 7 words of `requantize_each` for the scales of two operands and of their sum (sign 1) or difference (-1)."""
    return (*LAWS[mode].each_words(a, b, y), sign)


def requantize_each(
    a: NDArray[np.integer], b: NDArray[np.integer], words: Sequence[int], zero_point: int, lo: int, hi: int, mode: Mode
) -> NDArray[np.int8]:
    """A sum whose operands are rescaled and rounded separately; `a` and `b` are int8 numbers minus their zero points."""
    total = LAWS[mode].scaled_each(a.astype(np.int64), b.astype(np.int64), words)
    y: NDArray[np.int8] = np.clip(total + zero_point, lo, hi).astype(np.int8)
    return y


def _scale_glow(x: Int64, multiplier: Int64 | int, pre: Int64 | int, post: Int64 | int) -> Int64:
    """((x >> pre) * multiplier + 2^(post-1)) >> post"""
    y: Int64 = ((x >> pre) * multiplier + _half(np.asarray(post, np.int64))) >> post
    return y


class Law(ABC):
    """How one engine makes outputs of sums. `runtime_c/ge_law_<name>.h` is its counterpart in C."""

    name: ClassVar[Mode]
    words: ClassVar[tuple[str, ...]]
    """The names of the int32 numbers of each channel, in order."""

    each: ClassVar[tuple[str, ...]] = ()
    """The names of the 7 words of each_words; an empty name stands for a word that is 0 and unused."""

    by_channel: ClassVar[bool] = True
    """Whether channels have shifts of their own; otherwise all share the shift of the Requant."""

    @abstractmethod
    def requant(self, real: NDArray[np.float64]) -> Requant:
        """The words for these scales."""

    @abstractmethod
    def scaled(self, acc: Int64, words: Int64, shift: int) -> Int64:
        """Sums times their scale, rounded. words: [words for each channel, channels or 1]."""

    def each_words(self, a: float, b: float, y: float) -> tuple[int, ...]:
        """The first 6 words for the scales of two operands and of their sum."""
        raise NotImplementedError(f"{self.name} rescales no operand by itself")

    def scaled_each(self, left: Int64, right: Int64, w: Sequence[int]) -> Int64:
        """The sum of two operands that are rescaled separately; w[6] is the sign of the second one."""
        raise NotImplementedError(f"{self.name} rescales no operand by itself")


class _OneShift(Law):
    name = "default"
    words = ("multiplier",)
    by_channel = False

    def requant(self, real: NDArray[np.float64]) -> Requant:
        return _one_shift(real)

    def scaled(self, acc: Int64, words: Int64, shift: int) -> Int64:
        y: Int64 = (acc * words[0] + (np.int64(1) << np.int64(shift - 1))) >> np.int64(shift)
        return y


class _ByChannel(Law):
    """A law whose channels have shifts of their own."""

    def requant(self, real: NDArray[np.float64]) -> Requant:
        return Requant(tuple(word for scale in real for word in self.words_of(float(scale))), 0, self.name)

    @abstractmethod
    def words_of(self, scale: float) -> tuple[int, ...]:
        """The words of one scale."""

    def words_of_all(self, scales: Iterable[float]) -> tuple[int, ...]:
        """The words of several scales, which must be those that `requant` takes."""
        return tuple(word for scale in scales for word in requant([scale], self.name).multiplier)


class _Onnx(_ByChannel):
    name = "onnx"
    words = ("multiplier", "right_shift")
    each = ("multiplier_a", "multiplier_b", "right_shift", "", "", "", "sign")

    def words_of(self, scale: float) -> tuple[int, ...]:
        return onnx_words(scale)

    def scaled(self, acc: Int64, words: Int64, shift: int) -> Int64:
        return rounded_to_even(acc * words[0], np.abs(acc) >> 1, words[1])

    def each_words(self, a: float, b: float, y: float) -> tuple[int, ...]:
        both = requant([a / y, b / y])
        return (*both.multiplier, both.shift, 0, 0, 0)

    def scaled_each(self, left: Int64, right: Int64, w: Sequence[int]) -> Int64:
        return rounded_to_even(left * w[0] + right * w[1] * w[6], (np.abs(left) + np.abs(right)) >> 1, w[2])


class _Glow(_ByChannel):
    name = "glow"
    words = ("multiplier", "pre_shift", "post_shift")
    each = ("multiplier_a", "pre_shift_a", "post_shift_a", "multiplier_b", "pre_shift_b", "post_shift_b", "sign")

    def words_of(self, scale: float) -> tuple[int, ...]:
        return glow_words(scale)

    def scaled(self, acc: Int64, words: Int64, shift: int) -> Int64:
        return _scale_glow(acc, words[0], words[1], words[2])

    def each_words(self, a: float, b: float, y: float) -> tuple[int, ...]:
        with np.errstate(over="ignore"):  # requant refuses infinite scales
            return self.words_of_all(float(np.float32(s) / np.float32(y)) for s in (a, b))

    def scaled_each(self, left: Int64, right: Int64, w: Sequence[int]) -> Int64:
        return _scale_glow(left, *w[0:3]) + _scale_glow(right, *w[3:6]) * w[6]


class _Tflite(_ByChannel):
    name = "tflite"
    words = ("multiplier", "left_shift")
    each = ("multiplier_a", "left_shift_a", "multiplier_b", "left_shift_b", "multiplier_y", "left_shift_y", "sign")

    def words_of(self, scale: float) -> tuple[int, ...]:
        return tflite_words(scale)

    def scaled(self, acc: Int64, words: Int64, shift: int) -> Int64:
        return multiply_tflite(acc, words[0], words[1])

    def each_words(self, a: float, b: float, y: float) -> tuple[int, ...]:
        twice = 2.0 * max(a, b)
        return self.words_of_all((a / twice, b / twice, twice / (2.0**20 * y)))

    def scaled_each(self, left: Int64, right: Int64, w: Sequence[int]) -> Int64:
        a, b = (multiply_tflite(x * 2**20, m, s) for x, m, s in ((left, w[0], w[1]), (right, w[2], w[3])))
        return multiply_tflite(a + b * w[6], w[4], w[5])


LAWS: Mapping[Mode, Law] = {law.name: law for law in (_OneShift(), _Onnx(), _Glow(), _Tflite())}

WORD_NAMES: Mapping[Mode, tuple[str, ...]] = {mode: law.words for mode, law in LAWS.items()}

EACH_NAMES: Mapping[Mode, tuple[str, ...]] = {mode: law.each for mode, law in LAWS.items() if law.each}

WORDS: Mapping[Mode, int] = {mode: len(names) for mode, names in WORD_NAMES.items()}
"""The number of int32 numbers for each channel."""


@dataclass(frozen=True)
class PairRequant:
    """y = clamp((a * multiplier[0] + b * multiplier[1] + offset) >> shift): one rounding for a sum of terms.

    Multipliers are signed, and int16 unless they are `fine`; `offset` is int32 and holds the zero points and the
    rounding constant. One or two terms: the second multiplier is 0 for a plain rescale.
    """

    multiplier: tuple[int, int]
    offset: int
    shift: int


def pair_requant(
    scales: tuple[float, float], zero_points: tuple[int, int], out_zero_point: int, fine: bool = False
) -> PairRequant:
    """The constants for y = a' * scales[0] + b' * scales[1] with a' = a - zero_points[0]; scales are relative to y's
    and signed.

    The larger multiplier has 15 bits, so y is off by at most 255 / 2^shift before the rounding: 0.02 of a step while
    both scales are below 2, and more for an output range far below the inputs'. `fine`: the multipliers have as many
    bits as keep the sum inside int32; the shift is 21 or 22 while the sum of both scales is below 3. Raises
    UnsupportedModelError when a scale is 16384 or more.
    """
    largest = max(abs(s) for s in scales)
    if not np.all(np.isfinite(scales)) or largest >= 2.0**14:
        raise UnsupportedModelError(f"an input scale is {largest:g} times the output scale; at most 16384 is possible")
    shift = MAX_PAIR_SHIFT
    while shift > 1 and (_pair_peak(scales, shift) >= 2.0**31 if fine else largest * 2.0**shift >= 32767.5):
        shift -= 1
    ma, mb = (int(round_half_up(s * 2.0**shift)) for s in scales)
    offset = (out_zero_point << shift) + (1 << (shift - 1)) - zero_points[0] * ma - zero_points[1] * mb
    return PairRequant((ma, mb), offset, shift)


def _pair_peak(scales: tuple[float, float], shift: int) -> float:
    """An upper bound of the offset and all partial sums of ge_requantize_pair: 2 * 128 steps of each, zero point and
    rounding.
    """
    return (256 * (abs(scales[0]) + abs(scales[1])) + 130) * 2.0**shift + 2.0**10


def sums_meet_halves(a: float, b: float, y: float) -> bool:
    """Whether a sum of -255..255 times a and -255..255 times b can lie exactly halfway between two multiples of y.

    The scales are taken as float32, as models store them.
    """
    step_a, step_b, step_y = _integers(a, b, y)
    if max(step_a, step_b, step_y) >= 2**52:
        return False  # one scale is so far from the others that it decides nothing, or everything
    i = np.arange(-255, 256, dtype=np.int64)
    return bool(((2 * np.add.outer(i * step_a, i * step_b) - step_y) % (2 * step_y) == 0).any())


def means_meet_halves(x: float, y: float, count: int) -> bool:
    """Whether the mean of `count` elements of -255..255 times x can lie exactly halfway between two multiples of y."""
    step_x, step_y = _integers(x, y)
    whole = step_y * count // math.gcd(step_x, step_y * count)
    return whole % 2 == 0 and whole // 2 <= 255 * count


def _integers(*scales: float) -> list[int]:
    """Integers in the same proportion as the scales, taken as float32."""
    ratios = [float(np.float32(scale)).as_integer_ratio() for scale in scales]
    whole = max(denominator for _, denominator in ratios)
    return [numerator * (whole // denominator) for numerator, denominator in ratios]


def requantize_pair(
    a: NDArray[np.integer], b: NDArray[np.integer], q: PairRequant, lo: int, hi: int
) -> NDArray[np.int8]:
    """The law of PairRequant; `a` and `b` broadcast. The sum stays inside int32 for int8 inputs."""
    total = a.astype(np.int64) * q.multiplier[0] + b.astype(np.int64) * q.multiplier[1] + q.offset
    y: NDArray[np.int8] = np.clip(total >> np.int64(q.shift), lo, hi).astype(np.int8)
    return y
