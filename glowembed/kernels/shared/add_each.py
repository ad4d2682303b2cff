"""Sums whose operands are rescaled and rounded separately: checks which constants fast kernels of other laws can take.

In: a node add_each_s8_glow or add_each_s8_tflite. Out: its `Kernel` on a core, with what the core's instructions cost.
"""

from __future__ import annotations

from collections.abc import Callable

from glowembed.graph.ir import Node
from glowembed.graph.op import Cost, Kernel
from glowembed.graph.target import Target
from glowembed.ops.shared import broadcast


def _words(node: Node) -> list[int]:
    words: list[int] = node.constants["words"].materialize().tolist()
    return words


HALF = [2**30, 0]
"""The words of a scale of 1/2."""


def tflite_why_not(node: Node, target: Target) -> str | None:
    w = _words(node)
    if HALF not in (w[0:2], w[2:4]):
        return "no operand has a scale of 1/2"
    if not all(-30 <= shift <= 0 for shift in (w[1], w[3])) or not -22 <= w[5] < 0:
        return f"shifts {w[1]}, {w[3]} and {w[5]}"
    return None


def glow_why_not(node: Node, target: Target) -> str | None:
    w = _words(node)
    if w[1] or w[4]:
        return "an operand is shifted before it is multiplied"
    if max(w[2], w[5]) > 29 or 255 * max(w[0], w[3]) >= 2**29:
        return f"multipliers {w[0]} and {w[3]}, shifts {w[2]} and {w[5]}"
    return None


def each(mode: str, isa: str, why_not: Callable[[Node, Target], str | None], element: float, line: float) -> Kernel:
    return Kernel(
        f"ge_add_each_s8_{mode}_{isa}",
        isa=isa,
        when=why_not,
        cost=lambda n, t: Cost(broadcast.lines_cost(n.params, element, line), 640 if mode == "tflite" else 460),
        store="elements",
    )


def pairwise(why_not: Callable[[Node, Target], str | None]) -> Callable[[Node, Target], str | None]:
    """Whether both operands have an element of their own for each element of a line."""

    def pairwise_why_not(node: Node, target: Target) -> str | None:
        steps = node.params.strides_a[-1], node.params.strides_b[-1]
        return why_not(node, target) if steps == (1, 1) else "an operand has one element for a line"

    return pairwise_why_not
