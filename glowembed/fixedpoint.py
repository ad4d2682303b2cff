"""The integer law: how an accumulator becomes an int8 output, in numpy.

In: int32 accumulators and multipliers made here at compile time. Out: the very bits that
`runtime_c/ge_fixedpoint.h` computes on the device. Nothing here ever rounds in float at run time.

Requantization has one rounding, half towards plus infinity:

    y = clamp(((acc * multiplier + 2^(shift-1)) >> shift) + zero_point, lo, hi)

with `multiplier = round(scale * 2^shift)` below 2^31 and `shift` from 1 to 32, chosen once per tensor:
32 while every scale is below 1/2 (one SMMULR on Cortex-M4, one VRMULH on Helium), less for larger scales.
A multiplier is off by at most 1/2, so y is off by at most `|acc| / 2^(shift+1)` before the rounding,
which is under 0.004 for accumulators of 25 bits.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glowembed.errors import UnsupportedModelError

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]

MAX_SHIFT = 32
"""Shift of the requantization while every scale is below 1/2."""

MAX_PAIR_SHIFT = 22
"""Largest shift of `pair_multipliers`: keeps zero_point * 2^shift and both products inside int32."""


@dataclass(frozen=True)
class Requant:
    """Multipliers (one per channel, int32, >= 0) and the shift that they share (1..32)."""

    multiplier: tuple[int, ...]
    shift: int


def round_half_up(x: NDArray[np.float64] | float) -> NDArray[np.float64]:
    """floor(x + 1/2): the rounding of every compile-time constant."""
    return np.floor(np.asarray(x, dtype=np.float64) + 0.5)


def requant(scales: Sequence[float] | NDArray[np.float64]) -> Requant:
    """The multipliers for real scales (input scale * weight scale / output scale), each finite and >= 0.

    Raises UnsupportedModelError when a scale is 2^30 or more: no int8 output could hold such a sum.
    """
    real = np.atleast_1d(np.asarray(scales, dtype=np.float64))
    if not np.all(np.isfinite(real)) or np.any(real < 0):
        raise UnsupportedModelError(
            f"requantization scales must be finite and positive, found {real.min()}..{real.max()}"
        )
    shift = MAX_SHIFT
    while shift > 1 and round_half_up(real.max() * 2.0**shift) >= 2.0**31:
        shift -= 1
    if round_half_up(real.max() * 2.0**shift) >= 2.0**31:
        raise UnsupportedModelError(
            f"requantization scale {real.max():g} is too large: the output range is far too small for the sums"
        )
    return Requant(tuple(int(m) for m in round_half_up(real * 2.0**shift)), shift)


def requantize(acc: NDArray[np.integer], q: Requant, zero_point: int, lo: int, hi: int) -> NDArray[np.int8]:
    """The law above; the last axis of `acc` (int32 range) is the channel axis when there are several multipliers."""
    multiplier = np.asarray(q.multiplier, dtype=np.int64)
    product = acc.astype(np.int64) * multiplier + (np.int64(1) << np.int64(q.shift - 1))
    y: NDArray[np.int8] = np.clip((product >> np.int64(q.shift)) + zero_point, lo, hi).astype(np.int8)
    return y


@dataclass(frozen=True)
class PairRequant:
    """y = clamp((a * multiplier[0] + b * multiplier[1] + offset) >> shift): one rounding for a sum of terms.

    Multipliers are int16 and signed, `offset` is int32 and holds the zero points and the rounding constant.
    One or two terms: the second multiplier is 0 for a plain rescale.
    """

    multiplier: tuple[int, int]
    offset: int
    shift: int


def pair_requant(scales: tuple[float, float], zero_points: tuple[int, int], out_zero_point: int) -> PairRequant:
    """Constants for y = a' * scales[0] + b' * scales[1] with a' = a - zero_points[0]; scales are relative to y's and signed.

    The larger multiplier has 15 bits, so y is off by at most 255 / 2^shift before the rounding:
    0.02 of a step while both scales are below 2, and more for an output range far below the inputs'.
    Raises UnsupportedModelError when a scale is 16384 or more.
    """
    largest = max(abs(s) for s in scales)
    if not np.all(np.isfinite(scales)) or largest >= 2.0**14:
        raise UnsupportedModelError(f"an input scale is {largest:g} times the output scale; at most 16384 is possible")
    shift = MAX_PAIR_SHIFT
    while shift > 1 and round_half_up(largest * 2.0**shift) > 32767:
        shift -= 1
    ma, mb = (int(round_half_up(s * 2.0**shift)) for s in scales)
    offset = (out_zero_point << shift) + (1 << (shift - 1)) - zero_points[0] * ma - zero_points[1] * mb
    return PairRequant((ma, mb), offset, shift)


def requantize_pair(
    a: NDArray[np.integer], b: NDArray[np.integer], q: PairRequant, lo: int, hi: int
) -> NDArray[np.int8]:
    """The law of PairRequant; `a` and `b` broadcast. The sum stays inside int32 for int8 inputs."""
    total = a.astype(np.int64) * q.multiplier[0] + b.astype(np.int64) * q.multiplier[1] + q.offset
    y: NDArray[np.int8] = np.clip(total >> np.int64(q.shift), lo, hi).astype(np.int8)
    return y
