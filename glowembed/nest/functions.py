"""Functions of one or two numbers for loop nests: the same bits in numpy and in C.

exp, log, tanh, erf, sigmoid and softplus of float32 are those of law/floatmath.py and ge_float.h, in float32
arithmetic. All others are expressions in float64 over + - * / sqrt rint, comparisons and bits; for float32 they are
computed in float64 and rounded once. The reference evaluates the same expression that is printed as a C function.
Sources: Cody and Waite, Software Manual for the Elementary Functions (1980); the series are Taylor's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache

from glowembed.nest.expr import (
    Expr,
    absolute,
    bits_of,
    clamp,
    constant,
    floor,
    is_nan,
    rint,
    sqrt,
    variable,
    where,
)

WIDE = "float64"
LN2_HIGH, LN2_LOW = float.fromhex("0x1.62e42feep-1"), float.fromhex("0x1.a39ef35793c76p-33")
HALF_PI = (
    float.fromhex("0x1.921fb544p+0"),
    float.fromhex("0x1.0b4611a6p-34"),
    float.fromhex("0x1.3198a2e037073p-69"),
)
"""pi / 2 in three parts, so that a small multiple of the first two parts is exact."""

IN_FLOAT32 = frozenset(("exp", "log", "tanh", "erf", "sigmoid", "softplus"))
"""The functions that law/floatmath.py computes in float32."""


def _number(value: float) -> Expr:
    return constant(value, WIDE)


def _polynomial(x: Expr, coefficients: Sequence[float]) -> Expr:
    """Horner's scheme; the coefficients begin with that of x to the power 0."""
    total = _number(coefficients[-1])
    for one in reversed(coefficients[:-1]):
        total = x * total + one
    return total


def _power_of_two(k: Expr) -> Expr:
    """2**k for an integer k in the normal range."""
    return bits_of((k.to("int64") + 1023) << constant(52, "int64"))


def _scaled(v: Expr, k: Expr) -> Expr:
    """v * 2**k in two steps, so that overflows and results below the normal range are correct."""
    half = floor(k * 0.5)
    return v * _power_of_two(half) * _power_of_two(k - half)


def _reduced(x: Expr, low: float) -> tuple[Expr, Expr]:
    """An integer k and the rest r with x = k * ln 2 + r, for x clamped to low..710; NaN counts as 0."""
    clipped = where(is_nan(x), _number(0.0), clamp(x, low, 710.0))
    k = rint(clipped * math.log2(math.e))
    return k, (clipped - k * LN2_HIGH) - k * LN2_LOW


def exp(x: Expr) -> Expr:
    k, r = _reduced(x, -746.0)
    tail = _polynomial(r, [1 / math.factorial(i) for i in range(2, 14)])
    return where(is_nan(x), x, _scaled(tail * r * r + r + 1.0, k))


def expm1(x: Expr) -> Expr:
    k, r = _reduced(x, -60.0)
    tail = _polynomial(r, [1 / math.factorial(i) for i in range(2, 15)]) * r * r + r
    small = tail * _power_of_two(k) + (_power_of_two(k) - 1.0)
    return where(is_nan(x) | x.equals(0.0), x, where(x > 700.0, exp(x), small))


def log(x: Expr) -> Expr:
    tiny = x < 2.2250738585072014e-308
    scaled = where(tiny, x * 2.0**54, x)
    pattern = bits_of(scaled)
    mantissa = bits_of((pattern & ((1 << 52) - 1)) | (1023 << 52))
    upper = mantissa > math.sqrt(2)
    exponent = (pattern >> constant(52, "int64")) - 1023 + upper.to("int64")
    k = exponent.to(WIDE) - where(tiny, _number(54.0), _number(0.0))
    f = where(upper, mantissa * 0.5, mantissa) - 1.0
    s = f / (f + 2.0)
    z = s * s
    half = f * f * 0.5
    series = z * _polynomial(z, [2 / (2 * i + 3) for i in range(11)])
    result = k * LN2_HIGH - ((half - (s * (half + series) + k * LN2_LOW)) - f)
    infinite = _number(math.inf)
    at_most_zero = where(x.equals(0.0), -infinite, _number(math.nan))
    return where(x > 0.0, where(x.equals(math.inf), x, result), at_most_zero)


