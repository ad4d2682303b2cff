"""Removes Rescales and clips that change nothing, and Rescales where one rounding can replace two.

In: a quantized semantic graph, and the names whose types the model itself gives (these types are kept). Out: the same
graph with fewer nodes. Glow's list: reference in docs/quantization.md.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from glowembed.graph.ir import Graph, Node, QType
from glowembed.graph.op import is_a
from glowembed.graph.registry import ops
from glowembed.ops.concat import Concat
from glowembed.ops.copy import Rescale
from glowembed.quantize.simplify.intervals import Intervals, evaluate, intervals, is_int8


def fold_rescales(graph: Graph, given: Collection[str]) -> Graph:
    """Remove Rescales until nothing changes: those between equal types, those that merge with the op before or the ops
    after them, and those at the parts of a Concat.
    """
    changed = True
    while changed:
        before = graph
        for rewrite in (_same_type, _part_of_concat, _up, _down):
            graph = rewrite(graph, given)
        changed = graph is not before
    return graph


def _same_type(graph: Graph, given: Collection[str]) -> Graph:
    """Remove a Rescale between equal types."""
    for node in graph.nodes:
        same = is_a(node, Rescale) and graph.values[node.inputs[0]].qtype == graph.values[node.outputs[0]].qtype
        if same and (result := _bypassed(graph, node)) is not None:
            return result
    return graph


def _up(graph: Graph, given: Collection[str]) -> Graph:
    """Rewrite op, Rescale as an op that writes the second type, if the first type does not clip values that the second
    can hold.
    """
    producer = graph.producer()
    for node in graph.nodes:
        maker = producer.get(node.inputs[0]) if is_a(node, Rescale) else None
        if maker is None or not ops()[maker.op].rounds_once or not _only_reader(graph, node, node.inputs[0], given):
            continue
        first, second = graph.values[node.inputs[0]], graph.values[node.outputs[0]]
        if is_int8(first) and is_int8(second) and _covers(first.qtype, second.qtype):
            typed = graph.with_nodes(graph.nodes, {first.name: replace(first, qtype=second.qtype)})
            return _same_type(typed, given)
    return graph


def _down(graph: Graph, given: Collection[str]) -> Graph:
    """Rewrite Rescale, op as an op that reads the first type, if all readers can do so and the second type does not
    clip the first.

    Ops with weights are not changed, because their weights and biases were rounded for the scale of the input.
    """
    for node in graph.nodes:
        if not is_a(node, Rescale) or node.outputs[0] in graph.outputs or node.outputs[0] in given:
            continue
        first, second = (graph.values[name] for name in (node.inputs[0], node.outputs[0]))
        if not (is_int8(first) and is_int8(second) and _covers(second.qtype, first.qtype)):
            continue
        if all(ops()[r.op].rounds_once and not ops()[r.op].has_weights for r in graph.consumers()[second.name]):
            return _reading(graph, node)
    return graph


def _part_of_concat(graph: Graph, given: Collection[str]) -> Graph:
    """Write a value that only a Concat reads directly in the type of the Concat, with one rounding instead of two. The
    type of a Concat covers the ranges of its parts, so no further value is clipped.
    """
    producer = graph.producer()
    for node in graph.nodes:
        wanted = graph.values[node.outputs[0]]
        for name in node.inputs if is_a(node, Concat) and is_int8(wanted) else ():
            value, maker = graph.values[name], producer.get(name)
            if maker is None or value.qtype == wanted.qtype or not is_int8(value) or not ops()[maker.op].rounds_once:
                continue
            if _only_reader(graph, node, name, given) and _covers(wanted.qtype, value.qtype):
                return graph.with_nodes(graph.nodes, {name: replace(value, qtype=wanted.qtype)})
    return graph


def remove_clips(graph: Graph) -> Graph:
    """Remove functions of one number that change no value that can occur, such as a ReLU of a value that is never
    negative.
    """
    known: Intervals | None = None
    for node in graph.nodes:
        if not hasattr(ops()[node.op], "formula") or not _same_int8(graph, node):
            continue
        known = known or intervals(graph)
        if (
            node.inputs[0] in known
            and _is_identity(graph, node, known)
            and (made := _bypassed(graph, node)) is not None
        ):
            return remove_clips(made)
    return graph


def _same_int8(graph: Graph, node: Node) -> bool:
    x, y = graph.values[node.inputs[0]], graph.values[node.outputs[0]]
    return is_int8(x) and x.qtype == y.qtype


def _is_identity(graph: Graph, node: Node, known: Intervals) -> bool:
    x = known[node.inputs[0]]
    every = np.arange(int(x.low.min()), int(x.high.max()) + 1, dtype=np.int64)[:, None]
    return bool((evaluate(graph, node, [every]) == every).all())


def _covers(wide: QType | None, narrow: QType | None) -> bool:
    """Whether `wide` can hold everything that `narrow` can, up to half a step."""
    assert wide is not None and narrow is not None
    (low, high), (inner_low, inner_high) = wide.range(), narrow.range()
    half = wide.scale[0] / 2
    return low - half <= inner_low and inner_high <= high + half


def _only_reader(graph: Graph, node: Node, name: str, given: Collection[str]) -> bool:
    readers = graph.consumers()[name]
    return len(readers) == 1 and readers[0].name == node.name and name not in graph.outputs and name not in given


def _bypassed(graph: Graph, node: Node) -> Graph | None:
    """The graph without a node whose output equals its input; None if both names belong to inputs and outputs of the
    graph.
    """
    source, output = node.inputs[0], node.outputs[0]
    rest = [n for n in graph.nodes if n is not node]
    if output not in graph.outputs:
        return graph.with_nodes([n.reading({output: source}) for n in rest])
    if source in graph.inputs or source in graph.outputs or graph.values[source].const is not None:
        return None
    made = [replace(n, outputs=tuple(output if o == source else o for o in n.outputs)) for n in rest]
    return graph.with_nodes([n.reading({source: output}) for n in made])


def _reading(graph: Graph, rescale: Node) -> Graph:
    """The graph in which the node's readers read its input."""
    rest = [n for n in graph.nodes if n is not rescale]
    return graph.with_nodes([n.reading({rescale.outputs[0]: rescale.inputs[0]}) for n in rest])
