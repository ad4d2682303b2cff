"""Turns the slices of a run into tables and parts of layers, for the C files and the manifest of a bundle.

In: a kernel-level graph, its Slices, and the layers as in the template's context. Out: rows for the templates, and the
entry of bundle.json.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from glowembed.emit.schedule import layer_numbers
from glowembed.emit.tables import lines
from glowembed.graph.cstruct import c_initialiser, counting_type, ctypes_struct
from glowembed.graph.ir import Graph
from glowembed.graph.plan import Plan
from glowembed.graph.registry import kernel, kernel_ops
from glowembed.plan.slices import Calls, Division, Slices
from glowembed.plan.states import block_size


def entry(
    graph: Graph, plan: Plan, slices: Slices | None, layers: Sequence[Mapping[str, Any]]
) -> dict[str, Any] | None:
    """The tables of NAME_step; None for a bundle without it."""
    if slices is None:
        return None
    return {
        "limit": slices.limit,
        "count": len(slices.starts),
        "longest": round(slices.longest),
        "extra": slices.extra,
        "position": block_size(graph, plan.alignment),
        "ends": table([*slices.starts, len(slices.calls)]),
        **calls_entry(graph, slices, layers),
    }


def calls_entry(graph: Graph, calls: Calls, layers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The tables of the calls of a run, and the layers of which parts of a row are a call."""
    number = layer_numbers(graph)
    rows = {number[node]: one.rows for node, one in calls.divisions.items()}
    divided = {number[node]: one for node, one in calls.divisions.items() if one.parts}
    parts = {layer: len(one.parts) for layer, one in divided.items()}
    return {
        "layers": table([number[node] for node, _ in calls.calls]),
        "numbers": table([call for _, call in calls.calls]),
        "rows": table([rows[layer] for layer in range(len(layers))]),
        "parts": table([parts.get(layer, 1) for layer in range(len(layers))]),
        "divided": [_divided(graph, layer, layers[layer], one) for layer, one in sorted(divided.items())],
    }


def table(numbers: Sequence[int]) -> dict[str, Any]:
    """A table of numbers in the smallest type."""
    return {"type": counting_type(max(numbers, default=0)), "count": len(numbers), "lines": lines(numbers, 24)}


def _divided(graph: Graph, layer: int, texts: Mapping[str, Any], one: Division) -> dict[str, Any]:
    """A layer whose calls compute parts of a row. Equal params are stored once."""
    node = one.parts[0].node
    names = list(kernel(node.kernel or "").ctypes(kernel_ops()[node.op]))
    params = {c_initialiser(part.node.params): bytes(ctypes_struct(part.node.params)) for part in one.parts}
    rows = part_rows(one, [[part.first.get(name, 0) for name in names] for part in one.parts])
    constants = [f"{text} + part[{3 + i}]" for i, text in enumerate(texts["constants"])]
    kept = {
        "part_constants": constants,
        "part_params": list(params),
        "part_params_bytes": list(params.values()),
        "part_params_at": f"part_params{layer}",
        "shifted": True,
    }
    return {"layer": layer, **texts, **kept, "parts": rows, "numbers": 3 + len(names)}


def part_rows(one: Division, constants: Sequence[Sequence[int]]) -> list[str]:
    """The rows of the table of parts: params, bytes before the part in a row of input and output, and where its constants begin."""
    params = list(dict.fromkeys(c_initialiser(part.node.params) for part in one.parts))
    numbers = [
        [params.index(c_initialiser(part.node.params)), part.read, part.written, *first]
        for part, first in zip(one.parts, constants, strict=True)
    ]
    return [f"{{ {', '.join(map(str, row))} }}," for row in numbers]


def recorded(slices: Mapping[str, Any]) -> dict[str, Any]:
    """The slices for the manifest."""
    return {key: slices[key] for key in ("limit", "count", "longest", "extra", "position")}
