"""Pooling: ONNX MaxPool, AveragePool, GlobalMaxPool, GlobalAveragePool, and ReduceMax and ReduceMean over any axes.

Input [1, H, W, C] or [1, L, C]. A reduction is a pool whose window is the whole of the reduced axes. Kernel-level:
maxpool_s8, and avgpool_s8, which multiplies instead of dividing; it has one multiplier for each number of averaged
elements.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glowembed.errors import UnsupportedModelError
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
    Params,
    Refused,
    in_all_modes,
    in_mode,
    of_element,
)
from glowembed.graph.spatial import PoolParams, Window, as_hwc, channels_first, channels_last, from_hwc, onnx_window
from glowembed.law import fixedpoint
from glowembed.law.modes import Mode
from glowembed.ops.reduce import split_max, split_mean
from glowembed.ops.shared.linear import clamp_limits, mode_of
from glowembed.ops.shared.windows import POOL, window_of
from glowembed.records import dataclass


class MaxPool(Op):
    """The largest element of each window; padding does not count."""

    name = "MaxPool"
    onnx = ("MaxPool", "GlobalMaxPool", "ReduceMax")
    dependence = "window"
    output_type = "input"

    def import_onnx(self, node: OnnxNode, b: Builder) -> None:
        _import(self.name, node, b)

    def infer(self, attrs: Mapping[str, Any], shapes: Sequence[Shape]) -> tuple[Shape, ...]:
        return (_pooled(attrs, shapes[0]),)

    def float_ref(self, attrs: Mapping[str, Any], inputs: Sequence[Array]) -> tuple[Array, ...]:
        x = inputs[0]
        y = Window.of(attrs).views(x.reshape(as_hwc(x.shape)), -np.inf).max(axis=(2, 3))
        return (y.reshape(_pooled(attrs, x.shape)),)

    def lower(self, node: Node, c: LowerContext) -> None:
        x, y = node.inputs[0], node.outputs[0]
        assert c.qtype(x) == c.qtype(y), f"{node.name}: a MaxPool changes no QType; a Rescale does"
        c.add(node, "maxpool_s8", [x], y, PoolParams(**window_fields(Window.of(node.attrs), c.shape(x), c.shape(y))))


class AveragePool(Op):
    """The mean of each window, then the fused clip.

    Padding counts as zeros when `count_include_pad` is 1, but never the last `uncounted` (rows, columns) of it, which
    ceil_mode added. `mean`: the op is a ReduceMean.
    """

    name = "AveragePool"
    onnx = ("AveragePool", "GlobalAveragePool", "ReduceMean")
    dependence = "window"
    rounds_once = True
    fuses_activation = True
    law_of_models = "onnx"

    def import_onnx(self, node: OnnxNode, b: Builder) -> None:
        _import(self.name, node, b)

    def infer(self, attrs: Mapping[str, Any], shapes: Sequence[Shape]) -> tuple[Shape, ...]:
        return (_pooled(attrs, shapes[0]),)

    def float_ref(self, attrs: Mapping[str, Any], inputs: Sequence[Array]) -> tuple[Array, ...]:
        x = inputs[0]
        h, w, channels = as_hwc(x.shape)
        views = Window.of(attrs).views(x.reshape(h, w, channels).astype(np.float64), 0.0)
        rows, columns = _averaged(attrs, (h, w))
        y = views.sum(axis=(2, 3)) / np.multiply.outer(rows, columns)[:, :, None]
        y = np.clip(y, attrs.get("act_min", -np.inf), attrs.get("act_max", np.inf)).astype(np.float32)
        return (y.reshape(_pooled(attrs, x.shape)),)

    def lower(self, node: Node, c: LowerContext) -> None:
        x, y = node.inputs[0], node.outputs[0]
        if 255 * prod(node.attrs["kernel"]) >= 2**31:
            raise UnsupportedModelError(
                f"{node.name}: the sum of {prod(node.attrs['kernel'])} elements does not fit int32"
            )
        mode = mode_of(node.attrs)
        pool = not (_counts_padding(node.attrs) or node.attrs.get("mean"))
        if mode == "tflite" and c.qtype(x) == c.qtype(y) and pool:
            window = window_fields(Window.of(node.attrs), c.shape(x), c.shape(y))
            same = AvgpoolSameParams(
                **window, **dict(zip(("lo", "hi"), clamp_limits(c.qtype(y), node.attrs), strict=True))
            )
            c.add(node, "avgpool_tflite_s8", [x], y, same)
            return
        if mode == "onnx" and not _meets_halves(node.attrs, c.shape(x), c.qtype(x), c.qtype(y)):
            mode = "default"
        params, multiplier = average_params(node.attrs, c.shape(x), c.shape(y), c.qtype(x), c.qtype(y), mode)
        constants = {"multiplier": Const(np.asarray(multiplier, dtype=np.int32))}
        c.add(node, in_mode("avgpool_s8", mode), [x], y, params, constants)


def _counts_padding(attrs: Mapping[str, Any]) -> bool:
    return bool(attrs["count_include_pad"]) and any(attrs["pads"])


def _pooled(attrs: Mapping[str, Any], x: Shape) -> Shape:
    h, w, channels = as_hwc(x)
    return from_hwc(Window.of(attrs).out_size((h, w)), channels, len(x))


def _import(op: str, node: OnnxNode, b: Builder) -> None:
    if node.op_type.startswith("Global"):
        _reduce(op, b, node.inputs[0], range(2, len(b.shape(node.inputs[0]))), True, node.outputs[0])
    elif node.op_type.startswith("Reduce"):
        _import_reduction(op, node, b)
    else:
        _import_pool(op, node, b)


def _import_pool(op: str, node: OnnxNode, b: Builder) -> None:
    x, rank, y = node.inputs[0], len(b.shape(node.inputs[0])), node.outputs[0]
    if any(node.outputs[1:]):
        raise Refused("the output Indices is used", "only the maxima themselves are supported")
    window = onnx_window(node, node.attrs["kernel_shape"], b.shape(x)[2:])
    attrs: dict[str, Any] = window.attrs()
    if op == "AveragePool":
        declared = onnx_window(
            replace(node, attrs={**node.attrs, "ceil_mode": 0}), window.kernel[: rank - 2], b.shape(x)[2:]
        )
        attrs["uncounted"] = (window.pads[2] - declared.pads[2], window.pads[3] - declared.pads[3])
        attrs["count_include_pad"] = node.attrs.get("count_include_pad", 0)
    channels_last_x = b.transpose(x, channels_last(rank))
    _check_windows(window, as_hwc(b.shape(channels_last_x)))
    pooled = b.add(op, [channels_last_x], attrs, f"{y}/channels_last")
    b.transpose(pooled, channels_first(rank), y)


def _check_windows(window: Window, x: tuple[int, int, int]) -> None:
    out = window.out_size(x[:2])
    for axis in (0, 1):
        if out[axis] > 0 and not tap_counts(window, out, axis, 0, x[axis]).all():
            raise Refused(f"a window of {window} sees nothing but padding", "use pads that are smaller than the kernel")


def _import_reduction(op: str, node: OnnxNode, b: Builder) -> None:
    """Import a reduction. Its axes are an attribute, and from opset 18 on an input. No axes mean all axes, unless
    noop_with_empty_axes is set.
    """
    x, y = node.inputs[0], node.outputs[0]
    rank = len(b.shape(x))
    axes = node.attrs.get("axes")
    if (name := node.input(1)) is not None:
        constant = b.const(name)
        if constant is None:
            raise Refused(f"axes, {name!r}, are computed at run time", "axes must be constant")
        axes = constant.reshape(-1).tolist()
    if not axes and node.attrs.get("noop_with_empty_axes", 0):
        b.transpose(x, range(rank), y)
        return
    if any(not -rank <= axis < rank for axis in axes or ()):
        raise Malformed(f"axes {axes} of {rank} axes")
    reduced = sorted({axis % rank for axis in axes}) if axes else range(rank)
    _reduce(op, b, x, reduced, node.attrs.get("keepdims", 1) == 1, y, mean=op == "AveragePool")


def _reduce(op: str, b: Builder, x: str, reduced: Sequence[int], keepdims: bool, y: str, mean: bool = False) -> None:
    """Add a pool over whole axes. These axes are moved behind the batch, the remaining ones to the end."""
    shape, rank = b.shape(x), len(b.shape(x))
    batch = [0] if 0 not in reduced and shape[0] == 1 else []
    kept = [axis for axis in range(rank) if axis not in (*batch, *reduced)]
    perm = (*batch, *reduced, *kept)
    moved = b.transpose(x, perm)
    spatial = bool(batch) and len(kept) == 1 and len(reduced) in (1, 2)
    if not spatial:
        moved = b.add(
            "Reshape",
            [moved],
            {"shape": (1, prod(shape[a] for a in reduced), prod(shape[a] for a in kept))},
            f"{y}/rows",
        )
    in_place = spatial and keepdims and perm == tuple(range(rank))
    h, w, _ = as_hwc(b.shape(moved))
    attrs: dict[str, Any] = Window((h, w)).attrs()
    if op == "AveragePool":
        attrs |= {"uncounted": (0, 0), "count_include_pad": 0, **({"mean": 1} if mean else {})}
    pooled = b.add(op, [moved], attrs, y if in_place else f"{y}/channels_last" if spatial else f"{y}/pooled")
    if in_place:
        return
    if spatial and keepdims:
        b.transpose(pooled, np.argsort(perm).tolist(), y)
    else:
        result = tuple(1 if a in reduced else shape[a] for a in range(rank) if keepdims or a not in reduced)
        b.add("Reshape", [pooled], {"shape": result}, y)


def tap_counts(window: Window, out: tuple[int, int], axis: int, first: int, last: int) -> NDArray[np.int64]:
    """For each output row (axis 0) or column (axis 1), the number of taps of its window that lie in first..last-1."""
    at = np.asarray([window.taps(axis, i) for i in range(out[axis])], dtype=np.int64)
    return np.asarray(((at >= first) & (at < last)).sum(axis=1), dtype=np.int64)


def counted_range(attrs: Mapping[str, Any], size: int, axis: int) -> tuple[int, int]:
    """The rows (axis 0) or columns (axis 1) that count in an average: the first, and the last + 1."""
    if not attrs["count_include_pad"]:
        return 0, size
    before, after = attrs["pads"][axis], attrs["pads"][axis + 2]
    return -before, size + after - attrs["uncounted"][axis]


def _averaged(attrs: Mapping[str, Any], size: tuple[int, int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The number of rows that count in each output row, and of columns that count in each output column. Their product
    is the number of elements.
    """
    window = Window.of(attrs)
    out = window.out_size(size)
    return tap_counts(window, out, 0, *counted_range(attrs, size[0], 0)), tap_counts(
        window, out, 1, *counted_range(attrs, size[1], 1)
    )


