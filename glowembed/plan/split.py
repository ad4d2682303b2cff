"""Moves the most used items of a plan to other RAMs, as far as they fit.

In: the items of a schedule, their conflicts, which of them move together, and how much each is read and written. Out:
for each RAM, its items and their offsets. All rows of a tensor go to one RAM, because its table of rows is relative to
one address.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from glowembed.graph.plan import Ram
from glowembed.plan import placement
from glowembed.plan.conflicts import Conflicts, Item
from glowembed.plan.placement import Placement
from glowembed.records import dataclass


@dataclass(frozen=True)
class Part:
    """The numbers of the items in one RAM, and their offsets there. ram: None for the arena."""

    ram: Ram | None
    items: tuple[int, ...]
    placement: Placement


Unit = tuple[int, ...]
"""Numbers of items that move together."""


def split(
    items: Sequence[Item],
    forbidden: Conflicts,
    rams: Sequence[Ram],
    stays: Callable[[Item], bool],
    traffic: Mapping[int, float],
) -> list[Part]:
    """The parts, with the arena last, and without RAMs that stay empty. stays: whether an item must be in the arena.
    traffic: the bytes of each item that are read and written, by its number.
    """
    units = _units(items)
    heat = {unit: sum(traffic[i] for i in unit) / peak([items[i] for i in unit]) for unit in units}
    left = sorted((u for u in units if not any(stays(items[i]) for i in u)), key=lambda u: (-heat[u], u))
    parts = []
    for ram in rams:
        inside: list[int] = []
        placed = Placement((), 0)
        for unit in left:
            trial = sorted([*inside, *unit])
            found = _placed(items, forbidden, trial, ram.size)
            if found is not None:
                inside, placed = trial, found
        left = [unit for unit in left if unit[0] not in inside]
        if inside:
            parts.append(Part(ram, tuple(inside), placed))
    elsewhere = {i for part in parts for i in part.items}
    rest = [i for i in range(len(items)) if i not in elsewhere]
    arena = _placed(items, forbidden, rest, None)
    assert arena is not None, "the arena has no limit"
    return [*parts, Part(None, tuple(rest), arena)]


def _units(items: Sequence[Item]) -> list[Unit]:
    """The units: the items of one storage, or of storages that share an item, are one unit; each scratch is a separate
    one.
    """
    found: dict[object, list[int]] = {}
    for number, item in enumerate(items):
        found.setdefault(item.storage if item.storage >= 0 else (number,), []).append(number)
    return [tuple(unit) for unit in found.values()]


def peak(items: Sequence[Item]) -> int:
    """The most bytes of these items that are alive at once. No placement needs less, unless items overlap."""
    cells = np.concatenate([item.cells for item in items])
    change: dict[int, int] = {}
    for _, size, birth, death in cells.tolist():
        change[birth] = change.get(birth, 0) + size
        change[death + 1] = change.get(death + 1, 0) - size
    alive = np.cumsum([change[tick] for tick in sorted(change)])
    return int(max(1, alive.max(initial=1)))


def _placed(items: Sequence[Item], forbidden: Conflicts, numbers: Sequence[int], size: int | None) -> Placement | None:
    """A placement of these items; None if they do not fit. If rows take the place of rows whose life ends, they may
    need less than the peak, but never less than half of it.
    """
    mine = [items[i] for i in numbers]
    if not mine:
        return Placement((), 0)
    bound = peak(mine)
    if size is not None and bound > 2 * size:
        return None
    apart, aim = forbidden.among(numbers), min(bound, size or bound)
    found = placement.repaired(mine, apart, placement.greedy(mine, apart, aim), aim)
    return found if size is None or found.size <= size else None
