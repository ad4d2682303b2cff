"""Bounds the stored values that each channel of each tensor can take for any input, exactly by the integer law.

In: a quantized semantic graph. Out: for each value, the lowest and highest stored integer of each channel (last axis).
Sums of products are bounded by interval arithmetic on exactly the accumulators that lowering makes. Other ops are
bounded by running their lowered kernels on the ends of the intervals, between which they are monotone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from glowembed.graph.ir import Array, Graph, Node, Shape, Value
from glowembed.graph.op import Dependence, LowerContext, is_a
from glowembed.graph.registry import kernel_ops, ops
from glowembed.law import fixedpoint
from glowembed.ops.shared.linear import LinearConstants, clamp_limits, linear_constants, mode_of
from glowembed.ops.softmax import SoftmaxS8
from glowembed.records import dataclass

MOST_ELEMENTS = 2**22
"""The most elements of a tensor that is evaluated at the ends of its intervals; the channels of a larger tensor are not
bounded.
"""


@dataclass(frozen=True, eq=False)
class Interval:
    """The lowest and the highest stored integer of each channel, as int64."""

    low: Array
    high: Array

    @property
    def constant(self) -> Array:
        return np.asarray(self.low == self.high)


Intervals = Mapping[str, Interval]


def intervals(graph: Graph) -> dict[str, Interval]:
    """The intervals of every value with an int8 type per tensor, constants included."""
    known: dict[str, Interval] = {}
    for name in graph.inputs:
        known[name] = _anything(graph.values[name])
    for name, value in graph.values.items():
        if value.const is not None and is_int8(value) and len(value.shape) > 0:
            stored = _stored(value).astype(np.int64).reshape(-1, value.shape[-1])
            known[name] = Interval(stored.min(axis=0), stored.max(axis=0))
    for node in graph.nodes:
        for name in node.outputs:
            known[name] = _of_output(graph, node, known)
    return known


def is_int8(value: Value) -> bool:
    return value.qtype is not None and value.qtype.dtype == "int8" and value.qtype.axis is None


def is_understood(graph: Graph, node: Node) -> bool:
    """Whether a node has int8 inputs and outputs and an op that is handled here, so that its effect on channels is
    known.
    """
    data = node.inputs[:1] if ops()[node.op].has_weights else node.inputs
    return all(is_int8(graph.values[name]) and graph.values[name].shape for name in (*data, *node.outputs))


def dependence(node: Node) -> Dependence:
    return ops()[node.op].dependence


def is_pointwise(node: Node) -> bool:
    """Whether each output depends on one input element of its channel, by one function."""
    return dependence(node) == "pointwise"


def is_depthwise(graph: Graph, node: Node) -> bool:
    """Whether each output channel is a sum over one input channel, which taps read at several positions."""
    if dependence(node) != "sum" or ops()[node.op].scatters:
        return False
    return bool(node.attrs.get("group", 1) > 1 and graph.values[node.inputs[1]].shape[1] == 1)


def is_sum(graph: Graph, node: Node) -> bool:
    """Whether each output channel sums over the input channels of its group."""
    return dependence(node) == "sum" and not is_depthwise(graph, node)


def channels_read(graph: Graph, node: Node) -> Array:
    """The input channel to which each weight of a sum belongs, [outputs, inputs of a group]."""
    outputs, inputs = graph.values[node.inputs[1]].shape[:2]
    group = node.attrs.get("group", 1)
    return np.asarray(np.arange(outputs)[:, None] // (outputs // group) * inputs + np.arange(inputs))


def _anything(value: Value) -> Interval:
    low, high = value.qtype.limits if value.qtype is not None else (0, 0)
    channels = value.shape[-1] if value.shape else 1
    return Interval(np.full(channels, low, np.int64), np.full(channels, high, np.int64))


def _stored(value: Value) -> Array:
    assert value.const is not None and value.qtype is not None
    return value.qtype.quantize(value.const.materialize())


def _of_output(graph: Graph, node: Node, known: Intervals) -> Interval:
    output = graph.values[node.outputs[0]]
    if not is_understood(graph, node) or any(name not in known for name in node.inputs[:1]):
        return _anything(output)
    bounds = _BOUNDS.get(dependence(node))
    return _anything(output) if bounds is None else bounds(graph, node, known)


def constants_of(graph: Graph, node: Node) -> LinearConstants:
    """Exactly the constants that lowering makes for a sum or a depthwise Conv."""
    x, w, b = (graph.values[name] for name in node.inputs)
    y = graph.values[node.outputs[0]]
    assert w.const is not None and b.const is not None
    assert x.qtype is not None and w.qtype is not None and y.qtype is not None
    xq = replace(x.qtype, zero_point=(folded_zero(graph, node),))
    return linear_constants(w.const, w.qtype, b.const, xq, y.qtype, node.name, mode_of(node.attrs))


def folded_zero(graph: Graph, node: Node) -> int:
    """The zero point that the bias compensates: that of the input, but 0 for an op that scatters, because its kernel
    subtracts it.
    """
    x = graph.values[node.inputs[0]].qtype
    assert x is not None
    return 0 if ops()[node.op].scatters else x.zero_point[0]


def weights_of(k: LinearConstants) -> Array:
    """The stored weights minus their zero points as int64, as the accumulator uses them."""
    stored = k.weights.materialize().astype(np.int64)
    if k.weight_zero_point is None:
        return stored
    zero = k.weight_zero_point.materialize().astype(np.int64)
    return np.asarray(stored - zero.reshape(-1, *[1] * (stored.ndim - 1)))


def is_padded(node: Node) -> bool:
    """Whether an output may see only some of its taps; the others count as the input's zero point."""
    return ops()[node.op].scatters or any(node.attrs.get("pads", ()))


