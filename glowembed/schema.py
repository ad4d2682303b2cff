"""Ranges to types: the formulas that turn a range of real numbers, or weights, into scale and zero point.

In: real numbers. Out: a QType. Zero is always exactly representable. Knows no graph.
"""

from __future__ import annotations

import numpy as np

from glowembed.ir import Array, QType

BIAS_LIMIT = 2.0**29
"""Largest |bias| in steps of s_x * s_w: leaves int32 room for the sum of products."""

WEIGHT_LIMIT = 127
"""Weights use -127..127, so that negation and pairing tricks of the kernels never overflow."""


def asymmetric(low: float, high: float) -> QType:
    """int8 type for [low, high] widened to hold zero, which is exactly representable.

    An empty range (both 0) gets scale 1. The zero point is derived from the end that loses less by its rounding.
    """
    low, high = min(low, 0.0), max(high, 0.0)
    scale = (high - low) / 255.0
    if scale < np.finfo(np.float32).tiny:
        return QType("int8", (1.0,), (0,))
    from_low, from_high = -128.0 - low / scale, 127.0 - high / scale
    zero = from_low if abs(from_low - np.rint(from_low)) <= abs(from_high - np.rint(from_high)) else from_high
    return QType("int8", (float(np.float32(scale)),), (int(np.clip(np.rint(zero), -128, 127)),))


def symmetric_weights(weights: Array, bias: Array, x_scale: float, per_channel: bool) -> QType:
    """int8 type for weights with the output channel as axis 0.

    The scale is max|w| / 127, but at least what keeps the bias inside BIAS_LIMIT steps of x_scale * scale.
    A channel of zeros takes the largest scale of the others, so it never dictates the shift of the tensor.
    """
    flat = np.abs(weights.reshape(weights.shape[0], -1).astype(np.float64))
    peaks = flat.max(axis=1) if per_channel else np.full(weights.shape[0], flat.max())
    scales = np.maximum(peaks / WEIGHT_LIMIT, np.abs(bias.astype(np.float64)) / (x_scale * BIAS_LIMIT))
    if not per_channel:
        scales[:] = scales.max()
    scales[scales == 0] = scales.max() or 1.0
    scales = np.maximum(scales.astype(np.float32), np.finfo(np.float32).tiny)
    return QType("int8", tuple(float(s) for s in scales), (0,) * len(scales), axis=0)
