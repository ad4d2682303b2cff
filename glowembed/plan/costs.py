"""Estimates the cycles of kernels, for a whole output or for some rows, which the planner weighs against memory.

In: the kernels that may compute each node, a target. Out: estimated cycles.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, fields, is_dataclass, replace

from glowembed.graph.ir import Node
from glowembed.graph.registry import kernel, kernel_ops
from glowembed.graph.target import Target
from glowembed.records import dataclass

CALL_CYCLES = 150.0
"""An estimate of the cycles of a call in addition to its work: the tape, the switch, the arguments, the start of the
kernel.
"""

ROW_FIELDS = ("out_h", "rows")
"""The fields of params that hold the number of output rows."""


@dataclass(frozen=True)
class Costs:
    """legal: for each node, the kernels that may compute it, with their cycles. Without a target, the cost is the
    number of calls.
    """

    target: Target | None = None
    legal: Mapping[str, Sequence[tuple[str, float]]] = field(default_factory=dict)

    def whole(self, node: Node) -> float:
        """The cycles of one call for the whole output."""
        if self.target is None or node.kernel is None:
            return 0.0
        return kernel(node.kernel).cost(node, self.target).cycles

    def fastest(self, node: Node) -> Node:
        """A node that the planner has made, with the kernel that takes the fewest cycles; other nodes as they are."""
        kernels = () if node.kernel else kernel_ops()[node.op].kernels
        if self.target is None or len(kernels) < 2:
            return replace(node, kernel=kernels[0].symbol) if kernels else node
        target, isa = self.target, ("", *self.target.isa)
        able = [k for k in kernels if k.isa in isa and not k.option and k.when(node, target) is None]
        return replace(node, kernel=min(able, key=lambda k: k.cost(node, target).cycles).symbol)

    def rows(self, node: Node, count: int) -> float:
        """The cycles of one call for `count` output rows."""
        if node.kernel is None:
            return 0.0
        if self.target is None:
            return CALL_CYCLES
        own = kernel(node.kernel)
        if own.rows_cost is not None:
            return own.rows_cost(node, self.target, count) + CALL_CYCLES
        return own.cost(smaller(node, count), self.target).cycles + CALL_CYCLES


def smaller(node: Node, count: int) -> Node:
    """The node with `count` output rows; its `macs` are reduced in proportion."""
    op = kernel_ops()[node.op]
    total = op.rows(node.params)
    if count == total or not is_dataclass(node.params) or isinstance(node.params, type):
        return node
    known = {f.name for f in fields(node.params)}
    name = next((f for f in ROW_FIELDS if f in known), None)
    params = replace(node.params, **{name: count}) if name is not None else node.params
    return replace(node, params=params, macs=node.macs * count // total)
