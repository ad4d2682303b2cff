"""Sums, differences, products and straight lines in int16.

Kernel-level: add_s16, mul_s16, linear_s16 (a rescale, a clip, LeakyRelu and other functions with a kink at zero), and
the conversions rescale_s8_s16 and rescale_s16_s8. activation_wide.py has the other functions of one number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from math import prod
from typing import TypeVar

import numpy as np

from glowembed.graph.cstruct import i32
from glowembed.graph.geometry import ELEMENTWISE
from glowembed.graph.ir import Array, Node, QType
from glowembed.graph.op import Cost, Kernel, KernelOp, LowerContext
from glowembed.law import wide
from glowembed.ops.moves import stored_constant
from glowembed.ops.shared import broadcast
from glowembed.ops.shared.linear import clamp_limits
from glowembed.records import dataclass


@dataclass(frozen=True)
class AddS16Params(broadcast.LoopParams):
    """The loops of Broadcasting and the constants of ge_requantize_wide_pair."""

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
    """The loops of Broadcasting and the constants of ge_requantize_wide."""

    zero_point_a: int = i32("-32768..32767")
    zero_point_b: int = i32("-32768..32767")
    multiplier: int = i32("of the product")
    shift: int = i32("1..62")
    out_zero_point: int = i32("-32768..32767")
    lo: int = i32("smallest output, the fused activation included")
    hi: int = i32("largest output")


@dataclass(frozen=True)
class _Pair:
    """The parts that the lowerings of two operands have in common: names, types, and the first and last fields of the
    params.
    """

    operands: list[str]
    a: QType
    b: QType
    y: QType
    head: tuple[int, int, int, tuple[int, ...], tuple[int, ...], tuple[int, ...], int, int]
    tail: tuple[int, int, int]

    @classmethod
    def of(cls, node: Node, c: LowerContext) -> _Pair:
        operands, y = [stored_constant(c, name) for name in node.inputs], c.qtype(node.outputs[0])
        a, b = (c.qtype(name) for name in operands)
        loops = broadcast.broadcasting(*(c.shape(name) for name in operands))
        head = (loops.rows, *loops.row_steps, loops.dims, *loops.strides, a.zero_point[0], b.zero_point[0])
        return cls(operands, a, b, y, head, (y.zero_point[0], *clamp_limits(y, node.attrs)))


def _product(node: Node, c: LowerContext) -> None:
    pair = _Pair.of(node, c)
    q = wide.requant([pair.a.scale[0] * pair.b.scale[0] / pair.y.scale[0]], 2**34)
    params = MulS16Params(*pair.head, q.multiplier[0], q.shift, *pair.tail)
    c.add(node, "mul_s16", pair.operands, node.outputs[0], params)


def _sum(node: Node, c: LowerContext, sign: float = 1.0) -> None:
    """a + sign * b."""
    pair = _Pair.of(node, c)
    q = wide.requant([pair.a.scale[0] / pair.y.scale[0], sign * pair.b.scale[0] / pair.y.scale[0]], 2**18)
    params = AddS16Params(*pair.head, q.multiplier[0], q.multiplier[1], q.shift, *pair.tail)
    c.add(node, "add_s16", pair.operands, node.outputs[0], params)


PairParams = TypeVar("PairParams", AddS16Params, MulS16Params)


class _PairS16(KernelOp[PairParams]):
    inputs = ("a", "b")
    geometry = broadcast.GEOMETRY
    element_bytes = (2, 2)

    def real(self, p: PairParams, inputs: Sequence[Array]) -> tuple[Array, Array]:
        """Both operands minus their zero points, in shapes that numpy broadcasts."""
        a, b = (x.reshape(s).astype(np.int64) for x, s in zip(inputs, broadcast.operand_shapes(p), strict=True))
        return a - p.zero_point_a, b - p.zero_point_b


class AddS16(_PairS16[AddS16Params]):
    """a + b, or a - b."""

    name = "add_s16"
    params = AddS16Params
    kernels = (
        Kernel(
            "ge_add_s16",
            template="ge_pair",
            headers={"pair_add_f32.h": "pair_add_s16.h"},
            cost=lambda n, t: Cost(26.0 * n.params.rows * prod(n.params.dims), 300),
            store="elements",
        ),
    )

    def int_ref(self, p: AddS16Params, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        q = wide.WideRequant((p.multiplier_a, p.multiplier_b), p.shift)
        return wide.requantize_pair(*self.real(p, inputs), q, p.out_zero_point, p.lo, p.hi)


class MulS16(_PairS16[MulS16Params]):
    """a * b."""

    name = "mul_s16"
    params = MulS16Params
    kernels = (
        Kernel(
            "ge_mul_s16",
            template="ge_pair",
            headers={"pair_add_f32.h": "pair_mul_s16.h"},
            cost=lambda n, t: Cost(28.0 * n.params.rows * prod(n.params.dims), 300),
            store="elements",
        ),
    )

    def int_ref(self, p: MulS16Params, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        a, b = self.real(p, inputs)
        return wide.requantize(a * b, wide.WideRequant((p.multiplier,), p.shift), p.out_zero_point, p.lo, p.hi)


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
"""For each op, the slopes below and above zero."""

LINEAR_OPS = (*LINEAR, "LeakyRelu")
"""All ops whose function is a line on each side of zero."""


def _linear(node: Node, c: LowerContext) -> None:
    x, y = node.inputs[0], node.outputs[0]
    xq, yq, attrs = c.qtype(x), c.qtype(y), node.attrs
    below, above = (attrs["alpha"], 1.0) if "alpha" in attrs else LINEAR[node.op]
    q = wide.requant([below * xq.scale[0] / yq.scale[0], above * xq.scale[0] / yq.scale[0]], 2**17)
    limits = {"act_min": attrs["min"], "act_max": attrs["max"]} if "min" in attrs else {}
    rows = broadcast.rows_of(c.shape(x))
    lo, hi = clamp_limits(yq, limits)
    slopes = (q.multiplier[0], q.multiplier[1], q.shift)
    size = (rows, prod(c.shape(x)) // rows)
    params = LinearS16Params(*size, xq.zero_point[0], *slopes, yq.zero_point[0], lo, hi)
    names = {("int16", "int16"): "linear_s16", ("int8", "int16"): "rescale_s8_s16", ("int16", "int8"): "rescale_s16_s8"}
    c.add(node, names[xq.dtype, yq.dtype], [x], y, params)


class LinearS16(KernelOp[LinearS16Params]):
    """y = requantize(x - in_zero_point) with the multiplier of its side of zero."""

    name = "linear_s16"
    params = LinearS16Params
    element_bytes = (2, 2)
    dtype = "int16"
    kernels = (
        Kernel(
            "ge_linear_s16",
            template="ge_linear",
            cost=lambda n, t: Cost(18.0 * n.params.rows * n.params.row, 150),
            store="elements",
        ),
    )
    geometry = ELEMENTWISE

    def int_ref(self, p: LinearS16Params, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        x = inputs[0].astype(np.int64) - p.in_zero_point
        scaled = x * np.where(x < 0, np.int64(p.multiplier_below), np.int64(p.multiplier_above))
        return wide.requantize(scaled, wide.WideRequant((1,), p.shift), p.out_zero_point, p.lo, p.hi, self.dtype)


class RescaleS8S16(LinearS16):
    """Conversion from int8 to int16."""

    name, element_bytes = "rescale_s8_s16", (1, 2)
    kernels = (
        Kernel(
            "ge_rescale_s8_s16",
            template="ge_linear",
            words={"FROM": "int8_t"},
            cost=lambda n, t: Cost(18.0 * n.params.rows * n.params.row, 150),
            store="rows",
        ),
    )


class RescaleS16S8(LinearS16):
    """Conversion from int16 to int8."""

    name, element_bytes, dtype = "rescale_s16_s8", (2, 1), "int8"
    kernels = (
        Kernel(
            "ge_rescale_s16_s8",
            template="ge_linear",
            words={"TO": "int8_t"},
            cost=lambda n, t: Cost(18.0 * n.params.rows * n.params.row, 150),
            store="rows",
        ),
    )


LOWERINGS = {
    ("Add", "int16"): _sum,
    ("Sub", "int16"): partial(_sum, sign=-1.0),
    ("Mul", "int16"): _product,
    **{(op, "int16"): _linear for op in LINEAR_OPS},
}
KERNEL_OPS = (AddS16(), MulS16(), LinearS16(), RescaleS8S16(), RescaleS16S8())
