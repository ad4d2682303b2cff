"""Operators that interpolate an image: Resize, Upsample, GridSample, RoiAlign, MaxRoiPool, AffineGrid.

Coordinates of Resize are computed in float64, because round-off in float32 would choose another element. Source: the
formulas in the operators' documentation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from glowembed.graph.op import Refused
from glowembed.nest.dtypes import BOOL, INDEX, is_float
from glowembed.nest.expr import (
    Expr,
    absolute,
    all_of,
    binary,
    clamp,
    constant,
    floor,
    index,
    maximum,
    minimum,
    rint,
    to_index,
    unary,
    where,
)
from glowembed.ops import grid as grids
from glowembed.ops.definitions.moves import axes_from
from glowembed.ops.shared.definition import Definition, operator
from glowembed.records import dataclass

WIDE = "float64"
MOST_TAPS = 64
"""Half of the most elements along an axis that an output may depend on; each of them is a statement of the nest."""

Taps = list[tuple[Expr, Expr | None]]
"""Positions along an axis and their weights. The weight is None if there is only one position."""


@dataclass(frozen=True)
class Scaling:
    """The axes that are resized, the scale of each, and the shape of the output. fixed: whether the scales are
    constants.
    """

    axes: Sequence[int]
    scales: Mapping[int, Expr]
    shape: Sequence[int]
    fixed: bool


def _scaling(n: Definition) -> Scaling:
    x, k = n.input(0), n.k
    newer = n.kind == "Resize" and n.opset >= 11
    axes = axes_from(n, n.attr("axes") or range(x.rank), x.rank) if newer else list(range(x.rank))
    at = 2 if newer else 1
    given = n.attr("scales") if n.attr("scales") is not None else n.constant(at)
    if n.kind == "Upsample" and n.opset < 7:
        given = [1.0, 1.0, n.attr("height_scale"), n.attr("width_scale")]
    if given is not None and np.size(given):
        numbers = [float(v) for v in np.ravel(given)]
        shape = list(x.shape)
        for a, scale in zip(axes, numbers, strict=True):
            shape[a] = math.floor(np.float32(x.shape[a]) * np.float32(scale))
        return Scaling(axes, {a: constant(s, WIDE) for a, s in zip(axes, numbers, strict=True)}, shape, True)
    sizes, policy = n.integers(3), n.attr("keep_aspect_ratio_policy", "stretch")
    choose = {"not_larger": minimum, "not_smaller": maximum}.get(policy)
    if sizes is not None:
        ratios = [size / x.shape[a] for a, size in zip(axes, sizes, strict=True)]
        shape = list(x.shape)
        if choose is not None:
            one = min(ratios) if policy == "not_larger" else max(ratios)
            for a in axes:
                shape[a] = math.floor(one * x.shape[a] + 0.5)
            return Scaling(axes, {a: constant(one, WIDE) for a in axes}, shape, True)
        for a, size in zip(axes, sizes, strict=True):
            shape[a] = size
        return Scaling(axes, {a: constant(r, WIDE) for a, r in zip(axes, ratios, strict=True)}, shape, True)
    if n.has(at) and n.input(at).size:
        scales = {a: k.let(n.input(at).flat(j).to(WIDE)) for j, a in enumerate(axes)}
        return Scaling(axes, scales, n.shape_of(0), False)
    scales = {a: k.let(n.input(3).flat(j).to(WIDE) / float(x.shape[a])) for j, a in enumerate(axes)}
    if choose is not None:
        common = scales[axes[0]]
        for a in axes[1:]:
            common = choose(common, scales[a])
        common = k.let(common)
        scales = dict.fromkeys(axes, common)
    return Scaling(axes, scales, n.shape_of(0), False)


def _coordinate(n: Definition, s: Scaling, a: int, i: Expr) -> Expr:
    """The position in the input for an output index, by the coordinate transformation mode."""
    newer = n.kind == "Resize" and n.opset >= 11
    mode = n.attr("coordinate_transformation_mode", "half_pixel") if newer else "asymmetric"
    size, out, scale = n.input(0).shape[a], s.shape[a], s.scales[a]
    p, resized = i.to(WIDE), scale * float(size)
    if mode == "half_pixel_symmetric":
        adjusted = float(out) / resized
        return (1.0 - adjusted) * (size / 2) + (p + 0.5) / scale - 0.5
    if mode == "align_corners":
        single = resized.equals(1.0)
        return where(single, constant(0, WIDE), p * float(size - 1) / where(single, constant(1, WIDE), resized - 1.0))
    if mode == "tf_crop_and_resize":
        j = list(s.axes).index(a)
        begin, end = (n.input(1).flat(j + offset).to(WIDE) for offset in (0, len(s.axes)))
        if out <= 1:
            return begin * float(size - 1) + (end - begin) * float(size - 1) * 0.5
        return begin * float(size - 1) + p * ((end - begin) * float(size - 1)) / float(out - 1)
    modes: dict[str, Callable[[], Expr]] = {
        "half_pixel": lambda: (p + 0.5) / scale - 0.5,
        "asymmetric": lambda: p / scale,
        "pytorch_half_pixel": lambda: (p + 0.5) / scale - 0.5 if out > 1 else constant(0, WIDE),
        "tf_half_pixel_for_nn": lambda: (p + 0.5) / scale,
    }
    if mode not in modes:
        raise Refused(f"its coordinate_transformation_mode is {mode!r}", f"supported: {', '.join(modes)}")
    return modes[mode]()


def _nearest(n: Definition, at: Expr, size: int) -> Taps:
    newer = n.kind == "Resize" and n.opset >= 11
    mode = n.attr("nearest_mode", "round_prefer_floor") if newer else "floor"
    rounded = {
        "floor": lambda: floor(at),
        "ceil": lambda: unary("ceil", at),
        "round_prefer_floor": lambda: unary("ceil", at - 0.5),
        "round_prefer_ceil": lambda: floor(at + 0.5),
    }[mode]()
    return [(n.k.let(clamp(rounded.to(INDEX), 0, size - 1)), None)]


def cubic(distance: Expr, a: float) -> Expr:
    """Keys' cubic convolution kernel at a distance of at most 2; 0 beyond it."""
    near = ((distance * (a + 2) - (a + 3)) * distance) * distance + 1.0
    far = ((distance * a - 5 * a) * distance + 8 * a) * distance - 4 * a
    return where(distance <= 1.0, near, where(distance < 2.0, far, constant(0, distance.kind)))


