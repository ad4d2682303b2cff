"""Groups in strips and patches: every row and column is there when it is read, dead bytes are never touched, and the bits are the reference's."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from kernel_graphs import kernel_graph, portable
from poison import PoisonError, poisoned_run
from random_networks import network
from small_models import model, node, saved, weights

from glowembed.graph.ir import Graph
from glowembed.graph.plan import Places, Plan, PlanOptions
from glowembed.judge.validation import validate
from glowembed.pipeline import CompileOptions, compile_model
from glowembed.plan import memory, replay, schedule
from glowembed.plan.costs import Costs
from glowembed.plan.order import best_order
from glowembed.plan.pull import Pull
from glowembed.plan.rows import rows_of
from glowembed.plan.tiles import Tiler, Tiling
from glowembed.reference import run_int

OPTIONS = PlanOptions("greedy", effort=0, optimize="ram")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tiles")


def tilings(tiler: Tiler, count: int, rng: random.Random) -> Iterator[tuple[int, int, Tiling]]:
    """Groups of `count` works, each in strips, in patches, and in both."""
    for first in range(count):
        for last in range(first + 2, count + 1):
            if tiler.allowed(first, last):
                parts = [(a, b) for a in range(first, last) for b in range(a + 1, last + 1)]
                inner = [part for part in parts if tiler.patchable(*part, (first, last))]
                cuts = [(a, b, rng.choice((1, 2, 3)), rng.choice((2, 3))) for a, b in inner]
                yield first, last, Tiling(rng.choice((2, 3)))
                yield from (
                    (first, last, Tiling(rng.choice((1, 2)), *cut)) for cut in rng.sample(cuts, min(2, len(cuts)))
                )


def planned(graph: Graph, first: int, last: int, tiling: Tiling) -> tuple[Graph, Plan] | None:
    """The plan of a graph with one group in strips; None if a strip would be empty."""
    costs = Costs(portable(), {})
    variant, rows = memory._variant(graph, OPTIONS, costs), rows_of(graph)
    tiler = Tiler(graph, rows, costs)
    if tiler.tiled(first, last, tiling) is None:
        return None
    segments = schedule._Segments(rows, 4, memory._Cycles(graph, rows, costs), tiler)
    alone: list[schedule.Way] = [(i, i + 1, None) for i in range(len(rows.works))]
    ways = [*alone[:first], (first, last, Pull(tiling=tiling)), *alone[last:]]
    candidate = schedule._assembled(segments, 1 << 30, ways, 1e12, None)[0]
    placed = memory._prepared(variant, candidate, 4)
    memory._placed([placed], True, True, effort=OPTIONS.effort)
    return memory._finished(placed, 4, OPTIONS)


def cases(seed: int, folder: Path) -> tuple[Graph, list[tuple[int, int, Tiling]]]:
    graph = best_order(kernel_graph(seed, 6, folder, network))
    rows = rows_of(graph)
    return graph, list(tilings(Tiler(graph, rows, Costs(portable(), {})), len(rows.works), random.Random(seed)))


@pytest.mark.parametrize("seed", [3, 5, 8, 11])
def test_every_column_is_there_when_it_is_read(seed: int, folder: Path) -> None:
    """Odd widths, strides, dilations, padding and sums; with these seeds some rows and columns are never read."""
    graph, groups = cases(seed, folder)
    made = [
        plan for group in random.Random(seed).sample(groups, min(25, len(groups))) if (plan := planned(graph, *group))
    ]
    assert any(len(group.sections) > 1 for _, plan in made for group in plan.tiled)
    for ordered, plan in made:
        replay.check(ordered, plan)


@pytest.mark.cc
@pytest.mark.parametrize("seed", [5, 8])
def test_nothing_dead_is_touched(seed: int, folder: Path) -> None:
    graph, groups = cases(seed, folder)

    def patched(order: Sequence[tuple[int, int, Tiling]]) -> tuple[Graph, Plan]:
        made = (plan for group in order if (plan := planned(graph, *group)))
        return next(plan for plan in made if len(plan[1].tiled[0].sections) > 1 and plan[1].tiled[0].strips > 1)

    for number, (ordered, plan) in enumerate([patched(groups), patched(groups[::-1])]):
        x = {
            n: np.random.default_rng(1).integers(-128, 128, graph.values[n].shape).astype(np.int8) for n in graph.inputs
        }
        expected, found = run_int(ordered, x), poisoned_run(ordered, plan, portable(), folder / f"{seed}-{number}", x)
        for name in graph.outputs:
            np.testing.assert_array_equal(found[name].reshape(-1), expected[name].reshape(-1))


@pytest.mark.cc
def test_a_sum_behind_patches_adds_whole_rows(folder: Path) -> None:
    """Two convolutions run in patches of some columns; the mean behind them is computed outside of the patches, which are repeated."""
    ordered, plan = memory.plan_network(kernel_graph(0, 2, folder, network), 4, OPTIONS, Costs(portable(), {}))
    (group,) = plan.tiled
    assert group.strips == 1 and group.patches > 1
    assert any("sum" in ordered.nodes[number].op and len(tiles) == 1 for number, tiles in group.tiles.items())
    replay.check(ordered, plan)
    x = {"x": np.random.default_rng(1).integers(-128, 128, ordered.values["x"].shape).astype(np.int8)}
    expected, found = run_int(ordered, x), poisoned_run(ordered, plan, portable(), folder / "sum", x)
    np.testing.assert_array_equal(found["y"].reshape(-1), expected["y"].reshape(-1))


def test_a_strip_at_a_wrong_place_is_refused(folder: Path) -> None:
    """One that reads a pixel too far to the right, and one row in a slot of another."""
    graph, groups = cases(5, folder)
    ordered, plan = next(plan for group in groups if (plan := planned(graph, *group)) and plan[1].tiled[0].strips > 1)
    group = plan.tiled[0]
    number = max(group.tiles)
    last = group.tiles[number][-1]
    wrong = (*group.tiles[number][:-1], replace(last, read=(last.read[0] + 4, *last.read[1:])))
    with pytest.raises(AssertionError, match=r"reads|leaves"):
        replay.check(ordered, replace(plan, tiled=(replace(group, tiles={**group.tiles, number: wrong}),)))
    name = next(iter(group.rows))
    moved = plan.slots[name]
    with pytest.raises(AssertionError, match="reads"):
        replay.check(ordered, replace(plan, slots={**plan.slots, name: (moved[1],) * len(moved)}))


@pytest.mark.cc
def test_a_row_that_dies_too_early_is_seen(folder: Path) -> None:
    """The input of a group in strips, whose rows all strips read: it dies after the first calls."""
    graph, groups = cases(5, folder)
    ordered, plan = next(
        plan for group in groups if group[0] == 0 and (plan := planned(graph, *group)) and plan[1].tiled[0].strips > 1
    )
    at = next(i for i, (b, _) in enumerate(plan.buffers) if graph.inputs[0] in b.values)
    buffer, offset = plan.buffers[at]
    early = (replace(buffer, death=1), offset)
    x = {n: np.zeros(graph.values[n].shape, np.int8) for n in graph.inputs}
    wrong = replace(plan, buffers=(*plan.buffers[:at], early, *plan.buffers[at + 1 :]))
    with pytest.raises(PoisonError, match="use-after-poison"):
        poisoned_run(ordered, wrong, portable(), folder / "early", x)


def wide(folder: Path) -> Path:
    """A wide image of few channels: two inverted blocks, one with a sum, whose strips need halos of odd widths."""
    nodes = [node("Conv", "x a", "s", strides=[2, 2], pads=[1] * 4)]
    constants = {"a": weights(8, 3, 3, 3)}
    at = "s"
    for i, step in enumerate((1, 2)):
        nodes += [node("Conv", f"{at} e{i}", f"t{i}"), node("Relu", f"t{i}", f"r{i}")]
        nodes += [node("Conv", f"r{i} d{i}", f"u{i}", strides=[step] * 2, pads=[1] * 4, group=24)]
        nodes += [node("Conv", f"u{i} p{i}", f"v{i}")]
        constants |= {f"e{i}": weights(24, 8, 1, 1, seed=i), f"d{i}": weights(24, 1, 3, 3, seed=i)}
        constants |= {f"p{i}": weights(8, 24, 1, 1, seed=i)}
        if step == 1:
            nodes += [node("Add", f"{at} v{i}", f"w{i}")]
        at = f"w{i}" if step == 1 else f"v{i}"
    nodes += [node("GlobalAveragePool", at, "y")]
    folder.mkdir(exist_ok=True)
    np.savez(folder / "data.npz", x=np.random.default_rng(2).normal(size=(2, 3, 37, 53)).astype(np.float32))
    return saved(model(nodes, {"x": (1, 3, 37, 53)}, constants), folder)


@pytest.mark.qemu
def test_less_ram_for_more_cycles_on_an_emulated_board(folder: Path) -> None:
    """The least RAM has strips, the default has none; each strip turns its columns of an image in planes; all give the bits of the reference."""
    source = wide(folder / "wide")
    pixels = CompileOptions("cortex-m4", input_layout="nhwc", places=Places(io="caller"))
    planes = replace(pixels, input_layout="model")
    found = {}
    for name, options, plan in (
        ("balanced", pixels, PlanOptions("greedy")),
        ("ram", pixels, OPTIONS),
        ("planes", planes, OPTIONS),
    ):
        bundle = compile_model(source, folder / name, replace(options, plan=plan), source.parent / "data.npz")
        found[name] = bundle.manifest
        result = validate(bundle, source.parent / "data.npz", "mps2-an386", 1)
        assert result.bit_exact
        memory_ = result.json["memory"]
        assert memory_["stack"] <= memory_["stack_computed"], "the harness counts stack of its own"
    assert "strips" not in found["balanced"]["schedule"]
    assert found["ram"]["schedule"]["strips"]
    assert found["ram"]["arena"]["size"] < 0.8 * found["balanced"]["arena"]["size"]
    assert found["planes"]["schedule"]["strips"][0]["first"] == 0
    assert found["planes"]["arena"]["size"] < 1.1 * found["ram"]["arena"]["size"]
    schedule_ = found["ram"]["schedule"]
    assert schedule_["extra_cycles_estimate"] <= schedule_["fastest_cycles_estimate"]
