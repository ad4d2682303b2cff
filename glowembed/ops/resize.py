"""Resize and Upsample, which interpolate an image along its height and width.

Input [1, H, W, C] or [1, L, C]. All modes are supported with every coordinate transformation mode except
tf_crop_and_resize, and with antialias, exclude_outside, scales or sizes. All of these become tables of positions and
weights, with one entry for each output row and each output column, at compile time. definitions/resize.py generates the
other forms (more axes, computed sizes) in float32. Kernel-level: resize_s8, resize_s16, resize_f32.

Sources: the formulas in ONNX's documentation of Resize; for cubic weights, R. G. Keys, "Cubic convolution interpolation
for digital image processing", 1981.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from glowembed.graph.cstruct import i32
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
    OutputType,
    Refused,
    of_element,
)
from glowembed.graph.spatial import as_hwc, channels_first, channels_last, from_hwc
from glowembed.records import dataclass

BITS = {"int8": 12, "int16": 14}
"""The most bits of a weight. With 12, sums of int8 fit in int32; with 14, int16 cannot tell the weights from the exact
ones.
"""

MOST_WEIGHT = 1.5
"""The largest weight of a table. Cubic weights exceed it where their coefficient is unusual, or where nearly all of them
lie outside of the image and are excluded.
"""

GENERATED = "the generated form computes it in float32"


@dataclass(frozen=True)
class Axis:
    """For each output index along an axis, the positions that it reads and their real weights, which sum to 1."""

    at: tuple[tuple[int, ...], ...]
    weights: tuple[tuple[float, ...], ...]

    @property
    def taps(self) -> int:
        return len(self.at[0])

    @property
    def reach(self) -> float:
        """How many times the largest element of the input a sum can reach: 1 if no weight is negative."""
        return max(math.fsum(map(abs, weights)) for weights in self.weights)

    def integers(self, most: int) -> tuple[int, NDArray[np.int64]]:
        """The number of bits b, and the weights as integers in units of 2**-b, which sum to 2**b. b is the fewest bits
        that hold the weights exactly, or `most`; then they are rounded, and the remainder is added to the largest.
        """
        real = np.asarray(self.weights, np.float64)
        for bits in range(most + 1):
            scaled = np.ldexp(real, bits)
            if np.array_equal(scaled, np.rint(scaled)) and (scaled.sum(axis=1) == 2**bits).all():
                return bits, scaled.astype(np.int64)
        made = np.rint(np.ldexp(real, most)).astype(np.int64)
        largest = made.argmax(axis=1)
        made[np.arange(len(made)), largest] += 2**most - made.sum(axis=1)
        return most, made


MODES = ("nearest", "linear", "cubic")

LONGEST_AXIS = 1 << 16
"""The longest axis for which tables are made. Beyond it, the generated form computes the weights, if the output is not
too large.
"""


class Resize(Op):
    """y = x resized. attrs: `rows` and `columns`, an Axis each."""

    name = "Resize"
    onnx: ClassVar[tuple[str, ...]] = ("Resize", "Upsample")
    dependence = "window"
    output_type: ClassVar[OutputType | QType] = "input"

    def import_onnx(self, node: OnnxNode, b: Builder) -> None:
        shape = b.shape(node.inputs[0])
        axes = _axes(node, b, shape)
        rank = len(shape)
        x = b.transpose(node.inputs[0], channels_last(rank))
        rows, columns = axes if rank == 4 else (axes[0], same(1))
        name = self.name if _is_convex(rows, columns) else CubicResize.name
        y = b.add(name, [x], {"rows": rows, "columns": columns}, f"{node.outputs[0]}/channels_last")
        b.transpose(y, channels_first(rank), node.outputs[0])

    def infer(self, attrs: Mapping[str, Any], shapes: Sequence[Shape]) -> tuple[Shape, ...]:
        size = (len(attrs["rows"].at), len(attrs["columns"].at))
        return (from_hwc(size, as_hwc(shapes[0])[2], len(shapes[0])),)

    def float_ref(self, attrs: Mapping[str, Any], inputs: Sequence[Array]) -> tuple[Array, ...]:
        x = inputs[0].reshape(as_hwc(inputs[0].shape)).astype(np.float64)
        y = weighted(x, attrs["rows"], attrs["columns"]).astype(np.float32)
        return (y.reshape(self.infer(attrs, [inputs[0].shape])[0]),)

    def chooses(self, attrs: Mapping[str, Any]) -> bool:
        return bool(attrs["rows"].taps * attrs["columns"].taps == 1)

    def lower(self, node: Node, c: LowerContext) -> None:
        lower_integers(node, c, "int8")


class CubicResize(Resize):
    """A Resize with negative weights, whose outputs may exceed the range of its input."""

    name = "CubicResize"
    onnx = ()
    output_type = "shared"


def _is_convex(*axes: Axis) -> bool:
    return all(weight >= 0 for axis in axes for weights in axis.weights for weight in weights)


def same(size: int) -> Axis:
    """The table of an axis that is not resized."""
    return Axis(tuple((i,) for i in range(size)), tuple((1.0,) for _ in range(size)))


def weighted(x: Array, rows: Axis, columns: Axis) -> Array:
    """The weighted sums of [H, W, C] in the type of x, along the width first."""
    wide = sum(x[:, [p[t] for p in columns.at]] * _column(columns, t, (1, -1, 1)) for t in range(columns.taps))
    return np.asarray(
        sum(np.asarray(wide)[[p[t] for p in rows.at]] * _column(rows, t, (-1, 1, 1)) for t in range(rows.taps))
    )


def _column(axis: Axis, tap: int, shape: tuple[int, ...]) -> Array:
    return np.asarray([w[tap] for w in axis.weights]).reshape(shape)


def _axes(node: OnnxNode, b: Builder, shape: Shape) -> tuple[Axis, ...]:
    """The tables of the spatial axes. Raises Refused for what only the generated form can compute."""
    mode = {"bilinear": "linear"}.get(node.attrs.get("mode", "nearest"), node.attrs.get("mode", "nearest"))
    if mode not in MODES:
        raise Malformed(f"its mode is {mode!r}", f"it can be {', '.join(MODES)}")
    if len(shape) not in (3, 4) or shape[0] != 1:
        raise Refused(f"its input has the shape {list(shape)}", GENERATED)
    scales, sizes = _sizes(node, b, shape)
    if sizes[:2] != shape[:2] or any(scale != 1 for scale in scales[:2]):
        raise Refused("it resizes the batch or the channels", GENERATED)
    if max(sizes) > LONGEST_AXIS:
        raise Refused(f"an axis becomes one of {max(sizes)} elements", GENERATED)
    return tuple(_axis(node, mode, shape[a], sizes[a], scales[a]) for a in range(2, len(shape)))


def _sizes(node: OnnxNode, b: Builder, shape: Shape) -> tuple[list[float], Shape]:
    """The scale and the size of the output along every axis."""
    newer = _newer(node)
    axes = [a % len(shape) for a in node.attrs.get("axes") or range(len(shape))] if newer else list(range(len(shape)))
    scales, sizes = [1.0] * len(shape), list(shape)
    given = node.attrs.get("scales")
    given = _constant(node, b, 2 if newer else 1) if given is None else np.asarray(given)
    if given is not None and given.size:
        if not (np.asarray(given) > 0).all():
            raise Malformed(f"its scales are {np.ravel(given).tolist()}", "all must be above 0")
        for a, scale in zip(axes, np.ravel(given), strict=True):
            scales[a], sizes[a] = float(scale), math.floor(np.float32(shape[a]) * np.float32(scale))
        return scales, tuple(sizes)
    wanted = _constant(node, b, 3) if newer and given is not None else None
    if wanted is None:
        raise Refused("its scales or sizes are computed", GENERATED)
    ratios = [int(size) / shape[a] for a, size in zip(axes, np.ravel(wanted), strict=True)]
    policy = node.attrs.get("keep_aspect_ratio_policy", "stretch")
    common = {"not_larger": min, "not_smaller": max}.get(policy)
    for a, size, ratio in zip(axes, np.ravel(wanted), ratios, strict=True):
        scales[a] = ratio if common is None else common(ratios)
        sizes[a] = int(size) if common is None else math.floor(scales[a] * shape[a] + 0.5)
    return scales, tuple(sizes)


def _newer(node: OnnxNode) -> bool:
    return node.op_type == "Resize" and node.opset >= 11


def _constant(node: OnnxNode, b: Builder, index: int) -> Array | None:
    """The constant of an optional input; an empty array if it is absent. None if it is computed."""
    name = node.input(index)
    return np.zeros(0) if not name else b.const(name)


def _axis(node: OnnxNode, mode: str, size: int, out: int, scale: float) -> Axis:
    if out < 1:
        raise Refused(f"an axis of {size} elements becomes one of {out}", "a tensor without elements")
    if scale == 1.0 and out == size:
        return same(size)
    places = [_place(node, size, out, scale, i) for i in range(out)]
    if mode == "nearest":
        return Axis(tuple((_nearest(node, at, size),) for at in places), ((1.0,),) * out)
    found = [_weights(node, mode, at, size, scale) for at in places]
    if any(not one or max(map(abs, one.values())) > MOST_WEIGHT for one in found):
        raise Refused("its weights are very large, or all excluded", GENERATED)
    taps = max(len(one) for one in found)
    padded = [[*one.items(), *[(max(one), 0.0)] * (taps - len(one))] for one in found]
    return Axis(tuple(tuple(p for p, _ in one) for one in padded), tuple(tuple(w for _, w in one) for one in padded))


def _place(node: OnnxNode, size: int, out: int, scale: float, i: int) -> float:
    """The position in the input for an output index, by the coordinate transformation mode."""
    mode = node.attrs.get("coordinate_transformation_mode", "half_pixel") if _newer(node) else "asymmetric"
    resized = scale * size
    if mode == "half_pixel_symmetric":
        return (1 - out / resized) * (size / 2) + (i + 0.5) / scale - 0.5
    if mode == "align_corners":
        return 0.0 if resized == 1 else i * (size - 1) / (resized - 1)
    modes: dict[str, Callable[[], float]] = {
        "half_pixel": lambda: (i + 0.5) / scale - 0.5,
        "asymmetric": lambda: i / scale,
        "pytorch_half_pixel": lambda: (i + 0.5) / scale - 0.5 if out > 1 else 0.0,
        "tf_half_pixel_for_nn": lambda: (i + 0.5) / scale,
    }
    if mode not in modes:
        raise Refused(f"its coordinate_transformation_mode is {mode!r}", GENERATED)
    return modes[mode]()


def _nearest(node: OnnxNode, at: float, size: int) -> int:
    mode = node.attrs.get("nearest_mode", "round_prefer_floor") if _newer(node) else "floor"
    rounded = {
        "floor": math.floor(at),
        "ceil": math.ceil(at),
        "round_prefer_floor": math.ceil(at - 0.5),
        "round_prefer_ceil": math.floor(at + 0.5),
    }
    if mode not in rounded:
        raise Refused(f"its nearest_mode is {mode!r}", f"supported: {', '.join(rounded)}")
    return min(max(rounded[mode], 0), size - 1)


def _weights(node: OnnxNode, mode: str, at: float, size: int, scale: float) -> dict[int, float]:
    """The nonzero weights by position. With antialias, the window grows with the inverse of the scale. Positions
    outside the input stand for its first or last element; with exclude_outside they are dropped.
    """
    shrink = min(scale, 1.0) if node.attrs.get("antialias", 0) else 1.0
    outside, whole = bool(node.attrs.get("exclude_outside", 0)), math.floor(at)
    reach = math.ceil((2 if mode == "cubic" else 1) / shrink + 1e-9)
    weights: dict[int, float] = {}
    for tap in range(whole + 1 - reach, whole + reach + 1):
        distance = abs(at - tap) * shrink
        weight = _keys(node, distance) if mode == "cubic" else max(0.0, 1.0 - distance)
        if weight and not (outside and not 0 <= tap < size):
            place = min(max(tap, 0), size - 1)
            weights[place] = weights.get(place, 0.0) + weight
    total = math.fsum(weights.values())
    return {place: weight / total for place, weight in sorted(weights.items())} if total else {}


def _keys(node: OnnxNode, distance: float) -> float:
    """The cubic weight of an element at this distance."""
    a = float(node.attrs.get("cubic_coeff_a", -0.75))
    if distance >= 2.0:
        return 0.0
    if distance > 1.0:
        return ((distance * a - 5 * a) * distance + 8 * a) * distance - 4 * a
    return ((distance * (a + 2) - (a + 3)) * distance) * distance + 1.0


@dataclass(frozen=True)
class ResizeParams:
    """Shapes, the number of elements that an output reads, and the bits of the weights."""

    in_w: int = i32("input columns")
    channels: int = i32("of input and output")
    out_h: int = i32("output rows")
    out_w: int = i32("output columns")
    taps_h: int = i32("input rows that an output row reads")
    taps_w: int = i32("input columns that an output column reads")
    shift: int = i32("bits of the weights of rows and columns together: these sum to 2^shift")
    reads: str = field(default="", metadata={"ctype": None})
    """The first and the last input row of each output row, as first:last, separated by commas; for the planner."""


def lower_integers(node: Node, c: LowerContext, dtype: str) -> None:
    """Add the node over integers; its weights have the fewest bits that hold them."""
    x, y = node.inputs[0], node.outputs[0]
    assert c.qtype(x) == c.qtype(y), f"{node.name}: a Resize changes no QType; a Rescale does"
    rows, columns = node.attrs["rows"], node.attrs["columns"]
    most = _most_bits(dtype, rows, columns)
    (down, of_rows), (across, of_columns) = (axis.integers(most) for axis in (rows, columns))
    name = {"int8": "resize_s8", "int16": "resize_s16"}[dtype]
    _add(node, c, name, (of_rows.astype(np.int16), of_columns.astype(np.int16)), down + across)


def _most_bits(dtype: str, rows: Axis, columns: Axis) -> int:
    """The most bits of a weight with which sums fit: in int8 those of an output in int32, in int16 those of a row."""
    most = BITS[dtype]
    if dtype == "int8":
        while rows.reach * columns.reach * 4**most > 4 ** BITS["int8"]:
            most -= 1
    else:
        while columns.reach * 2.0**most > 2.0**16:
            most -= 1
    return most


def lower_float(node: Node, c: LowerContext) -> None:
    weights = (np.asarray(node.attrs[name].weights, np.float32) for name in ("rows", "columns"))
    _add(node, c, "resize_f32", tuple(weights), 0)


def _add(node: Node, c: LowerContext, op: str, weights: tuple[Array, ...], shift: int) -> None:
    rows, columns = node.attrs["rows"], node.attrs["columns"]
    _, width, channels = as_hwc(c.shape(node.inputs[0]))
    reads = ",".join(f"{min(at)}:{max(at)}" for at in rows.at)
    params = ResizeParams(
        width, channels, len(rows.at), len(columns.at), rows.taps, columns.taps, shift, reads
    )  # fmt: skip
    constants = {
        "row_at": Const(np.asarray(rows.at, np.int32)),
        "row_weight": Const(weights[0]),
        "column_at": Const(np.asarray(columns.at, np.int32) * channels),
        "column_weight": Const(weights[1]),
    }
    c.add(node, op, [node.inputs[0]], node.outputs[0], params, constants)


def _cost(node: Node, _: Any) -> Cost:
    p = node.params
    alone = p.taps_h * p.taps_w == 1
    return Cost((2.3 if alone else 5.0 + 6.0 * p.taps_h * p.taps_w) * p.out_h * p.out_w * p.channels, 420)


def why_not_convex(node: Node, _: Any) -> str | None:
    """The reason why outputs may exceed the range of the inputs; None if they cannot."""
    negative = any((node.constants[name].materialize() < 0).any() for name in ("row_weight", "column_weight"))
    return "a weight is negative" if negative else None


class ResizeS8(KernelOp[ResizeParams]):
    """y = (sum over rows of row_weight * (sum over columns of column_weight * x) + 2^(shift - 1)) >> shift.

    The weights of an output sum to 2^shift, so the zero point cancels out. Where no weight is negative, an output stays
    within the range of its inputs; else it is clamped to the range of the type. There is one rounding, halves up. With
    weights of at most 12 bits, or fewer where some are negative, every sum is below 2^31. With shift 0 the output is an
    element of the input.
    """

    name = "resize_s8"
    params = ResizeParams
    constants = {"row_at": "int32_t", "row_weight": "int16_t", "column_at": "int32_t", "column_weight": "int16_t"}
    kernels: tuple[Kernel, ...] = (
        Kernel("ge_resize_s8", when=why_not_convex, cost=_cost, store="rows"),
        Kernel("ge_resize_clamped_s8", template="ge_resize_s8", words={"CLAMPS": "1"}, cost=_cost, store="rows"),
    )
    size = 1

    def rows(self, p: ResizeParams) -> int:
        return p.out_h

    def row_bytes(self, p: ResizeParams) -> tuple[tuple[int, ...], int]:
        return (p.in_w * p.channels * self.size,), p.out_w * p.channels * self.size

    def needs(self, p: ResizeParams, y: int) -> tuple[range, ...]:
        first, last = p.reads.split(",")[y].split(":")
        return (range(int(first), int(last) + 1),)

    def int_ref(self, p: ResizeParams, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        total = summed(p, inputs[0].astype(np.int64), constants)
        rounding, limits = (1 << p.shift) >> 1, np.iinfo(inputs[0].dtype)
        y: Array = np.clip((total + rounding) >> p.shift, limits.min, limits.max).astype(inputs[0].dtype)
        return y


def summed(p: ResizeParams, x: Array, constants: Mapping[str, Array]) -> Array:
    """The weighted sums of [H, W, C], in the order of the taps and in the type of x."""
    x = x.reshape(-1, p.in_w, p.channels)
    at, weight = (constants[n].reshape(p.out_h, p.taps_h) for n in ("row_at", "row_weight"))
    across, across_weight = (constants[n].reshape(p.out_w, p.taps_w) for n in ("column_at", "column_weight"))
    if p.taps_h * p.taps_w == 1:
        return np.asarray(x[at[:, 0]][:, across[:, 0] // p.channels])
    total = np.zeros((p.out_h, p.out_w, p.channels), x.dtype)
    for i in range(p.taps_h):
        row = np.zeros_like(total)
        for j in range(p.taps_w):
            part = x[at[:, i]][:, across[:, j] // p.channels]
            row = row + part * across_weight[:, j].astype(x.dtype)[None, :, None]
        total = total + row * weight[:, i].astype(x.dtype)[:, None, None]
    return total


class ResizeS16(ResizeS8):
    """The op on int16, with weights of at most 14 bits and sums in int64."""

    name = "resize_s16"
    kernels = (
        of_element(
            "ge_resize_s8",
            "s16",
            "ge_resize_s16",
            words={"SUM": "int64_t"},
            when=why_not_convex,
            cost=_cost,
            store="rows",
        ),
        of_element(
            "ge_resize_s8",
            "s16",
            "ge_resize_clamped_s16",
            words={"SUM": "int64_t", "CLAMPS": "1"},
            cost=_cost,
            store="rows",
        ),
    )
    size = 2


class ResizeF32(ResizeS8):
    """The sums in float32, in the order of the taps: first along a row, and each begins with 0."""

    name = "resize_f32"
    constants = {"row_at": "int32_t", "row_weight": "float", "column_at": "int32_t", "column_weight": "float"}
    kernels = (Kernel("ge_resize_f32", cost=_cost, store="rows"),)
    size = 4

    def int_ref(self, p: ResizeParams, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        return summed(p, inputs[0].astype(np.float32), constants)


def _lower_s16(node: Node, c: LowerContext) -> None:
    lower_integers(node, c, "int16")


OPS = (Resize(), CubicResize())
LOWERINGS = {
    (op.name, dtype): lowered for op in OPS for dtype, lowered in (("int16", _lower_s16), ("float32", lower_float))
}
KERNEL_OPS = (ResizeS8(), ResizeS16(), ResizeF32())
