"""Arithmetic in float32, for nodes that keep their original precision inside a bundle.

Kernel-level: conv2d_f32, depthwise_f32, fc_f32, add_f32, mul_f32, unary_f32, maxpool_f32, avgpool_f32, softmax_f32.
Sums are computed in the order that the C files state, every operation is rounded to float32, and the functions are
those of law/floatmath.py. So every core gives the same bits, with or without an FPU.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod
from typing import Any, TypeVar

import numpy as np

from glowembed.graph.cstruct import f32, i32
from glowembed.graph.geometry import ELEMENTWISE
from glowembed.graph.ir import Array, Const, Node, Shape
from glowembed.graph.op import Cost, Kernel, KernelOp, LowerContext, Lowering, Params, of_element
from glowembed.graph.spatial import ConvParams, PoolParams, Window, as_hwc
from glowembed.law import floatmath
from glowembed.ops import pool
from glowembed.ops.conv import hwo, ohwi
from glowembed.ops.gemm import FC
from glowembed.ops.moves import stored_constant
from glowembed.ops.shared import broadcast
from glowembed.ops.shared.windows import CONVOLUTION, POOL, window_of
from glowembed.ops.softmax import VECTORS
from glowembed.records import dataclass

LARGEST = float(np.finfo(np.float32).max)
F = np.float32


def float_limits(attrs: Mapping[str, Any], low: str = "act_min", high: str = "act_max") -> tuple[float, float]:
    """The limits of the fused activation, or the lowest and highest float32 if there is none."""
    lo, hi = attrs.get(low, -np.inf), attrs.get(high, np.inf)
    return float(F(max(lo, -LARGEST))), float(F(min(hi, LARGEST)))


def float_weights(const: Const) -> Const:
    return const.then("float32", np.errstate(over="ignore")(lambda a: np.ascontiguousarray(a, dtype=np.float32)))


@dataclass(frozen=True)
class Conv2dF32Params(ConvParams):
    """Shapes and the fused activation, for both conv2d_f32 and depthwise_f32."""

    lo: float = f32("smallest output")
    hi: float = f32("largest output")


def _conv(node: Node, c: LowerContext) -> None:
    x, w, bias = node.inputs
    y, window, group = node.outputs[0], Window.of(node.attrs), node.attrs["group"]
    depthwise = group > 1 and c.shape(w)[1] == 1
    params = Conv2dF32Params(
        *as_hwc(c.shape(x)), *as_hwc(c.shape(y)), *window.kernel, *window.strides, *window.dilations,
        *window.pads[:2], group, *float_limits(node.attrs),
    )  # fmt: skip
    weights = c.const(w).then("hwo", hwo) if depthwise else c.const(w).then("ohwi", ohwi)
    constants = {"weights": float_weights(weights), "bias": float_weights(c.const(bias))}
    macs = prod(c.shape(y)) * prod(c.shape(w)[1:])
    c.add(node, "depthwise_f32" if depthwise else "conv2d_f32", [x], y, params, constants, macs=macs)


def _affine(node: Node, c: LowerContext) -> None:
    """Lower an Affine to a depthwise convolution with one tap."""
    x, scale, shift = node.inputs
    shape = c.shape(x) or (1,)
    images = len(shape) in (3, 4) and shape[0] == 1
    size = as_hwc(shape) if images else (prod(shape[:-1]), 1, shape[-1])
    params = Conv2dF32Params(*size, *size, 1, 1, 1, 1, 1, 1, 0, 0, size[2], *float_limits(node.attrs))
    everywhere = f"all({size[2]})"
    constants = {
        "weights": float_weights(c.const(scale).then(everywhere, lambda a: np.broadcast_to(a, (1, 1, size[2])))),
        "bias": float_weights(c.const(shift).then(everywhere, lambda a: np.broadcast_to(a, (size[2],)))),
    }
    c.add(node, "depthwise_f32", [x], node.outputs[0], params, constants, macs=prod(shape))


class _Conv2dF32(KernelOp[Conv2dF32Params]):
    params = Conv2dF32Params
    constants = {"weights": "float", "bias": "float"}
    geometry = CONVOLUTION
    element_bytes = (4, 4)

    def int_ref(self, p: Conv2dF32Params, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        x, window = inputs[0].reshape(p.in_h, p.in_w, p.in_c), window_of(p)
        views, inside = window.views(x, F(0)), window.views(np.ones((p.in_h, p.in_w, 1), bool), False)
        total = np.broadcast_to(constants["bias"], (p.out_h, p.out_w, p.out_c)).astype(np.float32)
        for ky in range(p.kernel_h):
            for kx in range(p.kernel_w):
                summed = self.add_tap(p, total, views[:, :, ky, kx], constants["weights"], ky, kx)
                total = np.where(inside[:, :, ky, kx], summed, total)
        return floatmath.clamp(total, p.lo, p.hi)

    def add_tap(self, p: Conv2dF32Params, total: Array, x: Array, w: Array, ky: int, kx: int) -> Array:
        """The sums after one more tap. x: [out_h, out_w, C]."""
        raise NotImplementedError


class Conv2dF32(_Conv2dF32):
    """Weights [O, kh, kw, C/groups]."""

    name = "conv2d_f32"
    kernels = (Kernel("ge_conv2d_f32", cost=lambda n, t: Cost(30.0 * n.macs, 700), store="rows"),)

    def add_tap(self, p: Conv2dF32Params, total: Array, x: Array, w: Array, ky: int, kx: int) -> Array:
        depth, group_out = p.in_c // p.groups, p.out_c // p.groups
        first = np.arange(p.out_c) // group_out * depth
        for i in range(depth):
            total = total + x[:, :, first + i] * w[:, ky, kx, i]
        return total


class DepthwiseF32(_Conv2dF32):
    """Weights [kh, kw, O]: output channel o reads input channel o / (out_c / in_c)."""

    name = "depthwise_f32"
    kernels = (Kernel("ge_depthwise_f32", cost=lambda n, t: Cost(35.0 * n.macs, 600), store="rows"),)

    def add_tap(self, p: Conv2dF32Params, total: Array, x: Array, w: Array, ky: int, kx: int) -> Array:
        return np.asarray(total + np.repeat(x, p.out_c // p.in_c, axis=2) * w[ky, kx])


@dataclass(frozen=True)
class FcF32Params:
    """Sizes and the fused activation."""

    rows: int = i32("input vectors, each giving one output vector")
    in_c: int = i32("input features")
    out_c: int = i32("output features")
    lo: float = f32("smallest output")
    hi: float = f32("largest output")


def _gemm(node: Node, c: LowerContext) -> None:
    x, w, bias = node.inputs
    out_c, in_c = c.shape(w)
    rows = prod(c.shape(x)[:-1])
    params = FcF32Params(rows, in_c, out_c, *float_limits(node.attrs))
    constants = {"weights": float_weights(c.const(w)), "bias": float_weights(c.const(bias))}
    c.add(node, "fc_f32", [x], node.outputs[0], params, constants, macs=rows * in_c * out_c)


class FcF32(KernelOp[FcF32Params]):
    """Weights [out_c, in_c]."""

    name = "fc_f32"
    params = FcF32Params
    constants = {"weights": "float", "bias": "float"}
    kernels = (of_element("ge_fc", "f32", "ge_fc_f32", cost=lambda n, t: Cost(28.0 * n.macs, 250), store="rows"),)
    geometry = FC
    element_bytes = (4, 4)

    def int_ref(self, p: FcF32Params, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        x, w = inputs[0].reshape(p.rows, p.in_c), constants["weights"]
        total = np.broadcast_to(constants["bias"], (p.rows, p.out_c)).astype(np.float32)
        for i in range(p.in_c):
            total = total + x[:, i : i + 1] * w[:, i]
        return floatmath.clamp(total, p.lo, p.hi)


@dataclass(frozen=True)
class MulF32Params(broadcast.LoopParams):
    """The loops of Broadcasting and the fused activation."""

    lo: float = f32("smallest output")
    hi: float = f32("largest output")


@dataclass(frozen=True)
class AddF32Params(MulF32Params):
    """The loops of Broadcasting and the fused activation."""

    subtract: int = i32("1: the difference, 0: the sum")


def _pair(node: Node, c: LowerContext) -> tuple[list[str], MulF32Params]:
    """The names of both operands, and the fields that the params of sum and product have in common."""
    operands = [stored_constant(c, name) for name in node.inputs]
    loops = broadcast.broadcasting(*(c.shape(name) for name in operands))
    limits = float_limits(node.attrs)
    return operands, MulF32Params(loops.rows, *loops.row_steps, loops.dims, *loops.strides, *limits)


def _product(node: Node, c: LowerContext) -> None:
    operands, params = _pair(node, c)
    c.add(node, "mul_f32", operands, node.outputs[0], params)


def _sum(node: Node, c: LowerContext, subtract: int = 0) -> None:
    operands, params = _pair(node, c)
    c.add(node, "add_f32", operands, node.outputs[0], AddF32Params(**vars(params), subtract=subtract))


PairParams = TypeVar("PairParams", AddF32Params, MulF32Params)


class _PairF32(KernelOp[PairParams]):
    inputs = ("a", "b")
    geometry = broadcast.GEOMETRY
    element_bytes = (4, 4)

    def int_ref(self, p: PairParams, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        a, b = (x.reshape(s) for x, s in zip(inputs, broadcast.operand_shapes(p), strict=True))
        return floatmath.clamp(self.combine(p, a, b), p.lo, p.hi)

    def combine(self, p: PairParams, a: Array, b: Array) -> Array:
        raise NotImplementedError


class AddF32(_PairF32[AddF32Params]):
    """a + b, or a - b."""

    name = "add_f32"
    params = AddF32Params
    kernels = (
        Kernel(
            "ge_add_f32",
            template="ge_pair",
            headers={"pair_add_f32.h": "pair_add_f32.h"},
            cost=lambda n, t: Cost(30.0 * n.params.rows * prod(n.params.dims), 260),
            store="elements",
        ),
    )

    def combine(self, p: AddF32Params, a: Array, b: Array) -> Array:
        return a - b if p.subtract else a + b


class MulF32(_PairF32[MulF32Params]):
    """a * b."""

    name = "mul_f32"
    params = MulF32Params
    kernels = (
        Kernel(
            "ge_mul_f32",
            template="ge_pair",
            headers={"pair_add_f32.h": "pair_mul_f32.h"},
            cost=lambda n, t: Cost(30.0 * n.params.rows * prod(n.params.dims), 260),
            store="elements",
        ),
    )

    def combine(self, p: MulF32Params, a: Array, b: Array) -> Array:
        return a * b


Function = Callable[[Array, np.float32, np.float32], Array]


def _positive(x: Array) -> Array:
    return np.where(x > 0, x, F(0))


def _negative(x: Array) -> Array:
    return np.where(x < 0, x, F(0))


def _expm1(x: Array) -> Array:
    return floatmath.exp(x) - F(1)


def _unit(x: Array) -> Array:
    return floatmath.clamp(x, 0.0, 1.0)


FUNCTIONS: Mapping[str, Function] = {
    "Abs": lambda x, a, b: floatmath.magnitude(x),
    "Ceil": lambda x, a, b: floatmath.ceil(x),
    "Celu": lambda x, a, b: _positive(x) + a * _expm1(_negative(x) / a),
    "Clip": lambda x, a, b: floatmath.clamp(x, float(a), float(b)),
    "Elu": lambda x, a, b: np.where(x < 0, a * _expm1(x), x),
    "Erf": lambda x, a, b: floatmath.erf(x),
    "Exp": lambda x, a, b: floatmath.exp(x),
    "Floor": lambda x, a, b: floatmath.floor(x),
    "Gelu": lambda x, a, b: F(0.5) * x * (F(1) + floatmath.erf(x * F(0.707106781))),
    "GeluTanh": lambda x, a, b: F(0.5) * x * (F(1) + floatmath.tanh(F(0.797884561) * (x + F(0.044715) * x * x * x))),
    "HardSigmoid": lambda x, a, b: _unit(a * x + b),
    "HardSwish": lambda x, a, b: x * _unit(F(0.166666667) * x + F(0.5)),
    "LeakyRelu": lambda x, a, b: np.where(x < 0, a * x, x),
    "Log": lambda x, a, b: floatmath.log(x),
    "Mish": lambda x, a, b: x * floatmath.tanh(floatmath.softplus(x)),
    "Neg": lambda x, a, b: -x,
    "Reciprocal": lambda x, a, b: F(1) / x,
    "Round": lambda x, a, b: floatmath.round_even(x),
    "Selu": lambda x, a, b: b * np.where(x < 0, a * _expm1(x), x),
    "Sigmoid": lambda x, a, b: floatmath.sigmoid(x),
    "Softplus": lambda x, a, b: floatmath.softplus(x),
    "Softsign": lambda x, a, b: x / (F(1) + floatmath.magnitude(x)),
    "Sqrt": lambda x, a, b: floatmath.sqrt(x),
    "Tanh": lambda x, a, b: floatmath.tanh(x),
    "ThresholdedRelu": lambda x, a, b: np.where(x > a, x, F(0)),
}
"""For each name, function(x, a, b). The number of a function is its position here."""


@dataclass(frozen=True)
class UnaryF32Params:
    """The number of the function, and its constants."""

    rows: int = i32("rows of input and output")
    row: int = i32("elements of a row")
    function: int = i32("its place in FUNCTIONS of ops/float32.py, from 0 on")
    a: float = f32("alpha, the threshold, or the lower limit")
    b: float = f32("beta, gamma, or the upper limit")


def _unary(node: Node, c: LowerContext) -> None:
    x, attrs = node.inputs[0], node.attrs
    name = "GeluTanh" if attrs.get("approximate") == "tanh" else node.op
    a, b = attrs.get("alpha", 0.0), attrs.get("beta", attrs.get("gamma", 0.0))
    if "min" in attrs:
        a, b = float_limits(attrs, "min", "max")
    rows = broadcast.rows_of(c.shape(x))
    number = list(FUNCTIONS).index(name)
    params = UnaryF32Params(rows, prod(c.shape(x)) // rows, number, float(F(a)), float(F(b)))
    c.add(node, "unary_f32", [x], node.outputs[0], params)


class UnaryF32(KernelOp[UnaryF32Params]):
    """y = FUNCTIONS[function](x, a, b)."""

    name = "unary_f32"
    params = UnaryF32Params
    kernels = (
        Kernel("ge_unary_f32", cost=lambda n, t: Cost(200.0 * n.params.rows * n.params.row, 1500), store="elements"),
    )
    geometry = ELEMENTWISE
    element_bytes = (4, 4)

    def int_ref(self, p: UnaryF32Params, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        with np.errstate(all="ignore"):
            return list(FUNCTIONS.values())[p.function](inputs[0].astype(np.float32), F(p.a), F(p.b))


@dataclass(frozen=True)
class AvgpoolF32Params(pool.CountedParams):
    """The elements that count in an average, and the fused activation."""

    lo: float = f32("smallest output")
    hi: float = f32("largest output")


def _maxpool(node: Node, c: LowerContext) -> None:
    x, y = node.inputs[0], node.outputs[0]
    c.add(node, "maxpool_f32", [x], y, PoolParams(**pool.window_fields(Window.of(node.attrs), c.shape(x), c.shape(y))))


def _avgpool(node: Node, c: LowerContext) -> None:
    x, y = node.inputs[0], node.outputs[0]
    h, w, _ = as_hwc(c.shape(x))
    (top, bottom), (left, right) = pool.counted_range(node.attrs, h, 0), pool.counted_range(node.attrs, w, 1)
    lo, hi = float_limits(node.attrs)
    fields = pool.window_fields(Window.of(node.attrs), c.shape(x), c.shape(y))
    params = AvgpoolF32Params(
        **fields, count_top=top, count_bottom=bottom, count_left=left, count_right=right, lo=lo, hi=hi
    )
    c.add(node, "avgpool_f32", [x], y, params)


class _PoolF32(KernelOp[Params]):
    geometry = POOL
    element_bytes = (4, 4)


def _cost(node: Node, _: Any) -> Cost:
    p = node.params
    return Cost(25.0 * p.out_h * p.out_w * p.channels * (1 + p.kernel_h * p.kernel_w), 300)


class MaxpoolF32(_PoolF32[PoolParams]):
    """The largest element of each window. Padding counts as the lowest number."""

    name = "maxpool_f32"
    params = PoolParams
    kernels = (of_element("ge_maxpool", "f32", "ge_maxpool_f32", cost=_cost, store="rows"),)

    def int_ref(self, p: PoolParams, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        views = window_of(p).views(inputs[0].reshape(p.in_h, p.in_w, p.channels), F(-LARGEST))
        largest = np.full((p.out_h, p.out_w, p.channels), F(-LARGEST))
        for ky in range(p.kernel_h):
            for kx in range(p.kernel_w):
                largest = np.where(views[:, :, ky, kx] > largest, views[:, :, ky, kx], largest)
        return largest


class AvgpoolF32(_PoolF32[AvgpoolF32Params]):
    """The sum of the elements inside the input, divided by the number of those that count."""

    name = "avgpool_f32"
    params = AvgpoolF32Params
    kernels = (Kernel("ge_avgpool_f32", cost=_cost, store="rows"),)

    def int_ref(self, p: AvgpoolF32Params, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        window, x = window_of(p), inputs[0].reshape(p.in_h, p.in_w, p.channels)
        views, inside = window.views(x, F(0)), window.views(np.ones((p.in_h, p.in_w, 1), bool), False)
        total = np.zeros((p.out_h, p.out_w, p.channels), np.float32)
        for ky in range(p.kernel_h):
            for kx in range(p.kernel_w):
                total = np.where(inside[:, :, ky, kx], total + views[:, :, ky, kx], total)
        rows = pool.tap_counts(window, (p.out_h, p.out_w), 0, p.count_top, p.count_bottom)
        columns = pool.tap_counts(window, (p.out_h, p.out_w), 1, p.count_left, p.count_right)
        counts = np.multiply.outer(rows, columns).astype(np.float32)[:, :, None]
        return floatmath.clamp(total / counts, p.lo, p.hi)


@dataclass(frozen=True)
class SoftmaxF32Params:
    """The sizes: each vector of the output sums to one."""

    rows: int = i32("rows of input and output")
    vectors: int = i32("vectors of a row")
    n: int = i32("elements of a vector")


def _softmax(node: Node, c: LowerContext) -> None:
    x = node.inputs[0]
    shape: Shape = c.shape(x)
    rows = broadcast.rows_of(shape)
    params = SoftmaxF32Params(rows, prod(shape) // rows // shape[-1], shape[-1])
    c.add(node, "softmax_f32", [x], node.outputs[0], params)


class SoftmaxF32(KernelOp[SoftmaxF32Params]):
    """exp(x - max), divided by the sum of these exponentials."""

    name = "softmax_f32"
    params = SoftmaxF32Params
    kernels = (
        Kernel(
            "ge_softmax_f32",
            cost=lambda n, t: Cost(250.0 * n.params.rows * n.params.vectors * n.params.n, 500),
            store="elements",
        ),
    )
    geometry = VECTORS
    element_bytes = (4, 4)

    def int_ref(self, p: SoftmaxF32Params, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        x = inputs[0].reshape(-1, p.n).astype(np.float32)
        e = floatmath.exp(x - x.max(axis=1, keepdims=True))
        y: Array = e / np.add.accumulate(e, axis=1)[:, -1:]
        return y


_FLOAT: Mapping[str, Lowering] = {
    "Conv": _conv,
    "Affine": _affine,
    "Gemm": _gemm,
    "Add": _sum,
    "Sub": partial(_sum, subtract=1),
    "Mul": _product,
    "MaxPool": _maxpool,
    "AveragePool": _avgpool,
    "Softmax": _softmax,
    **{name: _unary for name in FUNCTIONS if name != "GeluTanh"},
}
LOWERINGS = {(op, "float32"): function for op, function in _FLOAT.items()}
KERNEL_OPS = (
    Conv2dF32(),
    DepthwiseF32(),
    FcF32(),
    AddF32(),
    MulF32(),
    UnaryF32(),
    MaxpoolF32(),
    AvgpoolF32(),
    SoftmaxF32(),
)
