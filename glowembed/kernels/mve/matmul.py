"""The Helium kernel of the product of two computed matrices: when it is exact, its scratch, and its cost."""

from __future__ import annotations

from glowembed.graph.ir import Node
from glowembed.graph.op import Cost, Kernel, only
from glowembed.graph.target import Target
from glowembed.kernels.mve import LANES
from glowembed.ops.matmul import MatmulParams

FOUR, EIGHT = 4, 8
"""MATMUL_S8_MVE_FOUR and MATMUL_S8_MVE_EIGHT of the C file."""

MOST_UNROLLED = 8
"""The most blocks of a vector whose products are not in a loop."""


def _why_not(node: Node, target: Target) -> str | None:
    p = node.params
    if p.shift != 32:
        return "its outputs are not the upper word of a product"
    return "its outputs are clipped" if (p.lo, p.hi) != (-128, 127) else None


def _blocks(p: MatmulParams) -> int:
    return int(-(-p.k // LANES))


def _unrolled(p: MatmulParams) -> int:
    """BLOCKS of the C file."""
    return _blocks(p) if _blocks(p) <= MOST_UNROLLED else 0


def _terms(p: MatmulParams) -> tuple[int, int]:
    """TERM_A and TERM_B of the C file: whether sums of the vectors of A, and of B, count."""
    return int(p.zero_point_b != 0), int(p.zero_point_a != 0)


def _numbers(p: MatmulParams) -> dict[str, int]:
    term_a, term_b = _terms(p)
    return {"BLOCKS": _unrolled(p), "TERM_A": term_a, "TERM_B": term_b}


def _scratch(p: MatmulParams) -> int:
    """The scratch: four vectors of A, and the vectors of B by eights, each with a constant if TERM_B is set."""
    return int(FOUR * LANES * _blocks(p) + -(-p.n // EIGHT) * EIGHT * (LANES * _blocks(p) + 4 * _terms(p)[1]))


def _cycles(node: Node, target: Target, rows: int) -> float:
    p = node.params
    matrices, vectors = (rows, p.m) if p.row_step_b else (1, rows)
    block, term_a, term_b = 42.0 if _unrolled(p) else 46.0, *_terms(p)
    pack = (p.n + vectors) * (5.0 * _blocks(p) + 15)
    eight = block * _blocks(p) + 38 + 6 * term_a + 9 * term_b
    return float(matrices * (pack + -(-vectors // 2) * (-(-p.n // EIGHT) * eight + 50) + 60))


def _code(p: MatmulParams) -> int:
    """The bytes of the code: two passes of blocks of 14 instructions."""
    return 900 + 112 * max(_unrolled(p), 2)


MATMUL = Kernel(
    "ge_matmul_s8_mve",
    isa="mve",
    when=_why_not,
    instance=_numbers,
    scratch=_scratch,
    cost=lambda n, t: Cost(_cycles(n, t, n.params.rows), _code(n.params)),
    rows_cost=_cycles,
    store="rows",
)

KERNELS = {"matmul_s8": only(MATMUL)}
