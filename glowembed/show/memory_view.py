"""Shows the memory plan. In: bundle.json. Out: a table as text, and an SVG: time by address.

There is one rectangle for each tensor or streamed row, from the step that writes it to the last one that reads it; a
tooltip gives name, size and lifetime. Two lines mark the arena, and the least that any plan with whole tensors needs.
"""

from __future__ import annotations

import colorsys
import zlib
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from glowembed.records import dataclass

WIDTH, HEIGHT, LEFT, TOP = 1100, 560, 80, 50


@dataclass(frozen=True)
class Block:
    """The memory of a value, or of one row of it, from step to step."""

    name: str
    row: int | None
    offset: int
    bytes: int
    birth: int
    death: int


@dataclass(frozen=True)
class Moment:
    """The memory that is alive while one layer, or one streamed group, runs."""

    name: str
    first: int
    last: int
    live: int


@dataclass(frozen=True)
class View:
    """Everything that is shown. bound: for plans with whole tensors; row_bound: the least for these steps."""

    name: str
    size: int
    bound: int
    row_bound: int
    proof: str
    steps: int
    peak_layer: str
    blocks: tuple[Block, ...]
    moments: tuple[Moment, ...]

    @property
    def peak(self) -> Moment:
        return max(self.moments, key=lambda m: m.live)


def view(manifest: Mapping[str, Any]) -> View:
    """The view of a bundle.json."""
    blocks = tuple(_blocks(manifest))
    schedule, arena = manifest["schedule"], manifest["arena"]
    moments = tuple(_moments(manifest))
    return View(
        manifest["name"], max([arena["size"], *(r["offset"] + r["size"] for r in manifest.get("rams", []))]), arena["liveness_bound"], schedule["row_bound"], schedule["proof"],
        len(schedule["calls_by_layer"]), _peak_layer(manifest), blocks, moments,
    )  # fmt: skip


def _peak_layer(manifest: Mapping[str, Any]) -> str:
    live, calls = manifest["schedule"]["live"], manifest["schedule"]["calls_by_layer"]
    layer = calls[live.index(max(live))] if live else -1
    return str(manifest["layers"][layer]["name"]) if layer >= 0 else "(room for several parts)"


def _blocks(manifest: Mapping[str, Any]) -> Iterator[Block]:
    for entry in manifest["buffers"]:
        name = entry["values"][-1]
        if "rows" in entry:
            for row, (offset, birth, death) in enumerate(entry["rows"]):
                yield Block(name, row, offset, entry["bytes"], birth, death)
        else:
            for birth, death in entry.get("lives", [(entry["birth"], entry["death"])]):
                yield Block(name, None, entry["offset"], entry["bytes"], birth, death)


def _moments(manifest: Mapping[str, Any]) -> Iterator[Moment]:
    """One moment for each layer that runs by itself, and one for each group."""
    names, calls = [layer["name"] for layer in manifest["layers"]], manifest["schedule"]["calls_by_layer"]
    group_of = {i: g for g in manifest["schedule"]["groups"] for i in range(g["first"], g["last"] + 1)}
    at = 0
    while at < len(calls):
        group = group_of.get(calls[at])
        end = at + (group["calls"] if group else 1)
        single = names[calls[at]] if calls[at] >= 0 else "(room for several parts)"
        title = f"{names[group['first']]} .. {names[group['last']]}" if group else single
        yield Moment(title, at, end - 1, max(manifest["schedule"]["live"][at:end]))
        at = end


