"""Checks that the outputs of a float model are finite for the samples that calibrate it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from glowembed.errors import UsageError
from glowembed.graph.ir import Array, Graph


def refuse_infinite_outputs(graph: Graph, arrays: Mapping[str, Array]) -> None:
    """Raise UsageError if an output is NaN or infinite. Other values may be so, as where a branch is computed and not chosen."""
    floats = [name for name in graph.outputs if graph.values[name].dtype == "float32"]
    bad = next((name for name in floats if not np.isfinite(arrays[name]).all()), None)
    if bad is not None:
        made = [name for node in graph.nodes for name in node.outputs if graph.values[name].dtype == "float32"]
        first = next((name for name in made if not np.isfinite(arrays[name]).all()), bad)
        begins = "" if first == bad else f", which begins with {first!r}"
        raise UsageError(f"{bad!r} becomes NaN or infinite in the float model{begins}: check weights and data")
