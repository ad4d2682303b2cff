"""Decides when each row of each node is computed, so that few rows are alive at once.

In: Rows. Out: candidates, each a list of calls with its groups. A group of consecutive nodes is streamed: to compute
rows of the last node, the rows that its window needs are computed first, and so on back to the inputs of the group.
Nothing is computed twice. Dynamic programming over the cut points divides the network into groups, with the bytes that
are alive at once as the limit, and with the cycles of additional calls and of slower kernels with less scratch as the
cost.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from itertools import combinations, product
from math import inf

import numpy as np

from glowembed.plan.alike import Alike, Counts, Run, known, run_of
from glowembed.plan.calls import Call, Loop
from glowembed.plan.curve import NEVER, SLACK, Curve, Option, chosen, curve_of
from glowembed.plan.lives import Ints, Lives, in_one_piece, live_bytes, lives, lives_within
from glowembed.plan.pull import Pull, stream, stream_tiled
from glowembed.plan.rows import Rows
from glowembed.plan.tiles import Tiled, Tiler
from glowembed.plan.tilings import Estimates
from glowembed.records import dataclass

SEGMENTS, SHORTEST = 500, 6
"""The number of segments that are considered: SEGMENTS divided by the number of nodes is the length of the longest
group, and at least SHORTEST.
"""

PAIRED, TRIED = 14, 40_000
"""The most joins and forks of a group for which changes of two of them are tried together, and the most rows that all these trials may
compute together."""

NOBODY: frozenset[int] = frozenset()

CHEAP = 0.1
"""The share of the budget up to which a group needs no larger blocks of rows."""

BLOCKS = (2, 4, 8, 16)

ROOMS = (0.0, 0.06)
"""Shares of the limit that the chosen kernels leave free if they can."""

OWN_SHARE = 0.002
"""The share of the cycles that nodes' own kernels may cost compared with faster ones that need as much memory, because
the flash of the faster ones was not worth it.
"""

SHARES = (1.0, 0.96, 0.92, 0.88, 0.84, 0.8, 0.75, 0.7, 0.65, 0.6, 0.56, 0.52, 0.48, 0.44, 0.4, 0.36, 0.32, 0.28, 0.24)
"""The limits for which groups in strips are searched, as shares of the bytes that are needed without strips."""

ROUGH = 2.0
"""How far an estimate of cycles may exceed the budget, because exact ones may be lower."""

STEPS = (0.0, 0.01, 0.02, 0.03, 0.04, 0.06, 0.09, 0.12, 0.18, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
"""The limits to try, as shares above the smallest possible one."""


@dataclass(frozen=True)
class Candidate:
    """Calls in order. groups: positions first..last-1 in Rows.works. kernels: for each of Rows.works, the number of its
    kernel. extra: the cycles beyond one call of its own kernel for each node. tiled: the groups in strips, whose calls
    are those of one strip. rows: the works and storages of all calls. loops: the calls that are repeated.
    """

    calls: tuple[Call, ...]
    groups: tuple[tuple[int, int], ...]
    kernels: tuple[int, ...]
    extra: float
    rows: Rows = field(compare=False, repr=False)
    loops: tuple[Loop, ...] = ()
    tiled: tuple[Tiled, ...] = field(default=(), compare=False, repr=False)


def with_scratch(rows: Rows, candidate: Candidate, life: Lives, live: Ints) -> Ints:
    """The bytes alive at each tick, including the scratch of the kernels that the candidate calls."""
    live = live.copy()
    for (position, _, _), (begin, end) in zip(candidate.calls, life.spans, strict=True):
        live[begin + 1 : end + 2] += scratch_of(rows, candidate, position)
    return live


def scratch_of(rows: Rows, candidate: Candidate, position: int) -> int:
    """The bytes of scratch that a call of this node needs."""
    kernels = rows.works[position].kernels
    return kernels[candidate.kernels[position]].scratch if kernels else 0


Cycles = Callable[[int, int, int], float]
"""A function of (position in Rows.works, number of the kernel, rows) that returns the cycles of a call for this many
rows.
"""


@dataclass(frozen=True)
class _Segment:
    """A way to compute works[first:last] together. curve: the cycles beyond one call of each node's own kernel."""

    curve: Curve
    pull: Pull | None


