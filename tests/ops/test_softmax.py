"""Softmax: softmax_s8."""

import pytest
from checker import SIZES, case, check_op

pytestmark = pytest.mark.cc

CASES = [
    *(case(f"{n} classes", "Softmax", (1, n)) for n in SIZES),
    *(case(f"axis {axis}", "Softmax", (1, 3, 4, 5), axis=axis) for axis in (-4, -3, -2, -1, 0, 1, 2, 3)),
    *(case(f"axis {axis} opset 11", "Softmax", (1, 3, 4, 5), axis=axis, opset=11) for axis in (-1, 0, 1, 2, 3)),
    case("default axis", "Softmax", (1, 3, 4)),
    case("default axis opset 9", "Softmax", (1, 3, 4), opset=9),
    case("default axis opset 9, 2d", "Softmax", (1, 7), opset=9),
    case("trailing ones opset 9", "Softmax", (1, 7, 1, 1), opset=9),
    case("time", "Softmax", (1, 9, 4)),
    case("many classes", "Softmax", (1, 3000)),
    case("sharp", "Softmax", (1, 10), low=-60.0, high=60.0),
    case("flat", "Softmax", (1, 10), low=-1e-3, high=1e-3),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_softmax(case):
    check_op(case, steps=0.51)
