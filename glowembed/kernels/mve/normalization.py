"""The Helium kernel of the normalizations: when it is exact, and its cost."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from glowembed.graph.ir import Array, Node
from glowembed.graph.op import Cost, Kernel, only
from glowembed.graph.target import Target
from glowembed.ops.normalization import NormalizeParams


def _why_not(node: Node, target: Target) -> str | None:
    p = node.params
    if p.positions > 1 or p.groups > 1:
        return "its groups are not vectors that follow each other"
    if p.extra or p.bits < 1:
        return "its vectors are longer than 256 elements, or its outputs are beyond the range of their type"
    return None


def _without_half(constants: Mapping[str, Array], p: NormalizeParams) -> Mapping[str, Array]:
    """The constants of the law, with shifts that lack the half which VQRSHRNB adds."""
    return {**constants, "shift": (constants["shift"].astype(np.int64) - (1 << p.bits >> 1)).astype(np.int32)}


def _cycles(node: Node, target: Target) -> Cost:
    p = node.params
    return Cost(float(p.rows * p.parts * (3.5 * p.channels + 112)), 560)


NORMALIZE = Kernel(
    "ge_normalize_s8_mve",
    isa="mve",
    when=_why_not,
    arrange=_without_half,
    instance=lambda p: {"BITS": p.bits, "VARIANCE": p.variance_bits},
    cost=_cycles,
    store="elements",
)

KERNELS = {"normalize_s8": only(NORMALIZE)}
