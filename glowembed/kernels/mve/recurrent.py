"""Recurrent layers on Cortex-M55: when the kernels apply, their streams, and the lines of the table.

In: kernel-level nodes, params and constants. Out: `Kernel`s. runtime_c/kernels/mve/recurrent_lstm_s8_mve.c and
recurrent_gru_s8_mve.c explain how they work.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from glowembed.graph.ir import Array, Node
from glowembed.graph.op import Cost, Kernel, only
from glowembed.graph.target import Target
from glowembed.kernels.shared import gates
from glowembed.ops.recurrent_kernels import RESULTS, RecurrentParams

WhyNot = Callable[[Node, Target], str | None]

LANES, UNITS = 16, 8
SUM_LIMIT = 1 << 23
"""The limit of a sum, for which 256 times the sum fits in 32 bits."""

FINE = 1 << 24
"""The limit of a multiplier, for which 128 times the multiplier fits in 32 bits."""

LSTM_GATES, GRU_GATES = ((0, 3, 2, 1),), ((0, 1), (2,))
"""The gates in the order of the kernels, as ONNX numbers them: i g f o; z r, and after those of all units n."""


def _lstm_why_not(node: Node, target: Target) -> str | None:
    start = node.constants["start"].materialize()
    if start[len(start) // 2 :].any():
        return "the zero point of its hidden state is not 0, or its state has a bias of its own"
    if (reason := _cells_why_not(node.params)) is not None:
        return reason
    return gates.form_why_not(node, gates.LSTM) or gates.sums_why_not(node, SUM_LIMIT)


def _gru_why_not(node: Node, target: Target) -> str | None:
    p, start = node.params, node.constants["start"].materialize()
    if p.kind == gates.GRU and start[3 * p.units : (5 if p.before_reset else 6) * p.units].any():
        return "the zero point of its hidden state is not 0"
    return gates.form_why_not(node, gates.GRU) or gates.sums_why_not(node, SUM_LIMIT)


def _only_fine(why_not: WhyNot) -> WhyNot:
    """The check of a kernel that multiplies by 128 times the multipliers."""

    def check(node: Node, target: Target) -> str | None:
        largest = int(node.constants["multiplier"].materialize().max())
        return f"a multiplier is {largest}, not below {FINE}" if largest >= FINE else why_not(node, target)

    return check


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


def _rows(values: Array, chosen: Sequence[int], p: RecurrentParams) -> Array:
    """The rows [gates * units, ...] of the chosen gates, with zeros up to a multiple of eight units, in the order of the
    stream: for eight units each, the gates, and of each gate the even units before the odd ones.
    """
    each = values.reshape(-1, p.units, values.size // len(values))[list(chosen)]
    padded = np.pad(each, ((0, 0), (0, _units(p) - p.units), (0, 0))).reshape(
        len(chosen), -1, UNITS // 2, 2, each.shape[2]
    )
    return padded.transpose(1, 0, 3, 2, 4).reshape(len(chosen) * _units(p), -1)


def _part(weights: Array, words: Sequence[Array], chosen: Sequence[int], p: RecurrentParams) -> Array:
    """For each eight rows: weights, of four rows and then of the others, 16 of each row in turn; then eight of each of
    these words.
    """
    flat = _rows(weights, chosen, p)
    flat = np.pad(flat, ((0, 0), (0, -flat.shape[1] % LANES))).astype(np.int8)
    ordered = flat.reshape(-1, 2, 4, flat.shape[1] // LANES, LANES).transpose(0, 1, 3, 2, 4).reshape(len(flat) // 8, -1)
    behind = [np.ascontiguousarray(_rows(w, chosen, p).reshape(-1, 8).astype("<i4")).view(np.int8) for w in words]
    return np.concatenate([ordered, *behind], axis=1).reshape(-1)


def _arrange(constants: Mapping[str, Array], p: RecurrentParams, scale: int = 128) -> Mapping[str, Array]:
    """The stream, with `scale` times the multipliers."""
    order = LSTM_GATES if p.kind == gates.LSTM else GRU_GATES
    n = sum(map(len, order)) * p.units
    start, multiplier = constants["start"].astype(np.int64), constants["multiplier"].astype(np.int64) * scale
    weights, recurrent = (constants[name].reshape(n, -1) for name in ("weights", "recurrent"))
    given = [_part(weights, (start[:n], multiplier[:n]), chosen, p) for chosen in order]
    own = [_part(recurrent, (multiplier[n:],), chosen, p) for chosen in order]
    if p.kind == gates.GRU and p.before_reset:
        own[-1] = _part(recurrent, (start[n:], multiplier[n:]), order[-1], p)
    return {
        "stream": np.concatenate([*given, *own]), "lines": _lines(constants["tables"]), "lengths": constants["lengths"],
    }  # fmt: skip


def _vectors(p: RecurrentParams, *sizes: int) -> int:
    """The bytes of vectors that are read by 16 elements, and 64 elements if they are short."""
    return sum(max(64, -(-size // LANES) * LANES) for size in (*sizes, p.in_c))


def _products(p: RecurrentParams, each: float) -> float:
    """The cycles of the products of a step, with `each` for the requantization of eight rows."""
    blocks = -(-p.in_c // LANES) + -(-p.units // LANES)
    return (4 if p.kind == gates.LSTM else 3) * _units(p) * (2.0 * blocks + 2 * each / UNITS)


def _lstm_cost(node: Node, target: Target, each: float = 17.0) -> Cost:
    p = node.params
    return Cost(p.steps * p.batch * (_products(p, each) + 11.0 * _units(p) + 120), 1900)


def _gru_cost(node: Node, target: Target, each: float = 17.0) -> Cost:
    p = node.params
    return Cost(p.steps * p.batch * (_products(p, each) + 9.0 * _units(p) + 160), 2300)


def _kernels(name: str, why_not: WhyNot, scratch: Callable[[RecurrentParams], int], cost: Any) -> list[Kernel]:
    """The kernel with fine and the one with coarse multipliers."""
    fine = Kernel(
        f"ge_recurrent_{name}_s8_mve",
        isa="mve",
        when=_only_fine(why_not),
        constants={"stream": "int8_t", "lines": "int16_t", "lengths": "int32_t"},
        arrange=_arrange,
        scratch=scratch,
        cost=cost,
    )
    coarse = replace(
        fine,
        symbol=f"ge_recurrent_{name}_coarse_s8_mve",
        template=fine.symbol,
        words={"COARSE": "1"},
        when=why_not,
        arrange=lambda constants, p: _arrange(constants, p, scale=1),
        cost=lambda node, target: cost(node, target, each=19.0),
    )
    return [fine, coarse]


KERNELS = {
    "recurrent_s8": only(
        *_kernels("lstm", _lstm_why_not, lambda p: 12 * _units(p) + _vectors(p, p.units), _lstm_cost),
        *_kernels("gru", _gru_why_not, lambda p: 10 * _units(p) + _vectors(p, p.units, p.units), _gru_cost),
    )
}
