"""The int16 kernels of Cortex-M4, M7 and M33 around their boundaries: tiles, pairs of k, fours of channels, activations."""

from dataclasses import replace

import numpy as np
import pytest
from checker import case, imported, one_node_model, weights
from kernel_checker import check_kernels

from glowembed.lower.nodes import lower
from glowembed.quantize.precision import Config, resolve
from glowembed.quantize.types import quantize

pytestmark = pytest.mark.cc

WINDOW = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
CASES = {
    "point": case("point", "Conv", (1, 8, 9, 7), weights(5, 8, 1, 1)),
    "point of odd channels": case("point3", "Conv", (1, 3, 3, 3), weights(4, 3, 1, 1)),
    "groups": case("groups", "Conv", (1, 6, 3, 4), weights(10, 3, 3, 3), group=2, **WINDOW),
    "short edges": case("edges", "Conv", (1, 1, 7, 6), weights(3, 1, 3, 6), strides=[1, 3], pads=[2, 5, 1, 3]),
    "short rows": case("short", "Conv", (1, 1, 9, 7), weights(4, 1, 4, 3), strides=[2, 2], pads=[1, 1, 2, 2]),
    "dilated": case("dilated", "Conv", (1, 2, 7, 6), weights(7, 2, 3, 3), dilations=[2, 2], pads=[2, 2, 2, 2]),
    "depthwise": case("depthwise", "Conv", (1, 3, 6, 5), weights(3, 1, 3, 3), group=3, **WINDOW),
    "depthwise of two": case("two", "Conv", (1, 2, 3, 4), weights(2, 1, 3, 3), group=2, **WINDOW),
    "depthwise of six": case("six", "Conv", (1, 6, 4, 5), weights(6, 1, 3, 3), group=6, **WINDOW),
    "depthwise down": case("down", "Conv", (1, 4, 9, 2), weights(4, 1, 3, 3), group=4, **WINDOW),
    "many k": case("many", "Conv", (1, 70, 2, 2), weights(3, 70, 1, 1)),
    "vector": case("vector", "Gemm", (2, 17), weights(6, 17), transB=1),
}


def nodes_of(one, kind):
    """The kernel-level node of a case with bounds of several activations, in its graph."""
    graph = imported(one_node_model(one))
    config = Config(defaults={"dtype": "int16", "weights": kind})
    lowered = lower(quantize(graph, lambda value, settings: (-2.0, 3.0), resolve(graph, config)))
    node = next(n for n in lowered.nodes if n.macs)
    for lo, hi, zero in ((0, 32767, 0), (-100, 5000, 0), (-32768, 32767, -300), (0, 32767, -300)):
        other = replace(node, params=replace(node.params, lo=lo, hi=hi, out_zero_point=zero))
        yield other, lowered.with_nodes([other if n is node else n for n in lowered.nodes])


@pytest.mark.parametrize("kind", ["int8", "int16", "int16 exact"])
@pytest.mark.parametrize("name", CASES)
def test_boundaries(name, kind):
    """Each case has a kernel for dsp, whose bits are those of the reference for all bounds of the activation."""
    for node, graph in nodes_of(CASES[name], kind):
        assert any(
            symbol.endswith("_dsp") for symbol in check_kernels(node, graph, np.random.default_rng(1), isa="dsp")
        )
