"""Functions of TensorFlow Lite Micro in integers, bit for bit: softmax with fixed-point exp and 1 / (1 + x) of
gemmlowp, functions of one number, and the functions of int16 gates.

In: int64 arrays that hold int32. Out: the same. A number in Qm has m integer bits: raw / 2^(31 - m). TensorFlow Lite
Micro evaluates exp for every element. An int8 softmax needs it for 256 differences only, so here it is a table made at
compile time. runtime_c/ge_softmax_tflite.h has the reciprocal in C.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glowembed.law.fixedpoint import doubling_high_mul, multiply_tflite, rounding_divide, tflite_words

Int64 = NDArray[np.int64]
Float32 = NDArray[np.float32]

DIFFERENCE_BITS = 5
"""Number of integer bits of (x - max) * scale."""

SUM_BITS = 12
"""Number of integer bits of the sum of exponentials, which may hold fewer than 4096 of them."""

ONE = 2**31 - 1
"""The number of Q0 that is nearest to 1."""

EXP_OF_POWERS = (
    (24, 1672461947), (25, 1302514674), (26, 790015084), (27, 290630308), (28, 39332535), (29, 720401), (30, 242),
)  # fmt: skip
"""Pairs (bit of a Q5 number, exp(-its value) in Q0) for 1/4, 1/2, 1, 2, 4, 8, 16."""

EXP_MINUS_EIGHTH = 1895147668
THIRD = 715827883
DIVISION_48_17 = 1515870810
"""The first guess of the reciprocal is 48/17 - 32/17 d. This constant and the next one are in Q2."""

DIVISION_32_17 = -1010580540


def softmax_table(scale: float) -> NDArray[np.int32]:
    """exp(-scale * d) in Q0 for d = 0..255; 0 if TensorFlow Lite Micro leaves the element out."""
    real = min(scale * 2.0 ** (31 - DIFFERENCE_BITS), 2.0**31 - 1)
    multiplier, shift = tflite_words(real)
    radius = math.floor((2**DIFFERENCE_BITS - 1) * 2 ** (31 - DIFFERENCE_BITS) / 2.0**shift)
    distance = np.arange(256, dtype=np.int64)
    table = exp_of_negative(multiply_tflite(-distance, multiplier, shift))
    return np.where(distance <= radius, table, 0).astype(np.int32)


def exp_of_negative(x: Int64) -> Int64:
    """exp(x) in Q0 for x <= 0 in Q5: exp of x modulo 1/4, times exp(-2^k) for each bit of what is left."""
    quarter = 1 << 24
    modulo = (x & (quarter - 1)) - quarter
    y = _exp_of_quarter(modulo << DIFFERENCE_BITS)
    rest = modulo - x
    for bit, factor in EXP_OF_POWERS:
        y = np.where(rest & (1 << bit), doubling_high_mul(y, factor), y)
    return np.where(x == 0, ONE, y)


def _exp_of_quarter(x: Int64) -> Int64:
    """exp(x) for x in [-1/4, 0), both in Q0: a Taylor polynomial of degree 4 around -1/8."""
    x = x + (1 << 28)
    x2 = doubling_high_mul(x, x)
    x3 = doubling_high_mul(x2, x)
    x4 = doubling_high_mul(x2, x2)
    tail = rounding_divide(doubling_high_mul(rounding_divide(x4, 2) + x3, THIRD) + x2, 1)
    return EXP_MINUS_EIGHTH + doubling_high_mul(x + tail, EXP_MINUS_EIGHTH)


def reciprocal(total: Int64) -> tuple[Int64, Int64]:
    """1 / total for a sum > 0 in Q12: a number in Q0, and the exponent by which it must be shifted."""
    zeros = 31 - np.floor(np.log2(total)).astype(np.int64)
    half = ((total << zeros) - 2**31 + ONE + 1) // 2  # (1 + fraction) / 2, rounded as by VRHADD
    x = DIVISION_48_17 + doubling_high_mul(half, DIVISION_32_17)
    for _ in range(3):
        error = (1 << 29) - doubling_high_mul(half, x)
        x = x + _doubled(_doubled(doubling_high_mul(x, error)))
    return _doubled(x), SUM_BITS - zeros


def _doubled(x: Int64) -> Int64:
    return np.clip(2 * x, -(2**31), ONE)


def rescaled(x: Int64, x_scale: float, y_scale: float) -> Int64:
    """x * x_scale / y_scale, as QUANTIZE of integers and RELU compute it. Zero points are already subtracted from x,
    and not added to the result.
    """
    return multiply_tflite(x, *tflite_words(x_scale / y_scale))


@np.errstate(all="ignore")
def leaky_relu(x: Int64, alpha: float, x_scale: float, y_scale: float) -> Int64:
    """LEAKY_RELU: one multiplier for each sign; both come from a quotient in float32."""
    s, t = np.float32(x_scale), np.float32(y_scale)
    negative = multiply_tflite(x, *tflite_words(float(s * np.float32(alpha) / t)))
    return np.where(x >= 0, multiply_tflite(x, *tflite_words(float(s / t))), negative)


@np.errstate(all="ignore")
def hard_swish(x: Int64, x_scale: float, y_scale: float) -> Int64:
    """HARD_SWISH in int16: x in 128ths of its scale, times a factor in Q0 that is clamp(x / 6 + 1/2, 0, 1)."""
    fine_scale = np.float32(1 / 128) * np.float32(x_scale)
    output, output_shift = _int16_words(fine_scale / np.float32(y_scale))
    factor, factor_shift = _int16_words(fine_scale / np.float32(3 / 32768))
    fine = x * 128
    third = fine
    if factor_shift > 0:
        third = _saturated16(third << (factor_shift - 1))
    third = _high_mul16(third, factor)
    if factor_shift > 0:
        third = _saturated16(third << 1)
    elif factor_shift < 0:
        third = rounding_divide(third, -factor_shift)
    gate = (third + 32768) >> 1
    product = _truncated(gate * _high_mul16(fine, output), 15)
    return rounding_divide(product, -output_shift) if output_shift <= 0 else product << output_shift


def _int16_words(scale: np.float32) -> tuple[int, int]:
    """A multiplier of 16 bits and its shift."""
    multiplier, shift = tflite_words(float(scale))
    return min((multiplier + (1 << 15)) >> 16, 32767), shift


def _high_mul16(a: Int64, b: int) -> Int64:
    """a * b / 2^15 for int16, halves away from zero, as gemmlowp's SaturatingRoundingDoublingHighMul."""
    product = a * b
    return _truncated(product + np.where(product >= 0, 1 << 14, 1 - (1 << 14)), 15)


