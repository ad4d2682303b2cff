"""The states of a bundle, for its header, its reset function and its manifest.

In: a kernel-level graph with states, and its plan. Out: offsets, sizes and initial bytes of the block that is kept from
run to run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from glowembed.graph.cnames import comment
from glowembed.graph.ir import Graph, Value
from glowembed.graph.plan import Plan
from glowembed.nest.dtypes import numpy_type
from glowembed.plan.states import COUNTER, aligned, block, block_size


def entry(graph: Graph, plan: Plan) -> dict[str, Any] | None:
    """The block of states, and each pair in it; None for a graph without states."""
    if not graph.states:
        return None
    offsets = block(graph, plan.alignment)
    pairs = [
        {
            "input": state.input,
            "output": state.output,
            "input_text": comment(state.input),
            "output_text": comment(state.output),
            "offset": offsets[state.input],
            "bytes": graph.values[state.input].bytes,
            "zero_bytes": _zero_bytes(graph.values[state.input]),
        }
        for state in graph.states
    ]
    size = block_size(graph, plan.alignment)
    return {"offset": 0, "size": size, "counter": size - aligned(COUNTER, plan.alignment), "pairs": pairs}


def _zero_bytes(value: Value) -> list[int]:
    """The bytes of one element that stands for 0, in the byte order of all targets."""
    zero, dtype = (value.qtype.zero_point[0], value.qtype.dtype) if value.qtype else (0, value.dtype)
    return list(np.asarray(zero, numpy_type(dtype).newbyteorder("<")).tobytes())


def recorded(state: Mapping[str, Any]) -> dict[str, Any]:
    """The block for the manifest."""
    kept = ("input", "output", "offset", "bytes")
    pairs = [{key: pair[key] for key in kept} for pair in state["pairs"]]
    return {"offset": state["offset"], "size": state["size"], "pairs": pairs}
