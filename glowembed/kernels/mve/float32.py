"""Convolution, depthwise and fully connected layers of float32 for Helium: when the kernels apply, their constants and
costs.

In: kernel-level nodes of float32 (ops/float32.py), params and constants. Out: `Kernel`s. runtime_c/kernels/mve/ge_mve_float.h
and depthwise_f32_mve.c explain how they work.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from glowembed.graph.ir import Array, Node
from glowembed.graph.op import Cost, Kernel, Store, only
from glowembed.graph.target import Target
from glowembed.kernels.mve import lines
from glowembed.kernels.shared.wide import grouped, zeros_why_not
from glowembed.ops.float32 import Conv2dF32Params, FcF32Params

EIGHT = 8
"""The number of channels that are computed together."""

FLOOR = 2.0**-50
"""The smallest magnitude other than 0 of inputs for which no vector contains a subnormal number."""


def _why_not(node: Node, target: Target) -> str | None:
    """The reason why vectors would give different bits, or None."""
    if not target.has_fpu:
        return f"{target.name} has no FPU"
    limits: Array = np.asarray([node.params.lo, node.params.hi], np.float32)
    for name, numbers in (*((n, c.materialize()) for n, c in node.constants.items()), ("limits", limits)):
        tiny = (numbers != 0) & (np.abs(numbers) < FLOOR)
        if tiny.any():
            return f"{name} holds {numbers[tiny][0]}, smaller than 2^-50: a vector would flush its products"
    return zeros_why_not(node)


def _eights(weights: Array, bias: Array) -> Array:
    """For each eight channels: biases, then the weights of the eight for each k, with zeros up to four k and eight channels."""
    flat = weights.reshape(len(weights), -1)
    padded = np.pad(flat, ((0, -len(flat) % EIGHT), (0, -flat.shape[1] % 4)))
    rows = np.concatenate([np.pad(bias, (0, -len(bias) % EIGHT))[:, None], padded], axis=1)
    return rows.reshape(-1, EIGHT, rows.shape[1]).transpose(0, 2, 1).reshape(-1).astype(np.float32)


def _pair(channels: int, turns: int) -> float:
    """The cycles of all channels of two pixels."""
    return -(-channels // EIGHT) * (60 + 64.0 * turns) + 60


def _conv_stream(constants: Mapping[str, Array], p: Conv2dF32Params) -> Mapping[str, Array]:
    parts = grouped({**constants, "multiplier": constants["bias"]}, p.groups)
    return {"stream": np.concatenate([_eights(weights, bias) for weights, bias, _ in parts])}


def _turns(p: Conv2dF32Params) -> int:
    """The number of fours of k."""
    return int(-(-p.kernel_h * p.kernel_w * (p.in_c // p.groups) // 4))


def _conv_rows_cost(p: Conv2dF32Params, rows: int) -> float:
    pixels, touching = rows * p.out_w, p.dilation_w == 1 and p.groups == 1
    window = 60 + 7.5 * _turns(p) + 85 * p.kernel_h * (1 if touching else p.kernel_w)
    return float(p.groups * (-(-pixels // 2) * _pair(p.out_c // p.groups, _turns(p)) + pixels * window) + 200)


def _depthwise_why_not(node: Node, target: Target) -> str | None:
    p = node.params
    return "there are more channels out than in" if p.in_c != p.out_c else _why_not(node, target)


def _depthwise_stream(constants: Mapping[str, Array], p: Conv2dF32Params) -> Mapping[str, Array]:
    """For each four channels: biases, then the weights of each tap."""
    weights = constants["weights"].reshape(p.kernel_h * p.kernel_w, -1)
    rows = np.concatenate([constants["bias"][None, :], weights])
    padded = np.pad(rows, ((0, 0), (0, -rows.shape[1] % 4)))
    return {"stream": padded.reshape(len(rows), -1, 4).transpose(1, 0, 2).reshape(-1).astype(np.float32)}


def _lines_stream(constants: Mapping[str, Array], p: Conv2dF32Params) -> Mapping[str, Array]:
    """For each channel: bias, weights."""
    rows = np.concatenate([constants["bias"][None, :], constants["weights"].reshape(9, -1)])
    return {"stream": rows.T.reshape(-1).astype(np.float32)}


def _lines_rows_cost(p: Conv2dF32Params, rows: int) -> float:
    return lines.rows_cost(p, rows, lines.Cycles(two=95, one=57, gathered=2.6))


def _slot(p: Conv2dF32Params) -> int:
    """The number of floats in a slot."""
    phase = max(p.out_w, 5) + (p.kernel_w - 1) * p.dilation_w // p.stride_w
    return int(-(-p.in_c // 4) * 4 * p.stride_w * phase)


def _depthwise_scratch(p: Conv2dF32Params) -> int:
    slots = (p.kernel_h - 1) * p.dilation_h + 1
    return 4 * int(slots * (_slot(p) + 1) + p.kernel_h * p.kernel_w)


def _depthwise_rows_cost(p: Conv2dF32Params, rows: int) -> float:
    fours, taps, fives = -(-p.in_c // 4), p.kernel_h * p.kernel_w, -(-p.out_w // 5)
    loaded = (rows - 1) * p.stride_h + (p.kernel_h - 1) * p.dilation_h + 1
    block = 130 + 30.0 * taps
    load = fours * p.stride_w * (40 + 11.0 * p.in_w / p.stride_w)
    return float(rows * (fours * fives * block + 15 * taps + 100) + loaded * load + _depthwise_scratch(p) / 8 + 200)


def _fc_store(p: FcF32Params) -> Store:
    """Two rows are computed at a time: where they are read in place for several blocks of outputs, the second row's outputs are
    written while the first row is still read.
    """
    return "disjoint" if p.rows > 1 and p.out_c > 8 and p.in_c % 4 == 0 else "rows"


def _fc_cost(p: FcF32Params) -> float:
    turns = -(-p.in_c // 4)
    return float(-(-p.rows // 2) * (_pair(p.out_c, turns) + 20 * turns + 100) + 100)


KERNELS = {
    "conv2d_f32": only(
        Kernel(
            "ge_conv2d_f32_mve",
            isa="mve",
            when=_why_not,
            constants={"stream": "float"},
            arrange=_conv_stream,
            scratch=lambda p: 2 * 16 * _turns(p),
            cost=lambda n, t: Cost(_conv_rows_cost(n.params, n.params.out_h), 1300),
            rows_cost=lambda n, t, rows: _conv_rows_cost(n.params, rows),
            store=lambda p: "rows" if p.groups == 1 else "disjoint",
        )
    ),
    "depthwise_f32": only(
        Kernel(
            "ge_depthwise_lines_f32_mve",
            isa="mve",
            when=lambda node, target: lines.why_not(node.params) or _depthwise_why_not(node, target),
            constants={"stream": "float"},
            arrange=_lines_stream,
            scratch=lambda p: lines.scratch(p, 4),
            cost=lambda n, t: Cost(_lines_rows_cost(n.params, n.params.out_h), 2300),
            rows_cost=lambda n, t, rows: _lines_rows_cost(n.params, rows),
        ),
        Kernel(
            "ge_depthwise_f32_mve",
            isa="mve",
            when=_depthwise_why_not,
            constants={"stream": "float"},
            arrange=_depthwise_stream,
            scratch=_depthwise_scratch,
            cost=lambda n, t: Cost(_depthwise_rows_cost(n.params, n.params.out_h), 1500),
            rows_cost=lambda n, t, rows: _depthwise_rows_cost(n.params, rows),
            store="rows",
        ),
    ),
    "fc_f32": only(
        Kernel(
            "ge_fc_f32_mve",
            isa="mve",
            when=_why_not,
            constants={"stream": "float"},
            arrange=lambda constants, p: {"stream": _eights(constants["weights"], constants["bias"])},
            scratch=lambda p: 2 * 16 * (-(-p.in_c // 4)) if p.in_c % 4 else 0,
            cost=lambda n, t: Cost(_fc_cost(n.params), 900),
            store=_fc_store,
        )
    ),
}
