"""Chooses the kernel of each node for a memory limit, weighing bytes against cycles.

In: for each node, the bytes and cycles with each kernel that may compute it. Out: a Curve, and the kernels for a limit.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from math import inf

from glowembed.records import dataclass

NEVER = 1 << 40

SLACK = 1e-3
"""The difference in cycles that sums in another order may have."""


@dataclass(frozen=True)
class Option:
    """One choice for a node: with kernel number `index`, `need` bytes are needed in total while it runs, and its calls
    take `cycles`.
    """

    need: int
    cycles: float
    index: int


@dataclass(frozen=True)
class Curve:
    """The trade-off of bytes and cycles: with at least needs[i] bytes, everything takes cycles[i]. Needs rise and
    cycles fall.
    """

    needs: tuple[int, ...]
    cycles: tuple[float, ...]

    @property
    def least(self) -> int:
        """The fewest bytes with which there is a solution."""
        return self.needs[0]

    def at(self, limit: int) -> float:
        """The cycles within this many bytes."""
        i = bisect_right(self.needs, limit)
        return self.cycles[i - 1] if i else inf

    def within(self, cycles: float) -> int:
        """The fewest bytes with which the cycles do not exceed this number."""
        return next((n for n, c in zip(self.needs, self.cycles, strict=True) if c <= cycles + SLACK), NEVER)


def curve_of(nodes: Sequence[Sequence[Option]], floor: int) -> Curve:
    """The curve of nodes that run one after the other. floor: bytes that are needed with any kernels."""
    best = [inf] * len(nodes)
    missing, total = len(nodes), 0.0
    needs: list[int] = []
    cycles: list[float] = []
    events = sorted((max(o.need, floor), o.cycles, i) for i, options in enumerate(nodes) for o in options)
    for k, (need, taken, i) in enumerate(events):
        if taken < best[i]:
            missing -= best[i] == inf
            total += taken - (best[i] if best[i] < inf else 0.0)
            best[i] = taken
        last_of_need = k + 1 == len(events) or events[k + 1][0] > need
        if last_of_need and not missing and (not cycles or total < cycles[-1]):
            needs.append(need)
            cycles.append(total)
    return Curve(tuple(needs), tuple(cycles)) if nodes else Curve((floor,), (0.0,))


def chosen(nodes: Sequence[Sequence[Option]], limit: int, aim: int) -> list[int]:
    """For each node, the fastest kernel within the aim or, if there is none, the one that needs the least within the
    limit.
    """

    def rank(option: Option) -> tuple[int, float, int, int]:
        above = max(0, option.need - aim)
        return above, option.cycles, option.need, option.index

    return [min((o for o in options if o.need <= limit), key=rank).index for options in nodes]
