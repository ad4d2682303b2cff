"""Expresses a tensor as a sum of products: constant matrices times the vectors that it was made from, plus a constant.

In: a graph and the name of a value. A tensor is taken as rows, the vectors along its last axis. Fully connected layers,
sums, constant factors, and parts and joins of vectors are followed; what only moves rows does not count, so that the same
vectors have one name however they were reshaped, transposed, cut from a tensor or stacked. Nothing is changed here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field

import numpy as np

from glowembed.graph.ir import Array, Graph, Node
from glowembed.graph.op import is_a
from glowembed.ops.activation import FORMULAS, UNSIGNED
from glowembed.ops.add import Add, Sub
from glowembed.ops.concat import Concat
from glowembed.ops.gemm import Gemm
from glowembed.ops.layout import Reshape, Transpose
from glowembed.ops.mul import Mul
from glowembed.ops.slice import Slice
from glowembed.records import dataclass

MOST_UNITS = 2048
"""The width up to which vectors are operands of a product by themselves. No recurrent layer is wider, but signals are."""

GATES = tuple(name for name, formula in FORMULAS.items() if formula.output_type == UNSIGNED)
"""The activations of what multiplies a state: those between 0 and 1."""

Rows = tuple[int, ...]


@dataclass(frozen=True)
class Vectors:
    """Rows of a value."""

    name: str
    rows: Rows


@dataclass(frozen=True, eq=False)
class Products:
    """sum of matrices[v] @ v, plus bias."""

    bias: Array
    matrices: Mapping[Vectors, Array] = field(default_factory=dict)

    def plus(self, other: Products, sign: int) -> Products:
        made = dict(self.matrices)
        for vectors, matrix in other.matrices.items():
            signed = matrix if sign > 0 else -matrix
            made[vectors] = made[vectors] + signed if vectors in made else signed
        return Products(self.bias + sign * other.bias, made)

    def part(self, outputs: slice | Array) -> Products:
        return Products(self.bias[outputs], {v: m[outputs] for v, m in self.matrices.items()})

    def times(self, factors: Array) -> Products:
        """The products, each output times a factor."""
        return Products(self.bias * factors, {v: m * factors[:, None] for v, m in self.matrices.items()})

    def without(self, *sources: Vectors | None) -> Products:
        """The rest of the sum."""
        return Products(self.bias, {v: m for v, m in self.matrices.items() if v not in sources})


class Reader:
    """Follows the values of one graph."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._producer = graph.producer()
        self._all_rows: dict[str, Vectors] = {}
        self._known: dict[Vectors, Products | None] = {}
        self._weights: dict[str, Array] = {}
        self._identity: dict[int, Array] = {}

    def width(self, name: str) -> int:
        shape = self.graph.values[name].shape
        return shape[-1] if shape else 1

    def all_rows(self, name: str) -> Vectors:
        if name not in self._all_rows:
            rows = range(self.graph.values[name].elements // max(self.width(name), 1))
            self._all_rows[name] = Vectors(name, tuple(rows))
        return self._all_rows[name]

    def maker(self, vectors: Vectors) -> Node | None:
        return self._producer.get(vectors.name)

    def vectors(self, name: str) -> Vectors:
        """All rows of a value, under the name of the value in which they were computed."""
        return self._moved(self.all_rows(name))

    def constant(self, vectors: Vectors) -> Array | None:
        """The row, if all rows are the same constant."""
        value = self.graph.values[vectors.name]
        if value.const is None:
            return None
        rows = self.array(vectors.name).reshape(-1, self.width(vectors.name))[list(vectors.rows)]
        return rows[0] if len(rows) and (rows == rows[0]).all() else None

    def products(self, vectors: Vectors) -> Products | None:
        """The sum of products that makes these vectors; None if a constant in it differs between rows, or if it is too wide."""
        vectors = self._moved(vectors)
        if vectors not in self._known:
            self._known[vectors] = self._products(vectors)
        return self._known[vectors]

    def array(self, name: str) -> Array:
        """The numbers of a constant."""
        if name not in self._weights:
            const = self.graph.values[name].const
            assert const is not None
            self._weights[name] = const.materialize()
        return self._weights[name]

    def _moved(self, vectors: Vectors) -> Vectors:
        while True:
            node = self._producer.get(vectors.name)
            source = None if node is None else self._source(node, np.asarray(vectors.rows, np.int64))
            if source is None:
                return vectors
            vectors = source

    def _source(self, node: Node, rows: Array) -> Vectors | None:
        """Where a node that only moves rows took these from; None for any other node."""
        name, shape = node.inputs[0], self.graph.values[node.inputs[0]].shape
        if not shape or shape[-1] != self.width(node.outputs[0]):
            return None
        numbers = np.arange(self.graph.values[name].elements // max(shape[-1], 1)).reshape(shape[:-1])
        if is_a(node, Reshape):
            return Vectors(name, tuple(rows.tolist()))
        if is_a(node, Transpose) and node.attrs["perm"][-1] == len(shape) - 1:
            return Vectors(name, tuple(numbers.transpose(node.attrs["perm"][:-1]).reshape(-1)[rows].tolist()))
        if is_a(node, Slice) and node.attrs["steps"][-1] == 1:
            return Vectors(name, tuple(numbers[np.ix_(*_taken(node)[:-1])].reshape(-1)[rows].tolist()))
        return self._stacked(node, rows) if is_a(node, Concat) and node.attrs["axis"] < len(shape) - 1 else None

    def stacked(self, node: Node) -> Vectors | None:
        """All rows that a Concat joins, in the order in which they then lie, if they are rows of one value."""
        parts = [self.vectors(name) for name in node.inputs]
        if len({v.name for v in parts}) > 1:
            return None
        shapes, axis = [self.graph.values[name].shape[:-1] for name in node.inputs], node.attrs["axis"]
        rows = [np.reshape(v.rows, s) for v, s in zip(parts, shapes, strict=True)]
        joined = (np.stack(rows, axis) if axis == len(shapes[0]) else np.concatenate(rows, axis)).reshape(-1)
        return Vectors(parts[0].name, tuple(int(row) for row in joined))

    def _stacked(self, node: Node, rows: Array) -> Vectors | None:
        """The rows of a Concat, if one of its inputs has them all."""
        shapes, axis = [self.graph.values[name].shape[:-1] for name in node.inputs], node.attrs["axis"]
        numbers = np.concatenate([np.arange(np.prod(s, dtype=np.int64)).reshape(s) for s in shapes], axis).reshape(-1)
        owners = np.concatenate([np.full(s, i) for i, s in enumerate(shapes)], axis).reshape(-1)[rows]
        if len(rows) == 0 or (owners != owners[0]).any():
            return None
        return Vectors(node.inputs[int(owners[0])], tuple(numbers[rows].tolist()))

    def _products(self, vectors: Vectors) -> Products | None:
        node, width = self.maker(vectors), self.width(vectors.name)
        if self.graph.values[vectors.name].const is not None:
            row = self.constant(vectors)
            return None if row is None else Products(row)
        if node is not None and is_a(node, Gemm) and not _clips(node):
            return self._layer(node, vectors.rows)
        if node is not None and (is_a(node, Add) or is_a(node, Sub)) and not _clips(node):
            return self._sum(node, vectors)
        if node is not None and is_a(node, Mul) and not _clips(node):
            return self._scaled(node, vectors) or self._alone(vectors)
        if node is not None and is_a(node, Slice) and node.attrs["steps"][-1] == 1:
            whole = self._rest_is_whole(node)
            start = node.attrs["starts"][-1]
            found = self.products(Vectors(node.inputs[0], vectors.rows)) if whole else None
            return None if found is None else found.part(slice(start, start + width))
        return self._alone(vectors)

    def _alone(self, vectors: Vectors) -> Products | None:
        """The vectors times the identity."""
        width = self.width(vectors.name)
        return None if width > MOST_UNITS else Products(np.zeros(width, np.float32), {vectors: self._itself(width)})

    def _itself(self, width: int) -> Array:
        if width not in self._identity:
            self._identity[width] = np.eye(width, dtype=np.float32)
        return self._identity[width]

    def _rest_is_whole(self, node: Node) -> bool:
        return self.graph.values[node.inputs[0]].shape[:-1] == node.attrs["sizes"][:-1] and all(
            s == 1 for s, size in zip(node.attrs["steps"][:-1], node.attrs["sizes"][:-1], strict=True) if size > 1
        )

    def _layer(self, node: Node, rows: Rows) -> Products | None:
        if any(self.graph.values[name].const is None for name in node.inputs[1:]):
            return None
        weights, bias = (self.array(name) for name in node.inputs[1:])
        made, start = Products(bias), 0
        for vectors in self._joined(Vectors(node.inputs[0], rows)):
            part = weights[:, start : start + self.width(vectors.name)]
            start += part.shape[1]
            if self.graph.values[vectors.name].const is None:
                made = made.plus(Products(np.zeros_like(bias), {vectors: part}), 1)
                continue
            row = self.constant(vectors)
            if row is None:
                return None
            made = made.plus(Products((part @ row).astype(np.float32)), 1)
        return made

    def _joined(self, vectors: Vectors) -> Iterator[Vectors]:
        """The vectors that a Concat along the last axis joins, or the vectors themselves."""
        vectors = self._moved(vectors)
        node = self.maker(vectors)
        if node is None or not is_a(node, Concat):
            yield vectors
            return
        for name in node.inputs:
            yield from self._joined(Vectors(name, vectors.rows))

    def _sum(self, node: Node, vectors: Vectors) -> Products | None:
        shape, found = self.graph.values[vectors.name].shape, list[Products]()
        for name in node.inputs:
            value = self.graph.values[name]
            if value.const is not None:
                row = self._broadcast(name, vectors)
                one = None if row is None else Products(row)
            else:
                one = self.products(Vectors(name, vectors.rows)) if value.elements == np.prod(shape) else None
            if one is None:
                return None
            found.append(one)
        return found[0].plus(found[1], -1 if is_a(node, Sub) else 1)

    def _scaled(self, node: Node, vectors: Vectors) -> Products | None:
        """A constant row times vectors, as a diagonal matrix; None for a product of two computed vectors, and for a gate,
        whose product with a constant state is a step of a GRU.
        """
        values = self.graph.values
        for name, factor in (node.inputs, node.inputs[::-1]):
            if values[factor].const is not None and values[name].elements == values[vectors.name].elements:
                row, of = self._broadcast(factor, vectors), self._moved(Vectors(name, vectors.rows))
                made = self.maker(of)
                if made is not None and made.op in GATES:
                    return None
                known = None if values[of.name].const is None else self.constant(of)
                one = self._alone(of) if known is None else Products(known)
                return None if row is None or one is None else one.times(row)
        return None

    def _broadcast(self, name: str, vectors: Vectors) -> Array | None:
        """The row of a constant that is broadcast to the tensor of these vectors, if all rows are the same."""
        shape = self.graph.values[vectors.name].shape
        full = np.broadcast_to(self.array(name), shape).reshape(-1, shape[-1])[list(vectors.rows)]
        return full[0] if (full == full[0]).all() else None


def _clips(node: Node) -> bool:
    return "act_min" in node.attrs


def _taken(node: Node) -> list[Array]:
    parts = zip(node.attrs["starts"], node.attrs["steps"], node.attrs["sizes"], strict=True)
    return [start + step * np.arange(size) for start, step, size in parts]
