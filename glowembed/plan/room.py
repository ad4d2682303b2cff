"""Changes kernels of a finished plan. All tensors and calls stay where they are.

In: a graph with kernels, its plan, and the kernels that may compute each node. Out: which of them the plan has room for, and the graph and the
plan with some of these.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from glowembed.graph.ir import Graph, Node
from glowembed.graph.plan import SCRATCH, Buffer, Plan
from glowembed.graph.registry import kernel_ops
from glowembed.plan.costs import Costs
from glowembed.plan.rows import choices_of
from glowembed.plan.states import aligned, block_size
from glowembed.records import dataclass


@dataclass(frozen=True)
class Fit:
    """A kernel in a plan: the estimated cycles of all calls, and the bytes and the offset of its scratch."""

    cycles: float
    scratch: int
    offset: int


Fits = Mapping[str, Mapping[str, Fit]]
"""For each node that has a kernel, the kernels that the plan has room for, by symbol; its own is one of them."""


def fits(graph: Graph, plan: Plan, costs: Costs) -> Fits:
    """The kernels that the plan has room for. Nodes in strips, or whose scratch is in several places, keep their own."""
    steps: dict[int, list[int]] = {}
    for number, step in enumerate(plan.steps):
        steps.setdefault(step.node, []).append(number)
    fixed = {number for group in plan.tiled for number in group.tiles}
    taken = _Taken(graph, plan)
    return {
        node.name: _fits_of(graph, plan, costs, number, steps.get(number, []), None if number in fixed else taken)
        for number, node in enumerate(graph.nodes)
        if node.kernel is not None
    }


def _fits_of(
    graph: Graph, plan: Plan, costs: Costs, number: int, steps: list[int], taken: _Taken | None
) -> dict[str, Fit]:
    """The kernels for a node that is called in these steps; only its own without `taken`."""
    node = graph.nodes[number]
    counts = Counter(plan.steps[i].last - plan.steps[i].first for i in steps)
    known = {kernel.symbol for kernel in kernel_ops()[node.op].kernels}
    legal = [symbol for symbol, _ in costs.legal.get(node.name, ()) if symbol in known]
    own, *others = choices_of(node, legal)
    found = {own.symbol: Fit(_cycles(node, costs, counts), own.scratch, plan.scratch.get(node.name, 0))}
    if taken is None or not steps or node.name in plan.scratch_slots:
        return found
    during = taken.during(steps, node.name) if any(one.scratch for one in others) else []
    for one in (one for one in others if not one.in_parts):
        offset = taken.gap(during, aligned(one.scratch, plan.alignment)) if one.scratch else 0
        if offset is not None:
            cycles = _cycles(replace(node, kernel=one.symbol), costs, counts)
            found[one.symbol] = Fit(cycles, one.scratch, offset)
    return found


def _cycles(node: Node, costs: Costs, counts: Mapping[int, int]) -> float:
    return sum(times * costs.rows(node, rows) for rows, times in counts.items())


class _Taken:
    """The bytes of the arena that are taken in each step."""

    def __init__(self, graph: Graph, plan: Plan) -> None:
        spans = [(b, offset, life) for b, offset in plan.buffers for life in b.lives or ((b.birth, b.death),)]
        self.birth, self.death = np.asarray([life for _, _, life in spans], np.int64).reshape(-1, 2).T
        self.first = np.asarray([offset for _, offset, _ in spans], np.int64)
        self.last = self.first + np.asarray([buffer.size for buffer, _, _ in spans], np.int64)
        self.values = [buffer.values for buffer, _, _ in spans]
        self.alignment, self.begin, self.end = plan.alignment, block_size(graph, plan.alignment), plan.size

    def during(self, steps: Sequence[int], name: str) -> list[tuple[int, int]]:
        """The bytes that are taken in any of these steps, in order, but for the scratch of the node itself."""
        met = np.searchsorted(steps, self.birth) < np.searchsorted(steps, self.death, side="right")
        own = (SCRATCH + name,)
        return sorted({(int(self.first[i]), int(self.last[i])) for i in np.flatnonzero(met) if self.values[i] != own})

    def gap(self, taken: Sequence[tuple[int, int]], size: int) -> int | None:
        """The lowest offset at which so many bytes are free."""
        end = self.begin
        for first, last in taken:
            if end + size <= first:
                return end
            end = max(end, aligned(last, self.alignment))
        return end if end + size <= self.end else None


def with_kernels(graph: Graph, plan: Plan, kernels: Mapping[str, str], found: Fits) -> tuple[Graph, Plan]:
    """The graph and the plan in which these nodes have these kernels."""
    nodes, scratch, live, extra = list(graph.nodes), dict(plan.scratch), list(plan.live), plan.extra_cycles
    smaller = False
    replaced = {(SCRATCH + name,) for name in kernels}
    buffers = [(buffer, at) for buffer, at in plan.buffers if buffer.values not in replaced]
    for number, node in enumerate(graph.nodes):
        if node.name not in kernels or node.kernel is None:
            continue
        old, new = (found[node.name][symbol] for symbol in (node.kernel, kernels[node.name]))
        steps = [i for i, step in enumerate(plan.steps) if step.node == number]
        nodes[number] = replace(node, kernel=kernels[node.name])
        extra += new.cycles - old.cycles
        smaller |= new.scratch < old.scratch
        scratch.pop(node.name, None)
        if new.scratch:
            scratch[node.name] = new.offset
            size = aligned(new.scratch, plan.alignment)
            buffer = Buffer((SCRATCH + node.name,), size, steps[0], steps[-1], lives=tuple((i, i) for i in steps))
            buffers.append((buffer, new.offset))
        for i in steps:
            live[i] += aligned(new.scratch, plan.alignment) - aligned(old.scratch, plan.alignment)
    buffers.sort(key=lambda one: (one[0].birth, one[1], one[0].values, one[0].row or 0))
    plan = replace(plan, scratch=scratch, live=tuple(live), extra_cycles=extra, buffers=tuple(buffers))
    if smaller and max(live) < plan.size:  # other offsets may need less now
        plan = replace(plan, row_bound=min(plan.row_bound, max(live)), proof="feasible")
    return replace(graph, nodes=tuple(nodes)), plan
