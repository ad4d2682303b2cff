"""Reads the flatbuffer of a TensorFlow Lite file into plain data.

In: the bytes of a file, which are not trusted. Out: a `Model` in which every index, shape and size has been checked, or
a UsageError. The package `tflite` follows the offsets of the file wherever they lead. Therefore the size of the file
limits the number of elements that are read, and any exception on the way becomes one error about the file. It knows no
operator.
"""

from __future__ import annotations

import importlib
import inspect
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from glowembed.errors import UnsupportedModelError, UsageError
from glowembed.graph.ir import Array, Shape
from glowembed.read.builder import MAX_ELEMENTS
from glowembed.read.tflite.sparse import Level, dense
from glowembed.records import dataclass

IDENTIFIER = b"TFL3"
MAX_RANK = 8

DTYPES: Mapping[str, str] = {
    "FLOAT32": "float32", "FLOAT16": "float16", "FLOAT64": "float64", "INT8": "int8", "INT16": "int16", "INT32": "int32",
    "INT64": "int64", "UINT8": "uint8", "UINT16": "uint16", "UINT32": "uint32", "UINT64": "uint64", "BOOL": "bool", "INT4": "int4",
}  # fmt: skip
"""The types of tensors that hold numbers. INT4 has two elements in a byte; its arrays here are int8."""


@dataclass(frozen=True, eq=False)
class Scales:
    """real = scale * (stored - zero_point): one of each, or one per index of `axis`."""

    scale: Array
    zero_point: Array
    axis: int


@dataclass(frozen=True, eq=False)
class Tensor:
    """A tensor of a subgraph. `dtype` is a numpy name, or int4, or for other types the file's name in lower case."""

    name: str
    dtype: str
    shape: Shape
    open_axes: tuple[int, ...] = ()
    """the axes whose sizes the file leaves open; `shape` has 1 there"""
    array: Array | None = None
    """the content of a constant"""
    scales: Scales | None = None
    is_variable: bool = False


@dataclass(frozen=True, eq=False)
class Operator:
    """An operator. `kind` is the name of a builtin operator, such as CONV_2D, or of a custom one. An absent input is
    -1.
    """

    kind: str
    is_custom: bool
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    custom_options: bytes = b""


