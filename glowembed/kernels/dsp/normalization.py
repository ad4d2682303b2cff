"""Kernels of the normalizations for dsp: when they are exact, the order of their constants, and their cost."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from glowembed.graph.ir import Array
from glowembed.graph.op import Cost, Kernel, only
from glowembed.kernels.shared.normalization import why_not
from glowembed.ops.normalization import NormalizeParams


def _pairs(constants: Mapping[str, Array], p: NormalizeParams) -> Mapping[str, Array]:
    """The scale and the shift of each channel, alternating."""
    pairs = np.stack([constants["scale"], constants["shift"]], axis=1).astype(np.int32)
    return {"stream": pairs.reshape(-1), "roots": constants["roots"]}


def _cycles(p: NormalizeParams) -> float:
    return float(p.rows * p.parts * (10.5 * p.channels + 130))


NORMALIZE = Kernel(
    "ge_normalize_s8_dsp",
    isa="dsp",
    when=why_not,
    constants={"stream": "int32_t", "roots": "uint16_t"},
    arrange=_pairs,
    instance=lambda p: {"BITS": p.bits, "VARIANCE": p.variance_bits},
    cost=lambda n, t: Cost(_cycles(n.params), 620),
    store="elements",
)

KERNELS = {"normalize_s8": only(NORMALIZE)}
