"""Three sums in two words are exact for the largest sums, in groups of every size, over one chunk of inputs and several."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_checker import check_kernels
from random_nodes import kernel_node

from glowembed.ops.conv import Conv2dParams
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
        p = FcParams(1, inputs, out_c, shift=32, out_zero_point=-3, lo=-128, hi=127)
        graph = kernel_node("fc_s8", p, _largest(rng, out_c, inputs), (1, inputs), (1, out_c))
        found = check_kernels(graph.nodes[0], graph, rng, FILLS, isa, known=0, thorough=False)
        assert found[f"ge_fc_s8_{isa}"] == len(FILLS), "a multiplier or bias was refused"
    emulated.close()


@pytest.mark.parametrize("isa", ["armv6m", "armv7m"])
@pytest.mark.parametrize(
    ("inputs", "channels", "pixels"),
    [(64, (1, 2, 4, 7, 9), 35), (136, (1, 4, 7, 16), 34), (24, (9, 16, 17, 19, 25), 3), (200, (3, 11), 30)],
)
def test_widened_groups_of_every_size(isa: str, inputs: int, channels: tuple[int, ...], pixels: int) -> None:
    """The same in a convolution whose words are made in RAM, with one batch of windows and with several."""
    rng = np.random.default_rng(inputs)
    for out_c in channels:
        ends = (1, 1, 1, 1, 1, 1, 0, 0, 1, 0, 32, -3, -128, 127)
        p = Conv2dParams(2, pixels, inputs, 2, pixels, out_c, *ends)
        constants = _largest(rng, out_c, inputs)
        constants["weights"] = constants["weights"].reshape(out_c, 1, 1, inputs)
        graph = kernel_node("conv2d_s8", p, constants, (1, 2, pixels, inputs), (1, 2, pixels, out_c))
        found = check_kernels(graph.nodes[0], graph, rng, FILLS, isa, known=0, thorough=False)
        assert found[f"ge_conv2d_widened_s8_{isa}"] == len(FILLS), "a multiplier or bias was refused"
    emulated.close()


def _largest(rng: np.random.Generator, out_c: int, inputs: int) -> dict[str, np.ndarray]:
    """Weights of 127, of one sign in a channel or of both; the last channel always saturates."""
    signs = np.where(rng.random((out_c, 1)) < 0.7, rng.choice((-1, 1), (out_c, 1)), rng.choice((-1, 1), (1, inputs)))
    reach = 128 * 127 * inputs
    constants = {
        "weights": (127 * signs).astype(np.int8),
        "bias": rng.integers(-reach // 4, reach // 4, out_c).astype(np.int32),
        "multiplier": (rng.uniform(0.3, 1.5, out_c) * 2.0**39 / reach).astype(np.int32),
    }
    constants["bias"][-1], constants["multiplier"][-1] = 1 << 30, (1 << 31) - 1  # 61 bits, always saturated
    return constants