Way = tuple[int, int, Pull | None]
"""The first and the last position of a segment, and how it is streamed."""


@dataclass
class _Segments:
    """The costs of all segments that may be streamed."""

    rows: Rows
    unit: int
    cycles: Cycles
    tiler: Tiler | None = None
    groups: tuple[Tiled, ...] = ()
    known: dict[tuple[int, int, Pull | None], _Segment] = field(default_factory=dict)
    alike: Alike = field(default_factory=Alike)
    taken: dict[Hashable, list[tuple[int, float, int]]] = field(default_factory=dict)

    def cost(self, first: int, last: int, pull: Pull | None) -> _Segment:
        key = (first, last, pull)
        if key not in self.known:
            self.known[key] = _Segment(self._shifted(first, last, pull), pull)
        return self.known[key]

    def _shifted(self, first: int, last: int, pull: Pull | None) -> Curve:
        """The curve of a segment, including the bytes that merely exist while it runs."""
        if pull is not None and pull.tiling is not None:
            return self._in_strips(first, last, pull)
        used = dict.fromkeys(
            s for p in range(first, last) for s in (*self.rows.works[p].inputs, self.rows.works[p].output)
        )
        key = self._likeness(first, last, pull, used, self.kinds)
        curves = self.alike.curves
        if key not in curves:
            positions, run = range(first, last), self._run(first, last, pull, used)
            curves[key] = self.above(positions, curve_of(self.options(positions, run), run.most))
        curve, aside = curves[key], self._aside(first, last, used)
        return replace(curve, needs=tuple(need + aside for need in curve.needs))

    def _run(self, first: int, last: int, pull: Pull | None, used: Iterable[int]) -> Run:
        """The calls of a segment."""
        key = self._likeness(first, last, pull, used, self.shapes)
        runs = self.alike.runs
        if key not in runs:
            calls = self.calls(first, last, pull)
            life, live = self._alive(self.rows if pull is not None else self.pieces, first, last, calls, ())
            runs[key] = run_of(range(first, last), calls, life, live)
        return runs[key]

    def _in_strips(self, first: int, last: int, pull: Pull) -> Curve:
        """The curve of a segment in strips, including the bytes that merely exist while it runs."""
        view = self.view([(first, last, pull)])
        (calls, loops), positions = view.strips(first, last, pull), range(first, last)
        life, live = view._alive(view.rows, first, last, calls, loops)
        run = run_of(positions, calls, life, live)
        curve = self.above(positions, curve_of(view.options(positions, run), run.most))
        used = {s for w in self.rows.works[first:last] for s in (*w.inputs, w.output)}
        aside = self._aside(first, last, used)
        return replace(curve, needs=tuple(need + aside for need in curve.needs))

    def view(self, ways: Iterable[Way]) -> _Segments:
        """The same works, in which each group in strips is one strip, with the cycles of all strips."""
        tiled = [self.tiled(a, b, pull) for a, b, pull in ways if pull is not None and pull.tiling is not None]
        if not tiled:
            return self
        rows = self.rows
        for one in tiled:
            rows = one.rows(rows)
        within = {p: one for one in tiled for p in range(one.first, one.last)}

        def cycles(position: int, number: int, count: int) -> float:
            if position not in within:
                return self.cycles(position, number, count)
            one, tiler = within[position], self.tiler
            assert count == 1 and tiler is not None
            symbol = rows.works[position].kernels[number].symbol
            return tiler.cycles(position, symbol, one.tiles[position - one.first])

        return _Segments(rows, self.unit, cycles, self.tiler, tuple(tiled))

    def tiled(self, first: int, last: int, pull: Pull) -> Tiled:
        """A group in strips."""
        assert self.tiler is not None and pull.tiling is not None
        found = self.tiler.tiled(first, last, pull.tiling)
        assert found is not None
        return found

    def strips(self, first: int, last: int, pull: Pull) -> tuple[list[Call], list[Loop]]:
        """The calls of a group in strips of this view, and the loops in them."""
        return stream_tiled(self.rows, next(one for one in self.groups if one.first == first), pull)

    def all_calls(self, ways: Iterable[Way]) -> tuple[tuple[Call, ...], tuple[Loop, ...]]:
        """The calls of all segments of this view, and the loops in them."""
        calls: list[Call] = []
        loops: list[Loop] = []
        for first, last, pull in ways:
            if pull is not None and pull.tiling is not None:
                mine, repeated = self.strips(first, last, pull)
                loops += [loop.behind(len(calls)) for loop in repeated]
            else:
                mine = self.calls(first, last, pull)
            calls += mine
        return tuple(calls), tuple(loops)

    def _likeness(
        self, first: int, last: int, pull: Pull | None, used: Iterable[int], kinds: Sequence[object]
    ) -> Hashable:
        """A key that is equal for two segments whose nodes are of the same kinds and are connected in the same way."""
        number = {s: i for i, s in enumerate(used)}
        nodes = tuple(
            (kinds[p], *(number[s] for s in (*self.rows.works[p].inputs, self.rows.works[p].output)))
            for p in range(first, last)
        )
        storages = tuple((self.unnamed[s], self.users[s][0] < first, self.users[s][1] >= last) for s in number)
        if pull is None:
            return self.unit, nodes, storages
        order = (
            frozenset(p - first for p in positions if first <= p < last) for positions in (pull.reverse, pull.eager)
        )
        return self.unit, nodes, storages, pull.block, *order

    @cached_property
    def estimates(self) -> Estimates:
        assert self.tiler is not None
        return Estimates(self.tiler)

    @cached_property
    def unnamed(self) -> tuple[object, ...]:
        """A label for each storage, the same for storages that differ only in their values."""
        return tuple(self.alike.label(replace(s, values=())) for s in self.rows.storages)

    @cached_property
    def shapes(self) -> tuple[object, ...]:
        """A label for each node, the same for nodes with the same accesses."""
        plain = (replace(work, index=0, name="", inputs=(), output=0, kernels=()) for work in self.rows.works)
        return tuple(
            self.alike.label((one, len(work.inputs))) for one, work in zip(plain, self.rows.works, strict=True)
        )

    @cached_property
    def kinds(self) -> tuple[object, ...]:
        """A label for each node, the same for nodes with the same accesses and the same kernels at the same
        cycles.
        """
        kinds = []
        for position, work in enumerate(self.rows.works):
            counts = {work.rows, *(n for b in (1, *BLOCKS) for n in (min(b, work.rows), work.rows % b))} - {0}
            cycles = tuple(self.cycles(position, i, rows) for i in range(len(work.kernels)) for rows in sorted(counts))
            kinds.append(self.alike.label((self.shapes[position], work.kernels, cycles)))
        return tuple(kinds)

    def above(self, positions: Iterable[int], curve: Curve) -> Curve:
        """The curve with the cycles beyond one call of each node's own kernel."""
        whole = self.whole(positions)
        return replace(curve, cycles=tuple(c - whole for c in curve.cycles))

    def whole(self, positions: Iterable[int]) -> float:
        """The cycles of one call of each node's own kernel."""
        return sum(self.cycles(p, 0, self.rows.works[p].rows) for p in positions)

    def options(self, positions: Iterable[int], run: Run) -> list[list[Option]]:
        """For each position, the bytes and cycles of its calls with each kernel that may be called this way."""
        return [
            [Option(floor + scratch, taken, i) for scratch, taken, i in self._taken(p, counts)]
            for p, floor, counts in zip(positions, run.floors, run.counts, strict=True)
        ]

    def _taken(self, position: int, counts: Counts) -> list[tuple[int, float, int]]:
        """The scratch and the cycles of so many calls of so many rows, with each kernel that may be called this way."""
        key = position, counts
        if key not in self.taken:
            work, sizes = self.rows.works[position], dict(counts)
            self.taken[key] = [
                (kernel.scratch, sum(n * self.cycles(position, i, rows) for rows, n in counts), i)
                for i, kernel in enumerate(work.kernels)
                if not (kernel.in_parts and work.rows in sizes)
            ] or [(0, 0.0, 0)]
        return self.taken[key]

    def calls(self, first: int, last: int, pull: Pull | None) -> list[Call]:
        if pull is None:
            return [(position, 0, self.rows.works[position].rows) for position in range(first, last)]
        return stream(self.rows, first, last, pull)

    @cached_property
    def users(self) -> tuple[tuple[int, int], ...]:
        """The first writer (-1: none) and last user of each storage."""
        return tuple(
            (w[0] if w else -1, max((*r, *w), default=-1))
            for r, w in zip(self.rows.readers, self.rows.writers, strict=True)
        )

    @cached_property
    def pieces(self) -> Rows:
        """The rows if nothing is streamed, so that all storages are in one piece."""
        return in_one_piece(self.rows, ())

    def _alive(
        self, rows: Rows, first: int, last: int, calls: Sequence[Call], loops: Sequence[Loop]
    ) -> tuple[Lives, Ints]:
        """The lifetimes during these calls, and the bytes alive, for the storages that the calls use."""
        storages = rows.storages

        def is_old(s: int) -> bool:
            return self.users[s][0] < first

        def is_kept(s: int) -> bool:
            return self.users[s][1] >= last or storages[s].is_output

        used = {s for p in range(first, last) for s in (*rows.works[p].inputs, rows.works[p].output)}
        life = lives_within(rows, calls, loops, lambda s: s in used and is_old(s), is_kept)
        return life, live_bytes(rows, calls, life, self.unit)

    def _aside(self, first: int, last: int, used: Iterable[int]) -> int:
        """The bytes of the storages that exist while a segment runs but that it does not use."""
        born, dies, size = self.storages
        mine = sum(size[i] for i in used if born[i] < first and dies[i] >= last)
        return int(size[(born < first) & (dies >= last)].sum() - mine)

    @cached_property
    def storages(self) -> tuple[Ints, Ints, Ints]:
        """The first writer (-1: none) and last user of each storage (NEVER for outputs), and its bytes in the arena."""
        pairs = list(zip(self.rows.storages, self.users, strict=True))
        born, dies = [b for _, (b, _) in pairs], [NEVER if s.is_output else d for s, (_, d) in pairs]
        return np.asarray(born), np.asarray(dies), np.asarray([0 if s.outside else s.bytes for s, _ in pairs])


