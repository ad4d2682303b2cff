"""Add, Sub and Mul: add_s8, mul_s8 and their forms for operands of other shapes."""

import pytest
from checker import SIZES, case, check_op, weights

from glowembed.ops.shared.broadcast import broadcasting

pytestmark = pytest.mark.cc

PAIRS = [
    *(("same", (1, 2, n, 3), (1, 2, n, 3)) for n in SIZES),
    *(("vectors", (1, n), (1, n)) for n in SIZES),
    *(("per channel last", (1, 3, 2, n), (n,)) for n in (7, 8, 9, 17)),
    *(("per column", (1, 3, 2, n), (1, 3, 2, 1)) for n in (7, 8, 9, 17)),
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

OPS = ("Add", "Sub", "Mul")

CASES = [
    *(case(f"{op} {name} {a} {b}", op, a, b) for op in OPS for name, a, b in PAIRS),
    *(case(f"{op} constant {name} {b}", op, a, weights(*b)) for op in OPS for name, a, b in PAIRS[-10:]),
    *(case(f"{op} constant first", op, weights(3, 1, 1), (1, 3, 4, 5)) for op in ("Sub", "Mul")),
    *(case(f"{op} constant of zeros", op, (1, 3, 4, 5), weights(5) * 0) for op in ("Add", "Mul")),
    *(case(f"{op} large constant", op, (1, 3, 4, 5), weights(5) + 1000) for op in ("Add", "Mul")),
    *(case(f"{op} tiny constant", op, (1, 3, 4, 5), weights(5) * weights(1, scale=1e-6)) for op in ("Sub", "Mul")),
    *(case(f"{op} opset 7", op, (1, 3, 4), (4,), opset=7) for op in ("Add", "Mul")),
    *(case(f"{op} positive data", op, (1, 3, 4), (1, 3, 4), low=2.0, high=3.0) for op in ("Sub", "Mul")),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_add_and_mul(case):
    check_op(case)


@pytest.mark.parametrize(("a", "b"), [((1, 6, 5, 4), (4,)), ((4,), (1, 6, 5, 4)), ((3, 4), (1, 2, 1, 4)), ((), (2, 3))])
def test_operands_of_fewer_axes_have_leading_axes_of_1(a, b) -> None:
    """As constants of .tflite files have them behind a normalization."""
    rank = max(len(a), len(b))
    full = [(1,) * (rank - len(shape)) + shape for shape in (a, b)]
    assert broadcasting(a, b) == broadcasting(*full)
