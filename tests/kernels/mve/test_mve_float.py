"""The float32 kernels of Helium: pairs of pixels, eights and fours of channels, fives of columns, padding, and numbers so small that a
vector would flush their products.
"""

import runpy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from checker import case, weights
from kernel_checker import check_kernels

from glowembed.graph.ir import Const
from glowembed.graph.registry import kernel_ops
from glowembed.graph.target import load_target
from glowembed.ops.float32 import LARGEST

pytestmark = pytest.mark.cc

SHARED = runpy.run_path(str(Path(__file__).parents[1] / "dsp" / "test_dsp_float.py"))
NODES_OF = SHARED["nodes_of"]
CASES = {
    **SHARED["CASES"],
    "eights": case("eights", "Conv", (1, 8, 3, 7), weights(17, 8, 1, 1)),
    "one pixel": case("one", "Conv", (1, 3, 1, 1), weights(8, 3, 1, 1)),
    "fives": case("fives", "Conv", (1, 6, 5, 11), weights(6, 1, 3, 3), group=6, kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
    "parts": case("parts", "Conv", (1, 2, 19, 41), weights(2, 1, 3, 3), group=2, kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
    "strides": case("strides", "Conv", (1, 8, 9, 11), weights(8, 1, 3, 3), group=8, strides=[3, 2], kernel_shape=[3, 3]),
    "far": case("far", "Conv", (1, 2, 9, 12), weights(2, 1, 2, 3), group=2, strides=[1, 3], dilations=[3, 2],
                kernel_shape=[2, 3], pads=[2, 4, 2, 1]),
    "fully connected": case("fc", "Gemm", (3, 7), weights(9, 7), transB=1),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_boundaries(name):
    node, lowered = NODES_OF(CASES[name])
    for seed, limits in enumerate(((-LARGEST, LARGEST), (0.0, LARGEST), (-1.0, 6.0))):
        other = replace(node, params=replace(node.params, lo=limits[0], hi=limits[1]))
        graph = lowered.with_nodes([other if n is node else n for n in lowered.nodes])
        found = check_kernels(other, graph, np.random.default_rng(seed), isa="mve")
        assert any(symbol.endswith("_f32_mve") for symbol in found)


def test_constants_whose_products_a_vector_would_flush():
    node, _ = NODES_OF(CASES["eights"])
    (kernel,) = (k for k in kernel_ops()[node.op].kernels if k.isa == "mve")
    m55 = load_target("cortex-m55")
    assert kernel.when(node, m55) is None
    assert kernel.when(node, replace(m55, has_fpu=False)) == "cortex-m55 has no FPU"
    for name, small in (("weights", 2.0**-51), ("bias", -1e-40)):
        array = node.constants[name].materialize().copy()
        array.flat[1] = small
        reason = kernel.when(replace(node, constants={**node.constants, name: Const(array)}), m55)
        assert reason is not None and reason.startswith(f"{name} holds")
