"""Each rewrite on a model as small as it can be: the ops that are left, and the same numbers as onnxruntime."""

from __future__ import annotations

from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from small_models import all_values, canonical, compare, model, node, sequence, weights

from glowembed.canonicalize import canonicalize
from glowembed.graph.ir import Array, Graph
from glowembed.read.importer import load

IMAGE = {"x": (1, 3, 6, 5)}
TIME = {"x": (1, 4, 9)}
FLAT = {"x": (1, 8)}
CONV = node("Conv", "x w b", "c")
BATCHNORM = node("BatchNormalization", "c g h m v", "n", epsilon=1e-3)
TO_NHWC, TO_NCHW = [0, 2, 3, 1], [0, 3, 1, 2]


def norm(channels: int) -> dict[str, Array]:
    names = ("g", "h", "m")
    return {n: weights(channels, seed=i + 5) for i, n in enumerate(names)} | {
        "v": np.abs(weights(channels, seed=9)) + np.float32(0.1)
    }


W = {"w": weights(4, 3, 3, 3), "b": weights(4, seed=2)}
M = {"m": weights(8, 4), "c": weights(4, seed=2)}

# name, nodes, inputs, constants, the ops that are left
CASES = (
    # scales and shifts
    ("BatchNorm into Conv", [CONV, BATCHNORM, node("Relu", "n", "y")], IMAGE, {**W, **norm(4)}, "Transpose Conv+ Transpose"),
    ("BatchNorm into a depthwise Conv", [node("Conv", "x w", "c", group=3), BATCHNORM, node("Relu", "n", "y")], IMAGE,
     {"w": weights(6, 1, 3, 3), **norm(6)}, "Transpose Conv+ Transpose"),
    ("BatchNorm into a 1-D Conv", [node("Conv", "x w", "c"), BATCHNORM, node("Relu", "n", "y")], TIME,
     {"w": weights(5, 4, 3), **norm(5)}, "Transpose Conv+ Transpose"),
    ("BatchNorm into Gemm", [node("Gemm", "x m", "c"), node("BatchNormalization", "c g h m2 v", "y")], FLAT,
     {"m": weights(8, 4), "m2": weights(4, seed=3), **{k: v for k, v in norm(4).items() if k != "m"}}, "Gemm"),
    ("BatchNorm alone", [node("BatchNormalization", "x g h m v", "y")], IMAGE, norm(3), "Transpose Affine Transpose"),
    ("BatchNorm on rows", [node("BatchNormalization", "x g h m v", "y")], FLAT, norm(8), "Affine"),
    ("two BatchNorms", [node("BatchNormalization", "x g h m v", "n"), node("BatchNormalization", "n g h m v", "y")], FLAT, norm(8), "Affine"),
    ("BatchNorm of a value that others read", [CONV, BATCHNORM, node("Add", "c n", "y")], IMAGE, {**W, **norm(4)},
     "Transpose Conv Affine Add Transpose"),
    ("BatchNorm behind a clip", [CONV, node("Relu", "c", "r"), node("BatchNormalization", "r g h m v", "y")], IMAGE,
     {**W, **norm(4)}, "Transpose Conv+ Affine Transpose"),
    ("Add a scalar", [node("Add", "x k", "y")], FLAT, {"k": 2.0}, "Affine"),
    ("Add from the left", [node("Add", "k x", "y")], FLAT, {"k": 2.0}, "Affine"),
    ("Sub a row", [node("Sub", "x k", "y")], FLAT, {"k": weights(8)}, "Affine"),
    ("Sub from a row", [node("Sub", "k x", "y")], FLAT, {"k": weights(1, 8)}, "Affine"),
    ("Mul", [node("Mul", "x k", "y")], FLAT, {"k": weights(8)}, "Affine"),
    ("Div", [node("Div", "x k", "y")], FLAT, {"k": np.array([4.0, -0.5] * 4, np.float32)}, "Affine"),
    ("Add per channel of an image", [node("Add", "x k", "y")], IMAGE, {"k": weights(3, 1, 1)}, "Add"),
    ("Mul along the last axis of an image", [node("Mul", "x k", "y")], IMAGE, {"k": weights(5)}, "Affine"),
    ("Mul along the rows of an image", [node("Mul", "x k", "y")], IMAGE, {"k": weights(6, 1)}, "Mul"),
    ("Mul along two axes", [node("Mul", "x k", "y")], IMAGE, {"k": weights(3, 6, 1)}, "Mul"),
    ("a constant that makes it larger", [node("Add", "x k", "y")], {"x": (1, 1)}, {"k": weights(1, 8)}, "Add"),
    ("the same constant twice", [node("Mul", "x k", "a"), node("Mul", "a k", "t"), node("Tanh", "t", "y")], FLAT, {"k": weights(8)}, "Affine Tanh"),
    ("one weight, two scales", [node("Conv", "x w", "a"), node("Mul", "a k", "p"), node("Conv", "x w", "q"), node("Mul", "q l", "r"),
                                node("Add", "p r", "y")], IMAGE, {**W, "k": 2.0, "l": weights(4, 1, 1)}, "Transpose Conv Conv Add Transpose"),
    ("times one", [node("Tanh", "x", "t"), node("Mul", "t k", "u"), node("Sigmoid", "u", "y")], FLAT, {"k": 1.0}, "Tanh Sigmoid"),
    ("MatMul, Add", [node("MatMul", "x m", "p"), node("Add", "p c", "y")], FLAT, M, "Gemm"),
    ("MatMul, Add from the left, Relu", [node("MatMul", "x m", "p"), node("Add", "c p", "s"), node("Relu", "s", "y")], FLAT, M, "Gemm+"),
    ("Gemm, Mul, Add, Relu",
     [node("Gemm", "x m c", "p", alpha=0.5), node("Mul", "p k", "s"), node("Add", "s c", "t"), node("Relu", "t", "y")],
     FLAT, {**M, "k": weights(4, seed=7)}, "Gemm+"),
    ("Conv, scalar", [CONV, node("Mul", "c k", "y")], IMAGE, {**W, "k": -2.0}, "Transpose Conv Transpose"),
    # activations
    ("Relu", [CONV, node("Relu", "c", "y")], IMAGE, W, "Transpose Conv+ Transpose"),
    ("Relu6", [CONV, node("Clip", "c z s", "y")], IMAGE, {**W, "z": 0.0, "s": 6.0}, "Transpose Conv+ Transpose"),
    ("Clip of Clip", [node("Clip", "x a b", "c"), node("Clip", "c d e", "y")], FLAT, {"a": -1.0, "b": 1.0, "d": 0.0, "e": 0.5}, "Clip"),
    ("Clips that do not meet", [node("Clip", "x a b", "c"), node("Clip", "c d e", "y")], FLAT, {"a": -1.0, "b": 0.0, "d": 0.25, "e": 0.5}, "Clip"),
    ("Relu of a value that others read", [CONV, node("Relu", "c", "r"), node("Concat", "c r", "y", axis=1)], IMAGE, W, "Transpose Conv Clip Concat Transpose"),
    ("Relu of an output", [CONV, node("Relu", "c", "y"), node("Tanh", "y", "t")], IMAGE, W, "Transpose Conv+ Transpose"),
    ("Add, Relu", [CONV, node("Conv", "x w", "d"), node("Add", "c d", "s"), node("Relu", "s", "y")], IMAGE, W, "Transpose Conv Conv Add+ Transpose"),
    ("Flatten between Gemm and Relu", [node("Gemm", "x m c", "p"), node("Unsqueeze", "p a", "f"), node("Relu", "f", "y")],
     FLAT, {**M, "a": [2]}, "Gemm+ Reshape"),
    # padding
    ("Pad", [node("Pad", "x p", "q"), node("Conv", "q w b", "y")], IMAGE, {**W, "p": [0, 0, 1, 2, 0, 0, 3, 0]}, "Transpose Conv Transpose"),
    ("Pad on top of pads", [node("Pad", "x p", "q"), node("Conv", "q w b", "y", pads=[1, 1, 1, 1], strides=[2, 2])], IMAGE,
     {**W, "p": [0, 0, 0, 1, 0, 0, 1, 0]}, "Transpose Conv Transpose"),
    ("causal Pad", [node("Pad", "x p", "q"), node("Conv", "q w", "y", dilations=[2])], TIME,
     {"w": weights(5, 4, 3), "p": [0, 0, 4, 0, 0, 0]}, "Transpose Conv Transpose"),
    ("Pad with another value", [node("Pad", "x p k", "q"), node("Conv", "q w b", "y")], IMAGE,
     {**W, "p": [0, 0, 1, 1, 0, 0, 1, 1], "k": 1.0}, "Transpose PadValue Conv Transpose"),
    ("Pad of channels", [node("Pad", "x p", "q"), node("Conv", "q w", "y")], IMAGE,
     {"w": weights(4, 5, 3, 3), "p": [0, 1, 0, 0, 0, 1, 0, 0]}, "Transpose Pad Conv Transpose"),
    ("Pad that others read", [node("Pad", "x p", "q"), node("Conv", "q w", "c"), node("Relu", "q", "r"), node("Conv", "r w", "d"), node("Add", "c d", "y")],
     IMAGE, {**W, "p": [0, 0, 1, 1, 0, 0, 1, 1]}, None),
    ("into the parts of a Concat", [CONV, node("Conv", "x w b", "d"), node("Tanh", "d", "t"), node("Concat", "c t", "j", axis=1), node("Mul", "j k", "m"),
                                    node("Add", "m k2", "n"), node("Relu", "n", "y")], IMAGE, {**W, "k": weights(8, 1, 1), "k2": weights(8, 1, 1, seed=3)},
     "Transpose Conv+ Conv Tanh Affine+ Concat Transpose"),
    ("not into the parts: none takes it", [node("Tanh", "x", "t"), node("Sigmoid", "x", "u"), node("Concat", "t u", "j", axis=3), node("Mul", "j k", "y")],
     IMAGE, {"k": weights(10)}, "Tanh Sigmoid Concat Affine"),
    # transposes
    ("there and back", [node("Transpose", "x", "a", perm=TO_NHWC), node("Transpose", "a", "b", perm=TO_NCHW), node("Tanh", "b", "y")], IMAGE, {}, "Tanh"),
    ("two are one", [node("Transpose", "x", "a", perm=[1, 0, 2, 3]), node("Transpose", "a", "b", perm=[1, 2, 0, 3]), node("Tanh", "b", "y")], IMAGE, {},
     "Tanh Transpose"),
    ("identity", [node("Transpose", "x", "a", perm=[0, 1, 2, 3]), node("Tanh", "a", "y")], IMAGE, {}, "Tanh"),
    ("through a unary op", [node("Transpose", "x", "a", perm=TO_NHWC), node("Sigmoid", "a", "b"), node("Transpose", "b", "y", perm=TO_NCHW)], IMAGE, {}, "Sigmoid"),
    ("through an Add of two", [node("Transpose", "x", "a", perm=TO_NHWC), node("Transpose", "z", "b", perm=TO_NHWC), node("Add", "a b", "c"),
                               node("Transpose", "c", "y", perm=TO_NCHW)], {**IMAGE, "z": (1, 3, 6, 5)}, {}, "Add"),
    ("through an Add with a constant", [node("Transpose", "x", "a", perm=TO_NHWC), node("Add", "a k", "c"), node("Transpose", "c", "y", perm=TO_NCHW)],
     IMAGE, {"k": weights(6, 5, 3)}, "Add"),
    ("through Concat", [node("Transpose", "x", "a", perm=TO_NHWC), node("Tanh", "a", "t"), node("Concat", "a t", "c", axis=3),
                        node("Transpose", "c", "y", perm=TO_NCHW)], IMAGE, {}, "Tanh Concat"),
    ("through Slice", [node("Transpose", "x", "a", perm=TO_NHWC), node("Slice", "a s e i", "c"), node("Transpose", "c", "y", perm=TO_NCHW)],
     IMAGE, {"s": [1], "e": [4], "i": [1]}, "Slice"),
    ("through Squeeze", [node("Conv", "x w", "c"), node("Squeeze", "c i", "s"), node("Transpose", "s", "t", perm=[0, 2, 1]), node("Tanh", "t", "y")],
     {"x": (1, 3, 1, 9)}, {"w": weights(4, 3, 1, 3), "i": [2]}, "Transpose Conv Tanh Reshape"),
    ("through a Reshape to tokens", [CONV, node("Reshape", "c s", "r"), node("Transpose", "r", "t", perm=[0, 2, 1]), node("Softmax", "t", "y")],
     IMAGE, {**W, "s": [1, 4, 12]}, "Transpose Conv Reshape Softmax"),
    ("through a Reshape to heads", [CONV, node("Reshape", "c s", "r"), node("Transpose", "r", "t", perm=[0, 3, 1, 2]), node("Softmax", "t", "y")],
     IMAGE, {**W, "s": [1, 2, 2, 12]}, "Transpose Conv Reshape Softmax"),
    ("in front of a Reshape", [node("Tanh", "x", "h"), node("Transpose", "h", "a", perm=[1, 0, 3, 2]), node("Reshape", "a s", "r"), node("Transpose", "r", "y", perm=[2, 1, 0])],
     {"x": (2, 3, 6, 5)}, {"s": [3, 10, 6]}, "Transpose Tanh Reshape"),
    ("a channel shuffle", [CONV, node("Reshape", "c s", "r"), node("Transpose", "r", "t", perm=[0, 2, 1, 3, 4]), node("Reshape", "t f", "q"), node("Conv", "q w2", "y")],
     IMAGE, {**W, "s": [1, 2, 2, 4, 3], "f": [1, 4, 4, 3], "w2": weights(2, 4, 1, 1)}, "Transpose Conv Reshape Transpose Reshape Conv Transpose"),
    ("only axes of 1", [node("Transpose", "x", "a", perm=[2, 0, 1, 3]), node("Tanh", "a", "y")], {"x": (1, 1, 6, 5)}, {}, "Tanh Reshape"),
    ("into the columns of Gemm", [node("Conv", "x w b", "c"), node("Relu", "c", "r"), node("Flatten", "r", "f"), node("Gemm", "f m", "y")],
     IMAGE, {**W, "m": weights(48, 4)}, "Transpose Conv+ Reshape Gemm"),
    ("into the columns, Relu between", [node("Conv", "x w b", "c"), node("Flatten", "c", "f"), node("Relu", "f", "r"), node("Gemm", "r m", "y")],
     IMAGE, {**W, "m": weights(48, 4)}, "Transpose Conv+ Reshape Gemm"),
    ("into the columns of two", [node("Conv", "x w b", "c"), node("Flatten", "c", "f"), node("Gemm", "f m", "p"), node("Gemm", "f n", "q"),
                                 node("Add", "p q", "y")],
     IMAGE, {**W, "m": weights(48, 4), "n": weights(48, 4, seed=4)}, "Transpose Conv Reshape Gemm Gemm Add"),
    ("not into the columns: others read it", [node("Conv", "x w b", "c"), node("Flatten", "c", "f"), node("Gemm", "f m", "p"), node("Softmax", "f", "y")],
     IMAGE, {**W, "m": weights(48, 4)}, "Transpose Conv Transpose Reshape Softmax"),
    ("up to the input", [node("Relu", "x", "r"), node("Add", "r k", "a"), node("Conv", "a w b", "y")], IMAGE,
     {**W, "k": weights(3, 6, 5)}, "Transpose Clip Add Conv Transpose"),
    ("NHWC input, an op before the first Conv", [node("Transpose", "x", "a", perm=TO_NCHW), node("Relu", "a", "r"), node("Conv", "r w b", "c"),
                                                 node("Transpose", "c", "y", perm=TO_NHWC)], {"x": (1, 6, 5, 3)}, W, "Clip Conv"),
    # reshapes
    ("Reshape of Reshape", [node("Reshape", "x s", "a"), node("Reshape", "a t", "b"), node("Tanh", "b", "y")], FLAT, {"s": [2, 4], "t": [4, 2]}, "Reshape Tanh"),
    ("Reshape and back", [node("Reshape", "x s", "a"), node("Reshape", "a t", "b"), node("Tanh", "b", "y")], FLAT, {"s": [2, 4], "t": [1, 8]}, "Tanh"),
    ("nothing to do", [node("Reshape", "x s", "a"), node("Tanh", "a", "y")], FLAT, {"s": [1, 8]}, "Tanh"),
    ("pooled and flattened", [CONV, node("GlobalAveragePool", "c", "p"), node("Flatten", "p", "f"), node("Gemm", "f m", "y")], IMAGE,
     {**W, "m": weights(4, 2)}, "Transpose Conv AveragePool Reshape Gemm"),
    ("dead code", [node("Tanh", "x", "y"), node("Sigmoid", "x", "z"), node("Relu", "z", "u")], FLAT, {}, "Tanh"),
)  # fmt: skip