def _truncated(x: Int64, bits: int) -> Int64:
    """x / 2^bits, towards zero."""
    y: Int64 = np.sign(x) * (np.abs(x) >> bits)
    return y


def _saturated16(x: Int64) -> Int64:
    return np.clip(x, -32768, 32767)


def in_float32(function: Callable[[Float32], Float32], x: Int64, x_scale: float, y_scale: float) -> Int64:
    """A function that TensorFlow Lite tabulates in float32; halves are rounded away from zero."""
    with np.errstate(all="ignore"):  # the scales in a file from elsewhere may have any size
        y = function(np.float32(x_scale) * x.astype(np.float32)) * (np.float32(1) / np.float32(y_scale))
    return away_from_zero(np.nan_to_num(y))


def away_from_zero(x: NDArray[Any]) -> Int64:
    """x rounded, halves away from zero, as std::round."""
    wide = np.asarray(x, np.float64)
    return np.clip(np.trunc(wide + np.copysign(0.5, wide)), -(2.0**31), 2.0**31 - 1).astype(np.int64)


def gate_table() -> NDArray[np.uint16]:
    """The sigmoid at n / 24 in 2^-16, for n = 0..255. Each entry is raised by half of what a line between two of them is too low in its middle; the
    last one is 2^16 - 1.
    """
    y = 1 / (1 + np.exp(-np.arange(256) / 24))
    bend = y * (1 - y) * (1 - 2 * y) / 24**2
    table = np.floor(65536 * (y - bend / 16) + 0.5)
    table[-1] = 65535
    return table.astype(np.uint16)


def gate_sigmoid(x: Int64, table: Int64) -> Int64:
    """LOGISTIC of int16 x in steps of 2^-12, in Q0.15."""
    n = 3 * x
    y = _line(table, np.abs(n), 9, 0x7FFF << 10)
    return np.where(n >= 0, y + (1 << 9), (1 << 25) - y + (1 << 9) - 1) >> 10


def gate_tanh(x: Int64, table: Int64, multiplier: int, shift: int) -> Int64:
    """TANH of int16 x, which `multiplier` and `shift` to the right bring to 3 steps for each 2^-12, in Q0.15."""
    n = (x * multiplier + ((1 << shift) >> 1)) >> shift
    y = _line(table, np.abs(n), 8, 0xFFFF << 8) - (1 << 23)
    return np.where(n >= 0, y + (1 << 7), -y + (1 << 7) - 1) >> 8


def _line(table: Int64, n: Int64, bits: int, beyond: int) -> Int64:
    """The line between two entries of the table, in 2^-bits of them; n counts 2^-bits of the distance of two entries."""
    at = np.minimum(n >> bits, 254)
    line = (table[at] << bits) + (n & ((1 << bits) - 1)) * (table[at + 1] - table[at])
    return np.where(n >> bits >= 255, beyond, line)
