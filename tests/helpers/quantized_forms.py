"""The forms in which tools write a quantized model, each as small as it can be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto
from small_models import Inputs, model, node, weights

from glowembed.graph.ir import Array

IMAGE: Inputs = {"x": (1, 3, 8, 8)}
FLAT: Inputs = {"x": (1, 12)}

S8, U8 = np.int8(3), np.uint8(131)
SCALES: dict[str, Any] = {"s": 0.02, "t": 0.05, "u": 0.04, "z": S8, "o": np.int8(-10), "p": np.int8(20)}
RNG = np.random.default_rng(7)


def int8(*shape: int, low: int = -128) -> Array:
    return np.asarray(RNG.integers(low, 128, shape), dtype=np.int8)


def qdq(*body: onnx.NodeProto, last: str = "r") -> list[onnx.NodeProto]:
    """x to int8 and back to xd, the body, and `last` to int8 and back to y."""
    return [
        node("QuantizeLinear", "x s z", "xq"), node("DequantizeLinear", "xq s z", "xd"), *body,
        node("QuantizeLinear", f"{last} t o", "yq"), node("DequantizeLinear", "yq t o", "y"),
    ]  # fmt: skip


def nibbles(*shape: int, low: int = -8) -> Array:
    """Random numbers of four bits: int4, or uint4 where `low` is 0."""
    kind = ml_dtypes.int4 if low else ml_dtypes.uint4
    return np.asarray(np.random.default_rng(4).integers(low, low + 16, shape)).astype(kind)


CONV = {
    "w": int8(4, 3, 3, 3), "ws": 0.01, "wz": np.int8(0), "b": np.arange(-2000, 2000, 1000, dtype=np.int32),
    "bs": np.float32(0.02) * np.float32(0.01), "bz": np.int32(0),
}  # fmt: skip
PER_CHANNEL = CONV | {
    "ws": np.array([0.01, 0.02, 0.005, 0.001], np.float32), "wz": np.zeros(4, np.int8),
    "bs": np.float32(0.02) * np.array([0.01, 0.02, 0.005, 0.001], np.float32), "bz": np.zeros(4, np.int32),
}  # fmt: skip
UNSIGNED = {"s": 0.02, "t": 0.05, "z": U8, "o": np.uint8(118)}
WIDE_UNSIGNED = {"s": 0.0001, "t": 0.0005, "z": np.uint16(33000), "o": np.uint16(30000)}
WIDE_BIAS = {"bs": np.float32(0.0001) * np.float32(0.01)}
WEIGHTS = [node("DequantizeLinear", "w ws wz", "wd", axis=0), node("DequantizeLinear", "b bs bz", "bd", axis=0)]


@dataclass(frozen=True)
class Form:
    """Nodes from x to y; `same`: least share of outputs that equal onnxruntime's, less where two roundings are known."""

    name: str
    nodes: list[onnx.NodeProto]
    constants: Mapping[str, Any]
    inputs: Inputs | None = None
    opset: int = 17
    ops: str = ""
    same: float = 0.98

    def __str__(self) -> str:
        return self.name

    def proto(self) -> onnx.ModelProto:
        return model(self.nodes, self.inputs or IMAGE, self.constants, opset=self.opset)


