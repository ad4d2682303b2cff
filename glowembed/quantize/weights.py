"""Lets a target choose the types of weights. In: a quantized graph and the name in the target's toml. Out: a graph.

Weights are float until a bundle is emitted, so a target that cannot use the chosen scales can choose others from the
original numbers, without rounding twice. `weights = "power2"` in targets/NAME.toml names a function of REQUANTIZERS;
`weights = "package.module:function"` names a function of the user. The function gets the constant and the type chosen
so far, and returns the type to store; bias and multipliers follow from it.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from glowembed.errors import UsageError, unknown_name
from glowembed.graph.ir import Const, Graph, QType
from glowembed.graph.registry import ops
from glowembed.quantize.schema import WEIGHT_LIMIT, power_of_two

RequantizeWeights = Callable[..., QType]
"""A function that returns the type to store. It gets the constant as in the model, the type chosen so far, and the
keywords `name` (of the weights), `op` and `node` (which read them).
"""


def power2(const: Const, qtype: QType, **of: str) -> QType:
    """Symmetric types whose scales are raised to the next power of two, for cores that shift instead of multiplying."""
    weights = np.abs(const.materialize().astype(np.float64))
    peaks = weights.reshape(len(weights), -1).max(axis=1) / WEIGHT_LIMIT
    if len(qtype.scale) == 1:
        peaks = peaks.max(keepdims=True)
    chosen = [s if z == 0 else 0.0 for s, z in zip(qtype.scale, qtype.zero_point, strict=True)]
    scales = [power_of_two(max(float(np.float32(p)), s)) for p, s in zip(peaks, chosen, strict=True)]
    return replace(qtype, scale=tuple(s or 1.0 for s in scales), zero_point=(0,) * len(scales))


REQUANTIZERS: Mapping[str, RequantizeWeights] = {"power2": power2}


def requantizer(name: str) -> RequantizeWeights:
    """The function that a target names. Raises UsageError if it does not exist."""
    if ":" not in name:
        if name not in REQUANTIZERS:
            raise unknown_name("weights of a target:", name, REQUANTIZERS)
        return REQUANTIZERS[name]
    module, _, function = name.partition(":")
    try:
        found: RequantizeWeights = getattr(importlib.import_module(module), function)
        inspect.signature(found).bind(None, None, name="", op="", node="")
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        problem = f"weights = {name!r} of the target: {error}; it must take (const, qtype, *, name, op, node)"
        raise UsageError(problem) from error
    return found


def requantize_weights(graph: Graph, name: str) -> Graph:
    """The graph with the types of int8 weights that the target chooses; "" leaves them unchanged."""
    if not name:
        return graph
    function, values = requantizer(name), dict(graph.values)
    for node in graph.nodes:
        if not ops()[node.op].has_weights:
            continue
        value = values[node.inputs[1]]
        if (
            value.const is not None
            and value.qtype is not None
            and value.qtype.dtype == "int8"
            and not value.qtype.table
        ):
            found = function(value.const, value.qtype, name=value.name, op=node.op, node=node.name)
            values[value.name] = replace(value, qtype=_checked(node.name, name, found, value.qtype))
    return replace(graph, values=values)


def _checked(node: str, name: str, found: Any, before: QType) -> QType:
    if not isinstance(found, QType) or (found.dtype, len(found.scale)) != (before.dtype, len(before.scale)):
        raise UsageError(f"{node}: weights = {name!r} of the target gave {found}; expected a type like {before}")
    return found
