"""The memory plan and the options for it, as data. plan/memory.py makes the plan; emit/ and show/memory_view.py read
it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Literal

from glowembed.graph.external import External
from glowembed.records import dataclass

if TYPE_CHECKING:
    from glowembed.graph.tiles import TiledGroup

Optimize = Literal["balanced", "speed", "ram", "size"]
PlanMode = Literal["exact", "greedy"]
IoPlace = Literal["arena", "caller"]
InputPlace = Literal["whole", "rows"]
InputLayout = Literal["model", "nhwc"]
WeightsPlace = Literal["flash", "ram", "file"]

Place = Literal["arena", "caller", "rows", "state"]
"""arena: in the arena of the bundle. caller: in a buffer of the caller. rows: the caller hands it over row by row, so
it has no memory of its own. state: in the part of the arena that is kept from run to run.
"""

OUTSIDE: tuple[Place, ...] = ("caller", "rows")
"""The places outside the arena."""

SLOT_UNIT = 4
"""Rows of streamed tensors start at multiples of this many bytes: GE_SLOT_UNIT of ge.h."""


SCRATCH = "scratch of "
"""What precedes the name of a node in the name of its scratch."""


@dataclass(frozen=True)
class Ram:
    """A memory besides the arena: its name in C, and how many bytes of it the plan may use. external: the weights lie in it, and it is
    slow; otherwise it is a RAM for data.
    """

    name: str
    size: int
    external: External | None = None

    def __str__(self) -> str:
        return str(self.size) if self.external is None else f"{self.size}:{self.external.text()}"


@dataclass(frozen=True)
class PlanOptions:
    """The options of planning. mode: `exact` uses the solver where greedy placement leaves a gap, `greedy` never does.
    effort: how long the solver may search, in its own deterministic units. optimize: `balanced` = least RAM for at most
    5 % more cycles, `ram` = least RAM for at most twice the cycles, `speed` and `size` = no layer is called more than
    once (choose.py says which kernels). ram: a limit in bytes, of which `reserved` are not available to the arena, and
    `state` of the arena are kept from run to run.
    rams: further memories, the fastest first. slice: the most estimated cycles of one call of NAME_step, or None.
    prefetch: the bytes of the window that weights are copied to before they are used, or None.
    """

    mode: PlanMode = "exact"
    effort: int = 1
    optimize: Optimize = "balanced"
    ram: int | None = None
    reserved: int = 0
    state: int = 0
    rams: tuple[Ram, ...] = ()
    slice: int | None = None
    prefetch: int | None = None

    @property
    def external(self) -> Ram | None:
        """The slow memory in which the weights lie, if it is described."""
        return next((ram for ram in self.rams if ram.external is not None), None)

    @property
    def for_data(self) -> PlanOptions:
        """These options with the RAMs for data only."""
        return replace(self, rams=tuple(ram for ram in self.rams if ram.external is None))

    @property
    def saves_flash(self) -> bool:
        """Whether kernels of a finished plan may be replaced to save flash: not if the fastest plan is wanted, or if later stages cut its calls."""
        fastest = self.optimize not in ("balanced", "ram") or self.ram is not None
        return not (fastest or self.rams or self.slice is not None or self.prefetch is not None)

    @property
    def arena_limit(self) -> int | None:
        """The limit on the bytes of the arena."""
        return None if self.ram is None else self.ram - self.reserved - self.state

    @property
    def limit(self) -> int | None:
        """The limit on the bytes of the arena and the other RAMs together."""
        return None if self.arena_limit is None else self.arena_limit + sum(ram.size for ram in self.rams)


@dataclass(frozen=True)
class Places:
    """io: `arena` puts inputs and outputs into the arena, `caller` into buffers of the caller. input: with `rows`, no
    input lies in memory, and the bundle asks the caller for one row after another.
    """

    io: IoPlace = "arena"
    input: InputPlace = "whole"


@dataclass(frozen=True)
class Weights:
    """place: `flash` makes them constants of the program, `ram` variables that start-up code fills, `file` puts them in
    `file`.
    """

    place: WeightsPlace = "flash"
    file: str | None = None

    def __str__(self) -> str:
        return self.place if self.file is None else f"file:{self.file}"


@dataclass(frozen=True)
class Step:
    """One call: rows first <= y < last of node number `node`. shift: by how many entries its output's slots are shifted
    in their table, because rows that are computed again have other slots.
    """

    node: int
    first: int
    last: int
    shift: int = 0


@dataclass(frozen=True)
class Buffer:
    """Memory that is alive from step `birth` to step `death`, both included; `values` share it. `row` is None for whole
    tensors.

    lives: the steps that need the scratch of a node that is called more than once; the memory is free in between.
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
    """Where everything lies in the arena, in bytes, and the order of calls. offsets: the offset of every tensor in one
    piece. slots: the offset of each row of every streamed tensor, whose rows need not be adjacent. scratch: the offset
    for each node that has scratch. scratch_slots: for a node whose scratch lies elsewhere in each call, the offset for the first row
    of the call, counted like slots. bound: the bytes that a plan with whole tensors needs for this order. row_bound: the
    bytes of rows alive at once in these steps; no placement can need less. proof: `optimal` means that no other offsets
    need less for these steps. groups: nodes first..last-1 that are streamed together. extra_cycles: an estimate of the
    cycles beyond `fastest_cycles`, which is for the fastest kernels, each called once. live: the bytes in use at each
    step. rams: the memories in addition to the arena, with the bytes used and the offset of the first byte; offsets
    continue after the arena. simpler: what the planner left out, and why, if the network is too long (limits.py).
    tiled: the groups that are computed in strips.
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
    tiled: tuple[TiledGroup, ...] = ()
    scratch_slots: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def tables(self) -> Mapping[str, tuple[int, ...]]:
        """The slots of every value and of every scratch that has slots, by name."""
        return {**self.slots, **{SCRATCH + name: slots for name, slots in self.scratch_slots.items()}}

    def scratch_at(self, node: str, row: int) -> int:
        """The offset of the scratch of a node in the call that begins with this row, counted like slots."""
        return self.scratch_slots[node][row] if node in self.scratch_slots else self.scratch[node]

    @property
    def arena_size(self) -> int:
        return self.rams[0][1] if self.rams else self.size

    def ram_at(self, offset: int) -> tuple[Ram | None, int]:
        """The RAM that an offset lies in (None for the arena), and the offset within it."""
        return next(((ram, offset - start) for ram, start in reversed(self.rams) if offset >= start), (None, offset))

    @property
    def streamed(self) -> frozenset[int]:
        """The numbers of the nodes that are called row by row."""
        return frozenset(i for first, last in self.groups for i in range(first, last))


@dataclass(frozen=True)
class Tradeoff:
    """One of several plans: bytes of RAM, estimated cycles, and the cycles of the fastest kernels, each called once."""

    ram: int
    cycles: float
    fastest: float

    @classmethod
    def taken(cls, manifest: Mapping[str, Any]) -> Tradeoff:
        """The tradeoff of the plan in a bundle.json."""
        fastest = float(manifest["schedule"]["fastest_cycles_estimate"])
        return cls(manifest["arena"]["size"], fastest + manifest["schedule"]["extra_cycles_estimate"], fastest)

    @property
    def extra(self) -> float:
        """The additional cycles as a share of the fastest."""
        return self.cycles / self.fastest - 1 if self.fastest else 0.0
