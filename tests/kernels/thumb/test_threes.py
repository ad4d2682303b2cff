"""Three sums in two words are exact for the largest sums, in groups of every size, over one chunk of inputs and several."""

from __future__ import annotations

import numpy as np
import pytest
from checker import check_kernels
from random_nodes import kernel_node

from glowembed.ops.gemm import FcParams
from glowembed.run import kernel_qemu as emulated

pytestmark = [pytest.mark.arm_gcc, pytest.mark.qemu]

FILLS = ("low", "high", "extremes", "random")


@pytest.mark.parametrize("isa", ["armv6m", "armv7m"])
@pytest.mark.parametrize(("inputs", "channels"), [(64, range(1, 10)), (24, (16, 19)), (136, range(1, 10))])
def test_the_largest_sums_of_every_group(isa: str, inputs: int, channels: range) -> None:
    """64 weights of 127 are as much as one chunk may have; 136 take three. A channel's weights have one sign, or both."""
    rng = np.random.default_rng(inputs)
    for out_c in channels:
        signs = np.where(
            rng.random((out_c, 1)) < 0.7, rng.choice((-1, 1), (out_c, 1)), rng.choice((-1, 1), (1, inputs))
        )
        reach = 128 * 127 * inputs
        constants = {
            "weights": (127 * signs).astype(np.int8),
            "bias": rng.integers(-reach // 4, reach // 4, out_c).astype(np.int32),
            "multiplier": (rng.uniform(0.3, 1.5, out_c) * 2.0**39 / reach).astype(np.int32),
        }
        constants["bias"][-1], constants["multiplier"][-1] = 1 << 30, (1 << 31) - 1  # 61 bits, always saturated
        p = FcParams(1, inputs, out_c, shift=32, out_zero_point=-3, lo=-128, hi=127)
        graph = kernel_node("fc_s8", p, constants, (1, inputs), (1, out_c))
        found = check_kernels(graph.nodes[0], graph, rng, FILLS, isa, known=False, thorough=False)
        assert found[f"ge_fc_s8_{isa}"] == len(FILLS), "a multiplier or bias was refused"
    emulated.close()
