"""Shows the results of a store. In: records, or two versions compared. Out: tables, CSV, Parquet, a page with a graph for each figure."""

from __future__ import annotations

import csv
import importlib
import io
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from rich.table import Table

from glowembed.errors import ToolError
from glowembed.files.output import write_file
from glowembed.jobs.store import Record
from glowembed.judge import history
from glowembed.judge.history import FIGURES, Change
from glowembed.show.page import Page, Section, pictures, render
from glowembed.show.page import table as table_of
from glowembed.show.tables import table as printed

WORDS = ("made", "version", *history.CELL)
PRINTED = ("version", "model", "target", "setting", "place", *FIGURES)
"""The columns that a terminal has room for."""
WIDTH, HEIGHT, MARGIN = 420, 200, 30
COLORS = ("#4a6fa5", "#c8372d", "#3c8d53", "#b07d2b", "#7a4f9a", "#2b8f9a")


def entries(records: Sequence[Record]) -> list[dict[str, Any]]:
    """Each record as one flat mapping: what it is of, and its figures."""
    return [_entry(record) for record in records]


def _entry(record: Record) -> dict[str, Any]:
    cell = dict(zip(history.CELL, history.cell_of(record), strict=True))
    words = {"made": record.made, "version": history.version_of(record), **cell}
    return {**words, "bit_exact": record.result.get("bit_exact"), **history.figures_of(record), "key": record.key}


def tables(records: Sequence[Record]) -> Iterable[Table]:
    """A table for each command, without the columns of which nothing is known."""
    for command, found in _by_command(records):
        heads = [head for head in PRINTED if any(entry[head] not in (None, "") for entry in found)]
        heads = heads if len(set(map(history.version_of, records))) > 1 else heads[1:]
        left = len([head for head in heads if head in WORDS])
        rows = [[_text(entry[head]) for head in heads] for entry in found]
        yield printed(f"results of {command}: {len(found)}", heads, rows, left)


def _by_command(records: Sequence[Record]) -> list[tuple[str, list[dict[str, Any]]]]:
    found = [(kind, entries([record for record in records if record.kind == kind])) for kind in history.KINDS]
    return [(kind, rows) for kind, rows in found if rows]


def _dated(entry: Mapping[str, Any]) -> dict[str, Any]:
    """The entry with its time to the minute, in UTC as in the store."""
    return {**entry, "made": entry["made"][:16].replace("T", " ")}


def _text(value: Any) -> str:
    if value is None or value == "":
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:.4f}" if isinstance(value, float) else str(value)


def comparison(changes: Sequence[Change]) -> Table:
    """Each figure that differs between two versions, and each cell that only one of them has."""
    rows = list[list[str]]()
    for change in changes:
        cell, before, now = history.named(change.cell), change.before, change.now
        if before is None or now is None:
            rows.append([cell, "-", *("not there" if figures is None else "-" for figures in (before, now))])
            continue
        changed = [(name, before[name], now[name]) for name in FIGURES if before[name] != now[name]]
        rows += [[cell, name, _text(old), _text(new)] for name, old, new in changed]
    alike = sum(change.before == change.now for change in changes)
    return printed(f"{alike} cells have the same figures.", ("cell", "figure", "before", "now"), rows, 2)


def as_csv(records: Sequence[Record]) -> str:
    """All results as comma-separated values."""
    found = entries(records)
    text = io.StringIO()
    writer = csv.DictWriter(text, [*WORDS, "bit_exact", *FIGURES, "key"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(found)
    return text.getvalue()


def write_parquet(path: Path, records: Sequence[Record]) -> None:
    """All results as a Parquet file. Raises ToolError without pyarrow."""
    try:
        pyarrow: Any = importlib.import_module("pyarrow")
        parquet: Any = importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise ToolError(f"{path}: Parquet needs pyarrow ({error}); install it: pip install pyarrow") from error
    content = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_pylist(entries(records)), content)
    write_file(path, content.getvalue())


def html(records: Sequence[Record], where: str) -> str:
    """One page: the newest result of each cell, and a graph over the versions for each figure."""
    last, order = history.newest(records), history.versions(records)
    heads = [head for head in (*WORDS, *FIGURES) if head != "command"]
    newest = [
        Section(
            f"Newest results of {command}",
            table_of(heads, [[_text(e[h]) for h in heads] for e in map(_dated, found)], len(WORDS) - 1, sortable=True),
        )
        for command, found in _by_command(last)
    ]
    graphs = [(name, _graph(name, records, order)) for name in FIGURES] if len(order) > 1 else []
    made = Page(
        "glowembed results",
        f"Results in {where}",
        f"results: {len(records)}, cells: {len(last)}, versions: {len(order)}",
        sections=(
            *newest,
            Section("Over the versions, each cell relative to its first result", pictures(graphs)),
        ),
    )
    return render(made)


def _graph(figure: str, records: Sequence[Record], order: Sequence[str]) -> str:
    """A line for each cell: the figure of each version, relative to that of the first. Without changes there is no graph."""
    lines: dict[tuple[str, ...], dict[int, float]] = {}
    for record in records:
        value = history.figures_of(record)[figure]
        if isinstance(value, int | float):
            lines.setdefault(history.cell_of(record), {})[order.index(history.version_of(record))] = value
    relative = {cell: _relative(line) for cell, line in sorted(lines.items())}
    changed = {cell: line for cell, line in relative.items() if any(share != 1 for share in line.values())}
    if not changed:
        return ""
    shares = [share for line in changed.values() for share in line.values()]
    low, high = min(shares), max(shares)
    step, tall = (WIDTH - 2 * MARGIN) / (len(order) - 1), (HEIGHT - 2 * MARGIN) / (high - low)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="10">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        *(f'<text x="4" y="{HEIGHT - MARGIN - (s - low) * tall:.0f}">{100 * s:.1f} %</text>' for s in (low, high)),
        *(f'<text x="{x:.0f}" y="{HEIGHT - 8}">{escape(v[:12])}</text>' for x, v in ((MARGIN, order[0]), (WIDTH - 3 * MARGIN, order[-1]))),
    ]  # fmt: skip
    for index, (cell, line) in enumerate(changed.items()):
        points = " ".join(
            f"{MARGIN + i * step:.1f},{HEIGHT - MARGIN - (s - low) * tall:.1f}" for i, s in sorted(line.items())
        )
        title = escape(history.named(cell))
        stroke = f'fill="none" stroke="{COLORS[index % len(COLORS)]}" stroke-width="1.5"'
        parts.append(f'<polyline points="{points}" {stroke}><title>{title}</title></polyline>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _relative(line: Mapping[int, float]) -> dict[int, float]:
    first = line[min(line)]
    return {index: value / first if first else 1.0 for index, value in line.items()}
