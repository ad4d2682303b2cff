"""Networks of one layer, made from a name. In: `conv3x3s2_96x96x3_8`. Out: an ONNX model and samples, on disk.

    conv<KH>x<KW>[s<STRIDE>][d<DILATION>][g<GROUPS>]_<H>x<W>x<C>_<O>    convolution, SAME padding as TFLite has it
    pw[s<STRIDE>]_<H>x<W>x<C>_<O>                            the same with one tap
    dw<KH>x<KW>[s<STRIDE>][d<DILATION>]_<H>x<W>x<C>          depthwise
    fc_<I>x<O>                                               matrix times vector
    add_<N>, mul_<N>                                         sum, product of two tensors of [N / 512, 512]
    add_<H>x<W>x<C>, mul_<H>x<W>x<C>                         sum, product with one number for each channel
    concat_<H>x<W>x<C>                                       two tensors, channels of the one behind those of the other
    affine_<H>x<W>x<C>                                       a batch normalization that stands by itself
    maxpool<K>x<K>_<H>x<W>x<C>, avgpool..., avgpool_<H>x<W>x<C>_global
    softmax_<N>, softmax_<ROWS>x<N>
    sigmoid_<N>                                              a table
    transpose_<H>x<W>x<C>                                    channels first becomes channels last
    lstm_<I>x<UNITS>x<STEPS>, gru_<I>x<UNITS>x<STEPS>        a recurrent layer of one direction, as torch exports it
    matmul_<M>x<K>x<N>, matmult_<M>x<K>x<N>                  two computed matrices, the second one turned with matmult

Inputs and outputs are NHWC. Weights and samples are random, always the same for one name.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable
from math import prod
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

Array = NDArray[np.float32]
SAMPLES = 16
OPSET = 13

CONV = re.compile(r"(conv|dw|pw)(?:(\d+)x(\d+))?(?:s(\d+))?(?:d(\d+))?(?:g(\d+))?_(\d+)x(\d+)x(\d+)(?:_(\d+))?")
FC = re.compile(r"fc_(\d+)x(\d+)")
ADD = re.compile(r"(add|mul)_(\d+)")
CHANNELS = re.compile(r"(add|mul|concat|affine|transpose)_(\d+)x(\d+)x(\d+)")
POOL = re.compile(r"(max|avg)pool(?:(\d)x\d)?_(\d+)x(\d+)x(\d+)(?:_global)?")
SOFTMAX = re.compile(r"softmax_(?:(\d+)x)?(\d+)")
TABLE = re.compile(r"sigmoid_(\d+)")
RECURRENT = re.compile(r"(lstm|gru)_(\d+)x(\d+)x(\d+)")
MATMUL = re.compile(r"(matmult?)_(\d+)x(\d+)x(\d+)")
ADD_ROW = 512
CONCAT = "concat"

OWN = (
    "mul_16384", "mul_16x16x96", "add_16x16x96", "concat_16x16x32", "affine_32x32x16", "sigmoid_16384", "softmax_100x12",
    "transpose_32x32x3", "transpose_16x16x32", "maxpool3x3_32x32x6", "lstm_40x64x8", "gru_40x64x8",
    "matmult_64x64x64", "matmul_64x64x64",
)  # fmt: skip
"""Layers for which no peer's figures are recorded."""


class Net:
    """Nodes and constants of a model being made."""

    def __init__(self, name: str, *inputs: tuple[int, ...]) -> None:
        self.name, self.inputs = name, inputs
        self.random = np.random.default_rng(zlib.crc32(name.encode()))
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def constant(self, *shape: int) -> str:
        name = f"w{len(self.constants)}"
        array = self.random.uniform(-1, 1, shape).astype(np.float32)
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def add(self, op: str, *inputs: str, **attrs: object) -> str:
        output = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [output], name=f"{op}{len(self.nodes)}", **attrs))
        return output

    def model(self, output: str) -> onnx.ModelProto:
        last = helper.make_tensor_value_info(output, TensorProto.FLOAT, None)
        infos = [helper.make_tensor_value_info(f"x{i}", TensorProto.FLOAT, s) for i, s in enumerate(self.inputs)]
        graph = helper.make_graph(self.nodes, "layer", infos, [last], self.constants)
        return onnx.shape_inference.infer_shapes(
            helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
        )

    def samples(self) -> dict[str, Array]:
        names = ["x"] if len(self.inputs) == 1 else [f"x{i}" for i in range(len(self.inputs))]
        shapes = dict(zip(names, self.inputs, strict=True))
        arrays = {n: self.random.standard_normal((SAMPLES, *s[1:])).astype(np.float32) for n, s in shapes.items()}
        return {f"{part}_{name}": array for name, array in arrays.items() for part in ("calib", "test")}


def write(name: str, folder: Path) -> tuple[Path, Path]:
    """The files of the network of this name: model.onnx and data.npz. Raises ValueError for a name of no form."""
    net, output = _net(name)
    folder.mkdir(parents=True, exist_ok=True)
    model, data = folder / "model.onnx", folder / "data.npz"
    onnx.save(net.model(output), str(model))
    np.savez(data, **net.samples())
    return model, data


def elements(name: str) -> int:
    """The elements of the first input, for layers whose work is not multiplications; those of both in a
    concatenation.
    """
    inputs = _net(name)[0].inputs
    return sum(map(prod, inputs)) if CONCAT in name else prod(inputs[0])


