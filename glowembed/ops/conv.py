"""Convolution, 1-D and 2-D, any group, stride, dilation and padding; including depthwise.

ONNX operator Conv. Input [1, H, W, C] or [1, L, C], weights as in ONNX [O, C/group, kh(, kw)], bias [O].
Kernel-level: conv2d_s8 (weights OHWI) and depthwise_s8 (one input channel per group, weights HWO).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from glowembed.graph.cstruct import i32
from glowembed.graph.ir import Array, Const, Node, QType, Shape
from glowembed.graph.op import (
    Builder,
    Cost,
    Kernel,
    KernelOp,
    LowerContext,
    Malformed,
    OnnxNode,
    Op,
    in_all_modes,
    of_element,
)
from glowembed.graph.spatial import ConvParams, Window, as_hwc, channels_first, channels_last, from_hwc, onnx_window
from glowembed.law import fixedpoint
from glowembed.ops.shared import costs
from glowembed.ops.shared.linear import LinearConstants, check_bias, clamp_limits, linear_constants, mode_of
from glowembed.ops.shared.windows import CONVOLUTION, window_of
from glowembed.records import dataclass


class Conv(Op):
    """y[o] = sum over taps and input channels of the group (x * w[o]) + b[o], then the fused clip."""

    name = "Conv"
    onnx = ("Conv",)
    dependence = "sum"
    rounds_once = True
    has_weights = True
    weights_of_four_bits = True
    fuses_activation = True

    def import_onnx(self, node: OnnxNode, b: Builder) -> None:
        x, w = node.inputs[0], node.inputs[1]
        if b.const(w) is None:
            raise_not_constant(w)
        rank, weights = len(b.shape(x)), b.shape(w)
        window = onnx_window(node, weights[2:], b.shape(x)[2:])
        bias = node.input(2) or b.constant(f"{node.outputs[0]}/bias", Const(np.zeros(weights[0], np.float32)))
        y = b.add(
            "Conv",
            [b.transpose(x, channels_last(rank)), w, bias],
            {**window.attrs(), "group": node.attrs.get("group", 1)},
            f"{node.outputs[0]}/channels_last",
        )
        b.transpose(y, channels_first(rank), node.outputs[0])

    def infer(self, attrs: Mapping[str, Any], shapes: Sequence[Shape]) -> tuple[Shape, ...]:
        x, w, bias = shapes
        h, wd, c = as_hwc(x)
        if c != w[1] * attrs["group"] or w[0] % attrs["group"]:
            raise Malformed(
                f"{c} input channels do not fit weights {list(w)} with group {attrs['group']}",
                "check the shapes of its inputs",
            )
        check_bias(bias, w[0])
        return (from_hwc(Window.of(attrs).out_size((h, wd)), w[0], len(x)),)

    def float_ref(self, attrs: Mapping[str, Any], inputs: Sequence[Array]) -> tuple[Array, ...]:
        x, w, bias = inputs
        y = _accumulate(Window.of(attrs), x.reshape(as_hwc(x.shape)), ohwi(w), attrs["group"], 0.0, x.dtype)
        y = (y + bias).astype(np.float32, copy=False)
        if "act_min" in attrs or "act_max" in attrs:
            y = np.clip(y, attrs.get("act_min", -np.inf), attrs.get("act_max", np.inf), out=y)
        return (y.reshape(from_hwc((y.shape[0], y.shape[1]), y.shape[2], x.ndim)),)

    def patches(self, attrs: Mapping[str, Any], x: Array) -> Array | None:
        group, views = attrs["group"], Window.of(attrs).views(x.reshape(as_hwc(x.shape)), 0)
        outputs, taps = prod(views.shape[:2]), prod(views.shape[2:4])
        return views.reshape(outputs, taps, group, -1).transpose(2, 0, 3, 1).reshape(group, outputs, -1)

    def narrowed(self, attrs: Mapping[str, Any], kept: Array | None, x: Shape, y: Shape) -> Mapping[str, Any]:
        return {**attrs, "group": x[-1]}  # a depthwise Conv: a channel is removed together with its weights

    def lower(self, node: Node, c: LowerContext) -> None:
        x, w, bias = node.inputs
        y = node.outputs[0]
        window, group, mode = Window.of(node.attrs), node.attrs["group"], mode_of(node.attrs)
        k = linear_constants(c.const(w), c.qtype(w), c.const(bias), c.qtype(x), c.qtype(y), node.name, mode)
        depthwise = group > 1 and c.shape(w)[1] == 1
        params = _params(window, group, c.shape(x), c.shape(y), c.qtype(x), c.qtype(y), k, node.attrs)
        order = "hwo" if depthwise else "ohwi"
        weights = k.weights.then(order, hwo if depthwise else ohwi)
        macs = int(np.prod(c.shape(y))) * int(np.prod(c.shape(w)[1:]))
        c.add(
            node,
            k.op("depthwise" if depthwise else "conv2d"),
            [x],
            y,
            params,
            {**k.as_dict(), "weights": weights},
            macs=macs,
        )


def raise_not_constant(name: str) -> None:
    """Refuse a node whose weights are computed at run time."""
    from glowembed.graph.op import Refused

    raise Refused(f"the weights {name!r} are not a constant", "weights must be initializers or fold to constants")


def ohwi(w: Array) -> Array:
    """Turn [O, I, kh(, kw)] into [O, kh, kw, I]."""
    return np.ascontiguousarray(w.reshape(*w.shape[:3], -1).transpose(0, 2, 3, 1))


def hwo(w: Array) -> Array:
    """Turn [O, 1, kh(, kw)] into [kh, kw, O]."""
    return np.ascontiguousarray(w.reshape(*w.shape[:3], -1)[:, 0].transpose(1, 2, 0))


def _accumulate(window: Window, x: Array, w: Array, group: int, fill: Any, dtype: Any) -> Array:
    """The sums of products [out_h, out_w, O] of x [H, W, C] and w [O, kh, kw, C/group], computed in `dtype`."""
    views = window.views(x.astype(dtype, copy=False), fill)
    w = w.astype(dtype, copy=False)
    out_h, out_w, kh, kw, channels = views.shape
    if group == 1:
        flat = views.reshape(out_h * out_w, kh * kw * channels) @ w.reshape(w.shape[0], -1).T
        return np.asarray(flat.reshape(out_h, out_w, -1))
    rows = views.reshape(out_h, out_w, kh, kw, group, -1).transpose(4, 2, 3, 5, 0, 1).reshape(group, -1, out_h * out_w)
    sums = w.reshape(group, w.shape[0] // group, -1) @ np.ascontiguousarray(rows)
    return np.asarray(sums.reshape(-1, out_h, out_w).transpose(1, 2, 0))


@dataclass(frozen=True)
class Conv2dParams(ConvParams):
    """Shapes and the constants of the requantization, for both conv2d_s8 and depthwise_s8."""

    in_zero_point: int = i32("what padding holds, -128..127")
    shift: int = i32("of the requantization, 1..32")
    out_zero_point: int = i32("-128..127")
    lo: int = i32("smallest output, the fused activation included")
    hi: int = i32("largest output")


def _params(
    window: Window, group: int, x: Shape, y: Shape, xq: QType, yq: QType, k: LinearConstants, attrs: Mapping[str, Any]
) -> Conv2dParams:
    lo, hi = clamp_limits(yq, attrs)
    return Conv2dParams(
        *as_hwc(x), *as_hwc(y), *window.kernel, *window.strides, *window.dilations, *window.pads[:2],
        group, xq.zero_point[0], k.requant.shift, yq.zero_point[0], lo, hi,
    )  # fmt: skip


class _Conv2dBase(KernelOp[Conv2dParams]):
    params = Conv2dParams
    constants = {"weights": "int8_t", "bias": "int32_t", "multiplier": "int32_t"}
    geometry = CONVOLUTION

    def int_ref(self, p: Conv2dParams, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        x = inputs[0].reshape(p.in_h, p.in_w, p.in_c)
        weights = constants["weights"].astype(np.int64)
        if "weight_zero_point" in constants:
            weights = self.less_zero_point(weights, constants["weight_zero_point"])
        acc = self.accumulate(p, x, weights) + constants["bias"]
        q = fixedpoint.Requant(tuple(constants["multiplier"].tolist()), p.shift, self.requantization)
        return fixedpoint.requantize(acc, q, p.out_zero_point, p.lo, p.hi)

    def accumulate(self, p: Conv2dParams, x: Array, weights: Array) -> Array:
        raise NotImplementedError

    def less_zero_point(self, weights: Array, zero_point: Array) -> Array:
        raise NotImplementedError


class Conv2dS8(_Conv2dBase):
    """Weights [O, kh, kw, C/groups]. The sums are below 2^31, so float64 matrix products are exact."""

    name = "conv2d_s8"
    kernels: tuple[Kernel, ...] = (
        of_element("ge_conv2d", "s8", "ge_conv2d_s8", cost=costs.windowed("conv2d_s8", 8.0, 770), store="rows"),
    )

    def accumulate(self, p: Conv2dParams, x: Array, weights: Array) -> Array:
        return _accumulate(window_of(p), x, weights, p.groups, p.in_zero_point, np.float64).astype(np.int64)

    def less_zero_point(self, weights: Array, zero_point: Array) -> Array:
        return weights - zero_point[:, None, None, None]


class DepthwiseS8(_Conv2dBase):
    """Weights [kh, kw, O]: output channel o reads input channel o / (out_c / in_c)."""

    name = "depthwise_s8"
    kernels: tuple[Kernel, ...] = (
        of_element(
            "ge_depthwise", "s8", "ge_depthwise_s8", cost=costs.windowed("depthwise_s8", 12.0, 570), store="rows"
        ),
    )

    def accumulate(self, p: Conv2dParams, x: Array, weights: Array) -> Array:
        views = np.repeat(window_of(p).views(x.astype(np.int64), p.in_zero_point), p.out_c // p.in_c, axis=4)
        return np.asarray(np.einsum("yxhwo,hwo->yxo", views, weights.astype(np.int64)))

    def less_zero_point(self, weights: Array, zero_point: Array) -> Array:
        return weights - zero_point


class Conv2dS8W4(Conv2dS8):
    """Convolution with int4 weights, -8..7; everything else is as for int8 weights."""

    name = "conv2d_s8_w4"
    unpacks = "conv2d_s8"

    def weights_shape(self, p: Conv2dParams) -> Shape:
        return p.out_c, p.kernel_h, p.kernel_w, p.in_c // p.groups


class DepthwiseS8W4(DepthwiseS8):
    """Depthwise convolution with int4 weights, -8..7."""

    name = "depthwise_s8_w4"
    unpacks = "depthwise_s8"

    def weights_shape(self, p: Conv2dParams) -> Shape:
        return p.kernel_h, p.kernel_w, p.out_c


class Conv2dS8Wt(Conv2dS8W4):
    """Convolution with int8 weights that are at most sixteen different numbers."""

    name = "conv2d_s8_wt"
    of_table = True


class DepthwiseS8Wt(DepthwiseS8W4):
    """Depthwise convolution with int8 weights that are at most sixteen different numbers."""

    name = "depthwise_s8_wt"
    of_table = True


ASYMMETRIC = {**_Conv2dBase.constants, "weight_zero_point": "int32_t"}


class Conv2dAwS8(Conv2dS8):
    """Convolution with asymmetric weights, whose zero point per output channel is subtracted in the kernel."""

    name = "conv2d_aw_s8"
    constants = ASYMMETRIC
    kernels = (
        of_element("ge_conv2d", "aw_s8", "ge_conv2d_aw_s8", cost=lambda n, t: Cost(10.0 * n.macs, 760), store="rows"),
    )


class DepthwiseAwS8(DepthwiseS8):
    """Depthwise convolution with asymmetric weights."""

    name = "depthwise_aw_s8"
    constants = ASYMMETRIC
    kernels = (
        of_element(
            "ge_depthwise", "aw_s8", "ge_depthwise_aw_s8", cost=lambda n, t: Cost(14.0 * n.macs, 640), store="rows"
        ),
    )


OPS = (Conv(),)


_FOUR_BITS = (Conv2dS8W4(), DepthwiseS8W4(), Conv2dS8Wt(), DepthwiseS8Wt())
_ALL = (Conv2dS8(), DepthwiseS8(), *_FOUR_BITS, Conv2dAwS8(), DepthwiseAwS8())
KERNEL_OPS = (*(twin for op in _ALL for twin in in_all_modes(op)),)
