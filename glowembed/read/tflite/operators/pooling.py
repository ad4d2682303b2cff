"""Translates pools over windows, resizing, and reductions over axes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from glowembed.graph.op import Refused
from glowembed.read.tflite.operators.layers import padding, strides
from glowembed.read.tflite.translate import Call

Handler = Callable[[Call], None]


def _pool(c: Call, kind: str, **attrs: int) -> None:
    window, stride = [c.option("FilterHeight", 1), c.option("FilterWidth", 1)], strides(c)
    if min(window) < 1 or len(c.shape(0)) != 4:
        raise Refused(f"a window of {window} on a tensor of shape {list(c.shape(0))}", "check the file")
    pads = padding(c, window, stride)
    x = c.channels_first(c.real(0))
    c.done_channels_last(c.add_main(kind, [x], "pool", kernel_shape=window, strides=stride, pads=pads, **attrs))


def average_pool(c: Call) -> None:
    _pool(c, "AveragePool", count_include_pad=0)


def max_pool(c: Call) -> None:
    _pool(c, "MaxPool")


def l2_pool(c: Call) -> None:
    _l2 = c.add("Mul", [c.real(0), c.real(0)], "square")
    window, stride = [c.option("FilterHeight", 1), c.option("FilterWidth", 1)], strides(c)
    pads = padding(c, window, stride)
    mean = c.add(
        "AveragePool",
        [c.channels_first(_l2)],
        "pool",
        kernel_shape=window,
        strides=stride,
        pads=pads,
        count_include_pad=0,
    )
    c.done("Sqrt", [c.transposed(mean, (0, 2, 3, 1), "nhwc")])


def _reduction(kind: str) -> Handler:
    def reduce(c: Call) -> None:
        axes = c.constant("axes", _axes(c))
        c.done(kind, [c.real(0), axes], keepdims=int(bool(c.option("KeepDims"))))

    return reduce


def _axes(c: Call) -> list[int]:
    """The axes of a reduction, each once and not negative."""
    rank = len(c.shape(0))
    axes = c.integers(1, "axes")
    if any(not -rank <= axis < rank for axis in axes):
        raise Refused(f"the axes {axes} of a tensor with {rank} axes", "check the file")
    return sorted({axis % rank for axis in axes})


def _any_or_all(kind: str) -> Handler:
    """A handler for REDUCE_ANY or REDUCE_ALL: the maximum or minimum of numbers 0 and 1."""

    def reduce(c: Call) -> None:
        number = c.add("Cast", [c.real(0)], "number", to=6)
        found = c.add(kind, [number, c.constant("axes", _axes(c))], "found", keepdims=int(bool(c.option("KeepDims"))))
        c.done("Cast", [found], to=9)

    return reduce


def _chosen(kind: str) -> Handler:
    """A handler for ARG_MAX or ARG_MIN."""

    def choose(c: Call) -> None:
        (axis,) = c.integers(1, "axis")
        found = c.add_main(kind, [c.real(0)], "index", axis=axis, keepdims=0)
        to = {"int32": 6, "int64": 7}.get(c.output().dtype)
        if to is None:
            raise Refused(f"an output of {c.output().dtype}", "int32 and int64 are supported")
        c.done("Cast", [found], to=to)

    return choose


def _resize(c: Call, mode: str) -> None:
    if len(c.shape(0)) != 4:
        raise Refused(f"a tensor of shape {list(c.shape(0))}", "an image of four axes is expected")
    size = c.integers(1, "size")
    n, _, _, channels = c.shape(0)
    height, width = size
    coordinates, rounded = "asymmetric", "floor"
    if c.option("HalfPixelCenters"):
        coordinates, rounded = "half_pixel", "round_prefer_ceil"
    elif c.option("AlignCorners"):
        coordinates, rounded = "align_corners", "round_prefer_ceil"
    attrs = {"mode": mode, "coordinate_transformation_mode": coordinates}
    if mode == "nearest":
        attrs["nearest_mode"] = rounded
    c.done("Resize", [c.real(0), "", "", c.constant("sizes", [n, height, width, channels])], 0, True, **attrs)


def resize_bilinear(c: Call) -> None:
    _resize(c, "linear")


def resize_nearest(c: Call) -> None:
    _resize(c, "nearest")


def cumsum(c: Call) -> None:
    (axis,) = c.integers(1, "axis")
    at = c.constant("axis", np.int64(axis))
    c.done("CumSum", [c.real(0), at], exclusive=int(c.option("Exclusive")), reverse=int(c.option("Reverse")))


OPERATORS = {
    "ARG_MAX": _chosen("ArgMax"),
    "ARG_MIN": _chosen("ArgMin"),
    "AVERAGE_POOL_2D": average_pool,
    "CUMSUM": cumsum,
    "L2_POOL_2D": l2_pool,
    "MAX_POOL_2D": max_pool,
    "MEAN": _reduction("ReduceMean"),
    "REDUCE_ALL": _any_or_all("ReduceMin"),
    "REDUCE_ANY": _any_or_all("ReduceMax"),
    "REDUCE_MAX": _reduction("ReduceMax"),
    "REDUCE_MIN": _reduction("ReduceMin"),
    "REDUCE_PROD": _reduction("ReduceProd"),
    "RESIZE_BILINEAR": resize_bilinear,
    "RESIZE_NEAREST_NEIGHBOR": resize_nearest,
    "SUM": _reduction("ReduceSum"),
}
