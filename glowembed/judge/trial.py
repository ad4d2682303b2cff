"""Tries a model as a newcomer would. In: a model and samples. Out: a Trial: what it is, where it fits, how it runs.

The model is compiled twice, for an emulated board and for this computer, and validated on both. Where it fits is estimated
for every board, with plans that are found quickly: `compile` may need less.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from glowembed.errors import DoesNotFit, UsageError
from glowembed.graph.notes import Note
from glowembed.graph.plan import Tradeoff
from glowembed.graph.target import Board, board_names, load_board, load_target
from glowembed.judge.fitting import Fit, on_targets
from glowembed.judge.inspection import Inspection, inspect_model
from glowembed.judge.validation import Validation, validate
from glowembed.pipeline import Bundle, CompileOptions, compile_model, lowered, tradeoffs
from glowembed.progress import SILENT, Progress
from glowembed.ranges.datasets import Dataset, Source
from glowembed.run import qemu

SCHEMA = 1
USUAL = "cortex-m4"
"""The target whose board is tried if the network fits it."""

HERE = "host"
SAMPLES = 100
NO_BOARD = "no-emulated-board"


@dataclass(frozen=True)
class Run:
    """A bundle on a board, and what validation found there."""

    bundle: Bundle
    validation: Validation


@dataclass(frozen=True)
class Trial:
    """The result. `runs`: on the emulated board, if there is one, and on this computer. Without runs, the inspection says what
    is not supported. plans: RAM against cycles of the first run's other plans, the smallest first.
    """

    inspection: Inspection
    boards: tuple[Fit, ...] = ()
    runs: tuple[Run, ...] = ()
    notes: tuple[Note, ...] = ()
    plans: tuple[Tradeoff, ...] = ()

    @property
    def bit_exact(self) -> bool:
        """Whether every run gave the bits of the integer reference."""
        return all(run.validation.bit_exact for run in self.runs)

    def json(self) -> dict[str, Any]:
        """The machine-readable result."""
        return {
            "schema": SCHEMA,
            "inspection": self.inspection.json(),
            "boards": [asdict(fit) for fit in self.boards],
            "runs": [{"bundle": str(run.bundle.path), "validation": run.validation.json} for run in self.runs],
            "plans": [{"ram": plan.ram, "cycles": plan.cycles} for plan in self.plans],
            "notes": [note.json() for note in self.notes],
        }


def trial(
    model: Path,
    source: Source,
    out: Path,
    options: CompileOptions,
    board: str | None = None,
    samples: int | None = SAMPLES,
    clock_hz: int | None = None,
    progress: Progress = SILENT,
) -> Trial:
    """Try a model. `out` gets a bundle for each target, in a folder of its name. board: instead of the one that fits best.
    samples: at most so many of the test samples run on each board. clock_hz: instead of the emulated board's own.
    """
    asked = None if board is None else _emulated(load_board(board))
    with progress.stage("inspect"):
        found = inspect_model(model, options.shapes, None, options.input_layout, source, at=options.cut)
    if found.unsupported:
        return Trial(found)
    with progress.stage("boards"):
        everywhere = tuple(_boards(model, source, options))
    place = asked or _best(everywhere)
    notes: tuple[Note, ...] = (Note(NO_BOARD, _why_none(everywhere)),) if place is None else ()
    runs: list[Run] = []
    plans: tuple[Tradeoff, ...] = ()
    for where in (place, load_board(HERE)):
        if where is None or (runs and where is place):
            continue
        folder = out / load_target(where.target).name
        folder.parent.mkdir(parents=True, exist_ok=True)
        made: dict[str, Any] = {}
        asked_for = replace(options, target=where.target)
        bundle = compile_model(model, folder, asked_for, source, progress=progress, on_stage=made.__setitem__)
        if not runs:
            with progress.stage("plans"):
                plans = tradeoffs(made["choose"], _quick(asked_for), bundle.choices)
        clock = clock_hz if where is place else None
        cycles = where.qemu is not None
        judged = _validated(bundle, source, where, samples, clock, cycles, everywhere, progress)
        notes += () if runs else bundle.notes
        runs.append(Run(bundle, judged))
    return Trial(found, everywhere, tuple(runs), notes, plans)


def _quick(options: CompileOptions) -> CompileOptions:
    """The options with a plan that is found without a search."""
    return replace(options, plan=replace(options.plan, effort=0, mode="greedy"))


def _validated(
    bundle: Bundle,
    source: Source,
    board: Board,
    samples: int | None,
    clock_hz: int | None,
    cycles: bool,
    boards: Sequence[Fit],
    progress: Progress,
) -> Validation:
    """The validation on a board; where the board is too small, the error also names the options that make it fit."""
    try:
        return validate(bundle, source, board.reference, samples, layers=cycles, clock_hz=clock_hz, progress=progress)
    except DoesNotFit as error:
        words = next((fit.options for fit in boards if fit.board == board.name), "")
        error.add_note(f"It may fit if compiled with {words}." if words else "Name another board with --board.")
        raise


def _boards(model: Path, source: Source, options: CompileOptions) -> Iterator[Fit]:
    """The verdict for every board, target by target."""
    targets = list(dict.fromkeys(load_board(name).target for name in board_names() if name != HERE))
    quick = _quick(options)
    graph = lowered(model, quick, source, Dataset({}))
    for found in on_targets(graph, quick, targets, tight=True):
        yield from (fit for fit in found.boards if load_board(fit.board).target == found.target)


def _emulated(board: Board) -> Board:
    """The board, if QEMU emulates it or it is this computer."""
    if board.qemu is None and board.name != HERE:
        names = [name for name in board_names() if load_board(name).qemu is not None]
        raise UsageError(
            f"board {board.name!r} is not emulated, and try needs no hardware: choose one of {', '.join(names)}, "
            "or run `glowembed validate` with --port"
        )
    return board


def _best(boards: Sequence[Fit]) -> Board | None:
    """The emulated board to try: it fits without options and can run here; the usual target and its default board first."""
    able = [load_board(fit.board) for fit in boards if fit.fits and not fit.options]
    able = [board for board in able if qemu.is_here(board) and shutil.which(load_target(board.target).compiler)]
    return min(able, key=lambda board: (board.target != USUAL, not board.default, board.name), default=None)


def _why_none(boards: Sequence[Fit]) -> str:
    fitting = [fit.board for fit in boards if fit.fits and load_board(fit.board).qemu is not None]
    if not fitting:
        return "it fits no emulated board with the default options, so it runs on this computer only"
    return (
        f"it fits {', '.join(fitting[:3])}, but a compiler or emulator for them is missing, so it runs on this computer "
        "only; `glowembed doctor` says what to install"
    )
