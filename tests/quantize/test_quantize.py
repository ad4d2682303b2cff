"""Ranges to types, against the formulas of asymmetric and symmetric quantization worked out by hand."""

import numpy as np
import pytest

from glowembed.quantize.schema import BIAS_LIMIT, asymmetric, symmetric_weights

ASYMMETRIC = [
    # low, high, scale, zero_point
    (0.0, 2.55, 0.01, -128),
    (-1.28, 1.27, 0.01, 0),
    (-2.55, 0.0, 0.01, 127),
    (0.5, 2.55, 0.01, -128),  # widened down to zero
    (-2.55, -1.0, 0.01, 127),  # widened up to zero
    (3.0, 3.0, 3.0 / 255, -128),  # a constant
    (-3.0, -3.0, 3.0 / 255, 127),
    (0.0, 0.0, 0.1, 0),  # nothing but zero
    (0.0, 1e-30, 1e-30 / 255, -128),
    (0.0, 1e-45, 0.1, 0),  # below what float32 can scale
    (-1e38, 1e38, 2e38 / 255, 0),
]


@pytest.mark.parametrize(("low", "high", "scale", "zero_point"), ASYMMETRIC)
def test_asymmetric(low: float, high: float, scale: float, zero_point: int) -> None:
    q = asymmetric(low, high)
    assert q.scale[0] == pytest.approx(scale, rel=1e-6)
    assert abs(q.zero_point[0] - zero_point) <= (1 if low == -high else 0)
    assert q.quantize(np.zeros(1, np.float32))[0] == q.zero_point[0]


@pytest.mark.parametrize(("low", "high"), [(-1.0, 3.0), (-0.3, 0.7), (0.0, 6.0), (-5.0, 0.01)])
def test_every_real_in_range_is_within_half_a_step(low: float, high: float) -> None:
    q = asymmetric(low, high)
    real = np.linspace(low, high, 4001, dtype=np.float64)
    error = np.abs(q.dequantize(q.quantize(real)) - real)
    # The zero point is rounded, so one end may lie up to half a step outside of what int8 can hold.
    assert error.max() <= q.scale[0] * 1.001


def test_weights_per_channel_use_the_narrow_range() -> None:
    w = np.array([[1.0, -2.0], [0.5, 0.25], [0.0, 0.0]], np.float32)
    q = symmetric_weights(w, np.zeros(3, np.float32), 1.0, per_channel=True)
    assert q.scale == pytest.approx((2 / 127, 0.5 / 127, 2 / 127))
    assert q.quantize(w).tolist() == [[64, -127], [127, 64], [0, 0]]


def test_weights_per_tensor_share_one_scale() -> None:
    w = np.array([[1.0], [4.0]], np.float32)
    q = symmetric_weights(w, np.zeros(2, np.float32), 1.0, per_channel=False)
    assert q.scale == pytest.approx((4 / 127, 4 / 127))


def test_a_large_bias_widens_the_scale_of_its_channel() -> None:
    w = np.array([[1e-9], [1.0]], np.float32)
    bias = np.array([100.0, 0.0], np.float32)
    q = symmetric_weights(w, bias, 0.01, per_channel=True)
    assert 100.0 / (0.01 * q.scale[0]) <= BIAS_LIMIT * 1.001
    assert q.scale[1] == pytest.approx(1 / 127)


def test_all_zero_weights_have_a_type() -> None:
    q = symmetric_weights(np.zeros((2, 3), np.float32), np.zeros(2, np.float32), 1.0, per_channel=True)
    assert q.scale == (1.0, 1.0)