def candidates(
    rows: Rows,
    unit: int,
    cycles: Cycles,
    budgets: Sequence[float],
    limit: int | None = None,
    tiler: Tiler | None = None,
) -> list[Candidate]:
    """The candidates for each budget, beginning with the least memory, and then those that stream nothing.

    A candidate for a budget takes at most that many cycles beyond one call of each node's own kernel. With a limit of
    bytes, the search does not aim below it. tiler: if given, groups may be computed in strips.
    """
    segments = _Segments(rows, unit, cycles, tiler, alike=known())
    found = _each(budgets, lambda budget: _within(segments, budget, limit, strips=budget == budgets[0]))
    return [c for c in found if c.groups] + [c for c in found if not c.groups]


def unstreamed(rows: Rows, unit: int, cycles: Cycles, budgets: Sequence[float]) -> list[Candidate]:
    """The candidates in which each node is called once, for all of its rows."""
    segments = _Segments(rows, unit, cycles, alike=known())
    return _each(budgets, lambda budget: _unstreamed(segments, budget, None))


def _each(budgets: Sequence[float], within: Callable[[float], list[Candidate]]) -> list[Candidate]:
    """The candidates of every budget, without duplicates."""
    found: list[Candidate] = []
    for budget in budgets:
        found += [candidate for candidate in within(budget) if candidate not in found]
    return found


