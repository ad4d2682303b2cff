"""The two references: their inputs, and how far the integers are from the floats on a whole network."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checkout import ROOT
from small_models import model, node, saved, weights

import glowembed
from glowembed.canonicalize import canonicalize
from glowembed.errors import UsageError
from glowembed.graph.ir import Array, Graph
from glowembed.lower.nodes import lower
from glowembed.quantize.types import quantize
from glowembed.read.importer import load
from glowembed.reference import run_float, run_int, run_node


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
    assert {"view", "channels_last_s8"} <= {n.op for n in lowered.nodes}
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


def test_a_single_node_is_replayed(tmp_path: Path) -> None:
    """Each layer gives the same outputs for the same inputs when it runs alone; other data is accepted, other shapes
    are refused.
    """
    proto = model(
        [node("Conv", "x w", "c"), node("Relu", "c", "r"), node("Add", "r r", "y")],
        {"x": (1, 2, 5, 5)},
        {"w": weights(3, 2, 3, 3)},
    )
    graph = lower(quantize(canonicalize(load(saved(proto, tmp_path))), lambda *_: (-2.0, 2.0)))
    x = np.random.default_rng(1).integers(-128, 128, (1, 2, 5, 5)).astype(np.int8)
    known = run_int(graph, {"x": x})
    for n in graph.nodes:
        found = run_node(graph, n.name, *(known[name] for name in n.inputs))
        np.testing.assert_array_equal(found, known[n.outputs[0]])
    first = graph.nodes[0]
    assert run_node(graph, first.name, np.zeros_like(x)).shape == graph.values[first.outputs[0]].shape
    with pytest.raises(UsageError, match="unknown node 'none'"):
        run_node(graph, "none", x)
    with pytest.raises(UsageError, match="has 1 inputs"):
        run_node(graph, first.name, x, x)
    with pytest.raises(UsageError, match=r"reads 'x' as int8 of shape \[1, 2, 5, 5\], found float32 of shape \[1\]"):
        run_node(graph, first.name, np.zeros(1, np.float32))


def test_the_example_of_the_docs_replays_a_layer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The documented example runs unchanged, with paths as text; the layer's result is that in the whole network."""
    nodes = [
        node("Conv", "x w1", "conv1", node_name="conv1"), node("Relu", "conv1", "relu1"),
        node("Conv", "relu1 w2", "y", node_name="conv2"),
    ]  # fmt: skip
    monkeypatch.chdir(tmp_path)
    saved(model(nodes, {"x": (1, 3, 8, 8)}, {"w1": weights(4, 3, 3, 3), "w2": weights(5, 4, 3, 3)}), tmp_path)
    np.save("data.npy", np.random.default_rng(0).normal(size=(3, 3, 8, 8)).astype(np.float32))
    bundle = glowembed.compile_model("model.onnx", "net", glowembed.CompileOptions("x86-64"), data="data.npy")
    known = run_int(bundle.graph, {"x": np.random.default_rng(1).integers(-128, 128, (1, 3, 8, 8)).astype(np.int8)})
    np.savez("tensors.npz", **{f"board/{name}": array[None] for name, array in known.items()})
    text = (ROOT / "docs" / "quantization.md").read_text("utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    names: dict[str, Any] = {}
    exec(example, names)
    made = next(n.outputs[0] for n in bundle.graph.nodes if n.name == "conv2")
    assert np.array_equal(names["y"], known[made])
