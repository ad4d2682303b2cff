"""Operators whose windows move over any number of spatial axes: convolutions, pools, Col2Im.

Tensors have the axes N, C and then the spatial axes. The elements of a window are added channel by channel, and within
a channel in the order of the spatial axes. Elements outside the input count as 0 or are skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from glowembed.graph.op import Malformed, Refused
from glowembed.nest.dtypes import BOOL, INDEX, is_float
from glowembed.nest.expr import (
    Expr,
    absolute,
    all_of,
    call,
    clamp,
    constant,
    floor,
    index,
    is_nan,
    maximum,
    sqrt,
    to_index,
    where,
)
from glowembed.nest.program import Recorder, Tensor
from glowembed.ops.definitions.linear import requantized, zero_point
from glowembed.ops.definitions.moves import inside
from glowembed.ops.definitions.pointwise import greatest
from glowembed.ops.definitions.reduce import lowest
from glowembed.ops.shared.definition import Definition, operator
from glowembed.records import dataclass


@dataclass(frozen=True)
class Windows:
    """kernel, strides, dilations, pads_begin, pads_end and the number of windows, for each spatial axis."""

    kernel: Sequence[int]
    strides: Sequence[int]
    dilations: Sequence[int]
    begin: Sequence[int]
    end: Sequence[int]
    count: Sequence[int]

    def place(self, window: Sequence[Expr], tap: Sequence[Expr]) -> list[Expr]:
        """The position in the input of one tap of a window."""
        rows = zip(window, self.strides, tap, self.dilations, self.begin, strict=True)
        return [i * stride + t * dilation - pad for i, stride, t, dilation, pad in rows]


def windows(n: Definition, x: Tensor, kernel: Sequence[int]) -> Windows:
    """The windows of a node over its input."""
    rank, spatial = len(kernel), x.shape[2:]
    if rank != len(spatial):
        raise Refused(f"a window of {rank} axes over {len(spatial)}", "check the model with onnx.checker")
    strides, dilations = (_per_axis(n, name, rank, 1) for name in ("strides", "dilations"))
    pads, auto = _per_axis(n, "pads", 2 * rank, 0), n.attr("auto_pad", "NOTSET")
    begin, end, count = pads[:rank], pads[rank:], []
    for d, size in enumerate(spatial):
        reach = (kernel[d] - 1) * dilations[d] + 1
        if auto in ("SAME_UPPER", "SAME_LOWER"):
            all_pads = max(0, (-(-size // strides[d]) - 1) * strides[d] + reach - size)
            begin[d] = all_pads // 2 if auto == "SAME_UPPER" else all_pads - all_pads // 2
            end[d] = all_pads - begin[d]
        elif auto == "VALID":
            begin[d] = end[d] = 0
        room = size + begin[d] + end[d] - reach
        fitting = room // strides[d] + 1
        if n.attr("ceil_mode", 0):
            fitting = -(-room // strides[d]) + 1
            fitting -= (fitting - 1) * strides[d] >= size + begin[d]
        if fitting <= 0:
            raise Refused(f"a window of {reach} elements does not fit {size}", "check the shapes of its inputs")
        count.append(fitting)
    return Windows(kernel, strides, dilations, begin, end, count)


def _per_axis(n: Definition, name: str, count: int, default: int) -> list[int]:
    found = [int(v) for v in n.attr(name) or [default] * count]
    if len(found) != count or min(found, default=default) < default:
        raise Malformed(f"its {name} are {found}", f"{count} numbers of at least {default} are expected")
    return found


def _convolution(
    n: Definition, x: Tensor, w: Tensor, term: Callable[[Expr, Expr, Expr], Expr], kind: str, dtype: str,
    finish: Callable[[Expr, Expr], Expr],
) -> None:  # fmt: skip
    """Define a convolution. term: the product of an input and a weight, for an output channel. finish: the output for a
    sum and its channel.
    """
    at_all = windows(n, x, w.shape[2:])
    groups, (filters, depth) = int(n.attr("group", 1)), w.shape[:2]
    if filters % groups or x.shape[1] != depth * groups:
        raise Refused(f"{x.shape[1]} channels in {groups} groups for weights {list(w.shape)}", "check the shapes")
    padded = any((*at_all.begin, *at_all.end))
    y = n.output(0, (x.shape[0], filters, *at_all.count), dtype)
    with n.k.each(y.shape) as at:
        first = n.k.let((at[1] // (filters // groups)) * depth)

        def product(c: Expr, *tap: Expr) -> Expr:
            place = at_all.place(at[2:], tap)
            value = term(x[(at[0], first + c, *place)], w[(at[1], c, *tap)], at[1])
            return where(inside(place, x.shape[2:]), value, constant(0, kind)) if padded else value

        n.k.store(y, at, finish(n.k.sum([depth, *at_all.kernel], product, kind), at[1]))


@operator("Conv", on_integers=True)
def _conv(n: Definition) -> None:
    x = n.input(0)

    def finish(total: Expr, channel: Expr) -> Expr:
        return total + n.input(2).flat(channel) if n.has(2) else total

    _convolution(n, x, n.input(1), lambda a, b, channel: a * b, x.kind, x.dtype, finish)


@operator("ConvInteger")
def _conv_integer(n: Definition) -> None:
    def product(a: Expr, b: Expr, channel: Expr) -> Expr:
        return (a.to("int32") - zero_point(n, 2)) * (b.to("int32") - zero_point(n, 3, channel))

    _convolution(n, n.input(0), n.input(1), product, "int32", "int32", lambda total, channel: total)


@operator("QLinearConv")
def _qlinear_conv(n: Definition) -> None:
    def product(a: Expr, b: Expr, channel: Expr) -> Expr:
        return (a.to("int32") - zero_point(n, 2)) * (b.to("int32") - zero_point(n, 5, channel))

    def finish(total: Expr, channel: Expr) -> Expr:
        total = total + n.input(8).flat(channel) if n.has(8) else total
        of_weights = n.input(4).flat(0 if n.input(4).size == 1 else channel)
        scale = n.input(1).scalar() * of_weights / n.input(6).scalar()
        return requantized(total, scale, zero_point(n, 7), n.input(7).dtype)

    _convolution(n, n.input(0), n.input(3), product, "int32", n.input(7).dtype, finish)


@operator("ConvTranspose", on_integers=True)
def _conv_transpose(n: Definition) -> None:
    x, w = n.input(0), n.input(1)
    kernel, rank = w.shape[2:], len(w.shape) - 2
    strides, dilations = (_per_axis(n, name, rank, 1) for name in ("strides", "dilations"))
    extra, pads = _per_axis(n, "output_padding", rank, 0), _per_axis(n, "pads", 2 * rank, 0)
    wanted, auto, sizes = n.attr("output_shape"), n.attr("auto_pad", "NOTSET"), []
    for d in range(rank):
        full = strides[d] * (x.shape[2 + d] - 1) + extra[d] + (kernel[d] - 1) * dilations[d] + 1
        if wanted is None and auto not in ("SAME_UPPER", "SAME_LOWER"):
            sizes.append(full - pads[d] - pads[d + rank])
            continue
        sizes.append(int(list(wanted)[-rank:][d]) if wanted is not None else x.shape[2 + d] * strides[d])
        gone = max(0, full - sizes[-1])
        pads[d] = gone - gone // 2 if auto == "SAME_LOWER" else gone // 2
    groups = int(n.attr("group", 1))
    depth, filters = x.shape[1] // groups, w.shape[1]
    y = n.output(0, (x.shape[0], filters * groups, *sizes), x.dtype)
    with n.k.each(y.shape) as at:

        def product(c: Expr, *tap: Expr) -> Expr:
            holds, place = constant(True, BOOL), []
            for d in range(rank):
                reached = at[2 + d] + pads[d] - tap[d] * dilations[d]
                place.append(reached // strides[d])
                holds = holds & (reached >= 0) & (place[-1] < x.shape[2 + d])
                holds = holds & (reached % strides[d]).equals(0) if strides[d] > 1 else holds
            channel = (at[1] // filters) * depth + c
            return where(holds, x[(at[0], channel, *place)] * w[(channel, at[1] % filters, *tap)], 0)

        total = n.k.sum([depth, *kernel], product, x.kind)
        n.k.store(y, at, total + n.input(2).flat(at[1]) if n.has(2) else total)


@operator("DeformConv")
def _deform_conv(n: Definition) -> None:
    x, w, offsets, k = n.input(0), n.input(1), n.input(2), n.k
    at_all = windows(n, x, w.shape[2:])
    if x.rank != 4:
        raise Refused(f"{x.rank - 2} spatial axes", "2 are supported")
    groups, parts = int(n.attr("group", 1)), int(n.attr("offset_group", 1))
    filters, depth = w.shape[:2]
    y = n.output(0, (x.shape[0], filters, *at_all.count), x.dtype)
    with k.each(y.shape) as (b, o, i, j):
        total = k.let(n.input(3).flat(o) if n.has(3) else constant(0, x.kind))
        with k.loops([depth, *at_all.kernel]) as (c, p, q):
            channel = k.let((o // (filters // groups)) * depth + c)
            tap = (channel // (x.shape[1] // parts) * at_all.kernel[0] + p) * at_all.kernel[1] + q
            row, column = at_all.place((i, j), (p, q))
            real_row = k.let(row.to(x.kind) + offsets[b, tap * 2, i, j])
            real_column = k.let(column.to(x.kind) + offsets[b, tap * 2 + 1, i, j])
            value = bilinear(k, lambda r, s: x[b, channel, r, s], x.shape[2:], real_row, real_column)
            value = value * n.input(4)[b, tap, i, j] if n.has(4) else value
            k.set(total, total + value * w[o, c, p, q])
        k.store(y, (b, o, i, j), total)


def bilinear(k: Recorder, at: Callable[[Expr, Expr], Expr], size: Sequence[int], row: Expr, column: Expr) -> Expr:
    """The value between four elements of an image; elements outside the image are 0."""
    top, left = k.let(floor(row)), k.let(floor(column))
    down, right = k.let(row - top), k.let(column - left)
    i, j = k.let(top.to(INDEX)), k.let(left.to(INDEX))

    def element(r: Expr, c: Expr) -> Expr:
        return where(inside((r, c), size), at(r, c), constant(0, row.kind))

    above = element(i, j) * (1.0 - right) + element(i, j + 1) * right
    below = element(i + 1, j) * (1.0 - right) + element(i + 1, j + 1) * right
    return k.let(above * (1.0 - down) + below * down)


@operator("Col2Im")
def _col2im(n: Definition) -> None:
    x, k = n.input(0), n.k
    image, block = n.integers(1), n.integers(2)
    sizes = n.shape_of(0)[2:] if image is None else tuple(image)
    channels = n.shape_of(0)[1] if block is None else x.shape[1] // prod(block)
    taps, rank = x.shape[1] // channels, len(sizes)
    strides, dilations = (_per_axis(n, name, rank, 1) for name in ("strides", "dilations"))
    pads = _per_axis(n, "pads", 2 * rank, 0)
    kernel = (
        [index(b) for b in block] if block is not None else [k.let(maximum(n.position(2, d), 1)) for d in range(rank)]
    )
    reach = [index(sizes[d] + pads[d] + pads[d + rank] - 1) - (kernel[d] - 1) * dilations[d] for d in range(rank)]
    counts = [k.let(reach[d] // strides[d] + 1) for d in range(rank)]
    y = n.output(0, (x.shape[0], channels, *sizes), x.dtype)
    with k.each(y.shape) as at:

        def element(row: Expr) -> Expr:
            holds, column, rest, tap = constant(True, BOOL), index(0), row, [index(0)] * rank
            for d in reversed(range(rank)):
                tap[d], rest = rest % kernel[d], rest // kernel[d]
            for d in range(rank):
                reached = at[2 + d] + pads[d] - tap[d] * dilations[d]
                place = reached // strides[d]
                holds = holds & (reached >= 0) & (place < counts[d]) & (reached % strides[d]).equals(0)
                column = column * counts[d] + place
            return where(holds, x[at[0], at[1] * taps + row, column], 0)

        k.store(y, at, k.sum([taps], element, x.kind))


@operator("MaxPool")
def _max_pool(n: Definition) -> None:
    x, k = n.input(0), n.k
    at_all = windows(n, x, n.attr("kernel_shape"))
    y = n.output(0, (*x.shape[:2], *at_all.count), x.dtype)
    places = n.output(1, y.shape, "int64")
    spatial = x.shape[2:]
    with k.each(y.shape) as at:
        best, chosen = k.let(lowest(x.kind)), k.variable(-1, INDEX)
        with k.loops(at_all.kernel) as tap:
            place = at_all.place(at[2:], tap)
            with k.when(inside(place, spatial)):
                value = k.let(x[(at[0], at[1], *place)])
                wins = (value > best) | (chosen < 0)
                wins = k.let(wins | is_nan(value) if is_float(x.kind) else wins)
                k.set(best, where(wins, value, best))
                flat = index(0)
                order = range(len(spatial))
                for d in reversed(order) if n.attr("storage_order", 0) else order:
                    flat = flat * spatial[d] + place[d]
                k.set(chosen, where(wins, (at[0] * x.shape[1] + at[1]) * prod(spatial) + flat, chosen))
        k.store(y, at, best)
        k.store(places, at, chosen.to("int64"))


@operator("AveragePool", on_integers=True)
def _average_pool(n: Definition) -> None:
    x, k = n.input(0), n.k
    at_all = windows(n, x, n.attr("kernel_shape"))
    y = n.output(0, (*x.shape[:2], *at_all.count), x.dtype)
    with_pads = n.attr("count_include_pad", 0)
    with k.each(y.shape) as at:

        def element(*tap: Expr) -> Expr:
            place = at_all.place(at[2:], tap)
            return where(inside(place, x.shape[2:]), x[(at[0], at[1], *place)], 0)

        def counts(*tap: Expr) -> Expr:
            place = at_all.place(at[2:], tap)
            if not with_pads:
                return inside(place, x.shape[2:])
            limits = zip(place, x.shape[2:], at_all.begin, at_all.end, strict=True)
            return all_of(constant(True, BOOL), *((p >= -b) & (p < size + e) for p, size, b, e in limits))

        total = k.sum(at_all.kernel, element, x.kind)
        k.store(y, at, total / k.count(at_all.kernel, counts).to(x.kind))


def raised(x: Expr, p: int) -> Expr:
    """x| to the power p."""
    x = absolute(x)
    return x if p == 1 else x * x if p == 2 else call("power", x, constant(p, x.kind))


def root(x: Expr, p: int) -> Expr:
    """The p-th root of x."""
    return x if p == 1 else sqrt(x) if p == 2 else call("power", x, constant(1.0 / p, x.kind))


@operator("LpPool", on_integers=True)
def _lp_pool(n: Definition) -> None:
    x, p = n.input(0), int(n.attr("p", 2))
    at_all = windows(n, x, n.attr("kernel_shape"))
    y = n.output(0, (*x.shape[:2], *at_all.count), x.dtype)
    with n.k.each(y.shape) as at:

        def element(*tap: Expr) -> Expr:
            place = at_all.place(at[2:], tap)
            return where(inside(place, x.shape[2:]), raised(x[(at[0], at[1], *place)], p), 0)

        n.k.store(y, at, root(n.k.sum(at_all.kernel, element, x.kind), p))


@operator("GlobalMaxPool", "GlobalAveragePool", "GlobalLpPool", on_integers=True)
def _global_pool(n: Definition) -> None:
    x, p = n.input(0), int(n.attr("p", 2))
    spatial = x.shape[2:]
    y = n.output(0, (*x.shape[:2], *(1 for _ in spatial)), x.dtype)
    with n.k.each(y.shape) as at:

        def element(*r: Expr) -> Expr:
            return x[(at[0], at[1], *r)]

        if n.kind == "GlobalMaxPool":
            result = n.k.fold(spatial, lowest(x.kind), element, greatest)
        elif n.kind == "GlobalAveragePool":
            result = n.k.sum(spatial, element, x.kind) / constant(prod(spatial), x.kind)
        else:
            result = root(n.k.sum(spatial, lambda *r: raised(element(*r), p), x.kind), p)
        n.k.store(y, at, result)


@operator("MaxUnpool")
def _max_unpool(n: Definition) -> None:
    x, places = n.input(0), n.input(1)
    kernel = [int(v) for v in n.attr("kernel_shape")]
    rank = len(kernel)
    strides, pads = _per_axis(n, "strides", rank, 1), _per_axis(n, "pads", 2 * rank, 0)
    natural = [(x.shape[2 + d] - 1) * strides[d] - pads[d] - pads[d + rank] + kernel[d] for d in range(rank)]
    shape = (*x.shape[:2], *natural)
    if n.has(2):
        given = n.integers(2)
        shape = n.shape_of(0) if given is None else tuple(given)
    y = n.output(0, shape, x.dtype)
    with n.k.each((y.size,)) as (i,):
        n.k.store(y, i, constant(0, x.kind))
    with n.k.loops(x.shape) as at:
        flat = n.k.let(to_index(places[at]))
        place = flat
        if list(shape[2:]) != natural:
            rest, place, step = flat, index(0), 1
            for d in reversed(range(rank)):
                place, rest, step = place + (rest % natural[d]) * step, rest // natural[d], step * shape[2 + d]
            place = place + rest * step
        n.k.store(y, clamp(place, 0, max(y.size - 1, 0)), x[at])
