"""Notes: which facts cause one and which do not, and what a bundle records of its samples."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from small_models import model, node, saved, weights

from glowembed.__main__ import main
from glowembed.graph.ir import Graph, QType, Value
from glowembed.graph.notes import MEANINGS
from glowembed.judge import compare
from glowembed.pipeline import load_bundle
from glowembed.ranges import datachecks
from glowembed.ranges.datasets import Dataset, ImageOptions
from glowembed.ranges.profile import Histogram, Profile, ValueProfile, profile

RNG = np.random.default_rng(3)
UNIT = RNG.uniform(0, 1, (40, 3, 8, 8)).astype(np.float32)
GRAPH = Graph("g", (), {"x": Value("x", (1, 3, 8, 8), qtype=QType("int8", (1 / 255,), (-128,)))}, ("x",), ())
CALIBRATED = {"samples": 40, "inputs": {"x": {"low": 0.0, "high": 1.0, "mean": 0.5, "std": 0.29}}}


def test_the_documentation_lists_every_code(root: Path) -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \| (\w+) \| (.+) \|$", (root / "docs" / "notes.md").read_text(), re.MULTILINE)
    assert {code: (level, text) for code, level, text in rows} == dict(MEANINGS)


def of_x(array: np.ndarray) -> Dataset:
    return Dataset({"x": array.astype(np.float32)}, shapes={"x": (1, *array.shape[1:])})


def dead(*values: float) -> np.ndarray:
    """Samples that hold one of these numbers each, and one that is not constant."""
    return np.stack([np.full((3, 8, 8), v) for v in values] + [UNIT[0]])


CALIBRATION = {
    # case -> samples, words of the note or nothing
    "random": (UNIT, ""),
    "zeros": (dead(0, 0), "2 of 3 samples hold one number only (2 of them zeros)"),
    "constant": (dead(0, 5), "2 of 3 samples hold one number only (1 of them zeros)"),
    "one element": (np.zeros((9, 1)), ""),
}


@pytest.mark.parametrize("case", CALIBRATION)
def test_samples_that_tell_no_range(case: str) -> None:
    array, words = CALIBRATION[case]
    notes = datachecks.calibration(of_x(array))
    assert [note.code for note in notes] == ["constant-samples"] * bool(words)
    assert not words or words in str(notes[0])


@pytest.mark.parametrize(("count", "codes"), [(1, ["few-samples"]), (7, ["few-samples"]), (8, []), (100, [])])
def test_few_samples(count: int, codes: list[str]) -> None:
    assert [note.code for note in datachecks.few(count)] == codes


OTHERS = {
    # case -> samples, codes
    "of the same kind": (UNIT, []),
    "one of the same kind": (UNIT[:1], []),
    "bytes": (255 * UNIT, ["input-clips", "range-differs"]),
    "one with bytes": (255 * UNIT[:1], ["input-clips", "range-differs"]),
    "divided twice": (UNIT / 255, ["range-differs"]),
    "from -1 to 1": (2 * UNIT - 1, ["input-clips", "range-differs"]),
    "half the range": (UNIT / 2, ["range-differs"]),
    "two thirds of the range": (UNIT / 1.5, []),
    "shifted": (UNIT - 0.5, ["input-clips", "range-differs"]),
    "two in a hundred clip": (np.where(np.arange(192).reshape(3, 8, 8) < 4, 1.2, UNIT), ["input-clips"]),
    "one in two hundred clips": (np.where(np.arange(192).reshape(3, 8, 8) < 1, 1.2, UNIT), []),
    "within half a step": (np.where(UNIT > 0.9, 1 + 0.4 / 255, UNIT), []),
}


@pytest.mark.parametrize("case", OTHERS)
def test_samples_that_are_not_like_those_of_the_calibration(case: str) -> None:
    array, codes = OTHERS[case]
    if case == "shifted":
        array = array - 0.2
    assert [note.code for note in datachecks.validation(of_x(array), GRAPH, CALIBRATED)] == codes


def test_statistics_are_those_of_the_samples() -> None:
    plain = Graph("g", (), {"x": Value("x", (1, 3, 8, 8))}, ("x",), ())
    found = datachecks.statistics(profile(plain, of_x(UNIT)), plain)["x"]
    assert found["mean"] == pytest.approx(UNIT.mean(), abs=1e-3)
    assert found["std"] == pytest.approx(UNIT.std(), abs=1e-3)
    assert (found["low"], found["high"]) == (UNIT.min(), UNIT.max())


def test_a_range_that_clips_the_calibration_itself() -> None:
    histogram = Histogram(-2, 0, np.array([90, 5, 3, 2, 0, 0, 0, 4]))  # 0..2 in bins of 1/4
    for scale, codes in ((2 / 255, []), (1 / 255, ["input-clips"])):
        graph = replace(GRAPH, values={"x": Value("x", (1, 3, 8, 8), qtype=QType("int8", (scale,), (-128,)))})
        notes = datachecks.calibration_clips(Profile("", 9, {"x": ValueProfile(0.0, 2.0, histogram)}), graph)
        assert [note.code for note in notes] == codes


def doubts(labels: list[int], good: int) -> list[str]:
    """The notes for ten samples of four classes, of which the device gets the first `good` right and the float model
    all.
    """
    expected = np.eye(4, dtype=np.float32)[np.arange(10) % 4]
    found = np.where((np.arange(10) < good)[:, None], expected, np.roll(expected, 1, axis=1))
    metrics, (y, ours) = compare.metrics({"y": expected}, {"y": found}), ({"y": expected}, {"y": found})
    given = np.asarray(labels)
    return [note.code for note in compare.doubts(metrics, compare.accuracy(given, y, ours), given, y)]


RIGHT = [i % 4 for i in range(10)]
DOUBTS = [
    # labels, how many are right on the device, codes
    (RIGHT, 10, []),
    (RIGHT, 9, ["low-sqnr", "accuracy-drop"]),
    ([-1, *RIGHT[1:]], 10, ["labels-out-of-range"]),
    ([4, *RIGHT[1:]], 10, ["labels-out-of-range"]),
]


@pytest.mark.parametrize(("labels", "good", "codes"), DOUBTS)
def test_figures_that_should_not_be_overlooked(labels: list[int], good: int, codes: list[str]) -> None:
    assert doubts(labels, good) == codes


def pictures(folder: Path) -> Path:
    for index in range(9):
        place = folder / str(index % 2)
        place.mkdir(parents=True, exist_ok=True)
        pixels = RNG.integers(0, 256, (8, 8, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(place / f"{index}.png")
    return folder


def network(folder: Path, shape: Any = (1, 3, 8, 8)) -> Path:
    nodes = [node("Conv", "x w", "c"), node("GlobalAveragePool", "c", "g"), node("Flatten", "g", "y")]
    return saved(model(nodes, {"x": shape}, {"w": weights(4, 3, 3, 3)}), folder)


FOR_HERE = ("--target", "x86-64", "--isa", "portable")
"""Options for bundles of this computer in C99, which compiles faster, for the same bits."""


def validated(folder: Path, *words: str) -> dict[str, Any]:
    assert main(["validate", *words, "--json", str(folder / "result.json")]) == 0
    result: dict[str, Any] = json.loads((folder / "result.json").read_text())
    return result


@pytest.mark.cc
@pytest.mark.parametrize("by_profile", [False, True], ids=["compile", "profile"])
def test_images_are_read_as_at_compilation(
    by_profile: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, data, bundle = network(tmp_path), str(pictures(tmp_path / "images")), str(tmp_path / "bundle")
    images = ["--image-scale", "-1..1", "--image-mean", "0.1,0.2,0.3", "--image-std", "0.5"]
    common = [str(file), *FOR_HERE, "-o", bundle]
    if by_profile:
        assert main(["profile", str(file), "--data", data, *images, "-o", str(tmp_path / "p.yaml")]) == 0
        assert main(["compile", *common, "--profile", str(tmp_path / "p.yaml")]) == 0
    else:
        assert main(["compile", *common, "--data", data, *images]) == 0
    kept = ImageOptions("-1..1", (0.1, 0.2, 0.3), (0.5,))
    assert load_bundle(bundle).manifest["calibration"]["images"] == kept.json()
    again = validated(tmp_path, bundle, "--data", data)
    assert {"data"} <= {note["code"] for note in again["notes"]} <= {"data", "accuracy-drop"}
    same = validated(tmp_path, bundle, "--data", data, *images)
    assert same["outputs"] == again["outputs"]
    other = validated(tmp_path, bundle, "--data", data, "--image-scale", "0..255")
    assert {"images-differ", "range-differs", "input-clips"} <= {note["code"] for note in other["notes"]}
    assert "warning:" in capsys.readouterr().out


@pytest.mark.cc
def test_shapes_are_said_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An open shape: validate, debug and tune take it from the bundle."""
    file, data, bundle = network(tmp_path, ("n", 3, "h", "w")), str(tmp_path / "d.npz"), str(tmp_path / "bundle")
    np.savez(data, calib_x=UNIT[:20], test_x=UNIT[20:])
    assert main(["compile", str(file), "--data", data, *FOR_HERE, "-o", bundle]) == 2
    assert "--shape x=1,3,64,64" in capsys.readouterr().err
    words = ["--shape", "x=1,3,8,8", "--data", data]
    assert main(["compile", str(file), *words, *FOR_HERE, "-o", bundle]) == 0
    assert validated(tmp_path, bundle, "--data", data, "--html", str(tmp_path / "page.html"))["bit_exact"]
    assert main(["debug", bundle, "--data", data]) == 0
    tuned = ["--data", data, "--metric", "rmse", "--drop", "90%", "--workers", "1", "--samples", "4"]
    assert main(["tune", bundle, *tuned, "-o", str(tmp_path / "precision.yaml")]) == 0
    assert main(["tune", str(file), *tuned, "--shape", "x=1,3,8,8", "-o", str(tmp_path / "other.yaml")]) == 0


def test_a_small_calibration_is_told_and_recorded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, data = network(tmp_path), tmp_path / "d.npz"
    np.savez(data, calib_x=dead(0, 3), test_x=UNIT)
    words = ["compile", str(file), "--data", str(data), "-o", str(tmp_path / "bundle"), "--json", "-"]
    assert main([*words, "--image-mean", "0.5"]) == 0
    told = capsys.readouterr()
    codes = [line.split("[")[-1].rstrip("]") for line in told.err.splitlines()]
    assert codes == ["constant-samples", "few-samples", "image-options-unused"]
    notes = json.loads(told.out)["calibration"]["notes"]
    assert [(note["level"], note["code"]) for note in notes] == [
        ("warning", "constant-samples"),
        ("warning", "few-samples"),
    ]
