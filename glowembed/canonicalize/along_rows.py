"""Makes time run down the rows of a network whose streamed axis lies along the columns of its images.

In: the graph of the importer, an input, and an axis of the model's input. Out: a graph in which that axis is the first one of the input behind the
batch, and every window that moves along it has rows and columns exchanged, weights included. The other passes then cancel the Transposes around
these ops, as they do between channels first and channels last.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

import numpy as np

from glowembed.canonicalize.rewrite import constant, fresh, fresh_node, replaced
from glowembed.graph.ir import Array, Graph, Node, Shape, Value
from glowembed.graph.layout import compose, inverse, layout_name, name_permuted, permuted
from glowembed.graph.op import is_a
from glowembed.graph.registry import ops
from glowembed.graph.spatial import exchanged
from glowembed.ops.layout import Reshape, Transpose

EXCHANGE = (0, 2, 1, 3)
"""The Transpose that exchanges the rows and columns of [N, H, W, C]."""

COLUMNS = 2
"""The axis of the columns in [N, H, W, C]."""


def along_rows(graph: Graph, name: str, axis: int) -> Graph:
    """The graph in which `axis` of the model's input runs down the rows; the graph itself if there is no such input or axis."""
    if name not in graph.inputs or not 0 < axis < len(graph.values[name].shape):
        return graph
    value = graph.values[name]
    at = (value.layout or tuple(range(len(value.shape)))).index(axis)
    along = _followed(graph, name, at)
    for node in graph.nodes:
        if len(graph.values[node.inputs[0]].shape) == 4 and along.get(node.inputs[0]) == COLUMNS:
            graph = _exchanged(graph, node)
    return graph if at == 1 else _first(graph, value, at)


def _followed(graph: Graph, name: str, axis: int) -> Mapping[str, int]:
    """Where the axis is in each value that has it."""
    found = {name: axis}
    for node in graph.nodes:
        source = next((i for i in node.inputs if i in found), None)
        if source is None:
            continue
        before, after = graph.values[source].shape, graph.values[node.outputs[0]].shape
        if is_a(node, Transpose):
            place: int | None = tuple(node.attrs["perm"]).index(found[source])
        elif is_a(node, Reshape):
            place = _behind_reshape(before, found[source], after)
        else:
            place = found[source] + len(after) - len(before)
        if place is not None and 0 <= place < len(after):
            found[node.outputs[0]] = place
    return found


def _behind_reshape(before: Shape, axis: int, after: Shape) -> int | None:
    """The axis of the new shape that has the same elements; None if there is none."""
    same = (i for i, size in enumerate(after) if size == before[axis] and prod(after[:i]) == prod(before[:axis]))
    return next(same, None)


def _exchanged(graph: Graph, node: Node) -> Graph:
    """The graph with rows and columns of the windows of a node exchanged; the graph itself if the node has none."""
    attrs = exchanged(node.attrs)
    if attrs is None:
        return graph
    x, y = (graph.values[name] for name in (node.inputs[0], node.outputs[0]))
    inputs, made = list(node.inputs), list[Value]()
    for value in (x, y):
        title, layout = name_permuted(value, EXCHANGE)
        made.append(replace(value, name=fresh(graph, title), shape=permuted(value.shape, EXCHANGE), layout=layout))
    weights = graph.values[node.inputs[1]] if ops()[node.op].has_weights else None
    if weights is not None and weights.const is not None and len(weights.shape) == 4:
        made.append(constant(graph, f"{weights.name}/exchanged", weights.const.then("exchange", _weights)))
        inputs[1] = made[-1].name
    inner = replace(node, inputs=(made[0].name, *inputs[1:]), outputs=(made[1].name,), attrs=attrs)
    before, after = (fresh_node(graph, f"{node.name}/{what}") for what in ("exchange", "restore"))
    perm = {"perm": EXCHANGE}
    nodes = [
        Node(before, "Transpose", (x.name,), (made[0].name,), perm, node.origins),
        inner,
        Node(after, "Transpose", (made[1].name,), (y.name,), perm, node.origins),
    ]
    return replaced(graph, {node.name: nodes}, made)


def _weights(array: Array) -> Array:
    """[O, I, kh, kw] with rows and columns exchanged."""
    return np.ascontiguousarray(np.swapaxes(array, -2, -1))


def _first(graph: Graph, value: Value, at: int) -> Graph:
    """The graph whose input has the axis `at` behind the batch."""
    order = value.layout or tuple(range(len(value.shape)))
    perm = (0, at, *(axis for axis in range(1, len(order)) if axis != at))
    inner = replace(value, name=fresh(graph, f"{value.name}/{layout_name(order)}"), layout=order)
    outer = replace(value, shape=permuted(value.shape, perm), layout=compose(order, perm))
    back = Node(
        fresh_node(graph, inner.name), "Transpose", (value.name,), (inner.name,), {"perm": inverse(perm)}, (value.name,)
    )
    body = [node.reading({value.name: inner.name}) for node in graph.nodes]
    return graph.with_nodes([back, *body], {value.name: outer, inner.name: inner})
