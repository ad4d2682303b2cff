"""Convolution by columns: rows of a window of whole words and not, inside the image, over its sides and beside it."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_checker import check_kernels
from random_nodes import kernel_node

from glowembed.ops.conv import Conv2dParams
from glowembed.run import kernel_qemu as emulated

WINDOWS = (
    # in, out, kernel, strides, pads
    ((5, 7, 1), (5, 4, 5), (3, 4), (1, 2), (1, 1)),
    ((4, 5, 2), (4, 5, 4), (3, 4), (1, 1), (2, 3)),
    ((3, 4, 4), (2, 5, 6), (2, 3), (2, 1), (0, 2)),
    ((3, 2, 4), (3, 4, 4), (1, 5), (1, 1), (0, 3)),
    ((4, 5, 3), (4, 5, 4), (3, 3), (1, 1), (1, 1)),
    ((4, 5, 4), (4, 5, 4), (3, 4), (1, 1), (1, 1)),
    ((5, 4, 1), (5, 11, 4), (3, 4), (1, 1), (1, 5)),
    ((3, 3, 1), (3, 6, 4), (2, 4), (1, 1), (1, 3)),
    ((3, 2, 2), (3, 5, 5), (3, 2), (1, 1), (1, 2)),
    ((4, 5, 8), (4, 5, 4), (1, 1), (1, 1), (0, 0)),
)


@pytest.mark.arm_gcc
@pytest.mark.qemu
@pytest.mark.parametrize("number", range(len(WINDOWS)))
def test_windows(number: int) -> None:
    inner, outer, kernel, strides, pads = WINDOWS[number]
    rng = np.random.default_rng(number)
    p = Conv2dParams(*inner, *outer, *kernel, *strides, 1, 1, *pads, 1, -11, 32, 3, -128, 127)
    constants = {
        "weights": rng.integers(-128, 128, (outer[2], *kernel, inner[2])).astype(np.int8),
        "bias": rng.integers(-1000, 1000, outer[2]).astype(np.int32),
        "multiplier": np.full(outer[2], 2**32 // 400, np.int32),
        "weight_zero_point": rng.integers(-128, 128, outer[2]).astype(np.int32),
    }
    graph = kernel_node("conv2d_aw_s8", p, constants, inner, outer)
    found = check_kernels(graph.nodes[0], graph, rng, ("random", "extremes"), "dsp", known=0, thorough=False)
    assert found["ge_conv2d_aw_s8_dsp"] >= 2
    emulated.close()
