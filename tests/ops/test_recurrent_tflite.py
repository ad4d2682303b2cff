"""LSTM with the bits of TensorFlow Lite Micro: kernels against the reference, other laws, and forms that the law does not have.

tests/read/test_tflite_bits.py compares the reference with recorded outputs of TensorFlow Lite Micro.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernel_checker import check_kernels
from tflite_cases import recurrent
from tflite_files import T

from glowembed.canonicalize import canonicalize
from glowembed.graph.ir import Graph
from glowembed.law import tflite
from glowembed.lower.nodes import lower
from glowembed.quantize.precision import Config, resolve
from glowembed.quantize.types import quantize
from glowembed.read.importer import load
from glowembed.reference import run_float, run_int


def lowered(data: bytes, **settings: Any) -> tuple[Graph, Graph]:
    """The graph of a file, and that of its kernels."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lstm.tflite"
        path.write_bytes(data)
        graph = canonicalize(load(path))
    return graph, lower(quantize(graph, lambda name, _: (-1.0, 1.0), resolve(graph, Config(settings))))


def kernel_graph(data: bytes) -> Graph:
    """The one kernel-level node that computes a layer."""
    graph = lowered(data)[1]
    (node,) = (node for node in graph.nodes if node.op == "lstm_tflite_s8")
    return Graph("lstm", (node,), graph.values, node.inputs, node.outputs)


def small_graphs() -> list[Graph]:
    return [kernel_graph(recurrent(2, 2, 3, power)) for power in (-11, -14)]


def random_graph(chance: Any) -> Graph:
    size = lambda: chance.choice((1, 2, 3, 5, 8, 13, 20))  # noqa: E731
    hidden = chance.choice(((1 / 128, 0), (0.005, chance.randint(-60, 60))))
    options = {"TimeMajor": chance.random() < 0.5, "CellClip": chance.choice((0.0, 0.0, 12.0))}
    return kernel_graph(recurrent(size(), size(), size(), chance.randint(-15, -9), hidden, **options))


@pytest.mark.parametrize(
    "graph", [*small_graphs(), kernel_graph(recurrent(20, 9, 17, -9, CellClip=11.0, TimeMajor=True))]
)
def test_kernels(graph: Graph) -> None:
    assert check_kernels(graph.nodes[0], graph, np.random.default_rng(1))


def test_another_law_has_nearly_the_same_results() -> None:
    graph, micro = lowered(recurrent(6, 4, 3))
    own = lowered(recurrent(6, 4, 3), requantization="default")[1]
    x = np.random.default_rng(2).integers(-128, 128, graph.values["x"].shape)
    real = run_float(graph, {"x": ((x + 7) * np.float32(0.04)).astype(np.float32)})["y"]
    for one in (micro, own):
        found = one.values["y"].qtype.dequantize(run_int(one, {"x": x.astype(np.int8)})["y"]).reshape(real.shape)
        assert np.abs(found - real).max() <= 3 / 128


@pytest.mark.parametrize(
    "change",
    [{"power": -11, "hidden": (1 / 128, 0), "state": (1 / 64, 0)}, {"cell": 0.0005}, {"cell": 2.0**-16}],
    ids=["a state of another type", "a cell without a power of two", "a cell beyond the tables"],
)
def test_other_forms_are_computed_in_another_law(change: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def changed(name: str, shape: Any, dtype: str = "int8", scale: Any = None, *more: Any, **words: Any) -> T:
        new = {"h": change.get("state", (scale,))[0], "c": change.get("cell", scale)}.get(name, scale)
        return T(name, shape, dtype, new, *more, **words)

    monkeypatch.setitem(recurrent.__globals__, "T", changed)
    assert [node.op for node in lowered(recurrent(3, 2, 2))[1].nodes if node.macs] == ["recurrent_s8"]


def test_functions_of_gates_are_near_those_of_real_numbers() -> None:
    x, table = np.arange(-32768, 32768), tflite.gate_table().astype(np.int64)
    assert np.abs(tflite.gate_sigmoid(x, table) - 32768 / (1 + np.exp(-x / 4096))).max() < 1.3
    assert np.abs(tflite.gate_tanh(x, table, 3, 0) - 32768 * np.tanh(x / 4096)).max() < 2.5
