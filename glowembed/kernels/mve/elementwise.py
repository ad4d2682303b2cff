"""Sums, products, tables and softmax for Helium: when the kernels are exact, and what they cost.

In: kernel-level nodes. Out: `Kernel`s.
"""

from __future__ import annotations

from collections.abc import Mapping

from glowembed.graph.op import Cost, Kernel, KernelsOf, only
from glowembed.kernels.mve import high_word
from glowembed.kernels.shared.add_each import each, pairwise_why_not
from glowembed.ops.shared import broadcast

ADD = Kernel(
    "ge_add_s8_mve",
    isa="mve",
    cost=lambda node, target: Cost(node.params.rows * (4.5 * node.params.row + 20), 350),
    store="elements",
)

LUT = Kernel(
    "ge_lut_s8_mve",
    isa="mve",
    cost=lambda node, target: Cost(node.params.rows * (1.5 * node.params.row + 30), 116),
    store="elements",
)

MUL = Kernel(
    "ge_mul_s8_mve",
    isa="mve",
    when=high_word,
    cost=lambda node, target: Cost(node.params.rows * (3.8 * node.params.row + 60), 250),
    store="elements",
)


MUL_BROADCAST = Kernel(
    "ge_mul_broadcast_s8_mve",
    isa="mve",
    when=high_word,
    cost=lambda node, target: Cost(broadcast.lines_cost(node.params, 3.8, 80), 560),
    store="elements",
)

ADD_BROADCAST = Kernel(
    "ge_add_broadcast_s8_mve",
    isa="mve",
    cost=lambda node, target: Cost(broadcast.lines_cost(node.params, 4.5, 50), 500),
    store="elements",
)

AFFINE = Kernel(
    "ge_affine_s8_mve",
    isa="mve",
    cost=lambda node, target: Cost(node.params.rows * node.params.vectors * (5.0 * node.params.channels + 25), 200),
    store="elements",
)

SOFTMAX = Kernel(
    "ge_softmax_s8_mve",
    isa="mve",
    cost=lambda node, target: Cost(node.params.rows * node.params.vectors * (12.0 * node.params.n + 80), 400),
    store="elements",
)


SOFTMAX_TFLITE = Kernel(
    "ge_softmax_tflite_s8_mve",
    isa="mve",
    cost=lambda node, target: Cost(node.params.rows * node.params.vectors * (9.0 * node.params.n + 220), 460),
    store="elements",
)


KERNELS: Mapping[str, KernelsOf] = {
    "add_s8": only(ADD),
    "add_broadcast_s8": only(ADD_BROADCAST),
    "add_each_s8": each("mve", {"glow": (4.3, 60), "tflite": (7, 60)}, pairwise_why_not),
    "mul_s8": only(MUL),
    "mul_broadcast_s8": only(MUL_BROADCAST),
    "affine_s8": only(AFFINE),
    "lut_s8": only(LUT),
    "softmax_s8": only(SOFTMAX),
    "softmax_tflite_s8": only(SOFTMAX_TFLITE),
}
