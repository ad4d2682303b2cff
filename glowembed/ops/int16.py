"""Arithmetic in int16: activations int16, weights int8 or int16, sums int64, bias int64 at s_x * s_w.

Kernel-level: conv2d_s16, depthwise_s16, fc_s16 (weights int8) and the same with _w16 (weights int16), add_s16, mul_s16,
linear_s16 (rescale, clip, LeakyRelu: anything with a kink at zero), maxpool_s16, avgpool_s16, softmax_s16, and the conversions
rescale_s8_s16, rescale_s16_s8, quantize_f32_s16, dequantize_s16_f32. Other functions of one number: activation_wide.py.

The sums of conv2d and fc are int32 for as many products as the weights are proved for (`chunk`), and int64 over these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from glowembed import broadcast, wide
from glowembed.cstruct import i32
from glowembed.errors import UnsupportedModelError
from glowembed.fixedpoint import round_half_up
from glowembed.ir import Array, Const, Node, QType, Shape
from glowembed.linear import clamp_limits
from glowembed.op import Cost, Kernel, KernelOp, LowerContext, Lowering
from glowembed.ops import pool, softmax
from glowembed.ops.conv import Conv2dS8, DepthwiseS8, hwo, ohwi, window_of
from glowembed.ops.edge import EdgeParams
from glowembed.ops.moves import stored_constant
from glowembed.ops.pool import AvgpoolParams, PoolParams
from glowembed.spatial import ConvParams, Window, as_hwc

LOWEST, HIGHEST = -32768, 32767


# ---------------------------------------------------------------------------------------------- weights


@dataclass(frozen=True)
class WideConstants:
    """weights: int8 or int16, output channel first; bias (int64) and multiplier (int32), one per output channel."""

    weights: Const
    bias: Const
    multiplier: Const
    shift: int
    chunk: int
    kernel: str

    def as_dict(self) -> dict[str, Const]:
        return {"weights": self.weights, "bias": self.bias, "multiplier": self.multiplier}


def wide_constants(
    w: Const, wq: QType, bias: Const, xq: QType, yq: QType, name: str, reach: int = 32768
) -> WideConstants:
    """Constants of y = x . w + b: the bias holds what the zero point of x adds. reach: the largest |x| in a sum."""
    if any(wq.zero_point):
        raise UnsupportedModelError(f"{name}: int16 needs weights with zero point 0; give it weights_schema: symmetric")
    weights = w.then("quantize", wq.quantize)
    stored = weights.materialize().astype(np.int64)
    flat = stored.reshape(stored.shape[0], -1)
    scales = xq.scale[0] * np.broadcast_to(np.asarray(wq.scale, dtype=np.float64), (len(flat),))
    real = np.rint(bias.materialize().astype(np.float64) / scales)
    if np.abs(real).max(initial=0) >= 2.0**44:
        raise UnsupportedModelError(f"{name}: the bias is {np.abs(real).max():g} steps of the sum; at most 2^44 fit")
    folded = real.astype(np.int64) - xq.zero_point[0] * flat.sum(axis=1)
    bound = int((reach * np.abs(flat).sum(axis=1) + np.abs(folded)).max())
    q = wide.requant(scales / yq.scale[0], bound)
    chunk = min((2**31 - 1) // (32768 * max(1, int(np.abs(flat).max()))), 32768)
    return WideConstants(
        weights,
        bias.then("fold_zero_point", lambda _: folded),
        Const(np.asarray(q.multiplier, dtype=np.int32)),
        q.shift,
        chunk,
        "s16" if wq.dtype == "int8" else "s16_w16",
    )


@dataclass(frozen=True)
class Conv2dS16Params(ConvParams):
    """Shapes and the constants of the requantization; shared by all convolutions of int16."""

    chunk: int = i32("products of these weights that int32 can sum, 2..32768")
    in_zero_point: int = i32("what padding holds, -32768..32767")
    shift: int = i32("of the requantization, 1..62")
    out_zero_point: int = i32("-32768..32767")
    lo: int = i32("smallest output, the fused activation included")
    hi: int = i32("largest output")


def _law(xq: QType, yq: QType, k: WideConstants, attrs: Mapping[str, Any]) -> tuple[int, ...]:
    return k.chunk, xq.zero_point[0], k.shift, yq.zero_point[0], *clamp_limits(yq, attrs)


def _conv(node: Node, c: LowerContext) -> None:
    x, w, bias = node.inputs
    y, window, group = node.outputs[0], Window.of(node.attrs), node.attrs["group"]
    k = wide_constants(c.const(w), c.qtype(w), c.const(bias), c.qtype(x), c.qtype(y), node.name)
    depthwise = group > 1 and c.shape(w)[1] == 1
    params = Conv2dS16Params(
        *as_hwc(c.shape(x)), *as_hwc(c.shape(y)), *window.kernel, *window.strides, *window.dilations,
        *window.pads[:2], group, *_law(c.qtype(x), c.qtype(y), k, node.attrs),
    )  # fmt: skip
    weights = k.weights.then("hwo", hwo) if depthwise else k.weights.then("ohwi", ohwi)
    macs = prod(c.shape(y)) * prod(c.shape(w)[1:])
    name = f"{'depthwise' if depthwise else 'conv2d'}_{k.kernel}"
    c.add(node, name, [x], y, params, {**k.as_dict(), "weights": weights}, macs=macs)


def _affine(node: Node, c: LowerContext) -> None:
    """A depthwise convolution with one tap."""
    x, scale, shift = node.inputs
    y, shape, wq = node.outputs[0], c.shape(x), c.qtype(scale)
    channels = shape[-1]
    if len(wq.scale) != channels:
        wq = replace(wq, scale=wq.scale * channels, zero_point=wq.zero_point * channels, axis=0)
    everywhere = f"all({channels})"
    weights = c.const(scale).then(everywhere, lambda a: np.broadcast_to(a, (channels,)).reshape(-1, 1))
    bias = c.const(shift).then(everywhere, lambda a: np.broadcast_to(a, (channels,)))
    k = wide_constants(weights, wq, bias, c.qtype(x), c.qtype(y), node.name)
    images = len(shape) in (3, 4) and shape[0] == 1
    size = as_hwc(shape) if images else (prod(shape[:-1]), 1, channels)
    law = _law(c.qtype(x), c.qtype(y), k, node.attrs)
    params = Conv2dS16Params(*size, *size, 1, 1, 1, 1, 1, 1, 0, 0, channels, *law)
    constants = {**k.as_dict(), "weights": k.weights.then("hwo", lambda a: a.reshape(1, 1, channels))}
    c.add(node, f"depthwise_{k.kernel}", [x], y, params, constants, macs=prod(shape))


class _Conv2dS16(KernelOp):
    params = Conv2dS16Params
    constants = {"weights": "int8_t", "bias": "int64_t", "multiplier": "int32_t"}
    sums: Conv2dS8 | DepthwiseS8 = Conv2dS8()

    def rows(self, p: Conv2dS16Params) -> int:
        return p.out_h

    def row_bytes(self, p: Conv2dS16Params) -> tuple[tuple[int, ...], int]:
        return (2 * p.in_w * p.in_c,), 2 * p.out_w * p.out_c

    def needs(self, p: Conv2dS16Params, y: int) -> tuple[range, ...]:
        return (window_of(p).rows(y, p.in_h),)

    def int_ref(self, p: Conv2dS16Params, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        x: Any = inputs[0].reshape(p.in_h, p.in_w, p.in_c)
        same: Any = p  # the sums need the shapes only; float64 holds them exactly, as they are below 2^53
        acc = self.sums.accumulate(same, x, constants["weights"]) + constants["bias"]
        q = wide.WideRequant(tuple(constants["multiplier"].tolist()), p.shift)
        return wide.requantize(acc, q, p.out_zero_point, p.lo, p.hi)


class Conv2dS16(_Conv2dS16):
    """Weights int8 [O, kh, kw, C/groups]."""

    name = "conv2d_s16"
    kernels = (Kernel("ge_conv2d_s16", cost=lambda n, t: Cost(9.0 * n.macs, 800), store="rows"),)


class Conv2dS16W16(Conv2dS16):
    """Weights int16."""

    name = "conv2d_s16_w16"
    constants = {**Conv2dS16.constants, "weights": "int16_t"}
    kernels = (Kernel("ge_conv2d_s16_w16", cost=lambda n, t: Cost(12.0 * n.macs, 800), store="rows"),)


class DepthwiseS16(_Conv2dS16):
    """Weights int8 [kh, kw, O]: output channel o reads input channel o / (out_c / in_c)."""

    name = "depthwise_s16"
    sums = DepthwiseS8()
    kernels = (Kernel("ge_depthwise_s16", cost=lambda n, t: Cost(14.0 * n.macs, 700), store="rows"),)


class DepthwiseS16W16(DepthwiseS16):
    """Weights int16."""

    name = "depthwise_s16_w16"
    constants = {**DepthwiseS16.constants, "weights": "int16_t"}
    kernels = (Kernel("ge_depthwise_s16_w16", cost=lambda n, t: Cost(14.0 * n.macs, 700), store="rows"),)


# ---------------------------------------------------------------------------------------------- fully connected


@dataclass(frozen=True)
class FcS16Params:
    """Sizes and the constants of the requantization."""

    rows: int = i32("input vectors, each giving one output vector")
    in_c: int = i32("input features")
    out_c: int = i32("output features")
    chunk: int = i32("products of these weights that int32 can sum, 2..32768")
    shift: int = i32("of the requantization, 1..62")
    out_zero_point: int = i32("-32768..32767")
    lo: int = i32("smallest output, the fused activation included")
    hi: int = i32("largest output")


def _gemm(node: Node, c: LowerContext) -> None:
    x, w, bias = node.inputs
    y, (out_c, in_c) = node.outputs[0], c.shape(w)
    k = wide_constants(c.const(w), c.qtype(w), c.const(bias), c.qtype(x), c.qtype(y), node.name)
    rows = prod(c.shape(x)[:-1])
    limits = clamp_limits(c.qtype(y), node.attrs)
    params = FcS16Params(rows, in_c, out_c, k.chunk, k.shift, c.qtype(y).zero_point[0], *limits)
    c.add(node, f"fc_{k.kernel}", [x], y, params, k.as_dict(), macs=rows * in_c * out_c)


class FcS16(KernelOp):
    """Weights int8 [out_c, in_c]. float64 holds the sums exactly, as they are below 2^53."""

    name = "fc_s16"
    params = FcS16Params
    constants = {"weights": "int8_t", "bias": "int64_t", "multiplier": "int32_t"}
    kernels = (Kernel("ge_fc_s16", cost=lambda n, t: Cost(8.0 * n.macs, 300), store="rows"),)

    def rows(self, p: FcS16Params) -> int:
        return p.rows

    def row_bytes(self, p: FcS16Params) -> tuple[tuple[int, ...], int]:
        return (2 * p.in_c,), 2 * p.out_c

    def needs(self, p: FcS16Params, y: int) -> tuple[range, ...]:
        return (range(y, y + 1),)

    def int_ref(self, p: FcS16Params, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        x = inputs[0].reshape(p.rows, p.in_c).astype(np.float64)
        acc = (x @ constants["weights"].astype(np.float64).T).astype(np.int64) + constants["bias"]
        q = wide.WideRequant(tuple(constants["multiplier"].tolist()), p.shift)
        return wide.requantize(acc, q, p.out_zero_point, p.lo, p.hi)


class FcS16W16(FcS16):
    """Weights int16."""

    name = "fc_s16_w16"
    constants = {**FcS16.constants, "weights": "int16_t"}
    kernels = (Kernel("ge_fc_s16_w16", cost=lambda n, t: Cost(11.0 * n.macs, 300), store="rows"),)


# ---------------------------------------------------------------------------------------------- two operands


@dataclass(frozen=True)
class AddS16Params(broadcast.LoopParams):
    """Loops of Broadcasting and the constants of ge_requantize_wide_pair."""

    zero_point_a: int = i32("-32768..32767")
    zero_point_b: int = i32("-32768..32767")
    multiplier_a: int = i32("of the first operand")
    multiplier_b: int = i32("of the second operand; negative for a difference")
    shift: int = i32("1..62")
    out_zero_point: int = i32("-32768..32767")
    lo: int = i32("smallest output, the fused activation included")
    hi: int = i32("largest output")


@dataclass(frozen=True)
class MulS16Params(broadcast.LoopParams):
    """Loops of Broadcasting and the constants of ge_requantize_wide."""

    zero_point_a: int = i32("-32768..32767")
    zero_point_b: int = i32("-32768..32767")
    multiplier: int = i32("of the product")
    shift: int = i32("1..62")
    out_zero_point: int = i32("-32768..32767")
    lo: int = i32("smallest output, the fused activation included")
    hi: int = i32("largest output")


def _pair(node: Node, c: LowerContext) -> None:
    y = c.qtype(node.outputs[0])
    operands = [stored_constant(c, name) for name in node.inputs]
    a, b = (c.qtype(name) for name in operands)
    loops = broadcast.broadcasting(*(c.shape(name) for name in operands))
    head = (loops.rows, *loops.row_steps, loops.dims, *loops.strides, a.zero_point[0], b.zero_point[0])
    tail = (y.zero_point[0], *clamp_limits(y, node.attrs))
    if node.op == "Mul":
        q = wide.requant([a.scale[0] * b.scale[0] / y.scale[0]], 2**34)
        c.add(node, "mul_s16", operands, node.outputs[0], MulS16Params(*head, q.multiplier[0], q.shift, *tail))
        return
    sign = -1.0 if node.op == "Sub" else 1.0
    q = wide.requant([a.scale[0] / y.scale[0], sign * b.scale[0] / y.scale[0]], 2**18)
    c.add(
        node,
        "add_s16",
        operands,
        node.outputs[0],
        AddS16Params(*head, q.multiplier[0], q.multiplier[1], q.shift, *tail),
    )


class _PairS16(KernelOp):
    inputs = ("a", "b")

    def rows(self, p: Any) -> int:
        return int(p.rows)

    def row_bytes(self, p: Any) -> tuple[tuple[int, ...], int]:
        inputs, output = broadcast.row_bytes(p)
        return tuple(2 * n for n in inputs), 2 * output

    def needs(self, p: Any, y: int) -> tuple[range, ...]:
        return broadcast.needs(p, y)

    def real(self, p: Any, inputs: Sequence[Array]) -> tuple[Array, Array]:
        """Both operands without their zero points, in shapes that numpy broadcasts."""
        a, b = (x.reshape(s).astype(np.int64) for x, s in zip(inputs, broadcast.operand_shapes(p), strict=True))
        return a - p.zero_point_a, b - p.zero_point_b


class AddS16(_PairS16):
    """a + b, or a - b."""

    name = "add_s16"
    params = AddS16Params
    kernels = (
        Kernel("ge_add_s16", cost=lambda n, t: Cost(26.0 * n.params.rows * prod(n.params.dims), 300), store="elements"),
    )

    def int_ref(self, p: AddS16Params, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        q = wide.WideRequant((p.multiplier_a, p.multiplier_b), p.shift)
        return wide.requantize_pair(*self.real(p, inputs), q, p.out_zero_point, p.lo, p.hi)


class MulS16(_PairS16):
    """a * b."""

    name = "mul_s16"
    params = MulS16Params
    kernels = (
        Kernel("ge_mul_s16", cost=lambda n, t: Cost(28.0 * n.params.rows * prod(n.params.dims), 300), store="elements"),
    )

    def int_ref(self, p: MulS16Params, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        a, b = self.real(p, inputs)
        return wide.requantize(a * b, wide.WideRequant((p.multiplier,), p.shift), p.out_zero_point, p.lo, p.hi)


# ---------------------------------------------------------------------------------------------- one operand


@dataclass(frozen=True)
class LinearS16Params:
    """One multiplier on each side of the input's zero point, and the constants of ge_requantize_wide."""

    rows: int = i32("rows of input and output")
    row: int = i32("elements of a row")
    in_zero_point: int = i32("that of the input's type")
    multiplier_below: int = i32("where x is below its zero point")
    multiplier_above: int = i32("where it is not")
    shift: int = i32("1..62")
    out_zero_point: int = i32("that of the output's type")
    lo: int = i32("smallest output")
    hi: int = i32("largest output")


