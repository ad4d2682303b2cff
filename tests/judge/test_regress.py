"""Models x targets x settings: which results are computed again, which are worse than a baseline, and the reports for
CI.
"""

from __future__ import annotations

import json
import re
import shutil
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from checkout import ROOT
from json_result import check_json

from glowembed.__main__ import main
from glowembed.errors import UsageError
from glowembed.jobs import contents
from glowembed.jobs.store import Record, Store
from glowembed.judge import baseline, farm, regress
from glowembed.judge.regress import Row
from glowembed.show import regress_view

GOOD = Row("kws", "cortex-m4", "mps2-an386", True, 0.9, 880, 8_000_000, 16_000, 9_000, 22_000, 780)

SPEC = """
models:
  - {model: model.onnx, data: data.npz}
targets: [generic]
settings:
  usual:
  small: {optimize: size, per_channel: false}
samples: 10
limits: {code: 1%, accuracy: 0.01}
"""


@pytest.fixture
def folder(digits: Path, tmp_path: Path) -> Path:
    """A regress.yaml with its model and data."""
    for name in ("model.onnx", "data.npz"):
        (tmp_path / name).write_bytes((digits / name).read_bytes())
    (tmp_path / "regress.yaml").write_text(SPEC)
    return tmp_path


@pytest.mark.cc
def test_an_unchanged_cell_costs_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [
        "regress",
        str(folder / "regress.yaml"),
        "--build",
        str(folder / "build"),
        "--store",
        str(folder / "store"),
    ]
    files = ["--json", str(folder / "rows.json"), "--junit", str(folder / "j.xml"), "--html", str(folder / "page.html")]
    assert main([*words, *files]) == 0
    rows = json.loads((folder / "rows.json").read_text())
    check_json("regress", rows)
    assert [(row["setting"], row["bit_exact"]) for row in rows] == [("usual", True), ("small", True)]
    assert rows[1]["code"] < rows[0]["code"]
    page = (folder / "page.html").read_text()
    assert "all 2 cells are as they should be" in page
    assert "usual" in page
    assert ET.parse(folder / "j.xml").getroot().get("tests") == "2"

    ran: list[tuple[str, ...]] = []

    def refused(*words: str) -> farm.Ended:
        ran.append(words)
        return farm.Ended(4, stderr="error: not again")

    monkeypatch.setattr(regress, "_glowembed", refused)
    assert main([*words, "--json", str(folder / "again.json"), "--baseline", str(folder / "rows.json")]) == 0
    assert (ran, (folder / "again.json").read_text()) == ([], (folder / "rows.json").read_text())
    (folder / "regress.yaml").write_text(SPEC.replace("optimize: size", "optimize: speed"))
    assert main(words) == 4  # only the cell whose options have changed
    assert ", small: failed (not again)\n" in capsys.readouterr().err
    assert [call[0] for call in ran] == ["compile"]
    (folder / "data.npz").write_bytes((folder / "data.npz").read_bytes() + b" ")
    main(words)
    assert len(ran) == 3


