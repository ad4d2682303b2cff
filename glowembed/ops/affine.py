"""A scale and a shift per channel: ONNX BatchNormalization, Div by a constant, and Add, Sub and Mul by constants,
unless canonicalization folds them into a neighbour.

Input [..., C], scale and shift [C], or [1] for all channels alike. Kernel-level: affine_s8, whose constants have more
bits than int8 weights; in the laws of other engines, depthwise_s8 with one tap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from glowembed.errors import UnsupportedModelError
from glowembed.graph.cstruct import i32
from glowembed.graph.geometry import divided, per_row, sliding
from glowembed.graph.ir import Array, Const, Node, QType, Shape
from glowembed.graph.op import Builder, Cost, Kernel, KernelOp, LowerContext, Malformed, OnnxNode, Op, Refused
from glowembed.graph.spatial import as_hwc
from glowembed.law import fixedpoint
from glowembed.law.modes import Mode
from glowembed.ops.conv import Conv2dParams
from glowembed.ops.shared import broadcast
from glowembed.ops.shared.linear import clamp_limits, linear_constants, mode_of
from glowembed.records import dataclass


class Affine(Op):
    """y[.., c] = x[.., c] * scale[c] + shift[c], then the fused clip.

    The attr `per_channel` is 0 if one scale and one shift serve all channels; then the order of the axes does not
    matter.
    """

    name = "Affine"
    onnx = ("BatchNormalization", "Div")
    dependence = "pointwise"
    rounds_once = True
    has_weights = True
    rounds_weights = False
    fuses_activation = True

    def import_onnx(self, node: OnnxNode, b: Builder) -> None:
        (_import_div if node.op_type == "Div" else _import_batchnorm)(node, b)

    def infer(self, attrs: Mapping[str, Any], shapes: Sequence[Shape]) -> tuple[Shape, ...]:
        x, scale, shift = shapes
        size = x[-1] if attrs["per_channel"] else 1
        if not scale == shift == (size,):
            raise Malformed(
                f"scale {list(scale)} and shift {list(shift)} do not fit {x[-1]} channels",
                "check the shapes of its inputs",
            )
        return (x,)

    def float_ref(self, attrs: Mapping[str, Any], inputs: Sequence[Array]) -> tuple[Array, ...]:
        x, scale, shift = inputs
        y = x * scale + shift
        return (np.clip(y, attrs.get("act_min", -np.inf), attrs.get("act_max", np.inf)).astype(np.float32),)

    def permute(self, attrs: Mapping[str, Any], perm: tuple[int, ...]) -> Mapping[str, Any] | None:
        return attrs if not attrs["per_channel"] or perm[-1] == len(perm) - 1 else None

    def lower(self, node: Node, c: LowerContext) -> None:
        mode = mode_of(node.attrs)
        if mode != "default":
            _lower_as_depthwise(node, c, mode)
            return
        x, y, shape = node.inputs[0], node.outputs[0], c.shape(node.inputs[0]) or (1,)
        scale, shift = (c.const(name).materialize() for name in node.inputs[1:])
        limits, rows = clamp_limits(c.qtype(y), node.attrs), broadcast.rows_of(shape)
        k = affine_constants(scale, shift, shape[-1], c.qtype(x), c.qtype(y), limits, node.name)
        params = AffineParams(rows, prod(shape) // rows // shape[-1], shape[-1], k.shift, *limits)
        constants = {"multiplier": Const(k.multiplier), "offset": Const(k.offset)}
        c.add(node, "affine_s8", [x], y, params, constants, macs=prod(shape))


def _lower_as_depthwise(node: Node, c: LowerContext, mode: Mode) -> None:
    """Lower to the arithmetic of other engines, which round weights and bias to integers first."""
    x, scale, shift = node.inputs
    y, shape = node.outputs[0], c.shape(node.inputs[0]) or (1,)
    channels = shape[-1]
    weights = _column(c.const(scale), channels)
    bias = c.const(shift).then(f"all({channels})", lambda a: np.broadcast_to(a, (channels,)))
    k = linear_constants(weights, _all(c.qtype(scale), channels), bias, c.qtype(x), c.qtype(y), node.name, mode)
    params = _one_tap(shape, c.qtype(x), c.qtype(y), k.requant.shift, clamp_limits(c.qtype(y), node.attrs))
    constants = {**k.as_dict(), "weights": k.weights.then("hwo", lambda a: a.reshape(1, 1, channels))}
    c.add(node, k.op("depthwise"), [x], y, params, constants, macs=prod(shape))


def _column(scale: Const, channels: int) -> Const:
    return scale.then(
        f"column({channels})", lambda a: np.ascontiguousarray(np.broadcast_to(a, (channels,)).reshape(-1, 1))
    )


def _all(qtype: QType, channels: int) -> QType:
    """The type of one scale, repeated for each channel."""
    if len(qtype.scale) == channels:
        return qtype
    return replace(qtype, scale=qtype.scale * channels, zero_point=qtype.zero_point * channels, axis=0)


def _one_tap(shape: Shape, xq: QType, yq: QType, shift: int, limits: tuple[int, int]) -> Conv2dParams:
    """A depthwise convolution with a 1 x 1 kernel over the tensor seen as rows, columns, channels."""
    images = len(shape) in (3, 4) and shape[0] == 1
    size = as_hwc(shape) if images else (prod(shape[:-1]), 1, shape[-1])
    return Conv2dParams(
        *size, *size, 1, 1, 1, 1, 1, 1, 0, 0, size[2],
        xq.zero_point[0], shift, yq.zero_point[0], *limits,
    )  # fmt: skip


@dataclass(frozen=True)
class AffineParams:
    """The sizes, and the constants that all channels share."""

    rows: int = i32("rows of input and output")
    vectors: int = i32("vectors of channels in a row")
    channels: int = i32("elements of a vector")
    shift: int = i32("1..22")
    lo: int = i32("smallest output, the fused activation included")
    hi: int = i32("largest output")


@dataclass(frozen=True, eq=False)
class AffineConstants:
    """Constants of y = clamp((x * multiplier + offset) >> shift), all in int32: |128 * multiplier| + |offset| < 2^31."""

    multiplier: Array
    offset: Array
    shift: int


def affine_constants(
    scale: Array, shift: Array, channels: int, xq: QType, yq: QType, limits: tuple[int, int], name: str
) -> AffineConstants:
    """The constants for real = scale * x + shift, per channel; the offset holds both zero points and the rounding.

    A channel that saturates for every input becomes a constant. Raises UnsupportedModelError for a gain of more than
    2^22.
    """
    with np.errstate(over="ignore"):
        gain = np.broadcast_to(scale.astype(np.float64), (channels,)) * (xq.scale[0] / yq.scale[0])
    base = np.broadcast_to(shift.astype(np.float64), (channels,)) / yq.scale[0] + yq.zero_point[0]
    base = base - gain * xq.zero_point[0]
    ends = np.stack([base - 128 * gain, base + 127 * gain])
    for stuck, end in ((ends.max(axis=0) < limits[0] - 1, limits[0]), (ends.min(axis=0) > limits[1] + 1, limits[1])):
        gain, base = np.where(stuck, 0.0, gain), np.where(stuck, float(end), base)
    reach = float((128 * np.abs(gain) + np.abs(base)).max())
    if not reach < 2.0**29:
        raise UnsupportedModelError(f"{name}: its output range is {reach / 128:g} times too small for its input")
    bits = fixedpoint.MAX_PAIR_SHIFT
    while (reach + 2) * 2.0**bits >= 2.0**31:
        bits -= 1
    multiplier, offset = (fixedpoint.round_half_up(v * 2.0**bits) for v in (gain, base))
    return AffineConstants(multiplier.astype(np.int32), (offset + 2 ** (bits - 1)).astype(np.int32), bits)


class AffineS8(KernelOp[AffineParams]):
    """Scale and shift channel by channel, with one rounding."""

    name = "affine_s8"
    params = AffineParams
    constants = {"multiplier": "int32_t", "offset": "int32_t"}
    kernels = (Kernel("ge_affine_s8", cost=lambda n, t: Cost(14.0 * n.macs, 240), store="elements"),)
    geometry = replace(
        sliding(per_row(lambda p: ((p.vectors * p.channels,), p.vectors * p.channels))), turned=divided("vectors")
    )

    def int_ref(self, p: AffineParams, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        x = inputs[0].reshape(-1, p.channels).astype(np.int64)
        total = x * constants["multiplier"].astype(np.int64) + constants["offset"]
        y: Array = np.clip(total >> np.int64(p.shift), p.lo, p.hi).astype(np.int8)
        return y


def _import_batchnorm(node: OnnxNode, b: Builder) -> None:
    """Import a BatchNormalization: (x - mean) / sqrt(var + epsilon) * gamma + beta over axis 1, in float64."""
    x, *names = node.inputs[:5]
    if node.attrs.get("training_mode", 0):
        raise Refused("it is in training mode", "export the model for inference")
    if len(names) < 4 or any(b.const(name) is None for name in names):
        raise Refused("its parameters are not constants", "they must be initializers or fold to constants")
    rank = len(b.shape(x))
    if rank < 2 or any(b.shape(name) != (b.shape(x)[1],) for name in names):
        raise Refused(
            f"its parameters {[list(b.shape(n)) for n in names]} do not fit an input of shape {list(b.shape(x))}"
        )
    gamma, beta, mean, variance = (b.delayed(name) for name in names)
    epsilon = float(node.attrs.get("epsilon", 1e-5))
    if not (variance.materialize() + epsilon > 0).all():
        raise Malformed(f"the variance {names[3]!r} is negative", "check the training")
    scale, shift = batchnorm(gamma, beta, mean, variance, epsilon)
    y = node.outputs[0]
    order = (0, *range(2, rank), 1)
    made = b.add(
        "Affine",
        [
            b.transpose(x, order),
            b.constant(f"{names[0]}/scale_of_{y}", scale),
            b.constant(f"{names[1]}/shift_of_{y}", shift),
        ],
        {"per_channel": 1},
        f"{y}/channels_last" if rank > 2 else y,
    )
    if rank > 2:
        b.transpose(made, (0, rank - 1, *range(1, rank - 1)), y)


def batchnorm(gamma: Const, beta: Const, mean: Const, variance: Const, epsilon: float) -> tuple[Const, Const]:
    """The scale and shift as delayed constants: gamma / sqrt(var + eps), beta - mean * scale."""

    def scale(array: Array) -> Array:
        return array.astype(np.float64) / np.sqrt(variance.materialize().astype(np.float64) + epsilon)

    def shift(array: Array) -> Array:
        return array.astype(np.float64) - mean.materialize().astype(np.float64) * scale(gamma.materialize())

    return gamma.then("batchnorm_scale", scale), beta.then("batchnorm_shift", shift)


def _import_div(node: OnnxNode, b: Builder) -> None:
    """Import a Div: a constant divisor becomes a factor."""
    x, divisor = node.inputs
    array = b.const(divisor)
    if array is None:
        raise Refused("the divisor is computed at run time", "write it as Reciprocal of the divisor, and Mul")
    if not array.all():
        raise Malformed(f"the divisor {divisor!r} holds a zero", "divide by something else")
    factor = b.delayed(divisor).then("reciprocal", lambda a: 1.0 / a.astype(np.float64))
    times = replace(node, op_type="Mul", inputs=(x, b.constant(f"{divisor}/reciprocal", factor)), attrs={})
    broadcast.import_pair("Mul", times, b)


OPS = (Affine(),)
KERNEL_OPS = (AffineS8(),)
