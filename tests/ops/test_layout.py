"""Transpose is a copy, the others are views."""

from __future__ import annotations

import numpy as np
import pytest
from checker import Case, case, check_op

INT64 = np.int64

CASES = [
    case("Transpose to NHWC", "Transpose", (1, 3, 5, 4), perm=[0, 2, 3, 1]),
    case("Transpose to NCHW", "Transpose", (1, 5, 4, 3), perm=[0, 3, 1, 2]),
    case("Transpose of time", "Transpose", (1, 7, 9), perm=[0, 2, 1]),
    case("Transpose of rows", "Transpose", (4, 6), perm=[1, 0]),
    case("Transpose of five axes", "Transpose", (1, 2, 3, 4, 5), perm=[0, 4, 2, 3, 1]),
    case("Transpose that does nothing", "Transpose", (1, 2, 3), perm=[0, 1, 2]),
    case("Transpose by default", "Transpose", (2, 3, 4)),
    *(case(f"Transpose {n} x {m}", "Transpose", (n, m), perm=[1, 0]) for n in (1, 3, 8, 17) for m in (1, 4, 16, 33)),
    *(
        case(f"channels last {c} x {h} x {w}", "Transpose", (1, c, h, w), perm=[0, 2, 3, 1])
        for c, h, w in (
            (1, 4, 4),
            (2, 3, 1),
            (3, 2, 8),
            (3, 5, 9),
            (4, 1, 17),
            (17, 3, 7),
            (40, 2, 3),
            (3, 33, 31),
            (3, 1, 1),
            (2, 8, 8),
            (5, 7, 13),
        )
    ),
    case("Transpose of two axes to the back", "Transpose", (2, 3, 5, 4), perm=[2, 3, 0, 1]),
    case("Transpose of two axes to the front", "Transpose", (3, 5, 2, 4), perm=[2, 3, 0, 1]),
    case("Reshape", "Reshape", (1, 4, 6), np.array([0, -1], INT64)),
    case("Flatten", "Flatten", (1, 4, 6)),
    case("Squeeze", "Squeeze", (1, 4, 1), np.array([2], INT64)),
    case("Squeeze of opset 11", "Squeeze", (1, 4, 1), axes=[2], opset=11),
    case("Unsqueeze", "Unsqueeze", (1, 4), np.array([1], INT64)),
]


@pytest.mark.cc
@pytest.mark.parametrize("case", CASES, ids=str)
def test_layout(case: Case) -> None:
    check_op(case, steps=0.51)
