"""The integer law against exact rational arithmetic, and its C counterpart against the law, bit for bit."""

import ctypes
from fractions import Fraction
from math import lcm

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glowembed.errors import UnsupportedModelError
from glowembed.law import fixedpoint
from glowembed.law.modes import MODES
from glowembed.run.kernel import shared_library

INT32 = st.integers(-(2**31), 2**31 - 1) | st.sampled_from([-(2**31), -(2**31) + 1, -1, 0, 1, 2**31 - 1])
INT8 = st.integers(-128, 127)
SCALE = st.floats(-9.0, 6.0).map(lambda e: 10.0**e) | st.sampled_from([0.25, 0.5, 1.0, 2.0, 0.49999999999, 1e-9, 1e6])

ACCUMULATORS = np.asarray(
    [-(2**31), -(2**31) + 1, -(2**30), -12345, -2, -1, 0, 1, 2, 77777, 2**30, 2**31 - 1], np.int64
)
SCALES = [*10.0 ** np.arange(-9, 7.0), 0.5, np.nextafter(0.5, 0), np.nextafter(0.5, 1), 1.0, 1.5, 2.0**29]


def unclamped(acc, q):
    """The law in Python's own integers, channel 0."""
    return (acc * q.multiplier[0] + 2 ** (q.shift - 1)) >> q.shift


@given(INT32, SCALE)
def test_requantize_is_as_near_to_the_real_number_as_promised(acc, scale):
    q = fixedpoint.requant([scale])
    error = abs(unclamped(acc, q) - acc * Fraction(scale))
    assert error <= Fraction(1, 2) + Fraction(abs(acc), 2 ** (q.shift + 1))


@given(INT32, SCALE, INT8, INT8, INT8)
def test_requantize_is_the_law(acc, scale, zero_point, a, b):
    lo, hi = min(a, b), max(a, b)
    q = fixedpoint.requant([scale])
    found = fixedpoint.requantize(np.asarray([acc]), q, zero_point, lo, hi)
    assert found.dtype == np.int8
    assert found.tolist() == [min(max(unclamped(acc, q) + zero_point, lo), hi)]


@pytest.mark.parametrize("scale", SCALES)
def test_multipliers_use_31_bits(scale):
    q = fixedpoint.requant([scale])
    assert 1 <= q.shift <= 32
    assert 0 <= q.multiplier[0] < 2**31
    assert q.shift == 32 or q.multiplier[0] >= 2**30, "a larger shift was possible"


def test_channels_share_the_shift_of_the_largest_scale():
    q = fixedpoint.requant([0.0, 1e-3, 3.0])
    assert q.shift == fixedpoint.requant([3.0]).shift
    assert q.multiplier[0] == 0
    acc = np.asarray([[1000, 1000, 10], [-(2**31), -(2**31), -(2**31)]])
    assert fixedpoint.requantize(acc, q, 3, -128, 127).tolist() == [[3, 4, 33], [3, -128, -128]]


@pytest.mark.parametrize(("acc", "expected"), [(1, 1), (-1, 0), (3, 2), (-3, -1), (5, 3), (-5, -2)])
def test_halves_go_up(acc, expected):
    assert fixedpoint.requantize(np.asarray([acc]), fixedpoint.requant([0.5]), 0, -128, 127).tolist() == [expected]


@pytest.mark.parametrize("scale", [-1.0, np.inf, np.nan, 2.0**30, 2.0**31])
def test_impossible_scales_are_refused(scale):
    with pytest.raises(UnsupportedModelError):
        fixedpoint.requant([0.1, scale])


PAIR_SCALE = st.floats(-6.0, 4.0).map(lambda e: 10.0**e) | st.sampled_from([0.0, 1.0, 0.5, 16383.0])


@given(INT8, INT8, PAIR_SCALE, PAIR_SCALE, st.booleans(), INT8, INT8, INT8)
def test_pairs_are_as_near_as_promised_and_stay_in_int32(a, b, scale_a, scale_b, negative, zero_a, zero_b, zero_y):
    scale_b = -scale_b if negative else scale_b
    q = fixedpoint.pair_requant((scale_a, scale_b), (zero_a, zero_b), zero_y)
    assert 1 <= q.shift <= 22
    assert all(-(2**15) <= m < 2**15 for m in q.multiplier)
    partial = a * q.multiplier[0] + b * q.multiplier[1]
    assert -(2**31) <= q.offset < 2**31
    assert -(2**31) <= partial + q.offset < 2**31
    real = (a - zero_a) * Fraction(scale_a) + (b - zero_b) * Fraction(scale_b)
    y = ((partial + q.offset) >> q.shift) - zero_y
    assert abs(y - real) <= Fraction(1, 2) + Fraction(abs(a - zero_a) + abs(b - zero_b), 2 ** (q.shift + 1))
    found = fixedpoint.requantize_pair(np.asarray([a]), np.asarray([b]), q, -128, 127)
    assert found.tolist() == [min(max(y + zero_y, -128), 127)]


