"""Validates on a list of boards at the same time. In: farm.yaml, a bundle, data. Out: a Row per board; a board that
hangs does not affect the others.

    boards:
      - {name: bench, board: nucleo-l4r5zi, port: /dev/ttyACM0}
      - {name: rack 2, board: nucleo-u575zi-q, port: "socket://rack:4000", bundle: bundles/m33}
      - {board: mps2-an386}                      # emulated: its UART model

`bundle` and `data` are relative to the file; without them those of the command line are used. A port of another machine
is a socket or RFC 2217 (ser2net and the like), or the place of a labgrid: `port: labgrid:PLACE`.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glowembed import resources
from glowembed.errors import UsageError, unknown_name
from glowembed.files import documents
from glowembed.graph.target import load_board

KEYS = ("name", "board", "port", "baud", "bundle", "data", "timeout")
SECONDS = 3600.0
GRACE_SECONDS = 20.0
"""for a command that was told to end"""


@dataclass(frozen=True)
class Place:
    """One board of a farm. timeout: seconds until it is given up."""

    name: str
    board: str
    port: str | None
    baud: int | None
    bundle: Path
    data: Path
    timeout: float


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


def read(path: Path, bundle: Path, data: Path) -> list[Place]:
    """The boards of a farm.yaml."""
    found = documents.read_yaml(path)
    entries = found.get("boards") if isinstance(found, dict) else None
    if not isinstance(entries, list) or not entries or not all(isinstance(entry, dict) for entry in entries):
        raise UsageError(f"{path}: expected 'boards:' with a list of boards, each with 'board' and, if real, 'port'")
    places = [_place(path, entry, bundle, data) for entry in entries]
    names = [place.name for place in places]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UsageError(f"{path}: {', '.join(twice)} occurs twice; give each a 'name'")
    return places


def _place(path: Path, entry: Mapping[str, Any], bundle: Path, data: Path) -> Place:
    for key in entry:
        if key not in KEYS:
            raise unknown_name(f"key in {path}", str(key), KEYS)
    if "board" not in entry:
        raise UsageError(f"{path}: {dict(entry)} has no 'board'")
    board = load_board(str(entry["board"]))
    try:
        return Place(
            name=str(entry.get("name", board.name)),
            board=board.reference,
            port=str(entry["port"]) if "port" in entry else None,
            baud=int(entry["baud"]) if "baud" in entry else None,
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


def _build_dir(place: Place) -> Path:
    """A build folder for each board, because two boards may have the same bundle."""
    bundle = place.bundle.resolve()
    name = "".join(c if c.isalnum() or c in "-_." else "_" for c in place.name)
    return bundle.parent / f"{bundle.name}.build" / "farm" / name


def _run(place: Place, words: Sequence[str]) -> Row:
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="glowembed-") as folder:
        result = Path(folder) / "result.json"
        command = [sys.executable, "-m", "glowembed", "validate", str(place.bundle), "--data", str(place.data)]
        command += ["--board", place.board, "--transport", "serial", "--json", str(result), *words]
        command += ["--build-dir", str(_build_dir(place))]
        command += ["--port", place.port] if place.port is not None else []
        command += ["--baud", str(place.baud)] if place.baud is not None else []
        path = os.pathsep.join(filter(None, [str(resources.PACKAGE.parent), os.environ.get("PYTHONPATH")]))
        env = {**os.environ, "PYTHONPATH": path, "NO_COLOR": "1"}
        try:
            done = _command(command, env, place.timeout)
        except subprocess.TimeoutExpired:
            return Row(place.name, place.board, place.timeout, error=f"did not end within {place.timeout:g} s")
        seconds = time.monotonic() - begun
        if result.is_file():
            return Row(place.name, place.board, seconds, json.loads(result.read_text(encoding="utf-8")))
    said = done.stderr.strip().removeprefix("error: ") or f"exit code {done.returncode}"
    return Row(place.name, place.board, seconds, error=said)


def _command(words: Sequence[str], env: Mapping[str, str], seconds: float) -> subprocess.CompletedProcess[str]:
    """Like subprocess.run, but a process that exceeds its time may still clean up, because a board of a labgrid must be
    released.
    """
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", env=env
    ) as process:
        try:
            said = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=GRACE_SECONDS)
            process.kill()
            raise
        return subprocess.CompletedProcess(words, process.returncode, *said)
