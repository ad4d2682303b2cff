"""Helium kernels in the laws of other engines: sums of every size, at halves and beside them, at every shift."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from kernel_checker import check_kernels
from random_nodes import kernel_node

from glowembed.graph.ir import Array, Const, Graph, Node, QType, Value
from glowembed.graph.op import in_mode
from glowembed.graph.registry import kernel
from glowembed.graph.target import load_target
from glowembed.law import fixedpoint
from glowembed.law.modes import MODES, Mode
from glowembed.ops.conv import Conv2dParams
from glowembed.ops.gemm import FcParams

LAWS = [mode for mode in MODES if mode != "default"]
INT8 = QType("int8", (1.0,), (0,))
LARGEST = 2**31 - 1 - 128
"""The largest bias whose sums fit int32."""


def scaled(mode: Mode, sums: Array, scales: Array) -> tuple[Node, Graph]:
    """Fully connected with an output for each sum: it, or with every other one it and an input, times its scale."""
    count = len(sums)
    constants = {
        "weights": (np.arange(count) % 2).astype(np.int8).reshape(count, 1),
        "bias": sums.astype(np.int32),
        "multiplier": np.asarray(fixedpoint.requant(scales, mode).multiplier, np.int32),
    }
    p = FcParams(3, 1, count, shift=0, out_zero_point=-3, lo=-128, hi=127)
    packed = {name: Const(array) for name, array in constants.items()}
    node = Node("n", f"fc_s8_{mode}", ("x",), ("y",), params=p, constants=packed)
    values = {"x": Value("x", (3, 1), qtype=INT8), "y": Value("y", (3, count), qtype=INT8)}
    return node, Graph("g", (node,), values, ("x",), ("y",))


def near_halves(rng: np.random.Generator) -> tuple[Array, Array]:
    """For scales of every size below 1/2: sums at halves of the output, one beside them, and the largest there are."""
    sums, scales = [], []
    for exponent in range(1, 33):
        for scale in (2.0 ** -(exponent + 1), 1.5 * 2.0 ** -(exponent + 1), *rng.uniform(0.5, 1.0, 6) * 2.0**-exponent):
            halves = np.rint((rng.integers(-128, 128, 4) + 0.5) / scale) + rng.integers(-1, 2, 4)
            sums += [*halves, 0, LARGEST, -LARGEST]
            scales += [scale] * 7
    return np.clip(sums, -LARGEST, LARGEST).astype(np.int64), np.asarray(scales)


def fits(scales: Array, sums: Array) -> Array:
    """Products in Glow's law that a Helium kernel takes."""
    words = np.asarray([fixedpoint.glow_words(s) for s in scales.tolist()], np.int64)
    return ((np.abs(sums) + 128 >> words[:, 1]) + 1) * words[:, 0] < 2**31


@pytest.mark.cc
@pytest.mark.arm_gcc
@pytest.mark.qemu
@pytest.mark.parametrize("mode", LAWS)
def test_every_sum_at_every_shift(mode: Mode) -> None:
    rng = np.random.default_rng(5)
    sums, scales = near_halves(rng)
    if mode == "glow":
        able = fits(scales, sums)
        sums, scales = sums[able], scales[able]
    assert len(sums) > 900
    node, graph = scaled(mode, sums, scales)
    checked = check_kernels(node, graph, rng, ("random", "extremes"), "mve", known=0)
    assert checked[f"ge_fc_s8_mve_{mode}"] == 2


@pytest.mark.parametrize("mode", ["onnx", "tflite"])
@pytest.mark.parametrize(("scale", "able"), [(0.5, False), (0.499, True), (7.0, False), (0.0, True)])
def test_scales_that_the_kernels_take(mode: Mode, scale: float, able: bool) -> None:
    node, _ = scaled(mode, np.zeros(2), np.asarray([0.01, scale]))
    assert (kernel(f"ge_fc_s8_mve_{mode}").when(node, load_target("cortex-m55")) is None) == able


def test_products_of_glow_that_the_kernels_take() -> None:
    """0.1 is 410 / 2^12: the sum and 128 times a weight of 1, times 410, have to fit int32."""
    largest = (2**31 - 1) // 410 - 1
    for most, able in ((largest, True), (largest + 1, False)):
        node, _ = scaled("glow", np.asarray([-most, most - 128]), np.asarray([0.1, 0.1]))
        assert (kernel("ge_fc_s8_mve_glow").when(node, load_target("cortex-m55")) is None) == able
        grown = replace(node, constants={**node.constants, "weights": Const(np.full((2, 1), -127, np.int8))})
        assert kernel("ge_fc_s8_mve_glow").when(grown, load_target("cortex-m55")) is not None


SHAPES = {
    "1x1, one step": (1, 16, 8, False),
    "1x1, two steps and a rest of channels": (1, 32, 7, False),
    "1x1, nine steps": (1, 144, 4, False),
    "3x3 in a loop": (3, 64, 4, False),
    "3x3, 16 channels": (3, 16, 8, False),
    "3x3, 32 channels": (3, 32, 4, False),
    "3x3, 48 channels": (3, 48, 4, False),
    "depthwise 3x3": (3, 16, 16, True),
}


