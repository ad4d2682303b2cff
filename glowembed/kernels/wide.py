"""What the int16 kernels of all cores share: the proof that sums fit 32 bits, and constants group by group.

In: kernel-level nodes of ops/conv_wide.py. Out: a reason why 32 bits are not enough, or None.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from glowembed.graph.ir import Array, Node
from glowembed.law import wide


def sums_why_not(node: Node, axis: tuple[int, ...]) -> str | None:
    """The reason why 32 bits do not hold the sums, or why the requantization is not one product; None if they do.

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


def grouped(constants: Mapping[str, Array], groups: int) -> list[tuple[Array, Array, Array]]:
    """Weights, bias and multiplier of each group of output channels."""
    w, bias, multiplier = (constants[name] for name in ("weights", "bias", "multiplier"))
    size = len(w) // groups
    return [(w[i : i + size], bias[i : i + size], multiplier[i : i + size]) for i in range(0, len(w), size)]
