"""Files of other kinds that are given as a model: the error says what each is, and how it becomes ONNX."""

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
from small_models import model, node

from glowembed.errors import UsageError
from glowembed.read.onnxfile import read


def archive(*names: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        for name in names:
            made.writestr(name, b"content")
    return file.getvalue()


def npy() -> bytes:
    file = io.BytesIO()
    np.save(file, np.zeros(3))
    return file.getvalue()


OTHERS: dict[str, tuple[bytes, str]] = {
    "empty.onnx": (b"", "is empty"),
    "pointer.onnx": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "git lfs pull"),
    "pointer.tflite": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "git lfs pull"),
    "annex.onnx": (b"/annex/objects/SHA256E-s1--0.onnx\n", "git annex get"),
    "page.onnx": (b"\n<!DOCTYPE html>\n<html>", "is a web page"),
    "net.pt": (archive("net/data.pkl", "net/version"), "load_state_dict"),
    "script.pt": (archive("net/data.pkl", "net/constants.pkl", "net/code/net.py"), "torch.jit.load"),
    "program.pt2": (archive("program/models/model.json"), "torch.export.load"),
    "old.pth": (b"\x80\x02\x8a\nl\xfc", "is a Python pickle"),
    "net.keras": (archive("metadata.json", "config.json", "model.weights.h5"), "TFLiteConverter"),
    "net.h5": (b"\x89HDF\r\n\x1a\n\0", "TFLiteConverter"),
    "samples.npz": (archive("calib_x.npy"), "the model comes first"),
    "samples.npy": (npy(), "the model comes first"),
    "net.zip": (archive("net.onnx"), "unpack it"),
    "net.onnx.gz": (b"\x1f\x8b\x08\0", "unpack it"),
    "net.safetensors": (b"\x10\0\0\0\0\0\0\0{}", "without a network"),
    "net.gguf": (b"GGUF\x03\0\0\0", "GGUF"),
    "net.ort": (b"\x10\0\0\0ORTM", "onnxruntime's own format"),
    "net.pte": (b"\x10\0\0\0ET12", "ExecuTorch"),
    "net.engine": (b"anything", "TensorRT engine"),
    "net.mlmodel": (b"\x08\x04\x12\x03abc", "Core ML"),
    "saved_model.pb": (b"\x08\x01\x12\x14\n\x12saved_model_main_op", "SavedModel"),
    "graph.pb": (b"\n\x10\n\x01x\x12\x0bPlaceholder", "GraphDef"),
    "net.xml": (b"<?xml version='1.0'?><net/>", "OpenVINO"),
    "model.json": (b'{"format": "layers-model"}', "is JSON"),
    "image.png": (b"\x89PNG\r\n\x1a\n", "is a picture"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_it_is(name: str, tmp_path: Path) -> None:
    data, message = OTHERS[name]
    (tmp_path / name).write_bytes(data)
    with pytest.raises(UsageError, match=message) as caught:
        read(tmp_path / name)
    assert str(caught.value).startswith(f"{tmp_path / name}: ")


@pytest.mark.parametrize("suffix", [".onnx", ".pb", ".plan", ".tflite", ""])
def test_the_content_decides_and_not_the_name(suffix: str, tmp_path: Path) -> None:
    (tmp_path / f"net{suffix}").write_bytes(model([node("Relu", "x", "y")], {"x": (1, 8)}).SerializeToString())
    assert read(tmp_path / f"net{suffix}").model.graph.node[0].op_type == "Relu"


def test_folders(tmp_path: Path) -> None:
    for name, message in (
        ("saved_model.pb", "SavedModel"),
        ("bundle.json", "is a bundle"),
        ("net.onnx", "give the file in it"),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).write_bytes(b"")
        with pytest.raises(UsageError, match=message):
            read(tmp_path / name)
