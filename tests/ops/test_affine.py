"""BatchNormalization and Div by a constant, and scales and shifts that stay on their own."""

from __future__ import annotations

import numpy as np
import pytest
from checker import Case, case, check_op, weights

from glowembed.ir import Array


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


@pytest.mark.cc
@pytest.mark.parametrize("case", CASES, ids=str)
def test_affine(case: Case) -> None:
    check_op(case, steps=1.51)
