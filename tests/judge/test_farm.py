"""Many boards at once: one table, and a board that is missing or hangs fails alone."""

from __future__ import annotations

import json
import shutil
import socket
from pathlib import Path

import pytest
from json_result import check_json

from glowembed import resources
from glowembed.__main__ import main
from glowembed.errors import UsageError
from glowembed.judge import regress
from glowembed.judge.farm import read


@pytest.mark.arm_gcc
@pytest.mark.qemu
@pytest.mark.cc
def test_a_farm(digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for target in ("cortex-m4", "x86-64"):
        words = ["compile", str(digits / "model.onnx"), "--data", str(digits / "data.npz"), "--target", target]
        words += ["--isa", "portable"] if target == "x86-64" else []
        assert main([*words, "-o", str(tmp_path / target)]) == 0
    with socket.create_server(("127.0.0.1", 0)) as silent:
        farm = tmp_path / "farm.yaml"
        farm.write_text(f"""boards:
  - {{board: mps2-an386}}
  - {{board: host, bundle: x86-64}}
  - {{name: missing, board: mps2-an386, port: /dev/ttyNONE}}
  - {{name: silent, board: mps2-an386, port: "socket://127.0.0.1:{silent.getsockname()[1]}"}}
  - {{name: hangs, board: mps2-an386, timeout: 0.2}}
""")
        capsys.readouterr()
        words = ["validate", str(tmp_path / "cortex-m4"), "--data", str(digits / "data.npz"), "--samples", "3"]
        assert main([*words, "--boards", str(farm), "--json", str(tmp_path / "r.json")]) == 1
    found = json.loads((tmp_path / "r.json").read_text())
    check_json("validate-boards", found)
    rows = {row["name"]: row for row in found["boards"]}
    assert [rows[name]["result"]["bit_exact"] for name in ("mps2-an386", "host")] == [True, True]
    assert rows["host"]["result"]["transport"] == "serial"
    assert "glowembed ports" in rows["missing"]["error"]
    assert "no answer within" in rows["silent"]["error"]
    assert rows["hangs"]["error"] == "did not end within 0.2 s"
    said = capsys.readouterr().out
    assert "missing: " in said
    assert said.count("did not run") == 3
    assert "hangs: did not end" in said


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("boards: []", "expected 'boards:'"),
        ("- 1", "expected 'boards:'"),
        ("boards: [{port: x}]", "has no 'board'"),
        ("boards: [{board: mps2}]", "unknown board 'mps2'"),
        ("boards: [{board: host, pot: x}]", "unknown key in"),
        ("boards: [{board: host}, {board: host}]", "host occurs twice"),
        ("boards: [{board: host, baud: fast}]", "invalid literal"),
        ("boards: [{board: host, count: 0}]", "expected a number of boards"),
        ("boards: [{name: a b, board: host}, {name: a/b, board: host}]", "a_b occurs twice"),
        ("{", "cannot be read as YAML"),
    ],
)
def test_farms_that_are_none(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "farm.yaml").write_text(text)
    with pytest.raises(UsageError, match=words):
        read(tmp_path / "farm.yaml", tmp_path, tmp_path)


def test_options_of_one_board_are_refused_and_the_others_passed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "farm.yaml").write_text("boards: [{board: host}]")
    words = ["validate", "bundle", "--data", "d.npz", "--boards", str(tmp_path / "farm.yaml")]
    assert main([*words, "--board", "host", "--html", "page.html"]) == 2
    assert "--board and --html: are for one board" in capsys.readouterr().err
    passed: list[str] = []
    monkeypatch.setattr("glowembed.judge.farm.run", lambda places, more: passed.extend(more) or [])
    assert main([*words, "--samples", "3", "--layers", "--image-mean", "0.5"]) == 0
    assert passed == ["--samples", "3", "--image-mean", "0.5", "--layers"]


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("board: mps2-an386, port: /dev/ttyACM0", "has no .flash."),
        ("board: mps2-an386, bundle: b", "are for validate"),
        ("board: host", "none of the boards has one of the targets cortex-m4"),
    ],
)
def test_boards_that_regress_cannot_use(tmp_path: Path, digits: Path, entry: str, words: str) -> None:
    (tmp_path / "farm.yaml").write_text(f"boards: [{{{entry}}}]")
    with pytest.raises(UsageError, match=words):
        regress.jobs([(digits / "model.onnx", digits / "data.npz")], ["cortex-m4"], places=read(tmp_path / "farm.yaml"))


def test_a_farm_is_run_on_the_targets_of_its_boards(tmp_path: Path, digits: Path) -> None:
    (tmp_path / "own.toml").write_text(
        'name = "own"\ninherits = "cortex-m4"\ndescription = "ours"\nruns_on = "cortex-m4"\n'
    )
    shutil.copytree(resources.boards() / "mps2-an386", tmp_path / "bench")
    toml = (
        (tmp_path / "bench/board.toml").read_text().replace("mps2-an386", "bench", 1).replace("../common", "{common}")
    )
    (tmp_path / "bench/board.toml").write_text(toml.replace('"cortex-m4"', '"../own.toml"'))
    (tmp_path / "farm.yaml").write_text(f"boards: [{{board: host}}, {{board: {tmp_path}/bench}}]")
    pairs, places = [(digits / "model.onnx", digits / "data.npz")], read(tmp_path / "farm.yaml")
    cells = regress.jobs(pairs, (), places=places)
    assert [(cell.target, cell.board) for cell in cells] == [("x86-64", "host"), ("own", "bench")]
    assert [cell.core for cell in cells] == ["x86-64", f"{tmp_path}/own.toml"]
    assert [cell.board for cell in regress.jobs(pairs, ["own"], places=places)] == ["bench"]
