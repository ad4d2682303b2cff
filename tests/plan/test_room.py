"""Kernels of a finished plan change where that saves flash for few cycles and where the plan has room for their scratch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from small_models import model, node, saved, weights

from glowembed.graph.ir import Graph
from glowembed.graph.plan import Plan
from glowembed.graph.target import load_target
from glowembed.lower import footprint
from glowembed.lower.choose import FEWER_SHARE, within
from glowembed.pipeline import Bundle, CompileOptions, compile_model
from glowembed.plan import memory, replay
from glowembed.plan.costs import Costs
from glowembed.plan.room import fits, with_kernels

TARGET = load_target("cortex-m4")


@dataclass(frozen=True)
class _Made:
    """A bundle, and what the planner alone makes of its graph."""

    bundle: Bundle
    plan: Plan
    graph: Graph
    planned: Plan
    costs: Costs


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> _Made:
    """Dilated convolutions in time with residuals."""
    folder, nodes, constants, before = tmp_path_factory.mktemp("room"), [], {}, "x"
    for i, (channels, outputs, apart) in enumerate([(10, 32, 1), (32, 32, 2), (32, 32, 4), (32, 48, 8), (48, 48, 16)]):
        pads = {"pads": [2 * apart, 0], "dilations": [apart]}
        nodes += [node("Conv", f"{before} w{i}", f"c{i}", **pads), node("Relu", f"c{i}", f"r{i}")]
        constants[f"w{i}"] = weights(outputs, channels, 3, seed=i)
        nodes += [node("Add", f"r{i} {before}", f"s{i}")] if channels == outputs else []
        before = f"s{i}" if channels == outputs else f"r{i}"
    nodes.append(node("GlobalAveragePool", before, "y"))
    x = np.random.default_rng(0).normal(size=(4, 10, 49)).astype(np.float32)
    np.savez(folder / "data.npz", calib_x=x)
    stages: dict[str, Any] = {}
    bundle = compile_model(
        saved(model(nodes, {"x": [1, 10, 49]}, constants), folder),
        folder / "net",
        CompileOptions("cortex-m4"),
        folder / "data.npz",
        on_stage=stages.__setitem__,
    )
    costs = Costs(TARGET, within(bundle.choices, "balanced", None))
    graph, planned = memory.plan_network(stages["choose"], 4, CompileOptions("cortex-m4").plan, costs)
    return _Made(bundle, stages["plan"], graph, planned, costs)


def test_a_plan_keeps_no_kernel_that_saves_few_cycles(made: _Made) -> None:
    before, after = (footprint.code(graph, TARGET) for graph in (made.graph, made.bundle.graph))
    assert after < before
    assert made.plan.size == made.planned.size
    cycles = made.planned.fastest_cycles + made.planned.extra_cycles
    assert made.plan.extra_cycles - made.planned.extra_cycles <= FEWER_SHARE * cycles


def test_every_kernel_that_fits_has_its_scratch_where_nothing_else_is(made: _Made) -> None:
    """Each alone, and all with the largest scratch together, which the replay of the plan proves."""
    found = fits(made.graph, made.planned, made.costs)
    largest = {name: max(of_node, key=lambda symbol: of_node[symbol].scratch) for name, of_node in found.items()}
    changed = {name: symbol for name, symbol in largest.items() if len(found[name]) > 1}
    assert len(changed) > 5
    for kernels in [*({name: symbol} for name, symbol in changed.items()), changed]:
        replay.check(*with_kernels(made.graph, made.planned, kernels, found))


def test_kernels_fit_only_into_the_arena(made: _Made) -> None:
    """In an arena that is full at every step, only kernels without scratch do."""
    (first, _), *_ = made.planned.buffers
    full = replace(first, values=("all",), size=made.planned.size, birth=-1, death=len(made.planned.steps))
    found = fits(made.graph, replace(made.planned, buffers=((full, 0),)), made.costs)
    own = {node.name: node.kernel for node in made.graph.nodes}
    others = [fit for name, of_node in found.items() for symbol, fit in of_node.items() if symbol != own[name]]
    assert others
    assert all(fit.scratch == 0 for fit in others)
