"""Elementwise sums and products, and average pools on x86-64: when the kernels apply, their constants and costs.

In: kernel-level nodes, params and constants. Out: `Kernel`s.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import product
from typing import Any

import numpy as np

from glowembed.graph.ir import Array, Node
from glowembed.graph.op import Cost, Kernel, KernelsOf, only
from glowembed.kernels.x86 import OUTPUTS, laws
from glowembed.law import fixedpoint
from glowembed.law.modes import Mode
from glowembed.ops.add import AddEachParams
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
"""The cycles of a line of a broadcast, in addition to those of its elements."""


def _broadcast_cost(element: float, code: int) -> Callable[[Node, Any], Cost]:
    return lambda node, target: Cost(broadcast.lines_cost(node.params, element, LINE), code)


_ADD_BROADCAST = Kernel("ge_add_broadcast_s8_x86", isa="x86", cost=_broadcast_cost(0.4, 900), store="elements")

ONE_FOR_ALL = {"multiplier": "int32_t", "scale": "float"}
"""The constants of kernels in which all channels share the requantization words, or a few sets of them."""


def _shared(
    words: Array, reach: tuple[int, int], p: MulParams | MulBroadcastParams | AvgpoolParams, mode: Mode
) -> Mapping[str, Array]:
    """The constants for several sets of requantization words: for each set its words, and its float form."""
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


MOST_ELEMENTS = 8192
"""The most elements of a mean for which runtime_c/kernels/x86/avgpool_tflite_s8_x86.c is proved."""

_AVGPOOL_TFLITE = Kernel(
    "ge_avgpool_tflite_s8_x86",
    isa="x86",
    when=lambda node, target: (
        None if node.params.kernel_h * node.params.kernel_w <= MOST_ELEMENTS else "a window has too many elements"
    ),
    cost=_avgpool_cost,
    store="rows",
)


AWAY = {"tflite": (2.0**-12, 2.0**-14, 2.0**-10, 2.0**-16), "onnx": (0.0,), "glow": (0.0,)}
"""How far sums are moved away from zero before they are rounded, in steps of the output; these are tried in order."""


NEIGHBOURS = sorted(product(range(-4, 5), repeat=2), key=lambda steps: abs(steps[0]) + abs(steps[1]))
"""The steps from the nearest floats of both factors that are tried, the smallest first."""


def _each_factors(words: Sequence[int], mode: Mode, away: float) -> Array:
    """The factors of both operands and the distance from zero (ge_x86_float_sum)."""
    if mode == "tflite":
        a, b, y = (words[i] * 2.0 ** (words[i + 1] - 31) for i in (0, 2, 4))
        factors = (a * y * 2.0**20, b * y * 2.0**20 * words[6])
    elif mode == "onnx":
        factors = (words[0] * 2.0 ** -words[2], words[1] * 2.0 ** -words[2] * words[6])
    else:
        factors = (words[0] * 2.0 ** -words[2], words[3] * 2.0 ** -words[5])
    return np.asarray([*factors, away], np.float32)


def _float_sum(a: Array, b: Array, factors: Array, apart: bool) -> Array:
    """ge_x86_float_sum without the zero point of the output."""
    left, right = (x.astype(np.float32) * f for x, f in ((a, factors[0]), (b, factors[1])))
    if apart:
        half = np.float32(0.5)
        return np.asarray(np.floor(left + half) + np.floor(right + half))
    y = left + right
    return np.asarray(np.rint(y + np.copysign(factors[2], y)))


@cache
def _proved_factors(words: tuple[int, ...], p: AddEachParams, mode: Mode) -> tuple[float, ...] | None:
    """The factors with which a sum in floats equals the law for every pair of operands, or None."""
    stored = np.arange(-128, 128)
    a, b = (stored - p.zero_point_a)[:, None], (stored - p.zero_point_b)[None]
    law = fixedpoint.requantize_each(a, b, words, p.out_zero_point, p.lo, p.hi, mode)
    if mode == "glow" and (words[1] or words[4] or words[6] != 1):
        return None
    for step_a, step_b in NEIGHBOURS:
        for away in AWAY[mode]:
            factors = _each_factors(words, mode, away)
            factors[0], factors[1] = laws.neighbour(factors[:1], step_a)[0], laws.neighbour(factors[1:2], step_b)[0]
            y = _float_sum(a, b, factors, mode == "glow") + p.out_zero_point
            if np.array_equal(np.clip(y, p.lo, p.hi), law):
                return tuple(map(float, factors))
    return None


def _words(constants: Mapping[str, Array]) -> tuple[int, ...]:
    return tuple(constants["words"].tolist())


def _each_why_not(node: Node, mode: Mode) -> str | None:
    words = _words({"words": node.constants["words"].materialize()})
    return "a sum in floats is not proved" if _proved_factors(words, node.params, mode) is None else None


def _each_arrange(constants: Mapping[str, Array], p: AddEachParams, mode: Mode) -> Mapping[str, Array]:
    factors = np.asarray(_proved_factors(_words(constants), p, mode), np.float32)
    return {"words": constants["words"], "factors": factors}


def _add_each(mode: Mode) -> Kernel:
    return Kernel(
        "ge_add_each_s8_x86",
        isa="x86",
        words={"APART": str(int(mode == "glow"))},
        when=lambda node, target: _each_why_not(node, mode),
        constants={"words": "int32_t", "factors": "float"},
        arrange=partial(_each_arrange, mode=mode),
        cost=_broadcast_cost(0.7, 1100),
        store="elements",
    )


KERNELS: Mapping[str, KernelsOf] = {
    "add_s8": only(_ADD),
    "add_broadcast_s8": only(_ADD_BROADCAST),
    "mul_s8": lambda mode: (_mul(mode),),
    "mul_broadcast_s8": lambda mode: (_mul_broadcast(mode),),
    "avgpool_s8": lambda mode: (_avgpool(mode),),
    "avgpool_tflite_s8": only(_AVGPOOL_TFLITE),
    "add_each_s8": lambda mode: (_add_each(mode),),
}