@pytest.mark.parametrize(("name", "nodes", "inputs", "constants", "ops"), CASES, ids=[c[0] for c in CASES])
def test_rewrites(name: str, nodes: list, inputs: dict, constants: dict, ops: str | None, tmp_path: Path) -> None:
    graph = canonical(model(nodes, inputs, constants), tmp_path)
    assert ops is None or sequence(graph) == ops


@pytest.mark.parametrize(
    ("image", "attrs", "window"),
    [
        ((1, 3, 1, 1), {"pads": [1, 1, 1, 1]}, ((1, 1), (0, 0, 0, 0))),
        ((1, 3, 1, 5), {"pads": [1, 1, 1, 1]}, ((1, 3), (0, 1, 0, 1))),
        ((1, 3, 2, 2), {"pads": [0, 0, 1, 1], "strides": [2, 2]}, ((2, 2), (0, 0, 0, 0))),
        ((1, 3, 2, 4), {"pads": [2, 2, 2, 2], "dilations": [2, 2]}, ((1, 3), (0, 2, 0, 2))),
        ((1, 3, 1, 1), {"pads": [3, 3, 3, 3], "dilations": [2, 2]}, ((1, 1), (1, 1, 1, 1))),
        ((1, 3, 3, 3), {"pads": [4, 4, 4, 4]}, ((3, 3), (4, 4, 4, 4))),
        ((1, 3, 6, 5), {"pads": [1, 1, 1, 1]}, ((3, 3), (1, 1, 1, 1))),
    ],
)
def test_taps_that_lie_in_padding_only_go(image: tuple, attrs: dict, window: tuple, tmp_path: Path) -> None:
    graph = canonical(model([node("Conv", "x w b", "y", **attrs)], {"x": image}, W), tmp_path)
    conv = next(n for n in graph.nodes if n.op == "Conv")
    assert (conv.attrs["kernel"], conv.attrs["pads"]) == window


