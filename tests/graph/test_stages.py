"""The rules after each stage: the results of the real stages are sound, and each rule, broken once, is reported."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from small_models import model, node, saved, weights

from glowembed.graph.ir import Const, Graph, GraphError, Node, QType
from glowembed.graph.stages import RULES, STAGES, Rule, Stage, check
from glowembed.pipeline import CompileOptions, compile_model

Change = Callable[[Graph], Graph]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Graph]:
    """The results of the stages for a small network with a view, a move and layers with weights."""
    folder = tmp_path_factory.mktemp("stages")
    nodes = [
        node("Conv", "x w", "c"), node("Relu", "c", "r"), node("MaxPool", "r", "p", kernel_shape=[2, 2], strides=[2, 2]),
        node("Flatten", "p", "f"), node("Gemm", "f v", "l"), node("Softmax", "l", "y"),
    ]  # fmt: skip
    path = saved(model(nodes, {"x": (1, 3, 6, 6)}, {"w": weights(4, 3, 3, 3), "v": weights(16, 5)}), folder)
    np.save(folder / "data.npy", np.random.default_rng(0).normal(size=(8, 3, 6, 6)).astype(np.float32))
    found: dict[str, Any] = {}
    bundle = compile_model(
        path, folder / "out", CompileOptions("cortex-m4"), data=folder / "data.npy", on_stage=found.__setitem__
    )
    return {stage: bundle.graph if stage == "plan" else found[stage] for stage in STAGES}


def of_a_node(**changes: Any) -> Change:
    """Change the last node that computes."""

    def change(graph: Graph) -> Graph:
        index = max(i for i, n in enumerate(graph.nodes) if n.shares is None)
        nodes = [replace(n, **changes) if i == index else n for i, n in enumerate(graph.nodes)]
        return replace(graph, nodes=tuple(nodes))

    return change


def of_a_type(qtype: QType) -> Change:
    return lambda g: replace(
        g, values={n: replace(v, qtype=qtype) if n in g.outputs else v for n, v in g.values.items()}
    )


def kernel_of_another_op(graph: Graph) -> Graph:
    return of_a_node(kernel="ge_add_s8")(graph)


def kernel_of_a_view(graph: Graph) -> Graph:
    nodes = [replace(n, kernel="ge_copy_s8") if n.shares is not None else n for n in graph.nodes]
    return replace(graph, nodes=tuple(nodes))


BREAKS: dict[str, tuple[Change, ...]] = {
    "every node is of a semantic op": (of_a_node(op="softmax_s8"),),
    "no node has parameters, constants or a kernel yet": (
        of_a_node(params=object()), of_a_node(constants={"a": Const(np.zeros(1))}), of_a_node(kernel="ge_add_s8"), of_a_node(shares=0),
    ),
    "every type has one scale and zero point for all channels, or one for each": (
        of_a_type(QType("int8", (1.0, 1.0), (0, 0), 1)), of_a_type(QType("int8", (1.0,) * 6, (0,) * 6, 1)),
    ),
    "every node is of a kernel-level op": (of_a_node(op="Softmax"),),
    "every node that computes has the parameters and as many inputs as its op says": (
        of_a_node(params=None), lambda g: of_a_node(inputs=g.inputs * 3)(g),
    ),
    "every node has the constants of its op": (of_a_node(constants={}), of_a_node(constants={"a": Const(np.zeros(1))})),
    "no node has a kernel yet": (of_a_node(kernel="ge_softmax_s8"),),
    "every node that computes has a kernel of its op, and no other has one": (
        of_a_node(kernel=None), kernel_of_another_op, kernel_of_a_view,
    ),
}  # fmt: skip


def test_every_rule_is_broken_by_a_case() -> None:
    assert list(BREAKS) == [rule.text for rule in RULES]


@pytest.mark.parametrize("stage", STAGES)
def test_the_result_of_each_stage_is_sound(stage: Stage, results: Mapping[str, Graph]) -> None:
    assert check(results[stage], stage) is results[stage]


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("rule", RULES, ids=[rule.text[:40] for rule in RULES])
def test_a_rule_that_is_broken_is_told(rule: Rule, stage: Stage, results: Mapping[str, Graph]) -> None:
    """A broken rule is reported, and only after the stages for which it must hold."""
    for change in BREAKS[rule.text]:
        broken = list(rule.broken(change(results[stage]))) if rule.holds_after(stage) else []
        if rule.holds_after(stage):
            assert broken, "the case breaks nothing"
            with pytest.raises(GraphError, match=f"^after {stage}: "):
                check(change(results[stage]), stage)


def test_what_holds_after_every_stage_is_told_first(results: Mapping[str, Graph]) -> None:
    """A name that is read before it is made, of any stage."""
    for stage, graph in results.items():
        nodes: list[Node] = [replace(graph.nodes[0], inputs=("nobody",)), *graph.nodes[1:]]
        with pytest.raises(GraphError, match="reads 'nobody' before it is made"):
            check(replace(graph, nodes=tuple(nodes)), stage)  # type: ignore[arg-type]
