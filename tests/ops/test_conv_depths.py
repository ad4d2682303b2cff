"""Conv and Gemm at the depths, widths and lengths of sums where the kernels of Cortex-M55, M3 and M0 change their way."""

import numpy as np
import pytest
from checker import case, check_op, weights

pytestmark = pytest.mark.cc


def conv(name, h, w, c, kernel, out, **attrs):
    group = attrs.get("group", 1)
    wanted = (out, c // group, *kernel)
    return case(name, "Conv", (1, c, h, w), weights(*wanted), weights(out, seed=2), **attrs)


def with_dead_channels():
    """Outputs that cannot change: no weights at all, or none that reach the next step of the output."""
    w = weights(5, 8, 1, 1)
    w[1] = 0.0
    w[3] *= 1e-6
    return case("dead channels", "Conv", (1, 8, 4, 3), w, weights(5, seed=3), pads=[0, 0, 0, 0])


def random_case(chance):
    """Depthwise 3x3, for which cores have kernels in every dtype."""
    stride, channels = chance.choice((1, 1, 2)), chance.choice((2, 4, 5, 8, 16, 24))
    attrs = {"group": channels, "pads": [1, 1, 1, 1], "strides": [stride, stride]}
    return conv("node", chance.randint(3, 9), chance.randint(3, 9), channels, (3, 3), channels, **attrs)


CASES = [
    conv("3x3 of 16, width 3", 4, 3, 16, (3, 3), 8, pads=[1, 1, 1, 1]),
    conv("3x3 of 16, width 4, no padding", 5, 6, 16, (3, 3), 4),
    conv("3x3 of 32, width 5", 3, 5, 32, (3, 3), 4, pads=[1, 1, 1, 1]),
    conv("3x3 of 48, width 7", 3, 7, 48, (3, 3), 12, pads=[1, 1, 1, 1]),
    conv("3x3 of 16, stride 2 down", 7, 6, 16, (3, 3), 4, strides=[2, 1], pads=[1, 1, 1, 1]),
    conv("3x3 of 16, dilation 2 down", 7, 6, 16, (3, 3), 4, dilations=[2, 1], pads=[2, 1, 2, 1]),
    conv("3x3 of 64: a loop of 36 steps, two chunks", 3, 4, 64, (3, 3), 7, pads=[1, 1, 1, 1]),
    conv("3x3 of 4, width 2", 2, 2, 4, (3, 3), 4, pads=[1, 1, 1, 1]),
    conv("3x3 of 20, width 9", 5, 9, 20, (3, 3), 9, pads=[1, 1, 1, 1]),
    conv("3x3 of 8, width 14", 3, 14, 8, (3, 3), 5, pads=[1, 0, 1, 2]),
    conv("3x3 of 84, width 3", 3, 3, 84, (3, 3), 4, pads=[1, 1, 1, 1]),
    conv("3x3 of 3, width 50: rows move on", 5, 50, 3, (3, 3), 5, pads=[1, 1, 1, 1]),
    conv("4x2 of 2, width 7, stride 2", 13, 7, 2, (4, 2), 4, strides=[2, 2], pads=[2, 1, 1, 0]),
    conv("1x1 of 4 to 5, width 3, stride 2", 3, 5, 4, (1, 1), 5, strides=[2, 2]),
    conv("1x1 of 20, 10 pixels", 2, 5, 20, (1, 1), 7),
    conv("1x1 of 64, 29 pixels", 1, 29, 64, (1, 1), 8),
    conv("1x1 of 40, 51 pixels", 3, 17, 40, (1, 1), 4),
    conv("1x1 of 144: 9 steps", 3, 5, 144, (1, 1), 5),
    conv("1x1 of 160: 10 steps", 2, 7, 160, (1, 1), 10),
    conv("1x1 of 24 with padding", 3, 4, 24, (1, 1), 9, pads=[1, 0, 0, 1]),
    conv("depthwise 5x5 of 17", 6, 7, 17, (5, 5), 17, group=17, pads=[2, 2, 2, 2]),
    conv("depthwise 3x3 of 40", 4, 6, 40, (3, 3), 40, group=40, pads=[1, 1, 1, 1]),
    conv("depthwise 3x3 of 32, stride 2, width 6", 5, 11, 32, (3, 3), 32, group=32, strides=[2, 2], pads=[1, 1, 1, 1]),
    conv("depthwise 2x3 of 16", 5, 6, 16, (2, 3), 16, group=16, dilations=[2, 1], pads=[1, 1, 1, 1]),
    conv("depthwise 9x1 of 12, width 1", 20, 1, 12, (9, 1), 12, group=12, pads=[4, 0, 4, 0]),
    conv("depthwise 6x2 of 7, 3 outputs of a channel", 9, 5, 7, (6, 2), 21, group=7, pads=[2, 1, 3, 0]),
    conv("depthwise 7x5 of 4: a loop over rows", 8, 9, 4, (7, 5), 4, group=4, pads=[3, 2, 3, 2]),
    conv("depthwise 3x3 of 3, dilation 3", 9, 8, 3, (3, 3), 3, group=3, dilations=[3, 3], pads=[3, 3, 3, 3]),
    conv("3x3 of 7 to 3: 63 inputs, width 1", 4, 1, 7, (3, 3), 3, pads=[1, 1, 1, 1]),
    conv("4x4 of 4 to 2: 64 inputs, width 2", 4, 3, 4, (4, 4), 2, pads=[1, 1, 2, 1]),
    conv("1x5 of 13 to 1: 65 inputs, width 4", 2, 4, 13, (1, 5), 1, pads=[0, 2, 0, 2]),
    conv("1x1 of 129 to 6 in 3 groups, 7 pixels", 1, 7, 129, (1, 1), 6, group=3),
    conv("3x3 of 30 to 5 in 5 groups, 54 inputs", 3, 5, 30, (3, 3), 5, group=5, pads=[1, 1, 1, 1]),
    case(
        "5x4 of 128, sums above 2^23",
        "Conv",
        (1, 128, 5, 4),
        np.random.default_rng(9).uniform(-0.1, 0.1, (6, 128, 5, 4)).astype(np.float32),
        weights(6, seed=2),
        pads=[2, 1, 2, 2],
    ),
    case("640 to 12, three chunks", "Gemm", (2, 640), weights(12, 640), weights(12, seed=2), transB=1),
    case("12 to 16", "Gemm", (1, 12), weights(16, 12), weights(16, seed=2), transB=1),
    with_dead_channels(),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_depths(case):
    assert np.prod(case.inputs[0]) > 0
    check_op(case)
