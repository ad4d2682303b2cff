"""Kernels with plain weights, for the cores without DSP instructions (ARMv6-M, Cortex-M3).

In: kernel-level nodes, params and constants. Out: `Kernel`s. In a convolution three pixels share two words, packed when
the network runs (runtime_c/kernels/thumb/ge_plain.h), so that flash holds each weight once, in a byte. Costs are cycles of the tables
in measure/pipelines.py, fitted to random layers: the error is 0.4 % in the median, 3 % at worst.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from glowembed.graph.ir import Array, Node
from glowembed.graph.op import Cost, Kernel, KernelsOf, Store
from glowembed.ops.conv import Conv2dParams
from glowembed.ops.gemm import FcParams

CHUNK = 48
"""The number of inputs that are packed at a time (GE_PLAIN_CHUNK); 128 * 128 times this number is below 2^20."""

STATE = 128
"""The bytes of ge_plain."""


def _kernel(op: str, isa: str, cost: Callable[[Node, Any], Cost], **more: Any) -> Kernel:
    symbol = f"ge_{op}_plain_s8"
    shared = {"template": f"{symbol}_thumb", "folder": "thumb", "store": "rows"}
    return Kernel(f"{symbol}_{isa}", isa=isa, cost=cost, **{**shared, **more})


def _inputs(p: Conv2dParams) -> int:
    """The number of inputs of a window of a group."""
    return int(p.kernel_h * p.kernel_w * p.in_c // p.groups)


def _scratch(p: Conv2dParams) -> int:
    """The scratch: the state; sums of three pixels; the words of a chunk; a tap of zero points."""
    sums = 12 * (p.out_c // p.groups + 1 & ~1)
    return int(STATE + sums + 8 * min(_inputs(p), CHUNK) + p.in_c // p.groups)


def _store(p: Conv2dParams) -> Store:
    """The store rule: groups are computed one after the other."""
    return "rows" if p.groups == 1 else "disjoint"


def _conv2d(isa: str, product: float, pair: float, tap: float, row: float, packed: float, output: float) -> Kernel:
    """The kernel. Cycles: `product` for an input, three pixels and two channels; `pair` for two channels of a chunk;
    `tap` and `row` for a tap and a row of taps of three pixels; `packed` for packing an input; `output` for an output.
    """

    def cost(node: Node, target: Any) -> Cost:
        p = node.params
        inputs, pairs, pixels = _inputs(p), -(-(p.out_c // p.groups) // 2), p.out_h * p.out_w
        three = (
            inputs * (pairs * product + packed)
            + -(-inputs // CHUNK) * (pairs + 1) * pair
            + p.kernel_h * (p.kernel_w * tap + row)
            + 400
        )
        return Cost(p.groups * -(-pixels // 3) * three + pixels * p.out_c * output, 1850)

    return _kernel("conv2d", isa, cost, scratch=_scratch, store=_store)


CONV2D = (
    _conv2d("armv6m", 18.4, 93.7, 184.8, 76.1, 21.8, 62.0),
    _conv2d("armv7m", 16.4, 71.8, 116.9, 32.1, 13.6, 37.0),
)


def _taps_when(node: Node, target: Any) -> str | None:
    p = node.params
    return None if p.in_c == p.out_c else f"{p.out_c} channels from {p.in_c}"


def _taps_scratch(p: Conv2dParams) -> int:
    """The scratch: sums of a pixel; the address of each tap; a pixel of zero points."""
    return int(4 * (p.out_c + 1 & ~1) + 4 * p.kernel_h * p.kernel_w + p.in_c)


def _depthwise(isa: str, product: float, tap: float, output: float, pixel: float) -> Kernel:
    """The kernel. Cycles: `product` for a tap of two channels; `tap` for a tap of a pixel; `output` for an output;
    `pixel` for a pixel.
    """

    def cost(node: Node, target: Any) -> Cost:
        p = node.params
        taps, pairs = p.kernel_h * p.kernel_w, -(-p.out_c // 2)
        return Cost(p.out_h * p.out_w * (taps * (pairs * product + tap) + p.out_c * output + pixel), 850)

    return _kernel("depthwise", isa, cost, when=_taps_when, scratch=_taps_scratch)


DEPTHWISE = (
    _depthwise("armv6m", 18.9, 18.6, 59.6, 133.0),
    _depthwise("armv7m", 13.9, 20.6, 37.6, 39.3),
)


def _fc(isa: str, products: float, four: float, output: float) -> Kernel:
    """The kernel. Cycles: `products` for an input and four outputs; `four` for four outputs, or one of the last three;
    `output` for an output.
    """

    def cost(node: Node, target: Any) -> Cost:
        p = node.params
        fours = p.out_c // 4 + p.out_c % 4
        return Cost(p.rows * (fours * (p.in_c * products + four) + p.out_c * output), 520)

    return _kernel("fc", isa, cost)


def _eights(constants: Mapping[str, Array], p: FcParams) -> Mapping[str, Array]:
    """The weights of each eight channels as w + 128, [input, channel], and then the plain weights of the last
    channels.
    """
    weights, whole = constants["weights"], p.out_c // 8 * 8
    raised = (weights[:whole].astype(np.int16) + 128).astype(np.uint8).view(np.int8)
    blocks = raised.reshape(-1, 8, p.in_c).transpose(0, 2, 1)
    return {**constants, "weights": np.concatenate([blocks.reshape(-1), weights[whole:].reshape(-1)])}


def _eights_cost(node: Node, target: Any) -> Cost:
    """The cost of a pair of input and eight outputs, of eight outputs, of an output and of an input. The last channels
    cost as much as in the plain kernel.
    """
    p = node.params
    eights, rest = p.out_c // 8, p.out_c % 8
    last = (rest // 4 + rest % 4) * (p.in_c * 22.1 + 186)
    return Cost(p.rows * (eights * (p.in_c * 36.5 + 160) + last + p.out_c * 48.3 + p.in_c * 8), 1100)


FC = (
    _fc("armv6m", 22.1, 186.0, 48.3),
    Kernel(
        "ge_fc_eights_s8_armv6m",
        isa="armv6m",
        when=lambda node, target: None if node.params.out_c >= 8 else f"{node.params.out_c} outputs, fewer than eight",
        arrange=_eights,
        cost=_eights_cost,
        store="rows",
    ),
    _fc("armv7m", 20.5, 33.9, 41.3),
)


KERNELS: Mapping[str, KernelsOf] = {
    "conv2d_s8": lambda mode: CONV2D,
    "depthwise_s8": lambda mode: DEPTHWISE,
    "fc_s8": lambda mode: FC,
}
"""Kernels that call ge_requantize, and so exist in every law."""
