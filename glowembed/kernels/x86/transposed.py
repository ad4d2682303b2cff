"""Transposed convolution of all types on x86-64: when the kernels apply, their constants and costs. It is computed as
one convolution for each grid of outputs that have the same taps (runtime_c/kernels/x86/conv_transpose2d_wide_x86.c).

In: kernel-level nodes of ops/conv_transpose.py and ops/conv_transpose_wide.py, params and constants. Out: `Kernel`s.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import product

import numpy as np

from glowembed.graph.ir import Array, Node
from glowembed.graph.op import Cost, Kernel, KernelsOf, only
from glowembed.graph.spatial import ConvTransposeParams
from glowembed.graph.target import Target
from glowembed.kernels.x86 import wide
from glowembed.ops.conv_transpose import ConvTranspose2dParams
from glowembed.ops.conv_transpose_wide import ConvTranspose2dF32Params, ConvTranspose2dS16Params


def _taps(p: ConvTransposeParams) -> list[tuple[list[int], list[int]]]:
    """The rows and columns of the weights that the outputs of each grid use."""
    rows, columns = (
        [[k for k in range(kernel) if k * dilation % stride == rest] for rest in range(stride)]
        for kernel, dilation, stride in (
            (p.kernel_h, p.dilation_h, p.stride_h),
            (p.kernel_w, p.dilation_w, p.stride_w),
        )
    )
    return list(product(rows, columns))


def _stream(
    constants: Mapping[str, Array],
    p: ConvTranspose2dParams | ConvTranspose2dS16Params | ConvTranspose2dF32Params,
    kind: str,
) -> Mapping[str, Array]:
    """The streams of convolutions, one for each grid, whose biases include the zero point of the input."""
    weights = wide.less_zero_point(constants["weights"], constants)
    parts = []
    for rows, columns in _taps(p):
        some = weights[:, rows][:, :, columns].reshape(len(weights), 1, 1, -1)
        bias = (
            constants["bias"]
            if isinstance(p, ConvTranspose2dF32Params)
            else constants["bias"] - p.in_zero_point * some.sum(axis=(1, 2, 3), dtype=np.int64)
        )
        one = {**constants, "weights": some, "bias": bias}
        one.pop("weight_zero_point", None)
        parts.append(wide.stream(one, p, wide.units_of(kind))["stream"])
    return {"stream": np.concatenate(parts)}


def _scratch(p: ConvTransposeParams, kind: str) -> int:
    """The scratch: the windows of a tile, each followed by four bytes."""
    most = max(len(rows) * len(columns) for rows, columns in _taps(p)) * (p.in_c // p.groups)
    return int(wide.WINDOWS * (-(-wide.KINDS[kind].held * most // 4) * 4 + 4))


def _cost(node: Node, target: Target) -> Cost:
    p = node.params
    blocks = p.groups * -(-(p.out_c // p.groups) // wide.UNIT)
    products = p.kernel_h * p.kernel_w * (p.in_c // p.groups) / (p.stride_h * p.stride_w)
    return Cost(p.out_h * p.out_w * (blocks * (12 + 1.2 * products) + 0.5 * products + 60), 7000)


def _kernel(kind: str, name: str) -> Kernel:
    return Kernel(
        **{**wide.named(kind, "conv_transpose2d", "conv_transpose2d"), "symbol": f"ge_conv_transpose2d_{name}_x86"},
        isa="x86",
        when=wide.when_of(kind, less_zero=True),
        arrange=partial(_stream, kind=kind),
        scratch=partial(_scratch, kind=kind),
        cost=_cost,
        store="rows",
    )


KERNELS: Mapping[str, KernelsOf] = {
    f"conv_transpose2d_{op}": only(_kernel(kind, name))
    for op, kind, name in (
        ("s8", "aw", "s8"),
        ("aw_s8", "aw", "aw_s8"),
        ("s16", "s16", "s16"),
        ("s16_w16", "w16", "w16"),
        ("f32", "f32", "f32"),
    )
}
