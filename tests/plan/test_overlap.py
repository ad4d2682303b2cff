"""How far an output may lie over an input: every formula against brute force by address, for every op in the registry.

overlap.py learns from the integer reference what depends on what, and replays reads and writes at every distance. `needs`, the
store rules of all kernels, the planner's intervals and its replay have to agree with it: at the declared distance all
survives, one element closer something is destroyed. CAUTIOUS says which kernels declare less than they could, and why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from overlap import Dependence, Timetable, by_elements, by_rows, dependence, in_blocks, line_by_line
from small_nodes import small_nodes

from glowembed.graph.ir import Const, Graph, Node
from glowembed.graph.op import Kernel, Store
from glowembed.graph.plan import Plan, PlanOptions
from glowembed.graph.registry import kernel, kernel_ops
from glowembed.ops.conv import Conv2dParams
from glowembed.plan import memory, replay
from glowembed.plan.overlap import overlap_distance

OPS = [name for name, op in kernel_ops().items() if op.kernels and not op.variadic]

READ_BEFORE: Mapping[str, Callable[[Dependence, Any], Timetable]] = {
    "ge_softmax": lambda d, p: by_elements(d, read_before=True),  # a row is summed, then each element is read once more
    "ge_normalize": lambda d, p: by_elements(
        d, read_before=True
    ),  # a group is summed, then each element is read once more
    "ge_conv2d_points": lambda d, p: by_elements(
        d, together=p.out_c
    ),  # of 1x1, a pixel is in scratch before its outputs
}
"""Kernels that write over their input element by element though an output depends on more than its own element."""

PART_OF_ROWS = ("ge_copy",)
"""Kernels that read some elements of a row: the elements that they skip count as read."""

CAUTIOUS = {
    **dict.fromkeys(
        ("ge_attention_s8_dsp", "ge_attention_s8_x86", "ge_attention_masked_s8_dsp", "ge_attention_masked_s8_x86"),
        "all queries of a head are read before those of the next one",
    ),
    "ge_mean_s32": "one pixel",
    "ge_conv2d_winograd": "it computes two rows at a time, for some channels after the others",
    **dict.fromkeys(("ge_conv2d_plain_s8", "ge_conv2d_exact_s16"), "one group after the other goes through all rows"),
    **dict.fromkeys(
        ("ge_depthwise3x3_s8_dsp", "ge_depthwise3x3_aw_s8_dsp"),
        "four channels at a time go through all rows: exactly over the input or not at all",
    ),
    **dict.fromkeys(
        ("ge_depthwise_s16_armv", "ge_depthwise_w16_armv"), "a channel at a time goes through the rows of a tile"
    ),
    **dict.fromkeys(
        ("ge_conv2d_part", "ge_conv2d_points_part", "ge_depthwise3x3_part"),
        "a call may compute some channels of all pixels, which others still read",
    ),
    "ge_conv2d_down": "blocks of rows that have other rows between them",
    "ge_depthwise_down": "the same",
    **dict.fromkeys(
        ("ge_conv2d_s16_", "ge_conv2d_w16_", "ge_conv2d_f32_dsp", "ge_conv2d_f32_mve"),
        "one group after the other reads pixels of which outputs are already written",
    ),
    **dict.fromkeys(
        ("ge_depthwise3x3_s16_dsp", "ge_depthwise3x3_w16_dsp", "ge_depthwise3x3_exact_s16_dsp"),
        "four channels at a time go through all rows",
    ),
    "ge_depthwise_lines": "a channel at a time goes through all rows",
    **dict.fromkeys(
        ("ge_fc_s16_x86", "ge_fc_w16_x86", "ge_fc_f32_x86", "ge_fc_aw_s8_x86"),
        "several rows are read once for each block of outputs",
    ),
    **dict.fromkeys(("ge_running_sum", "ge_gather_sums", "ge_delayed_sum"), "its sums begin before it reads the rows"),
    "ge_slide_rows": "its own rows move before it reads the new ones",
    **dict.fromkeys(
        ("ge_recurrent", "ge_lstm_tflite"),
        "one call runs all steps: inputs of later ones are read after outputs of earlier ones are written",
    ),
}
"""Kernels whose output does not lie over an input at all with some params."""


@dataclass(frozen=True)
class Pair:
    """A node, and the input that its output might lie over."""

    graph: Graph
    node: Node
    index: int

    def by_store(self) -> dict[Store, list[Kernel]]:
        """The kernels of the op by their store rule with these params."""
        found: dict[Store, list[Kernel]] = {}
        for one in kernel_ops()[self.node.op].kernels:
            found.setdefault(one.store_of(self.node.params), []).append(one)
        return found


KNOWN: dict[Any, Dependence] = {}


def dependence_of(pair: Pair) -> Dependence:
    """Ops that differ in their requantization only depend on the same."""
    key = type(kernel_ops()[pair.node.op]), pair.node.params, pair.index
    if key not in KNOWN:
        KNOWN[key] = dependence(pair.node, pair.graph, pair.index)
    return KNOWN[key]


def pairs(op: str) -> list[Pair]:
    """All that small_nodes.py has of an op."""
    assert op in small_nodes(), f"no shapes for op {op}: no case of small_nodes.py becomes one"
    return [
        Pair(graph, node, i)
        for graph, node in small_nodes()[op]
        for i, name in enumerate(node.inputs)
        if graph.values[name].const is None
    ]


def apart(op: str) -> list[Pair]:
    """The inputs without the one whose memory is that of the output anyway."""
    return [pair for pair in pairs(op) if pair.index != pair.node.shares]


def timetable(pair: Pair, one: Kernel, whole_rows: bool = False) -> Timetable:
    """The times of reads and writes that the store rule of a kernel promises."""
    d, p = dependence_of(pair), pair.node.params
    if one.store_of(p) == "rows" or d.x.row * d.x.item != d.y.row * d.y.item:
        return by_rows(d, whole_rows)
    special = next((made for name, made in READ_BEFORE.items() if one.symbol.startswith(name)), None)
    return special(d, p) if special is not None else by_elements(d)


@pytest.mark.parametrize("op", OPS)
def test_needs_are_the_rows_that_outputs_depend_on(op: str) -> None:
    """From the first to the last of them; which rows make a sum that goes on, its end does not say."""
    for pair in pairs(op):
        d = dependence_of(pair)
        for y in range(kernel_ops()[op].rows(pair.node.params) if not d.accumulates else 0):
            read, needed = d.rows_read(y), kernel_ops()[op].needs(pair.node.params, y)[pair.index]
            assert ((needed.start, needed.stop) if needed else None) == ((read[0], read[-1] + 1) if read else None), (
                f"row {y} of {pair.node.params} reads rows {read} of input {pair.index}, needs() says {needed}"
            )


@pytest.mark.parametrize("op", OPS)
def test_the_distance_of_every_store_rule_is_exact(op: str) -> None:
    for pair in apart(op):
        d = dependence_of(pair)
        for store, kernels in pair.by_store().items():
            for one in kernels:
                found = overlap_distance(replace(pair.node, kernel=one.symbol), pair.index)
                if store == "disjoint":
                    assert found is None and one.symbol.startswith(tuple(CAUTIOUS)), f"why is {one.symbol} disjoint?"
                    continue
                whole = one.symbol.startswith(PART_OF_ROWS)
                wrong = timetable(pair, one, whole).destroyed(min(d.x.item, d.y.item))
                assert wrong is not None and found == wrong[1] + min(d.x.item, d.y.item), (
                    f"{one.symbol} ({store}) with {pair.node.params}: declared {found}, destroyed at {wrong}"
                )


@pytest.mark.parametrize("op", OPS)
def test_the_planner_comes_as_close_as_any_distance_allows(op: str) -> None:
    """The arena of a single node, with the output above or below the input, and the replay at both limits."""
    for pair in apart(op):
        for store, kernels in pair.by_store().items():
            p = pair.node.params
            free = [one for one in kernels if one.inner is None and not one.scratch(p) and not one.same_place(p)]
            if pair.node.shares is not None or not free:
                continue
            graph, d = alone(pair, free[0]), dependence_of(pair)
            unit = max(d.x.item, d.y.item)
            low, high = allowed(pair, free[0], unit)
            plan = memory.plan(graph, unit, PlanOptions("greedy", optimize="speed"))
            assert plan.size == max(min(size(d, distance) for distance in (low, high)), unit), f"{store}, {p}"
            for distance, right in ((low, True), (low + unit, False), (high - unit, False), (high, True)):
                if low < high:
                    assert replayed(graph, plan, distance) == right, f"{store}, {distance} bytes apart, {p}"


def alone(pair: Pair, one: Kernel) -> Graph:
    """The node with this kernel; all its inputs but one are constants."""
    node, values = replace(pair.node, kernel=one.symbol), {}
    for i, name in enumerate(node.inputs):
        value = pair.graph.values[name]
        zeros = Const(np.zeros(value.shape, value.qtype.dtype if value.qtype is not None else value.dtype))
        values[name] = value if i == pair.index or value.const is not None else replace(value, const=zeros)
    values[node.outputs[0]] = pair.graph.values[node.outputs[0]]
    return Graph("alone", (node,), values, (node.inputs[pair.index],), node.outputs)


def allowed(pair: Pair, one: Kernel, unit: int) -> tuple[int, int]:
    """The output may begin so far before the input, and no less far than that, or the second and more."""
    d = dependence_of(pair)
    if one.store_of(pair.node.params) == "disjoint":
        return -d.x.bytes, d.y.bytes
    wrong = timetable(pair, one, whole_rows=True).destroyed(unit)
    return (wrong[0] - unit, wrong[1] + unit) if wrong is not None else (0, 0)


def size(d: Dependence, distance: int) -> int:
    """The size of an arena whose output begins `distance` bytes before the input."""
    return max(d.y.bytes, distance + d.x.bytes) if distance >= 0 else max(d.x.bytes, d.y.bytes - distance)


def replayed(graph: Graph, plan: Plan, distance: int) -> bool:
    """Whether replay.check accepts the plan with its two tensors at this distance."""
    x, y = graph.inputs[0], graph.outputs[0]
    offsets = {x: max(0, distance), y: max(0, -distance)}
    end = sum(graph.values[name].bytes for name in (x, y)) + abs(distance)
    try:
        replay.check(graph, replace(plan, offsets=offsets, size=end))
    except AssertionError:
        return False
    return True


def every_kernel() -> list[tuple[Pair, Kernel]]:
    """Every kernel of every op, with all shapes."""
    return [(pair, one) for op in OPS for pair in pairs(op) for kernels in pair.by_store().values() for one in kernels]


def test_what_is_said_of_kernels_is_said_of_some() -> None:
    disjoint = {one.symbol for pair, one in every_kernel() if one.store_of(pair.node.params) == "disjoint"}
    cautious = {name for name in CAUTIOUS if any(symbol.startswith(name) for symbol in disjoint)}
    assert cautious | {"ge_conv2d_down", "ge_depthwise_down"} == set(
        CAUTIOUS
    )  # their blocks are chosen by cost: see below


@pytest.mark.parametrize("name", READ_BEFORE)
def test_what_is_read_before_could_not_be_read_meanwhile(name: str) -> None:
    """The declared overlap needs the second pass over the input, or the scratch: without them it would be wrong."""
    mine = [(pair, one) for pair, one in every_kernel() if one.symbol.startswith(name)]
    mine = [(pair, one) for pair, one in mine if one.store_of(pair.node.params) == "elements"]
    assert mine
    for pair, one in mine:
        declared = overlap_distance(replace(pair.node, kernel=one.symbol), pair.index)
        assert declared == 0 and not by_elements(dependence_of(pair)).survives(0)


DOWN = ("ge_conv2d_down_s8_dsp", "ge_depthwise_down_s8_dsp")


@pytest.mark.parametrize("symbol", DOWN)
@pytest.mark.parametrize("rows", range(2, 9))
def test_blocks_of_rows_may_lie_as_close_as_single_rows_if_they_are_neighbours(symbol: str, rows: int) -> None:
    """All that a block needs is copied, or lies apart, before any of it is written; with rows between its own, blocks write
    over what these need, and the kernel is disjoint.
    """
    survived = []
    for pair in pairs("depthwise_s8" if "depthwise" in symbol else "conv2d_s8"):
        p, d = pair.node.params, dependence_of(pair)
        distance = overlap_distance(replace(pair.node, kernel=pair.by_store()["rows"][0].symbol), pair.index)
        assert distance is not None and in_blocks(d, blocks_down(p.out_h, rows, 1)).survives(distance)
        survived.append(in_blocks(d, blocks_down(p.out_h, rows, 2)).survives(distance))
        numbers = dict((kernel(symbol).instance or dict)(p))
        apart = numbers["OUT"] > p.out_w * p.out_c
        assert kernel(symbol).store_of(p) == ("disjoint" if apart else "rows")
    assert not all(survived)


def blocks_down(height: int, rows: int, apart: int) -> list[range]:
    """Each takes every `apart`-th row, so many of them."""
    return [
        range(y, min(y + rows * apart, height), apart)
        for first in range(min(apart, height))
        for y in range(first, height, rows * apart)
    ]


@pytest.mark.parametrize("down", [False, True])
@pytest.mark.parametrize("channels", range(4, 14))
def test_a_depthwise_writes_over_its_input_where_four_divides_the_channels(channels: int, down: bool) -> None:
    """Else the second four read some of what the first have written. No arena is smaller than that of one over the other."""
    p = Conv2dParams(6, 5, channels, 6, 5, channels, 3, 3, 1, 1, 1, 1, 1, 1, channels, 0, 32, 0, -128, 127)
    times = line_by_line(p.in_h, p.in_w, channels, down)
    assert times.survives(0) == kernel("ge_depthwise3x3_s8_dsp").same_place(p)
    assert channels == 4 or not (times.survives(4) or times.survives(-4))
