"""The float edges: quantize_f32_s8 and dequantize_s8_f32."""

import numpy as np
import pytest
from checker import SIZES
from kernel_checker import check_kernels

from glowembed.graph.ir import Graph, Node, QType, Value
from glowembed.graph.registry import kernel_ops
from glowembed.lower.nodes import lower
from glowembed.ops.edge import EdgeParams
from glowembed.run.kernel import call

pytestmark = pytest.mark.cc

TYPES = [QType("int8", (scale,), (zero,)) for scale in (1.0, 0.1, 3e-5, 1e-37, 7e30) for zero in (-128, -1, 0, 127)]


def edges(shape, qtype):
    """x -> Identity over int8 -> y, both of them float outside."""
    x = Value("x", shape, qtype=qtype)
    y = Value("y", shape, qtype=qtype)
    return Graph("edges", (Node("middle", "Rescale", ("x",), ("y",)),), {"x": x, "y": y}, ("x",), ("y",))


@pytest.mark.parametrize("qtype", TYPES, ids=lambda q: f"{q.scale[0]:g} {q.zero_point[0]}")
@pytest.mark.parametrize("shape", [(1, 5, 4, 3), (1, 9, 2), *((1, n) for n in SIZES)], ids=str)
def test_edges(shape, qtype):
    graph = lower(edges(shape, qtype), float_io=True)
    assert [n.op for n in graph.nodes] == ["quantize_f32_s8", "copy_s8", "dequantize_s8_f32"]
    for node in (graph.nodes[0], graph.nodes[2]):
        check_kernels(node, graph, np.random.default_rng(1))


@pytest.mark.parametrize("zero_point", [-128, -1, 0, 3, 127])
@pytest.mark.parametrize("scale", [1.0, 0.1, 0.003921569])
def test_ties_go_to_even_and_the_rest_is_clamped(scale, zero_point):
    op = kernel_ops()["quantize_f32_s8"]
    steps = np.arange(-700, 701) / np.float32(2)
    near = [np.nextafter(steps, np.float32(end), dtype=np.float32) for end in (-np.inf, np.inf)]
    special = np.asarray([0.0, -0.0, np.inf, -np.inf, np.nan, 3.4e38, -3.4e38, 1e-45], np.float32)
    x = np.concatenate([steps.astype(np.float32), *near]) * np.float32(scale)
    x = np.concatenate([x, special]).astype(np.float32)
    params = EdgeParams(1, x.size, zero_point, float(np.float32(scale)))
    expected = op.int_ref(params, [x], {})
    assert expected[-8:].tolist() == [zero_point, zero_point, 127, -128, zero_point, 127, -128, zero_point]
    np.testing.assert_array_equal(call(op, op.kernels[0], params, [x], {}, np.int8), expected)


def test_a_value_comes_back_as_itself():
    qtype = QType("int8", (0.05,), (17,))
    stored = np.arange(-128, 128, dtype=np.int8)
    there, back = (kernel_ops()[name] for name in ("dequantize_s8_f32", "quantize_f32_s8"))
    params = EdgeParams(1, 256, qtype.zero_point[0], float(np.float32(qtype.scale[0])))
    np.testing.assert_array_equal(back.int_ref(params, [there.int_ref(params, [stored], {})], {}), stored)
