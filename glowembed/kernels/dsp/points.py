"""1x1 convolution on Cortex-M4, M7 and M33 by one function for all shapes: when the kernels apply, their constants,
scratch and cost.

In: kernel-level conv2d nodes and their params. Out: `Kernel`s. runtime_c/kernels/dsp/conv2d_points_s8_dsp.c and
ge_isa_dsp_points.h explain how they work.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from glowembed.graph.ir import Array, Node
from glowembed.graph.op import Cost, Kernel, Store, law_number
from glowembed.graph.target import Target
from glowembed.kernels import dsp
from glowembed.law.modes import Mode
from glowembed.ops.conv import Conv2dParams

LIST_BYTES, TILE_MAX = 2048, 16
"""The bytes of a list of pixels, unless two pixels need more, and the most pixels in a list."""

LOOP, BEHIND = 16, 15
"""The number of steps in the loop, and after it."""

CODE, OWN_CODE = 3000, 2200
"""The bytes of the code that all shapes share, and of the products for another law or shift."""

_LAW_CYCLES: Mapping[Mode, int] = {"default": 0, "onnx": 87, "glow": 33, "tflite": 33}
"""Additional cycles for eight outputs, by law."""


def _tile(p: Conv2dParams, most: int) -> int:
    return min(max(LIST_BYTES // (4 * dsp.words(p.in_c)) & ~1, 2), most)


def _scratch(p: Conv2dParams, most: int) -> int:
    return int(min(_tile(p, most), p.out_h * p.out_w + 1 & ~1) * 4 * dsp.words(p.in_c))


def _why_not(node: Node, most: int, mode: Mode) -> str | None:
    p = node.params
    if p.kernel_h * p.kernel_w > 1:
        return "the window is not 1x1"
    if p.groups > 1 or p.out_c < 4:
        return "it takes 4 output channels and more, in one group"
    inside = (p.out_h - 1) * p.stride_h < p.in_h and (p.out_w - 1) * p.stride_w < p.in_w
    if p.pad_top or p.pad_left or not inside:
        return "a window lies in padding"
    if most < TILE_MAX and _scratch(p, most) >= _scratch(p, TILE_MAX):
        return "it needs no less scratch"
    return dsp.why_not(node, mode)


def _arrange(constants: Mapping[str, Array], p: Conv2dParams, mode: Mode) -> Mapping[str, Array]:
    weights, order = constants["weights"].reshape(p.out_c, -1), dsp.run_order(p.in_c)
    return {"stream": dsp.gemm_stream(weights, constants["bias"], constants["multiplier"], order, p, mode=mode)}


def _rows_cost(p: Conv2dParams, rows: int, most: int, mode: Mode) -> float:
    """The cost of some rows. If all rows are computed together, lists follow each other; otherwise a list ends with its
    row.
    """
    groups, steps = -(-p.out_c // 4), dsp.words(p.in_c)
    turns = max(-(-(steps - 1 - BEHIND) // LOOP), 0)
    block = 57 + (4 if dsp.up_of(p, mode) else 0) + _LAW_CYCLES[mode] + 15 * steps + max(5 * turns - 1, 0)
    runs, pixels = (1, p.out_h * p.out_w) if rows == p.out_h else (rows, p.out_w)
    pairs, lists = -(-pixels // 2), -(-pixels // _tile(p, most))
    expanded = pixels * (1.8 * (p.in_c & ~3) + 9 * (p.in_c % 4) + 10)
    return float(runs * (pairs * (groups * block + 22) + lists * 100 + expanded))


def _cost(node: Node, most: int, mode: Mode) -> Cost:
    p = node.params
    shared = mode == "default" and not dsp.up_of(p, mode)
    return Cost(_rows_cost(p, p.out_h, most, mode), 80 + (0 if shared else OWN_CODE), CODE)


def _store(p: Conv2dParams) -> Store:
    """The store rule: the pixels of a list are in scratch before their outputs are written."""
    same = p.kernel_h * p.kernel_w == p.stride_h * p.stride_w == 1 and p.in_c == p.out_c
    return "elements" if same else "rows"


def _points(most: int, mode: Mode) -> Kernel:
    return Kernel(
        f"ge_conv2d_points{most if most < TILE_MAX else ''}_s8_dsp",
        isa="dsp",
        when=lambda n, t: _why_not(n, most, mode),
        constants={"stream": "uint32_t"},
        arrange=lambda constants, p: _arrange(constants, p, mode),
        instance=lambda p: {"TILE": most, "DOWN": 8 - dsp.up_of(p, mode), **law_number(mode)},
        scratch=lambda p: _scratch(p, most),
        row_scratch=lambda p: _scratch(replace(p, out_h=1), most),
        cost=lambda n, t: _cost(n, most, mode),
        rows_cost=lambda n, t, rows: _rows_cost(n.params, rows, most, mode),
        store=_store,
        template="ge_conv2d_points_s8_dsp" if most < TILE_MAX else "",
    )


def _part(mode: Mode) -> Kernel:
    """The kernel that computes some output channels. For all of them, `_points` is as fast or faster."""

    def rows_cost(node: Node, target: Target, rows: int) -> float:
        p, channels = node.params, node.params.groups if node.params.groups > 1 else node.params.out_c
        return _rows_cost(replace(p, out_c=channels), rows, TILE_MAX, mode) + 1

    def why_not(node: Node, target: Target) -> str | None:
        return "it takes multiples of 4 output channels" if node.params.out_c % 4 else _why_not(node, TILE_MAX, mode)

    return replace(
        _points(TILE_MAX, mode),
        symbol="ge_conv2d_points_part_s8_dsp",
        option="prefetch",
        when=why_not,
        instance=lambda p: {"DOWN": 8 - dsp.up_of(p, mode), **law_number(mode)},
        cost=lambda n, t: Cost(rows_cost(n, t, n.params.out_h), 360, CODE),
        rows_cost=rows_cost,
        store="disjoint",
        blocks=lambda p: 4,
    )


def points_kernels(mode: Mode = "default") -> list[Kernel]:
    """The kernels with as many pixels in a list as fit, and with 8 and 2 at a time, and that for some channels, in one law."""
    return [*(_points(most, mode) for most in (TILE_MAX, 8, 2)), _part(mode)]


KERNELS = {"conv2d_s8": points_kernels}