def test_the_fused_node_takes_the_name_of_the_activation_and_keeps_its_origins(tmp_path: Path) -> None:
    nodes = [CONV, BATCHNORM, node("Relu", "n", "r"), node("GlobalMaxPool", "r", "y")]
    graph = canonical(model(nodes, IMAGE, {**W, **norm(4)}), tmp_path)
    conv = next(n for n in graph.nodes if n.op == "Conv")
    assert (conv.name, conv.outputs, conv.origins) == ("n_c", ("r",), ("n_c", "n_n", "n_r"))
    assert (conv.attrs["act_min"], conv.attrs["act_max"]) == (0.0, inf)
    assert (graph.values["r"].layout, graph.values["r"].shape) == ((0, 2, 3, 1), (1, 4, 3, 4))


def test_names_of_the_model_survive(tmp_path: Path) -> None:
    """Values that are stored channels-last keep their names; nothing is left under a derived one but the input."""
    nodes = [
        CONV,
        node("Sigmoid", "c", "s"),
        node("Conv", "s v", "d"),
        node("Add", "d d", "a"),
        node("GlobalAveragePool", "a", "y"),
    ]
    graph = canonical(model(nodes, IMAGE, {**W, "v": weights(4, 4, 1, 1)}), tmp_path)
    computed = [n for n, v in graph.values.items() if v.const is None]
    assert sorted(computed) == sorted(["x", "x/channels_last", "c", "s", "d", "a", "y", "y/channels_last"])


