"""Convolution on Cortex-M4, M7 and M33 in blocks of pixels of one output channel: when the kernels apply, their
constants and cost.

In: kernel-level conv2d and depthwise nodes and their params. Out: the `Kernel`s.
runtime_c/kernels/dsp/conv2d_block_s8_dsp.c explains how they work. They are for layers with few outputs in each group,
for which kernels that compute four at a time waste some, and for windows that cost more to gather than to multiply.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, replace
from functools import lru_cache
from math import gcd

import numpy as np

from glowembed.graph.ir import Array, Node
from glowembed.graph.op import Cost, Kernel, Store, only
from glowembed.kernels import dsp
from glowembed.ops.conv import Conv2dParams
from glowembed.records import dataclass

OFFSET_MAX = 4095
"""The largest offset of a load or store."""

PIXELS_MAX = {0: 8, 1: 7}
"""The most pixels of a block, by WORDS (0 or 1)."""

TAPS_MAX = 40
"""The most taps of a window in each direction."""

UNROLLED_MAX = 1024
"""The most bytes of code for the rows of a window without a loop."""

PLACES = 3
"""The number of rows of a window that are kept in registers."""


@dataclass(frozen=True)
class _Block:
    """The numbers of an instance, named after their #defines."""

    pixels: int
    rows: int
    taps: int
    tap: int
    pixel: int
    ratio: int
    out: int
    depth: int
    outs: int
    words: int
    deep: int
    loop: int
    up: int
    down: int
    step: int
    next: int

    def chunks(self) -> list[tuple[int, int]]:
        """The taps that are multiplied together, each as (first tap, last tap + 1)."""
        count = self.taps if self.words else -(-self.taps // 4)
        return [(i * self.taps // count, (i + 1) * self.taps // count) for i in range(count)]

    def row(self) -> tuple[float, int]:
        """The cycles and the bytes of code for one row of the window and one unit of depth."""
        if self.words:
            return self.taps * (5 + 4 * self.pixels + 1.5 * (self.pixels - 1)), self.taps * (12 + 20 * self.pixels)
        cycles, code = 0, 0
        for first, last in self.chunks():
            count, few = last - first, last - first < 3
            loads = self.ratio * (self.pixels - 1) + count if self.ratio else self.pixels * count
            bursts = -(-loads // (2 + few + (self.pixels < 8) + (self.pixels < 7)))
            cycles += loads + bursts + (1 if few else 4) + self.pixels * count
            code += 4 * (loads + self.pixels * count + 3)
        return cycles, code

    def units(self) -> int:
        """How often a window is traversed for one sum: the input channels of a group, or fours of them."""
        return -(-self.depth // 4) if self.words else self.depth

    def block(self, groups: int) -> float:
        """The cycles of a block for all channels."""
        within = self.units() if self.deep else 1
        units = self.units() // within
        row = within * self.row()[0] + (12 if self.loop else 3 if self.rows <= PLACES else 6)
        unit = self.rows * row + (8 if units > 1 else 0) + (2 if self.depth % 4 and self.words else 0)
        output = units * unit + 9 + (5 if self.up else 4) * self.pixels + (2 if units > 1 else 0)
        group = self.outs * (output + (8 if self.outs > 1 else 0)) + 8
        return 20 + groups * group


def _apart(taps: int, stride: int, dilation: int) -> int:
    """The distance between the pixels of a block, which makes their windows a whole number of taps apart."""
    return dilation // gcd(stride, dilation) if taps > 1 else 1


def _blocks(count: int, apart: int, pixels: int) -> int:
    """The number of blocks in a row or column of `count` outputs."""
    return sum(-(-((count - 1 - first) // apart + 1) // pixels) for first in range(min(apart, count)))


def _columns(p: Conv2dParams) -> int:
    """The columns that an output row depends on, including padding."""
    return int((p.out_w - 1) * p.stride_w + (p.kernel_w - 1) * p.dilation_w + 1)


def _unrolled(block: _Block) -> _Block:
    """The instance, with loops over the input channels and the rows of the window if without them the code would be too
    large.
    """
    code, units = block.row()[1], block.units()
    deep = units == 1 or block.rows * units * code <= UNROLLED_MAX
    return replace(block, deep=int(deep), loop=int(not deep and block.rows > 1 and block.rows * code > UNROLLED_MAX))


def _across(p: Conv2dParams) -> Iterator[_Block]:
    """All instances that could compute the layer with blocks in a row."""
    apart = _apart(p.kernel_w, p.stride_w, p.dilation_w)
    tap = (p.dilation_w if p.kernel_w > 1 else p.stride_w) * p.in_c
    shapes = [(apart, apart * p.stride_w * p.in_c // tap)]
    if p.kernel_w > 1 and shapes != [(1, 1)]:
        shapes.append((1, 0))
    for words, pixels in _sizes(p):
        for apart, ratio in shapes:
            if pixels <= max(p.out_w // apart, 1):
                pixel, out = apart * p.stride_w * p.in_c, apart * p.out_c
                numbers = pixels, p.kernel_h, p.kernel_w, tap, pixel, ratio, out
                yield _unrolled(_Block(*numbers, *_channels(p), words, 0, 0, 32 - p.shift, 0, 0, 0))


def _down(p: Conv2dParams) -> Iterator[_Block]:
    """All instances that could compute the layer with blocks in a column."""
    pitch, most = _columns(p) * p.in_c, _apart(p.kernel_h, p.stride_h, p.dilation_h)
    for words, pixels in _sizes(p):
        for apart, shared in [(most, True)] if most == 1 else [(most, True), (1, False)]:
            if 1 < pixels <= -(-p.out_h // apart) and p.stride_w * p.in_c <= 0xFFFF:
                step = _step(p, apart)
                pixel = apart * p.stride_h // step * pitch
                tap = p.dilation_h // step * pitch if p.kernel_h > 1 else pixel
                out, ratio = apart * p.out_w * p.out_c, pixel // tap if shared else 0
                numbers = pixels, p.kernel_w, p.kernel_h, tap, pixel, ratio, out
                steps = p.stride_w * p.in_c, p.out_c
                yield _unrolled(_Block(*numbers, *_channels(p), words, 0, 0, 32 - p.shift, 1, *steps))


def _step(p: Conv2dParams, apart: int) -> int:
    """The rows of the input from one copied row to the next. Without padding, rows are read in place if possible."""
    if not _copies(p):
        return 1
    return gcd(apart * p.stride_h, p.dilation_h) if p.kernel_h > 1 else int(p.stride_h)


def _seen(p: Conv2dParams, block: _Block) -> int:
    """The number of rows that a vertical block needs."""
    pitch = _columns(p) * p.in_c
    last = (block.pixels - 1) * block.pixel + (block.tap * (block.taps - 1))
    return int(last // pitch + 1)


def _sizes(p: Conv2dParams) -> Iterator[tuple[int, int]]:
    """All pairs of WORDS and PIXELS."""
    for words in (0, 1) if p.in_c // p.groups >= 4 else (0,):
        for pixels in range(1, PIXELS_MAX[words] + 1):
            yield words, pixels


def _channels(p: Conv2dParams) -> tuple[int, int]:
    return p.in_c // p.groups, p.out_c // p.groups


def _fits(block: _Block) -> bool:
    """Whether all offsets fit into loads and stores."""
    reach = (block.pixels - 1) * block.pixel + (block.taps - 1) * block.tap + (block.depth if block.deep else 0)
    return max(reach, (block.pixels - 1) * block.out) <= OFFSET_MAX


@lru_cache(maxsize=1024)
def _instance(p: Conv2dParams, down: bool) -> _Block | None:
    """The fastest instance, or None if offsets are too large even for one pixel."""
    fitting = [block for block in (_down(p) if down else _across(p)) if _fits(block)]
    return min(fitting, key=lambda block: (_cycles(p, block, p.out_h), block.pixels, block.words), default=None)


def _block(p: Conv2dParams, down: bool) -> _Block:
    block = _instance(p, down)
    assert block is not None
    return block


def _copies(p: Conv2dParams) -> bool:
    return bool(p.pad_left > 0 or _columns(p) > p.in_w)


def _scratch(p: Conv2dParams) -> int:
    row, span = _columns(p) * p.in_c + 3 & ~3, (p.kernel_h - 1) * p.dilation_h + 1
    return int(4 * max(p.kernel_h, PLACES) + 4 * span + row * (1 + (span if _copies(p) else 0)))


def _down_scratch(p: Conv2dParams) -> int:
    block, out_row = _block(p, True), p.out_w * p.out_c
    return int(
        4 * max(p.kernel_w, PLACES) + _seen(p, block) * _columns(p) * p.in_c + (block.pixels - 1) * block.out + out_row
    )


def _down_store(p: Conv2dParams) -> Store:
    """The store rule of vertical blocks, which write their outputs before those in between are computed."""
    return "disjoint" if _block(p, True).out > p.out_w * p.out_c else "rows"


def _why_not(p: Conv2dParams, down: bool) -> str | None:
    if p.kernel_h > TAPS_MAX or p.kernel_w > TAPS_MAX or p.in_c > OFFSET_MAX or p.out_c > OFFSET_MAX:
        return "the window is too large"
    if down and p.out_h < 2:
        return "there is one row of outputs"
    if _instance(p, down) is None:
        return "a row has too many bytes"
    return None


def _arrange(weights: Array, constants: Mapping[str, Array], block: _Block) -> Mapping[str, Array]:
    """For each output channel: bias, words, multiplier. weights: [O, kh, kw, depth].

    There are words for each row, unit of depth and chunk of taps; a loop over units is the outermost one.
    """
    w = weights.astype(np.int8)
    if block.down:
        w = w.transpose(0, 2, 1, 3)
    if block.words:
        words = _fours(w).transpose(0, 1, 3, 2)
    else:
        words = np.stack([_taps(w[:, :, first:last]) for first, last in block.chunks()], axis=-1)
    if not block.deep:
        words = words.transpose(0, 2, 1, 3)
    ends = [constants[name].astype("<i4").view("<u4").reshape(-1, 1) for name in ("bias", "multiplier")]
    return {"stream": np.concatenate([ends[0], words.reshape(len(w), -1), ends[1]], axis=1).reshape(-1)}


def _fours(w: Array) -> Array:
    """[O, rows, taps, depth] as words of four channels. If the depth is not a multiple of four, the second word
    overlaps the first.
    """
    twice = -w.shape[3] % 4
    w = np.concatenate([w[..., :4], np.zeros((*w.shape[:3], twice), np.int8), w[..., 4:]], axis=3)
    return np.ascontiguousarray(w).view("<u4")


def _taps(w: Array) -> Array:
    """[O, rows, 1..4 taps, depth] as words [O, rows, depth]: four bytes, or two half-words if there are at most two
    taps.
    """
    count = w.shape[2]
    kind, places = ("<i2", 2) if count <= 2 else ("i1", 4)
    padded = np.pad(w.astype(kind), ((0, 0), (0, 0), (0, places - count), (0, 0)))
    return np.ascontiguousarray(padded.transpose(0, 1, 3, 2)).view("<u4")[..., 0]


def _cycles(p: Conv2dParams, block: _Block, rows: int) -> float:
    """The cycles of a call. Rows are copied once, except that every call copies those of its first window again."""
    work, row = block.block(p.groups), _columns(p) * p.in_c
    if block.down:
        return _cycles_down(p, block, rows, work, row)
    calls = min(block.out // p.out_c, p.out_w)
    each = _blocks(p.out_w, block.out // p.out_c, block.pixels) * work + 45 * calls + 90 + 16 * p.kernel_h
    copied = min((rows - 1) * p.stride_h + (p.kernel_h - 1) * p.dilation_h + 1, p.in_h) if _copies(p) else 0
    return float(rows * each + copied * (60 + 0.9 * row) + 1.2 * row + 150)


def _cycles_down(p: Conv2dParams, block: _Block, rows: int, work: float, row: int) -> float:
    """The cycles of a call with vertical blocks, which copy the rows that they need: all rows if there is horizontal
    padding, else the first and the last ones.
    """
    out_row = p.out_w * p.out_c
    apart = min(block.out // out_row, rows)
    blocks = _blocks(rows, apart, block.pixels)
    seen, border = _seen(p, block), apart * (2 if p.pad_top else 1)
    copied = blocks * seen * (50 + 0.9 * row) if _copies(p) else min(blocks, border) * (0.9 * seen * row + 150)
    written = max(blocks - rows // block.pixels, 0) * block.pixels * (0.9 * out_row + 30)
    return float(blocks * (p.out_w * work + 130 + 10 * p.kernel_w + 26 * block.pixels) + copied + written + 120)


def _cost(node: Node, down: bool) -> Cost:
    p, block = node.params, _instance(node.params, down)
    if block is None:
        return Cost(8.0 * node.macs)
    rows = (1 if block.loop else block.rows) * ((block.units() if block.deep else 1) * block.row()[1] + 12)
    return Cost(_cycles(p, block, p.out_h), (1300 if down else 1000) + 16 * block.pixels + rows)


Law = Callable[[Node], str | None]


def _kernels(op: str, ohwi: Callable[[Array], Array], sums_why_not: Law) -> tuple[Kernel, ...]:
    return tuple(_kernel(f"ge_{op}_{way}_s8_dsp", way == "down", ohwi, sums_why_not) for way in ("block", "down"))


def _kernel(symbol: str, down: bool, ohwi: Callable[[Array], Array], sums_why_not: Law) -> Kernel:
    return Kernel(
        symbol,
        isa="dsp",
        when=lambda n, t: _why_not(n.params, down) or sums_why_not(n),
        constants={"stream": "uint32_t"},
        arrange=lambda constants, p: _arrange(ohwi(constants["weights"]), constants, _block(p, down)),
        instance=lambda p: {name.upper(): number for name, number in asdict(_block(p, down)).items()},
        scratch=_down_scratch if down else _scratch,
        cost=lambda n, t: _cost(n, down),
        rows_cost=lambda n, t, rows: _cycles(n.params, _block(n.params, down), rows),
        store=_down_store if down else "rows",
        template="" if symbol == TEMPLATE else TEMPLATE,
    )


TEMPLATE = "ge_conv2d_block_s8_dsp"

CONV2D = _kernels("conv2d", lambda w: w, dsp.why_not_wide)

DEPTHWISE = _kernels("depthwise", lambda w: w.transpose(2, 0, 1)[..., None], dsp.depthwise_sums_why_not)
"""The kernels for layers in which each channel reads one input channel."""


KERNELS = {"conv2d_s8": only(*CONV2D), "depthwise_s8": only(*DEPTHWISE)}
