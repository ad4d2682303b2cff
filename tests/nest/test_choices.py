"""Operators that only move, compare or select numbers do it with stored integers: no node is float32, and the outputs are those
of onnxruntime for the numbers that the stored inputs stand for. Reference and C give the same bits.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto
from small_models import model, node, saved

from glowembed.judge.validation import validate
from glowembed.nest import interpret, retype
from glowembed.nest.expr import Expr, constant, sqrt, where
from glowembed.nest.program import Program, Recorder, Tensor, statements
from glowembed.pipeline import CompileOptions, compile_model, load_bundle
from glowembed.quantize.precision import parse
from glowembed.read.importer import problems
from glowembed.reference import run_int

SHAPE = (1, 4, 6)
CONSTANTS = {
    "back": [5, 0, 3], "places": np.array([[[0, 5, 2]] * 4], np.int64), "point": np.array([[0, 1], [0, 3]], np.int64),
    "times": [1, 2, 3], "wide": [3, 4, 6], "around": [0, 1, 2, 0, 2, 1], "two": np.float32(2.0), "zero": np.float32(0.0),
    "starts": [5], "ends": [-7], "axes": [2], "steps": [-2], "lengths": np.array([3], np.int64), "three": [3],
    "half": np.float32(0.5), "few": np.array([0, 1], np.int64), "updates": np.array([[0.25, -0.5]], np.float32).reshape(1, 2, 1) * np.ones((1, 2, 6), np.float32),
    "sizes": np.array([1, 1, 2], np.float32), "row": np.array([[[1, 2, 3, 0, 1, 2]] * 4], np.int64), "last": [2],
    "table": np.linspace(-1, 2, 24, dtype=np.float32).reshape(6, 4), "spread": np.zeros((1, 4, 6), np.float32),
}  # fmt: skip

MOVES = {
    "Gather": [node("Gather", "x back", "y", axis=2)],
    "GatherElements": [node("GatherElements", "x places", "y", axis=2)],
    "GatherND": [node("GatherND", "x point", "y")],
    "Tile": [node("Tile", "x times", "y")],
    "Expand": [node("Expand", "x wide", "y")],
    "Pad reflect": [node("Pad", "x around", "y", mode="reflect")],
    "Pad edge": [node("Pad", "x around", "y", mode="edge")],
    "Pad with 0.5": [node("Pad", "x around half", "y")],
    "Slice backwards": [node("Slice", "x starts ends axes steps", "y")],
    "ReverseSequence": [node("ReverseSequence", "x lengths", "y", batch_axis=0, time_axis=1)],
    "Trilu": [node("Trilu", "x", "y", upper=0)],
    "ScatterElements": [node("ScatterElements", "spread row x", "y", axis=2)],
    "TopK": [node("TopK", "x three", "y i")],
    "ReduceMax": [node("ReduceMax", "x", "y", axes=[2])],
    "ReduceMin": [node("ReduceMin", "x", "y", axes=[2])],
    "ArgMax": [node("ArgMax", "x", "y", axis=2)],
    "ArgMin, last": [node("ArgMin", "x", "y", axis=1, select_last_index=1)],
    "Where with a limit": [node("Greater", "x zero", "g"), node("Where", "g x zero", "y")],
    "Less": [node("Less", "x zero", "y")],
    "Max with a constant": [node("Max", "x half", "y")],
    "Min with a constant": [node("Min", "half x", "y")],
    "two steps": [node("Tile", "x times", "t"), node("ReduceMax", "t", "y", axes=[1])],
    "embedding": [node("ArgMax", "x", "i", axis=2), node("Gather", "table i", "y")],
}


def quantized(nodes, folder, dtype, inputs=None):
    read = {n for one in nodes for n in one.input}
    inputs = inputs or {"x": SHAPE}
    proto = model(nodes, inputs, {n: a for n, a in CONSTANTS.items() if n in read})
    kinds = {"ArgMax": TensorProto.INT64, "ArgMin": TensorProto.INT64, "Less": TensorProto.BOOL}
    proto.graph.output[0].type.tensor_type.elem_type = kinds.get(nodes[-1].op_type, TensorProto.FLOAT)
    rng = np.random.default_rng(5)
    data = {
        n: rng.uniform(-2, 3, (8, *shape[1:])).astype(np.float32) * (i + 1)
        for i, (n, shape) in enumerate(inputs.items())
    }
    np.savez(folder / "d.npz", **{f"{role}_{n}": a for n, a in data.items() for role in ("calib", "test")})
    options = CompileOptions("generic", precision=parse({"defaults": {"dtype": dtype}}))
    return proto, compile_model(saved(proto, folder), folder / "b", options, data=folder / "d.npz"), data


@pytest.mark.cc
@pytest.mark.parametrize("dtype", ["int8", "int16"])
@pytest.mark.parametrize("op", MOVES)
def test_the_choice_is_that_of_onnxruntime(op: str, dtype: str, tmp_path: Path) -> None:
    proto, bundle, data = quantized(MOVES[op], tmp_path, dtype)
    assert {entry["dtype"] for entry in bundle.manifest["precision"]} <= {dtype, "int64", "bool"}
    graph = load_bundle(tmp_path / "b").graph
    x, y = graph.values["x"], graph.values["y"]
    stored = x.qtype.quantize(data["x"][:1])
    feed = {"x": x.logical(x.qtype.dequantize(stored))}
    (expected,) = onnxruntime.InferenceSession(proto.SerializeToString()).run(["y"], feed)
    found = y.logical(run_int(graph, {"x": stored})["y"])
    real = found if y.qtype is None else y.qtype.dequantize(found)
    np.testing.assert_allclose(
        real.astype(np.float64), expected, atol=0 if y.qtype is None else 0.501 * y.qtype.scale[0]
    )
    assert validate(bundle, tmp_path / "d.npz", "host", 4).bit_exact


TWO = {
    "Where": [node("Greater", "x zero", "g"), node("Where", "g x z", "y")],
    "Max": [node("Max", "x z", "y")],
    "Min": [node("Min", "x z", "y")],
    "ScatterElements": [node("ScatterElements", "x row z", "y", axis=2, reduction="max")],
}


@pytest.mark.cc
@pytest.mark.parametrize("op", TWO)
def test_operands_of_two_ranges_get_one_type(op: str, tmp_path: Path) -> None:
    proto, bundle, data = quantized(TWO[op], tmp_path, "int8", {"x": SHAPE, "z": SHAPE})
    assert {entry["dtype"] for entry in bundle.manifest["precision"]} <= {"int8", "bool"}
    graph = load_bundle(tmp_path / "b").graph
    stored = {n: graph.values[n].qtype.quantize(data[n][:1]) for n in ("x", "z")}
    feed = {n: graph.values[n].qtype.dequantize(a) for n, a in stored.items()}
    (expected,) = onnxruntime.InferenceSession(proto.SerializeToString()).run(["y"], feed)
    y = graph.values["y"].qtype
    np.testing.assert_allclose(y.dequantize(run_int(graph, stored)["y"]), expected, atol=1.01 * y.scale[0])
    assert validate(bundle, tmp_path / "d.npz", "host", 4).bit_exact


FUNCTIONS = {
    "Sin": [node("Sin", "x", "y")],
    "Cos of a sum": [node("Add", "x two", "a"), node("Cos", "a", "y")],
    "Atan": [node("Atan", "x", "y")],
    "Sinh": [node("Sinh", "x", "y")],
    "Pow": [node("Pow", "x two", "y")],
    "two to the power": [node("Pow", "two x", "y")],
    "Shrink": [node("Shrink", "x", "y", bias=0.5, lambd=0.5)],
    "Mod": [node("Mod", "x two", "y", fmod=1)],
}


@pytest.mark.cc
@pytest.mark.parametrize("dtype", ["int8", "int16"])
@pytest.mark.parametrize("op", FUNCTIONS)
def test_a_function_of_one_number_is_a_table(op: str, dtype: str, tmp_path: Path) -> None:
    """In int8 it is rounded once; in int16 it is within a step."""
    proto, bundle, data = quantized(FUNCTIONS[op], tmp_path, dtype)
    assert bundle.graph.nodes[-1].op in {"int8": ("lut_s8",), "int16": ("lut_s16", "pieces_s16")}[dtype]
    graph, last = load_bundle(tmp_path / "b").graph, bundle.graph.nodes[-1].inputs[0]
    stored = graph.values["x"].qtype.quantize(data["x"][:1])
    values = run_int(graph, {"x": stored})
    proto.graph.input[0].name = last
    for one in list(proto.graph.node[:-1]):
        proto.graph.node.remove(one)
    proto.graph.node[0].input[:] = [last if name in ("x", "a") else name for name in proto.graph.node[0].input]
    feed = {last: graph.values[last].qtype.dequantize(values[last])}
    (expected,) = onnxruntime.InferenceSession(proto.SerializeToString()).run(["y"], feed)
    y = graph.values["y"].qtype
    found, limits = y.dequantize(values["y"]), y.range()
    np.testing.assert_allclose(
        found, np.clip(expected, *limits), atol=(0.502 if dtype == "int8" else 1.01) * y.scale[0]
    )
    assert validate(bundle, tmp_path / "d.npz", "host", 4).bit_exact


def test_a_move_between_float32_nodes_is_float32(tmp_path: Path) -> None:
    nodes = [
        node("ReduceProd", "x", "a", axes=[2]), node("Tile", "a times", "b"), node("ReduceProd", "b", "y", axes=[2]),
    ]  # fmt: skip
    _, bundle, _ = quantized(nodes, tmp_path, "int8")
    ops = {entry["op"]: entry["dtype"] for entry in bundle.manifest["precision"]}
    assert ops["Tile"] == ops["ReduceProd"] == "float32"


def test_which_programs_only_choose() -> None:
    def program(value, dtype="float32"):
        k, x, y = Recorder(), Tensor("x0", (4,), dtype), Tensor("y0", (4,), dtype)
        with k.each((4,)) as (i,):
            k.store(y, i, value(x.flat(i)))
        return Program((x,), y, (), tuple(k.body))

    assert retype.chooses(program(lambda x: x))
    assert retype.chooses(program(lambda x: where(x > 1.0, x, 0.5)))
    assert not retype.chooses(program(lambda x: x + x))
    assert not retype.chooses(program(sqrt))
    assert not retype.chooses(program(lambda x: where(x > 0.0, x, float("-inf"))))
    assert not retype.chooses(program(lambda x: x.to("int32").to("float32")))
    assert not retype.chooses(program(lambda x: x, "int32"))


@pytest.mark.cc
def test_nothing_is_chosen_and_then_padded(tmp_path: Path) -> None:
    """A tensor without elements has rows without bytes for the layers around it."""
    constants = {"from": [2], "to": [2], "axis": [2], "pads": [0, 0, 1, 1, 0, 0, 1, 1]}
    nodes = [node("Slice", "x from to axis", "nothing"), node("Pad", "nothing pads", "y")]
    path = saved(model(nodes, {"x": (1, 3, 8, 8)}, constants), tmp_path)
    np.save(tmp_path / "d.npy", np.random.default_rng(0).normal(size=(4, 3, 8, 8)).astype(np.float32))
    bundle = compile_model(path, tmp_path / "b", CompileOptions("generic"), data=tmp_path / "d.npy")
    assert validate(bundle, tmp_path / "d.npy", "host", 4).bit_exact


STORED = {
    "Tile": [node("Tile", "q times", "r")],
    "Pad reflect": [node("Pad", "q around", "r", mode="reflect")],
    "Pad edge": [node("Pad", "q around", "r", mode="edge")],
    "GatherND": [node("GatherND", "q point", "r")],
    "Gather": [node("Gather", "q back", "r", axis=2)],
    "Expand": [node("Expand", "q wide", "r")],
    "ReduceMax": [node("ReduceMax", "q", "r", axes=[2])],
    "two steps": [node("Tile", "q times", "t"), node("Pad", "t around", "r", mode="reflect")],
}


@pytest.mark.cc
@pytest.mark.parametrize("op", STORED)
def test_integers_of_a_quantized_model_are_chosen_as_they_are(op: str, tmp_path: Path) -> None:
    """Between QuantizeLinear and DequantizeLinear, as onnxruntime's quantizer writes it."""
    ends = [node("QuantizeLinear", "x s z", "q"), node("DequantizeLinear", "r s z", "y")]
    nodes = [ends[0], *STORED[op], ends[1]]
    read = {n for one in nodes for n in one.input}
    constants = {**CONSTANTS, "s": np.float32(0.02), "z": np.uint8(120)}
    proto = model(nodes, {"x": SHAPE}, {n: a for n, a in constants.items() if n in read})
    bundle = compile_model(saved(proto, tmp_path), tmp_path / "b", CompileOptions("generic"))
    data = np.random.default_rng(2).uniform(-2, 2, (8, *SHAPE[1:])).astype(np.float32)
    np.savez(tmp_path / "d.npz", test_x=data)
    result = validate(bundle, tmp_path / "d.npz", "host", 8)
    assert result.bit_exact and result.json["outputs"][0]["max_abs"] < 1e-6


