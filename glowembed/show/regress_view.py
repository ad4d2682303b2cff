"""Shows the rows of `regress`. In: rows. Out: a table in Markdown, a page, a report in the JUnit format for CI."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Sequence

from glowembed.judge.regress import Row
from glowembed.show.page import Page, Section, paragraph, render
from glowembed.show.page import table as table_of

COLUMNS: tuple[tuple[str, Callable[[Row], str]], ...] = (
    ("model", lambda row: row.model),
    ("target", lambda row: row.target),
    ("board", lambda row: row.board),
    ("bit-exact", lambda row: "-" if row.bit_exact is None else "yes" if row.bit_exact else "NO"),
    ("accuracy", lambda row: "-" if row.accuracy is None else f"{row.accuracy:.4f}"),
    ("samples", lambda row: _number(row.samples)),
    ("instructions", lambda row: _number(row.instructions)),
    ("arena", lambda row: _number(row.arena)),
    ("code", lambda row: _number(row.code)),
    ("weights", lambda row: _number(row.weights)),
    ("stack", lambda row: _number(row.stack or None)),  # 0 on this computer, where it is not measured
)
SETTING = ("setting", lambda row: row.setting or "-")
PLACE = ("at", lambda row: row.place or "-")
CYCLES = ("cycles", lambda row: _number(row.cycles))
TEXT_COLUMNS = 3
NOT_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _columns(rows: Sequence[Row]) -> list[tuple[str, Callable[[Row], str]]]:
    """The columns; those of settings, places and cycles only where there are any."""
    columns = list(COLUMNS)
    if any(row.setting for row in rows):
        columns.insert(TEXT_COLUMNS, SETTING)
    if any(row.place for row in rows):
        columns.insert(TEXT_COLUMNS, PLACE)
    if any(row.cycles is not None for row in rows):
        columns.insert([title for title, _ in columns].index("arena"), CYCLES)
    return columns


def table(rows: Sequence[Row]) -> str:
    """All rows as a Markdown table, with what is wrong below it."""
    columns = _columns(rows)
    cells = [[title for title, _ in columns]] + [[show(row) for _, show in columns] for row in rows]
    widths = [max(len(line[column]) for line in cells) for column in range(len(columns))]
    left = TEXT_COLUMNS + (SETTING in columns) + (PLACE in columns)
    rule = "|".join("-" * (w + 2) if i < left else "-" * (w + 1) + ":" for i, w in enumerate(widths))
    lines = [_line(cells[0], widths, left), f"|{rule}|", *(_line(line, widths, left) for line in cells[1:])]
    wrong = [f"{row.where}: {said}" for row in rows for said in _wrong(row)]
    return "\n".join([*lines, *([""] if wrong else []), *wrong]) + "\n"


def _line(cells: Sequence[str], widths: Sequence[int], left: int) -> str:
    padded = [
        cell.ljust(width) if index < left else cell.rjust(width)
        for index, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return f"| {' | '.join(padded)} |"


def _wrong(row: Row) -> list[str]:
    return [*([row.error] if row.error is not None else []), *row.worse]


def html(rows: Sequence[Row]) -> str:
    """One self-contained page."""
    columns = _columns(rows)
    failed = [row for row in rows if row.exit_code]
    verdict = f"{len(failed)} of {len(rows)} cells failed" if failed else f"all {len(rows)} cells are as they should be"
    wrong = [block for row in rows for said in _wrong(row) for block in paragraph(f"{row.where}: {said}", "lost")]
    cells = [[show(row) for _, show in columns] for row in rows]
    words = TEXT_COLUMNS + (SETTING in columns) + (PLACE in columns)
    made = Page(
        "glowembed regress",
        "Models, targets and settings",
        verdict,
        "bad" if failed else "good",
        sections=(
            Section("What is wrong", tuple(wrong)),
            Section("Cells", table_of([title for title, _ in columns], cells, words, sortable=True)),
        ),
    )
    return render(made)


def junit(rows: Sequence[Row]) -> str:
    """A report as JUnit's: a cell is a test case, an error if it did not run, a failure if bits or figures are wrong."""
    suite = ET.Element("testsuite", name="glowembed regress", tests=str(len(rows)))
    for row in rows:
        case = ET.SubElement(suite, "testcase", classname=_clean(row.model), name=_clean(row.where))
        figures = (f"{title}: {show(row)}" for title, show in _columns(rows))
        if row.error is not None:
            ET.SubElement(case, "error", message=_clean(row.error))
        elif row.exit_code:
            said = "; ".join(row.worse) if row.bit_exact else "the bits are not those of the reference"
            ET.SubElement(case, "failure", message=_clean(said))
        ET.SubElement(case, "system-out").text = _clean("\n".join(figures))
    for kind in ("error", "failure"):
        suite.set(f"{kind}s", str(sum(1 for _ in suite.iter(kind))))
    ET.indent(suite)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(suite, encoding="unicode") + "\n"


def _clean(text: str) -> str:
    """The text without characters that XML does not have."""
    return NOT_XML.sub("?", text)
