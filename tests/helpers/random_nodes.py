"""Random kernel-level nodes of every family. In: a random.Random. Out: a lowered Graph, mostly of one node.

Most are ONNX nodes with random shapes, attributes and ranges that went through quantize and lower, in any dtype and by any
requantization. Convolutions and fully connected layers come a second time with params of their own: weights that take
all of int8, sums that fill it, shifts that calibration never gives.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
from checker import Case, case, imported, one_node_model
from own_cases import own_cases

from glowembed.graph.ir import Array, Const, Graph, Node, QType, Value, verify
from glowembed.graph.op import LowerContext, in_mode
from glowembed.graph.registry import kernel_ops
from glowembed.law.fixedpoint import requant
from glowembed.law.modes import MODES
from glowembed.lower.nodes import lower
from glowembed.ops.conv import Conv2dParams
from glowembed.ops.gemm import FcParams
from glowembed.quantize.precision import Config, resolve
from glowembed.quantize.types import quantize

CHANNELS = (1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 20, 24, 31, 32, 33, 48, 64, 65)
SIDES = (1, 2, 3, 5, 8, 13)
UNARY = (
    "Relu", "LeakyRelu", "Abs", "Ceil", "Celu", "Elu", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish", "Mish", "Neg",
    "Round", "Selu", "Sigmoid", "Softplus", "Softsign", "Tanh", "ThresholdedRelu",
)  # fmt: skip
WEIGHTS_MAX = 6000
WEIGHTS_MANY = 80_000
"""The most weights of a node; only one in ten may have so many, so that the others stay quick."""


def requantization(chance: random.Random, out_c: int, reach: int) -> tuple[dict[str, int], dict[str, Array]]:
    """Params and constants with which outputs fill int8 and saturate now and then."""
    rng = _rng(chance)
    shift = chance.choice((32, 32, 32, 31, 29))
    scale = 2.0**shift * chance.choice((60, 128, 300)) / max(reach, 200)
    multiplier = np.clip(rng.uniform(0.5, 1.0, out_c) * scale, 1, 2**31 - 1).astype(np.int32)
    bias = rng.integers(-reach // 3 - 1, reach // 3 + 2, out_c).astype(np.int32)
    lo, hi = chance.choice(((-128, 127), (-128, 127), (-100, 90)))
    law = {"shift": shift, "out_zero_point": chance.randint(-128, 127), "lo": lo, "hi": hi}
    return law, {"bias": bias, "multiplier": multiplier}


def int8_weights(chance: random.Random, *shape: int) -> Array:
    """All of int8, or without -128, or small."""
    low, high = chance.choice(((-128, 127), (-127, 127), (-127, 127), (-20, 20)))
    return _rng(chance).integers(low, high + 1, shape).astype(np.int8)


def some_in_four_bits(op: str, constants: Mapping[str, Array]) -> tuple[str, Mapping[str, Array]]:
    """The op, or for one node in eight each its twins: weights of int4, and of sixteen numbers. No number is drawn for
    it.
    """
    weights = constants["weights"]
    part = int(weights.sum(dtype=np.int64)) % 8
    if part == 0:
        return f"{op}_w4", {**constants, "weights": weights.clip(-8, 7)}
    if part == 1:
        return f"{op}_wt", {**constants, "weights": (weights // 18 * np.int16(18)).clip(-128, 127).astype(np.int8)}
    return op, constants


def convolution(chance: random.Random, depthwise: bool) -> Graph:
    """Any window, stride, dilation, padding; groups, some of few channels, or channel multipliers."""
    (kh, kw), stride, dilation, pads, (h, w) = _window(chance)
    groups = 1 if chance.random() < 0.8 else chance.choice((2, 3, 5))
    in_c = chance.choice((*CHANNELS, *(kh, kw) * 3)) * (1 if depthwise else groups)
    out_c = in_c * chance.choice((1, 1, 1, 2, 3)) if depthwise else chance.choice(CHANNELS) * groups
    if groups == 5 and not depthwise:
        in_c, out_c = (groups * chance.choice((1, 2, 4, 8)) for _ in range(2))
    shape = (kh, kw, out_c) if depthwise else (out_c, kh, kw, in_c // groups)
    if prod(shape) > (WEIGHTS_MANY if chance.random() < 0.1 else WEIGHTS_MAX):
        return convolution(chance, depthwise)
    law, constants = requantization(chance, out_c, kh * kw * (1 if depthwise else in_c // groups) * 5000)
    out_h, out_w = ((n + 2 * p - (k - 1) * d - 1) // s + 1
                    for n, p, k, d, s in zip((h, w), pads, (kh, kw), dilation, stride, strict=True))  # fmt: skip
    p = Conv2dParams(
        h, w, in_c, out_h, out_w, out_c, kh, kw, *stride, *dilation, *pads, in_c if depthwise else groups,
        chance.randint(-128, 127), **law,
    )  # fmt: skip
    constants = {"weights": int8_weights(chance, *shape), **constants}
    op, constants = some_in_four_bits("depthwise_s8" if depthwise else "conv2d_s8", constants)
    return _in_any_law(chance, kernel_node(op, p, constants, (h, w, in_c), (out_h, out_w, out_c)))


def fully_connected(chance: random.Random) -> Graph:
    rows, in_c, out_c = chance.choice((1, 1, 2, 5)), chance.choice((*CHANNELS, 100, 257)), chance.choice(CHANNELS)
    law, constants = requantization(chance, out_c, in_c * 5000)
    op, constants = some_in_four_bits("fc_s8", {"weights": int8_weights(chance, out_c, in_c), **constants})
    return _in_any_law(
        chance, kernel_node(op, FcParams(rows, in_c, out_c, **law), constants, (rows, in_c), (rows, out_c))
    )


def _in_any_law(chance: random.Random, graph: Graph) -> Graph:
    """Now and then with the same scales in another law than the default one."""
    (node,), mode = graph.nodes, chance.choice(("default", *MODES))
    if mode == "default":
        return graph
    scales = node.constants["multiplier"].materialize() / 2.0**node.params.shift
    words = Const(np.asarray(requant(scales, mode).multiplier, np.int32))
    constants = {**node.constants, "multiplier": words}
    own = replace(node, op=in_mode(node.op, mode), params=replace(node.params, shift=0), constants=constants)
    return graph.with_nodes((own,))


def equal_numbers(n: int) -> tuple[Graph, ...]:
    """Layers with as many channels as taps, rows or columns: assembly for which a compiler may put two equal numbers
    in one register.
    """
    chance = random.Random(n)
    law, constants = requantization(chance, n, n * n * n * 1000)
    law, square, taps = {**law, "shift": 32}, (n, n, n), {"weights": int8_weights(chance, n, n, n).clip(-127)}
    deep = {"weights": int8_weights(chance, n, n, n, n).clip(-127)}
    flat = {"weights": int8_weights(chance, n, n).clip(-127)}
    p = Conv2dParams(n, n, n, 1, 1, n, n, n, 1, 1, 1, 1, 0, 0, 1, n, **law)
    return (
        kernel_node("conv2d_s8", p, {**deep, **constants}, square, (1, 1, n)),
        kernel_node("depthwise_s8", replace(p, groups=n), {**taps, **constants}, square, (1, 1, n)),
        kernel_node("fc_s8", FcParams(n, n, n, **law), {**flat, **constants}, (n, n), (n, n)),
    )


def kernel_node(
    op: str, p: Any, constants: Mapping[str, Array], x: tuple[int, ...], y: tuple[int, ...], dtype: str = "int8"
) -> Graph:
    qtype = QType(dtype, (1.0,), (0,))
    node = Node("node", op, ("x",), ("y",), params=p, constants={name: Const(a) for name, a in constants.items()})
    values = {"x": Value("x", x, qtype=qtype), "y": Value("y", y, qtype=qtype)}
    return Graph("random", (node,), values, ("x",), ("y",))


def _window(chance: random.Random) -> tuple[tuple[int, int], ...]:
    """Kernel, strides, dilations, padding above and to the left, and the size of an image that gives an output."""
    while True:
        kernel = chance.choice(((1, 1), (3, 3), (3, 3), (3, 3), (5, 5), (2, 3), (4, 1), (1, 5), (7, 7)))
        strides = chance.choice(((1, 1), (1, 1), (2, 2), (1, 2), (3, 2)))
        dilations = chance.choice(((1, 1), (1, 1), (2, 2), (3, 1)))
        size = chance.randint(1, 12), chance.choice(SIDES)
        pads = chance.randint(0, kernel[0] - 1), chance.randint(0, kernel[1] - 1)
        if all(n + 2 * p > (k - 1) * d for n, p, k, d in zip(size, pads, kernel, dilations, strict=True)):
            return kernel, strides, dilations, pads, size


def from_onnx(chance: random.Random, cases: Sequence[Callable[[random.Random], Case]]) -> Graph:
    """A random ONNX node, lowered; pools over a whole image now and then in the form that goes row by row."""
    model = chance.choice(cases)(chance)
    settings: dict[str, Any] = {"dtype": chance.choice(("int8",) * 6 + ("int16", "float32"))}
    if settings["dtype"] == "int16":
        settings["weights"] = chance.choice(("int8", "int16", "int16 exact"))
    if settings["dtype"] == "int8" and chance.random() < 0.2:
        settings["weights_schema"] = "asymmetric"
    graph = imported(one_node_model(model))
    even = chance.random() < 0.25  # scales that are powers of two: then outputs meet halves, and modes differ there
    mode = chance.choice(("onnx", "onnx", "tflite") if even else ("default", *MODES))
    graph = graph.with_nodes(replace(n, attrs={**n.attrs, **_law(chance, mode)}) for n in graph.nodes)
    ranges = {name: _even_range(chance) if even else _range(chance) for name in graph.values}
    found = typed_and_lowered(graph, settings, ranges)
    return by_rows(found) if chance.random() < 0.5 else found


def typed_and_lowered(graph: Graph, settings: Mapping[str, Any], ranges: Mapping[str, tuple[float, float]]) -> Graph:
    """Kernel-level nodes of ONNX nodes, with settings of a precision.yaml."""
    return verify(lower(quantize(graph, lambda name, _: ranges[name], resolve(graph, Config(settings)))))


def conversion(chance: random.Random) -> Graph:
    """Real numbers from one type to another."""
    dtypes = chance.choice((("int8", "int8"), ("int8", "int16"), ("int16", "int8"), ("int16", "int16"),
                            (None, "int8"), (None, "int16"), ("int8", None), ("int16", None)))  # fmt: skip
    shape = _image(chance)
    values = {name: Value(name, shape, qtype=_qtype(chance, dtype)) for name, dtype in zip("xy", dtypes, strict=True)}
    op = "Quantize" if dtypes[0] is None else "Dequantize" if dtypes[1] is None else "Rescale"
    return verify(lower(Graph("random", (Node("node", op, ("x",), ("y",)),), values, ("x",), ("y",))))


def _qtype(chance: random.Random, dtype: str | None) -> QType | None:
    zero_point = chance.randint(-128, 127) if dtype == "int8" else 0
    return None if dtype is None else QType(dtype, (2.0 ** chance.uniform(-8, 1),), (zero_point,))


def _law(chance: random.Random, mode: str) -> dict[str, Any]:
    clip = {"act_min": -0.4, "act_max": 0.9} if chance.random() < 0.3 else {}
    return {"requantization": mode, **clip}


def _range(chance: random.Random) -> tuple[float, float]:
    low, high = -chance.choice((0.0, 0.5, 1.0, 4.0)), chance.choice((0.25, 1.0, 6.0))
    return low * chance.uniform(0.3, 1.0), high * chance.uniform(0.3, 1.0)


def _even_range(chance: random.Random) -> tuple[float, float]:
    scale = chance.choice((1, 1, 2)) / 64
    return -128 * scale, 127 * scale


def by_rows(graph: Graph) -> Graph:
    """The graph with each node that needs a whole image replaced by one that takes it row by row, where there is one."""
    c = LowerContext(graph)
    for node in graph.nodes:
        if not kernel_ops()[node.op].by_rows(node, c):
            c.nodes.append(node)
    return graph.with_nodes(c.nodes, {**graph.values, **c.values})


def _image(chance: random.Random, channels: int | None = None) -> tuple[int, int, int, int]:
    return 1, channels or chance.choice(CHANNELS), chance.randint(1, 9), chance.choice(SIDES)


def _conv(chance: random.Random, op: str = "Conv") -> Case:
    kernel, strides, dilations, pads, size = _window(chance)
    groups = chance.choice((1, 1, 1, 2))
    in_c, out_c = (chance.choice(CHANNELS[:12]) * groups for _ in range(2))
    if op == "Conv" and chance.random() < 0.3:
        groups, out_c = in_c, in_c * (2 if in_c % 3 == 2 else 1)
    shape = (out_c, in_c // groups, *kernel) if op == "Conv" else (in_c, out_c // groups, *kernel)
    attrs = {"strides": strides, "dilations": dilations, "pads": [*pads, *pads], "group": groups}
    full = [(n - 1) * s + (k - 1) * d + 1 - 2 * p
            for n, s, k, d, p in zip(size, strides, kernel, dilations, pads, strict=True)]  # fmt: skip
    if prod(shape) > WEIGHTS_MAX or (op == "ConvTranspose" and min(full) < 1):
        return _conv(chance, op)
    return case("node", op, (1, in_c, *size), _floats(chance, *shape), _floats(chance, out_c), **attrs)


def _deep(chance: random.Random) -> Case:
    """3x3 with whole vectors of channels, for which there are kernels in every law."""
    in_c, out_c, size = (
        chance.choice((16, 32, 48)),
        chance.choice((4, 8, 9)),
        (chance.randint(1, 5), chance.randint(3, 8)),
    )
    return case(
        "node", "Conv", (1, in_c, *size), _floats(chance, out_c, in_c, 3, 3), _floats(chance, out_c), pads=[1] * 4
    )


def _gemm(chance: random.Random) -> Case:
    rows, in_c, out_c = chance.choice((1, 1, 3)), chance.choice(CHANNELS), chance.choice(CHANNELS)
    return case("node", "Gemm", (rows, in_c), _floats(chance, in_c, out_c), _floats(chance, out_c))


def _pair(chance: random.Random) -> Case:
    shape = _image(chance)
    other = shape if chance.random() < 0.5 else tuple(n if chance.random() < 0.6 else 1 for n in shape)
    second = _floats(chance, *other) if chance.random() < 0.2 else other
    return case("node", chance.choice(("Add", "Sub", "Mul")), *chance.sample((shape, second), 2))


def _pool(chance: random.Random) -> Case:
    op = chance.choice(("MaxPool", "AveragePool"))
    if chance.random() < 0.4:
        return case("node", f"Global{op}", _image(chance))
    kernel, strides, dilations, pads, size = _window(chance)
    extra = {"count_include_pad": chance.randint(0, 1)} if op == "AveragePool" else {"dilations": dilations}
    if any(n + 2 * p < k for n, p, k in zip(size, pads, kernel, strict=True)):
        return _pool(chance)
    pads = tuple(min(p, k // 2) for p, k in zip(pads, kernel, strict=True))
    spread = dilations if op == "MaxPool" else (1, 1)
    if not all(_sees(*axis) for axis in zip(size, kernel, strides, spread, pads, strict=True)):
        return _pool(chance)
    shape = (1, chance.choice(CHANNELS), *size)
    return case("node", op, shape, kernel_shape=kernel, strides=strides, pads=[*pads, *pads], **extra)


def _sees(n: int, kernel: int, stride: int, dilation: int, pad: int) -> bool:
    """Whether there are windows along an axis and each has a tap on the image: others have no maximum, and are refused."""
    firsts = range(-pad, n + pad - (kernel - 1) * dilation, stride)
    return bool(firsts) and all(any(0 <= i + k * dilation < n for k in range(kernel)) for i in firsts)


def _unary(chance: random.Random) -> Case:
    return case("node", chance.choice(UNARY), _image(chance), opset=20)


def _softmax(chance: random.Random) -> Case:
    return case("node", "Softmax", (chance.choice((1, 1, 3)), chance.choice((2, 3, 7, 10, 12, 33, 300))), axis=-1)


def _affine(chance: random.Random) -> Case:
    shape = _image(chance)
    scale, shift, mean = (_floats(chance, shape[1]) for _ in range(3))
    return case("node", "BatchNormalization", shape, scale, shift, mean, np.abs(_floats(chance, shape[1])) + 0.5)


def _concat(chance: random.Random) -> Case:
    shape, axis = _image(chance), chance.randint(1, 3)
    parts = []
    for _ in range(chance.choice((2, 2, 3))):
        part = tuple(chance.choice(CHANNELS[:8]) if i == axis else n for i, n in enumerate(shape))
        parts.append(_floats(chance, *part) if parts and chance.random() < 0.2 else part)
    return case("node", "Concat", *parts, axis=axis)


def _move(chance: random.Random) -> Case:
    shape, axis = _image(chance), chance.randint(1, 3)
    kind = chance.choice(("Transpose", "Slice", "Pad"))
    if kind == "Transpose":
        return case("node", kind, shape, perm=[0, *chance.sample((1, 2, 3), 3)])
    if kind == "Pad":
        pads = [0, *(chance.randint(0, 2) for _ in range(3)), 0, *(chance.randint(0, 2) for _ in range(3))]
        return case("node", kind, shape, np.asarray(pads, np.int64), np.float32(0.1))
    start, step = chance.randrange(shape[axis]), chance.choice((1, 1, 2, -1))
    end = shape[axis] if step > 0 else -shape[axis] - 1
    words = (np.asarray([n], np.int64) for n in (start, end, axis, step))
    return case("node", kind, shape, *words)


def _floats(chance: random.Random, *shape: int) -> Array:
    return (_rng(chance).normal(size=shape) * 0.5).astype(np.float32)


def _rng(chance: random.Random) -> np.random.Generator:
    return np.random.default_rng(chance.randrange(1 << 30))


CASES: tuple[Callable[[random.Random], Case], ...] = (
    _conv, lambda chance: _conv(chance, "ConvTranspose"), _gemm, _pair, _pair, _pool, _pool, _unary, _softmax, _affine,
    _concat, _move, *own_cases("random_case"),
)  # fmt: skip

FAMILIES: tuple[Callable[[random.Random], Graph], ...] = (
    lambda chance: convolution(chance, depthwise=False), lambda chance: from_onnx(chance, CASES),
    lambda chance: convolution(chance, depthwise=True), lambda chance: from_onnx(chance, CASES),
    fully_connected, lambda chance: from_onnx(chance, CASES),
    lambda chance: chance.choice((conversion, conversion, *own_cases("random_graph")))(chance),
)  # fmt: skip

DEEP = 10
"""One graph of so many is a deep convolution."""


def lowered(seed: int, number: int) -> Graph:
    """Graph `number` of the sequence of a seed."""
    chance = random.Random(f"{seed} {number}")
    return from_onnx(chance, (_deep,)) if number % DEEP == DEEP - 1 else FAMILIES[number % len(FAMILIES)](chance)
