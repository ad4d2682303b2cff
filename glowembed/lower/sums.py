"""Makes sums over time of the means of a window, so that a hop can go on from the sum of the window before.

In: a kernel-level graph and the values that move. Out: the graph in which the mean over all rows of such a value is the sum of its rows,
or of the sums of its rows where a row has several columns, and a division. The bits are the same, because the sums are exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from glowembed.graph.ir import Graph, Node, QType
from glowembed.graph.op import LowerContext
from glowembed.graph.registry import kernel_ops
from glowembed.lower.reuse import Moved
from glowembed.ops.pool import AvgpoolS8, MaxpoolS8
from glowembed.ops.reduce import SumRowsS8, is_whole
from glowembed.ops.sums import MOST_ELEMENTS, RowSumsParams


def with_sums(graph: Graph, found: Mapping[str, Moved]) -> Graph:
    """The graph with sums for its means over all rows of a value that moves."""
    context = LowerContext(graph)
    for node in graph.nodes:
        if not (_is_mean_of_rows(node, found) and _split(node, context)):
            context.nodes.append(node)
    return graph.with_nodes(context.nodes, {**graph.values, **context.values})


def is_sum(node: Node) -> bool:
    """Whether a node is one of these sums."""
    return node.op == SumRowsS8.name


def is_maximum(node: Node, found: Mapping[str, Moved]) -> bool:
    """Whether a node is the maximum of all elements of a value that moves."""
    return node.op == MaxpoolS8.name and _is_of_rows(node, found) and is_whole(node.params)


def _is_of_rows(node: Node, found: Mapping[str, Moved]) -> bool:
    """Whether a pool reads rows of a value that moves."""
    p, one = node.params, found.get(node.inputs[0])
    return one is not None and (p.in_h, p.in_w * p.channels) == (one.rows, one.row_bytes)


def _is_mean_of_rows(node: Node, found: Mapping[str, Moved]) -> bool:
    """Whether the node is a mean of int8 over whole rows whose sums fit int16, and the rows that leave it are kept."""
    if not node.op.startswith(AvgpoolS8.name) or not _is_of_rows(node, found):
        return False
    one = found[node.inputs[0]]
    return one.last - one.first >= one.shift and node.params.in_w <= MOST_ELEMENTS


def _split(node: Node, c: LowerContext) -> bool:
    """Add the sum and the division; False if the op is no mean of all elements."""
    before = len(c.nodes)
    if not kernel_ops()[node.op].by_rows(node, c):
        return False
    total, mean = c.nodes[before:]
    p, x = node.params, node.inputs[0]
    if p.in_w > 1:
        rows = c.derive(x, "row_sums", (1, p.in_h, p.channels), QType("int16", (c.qtype(x).scale[0],), (0,)))
        c.nodes.pop(before)
        c.nodes.pop(before)
        c.add(node, "row_sums_s8", [x], rows, RowSumsParams(p.in_h, p.in_w, p.channels, p.in_zero_point), role="rows")
        total = replace(total, inputs=(rows,), params=replace(total.params, columns=1))
        c.nodes += [total, mean]
    c.nodes[-1] = replace(mean, params=replace(mean.params, zero=0))
    return True
