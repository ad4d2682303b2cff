"""The history of results in a store. In: records. Out: those that are asked for, the newest of each cell, two versions compared.

A cell is what was asked for: command, model, target, setting and board. A version is a commit of glowembed, or its version number where
there is no checkout.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from glowembed.errors import UsageError, unknown_name
from glowembed.jobs.store import Record, Store
from glowembed.judge import baseline
from glowembed.records import dataclass

KINDS = ("tune", "measure", "regress")
CELL = ("command", "model", "target", "setting", "board", "place")
FILTERS = (*CELL, "version", "commit")
FIGURES = (*baseline.FIGURES, "flash", "score")

Cell = tuple[str, ...]


@dataclass(frozen=True)
class Change:
    """A cell in two versions. before, now: its figures, None if the version has no result. worse: what is worse than allowed."""

    cell: Cell
    before: Mapping[str, Any] | None
    now: Mapping[str, Any] | None
    worse: tuple[str, ...] = ()


def records(store: Store) -> list[Record]:
    """All results of all commands."""
    return [record for kind in KINDS for record in store.records(kind)]


def figures_of(record: Record) -> dict[str, Any]:
    """The figures of a result, None where its command does not find them. `flash` and `score` are those of tune."""
    found = dict(record.result)
    if record.kind == "measure":
        total = found.get("total") or {}
        found = {"instructions": total.get("instructions"), "cycles": (total.get("cycles") or {}).get("point")}
    cycles = found.get("cycles")
    found["cycles"] = None if cycles is None else round(cycles)
    found["stack"] = found.get("stack") or None  # 0 on this computer, where it is not measured
    return {name: found.get(name) for name in FIGURES}


def version_of(record: Record) -> str:
    """The commit that found a result, or the version number."""
    return str(record.about.get("commit") or record.about.get("version") or "unknown")


def _words(record: Record) -> dict[str, Any]:
    """What a record is of, by the names that --where takes."""
    return {**record.about, "command": record.kind, "version": version_of(record)}


def cell_of(record: Record) -> Cell:
    """What was asked for, in the order of CELL."""
    words = _words(record)
    return tuple(str(words.get(name, "")) for name in CELL)


def named(cell: Cell) -> str:
    """A cell in words."""
    command, model, target, setting, _, place = cell
    at = f" at {place}" if place else ""
    what = f"{model} on {target}{at}" + (f", {setting}" if setting else "")
    return what if command == "regress" else f"{command}: {what}"


def asked(found: Iterable[Record], filters: Sequence[str]) -> list[Record]:
    """The records that all filters, such as `model=kws`, let pass, the oldest first. A version may also be its number."""
    wanted = [_filter(text) for text in filters]
    return sorted(
        (record for record in found if all(_passes(record, name, value) for name, value in wanted)),
        key=lambda record: (record.made, record.key),
    )


def _passes(record: Record, name: str, value: str) -> bool:
    return value in (str(_words(record).get(name, "")), str(record.about.get(name, "")))


def _filter(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise UsageError(f"--where {text!r}: expected NAME=VALUE, such as model=kws")
    if name not in FILTERS:
        raise unknown_name("name in --where", name, FILTERS)
    return name, value


def newest(found: Iterable[Record]) -> list[Record]:
    """The last result of each cell, in the order of commands and cells."""
    last = {cell_of(record): record for record in found}
    return [last[cell] for cell in sorted(last, key=lambda cell: (KINDS.index(cell[0]), cell))]


def versions(found: Iterable[Record]) -> list[str]:
    """The versions in the order of their first results."""
    return list(dict.fromkeys(map(version_of, found)))


def compared(found: Sequence[Record], pair: str, limits: Mapping[str, str | float]) -> list[Change]:
    """All cells of two versions, `OLD,NEW`, with what is worse by more than the limits. A version may be given by its first letters."""
    old, comma, new = pair.partition(",")
    if not (old and comma and new):
        raise UsageError(f"--compare {pair!r}: expected OLD,NEW, two commits or versions")
    before, after = (_of_version(found, name) for name in (old, new))
    cells = dict.fromkeys([*after, *before])
    return [_change(cell, before.get(cell), after.get(cell), limits) for cell in cells]


def _change(cell: Cell, before: Record | None, now: Record | None, limits: Mapping[str, str | float]) -> Change:
    old, new = (None if record is None else figures_of(record) for record in (before, now))
    return Change(cell, old, new, () if old is None or new is None else tuple(baseline.worse(new, old, limits)))


def _of_version(found: Sequence[Record], name: str) -> dict[Cell, Record]:
    known = versions(found)
    fitting = [version for version in known if version == name] or [v for v in known if v.startswith(name)]
    if len(fitting) != 1:
        raise unknown_name("version" if not fitting else "version, which several begin with,", name, known)
    return {cell_of(record): record for record in newest(r for r in found if version_of(r) == fitting[0])}


def limits_of(texts: Sequence[str]) -> dict[str, str | float]:
    """The tolerances that --limit gives, such as code=1%."""
    pairs = [text.partition("=") for text in texts]
    return baseline.tolerances(
        {name: value if "%" in value else _number(name, value) for name, _, value in pairs}, "--limit", FIGURES
    )


def _number(name: str, value: str) -> float:
    try:
        return float(value)
    except ValueError as error:
        raise UsageError(f"--limit {name}={value}: expected a number, or a share such as 1%") from error
