"""Order, streaming and placement: schedules that compute everything once, plans that survive garbage, exact optima."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from busy import busy_machine
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_graphs import kernel_graph, portable
from poison import poisoned_run
from random_networks import Network, branching, network
from small_models import canonical, model, node, weights

from glowembed.errors import UsageError
from glowembed.graph.ir import Array, Graph, Node, QType, Value, verify
from glowembed.graph.plan import PlanOptions
from glowembed.graph.target import load_target
from glowembed.lower.choose import choose
from glowembed.lower.nodes import lower
from glowembed.plan import exact, memory, order, placement, replay, schedule
from glowembed.plan.conflicts import Conflicts, InPlace, Item, conflicts
from glowembed.plan.costs import Costs
from glowembed.plan.items import joined, scratch_apart
from glowembed.plan.lives import Lives, liveness_bound
from glowembed.plan.memory import BUDGETS, budget
from glowembed.plan.rows import Rows, rows_of
from glowembed.plan.sums import by_rows
from glowembed.quantize.types import quantize
from glowembed.reference import run_int

INT8 = QType("int8", (1.0,), (0,))


RAM = PlanOptions("greedy", effort=0, optimize="ram")
MAKERS: tuple[Network, ...] = (network, branching)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("schedule")


def repeated(rng: random.Random, blocks: int) -> tuple[list[onnx.NodeProto], dict[str, Array]]:
    """Equal blocks of three layers and a sum."""
    nodes, constants = [node("Conv", "x w", "t0", pads=[1] * 4)], {"w": weights(4, 1, 3, 3, seed=rng.randrange(99))}
    for i in range(blocks):
        output = f"t{i + 1}" if i + 1 < blocks else "y"
        nodes += [node("Conv", f"t{i} u{i}", f"a{i}"), node("Conv", f"a{i} v{i}", f"b{i}", pads=[1] * 4, group=4)]
        nodes += [node("Conv", f"b{i} u{i}", f"c{i}"), node("Add", f"t{i} c{i}", output)]
        constants |= {f"u{i}": weights(4, 4, 1, 1, seed=i), f"v{i}": weights(4, 1, 3, 3, seed=i)}
    return nodes, constants


@pytest.mark.parametrize(("seed", "make"), [(1, network), (2, branching), (3, repeated)])
def test_lives_are_those_of_each_access(seed: int, make: Network, folder: Path) -> None:
    """A row is born in the tick that first writes it, and dies in the last one that reads or writes it; a kernel whose output
    must be apart from its input takes all ticks of its call at once.
    """
    rows = rows_of(kernel_graph(seed, 4, folder, make))
    for pull in (schedule.Pull(), schedule.Pull(3)):
        calls = schedule.stream(rows, 0, len(rows.works), pull)
        birth = [[-1 if s.is_input else schedule.NEVER] * s.rows for s in rows.storages]
        death = [[-1 if s.is_input else -2] * s.rows for s in rows.storages]
        tick = 0
        for position, first, last in calls:
            work, end = rows.works[position], tick + last - first - 1
            apart, begin = work.store == "disjoint", tick
            for y in range(first, last):
                for storage, (a, b) in [(s, reads[y]) for s, reads in zip(work.inputs, work.reads, strict=True)]:
                    death[storage][a:b] = [end if apart else tick] * (b - a)
                for row in range(*work.writes[y]):
                    birth[work.output][row] = min(birth[work.output][row], begin if apart else tick)
                    death[work.output][row] = end if apart else tick
                tick += 1
        life = schedule.lives(rows, calls)
        assert life.ticks == tick
        for i, storage in enumerate(rows.storages):
            assert life.birth[i].tolist() == birth[i], storage.values
            assert life.death[i].tolist() == ([tick] * storage.rows if storage.is_output else death[i]), storage.values


def test_equal_segments_are_costed_once(folder: Path) -> None:
    """Repeated blocks have one curve, which is that of each of them on its own."""
    rows = rows_of(kernel_graph(3, 5, folder, repeated))

    def cycles(position: int, number: int, count: int) -> float:
        return 100.0 + len(rows.works[position].inputs) * count + number

    shared = schedule._Segments(rows, 4, cycles)
    pulls = (None, schedule.Pull(), schedule.Pull(2), schedule.Pull(1, frozenset({4, 8})))
    spans = [(a, b) for a in range(len(rows.works)) for b in range(a + 1, min(a + 6, len(rows.works)) + 1)]
    for first, last in spans:
        for pull in pulls:
            alone = schedule._Segments(rows, 4, cycles)
            assert shared.cost(first, last, pull) == alone.cost(first, last, pull), (first, last, pull)
    assert len(shared.alike.curves) < len(shared.known) / 2


@settings(max_examples=30)
@given(
    seed=st.integers(0, 10_000),
    layers=st.integers(2, 9),
    block=st.sampled_from([1, 2, 3]),
    make=st.sampled_from(MAKERS),
)
def test_a_group_computes_every_row_once_and_never_too_early(
    seed: int, layers: int, block: int, make: Network, folder: Path
) -> None:
    rows = rows_of(kernel_graph(seed, layers, folder, make))
    rng = random.Random(seed)
    positions = range(len(rows.works))
    pull = schedule.Pull(
        block,
        frozenset(rng.sample(positions, len(positions) // 2)),
        frozenset(rng.sample(positions, len(positions) // 3)),
    )
    done = dict.fromkeys(positions, 0)
    for position, first, last in schedule.stream(rows, 0, len(rows.works), pull):
        work = rows.works[position]
        assert first == done[position]
        assert last == min(first + block, work.rows)
        for storage, reads in zip(work.inputs, work.reads, strict=True):
            for producer in rows.writers[storage]:
                needed = max(b for _, b in reads[first:last])
                assert needed == 0 or done[producer] >= rows.works[producer].row_that_completes[needed - 1]
        done[position] = last
    assert all(done[p] == rows.works[p].rows for p in positions)


@settings(max_examples=25)
@given(
    seed=st.integers(0, 10_000),
    layers=st.integers(2, 9),
    optimize=st.sampled_from(["ram", "balanced", "speed"]),
    make=st.sampled_from(MAKERS),
)
def test_random_networks_pass_the_replay(seed: int, layers: int, optimize: str, make: Network, folder: Path) -> None:
    graph = kernel_graph(seed, layers, folder, make)
    ordered, plan = memory.plan_network(graph, 4, PlanOptions("greedy", effort=0, optimize=optimize), Costs(portable()))
    replay.check(ordered, plan)
    assert plan.row_bound <= plan.size <= plan.bound + 16 * len(graph.values)


def test_the_replay_sees_every_row_that_moves(folder: Path) -> None:
    """Each row of a streamed tensor moved onto a neighbour: the checker must say no for most, and never crash."""
    ordered, plan = memory.plan_network(kernel_graph(3, 6, folder), 4, RAM, Costs(portable()))
    assert plan.slots
    caught = tried = 0
    for name, slots in plan.slots.items():
        for row in range(len(slots)):
            moved = list(slots)
            moved[row] = slots[row] + 4 if slots[row] + 4 + 8 < plan.size else slots[row] - 4
            tried += 1
            try:
                replay.check(ordered, replace(plan, slots={**plan.slots, name: tuple(moved)}))
            except AssertionError:
                caught += 1
    assert caught > tried // 3


def test_a_call_that_is_missing_is_seen(folder: Path) -> None:
    ordered, plan = memory.plan_network(kernel_graph(3, 6, folder), 4, RAM, Costs(portable()))
    at = next(i for i in range(len(plan.steps) - 1) if plan.steps[i].node != plan.steps[i + 1].node)
    for missing in (at, at + 1):
        with pytest.raises(AssertionError):
            replay.check(ordered, replace(plan, steps=tuple(s for i, s in enumerate(plan.steps) if i != missing)))


POISONED = [
    *((network, seed, 8) for seed in range(4)),
    *((branching, seed, layers) for seed, layers in ((1, 4), (3, 4), (5, 3), (14, 3))),
]


@pytest.mark.cc
@pytest.mark.parametrize(("make", "seed", "layers"), POISONED)
def test_poisoned_runs_give_the_bits_of_the_reference(make: Network, seed: int, layers: int, tmp_path: Path) -> None:
    """Before every call of a kernel all dead bytes become garbage and are forbidden."""
    graph = kernel_graph(seed, layers, tmp_path, make)
    ordered, plan = memory.plan_network(graph, 4, RAM, Costs(portable()))
    replay.check(ordered, plan)
    rng = np.random.default_rng(seed)
    x = {n: rng.integers(-128, 128, ordered.values[n].shape).astype(np.int8) for n in ordered.inputs}
    expected = run_int(graph, x)
    found = poisoned_run(ordered, plan, portable(), tmp_path / "out", x)
    for name in ordered.outputs:
        np.testing.assert_array_equal(found[name].reshape(-1), expected[name].reshape(-1))


def test_the_networks_that_are_poisoned_stream_what_branches(folder: Path) -> None:
    """Sums, concats, splits, gates, means: row by row, in one group with a convolution."""
    found = set[str]()
    for make, seed, layers in POISONED:
        ordered, plan = memory.plan_network(kernel_graph(seed, layers, folder, make), 4, RAM, Costs(portable()))
        groups = [{ordered.nodes[i].op for i in range(*group)} for group in plan.groups]
        found.update(*(ops for ops in groups if "conv2d_s8" in ops))
    assert {"add_s8", "copy_into_s8", "copy_s8", "mul_broadcast_s8", "sum_rows_s8", "mean_s32_s8"} <= found


def items_of(rng: random.Random, count: int) -> list[Item]:
    """Items of one to three cells with different lifetimes, on even offsets or on any."""
    found = []
    for i in range(count):
        cells, size = [], 0
        for _ in range(rng.choice([1, 1, 2, 3])):
            birth, cell = rng.randrange(6), rng.choice([1, 2, 3])
            cells.append((size, cell, birth, birth + rng.randrange(4)))
            size += cell
        found.append(Item(f"i{i}", None, size, rng.choice([1, 1, 2]), i, np.asarray(cells, np.int64)))
    return found


def in_place_of(count: int) -> InPlace:
    """The pairs of `count` items that may overlap at any tick: those whose numbers sum to a multiple of 3."""
    pairs = [(a, b) for a in range(count) for b in range(count) if (a + b) % 3 == 0]
    return np.asarray([(*pair, tick) for pair in pairs for tick in range(10)])


def exhaustive(items: list[Item], forbidden: Conflicts, limit: int) -> int:
    """The smallest size over all offsets below `limit`: depth first, largest items first."""
    order_ = sorted(range(len(items)), key=lambda i: -items[i].size)
    best, near = limit, [list(zip(*(a.tolist() for a in one), strict=True)) for one in forbidden.near]

    def put(k: int, offsets: dict[int, int], size: int) -> None:
        nonlocal best
        if size >= best:
            return
        if k == len(order_):
            best = size
            return
        i = order_[k]
        for offset in range(0, best - items[i].size, items[i].alignment):
            if all(not lo < offset - offsets[j] < hi for j, lo, hi in near[i] if j in offsets):
                put(k + 1, {**offsets, i: offset}, max(size, offset + items[i].size))

    put(0, {}, 0)
    return best


@pytest.mark.parametrize("seed", range(12))
def test_the_solver_and_branch_and_bound_find_the_exhaustive_optimum(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    items = items_of(random.Random(seed), 6)
    forbidden = conflicts(items, in_place_of(len(items)))
    greedy = min((fit.placement for fit in placement.greedy(items, forbidden, 1)), key=lambda p: p.size)
    least = min(greedy.size, exhaustive(items, forbidden, greedy.size))
    for pairs in (exact.PAIRS, 0) if placement.have_solver() else (exact.PAIRS,):
        monkeypatch.setattr(exact, "PAIRS", pairs)
        solved, proved = placement.solve(items, forbidden, 1, greedy, 5.0)
        assert solved.size == proved == least, "by branch and bound" if pairs else "by the solver"
        for j, (others, lows, highs) in enumerate(forbidden.near):
            for i, lo, hi in zip(others, lows, highs, strict=True):
                assert not lo < solved.offsets[j] - solved.offsets[i] < hi


def test_a_second_search_finds_placements_that_are_no_larger(monkeypatch: pytest.MonkeyPatch) -> None:
    """For 40 sets of items, of which it improves some; nothing that is alive overlaps, and exhaustive search finds no less."""
    monkeypatch.setattr(exact, "PAIRS", 0)
    gained = 0
    for case in range(40):
        items = items_of(random.Random(case), 6)
        forbidden = conflicts(items, in_place_of(len(items)))
        starts = [fit.placement for fit in placement.greedy(items, forbidden, 1)[::2]]
        found = placement.searched(items, forbidden, starts, 1, 1, seeds=(2, 3))
        assert exhaustive(items, forbidden, starts[0].size + 1) <= found.size <= starts[0].size
        gained += found.size < starts[0].size
        for j, (others, lows, highs) in enumerate(forbidden.near):
            for i, lo, hi in zip(others, lows, highs, strict=True):
                assert not lo < found.offsets[j] - found.offsets[i] < hi
    assert gained


def test_scratch_in_the_place_of_dead_rows() -> None:
    """Rows of 8 bytes live for three of the ticks, and a kernel needs 8 bytes at each: at one place, these come on top of all rows."""
    rows = [Item("row", t, 8, 4, 0, np.asarray([(0, 8, t, t + 2)], np.int64)) for t in range(0, 12, 2)]
    scratch = Item("scratch of a", None, 8, 4, -1, np.asarray([(0, 8, t, t) for t in range(1, 12, 2)], np.int64))
    steady = Item("scratch of b", None, 4, 4, -1, np.asarray([(0, 4, t, t) for t in (1, 3)], np.int64))
    candidate = schedule.Candidate(tuple((0, t, t + 1) for t in range(12)), (), (), 0.0, Rows((), (), {}))
    life = Lives((), (), 12, tuple((t, t) for t in range(12)), ())
    items, nothing = [*rows, scratch, steady], np.zeros((0, 3), np.int64)
    together = placement.repaired(
        items, conflicts(items, nothing), placement.greedy(items, conflicts(items, nothing), 1), 1
    )
    assert together.size == 24 + 4
    apart, offsets = scratch_apart(items, together.offsets, candidate, life)
    assert [item.row for item in apart[6:]] == [1, 3, 5, 7, 9, 11, 1, 3]
    forbidden = conflicts(apart, nothing)
    start = placement.Fit(placement.Placement(offsets, together.size), tuple(range(len(apart))), 0)
    found = placement.repaired(apart, forbidden, [start], 20)
    assert found.size == 20
    kept, placed = joined(items, apart, forbidden, found)
    assert [item.row for item in kept if item.name == "scratch of a"] == [1, 3, 5, 7, 9, 11]
    assert [item.row for item in kept if item.name == "scratch of b"] in ([None], [1, 3])
    for j, (others, lows, highs) in enumerate(conflicts(kept, nothing).near):
        for i, lo, hi in zip(others, lows, highs, strict=True):
            assert not lo < placed.offsets[j] - placed.offsets[i] < hi


def test_a_solver_that_is_stopped_has_the_same_plan_on_a_busy_machine() -> None:
    """The limit of its work is reached before it is done, and does not depend on the clock."""
    pytest.importorskip("ortools")
    items = items_of(random.Random(7), 60)
    forbidden = conflicts(items, in_place_of(len(items)))
    start = placement.Placement(
        tuple(np.cumsum([0, *(item.size for item in items[:-1])]).tolist()), sum(i.size for i in items)
    )
    idle = placement.solve(items, forbidden, 1, start, 0.02)
    with busy_machine():
        assert placement.solve(items, forbidden, 1, start, 0.02) == idle
    assert idle[1] < idle[0].size < start.size, "it has improved the plan, and was not done"


@pytest.mark.parametrize("seed", range(15))
def test_the_order_is_the_best_of_all_orders(seed: int) -> None:
    graph = random_dag(random.Random(seed), 7)
    best = min(_peak(graph, p) for p in itertools.permutations(range(len(graph.nodes))) if _is_order(graph, p))
    found = order.best_order(graph)
    verify(found)
    assert liveness_bound(rows_of(found)) == best


@pytest.mark.parametrize("moves", [1, 10_000])
def test_a_search_that_looks_at_few_nodes_finds_an_order(moves: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of eight sets with all nodes that may be next, or with few of them; a network of outputs only has many of these."""
    for name, value in (("STATES", 0), ("BEAM_MOVES", moves), ("BEAM", 8), ("FEWEST", 1)):
        monkeypatch.setattr(order, name, value)
    better = 0
    for seed in range(10):
        graph = random_dag(random.Random(seed), 25)
        found = order.best_order(graph)
        assert sorted(found.nodes, key=id) == sorted(graph.nodes, key=id)
        assert _is_order(found, tuple(range(len(found.nodes))))
        before, after = (_peak(one, tuple(range(len(one.nodes)))) for one in (graph, found))
        assert after < before or found is graph
        better += after < before
    assert better >= 5


