"""Computes which rows every node reads and writes, for order, streaming, placement and their checks.

In: a kernel-level graph. Out: Rows. Values that share memory (views, the parts of a concat) are one Storage. A storage
is divided into rows as its producer writes them; an access in rows of another size touches all rows that it overlaps.
Constants are in flash and do not appear.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from glowembed.graph import limits
from glowembed.graph.ir import Graph, Node
from glowembed.graph.op import KernelOp, Store
from glowembed.graph.plan import OUTSIDE
from glowembed.graph.registry import kernel, kernel_ops
from glowembed.records import dataclass

Ints = NDArray[np.int64]

Span = tuple[int, int]
"""The rows first..last-1 of a storage."""

NO_OTHERS: Mapping[str, Sequence[str]] = {}

STORES: tuple[Store, ...] = ("disjoint", "rows", "elements")
"""The store rules, the strictest first."""


@dataclass(frozen=True)
class Choice:
    """A kernel that may compute a node instead of its own. in_parts: only in calls for some of the rows."""

    symbol: str
    scratch: int
    in_parts: bool = False


@dataclass(frozen=True)
class Storage:
    """The memory of one or several values.

    whole: its rows must be contiguous, because a reader requires it. outside: it is not planned, because it belongs to
    the caller, whose inputs must not change, or is a state with its own place (states.py).
    """

    values: tuple[str, ...]
    bytes: int
    row_bytes: int
    whole: bool
    is_input: bool
    is_output: bool
    outside: bool = False

    @property
    def rows(self) -> int:
        return -(-self.bytes // self.row_bytes) if self.bytes else 1


@dataclass(frozen=True)
class Work:
    """The accesses of a node for each of its output rows: `reads[i][y]` are rows of storage `inputs[i]`. The output is
    not among them; a part is written after the parts before it.

    in_place: positions in `inputs` over which an element may be written once it has been read. streamable: whether it
    can be called for some rows while others do not exist. same_place: whether one call for all rows may write the
    output exactly over input 0. kernels: those that may compute it with these accesses, its own first; none if there is
    nothing to call.
    """

    index: int
    name: str
    rows: int
    inputs: tuple[int, ...]
    reads: tuple[tuple[Span, ...], ...]
    output: int
    writes: tuple[Span, ...]
    store: Store
    in_place: tuple[int, ...]
    streamable: bool
    same_place: bool
    kernels: tuple[Choice, ...]

    @property
    def scratch(self) -> int:
        """The bytes of scratch that its own kernel needs during a call."""
        return self.kernels[0].scratch if self.kernels else 0

    @cached_property
    def accumulates(self) -> bool:
        """Whether all rows are added to one row."""
        return self.rows > 1 and self.writes[-1] == self.writes[0]

    @cached_property
    def needs(self) -> tuple[tuple[int, tuple[int, ...]], ...]:
        """For the output and then each input: (storage, the rows that must exist, by the number of computed rows)."""
        spans = ((self.output, self.writes), *zip(self.inputs, self.reads, strict=True))
        return tuple((storage, tuple(accumulate((b for _, b in rows), max, initial=0))) for storage, rows in spans)

    @cached_property
    def row_that_completes(self) -> tuple[int, ...]:
        """For each i, the number of computed rows after which rows 0..i of the output's storage are complete."""
        last = [0] * max((end for _, end in self.writes), default=0)
        for y, (first, end) in enumerate(self.writes):
            last[first:end] = [y + 1] * (end - first)
        return tuple(accumulate(last, max))

    @cached_property
    def written(self) -> tuple[Ints, Ints]:
        """For each row of the output's storage, the first and the last computed row that writes it; `rows` and -1 if
        none does.
        """
        first = np.full(max((end for _, end in self.writes), default=0), self.rows, np.int64)
        for y in reversed(range(self.rows)):
            a, b = self.writes[y]
            first[a:b] = y
        return first, _last(self.writes)

    @cached_property
    def read_last(self) -> tuple[Ints, ...]:
        """For each input, the last computed row that reads each row of its storage; -1 if none does."""
        return tuple(_last(spans) for spans in self.reads)


