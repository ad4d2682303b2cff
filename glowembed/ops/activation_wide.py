"""Functions of one number in int16, approximated by straight lines. The compiler checks all 65536 inputs.

Kernel-level: lut_s16 has 1024 lines of equal length, so that a shift finds the line; it is used if every output is
within one step of the exact function. Otherwise (jumps, kinks, poles, wide ranges) pieces_s16 has the fewest lines that
stay within 3/4 of a step, and finds the line by bisection. Where these are too many, as for the sine of a hundred radians,
the lines may also miss an output by as much as the rounding of its input changes it. LeakyRelu, Clip, Abs and Neg have
the kernel linear_s16.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf, prod
from typing import Any

import numpy as np

from glowembed.errors import UnsupportedModelError
from glowembed.graph.cstruct import i32
from glowembed.graph.geometry import ELEMENTWISE
from glowembed.graph.ir import Array, Const, Node, QType
from glowembed.graph.op import Cost, Kernel, KernelOp, LowerContext
from glowembed.graph.registry import ops
from glowembed.law.wide import HIGHEST, LOWEST
from glowembed.ops.activation import FORMULAS, Formula, Real, Unary
from glowembed.ops.arithmetic_wide import LINEAR_OPS
from glowembed.ops.shared.broadcast import rows_of
from glowembed.records import dataclass

INPUTS = np.arange(LOWEST, HIGHEST + 1, dtype=np.int32)
"""Every stored input."""


def lower_function(node: Node, c: LowerContext) -> None:
    """Lower a Unary. Raises UnsupportedModelError for a function with too many jumps."""
    x, y = node.inputs[0], node.outputs[0]
    wanted = _steps(node, INPUTS, c.qtype(x), c.qtype(y))
    table = _table(node, c.qtype(x), c.qtype(y))
    rows = rows_of(c.shape(x))
    size = rows, prod(c.shape(x)) // rows
    if np.abs(LutS16.values(table, INPUTS) - np.clip(wanted, LOWEST, HIGHEST)).max() <= 1:
        c.add(node, "lut_s16", [x], y, LutS16Params(*size), {"table": Const(table)})
        return
    wanted = np.clip(wanted, LOWEST, HIGHEST)
    pieces = _pieces(wanted, np.zeros_like(wanted))
    if len(pieces["start"]) > MOST_PIECES:
        pieces = _pieces(wanted, _rounding(wanted))
    if len(pieces["start"]) > MOST_PIECES:
        raise UnsupportedModelError(
            f"{node.name}: {node.operator} over a range of {65536 * c.qtype(x).scale[0]:g} takes more than {MOST_PIECES} "
            "straight lines in int16: give it dtype float32"
        )
    constants = {name: Const(array) for name, array in pieces.items()}
    c.add(node, "pieces_s16", [x], y, PiecesS16Params(*size, len(pieces["start"])), constants)


def _steps(node: Node, stored: Array, xq: QType, yq: QType) -> Real:
    """The exact outputs for stored inputs, in steps of the output including its zero point, within +-2^20; NaN becomes
    the real 0.
    """
    real = (stored.astype(np.float64) - xq.zero_point[0]) * xq.scale[0]
    with np.errstate(all="ignore"):
        made = np.nan_to_num(_formula(node).function(real, node.attrs), nan=0.0, posinf=inf, neginf=-inf)
        return np.clip(made / yq.scale[0] + yq.zero_point[0], -(2.0**20), 2.0**20)


def _formula(node: Node) -> Formula:
    op = ops()[node.op]
    assert isinstance(op, Unary), node.op
    return op.formula


SEGMENTS = 1024
STEP = 65536 // SEGMENTS
FRACTIONS = 16


@dataclass(frozen=True)
class LutS16Params:
    """The number of elements to look up."""

    rows: int = i32("rows of input and output")
    row: int = i32("elements of a row")


def _table(node: Node, xq: QType, yq: QType) -> Array:
    """Entry i is the output, in FRACTIONS of a step, for the input LOWEST + i * STEP; the last entry is that of the
    end.
    """
    points = np.arange(SEGMENTS + 1, dtype=np.int32) * STEP + LOWEST
    return np.asarray(np.rint(_steps(node, points, xq, yq) * FRACTIONS), dtype=np.int32)


class LutS16(KernelOp[LutS16Params]):
    """A straight line between the table's entries, rounded half up."""

    name = "lut_s16"
    params = LutS16Params
    constants = {"table": "int32_t"}
    kernels = (
        Kernel("ge_lut_s16", cost=lambda n, t: Cost(23.0 * n.params.rows * n.params.row, 100), store="elements"),
    )
    geometry = ELEMENTWISE
    element_bytes = (2, 2)

    def int_ref(self, p: LutS16Params, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        return self.values(constants["table"], inputs[0])

    @staticmethod
    def values(table: Array, stored: Array) -> Array:
        at = stored.astype(np.int32) - LOWEST
        index, part, one = at // STEP, at % STEP, STEP * FRACTIONS
        y = (table[index] * (STEP - part) + table[index + 1] * part + one // 2) // one
        return np.clip(y, LOWEST, HIGHEST).astype(np.int16)


ONE = 2**14
"""One step of the output, in the largest unit in which a line through all outputs fits in int32."""

NEAR = 0.25
"""The number of steps by which a line may miss the exact output; rounding adds half a step to it."""

MOST_PIECES = 4096


@dataclass(frozen=True)
class PiecesS16Params:
    """The number of elements to look up."""

    rows: int = i32("rows of input and output")
    row: int = i32("elements of a row")
    pieces: int = i32("straight lines, 1..4096")


def _rounding(wanted: Real) -> Real:
    """By how many steps the rounding of an input changes its output: half the lesser difference from the outputs beside it, so that it is 0
    beside a jump.
    """
    change: Real = np.abs(np.diff(wanted)) / 2
    return np.asarray(np.minimum(np.append(change, change[-1]), np.insert(change, 0, change[0])))


def _pieces(wanted: Real, room: Real) -> dict[str, Array]:
    """Lines from left to right, each as long as it misses no output by more than NEAR and its room. wanted: the exact output of each input,
    in steps, as is the room.

    start: the first stored input of a piece; base: the value of the line there, plus half a step for rounding; slope:
    for each input.
    """
    found, start = list[tuple[int, int, int]](), 0
    while start < len(wanted):
        length = _longest(wanted[start:], room[start:])
        base, slope, _ = _line(wanted[start : start + length], room[start : start + length])
        found.append((start + LOWEST, base, slope))
        start += length
    starts, bases, slopes = zip(*found, strict=True)
    return {
        "start": np.asarray(starts, dtype=np.int16),
        "base": np.asarray(bases, dtype=np.int32),
        "slope": np.asarray(slopes, dtype=np.int32),
    }


def _longest(wanted: Real, room: Real) -> int:
    """The number of inputs, from the first on, for which one line suffices; found by doubling and bisection."""
    good, bad = 1, 2
    while bad <= len(wanted) and _line(wanted[:bad], room[:bad])[2]:
        good, bad = bad, 2 * bad
    bad = min(bad, len(wanted) + 1)
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if _line(wanted[:middle], room[:middle])[2] else (good, middle)
    return good


def _line(wanted: Real, room: Real) -> tuple[int, int, bool]:
    """The base and slope of a line, in units of 1/ONE of a step, and whether the line misses no output by more than NEAR and its room.

    For a convex or concave curve, the secant between both ends has the best slope, and shifting it by half its largest
    error gives the best base.
    """
    slope = round((wanted[-1] - wanted[0]) * ONE / max(1, len(wanted) - 1))
    rest = wanted * ONE - slope * np.arange(len(wanted), dtype=np.float64)
    low, high = float((rest + room * ONE).min()), float((rest - room * ONE).max())
    return round((low + high) / 2) + ONE // 2, slope, high - low <= 2 * NEAR * ONE


class PiecesS16(KernelOp[PiecesS16Params]):
    """y = (base + slope * (x - start)) / 2^14 of the last piece that starts at or before x, rounded half up."""

    name = "pieces_s16"
    params = PiecesS16Params
    constants = {"start": "int16_t", "base": "int32_t", "slope": "int32_t"}
    geometry = ELEMENTWISE
    element_bytes = (2, 2)

    @staticmethod
    def cost(node: Node, _: Any) -> Cost:
        p = node.params
        return Cost((12.0 + 10.0 * p.pieces.bit_length()) * p.rows * p.row, 140)

    kernels = (Kernel("ge_pieces_s16", cost=cost, store="elements"),)

    def int_ref(self, p: PiecesS16Params, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        x, start = inputs[0].astype(np.int64), constants["start"].astype(np.int64)
        piece = np.searchsorted(start, x, side="right") - 1
        y = (constants["base"][piece] + constants["slope"][piece] * (x - start[piece])) >> 14
        return np.asarray(np.clip(y, LOWEST, HIGHEST), dtype=np.int16)


LOWERINGS = {(op, "int16"): lower_function for op in FORMULAS if op not in LINEAR_OPS}
KERNEL_OPS = (LutS16(), PiecesS16())
