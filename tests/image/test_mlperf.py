"""The firmware that answers the official tool of MLPerf Tiny, under QEMU through its UART."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import fake_bundle
import numpy as np
import pytest
from energy_runner import Runner

from glowembed.errors import UsageError
from glowembed.graph.target import load_board
from glowembed.image import mlperf
from glowembed.image.build import build
from glowembed.judge.validation import build_bundle
from glowembed.pipeline import Bundle, compile_model
from glowembed.reference import run_int
from glowembed.run import qemu
from glowembed.run.line import Line, qemu_line

BOARD = "mps2-an386"
TENSOR = {"name": "x", "dtype": "int8", "scale": 0.5, "zero_point": 3, "bytes": 8}


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runner]:
    board, folder = load_board(BOARD), tmp_path_factory.mktemp("mlperf")
    image = build(fake_bundle.write(folder / "bundle", board.target), board, folder / "build", "mlperf")
    with qemu_line(qemu.machine(board, image.elf), BOARD) as line:
        found = Runner(line)
        said = found.answer()
        assert said[0].startswith("READY glowembed 1 ")
        assert re.fullmatch(r"m-lap-us-\d+", said[2])
        assert [said[1], said[3]] == ["m-timestamp-mode-performance", "m-init-done"]
        yield found


@pytest.mark.arm_gcc
@pytest.mark.qemu
def test_who_is_there(runner: Runner) -> None:
    assert runner.command("name") == [f"m-name-dut-[{BOARD}]"]
    profile, model = runner.command("profile")
    assert re.fullmatch(r"m-profile-\[ULPMark for tinyML Firmware .*\]", profile)
    assert model == "m-model-[fake]"
    assert any("infer N" in line for line in runner.command("help"))
    first, second = (int(runner.command("timestamp")[0].removeprefix("m-lap-us-")) for _ in range(2))
    assert second > first


@pytest.mark.arm_gcc
@pytest.mark.qemu
def test_inferences(runner: Runner) -> None:
    samples = fake_bundle.samples(40)
    for sample, right in zip(samples, fake_bundle.reference(samples)[1].view(np.int8), strict=True):
        assert runner.load(sample.tobytes()) == ["m-load-done"]
        assert runner.infer(1, 0).results == [float(value) for value in right]
    assert runner.command("db print") == ["m-buffer-" + "-".join(f"{byte:02x}" for byte in samples[-1])]
    assert runner.command("results") == [f"m-results-[{','.join(f'{value:.3f}' for value in right)}]"]
    once, often = runner.infer(1000, 1), runner.infer(3000, 0)
    assert once.results == often.results == [float(value) for value in right]
    assert 2.5 < often.microseconds / once.microseconds < 3.5


@pytest.mark.arm_gcc
@pytest.mark.qemu
@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("sing", "e-[Unknown command: sing]"),
        ("", "e-[Unknown command: ]"),
        ("db", "e-[db: load N, print, or hex digits]"),
        ("db load", "e-[db load: how many bytes?]"),
        ("db load 0", "e-[db load: how many bytes?]"),
        ("db load 9", "e-[db load: at most 8 bytes]"),
        ("db 012", "e-[db: an odd number of hex digits]"),
        ("db 0g", "e-[db: no hex digits: 0g]"),
        ("infer 0", "e-[infer: the number of inferences must be over 0]"),
        ("infer 1 x", "e-[infer: the number of warm-ups is no number]"),
        ("infer 1", "e-[infer: 0 bytes are loaded, expected 8]"),
        ("x" * 200, f"e-[Unknown command: {'x' * 80}]"),
    ],
)
def test_bad_commands(runner: Runner, command: str, words: str) -> None:
    runner.command("db load 8")
    assert runner.command(command) == [words]
    assert runner.command("name") == [f"m-name-dut-[{BOARD}]"]


def emulated(bundle: Bundle, folder: Path) -> AbstractContextManager[Line]:
    image = build_bundle(bundle, BOARD, folder / "build", "mlperf")
    return qemu_line(qemu.machine(image.board, image.elf), BOARD)


def shared(shared_models: Path, folder: Path, name: str) -> tuple[Bundle, np.ndarray]:
    """The bundle of a shared model, and four real samples in float."""
    data = shared_models / name / "data.npz"
    bundle = compile_model(shared_models / name / "model.onnx", folder / name, data=data)
    with np.load(data) as arrays:
        samples = arrays["test_x"][:4].astype(np.float64)
        samples = (samples - arrays["x_zero"]) * arrays["x_scale"] if "x_scale" in arrays else samples
    return bundle, samples


def reference(bundle: Bundle, reals: np.ndarray) -> np.ndarray:
    """The outputs of the integer reference for real numbers, as stored integers and as floats."""
    (source,), (result,) = bundle.manifest["inputs"], bundle.manifest["outputs"]
    stored = np.clip(np.trunc(reals / source["scale"] + np.copysign(0.5, reals)) + source["zero_point"], -128, 127)
    (value,), (out,) = bundle.graph.inputs, bundle.graph.outputs
    rows = [
        run_int(bundle.graph, {value: row.astype(np.int8).reshape(bundle.graph.values[value].shape)}) for row in stored
    ]
    return (np.stack([row[out].reshape(-1) for row in rows]).astype(np.float64) - result["zero_point"]) * result[
        "scale"
    ]


@pytest.mark.shared
@pytest.mark.arm_gcc
@pytest.mark.qemu
def test_keyword_spotting(shared_models: Path, tmp_path: Path) -> None:
    """The benchmark's own stimuli are int8 of the reference model: scale 0.5847, zero point 83."""
    bundle, samples = shared(shared_models, tmp_path, "kws")
    stimuli = np.clip(np.round(samples / 0.5847029089927673) + 83, -128, 127)
    right = reference(bundle, (stimuli - 83) * 0.5847029089927673)
    with emulated(bundle, tmp_path) as line:
        runner = Runner(line)
        runner.answer()
        assert "m-model-[kws01]" in runner.command("profile")
        for stimulus, outputs in zip(stimuli.astype(np.int8), right, strict=True):
            runner.load(stimulus.tobytes())
            assert np.allclose(runner.infer(1, 0).results, outputs, atol=0.00051)


