"""The integer law of recurrent operators in numpy: the functions of gates, which are tables, and the cells and states.

In: int16 arguments of gates, states as integers. Out: exactly the bits that `runtime_c/ge_gates.h` computes on the
device. Right shifts round down; sat16 and sat32 clamp; nothing is computed in float at run time.

    T(p): i = p >> 6, f = p & 63, w = table[i + 512], lo = (int16)w:   T = (w + lo * 32 * f) >> 16
    tanh(p / 2^12) in Q0.15 is T(p) of the table of tanh;  sigmoid(p / 2^11) in Q0.15 is (T(p) + 32768) >> 1 of the same table,
    because sigmoid(x) = (1 + tanh(x / 2)) / 2

A table has one word for each segment of 64 arguments. The upper half of the word is where the segment's line begins;
the lower half is its slope and at the same time the fraction of the beginning. Both minimize the squared error of the
result after rounding down. Tables are computed in integers, so they are the same on every machine. Over all 65,536
arguments the largest error of tanh and of sigmoid is 1.08 steps of Q0.15, and 99.98 % of the results are within one
step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Context, Decimal
from functools import cache

import numpy as np
from numpy.typing import NDArray

Int64 = NDArray[np.int64]

LOWEST, HIGHEST = -32768, 32767
HALF_ARGUMENTS = 32768
SEGMENT_BITS = 6
SEGMENT = 1 << SEGMENT_BITS
WORDS = 2 * HALF_ARGUMENTS // SEGMENT

FRACTION_BITS = 16
"""Tables are computed in 2^-16 steps of Q0.15, so 1.0 is 2^31."""

EXACT_BITS = 128
"""The fractional bits of the fixed point in which exponentials are multiplied."""

SLOPES = range(-64, 65, 2)
"""The slopes that are tried for a segment, relative to the least-squares slope."""


def scaled_tanh(alpha: float = 1.0, beta: float = 1.0) -> Int64:
    """alpha * tanh(beta * p / 2^12) for p = -32768..32767, in FRACTION_BITS."""
    context = Context(prec=60)
    step = context.exp(context.divide(Decimal(-2) * abs(Decimal(beta)), Decimal(4096)))
    factor = int((step * (1 << EXACT_BITS)).to_integral_value(context=context))
    power, values = 1 << EXACT_BITS, []
    for _ in range(HALF_ARGUMENTS + 1):
        values.append((((1 << EXACT_BITS) - power) << 40) // ((1 << EXACT_BITS) + power))
        power = power * factor >> EXACT_BITS
    numerator, denominator = (alpha if beta >= 0 else -alpha).as_integer_ratio()
    scaled = [(v * numerator // denominator + (1 << 8)) >> 9 for v in values]
    return np.asarray([-scaled[-p] if p < 0 else scaled[p] for p in range(-HALF_ARGUMENTS, HALF_ARGUMENTS)], np.int64)


def hard_sigmoid(alpha: float = 0.2, beta: float = 0.5) -> Int64:
    """max(0, min(1, alpha * p / 2^12 + beta))."""
    (a, a_unit), (b, b_unit) = float(alpha).as_integer_ratio(), float(beta).as_integer_ratio()
    unit = a_unit * b_unit * 4096
    values = ((a * b_unit * p + b * a_unit * 4096 << 31) // unit for p in range(-HALF_ARGUMENTS, HALF_ARGUMENTS))
    return np.asarray([max(0, min(1 << 31, v)) for v in values], np.int64)


def softsign() -> Int64:
    """x / (1 + |x|) for x = p / 2^12."""
    return np.asarray([(p << 31) // (4096 + abs(p)) for p in range(-HALF_ARGUMENTS, HALF_ARGUMENTS)], np.int64)


FUNCTIONS: dict[str, tuple[tuple[float, ...], Callable[..., Int64]]] = {
    "tanh": ((), scaled_tanh),
    "sigmoid": ((), scaled_tanh),
    "scaledtanh": ((1.0, 1.0), scaled_tanh),
    "hardsigmoid": ((0.2, 0.5), hard_sigmoid),
    "softsign": ((), softsign),
}
"""For each activation, in lower case: the defaults of its alpha and beta, and the function to be tabled. These are all
activations whose results lie within -1..1.
"""


@cache
def table(name: str, *numbers: float) -> tuple[int, ...]:
    """The words of the table of an activation. `sigmoid` uses the table of tanh."""
    exact = FUNCTIONS[name][1](*numbers)
    return tuple(int(w) for w in fitted(np.clip(exact, LOWEST << FRACTION_BITS, HIGHEST << FRACTION_BITS)))


def fitted(exact: Int64) -> Int64:
    """The table that minimizes the squared errors of the rounded-down results in each segment; all values fit in
    int16.
    """
    target = exact.reshape(WORDS, SEGMENT)
    at = np.arange(SEGMENT, dtype=np.int64)
    centered = 2 * at - (SEGMENT - 1)
    # the slope in 2^-11 steps for each argument: 2 * sum(c * t) / sum(c^2), in FRACTION_BITS, times 2^11
    least = (2 * (target * centered).sum(axis=1) >> (FRACTION_BITS - 11)) // int((centered * centered).sum())
    begins = target[:, 0] >> FRACTION_BITS
    best, words = np.full(WORDS, np.iinfo(np.int64).max), np.zeros(WORDS, np.int64)
    for slope in SLOPES:
        lo = np.clip(least + slope, LOWEST, HIGHEST)
        for offset in (-1, 0, 1):
            word = ((begins + offset) << 16) + (lo & 0xFFFF)
            value = (word[:, None] + lo[:, None] * 32 * at) >> 16
            error = np.clip(((value << FRACTION_BITS) - target) >> (FRACTION_BITS - 6), -127, 127)
            total = (error**8).sum(axis=1)
            fits = (value.min(axis=1) >= LOWEST) & (value.max(axis=1) <= HIGHEST)
            better = fits & (total < best)
            best, words = np.where(better, total, best), np.where(better, word, words)
    return words


def sat16(x: Int64) -> Int64:
    return np.clip(x, LOWEST, HIGHEST)


def sat32(x: Int64) -> Int64:
    return np.clip(x, -(2**31), 2**31 - 1)


def scaled(total: Int64, multiplier: Int64 | int, shift: int) -> Int64:
    """(total * multiplier + 2^(shift-1)) >> shift"""
    y: Int64 = (total * multiplier + (np.int64(1) << np.int64(shift - 1))) >> np.int64(shift)
    return y


def looked_up(words: Int64, p: Int64) -> Int64:
    """T(p), for int16 p."""
    w = words[(p >> SEGMENT_BITS) + WORDS // 2]
    lo = ((w & 0xFFFF) ^ 0x8000) - 0x8000
    y: Int64 = (w + lo * 32 * (p & (SEGMENT - 1))) >> 16
    return y


def activated(tables: Int64, function: int, exponent: int, p: Int64) -> Int64:
    """An activation of int16 arguments in units of 2^exponent steps, in Q0.15.

    function: twice the number of its table, plus 1 for the sigmoid that is made from tanh.
    """
    first = (function >> 1) * WORDS
    t = looked_up(tables[first : first + WORDS], sat16(p << np.int64(exponent)))
    return (t + 32768) >> 1 if function & 1 else t


def lstm_cell(cell: Int64, i: Int64, g: Int64, f: Int64) -> Int64:
    """The new cell in Q7.24 from the old one and gates in Q0.15."""
    return sat32(((i * g) >> 6) + 2 * ((cell * f) >> 16))


def gru_state(state: Int64, z: Int64, n: Int64) -> Int64:
    """The new state in Q0.15, which lies between n and the old state."""
    y: Int64 = n + ((z * (state - n) + 2**14) >> 15)
    return y


def words_of(functions: Sequence[tuple[str, tuple[float, ...]]]) -> tuple[tuple[int, ...], Int64]:
    """The numbers of the functions, as `activated` takes them, and the tables that they need, one after the other."""
    kinds = [("tanh", ()) if name == "sigmoid" else (name, numbers) for name, numbers in functions]
    known = list(dict.fromkeys(kinds))
    numbers = tuple(
        2 * known.index(kind) + (name == "sigmoid") for kind, (name, _) in zip(kinds, functions, strict=True)
    )
    return numbers, np.asarray([word for name, given in known for word in table(name, *given)], np.int64)
