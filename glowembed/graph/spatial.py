"""Sliding windows: sizes, padding and views shared by convolution and pooling. Pure arithmetic on NHWC arrays.

Source: ONNX operator specification, sections Conv, AveragePool and MaxPool.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from glowembed.graph.cstruct import i32
from glowembed.graph.ir import Array, Shape
from glowembed.graph.op import Malformed, OnnxNode, Refused
from glowembed.records import dataclass

MAX_WINDOW = 2**15 - 1
"""the largest kernel size, stride, dilation or padding: kernels multiply two of them in int32"""


@dataclass(frozen=True)
class Window:
    """A 2-D window. All fields are (vertical, horizontal), except pads: (top, left, bottom, right), in elements.

    Negative pads at the bottom or to the right are rows or columns of the input that no window reaches.
    """

    kernel: tuple[int, int]
    strides: tuple[int, int] = (1, 1)
    dilations: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)

    @classmethod
    def of(cls, attrs: Mapping[str, Any]) -> Window:
        return cls(attrs["kernel"], attrs["strides"], attrs["dilations"], attrs["pads"])

    def attrs(self) -> dict[str, Any]:
        return {"kernel": self.kernel, "strides": self.strides, "dilations": self.dilations, "pads": self.pads}

    def out_size(self, size: tuple[int, int]) -> tuple[int, int]:
        """The number of windows that fit into the padded size, vertically and horizontally."""
        h, w = (
            (size[i] + self.pads[i] + self.pads[i + 2] - (self.kernel[i] - 1) * self.dilations[i] - 1)
            // self.strides[i]
            + 1
            for i in (0, 1)
        )
        return h, w

    def taps(self, axis: int, output: int) -> range:
        """The input positions of the taps of an output row (axis 0) or column (axis 1); positions outside the input are
        padding.
        """
        first, step = output * self.strides[axis] - self.pads[axis], self.dilations[axis]
        return range(first, first + self.kernel[axis] * step, step)

    def rows(self, y: int, height: int) -> range:
        """The existing input rows that output row `y` reads, from the first to the last."""
        taps = [row for row in self.taps(0, y) if 0 <= row < height]
        return range(taps[0], taps[-1] + 1) if taps else range(0)

    def inside(self, axis: int, size: int) -> range:
        """The range of taps along an axis that lie inside an input of this size for at least one output.

        It has at least one tap, and enough taps that the padding on either side is not negative.
        """
        kernel, dilation, begin, end = self.kernel[axis], self.dilations[axis], self.pads[axis], self.pads[axis + 2]
        stride, outputs = self.strides[axis], self.out_size((size, size))[axis]

        def is_used(tap: int) -> bool:
            place = tap * dilation - begin
            first = max(0, -(place // stride))  # the first output that has this tap at or after the begin of the input
            return first < outputs and place + first * stride < size

        taps = [k for k in range(kernel) if is_used(k)] or [0]
        return range(min(taps[0], begin // dilation), max(taps[-1] + 1, kernel - end // dilation))

    def cropped(self, vertical: range, horizontal: range) -> Window:
        """The window reduced to these taps, with the same number of outputs."""
        taps = (vertical, horizontal)
        before = [self.pads[i] - taps[i].start * self.dilations[i] for i in (0, 1)]
        after = [self.pads[i + 2] - (self.kernel[i] - taps[i].stop) * self.dilations[i] for i in (0, 1)]
        pads = (before[0], before[1], after[0], after[1])
        return replace(self, kernel=(len(vertical), len(horizontal)), pads=pads)

    def views(self, x: Array, fill: Any) -> Array:
        """Turn [..., H, W, C] into a view [..., out_h, out_w, k_h, k_w, C] of x padded with `fill`."""
        *others, height, width, channels = x.shape
        top, left, bottom, right = self.pads
        padded = np.full((*others, top + height + bottom, left + width + right, channels), fill, x.dtype)
        inner = padded[..., top : top + height, left : left + width, :]
        inner[...] = x[..., : inner.shape[-3], : inner.shape[-2], :]
        out_h, out_w = self.out_size((height, width))
        *ahead, s0, s1, s2 = padded.strides
        return np.lib.stride_tricks.as_strided(
            padded,
            (*others, out_h, out_w, *self.kernel, channels),
            (*ahead, s0 * self.strides[0], s1 * self.strides[1], s0 * self.dilations[0], s1 * self.dilations[1], s2),
            writeable=False,
        )


def as_hwc(shape: Shape) -> tuple[int, int, int]:
    """Channels-last [1, L, C] or [1, H, W, C] as (rows, columns, channels): time runs down the rows.

    Raises Refused for several images, which the operators' definitions as loop nests compute.
    """
    if shape[0] != 1:
        raise Refused(f"a batch of {shape[0]} images: its kernels take one")
    return (shape[1], 1, shape[2]) if len(shape) == 3 else (shape[1], shape[2], shape[3])


def from_hwc(size: tuple[int, int], channels: int, rank: int) -> Shape:
    """The shape [1, L, C] or [1, H, W, C] for an output of `size` rows and columns."""
    return (1, size[0], channels) if rank == 3 else (1, *size, channels)


def channels_last(rank: int) -> tuple[int, ...]:
    """The perm of the Transpose from N, C, spatial... to N, spatial..., C."""
    return (0, *range(2, rank), 1)


def channels_first(rank: int) -> tuple[int, ...]:
    """The perm of the Transpose from N, spatial..., C to N, C, spatial..."""
    return (0, rank - 1, *range(1, rank - 1))


EXCHANGES: Mapping[str, Sequence[int]] = {
    "kernel": (1, 0),
    "strides": (1, 0),
    "dilations": (1, 0),
    "pads": (1, 0, 3, 2),
    "size": (1, 0),
    "uncounted": (1, 0),
}
"""The attrs of windows that are ordered by rows and columns, and their order with the two exchanged."""


def exchanged(attrs: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The attrs of the same op on images whose rows and columns are exchanged; None if it does not tell them apart."""
    if "rows" in attrs and "columns" in attrs:
        return {**attrs, "rows": attrs["columns"], "columns": attrs["rows"]}
    if "kernel" not in attrs:
        return None
    there = {key: order for key, order in EXCHANGES.items() if key in attrs}
    return {**attrs, **{key: tuple(attrs[key][i] for i in order[: len(attrs[key])]) for key, order in there.items()}}


