"""Kernels of convolution, depthwise and fully connected layers of float32 on cores of the dsp family with an FPU: when
they apply, their constants and their cost.

In: kernel-level nodes of float32 (ops/float32.py), params and constants. Out: `Kernel`s. runtime_c/kernels/dsp/
conv2d_f32_dsp.c, depthwise3x3_f32_dsp.c, depthwise_f32_dsp.c and fc_f32_dsp.c explain how they work.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from glowembed.graph.ir import Array, Node
from glowembed.graph.op import Cost, Kernel, only
from glowembed.graph.target import Target
from glowembed.kernels import dsp
from glowembed.kernels.shared.padded import padded
from glowembed.kernels.shared.wide import grouped, zeros_why_not
from glowembed.ops.float32 import Conv2dF32Params, FcF32Params

PIXELS = 5
"""The number of pixels that are computed together."""


def _zeros_why_not(node: Node, target: Target) -> str | None:
    return zeros_why_not(node) if target.has_fpu else f"{target.name} has no FPU"


def _conv_why_not(node: Node, target: Target) -> str | None:
    if node.params.out_c // node.params.groups < 4:
        return "a group has fewer than 4 output channels"
    return _zeros_why_not(node, target)


def _turns(p: Conv2dF32Params) -> int:
    """The number of fours of k."""
    return int(-(-p.kernel_h * p.kernel_w * (p.in_c // p.groups) // 4))


def _conv_stream(constants: Mapping[str, Array], p: Conv2dF32Params) -> Mapping[str, Array]:
    """For each four channels: biases, then the weights of the four for each k, with zeros up to four k."""
    parts = []
    for weights, bias, _ in grouped({**constants, "multiplier": constants["bias"]}, p.groups):
        index = np.asarray([range(s, s + 4) for s in dsp.block_starts(len(bias))])
        flat = np.pad(weights.reshape(len(weights), -1), ((0, 0), (0, 4 * _turns(p) - weights[0].size)))
        steps = flat[index].transpose(0, 2, 1).reshape(len(index), -1)
        parts.append(np.concatenate([bias[index], steps], axis=1).reshape(-1))
    return {"stream": np.concatenate(parts).astype(np.float32)}


def _conv_rows_cost(p: Conv2dF32Params, rows: int) -> float:
    fives = -(-rows * p.out_w // PIXELS)
    fours = p.groups * -(-(p.out_c // p.groups) // 4)
    touching = p.kernel_w == 1 or (p.dilation_w == 1 and p.groups == 1)
    window = 110 + 15 * _turns(p) + 60 * p.kernel_h * (1 if touching else p.kernel_w)
    return float(fives * (fours * (140 + 206 * _turns(p)) + PIXELS * p.groups * window) + 200)


def _depthwise_why_not(node: Node, target: Target) -> str | None:
    p = node.params
    window = (p.kernel_h, p.kernel_w, p.dilation_h, p.dilation_w, p.stride_h, p.stride_w)
    if window != (3, 3, 1, 1, 1, 1):
        return "the window is not 3x3 with stride 1"
    if p.in_c != p.out_c or p.out_c % 4:
        return "it takes a multiple of 4 channels in, and as many out"
    return _zeros_why_not(node, target)


def _depthwise_stream(constants: Mapping[str, Array], p: Conv2dF32Params) -> Mapping[str, Array]:
    """For each four channels: biases, then the weights of the nine taps."""
    columns = constants["weights"].reshape(9, -1, 4).transpose(1, 0, 2)
    blocks = np.concatenate([constants["bias"].reshape(-1, 1, 4), columns], axis=1)
    return {"stream": blocks.astype(np.float32).reshape(-1)}


def _depthwise_rows_cost(p: Conv2dF32Params, rows: int) -> float:
    fours = -(-p.out_c // 4)
    threes = p.out_w // 3 - (p.out_w % 3 == 1 < p.out_w)
    blocks = 390.0 * threes + 300.0 * -(-(p.out_w - 3 * threes) // 2)
    return float(rows * fours * (60 + blocks) + (rows + 2) * fours * (20 + 14.0 * p.in_w) + 1000)


def _any_stream(constants: Mapping[str, Array], p: Conv2dF32Params) -> Mapping[str, Array]:
    """For each four channels: biases, then the weights of the taps."""
    rows = np.concatenate([constants["bias"][None], constants["weights"].reshape(-1, p.out_c)])
    return {"stream": rows[:, dsp.fours(p.out_c)].transpose(1, 0, 2).astype(np.float32).reshape(-1)}


def _any_rows_cost(p: Conv2dF32Params, rows: int) -> float:
    tap = 24.0 if p.in_c == p.out_c else 29.0
    four = 140 + p.kernel_h * (30 + tap * p.kernel_w)
    return float(rows * p.out_w * (60 + 6 * p.kernel_w + -(-p.out_c // 4) * four) + 200)


OUTPUTS = 8
"""The outputs that ge_fc_f32_dsp computes together."""


def _fc_stream(constants: Mapping[str, Array], p: FcF32Params) -> Mapping[str, Array]:
    """For each eight outputs: biases, then the weights of each input, with zeros for outputs that do not exist."""
    rows = np.concatenate([constants["bias"][None], constants["weights"].T])
    padded = np.pad(rows, ((0, 0), (0, -p.out_c % OUTPUTS)))
    return {"stream": padded.reshape(len(rows), -1, OUTPUTS).transpose(1, 0, 2).astype(np.float32).reshape(-1)}


def _fc_cost(p: FcF32Params) -> float:
    return float(p.rows * (-(-p.out_c // OUTPUTS) * (150 + 29.0 * p.in_c) + 30) + 50)


CONV = Kernel(
    "ge_conv2d_f32_dsp",
    isa="dsp",
    when=_conv_why_not,
    constants={"stream": "float"},
    arrange=_conv_stream,
    scratch=lambda p: 4 * PIXELS * 4 * _turns(p),
    cost=lambda n, t: Cost(_conv_rows_cost(n.params, n.params.out_h), 2700),
    rows_cost=lambda n, t, rows: _conv_rows_cost(n.params, rows),
    store=lambda p: "rows" if p.groups == 1 else "disjoint",
)

KERNELS = {
    "conv2d_f32": only(CONV, padded(CONV, "conv2d_f32", "float")),
    "fc_f32": only(
        Kernel(
            "ge_fc_f32_dsp",
            isa="dsp",
            when=lambda node, target: None if target.has_fpu else f"{target.name} has no FPU",
            constants={"stream": "float"},
            arrange=_fc_stream,
            cost=lambda n, t: Cost(_fc_cost(n.params), 350),
            store="rows",
        )
    ),
    "depthwise_f32": only(
        Kernel(
            "ge_depthwise_f32_dsp",
            isa="dsp",
            when=_zeros_why_not,
            constants={"stream": "float"},
            arrange=_any_stream,
            cost=lambda n, t: Cost(_any_rows_cost(n.params, n.params.out_h), 900),
            rows_cost=lambda n, t, rows: _any_rows_cost(n.params, rows),
            store="rows",
        ),
        Kernel(
            "ge_depthwise3x3_f32_dsp",
            isa="dsp",
            when=_depthwise_why_not,
            constants={"stream": "float"},
            arrange=_depthwise_stream,
            scratch=lambda p: 4 * 3 * (p.out_w + 3) * int(p.out_c),
            cost=lambda n, t: Cost(_depthwise_rows_cost(n.params, n.params.out_h), 3000),
            rows_cost=lambda n, t, rows: _depthwise_rows_cost(n.params, rows),
            store="rows",
        ),
    ),
}
