"""Quantized models that are refused, with errors that name the node; and quantization of other types, which is computed as the model has it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper
from onnx.reference import ReferenceEvaluator
from quantized_forms import CONV, FLAT, IMAGE, SCALES, WEIGHTS, int8, qdq
from small_models import model, node, saved

from glowembed.canonicalize import canonicalize
from glowembed.errors import GlowembedError, UnsupportedModelError
from glowembed.nest.dtypes import numpy_type
from glowembed.read.importer import load
from glowembed.reference import run_float

BAD = [
    ("inconsistent types", [*qdq(node("Tanh", "xd", "r"))[:1], node("DequantizeLinear", "xq t z", "xd"), *qdq(node("Tanh", "xd", "r"))[2:]],
     {}, ("DequantizeLinear 'n_xd'", "inconsistent", "'xq'", "0.02", "0.05")),
    ("inconsistent zero points", [*qdq(node("Tanh", "xd", "r"))[:1], node("DequantizeLinear", "xq s o", "xd"), *qdq(node("Tanh", "xd", "r"))[2:]],
     {}, ("DequantizeLinear 'n_xd'", "inconsistent", "'xq'", "zero point 3", "-10")),
    ("a scale of NaN", qdq(node("Tanh", "xd", "r")), {"s": np.float32("nan")}, ("NaN", "'s'")),
    ("no scale at all", [*qdq(node("Tanh", "xd", "r"))[:1], helper.make_node("DequantizeLinear", ["xq", "", "z"], ["xd"], name="n_xd"),
     *qdq(node("Tanh", "xd", "r"))[2:]], {}, ("DequantizeLinear 'n_xd'", "no scale", "quantize the model again")),
    ("a scale that nothing makes", [*qdq(node("Tanh", "xd", "r"))[:1], node("DequantizeLinear", "xq nowhere z", "xd"), *qdq(node("Tanh", "xd", "r"))[2:]],
     {}, ("'n_xd'", "'nowhere'")),
    ("another number of zero points", qdq(node("DequantizeLinear", "w v k", "wd", axis=1), node("MatMul", "xd wd", "r")),
     {"w": int8(12, 5), "v": np.ones(5, np.float32), "k": np.zeros(4, np.int8)}, ("'n_wd'", "5 scales and 4 zero points")),
    ("weights of more than 8 bits", qdq(node("DequantizeLinear", "w v", "wd"), node("MatMul", "xd wd", "r")),
     {"w": np.arange(60, dtype=np.int32).reshape(12, 5) * 100, "v": np.float32(1)}, ("Gemm 'n_r'", "'wd", "from 0 to 5900", "8 bits")),
    ("integers of different scales are joined", [node("QuantizeLinear", "x s z", "a"), node("QuantizeLinear", "x t z", "b"),
     node("Concat", "a b", "c", axis=1), node("DequantizeLinear", "c s z", "y")], {}, ("Concat 'n_c'", "different")),
    ("zero point of another type", [*qdq(node("Tanh", "xd", "r"))[:1], node("DequantizeLinear", "xq s uz", "xd"), *qdq(node("Tanh", "xd", "r"))[2:]],
     {"uz": np.uint8(3)}, ("'n_xd'", "'uz'", "uint8", "int8")),
    ("scale of another type", qdq(node("Tanh", "xd", "r")), {"s": np.float16(0.05)}, ("QuantizeLinear 'n_xq'", "scale 's' is float16", "float32")),
    ("weights whose zero point is of another type", qdq(node("DequantizeLinear", "w s uz", "wd"), node("MatMul", "xd wd", "r")),
     {"w": int8(12, 5), "uz": np.uint8(3)}, ("DequantizeLinear 'n_wd'", "zero point 'uz' is uint8", "int8")),
    ("a bias whose zero point is of another type", qdq(node("DequantizeLinear", "w s z", "wd"), node("DequantizeLinear", "b s z", "bd"),
     node("Gemm", "xd wd bd", "r")), {"w": int8(12, 5), "b": np.ones(5, np.int32)}, ("DequantizeLinear 'n_bd'", "zero point 'z' is int8", "int32")),
    ("a bias of few bits", [node("QuantizeLinear", "x s z", "xq"), node("QLinearConv", "xq s z w s z s z b", "yq"),
     node("DequantizeLinear", "yq s z", "y")], {"w": int8(5, 12, 1), "b": int8(5)}, ("QLinearConv 'n_yq'", "bias 'b' is int8", "int32")),
    ("a QuantizeLinear without parameters", [helper.make_node("QuantizeLinear", ["x"], ["xq"], name="n_xq"), node("DequantizeLinear", "xq s z", "y")],
     {}, ("QuantizeLinear 'n_xq'", "no scale")),
    ("an operator without its last parameters", [node("QuantizeLinear", "x s z", "xq"), node("QLinearMatMul", "xq s z w s z", "yq"),
     node("DequantizeLinear", "yq s z", "y")], {"w": int8(12, 5)}, ("QLinearMatMul 'n_yq'", "input size 6")),
    ("scale 0", qdq(node("Tanh", "xd", "r")), {"s": 0.0}, ("'n_xq'", "scale 's' is 0.0", "above 0")),
    ("scale below 0", qdq(node("Tanh", "xd", "r")), {"s": -1.0}, ("'n_xq'", "scale 's' is -1.0")),
    ("computing with integers", [node("QuantizeLinear", "x s z", "xq"), node("Abs", "xq", "a"), node("DequantizeLinear", "a s z", "y")],
     {}, ("Abs 'n_a'", "integer tensor 'xq'", "DequantizeLinear")),
    ("resizing integers with numbers from outside", [node("Reshape", "x image", "i"), node("QuantizeLinear", "i s z", "xq"),
     node("Resize", "xq none scales", "r", mode="linear", coordinate_transformation_mode="tf_crop_and_resize"), node("DequantizeLinear", "r s z", "y")],
     {"image": [1, 1, 3, 4], "none": np.zeros(0, np.float32), "scales": np.array([1, 1, 2, 2], np.float32)},
     ("Resize 'n_r'", "tf_crop_and_resize")),
    ("no integers", [node("DequantizeLinear", "x s z", "y")], {}, ("DequantizeLinear 'n_y'", "holds no integers")),
    ("scales that do not fit the weights", qdq(node("DequantizeLinear", "w v k", "wd", axis=0), node("MatMul", "xd wd", "r")),
     {"w": int8(12, 5), "v": np.ones(5, np.float32), "k": np.zeros(5, np.int8)}, ("'n_wd'", "5 scales along axis 0", "[12, 5]")),
]  # fmt: skip


def test_a_constant_that_is_resized_to_numbers_between_its_integers_has_no_integers(tmp_path: Path) -> None:
    nodes = qdq(
        node("DequantizeLinear", "k s z", "kd"), node("Resize", "kd none scales", "c", mode="linear"), node("Add", "xd c", "r")
    )  # fmt: skip
    scales = {"none": np.zeros(0, np.float32), "scales": np.array([1, 1, 2, 2], np.float32)}
    proto = model(nodes, {"x": (1, 1, 4, 4)}, {**SCALES, "k": int8(1, 1, 2, 2), **scales})
    constants = [v.const for v in load(saved(proto, tmp_path)).values.values() if v.const is not None]
    assert [const.grid for const in constants if const.materialize().size == 16] == [None]


@pytest.mark.parametrize(("name", "nodes", "constants", "words"), BAD, ids=[b[0] for b in BAD])
def test_bad_model(
    name: str, nodes: list[onnx.NodeProto], constants: Mapping[str, Any], words: tuple[str, ...], tmp_path: Path
) -> None:
    proto = model(nodes, FLAT, {**SCALES, **constants})
    with pytest.raises(GlowembedError) as caught:
        canonicalize(load(saved(proto, tmp_path)))
    for word in words:
        assert word in str(caught.value)
    assert caught.value.exit_code == (2 if name in USAGE else 3)
    assert "operators.md" not in str(caught.value)


USAGE = ("a scale of NaN", "a scale that nothing makes")
"""Models that are invalid; the others are valid, but not supported."""

KINDS = [
    "INT2",
    "UINT2",
    "INT4",
    "UINT4",
    "FLOAT4E2M1",
    "FLOAT8E4M3FN",
    "FLOAT8E5M2",
    "FLOAT8E4M3FNUZ",
]


def zeros(name: str, kind: str, *shape: int) -> TensorProto:
    return helper.make_tensor(name, getattr(TensorProto, kind), shape, [0] * int(np.prod(shape)))


ATTRIBUTES = [
    # output_dtype, zero point, message
    (999, "", "its attribute output_dtype is 999, which is no type of ONNX"),
    (TensorProto.UINT8, "z", "its zero point 'z' is int8, the tensor uint8"),
]


@pytest.mark.parametrize(("code", "zero", "words"), ATTRIBUTES, ids=[words for *_, words in ATTRIBUTES])
def test_an_output_dtype_that_contradicts_the_node_is_named(code: int, zero: str, words: str, tmp_path: Path) -> None:
    nodes = [
        node("QuantizeLinear", f"x s {zero}", "xq", output_dtype=code),
        node("DequantizeLinear", f"xq s {zero}", "y"),
    ]
    proto = model(nodes, FLAT, {k: v for k, v in SCALES.items() if k in ("s", zero)}, opset=23)
    with pytest.raises(UnsupportedModelError) as caught:
        load(saved(proto, tmp_path))
    assert f"QuantizeLinear 'n_xq': {words}" in str(caught.value)


def _of_other_type(kind: str, role: str) -> ModelProto:
    if role == "activation":
        proto = model(qdq(node("Tanh", "xd", "r")), FLAT, {k: v for k, v in SCALES.items() if k != "z"}, opset=25)
        proto.graph.initializer.append(zeros("z", kind))
    elif role == "weights":
        rest = {k: v for k, v in CONV.items() if k not in ("w", "wz")}
        proto = model(qdq(*WEIGHTS, node("Conv", "xd wd bd", "r")), IMAGE, SCALES | rest, opset=25)
        ones = helper.make_tensor("w", getattr(TensorProto, kind), (4, 3, 3, 3), [1] * 108)
        proto.graph.initializer.extend([ones, zeros("wz", kind)])
    else:
        proto = model([node("DequantizeLinear", "x s", "xd"), node("Tanh", "xd", "y")], FLAT, SCALES, opset=25)
        proto.graph.input[0].type.tensor_type.elem_type = getattr(TensorProto, kind)
    return proto


OTHERS: dict[str, ModelProto] = {
    **{f"{kind} {role}": _of_other_type(kind, role) for kind in KINDS for role in ("activation", "weights", "input")},
    "a scale for each channel of an activation": model(
        qdq(node("Tanh", "xd", "r")), FLAT, {**SCALES, "s": np.linspace(0.1, 0.2, 12, dtype=np.float32), "z": np.zeros(12, np.int8)},
        opset=25,
    ),
    "a scale that is computed": model(
        [node("ReduceMax", "x", "m", keepdims=0), node("QuantizeLinear", "x m z", "xq"), node("DequantizeLinear", "xq m z", "y")],
        FLAT, SCALES, opset=25,
    ),
}  # fmt: skip
"""Quantization that has no integer form here."""


@pytest.mark.parametrize("case", OTHERS)
def test_other_quantization_is_computed_as_the_model_has_it(case: str, tmp_path: Path) -> None:
    """The numbers are those of ONNX's own reference within a step of the output, since the float reference omits
    roundings to 8 bits; the report states which node has no kernel.
    """
    graph = load(saved(OTHERS[case], tmp_path))
    (x,) = (graph.values[name] for name in graph.inputs)
    stored = np.abs(np.random.default_rng(5).normal(size=x.shape)).astype(np.float32)
    onnx_type = helper.tensor_dtype_to_np_dtype(OTHERS[case].graph.input[0].type.tensor_type.elem_type)
    given = np.rint(stored).astype(onnx_type) if case.endswith("input") else stored
    (wanted,) = ReferenceEvaluator(OTHERS[case]).run(None, {x.name: given})
    found = run_float(graph, {x.name: given.astype(numpy_type(x.dtype))})[graph.outputs[0]]
    assert graph.generated or case.endswith("weights")
    np.testing.assert_allclose(found, wanted, rtol=0, atol=SCALES["t"])
