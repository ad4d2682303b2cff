"""The import, rows and broadcasting strides of ops with two operands, shared by Add, Sub and Mul.

Source: ONNX "Broadcasting in ONNX", multidirectional. A row of a [1, H, W, C] or [1, L, C] tensor is one index of the
second axis; any other tensor is one row. This module contains no arithmetic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np

from glowembed.graph.cstruct import i32
from glowembed.graph.geometry import Geometry
from glowembed.graph.ir import Array, Shape
from glowembed.graph.op import Builder, LowerContext, Malformed, OnnxNode, Refused
from glowembed.records import dataclass

DIMS = 4
"""The number of nested loops of the broadcasting kernels."""


def import_pair(op: str, node: OnnxNode, b: Builder) -> str:
    """Add a node with two operands of the same rank, and return the name of its output. The shorter shape gets leading
    axes of size 1.
    """
    rank = max(len(b.shape(name)) for name in node.inputs)
    operands = [_with_rank(name, rank, b) for name in node.inputs]
    shapes = [b.shape(name) for name in operands]
    if len(broadcasting(*shapes).dims) > DIMS:
        raise Refused(
            f"shapes {list(shapes[0])} and {list(shapes[1])} broadcast in too many ways", "reshape them first"
        )
    return b.add(op, operands, {}, node.outputs[0])


def _with_rank(name: str, rank: int, b: Builder) -> str:
    shape = b.shape(name)
    full = (1,) * (rank - len(shape)) + shape
    if full == shape:
        return name
    if b.const(name) is not None:
        return b.constant(
            f"{name}/{'x'.join(map(str, full))}", b.delayed(name).then("reshape", lambda a: a.reshape(full))
        )
    return b.add("Reshape", [name], {"shape": full}, f"{name}/{'x'.join(map(str, full))}")


def stored_operand(c: LowerContext, name: str) -> str:
    """The input of a kernel: an activation is unchanged, a constant becomes the int8 constant `<name>/int8`."""
    value = c.value(name)
    if value.const is None:
        return name
    qtype = c.qtype(name)
    stored = replace(value, name=f"{name}/int8", const=value.const.then("quantize", qtype.quantize))
    c.values[stored.name] = stored
    return stored.name


def rows_of(shape: Shape) -> int:
    """The number of rows that a kernel can compute one at a time."""
    return shape[1] if len(shape) in (3, 4) and shape[0] == 1 else 1


@dataclass(frozen=True)
class Broadcasting:
    """Loops over the dimensions of a row, in elements. A stride is 0 if one element of the operand serves the whole
    loop.
    """

    rows: int
    row_steps: tuple[int, int]
    dims: tuple[int, ...]
    strides: tuple[tuple[int, ...], tuple[int, ...]]


def common_shape(*shapes: Shape) -> Shape:
    """The shape to which all shapes are broadcast. Raises Malformed if there is none."""
    try:
        return tuple(int(size) for size in np.broadcast_shapes(*shapes))
    except ValueError as error:
        listed = ", ".join(str(list(shape)) for shape in shapes)
        raise Malformed(f"the shapes {listed} do not fit each other", "check the shapes of its inputs") from error


def broadcasting(a: Shape, b: Shape) -> Broadcasting:
    """The loops for two shapes; neighbouring dims with the same pattern in both operands become one loop."""
    out = common_shape(a, b)
    a, b = ((1,) * (len(out) - len(shape)) + shape for shape in (a, b))
    rows = rows_of(out)
    first = 2 if rows > 1 else 0
    steps = tuple(int(rows > 1 and s[1] > 1) for s in (a, b))
    dims: list[list[int]] = []
    for size, *sizes in zip(out[first:], a[first:], b[first:], strict=True):
        if dims and [s == size for s in sizes] == [
            s == d for s, d in zip(dims[-1][1:], [dims[-1][0]] * 2, strict=True)
        ]:
            dims[-1] = [n * m for n, m in zip(dims[-1], (size, *sizes), strict=True)]
        elif size > 1:
            dims.append([size, *sizes])
    padded = [[1, 1, 1]] * (DIMS - len(dims)) + dims
    strides = tuple(_strides([d[i] for d in padded]) for i in (1, 2))
    return Broadcasting(rows, (steps[0], steps[1]), tuple(d[0] for d in padded), (strides[0], strides[1]))


def _strides(sizes: Sequence[int]) -> tuple[int, ...]:
    return tuple(prod(sizes[i + 1 :]) if size > 1 else 0 for i, size in enumerate(sizes))


@dataclass(frozen=True)
class PairRows:
    """The sizes of two operands and an output that all have one shape."""

    rows: int = i32("rows of each of the three tensors")
    row: int = i32("elements of a row")


@dataclass(frozen=True)
class LoopParams:
    """The fields for the loops of Broadcasting."""

    rows: int = i32("rows of the output")
    row_step_a: int = i32("1: the first operand has as many rows as the output, 0: it has one")
    row_step_b: int = i32("the same for the second operand")
    dims: tuple[int, ...] = i32("elements of an output row, innermost last", DIMS)
    strides_a: tuple[int, ...] = i32("elements from step to step of each dim; 0: one for all", DIMS)
    strides_b: tuple[int, ...] = i32("the same for the second operand", DIMS)


def operand_shapes(p: LoopParams) -> tuple[Shape, Shape]:
    """The shapes that the loops give both operands: [rows, dims...], with 1 in place of a stride of 0."""
    a = (p.rows if p.row_step_a else 1, *(d if s else 1 for d, s in zip(p.dims, p.strides_a, strict=True)))
    b = (p.rows if p.row_step_b else 1, *(d if s else 1 for d, s in zip(p.dims, p.strides_b, strict=True)))
    return a, b


def needs(p: LoopParams, y: int) -> tuple[range, ...]:
    """The rows of both operands that output row y needs: the same row, or the operand's only one."""
    return tuple(range(y * step, y * step + 1) for step in (p.row_step_a, p.row_step_b))


