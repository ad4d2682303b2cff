"""Runs a graph twice over the same samples, in float and with values rounded to their types, and records how what a layer multiplies
varies together. In: a canonical graph, the same graph with types, samples. Out: the moments of the inputs of one layer after another.

The numbers that are multiplied are rounded to integers of a few bits, so all sums are sums of integers: they depend neither on the
machine nor on the order of the samples.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from glowembed.graph.ir import Array, Graph, Node, Value
from glowembed.graph.registry import ops
from glowembed.ranges.datasets import Dataset, stored_sample
from glowembed.records import dataclass
from glowembed.reference import float_results, graph_runs, run_float_all

BITS = 12
"""The bits of the integers, without their sign. Sums of 2^29 of their products are exact in float64."""

BLOCK = 1024
"""Covariances are recorded between at most so many consecutive weights of an output channel; those of others are taken as 0."""

LIVE = 2**26
"""The numbers that each of both runs may keep at a time; more samples than fit are not used."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Moments:
    """What the weights of an output channel multiply, over samples and outputs of a channel, in an arbitrary unit.

    blocks: for consecutive weights, the covariances [groups, K, K] of the rounded inputs, and those of the rounded inputs with
    what they lack: exact minus rounded. exact, rounded: the means [groups, K] of all inputs, in real numbers. count: outputs.
    """

    blocks: tuple[tuple[Floats, Floats], ...]
    exact: Floats
    rounded: Floats
    count: int


class Runs:
    """The values of a typed graph in both runs, node by node, so that weights that were rounded count for the layers behind them."""

    def __init__(self, graph: Graph, typed: Graph, dataset: Dataset) -> None:
        """graph: the canonical graph, whose types are those that the model defines."""
        given = {name: value.qtype for name, value in graph.values.items()}
        free = {name: replace(value, qtype=given.get(name)) for name, value in typed.values.items()}
        self._typed, self._float = typed, replace(typed, values=free)
        self._last = {name: node.name for node in typed.nodes for name in node.inputs}
        self._constants: dict[str, Array] = {}
        samples = list(_inputs(graph, dataset.every(max(1, LIVE // _most_alive(typed, self._last)))))
        self._count = len(samples)
        self.exact = {name: [sample[name] for sample in samples] for name in graph.inputs}
        self.rounded = {name: [_stored(typed.values[name], a) for a in self.exact[name]] for name in graph.inputs}

    def step(self, node: Node, changed: Mapping[str, Array]) -> None:
        """Compute a node in both runs, in the rounded one with other constants, and forget what no later node reads."""
        constants = {name: self._constant(name) for name in node.inputs if name not in self.exact}
        for graph, known, own in (
            (self._float, self.exact, constants),
            (self._typed, self.rounded, constants | dict(changed)),
        ):
            rows = [
                float_results(graph, node, [own[n] if n in own else known[n][i] for n in node.inputs])
                for i in range(self._count)
            ]
            for name in node.outputs:
                value = graph.values[name]
                known[name] = [row[name] if known is self.exact else _stored(value, row[name]) for row in rows]
            for name in node.inputs:
                if self._last[name] == node.name:
                    known.pop(name, None)

    def moments(self, node: Node) -> Moments | None:
        """The moments of what this layer multiplies in its next step; None if its op does not say what that is, or if its input
        is constant.
        """
        if node.inputs[0] not in self.exact:
            return None
        exact, rounded = (
            [np.nan_to_num(a).astype(np.float64) for a in known[node.inputs[0]]] for known in (self.exact, self.rounded)
        )
        unit = np.ldexp(1.0, np.frexp(max(float(np.abs(a).max(initial=0.0)) for a in (*exact, *rounded)))[1] - BITS)
        sums: _Sums | None = None
        for pair in zip(exact, rounded, strict=True):
            x, q = (ops()[node.op].patches(node.attrs, np.rint(a / unit)) for a in pair)
            if x is None or q is None:
                return None
            sums = sums or _Sums(x.shape)
            sums.add(x, q)
        return None if sums is None else sums.moments(unit)

    def _constant(self, name: str) -> Array:
        if name not in self._constants:
            const = self._typed.values[name].const
            assert const is not None, name
            array = const.materialize()
            self._constants[name] = array.astype(np.float32, copy=False) if array.dtype.kind == "f" else array
        return self._constants[name]


class _Sums:
    """Sums over samples and outputs of integers [groups, outputs, K], exact in float64."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        groups, _, count = shape
        parts = -(-count // BLOCK)
        limits = [count * part // parts for part in range(parts + 1)]
        self.slices = [slice(a, b) for a, b in pairwise(limits)]
        sizes = [b.stop - b.start for b in self.slices]
        self.products = [[np.zeros((groups, size, size)) for size in sizes] for _ in range(2)]
        self.x, self.q, self.count = np.zeros((groups, count)), np.zeros((groups, count)), 0

    def add(self, x: Array, q: Array) -> None:
        lacking = x - q
        for i, part in enumerate(self.slices):
            turned = np.ascontiguousarray(q[:, :, part].transpose(0, 2, 1))
            self.products[0][i] += turned @ q[:, :, part]
            self.products[1][i] += turned @ lacking[:, :, part]
        self.x += x.sum(axis=1)
        self.q += q.sum(axis=1)
        self.count += x.shape[1]

    def moments(self, unit: float) -> Moments:
        """With few samples, covariances between different inputs are mostly accidental; all are therefore multiplied by
        count / (count + K), and those with what the inputs lack, which are smaller, by its square.
        """
        x, q, n = self.x / self.count, self.q / self.count, self.count
        blocks = []
        for part, own, lacking in zip(self.slices, *self.products, strict=True):
            share, mean = n / (n + own.shape[1]), q[:, part, None]
            matrix = own / n - mean * q[:, None, part]
            variances = np.einsum("gkk->gk", matrix).copy()
            matrix *= share
            np.einsum("gkk->gk", matrix)[:] = variances
            blocks.append((matrix, share**2 * (lacking / n - mean * (x - q)[:, None, part])))
        return Moments(tuple(blocks), x * unit, q * unit, n)


def _inputs(graph: Graph, dataset: Dataset) -> Iterable[Mapping[str, Array]]:
    """The inputs of each run; states are those of the run in float."""
    plain = graph.with_plain_constants()
    samples = (stored_sample(graph, dataset, index) for index in range(len(dataset)))
    if not graph.states:
        return samples
    return (given for given, _ in graph_runs(plain, samples, run_float_all))


def _stored(value: Value, array: Array) -> Array:
    """The array as its type holds it."""
    if value.qtype is None or array.dtype.kind != "f":
        return array
    return value.qtype.dequantize(value.qtype.quantize(np.nan_to_num(array)))


def _most_alive(graph: Graph, last: Mapping[str, str]) -> int:
    """The most numbers that are kept at a time while the nodes are computed in order."""
    alive = {name: graph.values[name].elements for name in graph.inputs}
    most = sum(alive.values())
    for node in graph.nodes:
        alive |= {name: graph.values[name].elements for name in node.outputs}
        most = max(most, sum(alive.values()))
        for name in node.inputs:
            if last[name] == node.name:
                alive.pop(name, None)
    return max(1, most)