def window_fields(window: Window, x: Shape, y: Shape) -> dict[str, int]:
    numbers = (*as_hwc(x), *as_hwc(y)[:2], *window.kernel, *window.strides, *window.dilations, *window.pads[:2])
    return dict(zip((f.name for f in fields(PoolParams)), numbers, strict=True))


@dataclass(frozen=True)
class CountedParams(PoolParams):
    """Which elements count in an average."""

    count_top: int = i32("first row that counts: 0, or -pad_top where padding counts as zeros")
    count_bottom: int = i32("one behind the last row that counts, at least in_h")
    count_left: int = i32("first column that counts: 0, or -pad_left")
    count_right: int = i32("one behind the last column that counts, at least in_w")


@dataclass(frozen=True)
class AvgpoolParams(CountedParams):
    """Which elements count in an average, where its multiplier is, and the constants of the requantization."""

    min_rows: int = i32("fewest rows that count in any window")
    min_columns: int = i32("fewest columns that count in any window")
    table_columns: int = i32(
        "multiplier[(rows - min_rows) * table_columns + columns - min_columns] divides by rows * columns"
    )
    in_zero_point: int = i32("-128..127")
    shift: int = i32("of the requantization, 1..32")
    out_zero_point: int = i32("-128..127")
    lo: int = i32("smallest output, the fused activation included")
    hi: int = i32("largest output")


