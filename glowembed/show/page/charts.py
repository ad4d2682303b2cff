"""Draws charts as SVG for a page: confusion matrix, scatter plot, histogram. In: numbers. Out: SVG text.

Colours are classes of style.css, so that they follow light and dark mode. All texts are escaped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

import numpy as np

from glowembed.graph.ir import Array

SIDE = 360
POINTS = 4000
"""The most points of a scatter plot; if there are more, they are picked evenly."""

MARGIN = 52
"""Room for the numbers and the title of an axis."""


def svg(width: float, height: float, parts: Sequence[str]) -> str:
    """A picture of its parts."""
    size = f'viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}"'
    return f'<svg {size} font-family="system-ui, sans-serif" font-size="11" role="img">{"".join(parts)}</svg>'


def text(x: float, y: float, words: str, anchor: str = "start", more: str = "") -> str:
    """A text at a place."""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{escape(words)}</text>'


def marks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers from low to high, `most` of them or fewer, in steps of 1, 2 or 5 times a power of ten."""
    if not high > low:
        return [low]
    rough = (high - low) / most
    unit = 10.0 ** np.floor(np.log10(rough))
    step = next((unit * f for f in (1, 2, 5) if unit * f >= rough), unit * 10)
    return [float(step * k) for k in range(int(np.ceil(low / step)), int(np.floor(high / step)) + 1)]


def confusion(labels: Array, guesses: Array, classes: int) -> str:
    """The confusion matrix. Rows are labels; columns are answers."""
    counts = np.zeros((classes, classes), dtype=np.int64)
    np.add.at(counts, (labels, guesses), 1)
    cell = max(8, min(34, SIDE // classes))
    most, end = max(1, int(counts.max())), MARGIN + classes * cell
    squares = [_square(r, c, int(counts[r, c]), most, cell) for r in range(classes) for c in range(classes)]
    titles = [
        text(MARGIN, 14, "class that the device answered"),
        text(14, MARGIN, "class by the label", "end", f' transform="rotate(-90 14 {MARGIN})"'),
    ]  # fmt: skip
    return svg(max(end + 8, MARGIN + 190), max(end + 8, MARGIN + 120), [*squares, *_numbers(classes, cell), *titles])


def _square(row: int, column: int, count: int, most: int, cell: int) -> str:
    x, y = MARGIN + column * cell, MARGIN + row * cell
    label = text(x + cell / 2, y + cell / 2 + 4, str(count), "middle") if count and cell > 20 else ""
    kind = "right" if row == column else "wrong"
    return (
        f'<rect x="{x}" y="{y}" width="{cell}" height="{cell}" class="{kind} cell" fill-opacity="{0.75 * count / most:.3f}">'
        f"<title>label {row}, device {column}: {count}</title></rect>{label}"
    )


def _numbers(classes: int, cell: int) -> Iterator[str]:
    for index in range(0, classes, 1 if cell >= 18 else 10):
        middle = MARGIN + (index + 0.5) * cell
        yield text(middle, MARGIN - 8, str(index), "middle", ' class="soft"')
        yield text(MARGIN - 8, middle + 4, str(index), "end", ' class="soft"')


def scatter(floats: Array, found: Array) -> str:
    """Every element of an output: float across, device up; elements without an error lie on the diagonal."""
    x, y = floats.reshape(-1).astype(np.float64), found.reshape(-1).astype(np.float64)
    picked = np.linspace(0, len(x) - 1, min(POINTS, len(x))).astype(np.int64)
    x, y = x[picked], y[picked]
    low, high = float(min(x.min(), y.min())), float(max(x.max(), y.max()))
    per_unit, end = SIDE / ((high - low) or 1.0), MARGIN + SIDE

    def at(value: float) -> float:
        return (value - low) * per_unit

    parts = [f'<path class="axis" fill="none" d="M{MARGIN} 8V{SIDE + 8}H{end}"/>']
    for mark in marks(low, high):
        across, up = MARGIN + at(mark), SIDE + 8 - at(mark)
        parts.append(f'<path class="grid" d="M{across:.1f} 8V{SIDE + 8}M{MARGIN} {up:.1f}H{end}"/>')
        parts.append(text(across, SIDE + 24, f"{mark:g}", "middle", ' class="soft"'))
        parts.append(text(MARGIN - 6, up + 4, f"{mark:g}", "end", ' class="soft"'))
    parts.append(f'<path class="axis" stroke-dasharray="4 3" d="M{MARGIN} {SIDE + 8}L{end} 8"/>')
    parts += [
        f'<circle class="dot" cx="{MARGIN + at(a):.1f}" cy="{SIDE + 8 - at(b):.1f}" r="2"/>'
        for a, b in zip(x.tolist(), y.tolist(), strict=True)
    ]
    middle = SIDE / 2 + 8
    parts.append(text(MARGIN + SIDE / 2, SIDE + 42, "float model", "middle"))
    parts.append(text(12, middle, "device", "middle", f' transform="rotate(-90 12 {middle:g})"'))
    return svg(end + 10, SIDE + 52, parts)
