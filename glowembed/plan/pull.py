"""Finds the calls of a group of layers that runs row by row: to compute rows of the last node, the rows that its window
needs are computed first, and so on back to the inputs of the group.

In: Rows, the nodes of a group, and how the group pulls. Out: a list of calls, and those that are repeated.
"""

from __future__ import annotations

from dataclasses import field

from glowembed.plan.calls import Call, Loop
from glowembed.plan.rows import Rows
from glowembed.plan.tiles import Tiled, Tiling
from glowembed.records import dataclass


@dataclass(frozen=True)
class Pull:
    """How a group pulls its rows. block: rows per call. order: nodes that pull their inputs from the last to the first.
    eager: nodes that are computed as soon as their inputs exist; sums always are. tiling: the strips of the group, in which calls
    compute one row.
    """

    block: int = 1
    reverse: frozenset[int] = frozenset()
    eager: frozenset[int] = frozenset()
    tiling: Tiling | None = None


@dataclass
class _Puller:
    """Lists the calls of works[first:last]; everything before them is complete."""

    rows: Rows
    first: int
    last: int
    pull: Pull
    tiled: Tiled | None = None
    calls: list[Call] = field(default_factory=list)
    patches: list[Loop] = field(default_factory=list)
    inside: bool = False

    def __post_init__(self) -> None:
        self.done = dict.fromkeys(range(self.first, self.last), 0)
        works = ((p, self.rows.works[p]) for p in self.done)
        self.eager = {p for p, work in works if p in self.pull.eager or work.accumulates}
        self.pushing = {storage for p in self.eager for storage in self.rows.works[p].inputs}

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
        """Add calls until the first `count` rows of a node are computed."""
        done = self.done
        if self.tiled is not None and position in self.tiled.patched and not self.inside:
            while done[position] < count:
                self._patch(self.tiled)
            return
        work, backwards = self.rows.works[position], position in self.pull.reverse
        while (begin := done[position]) < count:
            end = min(begin + self.pull.block, work.rows)
            for producer, needed in self.rows.needs(position, end, backwards):
                if producer in done and done[producer] < needed:
                    self.produce(producer, needed)
            if done[position] == begin:
                self.calls.append((position, begin, end))
                done[position] = end
                self._push(work.output)

    def _patch(self, tiled: Tiled) -> None:
        """Add the calls for the next block of patched rows, after everything that it reads, so that these calls can be
        repeated.
        """
        counts = tiled.counts[len(self.patches)]
        for position in tiled.patched:
            for producer, needed in self._needs(position, counts[position]):
                if producer not in tiled.patched:
                    self.produce(producer, needed)
        begin, self.inside = len(self.calls), True
        for position in reversed(tiled.patched):
            self.produce(position, counts[position])
        self.inside = False
        self.patches.append(Loop(begin, len(self.calls), tiled.patch_borders))
        for position in tiled.patched:
            self._push(self.rows.works[position].output)

    def _needs(self, position: int, end: int) -> list[tuple[int, int]]:
        """The pairs (node of this group, number of its rows) that are needed for rows up to `end`. For a row with
        several parts, earlier parts come first.
        """
        needs = self.rows.needs(position, end, position in self.pull.reverse)
        return [need for need in needs if need[0] in self.done]

    def _push(self, storage: int) -> None:
        """Add the calls of eager nodes that have become computable, except in a patch, whose calls are repeated. Sums are eager, so that
        none of several sums keeps the rows of the others.
        """
        if storage not in self.pushing or self.inside:
            return
        for reader in self.rows.readers[storage]:
            if reader not in self.eager:
                continue
            while (begin := self.done[reader]) < self.rows.works[reader].rows:
                end = min(begin + self.pull.block, self.rows.works[reader].rows)
                if any(self.done[p] < n for p, n in self._needs(reader, end)):
                    break
                self.calls.append((reader, begin, end))
                self.done[reader] = end
                self._push(self.rows.works[reader].output)


def stream(rows: Rows, first: int, last: int, pull: Pull) -> list[Call]:
    """The calls of works[first:last] as one group."""
    return _Puller(rows, first, last, pull).run()


def stream_tiled(rows: Rows, tiled: Tiled, pull: Pull) -> tuple[list[Call], list[Loop]]:
    """The calls of a group in one strip, and the loops in them: first the loop over the strips, then those over
    patches.
    """
    puller = _Puller(rows, tiled.first, tiled.last, pull, tiled=tiled)
    calls = puller.run()
    return calls, [Loop(0, len(calls), tiled.borders if tiled.tiling.strips > 1 else ()), *puller.patches]
