"""Tests of ConvTranspose: conv_transpose2d_s8."""

import kernel_checker
import numpy as np
import pytest
from checker import case, check_op, weights

from glowembed.graph.registry import kernel_ops
from glowembed.kernels.shared.transposed import Phases
from glowembed.ops.conv_transpose import ConvTranspose2dParams

pytestmark = pytest.mark.cc


def up(name, x, w, bias=True, **attrs):
    channels = w[1] * attrs.get("group", 1)
    return case(name, "ConvTranspose", x, weights(*w), weights(channels, seed=2) if bias else None, **attrs)


CASES = [
    *(up(f"2x2 stride 2 on {n}x{n}", (1, 3, n, n), (3, 5, 2, 2), strides=[2, 2]) for n in (1, 5)),
    up("3x3 stride 1", (1, 2, 5, 4), (2, 3, 3, 3), pads=[1, 1, 1, 1]),
    up("3x3 stride 2", (1, 2, 5, 4), (2, 3, 3, 3), strides=[2, 2], pads=[1, 1, 1, 1]),
    up("4x4 stride 2", (1, 3, 4, 4), (3, 2, 4, 4), strides=[2, 2], pads=[1, 1, 1, 1]),
    up("output padding", (1, 2, 4, 4), (2, 3, 3, 3), strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 1]),
    up("stride larger than the kernel", (1, 2, 4, 3), (2, 3, 2, 1), strides=[3, 2]),
    up("asymmetric pads", (1, 2, 5, 5), (2, 3, 3, 4), strides=[2, 3], pads=[0, 1, 2, 1]),
    up("dilation", (1, 2, 5, 4), (2, 3, 3, 2), dilations=[2, 3]),
    up("dilation and stride", (1, 2, 5, 4), (2, 3, 3, 3), dilations=[2, 2], strides=[3, 2], pads=[1, 1, 1, 1]),
    up("2 groups", (1, 4, 4, 4), (4, 3, 3, 3), group=2, strides=[2, 2]),
    up("depthwise", (1, 6, 4, 4), (6, 1, 4, 4), group=6, strides=[2, 2], pads=[1, 1, 1, 1]),
    up("no bias", (1, 2, 4, 4), (2, 3, 2, 2), bias=False, strides=[2, 2], auto_pad="VALID"),
    up("1d", (1, 3, 7), (3, 4, 4), strides=[2], pads=[1, 1]),
    up("1d causal", (1, 3, 7), (3, 4, 3), strides=[3], output_padding=[1]),
    up("output shape", (1, 2, 4, 4), (2, 3, 3, 3), strides=[2, 2], output_shape=[8, 8]),
    up("SAME_UPPER", (1, 2, 4, 4), (2, 3, 3, 3), strides=[2, 2], auto_pad="SAME_UPPER"),
    up("SAME_LOWER", (1, 2, 4, 4), (2, 3, 3, 3), strides=[2, 2], auto_pad="SAME_LOWER"),
    up("all negative", (1, 3, 4, 4), (3, 2, 3, 3), low=-6.0, high=-1.0, strides=[2, 2]),
]


ON_BOARDS = ("2x2 stride 2 on 5x5", "4x4 stride 2", "2 groups", "depthwise")
"""The cases whose kernels run on emulated cores too. All of them call one kernel there, which is compiled for each."""


@pytest.mark.parametrize("c", CASES, ids=lambda c: c.name)
def test_conv_transpose(c, monkeypatch):
    if c.name not in ON_BOARDS:
        monkeypatch.setattr(kernel_checker, "boards_for", lambda isa, node: [])
    check_op(c)


@pytest.mark.parametrize(
    ("taps", "stride", "pad"), [(2, 2, 0), (3, 2, 1), (4, 2, 1), (5, 3, 2), (2, 3, 0), (7, 1, 3), (3, 2, 0)]
)
@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize(("groups", "less"), [(1, 0), (1, 1), (2, 0), (4, 1)])
def test_phases_are_convolutions(taps, stride, pad, dilation, groups, less):
    """Each pixel of the output, by the reference of the convolution of its phase. less: by how much a row is too short for the stride."""
    rng, count = np.random.default_rng(taps), 4
    size = stride * count
    p = ConvTranspose2dParams(
        count, count, 4, size - 1, size - less, 4, taps, taps, stride, stride, dilation, dilation, pad, pad, groups, 32, 3, -128, 127, -7
    )  # fmt: skip
    constants = {
        "weights": rng.integers(-127, 128, (4, taps, taps, 4 // groups)).astype(np.int8),
        "bias": rng.integers(-900, 900, 4).astype(np.int32),
        "multiplier": rng.integers(2**21, 2**22, 4).astype(np.int32),
        "weight_zero_point": np.array([5, -9, 0, 7], np.int32),
    }
    phases, x = Phases(p), rng.integers(-128, 128, (count, count, 4)).astype(np.int8)
    assert phases.why_not() is None
    whole = kernel_ops()["conv_transpose2d_aw_s8"].int_ref(p, [x], constants).reshape(p.out_h, p.out_w, 4)
    op = kernel_ops()["depthwise_aw_s8" if phases.depthwise else "conv2d_aw_s8"]
    for number, (own, some) in enumerate(zip(phases.params, phases.constants(constants), strict=True)):
        row, column = divmod(number, phases.calls)
        ours = whole[row::stride, column :: phases.calls]
        pixels = op.int_ref(own, [x], some).reshape(own.out_h, -1, 4)
        assert np.array_equal(pixels[:, : ours.shape[1]], ours)


def test_batch_normalization_and_relu_fold_into_it(tmp_path):
    """ConvTranspose, BatchNormalization and Relu become one op that means the same."""
    from small_models import canonical, model, node

    constants = {
        "w": weights(3, 2, 2, 2),
        "scale": np.array([0.5, 2.0], np.float32),
        "shift": np.array([0.1, -0.3], np.float32),
        "mean": np.array([0.2, 0.1], np.float32),
        "var": np.array([1.5, 0.5], np.float32),
    }
    nodes = [
        node("ConvTranspose", "x w", "c", strides=[2, 2]),
        node("BatchNormalization", "c scale shift mean var", "n"),
        node("Relu", "n", "y"),
    ]
    graph = canonical(model(nodes, {"x": [1, 3, 4, 4]}, constants), tmp_path)
    assert [n.op for n in graph.nodes].count("ConvTranspose") == 1
    assert not {"Affine", "Clip"} & {n.op for n in graph.nodes}
