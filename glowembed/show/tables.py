"""A table in the style of all reports, and how numbers, sizes and shapes are written. In: rows of text. Out: rich tables and text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich import box
from rich.markup import escape
from rich.table import Table


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> Table:
    """A table whose first `left` columns are text and the others numbers."""
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for index, column in enumerate(columns):
        words = index < left
        table.add_column(column, justify="left" if words else "right", overflow="fold", no_wrap=not words)
    for row in rows:
        table.add_row(*map(escape, row))
    return table


def number(value: int | None) -> str:
    """A number such as 1,234,567; a dash if it is not known."""
    return "-" if value is None else f"{value:,}"


def size(value: int | None) -> str:
    """Bytes, in kilobytes (1024) if there are many, and in megabytes if there are very many."""
    if value is None:
        return "-"
    if value >= 1 << 20:
        return f"{value / (1 << 20):,.1f} MB"
    return f"{value:,} B" if value < 10240 else f"{value / 1024:,.1f} KB"


def shape(dims: Sequence[int]) -> str:
    return " x ".join(map(str, dims)) or "scalar"
