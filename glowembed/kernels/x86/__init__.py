"""The kernels of x86-64: when they are exact, how they pack their constants, and their cost.

In: kernel-level nodes, params and constants. Out: `Kernel`s. Each is one C text for all levels (levels.py,
runtime_c/kernels/x86/ge_x86_portable.h) with one image of its constants: weights in blocks of [16 outputs][4 inputs],
biases for inputs + 128, the requantization words, and their float form if it is proved (laws.py). Costs are cycles at
the best level.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glowembed.graph.ir import Array, Node
from glowembed.graph.isa import Isa
from glowembed.graph.op import Cost, Kernel, KernelsOf
from glowembed.kernels.x86 import laws
from glowembed.kernels.x86.levels import LEVELS
from glowembed.kernels.x86.tiles import POINTS, begins, square, used
from glowembed.law.modes import Mode
from glowembed.ops.conv import Conv2dParams
from glowembed.ops.gemm import FcParams

OUTPUTS, INPUTS = 16, 4
"""The outputs and inputs of a block of weights."""

Int64 = NDArray[np.int64]


def _up(n: int, unit: int) -> int:
    return -(-n // unit) * unit


def _padded(array: Array, axis: int, multiple: int, fill: float = 0) -> Array:
    """The array with `fill` after the end of `axis`, up to a multiple."""
    widths = [(0, 0)] * array.ndim
    widths[axis] = (0, -array.shape[axis] % multiple)
    return np.pad(array, widths, constant_values=fill)


def channels_of(
    constants: Mapping[str, Array], weights: Int64, p: Conv2dParams | FcParams, mode: Mode
) -> laws.Channels:
    """The channels of a layer with [channels, inputs] weights."""
    reach = _reach(weights, constants["bias"].astype(np.int64))
    words = laws.words(constants["multiplier"], mode)
    return laws.Channels(mode, words, p.shift, p.out_zero_point, (p.lo, p.hi), reach)


def requantization(
    constants: Mapping[str, Array], weights: Int64, p: Conv2dParams | FcParams, mode: Mode
) -> dict[str, Array]:
    """For [channels, inputs] weights, the bias and, as rows of channels, the requantization words and their float
    form.
    """
    channels = channels_of(constants, weights, p, mode)
    folded = constants["bias"].astype(np.int64) - 128 * weights.sum(axis=1)
    return {
        "bias": folded.astype(np.int32)[None],
        "multiplier": channels.words.astype(np.int32),
        "scale": laws.float_rows(channels),
    }


FILL = {"multiplier": 1}
"""The constants of channels that do not exist: words that are valid in every law, else zeros."""


def in_blocks(rows: Mapping[str, Array], size: int) -> dict[str, Array]:
    """Rows of channels, [rows, channels], as [blocks][rows][size]; all channels of a block are computed in the same
    form.
    """
    found = {}
    for name, array in rows.items():
        split = _padded(array, 1, size, FILL.get(name, 0)).reshape(len(array), -1, size).swapaxes(0, 1)
        found[name] = np.ascontiguousarray(laws.in_one_form(split) if name == "scale" else split).reshape(-1)
    return found


def _reach(weights: Int64, bias: Int64) -> tuple[Int64, Int64]:
    """The smallest and the largest sum of each channel over all inputs."""
    up, down = np.maximum(weights, 0).sum(axis=1), np.minimum(weights, 0).sum(axis=1)
    return bias - 128 * up + 127 * down, bias + 127 * up - 128 * down


def outputs_fit(node: Node, mode: Mode) -> str | None:
    """The reason why outputs do not fit in int32 before they are clamped, in laws that do not ensure it; None if they
    do.
    """
    p = node.params
    if mode != "default":
        return None
    weights = node.constants["weights"].materialize().astype(np.int64)
    channels = len(node.constants["bias"].materialize())
    matrix = weights.reshape(channels, -1) if weights.shape[0] == channels else weights.reshape(-1, channels).T
    lowest, highest = _reach(matrix, node.constants["bias"].materialize().astype(np.int64))
    multiplier = node.constants["multiplier"].materialize().astype(np.int64)
    largest = (np.maximum(np.abs(lowest), np.abs(highest)) * multiplier).max() >> p.shift
    return None if largest < 2**30 else "an output leaves int32 before it is clamped"


MATRIX = {"weights": "int8_t", "bias": "int32_t", "multiplier": "int32_t", "scale": "float"}

CONVOLUTION = {**MATRIX, "pairs": "int8_t", "records": "uint8_t"}


def blocks(weights: Array) -> Array:
    """Turn [outputs, runs, bytes of a run] into [outputs / 16][runs][bytes / 4][16][4], with zeros after the ends."""
    whole = _padded(_padded(weights.astype(np.int8), 0, OUTPUTS), 2, INPUTS)
    split = whole.reshape(-1, OUTPUTS, whole.shape[1], whole.shape[2] // INPUTS, INPUTS)
    return np.ascontiguousarray(split.transpose(0, 2, 3, 1, 4)).reshape(-1)


def _runs(p: Conv2dParams) -> int:
    """The number of contiguous runs of a window: a row of the window, or a tap if columns are dilated or there are
    groups.
    """
    return int(p.kernel_h * (1 if p.dilation_w == 1 and p.groups == 1 else p.kernel_w))


def _with_zeros(matrix: Array, p: Conv2dParams) -> Array:
    """[outputs, taps, channels of a group] as [outputs, taps, channels of a vector], with zeros for channels of other
    groups.
    """
    first, span = begins(p)
    group_in = p.in_c // p.groups
    output = np.arange(p.out_c)
    place = output // (p.out_c // p.groups) * group_in - first[output // OUTPUTS]
    wide = np.zeros((*matrix.shape[:2], span), matrix.dtype)
    np.put_along_axis(wide, place[:, None, None] + np.arange(group_in), matrix, axis=2)
    return wide


def _conv_arrange(constants: Mapping[str, Array], p: Conv2dParams, mode: Mode) -> Mapping[str, Array]:
    """The constants in blocks; behind the biases, the two rows of `laws.moves` and whether there are moves."""
    matrix = constants["weights"].reshape(p.out_c, -1)
    rows = requantization(constants, matrix.astype(np.int64), p, mode)
    moves = laws.moves(channels_of(constants, matrix.astype(np.int64), p, mode), rows["scale"])
    columns = in_blocks(rows, OUTPUTS)
    moved = [_padded(moves, 1, OUTPUTS).reshape(-1), [moves.any()]]
    columns["bias"] = np.concatenate([columns["bias"], *moved]).astype(np.int32)
    plain = p.kernel_h * p.kernel_w == 1 and p.groups == 1
    pairs, records = products_of_bytes(matrix) if plain else NO_RECORDS
    whole = matrix if p.groups == 1 else _with_zeros(matrix.reshape(p.out_c, p.kernel_h * p.kernel_w, -1), p)
    weights = blocks(whole.reshape(p.out_c, _runs(p), -1))
    return {"weights": weights, **columns, "pairs": pairs, "records": records}


MANY_OUTPUTS = 256
"""The number of outputs from which on the inputs of a few pixels, in all their orders, fit into the scratch of other
levels.
"""

HALF, LARGEST_SUM, TRIES = 16, 128, 10
"""The number of inputs within which a byte shuffle moves bytes; the largest sum of two weights of one sign, because 255
times a larger sum exceeds int16; the number of attempts of `_order`.
"""

HEADER = 16
"""The GE_X86_BYTES_HEADER of the C file."""

NO_RECORDS = (np.zeros(1, np.int8), np.zeros(1, np.uint8))


def products_of_bytes(matrix: Array) -> tuple[Array, Array]:
    """Weights in pairs that cannot saturate and the records of their order, for runtime_c/kernels/x86/ge_x86_bytes.h.

    In: [outputs, inputs]. Out: [outputs / 16][steps][16][4] and [outputs / 16][GE_X86_BYTES_RECORD]; NO_RECORDS if more
    than one step in eight would be for unpaired weights.
    """
    inputs, wide = matrix.shape[1], 2 * HALF
    if inputs % wide or inputs > 256 or len(matrix) > MANY_OUTPUTS:
        return NO_RECORDS
    weights, steps, shuffles = [], [], []
    for block in _padded(matrix.astype(np.int64), 0, OUTPUTS).reshape(-1, OUTPUTS, inputs):
        order = [wide * i + k for i in range(inputs // wide) for k in _order(block[:, wide * i : wide * (i + 1)])]
        cut = _cut(block[:, order])
        rests = (block[:, order] - cut).reshape(OUTPUTS, -1, INPUTS)
        steps.append(np.flatnonzero(rests.any(axis=(0, 2))).tolist())
        weights.append(np.hstack([cut, rests[:, steps[-1]].reshape(OUTPUTS, -1)]))
        shuffles.append(_shuffles(order))
    most = max(map(len, steps))
    if most > min(inputs // 32, HEADER - 2):
        return NO_RECORDS
    image = np.vstack([np.pad(w, ((0, 0), (0, inputs + most * INPUTS - w.shape[1]))) for w in weights])
    headers = [[inputs // INPUTS + most, len(each), *each, *[0] * (HEADER - 2 - len(each))] for each in steps]
    return blocks(image[:, None]), np.hstack([headers, shuffles]).astype(np.uint8).reshape(-1)


def _cut(weights: Int64) -> Int64:
    """[outputs, inputs in pairs], in which the second weight of each pair is limited to what the first allows."""
    first, second = weights[:, ::2], weights[:, 1::2]
    room = LARGEST_SUM - np.abs(first)
    fits = np.where(first * second > 0, np.clip(second, -room, room), second)
    return np.stack([first, fits], axis=2).reshape(weights.shape)


def _order(weights: Int64) -> list[int]:
    """The inputs in an order in which partners are next to each other: as many pairs as can be found without a sum that
    is too large. weights: [outputs, inputs].

    The search is greedy: the next input is the one with the fewest remaining partners, and it takes the partner with
    the fewest; ties are broken by a seeded generator.
    """
    up, down = np.maximum(weights, 0), np.maximum(-weights, 0)
    fits = np.stack([each[:, :, None] + each[:, None, :] for each in (up, down)]).max(axis=(0, 1)) <= LARGEST_SUM
    partners = [sum(1 << int(j) for j in np.flatnonzero(row) if j != i) for i, row in enumerate(fits)]
    chance, best = random.Random(0), list[int]()
    for _ in range(TRIES):
        left, order = (1 << len(partners)) - 1, list[int]()

        while able := {
            i: (partners[i] & left).bit_count() + chance.random() for i in _bits(left) if partners[i] & left
        }:
            one = min(able, key=lambda i: able[i])
            other = min(_bits(partners[one] & left), key=lambda i: able[i])
            order += [one, other]
            left &= ~(1 << one | 1 << other)
        best = max(best, order, key=len)
        if left == 0:
            break
    return best + [i for i in range(len(partners)) if i not in best]


def _bits(word: int) -> list[int]:
    return [i for i in range(word.bit_length()) if word >> i & 1]


def _shuffles(order: list[int]) -> NDArray[np.uint8]:
    """For each 32 inputs, the indices of VPSHUFB into their halves in order, and then exchanged; 128 gives zero."""
    source, place = (np.asarray(each).reshape(-1, 2 * HALF) for each in (order, range(len(order))))
    stays = source // HALF == place // HALF
    both = [np.where(stays == wanted, source % HALF, 128) for wanted in (True, False)]
    return np.stack(both, axis=1).reshape(-1).astype(np.uint8)


LINES, KEPT, SMALL = 4, 3072, 4096
"""The CONV2D_S8_X86_LINES, CONV2D_S8_X86_KEPT and CONV2D_S8_X86_SMALL of the C file."""

ELEMENT = 2
"""The bytes of an expanded input at the level that needs the most."""

SLACK = 64
"""The bytes after a plane of elements that are read but not used."""


def _steps(p: Conv2dParams) -> int:
    """The number of steps of four inputs for a vector of outputs."""
    return _runs(p) * -(-(p.kernel_h * p.kernel_w * begins(p)[1] // _runs(p)) // INPUTS)


def _conv_scratch(p: Conv2dParams) -> int:
    """The scratch: pointers to runs; widened weights of 16 outputs, or of all if there are few, or in the same memory
    the scratch of Winograd's squares; and a ring of expanded rows, or the pixels that a 1x1 convolution gathers.
    """
    columns = (p.out_w - 1) * p.stride_w + (p.kernel_w - 1) * p.dilation_w + 1
    window = (p.kernel_h - 1) * p.dilation_h + 1
    plane = (window + (LINES - 1) * p.stride_h) * columns * p.in_c
    if p.groups == 1 and p.kernel_w * p.in_c <= INPUTS:
        steps = INPUTS * ((p.out_h - 1) * p.stride_h + p.kernel_h) * p.out_w
        plane = max(plane, steps + columns * p.in_c if steps <= SMALL else 0)
    if p.kernel_h * p.kernel_w == 1:
        plane = max(p.out_w, POINTS, columns) * p.in_c
    weights = OUTPUTS * INPUTS * _steps(p)
    whole = weights * (_up(p.out_c, OUTPUTS) // OUTPUTS)
    weights = whole if whole <= KEPT else weights
    return int(8 * LINES * _runs(p) + 63 + max(ELEMENT * weights, _squares(p)) + ELEMENT * plane + SLACK)


def _squares(p: Conv2dParams) -> int:
    """The scratch for some output rows in runtime_c/kernels/x86/ge_x86_winograd.h: sums, transformed inputs, weights of
    16 outputs.
    """
    if not square(p):
        return 0
    return int(6 * 16 * OUTPUTS * 4 + ELEMENT * 16 * (p.in_c * ((p.out_w + 1) // 2 * (LINES // 2) + OUTPUTS) + 32))


PREPARATION = 0.1
"""The cycles for each weight, which is widened or transformed once in a call."""


def _conv_rows_cost(node: Node, target: Any, count: int) -> float:
    """The cost of rows: products of 64 bytes, at best two per cycle; an epilogue for each vector; expanding the input;
    and the preparation of weights in each call, at levels without products of bytes.
    """
    p = node.params
    steps = _steps(p)
    weights = PREPARATION * p.out_c * INPUTS * steps
    vectors = count * p.out_w * -(-p.out_c // OUTPUTS)
    rows = (count - 1) * p.stride_h + (p.kernel_h - 1) * p.dilation_h + 1
    return float(vectors * (0.6 * steps + 4) + rows * (15 + p.in_w * p.in_c / 24) + count * 30 + weights + 100)


def conv2d(mode: Mode) -> Kernel:
    """The kernel of convolutions for a law."""
    return Kernel(
        "ge_conv2d_s8_x86",
        isa="x86",
        words={"LAW": mode},
        when=lambda node, target: outputs_fit(node, mode),
        constants=CONVOLUTION,
        arrange=partial(_conv_arrange, mode=mode),
        scratch=_conv_scratch,
        cost=lambda node, target: Cost(_conv_rows_cost(node, target, node.params.out_h), 9000),
        rows_cost=_conv_rows_cost,
        macros=used,
        store="rows",
    )


def _fc_arrange(constants: Mapping[str, Array], p: FcParams, mode: Mode) -> Mapping[str, Array]:
    matrix = constants["weights"].reshape(p.out_c, -1)
    rows = requantization(constants, matrix.astype(np.int64), p, mode)
    return {"weights": blocks(matrix[:, None]), **in_blocks(rows, OUTPUTS)}


FC_ROWS = 4
"""FC_S8_X86_ROWS of the C file."""


def _fc_scratch(p: FcParams) -> int:
    """The scratch: the elements of the rows that are multiplied together."""
    rows = FC_ROWS if p.rows >= FC_ROWS else 1
    return int(ELEMENT * rows * _up(p.in_c, INPUTS) + SLACK)


def _fc_cycles(node: Node, target: Any, rows: int) -> float:
    """Weights come from the second-level cache, 30 bytes per cycle."""
    p = node.params
    vectors, steps = -(-p.out_c // OUTPUTS), -(-p.in_c // INPUTS)
    single = rows % FC_ROWS
    together = (rows - single) * (vectors * (1.2 * steps + 8) + p.in_c / 24 + 10)
    return float(together + single * (vectors * (2.0 * steps + 12) + p.in_c / 24 + 20) + 50)


def _fc(mode: Mode) -> Kernel:
    return Kernel(
        "ge_fc_s8_x86",
        isa="x86",
        words={"LAW": mode},
        when=lambda node, target: outputs_fit(node, mode),
        constants=MATRIX,
        arrange=partial(_fc_arrange, mode=mode),
        scratch=_fc_scratch,
        cost=lambda node, target: Cost(_fc_cycles(node, target, node.params.rows), 1500),
        rows_cost=_fc_cycles,
        store="rows",
    )


GROUP, REPEAT = 64, 640
"""The DEPTHWISE_S8_X86_GROUP and DEPTHWISE_S8_X86_REPEAT of the C file."""


def _lanes(channels: Array) -> Array:
    """[..., 64 channels] in the order of lanes: channel 16 l + 4 q + j becomes number 16 q + 4 l + j."""
    return channels.reshape(*channels.shape[:-1], 4, 4, 4).swapaxes(-3, -2).reshape(channels.shape)


def _groups(p: Conv2dParams) -> tuple[int, bool]:
    """The number of groups of 64 positions until the weights repeat, and whether groups run across pixels of a row; if
    not, each pixel starts a new group.
    """
    repeat = math.lcm(p.in_c, GROUP)
    return (repeat // GROUP, True) if repeat <= REPEAT else (-(-p.in_c // GROUP), False)


def _pairs_rows(p: Conv2dParams) -> bool:
    """Whether quads of four rows serve two rows of output."""
    return bool(p.kernel_h == 3 and p.stride_h == 1 and p.dilation_h == 1)


def _repeated(p: Conv2dParams, channels: Array, fill: int = 0) -> Array:
    """[..., C] as [groups, ..., 64 channels in the order of lanes]."""
    groups, flat = _groups(p)
    whole = (
        channels[..., np.arange(groups * GROUP) % p.in_c]
        if flat or p.in_c < GROUP
        else _padded(channels, channels.ndim - 1, GROUP, fill)
    )
    return np.moveaxis(_lanes(whole.reshape(*channels.shape[:-1], groups, GROUP)), -2, 0)


def _depthwise_arrange(constants: Mapping[str, Array], p: Conv2dParams, mode: Mode) -> Mapping[str, Array]:
    """The weights as [group][column][four rows of the kernel][row of output][channel][tap]."""
    weights = constants["weights"].astype(np.int8)
    columns = requantization(constants, weights.reshape(-1, p.out_c).T.astype(np.int64), p, mode)
    moved = [np.pad(weights, ((r, 0), (0, 0), (0, 0))) for r in range(1 + _pairs_rows(p))]
    quads = np.stack([_padded(w, 0, INPUTS) for w in moved])
    shaped = quads.reshape(len(moved), -1, INPUTS, p.kernel_w, p.out_c).transpose(3, 1, 0, 2, 4)
    image = np.moveaxis(_repeated(p, shaped), -2, -1)
    repeated = {name: _repeated(p, rows, FILL.get(name, 0)) for name, rows in columns.items()}
    scale = laws.in_one_form(repeated["scale"])
    return {
        "weights": np.ascontiguousarray(image).reshape(-1),
        **{name: np.ascontiguousarray(rows).reshape(-1) for name, rows in {**repeated, "scale": scale}.items()},
    }


def _depthwise_when(node: Node, mode: Mode) -> str | None:
    p = node.params
    return f"{p.out_c} channels from {p.in_c}" if p.in_c != p.out_c else outputs_fit(node, mode)


def weights_of_outputs(weights: Array, p: Conv2dParams) -> Array:
    """Depthwise weights [kh, kw, outputs] as [outputs, taps]."""
    return np.ascontiguousarray(np.moveaxis(weights.reshape(-1, p.out_c), -1, 0))


def _multiplied_arrange(constants: Mapping[str, Array], p: Conv2dParams, mode: Mode) -> Mapping[str, Array]:
    """The constants of a convolution whose groups have one channel."""
    return _conv_arrange({**constants, "weights": weights_of_outputs(constants["weights"], p)}, p, mode)


def _multiplied(mode: Mode) -> Kernel:
    """Depthwise convolution with several outputs of a channel: groups of one channel."""
    return replace(
        conv2d(mode),
        symbol="ge_depthwise_grouped_s8_x86",
        template="ge_conv2d_s8_x86",
        when=lambda n, t: "each channel has one output" if n.params.in_c == n.params.out_c else outputs_fit(n, mode),
        arrange=partial(_multiplied_arrange, mode=mode),
    )


def _depthwise_row(p: Conv2dParams) -> int:
    """The number of elements of an expanded row."""
    columns = (p.out_w - 1) * p.stride_w + (p.kernel_w - 1) * p.dilation_w + 1
    return _up(columns, p.stride_w) * int(p.in_c)


def _depthwise_scratch(p: Conv2dParams) -> int:
    """The scratch: pointers to taps, 16-bit weights if a level needs them, offsets of columns, and a ring of expanded
    rows.
    """
    quads, both = p.kernel_w * (_up(p.kernel_h, INPUTS) // INPUTS), _pairs_rows(p)
    rows = (p.kernel_h - 1) * p.dilation_h + 1 + both
    weights = _groups(p)[0] * quads * (1 + both) * 4 * GROUP
    return int(
        32 * quads + 63 + _up(4 * p.kernel_w, 64) + ELEMENT * (weights + rows * _depthwise_row(p)) + ELEMENT * SLACK
    )


def _depthwise_rows_cost(node: Node, target: Any, count: int) -> float:
    """The cost of rows: interleaving and products of quads, an epilogue, and expanding the input."""
    p = node.params
    groups, flat = _groups(p)
    runs = count * (-(-p.out_w * p.out_c // GROUP) if flat else p.out_w * groups)
    quads = p.kernel_w * (_up(p.kernel_h, INPUTS) // INPUTS)
    shared = 2 if _pairs_rows(p) and count > 1 else 1
    rows = (count - 1) * p.stride_h + (p.kernel_h - 1) * p.dilation_h + 1
    copies = p.in_w * (5 if p.stride_w > 1 else 0) + p.in_w * p.in_c / 24
    return float(runs * (quads * (8.0 / shared + 3) + 12) + rows * (20 + copies) + count * (30 + 8 * quads) + 100)


def _depthwise(mode: Mode) -> Kernel:
    return Kernel(
        "ge_depthwise_s8_x86",
        isa="x86",
        words={"LAW": mode, "PAIRS": str(int(mode == "default"))},
        when=lambda node, target: _depthwise_when(node, mode),
        constants=MATRIX,
        arrange=partial(_depthwise_arrange, mode=mode),
        scratch=_depthwise_scratch,
        cost=lambda node, target: Cost(_depthwise_rows_cost(node, target, node.params.out_h), 4000),
        rows_cost=_depthwise_rows_cost,
        store="rows",
    )


KERNELS: Mapping[str, KernelsOf] = {
    "conv2d_s8": lambda mode: (conv2d(mode),),
    "depthwise_s8": lambda mode: (_depthwise(mode), _multiplied(mode)),
    "fc_s8": lambda mode: (_fc(mode),),
}

ISAS = (Isa("x86", levels=LEVELS),)
