"""Kernels of the product of two computed matrices for dsp: when they are exact, their scratch, and their cost."""

from __future__ import annotations

from glowembed.graph.ir import Node
from glowembed.graph.op import Cost, Kernel, only
from glowembed.graph.target import Target
from glowembed.ops.matmul import MatmulParams

FOUR = 4
"""GE_DSP_MATMUL_FOUR of the C file."""


def fours(count: int) -> int:
    """The number of fours that hold `count` columns, or elements of a column."""
    return -(-count // FOUR)


def chunk(reach: int, zero_point: int) -> int:
    """ge_dsp_matmul_chunk of the C file: the number of elements of a row, with magnitudes up to `reach`, whose sums
    stay below 2^23.
    """
    return (2**23 - 1) // (reach * reach_of(zero_point)) // FOUR * FOUR


def reach_of(zero_point: int) -> int:
    """The largest distance of an int8 number from the zero point."""
    return max(127 - zero_point, zero_point + 128)


def _why_not(node: Node, target: Target) -> str | None:
    return None if node.params.shift == 32 else "its outputs are not the upper word of a product"


def _scratch(p: MatmulParams) -> int:
    """The bytes of the buffers in matmul_s8_dsp_layout."""
    in_chunks = p.k > chunk(reach_of(p.zero_point_a), p.zero_point_b)
    return int(16 * fours(p.k) * (fours(p.n) + 1) + (8 * FOUR * fours(p.n) if in_chunks else 0))


def columns_cycles(rows: int, columns: int, k: int) -> float:
    """The cycles of multiplying packed rows, two at a time, with packed columns."""
    return float(-(-rows // 2) * (fours(columns) * (31.0 * fours(k) + 70) + 100))


def _cycles(node: Node, target: Target, rows: int) -> float:
    """The cycles of packing both operands, and then of multiplying two vectors at a time."""
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
