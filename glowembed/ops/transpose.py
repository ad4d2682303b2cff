"""Moves channels to the back, [C, H, W] to [H, W, C], row by row, as at the input of a network in NCHW. A Transpose
(layout.py) is lowered to it if the axes move in this way and the type stays the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import log, prod
from typing import Any

from glowembed.graph.cstruct import i32
from glowembed.graph.geometry import Geometry
from glowembed.graph.ir import Array, Node, Shape
from glowembed.graph.op import Cost, Kernel, KernelOp
from glowembed.records import dataclass


@dataclass(frozen=True)
class ChannelsLastParams:
    """`channels` planes of rows x columns elements."""

    rows: int = i32("of a plane, and of the output")
    columns: int = i32("of a plane")
    channels: int = i32("planes of the input, elements of a pixel of the output")

    @property
    def runs(self) -> tuple[int, int]:
        """The number of runs in a row, and their length. Runs lie along the columns, or along the channels if these are
        many more.
        """
        many = self.channels > 4 * self.columns
        return (self.columns, self.channels) if many else (self.channels, self.columns)


def channels_last_params(shape: Shape, perm: Sequence[int]) -> ChannelsLastParams | None:
    """The params if the output is the input with its leading axes moved to the back; None if it is not."""
    axes = [axis for axis in perm if shape[axis] != 1]
    back = [i for i, axis in enumerate(axes) if i > 0 and axis < axes[i - 1]]
    if len(back) != 1 or sorted(axes) != axes[back[0] :] + axes[: back[0]]:
        return None
    dims = [shape[axis] for axis in axes]
    front, channels = dims[: back[0]], prod(dims[back[0] :])
    return ChannelsLastParams(front[0], prod(front[1:]), channels)


def _cost(node: Node, _: Any) -> Cost:
    p = node.params
    count, length = p.runs
    return Cost(p.rows * (20.0 + count * (15.0 + 3.5 * length)), 260)


IN_PLACE_SCRATCH = 256
"""The limit of scratch in bytes. The smaller of the numbers of planes and pixels must not exceed it."""


def _in_place_runs(p: ChannelsLastParams) -> tuple[int, int, int]:
    """The smaller of the numbers of planes and pixels, the bytes in a run, and how many runs one plane (or pixel)
    has.
    """
    few, many = sorted((p.channels, p.rows * p.columns))
    most = max(IN_PLACE_SCRATCH // few, 1)
    step = 4 if many % 4 == 0 and most >= 4 else 1
    block = next(b for b in range(most - most % step, 0, -step) if many % b == 0)
    return few, block, many // block


def _in_place_why_not(node: Node) -> str | None:
    few = min(node.params.channels, node.params.rows * node.params.columns)
    return f"more than {IN_PLACE_SCRATCH} planes, and pixels" if few > IN_PLACE_SCRATCH else None


def _in_place_cost(node: Node, _: Any) -> Cost:
    """The cost of one call that computes the whole output in place.

    Each run is moved to its place, after about ln(runs) steps to find where its cycle begins; copies are in words or
    byte by byte. When the output is elsewhere, the plain kernel runs. The estimate is never below that of the plain
    kernel, because the place of the output is not known when kernels are chosen.
    """
    few, block, count = _in_place_runs(node.params)
    runs, copied = few * count, 0.9 if block % 4 == 0 else 5.0
    cycles = runs * (45.0 + 12.0 * log(runs) + (3.5 + 2 * copied) * block)
    return Cost(max(cycles, _cost(node, None).cycles + 1), 1000)


def _in_place_rows_cost(node: Node, target: Any, rows: int) -> float:
    """The cost of some rows. They do not lie in the memory of the planes, so the plain kernel makes them."""
    if rows == node.params.rows:
        return _in_place_cost(node, target).cycles
    return _cost(replace(node, params=replace(node.params, rows=rows)), target).cycles


IN_PLACE = Kernel(
    "ge_channels_last_in_place_s8",
    when=lambda node, target: _in_place_why_not(node),
    scratch=lambda p: _in_place_runs(p)[0] * _in_place_runs(p)[1],
    cost=_in_place_cost,
    rows_cost=_in_place_rows_cost,
    store="rows",
    same_place=lambda p: True,
)


def _planes(p: ChannelsLastParams, y: int) -> tuple[range, ...]:
    """Row y of every plane, and everything between them."""
    return (range(y, (p.channels - 1) * p.rows + y + 1),)


def _some_columns(p: ChannelsLastParams, columns: range) -> tuple[ChannelsLastParams, int, int]:
    return replace(p, columns=len(columns)), columns.start, columns.start * p.channels


PLANES = Geometry(
    lambda p: int(p.rows),
    lambda p: ((p.columns,), p.columns * p.channels),
    _planes,
    across=_some_columns,
    columns=lambda p: int(p.columns),
)


class ChannelsLastS8(KernelOp[ChannelsLastParams]):
    """y[h, w, c] = x[c, h, w]."""

    name = "channels_last_s8"
    params = ChannelsLastParams
    kernels = (Kernel("ge_channels_last_s8", cost=_cost, store="rows"), IN_PLACE)
    geometry = PLANES

    def int_ref(self, p: ChannelsLastParams, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        return inputs[0].reshape(p.channels, -1).T


OPS = ()
KERNEL_OPS = (ChannelsLastS8(),)
