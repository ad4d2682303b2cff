"""Channels that move to the back: [C, H, W] becomes [H, W, C], row by row. What an image in NCHW begins with.

Not made from ONNX nodes of its own: Transpose (layout.py) lowers to it where the axes turn so and the type stays the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from glowembed import mve
from glowembed.cstruct import i32
from glowembed.ir import Array, Node, Shape
from glowembed.op import Cost, Kernel, KernelOp


@dataclass(frozen=True)
class ChannelsLastParams:
    """`channels` planes of rows x columns elements."""

    rows: int = i32("of a plane, and of the output")
    columns: int = i32("of a plane")
    channels: int = i32("planes of the input, elements of a pixel of the output")


def channels_last_params(shape: Shape, perm: Sequence[int]) -> ChannelsLastParams | None:
    """Params where the output is the input with its leading axes moved to the back; None where it is not."""
    axes = [axis for axis in perm if shape[axis] != 1]
    back = [i for i, axis in enumerate(axes) if i > 0 and axis < axes[i - 1]]
    if len(back) != 1 or sorted(axes) != axes[back[0] :] + axes[: back[0]]:
        return None
    dims = [shape[axis] for axis in axes]
    front, channels = dims[: back[0]], prod(dims[back[0] :])
    return ChannelsLastParams(front[0], prod(front[1:]), channels)


def _cost(node: Node, _: Any) -> Cost:
    p = node.params
    return Cost(p.rows * (20.0 + p.channels * (15.0 + 3.5 * p.columns)), 180)


class ChannelsLastS8(KernelOp):
    """y[h, w, c] = x[c, h, w]."""

    name = "channels_last_s8"
    params = ChannelsLastParams
    kernels = (Kernel("ge_channels_last_s8", cost=_cost, store="rows"), mve.CHANNELS_LAST)

    def rows(self, p: ChannelsLastParams) -> int:
        return p.rows

    def row_bytes(self, p: ChannelsLastParams) -> tuple[tuple[int, ...], int]:
        return (p.columns,), p.columns * p.channels

    def needs(self, p: ChannelsLastParams, y: int) -> tuple[range, ...]:
        """Row y of every plane, and what lies between them."""
        return (range(y, (p.channels - 1) * p.rows + y + 1),)

    def int_ref(self, p: ChannelsLastParams, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        return inputs[0].reshape(p.channels, -1).T


OPS = ()
KERNEL_OPS = (ChannelsLastS8(),)
