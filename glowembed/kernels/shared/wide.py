"""Proofs about constants, and constants group by group, for the int16 and the float32 kernels of several cores.

In: kernel-level nodes of ops/conv_wide.py and ops/float32.py. Out: a reason why a kernel does not apply, or None.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from glowembed.graph.ir import Array, Node
from glowembed.law import wide


def sums_why_not(node: Node, axis: tuple[int, ...]) -> str | None:
    """The reason why 32 bits cannot hold the sums, or why the requantization is not one product; None if there is none.

    axis: the axes of the weights that are summed.
    """
    if node.params.shift != wide.UPPER:
        return f"the shift of the requantization is {node.params.shift}, not {wide.UPPER}"
    weights = np.abs(node.constants["weights"].materialize().astype(np.int64)).sum(axis=axis)
    bounds = 32768 * weights + np.abs(node.constants["bias"].materialize().astype(np.int64))
    worst = int(bounds.argmax())
    if bounds[worst] >= 2**31:
        return f"the sum of channel {worst} can reach {bounds[worst]}, 2^31 and more is too much"
    return None


LEAST_SHIFT = 33
"""From this shift of a requantization on, the half that it adds is a multiple of 2^32. One less is the same with twice the multiplier."""


def upper_word_why_not(node: Node) -> str | None:
    """The reason why an output is not made from the upper word of a sum of 64 bits times an unsigned multiplier; None if it is."""
    if node.params.shift < LEAST_SHIFT - 1:
        return f"the shift of the requantization is {node.params.shift}, it takes {LEAST_SHIFT - 1} and more"
    return "a multiplier is negative" if node.constants["multiplier"].materialize().min() < 0 else None


def upper_word_multipliers(multiplier: Array, shift: int) -> Array:
    """The multipliers for a shift of at least LEAST_SHIFT, as int64."""
    return multiplier.astype(np.int64) << max(LEAST_SHIFT - shift, 0)


def grouped(constants: Mapping[str, Array], groups: int) -> list[tuple[Array, Array, Array]]:
    """Weights, bias and multiplier of each group of output channels."""
    w, bias, multiplier = (constants[name] for name in ("weights", "bias", "multiplier"))
    size = len(w) // groups
    return [(w[i : i + size], bias[i : i + size], multiplier[i : i + size]) for i in range(0, len(w), size)]


def of_weight(kernel: str, core: str, weight: str) -> dict[str, Any]:
    """The fields of `Kernel` that name a kernel whose file serves both types of weights: ge_fc_s16_dsp or
    ge_fc_w16_dsp.

    weight: the C type of the weights, which the file calls <FILE>_WEIGHT.
    """
    text = f"ge_{kernel}_s16_{core}"
    if weight == "int8_t":
        return {"symbol": text}
    return {"symbol": f"ge_{kernel}_w16_{core}", "template": text, "words": {"WEIGHT": weight}}


def zeros_why_not(node: Node) -> str | None:
    """The reason why zeros in place of padding would change a float32 sum; None if they would not.

    No sum is -0 unless its bias is, because a + b is -0 only if both are. And a finite weight times 0 is a zero.
    """
    bias = node.constants["bias"].materialize()
    if not all(np.all(np.isfinite(array)) for array in (node.constants["weights"].materialize(), bias)):
        return "a weight or a bias is not finite"
    return "a bias is -0" if np.any(np.signbit(bias) & (bias == 0)) else None
