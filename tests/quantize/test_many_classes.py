"""A softmax over many classes: a note says what int8 loses, and the rule that it names keeps it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from small_models import model, node, saved, weights

from glowembed.canonicalize import canonicalize
from glowembed.graph.ir import Graph
from glowembed.lower.nodes import lower
from glowembed.quantize.coverage import coarse_softmaxes
from glowembed.quantize.precision import Config, Rule, resolve
from glowembed.quantize.types import quantize
from glowembed.read.importer import load
from glowembed.reference import run_float, run_int

INT16 = (Rule("rule 1", kinds=("Softmax",), settings={"dtype": "int16"}),)


def classifier(classes: int, folder: Path) -> tuple[Graph, dict[str, np.ndarray], dict[str, np.ndarray]]:
    """The graph, a sample, and all that it computes in float: probabilities of a few per mille."""
    nodes = [node("Gemm", "x w", "l", transB=1), node("Softmax", "l", "p"), node("Reshape", "p s", "y")]
    constants = {"w": weights(classes, 32), "s": [1, classes, 1]}
    graph = canonicalize(load(saved(model(nodes, {"x": (1, 32)}, constants), folder)))
    sample = {"x": np.random.default_rng(1).uniform(-0.5, 0.5, (1, 32)).astype(np.float32)}
    return graph, sample, run_float(graph, sample)


def typed(graph: Graph, floats: dict[str, np.ndarray], rules: tuple[Rule, ...]) -> Graph:
    ranges = {name: (float(a.min()), float(a.max())) for name, a in floats.items()}
    return quantize(graph, lambda name, _: ranges[name], resolve(graph, Config(rules=rules)))


@pytest.mark.parametrize(
    ("classes", "rules", "notes"), [(256, (), 0), (257, (), 1), (1000, (), 1), (1000, INT16, 0)], ids=str
)
def test_what_is_too_coarse_is_said(classes: int, rules: tuple[Rule, ...], notes: int, tmp_path: Path) -> None:
    graph, _, floats = classifier(classes, tmp_path)
    found = list(coarse_softmaxes(typed(graph, floats, rules)))
    assert [note.code for note in found] == ["coarse-softmax"] * notes
    assert all(f"softmax over {classes} classes" in note.text and "n_p, dtype: int16" in note.text for note in found)


@pytest.mark.parametrize(("rules", "low", "high"), [((), 0.0, 10.0), (INT16, 25.0, 99.0)], ids=["int8", "int16"])
def test_the_rule_keeps_small_probabilities(rules: tuple[Rule, ...], low: float, high: float, tmp_path: Path) -> None:
    graph, sample, floats = classifier(1000, tmp_path)
    kernels = lower(typed(graph, floats, rules))
    x, y = kernels.values["x"].qtype, kernels.values["y"].qtype
    assert x is not None
    assert y is not None
    found = y.dequantize(run_int(kernels, {"x": x.quantize(sample["x"])})["y"])
    noise = ((found - floats["y"]).astype(np.float64) ** 2).sum()
    sqnr = 10 * np.log10((floats["y"].astype(np.float64) ** 2).sum() / noise)
    assert low <= sqnr <= high
