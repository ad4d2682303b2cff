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
from glowembed.ir import Graph, Node, QType, Value
from glowembed.op import ops
from glowembed.schema import asymmetric, symmetric_weights

RangeOf = Callable[[str], tuple[float, float]]
"""Value name -> (lowest, highest) real number to represent."""


@dataclass(frozen=True)
class Settings:
    """How types are chosen for the whole graph; layer-wise rules come on top of this."""

    per_channel: bool = True


def quantize(graph: Graph, range_of: RangeOf, settings: Settings | None = None) -> Graph:
    """The graph with a QType on every activation and weight. Raises UsageError when a range is missing."""
    settings = settings or Settings()
    values = dict(graph.values)
    for name in graph.inputs:
        values[name] = replace(values[name], qtype=values[name].qtype or _from_range(name, range_of))
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
    if (given := values[name].qtype) is not None:
        return given
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
        if w.qtype is not None:
            return
        qtype = symmetric_weights(w.const.materialize(), b.const.materialize(), x.qtype.scale[0], settings.per_channel)
        values[w.name] = replace(w, qtype=qtype)
        return
    for name in node.inputs:
        const = values[name].const
        if const is not None and values[name].qtype is None:
            array = const.materialize()
            values[name] = replace(values[name], qtype=asymmetric(float(array.min()), float(array.max())))
