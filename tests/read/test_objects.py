"""Models and samples that are objects of a Python program: the bundle is that of the files, and what is wrong is named."""

import importlib.util
from pathlib import Path

import numpy as np
import onnx
import pytest
from checkout import ROOT

import glowembed
from glowembed.errors import UsageError
from glowembed.read.objects import model_file

DIGITS = ROOT / "examples" / "digits"
OPTIONS = glowembed.CompileOptions(target="x86-64", name="digits", isa="portable")


@pytest.fixture(scope="module")
def data() -> dict[str, np.ndarray]:
    with np.load(DIGITS / "data.npz") as archive:
        return dict(archive)


def files(bundle: glowembed.Bundle) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in bundle.path.glob("*.[ch]")}


def test_a_model_proto_and_arrays_give_the_bundle_of_the_files(tmp_path: Path, data: dict[str, np.ndarray]) -> None:
    by_path = glowembed.compile_model(DIGITS / "model.onnx", tmp_path / "a", OPTIONS, DIGITS / "data.npz")
    proto = onnx.load(DIGITS / "model.onnx")
    by_object = glowembed.compile_model(proto, tmp_path / "b", OPTIONS, data)
    named = {name: text.replace(b"digits.onnx", b"model.onnx") for name, text in files(by_object).items()}
    assert files(by_path) == named
    assert by_object.model_path == tmp_path / "b.build" / "digits.onnx"


def test_one_array_is_the_samples_of_the_only_input(tmp_path: Path, data: dict[str, np.ndarray]) -> None:
    real = (data["calib_x"].astype(np.float32) - data["x_zero"]) * data["x_scale"]
    bundle = glowembed.compile_model(DIGITS / "model.onnx", tmp_path / "a", OPTIONS, real)
    assert bundle.manifest["inputs"][0]["dtype"] == "int8"


@pytest.mark.cc
def test_validation_takes_arrays_and_the_file_of_the_object(tmp_path: Path, data: dict[str, np.ndarray]) -> None:
    bundle = glowembed.compile_model(onnx.load(DIGITS / "model.onnx"), tmp_path / "b", OPTIONS, data)
    few = {name: array[:20] if name.startswith("test_") else array for name, array in data.items()}
    found = glowembed.validate(bundle, few, "host")
    assert found.bit_exact
    assert found.json["samples"] == 20


@pytest.mark.cc
def test_loading_twice_compiles_once(
    tmp_path: Path, data: dict[str, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = glowembed.compile_model(DIGITS / "model.onnx", tmp_path / "b", OPTIONS, data)
    sample = data["test_x"][:1].astype(np.float32)
    first = glowembed.load(bundle.path)(sample)
    import subprocess

    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("the compiler ran again"))
    second = glowembed.load(bundle.path)(sample)
    assert all(np.array_equal(first[name], second[name]) for name in first)


def test_a_notebook_shows_a_table_with_escaped_names(tmp_path: Path, data: dict[str, np.ndarray]) -> None:
    model = onnx.load(DIGITS / "model.onnx")
    model.graph.output[0].name = model.graph.node[-1].output[0] = "a<b>&c"
    html = glowembed.compile_model(model, tmp_path / "b", OPTIONS, data)._repr_html_()
    assert "a&lt;b&gt;&amp;c" in html
    assert "<b>" not in html
    assert "RAM (arena)" in html


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        ({"calib_x": [["a"]]}, "must hold numbers"),
        ({"calib_x": [[1, 2], [3]]}, "is no array of numbers"),
        ({"calib_z": np.zeros((2, 1, 8, 8)), "other": np.zeros(3)}, "the arrays: has no array 'calib_x'"),
        ({}, "has no array"),
        (np.zeros((4, 3, 5)), "the arrays: "),
        (np.full((4, 1, 8, 8), np.nan), "the arrays: "),
    ],
)
def test_wrong_samples_are_refused_by_name(tmp_path: Path, samples: object, expected: str) -> None:
    with pytest.raises(UsageError, match=expected):
        glowembed.compile_model(DIGITS / "model.onnx", tmp_path / "b", OPTIONS, samples)  # type: ignore[arg-type]
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize("model", [3, None, b"onnx", onnx.TensorProto()])
def test_other_objects_are_refused(tmp_path: Path, model: object) -> None:
    with pytest.raises(UsageError, match="a model is a path, an onnx ModelProto"):
        model_file(model, tmp_path / "x", None, {}, lambda names: None)
    assert not (tmp_path / "x").exists()


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch, which the set-up does not install")
def test_a_torch_module(tmp_path: Path) -> None:
    import torch

    net = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(144, 3))
    net.train()
    samples = np.random.default_rng(1).standard_normal((8, 1, 8, 8)).astype(np.float32)
    bundle = glowembed.compile_model(net, tmp_path / "b", glowembed.CompileOptions(target="x86-64"), samples)
    assert net.training
    assert bundle.manifest["name"] == "Sequential"
    assert glowembed.validate(bundle, samples, "host").bit_exact
    with pytest.raises(UsageError, match="its export needs an example of each input"):
        glowembed.compile_model(net, tmp_path / "c")
