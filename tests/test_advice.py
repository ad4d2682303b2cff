"""What the importer advises for what it does not have keeps what the network computes: the advice is followed, and compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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
from glowembed.read.importer import HINTS, load

SHAPE = (1, 6, 4, 8)
Nodes = list[onnx.NodeProto]


def mean(x: str, y: str, **attrs: Any) -> onnx.NodeProto:
    return node("ReduceMean", x, y, **({"axes": [-1], "keepdims": 1} | attrs))


def over_root(squared: Nodes, x: str) -> Nodes:
    """y = x * Reciprocal(Sqrt(v + epsilon)), of what makes v."""
    root = [node("Add", "v e", "ve"), node("Sqrt", "ve", "s"), node("Reciprocal", "s", "r"), node("Mul", f"{x} r", "y")]
    return [*squared, *root]


def normalized(*axes: int) -> Nodes:
    centered = [
        mean("x", "m", axes=list(axes)),
        node("Sub", "x m", "d"),
        node("Mul", "d d", "q"),
        mean("q", "v", axes=list(axes)),
    ]
    return over_root(centered, "d")


ADVICE: dict[str, tuple[Nodes, Nodes]] = {
    # operator -> (the model with it, the model as advised)
    "LayerNormalization": ([node("LayerNormalization", "x ones", "y", axis=-1)], normalized(-1)),
    "InstanceNormalization": ([node("InstanceNormalization", "x six zeros", "y")], normalized(2, 3)),
    "ReduceSum": ([node("ReduceSum", "x axes", "y")], [mean("x", "m"), node("Mul", "m n", "y")]),
    "ReduceSumSquare": (
        [node("ReduceSumSquare", "x", "y", axes=[-1])],
        [node("Mul", "x x", "q"), mean("q", "m"), node("Mul", "m n", "y")],
    ),
    "ReduceL1": ([node("ReduceL1", "x", "y", axes=[-1])], [node("Abs", "x", "a"), mean("a", "m"), node("Mul", "m n", "y")]),
    "ReduceL2": (
        [node("ReduceL2", "x", "y", axes=[-1])],
        [node("Mul", "x x", "q"), mean("q", "m"), node("Mul", "m n", "p"), node("Sqrt", "p", "y")],
    ),
    "ReduceMin": (
        [node("ReduceMin", "x", "y", axes=[-1])],
        [node("Neg", "x", "a"), node("ReduceMax", "a", "m", axes=[-1], keepdims=1), node("Neg", "m", "y")],
    ),
    "Sum": (
        [node("Relu", "x", "r"), node("Sum", "x r x", "y")],
        [node("Relu", "x", "r"), node("Add", "x r", "a"), node("Add", "a x", "y")],
    ),
    "Pow": ([node("Pow", "x two", "y")], [node("Mul", "x x", "y")]),
    "Div": (
        [node("Abs", "x", "a"), node("Add", "a one", "b"), node("Div", "x b", "y")],
        [node("Abs", "x", "a"), node("Add", "a one", "b"), node("Reciprocal", "b", "r"), node("Mul", "x r", "y")],
    ),
}  # fmt: skip
CONSTANTS = {
    "ones": np.ones(8, np.float32), "six": np.ones(6, np.float32), "zeros": np.zeros(6, np.float32), "axes": [-1],
    "n": 8.0, "e": 1e-5, "two": 2.0, "one": 1.0,
}  # fmt: skip


def network(nodes: Nodes, folder: Path) -> Path:
    read = {name for one in nodes for name in one.input}
    return saved(model(nodes, {"x": SHAPE}, {n: a for n, a in CONSTANTS.items() if n in read}), folder)


@pytest.mark.parametrize("op", ADVICE)
def test_the_advice_keeps_what_is_computed(op: str, tmp_path: Path) -> None:
    wanted, advised = ADVICE[op]
    (tmp_path / "before").mkdir()
    before, after = network(wanted, tmp_path / "before"), network(advised, tmp_path)
    with pytest.raises(UnsupportedModelError) as error:
        load(before)
    assert HINTS.get(op, "Reciprocal of the divisor, and Mul") in str(error.value)
    x = np.random.default_rng(4).standard_normal((16, *SHAPE[1:])).astype(np.float32)
    np.savez(tmp_path / "d.npz", calib_x=x, test_x=x[::-1])
    bundle = compile_model(after, tmp_path / "bundle", CompileOptions(plan=PlanOptions("greedy")), tmp_path / "d.npz")
    dataset = samples_for(bundle, tmp_path / "d.npz")
    theirs, ours = compare.run_onnxruntime(before, dataset)["y"], integer_outputs(bundle.graph, dataset)["y"]
    assert compare.output_metrics("y", theirs, ours).sqnr_db > 25


@pytest.mark.parametrize(
    ("op", "hint"), [("Tan", False), ("LpNormalization", False), ("MaxUnpool", False), ("Convv", True), ("Reluu", True)]
)
def test_only_a_word_that_is_no_operator_is_taken_for_a_typing_error(op: str, hint: bool, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModelError) as error:
        load(network([node(op, "x", "y")], tmp_path))
    assert ("did you mean" in str(error.value)) is hint
