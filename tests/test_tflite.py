"""The fixed-point exp and reciprocal of gemmlowp against the real functions: bits are proved by whole networks."""

import numpy as np
import pytest

from glowembed.law import tflite


def test_exp_is_exp():
    x = -np.arange(0, 2**31, 99991, dtype=np.int64)
    real = np.exp(x / 2.0**26)
    np.testing.assert_allclose(tflite.exp_of_negative(x) / 2.0**31, real, atol=2e-7)


def test_reciprocal_is_a_reciprocal():
    total = np.unique(np.concatenate([np.geomspace(2**19, 2**31 - 1, 5000).astype(np.int64), 2 ** np.arange(19, 31)]))
    scale, bits = tflite.reciprocal(total)
    real = 2.0**19 / total
    np.testing.assert_allclose(scale / 2.0**31 / 2.0**bits, real, rtol=1e-6)


@pytest.mark.parametrize("scale", [1e-4, 0.01, 0.09, 0.5, 3.0, 40.0])
def test_table(scale):
    table = tflite.softmax_table(scale)
    assert table[0] == tflite.ONE
    real = np.exp(-scale * np.arange(256))
    np.testing.assert_allclose(table / 2.0**31, real, atol=3e-7)
    assert (np.diff(table) <= 0).all()
