"""Functions of one number. On int8 each is a table of 256 entries, which is made from the exact function at compile
time.

ONNX operators Clip, Relu, PRelu with one slope, and those of FORMULAS. Kernel-level: lut_s8. A Clip is an op of its own
because other ops can fuse it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glowembed.graph.cstruct import i32
from glowembed.graph.geometry import ELEMENTWISE
from glowembed.graph.ir import Array, Const, Node, QType, Shape
from glowembed.graph.op import Builder, Cost, Kernel, KernelOp, LowerContext, OnnxNode, Op, OutputType, Refused
from glowembed.law import tflite
from glowembed.ops.shared.broadcast import rows_of
from glowembed.ops.shared.linear import mode_of
from glowembed.records import dataclass

Real = NDArray[np.float64]
Int64 = NDArray[np.int64]
Attrs = Mapping[str, Any]


@dataclass(frozen=True)
class Formula:
    """A function y = function(x, attrs) in float64; NaN becomes 0 in a table. defaults: those of the ONNX attributes.
    tflite: the function from integers to integers in the law of that name, given the scales of x and y; zero points are
    subtracted from both. If it is None, that law rounds the exact function, too.
    """

    function: Callable[[Real, Attrs], Real]
    defaults: Attrs = field(default_factory=dict)
    output_type: OutputType | QType = "profile"
    tflite: Callable[[Int64, Attrs, float, float], Int64] | None = None
    joins: bool = False
    """See Op.joins."""


UNSIGNED = QType("int8", (1 / 256,), (-128,))
"""The type of results in 0..1."""

SIGNED = QType("int8", (1 / 128,), (0,))
"""The type of results in -1..1."""


def _sigmoid(x: Real) -> Real:
    y: Real = np.exp(-np.logaddexp(0.0, -x))
    return y


def _erf(x: Real) -> Real:
    return np.asarray(np.vectorize(math.erf, otypes=[np.float64])(x))


def _gelu(x: Real, attrs: Attrs) -> Real:
    if attrs["approximate"] == "tanh":
        return np.asarray(0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))))
    return 0.5 * x * (1 + _erf(x / math.sqrt(2)))


def _hard_sigmoid(x: Real, alpha: float, beta: float) -> Real:
    return np.clip(alpha * x + beta, 0, 1)


def _elu(x: Real, alpha: float) -> Real:
    return np.where(x < 0, alpha * np.expm1(np.minimum(x, 0)), x)


def _tflite_elu(x: Int64, attrs: Attrs, x_scale: float, y_scale: float) -> Int64:
    """ELU. TensorFlow Lite's has no alpha; here the same operations apply, with alpha as a factor."""
    one, alpha = np.float32(1), np.float32(attrs["alpha"])
    return tflite.in_float32(lambda v: np.where(v < 0, alpha * (np.exp(v) - one), v), x, x_scale, y_scale)


def _tflite_clip(x: Int64, attrs: Attrs, x_scale: float, y_scale: float) -> Int64:
    low, high = (int(tflite.away_from_zero(np.asarray(attrs[key] / y_scale))) for key in ("min", "max"))
    return np.clip(tflite.rescaled(x, x_scale, y_scale), low, high)