def test_an_output_that_is_also_read_stays_as_the_model_has_it(tmp_path: Path) -> None:
    nodes = [CONV, node("Relu", "c", "r"), node("Conv", "r v", "y")]
    graph = canonical(model(nodes, IMAGE, {**W, "v": weights(2, 4, 1, 1)}, outputs=["y", "r"]), tmp_path)
    assert graph.values["r"].layout is None
    assert graph.values["r"].shape == (1, 4, 4, 3)


def network(layout: str) -> onnx.ModelProto:
    """A residual network as PyTorch writes it, or as tf2onnx writes the same from Keras."""
    first = [node("Transpose", "x", "t", perm=TO_NCHW)] if layout == "nhwc" else []
    nodes = [
        *first,
        node("Conv", "t w b" if first else "x w b", "c", pads=[1, 1, 1, 1]), node("Relu", "c", "r"),
        node("Conv", "r v", "d", pads=[1, 1, 1, 1]), node("Add", "d r", "a"), node("Relu", "a", "s"),
        node("MaxPool", "s", "p", kernel_shape=[2, 2], strides=[2, 2]),
    ]  # fmt: skip
    last = "p"
    if layout == "nhwc":
        nodes.append(node("Transpose", "p", "q", perm=TO_NHWC))
        last = "q"
    matrix = weights(24, 5)
    if layout == "nchw":
        matrix = matrix.reshape(3, 2, 4, 5).transpose(2, 0, 1, 3).reshape(24, 5)
    nodes += [
        node("Reshape", f"{last} shape", "f"),
        node("MatMul", "f m", "g"),
        node("Add", "g k", "l"),
        node("Softmax", "l", "y"),
    ]
    constants = {**W, "v": weights(4, 4, 3, 3, seed=6), "m": matrix, "k": weights(5, seed=8), "shape": [1, 24]}
    return model(nodes, {"x": (1, 6, 5, 3) if layout == "nhwc" else (1, 3, 6, 5)}, constants)


