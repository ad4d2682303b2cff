"""Tests of Softmax: softmax_s8."""

from pathlib import Path

import numpy as np
import pytest
from checker import SIZES, case, check_op
from kernel_checker import check_kernels
from small_models import model, node, saved

from glowembed.errors import UnsupportedModelError
from glowembed.graph.ir import Graph, Node, QType, Value
from glowembed.graph.plan import PlanOptions
from glowembed.lower.nodes import lower
from glowembed.pipeline import CompileOptions, compile_model
from glowembed.reference import run_node

pytestmark = pytest.mark.cc

CASES = [
    *(case(f"{n} classes", "Softmax", (1, n)) for n in SIZES),
    *(case(f"axis {axis}", "Softmax", (1, 3, 4, 5), axis=axis) for axis in (-4, -3, -2, -1, 0, 1, 2, 3)),
    *(case(f"axis {axis} opset 11", "Softmax", (1, 3, 4, 5), axis=axis, opset=11) for axis in (-1, 0, 1, 2, 3)),
    case("default axis", "Softmax", (1, 3, 4)),
    case("default axis opset 9", "Softmax", (1, 3, 4), opset=9),
    case("default axis opset 9, 2d", "Softmax", (1, 7), opset=9),
    case("trailing ones opset 9", "Softmax", (1, 7, 1, 1), opset=9),
    case("time", "Softmax", (1, 9, 4)),
    case("many classes", "Softmax", (1, 3000)),
    case("sharp", "Softmax", (1, 10), low=-60.0, high=60.0),
    case("flat", "Softmax", (1, 10), low=-1e-3, high=1e-3),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_softmax(case):
    check_op(case, steps=0.51)


@pytest.mark.parametrize(
    ("dtype", "zero"), [("int8", -128), ("int8", 0), ("int8", 100), ("int16", -32768), ("int16", 7)]
)
@pytest.mark.parametrize("scale", [1 / 256, 1 / 255, 0.0031, 0.0077, 3e-5, 0.03, 0.4, 0.9, 1.3, 1.999, 2.0, 5.0])
def test_any_scale_of_the_output_is_rounded_once(scale, dtype, zero):
    """Against probabilities in float64, and all kernels against the reference. Fine scales leave the table fewer bits."""
    narrow = dtype == "int8"
    types = {"x": QType(dtype, (0.06 if narrow else 2e-4,), (3,)), "y": QType(dtype, (scale,), (zero,))}
    values = {name: Value(name, (1, 40, 9), qtype=qtype) for name, qtype in types.items()}
    graph = lower(Graph("one", (Node("n", "Softmax", ("x",), ("y",)),), values, ("x",), ("y",)))
    (node,) = graph.nodes
    check_kernels(node, graph, np.random.default_rng(2))
    info = np.iinfo(dtype)
    x = np.random.default_rng(0).integers(info.min, info.max + 1, (1, 40, 9)).astype(dtype)
    e = np.exp(types["x"].scale[0] * (x - x.max(axis=-1, keepdims=True).astype(np.float64)))
    exact = e / e.sum(axis=-1, keepdims=True) / scale + zero
    found = run_node(graph, "n", x).astype(np.float64)
    assert np.abs(found - np.clip(exact, info.min, info.max)).max() <= 0.5 + (
        1e-4 + scale**-2 / 2**32 if narrow else 0.01
    )


def test_a_scale_too_fine_is_refused():
    types = {"x": QType("int8", (0.1,), (0,)), "y": QType("int8", (1e-6,), (0,))}
    values = {name: Value(name, (1, 9), qtype=qtype) for name, qtype in types.items()}
    with pytest.raises(
        UnsupportedModelError, match="chances: Softmax over 9 elements, in 1000000 steps; at most 524288"
    ):
        lower(Graph("one", (Node("chances", "Softmax", ("x",), ("y",)),), values, ("x",), ("y",)))


@pytest.mark.parametrize(("width", "steps"), [(6, 256), (144, 1024)])
def test_small_probabilities_inside_a_network_have_finer_steps(width: int, steps: int, tmp_path: Path) -> None:
    """As the Softmax over the places of a heat map: with steps of 1/256, most of 144 probabilities would be 1 or 2 of them."""
    nodes = [
        node("Softmax", "x", "p", axis=-1),
        node("Mul", "p g", "q"),
        node("ReduceSum", "q axis", "y"),
        node("Softmax", "x", "z", axis=-1),
    ]
    constants = {"g": np.linspace(-1, 1, width, dtype=np.float32), "axis": np.array([-1])}
    path = saved(model(nodes, {"x": (1, 4, width)}, constants, ("y", "z")), tmp_path)
    graph = compile_model(path, tmp_path / "b", CompileOptions(plan=PlanOptions("greedy"), random=16)).graph
    found = {n.outputs[0]: n.params.steps for n in graph.nodes if n.op == "softmax_s8"}
    assert found == {"p": steps, "z": 256}
