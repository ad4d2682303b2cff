"""The Helium kernels: when they are exact, how they want their constants, what they cost.

In: kernel-level nodes, params and constants. Out: `Kernel`s, for the op files to list. Costs are instructions under QEMU,
vector instructions counted twice: 2 beats of 64 bits each.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from glowembed.ir import Array, Node
from glowembed.op import Cost, Kernel

LANES = 16
"""Bytes of a vector."""

STREAM = {"stream": "int8_t"}
"""Weights, biases and multipliers in the order in which a kernel reads them."""


def _high_word(node: Node, target: Any) -> str | None:
    """Requantization must be one VRMULH."""
    return None if node.params.shift == 32 else f"shift is {node.params.shift}, VRMULH shifts by 32"


def _blocks(count: int, size: int) -> int:
    return -(-count // size)


def _padded(array: Array, axis: int, multiple: int) -> Array:
    """Zeros behind the end of `axis`, up to a multiple."""
    widths = [(0, 0)] * array.ndim
    widths[axis] = (0, -array.shape[axis] % multiple)
    return np.pad(array, widths)


def groups_of_four(constants: Mapping[str, Array], passes: tuple[tuple[int, ...], ...]) -> Mapping[str, Array]:
    """For each four channels: weights, pass after pass and in it 16 bytes of each channel in turn; 4 biases; 4 multipliers.

    The weights are those of a matrix product: output channel first, everything else flat, zeros up to whole vectors.
    """
    bias, multiplier = (_padded(constants[n].astype("<i4"), 0, 4).reshape(-1, 4) for n in ("bias", "multiplier"))
    weights = constants["weights"]
    flat = _padded(_padded(weights.reshape(weights.shape[0], -1), 0, 4), 1, LANES)
    vectors = flat.reshape(len(bias), 4, -1, LANES)
    ordered = np.concatenate([vectors[:, list(p)].transpose(0, 2, 1, 3).reshape(len(bias), -1) for p in passes], axis=1)
    parts = [ordered.astype(np.int8), bias.view(np.int8).reshape(-1, 16), multiplier.view(np.int8).reshape(-1, 16)]
    return {"stream": np.concatenate(parts, axis=1).reshape(-1)}


# ---------------------------------------------------------------------------------------------------- conv2d


def _window_bytes(p: Any) -> int:
    """The window of a pixel in whole vectors."""
    return _blocks(p.kernel_h * p.kernel_w * p.in_c, LANES) * LANES


def _tap_bytes(p: Any, count: int) -> int:
    """Bytes of pointers to taps, of a row of padding, and of the padded rows that a row of output sees."""
    columns = (p.out_w - 1) * p.stride_w + (p.kernel_w - 1) * p.dilation_w + 1
    rows = 1 if p.pad_left == 0 and columns <= p.in_w else 2 + (p.kernel_h - 1) * p.dilation_h
    return int(4 * count + rows * columns * p.in_c)


def _conv_when(node: Node, target: Any) -> str | None:
    return f"{node.params.groups} groups" if node.params.groups > 1 else _high_word(node, target)


def _conv_scratch(p: Any) -> int:
    """Three windows and the taps."""
    return 3 * _window_bytes(p) + _tap_bytes(p, p.kernel_h * (1 if p.dilation_w == 1 else p.kernel_w))


def _conv_cost(node: Node, target: Any) -> Cost:
    """Blocks of three pixels by four channels, and the windows."""
    p = node.params
    pixels, steps = p.out_h * p.out_w, _window_bytes(p) // LANES
    blocks = _blocks(pixels, 3) * _blocks(p.out_c, 4)
    return Cost(blocks * (46.0 * steps + 70) + pixels * (12.0 * p.kernel_h + 5 * steps), 1100)


CONV2D = Kernel(
    "ge_conv2d_s8_mve",
    isa="mve",
    when=_conv_when,
    constants=STREAM,
    arrange=lambda constants, p: groups_of_four(constants, ((0, 2), (1, 3))),
    scratch=_conv_scratch,
    cost=_conv_cost,
    store="rows",
)


# ------------------------------------------------------------------------------------------------- depthwise


def _blocks_of_sixteen(constants: Mapping[str, Array]) -> Mapping[str, Array]:
    """For each 16 channels: 16 biases; 16 weights of each tap; 16 multipliers.

    The weights are [kernel_h, kernel_w, channel]. The last block begins 16 channels before the end, and is there only when
    there are channels left; fewer than 16 channels are padded. int32 in the order of the sums in the kernel.
    """
    channels = len(constants["bias"])
    weights = constants["weights"].reshape(-1, channels).astype(np.int8)
    bias, multiplier = (constants[n].astype("<i4") for n in ("bias", "multiplier"))
    if channels < LANES:
        weights, bias, multiplier = _padded(weights, 1, LANES), _padded(bias, 0, LANES), _padded(multiplier, 0, LANES)
    last = len(bias) - LANES
    order = np.arange(LANES).reshape(4, 4).T[[0, 2, 1, 3]].reshape(-1)
    parts = []
    for first in sorted({*range(0, last + 1, LANES), last}):
        block = slice(first, first + LANES)
        sums = (array[block][order].view(np.int8) for array in (bias, multiplier))
        parts += [next(sums), weights[:, block].reshape(-1), next(sums)]
    return {"stream": np.concatenate(parts)}


def _depthwise_when(node: Node, target: Any) -> str | None:
    p = node.params
    return f"{p.out_c} channels from {p.in_c}" if p.in_c != p.out_c else _high_word(node, target)


def _depthwise_scratch(p: Any) -> int:
    """The taps, and with fewer than 16 channels a copy of each in a whole vector and a pointer to it."""
    count = p.kernel_h * p.kernel_w
    return _tap_bytes(p, count) + (20 * count if p.in_c < LANES else 0)


def _depthwise_cost(node: Node, target: Any) -> Cost:
    """Pairs of taps for blocks of 16 channels."""
    p = node.params
    pairs, blocks = _blocks(p.kernel_h * p.kernel_w, 2), _blocks(p.out_c, LANES)
    few = 30.0 * pairs if p.in_c < LANES else 0.0
    return Cost(p.out_h * p.out_w * (blocks * (42.0 * pairs + 60) + 20 + few), 700)


DEPTHWISE = Kernel(
    "ge_depthwise_s8_mve",
    isa="mve",
    when=_depthwise_when,
    constants=STREAM,
    arrange=lambda constants, p: _blocks_of_sixteen(constants),
    scratch=_depthwise_scratch,
    cost=_depthwise_cost,
    store="rows",
)


# ------------------------------------------------------------------------------------------------ the others


def _fc_cost(node: Node, target: Any) -> Cost:
    """Blocks of four outputs, 16 inputs at a time."""
    p = node.params
    return Cost(p.rows * (_blocks(p.out_c, 4) * (20.0 * _blocks(p.in_c, LANES) + 30) + 20), 250)


FC = Kernel(
    "ge_fc_s8_mve",
    isa="mve",
    when=_high_word,
    constants=STREAM,
    arrange=lambda constants, p: groups_of_four(constants, ((0, 1, 2, 3),)),
    cost=_fc_cost,
    store="rows",
)


ADD = Kernel(
    "ge_add_s8_mve",
    isa="mve",
    cost=lambda node, target: Cost(node.params.rows * (4.5 * node.params.row + 20), 150),
    store="elements",
)


def _avgpool_when(node: Node, target: Any) -> str | None:
    p = node.params
    if (p.out_h, p.out_w, p.kernel_h, p.kernel_w, p.pad_top, p.pad_left) != (1, 1, p.in_h, p.in_w, 0, 0):
        return "it averages all of the input"
    if p.channels < LANES:
        return f"{p.channels} channels"
    return _high_word(node, target)


AVGPOOL = Kernel(
    "ge_avgpool_s8_mve",
    isa="mve",
    when=_avgpool_when,
    cost=lambda node, target: Cost(
        _blocks(node.params.channels, LANES) * (12.0 * node.params.in_h * node.params.in_w + 200), 400
    ),
)
