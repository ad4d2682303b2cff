"""Records how the numbers that a layer multiplies vary together. In: a canonical graph, its profile and samples. Out: the
covariances of each layer whose weights may have four bits, by the name of its output.

The inputs of a layer are rounded to integers of a few bits, so all sums are sums of integers: they depend neither on the
machine nor on the order of the samples.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glowembed.graph.ir import Array, Graph, Node
from glowembed.graph.registry import ops
from glowembed.ranges.datasets import Dataset, graph_runs, stored_sample
from glowembed.ranges.record import ValueProfile
from glowembed.reference import run_float

BITS = 10
"""The bits of the integers, without their sign. Sums of 2^33 of their products are exact in float64."""

LARGEST = 1024
"""The most weights of an output channel for which covariances are recorded; they are as many numbers as its square."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class _Sums:
    """Sums over samples and outputs. products: [groups, K, K]; sums: [groups, K]."""

    products: Floats
    sums: Floats
    count: int

    def __add__(self, other: _Sums) -> _Sums:
        return _Sums(self.products + other.products, self.sums + other.sums, self.count + other.count)


def covariances(graph: Graph, dataset: Dataset, values: Mapping[str, ValueProfile]) -> dict[str, Floats]:
    """Output of a layer -> [groups, K, K], where K is the number of weights of an output channel, in their order. `values` are
    the profile of the same samples. The unit of each is arbitrary.

    With few samples, covariances between different inputs are mostly accidental; all are therefore multiplied by
    count / (count + K).
    """
    graph, found = graph.with_plain_constants(), dict[str, _Sums]()
    layers = [node for node in graph.nodes if _has_form(graph, node) and node.inputs[0] in values]
    samples = (stored_sample(graph, dataset, index) for index in range(len(dataset)))
    for _, results in graph_runs(graph, samples, lambda inputs: run_float(graph, inputs)):
        for node in layers:
            x = node.inputs[0]
            seen = _of_sample(node, results[x], values[x])
            if seen is not None:
                y = node.outputs[0]
                found[y] = found[y] + seen if y in found else seen
    return {name: _covariance(sums) for name, sums in found.items()}


def _has_form(graph: Graph, node: Node) -> bool:
    if not ops()[node.op].weights_of_four_bits:
        return False
    weights = graph.values[node.inputs[1]]
    return weights.const is not None and weights.elements <= LARGEST * weights.shape[0]


def _of_sample(node: Node, x: Array, known: ValueProfile) -> _Sums | None:
    unit = np.ldexp(1.0, np.frexp(max(abs(known.low), abs(known.high)))[1] - BITS)
    steps = np.rint(np.nan_to_num(x).astype(np.float64) / unit)
    patches = ops()[node.op].patches(node.attrs, steps)
    if patches is None:
        return None
    return _Sums(patches.transpose(0, 2, 1) @ patches, patches.sum(axis=1), patches.shape[1])


def _covariance(of: _Sums) -> Floats:
    means = of.sums / of.count
    matrix = of.products / of.count - means[:, :, None] * means[:, None, :]
    variances = np.einsum("gkk->gk", matrix).copy()
    matrix *= of.count / (of.count + matrix.shape[1])
    np.einsum("gkk->gk", matrix)[:] = variances
    return matrix
