"""BatchNormalization and Div by a constant, and scales and shifts that stay on their own."""

from __future__ import annotations

import numpy as np
import pytest
from checker import Case, case, check_op, weights

from glowembed.errors import UnsupportedModelError
from glowembed.graph.ir import Array, QType
from glowembed.ops.affine import AffineParams, AffineS8, affine_constants


def norm(channels: int, seed: int = 1) -> tuple[Array, ...]:
    """Gamma (some negative), beta, mean, variance."""
    gamma, beta, mean = (weights(channels, seed=seed + i) for i in range(3))
    return gamma, beta, mean, np.abs(weights(channels, seed=seed + 3)) + np.float32(0.05)


CASES = [
    *(
        case(f"image of {c} channels", "BatchNormalization", (1, c, 5, 3), *norm(c))
        for c in (1, 2, 3, 4, 5, 7, 8, 16, 17, 33)
    ),
    case("time", "BatchNormalization", (1, 6, 9), *norm(6)),
    case("row", "BatchNormalization", (1, 20), *norm(20)),
    case("epsilon", "BatchNormalization", (1, 4, 3, 3), *norm(4), epsilon=0.1),
    case("opset 7", "BatchNormalization", (1, 4, 3, 3), *norm(4), opset=7),
    case("opset 9", "BatchNormalization", (1, 4, 3, 3), *norm(4), opset=9),
    case("Div by a scalar", "Div", (1, 3, 4, 5), np.float32(4.0)),
    case("Div by a negative scalar", "Div", (1, 7), np.float32(-0.3)),
    case("Div per channel of a row", "Div", (1, 4), np.array([2.0, -3.0, 0.5, 100.0], np.float32)),
    case("Div per channel of an image", "Div", (1, 3, 4, 5), np.array([2.0, -3.0, 0.5], np.float32).reshape(3, 1, 1)),
    case("Div element by element", "Div", (1, 2, 3), np.abs(weights(2, 3)) + np.float32(0.5)),
]


GAINS = [
    # scale, shift, description
    ((1.0, -1.0, 0.5), (0.0, 0.1, -0.1), "ordinary"),
    ((300.0, -300.0, 1.0), (0.0, 5.0, 0.0), "nearly every output at an end"),
    ((0.0, 1e-6, 1.0), (1e6, -1e6, 0.3), "stuck at an end"),
    ((1e-9, 0.0, 1e-3), (0.0, 0.25, 0.125), "nearly constant"),
]


@pytest.mark.parametrize(("scale", "shift", "name"), GAINS, ids=[g[2] for g in GAINS])
def test_each_output_is_rounded_once(scale: tuple[float, ...], shift: tuple[float, ...], name: str) -> None:
    xq, yq = QType("int8", (0.02,), (5,)), QType("int8", (0.01,), (-7,))
    x = np.repeat(np.arange(-128, 128), 3).reshape(-1, 3)
    k = affine_constants(np.asarray(scale), np.asarray(shift), 3, xq, yq, (-128, 127), name)
    params = AffineParams(1, 256, 3, k.shift, -128, 127)
    found = AffineS8().int_ref(params, [x], {"multiplier": k.multiplier, "offset": k.offset})
    assert (128 * np.abs(k.multiplier.astype(np.int64)) + np.abs(k.offset.astype(np.int64)) < 2**31).all()
    real = ((x - 5) * 0.02 * np.asarray(scale) + np.asarray(shift)) / 0.01 - 7
    assert np.abs(found - np.clip(real, -128, 127)).max() < 0.52


def test_a_gain_that_int32_cannot_hold() -> None:
    xq, yq = QType("int8", (1.0,), (0,)), QType("int8", (1e-9,), (0,))
    with pytest.raises(UnsupportedModelError, match=r"'n'.*too small for its input"):
        affine_constants(np.ones(1), np.zeros(1), 1, xq, yq, (-128, 127), "'n'")


@pytest.mark.cc
@pytest.mark.parametrize("case", CASES, ids=str)
def test_affine(case: Case) -> None:
    check_op(case, steps=1.51)
