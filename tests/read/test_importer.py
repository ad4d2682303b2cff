"""The importer: the models that it accepts, the graphs that it makes, and those that it refuses."""

from __future__ import annotations

import hashlib
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import pytest
from bad_models import BAD, Bad
from onnx import TensorProto, helper, numpy_helper
from small_models import canonical, model, node, saved, sequence, weights

from glowembed.errors import UnsupportedModelError, UsageError
from glowembed.graph.ir import verify
from glowembed.read import importer
from glowembed.read.onnxfile import OPSETS
from glowembed.reference import run_float

IMAGE = {"x": (1, 3, 8, 8)}
FLAT = {"x": (1, 8)}
CONV = node("Conv", "x w", "c")


@pytest.mark.parametrize("bad", BAD, ids=str)
def test_bad_models_are_refused_with_a_reason(bad: Bad, tmp_path: Path) -> None:
    path = bad.write(tmp_path)
    with pytest.raises(bad.error) as caught:
        importer.load(path, bad.shapes)
    assert type(caught.value) is bad.error
    for word in bad.words:
        assert word in str(caught.value), str(caught.value)


def test_problems_names_every_node_and_what_to_do(tmp_path: Path) -> None:
    proto = model(
        [node("RandomNormalLike", "x", "a"), node("RandomUniformLike", "x", "b"), node("Bernoulli", "a", "y")],
        FLAT, outputs=["y", "b"],
    )  # fmt: skip
    found = importer.problems(saved(proto, tmp_path))
    assert [(p.node, p.op) for p in found] == [
        ("n_a", "RandomNormalLike"),
        ("n_b", "RandomUniformLike"),
        ("n_y", "Bernoulli"),
    ]


def test_problems_go_on_behind_a_node_that_is_not_supported(tmp_path: Path) -> None:
    """The shape after the first node is known to onnx, so that the Conv after it is checked too."""
    proto = model(
        [node("RandomNormalLike", "x", "a"), node("Conv", "a w", "y", dilations=[2**31, 1])],
        IMAGE,
        {"w": weights(2, 5, 3, 3)},
    )
    assert [p.op for p in importer.problems(saved(proto, tmp_path))] == ["RandomNormalLike", "Conv"]


def test_a_node_that_leads_nowhere_is_no_problem(tmp_path: Path) -> None:
    proto = model([node("RandomNormalLike", "x", "a"), node("Relu", "x", "y")], FLAT)
    assert importer.problems(saved(proto, tmp_path)) == []


def test_describe_tells_opset_producer_and_hash(tmp_path: Path) -> None:
    path = saved(model([node("Mul", "x w", "y")], FLAT, {"w": weights(8).astype(np.float16)}, opset=13), tmp_path)
    info = importer.describe(path)
    assert (info.opset, info.producer) == (13, "test")
    assert info.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert info.notes == ("'w' is float16 and is used as float32",)


def test_the_graph_carries_the_hash(tmp_path: Path) -> None:
    path = saved(model([node("Relu", "x", "y")], FLAT), tmp_path)
    assert importer.load(path).model_sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


