"""Operators without handwritten kernels, in a network that is quantized by default: they are computed in float32
between conversions.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from small_models import model, node, saved

from glowembed.errors import UnsupportedModelError
from glowembed.graph.plan import PlanOptions
from glowembed.judge import compare
from glowembed.judge.tune import integer_outputs
from glowembed.judge.validation import samples_for
from glowembed.pipeline import CompileOptions, compile_model
from glowembed.read.importer import load

SHAPE = (1, 6, 4, 8)
Nodes = list[onnx.NodeProto]


OPERATORS: dict[str, Nodes] = {
    "ReduceSum": [node("ReduceSum", "x axes", "y")],
    "ReduceSumSquare": [node("ReduceSumSquare", "x", "y", axes=[-1])],
    "ReduceL1": [node("ReduceL1", "x", "y", axes=[-1])],
    "ReduceL2": [node("ReduceL2", "x", "y", axes=[-1])],
    "ReduceMin": [node("ReduceMin", "x", "y", axes=[-1])],
    "Sum": [node("Relu", "x", "r"), node("Sum", "x r x", "y")],
    "Pow": [node("Pow", "x two", "y")],
    "Div": [node("Abs", "x", "a"), node("Add", "a one", "b"), node("Div", "x b", "y")],
    "Where": [node("Greater", "x zero", "g"), node("Where", "g x two", "y")],
    "ArgMax": [node("ArgMax", "x", "i", axis=-1), node("Cast", "i", "y", to=1)],
    "Resize": [node("Resize", "x _ scales", "y")],
    "CumSum": [node("CumSum", "x axis", "y")],
    "between convolutions": [
        node("Conv", "x w", "c"), node("Softplus", "c", "s"), node("LogSoftmax", "s", "l"), node("Conv", "l w", "y"),
    ],
}  # fmt: skip
CONSTANTS = {
    "ones": np.ones(8, np.float32), "six": np.ones(6, np.float32), "zeros": np.zeros(6, np.float32), "axes": [-1],
    "far": np.linspace(50, 60, 8, dtype=np.float32), "two": 2.0, "one": 1.0, "zero": 0.0, "axis": np.int64(-1), "scales": np.array([1, 2, 2, 2], np.float32),
    "w": np.random.default_rng(1).standard_normal((6, 6, 1, 1)).astype(np.float32),
}  # fmt: skip


def network(nodes: Nodes, folder: Path) -> Path:
    read = {name for one in nodes for name in one.input}
    newer = any(one.op_type in ("RMSNormalization", "GroupNormalization") for one in nodes)
    constants = {n: a for n, a in CONSTANTS.items() if n in read}
    return saved(model(nodes, {"x": SHAPE}, constants, opset=23 if newer else 17), folder)


@pytest.mark.parametrize("op", OPERATORS)
def test_it_is_near_onnxruntime(op: str, tmp_path: Path) -> None:
    """Nothing but the types of the input and of the output costs accuracy: ArgMax may choose a neighbour."""
    path = network(OPERATORS[op], tmp_path)
    x = np.random.default_rng(4).standard_normal((16, *SHAPE[1:])).astype(np.float32)
    np.savez(tmp_path / "d.npz", calib_x=x, test_x=x[::-1])
    bundle = compile_model(path, tmp_path / "bundle", CompileOptions(plan=PlanOptions("greedy")), tmp_path / "d.npz")
    dataset = samples_for(bundle, tmp_path / "d.npz")
    theirs, ours = compare.run_onnxruntime(path, dataset)["y"], integer_outputs(bundle.graph, dataset)["y"]
    assert compare.output_metrics("y", theirs, ours).sqnr_db > (15 if op in ("ArgMax", "Where") else 25)
    assert any(n.op in ("nest", "lut_s8") for n in bundle.graph.nodes), "no node is generated"


@pytest.mark.parametrize(
    ("op", "hint"), [("StringNormalizer", False), ("RandomNormalLike", False), ("Convv", True), ("Reluu", True)]
)
def test_only_a_word_that_is_no_operator_is_taken_for_a_typing_error(op: str, hint: bool, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModelError) as error:
        load(network([node(op, "x", "y")], tmp_path))
    assert ("did you mean" in str(error.value)) is hint
