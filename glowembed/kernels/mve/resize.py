"""Kernels of Resize for Helium: when they are exact, and their cost."""

from __future__ import annotations

from glowembed.graph.ir import Node
from glowembed.graph.op import Cost, Kernel, KernelsOf, only
from glowembed.graph.target import Target
from glowembed.ops.resize import why_not_convex

MOST_BITS = 8
"""The most bits of the weights for which int16 can hold the sums."""


def _chooses(node: Node, target: Target) -> str | None:
    return None if node.params.taps_h * node.params.taps_w == 1 else "its outputs are sums"


def _adds_four(node: Node, target: Target) -> str | None:
    p = node.params
    if (p.taps_h, p.taps_w) != (2, 2):
        return "its outputs are not sums of four elements"
    if (reason := why_not_convex(node, target)) is not None:
        return reason
    return None if p.shift <= MOST_BITS else f"its weights have {p.shift} bits, more than {MOST_BITS}"


def _nearest_cost(node: Node, target: Target) -> Cost:
    p = node.params
    return Cost(p.out_h * p.out_w * (4.0 * -(-p.channels // 16) + p.channels / 8), 200)


def _linear_cost(node: Node, target: Target) -> Cost:
    p = node.params
    rows = 8.0 * -(-p.in_w * p.channels // 8)
    return Cost(p.out_h * (rows + p.out_w * (9.0 * -(-p.channels // 8) + 18)), 250)


NEAREST = Kernel("ge_resize_nearest_s8_mve", isa="mve", when=_chooses, cost=_nearest_cost, store="rows")
LINEAR = Kernel(
    "ge_resize_linear_s8_mve",
    isa="mve",
    when=_adds_four,
    scratch=lambda p: 2 * p.in_w * p.channels,
    cost=_linear_cost,
    store="rows",
)

KERNELS: dict[str, KernelsOf] = {"resize_s8": only(NEAREST, LINEAR)}