# name, nodes, constants, opset, the ops that are left
FOLDED = (
    ("initializers", [node("Add", "a b", "w"), node("Mul", "x w", "y")], {"a": weights(8), "b": 1.5}, 17, "Affine"),
    ("Constant nodes", [node("Constant", "", "w", value_floats=[1.0] * 7 + [2.0]), node("Mul", "x w", "y")], {}, 17, "Affine"),
    ("Constant scalar", [node("Constant", "", "w", value_float=2.0), node("Mul", "x w", "y")], {}, 13, "Affine"),
    ("Shape", [node("Shape", "x", "s"), node("Reshape", "x s", "r"), node("Tanh", "r", "y")], {}, 17, "Tanh"),
    ("Shape with start", [node("Shape", "x", "s", start=1), node("Reshape", "x s", "r"), node("Tanh", "r", "y")], {}, 17, "Reshape Tanh"),
    ("Size", [node("Size", "x", "s"), node("Unsqueeze", "s a", "t"), node("Reshape", "x t", "y")], {"a": [0]}, 17, "Reshape"),
    ("DequantizeLinear", [node("DequantizeLinear", "q s z", "w"), node("Mul", "x w", "y")],
     {"q": np.arange(8, dtype=np.int8), "s": 0.5, "z": np.int8(3)}, 13, "Affine"),
    ("a shape computed from parts",
     [node("Shape", "x", "s"), node("Gather", "s i", "n"), node("Unsqueeze", "n a", "u"), node("Concat", "u m", "t", axis=0),
      node("Reshape", "x t", "y")], {"i": 0, "a": [0], "m": [-1, 2]}, 13, "Reshape"),
    ("ConstantOfShape", [node("ConstantOfShape", "s", "w", value=numpy_helper.from_array(np.array([3.0], np.float32))),
                         node("Mul", "x w", "y")], {"s": [8]}, 17, "Affine"),
    ("If the branch does not matter: Where", [node("Where", "c a b", "w"), node("Add", "x w", "y")],
     {"c": np.bool_(True), "a": weights(8), "b": 0.0}, 17, "Affine"),
)  # fmt: skip


@pytest.mark.parametrize(("name", "nodes", "constants", "opset", "ops"), FOLDED, ids=[f[0] for f in FOLDED])
def test_constant_subgraphs_fold(name: str, nodes: list, constants: dict, opset: int, ops: str, tmp_path: Path) -> None:
    graph = canonical(model(nodes, FLAT, constants, opset=opset), tmp_path)
    assert sequence(graph) == ops


@pytest.mark.parametrize(("number", "step"), [(np.inf, 127), (-np.inf, -128), (1e30, 127), (-1e30, -128)])
@pytest.mark.parametrize("shape", [(), (1,)])
def test_constants_saturate_when_they_are_quantized(
    number: float, step: int, shape: tuple[int, ...], tmp_path: Path
) -> None:
    """ONNX: QuantizeLinear saturates."""
    nodes = [node("QuantizeLinear", "c s z", "q"), node("DequantizeLinear", "q s z", "d"), node("Add", "x d", "y")]
    constants = {"c": np.full(shape, number, np.float32), "s": np.float32(0.5), "z": np.int8(0)}
    graph = canonical(model(nodes, FLAT, constants), tmp_path)
    zeros = np.zeros(graph.values["x"].shape, np.float32)
    assert (run_float(graph, {"x": zeros})["y"] == 0.5 * step).all()


# name, nodes, opset: an operator that passes its input through is removed, and the output keeps its name
PASSING = (
    ("Identity", [node("Identity", "t", "y")], 17),
    ("a chain", [node("Identity", "t", "u"), node("Identity", "u", "y")], 17),
    ("Dropout", [node("Dropout", "t", "y")], 17),
    ("Dropout with ratio", [node("Dropout", "t r", "y")], 13),
    ("Dropout with ratio and mode", [node("Dropout", "t r m", "y")], 13),
    ("Dropout of old", [node("Dropout", "t", "y", ratio=0.25)], 7),
    ("Cast", [node("Cast", "t", "y", to=TensorProto.FLOAT)], 17),
)


@pytest.mark.parametrize(("name", "nodes", "opset"), PASSING, ids=[p[0] for p in PASSING])
def test_pass_through_vanishes_and_the_output_keeps_its_name(
    name: str, nodes: list, opset: int, tmp_path: Path
) -> None:
    proto = model([node("Tanh", "x", "t"), *nodes], FLAT, {"r": 0.5, "m": np.bool_(False)}, opset=opset)
    graph = canonical(proto, tmp_path)
    assert sequence(graph) == "Tanh"
    assert graph.outputs == ("y",)


