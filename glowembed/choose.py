"""Which C kernel computes each node on a target: the cheapest of those that are legal there.

In: a kernel-level graph and a target. Out: the graph with `Node.kernel` set, and what was rejected and why.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from glowembed.ir import Graph, Node
from glowembed.op import Kernel, kernel_ops
from glowembed.target import Target


@dataclass(frozen=True)
class Choice:
    """One kernel considered for one node; `reason` says why it was not taken, None for the one that was."""

    node: str
    kernel: str
    cycles: float
    reason: str | None


def choose(graph: Graph, target: Target, allowed: Collection[str] = ()) -> tuple[Graph, tuple[Choice, ...]]:
    """The graph with kernels, and all that was considered in order. `allowed`: options of kernels that may be taken."""
    nodes, choices = [], []
    for node in graph.nodes:
        considered = [_consider(node, kernel, target, allowed) for kernel in kernel_ops()[node.op].kernels]
        legal = sorted((c for c in considered if c.reason is None), key=lambda c: (c.cycles, c.kernel))
        if not considered:
            nodes.append(node)
            continue
        best = legal[0].kernel
        nodes.append(replace(node, kernel=best))
        choices += [c if c.reason or c.kernel == best else replace(c, reason="slower") for c in considered]
    return replace(graph, nodes=tuple(nodes)), tuple(choices)


def _consider(node: Node, kernel: Kernel, target: Target, allowed: Collection[str]) -> Choice:
    if kernel.isa and kernel.isa not in target.isa:
        return Choice(node.name, kernel.symbol, 0.0, f"needs {kernel.isa}")
    if kernel.option and kernel.option not in allowed:
        return Choice(node.name, kernel.symbol, 0.0, f"needs --{kernel.option}")
    return Choice(node.name, kernel.symbol, kernel.cost(node, target).cycles, kernel.when(node, target))
