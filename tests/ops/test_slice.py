"""Tests of Slice, Split and Gather: copy_s8."""

import numpy as np
import pytest
from checker import SIZES, case, check_op, one_node_model, weights
from onnx_builder import build

from glowembed.graph.op import Refused
from glowembed.graph.registry import ops

pytestmark = pytest.mark.cc

FAR = np.iinfo(np.int64).max


def slice_(name, shape, starts, ends, axes=None, steps=None, opset=17):
    inputs = [None if v is None else np.asarray(v, np.int64) for v in (starts, ends, axes, steps)]
    while inputs[-1] is None:
        inputs.pop()
    return case(name, "Slice", shape, *inputs, opset=opset)


def gather(name, shape, indices, axis=0):
    return case(name, "Gather", shape, np.asarray(indices, np.int64), axis=axis)


CASES = [
    *(slice_(f"last {n} of 33", (1, 2, 33), [33 - n], [33], [2]) for n in SIZES),
    *(slice_(f"axis {axis}", (3, 4, 5, 6), [1], [3], [axis]) for axis in (0, 1, 2, 3, -1, -4)),
    slice_("ends far away", (1, 4, 6), [1, 2], [FAR, FAR], [1, 2]),
    slice_("starts far before", (1, 4, 6), [-FAR, -FAR], [2, -1], [1, 2]),
    slice_("no axes", (3, 4, 5), [1, 0, 2], [2, 3, 5]),
    slice_("everything", (3, 4, 5), [0], [FAR], [1]),
    slice_("steps", (1, 8, 9), [1, 0], [FAR, 8], [1, 2], [2, 3]),
    slice_("backwards", (1, 8, 9), [-1], [-FAR - 1], [1], [-1]),
    slice_("backwards to index 1", (1, 8, 9), [7], [0], [1], [-3]),
    slice_("backwards from far", (1, 8, 9), [FAR, FAR], [-FAR, 2], [1, 2], [-2, -1]),
    slice_("opset 11", (1, 8, 9), [2], [5], [1], opset=11),
    slice_("opset 10, no axes", (8, 9), [2], [5], opset=10),
    case("attributes, opset 9", "Slice", (1, 8, 9), starts=[2, -3], ends=[5, FAR], axes=[1, 2], opset=9),
    case("attributes without axes, opset 7", "Slice", (3, 8, 9), starts=[1, 2], ends=[2, -1], opset=7),
    case("split 3", "Split", (1, 9, 4), axis=1, outputs=3, opset=13),
    case("split sizes", "Split", (1, 9, 4), np.asarray([2, 6, 1]), axis=1, outputs=3, opset=13),
    case("split last axis", "Split", (1, 9, 4), np.asarray([3, 1]), axis=-1, outputs=2, opset=13),
    case("split attribute", "Split", (1, 9, 4), axis=1, split=[5, 4], outputs=2, opset=11),
    case("split equal, opset 11", "Split", (4, 9), outputs=2, opset=11),
    case("split num_outputs", "Split", (1, 8, 4), axis=1, num_outputs=4, outputs=4, opset=18),
    case("split num_outputs uneven", "Split", (1, 7, 4), axis=1, num_outputs=3, outputs=3, opset=18),
    gather("scalar index", (1, 5, 4), 2, axis=1),
    gather("last", (1, 5, 4), -1, axis=1),
    gather("axis 0", (5, 4), 3),
    gather("one index", (1, 5, 4), [3], axis=2),
    gather("contiguous", (1, 9, 4), [3, 4, 5, 6], axis=1),
    gather("every second, backwards", (1, 9, 4), [8, 6, 4], axis=1),
    gather("indices of rank 2", (1, 9, 4), [[1, 2], [3, 4]], axis=1),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_slice(case):
    check_op(case)


@pytest.mark.parametrize("perm", [(0, 2, 1), (2, 0, 1), (1, 2, 0)], ids=str)
def test_permute(perm):
    op, x = ops()["Slice"], weights(4, 5, 6)
    attrs = {"starts": (1, 4, 0), "steps": (1, -2, 3), "sizes": (2, 3, 2)}
    on_permuted = {key: tuple(value[axis] for axis in perm) for key, value in attrs.items()}
    assert op.permute(on_permuted, perm) == attrs
    (outside,) = op.float_ref(on_permuted, [x.transpose(perm)])
    (inside,) = op.float_ref(attrs, [x])
    assert np.array_equal(outside, inside.transpose(perm))


REFUSED = [
    gather("no equal steps", (1, 9, 4), [0, 1, 3], axis=1),
    gather("the same twice", (1, 9, 4), [2, 2], axis=1),
    case("starts at run time", "Slice", (9,), (1,), np.asarray([3])),
]


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_refused(case):
    model = one_node_model(case) if case.op_type == "Gather" else _integer_starts(case)
    with pytest.raises(Refused):
        build(model)


def _integer_starts(case):
    import onnx
    from onnx import helper

    node = helper.make_node("Slice", ["x", "starts", "ends"], ["y"])
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [9])
    starts = helper.make_tensor_value_info("starts", onnx.TensorProto.INT64, [1])
    y = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
    ends = onnx.numpy_helper.from_array(np.asarray([3]), "ends")
    graph = helper.make_graph([node], case.name, [x, starts], [y], [ends])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", case.opset)], ir_version=8)