def text(shown: View) -> str:
    """The timeline as a table."""
    proof = "no other offsets need less" if shown.proof == "optimal" else f"at least {shown.row_bound} are needed"
    lines = [
        f"{shown.name}: arena {shown.size} bytes; {proof} for these steps.",
        f"A planner that keeps whole tensors needs {shown.bound}. Most is alive in {shown.peak_layer!r}.",
        "",
        f"{'steps':>11} {'alive':>8}  layer",
    ]
    for moment in shown.moments:
        steps = f"{moment.first}" if moment.first == moment.last else f"{moment.first}-{moment.last}"
        lines.append(f"{steps:>11} {moment.live:>8}  {moment.name}{'   <- peak' if moment is shown.peak else ''}")
    lines += ["", f"{'address':>8} {'bytes':>8} {'steps':>11}  tensor"]
    whole = dict.fromkeys((b.name, b.offset, b.bytes) for b in shown.blocks if b.row is None)
    for name, offset, size in whole:
        lives = [b for b in shown.blocks if (b.name, b.offset, b.row) == (name, offset, None)]
        life = f"{max(0, lives[0].birth)}-{lives[-1].death}"
        lines.append(f"{offset:>8} {size:>8} {life:>11}  {name}{f', {len(lives)} times' if len(lives) > 1 else ''}")
    for name in dict.fromkeys(b.name for b in shown.blocks if b.row is not None):
        rows = [b for b in shown.blocks if b.name == name and b.row is not None]
        life = f"{min(b.birth for b in rows)}-{max(b.death for b in rows)}"
        most = max(sum(1 for b in rows if b.birth <= t <= b.death) for t in {b.birth for b in rows})
        count = f"{len(rows)} rows, at most {most} at once" if len(rows) > 1 else "1 row"
        lines.append(f"{'rows':>8} {rows[0].bytes:>8} {life:>11}  {name}: {count}")
    return "\n".join(lines)


def _life(block: Block) -> str:
    return f"{max(0, block.birth)}-{block.death}"


def svg(shown: View) -> str:
    """The drawing: time runs to the right, addresses run up."""
    top = max(shown.size, shown.bound)
    x_scale, y_scale = (WIDTH - LEFT - 20) / max(1, shown.steps), (HEIGHT - TOP - 60) / max(1, top)
    base = HEIGHT - 60
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="22" font-size="15">{escape(_title(shown))}</text>',
    ]
    for block in shown.blocks:
        birth, death = max(0, block.birth), min(block.death, shown.steps - 1)
        x, width = LEFT + birth * x_scale, max(1.0, (death - birth + 1) * x_scale)
        height = block.bytes * y_scale
        y = base - block.offset * y_scale - height
        row = "" if block.row is None else f", row {block.row}"
        tip = f"{block.name}{row}: {block.bytes} bytes at {block.offset}, steps {_life(block)}"
        parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{max(0.5, height):.1f}" '
            f'fill="{_colour(block.name)}" fill-opacity="0.8" stroke="#555" stroke-width="0.3"><title>{escape(tip)}</title></rect>'
        )
    parts += [
        _line(shown.size, "arena", "#c00", base, y_scale),
        _line(shown.bound, "whole tensors", "#06c", base, y_scale),
    ]
    parts += [
        f'<text x="{LEFT}" y="{base + 20}">step 0</text>',
        f'<text x="{WIDTH - 20}" y="{base + 20}" text-anchor="end">step {shown.steps - 1}</text>',
        f'<text x="{LEFT - 6}" y="{base}" text-anchor="end">0</text>',
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _title(shown: View) -> str:
    return f"{shown.name}: arena {shown.size} bytes, most alive in {shown.peak_layer}"


def _line(value: int, what: str, colour: str, base: float, scale: float) -> str:
    y = base - value * scale
    return (
        f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - 20}" y2="{y:.1f}" stroke="{colour}" stroke-dasharray="6 3"/>'
        f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end" fill="{colour}">{value}</text>'
        f'<text x="{WIDTH - 24}" y="{y - 4:.1f}" text-anchor="end" fill="{colour}">{what}</text>'
    )


def _colour(name: str) -> str:
    """A colour that is the same for all rows of a tensor, and in every run."""
    hue = zlib.crc32(name.encode()) % 360 / 360
    red, green, blue = (int(255 * c) for c in colorsys.hls_to_rgb(hue, 0.72, 0.55))
    return f"#{red:02x}{green:02x}{blue:02x}"
