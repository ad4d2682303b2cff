"""int16 kernels of Cortex-M0 and M3 at the sizes where a chunk, a strip, a tile or a turn ends early, with sums up to 2^31."""

from __future__ import annotations

import numpy as np
import pytest
from checker import check_kernels
from random_nodes import kernel_node

from glowembed.ops.conv_wide import Conv2dS16Params, FcS16Params
from glowembed.run import kernel_qemu as emulated

FILLS = ("low", "high", "extremes", "random")

LAW = (2, -7, 32, 5, -32768, 32767)
"""Products of int32, the zero points, the shift and the limits."""

CONVOLUTIONS = (
    # in, out, kernel, strides, dilations, pads, groups
    ((1, 7, 1), (1, 7, 2), (1, 1), (1, 1), (1, 1), (0, 0), 1),
    ((3, 4, 63), (3, 4, 3), (1, 1), (1, 1), (1, 1), (0, 0), 1),
    ((2, 3, 65), (2, 3, 1), (1, 1), (1, 1), (1, 1), (0, 0), 1),
    ((5, 4, 11), (5, 4, 2), (3, 3), (1, 1), (1, 1), (1, 1), 1),
    ((7, 5, 4), (4, 3, 6), (3, 2), (2, 2), (1, 1), (1, 1), 2),
    ((6, 6, 2), (6, 6, 2), (3, 3), (1, 1), (2, 2), (2, 2), 1),
)

DEPTHWISES = (
    ((9, 6, 2), (9, 6, 2), (3, 3), (1, 1), (1, 1), (1, 1), 2),
    ((4, 7, 3), (4, 7, 6), (3, 3), (1, 1), (1, 1), (1, 1), 3),
    ((11, 13, 2), (6, 7, 2), (3, 3), (2, 2), (1, 1), (1, 1), 2),
    ((9, 14, 1), (3, 5, 1), (3, 5), (3, 3), (2, 3), (2, 6), 1),
    ((30, 40, 1), (30, 40, 1), (3, 3), (1, 1), (1, 1), (1, 1), 1),
    ((1, 5, 4), (1, 5, 4), (1, 1), (1, 1), (1, 1), (0, 0), 4),
)


def _constants(
    rng: np.random.Generator, shape: tuple[int, ...], out_c: int, inputs: int, bits: int
) -> dict[str, np.ndarray]:
    """Weights whose sums reach 2^31, or as near as `bits` allow, and multipliers of all sizes."""
    largest = min(2 ** (bits - 1) - 1, 65000 // inputs)
    values = np.array([-largest, largest, largest, 0, -1])
    return {
        "weights": rng.choice(values, shape).astype(f"int{bits}"),
        "bias": rng.integers(-(2**24), 2**24, out_c),
        "multiplier": np.resize([2**31 - 1, 2**30 + 12345, 70001, 65536, 3], out_c).astype(np.int32),
    }


def _check(
    op: str, p: object, constants: dict[str, np.ndarray], shapes: tuple, isa: str, rng: np.random.Generator
) -> None:
    graph = kernel_node(op, p, constants, *shapes, "int16")
    found = check_kernels(graph.nodes[0], graph, rng, FILLS, isa, known=0, thorough=False)
    name = op.replace("s16_w16", "w16")
    assert found[f"ge_{name}_{isa}"] == len(FILLS)


@pytest.mark.arm_gcc
@pytest.mark.qemu
@pytest.mark.parametrize("isa", ["armv6m", "armv7m"])
def test_boundary_sizes(isa: str) -> None:
    rng = np.random.default_rng(3)
    for number, (inner, outer, kernel, *rest, groups) in enumerate((*CONVOLUTIONS, *DEPTHWISES)):
        deep = number >= len(CONVOLUTIONS)
        bits, suffix = (8, "s16") if number % 2 else (16, "s16_w16")
        depth = 1 if deep else inner[2] // groups
        p = Conv2dS16Params(*inner, *outer, *kernel, *(n for pair in rest for n in pair), groups, *LAW)
        shape = (*kernel, outer[2]) if deep else (outer[2], *kernel, depth)
        constants = _constants(rng, shape, outer[2], kernel[0] * kernel[1] * depth, bits)
        _check(f"{'depthwise' if deep else 'conv2d'}_{suffix}", p, constants, (inner, outer), isa, rng)
    for inputs, out_c, bits in ((1, 3, 8), (2, 4, 16), (67, 9, 8), (5, 1, 16)):
        p = FcS16Params(2, inputs, out_c, 2, 32, -3, -30000, 30000)
        constants = _constants(rng, (out_c, inputs), out_c, inputs, bits)
        _check(f"fc_{'s16' if bits == 8 else 's16_w16'}", p, constants, ((2, inputs), (2, out_c)), isa, rng)
    emulated.close()
