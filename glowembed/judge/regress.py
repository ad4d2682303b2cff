"""Validates models on targets with settings, for CI. In: cells. Out: a Row each.

Each cell runs the commands that a user would type: `glowembed compile`, then `glowembed validate --json` on the
target's own board, in processes of their own, several at a time. A cell that fails becomes a row that says why; the
others continue. The row of a cell that succeeded is kept in a store under the hash of all that it depends on, and taken
from there as long as nothing of that changes. Any executor can run the cells: threads, or the workers of a cluster.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, Future, as_completed
from contextlib import suppress
from dataclasses import asdict, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from glowembed.errors import GlowembedError, ToolError, UsageError, unknown_name
from glowembed.graph.target import default_board, load_board, load_target
from glowembed.jobs import identity
from glowembed.jobs.store import Record, Store
from glowembed.judge import farm
from glowembed.judge.farm import Ended, Place
from glowembed.options.option import table as options_of
from glowembed.options.table import CompileOptions
from glowembed.options.words import Flag, OnOff
from glowembed.read import importer
from glowembed.records import dataclass
from glowembed.run import bench, lab
from glowembed.version import VERSION

MESSAGE_LINES = 3
KIND = "regress"
"""The kind of the records in a store."""

Digests = tuple[Callable[[Path], str], Callable[[Path], str]]
"""The hash of a model and that of a dataset, by their paths."""


@dataclass(frozen=True)
class Job:
    """One cell: a model with its dataset on one target. setting: the name of `words`, which are options of compile. place: a board of a farm,
    instead of the target's own.
    """

    name: str
    model: Path
    data: Path
    target: str
    board: str
    setting: str = ""
    words: tuple[str, ...] = ()
    samples: int | None = None
    clock: str | None = None
    place: Place | None = None

    @property
    def core(self) -> str:
        """The target as `compile` takes it: that of the board may be a file beside it."""
        return self.target if self.place is None else load_board(self.place.board).target

    @property
    def tools(self) -> tuple[str, ...]:
        """The compiler and the emulator, by the names of the resources that they are."""
        return tools_of(self.core, emulated=self.place is None or self.place.port is None)

    @property
    def needs(self) -> tuple[str, ...]:
        """The resources that a worker must have for this cell: its tools, and the board where it is not one of a labgrid."""
        at = self.place
        own = at is not None and at.port is not None and not at.port.startswith(lab.PREFIX)
        return (*self.tools, f"board:{at.plain_name}") if at is not None and own else self.tools


def tools_of(target: str, emulated: bool = True) -> tuple[str, ...]:
    """The compiler of a target, and its emulator if it has one, by the names of the resources that they are."""
    core = load_target(target)
    command = core.emulator.command[:1] if core.emulator is not None and emulated else ()
    return tuple(map(identity.resource, [core.compiler, *command]))


@dataclass(frozen=True)
class Row:
    """The outcome of a Job. `error` is None if it ran; all figures are None if it did not. worse: what is worse than the baseline, and
    by how much.
    """

    model: str
    target: str
    board: str
    bit_exact: bool | None = None
    accuracy: float | None = None
    samples: int | None = None
    instructions: int | None = None
    arena: int | None = None
    code: int | None = None
    weights: int | None = None
    stack: int | None = None
    error: str | None = None
    exit_code: int = 0
    setting: str = ""
    cycles: int | None = None
    worse: list[str] = field(default_factory=list)
    place: str = ""

    @property
    def where(self) -> str:
        """The cell, in words."""
        at = f" at {self.place}" if self.place else ""
        return f"{self.model} on {self.target}{at}" + (f", {self.setting}" if self.setting else "")


def jobs(
    models: Sequence[tuple[Path, Path]],
    targets: Sequence[str],
    settings: Mapping[str, Sequence[str]] | None = None,
    samples: int | None = None,
    clock: str | None = None,
    places: Sequence[Place] = (),
) -> list[Job]:
    """All cells, models outermost; missing files are refused before anything runs. settings: words of compile by name. places: the
    boards to run them on, for each of the targets; by default the targets' own.
    """
    for path in (path for pair in models for path in pair):
        if not path.exists():
            raise UsageError(f"there is no file {path}")
    names = names_of([model for model, _ in models])
    boards = _boards(places, targets) if places else [(name, default_board(name).name, None) for name in targets]
    return [
        Job(name, model, data, target, board, setting, tuple(words), samples, clock, place)
        for name, (model, data) in zip(names, models, strict=True)
        for target, board, place in boards
        for setting, words in (settings or {"": ()}).items()
    ]


def _boards(places: Sequence[Place], targets: Sequence[str]) -> list[tuple[str, str, Place | None]]:
    """Target, board and place for each board of a farm that has one of the targets, of which none means any. A place of a labgrid is
    always reserved, because another cell may hold it.
    """
    found = list[tuple[str, str, Place | None]]()
    for place in places:
        board = load_board(place.board)
        if place.bundle is not None or place.data is not None:
            raise UsageError(
                f"{place.name}: `bundle` and `data` are for validate; regress makes bundles of its own models"
            )
        if place.port is not None and board.flash is None:
            raise UsageError(
                f"{place.name}: board.toml of {board.name!r} has no [flash], with which models get onto it"
            )
        port = place.port
        if port is not None and port.startswith(lab.PREFIX) and "?" not in port:
            port = f"{port}?wait={lab.WAIT_SECONDS:g}"
        if not targets or load_target(board.target).name in targets:
            found.append((load_target(board.target).name, board.name, replace(place, port=port)))
    if not found:
        raise UsageError(f"none of the boards has one of the targets {', '.join(targets)}")
    return found


def names_of(models: Sequence[Path]) -> list[str]:
    """The file's name, with the name of its folder if several files share the name or it is uninformative."""
    stems = [path.stem for path in models]
    generic = [stem == "model" or stems.count(stem) > 1 for stem in stems]
    return [
        (path.resolve().parent.name if path.stem == "model" else f"{path.resolve().parent.name}-{path.stem}")
        if alike
        else path.stem
        for path, alike in zip(models, generic, strict=True)
    ]


