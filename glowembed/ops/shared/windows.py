"""The windows that convolutions and pools slide over an image. In: params with the fields of ConvParams."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from glowembed.graph.geometry import Elements, Geometry
from glowembed.graph.spatial import ConvParams, ConvTransposeParams, PoolParams, Window


def window_of(p: ConvParams | PoolParams) -> Window:
    """The window of these params. The padding at the end follows from the output size."""
    bottom = (p.out_h - 1) * p.stride_h + (p.kernel_h - 1) * p.dilation_h + 1 - p.in_h - p.pad_top
    right = (p.out_w - 1) * p.stride_w + (p.kernel_w - 1) * p.dilation_w + 1 - p.in_w - p.pad_left
    return Window(
        (p.kernel_h, p.kernel_w),
        (p.stride_h, p.stride_w),
        (p.dilation_h, p.dilation_w),
        (p.pad_top, p.pad_left, bottom, right),
    )


def windowed(elements: Callable[[Any], Elements]) -> Geometry:
    """An output row needs the input rows that its windows cover."""
    return Geometry(
        lambda p: int(p.out_h),
        elements,
        lambda p, y: (window_of(p).rows(y, p.in_h),),
        _part,
        lambda p, columns: _columns(p, columns, elements),
        _outputs,
        lambda p: int(p.out_w),
        _turned,
    )


COUNTED = ("count_top", "count_bottom")
"""The fields of pools' params that are numbers of input rows."""

COUNTED_ACROSS = ("count_left", "count_right")
"""The fields of pools' params that are numbers of input columns."""


def _part(p: ConvParams | PoolParams, out: range, rows: range) -> ConvParams | PoolParams:
    """The params that compute the rows `out` from the input rows `rows`; rows above these become padding."""
    counted = {name: getattr(p, name) - rows.start for name in COUNTED if hasattr(p, name)}
    pad_top = rows.start - (out.start * p.stride_h - p.pad_top)
    return replace(p, in_h=len(rows), out_h=len(out), pad_top=pad_top, **counted)


def _columns(
    p: ConvParams | PoolParams, out: range, elements: Callable[[Any], Elements]
) -> tuple[ConvParams | PoolParams, int, int] | None:
    """The params that compute the columns `out` of each row from only the input columns that they need; columns to the
    left of these become padding. Also the offsets of the first input column and of the first output column in their
    rows, in elements.
    """
    window = window_of(p)
    needed = [x for column in out for x in window.taps(1, column) if 0 <= x < p.in_w]
    if not needed:
        return None
    first, last = min(needed), max(needed) + 1
    counted = {name: getattr(p, name) - first for name in COUNTED_ACROSS if hasattr(p, name)}
    pad_left = first - (out.start * p.stride_w - p.pad_left)
    params = replace(p, in_w=last - first, out_w=len(out), pad_left=pad_left, **counted)
    (row,), written = elements(p)
    return params, row // p.in_w * first, written // p.out_w * out.start


def _outputs(p: ConvParams | PoolParams, out: range) -> ConvParams | PoolParams | None:
    """The params that compute only these channels of a row with one pixel, or None. Only a convolution with one group
    has separate weights for each channel.
    """
    if not isinstance(p, ConvParams) or p.groups != 1 or p.out_w != 1:
        return None
    return replace(p, out_c=len(out))


EXCHANGED = (
    ("in_h", "in_w"), ("out_h", "out_w"), ("kernel_h", "kernel_w"), ("stride_h", "stride_w"),
    ("dilation_h", "dilation_w"), ("pad_top", "pad_left"), ("count_top", "count_left"), ("count_bottom", "count_right"),
    ("min_rows", "min_columns"),
)  # fmt: skip
"""The fields of params with windows that say the same of rows and of columns."""


def _turned(params: Any, rows: int | None) -> Any:
    """The params with rows and columns exchanged: an image of one row has the same elements in memory as one of one
    column. The weights, if any, must be turned too.
    """
    short, long = ("w", "h") if rows is None else ("h", "w")
    if (
        getattr(params, f"in_{short}") != 1
        or getattr(params, f"out_{short}") != 1
        or getattr(params, f"in_{long}") == 1
    ):
        return None
    pairs = [pair for pair in EXCHANGED if hasattr(params, pair[0])]
    changed = replace(params, **{a: getattr(params, b) for x, y in pairs for a, b in ((x, y), (y, x))})
    if not hasattr(params, "table_columns"):
        return changed
    taps = [window_of(changed).taps(1, x) for x in range(changed.out_w)]
    counts = [sum(changed.count_left <= tap < changed.count_right for tap in row) for row in taps]
    return replace(changed, table_columns=max(counts) - min(counts) + 1)


CONVOLUTION = windowed(lambda p: ((p.in_w * p.in_c,), p.out_w * p.out_c))
POOL = windowed(lambda p: ((p.in_w * p.channels,), p.out_w * p.channels))


def _reached(p: ConvTransposeParams, y: int) -> tuple[range, ...]:
    taps = [y + p.pad_top - k * p.dilation_h for k in range(p.kernel_h)]
    rows = [t // p.stride_h for t in taps if t % p.stride_h == 0 and 0 <= t // p.stride_h < p.in_h]
    return (range(min(rows), max(rows) + 1) if rows else range(0),)


TRANSPOSED = Geometry(CONVOLUTION.count, CONVOLUTION.elements, _reached, turned=_turned)
"""The geometry of a transposed convolution: an output row needs the input rows whose windows reach it."""
