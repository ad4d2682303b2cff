"""Fully connected layers on Cortex-M4, M7 and M33: when the kernels apply, their constants and costs.

In: kernel-level nodes, params and constants. Out: `Kernel`s. runtime_c/kernels/dsp/fc_s8_dsp.c, fc_direct_s8_dsp.c and
fc_wide_s8_dsp.c explain how they work.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from glowembed.graph.ir import Array, Node
from glowembed.graph.op import Cost, Kernel, law_number, only, others, together
from glowembed.graph.target import Target
from glowembed.kernels import dsp
from glowembed.law.modes import Mode
from glowembed.ops.gemm import FcParams


def _steps(p: FcParams) -> int:
    """The number of turns of four k (runtime_c/kernels/dsp/fc_s8_dsp.c)."""
    return (dsp.words(p.in_c) + 1) // 2


def _arrange(
    constants: Mapping[str, Array], p: FcParams, mode: Mode, block: dsp.Block = dsp.shared_block
) -> Mapping[str, Array]:
    order = dsp.run_order(p.in_c)
    order += [-1] * (4 * _steps(p) - len(order))
    weights, bias, multiplier = (constants[name] for name in ("weights", "bias", "multiplier"))
    return {"stream": dsp.gemm_stream(weights, bias, multiplier, order, p, block, mode=mode)}


_LAW_CYCLES: Mapping[Mode, int] = {"default": 0, "onnx": 48, "glow": 22, "tflite": 22}
"""Additional cycles for four outputs, by law."""


def _cost(node: Node, target: Target, mode: Mode) -> Cost:
    p = node.params
    blocks, steps = -(-p.out_c // 4), _steps(p)
    return Cost(p.rows * (blocks * (45 + _LAW_CYCLES[mode] + 19 * steps + steps) + 1.6 * p.in_c + 150), 1100)


def _direct_why_not(node: Node, mode: Mode) -> str | None:
    return "the inputs are not a multiple of four" if node.params.in_c % 4 else dsp.why_not(node, mode)


def _direct_cost(node: Node, target: Target, mode: Mode) -> Cost:
    p = node.params
    return Cost(p.rows * (-(-p.out_c // 4) * (45 + _LAW_CYCLES[mode] + 21 * _steps(p)) + 150), 700)


def _fc(mode: Mode) -> tuple[Kernel, ...]:
    """The kernels in one law, with the vector expanded to scratch and without."""
    expanded = Kernel(
        "ge_fc_s8_dsp",
        isa="dsp",
        when=lambda n, t: dsp.why_not(n, mode),
        constants={"stream": "uint32_t"},
        arrange=lambda constants, p: _arrange(constants, p, mode),
        instance=None if mode == "default" else lambda p: law_number(mode),
        scratch=lambda p: 8 * _steps(p) + 4,
        cost=lambda n, t: _cost(n, t, mode),
        store="rows",
    )
    direct = replace(
        expanded,
        symbol="ge_fc_direct_s8_dsp",
        when=lambda n, t: _direct_why_not(n, mode),
        scratch=lambda p: 0,
        cost=lambda n, t: _direct_cost(n, t, mode),
    )
    return expanded, direct


def _words(weights: Array, bias: Array, multiplier: Array) -> dsp.Words:
    """A block as fc_wide_s8_dsp reads it: four sums, for each four k a word of each output, multipliers."""
    halves = weights.astype(np.int8).reshape(4, -1, 4)[:, :, [0, 2, 1, 3]]
    parts = [bias.astype("<i4"), np.ascontiguousarray(halves.transpose(1, 0, 2)).reshape(-1), multiplier.astype("<i4")]
    return np.concatenate([part.view("<u4") for part in parts]).astype(np.uint32)


def _wide_arrange(constants: Mapping[str, Array], p: FcParams) -> Mapping[str, Array]:
    return _arrange(constants, p, "default", _words)


def _wide_cost(node: Node, target: Target) -> Cost:
    p = node.params
    return Cost(p.rows * (-(-p.out_c // 4) * (43 + 24 * _steps(p)) + 1.6 * p.in_c + 150), 1150)


_WIDE = Kernel(
    "ge_fc_wide_s8_dsp",
    isa="dsp",
    when=lambda n, t: dsp.why_not_wide(n),
    constants={"stream": "uint32_t"},
    arrange=_wide_arrange,
    scratch=lambda p: 8 * _steps(p) + 4,
    cost=_wide_cost,
    store="rows",
)
"""The kernel for any weights, with 32-bit sums."""

_LAWS = Kernel(
    "ge_fc_laws_s8_dsp",
    isa="dsp",
    cost=lambda n, t: Cost(2.0 * n.macs + n.params.rows * (20 + 65.0 * n.params.out_c), 520),
    store="rows",
)
"""The kernel for the laws of other engines that takes layers the other kernels refuse: scales of 1/2 and more, and
large sums.
"""


def _asymmetric_arrange(constants: Mapping[str, Array], p: FcParams) -> Mapping[str, Array]:
    whole = dsp.without_zero_points(constants)
    weights, bias, multiplier = (whole[name] for name in ("weights", "bias", "multiplier"))
    return {"stream": dsp.gemm_stream(weights, bias, multiplier, dsp.run_order(p.in_c), p, dsp.pairs_block)}


def _asymmetric_cost(node: Node, target: Target) -> Cost:
    p, steps = node.params, dsp.words(node.params.in_c)
    pairs = -(-p.rows // 2)
    return Cost(pairs * (-(-p.out_c // 4) * (68 + 16.5 * steps) + 3.2 * p.in_c + 260), 900)


ASYMMETRIC = Kernel(
    "ge_fc_aw_s8_dsp",
    isa="dsp",
    when=lambda n, t: "it has fewer than 4 outputs" if n.params.out_c < 4 else dsp.why_not_wide(n),
    constants={"stream": "uint32_t"},
    arrange=_asymmetric_arrange,
    scratch=lambda p: 8 + 8 * dsp.words(p.in_c),
    cost=_asymmetric_cost,
    store="rows",
)
"""The kernel for asymmetric weights, which are stored minus their zero points, in 16 bits."""

KERNELS = {
    "fc_s8": together(_fc, only(_WIDE), others(_LAWS)),
    "fc_aw_s8": together(only(ASYMMETRIC), lambda mode: (dsp.asymmetric(_LAWS, "fc"),)),
}
