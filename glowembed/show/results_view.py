"""Shows the results of a store. In: records, or two versions compared. Out: a table, CSV, Parquet, a page with a graph for each figure."""

from __future__ import annotations

import csv
import importlib
import io
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from glowembed.errors import ToolError
from glowembed.files.output import write_file
from glowembed.jobs.store import Record
from glowembed.judge import baseline, history
from glowembed.judge.regress import Row
from glowembed.show.page import Page, Section, pictures, render
from glowembed.show.page import table as table_of

WORDS = ("made", "version", *history.CELL, "board")
WIDTH, HEIGHT, MARGIN = 420, 200, 30
COLORS = ("#4a6fa5", "#c8372d", "#3c8d53", "#b07d2b", "#7a4f9a", "#2b8f9a")


def entries(records: Sequence[Record]) -> list[dict[str, Any]]:
    """Each record as one flat mapping: what it is of, and its figures."""
    return [_entry(record) for record in records]


def _entry(record: Record) -> dict[str, Any]:
    words = {**dict(record.about), "made": record.made, "version": history.version_of(record)}
    words = {name: str(words.get(name, "")) for name in WORDS}
    figures = {name: record.result.get(name) for name in baseline.FIGURES}
    return {**words, "bit_exact": record.result.get("bit_exact"), **figures, "key": record.key}


def table(records: Sequence[Record]) -> str:
    """A table in Markdown."""
    heads = (*WORDS, *baseline.FIGURES)
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(WORDS) + "--:|" * len(baseline.FIGURES)]
    lines += [f"| {' | '.join(_text(entry[name]) for name in heads)} |" for entry in entries(records)]
    return "\n".join(lines) + "\n"


def _text(value: Any) -> str:
    if value is None or value == "":
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:.4f}" if isinstance(value, float) else str(value)


def comparison(rows: Sequence[Row], earlier: Sequence[Mapping[str, Any]]) -> str:
    """Each figure that differs between two versions, and what is worse than its limit."""
    known = {(e["model"], e["target"], e.get("setting", "")): e for e in earlier}
    lines, alike = ["| cell | figure | before | now |", "|---|---|--:|--:|"], 0
    for row in rows:
        before = known.pop((row.model, row.target, row.setting), None)
        changed = [(name, before.get(name), getattr(row, name)) for name in baseline.FIGURES] if before else []
        changed = [(name, old, new) for name, old, new in changed if old != new]
        alike += before is not None and not changed
        lines += [f"| {row.where} | {name} | {_text(old)} | {_text(new)} |" for name, old, new in changed]
        lines += [] if before is not None else [f"| {row.where} | - | not there | - |"]
    lines += [
        f"| {model} on {target}{', ' * bool(setting)}{setting} | - | - | not there |"
        for model, target, setting in known
    ]
    worse = [f"{row.where}: {said}" for row in rows for said in row.worse]
    return "\n".join([*lines, "", f"{alike} cells have the same figures.", *worse]) + "\n"


def as_csv(records: Sequence[Record]) -> str:
    """All results as comma-separated values."""
    found = entries(records)
    text = io.StringIO()
    writer = csv.DictWriter(text, [*WORDS, "bit_exact", *baseline.FIGURES, "key"], lineterminator="\n")
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
    heads = (*WORDS, *baseline.FIGURES)
    cells = [[_text(entry[name]) for name in heads] for entry in entries(last)]
    graphs = [(name, _graph(name, records, order)) for name in baseline.FIGURES] if len(order) > 1 else []
    made = Page(
        "glowembed results",
        f"Results in {where}",
        f"results: {len(records)}, cells: {len(last)}, versions: {len(order)}",
        sections=(
            Section("Newest results", table_of(heads, cells, len(WORDS), sortable=True)),
            Section("Over the versions, each cell relative to its first result", pictures(graphs)),
        ),
    )
    return render(made)


def _graph(figure: str, records: Sequence[Record], order: Sequence[str]) -> str:
    """A line for each cell: the figure of each version, relative to that of the first. Without changes there is no graph."""
    lines: dict[tuple[str, ...], dict[int, float]] = {}
    for record in records:
        value = record.result.get(figure)
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
        title = escape(" ".join(filter(None, cell)))
        stroke = f'fill="none" stroke="{COLORS[index % len(COLORS)]}" stroke-width="1.5"'
        parts.append(f'<polyline points="{points}" {stroke}><title>{title}</title></polyline>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _relative(line: Mapping[int, float]) -> dict[int, float]:
    first = line[min(line)]
    return {index: value / first if first else 1.0 for index, value in line.items()}
