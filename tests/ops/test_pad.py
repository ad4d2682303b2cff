"""Tests of Pad: fill_s8 and copy_into_s8."""

import numpy as np
import pytest
from checker import SIZES, case, check_op, one_node_model, weights
from onnx_builder import build

from glowembed.graph.op import Refused
from glowembed.graph.registry import ops

pytestmark = pytest.mark.cc


def pad(name, shape, pads, value=None, axes=None, opset=17, **attrs):
    inputs = [np.asarray(pads, np.int64), None if value is None else np.float32(value)]
    inputs += [] if axes is None else [np.asarray(axes, np.int64)]
    while inputs[-1] is None:
        inputs.pop()
    return case(name, "Pad", shape, *inputs, opset=opset, **attrs)


CASES = [
    *(pad(f"{n} by {n}", (1, 2, n, n), [0, 0, 1, 1, 0, 0, 1, 1]) for n in SIZES),
    pad("every axis", (2, 3, 4, 5), [1, 2, 0, 1, 0, 1, 3, 2]),
    pad("nothing", (2, 3), [0, 0, 0, 0]),
    pad("causal 1d", (1, 4, 16), [0, 0, 8, 0, 0, 0]),
    pad("value inside", (1, 2, 4, 4), [0, 0, 1, 1, 0, 0, 1, 1], 0.75),
    pad("value outside", (1, 2, 4, 4), [0, 0, 1, 1, 0, 0, 1, 1], -9.5),
    pad("value 0", (1, 2, 4, 4), [0, 0, 1, 1, 0, 0, 1, 1], 0.0),
    pad("mode named", (1, 2, 4), [0, 0, 1, 0, 0, 1], mode="constant"),
    pad("axes", (1, 2, 4, 5), [1, 2, 0, 3], None, [-1, 2], opset=18),
    pad("axes and value", (1, 2, 4, 5), [2, 1], 1.5, [1], opset=18),
    pad("crop", (1, 2, 6, 7), [0, 0, -1, -2, 0, 0, -2, -3]),
    pad("crop and pad", (1, 2, 6, 7), [0, 0, -1, 2, 0, 1, 3, -3], 0.5),
    case("attributes, opset 10", "Pad", (1, 2, 4), pads=[0, 1, 2, 0, 0, 3], value=0.5, opset=10),
    case("attributes, opset 7", "Pad", (1, 2, 4), pads=[0, 1, 2, 0, 0, 3], opset=7),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_pad(case):
    check_op(case)


@pytest.mark.parametrize("perm", [(0, 2, 1), (2, 0, 1), (1, 2, 0)], ids=str)
def test_permute(perm):
    op, x = ops()["Pad"], weights(2, 3, 4)
    attrs = {"pads_begin": (0, 1, 2), "pads_end": (3, 0, 1), "value": 0.0}
    on_permuted = {**attrs, **{k: tuple(attrs[k][axis] for axis in perm) for k in ("pads_begin", "pads_end")}}
    assert op.permute(on_permuted, perm) == attrs
    (outside,) = op.float_ref(on_permuted, [x.transpose(perm)])
    (inside,) = op.float_ref(attrs, [x])
    assert np.array_equal(outside, inside.transpose(perm))


def test_zeros_keep_the_type_of_the_input():
    zero, other = (build(one_node_model(pad("p", (1, 4), [0, 1, 0, 1], value))) for value in (0.0, 2.0))
    assert [ops()[graph.nodes[0].op].output_type for graph in (zero, other)] == ["input", "profile"]


REFUSED = [
    pad("reflect", (1, 2, 4), [0, 0, 1, 0, 0, 1], mode="reflect"),
    pad("edge", (1, 2, 4), [0, 0, 1, 0, 0, 1], mode="edge"),
    pad("infinite", (1, 2, 4), [0, 0, 1, 0, 0, 1], -np.inf),
    pad("crops everything", (1, 2, 4), [0, 0, -2, 0, 0, -2]),
]


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_refused(case):
    with pytest.raises(Refused):
        build(one_node_model(case))
