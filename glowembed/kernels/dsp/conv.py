"""Convolution on Cortex-M4, M7 and M33 by int16 columns and by strips of rows: when the kernels apply, their constants,
scratch and costs.

In: kernel-level conv2d nodes and their params. Out: `Kernel`s. runtime_c/kernels/dsp/conv2d_s8_dsp.c, conv2d_strip_s8_dsp.c
and conv2d_laws_s8_dsp.c explain how they work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from glowembed.graph.ir import Array, Node
from glowembed.graph.op import Cost, Kernel, law_number, only, others, together
from glowembed.graph.target import Target
from glowembed.kernels import dsp
from glowembed.law.modes import Mode
from glowembed.ops.conv import Conv2dParams
from glowembed.records import dataclass

DSP_TILE_BYTES, DSP_TILE_MAX = 2048, 16


@dataclass(frozen=True)
class _Columns:
    """The layout of conv2d_s8_dsp_shape_of: the window of one group consists of `runs` runs of `run` bytes, `steps`
    words in total.
    """

    runs: int
    run: int
    steps: int
    tile: int

    @classmethod
    def of(cls, p: Conv2dParams, most: int = DSP_TILE_MAX) -> _Columns:
        depth = p.in_c // p.groups
        together = p.groups == 1 and (p.dilation_w == 1 or p.kernel_w == 1)
        runs, run = (p.kernel_h, p.kernel_w * depth) if together else (p.kernel_h * p.kernel_w, depth)
        steps = runs * dsp.words(run)
        tile = DSP_TILE_BYTES // (4 * steps) & ~1
        return cls(runs, run, steps, min(max(tile, 2), most))

    def border(self, p: Conv2dParams) -> float:
        """The cycles that a run takes on average for the padding, in which some runs lie partly or wholly."""
        taps = self.run // (p.in_c // p.groups)
        steps = [0] if taps > 1 else [tap * p.dilation_w for tap in range(p.kernel_w)]
        rows = _inside(p.out_h, p.stride_h, p.pad_top, [tap * p.dilation_h for tap in range(p.kernel_h)], p.in_h)
        columns = _inside(p.out_w, p.stride_w, p.pad_left, steps, p.in_w - taps + 1)
        return (1 - rows * columns) * (30 + 14 * taps + 7 * self.run)

    def order(self) -> list[int]:
        """The index of the window's element in each half-word of a column; -1 for none."""
        one = dsp.run_order(self.run)
        return [-1 if i < 0 else r * self.run + i for r in range(self.runs) for i in one]


def _inside(pixels: int, stride: int, pad: int, taps: Sequence[int], places: int) -> float:
    """The share of the pairs (pixel, tap) that lie at one of the first `places` elements of an axis."""
    inside = sum(0 <= pixel * stride - pad + tap < places for pixel in range(pixels) for tap in taps)
    return inside / (pixels * len(taps))


def _dsp_scratch(p: Conv2dParams, most: int = DSP_TILE_MAX) -> int:
    c = _Columns.of(p, most)
    return 4 * most + (c.run + 3 & ~3) + c.tile * c.steps * 4


def _dsp_arrange(constants: Mapping[str, Array], p: Conv2dParams, mode: Mode) -> Mapping[str, Array]:
    order = _Columns.of(p).order()
    groups = [(w.reshape(len(w), -1), b, m) for w, b, m in dsp.grouped(constants, p.groups)]
    return {"stream": np.concatenate([dsp.gemm_stream(*group, order, p, mode=mode) for group in groups])}


def _wide_arrange(
    constants: Mapping[str, Array], p: Conv2dParams, block: dsp.Block = dsp.wide_block
) -> Mapping[str, Array]:
    order = _Columns.of(p).order()
    groups = [(w.reshape(len(w), -1), b, m) for w, b, m in dsp.grouped(constants, p.groups)]
    return {"stream": np.concatenate([dsp.gemm_stream(*group, order, p, block) for group in groups])}


