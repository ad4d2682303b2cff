"""Recognizes files that people give instead of an ONNX or TensorFlow Lite model. In: the bytes of a file and the suffix
of its name. Out: what the file is, and how it becomes a model that can be read.

Only the first bytes, the names in a zip archive and the suffix are looked at; nothing is unpacked or unpickled.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Sequence

from glowembed.files.source import WEB_PAGE, is_web_page

TO_ONNX = 'torch.onnx.export(net, example_input, "net.onnx") (docs/guides/from-pytorch.md)'
TO_TFLITE = "convert it with tf.lite.TFLiteConverter to a .tflite file (docs/guides/from-tensorflow-lite.md)"
SAVED_NET = f"load it in Python with what saved it; weights alone go into their network with net.load_state_dict; then {TO_ONNX}"
TAKE_SOURCE = "take the ONNX file that it was made from"
EXPORT_PICKLE = (
    "load it in Python; a torch network is exported with torch.onnx.export (docs/guides/from-pytorch.md), "
    "a scikit-learn model with skl2onnx.to_onnx (docs/guides/from-scikit-learn.md)"
)

Test = Callable[[bytes, str, Sequence[str]], bool]
"""Whether a file is of a kind: from its bytes, its suffix, and the names in it if it is a zip archive."""


def _begins(*magic: bytes, at: int = 0) -> Test:
    return lambda data, suffix, names: any(data.startswith(m, at) for m in magic)


def _called(*suffixes: str) -> Test:
    return lambda data, suffix, names: suffix in suffixes


def _holds(*ends: str) -> Test:
    """An archive with a file whose name ends so, for each of the ends."""
    return lambda data, suffix, names: all(any(name.endswith(end) for name in names) for end in ends)


def _graph_def(data: bytes, suffix: str, names: Sequence[str]) -> bool:
    """A GraphDef is a list of nodes, which are its field 1; the field 1 of an ONNX model is a number."""
    return data[:1] == b"\n" and any(op in data for op in (b"Placeholder", b"Const"))


def _saved_model(data: bytes, suffix: str, names: Sequence[str]) -> bool:
    return data.startswith(b"\x08\x01\x12") and any(word in data for word in (b"saved_model", b"serving_default"))


KINDS: tuple[tuple[str, Test, str], ...] = (
    ("is empty", lambda data, suffix, names: not data, "export or copy it again"),
    (WEB_PAGE, lambda data, suffix, names: is_web_page(data[:1000]), ""),
    ("is a TorchScript program", _holds("data.pkl", "constants.pkl"), 'torch.onnx.export(torch.jit.load(FILE), example_input, "net.onnx", dynamo=False)'),
    ("is a network or weights that torch.save wrote", _holds("data.pkl"), SAVED_NET),
    ("is a program of torch.export", _called(".pt2"), 'torch.onnx.export(torch.export.load(FILE), f="net.onnx")'),
    ("is a Keras model", _holds("config.json", "model.weights.h5"), TO_TFLITE),
    ("is an archive of NumPy arrays", _holds(".npy"), "the model comes first, samples after it (--data FILE)"),
    ("is a zip archive", _begins(b"PK\x03\x04", b"PK\x05\x06"), "unpack it, and give the model in it"),
    ("is a compressed file", _begins(b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"7z\xbc\xaf\x27\x1c", b"\x28\xb5\x2f\xfd"), "unpack it first"),
    ("is an HDF5 file, as of a Keras model", _begins(b"\x89HDF\r\n\x1a\n"), TO_TFLITE),
    ("is an array of NumPy", _begins(b"\x93NUMPY"), "the model comes first, samples after it (--data FILE)"),
    ("is a Python pickle", _begins(*(bytes([0x80, n]) for n in range(2, 6))), EXPORT_PICKLE),
    ("has weights without a network, in GGUF", _begins(b"GGUF"), "export the network from the program that trained it"),
    ("has weights without a network, in safetensors", _begins(b"\0{", b"\0[", at=7), f"load them into the network in Python; then {TO_ONNX}"),
    ("is a program of ExecuTorch", _begins(b"ET1", at=4), f"take the PyTorch network that it was made from: {TO_ONNX}"),
    ("is a model in onnxruntime's own format", _begins(b"ORTM", at=4), TAKE_SOURCE),
    ("is a TensorRT engine", _begins(b"ftrt", b"ptrt"), TAKE_SOURCE),
    ("is a TensorRT engine", _called(".engine", ".plan", ".trt"), TAKE_SOURCE),
    ("is a Core ML model", _called(".mlmodel"), "export the network to ONNX from the framework that trained it"),
    ("is a SavedModel of TensorFlow", _saved_model, TO_TFLITE),
    ("is a GraphDef (frozen graph) of TensorFlow", _graph_def, TO_TFLITE),
    ("is an XML file, as of OpenVINO", _begins(b"<?xml"), "export the network to ONNX from the framework that trained it"),
    ("is JSON", _begins(b"{", b"["), "export the network to ONNX from the program that trained it"),
    ("is a picture", _begins(b"\x89PNG", b"\xff\xd8\xff", b"GIF8"), "the model comes first, samples after it (--data FILE)"),
)  # fmt: skip


FOLDERS: tuple[tuple[str, Test, str], ...] = (
    ("is a bundle", _holds("bundle.json"), "give the file that it was compiled from"),
    ("is a SavedModel of TensorFlow", _holds("saved_model.pb"), TO_TFLITE),
    ("is a Core ML model", _holds("Manifest.json"), "export the network to ONNX from the framework that trained it"),
    ("is a model of transformers", _holds("config.json", ".safetensors"), "optimum-cli export onnx --model FOLDER OUT"),
    ("is a folder", lambda data, suffix, names: True, "give the file in it"),
)


def other_kind(data: bytes, suffix: str) -> str:
    """What a file is that cannot be read as a model, and what to do; "" if that is not known."""
    return _described(KINDS, data, suffix.lower(), _names(data))


def of_folder(names: Sequence[str]) -> str:
    """What a folder is that holds files of these names, and what to do."""
    return _described(FOLDERS, b"", "", names)


def _described(kinds: Sequence[tuple[str, Test, str]], data: bytes, suffix: str, names: Sequence[str]) -> str:
    found = next(((what, advice) for what, test, advice in kinds if test(data, suffix, names)), None)
    if found is None:
        return ""
    return f"{found[0]}, not an ONNX or TensorFlow Lite model: {found[1]}" if found[1] else found[0]


def _names(data: bytes) -> Sequence[str]:
    """The names of the files in a zip archive."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return archive.namelist()
    except (zipfile.BadZipFile, NotImplementedError, ValueError):
        return []