@given(INT8, INT8, PAIR_SCALE, PAIR_SCALE, st.booleans(), INT8, INT8, INT8)
def test_fine_pairs_stay_in_int32_and_are_no_coarser(a, b, scale_a, scale_b, negative, zero_a, zero_b, zero_y):
    scales, zeros = (scale_a, -scale_b if negative else scale_b), (zero_a, zero_b)
    fine, plain = (fixedpoint.pair_requant(scales, zeros, zero_y, f) for f in (True, False))
    assert plain.shift <= fine.shift <= 22
    assert fine.shift >= 21 or scale_a + scale_b > 3
    partial = a * fine.multiplier[0] + fine.offset
    assert max(abs(partial), abs(fine.offset), abs(partial + b * fine.multiplier[1])) < 2**31


SAME = np.float32([0.1, 0.2, 0.05, 0.3]).astype(float).tolist()
SUMS = [
    ((SAME[0], SAME[0], SAME[0]), False),
    ((SAME[0], SAME[0], SAME[1]), True),
    ((SAME[2], SAME[0], SAME[1]), True),
    ((SAME[0], SAME[0], SAME[2]), False),
    ((0.25, 0.5, 1.0), True),
    ((SAME[0], SAME[3], SAME[1]), True),
    ((0.0123, 0.0345, 0.0456), False),
    ((1e-20, 1.0, 1.0), False),
]


@pytest.mark.parametrize(("scales", "expected"), SUMS)
def test_sums_that_meet_halves(scales, expected):
    assert fixedpoint.sums_meet_halves(*scales) == expected
    i = range(-255, 256)
    of_x, of_y, of_sum = (Fraction(float(np.float32(scale))) for scale in scales)
    halves = 2 * of_x / of_sum, 2 * of_y / of_sum
    one = lcm(*(n.denominator for n in halves))
    a, b = (int(n * one) for n in halves)
    assert any((x * a + y * b) % (2 * one) == one for x in i for y in i) == expected


@given(
    st.sampled_from([0.1, 0.2, 0.25, 0.05, 0.3, 0.0123]), st.sampled_from([0.1, 0.2, 0.5, 0.0456]), st.integers(1, 70)
)
def test_means_that_meet_halves(x, y, count):
    step = Fraction(float(np.float32(x))) / (Fraction(float(np.float32(y))) * count)
    n, one = step.numerator, step.denominator
    expected = any(2 * total * n % (2 * one) == one for total in range(255 * count + 1))
    assert fixedpoint.means_meet_halves(x, y, count) == expected


@pytest.mark.parametrize("scale", [2.0**14, -(2.0**14), np.inf, np.nan])
def test_impossible_pairs_are_refused(scale):
    with pytest.raises(UnsupportedModelError):
        fixedpoint.pair_requant((1.0, scale), (0, 0), 0)


TWIN = """
#include "ge_fixedpoint.h"
#include "ge_requantize_glow.h"
#include "ge_requantize_onnx.h"
#include "ge_requantize_tflite.h"

#define DECLARE(name) void name(const int32_t *acc, int32_t n, const int32_t *m, int32_t channel, int32_t shift, \\
                                int32_t zero, int32_t lo, int32_t hi, int8_t *y)
#define DEFINE(name) DECLARE(name); DECLARE(name) { \\
    for (int32_t i = 0; i < n; i++) { \\
        y[i] = ge_##name(acc[i], m, channel, shift, zero, lo, hi); \\
    } \\
}

DEFINE(requantize)
DEFINE(requantize_glow)
DEFINE(requantize_onnx)
DEFINE(requantize_tflite)

void requantize_pair(const int8_t *a, const int8_t *b, int32_t n, int32_t ma, int32_t mb, int32_t offset, int32_t shift,
                     int32_t lo, int32_t hi, int8_t *y);

void requantize_pair(const int8_t *a, const int8_t *b, int32_t n, int32_t ma, int32_t mb, int32_t offset, int32_t shift,
                     int32_t lo, int32_t hi, int8_t *y) {
    for (int32_t i = 0; i < n; i++) {
        y[i] = ge_requantize_pair(a[i], b[i], ma, mb, offset, shift, lo, hi);
    }
}
"""