LINEAR = {"Rescale": (1.0, 1.0), "Clip": (1.0, 1.0), "Abs": (-1.0, 1.0), "Neg": (-1.0, -1.0)}
"""Op -> slope below and above zero."""


def _linear(node: Node, c: LowerContext) -> None:
    x, y = node.inputs[0], node.outputs[0]
    xq, yq, attrs = c.qtype(x), c.qtype(y), node.attrs
    below, above = (attrs["alpha"], 1.0) if node.op == "LeakyRelu" else LINEAR[node.op]
    q = wide.requant([below * xq.scale[0] / yq.scale[0], above * xq.scale[0] / yq.scale[0]], 2**17)
    limits = {"act_min": attrs["min"], "act_max": attrs["max"]} if node.op == "Clip" else {}
    rows = broadcast.rows_of(c.shape(x))
    lo, hi = clamp_limits(yq, limits)
    slopes = (q.multiplier[0], q.multiplier[1], q.shift)
    size = (rows, prod(c.shape(x)) // rows)
    params = LinearS16Params(*size, xq.zero_point[0], *slopes, yq.zero_point[0], lo, hi)
    names = {("int16", "int16"): "linear_s16", ("int8", "int16"): "rescale_s8_s16", ("int16", "int8"): "rescale_s16_s8"}
    c.add(node, names[xq.dtype, yq.dtype], [x], y, params)


class LinearS16(KernelOp):
    """y = requantize(x - in_zero_point) with the multiplier of its side of zero."""

    name = "linear_s16"
    params = LinearS16Params
    sizes = (2, 2)
    dtype = "int16"
    kernels = (
        Kernel("ge_linear_s16", cost=lambda n, t: Cost(18.0 * n.params.rows * n.params.row, 150), store="elements"),
    )

    def rows(self, p: LinearS16Params) -> int:
        return p.rows

    def row_bytes(self, p: LinearS16Params) -> tuple[tuple[int, ...], int]:
        return (self.sizes[0] * p.row,), self.sizes[1] * p.row

    def needs(self, p: LinearS16Params, y: int) -> tuple[range, ...]:
        return (range(y, y + 1),)

    def int_ref(self, p: LinearS16Params, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        x = inputs[0].astype(np.int64) - p.in_zero_point
        scaled = x * np.where(x < 0, np.int64(p.multiplier_below), np.int64(p.multiplier_above))
        return wide.requantize(scaled, wide.WideRequant((1,), p.shift), p.out_zero_point, p.lo, p.hi, self.dtype)


class RescaleS8S16(LinearS16):
    """int8 to int16."""

    name, sizes = "rescale_s8_s16", (1, 2)
    kernels = (
        Kernel("ge_rescale_s8_s16", cost=lambda n, t: Cost(18.0 * n.params.rows * n.params.row, 150), store="rows"),
    )


class RescaleS16S8(LinearS16):
    """int16 to int8."""

    name, sizes, dtype = "rescale_s16_s8", (2, 1), "int8"
    kernels = (
        Kernel("ge_rescale_s16_s8", cost=lambda n, t: Cost(18.0 * n.params.rows * n.params.row, 150), store="rows"),
    )


# ---------------------------------------------------------------------------------------------- pools


def _maxpool(node: Node, c: LowerContext) -> None:
    x, y = node.inputs[0], node.outputs[0]
    assert c.qtype(x) == c.qtype(y), f"{node.name}: a MaxPool changes no QType; a Rescale does"
    fields = pool.window_fields(Window.of(node.attrs), c.shape(x), c.shape(y))
    c.add(node, "maxpool_s16", [x], y, PoolParams(**fields))


def _avgpool(node: Node, c: LowerContext) -> None:
    x, y, elements = node.inputs[0], node.outputs[0], prod(node.attrs["kernel"])
    if 65536 * elements >= 2**31:
        raise UnsupportedModelError(f"{node.name}: the sum of {elements} elements of int16 does not fit int32")
    params, multiplier = pool.average_params(node.attrs, c.shape(x), c.shape(y), c.qtype(x), c.qtype(y), "default")
    c.add(node, "avgpool_s16", [x], y, params, {"multiplier": Const(np.asarray(multiplier, dtype=np.int32))})


class _PoolS16(KernelOp):
    def rows(self, p: PoolParams) -> int:
        return p.out_h

    def row_bytes(self, p: PoolParams) -> tuple[tuple[int, ...], int]:
        return (2 * p.in_w * p.channels,), 2 * p.out_w * p.channels

    def needs(self, p: PoolParams, y: int) -> tuple[range, ...]:
        return (window_of(p).rows(y, p.in_h),)


def _pool_cost(node: Node, _: Any) -> Cost:
    p = node.params
    return Cost(13.0 * p.out_h * p.out_w * p.channels * (1 + p.kernel_h * p.kernel_w), 320)


class MaxpoolS16(_PoolS16):
    """Padding is the lowest number."""

    name = "maxpool_s16"
    params = PoolParams
    kernels = (Kernel("ge_maxpool_s16", cost=_pool_cost, store="rows"),)

    def int_ref(self, p: PoolParams, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        x = inputs[0].reshape(p.in_h, p.in_w, p.channels)
        return np.asarray(window_of(p).views(x, LOWEST).max(axis=(2, 3)))


class AvgpoolS16(_PoolS16):
    """y = requantize(sum of x - in_zero_point over the elements inside, multiplier for the elements that count)."""

    name = "avgpool_s16"
    params = AvgpoolParams
    constants = {"multiplier": "int32_t"}
    kernels = (Kernel("ge_avgpool_s16", cost=_pool_cost, store="rows"),)

    def int_ref(self, p: AvgpoolParams, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        x = inputs[0].reshape(p.in_h, p.in_w, p.channels).astype(np.int64)
        window = window_of(p)
        acc = window.views(x - p.in_zero_point, 0).sum(axis=(2, 3)).reshape(-1, p.channels)
        rows = pool.tap_counts(window, (p.out_h, p.out_w), 0, p.count_top, p.count_bottom)
        columns = pool.tap_counts(window, (p.out_h, p.out_w), 1, p.count_left, p.count_right)
        index = np.add.outer((rows - p.min_rows) * p.table_columns, columns - p.min_columns)
        q = wide.WideRequant(tuple(constants["multiplier"][index.reshape(-1)].tolist()), p.shift)
        return wide.requantize(acc.T, q, p.out_zero_point, p.lo, p.hi).T


# ---------------------------------------------------------------------------------------------- softmax


@dataclass(frozen=True)
class SoftmaxS16Params:
    """Vectors along which the sum is one."""

    rows: int = i32("rows of input and output")
    vectors: int = i32("vectors of a row")
    n: int = i32("elements of a vector, at most 65536")
    steps: int = i32("of the output that make 1.0, rounded down")
    sum_scale: int = i32("of the sum, in 2^-30: 2^30 where the steps are no rounded number")
    zero_point: int = i32("of the output, -32768..32767")


def _softmax(node: Node, c: LowerContext) -> None:
    x, y, shape = node.inputs[0], node.outputs[0], c.shape(node.inputs[0])
    rows, n = broadcast.rows_of(shape), shape[-1]
    if n > 65536:
        raise UnsupportedModelError(f"{node.name}: Softmax over {n} elements; at most 65536 are possible in int16")
    yq = c.qtype(y)
    params = SoftmaxS16Params(rows, prod(shape) // rows // n, n, *softmax.shares(yq.scale[0]), yq.zero_point[0])
    c.add(node, "softmax_s16", [x], y, params, {"table": _exp_table(c.qtype(x).scale[0])})


def _exp_table(scale: float) -> Const:
    """2^31 * exp(-scale * d) for d = 0, 256, .. 65280, then for d = 0 .. 255."""

    def evaluate(distance: Array) -> Array:
        return np.asarray(round_half_up(np.exp(-scale * distance.astype(np.float64)) * 2.0**31), dtype=np.uint32)

    distances = np.concatenate([np.arange(256) * 256, np.arange(256)]).astype(np.int32)
    return Const(distances).then(f"exp(-{scale:g} d) * 2^31", evaluate)


class SoftmaxS16(KernelOp):
    """e = table[d >> 8] * table[256 + (d & 255)]; the rest as softmax_s8, but the sum, of up to 2^47, in 64 bits."""

    name = "softmax_s16"
    params = SoftmaxS16Params
    constants = {"table": "uint32_t"}
    kernels = (
        Kernel(
            "ge_softmax_s16",
            cost=lambda n, t: Cost(120.0 * n.params.rows * n.params.vectors * n.params.n, 260),
            store="elements",
        ),
    )

    def rows(self, p: SoftmaxS16Params) -> int:
        return p.rows

    def row_bytes(self, p: SoftmaxS16Params) -> tuple[tuple[int, ...], int]:
        return (2 * p.vectors * p.n,), 2 * p.vectors * p.n

    def needs(self, p: SoftmaxS16Params, y: int) -> tuple[range, ...]:
        return (range(y, y + 1),)

    def int_ref(self, p: SoftmaxS16Params, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        x, table = inputs[0].reshape(-1, p.n).astype(np.int32), constants["table"].astype(np.uint64)
        distance = x.max(axis=1, keepdims=True) - x
        product = table[distance >> 8] * table[256 + (distance & 255)]
        e = (product + np.uint64(2**30)) >> np.uint64(31)
        total = _scaled(e.sum(axis=1, keepdims=True, dtype=np.uint64), np.uint64(p.sum_scale))
        y = (e * np.uint64(p.steps) + total // np.uint64(2)) // total
        return np.asarray(
            np.minimum(y, np.uint64(HIGHEST - p.zero_point)).astype(np.int64) + p.zero_point, dtype=np.int16
        )


def _scaled(total: Array, scale: np.uint64) -> Array:
    """total * scale / 2^30 rounded down, in parts that fit 64 bits."""
    low, bits = np.uint64(2**30 - 1), np.uint64(30)
    return np.asarray((total >> bits) * scale + ((total & low) * scale >> bits))


# ---------------------------------------------------------------------------------------------- float edges


def _edge_params(shape: Shape, qtype: QType) -> EdgeParams:
    rows = broadcast.rows_of(shape)
    return EdgeParams(rows, prod(shape) // rows, qtype.zero_point[0], float(np.float32(qtype.scale[0])))


def _quantize(node: Node, c: LowerContext) -> None:
    x, y = node.inputs[0], node.outputs[0]
    c.add(node, "quantize_f32_s16", [x], y, _edge_params(c.shape(x), c.qtype(y)))


def _dequantize(node: Node, c: LowerContext) -> None:
    x, y = node.inputs[0], node.outputs[0]
    name = "dequantize_s16_f32" if c.dtype(x) == "int16" else "dequantize_s8_f32"
    c.add(node, name, [x], y, _edge_params(c.shape(x), c.qtype(x)))


class QuantizeF32S16(KernelOp):
    """y = clamp(round(x / scale) + zero_point), ties to even; infinities are clamped, nan gives the zero point."""

    name = "quantize_f32_s16"
    params = EdgeParams
    kernels = (
        Kernel("ge_quantize_f32_s16", cost=lambda n, t: Cost(40.0 * n.params.rows * n.params.row, 140), store="rows"),
    )

    def rows(self, p: EdgeParams) -> int:
        return p.rows

    def row_bytes(self, p: EdgeParams) -> tuple[tuple[int, ...], int]:
        return (4 * p.row,), 2 * p.row

    def needs(self, p: EdgeParams, y: int) -> tuple[range, ...]:
        return (range(y, y + 1),)

    def int_ref(self, p: EdgeParams, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        with np.errstate(over="ignore"):
            steps = np.rint(inputs[0].astype(np.float32) / np.float32(p.scale))
        steps = np.clip(np.nan_to_num(steps, nan=0.0), LOWEST - p.zero_point, HIGHEST - p.zero_point)
        stored: Array = (steps.astype(np.int32) + p.zero_point).astype(np.int16)
        return stored


class DequantizeS16F32(KernelOp):
    """y = (x - zero_point) * scale in float32."""

    name = "dequantize_s16_f32"
    params = EdgeParams
    kernels = (
        Kernel("ge_dequantize_s16_f32", cost=lambda n, t: Cost(12.0 * n.params.rows * n.params.row, 80), store="rows"),
    )

    def rows(self, p: EdgeParams) -> int:
        return p.rows

    def row_bytes(self, p: EdgeParams) -> tuple[tuple[int, ...], int]:
        return (2 * p.row,), 4 * p.row

    def needs(self, p: EdgeParams, y: int) -> tuple[range, ...]:
        return (range(y, y + 1),)

    def int_ref(self, p: EdgeParams, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        return (inputs[0].astype(np.int32) - p.zero_point).astype(np.float32) * np.float32(p.scale)


_INT16: Mapping[str, Lowering] = {
    "Conv": _conv,
    "Affine": _affine,
    "Gemm": _gemm,
    "Add": _pair,
    "Sub": _pair,
    "Mul": _pair,
    "MaxPool": _maxpool,
    "AveragePool": _avgpool,
    "Softmax": _softmax,
    "LeakyRelu": _linear,
    "Quantize": _quantize,
    **dict.fromkeys(LINEAR, _linear),
}
LOWERINGS = {
    **{(op, "int16"): function for op, function in _INT16.items()},
    ("Dequantize", "float32"): _dequantize,
}
KERNEL_OPS = (
    Conv2dS16(),
    Conv2dS16W16(),
    DepthwiseS16(),
    DepthwiseS16W16(),
    FcS16(),
    FcS16W16(),
    AddS16(),
    MulS16(),
    LinearS16(),
    RescaleS8S16(),
    RescaleS16S8(),
    MaxpoolS16(),
    AvgpoolS16(),
    SoftmaxS16(),
    QuantizeF32S16(),
    DequantizeS16F32(),
)
