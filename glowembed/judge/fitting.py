"""Decides whether a network fits a board. In: a lowered graph, a target, its boards. Out: a verdict for each board,
with its options; or what each target needs, with its boards.

The arena is that of the plan, and constants are counted exactly. Code is estimated, and so is the harness of
`validate`, so the demand has a low and a high end. If the memory of a board lies between them, only a build can decide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from glowembed.errors import GlowembedError, UsageError
from glowembed.graph.clock import clock_of, milliseconds
from glowembed.graph.ir import Graph
from glowembed.graph.notes import Note
from glowembed.graph.plan import Plan, Ram
from glowembed.graph.registry import kernel
from glowembed.graph.target import Board, Target, boards_of, load_board, load_target, runs
from glowembed.lower import footprint
from glowembed.pipeline import CompileOptions, planned
from glowembed.plan.prefetch import BOUND
from glowembed.read.model import refuse_doubles
from glowembed.records import dataclass

CODE = (0.7, 1.3)
"""The actual size of code and tables, as a share of the estimate of footprint.py."""

HARNESS_FLASH, HARNESS_RAM = (4600, 6400), (400, 1200)
"""Bytes of start-up code, transport and line buffers; on all boards here, 5.1 to 5.9 KB and 424 to 816 bytes."""


@dataclass(frozen=True)
class Needs:
    """The bytes of a network only, and the cycles of an inference. code, cycles: estimated."""

    arena: int
    constants: int
    code: int
    cycles: int

    @property
    def flash(self) -> int:
        return self.constants + self.code


@dataclass(frozen=True)
class Fit:
    """The verdict for a board. fits: None if it is too close to call, or on the host. options: those that `compile`
    needs for it. milliseconds: of an inference, estimated, at the clock of the board; None if it has none.
    """

    board: str
    ram: int
    flash: int
    fits: bool | None
    options: str = ""
    clock_hz: int | None = None
    milliseconds: float | None = None


@dataclass(frozen=True)
class OnTarget:
    """What a network needs on one target, and the verdicts for its boards. problem: why it cannot be compiled for it; the
    rest is then 0 and empty.
    """

    target: str
    arena: int = 0
    flash: int = 0
    cycles: int = 0
    boards: tuple[Fit, ...] = ()
    problem: str = ""


def needs(graph: Graph, plan: Plan, target: str) -> Needs:
    """What a network with kernels and a plan needs. The cycles are those by which kernels are chosen, each called once."""
    constants, core = footprint.stored_once(graph), load_target(target)
    cycles = sum(kernel(node.kernel).cost(node, core).cycles for node in graph.nodes if node.kernel)
    return Needs(plan.arena_size, constants, footprint.flash(graph, plan, core) - constants, round(cycles))


def on_targets(
    graph: Graph, options: CompileOptions, targets: Iterable[str], tight: bool = False
) -> Iterator[OnTarget]:
    """What a lowered graph needs on each target, with its boards.

    tight: for a board that is too small, also look for options with which it fits, which takes longer.
    """
    known: list[tuple[Target, tuple[Graph, Plan]]] = []
    for name in targets:
        own, core = replace(options, target=name), load_target(name)
        same = next((found for other, found in known if _alike(other, core)), None)
        try:
            refuse_doubles(graph, core)
            chosen, plan = same or planned(graph, own)
        except GlowembedError as error:  # such as a type that this core cannot compute with
            yield OnTarget(name, problem=str(error))
            continue
        known.append((core, (chosen, plan)))
        usual = needs(chosen, plan, name)
        yield OnTarget(name, usual.arena, usual.flash, usual.cycles, fits(graph, own, usual, tight))


def planned_alike(targets: Iterable[str]) -> list[tuple[str, ...]]:
    """The targets in groups of those for which the same kernels and the same plan are chosen."""
    groups: list[tuple[str, ...]] = []
    for name in targets:
        at = next((i for i, group in enumerate(groups) if _alike(load_target(group[0]), load_target(name))), None)
        if at is None:
            groups.append((name,))
        else:
            groups[at] += (name,)
    return groups


def _alike(one: Target, other: Target) -> bool:
    """Whether the same kernels and the same plan are chosen for both targets."""
    first, second = ((t.isa, t.costs, t.has_fpu, t.word_size, t.arena_align, t.weights) for t in (one, other))
    return first == second


def fits(
    graph: Graph, options: CompileOptions, usual: Needs, tight: bool = True, boards: Sequence[Board] | None = None
) -> tuple[Fit, ...]:
    """The verdicts for these boards, by default all of the target, at their own clocks; `usual` is what the given options
    need. tight: for a board that is too small, look for options with which it fits.
    """
    attempt = _attempts(graph, options) if tight else lambda _ram, _flash: None
    boards = boards_of(load_target(options.target)) if boards is None else boards
    return tuple(_timed(_fit(board, usual, attempt), board, usual) for board in boards)


def board_for(name: str, target: str) -> Board:
    """The board of this name. Raises UsageError if it does not execute the code of the target."""
    board = load_board(name)
    if not runs(board, load_target(target)):
        raise UsageError(
            f"--board {name} does not run code for {target}: give --target {board.target}, or another board"
        )
    return board


def bound_by_weights(usual: Needs, board: Board, clock_hz: int | None) -> Note | None:
    """A warning if the board's slow memory delivers the weights more slowly than its core computes, however they are copied."""
    memory, clock = board.slow_weights, clock_hz or board.clock_hz
    if memory is None or memory.external is None or not clock:
        return None
    reading = memory.external.copying(usual.constants, clock)
    if reading <= BOUND * usual.cycles:
        return None
    return Note(
        "weights-bound",
        f"on {board.name} the network is bound by its weights: reading {usual.constants} bytes from {memory.name} takes about"
        f" {reading:.0f} cycles, computing {usual.cycles}; keep some of them in faster memory, or make the layers smaller",
    )