@pytest.mark.cc
def test_a_store_that_becomes_full_loses_no_row(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(store: Store, record: Record) -> None:
        raise UsageError("the store cannot be written: No space left on device")

    monkeypatch.setattr(Store, "put", full)
    (folder / "regress.yaml").write_text(SPEC.replace("  usual:\n", ""))
    words = ["--build", str(folder / "build"), "--store", str(folder / "store"), "--json", str(folder / "rows.json")]
    assert main(["regress", str(folder / "regress.yaml"), *words]) == 2
    said = capsys.readouterr()
    assert "No space left" in said.err
    assert " on generic, small: done" in said.err
    assert [row["bit_exact"] for row in json.loads((folder / "rows.json").read_text())] == [True]


WORSE = {
    "equal": ({}, {}, None),
    "better": ({"arena": 20_000, "accuracy": 0.8}, {}, None),
    "by a byte": ({"arena": 15_999}, {}, "arena: 16,000, in the baseline 15,999; it may not be worse"),
    "within a number": ({"arena": 15_900}, {"arena": 100}, None),
    "within a share": ({"code": 8_912}, {"code": "1%"}, None),
    "beyond a share": ({"code": 8_900}, {"code": "1%"}, "may be worse by 1%"),
    "accuracy": (
        {"accuracy": 0.91},
        {"accuracy": 0.005},
        "accuracy: 0.9, in the baseline 0.91; it may be worse by 0.005",
    ),
    "accuracy allowed": ({"accuracy": 0.905}, {"accuracy": 0.005}, None),
    "unknown now": ({"cycles": 5}, {}, "cycles is not known any more"),
    "unknown before": ({"stack": None}, {}, None),
    "another setting": ({"setting": "small", "arena": 1}, {}, None),
}
"""what the baseline has that differs, tolerances, and what is said."""


@pytest.mark.parametrize("case", WORSE)
def test_a_baseline(case: str) -> None:
    before, allowed, said = WORSE[case]
    (row,) = baseline.compared([GOOD], [{**vars(GOOD), **before}], allowed)
    assert row.exit_code == (5 if said else 0)
    assert [bool(re.search(said, text)) for text in row.worse] == [True] if said else row.worse == []


def test_other_bits_are_graver_than_a_figure() -> None:
    wrong = Row(**{**vars(GOOD), "bit_exact": False, "exit_code": 1})
    (row,) = baseline.compared([wrong], [{**vars(GOOD), "arena": 1}], {})
    assert (row.exit_code, len(row.worse)) == (1, 1)


def test_a_report_for_ci() -> None:
    rows = [
        GOOD,
        Row("a", "t", "b", error="no \x00 compiler <here>", exit_code=4),
        Row(**{**vars(GOOD), "bit_exact": False, "exit_code": 1}),
        Row(**{**vars(GOOD), "worse": ["arena is 2 and was 1"], "exit_code": 5}),
    ]
    suite = ET.fromstring(regress_view.junit(rows))
    assert [suite.get(key) for key in ("tests", "errors", "failures")] == ["4", "1", "2"]
    assert [child.get("message") for case in suite for child in case if child.get("message")] == [
        "no ? compiler <here>",
        "the bits are not those of the reference",
        "arena is 2 and was 1",
    ]


REFUSED: dict[str, tuple[str, str]] = {
    "no models": ("targets: [generic]", "expected 'models:'"),
    "key": (SPEC + "boards: []", "unknown key"),
    "data": ("models: [{model: model.onnx}]", "'model' and 'data'"),
    "file": (SPEC.replace("model.onnx", "none.onnx"), "there is no file"),
    "target": (SPEC.replace("[generic]", "[cortex-m5]"), "unknown target"),
    "targets": (SPEC.replace("[generic]", "generic"), "list of names"),
    "option": (SPEC.replace("optimize:", "optimise:"), "'optimise'"),
    "flag": (SPEC.replace("per_channel: false", "per_channel: 3"), "true or false"),
    "setting": (SPEC.replace("small:", "'../small':"), "needs a name"),
    "samples": (SPEC.replace("10", "0"), "number of samples"),
    "figure": (SPEC.replace("code:", "size:"), "unknown figure"),
    "tolerance": (SPEC.replace("0.01", "-1"), "not negative"),
    "share": (SPEC.replace("1%", "one"), "a share such as 1%"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_spec_that_is_wrong_runs_nothing(case: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, said = REFUSED[case]
    (folder / "regress.yaml").write_text(text)
    words = ["--build", str(folder / "build"), "--store", str(folder / "store")]
    assert main(["regress", str(folder / "regress.yaml"), *words]) == 2
    assert said in capsys.readouterr().err
    assert not {"build", "store"} & {path.name for path in folder.iterdir()}


def test_a_baseline_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "b.json").write_text('{"rows": []}')
    with pytest.raises(UsageError, match="is no baseline"):
        baseline.read(tmp_path / "b.json")


def test_a_board_of_ones_own_goes_along(tmp_path: Path) -> None:
    """The files of a board, and its target beside it, are sent with a cell; where they change, the cell is another one."""
    here = tmp_path / "here" / "mine"
    shutil.copytree(ROOT / "boards" / "mps2-an386", here)
    text = (here / "board.toml").read_text().replace("mps2-an386", "mine", 1).replace("../common/", "{common}/")
    (here / "board.toml").write_text(text.replace('target = "cortex-m4"', 'target = "core.toml"'))
    (here / "core.toml").write_text('name = "core"\ndescription = "mine"\ninherits = "cortex-m4"\n')
    for name in ("m.onnx", "d.npz"):
        (tmp_path / name).write_text(name)
    (tmp_path / "farm.yaml").write_text(f"boards: [{{name: shelf, board: {here}}}]")
    (job,) = regress.jobs([(tmp_path / "m.onnx", tmp_path / "d.npz")], [], places=farm.read(tmp_path / "farm.yaml"))
    keys = [_key(job)]
    files: dict[str, contents.Files] = {}

    def content_of(path: Path) -> contents.Content:
        content, found = contents.content(path)
        files[content.key] = found
        return content

    packed = contents.packed(job, content_of)
    here.rename(tmp_path / "not here")
    there = contents.unpacked(packed, files, tmp_path / "there")
    assert (there.target, there.board, there.core.startswith(str(tmp_path / "there"))) == ("core", "mine", True)
    assert there.needs == ("gcc-arm", "qemu")
    keys.append(_key(there))
    assert there.place is not None
    script = Path(there.place.board) / "link.ld"
    script.write_text(script.read_text() + "/* changed */\n")
    keys.append(_key(there))
    assert keys[0] == keys[1] != keys[2]


TRIES = {
    "a good place": ([("p0", 0)], ["wait=600"], ""),
    "a broken place, which the next cell passes over": (
        [("p0", 4), ("p1", 0), ("p1", 0)],
        ["wait=600", "wait=600&not=p0", "wait=600&not=p0"],
        "",
    ),
    "a network that fails everywhere: no place is blamed": (
        [("p0", 4), ("p1", 4), ("p0", 0)],
        ["wait=600", "wait=600&not=p0", "wait=600"],
        "labgrid:p0: silent; labgrid:p1: silent",
    ),
    "no other place": ([("p0", 4), ("", 2)], ["wait=600", "wait=600&not=p0"], "labgrid:p0: silent"),
    "other bits are no fault of the place": ([("p0", 1)], ["wait=600"], "silent"),
}


@pytest.mark.parametrize("case", TRIES)
def test_a_place_that_fails_is_passed_over(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ends, options, error = TRIES[case]
    asked, broken = list[str](), set[str]()

    def ran(*words: str, seconds: float) -> farm.Ended:
        asked.append(words[words.index("--port") + 1])
        place, code = ends[len(asked) - 1]
        return farm.Ended(code, stderr="error: silent" if code else "", place=place)

    monkeypatch.setattr(regress, "_glowembed", ran)
    monkeypatch.setattr(regress, "_broken", lambda hour: broken)
    place = farm.Place("shelf", "mps2-an386", "labgrid:chip=m4?wait=600")
    job = regress.Job("m", Path("m.onnx"), Path("d.npz"), "cortex-m4", "mps2-an386", place=place)
    ended = regress._validated(job)
    assert (regress._failed(job, ended).error if ended.returncode else "") == error
    if len(asked) < len(ends):
        assert regress._validated(job).returncode == 0
    assert asked == [f"labgrid:chip=m4?{words}" for words in options]


def _key(job: regress.Job) -> str:
    return regress._record(job, {}, (lambda path: path.name, lambda path: path.name)).key


def test_words_of_a_setting() -> None:
    given: dict[str, Any] = {"float_io": True, "dtype": "int16", "per_channel": False, "bias_correction": True}
    words = ["--float-io", "--dtype", "int16", "--per-tensor", "--bias-correction", "on"]
    assert regress.words_of("x", given) == words
    assert regress.words_of("x", {"float_io": False, "per_channel": True}) == []