@pytest.mark.cc
@pytest.mark.arm_gcc
@pytest.mark.qemu
@pytest.mark.parametrize("mode", ["default", *LAWS])
@pytest.mark.parametrize("shape", SHAPES)
def test_convolutions_in_every_law(shape: str, mode: Mode) -> None:
    """Every order of instructions that a kernel has: by its steps, pixels in threes and twos, with and without limits."""
    side, in_c, out_c, depthwise = SHAPES[shape]
    rng, pad = np.random.default_rng(7), side // 2
    for lo, width in ((-128, 5), (-100, 6)):
        weights = (side, side, out_c) if depthwise else (out_c, side, side, in_c)
        scales = rng.uniform(0.5, 1.0, out_c) / (side * side * (1 if depthwise else in_c) * 40)
        requant = fixedpoint.requant(scales, mode)
        constants = {
            "weights": rng.integers(-127, 128, weights).astype(np.int8),
            "bias": rng.integers(-9000, 9000, out_c).astype(np.int32),
            "multiplier": np.asarray(requant.multiplier, np.int32),
        }
        p = Conv2dParams(
            3, width, in_c, 3, width, out_c, side, side, 1, 1, 1, 1, pad, pad, in_c if depthwise else 1,
            in_zero_point=5, shift=requant.shift, out_zero_point=-9, lo=lo, hi=127,
        )  # fmt: skip
        op = in_mode("depthwise_s8" if depthwise else "conv2d_s8", mode)
        graph = kernel_node(op, p, constants, (3, width, in_c), (3, width, out_c))
        checked = check_kernels(graph.nodes[0], graph, rng, ("random",), "mve", known=0, thorough=False)
        assert any("_mve" in name for name in checked)


@pytest.mark.arm_gcc
@pytest.mark.qemu
@pytest.mark.parametrize(
    ("side", "in_c", "out_c", "groups", "parts"),
    [(1, 32, 24, 2, 2), (3, 20, 12, 4, 2), (3, 20, 14, 2, 2), (2, 6, 6, 3, 1)],
)
def test_convolutions_with_groups(side: int, in_c: int, out_c: int, groups: int, parts: int) -> None:
    """Windows in place and copied, parts of one group and of several, and parts that end within a four."""
    rng = np.random.default_rng(9)
    p = Conv2dParams(
        4, 5, in_c, 4, 5, out_c, side, side, 1, 1, 1, 1, side // 2, side // 2, groups,
        in_zero_point=5, shift=32, out_zero_point=-9, lo=-128, hi=127,
    )  # fmt: skip
    constants = {
        "weights": rng.integers(-127, 128, (out_c, side, side, in_c // groups)).astype(np.int8),
        "bias": rng.integers(-9000, 9000, out_c).astype(np.int32),
        "multiplier": rng.integers(2**21, 2**22, out_c).astype(np.int32),
    }
    assert kernel("ge_conv2d_s8_mve").symbol_for(p).endswith(f"_{parts}" if parts > 1 else "_0")
    graph = kernel_node("conv2d_s8", p, constants, (4, 5, in_c), (4, 5, out_c))
    assert check_kernels(graph.nodes[0], graph, rng, ("random",), "mve", known=False)["ge_conv2d_s8_mve"]


@pytest.mark.arm_gcc
@pytest.mark.qemu
def test_asymmetric_weights() -> None:
    """In place and from scratch, unrolled and in a loop, with channels that end a four early, zero points of all sizes."""
    rng = np.random.default_rng(5)
    windows = (
        # in, out, kernel, pads, groups
        ((2, 7, 16), (2, 7, 8), (1, 1), (0, 0), 1),
        ((2, 4, 32), (2, 4, 6), (1, 1), (0, 0), 1),
        ((1, 3, 176), (1, 3, 5), (1, 1), (0, 0), 1),
        ((4, 5, 3), (4, 5, 7), (3, 3), (1, 1), 1),
        ((3, 4, 20), (3, 4, 4), (3, 3), (1, 1), 1),
        ((3, 4, 6), (3, 4, 10), (3, 3), (1, 1), 2),
    )
    for inner, outer, size, pads, groups in windows:
        p = Conv2dParams(*inner, *outer, *size, 1, 1, 1, 1, *pads, groups, -11, 32, 3, -128, 100)
        constants = {
            "weights": rng.integers(-128, 128, (outer[2], *size, inner[2] // groups)).astype(np.int8),
            "bias": rng.integers(-1000, 1000, outer[2]).astype(np.int32),
            "multiplier": np.full(outer[2], 2**32 // 900, np.int32),
            "weight_zero_point": np.resize([-128, 127, 0, 1], outer[2]).astype(np.int32),
        }
        graph = kernel_node("conv2d_aw_s8", p, constants, inner, outer)
        found = check_kernels(graph.nodes[0], graph, rng, ("random", "extremes", "high"), "mve", known=0)
        assert found["ge_conv2d_aw_s8_mve"] > 0