def test_nhwc_and_nchw_are_the_same_ops(tmp_path: Path) -> None:
    last = canonical(network("nhwc"), tmp_path)
    first = canonical(network("nchw"), tmp_path)
    assert sequence(last) == "Conv+ Conv Add+ MaxPool Reshape Gemm Softmax"
    assert sequence(first) == "Transpose " + sequence(last)
    dropped = canonical(network("nchw"), tmp_path, input_layout="nhwc")
    assert sequence(dropped) == sequence(last)
    assert (dropped.values["x"].shape, dropped.values["x"].layout) == ((1, 6, 5, 3), (0, 2, 3, 1))
    for a, b in zip(last.nodes, dropped.nodes, strict=True):
        assert (a.op, dict(a.attrs)) == (b.op, dict(b.attrs))
        for one, other in zip(_constants(last, a.inputs), _constants(dropped, b.inputs), strict=True):
            np.testing.assert_array_equal(one, other)


def _constants(graph: Graph, names: tuple[str, ...]) -> list[Array]:
    return [v.const.materialize() for v in map(graph.values.__getitem__, names) if v.const is not None]


def test_input_layout_nhwc_leaves_an_nhwc_model_alone(tmp_path: Path) -> None:
    graph = canonical(network("nhwc"), tmp_path, input_layout="nhwc")
    assert (graph.values["x"].shape, graph.values["x"].layout) == ((1, 6, 5, 3), None)


