"""Finds the calls of a group of layers that runs row by row: to make rows of the last node, the rows that its window needs are made
first, and so on back to the inputs of the group.

In: Rows, the nodes of a group, how it pulls. Out: a list of calls.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from glowembed.plan.rows import Rows

Call = tuple[int, int, int]
"""The position in Rows.works, the first row, and the last row + 1."""


@dataclass(frozen=True)
class Pull:
    """How a group pulls its rows. block: rows per call. order: nodes that pull their inputs from the last to the first.
    eager: nodes that are computed as soon as their inputs are there.
    """

    block: int = 1
    reverse: frozenset[int] = frozenset()
    eager: frozenset[int] = frozenset()


@dataclass
class _Puller:
    """Emits the calls of works[first:last]; everything before them is complete."""

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
        """Compute the rows of a node up to `count`."""
        if self.done.get(position, 0) >= count:
            return
        work = self.rows.works[position]
        while (begin := self.done.get(position, 0)) < count:
            end = min(begin + self.pull.block, work.rows)
            for producer, needed in self._needs(position, end):
                self.produce(producer, needed)
            if self.done.get(position, 0) != begin:
                continue
            self.calls.append((position, begin, end))
            self.done[position] = end
            if self.pull.eager:
                self._push(work.output)

    def _needs(self, position: int, end: int) -> list[tuple[int, int]]:
        """(node of this group, number of its rows) that are needed for rows up to `end`; for a row of several parts,
        earlier parts come first.
        """
        needs = self.rows.needs(position, end, position in self.pull.reverse)
        return [need for need in needs if self.first <= need[0] < self.last]

    def _push(self, storage: int) -> None:
        """Compute eager nodes that have become computable."""
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
