"""Limits: which figure is compared with which bound, the text of the message, and the exit code of `validate`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from glowembed.__main__ import main
from glowembed.errors import LimitExceeded, UsageError
from glowembed.judge.limits import FIGURES, exceeded, require

RESULT: dict[str, Any] = {
    "accuracy": {"metric": "top1", "float": 0.95, "quantized": 0.9375},
    "cycles_measured": None,
    "cycles_estimate": 123_456,
    "memory": {"arena": 1000, "stack": 200, "weights": 3000, "code": 2000, "rodata": 40},
}
MANIFEST: dict[str, Any] = {"rams": [{"name": "DTCM", "size": 24}]}

BOUNDS = {
    "min_accuracy": (0.9375, 0.94, "accuracy of 0.9375 is below --min-accuracy 0.9400"),
    "max_drop": (0.0126, 0.012, "loss of accuracy against float of 0.0125 is above --max-drop 0.0120"),
    "max_cycles": (123_456, 123_455, "cycles per inference of 123,456 is above --max-cycles 123,455"),
    "max_ram": (1224, 1223, "RAM of arena and stack of 1,224 bytes is above --max-ram 1,223"),
    "max_flash": (5040, 5039, "flash of weights, code and constants of 5,040 bytes is above --max-flash 5,039"),
}
"""name -> a bound that holds, one that does not, and what is said then."""


def test_every_figure_has_bounds() -> None:
    assert set(BOUNDS) == set(FIGURES)


@pytest.mark.parametrize("name", BOUNDS)
def test_a_bound_is_where_it_is(name: str) -> None:
    holds, fails, said = BOUNDS[name]
    assert exceeded(RESULT, MANIFEST, {name: holds}) == []
    assert exceeded(RESULT, MANIFEST, {name: None}) == []
    (found,) = exceeded(RESULT, MANIFEST, {name: fails})
    assert said in found
    assert found.endswith(FIGURES[name].advice)


def test_measured_cycles_count_before_estimated_ones() -> None:
    assert exceeded({**RESULT, "cycles_measured": 200_000}, MANIFEST, {"max_cycles": 150_000})


def test_an_error_of_targets_is_no_accuracy() -> None:
    """The drop of an error is what it grows by."""
    targets = {**RESULT, "accuracy": {"metric": "rmse", "float": 0.5, "quantized": 0.75}}
    assert exceeded(targets, MANIFEST, {"max_drop": 0.25}) == []
    assert exceeded(targets, MANIFEST, {"max_drop": 0.24})
    with pytest.raises(UsageError, match="--min-accuracy cannot be checked"):
        exceeded(targets, MANIFEST, {"min_accuracy": 0.1})


@pytest.mark.parametrize(("name", "key"), [("min_accuracy", "accuracy"), ("max_drop", "accuracy"), ("max_cycles", "cycles_estimate")])  # fmt: skip
def test_a_figure_that_is_not_known_is_no_success(name: str, key: str) -> None:
    with pytest.raises(UsageError, match="cannot be checked"):
        exceeded({**RESULT, key: None}, MANIFEST, {name: 1})


def test_all_limits_are_told_at_once() -> None:
    with pytest.raises(LimitExceeded) as caught:
        require(RESULT, MANIFEST, {"max_ram": 1, "max_flash": 1})
    assert len(str(caught.value).splitlines()) == 2


@pytest.mark.cc
def test_validate_ends_with_the_code_of_a_limit(
    digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = str(digits / "data.npz")
    words = [str(digits / "model.onnx"), "--data", data, "--target", "generic", "-o", str(tmp_path / "net")]
    assert main(["compile", *words]) == 0
    check = ["validate", str(tmp_path / "net"), "--board", "host", "--data", data, "--samples", "40"]
    assert main([*check, "--min-accuracy", "0.9", "--max-drop", "0.05", "--max-flash", "1000000"]) == 0
    capsys.readouterr()
    assert main([*check, "--max-flash", "1K", "--max-ram", "100"]) == 5
    said = capsys.readouterr().err
    assert "above --max-flash 1,024" in said
    assert "above --max-ram 100" in said
    assert main([*check, "--max-cycles", "5"]) == 2  # the host has none
    assert main([*check, "--boards", "farm.yaml", "--max-drop", "0"]) == 2
