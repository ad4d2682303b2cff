"""Reads float64 as float32 if --float64-as-float32 asks for it.

In: a file. Out: the file in which inputs, outputs, constants and casts are float32 instead of float64, and a note that
says so. All values computed from them are then float32, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, numpy_helper

from glowembed.errors import UsageError
from glowembed.read.onnxfile import File, array_of

TYPES = ("to", "dtype", "output_dtype", "output_datatype", "precision", "softmax_precision", "stash_type")
"""The attributes of ONNX operators that name a type."""


def as_float32(file: File) -> File:
    """The file without float64; the same file if it has none. Raises UsageError for a constant that float32 cannot
    hold.
    """
    model = ModelProto()
    model.CopyFrom(file.model)
    changed = sum(_in_graph(file, graph) for graph in _graphs(model.graph))
    if not changed:
        return file
    note = "float64 is computed as float32, in the inputs and outputs too, as --float64-as-float32 asks"
    return replace(file, model=model, notes=(*file.notes, note))


def _graphs(graph: GraphProto) -> Iterator[GraphProto]:
    """A graph, and the graphs inside its nodes."""
    found = [graph]
    while found:
        one = found.pop()
        yield one
        attributes = (attribute for node in one.node for attribute in node.attribute)
        found.extend(inner for a in attributes for inner in (a.g, *a.graphs) if inner.node or inner.output)


def _in_graph(file: File, graph: GraphProto) -> int:
    """Change float64 to float32 in a graph, except in inner graphs, and return the number of changes."""
    infos = sum(map(_info, (*graph.input, *graph.output, *graph.value_info)))
    tensors = sum(_tensor(file, tensor) for tensor in graph.initializer)
    return infos + tensors + sum(_attribute(file, node, a) for node in graph.node for a in node.attribute)


def _info(info: ValueInfoProto) -> bool:
    if not info.type.HasField("tensor_type") or info.type.tensor_type.elem_type != TensorProto.DOUBLE:
        return False
    info.type.tensor_type.elem_type = TensorProto.FLOAT
    return True


def _attribute(file: File, node: NodeProto, attribute: AttributeProto) -> int:
    if attribute.name in TYPES and attribute.i == TensorProto.DOUBLE and node.op_type != "BitCast":
        attribute.i = TensorProto.FLOAT
        return 1
    held = [attribute.t] if attribute.HasField("t") else []
    return sum(_tensor(file, tensor) for tensor in (*held, *attribute.tensors))


def _tensor(file: File, tensor: TensorProto) -> bool:
    if tensor.data_type != TensorProto.DOUBLE:
        return False
    array = array_of(file.path, tensor)
    with np.errstate(over="ignore"):
        rounded = array.astype(np.float32)
    lost = np.isinf(rounded) & np.isfinite(array)
    if lost.any():
        raise UsageError(
            f"{file.path}: the constant {tensor.name!r} holds {array[lost][0]:g}, which float32 does not:"
            " compile without --float64-as-float32"
        )
    tensor.CopyFrom(numpy_helper.from_array(rounded, tensor.name))
    return True
