"""Three sums in two words: the kernels of the cores without DSP instructions (ARMv6-M, Cortex-M3).

In: kernel-level nodes, params and constants. Out: `Kernel`s, for the op files to list. runtime_c/ge_isa_armv6m.h says why three
sums fit, ge_threes.h in which order the words are read. The words take 2.7 bytes of flash for each weight. Costs are
cycles, of the measured instructions and their kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glowembed.ir import Array, Node
from glowembed.op import Cost, Kernel

UNROLL = 8
"""Inputs are taken in multiples of this."""

LARGEST = 8191
"""Of the sum of |w| over a chunk: 255 * sum < 2^21, and 128 * sum < 2^20."""

SPLIT = 9
"""Low bits of a multiplier, where products must fit 32 bits."""

Int64 = NDArray[np.int64]


def _groups(channels: int) -> list[tuple[int, int]]:
    """First channel and size of the nines and threes that cover the channels, as ge_threes_run walks them."""
    groups, first = [], 0
    while first < channels:
        size = 9 if channels - first > 6 else 3
        groups.append((first, size))
        first += size
    return groups


def _matrix(constants: Mapping[str, Array]) -> Int64:
    """The weights as [channel, input], zeros up to whole groups and a multiple of UNROLL inputs."""
    weights = constants["weights"].astype(np.int64).reshape(len(constants["bias"]), -1)
    first, size = _groups(len(weights))[-1]
    return np.pad(weights, ((0, first + size - len(weights)), (0, -weights.shape[1] % UNROLL)))


def _chunks(weights: Int64) -> list[slice]:
    """Runs of inputs, as long as the sums of every channel allow."""
    steps = np.abs(weights).reshape(len(weights), -1, UNROLL).sum(axis=2)
    chunks, start, total = [], 0, np.zeros(len(weights), np.int64)
    for i in range(steps.shape[1]):
        total = total + steps[:, i]
        if total.max() > LARGEST:
            chunks.append(slice(start * UNROLL, i * UNROLL))
            start, total = i, steps[:, i]
    return [*chunks, slice(start * UNROLL, steps.shape[1] * UNROLL)]


def _words(weights: Int64, begin: bool) -> Array:
    """The words of a matrix; `begin`: each group and chunk starts with the values that keep all sums positive."""
    chunks = _chunks(weights)
    parts = [np.asarray([len(chunks), *(c.stop - c.start for c in chunks)], np.int64)]
    for first, size in _groups(len(weights)):
        for chunk in chunks:
            w = weights[first : first + size, chunk]
            parts += [_pairs(_offsets(w)[:, None]).reshape(-1)] if begin else []
            parts.append(_pairs(w).T.reshape(-1))
    return (np.concatenate(parts) & 0xFFFFFFFF).astype(np.uint32)


def _pairs(w: Int64) -> Int64:
    """[3n, inputs] -> [2n, inputs]: w0 + w2 * 2^21 and w1 + w2 * 2^10 of each three."""
    pairs = np.stack([w[0::3] + (w[2::3] << 21), w[1::3] + (w[2::3] << 10)], axis=1)
    return pairs.reshape(-1, w.shape[1])


def _offsets(w: Int64) -> Int64:
    """What must be added to sums of inputs in 0..255 so that none is negative."""
    return np.asarray(-255 * np.minimum(w, 0).sum(axis=1), dtype=np.int64)


# ------------------------------------------------------------------------------------------------- armv7m


def _arrange_armv7m(constants: Mapping[str, Array], p: Any) -> Mapping[str, Array]:
    weights = _matrix(constants)
    bias, multiplier = (np.pad(constants[n], (0, len(weights) - len(constants[n]))) for n in ("bias", "multiplier"))
    law = [part[first : first + size] for first, size in _groups(len(weights)) for part in (bias, multiplier)]
    return {"words": _words(weights, begin=False), "law": np.concatenate(law).astype(np.int32)}


def _shift_32(node: Node) -> str | None:
    return None if node.params.shift == 32 else f"shift is {node.params.shift}, it shifts by 32"


def _when_armv7m(node: Node, target: Any) -> str | None:
    if getattr(node.params, "groups", 1) > 1:
        return f"{node.params.groups} groups"
    return _shift_32(node)


# ------------------------------------------------------------------------------------------------- armv6m


@dataclass(frozen=True)
class _Law:
    """An output channel without products of 64 bits: sum - `zero` is `a`; y = lo + (a * M + rest) / 2^32 for a <= span."""

    zero: int
    span: int
    low: int
    high: int
    rest: int

    constant: bool = False
    """All sums give one output; the kernel gets weights of zero."""

    def words(self) -> tuple[int, ...]:
        return self.zero, self.span, self.low, self.high, self.rest


def channel_law(bias: int, multiplier: int, weights: Sequence[int], p: Any) -> _Law | None:
    """The law of a channel on sums of products of weights and inputs in 0..255; None where 32 bits are too few.

    A channel whose output cannot change gets weights of zero from the caller: its law is that of a sum of 0.
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


