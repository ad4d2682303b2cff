"""Sum and difference of two tensors, with broadcasting; either operand may be a constant.

ONNX operators Add, Sub. Kernel-level: add_s8 (both operands have the shape of the output), add_broadcast_s8.
A difference is a sum with a negative multiplier.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from glowembed.graph.cstruct import i32
from glowembed.graph.ir import Array, Const, Node, Shape
from glowembed.graph.op import Builder, Cost, Kernel, KernelOp, LowerContext, OnnxNode, Op, in_all_modes, in_mode
from glowembed.graph.target import Target
from glowembed.kernels import mve, x86
from glowembed.kernels.thumb import threes
from glowembed.law import fixedpoint
from glowembed.ops.shared import broadcast
from glowembed.ops.shared.linear import clamp_limits, mode_of


class Add(Op):
    """y = a + b, then the fused clip."""

    name = "Add"
    onnx = ("Add",)
    elementwise = True
    fuses_activation = True
    law_of_models = "onnx"
    sign = 1.0

    def import_onnx(self, node: OnnxNode, b: Builder) -> None:
        broadcast.import_pair(self.name, node, b)

    def infer(self, attrs: Mapping[str, Any], shapes: Sequence[Shape]) -> tuple[Shape, ...]:
        return (np.broadcast_shapes(*shapes),)

    def float_ref(self, attrs: Mapping[str, Any], inputs: Sequence[Array]) -> tuple[Array, ...]:
        y = inputs[0] + np.float32(self.sign) * inputs[1]
        return (np.clip(y, attrs.get("act_min", -np.inf), attrs.get("act_max", np.inf)).astype(np.float32),)

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


def _lower_each(node: Node, operands: Sequence[str], sign: int, mode: fixedpoint.Mode, c: LowerContext) -> None:
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


# ------------------------------------------------------------------------------------------ kernel level


@dataclass(frozen=True)
class AddParams:
    """Rows and the constants of ge_requantize_pair."""

    rows: int = i32("rows of each of the three tensors")
    row: int = i32("elements of a row")
    multiplier_a: int = i32("of the first operand, such that the sum stays inside int32")
    multiplier_b: int = i32("of the second operand; negative for a difference")
    offset: int = i32("zero points and rounding")
    shift: int = i32("1..22")
    lo: int = i32("smallest output, the fused activation included")
    hi: int = i32("largest output")


@dataclass(frozen=True)
class AddBroadcastParams(broadcast.LoopParams):
    """Loops of Broadcasting and the constants of ge_requantize_pair."""

    multiplier_a: int = i32("of the first operand, such that the sum stays inside int32")
    multiplier_b: int = i32("of the second operand; negative for a difference")
    offset: int = i32("zero points and rounding")
    shift: int = i32("1..22")
    lo: int = i32("smallest output, the fused activation included")
    hi: int = i32("largest output")


@dataclass(frozen=True)
class AddEachParams(broadcast.LoopParams):
    """Loops of Broadcasting and the constants of ge_requantize_each but for its words."""

    zero_point_a: int = i32("-128..127")
    zero_point_b: int = i32("-128..127")
    out_zero_point: int = i32("-128..127")
    lo: int = i32("smallest output, the fused activation included")
    hi: int = i32("largest output")


def _sum(p: Any, a: Array, b: Array) -> Array:
    q = fixedpoint.PairRequant((p.multiplier_a, p.multiplier_b), p.offset, p.shift)
    return fixedpoint.requantize_pair(a, b, q, p.lo, p.hi)


def _dsp_why_not(node: Node, target: Target) -> str | None:
    largest = max(abs(node.params.multiplier_a), abs(node.params.multiplier_b))
    return f"a multiplier is {largest}, more than int16" if largest > 32767 else None


def _dsp_element(p: AddBroadcastParams) -> float:
    """Cycles: of both operands only one may change along a line."""
    return 6.9 if p.strides_a[-1] and p.strides_b[-1] else 4.7


class AddS8(KernelOp):
    """Element by element."""

    name = "add_s8"
    params = AddParams
    inputs = ("a", "b")
    kernels = (
        Kernel("ge_add_s8", cost=lambda n, t: Cost(16.0 * n.params.rows * n.params.row, 210), store="elements"),
        threes.ADD,
        mve.ADD,
        x86.ADD,
        Kernel(
            "ge_add_s8_dsp",
            isa="dsp",
            when=_dsp_why_not,
            instance=lambda p: {"SHIFT": p.shift},
            cost=lambda n, t: Cost(n.params.rows * (6.3 * n.params.row + 60), 550),
            store="elements",
        ),
        Kernel(
            "ge_add_fine_s8_dsp",
            isa="dsp",
            instance=lambda p: {"SHIFT": p.shift},
            cost=lambda n, t: Cost(n.params.rows * (6.8 * n.params.row + 60), 300),
            store="elements",
        ),
    )

    def rows(self, p: AddParams) -> int:
        return p.rows

    def row_bytes(self, p: AddParams) -> tuple[tuple[int, ...], int]:
        return (p.row, p.row), p.row

    def needs(self, p: AddParams, y: int) -> tuple[range, ...]:
        return range(y, y + 1), range(y, y + 1)

    def int_ref(self, p: AddParams, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        return _sum(p, inputs[0], inputs[1])


class AddBroadcastS8(KernelOp):
    """Element by element, where an operand may have one element for many outputs."""

    name = "add_broadcast_s8"
    params = AddBroadcastParams
    inputs = ("a", "b")
    kernels = (
        Kernel(
            "ge_add_broadcast_s8",
            cost=lambda n, t: Cost(18.0 * n.params.rows * prod(n.params.dims), 400),
            store="elements",
        ),
        mve.ADD_BROADCAST,
        Kernel(
            "ge_add_broadcast_s8_dsp",
            isa="dsp",
            instance=lambda p: {"SHIFT": p.shift},
            cost=lambda n, t: Cost(broadcast.lines_cost(n.params, _dsp_element(n.params), 70), 520),
            store="elements",
        ),
    )

    def rows(self, p: AddBroadcastParams) -> int:
        return p.rows

    def row_bytes(self, p: AddBroadcastParams) -> tuple[tuple[int, ...], int]:
        return broadcast.row_bytes(p)

    def needs(self, p: AddBroadcastParams, y: int) -> tuple[range, ...]:
        return broadcast.needs(p, y)

    def int_ref(self, p: AddBroadcastParams, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        return _sum(p, *broadcast.operands(p, inputs))


class AddEachS8(KernelOp):
    """Operands in steps of their own, for what add_broadcast_s8 cannot do; there is no default law for this.

    glow, tflite: each is rescaled and rounded by itself. onnx: halves go to even.
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

    def rows(self, p: AddEachParams) -> int:
        return p.rows

    def row_bytes(self, p: AddEachParams) -> tuple[tuple[int, ...], int]:
        return broadcast.row_bytes(p)

    def needs(self, p: AddEachParams, y: int) -> tuple[range, ...]:
        return broadcast.needs(p, y)

    def int_ref(self, p: AddEachParams, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        a, b = broadcast.operands(p, inputs)
        a, b, words = a - p.zero_point_a, b - p.zero_point_b, constants["words"].tolist()
        return fixedpoint.requantize_each(a, b, words, p.out_zero_point, p.lo, p.hi, self.requantization)


def _words(node: Node) -> list[int]:
    words: list[int] = node.constants["words"].materialize().tolist()
    return words


HALF = [2**30, 0]
"""Words of a scale of 1/2."""


def _tflite_why_not(node: Node, target: Target) -> str | None:
    w = _words(node)
    if HALF not in (w[0:2], w[2:4]):
        return "no operand has a scale of 1/2"
    if not all(-30 <= shift <= 0 for shift in (w[1], w[3])) or not -22 <= w[5] < 0:
        return f"shifts {w[1]}, {w[3]} and {w[5]}"
    return None


def _glow_why_not(node: Node, target: Target) -> str | None:
    w = _words(node)
    if w[1] or w[4]:
        return "an operand is shifted before it is multiplied"
    if max(w[2], w[5]) > 29 or 255 * max(w[0], w[3]) >= 2**29:
        return f"multipliers {w[0]} and {w[3]}, shifts {w[2]} and {w[5]}"
    return None


def _each(mode: str, isa: str, why_not: Callable[[Node, Target], str | None], element: float, line: float) -> Kernel:
    return Kernel(
        f"ge_add_each_s8_{mode}_{isa}",
        isa=isa,
        when=why_not,
        cost=lambda n, t: Cost(broadcast.lines_cost(n.params, element, line), 640 if mode == "tflite" else 460),
        store="elements",
    )


def _pairwise(why_not: Callable[[Node, Target], str | None]) -> Callable[[Node, Target], str | None]:
    """Both operands have an element of their own for each of a line."""

    def pairwise_why_not(node: Node, target: Target) -> str | None:
        steps = node.params.strides_a[-1], node.params.strides_b[-1]
        return why_not(node, target) if steps == (1, 1) else "an operand has one element for a line"

    return pairwise_why_not


EACH_LAWS = {
    "tflite": (
        _each("tflite", "dsp", _tflite_why_not, 31, 70),
        _each("tflite", "mve", _pairwise(_tflite_why_not), 7, 60),
    ),
    "glow": (_each("glow", "dsp", _glow_why_not, 15, 50), _each("glow", "mve", _pairwise(_glow_why_not), 4.3, 60)),
}
"""Kernels that know a law."""


def _each_ops() -> Iterator[KernelOp]:
    """add_each_s8 in the laws of others."""
    for op in in_all_modes(AddEachS8())[1:]:
        op.kernels = (*op.kernels, *EACH_LAWS.get(op.requantization, ()))
        yield op


OPS = (Add(), Sub())
KERNEL_OPS = (AddS8(), AddBroadcastS8(), *_each_ops())