def test_pass_through_in_the_middle_keeps_the_name_of_the_source(tmp_path: Path) -> None:
    graph = canonical(
        model([node("Tanh", "x", "t"), node("Identity", "t", "u"), node("Sigmoid", "u", "y")], FLAT), tmp_path
    )
    assert list(graph.values) == ["x", "t", "y"]


def test_an_input_that_is_an_output_under_another_name_is_copied(tmp_path: Path) -> None:
    graph = canonical(model([node("Identity", "x", "y")], FLAT), tmp_path)
    assert sequence(graph) == "Reshape"


def test_one_value_under_two_output_names(tmp_path: Path) -> None:
    graph = canonical(model([node("Tanh", "x", "t"), node("Identity", "t", "y")], FLAT, outputs=["t", "y"]), tmp_path)
    assert sequence(graph) == "Tanh Reshape"


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_other_floats_become_float32(dtype: type, tmp_path: Path) -> None:
    """Models of constants only: the model computes in float32."""
    cast = node("Cast", "w", "f", to=TensorProto.FLOAT)
    graph = canonical(model([cast, node("Mul", "x f", "y")], FLAT, {"w": weights(8).astype(dtype)}), tmp_path)
    assert sequence(graph) == "Affine"


# name, op, inputs, attrs, constants, opset, shape of the input, shape of the output
SHAPED = (
    ("Reshape keeps and infers", "Reshape", "x s", {}, {"s": [0, -1]}, 17, (1, 4, 6), (1, 24)),
    ("Reshape", "Reshape", "x s", {}, {"s": [2, 2, 6]}, 17, (1, 4, 6), (2, 2, 6)),
    ("Flatten", "Flatten", "x", {}, {}, 17, (1, 4, 6), (1, 24)),
    ("Flatten from the end", "Flatten", "x", {"axis": -1}, {}, 17, (1, 4, 6), (4, 6)),
    ("Flatten at 0", "Flatten", "x", {"axis": 0}, {}, 17, (1, 4, 6), (1, 24)),
    ("Squeeze", "Squeeze", "x a", {}, {"a": [0, -1]}, 17, (1, 4, 1), (4,)),
    ("Squeeze all", "Squeeze", "x", {}, {}, 17, (1, 4, 1), (4,)),
    ("Squeeze of old", "Squeeze", "x", {"axes": [2]}, {}, 11, (1, 4, 1), (1, 4)),
    ("Unsqueeze", "Unsqueeze", "x a", {}, {"a": [1, -1]}, 17, (1, 4), (1, 1, 4, 1)),
    ("Unsqueeze of old", "Unsqueeze", "x", {"axes": [0]}, {}, 11, (1, 4), (1, 1, 4)),
    ("Transpose", "Transpose", "x", {"perm": [0, 2, 1]}, {}, 17, (1, 4, 6), (1, 6, 4)),
    ("Transpose by default", "Transpose", "x", {}, {}, 17, (2, 4, 6), (6, 4, 2)),
)


@pytest.mark.parametrize(
    ("name", "op", "inputs", "attrs", "constants", "opset", "shape", "result"), SHAPED, ids=[s[0] for s in SHAPED]
)
def test_shapes(
    name: str,
    op: str,
    inputs: str,
    attrs: dict,
    constants: dict,
    opset: int,
    shape: tuple,
    result: tuple,
    tmp_path: Path,
) -> None:
    flat = [node("Tanh", "x", "t"), node(op, inputs.replace("x", "t"), "y", **attrs)]
    proto = model(flat, {"x": shape} if shape[0] == 1 else {"flat": (1, 48)}, constants, opset=opset)
    if shape[0] != 1:
        proto.graph.node.insert(0, node("Reshape", "flat full", "x"))
        proto.graph.initializer.append(numpy_helper.from_array(np.array(shape), "full"))
    assert canonical(proto, tmp_path).values["y"].shape == result


