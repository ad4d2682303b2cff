"""Validates models on targets and prints one table. In: models with their datasets, targets. Out: a Row each, as text
and JSON.

Each cell runs the commands that a user would type: `glowembed compile`, then `glowembed validate --json` on the
target's own board, in processes of their own, several at a time. A cell that fails becomes a row that says why; the
others continue.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from glowembed import resources
from glowembed.errors import GlowembedError, UsageError
from glowembed.files.output import write_file
from glowembed.graph.target import default_board, load_target, target_names

MESSAGE_LINES = 3


@dataclass(frozen=True)
class Job:
    """One cell: a model with its dataset on one target."""

    name: str
    model: Path
    data: Path
    target: str
    board: str


@dataclass(frozen=True)
class Row:
    """The outcome of a Job. `error` is None if it ran; all figures are None if it did not."""

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


def jobs(models: Sequence[tuple[Path, Path]], targets: Iterable[str]) -> list[Job]:
    """All cells, models outermost; missing files are refused before anything runs."""
    for path in (path for pair in models for path in pair):
        if not path.exists():
            raise UsageError(f"there is no file {path}")
    names = _names([model for model, _ in models])
    boards = {target: default_board(target).name for target in targets}
    return [
        Job(name, model, data, target, board)
        for name, (model, data) in zip(names, models, strict=True)
        for target, board in boards.items()
    ]


def _names(models: list[Path]) -> list[str]:
    """The file's name, with the name of its folder if several files share the name or it is uninformative."""
    stems = [path.stem for path in models]
    generic = [stem == "model" or stems.count(stem) > 1 for stem in stems]
    return [
        (path.resolve().parent.name if path.stem == "model" else f"{path.resolve().parent.name}-{path.stem}")
        if alike
        else path.stem
        for path, alike in zip(models, generic, strict=True)
    ]


def run(job: Job, build: Path, samples: int | None = None) -> Row:
    """Compile and validate one cell."""
    place = build / job.name / job.target
    place.mkdir(parents=True, exist_ok=True)
    bundle, result = place / "bundle", place / "result.json"
    result.unlink(missing_ok=True)
    made = _glowembed("compile", str(job.model), "--data", str(job.data), "--target", job.target, "-o", str(bundle))
    if made.returncode != 0:
        return _failed(job, made)
    limit = ["--samples", str(samples)] if samples is not None else []
    ran = _glowembed(
        "validate", str(bundle), "--board", job.board, "--data", str(job.data), "--json", str(result), *limit
    )
    if not result.is_file():
        return _failed(job, ran)
    return row(job, json.loads(result.read_text(encoding="utf-8")), ran.returncode)


def _glowembed(*words: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(filter(None, [str(resources.PACKAGE.parent), os.environ.get("PYTHONPATH")]))
    env = {**os.environ, "PYTHONPATH": path, "NO_COLOR": "1"}
    command = [sys.executable, "-m", "glowembed", *words]
    return subprocess.run(command, capture_output=True, text=True, errors="replace", env=env, check=False)


def _failed(job: Job, process: subprocess.CompletedProcess[str]) -> Row:
    said = (process.stderr.strip() or process.stdout.strip()).splitlines()
    telling = [line.strip() for line in said if "error" in line][:MESSAGE_LINES] or said[-MESSAGE_LINES:]
    error = " ".join(telling).removeprefix("error: ") or f"exit code {process.returncode}"
    return Row(job.name, job.target, job.board, error=error, exit_code=process.returncode or 4)


def row(job: Job, result: dict[str, Any], exit_code: int) -> Row:
    """A Row made from the output of `validate --json`."""
    memory = result["memory"]
    accuracy = result.get("accuracy") or {}
    return Row(
        model=job.name,
        target=job.target,
        board=job.board,
        bit_exact=result["bit_exact"],
        accuracy=accuracy.get("quantized"),
        samples=result["samples"],
        instructions=result["instructions"],
        arena=memory["arena"],
        code=memory["code"],
        weights=memory["weights"],
        stack=memory["stack"],
        exit_code=exit_code,
    )


COLUMNS: tuple[tuple[str, Callable[[Row], str]], ...] = (
    ("model", lambda row: row.model),
    ("target", lambda row: row.target),
    ("board", lambda row: row.board),
    ("bit-exact", lambda row: "-" if row.bit_exact is None else "yes" if row.bit_exact else "NO"),
    ("accuracy", lambda row: "-" if row.accuracy is None else f"{row.accuracy:.4f}"),
    ("samples", lambda row: _number(row.samples)),
    ("instructions", lambda row: _number(row.instructions)),
    ("arena", lambda row: _number(row.arena)),
    ("code", lambda row: _number(row.code)),
    ("weights", lambda row: _number(row.weights)),
    ("stack", lambda row: _number(row.stack)),
)
TEXT_COLUMNS = 3


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def table(rows: Sequence[Row]) -> str:
    """All rows as a Markdown table, with the errors below it."""
    cells = [[title for title, _ in COLUMNS]] + [[show(row) for _, show in COLUMNS] for row in rows]
    widths = [max(len(line[column]) for line in cells) for column in range(len(COLUMNS))]
    rule = "|".join("-" * (w + 2) if i < TEXT_COLUMNS else "-" * (w + 1) + ":" for i, w in enumerate(widths))
    lines = [_line(cells[0], widths), f"|{rule}|", *(_line(line, widths) for line in cells[1:])]
    errors = [f"{row.model} on {row.target}: {row.error}" for row in rows if row.error is not None]
    return "\n".join([*lines, *([""] if errors else []), *errors]) + "\n"


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = [
        cell.ljust(width) if index < TEXT_COLUMNS else cell.rjust(width)
        for index, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return f"| {' | '.join(padded)} |"


def exit_code(rows: Sequence[Row]) -> int:
    """0 if everything succeeded, else the gravest exit code of the cells."""
    return max((row.exit_code for row in rows), default=0)


def _told(row: Row) -> Row:
    sys.stderr.write(f"{row.model} on {row.target}: {'done' if row.error is None else 'failed'}\n")
    return row


def _models(text: str) -> list[tuple[Path, Path]]:
    pairs = [entry.partition(":") for entry in text.split(",") if entry]
    for model, colon, data in pairs:
        if not (model and colon and data):
            raise UsageError(f"--models expects MODEL.onnx:DATA.npz, with commas between several; found {text!r}")
    return [(Path(model), Path(data)) for model, _, data in pairs]


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m glowembed.judge.regress", description=__doc__.splitlines()[0])
    parser.add_argument("--models", required=True, help="MODEL.onnx:DATA.npz, with commas between several")
    parser.add_argument("--targets", default=",".join(target_names()), help="with commas between; default: all")
    parser.add_argument("--build", type=Path, default=Path("build/regress"), help="folder for all that is made")
    parser.add_argument("--samples", type=int, help="samples of each model; default: all")
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    return parser.parse_args(argv)


def main(argv: Sequence[str]) -> int:
    """The command line; returns the exit code."""
    arguments = _arguments(argv)
    targets = [load_target(name).name for name in arguments.targets.split(",") if name]
    cells = jobs(_models(arguments.models), targets)
    with ThreadPoolExecutor(arguments.jobs) as pool:
        rows = list(pool.map(lambda job: _told(run(job, arguments.build, arguments.samples)), cells))
    sys.stdout.write(table(rows))
    if arguments.json is not None:
        write_file(arguments.json, json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    return exit_code(rows)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except GlowembedError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(error.exit_code)
