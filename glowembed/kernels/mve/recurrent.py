"""Recurrent layers on Cortex-M55: when the kernels apply, their streams, and the lines of the table.

In: kernel-level nodes, params and constants. Out: `Kernel`s. runtime_c/kernels/mve/recurrent_lstm_s8_mve.c explains how they work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from glowembed.graph.ir import Array, Node
from glowembed.graph.op import Cost, Kernel, only
from glowembed.graph.target import Target
from glowembed.kernels.shared import gates
from glowembed.ops.recurrent_kernels import RESULTS, RecurrentParams

LANES, UNITS = 16, 8
SUM_LIMIT = 1 << 23
"""The limit of a sum, for which 256 times the sum fits in 32 bits."""

FINE = 1 << 24
"""The limit of a multiplier, for which 128 times the multiplier fits in 32 bits."""


def _why_not(node: Node, target: Target) -> str | None:
    start = node.constants["start"].materialize()
    if start[len(start) // 2 :].any():
        return "the zero point of its hidden state is not 0, or its state has a bias of its own"
    if (reason := _cells_why_not(node.params)) is not None:
        return reason
    return gates.form_why_not(node, gates.LSTM) or gates.sums_why_not(node, SUM_LIMIT)


def _fine_why_not(node: Node, target: Target) -> str | None:
    largest = int(node.constants["multiplier"].materialize().max())
    return f"a multiplier is {largest}, not below {FINE}" if largest >= FINE else _why_not(node, target)


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
    """The rows [gates * units, ...], with zeros up to a multiple of eight units, in the order of the stream: for eight
    units each, the gates i, g, f, o, and of each gate the even units before the odd ones.
    """
    gates_of = values.reshape(4, p.units, -1)
    padded = np.pad(gates_of, ((0, 0), (0, _units(p) - p.units), (0, 0))).reshape(
        4, -1, UNITS // 2, 2, gates_of.shape[2]
    )
    return padded[[0, 3, 2, 1]].transpose(1, 0, 3, 2, 4).reshape(4 * _units(p), -1)


def _part(weights: Array, words: Sequence[Array], p: RecurrentParams) -> Array:
    """For each eight rows: weights, of four rows and then of the others, 16 of each row in turn; then eight of each of
    these words.
    """
    flat = _rows(weights, p)
    flat = np.pad(flat, ((0, 0), (0, -flat.shape[1] % LANES))).astype(np.int8)
    ordered = flat.reshape(-1, 2, 4, flat.shape[1] // LANES, LANES).transpose(0, 1, 3, 2, 4).reshape(len(flat) // 8, -1)
    behind = [np.ascontiguousarray(_rows(w, p).reshape(-1, 8).astype("<i4")).view(np.int8) for w in words]
    return np.concatenate([ordered, *behind], axis=1).reshape(-1)


def _arrange(constants: Mapping[str, Array], p: RecurrentParams, scale: int = 128) -> Mapping[str, Array]:
    """The stream, with `scale` times the multipliers."""
    n = 4 * p.units
    start, multiplier = constants["start"], constants["multiplier"].astype(np.int64) * scale
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
    return Cost(p.steps * p.batch * (units * (8.0 * blocks + 17) + 11.0 * units + 120), 1900)


def _coarse_cost(node: Node, target: Target) -> Cost:
    p, fine = node.params, _cost(node, target)
    return replace(fine, cycles=fine.cycles + 2.0 * p.steps * p.batch * _units(p))


_LSTM = Kernel(
    "ge_recurrent_lstm_s8_mve",
    isa="mve",
    when=_fine_why_not,
    constants={"stream": "int8_t", "lines": "int16_t", "lengths": "int32_t"},
    arrange=_arrange,
    scratch=_scratch,
    cost=_cost,
)

_LSTM_COARSE = replace(
    _LSTM,
    symbol="ge_recurrent_lstm_coarse_s8_mve",
    template="ge_recurrent_lstm_s8_mve",
    words={"COARSE": "1"},
    when=_why_not,
    arrange=lambda constants, p: _arrange(constants, p, scale=1),
    cost=_coarse_cost,
)

KERNELS = {"recurrent_s8": only(_LSTM, _LSTM_COARSE)}
