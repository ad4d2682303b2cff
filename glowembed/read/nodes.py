"""Reads one node of a file, checked against the schema of its operator.

In: a NodeProto and the names of its inputs in the graph. Out: an OnnxNode without protobuf, or Refused.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import onnx
from onnx import AttributeProto, NodeProto, TensorProto, helper

from glowembed.graph.ir import Array
from glowembed.graph.op import Malformed, OnnxNode, Refused
from glowembed.read import onnxquant
from glowembed.read.builder import GraphBuilder
from glowembed.read.onnxfile import File, array_of, name_of


class Walk(Protocol):
    """The parts of the importer's state that this module uses."""

    file: File
    arrays: dict[str, Array]
    builder: GraphBuilder
    integers: set[str]

    def resolve(self, name: str) -> str: ...


def has_subgraph(proto: NodeProto) -> bool:
    return any(a.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS) for a in proto.attribute)


def onnx_node(walk: Walk, proto: NodeProto, inputs: Sequence[str]) -> OnnxNode:
    outputs = tuple(walk.resolve(name) if name else "" for name in proto.output)
    opset = walk.file.opset
    if proto.op_type in ("DequantizeLinear", "QuantizeLinear") and not "".join(inputs[1:2]):
        raise Refused("it has no scale", "quantize the model again")
    if proto.domain in ("", "ai.onnx") and onnx.defs.has(proto.op_type):
        _check_node(walk, proto)
    numbers = attributes(walk, proto)
    if proto.domain != "ai.onnx.ml":
        _check_numbers(proto.op_type, numbers)
    return OnnxNode(proto.op_type, name_of(proto), tuple(inputs), outputs, numbers, opset)


def _check_numbers(op_type: str, attributes: Mapping[str, Any]) -> None:
    """Check that numbers in attributes are finite. A limit of Clip may be infinite, and the content of a Constant is
    checked later.
    """
    for name, value in attributes.items():
        numbers = [v for v in (value if isinstance(value, list) else [value]) if isinstance(v, float)]
        wrong = [v for v in numbers if math.isnan(v) or (math.isinf(v) and op_type != "Clip")]
        if wrong and op_type != "Constant":
            raise Refused(f"its attribute {name!r} is {wrong[0]}", "attributes must be finite numbers")


def _check_node(walk: Walk, proto: NodeProto) -> None:
    """Check the number of inputs and outputs, and the names and types of attributes, against the schema of the opset."""
    context = onnx.checker.C.CheckerContext()
    context.ir_version = walk.file.model.ir_version
    context.opset_imports = {"": walk.file.opset}
    if has_subgraph(proto):
        return
    try:
        onnx.checker.check_node(proto, context)
    except onnx.checker.ValidationError as error:
        raise Refused(f"it is not well formed: {str(error).splitlines()[0]}", "check it with onnx.checker") from error
    _check_types(walk, proto)
    _check_one_type(walk, proto)


def _check_types(walk: Walk, proto: NodeProto) -> None:
    """Check that constants have a type that the operator takes; an axis, for example, is not a complex number.

    The operators of onnxquant check their parameters themselves, because they accept fewer types and name them in
    errors.
    """
    if proto.op_type in (*onnxquant.OPERATORS, "DequantizeLinear"):
        return
    declared = onnx.defs.get_schema(proto.op_type, walk.file.opset, "").inputs
    for index, name in enumerate(proto.input):
        array = walk.arrays.get(walk.resolve(name))
        if array is None or not declared:
            continue
        kind = TensorProto.DataType.Name(helper.np_dtype_to_tensor_dtype(array.dtype)).lower()
        wanted = declared[min(index, len(declared) - 1)]
        if f"tensor({kind})" not in wanted.types:
            taken = ", ".join(sorted(t.removeprefix("tensor(").removesuffix(")") for t in wanted.types))
            raise Refused(f"its input {wanted.name} {name!r} is {kind}", f"opset {walk.file.opset} takes {taken} there")


def _check_one_type(walk: Walk, proto: NodeProto) -> None:
    """Check that inputs which the schema gives one type are all floats, or all of one type of integers."""
    declared = onnx.defs.get_schema(proto.op_type, walk.file.opset, "").inputs
    if not declared or proto.op_type in (*onnxquant.OPERATORS, "DequantizeLinear"):
        return
    first: dict[str, tuple[str, str]] = {}
    for index, name in enumerate(proto.input):
        wanted = declared[min(index, len(declared) - 1)]
        dtype = None if name in walk.integers or not wanted.is_homogeneous else _known_type(walk, name)
        if dtype is None or wanted.type_str.startswith("tensor("):
            continue
        other, known = first.setdefault(wanted.type_str, (name, dtype))
        if known != dtype:
            text = f"its inputs {other!r} and {name!r} are {known} and {dtype}"
            raise Malformed(text, "they must have one type: Cast one")


def _known_type(walk: Walk, name: str) -> str | None:
    """The type of a tensor; all floats are float32 here. None if it is not known."""
    found = walk.resolve(name) if name else ""
    if found in walk.arrays:
        dtype = walk.arrays[found].dtype.name
    elif found in walk.builder.values:
        dtype = walk.builder.values[found].dtype
    else:
        return None
    return dtype if dtype == "bool" or dtype.startswith(("int", "uint")) else "float32"


def attributes(walk: Walk, proto: NodeProto) -> dict[str, Any]:
    """The attributes as Python objects, with text decoded and tensors as arrays."""
    result = {}
    for attribute in proto.attribute:
        if attribute.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS):
            continue
        value = (
            array_of(walk.file.path, attribute.t)
            if attribute.type == AttributeProto.TENSOR
            else helper.get_attribute_value(attribute)
        )
        if isinstance(value, bytes):
            value = value.decode("utf-8", "replace")
        elif isinstance(value, list | tuple) or attribute.type == AttributeProto.STRINGS:
            value = [v.decode("utf-8", "replace") if isinstance(v, bytes) else v for v in value]
        result[attribute.name] = value
    return result
