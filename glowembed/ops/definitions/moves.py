"""Operators that only move elements: reshapes, transposes, slices, pads, concatenations, tiles.

If starts, pads or axes are known only at run time, the output has the shape that the model declares, and positions are
clamped, so that no data causes an access outside a tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from glowembed.graph.op import Refused
from glowembed.nest.dtypes import BOOL, INDEX
from glowembed.nest.expr import Expr, all_of, clamp, constant, index, to_index, where, within
from glowembed.nest.program import Tensor
from glowembed.ops.shared.definition import Definition, broadcast_shape, copy_as, operator, require, with_index
from glowembed.ops.shared.slices import sliced

ZERO = index(0)
FAR = 2**30
"""A distance larger than any axis; the sum of two such distances still fits in a position."""


def axes_from(n: Definition, given: Sequence[int], rank: int) -> list[int]:
    """The axes, counted from the front. Raises Refused for an axis that does not exist."""
    if any(not -rank <= a < rank for a in given):
        raise Refused(f"its axes {list(given)} are outside of {rank} axes", "check the model with onnx.checker")
    return [a % rank for a in given]


@operator("Reshape")
def _reshape(n: Definition) -> None:
    x, wanted = n.input(0), n.integers(1, "shape")
    if wanted is None:
        copy_as(n, n.shape_of(0))
        return
    keep = not n.attr("allowzero", 0)
    shape = [x.shape[i] if v == 0 and keep and i < x.rank else v for i, v in enumerate(wanted)]
    if -1 in shape:
        shape[shape.index(-1)] = x.size // max(1, -prod(shape))
    copy_as(n, shape)


@operator("Flatten")
def _flatten(n: Definition) -> None:
    x, axis = n.input(0), int(n.attr("axis", 1))
    axis = axis + x.rank if axis < 0 else axis
    copy_as(n, (prod(x.shape[:axis]), prod(x.shape[axis:])))


@operator("Squeeze")
def _squeeze(n: Definition) -> None:
    x, axes = n.input(0), n.integers(1, "axes")
    if axes is None and n.runs_on(1):
        copy_as(n, n.shape_of(0))
        return
    gone = [a for a, size in enumerate(x.shape) if size == 1] if axes is None else axes_from(n, axes, x.rank)
    copy_as(n, [size for a, size in enumerate(x.shape) if a not in gone])


@operator("Unsqueeze")
def _unsqueeze(n: Definition) -> None:
    x, axes = n.input(0), n.integers(1, "axes")
    if axes is None:
        copy_as(n, n.shape_of(0))
        return
    new, sizes = axes_from(n, axes, x.rank + len(axes)), iter(x.shape)
    copy_as(n, [1 if a in new else next(sizes) for a in range(x.rank + len(axes))])


@operator("Transpose")
def _transpose(n: Definition) -> None:
    x = n.input(0)
    perm = list(n.attr("perm") or reversed(range(x.rank)))
    if sorted(perm) != list(range(x.rank)):
        raise Refused(f"its perm {perm} is none of {x.rank} axes", "check the model with onnx.checker")
    y = n.output(0, [x.shape[a] for a in perm], x.dtype)
    with n.k.each(y.shape) as at:
        n.k.store(y, at, x[tuple(at[perm.index(a)] for a in range(x.rank))])


@operator("Concat")
def _concat(n: Definition) -> None:
    parts = n.given()
    axis, shape, start = n.axis(1), list(parts[0].shape), 0
    shape[axis] = sum(t.shape[axis] for t in parts)
    y = n.output(0, shape, parts[0].dtype)
    for part in parts:
        with n.k.each(part.shape) as at:
            n.k.store(y, with_index(at, axis, at[axis] + start), part[at])
        start += part.shape[axis]


@operator("Split")
def _split(n: Definition) -> None:
    x, axis, count = n.input(0), n.axis(), len(n.node.outputs)
    sizes = n.integers(1, "split")
    if sizes is None and n.runs_on(1):
        sizes = [n.shape_of(j)[axis] for j in range(count)]
    if sizes is None:
        count = int(n.attr("num_outputs", count))
        largest = -(-x.shape[axis] // count)
        sizes = [max(0, min(largest, x.shape[axis] - largest * j)) for j in range(count)]
    fits = len(sizes) == len(n.node.outputs) and min(sizes) >= 0 and sum(sizes) == x.shape[axis]
    require(fits, f"parts of {sizes} for {len(n.node.outputs)} outputs and an axis of {x.shape[axis]}")
    start = 0
    for j, size in enumerate(sizes):
        y = n.output(j, (*x.shape[:axis], size, *x.shape[axis + 1 :]), x.dtype)
        with n.k.each(y.shape) as at:
            n.k.store(y, at, x[with_index(at, axis, at[axis] + start)])
        start += size


@operator("Slice")
def _slice(n: Definition) -> None:
    if any(n.runs_on(i) for i in (1, 2, 3, 4)):
        _slice_at_run_time(n)
        return
    x = n.input(0)
    starts, ends = n.integers(1, "starts") or [], n.integers(2, "ends") or []
    axes = axes_from(n, n.integers(3, "axes") or range(len(starts)), x.rank)
    steps = n.integers(4, "steps") or [1] * len(starts)
    shape, first, step = list(x.shape), [0] * x.rank, [1] * x.rank
    for a, begin, end, by in zip(axes, starts, ends, steps, strict=True):
        taken = sliced(begin, end, by, x.shape[a])
        shape[a], first[a], step[a] = len(taken), taken.start, by
    y = n.output(0, shape, x.dtype)
    with n.k.each(shape) as at:
        n.k.store(y, at, x[tuple(i * by + begin for i, by, begin in zip(at, step, first, strict=True))])


def _slice_at_run_time(n: Definition) -> None:
    x, shape = n.input(0), n.shape_of(0)
    count = n.input(1).size
    lengths = [n.input(i).size for i in (2, 3, 4) if n.has(i)]
    require(set(lengths) <= {count}, f"{count} starts beside ends, axes or steps of {lengths}")
    require(x.size > 0, "a slice of an empty tensor")
    first = [n.k.variable(0, INDEX) for _ in x.shape]
    step = [n.k.variable(1, INDEX) for _ in x.shape]
    for j in range(count):
        begin, by = n.position(1, j), n.position(4, j) if n.has(4) else index(1)
        chosen = within(n.input(3).flat(j), x.rank) if n.has(3) else index(j)
        for a, size in enumerate(x.shape):
            mine = n.k.let(chosen.equals(a))
            counted = n.k.let(where(begin < 0, begin + size, begin))
            limited = where(by < 0, clamp(counted, 0, size - 1), clamp(counted, 0, size))
            n.k.set(first[a], where(mine, limited, first[a]))
            n.k.set(step[a], where(mine, by, step[a]))
    y = n.output(0, shape, x.dtype)
    with n.k.each(shape) as at:
        wide = [f.to("int64") + i.to("int64") * by.to("int64") for f, i, by in zip(first, at, step, strict=True)]
        taken = [clamp(to_index(place), 0, size - 1) for place, size in zip(wide, x.shape, strict=True)]
        n.k.store(y, at, x[tuple(taken)])


@operator("Pad")
def _pad(n: Definition) -> None:
    x, mode = n.input(0), n.attr("mode", "constant")
    known = n.integers(1, "pads") or n.integers(1, "paddings")
    if known is None or n.runs_on(3):
        shape, before = n.shape_of(0), _pads_at_run_time(n)
    else:
        given = n.integers(3)
        axes = axes_from(n, range(x.rank) if given is None else given, x.rank)
        require(len(known) == 2 * len(axes), f"{len(known)} pads for {len(axes)} axes")
        sizes, begins = list(x.shape), [0] * x.rank
        for j, a in enumerate(axes):
            sizes[a] += known[j] + known[j + len(axes)]
            begins[a] = known[j]
        shape, before = tuple(sizes), [index(b) for b in begins]
    filler = n.input(2).scalar() if n.has(2) and n.input(2).size else constant(n.attr("value", 0), x.kind)
    rules: dict[str, Callable[[Expr, int], Expr]] = {
        "edge": lambda i, size: clamp(i, 0, size - 1),
        "wrap": lambda i, size: i % size,
        "reflect": _reflected,
    }
    y = n.output(0, shape, x.dtype)
    require(x.size > 0 or mode == "constant", f"the mode {mode!r} of an empty tensor")
    with n.k.each(shape) as at:
        source = [i - b for i, b in zip(at, before, strict=True)]
        if mode == "constant":
            n.k.store(y, at, where(inside(source, x.shape), x[tuple(source)], filler))
        elif mode in rules:
            n.k.store(y, at, x[tuple(rules[mode](i, size) for i, size in zip(source, x.shape, strict=True))])
        else:
            raise Refused(f"its mode is {mode!r}", f"constant, {', '.join(rules)} are supported")


def inside(at: Sequence[Expr], shape: Sequence[int]) -> Expr:
    """Whether all indices lie inside the shape."""
    return all_of(constant(True, BOOL), *((i >= 0) & (i < size) for i, size in zip(at, shape, strict=True)))


def _pads_at_run_time(n: Definition) -> list[Expr]:
    """The number of elements before the first one of each axis, from pads or axes that are known only at run time."""
    x = n.input(0)
    count = n.input(3).size if n.has(3) else x.rank
    require(n.input(1).size == 2 * count, f"{n.input(1).size} pads for {count} axes")
    known, before = n.integers(1, "pads"), [n.k.variable(0, INDEX) for _ in x.shape]
    for j in range(count):
        begin = index(known[j]) if known is not None else clamp(n.position(1, j), -FAR, FAR)
        chosen = within(n.input(3).flat(j), x.rank) if n.has(3) else index(j)
        for a in range(x.rank):
            n.k.set(before[a], where(chosen.equals(a), begin, before[a]))
    return before


def _reflected(i: Expr, size: int) -> Expr:
    """The mirror image of a position outside an axis; the element at the edge is not repeated."""
    if size == 1:
        return ZERO
    turn = i % (2 * size - 2)
    return where(turn < size, turn, (2 * size - 2) - turn)


@operator("CenterCropPad")
def _center_crop_pad(n: Definition) -> None:
    x, sizes = n.input(0), n.integers(1)
    axes = axes_from(n, n.attr("axes") or range(x.rank), x.rank)
    shape = list(x.shape)
    for a, size in zip(axes, sizes if sizes is not None else [n.shape_of(0)[a] for a in axes], strict=True):
        shape[a] = size
    y = n.output(0, shape, x.dtype)
    shifts = [(d - s) // 2 if s <= d else -((s - d) // 2) for d, s in zip(x.shape, shape, strict=True)]
    with n.k.each(shape) as at:
        source = [i + shift for i, shift in zip(at, shifts, strict=True)]
        n.k.store(y, at, where(inside(source, x.shape), x[tuple(source)], 0))


@operator("Expand")
def _expand(n: Definition) -> None:
    x, wanted = n.input(0), n.integers(1)
    y = n.output(0, n.shape_of(0) if wanted is None else broadcast_shape(x.shape, wanted), x.dtype)
    require(broadcast_shape(x.shape, y.shape) == y.shape, f"{list(x.shape)} does not expand to {list(y.shape)}")
    with n.k.each(y.shape) as at:
        n.k.store(y, at, x.broadcast(at))


@operator("Tile")
def _tile(n: Definition) -> None:
    x, repeats = n.input(0), n.integers(1)
    if n.opset < 6:
        times, axis = n.constant(1), n.constant(2)
        if times is None or axis is None:
            raise Refused("its repeats are computed", "make them constant")
        repeats = [int(np.ravel(times)[0]) if a == int(np.ravel(axis)[0]) % x.rank else 1 for a in range(x.rank)]
    shape = n.shape_of(0) if repeats is None else [a * b for a, b in zip(x.shape, repeats, strict=True)]
    y = n.output(0, shape, x.dtype)
    require(x.size > 0 or y.size == 0, "an empty tensor cannot be repeated to elements")
    with n.k.each(shape) as at:
        n.k.store(y, at, x[tuple(i % max(size, 1) for i, size in zip(at, x.shape, strict=True))])


@operator("DepthToSpace")
def _depth_to_space(n: Definition) -> None:
    x, block = n.input(0), int(n.attr("blocksize"))
    batch, channels, height, width = _images(x)
    require(block > 0 and channels % (block * block) == 0, f"{channels} channels in blocks of {block}")
    channels //= block * block
    columns_first = n.attr("mode", "DCR") == "DCR"
    y = n.output(0, (batch, channels, height * block, width * block), x.dtype)
    with n.k.each(y.shape) as (b, c, i, j):
        part = (i % block) * block + j % block
        channel = part * channels + c if columns_first else c * (block * block) + part
        n.k.store(y, (b, c, i, j), x[b, channel, i // block, j // block])


@operator("SpaceToDepth")
def _space_to_depth(n: Definition) -> None:
    x, block = n.input(0), int(n.attr("blocksize"))
    batch, channels, height, width = _images(x)
    require(block > 0 and height % block == width % block == 0, f"{height} x {width} in blocks of {block}")
    y = n.output(0, (batch, channels * block * block, height // block, width // block), x.dtype)
    columns_first = n.attr("mode", "DCR") == "DCR"
    with n.k.each(y.shape) as (b, c, i, j):
        part, channel = (c // channels, c % channels) if columns_first else (c % (block * block), c // (block * block))
        n.k.store(y, (b, c, i, j), x[b, channel, i * block + part // block, j * block + part % block])


def _images(x: Tensor) -> tuple[int, int, int, int]:
    if x.rank != 4:
        raise Refused(f"its input has {x.rank} axes", "4 are expected: N, C, H, W")
    batch, channels, height, width = x.shape
    return batch, channels, height, width


@operator("ReverseSequence")
def _reverse_sequence(n: Definition) -> None:
    x, lengths = n.input(0), n.input(1)
    batch, time = int(n.attr("batch_axis", 1)), int(n.attr("time_axis", 0))
    require(lengths.size == x.shape[batch], f"{lengths.size} lengths for a batch of {x.shape[batch]}")
    y = n.output(0, x.shape, x.dtype)
    with n.k.each(x.shape) as at:
        length = to_index(lengths.flat(at[batch]))
        mirrored = where(at[time] < length, clamp(length - 1 - at[time], 0, x.shape[time] - 1), at[time])
        n.k.store(y, at, x[with_index(at, time, mirrored)])


@operator("Trilu")
def _trilu(n: Definition) -> None:
    x, upper = n.input(0), n.attr("upper", 1)
    shift = n.k.let(n.position(1)) if n.has(1) else ZERO
    y = n.output(0, x.shape, x.dtype)
    with n.k.each(x.shape) as at:
        beside = at[-1] - at[-2]
        n.k.store(y, at, where(beside >= shift if upper else beside <= shift, x[at], 0))


@operator("EyeLike")
def _eye_like(n: Definition) -> None:
    x, shift = n.input(0), min(max(int(n.attr("k", 0)), -FAR), FAR)
    dtype = n.element_type(n.attr("dtype")) if n.attr("dtype") is not None else x.dtype
    y = n.output(0, x.shape, dtype)
    with n.k.each(x.shape) as (i, j):
        n.k.store(y, (i, j), where((j - i).equals(shift), constant(1, y.kind), 0))


@operator("OneHot")
def _one_hot(n: Definition) -> None:
    chosen, depths, values = n.input(0), n.constant(1), n.input(2)
    require(values.size == 2, f"{values.size} values instead of the one for off and the one for on")
    axis = n.axis(-1, chosen.rank + 1)
    depth = n.shape_of(0)[axis] if depths is None else int(np.ravel(depths)[0])
    y = n.output(0, (*chosen.shape[:axis], depth, *chosen.shape[axis:]), values.dtype)
    with n.k.each(y.shape) as at:
        i = to_index(chosen[(*at[:axis], *at[axis + 1 :])].to("int64"))
        hit = where(i < 0, i + depth, i).equals(at[axis])
        n.k.store(y, at, where(hit, values.flat(1), values.flat(0)))


@operator("ConstantOfShape")
def _constant_of_shape(n: Definition) -> None:
    value = np.ravel(np.asarray(n.attr("value", np.zeros(1, np.float32))))
    wanted = n.integers(0)
    y = n.output(0, n.shape_of(0) if wanted is None else wanted, value.dtype.name)
    with n.k.each((y.size,)) as (i,):
        n.k.store(y, i, constant(value[0].item(), y.kind))


@operator("Range")
def _range(n: Definition) -> None:
    start, step = n.input(0), n.input(2)
    y = n.output(0, n.shape_of(0), start.dtype)
    with n.k.each(y.shape) as (i,):
        n.k.store(y, (i,), start.scalar() + i.to(start.kind) * step.scalar())
