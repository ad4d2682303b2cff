"""The memory plan: lifetimes, sharing, the independent checker, and overlap distances by brute force."""

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glowembed import memory, replay
from glowembed.ir import Graph, Node, QType, Value, verify
from glowembed.op import kernel_ops
from glowembed.ops.conv import Conv2dParams

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


SHAPES = [
    # in_h, in_w, in_c, out_c, kernel, stride, dilation, pad
    (6, 5, 3, 3, 3, 1, 1, 1),
    (9, 4, 2, 5, 3, 2, 1, 1),
    (9, 4, 5, 2, 3, 1, 2, 2),
    (8, 3, 4, 8, 1, 1, 1, 0),
    (8, 3, 8, 4, 1, 1, 1, 0),
    (11, 2, 2, 2, 5, 3, 1, 0),
    (7, 3, 2, 2, 4, 1, 1, 3),
]


@pytest.mark.parametrize("shape", SHAPES)
def test_overlap_distance_is_exact_by_brute_force(shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Replay the rows by address at every distance: the formula says safe exactly where no needed row is overwritten."""
    h, w, c, o, k, s, d, p = shape
    out_h = (h + 2 * p - (k - 1) * d - 1) // s + 1
    out_w = (w + 2 * p - (k - 1) * d - 1) // s + 1
    params = Conv2dParams(h, w, c, out_h, max(out_w, 1), o, k, k, s, s, d, d, p, p, 1, 0, 32, 0, -128, 127)
    op = kernel_ops()["conv2d_s8"]
    monkeypatch.setattr(memory, "kernel", lambda symbol: replace(op.kernels[0], store="rows"))
    node = Node("n", "conv2d_s8", ("x",), ("y",), params=params, kernel="ge_conv2d_s8")
    distance = memory.overlap_distance(node)
    assert distance is not None
    (stride,), out_stride = op.row_bytes(params)
    for candidate in range(distance - 3 * stride, distance + 3 * stride):
        assert _survives(params, candidate, stride, out_stride) == (candidate >= distance)


def _survives(params: Conv2dParams, distance: int, stride: int, out_stride: int) -> bool:
    """The output starts `distance` bytes before the input. A row is read until the last byte of the output row is
    written, so what that row writes may not touch what it or a later row needs.
    """
    op = kernel_ops()["conv2d_s8"]
    taps = [op.needs(params, y)[0] for y in range(params.out_h)]
    for y in range(params.out_h):
        written = range(y * out_stride - distance, (y + 1) * out_stride - distance)
        for later in range(y, params.out_h):
            needed = range(taps[later].start * stride, taps[later].stop * stride)
            if len(taps[later]) and max(written.start, needed.start) < min(written.stop, needed.stop):
                return False
    return True


def test_needs_are_the_rows_of_the_window() -> None:
    params = Conv2dParams(5, 1, 1, 3, 1, 1, 3, 1, 2, 1, 1, 1, 1, 0, 1, 0, 32, 0, -128, 127)
    assert [list(kernel_ops()["conv2d_s8"].needs(params, y)[0]) for y in range(3)] == [[0, 1], [1, 2, 3], [3, 4]]
