"""The calls of a schedule, and the loops in which calls are repeated, as data."""

from __future__ import annotations

from glowembed.records import dataclass

Call = tuple[int, int, int]
"""The position in Rows.works, the first row, and the last row + 1."""


@dataclass(frozen=True)
class Loop:
    """Calls first..last-1 that are repeated. storages: those that they share with other calls, or with their own
    repetitions.
    """

    first: int
    last: int
    storages: tuple[int, ...]

    def behind(self, count: int) -> Loop:
        """The same loop after `count` other calls."""
        return Loop(self.first + count, self.last + count, self.storages)
