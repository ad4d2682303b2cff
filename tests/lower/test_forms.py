"""A signal by rows and as a line: both forms have the same bits, and a network needs the same RAM however its signals
are exported.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import random_nodes
from poison import poisoned_run
from small_models import model, node, saved, weights

from glowembed.errors import NoRoom
from glowembed.graph.ir import Graph
from glowembed.graph.plan import Plan, PlanOptions
from glowembed.graph.registry import kernel_ops
from glowembed.graph.target import load_target
from glowembed.lower.choose import choose, within
from glowembed.lower.forms import as_lines, by_rows
from glowembed.pipeline import CompileOptions, compile_model, planned
from glowembed.plan import memory
from glowembed.plan.costs import Costs
from glowembed.reference import run_int

LENGTH = 90
LAYOUTS = ("length", "along W", "along H")


def along(layout: str, number: int, other: int) -> list[int]:
    """A number for the axis of time, and `other` for an axis beside it."""
    return {"length": [number], "along W": [other, number], "along H": [number, other]}[layout]


def signal(layout: str) -> onnx.ModelProto:
    """Convolutions with strides, dilation and groups, pools with padding, a sum, a product by channels, a concat, a softmax."""

    def window(stride: int = 1, pad: int = 0, dilation: int = 1) -> dict[str, Any]:
        return {"pads": along(layout, pad, 0) * 2, "strides": along(layout, stride, 1)} | (
            {"dilations": along(layout, dilation, 1)} if dilation > 1 else {}
        )

    def kernel_of(taps: int) -> dict[str, Any]:
        return {"kernel_shape": along(layout, taps, 1)}

    constants = {
        "a": weights(8, 1, *along(layout, 7, 1)), "b": weights(8, 1, *along(layout, 3, 1)),
        "c": weights(8, 8, *along(layout, 3, 1)), "d": weights(4, 16, *along(layout, 1, 1)),
        "scale": weights(1, 8, *along(layout, 1, 1)),
    }  # fmt: skip
    nodes = [
        node("Conv", "x a", "v0", **window(2, 3)), node("Relu", "v0", "v1"),
        node("Conv", "v1 b", "v2", group=8, **window(1, 1)), node("Add", "v1 v2", "v3"),
        node("AveragePool", "v3", "v4", **kernel_of(3), **window(2, 1)),
        node("Mul", "v4 scale", "v5"), node("Conv", "v5 c", "v6", **window(1, 2, 2)),
        node("Concat", "v5 v6", "v7", axis=1), node("MaxPool", "v7", "v8", **kernel_of(2), **window(2)),
        node("Conv", "v8 d", "v9"), node("Softmax", "v9", "v10", axis=1), node("GlobalAveragePool", "v10", "y"),
    ]  # fmt: skip
    return model(nodes, {"x": (1, 1, *along(layout, LENGTH, 1))}, constants)


def lowered(layout: str, folder: Path) -> Graph:
    path, made = saved(signal(layout), folder), dict[str, Any]()
    samples = np.random.default_rng(1).normal(size=(4, 1, LENGTH)).astype(np.float32)
    data = {"calib_x": samples.reshape(4, 1, *along(layout, LENGTH, 1))}
    compile_model(path, folder / "out", CompileOptions("cortex-m4"), data, on_stage=made.__setitem__)
    return made["lower"]


@pytest.fixture(scope="module")
def graphs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Graph]:
    return {layout: lowered(layout, tmp_path_factory.mktemp("signal")) for layout in LAYOUTS}


def rows(graph: Graph) -> dict[str, int]:
    """The rows of all nodes that slide a window."""
    return {n.name: kernel_ops()[n.op].rows(n.params) for n in graph.nodes if hasattr(n.params, "kernel_h")}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_both_forms_have_the_same_values(layout: str, graphs: dict[str, Graph]) -> None:
    graph = graphs[layout]
    x = np.random.default_rng(2).integers(-128, 128, graph.values["x"].shape).astype(np.int8)
    expected = run_int(graph, {"x": x})
    down, across = by_rows(graph), as_lines(graph)
    assert (down is graph, across is graph) == (layout != "along W", layout == "along W")
    for form in (down, across):
        found = run_int(form, {"x": x})
        for name, array in expected.items():
            np.testing.assert_array_equal(found[name], array, name)
    by_node = rows(down)
    assert by_node.pop("n_y") == 1
    assert (max(rows(across).values()), min(by_node.values())) == (1, LENGTH // 8)


def plans(graph: Graph, **options: Any) -> tuple[Graph, Plan]:
    return planned(graph, CompileOptions("cortex-m4", plan=PlanOptions("greedy", **{"effort": 0, **options})))


def test_a_signal_needs_the_same_ram_in_all_layouts(graphs: dict[str, Graph]) -> None:
    least = {layout: plans(graph, optimize="ram")[1].size for layout, graph in graphs.items()}
    assert len(set(least.values())) == 1
    assert plans(graphs["along W"], ram=least["along W"])[1].size <= least["along W"]
    with pytest.raises(NoRoom) as refused:
        plans(graphs["along W"], ram=1)
    assert least["along W"] <= refused.value.smallest[1].size
    usual = {layout: plans(graph)[1] for layout, graph in graphs.items()}
    assert all(plan.size >= least[layout] for layout, plan in usual.items())


def test_random_nodes_in_the_other_form() -> None:
    turned = set()
    for number in range(150):
        graph = random_nodes.lowered(7, number)
        rng = np.random.default_rng(number)
        x = {n: rng.integers(-100, 100, graph.values[n].shape).astype(stored_dtype(graph, n)) for n in graph.inputs}
        for form in (by_rows(graph), as_lines(graph)):
            if form is graph:
                continue
            turned |= {n.op for n in form.nodes}
            expected = run_int(graph, x)
            for name, array in run_int(form, x).items():
                np.testing.assert_array_equal(array, expected[name], name)
    assert len(turned) > 3


def stored_dtype(graph: Graph, name: str) -> str:
    value = graph.values[name]
    return value.qtype.dtype if value.qtype is not None else value.dtype


def test_the_least_plan_of_a_line_runs(graphs: dict[str, Graph], tmp_path: Path) -> None:
    target = replace(load_target("x86-64"), isa=())
    graph, choices = choose(by_rows(graphs["along W"]), target, optimize="ram")
    ordered, plan = memory.plan_network(
        graph, 4, PlanOptions("greedy", effort=0, optimize="ram"), Costs(target, within(choices, "ram", None))
    )
    assert plan.groups
    x = {"x": np.random.default_rng(3).integers(-128, 128, graph.values["x"].shape).astype(np.int8)}
    found, expected = poisoned_run(ordered, plan, target, tmp_path, x), run_int(ordered, x)
    np.testing.assert_array_equal(found["y"].reshape(-1), expected["y"].reshape(-1))