def with_flash_of(board: Board, options: CompileOptions) -> CompileOptions:
    """The options with the flash of the board as their limit, where `speed` could use it and they set none."""
    regions = board.regions
    if options.plan.optimize != "speed" or options.flash is not None or "CODE" not in regions:
        return options
    return replace(options, flash=round((board.memory(regions["CODE"]).size - HARNESS_FLASH[1]) / CODE[1]))


def with_memory_of(board: Board, options: CompileOptions) -> CompileOptions:
    """The options with the clock of the board and its slow memory for weights, where --prefetch needs them and they say nothing."""
    if options.plan.prefetch is None:
        return options
    memory, plan = board.slow_weights, options.plan
    if plan.external is None and memory is not None:
        plan = replace(plan, rams=(*plan.rams, Ram(memory.name, memory.size, memory.external)))
    return replace(options, plan=plan, clock=options.clock or board.clock_hz or None)


def too_small(graph: Graph, options: CompileOptions, usual: Needs, board: Board) -> Note | None:
    """What is missing on a board for a network that needs `usual`, and what would help; None if it fits. graph: as lowered."""
    found = _fit(board, usual, _attempts(graph, options))
    regions = board.regions
    if (found.fits and not found.options) or not regions:
        return None
    demand = _demand(board, regions, usual, 0 if _verdict(board, regions, usual) is False else 1)
    missing = [
        f"about {size:,} bytes of its {name}, which has {board.memory(name).size:,}"
        for name, size in sorted(demand.items())
        if size > board.memory(name).size
    ]
    helps = (
        f"it {'fits' if found.fits else 'may fit'} with {found.options}"
        if found.options
        else "no option makes it fit: it needs fewer or smaller layers, or a larger board"
    )
    return Note("board-too-small", f"with stack and transport, {board.name} needs {', and '.join(missing)}; {helps}")


def _attempts(graph: Graph, options: CompileOptions) -> Callable[[int | None, int | None], Needs | None]:
    """A function from limits of RAM and flash to what a network needs within them; None if it does not fit."""

    @cache
    def limited(ram: int | None, flash: int | None) -> Needs | None:
        try:
            plan = replace(options.plan, ram=ram)
            return needs(*planned(graph, replace(options, plan=plan, flash=flash)), options.target)
        except UsageError:
            return None

    return limited


def _timed(found: Fit, board: Board, usual: Needs) -> Fit:
    clock = clock_of(board, None)
    return replace(found, clock_hz=clock, milliseconds=milliseconds(usual.cycles, clock))


def _fit(board: Board, usual: Needs, limited: Any) -> Fit:
    ram = sum(memory.size for memory in board.memories if memory.kind != "flash")
    rom = sum(memory.size for memory in board.memories if memory.kind == "flash")
    regions = board.regions
    if not {"CODE", "WEIGHTS", "DATA", "ARENA"} <= regions.keys():
        return Fit(board.name, ram, rom, None)
    verdict = _verdict(board, regions, usual)
    if verdict:
        return Fit(board.name, ram, rom, True)
    for end in (1, 0):
        least, most_ram, most_flash = None, *_limits(board, regions, usual, end)
        if min(most_ram or 1, most_flash or 1) > 0:
            least = limited(most_ram, most_flash)
        if least is None:
            continue
        found = _verdict(board, regions, least)
        if found is not False:
            said = [f"--ram {most_ram}"] * (most_ram is not None) + [f"--flash {most_flash}"] * (most_flash is not None)
            return Fit(board.name, ram, rom, True if end and found else None, " ".join(said))
    return Fit(board.name, ram, rom, verdict)


def _demand(board: Board, regions: dict[str, str], found: Needs, end: int) -> dict[str, int]:
    """The bytes needed of each memory, at the low end (0) or the high one (1)."""
    parts = {
        "CODE": round(found.code * CODE[end]) + HARNESS_FLASH[end],
        "WEIGHTS": found.constants,
        "DATA": board.stack_size + HARNESS_RAM[end],
        "ARENA": found.arena,
    }
    return {
        name: sum(parts[role] for role, where in regions.items() if where == name) for name in set(regions.values())
    }


def _verdict(board: Board, regions: dict[str, str], found: Needs) -> bool | None:
    low, high = (_demand(board, regions, found, end) for end in (0, 1))
    if all(size <= board.memory(name).size for name, size in high.items()):
        return True
    return False if any(size > board.memory(name).size for name, size in low.items()) else None


def _limits(board: Board, regions: dict[str, str], usual: Needs, end: int) -> tuple[int | None, int | None]:
    """The values for --ram and --flash; None if the usual plan fits."""
    demand = _demand(board, regions, usual, end)
    rest = {name: board.memory(name).size - size for name, size in demand.items()}
    arena, code = rest[regions["ARENA"]], min(rest[regions["CODE"]], rest[regions["WEIGHTS"]])
    return (usual.arena + arena if arena < 0 else None), (usual.flash + code if code < 0 else None)
