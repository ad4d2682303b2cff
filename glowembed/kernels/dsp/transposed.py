"""Transposed convolution on Cortex-M4, M7 and M33, by those kernels of ordinary convolution that need little stack.

In: the `Kernel`s of conv2d and of depthwise. Out: those of conv_transpose2d.
"""

from __future__ import annotations

from collections.abc import Mapping

from glowembed.graph.op import KernelsOf, only, together
from glowembed.kernels.dsp import exact, wide
from glowembed.kernels.dsp.block import CONV2D as BLOCKS
from glowembed.kernels.dsp.conv import strip_kernels
from glowembed.kernels.dsp.depthwise import window_kernel
from glowembed.kernels.dsp.points import points_kernels
from glowembed.kernels.shared.transposed import transposed, transposed_s16

KERNELS: Mapping[str, KernelsOf] = {
    "conv_transpose2d_s8": together(
        only(transposed(BLOCKS[0], "conv2d_s8", "default")),
        lambda mode: (
            *(transposed(one[0], "conv2d_s8", mode) for one in (strip_kernels(mode), points_kernels(mode))),
            transposed(window_kernel(mode), "depthwise_s8", mode),
        ),
    ),
    **transposed_s16(wide.KERNELS, exact.KERNELS),
}
