"""The float reference of a TensorFlow Lite file: LiteRT where it is installed, otherwise onnxruntime on the
translation; a note states which.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tflite_states
from tflite_cases import ODDS, SOFTMAX, X, unary

from glowembed import Source, compile_model
from glowembed.errors import ToolError
from glowembed.judge import compare, litert
from glowembed.judge.tune import integer_outputs
from glowembed.pipeline import CompileOptions, import_model
from glowembed.ranges import datasets
from glowembed.ranges.datasets import Dataset


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "soft.tflite"
    path.write_bytes(unary("SOFTMAX", SOFTMAX, y=ODDS, shape=(1, 10)))
    return path


def samples(model: Path, tmp_path: Path) -> Dataset:
    x = (np.arange(30).reshape(3, 10) * 7 % 23 / 5).astype(np.float32)
    np.savez(tmp_path / "data.npz", test_x=x)
    return datasets.load(
        tmp_path / "data.npz", datasets.input_specs(import_model(model, CompileOptions("x86-64"))), "test"
    )


class Interpreter:
    """A substitute for LiteRT's: its output is its input plus one, and its reference kernels lack the operator if `lacking`."""

    lacking = False
    resets = 0

    def __init__(self, path: str, experimental_op_resolver_type: str, num_threads: int) -> None:
        assert (Path(path).suffix, num_threads) == (".tflite", 1)
        if self.lacking and experimental_op_resolver_type == "reference":
            raise ValueError("Didn't find op for builtin opcode 'SOFTMAX'")
        self.x = np.zeros(0)

    def allocate_tensors(self) -> None: ...

    def invoke(self) -> None: ...

    def reset_all_variables(self) -> None:
        type(self).resets += 1

    def get_input_details(self) -> list[dict[str, Any]]:
        return [{"index": 4, "dtype": np.int8, "shape": np.array([1, 10])}]

    def get_output_details(self) -> list[dict[str, Any]]:
        return [{"index": 5}]

    def set_tensor(self, index: int, x: np.ndarray) -> None:
        assert (index, x.dtype) == (4, np.int8)
        self.x = x

    def get_tensor(self, index: int) -> np.ndarray:
        assert index == 5
        return self.x + np.int8(1)


@pytest.mark.parametrize("lacking", [False, True])
def test_litert_is_taken_where_it_is_installed(
    lacking: bool, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds = SimpleNamespace(BUILTIN_REF="reference", BUILTIN_WITHOUT_DEFAULT_DELEGATES="others")
    package = ModuleType("ai_edge_litert.interpreter")
    kind = type("Interpreter", (Interpreter,), {"lacking": lacking})
    vars(package).update(Interpreter=kind, OpResolverType=kinds)
    monkeypatch.setitem(sys.modules, "ai_edge_litert.interpreter", package)
    monkeypatch.setitem(sys.modules, "ai_edge_litert", ModuleType("ai_edge_litert"))
    monkeypatch.setattr(litert, "is_installed", lambda: True)
    data = samples(model, tmp_path)
    found = compare.run_float_model(model, data)["y"]
    stored = np.clip(np.rint(data.inputs["x"].reshape(3, 10) / np.float32(X[0])) + X[1], -128, 127).astype(np.int8)
    assert found.tolist() == (stored + np.int8(1)).tolist()
    assert vars(kind)["resets"] == 3
    assert "LiteRT, with its reference kernels" in str(*compare.reference_notes(model))


def test_onnxruntime_runs_the_translation_otherwise(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(litert, "is_installed", lambda: False)
    found = compare.run_float_model(model, samples(model, tmp_path))["y"]
    assert (found.shape, found.dtype) == ((3, 10), np.int8)
    assert np.abs((found.astype(int) + 128).sum(axis=1) - 256).max() <= 5
    assert "onnxruntime on soft.tflite as translated to ONNX" in str(*compare.reference_notes(model))


def test_an_error_of_litert_names_the_file(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: Path) -> Any:
        raise RuntimeError("failed to invoke\nmore")

    monkeypatch.setattr(litert, "_interpreter", fail)
    with pytest.raises(ToolError, match=r"LiteRT cannot run .*soft\.tflite: failed to invoke$"):
        litert.run(model, samples(model, tmp_path))


def test_an_onnx_file_needs_no_note(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"\x08\x09")
    assert not list(compare.reference_notes(path))


def test_litert_keeps_the_variables_of_a_network_through_a_sequence(tmp_path: Path) -> None:
    """The real package, if it is installed: the outputs of a stream are those of the integer reference, bit for bit."""
    pytest.importorskip("ai_edge_litert")
    path = tmp_path / "ring.tflite"
    path.write_bytes(tflite_states.FILES["streaming"])
    bundle = compile_model(path, tmp_path / "ring", CompileOptions("x86-64", random=8))
    data = datasets.of_graph(Source(random=12), bundle.graph, "test")
    assert data.states
    found = compare.run_float_model(path, data)
    assert list(found) == ["y"]
    assert len(np.unique(found["y"])) > 12
    stored = datasets.integers(bundle.graph, "y")
    assert stored is not None
    real = stored.from_model(found["y"])
    assert real.tolist() == integer_outputs(bundle.graph, data)["y"].reshape(real.shape).tolist()