def _weighted(n: Definition, s: Scaling, a: int, at: Expr, linear: bool) -> Taps:
    """The elements around a position and their weights. With antialias, the window grows with the inverse of the
    scale.
    """
    k, size = n.k, n.input(0).shape[a]
    antialias, outside = n.attr("antialias", 0), n.attr("exclude_outside", 0)
    whole = k.let(floor(at))
    part, first = k.let(at - whole), k.let(whole.to(INDEX))
    reach = 1 if linear else 2
    shrink = k.let(minimum(s.scales[a], 1.0)) if antialias else None
    if antialias:
        reach = math.ceil(reach / min(1.0, s.shape[a] / size) + 1e-9) + (0 if s.fixed else 1)
    if reach > MOST_TAPS:
        raise Refused(f"it reads {2 * reach} elements along an axis for each output", "shrink in several steps")
    taps: list[tuple[Expr, Expr]] = []
    for tap in range(1 - reach, reach + 1):
        distance = absolute(part - float(tap))
        distance = k.let(distance if shrink is None else distance * shrink)
        weight = maximum(1.0 - distance, 0.0) if linear else cubic(distance, n.attr("cubic_coeff_a", -0.75))
        if outside:
            weight = where((first + tap >= 0) & (first + tap < size), weight, constant(0, WIDE))
        taps.append((k.let(clamp(first + tap, 0, size - 1)), k.let(weight)))
    if not (antialias or outside):
        return list(taps)
    total = taps[0][1]
    for _, weight in taps[1:]:
        total = total + weight
    total = k.let(total)
    return [(place, k.let(weight / total)) for place, weight in taps]


