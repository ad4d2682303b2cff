"""Tests of Concat: reserve, copy_into_s8 and insert_s8."""

import numpy as np
import pytest
from checker import SIZES, case, check_op, one_node_model, weights
from onnx_builder import build

from glowembed.graph.op import Refused
from glowembed.graph.registry import ops

pytestmark = pytest.mark.cc

CASES = [
    *(case(f"channels {n} and 3", "Concat", (1, n, 2, 3), (1, 3, 2, 3), axis=1) for n in SIZES),
    *(case(f"rank 4 axis {axis}", "Concat", (2, 3, 4, 5), (2, 3, 4, 5), axis=axis) for axis in (0, 1, 2, 3, -1, -4)),
    case("one input", "Concat", (1, 3, 4), axis=1),
    case("five inputs", "Concat", *((1, n, 2) for n in (1, 2, 3, 4, 5)), axis=1),
    case("rank 1", "Concat", (3,), (4,), axis=0),
    case("rank 6", "Concat", (1, 2, 3, 2, 3, 2), (1, 2, 1, 2, 3, 2), axis=2),
    case("a constant first", "Concat", weights(1, 4, 8), (1, 5, 8), axis=1),
    case("a constant last", "Concat", (1, 5, 8), weights(1, 5, 2), axis=2),
    case("a constant between", "Concat", (1, 5, 8), weights(1, 5, 2, scale=3.0), (1, 5, 1), axis=-1),
    case("opset 7", "Concat", (1, 2, 3), (1, 2, 3), axis=1, opset=7),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_concat(case):
    check_op(case)


@pytest.mark.parametrize("axis", range(3))
@pytest.mark.parametrize("perm", [(0, 2, 1), (2, 0, 1), (1, 2, 0)], ids=str)
def test_permute(perm, axis):
    op, x, y = ops()["Concat"], weights(2, 3, 4), weights(2, 3, 4, seed=2)
    (outside,) = op.float_ref({"axis": axis}, [x.transpose(perm), y.transpose(perm)])
    (inside,) = op.float_ref(op.permute({"axis": axis}, perm), [x, y])
    assert np.array_equal(outside, inside.transpose(perm))


def test_an_axis_too_many():
    model = one_node_model(case("ok", "Concat", (1, 2), (1, 2), axis=1))
    model.graph.node[0].attribute[0].i = 2
    with pytest.raises(Refused, match="axis 2 of 2 axes"):
        build(model)
