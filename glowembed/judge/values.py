"""Values of a bundle and of its model: real numbers in the model's layout, and what the bundle stores.

In: arrays of one kind, and the Value. Out: arrays of the other.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from glowembed.graph.ir import Array, Graph, Value
from glowembed.nest.dtypes import numpy_type
from glowembed.ranges import datasets


def stored_of(value: Value, real: Array) -> Array:
    array = datasets.stored(value, real)
    return array.astype(numpy_type(value.dtype)) if value.qtype is None else value.qtype.quantize(array)


def real_of(value: Value, stored: Array) -> Array:
    """Convert [n, stored shape] to [n, ...] real numbers in the layout of the model."""
    logical = logical_of(value, stored)
    return logical if value.qtype is None else value.qtype.dequantize(logical)


def model_outputs(graph: Graph, outputs: Mapping[str, Array]) -> dict[str, Array]:
    """The model's outputs as real numbers, even if the model has integers."""
    known = {name: datasets.integers(graph, name) for name in outputs}
    return {name: k.from_model(outputs[name]) if (k := known[name]) else array for name, array in outputs.items()}


def logical_of(value: Value, stored: Array) -> Array:
    if value.layout is None:
        return stored
    return np.transpose(stored, (0, *(int(axis) + 1 for axis in np.argsort(value.layout))))