def words_of(setting: str, given: Any) -> list[str]:
    """The options of compile in a setting of a regress.yaml as words of its command line."""
    known = options_of(CompileOptions)
    words = []
    for name, value in (given or {}).items():
        if name not in known:
            raise unknown_name(f"option of compile in the setting {setting!r}:", str(name), known)
        option = known[name]
        if isinstance(option.words, Flag) and not isinstance(value, bool):
            raise UsageError(f"setting {setting!r}: {name} is true or false, not {value!r}")
        if isinstance(option.words, OnOff):
            words += [option.flag, "on" if value else "off"]
        elif isinstance(option.words, Flag):
            words += [option.flag] if value == option.words.given else []
        else:
            words += [
                word for text in (value if isinstance(value, list) else [value]) for word in (option.flag, str(text))
            ]
    return words


def run_all(
    cells: Sequence[Job],
    executor: Executor,
    store: Store,
    tools: Mapping[str, str],
    build: Path | None = None,
    told: Callable[[Row, int], None] = lambda row, left: None,
) -> tuple[list[Row], UsageError | None]:
    """The rows of all cells, in their order, whatever the order in which they end; and why some could not be kept, if so. Rows that
    a run with the same inputs has kept are taken from the store. Large models begin first, so that no worker ends long after the others.

    tools: the versions of compilers and emulators where the cells run. build: the folder for all that is made; by default it is
    removed. told: what to do with a row as soon as it is there; left: how many are not.
    """
    rows: dict[int, Row] = {}
    fresh: dict[Future[Row], tuple[int, Record]] = {}
    missing: list[tuple[int, Record]] = []
    problem: UsageError | None = None
    digests = cache(lambda path: importer.describe(path).sha256), cache(identity.of_path)
    try:
        for index, job in enumerate(cells):
            kept, record = _kept(job, store, tools, digests)
            if kept is None:
                missing.append((index, record))
            else:
                rows[index] = kept
                told(kept, len(cells) - len(rows))
        for index, record in sorted(missing, key=lambda one: -cells[one[0]].model.stat().st_size):
            fresh[executor.submit(run, cells[index], build)] = index, record
        for future in as_completed(fresh):
            index, record = fresh[future]
            rows[index] = row = _outcome(cells[index], future)
            told(row, len(cells) - len(rows))
            if row.exit_code == 0:
                problem = _keep(store, replace(record, result=asdict(row))) or problem
    finally:
        for future in fresh:
            future.cancel()
    return [rows[index] for index in range(len(cells))], problem


