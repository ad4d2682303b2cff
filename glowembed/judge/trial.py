"""Tries a model as a newcomer would. In: a model and samples. Out: a Trial: what it is, where it fits, how it runs.

The model is compiled twice, for an emulated board and for this computer, and validated on both. Where it fits is estimated
for every board, with plans that are found quickly: `compile` may need less.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import asdict, replace
from itertools import chain
from pathlib import Path
from typing import Any

from glowembed.errors import DoesNotFit, UsageError
from glowembed.files.output import check_out_dir
from glowembed.graph.ir import Graph
from glowembed.graph.notes import Note
from glowembed.graph.plan import Tradeoff
from glowembed.graph.target import Board, board_names, load_board, load_target
from glowembed.judge.fitting import Fit, OnTarget, on_targets, planned_alike
from glowembed.judge.inspection import Inspection, inspect_model
from glowembed.judge.regress import tools_of
from glowembed.judge.validation import Validation, validate
from glowembed.pipeline import Bundle, CompileOptions, compile_model, lowered, tradeoffs
from glowembed.progress import SILENT, Progress
from glowembed.ranges.datasets import Dataset, Source
from glowembed.records import dataclass
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
    executor: Executor | None = None,
) -> Trial:
    """Try a model. `out` gets a bundle for each target, in a folder of its name. board: instead of the one that fits best.
    samples: at most so many of the test samples run on each board. clock_hz: instead of the emulated board's own. executor: plans and
    validates; by default this process.
    """
    run: Run_ = map if executor is None else executor.map
    asked = None if board is None else _emulated(load_board(board))
    check_out_dir(out / load_target(load_board(HERE).target).name)
    with progress.stage("inspect"):
        found = inspect_model(model, options.shapes, None, options.input_layout, source, at=options.cut)
    if found.unsupported:
        return Trial(found)
    with progress.stage("boards"):
        everywhere = _boards(model, source, options, run)
    place = asked or _best(everywhere)
    notes: tuple[Note, ...] = (Note(NO_BOARD, _why_none(everywhere)),) if place is None else ()
    bundles: list[Bundle] = []
    checks: list[Check] = []
    plans: tuple[Tradeoff, ...] = ()
    for where in [load_board(HERE)] if place is None or place.name == HERE else [place, load_board(HERE)]:
        folder = out / load_target(where.target).name
        made: dict[str, Any] = {}
        asked_for = replace(options, target=where.target)
        bundle = compile_model(model, folder, asked_for, source, progress=progress, on_stage=made.__setitem__)
        if not bundles:
            with progress.stage("plans"):
                plans = tradeoffs(made["lower"], _quick(asked_for), run)
        bundles.append(bundle)
        clock = clock_hz if place is not None and where.name == place.name else None
        checks.append(Check(folder, model, source, where.name_or_folder, samples, clock, where.qemu is not None))
    with progress.stage("validate"):
        judged = _validated(checks, everywhere, run)
    notes += bundles[0].notes
    return Trial(found, everywhere, tuple(map(Run, bundles, judged)), notes, plans)


def _quick(options: CompileOptions) -> CompileOptions:
    """The options with a plan that is found without a search."""
    return replace(options, plan=replace(options.plan, effort=0, mode="greedy"))


def _validated(checks: Sequence[Check], boards: Sequence[Fit], run: Run_) -> list[Validation]:
    """The validations; where the first board is too small, the error also names the options that make the network fit."""
    try:
        return list(run(checked, checks))
    except DoesNotFit as error:
        words = next((fit.options for fit in boards if load_board(fit.board).name_or_folder == checks[0].board), "")
        error.add_note(f"It may fit if compiled with {words}." if words else "Name another board with --board.")
        raise


Run_ = Callable[..., Iterable[Any]]
"""What does what `map` does."""


@dataclass(frozen=True)
class Check:
    """A job: the validation of a bundle on a board. layers: also of each layer, with its cycles."""

    bundle: Path
    model: Path
    source: Source
    board: str | Path
    samples: int | None
    clock_hz: int | None
    layers: bool

    @property
    def needs(self) -> tuple[str, ...]:
        """The tools that it starts."""
        return tools_of(load_board(self.board).target, self.layers)


def checked(job: Check) -> Validation:
    """Do this job."""
    how = (job.bundle, job.source, str(job.board), job.samples)
    return validate(*how, layers=job.layers, model=job.model, clock_hz=job.clock_hz)


@dataclass(frozen=True)
class Placing:
    """A job: where a lowered network fits, on the boards of targets that are planned alike."""

    graph: Graph
    options: CompileOptions
    targets: tuple[str, ...]


def placed(job: Placing) -> list[OnTarget]:
    """Do this job."""
    return list(on_targets(job.graph, job.options, job.targets, tight=True))


def _boards(model: Path, source: Source, options: CompileOptions, run: Run_) -> tuple[Fit, ...]:
    """The verdict for every board, target by target."""
    targets = list(dict.fromkeys(load_board(name).target for name in board_names() if name != HERE))
    quick = _quick(options)
    graph = lowered(model, quick, source, Dataset({})).with_plain_constants()
    found = chain.from_iterable(run(placed, [Placing(graph, quick, alike) for alike in planned_alike(targets)]))
    known = {on.target: [fit for fit in on.boards if load_board(fit.board).target == on.target] for on in found}
    return tuple(fit for target in targets for fit in known[target])


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