def pointer(array):
    return ctypes.c_void_p(array.ctypes.data)


FUNCTIONS = {mode: "requantize" if mode == "default" else f"requantize_{mode}" for mode in MODES}


SHORT = "#define __ARM_ARCH_6M__ 1\n"
"""The law as a core without products of 64 bits computes it."""


@pytest.mark.cc
@pytest.mark.parametrize(("core", "mode"), [*(("", mode) for mode in MODES), (SHORT, "default")])
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize(
    ("zero_point", "lo", "hi"), [(0, -128, 127), (-128, -128, 127), (127, -128, 127), (-5, -5, 100)]
)
def test_c_requantize_gives_the_same_bits(scale, zero_point, lo, hi, core, mode):
    rng = np.random.default_rng(7)
    magnitude = 2.0 ** rng.uniform(0, 31, 2000) * rng.choice([-1, 1], 2000)
    near = rng.uniform(-200, 200, 2000) / scale
    acc = np.concatenate([ACCUMULATORS, magnitude, near]).clip(-(2**31), 2**31 - 1).astype(np.int32)
    q, y = fixedpoint.requant([0.3, scale], mode), np.zeros(acc.size, np.int8)
    words = np.asarray(q.multiplier, np.int32)
    function = getattr(shared_library(core + TWIN), FUNCTIONS[mode])
    function(pointer(acc), acc.size, pointer(words), 1, q.shift, zero_point, lo, hi, pointer(y))
    both = fixedpoint.requantize(np.stack([acc, acc], axis=1), q, zero_point, lo, hi)
    np.testing.assert_array_equal(y, both[:, 1])


@pytest.mark.cc
@pytest.mark.parametrize(
    "scales", [(1.0, 1.0), (0.3, -1.7), (1e-6, 1e-6), (16383.0, -16383.0), (0.004, 2.0), (0.0, 0.0)]
)
@pytest.mark.parametrize("zeros", [(0, 0, 0), (-128, 127, -128), (127, -128, 127), (127, 127, 127), (-128, -128, -128)])
def test_c_pairs_give_the_same_bits(scales, zeros):
    a, b = (np.ascontiguousarray(x, np.int8).reshape(-1) for x in np.meshgrid(range(-128, 128), range(-128, 128)))
    q, y = fixedpoint.pair_requant(scales, zeros[:2], zeros[2]), np.zeros(a.size, np.int8)
    shared_library(TWIN).requantize_pair(
        pointer(a), pointer(b), a.size, *q.multiplier, q.offset, q.shift, -128, 120, pointer(y)
    )
    np.testing.assert_array_equal(y, fixedpoint.requantize_pair(a, b, q, -128, 120))


GLOW_WORDS = [
    # scale, (multiplier, pre, post), by hand from the rule: double to 256 or 15 times (more below 1/2), then to 255
    (0.1, (410, 0, 12)),  # 0.1 * 2^12 = 409.6
    (0.001, (262, 3, 15)),  # 0.001 * 2^15 = 32.8, * 2^3 = 262.1
    (1e-5, (168, 8, 16)),  # 0.66 after 16, and half of 16 more
    (1.5, (384, 0, 8)),
    (1000.0, (1000, 0, 0)),
    (0.25, (1, 0, 2)),
    (4.0, (4, 0, 0)),
    (1.0, (1, 0, 0)),
    (2.0**-33, (0, 0, 0)),
]
TFLITE_WORDS = [
    (0.5, (2**30, 0)),
    (0.75, (3 * 2**29, 0)),
    (1.0, (2**30, 1)),
    (0.1, (1717986918, -3)),  # 0.8 * 2^31
    (3.0, (3 * 2**29, 2)),
    (1 - 2.0**-40, (2**30, 1)),  # rounds up to a power of two
    (2.0**-32, (2**30, -31)),
    (2.0**-33, (0, 0)),
]


@pytest.mark.parametrize(("scale", "words"), GLOW_WORDS)
def test_words_of_glow(scale, words):
    assert fixedpoint.glow_words(scale) == words


@pytest.mark.parametrize(("scale", "words"), TFLITE_WORDS)
def test_words_of_tflite(scale, words):
    assert fixedpoint.tflite_words(scale) == words


