"""Copies and transpositions to channels-last for Helium: the cost of the kernels.

In: kernel-level nodes. Out: `Kernel`s.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

from glowembed.graph.ir import Node
from glowembed.graph.op import Cost, Kernel, KernelsOf, only
from glowembed.kernels.mve import blocks_of

PIECE = 8
"""The fewest contiguous bytes that a copy moves as one piece."""

TILE, FEWEST_PIXELS = 16, 12
"""CHANNELS_LAST_S8_MVE_TILE and CHANNELS_LAST_S8_MVE_FEWEST of the C file."""


def _block_cost(node: Node, target: Any) -> Cost:
    """The cost: runs lie along the longest dimension, in vectors of eight, which are gathered and scattered if they are
    not contiguous.
    """
    p = node.params
    piece = p.in_strides[-1] == 1 and p.out_strides[-1] == 1
    along = p.dims[-1] if piece and p.dims[-1] >= PIECE else max(p.dims)
    element = (3.0 if piece else 8.0) if p.shift else (0.3 if piece else 3.0)
    return Cost(p.rows * (prod(p.dims) // along) * (element * along + 45), 620)


COPY, COPY_INTO, INSERT = (
    Kernel(f"ge_{name}_s8_mve", isa="mve", cost=_block_cost, store="rows") for name in ("copy", "copy_into", "insert")
)


def _channels_last_cost(node: Node, target: Any) -> Cost:
    """The cost if the rows of the image follow each other, so that they are one."""
    p, pixels = node.params, node.params.rows * node.params.columns
    planes = p.channels // TILE if pixels >= FEWEST_PIXELS else 0
    rest = p.channels - TILE * planes
    count, length, each = (pixels, rest, 18.0) if rest > 4 * pixels else (rest, pixels, 8.0)
    tiles = planes * (14.0 * pixels + 80 * blocks_of(pixels, TILE))
    return Cost(40.0 + tiles + count * (20.0 + each * blocks_of(length, 8)), 560)


CHANNELS_LAST = Kernel(
    "ge_channels_last_s8_mve",
    isa="mve",
    when=lambda node, target: "offsets of 8 pixels have more than 16 bits" if node.params.channels > 9362 else None,
    cost=_channels_last_cost,
    store="rows",
)


KERNELS: Mapping[str, KernelsOf] = {
    "copy_s8": only(COPY),
    "copy_into_s8": only(COPY_INTO),
    "insert_s8": only(INSERT),
    "channels_last_s8": only(CHANNELS_LAST),
}
