"""Loops whose length data decides, against onnxruntime; C runs in memory that is not zero."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import three_ways
from onnx import TensorProto, helper, numpy_helper

from glowembed.errors import UnsupportedModelError
from glowembed.options.table import CompileOptions
from glowembed.pipeline import compile_model
from glowembed.reference import run_int
from glowembed.run import host


def constant(name: str, array: Any) -> onnx.NodeProto:
    return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(np.asarray(array), name))


def info(name: str, dtype: str, shape: list[int]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)


def sums(most: int, limit: float) -> onnx.ModelProto:
    """Running sums of the elements of a table, until a sum reaches a limit; the step cuts out its element by number."""
    body = helper.make_graph(
        [
            constant("table", np.arange(1, most + 1, dtype=np.float32)),
            constant("one", np.int64(1)),
            constant("limit", np.float32([limit])),
            constant("axes", np.int64([0])),
            helper.make_node("Add", ["i", "one"], ["next"]),
            helper.make_node("Unsqueeze", ["i", "axes"], ["start"]),
            helper.make_node("Unsqueeze", ["next", "axes"], ["end"]),
            helper.make_node("Slice", ["table", "start", "end"], ["element"]),
            helper.make_node("Add", ["sum_in", "element"], ["sum"]),
            helper.make_node("Less", ["sum", "limit"], ["less"]),
            helper.make_node("Squeeze", ["less", "axes"], ["goes_on"]),
            helper.make_node("Identity", ["sum"], ["each"]),
        ],
        "body",
        [info("i", "int64", []), info("goes_on_in", "bool", []), info("sum_in", "float32", [1])],
        [info("goes_on", "bool", []), info("sum", "float32", [1]), info("each", "float32", [1])],
    )
    loop = helper.make_node("Loop", ["steps", "goes", "x"], ["last", "sums"], body=body)
    inputs = [info("steps", "int64", []), info("goes", "bool", []), info("x", "float32", [1])]
    outputs = [info("last", "float32", [1]), info("sums", "float32", [most, 1])]
    graph = helper.make_graph([loop], "g", inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=three_ways.IR_VERSION)


CASES = {
    "as many as declared": (5, 100.0, [0.5, 1.5, 3.5, 6.5, 10.5, 15.5][1:]),
    "fewer by the trip count": (3, 100.0, [1.5, 3.5, 6.5, 0, 0]),
    "fewer by the condition": (5, 6.0, [1.5, 3.5, 6.5, 0, 0]),
    "none": (0, 100.0, [0, 0, 0, 0, 0]),
}


@pytest.mark.parametrize("name", CASES)
def test_steps_that_are_not_made_leave_zeros(name: str, tmp_path: Path) -> None:
    """onnxruntime gives fewer rows for such a loop."""
    steps, limit, expected = CASES[name]
    onnx.save(sums(5, limit), tmp_path / "m.onnx")
    feeds = {"steps": np.int64(steps), "goes": np.array(True), "x": np.float32([0.5])}
    bundle = compile_model(
        tmp_path / "m.onnx", tmp_path / "b", CompileOptions(target="x86-64", isa="portable", dtype="model")
    )
    reference, c = run_int(bundle.graph, feeds), host.load(tmp_path / "b").run_stored(feeds)
    for output in ("last", "sums"):
        assert np.asarray(reference[output]).tobytes() == c[output].tobytes()
    np.testing.assert_array_equal(c["sums"], np.float32(expected).reshape(5, 1))
    assert c["last"] == max([0.5, *expected])


@pytest.mark.parametrize(
    ("count", "words"),
    [(10**6 + 1, "trip count is 1000001 (loops have at most 1,000,000"), (None, "a loop without a bound")],
)
def test_a_loop_that_is_too_long_is_not_said_to_have_no_bound(count: int | None, words: str, tmp_path: Path) -> None:
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["goes"]), helper.make_node("Neg", ["v"], ["w"])],
        "body",
        [info("i", "int64", []), info("go", "bool", []), info("v", "float32", [1])],
        [info("goes", "bool", []), info("w", "float32", [1])],
    )
    given = {} if count is None else {"n": np.array(count)}
    loop = helper.make_node("Loop", ["n" if given else "", "", "x"], ["y"], body=body)
    model = three_ways.network([loop], {"x": np.ones(1, np.float32)}, {"y": ("float32", (1,))}, {"": 21}, given)
    onnx.save(model, tmp_path / "m.onnx")
    with pytest.raises(UnsupportedModelError, match=re.escape(words)):
        compile_model(tmp_path / "m.onnx", tmp_path / "b", CompileOptions(target="x86-64", dtype="model"))


def test_a_loop_is_that_of_onnxruntime(tmp_path: Path) -> None:
    model = sums(5, 100.0)
    feeds = {"steps": np.array(5), "goes": np.array(True), "x": np.float32([0.5])}
    for theirs, reference, c in three_ways.run(model, feeds, tmp_path).values():
        np.testing.assert_array_equal(reference, theirs)
        np.testing.assert_array_equal(c, theirs)


@pytest.mark.parametrize("ir_version", [3, 4, 10])
def test_constants_of_old_files_are_folded(ir_version: int, tmp_path: Path) -> None:
    """Before version 4, the inference of shapes ignored initializers that are no inputs."""
    weights = np.arange(80, dtype=np.float32).reshape(8, 10) / 80
    nodes = [helper.make_node("Transpose", ["w"], ["t"], perm=[1, 0]), helper.make_node("MatMul", ["x", "t"], ["y"])]
    x = np.ones((4, 10), np.float32)
    model = three_ways.network(nodes, {"x": x}, {"y": ("float32", (4, 8))}, {"": 6}, {"w": weights})
    model.ir_version = ir_version
    if ir_version < 4:
        model.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, (8, 10)))
    onnx.save(model, tmp_path / "m.onnx")
    bundle = compile_model(
        tmp_path / "m.onnx", tmp_path / "b", CompileOptions(target="x86-64", isa="portable", dtype="model")
    )
    np.testing.assert_allclose(run_int(bundle.graph, {"x": x})["y"], x @ weights.T, rtol=1e-6)
