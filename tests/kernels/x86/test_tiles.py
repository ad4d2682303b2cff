"""The tiles that a bundle for x86-64 contains: the choice in Python is that in C, and no layer needs another."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

from glowembed.emit.csource import level_macros
from glowembed.graph.cstruct import c_struct
from glowembed.graph.isa import Layer, Level
from glowembed.kernels.x86 import tiles
from glowembed.kernels.x86.levels import LEVELS
from glowembed.ops.conv import Conv2dParams
from glowembed.run.kernel import shared_library

LISTS = (tiles.TILES, tiles.COLUMNS, tiles.RAW)

CHOICE = """#include "ge_x86_portable.h"
{}
{}
#include "ge_x86_tiles.h"
int32_t tile_rows(int32_t pixels, int32_t want);
int32_t tile_width(int32_t vectors);
int32_t column_rows(int32_t pixels, int32_t want);
int32_t raw_rows(int32_t pixels, int32_t across, int32_t want);
int32_t tile_rows(int32_t pixels, int32_t want) {{ return ge_x86_tile_rows(pixels, want); }}
int32_t tile_width(int32_t vectors) {{ return ge_x86_tile_width(vectors); }}
int32_t column_rows(int32_t pixels, int32_t want) {{ return ge_x86_column_rows(pixels, want); }}
int32_t raw_rows(int32_t pixels, int32_t across, int32_t want) {{ return ge_x86_raw_rows(pixels, across, want); }}
int32_t span(const ge_conv2d_params *p);
int32_t span(const ge_conv2d_params *p) {{ return ge_x86_group_span(p); }}
"""


def listed(text: str) -> list[tiles.Tile]:
    return [(int(rows), int(wide)) for rows, wide in re.findall(r"T\((\d+), (\d+)\)", text)]


@pytest.mark.cc
@pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.word)
def test_python_and_c_choose_the_same_tiles(level: Level) -> None:
    macros = level_macros(level)
    own = "\n".join(f"#undef {name}\n#define {name}(T) {macros[name]}" for name in LISTS)
    c, (plain, columns, raw) = (
        shared_library(CHOICE.format(c_struct(Conv2dParams), own)),
        (listed(macros[name]) for name in LISTS),
    )
    for wide in range(1, 9):
        assert c.tile_width(wide) == tiles.tile_width(wide, plain)
        for pixels in range(1, 140):
            assert c.tile_rows(pixels, wide) == tiles.tile_rows(pixels, wide, plain)
            assert c.column_rows(pixels, wide) == tiles.column_rows(pixels, wide, columns)
            for across in (1, 2, 3, 5, 7, 16):
                assert c.raw_rows(pixels, across, wide) == tiles.raw_rows(pixels, across, wide, raw)


def layer(out_c: int, out_w: int, kernel: int, in_c: int = 16, records: int = 0, plain: bool = True) -> Layer:
    """A convolution of an image of eight rows, called once."""
    p = Conv2dParams(
        in_h=8, in_w=out_w, in_c=in_c, out_h=8, out_w=out_w, out_c=out_c, kernel_h=kernel, kernel_w=kernel,
        stride_h=1, stride_w=1, pad_top=kernel // 2, pad_left=kernel // 2, dilation_h=1, dilation_w=1, groups=1,
        in_zero_point=-128, out_zero_point=0, shift=32, lo=-128, hi=127,
    )  # fmt: skip
    scale = np.full(-(-out_c // 16) * 16, 0.001 if plain else -1, np.float32)
    return Layer(p, frozenset({8}), False, {"scale": scale, "records": np.array([records], np.uint8)})


NETWORKS = [
    ("a 1x1 reads pixels in place", [layer(64, 5, 1)], "", "", "T(5, 4)"),
    ("unless a channel is computed in integers", [layer(64, 5, 1, plain=False)], "T(5, 4) T(1, 4)", "", ""),
    ("three columns", [layer(16, 16, 3)], "", "T(16, 1)", ""),
    ("three columns, but not all channels", [layer(20, 16, 3)], "T(8, 2) T(1, 2)", "", ""),
    ("five columns of few outputs", [layer(10, 5, 5)], "T(5, 1)", "", ""),
    ("two layers", [layer(64, 5, 1), layer(64, 5, 5)], "T(5, 4) T(1, 4)", "", "T(5, 4)"),
]


@pytest.mark.parametrize(
    ("case", "layers", "plain", "columns", "raw"), NETWORKS, ids=lambda x: x if isinstance(x, str) else ""
)
def test_tiles_of_a_network(case: str, layers: list[Layer], plain: str, columns: str, raw: str) -> None:
    found = tiles.used(layers, level_macros(LEVELS[-1]))
    wanted = {*listed(plain), (1, 1)}
    assert (set(listed(found[tiles.TILES])), found[tiles.COLUMNS], found[tiles.RAW]) == (wanted, columns, raw)


def test_every_width_has_a_tile_of_one_pixel() -> None:
    """A tile that a network unexpectedly lacks is replaced by it."""
    for level, out_c, out_w, kernel in itertools.product(LEVELS, (10, 16, 40, 64, 144), (1, 3, 5, 20), (1, 3, 5)):
        for plain in (False, True):
            found = listed(tiles.used([layer(out_c, out_w, kernel, plain=plain)], level_macros(level))[tiles.TILES])
            assert {(1, 1), *((1, wide) for _, wide in found)} <= set(found)


def test_squares_and_products_of_bytes_are_only_where_a_layer_needs_them() -> None:
    avx2 = level_macros(next(level for level in LEVELS if level.word == "avx2"))
    squares, products = "GE_X86_WINOGRAD", "GE_X86_BYTES"
    for layers, expected in (
        ([layer(64, 16, 3)], ("1", "0")),
        ([layer(64, 16, 1, records=8)], ("0", "1")),
        ([layer(64, 2, 3)], ("0", "0")),
    ):
        found = tiles.used(layers, avx2)
        assert (found[squares], found[products]) == expected
