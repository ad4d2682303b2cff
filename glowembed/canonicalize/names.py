"""The last pass: gives values back the names that users know.

In and out: Graphs.
"""

from __future__ import annotations

from dataclasses import replace

from glowembed.graph.ir import Graph, Value
from glowembed.graph.layout import is_identity, source_name


def restore_names(graph: Graph) -> Graph:
    """Rename `v/channels_last` to `v` if no `v` is left; the value's layout records the order of its axes."""
    names: dict[str, str] = {}
    for name, value in graph.values.items():
        source = source_name(value)
        if source is not None and value.const is None and source not in graph.values and source not in names.values():
            names[name] = source
    values = {names.get(n, n): _named(v, names.get(n, n)) for n, v in graph.values.items()}
    nodes = [
        replace(n, inputs=tuple(names.get(i, i) for i in n.inputs), outputs=tuple(names.get(o, o) for o in n.outputs))
        for n in graph.nodes
    ]
    return replace(graph, nodes=tuple(nodes), values=values)


def _named(value: Value, name: str) -> Value:
    stored_as_in_model = value.layout is not None and is_identity(value.layout)
    return replace(value, name=name, layout=None if stored_as_in_model else value.layout)
