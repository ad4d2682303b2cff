"""Product of two tensors, with broadcasting; either operand may be a constant.

ONNX operator Mul. Kernel-level: mul_s8 (both operands have the shape of the output), mul_broadcast_s8.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from glowembed.graph.cstruct import i32
from glowembed.graph.geometry import PAIRS
from glowembed.graph.ir import Array, Const, Node, Shape
from glowembed.graph.op import Builder, Cost, Kernel, KernelOp, LowerContext, OnnxNode, Op, in_all_modes, in_mode
from glowembed.law import fixedpoint
from glowembed.law.modes import Mode
from glowembed.ops.shared import broadcast
from glowembed.ops.shared.linear import clamp_limits, mode_of, output_scales
from glowembed.records import dataclass


class Mul(Op):
    """y = a * b, then the fused clip."""

    name = "Mul"
    onnx = ("Mul",)
    elementwise = True
    dependence = "pair"
    rounds_once = True
    fuses_activation = True

    def import_onnx(self, node: OnnxNode, b: Builder) -> None:
        broadcast.import_pair(self.name, node, b)

    def infer(self, attrs: Mapping[str, Any], shapes: Sequence[Shape]) -> tuple[Shape, ...]:
        return (broadcast.common_shape(*shapes),)

    def float_ref(self, attrs: Mapping[str, Any], inputs: Sequence[Array]) -> tuple[Array, ...]:
        y = inputs[0] * inputs[1]
        return (np.clip(y, attrs.get("act_min", -np.inf), attrs.get("act_max", np.inf)).astype(np.float32),)

    def scale_and_shift(self, constant: Const, reverse: bool) -> tuple[Const, Const]:
        return constant, constant.then("zeros", np.zeros_like)

    def lower(self, node: Node, c: LowerContext) -> None:
        operands = [broadcast.stored_operand(c, name) for name in node.inputs]
        a, b, y = (c.qtype(name) for name in (*operands, node.outputs[0]))
        mode = mode_of(node.attrs)
        q = fixedpoint.requant(output_scales(a.scale[0], np.asarray(b.scale), y.scale[0], mode), mode)
        constants = {"multiplier": Const(np.asarray(q.multiplier, np.int32))}
        zero_points = (a.zero_point[0], b.zero_point[0])
        law = (*zero_points, q.shift, y.zero_point[0], *clamp_limits(y, node.attrs))
        shapes = [c.shape(name) for name in operands]
        if shapes[0] == shapes[1]:
            rows = broadcast.rows_of(shapes[0])
            same = MulParams(rows, prod(shapes[0]) // rows, *law)
            c.add(node, in_mode("mul_s8", mode), operands, node.outputs[0], same, constants)
            return
        loops = broadcast.broadcasting(*shapes)
        params = MulBroadcastParams(loops.rows, *loops.row_steps, loops.dims, *loops.strides, *law)
        c.add(node, in_mode("mul_broadcast_s8", mode), operands, node.outputs[0], params, constants)


@dataclass(frozen=True)
class _ProductConstants:
    """The constants of ge_requantize for the product of (a - zero point) and (b - zero point). It is the first base
    class, so that its fields come after those of the sizes.
    """

    zero_point_a: int = i32("-128..127")
    zero_point_b: int = i32("-128..127")
    shift: int = i32("of the requantization, 1..32")
    out_zero_point: int = i32("-128..127")
    lo: int = i32("smallest output, the fused activation included")
    hi: int = i32("largest output")


@dataclass(frozen=True)
class MulParams(_ProductConstants, broadcast.PairRows):
    """The number of rows and the constants of ge_requantize for the product of (a - zero point) and (b - zero point)."""


@dataclass(frozen=True)
class MulBroadcastParams(_ProductConstants, broadcast.LoopParams):
    """The loops of Broadcasting and the constants of ge_requantize."""


def _product(p: _ProductConstants, a: Array, b: Array, words: Array, mode: Mode) -> Array:
    acc = (a.astype(np.int32) - p.zero_point_a) * (b.astype(np.int32) - p.zero_point_b)
    q = fixedpoint.Requant(tuple(words.tolist()), p.shift, mode)
    return fixedpoint.requantize(acc, q, p.out_zero_point, p.lo, p.hi)


class MulS8(KernelOp[MulParams]):
    """Product of two tensors of the same shape, element by element."""

    name = "mul_s8"
    params = MulParams
    inputs = ("a", "b")
    constants = {"multiplier": "int32_t"}
    kernels = (Kernel("ge_mul_s8", cost=lambda n, t: Cost(23.0 * n.params.rows * n.params.row, 330), store="elements"),)
    geometry = PAIRS

    def int_ref(self, p: MulParams, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        return _product(p, inputs[0], inputs[1], constants["multiplier"], self.requantization)


class MulBroadcastS8(KernelOp[MulBroadcastParams]):
    """Product element by element, where an operand may have one element for many outputs."""

    name = "mul_broadcast_s8"
    params = MulBroadcastParams
    inputs = ("a", "b")
    constants = {"multiplier": "int32_t"}
    kernels = (
        Kernel(
            "ge_mul_broadcast_s8",
            cost=lambda n, t: Cost(23.0 * n.params.rows * prod(n.params.dims), 520),
            store="elements",
        ),
    )
    geometry = broadcast.GEOMETRY

    def int_ref(self, p: MulBroadcastParams, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        return _product(p, *broadcast.operands(p, inputs), constants["multiplier"], self.requantization)


OPS = (Mul(),)
KERNEL_OPS = (*in_all_modes(MulS8()), *in_all_modes(MulBroadcastS8()))