def _kept(job: Job, store: Store, tools: Mapping[str, str], digests: Digests) -> tuple[Row | None, Record]:
    """The row of an earlier run, or of a cell that cannot be run at all, and the record to keep its row in."""
    try:
        record = _record(job, tools, digests)
    except GlowembedError as error:
        return _row(job, error=str(error), exit_code=error.exit_code), Record(KIND, "", {}, {})
    found = store.get(KIND, record.key)
    if found is not None:
        with suppress(TypeError):  # of a version with other fields
            return replace(Row(**found), model=job.name, setting=job.setting, place=_place_name(job)), record
    return None, record


def _keep(store: Store, record: Record) -> UsageError | None:
    """Keep a row; or say why that cannot be done, because the other rows are worth having all the same."""
    try:
        store.put(record)
    except UsageError as error:
        return error
    return None


def _outcome(job: Job, future: Future[Row]) -> Row:
    try:
        return future.result()
    except GlowembedError as error:  # of the cluster; what goes wrong in a cell is in its row
        return _row(job, error=str(error), exit_code=error.exit_code)


def _record(job: Job, tools: Mapping[str, str], digests: Digests) -> Record:
    """The hash of all that the row of a cell depends on, and the same for people."""
    software, used = identity.software(), {need: tools.get(need, "") for need in job.tools}
    model, data = digests[0](job.model), digests[1](job.data)
    words = [identity.of_glowembed(), *software.values(), *used.values(), model, data]
    words += [job.target, job.board, *job.words, str(job.samples), str(job.clock)]
    if job.place is not None:
        words += [*replace(job.place, board=job.board).words, *farm.words_of(load_board(job.place.board))]
    about: dict[str, Any] = {"model": job.name, "target": job.target, "board": job.board, "setting": job.setting}
    about |= {"options": list(job.words), "samples": job.samples, "clock": job.clock, "version": VERSION}
    about |= {"commit": identity.commit(), "model_sha256": model, "data_sha256": data}
    about |= {"tools": {name: said.partition("\n")[0] for name, said in used.items()}}
    about |= {"place": job.place.name} if job.place is not None else {}
    return Record(KIND, identity.of_words(words), about, {})


def run(job: Job, build: Path | None = None) -> Row:
    """Compile and validate one cell. build: the folder for all that is made; by default it is removed."""
    try:
        if build is not None:
            return _run(job, build)
        with tempfile.TemporaryDirectory(prefix="glowembed-") as folder:
            return _run(job, Path(folder))
    except GlowembedError as error:
        return _row(job, error=str(error), exit_code=error.exit_code)


def _row(job: Job, **more: Any) -> Row:
    return Row(job.name, job.target, job.board, setting=job.setting, place=_place_name(job), **more)


def _place_name(job: Job) -> str:
    return job.place.name if job.place is not None else ""