@dataclass(frozen=True)
class AvgpoolSameParams(PoolParams):
    """The limits of an output with the scale and zero point of the input."""

    lo: int = i32("smallest output, the fused activation included")
    hi: int = i32("largest output")


def average_params(
    attrs: Mapping[str, Any], x: Shape, y: Shape, xq: QType, yq: QType, mode: Mode
) -> tuple[AvgpoolParams, tuple[int, ...]]:
    """The params and the table of multipliers: one multiplier for each number of rows and of columns that count."""
    h, w, _ = as_hwc(x)
    rows, columns = _averaged(attrs, (h, w))
    heights, widths = np.arange(rows.min(), rows.max() + 1), np.arange(columns.min(), columns.max() + 1)
    counts = np.maximum(1, np.multiply.outer(heights, widths))
    q = _requant(xq.scale[0], yq.scale[0], counts.reshape(-1), mode, bool(attrs.get("mean")))
    (top, bottom), (left, right) = counted_range(attrs, h, 0), counted_range(attrs, w, 1)
    lo, hi = clamp_limits(yq, attrs)
    params = AvgpoolParams(
        **window_fields(Window.of(attrs), x, y),
        count_top=top,
        count_bottom=bottom,
        count_left=left,
        count_right=right,
        min_rows=int(heights[0]),
        min_columns=int(widths[0]),
        table_columns=len(widths),
        in_zero_point=xq.zero_point[0],
        shift=q.shift,
        out_zero_point=yq.zero_point[0],
        lo=lo,
        hi=hi,
    )
    return params, q.multiplier


