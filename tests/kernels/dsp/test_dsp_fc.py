"""Fully connected kernels for weights of -128 and for sums of 32 bits, which two channels in a half-word do not allow."""

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
@pytest.mark.parametrize(
    ("shift", "bias"), [(32, 2**31 - 1 - 128 * 128 * 65), (31, 2**29), (25, 0)], ids=["int32", "shift 31", "shift 25"]
)
def test_sums_of_32_bits(shift: int, bias: int) -> None:
    """The largest sums there are, for every number of inputs and outputs that ends a turn of the loop early."""
    rng = np.random.default_rng(shift)
    for inputs, out_c in (
        (1, 1),
        (2, 3),
        (3, 4),
        (4, 5),
        (5, 8),
        (6, 2),
        (7, 9),
        (8, 4),
        (9, 6),
        (13, 4),
        (16, 7),
        (65, 5),
    ):
        constants = {
            "weights": rng.choice(np.array([-128, 127, 0, -1], np.int8), (out_c, inputs)),
            "bias": rng.choice(np.array([-bias, bias, 0], np.int32), out_c),
            "multiplier": (rng.uniform(0.3, 1.5, out_c) * 2.0 ** (shift + 7) / (bias + 2**14 * inputs)).astype(
                np.int32
            ),
        }
        p = FcParams(2, inputs, out_c, shift=shift, out_zero_point=-3, lo=-128, hi=127)
        graph = kernel_node("fc_s8", p, constants, (2, inputs), (2, out_c))
        found = check_kernels(graph.nodes[0], graph, rng, FILLS, "dsp", known=0, thorough=False)
        assert found["ge_fc_wide_s8_dsp"] >= len(FILLS)
    emulated.close()