def test_input_layout_nhwc_looks_through_what_comes_first(tmp_path: Path) -> None:
    nodes = [
        node("Sub", "x k", "a"),
        node("Div", "a l", "d"),
        node("Pad", "d p", "e"),
        node("Conv", "e w b", "c"),
        node("GlobalMaxPool", "c", "y"),
    ]
    constants = {
        **W,
        "k": weights(1, 3, 1, 1),
        "l": np.array([[[2.0]], [[-3.0]], [[0.5]]], np.float32),
        "p": [0, 0, 1, 1, 0, 0, 1, 1],
    }
    plain = canonical(model(nodes, IMAGE, constants), tmp_path)
    dropped = canonical(model(nodes, IMAGE, constants), tmp_path, input_layout="nhwc")
    assert sequence(plain) == "Transpose Affine Conv MaxPool Reshape"
    assert sequence(dropped) == "Affine Conv MaxPool Reshape"


def random_network(seed: int) -> onnx.ModelProto:
    """Ten ops on images, each on any values before it, NCHW and NHWC mixed; one to three outputs."""
    rng = np.random.default_rng(seed)
    first = (1, int(rng.choice([1, 3])), 6, 5)
    shapes: dict[str, tuple[int, ...]] = {"x": first}
    nodes: list[onnx.NodeProto] = []
    constants: dict[str, Array] = {}
    makers = (_conv, _unary, _batchnorm, _scaled, _twice, _turned, _padded, _joined, _cropped, _pooled, _reshaped)
    while len(nodes) < 10:
        name = str(rng.choice(list(shapes)[-4:]))
        made = makers[rng.integers(len(makers))](rng, name, shapes, constants, f"v{len(nodes)}")
        if made is not None:
            nodes.append(made[0])
            shapes[f"v{len(nodes) - 1}"] = made[1]
    outputs = list(
        dict.fromkeys([list(shapes)[-1], *(str(n) for n in rng.choice(list(shapes)[1:], rng.integers(0, 3)))])
    )
    return model(nodes, {"x": first}, constants, outputs=outputs)


def _conv(rng, x, shapes, constants, y):
    shape = shapes[x]
    if len(shape) != 4 or min(shape[2:]) < 3:
        return None
    constants[f"{y}w"] = weights(4, shape[1], 3, 3, seed=int(rng.integers(1000)))
    pad = int(rng.integers(0, 2))
    return node("Conv", f"{x} {y}w", y, pads=[pad, 0, 1, pad]), (1, 4, shape[2] + pad - 1, shape[3] + pad - 2)


def _unary(rng, x, shapes, constants, y):
    return node(str(rng.choice(["Relu", "Sigmoid", "Tanh", "Identity"])), x, y), shapes[x]


def _batchnorm(rng, x, shapes, constants, y):
    constants |= {f"{y}{k}": v for k, v in norm(shapes[x][1]).items()}
    return node("BatchNormalization", f"{x} {y}g {y}h {y}m {y}v", y), shapes[x]


