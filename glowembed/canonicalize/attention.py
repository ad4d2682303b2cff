"""Recognizes attention: MatMul, scale, mask, Softmax, MatMul become one op that computes one row of queries after
another.

In and out: Graphs. A scale is one constant for all elements, on the scores or before the queries and keys; masks are
added, or choose between scores and a forbidding constant, and are constants or computed. The values between the two products must have no other reader. Queries, keys and values become
tensors of tokens, so that the Transposes that split and join the heads cancel out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from functools import reduce
from typing import Any

import numpy as np

from glowembed.canonicalize.rewrite import constant, fresh, fresh_node, maker, only_reader, origins, replaced
from glowembed.graph.ir import Array, Const, Graph, Node, Shape, Value
from glowembed.graph.layout import permuted
from glowembed.graph.op import is_a
from glowembed.graph.registry import ops
from glowembed.nest.expr import constant as constant_expr
from glowembed.nest.expr import where
from glowembed.nest.program import Program, Recorder, Tensor
from glowembed.ops.add import Add
from glowembed.ops.affine import Affine
from glowembed.ops.layout import Transpose
from glowembed.ops.matmul import MatMul
from glowembed.ops.nest import Choice, params_of
from glowembed.ops.softmax import Softmax
from glowembed.records import dataclass

FORBIDDING = -88.7
"""A mask below this forbids a key, which then has at most 2^-128 of the largest probability."""

LOWEST = -1e30
"""The float that replaces minus infinity."""

FORBIDDEN = -355.0
"""The number that a computed choice adds to a forbidden score: about the least of the type of masks."""

RANKS = (2, 3, 4)

MOST_ELEMENTS = 2**24
"""The most elements of a matrix of scores; float32 counts integers up to it exactly."""


@dataclass(frozen=True)
class Computed:
    """A computed mask: numbers, or booleans, of which those equal to `allowed` allow a key."""

    name: str
    allowed: bool | None = None


@dataclass(frozen=True)
class Scores:
    """The product whose rows are the scores, the nodes between it and the Softmax, and what they compute: scale * s + mask
    and the computed masks, which are values that are added, or conditions that allow a key.
    """

    product: Node
    between: tuple[Node, ...]
    scale: float
    mask: Array
    computed: tuple[Computed, ...]


def attention(graph: Graph) -> Graph:
    """Replace each Softmax between two products of computed matrices by one Attention."""
    for node in graph.nodes:
        context = only_reader(graph, node.outputs[0], MatMul) if is_a(node, Softmax) else None
        if context is None:
            continue
        rows_first = context.inputs[0] == node.outputs[0]
        found = _between(graph, node, context) if rows_first else _between(*_turned(graph, node, context))
        if found is not None:
            return found
    return graph


def _turned(graph: Graph, softmax: Node, context: Node) -> tuple[Graph, Node, Node]:
    """The graph with the Transpose of p * v in place of v * p, where p are probabilities; networks of images have one column for
    each token.
    """
    y = graph.values[context.outputs[0]]
    rank = len(y.shape)
    rows = Value(fresh(graph, f"{y.name}/rows"), (*y.shape[:-2], y.shape[-1], y.shape[-2]))
    product = replace(context, inputs=context.inputs[::-1], outputs=(rows.name,))
    perm = {"perm": (*range(rank - 2), rank - 1, rank - 2)}
    back = Node(fresh_node(graph, f"{y.name}/turned"), "Transpose", (rows.name,), (y.name,), perm, context.origins)
    return replaced(graph, {context.name: [product, back]}, [rows]), softmax, product


def _between(graph: Graph, softmax: Node, context: Node) -> Graph | None:
    """The graph with an Attention in place of the Softmax, the product that reads it, and the product before it."""
    scores = _scores(graph, graph.producer(), softmax)
    if scores is None or not _is_full(graph, scores.product, context):
        return None
    batches, heads = _batches_and_heads(graph, scores.product)
    mask = _by_head(scores.mask, graph.values[softmax.inputs[0]].shape, batches, heads)
    if mask is None or not all(_fits(graph, one, scores.product, batches) for one in scores.computed):
        return None
    return _fused(graph, scores, softmax, context, (batches, heads), mask)


def _scores(graph: Graph, producer: Mapping[str, Node], softmax: Node) -> Scores | None:
    name, scale, between = softmax.inputs[0], 1.0, list[Node]()
    mask: Array = np.zeros(1)
    computed = list[Computed]()
    while name in producer and only_reader(graph, name) is not None:
        node = producer[name]
        if is_a(node, MatMul):
            return Scores(node, tuple(between), scale, mask, tuple(reversed(computed)))
        between.append(node)
        other = _computed(graph, producer, node) if scale > 0 else None
        if other is not None and (scale == 1.0 or other[1].allowed is not None):
            name, one = other
            computed.append(one)
            continue
        found = _scaled(graph, node) or _added(graph, node) or (_chosen(graph, node) if scale > 0 else None)
        if found is None:
            return None
        name, factor, shift = found
        scale, mask = scale * factor, mask + scale * shift
    return None


def _scaled(graph: Graph, node: Node) -> tuple[str, float, Array] | None:
    """The computed input of a scale and shift, or of arithmetic with one number, and both constants."""
    consts = [graph.values[name].const for name in node.inputs]
    if is_a(node, Affine):
        factors, shift = (const.materialize().astype(np.float64) for const in consts[1:] if const is not None)
        alike = (factors == factors[0]).all() and "act_min" not in node.attrs
        return (node.inputs[0], float(factors[0]), shift) if alike else None
    known = [const for const in consts if const is not None]
    if (
        ops()[node.op].dependence != "pair"
        or len(known) != 1
        or graph.values[node.inputs[consts.index(known[0])]].elements != 1
    ):
        return None
    vector = known[0].then("vector", lambda a: a.astype(np.float64).reshape(-1))
    scale, offset = (c.materialize() for c in ops()[node.op].scale_and_shift(vector, consts[0] is not None))
    return node.inputs[consts.index(None)], float(scale[0]), offset


def _added(graph: Graph, node: Node) -> tuple[str, float, Array] | None:
    """The computed input of an Add, the factor 1, and the constant that is added."""
    consts = [graph.values[name].const for name in node.inputs]
    known = [const for const in consts if const is not None]
    if not is_a(node, Add) or len(known) != 1:
        return None
    name = node.inputs[consts.index(None)]
    same = graph.values[name].shape == graph.values[node.outputs[0]].shape
    return (name, 1.0, known[0].materialize().astype(np.float64)) if same else None


def _chosen(graph: Graph, node: Node) -> tuple[str, float, Array] | None:
    """The computed input of a node that selects its elements or a forbidding constant, the factor 1, and the equivalent
    mask.

    The mask is found by running the node on numbers that are all different.
    """
    y = graph.values[node.outputs[0]]
    consts = [graph.values[name].const for name in node.inputs]
    if ops()[node.op].output_type != "shared" or consts.count(None) != 1 or y.elements > MOST_ELEMENTS:
        return None
    name = node.inputs[consts.index(None)]
    if graph.values[name].shape != y.shape or graph.values[name].plain:
        return None
    probe = np.arange(1, y.elements + 1, dtype=np.float32).reshape(y.shape)
    found = ops()[node.op].float_ref(node.attrs, [probe if c is None else c.materialize() for c in consts])[0]
    kept = found == probe
    return (name, 1.0, np.where(kept, 0.0, LOWEST)) if (kept | (found < FORBIDDING)).all() else None


def _computed(graph: Graph, producer: Mapping[str, Node], node: Node) -> tuple[str, Computed] | None:
    """The scores that a node reads and the computed mask that it adds to them, or by which it chooses them."""
    values, shape = graph.values, graph.values[node.outputs[0]].shape
    if is_a(node, Add):
        whole = [name for name in node.inputs if values[name].shape == shape and only_reader(graph, name) is node]
        name = next((name for name in whole if _is_score(graph, producer, name)), None)
        other = node.inputs[node.inputs[0] == name]
        if name is None or values[other].const is not None or other == name:
            return None
        return name, Computed(other)
    if not is_a(node, Choice) or node.attrs["onnx"] != "Where" or len(node.inputs) != 3:
        return None
    condition, *sides = node.inputs
    consts = [values[name].const for name in sides]
    if consts.count(None) != 1 or values[condition].dtype != "bool" or values[condition].const is not None:
        return None
    low = next(const for const in consts if const is not None).materialize()
    name = sides[consts.index(None)]
    same = values[name].shape == shape and (low < FORBIDDING).all()
    return (name, Computed(condition, consts[0] is None)) if same else None


def _is_score(graph: Graph, producer: Mapping[str, Node], name: str) -> bool:
    """Whether the value is a product of computed matrices, after arithmetic with it."""
    while name in producer and not is_a(producer[name], MatMul):
        node = producer[name]
        if not (is_a(node, Affine) or ops()[node.op].dependence == "pair" or is_a(node, Choice)):
            return False
        real = [x for x in node.inputs if not graph.values[x].plain and graph.values[x].const is None]
        name = real[0] if real else ""
    return name in producer


def _fits(graph: Graph, mask: Computed, product: Node, batches: int) -> bool:
    """Whether each row of the mask belongs to the same keys, and it has every batch."""
    shape, scores = graph.values[mask.name].shape, graph.values[product.outputs[0]].shape
    if not shape or shape[-1] != scores[-1] or graph.values[mask.name].qtype is not None:
        return False
    return batches == 1 or (len(shape) == len(scores) and shape[0] == scores[0])


def _is_full(graph: Graph, scores: Node, context: Node) -> bool:
    """Whether both products have the same batches and all three operands are computed."""
    names = (*scores.inputs, context.inputs[1])
    shapes = [graph.values[name].shape for name in names]
    computed = all(graph.values[name].const is None and graph.values[name].qtype is None for name in names)
    return computed and len(shapes[0]) in RANKS and len({shape[:-2] for shape in shapes}) == 1


def _batches_and_heads(graph: Graph, product: Node) -> tuple[int, int]:
    """The numbers of batches and heads. [B, H, T, d] has both; the first axis of [H, T, d] is heads if a Transpose made
    it, else batches.
    """
    shape = graph.values[product.outputs[0]].shape
    if len(shape) == 4:
        return shape[0], shape[1]
    if len(shape) == 2:
        return 1, 1
    return (1, shape[0]) if maker(graph, product.inputs[0], Transpose) is not None else (shape[0], 1)


def _by_head(mask: Array, shape: Shape, batches: int, heads: int) -> Array | None:
    """The mask as [1 or H, 1 or T, S]; None if it differs between batches."""
    full = np.broadcast_to(mask, (*np.broadcast_shapes(mask.shape, (1,) * len(shape))[:-1], shape[-1]))
    lead = full.shape[:-2]
    if len(lead) == 2:
        return full[0] if (full == full[:1]).all() else None
    if lead in ((), (1,)) or batches == 1:
        return full.reshape(-1, *full.shape[-2:])
    return full[:1] if (full == full[:1]).all() else None


def _triangle(mask: Array, shape: Shape) -> int | None:
    """How many keys beyond its own index a query attends to, if the mask means nothing else; the number of all keys if
    it adds the same to each.
    """
    queries, keys = shape[-2:]
    if (mask == mask[..., :1]).all() and (mask > FORBIDDING).all():
        return keys
    forbidden = mask < FORBIDDING
    for ahead in sorted({0, keys - queries}):
        beyond = np.arange(keys) > np.arange(queries)[:, None] + ahead
        if mask.shape[1] == queries and (forbidden == beyond).all() and not mask[~forbidden].any():
            return ahead
    return None


def _fused(
    graph: Graph, scores: Scores, softmax: Node, context: Node, split: tuple[int, int], mask: Array
) -> Graph:  # fmt: skip
    shape = graph.values[context.outputs[0]].shape
    made = _Made(graph, origins(scores.product, *scores.between, softmax, context), *split)
    inputs = [made.tokens(name, False) for name in scores.product.inputs] + [made.tokens(context.inputs[1], True)]
    width = graph.values[softmax.inputs[0]].shape
    ahead, parts = _triangle(mask, width), [made.mask(one) for one in scores.computed]
    if ahead is None:
        stored = constant(graph, f"{softmax.inputs[0]}/mask", Const(np.maximum(mask, LOWEST).astype(np.float32)))
        made.values.append(stored)
        parts.append(stored.name)
    if parts:
        inputs.append(reduce(made.sum, parts))
    attrs = {"heads": split[1], "scale": scores.scale, "ahead": width[-1] if ahead is None else ahead}
    made.attend(inputs, attrs, context.outputs[0], shape)
    gone: dict[str, list[Node]] = {node.name: [] for node in (scores.product, *scores.between, softmax)}
    return replaced(graph, {**gone, context.name: made.nodes}, made.values)


def _chosen_by(shape: Shape, yes: float, no: float) -> Program:
    """One number where a boolean is true, and another where it is false."""
    k, x, y = Recorder(), Tensor("x0", shape, "bool"), Tensor("y0", shape, "float32")
    with k.each(shape) as at:
        k.store(y, at, where(x[at], constant_expr(yes, "float32"), constant_expr(no, "float32")))
    return Program((x,), y, tuple(k.temporaries), tuple(k.body))


@dataclass
class _Made:
    """The nodes and values that replace an attention."""

    graph: Graph
    origins: tuple[str, ...]
    batches: int
    heads: int
    nodes: list[Node] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)

    def add(self, op: str, x: Sequence[str], attrs: Mapping[str, Any], wanted: str, shape: Shape) -> str:
        """Add a node that makes a new value."""
        taken = {value.name for value in self.values}
        name = fresh(self.graph, wanted)
        while name in taken:
            name = fresh(self.graph, f"{name}'")
        self.values.append(Value(name, shape))
        self.node(op, x, attrs, name)
        return name

    def node(self, op: str, x: Sequence[str], attrs: Mapping[str, Any], output: str) -> None:
        """Add a node that makes this value."""
        self.nodes.append(Node(fresh_node(self.graph, output), op, tuple(x), (output,), attrs, self.origins))

    def tokens(self, name: str, turned: bool) -> str:
        """A tensor [B, H, T, d], or [B, H, d, T] if `turned`, as [B, T, H * d]."""
        full = (self.batches, self.heads, *self.graph.values[name].shape[-2:])
        x = self.add("Reshape", [name], {"shape": full}, f"{name}/heads", full)
        perm = (0, 3, 1, 2) if turned else (0, 2, 1, 3)
        split = permuted(full, perm)
        x = self.add("Transpose", [x], {"perm": perm}, f"{name}/tokens_by_head", split)
        joined = (*split[:2], split[2] * split[3])
        return self.add("Reshape", [x], {"shape": joined}, f"{name}/tokens", joined)

    def mask(self, one: Computed) -> str:
        """A computed mask as numbers, [B, 1 or H, 1 or T, S]."""
        name, shape = one.name, self.graph.values[one.name].shape
        if one.allowed is not None:
            added = (0.0, FORBIDDEN) if one.allowed else (FORBIDDEN, 0.0)
            attrs = {"onnx": "Where", "params": params_of(_chosen_by(shape, *added))}
            name = self.add(Choice.name, [name], attrs, f"{name}/mask", shape)
        full = (
            (self.batches, shape[0] // self.batches, *shape[1:])
            if len(shape) == 3
            else (*(1,) * (4 - len(shape)), *shape)
        )
        return name if full == shape else self.add("Reshape", [name], {"shape": full}, f"{name}/by_head", full)

    def sum(self, first: str, second: str) -> str:
        """The sum of two masks."""
        shapes = [
            next((v.shape for v in self.values if v.name == x), ()) or self.graph.values[x].shape
            for x in (first, second)
        ]
        return self.add(Add.name, [first, second], {}, f"{first}/sum", np.broadcast_shapes(*shapes))

    def attend(self, inputs: Sequence[str], attrs: Mapping[str, Any], y: str, shape: Shape) -> None:
        """Add the Attention and bring its output into the shape of the product that it replaces."""
        queries, width = shape[-2:]
        joined = (self.batches, queries, self.heads * width)
        x = self.add("Attention", inputs, attrs, f"{y}/tokens", joined)
        split = (self.batches, queries, self.heads, width)
        x = self.add("Reshape", [x], {"shape": split}, f"{y}/tokens_by_head", split)
        full = (self.batches, self.heads, queries, width)
        x = self.add("Transpose", [x], {"perm": (0, 2, 1, 3)}, f"{y}/heads", full)
        self.node("Reshape", [x], {"shape": shape}, y)
