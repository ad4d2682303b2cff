"""Reports outputs of a float model that are not finite for the calibration samples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from glowembed.graph.ir import Array, Graph
from glowembed.graph.notes import Note


def unbounded_outputs(graph: Graph, arrays: Mapping[str, Array]) -> Iterator[Note]:
    """A warning for each output that is NaN or infinite. The nodes that compute it stay in float32
    (quantize/floating.py).

    There is no warning for other values, because they may belong to a branch that is computed but not chosen.
    """
    made = [name for node in graph.nodes for name in node.outputs if graph.values[name].dtype == "float32"]
    for name in graph.outputs:
        if graph.values[name].dtype != "float32" or np.isfinite(arrays[name]).all():
            continue
        first = next((value for value in made if not np.isfinite(arrays[value]).all()), name)
        begins = "" if first == name else f", which begins with {first!r}"
        text = f"{name!r} becomes NaN or infinite in the float model{begins}"
        yield Note("output-not-finite", f"{text}; the nodes that compute it stay in float32: check weights and data")
