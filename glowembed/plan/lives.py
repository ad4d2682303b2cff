"""Finds the lifetime of each row of each storage, and the bytes that are alive at each time.

In: Rows, calls, and which of them are repeated. Out: Lives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

from glowembed.plan.calls import Call, Loop
from glowembed.plan.curve import NEVER
from glowembed.plan.rows import Rows, Work
from glowembed.plan.states import aligned
from glowembed.records import dataclass

Ints = NDArray[np.int64]
NONE: Ints = np.zeros(0, np.int64)


@dataclass(frozen=True)
class Lives:
    """The ticks of the first and of the last access to each row of each storage; there is one tick per row computed.

    Rows that exist from the start have birth -1, and rows that the caller reads have death `ticks`. A row that is never
    touched has death -2. spans: the first and the last tick of each call. touched: the storages that have rows here.
    """

    birth: tuple[Ints, ...]
    death: tuple[Ints, ...]
    ticks: int
    spans: tuple[tuple[int, int], ...]
    touched: tuple[int, ...]


def lives(rows: Rows, calls: Sequence[Call], loops: Sequence[Loop] = ()) -> Lives:
    """The lifetimes of all rows, for calls that compute everything."""
    return lives_within(rows, calls, loops, lambda s: rows.storages[s].is_input, lambda s: rows.storages[s].is_output)


def lives_within(
    rows: Rows,
    calls: Sequence[Call],
    loops: Sequence[Loop],
    is_old: Callable[[int], bool],
    is_kept: Callable[[int], bool],
) -> Lives:
    """The lifetimes during these calls. Rows may exist before the first call, or be needed after the last one."""
    storages = rows.storages
    spans, ticks = _ticks(calls)
    touched = {s for position in ticks for s in (*rows.works[position].inputs, rows.works[position].output)}
    touched |= {i for i, s in enumerate(storages) if s.is_input and is_old(i)}
    births, deaths = [NONE] * len(storages), [NONE] * len(storages)
    for i in touched:
        births[i] = np.full(storages[i].rows, -1 if is_old(i) else NEVER, np.int64)
        deaths[i] = np.full(storages[i].rows, -2, np.int64)
    for position, (computed, each, begin, end) in ticks.items():
        work = rows.works[position]
        apart = work.store == "disjoint"
        born, now = np.full(work.rows, NEVER, np.int64), np.full(work.rows + 1, -2, np.int64)
        born[computed], now[computed] = (begin, end) if apart else (each, each)
        first, last = work.written
        written = first < work.rows
        births[work.output][: first.size][written] = np.minimum(
            births[work.output][: first.size], born[first % work.rows]
        )[written]
        for storage, access in ((work.output, last), *zip(work.inputs, work.read_last, strict=True)):
            died = deaths[storage][: access.size]
            np.maximum(died, now[access], out=died)
    total = spans[-1][1] + 1 if spans else 0
    for i in touched:
        if is_kept(i):
            deaths[i][:] = total
        if storages[i].is_input and is_old(i):
            np.maximum(deaths[i], -1, out=deaths[i])
    for loop in loops:
        for i in loop.storages:
            _repeat(births[i], deaths[i], spans[loop.first][0], spans[loop.last - 1][1])
    return Lives(tuple(births), tuple(deaths), total, spans, tuple(sorted(touched)))


def _repeat(birth: Ints, death: Ints, begin: int, end: int) -> None:
    """Keep rows that exist before a loop and are read in it until its end, and reserve rows that the loop leaves from
    its begin on.
    """
    death[(birth < begin) & (death >= begin) & (death <= end)] = end
    birth[(birth >= begin) & (birth <= end) & (death > end)] = begin


def _ticks(calls: Sequence[Call]) -> tuple[tuple[tuple[int, int], ...], dict[int, tuple[Ints, Ints, Ints, Ints]]]:
    """The first and last tick of each call; for each position, the rows that are computed, the tick of each, and the
    first and last tick of its call.
    """
    if not calls:
        return (), {}
    position, first, last = np.asarray(calls, np.int64).T
    count = last - first
    end = np.cumsum(count) - 1
    begin = end - count + 1
    each = np.arange(end[-1] + 1)
    owner = np.repeat(np.arange(len(calls)), count)
    order = np.argsort(position[owner], kind="stable")
    owner = owner[order]
    row = first[owner] + order - begin[owner]
    each, of_row, first_tick, last_tick = each[order], position[owner], begin[owner], end[owner]
    cuts = (np.flatnonzero(np.diff(of_row)) + 1).tolist()
    ticks = {
        int(of_row[a]): (row[a:b], each[a:b], first_tick[a:b], last_tick[a:b])
        for a, b in pairwise([0, *cuts, len(order)])
    }
    return tuple(zip(begin.tolist(), end.tolist(), strict=True)), ticks


def live_bytes(rows: Rows, calls: Sequence[Call], life: Lives, unit: int = 1) -> Ints:
    """The bytes alive at each tick (-1 first, the caller's last), without scratch. Rows of streamed tensors are rounded
    up to `unit`.
    """
    inside = [i for i in life.touched if not rows.storages[i].outside]
    birth, death = (np.concatenate([NONE, *(of[i] for i in inside)]) for of in (life.birth, life.death))
    each = [s.row_bytes if s.whole else aligned(s.row_bytes, unit) for s in (rows.storages[i] for i in inside)]
    size = np.repeat(np.asarray(each, np.int64), [len(life.birth[i]) for i in inside])
    birth, death, size = (array[death >= birth] for array in (birth, death, size))
    change = np.zeros(life.ticks + 3, np.int64)
    np.add.at(change, birth + 1, size)
    np.add.at(change, death + 2, -size)
    live = np.cumsum(change)[: life.ticks + 2]
    for (position, first, last), (begin, end) in zip(calls, life.spans, strict=True):
        work = rows.works[position]
        if work.same_place and overwrites(rows, work, first, last, (begin, end), life):
            live[begin + 1 : end + 2] -= rows.storages[work.output].bytes
        for y in range(first, last) if work.in_place else ():
            live[begin + y - first + 1] -= _saved_in_place(rows, work, y, begin + y - first, life)
    return live


def most_alive(live: Ints, spans: Sequence[tuple[int, int]]) -> list[int]:
    """The most bytes alive during each call."""
    if not spans:
        return []
    begins = np.asarray(spans, np.int64)[:, 0]
    most: list[int] = np.maximum.reduceat(live[1 : spans[-1][1] + 2], begins).tolist()
    return most


def overwrites(rows: Rows, work: Work, first: int, last: int, span: tuple[int, int], life: Lives) -> bool:
    """Whether this call may write its output exactly over its input: it computes all rows, both tensors are in one
    piece, and the input is not needed afterwards.
    """
    if not work.same_place or (first, last) != (0, work.rows) or work.inputs[0] == work.output:
        return False
    below, above = rows.storages[work.inputs[0]], rows.storages[work.output]
    dies = int(life.death[work.inputs[0]].max()) <= span[1]
    return dies and below.bytes == above.bytes and below.whole and above.whole


def in_one_piece(rows: Rows, groups: Sequence[tuple[int, int]]) -> Rows:
    """Rows in which all storages are whole, except those whose rows may lie anywhere, because only a group uses them
    and nothing needs them whole.

    An input that a node outside the groups may overwrite with its output stays in one piece, and so does that output.
    """
    inside = {p for first, last in groups for p in range(first, last)}
    touched = {s for p in inside for s in (*rows.works[p].inputs, rows.works[p].output)}
    outside = (work for p, work in enumerate(rows.works) if p not in inside and work.same_place)
    needed = {s for work in outside for s in (*work.inputs, work.output)}
    storages = (replace(s, whole=s.whole or i not in touched or i in needed) for i, s in enumerate(rows.storages))
    return replace(rows, storages=tuple(storages))


def _saved_in_place(rows: Rows, work: Work, y: int, tick: int, life: Lives) -> int:
    """The bytes of the output row that lie on an input row whose life ends in this tick."""
    for k in work.in_place:
        first, last = work.reads[k][y]
        if last == first + 1 and life.death[work.inputs[k]][first] == tick:
            return rows.storages[work.output].row_bytes
    return 0


def liveness_bound(rows: Rows, alignment: int = 1) -> int:
    """The bytes that whole tensors need in this order without any overlap, including scratch and padded to the
    alignment.
    """
    birth = [-1 if s.is_input else (w[0] if w else -1) for s, w in zip(rows.storages, rows.writers, strict=True)]
    death = [
        len(rows.works) if s.is_output else max((*r, *w), default=-1)
        for s, r, w in zip(rows.storages, rows.readers, rows.writers, strict=True)
    ]
    change = [0] * (len(rows.works) + 3)
    for s, b, d in zip(rows.storages, birth, death, strict=True):
        if b <= d and not s.outside:
            change[b + 1] += aligned(s.bytes, alignment)
            change[d + 2] -= aligned(s.bytes, alignment)
    scratch = [0, *(aligned(work.scratch, alignment) for work in rows.works), 0]
    return max(live + extra for live, extra in zip(accumulate(change[:-1]), scratch, strict=True))