def _last(spans: Sequence[Span]) -> Ints:
    """For each row, the number of the last span that contains it; -1 if none does."""
    last = np.full(max((end for _, end in spans), default=0), -1, np.int64)
    for y, (a, b) in enumerate(spans):
        last[a:b] = y
    return last


@dataclass(frozen=True)
class Rows:
    """All storages and, in order of execution, the work of all nodes that touch memory (views do not)."""

    storages: tuple[Storage, ...]
    works: tuple[Work, ...]
    storage_of: dict[str, int]

    @cached_property
    def readers(self) -> tuple[tuple[int, ...], ...]:
        """For each storage, the positions in `works` that read it."""
        found: list[list[int]] = [[] for _ in self.storages]
        for position, work in enumerate(self.works):
            for storage in dict.fromkeys(work.inputs):
                found[storage].append(position)
        return tuple(map(tuple, found))

    @cached_property
    def writers(self) -> tuple[tuple[int, ...], ...]:
        """For each storage, the positions in `works` that write it."""
        found: list[list[int]] = [[] for _ in self.storages]
        for position, work in enumerate(self.works):
            found[work.output].append(position)
        return tuple(map(tuple, found))

    @cached_property
    def _needs(self) -> dict[tuple[int, int, bool], tuple[tuple[int, int], ...]]:
        return {}

    def needs(self, position: int, end: int, backwards: bool) -> tuple[tuple[int, int], ...]:
        """The pairs (position, number of its rows) that must be complete before rows up to `end` of a node can be
        computed: first the parts written before it, then the producers of its inputs, in order or backwards.
        """
        key = position, end, backwards
        if key not in self._needs:
            work = self.works[position]
            own, *inputs = work.needs
            self._needs[key] = tuple(
                (producer, self.works[producer].row_that_completes[needed - 1])
                for storage, up_to in (own, *(inputs[::-1] if backwards else inputs))
                if (needed := up_to[end])
                for producer in self.writers[storage]
                if storage != work.output or producer < position
            )
        return self._needs[key]


def rows_of(graph: Graph, legal: Mapping[str, Sequence[str]] = NO_OTHERS, finest: int = limits.ROWS_OF_A_NODE) -> Rows:
    """The accesses of a graph whose nodes have kernels.

    legal: for each node, by name, kernels that could replace its own. A node of more than `finest` rows has one row,
    its whole tensor.
    """
    members = _members(graph)
    storage_of = {name: i for i, names in enumerate(members) for name in names}
    read, written = _touched(graph, finest)
    storages = tuple(_storage(graph, names, read, written) for names in members)
    works = tuple(
        _work(graph, i, node, storages, storage_of, legal.get(node.name, ()), finest)
        for i, node in enumerate(graph.nodes)
        if not _is_view(node)
    )
    return Rows(storages, works, storage_of)


def total_rows(graph: Graph, finest: int = limits.ROWS_OF_A_NODE) -> int:
    """The number of rows of all nodes, as `rows_of` counts them."""
    return sum(count if (count := row_count(n)) <= finest else 1 for n in graph.nodes)


def accesses(rows: Rows) -> int:
    """The number of rows that all nodes read and write."""
    return sum(b - a for work in rows.works for spans in (*work.reads, work.writes) for a, b in spans)


def finest(graph: Graph) -> int:
    """The most rows of a node that the planner treats one by one."""
    if graph not in _FINEST:
        many = total_rows(graph) > limits.TOLD_APART or accesses(rows_of(graph)) > limits.ACCESSES
        _FINEST[graph] = 1 if many else limits.ROWS_OF_A_NODE
    return _FINEST[graph]


_FINEST: MutableMapping[Graph, int] = WeakKeyDictionary()
"""What `finest` has found for the graphs that exist."""


def too_long(graph: Graph) -> bool:
    """Whether there are too many rows or nodes to search for layers that run row by row."""
    many = len(graph.nodes) > limits.STREAMED_NODES or total_rows(graph) > limits.STREAMED_ROWS
    return many or finest(graph) == 1


