"""The float32 kernels of cores with an FPU: fives of pixels, fours of k and of channels, padding, bounds, infinities."""

from dataclasses import replace

import numpy as np
import pytest
from checker import case, imported, one_node_model, weights
from kernel_checker import check_kernels

from glowembed.graph.ir import Const
from glowembed.graph.registry import kernel_ops
from glowembed.graph.target import load_target
from glowembed.lower.nodes import lower
from glowembed.ops.float32 import LARGEST
from glowembed.quantize.precision import Config, resolve
from glowembed.quantize.types import quantize

pytestmark = pytest.mark.cc

WINDOW = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
CASES = {
    "point": case("point", "Conv", (1, 8, 3, 7), weights(5, 8, 1, 1)),
    "groups": case("groups", "Conv", (1, 6, 3, 4), weights(10, 3, 3, 3), group=2, **WINDOW),
    "padded": case("padded", "Conv", (1, 3, 5, 4), weights(4, 3, 3, 3), strides=[2, 1], dilations=[1, 2], pads=[1, 2, 1, 2]),
    "depthwise": case("depthwise", "Conv", (1, 8, 5, 3), weights(8, 1, 3, 3), group=8, **WINDOW),
    "seven columns": case("seven", "Conv", (1, 4, 4, 7), weights(4, 1, 3, 3), group=4, **WINDOW),
    "five columns": case("five", "Conv", (1, 8, 3, 5), weights(8, 1, 3, 3), group=8, **WINDOW),
    "one turn": case("turn", "Conv", (1, 3, 3, 2), weights(8, 3, 1, 1)),
    "one column": case("column", "Conv", (1, 4, 4, 3), weights(4, 1, 3, 3), group=4, kernel_shape=[3, 3], pads=[1, 0, 1, 0]),
}  # fmt: skip


def nodes_of(one):
    graph = imported(one_node_model(one))
    lowered = lower(quantize(graph, lambda *_: (-2.0, 3.0), resolve(graph, Config(defaults={"dtype": "float32"}))))
    return next(n for n in lowered.nodes if n.macs), lowered


@pytest.mark.parametrize("name", CASES)
def test_boundaries(name):
    node, lowered = nodes_of(CASES[name])
    for lo, hi in ((-LARGEST, LARGEST), (0.0, LARGEST), (-1.0, 6.0)):
        other = replace(node, params=replace(node.params, lo=lo, hi=hi))
        graph = lowered.with_nodes([other if n is node else n for n in lowered.nodes])
        assert any(
            symbol.endswith("_dsp") for symbol in check_kernels(other, graph, np.random.default_rng(1), isa="dsp")
        )


def test_where_a_zero_is_no_padding():
    """A bias of -0 and a weight that is not finite are left to the portable kernel, as all is without an FPU."""
    node, _ = nodes_of(CASES["padded"])
    (kernel,) = (k for k in kernel_ops()[node.op].kernels if k.isa == "dsp" and k.inner is None)
    m4 = load_target("cortex-m4")
    assert kernel.when(node, m4) is None
    assert kernel.when(node, replace(m4, has_fpu=False)) == "cortex-m4 has no FPU"
    bias = replace(node, constants={**node.constants, "bias": Const(np.full(4, -0.0, np.float32))})
    assert kernel.when(bias, m4) == "a bias is -0"
    broken = {**node.constants, "weights": Const(np.full((4, 3, 3, 3), np.inf, np.float32))}
    assert kernel.when(replace(node, constants=broken), m4) == "a weight or a bias is not finite"
