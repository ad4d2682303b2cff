"""`glowembed results`: the content of a store in every form, and two versions compared."""

from __future__ import annotations

import csv
import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from json_result import check_json

from glowembed.__main__ import main
from glowembed.jobs.store import Record, open_store
from glowembed.judge.regress import Row

GOOD = Row("kws", "cortex-m4", "mps2-an386", True, 0.9, 880, 8_000_000, 16_000, 9_000, 22_000, 780)
ROWS = {
    ("aaa1", "2026-01-01"): [GOOD, replace(GOOD, target="cortex-m0", code=7_000), replace(GOOD, model="gone")],
    ("bbb2", "2026-01-02"): [replace(GOOD, code=9_050), replace(GOOD, target="cortex-m0", code=7_000)],
}
"""A store with the results of two commits."""


@pytest.fixture
def store(tmp_path: Path) -> str:
    kept = open_store(str(tmp_path / "store"))
    for (commit, made), rows in ROWS.items():
        for index, row in enumerate(rows):
            about = {"model": row.model, "target": row.target, "board": row.board, "setting": "", "commit": commit}
            kept.put(Record("regress", f"{commit}{index}", {**about, "version": "0.1.0"}, asdict(row), made))
    return kept.where


def test_the_newest_of_each_cell_in_every_form(store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = {kind: tmp_path / f"r.{kind}" for kind in ("csv", "html", "json")}
    words = [word for kind, path in files.items() for word in (f"--{kind}", str(path))]
    assert main(["results", "--store", store, *words]) == 0
    printed = capsys.readouterr().out
    found = json.loads(files["json"].read_text())
    check_json("results", found)
    shown = [(row["model"], row["target"], row["version"], row["code"]) for row in found["results"]]
    expected = [
        ("gone", "cortex-m4", "aaa1", 9_000),
        ("kws", "cortex-m0", "bbb2", 7_000),
        ("kws", "cortex-m4", "bbb2", 9_050),
    ]
    assert shown == expected
    assert [row["code"] for row in csv.DictReader(files["csv"].read_text().splitlines())] == ["9000", "7000", "9050"]
    assert "| bbb2 | kws | cortex-m4 |" in printed
    page = files["html"].read_text()
    assert page.count("<polyline") == 1, "one figure of one cell has changed"
    assert "kws cortex-m4" in page


@pytest.mark.parametrize(
    ("words", "count"), [([], 3), (["--all"], 5), (["--where", "model=kws"], 2), (["--where", "commit=aaa1"], 3)]
)
def test_what_is_asked_for(words: list[str], count: int, store: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["results", "--store", store, "--json", "-", *words]) == 0
    assert len(json.loads(capsys.readouterr().out)["results"]) == count


@pytest.mark.parametrize(
    ("words", "code"), [([], 5), (["--limit", "code=1%"], 0), (["--limit", "code=50"], 0), (["--limit", "code=49"], 5)]
)
def test_two_versions_are_compared(words: list[str], code: int, store: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["results", "--store", store, "--compare", "aaa1,bbb", *words]) == code
    said = capsys.readouterr().out
    assert "| kws on cortex-m4 | code | 9,000 | 9,050 |" in said
    assert "| gone on cortex-m4 | - | - | not there |" in said
    assert "1 cells have the same figures" in said
    assert ("code: 9,050, in the baseline 9,000" in said) == (code == 5)


REFUSED = {
    "filter": (["--where", "kws"], "expected NAME=VALUE"),
    "filter's name": (["--where", "modle=kws"], "Did you mean 'model'"),
    "nothing": (["--where", "model=none"], "has no such results"),
    "pair": (["--compare", "aaa1"], "expected OLD,NEW"),
    "version": (["--compare", "aaa1,ccc"], "unknown version 'ccc'"),
    "limit": (["--compare", "aaa1,bbb2", "--limit", "code=x"], "expected a number"),
    "figure": (["--compare", "aaa1,bbb2", "--limit", "size=1%"], "unknown figure"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_is_said(case: str, store: str, capsys: pytest.CaptureFixture[str]) -> None:
    words, said = REFUSED[case]
    assert main(["results", "--store", store, *words]) == 2
    assert said in capsys.readouterr().err