@operator("Resize", "Upsample")
def _resize(n: Definition) -> None:
    x, k, s = n.input(0), n.k, _scaling(n)
    mode = {"bilinear": "linear"}.get(n.attr("mode", "nearest"), n.attr("mode", "nearest"))
    cropping = n.attr("coordinate_transformation_mode") == "tf_crop_and_resize"
    unit = [a for a in s.axes if s.scales[a].op == "constant" and s.scales[a].value == 1.0]
    unit += [a for a in s.axes if x.shape[a] == 1 and not s.fixed]  # a single element has weight 1 at any scale
    live = [a for a in s.axes if cropping or a not in unit or s.shape[a] != x.shape[a]]
    y = n.output(0, s.shape, x.dtype)
    with k.each(s.shape) as at:
        taps: dict[int, Taps] = {}
        beyond: Expr | None = None
        for a in live:
            place = k.let(_coordinate(n, s, a, at[a]))
            if cropping:
                outside = (place < 0.0) | (place > float(x.shape[a] - 1))
                beyond = outside if beyond is None else beyond | outside
            nearest = mode == "nearest"
            taps[a] = _nearest(n, place, x.shape[a]) if nearest else _weighted(n, s, a, place, mode == "linear")

        def element(chosen: Mapping[int, Expr]) -> Expr:
            return x[tuple(chosen.get(a, at[a]) for a in range(x.rank))]

        value = _interpolated(n, live, taps, element, {})
        if value.kind != x.kind:
            value = value.to(x.kind) if is_float(x.kind) else rint(value).to(x.kind)
        if beyond is not None:
            value = where(beyond, constant(n.attr("extrapolation_value", 0.0), x.kind), value)
        k.store(y, at, value)


def _interpolated(
    n: Definition, axes: Sequence[int], taps: Mapping[int, Taps], element: Callable[[Mapping[int, Expr]], Expr],
    chosen: Mapping[int, Expr],
) -> Expr:  # fmt: skip
    """The weighted sum over the taps of these axes; the first axis is outermost."""
    if not axes:
        return element(chosen)
    total: Expr | None = None
    for place, weight in taps[axes[0]]:
        value = _interpolated(n, axes[1:], taps, element, {**chosen, axes[0]: place})
        if weight is None:
            return value
        part = n.k.let(value.to(weight.kind) * weight)
        total = part if total is None else n.k.let(total + part)
    assert total is not None
    return total


@operator("GridSample")
def _grid_sample(n: Definition) -> None:
    x, grid, k = n.input(0), n.input(1), n.k
    mode, padding = n.attr("mode", "linear").removeprefix("bi"), n.attr("padding_mode", "zeros")
    corners, rank, kind = bool(n.attr("align_corners", 0)), x.rank - 2, grid.kind
    y = n.output(0, (*x.shape[:2], *grid.shape[1:-1]), x.dtype)
    sizes = x.shape[2:]
    limits = [(0.0, size - 1.0) if corners else (-0.5, size - 0.5) for size in sizes]
    with k.each(y.shape) as at:
        places = []
        for d, size in enumerate(sizes):
            g = grid[(at[0], *at[2:], index(rank - 1 - d))]
            place = k.let((g + 1.0) * ((size - 1) / 2) if corners else ((g + 1.0) * float(size) - 1.0) * 0.5)
            place = k.let(rint(place)) if mode == "nearest" else place
            if mode != "cubic" and padding == "reflection":
                low, high = limits[d]
                outside = (place < low) | (place > high)
                place = k.let(where(outside, _mirrored(n, place, low, high), place))
            if mode != "cubic" and padding == "border":
                place = k.let(where(place < 0.0, 0.0, where(place > size - 1.0, size - 1.0, place)))
            places.append(place)

        def element(chosen: Mapping[int, Expr]) -> Expr:
            inside, own = constant(True, BOOL), []
            for d, size in enumerate(sizes):
                p = chosen[d]
                if padding == "zeros":
                    inside = inside & (p >= 0) & (p < size)
                elif padding == "reflection":
                    p = _mirrored(n, p.to(kind), *limits[d]).to(INDEX)
                own.append(clamp(p, 0, size - 1))
            value = x[(at[0], at[1], *own)]
            return where(inside, value, constant(0, x.kind)) if padding == "zeros" else value

        if mode == "nearest":
            k.store(y, at, element({d: p.to(INDEX) for d, p in enumerate(places)}))
        else:
            taps = {d: _grid_taps(n, p, mode) for d, p in enumerate(places)}
            k.store(y, at, _interpolated(n, range(rank), taps, element, {}).to(x.kind))
    if mode in ("nearest", "linear", "cubic") and rank <= (2 if mode == "cubic" else 3) and max(sizes) <= grids.LONGEST:
        op = grids.CubicGridSample if mode == "cubic" else grids.GridSample
        n.quantized[0] = (op.name, {"mode": mode, "padding": padding, "corners": corners})


