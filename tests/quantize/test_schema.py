"""Scale and zero point against tables worked out by hand from the formulas of the four schemas."""

import math

import numpy as np
import pytest

from glowembed.options.table import SCHEMAS
from glowembed.quantize.schema import choose, power_of_two, weights_type

ASYMMETRIC, SYMMETRIC, UINT8, POWER2 = SCHEMAS
HUGE = float(np.finfo(np.float32).max)

INT8 = [
    # low, high, schema, scale, zero point
    (0.0, 255.0, ASYMMETRIC, 1.0, -128),
    (-255.0, 0.0, ASYMMETRIC, 1.0, 127),
    (-128.0, 127.0, ASYMMETRIC, 1.0, 0),
    (-127.0, 128.0, ASYMMETRIC, 1.0, -1),
    (-1.0, 1.0, ASYMMETRIC, 2 / 255, 0),  # -128 + 127.5 = -0.5: a range around zero has 0
    (-1.0, 2.0, ASYMMETRIC, 3 / 255, -43),  # -128 + 1 / (3/255) = -43
    (-2.0, 1.0, ASYMMETRIC, 3 / 255, 42),  # -128 + 170
    (-1.0, 4.1, ASYMMETRIC, 0.02, -78),  # -128 + 50
    (-0.1, 6.275, ASYMMETRIC, 0.025, -124),
    (2.0, 5.1, ASYMMETRIC, 0.02, -128),  # one side: widened to 0..5.1
    (-5.1, -2.0, ASYMMETRIC, 0.02, 127),
    (5.1, 5.1, ASYMMETRIC, 0.02, -128),  # a constant
    (-5.1, -5.1, ASYMMETRIC, 0.02, 127),
    (0.0, 0.0, ASYMMETRIC, 0.1, 0),  # nothing but zero
    (0.0, 1e-30, ASYMMETRIC, 1e-30 / 255, -128),
    (-1e-30, 2e-30, ASYMMETRIC, 3e-30 / 255, -43),
    (0.0, 1e-45, ASYMMETRIC, 0.1, 0),  # float32 has no scale for it
    (-HUGE, HUGE, ASYMMETRIC, 2 * HUGE / 255, 0),
    (0.0, HUGE, ASYMMETRIC, HUGE / 255, -128),
    (-math.inf, math.inf, ASYMMETRIC, 2 * HUGE / 255, 0),
    (-1.28, 1.27, SYMMETRIC, 0.01, 0),
    (-1.28, 0.3, SYMMETRIC, 0.01, 0),
    (-0.3, 1.27, SYMMETRIC, 0.01, 0),
    (0.0, 1.27, SYMMETRIC, 0.01, 0),
    (-2.56, 0.0, SYMMETRIC, 0.02, 0),
    (1.0, 1.27, SYMMETRIC, 0.01, 0),
    (0.0, 0.0, SYMMETRIC, 0.1, 0),
    (0.0, 1e-30, SYMMETRIC, 1e-30 / 127, 0),
    (-HUGE, HUGE, SYMMETRIC, HUGE / 127, 0),
    (0.0, 2.55, UINT8, 0.01, -128),
    (1.0, 2.55, UINT8, 0.01, -128),
    (-0.001, 1.27, UINT8, 0.01, 0),  # the least below zero: symmetric
    (-2.56, 0.0, UINT8, 0.02, 0),
    (0.0, 0.0, UINT8, 0.1, 0),
    (-1.28, 1.27, POWER2, 2**-6, 0),  # 0.01 -> 0.015625
    (0.0, 127.0, POWER2, 1.0, 0),  # a power of two already
    (0.0, 127.5, POWER2, 2.0, 0),
    (-128.0, 0.0, POWER2, 1.0, 0),
    (0.0, 127 * 2.0**-10, POWER2, 2.0**-10, 0),
    (0.0, 0.0, POWER2, 0.1, 0),
    (-HUGE, HUGE, POWER2, 2.0**122, 0),  # 2^128 / 127 -> just above 2^121
    (0.0, 1e-30, POWER2, 2.0**-106, 0),  # 1e-30 / 127 = 0.64 * 2^-106
]

INT16 = [
    (0.0, 65535.0, ASYMMETRIC, 1.0, -32768),
    (-32768.0, 32767.0, ASYMMETRIC, 1.0, 0),
    (-1.0, 2.0, ASYMMETRIC, 3 / 65535, -10923),  # -32768 + 21845
    (-1.0, 1.0, ASYMMETRIC, 2 / 65535, 0),
    (0.0, 0.0, ASYMMETRIC, 0.1, 0),
    (-327.68, 0.0, SYMMETRIC, 0.01, 0),
    (-1.0, 327.67, SYMMETRIC, 0.01, 0),
    (0.0, 655.35, UINT8, 0.01, -32768),
    (-0.5, 327.67, UINT8, 0.01, 0),
    (0.0, 327.67, POWER2, 2**-6, 0),
    (0.0, 1e-30, SYMMETRIC, 1e-30 / 32767, 0),
]


