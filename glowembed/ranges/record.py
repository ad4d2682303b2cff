"""The record of one value. In: its arrays. Out: a ValueProfile with minimum, maximum, histogram, and means of channels.

The histogram of a value has bins of width 2**exponent at integer multiples of that width, and the smallest exponent for
which the whole range needs at most BINS of them. When the range grows, aligned pairs of bins merge exactly. Therefore a
record does not depend on the order of the samples, nor on how many are recorded at once, and `merged` of two records is
the record of both sets of samples. The means are exact too: the mean of each sample is rounded, and then the means are
added exactly.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import replace
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glowembed.graph.ir import Array
from glowembed.records import dataclass

BINS = 2048
SMALLEST_EXPONENT = -150
"""The smallest exponent of a bin, which lies below the smallest positive float32 number."""

LARGEST_EXPONENT = 128
PRECISION_BITS = 24
"""A bin is never narrower than 2**-24 of the largest magnitude, the precision of float32."""

MAX_CHANNELS = 4096

MEAN_BITS = 16
"""The significant bits of a channel's mean over one sample; they are few, so that their sum has few digits."""

SUM_EXPONENT = -160
"""Sums of means are kept as multiples of 2**SUM_EXPONENT."""

LARGEST_SUM = 1 << (128 + 64 - SUM_EXPONENT)
"""The largest sum in a file; a float32 number is below 2**128, and there are fewer than 2**64 samples."""

MAX_LEVELS = 256
"""The most levels that are listed; with more levels, an input gains nothing from a grid in int8."""

TOGETHER = 1 << 16
"""The number of elements of a value that are observed at once."""

COUNTED = 1 << 13
"""The number of elements that are counted at once: their arrays are small enough for memory to be used again at once."""

LONG = 1024
"""The number of elements that minima and maxima are taken of at once."""

DIGIT = 16
"""Bits of exponents that are added together: TOGETHER means of MEAN_BITS bits, shifted by less than this, stay below 2**63."""

LARGEST = float(np.finfo(np.float32).max)

Counts = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Histogram:
    """counts[i]: how many x have floor(x / 2**exponent) == first + i."""

    exponent: int
    first: int
    counts: Counts

    @property
    def width(self) -> float:
        return math.ldexp(1.0, self.exponent)


@dataclass(frozen=True, eq=False)
class ValueProfile:
    """The record of one value; a constant has no histogram. Channels: minima and maxima along the last axis.

    channel_sum: the sum of the samples' means, in units of 2**SUM_EXPONENT; () if unknown. levels: the numbers that an
    input took, ascending; () if there are more than MAX_LEVELS, or if they are unknown. edited: a person changed the
    range in the file, which is then the range to represent, whatever the calibration.
    """

    low: float
    high: float
    histogram: Histogram | None = None
    channel_low: tuple[float, ...] = ()
    channel_high: tuple[float, ...] = ()
    channel_sum: tuple[int, ...] = ()
    levels: tuple[float, ...] = ()
    edited: bool = False


class Recorder:
    """Records the values of many samples: `add` every array, then take `records()`, one for each name.

    Samples of a value are kept until they have TOGETHER elements and are then observed at once, which is faster and has the
    same result. with_levels: the names of values whose numbers are listed.
    """

    def __init__(self, with_levels: Collection[str]) -> None:
        self._with_levels = with_levels
        self._waiting: dict[str, list[Array]] = {}
        self._records: dict[str, ValueProfile] = {}

    def add(self, name: str, array: Array) -> None:
        """Record the array of one sample. All arrays of a name must have one shape."""
        waiting = self._waiting.setdefault(name, [])
        waiting.append(array)
        if len(waiting) * array.size >= TOGETHER:
            self._observe(name)

    def records(self) -> dict[str, ValueProfile]:
        """The records of everything that was added, by name."""
        for name in list(self._waiting):
            self._observe(name)
        return self._records

    def _observe(self, name: str) -> None:
        samples = self._waiting.pop(name)
        seen = observe(*samples)
        if name in self._with_levels:
            seen = replace(seen, levels=_levels(np.unique(np.stack(samples))))
        self._records[name] = merged(self._records[name], seen) if name in self._records else seen


@np.errstate(over="ignore")
def as_float32(x: Any) -> float:
    """The number rounded to float32. -0.0 becomes 0.0, because it is arbitrary which of them is the minimum of an
    array.
    """
    return float(np.float32(x)) + 0.0


def observe(*samples: Array) -> ValueProfile:
    """The record of samples of one shape. NaN and infinities count as the largest numbers, which keep the value in
    float32.
    """
    array = np.stack(samples)
    low, high = as_float32(array.min()), as_float32(array.max())
    if not (math.isfinite(low) and math.isfinite(high)):
        return observe(*np.nan_to_num(array.astype(np.float32), nan=LARGEST, posinf=LARGEST, neginf=-LARGEST))
    exponent = _exponent(low, high)
    histogram = Histogram(exponent, first := bin_of(float(array.min()), exponent), _counts(array, exponent, first))
    channels = array.reshape(len(array), -1, array.shape[-1] if array.ndim > 1 else 1)
    if channels.shape[2] > MAX_CHANNELS:
        return ValueProfile(low, high, histogram)
    least, most = (_floats(_over_channels(end, channels)) for end in (np.minimum, np.maximum))
    return ValueProfile(low, high, histogram, least, most, _sums(channels.mean(axis=1, dtype=np.float64)))


