"""3x3 convolution by Winograd's F(2x2, 3x3) in integers: the weights, which are transformed at compile time, the
proofs, and the cost.

In: kernel-level conv2d_s8 nodes and their params. Out: the `Kernel`. It is used only if the user allows it, because its
weights take 3.6 times the flash: 16 int16 for 9 int8. runtime_c/kernels/dsp/conv2d_winograd_s8_dsp.c explains how it
works.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from glowembed.graph.ir import Array, Node
from glowembed.graph.op import only
from glowembed.graph.target import Target
from glowembed.kernels import dsp
from glowembed.ops.conv import Conv2dParams

TWICE_G = np.array([[2, 0, 0], [1, 1, 1], [1, -1, 1], [0, 0, 2]], np.int64)
"""Twice the matrix that transforms weights, so that it has integers; this makes the output four times as large."""

V_BYTES = 2048
"""The bytes for the transformed inputs of several tiles, unless two tiles need more."""

CHANNELS_MAX = 252


def _tiles(p: Conv2dParams) -> int:
    """The number of tiles whose transformed input is kept."""
    return int(max(2, min(V_BYTES // (32 * p.in_c) & ~1, (p.out_w + 3) // 4 * 2)))


def _instance(p: Conv2dParams) -> Mapping[str, int]:
    return {
        "IN": p.in_c, "OUT": p.out_c, "TILES": _tiles(p), "UNROLL": dsp.unroll(p.in_c // 2 - 1), "UP": 32 - p.shift,
    }  # fmt: skip


def _scratch(p: Conv2dParams) -> int:
    tiles = _tiles(p)
    return int(512 + (2 * tiles + 2) * (p.in_c + 32) + tiles * 32 * p.in_c)


def _why_not(node: Node, target: Target) -> str | None:
    p = node.params
    if (p.kernel_h, p.kernel_w, p.stride_h, p.stride_w, p.dilation_h, p.dilation_w, p.groups) != (3, 3, 1, 1, 1, 1, 1):
        return "it is for windows of 3x3 whose taps touch, stride 1 and one group"
    if p.in_c % 4 or p.in_c > CHANNELS_MAX or not 4 <= p.out_c <= 4095:
        return f"it takes 4, 8 .. {CHANNELS_MAX} channels in and 4..4095 out"
    if p.out_w < 2:
        return "the image is narrower than a tile"
    if p.shift not in dsp.SHIFTS:
        return f"the shift of the requantization is {p.shift}"
    weights = np.abs(node.constants["weights"].materialize().astype(np.int64)).reshape(p.out_c, -1).sum(axis=1)
    bound = 128 * weights + np.abs(node.constants["bias"].materialize().astype(np.int64))
    if bound.max() << max(2, 32 - p.shift) >= 2**31:
        return f"four times the sum of channel {int(bound.argmax())} is too large"
    return None


def _arrange(constants: Mapping[str, Array], p: Conv2dParams) -> Mapping[str, Array]:
    """For each four channels: 16 places x pairs of inputs x 4 words; then four times the bias, and the multiplier, of each."""
    w = constants["weights"].astype(np.int64)
    u = np.einsum("ir,orsc,js->oijc", TWICE_G, w, TWICE_G).reshape(p.out_c, 16, p.in_c)
    pairs = u[:, :, dsp.run_order(p.in_c)].reshape(p.out_c, 16, p.in_c // 2, 2)
    words = (pairs[..., 0] & 0xFFFF) | ((pairs[..., 1] & 0xFFFF) << 16)
    index = np.asarray([range(s, s + 4) for s in dsp.block_starts(p.out_c)])
    blocks = words[index].transpose(0, 2, 3, 1).reshape(len(index), -1)
    last = np.stack([4 * constants["bias"].astype(np.int64), constants["multiplier"].astype(np.int64)], axis=1)
    stream = np.concatenate([blocks, last[index].reshape(len(index), -1)], axis=1)
    return dsp.stream_of(stream)


def _cycles(p: Conv2dParams, rows: int) -> float:
    steps, tiles, kept = p.in_c // 2, (p.out_w + 1) // 2, _tiles(p)
    pair = 16 * (16 * steps + 17 + dsp.turns(steps - 1, dsp.unroll(steps - 1))) + 8 * 69 + 30
    halves = -(-tiles // kept) * (38 * (2 * kept + 2) + 120) + 145 * tiles
    row = -(-p.out_c // 4) * -(-tiles // 2) * pair + p.in_c // 4 * halves + 60 * tiles + 300
    return float(-(-rows // 2) * row)


KERNEL = dsp.convolution(
    "ge_conv2d_winograd_s8_dsp",
    _why_not,
    _arrange,
    _instance,
    _scratch,
    _cycles,
    code=lambda p: 1500 + 56 * dsp.unroll(p.in_c // 2 - 1),
    store="disjoint",
    option="winograd",
)


KERNELS = {"conv2d_s8": only(KERNEL)}
