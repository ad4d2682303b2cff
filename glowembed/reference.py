"""The two references in numpy: what a graph means, and what a kernel-level graph computes bit for bit.

In: a graph and its inputs by name, as stored (shape of the Value). Out: every value by name. Knows no target.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from glowembed.errors import UsageError
from glowembed.ir import Array, Graph
from glowembed.op import kernel_ops, ops


def run_float(graph: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Every value of a semantic graph in float32, constants included."""
    known = _inputs(graph, inputs) | {name: _float32(array) for name, array in _constants(graph).items()}
    for node in graph.nodes:
        results = ops()[node.op].float_ref(node.attrs, [known[name] for name in node.inputs])
        known.update(zip(node.outputs, results, strict=True))
    return known


def run_int(graph: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Every value of a kernel-level graph as stored; constants of the nodes are materialized, not packed."""
    known = _inputs(graph, inputs) | _constants(graph)
    for node in graph.nodes:
        constants = {name: const.materialize() for name, const in node.constants.items()}
        result = kernel_ops()[node.op].int_ref(node.params, [known[name] for name in node.inputs], constants)
        known[node.outputs[0]] = np.asarray(result).reshape(graph.values[node.outputs[0]].shape)
    return known


def _inputs(graph: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
    known = {}
    for name in graph.inputs:
        if name not in inputs:
            raise UsageError(f"no data for the input {name!r}; given: {', '.join(inputs) or 'none'}")
        if inputs[name].shape != graph.values[name].shape:
            raise UsageError(
                f"data of shape {list(inputs[name].shape)} for the input {name!r} of shape {list(graph.values[name].shape)}"
            )
        known[name] = np.asarray(inputs[name])
    return known


def _constants(graph: Graph) -> dict[str, Array]:
    return {name: value.const.materialize() for name, value in graph.values.items() if value.const is not None}


def _float32(array: Array) -> Array:
    return array.astype(np.float32) if array.dtype.kind == "f" else array
