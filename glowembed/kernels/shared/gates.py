"""Checks whether a recurrent node has the form that the kernels of a core compute. In: kernel-level nodes. Out:
reasons why a kernel does not apply.
"""

from __future__ import annotations

import numpy as np

from glowembed.graph.ir import Node

LSTM, GRU = 0, 1
SIGMOID, TANH = 1, 0
"""The numbers of the functions in params if the only table is that of tanh."""

NO_LIMIT = 32768


def form_why_not(node: Node, kind: int) -> str | None:
    """The reason why a node does not have the plain form of LSTM (0) or GRU (1); None if it has."""
    p = node.params
    if p.kind != kind:
        return "it is another recurrent operator"
    if p.has_peephole or p.input_forget or any(limit != NO_LIMIT for limit in p.limits):
        return "it has peepholes, a coupled forget gate or a clip"
    if tuple(p.functions[: 3 - kind]) != (SIGMOID, TANH, TANH)[: 3 - kind]:
        return "its functions are not sigmoid and tanh"
    return None


def sums_why_not(node: Node, limit: int) -> str | None:
    """The reason why a sum of one of the products may reach this limit; None if it cannot."""
    start = node.constants["start"].materialize().astype(np.int64)
    half = len(start) // 2
    for name, part in (("weights", start[:half]), ("recurrent", start[half:])):
        weights = np.abs(node.constants[name].materialize().astype(np.int64))
        largest = int((128 * weights.reshape(half, -1).sum(axis=1) + np.abs(part)).max())
        if largest >= limit:
            return f"a sum can reach {largest}, {limit} and more is too much"
    return None
