"""Replaces ZipMap and string labels, with which scikit-learn's classifiers end but which a bundle cannot have. In:

a model. Out: the same model, or a copy in which the output of a ZipMap is the tensor of scores that it reads, with a
column for each class, and each string is its index in a table of all labels of the model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, defs, helper, numpy_helper

from glowembed.records import dataclass

DOMAIN = "ai.onnx.ml"
LISTS = {"classlabels_strings": ("classlabels_ints", "classlabels_int64s"), "values_strings": ("values_int64s",)}
"""For each attribute that holds string labels, the attributes that hold integers in their place; an operator has one of
these.
"""

DEFAULTS = {"default_string": ("default_int64",)}
"""The outputs of a LabelEncoder for unknown keys."""


@dataclass(frozen=True)
class Labelled:
    """A model without ZipMap and strings. names: the strings of which its outputs `outputs` are indices."""

    model: ModelProto
    names: tuple[str, ...] = ()
    outputs: frozenset[str] = frozenset()


def as_numbers(model: ModelProto) -> Labelled:
    """The model with tensors of numbers in place of maps and labels. A model with string inputs keeps its strings."""
    graph = model.graph
    maps = any(_is_map(node) for node in graph.node)
    outputs = {info.name for info in graph.output if _is_string(info.type.tensor_type.elem_type)}
    if any(_is_string(info.type.tensor_type.elem_type) for info in graph.input):
        outputs = set()
    if not maps and not outputs:
        return Labelled(model)
    copy = ModelProto()
    copy.CopyFrom(model)
    _drop_maps(copy.graph)
    if not outputs:
        return Labelled(copy)
    names = tuple(dict.fromkeys(name for node in copy.graph.node for name in _labels(node)))
    names = tuple(dict.fromkeys((*names, *(name for t in copy.graph.initializer for name in _strings(t)))))
    _index(copy.graph, {name: i for i, name in enumerate(names)})
    return Labelled(copy, names, frozenset(outputs))


def _is_map(node: NodeProto) -> bool:
    return node.op_type == "ZipMap" and node.domain == DOMAIN


def _is_string(elements: int) -> bool:
    return elements == TensorProto.STRING


def _drop_maps(graph: GraphProto) -> None:
    replaced = set()
    for node in graph.node:
        if _is_map(node):
            node.op_type, node.domain = "Identity", ""
            del node.attribute[:]
            replaced.update(node.output)
    for info in graph.output:
        if info.name in replaced:
            info.ClearField("type")
            info.type.tensor_type.elem_type = TensorProto.FLOAT


def _labels(node: NodeProto) -> Iterator[str]:
    """The strings in the attributes that hold labels."""
    for attribute in node.attribute:
        if attribute.name in LISTS:
            yield from (text.decode("utf-8", "replace") for text in attribute.strings)
        elif attribute.name in DEFAULTS:
            yield attribute.s.decode("utf-8", "replace")
        elif attribute.type == AttributeProto.TENSOR:
            yield from _strings(attribute.t)


def _strings(tensor: TensorProto) -> Iterator[str]:
    if _is_string(tensor.data_type):
        yield from (text.decode("utf-8", "replace") for text in tensor.string_data)


def _index(graph: GraphProto, number: Mapping[str, int]) -> None:
    """Replace each string by its number."""
    for tensor in graph.initializer:
        _renumber(tensor, number)
    for node in graph.node:
        for attribute in list(node.attribute):
            if attribute.name in LISTS or attribute.name in DEFAULTS:
                _replace(node, attribute, [number[name] for name in _labels(NodeProto(attribute=[attribute]))])
            elif attribute.type == AttributeProto.TENSOR:
                _renumber(attribute.t, number)
            elif node.op_type == "Cast" and attribute.name == "to" and _is_string(attribute.i):
                attribute.i = TensorProto.INT64
    for info in (*graph.output, *graph.value_info):
        if _is_string(info.type.tensor_type.elem_type):
            info.type.tensor_type.elem_type = TensorProto.INT64


def _replace(node: NodeProto, attribute: AttributeProto, numbers: list[int]) -> None:
    known = defs.get_schema(node.op_type, node.domain).attributes
    name = next(one for one in {**LISTS, **DEFAULTS}[attribute.name] if one in known)
    made = helper.make_attribute(name, numbers if attribute.name in LISTS else numbers[0])
    node.attribute.remove(attribute)
    if numbers:
        node.attribute.append(made)


def _renumber(tensor: TensorProto, number: Mapping[str, int]) -> None:
    if _is_string(tensor.data_type):
        numbers = np.array([number[name] for name in _strings(tensor)], np.int64).reshape(tuple(tensor.dims))
        tensor.CopyFrom(numpy_helper.from_array(numbers, tensor.name))
