"""Sums, products and pools of int16 and float32 on all Cortex-M cores, without vectors: when, and costs.

In: kernel-level nodes of ops/arithmetic_wide.py, pool_wide.py and float32.py. Out: `Kernel`s, each one C text for all types and cores
(runtime_c/kernels/thumb/pair_wide_thumb.c, maxpool_wide_thumb.c, avgpool_wide_thumb.c). Costs are cycles of the tables in
measure/pipelines.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from glowembed.graph.ir import Node
from glowembed.graph.op import Cost, Kernel, KernelsOf, only
from glowembed.graph.target import Target
from glowembed.ops.arithmetic_wide import AddS16Params, MulS16Params
from glowembed.ops.shared import broadcast

Cycles = Mapping[str, float]
"""Cycles by the ISA word of a core; the kernels are for these cores."""

BOUNDS = {(-32768, 32767): 0, (0, 32767): 1}
"""The bounds of outputs that an instruction saturates to, by their number in ge_thumb_pair.h; any others are one more."""

LINE = 40.0
"""The cycles for a line of a broadcast, beside those of its elements."""


def _add_why_not(node: Node, target: Target) -> str | None:
    p = node.params
    reach = (32768 + abs(p.zero_point_a)) * abs(p.multiplier_a) + (32768 + abs(p.zero_point_b)) * abs(p.multiplier_b)
    return _output_why_not(p, reach)


def _mul_why_not(node: Node, target: Target) -> str | None:
    p = node.params
    product = (32768 + abs(p.zero_point_a)) * (32768 + abs(p.zero_point_b))
    return f"a product can reach {product}" if product >= 2**31 else _output_why_not(p, product * abs(p.multiplier))


def _output_why_not(p: AddS16Params | MulS16Params, reach: int) -> str | None:
    """The reason why an output does not fit 32 bits before it is clamped, or its start value 64 bits; None if they do.

    reach: the largest magnitude of a sum of scaled inputs.
    """
    if abs(p.out_zero_point) << p.shift >= 2**61 or p.shift > 61:
        return f"a zero point of {p.out_zero_point} shifted by {p.shift} leaves int64"
    return None if reach >> p.shift < 2**30 else "an output leaves int32 before it is clamped"


def _pair(name: str, kind: str, isa: str, element: float) -> Kernel:
    floats = kind == "f32"
    law = f"GE_THUMB_PAIR_{name.upper()}_{kind.upper()}"
    why_not = {"add": _add_why_not, "mul": _mul_why_not}[name]
    return Kernel(
        f"ge_{name}_{kind}_{isa}",
        isa=isa,
        template="ge_pair_wide_thumb",
        folder="thumb",
        words={
            "ELEMENT": "float" if floats else "int16_t",
            "LAW": f"ge_thumb_pair_{kind}",
            "LAW_OF": f"{law}_LAW",
            "OF": law,
            "PARAMS": f"ge_{name}_{kind}_params",
        },
        instance=None if floats else lambda p: {"SHIFT": p.shift, "BOUNDS": BOUNDS.get((p.lo, p.hi), len(BOUNDS))},
        when=(lambda node, target: None) if floats else why_not,
        cost=lambda node, target: Cost(broadcast.lines_cost(node.params, element, LINE), 330),
        store="elements",
    )


def _pool_cost(node: Node, tap: float, output: float) -> Cost:
    p = node.params
    channel = output + p.kernel_h * (8 + tap * p.kernel_w)
    return Cost(p.out_h * p.out_w * (80 + p.channels * channel), 420)


def _maxpool(kind: str, isa: str, tap: float) -> Kernel:
    bytes_ = {"ELEMENT": "int8_t", "LEAST": "INT8_MIN"}
    floats = {"ELEMENT": "float", "LEAST": "-3.4028234663852886e38f", "ABOVE": "GE_THUMB_ABOVE_F32"}
    return Kernel(
        f"ge_maxpool_{'any_' if kind == 's8' else ''}{kind}_{isa}",
        isa=isa,
        template="ge_maxpool_wide_thumb",
        folder="thumb",
        words={"s8": bytes_, "s16": {}, "f32": floats}[kind],
        cost=lambda node, target: _pool_cost(node, tap, 8),
        store="rows",
    )


def _avgpool(kind: str, isa: str, tap: float, output: float) -> Kernel:
    return Kernel(
        f"ge_avgpool_{kind}_{isa}",
        isa=isa,
        template="ge_avgpool_wide_thumb",
        folder="thumb",
        headers={"ge_thumb_average_s16.h": f"ge_thumb_average_{kind}.h"},
        cost=lambda node, target: _pool_cost(node, tap, output),
        store="rows",
    )


PAIRS: Mapping[str, Cycles] = {
    "add_s16": {"armv6m": 75.0, "armv7m": 21.0, "dsp": 15.7},
    "mul_s16": {"armv6m": 60.0, "armv7m": 18.2, "dsp": 14.7},
    "add_f32": {"armv6m": 110.0, "armv7m": 75.0, "dsp": 14.0},
    "mul_f32": {"armv6m": 150.0, "armv7m": 65.0, "dsp": 12.7},
}
"""The cycles of an element."""

LARGEST: Mapping[str, Cycles] = {
    "s8": {"dsp": 6.5},
    "s16": {"armv6m": 8.0, "armv7m": 6.5},
    "f32": {"armv6m": 16.0, "armv7m": 12.0, "dsp": 7.0},
}
"""The cycles of an element of a window."""

MEANS: Mapping[str, Mapping[str, tuple[float, float]]] = {
    "s16": {"armv6m": (6.0, 110.0), "armv7m": (4.5, 40.0)},
    "f32": {"armv6m": (110.0, 500.0), "armv7m": (65.0, 250.0), "dsp": (3.5, 40.0)},
}
"""The cycles of an element of a window, and of an output."""


def _each_pair(op: str, cycles: Cycles) -> KernelsOf:
    name, kind = op.split("_")
    return only(*(_pair(name, kind, isa, element) for isa, element in cycles.items()))


KERNELS: Mapping[str, KernelsOf] = {
    **{op: _each_pair(op, cycles) for op, cycles in PAIRS.items()},
    **{
        f"maxpool_{kind}": only(*(_maxpool(kind, isa, tap) for isa, tap in cycles.items()))
        for kind, cycles in LARGEST.items()
    },
    **{
        f"avgpool_{kind}": only(*(_avgpool(kind, isa, *n) for isa, n in cycles.items()))
        for kind, cycles in MEANS.items()
    },
}