def random_dag(rng: random.Random, count: int) -> Graph:
    values = {"v0": Value("v0", (8,), qtype=INT8)}
    nodes = []
    for i in range(1, count):
        inputs = tuple(f"v{j}" for j in sorted(rng.sample(range(i), rng.randint(1, min(2, i)))))
        values[f"v{i}"] = Value(f"v{i}", (rng.choice([4, 8, 30, 60, 100]),), qtype=INT8)
        nodes.append(Node(f"n{i}", "any", inputs, (f"v{i}",), kernel="ge_conv2d_s8"))
    used = {n for v in nodes for n in v.inputs}
    outputs = tuple(n for n in values if n not in used)
    return verify(Graph("g", tuple(nodes), values, ("v0",), outputs))


def _is_order(graph: Graph, permutation: tuple[int, ...]) -> bool:
    known = set(graph.inputs)
    for i in permutation:
        if not set(graph.nodes[i].inputs) <= known:
            return False
        known.update(graph.nodes[i].outputs)
    return True


def _peak(graph: Graph, permutation: tuple[int, ...]) -> int:
    return liveness_bound(rows_of(replace(graph, nodes=tuple(graph.nodes[i] for i in permutation))))


def test_plans_are_the_same_every_time() -> None:
    graph = random_dag(random.Random(5), 25)
    first, second = (memory.plan_network(graph, 4, PlanOptions()) for _ in range(2))
    assert first[1] == second[1]
    assert [n.name for n in first[0].nodes] == [n.name for n in second[0].nodes]


