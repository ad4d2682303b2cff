"""Real numbers as integers times steps: the arithmetic of loop nests that compute on stored integers.

A Quantity is an integer expression with the smallest and the largest value that it can have, and the real size of one
step. Sums and products of quantities are exact. All other results have an error that is smaller than a step of any
output:

    common step    terms in different steps become one integer of at most 18 bits more than the widest term
    division       the quotient of the largest operands has 21 bits and more; a divisor of 0 counts as one step
    sqrt           the floor of the root of a number of 59 to 62 bits
    exp            2^x = table[f] >> n for x = f - n with 16 bits in f; interpolated between 129 points of 2^-f in units of 2^-28
    log            interpolated between 129 points of log2 of the leading bits, in units of 2^-24, plus the number of bits

An output is rounded once, halves up: y = clamp((sum of terms * multipliers + offset) >> shift), in int32 if the
rounding of the multipliers moves no output by more than 1/32 of a step, else in int64.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glowembed.nest.dtypes import INDEX, limits
from glowembed.nest.expr import Expr, absolute, clamp, constant, length, maximum, minimum, where
from glowembed.nest.expr import sqrt as root_of
from glowembed.nest.program import Tensor
from glowembed.records import dataclass

Array = NDArray[Any]

MOST_BITS = 61
"""The most bits of an integer, so that the sum of two stays within int64."""

FINE_BITS = 18
"""How many bits finer the common step of several terms is than the widest of them."""

OPERAND_BITS = 40
"""The most bits of an operand of a division, for which the quotient of the largest two has 21 bits."""

WORST = 1 / 32
"""The error of an output, in steps, up to which multipliers for 32-bit sums are accepted."""

HALF_POINT = 14
"""The bits that each of two 32-bit divisions adds to the quotient of 17-bit numbers; two of them are faster than one of
64 bits.
"""

MOST_EXPONENT = 16
"""The largest argument of an exponential; a larger range would leave too few bits for the smallest results."""

MOST_STEPS = 2.0**30
"""A term of an output that may exceed this many steps is clamped to it, because the output saturates in any case."""

TABLE_BITS, REST_BITS = 7, 9
"""The bits of a position in a table, and those of the distance between two entries."""


class Unscalable(Exception):
    """Raised if a program of real numbers has no form on integers; the message gives the reason."""


@dataclass(frozen=True)
class Stored:
    """How the real numbers of a tensor are stored: (stored - zero_point) * scale in an integer dtype."""

    dtype: str
    scale: float
    zero_point: int = 0


@dataclass(frozen=True)
class Quantity:
    """The number expr * scale, where low <= expr <= high. not_positive: it is the difference of a number and the
    largest of all numbers.
    """

    expr: Expr
    scale: float
    low: int
    high: int
    not_positive: bool = False

    @property
    def bits(self) -> int:
        """The bits of the largest absolute value."""
        return max(abs(self.low), abs(self.high)).bit_length()

    @property
    def reach(self) -> int:
        """The largest absolute value."""
        return max(abs(self.low), abs(self.high))


def _kind(*ends: int) -> str:
    """The type that holds integers between these ends."""
    most = max(map(abs, ends))
    if most.bit_length() > MOST_BITS + 1:
        raise Unscalable("its numbers need more than 62 bits")
    return "int32" if most < 2**31 else "int64"


def _made(expr: Expr, scale: float, low: int, high: int) -> Quantity:
    return Quantity(expr, scale, low, high)


def number(value: float) -> Quantity:
    """A constant; it has 20 bits unless it is a small integer."""
    whole = value == round(value) and abs(value) < 2**20
    scale = 1.0 if whole else 2.0 ** (math.frexp(value)[1] - 20)
    steps = round(value / scale)
    return _made(constant(steps, "int32"), scale, steps, steps)


def narrowed(a: Quantity, bits: int) -> Quantity:
    """The quantity with at most this many bits; lower bits are rounded off, halves up."""
    gone = a.bits - bits
    if gone <= 0:
        return a
    half = 1 << (gone - 1)
    kind = _kind(a.low, a.high + half)
    expr = (a.expr.to(kind) + half) >> constant(gone, kind)
    return replace(a, expr=expr, scale=a.scale * 2.0**gone, low=(a.low + half) >> gone, high=(a.high + half) >> gone)


def negative(a: Quantity) -> Quantity:
    return _made(-a.expr.to(_kind(a.low, a.high)), a.scale, -a.high, -a.low)


def total(a: Quantity, b: Quantity) -> Quantity:
    """The sum of two quantities with the same step."""
    low, high = a.low + b.low, a.high + b.high
    kind = _kind(low, high, a.low, a.high, b.low, b.high)
    return _made(a.expr.to(kind) + b.expr.to(kind), a.scale, low, high)


def size(a: Quantity) -> Quantity:
    """The absolute value."""
    least = 0 if a.low <= 0 <= a.high else min(abs(a.low), abs(a.high))
    return _made(absolute(a.expr.to(_kind(a.low, a.high))), a.scale, least, a.reach)


def product(a: Quantity, b: Quantity) -> Quantity:
    """The product; it is exact if it has at most 61 bits, else the wider operand is rounded first."""
    same = a.expr is b.expr
    if a.bits + b.bits > MOST_BITS:
        half = MOST_BITS // 2
        a, b = (narrowed(one, max(half, MOST_BITS - other.bits)) for one, other in ((a, b), (b, a)))
    corners = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
    low = 0 if same else min(corners)
    kind = _kind(low, max(corners))
    return _made(a.expr.to(kind) * b.expr.to(kind), a.scale * b.scale, low, max(corners))


def quotient(a: Quantity, b: Quantity) -> Quantity:
    """a / b, rounded towards zero; a divisor of 0 counts as one step of its type."""
    a, b = narrowed(a, OPERAND_BITS), narrowed(b, OPERAND_BITS)
    crosses = b.low <= 0 <= b.high
    short, twice = a.bits <= 9 and b.bits <= 12, a.bits <= 17 and b.bits <= 17
    kind = "int32" if short or twice else "int64"
    point = 30 - max(a.bits, 1) if short else 2 * HALF_POINT if twice else MOST_BITS - max(a.bits, 1)
    divisor = b.expr.to(kind)
    if crosses:
        divisor = where(divisor.equals(0), constant(1, kind), divisor)
    if twice and not short:
        above = a.expr.to(kind) * (1 << HALF_POINT)
        first = above / divisor
        second = ((above - first * divisor) * (1 << HALF_POINT)) / divisor
        expr = first.to("int64") * (1 << HALF_POINT) + second.to("int64")
    else:
        expr = (a.expr.to(kind) * (1 << point)) / divisor
    reach = (a.reach << point) // (1 if crosses else min(abs(b.low), abs(b.high)))
    return _made(expr, a.scale / b.scale * 2.0**-point, 0 if a.low >= 0 and b.low >= 0 else -reach, reach)


def square_root(a: Quantity) -> Quantity:
    """The floor of the square root; 0 for a negative number."""
    point = (62 - max(a.bits, 1)) // 2 * 2
    inside = maximum(a.expr.to("int64"), 0) if a.low < 0 else a.expr.to("int64")
    low, high = (math.isqrt(max(end, 0) << point) for end in (a.low, a.high))
    root = root_of(inside << constant(point, "int64")).to("int32")
    return _made(root, a.scale**0.5 * 2.0 ** (-point // 2), low, high)


def powers_of_two() -> Array:
    """2^28 * 2^-(i / 128), for i = 0..128."""
    found: Array = np.rint(2.0**28 * 2.0 ** (-np.arange(2**TABLE_BITS + 1) / 2**TABLE_BITS)).astype(np.int32)
    return found


def logarithms() -> Array:
    """2^24 * log2(1 + i / 128), for i = 0..128."""
    found: Array = np.rint(2.0**24 * np.log2(1 + np.arange(2**TABLE_BITS + 1) / 2**TABLE_BITS)).astype(np.int32)
    return found


def _between(table: Tensor, place: Expr) -> Expr:
    """Interpolate in the table. place: an index whose upper 7 bits select the entry, and whose lower 9 bits are the
    distance from it.
    """
    at = (place >> constant(REST_BITS, INDEX)) & (2**TABLE_BITS - 1)
    rest = (place & (2**REST_BITS - 1)).to("int32")
    first, second = table[at], table[at + 1]
    line: Expr = first + (((second - first) * rest) >> constant(REST_BITS, "int32"))
    return line


def exponential(a: Quantity, offset: float, table: Tensor) -> Quantity:
    """exp(a + offset), in units of 2^-28 of its largest possible value."""
    high = min(a.high, 0) if a.not_positive else a.high
    if high * a.scale + offset > MOST_EXPONENT:
        raise Unscalable("exponentials of large numbers")
    a = narrowed(a, 40)
    high = min(a.high, 0) if a.not_positive else a.high
    octaves = a.scale * math.log2(math.e)
    whole = math.ceil(math.log2(octaves * 2.0**16))
    shift = max(0, min(60 - (high - a.low).bit_length(), 30) - whole)
    expr = (constant(high, "int64") - a.expr.to("int64")) * max(round(octaves * 2.0 ** (16 + shift)), 1)
    if a.not_positive:
        expr = maximum(expr, 0)
    place = minimum(expr >> constant(shift, "int64"), (31 << 16) - 1).to(INDEX)
    octave = (place >> constant(16, INDEX)).to("int32")
    value = _between(table, place & 0xFFFF)
    half = (constant(1, "int32") << octave) >> constant(1, "int32")
    least = 2.0**28 * math.exp(max((a.low - high) * a.scale, -40.0)) * (1 - 2.0**-12)
    return _made((value + half) >> octave, math.exp(high * a.scale + offset) * 2.0**-28, max(int(least) - 2, 0), 2**28)


def logarithm(a: Quantity, table: Tensor) -> tuple[Quantity, float]:
    """log(a) as a quantity and a constant to add. A number below one step counts as one step."""
    inside = maximum(a.expr.to("int64"), 1) if a.low < 1 else a.expr.to("int64")
    top = length(inside) - 1
    leading = ((inside << (constant(62, "int64") - top)) >> constant(62 - TABLE_BITS - REST_BITS, "int64")).to(INDEX)
    value = top.to("int32") * (1 << 24) + _between(table, leading & 0xFFFF)
    low, high = (math.floor(math.log2(max(end, 1)) * 2**24) for end in (a.low, a.high))
    return _made(value, math.log(2) * 2.0**-24, max(low - 512, 0), high + 512), math.log(a.scale)


def common_step(terms: Sequence[Quantity], offset: float) -> float:
    """A step of which all terms and the constant are approximately multiples."""
    least = min(t.scale for t in terms)
    parts = [*(t.scale / least for t in terms), offset / least]
    if all(abs(p - round(p)) < 1e-9 * max(abs(p), 1) and abs(p) < 2**24 for p in parts):
        return least
    most = sum(t.reach * t.scale for t in terms) + abs(offset)
    return float(most) * 2.0 ** -min(max(t.bits for t in terms) + FINE_BITS, MOST_BITS - 4)


def in_steps(terms: Sequence[Quantity], offset: float, step: float) -> Quantity:
    """The sum of terms and a constant as one integer in units of this step."""
    factors, fixed = [round(t.scale / step) for t in terms], round(offset / step)
    ends = [(min(t.low * f, t.high * f), max(t.low * f, t.high * f)) for t, f in zip(terms, factors, strict=True)]
    low, high = fixed + sum(e[0] for e in ends), fixed + sum(e[1] for e in ends)
    kind = _kind(abs(fixed) + sum(max(abs(a), abs(b)) for a, b in ends))
    parts = [
        t.expr.to(kind) if factor == 1 else t.expr.to(kind) * factor for t, factor in zip(terms, factors, strict=True)
    ]
    parts += [constant(fixed, kind)] if fixed else []
    return _made(reduce(Expr.__add__, parts), step, low, high)


def as_stored(terms: Sequence[Quantity], offset: float, stored: Stored) -> Expr:
    """The sum of terms and a constant as an integer of the stored type, rounded once, halves up."""
    scale, zero, (low, high) = stored.scale, stored.zero_point, limits(stored.dtype)
    if not terms:
        return constant(max(low, min(high, round(offset / scale) + zero)), stored.dtype)
    terms = [narrowed(t, 46) for t in _within(terms, scale)]
    most = sum(t.reach * t.scale / scale for t in terms) + abs(offset / scale) + abs(zero) + 1
    if most >= 2.0**44:
        raise Unscalable("its output range is far too small for its numbers")
    room, reach, steepest = math.ceil(math.log2(most)), sum(t.reach for t in terms), max(t.scale for t in terms) / scale
    kind, shift = "int32", 30 - room
    if shift < 1 or reach * 2.0 ** -(shift + 1) > WORST or max(t.bits for t in terms) > 31:
        fine = math.ceil(math.log2(max(reach, 1) / WORST))
        kind, shift = "int64", max(1, min(MOST_BITS - room, 60, max(30 - math.ceil(math.log2(steepest)), fine)))
    fixed = round((offset / scale + zero) * 2.0**shift) + (1 << (shift - 1))
    value = constant(fixed, kind)
    for t in terms:
        value = t.expr.to(kind) * round(t.scale / scale * 2.0**shift) + value
    value = value >> constant(shift, kind)
    return clamp(value.to("int32") if room < 31 else value, low, high).to(stored.dtype)


def _within(terms: Sequence[Quantity], scale: float) -> list[Quantity]:
    """The terms, with the one that reaches far beyond every output clamped, if there is only one such term."""
    wide = [t for t in terms if t.reach * t.scale / scale > MOST_STEPS]
    if len(wide) != 1 or sum(t.reach * t.scale / scale for t in terms if t is not wide[0]) > MOST_STEPS / 2:
        return list(terms)
    limit = math.ceil(MOST_STEPS * scale / wide[0].scale)
    t, low, high = wide[0], max(wide[0].low, -limit), min(wide[0].high, limit)
    clamped = replace(t, expr=clamp(t.expr, low, high), low=low, high=high)
    return [clamped if one is t else one for one in terms]
