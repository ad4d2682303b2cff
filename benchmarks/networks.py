"""Networks of given sizes with random weights, for benchmarks/planner.py. In: a name. Out: an ONNX model.

    chain_<N>, branches_<N>, dense_<N>   about N nodes: inverted residual blocks; blocks of three branches; dense blocks
    faces_slim, faces_rfb                face detectors for 240x320 with four heads, classes [1, 4420, 2] and boxes [1, 4420, 4]
    backbone_<H>x<W>                     a MobileNetV1 of a quarter of the width
    mobilenet_<SIZE>                     a MobileNetV2 of 0.35 of the width without residual sums, 3 x SIZE x SIZE
    unet_<H>x<W>                         four levels that halve the image, and four that double it
    three_<H>x<W>                        three convolutions
    audio_<SAMPLES>                      a convolution of 80 taps and stride 4, and four of 3 taps with pools
    maxpool_<ROWS>, points_<ROWS>, conv1d_<ROWS>   one layer, or three, on a long signal
    memory_<BYTES>                       two convolutions that need about so many bytes at once

The same name gives the same weights.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 17


class Net:
    """A model being made. `shape`: the channels, height and width of each value (or channels and length). gain: a factor of all
    weights, below 1 for long chains of residual sums, whose values would grow without bound.
    """

    def __init__(self, name: str, *shape: int, gain: float = 1.0) -> None:
        self.name, self.input, self.gain = name, shape, gain
        self.random = np.random.default_rng(zlib.crc32(name.encode()))
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.shape: dict[str, tuple[int, ...]] = {"x": shape}

    def constant(self, *shape: int) -> str:
        name, fan = f"w{len(self.constants)}", max(1, int(np.prod(shape[1:])))
        array = self.gain * self.random.normal(size=shape) / np.sqrt(fan)
        self.constants.append(numpy_helper.from_array(array.astype(np.float32), name))
        return name

    def numbers(self, *values: int) -> str:
        name = f"w{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(values, np.int64), name))
        return name

    def add(self, op: str, inputs: list[str], shape: tuple[int, ...], **attrs: Any) -> str:
        output = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [output], name=f"{op}{len(self.nodes)}", **attrs))
        self.shape[output] = shape
        return output

    def conv(self, x: str, out: int, taps: int = 3, stride: int = 1, depthwise: bool = False, dilation: int = 1) -> str:
        channels, *sizes = self.shape[x]
        weights = self.constant(out, 1 if depthwise else channels, *[taps] * len(sizes))
        pad = dilation * (taps - 1) // 2
        made = tuple((size + 2 * pad - dilation * (taps - 1) - 1) // stride + 1 for size in sizes)
        return self.add(
            "Conv", [x, weights], (out, *made), pads=[pad] * 2 * len(sizes), strides=[stride] * len(sizes),
            dilations=[dilation] * len(sizes), group=channels if depthwise else 1,
        )  # fmt: skip

    def relu(self, x: str) -> str:
        return self.add("Relu", [x], self.shape[x])

    def sum(self, a: str, b: str) -> str:
        return self.add("Add", [a, b], self.shape[a])

    def concat(self, names: list[str], axis: int = 1) -> str:
        joined = sum(self.shape[name][axis - 1] for name in names)
        shape = list(self.shape[names[0]])
        shape[axis - 1] = joined
        return self.add("Concat", names, tuple(shape), axis=axis)

    def pool(self, x: str, taps: int = 2, stride: int = 2) -> str:
        channels, *sizes = self.shape[x]
        made = tuple((size - taps) // stride + 1 for size in sizes)
        rank = len(sizes)
        return self.add("MaxPool", [x], (channels, *made), kernel_shape=[taps] * rank, strides=[stride] * rank)

    def mean(self, x: str) -> str:
        channels, *sizes = self.shape[x]
        return self.add("GlobalAveragePool", [x], (channels, *[1] * len(sizes)))

    def separable(self, x: str, out: int, stride: int = 1) -> str:
        narrow = self.relu(self.conv(x, self.shape[x][0], 3, stride, depthwise=True))
        return self.relu(self.conv(narrow, out, 1))

    def model(self, *outputs: str) -> onnx.ModelProto:
        made = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, *self.shape[n]]) for n in outputs]
        given = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, *self.input])]
        graph = helper.make_graph(self.nodes, self.name, given, made, self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)


def network(name: str) -> onnx.ModelProto:
    """The model of a name. Raises ValueError for a name that is not among those above."""
    for pattern, make in FAMILIES.items():
        if found := re.fullmatch(pattern, name):
            return make(name, *map(int, found.groups()))
    raise ValueError(f"{name!r} is no name of a network; benchmarks/networks.py lists them")


def _chain(name: str, count: int) -> onnx.ModelProto:
    net = Net(name, 8, 24, 24, gain=0.3)
    at = "x"
    while len(net.nodes) < count - 1:
        wide = net.relu(net.conv(at, 16, 1))
        deep = net.relu(net.conv(wide, 16, depthwise=True))
        at = net.sum(at, net.conv(deep, 8, 1))
    return net.model(net.mean(at))


def _branches(name: str, count: int) -> onnx.ModelProto:
    net = Net(name, 12, 24, 24, gain=0.3)
    at = "x"
    while len(net.nodes) < count - 1:
        first = net.relu(net.conv(at, 4, 1))
        second = net.relu(net.conv(net.relu(net.conv(at, 4, 1)), 4))
        third = net.conv(net.conv(net.conv(at, 4, 1), 4, depthwise=True), 4, depthwise=True, dilation=2)
        at = net.sum(at, net.concat([first, second, third]))
    return net.model(net.mean(at))


DENSE = 12
"""The number of layers of a dense block."""


def _dense(name: str, count: int) -> onnx.ModelProto:
    net = Net(name, 8, 16, 16, gain=0.3)
    at = "x"
    while len(net.nodes) < count - 1:
        parts = [at]
        for _ in range(DENSE):
            joined = net.concat(list(parts)) if len(parts) > 1 else at
            parts.append(net.relu(net.conv(joined, 4)))
        at = net.sum(at, net.conv(net.concat(parts), 8, 1))
    return net.model(net.mean(at))


def _rfb(net: Net, x: str) -> str:
    """A receptive field block: three branches with dilations, and the input beside their concat."""
    made = []
    for layers, dilation in ((1, 2), (1, 3), (2, 5)):
        at = net.conv(x, 8, 1)
        for _ in range(layers):
            at = net.relu(net.conv(at, 16))
        made.append(net.conv(at, 16, dilation=dilation))
    return net.relu(net.sum(net.conv(net.concat(made), 64, 1), net.conv(x, 64, 1)))


def _faces(name: str) -> onnx.ModelProto:
    net = Net(name, 3, 240, 320)
    at = net.relu(net.conv("x", 16, 3, 2))
    features = []
    layers = (
        (32, 1),
        (32, 2),
        (32, 1),
        (64, 2),
        (64, 1),
        (64, 1),
        (64, 1),
        (128, 2),
        (128, 1),
        (128, 1),
        (256, 2),
        (256, 1),
    )
    for number, (width, stride) in enumerate(layers):
        at = _rfb(net, at) if name.endswith("rfb") and number == 6 else net.separable(at, width, stride)
        if number in (6, 9, 11):
            features.append(at)
    features.append(net.separable(net.relu(net.conv(at, 64, 1)), 256, 2))
    classes = [_head(net, x, boxes, 2) for x, boxes in zip(features, (3, 2, 2, 3), strict=True)]
    places = [_head(net, x, boxes, 4) for x, boxes in zip(features, (3, 2, 2, 3), strict=True)]
    scores = net.concat(classes)
    return net.model(net.add("Softmax", [scores], net.shape[scores], axis=-1), net.concat(places))


def _head(net: Net, x: str, boxes: int, numbers: int) -> str:
    channels, height, width = net.shape[x]
    deep = net.relu(net.conv(x, channels, depthwise=True))
    made = net.conv(deep, boxes * numbers, 1)
    last = net.add("Transpose", [made], (height, width, boxes * numbers), perm=[0, 2, 3, 1])
    return net.add("Reshape", [last, net.numbers(1, -1, numbers)], (height * width * boxes, numbers))


def _backbone(name: str, height: int, width: int) -> onnx.ModelProto:
    net = Net(name, 3, height, width)
    at = net.relu(net.conv("x", 8, 3, 2))
    for out, stride in ((16, 1), (32, 2), (32, 1), (64, 2), (64, 1), (128, 2), *[(128, 1)] * 5, (256, 2), (256, 1)):
        at = net.separable(at, out, stride)
    return net.model(net.mean(at))


def _unet(name: str, height: int, width: int) -> onnx.ModelProto:
    net = Net(name, 3, height, width)
    at, kept = net.relu(net.conv("x", 4)), []
    for level in range(4):
        kept.append(at)
        at = net.relu(net.conv(at, 8 << level, 3, 2))
    for skip in reversed(kept):
        channels, *sizes = net.shape[skip]
        weights = net.constant(net.shape[at][0], channels, 2, 2)
        up = net.add("ConvTranspose", [at, weights], (channels, *sizes), strides=[2, 2])
        at = net.relu(net.conv(net.concat([skip, up]), channels))
    return net.model(net.conv(at, 1, 1))


WIDTH = 0.35
"""Of mobilenet_<SIZE>."""

MOBILENET = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
"""MobileNetV2 (arXiv 1801.04381, table 2): expansion, channels, blocks, stride of the first block."""


def _mobilenet(name: str, size: int) -> onnx.ModelProto:
    def scaled(channels: int) -> int:
        return max(8, int(WIDTH * channels + 4) // 8 * 8)

    net = Net(name, 3, size, size)
    at = net.relu(net.conv("x", scaled(32), 3, 2))
    for wider, channels, blocks, stride in MOBILENET:
        for block in range(blocks):
            wide = net.relu(net.conv(at, wider * net.shape[at][0], 1)) if wider > 1 else at
            deep = net.relu(net.conv(wide, net.shape[wide][0], 3, stride if block == 0 else 1, depthwise=True))
            at = net.conv(deep, scaled(channels), 1)
    return net.model(net.mean(net.relu(net.conv(at, scaled(1280), 1))))


def _three(name: str, height: int, width: int) -> onnx.ModelProto:
    net = Net(name, 3, height, width)
    return net.model(net.conv(net.relu(net.conv(net.relu(net.conv("x", 8)), 8)), 4))


def _audio(name: str, samples: int) -> onnx.ModelProto:
    net = Net(name, 1, samples)
    at = net.relu(net.conv("x", 8, 80, 4))
    for out in (8, 16, 16, 32):
        at = net.pool(net.relu(net.conv(at, out)), 4, 4)
    return net.model(net.mean(at))


def _maxpool(name: str, rows: int) -> onnx.ModelProto:
    net = Net(name, 1, rows)
    return net.model(net.pool("x", 3, 1))


def _points(name: str, rows: int) -> onnx.ModelProto:
    net = Net(name, 4, rows)
    turned = net.add("Transpose", [net.relu("x")], (rows, 4), perm=[0, 2, 1])
    return net.model(net.add("MatMul", [turned, net.constant(4, 4)], (rows, 4)))


def _conv1d(name: str, rows: int) -> onnx.ModelProto:
    net = Net(name, 4, rows)
    return net.model(net.conv(net.relu(net.conv("x", 4)), 4))


def _memory(name: str, size: int) -> onnx.ModelProto:
    """The input of each convolution is as large as its output, and both take `size` bytes together."""
    channels = 16
    side = int(np.sqrt(size / 2 / channels))
    net = Net(name, channels, side, side)
    return net.model(net.conv(net.conv("x", channels, 3), channels, 1))


FAMILIES: dict[str, Callable[..., onnx.ModelProto]] = {
    r"chain_(\d+)": _chain,
    r"branches_(\d+)": _branches,
    r"dense_(\d+)": _dense,
    r"faces_(?:slim|rfb)": _faces,
    r"backbone_(\d+)x(\d+)": _backbone,
    r"mobilenet_(\d+)": _mobilenet,
    r"unet_(\d+)x(\d+)": _unet,
    r"three_(\d+)x(\d+)": _three,
    r"audio_(\d+)": _audio,
    r"maxpool_(\d+)": _maxpool,
    r"points_(\d+)": _points,
    r"conv1d_(\d+)": _conv1d,
    r"memory_(\d+)": _memory,
}
