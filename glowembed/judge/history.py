"""The history of results in a store. In: records. Out: those that are asked for, the newest of each cell, two versions compared.

A cell is what was asked for: model, target, setting and so on. A version is a commit of glowembed, or its version number where
there is no checkout.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from glowembed.errors import UsageError, unknown_name
from glowembed.jobs.store import Record
from glowembed.judge import baseline
from glowembed.judge.regress import Row

CELL = ("model", "target", "setting")
FILTERS = (*CELL, "board", "version", "commit")


def version_of(record: Record) -> str:
    """The commit that found a result, or the version number."""
    return str(record.about.get("commit") or record.about.get("version") or "unknown")


def cell_of(record: Record) -> tuple[str, ...]:
    """The model, target and setting of a result."""
    return tuple(str(record.about.get(name, "")) for name in CELL)


def asked(records: Iterable[Record], filters: Sequence[str]) -> list[Record]:
    """The records that all filters, such as `model=kws`, let pass, the oldest first."""
    wanted = [_filter(text) for text in filters]
    found = [r for r in records if all(str(r.about.get(name, "")) == value for name, value in wanted)]
    return sorted(found, key=lambda record: (record.made, record.key))


def _filter(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise UsageError(f"--where {text!r}: expected NAME=VALUE, such as model=kws")
    if name not in FILTERS:
        raise unknown_name("name in --where", name, FILTERS)
    return name, value


def newest(records: Iterable[Record]) -> list[Record]:
    """The last result of each cell, in the order of cells."""
    last = {cell_of(record): record for record in records}
    return [last[cell] for cell in sorted(last)]


def versions(records: Iterable[Record]) -> list[str]:
    """The versions in the order of their first results."""
    return list(dict.fromkeys(map(version_of, records)))


def compared(
    records: Sequence[Record], pair: str, limits: Mapping[str, str | float]
) -> tuple[list[Row], list[Mapping[str, Any]]]:
    """The rows of the later of two versions, `OLD,NEW`, with what is worse by more than the limits; and the earlier rows. A version may be
    given by its first letters.
    """
    old, comma, new = pair.partition(",")
    if not (old and comma and new):
        raise UsageError(f"--compare {pair!r}: expected OLD,NEW, two commits or versions")
    before, after = (_of_version(records, name) for name in (old, new))
    earlier: list[Mapping[str, Any]] = [record.result for record in before]
    return baseline.compared([_row(record) for record in after], earlier, limits), earlier


def _of_version(records: Sequence[Record], name: str) -> list[Record]:
    known = versions(records)
    found = [version for version in known if version == name] or [v for v in known if v.startswith(name)]
    if len(found) != 1:
        raise unknown_name("version" if not found else "version, which several begin with,", name, known)
    return newest(record for record in records if version_of(record) == found[0])


def _row(record: Record) -> Row:
    try:
        return Row(**record.result)
    except TypeError as error:
        raise UsageError(f"the result {record.key[:12]} is of a version with other figures: {error}") from error


def limits_of(texts: Sequence[str]) -> dict[str, str | float]:
    """The tolerances that --limit gives, such as code=1%."""
    pairs = [text.partition("=") for text in texts]
    return baseline.tolerances(
        {name: value if "%" in value else _number(name, value) for name, _, value in pairs}, "--limit"
    )


def _number(name: str, value: str) -> float:
    try:
        return float(value)
    except ValueError as error:
        raise UsageError(f"--limit {name}={value}: expected a number, or a share such as 1%") from error