def test_a_sum_of_integers_is_refused_once(tmp_path: Path) -> None:
    nodes = [
        node("QuantizeLinear", "x s z", "q"), node("Cast", "q", "c", to=6), node("DequantizeLinear", "c s", "y"),
    ]  # fmt: skip
    path = saved(model(nodes, {"x": SHAPE}, {"s": np.float32(0.02), "z": np.uint8(120)}), tmp_path)
    assert [problem.op for problem in problems(path)] == ["Cast"]


BOUNDS = {
    ("<", -1.0): [False, False],
    (">=", -1.0): [True, True],
    (">", 1.0): [False, False],
    ("<=", 1.0): [True, True],
    ("<", 1.0): [True, False],
    (">=", 1.0): [False, True],
}
"""A comparison with the smallest or the largest number of a type, and what it says of these two."""


@pytest.mark.parametrize("mirrored", [False, True])
@pytest.mark.parametrize(("op", "bound"), BOUNDS)
def test_no_comparison_says_the_same_of_all_stored_integers(op: str, bound: float, mirrored: bool) -> None:
    """A compiler warns of such a comparison; it is decided here."""
    k, x, y = Recorder(), Tensor("x0", (2,), "float32"), Tensor("y0", (2,), "bool")
    with k.each((2,)) as (i,):
        limit = constant(bound, "float32")
        args = [limit, x.flat(i)] if mirrored else [x.flat(i), limit]
        k.store(y, i, Expr(retype.MIRRORED[op] if mirrored else op, args, "bool"))
    program = retype.stored_as(Program((x,), y, (), tuple(k.body)), "int8", lambda real: round(real * 127 - (real < 0)))
    assert np.asarray(interpret.run(program, [np.array([-128, 127], np.int8)])).tolist() == BOUNDS[op, bound]
    (store,) = [s for s in statements(program.body) if s.kind == "store"]
    assert (store.args[2].op == "constant") == (len(set(BOUNDS[op, bound])) == 1)


SHAPED = {
    "a power of more axes": ("Pow", {"c": np.full((1, 1, 1), 2, np.float32)}, {}, 13, (4, 6), (1, 4, 6)),
    "a view of an old opset": ("Unsqueeze", {}, {"axes": [2]}, 6, (4, 6), (4, 6, 1)),
}


@pytest.mark.parametrize("dtype", ["int8", "int16", "float32"])
@pytest.mark.parametrize("name", SHAPED)
def test_a_function_may_give_its_elements_in_another_shape(name: str, dtype: str, tmp_path: Path) -> None:
    op, constants, attrs, opset, shape, expected = SHAPED[name]
    path = saved(
        model([node(op, " ".join(["x", *constants]), "y", **attrs)], {"x": shape}, constants, opset=opset), tmp_path
    )
    np.save(tmp_path / "d.npy", np.random.default_rng(0).normal(size=(4, *shape)).astype(np.float32))
    bundle = compile_model(path, tmp_path / "b", CompileOptions("generic", dtype=dtype), data=tmp_path / "d.npy")
    assert bundle.graph.values["y"].shape == expected
