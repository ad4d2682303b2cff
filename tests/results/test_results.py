"""The output of every command with --json has exactly the fields of docs/schemas."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import onnx
import pytest
from json_result import check_json
from jsonschema import ValidationError
from small_models import model, node, saved

from glowembed.__main__ import main
from glowembed.commands import board
from glowembed.results import RESULTS

ELSEWHERE = {
    "validate": "tests/commands/test_cli.py",
    "validate-boards": "tests/judge/test_farm.py",
    "regress": "tests/image/test_build.py",
    "results": "tests/judge/test_history.py",
    "debug": "tests/judge/test_debugging.py",
    "detect": "tests/judge/test_detection.py",
    "demo": "tests/commands/test_cli.py",
    "doctor": "tests/judge/test_doctor.py",
    "try": "tests/judge/test_trial.py",
    "measure": "tests/measure/test_measure.py",
    "flash": "tests/run/test_ports.py",
    "tune": "tests/judge/test_tune.py",
}
"""Results that are checked where they are made, because making them takes long."""


def unsupported() -> onnx.ModelProto:
    """A model that is refused, with a reason that is listed."""
    return model([node("RandomNormalLike", "x", "y")], {"x": (1, 4)}, {})


COMMANDS = {
    "targets": "targets",
    "boards": "boards",
    "docs": "docs",
    "compile": "compile MODEL --data DATA --target x86-64 --optimize ram -o NEW",
    "inspect": "inspect MODEL --target x86-64 --coverage",
    "inspect refused": "inspect REFUSED --coverage",
    "inspect-memory": "inspect BUNDLE --memory",
    "inspect-quantization": "inspect BUNDLE --quantization",
    "precision": "precision MODEL",
    "build": "build BUNDLE --board host",
    "combine": "combine BUNDLE OTHER --name both -o NEW",
    "export": "export BUNDLE --as cmake -o NEW",
    "ports": "ports socket://127.0.0.1:1",
    "profile": "profile MODEL --data DATA --calib-samples 8",
    "board-new": "board new mine --answers ANSWERS --into PLACE",
}


@pytest.fixture(scope="module")
def folder(digits: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two bundles of the included example, and a model that is refused."""
    made = tmp_path_factory.mktemp("results")
    for name in ("BUNDLE", "OTHER"):
        words = [
            "compile",
            digits / "model.onnx",
            "--data",
            digits / "data.npz",
            "--target",
            "x86-64",
            "--isa",
            "portable",
            "--name",
            name.lower(),
        ]
        assert main([str(word) for word in (*words, "-o", made / name)]) == 0
    saved(unsupported(), made).rename(made / "REFUSED")
    return made


@pytest.mark.cc
@pytest.mark.parametrize("case", COMMANDS)
def test_a_result_follows_its_schema(
    case: str, folder: Path, digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    places = {name: folder / name for name in ("BUNDLE", "OTHER", "REFUSED")}
    places |= {"MODEL": digits / "model.onnx", "DATA": digits / "data.npz", "NEW": tmp_path / "new", "PLACE": tmp_path}
    places["ANSWERS"] = tmp_path / "answers.toml"
    places["ANSWERS"].write_text(board.QUESTIONS)
    capsys.readouterr()
    words = f"{COMMANDS[case]} --json -"
    code = main([str(places.get(word, word)) for word in words.split()])
    said = capsys.readouterr()
    assert code == {"inspect refused": 3, "ports": 2}.get(case, 0), said.err
    check_json(case.partition(" ")[0], json.loads(said.out))


def test_every_result_is_checked() -> None:
    assert {case.partition(" ")[0] for case in COMMANDS} | set(ELSEWHERE) == set(RESULTS)


@pytest.mark.parametrize("wrong", [{"name": 1}, {"board": None}, {"more": ""}])
def test_a_schema_is_strict(wrong: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["targets", "--json", "-"]) == 0
    found = json.loads(capsys.readouterr().out)
    with pytest.raises(ValidationError):
        check_json("targets", [*found, {**found[0], **wrong}])
