"""A scale and a shift per channel: ONNX BatchNormalization, Div by a constant, and whatever of Add, Sub and Mul by
constants canonicalization does not fold into a neighbour.

Input [..., C], scale and shift [C], or [1] for all channels alike. Kernel-level: depthwise_s8 with one tap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from glowembed import broadcast
from glowembed.ir import Array, Const, Node, QType, Shape
from glowembed.linear import clamp_limits, linear_constants, mode_of
from glowembed.op import Builder, LowerContext, OnnxNode, Op, Refused, in_mode
from glowembed.ops.conv import Conv2dParams
from glowembed.spatial import as_hwc


class Affine(Op):
    """y[.., c] = x[.., c] * scale[c] + shift[c], then the fused clip.

    The attr `per_channel` is 0 when one scale and one shift hold for all channels: then the order of axes is no matter.
    """

    name = "Affine"
    onnx = ("BatchNormalization", "Div")
    has_weights = True
    fuses_activation = True

    def import_onnx(self, node: OnnxNode, b: Builder) -> None:
        (_import_div if node.op_type == "Div" else _import_batchnorm)(node, b)

    def infer(self, attrs: Mapping[str, Any], shapes: Sequence[Shape]) -> tuple[Shape, ...]:
        x, scale, shift = shapes
        size = x[-1] if attrs["per_channel"] else 1
        if not scale == shift == (size,):
            raise ValueError(f"scale {list(scale)} and shift {list(shift)} do not fit {x[-1]} channels")
        return (x,)

    def float_ref(self, attrs: Mapping[str, Any], inputs: Sequence[Array]) -> tuple[Array, ...]:
        x, scale, shift = inputs
        y = x * scale + shift
        return (np.clip(y, attrs.get("act_min", -np.inf), attrs.get("act_max", np.inf)).astype(np.float32),)

    def permute(self, attrs: Mapping[str, Any], perm: tuple[int, ...]) -> Mapping[str, Any] | None:
        return attrs if not attrs["per_channel"] or perm[-1] == len(perm) - 1 else None

    def lower(self, node: Node, c: LowerContext) -> None:
        x, scale, shift = node.inputs
        y, shape = node.outputs[0], c.shape(node.inputs[0])
        channels = shape[-1]
        weights = _column(c.const(scale), channels)
        bias = c.const(shift).then(f"all({channels})", lambda a: np.broadcast_to(a, (channels,)))
        mode, wq = mode_of(node.attrs), _all(c.qtype(scale), channels)
        k = linear_constants(weights, wq, bias, c.qtype(x), c.qtype(y), node.name, mode)
        params = _one_tap(shape, c.qtype(x), c.qtype(y), k.requant.shift, clamp_limits(c.qtype(y), node.attrs))
        constants = {**k.as_dict(), "weights": k.weights.then("hwo", lambda a: a.reshape(1, 1, channels))}
        c.add(node, in_mode("depthwise_s8", mode), [x], y, params, constants, macs=prod(shape))


def _column(scale: Const, channels: int) -> Const:
    return scale.then(
        f"column({channels})", lambda a: np.ascontiguousarray(np.broadcast_to(a, (channels,)).reshape(-1, 1))
    )


def _all(qtype: QType, channels: int) -> QType:
    """The type of one scale for all channels, written out for each."""
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


# ------------------------------------------------------------------------------------------------ import


def _import_batchnorm(node: OnnxNode, b: Builder) -> None:
    """(x - mean) / sqrt(var + epsilon) * gamma + beta over axis 1, in float64."""
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
        raise Refused(f"the variance {names[3]!r} is negative", "check the training")
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
    """Scale and shift as delayed constants: gamma / sqrt(var + eps), beta - mean * scale."""

    def scale(array: Array) -> Array:
        return array.astype(np.float64) / np.sqrt(variance.materialize().astype(np.float64) + epsilon)

    def shift(array: Array) -> Array:
        return array.astype(np.float64) - mean.materialize().astype(np.float64) * scale(gamma.materialize())

    return gamma.then("batchnorm_scale", scale), beta.then("batchnorm_shift", shift)


def _import_div(node: OnnxNode, b: Builder) -> None:
    """A constant divisor is a factor."""
    x, divisor = node.inputs
    array = b.const(divisor)
    if array is None:
        raise Refused("the divisor is computed at run time", "only division by a constant is supported")
    if not array.all():
        raise Refused(f"the divisor {divisor!r} holds a zero", "divide by something else")
    factor = b.delayed(divisor).then("reciprocal", lambda a: 1.0 / a.astype(np.float64))
    times = replace(node, op_type="Mul", inputs=(x, b.constant(f"{divisor}/reciprocal", factor)), attrs={})
    broadcast.import_pair("Mul", times, b)


OPS = (Affine(),)