def onnx_window(node: OnnxNode, kernel: Sequence[int], spatial: Sequence[int]) -> Window:
    """The window of an ONNX Conv or pool node over a 1-D or 2-D spatial shape, with auto_pad and ceil_mode resolved.

    ceil_mode becomes extra padding at the end, which callers must not count in an average. Raises Refused for 3-D.
    """
    rank = len(spatial)
    if rank not in (1, 2):
        raise Refused(f"{rank} spatial dimensions", "only 1-D and 2-D are supported")
    strides = list(node.attrs.get("strides", [1] * rank))
    dilations = list(node.attrs.get("dilations", [1] * rank))
    check_steps(rank, kernel, strides, dilations)
    begin, end = _pads(node, list(kernel), list(spatial), strides, dilations)
    check_largest(*begin, *end)
    if node.attrs.get("ceil_mode", 0):
        end = [e + _ceil_extra(spatial[i], kernel[i], strides[i], dilations[i], begin[i], e) for i, e in enumerate(end)]
    (top, left), (bottom, right) = _two(begin, 0), _two(end, 0)
    return Window(_two(kernel, 1), _two(strides, 1), _two(dilations, 1), (top, left, bottom, right))


def check_steps(rank: int, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]) -> None:
    """Raise Refused unless there is one number for each dimension, and each lies in 1..MAX_WINDOW."""
    for what, numbers in (("kernel", kernel), ("strides", strides), ("dilations", dilations)):
        if len(numbers) != rank or min(numbers) < 1:
            raise Malformed(
                f"{what} {list(numbers)} for {rank} spatial dimensions", "one number of at least 1 for each"
            )
        check_largest(*numbers)