def constant_output(lowest: int, largest: int, scaled: int, p: Any) -> tuple[int] | None:
    """The output of all sums from lowest to largest, if there is but one."""
    ends = {min(p.hi, max(p.lo, ((acc * scaled + (1 << 31)) >> 32) + p.out_zero_point)) for acc in (lowest, largest)}
    return (ends.pop(),) if len(ends) == 1 else None


def _laws(constants: Mapping[str, Array], p: Any) -> list[_Law | None]:
    weights = constants["weights"].reshape(len(constants["bias"]), -1).tolist()
    bias, multiplier = constants["bias"].tolist(), constants["multiplier"].tolist()
    return [channel_law(b, m, w, p) for b, m, w in zip(bias, multiplier, weights, strict=True)]


def _arrange_armv6m(constants: Mapping[str, Array], p: Any) -> Mapping[str, Array]:
    laws, weights = _laws(constants, p), _matrix(constants)
    for channel, law in enumerate(laws):
        if law is not None and law.constant:
            weights[channel] = 0
    offsets = np.concatenate(
        [
            sum(_offsets(weights[first : first + size, c]) for c in _chunks(weights))
            for first, size in _groups(len(weights))
        ]
    )
    rows = [law.words() if law is not None else (0,) * 5 for law in laws]
    table = np.asarray([*rows, *[(0,) * 5] * (len(weights) - len(rows))], dtype=np.int64)
    table[:, 0] += offsets
    return {
        "words": _words(weights, begin=True),
        "law": (table & 0xFFFFFFFF).astype(np.uint32).view(np.int32).reshape(-1),
    }


def _int32(table: Int64) -> Array:
    """The low 32 bits of each number."""
    return (table & 0xFFFFFFFF).astype(np.uint32).view(np.int32).reshape(-1)


def _poor(laws: Sequence[_Law | None]) -> str | None:
    poor = [channel for channel, law in enumerate(laws) if law is None]
    return f"output channel {poor[0]} needs products of more than 32 bits" if poor else None


def _when_armv6m(node: Node, target: Any) -> str | None:
    if getattr(node.params, "groups", 1) > 1:
        return f"{node.params.groups} groups"
    return _poor(_laws({name: const.materialize() for name, const in node.constants.items()}, node.params))


# ------------------------------------------------------------------------------------------------ kernels


