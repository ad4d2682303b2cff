"""The two references: what they ask for, and how far the integers are from the floats on a whole network."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from small_models import model, node, saved, weights

from glowembed.canonicalize import canonicalize
from glowembed.errors import UsageError
from glowembed.importer import load
from glowembed.ir import Array, Graph
from glowembed.lower import lower
from glowembed.quantize import quantize
from glowembed.reference import run_float, run_int


def network(folder: Path) -> Graph:
    """Every kind of node that moves data, between layers with weights."""
    nodes = [
        node("Mul", "x k", "a"), node("Conv", "a w", "c"), node("Relu", "c", "r"), node("Transpose", "r", "t", perm=[0, 2, 1]),
        node("Softmax", "t", "u", axis=1), node("Flatten", "u", "f"), node("Tanh", "f", "y"),
    ]  # fmt: skip
    constants = {"k": weights(1, 3, 1), "w": weights(5, 3, 3)}
    return canonicalize(load(saved(model(nodes, {"x": (1, 3, 9)}, constants), folder)))


def ranges(runs: list[dict[str, Array]]) -> dict[str, tuple[float, float]]:
    return {n: (min(float(r[n].min()) for r in runs), max(float(r[n].max()) for r in runs)) for n in runs[0]}


def test_integers_follow_floats_through_a_network(tmp_path: Path) -> None:
    graph = network(tmp_path)
    samples = np.random.default_rng(1).uniform(-2, 3, (20, 1, 3, 9)).astype(np.float32)
    runs = [run_float(graph, {"x": sample}) for sample in samples]
    seen = ranges(runs)
    typed = quantize(graph, lambda name, _: seen[name])
    lowered = lower(typed)
    assert {"view", "copy_s8"} <= {n.op for n in lowered.nodes}
    for sample, floats in zip(samples, runs, strict=True):
        x, y = typed.values["x"].qtype, typed.values["y"].qtype
        assert x is not None
        assert y is not None
        stored = run_int(lowered, {"x": x.quantize(sample)})
        assert all(stored[n].shape == lowered.values[n].shape for node in lowered.nodes for n in node.outputs)
        assert np.abs(y.dequantize(stored["y"]) - floats["y"]).max() < 0.05


@pytest.mark.parametrize(
    ("inputs", "words"),
    [({}, "no data for the input 'x'; given: none"), ({"z": np.zeros(3)}, "given: z"), ({"x": np.zeros((1, 9, 3))}, r"\[1, 9, 3\].*\[1, 3, 9\]")],
)  # fmt: skip
def test_wrong_inputs_are_refused(inputs: dict[str, Array], words: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=words):
        run_float(network(tmp_path), inputs)
