"""Translates functions of one, two and three numbers, and type conversions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from onnx import TensorProto, helper

from glowembed.graph.op import Refused
from glowembed.read.tflite.translate import Call

Handler = Callable[[Call], None]


def same(kind: str) -> Handler:
    """A handler for an operator that ONNX also has, with the same inputs."""

    def translate(c: Call) -> None:
        c.done(kind, c.reals())

    return translate


def _relu(low: float | None, high: float | None) -> Handler:
    def translate(c: Call) -> None:
        limits = [c.constant("limit", n, "float32") if n is not None else "" for n in (low, high)]
        c.done("Clip", [c.real(0), *(limits if limits[1] else limits[:1])])

    return translate


def softmax(c: Call) -> None:
    beta, x = c.option("Beta", 1.0), c.real(0)
    if beta != 1.0:
        x = c.add("Mul", [x, c.constant("beta", beta, "float32")], "scaled")
    c.done("Softmax", [x], axis=-1)


def log_softmax(c: Call) -> None:
    c.done("LogSoftmax", [c.real(0)], axis=-1)


def leaky_relu(c: Call) -> None:
    c.done("LeakyRelu", [c.real(0)], alpha=float(c.option("Alpha")))


def gelu(c: Call) -> None:
    c.done("Gelu", [c.real(0)], approximate="tanh" if c.option("Approximate") else "none")


def square(c: Call) -> None:
    c.done("Mul", [c.real(0), c.real(0)])


def rsqrt(c: Call) -> None:
    c.done("Reciprocal", [c.add("Sqrt", [c.real(0)], "root")])


def squared_difference(c: Call) -> None:
    difference = c.add("Sub", c.reals(), "difference")
    c.done("Mul", [difference, difference])


def l2_normalization(c: Call) -> None:
    c.done("LpNormalization", [c.real(0)], axis=-1, p=2)


def floor_div(c: Call) -> None:
    if c.output().dtype == "float32":
        c.done("Floor", [c.add("Div", c.reals(), "quotient")])
        return
    remainder = c.add("Mod", c.reals(), "remainder")
    c.done("Div", [c.add("Sub", [c.real(0), remainder], "whole"), c.real(1)])


def floor_mod(c: Call) -> None:
    """The remainder of a division; it has the sign of the divisor."""
    if c.output().dtype != "float32":
        c.done("Mod", c.reals())
        return
    whole = c.add("Floor", [c.add("Div", c.reals(), "quotient")], "whole")
    c.done("Sub", [c.real(0), c.add("Mul", [whole, c.real(1)], "multiple")])


def not_equal(c: Call) -> None:
    c.done("Not", [c.add("Equal", c.reals(), "equal")])


def add_n(c: Call) -> None:
    c.done("Sum", c.reals())


def zeros_like(c: Call) -> None:
    shape = c.shape(0)
    zeros = c.constant("zeros", np.zeros(shape), c.output().dtype)
    c.done("Identity", [zeros])


def quantize(c: Call) -> None:
    """Quantize real numbers, or requantize integers to another scale."""
    c.done("Identity", [c.real(0)])


def dequantize(c: Call) -> None:
    """The real numbers of a tensor, or a constant as it is stored: converters keep weights in float16, int8 or a sparse
    form like this.
    """
    if not c.t.alias(c.operator.outputs[0], c.index(0)):
        quantize(c)


def cast(c: Call) -> None:
    if c.t.is_quantized(c.index(0)) or c.is_quantized:
        raise Refused("a cast of quantized numbers", "use QUANTIZE and DEQUANTIZE")
    source, target = c.tensor(0).dtype, c.output().dtype
    if "complex" in source + target:
        raise Refused(f"a cast from {source} to {target}", "numbers must be real")
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(target))
    c.done("Cast", [c.t.stored(c.index(0))], to=kind)


def fill(c: Call) -> None:
    shape = c.constant("shape", c.output().shape)
    c.done("Expand", [c.real(1), shape])


def shape_of(c: Call) -> None:
    """The shape of a tensor, which is known before the model runs."""
    found = c.add("Shape", [c.t.stored(c.index(0))], "shape")
    c.done("Cast", [found], to=TensorProto.INT32 if c.output().dtype == "int32" else TensorProto.INT64)


def prelu(c: Call) -> None:
    """PRelu with a slope for each element of the last axes."""
    c.done("PRelu", c.reals())


OPERATORS: dict[str, Handler] = {
    "ABS": same("Abs"), "ADD": same("Add"), "ADD_N": add_n, "CAST": cast, "CEIL": same("Ceil"), "COS": same("Cos"),
    "DENSIFY": dequantize, "DEQUANTIZE": dequantize, "DIV": same("Div"), "ELU": same("Elu"), "EQUAL": same("Equal"), "EXP": same("Exp"), "FILL": fill,
    "FLOOR": same("Floor"), "FLOOR_DIV": floor_div, "FLOOR_MOD": floor_mod, "GELU": gelu, "GREATER": same("Greater"),
    "GREATER_EQUAL": same("GreaterOrEqual"), "HARD_SWISH": same("HardSwish"), "L2_NORMALIZATION": l2_normalization,
    "LEAKY_RELU": leaky_relu, "LESS": same("Less"), "LESS_EQUAL": same("LessOrEqual"), "LOG": same("Log"),
    "LOGICAL_AND": same("And"), "LOGICAL_NOT": same("Not"), "LOGICAL_OR": same("Or"), "LOGISTIC": same("Sigmoid"),
    "LOG_SOFTMAX": log_softmax, "MAXIMUM": same("Max"), "MINIMUM": same("Min"), "MUL": same("Mul"), "NEG": same("Neg"),
    "NOT_EQUAL": not_equal, "POW": same("Pow"), "PRELU": prelu, "QUANTIZE": quantize, "RELU": _relu(0.0, None),
    "RELU6": _relu(0.0, 6.0), "RELU_0_TO_1": _relu(0.0, 1.0), "RELU_N1_TO_1": _relu(-1.0, 1.0), "ROUND": same("Round"),
    "RSQRT": rsqrt, "SELECT": same("Where"), "SELECT_V2": same("Where"), "SHAPE": shape_of, "SIN": same("Sin"),
    "SOFTMAX": softmax, "SQRT": same("Sqrt"), "SQUARE": square, "SQUARED_DIFFERENCE": squared_difference, "SUB": same("Sub"),
    "TANH": same("Tanh"), "ZEROS_LIKE": zeros_like,
}  # fmt: skip
