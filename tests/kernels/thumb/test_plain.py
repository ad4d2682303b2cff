"""Fully connected kernels with a byte a weight are exact for every number of inputs and outputs that ends a turn early."""

from __future__ import annotations

import numpy as np
import pytest
from checker import check_kernels
from random_nodes import kernel_node

from glowembed.ops.gemm import FcParams
from glowembed.run import kernel_qemu as emulated

FILLS = ("low", "high", "extremes", "random")


@pytest.mark.arm_gcc
@pytest.mark.qemu
def test_eight_outputs_at_a_time() -> None:
    """The kernel enters a turn of eight inputs where the first ones are not there, and takes the last outputs otherwise."""
    rng = np.random.default_rng(1)
    for inputs in (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 64, 137):
        for out_c in (8, 15) if inputs < 12 else (16, 23):
            reach = 128 * 127 * inputs
            constants = {
                "weights": rng.choice(np.array([-128, 127, 0, -1], np.int8), (out_c, inputs)),
                "bias": rng.integers(-reach // 4, reach // 4 + 1, out_c).astype(np.int32),
                "multiplier": (rng.uniform(0.3, 1.5, out_c) * 2.0**39 / reach).clip(1, 2**31 - 1).astype(np.int32),
            }
            p = FcParams(2, inputs, out_c, shift=32, out_zero_point=-3, lo=-128, hi=127)
            graph = kernel_node("fc_s8", p, constants, (2, inputs), (2, out_c))
            found = check_kernels(graph.nodes[0], graph, rng, FILLS, "armv6m", known=0, thorough=False)
            assert found["ge_fc_eights_s8_armv6m"] == len(FILLS)
    emulated.close()
