"""Detectors: the C header makes the decisions of the Python law, on the host and on a board; counters and refusals."""

from __future__ import annotations

import json
import subprocess
from dataclasses import astuple
from pathlib import Path

import numpy as np
import own_firmware
import pytest
from json_result import check_json
from small_models import model, node, saved, weights
from typer.testing import CliRunner

from glowembed import resources
from glowembed.__main__ import app
from glowembed.errors import UsageError
from glowembed.graph.target import load_board
from glowembed.judge import detection
from glowembed.judge.detection import Detector
from glowembed.law.detector import AVERAGE_MAX, DetectorSettings, beginnings
from glowembed.pipeline import Bundle, CompileOptions, compile_model

SETTINGS = [
    DetectorSettings(1, 50, 20, 0, -128), DetectorSettings(4, 120, 40, 7, -128), DetectorSettings(7, 100, 100, 0, 3),
    DetectorSettings(AVERAGE_MAX, 900, -900, 100, 0),
]  # fmt: skip


def walk(seed: int, count: int = 600) -> list[int]:
    """Scores that rise and fall over the whole of int8."""
    steps = np.random.default_rng(seed).normal(size=count).cumsum() * 20
    return [int(x) for x in np.clip(100 * np.sin(steps / 40) + steps % 50, -128, 127)]


def program(settings: DetectorSettings, scores: list[int]) -> str:
    """Prints the numbers of the scores with which detections begin."""
    return f"""
#include <stdio.h>
#include "ge_detector.h"
static const int8_t scores[] = {{{", ".join(map(str, scores))}}};
static const ge_detector_settings settings = {{{", ".join(map(str, astuple(settings)))}}};
int main(void) {{
    static ge_detector detector;
    ge_detector_reset(&settings, &detector);
    for (int i = 0; i < (int)sizeof scores; i++) {{
        if (ge_detector_feed(&settings, &detector, scores[i])) {{ printf("%d ", i); }}
    }}
    return 0;
}}
"""


