"""Weights with a zero point per output channel, in every op that has weights and in every requantization."""

import numpy as np
import pytest
from checker import case, check_op, weights

from glowembed.graph.ir import Const, QType
from glowembed.law.modes import MODES
from glowembed.ops.shared.linear import linear_constants


def shifted(*shape: int) -> np.ndarray:
    """Channels that lie above zero, below it and around it: the zero points are -128, 127 and values between them."""
    shift = np.resize([0.6, -0.7, 0.1], (shape[0], *[1] * (len(shape) - 1)))
    return (weights(*shape, scale=0.2) + shift).astype(np.float32)


CASES = [
    case("conv", "Conv", (1, 3, 6, 5), shifted(5, 3, 3, 3), weights(5), pads=[1, 1, 1, 1]),
    case("conv groups", "Conv", (1, 6, 5, 5), shifted(9, 2, 3, 2), None, group=3, pads=[0, 1, 1, 0], strides=[2, 1]),
    case("conv 1d", "Conv", (1, 4, 9), shifted(3, 4, 3), weights(3), dilations=[2], pads=[4, 0]),
    case("depthwise", "Conv", (1, 5, 6, 6), shifted(5, 1, 3, 3), weights(5), group=5, pads=[1, 1, 1, 1]),
    case("depthwise multiplier 2", "Conv", (1, 3, 5, 4), shifted(6, 1, 3, 3), None, group=3, pads=[1, 1, 1, 1]),
    case("transposed", "ConvTranspose", (1, 3, 4, 4), shifted(3, 2, 3, 3), weights(2), strides=[2, 2]),
    case("gemm", "Gemm", (2, 17), shifted(7, 17), weights(7), transB=1),
    case("matmul", "MatMul", (1, 3, 9), shifted(9, 4)),
]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_asymmetric_weights(case, mode):
    settings = {"weights_schema": "asymmetric", "requantization": mode}
    check_op(case, steps={"default": 1.01, "onnx": 1.01, "glow": 3.0, "tflite": 1.51}[mode], settings=settings)


@pytest.mark.parametrize("case", CASES[:4], ids=str)
@pytest.mark.parametrize("schema", ["asymmetric", "symmetric_with_uint8"])
def test_one_zero_point_for_all_channels(case, schema):
    check_op(case, settings={"weights_schema": schema, "per_channel": False})


def test_the_zero_point_is_folded_into_the_bias():
    w = Const(np.asarray([[0.0, 1.0], [-1.0, 0.0]], np.float32))
    wq = QType("int8", (1 / 255, 1 / 255), (-128, 127), axis=0)
    x, y = QType("int8", (0.5,), (3,)), QType("int8", (1.0,), (0,))
    k = linear_constants(w, wq, Const(np.asarray([0.0, 1.0], np.float32)), x, y, "node")
    assert k.weights.materialize().tolist() == [[-128, 127], [-128, 127]]
    assert k.weight_zero_point.materialize().tolist() == [-128, 127]
    # sums of w - zero point: 0 + 255 and -255 + 0; the bias 1 is 510 steps of 0.5 / 255
    assert k.bias.materialize().tolist() == [-3 * 255, 510 + 3 * 255]
    assert k.op("conv2d") == "conv2d_aw_s8"
