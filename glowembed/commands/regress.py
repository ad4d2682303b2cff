"""`glowembed regress`: validates models on targets with settings, and compares the figures with those of an earlier run."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from glowembed.errors import UsageError, unknown_name
from glowembed.files.documents import read_yaml
from glowembed.files.output import write_file
from glowembed.graph.clock import hertz
from glowembed.graph.target import load_target, target_names
from glowembed.judge import baseline, regress
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


def regress_(
    spec: Annotated[
        Path | None,
        typer.Argument(metavar="[REGRESS.yaml]", help="Models, targets, settings and limits.", show_default=False),
    ] = None,
    models: Annotated[
        str | None,
        typer.Option("--models", metavar="ONNX:DATA,...", help="Models with their datasets instead of a file."),
    ] = None,
    targets: Annotated[
        str | None, typer.Option("--targets", metavar="A,B", help="Targets; by default those of the file, or all.")
    ] = None,
    samples: Annotated[
        int | None, typer.Option("--samples", metavar="N", min=1, help="Use only N samples, evenly spaced.")
    ] = None,
    build: Annotated[
        Path,
        typer.Option("--build", metavar="DIR", help="Folder for everything that is built, and for results to keep."),
    ] = Path("build/regress"),
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", metavar="N", min=1, help="Number of parallel cells; by default the number of cores."),
    ] = None,
    baseline_file: Annotated[
        Path | None,
        typer.Option(
            "--baseline", metavar="FILE", help="A file that --json wrote earlier; worse figures are failures."
        ),
    ] = None,
    junit: Annotated[Path | None, typer.Option("--junit", metavar="FILE", help="Also write a report for CI.")] = None,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="Also write the result as one self-contained HTML page."),
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Also write the rows as JSON; - prints only that.")
    ] = None,
) -> None:
    """Compile and validate models x targets x settings, and print one table.

    A cell of which nothing has changed since it last succeeded is not run again. The exit code is the gravest of the
    cells: 1 for other bits than the reference's, 5 for figures that are worse than the baseline by more than the limits.
    """
    wanted = _spec(spec, models)
    names = [load_target(name).name for name in (targets.split(",") if targets else wanted.targets or target_names())]
    before = baseline.read(baseline_file) if baseline_file is not None else []
    cells = regress.jobs(wanted.models, names, wanted.settings, samples or wanted.samples, wanted.clock)
    with ThreadPoolExecutor(jobs or os.cpu_count() or 1) as pool:
        rows = list(pool.map(lambda job: _told(regress.run(job, build)), cells))
    rows = baseline.compared(rows, before, wanted.limits)
    written = json.dumps([asdict(row) for row in rows], indent=1) + "\n"
    for path, text in ((junit, regress_view.junit), (html, regress_view.html)):
        if path is not None:
            write_file(path, text(rows))
    if json_file is not None and json_file != Path("-"):
        write_file(json_file, written)
    typer.echo(written if json_file == Path("-") else regress_view.table(rows), nl=False)
    if code := regress.exit_code(rows):
        raise typer.Exit(code)


def _told(row: regress.Row) -> regress.Row:
    typer.echo(f"{row.where}: {'done' if row.error is None else 'failed'}", err=True)
    return row


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
