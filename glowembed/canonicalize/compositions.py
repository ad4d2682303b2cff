"""Joins elementwise operators that start from one tensor and meet again, such as x * sigmoid(x), into one function.

In and out: Graphs. The output of the new node is the value of the last operator, under its name. The values in between
are removed, so they need neither ranges nor memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from glowembed.canonicalize.rewrite import only_reader, origins, replaced
from glowembed.graph.ir import Graph, Node
from glowembed.graph.registry import ops
from glowembed.ops.composed import Composed


def compose(graph: Graph) -> Graph:
    """Join the operators between a tensor and an operator whose two operands were both made from it."""
    for node in graph.nodes:
        computed = _computed(graph, node)
        if ops()[node.op].dependence != "pair" or len(computed) != 2:
            continue
        ways = [_ways(graph, name) for name in computed]
        source = next((name for name in ways[0] if name in ways[1]), None)
        if source is None:
            continue
        between = {name for way in ways for name in way[: way.index(source)]}
        group = [n for n in graph.nodes if n is node or between.intersection(n.outputs)]
        if _only_here(graph, group, between) and _plain(graph, [source, *between, *node.outputs]):
            return _joined(graph, source, group)
    return graph


def extend(graph: Graph) -> Graph:
    """Join such a function, or an exponential, with the only operator that reads it if that operator has a constant
    number as the other operand, such as the factor 1/2 of a GELU, or the steps of a sigmoid written out as an
    exponential: no single scale can represent both its small and its large powers.
    """
    for node in graph.nodes:
        reader = only_reader(graph, node.outputs[0]) if ops()[node.op].joins else None
        if reader is not None and _source(graph, reader) and _plain(graph, [*node.outputs, *reader.outputs]):
            return _joined(graph, node.inputs[0], [node, reader])
    return graph


def _computed(graph: Graph, node: Node) -> list[str]:
    """The inputs that are not constants, each once."""
    return [name for name in dict.fromkeys(node.inputs) if graph.values[name].const is None]


def _source(graph: Graph, node: Node) -> str | None:
    """The tensor of which the node is an elementwise function, apart from constant numbers, or None."""
    op, computed = ops()[node.op], _computed(graph, node)
    if not op.elementwise or op.converts or op.dependence not in ("pointwise", "pair") or len(computed) != 1:
        return None
    same = graph.values[computed[0]].shape == graph.values[node.outputs[0]].shape
    numbers = all(graph.values[name].elements == 1 for name in node.inputs if name not in computed)
    return computed[0] if same and numbers else None


def _ways(graph: Graph, name: str) -> list[str]:
    """The values from this one back to the first one of which it is an elementwise function."""
    found, producer = [name], graph.producer()
    while (node := producer.get(found[-1])) is not None and (source := _source(graph, node)) is not None:
        found.append(source)
    return found


def _only_here(graph: Graph, group: Sequence[Node], between: set[str]) -> bool:
    """Whether there are values in between, and nothing else reads them."""
    readers = graph.consumers()
    return bool(between) and not any(
        name in graph.outputs or any(reader not in group for reader in readers[name]) for name in between
    )


def _plain(graph: Graph, names: Sequence[str]) -> bool:
    """Whether all are real numbers of one shape that have no type yet."""
    values = [graph.values[name] for name in names]
    return all(v.dtype == "float32" and v.qtype is None and v.shape == values[0].shape for v in values)


def _joined(graph: Graph, source: str, group: Sequence[Node]) -> Graph:
    places: dict[str, int | float] = {source: 0}
    steps = []
    for number, node in enumerate(group, start=1):
        operands = tuple(places[name] if name in places else _number(graph, name) for name in node.inputs)
        steps.append((node.op, dict(node.attrs), operands))
        places[node.outputs[0]] = number
    last = group[-1]
    attrs = {"steps": tuple(steps), "onnx": last.operator}
    made = replace(last, op=Composed.name, inputs=(source,), attrs=attrs, origins=origins(*group))
    return replaced(graph, {**{node.name: [] for node in group}, last.name: [made]})


def _number(graph: Graph, name: str) -> float:
    const = graph.values[name].const
    assert const is not None, name
    return float(const.materialize().reshape(()))
