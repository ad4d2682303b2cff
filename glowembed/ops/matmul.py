"""Product of two computed matrices: ONNX MatMul and Gemm where neither operand is a constant matrix.

The operands are A [.., M, K] and B [.., N, K]. Both are read along their rows, like queries and keys in attention. An
ONNX operand [.., K, N] gets a Transpose, which canonicalization merges with those around it. Kernel-level: matmul_s8,
matmul_s16; in float32 it is a loop nest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from glowembed.errors import UnsupportedModelError
from glowembed.graph.cstruct import i32
from glowembed.graph.geometry import Geometry
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
    Refused,
    in_all_modes,
    in_mode,
)
from glowembed.law import fixedpoint, wide
from glowembed.nest.program import Program, Recorder, Tensor
from glowembed.ops.moves import stored_constant
from glowembed.ops.nest import params_of
from glowembed.ops.shared import broadcast
from glowembed.ops.shared.linear import clamp_limits, mode_of, output_scales
from glowembed.records import dataclass


class MatMul(Op):
    """y[.., m, n] = sum over k (a[.., m, k] * b[.., n, k]); batches are broadcast."""

    name = "MatMul"
    rounds_once = True

    def import_onnx(self, node: OnnxNode, b: Builder) -> None:
        (_import_gemm if node.op_type == "Gemm" else _import_matmul)(node, b)

    def infer(self, attrs: Mapping[str, Any], shapes: Sequence[Shape]) -> tuple[Shape, ...]:
        a, b = shapes
        if a[-1] != b[-1]:
            raise Malformed(f"{a[-1]} columns times {b[-1]} rows", "the inner sizes must be the same")
        if a[-1] == 0:
            raise Refused("its sums are empty", "the inner size must not be 0")
        batch = broadcast.common_shape(a[:-2], b[:-2])
        if any(prod(shape[:-2]) not in (1, prod(batch)) for shape in shapes):
            raise Refused(f"the batches of {list(a)} and {list(b)} are both broadcast", "expand one of them first")
        return ((*batch, a[-2], b[-2]),)

    def float_ref(self, attrs: Mapping[str, Any], inputs: Sequence[Array]) -> tuple[Array, ...]:
        return (inputs[0] @ np.swapaxes(inputs[1], -1, -2),)

    def lower(self, node: Node, c: LowerContext) -> None:
        operands = [broadcast.stored_operand(c, name) for name in node.inputs]
        a, b, y = (c.qtype(name) for name in (*operands, node.outputs[0]))
        loops = Loops.of(*(c.shape(name) for name in operands))
        _check_sum(node.name, loops.k, a, b)
        mode = mode_of(node.attrs)
        q = fixedpoint.requant(output_scales(a.scale[0], np.asarray(b.scale), y.scale[0], mode), mode)
        law = (a.zero_point[0], b.zero_point[0], q.shift, y.zero_point[0], *clamp_limits(y, node.attrs))
        constants = {"multiplier": Const(np.asarray(q.multiplier, np.int32))}
        params = loops.params(*law)
        c.add(node, in_mode("matmul_s8", mode), operands, node.outputs[0], params, constants, macs=loops.macs)


def _check_sum(name: str, k: int, a: QType, b: QType) -> None:
    bound = k * _reach(a) * _reach(b)
    if bound >= 2**31:
        raise UnsupportedModelError(f"{name}: a sum of {k} products can reach {bound}, more than int32 holds")


def _reach(q: QType) -> int:
    """The largest distance of a stored number from the zero point."""
    return max(limit * sign - sign * q.zero_point[0] for limit, sign in zip(q.limits, (-1, 1), strict=True))


def _import_matmul(node: OnnxNode, b: Builder) -> None:
    left, right = node.inputs
    ranks = [len(b.shape(name)) for name in (left, right)]
    if min(ranks) < 2:
        raise Refused("an operand is a vector", "make it a matrix with Unsqueeze")
    b.add("MatMul", [left, _rows(b, right)], {}, node.outputs[0])


def _rows(b: Builder, name: str) -> str:
    """[.., K, N] as [.., N, K]."""
    rank = len(b.shape(name))
    perm = (*range(rank - 2), rank - 1, rank - 2)
    if b.const(name) is None:
        return b.transpose(name, perm)
    return b.constant(f"{name}/rows", b.delayed(name).then("rows", lambda a: np.ascontiguousarray(a.swapaxes(-1, -2))))


def _import_gemm(node: OnnxNode, b: Builder) -> None:
    """Import alpha * A' * B' + beta * C."""
    left, right = node.inputs[:2]
    left = b.transpose(left, (1, 0)) if node.attrs.get("transA", 0) else left
    right = right if node.attrs.get("transB", 0) else b.transpose(right, (1, 0))
    alpha, beta, y = float(node.attrs.get("alpha", 1.0)), float(node.attrs.get("beta", 1.0)), node.outputs[0]
    bias = node.input(2) if beta else None
    made = b.add("MatMul", [left, right], {}, y if bias is None and alpha == 1.0 else f"{y}/product")
    if alpha != 1.0:
        made = _times(node, b, made, alpha, y if bias is None else f"{y}/times_alpha")
    if bias is not None:
        bias = bias if beta == 1.0 else _times(node, b, bias, beta, f"{y}/times_beta")
        broadcast.import_pair("Add", replace(node, op_type="Add", inputs=(made, bias), outputs=(y,)), b)


def _times(node: OnnxNode, b: Builder, x: str, factor: float, output: str) -> str:
    constant = b.constant(f"{output}/factor", Const(np.asarray([factor], np.float32)))
    return broadcast.import_pair("Mul", replace(node, op_type="Mul", inputs=(x, constant), outputs=(output,)), b)


@dataclass(frozen=True)
class Loops:
    """Rows of the output, and for each of them m vectors of A times n vectors of B, all of k elements.

    If B is the same for all batches, a row of the output is one vector, which can be computed as soon as its vector of
    A is known; else it is the matrix of one batch.
    """

    rows: int
    steps: tuple[int, int]
    m: int
    n: int
    k: int

    @classmethod
    def of(cls, a: Shape, b: Shape) -> Loops:
        """The loops for the shapes of the operands."""
        batches = [prod(shape[:-2]) for shape in (a, b)]
        if batches[1] == 1:
            return cls(batches[0] * a[-2], (1, 0), 1, b[-2], b[-1])
        return cls(batches[1], (int(batches[0] > 1), 1), a[-2], b[-2], b[-1])

    @property
    def macs(self) -> int:
        """The number of products."""
        return self.rows * self.m * self.n * self.k

    def params(self, *law: int) -> MatmulParams:
        """The params of a kernel with these loops and the fields of its law."""
        return MatmulParams(self.rows, *self.steps, self.m, self.n, self.k, *law)


@dataclass(frozen=True)
class MatmulParams:
    """The loops, and the constants of ge_requantize for sums of (a - zero point) * (b - zero point)."""

    rows: int = i32("rows of the output, each m vectors of n elements")
    row_step_a: int = i32("1: A has a row of m vectors for each row of the output, 0: it has one for all")
    row_step_b: int = i32("the same for B, with n vectors")
    m: int = i32("vectors of A in a row")
    n: int = i32("vectors of B in a row")
    k: int = i32("elements of a vector")
    zero_point_a: int = i32("that of the type of A")
    zero_point_b: int = i32("that of the type of B")
    shift: int = i32("of the requantization: 1..32, or 1..62 in int16")
    out_zero_point: int = i32("that of the type of the output")
    lo: int = i32("smallest output")
    hi: int = i32("largest output")


MATRICES = Geometry(lambda p: int(p.rows), lambda p: ((p.m * p.k, p.n * p.k), p.m * p.n), broadcast.needs)


class MatmulS8(KernelOp[MatmulParams]):
    """Sums of int8 products, which fit in int32. float64 holds them exactly."""

    name = "matmul_s8"
    params = MatmulParams
    inputs = ("a", "b")
    constants = {"multiplier": "int32_t"}
    kernels: tuple[Kernel, ...] = (Kernel("ge_matmul_s8", cost=lambda n, t: Cost(8.0 * n.macs, 330), store="rows"),)
    geometry = MATRICES

    def sums(self, p: MatmulParams, inputs: Sequence[Array]) -> Array:
        """The sums of products, [rows, m, n]."""
        a = inputs[0].reshape(-1, p.m, p.k).astype(np.float64) - p.zero_point_a
        b = inputs[1].reshape(-1, p.n, p.k).astype(np.float64) - p.zero_point_b
        return (a @ b.swapaxes(1, 2)).astype(np.int64)

    def int_ref(self, p: MatmulParams, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        q = fixedpoint.Requant(tuple(constants["multiplier"].tolist()), p.shift, self.requantization)
        return fixedpoint.requantize(self.sums(p, inputs), q, p.out_zero_point, p.lo, p.hi)


def _lower_s16(node: Node, c: LowerContext) -> None:
    operands = [stored_constant(c, name) for name in node.inputs]
    a, b, y = (c.qtype(name) for name in (*operands, node.outputs[0]))
    loops = Loops.of(*(c.shape(name) for name in operands))
    q = wide.requant([a.scale[0] * b.scale[0] / y.scale[0]], loops.k * _reach(a) * _reach(b))
    law = (a.zero_point[0], b.zero_point[0], q.shift, y.zero_point[0], *clamp_limits(y, node.attrs))
    constants = {"multiplier": Const(np.asarray(q.multiplier, np.int32))}
    c.add(node, "matmul_s16", operands, node.outputs[0], loops.params(*law), constants, macs=loops.macs)


class MatmulS16(MatmulS8):
    """Sums of int16 products, which are below 2^53."""

    name = "matmul_s16"
    kernels = (Kernel("ge_matmul_s16", cost=lambda n, t: Cost(9.0 * n.macs, 300), store="rows"),)
    element_bytes = (2, 2)

    def int_ref(self, p: MatmulParams, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        q = wide.WideRequant(tuple(constants["multiplier"].tolist()), p.shift)
        return wide.requantize(self.sums(p, inputs), q, p.out_zero_point, p.lo, p.hi)


def _lower_f32(node: Node, c: LowerContext) -> None:
    """The loop nest of MatMul, where both operands are read along their rows."""
    operands = [stored_constant(c, name) for name in node.inputs]
    loops, y = Loops.of(*(c.shape(name) for name in operands)), node.outputs[0]
    c.add(node, "nest", operands, y, params_of(_program(loops, c.shape(y))), macs=loops.macs)


def _program(loops: Loops, shape: Shape) -> Program:
    k = Recorder()
    a, b = (
        Tensor(f"x{i}", (loops.rows if step else 1, size, loops.k), "float32")
        for i, (step, size) in enumerate(zip(loops.steps, (loops.m, loops.n), strict=True))
    )
    y = Tensor("y0", (loops.rows, loops.m, loops.n), "float32")
    with k.each(y.shape) as (row, m, n):
        first, second = (row if step else 0 for step in loops.steps)
        k.store(y, (row, m, n), k.sum([loops.k], lambda i: a[(first, m, i)] * b[(second, n, i)], "float32"))
    return Program((a, b), y, (), tuple(k.body))


OPS = (MatMul(),)
LOWERINGS = {("MatMul", "int16"): _lower_s16, ("MatMul", "float32"): _lower_f32}
KERNEL_OPS = (*in_all_modes(MatmulS8()), MatmulS16())
