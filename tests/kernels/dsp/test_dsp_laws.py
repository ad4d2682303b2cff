"""Kernels of Cortex-M4 in the laws of other engines: sums at halves of the output and beside them, at every shift."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_checker import check_kernels
from random_nodes import kernel_node

from glowembed.graph.ir import Array, Const, Graph, Node, QType, Value
from glowembed.graph.registry import kernel
from glowembed.graph.target import load_target
from glowembed.kernels import dsp
from glowembed.law import fixedpoint
from glowembed.law.modes import MODES, Mode
from glowembed.ops.gemm import FcParams
from glowembed.ops.pool import AvgpoolSameParams

LAWS = [mode for mode in MODES if mode != "default"]
INT8 = QType("int8", (1.0,), (0,))
LARGEST = dsp.SUM_LIMIT - 1 - 128
"""The largest bias to which an input is added."""


def scaled(mode: Mode, bias: Array, scales: Array, zero_point: int = -3) -> tuple[Node, Graph]:
    """Fully connected: each output is its bias and the first of four inputs, times its scale."""
    count = len(bias)
    constants = {
        "weights": np.tile(np.asarray([1, 0, 0, 0], np.int8), (count, 1)),
        "bias": bias.astype(np.int32),
        "multiplier": np.asarray(fixedpoint.requant(scales, mode).multiplier, np.int32),
    }
    p = FcParams(8, 4, count, shift=0, out_zero_point=zero_point, lo=-128, hi=127)
    packed = {name: Const(array) for name, array in constants.items()}
    node = Node("n", f"fc_s8_{mode}", ("x",), ("y",), params=p, constants=packed)
    values = {"x": Value("x", (8, 4), qtype=INT8), "y": Value("y", (8, count), qtype=INT8)}
    return node, Graph("g", (node,), values, ("x",), ("y",))


def near_halves(rng: np.random.Generator) -> tuple[Array, Array]:
    """For scales of every size below 1/2: biases that -128 or 127 make a half of the output, or one beside it, and the largest."""
    bias, scales = [], []
    for exponent in range(1, 33):
        for scale in (2.0 ** -(exponent + 1), 1.5 * 2.0 ** -(exponent + 1), *rng.uniform(0.5, 1.0, 2) * 2.0**-exponent):
            halves = np.rint((rng.integers(-128, 128, 6) + 0.5) / scale)
            bias += [*(halves + rng.choice([128, -127], 6) + [0, 0, 0, 0, 1, -1]), LARGEST, -LARGEST]
            scales += [scale] * 8
    for exponent in range(9, 22):  # halves that the multiplier, which is rounded, misses by a little
        sums = rng.integers(1 << exponent, 2 << exponent, 12) * rng.choice([1, -1], 12)
        bias += (sums + rng.choice([128, -127], 12)).tolist()
        scales += ((rng.integers(0, 128, 12) + 0.5) / np.abs(sums)).tolist()
    return np.clip(bias, -LARGEST, LARGEST).astype(np.int64), np.asarray(scales)


@pytest.mark.cc
@pytest.mark.arm_gcc
@pytest.mark.qemu
@pytest.mark.parametrize(("mode", "zero_point"), [("onnx", -3), ("onnx", 8), ("glow", -3), ("tflite", 127)])
def test_sums_at_every_shift(mode: Mode, zero_point: int) -> None:
    rng = np.random.default_rng(5)
    bias, scales = near_halves(rng)
    if mode == "glow":
        able = np.asarray([_able("glow", b, s) for b, s in zip(bias, scales, strict=True)])
        bias, scales = bias[able], scales[able]
    assert len(bias) > 500
    node, graph = scaled(mode, bias, scales, zero_point)
    checked = check_kernels(node, graph, rng, ("random", "extremes"), "dsp", known=0)
    assert checked[f"ge_fc_s8_dsp_{mode}"] == checked[f"ge_fc_direct_s8_dsp_{mode}"] > 1


def _able(mode: Mode, bias: int, scale: float) -> bool:
    node, _ = scaled(mode, np.asarray([bias]), np.asarray([scale]))
    return kernel(f"ge_fc_s8_dsp_{mode}").when(node, load_target("cortex-m4")) is None


@pytest.mark.parametrize(
    ("mode", "bias", "scale", "able"),
    [
        *((mode, 0, scale, able) for mode in ("onnx", "tflite") for scale, able in ((0.5, False), (0.499, True), (0.0, True))),
        *((mode, LARGEST + more, 0.001, more == 0) for mode in LAWS for more in (0, 1)),
        ("glow", 0, 7.0, True),
        ("glow", (2**31 - 1 - (129 << 12)) // 410 - 129, 0.1, True),  # 0.1 is 410 / 2^12
        ("glow", (2**31 - 1 - (129 << 12)) // 410 - 127, 0.1, False),
    ],
)  # fmt: skip
def test_what_the_kernels_take(mode: Mode, bias: int, scale: float, able: bool) -> None:
    assert _able(mode, bias, scale) == able


@pytest.mark.cc
@pytest.mark.arm_gcc
@pytest.mark.qemu
@pytest.mark.parametrize("isa", ["dsp", "mve"])
def test_means_with_halves_away_from_zero(isa: str) -> None:
    """Windows of one to four elements, which halves are frequent in, and one window that is the image."""
    rng = np.random.default_rng(3)
    for p in (
        AvgpoolSameParams(5, 7, 19, 3, 4, 2, 2, 2, 2, 1, 1, 1, 1, -100, 120),
        AvgpoolSameParams(6, 8, 20, 1, 1, 6, 8, 1, 1, 1, 1, 0, 0, -128, 127),
    ):
        shapes = (p.in_h, p.in_w, p.channels), (p.out_h, p.out_w, p.channels)
        graph = kernel_node("avgpool_tflite_s8", p, {}, *shapes)
        found = check_kernels(graph.nodes[0], graph, rng, ("random", "extremes"), isa, 0)
        assert found[f"ge_avgpool_tflite_s8_{isa}"]
