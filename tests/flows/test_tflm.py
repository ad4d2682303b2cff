"""Whole networks give the bits of TensorFlow Lite Micro, whose outputs are stored beside the shared models."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from compiled_models import level_here

from glowembed.judge.validation import validate
from glowembed.pipeline import Bundle, CompileOptions, compile_model
from glowembed.ranges.datasets import Dataset
from glowembed.reference import run_int

NETS = {"kws": 880, "ad01": 125, "resnet8": 16}
"""Samples that are compared. All 400 of resnet8 are equal too; that takes a minute."""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory):
    made: dict[tuple[Path, str], Bundle] = {}

    def get(folder: Path, requantization: str | None, model: str = "model_tflite_qdq.onnx") -> Bundle:
        key = (folder / model, str(requantization))
        if key not in made:
            options = CompileOptions("x86-64", requantization=requantization, levels=level_here())
            made[key] = compile_model(key[0], tmp_path_factory.mktemp("tflm") / "bundle", options)
        return made[key]

    return get


def stored_inputs(data: dict[str, np.ndarray]) -> np.ndarray:
    """The int8 inputs that TensorFlow Lite Micro was given."""
    real = (data["test_x"].astype(np.float32) - data["x_zero"]) * data["x_scale"]
    return np.clip(np.round(real / data["tflite_in_scale"]) + data["tflite_in_zero"], -128, 127).astype(np.int8)


def differences(bundle: Bundle, folder: Path, samples: int) -> np.ndarray:
    with np.load(folder / "data.npz") as archive:
        data = dict(archive)
    (x,), (y,) = bundle.graph.inputs, bundle.graph.outputs
    shape = bundle.graph.values[x].shape
    found = [run_int(bundle.graph, {x: q.reshape(shape)})[y].reshape(-1) for q in stored_inputs(data)[:samples]]
    return np.abs(np.stack(found).astype(int) - data["tflm_int8_q"][:samples].reshape(samples, -1))


@pytest.mark.shared
@pytest.mark.parametrize("name", NETS)
def test_every_stored_output_is_met(name: str, compiled, shared_models: Path) -> None:
    assert differences(compiled(shared_models / name, "tflite"), shared_models / name, NETS[name]).max() == 0


@pytest.mark.shared
@pytest.mark.parametrize("name", NETS)
def test_the_tflite_file_itself_gives_them_by_default(name: str, compiled, shared_models: Path) -> None:
    folder, samples = shared_models / name, {**NETS, "kws": 100}[name]
    assert differences(compiled(folder, None, "ref_int8.tflite"), folder, samples).max() == 0


@pytest.mark.shared
def test_it_takes_the_law(compiled, shared_models: Path) -> None:
    """With one rounding, outputs after a softmax differ, so the test above would fail."""
    assert differences(compiled(shared_models / "resnet8", "default"), shared_models / "resnet8", 10).max() > 0


@pytest.mark.shared
@pytest.mark.cc
@pytest.mark.parametrize("requantization", ["tflite", "glow"])
@pytest.mark.parametrize("name", NETS)
def test_c_gives_the_same_bits(name: str, requantization: str, compiled, shared_models: Path) -> None:
    bundle = compiled(shared_models / name, requantization)
    with np.load(shared_models / name / "data.npz") as data:
        x = ((data["test_x"][:8].astype(np.float32) - data["x_zero"]) * data["x_scale"]).astype(np.float32)
    (input_name,) = bundle.graph.inputs
    value = bundle.graph.values[input_name]
    stored = Dataset({input_name: x.reshape(8, *value.shape[1:])}, shapes={input_name: value.shape})
    assert validate(bundle, stored, "host").bit_exact
