"""Kernels with three sums in two words, for the cores without DSP instructions (ARMv6-M, Cortex-M3).

In: kernel-level nodes, params and constants. Out: `Kernel`s. runtime_c/kernels/armv6m/threes.h explains why three sums fit,
ge_threes.h the order in which the words are read. The words take 2.7 bytes of flash for each weight. Costs are cycles,
of the measured instructions and their kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glowembed.graph.ir import Array, Node
from glowembed.graph.op import Cost, Kernel, only
from glowembed.ops.conv import Conv2dParams
from glowembed.ops.gemm import FcParams
from glowembed.records import dataclass

UNROLL = 8
"""The number of inputs is rounded up to a multiple of this."""

CHUNK = 64
"""The fewest inputs of a chunk; the sum of so many weights is at most LARGEST, whatever they are."""

LARGEST = 8191
"""The largest sum of |w| over a chunk, for which 255 * sum < 2^21 and 128 * sum < 2^20."""

SPLIT = 9
"""The number of low bits of a multiplier in the armv6m form, in which products must fit in 32 bits."""

Int64 = NDArray[np.int64]


@dataclass(frozen=True)
class _Group:
    """`size` channels from `first` on, including padding channels. plain: whether one channel has a word of its own."""

    first: int
    size: int
    plain: bool = False

    def slots(self) -> list[int]:
        """The slot of each output: 3 for the channel with its own word, or sum 0, 1 or 2 of a three."""
        return [3] * self.plain + [0, 1, 2] * (self.size // 3)


def _groups(channels: int, chunks: int) -> list[_Group]:
    """The groups that cover the channels, counted as in ge_threes_open: groups of nine, then one smaller group."""
    nines, left = divmod(channels, 9)
    plain = left == 1 or (left == 7 and chunks == 1)
    size = left if plain else -(-left // 3) * 3
    groups = [_Group(9 * i, 9) for i in range(nines)]
    return [*groups, _Group(9 * nines, size, plain)] if left else groups


def _matrix(constants: Mapping[str, Array]) -> Int64:
    """The weights as [channel, input], zeros up to a multiple of UNROLL inputs."""
    weights = constants["weights"].astype(np.int64).reshape(len(constants["bias"]), -1)
    return np.pad(weights, ((0, 0), (0, -weights.shape[1] % UNROLL)))


def _chunks(weights: Int64) -> list[slice]:
    """Runs of inputs that are as long as the sums of every channel allow."""
    steps = np.abs(weights).reshape(len(weights), -1, UNROLL).sum(axis=2)
    chunks, start, total = [], 0, np.zeros(len(weights), np.int64)
    for i in range(steps.shape[1]):
        total = total + steps[:, i]
        if total.max() > LARGEST:
            chunks.append(slice(start * UNROLL, i * UNROLL))
            start, total = i, steps[:, i]
    return [*chunks, slice(start * UNROLL, steps.shape[1] * UNROLL)]


Laws = Callable[[_Group, list[slice]], Int64]
"""A function from a group and the chunks to the data that follow the words of the group."""


def _words(weights: Int64, laws: Laws, begin: bool) -> Mapping[str, Array]:
    """The words of a matrix. A channel with its own word needs a single chunk. begin: whether each chunk of a group
    starts with the values that keep all sums positive.
    """
    chunks, groups = _layout(weights)
    parts = [_lengths(chunks)]
    for group in groups:
        for chunk in chunks if group.size > 1 else [slice(None)]:
            w = _rows(weights, group)[:, chunk]
            parts += [_starts_of(w, group)] if begin else []
            parts.append(_pairs(w, group.plain).T.reshape(-1))
        parts.append(laws(group, chunks))
    return {"words": _uint32(parts)}


def _bytes(weights: Int64, laws: Laws, begin: bool) -> Mapping[str, Array]:
    """The weights as bytes, group by group, [input, channel], and the other words that `_words` would have."""
    chunks, groups = _layout(weights)
    parts, rows = [_lengths(chunks)], [_rows(weights, group) for group in groups]
    for group, w in zip(groups, rows, strict=True):
        for chunk in chunks if group.size > 1 else [slice(None)]:
            parts += [_starts_of(w[:, chunk], group)] if begin else []
        parts.append(laws(group, chunks))
    return {"words": _uint32(parts), "weights": np.concatenate([w.T.reshape(-1) for w in rows]).astype(np.int8)}


def _layout(weights: Int64) -> tuple[list[slice], list[_Group]]:
    chunks = _chunks(weights)
    return chunks, _groups(len(weights), len(chunks))


def _lengths(chunks: Sequence[slice]) -> Int64:
    return np.asarray([*(c.stop - c.start for c in chunks), 0], np.int64)


def _starts_of(w: Int64, group: _Group) -> Int64:
    """The values that the words of sums start with in each chunk."""
    return _pairs(_offsets(w)[:, None], group.plain).reshape(-1)


def _uint32(parts: Sequence[Int64]) -> Array:
    return (np.concatenate(parts) & 0xFFFFFFFF).astype(np.uint32)


def _rows(weights: Int64, group: _Group) -> Int64:
    """The rows of a group, with zeros for missing channels."""
    rows = weights[group.first : group.first + group.size]
    return np.pad(rows, ((0, group.size - len(rows)), (0, 0)))


def _pairs(w: Int64, plain: bool) -> Int64:
    """[3n, inputs] -> [2n, inputs]: w0 + w2 * 2^21 and w1 + w2 * 2^10 for each three. plain: the first row is not
    combined.
    """
    own, w = w[:plain], w[plain:]
    pairs = np.stack([w[0::3] + (w[2::3] << 21), w[1::3] + (w[2::3] << 10)], axis=1)
    return np.concatenate([own, pairs.reshape(-1, w.shape[1])])


def _offsets(w: Int64) -> Int64:
    """The offsets that must be added to sums of inputs in 0..255 so that none is negative."""
    return np.asarray(-255 * np.minimum(w, 0).sum(axis=1), dtype=np.int64)


OFFSET = 1 << 20
"""The start value of sum 0 of each three, so that it never borrows from sum 2."""


def _start(bias: int, multiplier: int, weights: Sequence[int], p: Conv2dParams | FcParams) -> tuple[int, int] | None:
    """The 64-bit number to which sum * multiplier is added, and the multiplier; None if 52 bits are too few for it.

    A channel whose bias alone makes it saturate, whatever its inputs, gets a multiplier of 0.
    """
    start = bias * multiplier + (1 << 31) + (p.out_zero_point << 32)
    reach = 128 * sum(abs(w) for w in weights) * multiplier
    if abs(start) > reach + (1 << 40):
        return (1 << 40 if start > 0 else -1 << 40), 0
    return (start, multiplier) if abs(start) + reach < 1 << 52 else None


def _starts(constants: Mapping[str, Array], p: Conv2dParams | FcParams) -> list[tuple[int, int] | None]:
    weights = constants["weights"].reshape(len(constants["bias"]), -1).tolist()
    bias, multiplier = constants["bias"].tolist(), constants["multiplier"].tolist()
    return [_start(b, m, w, p) for b, m, w in zip(bias, multiplier, weights, strict=True)]


Form = Callable[[Int64, Laws, bool], Mapping[str, Array]]
"""`_words` or `_bytes`."""


def _arrange_armv7m(
    constants: Mapping[str, Array], p: Conv2dParams | FcParams, form: Form = _words
) -> Mapping[str, Array]:
    starts = [start or (0, 0) for start in _starts(constants, p)]

    def laws(group: _Group, chunks: list[slice]) -> Int64:
        """For each output, the lower and upper half of the 64 bits, and the multiplier; scaled by 2^11, 2^11 and 2^10
        if there is only one chunk.
        """
        numbers = []
        padded = [*starts, *[(0, 0)] * group.size][group.first : group.first + group.size]
        for (start, multiplier), slot in zip(padded, group.slots(), strict=True):
            start -= len(chunks) * OFFSET * multiplier if slot == 0 else 0
            start <<= (11, 11, 10, 0)[slot] if len(chunks) == 1 else 0
            numbers += [start & 0xFFFFFFFF, start >> 32 & 0xFFFFFFFF, multiplier]
        return np.asarray(numbers, np.int64)

    return form(_matrix(constants), laws, False)


def _shift_32(node: Node) -> str | None:
    return None if node.params.shift == 32 else f"shift is {node.params.shift}, it shifts by 32"


def _when_armv7m(node: Node, target: Any) -> str | None:
    if getattr(node.params, "groups", 1) > 1:
        return f"{node.params.groups} groups"
    constants = {name: const.materialize() for name, const in node.constants.items()}
    return _shift_32(node) or _poor(_starts(constants, node.params))


@dataclass(frozen=True)
class _Law:
    """The requantization of an output channel without 64-bit products: a = sum - zero; y = lo + (a * M + rest) / 2^32
    for a <= span.
    """

    zero: int
    span: int
    low: int
    high: int
    rest: int

    constant: bool = False
    """whether all sums give the same output; the kernel then gets weights of zero"""

    def words(self) -> tuple[int, ...]:
        return self.zero, self.span, self.low, self.high, self.rest


def channel_law(bias: int, multiplier: int, weights: Sequence[int], p: Conv2dParams | FcParams) -> _Law | None:
    """The requantization of a channel for sums of products of weights and inputs in 0..255; None if 32 bits are too
    few.

    If the output of a channel cannot change, the caller gives it weights of zero, and the result is valid for a sum of
    0.
    """
    scaled = multiplier << (32 - p.shift)
    lowest = bias + sum(min(-128 * w, 127 * w) for w in weights)
    largest = bias + sum(max(-128 * w, 127 * w) for w in weights)
    floor = ((p.lo - p.out_zero_point) << 32) - (1 << 31)
    if constant := constant_output(lowest, largest, scaled, p):
        return _Law(-1, 1, 0, (constant[0] - p.lo) << 23, 0, constant=True)
    first = -(-floor // scaled)
    last = (((p.hi - p.out_zero_point + 1) << 32) - (1 << 31) - 1) // scaled
    rest, far = first * scaled - floor, min(last, largest) - first
    low, high = scaled & ((1 << SPLIT) - 1), scaled >> SPLIT
    fits = 0 <= rest < scaled and far >= 0 and far * low + rest < 1 << 32 and far * high + (1 << 23) < 1 << 32
    if not fits or lowest - first < -(1 << 31) or largest - first >= 1 << 31 or last - first >= 1 << 31:
        return None
    return _Law(first - bias + 128 * sum(weights), last - first, low, high, rest)


def constant_output(lowest: int, largest: int, scaled: int, p: Conv2dParams | FcParams) -> tuple[int] | None:
    """The output of all sums from `lowest` to `largest` if it is the same for all; else None."""
    ends = {min(p.hi, max(p.lo, ((acc * scaled + (1 << 31)) >> 32) + p.out_zero_point)) for acc in (lowest, largest)}
    return (ends.pop(),) if len(ends) == 1 else None


def _laws(constants: Mapping[str, Array], p: Conv2dParams | FcParams) -> list[_Law | None]:
    weights = constants["weights"].reshape(len(constants["bias"]), -1).tolist()
    bias, multiplier = constants["bias"].tolist(), constants["multiplier"].tolist()
    return [channel_law(b, m, w, p) for b, m, w in zip(bias, multiplier, weights, strict=True)]


def _arrange_armv6m(
    constants: Mapping[str, Array], p: Conv2dParams | FcParams, form: Form = _words
) -> Mapping[str, Array]:
    laws, weights = _laws(constants, p), _matrix(constants)
    for channel, law in enumerate(laws):
        if law is not None and law.constant:
            weights[channel] = 0

    def words(group: _Group, chunks: list[slice]) -> Int64:
        offsets = sum(_offsets(_rows(weights, group)[:, chunk]) for chunk in chunks)
        padded = [*laws, *[None] * group.size][group.first : group.first + group.size]
        table = np.asarray([law.words() if law is not None else (0,) * 5 for law in padded], dtype=np.int64)
        table[:, 0] += offsets
        return table.reshape(-1)

    return form(weights, words, True)


def _int32(table: Int64) -> Array:
    """The low 32 bits of each number."""
    return (table & 0xFFFFFFFF).astype(np.uint32).view(np.int32).reshape(-1)


def _poor(laws: Sequence[object]) -> str | None:
    poor = [channel for channel, law in enumerate(laws) if law is None]
    return f"the requantization of output channel {poor[0]} needs more bits than this kernel has" if poor else None


def _when_armv6m(node: Node, target: Any) -> str | None:
    if getattr(node.params, "groups", 1) > 1:
        return f"{node.params.groups} groups"
    return _poor(_laws({name: const.materialize() for name, const in node.constants.items()}, node.params))


def _inputs(p: Conv2dParams | FcParams) -> int:
    """The number of inputs of an output: the window, or the features of a row, up to a multiple of UNROLL."""
    inputs = p.kernel_h * p.kernel_w * p.in_c if isinstance(p, Conv2dParams) else p.in_c
    return int(-(-inputs // UNROLL) * UNROLL)


@dataclass(frozen=True)
class _Cycles:
    """The cycles that one output pixel takes on a core."""

    output: float
    group: float
    pixel: float
    row: float
    """for a row of a window that is copied"""

    byte: float
    """for a byte of a window whose rows are whole words; `odd_byte` is for other windows"""

    odd_byte: float
    in_place: bool


CYCLES = {
    "armv6m": _Cycles(output=26, group=30, pixel=110, row=60, byte=1.6, odd_byte=9, in_place=False),
    "armv7m": _Cycles(output=13, group=28, pixel=60, row=60, byte=1.0, odd_byte=1.5, in_place=True),
}


def _window_cycles(p: Conv2dParams, cycles: _Cycles) -> float:
    """The cycles of copying a window."""
    rows, run = (p.kernel_h, p.kernel_w * p.in_c) if hasattr(p, "kernel_h") else (1, p.in_c)
    if cycles.in_place and rows * run == p.in_c and p.in_c % UNROLL == 0:
        return 0.0
    return float(rows * (cycles.row + run * (cycles.odd_byte if p.in_c % 4 else cycles.byte)))


def _multiplied(p: Conv2dParams | FcParams, cycles: _Cycles) -> float:
    """The cycles of multiplying a window with all channels, and of the outputs. In each group, an input takes 3 cycles
    and each of its words 3.25.
    """
    groups = _groups(p.out_c, 1)
    words = sum(group.plain + group.size // 3 * 2 for group in groups)
    return float(_inputs(p) * (3.25 * words + 2.6 * len(groups)) + p.out_c * cycles.output + len(groups) * cycles.group)


def _cost(isa: str, code: int) -> Callable[[Node, Any], Cost]:
    cycles = CYCLES[isa]

    def cost(node: Node, target: Any) -> Cost:
        p = node.params
        pixels = p.out_h * p.out_w if hasattr(p, "out_h") else p.rows
        each = _multiplied(p, cycles) + cycles.pixel + _window_cycles(p, cycles)
        return Cost(pixels * each, code)

    return cost


CODE = {"conv2d_s8_armv6m": 2780, "conv2d_s8_armv7m": 3100, "fc_s8_armv6m": 2220, "fc_s8_armv7m": 2480}


BLOCK = 192
"""The bytes of ge_threes_state."""


def _scratch(p: Conv2dParams | FcParams) -> int:
    """The scratch: one input vector; for a convolution, the state before it."""
    return _inputs(p) + (BLOCK if isinstance(p, Conv2dParams) else 0)


def _kernel(op: str, isa: str) -> Kernel:
    armv6m = isa == "armv6m"
    return Kernel(
        f"ge_{op}_{isa}",
        isa=isa,
        template=f"ge_{op}_thumb",
        folder="thumb",
        when=_when_armv6m if armv6m else _when_armv7m,
        constants={"words": "uint32_t"},
        arrange=_arrange_armv6m if armv6m else _arrange_armv7m,
        scratch=_scratch,
        cost=_cost(isa, CODE[f"{op}_{isa}"]),
        store="rows",
    )


BATCH_BYTES, BATCH = 4096, 32
"""The bytes of windows that are multiplied with a group before the next one is widened, and the most windows
(CONV2D_WIDENED_S8_THUMB_BYTES, CONV2D_WIDENED_S8_THUMB_PIXELS).
"""

STATE = BLOCK + 40 + 8 * BATCH
"""The bytes of conv2d_widened_s8_thumb_state."""

WIDEN = 6.0
"""The cycles for each weight that becomes part of a word."""

CALL = {"armv6m": 85.0, "armv7m": 70.0}
"""The cycles of multiplying a window with one group, in addition to those of its words, because each group takes a
call.
"""

COLUMN = {"armv6m": 50.0, "armv7m": 40.0}
"""The cycles of copying one row of one column of windows, in addition to those of its bytes."""


@dataclass(frozen=True)
class _Batch:
    """Windows that share a widened group: their number, the columns that are copied, and their bytes in scratch."""

    windows: int
    columns: int
    bytes: int


@lru_cache(maxsize=1024)
def _batches(p: Conv2dParams, rows: int) -> tuple[_Batch, ...]:
    """The batches of a call (conv2d_widened_s8_thumb_windows)."""
    column, shared = p.kernel_h * p.in_c, p.dilation_w == 1 and p.stride_w < p.kernel_w
    across = p.stride_w if shared else p.kernel_w
    step, found, y, x = column * across, [], 0, 0
    extra = _inputs(p) - step
    while y < rows:
        room, windows, columns, used = max(BATCH_BYTES, _inputs(p)), 0, 0, 0
        while y < rows and windows < BATCH and room - used >= step + extra:
            count = min(BATCH - windows, (room - used - extra) // step, p.out_w - x)
            used = used + extra + count * step + 3 & ~3
            windows, columns = windows + count, columns + (count - 1) * across + p.kernel_w
            y, x = (y, x + count) if x + count < p.out_w else (y + 1, 0)
        found.append(_Batch(windows, columns, used))
    return tuple(found)


def _widened_scratch(p: Conv2dParams, starts: bool, law: int) -> int:
    """The scratch: the state; the largest group with its words, the start values of as many chunks as any weights need,
    and its requantization words; the windows.
    """
    inputs, size = _inputs(p), max(group.size for group in _groups(p.out_c, 2))
    words = 1 if size == 1 else size // 3 * 2
    group = words * (inputs + starts * -(-inputs // CHUNK)) + law * size
    return int(STATE + 4 * group + max(batch.bytes for batch in _batches(p, p.out_h)))


def _widened_arrange(constants: Mapping[str, Array], p: Conv2dParams, isa: str) -> Mapping[str, Array]:
    """The constants with the inputs of a window in the order [kw, kh, C]."""
    by_column = {**constants, "weights": constants["weights"].transpose(0, 2, 1, 3)}
    return (_arrange_armv6m if isa == "armv6m" else _arrange_armv7m)(by_column, p, _bytes)


def _widened_kernel(isa: str) -> Kernel:
    armv6m, cycles = isa == "armv6m", CYCLES[isa]

    def rows_cost(node: Node, target: Any, rows: int) -> float:
        """The cost of some rows. Widening costs as much for a batch that is not full as for a full one."""
        p, groups = node.params, _groups(node.params.out_c, 1)
        weights, batches = _inputs(p) * sum(group.size for group in groups), _batches(p, rows)
        copied = sum(batch.columns for batch in batches) * p.kernel_h
        each = _multiplied(p, cycles) + CALL[isa] * len(groups)
        widened = len(batches) * (WIDEN * weights + 100 * len(groups) + 200)
        byte = cycles.odd_byte if p.in_c % 4 else cycles.byte
        return float(rows * p.out_w * each + widened + copied * (COLUMN[isa] + p.in_c * byte))

    return Kernel(
        f"ge_conv2d_widened_s8_{isa}",
        isa=isa,
        template="ge_conv2d_widened_s8_thumb",
        folder="thumb",
        when=_when_armv6m if armv6m else _when_armv7m,
        constants={"words": "uint32_t", "weights": "int8_t"},
        arrange=lambda constants, p: _widened_arrange(constants, p, isa),
        scratch=lambda p: _widened_scratch(p, armv6m, 5 if armv6m else 3),
        cost=lambda node, target: Cost(rows_cost(node, target, node.params.out_h), 3700),
        rows_cost=rows_cost,
        store="rows",
    )


CONV2D = (
    *(_kernel("conv2d_s8", isa) for isa in CYCLES),
    *(_widened_kernel(isa) for isa in CYCLES),
)
FC = (_kernel("fc_s8", "armv6m"), _kernel("fc_s8", "armv7m"))


def _by_channel(constants: Mapping[str, Array]) -> Mapping[str, Array]:
    """The weights [kernel_h, kernel_w, channel] with the channel first."""
    return {**constants, "weights": np.ascontiguousarray(np.moveaxis(constants["weights"], 2, 0))}


def _depthwise_when(node: Node, target: Any) -> str | None:
    p = node.params
    if p.in_c != p.out_c:
        return f"{p.out_c} channels from {p.in_c}"
    if (p.kernel_w, p.dilation_w) != (3, 1) or p.stride_w > 2:
        return "it has 3 taps across, a stride across of 1 or 2, and no dilation across"
    return None


def _depthwise_when_armv6m(node: Node, target: Any) -> str | None:
    constants = {name: const.materialize() for name, const in node.constants.items()}
    return _depthwise_when(node, target) or _poor(_laws(_by_channel(constants), node.params))


def _depthwise_when_armv7m(node: Node, target: Any) -> str | None:
    return _depthwise_when(node, target) or _shift_32(node)


def _depthwise_armv6m(constants: Mapping[str, Array], p: Conv2dParams) -> Mapping[str, Array]:
    by_channel = _by_channel(constants)
    laws, weights = _laws(by_channel, p), by_channel["weights"].astype(np.int32)
    for channel, law in enumerate(laws):
        if law is not None and law.constant:
            weights[channel] = 0
    table = np.asarray([law.words() if law is not None else (0,) * 5 for law in laws], dtype=np.int64)
    table[:, 0] *= -1
    return {"weights": weights.reshape(-1), "law": _int32(table)}


def _depthwise_armv7m(constants: Mapping[str, Array], p: Conv2dParams) -> Mapping[str, Array]:
    law = np.stack([constants["bias"], constants["multiplier"]], axis=1).astype(np.int32)
    return {"weights": _by_channel(constants)["weights"].astype(np.int32).reshape(-1), "law": law.reshape(-1)}


def _depthwise_scratch(p: Conv2dParams) -> int:
    """The scratch: ge_planes; the steps from row to row; for each channel, the rows that an output row depends on and a
    row of padding; five outputs.
    """
    columns = (max(p.out_w, 5) - 1) * p.stride_w + p.kernel_w
    planes = -(-p.in_c * ((p.kernel_h - 1) * p.dilation_h + 2) * columns // 4) * 4
    return int(28 + 4 * p.kernel_h + planes + (5 * p.out_c if p.out_w < 5 else 0))


def _depthwise_kernel(isa: str) -> Kernel:
    armv6m = isa == "armv6m"
    per_row, per_five, per_input, per_byte, per_line = (
        (63.0, 126.0, 5.9, 0.9, 600.0) if armv6m else (54.5, 73.0, 4.4, 0.55, 300.0)
    )

    def rows_cost(node: Node, target: Any, count: int) -> float:
        """The cost of some rows. Every call fills the planes and copies the rows above again."""
        p = node.params
        fives = count * -(-p.out_w // 5) * p.out_c
        copied = (count - 1) * p.stride_h + (p.kernel_h - 1) * p.dilation_h + 1
        return float(
            fives * (p.kernel_h * per_row + per_five)
            + per_input * min(copied, p.in_h) * p.in_w * p.in_c
            + per_byte * _depthwise_scratch(p)
            + per_line * count
        )

    return Kernel(
        f"ge_depthwise_s8_{isa}",
        isa=isa,
        template="ge_depthwise_s8_thumb",
        folder="thumb",
        when=_depthwise_when_armv6m if armv6m else _depthwise_when_armv7m,
        constants={"weights": "int32_t", "law": "int32_t"},
        arrange=_depthwise_armv6m if armv6m else _depthwise_armv7m,
        scratch=_depthwise_scratch,
        cost=lambda node, target: Cost(rows_cost(node, target, node.params.out_h), 1780 if armv6m else 1590),
        rows_cost=rows_cost,
        store="rows",
    )


DEPTHWISE = (_depthwise_kernel("armv6m"), _depthwise_kernel("armv7m"))


ADD = Kernel(
    "ge_add_s8_armv7m",
    isa="armv7m",
    cost=lambda node, target: Cost(node.params.rows * (12.0 * node.params.row + 40), 380),
    store="elements",
)


KERNELS = {
    "conv2d_s8": only(*CONV2D),
    "depthwise_s8": only(*DEPTHWISE),
    "fc_s8": only(*FC),
    "add_s8": only(ADD),
}
