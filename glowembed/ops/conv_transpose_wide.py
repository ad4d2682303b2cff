"""ConvTranspose in float32 and in int16. Kernel-level: conv_transpose2d_f32, conv_transpose2d_s16 (weights int8) and
conv_transpose2d_s16_w16. The arithmetic is that of ops/float32.py and ops/conv_wide.py; taps that meet no input are
skipped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any, TypeVar

import numpy as np

from glowembed.graph.cstruct import f32, i32
from glowembed.graph.ir import Array, Node, Shape
from glowembed.graph.op import Kernel, KernelOp, LowerContext, of_element
from glowembed.graph.spatial import ConvTransposeParams, as_hwc
from glowembed.law import floatmath, wide
from glowembed.ops.conv import ohwi
from glowembed.ops.conv_transpose import plain_cost
from glowembed.ops.conv_wide import wide_constants
from glowembed.ops.float32 import float_limits, float_weights
from glowembed.ops.shared.linear import clamp_limits
from glowembed.ops.shared.windows import TRANSPOSED
from glowembed.records import dataclass


@dataclass(frozen=True)
class ConvTranspose2dF32Params(ConvTransposeParams):
    """Shapes and the fused activation."""

    lo: float = f32("smallest output")
    hi: float = f32("largest output")


@dataclass(frozen=True)
class ConvTranspose2dS16Params(ConvTransposeParams):
    """Shapes and the constants of the requantization."""

    in_zero_point: int = i32("subtracted from every input, -32768..32767")
    shift: int = i32("of the requantization, 1..62")
    out_zero_point: int = i32("-32768..32767")
    lo: int = i32("smallest output, the fused activation included")
    hi: int = i32("largest output")


def _shapes(node: Node, c: LowerContext) -> Any:
    """The first 15 fields of both params."""
    a = node.attrs
    window = (*a["kernel"], *a["strides"], *a["dilations"], *a["pads"], a["group"])
    return (*as_hwc(c.shape(node.inputs[0])), *as_hwc(c.shape(node.outputs[0])), *window)


def _macs(node: Node, x: Shape, w: Shape) -> int:
    kernel: Shape = node.attrs["kernel"]
    return prod(as_hwc(x)) * prod(kernel) * w[0] // int(node.attrs["group"])


def _float(node: Node, c: LowerContext) -> None:
    x, w, bias = node.inputs
    limits: Any = float_limits(node.attrs)
    params = ConvTranspose2dF32Params(*_shapes(node, c), *limits)
    constants = {"weights": float_weights(c.const(w).then("ohwi", ohwi)), "bias": float_weights(c.const(bias))}
    macs = _macs(node, c.shape(x), c.shape(w))
    c.add(node, "conv_transpose2d_f32", [x], node.outputs[0], params, constants, macs=macs)


def _wide(node: Node, c: LowerContext) -> None:
    """Lower to int16. The bias does not include the zero point, which the kernel subtracts, because not every tap meets
    an input.
    """
    x, w, bias = node.inputs
    y = node.outputs[0]
    xq, yq = c.qtype(x), c.qtype(y)
    k = wide_constants(c.const(w), c.qtype(w), c.const(bias), replace(xq, zero_point=(0,)), yq, node.name, 65536)
    law: Any = (xq.zero_point[0], k.shift, yq.zero_point[0], *clamp_limits(yq, node.attrs))
    params = ConvTranspose2dS16Params(*_shapes(node, c), *law)
    constants = {**k.as_dict(), "weights": k.weights.then("ohwi", ohwi)}
    macs = _macs(node, c.shape(x), c.shape(w))
    c.add(node, f"conv_transpose2d_{k.kernel}", [x], y, params, constants, macs=macs)


Transposed = TypeVar("Transposed", ConvTranspose2dF32Params, ConvTranspose2dS16Params)


class _ConvTranspose2d(KernelOp[Transposed]):
    geometry = TRANSPOSED

    def sums(self, p: Transposed, x: Array, w: Array, total: Array) -> Array:
        """Add the products to `total`, [out_h, out_w, O], tap by tap and channel by channel."""
        depth, group_out = p.in_c // p.groups, p.out_c // p.groups
        first = np.arange(p.out_c) // group_out * depth
        for ky in range(p.kernel_h):
            rows, from_rows = _meet(p.out_h, p.pad_top - ky * p.dilation_h, p.stride_h, p.in_h)
            for kx in range(p.kernel_w):
                columns, from_columns = _meet(p.out_w, p.pad_left - kx * p.dilation_w, p.stride_w, p.in_w)
                here, there = np.ix_(rows, columns), np.ix_(from_rows, from_columns)
                for i in range(depth):
                    total[here] = total[here] + x[there][:, :, first + i] * w[:, ky, kx, i]
        return total


def _meet(size: int, offset: int, stride: int, count: int) -> tuple[Array, Array]:
    """The indices of outputs that meet an input, and of the inputs that they meet."""
    at = np.arange(size) + offset
    met = (at >= 0) & (at % stride == 0) & (at // stride < count)
    return np.flatnonzero(met), at[met] // stride


class ConvTranspose2dF32(_ConvTranspose2d[ConvTranspose2dF32Params]):
    """Weights [O, kh, kw, C/groups]; the sum begins with the bias."""

    name = "conv_transpose2d_f32"
    params = ConvTranspose2dF32Params
    constants = {"weights": "float", "bias": "float"}
    kernels = (Kernel("ge_conv_transpose2d_f32", cost=plain_cost(36.0, 750), store="rows"),)
    element_bytes = (4, 4)

    def int_ref(self, p: ConvTranspose2dF32Params, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        total = np.broadcast_to(constants["bias"], (p.out_h, p.out_w, p.out_c)).astype(np.float32)
        x = inputs[0].reshape(p.in_h, p.in_w, p.in_c)
        return floatmath.clamp(self.sums(p, x, constants["weights"], total), p.lo, p.hi)


class ConvTranspose2dS16(_ConvTranspose2d[ConvTranspose2dS16Params]):
    """Weights int8 [O, kh, kw, C/groups]; the bias does not include the input's zero point."""

    name = "conv_transpose2d_s16"
    params = ConvTranspose2dS16Params
    constants = {"weights": "int8_t", "bias": "int64_t", "multiplier": "int32_t"}
    kernels = (
        of_element(
            "ge_conv_transpose2d",
            "s16",
            "ge_conv_transpose2d_s16",
            cost=plain_cost(18.0, 800),
            store="rows",
        ),
    )
    element_bytes = (2, 2)

    def int_ref(self, p: ConvTranspose2dS16Params, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        total = np.broadcast_to(constants["bias"], (p.out_h, p.out_w, p.out_c)).astype(np.int64)
        x = inputs[0].reshape(p.in_h, p.in_w, p.in_c).astype(np.int64) - p.in_zero_point
        acc = self.sums(p, x, constants["weights"].astype(np.int64), total)
        q = wide.WideRequant(tuple(constants["multiplier"].tolist()), p.shift)
        return wide.requantize(acc, q, p.out_zero_point, p.lo, p.hi)


class ConvTranspose2dS16W16(ConvTranspose2dS16):
    """The op with int16 weights."""

    name = "conv_transpose2d_s16_w16"
    constants = {**ConvTranspose2dS16.constants, "weights": "int16_t"}
    kernels = (
        of_element(
            "ge_conv_transpose2d",
            "s16_w16",
            "ge_conv_transpose2d_s16_w16",
            cost=plain_cost(18.0, 800),
            store="rows",
        ),
    )


LOWERINGS = {("ConvTranspose", "float32"): _float, ("ConvTranspose", "int16"): _wide}
KERNEL_OPS = (ConvTranspose2dF32(), ConvTranspose2dS16(), ConvTranspose2dS16W16())
