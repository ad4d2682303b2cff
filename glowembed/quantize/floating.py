"""Leaves nodes in float32 if integers cannot represent their numbers.

In: a canonical graph, the settings of its nodes and a profile. Out: the settings, with float32 around such values. A
rule that gives a node a dtype takes precedence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from glowembed.graph.ir import Graph, Node
from glowembed.graph.op import FOLLOWS, is_a
from glowembed.graph.registry import ops
from glowembed.ops.affine import Affine
from glowembed.ops.attention import Attention
from glowembed.ops.matmul import MatMul
from glowembed.ops.softmax import Softmax
from glowembed.quantize.precision import Precision, left_in_float
from glowembed.ranges.profile import Profile
from glowembed.ranges.record import Histogram, ValueProfile
from glowembed.records import dataclass

UNBOUNDED = 1e8
"""Numbers of this size come from masks; in a range that includes them, everything else would be within one step of
int8.
"""

MASKED = 512
"""Scores of a Softmax that are this far apart are those of a mask, such as -10000: steps of int8 would be 2 or more, and a difference of
2 is a factor of 7 between probabilities.
"""

UNBOUNDED_IN_FLOAT = f"it handles NaN, or numbers beyond {UNBOUNDED:.0e}, which stand for infinity"
LEVELS = 8
"""The fewest steps of its type that an input must cover: 101325 Pa +- 500 would cover two."""

STEPS = {"int8": 255, "int16": 32767}
"""How many steps there are between 0 and the largest number, or between the least and the largest number."""

COARSE_IN_FLOAT = f"its input varies by less than {LEVELS} steps of an integer type that holds 0 and its largest number"
MASKED_IN_FLOAT = f"its scores and their mask are {MASKED} or more apart, too far for the steps of integers"
WHOLE_IN_FLOAT = "it handles whole numbers that are cast to integers, which cuts off what is a little too small"


def by_numbers(graph: Graph, precision: Precision, ranges: Profile) -> Precision:
    """The settings, with float32 around values that reach infinity, and around real integers that are cast to
    integers.
    """
    activations = {name for name, value in graph.values.items() if value.const is None and value.qtype is None}
    seen = {name: found for name, found in ranges.values.items() if name in activations}
    unbounded = [name for name, found in seen.items() if max(-found.low, found.high) >= UNBOUNDED]
    precision = left_in_float(graph, precision, [*unbounded, *_masks(graph)], UNBOUNDED_IN_FLOAT)
    masked = [x for x in _scores(graph) if x in seen and seen[x].high - seen[x].low >= MASKED]
    precision = left_in_float(graph, precision, masked, MASKED_IN_FLOAT)
    precision = left_in_float(graph, precision, set(_coarse_inputs(graph, precision, seen)), COARSE_IN_FLOAT)
    whole = {name for name, found in seen.items() if found.histogram is not None and is_whole(found.histogram)}
    return left_in_float(graph, precision, set(_Casts(graph, whole).found()), WHOLE_IN_FLOAT)


def _masks(graph: Graph) -> Iterator[str]:
    """What computes the masks of attention by arithmetic, or from numbers that stand for infinity, which samples need not show."""
    made = graph.producer()
    for name in (name for node in graph.nodes if is_a(node, Attention) for name in node.inputs[3:]):
        waiting, found = [name], list[Node]()
        while waiting:
            if (node := made.get(waiting.pop())) is not None and not ops()[node.op].plain and node not in found:
                found.append(node)
                waiting += node.inputs
        infinite = any(_is_infinite(graph, x) for node in found for x in node.inputs)
        if not any((_sums(node) and not is_a(node, Affine)) or is_a(node, MatMul) for node in found) and (
            infinite or any(ops()[n.op].output_type not in FOLLOWS for n in found)
        ):
            yield from (node.outputs[0] for node in found)


def _is_infinite(graph: Graph, name: str) -> bool:
    const = graph.values[name].const
    return const is not None and bool((np.abs(const.materialize()) >= UNBOUNDED).any())


def _coarse_inputs(graph: Graph, precision: Precision, seen: Mapping[str, ValueProfile]) -> Iterator[str]:
    """Inputs of the network of which integers would keep too little: numbers far from 0 that vary little, or a channel of small
    numbers beside large ones, if the network scales it first.
    """
    for name in (name for name in graph.inputs if name in seen):
        readers, found = [node for node in graph.nodes if name in node.inputs], seen[name]
        steps = max((STEPS.get(precision.nodes[node.name].dtype, 0) for node in readers), default=0)
        widths = [found.high - found.low]
        if readers and all(is_a(node, Affine) for node in readers):
            widths += [high - low for low, high in zip(found.channel_low, found.channel_high, strict=True)]
        whole = max(found.high, 0.0) - min(found.low, 0.0)
        if any(0 < width * steps < LEVELS * whole for width in widths):
            yield name


def _scores(graph: Graph) -> Iterator[str]:
    """What is the input of a softmax."""
    return (node.inputs[0] for node in graph.nodes if is_a(node, Softmax))


def is_whole(histogram: Histogram) -> bool:
    """Whether all numbers are integers as far as the bins tell: each lies in the first bin of a unit."""
    bins = 1 << max(0, -histogram.exponent)
    return bins > 1 and all((histogram.first + i) % bins == 0 for i in np.flatnonzero(histogram.counts).tolist())


@dataclass(frozen=True)
class _Casts:
    """Finds the real numbers of a graph that are cast to integers, and those from which they are computed."""

    graph: Graph
    whole: set[str]

    def found(self) -> Iterator[str]:
        made, waiting, known = self.graph.producer(), list(self._cut_off()), set[str]()
        while waiting:
            name = waiting.pop()
            if name in known or name not in self.whole or name not in made:
                continue
            known.add(name)
            yield name
            waiting += () if _sums(made[name]) else made[name].inputs

    def _cut_off(self) -> Iterator[str]:
        """The real numbers that a node reads and writes as integers."""
        values = self.graph.values
        for node in self.graph.nodes:
            if ops()[node.op].plain and all(values[y].dtype.startswith(("int", "uint")) for y in node.outputs):
                yield from node.inputs


def _sums(node: Node) -> bool:
    """Whether a node sums products, which is faster in integers."""
    op = ops()[node.op]
    return bool(op.has_weights or op.products)