def _of_linear(graph: Graph, node: Node, known: Intervals) -> Interval:
    x, y = (graph.values[name].qtype for name in (node.inputs[0], node.outputs[0]))
    assert x is not None and y is not None
    k = constants_of(graph, node)
    weights = weights_of(k)
    taps, read = weights.reshape(*weights.shape[:2], -1), channels_read(graph, node)
    low, high = known[node.inputs[0]].low[read], known[node.inputs[0]].high[read]
    if is_padded(node):
        low, high = np.minimum(low, x.zero_point[0]), np.maximum(high, x.zero_point[0])
    given = x.zero_point[0] - folded_zero(graph, node)
    low, high = low - given, high - given
    positive, negative = np.maximum(taps, 0).sum(axis=2), np.minimum(taps, 0).sum(axis=2)
    bias = k.bias.materialize().astype(np.int64)
    ends = (
        bias + (positive * low + negative * high).sum(axis=1),
        bias + (positive * high + negative * low).sum(axis=1),
    )
    limits = clamp_limits(y, node.attrs)
    first, last = (
        fixedpoint.requantize(end[None], k.requant, y.zero_point[0], *limits)[0].astype(np.int64) for end in ends
    )
    return Interval(first, last)


def sources(graph: Graph, node: Node) -> Array:
    """The source channel of each output element of a move, laid out as [elements, channels].

    Channels of all inputs are numbered consecutively from 1; 0 stands for the zero of a Pad.
    """
    arrays, first = [], 1
    for name in node.inputs:
        shape = graph.values[name].shape
        arrays.append(np.broadcast_to(np.arange(first, first + shape[-1], dtype=np.float64), shape))
        first += shape[-1]
    moved = ops()[node.op].float_ref(node.attrs, arrays)[0]
    return moved.astype(np.int64).reshape(-1, graph.values[node.outputs[0]].shape[-1])


def _of_move(graph: Graph, node: Node, known: Intervals) -> Interval:
    output = graph.values[node.outputs[0]]
    if any(graph.values[n].qtype != output.qtype for n in node.inputs) or any(n not in known for n in node.inputs):
        return _anything(output)
    assert output.qtype is not None
    zero = np.asarray(output.qtype.zero_point, dtype=np.int64)
    low = np.concatenate([zero, *(known[name].low for name in node.inputs)])
    high = np.concatenate([zero, *(known[name].high for name in node.inputs)])
    origin = sources(graph, node)
    return Interval(low[origin].min(axis=0), high[origin].max(axis=0))


def _of_pointwise(graph: Graph, node: Node, known: Intervals) -> Interval:
    x = known[node.inputs[0]]
    every = np.arange(-128, 128, dtype=np.int64)[:, None]
    results = evaluate(graph, node, [np.broadcast_to(every, (256, len(x.low)))]).astype(np.int64)
    possible = (every >= x.low) & (every <= x.high)
    return Interval(np.where(possible, results, 127).min(axis=0), np.where(possible, results, -128).max(axis=0))


