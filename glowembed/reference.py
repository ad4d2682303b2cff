"""The two references in numpy: the meaning of a graph in float, and what a kernel-level graph computes, bit for bit.

In: a graph and its stored inputs by name, in the shapes of their Values. Out: every value by name. It knows no target.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from math import prod
from typing import TypeVar

import numpy as np

from glowembed.errors import UsageError, unknown_name
from glowembed.graph.ir import Array, Graph, Node, Value
from glowembed.graph.registry import kernel_ops, ops
from glowembed.graph.states import in_sequence

ELEMENTS_AT_ONCE = 1 << 18
"""Samples are computed together while the values of their runs have at most this many elements. More would leave the
caches, and the Python code between the operations is then a small part of the time.
"""

LARGEST_BATCH = 64

_Sample = TypeVar("_Sample", bound=Mapping[str, Array])

Runs = Callable[[Graph, Sequence[Mapping[str, Array]]], Sequence[Mapping[str, Array]]]
"""Computes several samples that do not depend on each other, as `reference.run_int_all` does."""


def run_float(graph: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Every value of a semantic graph in float32, constants included.

    A value that already has a type, as in a quantized model, is clipped to the range of that type, which often stands
    for a ReLU. Nothing is rounded. Infinities and NaN are passed through; the caller checks for them.
    """
    return run_float_all(graph, [inputs])[0]


@np.errstate(all="ignore")
def run_float_all(graph: Graph, samples: Sequence[Mapping[str, Array]]) -> list[dict[str, Array]]:
    """The values of `run_float` for each sample; samples do not depend on each other."""
    constants = {name: _float32(array) for name, array in _constants(graph).items()}
    runs = []
    for sample in samples:
        given = {name: _within(graph.values[name], array) for name, array in _inputs(graph, sample).items()}
        runs.append(given | constants)
    for node in graph.nodes:
        results = ops()[node.op].float_refs(node.attrs, _operands(node, runs))
        for known, outputs in zip(runs, results, strict=True):
            known.update(_named(graph, node, outputs))
    return runs


@np.errstate(all="ignore")
def float_results(graph: Graph, node: Node, inputs: Sequence[Array]) -> dict[str, Array]:
    """The outputs of one node of a semantic graph, as in `run_float`."""
    return _named(graph, node, ops()[node.op].float_ref(node.attrs, inputs))


def _named(graph: Graph, node: Node, outputs: Sequence[Array]) -> dict[str, Array]:
    return {name: _within(graph.values[name], y) for name, y in zip(node.outputs, outputs, strict=True)}


def _operands(node: Node, runs: Sequence[Mapping[str, Array]]) -> list[list[Array]]:
    return [[known[name] for name in node.inputs] for known in runs]


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
    return run_int_all(graph, [inputs])[0]


def run_int_all(graph: Graph, samples: Sequence[Mapping[str, Array]]) -> list[dict[str, Array]]:
    """The values of `run_int` for each sample; samples do not depend on each other. Raises UsageError as `run_int` does."""
    constants = _constants(graph)
    runs = [_inputs(graph, sample) | constants for sample in samples]
    for node in graph.nodes:
        try:
            results = _computed(graph, node, _operands(node, runs))
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
        for known, result in zip(runs, results, strict=True):
            known[node.outputs[0]] = result
    return runs


def graph_runs(
    graph: Graph, samples: Iterable[Mapping[str, Array]], run: Runs
) -> Iterator[tuple[Mapping[str, Array], Mapping[str, Array]]]:
    """The inputs and results of `run` on stored samples, in order. The states of the graph begin with 0."""
    if graph.states:
        first = {state.input: graph.values[state.input].zeros() for state in graph.states}
        yield from in_sequence(graph.states, first, samples, lambda one: run(graph, [one])[0])
        return
    for batch in batches(graph, samples):
        yield from zip(batch, run(graph, batch), strict=True)


def batches(graph: Graph, samples: Iterable[_Sample]) -> Iterator[list[_Sample]]:
    """The samples in groups that are computed together."""
    elements = sum(prod(value.shape) for value in graph.values.values() if value.const is None)
    size = max(1, min(LARGEST_BATCH, ELEMENTS_AT_ONCE // max(1, elements)))
    remaining = iter(samples)
    while batch := list(islice(remaining, size)):
        yield batch


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
    return _computed(graph, node, [inputs])[0]


def _computed(graph: Graph, node: Node, runs: Sequence[Sequence[Array]]) -> list[Array]:
    constants = {name: const.materialize() for name, const in node.constants.items()}
    results = kernel_ops()[node.op].int_refs(node.params, runs, constants)
    return [np.asarray(result).reshape(graph.values[node.outputs[0]].shape) for result in results]


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
