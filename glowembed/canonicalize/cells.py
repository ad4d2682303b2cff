"""Recognizes one step of an LSTM, a GRU or an RNN that is written out as products, sums and activations.

In: a graph. Out: the cells in it, each with the sums of products of its gates. Names and the order of the gates do not
matter, nor do Reshapes, Splits, and whether products are computed for one gate or for all, or for one step or for all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from glowembed.canonicalize.products import Products, Reader, Vectors
from glowembed.graph.ir import Array, Graph, Node
from glowembed.graph.op import is_a
from glowembed.graph.registry import ops
from glowembed.law import gates
from glowembed.ops.add import Add, Sub
from glowembed.ops.gemm import Gemm
from glowembed.ops.mul import Mul

Function = tuple[str, tuple[float, ...]]
"""The name of an activation in law/gates.py, with its alpha and beta."""

GATES = ("sigmoid", "hardsigmoid")
"""The activations of what multiplies a state; the others are those of what a state is made from."""

FEWEST = 2
"""The fewest steps that are rolled up; each has at least one activation that is no gate."""

MOST_TERMS = 6
"""More terms than the state of a GRU has."""


@dataclass(frozen=True, eq=False)
class Cell:
    """One step. sums: the arguments of the gates in ONNX's order, for a GRU with linear_before_reset also the product that
    its reset gate multiplies. before, memory_before: the states that the step reads elsewhere than in a product; None if
    they are zeros. mixes: whether it reads `before` there, as a GRU does.
    """

    kind: str
    functions: tuple[Function, ...]
    sums: tuple[Products, ...]
    activations: tuple[str, ...]
    state: Vectors
    memory: Vectors | None = None
    before: Vectors | None = None
    memory_before: Vectors | None = None
    mixes: bool = False
    linear_before_reset: int = 0

    @property
    def sources(self) -> tuple[Vectors, ...]:
        """The vectors that the gates are computed from."""
        return tuple(dict.fromkeys(v for one in self.sums for v in one.matrices))

    def matrices(self, of: Vectors) -> tuple[Array | None, ...]:
        return tuple(one.matrices.get(of) for one in self.sums)

    @property
    def form(self) -> tuple[object, ...]:
        """What must be equal in all steps, besides the weights."""
        return self.kind, self.functions, self.linear_before_reset, len(self.state.rows)


def cells(graph: Graph) -> Iterator[Cell]:
    """The cells of a graph, in the order of their states."""
    used = Counter(node.op.lower() for node in graph.nodes)
    if sum(used[name] for name in gates.FUNCTIONS if name not in GATES) < FEWEST:
        return
    reader = Reader(graph)
    found = _Cells(graph, reader)
    for node in graph.nodes:
        value = graph.values[node.outputs[0]]
        if value.qtype is None and not value.plain and value.shape:
            cell = found.lstm(node) or found.gru(node) or found.rnn(node)
            if cell is not None:
                yield cell


class _Cells:
    def __init__(self, graph: Graph, reader: Reader) -> None:
        self.graph, self.reader = graph, reader

    def function(self, vectors: Vectors) -> Function | None:
        """The activation that makes these vectors."""
        node = self.reader.maker(vectors)
        name = "" if node is None else node.op.lower()
        if node is None or name not in gates.FUNCTIONS or vectors != self.reader.all_rows(vectors.name):
            return None
        return name, tuple(float(node.attrs[n]) for n in ("alpha", "beta") if n in node.attrs)

    def is_gate(self, vectors: Vectors) -> bool:
        return (self.function(vectors) or ("",))[0] in GATES

    def is_new(self, vectors: Vectors) -> bool:
        return (self.function(vectors) or (GATES[0],))[0] not in GATES

    def argument(self, vectors: Vectors) -> Products | None:
        """The argument of the activation that makes these vectors."""
        node = self.reader.maker(vectors)
        return None if node is None else self.reader.products(self.reader.vectors(node.inputs[0]))

    def factors(self, vectors: Vectors) -> tuple[Vectors, Vectors] | None:
        """Two factors of one width, a gate first."""
        node = self.reader.maker(vectors)
        if node is None or not is_a(node, Mul) or "act_min" in node.attrs:
            return None
        a, b = (self.reader.vectors(name) for name in node.inputs)
        if not self.is_gate(a):
            a, b = b, a
        whole = self.reader.all_rows(vectors.name).rows
        same = len(a.rows) == len(whole) and (len(b.rows) == len(whole) or self.reader.constant(b) is not None)
        return (a, b) if same and self.is_gate(a) else None

    def lstm(self, node: Node) -> Cell | None:
        """h = o * tanh(c), c = f * c' + i * g."""
        state = self.reader.all_rows(node.outputs[0])
        outer = self.factors(state)
        squashed = None if outer is None or not self.is_new(outer[1]) else self.reader.maker(outer[1])
        if outer is None or squashed is None:
            return None
        memory = self.reader.vectors(squashed.inputs[0])
        made = self.reader.maker(memory)
        names = made.inputs if made is not None and is_a(made, Add) else (memory.name,)
        terms = [self.reader.vectors(name) for name in names]
        products = [self.factors(v) for v in terms if not self._is_zero(v)]
        entry = next((p for p in products if p is not None and self.is_new(p[1])), None)
        kept = next((p for p in products if p is not entry), None)
        if (
            entry is None
            or kept is None
            or len(products) > 2
            or None in products
            or memory != self.reader.all_rows(memory.name)
        ):
            return None
        roles = (entry[0], outer[0], kept[0], entry[1])
        functions = [self.function(v) for v in (*roles, outer[1])]
        if len({functions[0], functions[1], functions[2]}) > 1:
            return None
        before = None if self._is_zero(kept[1]) else kept[1]
        return self.cell(
            "LSTM", roles, (functions[0], functions[3], functions[4]), state, memory=memory, memory_before=before
        )

    def gru(self, node: Node) -> Cell | None:
        """h = (1 - z) * n + z * h', or the same with 1 - z in place of z."""
        if not (is_a(node, Add) or is_a(node, Sub)):
            return None
        state = self.reader.all_rows(node.outputs[0])
        terms = self._terms(state, True)
        alone = [key[0] for key in terms or () if len(key) == 1]
        pairs = {key: factor for key, factor in (terms or {}).items() if len(key) == 2}
        if terms is None or len(terms) > 3 or len(alone) != 1 or len(alone) + len(pairs) != len(terms) or not pairs:
            return None
        gate = next((v for v in next(iter(pairs)) if self.is_gate(v)), None)
        other = {v for key in pairs for v in key} - {gate, alone[0]}
        wanted = {_key(alone[0]): 1.0, **({_key(gate, alone[0]): -1.0} if gate else {})}
        wanted |= {_key(gate, v): 1.0 for v in other if gate}
        if gate is None or terms != wanted or len(other) > 1:
            return None
        second = next(iter(other), None)
        if self.is_new(alone[0]):
            return self._gru(state, gate, alone[0], second, 1)
        return self._gru(state, gate, second, alone[0], -1) if second is not None and self.is_new(second) else None

    def _gru(self, state: Vectors, z: Vectors, n: Vectors, before: Vectors | None, sign: int) -> Cell | None:
        update, made = self.argument(z), self.argument(n)
        function = self.function(z)
        if update is None or made is None or (sign < 0 and function != ("sigmoid", ())):
            return None
        update = Products(np.zeros_like(update.bias)).plus(update, sign)
        for vectors, matrix in made.matrices.items():
            pair = self.factors(vectors)
            reset = None if pair is None else self.argument(pair[0])
            if pair is None or reset is None or self.function(pair[0]) != function:
                continue
            rest = Products(made.bias, {v: m for v, m in made.matrices.items() if v != vectors})
            cell = Cell("GRU", (), (), (z.name, pair[0].name, n.name), state, before=before, mixes=True)
            linear = self.reader.products(pair[1])
            sums: tuple[Products, ...] | None = None
            if np.array_equal(matrix, np.eye(len(matrix))):
                sums = None if linear is None else (update, reset, rest, linear)
            elif pair[1] == before:
                sums = (update, reset, rest.plus(Products(np.zeros_like(rest.bias), {before: matrix}), 1))
            elif before is None and self._is_zero(pair[1]):
                sums = (update, reset, rest)
            functions = (function, self.function(n))
            if sums is not None and functions[0] is not None and functions[1] is not None:
                return replace(
                    cell, sums=sums, functions=(functions[0], functions[1]), linear_before_reset=int(len(sums) == 4)
                )
        return None

    def rnn(self, node: Node) -> Cell | None:
        """h = tanh of a sum of products."""
        state = self.reader.all_rows(node.outputs[0])
        return self.cell("RNN", (state,), (self.function(state),), state) if self.is_new(state) else None

    def cell(
        self, kind: str, roles: tuple[Vectors, ...], functions: tuple[Function | None, ...], state: Vectors,
        memory: Vectors | None = None, memory_before: Vectors | None = None,
    ) -> Cell | None:  # fmt: skip
        sums = tuple(one for one in map(self.argument, roles) if one is not None)
        known = tuple(f for f in functions if f is not None)
        if len(sums) < len(roles) or len(known) < len(functions):
            return None
        made = tuple(v.name for v in roles)
        return Cell(kind, known, sums, made, state, memory=memory, memory_before=memory_before)

    def _is_zero(self, vectors: Vectors) -> bool:
        row = self.reader.constant(vectors)
        return row is not None and not row.any()

    def _terms(self, vectors: Vectors, root: bool = False) -> dict[tuple[Vectors, ...], float] | None:
        """Sums, differences and products multiplied out: the factor of each product of vectors. What a layer reads is a
        state, and is not multiplied out.
        """
        row, node = self.reader.constant(vectors), self.reader.maker(vectors)
        if row is not None and (row == row[0]).all():
            return {(): float(row[0])} if row[0] else {}
        if node is None or "act_min" in node.attrs or (not root and self._is_read_by_layer(vectors.name)):
            return {(vectors,): 1.0}
        if not (is_a(node, Add) or is_a(node, Sub) or is_a(node, Mul)):
            return {(vectors,): 1.0}
        a, b = (self._terms(self.reader.vectors(name)) for name in node.inputs)
        if a is None or b is None:
            return None
        made: dict[tuple[Vectors, ...], float] = {} if is_a(node, Mul) else dict(a)
        for key, factor in b.items():
            if is_a(node, Mul):
                for mine, of in a.items():
                    joined = _key(*mine, *key)
                    made[joined] = made.get(joined, 0.0) + of * factor
            else:
                made[key] = made.get(key, 0.0) + (-factor if is_a(node, Sub) else factor)
        made = {key: factor for key, factor in made.items() if factor}
        return made if len(made) <= MOST_TERMS and all(len(key) <= 2 for key in made) else None

    def _is_read_by_layer(self, name: str, depth: int = 4) -> bool:
        """Whether a layer reads a value, behind what only moves its elements."""
        return depth > 0 and any(
            is_a(node, Gemm)
            or (self._moves(node) and any(self._is_read_by_layer(made, depth - 1) for made in node.outputs))
            for node in self.graph.consumers()[name]
        )

    def _moves(self, node: Node) -> bool:
        return ops()[node.op].dependence == "move"


def _key(*vectors: Vectors | None) -> tuple[Vectors, ...]:
    return tuple(sorted((v for v in vectors if v is not None), key=lambda v: (v.name, v.rows)))
