"""The Helium kernels: when they are exact, how they pack their constants, and their cost.

In: kernel-level nodes, params and constants. Out: `Kernel`s. Costs are cycles of the pipeline model in the middle of
its range, fitted to measured layers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from glowembed.graph.ir import Array, Node
from glowembed.graph.isa import Isa
from glowembed.graph.op import Cost, Kernel, KernelsOf, only
from glowembed.law.fixedpoint import LAWS, WORDS
from glowembed.law.modes import Mode
from glowembed.ops.conv import Conv2dParams
from glowembed.records import dataclass

LANES = 16
"""The bytes of a vector."""

STREAM = {"stream": "int8_t"}
"""Weights, biases and multipliers in the order in which a kernel reads them."""


def _law_why_not(node: Node, mode: Mode) -> str | None:
    """The reason why a law does not apply: requantization must be what runtime_c/kernels/mve/ge_mve_law_<mode>.h computes in 32
    bits.
    """
    if not LAWS[mode].by_channel:
        return high_word(node, None)
    words = _words(node.constants["multiplier"].materialize(), mode)
    if mode not in _LEFT:
        return _glow_why_not(node, words)
    shifts = _LEFT[mode](words)
    return "a scale is 1/2 or more" if (words[0].any() and shifts[words[0] > 0].max() >= 0) else None


_LEFT: Mapping[Mode, Callable[[Array], Array]] = {"tflite": lambda w: w[1], "onnx": lambda w: 31 - w[1]}
"""For the laws with one shift: the shift to the left in addition to taking the high word of the product."""


def _glow_why_not(node: Node, words: Array) -> str | None:
    weights, bias = (np.abs(node.constants[n].materialize().astype(np.int64)) for n in ("weights", "bias"))
    channel = -1 if node.op.startswith("depthwise") else 0
    sums = 128 * np.moveaxis(weights, channel, 0).reshape(len(bias), -1).sum(axis=1) + bias
    largest = int((((sums >> words[1]) + 1) * words[0]).max())
    return f"a product can reach {largest}, more than int32 holds" if largest >= 2**31 else None


def _words(multiplier: Array, mode: Mode) -> Array:
    """The requantization words as an array [word, channel]."""
    return multiplier.astype(np.int64).reshape(-1, WORDS[mode]).T


def _law_vectors(multiplier: Array, mode: Mode) -> list[Array]:
    """The requantization words in a stream, each as int32 for every channel
    (runtime_c/kernels/mve/ge_mve_law_<mode>.h).
    """
    words = _words(multiplier, mode)
    zero = words[0] == 0  # a scale below 2^-32
    return [v.astype(np.uint32).view(np.int32) for v in _VECTORS[mode](words, zero)]


LOST = 32
"""A right shift that leaves nothing of 32 bits."""

_VECTORS: Mapping[Mode, Callable[[Array, Array], list[Array]]] = {
    "default": lambda words, zero: [words[0]],
    "glow": lambda words, zero: [words[0], -words[1], -words[2]],
    "tflite": lambda words, zero: [words[0], np.where(zero, -1, words[1])],
    "onnx": lambda words, zero: [2 * words[0] + 1, np.where(zero, -LOST, 31 - words[1])],
}
"""For each law, the function that makes the words which ge_mve_law_<mode>.h reads. zero: the channels whose scale is
below 2^-32.
"""

_SCALE = {"default": 0.0, "glow": 4.0, "tflite": 5.0, "onnx": 22.0}
"""Additional cycles for a vector of four sums, compared with the default law."""


def high_word(node: Node, target: Any) -> str | None:
    """The reason why the kernel does not apply: requantization must be one VRMULH."""
    return None if node.params.shift == 32 else f"shift is {node.params.shift}, VRMULH shifts by 32"


def blocks_of(count: int, size: int) -> int:
    return -(-count // size)


def _padded(array: Array, axis: int, multiple: int) -> Array:
    """The array with zeros after the end of `axis`, up to a multiple."""
    widths = [(0, 0)] * array.ndim
    widths[axis] = (0, -array.shape[axis] % multiple)
    return np.pad(array, widths)


def _sums_of_four(constants: Mapping[str, Array], mode: Mode) -> list[Array]:
    """For each four channels, as rows of bytes: 4 biases, 4 of each requantization word, and 4 negated zero points of
    weights if there are any.
    """
    zero_points = [-constants[n].astype(np.int64) for n in ("weight_zero_point",) if n in constants]
    vectors = (constants["bias"], *_law_vectors(constants["multiplier"], mode), *zero_points)
    return [_padded(v.astype("<i4"), 0, 4).view(np.int8).reshape(-1, 16) for v in vectors]


def groups_of_four(
    constants: Mapping[str, Array], passes: tuple[tuple[int, ...], ...], mode: Mode
) -> Mapping[str, Array]:
    """For each four channels: the weights of each pass, 16 bytes of each channel in turn; 4 biases; the requantization
    words.

    The weights are those of a matrix product: output channel first, everything else flat, zeros up to whole vectors.
    """
    weights = constants["weights"]
    flat = _padded(_padded(weights.reshape(weights.shape[0], -1), 0, 4), 1, LANES)
    groups = len(flat) // 4
    vectors = flat.reshape(groups, 4, -1, LANES)
    ordered = np.concatenate([vectors[:, list(p)].transpose(0, 2, 1, 3).reshape(groups, -1) for p in passes], axis=1)
    parts = [ordered.astype(np.int8), *_sums_of_four(constants, mode)]
    return {"stream": np.concatenate(parts, axis=1).reshape(-1)}


@dataclass(frozen=True)
class _Parts:
    """How conv2d_s8_mve computes a layer with groups: in parts of `joined` groups, with zeros as weights between them."""

    params: Conv2dParams
    joined: int

    @property
    def count(self) -> int:
        return int(self.params.groups) // self.joined

    @property
    def depth(self) -> int:
        """The input channels of a part."""
        return int(self.params.in_c) // self.count

    @property
    def fours(self) -> int:
        """The blocks of four output channels in a part."""
        return blocks_of(self.params.out_c // self.count, 4)

    @property
    def window(self) -> int:
        """The bytes of the window of a pixel in whole vectors."""
        return blocks_of(self.params.kernel_h * self.params.kernel_w * self.depth, LANES) * LANES

    @property
    def across(self) -> int:
        """The contiguous pieces in a row of a window."""
        return 1 if self.params.dilation_w == 1 and self.count == 1 else int(self.params.kernel_w)

    @property
    def weights(self) -> int:
        return self.count * self.fours * 4 * self.window

    def block(self, law: float) -> float:
        """The cycles of three pixels. law: those of the law, more than of the default law."""
        p = self.params
        steps, run, taps = self.window // LANES, p.kernel_w // self.across * self.depth, p.kernel_h * self.across
        in_place = taps == 1 and run % LANES == 0
        four = 34.0 * steps + (34 if steps <= UNROLLED else 70) + 3 * law
        tap = 4.5 if run == 4 else 9.0 if run <= LANES else 10 + 4.5 * blocks_of(run, LANES)
        part = self.fours * four + (0 if in_place else 3 * (20 + taps * tap))
        if self.count > 1:
            part += PART + (REST if p.out_c // self.count % 4 else 0)
        return self.count * part + (30 if in_place else 95)


PART, REST = 90, 100
"""The cycles for three pixels that each part takes besides its channels, and that the channels after its last four take."""


@lru_cache(maxsize=256)
def _parts(p: Conv2dParams, joins: bool = True) -> _Parts:
    """The parts that take the fewest cycles with at most twice as many weights as those that take the fewest."""
    all_parts = [_Parts(p, n) for n in range(1, p.groups + 1) if p.groups % n == 0 and (joins or n == 1)]
    least = min(parts.weights for parts in all_parts)
    return min((parts for parts in all_parts if parts.weights <= 2 * least), key=lambda parts: parts.block(0.0))


def _part_constants(constants: Mapping[str, Array], parts: _Parts) -> Iterator[Mapping[str, Array]]:
    """The constants of each part: those of its output channels, with weights for all its input channels."""
    for first in range(0, parts.params.out_c, parts.params.out_c // parts.count):
        rows = slice(first, first + parts.params.out_c // parts.count)
        some = {name: array.reshape(parts.params.out_c, -1)[rows].reshape(-1) for name, array in constants.items()}
        weights = constants["weights"][rows]
        size = weights.shape[-1]
        wide = np.zeros((*weights.shape[:3], parts.depth), weights.dtype)
        for channels, columns in zip(
            np.split(np.arange(len(weights)), parts.joined), range(0, parts.depth, size), strict=True
        ):
            wide[channels, :, :, columns : columns + size] = weights[channels]
        yield {**some, "weights": wide}


def _conv_arrange(constants: Mapping[str, Array], p: Conv2dParams, mode: Mode) -> Mapping[str, Array]:
    """The constants of all parts, one after the other."""
    parts = _parts(p, "weight_zero_point" not in constants)
    streams = [groups_of_four(some, ((0, 2), (1, 3)), mode) for some in _part_constants(constants, parts)]
    return {"stream": np.concatenate([stream["stream"] for stream in streams])}


def _columns(p: Conv2dParams) -> int:
    """The columns that an output row depends on, from the first to the last, including padding."""
    return int((p.out_w - 1) * p.stride_w + (p.kernel_w - 1) * p.dilation_w + 1)


def _tap_bytes(p: Conv2dParams, count: int) -> int:
    """The bytes of pointers to taps, of a row of padding, and of the padded rows that an output row depends on."""
    rows = 1 if p.pad_left == 0 and _columns(p) <= p.in_w else 2 + (p.kernel_h - 1) * p.dilation_h
    return int(4 * count + rows * _columns(p) * p.in_c)


def _clamp(p: Conv2dParams) -> int:
    """1 if outputs have other limits than int8, to which narrowing moves saturate."""
    return int((p.lo, p.hi) != (-128, 127))


BLOCK, BLOCK_3X3 = 100 + 32, 100
"""The bytes of conv2d_s8_mve_block with ge_mve_taps, and of conv2d3x3_s8_mve_block, which are in scratch and not on the
stack.
"""


def _conv_scratch(parts: _Parts) -> int:
    """The scratch: a block, three windows of each part, and the taps."""
    p = parts.params
    return BLOCK + 3 * parts.count * parts.window + _tap_bytes(p, p.kernel_h * parts.across)


def _taps_cycles(p: Conv2dParams, count: int, across: int) -> float:
    """The cycles of a call for `count` rows, except those of its outputs: for its start, for copying padded rows again,
    and for pointers to taps.
    """
    columns = _columns(p)
    padded = p.pad_left > 0 or columns > p.in_w
    rows = min((count - 1) * p.stride_h + (p.kernel_h - 1) * p.dilation_h + 1, p.in_h) if padded else 0
    row = columns * p.in_c / LANES
    return float(250 + 2.5 * row + rows * (90 + 4.5 * row) + count * (50 + p.kernel_h * (25 + 8 * across)))


def _conv_rows_cost(parts: _Parts, mode: Mode, count: int) -> float:
    """The cost of rows: blocks of three pixels by four channels, and the windows."""
    blocks = blocks_of(count * parts.params.out_w, 3)
    return blocks * parts.block(_SCALE[mode]) + _taps_cycles(parts.params, count, parts.across)


UNROLLED = 9
"""The most steps of 16 inputs that are unrolled; a longer window is computed in a loop."""


def _conv_instance(parts: _Parts) -> Mapping[str, int]:
    steps = parts.window // LANES
    numbers = {"STEPS": steps if steps <= UNROLLED else 0, "CLAMP": _clamp(parts.params)}
    return numbers | ({"PARTS": parts.count} if parts.count > 1 else {})


def _conv_code(parts: _Parts) -> int:
    return 1100 + 88 * (_conv_instance(parts)["STEPS"] or 6)


def conv2d(mode: Mode) -> Kernel:
    """The kernel of conv2d for any window and any groups."""
    return Kernel(
        "ge_conv2d_s8_mve",
        instance=lambda p: _conv_instance(_parts(p)),
        isa="mve",
        when=lambda node, target: _law_why_not(node, mode),
        constants=STREAM,
        arrange=lambda constants, p: _conv_arrange(constants, p, mode),
        scratch=lambda p: _conv_scratch(_parts(p)),
        cost=lambda node, target: Cost(
            _conv_rows_cost(_parts(node.params), mode, node.params.out_h), _conv_code(_parts(node.params)), 630
        ),
        rows_cost=lambda node, target, count: _conv_rows_cost(_parts(node.params), mode, count),
        store="rows",
    )


def _asymmetric_rows_cost(node: Node, count: int) -> float:
    """The cost with zero points of weights: three instructions for four sums, and the sums of the pixels' inputs."""
    parts = _parts(node.params, False)
    more = parts.count * (16 * parts.fours + 3 * (25 + 5.0 * parts.window // LANES))
    return _conv_rows_cost(parts, "default", count) + blocks_of(count * node.params.out_w, 3) * more


ASYMMETRIC = replace(
    conv2d("default"),
    symbol="ge_conv2d_aw_s8_mve",
    template="ge_conv2d_s8_mve",
    headers={"ge_mve_law.h": "ge_mve_law_aw.h"},
    words={"SUMS": "1"},
    instance=lambda p: _conv_instance(_parts(p, False)),
    scratch=lambda p: _conv_scratch(_parts(p, False)),
    cost=lambda node, target: Cost(
        _asymmetric_rows_cost(node, node.params.out_h), 200 + _conv_code(_parts(node.params, False))
    ),
    rows_cost=lambda node, target, count: _asymmetric_rows_cost(node, count),
)
"""The zeros between joined groups would have zero points of weights, too, so groups are not joined."""


def _blocks_of_sixteen(constants: Mapping[str, Array], mode: Mode) -> Mapping[str, Array]:
    """For each 16 channels: 16 biases; 16 weights of each tap; for each four channels, 4 of each requantization word.

    The weights are [kernel_h, kernel_w, channel]. The last block begins 16 channels before the end, and exists only if
    channels are left; fewer than 16 channels are padded. int32 in the order of the sums in the kernel.
    """
    channels = len(constants["bias"])
    weights = constants["weights"].reshape(-1, channels).astype(np.int8)
    bias, law = constants["bias"].astype("<i4"), np.stack(_law_vectors(constants["multiplier"], mode)).astype("<i4")
    if channels < LANES:
        weights, bias, law = _padded(weights, 1, LANES), _padded(bias, 0, LANES), _padded(law, 1, LANES)
    last = len(bias) - LANES
    order = np.arange(LANES).reshape(4, 4).T[[0, 2, 1, 3]].reshape(-1)
    parts = []
    for first in sorted({*range(0, last + 1, LANES), last}):
        block = slice(first, first + LANES)
        fours = law[:, block][:, order].reshape(len(law), 4, 4).transpose(1, 0, 2).reshape(-1)
        parts += [bias[block][order].view(np.int8), weights[:, block].reshape(-1), fours.view(np.int8)]
    return {"stream": np.concatenate(parts)}


def _depthwise_when(node: Node, mode: Mode) -> str | None:
    p = node.params
    return f"{p.out_c} channels from {p.in_c}" if p.in_c != p.out_c else _law_why_not(node, mode)


def _depthwise_scratch(p: Conv2dParams) -> int:
    """The scratch: the taps, and for fewer than 16 channels a copy of each tap in a whole vector and a pointer to
    it.
    """
    count = p.kernel_h * p.kernel_w
    return _tap_bytes(p, count) + (20 * count if p.in_c < LANES else 0)


def _depthwise_rows_cost(node: Node, mode: Mode, count: int) -> float:
    """The cost of rows: pairs of taps for blocks of 16 channels."""
    p = node.params
    taps, blocks = p.kernel_h * p.kernel_w, blocks_of(p.out_c, LANES)
    block = 36.0 * (taps // 2) + 24 * (taps % 2) + 68 + 4 * _SCALE[mode]
    few = 30.0 * taps if p.in_c < LANES else 0.0
    return float(count * p.out_w * (blocks * block + 30 + few) + _taps_cycles(p, count, p.kernel_w))


def depthwise(mode: Mode) -> Kernel:
    """The kernel of depthwise convolution for any window and as many output as input channels."""
    return Kernel(
        "ge_depthwise_s8_mve",
        isa="mve",
        when=lambda node, target: _depthwise_when(node, mode),
        constants=STREAM,
        arrange=lambda constants, p: _blocks_of_sixteen(constants, mode),
        scratch=_depthwise_scratch,
        cost=lambda node, target: Cost(_depthwise_rows_cost(node, mode, node.params.out_h), 1340),
        rows_cost=lambda node, target, count: _depthwise_rows_cost(node, mode, count),
        store="rows",
    )


def _depthwise3x3_when(node: Node, mode: Mode) -> str | None:
    p = node.params
    if (p.kernel_h, p.kernel_w, p.dilation_h, p.dilation_w) != (3, 3, 1, 1) or p.stride_w > 1:
        return "it is 3x3 with a stride across of 1"
    if p.in_c % 8 != 0 or _columns(p) > WIDEST:
        return f"{p.in_c} channels of {_columns(p)} columns"
    if p.pad_left == 0 and _columns(p) <= p.in_w:
        return "rows without padding are read in place"
    return _depthwise_when(node, mode)


WIDEST = 125
"""The most columns of a plane for which offsets of three rows fit a byte."""


NEAR = 50
"""The most columns of a plane for which the offsets of three rows in the next plane fit in a byte."""


def _depthwise3x3_arrange(constants: Mapping[str, Array], mode: Mode) -> Mapping[str, Array]:
    """For each four channels: 8 zeros; the weights of channels 0 2 1 3, column by column, each followed by 7 zeros; the
    requantization words; 4 biases.
    """
    channels = len(constants["bias"])
    weights = constants["weights"].reshape(3, 3, channels).transpose(2, 1, 0).reshape(channels // 4, 4, 9)
    ordered = _padded(weights[:, [0, 2, 1, 3]].astype(np.int8), 2, LANES).reshape(channels // 4, -1)
    bias, *law = _sums_of_four(constants, mode)
    zeros = np.zeros((channels // 4, 8), np.int8)
    return {"stream": np.concatenate([zeros, ordered, *law, bias], axis=1).reshape(-1)}


def _depthwise3x3_blocks(p: Conv2dParams) -> tuple[int, int]:
    """The number of blocks of three and of two pixels in a row of output."""
    if p.out_w == 1:
        return 0, 1
    return (p.out_w // 3 - 1, 2) if p.out_w % 3 == 1 else (p.out_w // 3, p.out_w % 3 // 2)


def _depthwise3x3_rows_cost(node: Node, mode: Mode, count: int) -> float:
    """The cost of rows: blocks of three or two pixels by four channels, and copies of rows."""
    p = node.params
    threes, twos = _depthwise3x3_blocks(p)
    rows = min((count - 1) * p.stride_h + 3, p.in_h)
    block = threes * (105.0 + 3 * _SCALE[mode]) + twos * (80.0 + 2 * _SCALE[mode])
    run = p.out_c // 4 * block + 70 * (threes + twos) + 100
    copy = min(_columns(p), p.in_w) * (9.5 * p.in_c / 8 + 10) + 50
    return float(count * run + rows * copy + 300 + 1.0 * p.in_c * _columns(p) / LANES)


def depthwise3x3(mode: Mode) -> Kernel:
    """The kernel for 3x3 with padding."""
    return Kernel(
        "ge_depthwise3x3_s8_mve",
        isa="mve",
        when=lambda node, target: _depthwise3x3_when(node, mode),
        constants=STREAM,
        arrange=lambda constants, p: _depthwise3x3_arrange(constants, mode),
        scratch=lambda p: 3 * p.in_c * _columns(p) + LANES,
        cost=lambda node, target: Cost(_depthwise3x3_rows_cost(node, mode, node.params.out_h), 1130),
        rows_cost=lambda node, target, count: _depthwise3x3_rows_cost(node, mode, count),
        instance=lambda p: {
            "CLAMP": _clamp(p),
            "NEAR": int(mode == "default" and not _clamp(p) and _columns(p) <= NEAR),
        },
        store="rows",
    )


def _fc_cost(node: Node, mode: Mode) -> Cost:
    """The cost: blocks of four outputs, 16 inputs at a time."""
    p = node.params
    return Cost(p.rows * (blocks_of(p.out_c, 4) * (14.0 * blocks_of(p.in_c, LANES) + 28 + _SCALE[mode]) + 20), 350)


def fc(mode: Mode) -> Kernel:
    """The kernel of fc for any size."""
    return Kernel(
        "ge_fc_s8_mve",
        isa="mve",
        when=lambda node, target: _law_why_not(node, mode),
        constants=STREAM,
        arrange=lambda constants, p: groups_of_four(constants, ((0, 1, 2, 3),), mode),
        cost=lambda node, target: _fc_cost(node, mode),
        store="rows",
    )


def _conv3x3_when(node: Node, mode: Mode) -> str | None:
    p = node.params
    if (p.kernel_h, p.kernel_w, p.stride_w, p.dilation_w) != (3, 3, 1, 1):
        return "it is 3x3 with a stride across of 1"
    if p.in_c not in (16, 32, 48) or p.out_c % 4 != 0 or p.out_w < 3:
        return f"{p.in_c} channels in, {p.out_c} out, {p.out_w} columns"
    return f"{p.groups} groups" if p.groups > 1 else _law_why_not(node, mode)


def _conv3x3_arrange(constants: Mapping[str, Array], p: Conv2dParams, mode: Mode) -> Mapping[str, Array]:
    """For each four channels: two passes of two channels; in each, for every row of the kernel and 16 inputs, three columns."""
    weights = constants["weights"].reshape(-1, 2, 2, 3, 3, p.in_c // LANES, LANES)
    ordered = np.ascontiguousarray(weights.transpose(0, 1, 3, 5, 4, 2, 6)).reshape(p.out_c // 4, -1)
    sums = _sums_of_four(constants, mode)
    return {"stream": np.concatenate([ordered.astype(np.int8), *sums], axis=1).reshape(-1)}


def _conv3x3_rows_cost(node: Node, mode: Mode, count: int) -> float:
    p = node.params
    blocks, four = count * blocks_of(p.out_w, 3), 286.0 * p.in_c / LANES + 60 + 3 * _SCALE[mode]
    return float(blocks * (blocks_of(p.out_c, 4) * four + 25) + _taps_cycles(p, count, 1))


def conv3x3(mode: Mode) -> Kernel:
    """The kernel for 3x3 with a horizontal stride of 1."""
    return Kernel(
        "ge_conv2d3x3_s8_mve",
        isa="mve",
        when=lambda node, target: _conv3x3_when(node, mode),
        constants=STREAM,
        arrange=lambda constants, p: _conv3x3_arrange(constants, p, mode),
        scratch=lambda p: BLOCK_3X3 + _tap_bytes(p, 3),
        cost=lambda node, target: Cost(
            _conv3x3_rows_cost(node, mode, node.params.out_h), 620 + 630 * node.params.in_c // LANES, 340
        ),
        rows_cost=lambda node, target, count: _conv3x3_rows_cost(node, mode, count),
        instance=lambda p: {"DEPTH": p.in_c, "CLAMP": _clamp(p)},
        store="rows",
    )


KERNELS: Mapping[str, KernelsOf] = {
    "conv2d_s8": lambda mode: (conv2d(mode), conv3x3(mode)),
    "conv2d_aw_s8": only(ASYMMETRIC),
    "depthwise_s8": lambda mode: (depthwise(mode), depthwise3x3(mode)),
    "fc_s8": lambda mode: (fc(mode),),
}

ISAS = (
    Isa(
        "mve",
        "defined(__ARM_FEATURE_MVE) && __ARM_FEATURE_MVE > 0",
        "a core with Helium, such as Cortex-M55: compile it with -mcpu=cortex-m55 -mthumb -mfloat-abi=hard, not soft",
        ("mps3-an547",),
    ),
)
