"""Convolution, depthwise and fully connected layers of int16 on the cores without DSP instructions: when the kernels
apply, and their costs.

In: kernel-level nodes of int16 (ops/conv_wide.py), params and constants. Out: `Kernel`s. runtime_c/kernels/thumb/
ge_thumb_wide.h and ge_thumb_wide_planes.h explain how they work. Costs are cycles of the tables in measure/pipelines.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from glowembed.graph.ir import Array
from glowembed.graph.op import Cost, Kernel, KernelsOf, only
from glowembed.kernels.shared.wide import sums_why_not
from glowembed.ops.conv_wide import Conv2dS16Params, FcS16Params

PIXELS = 6
"""The number of pixels, or of outputs in a row of a depthwise layer, that are computed together."""

CHUNK = 64
"""The number of inputs that are converted to words at a time (GE_WIDE_CHUNK)."""

TILE = 2048
"""The limit for the bytes of plane and outputs of a depthwise layer (GE_WIDE_TILE)."""


def _int32(constants: Mapping[str, Array], p: Conv2dS16Params | FcS16Params) -> Mapping[str, Array]:
    return {**constants, "bias": constants["bias"].astype(np.int32)}


def _kernel(op: str, isa: str, weight: str, axis: tuple[int, ...], cost: Callable[[Any], Cost], **more: Any) -> Kernel:
    """The kernel for one type of weights. axis: the axes of the weights that are summed."""
    name = "s16" if weight == "int8_t" else "w16"
    return Kernel(
        f"ge_{op}_{name}_{isa}",
        isa=isa,
        template=f"ge_{op}_s16_thumb",
        folder="thumb",
        words={} if weight == "int8_t" else {"WEIGHT": weight},
        when=lambda node, target: sums_why_not(node, axis),
        constants={"weights": weight, "bias": "int32_t", "multiplier": "int32_t"},
        arrange=_int32,
        cost=lambda node, target: cost(node.params),
        **more,
    )


def _scratch(p: Conv2dS16Params) -> int:
    """The scratch: ge_wide_conv; six sums of each channel of a group."""
    return 4 * PIXELS * CHUNK + 248 + 4 * PIXELS * int(p.out_c // p.groups)


def _conv2d(isa: str, weight: str, product: float, chunk: float, output: float, taken: float, run: float) -> Kernel:
    """The kernel. Cycles: `product` for an input, six pixels and a channel; `chunk` for a channel of a chunk; `output`
    for an output; `taken` for an input of a pixel; `run` for a row of taps of a pixel.
    """

    def cost(p: Conv2dS16Params) -> Cost:
        taps, depth, channels = p.kernel_h * p.kernel_w, p.in_c // p.groups, p.out_c // p.groups
        pixels, inputs = p.out_h * p.out_w, taps * depth
        runs = p.kernel_h if p.dilation_w == 1 and p.groups == 1 else taps
        sums = channels * (inputs * product + -(-inputs // CHUNK) * chunk)
        sixes = -(-pixels // PIXELS) * (sums + 600)
        return Cost(p.groups * (sixes + pixels * (inputs * taken + runs * run + channels * output + 200)), 1300)

    store = {"scratch": _scratch, "store": lambda p: "rows" if p.groups == 1 else "disjoint"}
    return _kernel("conv2d", isa, weight, (1, 2, 3), cost, **store)


def _tile(p: Conv2dS16Params) -> tuple[int, int]:
    """The output rows of a tile, and its bytes (ge_wide_planes_open)."""
    strips = -(-p.out_w // PIXELS)
    pitch = p.stride_w * (strips * PIXELS + (p.kernel_w - 1) * p.dilation_w // p.stride_w)

    def size(rows: int) -> int:
        height = (rows - 1) * p.stride_h + (p.kernel_h - 1) * p.dilation_h + 1
        return int(rows * (8 * p.out_w + 8 * strips) + (4 * pitch + 12 * p.stride_w) * height)

    rows = 1
    while rows < p.out_h and size(rows + 1) <= TILE:
        rows += 1
    return rows, size(rows)


def _planes(p: Conv2dS16Params) -> int:
    """The scratch: ge_wide_planes, the taps, both blocks, room for sums after the last strip, and a tile."""
    return int(52 + 8 * p.kernel_h * p.kernel_w + 52 + 72 + 4 * PIXELS + _tile(p)[1])


def _depthwise(isa: str, weight: str, tap: float, strip: float, output: float, plane: float, channel: float) -> Kernel:
    """The kernel. Cycles: `tap` for a tap of a strip; `strip` for a strip; `output` for an output; `plane` for a word
    of a plane; `channel` for a channel of a tile.
    """

    def cost(p: Conv2dS16Params) -> Cost:
        rows, _ = _tile(p)
        tiles, strips, taps = -(-p.out_h // rows), p.out_h * -(-p.out_w // PIXELS), p.kernel_h * p.kernel_w
        height = (rows - 1) * p.stride_h + (p.kernel_h - 1) * p.dilation_h + 1
        words = p.in_c * tiles * height * (p.out_w * p.stride_w + 3)
        outputs = strips * (taps * tap + strip) + p.out_h * p.out_w * output + tiles * (channel + 50 * taps)
        return Cost(words * plane + p.out_c * outputs + 1500, 1300)

    return _kernel("depthwise", isa, weight, (0, 1), cost, scratch=_planes)


def _fc(isa: str, weight: str, products: float, four: float, output: float) -> Kernel:
    """The kernel. Cycles: `products` for an input and four outputs; `four` for four outputs, or one of the last three;
    `output` for an output.
    """

    def cost(p: FcS16Params) -> Cost:
        fours = p.out_c // 4 + p.out_c % 4
        return Cost(p.rows * (fours * (p.in_c * products + four) + p.out_c * output), 700)

    return _kernel("fc", isa, weight, (1,), cost, scratch=lambda p: 144 + 4 * int(p.out_c), store="rows")


def _kernels(weight: str) -> Mapping[str, KernelsOf]:
    suffix = "" if weight == "int8_t" else "_w16"
    move = 1 if weight == "int8_t" else 0
    return {
        f"conv2d_s16{suffix}": only(
            _conv2d("armv6m", weight, 24.5, 75.0, 40.0, 11.0, 70.0),
            _conv2d("armv7m", weight, 22.5, 50.0, 23.5, 7.0, 50.0),
        ),
        f"depthwise_s16{suffix}": only(
            _depthwise("armv6m", weight, 26.0, 60.0, 40.0, 10.0, 300.0),
            _depthwise("armv7m", weight, 25.0, 46.0, 23.5, 8.0, 170.0),
        ),
        f"fc_s16{suffix}": only(
            _fc("armv6m", weight, 26.0 + move, 200.0, 60.0), _fc("armv7m", weight, 23.0, 50.0, 30.0)
        ),
    }


KERNELS: Mapping[str, KernelsOf] = {**_kernels("int8_t"), **_kernels("int16_t")}
