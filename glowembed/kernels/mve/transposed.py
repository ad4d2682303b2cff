"""Transposed convolution for Helium, by the kernel of ordinary convolution.

In: the `Kernel`s of conv2d. Out: those of conv_transpose2d.
"""

from __future__ import annotations

from collections.abc import Mapping

from glowembed.graph.op import KernelsOf, only
from glowembed.kernels.mve import ASYMMETRIC, conv2d
from glowembed.kernels.shared.transposed import transposed

KERNELS: Mapping[str, KernelsOf] = {
    "conv_transpose2d_s8": lambda mode: (transposed(conv2d(mode), "conv2d_s8", mode),),
    "conv_transpose2d_aw_s8": only(transposed(ASYMMETRIC, "conv2d_aw_s8", "default")),
}
