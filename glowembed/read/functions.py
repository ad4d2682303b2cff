"""Expands an operator into the nodes of its function body, which ONNX gives, or contrib.py for an operator of
com.microsoft.

In: a node whose operator has neither an op nor a definition, the types of its inputs, and the opset. Out: nodes of
simpler operators with unique names, their opset, and the shapes of the values between them, as far as onnx can infer
them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import onnx
from onnx import AttributeProto, FunctionProto, GraphProto, NodeProto, TypeProto, helper, numpy_helper

from glowembed.graph.ir import Shape
from glowembed.read import attentions, contrib
from glowembed.read.body import Body
from glowembed.read.onnxfile import declared_shape
from glowembed.read.operand import Operand
from glowembed.records import dataclass

_SMALL = 64
"""The most elements of a constant that takes part in shape inference."""


@dataclass(frozen=True)
class Expansion:
    """The nodes in order, their opset, and the shapes of values by their new names."""

    nodes: tuple[NodeProto, ...]
    opset: int
    shapes: Mapping[str, Shape]


def expand(
    proto: NodeProto, operands: Sequence[Operand | None], opset: int, named: Callable[[str], str], exact: bool = True
) -> Expansion | None:
    """The expansion of a node, or None if there is no function body. named: makes a unique name from a name in the
    body. exact: whether to keep the order of operations that ONNX gives. Raises Refused for an operator of
    com.microsoft in a form without a body.
    """
    schema = _schema(proto, opset)
    body = contrib.body(proto, operands) or (None if exact else _short_body(proto, operands))
    body = body or (_body(schema, proto, operands, opset) if schema is not None else None)
    if body is None:
        return None
    defaults = [] if schema is None else _defaults(schema)
    given = {a.name: a for a in (*body.attribute_proto, *defaults, *proto.attribute)}
    nodes = [copy_of(node) for node in body.node]
    for node in nodes:
        _substitute(node, given)
    own = next((o.version for o in body.opset_import if o.domain in ("", "ai.onnx")), opset)
    names = dict(zip(body.input, [*proto.input, *[""] * len(body.input)], strict=False))
    names |= {inner: outer for inner, outer in zip(body.output, proto.output, strict=False) if outer}
    shapes = _shapes(nodes, body, operands, own)
    for number, node in enumerate(nodes):
        node.name = f"{proto.name or proto.op_type}/{node.op_type}_{number}"
        for name in (*node.input, *node.output):
            names.setdefault(name, named(name) if name else "")
        node.input[:] = [names[name] for name in node.input]
        node.output[:] = [names[name] for name in node.output]
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                rename_captured(attribute.g, names)
    return Expansion(tuple(nodes), own, {names[n]: shape for n, shape in shapes.items() if n in names})


def _schema(proto: NodeProto, opset: int) -> Any:
    try:
        return onnx.defs.get_schema(proto.op_type, opset if proto.domain in ("", "ai.onnx") else 1, proto.domain)
    except onnx.defs.SchemaError:
        return None


def _short_body(proto: NodeProto, operands: Sequence[Operand | None]) -> FunctionProto | None:
    own = proto.op_type == "Attention" and proto.domain in ("", "ai.onnx")
    return attentions.onnx_attention(Body(proto, operands)) if own else None


def _body(schema: Any, proto: NodeProto, operands: Sequence[Operand | None], opset: int) -> FunctionProto | None:
    """The function body in the newest form up to the opset; if it depends on the types of the inputs, the one for these
    types.
    """
    if schema.has_context_dependent_function:
        versions = schema.context_dependent_function_opset_versions
        types = [(TypeProto() if o is None else o.type()).SerializeToString() for o in operands]
        raw = schema.get_context_dependent_function_with_opset_version(
            _newest(versions, opset), proto.SerializeToString(), types
        )
        if raw:
            return _parsed(raw)
    if not schema.has_function:
        return None
    raw = schema.get_function_with_opset_version(_newest(schema.function_opset_versions, opset))
    return _parsed(raw if isinstance(raw, bytes) else raw.SerializeToString())


def _parsed(raw: bytes) -> FunctionProto:
    body = FunctionProto()
    body.ParseFromString(raw)
    return body


def _newest(versions: Sequence[int], opset: int) -> int:
    return max((v for v in versions if v <= opset), default=min(versions))


def _defaults(schema: Any) -> list[AttributeProto]:
    return [a.default_value for a in schema.attributes.values() if a.default_value.name]


def copy_of(node: NodeProto) -> NodeProto:
    made = NodeProto()
    made.CopyFrom(node)
    return made


def _substitute(node: NodeProto, given: Mapping[str, AttributeProto]) -> None:
    """Replace references to attributes of the function by the given attributes; a reference to an absent one is
    dropped.
    """
    kept = []
    for attribute in node.attribute:
        made = AttributeProto()
        made.CopyFrom(attribute)
        if attribute.ref_attr_name:
            if attribute.ref_attr_name not in given:
                continue
            made.CopyFrom(given[attribute.ref_attr_name])
            made.name = attribute.name
        elif made.type == AttributeProto.GRAPH:
            for inner in made.g.node:
                _substitute(inner, given)
        kept.append(made)
    del node.attribute[:]
    node.attribute.extend(kept)


def rename_captured(graph: GraphProto, names: Mapping[str, str]) -> None:
    """Rename the values that a graph takes from the graph around it."""
    own = {i.name for i in graph.input} | {t.name for t in graph.initializer}
    own |= {name for node in graph.node for name in node.output}
    outer = {old: new for old, new in names.items() if old not in own}
    for node in graph.node:
        node.input[:] = [outer.get(name, name) for name in node.input]
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                rename_captured(attribute.g, outer)


def _shapes(
    nodes: Sequence[NodeProto], body: FunctionProto, operands: Sequence[Operand | None], opset: int
) -> dict[str, Shape]:
    """The shapes of the values inside the body, by their names there."""
    known = [(name, o) for name, o in zip(body.input, operands, strict=False) if o is not None]
    inputs = [helper.make_value_info(name, o.type()) for name, o in known]
    small = [numpy_helper.from_array(o.array, n) for n, o in known if o.array is not None and o.array.size < _SMALL]
    outputs = [helper.make_empty_tensor_value_info(name) for name in body.output]
    absent = {name for name in body.input if name not in dict(known)}
    inside = [copy_of(node) for node in nodes]
    for node in inside:
        node.input[:] = ["" if name in absent else name for name in node.input]
    opsets = [*body.opset_import]
    if all(o.domain not in ("", "ai.onnx") for o in opsets):
        opsets.append(helper.make_opsetid("", opset))
    model = helper.make_model(
        helper.make_graph(inside, "body", inputs, outputs, small), opset_imports=opsets, ir_version=10
    )
    try:
        graph = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
    except Exception:
        return {}
    found = {info.name: declared_shape(info) for info in (*graph.value_info, *graph.output)}
    return {n: tuple(d for d in s if d is not None) for n, s in found.items() if s is not None and None not in s}


KEEP_SHAPES = frozenset(
    ("Abs", "Cast", "CastLike", "Ceil", "Clip", "Cos", "Dropout", "Exp", "Floor", "Identity", "Log", "Neg", "Not", "Reciprocal",
     "Relu", "Sigmoid", "Sin", "Sqrt", "Tanh")
)  # fmt: skip
"""Operators whose first input has the shape of the output."""

PAIRS = ("Add", "Sub", "Mul", "Div")


def backwards(nodes: Sequence[NodeProto], shapes: dict[str, Shape], proved: bool = False) -> None:
    """Add shapes that can be inferred only from outputs, backwards through operators that keep a shape. If neither
    operand of an arithmetic operator has a known shape, both are assumed to have that of the result; the shapes of
    nodes that know their output's shape are not used.

    proved: only add a shape if it is certain, because the result has one element.
    """
    for node in reversed(nodes):
        if not node.output or node.output[0] not in shapes:
            continue
        shape = shapes[node.output[0]]
        pair = node.op_type in PAIRS and (not proved or prod(shape) == 1)
        for name in node.input[: 1 if node.op_type in KEEP_SHAPES else 2 if pair else 0]:
            if name:
                shapes.setdefault(name, shape)
