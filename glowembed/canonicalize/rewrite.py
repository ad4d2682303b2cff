"""The basic operations of all passes: replace nodes in place, follow renamed values, remove values that nothing reads.

In and out: Graphs. This module knows no op.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from glowembed.graph.ir import Const, Graph, Node, Value
from glowembed.graph.op import Op, is_a


def remove_dead(graph: Graph) -> Graph:
    """Remove the nodes that no output depends on."""
    needed, live = set(graph.outputs), []
    for node in reversed(graph.nodes):
        if needed.intersection(node.outputs):
            needed.update(node.inputs)
            live.append(node)
    return graph if len(live) == len(graph.nodes) else graph.with_nodes(reversed(live))


def replaced(graph: Graph, changes: Mapping[str, Sequence[Node]], values: Sequence[Value] = ()) -> Graph:
    """Replace each node named in `changes` by its list of nodes, in the same place."""
    nodes = [new for node in graph.nodes for new in changes.get(node.name, (node,))]
    return graph.with_nodes(nodes, {value.name: value for value in values})


def bypassed(graph: Graph, node: Node) -> Graph | None:
    """The graph without `node`, whose output equals its input; None if both are inputs or outputs of the graph."""
    source, output = node.inputs[0], node.outputs[0]
    rest = [n for n in graph.nodes if n is not node]
    if output not in graph.outputs:
        return graph.with_nodes(n.reading({output: source}) for n in rest)
    if source in graph.inputs or source in graph.outputs or graph.values[source].const is not None:
        return None
    made = [replace(n, outputs=tuple(output if o == source else o for o in n.outputs)) for n in rest]
    return graph.with_nodes(n.reading({source: output}) for n in made)


def maker(graph: Graph, name: str, kind: type[Op]) -> Node | None:
    """The node that makes `name` if it is of this op, else None."""
    node = graph.producer().get(name)
    return node if node is not None and is_a(node, kind) else None


def only_reader(graph: Graph, name: str, kind: type[Op] | None = None) -> Node | None:
    """The node that reads `name` if there is exactly one, and it is of this op; else None."""
    readers = graph.consumers()[name]
    if len(readers) != 1 or name in graph.outputs:
        return None
    return readers[0] if kind is None or is_a(readers[0], kind) else None


def origins(*nodes: Node) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for node in nodes for name in node.origins))


def fresh(graph: Graph, name: str) -> str:
    """A name that no value has yet, made by appending primes."""
    while name in graph.values:
        name += "'"
    return name


def fresh_node(graph: Graph, name: str) -> str:
    names = {node.name for node in graph.nodes}
    while name in names:
        name += "'"
    return name


def constant(graph: Graph, name: str, const: Const) -> Value:
    """A Value for a derived constant, under a name that no value has yet."""
    return Value(fresh(graph, name), const.materialize().shape, const=const)
