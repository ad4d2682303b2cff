"""Draws a graph as an SVG: one row for each node in order of execution, tensors as lines.

In: rows, and a text for each tensor. Out: an SVG. A tensor that the next row reads is an arrow down; one that is read
later keeps a lane at the left until its last reader. It knows nothing of bundles; text that does not fit a label is in
its tooltip.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from glowembed.records import dataclass

BOX, GAP, LANE = 36, 26, 14
"""The height of a row, the space between two rows, and the width of a lane."""

LETTER, SMALL_LETTER = 7.5, 6.3
"""The widths of a letter in the boxes and beside the arrows, at most: monospace fonts differ by a tenth."""

COLOURS = ("#2b6cb0", "#c05621", "#2f855a", "#6b46c1", "#b83280", "#4a5568", "#b7791f", "#2c7a7b")


@dataclass(frozen=True)
class Row:
    """A node, or an input or output of the graph (`round`): two lines of text, the tensors that it reads, and those
    that it makes.
    """

    label: str
    detail: str
    reads: tuple[str, ...]
    makes: str | None
    round: bool = False


def svg(title: str, rows: Sequence[Row], texts: Mapping[str, str]) -> str:
    """The picture; `texts`: the label of each tensor."""
    made = {row.makes: i for i, row in enumerate(rows) if row.makes is not None}
    readers: dict[str, list[int]] = {name: [] for name in made}
    for i, row in enumerate(rows):
        for name in dict.fromkeys(row.reads):
            readers[name].append(i)
    lanes = _lanes(made, readers)
    left = LANE * (max(lanes.values(), default=-1) + 2)
    width = LETTER * max(len(text) for row in rows for text in (row.label, row.detail)) + 24
    beside = width / 2 + 8 + SMALL_LETTER * max((len(text) for text in texts.values()), default=0)
    total = int(left + max(width, beside)) + 24
    parts = [_box(row, left, _top(i), width) for i, row in enumerate(rows)]
    for name, i in made.items():
        parts.append(_text(left + width / 2 + 8, _top(i) + BOX + GAP / 2 + 4, texts[name], 10))
        for reader in readers[name]:
            tip = f"{rows[i].label} to {rows[reader].label}: {texts[name]}"
            path = (
                _down(left + width / 2, i) if reader == i + 1 else _aside(left, LANE * (lanes[name] + 0.7), i, reader)
            )
            parts.append(_edge(path, COLOURS[lanes.get(name, 0) % len(COLOURS)], tip))
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total} {_top(len(rows))}" width="{total}" '
        f'font-family="monospace" font-size="12">\n<title>{_xml(title)}</title>\n<defs><marker id="end" viewBox="0 0 8 8" '
        'refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z"/></marker></defs>\n'
        f'<rect width="{total}" height="{_top(len(rows))}" fill="white"/>'
    )
    return "\n".join([head, *parts, "</svg>"]) + "\n"


def _lanes(made: Mapping[str, int], readers: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """The lane of each tensor that is read later than by the next row: the first one that is free throughout its life."""
    busy_until, lanes = list[int](), dict[str, int]()
    for name, i in made.items():
        if not readers[name] or max(readers[name]) == i + 1:
            continue
        lane = next((k for k, last in enumerate(busy_until) if last <= i), len(busy_until))
        busy_until[lane : lane + 1] = [max(readers[name])]
        lanes[name] = lane
    return lanes


def _top(row: int) -> int:
    return 10 + row * (BOX + GAP)


def _box(row: Row, x: float, y: float, width: float) -> str:
    radius, fill = (BOX // 2, "#edf2f7") if row.round else (3, "#fefcbf")
    shape = f'<rect x="{x}" y="{y}" width="{width}" height="{BOX}" rx="{radius}" fill="{fill}" stroke="#4a5568"/>'
    return shape + _text(x + 12, y + 15, row.label, 12) + _text(x + 12, y + 29, row.detail, 10)


def _text(x: float, y: float, text: str, size: int) -> str:
    return f'<text x="{x:g}" y="{y:g}" font-size="{size}">{_xml(text)}</text>'


def _down(x: float, row: int) -> str:
    return f"M{x:g} {_top(row) + BOX}V{_top(row + 1)}"


def _aside(left: float, lane: float, row: int, reader: int) -> str:
    """A line out of the lower left side of one box, along the lane, into the upper left side of the other."""
    return f"M{left:g} {_top(row) + BOX - 8}H{lane:g}V{_top(reader) + 10}H{left:g}"


def _edge(path: str, colour: str, tip: str) -> str:
    return f'<path d="{path}" fill="none" stroke="{colour}" marker-end="url(#end)"><title>{_xml(tip)}</title></path>'


def _xml(text: str) -> str:
    """A name without characters that XML does not allow; names in a model may contain anything."""
    return escape("".join(c for c in text if c.isprintable()))
