"""Turns the copies of weights into tables and calls, for the C and the manifest of a bundle.

In: a kernel-level graph, its Prefetch, the layers as the template has them, the constants. Out: rows for the templates, the entry of
bundle.json.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from glowembed.emit.constants import Stored
from glowembed.emit.schedule import layer_numbers
from glowembed.emit.slices import calls_entry, part_rows, table
from glowembed.graph.ir import Graph
from glowembed.graph.plan import Plan
from glowembed.graph.registry import kernel, kernel_ops
from glowembed.plan.prefetch import Prefetch
from glowembed.plan.slices import Division
from glowembed.plan.states import window_offset


def entry(
    graph: Graph,
    plan: Plan,
    found: Prefetch | None,
    layers: Sequence[Mapping[str, Any]],
    constants: Mapping[tuple[str, str], Stored],
) -> dict[str, Any] | None:
    """The tables of the copies and of the calls between them; None for a bundle without a window."""
    if found is None:
        return None
    texts = [_copy(graph, copy.block[0], copy, constants) for copy in found.copies]
    distinct = list(dict.fromkeys(texts))
    calls, window = range(len(found.calls)), window_offset(graph, plan.alignment)
    made = calls_entry(graph, found, layers)
    own = {layer: node for node, layer in layer_numbers(graph).items()}
    divided = [_divided(own[one["layer"]], found, layers[one["layer"]], one, window) for one in made["divided"]]
    return {
        **made,
        "parts": table([len(found.divisions[own[layer]].parts) for layer in range(len(layers))]),
        "divided": divided,
        "parts_any": any(one["parts"] for one in divided),
        "offset": window,
        "window": found.window,
        "copies": distinct,
        "order": table([distinct.index(text) for text in texts]) if len(distinct) < len(texts) else None,
        "begun": table([sum(copy.begins <= call for copy in found.copies) for call in calls]),
        "needed": table([sum(copy.needed <= call for copy in found.copies) for call in calls]),
        "moved": found.moved,
        "transfers": len(found.copies),
        "weights_bytes": found.weights,
        "in_place": list(found.in_place),
        "cycles": {name: round(getattr(found, name)) for name in ("fast", "slow", "copied", "overlapped")},
    }


def _copy(graph: Graph, number: int, copy: Any, constants: Mapping[tuple[str, str], Stored]) -> str:
    array = constants[graph.nodes[number].name, copy.name].id
    return f"{{ {array}{f' + {copy.first}' if copy.first else ''}, {copy.to}, {copy.bytes} }},"


def _divided(
    node: int, found: Prefetch, texts: Mapping[str, Any], made: Mapping[str, Any], window: int
) -> dict[str, Any]:
    """A layer with weights in the window. A table says where, unless there is one part only."""
    one: Division = found.divisions[node]
    own = one.parts[0].node
    types = kernel(own.kernel or "").ctypes(kernel_ops()[own.op])
    at = [[window + found.offsets.get(((node, i), name), 0) for name in types] for i in range(len(one.parts))]
    alone = len(one.parts) == 1
    where = [str(offset) for offset in at[0]] if alone else [f"part[{3 + i}]" for i in range(len(types))]
    return {
        **made,
        "part_constants": [
            f"(const {ctype} *)(const void *)(arena + {offset})"
            for ctype, offset in zip(types.values(), where, strict=True)
        ],
        "parts": [] if alone else part_rows(one, at),
        "part_params": [] if alone else made["part_params"],
        "part_params_at": texts["params_at"] if alone else made["part_params_at"],
        "shifted": any(part.read or part.written for part in one.parts),
    }


def recorded(found: Mapping[str, Any]) -> dict[str, Any]:
    """The window for the manifest: bytes moved, layers whose weights stay where they are, estimated cycles."""
    return {key: found[key] for key in ("window", "offset", "transfers", "moved", "in_place", "cycles")}
