"""The Helium kernel of the product of two computed matrices: when it is exact, its scratch, and its cost."""

from __future__ import annotations

from glowembed.graph.ir import Node
from glowembed.graph.op import Cost, Kernel, only
from glowembed.graph.target import Target
from glowembed.kernels.mve import LANES
from glowembed.ops.matmul import MatmulParams

FOUR = 4
"""MATMUL_S8_MVE_FOUR of the C file."""


def _why_not(node: Node, target: Target) -> str | None:
    p = node.params
    if p.shift != 32:
        return "its outputs are not the upper word of a product"
    return "its outputs are clipped" if (p.lo, p.hi) != (-128, 127) else None


def _scratch(p: MatmulParams) -> int:
    """The scratch: two vectors of A, and the vectors of B by fours, each with a constant."""
    blocks = -(-p.k // LANES)
    return int(2 * LANES * blocks + -(-p.n // FOUR) * FOUR * (LANES * blocks + 4))


def _cycles(node: Node, target: Target, rows: int) -> float:
    p = node.params
    matrices, vectors = (rows, p.m) if p.row_step_b else (1, rows)
    blocks, groups = -(-p.k // LANES), -(-p.n // FOUR)
    pack = (p.n + vectors) * (7.0 * blocks + 25)
    return float(matrices * (pack + -(-vectors // 2) * (groups * (23.0 * blocks + 36) + 80) + 60))


MATMUL = Kernel(
    "ge_matmul_s8_mve",
    isa="mve",
    when=_why_not,
    scratch=_scratch,
    cost=lambda n, t: Cost(_cycles(n, t, n.params.rows), 900),
    rows_cost=_cycles,
    store="rows",
)

KERNELS = {"matmul_s8": only(MATMUL)}
