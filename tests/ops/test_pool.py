"""MaxPool, AveragePool, the global pools and the reductions: maxpool_s8 and avgpool_s8."""

import itertools

import numpy as np
import pytest
from checker import SIZES, case, check_op, one_node_model
from onnx_builder import build

from glowembed.graph.op import Refused

pytestmark = pytest.mark.cc

POOLS = ("MaxPool", "AveragePool")

CASES = [
    *(case(f"max {n}x{n}", "MaxPool", (1, 3, n, n), kernel_shape=[3, 3], pads=[1, 1, 1, 1]) for n in SIZES),
    *(case(f"average {n}x{n}", "AveragePool", (1, 3, n, n), kernel_shape=[3, 3], pads=[1, 1, 1, 1]) for n in SIZES),
    *(case(f"{op} {c} channels", op, (1, c, 4, 5), kernel_shape=[2, 2], strides=[2, 2]) for op in POOLS for c in SIZES),
    *(case(f"{op} 1d", op, (1, 4, 17), kernel_shape=[3], strides=[2], pads=[1, 2]) for op in POOLS),
    *(case(f"{op} opset 7", op, (1, 2, 6, 6), kernel_shape=[2, 3], opset=7) for op in POOLS),
    *(case(f"{op} all negative", op, (1, 2, 6, 6), kernel_shape=[3, 3], pads=[1] * 4, low=-9.0, high=-1.0) for op in POOLS),
    *(case(f"{op} all positive", op, (1, 2, 6, 6), kernel_shape=[3, 3], pads=[1] * 4, low=1.0, high=9.0) for op in POOLS),
    *(
        case(f"{op} {auto} {n} stride {s}", op, (1, 2, n, n + 1), kernel_shape=[3, 2], strides=[s, s], auto_pad=auto)
        for op in POOLS
        for auto in ("SAME_UPPER", "SAME_LOWER", "VALID")
        for n, s in ((5, 1), (6, 2), (7, 3))
    ),
    *(
        case(f"max dilated ceil {ceil}", "MaxPool", (1, 2, 9, 8), kernel_shape=[3, 2], dilations=[2, 3], ceil_mode=ceil)
        for ceil in (0, 1)
    ),
    case("average SAME_UPPER includes its padding", "AveragePool", (1, 2, 6, 7), kernel_shape=[3, 4], strides=[2, 2],
         auto_pad="SAME_UPPER", count_include_pad=1),
    case("average of all", "AveragePool", (1, 3, 25, 5), kernel_shape=[25, 5]),
]  # fmt: skip

AVERAGES = [
    case(f"{n} kernel {k} stride {s} pads {begin},{end} ceil {ceil} include {include} opset {opset}", "AveragePool",
         (1, 2, n, n + 2), kernel_shape=[k, 3], strides=[s, 2], pads=[begin, 1, end, 0], ceil_mode=ceil,
         count_include_pad=include, opset=opset)
    for n, k, s, (begin, end) in ((5, 2, 2, (0, 0)), (6, 3, 2, (1, 0)), (7, 3, 3, (1, 1)), (4, 4, 3, (2, 1)))
    for ceil, include, opset in itertools.product((0, 1), (0, 1), (11, 19))
]  # fmt: skip

MAXIMA = [
    case(f"max {n} kernel {k} stride {s} pads {begin},{end} ceil {ceil}", "MaxPool", (1, 2, n, n + 2),
         kernel_shape=[k, 3], strides=[s, 2], pads=[begin, 1, end, 0], ceil_mode=ceil)
    for n, k, s, (begin, end) in ((5, 2, 2, (0, 0)), (6, 3, 2, (1, 0)), (7, 3, 3, (1, 1)), (4, 4, 3, (2, 1)))
    for ceil in (0, 1)
]  # fmt: skip

# Pixels that fill vectors, and more rows and columns than the kernels have in registers.
MAXIMA += [
    case(f"max of {channels} channels, kernel {k} stride {s} pads {pads}", "MaxPool", (1, channels, 7, 6),
         kernel_shape=[k, k], strides=[s, s], pads=pads)
    for channels in (64, 97)
    for k, s, pads in ((3, 2, [1, 1, 1, 1]), (3, 2, [0, 2, 1, 0]), (2, 2, [1, 0, 0, 1]), (3, 1, [1] * 4), (5, 2, [2] * 4))
]  # fmt: skip

