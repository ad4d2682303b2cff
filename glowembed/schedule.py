"""Which rows of which node are computed when, so that few of them are alive at once.

In: Rows. Out: candidates, each a list of calls with its groups. A group of consecutive nodes is streamed: to make rows of
the last node, the rows that its window needs are made first, and so on back to the inputs of the group. Nothing is computed
twice. Where to cut the network into groups is found by dynamic programming over the cut points, with the bytes alive
at once as cost and the cycles of additional calls as second cost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from math import inf

import numpy as np
from numpy.typing import NDArray

from glowembed.rows import Rows, Work

Ints = NDArray[np.int64]
Call = tuple[int, int, int]
"""Position in Rows.works, first row, last row + 1."""

NEVER = 1 << 40
NONE: Ints = np.zeros(0, np.int64)

SEGMENTS, SHORTEST = 500, 6
"""Segments to look at: so many over the number of nodes is the longest group, but never less than a few."""

PAIRED = 14
"""Joins and forks of a group up to which two of them are changed at a time."""

NOBODY: frozenset[int] = frozenset()

CHEAP = 0.1
"""Share of the budget up to which a group needs no larger blocks of rows."""

BLOCKS = (2, 4, 8, 16)


@dataclass(frozen=True)
class Pull:
    """How a group pulls its rows. block: rows per call. order: nodes that pull their inputs from the last to the first.
    eager: nodes that are computed as soon as their inputs are there.
    """

    block: int = 1
    reverse: frozenset[int] = frozenset()
    eager: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Candidate:
    """Calls in order; `groups` are positions first..last-1 in Rows.works; peak is a lower bound of their memory; extra
    are cycles beyond one call for each node.
    """

    calls: tuple[Call, ...]
    groups: tuple[tuple[int, int], ...]
    peak: int
    extra: float


# ------------------------------------------------------------------------------------------------ lives


@dataclass(frozen=True)
class Lives:
    """Tick of the first and of the last access to each row of each storage; one tick per row computed.

    Rows that exist from the start have birth -1, those that the caller reads have death `ticks`. A row that is never
    touched has death -2. spans: first and last tick of each call.
    """

    birth: tuple[Ints, ...]
    death: tuple[Ints, ...]
    ticks: int
    spans: tuple[tuple[int, int], ...]


def lives(rows: Rows, calls: Sequence[Call]) -> Lives:
    """When each row is alive, for calls that compute everything."""
    return _lives(rows, calls, lambda storage: rows.storages[storage].is_input, lambda s: rows.storages[s].is_output)


def _lives(rows: Rows, calls: Sequence[Call], is_old: Callable[[int], bool], is_kept: Callable[[int], bool]) -> Lives:
    storages = rows.storages
    touched = {s for position, _, _ in calls for s in (*rows.works[position].inputs, rows.works[position].output)}
    touched |= {i for i, s in enumerate(storages) if s.is_input and is_old(i)}
    birth = [
        np.full(s.rows, -1 if is_old(i) else NEVER, np.int64) if i in touched else NONE for i, s in enumerate(storages)
    ]
    death = [np.full(s.rows, -2, np.int64) if i in touched else NONE for i, s in enumerate(storages)]
    tick, spans = 0, []
    for position, first, last in calls:
        work = rows.works[position]
        begin, end = tick, tick + last - first - 1
        apart = work.store == "disjoint"
        born, died = birth[work.output], death[work.output]
        reads = [(death[storage], spans_) for storage, spans_ in zip(work.inputs, work.reads, strict=True)]
        for y in range(first, last):
            now = end if apart else tick
            for dying, spans_ in reads:
                a, b = spans_[y]
                dying[a:b] = now
            a, b = work.writes[y]
            if born[a] == NEVER:
                born[a:b] = begin if apart else tick
            died[a:b] = now
            tick += 1
        spans.append((begin, end))
    for i in touched:
        if is_kept(i):
            death[i][:] = tick
        if storages[i].is_input and is_old(i):
            np.maximum(death[i], -1, out=death[i])
    return Lives(tuple(birth), tuple(death), tick, tuple(spans))


def live_bytes(rows: Rows, calls: Sequence[Call], life: Lives, unit: int = 1) -> Ints:
    """Bytes alive at each tick, -1 first and the caller's last; rows of streamed tensors are rounded up to `unit`."""
    change = np.zeros(life.ticks + 3, np.int64)
    for storage, birth, death in zip(rows.storages, life.birth, life.death, strict=True):
        if birth is NONE or storage.outside:
            continue
        size = storage.row_bytes if storage.whole else -(-storage.row_bytes // unit) * unit
        alive = death >= birth
        np.add.at(change, birth[alive] + 1, size)
        np.add.at(change, death[alive] + 2, -size)
    live = np.cumsum(change)[: life.ticks + 2]
    for (position, first, last), (begin, end) in zip(calls, life.spans, strict=True):
        work = rows.works[position]
        if work.scratch:
            live[begin + 1 : end + 2] += work.scratch
        if overwrites(rows, work, first, last, (begin, end), life):
            live[begin + 1 : end + 2] -= rows.storages[work.output].bytes
        for y in range(first, last) if work.in_place else ():
            live[begin + y - first + 1] -= _saved_in_place(rows, work, y, begin + y - first, life)
    return live


def overwrites(rows: Rows, work: Work, first: int, last: int, span: tuple[int, int], life: Lives) -> bool:
    """This call may write its output exactly over its input: all rows in one call, and nobody needs the input after."""
    if not work.same_place or (first, last) != (0, work.rows) or work.inputs[0] == work.output:
        return False
    dies = int(life.death[work.inputs[0]].max()) <= span[1]
    return dies and rows.storages[work.inputs[0]].bytes == rows.storages[work.output].bytes


def _saved_in_place(rows: Rows, work: Work, y: int, tick: int, life: Lives) -> int:
    """Bytes of the output row that lie on an input row that dies in this tick."""
    for k in work.in_place:
        first, last = work.reads[k][y]
        if last == first + 1 and life.death[work.inputs[k]][first] == tick:
            return rows.storages[work.output].row_bytes
    return 0


# ------------------------------------------------------------------------------------------------- pull


@dataclass
class _Puller:
    """Emits the calls of works[first:last]; everything before is complete."""

    rows: Rows
    first: int
    last: int
    pull: Pull
    done: dict[int, int] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)

    def run(self) -> list[Call]:
        for position in reversed(range(self.first, self.last)):
            if not self._read_inside(position):
                self.produce(position, self.rows.works[position].rows)
        for position in range(self.first, self.last):
            self.produce(position, self.rows.works[position].rows)
        return self.calls

    def _read_inside(self, position: int) -> bool:
        readers = self.rows.readers[self.rows.works[position].output]
        return any(self.first <= r < self.last for r in readers)

    def produce(self, position: int, count: int) -> None:
        """Rows of a node up to `count`."""
        work = self.rows.works[position]
        while (begin := self.done.get(position, 0)) < count:
            end = min(begin + self.pull.block, work.rows)
            for producer, needed in self._needs(position, end):
                self.produce(producer, needed)
            if self.done.get(position, 0) != begin:
                continue
            self.calls.append((position, begin, end))
            self.done[position] = end
            self._push(work.output)

    def _needs(self, position: int, end: int) -> Iterator[tuple[int, int]]:
        """(node of this group, how many of its rows) for rows up to `end`."""
        work = self.rows.works[position]
        pairs = list(zip(work.inputs, work.reads, strict=True))
        for storage, reads in reversed(pairs) if position in self.pull.reverse else pairs:
            producer = self.rows.writers[storage][0] if self.rows.writers[storage] else -1
            needed = max((b for _, b in reads[:end]), default=0)
            if self.first <= producer < self.last and needed:
                yield producer, self.rows.works[producer].row_that_completes[needed - 1]

    def _push(self, storage: int) -> None:
        """Compute what is eager and now can be."""
        for reader in self.rows.readers[storage]:
            if reader not in self.pull.eager or not self.first <= reader < self.last:
                continue
            while (begin := self.done.get(reader, 0)) < self.rows.works[reader].rows:
                end = min(begin + self.pull.block, self.rows.works[reader].rows)
                if any(self.done.get(p, 0) < n for p, n in self._needs(reader, end)):
                    break
                self.calls.append((reader, begin, end))
                self.done[reader] = end
                self._push(self.rows.works[reader].output)


