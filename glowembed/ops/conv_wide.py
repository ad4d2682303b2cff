"""Conv, Affine and Gemm in int16: activations int16, weights int8 or int16, sums int64, bias int64 at s_x * s_w.

Kernel-level: conv2d_s16, depthwise_s16, fc_s16 (weights int8) and the same with _w16 (weights int16). conv2d and fc sum
`chunk` products in int32, which the weights guarantee to fit, and add these sums in int64.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from glowembed.errors import UnsupportedModelError
from glowembed.graph.cstruct import i32
from glowembed.graph.ir import Array, Const, Node, QType
from glowembed.graph.op import Cost, KernelOp, LowerContext, of_element
from glowembed.graph.spatial import ConvParams, Window, as_hwc
from glowembed.law import fixedpoint, wide
from glowembed.ops.conv import Conv2dS8, DepthwiseS8, hwo, ohwi
from glowembed.ops.gemm import FC
from glowembed.ops.shared.linear import clamp_limits
from glowembed.ops.shared.windows import CONVOLUTION
from glowembed.records import dataclass


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
    """The constants of y = x . w + b; the bias includes the zero point of x. reach: the largest |x| in a sum."""
    if any(wq.zero_point):
        raise UnsupportedModelError(f"{name}: int16 needs weights with zero point 0; give it weights_schema: symmetric")
    weights = w.then("quantize", wq.quantize)
    stored = weights.materialize().astype(np.int64)
    flat = stored.reshape(stored.shape[0], -1)
    scales = xq.scale[0] * np.broadcast_to(np.asarray(wq.scale, dtype=np.float64), (len(flat),))
    steps = fixedpoint.bias_steps(bias.materialize(), scales, 2.0**44, name)
    folded = steps - xq.zero_point[0] * flat.sum(axis=1)
    q = wide.requant(scales / yq.scale[0], reach * np.abs(flat).sum(axis=1) + np.abs(folded))
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
    """Shapes and the constants of the requantization, for all int16 convolutions."""

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
    """Lower an Affine to a depthwise convolution with one tap."""
    x, scale, shift = node.inputs
    y, shape, wq = node.outputs[0], c.shape(x) or (1,), c.qtype(scale)
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


class _Conv2dS16(KernelOp[Conv2dS16Params]):
    params = Conv2dS16Params
    constants = {"weights": "int8_t", "bias": "int64_t", "multiplier": "int32_t"}
    sums: Conv2dS8 | DepthwiseS8 = Conv2dS8()
    geometry = CONVOLUTION
    element_bytes = (2, 2)

    def int_ref(self, p: Conv2dS16Params, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        x: Any = inputs[0].reshape(p.in_h, p.in_w, p.in_c)
        same: Any = p  # the sums need only the shapes; float64 holds them exactly, because they are below 2^53
        acc = self.sums.accumulate(same, x, constants["weights"]) + constants["bias"]
        q = wide.WideRequant(tuple(constants["multiplier"].tolist()), p.shift)
        return wide.requantize(acc, q, p.out_zero_point, p.lo, p.hi)


class Conv2dS16(_Conv2dS16):
    """Convolution with int8 weights [O, kh, kw, C/groups]."""

    name = "conv2d_s16"
    kernels = (
        of_element("ge_conv2d", "s16", "ge_conv2d_s16", cost=lambda n, t: Cost(20.0 * n.macs, 800), store="rows"),
    )


class Conv2dS16W16(Conv2dS16):
    """Convolution with int16 weights."""

    name = "conv2d_s16_w16"
    constants = {**Conv2dS16.constants, "weights": "int16_t"}
    kernels = (
        of_element(
            "ge_conv2d",
            "s16_w16",
            "ge_conv2d_s16_w16",
            cost=lambda n, t: Cost(20.0 * n.macs, 800),
            store="rows",
        ),
    )


class DepthwiseS16(_Conv2dS16):
    """Depthwise convolution with int8 weights [kh, kw, O]: output channel o reads input channel o / (out_c / in_c)."""

    name = "depthwise_s16"
    sums = DepthwiseS8()
    kernels = (
        of_element("ge_depthwise", "s16", "ge_depthwise_s16", cost=lambda n, t: Cost(55.0 * n.macs, 700), store="rows"),
    )


class DepthwiseS16W16(DepthwiseS16):
    """Depthwise convolution with int16 weights."""

    name = "depthwise_s16_w16"
    constants = {**DepthwiseS16.constants, "weights": "int16_t"}
    kernels = (
        of_element(
            "ge_depthwise",
            "s16_w16",
            "ge_depthwise_s16_w16",
            cost=lambda n, t: Cost(55.0 * n.macs, 700),
            store="rows",
        ),
    )


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


class FcS16(KernelOp[FcS16Params]):
    """Fully connected with int8 weights [out_c, in_c]. float64 holds the sums exactly, because they are below 2^53."""

    name = "fc_s16"
    params = FcS16Params
    constants = {"weights": "int8_t", "bias": "int64_t", "multiplier": "int32_t"}
    kernels = (of_element("ge_fc", "s16", "ge_fc_s16", cost=lambda n, t: Cost(8.0 * n.macs, 300), store="rows"),)
    geometry = FC
    element_bytes = (2, 2)

    def int_ref(self, p: FcS16Params, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        x = inputs[0].reshape(p.rows, p.in_c).astype(np.float64)
        acc = (x @ constants["weights"].astype(np.float64).T).astype(np.int64) + constants["bias"]
        q = wide.WideRequant(tuple(constants["multiplier"].tolist()), p.shift)
        return wide.requantize(acc, q, p.out_zero_point, p.lo, p.hi)


class FcS16W16(FcS16):
    """Fully connected with int16 weights."""

    name = "fc_s16_w16"
    constants = {**FcS16.constants, "weights": "int16_t"}
    kernels = (
        of_element(
            "ge_fc",
            "s16_w16",
            "ge_fc_s16_w16",
            cost=lambda n, t: Cost(11.0 * n.macs, 300),
            store="rows",
        ),
    )


LOWERINGS = {("Conv", "int16"): _conv, ("Affine", "int16"): _affine, ("Gemm", "int16"): _gemm}
KERNEL_OPS = (Conv2dS16(), Conv2dS16W16(), DepthwiseS16(), DepthwiseS16W16(), FcS16(), FcS16W16())
