"""Recurrent layers on Cortex-M55: when the kernels apply, their streams, and the lines of the table.

In: kernel-level nodes, params and constants. Out: `Kernel`s. runtime_c/kernels/mve/recurrent_lstm_s8_mve.c explains how they work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from glowembed.graph.ir import Array, Node
from glowembed.graph.op import Cost, Kernel, only
from glowembed.graph.target import Target
from glowembed.kernels.shared import gates
from glowembed.ops.recurrent_kernels import RESULTS, RecurrentParams

LANES, UNITS = 16, 8
SUM_LIMIT = 1 << 23
"""The limit of a sum, for which 256 times the sum fits in 32 bits."""


def _why_not(node: Node, target: Target) -> str | None:
    start = node.constants["start"].materialize()
    if start[len(start) // 2 :].any():
        return "the zero point of its hidden state is not 0, or its state has a bias of its own"
    if (reason := _cells_why_not(node.params)) is not None:
        return reason
    return gates.form_why_not(node, gates.LSTM) or gates.sums_why_not(node, SUM_LIMIT)


def _cells_why_not(p: RecurrentParams) -> str | None:
    """The reason why cells in int8 do not fit the shifts of the vectors: their scale is above 1/2 or very small."""
    if p.has_initial & 2 and not 8 <= p.c0_shift <= 31:
        return f"the shift of its initial cell is {p.c0_shift}, not within 8..31"
    if p.result >= RESULTS.index("cell") and not 33 <= p.cell_shift <= 62:
        return f"the shift of its last cell is {p.cell_shift}, below 33"
    return None


def _units(p: RecurrentParams) -> int:
    return int(-(-p.units // UNITS) * UNITS)


def _lines(tables: Array) -> Array:
    """The slopes and the beginnings of the table's lines, for an unsigned index."""
    words = np.roll(tables.astype(np.int64)[:1024], -512)
    slopes = ((words & 0xFFFF) ^ 0x8000) - 0x8000
    return np.concatenate([slopes, (words - slopes) >> 16]).astype(np.int16)


def _rows(values: Array, p: RecurrentParams) -> Array:
    """The rows as [gates * units, ...], with zeros up to a multiple of eight units."""
    gates_of = values.reshape(4, p.units, -1)
    return np.pad(gates_of, ((0, 0), (0, _units(p) - p.units), (0, 0))).reshape(4 * _units(p), -1)


def _part(weights: Array, words: Sequence[Array], p: RecurrentParams) -> Array:
    """For each four rows: weights, 16 of each row in turn, then four of each of these words."""
    flat = _rows(weights, p)
    flat = np.pad(flat, ((0, 0), (0, -flat.shape[1] % LANES))).astype(np.int8)
    groups = len(flat) // 4
    ordered = flat.reshape(groups, 4, -1, LANES).transpose(0, 2, 1, 3).reshape(groups, -1)
    behind = [np.ascontiguousarray(_rows(w, p).reshape(groups, 4).astype("<i4")).view(np.int8) for w in words]
    return np.concatenate([ordered, *behind], axis=1).reshape(-1)


def _arrange(constants: Mapping[str, Array], p: RecurrentParams) -> Mapping[str, Array]:
    n = 4 * p.units
    start, multiplier = constants["start"], constants["multiplier"]
    given = _part(constants["weights"].reshape(n, -1), (start[:n], multiplier[:n]), p)
    own = _part(constants["recurrent"].reshape(n, -1), (multiplier[n:],), p)
    return {
        "stream": np.concatenate([given, own]), "lines": _lines(constants["tables"]), "lengths": constants["lengths"],
    }  # fmt: skip


def _scratch(p: RecurrentParams) -> int:
    units = _units(p)
    return int(12 * units + sum(max(64, -(-size // LANES) * LANES) for size in (units, p.in_c)))


def _cost(node: Node, target: Target) -> Cost:
    p, units = node.params, _units(node.params)
    blocks = -(-p.in_c // LANES) + -(-p.units // LANES)
    return Cost(p.steps * p.batch * (units * (8.0 * blocks + 24) + 12.0 * units + 120), 1500)


_LSTM = Kernel(
    "ge_recurrent_lstm_s8_mve",
    isa="mve",
    when=_why_not,
    constants={"stream": "int8_t", "lines": "int16_t", "lengths": "int32_t"},
    arrange=_arrange,
    scratch=_scratch,
    cost=_cost,
)

KERNELS = {"recurrent_s8": only(_LSTM)}
