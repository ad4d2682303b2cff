"""Finds tilings that are worth planning exactly, by estimating their bytes and cycles in closed form. In:

a Tiler, and the segments that are known without strips. Out: groups in strips, as ways to plan. An estimate treats the
whole image like its middle: rows of a tensor wait until a window of its reader is complete, and all strips and patches
are as wide as the widest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from functools import cached_property
from typing import Any

import numpy as np

from glowembed.plan.conflicts import Ints
from glowembed.plan.curve import Curve, Option, curve_of
from glowembed.plan.tiles import Tiler, Tiling
from glowembed.records import dataclass

WIDTHS = (1, 2, 3, 4, 5, 6, 9, 12, 18, 27, 40)
"""The widths of strips to try, in pixels of the output of a group."""

PATCHES = (2, 3, 4, 6, 9)
"""The widths of patches to try."""

HEIGHTS = (1, 2, 3, 4, 6)
"""The heights of patches to try."""

BLOCKS = 6
"""The most blocks of a group; blocks begin and end at narrow tensors."""


@dataclass(frozen=True)
class _Layer:
    """A work in the estimates: its vertical and horizontal window, and the padding above."""

    taps_h: int
    step_h: int
    pad_h: int
    taps_w: int
    step_w: int

    @classmethod
    def of(cls, params: Any) -> _Layer:
        if not hasattr(params, "kernel_h"):
            return cls(1, 1, 0, 1, 1)
        down, across = (params.kernel_h - 1) * params.dilation_h + 1, (params.kernel_w - 1) * params.dilation_w + 1
        return cls(down, params.stride_h, params.pad_top, across, params.stride_w)


@dataclass
class Estimates:
    """Estimates for the groups of one Tiler."""

    tiler: Tiler
    prices: dict[tuple[int, int], list[tuple[int, float]]] = field(default_factory=dict)
    cheapest: dict[tuple[int, int], float] = field(default_factory=dict)
    across: dict[tuple[int, int, int], dict[int, int]] = field(default_factory=dict)
    waiting: dict[tuple[int, int], Ints] = field(default_factory=dict)

    @cached_property
    def layers(self) -> list[_Layer]:
        return [_Layer.of(self.tiler.node(p).params) for p in range(len(self.tiler.rows.works))]

    @cached_property
    def readers(self) -> list[int]:
        """The position of the last reader of each output."""
        rows = self.tiler.rows
        return [max(rows.readers[work.output], default=-1) for work in rows.works]

    @cached_property
    def windows(self) -> list[tuple[int, int]]:
        """For the readers of each output: (rows of the window, rows from window to window)."""
        return [self._window(p) for p in range(len(self.layers))]

    def _window(self, position: int) -> tuple[int, int]:
        rows, taps, step = self.tiler.rows, 1, 1
        for r in rows.readers[rows.works[position].output]:
            between = (self.layers[q] for q in range(position + 1, r))
            lag = sum(layer.taps_h - 1 - layer.pad_h for layer in between)
            if lag + self.layers[r].taps_h >= taps:
                taps, step = lag + self.layers[r].taps_h, 1 if lag else self.layers[r].step_h
        return taps, step

    @cached_property
    def cuts(self) -> list[int]:
        """The positions before which a group may begin and after which one may end: only one tensor is needed after
        them, and the tensors around it have longer rows or cannot be cut.
        """
        rows = self.tiler.rows
        count = len(rows.works)
        found = [0]
        for p in range(1, count):
            before = {s for w in rows.works[:p] for s in (w.output, *w.inputs)}
            crossing = {s for s in before for r in rows.readers[s] if r >= p}
            if len(crossing) != 1 or rows.works[p - 1].output not in crossing:
                continue
            here, behind = self.tiler.row(p - 1), self.tiler.row(p)
            above = self.tiler.row(p - 2) if p > 1 else here
            if (here <= above and here <= behind) or not self.tiler.cuttable[p]:
                found.append(p)
        return [*found, count]

    def groups(self, limit: int) -> Iterator[tuple[int, int, Tiling, Curve]]:
        """The groups and tilings that may need less than `limit` bytes, each with its estimate."""
        for i, first in enumerate(self.cuts):
            for last in self.cuts[i + 1 : i + 1 + BLOCKS]:
                if self.tiler.allowed(first, last) and self.border(first, last) < limit:
                    yield from self._tilings(first, last, limit)

    def border(self, first: int, last: int) -> int:
        """The bytes of the input or the output of a group; a group needs more than that."""
        rows, works = self.tiler.rows, self.tiler.rows.works[first:last]
        read = {s for w in works for s in w.inputs} - {w.output for w in works}
        given = sum(rows.storages[s].bytes for s in read if not rows.storages[s].outside)
        return max(given, 0 if rows.storages[works[-1].output].outside else rows.storages[works[-1].output].bytes)

    def _tilings(self, first: int, last: int, limit: int) -> Iterator[tuple[int, int, Tiling, Curve]]:
        kept: list[tuple[int, float, Tiling, _Estimate]] = []
        for tiling in dict.fromkeys(self._candidates(first, last)):
            one = _Estimate(self, first, last, tiling)
            if one.least < limit:
                kept.append((one.least, one.fastest, tiling, one))
        kept.sort(key=lambda k: k[:2])
        best = float("inf")
        for _, fastest, tiling, one in kept:
            if fastest < best * 0.995:
                best = fastest
                yield first, last, tiling, one.curve()

    def _candidates(self, first: int, last: int) -> Iterator[Tiling]:
        """The tilings to try: strips; patches of the whole group without strips, or of its first blocks, where images are widest; and strips
        with patches of one or two blocks, where most bytes are alive.
        """
        width = self.tiler.width(last - 1)
        inner = [cut for cut in self.cuts if first <= cut <= last]
        for b in inner[1:3]:
            if b < last:
                yield from self._patches(1, first, b, self.tiler.width(b - 1), (first, last))
        if any(self.tiler.summing[first:last]):
            return
        for strips in sorted({-(-width // w) for w in WIDTHS if w < width}):
            yield Tiling(strips)
            across = self.widths(first, last, -(-width // strips))
            peaks = _Estimate(self, first, last, Tiling(strips)).peaks
            worst = first + max(range(len(peaks)), key=peaks.__getitem__)
            for i, a in enumerate(inner):
                for b in inner[i + 1 : i + 3]:
                    if a <= worst < b and (a, b) != (first, last):
                        yield from self._patches(strips, a, b, across[b - 1], (first, last))
        yield from self._patches(1, first, last, width, (first, last))

    def _patches(self, strips: int, a: int, b: int, across: int, group: tuple[int, int]) -> Iterator[Tiling]:
        if not self.tiler.patchable(a, b, group) or not all(self.tiler.cuttable[a:b]):
            return
        for height in HEIGHTS:
            for patch in PATCHES:
                if patch < across and height < self.tiler.rows.works[b - 1].rows:
                    yield Tiling(strips, a, b, height, -(-across // patch))

    def widths(self, first: int, last: int, width: int) -> dict[int, int]:
        """The pixels that each work computes in a row for `width` pixels of the last one."""
        key = first, last, width
        if key not in self.across:
            self.across[key] = self._widths(first, last, width)
        return self.across[key]

    def _widths(self, first: int, last: int, width: int) -> dict[int, int]:
        found = {last - 1: width}
        for p in reversed(range(first, last)):
            layer, here = self.layers[p], found.get(p, 1)
            for s in self.tiler.rows.works[p].inputs:
                for q in self.tiler.rows.writers[s]:
                    if first <= q:
                        need = (
                            (here - 1) * layer.step_w + layer.taps_w if self.tiler.cuttable[p] else self.tiler.width(q)
                        )
                        need = min(need, self.tiler.width(q))
                        found[q] = max(found.get(q, 0), need)
        return found

    def kernels(self, position: int, width: int) -> list[tuple[int, float]]:
        """The scratch and the cycles of each kernel for one row of `width` pixels in the middle of the image."""
        key = position, width
        if key not in self.prices:
            tile = self.tiler.tile(position, width)
            found = []
            for choice in self.tiler.rows.works[position].kernels:
                if tile is None:
                    break
                scratch = self.tiler.scratch(position, tile.params, choice.symbol)
                if scratch is not None:
                    found.append((scratch, self.tiler.cycles(position, choice.symbol, [tile])))
            self.prices[key] = found
            self.cheapest[key] = min((cycles for _, cycles in found), default=float("inf"))
        return self.prices[key]

    def rows(self, first: int, last: int) -> Ints:
        """The rows of each output inside a group (columns) that are alive while each layer (rows) runs, if all run row by row."""
        key = first, last
        if key not in self.waiting:
            taps, step = np.asarray(self.windows[first : last - 1], np.int64).reshape(-1, 2).T
            layer, position = np.arange(first, last)[:, None], np.arange(first, last - 1)
            waits = (position <= layer) & (layer <= np.maximum(position, self.readers[first : last - 1]))
            later = np.where(position > layer, taps - 1, np.maximum(taps - step, 0))
            self.waiting[key] = np.where(waits, taps, later)
        return self.waiting[key]


class _Estimate:
    """An estimate for a group: the bytes alive in the calls of each work, and the rows that it computes."""

    def __init__(self, of: Estimates, first: int, last: int, tiling: Tiling) -> None:
        self.of, self.first, self.last, self.tiling = of, first, last, tiling
        tiler = of.tiler
        self.patched = range(tiling.first, tiling.last)
        self.width = of.widths(first, last, -(-tiler.width(last - 1) // tiling.strips))
        self.height = dict.fromkeys(range(first, last), 0)
        if self.patched:
            end = self.patched[-1]
            patch = -(-self.width[end] // tiling.patches)
            inner = of.widths(tiling.first, tiling.last, patch)
            self.width = {**self.width, **inner, end: self.width[end]}
            self.patch_width = patch
            self._heights()
        row_bytes = np.asarray([-(-self.width[p] * tiler.pixel(p) // 4) * 4 for p in range(first, last - 1)], np.int64)
        self.peaks: list[int] = (self._rows() @ row_bytes).tolist()
        self.border = self._border()
        self.least = max(self.peaks) + self.border

    @cached_property
    def fastest(self) -> float:
        """The cycles of the fastest kernels."""
        return sum(self._cheapest(p) * self._calls(p) for p in range(self.first, self.last))

    def _heights(self) -> None:
        """Set the rows of each patched work for a block, and `read`, the rows that the patched works read."""
        rows, self.read = self.of.tiler.rows, 0
        self.height[self.patched[-1]] = self.tiling.height
        self.stride = 1
        for p in reversed(self.patched):
            layer = self.of.layers[p]
            need = (self.height[p] - 1) * layer.step_h + layer.taps_h
            self.stride *= layer.step_h
            for s in rows.works[p].inputs:
                writers = [q for q in rows.writers[s] if q in self.patched]
                for q in writers:
                    self.height[q] = max(self.height[q], min(need, rows.works[q].rows))
                if not writers:
                    self.read = max(self.read, min(need, rows.storages[s].rows))

    def _rows(self) -> Ints:
        """The rows of each output inside the group (columns) that are alive while each layer (rows) runs."""
        rows = self.of.rows(self.first, self.last)
        if not self.patched:
            return rows
        rows, begin, end = rows.copy(), self.patched[0] - self.first, self.patched[-1] - self.first
        high = np.asarray([self.height[p] for p in self.patched[:-1]], np.int64)
        inside = rows[begin : end + 1, begin:end]
        np.minimum(inside, high, out=inside)
        rows[:begin, begin:end] = rows[end + 1 :, begin:end] = 0
        if end < rows.shape[1]:
            taps, step = self.of.windows[self.patched[-1]]
            waits, block = max(taps - step, 0), self.tiling.height
            rows[: end + 1, end] = waits + max(block, step)
            rows[end + 1 :, end] = max(block - 1 + waits, taps)
        if begin:
            rows[: end + 1, begin - 1] = self.read
            rows[end + 1 :, begin - 1] = max(self.read - self.tiling.height * self.stride, 0)
        return rows

    def _border(self) -> int:
        """The bytes of the input and output of the group."""
        tiler = self.of.tiler
        storages, works = tiler.rows.storages, tiler.rows.works[self.first : self.last]
        made = {w.output for w in works}
        given = [storages[s] for s in sorted({s for w in works for s in w.inputs} - made) if not storages[s].outside]
        out = storages[works[-1].output]
        into, behind = sum(s.bytes for s in given), 0 if out.outside else out.bytes
        ends = any(self.of.tiler.summing[self.first : self.last])
        if self.tiling.strips > 1 or (not ends and (out.whole or any(s.whole for s in given))):
            return into + behind
        need, step, read = 1, 1, 1
        for layer in (self.of.layers[p] for p in reversed(range(self.first, self.last))):
            need, step = (need - 1) * layer.step_h + layer.taps_h, step * layer.step_h
            read = (read - 1) * layer.step_h + layer.taps_h - layer.pad_h
        high = max(self.tiling.height, 1)
        if ends:
            return sum(max(s.rows - read + high, 0) * s.row_bytes for s in given) + behind
        rest = sum(min(need + high * step, s.rows) * s.row_bytes for s in given)
        return max(into + high * (0 if out.outside else out.row_bytes), rest + behind)

    def _calls(self, position: int) -> float:
        """The rows that a work computes, in all strips and patches."""
        rows = self.of.tiler.rows.works[position].rows
        if position not in self.patched:
            return self.tiling.strips * rows
        blocks = -(-self.of.tiler.rows.works[self.patched[-1]].rows // self.tiling.height)
        high = rows / blocks if position == self.patched[-1] else self.height[position]
        return self.tiling.strips * self.tiling.patches * blocks * high

    def _width(self, position: int) -> int:
        return self.patch_width if self.patched and position == self.patched[-1] else self.width[position]

    def _prices(self, position: int) -> Sequence[tuple[int, float]]:
        return self.of.kernels(position, self._width(position))

    def _cheapest(self, position: int) -> float:
        self._prices(position)
        return self.of.cheapest[position, self._width(position)]

    def curve(self) -> Curve:
        """Bytes against cycles of the kernels."""
        options = [
            [
                Option(peak + self.border + scratch, cycles * self._calls(p), i)
                for i, (scratch, cycles) in enumerate(self._prices(p))
            ]
            for p, peak in zip(range(self.first, self.last), self.peaks, strict=True)
        ]
        return curve_of(options, self.least)
