"""Sums and products element by element, and average pools on x86-64: when, constants and costs.

In: kernel-level nodes, params and constants. Out: `Kernel`s.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from glowembed.graph.ir import Array, Node
from glowembed.graph.op import Cost, Kernel, KernelsOf, only
from glowembed.kernels.x86 import OUTPUTS, laws
from glowembed.law.fixedpoint import Mode
from glowembed.ops.mul import MulBroadcastParams, MulParams
from glowembed.ops.pool import AvgpoolParams
from glowembed.ops.shared import broadcast

_ADD = Kernel(
    "ge_add_s8_x86",
    isa="x86",
    cost=lambda node, target: Cost(node.params.rows * (0.4 * node.params.row + 20), 700),
    store="elements",
)


LINE = 40.0
"""The cycles for a line of a broadcast, beside those of its elements."""


def _broadcast_cost(element: float, code: int) -> Callable[[Node, Any], Cost]:
    return lambda node, target: Cost(broadcast.lines_cost(node.params, element, LINE), code)


_ADD_BROADCAST = Kernel("ge_add_broadcast_s8_x86", isa="x86", cost=_broadcast_cost(0.4, 900), store="elements")

ONE_FOR_ALL = {"multiplier": "int32_t", "scale": "float"}
"""The constants of kernels with words that all channels share, or with a few sets of these."""


def _shared(
    words: Array, reach: tuple[int, int], p: MulParams | MulBroadcastParams | AvgpoolParams, mode: Mode
) -> Mapping[str, Array]:
    """The constants for words of a law one after the other: for each set of them its words, and its floats."""
    sets = laws.words(words, mode)
    reaches = (np.full(sets.shape[1], reach[0]), np.full(sets.shape[1], reach[1]))
    rows = laws.float_rows(laws.Channels(mode, sets, p.shift, p.out_zero_point, (p.lo, p.hi), reaches))
    return {"multiplier": words, "scale": np.ascontiguousarray(rows.T).reshape(-1)}


def _product_fits(node: Node, mode: Mode) -> str | None:
    largest = 255 * 255 * int(node.constants["multiplier"].materialize()[0])
    fits = mode != "default" or largest >> node.params.shift < 2**30
    return None if fits else "an output leaves int32 before it is clamped"


def _mul_arrange(constants: Mapping[str, Array], p: MulParams | MulBroadcastParams, mode: Mode) -> Mapping[str, Array]:
    ends = [(a - p.zero_point_a) * (b - p.zero_point_b) for a in (-128, 127) for b in (-128, 127)]
    return _shared(constants["multiplier"], (min(ends), max(ends)), p, mode)


def _mul(mode: Mode) -> Kernel:
    return Kernel(
        "ge_mul_s8_x86",
        isa="x86",
        words={"LAW": mode},
        when=lambda node, target: _product_fits(node, mode),
        constants=ONE_FOR_ALL,
        arrange=partial(_mul_arrange, mode=mode),
        cost=lambda node, target: Cost(node.params.rows * (0.6 * node.params.row + 20) + 100, 700),
        store="elements",
    )


def _mul_broadcast(mode: Mode) -> Kernel:
    return replace(_mul(mode), symbol="ge_mul_broadcast_s8_x86", cost=_broadcast_cost(0.6, 1100))


def _mean_fits(node: Node, mode: Mode) -> str | None:
    p = node.params
    largest = 255 * p.kernel_h * p.kernel_w * int(node.constants["multiplier"].materialize().max())
    fits = mode != "default" or largest >> p.shift < 2**30
    return None if fits else "an output leaves int32 before it is clamped"


def _avgpool_arrange(constants: Mapping[str, Array], p: AvgpoolParams, mode: Mode) -> Mapping[str, Array]:
    taps = p.kernel_h * p.kernel_w
    reach = (taps * min(0, -128 - p.in_zero_point), taps * max(0, 127 - p.in_zero_point))
    return _shared(constants["multiplier"], reach, p, mode)


def _avgpool_cost(node: Node, target: Any) -> Cost:
    p = node.params
    return Cost(p.out_h * p.out_w * (-(-p.channels // OUTPUTS) * (1.5 * p.kernel_h * p.kernel_w + 20) + 60), 900)


def _avgpool(mode: Mode) -> Kernel:
    return Kernel(
        "ge_avgpool_s8_x86",
        isa="x86",
        words={"LAW": mode},
        when=lambda node, target: _mean_fits(node, mode),
        constants=ONE_FOR_ALL,
        arrange=partial(_avgpool_arrange, mode=mode),
        cost=_avgpool_cost,
        store="rows",
    )


KERNELS: Mapping[str, KernelsOf] = {
    "add_s8": only(_ADD),
    "add_broadcast_s8": only(_ADD_BROADCAST),
    "mul_s8": lambda mode: (_mul(mode),),
    "mul_broadcast_s8": lambda mode: (_mul_broadcast(mode),),
    "avgpool_s8": lambda mode: (_avgpool(mode),),
}
