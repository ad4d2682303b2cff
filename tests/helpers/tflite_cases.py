"""Files with one quantized operator each, and the numbers with which they are run.

`record_tflm.py` beside this file runs them in TensorFlow Lite Micro; tests/read/test_tflite_bits.py has what came out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from tflite_files import Op, T, tflite_file

X, Y = (0.047, 3), (0.06, 5)
UNIT, ODDS, SIGNED = (6 / 255, -128), (1 / 256, -128), (1 / 128, 0)
"""Scales and zero points: of inputs, of outputs; from 0 to 6, from 0 to 1, from -1 to 1."""

SAMPLES = 2
IMAGE = (1, 4, 5, 6)


def numbers(shape: Sequence[int], low: int, high: int, seed: int = 0) -> np.ndarray:
    """Integers from low to high that look random and never change."""
    n = np.arange(prod(shape), dtype=np.uint64) + np.uint64(1 + 7919 * seed)
    mixed = (n * np.uint64(0x9E3779B97F4A7C15)) ^ ((n * np.uint64(0xD1B54A32D192ED03)) >> np.uint64(29))
    return (low + (mixed >> np.uint64(33)).astype(np.int64) % (high - low + 1)).reshape(shape)


def samples(shape: Sequence[int], dtype: str, seed: int) -> list[np.ndarray]:
    """Samples of an input over the whole range of its type."""
    if dtype == "bool":
        return [numbers(shape, 0, 1, 31 * i + seed).astype(bool) for i in range(SAMPLES)]
    info = np.iinfo(dtype)
    return [numbers(shape, info.min, info.max, 31 * i + seed).astype(dtype) for i in range(SAMPLES)]


def unary(kind: str, options: Op = (), x: Any = X, y: Any = Y, shape: tuple[int, ...] = IMAGE) -> bytes:
    return tflite_file([T("x", shape, "int8", *x), T("y", shape, "int8", *y)], [(kind, "x", "y", *options)], "x", "y")


def pair(
    kind: str, table: str = "", fused: int = 0, a: Any = X, b: Any = (0.03, -20), y: Any = Y,
    shapes: Sequence[tuple[int, ...]] = (IMAGE, IMAGE), constant: bool = False, out: str = "int8",
) -> bytes:  # fmt: skip
    """An operator with two operands, the second of which may be a constant."""
    options = [(table, {"FusedActivationFunction": fused} if fused else {})] if table else []
    data = numbers(shapes[1], -128, 127, 5) if constant else None
    result = T("y", shapes[0], out, *(y if out == "int8" else ()))
    tensors = [T("x", shapes[0], "int8", *a), T("z", shapes[1], "int8", *b, data=data), result]
    return tflite_file(tensors, [(kind, "x z", "y", *options)], "x" if constant else "x z", "y")


def reduced(kind: str, axes: Sequence[int], keep: bool, y: Any, shape: tuple[int, ...] = (1, 6, 5, 4)) -> bytes:
    out = tuple(1 if axis in axes else d for axis, d in enumerate(shape) if keep or axis not in axes)
    tensors = [T("x", shape, "int8", *X), T("a", (len(axes),), "int32", data=axes), T("y", out, "int8", *y)]
    return tflite_file(tensors, [(kind, "x a", "y", ("Reducer", {"KeepDims": keep}))], "x", "y")


def pooled(kind: str, size: int, stride: int, padding: int, fused: int = 0) -> bytes:
    shape = (1, 9, 8, 5)
    height, width = (-(-n // stride) if padding == 0 else (n - size) // stride + 1 for n in shape[1:3])
    options = {"Padding": padding, "StrideH": stride, "StrideW": stride, "FilterHeight": size, "FilterWidth": size}
    options |= {"FusedActivationFunction": fused}
    tensors = [T("x", shape, "int8", *X), T("y", (1, height, width, shape[3]), "int8", *X)]
    return tflite_file(tensors, [(kind, "x", "y", ("Pool2D", options))], "x", "y")


def resized(kind: str, size: tuple[int, int], option: str = "") -> bytes:
    table = {"RESIZE_BILINEAR": "ResizeBilinear", "RESIZE_NEAREST_NEIGHBOR": "ResizeNearestNeighbor"}[kind]
    tensors = [T("x", (1, 5, 6, 3), "int8", *X), T("s", (2,), "int32", data=size), T("y", (1, *size, 3), "int8", *X)]
    return tflite_file(tensors, [(kind, "x s", "y", (table, {option: True} if option else {}))], "x", "y")


LAYERS = {
    "CONV_2D": ("Conv2D", 0), "DEPTHWISE_CONV_2D": ("DepthwiseConv2D", 3), "FULLY_CONNECTED": ("FullyConnected", 0),
    "TRANSPOSE_CONV": ("TransposeConv", 0),
}  # fmt: skip
"""The table of options, and the axis of output channels in the weights."""


def layer(
    kind: str, x: tuple[int, ...], w: tuple[int, ...], y: tuple[int, ...], options: Mapping[str, Any] | None = None,
    per_channel: bool = True, weights: str = "int8", step: float = 0.02, out: Any = (0.11, -9),
) -> bytes:  # fmt: skip
    """A layer with weights and a bias."""
    table, axis = LAYERS[kind]
    scales = [step * (1 + 0.1 * i) for i in range(w[axis])] if per_channel else step
    low, high = (-7, 7) if weights == "int4" else (-127, 127)
    steps = np.float32(X[0]) * np.asarray(scales, np.float32)
    tensors = [
        T("x", x, "int8", *X),
        T("w", w, weights, scales, 0, axis, data=numbers(w, low, high, 2)),
        T("b", (y[-1],), "int32", steps.tolist(), data=numbers((y[-1],), -3000, 3000, 3)),
        T("y", y, "int8", *out),
    ]
    given = (
        {"Padding": 0, "StrideH": 1, "StrideW": 1, **(options or {})} if table != "FullyConnected" else options or {}
    )
    if kind == "TRANSPOSE_CONV":
        tensors.append(T("s", (4,), "int32", data=y))
    inputs = "s w x b" if kind == "TRANSPOSE_CONV" else "x w b"
    return tflite_file(tensors, [(kind, inputs, "y", (table, given))], "x", "y")


def moved(
    kind: str, y: Any, constants: Mapping[str, Any] = {}, options: Any = None, x: tuple[int, ...] = (1, 4, 6, 8), order: str = "",
    out: str = "int8",
) -> bytes:  # fmt: skip
    """An operator that moves elements; `y` is one shape or a list of them."""
    shapes = y if isinstance(y, list) else [y]
    names = [f"y{i}" for i in range(len(shapes))]
    tensors = [T("x", x, "int8", *X)]
    tensors += [T(name, np.shape(data), "int32", data=data) for name, data in constants.items()]
    tensors += [T(n, s, out, *(X if out == "int8" else ())) for n, s in zip(names, shapes, strict=True)]
    operator = (kind, order or " ".join(["x", *constants]), " ".join(names), *([options] if options else ()))
    return tflite_file(tensors, [operator], "x", " ".join(names))


def multiplied(shapes: Sequence[tuple[int, ...]], adjoint: bool = False, constant: bool = False) -> bytes:
    x, z, y = shapes
    data = numbers(z, -128, 127, 4) if constant else None
    tensors = [T("x", x, "int8", *X), T("z", z, "int8", 0.03, -7, data=data), T("y", y, "int8", 0.2, 4)]
    options = ("BatchMatMul", {"AdjY": adjoint})
    return tflite_file(tensors, [("BATCH_MATMUL", "x z", "y", options)], "x" if constant else "x z", "y")


def joined(kind: str, options: Any, x: tuple[int, ...], z: tuple[int, ...], y: tuple[int, ...]) -> bytes:
    tensors = [T("x", x, "int8", *X), T("z", z, "int8", *X), T("y", y, "int8", *X)]
    return tflite_file(tensors, [(kind, "x z", "y", options)], "x z", "y")


def selected() -> bytes:
    shape = (1, 4, 3)
    tensors = [T("c", shape, "bool"), *(T(n, shape, "int8", *X) for n in "xzy")]
    return tflite_file(tensors, [("SELECT_V2", "c x z", "y", ("SelectV2", {}))], "c x z", "y")


ROW, COLUMN = (1, 1, 1, 6), (1, 4, 1, 1)
SOFTMAX = (("Softmax", {"Beta": 1.0}),)


def functions() -> Iterator[tuple[str, bytes]]:
    yield "logistic", unary("LOGISTIC", y=ODDS)
    yield "logistic of a wide range", unary("LOGISTIC", x=(0.2, -5), y=ODDS)
    yield "tanh", unary("TANH", y=SIGNED)
    yield "tanh of a narrow range", unary("TANH", x=(0.011, 20), y=SIGNED)
    for name, x, y in (
        ("", X, Y),
        (" to fine steps", (0.09, -20), (0.05, -120)),
        (" to coarse steps", (0.02, -20), (0.11, -120)),
    ):
        yield f"hard swish{name}", unary("HARD_SWISH", x=x, y=y)
    yield "leaky relu", unary("LEAKY_RELU", [("LeakyRelu", {"Alpha": 0.2})])
    yield "leaky relu, halves", unary("LEAKY_RELU", [("LeakyRelu", {"Alpha": 0.5})], x=(0.05, 3), y=(0.05, 3))
    yield "relu", unary("RELU")
    yield "relu, halves", unary("RELU", x=(0.05, 3), y=(0.1, -128))
    yield "relu6", unary("RELU6", x=UNIT, y=UNIT)
    for name, y in (("", Y), (" by two", (0.094, 9)), (" by four", (0.188, 3)), (" of itself", X)):
        yield f"quantize{name}", unary("QUANTIZE", y=y)
    yield "elu", unary("ELU", y=(0.04, -90))
    yield "abs", unary("ABS", y=X)
    yield "softmax", unary("SOFTMAX", SOFTMAX, y=ODDS, shape=(1, 10))
    yield "softmax of rows", unary("SOFTMAX", SOFTMAX, x=(0.2, -5), y=ODDS, shape=(1, 5, 40))


def pairs() -> Iterator[tuple[str, bytes]]:
    for kind, table in (("ADD", "Add"), ("SUB", "Sub"), ("MUL", "Mul")):
        yield kind.lower(), pair(kind, table)
        yield f"{kind.lower()} relu", pair(kind, table, fused=1)
        yield f"{kind.lower()} relu6", pair(kind, table, fused=3, y=UNIT)
        yield f"{kind.lower()} row", pair(kind, table, shapes=(IMAGE, ROW))
        yield f"{kind.lower()} column", pair(kind, table, shapes=(IMAGE, COLUMN))
        for name, shape in (("row", ROW), ("scalar", ()), ("tensor", IMAGE)):
            yield f"{kind.lower()} constant {name}", pair(kind, table, shapes=(IMAGE, shape), constant=True)
    yield "add of one type", pair("ADD", "Add", a=SIGNED, b=SIGNED, y=SIGNED)
    yield "add of far scales", pair("ADD", "Add", a=(0.5, 3), b=(0.001, -4), y=(0.3, 9))
    yield "maximum", pair("MAXIMUM", "MaximumMinimum", b=X, y=X)
    yield "minimum", pair("MINIMUM", "MaximumMinimum", b=X, y=X)
    yield "maximum constant", pair("MAXIMUM", "MaximumMinimum", b=X, y=X, shapes=(IMAGE, ()), constant=True)


def windows() -> Iterator[tuple[str, bytes]]:
    yield "average, same", pooled("AVERAGE_POOL_2D", 3, 2, 0)
    yield "average, valid", pooled("AVERAGE_POOL_2D", 2, 2, 1)
    yield "average, relu", pooled("AVERAGE_POOL_2D", 3, 1, 0, 1)
    yield "maximum, same", pooled("MAX_POOL_2D", 3, 2, 0)
    yield "maximum, relu6", pooled("MAX_POOL_2D", 2, 2, 1, 3)
    for name, option in (("asymmetric", ""), ("half pixel", "HalfPixelCenters"), ("aligned", "AlignCorners")):
        for size in ((10, 12), (7, 9), (3, 4)):
            yield f"nearest, {name} {size}", resized("RESIZE_NEAREST_NEIGHBOR", size, option)
    yield "mean of an image", reduced("MEAN", (1, 2), False, (0.03, 1))
    yield "mean of an image, kept", reduced("MEAN", (1, 2), True, X)
    yield "mean of channels", reduced("MEAN", (3,), True, (0.04, 3))
    yield "mean of all", reduced("MEAN", (0, 1, 2, 3), False, (0.03, 1))
    yield "largest", reduced("REDUCE_MAX", (1, 2), False, X)
    yield "smallest", reduced("REDUCE_MIN", (3,), True, X)


def layers() -> Iterator[tuple[str, bytes]]:
    image, w, y = (1, 9, 8, 6), (5, 3, 3, 6), (1, 9, 8, 5)
    two = {"StrideH": 2, "StrideW": 2}
    yield "conv", layer("CONV_2D", image, w, y)
    yield "conv, one scale", layer("CONV_2D", image, w, y, per_channel=False)
    yield "conv, stride", layer("CONV_2D", image, w, (1, 5, 4, 5), two)
    yield "conv, valid, relu", layer("CONV_2D", image, w, (1, 7, 6, 5), {"Padding": 1, "FusedActivationFunction": 1})
    yield "conv, dilation", layer("CONV_2D", image, w, y, {"DilationHFactor": 2, "DilationWFactor": 2})
    yield "conv, 1x1", layer("CONV_2D", image, (5, 1, 1, 6), y)
    yield "conv, groups", layer("CONV_2D", image, (4, 3, 3, 3), (1, 9, 8, 4))
    yield "conv, fine steps", layer("CONV_2D", image, w, y, out=(0.0051, -9))
    yield "conv, int4", layer("CONV_2D", image, w, y, weights="int4", step=0.2)
    for name, filters, size, options in (
        ("", 6, (1, 9, 8, 6), {"DepthMultiplier": 1}),
        (", two filters", 12, (1, 5, 4, 12), {"DepthMultiplier": 2, "FusedActivationFunction": 3, **two}),
    ):
        yield f"depthwise{name}", layer("DEPTHWISE_CONV_2D", image, (1, 3, 3, filters), size, options)
    yield "fully connected", layer("FULLY_CONNECTED", (1, 40), (7, 40), (1, 7), per_channel=False)
    yield "fully connected, scales", layer("FULLY_CONNECTED", (1, 40), (7, 40), (1, 7))
    yield (
        "fully connected, rows",
        layer("FULLY_CONNECTED", (1, 6, 40), (7, 40), (1, 6, 7), {"KeepNumDims": True}, False),
    )
    yield "fully connected, image", layer("FULLY_CONNECTED", (1, 2, 5, 4), (7, 40), (1, 7), None, False)
    yield "fully connected, int4", layer("FULLY_CONNECTED", (1, 40), (7, 40), (1, 7), None, False, "int4", 0.3)
    small = (1, 5, 4, 6)
    yield "transposed", layer("TRANSPOSE_CONV", small, w, (1, 10, 8, 5), two)
    yield "transposed, valid", layer("TRANSPOSE_CONV", small, w, (1, 11, 9, 5), {"Padding": 1, **two})
    yield "product", multiplied(((1, 5, 7), (1, 7, 6), (1, 5, 6)))
    yield "product, adjoint", multiplied(((1, 2, 5, 7), (1, 2, 6, 7), (1, 2, 5, 6)), adjoint=True)
    yield "product, constant", multiplied(((1, 5, 7), (7, 6), (1, 5, 6)), constant=True)


def moves() -> Iterator[tuple[str, bytes]]:
    pads = [[0, 0], [1, 2], [0, 1], [0, 0]]
    yield "reshape", moved("RESHAPE", (1, 192), {"s": [1, 192]})
    yield "transpose", moved("TRANSPOSE", (1, 8, 4, 6), {"p": [0, 3, 1, 2]})
    yield "pad", moved("PAD", (1, 7, 7, 8), {"p": pads})
    yield "pad channels", moved("PAD", (1, 4, 6, 11), {"p": [[0, 0], [0, 0], [0, 0], [1, 2]]})
    yield "reflect", moved("MIRROR_PAD", (1, 7, 7, 8), {"p": pads}, ("MirrorPad", {"Mode": 0}))
    yield "mirror", moved("MIRROR_PAD", (1, 7, 7, 8), {"p": pads}, ("MirrorPad", {"Mode": 1}))
    yield "slice", moved("SLICE", (1, 2, 3, 8), {"b": [0, 1, 2, 0], "e": [1, 2, 3, -1]})
    masks = ("StridedSlice", {"BeginMask": 3, "EndMask": 7, "ShrinkAxisMask": 8})
    yield (
        "strided slice",
        moved("STRIDED_SLICE", (1, 2, 6), {"b": [0, 0, 0, -2], "e": [1, 4, 6, 0], "s": [1, 2, 1, 1]}, masks),
    )
    yield "split", moved("SPLIT", [(1, 4, 6, 4)] * 2, {"a": 3}, ("Split", {"NumSplits": 2}), order="a x")
    sizes = {"z": [2, -1], "a": 2}
    yield "split by sizes", moved("SPLIT_V", [(1, 4, 2, 8), (1, 4, 4, 8)], sizes, ("SplitV", {"NumSplits": 2}))
    yield "unpack", moved("UNPACK", [(1, 4, 8)] * 6, {}, ("Unpack", {"Num": 6, "Axis": 2}))
    yield "depth to space", moved("DEPTH_TO_SPACE", (1, 8, 12, 2), {}, ("DepthToSpace", {"BlockSize": 2}))
    yield "space to depth", moved("SPACE_TO_DEPTH", (1, 2, 3, 32), {}, ("SpaceToDepth", {"BlockSize": 2}))
    yield "gather", moved("GATHER", (1, 4, 3, 8), {"i": [5, 0, 2]}, ("Gather", {"Axis": 2}))
    yield "squeeze", moved("SQUEEZE", (4, 6, 8), {}, ("Squeeze", {"SqueezeDims": [0]}))
    yield "expand", moved("EXPAND_DIMS", (1, 1, 4, 6, 8), {"a": 1})
    yield "reverse", moved("REVERSE_V2", (1, 4, 6, 8), {"a": [2]})
    yield "argmax", moved("ARG_MAX", (1, 4, 6), {"a": 3}, ("ArgMax", {"OutputType": 2}), out="int32")
    yield "argmin", moved("ARG_MIN", (1, 4, 8), {"a": 2}, ("ArgMin", {"OutputType": 2}), out="int32")
    yield "concat", joined("CONCATENATION", ("Concatenation", {"Axis": -1}), (1, 4, 3), (1, 4, 5), (1, 4, 8))
    yield "pack", joined("PACK", ("Pack", {"ValuesCount": 2, "Axis": 2}), (1, 4, 3), (1, 4, 3), (1, 4, 2, 3))
    yield "select", selected()


def recurrent(
    steps: int, units: int, width: int, power: int = -11, hidden: Any = (1 / 128, 0), **options: float
) -> bytes:
    """A layer with a memory, whose weights have four scales each."""
    shape = (steps, 2) if options.get("TimeMajor") else (1, steps)
    x, sizes = (0.04, -7), [(units, width)] * 4 + [(units, units)] * 4
    weights = [
        T(f"w{i}", size, "int8", 0.006 + 0.002 * i, data=numbers(size, -127, 127, i)) for i, size in enumerate(sizes)
    ]
    biases = [
        T(
            f"b{i}",
            (units,),
            "int32",
            float(np.float32(x[0]) * np.float32(w.scale)),
            data=numbers((units,), -3000, 3000, 9 + i),
        )
        for i, w in enumerate(weights[:4])
    ]
    batch = shape[1] if options.get("TimeMajor") else shape[0]
    states = [
        T("h", (batch, units), "int8", *hidden, is_variable=True),
        T("c", (batch, units), "int16", 2.0**power, is_variable=True),
    ]
    tensors = [
        T("x", (*shape, width), "int8", *x),
        *weights,
        *biases,
        *states,
        T("y", (*shape, units), "int8", *hidden),
    ]
    between = [T(f"between{i}", (0,), "int8", *hidden) for i in range(5)]
    names = ["x", *(f"w{i}" for i in range(8)), *"---", *(f"b{i}" for i in range(4)), *"--", "h", "c", *"----"]
    table = (
        "UnidirectionalSequenceLSTM",
        {"FusedActivationFunction": 4, "Intermediates": [t.name for t in between], **options},
    )
    tensors += between
    return tflite_file(tensors, [("UNIDIRECTIONAL_SEQUENCE_LSTM", " ".join(names), "y", table)], "x", "y")


def memories() -> Iterator[tuple[str, bytes]]:
    yield "lstm", recurrent(9, 6, 5)
    yield "lstm, time first", recurrent(7, 5, 3, -12, (0.006, 9), TimeMajor=True)
    yield "lstm, one unit", recurrent(3, 1, 1, -15)
    yield "lstm, clip", recurrent(24, 9, 17, -9, (0.02, -20), CellClip=10.0)


def cases() -> dict[str, bytes]:
    """The bytes of every file by name."""
    made = [*functions(), *pairs(), *windows(), *layers(), *moves(), *memories()]
    assert len({name for name, _ in made}) == len(made)
    return dict(made)