def _over_channels(end: np.ufunc, channels: Array) -> Array:
    """The minimum or maximum of each channel of an array [samples, places, channels]: first of rows of many places, because numpy
    reduces long rows faster.
    """
    count = channels.shape[2]
    flat = channels.reshape(-1, count)
    together = max(1, LONG // count)
    whole = len(flat) // together * together
    rest = flat[whole:]
    if whole:
        rest = np.concatenate([end.reduce(flat[:whole].reshape(-1, together * count)).reshape(-1, count), rest])
    return np.asarray(end.reduce(rest))


def _counts(array: Array, exponent: int, first: int) -> Counts:
    """The numbers of elements in the bins from `first` on. All steps are exact: a scale of 1 or more loses no bits of a float32."""
    small = array.dtype == np.float32 and -LARGEST_EXPONENT < exponent - 1 < 0
    scale, dtype, flat = math.ldexp(1.0, -exponent), np.float32 if small else np.float64, array.ravel()
    counts = np.zeros(bin_of(float(array.max()), exponent) - first + 1, np.int64)
    for begin in range(0, flat.size, COUNTED):
        places = np.multiply(flat[begin : begin + COUNTED], scale, dtype=dtype)
        np.floor(places, out=places)
        places -= first
        counts += np.bincount(places.astype(np.int32), minlength=counts.size)  # conversions to int64 are slower
    return counts


def _sums(means: NDArray[np.float64]) -> tuple[int, ...]:
    """The means [samples, channels], each rounded to MEAN_BITS, added over the samples, in units of 2**SUM_EXPONENT."""
    exponents = np.maximum(np.frexp(means)[1] - MEAN_BITS, SUM_EXPONENT)
    mantissas = np.rint(np.ldexp(means, -exponents)).astype(np.int64)
    totals = [0] * means.shape[1]
    parts = exponents - SUM_EXPONENT
    for part in np.unique(parts // DIGIT).tolist():
        digits = np.where(parts // DIGIT == part, mantissas << parts % DIGIT, 0).sum(axis=0)
        totals = [total + (digit << DIGIT * part) for total, digit in zip(totals, digits.tolist(), strict=True)]
    return tuple(totals)


def _floats(array: Array) -> tuple[float, ...]:
    return tuple((array.astype(np.float32) + np.float32(0)).tolist())


def _levels(distinct: Array) -> tuple[float, ...]:
    return _floats(distinct) if len(distinct) <= MAX_LEVELS else ()


def _merged_levels(a: tuple[float, ...], b: tuple[float, ...]) -> tuple[float, ...]:
    return _levels(np.union1d(a, b)) if a and b else ()


def _exponent(low: float, high: float) -> int:
    """The smallest exponent for which the range needs at most BINS bins."""
    largest = max(abs(low), abs(high))
    exponent = math.frexp(largest)[1] - PRECISION_BITS if largest else SMALLEST_EXPONENT
    # in bins of width 2**e, a range of 2**(e + b + 1) or more has more than BINS = 2**b of them
    exponent = max(exponent, SMALLEST_EXPONENT)
    if high > low:
        exponent = max(exponent, math.frexp(high - low)[1] - BINS.bit_length() - 1)
    while bin_of(high, exponent) - bin_of(low, exponent) >= BINS:
        exponent += 1
    return exponent


def bin_of(x: float, exponent: int) -> int:
    """The position of the bin of width 2**exponent that holds the number."""
    return math.floor(math.ldexp(x, -exponent))


def coarser(histogram: Histogram, exponent: int) -> Histogram:
    """The counts in bins of width 2**exponent: floor(floor(x / w) / 2**n) == floor(x / (w * 2**n))."""
    shift = min(exponent - histogram.exponent, 63)
    positions = (np.arange(len(histogram.counts)) + histogram.first) >> shift
    first = int(positions[0])
    counts = np.zeros(int(positions[-1]) - first + 1, np.int64)
    np.add.at(counts, positions - first, histogram.counts)
    return Histogram(exponent, first, counts)


def _merge_histogram(a: Histogram, b: Histogram, low: float, high: float) -> Histogram:
    exponent = _exponent(low, high)
    a, b = coarser(a, exponent), coarser(b, exponent)
    first = min(a.first, b.first)
    end = max(a.first + len(a.counts), b.first + len(b.counts))
    counts = np.zeros(end - first, np.int64)
    for part in (a, b):
        counts[part.first - first : part.first - first + len(part.counts)] += part.counts
    return Histogram(exponent, first, counts)


def merged(a: ValueProfile, b: ValueProfile) -> ValueProfile:
    """The record of both sets of samples."""
    low, high = min(a.low, b.low), max(a.high, b.high)
    if a.histogram is None or b.histogram is None:
        return ValueProfile(low, high)
    return ValueProfile(
        low,
        high,
        _merge_histogram(a.histogram, b.histogram, low, high),
        tuple(map(min, a.channel_low, b.channel_low)),
        tuple(map(max, a.channel_high, b.channel_high)),
        tuple(map(add, a.channel_sum, b.channel_sum)),
        _merged_levels(a.levels, b.levels),
    )
