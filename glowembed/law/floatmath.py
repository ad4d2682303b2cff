"""Functions of float32 numbers without libm, with the same bits as runtime_c/ge_float.h.

In and out: float32 arrays. Every line is a sequence of float32 operations in the order of the C file, which states what
each function computes and its error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Float32 = NDArray[np.float32]
F = np.float32


def clamp(x: Float32, lo: float, hi: float) -> Float32:
    return np.where(x < F(lo), F(lo), np.where(x > F(hi), F(hi), x))


def _bits(x: Float32) -> NDArray[np.uint32]:
    return np.ascontiguousarray(x, dtype=np.float32).view(np.uint32)


def _of(bits: NDArray[Any]) -> Float32:
    return np.ascontiguousarray(bits, dtype=np.uint32).view(np.float32)


def magnitude(x: Float32) -> Float32:
    return _of(_bits(x) & np.uint32(0x7FFFFFFF)).reshape(x.shape)


def _pow2(n: NDArray[np.int32]) -> Float32:
    return _of((n + 127).astype(np.uint32) << np.uint32(23)).reshape(n.shape)


def _horner(x: Float32, coefficients: Sequence[float]) -> Float32:
    p = np.full(x.shape, F(coefficients[0]))
    for c in coefficients[1:]:
        p = p * x + F(c)
    return p


def _int(x: Float32) -> NDArray[np.int32]:
    """Truncate towards zero; 0 for numbers outside int32, whose result is not used."""
    return np.where(np.abs(x) < F(2**30), x, F(0)).astype(np.int32)


EXP = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)


def exp(x: Float32) -> Float32:
    nan = x
    x = clamp(x, -104.0, 89.0)
    scaled = x * F(1.44269504)
    n = _int(np.where(scaled < 0, scaled - F(0.5), scaled + F(0.5)))
    m = n.astype(np.float32)
    r = x - m * F(0.693359375)
    r = r - m * F(-2.12194440e-4)
    p = _horner(r, EXP) * r * r + r + F(1)
    half = (n - (n < 0) * (n % 2 != 0) * -1) // 2  # towards zero, as in C
    return np.where(np.isnan(nan), nan, p * _pow2(half) * _pow2(n - half))


LOG = (
    7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
    -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1,
)  # fmt: skip


def log(x: Float32) -> Float32:
    tiny = x < F(1.17549435e-38)
    bits = _bits(np.where(tiny, x * F(33554432), x))
    n = (bits >> np.uint32(23)).astype(np.int32) - 126 - np.where(tiny, 25, 0).astype(np.int32)
    m = _of((bits & np.uint32(0x007FFFFF)) | np.uint32(0x3F000000)).reshape(x.shape)
    low = m < F(0.707106781)
    m, e = np.where(low, m + m, m), (n - low).astype(np.float32)
    f = m - F(1)
    z = f * f
    y = f * z * _horner(f, LOG)
    y = y + e * F(-2.12194440e-4)
    y = y + F(-0.5) * z
    y = f + y
    y = y + e * F(0.693359375)
    y = np.where(x == 0, F(-np.inf), np.where(x == np.inf, x, y))
    return np.where(x >= 0, y, F(np.nan))


TANH = (-5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2, 1.33314422036e-1, -3.33332819422e-1)


def tanh(x: Float32) -> Float32:
    a = magnitude(x)
    z = x * x
    small = _horner(z, TANH) * z * x + x
    large = F(1) - F(2) / (exp(a + a) + F(1))
    return np.where(a < F(0.625), small, np.where(x < 0, -large, large))


def sigmoid(x: Float32) -> Float32:
    return F(1) / (F(1) + exp(-x))


ERF = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)


def erf(x: Float32) -> Float32:
    a = magnitude(x)
    t = F(1) / (F(1) + F(0.3275911) * a)
    y = F(1) - _horner(t, ERF) * t * exp(-(a * a))
    return np.where(x < 0, -y, y)


def softplus(x: Float32) -> Float32:
    return np.where(x > 0, x, F(0)) + log(F(1) + exp(-magnitude(x)))


def sqrt(x: Float32) -> Float32:
    """The square root, as the C file computes it: IEEE 754 requires of numpy the same nearest float32."""
    return np.sqrt(x)


def _trunc(x: Float32) -> Float32:
    small = magnitude(x) < F(8388608)
    return np.where(small, _int(np.where(small, x, F(0))).astype(np.float32), x)


def floor(x: Float32) -> Float32:
    t = _trunc(x)
    return np.where(t > x, t - F(1), t)


def ceil(x: Float32) -> Float32:
    t = _trunc(x)
    return np.where(t < x, t + F(1), t)


def round_even(x: Float32) -> Float32:
    low = floor(x)
    rest, half = x - low, F(0.5) * low
    up = (rest > F(0.5)) | ((rest >= F(0.5)) & (floor(half) != half))
    return np.where(up, low + F(1), low)
