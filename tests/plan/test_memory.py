"""The memory plan: lifetimes, sharing, the independent checker. How far tensors may overlap: test_overlap.py."""

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glowembed.graph.ir import Graph, Node, QType, Value, verify
from glowembed.plan import memory, replay

INT8 = QType("int8", (1.0,), (0,))


def graph_of(edges: list[tuple[list[int], int]], outputs: list[int], kernel: str, input_size: int = 10) -> Graph:
    """Nodes (inputs, output size in bytes) over values v0 (the graph's input), v1, v2 ..."""
    values = {"v0": Value("v0", (input_size,), qtype=INT8)}
    nodes = []
    for i, (inputs, size) in enumerate(edges, 1):
        values[f"v{i}"] = Value(f"v{i}", (size,), qtype=INT8)
        nodes.append(Node(f"n{i}", "any", tuple(f"v{j}" for j in inputs), (f"v{i}",), kernel=kernel))
    return verify(Graph("g", tuple(nodes), values, ("v0",), tuple(f"v{i}" for i in outputs)))


CHAINS = [
    # name, sizes of a chain of disjoint ops, arena with alignment 1
    ("one op", [10, 20], 30),
    ("the first dies", [10, 20, 5], 30),
    ("a wide middle", [1, 50, 60, 1], 110),
    ("equal", [8, 8, 8, 8], 16),
]


@pytest.mark.parametrize(("name", "sizes", "arena"), CHAINS, ids=[c[0] for c in CHAINS])
def test_a_chain_needs_its_two_largest_neighbours(name: str, sizes: list[int], arena: int) -> None:
    graph = graph_of([([i], s) for i, s in enumerate(sizes[1:])], [len(sizes) - 1], "ge_conv2d_s8", sizes[0])
    plan = memory.plan(graph, 1)
    replay.check(graph, plan)
    assert plan.size == plan.bound == arena


def test_element_wise_ops_run_in_place() -> None:
    graph = graph_of([([0], 10), ([1], 10), ([2], 10)], [3], "ge_lut_s8")
    plan = memory.plan(graph, 1)
    replay.check(graph, plan)
    assert plan.size == 10


def test_no_in_place_while_the_input_is_still_needed() -> None:
    graph = graph_of([([0], 10), ([1], 10), ([1, 2], 10)], [3], "ge_lut_s8")
    plan = memory.plan(graph, 1)
    replay.check(graph, plan)
    assert plan.size == 20


def test_a_view_and_a_part_share_memory() -> None:
    graph = graph_of([([0], 10), ([0, 1], 10), ([2], 10)], [3], "ge_conv2d_s8")
    nodes = list(graph.nodes)
    nodes[1] = replace(nodes[1], shares=1)
    graph = replace(graph, nodes=tuple(nodes))
    plan = memory.plan(graph, 1)
    replay.check(graph, plan)
    assert plan.offsets["v1"] == plan.offsets["v2"]


@pytest.mark.parametrize("alignment", [1, 4, 16])
def test_offsets_are_aligned(alignment: int) -> None:
    graph = graph_of([([0], 13), ([0, 1], 7), ([1, 2], 9)], [3, 1], "ge_conv2d_s8", 5)
    plan = memory.plan(graph, alignment)
    replay.check(graph, plan)
    assert all(offset % alignment == 0 for offset in plan.offsets.values())


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 30), st.sampled_from(["ge_conv2d_s8", "ge_lut_s8"]))
def test_random_graphs_pass_the_checker(seed: int, count: int, kernel: str) -> None:
    rng = random.Random(seed)
    edges = [
        (sorted(rng.sample(range(i), rng.randint(1, min(2, i)))), rng.choice([4, 8, 8, 60, 300]))
        for i in range(1, count)
    ]
    outputs = sorted({count - 1, rng.randrange(1, count)})
    graph = graph_of(edges, outputs, kernel)
    plan = memory.plan(graph, 4)
    replay.check(graph, plan)
    assert plan.row_bound <= plan.size <= plan.bound + sum(v.bytes + 3 for v in graph.values.values())


def test_the_checker_sees_a_wrong_plan() -> None:
    graph = graph_of([([0], 10), ([0, 1], 10)], [2], "ge_conv2d_s8")
    plan = memory.plan(graph, 1)
    moved = replace(plan, offsets={**plan.offsets, "v1": plan.offsets["v0"] + 1})
    with pytest.raises(AssertionError, match="lies at byte"):
        replay.check(graph, moved)
