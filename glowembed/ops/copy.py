"""Copies of int8 blocks with strides in input and output, with or without a change of QType.

The op Rescale is the same tensor in another QType. Kernel-level: copy_s8 makes a whole tensor (Transpose, Slice,
Rescale). A tensor of several parts (Concat, Pad) is made by reserve or fill_s8 and then one copy_into_s8 or insert_s8
for each part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glowembed.errors import UnsupportedModelError
from glowembed.graph.cstruct import i32
from glowembed.graph.geometry import per_row, sliding, whole
from glowembed.graph.ir import Array, Node, QType, Shape
from glowembed.graph.op import Cost, Kernel, KernelOp, LowerContext, Op
from glowembed.graph.registry import lowerings
from glowembed.law import fixedpoint
from glowembed.law.tflite import rescaled
from glowembed.ops.activation import LutParams, lookup_table, tflite_table
from glowembed.ops.shared.broadcast import rows_of
from glowembed.ops.shared.linear import mode_of
from glowembed.records import dataclass

RANK = 5
"""The number of loops of the kernel; axes that are contiguous in both input and output share one."""


class Rescale(Op):
    """y = x in another QType. In the laws of onnx and tflite it is a table."""

    name = "Rescale"
    elementwise = True
    dependence = "pointwise"
    converts = True
    law_of_models = "onnx"

    def infer(self, attrs: Mapping[str, Any], shapes: Sequence[Shape]) -> tuple[Shape, ...]:
        return (shapes[0],)

    def float_ref(self, attrs: Mapping[str, Any], inputs: Sequence[Array]) -> tuple[Array, ...]:
        return (inputs[0],)

    def lower(self, node: Node, c: LowerContext) -> None:
        x, y = node.inputs[0], node.outputs[0]
        shape = c.shape(x)
        if c.dtype(x) != "int8":
            lowerings()["Rescale", "int16"](node, c)
            return
        mode = mode_of(node.attrs)
        if mode in ("onnx", "tflite"):
            rows, types = rows_of(shape), (c.qtype(x), c.qtype(y))
            exact = mode == "onnx"
            table = (
                lookup_table(lambda real: real, self.name, *types)
                if exact
                else tflite_table(rescaled, self.name, *types)
            )
            c.add(node, "lut_s8", [x], y, LutParams(rows, prod(shape) // rows), {"table": table})
            return
        c.add(node, "copy_s8", [x], y, insert_params(shape, shape, (0,) * len(shape), c.qtype(x), c.qtype(y)))


@dataclass(frozen=True)
class MoveParams:
    """A block of dims[0] x ... x dims[4] elements of every row, and the positions of these elements.

    Element (i0, .., i4) of row y is element in_offset + sum(i * in_strides) of row y of the input, and likewise for the
    output.
    """

    rows: int = i32("of input and output; 1: they are one piece")
    in_size: int = i32("elements of a row of the input")
    out_size: int = i32("elements of a row of the output")
    in_offset: int = i32("the first element of the block in a row of the input")
    out_offset: int = i32("the first element of the block in a row of the output")
    dims: tuple[int, ...] = i32("the block, innermost last; unused ones in front are 1", RANK)
    in_strides: tuple[int, ...] = i32("from element to element of each dim; negative: backwards", RANK)
    out_strides: tuple[int, ...] = i32("the same for the output", RANK)


@dataclass(frozen=True)
class CopyParams(MoveParams):
    """A block, and the requantization of its elements."""

    multiplier: int = i32("of the requantization, as for ge_requantize_pair")
    offset: int = i32("of the requantization")
    shift: int = i32("of the requantization, 1..22; 0: bytes are copied as they are")


def transpose_params(shape: Shape, perm: Sequence[int], xq: QType, yq: QType) -> CopyParams:
    """The params of a Transpose: output axis i is input axis perm[i], as in ONNX."""
    strides = row_major(shape)
    dims = tuple(shape[a] for a in perm)
    rows = common_rows(shape, dims) if tuple(perm[:2]) == (0, 1) else 1
    source, target = (prod(shape), 0, [strides[a] for a in perm]), (prod(shape), 0, row_major(dims))
    return block_params(dims, source, target, rows, xq, yq)


def slice_params(
    shape: Shape, starts: Sequence[int], steps: Sequence[int], sizes: Shape, xq: QType, yq: QType
) -> CopyParams:
    """The params of a Slice: output element (i, j, ..) is input element (starts[0] + i * steps[0], starts[1] + j *
    steps[1], ..).
    """
    strides = row_major(shape)
    first = sum(start * stride for start, stride in zip(starts, strides, strict=True))
    stepped = [step * stride for step, stride in zip(steps, strides, strict=True)]
    rows = common_rows(shape, sizes) if len(starts) > 1 and starts[1] == 0 else 1
    return block_params(sizes, (prod(shape), first, stepped), (prod(sizes), 0, row_major(sizes)), rows, xq, yq)


def insert_params(shape: Shape, out_shape: Shape, starts: Sequence[int], xq: QType, yq: QType) -> CopyParams:
    """The params to copy the whole input into the output, from index `starts` on."""
    strides = row_major(out_shape)
    first = sum(start * stride for start, stride in zip(starts, strides, strict=True))
    source, target = (prod(shape), 0, row_major(shape)), (prod(out_shape), first, strides)
    return block_params(shape, source, target, common_rows(shape, out_shape), xq, yq)


def common_rows(x: Shape, y: Shape) -> int:
    """The number of rows if row y of one tensor corresponds to row y of the other, else 1."""
    return rows_of(x) if rows_of(x) == rows_of(y) else 1


Side = tuple[int, int, Sequence[int]]
"""The number of elements of a tensor, where the block starts in it, and the block's strides there."""


