"""Merges Reshapes, removes those without effect, and moves those that separate ops that could fuse.

In and out: Graphs.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from glowembed.canonicalize.rewrite import bypassed, constant, fresh, maker, only_reader, origins, replaced
from glowembed.graph.ir import Array, Graph, Node, Value
from glowembed.graph.layout import inverse, moves_only_ones, permuted
from glowembed.graph.op import is_a
from glowembed.graph.registry import ops
from glowembed.ops.affine import Affine
from glowembed.ops.gemm import Gemm
from glowembed.ops.layout import Reshape, Transpose


def transpose_to_reshape(graph: Graph) -> Graph:
    """Replace a Transpose that only moves axes of size 1, and so moves no data, by a Reshape."""
    changes = {
        node.name: [replace(node, op="Reshape", attrs={"shape": graph.values[node.outputs[0]].shape})]
        for node in graph.nodes
        if is_a(node, Transpose) and moves_only_ones(graph.values[node.inputs[0]].shape, node.attrs["perm"])
    }
    return replaced(graph, changes) if changes else graph


def merge_reshapes(graph: Graph) -> Graph:
    """Let a Reshape of a Reshape read the input of the first one."""
    for node in graph.nodes:
        before = maker(graph, node.inputs[0], Reshape) if is_a(node, Reshape) else None
        if before is not None:
            merged = replace(node, inputs=before.inputs, origins=origins(before, node))
            return replaced(graph, {node.name: [merged]})
    return graph


def no_op_reshape(graph: Graph) -> Graph:
    """Remove a Reshape to the shape that its input already has, unless it joins an input to an output of the model."""
    for node in graph.nodes:
        if is_a(node, Reshape) and graph.values[node.inputs[0]].shape == graph.values[node.outputs[0]].shape:
            result = bypassed(graph, node)
            if result is not None:
                return result
    return graph


def sink_reshape(graph: Graph) -> Graph:
    """Rewrite Reshape, op as op, Reshape for elementwise ops with one computed input; their other inputs are
    scalars.
    """
    for node in graph.nodes:
        before = maker(graph, node.inputs[0], Reshape) if node.inputs else None
        if before is None or not _pointwise(graph, node):
            continue
        if only_reader(graph, before.outputs[0]) is not node or before.inputs[0] in graph.inputs:
            continue
        source, target = graph.values[before.inputs[0]], graph.values[node.outputs[0]]
        inner = Value(fresh(graph, f"{target.name}/before_reshape"), source.shape)
        moved = replace(node, inputs=(source.name, *node.inputs[1:]), outputs=(inner.name,))
        after = replace(before, inputs=(inner.name,), outputs=(target.name,), attrs={"shape": target.shape})
        return replaced(graph, {before.name: [], node.name: [moved, after]}, [inner])
    return graph


def _pointwise(graph: Graph, node: Node) -> bool:
    scalars = all(graph.values[name].const is not None and graph.values[name].elements == 1 for name in node.inputs[1:])
    same = graph.values[node.inputs[0]].shape == graph.values[node.outputs[0]].shape
    uniform = is_a(node, Affine) and not node.attrs["per_channel"]
    return scalars and same and len(node.outputs) == 1 and (ops()[node.op].elementwise or uniform)


def transpose_into_columns(graph: Graph) -> Graph:
    """Rewrite Transpose, Reshape to [1, K], Gemm as Reshape, Gemm by reordering the columns of the weights."""
    for flat in graph.nodes:
        before = maker(graph, flat.inputs[0], Transpose) if is_a(flat, Reshape) else None
        readers = graph.consumers()[flat.outputs[0]]
        if before is None or flat.outputs[0] in graph.outputs or not readers:
            continue
        source, output = graph.values[before.inputs[0]], graph.values[flat.outputs[0]]
        if prod(output.shape[:-1]) != 1 or any(not is_a(r, Gemm) or r.inputs[0] != output.name for r in readers):
            continue
        perm = tuple(before.attrs["perm"])
        mixed = Value(fresh(graph, f"{output.name}/channels_last"), output.shape)
        changes = {
            flat.name: [replace(flat, inputs=(source.name,), outputs=(mixed.name,), origins=origins(before, flat))]
        }
        values = [mixed]
        for gemm in readers:
            weights = _columns(graph, gemm, permuted(source.shape, perm), inverse(perm))
            values.append(weights)
            changes[gemm.name] = [replace(gemm, inputs=(mixed.name, weights.name, *gemm.inputs[2:]))]
        return replaced(graph, changes, values)
    return graph


def _columns(graph: Graph, gemm: Node, shape: tuple[int, ...], back: tuple[int, ...]) -> Value:
    """The weights [N, K], whose columns are reordered for data with the axes of `shape` in the order `back`."""
    weights = graph.values[gemm.inputs[1]]
    assert weights.const is not None, gemm.name

    def columns(array: Array) -> Array:
        spread = array.reshape(-1, *shape).transpose(0, *(axis + 1 for axis in back))
        return np.ascontiguousarray(spread).reshape(array.shape)

    return constant(graph, f"{weights.name}/channels_last", weights.const.then(f"columns({back})", columns))
