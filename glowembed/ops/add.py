"""Sum and difference of two tensors, with broadcasting; either operand may be a constant.

ONNX operators Add, Sub. Kernel-level: add_s8 (both operands have the shape of the output), add_broadcast_s8.
A difference is a sum with a negative multiplier.
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
from glowembed.ops.shared.linear import clamp_limits, mode_of
from glowembed.records import dataclass


class Add(Op):
    """y = a + b, then the fused clip."""

    name = "Add"
    onnx = ("Add",)
    elementwise = True
    dependence = "pair"
    rounds_once = True
    fuses_activation = True
    rounds_operands = ("glow", "tflite")
    law_of_models = "onnx"
    sign = 1.0

    def import_onnx(self, node: OnnxNode, b: Builder) -> None:
        broadcast.import_pair(self.name, node, b)

    def infer(self, attrs: Mapping[str, Any], shapes: Sequence[Shape]) -> tuple[Shape, ...]:
        return (broadcast.common_shape(*shapes),)

    def float_ref(self, attrs: Mapping[str, Any], inputs: Sequence[Array]) -> tuple[Array, ...]:
        y = inputs[0] + np.float32(self.sign) * inputs[1]
        return (np.clip(y, attrs.get("act_min", -np.inf), attrs.get("act_max", np.inf)).astype(np.float32),)

    def scale_and_shift(self, constant: Const, reverse: bool) -> tuple[Const, Const]:
        return constant.then("ones", np.ones_like), constant

    def lower(self, node: Node, c: LowerContext) -> None:
        operands = [broadcast.stored_operand(c, name) for name in node.inputs]
        a, b, y = (c.qtype(name) for name in (*operands, node.outputs[0]))
        mode = mode_of(node.attrs)
        fine = mode == "onnx" and not fixedpoint.sums_meet_halves(a.scale[0], b.scale[0], y.scale[0])
        if mode != "default" and not fine:
            _lower_each(node, operands, int(self.sign), mode, c)
            return
        scales = (a.scale[0] / y.scale[0], self.sign * b.scale[0] / y.scale[0])
        q = fixedpoint.pair_requant(scales, (a.zero_point[0], b.zero_point[0]), y.zero_point[0], fine)
        law = (*q.multiplier, q.offset, q.shift, *clamp_limits(y, node.attrs))
        shapes = [c.shape(name) for name in operands]
        if shapes[0] == shapes[1]:
            rows = broadcast.rows_of(shapes[0])
            c.add(node, "add_s8", operands, node.outputs[0], AddParams(rows, prod(shapes[0]) // rows, *law))
            return
        loops = broadcast.broadcasting(*shapes)
        params = AddBroadcastParams(loops.rows, *loops.row_steps, loops.dims, *loops.strides, *law)
        c.add(node, "add_broadcast_s8", operands, node.outputs[0], params)


def _lower_each(node: Node, operands: Sequence[str], sign: int, mode: Mode, c: LowerContext) -> None:
    a, b, y = (c.qtype(name) for name in (*operands, node.outputs[0]))
    words = fixedpoint.each_words(a.scale[0], b.scale[0], y.scale[0], sign, mode)
    loops = broadcast.broadcasting(*(c.shape(name) for name in operands))
    zero_points = (a.zero_point[0], b.zero_point[0], y.zero_point[0])
    params = AddEachParams(
        loops.rows, *loops.row_steps, loops.dims, *loops.strides, *zero_points, *clamp_limits(y, node.attrs)
    )
    constants = {"words": Const(np.asarray(words, np.int32))}
    c.add(node, in_mode("add_each_s8", mode), operands, node.outputs[0], params, constants)


class Sub(Add):
    """y = a - b, then the fused clip."""

    name = "Sub"
    onnx = ("Sub",)
    sign = -1.0

    def scale_and_shift(self, constant: Const, reverse: bool) -> tuple[Const, Const]:
        ones = constant.then("ones", np.ones_like)
        if reverse:
            return ones.then("negative", np.negative), constant
        return ones, constant.then("negative", np.negative)


@dataclass(frozen=True)
class _PairConstants:
    """The constants of ge_requantize_pair. It is the first base class, so that its fields come after those of the
    sizes.
    """

    multiplier_a: int = i32("of the first operand, such that the sum stays inside int32")
    multiplier_b: int = i32("of the second operand; negative for a difference")
    offset: int = i32("zero points and rounding")
    shift: int = i32("1..22")
    lo: int = i32("smallest output, the fused activation included")
    hi: int = i32("largest output")


@dataclass(frozen=True)
class AddParams(_PairConstants, broadcast.PairRows):
    """The number of rows and the constants of ge_requantize_pair."""


@dataclass(frozen=True)
class AddBroadcastParams(_PairConstants, broadcast.LoopParams):
    """The loops of Broadcasting and the constants of ge_requantize_pair."""


@dataclass(frozen=True)
class AddEachParams(broadcast.LoopParams):
    """The loops of Broadcasting and the constants of ge_requantize_each, except its words."""

    zero_point_a: int = i32("-128..127")
    zero_point_b: int = i32("-128..127")
    out_zero_point: int = i32("-128..127")
    lo: int = i32("smallest output, the fused activation included")
    hi: int = i32("largest output")


def _sum(p: _PairConstants, a: Array, b: Array) -> Array:
    q = fixedpoint.PairRequant((p.multiplier_a, p.multiplier_b), p.offset, p.shift)
    return fixedpoint.requantize_pair(a, b, q, p.lo, p.hi)


class AddS8(KernelOp[AddParams]):
    """Sum of two tensors of the same shape, element by element."""

    name = "add_s8"
    params = AddParams
    inputs = ("a", "b")
    kernels = (Kernel("ge_add_s8", cost=lambda n, t: Cost(16.0 * n.params.rows * n.params.row, 210), store="elements"),)
    geometry = PAIRS

    def int_ref(self, p: AddParams, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        return _sum(p, inputs[0], inputs[1])


class AddBroadcastS8(KernelOp[AddBroadcastParams]):
    """Sum element by element, where an operand may have one element for many outputs."""

    name = "add_broadcast_s8"
    params = AddBroadcastParams
    inputs = ("a", "b")
    kernels = (
        Kernel(
            "ge_add_broadcast_s8",
            template="ge_pair",
            headers={"pair_add_f32.h": "pair_add_s8.h"},
            cost=lambda n, t: Cost(18.0 * n.params.rows * prod(n.params.dims), 400),
            store="elements",
        ),
    )
    geometry = broadcast.GEOMETRY

    def int_ref(self, p: AddBroadcastParams, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        return _sum(p, *broadcast.operands(p, inputs))


class AddEachS8(KernelOp[AddEachParams]):
    """The sum of two operands for laws that add_broadcast_s8 cannot compute; the default law does not have it. In glow
    and tflite each operand is rescaled and rounded separately; in onnx halves are rounded to even.
    """

    name = "add_each_s8"
    params = AddEachParams
    inputs = ("a", "b")
    constants = {"words": "int32_t"}
    kernels = (
        Kernel(
            "ge_add_each_s8",
            cost=lambda n, t: Cost(40.0 * n.params.rows * prod(n.params.dims), 420),
            store="elements",
        ),
    )
    geometry = broadcast.GEOMETRY

    def int_ref(self, p: AddEachParams, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        a, b = broadcast.operands(p, inputs)
        a, b, words = a - p.zero_point_a, b - p.zero_point_b, constants["words"].tolist()
        return fixedpoint.requantize_each(a, b, words, p.out_zero_point, p.lo, p.hi, self.requantization)


OPS = (Add(), Sub())
KERNEL_OPS = (AddS8(), AddBroadcastS8(), *in_all_modes(AddEachS8())[1:])
