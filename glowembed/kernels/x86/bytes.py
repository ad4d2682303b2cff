"""Kernels of x86-64 that move or compare bytes, without sums: when they apply, their scratch and costs."""

from __future__ import annotations

from typing import Any

from glowembed.graph.ir import Node
from glowembed.graph.op import Cost, Kernel, only
from glowembed.graph.spatial import PoolParams

VECTOR = 64
"""The bytes of a register at the best level."""


def _vectors(count: int) -> int:
    return -(-count // VECTOR)


def _columns(p: PoolParams) -> int:
    return int((p.out_w - 1) * p.stride_w + (p.kernel_w - 1) * p.dilation_w + 1)


def _maxpool_cost(node: Node, target: Any) -> Cost:
    p = node.params
    across = _vectors(p.out_w * p.channels) if p.stride_w == 1 else p.out_w * (3 + _vectors(p.channels))
    return Cost(
        p.out_h * (1.5 * p.kernel_h * _vectors(_columns(p) * p.channels) + 1.5 * p.kernel_w * across + 60), 1200
    )


def _channels_last_cost(node: Node, target: Any) -> Cost:
    """The cost: squares of 16 x 16 bytes, or runs of 16 pixels for a few planes."""
    p = node.params
    sixteens = -(-p.rows * p.columns // 16)
    few = p.channels <= 4
    return Cost(sixteens * (20.0 if few else 40.0 + 50.0 * -(-p.channels // 16)) + 40, 1800)


KERNELS = {
    "channels_last_s8": only(
        Kernel("ge_channels_last_s8_x86", isa="x86", cost=_channels_last_cost, store="rows", columns=False)
    ),
    "maxpool_s8": only(
        Kernel(
            "ge_maxpool_s8_x86",
            isa="x86",
            scratch=lambda p: 8 * max(p.kernel_h, p.kernel_w) + _columns(p) * p.channels,
            cost=_maxpool_cost,
            store="rows",
        )
    ),
    "lut_s8": only(
        Kernel(
            "ge_lut_s8_x86",
            isa="x86",
            cost=lambda n, t: Cost(n.params.rows * (30.0 * _vectors(n.params.row) + 40), 1500),
            store="elements",
        )
    ),
}