def _net(name: str) -> tuple[Net, str]:
    forms: list[tuple[re.Pattern[str], Callable[[str, re.Match[str]], tuple[Net, str]]]] = [
        (CONV, _conv),
        (FC, _fc),
        (ADD, _add),
        (CHANNELS, _channels),
        (POOL, _pool),
        (SOFTMAX, _softmax),
        (TABLE, _table),
        (RECURRENT, _recurrent),
        (MATMUL, _matmul),
    ]
    for form, make in forms:
        match = form.fullmatch(name)
        if match is not None:
            return make(name, match)
    raise ValueError(f"no such form of a layer: {name!r}; see the head of benchmarks/shapes.py")


def same(size: int, taps: int, stride: int, dilation: int) -> tuple[int, int]:
    """Padding before and after as TFLite's SAME."""
    total = max(0, (-(-size // stride) - 1) * stride + (taps - 1) * dilation + 1 - size)
    return total // 2, total - total // 2


def _conv(name: str, match: re.Match[str]) -> tuple[Net, str]:
    kind = match[1]
    kh, kw, stride, dilation, groups = (int(n or 1) for n in match.groups()[1:6])
    h, w, c = (int(n) for n in match.groups()[6:9])
    outputs, groups = (c, c) if kind == "dw" else (int(match[10]), groups)
    net = Net(name, (1, h, w, c))
    (top, bottom), (left, right) = same(h, kh, stride, dilation), same(w, kw, stride, dilation)
    weights = net.constant(outputs, c // groups, kh, kw)
    y = net.add(
        "Conv", net.add("Transpose", "x0", perm=[0, 3, 1, 2]), weights, net.constant(outputs),
        kernel_shape=[kh, kw], strides=[stride] * 2, dilations=[dilation] * 2, pads=[top, left, bottom, right],
        group=groups,
    )  # fmt: skip
    return net, net.add("Transpose", y, perm=[0, 2, 3, 1])


def _fc(name: str, match: re.Match[str]) -> tuple[Net, str]:
    inputs, outputs = int(match[1]), int(match[2])
    net = Net(name, (1, inputs))
    return net, net.add("Gemm", "x0", net.constant(outputs, inputs), net.constant(outputs), transB=1)


def _add(name: str, match: re.Match[str]) -> tuple[Net, str]:
    shape = (1, int(match[2]) // ADD_ROW, ADD_ROW)
    net = Net(name, shape, shape)
    return net, net.add(match[1].capitalize(), "x0", "x1")


def _channels(name: str, match: re.Match[str]) -> tuple[Net, str]:
    h, w, c = (int(n) for n in match.groups()[1:])
    if match[1] == "transpose":
        net = Net(name, (1, c, h, w))
        return net, net.add("Transpose", "x0", perm=[0, 2, 3, 1])
    if match[1] == CONCAT:
        net = Net(name, (1, h, w, c), (1, h, w, c))
        return net, net.add("Concat", "x0", "x1", axis=-1)
    if match[1] in ("add", "mul"):
        net = Net(name, (1, h, w, c), (1, 1, 1, c))
        return net, net.add(match[1].capitalize(), "x0", "x1")
    net = Net(name, (1, h, w, c))
    x = net.add("Transpose", "x0", perm=[0, 3, 1, 2])
    gamma, beta, mean = (net.constant(c) for _ in range(3))
    variance = net.add("Abs", net.constant(c))
    y = net.add("BatchNormalization", x, gamma, beta, mean, variance, epsilon=0.1)
    return net, net.add("Transpose", y, perm=[0, 2, 3, 1])


def _pool(name: str, match: re.Match[str]) -> tuple[Net, str]:
    size, (h, w, c) = int(match[2] or 0), (int(n) for n in match.groups()[2:5])
    net = Net(name, (1, h, w, c))
    x = net.add("Transpose", "x0", perm=[0, 3, 1, 2])
    op = "MaxPool" if match[1] == "max" else "AveragePool"
    y = net.add(op, x, kernel_shape=[size] * 2, strides=[size] * 2) if size else net.add("GlobalAveragePool", x)
    return net, net.add("Transpose", y, perm=[0, 2, 3, 1])


def _softmax(name: str, match: re.Match[str]) -> tuple[Net, str]:
    rows, n = int(match[1] or 1), int(match[2])
    net = Net(name, (rows, n) if rows == 1 else (1, rows, n))
    return net, net.add("Softmax", "x0", axis=-1)


def _table(name: str, match: re.Match[str]) -> tuple[Net, str]:
    net = Net(name, (1, int(match[1]) // ADD_ROW, ADD_ROW))
    return net, net.add("Sigmoid", "x0")


def _recurrent(name: str, match: re.Match[str]) -> tuple[Net, str]:
    features, units, steps = (int(n) for n in match.groups()[1:])
    rows = (4 if match[1] == "lstm" else 3) * units
    net = Net(name, (1, steps, features))
    x = net.add("Transpose", "x0", perm=[1, 0, 2])
    weights = [net.constant(1, rows, size) for size in (features, units)]
    more = {} if match[1] == "lstm" else {"linear_before_reset": 1}
    y = net.add(match[1].upper(), x, *weights, net.constant(1, 2 * rows), hidden_size=units, **more)
    return net, net.add("Transpose", y, perm=[2, 0, 1, 3])


def _matmul(name: str, match: re.Match[str]) -> tuple[Net, str]:
    m, k, n = (int(size) for size in match.groups()[1:])
    turned = match[1] == "matmult"
    net = Net(name, (1, m, k), (1, n, k) if turned else (1, k, n))
    second = net.add("Transpose", "x1", perm=[0, 2, 1]) if turned else "x1"
    return net, net.add("MatMul", "x0", second)