def _of_pair(graph: Graph, node: Node, known: Intervals) -> Interval:
    """The interval of a function that is monotone in each operand, or bilinear, so that the ends of the interval are
    among the four corners.
    """
    channels = graph.values[node.outputs[0]].shape[-1]
    if any(name not in known for name in node.inputs):
        return _anything(graph.values[node.outputs[0]])
    if len(set(node.inputs)) == 1:  # x * x is least between the ends
        return _of_pointwise(graph, node, known)
    a, b = (known[name] for name in node.inputs)
    full = [np.broadcast_to(end, (channels,)) for end in (a.low, a.high, b.low, b.high)]
    corners = evaluate(
        graph, node, [np.stack([full[i] for i in (0, 0, 1, 1)]), np.stack([full[i] for i in (2, 3) * 2])]
    )
    return Interval(corners.min(axis=0).astype(np.int64), corners.max(axis=0).astype(np.int64))


def _of_pool(graph: Graph, node: Node, known: Intervals) -> Interval:
    x, output = graph.values[node.inputs[0]], graph.values[node.outputs[0]]
    if x.elements > MOST_ELEMENTS:
        return _anything(output)
    known_x = known[node.inputs[0]]
    ends = [np.broadcast_to(end, x.shape).astype(np.int8) for end in (known_x.low, known_x.high)]
    first, last = (_run(graph, node, [end]).reshape(-1, output.shape[-1]).astype(np.int64) for end in ends)
    return Interval(first.min(axis=0), last.max(axis=0))


def distances(known: Interval) -> Array:
    """A lower bound for the distance of each channel from the largest one of its vector, in steps, at most 255."""
    return np.asarray(np.clip(known.low.max() - known.high, 0, 255))


def softmax_terms(graph: Graph, node: Node, known: Interval) -> tuple[Array, Array] | None:
    """An upper bound for each channel's term of the softmax sum, and whether the channel's output is always 0; None for
    other laws.

    The sum is at least the term of the largest channel, table[0].
    """
    made, *rest = lowered(graph, node).nodes
    if rest or not is_a(made, SoftmaxS8) or made.params.n > 256:  # more channels would have another table
        return None
    table = made.constants["table"].materialize().astype(np.int64)
    terms = table[distances(known)]
    return terms, np.asarray(2 * made.params.steps * terms < table[0] * made.params.sum_scale >> 30)


def _of_softmax(graph: Graph, node: Node, known: Intervals) -> Interval:
    output = graph.values[node.outputs[0]]
    anything, found = _anything(output), softmax_terms(graph, node, known[node.inputs[0]])
    if found is None:
        return anything
    assert output.qtype is not None
    nothing = np.full_like(anything.low, output.qtype.zero_point[0])
    return Interval(nothing, np.where(found[1], nothing, anything.high))


def evaluate(graph: Graph, node: Node, stored: list[Array]) -> Array:
    """The output of the lowered node for [rows, channels] in place of its inputs."""
    values = dict(graph.values)
    for name, array in zip(node.inputs, stored, strict=False):
        values[name] = replace(values[name], shape=array.shape, const=None)
    values[node.outputs[0]] = replace(values[node.outputs[0]], shape=stored[0].shape)
    return _run(replace(graph, values=values), node, stored).reshape(stored[0].shape)


def lowered(graph: Graph, node: Node) -> LowerContext:
    """The kernel-level nodes that lowering makes for this one node."""
    context = LowerContext(graph)
    ops()[node.op].lower(node, context)
    return context


def _run(graph: Graph, node: Node, stored: list[Array]) -> Array:
    context = lowered(graph, node)
    known: dict[str, Any] = dict(zip(node.inputs, (a.astype(np.int8) for a in stored), strict=False))
    for made in context.nodes:
        constants = {name: const.materialize() for name, const in made.constants.items()}
        shape: Shape = context.shape(made.outputs[0])
        result = kernel_ops()[made.op].int_ref(made.params, [known[name] for name in made.inputs], constants)
        known[made.outputs[0]] = np.asarray(result).reshape(shape)
    return np.asarray(known[node.outputs[0]])


_BOUNDS: Mapping[Dependence, Callable[[Graph, Node, Intervals], Interval]] = {
    "sum": _of_linear,
    "axis": _of_softmax,
    "move": _of_move,
    "pointwise": _of_pointwise,
    "pair": _of_pair,
    "window": _of_pool,
}
