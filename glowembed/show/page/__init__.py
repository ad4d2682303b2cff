"""Writes a result as one HTML page. In: a Page, made of sections, and these of blocks. Out: the text of one file that loads
nothing else.

Every `--html` has this form: a heading with the verdict, the figures that matter and the facts of the run, then sections.
Everything is escaped by the templates, because names in a model may contain anything.
"""

from __future__ import annotations

import datetime
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib import resources
from typing import Any, Literal

import jinja2
from markupsafe import Markup

from glowembed.errors import UsageError
from glowembed.graph.notes import Note
from glowembed.options.option import on_command_line
from glowembed.options.table import OPTIONS
from glowembed.records import dataclass
from glowembed.version import VERSION

Tone = Literal["", "good", "bad"]
Block = Markup
"""A part of a section, as HTML."""

DATE = "SOURCE_DATE_EPOCH"
"""The environment variable that gives the date of a page, in seconds since 1970 (reproducible-builds.org); without it a page
has no date, so that the same result always gives the same bytes.
"""

UNKNOWN = "-"
LONG = 40
"""A text in a table of more letters than this wraps."""


@dataclass(frozen=True)
class Cell:
    """A cell of a table. value: the number to sort by, if the text is not one. share: of a bar after the text, 0 to 1."""

    text: str
    value: float | None = None
    share: float | None = None
    tone: Tone = ""
    title: str = ""
    words: bool = False

    @property
    def kind(self) -> str:
        """The classes of the cell."""
        long = self.words and len(self.text) > LONG
        return " ".join(
            filter(None, ("words" * self.words, "long" * long, self.tone, "share" * (self.share is not None)))
        )


@dataclass(frozen=True)
class Column:
    """The heading of a column of text, or of numbers."""

    text: str
    words: bool = False


@dataclass(frozen=True)
class Bar:
    """A bar with its name before it and a text after it. share: of its length; above 1 it is drawn as too long."""

    name: str
    share: float
    text: str


@dataclass(frozen=True)
class Figure:
    """A number that matters, shown large."""

    name: str
    value: str
    detail: str = ""
    tone: Tone = ""


@dataclass(frozen=True)
class Section:
    """A part of a page. Without blocks it is left out."""

    title: str
    blocks: tuple[Block, ...]

    @property
    def anchor(self) -> str:
        return "".join(c if c.isalnum() else "-" for c in self.title.lower())


@dataclass(frozen=True)
class Page:
    """A page. kind: the command that made it. facts: what was run, with what; those without a value are left out."""

    kind: str
    title: str
    verdict: str = ""
    tone: Tone = ""
    notes: tuple[Note, ...] = ()
    figures: tuple[Figure, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    sections: tuple[Section, ...] = ()


def render(page: Page) -> str:
    """The text of the file."""
    sections = [section for section in page.sections if section.blocks]
    facts = [*((name, value) for name, value in page.facts if value), ("glowembed", VERSION), *_date()]
    template = _environment().get_template("page.html.j2")
    return template.render(
        page=Page(page.kind, page.title, page.verdict, page.tone, page.notes, page.figures, tuple(facts)),
        sections=sections,
        style=Markup(_text("style.css")),
        script=Markup(_text("script.js")),
        footer=f"Made by {page.kind}. Cycles and times marked as estimated assume memories without wait states.",
    )


def _date() -> list[tuple[str, str]]:
    given = os.environ.get(DATE)
    if not given:
        return []
    try:
        moment = datetime.datetime.fromtimestamp(int(given), datetime.UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise UsageError(f"{DATE} must be the seconds since 1970, found {given!r}") from error
    return [("date", moment.strftime("%Y-%m-%d %H:%M UTC"))]


@cache
def _environment() -> jinja2.Environment:
    loader = jinja2.FunctionLoader(_text)
    return jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=False)


@cache
def _text(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _block(name: str, *values: Any) -> Block:
    macro = getattr(_environment().get_template("blocks.html.j2").module, name)
    return Markup(macro(*values))


def table(
    heads: Sequence[str], rows: Iterable[Sequence[str | Cell]], words: int = 1, sortable: bool = False
) -> tuple[Block, ...]:
    """A table; columns of which no cell is known are left out, and no rows give no table. words: the number of columns at
    the left that are text; of the others those in which no cell is a number. sortable: rows may be filtered, and sorted
    by a column.
    """
    cells = [[Cell(cell) if isinstance(cell, str) else cell for cell in row] for row in rows]
    columns = {
        index: Column(head, index < words or not any(_is_number(row[index]) for row in cells))
        for index, head in enumerate(heads)
        if any(row[index].text not in (UNKNOWN, "") for row in cells)
    }
    shown = [[replace(row[index], words=column.words) for index, column in columns.items()] for row in cells]
    return (_block("table", list(columns.values()), shown, sortable),) if cells else ()


def _is_number(cell: Cell) -> bool:
    """Whether the cell is a number, with or without a unit; a shape is none."""
    return cell.value is not None or re.match(r"[<>~+-]?[\d,.]*\d(?! x )", cell.text) is not None


def bars(entries: Sequence[Bar]) -> tuple[Block, ...]:
    """Bars below each other."""
    return (_block("bars", entries),) if entries else ()


def pictures(entries: Iterable[tuple[str, str]]) -> tuple[Block, ...]:
    """SVG pictures beside each other, each with its title. The SVG must have escaped its texts."""
    drawn = [(title, Markup(svg)) for title, svg in entries if svg]
    return (_block("pictures", drawn),) if drawn else ()


def code(text: str) -> tuple[Block, ...]:
    """Unchanged text, in letters of equal width."""
    return (_block("code", text),) if text else ()


def folded(summary: str, blocks: Sequence[Block]) -> tuple[Block, ...]:
    """Blocks that are shown when the reader asks for them."""
    return (_block("folded", summary, Markup("\n").join(blocks)),) if blocks else ()


def paragraph(text: str, kind: str = "") -> tuple[Block, ...]:
    """A paragraph. kind: soft, lost or good."""
    return (_block("paragraph", text, kind),) if text else ()


def facts_of(manifest: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """What identifies a bundle: hashes, target, and the options that are not by default."""
    return (
        ("model", str(manifest["model"]["file"])),
        ("sha256 of the model", str(manifest["model"]["sha256"])[:16]),
        ("bundle", f"{manifest['name']}, hash {str(manifest['hash'])[:16]}"),
        ("target", str(manifest["target"])),
        ("options", on_command_line(OPTIONS, manifest["options"]) or "defaults"),
    )
