"""Estimates the cost of portable kernels on a target, as a linear function of the work of their loops, with figures
from targets/*.toml.

In: a node with weights, a target. Out: cycles. benchmarks/fit.py measures the figures.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from glowembed.graph.ir import Node
from glowembed.graph.op import Cost

if TYPE_CHECKING:
    from glowembed.graph.target import Target


def windowed(op: str, per_mac: float, code: int) -> Callable[[Node, Target], Cost]:
    """The cost of a windowed `op`. per_mac: the cycles for each product if the target has no figures for the op."""

    def cost(node: Node, target: Target) -> Cost:
        p, figures = node.params, target.costs
        outputs = p.out_h * p.out_w * p.out_c
        counts = {
            "mac": node.macs,
            "tap": outputs * p.kernel_h * p.kernel_w,
            "tap_row": outputs * p.kernel_h,
            "output": outputs,
        }
        known = {what: figures.get(f"{op}_cycles_per_{what}", 0.0) for what in counts}
        if not any(known.values()):
            return Cost(per_mac * node.macs, code)
        return Cost(sum(known[what] * count for what, count in counts.items()), code)

    return cost


def matrix(op: str, per_mac: float, code: int) -> Callable[[Node, Target], Cost]:
    """The cost of a fully connected `op`. per_mac: the cycles for each product if the target has no figures for the
    op.
    """

    def cost(node: Node, target: Target) -> Cost:
        each = target.costs.get(f"{op}_cycles_per_mac", per_mac)
        outputs = node.params.rows * node.params.out_c
        return Cost(each * node.macs + target.costs.get(f"{op}_cycles_per_output", 0.0) * outputs, code)

    return cost
