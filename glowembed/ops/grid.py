"""GridSample of a quantized network: samples of an image at computed places, in integers.

definitions/resize.py generates the program for real numbers, this module the one for stored integers. The grid is int16 in
steps of 2^-14, so that it holds -2 to 2. With F = 11 bits, 14 in int16, and for each axis of n elements:

    place  = (g + 2^14) * (n - 1), or (g + 2^14) * n without align_corners, in steps of 2^-15 * 2^F, rounded, less 2^(F-1) without
    place is reflected or clamped as padding_mode says;  first = place >> F;  part = place less first * 2^F
    linear:  weights 2^F - part and part, of first and first + 1;  cubic: four weights of Keys's polynomials, rounded,
             of which the third is what the others leave of 2^F
    y = zero_point + ((sum of the products of weights, times (x - zero_point)) * M + 2^(s-1)) >> s, clamped

Elements outside have the weight 0 if padding_mode is zeros. Linear: M = 1, s = F * axes, and the output has the type of the input. Cubic
outputs have a type of their own: M = round(2^b * r), s = F * axes + b, r = scale of x / scale of y, b = 20, 17 in int16, or less so that
M < 2^b. Nearest: the element at place, rounded, halves to even.

Sums of int8 are int32: the weights of a cubic axis sum to 1.375 * 2^F at most without their signs, and 1.375^2 * 2^22 * 255 is below
2^31.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any, ClassVar

from glowembed.graph.ir import Node, QType, Shape
from glowembed.graph.op import LowerContext, OutputType
from glowembed.law.fixedpoint import round_half_up
from glowembed.nest.dtypes import BOOL, INDEX
from glowembed.nest.expr import Expr, all_of, clamp, constant, index, where
from glowembed.nest.program import Program, Recorder, Tensor
from glowembed.ops import nest
from glowembed.records import dataclass

GRID = QType("int16", (2.0**-14,), (0,))
FINE = {"int8": 11, "int16": 14}
RATIO = {"int8": 20, "int16": 17}
LONGEST = 2**15
"""The most elements along an axis: places fit in int32."""

Tap = tuple[Expr, Expr, Expr]
"""A position along an axis, whether it lies inside, and its weight."""


class GridSample(nest.Nest):
    """attrs: those of Nest, `mode`, `padding` and `corners`."""

    name = "GridSample"
    plain = False
    output_type: ClassVar[OutputType | QType] = "input"

    def input_type(self, index: int, dtype: str) -> QType | None:
        return GRID if index == 1 and dtype != "float32" else None

    def permute(self, attrs: Mapping[str, Any], perm: tuple[int, ...]) -> Mapping[str, Any] | None:
        return None

    def chooses(self, attrs: Mapping[str, Any]) -> bool:
        return bool(attrs["mode"] == "nearest")

    def lower(self, node: Node, c: LowerContext) -> None:
        shapes = [c.shape(name) for name in (*node.inputs, node.outputs[0])]
        types = c.qtype(node.inputs[0]), c.qtype(node.outputs[0])
        nest.add(node, c, nest.params_of(_Sampling(node.attrs, shapes, *types).program()))


class CubicGridSample(GridSample):
    """A GridSample with negative weights, whose outputs may exceed the range of its input."""

    name = "CubicGridSample"
    output_type = "profile"


@dataclass
class _Sampling:
    """The numbers of one node, and the program in the making."""

    attrs: Mapping[str, Any]
    shapes: Sequence[Shape]
    x: QType
    y: QType

    def __post_init__(self) -> None:
        self.k, self.sizes, self.axes = Recorder(), self.shapes[0][2:], len(self.shapes[0]) - 2
        self.fine = FINE[self.x.dtype]
        self.wide = "int32" if self.x.dtype == "int8" and self.axes <= 2 else "int64"

    def program(self) -> Program:
        dtype, k = self.x.dtype, self.k
        tensors = [Tensor(f"x{i}", self.shapes[i], t) for i, t in enumerate((dtype, "int16"))]
        x, y = tensors[0], Tensor("y0", self.shapes[2], dtype)
        with k.each((self.shapes[0][0], *self.shapes[2][2:])) as at:
            grid = [tensors[1][(*at, index(self.axes - 1 - d))] for d in range(self.axes)]
            weighed = self._weighed([self._taps(g, size) for g, size in zip(grid, self.sizes, strict=True)])
            with k.loop(self.shapes[0][1]) as channel:
                value = self._value(lambda place: x[(at[0], channel, *place)], weighed)
                k.store(y, (at[0], channel, *at[1:]), value)
        return Program(tuple(tensors), y, tuple(k.temporaries), tuple(k.body))

    def _taps(self, g: Expr, size: int) -> list[Tap]:
        k, one, corners, padding = self.k, 1 << self.fine, self.attrs["corners"], self.attrs["padding"]
        raw = (g.to("int32") + (1 << 14)) * (size - 1 if corners else size)
        place = k.let(((raw + (1 << 14 - self.fine)) >> 15 - self.fine) - (0 if corners else one // 2))
        if self.attrs["mode"] == "nearest":
            place = k.let(self._rounded(place) << self.fine)
        if self.attrs["mode"] != "cubic":
            place = self._kept(place, size)
        first, part = k.let(place >> self.fine), place & (one - 1)
        weights = {"nearest": self._whole, "linear": self._linear, "cubic": self._cubic}[self.attrs["mode"]](part)
        taps = []
        for offset, weight in weights.items():
            at = first + offset
            inside = k.let((at >= 0) & (at < size)) if padding == "zeros" else constant(True, BOOL)
            if padding == "reflection" and self.attrs["mode"] == "cubic":
                at = self._mirrored(at << self.fine, size) >> self.fine
            taps.append((k.let(clamp(at, 0, size - 1).to(INDEX)), inside, weight))
        return taps

    def _rounded(self, place: Expr) -> Expr:
        return (place + ((place >> self.fine) & 1) + ((1 << self.fine - 1) - 1)) >> self.fine

    def _kept(self, place: Expr, size: int) -> Expr:
        """The place inside of the image, where the padding asks for that."""
        if self.attrs["padding"] == "reflection":
            place = self._mirrored(place, size)
        return self.k.let(clamp(place, 0, (size - 1) << self.fine)) if self.attrs["padding"] != "zeros" else place

    def _mirrored(self, place: Expr, size: int) -> Expr:
        one = 1 << self.fine
        low, high = (0, (size - 1) * one) if self.attrs["corners"] else (-one // 2, size * one - one // 2)
        if high <= low:
            return place
        turn = self.k.let((place - low) % (2 * (high - low)))
        return self.k.let(where(turn > high - low, 2 * (high - low) - turn, turn) + low)

    def _whole(self, part: Expr) -> dict[int, Expr]:
        return {0: constant(1, self.wide)}

    def _linear(self, part: Expr) -> dict[int, Expr]:
        second = self.k.let(part.to(self.wide))
        return {0: self.k.let((1 << self.fine) - second), 1: second}

    def _cubic(self, part: Expr) -> dict[int, Expr]:
        """Keys's weights with a = -3/4, in quarters before they are rounded."""
        t = self.k.let(part.to("int64"))
        square, cube = self.k.let((t * t) << self.fine), self.k.let(t * t * t)
        line, one = t << 2 * self.fine, 1 << 3 * self.fine
        half, shift = 1 << 2 * self.fine + 1, 2 * self.fine + 2
        before = self.k.let(((-3 * (cube - 2 * square + line) + half) >> shift).to(self.wide))
        own = self.k.let(((5 * cube - 9 * square + 4 * one + half) >> shift).to(self.wide))
        last = self.k.let(((3 * (cube - square) + half) >> shift).to(self.wide))
        return {-1: before, 0: own, 1: self.k.let((1 << self.fine) - before - own - last), 2: last}

    def _weighed(self, taps: Sequence[Sequence[Tap]]) -> list[tuple[tuple[Expr, ...], Expr]]:
        """The positions and the weight of each element that is read; the weight of one outside is 0."""
        found = []
        for chosen in product(*taps):
            weight = chosen[0][2]
            for _, _, other in chosen[1:]:
                weight = weight * other
            inside = all_of(*(one[1] for one in chosen))
            if self.attrs["padding"] == "zeros":
                weight = where(inside, weight, constant(0, self.wide))
            found.append((tuple(one[0] for one in chosen), self.k.let(weight)))
        return found

    def _value(self, element: Callable[[tuple[Expr, ...]], Expr], weighed: Sequence[tuple[Any, Expr]]) -> Expr:
        total: Expr | None = None
        for place, weight in weighed:
            term = (element(place).to(self.wide) - self.x.zero_point[0]) * weight
            total = term if total is None else total + term
        assert total is not None
        if self.attrs["mode"] != "nearest":
            shift, own = self.fine * self.axes, self.y != self.x
            if own:
                ratio = self.x.scale[0] / self.y.scale[0]
                bits = RATIO[self.x.dtype] - max(0, math.frexp(ratio)[1])
                total, shift = total.to("int64") * int(round_half_up(2.0**bits * ratio)), shift + bits
            total = (total + (1 << shift - 1)) >> shift
        lo, hi = self.y.limits
        return clamp(total + self.y.zero_point[0], int(lo), int(hi)).to(self.x.dtype)


OPS = (GridSample(), CubicGridSample())
LOWERINGS = {
    **{(op.name, "int16"): op.lower for op in OPS},
    **{(op.name, "float32"): nest.lower_float for op in OPS},
}
