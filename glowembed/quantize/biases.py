"""Computes the stored biases: corrected for the mean error of the rounded weights, then rounded to the requested bits.

In: a quantized graph whose weights have their final types, the settings of its nodes, the mean of each channel of the
activations. Out: the graph with other constants for biases. Rounding the weights W to W~ shifts the expected value of
an output by the same amount in every sample (Nagel et al., "Data-Free Quantization Through Weight Equalization and Bias
Correction", 2019, section 4.2). If the mean of the input E[x] is known, the shift is subtracted from the bias b:

    b~ = b - (W~ - W) E[x]

averaged over the positions of the output, because padding contributes zeros. E[x] comes from the profile. All sums are
sums of integers, so the result does not depend on the machine. It knows no target and no kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from glowembed.graph.ir import Array, Const, Graph, Node, QType, Value
from glowembed.graph.op import Product, free_name
from glowembed.graph.registry import ops
from glowembed.options.table import Settings
from glowembed.quantize import schema
from glowembed.quantize.precision import Precision

Floats = NDArray[np.float64]

MeanOf = Callable[[str], Floats | None]
"""A function from the name of an activation to the mean of each channel, or None if it is not known."""

BITS = 16
"""Errors and means are rounded to integers of this many bits, so sums over 2**20 products are exact in float64."""


def finish_biases(
    graph: Graph, precision: Precision, mean_of: MeanOf, shifts: Mapping[str, Floats] | None = None
) -> Graph:
    """The graph with its biases as they will be stored. A bias whose type the model gives is not changed. shifts: the mean errors
    of outputs that are known already, by the name of the node.
    """
    values, nodes, shifts = dict(graph.values), [], shifts or {}
    for node in graph.nodes:
        if ops()[node.op].has_weights and node.name in precision.nodes and _is_quantized(graph, node):
            bias = _finished(graph, node, precision.nodes[node.name], mean_of, values, shifts)
            values[bias.name] = bias
            node = replace(node, inputs=(*node.inputs[:2], bias.name))
        for product in ops()[node.op].products:
            if node.name in precision.nodes and precision.nodes[node.name].bias_correction:
                node = _of_product(graph, node, product, mean_of, values)
        nodes.append(node)
    return graph.with_nodes(nodes, values)


def _is_quantized(graph: Graph, node: Node) -> bool:
    w, b = (graph.values[name] for name in node.inputs[1:])
    return w.const is not None and w.qtype is not None and b.const is not None and b.qtype is None


def _finished(
    graph: Graph,
    node: Node,
    settings: Settings,
    mean_of: MeanOf,
    taken: Collection[str],
    shifts: Mapping[str, Floats],
) -> Value:
    bias = graph.values[node.inputs[2]]
    const = bias.const
    assert const is not None, bias.name
    roles = []
    correction = None
    if settings.bias_correction:
        correction = shifts[node.name] if node.name in shifts else _correction(graph, node, mean_of)
    if correction is not None:
        roles.append("corrected")
        const = const.then("corrected", lambda b: (b - correction).astype(np.float32))
    y = graph.values[node.outputs[0]].qtype
    if settings.bias != "int32" and y is not None and y.dtype == "int8":
        roles.append(settings.bias)
        const = const.then(f"round({settings.bias})", _rounded(const, settings.bias))
    return replace(bias, name=free_name("/".join([bias.name, *roles]), taken), const=const) if roles else bias


def _of_product(graph: Graph, node: Node, product: Product, mean_of: MeanOf, values: dict[str, Value]) -> Node:
    """The node with a corrected bias for one of its products, if the mean of the factor is known."""
    w, bias = (graph.values[node.inputs[i]] for i in (product.weights, product.bias))
    mean = _mean(graph, node.outputs[0] if product.x is None else node.inputs[product.x], mean_of)
    if w.const is None or w.qtype is None or w.const.grid is not None or bias.const is None or mean is None:
        return node
    error = weights_error(w.const.materialize(), w.qtype)
    if len(mean) != error.shape[1] or not (error.any() and mean.any()):
        return node
    steps, of_error = _whole(error, np.abs(error).max(axis=1, keepdims=True))
    means, of_mean = _whole(mean, np.abs(mean).max())
    correction = (steps @ means) * of_error[:, 0] * of_mean
    const = bias.const.then("corrected", lambda b: (b - correction).astype(np.float32))
    corrected = replace(bias, name=free_name(f"{bias.name}/corrected", values), const=const)
    values[corrected.name] = corrected
    inputs = (*node.inputs[: product.bias], corrected.name, *node.inputs[product.bias + 1 :])
    return replace(node, inputs=inputs)


def _rounded(const: Const, dtype: str) -> Callable[[Array], Array]:
    """A function that rounds the bias to fewer bits than int32, symmetric with one scale. The stored value keeps the
    unit that the sum needs.
    """
    array = const.materialize()
    qtype = schema.choose(float(array.min()), float(array.max()), "symmetric", dtype)
    return lambda b: qtype.dequantize(qtype.quantize(b))


def _correction(graph: Graph, node: Node, mean_of: MeanOf) -> Floats | None:
    """(W~ - W) E[x] for each element of the bias; None if it is zero or not known."""
    x, w, bias = (graph.values[name] for name in node.inputs)
    mean = _mean(graph, x.name, mean_of)
    if not ops()[node.op].rounds_weights or mean is None or not x.shape or len(mean) != x.shape[-1]:
        return None
    assert w.const is not None and w.qtype is not None, w.name
    if w.const.grid is not None:
        return None  # the weights are the model's own integers, so nothing was rounded
    error = weights_error(w.const.materialize(), w.qtype)
    if not (error.any() and mean.any()):
        return None
    attrs = {key: value for key, value in node.attrs.items() if key not in ("act_min", "act_max")}
    per_channel = np.abs(error).reshape(len(error), -1).max(axis=1)
    steps, of_error = _whole(error, per_channel.reshape(-1, *[1] * (error.ndim - 1)))
    means, of_mean = _whole(mean, np.abs(mean).max())
    inputs = [np.broadcast_to(means, x.shape), steps, np.zeros(bias.shape)]
    (y,) = ops()[node.op].float_ref(attrs, inputs)
    shift: Floats = y.reshape(-1, len(error)).mean(axis=0, dtype=np.float64) * of_error.reshape(-1) * of_mean
    return shift


def weights_error(weights: Array, qtype: QType, rounded: Const | None = None) -> Floats:
    """W~ - W: the stored weights minus the original ones. rounded: the constant that is stored, if it is another one."""
    stored = qtype.dequantize(qtype.quantize(weights if rounded is None else rounded.materialize()))
    error: Floats = stored.astype(np.float64) - weights
    return error


def _whole(array: Floats, largest: Floats) -> tuple[Floats, Floats]:
    """The numbers as integers of BITS bits, and the power of two that is their unit."""
    unit = np.ldexp(1.0, np.frexp(largest)[1] - BITS)
    return np.rint(array / unit), unit


def _mean(graph: Graph, name: str, mean_of: MeanOf) -> Floats | None:
    """The mean of the value or, if the profile has none, of the profiled value before the conversions that quantize
    added.
    """
    made = graph.producer()
    while (mean := mean_of(name)) is None and name in made and ops()[made[name].op].converts:
        name = made[name].inputs[0]
    return mean
