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
from dataclasses import dataclass, replace

from glowembed.errors import UsageError
from glowembed.graph.cstruct import numpy_type
from glowembed.graph.external import External
from glowembed.graph.ir import Graph, Node
from glowembed.graph.notes import Note
from glowembed.graph.op import Kernel
from glowembed.graph.plan import Plan
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

PIECE = 16
"""The constants of a block begin at multiples of this many bytes, as kernels may load them in words of up to that size."""

BOUND = 1.1
"""A network is bound by its weights if reading them takes this many times the cycles of the computation."""

EXPOSED = 2
"""How many copies of its size a layer exposes that takes more than half of the window: its own, and that of the layer after it."""

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
    divisions = {number: _division(graph.nodes[number], count, window, costs, limit) for number, count in rows.items()}
    blocks = {(number, i): part for number, one in divisions.items() for i, part in enumerate(one.parts)}
    if not blocks:
        raise UsageError(_too_small(graph, window, sorted(rows), costs))
    calls = tuple(call for step in steps for call in calls_of(step, divisions[step.node]))
    cycles = [_cycles(graph.nodes[number], divisions[number], call, costs) for number, call in calls]
    uses = [
        (number, call % len(divisions[number].parts)) if divisions[number].parts else None for number, call in calls
    ]
    layouts = {block: _layout(part) for block, part in blocks.items()}
    places, fetched = _Window(window, {block: layout.bytes for block, layout in layouts.items()}).filled(uses)
    copies, overlapped = _scheduled(fetched, layouts, places, cycles, source)
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
        divisions, calls, window, offsets, copies, tuple(graph.nodes[number].name for number in in_place),
        fast, fast + sum(waits.values()), copied, overlapped + stays, source.copying(sum(weights.values())), sum(weights.values()),
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


def _division(node: Node, rows: int, window: int, costs: Costs, limit: int) -> Division:
    """The fewest bands of a node whose blocks have at most `limit` bytes each or, if there are none, fit into the window. Without parts if
    there are none of these either, and for a node without constants.
    """
    whole = _whole(node)
    for most in (limit, window):
        if 0 < _layout(whole).bytes <= most:
            return Division(rows, 0.0, 0.0, (whole,))
        for parts in _bands(node, whole, most, costs):
            if all(_layout(part).bytes <= most for part in parts):
                return Division(rows, 0.0, 0.0, parts)
    return Division(rows, 0.0, 0.0)


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
    """A block that must be in the window for call `needed`, and may be copied there from call `earliest` on."""

    block: Block
    earliest: int
    needed: int


class _Window:
    """Decides which blocks are in the window, and where. A block has the same place each time."""

    def __init__(self, size: int, bytes_of: Mapping[Block, int]) -> None:
        self.size, self.bytes_of = size, bytes_of
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
                fetched.append(_Fetch(block, max((self.resident.pop(one) + 1 for one in gone), default=0), call))
                self.before = call - 1
            self.resident[block] = call
        return self.places, fetched

    def _place(self, block: Block, call: int, last: Mapping[Block, int]) -> int:
        """The place where the fewest bytes must go that are needed later and, of these, where the copy can begin first. At either end of the
        window, if there is a choice: the rest then stays in one piece.
        """
        size = self.bytes_of[block]
        ends = (aligned(self.places[one] + self.bytes_of[one], PIECE) for one in self.resident)
        starts = sorted(start for start in {0, (self.size - size) // PIECE * PIECE, *ends} if start + size <= self.size)

        def price(start: int) -> tuple[int, int, bool, int]:
            gone = self._at(start, size)
            again = sum(self.bytes_of[one] for one in gone if last[one] > call)
            latest = max((self.resident[one] for one in gone), default=0)
            return again, max(latest, self.before), 0 < start < self.size - size - PIECE, start

        return min(starts, key=price)

    def _at(self, place: int, size: int) -> list[Block]:
        """The blocks that are there."""
        return [b for b in self.resident if self.places[b] < place + size and place < self.places[b] + self.bytes_of[b]]


def _scheduled(
    fetched: Sequence[_Fetch],
    layouts: Mapping[Block, _Layout],
    places: Mapping[Block, int],
    cycles: Sequence[float],
    source: Slow,
) -> tuple[tuple[Copy, ...], float]:
    """The copies, each before the first call at which the one before it has ended and its place is free, and the cycles of a run in which
    they overlap with calls.
    """
    waiting = [(fetch, piece) for fetch in fetched for piece in layouts[fetch.block].pieces]
    made: list[Copy] = []
    now = ends = 0.0
    for call, taken in enumerate(cycles):
        while len(made) < len(waiting):
            fetch, piece = waiting[len(made)]
            if fetch.earliest > call or (fetch.needed > call and ends > now):
                break
            now = max(now, ends)
            ends = now + source.copying(piece.bytes)
            to = places[fetch.block] + piece.to
            made.append(Copy(fetch.block, piece.name, piece.first, piece.count, to, piece.bytes, call, fetch.needed))
            if fetch.needed == call and (len(made) == len(waiting) or waiting[len(made)][0].needed > call):
                now = ends
        if made and made[-1].needed == call:
            now = max(now, ends)
        now += taken
    return tuple(made), now
