"""`glowembed results`: the content of a store in every form, and two versions compared."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from json_result import check_json

from glowembed.__main__ import main
from glowembed.jobs.store import Record, open_store
from glowembed.judge import history
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
        about = {"model": "kws", "target": "cortex-m4", "version": "0.1.0", "commit": commit}
        score = 0.9 if commit == "aaa1" else 0.8
        tuned = {"score": score, "noise": 0.1, "arena": 9_000, "flash": 30_000, "cycles": 780.4}
        counted = {"total": {"name": "all", "instructions": 700, "cycles": {"low": 1, "point": 781.6, "high": 2}}}
        kept.put(Record("tune", commit, {**about, "setting": "top1, nothing"}, tuned, made))
        kept.put(Record("measure", commit, {**about, "setting": "samples 2", "board": "mps2-an386"}, counted, made))
    return kept.where


def test_the_newest_of_each_cell_in_every_form(store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = {kind: tmp_path / f"r.{kind}" for kind in ("csv", "html", "json")}
    words = [word for kind, path in files.items() for word in (f"--{kind}", str(path))]
    assert main(["results", "--store", store, *words]) == 0
    printed = capsys.readouterr().out
    found = json.loads(files["json"].read_text())
    check_json("results", found)
    others = [
        (row["command"], row["setting"], row["cycles"], row["flash"], row["score"]) for row in found["results"][:2]
    ]
    assert others == [("tune", "top1, nothing", 780, 30_000, 0.8), ("measure", "samples 2", 782, None, None)]
    shown = [(row["model"], row["target"], row["version"], row["code"]) for row in found["results"][2:]]
    expected = [
        ("gone", "cortex-m4", "aaa1", 9_000),
        ("kws", "cortex-m0", "bbb2", 7_000),
        ("kws", "cortex-m4", "bbb2", 9_050),
    ]
    assert shown == expected
    assert [row["code"] for row in csv.DictReader(files["csv"].read_text().splitlines())][2:] == [
        "9000",
        "7000",
        "9050",
    ]
    assert re.search(r"bbb2 +kws +cortex-m4", printed)
    assert all(f"results of {command}: " in printed for command in ("tune", "measure", "regress"))
    page = files["html"].read_text()
    assert page.count("<polyline") == 2, "one figure of two cells has changed"
    assert "kws on cortex-m4" in page


@pytest.mark.parametrize(
    ("words", "count"),
    [
        ([], 5),
        (["--all"], 9),
        (["--where", "model=gone"], 1),
        (["--where", "commit=aaa1"], 5),
        (["--where", "command=measure"], 1),
        (["--where", "version=0.1.0", "--where", "command=regress"], 3),
    ],
)
def test_what_is_asked_for(words: list[str], count: int, store: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["results", "--store", store, "--json", "-", *words]) == 0
    assert len(json.loads(capsys.readouterr().out)["results"]) == count


@pytest.mark.parametrize(
    ("words", "code"),
    [([], 5), (["--limit", "code=1%"], 5), (["--limit", "score=0.1"], 5)]
    + [(["--limit", "score=0.1", "--limit", f"code={most}"], code) for most, code in (("1%", 0), (50, 0), (49, 5))],
)
def test_two_versions_are_compared(words: list[str], code: int, store: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["results", "--store", store, "--compare", "aaa1,bbb", *words]) == code
    said, wrong = capsys.readouterr()
    assert re.search(r"kws on cortex-m4 +code +9,000 +9,050", said)
    assert re.search(r"tune: kws on cortex-m4, top1, nothing +score +0.9000 +0.8000", said)
    assert re.search(r"gone on cortex-m4 +- +- +not there", said)
    assert "2 cells have the same figures" in said
    assert ("in the baseline" in wrong) == (code == 5)


def test_places_of_a_farm_are_cells_of_their_own(tmp_path: Path) -> None:
    kept = open_store(str(tmp_path / "store"))
    for place in ("shelf", "bench"):
        kept.put(Record("regress", place, {"model": "kws", "place": place}, {"code": 1}))
    assert len(history.newest(history.records(kept))) == 2


REFUSED = {
    "filter": (["--where", "kws"], "expected NAME=VALUE"),
    "filter's name": (["--where", "modle=kws"], "Did you mean 'model'"),
    "nothing": (["--where", "model=none"], "none of the 9 results"),
    "pair": (["--compare", "aaa1"], "expected OLD,NEW"),
    "version": (["--compare", "aaa1,ccc"], "unknown version 'ccc'"),
    "limit": (["--compare", "aaa1,bbb2", "--limit", "code=x"], "expected a number"),
    "figure": (["--compare", "aaa1,bbb2", "--limit", "size=1%"], "unknown figure"),
    "limit alone": (["--limit", "code=1%"], "--limit is for --compare"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_is_said(case: str, store: str, capsys: pytest.CaptureFixture[str]) -> None:
    words, said = REFUSED[case]
    assert main(["results", "--store", store, *words]) == 2
    assert said in capsys.readouterr().err
