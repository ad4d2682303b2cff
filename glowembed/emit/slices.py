"""Turns the slices of a run into tables and parts of layers, for the C files and the manifest of a bundle.

In: a kernel-level graph, its Slices, and the layers as in the template's context. Out: rows for the templates, and the
entry of bundle.json.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from glowembed.emit.schedule import layer_numbers, lines
from glowembed.graph.cstruct import c_initialiser, counting_type, ctypes_struct
from glowembed.graph.ir import Graph
from glowembed.graph.plan import Plan
from glowembed.graph.registry import kernel, kernel_ops
from glowembed.plan.slices import Division, Slices
from glowembed.plan.states import block_size


def entry(
    graph: Graph, plan: Plan, slices: Slices | None, layers: Sequence[Mapping[str, Any]]
) -> dict[str, Any] | None:
    """The tables of NAME_step; None for a bundle without it."""
    if slices is None:
        return None
    number = layer_numbers(graph)
    calls = [(number[node], call) for node, call in slices.calls]
    ends = [*slices.starts, len(calls)]
    rows = {number[node]: one.rows for node, one in slices.divisions.items()}
    divided = {number[node]: one for node, one in slices.divisions.items() if one.parts}
    parts = {layer: len(one.parts) for layer, one in divided.items()}
    return {
        "limit": slices.limit,
        "count": len(slices.starts),
        "longest": round(slices.longest),
        "extra": slices.extra,
        "position": block_size(graph, plan.alignment),
        "layers": _table([layer for layer, _ in calls]),
        "numbers": _table([call for _, call in calls]),
        "ends": _table(ends),
        "rows": _table([rows[layer] for layer in range(len(layers))]),
        "parts": _table([parts.get(layer, 1) for layer in range(len(layers))]),
        "divided": [_divided(graph, layer, layers[layer], one) for layer, one in sorted(divided.items())],
    }


def _table(numbers: Sequence[int]) -> dict[str, Any]:
    return {"type": counting_type(max(numbers, default=0)), "count": len(numbers), "lines": lines(numbers, 24)}


def _divided(graph: Graph, layer: int, texts: Mapping[str, Any], one: Division) -> dict[str, Any]:
    """A layer whose calls compute parts of a row. Equal params are stored once."""
    node = one.parts[0].node
    names = list(kernel(node.kernel or "").ctypes(kernel_ops()[node.op]))
    params: dict[str, bytes] = {}
    rows = []
    for part in one.parts:
        text = c_initialiser(part.node.params)
        params.setdefault(text, bytes(ctypes_struct(part.node.params)))
        first = [part.first.get(name, 0) for name in names]
        rows.append(f"{{ {', '.join(map(str, [list(params).index(text), part.read, part.written, *first]))} }},")
    kept = {
        "part_params": list(params),
        "part_params_bytes": list(params.values()),
        "part_params_at": f"part_params{layer}",
    }
    return {"layer": layer, **texts, **kept, "parts": rows, "numbers": 3 + len(names)}


def recorded(slices: Mapping[str, Any]) -> dict[str, Any]:
    """The slices for the manifest."""
    return {key: slices[key] for key in ("limit", "count", "longest", "extra", "position")}
