"""Operators that no suite of ONNX covers as exporters write them: against onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from glowembed.nest import functions, interpret
from glowembed.options.table import CompileOptions
from glowembed.pipeline import compile_model
from glowembed.reference import run_int

RNG = np.random.default_rng(11)

CASES: dict[str, tuple[list[onnx.NodeProto], dict[str, Any]]] = {
    "an If that reads constants around it": (
        [
            helper.make_node("ReduceSum", ["x"], ["t"], keepdims=0),
            helper.make_node("Greater", ["t", "zero"], ["c"]),
            helper.make_node(
                "If", ["c"], ["y"],
                then_branch=helper.make_graph(
                    [helper.make_node("Mul", ["x", "g"], ["a"])], "a", [],
                    [helper.make_tensor_value_info("a", TensorProto.FLOAT, [1, 6, 8])],
                ),
                else_branch=helper.make_graph(
                    [helper.make_node("Sub", ["x", "g"], ["b"])], "b", [],
                    [helper.make_tensor_value_info("b", TensorProto.FLOAT, [1, 6, 8])],
                ),
            ),
        ],
        {"g": (8,)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_operators_of_onnxruntime_and_graphs_inside(name: str, tmp_path: Path) -> None:
    nodes, constants = CASES[name]
    arrays = {n: RNG.standard_normal(shape).astype(np.float32) for n, shape in constants.items()}
    arrays |= {"shape": np.array([6, 8]), "zero": np.float32(0)}
    read = {n for node in nodes for n in node.input} | set(constants)
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 6, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [onnx.numpy_helper.from_array(a, n) for n, a in arrays.items() if n in read],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(path, options)
    graph_of_ours = compile_model(path, tmp_path / "b", CompileOptions(target="x86-64", dtype="model")).graph
    for sign in (1, -1):
        x = sign * np.abs(RNG.standard_normal((1, 6, 8)).astype(np.float32))
        expected = session.run(["y"], {"x": x})[0]
        assert np.allclose(run_int(graph_of_ours, {"x": x})["y"], expected, rtol=1e-4, atol=1e-5)


# function -> the domain, the exact function in extended precision, units in the last place of float64
EXACT: dict[str, tuple[float, float, Any, float]] = {
    "exp": (-700, 700, np.exp, 1.5),
    "expm1": (-30, 30, np.expm1, 2),
    "log": (1e-300, 1e300, np.log, 1),
    "log1p": (-0.99, 1e6, np.log1p, 2.5),
    "sin": (-800, 800, np.sin, 2),
    "cos": (-800, 800, np.cos, 2),
    "tan": (-1.5, 1.5, np.tan, 4),
    "atan": (-1e3, 1e3, np.arctan, 2),
    "asin": (-1, 1, np.arcsin, 3),
    "acos": (-1, 1, np.arccos, 4),
    "sinh": (-40, 40, np.sinh, 3),
    "cosh": (-40, 40, np.cosh, 3),
    "tanh": (-20, 20, np.tanh, 3),
    "asinh": (-1e6, 1e6, np.arcsinh, 3),
    "acosh": (1, 1e6, np.arccosh, 4),
    "atanh": (-0.999, 0.999, np.arctanh, 4),
}


@pytest.mark.parametrize("name", EXACT)
def test_functions_are_near_the_exact_ones(name: str) -> None:
    """Against numpy's 80-bit functions; a float32 is the same, rounded once more."""
    low, high, exact, units = EXACT[name]
    x = RNG.uniform(low, high, 4000)
    if low > 0 and high / low > 1e10:
        x = np.exp(RNG.uniform(np.log(low), np.log(high), 4000))
    with np.errstate(all="ignore"):
        found = interpret.called(name, "float64", [x])
    wanted = exact(x.astype(np.longdouble))
    error = np.abs((found.astype(np.longdouble) - wanted) / np.spacing(np.abs(wanted.astype(np.float64))))
    assert float(np.max(error)) < units


def test_powers_are_exact_where_they_can_be() -> None:
    x, y = np.array([2.0, 3.0, -2.0, 10.0, 0.5, -3.0]), np.array([10.0, 5.0, 3.0, -2.0, 4.0, 4.0])
    assert interpret.called("power", "float64", [x, y]).tolist() == [1024.0, 243.0, -8.0, 0.01, 0.0625, 81.0]
    assert np.isnan(interpret.called("power", "float64", [np.array([-2.0]), np.array([0.5])]))[0]
    assert {"power", "erf"} <= functions.NAMES
