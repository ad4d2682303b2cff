"""Small TensorFlow Lite files, written with the flatbuffers of the package `tflite`.

A tensor is a `T`; an operator is (kind, names of inputs, names of outputs, options), with - for an absent input, and for options
the name of their table without "Options" and its fields: ("CONV_2D", "x w b", "y", ("Conv2D", {"StrideH": 1, "StrideW": 1})).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import flatbuffers
import numpy as np
import tflite

TYPES = {
    "float32": 0, "float16": 1, "int32": 2, "uint8": 3, "int64": 4, "bool": 6, "complex64": 8, "int16": 7, "int8": 9, "resource": 13, "int4": 17,
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class T:
    """A tensor: a constant if it has data. Several scales lie along `axis`."""

    name: str
    shape: tuple[int, ...]
    dtype: str = "int8"
    scale: float | Sequence[float] | None = None
    zero: int | Sequence[int] = 0
    axis: int = 0
    data: Any = None
    is_variable: bool = False
    signature: tuple[int, ...] | None = None
    """the shape with -1 for axes that are open"""
    sparse: tuple[Sequence[int], Sequence[int], Sequence[Any]] | None = None
    """the order of the axes, the axes of blocks, and for each level its size, or its segments and indices; `data` then
    has the numbers that are stored"""

    def raw(self) -> bytes:
        if self.data is None:
            return b""
        if self.dtype == "int4":
            flat = np.asarray(self.data, np.int8).reshape(-1) & 15
            flat = np.append(flat, 0)[: (len(flat) + 1) // 2 * 2].astype(np.uint8)
            return bytes(flat[0::2] | flat[1::2] << 4)
        return np.ascontiguousarray(self.data, self.dtype).tobytes()


Op = tuple[Any, ...]


Part = tuple[Sequence[T], Sequence[Op], str, str]


def tflite_file(
    tensors: Sequence[T], operators: Sequence[Op], inputs: str, outputs: str, others: Sequence[Part] = ()
) -> bytes:
    """The bytes of a file with one graph, and perhaps `others`."""
    b = flatbuffers.Builder(1024)
    parts = [(tensors, operators, inputs, outputs), *others]
    codes = list(dict.fromkeys(operator[0] for part in parts for operator in part[1]))
    everything = [tensor for part in parts for tensor in part[0]]
    graphs, first = [], 1
    for part in parts:
        graphs.append(_graph(b, part, codes, first))
        first += len(part[0])
    buffers = [_table(b, "Buffer", {})] + [_buffer(b, tensor.raw()) for tensor in everything]
    model = {
        "Version": 3,
        "OperatorCodes": _offsets(b, [_code(b, kind) for kind in codes]),
        "Subgraphs": _offsets(b, graphs),
        "Buffers": _offsets(b, buffers),
        "Description": b.CreateString("made by a test"),
    }
    b.Finish(_table(b, "Model", model), b"TFL3")
    return bytes(b.Output())


def _graph(b: Any, part: Part, codes: Sequence[str], first: int) -> int:
    """One graph; its tensors have the buffers from `first` on."""
    tensors, operators, inputs, outputs = part
    index = {tensor.name: i for i, tensor in enumerate(tensors)}
    made = [_tensor(b, tensor, first + i) for i, tensor in enumerate(tensors)]
    ops = [_operator(b, operator, codes, index) for operator in operators]
    fields = {
        "Tensors": _offsets(b, made),
        "Inputs": _ints(b, [index[n] for n in inputs.split()]),
        "Outputs": _ints(b, [index[n] for n in outputs.split()]),
        "Operators": _offsets(b, ops),
    }
    return _table(b, "SubGraph", fields)


def _table(b: Any, name: str, fields: Mapping[str, Any]) -> int:
    getattr(tflite, f"{name}Start")(b)
    for key, value in fields.items():
        getattr(tflite, f"{name}Add{key}")(b, value)
    return int(getattr(tflite, f"{name}End")(b))


def _vector(b: Any, items: Sequence[Any], size: int, put: Any) -> int:
    b.StartVector(size, len(items), max(size, 4))
    for item in reversed(items):
        put(item)
    return int(b.EndVector())


def _offsets(b: Any, items: Sequence[int]) -> int:
    return _vector(b, items, 4, b.PrependUOffsetTRelative)


def _ints(b: Any, items: Sequence[int]) -> int:
    return _vector(b, items, 4, b.PrependInt32)


def _buffer(b: Any, data: bytes) -> int:
    return _table(b, "Buffer", {"Data": b.CreateByteVector(data)} if data else {})


def _code(b: Any, kind: str) -> int:
    number = getattr(tflite.BuiltinOperator, kind, None)
    if number is None:
        return _table(
            b,
            "OperatorCode",
            {"CustomCode": b.CreateString(kind), "DeprecatedBuiltinCode": 32, "BuiltinCode": 32, "Version": 1},
        )
    return _table(b, "OperatorCode", {"DeprecatedBuiltinCode": min(number, 127), "BuiltinCode": number, "Version": 1})


def _tensor(b: Any, tensor: T, buffer: int) -> int:
    name, shape = b.CreateString(tensor.name), _ints(b, tensor.shape)
    fields = {
        "Shape": shape,
        "Type": TYPES[tensor.dtype],
        "Buffer": buffer,
        "Name": name,
        "IsVariable": tensor.is_variable,
    }
    if tensor.signature is not None:
        fields["ShapeSignature"] = _ints(b, tensor.signature)
    if tensor.scale is not None:
        scales = list(np.atleast_1d(tensor.scale))
        zeros = list(np.broadcast_to(np.atleast_1d(tensor.zero), (len(scales),)))
        given = {
            "Scale": _vector(b, [float(s) for s in scales], 4, b.PrependFloat32),
            "ZeroPoint": _vector(b, [int(z) for z in zeros], 8, b.PrependInt64),
            "QuantizedDimension": tensor.axis,
        }
        fields["Quantization"] = _table(b, "QuantizationParameters", given)
    if tensor.sparse is not None:
        order, blocks, levels = tensor.sparse
        given = {
            "TraversalOrder": _ints(b, order),
            "BlockMap": _ints(b, blocks),
            "DimMetadata": _offsets(b, [_level(b, level) for level in levels]),
        }
        fields["Sparsity"] = _table(b, "SparsityParameters", given)
    return _table(b, "Tensor", fields)


def _level(b: Any, level: Any) -> int:
    if isinstance(level, int):
        return _table(b, "DimensionMetadata", {"Format": 0, "DenseSize": level})
    segments = _table(b, "Int32Vector", {"Values": _ints(b, level[0])})
    indices = _table(b, "Uint8Vector", {"Values": b.CreateByteVector(bytes(level[1]))})
    given = {"ArraySegmentsType": 1, "ArraySegments": segments, "ArrayIndicesType": 3, "ArrayIndices": indices}
    return _table(b, "DimensionMetadata", {"Format": 1, **given})


def _operator(b: Any, operator: Op, codes: Sequence[str], index: Mapping[str, int]) -> int:
    kind, inputs, outputs, *options = operator
    fields: dict[str, Any] = {
        "OpcodeIndex": codes.index(kind),
        "Inputs": _ints(b, [-1 if name == "-" else index[name] for name in inputs.split()]),
        "Outputs": _ints(b, [index[name] for name in outputs.split()]),
    }
    if options and isinstance(options[0], bytes):
        fields["CustomOptions"] = b.CreateByteVector(options[0])
    elif options:
        name, own = options[0]
        between = own.get("Intermediates", ())
        if between:
            fields["Intermediates"] = _ints(b, [index[name] for name in between])
        own = {
            k: _ints(b, v) if isinstance(v, (list, tuple)) else b.CreateString(v) if isinstance(v, str) else v
            for k, v in own.items()
            if k != "Intermediates"
        }
        fields["BuiltinOptionsType"] = getattr(tflite.BuiltinOptions, f"{name}Options")
        fields["BuiltinOptions"] = _table(b, f"{name}Options", own)
    return _table(b, "Operator", fields)
