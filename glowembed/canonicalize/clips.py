"""Merges activations that are clips, and fuses them into the op that makes their input.

In and out: Graphs. The output of the fused node is the value of the activation, under its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import inf
from typing import Any

from glowembed.canonicalize.rewrite import only_reader, origins, replaced
from glowembed.graph.ir import Graph, Node
from glowembed.graph.op import is_a
from glowembed.graph.registry import ops
from glowembed.ops.activation import Clip


def merge_clips(graph: Graph) -> Graph:
    """Merge a clip of a clip into one clip."""
    for first in graph.nodes:
        second = only_reader(graph, first.outputs[0], Clip) if is_a(first, Clip) else None
        if second is not None:
            low, high = _both((first.attrs["min"], first.attrs["max"]), second.attrs)
            merged = replace(
                second,
                name=first.name,
                inputs=first.inputs,
                attrs={"min": low, "max": high},
                origins=origins(first, second),
            )
            return replaced(graph, {first.name: [], second.name: [merged]})
    return graph


def fuse_clip(graph: Graph) -> Graph:
    """Fuse each clip into the op that makes its input, if the clip is the only reader."""
    changes: dict[str, list[Node]] = {}
    for node in graph.nodes:
        clip = only_reader(graph, node.outputs[0], Clip) if ops()[node.op].fuses_activation else None
        if clip is None or node.name in changes:
            continue
        low, high = _both((node.attrs.get("act_min", -inf), node.attrs.get("act_max", inf)), clip.attrs)
        fused = replace(
            node,
            outputs=clip.outputs,
            attrs={**node.attrs, "act_min": low, "act_max": high},
            origins=origins(node, clip),
        )
        changes |= {node.name: [fused], clip.name: []}
    return replaced(graph, changes) if changes else graph


def _both(limits: tuple[float, float], clip: Mapping[str, Any]) -> tuple[float, float]:
    """The limits of two successive clips. The second one wins, as in min(max(x, low), high)."""
    low, high = (min(max(limit, clip["min"]), clip["max"]) for limit in limits)
    return low, high
