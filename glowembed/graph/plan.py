"""The memory plan as data: what memory.py makes, and emit.py and memory_view.py read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Optimize = Literal["balanced", "speed", "ram", "size"]
PlanMode = Literal["exact", "greedy"]

SLOT_UNIT = 4
"""Rows of streamed tensors lie at multiples of it: GE_SLOT_UNIT of ge.h."""


@dataclass(frozen=True)
class Ram:
    """A RAM beside the arena: its name in C, and how many bytes of it the plan may use."""

    name: str
    size: int


@dataclass(frozen=True)
class PlanOptions:
    """What a user may ask of the plan.

    mode: `exact` asks the solver where greedy placement leaves a gap, `greedy` never does. effort: how long the solver
    may try, in its own deterministic units. optimize: `balanced` = least RAM for at most 5 % more cycles, `ram` = least
    RAM for at most twice the cycles, `speed` and `size` = no layer is called more than once (choose.py says which kernels).
    ram: bytes that must be enough, of which `reserved` are not for the arena. rams: what else may be used, the fastest first.
    """

    mode: PlanMode = "exact"
    effort: int = 1
    optimize: Optimize = "balanced"
    ram: int | None = None
    reserved: int = 0
    rams: tuple[Ram, ...] = ()

    @property
    def arena_limit(self) -> int | None:
        """What the arena may take."""
        return None if self.ram is None else self.ram - self.reserved

    @property
    def limit(self) -> int | None:
        """What the arena and the other RAMs may take together."""
        return None if self.arena_limit is None else self.arena_limit + sum(ram.size for ram in self.rams)


@dataclass(frozen=True)
class Step:
    """One call: rows first <= y < last of node number `node`."""

    node: int
    first: int
    last: int


@dataclass(frozen=True)
class Buffer:
    """Memory alive from step `birth` to step `death`, both included; `values` share it. `row` is None for whole tensors.

    lives: for scratch of a node that is called more than once, its steps; it is free in between.
    """

    values: tuple[str, ...]
    size: int
    birth: int
    death: int
    row: int | None = None
    lives: tuple[tuple[int, int], ...] = ()

    def meets(self, other: Buffer) -> bool:
        return self.birth <= other.death and other.birth <= self.death


@dataclass(frozen=True)
class Plan:
    """Where everything lives in the arena, in bytes, and what is called when.

    offsets: of every tensor in one piece. slots: of each row of every streamed tensor, whose rows lie anywhere.
    scratch: of each node that has some. bound: what a planner that keeps whole tensors needs for this order. row_bound:
    the rows alive at once in these steps: no placement can need less. proof: `optimal` means that no other offsets need
    less for these steps. groups: nodes first..last-1 that are streamed together. extra_cycles: an estimate of what it takes
    more than `fastest_cycles`, the fastest kernels, each called once. live: bytes that matter, step by step.
    rams: what lies beside the arena, with the bytes that are used and the offset of the first: offsets go on behind the arena.
    simpler: what was left out, and why, where the network is too long (limits.py).
    """

    offsets: Mapping[str, int]
    scratch: Mapping[str, int]
    size: int
    bound: int
    alignment: int
    buffers: tuple[tuple[Buffer, int], ...]
    slots: Mapping[str, tuple[int, ...]]
    steps: tuple[Step, ...]
    groups: tuple[tuple[int, int], ...]
    row_bound: int
    proof: Literal["optimal", "feasible"]
    extra_cycles: float = 0.0
    live: tuple[int, ...] = ()
    rams: tuple[tuple[Ram, int], ...] = ()
    fastest_cycles: float = 0.0
    simpler: str = ""

    @property
    def arena_size(self) -> int:
        return self.rams[0][1] if self.rams else self.size

    def ram_at(self, offset: int) -> tuple[Ram | None, int]:
        """The RAM of an offset, None for the arena, and the offset in it."""
        return next(((ram, offset - start) for ram, start in reversed(self.rams) if offset >= start), (None, offset))

    @property
    def streamed(self) -> frozenset[int]:
        """Numbers of the nodes that are called row by row."""
        return frozenset(i for first, last in self.groups for i in range(first, last))


@dataclass(frozen=True)
class Tradeoff:
    """A plan among others: bytes of RAM, estimated cycles, and those of the fastest kernels, each called once."""

    ram: int
    cycles: float
    fastest: float

    @property
    def extra(self) -> float:
        """Share of the cycles that it takes more."""
        return self.cycles / self.fastest - 1 if self.fastest else 0.0
