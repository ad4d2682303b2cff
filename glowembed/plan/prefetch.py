"""Schedules the copies of weights from slow memory into a window of RAM, ahead of the calls that use them.

In: a graph with kernels, its plan, costs, the window and the slow memory. Out: the calls of a run in order, the copies with their places
in the window, before which call each begins and by which it must have ended, and what all of that takes.

The constants of a layer, or of a range of its output channels (a band), are copied as one block. Blocks are copied in the order of
their use, one copy at a time. A block stays in the window as long as there is room, so that a layer that is called row by row needs it
once if the blocks of its group fit into the window together. Where a block must make room, the one that is copied again at the lowest
price goes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby, pairwise

from glowembed.errors import UsageError
from glowembed.graph.cstruct import numpy_type
from glowembed.graph.external import External
from glowembed.graph.ir import Graph, Node
from glowembed.graph.notes import Note
from glowembed.graph.op import Kernel
from glowembed.graph.plan import Plan, Step
from glowembed.graph.registry import kernel, kernel_ops
from glowembed.graph.target import Target
from glowembed.plan.costs import Costs
from glowembed.plan.slices import (
    Calls,
    Division,
    Part,
    calls_of,
    even_sizes,
    materialized,
    parts_by_outputs,
    rows_of_calls,
)
from glowembed.plan.states import aligned
from glowembed.records import dataclass

PIECE = 16
"""The constants of a block begin at multiples of this many bytes, as kernels may load them in words of up to that size."""

BOUND = 1.1
"""A network is bound by its weights if reading them takes this many times the cycles of the computation."""

EXPOSED = 2
"""How many copies of its size a layer exposes that takes more than half of the window: its own, and that of the layer after it."""

TRIALS = 150
"""The most schedules that are tried."""

NAMED = 4
"""The most layers that a note names."""

OPTION = "prefetch"
"""The option of kernels that are only for bands."""

Block = tuple[int, int]
"""A node, and which part of its channels."""


@dataclass(frozen=True)
class Copy:
    """A copy of `count` elements of a constant from element `first` on to byte `to` of the window. begins: the call before which it
    begins; needed: the call that uses it.
    """

    block: Block
    name: str
    first: int
    count: int
    to: int
    bytes: int
    begins: int
    needed: int


@dataclass(frozen=True)
class Prefetch(Calls):
    """The calls of a run with their copies. offsets: of each constant of each block in the window. in_place: the layers whose weights do
    not fit and are read where they lie. Cycles are estimates: `bound` for reading all weights once, `fast` with all weights in fast memory, `slow` with all of them read in
    place, `copied` and `overlapped` with the copies made by the core and by DMA. moved: bytes; weights: all of them once.
    """

    window: int
    offsets: Mapping[tuple[Block, str], int]
    copies: tuple[Copy, ...]
    in_place: tuple[str, ...]
    fast: float
    slow: float
    copied: float
    overlapped: float
    bound: float
    weights: int

    def notes(self) -> tuple[Note, ...]:
        """What the copies take, which layers are left out, and whether the weights take longer than the computation."""
        made = [Note("prefetch", self._text())]
        if self.in_place:
            kept = (
                f"{len(self.in_place)} layers, their weights are read where they lie"
                if len(self.in_place) > 1
                else "its weights are read where they lie"
            )
            names = ", ".join(repr(name) for name in self.in_place[:NAMED])
            more = ", ..." if len(self.in_place) > NAMED else ""
            made.append(
                Note("weights-in-place", f"the window of {self.window} bytes is too small for {names}{more}: {kept}")
            )
        if self.bound > BOUND * self.fast:
            made.append(
                Note(
                    "weights-bound",
                    f"the network is bound by its weights: reading {self.weights} bytes takes about {self.bound:.0f} cycles, computing"
                    f" {self.fast:.0f}; no schedule of copies hides that. Keep some of them in faster memory, or make the layers smaller",
                )
            )
        return tuple(made)

    def _text(self) -> str:
        times = (
            f"{self.overlapped / self.fast:.3f} times with DMA, {self.copied / self.fast:.3f} by memcpy"
            if self.fast
            else "nothing"
        )
        return (
            f"{len(self.copies)} copies of {self.moved} bytes; about {self.fast:.0f} cycles with all weights in fast memory, {times};"
            f" {self.slow:.0f} cycles with all of them read in place"
        )

    @property
    def moved(self) -> int:
        return sum(copy.bytes for copy in self.copies)


@dataclass(frozen=True)
class Slow:
    """The slow memory, as this core at this clock sees it."""

    memory: External
    clock_hz: int

    def copying(self, count: int) -> float:
        return self.memory.copying(count, self.clock_hz)

    def waiting(self, count: int, times: int) -> float:
        """The cycles that reading `count` bytes in place costs, each of them so many times."""
        return self.memory.reading(count, self.clock_hz) * (1 if count <= self.memory.cache else times)


def with_bands(graph: Graph, target: Target, window: int, source: Slow) -> Graph:
    """The graph in which layers whose constants are too large for the window have the fastest kernel that can compute some of their
    channels, where there is one. With DMA, half of the window must suffice, unless it takes longer to compute a layer in bands than to
    wait for the copy of all of it.
    """
    return replace(graph, nodes=tuple(_with_bands(node, target, window, source) for node in graph.nodes))


def _with_bands(node: Node, target: Target, window: int, source: Slow) -> Node:
    limit = largest_block(window, source.memory)
    if node.kernel is None or (size := _layout(_whole(node)).bytes) <= limit or _by_outputs(node):
        return node
    known = [k for k in kernel_ops()[node.op].kernels if not k.isa or k.isa in target.isa]
    found = [k for k in known if _in_bands(k, node) and k.option in ("", OPTION) and k.when(node, target) is None]
    best = min(found, key=lambda k: (k.cost(node, target).cycles, k.symbol), default=None)
    if best is None:
        return node
    banded = replace(node, kernel=best.symbol)
    costs = Costs(target)
    parts = next(_bands(banded, _whole(banded), limit, costs), ())
    taken = sum(costs.rows(part.node, kernel_ops()[node.op].rows(node.params)) for part in parts) - costs.whole(node)
    return banded if size > window or taken < EXPOSED * source.copying(size) else node


def _in_bands(own: Kernel, node: Node) -> bool:
    """Whether a kernel can compute some channels of a node after others."""
    return own.blocks(node.params) > 0 and own.store_of(node.params) == "disjoint"


def _by_outputs(node: Node) -> bool:
    """Whether the outputs of a node are one pixel, some of which any kernel may compute."""
    op = kernel_ops()[node.op]
    return op.rows(node.params) == _width(node) == 1 and len(node.inputs) == 1


def _width(node: Node) -> int:
    """The pixels of a row of the output."""
    return int(getattr(node.params, "out_w", kernel_ops()[node.op].geometry.columns(node.params)))


def largest_block(window: int, memory: External) -> int:
    """The bytes of the largest block: with DMA, the next one is copied while one is in use."""
    return window // 2 if memory.dma else window


def prefetch(graph: Graph, plan: Plan, costs: Costs, window: int, source: Slow) -> Prefetch:
    """The copies of a run. Raises UsageError if the window has no room for the weights of any layer."""
    steps = [step for step in plan.steps if graph.nodes[step.node].kernel]
    rows, limit = rows_of_calls(steps), largest_block(window, source.memory)
    options = {number: _divisions(graph.nodes[number], count, window, costs) for number, count in rows.items()}
    if not any(option.division.parts for found in options.values() for option in found):
        raise UsageError(_too_small(graph, window, sorted(rows), costs))
    best = _improved(_Schedules(steps, options, window, source), limit)
    divisions, cycles, layouts, places, copies = best.divisions, best.cycles, best.layouts, best.places, best.copies
    weights = {number: _layout(_whole(graph.nodes[number])).bytes for number in rows}
    waits = dict.fromkeys(rows, 0.0)
    for step in steps:
        waits[step.node] += source.waiting(weights[step.node], _times(graph.nodes[step.node], step.last - step.first))
    in_place = tuple(number for number in sorted(rows) if weights[number] and not divisions[number].parts)
    fastest = {number: _in_one_piece(graph.nodes[number], costs) for number in rows}
    fast = sum(costs.rows(fastest[step.node], step.last - step.first) for step in steps)
    stays = sum(waits[number] for number in in_place)
    copied = sum(cycles) + sum(source.copying(copy.bytes) for copy in copies) + stays
    offsets = {(block, p.name): places[block] + p.to for block, layout in layouts.items() for p in layout.pieces}
    return Prefetch(
        divisions, best.calls, window, offsets, copies, tuple(graph.nodes[number].name for number in in_place),
        fast, fast + sum(waits.values()), copied, best.time + stays, source.copying(sum(weights.values())), sum(weights.values()),
    )  # fmt: skip


def _in_one_piece(node: Node, costs: Costs) -> Node:
    """The node with the kernel that it would have if no weights were copied, as far as cycles decide."""
    known = kernel_ops()[node.op].kernels
    if costs.target is None or kernel(node.kernel or "").option != OPTION:
        return node
    found = [
        k
        for k in known
        if not k.option and (not k.isa or k.isa in costs.target.isa) and k.when(node, costs.target) is None
    ]
    best = min(found, key=lambda k: (costs.whole(replace(node, kernel=k.symbol)), k.symbol))
    return replace(node, kernel=best.symbol)


def _times(node: Node, rows: int) -> int:
    """How often a call of some rows reads each weight: kernels of convolutions use one for two pixels at a time."""
    return max(1, -(-rows * _width(node) // 2))


def _cycles(node: Node, one: Division, number: int, costs: Costs) -> float:
    """The cycles of one call."""
    parts = max(len(one.parts), 1)
    rows = min(one.rows, kernel_ops()[node.op].rows(node.params) - number // parts * one.rows)
    return costs.rows(one.parts[number % parts].node if one.parts else node, rows)


@dataclass(frozen=True)
class _Piece:
    """Some elements of a constant, which lie at byte `to` of their block."""

    name: str
    first: int
    count: int
    to: int
    bytes: int


@dataclass(frozen=True)
class _Layout:
    pieces: tuple[_Piece, ...]
    bytes: int


def _layout(part: Part) -> _Layout:
    """How the constants of a part lie in their block."""
    own, pieces, end = kernel(part.node.kernel or ""), list[_Piece](), 0
    for name, ctype in own.ctypes(kernel_ops()[part.node.op]).items():
        if part.count[name]:
            size = part.count[name] * numpy_type(ctype).itemsize
            pieces.append(_Piece(name, part.first.get(name, 0), part.count[name], end, size))
            end = aligned(end + size, PIECE)
    return _Layout(tuple(pieces), end)


def _whole(node: Node) -> Part:
    """All channels of a node, whose constants are one block."""
    packed = kernel(node.kernel or "").packed(materialized(node), node.params)
    return Part(
        node, 0.0, count={name: packed[name].size for name in kernel(node.kernel or "").ctypes(kernel_ops()[node.op])}
    )


@dataclass(frozen=True)
class _Option:
    """A division of a node, the layouts of its blocks, and the cycles of each of its calls."""

    division: Division
    layouts: tuple[_Layout, ...]
    cycles: tuple[float, ...]

    @property
    def largest(self) -> int:
        return max((layout.bytes for layout in self.layouts), default=0)


def _divisions(node: Node, rows: int, window: int, costs: Costs) -> tuple[_Option, ...]:
    """The divisions of a node into bands whose blocks fit into the window, the fewest bands first. One without parts if there are none, and
    for a node without constants.
    """
    whole = _whole(node)
    size = _layout(whole).bytes
    found: list[tuple[Part, ...]] = [(whole,)] if 0 < size <= window else []
    found += [parts for parts in _bands(node, whole, min(size, window), costs) if len(parts) > 1] if size else []
    made = []
    for parts in [parts for parts in found if _largest(parts) <= window] or [()]:
        one = Division(rows, 0.0, 0.0, parts)
        calls = -(-kernel_ops()[node.op].rows(node.params) // rows) * max(len(parts), 1)
        cycles = tuple(_cycles(node, one, call, costs) for call in range(calls))
        made.append(_Option(one, tuple(_layout(part) for part in parts), cycles))
    return tuple(made)


@dataclass(frozen=True)
class _Schedule:
    """The copies and calls with these divisions of the nodes. time: cycles with copies that overlap with calls."""

    divisions: Mapping[int, Division]
    calls: tuple[tuple[int, int], ...]
    cycles: Sequence[float]
    layouts: Mapping[Block, _Layout]
    places: Mapping[Block, int]
    copies: tuple[Copy, ...]
    time: float


@dataclass(frozen=True)
class _Schedules:
    """The schedules of a plan, by the number of the option that each node has."""

    steps: Sequence[Step]
    options: Mapping[int, Sequence[_Option]]
    window: int
    source: Slow

    def made(self, chosen: Mapping[int, int]) -> _Schedule:
        own = {number: self.options[number][i] for number, i in chosen.items()}
        divisions = {number: option.division for number, option in own.items()}
        layouts = {(n, i): layout for n, option in own.items() for i, layout in enumerate(option.layouts)}
        calls = tuple(call for step in self.steps for call in calls_of(step, divisions[step.node]))
        cycles = [own[number].cycles[call] for number, call in calls]
        uses = [(n, call % len(own[n].layouts)) if own[n].layouts else None for n, call in calls]
        sizes = {block: layout.bytes for block, layout in layouts.items()}
        places, fetched = _Window(self.window, sizes, self.source.memory.dma).filled(uses)
        copies, time = _scheduled(fetched, layouts, places, cycles, self.source)
        return _Schedule(divisions, calls, cycles, layouts, places, copies, time)


def _improved(schedules: _Schedules, limit: int) -> _Schedule:
    """The fewest bands of each node whose blocks have at most `limit` bytes each or, if there are none, fit into the window. Where copies
    overlap with calls, then more or fewer bands of one layer, and of one that has weights and the next, as long as that saves time.
    """
    options = schedules.options
    chosen = {n: next((i for i, o in enumerate(found) if o.largest <= limit), 0) for n, found in options.items()}
    best = schedules.made(chosen)
    if not schedules.source.memory.dma:
        return best
    mine = [n for n, found in options.items() if len(found) > 1]
    steps = [{n: by} for n in mine for by in (-1, 1)]
    steps += [{a: by, b: -by} for a, b in pairwise(n for n in options if options[n][0].layouts) for by in (-1, 1)]
    tried, improved = 0, True
    while improved:
        improved = False
        for step in steps:
            trial = chosen | {n: chosen[n] + by for n, by in step.items()}
            if tried == TRIALS or not all(0 <= trial[n] < len(options[n]) for n in step):
                continue
            found = schedules.made(trial)
            tried += 1
            if found.time < best.time - 1.0:
                best, chosen, improved = found, trial, True
    return best


def _bands(node: Node, whole: Part, most: int, costs: Costs) -> Iterator[tuple[Part, ...]]:
    """The divisions of a node into bands, the fewest first; those whose bands are too large by far are left out."""
    op, own = kernel_ops()[node.op], kernel(node.kernel or "")
    size, channels, total = own.blocks(node.params), _channels(node), _layout(whole).bytes
    if _in_bands(own, node):
        for blocks in even_sizes(channels // size):
            if total * blocks * size // channels <= most:
                yield tuple(_by_blocks(node, whole, channels, blocks * size))
    elif _by_outputs(node):
        for each in even_sizes(channels):
            if total * each // channels <= most:
                parts = parts_by_outputs((Part(node, 0.0),), channels, each, op.element_bytes[1], costs)
                yield from () if parts is None else (parts,)


def _channels(node: Node) -> int:
    """The elements of a pixel of the output."""
    op = kernel_ops()[node.op]
    return op.row_bytes(node.params)[1] // op.element_bytes[1] // _width(node)


def _by_blocks(node: Node, whole: Part, channels: int, each: int) -> Iterator[Part]:
    """Bands of `each` channels, for a kernel that computes the first `groups` of them."""
    read, written = kernel_ops()[node.op].element_bytes
    for start in range(0, channels, each):
        count = min(each, channels - start)
        part = replace(node, params=replace(node.params, groups=count), macs=node.macs * count // channels)
        first, counts = ({n: size * at // channels for n, size in whole.count.items()} for at in (start, count))
        before = start * read if node.params.groups > 1 else 0
        yield Part(part, 0.0, before, start * written, first, counts)


def _too_small(graph: Graph, window: int, numbers: Sequence[int], costs: Costs) -> str:
    """The error for a window without room for any block."""
    least: list[tuple[int, str]] = []
    for node in (graph.nodes[number] for number in numbers):
        whole = _whole(node)
        if size := _layout(whole).bytes:
            finest = next((_largest(parts) for parts in reversed(list(_bands(node, whole, size, costs)))), size)
            least.append((min(finest, size), node.name))
    if not least:
        return f"--prefetch {window}: the network has no weights that could be copied; leave the option out"
    size, name = min(least)
    return (
        f"--prefetch {window}: the window has no room for the weights of any layer; the smallest piece, of {name!r}, has {size} bytes, and"
        f" {max(least)[0]} bytes hold a piece of every layer"
    )


def _largest(parts: Sequence[Part]) -> int:
    return max(_layout(part).bytes for part in parts)


@dataclass(frozen=True)
class _Fetch:
    """A block that must be in the window for call `needed`. taken: the bytes of the window (first, last + 1) that other blocks leave before
    a call; the rest of its place is free earlier.
    """

    block: Block
    needed: int
    taken: tuple[tuple[int, int, int], ...]

    def earliest(self, at: int) -> int:
        """The call from which on byte `at` of the window may be overwritten."""
        return max((call for first, last, call in self.taken if first <= at < last), default=0)


class _Window:
    """Decides which blocks are in the window, and where. A block has the same place each time. in_parts: whether a block may be copied in
    parts, each as soon as its place is free.
    """

    def __init__(self, size: int, bytes_of: Mapping[Block, int], in_parts: bool) -> None:
        self.size, self.bytes_of, self.in_parts = size, bytes_of, in_parts
        self.places: dict[Block, int] = {}
        self.resident: dict[Block, int] = {}
        """the last call so far that used a block that is there"""
        self.before = 0
        """a call before which the next copy cannot begin, because those before it are still to be made"""

    def filled(self, uses: Sequence[Block | None]) -> tuple[dict[Block, int], list[_Fetch]]:
        """The places of all blocks, and what is copied, in the order of use."""
        last = {block: call for call, block in enumerate(uses) if block is not None}
        fetched = []
        for call, block in enumerate(uses):
            if block is None:
                continue
            if block not in self.resident:
                place = self.places.setdefault(block, self._place(block, call, last))
                gone = self._at(place, self.bytes_of[block])
                taken = ((self.places[one], self._end(one), self.resident.pop(one) + 1) for one in gone)
                fetched.append(_Fetch(block, call, tuple(taken)))
                self.before = call - 1
            self.resident[block] = call
        return self.places, fetched

    def _end(self, block: Block) -> int:
        """The next place behind a block."""
        return aligned(self.places[block] + self.bytes_of[block], PIECE)

    def _place(self, block: Block, call: int, last: Mapping[Block, int]) -> int:
        """The place where the fewest bytes must go that are needed later and, of these, where the copy can begin first or, in parts, the fewest
        bytes wait for a call. At either end of the window, if there is a choice: the rest then stays in one piece.
        """
        size = self.bytes_of[block]
        ends = (self._end(one) for one in self.resident)
        starts = sorted(start for start in {0, (self.size - size) // PIECE * PIECE, *ends} if start + size <= self.size)

        def price(start: int) -> tuple[int, int, bool, int]:
            gone = self._at(start, size)
            again = sum(self.bytes_of[one] for one in gone if last[one] > call)
            shared = {one: min(start + size, self._end(one)) - max(start, self.places[one]) for one in gone}
            waits = {one: max(self.resident[one] - self.before, 0) for one in gone}
            parts = sum(count * waits[one] for one, count in shared.items())
            waiting = parts if self.in_parts else max(waits.values(), default=0)
            return again, waiting, 0 < start < self.size - size - PIECE, start

        return min(starts, key=price)

    def _at(self, place: int, size: int) -> list[Block]:
        """The blocks that are there."""
        return [b for b in self.resident if self.places[b] < place + size and place < self.places[b] + self.bytes_of[b]]


def _free(fetch: _Fetch, piece: _Piece, place: int, call: int, dma: bool) -> tuple[_Piece, ...]:
    """A piece in parts, of which the first can be copied before this call: with DMA the longest part whose place is free. Empty if there is
    none.
    """
    if all(free <= call for _, _, free in fetch.taken):
        return (piece,)
    begin, end = place + piece.to, place + piece.to + piece.bytes
    cuts = sorted({begin, end, *(at for first, last, _ in fetch.taken for at in (first, last) if begin < at < end)})
    runs = [
        (free, list(spans)) for free, spans in groupby(pairwise(cuts), lambda span: fetch.earliest(span[0]) <= call)
    ]
    spans = [(free, run[0][0], run[-1][1]) for free, run in runs]
    first = max(spans, key=lambda span: (span[0], span[2] - span[1]))
    if not first[0] or (len(spans) > 1 and not dma):
        return ()
    size = piece.bytes // piece.count
    return tuple(
        replace(piece, first=piece.first + (a - begin) // size, count=(b - a) // size, to=a - place, bytes=b - a)
        for _, a, b in (first, *(span for span in spans if span is not first))
    )


def _scheduled(
    fetched: Sequence[_Fetch],
    layouts: Mapping[Block, _Layout],
    places: Mapping[Block, int],
    cycles: Sequence[float],
    source: Slow,
) -> tuple[tuple[Copy, ...], float]:
    """The copies, each before the first call at which the one before it has ended and its place, or with DMA some of it, is free, and the
    cycles of a run in which they overlap with calls.
    """
    waiting = [(fetch, piece) for fetch in reversed(fetched) for piece in reversed(layouts[fetch.block].pieces)]
    made: list[Copy] = []
    now = ends = 0.0
    for call, taken in enumerate(cycles):
        while waiting:
            fetch, piece = waiting[-1]
            parts = _free(fetch, piece, places[fetch.block], call, source.memory.dma)
            if not parts or (fetch.needed > call and ends > now):
                break
            waiting[-1:] = [(fetch, part) for part in reversed(parts[1:])]
            piece, now = parts[0], max(now, ends)
            ends = now + source.copying(piece.bytes)
            to = places[fetch.block] + piece.to
            made.append(Copy(fetch.block, piece.name, piece.first, piece.count, to, piece.bytes, call, fetch.needed))
            if fetch.needed == call and (not waiting or waiting[-1][0].needed > call):
                now = ends
        if made and made[-1].needed == call:
            now = max(now, ends)
        now += taken
    return tuple(made), now
