"""Chooses ranges from the profile: the numbers that a type should hold; others are clipped.

In: the histogram of a value, a method, the schema and dtype that the range is for. Out: (low, high), inside the
observed range. All methods use only the histogram, so they do not depend on the order or number of the samples.

minmax the whole observed range.
percentile the smallest run of bins that leaves out at most (100 - p) / 2 % of the numbers at each end. kl the window
whose distribution, merged into the numbers of the type, is nearest to that of all: the algorithm
            of Glow and TensorRT, except for the spike of exact zeros after a ReLU. The type must have fewer numbers than
            there are bins, so for int16 the range is not changed.
mse the clip with the least squared error of rounding (taken as uniform over a step) and clipping. sqnr the clip with
the highest ratio of signal to error; it clips a little less than mse.

An input whose numbers all lie on a grid through zero, such as scaled bytes, is stored exactly by a type whose scale is
the step of the grid, or the step divided by an integer. All methods except percentile and kl, whose purpose is to clip,
give the range of that type.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from glowembed.errors import UsageError, unknown_name
from glowembed.graph.ir import Array
from glowembed.options.table import METHODS, Schema
from glowembed.quantize import schema
from glowembed.quantize.schema import Range
from glowembed.ranges.record import Histogram, ValueProfile, as_float32, coarser, observe
from glowembed.records import dataclass

Floats = NDArray[np.float64]

DEFAULT_PERCENTILE = 99.99

CLIPS = 96
"""The number of thresholds that are tried at each end of a range."""

FEW = 512
"""A range that is chosen from fewer numbers is widened."""

SPANNED = 4096
"""To the range that so many numbers of a normal distribution span."""

GRID_ERROR = 2.0**-20
"""How far a number may lie from the grid, relative to the largest number: the error of a float32 product, with a
margin.
"""

KL_EPSILON = 1e-4
"""The count that an empty bin gets, so that the divergence stays finite."""

WEIGHT_BINS = 512
"""The most bins through which kl looks at the weights of a channel."""


@dataclass(frozen=True)
class _Case:
    """The input of a method: the value with a histogram, and what the range is for."""

    value: ValueProfile
    histogram: Histogram
    schema: Schema
    dtype: str
    percentile: float


def calibrate(
    value: ValueProfile,
    method: str = "minmax",
    law: Schema = "asymmetric",
    dtype: str = "int8",
    percentile: float = DEFAULT_PERCENTILE,
) -> Range:
    """The range to represent, by one of METHODS. A value without a histogram, or with a single number, keeps its
    range.
    """
    if method not in METHODS:
        raise unknown_name("calibration", method, METHODS)
    if value.histogram is None or value.edited or value.low == value.high:
        return value.low, value.high
    if dtype == "int8" and method not in ("percentile", "kl") and (grid := _grid_range(value, law)) is not None:
        return grid
    case = _Case(value, value.histogram, law, dtype, percentile)
    low, high = _METHODS[method](case)
    return max(low, value.low), min(high, value.high)


def calibrate_samples(value: ValueProfile, method: str, law: Schema, dtype: str, percentile: float) -> Range:
    """The range to represent for all the numbers that a value takes, of which the profile holds samples."""
    low, high = calibrate(value, method, law, dtype, percentile)
    if method not in ("mse", "sqnr") or value.histogram is None or value.edited or value.low == value.high:
        return low, high
    if dtype == "int8" and _grid_range(value, law) is not None:
        return low, high
    margin = _margin(int(value.histogram.counts.sum()))
    return low * margin, high * margin


def _margin(count: int) -> float:
    """By how much the range of a few numbers is widened: by minimizing the error of those alone, the others would be
    clipped. The largest of n numbers from a normal distribution is about sqrt(2 ln n) standard deviations.
    """
    return math.sqrt(math.log(SPANNED) / math.log(max(count, 2))) if count < FEW else 1.0


def _grid_range(value: ValueProfile, law: Schema) -> Range | None:
    """The range whose int8 type represents every level of the value exactly, or None."""
    step = grid_step(value.levels)
    if step is None or law == "symmetric_with_power2_scale":
        return None
    first, last = round(min(value.low, 0.0) / step), round(max(value.high, 0.0) / step)
    if law == "symmetric" or (first < 0 and law == "symmetric_with_uint8"):
        parts = min(128 // -first if first else 128, 127 // last if last else 127)
        return (-128 * step / parts, 127 * step / parts) if parts else None
    parts = 255 // (last - first)
    if not parts:
        return None
    spare = 255 - (last - first) * parts
    below = 0 if first == 0 else spare if last == 0 else spare // 2
    lowest = first * parts - below
    return lowest * step / parts, (lowest + 255) * step / parts


def grid_step(levels: Sequence[float]) -> float | None:
    """The smallest difference between levels (zero included), if all levels are multiples of it within the precision of
    float32 and fit in int8; else None.
    """
    numbers = np.unique(np.asarray([0.0, *levels]))
    if len(numbers) < 2:
        return None
    largest = float(np.abs(numbers).max())
    step = largest / round(largest / float(np.diff(numbers).min()))
    off_grid = np.abs(numbers - np.rint(numbers / step) * step).max()
    fits = numbers[-1] - numbers[0] < 255.5 * step
    return step if fits and off_grid <= GRID_ERROR * largest else None


def calibrate_weights(
    weights: Array,
    method: str = "minmax",
    law: Schema = "symmetric",
    dtype: str = "int8",
    percentile: float = DEFAULT_PERCENTILE,
) -> Range:
    """The range to represent for the weights of one channel, or of all channels."""
    low, high = as_float32(weights.min()), as_float32(weights.max())
    if method == "minmax" and math.isfinite(low) and math.isfinite(high):  # called for every channel
        return low, high
    value = observe(weights.astype(np.float32).reshape(-1, 1))
    if method == "kl" and value.histogram is not None:
        value = ValueProfile(value.low, value.high, _at_most(value.histogram, WEIGHT_BINS))
    return calibrate(value, method, law, dtype, percentile)


def _at_most(histogram: Histogram, bins: int) -> Histogram:
    while len(histogram.counts) > bins:
        histogram = coarser(histogram, histogram.exponent + 1)
    return histogram


def _minmax(case: _Case) -> Range:
    return case.value.low, case.value.high


def _percentile(case: _Case) -> Range:
    if not 50 < case.percentile <= 100:
        raise UsageError(f"the percentile must be above 50 and at most 100, found {case.percentile}")
    histogram = case.histogram
    seen = np.cumsum(histogram.counts)
    outside = seen[-1] * (100.0 - case.percentile) / 200.0
    lowest = int(np.searchsorted(seen, outside, side="right"))
    highest = int(np.searchsorted(seen, seen[-1] - outside, side="left"))
    return (histogram.first + lowest) * histogram.width, (histogram.first + highest + 1) * histogram.width


@dataclass(frozen=True)
class _Errors:
    """Cumulative sums over the bins, from which the error of any clip is computed without a loop over bins."""

    centers: Floats
    counts: Floats
    sums: tuple[Floats, Floats, Floats]
    """counts, counts * x and counts * x * x, each summed over all bins before a bin; the last entry is the sum over all
    bins
    """
    exact: float
    """the count of the zero bin, whose numbers every type holds exactly"""

    @classmethod
    def of(cls, case: _Case) -> _Errors:
        histogram = case.histogram
        position = histogram.first + np.arange(len(histogram.counts))
        centers = np.clip((position + 0.5) * histogram.width, case.value.low, case.value.high)
        counts = histogram.counts.astype(np.float64)
        moments = (counts, counts * centers, counts * centers * centers)
        padded = tuple(np.concatenate([[0.0], np.cumsum(m)]) for m in moments)
        zero = counts[position == 0].sum()
        return cls(centers, counts, (padded[0], padded[1], padded[2]), float(zero))

    def clipped_below(self, t: Floats) -> tuple[Floats, Floats]:
        """The pair (number of values below t, sum of their squared distances to t)."""
        at = np.searchsorted(self.centers, t, side="left")
        n, s1, s2 = (m[at] for m in self.sums)
        return n, s2 - 2 * t * s1 + t * t * n

    def clipped_above(self, t: Floats) -> tuple[Floats, Floats]:
        """The pair (number of values above t, sum of their squared distances to t)."""
        at = np.searchsorted(self.centers, t, side="right")
        n, s1, s2 = (m[-1] - m[at] for m in self.sums)
        return n, s2 - 2 * t * s1 + t * t * n

    def of_clip(self, low: Floats, high: Floats, scale: Floats) -> tuple[Floats, Floats]:
        """The sums of squared errors and of squared stored values, for types that hold low..high in steps of
        `scale`.
        """
        below, error_below = self.clipped_below(low)
        above, error_above = self.clipped_above(high)
        inside = np.maximum(self.sums[0][-1] - below - above - self.exact, 0.0)
        noise = inside * scale * scale / 12 + error_below + error_above
        first = np.searchsorted(self.centers, low, side="left")
        last = np.searchsorted(self.centers, high, side="right")
        stored = below * low * low + above * high * high + self.sums[2][last] - self.sums[2][np.minimum(first, last)]
        return noise, stored


def _candidates(case: _Case) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """Thresholds low and high, the range and scale of the type made from each pair; all arrays have the same shape."""
    share = np.arange(1, CLIPS + 1) / CLIPS
    low, high = min(case.value.low, 0.0), max(case.value.high, 0.0)
    steps = float(np.iinfo(case.dtype).max - np.iinfo(case.dtype).min)
    if case.schema == "asymmetric" or (case.schema == "symmetric_with_uint8" and low >= 0):
        lows, highs = (low * share if low < 0 else np.zeros(1)), (high * share if high > 0 else np.zeros(1))
        low_grid, high_grid = (grid.reshape(-1) for grid in np.meshgrid(lows, highs, indexing="ij"))
        return low_grid, high_grid, low_grid, high_grid, (high_grid - low_grid) / steps
    ends = max(-low, high) * share
    lows, highs = np.maximum(low, -ends), np.minimum(high, ends)
    types = [schema.choose(a, b, case.schema, case.dtype) for a, b in zip(lows.tolist(), highs.tolist(), strict=True)]
    held = np.asarray([t.range() for t in types])
    return lows, highs, held[:, 0], held[:, 1], np.asarray([t.scale[0] for t in types])


def _mse(case: _Case) -> Range:
    lows, highs, held_low, held_high, scale = _candidates(case)
    noise, _ = _Errors.of(case).of_clip(held_low, held_high, scale)
    return _last_best(lows, highs, -noise)


def _sqnr(case: _Case) -> Range:
    lows, highs, held_low, held_high, scale = _candidates(case)
    noise, stored = _Errors.of(case).of_clip(held_low, held_high, scale)
    return _last_best(lows, highs, stored / np.maximum(noise, np.finfo(np.float64).tiny))


def _last_best(lows: Floats, highs: Floats, goodness: Floats) -> Range:
    """The range of the last of the best candidates, which is the widest of them."""
    best = len(goodness) - 1 - int(np.argmax(goodness[::-1]))
    return float(lows[best]), float(highs[best])


def _kl(case: _Case) -> Range:
    """The window with the least divergence. The search starts from the observed range, widened to hold zero, and
    shrinks it by two bins at a time.
    """
    levels = int(np.iinfo(case.dtype).max) - int(np.iinfo(case.dtype).min)
    first, counts = _aligned(case)
    if len(counts) < levels:
        return case.value.low, case.value.high
    symmetric = not (case.schema == "asymmetric" or (case.schema == "symmetric_with_uint8" and first >= 0))
    begin, end, best = 0, len(counts), (np.inf, 0, len(counts))
    seen = np.concatenate([[0.0], np.cumsum(counts)])
    while end - begin >= levels:
        best = min(best, (_divergence(counts, begin, end, levels), begin, end), key=lambda entry: entry[0])
        begin, end = _shrunk(seen, begin, end, symmetric)
    width = case.histogram.width
    return (first + best[1]) * width, (first + best[2]) * width


def _aligned(case: _Case) -> tuple[int, Floats]:
    """The position of the first bin and the counts, extended by empty bins so that they include zero and, for a
    symmetric schema, -x for every x.
    """
    first, end = case.histogram.first, case.histogram.first + len(case.histogram.counts)
    low, high = min(first, 0), max(end, 0)
    if case.schema.startswith("symmetric") and not (case.schema == "symmetric_with_uint8" and low >= 0):
        low, high = -max(-low, high), max(-low, high)
    counts = np.zeros(high - low)
    counts[first - low : end - low] = case.histogram.counts
    return low, _without_spike(counts, -low)


def _without_spike(counts: Floats, zero: int) -> Floats:
    """Limit the bin of zero to the height of its neighbours, because the zeros after a ReLU are exact in every type and
    carry no information.

    Glow keeps them; they then dominate the distribution, and clipping the rest seems harmless.
    """
    neighbours = [counts[i] for i in (zero - 1, zero + 1) if 0 <= i < len(counts)]
    if zero < len(counts) and neighbours:
        counts[zero] = min(counts[zero], max(neighbours))
    return counts


def _shrunk(seen: Floats, begin: int, end: int, symmetric: bool) -> tuple[int, int]:
    """Remove one bin at each end or, for an asymmetric type, the cheapest of three ways: one at each end, two on the
    left, or two on the right.
    """
    both = (begin + 1, end - 1)
    if symmetric:
        return both
    return max((both, (begin + 2, end), (begin, end - 2)), key=lambda window: float(seen[window[1]] - seen[window[0]]))


def _divergence(counts: Floats, begin: int, end: int, levels: int) -> float:
    """The Kullback-Leibler divergence between the window, with outliers added to its ends, and the window merged into
    `levels` bins.
    """
    window = counts[begin:end]
    p = window.copy()
    p[0] += counts[:begin].sum()
    p[-1] += counts[end:].sum()
    size = len(window) // levels
    starts = np.arange(levels) * size
    filled = p > 0
    occupied = np.add.reduceat(filled, starts, dtype=np.float64)
    mean = np.add.reduceat(window, starts) / np.maximum(occupied, 1)
    q = np.repeat(mean, np.diff(starts, append=len(window))) * filled
    smooth_p, smooth_q = _smooth(p), _smooth(q)
    if smooth_p is None or smooth_q is None:
        return np.inf
    smooth_p, smooth_q = smooth_p / smooth_p.sum(), smooth_q / smooth_q.sum()
    return float((smooth_p * np.log(smooth_p / smooth_q)).sum())


def _smooth(counts: Floats) -> Floats | None:
    """Give each empty bin KL_EPSILON, taken evenly from the other bins; None if these do not have enough."""
    empty = counts <= 0
    taken = KL_EPSILON * empty.sum() / max(1, (~empty).sum())
    smooth = np.where(empty, KL_EPSILON, counts - taken)
    return smooth if smooth.min() > 0 else None


_METHODS: dict[str, Callable[[_Case], Range]] = {
    "minmax": _minmax, "percentile": _percentile, "kl": _kl, "mse": _mse, "sqnr": _sqnr,
}  # fmt: skip