def _within(segments: _Segments, budget: float, limit: int | None, strips: bool) -> list[Candidate]:
    single = [segments.cost(i, i + 1, None) for i in range(len(segments.rows.works))]
    options = _options(segments, budget)
    if strips and segments.tiler is not None:
        options = _with_strips(segments, options, single, budget)
    found: list[Candidate] = []
    for aim in _aims(options, single, budget, limit):
        cut = _cut(options, single, aim)
        if cut is None or cut[0] > budget + SLACK:
            continue
        found += [c for c in _candidates(segments, aim, cut[1], budget, limit) if c not in found]
    return found + _unstreamed(segments, budget, limit)


def _with_strips(
    segments: _Segments,
    options: Mapping[tuple[int, int], list[_Segment]],
    single: Sequence[_Segment],
    budget: float,
) -> dict[tuple[int, int], list[_Segment]]:
    """The segments, and those in strips that a cut would use according to their estimates, for some limits below the
    bytes needed without strips.
    """
    tiler, estimates = segments.tiler, segments.estimates
    found = {group: list(ways) for group, ways in options.items()}
    known = _aims(options, single, budget, None)
    if tiler is None or not known:
        return found
    most = known[0]
    guessed = {group: list(ways) for group, ways in options.items()}
    for first, last, tiling, curve in estimates.groups(most):
        guess = _Segment(segments.above(range(first, last), curve), Pull(tiling=tiling))
        guessed.setdefault((first, last), []).append(guess)
    taken: set[Way] = set()
    for share in SHARES:
        cut = _cut(guessed, single, int(most * share))
        taken |= set(cut[1]) if cut is not None and cut[0] <= ROUGH * budget else set()
    for first, last, pull in sorted(taken, key=str):
        if pull is not None and pull.tiling is not None and tiler.tiled(first, last, pull.tiling) is not None:
            found.setdefault((first, last), []).append(segments.cost(first, last, pull))
    return found


