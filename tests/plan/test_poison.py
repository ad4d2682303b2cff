"""The plans of real networks with every dead byte poisoned, and proof that the poison is seen."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from compiled_models import level_here
from poison import PoisonError, poisoned_run

from glowembed.graph.ir import Array, Graph
from glowembed.graph.plan import Plan, PlanOptions
from glowembed.graph.registry import with_levels
from glowembed.graph.target import Target, load_target
from glowembed.lower.choose import choose
from glowembed.pipeline import CompileOptions, compile_model
from glowembed.plan import memory, replay
from glowembed.plan.costs import Costs
from glowembed.reference import run_int

pytestmark = pytest.mark.cc

MODELS = ("ad01", "digits_cnn", "kws", "mobilenetv2", "resnet8", "tcn")


class Stop(Exception):
    """The stage that was wanted is over."""


def lowered(model: Path, data: Path, folder: Path) -> Graph:
    found: list[Graph] = []

    def on_stage(name: str, result: Any) -> None:
        if name == "lower":
            found.append(result)
            raise Stop

    with pytest.raises(Stop):
        compile_model(model, folder / "none", CompileOptions("x86-64"), data, on_stage=on_stage)
    return found[0]


def planned(graph: Graph, target: Target, options: PlanOptions) -> tuple[Graph, Plan]:
    graph, choices = choose(graph, target, optimize=options.optimize)
    legal: dict[str, list[tuple[str, float]]] = {}
    for choice in choices:
        if choice.legal:
            legal.setdefault(choice.node, []).append((choice.kernel, choice.cycles))
    return memory.plan_network(graph, target.word_size, options, Costs(target, legal))


def noise(graph: Graph) -> dict[str, Array]:
    rng = np.random.default_rng(1)
    return {n: rng.integers(-128, 128, graph.values[n].shape).astype(np.int8) for n in graph.inputs}


def portable() -> Target:
    return replace(load_target("x86-64"), isa=())


def require_exact(graph: Graph, plan: Plan, target: Target, folder: Path) -> None:
    replay.check(graph, plan)
    x = noise(graph)
    expected, found = run_int(graph, x), poisoned_run(graph, plan, target, folder, x)
    for name in graph.outputs:
        np.testing.assert_array_equal(found[name].reshape(-1), expected[name].reshape(-1))


@pytest.mark.shared
@pytest.mark.parametrize("name", MODELS)
def test_smallest_plans_of_shared_models(name: str, shared_models: Path, tmp_path: Path) -> None:
    model = shared_models / name
    graph = lowered(model / "model.onnx", model / "data.npz", tmp_path)
    require_exact(
        *planned(graph, portable(), PlanOptions("greedy", effort=0, optimize="ram")), portable(), tmp_path / "out"
    )


@pytest.mark.shared
def test_the_replay_sees_scratch_that_moves(shared_models: Path, tmp_path: Path) -> None:
    """kws on Cortex-M4: the scratch of its 1x1 layers takes the place of rows that are dead in that call."""
    kws = shared_models / "kws"
    graph = lowered(kws / "model.onnx", kws / "data.npz", tmp_path)
    ordered, plan = planned(graph, load_target("cortex-m4"), PlanOptions("greedy", optimize="ram"))
    replay.check(ordered, plan)
    assert plan.size <= 4000
    name, slots = max(plan.scratch_slots.items(), key=lambda one: len(set(one[1])))
    refused = 0
    for row in range(len(slots)):
        moved = (*slots[:row], (slots[row] + plan.size // 2) % (plan.size - 256) // 4 * 4, *slots[row + 1 :])
        try:
            replay.check(ordered, replace(plan, scratch_slots={**plan.scratch_slots, name: moved}))
        except AssertionError:
            refused += 1
    assert refused > len(slots) / 2


@pytest.mark.shared
@pytest.mark.parametrize("name", ["kws", "resnet8"])
def test_kernels_with_vectors_read_nothing_dead(name: str, shared_models: Path, tmp_path: Path) -> None:
    model, target = shared_models / name, with_levels(load_target("x86-64"), level_here())
    graph = lowered(model / "model.onnx", model / "data.npz", tmp_path)
    require_exact(*planned(graph, target, PlanOptions("greedy", effort=0)), target, tmp_path / "out")


def test_what_dies_too_early_is_seen(digits: Path, tmp_path: Path) -> None:
    """A buffer of some size that is said to die one step before it does."""
    options = PlanOptions("greedy", effort=0, optimize="ram")
    graph, plan = planned(lowered(digits / "model.onnx", digits / "data.npz", tmp_path), portable(), options)
    require_exact(graph, plan, portable(), tmp_path / "right")
    at = max(
        range(len(plan.buffers)),
        key=lambda i: (plan.buffers[i][0].death - plan.buffers[i][0].birth, plan.buffers[i][0].size),
    )
    buffer, offset = plan.buffers[at]
    early = (replace(buffer, death=buffer.death - 1), offset)
    wrong = replace(plan, buffers=(*plan.buffers[:at], early, *plan.buffers[at + 1 :]))
    with pytest.raises(PoisonError, match="use-after-poison"):
        poisoned_run(graph, wrong, portable(), tmp_path / "wrong", noise(graph))