@pytest.mark.shared
@pytest.mark.arm_gcc
@pytest.mark.qemu
def test_anomaly_detection(shared_models: Path, tmp_path: Path) -> None:
    """Stimuli are floats, and one number comes back: how far the output is from the input."""
    bundle, samples = shared(shared_models, tmp_path, "ad01")
    stimuli = samples[:2].reshape(2, -1).astype(np.float32)
    right = np.mean((reference(bundle, stimuli.astype(np.float64)) - stimuli) ** 2, axis=1)
    with emulated(bundle, tmp_path) as line:
        runner = Runner(line)
        runner.answer()
        assert "m-model-[ad01]" in runner.command("profile")
        for stimulus, error in zip(stimuli, right, strict=True):
            runner.load(stimulus.astype("<f4").tobytes())
            assert runner.infer(1, 0).results == [pytest.approx(error, rel=1e-4, abs=0.001)]


@pytest.mark.parametrize(("inputs", "outputs", "model"), [(3072, 10, "ic01"), (27648, 2, "vww01"), (490, 12, "kws01")])
def test_stimuli_of_the_benchmark(inputs: int, outputs: int, model: str) -> None:
    """A bundle with the reference model's own input takes its stimuli unchanged; pixels only move to signed bytes."""
    (stimulus,) = (entry for entry in mlperf.STIMULI if entry.model == model)
    zero = 83 if model == "kws01" else -128
    source = TENSOR | {"bytes": inputs, "scale": stimulus.scale, "zero_point": zero}
    text = mlperf.header({"name": "net", "inputs": [source], "outputs": [TENSOR | {"bytes": outputs}]})
    assert f'#define GE_MLPERF_MODEL "{model}"' in text
    table = [int(word) for word in re.findall(r"(\d+)u,", text[text.index("ge_mlperf_input") :])]
    assert table == [byte if model == "kws01" else byte ^ 0x80 for byte in range(256)]


def test_stimuli_that_are_floats() -> None:
    text = mlperf.header({"name": "net", "inputs": [TENSOR | {"bytes": 640}], "outputs": [TENSOR | {"bytes": 640}]})
    for line in ('MODEL "ad01"', "IS_FLOAT 1", "IS_ERROR 1", "STIMULUS_BYTES 2560u", "INPUT_SCALE 0.5f"):
        assert f"#define GE_MLPERF_{line}" in text


def test_what_the_protocol_has_no_words_for() -> None:
    with pytest.raises(UsageError, match=r"takes one int8 tensor and gives one; the inputs .* x float32"):
        mlperf.header({"name": "net", "inputs": [TENSOR | {"dtype": "float32"}], "outputs": [TENSOR]})
    with pytest.raises(UsageError, match="the outputs of this bundle are x int8, x int8"):
        mlperf.header({"name": "net", "inputs": [TENSOR], "outputs": [TENSOR, TENSOR]})