FORMULAS: Mapping[str, Formula] = {
    "Abs": Formula(lambda x, a: np.abs(x)),
    "Ceil": Formula(lambda x, a: np.ceil(x)),
    "Celu": Formula(
        lambda x, a: np.maximum(x, 0) + a["alpha"] * np.expm1(np.minimum(x, 0) / a["alpha"]), {"alpha": 1.0}
    ),
    "Elu": Formula(lambda x, a: _elu(x, a["alpha"]), {"alpha": 1.0}, tflite=_tflite_elu),
    "Erf": Formula(lambda x, a: _erf(x), {}, SIGNED),
    "Exp": Formula(lambda x, a: np.exp(x), joins=True),
    "Floor": Formula(lambda x, a: np.floor(x)),
    "Gelu": Formula(_gelu, {"approximate": "none"}),
    "HardSigmoid": Formula(lambda x, a: _hard_sigmoid(x, a["alpha"], a["beta"]), {"alpha": 0.2, "beta": 0.5}, UNSIGNED),
    "HardSwish": Formula(
        lambda x, a: x * _hard_sigmoid(x, 1 / 6, 0.5), tflite=lambda x, a, s, t: tflite.hard_swish(x, s, t)
    ),
    "LeakyRelu": Formula(
        lambda x, a: np.where(x < 0, a["alpha"] * x, x),
        {"alpha": 0.01},
        tflite=lambda x, a, s, t: tflite.leaky_relu(x, a["alpha"], s, t),
    ),
    "Log": Formula(lambda x, a: np.log(x)),
    "Mish": Formula(lambda x, a: x * np.tanh(np.logaddexp(0, x))),
    "Neg": Formula(lambda x, a: -x),
    "Reciprocal": Formula(lambda x, a: 1 / x),
    "Round": Formula(lambda x, a: np.rint(x)),
    "Selu": Formula(
        lambda x, a: a["gamma"] * _elu(x, a["alpha"]),
        {"alpha": 1.67326319217681884765625, "gamma": 1.05070102214813232421875},
    ),
    "Sigmoid": Formula(lambda x, a: _sigmoid(x), {}, UNSIGNED),
    "Softplus": Formula(lambda x, a: np.logaddexp(0, x)),
    "Softsign": Formula(lambda x, a: x / (1 + np.abs(x)), {}, SIGNED),
    "Sqrt": Formula(lambda x, a: np.sqrt(x)),
    "Tanh": Formula(lambda x, a: np.tanh(x), {}, SIGNED),
    "ThresholdedRelu": Formula(lambda x, a: np.where(x > a["alpha"], x, 0), {"alpha": 1.0}),
}