def stream(rows: Rows, first: int, last: int, pull: Pull) -> list[Call]:
    """The calls of works[first:last] as one group."""
    return _Puller(rows, first, last, pull).run()


# ------------------------------------------------------------------------------------------------- cuts


Cycles = Callable[[int, int], float]
"""(position in Rows.works, rows) -> what a call for so many rows takes."""


@dataclass(frozen=True)
class _Segment:
    """A way to compute works[first:last] together. extra: cycles more than if each node were called once."""

    peak: int
    extra: float
    pull: Pull | None


@dataclass
class _Segments:
    """Costs of all segments that may be streamed."""

    rows: Rows
    unit: int
    cycles: Cycles
    known: dict[tuple[int, int, Pull | None], _Segment] = field(default_factory=dict)

    def cost(self, first: int, last: int, pull: Pull | None) -> _Segment:
        key = (first, last, pull)
        if key not in self.known:
            calls = self.calls(first, last, pull)
            extra = self.extra(calls) if pull is not None else 0.0
            self.known[key] = _Segment(self._peak(first, last, calls), extra, pull)
        return self.known[key]

    def extra(self, calls: Sequence[Call]) -> float:
        """Cycles of these calls beyond those of one call for each node."""
        nodes = {position for position, _, _ in calls}
        whole = sum(self.cycles(position, self.rows.works[position].rows) for position in nodes)
        return sum(self.cycles(position, last - first) for position, first, last in calls) - whole

    def calls(self, first: int, last: int, pull: Pull | None) -> list[Call]:
        if pull is None:
            return [(position, 0, self.rows.works[position].rows) for position in range(first, last)]
        return stream(self.rows, first, last, pull)

    @cached_property
    def users(self) -> tuple[tuple[int, int], ...]:
        """First writer (-1: none) and last user of each storage."""
        return tuple(
            (w[0] if w else -1, max((*r, *w), default=-1))
            for r, w in zip(self.rows.readers, self.rows.writers, strict=True)
        )

    def _peak(self, first: int, last: int, calls: Sequence[Call]) -> int:
        """Bytes alive at once while these calls run: also of what only lies there meanwhile."""
        storages = self.rows.storages

        def is_old(s: int) -> bool:
            return self.users[s][0] < first

        def is_kept(s: int) -> bool:
            return self.users[s][1] >= last or storages[s].is_output

        used = {s for p in range(first, last) for s in (*self.rows.works[p].inputs, self.rows.works[p].output)}
        life = _lives(self.rows, calls, lambda s: s in used and is_old(s), is_kept)
        live = live_bytes(self.rows, calls, life, self.unit)
        aside = sum(
            s.bytes for i, s in enumerate(storages) if i not in used and not s.outside and is_old(i) and is_kept(i)
        )
        return int(live[1:-1].max(initial=0)) + aside