def _mirrored(n: Definition, place: Expr, low: float, high: float) -> Expr:
    """A position outside low..high, reflected at the ends as often as needed."""
    if high <= low:
        return place
    width = high - low
    turn = n.k.let(binary("%", place - low, 2.0 * width))
    return where(turn > width, 2.0 * width - turn, turn) + low


def _grid_taps(n: Definition, place: Expr, mode: str) -> Taps:
    k = n.k
    whole = k.let(floor(place))
    part, first = k.let(place - whole), k.let(whole.to(INDEX))
    if mode == "linear":
        return [(first, k.let(1.0 - part)), (first + 1, part)]
    distances = [(-1, part + 1.0), (0, part), (1, 1.0 - part), (2, 2.0 - part)]
    return [(first + tap, k.let(cubic(d, -0.75))) for tap, d in distances]


@operator("AffineGrid")
def _affine_grid(n: Definition) -> None:
    theta, wanted = n.input(0), n.integers(1)
    rank = theta.shape[1]
    shape = n.shape_of(0) if wanted is None else (wanted[0], *wanted[2:], rank)
    y = n.output(0, shape, theta.dtype)
    corners = n.attr("align_corners", 0)
    with n.k.each(shape[:-1]) as at:

        def coordinate(d: int) -> Expr:
            size = shape[1 + d]
            if corners:
                return at[1 + d].to(theta.kind) * (2.0 / (size - 1) if size > 1 else 0.0) - 1.0
            return (at[1 + d] * 2 + 1).to(theta.kind) / float(size) - 1.0

        places = [n.k.let(coordinate(d)) for d in reversed(range(rank))]
        for q in range(rank):
            value = theta[at[0], q, 0] * places[0]
            for d in range(1, rank):
                value = value + theta[at[0], q, d] * places[d]
            n.k.store(y, (*at, index(q)), value + theta[at[0], q, rank])