# The last window would begin in the padding at the end and is left out. onnx's own inference is wrong before opset 22.
BEGINS_BEHIND = [
    case(f"{op} begins behind {n} {extra}", op, (1, 2, n, 3), kernel_shape=[3, 1], strides=[4, 1], pads=[0, 0, 2, 0],
         ceil_mode=1, opset=22, **extra)
    for op, extra in (("MaxPool", {}), ("AveragePool", {"count_include_pad": 0}), ("AveragePool", {"count_include_pad": 1}))
    for n in (7, 8, 9)
]  # fmt: skip

DILATED = [
    case(f"average dilated {d} pads {pads} ceil {ceil} include {include}", "AveragePool", (1, 2, 9, 10),
         kernel_shape=[3, 2], dilations=list(d), strides=[2, 3], pads=pads, ceil_mode=ceil, count_include_pad=include, opset=22)
    for d in ((2, 1), (2, 3), (3, 2))
    for pads in ([0, 0, 0, 0], [1, 1, 2, 0], [2, 1, 2, 1])
    for ceil, include in itertools.product((0, 1), (0, 1))
]  # fmt: skip

GLOBAL = [
    case(f"{op} {'x'.join(map(str, shape))}", op, shape)
    for op in ("GlobalAveragePool", "GlobalMaxPool")
    for shape in ((1, 3, 1, 1), (1, 5, 4, 7), (1, 17, 9), (1, 64, 25, 5), (1, 2, 3, 4, 5))
]

REDUCTIONS = [
    case(f"{op} {shape} axes {axes} keep {keep}", op, shape, axes=axes, keepdims=keep, opset=13)
    for op in ("ReduceMean", "ReduceMax")
    for shape, axes in (
        ((1, 3, 4, 5), [2, 3]),
        ((1, 3, 4, 5), [-1, -2]),
        ((1, 4, 5, 3), [1, 2]),
        ((1, 3, 4, 5), [1]),
        ((1, 3, 4, 5), [3]),
        ((1, 3, 4, 5), [1, 3]),
        ((1, 3, 4, 5), [0, 2, 3]),
        ((1, 3, 9), [2]),
        ((1, 9, 3), [1]),
        ((2, 3, 9), [1]),
        ((4, 6), [1]),
        ((4, 6), [0]),
        ((7,), [0]),
        ((2, 3, 2, 3, 2), [1, 3]),
    )
    for keep in (0, 1)
]

AXES_AS_INPUT = [
    case("mean, axes an input", "ReduceMean", (1, 3, 4, 5), np.asarray([2, 3]), opset=18, keepdims=0),
    case("max, axes an input", "ReduceMax", (1, 3, 4, 5), np.asarray([-3]), opset=18),
    case("mean of all", "ReduceMean", (1, 3, 4), opset=18),
    case("mean of all, opset 11", "ReduceMean", (1, 3, 4), opset=11),
    case("mean of nothing", "ReduceMean", (1, 3, 4), opset=18, noop_with_empty_axes=1),
]


@pytest.mark.parametrize(
    "case", [*CASES, *AVERAGES, *MAXIMA, *BEGINS_BEHIND, *DILATED, *GLOBAL, *REDUCTIONS, *AXES_AS_INPUT], ids=str
)
def test_pool(case):
    check_op(case)


@pytest.mark.parametrize("op", ["ReduceMean", "ReduceMax"])
@pytest.mark.parametrize(("shape", "axes", "perms"), [
    ((1, 3, 4, 5), [2, 3], [(0, 2, 3, 1), (0, 3, 1, 2)]),
    ((1, 4, 5, 3), [1, 2], []),
    ((1, 3, 9), [2], [(0, 2, 1), (0, 2, 1)]),
    ((1, 9, 3), [1], []),
])  # fmt: skip
def test_transposes_are_those_of_the_global_pools(op, shape, axes, perms):
    graph = build(one_node_model(case("reduction", op, shape, axes=axes, opset=13)))
    assert [node.attrs["perm"] for node in graph.nodes if node.op == "Transpose"] == perms
    assert [node.op for node in graph.nodes if node.op != "Transpose"] == [
        op.replace("Reduce", "").replace("Mean", "Average") + "Pool"
    ]


REFUSED = [
    case("indices", "MaxPool", (1, 2, 4, 4), kernel_shape=[2, 2], outputs=2),
    case("3d", "MaxPool", (1, 2, 4, 4, 4), kernel_shape=[2, 2, 2]),
]


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_refused(case):
    with pytest.raises(Refused):
        build(one_node_model(case))