def test_without_the_solver_the_plan_is_greedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement, "have_solver", lambda: False)
    graph = random_dag(random.Random(5), 30)
    ordered, plan = memory.plan_network(graph, 4, PlanOptions())
    replay.check(ordered, plan)


@pytest.mark.parametrize("seed", range(8))
def test_ram_takes_no_more_than_balanced_and_at_most_twice_the_cycles(seed: int, folder: Path) -> None:
    graph, costs = kernel_graph(seed, 7, folder), Costs(portable())
    plans = {o: memory.plan_network(graph, 4, PlanOptions("greedy", effort=0, optimize=o), costs)[1] for o in BUDGETS}
    assert plans["ram"].size <= plans["balanced"].size <= plans["speed"].size
    assert plans["speed"].extra_cycles == 0.0 < plans["speed"].fastest_cycles
    for name, plan in plans.items():
        assert plan.fastest_cycles == plans["speed"].fastest_cycles
        assert plan.extra_cycles <= budget(BUDGETS[name], plan.fastest_cycles) + 1


@pytest.mark.parametrize("seed", range(3))
def test_tradeoffs_are_what_limits_of_ram_give(seed: int, folder: Path) -> None:
    """From the plan for the least RAM to the fastest; with its RAM as limit, no plan is slower than the one on the curve."""
    graph, costs = kernel_graph(seed, 7, folder), Costs(portable())
    points = memory.tradeoffs(graph, 4, RAM, costs)
    assert [p.ram for p in points] == sorted({p.ram for p in points})
    assert all(a.cycles > b.cycles for a, b in itertools.pairwise(points))
    assert points[0].ram == memory.plan_network(graph, 4, RAM, costs)[1].size
    assert points[-1].extra <= 0.0, "a mean in two steps may take a little less"
    for point in points[:: max(1, len(points) // 3)]:
        plan = memory.plan_network(graph, 4, PlanOptions("greedy", effort=0, ram=point.ram), costs)[1]
        assert plan.size <= point.ram
        assert plan.fastest_cycles == point.fastest
        assert plan.extra_cycles <= point.cycles - point.fastest + 1


def test_a_limit_takes_the_fastest_plan_that_fits(folder: Path) -> None:
    graph, costs = kernel_graph(3, 6, folder), Costs(portable())
    smallest = memory.plan_network(graph, 4, PlanOptions(optimize="ram"), costs)[1]
    whole = memory.plan_network(graph, 4, PlanOptions(optimize="speed"), costs)[1]
    assert smallest.size < whole.size
    with pytest.raises(UsageError):
        memory.plan_network(graph, 4, PlanOptions(ram=smallest.size - 1), costs)
    assert not memory.plan_network(graph, 4, PlanOptions(ram=whole.size), costs)[1].groups
    between = memory.plan_network(graph, 4, PlanOptions(ram=whole.size - 1), costs)[1]
    assert between.size < whole.size
    assert between.extra_cycles <= smallest.extra_cycles


def test_too_small_a_limit_says_what_is_needed_and_where(folder: Path) -> None:
    graph = kernel_graph(3, 6, folder)
    with pytest.raises(
        UsageError, match=r"needs at least \d+ bytes of RAM, \d+ more than --ram 10; most is alive in '"
    ):
        memory.plan_network(graph, 4, PlanOptions(ram=10), Costs(portable()))


def test_row_by_row_means_are_those_of_the_pool(folder: Path) -> None:
    graph = kernel_graph(4, 4, folder)
    split = by_rows(graph, Costs())
    assert {"sum_rows_s8", "mean_s32_s8"} <= {n.op for n in split.nodes}
    x = {n: np.random.default_rng(7).integers(-128, 128, graph.values[n].shape).astype(np.int8) for n in graph.inputs}
    assert np.array_equal(run_int(graph, x)["y"], run_int(split, x)["y"])


@pytest.mark.parametrize(("rows", "columns", "whole"), [(2048, 1, False), (2049, 1, True), (3, 3000, False)])
@pytest.mark.parametrize(("op", "pool"), [("GlobalAveragePool", "avgpool_s8"), ("GlobalMaxPool", "maxpool_s8")])
def test_images_of_many_rows_are_not_taken_row_by_row(
    rows: int, columns: int, whole: bool, op: str, pool: str, tmp_path: Path
) -> None:
    """Each row would be a call of its own. Columns do not count."""
    graph = typed_kernels(canonical(model([node(op, "x", "y")], {"x": (1, 1, rows, columns)}), tmp_path, twice=False))
    assert (pool in {n.op for n in by_rows(graph, Costs()).nodes}) == whole


def test_a_mean_and_a_maximum_of_one_tensor_keep_none_of_its_rows(folder: Path) -> None:
    """Both take each row as it comes, so the tensor of 6 x 31 x 31 bytes is never whole."""
    nodes = [
        node("Conv", "x w", "a", pads=[1] * 4),
        node("GlobalAveragePool", "a", "mean"),
        node("GlobalMaxPool", "a", "most"),
        node("Concat", "mean most", "y", axis=1),
    ]
    graph = typed_kernels(
        canonical(model(nodes, {"x": (1, 1, 31, 31)}, {"w": weights(6, 1, 3, 3)}), folder, twice=False)
    )
    ordered, plan = memory.plan_network(graph, 4, RAM, Costs(portable()))
    replay.check(ordered, plan)
    assert plan.size < 31 * 31 + 6 * 31 * 2


def typed_kernels(graph: Graph) -> Graph:
    """The graph at kernel level for the host, with one range for all values."""
    ranges = dict.fromkeys(graph.values, (-30.0, 30.0))
    return choose(lower(quantize(graph, lambda name, settings: ranges[name])), portable())[0]


def test_a_depthwise_that_may_is_written_exactly_over_its_input(tmp_path: Path) -> None:
    nodes = [
        node("Conv", "x w0", "a", pads=[1] * 4),
        node("Conv", "a w1", "b", pads=[1] * 4, group=8),
        node("Conv", "b w2", "y"),
    ]
    constants = {"w0": weights(8, 1, 3, 3), "w1": weights(8, 1, 3, 3), "w2": weights(8, 8, 1, 1)}
    graph = canonical(model(nodes, {"x": (1, 1, 40, 40)}, constants), tmp_path, twice=False)
    ranges = dict.fromkeys(graph.values, (-30.0, 30.0))
    target = load_target("cortex-m4")
    graph = choose(lower(quantize(graph, lambda name, settings: ranges[name])), target)[0]
    middle = next(n for n in graph.nodes if n.op == "depthwise_s8")
    assert middle.kernel == "ge_depthwise3x3_s8_dsp"
    ordered, plan = memory.plan_network(graph, 4, PlanOptions("greedy", optimize="speed"), Costs(target))
    replay.check(ordered, plan)
    below, above = middle.inputs[0], middle.outputs[0]
    assert plan.offsets[below] == plan.offsets[above]
    moved = replace(plan, size=plan.size + 4, offsets={**plan.offsets, above: plan.offsets[above] + 4})
    with pytest.raises(AssertionError):
        replay.check(ordered, moved)
