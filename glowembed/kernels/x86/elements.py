"""Sums, products, lines, tables, pools and conversions of int16 and of float32 on x86-64, and softmax of float32: when
the kernels apply, and their costs.

In: kernel-level nodes of ops/arithmetic_wide.py, activation_wide.py, pool_wide.py, edge.py and float32.py. Out:
`Kernel`s; each C file serves both types (runtime_c/kernels/x86/*_wide_x86.c).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

from glowembed.graph.ir import Node
from glowembed.graph.op import Cost, Kernel, KernelsOf, only
from glowembed.graph.target import Target
from glowembed.ops.pool import AvgpoolParams
from glowembed.ops.shared import broadcast

LINE = 25.0
"""The cycles of a line of a broadcast, in addition to those of its elements."""

When = Callable[[Node, Target], str | None]


def _fits(largest: Callable[[Any, Node], int]) -> When:
    """Returns the reason why the products do not fit in 32 bits, or None. largest: the largest |x * multiplier| for the
    sums x that can occur.
    """

    def when(node: Node, target: Target) -> str | None:
        fits = largest(node.params, node) >> node.params.shift < 2**30
        return None if fits else "an output leaves int32 before it is clamped"

    return when


def _always(node: Node, target: Target) -> str | None:
    return None


def _pair(name: str, kind: str, when: When = _always) -> Kernel:
    floats = kind == "f32"
    return Kernel(
        f"ge_{name}_{kind}_x86",
        template="ge_pair_wide_x86",
        isa="x86",
        words={
            "BYTES": "4" if floats else "2",
            "OF": f"GE_X86_PAIR_{name.upper()}_{kind.upper()}",
            "PARAMS": f"ge_{name}_{kind}_params",
        },
        when=when,
        cost=lambda node, target: Cost(broadcast.lines_cost(node.params, 0.2 if floats else 0.6, LINE), 1500),
        store="elements",
    )


def _linear(symbol: str, source: int, to: int) -> Kernel:
    largest = 2**16 if source == 2 else 2**8
    return Kernel(
        f"ge_{symbol}_x86",
        template="ge_linear_wide_x86",
        isa="x86",
        words={"FROM": str(source), "TO": str(to)},
        when=_fits(lambda p, node: largest * max(abs(p.multiplier_below), abs(p.multiplier_above))),
        cost=lambda node, target: Cost(node.params.rows * (0.5 * node.params.row + 20) + 30, 800),
        store="elements" if source == to else "rows",
    )


def _edge(source: str, to: str) -> Kernel:
    """The kernel of a conversion between float32 and integers."""
    size = {"f32": "4", "s16": "2", "s8": "1"}
    name = "quantize" if source == "f32" else "dequantize"
    return Kernel(
        f"ge_{name}_{source}_{to}_x86",
        template="ge_quantize_wide_x86",
        isa="x86",
        words={"FROM": size[source], "TO": size[to]},
        cost=lambda node, target: Cost(node.params.rows * (0.5 * node.params.row + 20) + 30, 800),
        store="rows",
    )


def _softmax_cost(node: Node, target: Target) -> Cost:
    p = node.params
    return Cost(p.rows * p.vectors * (6.0 * p.n + 60), 1500)


def _pool_cost(node: Node, target: Target) -> Cost:
    p = node.params
    return Cost(
        p.out_h * p.out_w * (0.15 * p.channels * p.kernel_h * p.kernel_w + p.channels + 40),
        1500,
    )


def _maxpool(kind: str) -> Kernel:
    return Kernel(
        f"ge_maxpool_{kind}_x86",
        template="ge_maxpool_wide_x86",
        isa="x86",
        words={"BYTES": "4" if kind == "f32" else "2"},
        cost=_pool_cost,
        store="rows",
    )


def _avgpool(kind: str, when: When = _always) -> Kernel:
    return Kernel(f"ge_avgpool_{kind}_x86", isa="x86", when=when, cost=_pool_cost, store="rows")


def _largest_mean(p: AvgpoolParams, node: Node) -> int:
    multiplier = max(abs(int(m)) for m in node.constants["multiplier"].materialize())
    return 2**16 * int(prod((p.kernel_h, p.kernel_w))) * multiplier


KERNELS: Mapping[str, KernelsOf] = {
    "add_f32": only(_pair("add", "f32")),
    "mul_f32": only(_pair("mul", "f32")),
    "add_s16": only(
        _pair(
            "add",
            "s16",
            _fits(lambda p, node: 2**16 * (abs(p.multiplier_a) + abs(p.multiplier_b))),
        )
    ),
    "mul_s16": only(_pair("mul", "s16", _fits(lambda p, node: 2**32 * abs(p.multiplier)))),
    "linear_s16": only(_linear("linear_s16", 2, 2)),
    "rescale_s8_s16": only(_linear("rescale_s8_s16", 1, 2)),
    "rescale_s16_s8": only(_linear("rescale_s16_s8", 2, 1)),
    **{f"quantize_f32_{to}": only(_edge("f32", to)) for to in ("s8", "s16")},
    **{f"dequantize_{source}_f32": only(_edge(source, "f32")) for source in ("s8", "s16")},
    "softmax_f32": only(Kernel("ge_softmax_f32_x86", isa="x86", cost=_softmax_cost, store="elements")),
    "lut_s16": only(
        Kernel(
            "ge_lut_s16_x86",
            isa="x86",
            cost=lambda node, target: Cost(node.params.rows * (1.5 * node.params.row + 20) + 30, 600),
            store="elements",
        )
    ),
    "maxpool_s16": only(_maxpool("s16")),
    "maxpool_f32": only(_maxpool("f32")),
    "avgpool_s16": only(_avgpool("s16", _fits(_largest_mean))),
    "avgpool_f32": only(_avgpool("f32")),
}
