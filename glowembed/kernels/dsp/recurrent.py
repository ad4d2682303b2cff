"""Recurrent layers on Cortex-M4, M7 and M33: when the kernels apply, their streams and costs.

In: kernel-level nodes, params and constants. Out: `Kernel`s. runtime_c/kernels/dsp/recurrent_lstm_s8_dsp.c and
recurrent_gru_s8_dsp.c explain how they work.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from glowembed.graph.ir import Array, Node
from glowembed.graph.op import Cost, Kernel, only
from glowembed.graph.target import Target
from glowembed.kernels import dsp
from glowembed.kernels.shared import gates
from glowembed.kernels.shared.gates import GRU, LSTM
from glowembed.ops.recurrent_kernels import RecurrentParams

MOST = 16
"""The most steps of four k in the body of a loop."""


def loop(count: int) -> tuple[int, int]:
    """The turns of the loop and the steps of four k in each that take the fewest cycles for `count` inputs; surplus
    steps multiply zeros.
    """
    steps = -(-count // 4)
    found = [(turns, unroll) for unroll in range(1, MOST + 1) for turns in [-(-steps // unroll)]]
    return min(found, key=lambda f: (19 * f[0] * f[1] + (4 * f[0] if f[0] > 1 else 0), f[1]))


def _padded(count: int) -> list[int]:
    """The index of the element in each half-word of a vector as int16, including what `loop` adds."""
    turns, unroll = loop(count)
    order = dsp.run_order(count)
    return order + [-1] * (4 * turns * unroll - len(order))


def _ordered(weights: Array, order: list[int]) -> Array:
    padded = np.concatenate([weights, np.zeros((len(weights), 1), weights.dtype)], axis=1)
    return padded[:, order].astype(np.int64)


def why_not(node: Node, kind: int) -> str | None:
    """The reason why a node does not have the plain form of LSTM or GRU, or why its sums do not fit; None if it has and
    they do.
    """
    if (reason := gates.form_why_not(node, kind)) is not None:
        return reason
    if min(node.constants[name].materialize().min() for name in ("weights", "recurrent")) < -127:
        return "a weight is -128"
    return gates.sums_why_not(node, dsp.SUM_LIMIT)


def _lstm_why_not(node: Node, target: Target) -> str | None:
    start = node.constants["start"].materialize()
    if node.params.kind == LSTM and start[len(start) // 2 :].any():
        return "the zero point of its hidden state is not 0"
    return why_not(node, LSTM)


def _lstm_stream(constants: Mapping[str, Array], p: RecurrentParams) -> Mapping[str, Array]:
    n = p.units
    weights, recurrent = (
        _ordered(constants[name].reshape(4 * n, -1), _padded(count))
        for name, count in (("weights", p.in_c), ("recurrent", n))
    )
    start, multiplier = (constants[name].astype(np.int64) for name in ("start", "multiplier"))
    blocks = []
    for unit in range(n):
        rows = np.asarray([unit, 2 * n + unit, n + unit, 3 * n + unit])  # i, f, o, g
        blocks.append(dsp.shared_block(weights[rows], start[rows], multiplier[rows]))
        blocks.append(dsp.shared_block(recurrent[rows], np.zeros(4, np.int64), multiplier[4 * n + rows])[4:])
    return {"stream": np.concatenate(blocks), "tables": constants["tables"], "lengths": constants["lengths"]}


def _numbers(p: RecurrentParams) -> dict[str, int]:
    (x_turns, x_unroll), (h_turns, h_unroll) = loop(p.in_c), loop(p.units)
    return {
        "X_TURNS": x_turns, "X_UNROLL": x_unroll, "H_TURNS": h_turns, "H_UNROLL": h_unroll, "EXPONENT": p.exponent,
    }  # fmt: skip


def _vectors(p: RecurrentParams) -> int:
    """The bytes of the input and of the state as int16."""
    return 2 * (len(_padded(p.in_c)) + len(_padded(p.units)))


def _lstm_cost(node: Node, target: Target) -> Cost:
    p = node.params
    products = sum(19 * t * u + (4 * t if t > 1 else 0) for t, u in (loop(p.in_c), loop(p.units)))
    step = p.units * (products + 98) + 1.5 * (p.in_c + p.units) + 150
    return Cost(p.steps * p.batch * step, 800 + 72 * sum(loop(n)[1] for n in (p.in_c, p.units)))


_LSTM = Kernel(
    "ge_recurrent_lstm_s8_dsp",
    isa="dsp",
    when=_lstm_why_not,
    constants={"stream": "uint32_t", "tables": "int32_t", "lengths": "int32_t"},
    arrange=_lstm_stream,
    instance=_numbers,
    scratch=lambda p: 4 * p.units + _vectors(p) + p.units,
    cost=_lstm_cost,
)


def _gru_why_not(node: Node, target: Target) -> str | None:
    start, n = node.constants["start"].materialize(), node.params.units
    if node.params.kind == GRU and not node.params.before_reset:
        return "the reset comes before the product with the state"
    if node.params.kind == GRU and start[3 * n : 5 * n].any():
        return "the zero point of its hidden state is not 0"
    return why_not(node, GRU)


def _gru_stream(constants: Mapping[str, Array], p: RecurrentParams) -> Mapping[str, Array]:
    n, zero = p.units, 6 * p.units  # a row of zeros takes the place of an odd unit's partner
    weights, recurrent = (
        np.pad(_ordered(constants[name].reshape(3 * n, -1), _padded(count)), ((0, 1), (0, 0)))
        for name, count in (("weights", p.in_c), ("recurrent", n))
    )
    start, multiplier = (np.append(constants[name].astype(np.int64), 0) for name in ("start", "multiplier"))
    blocks = []
    for unit in range(0, n, 2):
        given = [gate * n + u if u < n else zero for gate in range(3) for u in (unit, unit + 1)]
        own = np.asarray([row if row == zero else 3 * n + row for row in given])
        rows = np.asarray([min(row, 3 * n) for row in given])
        blocks.append(dsp.shared_block(weights[rows], start[given], multiplier[given]))
        blocks.append(dsp.shared_block(recurrent[rows], start[own], multiplier[own])[4:])
    return {"stream": np.concatenate(blocks), "tables": constants["tables"], "lengths": constants["lengths"]}


def _gru_cost(node: Node, target: Target) -> Cost:
    p = node.params
    products = sum(28 * t * u + (4 * t if t > 1 else 0) for t, u in (loop(p.in_c), loop(p.units)))
    step = -(-p.units // 2) * (products + 160) + 1.5 * (p.in_c + p.units) + 150
    return Cost(p.steps * p.batch * step, 900 + 104 * sum(loop(n)[1] for n in (p.in_c, p.units)))


_GRU = replace(
    _LSTM,
    symbol="ge_recurrent_gru_s8_dsp",
    when=_gru_why_not,
    arrange=_gru_stream,
    scratch=lambda p: 3 * (p.units + p.units % 2) + _vectors(p),
    cost=_gru_cost,
)

KERNELS = {"recurrent_s8": only(_LSTM, _GRU)}