@pytest.mark.cc
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_the_header_decides_as_its_twin(settings: DetectorSettings, tmp_path: Path) -> None:
    scores = walk(settings.average)
    (tmp_path / "main.c").write_text(program(settings, scores))
    flags = [
        "-std=c99",
        "-Wall",
        "-Wextra",
        "-Wconversion",
        "-Werror",
        "-fsanitize=undefined",
        f"-I{resources.runtime_c()}",
    ]
    subprocess.run(["gcc", *flags, "main.c", "-o", "main"], cwd=tmp_path, check=True)
    said = subprocess.run(["./main"], cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    assert [int(word) for word in said.split()] == beginnings(settings, scores) != []


@pytest.mark.qemu
@pytest.mark.arm_gcc
def test_the_header_decides_as_its_twin_on_a_board(tmp_path: Path) -> None:
    scores, board = walk(1, 300), load_board("mps2-an386")
    text = program(SETTINGS[1], scores).replace("#include <stdio.h>", '#include "semihost.h"')
    text = text.replace('printf("%d ", i);', "sum = (sum * 31 + i) % 251;").replace(
        "return 0;", "ge_semihost_exit(sum);\n    return 0;"
    )
    text = text.replace("int main(void) {", "int main(void) {\n    int sum = 0;")
    elf = own_firmware.build(text, [], tmp_path, board, (f"-I{resources.runtime_c()}",))
    expected = 0
    for i in beginnings(SETTINGS[1], scores):
        expected = (expected * 31 + i) % 251
    assert expected and own_firmware.run(elf, board.name)[0] == expected


def test_one_detection_until_the_mean_falls_and_the_pause_is_over() -> None:
    settings = DetectorSettings(2, 20, 10, 3, 0)
    assert beginnings(settings, [10, 10, 10, 10, 10]) == [1]
    assert beginnings(settings, [10, 10, 0, 0, 10, 10, 10]) == [1, 5]
    assert beginnings(DetectorSettings(1, 10, 10, 3, 0), [10, 0, 10, 0, 10, 0, 10]) == [0, 4]


def test_misses_and_false_alarms() -> None:
    detector = Detector("y", 0, 0.5, 0.25, DetectorSettings(1, 10, 10, 0, 0))
    scores = [0, 10, 0, 10, 0, 0, 0, 10, 0, 0]
    found = detection.judge(detector, scores, [(0.8, 1.2), (1.9, 2.1), (2.2, 2.8), (3.0, 3.8)])
    assert found.times == (1.0, 2.0, 4.0) and found.seconds == 5.0
    assert (found.events, found.misses, found.false_alarms) == (4, 1, 0)
    assert detection.judge(detector, scores, [(0.8, 1.2)]).false_alarms == 2
    assert found.per_hour(2) == 1440


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    folder = tmp_path_factory.mktemp("detector")
    network = model([node("MatMul", "x w", "y")], {"x": [1, 4]}, {"w": weights(4, 3)})
    np.save(folder / "data.npy", np.random.default_rng(1).normal(size=(40, 4)).astype(np.float32))
    path = saved(network, folder)
    options = CompileOptions("x86-64", name="net", isa="portable")  # which compiles faster, for the same bits
    return compile_model(path, folder / "net", options, data=folder / "data.npy")


def test_scores_are_those_of_the_reference(bundle: Bundle, tmp_path: Path) -> None:
    """Through the command: a threshold in real numbers, a header for the bundle."""
    (tmp_path / "d.yaml").write_text("element: 1\nbegin: 0.4\nend: 0.2\nhop: 0.5\npause: 1.0\naverage: 2\n")
    (tmp_path / "e.csv").write_text("0,20\n")
    data = bundle.path.parent / "data.npy"
    words = [
        "detect",
        str(bundle.path),
        str(tmp_path / "d.yaml"),
        "--data",
        str(data),
        "--events",
        str(tmp_path / "e.csv"),
    ]
    done = CliRunner().invoke(app, [*words, "-o", str(tmp_path / "net_detector.h"), "--json", str(tmp_path / "r.json")])
    assert done.exit_code == 0, done.output
    detector = detection.read(tmp_path / "d.yaml", bundle)
    qtype = bundle.graph.values["y"].qtype
    assert qtype is not None
    stored = detection.scores(bundle, detector, data)
    means = [
        (a + b) / 2
        for a, b in zip(
            qtype.dequantize(np.array(stored)), [0.0, *qtype.dequantize(np.array(stored))[:-1]], strict=True
        )
    ]
    first = next(i for i, mean in enumerate(means) if mean >= 0.4 - 1e-6)
    assert beginnings(detector.settings, stored)[0] == first and detector.settings.pause == 2
    assert "net_detector = {2, " in (tmp_path / "net_detector.h").read_text()
    assert "0 of 1 events missed; 0 false alarms" in done.output
    result = json.loads((tmp_path / "r.json").read_text())
    check_json("detect", result)
    assert (result["detections"][0], result["events"], result["misses"]) == (0.5 * (first + 1), 1, 0)


WRONG = [
    ("begin: 0.5", "write `hop: SECONDS`"),
    ("hop: 1", "'begin' is a required property"),
    ("begin: 0.5\nend: 0.6\nhop: 1", "end 0.6 is above begin 0.5"),
    ("begin: 0.5\nhop: 1\nelement: 3", "element 3 is none of the 3 of 'y'"),
    ("begin: 0.5\nhop: 1\noutput: z", "unknown output in .*'z'. Known: y"),
    ("begin: .nan\nhop: 1", "begin: nan is not a finite number"),
    ("begin: 0.5\nhop: 1\naverage: 65", "65 is greater than the maximum of 64"),
]


@pytest.mark.parametrize(("text", "message"), WRONG, ids=lambda part: part[:30])
def test_a_detector_that_does_not_fit_is_refused(bundle: Bundle, text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "d.yaml").write_text(text)
    with pytest.raises(UsageError, match=message):
        detection.read(tmp_path / "d.yaml", bundle)


@pytest.mark.parametrize("line", ["1", "a,b", "3,2", "-1,2", "1,inf"])
def test_an_event_that_is_no_time_is_refused(line: str, tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text(f"0,1\n{line}\n")
    with pytest.raises(UsageError, match="line 2: "):
        detection.read_events(tmp_path / "e.csv")
