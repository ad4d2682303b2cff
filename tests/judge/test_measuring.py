"""What `measure` has found is found again in a store: the same text, page and JSON, without a build, as long as nothing of it changes."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from glowembed.__main__ import main
from glowembed.errors import GlowembedError
from glowembed.graph.target import load_board
from glowembed.image.bundles import Bundle
from glowembed.jobs.store import open_store
from glowembed.judge import measuring
from glowembed.judge.measuring import KIND, Asked, measured
from glowembed.measure import Figures, Measurement
from glowembed.measure.pipelines import Cycles
from glowembed.pipeline import load_bundle

ROOT = Path(__file__).parents[2]
QSPI = ROOT / "examples" / "qspi"
pytestmark = [pytest.mark.arm_gcc, pytest.mark.qemu, pytest.mark.cc]


class BuiltError(GlowembedError):
    """Raised where a bundle would be built."""

    exit_code = 77


@pytest.fixture(scope="module")
def bundle(digits: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("measuring") / "digits"
    words = [str(digits / "model.onnx"), "--data", str(digits / "data.npz"), "--target", "cortex-m4"]
    assert main(["compile", *words, "--slice", "20000", "-o", str(folder)]) == 0
    return folder


@pytest.fixture
def board(tmp_path: Path) -> Path:
    """A copy of a board whose weights lie in slow memory."""
    copy = shutil.copytree(QSPI, tmp_path / "qspi")
    text = (copy / "board.toml").read_text()
    (copy / "board.toml").write_text(text.replace("../../boards", os.path.relpath(ROOT / "boards", copy)))
    return copy


def refuse(*_: object) -> None:
    raise BuiltError


def test_a_second_measurement_is_the_first_without_a_build(
    bundle: Path, board: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["measure", str(bundle), "--board", str(board), "--hot", "2", "--store", str(tmp_path / "store")]
    seen = []
    for kind in ("first", "kept"):
        files = [str(tmp_path / f"{kind}.{ending}") for ending in ("json", "html")]
        assert main([*words, "--build-dir", str(tmp_path / "build"), "--json", files[0], "--html", files[1]]) == 0
        seen.append((capsys.readouterr().out, *(Path(file).read_text() for file in files)))
        monkeypatch.setattr(measuring, "build_bundle", refuse)
    assert seen[0] == seen[1]
    found = json.loads(seen[0][1])
    assert found["slices"] and found["slow_memory"]["bytes"] > 0 and found["cycles_estimate"] > 0
    assert main([*words, "--again"]) == BuiltError.exit_code


def changed_bundle(bundle: Bundle, board: Path) -> None:
    header = next(bundle.path.glob("*.h"))
    header.write_text(header.read_text() + "/* changed */\n")


def changed_board(bundle: Bundle, board: Path) -> None:
    script = board / "link.ld"
    script.write_text(script.read_text() + "/* changed */\n")


CHANGES: dict[str, tuple[Callable[[Bundle, Path], None], dict[str, object]]] = {
    "bundle": (changed_bundle, {}),
    "board": (changed_board, {}),
    "samples": (lambda *_: None, {"samples": 2}),
    "hot": (lambda *_: None, {"hot": 1}),
    "clock": (lambda *_: None, {"clock_hz": 1_000_000}),
}


@pytest.mark.parametrize("what", CHANGES)
def test_what_has_changed_is_measured_again(
    what: str, bundle: Path, board: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = load_bundle(shutil.copytree(bundle, tmp_path / "digits"))
    store, figures = open_store(str(tmp_path / "store")), Figures("", 7, Cycles(1.0, 2.0, 3.0))
    found = Measurement("digits", "cortex-m4", "qspi", "id", 1, figures, (), (), (), opened.manifest)
    monkeypatch.setattr(measuring, "build_bundle", lambda *_: None)
    monkeypatch.setattr(measuring, "measured_slices", lambda *_: ())
    monkeypatch.setattr(measuring, "measure_bundle", lambda *_: found)
    described = load_board(str(board))
    first = measured(opened, described, Asked(), store)
    monkeypatch.setattr(measuring, "build_bundle", refuse)
    assert measured(opened, described, Asked(), store) == first
    change, more = CHANGES[what]
    change(opened, board)
    with pytest.raises(BuiltError):
        measured(opened, described, replace(Asked(), **more), store)  # type: ignore[arg-type]


@pytest.mark.parametrize("damage", ["note", "other fields", "no fields"])
def test_what_is_no_whole_measurement_is_made_again(
    damage: str, bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, store = load_bundle(bundle), open_store(str(tmp_path))
    note = "no plugin" if damage == "note" else None
    found = Measurement("digits", "cortex-m4", "m", "id", 1, Figures("", 7), (), (), (), opened.manifest, note)
    monkeypatch.setattr(measuring, "build_bundle", lambda *_: None)
    monkeypatch.setattr(measuring, "measured_slices", lambda *_: ())
    monkeypatch.setattr(measuring, "measure_bundle", lambda *_: found)
    board = load_board("mps2-an386")
    measured(opened, board, Asked(), store)
    kept = list(store.records(KIND))
    assert len(kept) == (damage != "note")
    for record in kept:
        store.put(replace(record, result={**record.result, "more": 1} if damage == "other fields" else {}))
    monkeypatch.setattr(measuring, "build_bundle", refuse)
    with pytest.raises(BuiltError):
        measured(opened, board, Asked(), store)
