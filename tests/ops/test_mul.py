"""Tests of Mul: mul_s8 and mul_broadcast_s8."""

import pytest
from checker import SIZES, case, check_op, weights

pytestmark = pytest.mark.cc

PAIRS = [
    *(("same", (1, 2, n, 3), (1, 2, n, 3)) for n in SIZES),
    *(("vectors", (1, n), (1, n)) for n in SIZES),
    ("scalar", (1, 3, 4, 5), ()),
    ("scalar first", (1,), (1, 3, 4)),
    ("per channel", (1, 3, 4, 5), (3, 1, 1)),
    ("per channel last", (1, 3, 4, 5), (5,)),
    ("per row", (1, 3, 4, 5), (1, 3, 1, 5)),
    ("per column", (1, 3, 4, 5), (1, 3, 4, 1)),
    ("outer", (1, 3, 1, 5), (1, 1, 4, 1)),
    ("outer product", (7, 1), (1, 9)),
    ("one row for all", (1, 3, 4, 5), (1, 1, 4, 5)),
    ("first axis is not one", (2, 3, 4, 5), (2, 1, 4, 1)),
    ("time", (1, 9, 6), (1, 1, 6)),
    ("five axes", (1, 2, 3, 4, 5), (1, 2, 1, 4, 5)),
]

CASES = [
    *(case(f"{op} {name} {a} {b}", op, a, b) for op in ("Mul",) for name, a, b in PAIRS),
    *(case(f"{op} constant {name} {b}", op, a, weights(*b)) for op in ("Mul",) for name, a, b in PAIRS[-10:]),
    case("constant first", "Mul", weights(3, 1, 1), (1, 3, 4, 5)),
    case("constant of zeros", "Mul", (1, 3, 4, 5), weights(5) * 0),
    case("large constant", "Mul", (1, 3, 4, 5), weights(5) + 1000),
    case("tiny constant", "Mul", (1, 3, 4, 5), weights(5) * weights(1, scale=1e-6)),
    case("opset 7", "Mul", (1, 3, 4), (4,), opset=7),
    case("positive data", "Mul", (1, 3, 4), (1, 3, 4), low=2.0, high=3.0),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_mul(case):
    check_op(case)
