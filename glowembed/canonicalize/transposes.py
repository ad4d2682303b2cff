"""Merges and cancels Transposes, pushes them towards the outputs, and pulls the remaining ones to the inputs.

In and out: Graphs. T(perm) is a Transpose: output axis i is input axis perm[i].
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from glowembed.canonicalize.rewrite import (
    bypassed,
    constant,
    fresh,
    fresh_node,
    maker,
    only_reader,
    origins,
    replaced,
)
from glowembed.graph.ir import Graph, Node, Shape, Value
from glowembed.graph.layout import Perm, compose, inverse, is_identity, name_permuted, permuted
from glowembed.graph.op import is_a
from glowembed.graph.registry import ops
from glowembed.graph.spatial import channels_first
from glowembed.ops.layout import Reshape, Transpose


def cancel_transposes(graph: Graph) -> Graph:
    """Merge T(a), T(b) into one Transpose of the source, and remove identities."""
    if (result := _without_identities(graph)) is not graph:
        return result
    changes: dict[str, list[Node]] = {}
    for node in graph.nodes:
        before = maker(graph, node.inputs[0], Transpose) if is_a(node, Transpose) else None
        if before is not None:
            perm = compose(before.attrs["perm"], node.attrs["perm"])
            changes[node.name] = [
                replace(node, inputs=before.inputs, attrs={"perm": perm}, origins=origins(before, node))
            ]
    if changes:
        return replaced(graph, changes)
    twins = (_twin(graph, node) for node in graph.nodes if is_a(node, Transpose))
    return next((twin for twin in twins if twin is not None), graph)


def _without_identities(graph: Graph) -> Graph:
    """The graph without the Transposes that move nothing, except those that connect an input to an output of the
    model.
    """
    found = [node for node in graph.nodes if is_a(node, Transpose) and is_identity(node.attrs["perm"])]
    inner = {node.name for node in found if node.outputs[0] not in graph.outputs}
    if inner:
        sources: dict[str, str] = {}
        for node in graph.nodes:
            if node.name in inner:
                sources[node.outputs[0]] = sources.get(node.inputs[0], node.inputs[0])
        return graph.with_nodes(node.reading(sources) for node in graph.nodes if node.name not in inner)
    results = (bypassed(graph, node) for node in found)
    return next((result for result in results if result is not None), graph)


def _twin(graph: Graph, node: Node) -> Graph | None:
    """If a value is transposed twice in the same way, let all readers use the first Transpose."""
    for other in graph.consumers()[node.inputs[0]]:
        if other is node or node.outputs[0] in graph.outputs:
            return None
        if is_a(other, Transpose) and other.inputs == node.inputs and other.attrs["perm"] == node.attrs["perm"]:
            same = {node.outputs[0]: other.outputs[0]}
            return graph.with_nodes(n.reading(same) for n in graph.nodes if n is not node)
    return None


def sink_transpose(graph: Graph) -> Graph:
    """Rewrite T(perm), op as op', T(perm). Constants of ops with several inputs are permuted together with the data."""
    producer = graph.producer()
    changes: dict[str, list[Node]] = {}
    values: dict[str, Value] = {}
    for node in graph.nodes:
        perm = _common_perm(graph, node)
        if perm is None:
            continue
        attrs = ops()[node.op].permute(node.attrs, perm)
        if attrs is None:
            continue
        sources = {n: producer[n] for n in node.inputs if n in producer}
        moved = _moved(graph, node, perm, attrs, sources)
        if moved is None or any(value.name in values for value in moved[1]):
            continue  # two nodes would make values of the same name; the second one moves in the next pass
        changes[node.name] = moved[0]
        values |= {value.name: value for value in moved[1]}
    return replaced(graph, changes, list(values.values())) if changes else graph


def _common_perm(graph: Graph, node: Node) -> Perm | None:
    """The perm that the Transposes before all computed inputs of `node` share."""
    perms = set()
    if is_a(node, Transpose) or len(node.outputs) != 1:
        return None
    for name in node.inputs:
        if graph.values[name].const is not None:
            continue
        source = maker(graph, name, Transpose)
        if source is None:
            return None
        perms.add(tuple(source.attrs["perm"]))
    return perms.pop() if len(perms) == 1 else None


