"""Convolution on Cortex-M4, M7 and M33 with almost no scratch: the constants and cost of
runtime_c/kernels/dsp/conv2d_direct_s8_dsp.c.

In: params and integer constants of conv2d_s8. Out: the `Kernel`s.
"""

from __future__ import annotations

from collections.abc import Mapping

from glowembed.graph.ir import Array, Node
from glowembed.graph.op import Cost, Kernel, only
from glowembed.graph.target import Target
from glowembed.kernels import dsp
from glowembed.ops.conv import Conv2dParams

UNROLL = 4
"""The number of turns, of 140 bytes each, in the loop."""


def _unroll(p: Conv2dParams) -> int:
    return max(u for u in range(1, UNROLL + 1) if p.in_c // 4 % u == 0)


def _why_not(node: Node) -> str | None:
    p = node.params
    if p.groups > 1 or p.out_c < 8:
        return "it takes 8 output channels and more, in one group"
    if p.in_c % 4 or p.in_c > 4092:
        return "the input channels are not a multiple of four up to 4092"
    return dsp.why_not(node)


def _arrange(constants: Mapping[str, Array], p: Conv2dParams) -> Mapping[str, Array]:
    taps = p.kernel_h * p.kernel_w
    order = [tap * p.in_c + k for tap in range(taps) for k in dsp.run_order(p.in_c)]
    weights = constants["weights"].reshape(p.out_c, -1)
    return {"stream": dsp.gemm_stream(weights, constants["bias"], constants["multiplier"], order, p, size=8)}


def _cost(node: Node, target: Target) -> Cost:
    p = node.params
    taps, turns = p.kernel_h * p.kernel_w, p.in_c // 4
    tap = 12 + 39 * turns + (5 * turns // _unroll(p) if turns > _unroll(p) else 0)
    pixel = -(-p.out_c // 8) * (75 + taps * tap) + 14 * taps + 90
    return Cost(p.out_h * (p.out_w * pixel + 40), 800 + 140 * _unroll(p))


KERNEL = Kernel(
    "ge_conv2d_direct_s8_dsp",
    isa="dsp",
    when=lambda n, t: _why_not(n),
    constants={"stream": "uint32_t"},
    arrange=_arrange,
    instance=lambda p: {"DEPTH": p.in_c, "UNROLL": _unroll(p), "DOWN": p.shift - 24},
    scratch=lambda p: 4 * p.kernel_h * p.kernel_w + int(p.in_c),
    cost=_cost,
    store="rows",
)


KERNELS = {"conv2d_s8": only(KERNEL)}
