"""The formulas that turn a range of real numbers, or weights, into scale and zero point. In:

a range, a schema, a dtype. Out: a QType. The formulas are those of Glow, with these differences, all in cases where
Glow's result is useless: weights and other symmetric types may use the narrow range (-127..127); "low == -high" is
judged relative to the range and not with an absolute 1.2e-7, so that tiny ranges keep their zero point; a range whose
scale float32 cannot hold counts as empty. Zero is always exactly representable. It knows no graph.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from glowembed.graph.ir import Array, QType, limits
from glowembed.options.table import Schema

Range = tuple[float, float]

BIAS_LIMIT = 2.0**29
"""The largest |bias| in steps of s_x * s_w for int8 activations; it leaves room in int32 for the sum of products."""

WIDE_BIAS_LIMITS = {"int8": 2.0**32, "int16": 2.0**36}
"""The largest |bias| for int16 activations, by the dtype of the weights. The sum of a channel whose weights are nearly
zero is then not larger than that of other channels, so that all multipliers keep their bits.
"""

WEIGHT_LIMIT = 127
"""The largest weight. Weights use -127..127, so that negation and tricks of the kernels that pair weights never
overflow.
"""

EMPTY_SCALE = 0.1
"""The scale for a range that holds only zero. Any scale is correct; Glow uses this one."""

FLOAT32 = np.finfo(np.float32)


def choose(low: float, high: float, schema: Schema = "asymmetric", dtype: str = "int8", narrow: bool = False) -> QType:
    """The type for [low, high], widened to hold zero. Infinite ends count as the largest float32. Raises UsageError for
    NaN.

    asymmetric: scale (high - low) / 255, any zero point. symmetric: zero point 0, scale max(-low / 128, high / 127).
    symmetric_with_uint8: like asymmetric when low >= 0 (zero point -128), else symmetric. symmetric_with_power2_scale:
    symmetric, the scale raised to the next power of two. `narrow` leaves out the lowest number of a symmetric type. For
    int16 read 65535, 32768 and 32767.
    """
    if math.isnan(low) or math.isnan(high) or low > high:
        raise ValueError(f"no range: {low}..{high}")
    low, high = max(min(low, 0.0), -float(FLOAT32.max)), min(max(high, 0.0), float(FLOAT32.max))
    qmin, qmax = limits(dtype)
    if schema == "asymmetric" or (schema == "symmetric_with_uint8" and low >= 0.0):
        return _asymmetric(low, high, dtype, qmin, qmax)
    scale = max(low / (qmin + narrow), high / qmax)
    if schema == "symmetric_with_power2_scale":
        scale = power_of_two(scale)
    return _type(scale, 0, dtype)


def power_of_two(scale: float) -> float:
    """The smallest power of two that is not below `scale`; 0 stays 0."""
    fraction, exponent = math.frexp(scale)
    return math.ldexp(1.0, exponent - (fraction == 0.5)) if scale > 0 else 0.0


def asymmetric(low: float, high: float) -> QType:
    """The result of `choose` for int8 activations with the default schema."""
    return choose(low, high)


def _asymmetric(low: float, high: float, dtype: str, qmin: int, qmax: int) -> QType:
    """The asymmetric type. The zero point is computed from the end at which the division loses less; a range that is
    symmetric around zero gets 0.
    """
    scale = (high - low) / (qmax - qmin)
    if scale < FLOAT32.tiny:
        return _type(0.0, 0, dtype)
    from_low, from_high = qmin - low / scale, qmax - high / scale
    lost_low, lost_high = abs(qmin) + abs(low / scale), abs(qmax) + abs(high / scale)
    zero = from_low if lost_low < lost_high else from_high
    if abs(low + high) <= FLOAT32.eps * max(-low, high):
        zero = 0.0
    return _type(scale, int(np.clip(_half_away(zero), qmin, qmax)), dtype)


def _half_away(x: float) -> int:
    return int(math.copysign(math.floor(abs(x) + 0.5), x))


def _type(scale: float, zero_point: int, dtype: str) -> QType:
    """The type with these numbers. Scales are float32, and an empty range gets EMPTY_SCALE."""
    scale = float(np.float32(scale))
    return QType(dtype, (scale if scale >= FLOAT32.tiny else EMPTY_SCALE,), (zero_point,))


RangeOfWeights = Callable[[Array], Range]
"""A calibration of weights: a function from the array of one channel (or of all) to the range to represent."""


def minmax(weights: Array) -> Range:
    return float(weights.min()), float(weights.max())


CLIPS = np.arange(32, 65) / 64
"""The limits that are tried for int4 weights, relative to the largest weight of a channel."""


def least_squares(weights: Array) -> Range:
    """The range of int4 weights with the least sum of squared errors of rounding and clipping."""
    highest = limits("int4")[1]
    peak = float(np.abs(weights).max(initial=0.0))
    if peak < 2.0 * highest * FLOAT32.tiny:
        return -peak, peak
    flat = weights.reshape(1, -1).astype(np.float64)
    scales = (peak * CLIPS / highest)[:, None]
    errors = np.square(np.clip(np.rint(flat / scales), -highest, highest) * scales - flat).sum(axis=1)
    best = float(peak * CLIPS[int(errors.argmin())])
    return -best, best


def weights_type(
    weights: Array,
    bias: Array,
    x_scale: float,
    schema: Schema = "symmetric",
    per_channel: bool = True,
    dtype: str = "int8",
    range_of: RangeOfWeights = minmax,
    bias_limit: float = BIAS_LIMIT,
    least_scales: NDArray[np.float64] | None = None,
) -> QType:
    """The type of weights with the output channel as axis 0, a scale and a zero point per channel.

    Symmetric types are narrow. A scale is large enough that the bias stays within `bias_limit` steps of x_scale *
    scale, and not smaller than that of its channel in `least_scales`. A channel of zeros, or of numbers whose scale
    float32 cannot represent, takes the largest scale of the others, so that it never determines the shift of the
    tensor.
    """
    flat = weights.reshape(weights.shape[0], -1).astype(np.float64)
    parts = list(flat) if per_channel else [flat]
    types = [choose(*range_of(part), schema, dtype, narrow=True) for part in parts]
    least_peak = 2.0 * limits(dtype)[1] * FLOAT32.tiny
    empty = np.asarray([float(np.abs(part).max()) < least_peak for part in parts])
    least = np.abs(bias.astype(np.float64)).reshape(-1) / (x_scale * bias_limit)
    least = least if least_scales is None else np.maximum(least, least_scales)
    scales = np.asarray([t.scale[0] for t in types])
    scales[empty] = scales[~empty].max(initial=0.0) if bias_limit > BIAS_LIMIT else 0.0
    scales = _raised(scales, least if per_channel else least.max(), schema)
    zero_points = [t.zero_point[0] for t in types]
    count = weights.shape[0] // len(types)
    return QType(dtype, tuple(map(float, scales)) * count, tuple(zero_points) * count, axis=0)


def least_for_words(weights: Array, bias: Array, x: QType, y_scale: float) -> NDArray[np.float64]:
    """The least scale of each channel of int16 weights for which all its sums with int16 inputs fit in 32 bits.

    With weights w in steps of s, |sum| <= reach * sum|round(w / s)| + |bias| / (x_scale * s), where reach is the
    largest x - zero point|, and sum|round(w / s)| <= sum|w| / s + count / 2. A channel with too many weights for any
    scale gets 0, and its sums take 64 bits. The requantization is accurate with a shift of 32 (wide.requant) if the
    sums stay below 2^30, or if the multiplier x_scale * s / y_scale * 2^32 is 2^17 or more.
    """
    flat = np.abs(weights.reshape(weights.shape[0], -1).astype(np.float64))
    reach = 32768 + abs(x.zero_point[0])
    needed = (reach * flat.sum(axis=1) + np.abs(bias.astype(np.float64)).reshape(-1) / x.scale[0]) * (1 + 2.0**-20)
    rounding = reach * flat.shape[1] / 2 + 2.0
    if rounding > 2.0**29:
        return np.zeros(len(flat))
    accurate = (1 + 2.0**-10) * 2.0**-15 * y_scale / x.scale[0]
    least: NDArray[np.float64] = np.minimum(needed / (2.0**30 - rounding), accurate)
    return np.asarray(np.maximum(needed / (2.0**31 - rounding), least))


def _raised(scales: NDArray[np.float64], least: NDArray[np.float64] | float, schema: Schema) -> NDArray[np.float32]:
    if schema == "symmetric_with_power2_scale":
        least = np.asarray([power_of_two(float(x)) for x in np.atleast_1d(least)])
    scales = np.maximum(scales, least)
    scales[scales == 0] = scales.max() or 1.0
    return np.clip(scales, FLOAT32.tiny, FLOAT32.max).astype(np.float32)


def symmetric_weights(weights: Array, bias: Array, x_scale: float, per_channel: bool) -> QType:
    """The result of `weights_type` for int8 weights with the default schema."""
    return weights_type(weights, bias, x_scale, "symmetric", per_channel)