def _moved(
    graph: Graph, node: Node, perm: Perm, attrs: Mapping[str, Any], sources: Mapping[str, Node]
) -> tuple[list[Node], list[Value]] | None:
    """`node` on untransposed inputs, followed by T(perm), and the new values; None if the shapes show that the result
    would differ.
    """
    back = inverse(perm)
    constants = _permuted_constants(graph, node, back)
    if constants is None:
        return None
    output = graph.values[node.outputs[0]]
    inputs = [constants[n].name if n in constants else sources[n].inputs[0] if n in sources else n for n in node.inputs]
    known = {**graph.values, **{value.name: value for value in constants.values()}}
    shape = ops()[node.op].infer(attrs, [known[name].shape for name in inputs])[0]
    if len(shape) != len(perm) or permuted(shape, perm) != output.shape:
        return None
    inner = _permuted_value(graph, output, back)
    moved = replace(node, inputs=tuple(inputs), outputs=(inner.name,), attrs=attrs)
    name = fresh_node(graph, f"{node.name}/transpose")
    after = Node(name, "Transpose", (inner.name,), (output.name,), {"perm": perm}, origins(*sources.values()))
    return [moved, after], [*constants.values(), inner]


def _permuted_value(graph: Graph, value: Value, perm: Perm) -> Value:
    name, layout = name_permuted(value, perm)
    return replace(value, name=fresh(graph, name), shape=permuted(value.shape, perm), layout=layout)


def _permuted_constants(graph: Graph, node: Node, perm: Perm) -> dict[str, Value] | None:
    """The constants of an elementwise op with their axes in the order `perm`; scalars and vectors of weights are
    unchanged.

    A constant of lower rank first gets leading axes of size 1, as in broadcasting. Returns None if a constant cannot be
    permuted.
    """
    result: dict[str, Value] = {}
    for name in node.inputs:
        value = graph.values[name]
        if value.const is None or ops()[node.op].has_weights or value.elements == 1:
            continue
        if len(value.shape) > len(perm):
            return None
        full = (1,) * (len(perm) - len(value.shape)) + value.shape
        step = f"transpose({','.join(map(str, perm))})"
        const = value.const.then(step, lambda a, full=full: np.transpose(a.reshape(full), perm))
        wanted, layout = name_permuted(value, perm)
        result[name] = replace(constant(graph, wanted, const), layout=layout)
    return result


def sink_transpose_through_reshape(graph: Graph) -> Graph:
    """Rewrite T, Reshape as Reshape, T if the Reshape splits and merges only axes that T keeps side by side; or as T', Reshape, T'' if T''
    is that of channels-first images, which most probably cancels.
    """
    for node in graph.nodes:
        before = maker(graph, node.inputs[0], Transpose) if is_a(node, Reshape) else None
        if before is None:
            continue
        source, target = graph.values[before.inputs[0]], graph.values[node.outputs[0]]
        first = _perm_in_front(source.shape, before.attrs["perm"], target.shape)
        if first is None:
            continue
        rest = compose(inverse(first), before.attrs["perm"])
        perm = _perm_behind(permuted(source.shape, first), rest, target.shape)
        moves = not is_identity(first)
        if perm is None or is_identity(perm) or (moves and perm != channels_first(len(perm))):
            continue
        inner = _permuted_value(graph, target, inverse(perm))
        made = [inner]
        nodes = list[Node]()
        if moves:
            made.append(_permuted_value(graph, source, first))
            name = fresh_node(graph, f"{node.name}/within")
            nodes.append(replace(before, name=name, outputs=(made[-1].name,), attrs={"perm": first}))
        inputs = (made[-1].name,) if moves else (source.name,)
        merged = origins(before, node)
        nodes.append(replace(node, inputs=inputs, outputs=(inner.name,), attrs={"shape": inner.shape}, origins=merged))
        name = fresh_node(graph, f"{node.name}/transpose")
        nodes.append(Node(name, "Transpose", (inner.name,), (target.name,), {"perm": perm}, merged))
        return replaced(graph, {node.name: nodes}, made)
    return graph


def merge_transposes_around_reshape(graph: Graph) -> Graph:
    """Rewrite T, Reshape, T as T, Reshape where the last one can move in front of the Reshape."""
    for node in graph.nodes:
        reshape = maker(graph, node.inputs[0], Reshape) if is_a(node, Transpose) else None
        before = maker(graph, reshape.inputs[0], Transpose) if reshape is not None else None
        if reshape is None or before is None or only_reader(graph, reshape.outputs[0]) is not node:
            continue
        middle, result = graph.values[reshape.inputs[0]], graph.values[node.outputs[0]]
        back = _perm_behind(result.shape, inverse(node.attrs["perm"]), middle.shape)
        if back is None or only_reader(graph, middle.name) is not reshape:
            continue
        perm = inverse(back)
        inner = _permuted_value(graph, middle, perm)
        first = replace(before, outputs=(inner.name,), attrs={"perm": compose(before.attrs["perm"], perm)})
        last = replace(
            reshape,
            inputs=(inner.name,),
            outputs=node.outputs,
            attrs={"shape": result.shape},
            origins=origins(reshape, node),
        )
        return replaced(graph, {before.name: [first], reshape.name: [], node.name: [last]}, [inner])
    return graph


