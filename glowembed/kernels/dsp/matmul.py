"""Kernels for dsp of the product of two computed matrices: when they are exact, their scratch, and what they cost."""

from __future__ import annotations

from glowembed.graph.ir import Node
from glowembed.graph.op import Cost, Kernel, only
from glowembed.graph.target import Target
from glowembed.ops.matmul import MatmulParams

VECTORS, TURN, SUMS = 3, 4, 6
"""MATMUL_S8_DSP_VECTORS, GE_DSP_PAIRS_TURN and GE_DSP_PAIRS_SUMS."""


def _why_not(node: Node, target: Target) -> str | None:
    p = node.params
    if p.shift != 32:
        return "its outputs are not the upper word of a product"
    return "its outputs are clipped" if (p.lo, p.hi) != (-128, 127) else None


def _scratch(p: MatmulParams) -> int:
    words = TURN * -(-p.k // 8)
    return int(4 * (-(-p.n // 2) * 2 * words + VECTORS * words + SUMS))


def _cycles(node: Node, target: Target, rows: int) -> float:
    """Packing both operands, then three vectors at a time."""
    p = node.params
    matrices, vectors = (rows, p.m) if p.row_step_b else (1, rows)
    turns, blocks = -(-p.k // 8), -(-vectors // VECTORS) * -(-p.n // 2)
    return float(matrices * (3.2 * p.k * (p.n + vectors) + blocks * (55.0 * turns + 90) + 60))


MATMUL = Kernel(
    "ge_matmul_s8_dsp",
    isa="dsp",
    when=_why_not,
    scratch=_scratch,
    cost=lambda n, t: Cost(_cycles(n, t, n.params.rows), 900),
    rows_cost=_cycles,
    store="rows",
)

KERNELS = {"matmul_s8": only(MATMUL)}
