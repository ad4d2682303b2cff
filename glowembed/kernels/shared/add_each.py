"""Sums whose operands are rescaled and rounded separately: which constants the kernels of the cores can use in each
law.

In: a node of add_each_s8 with a law of another engine. Out: the `Kernel` of a core, with the cost on that core.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from glowembed.graph.ir import Node
from glowembed.graph.op import Cost, Kernel, KernelsOf
from glowembed.graph.target import Target
from glowembed.ops.shared import broadcast

WhyNot = Callable[[Node, Target], str | None]


def _words(node: Node) -> list[int]:
    words: list[int] = node.constants["words"].materialize().tolist()
    return words


HALF = [2**30, 0]
"""The requantization words of a scale of 1/2."""


def _tflite_why_not(node: Node, target: Target) -> str | None:
    w = _words(node)
    if HALF not in (w[0:2], w[2:4]):
        return "no operand has a scale of 1/2"
    if not all(-30 <= shift <= 0 for shift in (w[1], w[3])) or not -22 <= w[5] < 0:
        return f"shifts {w[1]}, {w[3]} and {w[5]}"
    return None


def _glow_why_not(node: Node, target: Target) -> str | None:
    w = _words(node)
    if w[1] or w[4]:
        return "an operand is shifted before it is multiplied"
    if max(w[2], w[5]) > 29 or 255 * max(w[0], w[3]) >= 2**29:
        return f"multipliers {w[0]} and {w[3]}, shifts {w[2]} and {w[5]}"
    return None


WHY_NOT: Mapping[str, tuple[WhyNot, int]] = {"glow": (_glow_why_not, 460), "tflite": (_tflite_why_not, 640)}
"""For each law that kernels of a core compute: the reason why they cannot take a node, and the bytes of their code."""


def each(isa: str, cycles: Mapping[str, tuple[float, float]], also: Callable[[Node], str | None]) -> KernelsOf:
    """The kernel of a core for the laws in `cycles`, which gives the cycles of an element and of a line.

    also: returns a further reason why this core's kernel cannot take a node.
    """

    def of(mode: str) -> tuple[Kernel, ...]:
        if mode not in cycles:
            return ()
        (why_not, code), (element, line) = WHY_NOT[mode], cycles[mode]
        return (
            Kernel(
                f"ge_add_each_s8_{isa}",
                isa=isa,
                when=lambda node, target: why_not(node, target) or also(node),
                cost=lambda n, t: Cost(broadcast.lines_cost(n.params, element, line), code),
                store="elements",
            ),
        )

    return of


def pairwise_why_not(node: Node) -> str | None:
    """The reason why an operand does not have one element for each element of a line; None if both have."""
    steps = node.params.strides_a[-1], node.params.strides_b[-1]
    return None if steps == (1, 1) else "an operand has one element for a line"