def _inputs(p: Any) -> int:
    """Of an output: the window, or the features of a row, up to a multiple of UNROLL."""
    inputs = p.kernel_h * p.kernel_w * p.in_c if hasattr(p, "kernel_h") else p.in_c
    return int(-(-inputs // UNROLL) * UNROLL)


def _cost(per_nine: float, per_output: float, per_input: float, code: int) -> Callable[[Node, Any], Cost]:
    """Cycles: for an input and nine channels, for an output, for an input of a window."""

    def cost(node: Node, target: Any) -> Cost:
        p = node.params
        pixels = p.out_h * p.out_w if hasattr(p, "out_h") else p.rows
        nines = sum(1.0 if size == 9 else 0.42 for _, size in _groups(p.out_c))
        each = _inputs(p) * (nines * per_nine + per_input) + p.out_c * per_output + 60
        return Cost(pixels * each, code)

    return cost


CONSTANTS = {"words": "uint32_t", "law": "int32_t"}


def _kernel(op: str, isa: str) -> Kernel:
    armv6m = isa == "armv6m"
    return Kernel(
        f"ge_{op}_{isa}",
        isa=isa,
        when=_when_armv6m if armv6m else _when_armv7m,
        constants=CONSTANTS,
        arrange=_arrange_armv6m if armv6m else _arrange_armv7m,
        scratch=_inputs,
        cost=_cost(23.0, 50.0, 3.0, 1670) if armv6m else _cost(24.0, 40.0, 3.0, 1790),
        store="rows",
    )


CONV2D = (_kernel("conv2d_s8", "armv6m"), _kernel("conv2d_s8", "armv7m"))
FC = (_kernel("fc_s8", "armv6m"), _kernel("fc_s8", "armv7m"))


# ---------------------------------------------------------------------------------------------- depthwise


def _by_channel(constants: Mapping[str, Array]) -> Mapping[str, Array]:
    """Weights [kernel_h, kernel_w, channel] with the channel first."""
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


def _depthwise_armv6m(constants: Mapping[str, Array], p: Any) -> Mapping[str, Array]:
    by_channel = _by_channel(constants)
    laws, weights = _laws(by_channel, p), by_channel["weights"].astype(np.int32)
    for channel, law in enumerate(laws):
        if law is not None and law.constant:
            weights[channel] = 0
    table = np.asarray([law.words() if law is not None else (0,) * 5 for law in laws], dtype=np.int64)
    return {"weights": weights.reshape(-1), "law": _int32(table)}


def _depthwise_armv7m(constants: Mapping[str, Array], p: Any) -> Mapping[str, Array]:
    law = np.stack([constants["bias"], constants["multiplier"]], axis=1).astype(np.int32)
    return {"weights": _by_channel(constants)["weights"].astype(np.int32).reshape(-1), "law": law.reshape(-1)}


def _depthwise_scratch(p: Any) -> int:
    """Pointers to rows; for each channel the rows that a row of output sees and one of padding; five outputs."""
    columns = (max(p.out_w, 5) - 1) * p.stride_w + p.kernel_w
    planes = -(-p.in_c * ((p.kernel_h - 1) * p.dilation_h + 2) * columns // 4) * 4
    return int(4 * p.kernel_h + planes + (5 * p.out_c if p.out_w < 5 else 0))


def _depthwise_kernel(isa: str) -> Kernel:
    armv6m = isa == "armv6m"
    per_row, per_five, per_input = (92.0, 200.0, 9.0) if armv6m else (62.0, 90.0, 7.0)

    def rows_cost(node: Node, target: Any, count: int) -> float:
        """Planes are filled and the rows above are copied in every call."""
        p = node.params
        fives = count * -(-p.out_w // 5) * p.out_c
        copied = (count - 1) * p.stride_h + (p.kernel_h - 1) * p.dilation_h + 1
        return float(
            fives * (p.kernel_h * per_row + per_five)
            + per_input * min(copied, p.in_h) * p.in_w * p.in_c
            + 1.2 * _depthwise_scratch(p)
            + 100.0 * count
        )

    return Kernel(
        f"ge_depthwise_s8_{isa}",
        isa=isa,
        when=_depthwise_when_armv6m if armv6m else _depthwise_when_armv7m,
        constants={"weights": "int32_t", "law": "int32_t"},
        arrange=_depthwise_armv6m if armv6m else _depthwise_armv7m,
        scratch=_depthwise_scratch,
        cost=lambda node, target: Cost(rows_cost(node, target, node.params.out_h), 1680),
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
