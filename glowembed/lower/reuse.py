"""Proves which rows of every value are those of the window before, only moved.

In: a kernel-level graph, its streamed input, and how many rows it moves from window to window. Out: for each value that moves, by how
many rows, and the interval of rows that need not be computed again. A row of the output of a node moves by s rows, if each of its
inputs is needed in rows which move by as many as the needs do, and which are all reusable. `needs` is clipped to rows that exist, so
rows that see padding drop out by themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from glowembed.graph.ir import Graph, Node
from glowembed.graph.op import KernelOp
from glowembed.graph.registry import kernel_ops


@dataclass(frozen=True)
class Moved:
    """A value of `rows` rows of `row_bytes` bytes: row y of a window is row y + shift of the window before, for first <= y < last."""

    rows: int
    row_bytes: int
    shift: int
    first: int
    last: int

    def has(self, rows: range) -> bool:
        """Whether all of these rows only move."""
        return not rows or (self.first <= rows.start and rows.stop <= self.last)


def moved(graph: Graph, stream: str, time: int, hop: int) -> dict[str, Moved]:
    """The values that move, with the streamed input, whose rows are its `time` frames."""
    found = {stream: Moved(time, graph.values[stream].bytes // time, hop, 0, time - hop)}
    for node in graph.nodes:
        result = _through(graph, node, found)
        if result is not None and result.first < result.last:
            found[node.outputs[0]] = result
    return found


def is_renamed(graph: Graph, node: Node) -> bool:
    """Whether the output is the memory of the input under another name and shape."""
    return node.kernel is None and node.params is None and node.shares == 0 and len(node.inputs) == 1


def _through(graph: Graph, node: Node, found: Mapping[str, Moved]) -> Moved | None:
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
    return _best(op, node, inputs, stride)


def _best(op: KernelOp[Any], node: Node, inputs: Sequence[Moved | None], stride: int) -> Moved | None:
    """The shift for which the most rows only move."""
    count = op.rows(node.params)
    needs = [op.needs(node.params, y) for y in range(count)]
    best: tuple[int, int, list[int]] | None = None
    for shift in range(1, count):
        rows = [y for y in range(count - shift) if _moves(needs[y], needs[y + shift], inputs)]
        if rows and (best is None or len(rows) > best[0]):
            best = len(rows), shift, rows
        if best is not None and count - shift <= best[0]:
            break
    if best is None:
        return None
    rows = best[2]
    assert rows == list(range(rows[0], rows[-1] + 1)), f"the rows of {node.name!r} that move are not adjacent"
    return Moved(count, stride, best[1], rows[0], rows[-1] + 1)


def _moves(now: Sequence[range], later: Sequence[range], inputs: Sequence[Moved | None]) -> bool:
    """Whether a row that needs `now` is the row that needs `later` in the window before."""
    return all(
        (a == b and len(a) > 0)
        if one is None
        else len(a) > 0 and a.start + one.shift == b.start and len(a) == len(b) and one.has(a)
        for a, b, one in zip(now, later, inputs, strict=True)
    )
