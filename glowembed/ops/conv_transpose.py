"""Transposed convolution, 1-D and 2-D, any group, stride, dilation and padding.

ONNX operator ConvTranspose. Input [1, H, W, C] or [1, L, C]; weights [O, C/group, kh(, kw)] with the output channel
first, as for Conv (ONNX has them [C, O/group, kh(, kw)]); bias [O]. Kernel-level: conv_transpose2d_s8 (weights OHWI).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import prod
from typing import Any

import numpy as np

from glowembed.graph.cstruct import i32
from glowembed.graph.ir import Array, Const, Node, Shape
from glowembed.graph.op import (
    Builder,
    Cost,
    Kernel,
    KernelOp,
    LowerContext,
    Malformed,
    OnnxNode,
    Op,
    Refused,
    in_all_modes,
    of_element,
)
from glowembed.graph.spatial import (
    ConvTransposeParams,
    as_hwc,
    channels_first,
    channels_last,
    check_largest,
    check_steps,
    from_hwc,
)
from glowembed.law import fixedpoint
from glowembed.ops.shared.linear import check_bias, clamp_limits, linear_constants, mode_of
from glowembed.ops.shared.windows import TRANSPOSED
from glowembed.records import dataclass


class ConvTranspose(Op):
    """y[iy * stride + ky * dilation - pad] += x[iy] * w[ky], in both directions, plus the bias, then the fused clip."""

    name = "ConvTranspose"
    onnx = ("ConvTranspose",)
    dependence = "sum"
    scatters = True
    has_weights = True
    weights_of_four_bits = True
    fuses_activation = True

    def import_onnx(self, node: OnnxNode, b: Builder) -> None:
        x, w = node.inputs[0], node.inputs[1]
        if b.const(w) is None:
            raise Refused(f"the weights {w!r} are not a constant", "weights must be initializers or fold to constants")
        rank, group = len(b.shape(x)), node.attrs.get("group", 1)
        attrs = _attrs(node, b.shape(x)[2:], b.shape(w)[2:])
        channels = b.shape(w)[1] * group
        weights = b.constant(
            f"{w}/oi", b.delayed(w).then(f"transpose_groups({group})", lambda a: _output_first(a, group))
        )
        bias = node.input(2) or b.constant(f"{node.outputs[0]}/bias", Const(np.zeros(channels, np.float32)))
        y = b.add(
            "ConvTranspose",
            [b.transpose(x, channels_last(rank)), weights, bias],
            {**attrs, "group": group},
            f"{node.outputs[0]}/channels_last",
        )
        b.transpose(y, channels_first(rank), node.outputs[0])

    def infer(self, attrs: Mapping[str, Any], shapes: Sequence[Shape]) -> tuple[Shape, ...]:
        x, w, bias = shapes
        if as_hwc(x)[2] != w[1] * attrs["group"]:
            raise Malformed(
                f"{as_hwc(x)[2]} input channels do not fit weights {list(w)} with group {attrs['group']}",
                "check the shapes of its inputs",
            )
        check_bias(bias, w[0])
        return (from_hwc(attrs["size"], w[0], len(x)),)

    def float_ref(self, attrs: Mapping[str, Any], inputs: Sequence[Array]) -> tuple[Array, ...]:
        x, w, bias = inputs
        y = _scatter(attrs, x.reshape(as_hwc(x.shape)), _ohwi(w).astype(x.dtype)) + bias
        y = np.clip(y, attrs.get("act_min", -np.inf), attrs.get("act_max", np.inf)).astype(np.float32)
        return (y.reshape(from_hwc(attrs["size"], y.shape[2], x.ndim)),)

    def patches(self, attrs: Mapping[str, Any], x: Array) -> Array | None:
        h, wd, channels = as_hwc(x.shape)
        group = attrs["group"]
        grouped = x.reshape(h, wd, group, channels // group)
        full = _full(attrs, grouped, (*grouped.shape[2:], *attrs["kernel"]))
        for tap, met in _taps(attrs, h, wd):
            full[(*met, ..., *tap)] = grouped
        outputs = prod(attrs["size"])
        return _cropped(attrs, full).reshape(outputs, group, -1).transpose(1, 0, 2)

    def lower(self, node: Node, c: LowerContext) -> None:
        x, w, bias = node.inputs
        y, a = node.outputs[0], node.attrs
        plain = replace(c.qtype(x), zero_point=(0,))  # the kernel subtracts the zero point itself
        k = linear_constants(c.const(w), c.qtype(w), c.const(bias), plain, c.qtype(y), node.name, mode_of(a))
        lo, hi = clamp_limits(c.qtype(y), a)
        params = ConvTranspose2dParams(
            *as_hwc(c.shape(x)), *as_hwc(c.shape(y)), *_pairs(a),
            a["group"], k.requant.shift, c.qtype(y).zero_point[0], lo, hi,
            c.qtype(x).zero_point[0],
        )  # fmt: skip
        constants = {**k.as_dict(), "weights": k.weights.then("ohwi", _ohwi)}
        macs = int(np.prod(as_hwc(c.shape(x)))) * int(np.prod(a["kernel"])) * c.shape(w)[0] // a["group"]
        c.add(node, k.op("conv_transpose2d"), [x], y, params, constants, macs=macs)


def _pairs(attrs: Mapping[str, Any]) -> tuple[int, int, int, int, int, int, int, int]:
    """kernel, strides, dilations and pads as one tuple."""
    k, s, d, p = (attrs[name] for name in ("kernel", "strides", "dilations", "pads"))
    return (k[0], k[1], s[0], s[1], d[0], d[1], p[0], p[1])


def _attrs(node: OnnxNode, spatial: Sequence[int], kernel: Sequence[int]) -> dict[str, Any]:
    """Window and output size as pairs. Only the pads at the beginning are kept, because the size determines where the
    output ends.
    """
    rank = len(spatial)
    if rank not in (1, 2):
        raise Refused(f"{rank} spatial dimensions", "only 1-D and 2-D are supported")
    strides = list(node.attrs.get("strides", [1] * rank))
    dilations = list(node.attrs.get("dilations", [1] * rank))
    check_steps(rank, kernel, strides, dilations)
    extra = list(node.attrs.get("output_padding", [0] * rank))
    if len(extra) != rank or min(extra) < 0:
        raise Malformed(f"output_padding {extra} for {rank} spatial dimensions", "one number of at least 0 for each")
    full = [
        (n - 1) * s + (k - 1) * d + 1 + e
        for n, s, k, d, e in zip(spatial, strides, kernel, dilations, extra, strict=True)
    ]
    begin, size = _cut(node, full, [n * s for n, s in zip(spatial, strides, strict=True)])
    one = [1] * (2 - rank)
    return {
        "kernel": (*kernel, *one),
        "strides": (*strides, *one),
        "dilations": (*dilations, *one),
        "pads": (*begin, *[0] * (2 - rank)),
        "size": (*size, *one),
    }


def _cut(node: OnnxNode, full: list[int], same: list[int]) -> tuple[list[int], list[int]]:
    """The rows and columns that are cut off at the beginning of the full output, and the sizes that remain."""
    rank, auto = len(full), node.attrs.get("auto_pad", "NOTSET")
    wanted = node.attrs.get("output_shape")
    if wanted is not None or auto in ("SAME_UPPER", "SAME_LOWER"):
        size = list(wanted)[-rank:] if wanted is not None else same
        total = [f - s for f, s in zip(full, size, strict=True)]
        begin = [t // 2 if auto == "SAME_UPPER" else t - t // 2 for t in total]
        return [max(0, p) for p in begin], size
    pads = list(node.attrs.get("pads", [0] * (2 * rank))) if auto == "NOTSET" else [0] * (2 * rank)
    if any(p < 0 for p in pads):
        raise Refused(f"negative pads {pads}", "pad the output instead")
    if len(pads) != 2 * rank:
        raise Malformed(f"pads {pads} for {rank} spatial dimensions", "two numbers for each")
    check_largest(*pads)
    return pads[:rank], [f - pads[i] - pads[i + rank] for i, f in enumerate(full)]


def _output_first(w: Array, group: int) -> Array:
    """Turn [C, O/group, ...] into [O, C/group, ...]."""
    grouped = w.reshape(group, w.shape[0] // group, *w.shape[1:])
    return np.ascontiguousarray(np.swapaxes(grouped, 1, 2)).reshape(-1, w.shape[0] // group, *w.shape[2:])


def _ohwi(w: Array) -> Array:
    """Turn [O, I, kh(, kw)] into [O, kh, kw, I]."""
    return np.ascontiguousarray(w.reshape(*w.shape[:3], -1).transpose(0, 2, 3, 1))


def _scatter(attrs: Mapping[str, Any], x: Array, w: Array) -> Array:
    """The sums [out_h, out_w, O] in the dtype of x, for x [H, W, C] and w [O, kh, kw, C/group]."""
    h, wd, channels = x.shape
    group, full = attrs["group"], _full(attrs, x, (w.shape[0],))
    grouped = x.reshape(h, wd, group, channels // group)
    weights = w.reshape(group, w.shape[0] // group, *w.shape[1:])
    for (ky, kx), met in _taps(attrs, h, wd):
        full[met] += np.einsum("yxgi,goi->yxgo", grouped, weights[:, :, ky, kx]).reshape(h, wd, -1)
    return _cropped(attrs, full)


def _full(attrs: Mapping[str, Any], x: Array, each: tuple[int, ...]) -> Array:
    """Zeros [rows, columns, *each] for the outputs before they are cropped."""
    (kh, kw), (sh, sw), (dh, dw) = attrs["kernel"], attrs["strides"], attrs["dilations"]
    (top, left), (out_h, out_w), (h, wd) = attrs["pads"], attrs["size"], x.shape[:2]
    return np.zeros((max(h * sh + kh * dh, out_h + top), max(wd * sw + kw * dw, out_w + left), *each), x.dtype)


def _taps(attrs: Mapping[str, Any], h: int, wd: int) -> Iterator[tuple[tuple[int, int], tuple[slice, slice]]]:
    """Each tap with the rows and columns of the full output that it meets, one for each of the h * wd inputs."""
    (kh, kw), (sh, sw), (dh, dw) = attrs["kernel"], attrs["strides"], attrs["dilations"]
    for ky, kx in product(range(kh), range(kw)):
        y, x = ky * dh, kx * dw
        yield (ky, kx), (slice(y, y + (h - 1) * sh + 1, sh), slice(x, x + (wd - 1) * sw + 1, sw))


def _cropped(attrs: Mapping[str, Any], full: Array) -> Array:
    (top, left), (out_h, out_w) = attrs["pads"], attrs["size"]
    return full[top : top + out_h, left : left + out_w]


@dataclass(frozen=True)
class ConvTranspose2dParams(ConvTransposeParams):
    """Shapes and the constants of the requantization."""

    shift: int = i32("of the requantization, 1..32")
    out_zero_point: int = i32("-128..127")
    lo: int = i32("smallest output, the fused activation included")
    hi: int = i32("largest output")
    in_zero_point: int = i32("subtracted from every input: how many taps meet an output depends on where it lies")


def plain_cost(product: float, code: int) -> Callable[[Node, Any], Cost]:
    """The cost of portable C, which tries every tap of an output and multiplies where one meets an input."""

    def cost(node: Node, target: Any) -> Cost:
        p = node.params
        return Cost(12.0 * p.out_h * p.out_w * p.out_c * p.kernel_h * p.kernel_w + product * node.macs, code)

    return cost


class ConvTranspose2dS8(KernelOp[ConvTranspose2dParams]):
    """Weights [O, kh, kw, C/groups]; the bias does not include the input's zero point."""

    name = "conv_transpose2d_s8"
    params = ConvTranspose2dParams
    constants = {"weights": "int8_t", "bias": "int32_t", "multiplier": "int32_t"}
    kernels: tuple[Kernel, ...] = (
        of_element(
            "ge_conv_transpose2d",
            "s8",
            "ge_conv_transpose2d_s8",
            cost=plain_cost(14.0, 700),
            store="rows",
        ),
    )
    geometry = TRANSPOSED

    def int_ref(self, p: ConvTranspose2dParams, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        attrs = {
            "kernel": (p.kernel_h, p.kernel_w), "strides": (p.stride_h, p.stride_w),
            "dilations": (p.dilation_h, p.dilation_w), "pads": (p.pad_top, p.pad_left),
            "size": (p.out_h, p.out_w), "group": p.groups,
        }  # fmt: skip
        x = inputs[0].reshape(p.in_h, p.in_w, p.in_c).astype(np.int64) - p.in_zero_point
        weights = constants["weights"].astype(np.int64)
        if "weight_zero_point" in constants:
            weights = weights - constants["weight_zero_point"][:, None, None, None]
        acc = _scatter(attrs, x, weights) + constants["bias"]
        q = fixedpoint.Requant(tuple(constants["multiplier"].tolist()), p.shift, self.requantization)
        return fixedpoint.requantize(acc, q, p.out_zero_point, p.lo, p.hi)


class ConvTranspose2dS8W4(ConvTranspose2dS8):
    """Transposed convolution with int4 weights, -8..7; everything else is as for int8 weights."""

    name = "conv_transpose2d_s8_w4"
    unpacks = "conv_transpose2d_s8"

    def weights_shape(self, p: ConvTranspose2dParams) -> Shape:
        return p.out_c, p.kernel_h, p.kernel_w, p.in_c // p.groups


class ConvTranspose2dS8Wt(ConvTranspose2dS8W4):
    """Transposed convolution with int8 weights that are at most sixteen different numbers."""

    name = "conv_transpose2d_s8_wt"
    of_table = True


class ConvTranspose2dAwS8(ConvTranspose2dS8):
    """Transposed convolution with asymmetric weights, whose zero point per output channel is subtracted in the kernel."""

    name = "conv_transpose2d_aw_s8"
    constants = {**ConvTranspose2dS8.constants, "weight_zero_point": "int32_t"}
    kernels = (
        of_element(
            "ge_conv_transpose2d",
            "aw_s8",
            "ge_conv_transpose2d_aw_s8",
            cost=plain_cost(16.0, 740),
            store="rows",
        ),
    )


OPS = (ConvTranspose(),)
KERNEL_OPS = (
    *in_all_modes(ConvTranspose2dS8()),
    *in_all_modes(ConvTranspose2dS8W4()),
    *in_all_modes(ConvTranspose2dS8Wt()),
    *in_all_modes(ConvTranspose2dAwS8()),
)