@pytest.mark.parametrize("opset", [7, 9, 11, 13, 15, 18, 21, OPSETS[-1]])
def test_opsets(opset: int, tmp_path: Path) -> None:
    nodes = [
        CONV,
        node("Relu", "c", "r"),
        node("GlobalAveragePool", "r", "g"),
        node("Flatten", "g", "f"),
        node("Gemm", "f m b", "y"),
    ]
    constants = {"w": weights(4, 3, 3, 3), "m": weights(4, 2), "b": weights(2)}
    path = saved(model(nodes, IMAGE, constants, opset=opset), tmp_path)
    verify(importer.load(path))


def test_symbolic_batch_is_one(tmp_path: Path) -> None:
    path = saved(model([CONV], {"x": ("batch", 3, 8, 8)}, {"w": weights(4, 3, 3, 3)}, outputs=["c"]), tmp_path)
    assert importer.load(path).values["x"].shape == (1, 3, 8, 8)


def test_shapes_by_option(tmp_path: Path) -> None:
    path = saved(model([CONV], {"x": ("batch", 3, "h", "w")}, {"w": weights(4, 3, 3, 3)}, outputs=["c"]), tmp_path)
    assert importer.load(path, {"x": (1, 3, 10, 12)}).values["c"].shape == (1, 4, 8, 10)


def test_a_batch_in_the_model_can_be_overridden(tmp_path: Path) -> None:
    path = saved(model([CONV], {"x": (4, 3, 8, 8)}, {"w": weights(4, 3, 3, 3)}, outputs=["c"]), tmp_path)
    assert importer.load(path, {"x": (1, 3, 8, 8)}).values["x"].shape == (1, 3, 8, 8)


def test_nodes_out_of_order_are_sorted(tmp_path: Path) -> None:
    proto = model([node("Sigmoid", "t", "y"), node("Tanh", "x", "t")], FLAT)
    graph = importer.load(saved(proto, tmp_path))
    assert sequence(graph) == "Tanh Sigmoid"


def test_initializers_that_are_listed_as_inputs(tmp_path: Path) -> None:
    proto = model([node("Mul", "x w", "y")], {**FLAT, "w": (8,)}, {"w": weights(8)})
    assert importer.load(saved(proto, tmp_path)).inputs == ("x",)


def calls(name: str, called: str, times: int) -> onnx.FunctionProto:
    """A function of one tensor that calls another one several times in a row."""
    values = ["v0", *(f"v{i + 1}" for i in range(times))]
    nodes = [helper.make_node(called, [a], [b], domain="own") for a, b in pairwise(values)]
    return helper.make_function("own", name, [values[0]], [values[-1]], nodes, [helper.make_opsetid("own", 1)])


@pytest.mark.parametrize(
    ("functions", "error", "words"),
    [
        ([calls(f"f{i}", f"f{i + 1}", 2) for i in range(40)], UnsupportedModelError, "more than 1,000,000 nodes"),
        ([calls("f0", "f1", 1), calls("f1", "f0", 1)], UsageError, "cannot be inlined.*f0"),
        ([calls(f"f{i}", f"f{i + 1}", 1) for i in range(3000)], UsageError, "one another too deeply"),
    ],
    ids=["doubling", "recursive", "deep"],
)
def test_functions_without_a_small_expansion_are_refused(
    functions: list[onnx.FunctionProto], error: type[Exception], words: str, tmp_path: Path
) -> None:
    proto = model([helper.make_node("f0", ["x"], ["y"], domain="own")], FLAT)
    proto.functions.extend(functions)
    proto.opset_import.append(helper.make_opsetid("own", 1))
    with pytest.raises(error, match=words):
        importer.load(saved(proto, tmp_path))


def test_functions_are_inlined(tmp_path: Path) -> None:
    body = [helper.make_node("Tanh", ["a"], ["t"]), helper.make_node("Sigmoid", ["t"], ["b"])]
    function = helper.make_function("mine", "Twice", ["a"], ["b"], body, [helper.make_opsetid("", 17)])
    proto = model([helper.make_node("Twice", ["x"], ["y"], domain="mine")], FLAT)
    proto.functions.append(function)
    proto.opset_import.append(helper.make_opsetid("mine", 1))
    assert sequence(importer.load(saved(proto, tmp_path))) == "Tanh Sigmoid"


