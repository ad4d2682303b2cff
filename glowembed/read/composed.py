"""Recognizes operators that exporters write out as several nodes, mostly normalizations, and replaces them by one ONNX
node.

In: the nodes of a graph in order of execution, and its initializers. Out: the same, where

    a LayerNormalization, RMSNormalization or Softmax in the forms of normalizations.py           is that operator
    y = Reshape(InstanceNormalization(Reshape(x, [0, groups, -1])), shape of x) * scale + shift  is a GroupNormalization
    y = Where(IsNaN(Softmax(x)), 0, Softmax(x))                                                is the Softmax
    y = Clip(QuantizeLinear(x), integers)                                                      is QuantizeLinear(Clip(x, real numbers))
    y = Gather(integers, computed indices), read with a scale                                  is DequantizeLinear, Gather, QuantizeLinear
    y = Where(w < 0.5, a + w * (b - a), b - (b - a) * (1 - w))                                 is (1 - w) * a + w * b

Scale and shift are constants, or absent. Nodes with other readers remain. Nothing but constants is computed here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from onnx import NodeProto, TensorProto, helper

from glowembed.graph.ir import Array, Shape
from glowembed.read import normalizations
from glowembed.read.onnxfile import name_of, reads
from glowembed.read.patterns import Found, Nodes

OPSET = 23
"""The opset of the operators that are inserted."""


def recognized(
    order: Sequence[NodeProto], tensors: Mapping[str, TensorProto], outputs: Sequence[str],
    shapes: Callable[[], Mapping[str, Shape]],
) -> tuple[list[NodeProto], dict[str, TensorProto], frozenset[str]]:  # fmt: skip
    """The nodes and initializers with the recognized operators in place of their patterns, and the outputs of these
    operators.
    """
    nodes = Nodes(list(order), dict(tensors), outputs, shapes)
    changes: dict[int, list[NodeProto]] = {}
    for node in nodes.order:
        made = _found(nodes, node) if node.domain in ("", "ai.onnx") else None
        if made is not None:
            changes[id(made[0])] = made[1]
    if not changes:
        return list(order), dict(tensors), frozenset()
    outs = frozenset(node.output[0] for inserted in changes.values() for node in inserted)
    changed = [one for node in nodes.order for one in changes.get(id(node), [node])]
    return _needed(changed, outputs), nodes.tensors, outs


def _found(nodes: Nodes, node: NodeProto) -> tuple[NodeProto, list[NodeProto]] | None:
    """The last node of the pattern that ends in this node, and the nodes that replace it; None if there is no pattern,
    or if a node has too few inputs, which the importer reports.
    """
    try:
        return _replacement(nodes, node)
    except IndexError:
        return None


def _replacement(nodes: Nodes, node: NodeProto) -> tuple[NodeProto, list[NodeProto]] | None:
    """The last node of the pattern that ends in this node, and the nodes that replace it."""
    if node.op_type == "Gather":
        return _quantized_rows(nodes, node)
    if node.op_type == "Clip":
        return _fewer_bits(nodes, node)
    if node.op_type == "Where":
        return _interpolated(nodes, node) or _guarded(nodes, node)
    found = _FINDERS[node.op_type](nodes, node) if node.op_type in _FINDERS else None
    return None if found is None else _with_scale_and_shift(nodes, found)


def _fewer_bits(nodes: Nodes, node: NodeProto) -> tuple[NodeProto, list[NodeProto]] | None:
    """The Clip of integers, which Brevitas writes for activations of fewer than 8 bits, as a Clip in front of the QuantizeLinear."""
    rounded, y = nodes.maker(node.input[0], "QuantizeLinear"), node.output[0]
    scale = nodes.scalar(rounded.input[1]) if rounded is not None else None
    if rounded is None or scale is None:
        return None
    zero_point = nodes.scalar(rounded.input[2]) if len(rounded.input) > 2 else 0.0
    limits = ["", ""]
    for i, name in enumerate(node.input[1:3]):
        limit = nodes.scalar(name) if name else None
        if zero_point is None or (limit is None and name):
            return None
        if limit is not None:
            limits[i] = nodes.add(f"{y}/limit{i}", np.asarray((limit - zero_point) * scale, np.float32))
    clip = helper.make_node("Clip", [rounded.input[0], *limits], [f"{y}/limited"], name=name_of(node))
    again = NodeProto()
    again.CopyFrom(rounded)
    again.input[0], again.output[0], again.name = f"{y}/limited", y, f"{y}/quantized"
    return node, [clip, again]


def _quantized_rows(nodes: Nodes, node: NodeProto) -> tuple[NodeProto, list[NodeProto]] | None:
    """The Gather of stored integers by computed indices, as onnxruntime's optimizer writes it, between a DequantizeLinear and a
    QuantizeLinear with the scale that its readers name.
    """
    table, y = nodes.tensors.get(node.input[0]), node.output[0]
    if (
        table is None
        or table.data_type not in (TensorProto.INT8, TensorProto.UINT8)
        or nodes.array(node.input[1]) is not None
    ):
        return None
    scales = set[tuple[str, ...]]()
    for reader in nodes.readers.get(y, []):
        at = list(reader.input).index(y)
        quantized = reader.op_type == "DequantizeLinear" or reader.op_type.startswith("QLinear")
        scales.add(tuple(reader.input[at + 1 : at + 3]) if quantized else ())
    found = [*scales.pop()] if len(scales) == 1 else []
    if not found or nodes.scalar(found[0]) is None or y in nodes.outputs:
        return None
    attrs = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    return node, [
        helper.make_node("DequantizeLinear", [table.name, *found], [f"{y}/table"], name=f"{y}/table"),
        helper.make_node("Gather", [f"{y}/table", node.input[1]], [f"{y}/real"], name=name_of(node), **attrs),
        helper.make_node("QuantizeLinear", [f"{y}/real", *found], [y], name=f"{y}/quantized"),
    ]


def _guarded(nodes: Nodes, node: NodeProto) -> tuple[NodeProto, list[NodeProto]] | None:
    """The Softmax before Where(IsNaN(p), 0, p), which exporters write for masks that forbid every key. Softmax gives 0
    there anyway.
    """
    asked = nodes.maker(node.input[0], "IsNaN")
    softmax = nodes.maker(node.input[2], "Softmax")
    zero = asked is not None and asked.input[0] == node.input[2] and nodes.scalar(node.input[1]) == 0.0
    if not zero or softmax is None:
        return None
    return node, [helper.make_node("Identity", [node.input[2]], node.output, name=name_of(node))]


def _interpolated(nodes: Nodes, node: NodeProto) -> tuple[NodeProto, list[NodeProto]] | None:
    """torch.lerp, which is written in two forms of the same number, the more exact one for each weight."""
    less, low, high = (
        nodes.maker(node.input[0], "Less"),
        nodes.maker(node.input[1], "Add"),
        nodes.maker(node.input[2], "Sub"),
    )
    if less is None or low is None or high is None or nodes.scalar(less.input[1]) != 0.5:
        return None
    magnitude = nodes.maker(less.input[0], "Abs")
    weight = less.input[0] if magnitude is None else magnitude.input[0]
    for start, step in (low.input, low.input[::-1]) if len(low.input) == 2 else ():
        scaled, taken = nodes.maker(step, "Mul"), nodes.maker(high.input[1], "Mul")
        way = [name for name in scaled.input if name != weight] if scaled is not None else []
        whole = nodes.maker(way[0], "Sub") if len(way) == 1 else None
        if whole is None or taken is None or whole.input[1] != start or not nodes.same(whole.input[0], high.input[0]):
            continue
        rest = [name for name in taken.input if name != way[0]]
        one = nodes.maker(rest[0], "Sub") if len(rest) == 1 else None
        if one is not None and nodes.scalar(one.input[0]) == 1.0 and one.input[1] == weight:
            parts, y = [f"{node.output[0]}/{end}" for end in ("start", "end")], node.output[0]
            return node, [
                helper.make_node("Mul", [rest[0], start], [parts[0]], name=parts[0]),
                helper.make_node("Mul", [weight, high.input[0]], [parts[1]], name=parts[1]),
                helper.make_node("Add", parts, [y], name=name_of(node)),
            ]
    return None


def _needed(order: Sequence[NodeProto], outputs: Iterable[str]) -> list[NodeProto]:
    needed, kept = set(outputs), []
    for node in reversed(order):
        if needed.intersection(node.output):
            needed.update(reads(node))
            kept.append(node)
    return kept[::-1]


def _with_scale_and_shift(nodes: Nodes, found: Found) -> tuple[NodeProto, list[NodeProto]]:
    """The last node of a normalization, including a Mul and an Add by constants that follow it, and the node that
    replaces it.
    """
    last, constants = nodes.made[found.output], list[Array | None](found.constants)
    for kind in found.follow[len(constants) :]:
        reader = nodes.only_reader(last.output[0], kind)
        operand = _constant_operand(nodes, reader, last.output[0], found) if reader is not None else None
        constants.append(operand)
        last = last if operand is None or reader is None else reader
    arrays = [_neutral(found, i, constants) if a is None else a for i, a in enumerate(constants)]
    y = last.output[0]
    names = [nodes.add(f"{y}/{what}", a) for what, a in zip(("scale", "shift"), arrays, strict=False)]
    if not found.order:
        return last, [helper.make_node(found.kind, [found.x, *names], [y], name=name_of(last), **found.attrs)]
    back = np.argsort(found.order).tolist()
    return last, [
        helper.make_node("Transpose", [found.x], [f"{y}/rows"], name=f"{y}/rows", perm=found.order),
        helper.make_node(found.kind, [f"{y}/rows", *names], [f"{y}/normalized"], name=name_of(last), **found.attrs),
        helper.make_node("Transpose", [f"{y}/normalized"], [y], name=f"{y}/back", perm=back),
    ]


def _constant_operand(nodes: Nodes, reader: NodeProto, name: str, found: Found) -> Array | None:
    other = [n for n in reader.input if n != name]
    array = nodes.array(other[0]) if len(other) == 1 else None
    return None if array is None or array.dtype.kind != "f" else found.fits(array.astype(np.float32))


def _neutral(found: Found, i: int, constants: Sequence[Array | None]) -> Array:
    """1 for an absent scale, 0 for an absent shift, in the shape of the other constant."""
    shape = next((a.shape for a in constants if a is not None), found.shape)
    return np.full(shape, 1.0 - i, np.float32)


def _reshaped(nodes: Nodes, node: NodeProto) -> Found | None:
    """Recognize the Reshape after the InstanceNormalization of groups of channels, which is how exporters write
    GroupNormalization.
    """
    norm = nodes.maker(node.input[0], "InstanceNormalization")
    grouped = nodes.maker(norm.input[0], "Reshape") if norm is not None else None
    if norm is None or grouped is None or len(norm.input) != 3:
        return None
    x, shape, scale, bias = grouped.input[0], *map(nodes.array, (grouped.input[1], *norm.input[1:]))
    known = nodes.known.get(x)
    if shape is None or scale is None or bias is None or known is None or len(known) < 3 or len(shape) < 3:
        return None
    groups = scale.size
    flat = int(shape[1]) == groups and int(shape[0]) in (0, known[0]) and known[1] % groups == 0
    if not flat or not _is_shape_of(nodes, node.input[1], x, known):
        return None
    if not (scale == 1).all() or bias.any():
        return None
    epsilon = next((a.f for a in norm.attribute if a.name == "epsilon"), 1e-5)
    attrs = {"num_groups": groups, "epsilon": epsilon}
    return Found("GroupNormalization", x, attrs, node.output[0], lambda a: _channels(a, known), known[1:2])


def _is_shape_of(nodes: Nodes, name: str, x: str, known: Shape) -> bool:
    array = nodes.array(name)
    if array is None:
        node = nodes.maker(name, "Shape")
        return node is not None and node.input[0] == x and not node.attribute
    given = [int(d) for d in np.ravel(array)]
    return len(given) == len(known) and all(g in (-1, k) or (g == 0) for g, k in zip(given, known, strict=True))


def _channels(array: Array, shape: Shape) -> Array | None:
    """A constant with one number for each channel, as a vector; else None."""
    full = (1,) * (len(shape) - array.ndim) + array.shape
    others = full[:1] + full[2:]
    if len(full) != len(shape) or full[1] not in (1, shape[1]) or any(d != 1 for d in others):
        return None
    return np.broadcast_to(array.reshape(full[1]), (shape[1],)).copy()


_FINDERS: Mapping[str, Callable[[Nodes, NodeProto], Found | None]] = {
    "Add": normalizations.moved, "Div": normalizations.quotient, "Exp": normalizations.power, "Mul": normalizations.product,
    "Reshape": _reshaped,
}  # fmt: skip
