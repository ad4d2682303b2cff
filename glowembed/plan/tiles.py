"""Cuts a group of layers into vertical strips and patches, so that only narrow pieces of its tensors exist at a time.

In: Rows, the graph, costs, a group of works, a Tiling. Out: Tiled, the works and storages of one strip. All strips are
computed by the same calls at the same addresses, one strip after the other, and columns that two strips need are
computed twice. Some works within the group may be patched: a few rows of the last of them are computed patch after
patch, and everything that a patch needs is computed afresh, so that rows are also computed twice. Rows that are
computed again have new numbers, so that the rest of the planner sees only rows that are computed once.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from glowembed.graph.ir import Graph, Node
from glowembed.graph.registry import kernel, kernel_ops
from glowembed.graph.tiles import Tile, TiledGroup
from glowembed.plan.calls import Call, Loop
from glowembed.plan.costs import Costs
from glowembed.plan.rows import Choice, Rows, Span, Storage, Work
from glowembed.records import dataclass

Bytes = tuple[int, int]
"""The first byte of a row, and the last byte + 1."""


@dataclass(frozen=True)
class Tiling:
    """How a group is cut. strips: of its output. first..last-1: the positions in Rows.works that are patched, none if
    these are equal. The other fields give the rows of a patch and the number of patches.
    """

    strips: int
    first: int = 0
    last: int = 0
    height: int = 0
    patches: int = 1


@dataclass(frozen=True)
class Tiled:
    """works[first:last] of a group in one strip, with the storages that only they use. tiles: for each work, what it
    computes in each strip or, if it is patched, in each patch of each strip. counts: for each block of patched rows,
    the rows that each work has computed at its end. shifts: how much larger the number of a row is here than in the
    tensor.
    """

    first: int
    last: int
    tiling: Tiling
    works: tuple[Work, ...]
    storages: Mapping[int, Storage]
    tiles: tuple[tuple[Tile, ...], ...]
    counts: tuple[Mapping[int, int], ...] = ()
    shifts: tuple[Mapping[int, int], ...] = ()

    def rows(self, rows: Rows) -> Rows:
        """All storages and works, with this group in one strip."""
        works = (*rows.works[: self.first], *self.works, *rows.works[self.last :])
        storages = tuple(self.storages.get(i, storage) for i, storage in enumerate(rows.storages))
        return replace(rows, storages=storages, works=works)

    def shift(self, position: int, row: int) -> int:
        """How much larger the number of this row is here than in the tensor."""
        if position not in self.patched:
            return 0
        blocks = zip(self.counts, self.shifts, strict=True)
        return next(shifts[position] for counts, shifts in blocks if row < counts[position])

    @property
    def patched(self) -> range:
        """The positions of the works that are patched."""
        return range(self.tiling.first, self.tiling.last)

    @cached_property
    def borders(self) -> tuple[int, ...]:
        """The storages that a strip shares with other strips, because it reads them again or writes a part of them."""
        return _borders(self.works)

    @cached_property
    def patch_borders(self) -> tuple[int, ...]:
        """The storages that a patch shares with other patches."""
        return _borders([self.works[p - self.first] for p in self.patched])


def group_of(tiled: Tiled, rows: Rows, calls: Sequence[Call], loops: Sequence[Loop]) -> TiledGroup:
    """The group for a plan with these calls and loops."""
    mine = [i for i, (position, _, _) in enumerate(calls) if tiled.first <= position < tiled.last]
    own = [loop for loop in loops if mine[0] <= loop.first and loop.last <= mine[-1] + 1]
    ends = [end - mine[0] for loop in own[1:] for end in (loop.first, loop.last)]
    return TiledGroup(
        rows.works[tiled.first].index,
        rows.works[tiled.last - 1].index + 1,
        tiled.tiling.strips,
        tiled.tiling.patches,
        {rows.works[tiled.first + i].index: tiles for i, tiles in enumerate(tiled.tiles)},
        (*ends, len(mine)),
        {rows.storages[s].values[0]: one.row_bytes for s, one in tiled.storages.items()},
    )


def _borders(works: Sequence[Work]) -> tuple[int, ...]:
    written, read = {w.output for w in works}, {s for w in works for s in w.inputs}
    return tuple(sorted(written ^ read))


@dataclass
class Tiler:
    """Cuts groups of works of one graph."""

    graph: Graph
    rows: Rows
    costs: Costs
    known: dict[tuple[int, Any, str], int | None] = field(default_factory=dict)
    packed: dict[tuple[int, Any, str], int] = field(default_factory=dict)
    spent: dict[tuple[int, Any, str], float] = field(default_factory=dict)

    def node(self, position: int) -> Node:
        return self.graph.nodes[self.rows.works[position].index]

    def allowed(self, first: int, last: int) -> bool:
        """Whether works[first:last] may be a group in strips, or in one strip if some can compute only whole rows: only the
        output of the last one is read outside.
        """
        able = all(self.cuttable[p] or self.summing[p] for p in range(first, last))
        return last - first > 1 and able and all(
            self._inner(self.rows.works[p].output, first, last) for p in range(first, last - 1)
        )  # fmt: skip

    @cached_property
    def summing(self) -> list[bool]:
        """For each work, whether it adds up whole rows."""
        return [self._cuts(p, sums=True) for p in range(len(self.rows.works))]

    def patchable(self, first: int, last: int, group: tuple[int, int]) -> bool:
        """Whether works[first:last] of a group may be patched: they read one tensor, and only the output of the last
        one is read outside.
        """
        made = {self.rows.works[p].output for p in range(first, last)}
        read = {s for p in range(first, last) for s in self.rows.works[p].inputs} - made
        readers = {r for p in range(first, last - 1) for r in self.rows.readers[self.rows.works[p].output]}
        between = all(first <= r < last for r in readers)
        return between and len(read) == 1 and self.rows.works[last - 1].output not in {
            s for p in range(first, last) for s in self.rows.works[p].inputs
        }  # fmt: skip

    @cached_property
    def cuttable(self) -> list[bool]:
        """For each work, whether it can compute some columns of whole rows from whole rows."""
        return [self._cuts(p) for p in range(len(self.rows.works))]

    def _cuts(self, position: int, sums: bool = False) -> bool:
        """Whether a work computes some columns of whole rows from whole rows or, with `sums`, adds up whole rows."""
        work, node = self.rows.works[position], self.node(position)
        op = kernel_ops().get(node.op)
        if op is None or node.kernel is None or node.shares is not None or op.accumulates != sums or work.rows < 2:
            return False
        strides, stride = op.row_bytes(node.params)
        whole = (op.geometry.tile if sums else op.geometry.across)(node.params, range(op.geometry.columns(node.params)))
        return (
            whole is not None
            and op.rows(node.params) == work.rows
            and len(work.inputs) == len(node.inputs)
            and self.rows.storages[work.output].row_bytes == stride
            and self.rows.writers[work.output] == (position,)
            and all(self.rows.storages[s].row_bytes == n for s, n in zip(work.inputs, strides, strict=True))
        )

    def _inner(self, storage: int, first: int, last: int) -> bool:
        """Whether only works[first:last] use the storage, so that it may be as narrow as they need."""
        one = self.rows.storages[storage]
        own = not (one.whole or one.is_input or one.is_output or one.outside) and len(one.values) == 1
        return own and all(first <= r < last for r in self.rows.readers[storage])

    def pixel(self, position: int) -> int:
        """The bytes of a pixel of the output."""
        return self._pixels[position]

    @cached_property
    def _pixels(self) -> list[int]:
        values = [self.graph.values[self.node(p).outputs[0]] for p in range(len(self.rows.works))]
        return [
            max(1, value.bytes * value.shape[-1] // max(value.elements, 1)) if len(value.shape) == 4 else self.row(p)
            for p, value in enumerate(values)
        ]

    def row(self, position: int) -> int:
        """The bytes of a row of the output."""
        return self.rows.storages[self.rows.works[position].output].row_bytes

    def width(self, position: int) -> int:
        """The pixels of a row of the output."""
        return self.row(position) // self.pixel(position)

    def tile(self, position: int, width: int) -> Tile | None:
        """A tile of `width` pixels in the middle of a row; None if these cannot be computed alone."""
        node = self.node(position)
        geometry = kernel_ops()[node.op].geometry
        each = geometry.columns(node.params) // self.width(position)
        start = (self.width(position) - width) // 2
        columns = range(each * start, each * (start + width))
        made = geometry.tile(node.params, columns)
        return Tile(columns, made[0], (), 0) if made is not None else None

    def tiled(self, first: int, last: int, tiling: Tiling) -> Tiled | None:
        """The group in one strip; None if no kernel can compute all strips of a layer."""
        cut = _Cut(self, first, last, tiling)
        if not cut.made:
            return None
        choices = {p: self._choices(p, cut.tiles[p]) for p in range(first, last)}
        if not all(choices.values()):
            return None
        counts, shifts = self._counts(first, tiling)
        virtual = _Virtual(self.rows, tiling, counts, shifts)
        works = tuple(virtual.work(p, choices[p]) for p in range(first, last))
        storages = {
            s: replace(self.rows.storages[s], row_bytes=size, bytes=size * virtual.rows_of(s))
            for s, size in cut.sizes.items()
        }
        tiles = tuple(tuple(cut.tiles[p]) for p in range(first, last))
        return Tiled(first, last, tiling, works, storages, tiles, tuple(counts), tuple(shifts))

    def _choices(self, position: int, tiles: Sequence[Tile]) -> tuple[Choice, ...]:
        """The kernels of a work that can compute all tiles, one row at a time, with the same constants."""
        found = []
        distinct = list(dict.fromkeys(tile.params for tile in tiles))
        for choice in self.rows.works[position].kernels:
            known = (self.scratch(position, params, choice.symbol) for params in distinct)
            scratch = [one for one in known if one is not None]
            if len(scratch) == len(distinct) and self._same_constants(position, distinct, choice.symbol):
                found.append(Choice(choice.symbol, max(scratch)))
        return tuple(found)

    def scratch(self, position: int, params: Any, symbol: str) -> int | None:
        """The scratch of a kernel for one row of a tile; None if it cannot compute it."""
        key = (position, params, symbol)
        if key not in self.known:
            own, whole = kernel(symbol), self.node(position)
            node = replace(whole, params=params, kernel=symbol)
            able = own.columns or params == whole.params
            legal = able and (self.costs.target is None or own.when(node, self.costs.target) is None)
            self.known[key] = (own.row_scratch or own.scratch)(params) if legal else None
        return self.known[key]

    def _same_constants(self, position: int, distinct: Sequence[Any], symbol: str) -> bool:
        """Whether a kernel packs the same constants for all these params."""
        own = kernel(symbol)
        if own.arrange is None and not own.pack:
            return True
        packed = []
        for params in distinct:
            key = (position, params, symbol)
            if key not in self.packed:
                self.packed[key] = self._packed(replace(self.node(position), params=params, kernel=symbol))
            packed.append(self.packed[key])
        return len(set(packed)) == 1

    def _packed(self, node: Node) -> int:
        arrays = kernel(node.kernel or "").packed({n: c.materialize() for n, c in node.constants.items()}, node.params)
        return hash(tuple((n, str(a.dtype), np.ascontiguousarray(a).tobytes()) for n, a in arrays.items()))

    def cycles(self, position: int, symbol: str, tiles: Sequence[Tile]) -> float:
        """The cycles of the calls that compute one row of each tile."""
        return sum(self._spent(position, tile, symbol) for tile in tiles)

    def _spent(self, position: int, tile: Tile, symbol: str) -> float:
        key = (position, tile.params, symbol)
        if key not in self.spent:
            self.spent[key] = self.costs.rows(replace(tile.node(self.node(position)), kernel=symbol), 1)
        return self.spent[key]

    def _counts(self, first: int, tiling: Tiling) -> tuple[list[dict[int, int]], list[dict[int, int]]]:
        """For each block of patched rows, the rows that are computed at its end, and the shifts of its rows."""
        patched = range(tiling.first, tiling.last)
        counts: list[dict[int, int]] = []
        shifts: list[dict[int, int]] = []
        before, ends = dict.fromkeys(patched, 0), dict.fromkeys(patched, 0)
        rows = self.rows.works[tiling.last - 1].rows if patched else 0
        for start in range(0, rows, tiling.height or 1):
            need = self._windows(patched, (start, min(start + tiling.height, rows)), ends)
            counts.append({p: before[p] + need[p][1] - need[p][0] for p in patched})
            shifts.append({p: before[p] - need[p][0] for p in patched})
            before, ends = dict(counts[-1]), {p: max(ends[p], need[p][1]) for p in patched}
        return counts, shifts

    def _windows(self, patched: range, out: tuple[int, int], ends: Mapping[int, int]) -> dict[int, tuple[int, int]]:
        """The rows that each work computes for these rows of the last one; no row is skipped between two blocks."""
        need: dict[int, tuple[int, int]] = {}
        for p in reversed(patched):
            low, high = need.get(p, (NONE, 0)) if p != patched[-1] else out
            low = min(low, ends[p])
            high = max(high, low)
            need[p] = low, high
            work = self.rows.works[p]
            for storage, reads in zip(work.inputs, work.reads, strict=True):
                spans = [span for span in reads[low:high] if span[0] < span[1]]
                for producer in self.rows.writers[storage] if spans else ():
                    if producer in patched:
                        a, b = need.get(producer, (NONE, 0))
                        need[producer] = min(a, *(s[0] for s in spans)), max(b, *(s[1] for s in spans))
        return need


NONE = 1 << 40


class _Cut:
    """The columns of each work in each strip and patch. made: whether there are columns to compute in all of them."""

    def __init__(self, tiler: Tiler, first: int, last: int, tiling: Tiling) -> None:
        self.tiler, self.first, self.last, self.tiling = tiler, first, last, tiling
        self.patched = range(tiling.first, tiling.last)
        self.narrow = {tiler.rows.works[p].output for p in range(first, last - 1)}
        self.tiles: dict[int, list[Tile]] = {p: [] for p in range(first, last)}
        self.sizes: dict[int, int] = {}
        strips = self._divided(last - 1, (0, tiler.row(last - 1)), tiling.strips)
        self.made = all(self._strip(strip) for strip in strips)

    def _divided(self, position: int, span: Bytes, parts: int) -> list[Bytes]:
        """Divide bytes of an output row into parts of whole pixels."""
        pixel = self.tiler.pixel(position)
        start = span[0] // pixel
        count = -(-span[1] // pixel) - start
        ends = [pixel * (start + i * count // parts) for i in range(parts + 1)]
        return list(pairwise(ends))

    def _strip(self, out: Bytes) -> bool:
        """Add the tiles of a strip. Returns False if one of them would be empty."""
        works, held = self.tiler.rows.works, dict[int, Bytes]()
        need = {works[self.last - 1].output: out}
        found: list[_Piece] = []
        for p in reversed(range(self.first, self.last)):
            if p in self.patched and p != self.patched[-1]:
                continue
            made = self._patches(need, held) if p in self.patched else self._pieces([p], need, held)
            if made is None:
                return False
            found += made
        for piece in found:
            self.tiles[piece.position].append(self._tile(piece))
        return True

    def _patches(self, need: dict[int, Bytes], held: dict[int, Bytes]) -> list[_Piece] | None:
        """The pieces of all patches of a strip, patch by patch."""
        last = self.patched[-1]
        output = self.tiler.rows.works[last].output
        parts = self._divided(last, need[output], self.tiling.patches)
        held[output] = parts[0][0], parts[-1][1]
        self._keep(output, held[output])
        found: list[_Piece] = []
        for part in parts:
            inside, own = {output: part}, dict[int, Bytes]()
            made = self._pieces(reversed(self.patched), inside, own)
            if made is None:
                return None
            own.pop(output)
            found += [replace(piece, held=ChainMap(own, held)) for piece in made]
            for storage, span in inside.items():
                if storage not in own and storage != output:
                    _add(need, storage, span)
        return found

    def _pieces(self, positions: Iterable[int], need: dict[int, Bytes], held: dict[int, Bytes]) -> list[_Piece] | None:
        """The pieces that these works compute, found from the last work to the first, so that everything that is needed
        exists. held: the bytes that exist.
        """
        found = []
        for p in positions:
            work, node = self.tiler.rows.works[p], self.tiler.node(p)
            op = kernel_ops()[node.op]
            each = self.tiler.row(p) // op.geometry.columns(node.params)
            (low, high), (read, written) = need[work.output], op.element_bytes
            columns = range(low // each, -(-high // each))
            made = op.geometry.tile(node.params, columns) if columns else None
            if made is None:
                return None
            params, before, behind = made
            strides, stride = op.row_bytes(params)
            held[work.output] = behind * written, behind * written + stride
            self._keep(work.output, held[work.output])
            for storage, length in zip(work.inputs, strides, strict=True):
                _add(need, storage, (before * read, before * read + length))
            found.append(_Piece(p, columns, params, before * read, behind * written, held))
        return found

    def _keep(self, storage: int, span: Bytes) -> None:
        if storage in self.narrow:
            self.sizes[storage] = max(self.sizes.get(storage, 0), span[1] - span[0])

    def _tile(self, piece: _Piece) -> Tile:
        """The tile of a piece, with the places of its bytes in stored rows."""
        work = self.tiler.rows.works[piece.position]

        def start(storage: int) -> int:
            return piece.held[storage][0] if storage in self.narrow else 0

        read = tuple(piece.read - start(s) for s in work.inputs)
        return Tile(piece.columns, piece.params, read, piece.written - start(work.output))


@dataclass(frozen=True)
class _Piece:
    """The columns of one work in a strip or patch. read, written: the bytes before it in whole rows of the tensors.
    held: the bytes of whole rows that the storages of its strip and patch contain.
    """

    position: int
    columns: range
    params: Any
    read: int
    written: int
    held: Mapping[int, Bytes]


def _add(need: dict[int, Bytes], storage: int, span: Bytes) -> None:
    low, high = need.get(storage, span)
    need[storage] = min(low, span[0]), max(high, span[1])


class _Virtual:
    """The accesses of patched works, whose rows are numbered in the order in which they are computed."""

    def __init__(
        self, rows: Rows, tiling: Tiling, counts: Sequence[Mapping[int, int]], shifts: Sequence[Mapping[int, int]]
    ) -> None:
        self.rows, self.patched, self.counts, self.shifts = rows, range(tiling.first, tiling.last), counts, shifts

    def rows_of(self, storage: int) -> int:
        """The rows of a narrow storage."""
        writer = self.rows.writers[storage][0]
        return self.counts[-1][writer] if writer in self.patched else self.rows.storages[storage].rows

    def work(self, position: int, kernels: tuple[Choice, ...]) -> Work:
        """A work in strips, which never overwrites its input."""
        work = replace(self.rows.works[position], kernels=kernels, in_place=(), same_place=False)
        if position not in self.patched:
            return work
        reads: list[list[Span]] = [[] for _ in work.inputs]
        writes: list[Span] = []
        start = 0
        for counts, shifts in zip(self.counts, self.shifts, strict=True):
            real = range(start - shifts[position], counts[position] - shifts[position])
            for storage, spans, moved in zip(work.inputs, work.reads, reads, strict=True):
                moved += [_shifted(spans[y], shifts.get(self._writer(storage), 0)) for y in real]
            writes += [_shifted(work.writes[y], shifts[position]) for y in real]
            start = counts[position]
        return replace(work, rows=start, reads=tuple(map(tuple, reads)), writes=tuple(writes))

    def _writer(self, storage: int) -> int:
        return self.rows.writers[storage][0] if self.rows.writers[storage] else -1


def _shifted(span: Span, shift: int) -> Span:
    return (span[0] + shift, span[1] + shift) if span[0] < span[1] else span
