"""How the outputs of a convolution are divided, as in runtime_c/kernels/x86/ge_x86_tiles.h, and which tiles a network uses.

In: the layers of a network, and the macros of a level's headers. Out: the macros that are less for this network, so that
its bundle contains no tiles that it never calls. The C functions choose among the tiles that exist, and each width has
one of one pixel: a list that lacks a tile costs time, but gives the same bits.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from glowembed.graph.isa import Layer
from glowembed.ops.conv import Conv2dParams

Tile = tuple[int, int]
"""Pixels, and vectors of sixteen outputs."""

TILES, COLUMNS, RAW = "GE_X86_TILES", "GE_X86_COLUMN_TILES", "GE_X86_RAW_TILES"

VECTOR = 16
"""The outputs of a vector."""

POINTS = 64
"""The CONV2D_S8_X86_PIXELS of the C file."""

SQUARE_CHANNELS, LARGE = 1024, 4096
"""The GE_X86_WINOGRAD_CHANNELS and CONV2D_S8_X86_LARGE of the C files."""

Lists = Mapping[str, Sequence[Tile]]


def begins(p: Conv2dParams) -> tuple[NDArray[np.int64], int]:
    """The first channel that each vector of outputs reads, and how many channels all vectors read."""
    first = np.arange(0, p.out_c, VECTOR)
    last = np.minimum(first + VECTOR, p.out_c) - 1
    group_in, group_out = p.in_c // p.groups, p.out_c // p.groups
    span = int((last // group_out - first // group_out + 1).max()) * group_in
    return np.minimum(first // group_out * group_in, p.in_c - span), span


def square(p: Conv2dParams) -> bool:
    """Whether the output is computed in squares at levels that have them (conv2d_s8_x86_square)."""
    plain = (3, 3, 1, 1, 1, 1)
    if (p.kernel_h, p.kernel_w, p.stride_h, p.stride_w, p.dilation_h, p.dilation_w) != plain or p.groups > 1:
        return False
    large = p.out_w > 1 and p.out_h * p.out_w * p.out_c >= LARGE
    return bool(large and p.in_c % VECTOR == 0 and p.in_c <= SQUARE_CHANNELS)


def used(layers: Sequence[Layer], macros: Mapping[str, str]) -> Mapping[str, str]:
    """The macros of a level that have other values for a network with these layers."""
    squares = macros["GE_X86_WINOGRAD"] == "1" and any(square(layer.params) for layer in layers)
    products = macros["GE_X86_BYTES"] == "1" and any(_in_bytes(layer) for layer in layers)
    lists = {
        n: [(int(a), int(b)) for a, b in re.findall(r"T\((\d+), (\d+)\)", macros[n])] for n in (TILES, COLUMNS, RAW)
    }
    found = {call for layer in layers for call in _calls(layer, lists, squares, products)}
    found |= {(TILES, (1, wide)) for wide in {1, *(wide for name, (_, wide) in found if name == TILES)}}
    kept = {name: " ".join(f"T({a}, {b})" for a, b in own if (name, (a, b)) in found) for name, own in lists.items()}
    return {**kept, "GE_X86_WINOGRAD": str(int(squares)), "GE_X86_BYTES": str(int(products))}


def tile_rows(pixels: int, wide: int, tiles: Iterable[Tile]) -> int:
    """The height of the tiles of this width for so many pixels (ge_x86_tile_rows)."""
    cost = {rows: -(-pixels // rows) * (rows + 1) for rows, own in tiles if own == wide and rows <= pixels}
    return min(cost, key=lambda rows: cost[rows], default=1)


def tile_width(vectors: int, tiles: Iterable[Tile]) -> int:
    """The widest tile for so many vectors (ge_x86_tile_width)."""
    return max((wide for _, wide in tiles if wide <= vectors), default=1)


def column_rows(pixels: int, wide: int, tiles: Iterable[Tile]) -> int:
    """The height of the tiles of three columns, or 0 (ge_x86_column_rows)."""
    whole = {rows: -(-pixels // rows) * rows for rows, own in tiles if own == wide and rows <= pixels}
    fit = {rows: computed for rows, computed in whole.items() if computed <= pixels + pixels // 8}
    return min(fit, key=lambda rows: fit[rows], default=0)


def raw_rows(pixels: int, across: int, wide: int, tiles: Iterable[Tile]) -> int:
    """The height of the tiles that read pixels in place, or 0 (ge_x86_raw_rows)."""
    own = [(rows, w) for rows, w in tiles if rows <= across or pixels % rows == 0]
    return tile_rows(pixels, wide, own) if any(w == wide and rows <= pixels for rows, w in own) else 0


def _calls(layer: Layer, lists: Lists, squares: bool, products: bool) -> Iterator[tuple[str, Tile]]:
    """The tiles of a layer, each with the name of its list. squares, products: whether the level has squares and
    products of bytes.
    """
    p = layer.params
    if squares and square(p) and all(count % 2 == 0 for count in layer.rows):
        return
    if not _points(p):
        sweeps = (p.kernel_w, p.stride_w, p.dilation_w, p.groups) == (3, 1, 1, 1) and p.in_c % 4 == 0
        yield from _strip(layer, p.out_w, lists, lists[COLUMNS] if sweeps else ())
        return
    if products and _in_bytes(layer):
        return
    vectors = -(-p.out_c // VECTOR)
    in_place = p.groups == 1 and p.in_c % 4 == 0 and p.in_w == p.out_w and p.stride_h == 1
    in_place = in_place and _plain(layer, 0, vectors)
    for count in layer.rows:
        rows = raw_rows(count * p.out_w, p.out_w, vectors, lists[RAW]) if in_place else 0
        if rows > 0:
            yield RAW, (rows, vectors)
        if rows == 0 or layer.streamed:
            most = max(1, POINTS // p.out_w)
            lines = {min(most, count), count % most or most, *({1} if layer.streamed else {})}
            for line in lines:
                yield from _strip(layer, line * p.out_w, lists, ())


def _in_bytes(layer: Layer) -> bool:
    """Whether the weights have records for products of bytes (ge_x86_bytes.h)."""
    return bool(layer.constants["records"][0] > 0)


def _points(p: Conv2dParams) -> bool:
    """Whether the window is one pixel, and no pixel is padding."""
    inside = (p.out_w - 1) * p.stride_w < p.in_w and (p.out_h - 1) * p.stride_h < p.in_h
    return bool(p.kernel_h * p.kernel_w == 1 and p.pad_top == 0 and p.pad_left == 0 and inside)


def _strip(layer: Layer, pixels: int, lists: Lists, columns: Sequence[Tile]) -> Iterator[tuple[str, Tile]]:
    """The tiles for lines of so many pixels (conv2d_s8_x86_strip)."""
    first = begins(layer.params)[0].tolist()
    vector = 0
    while vector < len(first):
        alike = next(
            (n for n in range(1, len(first) - vector) if first[vector + n] != first[vector]), len(first) - vector
        )
        width = min(alike, 2)
        swept = column_rows(pixels, width, columns) if _plain(layer, vector, width) else 0
        if swept > 0:
            yield COLUMNS, (swept, width)
        else:
            width = tile_width(alike, lists[TILES])
            yield TILES, (tile_rows(pixels, width, lists[TILES]), width)
        vector += width


def _plain(layer: Layer, vector: int, wide: int) -> bool:
    """Whether these vectors have all their channels, in form 0 (conv2d_s8_x86_plain)."""
    scale = layer.constants["scale"].reshape(-(-layer.params.out_c // VECTOR), -1)[vector : vector + wide, 0]
    return bool(layer.params.out_c >= VECTOR * (vector + wide) and (scale >= 0).all() and (scale < 1).all())
