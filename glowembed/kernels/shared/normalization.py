"""The condition that the vector kernels of normalizations share."""

from __future__ import annotations

from glowembed.graph.ir import Node
from glowembed.graph.target import Target


def why_not(node: Node, target: Target) -> str | None:
    """The reason why a kernel that reads one vector after the other, with sums of 32 bits, cannot compute a node; else None."""
    p = node.params
    if p.positions > 1 or p.groups > 1:
        return "its groups are not vectors that follow each other"
    if p.extra or p.bits < 1:
        return "its vectors are longer than 256 elements, or its outputs are beyond the range of their type"
    return None
