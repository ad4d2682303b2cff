"""Every op that has only portable C on a core with kernels has a reason, and no reason is superfluous."""

from functools import cache
from itertools import product

import numpy as np
import pytest
from checker import case, imported, one_node_model
from missing_kernels import WHY, family, missing
from random_nodes import typed_and_lowered

from glowembed.graph.registry import kernel_ops
from glowembed.graph.target import load_target

TARGETS = ("cortex-m4", "cortex-m55", "x86-64")


def test_no_reason_is_left_over():
    found = {op for target in TARGETS for op in missing(load_target(target))}
    assert set(WHY) <= found | {family(op) for op in found}, "WHY has a family that has kernels everywhere"


@pytest.mark.parametrize(
    ("target", "op"),
    [
        (target, f"{op}_s16{weights}")
        for target in TARGETS[:2]
        for op in ("conv2d", "depthwise", "fc")
        for weights in ("", "_w16")
    ]
    + [(target, f"{op}_f32") for target in TARGETS for op in ("conv2d", "depthwise")]
    + [
        (target, f"{op}_{kind}")
        for target in (*TARGETS, "cortex-m0", "cortex-m3")
        for op in ("add", "mul", "maxpool", "avgpool")
        for kind in ("s16", "f32")
    ],
)
def test_what_networks_spend_their_time_in_has_a_kernel(target, op):
    assert op in kernel_ops()
    assert op not in missing(load_target(target))


def _weights(*shape):
    return np.random.default_rng(shape).uniform(-0.5, 0.5, shape).astype(np.float32)


SHAPES = (
    case("odd", "Conv", (1, 5, 6, 4), _weights(7, 5, 3, 3), pads=[1] * 4),
    case("three groups of two", "Conv", (1, 6, 6, 4), _weights(6, 2, 3, 3), pads=[1] * 4, group=3),
    case("dilated", "Conv", (1, 3, 9, 9), _weights(5, 3, 3, 3), dilations=[2, 2]),
    case("one axis", "Conv", (1, 3, 19), _weights(5, 3, 3), dilations=[2]),
    case("depthwise, strides 1 and 2", "Conv", (1, 7, 7, 7), _weights(7, 1, 3, 3), group=7, strides=[1, 2]),
    case("depthwise, dilated", "Conv", (1, 8, 9, 9), _weights(8, 1, 3, 3), group=8, dilations=[2, 2]),
    case("depthwise, one axis", "Conv", (1, 6, 15), _weights(6, 1, 4), group=6),
    case("depthwise, two of each", "Conv", (1, 3, 7, 7), _weights(6, 1, 3, 3), group=3),
    case("one output", "Gemm", (1, 7), _weights(7, 1)),
    case("maximum, dilated", "MaxPool", (1, 3, 9, 9), kernel_shape=[3, 3], dilations=[2, 2]),
    case("mean", "AveragePool", (1, 3, 6, 6), kernel_shape=[3, 3], pads=[1] * 4),
    case("sum", "Add", (1, 3, 5, 3), (1, 3, 1, 1)),
    case("product", "Mul", (1, 3, 5, 3), (1, 3, 5, 3)),
)
SETTINGS = (*({"dtype": "int16", "weights": w} for w in ("int8", "int16", "int16 exact")), {"dtype": "float32"})

SLOW = {
    "cortex-m4": {"conv2d_f32"},  # groups of fewer than four outputs
    "cortex-m55": set(),
    "x86-64": {"conv2d_s16_w16", "depthwise_s16_w16", "fc_s16_w16"},  # sums of 64 bits
}
"""The layers of these shapes that are portable C."""


@cache
def _nodes():
    graphs = (
        typed_and_lowered(graph, settings, dict.fromkeys(graph.values, (-1.0, 1.3)))
        for graph, settings in product([imported(one_node_model(shape)) for shape in SHAPES], SETTINGS)
    )
    return [
        node
        for graph in graphs
        for node in graph.nodes
        if node.op.startswith(("conv2d", "depth", "fc", "max", "avg", "add", "mul"))
    ]


@pytest.mark.parametrize("name", TARGETS)
def test_odd_shapes_are_no_portable_code(name):
    target = load_target(name)

    def fast(node):
        own = (k for k in kernel_ops()[node.op].kernels if k.isa in target.isa and not k.option)
        return any(kernel.when(node, target) is None for kernel in own)

    assert {node.op for node in _nodes() if not fast(node)} == SLOW[name]
