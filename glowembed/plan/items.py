"""Lists what is placed in the arena: tensors, rows, and the scratch of kernels, each with the times at which it is alive.

In: Rows, a Candidate, Lives. Out: items (conflicts.py), and which of them may be written over which.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from glowembed.graph.plan import SCRATCH, SLOT_UNIT
from glowembed.plan.conflicts import Conflicts, InPlace, Item
from glowembed.plan.lives import Lives, overwrites
from glowembed.plan.placement import Placement, lowest
from glowembed.plan.rows import Rows
from glowembed.plan.schedule import Candidate, scratch_of


def items_of(rows: Rows, candidate: Candidate, life: Lives, alignment: int) -> list[Item]:
    """The items of a candidate."""
    items = []
    for index, storage in enumerate(rows.storages):
        if storage.outside:
            continue
        cells = [
            (r * storage.row_bytes, storage.row_bytes, int(b), int(d))
            for r, (b, d) in enumerate(zip(life.birth[index], life.death[index], strict=True))
            if d >= b
        ]
        name = storage.values[0]
        if not storage.whole:
            items += [
                Item(name, r, size, min(alignment, SLOT_UNIT), index, np.asarray([(0, size, b, d)], np.int64))
                for (offset, size, b, d) in cells
                for r in (offset // size,)
            ]
        elif cells:
            items.append(Item(name, None, storage.bytes, alignment, index, np.asarray(cells, np.int64)))
    return _merged(rows, candidate, life, items) + _scratch_items(rows, candidate, life, alignment)


def _merged(rows: Rows, candidate: Candidate, life: Lives, items: list[Item]) -> list[Item]:
    """Merge each output that is written exactly over its input into one item with that input."""
    place = {item.storage: item for item in items if item.row is None}
    for (position, first, last), span in zip(candidate.calls, life.spans, strict=True):
        work = rows.works[position]
        below, above = place.get(work.inputs[0] if work.inputs else -1), place.get(work.output)
        if below is None or above is None or not overwrites(rows, work, first, last, span, life):
            continue
        cells = np.concatenate([below.cells, above.cells])
        one = replace(below, cells=cells, also=(*below.also, above.storage, *above.also))
        place |= dict.fromkeys((one.storage, *one.also), one)
    pieces = {id(item): item for item in place.values()}
    return [item for item in items if item.row is not None] + list(pieces.values())


def _scratch_items(rows: Rows, candidate: Candidate, life: Lives, alignment: int) -> list[Item]:
    spans: dict[int, list[tuple[int, int]]] = {}
    for (position, _, _), span in zip(candidate.calls, life.spans, strict=True):
        if scratch_of(rows, candidate, position):
            spans.setdefault(position, []).append(span)
    found = []
    for position, times in sorted(spans.items()):
        size = scratch_of(rows, candidate, position)
        cells = np.asarray([(0, size, b, d) for b, d in times], np.int64)
        found.append(Item(SCRATCH + rows.works[position].name, None, size, alignment, -1, cells))
    return found


def in_place_of(rows: Rows, candidate: Candidate, life: Lives, items: Sequence[Item]) -> InPlace:
    """Which storages may be written over which at a tick; of storages that share a place, the first stands for all."""
    first = {storage: item.storage for item in items for storage in (item.storage, *item.also)}
    allowed: set[tuple[int, int, int]] = set()
    for (position, _, _), (begin, end) in zip(candidate.calls, life.spans, strict=True):
        work = rows.works[position]
        for k in work.in_place:
            if work.output in first and work.inputs[k] in first:
                pair = first[work.output], first[work.inputs[k]]
                allowed.update((*pair, tick) for tick in range(begin, end + 1))
    return np.asarray(sorted(allowed), np.int64).reshape(-1, 3)


def scratch_apart(
    items: Sequence[Item], offsets: Sequence[int], candidate: Candidate, life: Lives
) -> tuple[list[Item], tuple[int, ...]]:
    """The items, and their offsets, with an item for the scratch of each call, whose row is the first row of the call."""
    row = {begin: first for (_, first, _), (begin, _) in zip(candidate.calls, life.spans, strict=True)}
    found = [
        (
            replace(item, row=row[int(cell[2])], cells=cell[None])
            if item.storage < 0 and len(item.cells) > 1
            else item,
            offset,
        )
        for item, offset in zip(items, offsets, strict=True)
        for cell in (item.cells if item.storage < 0 else item.cells[:1])
    ]
    return [item for item, _ in found], tuple(offset for _, offset in found)


def joined(
    whole: Sequence[Item], apart: Sequence[Item], forbidden: Conflicts, placement: Placement
) -> tuple[list[Item], Placement]:
    """The same placement with one item for the scratch of all calls of a node, wherever there is a place for it in all of them."""
    offsets, kept = np.asarray(placement.offsets, np.int64), dict(enumerate(apart))
    pieces: dict[str, list[int]] = {}
    for i, item in enumerate(apart):
        if item.storage < 0 and item.row is not None:
            pieces.setdefault(item.name, []).append(i)
    for item in (item for item in whole if item.name in pieces and item.storage < 0):
        mine = pieces[item.name]
        near = tuple(np.concatenate([forbidden.near[i][k] for i in mine]) for k in range(3))
        at = lowest(item, (near[0], near[1], near[2]), offsets)
        if at + item.size <= placement.size:
            offsets[mine] = at
            kept[mine[0]] = item
            for i in mine[1:]:
                kept.pop(i)
    return list(kept.values()), Placement(tuple(offsets[list(kept)].tolist()), placement.size)