def candidates(rows: Rows, unit: int, cycles: Cycles, budget: float) -> list[Candidate]:
    """From the least memory on, each with fewer cycles than the one before; the last one streams nothing.

    Only those that take at most `budget` cycles more than if each node were called once.
    """
    segments = _Segments(rows, unit, cycles)
    single = [segments.cost(i, i + 1, None) for i in range(len(rows.works))]
    options = _options(segments, budget)
    peaks = sorted({s.peak for way in options.values() for s in way} | {s.peak for s in single})
    found: list[Candidate] = []
    for limit in peaks:
        cut = _cut(options, single, limit)
        if cut is None or cut[0] > budget or (found and found[-1].extra <= cut[0]):
            continue
        found.append(_candidate(segments, cut[1]))
    if not found or found[-1].groups:
        found.append(unstreamed(rows))
    return found


def unstreamed(rows: Rows) -> Candidate:
    """Each node called once, for all of its rows."""
    calls = [(position, 0, work.rows) for position, work in enumerate(rows.works)]
    return Candidate(tuple(calls), (), int(live_bytes(rows, calls, lives(rows, calls)).max(initial=0)), 0.0)


def _options(segments: _Segments, budget: float) -> dict[tuple[int, int], list[_Segment]]:
    """Segments of two and more nodes that are worth a look, with larger blocks of rows where calls are dear."""
    works = segments.rows.works
    longest = max(SHORTEST, SEGMENTS // max(1, len(works)))
    options: dict[tuple[int, int], list[_Segment]] = {}
    for first in range(len(works)):
        for last in range(first + 1, min(len(works), first + longest) + 1):
            if not works[last - 1].streamable:
                break
            if last - first < 2 or max(w.rows for w in works[first:last]) < 2 or not works[first].streamable:
                continue
            ways = [segments.cost(first, last, Pull())]
            if ways[0].peak >= max(segments.cost(i, i + 1, None).peak for i in range(first, last)):
                continue
            if ways[0].extra > CHEAP * budget:
                ways += [segments.cost(first, last, Pull(block)) for block in BLOCKS]
            options[first, last] = ways
    return options


def _cut(
    options: Mapping[tuple[int, int], list[_Segment]], single: Sequence[_Segment], limit: int
) -> tuple[float, list[tuple[int, int, Pull | None]]] | None:
    """The fewest additional cycles with no segment above `limit` bytes."""
    count = len(single)
    best: list[tuple[int, int, Pull | None] | None] = [None] * (count + 1)
    total = [0.0] + [inf] * count
    into: dict[int, list[tuple[int, list[_Segment]]]] = {}
    for (first, last), ways in options.items():
        into.setdefault(last, []).append((first, ways))
    for last in range(1, count + 1):
        if single[last - 1].peak <= limit and total[last - 1] < total[last]:
            total[last], best[last] = total[last - 1], (last - 1, last, None)
        for first, ways in into.get(last, ()):
            for way in ways:
                extra = total[first] + way.extra
                if way.peak <= limit and extra < total[last]:
                    total[last], best[last] = extra, (first, last, way.pull)
    if total[count] == inf:
        return None
    ways_taken: list[tuple[int, int, Pull | None]] = []
    at = count
    while at:
        step = best[at]
        assert step is not None
        ways_taken.append(step)
        at = step[0]
    return total[count], ways_taken[::-1]


def _candidate(segments: _Segments, ways: Sequence[tuple[int, int, Pull | None]]) -> Candidate:
    """Improve each group by itself, then put the calls together."""
    calls: list[Call] = []
    for first, last, pull in ways:
        calls += segments.calls(first, last, _improved(segments, first, last, pull) if pull is not None else None)
    groups = tuple((first, last) for first, last, pull in ways if pull is not None)
    life = lives(segments.rows, calls)
    peak = int(live_bytes(segments.rows, calls, life, segments.unit).max(initial=0))
    return Candidate(tuple(calls), groups, peak, segments.extra(calls))


def _improved(segments: _Segments, first: int, last: int, pull: Pull) -> Pull:
    """Try other orders of pulling at joins, and eager side branches, one or two changes at a time while it helps."""
    works = segments.rows.works
    joins = [p for p in range(first, last) if len(set(works[p].inputs)) > 1]
    forks = sorted(
        {r for p in range(first, last) for r in segments.rows.readers[works[p].output]
         if len(segments.rows.readers[works[p].output]) > 1 and first <= r < last}
    )  # fmt: skip
    best, changed = segments.cost(first, last, pull), True
    flips = [(frozenset({j}), NOBODY) for j in joins] + [(NOBODY, frozenset({f})) for f in forks]
    if len(flips) <= PAIRED:
        flips += [(a[0] | b[0], a[1] | b[1]) for a, b in combinations(flips, 2)]
    while changed:
        changed = False
        for reverse, eager in flips:
            trial = replace(pull, reverse=pull.reverse ^ reverse, eager=pull.eager ^ eager)
            cost = segments.cost(first, last, trial)
            if (cost.peak, cost.extra) < (best.peak, best.extra):
                best, pull, changed = cost, trial, True
                break
    return pull
