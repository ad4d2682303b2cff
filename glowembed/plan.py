"""The memory plan as data: what memory.py makes and emit.py writes down."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Buffer:
    """Memory alive from step `birth` to step `death`, both included; `values` share it. Size in bytes, aligned."""

    values: tuple[str, ...]
    size: int
    birth: int
    death: int

    def meets(self, other: Buffer) -> bool:
        return self.birth <= other.death and other.birth <= self.death


@dataclass(frozen=True)
class Plan:
    """Byte offsets in the arena of every activation, and of the scratch of each node that has some."""

    offsets: Mapping[str, int]
    scratch: Mapping[str, int]
    size: int
    bound: int
    alignment: int
    buffers: tuple[tuple[Buffer, int], ...]
