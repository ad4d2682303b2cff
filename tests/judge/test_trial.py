"""`glowembed try`: one command, a result for machines, a page, and commands that work as printed."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from json_result import check_json
from small_models import model, node, saved, weights

from glowembed.__main__ import main
from glowembed.judge import trial
from glowembed.run import qemu


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Save a network of one layer."""
    return saved(model([node("Gemm", "x w", "y")], {"x": (1, 4)}, {"w": weights(4, 3)}), tmp_path)


@pytest.mark.cc
@pytest.mark.arm_gcc
@pytest.mark.qemu
def test_a_model_is_tried_here_and_on_a_board(small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "try",
        small,
        "--random",
        "16",
        "--samples",
        "3",
        "--clock",
        "80MHz",
        "--shape",
        "x=1,4",
        "-o",
        tmp_path / "out",
    ]
    assert main([*map(str, words), "--json", str(tmp_path / "result.json")]) == 0
    said = capsys.readouterr().out
    assert "warning: 16 random samples instead of data" in said
    assert "cortex-m4 on mps2-an386: every bit as in the reference" in said
    found = json.loads((tmp_path / "result.json").read_text())
    check_json("try", found)
    emulated, here = (run["validation"] for run in found["runs"])
    assert (emulated["board"], here["board"]) == ("mps2-an386", "host")
    assert emulated["bit_exact"]
    assert here["bit_exact"]
    assert emulated["milliseconds"] == pytest.approx(emulated["cycles_estimate"] / 80_000)
    assert here["milliseconds"] is None
    fits = {fit["board"]: fit for fit in found["boards"]}
    assert fits["microbit"]["fits"]
    assert fits["nucleo-l4r5zi"]["milliseconds"] < fits["microbit"]["milliseconds"]
    assert "host" not in fits
    page = (tmp_path / "out" / "report.html").read_text()
    assert "microbit" in page
    assert page.count("16 random samples instead of data") == 1
    assert [plan["ram"] for plan in found["plans"]] == sorted(plan["ram"] for plan in found["plans"])
    assert found["plans"]
    assert "this bundle" in page
    _printed_commands_work(said)


def _printed_commands_work(said: str) -> None:
    commands = [shlex.split(line) for line in said.partition("What next:")[2].splitlines() if "glowembed" in line]
    names = [words[words.index("glowembed") + 1] for words in commands]
    assert names == ["inspect", "compile", "validate", "measure"]
    assert all(words[words.index("--shape") :][:2] == ["--shape", "x=1,4"] for words in commands[:2])
    for words in commands:
        assert main(words[words.index("glowembed") + 1 :]) == 0, words


@pytest.mark.cc
def test_without_an_emulator_it_runs_here_and_says_so(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(qemu, "is_here", lambda board: False)
    assert main(["try", str(small), "--random", "8", "-o", str(tmp_path / "out")]) == 0
    said = capsys.readouterr().out
    assert "`glowembed doctor` says what to install [no-emulated-board]" in " ".join(said.split())
    assert "x86-64 on host: every bit" in said


@pytest.mark.parametrize(
    ("words", "code", "expected"),
    [
        ([], 2, "neither is given"),
        (["data.npz", "--random", "4"], 2, "both is given"),
        (["--random", "0"], 2, "--random"),
        (["--random", "4", "--board", "nucleo-l4r5zi"], 2, "is not emulated"),
        (["--random", "4", "--clock", "fast"], 2, "such as 120MHz"),
        (["nothing.npz"], 2, "nothing.npz"),
    ],
)
def test_what_cannot_be_tried_is_refused(
    words: list[str], code: int, expected: str, small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["try", str(small), *words, "-o", str(tmp_path / "out")]) == code
    assert expected in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_an_unsupported_model_is_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = saved(model([node("RandomNormalLike", "x", "y")], {"x": (1, 4)}, {}), tmp_path)
    assert main(["try", str(bad), "--random", "4", "-o", str(tmp_path / "out")]) == 3
    assert "RandomNormalLike" in capsys.readouterr().out
    assert not (tmp_path / "out").exists()


def test_the_board_of_the_usual_core_is_taken_where_it_fits() -> None:
    def fit(board: str, fits: bool | None, options: str = "") -> trial.Fit:
        return trial.Fit(board, 1, 1, fits, options)

    def choice(*boards: trial.Fit) -> str | None:
        found = trial._best(boards)
        return None if found is None else found.name

    able = [fit("mps2-an385", True), fit("netduinoplus2", True), fit("mps2-an386", True)]
    if choice(*able) is None:
        pytest.skip("no emulator here")
    assert choice(*able) == "mps2-an386"
    assert choice(*able[:2]) == "netduinoplus2"
    assert choice(able[0], fit("mps2-an386", False), fit("netduinoplus2", True, "--ram 100")) == "mps2-an385"
    assert choice(fit("mps2-an386", None), fit("nucleo-l4r5zi", True)) is None
