"""Recognizes one step of an LSTM, a GRU or an RNN that is written out as products, sums and activations, or that is an op.

In: a graph. Out: the cells in it, each with the sums of products of its gates. Names and the order of the gates do not
matter, nor do Reshapes, Splits, and whether products are computed for one gate or for all, or for one step or for all.
One minus a sigmoid is the sigmoid of the negated sum, so a gate may be made from another one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from glowembed.canonicalize.products import GATES, Products, Reader, Vectors
from glowembed.graph.ir import Array, Graph, Node
from glowembed.graph.op import is_a
from glowembed.graph.registry import ops
from glowembed.law import gates
from glowembed.ops import recurrent_kernels as kernels
from glowembed.ops.activation import Clip
from glowembed.ops.add import Add, Sub
from glowembed.ops.gemm import Gemm
from glowembed.ops.mul import Mul
from glowembed.ops.recurrent import Memory, Recurrent
from glowembed.records import dataclass

Function = tuple[str, tuple[float, ...]]
"""The name of an activation in law/gates.py, with its alpha and beta."""

FEWEST = 2
"""The fewest steps that are rolled up; each has at least one activation that is no gate."""

MOST_TERMS = 6
"""More terms than the state of a GRU has."""


@dataclass(frozen=True, eq=False)
class Cell:
    """One step. sums: the arguments of the gates in ONNX's order, for a GRU with linear_before_reset also the product that
    its reset gate multiplies. before, memory_before: the states that the step reads elsewhere than in a product; None if
    they are zeros. mixes: whether it reads `before` there, as a GRU does. peepholes: those of an LSTM, for its gates i, o
    and f; None if a gate does not read the cell. clip: what the arguments of all gates are limited to; 0 if they are not.
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
    peepholes: tuple[Array | None, ...] = ()
    clip: float = 0.0

    @property
    def sources(self) -> tuple[Vectors, ...]:
        """The vectors that the gates are computed from."""
        return tuple(dict.fromkeys(v for one in self.sums for v in one.matrices))

    def matrices(self, of: Vectors) -> tuple[Array | None, ...]:
        return tuple(one.matrices.get(of) for one in self.sums)

    @property
    def form(self) -> tuple[object, ...]:
        """What must be equal in all steps, besides the weights."""
        return self.kind, self.functions, self.linear_before_reset, self.clip, len(self.state.rows)


def cells(graph: Graph) -> Iterator[Cell]:
    """The cells of a graph, in the order of their states."""
    if (
        sum(is_step(node) or (node.op.lower() in gates.FUNCTIONS and node.op not in GATES) for node in graph.nodes)
        < FEWEST
    ):
        return
    reader = Reader(graph)
    found = _Cells(graph, reader)
    for node in graph.nodes:
        value = graph.values[node.outputs[0]]
        if value.qtype is None and not value.plain and value.shape:
            cell = found.op(node) or found.lstm(node) or found.gru(node) or found.rnn(node)
            if cell is not None:
                yield cell


def is_step(node: Node) -> bool:
    return isinstance(ops()[node.op], Recurrent) and node.attrs["result"] != "cell"


