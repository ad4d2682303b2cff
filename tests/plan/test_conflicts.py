"""Compares the conflicts of items with those found from each pair of their cells."""

from __future__ import annotations

import random

import numpy as np
import pytest

from glowembed.plan import conflicts
from glowembed.plan.conflicts import Item

TICKS = 40
LIMIT = 1 << 20


def cells_of(rng: random.Random, rising: bool) -> list[tuple[int, int, int, int]]:
    """Cells of one size: scratch of several calls at one place, or rows; rising: as a schedule makes them."""
    size, count = rng.choice([2, 4]), rng.choice([1, 3, 8, 12])
    births = [rng.randrange(-1, TICKS // 2) for _ in range(count)]
    lives = [rng.randrange(6) for _ in range(count)]
    if rising:
        births.sort()
        lives = [lives[0]] * count
    apart = size if rng.random() < 0.8 else 0
    return [(i * apart, size, b, b + life) for i, (b, life) in enumerate(zip(births, lives, strict=True))]


def items_of(rng: random.Random, count: int, rising: bool) -> list[Item]:
    found = []
    for i in range(count):
        cells = cells_of(rng, rising)
        if rng.random() < 0.3:
            cells += [
                (offset, size, birth + 7, death + 9) for offset, size, birth, death in cells
            ]  # written over itself
        end = max(offset + size for offset, size, _, _ in cells)
        found.append(Item(f"i{i}", None, end, 1, rng.choice([i, i, -1]), np.asarray(cells, np.int64)))
    return found


def by_pairs(a: Item, b: Item, in_place: set[tuple[int, int, int]]) -> tuple[int, int] | None:
    """The interval that a forbids to offset(b) - offset(a), from each pair of cells that are alive together."""
    lo, hi = LIMIT, -LIMIT
    for x, size, born, dies in a.cells.tolist():
        for y, other_size, other_born, other_dies in b.cells.tolist():
            if born > other_dies or other_born > dies:
                continue
            low, high = x - y - other_size, x + size - y
            if size == other_size:
                high -= size * (other_dies == born and (a.storage, b.storage, born) in in_place)
                low += size * (dies == other_born and (b.storage, a.storage, dies) in in_place)
            lo, hi = min(lo, low), max(hi, high)
    return (lo, hi) if lo < hi else None


@pytest.mark.parametrize("piece", [7, 1 << 20])
@pytest.mark.parametrize("rising", [True, False])
@pytest.mark.parametrize("seed", range(20))
def test_the_intervals_are_those_of_all_pairs_of_cells(
    seed: int, rising: bool, piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conflicts, "PIECE", piece)
    rng = random.Random(seed)
    items = items_of(rng, rng.choice([1, 2, 5, 12]), rising)
    storages = range(-1, len(items))
    triples = [(a, b, t) for a in storages for b in storages for t in range(-1, TICKS) if (a + b + t) % 3]
    found = conflicts.conflicts(items, np.asarray(triples))
    for j, (others, lows, highs) in enumerate(found.near):
        expected = {i: by_pairs(items[i], items[j], set(triples)) for i in range(len(items)) if i != j}
        assert {i: one for i, one in expected.items() if one is not None} == {
            i: (lo, hi) for i, lo, hi in zip(others.tolist(), lows.tolist(), highs.tolist(), strict=True)
        }
        assert others.tolist() == sorted(others.tolist())


def test_no_items_have_no_conflicts() -> None:
    assert conflicts.conflicts([], np.zeros((0, 3), np.int64)).pairs == 0