class Unary(Op):
    """y = formula(x)."""

    elementwise = True
    dependence = "pointwise"
    rounds_once = True
    formula: Formula

    def import_onnx(self, node: OnnxNode, b: Builder) -> None:
        attrs = {name: node.attrs.get(name, default) for name, default in self.formula.defaults.items()}
        b.add(self.name, [node.inputs[0]], attrs, node.outputs[0])

    def infer(self, attrs: Attrs, shapes: Sequence[Shape]) -> tuple[Shape, ...]:
        return (shapes[0],)

    def float_ref(self, attrs: Attrs, inputs: Sequence[Array]) -> tuple[Array, ...]:
        with np.errstate(all="ignore"):
            return (self.formula.function(inputs[0].astype(np.float64), attrs).astype(np.float32),)

    def lower(self, node: Node, c: LowerContext) -> None:
        x, y = node.inputs[0], node.outputs[0]
        xq, yq, law = c.qtype(x), c.qtype(y), self.formula.tflite
        if mode_of(node.attrs) == "tflite" and law is not None:
            table = tflite_table(lambda n, s, t: law(n, node.attrs, s, t), self.name, xq, yq)
        else:
            table = lookup_table(lambda real: self.formula.function(real, node.attrs), self.name, xq, yq)
        rows = rows_of(c.shape(x))
        c.add(node, "lut_s8", [x], y, LutParams(rows, prod(c.shape(x)) // rows), {"table": table})


def lookup_table(function: Callable[[Real], Real], name: str, xq: QType, yq: QType) -> Const:
    """The table whose entry x + 128 is the stored output for the stored input x."""

    def evaluate(stored: Array) -> Array:
        real = (stored.astype(np.float64) - xq.zero_point[0]) * xq.scale[0]
        with np.errstate(all="ignore"):
            return np.nan_to_num(function(real), nan=0.0, posinf=np.inf, neginf=-np.inf)

    return Const(np.arange(-128, 128, dtype=np.int8)).then(name, evaluate).then("quantize", yq.quantize)


def tflite_table(law: Callable[[Int64, float, float], Int64], name: str, xq: QType, yq: QType) -> Const:
    """The table of a function from integers to integers, from which zero points are subtracted. `law` also takes the
    scales.
    """

    def evaluate(stored: Array) -> Array:
        y = law(stored.astype(np.int64) - xq.zero_point[0], xq.scale[0], yq.scale[0]) + yq.zero_point[0]
        return np.clip(y, *yq.limits).astype(np.int8)

    return Const(np.arange(-128, 128, dtype=np.int8)).then(f"tflite {name}", evaluate)


def _unary(kind: str, formula: Formula) -> Op:
    """The Op of one formula."""
    members = {"name": kind, "onnx": (kind,), "formula": formula, "output_type": formula.output_type}
    members |= {"joins": formula.joins}
    made: Op = type(kind, (Unary,), {**members, "__doc__": f"y = {kind}(x).", "__module__": __name__})()
    return made


class LeakyRelu(Unary):
    """y = x for x >= 0, else alpha * x; PRelu with one slope is the same."""

    name = "LeakyRelu"
    onnx = ("LeakyRelu", "PRelu")
    formula = FORMULAS["LeakyRelu"]

    def import_onnx(self, node: OnnxNode, b: Builder) -> None:
        if node.op_type == "LeakyRelu":
            super().import_onnx(node, b)
            return
        slope = b.const(node.inputs[1])
        if slope is None or slope.size != 1:
            raise Refused("PRelu with more than one slope, or one that is not constant", "use one slope, or LeakyRelu")
        b.add(self.name, [node.inputs[0]], {"alpha": float(slope.reshape(()))}, node.outputs[0])


class Clip(Unary):
    """y = min(max(x, attrs["min"]), attrs["max"]); either may be infinite."""

    name = "Clip"
    onnx = ("Clip", "Relu")
    formula = Formula(lambda x, a: np.clip(x, a["min"], a["max"]), tflite=_tflite_clip)

    def import_onnx(self, node: OnnxNode, b: Builder) -> None:
        low, high = (0.0, math.inf) if node.op_type == "Relu" else _limits(node, b)
        b.add(self.name, [node.inputs[0]], {"min": min(low, high), "max": high}, node.outputs[0])


def _limits(node: OnnxNode, b: Builder) -> tuple[float, float]:
    """The limits of a Clip, which are attributes before opset 11 and inputs from then on. The largest float32 stands
    for no limit.
    """
    if node.opset < 11:
        low, high = node.attrs.get("min", -math.inf), node.attrs.get("max", math.inf)
    else:
        low, high = _limit(node.input(1), b, -math.inf), _limit(node.input(2), b, math.inf)
    largest = float(np.finfo(np.float32).max)
    return (-math.inf if low <= -largest else float(low)), (math.inf if high >= largest else float(high))


def _limit(name: str | None, b: Builder, default: float) -> float:
    if name is None:
        return default
    array = b.const(name)
    if array is None or array.size != 1:
        raise Refused(f"the limit {name!r} is not a constant number", "make min and max initializers")
    return float(array.reshape(()))


@dataclass(frozen=True)
class LutParams:
    """The number of elements to look up."""

    rows: int = i32("rows of input and output")
    row: int = i32("elements of a row")


class LutS8(KernelOp[LutParams]):
    """y = table[x + 128]."""

    name = "lut_s8"
    params = LutParams
    constants = {"table": "int8_t"}
    kernels = (Kernel("ge_lut_s8", cost=lambda n, t: Cost(9.0 * n.params.rows * n.params.row, 130), store="elements"),)
    geometry = ELEMENTWISE

    def int_ref(self, p: LutParams, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        return constants["table"][inputs[0].astype(np.int32) + 128]


OPS = (Clip(), LeakyRelu(), *(_unary(kind, formula) for kind, formula in FORMULAS.items() if kind != "LeakyRelu"))
KERNEL_OPS = (LutS8(),)
