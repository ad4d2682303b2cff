"""Finds which items of a plan must not overlap in memory.

In: items made of cells (bytes inside the item that are alive from one tick to another), and which rows may be written
over others. Out: Conflicts. Two items conflict if cells of both are alive at the same tick; a conflict forbids one
interval for the difference of their offsets. The overlap of an output with its own input, in-place execution, rings and
single rows are all expressed by such intervals.

The cells of an item mostly form one run, in which offsets, births and deaths all rise. The cells of a run that are
alive together with another cell are contiguous, and the first and the last of them determine the forbidden interval, so
pairs of cells need not be compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from glowembed.records import dataclass

Ints = NDArray[np.int64]

PIECE = 1 << 20
"""The number of pairs of a run and a cell that are compared at once."""


@dataclass(frozen=True, eq=False)
class Item:
    """Cells (offset, size, birth, death) inside one piece of `size` bytes. also: other storages in the same place."""

    name: str
    row: int | None
    size: int
    alignment: int
    storage: int
    cells: Ints
    also: tuple[int, ...] = ()

    @cached_property
    def birth(self) -> int:
        return int(self.cells[:, 2].min())

    @cached_property
    def death(self) -> int:
        return int(self.cells[:, 3].max())


Near = tuple[Ints, Ints, Ints]
"""The numbers of items, and for each the interval that it forbids to another item: offsets above its own offset plus
the second number, and below its own offset plus the third.
"""


@dataclass(frozen=True, eq=False)
class Conflicts:
    """near[j] = (i, lo, hi): offset[j] - offset[i] must not lie strictly between lo and hi, lo < hi.

    Only conflicting pairs are kept, because most items are not alive at the same time, and a matrix of all pairs would
    not fit in memory if thousands of rows are separate items. Intervals begin and end at multiples of what both alignments
    are multiples of.
    """

    near: tuple[Near, ...]

    @property
    def pairs(self) -> int:
        """The number of conflicting pairs."""
        return sum(others.size for others, _, _ in self.near) // 2

    def among(self, numbers: Sequence[int]) -> Conflicts:
        """The conflicts of these items with each other, numbered in this order."""
        new = np.full(len(self.near), -1, np.int64)
        new[list(numbers)] = np.arange(len(numbers))
        found = []
        for number in numbers:
            others, lo, hi = self.near[number]
            kept = new[others] >= 0
            found.append((new[others[kept]], lo[kept], hi[kept]))
        return Conflicts(tuple(found))


InPlace = Ints
"""Rows (storage written, storage read, tick): the written row may lie at or below the read row of the same size whose
life ends in that tick.
"""


def conflicts(items: Sequence[Item], in_place: InPlace) -> Conflicts:
    """The conflicts between the cells of each pair of items."""
    if not items:
        return Conflicts(())
    birth, death = np.asarray([i.birth for i in items]), np.asarray([i.death for i in items])
    order = np.argsort(birth, kind="stable")
    behind = np.searchsorted(birth[order], death[order], side="right")
    runs = _Runs([items[i] for i in order], in_place)
    found = [runs.forbidden(first, last, behind) for first, last in runs.pieces(behind)]
    p, q, lo, hi = _united(len(items), *np.concatenate(found, axis=1))
    kept = lo < hi
    p, q, alignment = order[p[kept]], order[q[kept]], np.asarray([item.alignment for item in items])
    unit = np.gcd(alignment[p], alignment[q])
    return _both_ways(len(items), p, q, lo[kept] // unit * unit, -(-hi[kept] // unit) * unit)


class _Runs:
    """The cells of items in order of birth, as runs: cells of one item and one size whose offsets, births and deaths
    never fall.
    """

    def __init__(self, items: Sequence[Item], in_place: InPlace) -> None:
        self.offset, self.size, self.birth, self.death = np.concatenate([item.cells for item in items]).T.copy()
        counts = [len(item.cells) for item in items]
        self.item = np.repeat(np.arange(len(items)), counts)
        self.cells_of = np.concatenate([[0], np.cumsum(counts)])
        self.storage = np.asarray([item.storage for item in items]) + 1
        cut = (np.diff(self.item) > 0) | (np.diff(self.size) != 0)
        for rising in (self.offset, self.birth, self.death):
            cut |= np.diff(rising) < 0
        run = np.concatenate([[0], np.cumsum(cut)])
        self.first = np.concatenate([[0], np.flatnonzero(cut) + 1])
        self.span = int(max(self.death.max(), in_place[:, 2].max(initial=0))) + 3
        self.storages = int(max(self.storage.max(), in_place[:, :2].max(initial=0) + 1)) + 1
        self.births, self.deaths = run * self.span + self.birth + 1, run * self.span + self.death + 1
        written, read, tick = in_place.T
        self.allowed = np.unique(self.overwriting(written + 1, read + 1, tick))

    def overwriting(self, written: Ints, read: Ints, tick: Ints) -> Ints:
        """Return one number for each triple (storage written, storage read, tick)."""
        numbers: Ints = (written * self.storages + read) * self.span + tick + 1
        return numbers

    def pieces(self, behind: Ints) -> list[tuple[int, int]]:
        """The ranges of runs (first, last) that are compared at once, each with the cells of the items born while its
        own item is alive.
        """
        owner = self.item[self.first]
        pairs = np.cumsum(self.cells_of[behind[owner]] - self.cells_of[owner + 1])
        cuts = np.flatnonzero(np.diff(pairs // PIECE)) + 1
        return list(pairwise([0, *cuts.tolist(), len(owner)]))

    def forbidden(self, first: int, last: int, behind: Ints) -> Ints:
        """Columns (item, later item, lo, hi) of these runs."""
        owner = self.item[self.first[first:last]]
        begin, end = self.cells_of[owner + 1], self.cells_of[behind[owner]]
        count = end - begin
        run = np.repeat(np.arange(first, last), count)
        cell = np.arange(count.sum()) + np.repeat(begin - np.cumsum(count) + count, count)
        born, dies = run * self.span + self.birth[cell] + 1, run * self.span + self.death[cell] + 1
        low, high = np.searchsorted(self.deaths, born), np.searchsorted(self.births, dies, side="right")
        meet = low < high
        if not meet.any():
            return np.zeros((4, 0), np.int64)
        run, cell, born, dies, low, high = (array[meet] for array in (run, cell, born, dies, low, high))
        lo, hi = self._lowest(cell, born, low, high), self._highest(cell, dies, low, high)
        mine, other = self.item[self.first[run]], self.item[cell]
        start = np.concatenate([[0], np.flatnonzero(np.diff(run) | np.diff(other)) + 1])
        return np.stack([mine[start], other[start], np.minimum.reduceat(lo, start), np.maximum.reduceat(hi, start)])

    def _lowest(self, cell: Ints, born: Ints, low: Ints, high: Ints) -> Ints:
        """For cells that are alive together with cells low..high-1 of a run, the lowest forbidden difference of
        offsets.
        """
        behind = np.searchsorted(self.deaths, born, side="right")
        full: Ints = self.offset[low] - self.offset[cell] - self.size[cell]
        rest = self.offset[np.minimum(behind, high - 1)] - self.offset[cell] - self.size[cell]
        over = self._over(cell, low, self.birth[cell], behind > low)
        own = full + self.size[cell]
        return np.where(over, np.where(behind < high, np.minimum(own, rest), own), full)

    def _highest(self, cell: Ints, dies: Ints, low: Ints, high: Ints) -> Ints:
        """For cells that are alive together with cells low..high-1 of a run, the highest forbidden difference of
        offsets.
        """
        before = np.searchsorted(self.births, dies) - 1
        full: Ints = self.offset[high - 1] + self.size[low] - self.offset[cell]
        rest = self.offset[np.maximum(before, low)] + self.size[low] - self.offset[cell]
        over = self._over(low, cell, self.death[cell], before < high - 1)
        own = full - self.size[low]
        return np.where(over, np.where(before >= low, np.maximum(own, rest), own), full)

    def _over(self, written: Ints, read: Ints, tick: Ints, turns: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Whether each cell may lie over another one. turns: whether the latter dies when the former is born, at this
        tick.
        """
        over: NDArray[np.bool_] = turns & (self.size[written] == self.size[read])
        if over.any():
            storages = self.storage[self.item[written[over]]], self.storage[self.item[read[over]]]
            over[over] = np.isin(self.overwriting(*storages, tick[over]), self.allowed)
        return over


def _united(count: int, p: Ints, q: Ints, lo: Ints, hi: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """Merge the intervals of each pair into one: an item of several runs has one for each run."""
    order = np.argsort(p * count + q, kind="stable")
    p, q, lo, hi = p[order], q[order], lo[order], hi[order]
    if not p.size:
        return p, q, lo, hi
    start = np.concatenate([[0], np.flatnonzero(np.diff(p) | np.diff(q)) + 1])
    return p[start], q[start], np.minimum.reduceat(lo, start), np.maximum.reduceat(hi, start)


def _both_ways(count: int, i: Ints, j: Ints, lo: Ints, hi: Ints) -> Conflicts:
    """The conflicts of pairs i < j, listed for both items."""
    seen, others = np.concatenate([j, i]), np.concatenate([i, j])
    low, high = np.concatenate([lo, -hi]), np.concatenate([hi, -lo])
    order = np.lexsort((others, seen))
    ends = np.searchsorted(seen[order], np.arange(1, count))
    parts = (np.split(array[order], ends) for array in (others, low, high))
    return Conflicts(tuple(zip(*parts, strict=True)))
