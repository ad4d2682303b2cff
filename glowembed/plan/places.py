"""Decides where inputs and outputs lie: in the arena, in buffers of the caller, or nowhere if rows are handed over one
by one.

In: a kernel-level graph. Out: a graph with the same bits and with `Value.place` set, with nodes that take the rows of
an input, and with copies if two tensors of the caller would share memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from glowembed.errors import UsageError
from glowembed.graph.ir import Graph, Node, verify
from glowembed.graph.op import free_name
from glowembed.graph.plan import Places
from glowembed.graph.registry import kernel_ops
from glowembed.plan.rows import stored_together
from glowembed.plan.states import copied, keep


def place(graph: Graph, places: Places) -> Graph:
    """The graph with places for its states, inputs and outputs."""
    graph = keep(graph)
    if places == Places():
        return graph
    if both := [name for name in graph.outputs if name in graph.inputs]:
        option = "--io caller" if places.io == "caller" else "--input rows"
        raise UsageError(
            f"{option}: the output {both[0]!r} is an input of the model, and the two have one memory: leave both in the arena, or"
            " name the other outputs with --outputs"
        )
    if places.input == "rows":
        graph = _by_rows(graph)
    if places.io == "caller":
        graph = _of_the_caller(graph, [n for n in graph.inputs if graph.values[n].place == "arena"])
    return verify(graph)


def _by_rows(graph: Graph) -> Graph:
    """Add a node after each input that asks for its rows, in the size that its readers need."""
    values, nodes, fed = dict(graph.values), [], {}
    taken = {node.name for node in graph.nodes}
    for name in graph.free_inputs:
        value = values[name]
        inner = replace(value, name=free_name(f"{name}/rows", values))
        row = _row_bytes(graph, name)
        params = kernel_ops()["take_rows"].params(value.bytes // row, row)
        values |= {inner.name: inner, name: replace(value, place="rows")}
        fed[name] = inner.name
        nodes.append(Node(free_name(f"{name}/rows", taken), "take_rows", (name,), (inner.name,), params=params))
    readers = [replace(n, inputs=tuple(fed.get(i, i) for i in n.inputs)) for n in graph.nodes]
    return graph.with_nodes([*nodes, *readers], values)


def _row_bytes(graph: Graph, name: str) -> int:
    """The bytes of a row as the readers define it, or of the whole tensor if the readers do not agree."""
    size, found = graph.values[name].bytes, set()
    for node in graph.nodes:
        for i in (i for i, n in enumerate(node.inputs) if n == name):
            if node.shares == i and node.params is None:
                found.add(_row_bytes(graph, node.outputs[0]))
            else:
                op = kernel_ops().get(node.op)
                found.add(op.row_bytes(node.params)[0][i] if op is not None and node.params is not None else size)
    return found.pop() if len(found) == 1 and size % next(iter(found)) == 0 else size


def _of_the_caller(graph: Graph, inputs: Iterable[str]) -> Graph:
    """Give inputs and outputs separate buffers of the caller, with a copy for each that would share memory with another
    one.
    """
    kept: set[tuple[str, ...]] = set()
    together = stored_together(graph)
    apart = []
    outputs = tuple(dict.fromkeys(name for name in graph.outputs if graph.values[name].place == "arena"))
    for name in (*inputs, *outputs):
        apart += [name] if together[name] in kept else []
        kept.add(together[name])
    for name in apart:
        graph = copied(graph, name)
    mine = {*inputs, *outputs}
    values = {n: replace(v, place="caller") if n in mine else v for n, v in graph.values.items()}
    return replace(graph, values=values)
