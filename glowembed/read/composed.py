"""Recognizes operators that exporters write out as several nodes, mostly normalizations, and replaces them by one ONNX
node.

In: the nodes of a graph in order of execution, and its initializers. Out: the same, where

    d = x - ReduceMean(x);  y = d / Sqrt(ReduceMean(d * d) + epsilon) * scale + shift         is a LayerNormalization
    y = x / Sqrt(ReduceMean(x * x) + epsilon) * scale                                          is an RMSNormalization
    y = Reshape(InstanceNormalization(Reshape(x, [0, groups, -1])), shape of x) * scale + shift  is a GroupNormalization
    y = Where(IsNaN(Softmax(x)), 0, Softmax(x))                                                is the Softmax

Scale and shift are constants, or absent; every way to write a square, a root or its reciprocal is recognized. Nodes
with other readers remain. Nothing but constants is computed here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper

from glowembed.graph.ir import Array, Shape
from glowembed.read.onnxfile import name_of, reads

OPSET = 23
"""The opset of the operators that are inserted."""

SMALL = 2**20
"""The most elements of a constant that is read here."""


@dataclass(eq=False)
class Nodes:
    """The nodes of a graph and its constants. shapes: returns the known shapes, which are computed when they are first
    needed.
    """

    order: list[NodeProto]
    tensors: dict[str, TensorProto]
    outputs: Sequence[str]
    shapes: Callable[[], Mapping[str, Shape]]
    made: dict[str, NodeProto] = field(init=False)
    readers: dict[str, list[NodeProto]] = field(init=False)

    def __post_init__(self) -> None:
        self.made = {name: node for node in self.order for name in node.output if name}
        self.readers = {}
        for node in self.order:
            for name in reads(node):
                self.readers.setdefault(name, []).append(node)

    @cached_property
    def known(self) -> Mapping[str, Shape]:
        return self.shapes()

    def maker(self, name: str, *kinds: str) -> NodeProto | None:
        """The node that makes a value, if it is a standard operator of one of these kinds; else None."""
        node = self.made.get(name)
        own = node is not None and node.domain in ("", "ai.onnx") and node.op_type in kinds
        return node if own else None

    def only_reader(self, name: str, kind: str) -> NodeProto | None:
        """The node that reads a value, if it is of this kind and the only reader; else None."""
        found = self.readers.get(name, [])
        alone = len(found) == 1 and name not in self.outputs and found[0].domain in ("", "ai.onnx")
        return found[0] if alone and found[0].op_type == kind else None

    def array(self, name: str) -> Array | None:
        """The content of a small constant, found through Identity and Cast."""
        while (node := self.maker(name, "Identity", "Cast")) is not None:
            name = node.input[0]
        tensor: Any = self.tensors.get(name)
        if tensor is None and (node := self.maker(name, "Constant")) is not None:
            (attribute,) = node.attribute[:1] or (None,)
            if attribute is None or attribute.name not in ("value", "value_float", "value_int", "value_ints"):
                return None
            if attribute.name != "value":
                return np.asarray(helper.get_attribute_value(attribute))
            tensor = attribute.t
        if tensor is None or np.prod(tensor.dims, dtype=float) > SMALL or tensor.external_data:
            return None
        try:
            return np.asarray(numpy_helper.to_array(tensor))
        except (ValueError, TypeError):
            return None  # a damaged tensor, which the importer reports

    def scalar(self, name: str) -> float | None:
        array = self.array(name)
        return (
            float(array.reshape(-1)[0]) if array is not None and array.size == 1 and array.dtype.kind in "fiu" else None
        )

    def add(self, name: str, array: Array) -> str:
        """Add a constant and return its name."""
        while name in self.made or name in self.tensors:
            name += "'"
        self.tensors[name] = numpy_helper.from_array(array, name)
        return name


@dataclass(frozen=True)
class Found:
    """A normalization without its scale and shift: its input, its attributes, and the value that it makes."""

    kind: str
    x: str
    attrs: Mapping[str, Any]
    output: str
    fits: Callable[[Array], Array | None]
    """Turns the constant of a Mul or Add into an input of the operator, or returns None if it does not fit."""

    shape: Shape = (1,)
    """The shape of scale and shift if both are absent."""


def recognized(
    order: Sequence[NodeProto], tensors: Mapping[str, TensorProto], outputs: Sequence[str],
    shapes: Callable[[], Mapping[str, Shape]],
) -> tuple[list[NodeProto], dict[str, TensorProto], frozenset[str]]:  # fmt: skip
    """The nodes and initializers with the recognized operators in place of their patterns, and the outputs of these
    operators.
    """
    nodes = Nodes(list(order), dict(tensors), outputs, shapes)
    changes: dict[int, NodeProto] = {}
    for node in nodes.order:
        made = _found(nodes, node) if node.domain in ("", "ai.onnx") else None
        if made is not None:
            changes[id(made[0])] = made[1]
    if not changes:
        return list(order), dict(tensors), frozenset()
    outs = frozenset(node.output[0] for node in changes.values())
    return _needed([changes.get(id(node), node) for node in nodes.order], outputs), nodes.tensors, outs


def _found(nodes: Nodes, node: NodeProto) -> tuple[NodeProto, NodeProto] | None:
    """The last node of the pattern that ends in this node, and the node that replaces it; None if there is no pattern,
    or if a node has too few inputs, which the importer reports.
    """
    try:
        return _replacement(nodes, node)
    except IndexError:
        return None


def _replacement(nodes: Nodes, node: NodeProto) -> tuple[NodeProto, NodeProto] | None:
    """The last node of the pattern that ends in this node, and the node that replaces it."""
    if node.op_type == "Where":
        source = _guarded(nodes, node)
        return (
            None if source is None else (node, helper.make_node("Identity", [source], node.output, name=name_of(node)))
        )
    found = _FINDERS[node.op_type](nodes, node) if node.op_type in _FINDERS else None
    return None if found is None else _with_scale_and_shift(nodes, found)


def _guarded(nodes: Nodes, node: NodeProto) -> str | None:
    """The Softmax before Where(IsNaN(p), 0, p), which exporters write for masks that forbid every key. Softmax gives 0
    there anyway.
    """
    if len(node.input) != 3:  # the importer refuses a malformed node
        return None
    asked = nodes.maker(node.input[0], "IsNaN")
    softmax = nodes.maker(node.input[2], "Softmax")
    zero = asked is not None and asked.input[0] == node.input[2] and nodes.scalar(node.input[1]) == 0.0
    return str(node.input[2]) if zero and softmax is not None else None


def _needed(order: Sequence[NodeProto], outputs: Iterable[str]) -> list[NodeProto]:
    needed, kept = set(outputs), []
    for node in reversed(order):
        if needed.intersection(node.output):
            needed.update(reads(node))
            kept.append(node)
    return kept[::-1]


def _with_scale_and_shift(nodes: Nodes, found: Found) -> tuple[NodeProto, NodeProto]:
    """The last node of a normalization, including a Mul and an Add by constants that follow it, and the node that
    replaces it.
    """
    last, constants = nodes.made[found.output], []
    for kind in ("Mul", "Add") if found.kind != "RMSNormalization" else ("Mul",):
        reader = nodes.only_reader(last.output[0], kind)
        operand = _constant_operand(nodes, reader, last.output[0], found) if reader is not None else None
        constants.append(operand)
        last = last if operand is None or reader is None else reader
    arrays = [_neutral(found, i, constants) if a is None else a for i, a in enumerate(constants)]
    y = last.output[0]
    names = [nodes.add(f"{y}/{what}", a) for what, a in zip(("scale", "shift"), arrays, strict=False)]
    return last, helper.make_node(found.kind, [found.x, *names], [y], name=name_of(last), **found.attrs)


def _constant_operand(nodes: Nodes, reader: NodeProto, name: str, found: Found) -> Array | None:
    other = [n for n in reader.input if n != name]
    array = nodes.array(other[0]) if len(other) == 1 else None
    return None if array is None or array.dtype.kind != "f" else found.fits(array.astype(np.float32))


def _neutral(found: Found, i: int, constants: Sequence[Array | None]) -> Array:
    """1 for an absent scale, 0 for an absent shift, in the shape of the other constant."""
    shape = next((a.shape for a in constants if a is not None), found.shape)
    return np.full(shape, 1.0 - i, np.float32)


def _quotient(nodes: Nodes, node: NodeProto) -> Found | None:
    """Recognize d / Sqrt(v), or d times its reciprocal."""
    if len(node.input) != 2:
        return None
    pairs = [tuple(node.input)] if node.op_type == "Div" else [tuple(node.input), tuple(reversed(node.input))]
    for dividend, divisor in pairs:
        square = (_root if node.op_type == "Div" else _reciprocal_root)(nodes, divisor)
        found = _layer(nodes, dividend, square, node) if square is not None else None
        if found is not None:
            return found
    return None


def _root(nodes: Nodes, name: str) -> str | None:
    """v if the value is the square root of v, else None."""
    if (node := nodes.maker(name, "Sqrt")) is not None:
        return str(node.input[0])
    node = nodes.maker(name, "Pow")
    return str(node.input[0]) if node is not None and nodes.scalar(node.input[1]) == 0.5 else None


def _reciprocal_root(nodes: Nodes, name: str) -> str | None:
    """v if the value is the reciprocal square root of v, else None."""
    if (node := nodes.maker(name, "Reciprocal")) is not None:
        return _root(nodes, node.input[0])
    if (node := nodes.maker(name, "Div")) is not None:
        return _root(nodes, node.input[1]) if nodes.scalar(node.input[0]) == 1.0 else None
    node = nodes.maker(name, "Pow")
    return str(node.input[0]) if node is not None and nodes.scalar(node.input[1]) == -0.5 else None


def _layer(nodes: Nodes, dividend: str, variance: str, node: NodeProto) -> Found | None:
    total = nodes.maker(variance, "Add")
    if total is None:
        return None
    for i in (0, 1):
        epsilon, mean = nodes.scalar(total.input[1 - i]), nodes.maker(total.input[i], "ReduceMean")
        if epsilon is None or mean is None or epsilon < 0:
            continue
        squared, axes = _squared(nodes, mean.input[0]), _axes(nodes, mean)
        if squared is None or axes is None:
            return None
        x = _less_mean(nodes, squared, axes)
        centred = x is not None and _less_mean(nodes, dividend, axes) == x
        if not centred and squared != dividend:
            return None
        kind = "LayerNormalization" if centred else "RMSNormalization"
        attrs = {"axis": axes[0], "epsilon": epsilon}
        fits = partial(_suffix, rank=len(axes))
        return Found(kind, x if centred and x else dividend, attrs, node.output[0], fits)
    return None


def _squared(nodes: Nodes, name: str) -> str | None:
    """d if the value is the square of d, else None."""
    node = nodes.maker(name, "Pow", "Mul")
    if node is None or len(node.input) != 2:
        return None
    square = nodes.scalar(node.input[1]) == 2.0 if node.op_type == "Pow" else node.input[0] == node.input[1]
    return str(node.input[0]) if square else None


def _less_mean(nodes: Nodes, name: str, axes: list[int]) -> str | None:
    """x if the value is x minus its mean over these axes, else None."""
    node = nodes.maker(name, "Sub")
    mean = nodes.maker(node.input[1], "ReduceMean") if node is not None else None
    if node is None or mean is None or mean.input[0] != node.input[0] or _axes(nodes, mean) != axes:
        return None
    return str(node.input[0])


def _axes(nodes: Nodes, node: NodeProto) -> list[int] | None:
    """The axes of a ReduceMean that keeps them, counted from the end, if they are the last ones; else None."""
    attrs = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    given = nodes.array(node.input[1]) if len(node.input) > 1 and node.input[1] else attrs.get("axes")
    if given is None or attrs.get("keepdims", 1) != 1:
        return None
    axes = [int(a) for a in np.ravel(np.asarray(given))]
    if any(a >= 0 for a in axes):
        if node.input[0] not in nodes.known:
            return None
        axes = [a - len(nodes.known[node.input[0]]) if a >= 0 else a for a in axes]
    axes.sort()
    return axes if axes and axes == list(range(-len(axes), 0)) else None


def _suffix(array: Array, rank: int) -> Array | None:
    """The constant without leading axes of size 1, if the rest belongs to the last `rank` axes; else None."""
    while array.ndim > rank and array.shape[0] == 1:
        array = array[0]
    return array.reshape(array.shape or (1,)) if array.ndim <= rank else None


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
    "Div": _quotient, "Mul": _quotient, "Reshape": _reshaped,
}  # fmt: skip
