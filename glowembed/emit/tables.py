"""Joins tables of numbers into one C array, in which tables share the runs of numbers that they have in common.

In: tables. Out: the array for the template, and the C expression of each table.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

WIDTH = 4
"""Bytes of a number while runs are looked for."""


class Joined:
    """An array with this name and C type that contains each table in one piece. A table that is already there is not stored again; any other
    begins, as far as it can, with the numbers at the end of the array. The longest tables come first.
    """

    def __init__(self, name: str, ctype: str, tables: Iterable[Sequence[int]]) -> None:
        self.name, self.ctype = name, ctype
        self._bytes = b""
        for table in sorted(tables, key=len, reverse=True):
            own = _as_bytes(table)
            if self._find(own) is None:
                shared = range(min(len(own), len(self._bytes)), -1, -WIDTH)
                self._bytes += own[next(n for n in shared if self._bytes.endswith(own[:n])) :]

    def at(self, table: Sequence[int]) -> str:
        """The C expression of one of the tables."""
        start = self._find(_as_bytes(table))
        assert start is not None, f"{self.name} was made without this table"
        return f"{self.name} + {start}" if start else self.name

    def entry(self) -> dict[str, Any]:
        """The array for the template."""
        numbers = np.frombuffer(self._bytes, np.int32).tolist()
        return {"name": self.name, "type": self.ctype, "count": len(numbers), "lines": lines(numbers, 24)}

    def _find(self, own: bytes) -> int | None:
        """The place of a run of numbers in the array."""
        at = self._bytes.find(own)
        while at % WIDTH and at >= 0:
            at = self._bytes.find(own, at + 1)
        return None if at < 0 else at // WIDTH


def _as_bytes(table: Sequence[int]) -> bytes:
    return np.asarray(table, np.int32).tobytes()


def lines(numbers: Sequence[int], width: int) -> list[str]:
    """Numbers as the lines of a C table."""
    return [", ".join(map(str, numbers[i : i + width])) + "," for i in range(0, len(numbers), width)]