def quotient(a, b):
    """Division as in C, rounding towards zero."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def gemmlowp(acc, multiplier, shift):
    """SaturatingRoundingDoublingHighMul and RoundingDivideByPOT word for word, in Python's integers."""
    x = min(max(acc * 2 ** max(shift, 0), -(2**31)), 2**31 - 1)
    product = x * multiplier
    high = quotient(product + (2**30 if product >= 0 else 1 - 2**30), 2**31)
    exponent = max(-shift, 0)
    mask = 2**exponent - 1
    return (high >> exponent) + (high & mask > (mask >> 1) + (high < 0))


def glow(acc, multiplier, pre, post):
    return (((acc >> pre) * multiplier) + (1 << (post - 1) if post > 0 else 0)) >> post


@given(INT32, SCALE, INT8)
def test_tflite_is_gemmlowp(acc, scale, zero_point):
    q = fixedpoint.requant([scale], "tflite")
    expected = gemmlowp(acc, *q.multiplier) + zero_point
    assert fixedpoint.requantize(np.asarray([acc]), q, zero_point, -128, 127) == min(max(expected, -128), 127)


@given(INT32, SCALE | st.sampled_from([0.5, 0.25, 1.0, 2.0, 1 / 6, 1 / 10, 1 / 64]), INT8)
def test_onnx_is_one_rounding_to_even(acc, scale, zero_point):
    q = fixedpoint.requant([scale], "onnx")
    multiplier, shift = q.multiplier
    assert abs(Fraction(multiplier, 2**shift) - Fraction(scale)) <= Fraction(1, 2 ** (shift + 1))
    found = int(fixedpoint.requantize(np.asarray([acc]), q, zero_point, -128, 127)[0])
    exact = acc * Fraction(scale)
    if abs(exact - round(exact)) < Fraction(1, 2) - Fraction(abs(acc) + 1, 2**shift):
        assert found == min(max(round(exact) + zero_point, -128), 127)


@pytest.mark.parametrize("count", [2, 4, 6, 10, 12, 64])
def test_onnx_halves_of_means_go_to_even(count):
    total = np.arange(-255 * count, 255 * count + 1)
    found = fixedpoint.requantize(total, fixedpoint.requant([1 / count], "onnx"), 0, -128, 127)
    exact = [min(max(round(Fraction(t, count)), -128), 127) for t in total.tolist()]
    np.testing.assert_array_equal(found, exact)


@given(INT32, SCALE, INT8)
def test_glow_is_its_formula(acc, scale, zero_point):
    q = fixedpoint.requant([scale], "glow")
    expected = glow(acc, *q.multiplier) + zero_point
    assert fixedpoint.requantize(np.asarray([acc]), q, zero_point, -128, 127) == min(max(expected, -128), 127)


@given(SCALE.filter(lambda s: s < 1e5), SCALE.filter(lambda s: s < 1e5), SCALE.filter(lambda s: s > 1e-3), INT8)
def test_sums_of_others(scale_a, scale_b, scale_y, zero_point):
    a, b = (np.asarray(x).reshape(-1) for x in np.meshgrid([-255, -128, -1, 0, 1, 77, 255], [-255, -3, 0, 1, 254]))
    for sign in (1, -1):
        w = fixedpoint.each_words(scale_a, scale_b, scale_y, sign, "tflite")
        found = fixedpoint.requantize_each(a, b, w, zero_point, -128, 127, "tflite")
        for x, y, z in zip(a.tolist(), b.tolist(), found.tolist(), strict=True):
            both = gemmlowp(x << 20, *w[0:2]) + sign * gemmlowp(y << 20, *w[2:4])
            assert z == min(max(gemmlowp(both, *w[4:6]) + zero_point, -128), 127)
        w = fixedpoint.each_words(scale_a, scale_b, scale_y, sign, "onnx")
        found = fixedpoint.requantize_each(a, b, w, zero_point, -128, 127, "onnx")
        for x, y, z in zip(a.tolist(), b.tolist(), found.tolist(), strict=True):
            exact = Fraction(x * w[0] + sign * y * w[1], 2 ** w[2])
            assert abs(z - min(max(exact + zero_point, -128), 127)) <= Fraction(1, 2) + Fraction(510, 2 ** w[2])
        w = fixedpoint.each_words(scale_a, scale_b, scale_y, sign, "glow")
        found = fixedpoint.requantize_each(a, b, w, zero_point, -128, 127, "glow")
        for x, y, z in zip(a.tolist(), b.tolist(), found.tolist(), strict=True):
            assert z == min(max(glow(x, *w[0:3]) + sign * glow(y, *w[3:6]) + zero_point, -128), 127)