def _scaled(rng, x, shapes, constants, y):
    shape = shapes[x]
    axis = int(rng.integers(-1, len(shape)))
    constants[f"{y}k"] = weights(*(d if i == axis else 1 for i, d in enumerate(shape)), seed=int(rng.integers(1000)))
    pair = f"{x} {y}k" if rng.integers(2) else f"{y}k {x}"
    return node(str(rng.choice(["Add", "Sub", "Mul"])), pair, y), shape


def _twice(rng, x, shapes, constants, y):
    same = [n for n, s in shapes.items() if s == shapes[x]]
    return node(str(rng.choice(["Add", "Mul", "Sub"])), f"{x} {rng.choice(same)}", y), shapes[x]


def _turned(rng, x, shapes, constants, y):
    rank = len(shapes[x])
    perm = [[0, *range(2, rank), 1], [0, rank - 1, *range(1, rank - 1)], [0, *range(rank - 1, 0, -1)]][rng.integers(3)]
    return node("Transpose", x, y, perm=perm), tuple(shapes[x][a] for a in perm)


def _padded(rng, x, shapes, constants, y):
    pads = rng.integers(0, 2, (2, len(shapes[x])))
    pads[:, 0] = 0
    constants[f"{y}p"] = pads.reshape(-1).astype(np.int64)
    return node("Pad", f"{x} {y}p", y), tuple(int(d) for d in np.array(shapes[x]) + pads.sum(axis=0))


def _joined(rng, x, shapes, constants, y):
    shape, axis = shapes[x], int(rng.integers(1, len(shapes[x])))
    fit = [
        n
        for n, s in shapes.items()
        if len(s) == len(shape) and all(a == b for i, (a, b) in enumerate(zip(s, shape, strict=True)) if i != axis)
    ]
    other = str(rng.choice(fit))
    return node("Concat", f"{x} {other}", y, axis=axis), tuple(
        d + shapes[other][i] * (i == axis) for i, d in enumerate(shape)
    )


def _cropped(rng, x, shapes, constants, y):
    axis = int(rng.integers(1, len(shapes[x])))
    if shapes[x][axis] < 3:
        return None
    constants |= {f"{y}s": np.array([1]), f"{y}e": np.array([-1]), f"{y}a": np.array([axis])}
    return node("Slice", f"{x} {y}s {y}e {y}a", y), tuple(d - 2 * (i == axis) for i, d in enumerate(shapes[x]))


def _pooled(rng, x, shapes, constants, y):
    shape = shapes[x]
    if len(shape) != 4 or min(shape[2:]) < 2:
        return None
    op = str(rng.choice(["MaxPool", "AveragePool"]))
    return node(op, x, y, kernel_shape=[2, 2]), (*shape[:2], shape[2] - 1, shape[3] - 1)


def _reshaped(rng, x, shapes, constants, y):
    """An axis of 1 more or less, or two axes joined."""
    shape = shapes[x]
    kind = int(rng.integers(3))
    if kind == 0 and 1 in shape[1:] and len(shape) > 3:
        axis = shape.index(1, 1)
        new = (*shape[:axis], *shape[axis + 1 :])
    elif kind == 1 and len(shape) == 3:
        new = (*shape[:2], 1, shape[2])
    elif kind == 2 and len(shape) == 4:
        new = (shape[0], shape[1], shape[2] * shape[3])
    else:
        return None
    constants[f"{y}s"] = np.array(new)
    return node("Reshape", f"{x} {y}s", y), new


@pytest.mark.parametrize("seed", range(60))
def test_random_networks_keep_their_numbers(seed: int, tmp_path: Path) -> None:
    canonical(random_network(seed), tmp_path, twice=False)


