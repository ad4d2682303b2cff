"""Tells which inputs may hold NaN, which stands for a missing number. In: a graph before or after lowering."""

from __future__ import annotations

from glowembed.graph.ir import Graph, Node
from glowembed.ops.nest import NestParams


def may_be_missing(graph: Graph, name: str) -> bool:
    """Whether elements of an input may be NaN: it is stored as a float, and a node tests it, or what is computed from
    it, for NaN, as an Imputer, IsNaN and trees with a way for missing numbers do.
    """
    value, reached = graph.values[name], {name}
    if value.qtype is not None or not value.dtype.startswith("float"):
        return False
    for node in graph.nodes:
        if reached.intersection(node.inputs):
            if _tests_for_nan(node):
                return True
            reached.update(node.outputs)
    return False


def _tests_for_nan(node: Node) -> bool:
    params = node.params or node.attrs.get("params")
    return isinstance(params, NestParams) and '"isnan"' in params.program
