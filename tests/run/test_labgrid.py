"""Boards of a real labgrid on this computer, emulated: many cells on few boards, with faults, and every place is released."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from json_result import check_json
from shelf import shelf

from glowembed.__main__ import main

PLACES = 8
AT_ONCE = 4
FAULTS = ("dies", "hangs", "noise", "wrong", "", "", "broken")
"""The faults at each flashing, in order: three are tried again, and one of them fails again, so that another place is tried."""

SETTINGS = ("a: {}", "b: {optimize: size}", "c: {optimize: ram}", "d: {per_channel: false}")
pytestmark = [
    pytest.mark.arm_gcc,
    pytest.mark.qemu,
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("labgrid-coordinator") is None, reason="no labgrid (pipx install labgrid)"),
]


def labgrid(*words: str) -> str:
    return subprocess.run(["labgrid-client", *words], capture_output=True, text=True, check=True).stdout


def acquired() -> list[str]:
    """The places that somebody has."""
    return [line for line in labgrid("-v", "places").splitlines() if re.search(r"acquired: (?!None)", line)]


def test_many_cells_on_a_shelf(
    digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LG_COORDINATOR", "")  # given back at the end
    with shelf(tmp_path, PLACES, FAULTS) as (boards, board):
        settings = "".join(f"  {setting}\n" for setting in SETTINGS)
        (tmp_path / "regress.yaml").write_text(
            f"models: [{{model: {digits}/model.onnx, data: {digits}/data.npz}}]\nsamples: 2\nsettings:\n{settings}"
        )
        (tmp_path / "farm.yaml").write_text(
            f"boards:\n  - {{name: shelf, board: {board}, port: 'labgrid:chip=m4?wait=100', count: {PLACES}}}\n"
            f"  - {{name: away, board: {board}, port: 'labgrid:gone'}}\n"
        )
        words = [str(tmp_path / "regress.yaml"), "--boards", str(tmp_path / "farm.yaml"), "--jobs", str(AT_ONCE)]
        words += ["--build", str(tmp_path / "build"), "--store", str(tmp_path / "store"), "--json", str(tmp_path / "j")]
        assert main(["regress", *words]) == 2, "the board that is away"
        rows = json.loads((tmp_path / "j").read_text())
        check_json("regress", rows)
        said = capfd.readouterr().err
        faults = [fault for _, fault in boards.happened]
        assert faults[: len(FAULTS)] == [*FAULTS]
        later = set(faults[len(FAULTS) :])  # on a busy computer, cells are tried again for other reasons
        assert later <= {"", "broken"}
        assert said.count("its power was switched off and on") >= 3, said
        assert acquired() == []
        assert labgrid("reservations") == ""

        shelf_rows, away = rows[: len(SETTINGS)], rows[len(SETTINGS) :]
        assert all(row["bit_exact"] for row in shelf_rows)
        (broken,) = {name for name, fault in boards.happened if fault == "broken"}
        assert f"labgrid:{broken}: failed, and another place is tried: " in said
        assert all("labgrid:gone: socket://127.0.0.1:" in row["error"] and not row["bit_exact"] for row in away)
        assert not list((tmp_path / "build").glob("*/*-away/bundle"))
        killed(board, tmp_path / "build/digits/cortex-m4-b-shelf/bundle", digits)


def killed(board: Path, bundle: Path, digits: Path) -> None:
    """A place is released when its user is killed."""
    words = [
        "validate",
        str(bundle),
        "--data",
        f"{digits}/data.npz",
        "--board",
        str(board),
        "--port",
        "labgrid:chip=m4",
    ]
    for how in (signal.SIGINT, signal.SIGKILL):
        process = subprocess.Popen([sys.executable, "-m", "glowembed", *words], stderr=subprocess.DEVNULL)
        until(lambda: bool(acquired()))
        process.send_signal(how)
        assert process.wait(120) == (130 if how == signal.SIGINT else -9)
        until(lambda: not acquired())


def until(wanted: Callable[[], bool]) -> None:
    end = time.monotonic() + 240
    while not wanted():
        assert time.monotonic() < end
        time.sleep(0.2)  # to ask takes half a second of a processor
