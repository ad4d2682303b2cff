"""Functions that models write out become one op; values agree with onnxruntime, and bundles with the reference, in every dtype."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from small_models import canonical, model, node, saved, weights

from glowembed.graph.target import load_board
from glowembed.judge.validation import validate
from glowembed.pipeline import CompileOptions, compile_model
from glowembed.quantize.precision import parse

Nodes = list[onnx.NodeProto]

CONSTANTS = {
    "half": 0.5, "one": 1.0, "three": 3.0, "six": 6.0, "root": np.float32(2**0.5), "cubic": np.float32(0.044715),
    "slope": np.float32((2 / np.pi) ** 0.5), "zero": 0.0, "per_channel": weights(3, 1),
}  # fmt: skip

FORMS: dict[str, Nodes] = {
    "x * sigmoid(x)": [node("Sigmoid", "x", "s"), node("Mul", "x s", "y")],
    "sigmoid(x) * x": [node("Sigmoid", "x", "s"), node("Mul", "s x", "y")],
    "x * HardSigmoid(x)": [node("HardSigmoid", "x", "s", alpha=1 / 6, beta=0.5), node("Mul", "x s", "y")],
    "x * clip(x + 3) / 6": [
        node("Add", "x three", "a"), node("Clip", "a zero six", "b"), node("Mul", "x b", "c"), node("Div", "c six", "y"),
    ],
    "x * tanh(softplus(x))": [node("Softplus", "x", "a"), node("Tanh", "a", "b"), node("Mul", "x b", "y")],
    "GELU of erf": [
        node("Div", "x root", "a"), node("Erf", "a", "b"), node("Add", "b one", "c"), node("Mul", "x c", "d"), node("Mul", "d half", "y"),
    ],
    "GELU of tanh": [
        node("Mul", "x x", "a"), node("Mul", "a x", "b"), node("Mul", "b cubic", "c"), node("Add", "x c", "d"),
        node("Mul", "d slope", "e"), node("Tanh", "e", "f"), node("Add", "f one", "g"), node("Mul", "x half", "h"), node("Mul", "h g", "y"),
    ],
    "1 / (1 + exp(x))": [node("Exp", "x", "a"), node("Add", "a one", "b"), node("Reciprocal", "b", "y")],
    "relu(x) - relu(-x)": [
        node("Relu", "x", "a"), node("Neg", "x", "b"), node("Relu", "b", "c"), node("Sub", "a c", "y"),
    ],
}  # fmt: skip

APART: dict[str, Nodes] = {
    "two inputs": [node("Sigmoid", "z", "s"), node("Mul", "x s", "y")],
    "read by others": [node("Sigmoid", "x", "s"), node("Mul", "x s", "a"), node("MatMul", "s w", "b"), node("Add", "a b", "y")],
    "a number for each channel": [node("Mul", "x per_channel", "a"), node("Sigmoid", "a", "s"), node("Mul", "x s", "y")],
    "a square": [node("Mul", "x x", "y")],
}  # fmt: skip


def network(nodes: Nodes) -> onnx.ModelProto:
    inputs = {name: (1, 3, 4) for name in ("x", "z") if any(name in n.input for n in nodes)}
    return model(nodes, inputs, {**CONSTANTS, "w": weights(4, 4)})


@pytest.mark.parametrize("form", FORMS)
def test_one_function(form: str, tmp_path: Path) -> None:
    graph = canonical(network(FORMS[form]), tmp_path)
    assert [n.op for n in graph.nodes] == ["Composed"]
    assert set(graph.nodes[0].origins) >= {n.name for n in FORMS[form]}


@pytest.mark.parametrize("form", APART)
def test_no_function(form: str, tmp_path: Path) -> None:
    graph = canonical(network(APART[form]), tmp_path)
    assert "Composed" not in [n.op for n in graph.nodes]


def test_an_intermediate_output_stays(tmp_path: Path) -> None:
    proto = model(FORMS["x * sigmoid(x)"], {"x": (1, 3, 4)}, outputs=("y", "s"))
    assert [n.op for n in canonical(proto, tmp_path).nodes] == ["Sigmoid", "Mul"]


@pytest.mark.cc
@pytest.mark.parametrize(("dtype", "quality"), [("int8", 38), ("int16", 80), ("float32", 120)])
@pytest.mark.parametrize("form", ["x * HardSigmoid(x)", "GELU of tanh"])
def test_bundles(form: str, dtype: str, quality: float, tmp_path: Path) -> None:
    data = tmp_path / "data.npy"
    np.save(data, np.random.default_rng(3).uniform(-4, 4, (16, 3, 4)).astype(np.float32))
    options = CompileOptions(load_board("host").target, precision=parse({"defaults": {"dtype": dtype}}))
    bundle = compile_model(saved(network(FORMS[form]), tmp_path), tmp_path / "bundle", options, data=data)
    result = validate(bundle, data, "host", 4)
    assert result.bit_exact, result.json["first_difference"]
    assert result.json["outputs"][0]["sqnr_db"] > quality
