"""Networks with a memory in TensorFlow Lite files: the state after a run is an output, and an input of the next run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tflite_files import T, tflite_file
from tflite_states import FILES, inputs, lstm, streaming

from glowembed.errors import UnsupportedModelError
from glowembed.pipeline import CompileOptions, compile_model
from glowembed.read.importer import load
from glowembed.reference import run_float, run_int

FOUND = {
    "streaming": [[-50.0, -61.0], [17.0, 31.0], [52.0, -20.0], [-128.0, 127.0]],
    "svdf": [
        [1.54854, 0.0, 0.992156, 0.18884, 0.015848, 0.503252],
        [2.811497, 0.0, 1.083183, 0.050288, 0.0, 1.190338],
        [3.501688, 0.0, 1.35147, 0.0, 0.0, 0.760799],
        [4.032041, 0.0, 0.60214, 0.0, 0.0, 0.0],
    ],
    "svdf of rank 2": [[1.717045, 0.0, 0.7591], [3.027343, 0.0, 1.149428], [3.655069, 0.0, 0.0], [4.341236, 0.0, 0.0]],
    "lstm": [[0.005071, 0.026985, -0.040872, 0.099095, -0.078638, 0.062724]],
    "lstm, time first": [[0.005071, 0.026985, -0.040872, 0.099095, -0.078638, 0.062724]],
}
"""The outputs of LiteRT 2.3.0 (tests/helpers/tflite_states.py)."""


@pytest.mark.parametrize("name", [name for name in FILES if name != "streaming"])
def test_float(name: str, tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(FILES[name])
    graph = load(path)
    pairs = list(zip(graph.inputs[1:], graph.outputs[1:], strict=True))
    kept = {before: np.zeros(graph.values[before].shape, np.float32) for before, _ in pairs}
    for x, y in zip(inputs(name, graph.values["x"].shape), FOUND[name], strict=True):
        made = run_float(graph, {"x": x, **kept})
        np.testing.assert_allclose(made["y"].reshape(-1), y, atol=2e-6)
        kept = {before: made[after] for before, after in pairs}


def test_variables_are_pairs_and_the_bits_are_those_of_litert(tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(streaming())
    bundle = compile_model(path, tmp_path / "bundle", CompileOptions("cortex-m4"))
    graph = bundle.graph
    assert (graph.inputs, graph.outputs) == (("x", "old"), ("y", "kept"))
    (note,) = bundle.notes
    assert str(note) == "'old' is the 'kept' of the run before, which the bundle keeps"
    assert bundle.manifest["state"]["size"] == 12
    old = np.full((1, 3, 4), 3, np.int8)
    for x, y in zip(inputs("streaming", (1, 1, 4)), FOUND["streaming"], strict=True):
        made = run_int(graph, {"x": x, "old": old})
        assert made["y"].reshape(-1).tolist() == y
        old = made["kept"]


def test_a_clip_of_the_cell_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(lstm(CellClip=1.0))
    with pytest.raises(UnsupportedModelError, match="UNIDIRECTIONAL_SEQUENCE_LSTM 'y': a clip of the cell at 1"):
        load(path)


@pytest.mark.parametrize("kind", ["CONV_2D", "FULLY_CONNECTED"])
def test_int16_is_within_a_step(kind: str, tmp_path: Path) -> None:
    """Activations of int16 with weights of int8 keep the types of the file; the law is our own."""
    w = ((np.arange(5 * 24) * 37) % 255 - 127).reshape((5, 24) if kind[0] == "F" else (5, 2, 3, 4))
    shape = (1, 24) if kind[0] == "F" else (1, 2, 3, 4)
    out = (1, 5) if kind[0] == "F" else (1, 1, 1, 5)
    tensors = [
        T("x", shape, "int16", 1e-3), T("w", w.shape, "int8", [0.01, 0.02, 0.03, 0.04, 0.05], [0] * 5, data=w),
        T("b", (5,), "int64", [1e-5, 2e-5, 3e-5, 4e-5, 5e-5], [0] * 5, data=[1000, -20000, 3, 400000, 5]), T("y", out, "int16", 4e-3),
    ]  # fmt: skip
    table = ("FullyConnected", {}) if kind[0] == "F" else ("Conv2D", {"Padding": 1, "StrideH": 1, "StrideW": 1})
    path = tmp_path / "model.tflite"
    path.write_bytes(tflite_file(tensors, [(kind, "x w b", "y", table)], "x", "y"))
    graph = compile_model(path, tmp_path / "b", CompileOptions("x86-64")).graph
    assert [graph.values[name].qtype.dtype for name in "xy"] == ["int16", "int16"]
    assert [graph.values[name].model_dtype for name in "xy"] == ["int16", "int16"]
    x = ((np.arange(24) * 7919) % 65536 - 32768).astype(np.int16).reshape(shape)
    sums = w.reshape(5, -1).astype(np.int64) @ x.reshape(-1).astype(np.int64) + [1000, -20000, 3, 400000, 5]
    real = sums * np.arange(1, 6) * 1e-5 / 4e-3
    found = run_int(graph, {"x": x.reshape(graph.values["x"].shape)})["y"].reshape(-1)
    np.testing.assert_allclose(found, np.clip(real, -32768, 32767), atol=1.0)
