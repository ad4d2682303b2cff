"""Small kernel-level nodes of every op in the registry, so small that each element of their inputs can be changed by itself.

ONNX nodes in every dtype, requantization and kind of weights, as the compiler lowers them. An op that none of them becomes
has no nodes here, and the tests that go through the registry say so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import chain
from typing import Any

import numpy as np
from checker import Case, case, imported, one_node_model
from own_cases import own_cases
from random_nodes import by_rows, typed_and_lowered

from glowembed.graph.ir import Array, Graph, Node, QType, Value, verify
from glowembed.law.modes import MODES
from glowembed.lower.nodes import lower
from glowembed.ops.handover import HandoverParams

LIMITS = (-2.0, 127 / 64)
"""The ranges of tensors. Their steps are powers of two, so that outputs meet halves, where requantizations differ."""

OF_OUTPUTS = {"mean, padded": (-0.6, 0.7), "mean of all": (-0.6, 0.7), "sum": (-4.0, 127 / 32)}
"""The ranges of outputs that have other steps than the inputs."""


def _far(*shape: int) -> Array:
    """Weights that are not near zero, so that every input with which they are multiplied changes the output."""
    rng = np.random.default_rng(shape)
    return (rng.uniform(0.3, 0.6, shape) * rng.choice([-1, 1], shape)).astype(np.float32)


def _words(*numbers: int) -> Array:
    return np.asarray(numbers, np.int64)


CASES = (
    case("3x3", "Conv", (1, 3, 6, 4), _far(2, 3, 3, 3), pads=[1, 1, 1, 1]),
    case("stride 2", "Conv", (1, 2, 7, 4), _far(5, 2, 3, 3), pads=[1, 1, 1, 1], strides=[2, 2]),
    case("dilation 2", "Conv", (1, 3, 7, 4), _far(2, 3, 3, 3), pads=[2, 2, 2, 2], dilations=[2, 2]),
    case("wider", "Conv", (1, 2, 6, 3), _far(4, 2, 1, 1)),
    case("narrower", "Conv", (1, 4, 6, 3), _far(2, 4, 1, 1)),
    case("as wide", "Conv", (1, 4, 6, 3), _far(4, 4, 1, 1)),
    case("rows that nobody reads", "Conv", (1, 2, 11, 3), _far(2, 2, 2, 1), strides=[3, 1]),
    case("a high window", "Conv", (1, 2, 7, 3), _far(2, 2, 4, 1), pads=[3, 0, 3, 0]),
    case("padding below", "Conv", (1, 2, 5, 4), _far(3, 2, 3, 3), pads=[0, 0, 2, 2]),
    case("two groups", "Conv", (1, 4, 5, 3), _far(6, 2, 3, 2), pads=[0, 1, 1, 0], group=2, strides=[2, 1]),
    case("depthwise", "Conv", (1, 4, 6, 4), _far(4, 1, 3, 3), pads=[1, 1, 1, 1], group=4),
    case("depthwise stride 2", "Conv", (1, 4, 7, 4), _far(4, 1, 3, 3), pads=[1, 1, 1, 1], group=4, strides=[2, 2]),
    case("depthwise dilation 2", "Conv", (1, 5, 6, 3), _far(5, 1, 3, 1), pads=[2, 0, 2, 0], group=5, dilations=[2, 1]),
    case("depthwise, two of each", "Conv", (1, 3, 5, 4), _far(6, 1, 3, 3), group=3),
    case("transposed", "ConvTranspose", (1, 3, 4, 3), _far(3, 2, 3, 3), strides=[2, 2], pads=[1, 1, 1, 1]),
    case("transposed, apart", "ConvTranspose", (1, 2, 4, 3), _far(2, 3, 2, 2), strides=[3, 3]),
    case("transposed, dilated", "ConvTranspose", (1, 2, 5, 3), _far(2, 2, 3, 2), dilations=[2, 1]),
    case("dense", "Gemm", (4, 5), _far(5, 3)),
    case("dense, more out", "MatMul", (4, 3), _far(3, 7)),
    case("maximum", "MaxPool", (1, 3, 6, 4), kernel_shape=[2, 2], strides=[2, 2]),
    case("maximum, padded", "MaxPool", (1, 2, 6, 4), kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
    case("maximum, dilated", "MaxPool", (1, 2, 7, 3), kernel_shape=[3, 1], dilations=[2, 1]),
    case("mean", "AveragePool", (1, 3, 6, 4), kernel_shape=[2, 2], strides=[2, 2]),
    case("mean, padded", "AveragePool", (1, 2, 6, 4), kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
    case("mean of all", "GlobalAveragePool", (1, 3, 5, 4)),
    case("mean of few columns", "GlobalAveragePool", (1, 3, 5, 2)),
    case("mean of sixteen", "GlobalAveragePool", (1, 3, 4, 4)),
    case("maximum of all", "GlobalMaxPool", (1, 3, 5, 4)),
    case("sum", "Add", (1, 3, 4, 3), (1, 3, 4, 3)),
    case("sum with a pixel", "Add", (1, 4, 3, 3), (3, 3)),
    case("sum with a row", "Sub", (1, 3, 4, 3), (1, 3, 1, 3)),
    case("product", "Mul", (1, 3, 4, 3), (1, 3, 4, 3)),
    case("gate", "Mul", (1, 4, 3, 3), (1, 4, 1, 1)),
    case("product with a row", "Mul", (1, 1, 4, 3), (1, 3, 4, 3)),
    case("function", "Tanh", (1, 3, 4, 3)),
    case("jumps", "Floor", (1, 3, 4, 3)),
    case("steps", "Relu", (1, 3, 4, 3)),
    case("real function", "Exp", (1, 3, 4, 3)),
    case("chances", "Softmax", (1, 5, 6), axis=-1),
    case("chances of one", "Softmax", (1, 9), axis=-1),
    case("channel by channel", "BatchNormalization", (1, 3, 4, 3), *(np.abs(_far(n)) for n in (3, 3, 3, 3))),
    case("side by side", "Concat", (1, 2, 4, 3), (1, 3, 4, 3), axis=1),
    case("one below the other", "Concat", (1, 2, 4, 3), (1, 2, 2, 3), axis=2),
    case("beside a constant", "Concat", (1, 2, 4, 3), _far(1, 1, 4, 3), axis=1),
    case("cut", "Slice", (1, 3, 6, 4), _words(1), _words(5), _words(2), _words(1)),
    case("some channels", "Slice", (1, 5, 3, 3), _words(1), _words(4), _words(1), _words(2)),
    case("with a border", "Pad", (1, 2, 4, 3), _words(0, 0, 1, 1, 0, 0, 2, 1), np.float32(0.5)),
    case("channels to the back", "Transpose", (1, 3, 4, 3), perm=[0, 2, 3, 1]),
    case("channels to the front", "Transpose", (1, 4, 3, 3), perm=[0, 3, 1, 2]),
    *chain.from_iterable(own_cases("SMALL")),
)  # fmt: skip

SETTINGS: tuple[dict[str, Any], ...] = (
    *({"dtype": "int8", "weights_schema": w} for w in ("symmetric", "asymmetric")),
    *({"dtype": "int8", "weights": w} for w in ("int4", "compressed")),
    *({"dtype": "int16", "weights": w} for w in ("int8", "int16")),
    {"dtype": "float32"},
)

SHAPES_MAX = 12
"""The most shapes of an op; the first ones in the order above are taken."""


@cache
def small_nodes() -> dict[str, list[tuple[Graph, Node]]]:
    """A mapping from op to nodes with different params, each with the graph that has the types of its inputs and
    outputs.
    """
    found: dict[str, dict[str, tuple[Graph, Node]]] = {}
    own = chain.from_iterable(made() for made in own_cases("small_graphs"))
    for graph in (*_lowered(), *_conversions(), *_handovers(), *own):
        for node in graph.nodes:
            nodes = found.setdefault(node.op, {})
            if len(nodes) < SHAPES_MAX:
                nodes.setdefault(repr((node.params, node.shares)), (graph, node))
    return {op: list(nodes.values()) for op, nodes in found.items()}


def _lowered() -> Iterator[Graph]:
    for settings in SETTINGS:
        for mode in MODES if settings["dtype"] == "int8" else ("default",):
            for one in CASES:
                graph = _as(one, settings, mode)
                yield graph
                yield by_rows(graph)


def _as(one: Case, settings: dict[str, Any], mode: str) -> Graph:
    graph = imported(one_node_model(one))
    graph = graph.with_nodes(replace(n, attrs={**n.attrs, "requantization": mode}) for n in graph.nodes)
    ranges = {name: OF_OUTPUTS.get(one.name, LIMITS) if name[0] == "y" else LIMITS for name in graph.values}
    return typed_and_lowered(graph, settings, ranges)


def _conversions() -> Iterator[Graph]:
    qtypes = (QType("int8", (0.02,), (3,)), QType("int8", (0.03,), (-5,)), QType("int16", (0.0001,), (0,)), None)
    for x in qtypes:
        for y in qtypes:
            op = "Quantize" if x is None else "Dequantize" if y is None else "Rescale"
            if x != y:
                values = {name: Value(name, (1, 4, 3, 2), qtype=q) for name, q in (("x", x), ("y", y))}
                yield verify(lower(Graph("g", (Node("n", op, ("x",), ("y",)),), values, ("x",), ("y",))))


def _handovers() -> Iterator[Graph]:
    for op in ("take_rows", "copy_rows"):
        values = {name: Value(name, (4, 7), qtype=QType("int8", (1.0,), (0,))) for name in "xy"}
        yield Graph("g", (Node("n", op, ("x",), ("y",), params=HandoverParams(4, 7)),), values, ("x",), ("y",))
    values = {name: Value(name, (4, 7), qtype=QType("int8", (1.0,), (0,))) for name in ("old", "x", "y")}
    store = Node("n", "store_rows", ("old", "x"), ("y",), params=HandoverParams(4, 7), shares=0)
    yield Graph("g", (store,), values, ("old", "x"), ("y",))
