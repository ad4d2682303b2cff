"""Validates on a list of boards at the same time. In: farm.yaml, a bundle, data. Out: a Row per board; a board that
hangs does not affect the others.

    boards:
      - {name: bench, board: nucleo-l4r5zi, port: /dev/ttyACM0, probe: 066DFF}
      - {name: rack 2, board: nucleo-u575zi-q, port: "socket://rack:4000", bundle: bundles/m33}
      - {name: shelf, board: nrf52840-dk, port: "labgrid:chip=nrf52840", count: 4}
      - {board: mps2-an386}                      # emulated: its UART model

`bundle` and `data` are relative to the file; without them those of the command line are used. A port of another machine
is a socket or RFC 2217 (ser2net and the like), or a place of a labgrid by its name or tags. `count` is the number of boards that
`regress` may use at the same time.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from glowembed import resources
from glowembed.errors import ToolError, UsageError, unknown_name
from glowembed.files import documents
from glowembed.graph.target import Board, load_board, load_target, read_board
from glowembed.jobs import identity
from glowembed.read import onnxfile
from glowembed.records import dataclass
from glowembed.run import lab

KEYS = ("name", "board", "port", "baud", "probe", "count", "bundle", "data", "timeout")
SECONDS = 3600.0
GRACE_SECONDS = 20.0
"""for a command that was told to end"""


@dataclass(frozen=True)
class Place:
    """One board of a farm, or several that are equal. timeout: seconds until a run is given up. probe: see Link. bundle, data: what
    to validate, for which `regress` has lists of its own.
    """

    name: str
    board: str | Path
    port: str | None = None
    baud: int | None = None
    probe: str | None = None
    count: int = 1
    bundle: Path | None = None
    data: Path | None = None
    timeout: float = SECONDS

    @property
    def words(self) -> list[str]:
        """The options of `validate` that reach the board."""
        given = {"--board": self.board, "--port": self.port, "--baud": self.baud, "--probe": self.probe}
        words = [word for name, value in given.items() if value is not None for word in (name, str(value))]
        return [*words, "--transport", "serial"]

    @property
    def plain_name(self) -> str:
        """The name as a part of the name of a folder or of a resource."""
        return "".join(c if c.isalnum() or c in "-_." else "_" for c in self.name)

    def without(self, names: Iterable[str]) -> Place:
        """The same, without the places of these names: only for tags of a labgrid."""
        if self.port is None or not names:
            return self
        asked = lab.Asked.of(self.port.removeprefix(lab.PREFIX))
        return replace(self, port=f"{lab.PREFIX}{asked.without(names)}")


def parts_of(path: Path) -> list[Path]:
    """The files that must go to another computer together with a model, or with the folder of a board."""
    return read_board(path / "board.toml").elsewhere if (path / "board.toml").is_file() else onnxfile.beside(path)


def words_of(board: Board) -> list[str]:
    """The hashes of all that a result on this board depends on: its files and its target."""
    files = map(identity.of_path, (board.folder, *board.sources, *board.elsewhere))
    return [board.name, *files, repr(load_target(board.target))]


@dataclass(frozen=True)
class Ended:
    """A command of glowembed that has ended. place: of a labgrid, if it has found one by its tags."""

    returncode: int
    stdout: str = ""
    stderr: str = ""
    place: str = ""


@dataclass(frozen=True)
class Row:
    """The outcome for a board: the result of validate, or an error message."""

    name: str
    board: str
    seconds: float
    result: Mapping[str, Any] | None = None
    error: str | None = None

    @property
    def good(self) -> bool:
        """Whether it ran and every bit was right."""
        return self.result is not None and bool(self.result["bit_exact"])


def read(path: Path, bundle: Path | None = None, data: Path | None = None) -> list[Place]:
    """The boards of a farm.yaml. bundle, data: of the boards for which it names none."""
    found = documents.read_yaml(path)
    entries = found.get("boards") if isinstance(found, dict) else None
    if not isinstance(entries, list) or not entries or not all(isinstance(entry, dict) for entry in entries):
        raise UsageError(f"{path}: expected 'boards:' with a list of boards, each with 'board' and, if real, 'port'")
    places = [_place(path, entry, bundle, data) for entry in entries]
    names = [place.plain_name for place in places]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UsageError(f"{path}: {', '.join(twice)} occurs twice; give each a 'name'")
    return places


def _place(path: Path, entry: Mapping[str, Any], bundle: Path | None, data: Path | None) -> Place:
    for key in entry:
        if key not in KEYS:
            raise unknown_name(f"key in {path}", str(key), KEYS)
    if "board" not in entry:
        raise UsageError(f"{path}: {dict(entry)} has no 'board'")
    board = load_board(str(entry["board"]))
    try:
        count = int(entry.get("count", 1))
        if count < 1:
            raise ValueError("count: expected a number of boards")
        return Place(
            name=str(entry.get("name", board.name)),
            board=board.name_or_folder,
            port=str(entry["port"]) if "port" in entry else None,
            baud=int(entry["baud"]) if "baud" in entry else None,
            probe=str(entry["probe"]) if "probe" in entry else None,
            count=count,
            bundle=path.parent / str(entry["bundle"]) if "bundle" in entry else bundle,
            data=path.parent / str(entry["data"]) if "data" in entry else data,
            timeout=float(entry.get("timeout", SECONDS)),
        )
    except (ValueError, TypeError, OverflowError) as error:
        raise UsageError(f"{path}: {dict(entry)}: {error}") from error


def run(places: Sequence[Place], words: Sequence[str]) -> list[Row]:
    """Run `glowembed validate` on every board at once; `words`: further options for it."""
    with ThreadPoolExecutor(len(places)) as pool:
        return list(pool.map(lambda place: _run(place, words), places))


def _build_dir(place: Place, bundle: Path) -> Path:
    """A build folder for each board, because two boards may have the same bundle."""
    return bundle.resolve().parent / f"{bundle.resolve().name}.build" / "farm" / place.plain_name


def _run(place: Place, words: Sequence[str]) -> Row:
    assert place.bundle is not None, "the command line has one where the file has none"
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="glowembed-") as folder:
        result = Path(folder) / "result.json"
        command = ["validate", str(place.bundle), "--data", str(place.data), *place.words]
        command += ["--json", str(result), *words, "--build-dir", str(_build_dir(place, place.bundle))]
        done = glowembed(command, place.timeout)
        seconds = time.monotonic() - begun
        if result.is_file():
            return Row(place.name, str(place.board), seconds, json.loads(result.read_text(encoding="utf-8")))
    said = done.stderr.strip().removeprefix("error: ") or f"exit code {done.returncode}"
    return Row(place.name, str(place.board), seconds, error=said)


def glowembed(words: Sequence[str], seconds: float | None = None) -> Ended:
    """Run a command of glowembed in a process of its own, which builds with one compiler at a time, because such processes run side by
    side. What it says of a labgrid is shown, and the rest is returned. A process that exceeds its time may still clean up, and has then
    failed like a tool.
    """
    path = os.pathsep.join(filter(None, [str(resources.PACKAGE.parent), os.environ.get("PYTHONPATH")]))
    flags = f"{os.environ.get('SCONSFLAGS', '')} -j1".strip()
    env = {**os.environ, "PYTHONPATH": path, "NO_COLOR": "1", "SCONSFLAGS": flags}
    command = [sys.executable, "-m", "glowembed", *words]
    with (
        tempfile.TemporaryFile("w+", errors="replace") as out,
        subprocess.Popen(command, stdout=out, stderr=subprocess.PIPE, text=True, errors="replace", env=env) as process,
        ThreadPoolExecutor(1) as listener,
    ):
        heard = listener.submit(_heard, process)
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(GRACE_SECONDS)
            process.kill()
            return Ended(ToolError.exit_code, stderr=f"did not end within {seconds:g} s", place=heard.result()[1])
        out.seek(0)
        return Ended(process.returncode, out.read(), *heard.result())


def _heard(process: subprocess.Popen[str]) -> tuple[str, str]:
    """What a process says on its standard error until it ends, without what is only of interest meanwhile; and the place of a labgrid
    that it uses.
    """
    assert process.stderr is not None, "asked for"
    kept, place = "", ""
    for line in process.stderr:
        if line.startswith(lab.PREFIX):
            sys.stderr.write(line)
            found = lab.TAKEN.match(line)
            place = found[1] if found else place
        else:
            kept += line
    return kept, place


class Crew(Executor):
    """Runs jobs, each of which has a `place`, on the boards of a farm: at most `jobs` at a time, and on each place as many as it has
    boards.
    """

    def __init__(self, places: Iterable[Place], jobs: int) -> None:
        self._free = threading.Semaphore(jobs)
        self._pools = {place.name: ThreadPoolExecutor(place.count) for place in places}

    def submit(self, function: Callable[..., Any], /, *args: Any, **named: Any) -> Future[Any]:
        """Run function(*args, **named) when a board is free. The first argument is the job."""
        return self._pools[args[0].place.name].submit(self._run, function, args, named)

    def _run(self, function: Callable[..., Any], args: Sequence[Any], named: Mapping[str, Any]) -> Any:
        with self._free:
            return function(*args, **named)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Wait until all jobs have ended, or those that have begun."""
        for pool in self._pools.values():
            pool.shutdown(wait, cancel_futures=cancel_futures)