def _turned(p: LoopParams, rows: int | None) -> LoopParams | None:
    """The params with the rows as the outermost loop, or with a part of the outermost loop as rows."""
    strides = p.strides_a, p.strides_b
    if rows is None:
        if p.rows == 1 or p.dims[0] > 1:
            return None
        steps = (p.row_step_a, p.row_step_b)
        outer = [prod(shape[1:]) * step for shape, step in zip(operand_shapes(p), steps, strict=True)]
        a, b = ((size, *mine[1:]) for size, mine in zip(outer, strides, strict=True))
        return replace(p, rows=1, row_step_a=0, row_step_b=0, dims=(p.rows, *p.dims[1:]), strides_a=a, strides_b=b)
    at = next((i for i, size in enumerate(p.dims) if size > 1), 0)
    if p.rows > 1 or rows == 1 or p.dims[at] % rows:
        return None
    left = p.dims[at] // rows
    dims = (*p.dims[:at], left, *p.dims[at + 1 :])
    a, b = ((*mine[:at], mine[at] if left > 1 else 0, *mine[at + 1 :]) for mine in strides)
    steps = (int(p.strides_a[at] > 0), int(p.strides_b[at] > 0))
    return replace(p, rows=rows, row_step_a=steps[0], row_step_b=steps[1], dims=dims, strides_a=a, strides_b=b)


GEOMETRY = Geometry(
    lambda p: int(p.rows),
    lambda p: (tuple(prod(shape[1:]) for shape in operand_shapes(p)), prod(p.dims)),
    needs,
    lambda p, out, rows: replace(p, rows=len(out)),
    turned=_turned,
)


def lines_cost(p: LoopParams, element: float, line: float) -> float:
    """The cycles of a kernel that computes line after line (ge_broadcast.h)."""
    return float(p.rows * (prod(p.dims[:-1]) * (element * p.dims[-1] + line) + 40))


def operands(p: LoopParams, inputs: Sequence[Array]) -> tuple[Array, Array]:
    """Both operands as int32, in shapes that numpy broadcasts."""
    a, b = (x.reshape(s).astype(np.int32) for x, s in zip(inputs, operand_shapes(p), strict=True))
    return a, b