def _blocks(source: Shape, perm: Perm, target: Shape) -> list[tuple[list[int], list[int]]] | None:
    """The axes of x and those of the target that Reshape(T(perm)(x)) makes of them, in the order of T; without axes of size 1."""
    order = [axis for axis in perm if source[axis] != 1]
    places = [axis for axis, size in enumerate(target) if size != 1]
    blocks = list[tuple[list[int], list[int]]]()
    while order and places:
        axes, parts = [order.pop(0)], [places.pop(0)]
        while (have := prod(source[axis] for axis in axes)) != (want := prod(target[place] for place in parts)):
            rest, group = (order, axes) if have < want else (places, parts)
            if not rest:
                return None
            group.append(rest.pop(0))
        blocks.append((axes, parts))
    return blocks


def _perm_in_front(source: Shape, perm: Perm, target: Shape) -> Perm | None:
    """The T that brings the axes that the Reshape merges side by side, and moves no others."""
    blocks = _blocks(source, perm, target)
    if blocks is None:
        return None
    order = [axis for axes, _ in sorted(blocks) for axis in axes]
    front = list(range(len(source)))
    for place, axis in zip(sorted(order), order, strict=True):
        front[place] = axis
    return tuple(front)


def _perm_behind(source: Shape, perm: Perm, target: Shape) -> Perm | None:
    """The T such that Reshape(T(perm)(x)) = T(Reshape'(x)); None if the Reshape merges axes that do not lie side by side in x."""
    blocks = _blocks(source, perm, target)
    if blocks is None or [a for axes, _ in sorted(blocks) for a in axes] != sorted(
        a for axes, _ in blocks for a in axes
    ):
        return None
    inner = [place for _, parts in sorted(blocks) for place in parts]
    behind = list(range(len(target)))
    for place, axis in zip(sorted(inner), inner, strict=True):
        behind[axis] = place
    return tuple(behind)


def hoist_transpose(graph: Graph) -> Graph:
    """Rewrite op, T as T, op' along a chain that starts at an input of the graph, so that one Transpose there serves
    all readers.
    """
    producer = graph.producer()
    for node in graph.nodes:
        if not is_a(node, Transpose):
            continue
        before = producer.get(node.inputs[0])
        if before is None or node.outputs[0] in graph.outputs:
            continue
        if only_reader(graph, before.outputs[0]) is not node or not _from_input(graph, before, node):
            continue
        perm = tuple(node.attrs["perm"])
        constants = _permuted_constants(graph, before, perm)
        attrs = ops()[before.op].permute(before.attrs, inverse(perm))
        if constants is None or attrs is None:
            continue
        data = _data(graph, before)
        inner = _permuted_value(graph, graph.values[data], perm)
        first = Node(fresh_node(graph, inner.name), "Transpose", (data,), (inner.name,), {"perm": perm}, node.origins)
        names = {data: inner.name, **{old: value.name for old, value in constants.items()}}
        inputs = tuple(names.get(n, n) for n in before.inputs)
        moved = replace(before, inputs=inputs, outputs=node.outputs, attrs=attrs)
        return replaced(graph, {before.name: [first, moved], node.name: []}, [inner, *constants.values()])
    return graph


def _data(graph: Graph, node: Node) -> str:
    """The one computed input, or "" if there are several."""
    computed = {name for name in node.inputs if graph.values[name].const is None}
    return computed.pop() if len(computed) == 1 else ""


def _from_input(graph: Graph, node: Node, transpose: Node) -> bool:
    """Whether `node` is reached from an input of the graph through ops with one computed input that keep the rank and
    let T pass.
    """
    producer = graph.producer()
    back = inverse(transpose.attrs["perm"])
    while True:
        data = _data(graph, node)
        if not data or len(graph.values[data].shape) != len(back) or is_a(node, Transpose):
            return False
        if ops()[node.op].permute(node.attrs, back) is None or _permuted_constants(graph, node, inverse(back)) is None:
            return False
        if data in graph.inputs:
            return True
        if data not in producer or only_reader(graph, data) is not node:
            return False
        node = producer[data]
        if is_a(node, Transpose):
            return node.inputs[0] in graph.inputs
