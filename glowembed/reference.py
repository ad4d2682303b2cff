"""The two references in numpy: the meaning of a graph in float, and what a kernel-level graph computes, bit for bit.

In: a graph and its stored inputs by name, in the shapes of their Values. Out: every value by name. It knows no target.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from glowembed.errors import UsageError, unknown_name
from glowembed.graph.ir import Array, Graph, Node, Value
from glowembed.graph.registry import kernel_ops, ops


@np.errstate(all="ignore")
def run_float(graph: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Every value of a semantic graph in float32, constants included.

    A value that already has a type, as in a quantized model, is clipped to the range of that type, which often stands
    for a ReLU. Nothing is rounded. Infinities and NaN are passed through; the caller checks for them.
    """
    given = {name: _within(graph.values[name], array) for name, array in _inputs(graph, inputs).items()}
    known = given | {name: _float32(array) for name, array in _constants(graph).items()}
    for node in graph.nodes:
        known.update(float_results(graph, node, [known[name] for name in node.inputs]))
    return known


@np.errstate(all="ignore")
def float_results(graph: Graph, node: Node, inputs: Sequence[Array]) -> dict[str, Array]:
    """The outputs of one node of a semantic graph, as in `run_float`."""
    results = ops()[node.op].float_ref(node.attrs, inputs)
    return {name: _within(graph.values[name], y) for name, y in zip(node.outputs, results, strict=True)}


def _within(value: Value, array: Array) -> Array:
    if value.qtype is None or value.qtype.axis is not None:
        return array
    low, high = value.qtype.range()
    return np.asarray(np.clip(array, np.float32(low), np.float32(high)))


def run_int(graph: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Every stored value of a kernel-level graph. The constants of the nodes are materialized, not packed.

    Raises UsageError for an input that is missing or has another shape, and for a node whose parameters and constants
    do not fit each other, as in a damaged bundle.
    """
    known = _inputs(graph, inputs) | _constants(graph)
    for node in graph.nodes:
        try:
            known[node.outputs[0]] = _computed(graph, node, [known[name] for name in node.inputs])
        except (
            ValueError,
            LookupError,
            TypeError,
            AttributeError,
            ArithmeticError,
            np.exceptions.ComplexWarning,
        ) as error:
            raise UsageError(
                f"{node.op} {node.name!r} of {graph.name} cannot be computed: its parameters and constants do not fit each"
                f" other ({error}); compile the model again"
            ) from error
    return known


def run_node(graph: Graph, name: str, *inputs: Array) -> Array:
    """The output of one node of a kernel-level graph, such as that of a Bundle, for these stored inputs, bit for bit.

    Raises UsageError for a name that the graph does not have, and for inputs whose number, shapes or dtypes do not fit
    the node.
    """
    node = next((n for n in graph.nodes if n.name == name), None)
    if node is None:
        raise unknown_name("node", name, [n.name for n in graph.nodes])
    if len(inputs) != len(node.inputs):
        raise UsageError(f"{name!r} has {len(node.inputs)} inputs ({', '.join(node.inputs)}), {len(inputs)} are given")
    for source, array in zip(node.inputs, inputs, strict=True):
        value = graph.values[source]
        dtype = value.qtype.dtype if value.qtype else value.dtype
        if array.shape != value.shape or array.dtype != dtype:
            raise UsageError(
                f"{name!r} reads {source!r} as {dtype} of shape {list(value.shape)},"
                f" found {array.dtype} of shape {list(array.shape)}"
            )
    return _computed(graph, node, inputs)


def _computed(graph: Graph, node: Node, inputs: Sequence[Array]) -> Array:
    constants = {name: const.materialize() for name, const in node.constants.items()}
    result = kernel_ops()[node.op].int_ref(node.params, inputs, constants)
    return np.asarray(result).reshape(graph.values[node.outputs[0]].shape)


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
    return array.astype(np.float32, copy=False) if array.dtype.kind == "f" else array
