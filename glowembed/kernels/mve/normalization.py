"""The Helium kernel of the normalizations: when it is exact, and its cost."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from glowembed.graph.ir import Array, Node
from glowembed.graph.op import Cost, Kernel, only
from glowembed.graph.target import Target
from glowembed.kernels.shared.normalization import why_not
from glowembed.ops.normalization import NormalizeParams


def _without_half(constants: Mapping[str, Array], p: NormalizeParams) -> Mapping[str, Array]:
    """The constants of the law, with shifts that lack the half which VQRSHRNB adds."""
    return {**constants, "shift": (constants["shift"].astype(np.int64) - (1 << p.bits >> 1)).astype(np.int32)}


def _cycles(node: Node, target: Target) -> Cost:
    p = node.params
    return Cost(float(p.rows * p.parts * (3.5 * p.channels + 112)), 560)


NORMALIZE = Kernel(
    "ge_normalize_s8_mve",
    isa="mve",
    when=why_not,
    arrange=_without_half,
    instance=lambda p: {"BITS": p.bits, "VARIANCE": p.variance_bits},
    cost=_cycles,
    store="elements",
)

KERNELS = {"normalize_s8": only(NORMALIZE)}
