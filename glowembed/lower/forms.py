"""The two forms of a one-dimensional signal: by rows, one element of time below the other, or as a line, one row of pixels.

In: a kernel-level graph. Out: a graph with the same values and the same bits, whose nodes compute images of one row or
of one column in the other form. Both have the same elements in the same order in memory. Rows can be computed one after
the other, which saves RAM; most kernels are faster on a line.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from glowembed.graph.ir import Array, Graph, Node
from glowembed.graph.registry import kernel_ops


def by_rows(graph: Graph) -> Graph:
    """The graph in which time runs down the rows of every image that is one row."""
    return _turned(graph, rows=True)


def as_lines(graph: Graph) -> Graph:
    """The graph in which every image of one column is one row."""
    return _turned(graph, rows=False)


def _turned(graph: Graph, rows: bool) -> Graph:
    nodes = tuple(_node(graph, node, rows) for node in graph.nodes)
    windows = any(
        new is not old and hasattr(new.params, "kernel_h") for new, old in zip(nodes, graph.nodes, strict=True)
    )
    return replace(graph, nodes=nodes) if windows else graph


def _node(graph: Graph, node: Node, rows: bool) -> Node:
    """The node in the other form; the node itself if its image has several rows and columns, or if it has only one form."""
    op, shape = kernel_ops().get(node.op), graph.values[node.outputs[0]].shape
    if op is None or node.params is None or len(shape) not in (3, 4) or shape[0] != 1:
        return node
    height, width = (shape[1], 1) if len(shape) == 3 else shape[1:3]
    if (height if rows else width) > 1:
        return node
    params = op.geometry.turned(node.params, width if rows else None)
    if params is None:
        return node
    constants = node.constants
    if hasattr(params, "kernel_h") and "weights" in constants:
        constants = {**constants, "weights": constants["weights"].then("turn", _weights)}
    return replace(node, params=params, constants=constants)


def _weights(array: Array) -> Array:
    """[O, kh, kw, I] or [kh, kw, O] with rows and columns exchanged."""
    return np.ascontiguousarray(np.swapaxes(array, -3, -2))