_GEMM_LAW_CYCLES: Mapping[Mode, int] = {"default": 0, "onnx": 115, "glow": 60, "tflite": 60}
"""Additional cycles for eight outputs, by law."""


def _dsp_cost(node: Node, target: Target, step: int = 15, most: int = DSP_TILE_MAX, mode: Mode = "default") -> Cost:
    p, c = node.params, _Columns.of(node.params, most)
    pixels, blocks = p.out_h * p.out_w, -(-(p.out_c // p.groups) // 4)
    unaligned = 85 if c.run % 4 else 0  # unaligned runs are copied first
    column = 3.2 * c.steps + (30 + unaligned + c.border(p)) * c.runs + 45
    block = 68 + _GEMM_LAW_CYCLES[mode] + step * c.steps + 4 * -(-c.steps // 8)
    if p.groups > 1:  # tiles end at the end of a row
        tiles, pairs = p.out_h * -(-p.out_w // c.tile), p.out_h * -(-p.out_w // 2)
        return Cost(p.groups * (pixels * column + blocks * (pairs * block + 20 * tiles) + 180 * tiles), 2300)
    return Cost(pixels * column + blocks * (-(-pixels // 2) * block + 20 * pixels / c.tile), 2300)


def _columns(most: int = DSP_TILE_MAX, mode: Mode = "default") -> Kernel:
    """The kernel in one law, with columns of at most `most` pixels at a time."""
    fewer = most < DSP_TILE_MAX
    numbers = {**({"TILE": most} if fewer else {}), **law_number(mode)}
    return Kernel(
        f"ge_conv2d{most if fewer else ''}_s8_dsp",
        isa="dsp",
        when=lambda n, t: (
            dsp.why_not(n, mode)
            or ("it needs no less scratch" if fewer and _Columns.of(n.params).tile <= most else None)
        ),
        constants={"stream": "uint32_t"},
        arrange=lambda constants, p: _dsp_arrange(constants, p, mode),
        instance=(lambda p: numbers) if numbers else None,
        scratch=lambda p: _dsp_scratch(p, most),
        cost=lambda n, t: _dsp_cost(n, t, most=most, mode=mode),
        store="rows",
        template="ge_conv2d_s8_dsp" if fewer else "",
    )


def column_kernels(mode: Mode = "default") -> list[Kernel]:
    """The kernels in one law, with as many columns as fit and with two at a time."""
    return [_columns(most, mode) for most in (DSP_TILE_MAX, 2)]


def part_kernels(mode: Mode = "default") -> list[Kernel]:
    """The kernel with columns that computes some output channels, in one law. For all of them, others are as fast or faster."""
    columns = _columns(mode=mode)

    def rows_cost(node: Node, target: Target, rows: int) -> float:
        p, channels = node.params, node.params.groups if node.params.groups > 1 else node.params.out_c
        return (
            _dsp_cost(replace(node, params=replace(p, groups=1, out_c=channels, out_h=rows)), target, mode=mode).cycles
            + 1
        )

    return [
        replace(
            columns,
            symbol="ge_conv2d_part_s8_dsp",
            option="prefetch",
            when=lambda n, t: "it takes one group" if n.params.groups > 1 else dsp.why_not(n, mode),
            cost=lambda n, t: Cost(rows_cost(n, t, n.params.out_h), 2300),
            rows_cost=rows_cost,
            store="disjoint",
            blocks=lambda p: 0 if p.out_c % 4 else 4,
        )
    ]


WIDE = Kernel(
    "ge_conv2d_wide_s8_dsp",
    isa="dsp",
    when=lambda n, t: dsp.why_not_wide(n),
    constants={"stream": "uint32_t"},
    arrange=_wide_arrange,
    scratch=_dsp_scratch,
    cost=lambda n, t: _dsp_cost(n, t, 18),
    store="rows",
)
"""The kernel with columns and 16-bit weights."""

ASYMMETRIC = replace(
    WIDE,
    symbol="ge_conv2d_aw_s8_dsp",
    arrange=lambda constants, p: _wide_arrange(dsp.without_zero_points(constants), p, dsp.pairs_block),
    cost=lambda n, t: _dsp_cost(n, t, 16),
)
"""The kernel with columns for asymmetric weights, which are stored minus their zero points, in 16 bits."""


# Convolution by dsp kernels from a strip of rows (runtime_c/kernels/dsp/ge_isa_dsp_strip.h), `wide` pixels at a time.

DSP_STRIP_ROWS = 8

WHOLE = 0
"""Stands for whole rows of windows, in place of a number of windows."""


def _strip_instance(p: Conv2dParams, wide: int = WHOLE, mode: Mode = "default") -> Mapping[str, int]:
    taps = p.kernel_h * p.kernel_w
    channels = p.in_c + (p.in_c % 2 if p.stride_w * p.stride_h % 2 or p.stride_w * p.kernel_h % 2 else 0)
    channels += 2 if channels % 4 == 2 and p.in_c % 2 else 0
    steps = (taps * channels + 1) // 2
    return {
        "PIXEL": 2 * channels * p.kernel_h * p.stride_w,
        "STEPS": steps,
        "CHANNELS": channels,
        "UNROLL": dsp.unroll(steps - 1),
        "DOWN": 8 - dsp.up_of(p, mode),
        "TILE": wide,
        **law_number(mode),
    }


def _strip_scratch(p: Conv2dParams, wide: int = WHOLE) -> int:
    c = _strip_instance(p, wide)
    pixels = min(wide or p.out_w, p.out_w)
    kept = pixels == p.out_w and p.stride_h < p.kernel_h
    creep = (min(DSP_STRIP_ROWS, p.out_h) - 1) * p.stride_h * 2 * c["CHANNELS"] if kept else 0
    columns = ((pixels - 1) * p.stride_w + p.kernel_w) * p.kernel_h * 2 * c["CHANNELS"]
    return int(creep + max(columns, ((pixels + 1 & ~1) - 1) * c["PIXEL"] + 4 * c["STEPS"]))


def _strip_why_not(node: Node, wide: int = WHOLE, mode: Mode = "default") -> str | None:
    p = node.params
    if p.groups > 1 or p.out_c < 4:
        return "it takes 4 output channels and more, in one group"
    if (p.dilation_h > 1 and p.kernel_h > 1) or (p.dilation_w > 1 and p.kernel_w > 1):
        return "the taps do not touch"
    if p.kernel_h * p.kernel_w == 1:
        return "the window is 1x1"
    c = _strip_instance(p)
    if c["PIXEL"] > 4092 or c["STEPS"] > 8000 or abs(2 * c["PIXEL"] - 4 * c["STEPS"]) > 4095:
        return "a window is too large"
    if wide and _strip_scratch(p, wide) >= _strip_scratch(p):
        return "it needs no less scratch"
    return dsp.why_not(node, mode)


def _strip_arrange(constants: Mapping[str, Array], p: Conv2dParams, mode: Mode) -> Mapping[str, Array]:
    c = _strip_instance(p)
    order: list[int] = []
    for tap in range(p.kernel_h * p.kernel_w):
        kx, ky = divmod(tap, p.kernel_h)
        first = (ky * p.kernel_w + kx) * p.in_c
        channels = dsp.run_order(c["CHANNELS"]) if c["CHANNELS"] % 4 == 0 else range(c["CHANNELS"])
        order += [first + k if k < p.in_c else -1 for k in channels]
    order += [-1] * (2 * c["STEPS"] - len(order))
    weights = constants["weights"].reshape(p.out_c, -1)
    return {"stream": dsp.gemm_stream(weights, constants["bias"], constants["multiplier"], order, p, mode=mode)}


def _strip_expand(p: Conv2dParams) -> float:
    """The cycles to expand one pixel to int16."""
    if p.in_c % 4:
        return float(12 + 6 * p.in_c)
    return 6 + (2.3 if p.in_c % 16 else 1.5) * float(p.in_c)


def _strip_code(instance: Mapping[str, int]) -> tuple[int, int]:
    """The bytes of an instance's own code, and of the code that all instances share."""
    return 420 + 56 * (instance["UNROLL"] if instance["STEPS"] > 1 else 0), 1450


_STRIP_LAW_CYCLES: Mapping[Mode, int] = {"default": 0, "onnx": 87, "glow": 33, "tflite": 33}
"""Additional cycles for eight outputs, by law."""


def _strip_rows_cost(node: Node, target: Target, rows: int, wide: int = WHOLE, mode: Mode = "default") -> float:
    """The cost of some rows. Each call expands the rows under its first windows again, and parts of a row expand all
    their rows and the columns where two parts meet.
    """
    p = node.params
    c, groups = _strip_instance(p, wide), -(-p.out_c // 4)
    end = 55 + (4 if dsp.up_of(p, mode) else 0) + _STRIP_LAW_CYCLES[mode]
    block = end + 15 * c["STEPS"] + dsp.turns(c["STEPS"] - 1, c["UNROLL"])
    width = min(wide or p.out_w, p.out_w)
    parts = -(-p.out_w // width)
    again = parts > 1 or p.stride_h >= p.kernel_h
    columns = (width - 1) * p.stride_w + p.kernel_w
    expanded = rows * p.kernel_h if again else rows * p.stride_h * 1.1 + p.kernel_h - p.stride_h
    pairs = (parts - 1) * -(-width // 2) + -(-(p.out_w - (parts - 1) * width) // 2)
    return float(
        rows * pairs * groups * block
        + rows * parts * (100 + 16 * groups)
        + parts * columns * expanded * _strip_expand(p)
    )


def _strip(wide: int = WHOLE, mode: Mode = "default") -> Kernel:
    return Kernel(
        f"ge_conv2d_strip{wide or ''}_s8_dsp",
        isa="dsp",
        when=lambda n, t: _strip_why_not(n, wide, mode),
        constants={"stream": "uint32_t"},
        arrange=lambda constants, p: _strip_arrange(constants, p, mode),
        instance=lambda p: _strip_instance(p, wide, mode),
        scratch=lambda p: _strip_scratch(p, wide),
        row_scratch=lambda p: _strip_scratch(replace(p, out_h=1), wide),
        cost=lambda n, t: Cost(
            _strip_rows_cost(n, t, n.params.out_h, wide, mode), *_strip_code(_strip_instance(n.params))
        ),
        store="rows",
        rows_cost=lambda n, t, rows: _strip_rows_cost(n, t, rows, wide, mode),
        template="ge_conv2d_strip_s8_dsp" if wide else "",
    )


def strip_kernels(mode: Mode = "default") -> list[Kernel]:
    """The kernels in one law, with whole rows of windows and with 8 and 2 windows at a time."""
    return [_strip(wide, mode) for wide in (WHOLE, 8, 2)]


def _laws_why_not(node: Node, target: Target) -> str | None:
    p = node.params
    if p.groups > 1:
        return f"{p.groups} groups"
    return "the taps of a row do not touch" if p.dilation_w > 1 and p.kernel_w > 1 else None


def _laws_cost(node: Node, target: Target) -> Cost:
    """The cost: two channels are computed at a time, one row of taps after another; the requantization takes most of
    the time of an output.
    """
    p = node.params
    pairs = p.out_h * p.out_w * -(-p.out_c // 2)
    return Cost(2.0 * node.macs + pairs * (110.0 + 55.0 * p.kernel_h), 900)


LAWS = Kernel(
    "ge_conv2d_laws_s8_dsp",
    isa="dsp",
    when=_laws_why_not,
    scratch=lambda p: p.kernel_w * p.in_c,
    cost=_laws_cost,
    store="rows",
)
"""The kernel for the laws of other engines that takes layers the strip kernels refuse: scales of 1/2 and more, large
sums, and taps that are not vertically adjacent.
"""


KERNELS = {
    "conv2d_s8": together(others(LAWS), column_kernels, part_kernels, only(WIDE), strip_kernels),
    "conv2d_aw_s8": together(only(ASYMMETRIC), others(dsp.asymmetric(LAWS, "conv2d"))),
}