FORMS = [
    Form("conv", qdq(*WEIGHTS, node("Conv", "xd wd bd", "r")), SCALES | CONV, ops="Conv"),
    Form("conv per channel", qdq(*WEIGHTS, node("Conv", "xd wd bd", "r")), SCALES | PER_CHANNEL, ops="Conv"),
    Form("conv with weights of -128 only", qdq(*WEIGHTS, node("Conv", "xd wd bd", "r")),
         SCALES | CONV | {"w": np.full((4, 3, 3, 3), -128, np.int8), "ws": 0.001}, ops="Conv"),
    Form("conv and relu", qdq(*WEIGHTS, node("Conv", "xd wd bd", "c"), node("Relu", "c", "r")), SCALES | PER_CHANNEL, ops="Conv"),
    Form("conv and clip", qdq(*WEIGHTS, node("Conv", "xd wd bd", "c"), node("Clip", "c lo hi", "r")),
         SCALES | PER_CHANNEL | {"lo": 0.0, "hi": 6.0}, ops="Conv"),
    Form("conv, relu and fewer bits, Brevitas", [
         *qdq(*WEIGHTS, node("Conv", "xd wd bd", "c"), node("Relu", "c", "r"))[:-1], node("Clip", "yq lowest highest", "yc"), node("DequantizeLinear", "yc t o", "y"),
         ], UNSIGNED | CONV | {"o": np.uint8(0), "t": 0.3, "lowest": np.uint8(0), "highest": np.uint8(15)}, ops="Conv"),
    Form("unsigned", qdq(*WEIGHTS, node("Conv", "xd wd bd", "r", pads=[1, 1, 1, 1])), UNSIGNED | CONV, ops="Conv"),
    Form("unsigned, 16 bits", qdq(*WEIGHTS, node("Conv", "xd wd bd", "r", pads=[1, 1, 1, 1])), WIDE_UNSIGNED | CONV | WIDE_BIAS, opset=21, ops="Conv"),
    Form("a matrix product of unsigned 16 bits", qdq(node("MatMul", "xd xd", "r")), WIDE_UNSIGNED, opset=21, ops="MatMul"),
    Form("no zero points: uint8 0", [
         node("QuantizeLinear", "x s", "xq"), node("DequantizeLinear", "xq s", "xd"), node("DequantizeLinear", "w ws", "wd"),
         node("Conv", "xd wd", "r"), node("QuantizeLinear", "r t", "yq"), node("DequantizeLinear", "yq t", "y")],
         UNSIGNED | CONV, ops="Conv"),
    Form("asymmetric uint8 weights", qdq(node("DequantizeLinear", "w ws wz", "wd"), node("Conv", "xd wd", "r")),
         SCALES | {"w": RNG.integers(0, 256, (4, 3, 3, 3)).astype(np.uint8), "ws": 0.01, "wz": np.uint8(90)}, ops="Conv"),
    Form("int4 weights", qdq(*WEIGHTS, node("Conv", "xd wd bd", "r")),
         SCALES | PER_CHANNEL | {"w": nibbles(4, 3, 3, 3), "wz": np.zeros(4, ml_dtypes.int4)}, opset=21, ops="Conv"),
    Form("uint4 weights around 8", qdq(node("DequantizeLinear", "w ws wz", "wd"), node("Conv", "xd wd", "r")),
         SCALES | {"w": nibbles(4, 3, 3, 3, low=0), "ws": 0.1, "wz": ml_dtypes.uint4(8)}, opset=21, ops="Conv"),
    Form("int4 weights in blocks", qdq(node("DequantizeLinear", "v vs", "vd", axis=0, block_size=5), node("MatMul", "xd vd", "r")),
         SCALES | {"v": nibbles(12, 4), "vs": np.linspace(0.02, 0.05, 12, dtype=np.float32).reshape(3, 4)}, FLAT, opset=21, ops="Gemm", same=0.7),
    Form("weights behind a transpose", qdq(
         node("DequantizeLinear", "v ws wz", "vd", axis=0), node("Transpose", "vd", "wd", perm=[1, 0]), node("MatMul", "xd wd", "r")),
         SCALES | {"v": int8(5, 12), "ws": np.linspace(0.01, 0.03, 5, dtype=np.float32), "wz": np.zeros(5, np.int8)}, FLAT, ops="Gemm"),
    Form("matmul, add, relu", qdq(
         node("DequantizeLinear", "v ws wz", "vd"), node("MatMul", "xd vd", "m"), node("DequantizeLinear", "b bs bz", "bd"),
         node("Add", "m bd", "a"), node("Relu", "a", "r")),
         SCALES | {"v": int8(12, 4), "ws": 0.01, "wz": np.int8(0), "b": CONV["b"], "bs": CONV["bs"], "bz": np.int32(0)}, FLAT, ops="Gemm"),
    Form("batch normalization between roundings", qdq(
         node("DequantizeLinear", "g gs gz", "gd"), node("BatchNormalization", "xd gd h m v", "r")),
         SCALES | {"g": int8(3), "gs": 0.02, "gz": np.int8(0), "h": weights(3), "m": weights(3, seed=2), "v": np.array([0.01, 1, 4], np.float32)},
         ops="Affine"),
    Form("add of two branches", [
         node("QuantizeLinear", "x s z", "xq"), node("DequantizeLinear", "xq s z", "xd"), node("Tanh", "xd", "h"),
         node("QuantizeLinear", "h u p", "hq"), node("DequantizeLinear", "hq u p", "hd"), node("Add", "xd hd", "r"),
         node("QuantizeLinear", "r t o", "yq"), node("DequantizeLinear", "yq t o", "y")], SCALES, ops="Tanh Add"),
    Form("add of halves", [
         node("QuantizeLinear", "x s z", "xq"), node("DequantizeLinear", "xq s z", "xd"), node("Add", "xd xd", "r"),
         node("QuantizeLinear", "r t z", "yq"), node("DequantizeLinear", "yq t z", "y")],
         {"s": 0.0625, "t": 0.5, "z": np.int8(0)}, ops="Add", same=1.0),
    Form("average of halves", [
         node("QuantizeLinear", "x s z", "xq"), node("DequantizeLinear", "xq s z", "xd"), node("AveragePool", "xd", "r", kernel_shape=[2, 3]),
         node("QuantizeLinear", "r s z", "yq"), node("DequantizeLinear", "yq s z", "y")], {"s": 0.0625, "z": np.int8(-3)}, ops="AveragePool"),
    Form("concat", [
         node("QuantizeLinear", "x s z", "xq"), node("DequantizeLinear", "xq s z", "xd"), node("Tanh", "xd", "h"),
         node("QuantizeLinear", "h u p", "hq"), node("DequantizeLinear", "hq u p", "hd"), node("Concat", "xd hd", "r", axis=1),
         node("QuantizeLinear", "r t o", "yq"), node("DequantizeLinear", "yq t o", "y")], SCALES, ops="Tanh Concat"),
    Form("max pool with one type all through", [
         node("QuantizeLinear", "x s z", "xq"), node("DequantizeLinear", "xq s z", "xd"),
         node("MaxPool", "xd", "r", kernel_shape=[2, 2]), node("QuantizeLinear", "r s z", "yq"), node("DequantizeLinear", "yq s z", "y")],
         SCALES, ops="MaxPool"),
    Form("max pool to another type", qdq(node("MaxPool", "xd", "r", kernel_shape=[2, 2])), SCALES, ops="MaxPool Rescale"),
    Form("average pool", qdq(node("AveragePool", "xd", "r", kernel_shape=[3, 3], pads=[1, 1, 1, 1])), SCALES, ops="AveragePool"),
    Form("softmax to 1/255", [
         node("QuantizeLinear", "x s z", "xq"), node("DequantizeLinear", "xq s z", "xd"), node("Softmax", "xd", "r"),
         node("QuantizeLinear", "r k l", "yq"), node("DequantizeLinear", "yq k l", "y")],
         SCALES | {"k": np.float32(1 / 255), "l": np.int8(-128)}, FLAT, ops="Softmax"),
    Form("softmax to a scale of its own", [
         node("QuantizeLinear", "x s z", "xq"), node("DequantizeLinear", "xq s z", "xd"), node("Softmax", "xd", "r"),
         node("QuantizeLinear", "r k l", "yq"), node("DequantizeLinear", "yq k l", "y")],
         SCALES | {"k": np.float32(0.0031), "l": np.int8(-100)}, FLAT, ops="Softmax"),
    Form("two types of one value", [
         node("QuantizeLinear", "x s z", "xq"), node("DequantizeLinear", "xq s z", "xd"), node("Tanh", "xd", "h"),
         node("QuantizeLinear", "h u p", "aq"), node("DequantizeLinear", "aq u p", "ad"),
         node("QuantizeLinear", "h s z", "bq"), node("DequantizeLinear", "bq s z", "bd"), node("Add", "ad bd", "r"),
         node("QuantizeLinear", "r t o", "yq"), node("DequantizeLinear", "yq t o", "y")], SCALES, ops="Tanh Tanh Add"),
    Form("two types behind what moves", [
         node("QuantizeLinear", "x s z", "xq"), node("DequantizeLinear", "xq s z", "xd"),
         *WEIGHTS, node("Conv", "xd wd bd", "h"), node("QuantizeLinear", "h big z", "aq"), node("DequantizeLinear", "aq big z", "ad"), node("Flatten", "ad", "af"),
         node("Flatten", "h", "m"), node("QuantizeLinear", "m s p", "bq"), node("DequantizeLinear", "bq s p", "md"),
         node("Add", "af md", "r"), node("QuantizeLinear", "r t o", "yq"), node("DequantizeLinear", "yq t o", "y")],
         SCALES | CONV | {"big": 0.2}, ops="Conv Conv Reshape Reshape Add", same=0.99),
    Form("rounded to one type, then to another", [
         node("QuantizeLinear", "x s z", "xq"), node("DequantizeLinear", "xq s z", "xd"), node("Tanh", "xd", "h"),
         node("QuantizeLinear", "h s z", "aq"), node("DequantizeLinear", "aq s z", "ad"),
         node("QuantizeLinear", "ad u p", "bq"), node("DequantizeLinear", "bq u p", "bd"), node("Add", "ad bd", "r"),
         node("QuantizeLinear", "r t o", "yq"), node("DequantizeLinear", "yq t o", "y")], SCALES, ops="Tanh Rescale Add"),
    Form("an input in two types", [
         node("QuantizeLinear", "x s z", "aq"), node("DequantizeLinear", "aq s z", "ad"), node("Tanh", "ad", "h"),
         node("QuantizeLinear", "h u p", "hq"), node("DequantizeLinear", "hq u p", "hd"),
         node("QuantizeLinear", "x t o", "bq"), node("DequantizeLinear", "bq t o", "bd"), node("Add", "hd bd", "r"),
         node("QuantizeLinear", "r t o", "yq"), node("DequantizeLinear", "yq t o", "y")], SCALES, ops="Quantize Tanh Quantize Add"),
    Form("integers are moved", [
         node("QuantizeLinear", "x s z", "xq"), node("Transpose", "xq", "m", perm=[0, 2, 3, 1]), node("Reshape", "m shape", "f"),
         node("DequantizeLinear", "f s z", "fd"), node("Tanh", "fd", "r"),
         node("QuantizeLinear", "r t o", "yq"), node("DequantizeLinear", "yq t o", "y")], SCALES | {"shape": [1, -1]}, ops="Tanh Reshape"),
    Form("integers are padded", [
         node("QuantizeLinear", "x s z", "xq"), node("Pad", "xq pads fill", "m"), node("DequantizeLinear", "m s z", "md"),
         node("Tanh", "md", "r"), node("QuantizeLinear", "r t o", "yq"), node("DequantizeLinear", "yq t o", "y")],
         SCALES | {"pads": [0, 0, 1, 0, 0, 0, 0, 2], "fill": np.int8(50)}, ops="PadValue Tanh"),
    Form("integers are resized", [
         node("QuantizeLinear", "x s z", "xq"), node("QLinearConv", "xq s z w ws wz t o b", "c"), node("Resize", "c none sizes", "r"),
         node("QLinearConv", "r t o v ws wz s z", "d"), node("DequantizeLinear", "d s z", "y")],
         SCALES | PER_CHANNEL | {"v": int8(4, 4, 1, 1), "none": np.zeros(0, np.float32), "sizes": np.array([1, 1, 2, 1.5], np.float32)},
         ops="Conv Resize Conv"),
    Form("integers of uint8 are resized", [
         node("QuantizeLinear", "x s z", "xq"), node("Resize", "xq none sizes", "r", coordinate_transformation_mode="asymmetric", nearest_mode="floor"),
         node("DequantizeLinear", "r s z", "y")],
         UNSIGNED | {"none": np.zeros(0, np.float32), "sizes": np.array([1, 1, 2, 0.5], np.float32)}, ops="Resize", same=1.0),
    Form("integers of uint8 are pooled", [
         node("QuantizeLinear", "x s z", "xq"), node("ReduceMax", "xq", "r", axes=[2, 3]), node("DequantizeLinear", "r s z", "y")],
         UNSIGNED, ops="MaxPool Reshape", same=1.0),
    Form("opset 10", qdq(node("DequantizeLinear", "w ws wz", "wd"), node("Conv", "xd wd", "r")), SCALES | CONV, opset=10, ops="Conv"),
    Form("opset 13", qdq(*WEIGHTS, node("Conv", "xd wd bd", "r")), SCALES | PER_CHANNEL, opset=13, ops="Conv"),
    Form("opset 19", qdq(*WEIGHTS, node("Conv", "xd wd bd", "r")), SCALES | PER_CHANNEL, opset=19, ops="Conv"),
    Form("opset 21", qdq(*WEIGHTS, node("Conv", "xd wd bd", "r")), SCALES | PER_CHANNEL, opset=21, ops="Conv"),
    Form("opset 21, dtype as an attribute", [
         node("QuantizeLinear", "x s", "xq", output_dtype=TensorProto.INT8), node("DequantizeLinear", "xq s", "xd"), node("Tanh", "xd", "r"),
         node("QuantizeLinear", "r t o", "yq"), node("DequantizeLinear", "yq t o", "y")], SCALES, opset=21, ops="Tanh"),
    Form("QLinearConv", [
         node("QuantizeLinear", "x s z", "xq"), node("QLinearConv", "xq s z w ws wz t o b", "yq", pads=[1, 1, 1, 1]),
         node("DequantizeLinear", "yq t o", "y")], SCALES | PER_CHANNEL, ops="Conv"),
    Form("QLinearConv of uint8", [
         node("QuantizeLinear", "x s z", "xq"), node("QLinearConv", "xq s z w ws wz t o", "yq"), node("DequantizeLinear", "yq t o", "y")],
         UNSIGNED | {"w": RNG.integers(0, 256, (4, 3, 3, 3)).astype(np.uint8), "ws": 0.01, "wz": np.uint8(128)}, ops="Conv"),
    Form("QLinearMatMul", [
         node("QuantizeLinear", "x s z", "xq"), node("QLinearMatMul", "xq s z w ws wz t o", "yq"), node("DequantizeLinear", "yq t o", "y")],
         SCALES | {"w": int8(12, 5), "ws": 0.01, "wz": np.int8(0)}, FLAT, ops="Gemm"),
    Form("MatMulInteger", [
         node("QuantizeLinear", "x s z", "xq"), node("MatMulInteger", "xq w z wz", "i"), node("Cast", "i", "f", to=1),
         node("Mul", "f k", "r"), node("QuantizeLinear", "r t o", "yq"), node("DequantizeLinear", "yq t o", "y")],
         SCALES | {"w": int8(12, 5), "k": 0.02 * 0.01, "wz": np.int8(0)}, FLAT, ops="Gemm"),
    Form("ConvInteger", [
         node("QuantizeLinear", "x s z", "xq"), node("ConvInteger", "xq w z", "i"), node("Cast", "i", "f", to=1),
         node("Mul", "f k", "r"), node("QuantizeLinear", "r t o", "yq"), node("DequantizeLinear", "yq t o", "y")],
         UNSIGNED | {"w": RNG.integers(0, 128, (4, 3, 3, 3)).astype(np.uint8), "k": 0.02 * 0.01}, ops="Conv"),
]  # fmt: skip
