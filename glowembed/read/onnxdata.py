"""Reads ONNX tensor files. In: the path of a serialized TensorProto (input_0.pb). Out: the numpy array.

External data is refused, because an untrusted tensor file could name any file of the machine.
"""

from __future__ import annotations

from pathlib import Path

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from glowembed.errors import UsageError
from glowembed.files import source
from glowembed.graph.ir import Array
from glowembed.read.onnxfile import array_of


def read_tensor_proto(path: Path) -> Array:
    """Return the tensor in the file. Raises UsageError if it is not a tensor file."""
    tensor = onnx.TensorProto()
    try:
        tensor.ParseFromString(source.read_bytes(path))
    except DecodeError as error:
        raise UsageError(f"{path}: is not a readable ONNX TensorProto: {error}") from error
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        raise UsageError(f"{path}: keeps its data in another file; only tensors that hold their data are read")
    return array_of(path, tensor)