@pytest.mark.parametrize(("low", "high", "schema", "scale", "zero_point"), INT8)
def test_int8(low, high, schema, scale, zero_point):
    q = choose(low, high, schema)
    assert (q.dtype, q.zero_point, q.axis) == ("int8", (zero_point,), None)
    assert q.scale[0] == pytest.approx(scale, rel=1e-7)
    assert q.scale[0] == np.float32(q.scale[0])
    assert q.dequantize(q.quantize(np.zeros(1, np.float32))) == 0


@pytest.mark.parametrize(("low", "high", "schema", "scale", "zero_point"), INT16)
def test_int16(low, high, schema, scale, zero_point):
    q = choose(low, high, schema, "int16")
    assert (q.dtype, q.zero_point) == ("int16", (zero_point,))
    assert q.scale[0] == pytest.approx(scale, rel=1e-7)


@pytest.mark.parametrize("dtype", ["int8", "int16"])
@pytest.mark.parametrize("schema", SCHEMAS)
@pytest.mark.parametrize("end", [0.0, 1e-30, 1e-3, 0.7, 1.0, 12345.6, 1e30])
def test_every_number_of_the_range_is_within_a_step(schema, dtype, end):
    rng = np.random.default_rng(5)
    for low, high in [(0.0, end), (-end, 0.0), (-end, end), (-end / 3, end), (-end, end / 7)]:
        q = choose(low, high, schema, dtype)
        real = rng.uniform(low, high, 1000)
        error = np.abs((q.quantize(real).astype(np.float64) - q.zero_point[0]) * q.scale[0] - real)
        assert error.max() <= q.scale[0] * 1.001  # half a step, and the zero point's rounding at the ends


def test_narrow_leaves_out_the_lowest_number():
    assert choose(-1.27, 0.5, SYMMETRIC, narrow=True).scale[0] == pytest.approx(0.01)
    assert choose(-1.27, 0.5, SYMMETRIC).scale[0] == pytest.approx(1.27 / 128)


@pytest.mark.parametrize(("low", "high"), [(math.nan, 1.0), (0.0, math.nan), (1.0, 0.0)])
def test_what_is_no_range_is_refused(low, high):
    with pytest.raises(ValueError, match="no range"):
        choose(low, high)


@pytest.mark.parametrize(("x", "y"), [(0, 0), (1, 1), (1.0001, 2), (0.25, 0.25), (0.24, 0.25), (3, 4), (1e-30, 2**-99)])
def test_power_of_two(x, y):
    assert power_of_two(x) == y


W = np.asarray([[1.27, -0.5], [0.0, 5.1], [-0.1, 0.41], [0.0, 0.0]], np.float32)
PER_CHANNEL = {
    SYMMETRIC: ((1.27 / 127, 5.1 / 127, 0.41 / 127, 5.1 / 127), (0, 0, 0, 0)),
    ASYMMETRIC: ((1.77 / 255, 5.1 / 255, 0.002, 5.1 / 255), (-56, -128, -78, 0)),
    UINT8: ((1.27 / 127, 5.1 / 255, 0.41 / 127, 5.1 / 255), (0, -128, 0, -128)),
    POWER2: ((2**-6, 2**-4, 2**-8, 2**-4), (0, 0, 0, 0)),
}
PER_TENSOR = {
    SYMMETRIC: (5.1 / 127, 0),
    ASYMMETRIC: (5.6 / 255, -105),  # -128 + 0.5 / (5.6/255) = -105.2
    UINT8: (5.1 / 127, 0),
    POWER2: (2**-4, 0),
}


@pytest.mark.parametrize("schema", SCHEMAS)
def test_weights_per_channel(schema):
    q = weights_type(W, np.zeros(4), 1.0, schema)
    scales, zero_points = PER_CHANNEL[schema]
    assert q.scale == pytest.approx(scales, rel=1e-6)
    assert q.zero_point[:3] == zero_points[:3]
    assert q.axis == 0
    assert np.abs(q.dequantize(q.quantize(W)) - W).max(axis=1) == pytest.approx(np.zeros(4), abs=0.04)


@pytest.mark.parametrize("schema", SCHEMAS)
def test_weights_per_tensor(schema):
    q = weights_type(W, np.zeros(4), 1.0, schema, per_channel=False)
    scale, zero_point = PER_TENSOR[schema]
    assert q.scale == pytest.approx((scale,) * 4, rel=1e-6)
    assert q.zero_point == (zero_point,) * 4


@pytest.mark.parametrize("schema", SCHEMAS)
def test_symmetric_weights_never_use_the_lowest_number(schema):
    w = np.asarray([[-1.0, 0.5]], np.float32)
    stored = weights_type(w, np.zeros(1), 1.0, schema).quantize(w)
    assert stored.min() >= (-128 if schema == ASYMMETRIC else -127)


def test_a_scale_raised_for_the_bias_stays_a_power_of_two():
    q = weights_type(np.full((2, 1), 1e-9, np.float32), np.asarray([100.0, 0.0]), 0.01, POWER2)
    assert [math.frexp(s)[0] for s in q.scale] == [0.5, 0.5]
    assert 100.0 / (0.01 * q.scale[0]) <= 2.0**29


def test_ranges_of_weights_may_come_from_a_calibration():
    q = weights_type(W, np.zeros(4), 1.0, SYMMETRIC, range_of=lambda w: (-1.27, 1.27))
    assert q.scale == pytest.approx((0.01,) * 3 + (0.01,), rel=1e-6)