def simpler(graph: Graph, streaming: bool) -> str:
    """The part of planning that is skipped for a long network, and why; "" for others. streaming: whether row-by-row
    computation was requested.
    """
    longest = max(graph.nodes, key=row_count, default=None)
    rows = total_rows(graph)
    if finest(graph) == 1:
        return f"planned with whole tensors, because {graph.name} has {rows} rows, too many to be told apart"
    if longest is not None and row_count(longest) > limits.ROWS_OF_A_NODE:
        return (
            f"planned with the whole tensors of {longest.name!r} and all others of more than {limits.ROWS_OF_A_NODE} rows, "
            f"because it has {row_count(longest)}"
        )
    if streaming and too_long(graph):
        return f"planned without layers that go row by row, because {graph.name} has {len(graph.nodes)} nodes and {rows} rows"
    return ""


def _is_view(node: Node) -> bool:
    """Whether a node is a view, or only reserves memory."""
    return reserves(node) or (node.kernel is None and node.shares is not None)


def reserves(node: Node) -> bool:
    """Whether a node only reserves memory, which exists from the first write of a later node on."""
    return node.kernel is None and not node.inputs


def _members(graph: Graph) -> list[tuple[str, ...]]:
    """The values that share memory because a node requires it (`shares`), in the order of the graph."""
    root: dict[str, str] = {}
    for node in graph.nodes:
        if node.shares is not None and graph.values[node.inputs[node.shares]].const is None:
            source = node.inputs[node.shares]
            root[node.outputs[0]] = root.get(source, source)
    groups: dict[str, list[str]] = {}
    for name, value in graph.values.items():
        if value.const is None:
            groups.setdefault(root.get(name, name), []).append(name)
    return [tuple(names) for names in groups.values()]


def stored_together(graph: Graph) -> dict[str, tuple[str, ...]]:
    """For each value, all values that share its memory."""
    return {name: names for names in _members(graph) for name in names}


def outside(graph: Graph) -> dict[str, str]:
    """For each value outside the arena, the input or output in whose memory it lies."""
    found: dict[str, str] = {}
    for names in _members(graph):
        owner = next((n for n in names if graph.values[n].place in OUTSIDE), None)
        found |= dict.fromkeys(names, owner) if owner is not None else {}
    return found


Touched = Mapping[str, Sequence[int]]
"""For each value, the bytes of a row in each node that reads or writes it."""


def _touched(graph: Graph, finest: int) -> tuple[Touched, Touched]:
    """The values that are read, and those that are written."""
    read: dict[str, list[int]] = {}
    written: dict[str, list[int]] = {}
    for node in graph.nodes:
        if not _is_view(node):
            strides, out_stride = _strides(graph, node, finest)
            written.setdefault(node.outputs[0], []).append(out_stride)
            for name, stride in zip(node.inputs, strides, strict=True):
                read.setdefault(name, []).append(stride)
    return read, written


def _storage(graph: Graph, names: tuple[str, ...], reads: Touched, writes: Touched) -> Storage:
    size = max(graph.values[name].bytes for name in names)
    written, read = ({stride for name in names for stride in strides.get(name, ())} for strides in (writes, reads))
    row_bytes = size if len(written) > 1 else min(written or read or {size})
    if row_bytes <= 0 or size % row_bytes:
        row_bytes = size
    is_input, is_output = any(n in names for n in graph.inputs), any(n in names for n in graph.outputs)
    whole = is_input or is_output or bool((written | read) - {row_bytes})
    outside = any(graph.values[n].place != "arena" for n in names)
    return Storage(names, size, row_bytes, whole, is_input, is_output, outside)


def _op(node: Node, finest: int) -> KernelOp[Any] | None:
    """The kernel-level op of a node; None if the node has no params, or too many rows."""
    op = kernel_ops().get(node.op)
    return op if op is not None and node.params is not None and op.rows(node.params) <= finest else None