def block_params(dims: Sequence[int], source: Side, target: Side, rows: int, xq: QType, yq: QType) -> CopyParams:
    """The params for a block of any rank. Raises UnsupportedModelError if it needs more than RANK loops.

    rows: the length of axis 1 if the rows of input and output correspond, else 1.
    """
    of_row = [axis for i, axis in enumerate(zip(dims, source[2], target[2], strict=True)) if rows == 1 or i != 1]
    axes = _collapse(of_row)
    if len(axes) > RANK:
        raise UnsupportedModelError(f"moving a block of {list(dims)} takes {len(axes)} loops; {RANK} are possible")
    axes = [(1, 0, 0)] * (RANK - len(axes)) + axes
    block, in_strides, out_strides = (tuple(column) for column in zip(*axes, strict=True))
    sizes = source[0] // rows, target[0] // rows
    return CopyParams(rows, *sizes, source[1], target[1], block, in_strides, out_strides, *_requant(xq, yq))


def _collapse(axes: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """The shortest list of (size, input stride, output stride) that describes the same elements in the same order."""
    merged: list[tuple[int, int, int]] = []
    for size, step_in, step_out in axes:
        if size == 1:
            continue
        if merged and merged[-1][1:] == (size * step_in, size * step_out):
            merged[-1] = (merged[-1][0] * size, step_in, step_out)
        else:
            merged.append((size, step_in, step_out))
    return merged or [(1, 1, 1)]


def _requant(xq: QType, yq: QType) -> tuple[int, int, int]:
    """The multiplier, offset and shift; zeros if both types are the same."""
    if (xq.scale, xq.zero_point) == (yq.scale, yq.zero_point):
        return 0, 0, 0
    q = fixedpoint.pair_requant((xq.scale[0] / yq.scale[0], 0.0), (xq.zero_point[0], 0), yq.zero_point[0])
    return q.multiplier[0], q.offset, q.shift


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides, in elements, of a tensor whose last axis is contiguous."""
    return tuple(prod(shape[i + 1 :]) for i in range(len(shape)))


def element_numbers(first: int, dims: Sequence[int], strides: Sequence[int]) -> NDArray[np.intp]:
    """The index of each element of the block."""
    grids = np.ix_(*(np.arange(size) * stride for size, stride in zip(dims, strides, strict=True)))
    return np.asarray(first + sum(grids), dtype=np.intp)


def places(p: MoveParams) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The indices of the block's elements, for all rows, in the input and in the output."""
    dims = (p.rows, *p.dims)
    return (
        element_numbers(p.in_offset, dims, (p.in_size, *p.in_strides)),
        element_numbers(p.out_offset, dims, (p.out_size, *p.out_strides)),
    )


def _copy_block(p: CopyParams, x: Array, y: Array) -> Array:
    """`y`, flattened, with the block written into it."""
    source, target = places(p)
    block = x.reshape(-1)[source]
    if p.shift:
        q = fixedpoint.PairRequant((p.multiplier, 0), p.offset, p.shift)
        block = fixedpoint.requantize_pair(block, np.zeros((), np.int8), q, -128, 127)
    y[target] = block
    return y


def _copy_cost(node: Node, _: Any) -> Cost:
    p = node.params
    run = p.shift == 0 and p.in_strides[-1] == 1 and p.out_strides[-1] == 1
    return Cost(p.rows * (prod(p.dims[:-1]) * 20.0 + prod(p.dims) * (1.0 if run else 8.0)), 520)


def _turned(p: MoveParams, rows: int | None) -> MoveParams | None:
    """The params with the rows as the outermost dim of the block, or with that dim as rows."""
    if rows is None:
        if p.rows == 1 or p.dims[0] > 1:
            return None
        dims, ins, outs = (p.rows, *p.dims[1:]), (p.in_size, *p.in_strides[1:]), (p.out_size, *p.out_strides[1:])
        return replace(
            p, rows=1, in_size=p.rows * p.in_size, out_size=p.rows * p.out_size, dims=dims, in_strides=ins,
            out_strides=outs,
        )  # fmt: skip
    at = next((i for i, size in enumerate(p.dims) if size > 1), 0)
    if p.rows > 1 or rows == 1 or p.dims[at] % rows:
        return None
    dims = (*p.dims[:at], p.dims[at] // rows, *p.dims[at + 1 :])
    sizes = p.in_strides[at] * dims[at], p.out_strides[at] * dims[at]
    if (sizes[0] * rows, sizes[1] * rows) != (p.in_size, p.out_size):
        return None
    turned = replace(p, rows=rows, in_size=sizes[0], out_size=sizes[1], dims=dims)
    blocks = places(replace(turned, rows=1))
    inside = all(block.min() >= 0 and block.max() < size for block, size in zip(blocks, sizes, strict=True))
    return turned if inside else None


COPY = replace(sliding(per_row(lambda p: ((p.in_size,), p.out_size))), turned=_turned)
COPY_INTO = replace(per_row(lambda p: ((p.out_size, p.in_size), p.out_size)), turned=_turned)
"""The first input is the tensor in whose memory the output lies."""

INSERT = per_row(lambda p: ((p.out_size,), p.out_size))
FILL = whole(lambda p: ((), p.size))


class CopyS8(KernelOp[CopyParams]):
    """Requantizes a block while it copies it; the block is the whole output."""

    name = "copy_s8"
    params = CopyParams
    into = "copy_into_s8"
    kernels = (Kernel("ge_copy_s8", cost=_copy_cost, store="rows"),)
    geometry = COPY

    def int_ref(self, p: CopyParams, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        return _copy_block(p, inputs[0], np.zeros(p.rows * p.out_size, np.int8))


class CopyIntoS8(KernelOp[CopyParams]):
    """Writes a block into an existing tensor: `partial` and the output are the same memory (Node.shares is 0).

    The C kernel does not read `partial`.
    """

    name = "copy_into_s8"
    params = CopyParams
    inputs = ("partial", "x")
    kernels = (Kernel("ge_copy_into_s8", cost=_copy_cost, store="rows"),)
    geometry = COPY_INTO

    def int_ref(self, p: CopyParams, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        return _copy_block(p, inputs[1], inputs[0].reshape(-1).copy())


class InsertS8(KernelOp[CopyParams]):
    """Writes a constant block into an existing tensor, as copy_into_s8 writes a computed one."""

    name = "insert_s8"
    params = CopyParams
    inputs = ("partial",)
    constants = {"x": "int8_t"}
    kernels = (Kernel("ge_insert_s8", cost=_copy_cost, store="rows"),)
    geometry = INSERT

    def int_ref(self, p: CopyParams, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        return _copy_block(p, constants["x"], inputs[0].reshape(-1).copy())


@dataclass(frozen=True)
class ReserveParams:
    """The size of the tensor."""

    size: int = i32("bytes of the output")


class Reserve(KernelOp[ReserveParams]):
    """Reserves memory for a tensor that later nodes fill part by part. It has no code, and the content is undefined (0
    here).
    """

    name = "reserve"
    params = ReserveParams
    inputs = ()
    geometry = FILL

    def int_ref(self, p: ReserveParams, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        return np.zeros(p.size, np.int8)


@dataclass(frozen=True)
class FillParams:
    """The number of bytes, and their value."""

    size: int = i32("elements of the output")
    value: int = i32("what they all are, -128..127")


class FillS8(KernelOp[FillParams]):
    """Sets every element of the output to `value`."""

    name = "fill_s8"
    params = FillParams
    inputs = ()
    kernels = (Kernel("ge_fill_s8", cost=lambda n, t: Cost(20.0 + n.params.size / 4, 56)),)
    geometry = FILL

    def int_ref(self, p: FillParams, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        return np.full(p.size, p.value, np.int8)


OPS = (Rescale(),)
KERNEL_OPS = (CopyS8(), CopyIntoS8(), InsertS8(), FillS8(), Reserve())
