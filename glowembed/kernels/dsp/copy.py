"""Copies of blocks and rows on Cortex-M4, M7 and M33, and their costs. In: kernel-level nodes. Out: `Kernel`s."""

from __future__ import annotations

from math import prod
from typing import Any

from glowembed.graph.ir import Node
from glowembed.graph.op import Cost, Kernel, Store, only

PIECE = 8
"""The fewest contiguous bytes that a copy moves as one piece."""


def _cost(node: Node, _: Any) -> Cost:
    """The cost. Runs lie along the longest dimension unless the innermost is contiguous (ge_runs.h)."""
    p = node.params
    piece = p.in_strides[-1] == 1 and p.out_strides[-1] == 1
    along = p.dims[-1] if piece and p.dims[-1] >= PIECE else max(p.dims)
    element = (5.7 if piece else 10.0) if p.shift else (1.0 if piece else 3.5)
    return Cost(p.rows * (prod(p.dims) // along) * (element * along + 50), 520)


COPY = Kernel("ge_copy_s8_dsp", isa="dsp", cost=_cost, store="rows")
COPY_INTO = Kernel("ge_copy_into_s8_dsp", isa="dsp", cost=_cost, store="rows")


def _rows(what: str, store: Store) -> Kernel:
    """Whole rows, by words."""
    return Kernel(
        f"ge_{what}_rows_dsp",
        isa="dsp",
        when=lambda n, t: (
            f"rows of {n.params.row_bytes} bytes, it takes whole words" if n.params.row_bytes % 4 else None
        ),
        cost=lambda n, t: Cost(n.params.rows * (0.57 * n.params.row_bytes + 25.0) + 40.0, 140),
        store=store,
    )


KERNELS = {
    "copy_s8": only(COPY),
    "copy_into_s8": only(COPY_INTO),
    "join_rows": only(_rows("join", "elements")),
    "slide_rows": only(_rows("slide", "disjoint")),
}
