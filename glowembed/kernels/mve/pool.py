"""Pools and means for Helium: when the kernels are exact, their scratch, and their cost.

In: kernel-level nodes. Out: `Kernel`s.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from glowembed.graph.ir import Node
from glowembed.graph.op import Cost, Kernel, KernelsOf, only, together
from glowembed.kernels.mve import LANES, blocks_of, high_word
from glowembed.ops.pool import AvgpoolParams


def _avgpool_scratch(p: AvgpoolParams) -> int:
    """The scratch: pointers to the rows of a window, and sums."""
    return int(4 * (p.kernel_h + p.channels))


def _avgpool_when(node: Node, target: Any) -> str | None:
    """The reason why the kernel does not apply. Sums are shifted left so that requantization is one VRMULH."""
    p = node.params
    return (
        None if 255 * p.kernel_h * p.kernel_w << (32 - p.shift) < 2**31 else f"sums shifted by {32 - p.shift} overflow"
    )


def _avgpool_cost(node: Node, output: float) -> float:
    """The cost: 16 channels are summed at a time, and each mean takes `output` cycles."""
    p = node.params
    window = blocks_of(p.channels, LANES) * (9.0 * p.kernel_h * p.kernel_w + 10 * p.kernel_h + 50) + output * p.channels
    return float(p.out_h * (p.out_w * (window + 120) + 100))


AVGPOOL = Kernel(
    "ge_avgpool_s8_mve",
    isa="mve",
    when=_avgpool_when,
    scratch=_avgpool_scratch,
    cost=lambda node, target: Cost(_avgpool_cost(node, 4), 800),
    store="rows",
)

AVGPOOL_LAWS = Kernel(
    "ge_avgpool_laws_s8_mve",
    isa="mve",
    scratch=_avgpool_scratch,
    cost=lambda node, target: Cost(_avgpool_cost(node, 20), 800),
    store="rows",
)

AVGPOOL_TFLITE = replace(
    AVGPOOL_LAWS, symbol="ge_avgpool_tflite_s8_mve", cost=lambda node, target: Cost(_avgpool_cost(node, 16), 700)
)


def _rows_cost(node: Node, run: float, block: float) -> Cost:
    """The cost of a row of the input, 16 channels at a time."""
    p = node.params
    return Cost(p.rows * (blocks_of(p.channels, LANES) * (run * p.columns + block) + 40), 500)


SUM_ROWS = Kernel("ge_sum_rows_s8_mve", isa="mve", cost=lambda node, target: _rows_cost(node, 9, 60), store="rows")

MAX_ROWS = Kernel("ge_max_rows_s8_mve", isa="mve", cost=lambda node, target: _rows_cost(node, 5, 25), store="rows")

MEAN = Kernel(
    "ge_mean_s32_s8_mve",
    isa="mve",
    when=high_word,
    cost=lambda node, target: Cost(40 + 4.0 * node.params.channels, 130),
)


def _maxpool_cost(node: Node, target: Any) -> Cost:
    p = node.params
    taps = p.kernel_h * p.kernel_w
    return Cost(p.out_h * p.out_w * taps * (20 + 8.0 * blocks_of(p.channels, LANES)), 300)


MAXPOOL = Kernel("ge_maxpool_s8_mve", isa="mve", cost=_maxpool_cost, store="rows")


KERNELS: Mapping[str, KernelsOf] = {
    "maxpool_s8": only(MAXPOOL),
    "avgpool_s8": together(only(AVGPOOL), lambda mode: (AVGPOOL_LAWS,)),
    "avgpool_tflite_s8": only(AVGPOOL_TFLITE),
    "sum_rows_s8": only(SUM_ROWS),
    "max_rows_s8": only(MAX_ROWS),
    "mean_s32_s8": only(MEAN),
}
