"""Rolls up recurrent layers that are written out step by step: LSTM, GRU and RNN, as some exporters write them.

In and out: Graphs. Steps belong together if each reads the state that the one before it made, with the same weights.
They become one op over a sequence, which reads the inputs of the steps as they lie, or joined by a Concat; every state
that something else reads is a part of its output. Nothing changes if other values of the steps are read, or if an input
depends on a state. Layers on top of each other are rolled up one after the other.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any

import numpy as np

from glowembed.canonicalize.cells import FEWEST, Cell, cells
from glowembed.canonicalize.products import Reader, Vectors
from glowembed.canonicalize.rewrite import constant, fresh, fresh_node, origins, remove_dead, replaced
from glowembed.graph.ir import Array, Const, Graph, Node, Shape, Value
from glowembed.graph.layout import permuted
from glowembed.graph.op import is_a
from glowembed.graph.registry import ops
from glowembed.ops.concat import Concat
from glowembed.ops.recurrent import Recurrent
from glowembed.records import dataclass


@dataclass(frozen=True, eq=False)
class Chain:
    """Steps in the order in which they run, their inputs, and the states before the first one; None for zeros."""

    steps: tuple[Cell, ...]
    inputs: tuple[Vectors, ...]
    before: Vectors | None
    weights: tuple[tuple[Array | None, ...], tuple[Array | None, ...]]
    """for each sum of the gates, the matrices of the input and of the state"""

    @property
    def last(self) -> Cell:
        return self.steps[-1]

    @property
    def sizes(self) -> tuple[int, int]:
        """The numbers of samples and units."""
        return len(self.last.state.rows), len(self.last.sums[0].bias)


def rolled(graph: Graph) -> Graph:
    """Replace the steps of one layer by one op."""
    found = list(cells(graph))
    by_state = {cell.state: cell for cell in found}
    chains, used = list[Chain](), set[Vectors]()
    for cell in reversed(found):
        chain = None if cell.state in used else _chain(cell, by_state)
        if chain is not None:
            chains.append(chain)
            used.update(step.state for step in chain.steps)
    for chain in sorted(chains, key=lambda c: found.index(c.steps[0])):
        for result in ("last", "all"):
            made = _replaced(graph, chain, result)
            if made is not None:
                return made
    return graph


def stacked(graph: Graph) -> Graph:
    """Replace a Concat of all states of a layer, as vectors or as one vector, by a Reshape of them, with a Transpose if the
    samples are the first axis.
    """
    reader = Reader(graph)
    for node in graph.nodes:
        found = reader.stacked(node) if is_a(node, Concat) else None
        maker = None if found is None else reader.maker(found)
        if found is None or maker is None or not isinstance(ops()[maker.op], Recurrent):
            continue
        source, y = graph.values[found.name], graph.values[node.outputs[0]]
        numbers = np.arange(source.elements // source.shape[-1]).reshape(source.shape[:-1])
        reshape = Node(node.name, "Reshape", (found.name,), node.outputs, {"shape": y.shape}, node.origins)
        if found.rows == tuple(numbers.reshape(-1).tolist()):
            return replaced(graph, {node.name: [reshape]})
        if found.rows == tuple(numbers.T.reshape(-1).tolist()):
            turned = Value(fresh(graph, f"{y.name}/turned"), permuted(source.shape, (1, 0, 2)))
            turn = Node(fresh_node(graph, turned.name), "Transpose", (found.name,), (turned.name,), {"perm": (1, 0, 2)}, node.origins)  # fmt: skip
            return replaced(graph, {node.name: [turn, replace(reshape, inputs=(turned.name,))]}, [turned])
    return graph


def _chain(last: Cell, by_state: Mapping[Vectors, Cell]) -> Chain | None:
    """The longest chain of steps that ends with this one; None for a step by itself."""
    if len(last.sources) != 2:
        return None
    for before, given in (last.sources, last.sources[::-1]):
        weights = last.matrices(given), last.matrices(before)
        steps, inputs, at = [last], [given], None if last.mixes and last.before != before else before
        while at is not None and (cell := by_state.get(at)) is not None:
            sources = _sources(cell, last, weights)
            if sources is None or cell.form != last.form or cell.memory != steps[0].memory_before:
                break
            steps.insert(0, cell)
            inputs.insert(0, sources[0])
            at = sources[1]
        begin = [v for v in (at, steps[0].memory_before) if v is not None]
        if len(steps) >= FEWEST and all(_are_even(v.rows) for v in (*inputs, *begin)):
            return Chain(tuple(steps), tuple(inputs), at, weights)
    return None


def _sources(
    cell: Cell, other: Cell, weights: tuple[tuple[Array | None, ...], ...]
) -> tuple[Vectors, Vectors | None] | None:
    """The input of a step and the state before it, None for zeros; None if the weights are not those of the other step."""
    if len(cell.sums) != len(other.sums) or not _equal([s.bias for s in cell.sums], [s.bias for s in other.sums]):
        return None
    given = next((v for v in cell.sources if _equal(cell.matrices(v), weights[0])), None)
    states = [v for v in cell.sources if v != given and _equal(cell.matrices(v), weights[1])]
    if given is None or len(cell.sources) != 1 + len(states) or not _same_peepholes(cell, other):
        return None
    state = states[0] if states else None
    return (given, state) if not cell.mixes or cell.before == state else None


def _same_peepholes(cell: Cell, other: Cell) -> bool:
    """Whether two steps read the cell alike. A cell of zeros before a step is not read by its gates i and f."""
    seen = slice(1, 2) if None in (cell.memory_before, other.memory_before) else slice(3)
    return _equal(cell.peepholes[seen], other.peepholes[seen])


def _are_even(rows: Sequence[int]) -> bool:
    """Whether the rows are equally spaced."""
    return len(set(np.diff(rows).tolist())) <= 1


def _equal(a: Sequence[Array | None], b: Sequence[Array | None]) -> bool:
    pairs = zip(a, b, strict=True)
    return all(x is y if x is None or y is None else np.array_equal(x, y) for x, y in pairs)


def _replaced(graph: Graph, chain: Chain, result: str) -> Graph | None:
    """The graph with one op for all steps; None if something of them is still read, or depends on them."""
    made = _Made(graph, Reader(graph), chain)
    producer = graph.producer()
    made.roll(result)
    gone = {producer[name] for name in made.replaced}
    old = {producer[name] for step in chain.steps for name in step.activations}
    begin = min(i for i, node in enumerate(graph.nodes) if node in gone)
    rest = [node for node in graph.nodes if node not in gone]
    nodes = _ordered([*rest[:begin], *made.nodes, *rest[begin:]])
    if nodes is None:
        return None
    found = remove_dead(graph.with_nodes(nodes, made.values))
    return None if old.intersection(found.nodes) else found


def _ordered(nodes: Sequence[Node]) -> Sequence[Node] | None:
    """The nodes in an order of execution that differs little from the given one; None if there is none."""
    makers = {name: i for i, node in enumerate(nodes) for name in node.outputs}
    waits = [{makers[name] for name in node.inputs if name in makers} for node in nodes]
    readers: list[list[int]] = [[] for _ in nodes]
    for i, sources in enumerate(waits):
        for source in sources:
            readers[source].append(i)
    ready, order = [i for i, sources in enumerate(waits) if not sources], list[Node]()
    while ready:
        i = heapq.heappop(ready)
        order.append(nodes[i])
        for reader in readers[i]:
            waits[reader].discard(i)
            if not waits[reader]:
                heapq.heappush(ready, reader)
    return order if len(order) == len(nodes) else None


@dataclass
class _Made:
    """The nodes and values that replace a chain, and the names of the values that they make in place of the old nodes."""

    graph: Graph
    reader: Reader
    chain: Chain
    nodes: list[Node] = field(default_factory=list)
    values: dict[str, Value] = field(default_factory=dict)
    replaced: list[str] = field(default_factory=list)

    def roll(self, result: str) -> None:
        """Add the op, and the states and the cell that others may read."""
        last, (batch, hidden) = self.chain.last, self.chain.sizes
        x, first, reverse = self.sequence()
        given = {"h": self.state(self.chain.before), "c": self.state(self.chain.steps[0].memory_before)}
        peepholes = [np.zeros(hidden, np.float32) if p is None else p for p in last.peepholes]
        if any(p is not None for p in last.peepholes):
            given["P"] = self.constant("peepholes", np.concatenate(peepholes))
        present = {key: name for key, name in given.items() if name is not None}
        inputs = [x, *self.weights(), *present.values()]
        attrs = {
            "kind": last.kind, "onnx": last.kind, "functions": last.functions, "reverse": reverse, "batch_first": first,
            "result": result, "lengths": (), "given": tuple(present), "clip": last.clip, "input_forget": 0,
            "linear_before_reset": last.linear_before_reset,
        }  # fmt: skip
        steps = len(self.chain.steps)
        shapes = {"all": (batch, steps, hidden) if first else (steps, batch, hidden)}
        one = (batch, 1, hidden) if first else (1, batch, hidden)
        y = self.add(last.kind, inputs, attrs, "states", shapes.get(result, one))
        for i, step in enumerate(self.chain.steps):
            at = steps - 1 - i if reverse else i
            if result == "all":
                starts = (0, at, 0) if first else (at, 0, 0)
                cut = {"starts": starts, "steps": (1, 1, 1), "sizes": one}
                self.instead(self.add("Slice", [y], cut, f"state{i}", one), step.state.name)
        if result == "last":
            self.instead(y, last.state.name)
        if last.memory is not None:
            memory = self.add("LSTMMemory", inputs, {**attrs, "result": "cell"}, "cell", one)
            self.instead(memory, last.memory.name)

    def add(self, op: str, inputs: Sequence[str], attrs: Mapping[str, Any], role: str, shape: Shape) -> str:
        """Add a node that makes a new value."""
        name = fresh(self.graph, f"{self.chain.last.state.name}/{role}")
        while name in self.values:
            name = fresh(self.graph, f"{name}'")
        self.values[name] = Value(name, shape)
        self.node(op, inputs, attrs, name)
        return name

    def node(self, op: str, inputs: Sequence[str], attrs: Mapping[str, Any], output: str) -> None:
        producer = self.graph.producer()
        came = origins(*(producer[step.state.name] for step in self.chain.steps))
        self.nodes.append(Node(fresh_node(self.graph, output), op, tuple(inputs), (output,), attrs, came))

    def instead(self, made: str, name: str) -> None:
        """Make this value of the graph a Reshape of what was made."""
        self.replaced.append(name)
        self.node("Reshape", [made], {"shape": self.graph.values[name].shape}, name)

    def constant(self, role: str, array: Array) -> str:
        value = constant(self.graph, f"{self.chain.last.state.name}/{role}", Const(array.astype(np.float32)))
        self.values[value.name] = value
        return value.name

    def weights(self) -> list[str]:
        """W, R and both biases. A GRU that multiplies a product by its reset gate has a second bias."""
        (given, state), sums = self.chain.weights, self.chain.last.sums
        order = range(3 if self.chain.last.linear_before_reset else len(sums))
        w, r = ([self.matrix(of, i) for i in order] for of in (given, state))
        bias = [sums[i].bias for i in order]
        second = [np.zeros_like(b) for b in bias]
        if self.chain.last.linear_before_reset:
            r[2], second[2] = self.matrix(state, 3), sums[3].bias
        arrays = {"W": w, "R": r, "bias_of_input": bias, "bias_of_state": second}
        return [self.constant(role, np.concatenate(parts)) for role, parts in arrays.items()]

    def matrix(self, of: Sequence[Array | None], i: int) -> Array:
        """The weights of a gate, which are zeros if it does not read these vectors."""
        columns = next(m.shape[1] for m in of if m is not None)
        found = of[i]
        return np.zeros((self.chain.sizes[1], columns), np.float32) if found is None else found

    def state(self, vectors: Vectors | None) -> str | None:
        """A state before the first step, as [samples, units]."""
        return None if vectors is None else self.rows(vectors, "before")

    def rows(self, vectors: Vectors, role: str) -> str:
        """Equally spaced rows of a value, as [rows, features]."""
        width, every = self.reader.width(vectors.name), len(self.reader.all_rows(vectors.name).rows)
        name = self.add("Reshape", [vectors.name], {"shape": (every, width)}, role, (every, width))
        step = vectors.rows[1] - vectors.rows[0] if len(vectors.rows) > 1 else 1
        if vectors.rows == tuple(range(every)):
            return name
        size = (len(vectors.rows), width)
        return self.add(
            "Slice", [name], {"starts": (vectors.rows[0], 0), "steps": (step, 1), "sizes": size}, role, size
        )

    def sequence(self) -> tuple[str, bool, bool]:
        """The inputs of all steps, whether their first axis is that of the samples, and whether the last step is first."""
        chain, (batch, _) = self.chain, self.chain.sizes
        steps, width = len(chain.steps), self.reader.width(chain.inputs[0].name)
        names, taken = {v.name for v in chain.inputs}, np.asarray([v.rows for v in chain.inputs])
        every = np.arange(steps * batch)
        if len(names) == 1 and self.graph.values[chain.inputs[0].name].elements == steps * batch * width:
            for first in (False, True):
                shape = (batch, steps, width) if first else (steps, batch, width)
                by_step = every.reshape(shape[:2]).T if first else every.reshape(shape[:2])
                for reverse in (False, True):
                    if np.array_equal(taken, by_step[::-1] if reverse else by_step):
                        x = self.add("Reshape", [chain.inputs[0].name], {"shape": shape}, "inputs", shape)
                        return x, first, reverse
        shape = (1, batch, width)
        each = [self.add("Reshape", [self.rows(v, "rows")], {"shape": shape}, "step", shape) for v in chain.inputs]
        return self.add("Concat", each, {"axis": 0}, "inputs", (steps, batch, width)), False, False
