"""`glowembed regress`: validates models on targets with settings, and compares the figures with those of an earlier run."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, field
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from glowembed.cli import STDOUT, HtmlFile, Resume, SchedulerUrl, StoreUrl
from glowembed.errors import Interrupted, UsageError, unknown_name
from glowembed.files.documents import read_yaml
from glowembed.files.output import write_file
from glowembed.graph.clock import hertz
from glowembed.graph.target import load_target, target_names
from glowembed.jobs import cluster, identity
from glowembed.jobs.store import DEFAULT, open_store
from glowembed.judge import baseline, farm, regress
from glowembed.records import dataclass
from glowembed.show import regress_view

PLACE = 85
KEYS = ("models", "targets", "settings", "samples", "clock", "limits")


@dataclass(frozen=True)
class Spec:
    """What a regress.yaml asks for."""

    models: Sequence[tuple[Path, Path]] = ()
    targets: Sequence[str] = ()
    settings: Mapping[str, Sequence[str]] = field(default_factory=dict)
    samples: int | None = None
    clock: str | None = None
    limits: Mapping[str, str | float] = field(default_factory=dict)


def add_to(app: typer.Typer) -> None:
    app.command(name="regress", epilog="Example:  glowembed regress regress.yaml --baseline baseline.json")(regress_)


SpecFile = Annotated[
    Path | None,
    typer.Argument(metavar="REGRESS.yaml", help="Models, targets, settings and limits.", show_default=False),
]
Models = Annotated[
    str | None,
    typer.Option("--models", metavar="ONNX:DATA,...", help="Models with their datasets instead of a file."),
]
Targets = Annotated[
    str | None, typer.Option("--targets", metavar="A,B", help="Targets; by default those of the file, or all.")
]
SampleCount = Annotated[
    int | None, typer.Option("--samples", metavar="N", min=1, help="Use only N samples, evenly spaced.")
]
BuildDir = Annotated[
    Path, typer.Option("--build", metavar="DIR", help="Folder for everything that is built; a cluster has its own.")
]
Jobs = Annotated[
    int | None,
    typer.Option("--jobs", metavar="N", min=1, help="Number of parallel cells; by default the number of cores."),
]
Workers = Annotated[
    int | None,
    typer.Option("--workers", metavar="N", min=1, help="Run on a Dask cluster of N workers of this computer."),
]
BoardsFile = Annotated[
    Path | None,
    typer.Option(
        "--boards", metavar="FARM.yaml", help="Run on these boards instead; each gets every model of its target."
    ),
]
BaselineFile = Annotated[
    Path | None,
    typer.Option("--baseline", metavar="FILE", help="A file that --json wrote earlier; worse figures are failures."),
]
JunitFile = Annotated[Path | None, typer.Option("--junit", metavar="FILE", help="Also write a report for CI.")]
JsonFile = Annotated[
    Path | None, typer.Option("--json", metavar="FILE", help="Also write the rows as JSON; - prints only that.")
]


def regress_(
    spec: SpecFile = None,
    models: Models = None,
    targets: Targets = None,
    samples: SampleCount = None,
    build: BuildDir = Path("build/regress"),
    store: StoreUrl = DEFAULT,
    jobs: Jobs = None,
    workers: Workers = None,
    scheduler: SchedulerUrl = None,
    boards: BoardsFile = None,
    resume: Resume = True,
    baseline_file: BaselineFile = None,
    junit: JunitFile = None,
    html: HtmlFile = None,
    json_file: JsonFile = None,
) -> None:
    """Compile and validate models x targets x settings, and print one table.

    A cell of which nothing has changed since it last succeeded is not run again: its result is in the store. So a run that
    was interrupted goes on where it stopped. The exit code is the gravest of the cells: 1 for other bits than the
    reference's, 5 for figures that are worse than the baseline by more than the limits.
    """
    if jobs is not None and (workers is not None or scheduler is not None):
        raise UsageError("--jobs is for this process: on a cluster, each worker runs one cell at a time")
    if boards is not None and workers is not None:
        raise UsageError("--workers is not for boards, of which each has one line: use --jobs, or --scheduler")
    wanted, places = _spec(spec, models), farm.read(boards) if boards is not None else []
    asked = targets.split(",") if targets else wanted.targets or (() if places else target_names())
    names = [load_target(name).name for name in asked]
    before = baseline.read(baseline_file) if baseline_file is not None else []
    cells = regress.jobs(wanted.models, names, wanted.settings, samples or wanted.samples, wanted.clock, places)
    kept = open_store(store, afresh=not resume)
    typer.echo(f"{len(cells)} cells; those whose results are not in {store} are compiled and validated", err=True)
    try:
        with _crew(jobs, workers, scheduler, places) as (executor, tools):
            place = None if isinstance(executor, cluster.Cluster) else build
            rows, problem = regress.run_all(cells, executor, kept, tools, place, _teller(len(cells)))
    except KeyboardInterrupt as stopped:
        raise Interrupted(
            f"interrupted\nwhat was finished is in {store}: the same command goes on from there"
        ) from stopped
    rows = baseline.compared(rows, before, wanted.limits)
    _write(rows, json_file, junit, html)
    if problem is not None:
        raise problem
    if code := regress.exit_code(rows):
        raise typer.Exit(code)


@contextmanager
def _crew(
    jobs: int | None, workers: int | None, scheduler: str | None, places: Sequence[farm.Place]
) -> Iterator[tuple[Executor, Mapping[str, str]]]:
    """Who runs the cells, and the tools that are there: threads of this process, or a cluster."""
    if workers is None and scheduler is None:
        count = jobs or os.cpu_count() or 1
        with farm.Crew(places, count) if places else ThreadPoolExecutor(count) as pool:
            try:
                yield pool, identity.tools()
            except KeyboardInterrupt:
                pool.shutdown(cancel_futures=True)
                raise
        return
    with cluster.cluster(workers, scheduler, farm.parts_of) as crew:
        typer.echo(f"dashboard: {crew.link}", err=True)
        yield crew, crew.tools


def _teller(count: int) -> Callable[[regress.Row, int], None]:
    """Says what became of each cell as soon as it is known, how many are left, and about how long they take."""
    begun = time.monotonic()

    def tell(row: regress.Row, left: int) -> None:
        seconds = (time.monotonic() - begun) / (count - left) * left
        more = f", {left} left, about {timedelta(seconds=round(seconds))}" if left else ""
        what = "done" if row.error is None else f"failed ({next(iter(row.error.splitlines()), '')})"
        typer.echo(f"{row.where}: {what}{more}", err=True)

    return tell


def _write(rows: Sequence[regress.Row], json_file: Path | None, junit: Path | None, html: Path | None) -> None:
    written = json.dumps([asdict(row) for row in rows], indent=1) + "\n"
    for path, text in ((junit, regress_view.junit), (html, regress_view.html)):
        if path is not None:
            write_file(path, text(rows))
    if json_file is not None and json_file != STDOUT:
        write_file(json_file, written)
    typer.echo(written if json_file == STDOUT else regress_view.table(rows), nl=False)


def _spec(path: Path | None, models: str | None) -> Spec:
    """What is requested, in a file or by --models."""
    if (path is None) == (models is None):
        raise UsageError("name a regress.yaml, or models with --models MODEL.onnx:DATA.npz; not both")
    if path is None:
        return Spec(_models(str(models)))
    found = read_yaml(path)
    if not isinstance(found, dict) or not isinstance(found.get("models"), list) or not found["models"]:
        raise UsageError(f"{path}: expected 'models:' with a list of models, each with 'model' and 'data'")
    for key in found:
        if key not in KEYS:
            raise unknown_name(f"key in {path}", str(key), KEYS)
    samples, clock, settings = found.get("samples"), found.get("clock"), found.get("settings") or {}
    if samples is not None and (not isinstance(samples, int) or isinstance(samples, bool) or samples < 1):
        raise UsageError(f"{path}: samples: expected a number of samples, not {samples!r}")
    if not isinstance(settings, dict) or not all(isinstance(options or {}, dict) for options in settings.values()):
        raise UsageError(f"{path}: expected 'settings:' with names, each with options of compile")
    if clock is not None:
        hertz(str(clock))
    return Spec(
        [_pair(path, entry) for entry in found["models"]],
        _list_of_names(path, found.get("targets")),
        {_plain(path, str(name)): regress.words_of(str(name), options) for name, options in settings.items()},
        samples,
        None if clock is None else str(clock),
        baseline.tolerances(found.get("limits"), str(path)),
    )


def _pair(path: Path, entry: Any) -> tuple[Path, Path]:
    if not isinstance(entry, dict) or set(entry) != {"model", "data"}:
        raise UsageError(f"{path}: expected a model with 'model' and 'data', found {entry!r:.100}")
    return path.parent / str(entry["model"]), path.parent / str(entry["data"])


def _list_of_names(path: Path, found: Any) -> list[str]:
    if found is not None and not (isinstance(found, list) and all(isinstance(name, str) for name in found)):
        raise UsageError(f"{path}: expected 'targets:' with a list of names, found {found!r:.100}")
    return list(found or ())


def _plain(path: Path, name: str) -> str:
    """The name of a setting, which becomes a part of a folder's name."""
    if not name or not all(letter.isalnum() or letter in "-_." for letter in name):
        raise UsageError(f"{path}: the setting {name!r} needs a name of letters, digits and -_.")
    return name


def _models(text: str) -> list[tuple[Path, Path]]:
    pairs = [entry.partition(":") for entry in text.split(",") if entry]
    for model, colon, data in pairs:
        if not (model and colon and data):
            raise UsageError(f"--models expects MODEL.onnx:DATA.npz, with commas between several; found {text!r}")
    return [(Path(model), Path(data)) for model, _, data in pairs]
