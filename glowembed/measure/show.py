"""Shows a measurement to a person. In: a Measurement. Out: rich tables, readable at 80 columns without colour."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from glowembed.graph.clock import energy_text, time_text
from glowembed.measure.measurement import Figures, HotSpot, Measurement, SlowLoads

FUNCTIONS = 12
READERS = 4
LAYER_COLUMNS = ("layer", "kernel", "MACs", "instructions", "cycles", "share", "cycles/MAC")
FUNCTION_COLUMNS = ("function", "instructions", "cycles", "share")


def shown(found: Measurement) -> RenderableType:
    """Totals, layers and functions with instructions and cycles, and hot spots if they were requested."""
    source = "" if found.ruler == "table" else f" by {found.ruler}"
    head = Text.assemble(
        f"{found.bundle} for {found.target} on {found.board}: ",
        (f"{found.total.instructions:,} instructions", "bold"),
        f", {_cycles(found.total)} cycles, estimated{source}, per inference",
        f": {time_text(found.milliseconds, found.clock_hz)}" if found.milliseconds is not None else "",
        f", {energy_text(found.microjoules)}" if found.microjoules is not None else "",
    )
    parts: list[RenderableType] = [
        head,
        _table("Layers, each called by itself", LAYER_COLUMNS, _layers(found), left=(0, 1)),
        *([_table("Functions", FUNCTION_COLUMNS, _functions(found))] if found.functions else []),
        *([_slices(found)] if found.slices else []),
        *([_slow(found.slow)] if found.slow is not None else []),
        *(_hot(spot) for spot in found.hot),
        *([Text(f"note: {found.note}", style="dim")] if found.note else []),
    ]
    return Group(*parts)


def _slow(found: SlowLoads) -> Text:
    """What was read from slow memory, and by which functions."""
    readers = ", ".join(f"{name} {size:,}" for name, size in found.functions[:READERS])
    return Text(
        f"{found.bytes:,} bytes in {found.loads:,} loads from {found.memory}, for which the core waits about {found.cycles:,.0f} of the cycles"
        f"{': ' + readers if readers else ''}"
    )


def _slices(found: Measurement) -> Text:
    """The number of slices of a run, and the longest of them."""
    longest = max(found.slices, key=lambda one: one.cycles.point if one.cycles else one.instructions)
    return Text(
        f"{len(found.slices)} slices of at most {found.manifest['slices']['limit']:,} cycles; the longest, {longest.name!r}, has"
        f" {longest.instructions:,} instructions, {_cycles(longest)} cycles"
    )


def _layers(found: Measurement) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    whole = sum(_weight(f) for f in found.layers)
    for layer, figures in zip(found.manifest["layers"], found.layers, strict=True):
        macs, kernel = int(layer.get("macs", 0)), str(layer.get("kernel") or "-").removeprefix("ge_")
        each = f"{figures.cycles.point / macs:.2f}" if macs and figures.cycles else "-"
        rows.append((figures.name, kernel, f"{macs:,}" if macs else "-", *_cells(figures, whole), each))
    return rows


def _functions(found: Measurement) -> list[tuple[str, ...]]:
    return [(f.name, *_cells(f, _weight(found.total))) for f in found.functions[:FUNCTIONS]]


def _table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], left: Sequence[int] = (0,)) -> Table:
    """A table of numbers, right-aligned except for the columns `left`."""
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


def _weight(found: Figures) -> float:
    """The figure that shares refer to: cycles, or instructions if there are no cycles."""
    return found.instructions if found.cycles is None else found.cycles.point


def _cells(found: Figures, whole: float) -> tuple[str, str, str]:
    """Instructions, cycles, and the share of the whole."""
    point = "-" if found.cycles is None else f"{found.cycles.point:,.0f}"
    return f"{found.instructions:,}", point, f"{100 * _weight(found) / whole:.1f} %" if whole else "-"


def _hot(spot: HotSpot) -> Table:
    rows = [(f"{x.address:x}", f"{x.times:,}", f"{x.cycles:.2f}", " ".join(x.text.split())) for x in spot.lines]
    return _table(
        f"{100 * spot.share:.1f} % of all cycles in this stretch of {spot.function}",
        ("address", "times", "cycles each", ""),
        rows,
        left=(3,),
    )
