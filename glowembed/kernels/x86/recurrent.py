"""Recurrent layers on x86-64: when the kernels apply, their blocks of weights and costs.

In: kernel-level nodes, params and constants. Out: `Kernel`s. runtime_c/kernels/x86/recurrent_s8_x86.c explains how they work.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from glowembed.graph.ir import Array, Node
from glowembed.graph.op import Cost, Kernel, only
from glowembed.graph.target import Target
from glowembed.kernels.shared import gates
from glowembed.kernels.x86 import ELEMENT, INPUTS, OUTPUTS, SLACK, blocks
from glowembed.ops.recurrent_kernels import RecurrentParams

SUM_LIMIT = 1 << 23
"""The limit of sums. With multipliers below 2^31, the products of smaller sums fit in 32 bits after a shift by 24."""

TOGETHER = 4
"""RECURRENT_S8_X86_TOGETHER of the C file."""

STATE_MULTIPLIERS = {gates.LSTM: 512, gates.GRU: 65536}
"""The multipliers of a hidden state with scale 1/128."""


def _why_not(node: Node, target: Target) -> str | None:
    p = node.params
    if p.kind not in STATE_MULTIPLIERS or (p.kind == gates.GRU and not p.before_reset):
        return "it is a RNN, or a GRU whose reset comes before the product with the state"
    if p.multiplier_h != STATE_MULTIPLIERS[p.kind] or p.zero_point != 0 or p.result > 1:
        return "its hidden state has not the type 1/128, or its cell is the result"
    return gates.form_why_not(node, p.kind) or gates.sums_why_not(node, SUM_LIMIT)


def _units(p: RecurrentParams) -> int:
    return int(-(-p.units // OUTPUTS) * OUTPUTS)


def _gates(p: RecurrentParams) -> int:
    return 4 if p.kind == gates.LSTM else 3


def _row_count(p: RecurrentParams) -> int:
    """The rows of the gates, which follow each other, and those of zeros behind them."""
    return int(-(-_gates(p) * p.units // OUTPUTS) * OUTPUTS)


def _rows(values: Array, p: RecurrentParams) -> Array:
    """[products, gates, units, ...] as rows, those of each product padded by zeros."""
    apart = values.reshape(-1, _gates(p) * p.units, *values.shape[1:])
    pads = [(0, 0), (0, _row_count(p) - apart.shape[1])] + [(0, 0)] * (values.ndim - 1)
    return np.pad(apart, pads).reshape(-1, *values.shape[1:])


def _arrange(constants: Mapping[str, Array], p: RecurrentParams) -> Mapping[str, Array]:
    n = _gates(p) * p.units
    matrices = [_rows(constants[name].reshape(n, -1), p) for name in ("weights", "recurrent")]
    start = _rows(constants["start"].astype(np.int64), p)
    offset = np.concatenate([128 * m.astype(np.int64).sum(axis=1) for m in matrices])
    return {
        "weights": np.concatenate([blocks(m[:, None]) for m in matrices]),
        "start": (start - offset).astype(np.int32), "multiplier": _rows(constants["multiplier"], p),
        "tables": constants["tables"], "lengths": constants["lengths"],
    }  # fmt: skip


def _scratch(p: RecurrentParams) -> int:
    units = _units(p)
    inputs, states = (-(-count // INPUTS) * INPUTS for count in (p.in_c, p.units))
    words = units + (TOGETHER + 2) * _row_count(p) + 3 * OUTPUTS
    return int(4 * words + units + ELEMENT * max(TOGETHER * inputs, states) + SLACK)


def _cost(node: Node, target: Target) -> Cost:
    p, units = node.params, _units(node.params)
    steps = -(-p.in_c // INPUTS) + -(-p.units // INPUTS)
    return Cost(p.steps * p.batch * (_row_count(p) / OUTPUTS * (1.6 * steps + 45) + 4 * units + 60), 4000)


_RECURRENT = Kernel(
    "ge_recurrent_s8_x86",
    isa="x86",
    when=_why_not,
    constants={
        "weights": "int8_t", "start": "int32_t", "multiplier": "int32_t", "tables": "int32_t", "lengths": "int32_t",
    },
    arrange=_arrange,
    scratch=_scratch,
    cost=_cost,
)  # fmt: skip

KERNELS = {"recurrent_s8": only(_RECURRENT)}
