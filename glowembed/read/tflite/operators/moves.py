"""Translates operators that only move, select or repeat elements."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from glowembed.graph.op import Refused
from glowembed.read.tflite.translate import Call

LAST = 2**31 - 1
"""The end of a Slice that extends to the end of an axis."""


def reshape(c: Call) -> None:
    """Reshape to the shape of the output, which the file states."""
    c.done("Reshape", [c.real(0), c.constant("shape", _shape_with_batch(c))])


def _shape_with_batch(c: Call) -> list[int]:
    """The shape of the output; an axis without a size in the file takes the remaining elements."""
    open_axes = c.output().open_axes
    return [-1 if axis in open_axes[:1] else d for axis, d in enumerate(c.output().shape)]


def concatenation(c: Call) -> None:
    c.done("Concat", c.reals(), axis=c.option("Axis"))


def transpose(c: Call) -> None:
    c.done("Transpose", [c.real(0)], perm=c.integers(1, "order of axes"))


def _pads(c: Call) -> list[int]:
    pairs = c.numbers(1, "padding").reshape(-1, 2)
    return [int(n) for n in (*pairs[:, 0], *pairs[:, 1])]


def pad(c: Call) -> None:
    """Pad with zeros, or with the number in input 2."""
    inputs = [c.real(0), c.constant("pads", _pads(c))]
    c.done("Pad", [*inputs, c.real(2)] if c.has(2) else inputs)


def mirror_pad(c: Call) -> None:
    """Pad by mirroring at the border; SYMMETRIC repeats the border, REFLECT does not."""
    if not c.option("Mode"):
        c.done("Pad", [c.real(0), c.constant("pads", _pads(c))], mode="reflect")
        return
    x, pairs = c.real(0), c.numbers(1, "padding").reshape(-1, 2).tolist()
    for axis, (before, after) in enumerate(pairs):
        if before or after:
            indices = np.pad(np.arange(c.shape(0)[axis]), (before, after), mode="symmetric")
            x = c.add("Gather", [x, c.constant(f"index_{axis}", indices)], f"mirrored_{axis}", axis=axis)
    c.done("Identity", [x])


def slice_of(c: Call) -> None:
    begin, size = c.integers(1, "begin"), c.integers(2, "size")
    ends = [LAST if s < 0 else b + s for b, s in zip(begin, size, strict=True)]
    _slice(c, begin, ends, [1] * len(begin))


def _slice(c: Call, begin: Sequence[int], ends: Sequence[int], steps: Sequence[int], j: int = 0) -> None:
    """Make output j by a Slice over all axes, in the shape that the file states."""
    axes = c.constant("axes", range(len(begin)))
    inputs = [c.real(0), c.constant("starts", begin), c.constant("ends", ends), axes, c.constant("steps", steps)]
    _done_as(c, c.add("Slice", inputs, f"slice_{j}"), len(begin), j)


def _done_as(c: Call, x: str, rank: int, j: int = 0) -> None:
    """Make output j from x, reshaped to the output's shape."""
    shape = c.output(j).shape
    if len(shape) == rank:
        c.done("Identity", [x], j)
    else:
        c.done("Reshape", [x, c.constant("shape", shape)], j)


def strided_slice(c: Call) -> None:
    if c.option("EllipsisMask") or c.option("NewAxisMask"):
        raise Refused("an ellipsis or a new axis", "export the model with the axes written out")
    begin, ends, steps = (c.integers(i, what) for i, what in ((1, "begin"), (2, "end"), (3, "strides")))
    masks = [c.option(name) for name in ("BeginMask", "EndMask", "ShrinkAxisMask")]
    for axis, step in enumerate(steps):
        if step == 0:
            raise Refused("a stride of 0", "check the file")
        if masks[0] >> axis & 1:
            begin[axis] = 0 if step > 0 else LAST
        if masks[1] >> axis & 1:
            ends[axis] = LAST if step > 0 else -LAST
        if masks[2] >> axis & 1:
            size = c.shape(0)[axis]
            begin[axis] %= max(size, 1)
            ends[axis], steps[axis] = begin[axis] + 1, 1
    _slice(c, begin, ends, steps)


