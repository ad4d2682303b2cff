"""Keeps what is known of segments, for segments that are alike: repeated blocks of a network, its forms, and targets.

In: the calls of a segment and the bytes alive during them. Out: Runs and curves by what they depend on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import field

from glowembed.plan.calls import Call
from glowembed.plan.curve import Curve
from glowembed.plan.lives import Ints, Lives, most_alive
from glowembed.records import dataclass

KNOWN_MAX = 4096
"""The most curves that are kept for further searches."""

Counts = tuple[tuple[int, int], ...]
"""Pairs: how many rows a call computes, and how many such calls there are."""


@dataclass(frozen=True)
class Run:
    """The calls of some nodes. floors, counts: for each node, the most bytes alive during its calls without scratch, and its calls.
    most: the most bytes alive during any of them.
    """

    floors: tuple[int, ...]
    counts: tuple[Counts, ...]
    most: int


@dataclass(frozen=True)
class Alike:
    """The curves of segments without the bytes that merely exist while they run, by what they depend on, and their calls, which do not
    depend on kernels; nodes and storages have labels, the same for equal ones. Repeated blocks of a network, its forms and targets share
    them.
    """

    curves: dict[Hashable, Curve] = field(default_factory=dict)
    runs: dict[Hashable, Run] = field(default_factory=dict)
    labels: dict[Hashable, object] = field(default_factory=dict)

    def label(self, content: Hashable) -> object:
        return self.labels.setdefault(content, object())


_KNOWN = [Alike()]
"""What this process has found; the last one is in use."""


def known() -> Alike:
    """The curves that are known. When there are too many, a search in progress keeps them, and the next one begins without them."""
    if len(_KNOWN[-1].curves) > KNOWN_MAX:
        _KNOWN[-1] = Alike()
    return _KNOWN[-1]


def run_of(positions: Iterable[int], calls: Sequence[Call], life: Lives, live: Ints) -> Run:
    """The calls of these nodes. live: bytes without scratch, including those before the first call and after the last one."""
    floor: dict[int, int] = {}
    for (position, _, _), alive in zip(calls, most_alive(live, life.spans), strict=True):
        if alive > floor.get(position, -1):
            floor[position] = alive
    counts: dict[int, list[tuple[int, int]]] = {}
    for (position, rows), times in Counter((position, last - first) for position, first, last in calls).items():
        counts.setdefault(position, []).append((rows, times))
    order = list(positions)
    floors, found = tuple(floor[p] for p in order), tuple(tuple(counts[p]) for p in order)
    return Run(floors, found, int(live[1:-1].max(initial=0)))
