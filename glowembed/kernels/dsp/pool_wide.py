"""Pools of int16 on Cortex-M4, M7 and M33, and their costs.

In: kernel-level nodes of ops/pool_wide.py. Out: `Kernel`s. runtime_c/kernels/dsp/avgpool_s16_dsp.c and maxpool_s16_dsp.c explain
how they work.
"""

from __future__ import annotations

from glowembed.graph.ir import Node
from glowembed.graph.op import Cost, Kernel, only
from glowembed.graph.target import Target


def _cost(node: Node, target: Target) -> Cost:
    p = node.params
    channel = 12 + p.kernel_h * (4 + 3.0 * p.kernel_w)
    return Cost(p.out_h * p.out_w * (60 + p.channels * channel), 480)


KERNELS = {
    "avgpool_s16": only(Kernel("ge_avgpool_s16_dsp", isa="dsp", cost=_cost, store="rows")),
    "maxpool_s16": only(Kernel("ge_maxpool_s16_dsp", isa="dsp", cost=_cost, store="rows")),
}