@operator("RoiAlign")
def _roi_align(n: Definition) -> None:
    x, regions, batches, k = n.input(0), n.input(1), n.input(2), n.k
    rows, columns = int(n.attr("output_height", 1)), int(n.attr("output_width", 1))
    samples, scale, largest = (
        int(n.attr("sampling_ratio", 0)),
        n.attr("spatial_scale", 1.0),
        n.attr("mode", "avg") == "max",
    )
    default = "half_pixel" if n.opset >= 16 else "output_half_pixel"
    half = 0.5 if n.attr("coordinate_transformation_mode", default) == "half_pixel" else 0.0
    height, width = x.shape[2:]
    kind = x.kind
    y = n.output(0, (regions.shape[0], x.shape[1], rows, columns), x.dtype)
    with k.each(y.shape) as (r, c, i, j):
        left, top, right, bottom = (k.let(regions[r, q] * scale - half) for q in range(4))
        wide, high = k.let(right - left), k.let(bottom - top)
        if not half:
            wide, high = k.let(maximum(wide, 1.0)), k.let(maximum(high, 1.0))
        down, across = k.let(high / float(rows)), k.let(wide / float(columns))
        count_down = index(samples) if samples else k.let(unary("ceil", down).to(INDEX))
        count_across = index(samples) if samples else k.let(unary("ceil", across).to(INDEX))
        image = k.let(clamp(to_index(batches.flat(r)), 0, x.shape[0] - 1))
        total, none_yet = k.variable(0, kind), k.variable(True, BOOL)
        with k.loop(count_down) as p, k.loop(count_across) as q:
            fy = k.let(top + i.to(kind) * down + (p.to(kind) + 0.5) * down / count_down.to(kind))
            fx = k.let(left + j.to(kind) * across + (q.to(kind) + 0.5) * across / count_across.to(kind))
            inside = k.let((fy >= -1.0) & (fy <= float(height)) & (fx >= -1.0) & (fx <= float(width)))
            corners = _corners(n, fy, fx, height, width)
            parts = [k.let(where(inside, w * x[image, c, a, b], constant(0, kind))) for w, a, b in corners]
            if largest:
                most = k.let(maximum(maximum(parts[0], parts[1]), maximum(parts[2], parts[3])))
                k.set(total, where(none_yet, most, maximum(total, most)))
                k.set(none_yet, False)
            else:
                k.set(total, total + (((parts[0] + parts[1]) + parts[2]) + parts[3]))
        count = maximum(count_down * count_across, 1).to(kind)
        k.store(y, (r, c, i, j), total if largest else total / count)


def _corners(n: Definition, fy: Expr, fx: Expr, height: int, width: int) -> list[tuple[Expr, Expr, Expr]]:
    """The four elements around a position, clamped to the image, with their bilinear weights."""
    k, kind = n.k, fy.kind
    cy = k.let(where(fy < 0.0, 0.0, where(fy > height - 1.0, height - 1.0, fy)))
    cx = k.let(where(fx < 0.0, 0.0, where(fx > width - 1.0, width - 1.0, fx)))
    top, left = k.let(cy.to(INDEX)), k.let(cx.to(INDEX))
    bottom, right = k.let(minimum(top + 1, height - 1)), k.let(minimum(left + 1, width - 1))
    dy, dx = k.let(cy - top.to(kind)), k.let(cx - left.to(kind))
    return [
        ((1.0 - dy) * (1.0 - dx), top, left),
        ((1.0 - dy) * dx, top, right),
        (dy * (1.0 - dx), bottom, left),
        (dy * dx, bottom, right),
    ]


@operator("MaxRoiPool")
def _max_roi_pool(n: Definition) -> None:
    x, regions, k = n.input(0), n.input(1), n.k
    rows, columns = (int(v) for v in n.attr("pooled_shape"))
    scale, (height, width), kind = n.attr("spatial_scale", 1.0), x.shape[2:], x.kind
    y = n.output(0, (regions.shape[0], x.shape[1], rows, columns), x.dtype)
    with k.each(y.shape) as (r, c, i, j):
        left, top, right, bottom = (k.let(floor(regions[r, q] * scale + 0.5).to(INDEX)) for q in range(1, 5))
        down = k.let(maximum(bottom - top + 1, 1).to(kind) / float(rows))
        across = k.let(maximum(right - left + 1, 1).to(kind) / float(columns))
        first_row = k.let(clamp(floor(i.to(kind) * down).to(INDEX) + top, 0, height))
        last_row = k.let(clamp(unary("ceil", (i + 1).to(kind) * down).to(INDEX) + top, 0, height))
        first = k.let(clamp(floor(j.to(kind) * across).to(INDEX) + left, 0, width))
        last = k.let(clamp(unary("ceil", (j + 1).to(kind) * across).to(INDEX) + left, 0, width))
        image = k.let(clamp(regions[r, 0].to(INDEX), 0, x.shape[0] - 1))
        empty = (last_row <= first_row) | (last <= first)
        best = k.let(where(empty, constant(0, kind), constant(-math.inf, kind)))
        with k.loops((height, width)) as (p, q):
            within = all_of((p >= first_row), (p < last_row), (q >= first), (q < last))
            with k.when(within):
                k.set(best, maximum(best, x[image, c, p, q]))
        k.store(y, (r, c, i, j), best)
