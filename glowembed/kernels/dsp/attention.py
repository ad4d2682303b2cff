"""Kernels for dsp of attention: when they are exact, their scratch, and what they cost."""

from __future__ import annotations

from glowembed.graph.ir import Node
from glowembed.graph.op import Cost, Kernel, only
from glowembed.graph.target import Target
from glowembed.ops.attention import AttentionParams

ROWS, TURN, SUMS = 3, 4, 6
"""ATTENTION_S8_DSP_ROWS, GE_DSP_PAIRS_TURN and GE_DSP_PAIRS_SUMS."""


def _why_not(node: Node, target: Target) -> str | None:
    p = node.params
    if p.score_shift != 32 or p.shift != 32:
        return "its scores or outputs are not the upper word of a product"
    if (p.lo, p.hi) != (-128, 127):
        return "its outputs are clipped"
    return None


def _scratch(p: AttentionParams) -> int:
    """The bytes of the buffers that attention_s8_dsp_layout places."""
    depth, keys = (TURN * -(-n // 8) for n in (p.depth, p.keys))
    even = -(-p.keys // 2) * 2
    words = even * depth + -(-p.width // 2) * 2 * keys + ROWS * (depth + keys) + 2 * SUMS
    return int(4 * words + 2 * ROWS * even)


def _cycles(node: Node, target: Target, rows: int) -> float:
    """Packing, then scores, their powers and the sums of values of three queries at a time."""
    p = node.params
    pack = 2.6 * p.keys * (p.depth + p.width)
    score = p.keys * (1.2 * p.depth + 12 + 22)
    value = p.width * (1.2 * p.keys + 12)
    return float(p.heads * (pack * -(-rows // p.queries) + -(-rows // ROWS) * ROWS * (score + value + 60)))


ATTENTION = Kernel(
    "ge_attention_s8_dsp",
    isa="dsp",
    when=_why_not,
    scratch=_scratch,
    cost=lambda n, t: Cost(_cycles(n, t, n.params.batches * n.params.queries), 1900),
    rows_cost=_cycles,
    store=lambda p: "rows" if p.heads == 1 else "disjoint",
)

KERNELS = {"attention_s8": only(ATTENTION)}
