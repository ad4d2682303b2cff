"""Pools on Cortex-M4, M7 and M33, whole and row by row: when the kernels apply, and their costs.

In: kernel-level nodes. Out: `Kernel`s.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from glowembed.graph.ir import Node
from glowembed.graph.op import Cost, Kernel, KernelsOf, only, together
from glowembed.graph.target import Target


def _why_not(node: Node, target: Target) -> str | None:
    p = node.params
    if p.channels < 4:
        return f"{p.channels} channels, it takes 4 and more"
    return "the taps do not touch" if max(p.dilation_h, p.dilation_w) > 1 else None


def _max_cost(node: Node, target: Target) -> Cost:
    p = node.params
    outputs = p.out_h * p.out_w * p.channels
    return Cost(outputs * (1.6 * p.kernel_h * p.kernel_w + 12) + 60 * p.out_h * p.out_w, 1100)


def _average_why_not(node: Node, target: Target) -> str | None:
    """The reason why the kernel does not apply. Sums are shifted left so that requantization is one SMMLAR."""
    p = node.params
    if 255 * p.kernel_h * p.kernel_w << (32 - p.shift) >= 2**31:
        return f"sums shifted by {32 - p.shift} overflow"
    return _why_not(node, target)


def _average_cost(node: Node, output: float) -> Cost:
    """The cost: four channels are summed at a time, and each mean takes `output` cycles."""
    p = node.params
    sums = _blocks(p.channels, 4) * (p.kernel_h * (5.0 * p.kernel_w + 14) + 20) + output * p.channels + 80
    return Cost(p.out_h * p.out_w * sums, 1100)


def _blocks(count: int, size: int) -> int:
    return -(-count // size)


MAXPOOL = Kernel("ge_maxpool_s8_dsp", isa="dsp", when=_why_not, cost=_max_cost, store="rows")

AVGPOOL = Kernel(
    "ge_avgpool_s8_dsp",
    isa="dsp",
    when=_average_why_not,
    cost=lambda node, target: _average_cost(node, 11),
    scratch=lambda p: 4 * p.channels,
    store="rows",
)

AVGPOOL_LAWS = Kernel(
    "ge_avgpool_laws_s8_dsp",
    isa="dsp",
    when=_why_not,
    cost=lambda node, target: _average_cost(node, 35),
    scratch=lambda p: 4 * p.channels,
    store="rows",
)

AVGPOOL_TFLITE = replace(
    AVGPOOL_LAWS, symbol="ge_avgpool_tflite_s8_dsp", cost=lambda node, target: _average_cost(node, 22)
)


def _rows(what: str) -> Kernel:
    """The kernel that adds rows or takes their maximum, four or sixteen channels at a time."""
    return Kernel(
        f"ge_{what}_rows_s8_dsp",
        isa="dsp",
        when=lambda n, t: None if n.params.channels >= 4 else f"{n.params.channels} channels, it takes 4 and more",
        cost=lambda n, t: Cost(n.params.rows * n.params.channels * (1.7 * n.params.columns + 10), 400),
        store="rows",
    )


MEAN = Kernel(
    "ge_mean_s32_s8_dsp",
    isa="dsp",
    when=lambda n, t: None if n.params.shift == 32 else f"shift is {n.params.shift}, SMMLAR shifts by 32",
    cost=lambda n, t: Cost(11.0 * n.params.channels + 30, 140),
)

ROW_SUMS = Kernel(
    "ge_row_sums_s8_dsp",
    isa="dsp",
    when=lambda n, t: None if n.params.channels >= 4 else f"{n.params.channels} channels, it takes 4 and more",
    cost=lambda n, t: Cost(n.params.rows * n.params.channels * (1.4 * n.params.columns + 3), 250),
    store="rows",
)

KERNELS: Mapping[str, KernelsOf] = {
    "row_sums_s8": only(ROW_SUMS),
    "maxpool_s8": only(MAXPOOL),
    "avgpool_s8": together(only(AVGPOOL), lambda mode: (AVGPOOL_LAWS,)),
    "avgpool_tflite_s8": only(AVGPOOL_TFLITE),
    "sum_rows_s8": only(_rows("sum")),
    "max_rows_s8": only(_rows("max")),
    "mean_s32_s8": only(MEAN),
}
