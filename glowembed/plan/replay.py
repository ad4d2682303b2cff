"""Proves a plan by replaying it: every read must find the value that was written there.

It is independent of the planner on purpose: it uses addresses, steps and store rules, and not storages, lifetimes or
overlaps.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from glowembed.graph.ir import Graph, Node
from glowembed.graph.plan import OUTSIDE, Plan, Step
from glowembed.graph.registry import kernel, kernel_ops
from glowembed.graph.tiles import Tile, TiledGroup
from glowembed.records import dataclass

Reads = list[list[tuple[str, int, int]]]
"""For each row and each input: (input, first byte, last byte + 1)."""

Extent = tuple[int, int]
"""The lowest and the highest of a set of addresses."""

Ints = NDArray[np.int64]

AT_ONCE = 1024
"""The most rows of a call that are replayed one by one."""

PIECE = 1 << 20
"""The number of bytes that are read or written at a time."""


def check(graph: Graph, plan: Plan) -> None:
    """Run the steps of the plan on addresses. Raises AssertionError, naming the reader, if a read would find wrong
    data.

    Each byte of the arena has a tag that tells which byte of which tensor it is. Each row is read, written, and read
    again. Data of the caller lies after the arena.
    """
    _Replay(graph, plan).run()


class _Replay:
    """Executes steps on tags. A tag is the number of the tensor (its root, for views) times 2^32, plus the byte within
    it; -1 is garbage. Each part of a tensor has its own number; the next part, and readers of the whole tensor, expect
    the number of the part before.
    """

    def __init__(self, graph: Graph, plan: Plan) -> None:
        self.graph, self.plan = graph, plan
        self.number = {name: i for i, name in enumerate(graph.values)}
        self.shared = {n.outputs[0]: n.inputs[n.shares] for n in graph.nodes if n.shares is not None}
        self.views = {
            n.outputs[0]: n.inputs[n.shares or 0] for n in graph.nodes if n.shares is not None and not n.kernel
        }
        self.reserved = {n.outputs[0] for n in graph.nodes if n.kernel is None and not n.inputs}
        self.outside: dict[int, int] = {}
        end = plan.size
        for name, value in graph.values.items():
            if value.place in OUTSIDE:
                self.outside[self.root(name)] = end
                end += value.bytes
        self.given = {self.root(name) for name in graph.inputs if graph.values[name].place in OUTSIDE}
        self.tags = np.full(end, -1, np.int64)
        self.rows_done = dict.fromkeys((n.name for n in graph.nodes), 0)

    def run(self) -> None:
        for name in self.graph.inputs:
            self.write(name, 0, self.graph.values[name].bytes)
        groups = {number: group for group in self.plan.tiled for number in group.tiles}
        for first, steps in groupby(
            self.plan.steps, lambda step: groups[step.node].first if step.node in groups else -1
        ):
            if first >= 0:
                _Tiles(self, groups[first]).run(list(steps))
                continue
            for step in steps:
                self.step(self.graph.nodes[step.node], step)
        for node in self.graph.nodes:
            assert node.kernel is None or self.rows_done[node.name] == self.row_count(node), (
                f"{node.name} is not complete"
            )
        for name in self.graph.outputs:
            self.read(name, 0, self.graph.values[name].bytes, "the caller")

    def row_count(self, node: Node) -> int:
        op = kernel_ops().get(node.op)
        return op.rows(node.params) if op is not None and node.params is not None else 1

    def step(self, node: Node, step: Step) -> None:
        if node.kernel is None:
            self.write(node.outputs[0], 0, self.graph.values[node.outputs[0]].bytes)
            return
        assert step.first == self.rows_done[node.name], f"{node.name} computes row {step.first} out of order"
        self.rows_done[node.name] = step.last
        assert self.root(node.outputs[0]) not in self.given, f"{node.name} writes over an input of the caller's"
        store = kernel(node.kernel).store_of(node.params)
        self.scratch(node, step)
        if self.same_place(node, step):
            self.read(node.inputs[0], 0, self.graph.values[node.inputs[0]].bytes, node.name)
            self.write(node.outputs[0], 0, self.graph.values[node.outputs[0]].bytes)
            return
        reads = self.spans(node, range(step.first, step.last))
        if len(reads) > AT_ONCE and self.at_once(node, store, reads, step):
            return
        reach = self.reach(reads)
        for y, spans in zip(range(step.first, step.last), reads, strict=True):
            for name, start, end in spans:
                self.read(name, start, end, node.name)
            written = self.write(node.outputs[0], *self.output(node, y))
            cleared = self.scratch(node, step)
            first = y - step.first if store != "disjoint" else 0
            for later, k in self.touched(reach, first, written, cleared):
                replaced = k == node.shares and later + step.first <= y
                if not replaced and not (later + step.first == y and self.in_place(node, store, k, y)):
                    self.read(*reads[later][k], node.name)

    def reach(self, reads: Reads) -> Ints:
        """The lowest and the highest address of each span, by row and input; high < low if the span is empty."""
        ends = [[self.extent(*span) for span in spans] for spans in reads]
        return np.asarray(ends, np.int64).reshape(len(reads), -1, 2)

    def touched(self, reach: Ints, first: int, *changed: Extent) -> list[list[int]]:
        """Pairs [row, input], from row `first` on, whose span may contain a changed byte; all other spans are
        unchanged.
        """
        low, high = reach[first:, :, 0], reach[first:, :, 1]
        met = np.zeros(low.shape, bool)
        for start, end in changed:
            met |= (low <= end) & (high >= start)
        found = np.argwhere(met)
        found[:, 0] += first
        return found.tolist()

    def at_once(self, node: Node, store: str, reads: Reads, step: Step) -> bool:
        """Replay all rows at once. Returns False if the output overlaps data that is read, except element by element
        over its own row.
        """
        op = kernel_ops()[node.op]
        if op.accumulates or node.shares is not None:
            return False
        size, output = self.graph.values[node.outputs[0]].bytes, node.outputs[0]
        spans = [_union(spans) for spans in zip(*reads, strict=True)]
        over = {k for k in range(len(spans)) if self.whole_in_place(node, store, k, reads)}
        written = self.extent(output, 0, size)
        for k, union in enumerate(spans):
            low, high = zip(*(self.extent(*span) for span in union), strict=True) if union else ((1,), (0,))
            if k not in over and min(low) <= written[1] and max(high) >= written[0]:
                return False
        again = [span for k, union in enumerate(spans) if k not in over for span in union]
        for span in (span for union in spans for span in union):
            self.read(*span, node.name)
        self.write(output, 0, size)
        self.scratch(node, step)
        for span in again:
            self.read(*span, node.name)
        return True

    def whole_in_place(self, node: Node, store: str, k: int, reads: Reads) -> bool:
        """Whether all rows, from the first to the last, are written element by element over the same row of input k."""
        if not all(self.in_place(node, store, k, y) for y in (0, len(reads) - 1)):
            return False
        one_piece = node.outputs[0] not in self.plan.slots and node.inputs[k] not in self.plan.slots
        stride = self.output(node, 0)[1]
        return one_piece and all(spans[k][1:] == (y * stride, (y + 1) * stride) for y, spans in enumerate(reads))

    def same_place(self, node: Node, step: Step) -> bool:
        """Whether all rows are written in one call exactly over the input, by a kernel that allows it."""
        whole = (step.first, step.last) == (0, self.row_count(node))
        if not whole or node.params is None or not kernel(node.kernel or "").same_place(node.params):
            return False
        offsets = self.plan.offsets
        return node.inputs[0] in offsets and offsets[node.inputs[0]] == offsets.get(node.outputs[0])

    def in_place(self, node: Node, store: str, k: int, y: int) -> bool:
        """Whether the row is written element by element over input k, which is correct if the output row does not begin
        after the input row.
        """
        op = kernel_ops().get(node.op)
        strides, stride = (
            op.row_bytes(node.params) if op is not None and node.params is not None
            else (tuple(self.graph.values[n].bytes for n in node.inputs), self.graph.values[node.outputs[0]].bytes)
        )  # fmt: skip
        if store != "elements" or strides[k] != stride or self.graph.values[node.inputs[k]].const is not None:
            return False
        name, start, _ = self.spans(node, range(y, y + 1))[0][k]
        first, _ = self.output(node, y)
        return self.address(node.outputs[0], first) <= self.address(name, start)

    def spans(self, node: Node, out: range) -> list[list[tuple[str, int, int]]]:
        """The spans (input, first byte, last byte + 1) that each of these output rows reads."""
        op = kernel_ops().get(node.op)
        if op is None or node.params is None:
            return [[(name, 0, self.graph.values[name].bytes) for name in node.inputs] for _ in out]
        inputs = list(zip(node.inputs, op.row_bytes(node.params)[0], strict=True))
        return [
            [
                (name, rows.start * stride, rows.stop * stride) if rows else (name, 0, 0)
                for (name, stride), rows in zip(inputs, op.needs(node.params, y), strict=True)
            ]
            for y in out
        ]

    def output(self, node: Node, y: int) -> tuple[int, int]:
        op = kernel_ops().get(node.op)
        if op is None or node.params is None:
            return 0, self.graph.values[node.outputs[0]].bytes
        stride = op.row_bytes(node.params)[1]
        first = 0 if op.accumulates else y * stride
        if op.accumulates and y > 0:
            self.read(node.outputs[0], 0, stride, node.name)
        return first, first + stride

    def root(self, name: str) -> int:
        while name in self.shared:
            name = self.shared[name]
        return self.number[name]

    def address(self, name: str, byte: int) -> int:
        slots = self.plan.slots.get(name)
        if slots is None:
            return self.start(name) + byte
        row = self.graph.values[name].bytes // len(slots)
        return slots[byte // row] + byte % row

    def start(self, name: str) -> int:
        outside = self.outside.get(self.root(name))
        return self.plan.offsets[name] if outside is None else outside

    def extent(self, name: str, start: int, end: int) -> Extent:
        """The lowest and the highest address of bytes start..end-1; constants have no addresses."""
        if start >= end or self.graph.values[name].const is not None or name in self.reserved:
            return 1, 0
        slots = self.plan.slots.get(name)
        if slots is None:
            return self.start(name) + start, self.start(name) + end - 1
        row = self.graph.values[name].bytes // len(slots)
        mine = slots[start // row : (end - 1) // row + 1]
        return min(mine), max(mine) + row - 1

    def places(self, name: str, start: int, end: int) -> tuple[np.ndarray, np.ndarray]:
        """The addresses and tags of bytes start..end-1 of a tensor."""
        inside = np.arange(start, end, dtype=np.int64)
        slots = self.plan.slots.get(name)
        if slots is None:
            where = self.start(name) + inside
        else:
            row = self.graph.values[name].bytes // len(slots)
            where = np.asarray(slots, np.int64)[inside // row] + inside % row
        end = self.plan.size if self.root(name) not in self.outside else self.tags.size
        assert where.size == 0 or (where.min() >= 0 and where.max() < end), f"{name} leaves the arena"
        return where, self.tags_of(name, inside)

    def tags_of(self, name: str, inside: Ints) -> Ints:
        """The tags of bytes of a tensor."""
        while name in self.views:
            name = self.views[name]
        return (self.number[name] << 32) + inside

    def write(self, name: str, start: int, end: int) -> Extent:
        """Write a row, and return the addresses that were written."""
        for first in range(start, end, PIECE):
            where, tags = self.places(name, first, min(end, first + PIECE))
            self.tags[where] = tags
        return self.extent(name, start, end)

    def read(self, name: str, start: int, end: int, reader: str) -> None:
        if self.graph.values[name].const is not None or name in self.reserved:
            return
        for first in range(start, end, PIECE):
            self.read_piece(name, first, min(end, first + PIECE), reader)

    def read_piece(self, name: str, start: int, end: int, reader: str) -> None:
        where, tags = self.places(name, start, end)
        wrong = np.flatnonzero(self.tags[where] != tags)
        if wrong.size:
            there = int(self.tags[where[wrong[0]]])
            lies = "garbage" if there < 0 else repr(list(self.graph.values)[there >> 32])
            raise AssertionError(f"{reader} reads {name!r}, but {lies} lies at byte {int(where[wrong[0]])}")

    def scratch(self, node: Node, step: Step) -> Extent:
        """Fill the scratch of a call with garbage, and return its addresses."""
        return self.clear(node, kernel(node.kernel or "").scratch(node.params), step)

    def clear(self, node: Node, size: int, step: Step) -> Extent:
        """Fill `size` bytes of the scratch of a call with garbage, and return their addresses."""
        if not size:
            return 1, 0
        start = self.plan.scratch_at(node.name, step.first + step.shift)
        assert start >= 0 and start + size <= self.plan.size, f"scratch of {node.name} leaves the arena"
        self.tags[start : start + size] = -1
        return start, start + size - 1


@dataclass(frozen=True)
class _Bytes:
    """Bytes of one row of a tensor. before: the bytes of the stored row before them; first: the bytes of the tensor
    before them.
    """

    name: str
    row: int
    row_size: int
    before: int
    first: int
    length: int


class _Tiles:
    """Replays a group in strips: each call in each strip and patch, with the columns of its tile."""

    def __init__(self, replay: _Replay, group: TiledGroup) -> None:
        self.replay, self.group, self.shifts = replay, group, dict[str, int]()

    def run(self, steps: Sequence[Step]) -> None:
        graph = self.replay.graph
        for step, number in self.group.calls(steps):
            self.call(step, graph.nodes[step.node], self.group.tiles[step.node][number])
        for number in self.group.tiles:  # the readers of their outputs prove that these are complete
            node = graph.nodes[number]
            self.replay.rows_done[node.name] = self.replay.row_count(node)

    def call(self, step: Step, node: Node, tile: Tile) -> None:
        """Replay one row of a tile. The data that it reads must not change while the row is written."""
        assert step.last == step.first + 1, f"{node.name} computes several rows of a strip"
        assert self.replay.root(node.outputs[0]) not in self.replay.given, f"{node.name} writes over an input"
        own = kernel(node.kernel or "")
        scratch = (own.row_scratch or own.scratch)(tile.params)
        self.shifts[node.outputs[0]] = step.shift
        reads, written = self.accesses(node, tile, step.first)
        self.replay.clear(node, scratch, step)
        self.require(reads, node)
        where, tags = self.places(written)
        self.replay.tags[where] = tags
        self.replay.clear(node, scratch, step)
        self.require(reads, node)

    def accesses(self, node: Node, tile: Tile, y: int) -> tuple[list[_Bytes], _Bytes]:
        """The bytes that row y of a tile reads and writes."""
        op = kernel_ops()[node.op]
        made = op.geometry.tile(node.params, tile.columns)
        assert made is not None and made[0] == tile.params, f"{node.name} has other params than its columns need"
        (of_tile, out_tile), (of_row, out_row) = op.row_bytes(tile.params), op.row_bytes(node.params)
        (read, written), needs = op.element_bytes, op.needs(node.params, y)
        each = zip(node.inputs, of_tile, of_row, tile.read, needs, strict=True)
        reads = [
            _Bytes(name, row, size, before, row * size + made[1] * read, length)
            for name, length, size, before, rows in each
            for row in rows
        ]
        row = 0 if op.accumulates else y
        output = _Bytes(node.outputs[0], row, out_row, tile.written, row * out_row + made[2] * written, out_tile)
        return reads + [output] * (op.accumulates and y > 0), output

    def places(self, one: _Bytes) -> tuple[Ints, Ints]:
        """The addresses and tags of these bytes. Raises AssertionError unless they are in one row."""
        plan, replay = self.replay.plan, self.replay
        size, slots = self.group.rows.get(one.name, one.row_size), plan.slots.get(one.name)
        assert 0 <= one.before <= size - one.length, f"{one.name}: a strip leaves its row"
        row = one.row + self.shifts.get(one.name, 0)
        start = slots[row] if slots is not None else replay.start(one.name) + row * size
        end = plan.size if replay.root(one.name) not in replay.outside else replay.tags.size
        assert 0 <= start <= end - size, f"{one.name} leaves the arena"
        inside = np.arange(one.length, dtype=np.int64)
        return start + one.before + inside, replay.tags_of(one.name, one.first + inside)

    def require(self, reads: Sequence[_Bytes], node: Node) -> None:
        for one in reads:
            where, tags = self.places(one)
            assert (self.replay.tags[where] == tags).all(), f"{node.name} reads {one.name!r} where it is not"


def _union(spans: Sequence[tuple[str, int, int]]) -> list[tuple[str, int, int]]:
    """The bytes of one input in as few spans as possible."""
    merged: list[tuple[str, int, int]] = []
    for name, start, end in sorted(dict.fromkeys(spans)):
        if merged and start <= merged[-1][2]:
            merged[-1] = (name, merged[-1][1], max(end, merged[-1][2]))
        elif start < end:
            merged.append((name, start, end))
    return merged
