"""Which bytes of an output may lie over which bytes of an input, by address, from nothing but the integer reference.

In: a kernel-level node. The inputs that each element of the output depends on are found by changing the elements of the
input one by one. Then a kernel is a timetable, when each byte of the input is read for the last time and when each byte
of the output is written for the first time: where a byte is written before it was read for the last time, the data is
destroyed. `needs`, the store rules' formulas and the planner are not asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glowembed.graph.ir import Array, Graph, Node, Value
from glowembed.graph.op import KernelOp
from glowembed.graph.registry import kernel_ops
from glowembed.ops.attention import MASK

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

NEVER = -1
"""The time of a read that never happens."""


@dataclass(frozen=True)
class Tensor:
    """Elements of `item` bytes in rows of `row` elements."""

    elements: int
    item: int
    row: int

    @property
    def bytes(self) -> int:
        return self.elements * self.item

    @property
    def rows(self) -> int:
        return -(-self.elements // self.row)

    def in_bytes(self, times: Ints) -> Ints:
        """The same array for bytes: each byte has the entry of its element."""
        return np.repeat(times, self.item)


@dataclass(frozen=True)
class Dependence:
    """reads[o, e]: element o of the output depends on element e of the input."""

    x: Tensor
    y: Tensor
    reads: Bools
    accumulates: bool

    def last_output(self, outputs: Ints) -> Ints:
        """For each element of the input, the largest number in `outputs`, one for each of the output, that needs it."""
        return np.where(self.reads, outputs[:, None], NEVER).max(axis=0, initial=NEVER)

    def rows_read(self, y: int) -> list[int]:
        """The rows of the input that are read for row y of the output."""
        some = self.reads[y * self.y.row : (y + 1) * self.y.row].any(axis=0)
        return sorted({int(e) // self.x.row for e in np.flatnonzero(some)})


def dependence(node: Node, graph: Graph, index: int) -> Dependence:
    """The elements of input `index` on which each element of a node's output depends."""
    op = kernel_ops()[node.op]
    constants = {name: const.materialize() for name, const in node.constants.items()}
    strides, out_stride = op.row_bytes(node.params)
    values = [graph.values[name] for name in node.inputs]
    rng = np.random.default_rng(1)
    low, high = _limits(values[index])
    found: Bools | None = None
    for base in ("low", "random"):
        inputs = [_filled(value, base if i == index else "random", rng) for i, value in enumerate(values)]
        before, flat = _bits(op, node, inputs, constants), inputs[index].reshape(-1)
        reads = np.zeros((before.size, flat.size), np.bool_)
        for e, old in enumerate(flat.tolist()):
            flat[e] = high if 2 * old < low + high else low
            reads[:, e] = _bits(op, node, inputs, constants) != before
            flat[e] = old
        found = reads if found is None else found | reads
    assert found is not None
    x = Tensor(flat.size, flat.itemsize, strides[index] // flat.itemsize)
    item = graph.values[node.outputs[0]].bytes // found.shape[0]
    return Dependence(x, Tensor(found.shape[0], item, out_stride // item), found, op.accumulates)


def _bits(op: KernelOp, node: Node, inputs: Sequence[Array], constants: dict[str, Array]) -> Array:
    found = np.ascontiguousarray(op.int_ref(node.params, inputs, constants)).reshape(-1)
    return found.view(f"u{found.itemsize}").copy()


def _limits(value: Value) -> tuple[float, float]:
    if value.qtype is None:
        return -2.0, 3.0
    if value.qtype == MASK:
        return -40, 40  # so that every key counts
    return (-2000, 2000) if value.qtype.dtype == "int32" else value.qtype.limits


def _filled(value: Value, how: str, rng: np.random.Generator) -> Array:
    if value.const is not None:
        return value.const.materialize().copy()
    low, high = _limits(value)
    dtype = value.qtype.dtype if value.qtype is not None else "float32"
    data = np.full(value.shape, low) if how == "low" else rng.uniform(low, high, value.shape)
    return data.astype(dtype)


@dataclass(frozen=True)
class Timetable:
    """For each byte of the input, when it is read for the last time (NEVER: not at all); for each byte of the output, when
    it is written for the first time.
    """

    read: Ints
    written: Ints

    def survives(self, distance: int) -> bool:
        """Whether all that is read is still there when the output begins `distance` bytes before the input."""
        at = np.arange(self.written.size) - distance
        inside = (at >= 0) & (at < self.read.size)
        return not bool((self.read[at[inside]] > self.written[inside]).any())

    def destroyed(self, unit: int) -> tuple[int, int] | None:
        """The smallest and the largest distance in units at which something is destroyed."""
        first = -(self.read.size // unit) * unit
        wrong = [d for d in range(first, self.written.size + unit, unit) if not self.survives(d)]
        return (wrong[0], wrong[-1]) if wrong else None


def by_rows(d: Dependence, whole_rows: bool = False) -> Timetable:
    """Row by row; a row is still being read when its last element is written. whole_rows: with any of its elements a row
    of the input is read to its end.
    """
    row = np.zeros(d.y.elements, np.int64) if d.accumulates else np.arange(d.y.elements) // d.y.row
    last = d.last_output(row)
    if whole_rows:
        last = np.repeat(last.reshape(d.x.rows, d.x.row).max(axis=1), d.x.row)
    return Timetable(d.x.in_bytes(np.where(last == NEVER, NEVER, 2 * last + 1)), d.y.in_bytes(2 * row))


def by_elements(d: Dependence, together: int = 1, read_before: bool = False) -> Timetable:
    """`together` elements of the output at a time: what they depend on is read, then they are written. read_before: a
    row is gone through before, and then only the same element of it is read.
    """
    place = np.arange(d.y.elements) // together
    reads = d.reads
    if read_before:
        same = np.arange(d.y.elements)[:, None] % d.y.row == np.arange(d.x.elements)[None, :] % d.x.row
        reads = reads & same
    last = Dependence(d.x, d.y, reads, d.accumulates).last_output(place)
    return Timetable(d.x.in_bytes(np.where(last == NEVER, NEVER, 2 * last)), d.y.in_bytes(2 * place + 1))


def in_blocks(d: Dependence, blocks: Sequence[Sequence[int]]) -> Timetable:
    """Blocks of rows of the output: what all of its rows depend on is read, then they are written."""
    place = np.zeros(d.y.rows, np.int64)
    for i, rows in enumerate(blocks):
        place[list(rows)] = i
    row = place[np.arange(d.y.elements) // d.y.row]
    last = d.last_output(row)
    return Timetable(d.x.in_bytes(np.where(last == NEVER, NEVER, 2 * last)), d.y.in_bytes(2 * row + 1))


def line_by_line(height: int, width: int, channels: int, down: bool) -> Timetable:
    """3x3 over an image of bytes with a border of one, four channels at a time through all lines, rows or columns (down):
    three lines are in scratch when the middle one is written. Where four do not divide the channels, the second four
    begin among the first.
    """
    y, x, c = np.indices((height, width, channels))
    line, lines = (x, width) if down else (y, height)
    read, written = np.zeros(line.shape, np.int64), np.full(line.shape, np.iinfo(np.int64).max)
    rest = channels % 4
    for turn, first in enumerate([0, *range(rest or 4, channels, 4)]):
        mine = (c >= first) & (c < first + 4)
        read[mine] = 2 * (turn * (lines + 1) + np.maximum(line, 1))[mine]
        written[mine] = np.minimum(written, 2 * (turn * (lines + 1) + line + 1) + 1)[mine]
    return Timetable(read.reshape(-1), written.reshape(-1))
