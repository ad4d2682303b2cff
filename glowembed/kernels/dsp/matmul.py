"""Kernels for dsp of the product of two computed matrices: when they are exact, their scratch, and what they cost."""

from __future__ import annotations

from glowembed.graph.ir import Node
from glowembed.graph.op import Cost, Kernel, only
from glowembed.graph.target import Target
from glowembed.ops.matmul import MatmulParams

FOUR = 4
"""GE_DSP_MATMUL_FOUR."""


def fours(count: int) -> int:
    """The groups of four that hold so many columns, or elements of one."""
    return -(-count // FOUR)


def chunk(reach: int, zero_point: int) -> int:
    """ge_dsp_matmul_chunk: so many elements of a row of numbers up to `reach` have sums below 2^23."""
    return (2**23 - 1) // (reach * reach_of(zero_point)) // FOUR * FOUR


def reach_of(zero_point: int) -> int:
    """The largest distance of an int8 from a zero point."""
    return max(127 - zero_point, zero_point + 128)


def _why_not(node: Node, target: Target) -> str | None:
    return None if node.params.shift == 32 else "its outputs are not the upper word of a product"


def _scratch(p: MatmulParams) -> int:
    """The bytes that matmul_s8_dsp_layout places."""
    in_chunks = p.k > chunk(reach_of(p.zero_point_a), p.zero_point_b)
    return int(16 * fours(p.k) * (fours(p.n) + 1) + (8 * FOUR * fours(p.n) if in_chunks else 0))


def columns_cycles(rows: int, columns: int, k: int) -> float:
    """Two packed rows at a time times packed columns."""
    return float(-(-rows // 2) * (fours(columns) * (31.0 * fours(k) + 70) + 100))


def _cycles(node: Node, target: Target, rows: int) -> float:
    """Packing both operands, then two vectors at a time."""
    p = node.params
    matrices, vectors = (rows, p.m) if p.row_step_b else (1, rows)
    pack = p.n * (1.8 * p.k + 12) + vectors * (2.1 * p.k + 40)
    return float(matrices * (pack + columns_cycles(vectors, p.n, p.k) + 60))


MATMUL = Kernel(
    "ge_matmul_s8_dsp",
    isa="dsp",
    when=_why_not,
    scratch=_scratch,
    cost=lambda n, t: Cost(_cycles(n, t, n.params.rows), 3300),
    rows_cost=_cycles,
    store="rows",
)

KERNELS = {"matmul_s8": only(MATMUL)}
