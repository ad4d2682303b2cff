"""The Helium kernel of attention: when it is exact, its scratch, and its cost."""

from __future__ import annotations

from glowembed.graph.ir import Node
from glowembed.graph.op import Cost, Kernel, only
from glowembed.graph.target import Target
from glowembed.ops.attention import AttentionParams, masked

FOUR, COLUMNS = 4, 16
"""ATTENTION_S8_MVE_FOUR and ATTENTION_S8_MVE_COLUMNS of the C file."""

REACH = 255
"""The largest distance of an int8 number from a zero point, and the largest power."""


def _why_not(node: Node, target: Target) -> str | None:
    p = node.params
    if max(p.score_shift, p.shift) > 32:
        return "its scores or outputs are not the upper word of a product"
    if max(p.depth << (32 - p.score_shift), p.keys << (32 - p.shift)) * REACH * REACH >= 2**31:
        return f"a sum over {max(p.depth, p.keys)} products may need more than 32 bits"
    return None


def _scratch(p: AttentionParams) -> int:
    """The scratch: pointers to the rows of keys and values, scores, and a query as int16."""
    return int(10 * -(-p.keys // FOUR) * FOUR + 2 * -(-p.depth // 8) * 8)


def _cycles(node: Node, target: Target, rows: int) -> float:
    p = node.params
    seen = p.keys if p.ahead >= p.keys else max(1, min(p.keys, p.queries // 2 + p.ahead))
    scores = -(-seen // FOUR) * (18.0 * -(-p.depth // 8) + 36)
    values = seen * (15.0 * (p.width // COLUMNS) + 10.0 * -(-(p.width % COLUMNS) // FOUR))
    return float(-(-rows // p.queries) * 14 * p.keys + rows * p.heads * (scores + 3.0 * seen + values + 220))


ATTENTION = Kernel(
    "ge_attention_s8_mve",
    isa="mve",
    when=_why_not,
    scratch=_scratch,
    cost=lambda n, t: Cost(_cycles(n, t, n.params.batches * n.params.queries), 1100),
    rows_cost=_cycles,
    store="rows",
)

KERNELS = {"attention_s8": only(ATTENTION), "attention_masked_s8": only(masked(ATTENTION))}