class _Cells:
    def __init__(self, graph: Graph, reader: Reader) -> None:
        self.graph, self.reader = graph, reader
        self._memories = {n.inputs: n for n in graph.nodes if is_a(n, Memory)}

    def op(self, node: Node) -> Cell | None:
        """An op over a sequence of one step."""
        attrs, memory = node.attrs, self._memories.get(node.inputs)
        if not is_step(node) or self.graph.values[node.inputs[0]].shape[0 if not attrs["batch_first"] else 1] != 1:
            return None
        own = dict(zip(attrs["given"], node.inputs[5:], strict=True))
        if attrs["lengths"] or attrs["input_forget"] or (memory and memory.attrs != {**attrs, "result": "cell"}):
            return None
        count = kernels.GATES[attrs["kind"]]
        w, r, w_bias, r_bias = (np.split(self.reader.array(name), count) for name in node.inputs[1:5])
        x, states = self.reader.vectors(node.inputs[0]), {k: self.reader.vectors(own[k]) for k in "hc" if k in own}
        before = states.get("h")
        of_x = [Products(b, {x: m}) for m, b in zip(w, w_bias, strict=True)]
        of_h = [Products(b, {before: m} if before else {}) for m, b in zip(r, r_bias, strict=True)]
        sums = [a.plus(b, 1) for a, b in zip(of_x, of_h, strict=True)]
        if attrs["linear_before_reset"]:
            sums = [*sums[:2], of_x[2], of_h[2]]
        peepholes = np.split(self.reader.array(own["P"]), 3) if "P" in own else (None,) * 3
        return Cell(
            attrs["kind"], attrs["functions"], tuple(sums), node.outputs, self.reader.all_rows(node.outputs[0]),
            None if memory is None else self.reader.all_rows(memory.outputs[0]), before, states.get("c"),
            count == 3, attrs["linear_before_reset"], tuple(peepholes), attrs["clip"],
        )  # fmt: skip

    def activation(self, vectors: Vectors) -> Node | None:
        """The activation that makes these vectors, or one minus them."""
        node = self.reader.maker(vectors)
        if node is None or vectors != self.reader.all_rows(vectors.name):
            return None
        if self._is_complement(node):
            inner = self.reader.vectors(node.inputs[1])
            made = self.reader.maker(inner)
            gate = made is not None and made.op in GATES and made.attrs.get("beta", 0.5) == 0.5  # 1 - g(x) is g(-x)
            return made if gate and len(inner.rows) == len(vectors.rows) else None
        return node if node.op.lower() in gates.FUNCTIONS else None

    def _is_complement(self, node: Node) -> bool:
        row = self.reader.constant(self.reader.vectors(node.inputs[0])) if is_a(node, Sub) else None
        return row is not None and "act_min" not in node.attrs and bool((row == 1).all())

    def function(self, vectors: Vectors) -> Function | None:
        """The function that makes these vectors of their argument."""
        node = self.activation(vectors)
        if node is None:
            return None
        return node.op.lower(), tuple(float(node.attrs[n]) for n in ("alpha", "beta") if n in node.attrs)

    def is_gate(self, vectors: Vectors) -> bool:
        node = self.activation(vectors)
        return node is not None and node.op in GATES

    def is_new(self, vectors: Vectors) -> bool:
        """Whether a state is made from these vectors: they are an activation that is no gate."""
        node = self.activation(vectors)
        return node is not None and node.op not in GATES

    def argument(self, vectors: Vectors) -> Products | None:
        """The argument of the activation that makes these vectors, negated for one minus an activation."""
        found, limit = self.limited(vectors)
        return None if limit else found

    def limited(self, vectors: Vectors) -> tuple[Products | None, float]:
        """The argument of an activation, and what a Clip limits its size to, or 0."""
        maker, node = self.reader.maker(vectors), self.activation(vectors)
        if maker is None or node is None:
            return None, 0.0
        found, limit = self._unclipped(self.reader.products(self.reader.vectors(node.inputs[0])))
        if found is None or node is maker:
            return found, limit
        return found.times(np.full(len(found.bias), -1, np.float32)), limit

    def _unclipped(self, found: Products | None) -> tuple[Products | None, float]:
        """What a Clip to -limit..limit limits, and limit, if these products are elements of its output."""
        sources = list((found or Products(np.zeros(0))).matrices.items())
        clip = self.reader.maker(sources[0][0]) if len(sources) == 1 else None
        if found is None or clip is None or not is_a(clip, Clip) or clip.attrs["min"] != -clip.attrs["max"]:
            return found, 0.0
        ((vectors, matrix),) = sources
        chosen = np.argmax(matrix, axis=1)
        if found.bias.any() or not np.array_equal(matrix, np.eye(matrix.shape[1], dtype=matrix.dtype)[chosen]):
            return found, 0.0
        inner = self.reader.products(Vectors(clip.inputs[0], vectors.rows))
        return None if inner is None else inner.part(chosen), float(clip.attrs["max"])

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
        made_of = (functions[0], functions[3], functions[4])
        found = self.cell("LSTM", roles, made_of, state, memory=memory, memory_before=before)
        return None if found is None else _with_peepholes(found)

    def gru(self, node: Node) -> Cell | None:
        """h = (1 - z) * n + z * h', or the same with 1 - z in place of z, of which z * n is left if h' is zeros."""
        if not (is_a(node, Add) or is_a(node, Sub)):
            return None
        state = self.reader.all_rows(node.outputs[0])
        terms = self._terms(state, True)
        alone = [key[0] for key in terms or () if len(key) == 1]
        pairs = {key: factor for key, factor in (terms or {}).items() if len(key) == 2}
        if terms == dict.fromkeys(pairs, 1.0) and len(pairs) == 1:
            ((z, n),) = (sorted(key, key=self.is_new) for key in pairs)
            return self._gru(state, z, n, None, -1) if self.is_gate(z) and self.is_new(n) else None
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
        limited = [self.limited(v) for v in roles]
        sums = tuple(one for one, _ in limited if one is not None)
        known, limits = tuple(f for f in functions if f is not None), {limit for _, limit in limited}
        if len(sums) < len(roles) or len(known) < len(functions) or len(limits) > 1:
            return None
        made = tuple(v.name for v in roles)
        return Cell(kind, known, sums, made, state, memory, memory_before=memory_before, clip=limits.pop())

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


def _with_peepholes(cell: Cell) -> Cell | None:
    """An LSTM whose gates i and f may read the cell before the step, and o the one after it, element by element; None if
    they read it otherwise.
    """
    read = (cell.memory_before, cell.memory, cell.memory_before)
    matrices = [None if of is None else one.matrices.get(of) for one, of in zip(cell.sums, read, strict=False)]
    if any(m is not None and not np.array_equal(m, np.diag(np.diagonal(m))) for m in matrices):
        return None
    sums = (*(one.without(of) for one, of in zip(cell.sums, read, strict=False)), cell.sums[3])
    return replace(cell, sums=sums, peepholes=tuple(None if m is None else np.diagonal(m) for m in matrices))


def _key(*vectors: Vectors | None) -> tuple[Vectors, ...]:
    return tuple(sorted((v for v in vectors if v is not None), key=lambda v: (v.name, v.rows)))
