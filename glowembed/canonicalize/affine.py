"""Turns arithmetic with constants into scales and shifts (Affine), merges these, and folds them into the weights before
them.

In and out: Graphs. All folding is in float64 on delayed constants.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from glowembed.canonicalize.rewrite import bypassed, constant, fresh, fresh_node, only_reader, origins, replaced
from glowembed.graph.ir import Array, Graph, Node, Value
from glowembed.graph.op import is_a
from glowembed.graph.registry import ops
from glowembed.ops.affine import Affine
from glowembed.ops.concat import Concat


def binary_to_affine(graph: Graph) -> Graph:
    """Rewrite Add, Sub or Mul of a tensor and a constant that is a scalar or has one value for each index of the last
    axis as an Affine.
    """
    for node in graph.nodes:
        if ops()[node.op].dependence != "pair":
            continue
        known = [graph.values[name].const is not None for name in node.inputs]
        if known.count(True) != 1:
            continue
        factor = graph.values[node.inputs[known.index(True)]]
        data = graph.values[node.inputs[known.index(False)]]
        if graph.law in ops()[node.op].rounds_operands and factor.const is not None and factor.const.grid is not None:
            continue
        if graph.values[node.outputs[0]].shape != data.shape or factor.elements > max((1, *factor.shape[-1:])):
            continue
        return _as_affine(graph, node, data, factor, reverse=known[0])
    return graph


def _as_affine(graph: Graph, node: Node, data: Value, factor: Value, reverse: bool) -> Graph:
    assert factor.const is not None
    output = node.outputs[0]
    vector = factor.const.then("vector", lambda a: np.asarray(a, dtype=np.float64).reshape(-1))
    scale, shift = ops()[node.op].scale_and_shift(vector, reverse)
    a = constant(graph, f"{factor.name}/scale_of_{output}", scale)
    c = constant(graph, f"{factor.name}/shift_of_{output}", shift)
    attrs = {**node.attrs, "per_channel": int(factor.elements > 1)}
    affine = replace(node, op="Affine", inputs=(data.name, a.name, c.name), attrs=attrs)
    return replaced(graph, {node.name: [affine]}, [a, c])


def merge_affine(graph: Graph) -> Graph:
    """Merge two Affines: (x * a + c) * b + d becomes x * ab + (cb + d)."""
    for first in graph.nodes:
        second = _foldable(graph, first) if is_a(first, Affine) else None
        if second is None:
            continue
        (a, _), (b, d) = (_vectors(graph, node) for node in (first, second))
        names = [f"{name}/{second.name}" for name in first.inputs[1:]]
        scale = _combined(
            graph, names[0], first.inputs[1], "merge_affine", lambda x, b=b, a=a: x * b * np.ones_like(a * b)
        )
        shift = _combined(
            graph, names[1], first.inputs[2], "merge_affine", lambda x, b=b, d=d, a=a: (x * b + d) * np.ones_like(a * b)
        )
        attrs = {**first.attrs, **second.attrs, "per_channel": first.attrs["per_channel"] | second.attrs["per_channel"]}
        merged = replace(
            second,
            inputs=(first.inputs[0], scale.name, shift.name),
            attrs=attrs,
            name=first.name,
            origins=origins(first, second),
        )
        return replaced(graph, {first.name: [], second.name: [merged]}, [scale, shift])
    return graph


def affine_into_weights(graph: Graph) -> Graph:
    """Fold an Affine into the Conv or Gemm before it by scaling the rows of the weights and scaling and shifting the
    bias.
    """
    for linear in graph.nodes:
        affine = _foldable(graph, linear) if ops()[linear.op].dependence == "sum" else None
        if affine is None:
            continue
        scale, _ = _vectors(graph, affine)
        rows = graph.values[linear.inputs[1]].shape[0]
        weights = _combined(
            graph, f"{linear.inputs[1]}/{affine.name}", linear.inputs[1], "fold_scale", _scaled_rows(scale)
        )
        bias = _shifted_bias(graph, linear, affine, rows)
        attrs = {**linear.attrs, **{key: value for key, value in affine.attrs.items() if key != "per_channel"}}
        folded = replace(
            linear, inputs=(linear.inputs[0], weights.name, bias.name), outputs=affine.outputs, attrs=attrs,
            origins=origins(linear, affine),
        )  # fmt: skip
        return replaced(graph, {linear.name: [folded], affine.name: []}, [weights, bias])
    return graph


def affine_before_concat(graph: Graph) -> Graph:
    """Scale the parts of a Concat along channels instead of the whole, if a Conv or Gemm makes one of them and takes its scale and
    shift into its weights. Then the parts, whose ranges may differ much, share one scale only after that.
    """
    for concat in graph.nodes:
        affine = only_reader(graph, concat.outputs[0], Affine) if is_a(concat, Concat) else None
        parts = [graph.values[name] for name in concat.inputs]
        if affine is None or concat.attrs["axis"] != len(parts[0].shape) - 1 or any(p.const is not None for p in parts):
            continue
        makers = [graph.producer().get(part.name) for part in parts]
        if any(node is not None and _takes_scale(graph, node) for node in makers):
            return _by_part(graph, concat, affine, parts)
    return graph


def _takes_scale(graph: Graph, node: Node) -> bool:
    """Whether an Affine that becomes the only reader of the node is folded into it."""
    free = "act_min" not in node.attrs and "act_max" not in node.attrs
    return ops()[node.op].dependence == "sum" and free and only_reader(graph, node.outputs[0]) is not None


def _by_part(graph: Graph, concat: Node, affine: Node, parts: Sequence[Value]) -> Graph:
    nodes, values, first = list[Node](), list[Value](), 0
    for i, part in enumerate(parts):
        last, y = first + part.shape[-1], f"{affine.outputs[0]}/part{i}"
        cut = slice(first, last) if affine.attrs["per_channel"] else slice(None)
        constants = [
            _combined(graph, f"{name}/part{i}", name, f"{first}:{last}", lambda a, c=cut: a[c])
            for name in affine.inputs[1:]
        ]
        values += [Value(fresh(graph, y), part.shape), *constants]
        inputs = (part.name, *(constant.name for constant in constants))
        name = fresh_node(graph, f"{affine.name}/part{i}")
        nodes.append(replace(affine, name=name, inputs=inputs, outputs=(fresh(graph, y),)))
        first = last
    joined = replace(
        concat, inputs=tuple(node.outputs[0] for node in nodes), outputs=affine.outputs, origins=origins(concat, affine)
    )
    return replaced(graph, {concat.name: [], affine.name: [*nodes, joined]}, values)


def _shifted_bias(graph: Graph, linear: Node, affine: Node, rows: int) -> Value:
    """bias * scale + shift. If the bias is zero, it is the shift itself, which may have a grid of integers."""
    name, source = f"{linear.inputs[2]}/{affine.name}", linear.inputs[2]
    scale, shift = _vectors(graph, affine)
    bias = graph.const(source)
    if bias is not None and not bias.materialize().any():
        return _combined(graph, name, affine.inputs[2], "bias", lambda s: np.broadcast_to(s, (rows,)))
    return _combined(graph, name, source, "fold_scale_and_shift", lambda b: np.broadcast_to(b * scale + shift, (rows,)))


def identity_affine(graph: Graph) -> Graph:
    """Remove an Affine that computes x * 1 + 0 without a clip."""
    for node in graph.nodes:
        if not is_a(node, Affine) or "act_min" in node.attrs or "act_max" in node.attrs:
            continue
        scale, shift = _vectors(graph, node)
        if (scale == 1).all() and (shift == 0).all() and (result := bypassed(graph, node)) is not None:
            return result
    return graph


def _foldable(graph: Graph, first: Node) -> Node | None:
    """The Affine that is the only reader of the output of `first`, which must have no clip of its own; else None."""
    if "act_min" in first.attrs or "act_max" in first.attrs:
        return None
    return only_reader(graph, first.outputs[0], Affine)


def _vectors(graph: Graph, affine: Node) -> tuple[Array, Array]:
    """The scale and shift in float64."""
    found = []
    for name in affine.inputs[1:]:
        const = graph.const(name)
        assert const is not None, name
        found.append(const.materialize().astype(np.float64))
    return found[0], found[1]


def _scaled_rows(scale: Array) -> Callable[[Array], Array]:
    return lambda w: w * scale.reshape(-1, *[1] * (w.ndim - 1))


def _combined(graph: Graph, name: str, source: str, step: str, function: Callable[..., Any]) -> Value:
    """A constant derived from `source` by a function on float64."""
    const = graph.const(source)
    assert const is not None, source
    return constant(graph, name, const.then(step, lambda array: function(array.astype(np.float64))))
