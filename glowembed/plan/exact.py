"""Finds the smallest placement of a few items, and proves that none is smaller, by branch and bound.

In: items, the intervals that each pair forbids for the difference of its offsets (conflicts.py), and a size to improve on. Out:
offsets, and whether none can need less. Of two items that must not overlap, one lies below the other. Each such decision raises the
lowest or lowers the highest offset that is left for an item, which decides other pairs, until none is left or an item has no place.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from glowembed.plan.conflicts import Conflicts, Ints, Item

PAIRS, NODES = 120, 400
"""The most pairs of items for which placements are searched, and the most sets of decisions that are tried."""

Where = NDArray[np.int8]
"""For each pair, where its second item lies: OPEN if that is not decided."""

OPEN, BELOW, ABOVE = 0, 1, 2


def smaller(items: Sequence[Item], forbidden: Conflicts, size: int, bound: int) -> tuple[tuple[int, ...] | None, bool]:
    """The smallest offsets that are found and need less than `size` bytes, and whether it is proved that none need less than these, or than
    `size` if there are none. bound: no offsets need less.
    """
    if size <= bound or forbidden.pairs > PAIRS:
        return None, size <= bound
    pairs, sizes = _Pairs(items, forbidden), np.asarray([item.size for item in items], np.int64)
    best: Ints | None = None
    stack = [(np.zeros_like(sizes), size - sizes, np.full(len(pairs.low), OPEN, np.int8))]
    tried = 0
    while stack and size > bound and tried < NODES:
        tried += 1
        least, most, where = stack.pop()
        np.minimum(most, size - 1 - sizes, out=most)
        if not pairs.narrowed(least, most, where):
            continue
        pair, first = pairs.closest(least, most, where)
        if pair is None:
            best, size = least, int((least + sizes).max())
            continue
        for side in (BELOW + ABOVE - first, first):
            where[pair] = side
            stack.append((least.copy(), most.copy(), where.copy()))
    return None if best is None else tuple(best.tolist()), not stack or size <= bound


class _Pairs:
    """Items i < j of which one must lie below the other: offset[j] - offset[i] is at most `low`, or at least `high`."""

    def __init__(self, items: Sequence[Item], forbidden: Conflicts) -> None:
        earlier = [others < j for j, (others, _, _) in enumerate(forbidden.near)]
        self.i, self.low, self.high = (
            np.concatenate([near[part][kept] for near, kept in zip(forbidden.near, earlier, strict=True)])
            for part in range(3)
        )
        self.j = np.repeat(np.arange(len(items)), [np.count_nonzero(kept) for kept in earlier])
        self.unit = np.asarray([item.alignment for item in items], np.int64)

    def narrowed(self, least: Ints, most: Ints, where: Where) -> bool:
        """Decide what can only be one way, and narrow the range least..most of each offset, in place. False if an item has no place."""
        i, j = self.i, self.j
        while True:
            most -= most % self.unit
            least += -least % self.unit
            if (least > most).any():
                return False
            below = (where != ABOVE) & (least[j] - most[i] <= self.low)
            above = (where != BELOW) & (most[j] - least[i] >= self.high)
            if not (below | above).all():
                return False
            where[below & ~above], where[above & ~below] = BELOW, ABOVE
            b, a, before = where == BELOW, where == ABOVE, (least.copy(), most.copy())
            np.minimum.at(most, j[b], (most[i] + self.low)[b])
            np.maximum.at(least, i[b], (least[j] - self.low)[b])
            np.maximum.at(least, j[a], (least[i] + self.high)[a])
            np.minimum.at(most, i[a], (most[j] - self.high)[a])
            if np.array_equal(least, before[0]) and np.array_equal(most, before[1]):
                return True

    def closest(self, least: Ints, most: Ints, where: Where) -> tuple[int | None, int]:
        """The open pair whose items have the least room, and the side on which the second has more of it. None if no pair is open."""
        pairs = (where == OPEN).nonzero()[0]
        if not pairs.size:
            return None, OPEN
        i, j = self.i[pairs], self.j[pairs]
        below, above = most[i] + self.low[pairs] - least[j], most[j] - self.high[pairs] - least[i]
        k = int((below + above).argmin())
        return int(pairs[k]), BELOW if below[k] > above[k] else ABOVE
