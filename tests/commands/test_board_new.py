"""`glowembed board new`: the board that it makes builds, and impossible answers are refused."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import fake_bundle
import pytest

from glowembed import resources
from glowembed.__main__ import main
from glowembed.commands import board
from glowembed.errors import UsageError
from glowembed.graph.target import UART_KINDS, load_target, read_board

ANSWERS = tomllib.loads(board.QUESTIONS)


@pytest.fixture
def boards(tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tree of our own: SCons takes boards from there."""
    place = tmp_path / "boards"
    place.mkdir()
    (place / "common").symlink_to(root / "boards/common")
    return place


@pytest.mark.parametrize("uart", UART_KINDS)
@pytest.mark.parametrize(
    ("target", "ticks"), [("cortex-m0", "systick"), ("cortex-m0", "timer_nrf"), ("cortex-m33", "dwt")]
)
def test_what_is_made_is_a_board(boards: Path, uart: str, target: str, ticks: str) -> None:
    made = board.make("my-board", ANSWERS | {"uart": uart, "target": target, "ticks": ticks}, boards)
    assert (made.name, made.target, made.clock_hz) == ("my-board", target, 16_000_000)
    assert made.flash is not None
    assert read_board(boards / "my-board/board.toml") == made


@pytest.mark.arm_gcc
def test_it_builds(root: Path, tmp_path: Path) -> None:
    """The board is built in a copy of the checkout, where it is one like all others."""
    copy = tmp_path / "checkout"
    for folder in ("boards", "glowembed", "runtime_c", "targets"):
        shutil.copytree(root / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(root / "SConstruct", copy)
    made = board.make("my-board", ANSWERS, copy / "boards")
    bundle = fake_bundle.write(tmp_path / "bundle", made.target)
    words = [f"bundle={bundle}", "board=my-board", f"build={tmp_path / 'build'}"]
    env = {**os.environ, "PYTHONPATH": str(copy)}
    done = subprocess.run(
        [sys.executable, "-m", "SCons", "-Q", "-f", str(copy / "SConstruct"), *words],
        cwd=tmp_path, env=env, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr + done.stdout
    assert (tmp_path / "build/firmware.elf").is_file()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"uart": "usb"}, "unknown uart 'usb'"),
        ({"target": "cortex-m5"}, "unknown target"),
        ({"ticks": "sun"}, "unknown ticks"),
        ({"flash_command": ["openocd"]}, "names no file"),
    ],
)
def test_answers_that_cannot_be(boards: Path, change: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        board.make("my-board", ANSWERS | change, boards)
    assert not (boards / "my-board").exists()


def test_the_command(boards: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["board", "new", "mine"]) == 0
    questions = tmp_path / "mine.toml"
    questions.write_text(capsys.readouterr().out)
    assert main(["board", "new", "mine", "--answers", str(questions), "--into", str(boards)]) == 0
    assert main(["board", "new", "mine", "--answers", str(questions), "--into", str(boards)]) == 2
    assert "exists already" in capsys.readouterr().err
    assert main(["board", "new", "Mine!", "--answers", str(questions), "--into", str(boards)]) == 2
    questions.write_text("nonsense = 1\n")
    assert main(["board", "new", "x", "--answers", str(questions), "--into", str(boards)]) == 2
    assert "unknown answer 'nonsense'" in capsys.readouterr().err


@pytest.mark.cc
@pytest.mark.arm_gcc
@pytest.mark.qemu
def test_boards_and_targets_of_the_user_lie_anywhere(
    tmp_path: Path, digits: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A target that inherits, a board that names it, a copy of an emulated board: from a folder that knows nothing of glowembed."""
    place = tmp_path / "my things"
    place.mkdir()
    monkeypatch.chdir(place)
    data = str(digits / "data.npz")
    own = 'name = "my-m4"\ndescription = "mine"\ninherits = "cortex-m4"\n'
    (place / "my-m4.toml").write_text(own)
    assert main(["compile", str(digits / "model.onnx"), "--data", data, "--target", "my-m4.toml", "-o", "net"]) == 0
    assert main(["validate", "net", "--data", data, "--samples", "1"]) == 2
    assert "unknown target 'my-m4'" in capsys.readouterr().err

    board.make("my-board", ANSWERS | {"target": "../../my-m4.toml"}, place / "boards")
    assert main(["build", "net", "--board", "boards/my-board"]) == 0
    copy = place / "boards" / "copied"
    shutil.copytree(resources.boards() / "mps2-an386", copy)
    for file in copy.iterdir():
        text = file.read_text().replace("../common/systick.c", "{common}/systick.c").replace("../common/", "")
        text = text.replace('name = "mps2-an386"', 'name = "copied"').replace('"cortex-m4"', '"../../my-m4.toml"')
        file.write_text(text)
    assert main(["validate", "net", "--board", "./boards/copied", "--data", data, "--samples", "1"]) == 0

    (place / "my-m4.toml").write_text(own + 'runs_on = "cortex-m4"\n')
    load_target.cache_clear()
    assert main(["compile", str(digits / "model.onnx"), "--data", data, "--target", "./my-m4.toml", "-o", "net"]) == 0
    assert main(["validate", "net", "--data", data, "--samples", "1"]) == 0
