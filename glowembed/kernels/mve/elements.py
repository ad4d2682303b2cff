"""Sums, products and pools of int16 and float32 for Helium: when the kernels are exact, and what they cost.

In: kernel-level nodes of ops/arithmetic_wide.py, pool_wide.py and float32.py. Out: `Kernel`s. runtime_c/kernels/mve/ge_mve_pair.h and
ge_mve_wide_pool.h explain how they work.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from glowembed.graph.ir import Node
from glowembed.graph.op import Cost, Kernel, KernelsOf, only
from glowembed.graph.target import Target
from glowembed.ops.arithmetic_wide import AddS16Params, MulS16Params
from glowembed.ops.shared import broadcast


def _inputs_why_not(p: AddS16Params | MulS16Params) -> str | None:
    """The reason why inputs are not plain numbers of 16 bits; None if they are."""
    points = p.zero_point_a, p.zero_point_b
    return f"inputs have the zero points {points[0]} and {points[1]}" if any(points) else None


def _add_why_not(node: Node, target: Target) -> str | None:
    p = node.params
    if max(abs(p.multiplier_a), abs(p.multiplier_b)) >= 2**31 - 2**18:
        return f"a multiplier of {p.multiplier_a} or {p.multiplier_b} has high parts that overflow"
    return _inputs_why_not(p) or _shift_why_not(p.shift, 18, 47)


def _mul_why_not(node: Node, target: Target) -> str | None:
    return _inputs_why_not(node.params) or _shift_why_not(node.params.shift, 33, 62)


def _mean_why_not(node: Node, target: Target) -> str | None:
    p = node.params
    reach = 65536 * p.kernel_h * p.kernel_w << max(33 - p.shift, 0)
    return None if reach < 2**31 else f"sums shifted by {33 - p.shift} can reach {reach}"


def _shift_why_not(shift: int, least: int, most: int) -> str | None:
    return None if least <= shift <= most else f"the shift is {shift}, it takes {least}..{most}"


def _pair(name: str, kind: str, when: Callable[[Node, Target], str | None], element: float, **words: str) -> Kernel:
    return Kernel(
        f"ge_{name}_{kind}_mve",
        isa="mve",
        template=f"ge_pair_{kind}_mve",
        words={**words, "PARAMS": f"ge_{name}_{kind}_params"},
        when=when,
        cost=lambda node, target: Cost(broadcast.lines_cost(node.params, element, 90), 350),
        store="rows",
    )


def _floats_why_not(node: Node, target: Target) -> str | None:
    return None if target.has_fpu else f"{target.name} has no FPU"


def _pool_cost(node: Node, lanes: int, tap: float, output: float) -> Cost:
    p = node.params
    taps = p.kernel_h * (20 + p.kernel_w * (12 + tap * -(-p.channels // lanes)))
    return Cost(p.out_h * p.out_w * (150 + taps + output * p.channels), 500)


def _maxpool(kind: str, lanes: int, when: Callable[[Node, Target], str | None], **words: str) -> Kernel:
    return Kernel(
        f"ge_maxpool_{kind}_mve",
        isa="mve",
        template="ge_maxpool_wide_mve",
        words=words,
        when=when,
        cost=lambda node, target: _pool_cost(node, lanes, 9, 2),
        store="rows",
    )


KERNELS: Mapping[str, KernelsOf] = {
    "add_s16": only(
        _pair("add", "s16", _add_why_not, 6.5, LOOP="GE_MVE_PAIR_ADD_S16", SPLIT="PAIR_S16_MVE_OF_SUM"),
    ),
    "mul_s16": only(
        _pair("mul", "s16", _mul_why_not, 5.0, LOOP="GE_MVE_PAIR_MUL_S16", SPLIT="PAIR_S16_MVE_OF_PRODUCT"),
    ),
    "add_f32": only(_pair("add", "f32", _floats_why_not, 8.5, LOOPS="PAIR_F32_MVE_SUMS")),
    "mul_f32": only(_pair("mul", "f32", _floats_why_not, 8.5, LOOPS="PAIR_F32_MVE_PRODUCTS")),
    "maxpool_s16": only(_maxpool("s16", 8, lambda node, target: None)),
    "maxpool_f32": only(
        _maxpool(
            "f32", 4, _floats_why_not, ELEMENT="float", LEAST="-3.4028234663852886e38f", KEEP="ge_mve_wide_keep_f32"
        )
    ),
    "avgpool_s16": only(
        Kernel(
            "ge_avgpool_s16_mve",
            isa="mve",
            when=_mean_why_not,
            scratch=lambda p: 4 * p.channels,
            cost=lambda node, target: _pool_cost(node, 4, 7, 4.5),
            store="rows",
        )
    ),
    "avgpool_f32": only(
        Kernel(
            "ge_avgpool_f32_mve",
            isa="mve",
            when=_floats_why_not,
            cost=lambda node, target: _pool_cost(node, 4, 11, 24),
            store="rows",
        )
    ),
}
