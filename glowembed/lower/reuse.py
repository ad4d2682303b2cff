"""Proves which rows of every value equal rows of the previous window, moved by some distance.

In: a kernel-level graph, its streamed input, and by how many rows it moves from window to window. Out: for each value
that moves, by how many rows, and the interval of rows that need not be computed again. A row of a node's output moves
by s rows if the input rows that it needs are all reusable and move by the same distance as the needs themselves, and if
both rows, computed alone, have the same params. `needs` is clipped to existing rows, so rows that see padding are
excluded.

**Phases.** If the hop is no multiple of a stride, the rows of successive windows lie between each other. Then the rows of
window n are those of window n - period, and what is kept of a value is kept for each of these phases.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from glowembed.graph.ir import Array, Graph, Node
from glowembed.graph.op import KernelOp
from glowembed.graph.registry import kernel_ops
from glowembed.graph.states import Stream
from glowembed.records import dataclass


@dataclass(frozen=True)
class Moved:
    """A value of `rows` rows of `row_bytes` bytes. Row y of a window equals row y + shift of the window `period` hops
    before, for first <= y < last.
    """

    rows: int
    row_bytes: int
    shift: int
    first: int
    last: int
    period: int = 1

    def over(self, period: int) -> Moved:
        """The same for a multiple of the period; no row may qualify (first >= last)."""
        times = period // self.period
        return replace(self, shift=times * self.shift, last=self.last - (times - 1) * self.shift, period=period)


PERIODS = 8
"""The most phases; a layer with more counts as one that mixes rows."""


def moved(graph: Graph, stream: Stream) -> dict[str, Moved]:
    """The values that move, including the streamed input.

    If the stream is causal, padding above stands for rows before the window, so rows that see it also move. Such a
    stream has no phases, because its first window begins with a reset.
    """
    size, time = graph.values[stream.input].bytes // stream.rows, stream.rows
    found = {stream.input: Moved(time, size, stream.hop, 0, time - stream.hop)}
    most = 1 if stream.causal else min(PERIODS, time // 2 // stream.hop)
    for node in graph.nodes:
        result = _through(graph, node, found, most)
        if result is not None and stream.causal and not is_renamed(graph, node):
            result = _causal(node, result)
        if result is not None and result.first < result.last:
            found[node.outputs[0]] = result
    return found


def _causal(node: Node, one: Moved) -> Moved | None:
    """The same, extended to all rows up to the last one that moves; None if a new row still sees padding above."""
    op, out = kernel_ops()[node.op], range(one.last, one.rows)
    needs = [rows for y in out for rows in op.needs(node.params, y) if rows]
    span = range(min(rows.start for rows in needs), max(rows.stop for rows in needs))
    assert op.geometry.part is not None, node.op
    clipped = getattr(op.geometry.part(node.params, out, span), "pad_top", 0) > 0
    return None if clipped else replace(one, first=0)


def is_renamed(graph: Graph, node: Node) -> bool:
    """Whether the output is the memory of the input under another name and shape."""
    return node.kernel is None and node.params is None and node.shares == 0 and len(node.inputs) == 1


def _through(graph: Graph, node: Node, found: Mapping[str, Moved], most: int) -> Moved | None:
    """The output of a node, with the fewest phases, at most `most`, or 1."""
    if is_renamed(graph, node):
        return found.get(node.inputs[0])
    op = kernel_ops()[node.op]
    if op.geometry.part is None or node.shares is not None or op.accumulates or not node.inputs:
        return None
    inputs = [found.get(name) if graph.values[name].const is None else None for name in node.inputs]
    if any(one is None and graph.values[name].const is None for one, name in zip(inputs, node.inputs, strict=True)):
        return None
    strides, stride = op.row_bytes(node.params)
    if any(one is not None and one.row_bytes != size for one, size in zip(inputs, strides, strict=True)):
        return None
    common = math.lcm(*(one.period for one in inputs if one is not None))
    rows = _Rows.of(op, node, next(i for i, one in enumerate(inputs) if one is not None))
    for period in range(common, max(common, most) + 1, common):
        best = rows.best([one and one.over(period) for one in inputs])
        if best is not None:
            shift, (first, last) = best
            return Moved(len(rows.alone), stride, shift, first, last, period)
    return None


@dataclass(frozen=True)
class _Rows:
    """The rows of a node. edges: start and end of what they need, by row and input. alone: see _alone."""

    edges: Array
    alone: Array

    @classmethod
    def of(cls, op: KernelOp[Any], node: Node, streamed: int) -> _Rows:
        needs = [op.needs(node.params, y) for y in range(op.rows(node.params))]
        edges = np.array([[(rows.start, rows.stop) for rows in of_row] for of_row in needs])
        return cls(edges, _alone(op, node, [of_row[streamed] for of_row in needs]))

    def best(self, inputs: Sequence[Moved | None]) -> tuple[int, tuple[int, int]] | None:
        """The shift for which the most rows move, and these rows."""
        count = len(self.alone)
        best: tuple[int, int, Sequence[int]] | None = None
        for shift in range(1, count):
            same = self.alone[:-shift] == self.alone[shift:]
            rows = np.flatnonzero(same & _moves(self.edges[:-shift], self.edges[shift:], inputs)).tolist()
            if rows and (best is None or len(rows) > best[0]):
                best = len(rows), shift, rows
            if best is not None and count - shift <= best[0]:
                break
        return (best[1], _longest(best[2])) if best is not None else None


def _alone(op: KernelOp[Any], node: Node, needs: Sequence[range]) -> Array:
    """A number for each row; it is equal for rows that, computed alone, have the same params.

    The needs alone do not tell: a row that sees padding above may need as many rows as one that sees it below, but with
    other taps.
    """
    part, numbers = op.geometry.part, dict[Any, int]()
    assert part is not None, node.op
    made = (part(node.params, range(y, y + 1), rows) for y, rows in enumerate(needs))
    return np.array([numbers.setdefault(params, len(numbers)) for params in made])


def _longest(rows: Sequence[int]) -> tuple[int, int]:
    """The longest run of adjacent rows, as first and last + 1. With dilation, some rows that see padding move, too."""
    ends = [i for i in range(len(rows)) if i + 1 == len(rows) or rows[i + 1] > rows[i] + 1]
    runs = [(rows[begin], rows[end] + 1) for begin, end in zip([0, *(e + 1 for e in ends)], ends, strict=False)]
    return max(runs, key=lambda run: run[1] - run[0])


def _moves(now: Array, later: Array, inputs: Sequence[Moved | None]) -> Array:
    """For each row that needs `now`, whether it equals the row that needs `later` in the previous window."""
    found = np.ones(len(now), bool)
    for i, one in enumerate(inputs):
        start, end = now[:, i].T
        found &= (start < end) & (later[:, i] == now[:, i] + (one.shift if one is not None else 0)).all(axis=1)
        if one is not None:
            found &= (one.first <= start) & (end <= one.last)
    return found
