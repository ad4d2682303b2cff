"""Compares the rows of `regress` with those of an earlier run. In: rows, a baseline, tolerances. Out: the rows with what is worse.

A tolerance is a number in the unit of its figure, or a share of the baseline's such as 1%. Without one, a figure may not be worse at all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from glowembed.errors import LimitExceeded, UsageError, unknown_name
from glowembed.files.documents import read_json
from glowembed.judge.regress import Row

HIGHER_IS_BETTER = ("accuracy", "score")
FIGURES = ("accuracy", "instructions", "cycles", "arena", "code", "weights", "stack")
SHARE = re.compile(r"(\d+(?:\.\d+)?)\s*%")


def tolerances(given: Any, where: str, figures: Sequence[str] = FIGURES) -> dict[str, str | float]:
    """The tolerances in a regress.yaml, checked. Raises UsageError for an unknown figure and for what is no tolerance."""
    if not isinstance(given or {}, dict):
        raise UsageError(f"{where}: expected 'limits:' with figures and how much worse each may be")
    for name, tolerance in (given or {}).items():
        if name not in figures:
            raise unknown_name(f"figure in the limits of {where}", str(name), figures)
        plain = isinstance(tolerance, int | float) and not isinstance(tolerance, bool) and tolerance >= 0
        if not plain and not (isinstance(tolerance, str) and SHARE.fullmatch(tolerance)):
            raise UsageError(
                f"{where}: {name}: expected a number that is not negative, or a share such as 1%, not {tolerance!r}"
            )
    return dict(given or {})


def read(path: Path) -> list[Mapping[str, Any]]:
    """The rows that `regress --json` wrote."""
    found = read_json(path)
    if not isinstance(found, list) or not all(
        isinstance(row, dict) and {"model", "target"} <= row.keys() for row in found
    ):
        raise UsageError(f"{path} is no baseline: write one with 'glowembed regress ... --json {path}'")
    return found


def compared(rows: Sequence[Row], before: Sequence[Mapping[str, Any]], allowed: Mapping[str, str | float]) -> list[Row]:
    """The rows, those with figures that are worse than allowed with exit code 5 if they had 0."""
    known = {_cell(row): row for row in before}
    return [_judged(row, known.get((row.model, row.target, row.setting, row.place)), allowed) for row in rows]


def _cell(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return row["model"], row["target"], row.get("setting", ""), row.get("place", "")


def _judged(row: Row, before: Mapping[str, Any] | None, allowed: Mapping[str, str | float]) -> Row:
    if before is None or row.error is not None:
        return row
    found = worse({name: getattr(row, name) for name in FIGURES}, before, allowed)
    return replace(row, worse=found, exit_code=row.exit_code or (LimitExceeded.exit_code if found else 0))


def worse(now: Mapping[str, Any], before: Mapping[str, Any], allowed: Mapping[str, str | float]) -> list[str]:
    """What to say of the figures that are worse than allowed."""
    told = (_worse(name, figure, before.get(name), allowed.get(name, 0)) for name, figure in now.items())
    return [said for said in told if said]


def _worse(name: str, now: float | None, before: Any, tolerance: str | float) -> str:
    """What to say of a figure; "" if it is as good as allowed, or was not known before."""
    if not isinstance(before, int | float):
        return ""
    if now is None:
        return f"{name} is not known any more, it was {before:,}"
    share = SHARE.fullmatch(tolerance) if isinstance(tolerance, str) else None
    margin = abs(before) * float(share[1]) / 100 if share else float(tolerance)
    lost = before - now if name in HIGHER_IS_BETTER else now - before
    if lost <= margin + 1e-12 * abs(before):  # both are decimal fractions
        return ""
    allowed = "may not be worse" if str(tolerance) in ("0", "0%") else f"may be worse by {tolerance}"
    return f"{name}: {now:,}, in the baseline {before:,}; it {allowed}"
