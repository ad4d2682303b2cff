"""The integer law of int16: how an int64 accumulator becomes an int16 output, in numpy.

In: int64 accumulators and multipliers made here at compile time. Out: exactly the bits that `runtime_c/ge_wide.h`
computes on the device. One rounding, half towards plus infinity, as in fixedpoint:

    y = clamp(((acc * multiplier + 2^(shift-1)) >> shift) + zero_point, lo, hi)

`multiplier = round(scale * 2^shift)` has at most 31 bits, and fewer where the bound on the accumulator leaves less room
in 62 bits; `shift` (1..62) is shared by the channels of a tensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glowembed.errors import UnsupportedModelError
from glowembed.law.fixedpoint import round_half_up

Int64 = NDArray[np.int64]

LOWEST, HIGHEST = -32768, 32767

LEAST_BITS = 17
"""Least number of bits of the largest multiplier: with fewer, its own rounding would show in an int16 output."""


@dataclass(frozen=True)
class WideRequant:
    """Multipliers (int32, signed) and the shift that they share (1..62)."""

    multiplier: tuple[int, ...]
    shift: int


def requant(scales: Sequence[float] | NDArray[np.float64], bound: int) -> WideRequant:
    """The multipliers for real scales and accumulators of at most `bound`.

    Raises UnsupportedModelError when scales are not finite, or a multiplier would have fewer than LEAST_BITS bits.
    """
    real = np.atleast_1d(np.asarray(scales, dtype=np.float64))
    if not np.all(np.isfinite(real)):
        raise UnsupportedModelError(f"requantization scales must be finite, found {real.min()}..{real.max()}")
    bits = min(31, 62 - int(bound).bit_length())
    largest = float(np.abs(real).max())
    if bits < LEAST_BITS or largest >= 2.0 ** (bits - 2):
        raise UnsupportedModelError(
            f"sums of up to {bound} times {largest:g} leave no room for int16 arithmetic: give the output a wider range"
        )
    shift = 62
    while shift > 1 and round_half_up(largest * 2.0**shift) >= 2.0**bits:
        shift -= 1
    return WideRequant(tuple(int(m) for m in round_half_up(real * 2.0**shift)), shift)


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
