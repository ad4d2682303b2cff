"""Ranges to types: gives every value of the canonical graph a QType.

In: the canonical float graph and the range of every activation. Out: the same graph with `Value.qtype` set; constants
stay float and delayed. Rules, in this order: a fixed type of the op (Softmax), the type of the first input (MaxPool,
Reshape), else the profiled range. Weights take their range from the constant itself, per output channel.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from glowembed.errors import UsageError
from glowembed.ir import Array, Graph, Node, QType, Value
from glowembed.op import ops

RangeOf = Callable[[str], tuple[float, float]]
"""Value name -> (lowest, highest) real number to represent."""

BIAS_LIMIT = 2.0**29
"""Largest |bias| in steps of s_x * s_w: leaves int32 room for the sum of products."""

WEIGHT_LIMIT = 127
"""Weights use -127..127, so that negation and pairing tricks of the kernels never overflow."""


@dataclass(frozen=True)
class Settings:
    """How types are chosen for the whole graph; layer-wise rules come on top of this."""

    per_channel: bool = True


def asymmetric(low: float, high: float) -> QType:
    """int8 type for [low, high] widened to hold zero, which is exactly representable.

    An empty range (both 0) gets scale 1. The zero point is derived from the end that loses less by its rounding.
    """
    low, high = min(low, 0.0), max(high, 0.0)
    scale = (high - low) / 255.0
    if scale < np.finfo(np.float32).tiny:
        return QType("int8", (1.0,), (0,))
    from_low, from_high = -128.0 - low / scale, 127.0 - high / scale
    zero = from_low if abs(from_low - np.rint(from_low)) <= abs(from_high - np.rint(from_high)) else from_high
    return QType("int8", (float(np.float32(scale)),), (int(np.clip(np.rint(zero), -128, 127)),))


def symmetric_weights(weights: Array, bias: Array, x_scale: float, per_channel: bool) -> QType:
    """int8 type for weights with the output channel as axis 0.

    The scale is max|w| / 127, but at least what keeps the bias inside BIAS_LIMIT steps of x_scale * scale.
    A channel of zeros takes the largest scale of the others, so it never dictates the shift of the tensor.
    """
    flat = np.abs(weights.reshape(weights.shape[0], -1).astype(np.float64))
    peaks = flat.max(axis=1) if per_channel else np.full(weights.shape[0], flat.max())
    scales = np.maximum(peaks / WEIGHT_LIMIT, np.abs(bias.astype(np.float64)) / (x_scale * BIAS_LIMIT))
    if not per_channel:
        scales[:] = scales.max()
    scales[scales == 0] = scales.max() or 1.0
    scales = np.maximum(scales.astype(np.float32), np.finfo(np.float32).tiny)
    return QType("int8", tuple(float(s) for s in scales), (0,) * len(scales), axis=0)


def quantize(graph: Graph, range_of: RangeOf, settings: Settings | None = None) -> Graph:
    """The graph with a QType on every activation and weight. Raises UsageError when a range is missing."""
    settings = settings or Settings()
    values = dict(graph.values)
    for name in graph.inputs:
        values[name] = replace(values[name], qtype=_from_range(name, range_of))
    for node in graph.nodes:
        _constants(node, values, settings)
        for name in node.outputs:
            values[name] = replace(values[name], qtype=_output_type(node, name, values, range_of))
    return replace(graph, values=values)


def _from_range(name: str, range_of: RangeOf) -> QType:
    low, high = range_of(name)
    if not (np.isfinite(low) and np.isfinite(high) and low <= high):
        raise UsageError(f"the profile has no usable range for {name!r}: {low}..{high}")
    return asymmetric(low, high)


def _output_type(node: Node, name: str, values: dict[str, Value], range_of: RangeOf) -> QType:
    rule = ops()[node.op].output_type
    if isinstance(rule, QType):
        return rule
    if rule == "input":
        qtype = values[node.inputs[0]].qtype
        assert qtype is not None, node.inputs[0]
        return qtype
    return _from_range(name, range_of)


def _constants(node: Node, values: dict[str, Value], settings: Settings) -> None:
    """Types of the constants that a node reads; the type of a bias follows from those of input and weights."""
    if ops()[node.op].has_weights:
        x, w, b = (values[name] for name in node.inputs)
        assert x.qtype is not None and w.const is not None and b.const is not None, node.name
        qtype = symmetric_weights(w.const.materialize(), b.const.materialize(), x.qtype.scale[0], settings.per_channel)
        values[w.name] = replace(w, qtype=qtype)
        return
    for name in node.inputs:
        const = values[name].const
        if const is not None and values[name].qtype is None:
            array = const.materialize()
            values[name] = replace(values[name], qtype=asymmetric(float(array.min()), float(array.max())))
