"""Replaces nodes that read a whole image, such as means, by nodes that take it row by row.

In: a kernel-level graph with kernels. Out: a graph with the same bits, whose new nodes have kernels too.
"""

from __future__ import annotations

from collections.abc import Sequence

from glowembed.graph import limits
from glowembed.graph.ir import Graph, Node, verify
from glowembed.graph.op import LowerContext
from glowembed.graph.registry import kernel_ops
from glowembed.plan.costs import Costs


def by_rows(graph: Graph, costs: Costs) -> Graph:
    """A graph with the same bits in which nodes that read a whole image, of not too many rows, take it row by row if they can."""
    context, changed = LowerContext(graph), False
    for node in graph.nodes:
        op = None if node.params is None else kernel_ops().get(node.op)
        few = op is not None and all(len(rows) <= limits.ROWS_OF_A_NODE for rows in op.needs(node.params, 0))
        if op is not None and few and op.by_rows(node, context):
            changed = True
        else:
            context.nodes.append(node)
    if not changed:
        return graph
    nodes = [node if node.kernel else costs.fastest(node) for node in context.nodes]
    return verify(graph.with_nodes(_together(nodes), context.values))


def _together(nodes: Sequence[Node]) -> list[Node]:
    """The nodes with those that accumulate rows of the same value one after the other, so that they can share a group, which keeps no row."""
    found: list[Node] = []
    last: dict[str, Node] = {}
    for node in nodes:
        if node.op in kernel_ops() and kernel_ops()[node.op].accumulates:
            before = last.get(node.inputs[0])
            found.insert(len(found) if before is None else found.index(before) + 1, node)
            last[node.inputs[0]] = node
        else:
            found.append(node)
    return found
