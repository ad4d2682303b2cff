"""Kernels of Resize for dsp: when they are exact, and their cost."""

from __future__ import annotations

import numpy as np

from glowembed.graph.ir import Node
from glowembed.graph.op import Cost, Kernel, KernelsOf, only
from glowembed.graph.target import Target

WORD = 4
"""The number of channels that the kernels compute at a time."""


def _chooses(node: Node, target: Target) -> str | None:
    p = node.params
    if p.taps_h * p.taps_w != 1:
        return "its outputs are sums"
    return None if p.channels >= WORD else f"a pixel has {p.channels} channels, fewer than a word"


def _doubles(node: Node, target: Target) -> str | None:
    """The reason why the kernel does not apply. It needs columns of a linear resize by two at half-pixel positions, and
    two rows with 2-bit weights.
    """
    p = node.params
    if (p.taps_h, p.taps_w, p.shift) != (2, 2, 4) or p.out_w != 2 * p.in_w:
        return "it is not linear by two"
    if p.channels < WORD:
        return f"a pixel has {p.channels} channels, fewer than a word"
    at, weight = (node.constants[name].materialize().reshape(-1, 2) for name in ("column_at", "column_weight"))
    own = np.arange(p.out_w) // 2
    beside = np.clip(own + np.tile((-1, 1), p.in_w), 0, p.in_w - 1)
    found = [np.where(at == column[:, None] * p.channels, weight, 0).sum(axis=1) for column in (own, beside)]
    edge = own == beside
    exact = np.array_equal(found, [np.where(edge, 4, 3), np.where(edge, 4, 1)])
    return None if exact else "its columns do not lie in half-pixel places"


NEAREST = Kernel(
    "ge_resize_nearest_s8_dsp",
    isa="dsp",
    when=_chooses,
    cost=lambda n, t: Cost(0.6 * n.params.out_h * n.params.out_w * n.params.channels, 700),
    store="rows",
)
DOUBLE = Kernel(
    "ge_resize_double_s8_dsp",
    isa="dsp",
    when=_doubles,
    cost=lambda n, t: Cost(5.0 * n.params.out_h * n.params.out_w * n.params.channels, 300),
    store="rows",
)

KERNELS: dict[str, KernelsOf] = {"resize_s8": only(NEAREST, DOUBLE)}
