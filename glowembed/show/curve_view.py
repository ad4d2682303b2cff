"""Draws RAM against cycles. In: the plans that no other plan beats in both (memory.tradeoffs). Out: a table as text, and an
SVG.

RAM runs to the right, cycles run up. Each dot is a plan; the steps show the cost of a limit of RAM: `--ram` takes the
fastest plan within it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from glowembed.graph.plan import Tradeoff

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 420, 90, 30, 50, 60


def text(name: str, points: Sequence[Tradeoff], cycles: str = "estimated cycles") -> str:
    """A line for each plan, the smallest first."""
    lines = [f"{name}: RAM against {cycles}", f"{'RAM':>9} {'cycles':>14} {'more':>8}"]
    return "\n".join(lines + [f"{p.ram:>9,} {p.cycles:>14,.0f} {100 * p.extra:>7.1f}%" for p in points])


def svg(name: str, points: Sequence[Tradeoff], chosen: Tradeoff | None = None, cycles: str = "estimated cycles") -> str:
    """The plans as dots on steps, and the chosen one as a ring; a tooltip gives bytes, cycles and how many these are beyond the fastest kernels."""
    shown = [*points, *([chosen] if chosen is not None else [])]
    right, top = max(p.ram for p in shown) * 1.03, max(p.cycles for p in shown) * 1.03

    def x(ram: float) -> float:
        return LEFT + ram / right * (WIDTH - LEFT - RIGHT)

    def y(taken: float) -> float:
        return HEIGHT - BOTTOM - taken / top * (HEIGHT - TOP - BOTTOM)

    steps = [f"M{x(points[0].ram):.1f} {y(points[0].cycles):.1f}"]
    steps += [f"H{x(p.ram):.1f}V{y(p.cycles):.1f}" for p in points[1:]]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="26" font-size="15">{escape(name)}: RAM against {escape(cycles)}</text>',
    ]
    for ram in _marks(right):
        parts += [
            _line(x(ram), TOP, x(ram), HEIGHT - BOTTOM),
            _label(x(ram), HEIGHT - BOTTOM + 18, "middle", f"{ram:,}"),
        ]
    for taken in _marks(top):
        parts += [
            _line(LEFT, y(taken), WIDTH - RIGHT, y(taken)),
            _label(LEFT - 6, y(taken) + 4, "end", f"{taken / 1e6:g} M"),
        ]
    parts += [
        _label((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 16, "middle", "bytes of RAM"),
        f'<g transform="rotate(-90 18 {HEIGHT / 2:g})">{_label(18, HEIGHT / 2, "middle", cycles)}</g>',
        f'<path d="{"".join(steps)}H{WIDTH - RIGHT}" fill="none" stroke="#4a6fa5" stroke-width="1.5"/>',
    ]
    for p in points:
        tip = f"{p.ram:,} bytes, {p.cycles:,.0f} cycles, {100 * p.extra:.1f} % more than the fastest kernels"
        parts.append(
            f'<circle cx="{x(p.ram):.1f}" cy="{y(p.cycles):.1f}" r="4" fill="#c8372d"><title>{escape(tip)}</title></circle>'
        )
    if chosen is not None:
        at_x, at_y = x(chosen.ram), y(chosen.cycles)
        ring = f'<circle cx="{at_x:.1f}" cy="{at_y:.1f}" r="8" fill="none" stroke="#c8372d" stroke-width="2"/>'
        parts += [ring, _label(max(at_x - 12, LEFT + 80), at_y + 18, "end", "this bundle")]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _marks(end: float) -> Iterator[int]:
    """Round numbers from 0 to `end`, four to eight of them."""
    unit = 10 ** max(0, len(str(int(end))) - 1)
    step = next(max(1, int(unit * f)) for f in (2, 1, 0.5, 0.25, 0.2, 0.1) if end / max(1, int(unit * f)) >= 4)
    yield from range(0, int(end) + 1, step)


def _line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#ddd"/>'


def _label(x: float, y: float, anchor: str, words: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'
