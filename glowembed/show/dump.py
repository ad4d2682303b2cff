"""The result of a stage as text, for `compile --dump` and for tests. In: what a stage returns. Out: lines."""

from __future__ import annotations

from typing import Any

from glowembed.graph.ir import Graph, Node, Value
from glowembed.graph.plan import Plan
from glowembed.ranges.profile import Profile
from glowembed.show.tables import shape


def dump(result: Any) -> str:
    """The result of a stage as text, for debugging the compiler."""
    if isinstance(result, Graph):
        return graph_text(result)
    if isinstance(result, Profile):
        return "\n".join(f"{name}: {v.low:.6g} .. {v.high:.6g}" for name, v in result.values.items())
    if isinstance(result, Plan):
        lines = [
            f"{offset:8} +{b.size:<8} steps {b.birth}..{b.death}  {', '.join(b.values)}" for b, offset in result.buffers
        ]
        return "\n".join([f"{result.size} bytes, at least {result.bound} if tensors are kept whole", *lines])
    return "\n".join(f"{len(content):8} {name}" for name, content in dict(result).items())


def graph_text(graph: Graph) -> str:
    """A graph, one line per input and node, in order of execution."""
    lines = [f"{graph.name}: {_value_text(graph.values[name])}" for name in graph.inputs]
    return "\n".join([*lines, *(_node_text(graph, node) for node in graph.nodes), f"return {', '.join(graph.outputs)}"])


def _value_text(value: Value) -> str:
    stored = value.dtype
    if value.qtype is not None:
        q = value.qtype
        stored = (
            f"{q.dtype} {q.scale[0]:.6g} {q.zero_point[0]:+d}" if q.axis is None else f"{q.dtype} per axis {q.axis}"
        )
    return f"{value.name}[{shape(value.shape)}] {stored}"


def _node_text(graph: Graph, node: Node) -> str:
    outputs = ", ".join(_value_text(graph.values[name]) for name in node.outputs)
    inputs = ", ".join(_value_text(graph.values[n]) if graph.const(n) is not None else n for n in node.inputs)
    attrs = " ".join(f"{key}={value}" for key, value in sorted(node.attrs.items()))
    words = (node.kernel, str(node.params) if node.params is not None else "", attrs)
    return f"{outputs} = {node.op} {node.name}({inputs}) {' '.join(filter(None, words))}".rstrip()
