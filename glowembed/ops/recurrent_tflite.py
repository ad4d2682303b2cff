"""LSTM with the bits of TensorFlow Lite Micro: UNIDIRECTIONAL_SEQUENCE_LSTM of int8 with an int16 cell. Kernel-level: lstm_tflite_s8.

    a  = sat16(m(W (x - z_x) + b, s_x s_w 2^12)) + sat16(m(R (h - z_h), s_h s_r 2^12))    in sat16, for each gate, in steps of 2^-12
    i, f, o = sigmoid(a);  g = tanh(a)                                                  int16, Q0.15
    c = sat16(m(f c, 2^-15)) + sat16(m(i g, 2^-30 / s_c))                               int16, s_c = 2^power, within the clip
    h = sat8(m(tanh(c) o, 2^-30 / s_h) + z_h)

m(n, scale) is n times the scale as in MultiplyByQuantizedMultiplier, rounded twice. law/tflite.py defines sigmoid and tanh.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from glowembed.errors import UnsupportedModelError
from glowembed.graph.cstruct import i32
from glowembed.graph.geometry import Elements, whole
from glowembed.graph.ir import Array, Const, Node
from glowembed.graph.op import Cost, Kernel, KernelOp, LowerContext
from glowembed.law import fixedpoint, tflite
from glowembed.law.fixedpoint import multiply_tflite, tflite_words
from glowembed.ops.recurrent_kernels import sizes
from glowembed.ops.shared.linear import mode_of
from glowembed.records import dataclass

FORM = "tflite"
"""The attr with what the file says besides: the scales of the weights W and R of the gates i, o, f, g, the power of two that is the scale of the
cell, and the clip of the cell in its steps (0: none).
"""

LOWEST, HIGHEST = -32768, 32767


@dataclass(frozen=True)
class LstmTfliteParams:
    """The params of a layer. Offsets count elements."""

    steps: int = i32("of the input")
    batch: int = i32("sequences")
    in_c: int = i32("input features")
    units: int = i32("of the state")
    x_step: int = i32("from step to step of the input")
    x_batch: int = i32("from sequence to sequence of the input")
    y_step: int = i32("from step to step of the output")
    y_batch: int = i32("from sequence to sequence of the output")
    zero_point: int = i32("of the hidden state")
    cell_low: int = i32("the clip of the cell")
    cell_high: int = i32("the clip of the cell")
    tanh_multiplier: int = i32("from steps of the cell to those of the table of tanh")
    tanh_shift: int = i32("to the right, after the multiplier")
    words: tuple[int, ...] = i32("multiplier and shift of f c, of i g, and of the new state", 6)


def has_bits(node: Node) -> bool:
    """Whether a node is computed in this law: it has the form, and the law is that of the file."""
    return mode_of(node.attrs) == "tflite" and FORM in node.attrs


def lower(node: Node, c: LowerContext) -> None:
    """Add the kernel-level node. Raises UnsupportedModelError if a sum does not fit int32."""
    x, w, r, wb = node.inputs[:4]
    xq, hq = c.qtype(x), c.qtype(node.outputs[0])
    *scales, power, clip = node.attrs[FORM]
    units = c.shape(r)[1]
    rows = np.repeat(np.asarray(scales, np.float64).reshape(2, 4), units, axis=1)
    stored = [
        np.rint(c.const(name).materialize().astype(np.float64) / scale[:, None]).astype(np.int8)
        for name, scale in zip((w, r), rows, strict=True)
    ]
    bias = fixedpoint.bias_steps(c.const(wb).materialize(), rows[0] * xq.scale[0], 2.0**31, node.name)
    zeros = (xq.zero_point[0], hq.zero_point[0])
    sums = [zero * s.astype(np.int64).sum(axis=1) for zero, s in zip(zeros, stored, strict=True)]
    start = np.concatenate([bias - sums[0], -sums[1]])
    bound = np.abs(start).max(initial=0) + 2**14 * max(c.shape(x)[2], units)
    if bound >= 2**31:
        raise UnsupportedModelError(f"{node.name}: sums of a gate may reach {bound}, more than int32 holds")
    operands = (xq.scale[0], hq.scale[0])
    multipliers = [
        tflite_words(float(v)) for s, q in zip(rows[:, ::units], operands, strict=True) for v in s * q * 4096
    ]
    cell = 2.0**power
    updates = [tflite_words(v) for v in (2.0**-15, 2.0**-30 / cell, 2.0**-30 / hq.scale[0])]
    shift = int(power) + 12
    params = LstmTfliteParams(
        **sizes(c.shape(x), units, node.attrs), zero_point=hq.zero_point[0],
        cell_low=-int(clip) if clip else LOWEST, cell_high=int(clip) if clip else HIGHEST,
        tanh_multiplier=3 << max(shift, 0), tanh_shift=max(-shift, 0), words=tuple(n for pair in updates for n in pair),
    )  # fmt: skip
    constants = {
        "weights": c.const(w).then("stored", lambda _: stored[0]), "recurrent": c.const(r).then("stored", lambda _: stored[1]),
        "start": Const(start.astype(np.int32)), "multiplier": Const(np.asarray(multipliers, np.int32)),
        "table": Const(tflite.gate_table()),
    }  # fmt: skip
    macs = params.steps * params.batch * 4 * units * (params.in_c + units)
    c.add(node, LstmTfliteS8.name, [x], node.outputs[0], params, constants, macs=macs)


def _scratch(p: LstmTfliteParams) -> int:
    """The bytes of the gates and cells (int16), and of the states."""
    return 2 * (4 + 1) * p.units + p.units


def _elements(p: LstmTfliteParams) -> Elements:
    return (p.steps * p.batch * p.in_c,), p.steps * p.batch * p.units


class LstmTfliteS8(KernelOp[LstmTfliteParams]):
    """Computes all steps of all sequences in one call, each from a state of zeros."""

    name = "lstm_tflite_s8"
    params = LstmTfliteParams
    requantization = "tflite"
    geometry = whole(_elements)
    constants: ClassVar[Mapping[str, str]] = {
        "weights": "int8_t", "recurrent": "int8_t", "start": "int32_t", "multiplier": "int32_t", "table": "uint16_t",
    }  # fmt: skip
    kernels = (
        Kernel(
            "ge_lstm_tflite_s8",
            cost=lambda n, t: Cost(6.0 * n.macs + 300.0 * n.params.steps * n.params.batch * n.params.units, 1400),
            scratch=_scratch,
        ),
    )

    def int_ref(self, p: LstmTfliteParams, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        flat, table = inputs[0].reshape(-1).astype(np.int64), constants["table"].astype(np.int64)
        at = np.arange(p.batch)[:, None]
        out = np.zeros(p.steps * p.batch * p.units, np.int64)
        h, cell = np.full((p.batch, p.units), p.zero_point, np.int64), np.zeros((p.batch, p.units), np.int64)
        for step in range(p.steps):
            x = flat[step * p.x_step + at * p.x_batch + np.arange(p.in_c)]
            h, cell = self.step(p, x, h, cell, constants, table)
            out[step * p.y_step + at * p.y_batch + np.arange(p.units)] = h
        return out.astype(np.int8)

    def step(
        self, p: LstmTfliteParams, x: Array, h: Array, cell: Array, constants: Mapping[str, Array], table: Array
    ) -> tuple[Array, Array]:
        """The next states and cells, [batch, units]."""
        rows = 4 * p.units
        start, words = (
            constants["start"].astype(np.int64),
            np.repeat(constants["multiplier"].reshape(2, 4, 2), p.units, axis=1),
        )
        given = x @ constants["weights"].reshape(rows, -1).astype(np.int64).T + start[:rows]
        own = h @ constants["recurrent"].reshape(rows, -1).astype(np.int64).T + start[rows:]
        parts = [_scaled(n, *w.astype(np.int64).T) for n, w in zip((given, own), words, strict=True)]
        i, o, f, g = np.split(np.clip(parts[0] + parts[1], LOWEST, HIGHEST), 4, axis=1)
        i, o, f = (tflite.gate_sigmoid(n, table) for n in (i, o, f))
        added = _scaled(i * tflite.gate_tanh(g, table, 3, 0), *p.words[2:4])
        cell = np.clip(_scaled(f * cell, *p.words[:2]) + added, LOWEST, HIGHEST).clip(p.cell_low, p.cell_high)
        state = multiply_tflite(tflite.gate_tanh(cell, table, p.tanh_multiplier, p.tanh_shift) * o, *p.words[4:])
        return np.clip(state + p.zero_point, -128, 127), cell


def _scaled(n: Any, multiplier: Any, shift: Any) -> Array:
    """A product in int16."""
    return np.clip(multiply_tflite(n, multiplier, shift), LOWEST, HIGHEST)


KERNEL_OPS = (LstmTfliteS8(),)