def _strides(graph: Graph, node: Node, finest: int) -> tuple[tuple[int, ...], int]:
    op = _op(node, finest)
    if op is not None:
        return op.row_bytes(node.params)
    return tuple(graph.values[name].bytes for name in node.inputs), graph.values[node.outputs[0]].bytes


def _work(
    graph: Graph,
    index: int,
    node: Node,
    storages: tuple[Storage, ...],
    storage_of: dict[str, int],
    legal: Sequence[str],
    finest: int,
) -> Work:
    op, (strides, out_stride) = _op(node, finest), _strides(graph, node, finest)
    rows = op.rows(node.params) if op is not None else 1
    output = storage_of[node.outputs[0]]
    inputs = [(i, s) for i, name in enumerate(node.inputs) if (s := storage_of.get(name, output)) != output]
    needs = [op.needs(node.params, y) for y in range(rows)] if op is not None else [(range(1),) * len(node.inputs)]
    reads = tuple(tuple(_cover(needs[y][i], strides[i], storages[s]) for y in range(rows)) for i, s in inputs)
    accumulates = op is not None and op.accumulates
    writes = tuple(
        _cover(range(1) if accumulates else range(y, y + 1), out_stride, storages[output]) for y in range(rows)
    )
    store = kernel(node.kernel).store_of(node.params) if node.kernel is not None else "disjoint"
    whole_rows = storages[output].row_bytes == out_stride and not accumulates
    in_place = tuple(
        k for k, (i, s) in enumerate(inputs)
        if store == "elements" and whole_rows and storages[s].row_bytes == strides[i] == out_stride
        and not storages[s].outside and not storages[output].outside and (op is not None or _row_for_row(node.op, node.params, i))
    )  # fmt: skip
    return Work(
        index, node.name, rows, tuple(s for _, s in inputs), reads, output, writes, store, in_place,
        node.kernel is not None and (node.shares is None or (rows > 1 and whole_rows)) and row_count(node) <= finest,
        _same_place(node, node.kernel) and len(inputs) == 1
        and not storages[output].outside and not storages[inputs[0][1]].outside,
        choices_of(node, legal),
    )  # fmt: skip


def row_count(node: Node) -> int:
    """The number of rows that the node's kernel computes."""
    op = kernel_ops().get(node.op)
    return op.rows(node.params) if op is not None and node.params is not None else 1


@lru_cache(1024)
def _row_for_row(name: str, params: Any, index: int) -> bool:
    """Whether row y of the output of an op needs exactly row y of this input, of the same size."""
    op = kernel_ops().get(name)
    if op is None or params is None:
        return True
    strides, stride = op.row_bytes(params)
    same = (op.needs(params, y)[index] == range(y, y + 1) for y in range(op.rows(params)))
    return strides[index] == stride and all(same)


def _same_place(node: Node, symbol: str | None) -> bool:
    return symbol is not None and node.params is not None and kernel(symbol).same_place(node.params)


def choices_of(node: Node, legal: Sequence[str]) -> tuple[Choice, ...]:
    """The node's own kernel, and the kernels whose output may overlap an input at least as far."""
    if node.kernel is None:
        return ()
    store = STORES.index(kernel(node.kernel).store_of(node.params))
    found = [Choice(node.kernel, kernel(node.kernel).scratch(node.params))]
    for symbol in legal:
        other = kernel(symbol)
        if symbol != node.kernel and STORES.index(other.store_of(node.params)) >= store:
            in_parts = _same_place(node, node.kernel) and not other.same_place(node.params)
            found.append(Choice(symbol, other.scratch(node.params), in_parts))
    return tuple(found)


def _cover(rows: range, stride: int, storage: Storage) -> Span:
    """Rows of `stride` bytes as rows of the storage; all of its rows if an access does not consist of whole rows."""
    if not rows:
        return 0, 0
    if storage.bytes == 0:
        return 0, storage.rows
    if stride == storage.row_bytes:
        return rows.start, rows.stop
    return rows.start * stride // storage.row_bytes, min(storage.rows, -(-rows.stop * stride // storage.row_bytes))