def _run(job: Job, build: Path) -> Row:
    if job.place is not None and (problem := _why_not(job.place, _hour())):
        raise UsageError(problem)
    parts = (job.target, job.setting, job.place.plain_name if job.place is not None else "")
    place = build / job.name / "-".join(filter(None, parts))
    place.mkdir(parents=True, exist_ok=True)
    bundle, result = place / "bundle", place / "result.json"
    result.unlink(missing_ok=True)
    data = ("--data", str(job.data))
    made = _glowembed("compile", str(job.model), *data, "--target", job.core, *job.words, "-o", str(bundle))
    if made.returncode != 0:
        return _failed(job, made)
    more = ["--samples", str(job.samples)] if job.samples is not None else []
    more += ["--clock", job.clock] if job.clock is not None else []
    ran = _validated(job, str(bundle), *data, "--json", str(result), *more)
    if not result.is_file():
        return _failed(job, ran)
    return row(job, json.loads(result.read_text(encoding="utf-8")), ran.returncode)


def _hour() -> int:
    """What is known of boards is forgotten when this changes: a worker of a cluster runs for days, and boards are repaired."""
    return int(time.monotonic() // 3600)


@cache
def _why_not(place: Place, hour: int) -> str:
    """Why a board cannot be reached, "" if it can: tried once, so that nothing is built for a board that is not there."""
    if place.port is None:
        return ""
    try:
        uart = load_board(place.board).uart
        with bench.held(place.port, place.baud or (uart.baud if uart is not None else 115200)):
            return ""
    except GlowembedError as error:
        return str(error)


@cache
def _broken(hour: int) -> set[str]:
    """The places of a labgrid that failed with a program which ran at another place with the same tags."""
    return set()


def _validated(job: Job, *words: str) -> Ended:
    """Validate a cell; if its place of a labgrid, one of several, fails like a tool, once more at another one."""
    if job.place is None:
        return _glowembed("validate", *words, "--board", job.board)
    broken = _broken(_hour())
    first = _validated_at(job.place, broken, words)
    if first.returncode != ToolError.exit_code or not first.place:
        return first
    sys.stderr.write(f"{lab.PREFIX}{first.place}: failed, and another place is tried: {_said(first)}\n")
    again = _validated_at(job.place, {*broken, first.place}, words)
    both = [f"{lab.PREFIX}{ended.place}: {_said(ended)}" for ended in (first, again) if ended.place]
    if not again.place or again.returncode == ToolError.exit_code:
        return replace(first, stderr="; ".join(both))
    if again.returncode == 0:
        broken.add(first.place)
    return again


def _validated_at(place: Place, broken: Iterable[str], words: Sequence[str]) -> Ended:
    flash = ["--flash"] if place.port is not None else []
    return _glowembed("validate", *words, *place.without(broken).words, *flash, seconds=place.timeout)


def _glowembed(*words: str, seconds: float | None = None) -> Ended:
    return farm.glowembed(words, seconds)


def _said(ended: Ended) -> str:
    """Why a command has failed, in one line."""
    said = (ended.stderr.strip() or ended.stdout.strip()).splitlines()
    telling = [line.strip() for line in said if "error" in line][:MESSAGE_LINES] or said[-MESSAGE_LINES:]
    return " ".join(telling).removeprefix("error: ") or f"exit code {ended.returncode}"


def _failed(job: Job, ended: Ended) -> Row:
    return _row(job, error=_said(ended), exit_code=ended.returncode or 4)


def row(job: Job, result: dict[str, Any], exit_code: int) -> Row:
    """A Row made from the output of `validate --json`."""
    memory = result["memory"]
    accuracy = result.get("accuracy") or {}
    return _row(
        job,
        bit_exact=result["bit_exact"],
        accuracy=accuracy.get("quantized") if accuracy.get("metric") != "rmse" else None,
        samples=result["samples"],
        instructions=result["instructions"],
        cycles=result.get("cycles_measured") or result.get("cycles_estimate"),
        arena=memory["arena"],
        code=memory["code"],
        weights=memory["weights"],
        stack=memory["stack"],
        exit_code=exit_code,
    )


def exit_code(rows: Sequence[Row]) -> int:
    """0 if everything succeeded, else the gravest exit code of the cells."""
    return max((row.exit_code for row in rows), default=0)
