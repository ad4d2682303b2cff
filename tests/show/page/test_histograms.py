"""Histograms are well-formed, there is one for each activation, and they show the clipped share."""

import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from glowembed.__main__ import main
from glowembed.graph.ir import Const, Graph, QType, Value
from glowembed.ranges.profile import Profile
from glowembed.ranges.record import ValueProfile, observe
from glowembed.show.page import histograms


def page(x: np.ndarray, qtype: QType | None, **edits: object) -> str:
    values = {
        "a<b>&'": Value("a<b>&'", (1, 3), qtype=qtype),
        "w": Value("w", (3,), const=Const(np.ones(3, np.float32))),
    }
    seen = {"a<b>&'": replace(observe(x.astype(np.float32)), **edits), "w": ValueProfile(1.0, 1.0)}
    return "".join(histograms.drawings(Profile("ab", 7, seen), Graph("net", (), values, (), ())))


def test_they_are_well_formed_and_draws_each_activation_once() -> None:
    text = page(np.random.default_rng(1).normal(size=(50, 3)), QType("int8", (0.05,), (3,)))
    tree = ElementTree.fromstring(f"<main>{text}</main>")
    assert [(h.text or "").split(":")[0] for h in tree.iter("figcaption")] == ["a<b>&'"]
    assert len(list(tree.iter("svg"))) == 1
    assert 20 < len(list(tree.iter("rect"))) <= histograms.BARS + 1
    assert "7 samples" in text


def test_what_is_clipped_is_told_and_red() -> None:
    x = np.concatenate([np.linspace(0, 1, 900), np.linspace(3, 4, 100)])[:, None]
    text = page(x, QType("int8", (2 / 255,), (-128,)))  # holds 0..2
    assert "10 % clipped" in text
    assert "int8, scale 0.00784314, zero point -128: 0 to 2" in text
    assert 'class="clipped"' in text
    whole = page(x, QType("int8", (4 / 255,), (-128,)))
    assert "% clipped" not in whole
    assert 'class="clipped"' not in whole


@pytest.mark.parametrize("x", [np.zeros((4, 1)), np.full((4, 1), -3.0), np.full((4, 1), 1e-30), np.full((4, 1), 1e30)])
def test_single_numbers_are_drawn(x: np.ndarray) -> None:
    for qtype in (None, QType("int8", (0.1,), (0,))):
        assert "nan" not in page(x, qtype)
    assert "stays float32" in page(x, None)
    assert "edited by hand" in page(x, None, edited=True)


def test_the_command_line(digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, data = str(digits / "model.onnx"), str(digits / "data.npz")
    one, two, both = (str(tmp_path / f"{name}.yaml") for name in ("one", "two", "both"))
    assert main(["profile", model, "--data", data, "--calib-samples", "3", "-o", one]) == 0
    assert main(["profile", model, "--data", data, "--calib-samples", "2", "-o", two]) == 0
    page = tmp_path / "page.html"
    words = ["profile", model, "--merge", one, "--merge", two, "-o", both, "--plot", str(page)]
    assert main([*words, "--calibration", "kl", "--schema", "symmetric"]) == 0
    assert "over 5 samples" in capsys.readouterr().out
    assert len(re.findall("zero point 0:", page.read_text(encoding="utf-8"))) > 5
    assert main(["profile", model, "--merge", one]) == 2
    assert main(["profile", model, "-o", both]) == 2
    assert "--merge" in capsys.readouterr().err