def split(c: Call) -> None:
    """Split input 1 along the axis in input 0 into parts of the same size."""
    (axis,) = c.integers(0, "axis")
    count, axis = len(c.operator.outputs), axis % max(len(c.shape(1)), 1)
    if c.shape(1)[axis] % count:
        raise Refused(f"{c.shape(1)[axis]} elements in {count} parts", "check the file")
    _parts(c, 1, axis, [c.shape(1)[axis] // count] * count)


def split_v(c: Call) -> None:
    sizes, (axis,) = c.integers(1, "sizes"), c.integers(2, "axis")
    axis %= max(len(c.shape(0)), 1)
    rest = c.shape(0)[axis] - sum(s for s in sizes if s >= 0)
    _parts(c, 0, axis, [rest if s < 0 else s for s in sizes])


def unpack(c: Call) -> None:
    axis = c.option("Axis") % max(len(c.shape(0)), 1)
    _parts(c, 0, axis, [1] * len(c.operator.outputs))


def _parts(c: Call, x: int, axis: int, sizes: Sequence[int]) -> None:
    """Make each output from one part of input x along an axis."""
    first, rank = 0, len(c.shape(x))
    along = c.constant("axis", [axis])
    for j, size in enumerate(sizes):
        bounds = [c.constant(role, [n]) for role, n in (("start", first), ("end", first + size))]
        _done_as(c, c.add("Slice", [c.real(x), *bounds, along], f"part_{j}"), rank, j)
        first += size


def pack(c: Call) -> None:
    axis = c.option("Axis") % len(c.output().shape)
    shape = list(c.output().shape)
    shape[axis] = 1
    parts = [c.reshaped(c.real(i), shape, f"part_{i}") for i in range(len(c.operator.inputs))]
    c.done("Concat", parts, axis=axis)


def gather(c: Call) -> None:
    if c.option("BatchDims"):
        raise Refused("batch dimensions", "0 is supported")
    c.done("Gather", [c.real(0), c.t.stored(c.index(1))], axis=c.option("Axis") % max(len(c.shape(0)), 1))


def gather_nd(c: Call) -> None:
    c.done("GatherND", [c.real(0), c.add("Cast", [c.t.stored(c.index(1))], "index", to=7)])


def embedding_lookup(c: Call) -> None:
    """Select rows of the table in input 1 by the numbers in input 0."""
    c.done("Gather", [c.real(1), c.t.stored(c.index(0))], axis=0)


def broadcast_to(c: Call) -> None:
    c.done("Expand", [c.real(0), c.constant("shape", c.output().shape)])


def tile(c: Call) -> None:
    c.done("Tile", [c.real(0), c.constant("repeats", c.integers(1, "multiples"))])


def reverse(c: Call) -> None:
    axes = c.integers(1, "axes")
    ends = [-LAST] * len(axes)
    roles = (("starts", [LAST] * len(axes)), ("ends", ends), ("axes", axes), ("steps", [-1] * len(axes)))
    c.done("Slice", [c.real(0), *(c.constant(role, numbers) for role, numbers in roles)])


def depth_to_space(c: Call) -> None:
    x = c.add("DepthToSpace", [c.channels_first(c.real(0))], "blocks", blocksize=c.option("BlockSize"), mode="DCR")
    c.done_channels_last(x)


def space_to_depth(c: Call) -> None:
    x = c.add("SpaceToDepth", [c.channels_first(c.real(0))], "blocks", blocksize=c.option("BlockSize"))
    c.done_channels_last(x)


def space_to_batch(c: Call) -> None:
    """Pad, split each spatial axis into blocks, and move the positions in a block to the batch."""
    shape, blocks = c.shape(0), c.integers(1, "block shape")
    pairs = c.numbers(2, "paddings").reshape(-1, 2)
    count = len(blocks)
    zeros = [[0, 0]] * (len(shape) - 1 - count)
    all_pairs = np.array([[0, 0], *pairs.tolist(), *zeros])
    x = c.real(0)
    if all_pairs.any():
        x = c.add("Pad", [x, c.constant("pads", all_pairs.T.reshape(-1))], "padded")
    padded = [n + int(p.sum()) for n, p in zip(shape, all_pairs, strict=True)]
    cut = [padded[0]]
    for n, b in zip(padded[1:], blocks, strict=False):
        cut += [n // b, b]
    cut += padded[1 + count :]
    inner = [2 * i + 2 for i in range(count)]
    outer = [2 * i + 1 for i in range(count)]
    perm = [*inner, 0, *outer, *range(2 * count + 1, len(cut))]
    moved = c.transposed(c.reshaped(x, cut, "cut"), perm, "moved")
    c.done("Reshape", [moved, c.constant("shape", c.output().shape)])


def batch_to_space(c: Call) -> None:
    """The reverse of SPACE_TO_BATCH_ND, with crops instead of padding."""
    shape, blocks = c.shape(0), c.integers(1, "block shape")
    crops = c.numbers(2, "crops").reshape(-1, 2)
    count, batch = len(blocks), shape[0] // max(int(np.prod(blocks)), 1)
    cut = [*blocks, batch, *shape[1:]]
    perm = [count]
    for i in range(count):
        perm += [count + 1 + i, i]
    perm += range(2 * count + 1, len(cut))
    whole = [batch, *(n * b for n, b in zip(shape[1:], blocks, strict=False)), *shape[1 + count :]]
    moved = c.reshaped(c.transposed(c.reshaped(c.real(0), cut, "cut"), perm, "moved"), whole, "whole")
    ends = [n - int(crop[1]) for n, crop in zip(whole[1:], crops, strict=False)]
    axes = c.constant("axes", range(1, count + 1))
    c.done("Slice", [moved, c.constant("starts", crops[:, 0]), c.constant("ends", ends), axes])


OPERATORS = {
    "BATCH_TO_SPACE_ND": batch_to_space,
    "BROADCAST_TO": broadcast_to,
    "CONCATENATION": concatenation,
    "DEPTH_TO_SPACE": depth_to_space,
    "EMBEDDING_LOOKUP": embedding_lookup,
    "EXPAND_DIMS": reshape,
    "GATHER": gather,
    "GATHER_ND": gather_nd,
    "MIRROR_PAD": mirror_pad,
    "PACK": pack,
    "PAD": pad,
    "PADV2": pad,
    "RESHAPE": reshape,
    "REVERSE_V2": reverse,
    "SLICE": slice_of,
    "SPACE_TO_BATCH_ND": space_to_batch,
    "SPACE_TO_DEPTH": space_to_depth,
    "SPLIT": split,
    "SPLIT_V": split_v,
    "SQUEEZE": reshape,
    "STRIDED_SLICE": strided_slice,
    "TILE": tile,
    "TRANSPOSE": transpose,
    "UNPACK": unpack,
}