def _unstreamed(segments: _Segments, budget: float, limit: int | None) -> list[Candidate]:
    return _assembled(segments, limit or 0, [(i, i + 1, None) for i in range(len(segments.rows.works))], budget, limit)


def _aims(
    options: Mapping[tuple[int, int], list[_Segment]],
    single: Sequence[_Segment],
    budget: float,
    limit: int | None,
) -> list[int]:
    """Aims for the search: the fewest bytes within the budget, and more; with a limit, also a little less than the
    limit.
    """
    ways = [*single, *(s for way in options.values() for s in way)]
    needs = sorted({n for way in ways for n in way.curve.needs})
    low, high = 0, len(needs) - 1
    while low < high:
        middle = (low + high) // 2
        cut = _cut(options, single, needs[middle])
        low, high = (low, middle) if cut is not None and cut[0] <= budget + SLACK else (middle + 1, high)
    aims = {int(needs[low] * (1 + step)) for step in STEPS} if needs else set()
    aims |= {int(limit * (1 - step)) for step in STEPS} if limit is not None else set()
    return sorted(aim for aim in aims if needs[low] <= aim <= needs[-1])


def _options(segments: _Segments, budget: float) -> dict[tuple[int, int], list[_Segment]]:
    """The segments of two or more nodes that are worth trying, with larger blocks of rows if calls are expensive."""
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
            if ways[0].curve.least >= max(segments.cost(i, i + 1, None).curve.least for i in range(first, last)):
                continue
            if ways[0].curve.cycles[-1] > CHEAP * budget:
                ways += [segments.cost(first, last, Pull(block)) for block in BLOCKS]
            options[first, last] = ways
    return options


def _cut(
    options: Mapping[tuple[int, int], list[_Segment]], single: Sequence[_Segment], limit: int
) -> tuple[float, list[tuple[int, int, Pull | None]]] | None:
    """The cut with the fewest additional cycles in which no segment takes more than `limit` bytes."""
    count = len(single)
    best: list[tuple[int, int, Pull | None] | None] = [None] * (count + 1)
    total = [0.0] + [inf] * count
    into: dict[int, list[tuple[int, list[_Segment]]]] = {}
    for (first, last), ways in options.items():
        into.setdefault(last, []).append((first, ways))
    for last in range(1, count + 1):
        alone = total[last - 1] + single[last - 1].curve.at(limit)
        if alone < total[last]:
            total[last], best[last] = alone, (last - 1, last, None)
        for first, ways in into.get(last, ()):
            for way in ways:
                extra = total[first] + way.curve.at(limit)
                if extra < total[last]:
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


