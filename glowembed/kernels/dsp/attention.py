"""Kernels of attention for dsp: when they are exact, their scratch, and their cost."""

from __future__ import annotations

from glowembed.graph.ir import Node
from glowembed.graph.op import Cost, Kernel, only
from glowembed.graph.target import Target
from glowembed.kernels.dsp.matmul import FOUR, chunk, columns_cycles, fours, reach_of
from glowembed.ops.attention import AttentionParams, AttentionS8, masked


def _why_not(node: Node, target: Target) -> str | None:
    p = node.params
    if p.score_shift != 32 or p.shift != 32:
        return "its scores or outputs are not the upper word of a product"
    return None


STATE = 40
"""The bytes of attention_s8_dsp_work, which is in scratch and not on the stack."""


def _scratch(p: AttentionParams) -> int:
    """The bytes of attention_s8_dsp_layout."""
    depth, keys, width = fours(p.depth), fours(p.keys), fours(p.width)
    sums = 0
    if p.depth > chunk(reach_of(p.zero_point_q), p.zero_point_k):
        sums = keys
    if FOUR * keys > chunk(AttentionS8.top, p.zero_point_v):
        sums = max(sums, width)
    return int(STATE + 16 * (keys * (depth + width) + depth + keys) + 8 * FOUR * sums)


def _cycles(node: Node, target: Target, rows: int) -> float:
    """The cycles of packing, and then of scores, powers and sums of values for two queries at a time."""
    p = node.params
    seen = p.keys if p.ahead >= p.keys else max(1, min(p.keys, p.queries // 2 + p.ahead))
    pack = 1.9 * p.keys * (p.depth + p.width)
    score = seen * (11.0 if p.mask_heads else 8.0) + 2.1 * p.depth + 120
    return float(
        p.heads * (pack * -(-rows // p.queries) + rows * score
                   + columns_cycles(rows, seen, p.depth) + columns_cycles(rows, p.width, seen))
    )  # fmt: skip


ATTENTION = Kernel(
    "ge_attention_s8_dsp",
    isa="dsp",
    when=_why_not,
    scratch=_scratch,
    cost=lambda n, t: Cost(_cycles(n, t, n.params.batches * n.params.queries), 6000),
    rows_cost=_cycles,
    store=lambda p: "rows" if p.heads == 1 else "disjoint",
)

KERNELS = {"attention_s8": only(ATTENTION), "attention_masked_s8": only(masked(ATTENTION))}
