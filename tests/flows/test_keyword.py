"""examples/keyword: it is trained, compiled and heard, with the same scores on this computer and over the UART of an emulated board."""

from __future__ import annotations

import importlib.util
import re
import sys
import wave
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from checkout import ROOT

from glowembed.judge import detection
from glowembed.judge.validation import validate
from glowembed.options.frontend import named_frontend
from glowembed.options.words import Streamed
from glowembed.pipeline import Bundle, CompileOptions, compile_model, import_model
from glowembed.ranges import datasets
from glowembed.ranges.sound import heard

EXAMPLE = ROOT / "examples" / "keyword"
FRONTEND = named_frontend(str(EXAMPLE / "frontend.yaml"))


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"keyword_{name}", EXAMPLE / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("keyword")
    assert script("train").main(made) > 0.97
    return made


def bundle_of(folder: Path, target: str) -> Bundle:
    isa = "portable" if target == "x86-64" else None  # which compiles faster, for the same bits
    options = CompileOptions(target, name="keyword", isa=isa, frontend=FRONTEND, stream=Streamed("pcm", 1, 2))
    bundle = compile_model(folder / "model.onnx", folder / target / "net", options, folder / "data.npz")
    header = detection.header(bundle, detection.read(EXAMPLE / "detector.yaml", bundle))
    (folder / target / "keyword_detector.h").write_text(header)
    return bundle


def test_the_features_of_the_training_are_those_of_the_front_end(folder: Path) -> None:
    train, plain = script("train"), import_model(folder / "model.onnx", CompileOptions("x86-64"))
    sound = np.load(folder / "data.npz")["test_pcm"][:3]
    given = datasets.Dataset({"pcm": sound / 32768.0}, None, {"pcm": sound.shape[1:]})
    features = heard(given, FRONTEND, plain).inputs["features"].reshape(3, train.BANDS, train.FRAMES)
    np.testing.assert_allclose(features, train.features(sound.reshape(3, -1) / 32768).transpose(0, 2, 1), atol=1e-3)


@pytest.mark.qemu
@pytest.mark.cc
def test_the_recording_is_heard_everywhere(folder: Path) -> None:
    """Every rising whistle, and nothing else, within 0.3 seconds of its end; the scores on the board are those of this computer."""
    listen, drawings = script("listen"), {}
    bundles = {target: bundle_of(folder, target) for target in ("x86-64", "cortex-m4")}
    begun(folder)
    for target, board, sound in (
        ("x86-64", None, "recording"),
        ("x86-64", None, "beginning"),
        ("cortex-m4", "mps2-an386", "beginning"),
    ):
        drawing, events = folder / f"{target} {sound}.svg", folder / f"{sound}.csv"
        times = listen.listen(bundles[target].path, folder / f"{sound}.wav", board, events, drawing)
        known = detection.read_events(events)
        assert len(times) == len(known) == {"recording": 3, "beginning": 2}[sound]
        assert all(begin < time < end + 0.3 for time, (begin, end) in zip(times, known, strict=True))
        drawings[target, sound] = drawing.read_text()
    for target, board in (("x86-64", "host"), ("cortex-m4", "mps2-an386")):
        assert validate(bundles[target], folder / "data.npz", board, samples=2).bit_exact
    assert drawings["x86-64", "beginning"] == drawings["cortex-m4", "beginning"]
    whole = drawings["x86-64", "recording"]
    assert len(re.findall(r'fill="#ddd"', whole)) == 3 and whole.count("#c22") == 3


def begun(folder: Path) -> None:
    """The beginning of the recording, with two of its three rising whistles: a UART takes long for each second of sound."""
    with wave.open(str(folder / "recording.wav"), "rb") as file:
        sound = np.frombuffer(file.readframes(int(4.2 * file.getframerate())), "<i2")
    script("train").write_wav(folder / "beginning.wav", sound)
    events = (folder / "events.csv").read_text()
    (folder / "recording.csv").write_text(events)
    (folder / "beginning.csv").write_text("".join(events.splitlines(keepends=True)[:2]))


def test_a_recording_of_another_rate_is_refused(folder: Path, tmp_path: Path) -> None:
    listen = script("listen")
    with pytest.raises(SystemExit, match="one channel of 16 bits at 8000 Hz"):
        listen.read_wav(folder / "recording.wav", 8000)
