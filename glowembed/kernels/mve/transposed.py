"""Transposed convolution for Helium, by the kernels of ordinary convolution.

In: the `Kernel`s of conv2d and of depthwise. Out: those of conv_transpose2d.
"""

from __future__ import annotations

from collections.abc import Mapping

from glowembed.graph.op import KernelsOf, only
from glowembed.kernels.mve import ASYMMETRIC, conv2d, depthwise, exact, wide
from glowembed.kernels.shared.transposed import transposed, transposed_s16

KERNELS: Mapping[str, KernelsOf] = {
    "conv_transpose2d_s8": lambda mode: (
        transposed(conv2d(mode), "conv2d_s8", mode),
        transposed(depthwise(mode), "depthwise_s8", mode),
    ),
    "conv_transpose2d_aw_s8": only(transposed(ASYMMETRIC, "conv2d_aw_s8", "default")),
    **transposed_s16(wide.KERNELS, exact.KERNELS),
}