@dataclass(frozen=True, eq=False)
class Subgraph:
    """Tensors, and the operators in order of execution."""

    name: str
    tensors: tuple[Tensor, ...]
    operators: tuple[Operator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Model:
    """The content of a file."""

    description: str
    version: int
    subgraphs: tuple[Subgraph, ...]


def parse(path: Path, data: bytes) -> Model:
    """The model in the bytes, which have the IDENTIFIER. Raises UsageError if it is damaged."""
    with _refusing(path, len(data)):
        return _Reader(path, data).model()


@contextmanager
def _refusing(path: Path, size: int) -> Iterator[None]:
    """Turn the exceptions that offsets of a damaged file cause into an error about the file."""
    try:
        yield
    except (struct.error, LookupError, ValueError, TypeError, AttributeError, ArithmeticError, AssertionError) as error:
        what = error if type(error) is ValueError else f"an offset in its {size} bytes points to what is not there"
        raise UsageError(
            f"{path}: not a TensorFlow Lite model, or one that is damaged or cut short: {what}; copy or export the file again"
        ) from error


class _Reader:
    """Follows the offsets of one file. left: how many elements may still be read, because many tables of a damaged file
    may refer to one long vector.
    """

    def __init__(self, path: Path, data: bytes) -> None:
        self.path, self.data = path, data
        self.schema = importlib.import_module("tflite")
        self.left = 16 * len(data) + 1024

    def all(self, table: Any, name: str) -> list[Any]:
        """The elements of a vector of a table."""
        length, get = getattr(table, f"{name}Length")(), getattr(table, name)
        self.left -= length
        if length > len(self.data) or self.left < 0:
            raise ValueError(f"a vector of {length} elements for {name}")
        return [get(index) for index in range(length)]

    def numbers(self, table: Any, name: str) -> Array:
        """The elements of a vector of numbers."""
        return np.asarray(self.all(table, name))

    def model(self) -> Model:
        model = self.schema.Model.GetRootAsModel(self.data, 0)
        codes = [self._operator_code(code) for code in self.all(model, "OperatorCodes")]
        buffers = self.all(model, "Buffers")
        subgraphs = tuple(self._subgraph(graph, codes, buffers) for graph in self.all(model, "Subgraphs"))
        if not subgraphs:
            raise ValueError("it has no graph")
        return Model(_text(model.Description()), model.Version(), subgraphs)

    def _operator_code(self, code: Any) -> tuple[str, bool]:
        """The operator's name, and whether it is custom. Codes above 126 are only in the newer of the two fields."""
        number = max(code.DeprecatedBuiltinCode(), code.BuiltinCode())
        name = _names(self.schema.BuiltinOperator).get(number)
        if name == "CUSTOM":
            return _text(code.CustomCode()) or "CUSTOM", True
        return name or f"builtin operator {number}", False

    def _subgraph(self, graph: Any, codes: list[tuple[str, bool]], buffers: list[Any]) -> Subgraph:
        tensors = tuple(self._tensor(tensor, buffers) for tensor in self.all(graph, "Tensors"))
        operators = tuple(self._operator(op, codes, len(tensors)) for op in self.all(graph, "Operators"))
        ends = [self._indices(graph, name, len(tensors)) for name in ("Inputs", "Outputs")]
        if any(index < 0 for index in (*ends[0], *ends[1])):
            raise ValueError("an input or output of the graph is no tensor")
        return Subgraph(_text(graph.Name()), tensors, operators, ends[0], ends[1])

    def _indices(self, table: Any, name: str, count: int) -> tuple[int, ...]:
        found = tuple(int(index) for index in self.all(table, name))
        for index in found:
            if not -1 <= index < count:
                raise ValueError(f"{name} has tensor {index} of {count}")
        return found

    def _tensor(self, tensor: Any, buffers: list[Any]) -> Tensor:
        name, kind = _text(tensor.Name()), _names(self.schema.TensorType).get(tensor.Type(), f"type {tensor.Type()}")
        shape = tuple(int(d) for d in self.all(tensor, "Shape"))
        signature = tuple(int(d) for d in self.all(tensor, "ShapeSignature"))
        if len(shape) > MAX_RANK or any(d < 0 for d in shape):
            raise ValueError(f"tensor {name!r:.60} has the shape {list(shape)[: MAX_RANK + 1]}")
        if prod(shape) > MAX_ELEMENTS:
            raise UnsupportedModelError(
                f"{self.path}: tensor {name!r:.100} of shape {list(shape)} has {prod(shape)} elements, more than any target holds"
            )
        dtype = DTYPES.get(kind, kind.lower())
        array = self._array(name, dtype, shape, buffers[tensor.Buffer()], tensor) if kind in DTYPES else None
        open_axes = tuple(axis for axis, d in enumerate(signature) if d < 0 and len(signature) == len(shape))
        return Tensor(
            name, dtype, shape, open_axes, array, self._scales(name, tensor, shape), bool(tensor.IsVariable())
        )

    def _array(self, name: str, dtype: str, shape: Shape, buffer: Any, tensor: Any) -> Array | None:
        """The numbers of a constant; None for a tensor without data."""
        if buffer.Offset() > 1 or buffer.Size() > 1:
            raise UnsupportedModelError(
                f"{self.path}: the data of {name!r:.100} lies behind the flatbuffer; only files below 2 GB hold them inside"
            )
        if buffer.DataIsNone() or buffer.DataLength() == 0:
            return None
        data, count = buffer.DataAsNumpy(), prod(shape)
        if (sparsity := tensor.Sparsity()) is not None and dtype not in ("int4", "bool"):
            stored = np.frombuffer(data.tobytes(), np.dtype(dtype).newbyteorder("<")).astype(dtype)
            blocks = [int(axis) for axis in self.all(sparsity, "BlockMap")]
            return dense(stored, shape, self._levels(sparsity), blocks)
        size = (count + 1) // 2 if dtype == "int4" else count * np.dtype(dtype).itemsize
        if data.size != size:
            raise ValueError(f"tensor {name!r:.60} of shape {list(shape)} needs {size} bytes and has {data.size}")
        if dtype == "int4":
            return unpacked(data, count).reshape(shape)
        if dtype == "bool":
            return np.asarray(data.reshape(shape) != 0)
        return np.frombuffer(data.tobytes(), np.dtype(dtype).newbyteorder("<")).reshape(shape).astype(dtype)

    def _levels(self, sparsity: Any) -> list[Level]:
        levels = []
        for axis, level in zip(self.all(sparsity, "TraversalOrder"), self.all(sparsity, "DimMetadata"), strict=True):
            names = ("ArraySegments", "ArrayIndices") if level.Format() else ()
            vectors = [self._vector(getattr(level, f"{name}Type")(), getattr(level, name)()) for name in names]
            levels.append(Level(int(axis), level.DenseSize(), *vectors))
        return levels

    def _vector(self, kind: int, table: Any) -> Array:
        """The numbers of a vector of one of the types that a sparse level may have."""
        vector = getattr(self.schema, _names(self.schema.SparseIndexVector)[kind])()
        vector.Init(table.Bytes, table.Pos)
        return self.numbers(vector, "Values").astype(np.int64)

    def _scales(self, name: str, tensor: Any, shape: Shape) -> Scales | None:
        q = tensor.Quantization()
        if q is None:
            return None
        if q.DetailsType() != 0:
            raise UnsupportedModelError(
                f"{self.path}: {name!r:.100} is quantized in a way of its own (not scale and zero point): quantize it per"
                " tensor or per channel"
            )
        scale = self.numbers(q, "Scale").astype(np.float32)
        if scale.size == 0:
            return None
        zero = self.numbers(q, "ZeroPoint").astype(np.int64)
        zero = zero if zero.size else np.zeros(1, np.int64)
        axis = q.QuantizedDimension() if scale.size > 1 else 0
        fits = scale.size == 1 or (0 <= axis < len(shape) and shape[axis] == scale.size)
        if not fits or zero.size not in (1, scale.size):
            raise ValueError(
                f"tensor {name!r:.60} of shape {list(shape)} has {scale.size} scales and {zero.size} zero points"
            )
        return Scales(scale, np.broadcast_to(zero, scale.shape), axis)

    def _operator(self, op: Any, codes: list[tuple[str, bool]], count: int) -> Operator:
        kind, is_custom = codes[op.OpcodeIndex()]
        inputs, outputs = (self._indices(op, name, count) for name in ("Inputs", "Outputs"))
        if -1 in outputs:
            raise ValueError(f"{kind} has an output that is no tensor")
        custom = bytes(self.all(op, "CustomOptions")) if is_custom else b""
        return Operator(kind, is_custom, inputs, outputs, self._options(op), custom)

    def _options(self, op: Any) -> dict[str, Any]:
        """The fields of the options by name, for every kind of table."""
        name, table = _names(self.schema.BuiltinOptions).get(op.BuiltinOptionsType()), op.BuiltinOptions()
        kind = getattr(self.schema, name or "", None)
        if table is None or kind is None:
            return {}
        options = kind()
        options.Init(table.Bytes, table.Pos)
        return {name: self._field(options, name) for name in _fields(kind)}

    def _field(self, options: Any, name: str) -> Any:
        if hasattr(options, f"{name}Length"):
            return tuple(self.all(options, name))
        return getattr(options, name)()


def unpacked(data: Array, count: int) -> Array:
    """The int4 numbers, two in a byte with the first in its low half, as int8."""
    halves = np.stack([data & 15, data >> 4], axis=1).reshape(-1)[:count].astype(np.int8)
    return np.where(halves > 7, halves - 16, halves).astype(np.int8)


def _fields(kind: type) -> list[str]:
    """The names of the fields of a table: its methods, except those that the generator adds for each field."""
    added = ("Init", "GetRootAs", f"GetRootAs{kind.__name__}", f"{kind.__name__}BufferHasIdentifier")
    found = [name for name, _ in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")]
    return [n for n in found if n not in added and not n.endswith(("Length", "AsNumpy", "IsNone"))]


def _names(enum: Any) -> dict[int, str]:
    """The names of an enumeration of the schema, by number."""
    return {number: name for name, number in vars(enum).items() if isinstance(number, int)}


def _text(raw: bytes | None) -> str:
    """A name of the file. Raises ValueError if it is not UTF-8."""
    return raw.decode("utf-8") if raw is not None else ""
