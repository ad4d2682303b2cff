"""Sums, products, tables and softmax for Helium: when the kernels are exact, and their cost.

In: kernel-level nodes. Out: `Kernel`s.
"""

from __future__ import annotations

from collections.abc import Mapping

from glowembed.graph.op import Cost, Kernel, KernelsOf, only
from glowembed.kernels.mve import high_word
from glowembed.kernels.shared.add_each import each, pairwise_why_not
from glowembed.kernels.shared.elementwise import by_lines, by_rows, by_vectors

ADD = by_rows("ge_add_s8_mve", "mve", 4.5, 20, 350)

LUT = by_rows("ge_lut_s8_mve", "mve", 1.5, 30, 116)

MUL = by_rows("ge_mul_s8_mve", "mve", 3.8, 60, 250, when=high_word)

MUL_BROADCAST = by_lines("ge_mul_broadcast_s8_mve", "mve", 3.8, 80, 560, when=high_word)

ADD_BROADCAST = by_lines("ge_add_broadcast_s8_mve", "mve", 4.5, 50, 500)

AFFINE = Kernel(
    "ge_affine_s8_mve",
    isa="mve",
    cost=lambda node, target: Cost(node.params.rows * node.params.vectors * (5.0 * node.params.channels + 25), 200),
    store="elements",
)

SOFTMAX = by_vectors("ge_softmax_s8_mve", "mve", 12.0, 80, 400)

SOFTMAX_TFLITE = by_vectors("ge_softmax_tflite_s8_mve", "mve", 9.0, 220, 460)


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