def _candidates(
    segments: _Segments, aim: int, ways: Sequence[Way], budget: float, limit: int | None
) -> list[Candidate]:
    """Improve each group separately, then join the calls."""
    better = [(a, b, _improved(segments, aim, a, b, pull) if pull is not None else None) for a, b, pull in ways]
    return _assembled(segments, aim, better, budget, limit)


def _assembled(segments: _Segments, aim: int, ways: Sequence[Way], budget: float, limit: int | None) -> list[Candidate]:
    """All calls, with the kernels that need the least memory within the budget or, with a limit, the fastest ones for
    the aim. Without a limit, nodes keep their own kernels if these need no more memory and cost few cycles.

    There are also candidates with kernels that leave some room at the peak, because they are easier to place.
    """
    view = segments.view(ways)
    rows, (calls, loops) = view.rows, view.all_calls(ways)
    groups = tuple((first, last) for first, last, pull in ways if pull is not None)
    life = lives(rows, calls, loops)
    live = live_bytes(in_one_piece(rows, groups), calls, life, segments.unit)
    positions = range(len(rows.works))
    run = run_of(positions, calls, life, live)
    options = view.options(positions, run)
    curve = segments.above(positions, curve_of(options, run.most))
    least = curve.within(budget)
    needs = (least, max(least, aim)) if limit is None else (max(least, aim),)
    whole = segments.whole(positions)
    found: list[Candidate] = []
    for need, room in product(needs, ROOMS):
        kernels = chosen(options, need, int(need * (1 - room)))
        extra = _cycles(options, kernels) - whole
        if limit is None:
            own = [_own(mine, i) for mine, i in zip(options, kernels, strict=True)]
            more = _cycles(options, own) - whole
            if more - extra <= OWN_SHARE * whole and more <= budget + SLACK:
                kernels, extra = own, more
        candidate = Candidate(calls, groups, tuple(kernels), extra, rows, loops, view.groups)
        if extra <= budget + SLACK and candidate not in found:
            found.append(candidate)
    return found


def _cycles(options: Sequence[Sequence[Option]], kernels: Sequence[int]) -> float:
    return sum(_option(mine, i).cycles for mine, i in zip(options, kernels, strict=True))


def _option(options: Sequence[Option], index: int) -> Option:
    return next(o for o in options if o.index == index)


def _own(options: Sequence[Option], index: int) -> int:
    """The number of a node's own kernel if it needs no more memory than this one, because a faster one was not worth
    its flash.
    """
    return 0 if any(o.index == 0 and o.need <= _option(options, index).need for o in options) else index


def _improved(segments: _Segments, aim: int, first: int, last: int, pull: Pull) -> Pull:
    """Try other orders of pulling at joins, and eager side branches, one or two changes at a time, as long as that
    helps.
    """
    works = segments.rows.works
    joins = [p for p in range(first, last) if len(set(works[p].inputs)) > 1]
    forks = sorted(
        {r for p in range(first, last) for r in segments.rows.readers[works[p].output]
         if len(segments.rows.readers[works[p].output]) > 1 and first <= r < last and not works[r].accumulates}
    )  # fmt: skip
    allowed = segments.cost(first, last, pull).curve.at(aim)

    def measure(pull: Pull) -> tuple[int, float]:
        curve = segments.cost(first, last, pull).curve
        return (need := curve.within(allowed)), curve.at(need)

    best, changed = measure(pull), True
    flips = [(frozenset({j}), NOBODY) for j in joins] + [(NOBODY, frozenset({f})) for f in forks]
    pairs, computed = len(flips) * (len(flips) - 1) // 2, sum(works[p].rows for p in range(first, last))
    if len(flips) <= PAIRED and pairs * computed <= TRIED:
        flips += [(a[0] | b[0], a[1] | b[1]) for a, b in combinations(flips, 2)]
    while changed:
        changed = False
        for reverse, eager in flips:
            trial = replace(pull, reverse=pull.reverse ^ reverse, eager=pull.eager ^ eager)
            if (cost := measure(trial)) < best:
                best, pull, changed = cost, trial, True
                break
    return pull
