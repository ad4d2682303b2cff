"""Attention and the normalization of vectors on x86-64: when the kernels apply, their constants and costs.

In: kernel-level nodes, params and constants. Out: `Kernel`s. runtime_c/kernels/x86/attention_s8_x86.c and
normalize_s8_x86.c explain how they work.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from glowembed.graph.ir import Array, Node
from glowembed.graph.op import Cost, Kernel, Store, only
from glowembed.graph.target import Target
from glowembed.kernels.x86 import ELEMENT, INPUTS, OUTPUTS, SLACK
from glowembed.ops.attention import AttentionParams, masked

REACH = 255
"""The largest distance of an int8 number from a zero point, and the largest power."""


def _up(count: int, unit: int) -> int:
    return -(-count // unit) * unit


def _why_not(node: Node, target: Target) -> str | None:
    p = node.params
    bound = p.depth * REACH * REACH
    if max(bound, p.keys * REACH * REACH) >= 2**31:
        return f"a sum over {max(p.depth, p.keys)} products may need more than 32 bits"
    if bound * abs(p.score_multiplier) >> p.score_shift >= 2**31 or p.shift < 24:
        return "a score or an output may need more than 32 bits before it is clipped"
    return None


def _table(constants: Mapping[str, Array], p: AttentionParams) -> Mapping[str, Array]:
    """The powers as int32, which a vector of indices looks up."""
    return {**constants, "table": constants["table"].astype(np.int32)}


def _scratch(p: AttentionParams) -> int:
    """The scratch: start values, scores, blocks of keys, blocks of values, elements and powers."""
    keys, depth, width = _up(p.keys, OUTPUTS), _up(p.depth, INPUTS), _up(p.width, OUTPUTS)
    return int(8 * keys + keys * (depth + width) + (ELEMENT + 1) * _up(max(keys, p.depth), OUTPUTS) + SLACK)


def _store(p: AttentionParams) -> Store:
    """All queries of a head are read before those of the next one."""
    return "rows" if p.heads == 1 else "disjoint"


def _cycles(node: Node, target: Target, rows: int) -> float:
    """Keys and values are packed once for each call."""
    p = node.params
    pack = p.keys * (p.depth / INPUTS + p.width / 10 + 4)
    query = p.keys * ((p.depth + p.width) / 40 + 3.0) + 120
    return float(p.heads * (-(-rows // p.queries) * pack + rows * query))


ATTENTION = Kernel(
    "ge_attention_s8_x86",
    isa="x86",
    when=_why_not,
    constants={"mask": "int16_t", "table": "int32_t"},
    arrange=_table,
    scratch=_scratch,
    cost=lambda n, t: Cost(_cycles(n, t, n.params.batches * n.params.queries), 3000),
    rows_cost=_cycles,
    store=_store,
)


def _normalize_why_not(node: Node, target: Target) -> str | None:
    p = node.params
    if p.positions > 1 or p.groups > 1:
        return "its groups are not vectors that follow each other"
    return "its vectors are longer than 256 elements" if p.extra else None


NORMALIZE = Kernel(
    "ge_normalize_s8_x86",
    isa="x86",
    when=_normalize_why_not,
    cost=lambda n, t: Cost(n.params.rows * n.params.parts * (n.params.channels / 4 + 80.0), 900),
    store="elements",
)

KERNELS = {
    "attention_s8": only(ATTENTION),
    "attention_masked_s8": only(masked(ATTENTION)),
    "normalize_s8": only(NORMALIZE),
}