def test_external_data_inside_the_folder(tmp_path: Path) -> None:
    proto = model([CONV], IMAGE, {"w": weights(4, 3, 3, 3)}, outputs=["c"])
    path = tmp_path / "model.onnx"
    onnx.save(proto, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    graph = importer.load(path)
    const = graph.const("w")
    assert const is not None
    np.testing.assert_array_equal(const.materialize(), weights(4, 3, 3, 3))
    first = graph.model_sha256
    data = bytearray((tmp_path / "weights.bin").read_bytes())
    data[2] ^= 1
    (tmp_path / "weights.bin").write_bytes(data)
    assert importer.load(path).model_sha256 != first, "the hash must cover the external data"


HOSTILE = (
    'a"b',
    "*/ int x; /*",
    "line\nbreak",
    "\u00fcml\u00e4ut \u6f22\u5b57",
    "int",
    "x/channels_last",
    "c/channels_last",
    "%s%n",
    "\\",
    "??/",
    "c'",
)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_stay_as_they_are(name: str, tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name=name),
        helper.make_node("Sigmoid", ["c"], [name], name=name),
        helper.make_node("MaxPool", [name], ["y"], name=name, kernel_shape=[2, 2]),
    ]
    graph = canonical(model(nodes, IMAGE, {"w": weights(4, 3, 3, 3)}), tmp_path, twice=False)
    assert name in graph.values
    assert len({n.name for n in graph.nodes}) == len(graph.nodes)
    assert all(name in n.origins or n.op == "Transpose" for n in graph.nodes)


def test_names_of_nodes_are_those_of_the_model(tmp_path: Path) -> None:
    nodes = [helper.make_node("Tanh", ["x"], ["t"]), helper.make_node("Sigmoid", ["t"], ["y"], name="last")]
    assert [n.name for n in importer.load(saved(model(nodes, FLAT), tmp_path)).nodes] == ["t", "last"]


def test_an_unknown_input_layout_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"input layout 'nhcw'.*nhwc"):
        importer.load(saved(model([node("Relu", "x", "y")], FLAT), tmp_path), input_layout="nhcw")


def test_unused_initializers_are_not_read(tmp_path: Path) -> None:
    """A NaN in an initializer that no node reads is no error."""
    proto = model([node("Relu", "x", "y")], FLAT, {"w": np.full(8, np.nan, np.float32)})
    importer.load(saved(proto, tmp_path))


@pytest.mark.parametrize("attrs", [{}, {"is_causal": 1, "scale": 1.0}], ids=["scale", "mask of infinities"])
def test_integers_where_an_operator_computes_with_fractions(attrs: dict[str, object], tmp_path: Path) -> None:
    """ONNX has Attention for floats alone; as integers, its scale would be 0 and its mask any number."""
    made = model([node("Attention", "x x x", "y", **attrs)], {"x": (1, 2, 3, 4)}, opset=23)
    for value in (*made.graph.input, *made.graph.output):
        value.type.tensor_type.elem_type = onnx.TensorProto.INT8
    with pytest.raises(
        UnsupportedModelError, match=r"Attention 'n_y': it computes with fractions, and its inputs are int8"
    ):
        importer.load(saved(made, tmp_path))


def test_floats_of_a_quantized_network_count_as_one_type(tmp_path: Path) -> None:
    """Constants of bfloat16 are float32 in such a network, beside inputs that keep their type."""
    made = model([node("Mod", "x c", "y", fmod=1)], {"x": (1, 4)})
    made.graph.initializer.append(helper.make_tensor("c", TensorProto.BFLOAT16, (1,), [3.0]))
    for value in (*made.graph.input, *made.graph.output):
        value.type.tensor_type.elem_type = TensorProto.BFLOAT16
    assert importer.load(saved(made, tmp_path)).outputs == ("y",)