def log1p(x: Expr) -> Expr:
    u = x + 1.0
    corrected = log(u) - ((u - 1.0) - x) / u
    return where(absolute(x) < 1e-17, x, where(x.equals(math.inf), x, where(u > 0.0, corrected, log(u))))


def _quadrant(x: Expr) -> tuple[Expr, Expr]:
    """The multiple k of pi / 2 that is nearest to x, and x minus that multiple."""
    k = rint(x * (2 / math.pi))
    first, second, third = HALF_PI
    return k, ((x - k * first) - k * second) - k * third


def _sine(r: Expr) -> Expr:
    z = r * r
    return r + r * z * _polynomial(z, [(-1) ** i / math.factorial(2 * i + 1) for i in range(1, 9)])


def _cosine(r: Expr) -> Expr:
    z = r * r
    return (z * z * _polynomial(z, [(-1) ** i / math.factorial(2 * i) for i in range(2, 10)]) - z * 0.5) + 1.0


def _circular(x: Expr, turned: int) -> Expr:
    """The sine of x plus this many quarter turns."""
    k, r = _quadrant(x)
    quarter = k - floor(k * 0.25) * 4.0 + float(turned)
    quarter = where(quarter >= 4.0, quarter - 4.0, quarter)
    value = where(quarter.equals(1.0) | quarter.equals(3.0), _cosine(r), _sine(r))
    return where(quarter >= 2.0, -value, value)


def sin(x: Expr) -> Expr:
    return where(x.equals(0.0), x, _circular(x, 0))


def cos(x: Expr) -> Expr:
    return _circular(x, 1)


def tan(x: Expr) -> Expr:
    k, r = _quadrant(x)
    odd = (k - floor(k * 0.5) * 2.0).equals(1.0)
    s, c = _sine(r), _cosine(r)
    return where(x.equals(0.0), x, where(odd, -(c / s), s / c))


def atan(x: Expr) -> Expr:
    a = absolute(x)
    far, middle = a > 2.414213562373095, a > 0.4142135623730950
    t = where(far, _number(-1.0) / where(far, a, _number(1.0)), where(middle, (a - 1.0) / (a + 1.0), a))
    high = where(far, _number(math.pi / 2), where(middle, _number(math.pi / 4), _number(0.0)))
    low = where(far, _number(6.123233995736766e-17), where(middle, _number(3.061616997868383e-17), _number(0.0)))
    z = t * t
    series = t - t * z * _polynomial(z, [(-1) ** i / (2 * i + 3) for i in range(20)])
    result = high + (series + low)
    return where(x < 0.0, -result, where(x.equals(0.0), x, result))


def asin(x: Expr) -> Expr:
    return atan(x / sqrt((1.0 - x) * (x + 1.0)))


def acos(x: Expr) -> Expr:
    return atan(sqrt((1.0 - x) / (x + 1.0))) * 2.0


def _signed(x: Expr, result: Expr) -> Expr:
    """An odd function, from its values for positive numbers."""
    return where(is_nan(x), x, where(x < 0.0, -result, where(x.equals(0.0), x, result)))


def sinh(x: Expr) -> Expr:
    a = absolute(x)
    e, half = expm1(where(a > 40.0, _number(40.0), a)), exp(a * 0.5)
    return _signed(x, where(a > 40.0, half * 0.5 * half, (e + e / (e + 1.0)) * 0.5))


def cosh(x: Expr) -> Expr:
    a = absolute(x)
    e, half = exp(where(a > 40.0, _number(40.0), a)), exp(a * 0.5)
    return where(a > 40.0, half * 0.5 * half, (e + 1.0 / e) * 0.5)


def tanh(x: Expr) -> Expr:
    e = expm1(clamp(absolute(x) * 2.0, 0.0, 44.0))
    return _signed(x, e / (e + 2.0))