def check_largest(*numbers: int) -> None:
    """Raise Refused for a kernel, stride, dilation or padding above MAX_WINDOW."""
    if max(numbers) > MAX_WINDOW:
        raise Malformed(
            f"a kernel, stride, dilation or padding of {max(numbers)}", f"at most {MAX_WINDOW} is supported"
        )


def _two(numbers: Sequence[int], fill: int) -> tuple[int, int]:
    """One or two numbers as two. Time is vertical: a 1-D window is one column wide."""
    return numbers[0], numbers[1] if len(numbers) == 2 else fill


def _pads(
    node: OnnxNode, kernel: list[int], spatial: list[int], strides: list[int], dilations: list[int]
) -> tuple[list[int], list[int]]:
    auto, rank = node.attrs.get("auto_pad", "NOTSET"), len(spatial)
    if auto == "VALID":
        return [0] * rank, [0] * rank
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        begin, end = [], []
        for size, k, s, d in zip(spatial, kernel, strides, dilations, strict=True):
            total = max(0, (-(-size // s) - 1) * s + (k - 1) * d + 1 - size)
            small, large = total // 2, total - total // 2
            begin.append(small if auto == "SAME_UPPER" else large)
            end.append(large if auto == "SAME_UPPER" else small)
        return begin, end
    pads = list(node.attrs.get("pads", [0] * (2 * rank)))
    if len(pads) != 2 * rank:
        raise Malformed(f"pads {pads} for {rank} spatial dimensions", "two numbers for each")
    if any(p < 0 for p in pads):
        raise Malformed(f"negative pads {pads}", "crop with a Slice instead")
    return pads[:rank], pads[rank:]


def _ceil_extra(size: int, kernel: int, stride: int, dilation: int, begin: int, end: int) -> int:
    """The padding to add at the end so that the last, incomplete window counts (it must start inside the input or the
    left padding).
    """
    span = size + begin + end - (kernel - 1) * dilation - 1
    count = -(-span // stride) + 1
    if (count - 1) * stride >= size + begin:
        count -= 1
    return max(0, (count - 1) * stride - span)


@dataclass(frozen=True)
class _WindowParams:
    """The window of a convolution or a pool. It is the first base class, so that its fields come after those of the
    shapes.
    """

    kernel_h: int = i32("taps down")
    kernel_w: int = i32("taps across")
    stride_h: int = i32("rows from window to window")
    stride_w: int = i32("columns from window to window")
    dilation_h: int = i32("rows from tap to tap")
    dilation_w: int = i32("columns from tap to tap")
    pad_top: int = i32("rows of padding above; below it is whatever the output needs")
    pad_left: int = i32("columns of padding to the left")


@dataclass(frozen=True)
class _ConvShapes:
    """Input and output of a convolution."""

    in_h: int = i32("input rows")
    in_w: int = i32("input columns")
    in_c: int = i32("input channels")
    out_h: int = i32("output rows")
    out_w: int = i32("output columns")
    out_c: int = i32("output channels")


@dataclass(frozen=True)
class ConvParams(_WindowParams, _ConvShapes):
    """Shapes, window and groups of a convolution."""

    groups: int = i32("in_c and out_c are split into this many groups")


@dataclass(frozen=True)
class ConvTransposeParams(_ConvShapes):
    """Shapes, window and groups of a transposed convolution."""

    kernel_h: int = i32("taps down")
    kernel_w: int = i32("taps across")
    stride_h: int = i32("output rows from input row to input row")
    stride_w: int = i32("output columns from input column to input column")
    dilation_h: int = i32("output rows from tap to tap")
    dilation_w: int = i32("output columns from tap to tap")
    pad_top: int = i32("output rows cut off above")
    pad_left: int = i32("output columns cut off to the left")
    groups: int = i32("in_c and out_c are split into this many groups")


@dataclass(frozen=True)
class _PoolShapes:
    """Input and output of a pool."""

    in_h: int = i32("input rows")
    in_w: int = i32("input columns")
    channels: int = i32("of input and output")
    out_h: int = i32("output rows")
    out_w: int = i32("output columns")


@dataclass(frozen=True)
class PoolParams(_WindowParams, _PoolShapes):
    """Shapes and window of a pool."""
