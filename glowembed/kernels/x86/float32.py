"""Convolution of float32 on x86-64: when, the constants and costs.

In: kernel-level nodes of float32 (ops/float32.py), params and constants. Out: `Kernel`s. runtime_c/kernels/x86/conv2d_f32_x86.c
and depthwise_f32_x86.c explain how they work.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from glowembed.graph.ir import Array, Node
from glowembed.graph.op import Cost, Kernel, only
from glowembed.graph.target import Target
from glowembed.kernels.shared.wide import grouped, zeros_why_not
from glowembed.ops.float32 import Conv2dF32Params

UNIT = 16
"""The channels of a block of weights."""

PIXELS = 6
"""The most pixels that a level computes together."""


def _products(p: Conv2dF32Params) -> int:
    return int(p.kernel_h * p.kernel_w * (p.in_c // p.groups))


def _stream(constants: Mapping[str, Array], p: Conv2dF32Params) -> Mapping[str, Array]:
    """For each 16 channels: biases, then the weights of the 16 for each k, with zeros for channels that do not exist."""
    parts = []
    for weights, bias, _ in grouped({**constants, "multiplier": constants["bias"]}, p.groups):
        rows = np.concatenate([bias[:, None], weights.reshape(len(weights), -1)], axis=1)
        padded = np.pad(rows, ((0, -len(rows) % UNIT), (0, 0)))
        parts.append(padded.reshape(-1, UNIT, rows.shape[1]).transpose(0, 2, 1).reshape(-1))
    return {"stream": np.concatenate(parts).astype(np.float32)}


def _conv_cost(node: Node, target: Target) -> Cost:
    p = node.params
    blocks = p.groups * -(-(p.out_c // p.groups) // UNIT)
    return Cost(p.out_h * p.out_w * (blocks * (12 + 1.5 * _products(p)) + 0.3 * _products(p) + 30), 2500)


def _depthwise_cost(node: Node, target: Target) -> Cost:
    p = node.params
    return Cost(p.out_h * p.out_w * (40 + p.out_c * (0.2 * p.kernel_h * p.kernel_w + 0.3)), 2000)


KERNELS = {
    "conv2d_f32": only(
        Kernel(
            "ge_conv2d_f32_x86",
            isa="x86",
            when=lambda node, target: zeros_why_not(node),
            constants={"stream": "float"},
            arrange=_stream,
            scratch=lambda p: 4 * PIXELS * _products(p),
            cost=_conv_cost,
            store=lambda p: "rows" if p.groups == 1 else "disjoint",
        )
    ),
    "depthwise_f32": only(
        Kernel(
            "ge_depthwise_f32_x86",
            isa="x86",
            when=lambda node, target: (
                None if node.params.in_c == node.params.out_c else "there are more channels out than in"
            ),
            cost=_depthwise_cost,
            store="rows",
        )
    ),
}
