"""Elementwise operators and Softmax on Cortex-M4, M7 and M33: when the kernels apply, their constants and costs.

In: kernel-level nodes, params and constants. Out: `Kernel`s.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from glowembed.graph.ir import Array, Node
from glowembed.graph.op import Cost, Kernel, only
from glowembed.graph.target import Target
from glowembed.kernels.shared.add_each import each
from glowembed.kernels.shared.elementwise import by_lines, by_rows, by_vectors
from glowembed.ops.add import AddBroadcastParams
from glowembed.ops.affine import AffineParams
from glowembed.ops.shared import broadcast


def _add_why_not(node: Node, target: Target) -> str | None:
    largest = max(abs(node.params.multiplier_a), abs(node.params.multiplier_b))
    return f"a multiplier is {largest}, more than int16" if largest > 32767 else None


def _add_element(p: AddBroadcastParams) -> float:
    """The cycles of an element, which are fewer if only one operand changes along a line."""
    return 6.9 if p.strides_a[-1] and p.strides_b[-1] else 4.7


ADD = by_rows("ge_add_s8_dsp", "dsp", 6.3, 60, 550, when=_add_why_not, instance=lambda p: {"SHIFT": p.shift})

ADD_FINE = by_rows("ge_add_fine_s8_dsp", "dsp", 6.8, 60, 300, instance=lambda p: {"SHIFT": p.shift})

ADD_BROADCAST = Kernel(
    "ge_add_broadcast_s8_dsp",
    isa="dsp",
    instance=lambda p: {"SHIFT": p.shift},
    cost=lambda n, t: Cost(broadcast.lines_cost(n.params, _add_element(n.params), 70), 520),
    store="elements",
)


def _mul_why_not(node: Node, target: Target) -> str | None:
    return None if node.params.shift == 32 else f"shift is {node.params.shift}, SMMLAR shifts by 32"


MUL = by_rows("ge_mul_s8_dsp", "dsp", 6.3, 90, 420, when=_mul_why_not)

MUL_BROADCAST = by_lines("ge_mul_broadcast_s8_dsp", "dsp", 6.3, 100, 800, when=_mul_why_not)


LUT = by_rows("ge_lut_s8_dsp", "dsp", 5.3, 25, 190)

TURN = 8
"""The number of channels in a turn of ge_affine_s8_dsp."""


def _repeats(channels: int) -> int:
    """The number of vectors for which the stream of ge_affine_s8_dsp has constants; they fill whole turns if a vector
    is shorter than a turn.
    """
    return TURN // math.gcd(channels, TURN) if channels < TURN else 1


def _pairs(constants: Mapping[str, Array], p: AffineParams) -> Mapping[str, Array]:
    """The multiplier and offset of each channel, alternating."""
    pairs = np.stack([constants["multiplier"], constants["offset"]], axis=1).astype(np.int32)
    return {"stream": np.tile(pairs.reshape(-1), _repeats(p.channels))}


def _dsp_row_cycles(p: AffineParams) -> float:
    runs: float = p.vectors / _repeats(p.channels)
    return 7.0 * float(p.vectors * p.channels) + 25 * runs + 30


AFFINE = Kernel(
    "ge_affine_s8_dsp",
    isa="dsp",
    constants={"stream": "int32_t"},
    arrange=_pairs,
    instance=lambda p: {"SHIFT": p.shift},
    cost=lambda n, t: Cost(n.params.rows * _dsp_row_cycles(n.params), 290),
    store="elements",
)

SOFTMAX = by_vectors("ge_softmax_s8_dsp", "dsp", 24.0, 90, 450)

SOFTMAX_TFLITE = by_vectors("ge_softmax_tflite_s8_dsp", "dsp", 26.0, 250, 800)

KERNELS = {
    "add_s8": only(ADD, ADD_FINE),
    "add_broadcast_s8": only(ADD_BROADCAST),
    "add_each_s8": each("dsp", {"glow": (15, 50), "tflite": (31, 70)}, lambda node: None),
    "mul_s8": only(MUL),
    "mul_broadcast_s8": only(MUL_BROADCAST),
    "lut_s8": only(LUT),
    "affine_s8": only(AFFINE),
    "softmax_s8": only(SOFTMAX),
    "softmax_tflite_s8": only(SOFTMAX_TFLITE),
}