def _requant(x: float, y: float, counts: NDArray[Any], mode: Mode, mean: bool) -> fixedpoint.Requant:
    """The requantization for each number of elements. TensorFlow Lite's MEAN and AVERAGE_POOL_2D have different laws."""
    if mode == "tflite" and mean:
        fixedpoint.requant([x / y], mode)  # raises for what no int8 output can hold
        words = (fixedpoint.tflite_mean_words(x / y, int(count)) for count in counts)
        return fixedpoint.Requant(tuple(word for pair in words for word in pair), 0, mode)
    return fixedpoint.requant(np.asarray(x / (y * counts), np.float64), mode)


def _meets_halves(attrs: Mapping[str, Any], x: Shape, xq: QType, yq: QType) -> bool:
    """Whether a mean can lie exactly halfway between two outputs; if not, halves to even and halves up give the same
    result.
    """
    counts = np.unique(np.multiply.outer(*_averaged(attrs, as_hwc(x)[:2])))
    return any(fixedpoint.means_meet_halves(xq.scale[0], yq.scale[0], int(count)) for count in counts if count)


def _pool_cost(node: Node, _: Any) -> Cost:
    p = node.params
    return Cost(12.0 * p.out_h * p.out_w * p.channels * (1 + p.kernel_h * p.kernel_w), 600)


class _PoolBase(KernelOp[Params]):
    geometry = POOL


class MaxpoolS8(_PoolBase[PoolParams]):
    """The largest element of each window. Padding counts as the lowest number."""

    name = "maxpool_s8"
    params = PoolParams
    kernels = (of_element("ge_maxpool", "s8", "ge_maxpool_s8", cost=_pool_cost, store="rows"),)

    def by_rows(self, node: Node, c: LowerContext) -> bool:
        return split_max(node, c)

    def int_ref(self, p: PoolParams, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        x = inputs[0].reshape(p.in_h, p.in_w, p.channels)
        return np.asarray(window_of(p).views(x, -128).max(axis=(2, 3)))


class AvgpoolS8(_PoolBase[AvgpoolParams]):
    """y = requantize(sum of x - in_zero_point over the elements inside the input), with the multiplier for the number
    of elements that count.
    """

    name = "avgpool_s8"
    params = AvgpoolParams
    constants = {"multiplier": "int32_t"}
    kernels = (of_element("ge_avgpool", "s8", "ge_avgpool_s8", cost=_pool_cost, store="rows"),)

    def by_rows(self, node: Node, c: LowerContext) -> bool:
        return split_mean(node, c, self.requantization)

    def int_ref(self, p: AvgpoolParams, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        x = inputs[0].reshape(p.in_h, p.in_w, p.channels).astype(np.int64)
        window = window_of(p)
        acc = window.views(x - p.in_zero_point, 0).sum(axis=(2, 3)).reshape(-1, p.channels)
        rows = tap_counts(window, (p.out_h, p.out_w), 0, p.count_top, p.count_bottom)
        columns = tap_counts(window, (p.out_h, p.out_w), 1, p.count_left, p.count_right)
        index = np.add.outer((rows - p.min_rows) * p.table_columns, columns - p.min_columns)
        words = constants["multiplier"].reshape(-1, fixedpoint.WORDS[self.requantization])[index.reshape(-1)]
        q = fixedpoint.Requant(tuple(words.reshape(-1).tolist()), p.shift, self.requantization)
        return fixedpoint.requantize(acc.T, q, p.out_zero_point, p.lo, p.hi).T


class AvgpoolTfliteS8(_PoolBase[AvgpoolSameParams]):
    """y = sum of x / elements inside the input, rounded, halves away from zero."""

    name = "avgpool_tflite_s8"
    requantization = "tflite"
    params = AvgpoolSameParams
    kernels = (Kernel("ge_avgpool_tflite_s8", cost=_pool_cost, store="rows"),)

    def int_ref(self, p: AvgpoolSameParams, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        window = window_of(p)
        total = window.views(inputs[0].reshape(p.in_h, p.in_w, p.channels).astype(np.int64), 0).sum(axis=(2, 3))
        rows = tap_counts(window, (p.out_h, p.out_w), 0, 0, p.in_h)
        columns = tap_counts(window, (p.out_h, p.out_w), 1, 0, p.in_w)
        count = np.multiply.outer(rows, columns)[:, :, None]
        mean = np.sign(total) * ((np.abs(total) + count // 2) // count)
        y: Array = np.clip(mean, p.lo, p.hi).astype(np.int8)
        return y


OPS = (MaxPool(), AveragePool())
KERNEL_OPS = (MaxpoolS8(), *in_all_modes(AvgpoolS8()), AvgpoolTfliteS8())
