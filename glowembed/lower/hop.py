"""Makes the graph of a hop from that of a window.

In: a kernel-level graph and the values that move (reuse.py). Out: a kernel-level graph whose states are what the next hops need. Of each
value that moves there are up to three pieces: the rows at the top that see padding, those that are kept from hop to hop, and the rows
at the bottom that are new or see padding. Top and bottom are computed by smaller copies of the value's node, with the same constants.
All other values are computed whole, except sums of all rows (sums.py), which go on from the sum of the rows that are kept.

**Early tops.** The rows at the top of a window are a function of the frames that follow its beginning. Those of a later window can be
computed as soon as its first frames are there, while the rows that they need are still new. Where nothing but sums reads such
rows from below, hop n therefore computes the top of window n + `early`, and keeps its sum until then. The rows between need not be
kept all the way from the bottom of a window to its top. `early` is the number with which the fewest bytes are kept. If it is so large
that no row below these tops has been computed before, the sums that wait take up such rows as they come, and none is kept for them.

**Phases.** What is kept of a value whose period (reuse.py) is more than one hop is a queue of that many blocks. A hop reads the
first one, which the hop a period before has left, and appends its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace

import numpy as np

from glowembed.graph.ir import Array, Graph, Node, QType, Value, verify
from glowembed.graph.registry import kernel_ops
from glowembed.graph.spatial import ConvParams, PoolParams
from glowembed.graph.states import State, Stream
from glowembed.lower.reuse import Moved, is_renamed
from glowembed.lower.sums import is_maximum, is_sum
from glowembed.ops import sums
from glowembed.ops.handover import PIECES, CropParams, JoinParams, SlideParams
from glowembed.ops.sums import MOST_ELEMENTS, RowSumsParams, RowSumsS8, RunningParams, RunningSumS8, RunningSumS16
from glowembed.records import dataclass

KEPT = "/kept"
"""What follows the name of a value in that of the state which keeps rows of it."""

Values = Mapping[str, Array]


@dataclass(frozen=True)
class _Read:
    """Rows of a value that a hop reads; top: for rows at the top of another value; total: for this sum."""

    name: str
    rows: range
    top: bool = False
    total: Node | None = None


@dataclass
class Hop:
    """The hop graph that is being made. left: for each state, what it holds before hop n, from the values of windows n - 1, n, ..."""

    graph: Graph
    stream: Stream
    found: Mapping[str, Moved]
    nodes: list[Node] = field(default_factory=list)
    last: list[Node] = field(default_factory=list)
    """the nodes that overwrite states, after all readers of these"""
    values: dict[str, Value] = field(default_factory=dict)
    renamed: dict[str, str] = field(default_factory=dict)
    joined: dict[tuple[str, int, int, bool], str] = field(default_factory=dict)
    tapped: dict[tuple[str, range, range, int, bool], str] = field(default_factory=dict)
    """tensors of the rows that the taps of dilated convolutions read: by value, rows of the first and the last tap, dilation, early"""
    needed: dict[str, int] = field(default_factory=dict)
    """the first row of a value that its readers need of those that are kept"""
    states: list[State] = field(default_factory=list)
    left: dict[str, Callable[[Sequence[Values]], Array]] = field(default_factory=dict)
    early: int = 0

    def __post_init__(self) -> None:
        for node in self.graph.nodes:
            if is_renamed(self.graph, node) and node.inputs[0] in self.found:
                self.renamed[node.outputs[0]] = self.renamed.get(node.inputs[0], node.inputs[0])
        self.values = {v.name: v for v in self.graph.values.values() if v.const is not None}
        reads = self._reads()
        phases = math.lcm(*(one.period for one in self.found.values()))
        possible = (early for early in range(0, self.stream.hops, phases) if not early or self._may_be(early, reads))
        self.early = min(possible, key=lambda early: self._kept_bytes(early, reads))
        self.needed = self._needed(self.early, reads)
        for name, first in self.needed.items():
            one, kept = self.found[name], f"{name}{KEPT}"
            self.values[kept] = self.sized(self.graph.values[name], kept, (one.last - first) * one.period)
        taken = self.stream.input
        self.values[taken] = self.sized(self.graph.values[taken], taken, self.stream.hop)

    def made(self) -> Graph:
        """The graph of a hop."""
        for node in self.graph.nodes:
            self._node(node)
        return self._finished()

    def source(self, name: str) -> str:
        return self.renamed.get(name, name)

    def all_rows(self, name: str) -> range:
        return range(self.found[name].rows if name in self.found else 1)

    def parts(self, node: Node) -> list[tuple[str, range]]:
        """The rows of a node that are computed in a hop: role and rows; none if all are."""
        one = self.found.get(node.outputs[0])
        if one is None or is_renamed(self.graph, node):
            return []
        ends = [("top", range(one.first)), ("bottom", range(one.last, one.rows))]
        return [(role, rows) for role, rows in ends if rows]

    def span(self, node: Node, i: int, out: range) -> range:
        """The rows of input i that these rows of the output need."""
        needs = [kernel_ops()[node.op].needs(node.params, y)[i] for y in out]
        first = min((rows.start for rows in needs if rows), default=0)  # any row, if all see nothing but padding
        return range(first, max((rows.stop for rows in needs if rows), default=1))

    def _reads(self) -> list[_Read]:
        """All rows of values that move which a hop reads."""
        reads = []
        for node in self.graph.nodes:
            if node.outputs[0] in self.renamed:
                continue
            parts = self.parts(node)
            for i, name in enumerate(map(self.source, node.inputs)):
                if name in self.found:
                    reads += [_Read(name, self.span(node, i, out), role == "top") for role, out in parts]
                    reads += [] if parts else [self._whole(node, name)]
        outputs = filter(self.found.__contains__, map(self.source, self.graph.outputs))
        return reads + [_Read(name, self.all_rows(name)) for name in outputs]

    def _whole(self, node: Node, name: str) -> _Read:
        """The rows that a node which is computed whole reads; a sum reads those at the top in the form of their sum."""
        if is_sum(node):
            return _Read(name, range(self.found[name].first, self.found[name].rows), total=node)
        return _Read(name, self.all_rows(name))

    def _may_be(self, early: int, reads: Sequence[_Read]) -> bool:
        """Whether tops can be computed so many hops early: what they need is there, their sums fit int16, nothing else needs them."""
        totals = self._totals()
        if any(self._elements(node, self._below(node).first) > MOST_ELEMENTS for node in totals):
            return False
        for read in reads:
            one = self.found[read.name]
            if not read.top and read.rows.start < one.first:
                return False
            later = early // one.period * one.shift
            if read.top and read.rows.stop > one.first and read.rows.stop + later > one.last + one.shift:
                return False
        return any(read.top for read in reads)

    def _needed(self, early: int, reads: Sequence[_Read]) -> dict[str, int]:
        """The first row that has to be kept of each value of which rows are kept."""
        needed: dict[str, int] = {}
        for read in reads:
            if read.total is not None and self._gathers(read.total, early):
                continue
            one = self.found[read.name]
            later = early // one.period * one.shift if read.top else 0
            start, stop = max(read.rows.start, one.first) + later, read.rows.stop + later
            if start < one.last and stop > one.first + later:
                needed[read.name] = min(needed.get(read.name, one.last), start)
        return needed

    def _kept_bytes(self, early: int, reads: Sequence[_Read]) -> int:
        rows = sum(
            (self.found[name].last - first) * self.found[name].row_bytes * self.found[name].period
            for name, first in self._needed(early, reads).items()
        )
        delayed: list[int] = [node.params.channels * early for node in self._totals() if self._below(node).first]
        running: list[int] = [node.params.channels for node in self._totals() if not self._gathers(node, early)]
        return rows + 2 * sum(delayed) + 4 * sum(running) + self._waiting(early, reads)

    def _waiting(self, early: int, reads: Sequence[_Read]) -> int:
        """The bytes of the largest tensor at the top of a value that waits for new rows below it; 0 if none needs such rows."""
        tops = [(read, self.found[read.name]) for read in reads if read.top]
        if all(read.rows.stop + early // one.period * one.shift <= one.last for read, one in tops):
            return 0
        return max(one.first * one.row_bytes for _, one in tops)

    def _totals(self) -> list[Node]:
        """The sums that go on from hop to hop."""
        return [node for node in self.graph.nodes if is_sum(node) and self.source(node.inputs[0]) in self.found]

    def _below(self, node: Node) -> Moved:
        """The rows of a sum."""
        return self.found[self.source(node.inputs[0])]

    def _gathers(self, node: Node, early: int) -> bool:
        """Whether the sums of tops that wait take up all rows between top and bottom of their windows."""
        one = self._below(node)
        later = early // one.period * one.shift
        return early > 0 and one.last <= one.first + later and self._elements(node, one.last) <= MOST_ELEMENTS

    def _summed(self, node: Node) -> tuple[str, int]:
        """The value whose elements a sum adds up, and its columns."""
        name = self.source(node.inputs[0])
        rows = self.graph.producer().get(name)
        return (self.source(rows.inputs[0]), rows.params.columns) if rows and rows.op == RowSumsS8.name else (name, 1)

    def _elements(self, node: Node, rows: int) -> int:
        """How many elements of a channel so many rows have that a sum adds up."""
        return rows * self._summed(node)[1]

    def sized(self, value: Value, name: str, rows: int) -> Value:
        """A value of so many rows like those of another one."""
        total = self.found[self.source(value.name)].rows
        shape = value.shape
        axis = 1 if len(shape) > 2 and shape[1] == total else 0
        if shape[axis] != total:
            return replace(value, name=name, shape=(rows, value.elements // total))
        return replace(value, name=name, shape=(*shape[:axis], rows, *shape[axis + 1 :]))

    def bottom(self, name: str) -> str:
        """The tensor that holds all rows below those that are kept."""
        return name if name == self.stream.input else f"{name}/bottom"

    def pieces(self, name: str, later: int) -> list[tuple[str, range, int]]:
        """The tensors that begin with rows of a value, in order: name, the rows as those of a window that begins `later` rows further
        down, and the first of them that is used.
        """
        one, below = self.found[name], self.found[name].first
        first = self.needed.get(name, one.last)
        last = one.last + one.shift if later else one.rows
        found = [
            (f"{name}/top", range(below), 0),
            (f"{name}{KEPT}", range(first - later, one.last - later), below),
            (self.bottom(name), range(one.last - later, last - later), below),
        ]
        return [(piece, rows, start) for piece, rows, start in found if rows]

    def rows(self, name: str, wanted: range, early: bool = False) -> str:
        """A tensor that holds these rows of a value, one after the other; early: of the window whose top is computed."""
        name = self.source(name)
        if name not in self.found:
            return name
        later = self._later(name) if early else 0
        overlaps = self._overlaps(name, wanted, later)
        assert sum(len(use) for *_, use in overlaps) == len(wanted), f"rows {wanted} of {name!r} are not all there"
        if self._is_one_tensor(name, overlaps):
            return overlaps[0][0]
        key = (name, wanted.start, wanted.stop, bool(later))
        if key not in self.joined:
            joined = f"{name}/rows{wanted.start}to{wanted.stop}" + ("early" if later else "")
            self.joined[key] = self._join(name, overlaps, joined, len(wanted))
        return self.joined[key]

    def _later(self, name: str) -> int:
        """By how many rows the window whose top is computed lies further down."""
        return self.early // self.found[name].period * self.found[name].shift

    def _overlaps(self, name: str, wanted: range, later: int) -> list[tuple[str, range, range]]:
        """The tensors that hold these rows, in order: name, the rows in it, and those of them that are wanted."""
        found = [
            (piece, have, range(max(have.start, wanted.start, start), min(have.stop, wanted.stop)))
            for piece, have, start in self.pieces(name, later)
        ]
        return [(piece, have, use) for piece, have, use in found if use]

    def _is_one_tensor(self, name: str, overlaps: Sequence[tuple[str, range, range]]) -> bool:
        (piece, have, use), *more = overlaps
        return not more and use == have and self._row_count(piece, name) == len(use)

    def _taps(self, p: ConvParams, name: str, wanted: range, early: bool) -> tuple[str, ConvParams] | None:
        """A tensor that holds only those rows of `wanted` which the taps of a dilated convolution read, and its params for that
        tensor; None if that saves nothing. The convolution has params p for the rows `wanted`.
        """
        name, count, apart = self.source(name), p.out_h, p.dilation_h
        if name not in self.found or p.kernel_h == 1 or count >= apart or (count > 1 and p.stride_h > 1):
            return None
        later = self._later(name) if early else 0
        if (
            p.pad_top
            or len(wanted) != (p.kernel_h - 1) * apart + count
            or self._is_one_tensor(name, self._overlaps(name, wanted, later))
        ):
            return None
        taps = [range(start, start + count) for start in range(wanted.start, wanted.stop, apart)]
        key = (name, taps[0], taps[-1], apart, bool(later))
        if key not in self.tapped:
            tensor = f"{name}/rows{wanted.start}to{wanted.stop}by{apart}" + ("early" if later else "")
            self.tapped[key] = self._join_rows(name, taps, tensor, early)
        return self.tapped[key], replace(p, in_h=p.kernel_h * count, dilation_h=count)

    def _join_rows(self, name: str, wanted: Sequence[range], joined: str, early: bool) -> str:
        """Copy these rows of a value into one tensor."""
        later = self._later(name) if early else 0
        overlaps = [overlap for rows in wanted for overlap in self._overlaps(name, rows, later)]
        return self._join(name, overlaps, joined, sum(map(len, wanted)))

    def _row_count(self, piece: str, name: str) -> int:
        return self.values[piece].bytes // self.found[name].row_bytes

    def _join(self, name: str, parts: list[tuple[str, range, range]], joined: str, count: int) -> str:
        """Copy rows of pieces into one tensor."""
        first, rest = parts[:PIECES], parts[PIECES:]
        if rest:
            have = range(sum(len(use) for *_, use in first))
            before = self._join(name, first, f"{joined}/first{len(first)}", len(have))
            return self._join(name, [(before, have, have), *rest], joined, count)
        spans = [(use.start - have.start, len(use)) for _, have, use in parts] + [(0, 0)] * (PIECES - len(parts))
        inputs = [piece for piece, *_ in parts]
        inputs += inputs[-1:] * (PIECES - len(inputs))
        numbers = [number for span in spans for number in span]
        params = JoinParams(self.found[name].row_bytes, count, *numbers[:-1])
        self.values[joined] = self.sized(self.graph.values[name], joined, count)
        self.nodes.append(Node(joined, "join_rows", tuple(inputs), (joined,), origins=(name,), params=params))
        return joined

    def _node(self, node: Node) -> None:
        if node.outputs[0] in self.renamed:
            return
        if is_sum(node) and self.source(node.inputs[0]) in self.found:
            self._sum(node)
            return
        if is_maximum(node, self.found):
            self._maximum(node)
            return
        parts = self.parts(node)
        for role, out in parts:
            if role == "bottom" or not self.early or node.op != RowSumsS8.name:  # _sum adds up what is below these tops
                self._part(node, role, out)
        if not parts:
            inputs = tuple(map(self._all, node.inputs))
            self.nodes.append(replace(node, inputs=inputs))
            self.values |= {name: self.graph.values[name] for name in node.outputs}

    def _all(self, name: str) -> str:
        """All rows of a value, in its own shape."""
        tensor = self.rows(name, self.all_rows(self.source(name)))
        if name not in self.renamed:
            return tensor
        if name not in self.values:
            self.values[name] = self.graph.values[name]
            self.nodes.append(Node(f"{name}/all", "view", (tensor,), (name,), shares=0))
        return name

    def _part(self, node: Node, role: str, out: range) -> None:
        """The rows `out` of a node, from just the rows that they need."""
        op = kernel_ops()[node.op]
        spans = [self.span(node, i, out) for i in range(len(node.inputs))]
        streamed = [i for i, name in enumerate(node.inputs) if self.graph.values[name].const is None]
        assert op.geometry.part is not None
        params, early = op.geometry.part(node.params, out, spans[streamed[0]]), role == "top"
        output = f"{node.outputs[0]}/{role}"
        if isinstance(params, CropParams):
            self._cropped(node, params, spans[0], output, early)
            return
        tapped = self._taps(params, node.inputs[0], spans[0], early) if isinstance(params, ConvParams) else None
        if tapped is not None:
            taken, params = tapped
            inputs = (taken, *node.inputs[1:])
        else:
            inputs = tuple(
                self.rows(name, spans[i], early) if i in streamed else name for i, name in enumerate(node.inputs)
            )
        share = len(out) / op.rows(node.params)
        self.values[output] = self.sized(self.graph.values[node.outputs[0]], output, len(out))
        self.nodes.append(
            replace(
                node,
                name=f"{node.name}/{role}",
                inputs=inputs,
                outputs=(output,),
                params=params,
                macs=round(node.macs * share),
            )
        )

    def _cropped(self, node: Node, params: CropParams, span: range, output: str, early: bool) -> None:
        """Rows of a crop under their own name: one tensor, or a copy of rows that lie apart."""
        rows = [range(row, row + 1) for row in span[:: params.step]]
        if params.step == 1 or len(rows) == 1:
            self._own(self.rows(node.inputs[0], span, early), output)
        else:
            self._join_rows(self.source(node.inputs[0]), rows, output, early)

    def _sum(self, node: Node) -> None:
        """A sum of all rows: that of the rows that are kept, of the new ones and of those at the top."""
        if self._gathers(node, self.early):
            self._gathered(node)
            return
        total, name = node.outputs[0], self.source(node.inputs[0])
        one, kept, new = self.found[name], f"{total}{KEPT}", self.bottom(name)
        size = replace(self.graph.values[total], shape=(one.period, node.params.channels))
        self.values[kept] = replace(size if one.period > 1 else self.graph.values[total], name=kept)
        old, following = self._oldest(node, kept, one.period), f"{kept}_next"
        below = f"{total}/below" if one.first else total
        self._running(node, below, old, (new, range(one.rows - one.last)))
        if one.first:
            top = (self._delayed(node), range(1)) if self.early else (f"{name}/top", range(one.first))
            self._running(node, total, below, top)
        made = following if old == kept else f"{old}_next"
        self._running(node, made, old, (new, range(one.shift)), (f"{name}{KEPT}", range(one.shift)))
        if made != following:
            self._append(kept, made, following, SlideParams(4 * node.params.channels, one.period, 0, 1), node.origins)
        self.states.append(State(following, kept))
        zero = self._zero(name)

        def left(windows: Sequence[Values]) -> Array:
            kept_rows = (self._window_rows(w, name)[one.first : one.last] for w in windows[1 : one.period + 1])
            return np.stack([(rows.astype(np.int32) - zero).sum(axis=0, dtype=np.int32) for rows in kept_rows])

        self.left[kept] = left

    def _oldest(self, node: Node, kept: str, period: int) -> str:
        """The sum that a hop goes on from: the first of a queue."""
        if period == 1:
            return kept
        first, row_bytes = f"{kept}/first", self.values[kept].bytes // period
        self.values[first] = replace(self.graph.values[node.outputs[0]], name=first)
        params = JoinParams(row_bytes, 1, 0, 1, 0, 0, 0)
        self.nodes.append(Node(first, "join_rows", (kept,) * PIECES, (first,), origins=node.origins, params=params))
        return first

    def _append(self, queue: str, x: str, output: str, params: SlideParams, origins: tuple[str, ...]) -> None:
        """Move rows of a state to its start, and append rows of x."""
        self.values[output] = replace(self.values[queue], name=output)
        self.last.append(Node(output, "slide_rows", (queue, x), (output,), origins=origins, params=params, shares=0))

    def _running(
        self, node: Node, output: str, old: str, more: tuple[str, range], less: tuple[str, range] | None = None
    ) -> None:
        """Add rows of a tensor to a sum, and subtract others."""
        channels, value = node.params.channels, self.values[more[0]]
        (x, added), (y, taken) = more, less or (more[0], range(0))
        zero = value.qtype.zero_point[0] if value.qtype else 0
        params = RunningParams(channels, zero, added.start, len(added), taken.start, len(taken))
        op = RunningSumS16.name if value.bytes > value.elements else RunningSumS8.name
        name = output if output != node.outputs[0] else node.name
        self.values[output] = replace(self.graph.values[node.outputs[0]], name=output)
        shares = 0 if less else None
        self.nodes.append(Node(name, op, (old, x, y), (output,), origins=node.origins, params=params, shares=shares))

    def _delayed(self, node: Node) -> str:
        """The sums of the tops of this window and of the next ones."""
        (name, columns), total, channels = self._summed(node), node.outputs[0], node.params.channels
        one, zero, early = self.found[name], self._zero(name), self.early
        tops, top, kept = f"{total}/tops", f"{total}/top", f"{total}/tops_next"
        qtype = replace(self._qtype(total), dtype="int16")
        for of, rows in ((tops, early), (top, 1)):
            self.values[of] = Value(of, (rows, channels), qtype=qtype)
        params = RowSumsParams(1, one.first * columns, channels, zero)
        self.nodes.append(Node(top, RowSumsS8.name, (f"{name}/top",), (top,), origins=node.origins, params=params))
        gathers = self._gathers(node, early)
        if gathers:
            more, op = self._more(node, "gather_sums")
            self.values[kept] = replace(self.values[tops], name=kept)
            queue = sums.GatherParams(channels, self._zero(more), early, one.period, one.shift, one.last - one.first)
            self.last.append(
                Node(kept, op, (tops, top, self.bottom(more)), (kept,), origins=node.origins, params=queue, shares=0)
            )
        else:
            self._append(tops, top, kept, SlideParams(2 * channels, early, 0, 1), node.origins)
        self.states.append(State(kept, tops))

        def left(windows: Sequence[Values]) -> Array:
            found = []
            for i, window in enumerate(windows[1 : early + 1]):
                known = max(one.first, one.last - i // one.period * one.shift) if gathers else one.first
                rows = window[name].reshape(-1, channels)[: known * columns].astype(np.int16)
                found.append((rows - np.int16(zero)).sum(axis=0, dtype=np.int16))
            return np.stack(found)

        self.left[tops] = left
        return tops

    def _gathered(self, node: Node) -> None:
        """A sum of all rows: that of the first in the queue, which has all rows but those at the bottom, and these."""
        (name, op), total, one = self._more(node, "delayed_sum"), node.outputs[0], self._below(node)
        params = sums.DelayedParams(node.params.channels, self._zero(name), one.rows - one.last)
        inputs = (self._delayed(node), self.bottom(name))
        self.values[total] = self.graph.values[total]
        self.nodes.append(Node(node.name, op, inputs, (total,), origins=node.origins, params=params))

    def _more(self, node: Node, op: str) -> tuple[str, str]:
        """The value whose rows a sum adds up, and the name of an op for its type."""
        name = self.source(node.inputs[0])
        return name, f"{op}_{'s16' if self._qtype(name).dtype == 'int16' else 's8'}"

    def _qtype(self, name: str) -> QType:
        qtype = self.graph.values[name].qtype
        assert qtype is not None, name
        return qtype

    def _maximum(self, node: Node) -> None:
        """A maximum of all rows: the largest of those of the pieces, which need not be in one tensor."""
        name, y, p = self.source(node.inputs[0]), node.outputs[0], node.params
        largest = []
        for piece, rows, _ in self.pieces(name, 0):
            largest.append(f"{y}/{piece.rsplit('/', 1)[-1]}")
            self._largest(node, largest[-1], self.rows(name, rows), replace(p, in_h=len(rows), kernel_h=len(rows)))
        count, joined = len(largest), f"{y}/pieces"
        params = JoinParams(p.channels, count, 0, 1, 0, int(count > 1), 0)
        self.values[joined] = replace(self.graph.values[y], name=joined, shape=(1, count, 1, p.channels))
        inputs = (*largest, *largest[-1:] * (PIECES - count))
        self.nodes.append(Node(joined, "join_rows", inputs, (joined,), origins=node.origins, params=params))
        self._largest(node, y, joined, replace(p, in_h=count, kernel_h=count, in_w=1, kernel_w=1))

    def _largest(self, node: Node, output: str, x: str, params: PoolParams) -> None:
        name = output if output != node.outputs[0] else node.name
        self.values[output] = replace(self.graph.values[node.outputs[0]], name=output)
        self.nodes.append(replace(node, name=name, inputs=(x,), outputs=(output,), params=params))

    def _zero(self, name: str) -> int:
        return self._qtype(name).zero_point[0]

    def _window_rows(self, window: Values, name: str) -> Array:
        """The rows of a value in a window."""
        made = self.graph.producer().get(name)
        if made is not None and made.op == RowSumsS8.name:
            return RowSumsS8().int_ref(made.params, [window[made.inputs[0]]], {})
        return window[name].reshape(self.found[name].rows, -1)

    def _finished(self) -> Graph:
        """The graph with the states, and with outputs whose rows are in one tensor."""
        for name in self.graph.outputs:
            tensor = self._all(name)
            if tensor != name:
                self._own(tensor, name)
        rows = []
        for name, first in self.needed.items():
            self._slide(name, first, self.found[name])
            rows.append(State(f"{name}/kept_next", f"{name}{KEPT}"))
        states = (*rows, *self.states)
        inputs = (self.stream.input, *(state.input for state in states))
        outputs = (*self.graph.outputs, *(state.output for state in states))
        made = replace(
            self.graph,
            nodes=(*self.nodes, *self.last),
            values=self.values,
            inputs=inputs,
            outputs=outputs,
            states=states,
            stream=self.stream,
        )
        return verify(made.with_nodes(made.nodes))

    def _slide(self, name: str, first: int, one: Moved) -> None:
        """Move the rows that the next hop needs to the place where it looks for them."""
        kept = one.last - first
        taken = kept if one.period > 1 else min(kept, one.shift)
        x, x_first = self._last_rows(name, range(one.last + one.shift - taken, one.last + one.shift))
        params = SlideParams(one.row_bytes, kept * one.period, x_first, taken)
        self._append(f"{name}{KEPT}", x, f"{name}/kept_next", params, (name,))

        def left(windows: Sequence[Values]) -> Array:
            phases = (self._window_rows(window, name) for window in windows[1 : one.period + 1])
            return np.concatenate([rows[first : one.last] for rows in phases])

        self.left[f"{name}{KEPT}"] = left

    def _last_rows(self, name: str, wanted: range) -> tuple[str, int]:
        """A tensor that has these rows, and the first of them in it. One that a layer reads anyway comes first if it is
        little more than the bottom rows, so that the tensor of these may lie in the same memory.
        """
        most = 2 * (self.found[name].rows - self.found[name].last)
        for (of, start, stop, early), joined in self.joined.items():
            if of == name and not early and start <= wanted.start and wanted.stop <= stop <= start + most:
                return joined, wanted.start - start
        below = wanted.start - self.found[name].last
        return (self.bottom(name), below) if below >= 0 else (self.rows(name, wanted), 0)

    def _own(self, tensor: str, name: str) -> str:
        """A tensor under another name."""
        self.values[name] = replace(self.values[tensor], name=name)
        self.nodes.append(Node(name, "view", (tensor,), (name,), shares=0))
        return name
