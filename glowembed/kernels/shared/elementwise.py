"""Elementwise kernels, whose cost follows from the shape of their loops. In:

a symbol, the cycles of an element and of the code around a run of elements, and the bytes of code. Out: `Kernel`s.
"""

from __future__ import annotations

from typing import Any

from glowembed.graph.op import Cost, Kernel
from glowembed.ops.shared import broadcast


def by_rows(symbol: str, isa: str, element: float, row: float, code: int, **more: Any) -> Kernel:
    """A kernel for tensors of one shape, or for one tensor: rows of `row` elements."""
    return Kernel(
        symbol,
        isa=isa,
        cost=lambda n, t: Cost(n.params.rows * (element * n.params.row + row), code),
        store="elements",
        **more,
    )


def by_lines(symbol: str, isa: str, element: float, line: float, code: int, **more: Any) -> Kernel:
    """A kernel for two tensors that broadcast, which computes line after line."""
    return Kernel(
        symbol,
        isa=isa,
        cost=lambda n, t: Cost(broadcast.lines_cost(n.params, element, line), code),
        store="elements",
        **more,
    )


def by_vectors(symbol: str, isa: str, element: float, vector: float, code: int) -> Kernel:
    """A kernel for vectors of `n` elements, such as softmax."""
    return Kernel(
        symbol,
        isa=isa,
        cost=lambda n, t: Cost(n.params.rows * n.params.vectors * (element * n.params.n + vector), code),
        store="elements",
    )
