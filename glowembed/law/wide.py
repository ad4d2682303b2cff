"""The integer law of int16: how an int64 accumulator becomes an int16 output, in numpy.

In: int64 accumulators and multipliers made here at compile time. Out: exactly the bits that `runtime_c/ge_wide.h`
computes on the device. One rounding, half towards plus infinity, as in fixedpoint:

    y = clamp(((acc * multiplier + 2^(shift-1)) >> shift) + zero_point, lo, hi)

All channels of a tensor share `shift`. It is 32 if that is accurate: every scale is below 1/2, accumulators are below
2^31, and rounding `multiplier = round(scale * 2^32)` moves no output by more than an eighth of a step. A core then
requantizes with one multiplication that keeps the upper word (SMMLAR, VRMULH). Otherwise `shift` is the largest of
1..62 for which the multiplier has at most 31 bits, or fewer if the product with the largest accumulator would exceed 62
bits.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from glowembed.errors import UnsupportedModelError
from glowembed.law.fixedpoint import round_half_up
from glowembed.records import dataclass

Int64 = NDArray[np.int64]

LOWEST, HIGHEST = -32768, 32767

LEAST_BITS = 17
"""The least number of bits of the largest multiplier; with fewer, its rounding error would show in an int16 output."""

UPPER = 32
"""The preferred shift, with which the result is the upper word of a product of two words."""

WORST = 1 / 8
"""The largest error of an output, in steps, that the rounding of a multiplier for UPPER may cause."""


@dataclass(frozen=True)
class WideRequant:
    """Multipliers (int32, signed) and the shift that they share (1..62)."""

    multiplier: tuple[int, ...]
    shift: int


def requant(scales: Sequence[float] | NDArray[np.float64], bounds: int | Int64) -> WideRequant:
    """The multipliers for real scales and accumulators of at most `bounds`: one number, or one for each channel.

    Raises UnsupportedModelError when scales are not finite, or a multiplier would have fewer than LEAST_BITS bits.
    """
    real = np.atleast_1d(np.asarray(scales, dtype=np.float64))
    if not np.all(np.isfinite(real)):
        raise UnsupportedModelError(f"requantization scales must be finite, found {real.min()}..{real.max()}")
    if (upper := _upper(real, np.asarray(bounds, dtype=np.float64))) is not None:
        return upper
    bound = int(np.max(bounds))
    bits = min(31, 62 - bound.bit_length())
    largest = float(np.abs(real).max())
    if bits < LEAST_BITS or largest >= 2.0 ** (bits - 2):
        raise UnsupportedModelError(
            f"sums of up to {bound} times {largest:g} leave no room for int16 arithmetic: give the output a wider range"
        )
    shift = 62
    while shift > 1 and round_half_up(largest * 2.0**shift) >= 2.0**bits:
        shift -= 1
    return WideRequant(tuple(int(m) for m in round_half_up(real * 2.0**shift)), shift)


def _upper(real: NDArray[np.float64], bounds: NDArray[np.float64]) -> WideRequant | None:
    """The multipliers for a shift of UPPER, or None if they would be too coarse or too large.

    The error of a multiplier is at most 1/2. It changes the product by at most bound / 2, which is bound * 2^-33 steps
    of the output; relatively, by 1 / (2 * multiplier), which is 2^14 / multiplier steps of an output of 2^15.
    """
    multiplier = np.abs(round_half_up(real * 2.0**UPPER))
    if not np.all(multiplier < 2**31) or bounds.max() >= 2**31:
        return None
    error = np.minimum(bounds * 2.0 ** -(UPPER + 1), 2.0**14 / np.maximum(multiplier, 0.5))
    return WideRequant(tuple(int(m) for m in round_half_up(real * 2.0**UPPER)), UPPER) if error.max() <= WORST else None


def requantize(
    acc: Int64, q: WideRequant, zero_point: int, lo: int, hi: int, dtype: str = "int16"
) -> NDArray[np.integer]:
    """The law; the last axis of `acc` is the channel axis when there are several multipliers."""
    multiplier = np.asarray(q.multiplier, dtype=np.int64)
    y = (acc.astype(np.int64) * multiplier + (np.int64(1) << np.int64(q.shift - 1))) >> np.int64(q.shift)
    clamped: NDArray[np.integer] = np.clip(y + zero_point, lo, hi).astype(dtype)
    return clamped


def requantize_pair(a: Int64, b: Int64, q: WideRequant, zero_point: int, lo: int, hi: int) -> NDArray[np.integer]:
    """The law for a * multiplier[0] + b * multiplier[1]; `a` and `b` broadcast."""
    total = a * np.int64(q.multiplier[0]) + b * np.int64(q.multiplier[1])
    return requantize(total, WideRequant((1,), q.shift), zero_point, lo, hi)
