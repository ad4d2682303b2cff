"""Tests of Conv: conv2d_s8 and depthwise_s8."""

import numpy as np
import pytest
from checker import SIZES, case, check_op, weights

pytestmark = pytest.mark.cc


def conv(name, x, w, bias=True, **attrs):
    b = weights(w[0], seed=2) if bias else None
    return case(name, "Conv", x, weights(*w), b, **attrs)


CASES = [
    *(conv(f"2d {n}x{n} 3x3 same", (1, 3, n, n), (5, 3, 3, 3), pads=[1, 1, 1, 1]) for n in SIZES),
    *(conv(f"pointwise {c} to {33 - c % 33 or 1}", (1, c, 3, 2), (33 - c % 33 or 1, c, 1, 1)) for c in SIZES),
    *(conv(f"1d {n} taps 3", (1, 4, n + 2), (6, 4, 3)) for n in SIZES),
    *(conv(f"depthwise {c}", (1, c, 5, 4), (c, 1, 3, 3), group=c, pads=[1, 1, 1, 1]) for c in SIZES),
    *(
        conv(f"depthwise 3x3 {h}x{w}x{c} stride {s}", (1, c, h, w), (c, 1, 3, 3), group=c, strides=[s, s], pads=pads)
        for h, w, c, s, pads in (
            (4, 5, 4, 1, [1, 1, 1, 1]),
            (5, 6, 8, 1, [0, 0, 0, 0]),
            (6, 7, 6, 1, [1, 1, 1, 1]),
            (3, 8, 7, 1, [2, 2, 1, 0]),
            (25, 5, 4, 1, [1, 1, 1, 1]),
            (9, 4, 5, 1, [1, 0, 2, 1]),
            (7, 3, 4, 1, [0, 1, 1, 1]),
            (9, 5, 8, 1, [0, 1, 1, 1]),
            (6, 5, 4, 1, [1, 1, 0, 1]),
            (1, 1, 4, 1, [1, 1, 1, 1]),
            (3, 1, 8, 1, [1, 1, 1, 1]),
            (4, 6, 24, 1, [2, 2, 2, 2]),
            (2, 48, 8, 1, [1, 1, 1, 1]),
            (2, 49, 16, 1, [1, 1, 1, 1]),
            (2, 123, 8, 1, [1, 1, 1, 1]),
            (6, 8, 4, 2, [0, 0, 1, 1]),
            (7, 9, 6, 2, [1, 1, 1, 1]),
            (12, 5, 4, 2, [1, 1, 1, 1]),
            (10, 3, 8, 2, [0, 0, 0, 0]),
            (4, 13, 3, 1, [1, 1, 1, 1]),
            (2, 15, 2, 1, [1, 0, 1, 0]),
            (3, 20, 1, 1, [0, 0, 0, 1]),
            (3, 26, 2, 2, [1, 1, 1, 1]),
            (4, 27, 3, 2, [0, 0, 1, 0]),
            (1, 8, 460, 1, [1, 1, 1, 1]),
            (3, 8, 400, 2, [1, 1, 0, 0]),
            (1, 12, 520, 1, [1, 1, 1, 1]),
            (2, 23, 5, 1, [1, 1, 1, 1]),
        )
    ),
    *(
        conv(f"{h}x{w}x{c} {kh}x{kw} to {o}, stride {s}", (1, c, h, w), (o, c, kh, kw), strides=[s, s], pads=pads)
        for h, w, c, kh, kw, o, s, pads in (
            (5, 6, 4, 3, 3, 4, 1, [1, 1, 1, 1]),
            (17, 13, 16, 3, 3, 20, 1, [1, 1, 1, 1]),
            (16, 9, 32, 3, 3, 31, 1, [1, 1, 1, 1]),
            (31, 2, 16, 3, 3, 70, 1, [2, 1, 0, 1]),
            (1, 71, 16, 3, 3, 61, 1, [1, 0, 1, 0]),
            (12, 5, 8, 3, 3, 6, 1, [1, 1, 1, 1]),
            (11, 7, 4, 3, 3, 5, 2, [1, 1, 1, 1]),
            (6, 6, 12, 1, 1, 8, 2, [0, 0, 0, 0]),
            (7, 3, 16, 1, 1, 9, 1, [0, 0, 0, 0]),
            (9, 4, 4, 5, 2, 4, 1, [2, 0, 2, 1]),
            (9, 9, 4, 2, 2, 7, 3, [0, 0, 0, 0]),
            (4, 9, 8, 1, 5, 4, 1, [0, 2, 0, 2]),
            (3, 3, 4, 3, 3, 4, 1, [3, 4, 3, 4]),
            (9, 8, 3, 3, 3, 8, 1, [1, 1, 1, 1]),
            (9, 8, 3, 3, 3, 8, 2, [1, 1, 1, 1]),
            (11, 6, 1, 5, 4, 4, 2, [2, 1, 2, 1]),
            (11, 6, 1, 4, 3, 5, 1, [1, 1, 1, 1]),
            (4, 6, 6, 3, 2, 4, 1, [1, 1, 1, 1]),
            (3, 5, 5, 1, 1, 4, 1, [0, 0, 0, 0]),
        )
    ),
    *(
        conv(
            f"{h}x{w}x{c} {kh}x{kw} to {o} in {g} groups, stride {s}, dilation {d}",
            (1, c, h, w),
            (o, c // g, kh, kw),
            group=g,
            strides=[s, s],
            dilations=[d, d],
            pads=[q, q, q, q],
        )
        for h, w, c, kh, kw, o, g, s, d, q in (
            (3, 9, 5, 3, 3, 5, 5, 1, 1, 1),
            (5, 17, 3, 5, 5, 6, 3, 2, 1, 2),
            (4, 16, 2, 2, 7, 2, 2, 1, 1, 3),
            (7, 8, 1, 3, 3, 1, 1, 1, 1, 1),
            (2, 15, 8, 1, 1, 2, 1, 1, 1, 0),
            (6, 7, 16, 3, 3, 1, 1, 1, 1, 1),
            (5, 14, 12, 3, 2, 6, 3, 2, 1, 1),
            (9, 19, 4, 3, 3, 4, 4, 1, 3, 3),
            (9, 20, 6, 3, 3, 4, 2, 2, 3, 3),
            (9, 11, 4, 3, 4, 2, 2, 3, 2, 2),
            (7, 4, 8, 3, 3, 2, 1, 1, 3, 3),
            (12, 3, 6, 10, 1, 3, 3, 1, 1, 0),
            (26, 1, 5, 3, 1, 5, 5, 1, 1, 0),
            (17, 2, 10, 3, 2, 3, 1, 1, 1, 1),
            (25, 3, 4, 5, 3, 4, 4, 2, 1, 2),
            (25, 1, 4, 3, 1, 4, 4, 1, 3, 0),
            (16, 2, 6, 3, 1, 4, 2, 3, 2, 0),
            (7, 7, 4, 3, 3, 4, 4, 1, 3, 3),
            (4, 9, 7, 1, 1, 1, 1, 1, 1, 0),
            (11, 10, 2, 3, 3, 5, 1, 2, 3, 2),
            (10, 9, 1, 3, 2, 4, 1, 1, 2, 1),
            (13, 9, 3, 2, 3, 4, 1, 3, 3, 3),
        )
    ),
    conv("no bias", (1, 2, 4, 4), (3, 2, 2, 2), bias=False),
    conv("opset 7", (1, 2, 4, 4), (3, 2, 2, 2), opset=7),
    conv("stride 2", (1, 3, 9, 8), (4, 3, 3, 3), strides=[2, 2], pads=[1, 1, 1, 1]),
    conv("stride 3 by 2", (1, 3, 11, 8), (4, 3, 2, 3), strides=[3, 2]),
    conv("stride larger than the kernel", (1, 3, 11, 10), (4, 3, 2, 1), strides=[4, 3]),
    conv("dilation 2", (1, 3, 9, 9), (4, 3, 3, 3), dilations=[2, 2], pads=[2, 2, 2, 2]),
    conv("dilation 3 by 1", (1, 3, 12, 5), (4, 3, 3, 2), dilations=[3, 1]),
    conv("dilation and stride", (1, 2, 13, 12), (3, 2, 3, 3), dilations=[2, 3], strides=[2, 2], pads=[1, 2, 3, 4]),
    conv("asymmetric pads", (1, 2, 6, 7), (3, 2, 3, 4), pads=[2, 0, 1, 3]),
    conv("pads wider than the kernel", (1, 2, 3, 3), (3, 2, 2, 2), pads=[3, 3, 3, 3]),
    conv("kernel larger than the input", (1, 2, 2, 3), (3, 2, 5, 5), pads=[2, 2, 2, 2]),
    conv("kernel of the whole input", (1, 2, 4, 5), (7, 2, 4, 5)),
    *(
        conv(f"{auto} {n} stride {s}", (1, 2, n, n + 1), (3, 2, 3, 2), auto_pad=auto, strides=[s, s])
        for auto in ("SAME_UPPER", "SAME_LOWER", "VALID")
        for n, s in ((5, 1), (6, 2), (7, 3))
    ),
    conv("SAME_UPPER 1d", (1, 2, 8), (3, 2, 4), auto_pad="SAME_UPPER", strides=[2]),
    conv("2 groups", (1, 4, 5, 5), (6, 2, 3, 3), group=2, pads=[1, 1, 1, 1]),
    conv("3 groups, one channel in, 1d", (1, 3, 9), (6, 1, 3), group=3),
    conv("depthwise multiplier 2", (1, 5, 6, 6), (10, 1, 3, 3), group=5, pads=[1, 1, 1, 1]),
    conv("depthwise stride 2 asymmetric", (1, 8, 7, 6), (8, 1, 3, 3), group=8, strides=[2, 2], pads=[0, 0, 1, 1]),
    conv("depthwise 5x5", (1, 8, 7, 9), (8, 1, 5, 5), group=8, pads=[2, 2, 2, 2]),
    conv("depthwise 5x3 stride 2 dilation 2", (1, 7, 13, 9), (7, 1, 5, 3), group=7, strides=[2, 2], dilations=[2, 2]),
    conv("depthwise 1d dilation 4 causal", (1, 6, 17), (6, 1, 3), group=6, dilations=[4], pads=[8, 0]),
    conv("causal 1d", (1, 4, 16), (4, 4, 3), dilations=[4], pads=[8, 0]),
    conv("input all negative", (1, 3, 5, 5), (4, 3, 3, 3), low=-7.0, high=-1.0, pads=[1, 1, 1, 1]),
    conv("input all positive", (1, 3, 5, 5), (4, 3, 3, 3), low=0.5, high=9.0, pads=[1, 1, 1, 1]),
    conv("tiny input", (1, 3, 5, 5), (4, 3, 3, 3), low=-1e-4, high=1e-4),
    case(
        "one channel is zero",
        "Conv",
        (1, 2, 4, 4),
        np.stack([np.float32(k) * weights(2, 3, 3) for k in (0, 1, 30)]),
        None,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_conv(case):
    check_op(case)
