"""Draws a profile: for each value its histogram, the range of its type, and what that range clips.

In: a Profile and the quantized graph. Out: blocks of a page. Heights are logarithms of counts. Green: the range of the type.
Red: bins that it clips.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from glowembed.graph.ir import Graph, QType, Value
from glowembed.ranges.profile import Profile
from glowembed.ranges.record import Histogram, ValueProfile
from glowembed.records import dataclass
from glowembed.show.page import Block, paragraph, pictures
from glowembed.show.page.charts import marks, svg, text

BARS = 128
WIDTH, HEIGHT, FOOT = 520, 96, 20


def drawings(profile: Profile, graph: Graph) -> tuple[Block, ...]:
    """A histogram of every value that has one, in the order of the graph."""
    known = [value for value in graph.values.values() if value.name in profile.values]
    drawn = [v for v in known if profile.values[v.name].histogram is not None and v.const is None]
    words = (
        f"{profile.samples} samples, {len(drawn)} values: how often each number was seen, on a logarithmic scale. Green is the"
        " range of the type; red is what it clips."
    )
    return (*paragraph(words, "soft"), *pictures((_caption(v, s), _picture(v, s)) for v, s in _with(drawn, profile)))


def _with(drawn: Sequence[Value], profile: Profile) -> list[tuple[Value, ValueProfile]]:
    return [(value, profile.values[value.name]) for value in drawn]


def _caption(value: Value, seen: ValueProfile) -> str:
    parts = [f"{value.name}: seen {seen.low:g} to {seen.high:g}", *(["edited by hand"] if seen.edited else [])]
    parts.append(_described(value.qtype) if value.qtype is not None else "stays float32")
    if seen.histogram is not None and value.qtype is not None:
        share = clipped(seen.histogram, *value.qtype.range())
        parts += [f"{100 * share:.3g} % clipped"] if share > 0 else []
    return "; ".join(parts)


def _picture(value: Value, seen: ValueProfile) -> str:
    if seen.histogram is None:
        return ""
    return _drawing(_Bars.of(seen.histogram), value.qtype.range() if value.qtype is not None else None)


def _described(qtype: QType) -> str:
    low, high = qtype.range()
    return f"{qtype.dtype}, scale {qtype.scale[0]:.6g}, zero point {qtype.zero_point[0]}: {low:.6g} to {high:.6g}"


def clipped(histogram: Histogram, low: float, high: float) -> float:
    """The share of the counts whose bins lie outside low..high."""
    starts = (histogram.first + np.arange(len(histogram.counts))) * histogram.width
    outside = (starts + histogram.width < low) | (starts > high)
    return float(histogram.counts[outside].sum() / histogram.counts.sum())


@dataclass(frozen=True)
class _Bars:
    """The counts of at most BARS equal intervals from `low` on."""

    low: float
    width: float
    counts: NDArray[np.int64]

    @classmethod
    def of(cls, histogram: Histogram) -> _Bars:
        together = -(-len(histogram.counts) // BARS)
        counts = np.add.reduceat(histogram.counts, np.arange(0, len(histogram.counts), together))
        return cls(histogram.first * histogram.width, together * histogram.width, counts)


def _drawing(bars: _Bars, held: tuple[float, float] | None) -> str:
    """Draw one histogram. The value axis spans the values seen, the range of the type, and zero."""
    ends = (bars.low, bars.low + len(bars.counts) * bars.width, 0.0, *(held or ()))
    left, right = min(ends), max(ends)
    per_unit = WIDTH / (right - left)
    parts = []
    if held is not None:
        parts.append(_rect("held", (held[0] - left) * per_unit, (held[1] - held[0]) * per_unit, HEIGHT))
    heights = np.log1p(bars.counts) / np.log1p(bars.counts.max()) * (HEIGHT - 6)
    for i, height in enumerate(heights.tolist()):
        start = bars.low + i * bars.width
        outside = held is not None and (start + bars.width < held[0] or start > held[1])
        if height:
            kind = "clipped" if outside else "bar"
            parts.append(_rect(kind, (start - left) * per_unit, max(1.0, bars.width * per_unit), height))
    x = -left * per_unit
    parts.append(f'<line class="zero" x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{HEIGHT}"/>')
    parts.append(f'<path class="axis" d="M0 {HEIGHT}H{WIDTH}"/>')
    for mark in marks(left, right):
        at = (mark - left) * per_unit
        anchor = "start" if at < 16 else "end" if at > WIDTH - 16 else "middle"
        parts.append(text(at, HEIGHT + 14, f"{mark:g}", anchor, ' class="soft"'))
    return svg(WIDTH, HEIGHT + FOOT, parts)


def _rect(kind: str, x: float, width: float, height: float) -> str:
    return f'<rect class="{kind}" x="{x:.1f}" y="{HEIGHT - height:.1f}" width="{width:.1f}" height="{height:.1f}"/>'
