"""The kernel of x86-64 for grouped convolutions whose outputs read at most eight channels.

In: kernel-level nodes of `conv2d_s8` and `depthwise_s8`. Out: `Kernel`s for runtime_c/kernels/x86/conv2d_sixteen_s8_x86.c. A vector is
sixteen outputs, or two times sixteen numbers that are added in pairs, whose inputs are in one block of sixteen channels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from glowembed.graph.ir import Array, Node
from glowembed.graph.op import Cost, Kernel, KernelsOf
from glowembed.kernels import x86
from glowembed.law.modes import Mode
from glowembed.ops.conv import Conv2dParams

BLOCK, FOUR = 16, 4
"""The channels of a block, and the channels that each four outputs of a vector share."""


def _parts(p: Conv2dParams) -> int:
    """The number of partial sums of an output: two if it reads eight channels."""
    return 2 if p.in_c // p.groups == 2 * FOUR else 1


def _place(p: Conv2dParams) -> int:
    """The outputs that read the same four channels, or eight channels if there are two parts."""
    return int(p.out_c // p.groups * (FOUR * _parts(p)) // (p.in_c // p.groups))


def _vectors(p: Conv2dParams) -> int:
    return -(-p.in_c // BLOCK) * _place(p) // (FOUR * _parts(p))


def _when(node: Node, mode: Mode) -> str | None:
    p = node.params
    group_in, group_out = p.in_c // p.groups, p.out_c // p.groups
    if group_in not in (1, 2, FOUR, 2 * FOUR):
        return f"groups of {group_in} channels"
    if _place(p) % (FOUR * _parts(p)):
        return f"groups with {group_out} outputs"
    return x86.outputs_fit(node, mode)


def _outputs(p: Conv2dParams) -> Array:
    """The outputs of the numbers of each vector, [vectors, parts, 4, 4], in the order of ge_x86_fours_dot.

    Numbers of channels that do not exist are `out_c` or more.
    """
    place, parts = _place(p), _parts(p)
    vector, part, lane, four = np.ogrid[: _vectors(p), :parts, :FOUR, : BLOCK // FOUR]
    units = place // (FOUR * parts)
    of_channels = vector // units * (BLOCK // FOUR) + four
    return np.asarray(of_channels // parts * place + vector % units * FOUR * parts + part * FOUR + lane)


def _weights(matrix: Array, p: Conv2dParams) -> Array:
    """[outputs, taps, channels of a group] as [vectors, taps, parts, 4, 4, 4], zeros for channels of other groups."""
    outputs = _outputs(p)
    group_in, group_out = p.in_c // p.groups, p.out_c // p.groups
    block = np.arange(len(outputs)) // (_place(p) // (FOUR * _parts(p)))
    channels = block[:, None] * BLOCK + np.arange(BLOCK)
    channel = channels.reshape(-1, 1, 1, BLOCK // FOUR, FOUR) - (outputs // group_out * group_in)[..., None]
    is_there = (outputs < p.out_c)[..., None] & (channel >= 0) & (channel < group_in)
    taken = matrix[np.minimum(outputs, p.out_c - 1)[..., None], :, np.clip(channel, 0, group_in - 1)]
    return np.moveaxis(np.where(is_there[..., None], taken, 0).astype(np.int8), -1, 1)


def _sums(p: Conv2dParams) -> Array:
    """The outputs of the sums of each vector, [vectors, 16], after parts were added."""
    outputs = _outputs(p)
    if _parts(p) == 1:
        return outputs.reshape(len(outputs), BLOCK)
    return np.concatenate([outputs[:, 0, :, ::2], outputs[:, 1, :, ::2]], axis=-1).reshape(len(outputs), BLOCK)


def _arrange(constants: Mapping[str, Array], p: Conv2dParams, mode: Mode) -> Mapping[str, Array]:
    matrix = constants["weights"].reshape(p.out_c, -1)
    rows = x86.requantization(constants, matrix.astype(np.int64), p, mode)
    sums = _sums(p).reshape(-1)
    filled = {
        name: np.where(sums < p.out_c, array[:, np.minimum(sums, p.out_c - 1)], x86.FILL.get(name, 0)).astype(
            array.dtype
        )
        for name, array in rows.items()
    }
    weights = _weights(constants["weights"].reshape(p.out_c, p.kernel_h * p.kernel_w, -1), p)
    return {"weights": np.ascontiguousarray(weights).reshape(-1), **x86.in_blocks(filled, BLOCK)}


def _scratch(p: Conv2dParams) -> int:
    """The scratch: pointers to rows, widened weights, and a ring of expanded rows."""
    columns = (p.out_w - 1) * p.stride_w + (p.kernel_w - 1) * p.dilation_w + 1
    window = (p.kernel_h - 1) * p.dilation_h + 1
    weights = _vectors(p) * p.kernel_h * p.kernel_w * _parts(p) * BLOCK * FOUR
    return int(8 * p.kernel_h + 63 + x86.ELEMENT * (weights + window * columns * p.in_c) + x86.SLACK)


def _rows_cost(node: Node, target: Any, count: int) -> float:
    """The cost of rows: a product for each part of a tap, an epilogue for each vector, expanding the input, and, at levels
    without products of bytes, widening the weights.
    """
    p = node.params
    taps = p.kernel_h * p.kernel_w * _parts(p)
    rows = (count - 1) * p.stride_h + (p.kernel_h - 1) * p.dilation_h + 1
    scattered = {FOUR * _parts(p): 0, 2 * FOUR: 1}.get(_place(p), 8)
    pixels = count * p.out_w * _vectors(p) * (0.6 * taps + 4 + scattered)
    return float(pixels + rows * (15 + p.in_w * p.in_c / 24) + count * 30 + _vectors(p) * taps + 100)


def sixteen(mode: Mode) -> Kernel:
    """The kernel of grouped convolutions for a law."""
    return Kernel(
        "ge_conv2d_sixteen_s8_x86",
        isa="x86",
        words={"LAW": mode},
        when=lambda node, target: _when(node, mode),
        constants=x86.MATRIX,
        arrange=partial(_arrange, mode=mode),
        scratch=_scratch,
        cost=lambda node, target: Cost(_rows_cost(node, target, node.params.out_h), 9000),
        rows_cost=_rows_cost,
        store="rows",
    )


def _depthwise_arrange(constants: Mapping[str, Array], p: Conv2dParams, mode: Mode) -> Mapping[str, Array]:
    """The constants of a convolution whose groups have one channel."""
    return _arrange({**constants, "weights": x86.weights_of_outputs(constants["weights"], p)}, p, mode)


def _depthwise(mode: Mode) -> Kernel:
    """Depthwise convolution with several outputs of a channel: groups of one channel."""
    return replace(
        sixteen(mode),
        symbol="ge_depthwise_sixteen_s8_x86",
        template="ge_conv2d_sixteen_s8_x86",
        when=lambda n, t: "each channel has one output" if n.params.in_c == n.params.out_c else _when(n, mode),
        arrange=partial(_depthwise_arrange, mode=mode),
    )


KERNELS: Mapping[str, KernelsOf] = {
    "conv2d_s8": lambda mode: (sixteen(mode),),
    "depthwise_s8": lambda mode: (_depthwise(mode),),
}
