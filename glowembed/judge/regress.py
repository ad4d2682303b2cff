"""Validates models on targets with settings, for CI. In: cells. Out: a Row each.

Each cell runs the commands that a user would type: `glowembed compile`, then `glowembed validate --json` on the
target's own board, in processes of their own, several at a time. A cell that fails becomes a row that says why; the
others continue. The row of a cell that succeeded is kept under the hash of all that it depends on, and taken from there
as long as nothing of that changes.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from glowembed import resources
from glowembed.errors import GlowembedError, UsageError, unknown_name
from glowembed.files.documents import read_json
from glowembed.files.output import write_file
from glowembed.files.source import read_bytes
from glowembed.graph.target import default_board, load_target
from glowembed.options.option import table as options_of
from glowembed.options.table import CompileOptions
from glowembed.options.words import Flag, OnOff
from glowembed.read import importer

MESSAGE_LINES = 3
CACHE = "cache"
"""The folder of the rows that are kept, in the build folder."""


@dataclass(frozen=True)
class Job:
    """One cell: a model with its dataset on one target. setting: the name of `words`, which are options of compile."""

    name: str
    model: Path
    data: Path
    target: str
    board: str
    setting: str = ""
    words: tuple[str, ...] = ()
    samples: int | None = None
    clock: str | None = None


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

    @property
    def where(self) -> str:
        """The cell, in words."""
        return f"{self.model} on {self.target}" + (f", {self.setting}" if self.setting else "")


def jobs(
    models: Sequence[tuple[Path, Path]],
    targets: Iterable[str],
    settings: Mapping[str, Sequence[str]] | None = None,
    samples: int | None = None,
    clock: str | None = None,
) -> list[Job]:
    """All cells, models outermost; missing files are refused before anything runs. settings: words of compile by name."""
    for path in (path for pair in models for path in pair):
        if not path.exists():
            raise UsageError(f"there is no file {path}")
    names = _names([model for model, _ in models])
    boards = {target: default_board(target).name for target in targets}
    return [
        Job(name, model, data, target, board, setting, tuple(words), samples, clock)
        for name, (model, data) in zip(names, models, strict=True)
        for target, board in boards.items()
        for setting, words in (settings or {"": ()}).items()
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


def words_of(setting: str, given: Any) -> list[str]:
    """The options of compile in a setting of a regress.yaml as words of its command line."""
    known = options_of(CompileOptions)
    words = []
    for name, value in (given or {}).items():
        if name not in known:
            raise unknown_name(f"option of compile in the setting {setting!r}", str(name), known)
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


# ---------------------------------------------------------------------------------------------- one cell


def run(job: Job, build: Path) -> Row:
    """Compile and validate one cell, unless its row is there from a run with the same inputs."""
    try:
        kept = build / CACHE / f"{_key(job)}.json"
        found = _remembered(kept)
        if found is None:
            found = _run(job, build)
            if found.exit_code == 0:
                kept.parent.mkdir(parents=True, exist_ok=True)
                write_file(kept, json.dumps(asdict(found)) + "\n")
    except GlowembedError as error:
        return _row(job, error=str(error), exit_code=error.exit_code)
    return replace(found, model=job.name, target=job.target, board=job.board, setting=job.setting)


def _row(job: Job, **more: Any) -> Row:
    return Row(job.name, job.target, job.board, setting=job.setting, **more)


def _remembered(path: Path) -> Row | None:
    """The row in a file; None if this version cannot read it."""
    try:
        found = read_json(path) if path.is_file() else None
    except UsageError:
        return None
    return Row(**found) if isinstance(found, dict) and set(found) == {f.name for f in fields(Row)} else None


def _key(job: Job) -> str:
    """The hash of all that the row of a cell depends on: glowembed, its tools, the model, the data and the options."""
    words = [_of_glowembed(), _of_tools(job), importer.describe(job.model).sha256, _of_data(job.data)]
    words += [job.target, job.board, *job.words, str(job.samples), str(job.clock)]
    return hashlib.sha256("\0".join(words).encode()).hexdigest()


@cache
def _of_glowembed() -> str:
    folders = (resources.PACKAGE, resources.runtime_c(), resources.targets(), resources.boards())
    return "\n".join(_of_folder(folder) for folder in folders)


def _of_data(data: Path) -> str:
    return _of_folder(data) if data.is_dir() else hashlib.sha256(read_bytes(data)).hexdigest()


def _of_folder(folder: Path) -> str:
    """The hash of the files below a folder, with their names."""
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts):
        name = path.relative_to(folder).as_posix()
        digest.update(f"{name}\0{hashlib.sha256(read_bytes(path)).hexdigest()}\n".encode(errors="replace"))
    return digest.hexdigest()


def _of_tools(job: Job) -> str:
    target = load_target(job.target)
    commands = [target.compiler, *(target.emulator.command[:1] if target.emulator is not None else ())]
    packages = [f"{name} {version(name)}" for name in ("numpy", "onnx", "onnxruntime", "ortools")]
    return "\n".join([sys.version, *packages, *map(_version_of, commands)])


@cache
def _version_of(command: str) -> str:
    if shutil.which(command) is None:
        return f"{command} is not there"
    return subprocess.run([command, "--version"], capture_output=True, text=True, errors="replace", check=False).stdout


def _run(job: Job, build: Path) -> Row:
    place = build / job.name / (f"{job.target}-{job.setting}" if job.setting else job.target)
    place.mkdir(parents=True, exist_ok=True)
    bundle, result = place / "bundle", place / "result.json"
    result.unlink(missing_ok=True)
    data = ("--data", str(job.data))
    made = _glowembed("compile", str(job.model), *data, "--target", job.target, *job.words, "-o", str(bundle))
    if made.returncode != 0:
        return _failed(job, made)
    more = ["--samples", str(job.samples)] if job.samples is not None else []
    more += ["--clock", job.clock] if job.clock is not None else []
    ran = _glowembed("validate", str(bundle), "--board", job.board, *data, "--json", str(result), *more)
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
    return _row(job, error=error, exit_code=process.returncode or 4)


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
