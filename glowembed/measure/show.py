"""A measurement for a person. In: a Measurement. Out: rich tables, readable at 80 columns without colour."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from glowembed.measure.measurement import Figures, HotSpot, Measurement

FUNCTIONS = 12


def shown(found: Measurement) -> RenderableType:
    """Totals, layers and functions with instructions and cycles; hot spots where they were asked for."""
    macs = [int(layer.get("macs", 0)) for layer in found.manifest["layers"]]
    head = Text.assemble(
        f"{found.bundle} for {found.target} on {found.board}: ",
        (f"{found.total.instructions:,} instructions", "bold"),
        f", {_cycles(found.total)} cycles per inference",
    )
    layers = [(f.name, *_cells(f, m)) for f, m in zip(found.layers, macs, strict=True)]
    functions = [(f.name, *_cells(f, 0)[1:3]) for f in found.functions[:FUNCTIONS]]
    parts: list[RenderableType] = [
        head,
        _table("Layers", ("layer", "MACs", "instructions", "cycles", "cycles/MAC"), layers),
        *([_table("Functions", ("function", "instructions", "cycles"), functions)] if functions else []),
        *(_hot(spot) for spot in found.hot),
        *([Text(f"note: {found.note}", style="dim")] if found.note else []),
    ]
    return Group(*parts)


def _table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], left: Sequence[int] = (0,)) -> Table:
    """A table of numbers, but for the columns `left`."""
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for index, column in enumerate(columns):
        words = index in left
        table.add_column(column, justify="left" if words else "right", overflow="fold", no_wrap=not words)
    for row in rows:
        table.add_row(*map(escape, row))
    return table


def _cycles(found: Figures) -> str:
    c = found.cycles
    if c is None:
        return "-"
    exact = round(c.low) == round(c.high)
    return f"{c.point:,.0f}" if exact else f"{c.point:,.0f} ({c.low:,.0f} .. {c.high:,.0f})"


def _cells(found: Figures, macs: int) -> tuple[str, str, str, str]:
    """MACs, instructions, cycles, cycles per MAC."""
    each = f"{found.cycles.point / macs:.2f}" if macs and found.cycles else "-"
    point = "-" if found.cycles is None else f"{found.cycles.point:,.0f}"
    return f"{macs:,}" if macs else "-", f"{found.instructions:,}", point, each


def _hot(spot: HotSpot) -> Table:
    rows = [(f"{x.address:x}", f"{x.times:,}", f"{x.cycles:.2f}", " ".join(x.text.split())) for x in spot.lines]
    return _table(f"{100 * spot.share:.1f} % in {spot.function}", ("address", "times", "cycles", ""), rows, left=(3,))
