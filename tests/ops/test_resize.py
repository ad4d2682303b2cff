"""Resize and Upsample along height and width: resize_s8, resize_s16 and resize_f32."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from checker import case, check_op, one_node_model
from onnx_builder import build

from glowembed.graph.op import Refused
from glowembed.ops.resize import BITS, GENERATED, Axis, Resize

pytestmark = pytest.mark.cc


def resize(name, shape, scales=None, sizes=None, opset=19, **attrs):
    given = None if scales is None else np.asarray(scales, np.float32)
    wanted = None if sizes is None else np.asarray(sizes, np.int64)
    inputs = (None, given) if wanted is None else (None, None, wanted)
    return case(name, "Resize", shape, *inputs, opset=opset, **attrs)


MODES = ("half_pixel", "asymmetric", "pytorch_half_pixel", "align_corners", "half_pixel_symmetric")

CASES = [
    resize("nearest x2", (1, 5, 3, 4), [1, 1, 2, 2]),
    resize("nearest down", (1, 2, 7, 5), sizes=[1, 2, 3, 4], nearest_mode="floor"),
    resize("linear x2", (1, 4, 3, 5), [1, 1, 2, 2], mode="linear"),
    resize("linear, rows only", (1, 3, 4, 2), [1, 1, 3, 1], mode="linear"),
    resize("linear, one pixel", (1, 3, 1, 1), [1, 1, 4, 5], mode="linear"),
    resize("linear, 1-D", (1, 3, 6), [1, 1, 1.7], mode="linear"),
    resize("align_corners", (1, 3, 5, 4), sizes=[1, 3, 9, 7], mode="linear",
           coordinate_transformation_mode="align_corners"),
    resize("antialias", (1, 2, 9, 8), sizes=[1, 2, 4, 3], mode="linear", antialias=1),
    case("Upsample", "Upsample", (1, 3, 2, 3), np.array([1, 1, 2, 3], np.float32), opset=9, mode="linear"),
    resize("nearest x2, a vector and 7 channels", (1, 23, 2, 3), [1, 1, 2, 2]),
    resize("nearest x2 and x3", (1, 33, 2, 2), [1, 1, 2, 3]),
    resize("linear x2 of one column", (1, 6, 3, 1), [1, 1, 2, 2], mode="linear"),
    resize("linear x2, columns only", (1, 8, 3, 2), [1, 1, 1, 2], mode="linear"),
    resize("linear x4, x8", (1, 9, 2, 3), [1, 1, 4, 8], mode="linear"),
    resize("linear x8 and x2, other places", (1, 5, 2, 3), [1, 1, 8, 2], mode="linear",
           coordinate_transformation_mode="asymmetric"),
    resize("cubic x2", (1, 3, 4, 5), [1, 1, 2, 2], mode="cubic"),
    resize("cubic, two rows and columns", (1, 9, 2, 2), sizes=[1, 9, 5, 3], mode="cubic"),
    resize("cubic down", (1, 5, 9, 7), sizes=[1, 5, 4, 5], mode="cubic", antialias=1, cubic_coeff_a=-0.5),
    resize("cubic, rows only, exclude_outside", (1, 3, 6, 4), [1, 1, 1.7, 1], mode="cubic", exclude_outside=1),
]  # fmt: skip

SMALL = (
    resize("Resize linear", (1, 2, 2, 2), [1, 1, 2, 2], mode="linear"),
    resize("Resize nearest", (1, 2, 2, 2), [1, 1, 2, 2]),
)


def random_case(chance):
    shape = (1, chance.choice((1, 3, 8, 33)), chance.choice((1, 2, 5)), chance.choice((1, 4, 7)))
    doubled = [*shape[:2], 2 * shape[2], 2 * shape[3]]
    sizes = chance.choice((doubled, [*shape[:2], chance.choice((1, 3, 8)), chance.choice((2, 9))]))
    return resize("node", shape, sizes=sizes, mode=chance.choice(("nearest", "linear", "cubic")))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_int8(case):
    check_op(case)


@pytest.mark.parametrize("dtype", ["int16", "float32"])
@pytest.mark.parametrize("case", [CASES[0], CASES[2], CASES[6], CASES[15]], ids=str)
def test_other_types(case, dtype):
    check_op(case, settings={"dtype": dtype})


@pytest.mark.parametrize(
    ("attrs", "mode"),
    [
        *(({"coordinate_transformation_mode": m}, "linear") for m in MODES),
        *(({"antialias": 1, "coordinate_transformation_mode": m}, "linear") for m in MODES[:2]),
        ({"antialias": 1, "exclude_outside": 1}, "linear"),
        *(({"coordinate_transformation_mode": m}, "cubic") for m in MODES[:4]),
        ({"exclude_outside": 1, "cubic_coeff_a": -0.5}, "cubic"),
        ({"antialias": 1}, "cubic"),
        *(
            ({"coordinate_transformation_mode": m, "nearest_mode": r}, "nearest")
            for m, r in itertools.product(MODES[:4], ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil"))
        ),
    ],
    ids=str,
)
def test_tables_are_those_of_onnxruntime(attrs, mode):
    """The float reference of the tables against onnxruntime, without a compiler. Nearest with half_pixel_symmetric is left out:
    onnxruntime rounds its places to float32, and so takes another element where a place is a whole number.
    """
    import onnxruntime

    for shape, target in (((5, 4), (8, 9)), ((7, 6), (3, 4)), ((2, 9), (6, 5))):
        one = resize("x", (1, 2, *shape), sizes=[1, 2, *target], mode=mode, **attrs)
        model = one_node_model(one)
        graph = build(model)
        x = np.random.default_rng(1).normal(size=(1, 2, *shape)).astype(np.float32)
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        wanted = session.run(None, {session.get_inputs()[0].name: x})[0]
        node = next(n for n in graph.nodes if n.op in ("Resize", "CubicResize"))
        found = Resize().float_ref(node.attrs, [x.transpose(0, 2, 3, 1)])[0].transpose(0, 3, 1, 2)
        np.testing.assert_allclose(found, wanted, atol=1e-5 if mode == "cubic" else 2e-6)


@pytest.mark.parametrize(
    "refused",
    [
        resize("cubic with large weights", (1, 2, 4, 4), [1, 1, 2, 2], mode="cubic", cubic_coeff_a=-9.0),
        resize("channels", (1, 2, 4, 4), [1, 2, 2, 2]),
        resize("3-D", (1, 2, 2, 4, 4), [1, 1, 2, 2, 2]),
        resize("batch of two", (2, 2, 4, 4), [1, 1, 2, 2]),
    ],
    ids=str,
)
def test_other_forms_are_left_to_the_generated_one(refused):
    with pytest.raises(Refused) as refusal:
        build(one_node_model(refused))
    assert refusal.value.hint == GENERATED


@pytest.mark.parametrize("dtype", sorted(BITS))
def test_weights_sum_to_a_power_of_two(dtype):
    exact = Axis(((0, 1), (1, 2)), ((0.25, 0.75), (0.75, 0.25)))
    assert exact.integers(BITS[dtype])[0] == 2
    assert Axis(((0,), (1,)), ((1.0,), (1.0,))).integers(BITS[dtype])[0] == 0
    bits, weights = Axis(((0, 1, 2),), ((1 / 3, 1 / 3, 1 / 3),)).integers(BITS[dtype])
    assert bits == BITS[dtype]
    assert weights.sum() == 2**bits
    assert np.abs(weights - 2**bits / 3).max() < 2


def test_an_axis_is_read_in_order():
    """The planner keeps rows from the first to the last that is read."""
    node = next(n for n in build(one_node_model(CASES[7])).nodes if n.op == "Resize")
    assert all(list(at) == sorted(at) for at in (*node.attrs["rows"].at, *node.attrs["columns"].at))