def asinh(x: Expr) -> Expr:
    a = absolute(x)
    far = a > 1e8
    b = where(far, _number(1.0), a)
    near = log1p(b + b * b / (sqrt(b * b + 1.0) + 1.0))
    return _signed(x, where(far, log(a) + math.log(2), near))


def acosh(x: Expr) -> Expr:
    far = x > 1e8
    t = where(far, _number(1.0), x - 1.0)
    return where(far, log(x) + math.log(2), log1p(t + sqrt(t * 2.0 + t * t)))


def atanh(x: Expr) -> Expr:
    a = absolute(x)
    return _signed(x, log1p(a * 2.0 / (1.0 - a)) * 0.5)


def sigmoid(x: Expr) -> Expr:
    return 1.0 / (exp(-x) + 1.0)


def softplus(x: Expr) -> Expr:
    return where(x > 0.0, x, _number(0.0)) + log1p(exp(-absolute(x)))


_ERFCX = ((1.0, 0.5, 0.75, 1.875, 6.5625, 29.53125, 162.421875, 1055.7421875),)
"""The asymptotic series of erfc(x) * exp(x*x) * x * sqrt(pi), without signs."""


def erf(x: Expr) -> Expr:
    """erf(x) by a series for |x| < 3, else as 1 minus a continued fraction for erfc."""
    a = absolute(x)
    c = clamp(a, 0.0, 3.0)
    z = c * c
    terms = [1.0]
    for n in range(1, 60):
        terms.append(terms[-1] * 2 / (2 * n + 1))
    near = c * _polynomial(z, terms) * exp(-z) * (2 / math.sqrt(math.pi))
    far_x = clamp(a, 3.0, 7.0)
    fraction = far_x
    for n in range(24, 0, -1):
        fraction = far_x + _number(n / 2) / fraction
    far = 1.0 - exp(-(far_x * far_x)) / (fraction * math.sqrt(math.pi))
    result = where(a < 3.0, near, far)
    return where(is_nan(x), x, where(x < 0.0, -result, result))


def power(x: Expr, y: Expr) -> Expr:
    """x**y: integer exponents below 64 by squaring, which is exact if the result is representable; special cases as in
    IEEE 754.
    """
    a, one = absolute(x), _number(1.0)
    whole = floor(y).equals(y)
    half = y * 0.5
    odd = whole & floor(half).differs(half)
    negative = (x < 0.0) | (one / x < 0.0)
    general = exp(y * log(a))
    outside = (x < 0.0) & ~whole & absolute(x).differs(math.inf)
    general = where(negative & odd, -general, where(outside, _number(math.nan), general))
    n = absolute(y)
    n, product, square = where(n < 64.0, n, _number(0.0)), one, x
    for _ in range(6):
        next_n = floor(n * 0.5)
        product = where((n - next_n * 2.0).equals(1.0), product * square, product)
        square, n = square * square, next_n
    repeated = where(y < 0.0, 1.0 / product, product)
    result = where(whole & (absolute(y) < 64.0), repeated, general)
    result = where(is_nan(x) | is_nan(y), _number(math.nan), result)
    units = y.equals(0.0) | x.equals(1.0) | (x.equals(-1.0) & absolute(y).equals(math.inf))
    return where(units, one, where(y.equals(1.0), x, where(y.equals(2.0), x * x, result)))


_FUNCTIONS: dict[str, Callable[..., Expr]] = {
    f.__name__: f
    for f in (
        exp, expm1, log, log1p, sin, cos, tan, atan, asin, acos, sinh, cosh, tanh, asinh, acosh, atanh, sigmoid, softplus,
        erf, power,
    )
}  # fmt: skip
NAMES = frozenset(_FUNCTIONS)
ARITY = {"power": 2}


@cache
def definition(name: str) -> tuple[tuple[Expr, ...], Expr]:
    """The arguments x0, x1 and the expression of a function of float64."""
    args = tuple(variable(f"x{i}", WIDE) for i in range(ARITY.get(name, 1)))
    return args, _FUNCTIONS[name](*args)
