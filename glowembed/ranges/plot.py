"""Draws a profile as a page: for each value its histogram, the range of its type, and what that range clips.

In: a Profile and the quantized graph. Out: the text of one HTML file with drawings in SVG, or the part of it that the
page of a validation shows; no scripts, nothing loaded. Heights are logarithms of counts. Green: the range of the type.
Red: bins that it clips.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

import numpy as np
from numpy.typing import NDArray

from glowembed.graph.ir import Graph, QType, Value
from glowembed.ranges.profile import Histogram, Profile, ValueProfile

BARS = 128
WIDTH, HEIGHT = 640, 110

STYLE = """
h3 { font-size: 14px; margin: 1.6em 0 0.2em; overflow-wrap: anywhere }
.held { fill: #e3f3e3 } .bar { fill: #4a6fa5 } .clipped { fill: #c8372d } .zero { stroke: #999 } .lost { color: #c8372d }
"""

HEAD = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>
body {{ font: 14px sans-serif; margin: 2em; max-width: 700px }}
p {{ margin: 0.2em 0; color: #444 }}
svg {{ border: 1px solid #ccc }}
{style}</style></head><body><h1>{title}</h1>
"""


def page(profile: Profile, graph: Graph) -> str:
    """The page of all values that have a histogram, in the order of the graph."""
    head = HEAD.format(title=escape(f"{graph.name}: what its values were"), style=STYLE)
    return "".join([head, drawings(profile, graph), "</body></html>\n"])


def drawings(profile: Profile, graph: Graph) -> str:
    """The body of that page; the colours are those of STYLE."""
    known = [value for value in graph.values.values() if value.name in profile.values]
    drawn = [v for v in known if profile.values[v.name].histogram is not None and v.const is None]
    words = f"<p>{profile.samples} samples, {len(drawn)} values. Green: the range of the type. Red: what it clips."
    sections = (_section(v, profile.values[v.name]) for v in drawn)
    return "".join([words, " Heights are logarithmic.</p>\n", *sections])


def _section(value: Value, seen: ValueProfile) -> str:
    assert seen.histogram is not None
    bars = _Bars.of(seen.histogram)
    held = value.qtype.range() if value.qtype is not None else None
    lines = [f"<h3>{escape(value.name)}</h3>\n<p>seen {seen.low:g} to {seen.high:g}"]
    lines.append("; edited by hand" if seen.edited else "")
    lines.append(f"; {_described(value.qtype)}" if value.qtype is not None else "; stays float32")
    if held is not None and (share := clipped(seen.histogram, *held)) > 0:
        lines.append(f'; <b class="lost">{100 * share:.3g} % clipped</b>')
    return "".join([*lines, "</p>\n", _drawing(bars, held), "\n"])


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
    parts = [f'<svg width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}">']
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
    parts.append(f'<line class="zero" x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{HEIGHT}"/></svg>')
    return "".join(parts)


def _rect(kind: str, x: float, width: float, height: float) -> str:
    return f'<rect class="{kind}" x="{x:.1f}" y="{HEIGHT - height:.1f}" width="{width:.1f}" height="{height:.1f}"/>'