KWS = "Conv+ Conv+ Conv+ Conv+ Conv+ Conv+ Conv+ Conv+ Conv+ AveragePool Reshape Gemm Softmax"
RESNET = sorted(
    "Conv+ Conv+ Conv Add+ Conv Conv+ Conv Add+ Conv Conv+ Conv Add+ AveragePool Reshape Gemm Softmax".split()
)
AD01 = "Gemm+ " * 9 + "Gemm"
DIGITS = "Reshape Conv+ Conv+ MaxPool Conv+ Conv+ AveragePool Reshape Gemm"
BLOCK = "Conv+ Conv+ Conv "
MOBILENET = (
    "Transpose Conv+ Conv+ Conv " + BLOCK * 2 + "Add " + BLOCK * 2 + "Add " + BLOCK + "Add " + BLOCK * 2 + "Add "
    + BLOCK + "Conv+ AveragePool Reshape Gemm"
)  # fmt: skip
TCN = (
    "Affine Conv+ Conv+ Conv Add+ Conv+ Conv+ Add+ Conv+ Conv+ Conv Add+ Conv+ Conv+ Add+ "
    "AveragePool Reshape MaxPool Reshape Concat Gemm"
)
SHARED = {
    "kws": ({"model": KWS, "model_tflite_float": KWS}, {f"model_{m}": f"Reshape {KWS}" for m in ("nchw", "pt", "pt_opset18")}),
    "resnet8": ({"model": RESNET}, {f"model_{m}": sorted([*RESNET, "Transpose"]) for m in ("nchw", "pt", "pt_opset18")}),
    "ad01": (dict.fromkeys(("model", "model_pt", "model_pt_folded", "model_tflite_float"), AD01), {}),
    "digits_cnn": (dict.fromkeys(("model", "model_opset13_folded", "model_opset18_dynamo"), DIGITS), {}),
    "mobilenetv2": (dict.fromkeys(("model", "model_opset13_folded", "model_opset18_dynamo"), MOBILENET), {}),
    "tcn": (dict.fromkeys(("model", "model_opset13_folded", "model_opset18_dynamo"), TCN), {}),
}  # fmt: skip
FILES = [(folder, name, ops) for folder, (a, b) in SHARED.items() for name, ops in {**a, **b}.items()]


@pytest.mark.shared
@pytest.mark.parametrize(("folder", "name", "ops"), FILES, ids=[f"{f[0]}/{f[1]}" for f in FILES])
def test_every_export_of_a_network_is_the_same_ops(
    folder: str, name: str, ops: str | list[str], shared_models: Path
) -> None:
    """Every value whose name has survived equals that of onnxruntime."""
    path = shared_models / folder / f"{name}.onnx"
    proto = onnx.load(path)
    graph = canonicalize(load(path))
    found = sequence(graph)
    assert (sorted(found.split()) if isinstance(ops, list) else found) == ops
    assert not any(n.op == "Transpose" for n in graph.nodes[1:])
    samples = shared_samples(shared_models / folder, graph.values[graph.inputs[0]].shape)
    for sample in samples:
        expected = all_values(proto, {graph.inputs[0]: sample})
        assert compare(graph, {graph.inputs[0]: sample}, expected) >= 4


def shared_samples(folder: Path, shape: tuple[int, ...]) -> list[Array]:
    """Two samples, in the order of axes of the model."""
    data = np.load(folder / "data.npz")
    samples = data["test_x"][:2].astype(np.float32)
    if "x_scale" in data:
        samples = (samples - np.float32(data["x_zero"])) * np.float32(data["x_scale"])
    rows = [sample[np.newaxis] for sample in samples]
    return [row if row.shape == shape else row.transpose(0, 3, 1, 2) for row in rows]


@pytest.mark.shared
@pytest.mark.parametrize("folder", ["kws", "resnet8"])
def test_input_layout_nhwc_on_the_shared_models(folder: str, shared_models: Path) -> None:
    last = canonicalize(load(shared_models / folder / "model.onnx"))
    dropped = canonicalize(load(shared_models / folder / "model_nchw.onnx", input_layout="nhwc"))
    assert sequence(dropped) == sequence(last)
    assert dropped.values[dropped.inputs[0]].shape == last.values[last.inputs[0]].shape


def test_a_pass_rewrites_all_places_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of graphs that are made does not grow with the number of layers, so the time grows in proportion to them."""

    def made(layers: int) -> int:
        nodes = [
            one
            for i in range(layers)
            for one in (
                node("Conv", f"t{i} w" if i else "x w", f"c{i}", pads=[1] * 4),
                node("Relu", f"c{i}", f"t{i + 1}"),
            )
        ]
        (folder := tmp_path / str(layers)).mkdir()
        path = folder / "model.onnx"
        onnx.save(model(nodes, IMAGE, {"w": weights(3, 3, 3, 3)}, [f"t{layers}"]), path)
        graph, calls = load(path), [0]
        original = Graph.with_nodes

        def counted(self: Graph, *given: Any) -> Graph:
            calls[0] += 1
            return original(self, *given)

        with monkeypatch.context() as patch:
            patch.setattr(Graph, "with_nodes", counted)
            canonicalize(graph)
        return calls[0]

    assert made(4) == made(20)
