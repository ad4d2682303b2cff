"""--frontend: sound goes in, a network with features runs, in each type, on each axis, as a stream; and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from small_models import model, node, saved, weights

from glowembed.errors import UsageError
from glowembed.judge.inspection import inspect_model
from glowembed.judge.validation import validate
from glowembed.options.frontend import from_document, named_frontend
from glowembed.options.words import Streamed
from glowembed.pipeline import CompileOptions, compile_model, import_model, profile_model
from glowembed.ranges.datasets import Source

FRAMES, BANDS = 9, 6
FRONTEND = {"kind": "logmel", "window": 48, "hop": 32, "fft": 64, "bands": BANDS, "low_hz": 0.0, "high_hz": 8000.0}
SHAPES = {
    "frames, bands": [1, 1, FRAMES, BANDS],
    "bands, frames": [1, BANDS, FRAMES],
    "two axes": [FRAMES, BANDS],
    "frames only": [1, FRAMES * BANDS],
}


def network(shape):
    """A convolution over the features, or a fully connected layer where there are two axes."""
    if len(shape) == 2:
        return model([node("MatMul", "x w", "y")], {"x": shape}, {"w": weights(shape[1], 3)})
    taps = {3: weights(4, shape[1], 3), 4: weights(4, 1, 3, 3)}[len(shape)]
    nodes = [node("Conv", "x w", "c"), node("Relu", "c", "r"), node("GlobalAveragePool", "r", "y")]
    return model(nodes, {"x": shape}, {"w": taps})


def sound(folder: Path, frontend, count=6):
    rng = np.random.default_rng(2)
    rows = frontend.rows(FRAMES)
    x = rng.normal(size=(count, rows, frontend.step)) * 10.0 ** rng.uniform(1, 4, (count, 1, 1))
    np.savez(folder / "sound.npz", calib_pcm=x.astype(np.int16), test_pcm=x[::-1].astype(np.int16))
    return folder / "sound.npz"


@pytest.mark.cc
@pytest.mark.parametrize("dtype", ["int8", "int16", "float32"])
@pytest.mark.parametrize("order", ["frames, bands", "bands, frames"])
def test_features_reach_the_network(order: str, dtype: str, tmp_path: Path) -> None:
    frontend = from_document({**FRONTEND, "scale": 0.5, "offset": 1.0, "low": -4.0}, "front end")
    options = CompileOptions("x86-64", isa="portable", frontend=frontend, dtype=dtype)
    data = sound(tmp_path, frontend)
    bundle = compile_model(saved(network(SHAPES[order]), tmp_path), tmp_path / "bundle", options, data=data)
    result = validate(bundle, data, "host")
    assert result.bit_exact
    assert result.json["outputs"][0]["sqnr_db"] > {"int8": 25, "int16": 40, "float32": 60}[dtype]


@pytest.mark.cc
@pytest.mark.parametrize("board", ["host", pytest.param("mps2-an386", marks=[pytest.mark.qemu, pytest.mark.arm_gcc])])
def test_a_stream_takes_the_samples_of_a_hop(board: str, tmp_path: Path) -> None:
    frontend = from_document(FRONTEND, "front end")
    target = "x86-64" if board == "host" else "cortex-m4"
    options = CompileOptions(target, frontend=frontend, stream=Streamed("pcm", 1, frontend.hop // frontend.step))
    data = sound(tmp_path, frontend)
    bundle = compile_model(saved(network(SHAPES["frames, bands"]), tmp_path), tmp_path / "bundle", options, data=data)
    assert bundle.graph.values["pcm"].shape == (1, 2, 16)
    assert bundle.graph.values["pcm/kept"].shape == (1, 1, 16)
    assert validate(bundle, data, board, 3).bit_exact


@pytest.mark.cc
def test_raw_sound_is_the_input_itself(tmp_path: Path) -> None:
    options = CompileOptions("x86-64", frontend=named_frontend("raw"))
    x = np.random.default_rng(3).integers(-20000, 20000, (4, FRAMES, BANDS)).astype(np.int16)
    np.savez(tmp_path / "sound.npz", calib_x=x, test_x=x)
    path = saved(network([1, *SHAPES["two axes"]]), tmp_path)
    bundle = compile_model(path, tmp_path / "bundle", options, data=tmp_path / "sound.npz")
    assert bundle.graph.values["x"].qtype.dtype == "int16"
    result = validate(bundle, tmp_path / "sound.npz", "host")
    assert result.bit_exact and result.json["outputs"][0]["sqnr_db"] > 25


def test_a_network_without_samples_is_refused_as_before(tmp_path: Path) -> None:
    options = CompileOptions("x86-64", frontend=from_document(FRONTEND, "front end"))
    with pytest.raises(UsageError, match="give calibration data"):
        compile_model(saved(network(SHAPES["frames, bands"]), tmp_path), tmp_path / "bundle", options)


WRONG = [
    ({"kind": "mel"}, r"kind: 'mel' is not one of \['mfcc'"),
    ({}, "'kind' is a required property"),
    ({"kind": "mfcc", "windows": 480}, "'windows' was unexpected"),
    ({"kind": "mfcc", "fft": 500}, "500 is not one of"),
    ({"kind": "mfcc", "window": 600}, "a window of 600 samples does not fit an fft of 512 points: take a larger fft"),
    ({"kind": "logmel", "coefficients": 10}, "coefficients: means nothing to logmel; leave it out"),
    ({"kind": "raw", "fft": 512}, "fft: means nothing to raw"),
    ({"kind": "spectrogram", "bands": 3}, "bands: means nothing to spectrogram"),
    ({"kind": "mfcc", "log": "none"}, "the cosines of an mfcc are those of logarithms: give a log"),
    ({"kind": "mfcc", "coefficients": 41}, "41 coefficients of 40 bands"),
    ({"kind": "logmel", "high_hz": 9000}, "must rise, and end at most at half of the sample rate, 8000 Hz"),
    ({"kind": "logmel", "scale": 0}, "a scale of 0 leaves nothing"),
    ({"kind": "logmel", "low": 1, "high": 1}, "low 1 is not below high 1"),
    ({"kind": "logmel", "gain": float("nan")}, "gain: nan is not a finite number"),
    ({"kind": "mfcc", "offset": float("inf")}, "offset: inf is greater than"),
    ({"kind": "logmel", "floor": 0}, "0 is less than or equal to the minimum of 0"),
]


@pytest.mark.parametrize(("document", "message"), WRONG, ids=lambda part: str(part)[:50])
def test_a_file_that_cannot_be_computed_is_refused(document: dict, message: str) -> None:
    with pytest.raises(UsageError, match=f"^fe.yaml: .*{message}"):
        from_document(document, "fe.yaml")


UNFIT = [
    ("two axes", {}, None),
    ("frames only", {}, "has the shape .*1, 54.*in which the 6 features .* give the bands of the front end"),
    ("frames, bands", {"bands": 5}, "the 5 features of a frame are no axis beside that of the frames"),
    ("frames, bands", {"kind": "spectrogram"}, "give the fft of the front end"),
    ("frames, bands", {"low_hz": 100.0, "high_hz": 700.0}, "band 0 of 6 lies between two of the 33 bins: take fewer bands, or a larger fft"),
    ("frames, bands", {"input": "z"}, "unknown input of the model for --frontend: 'z'. Known: x"),
]  # fmt: skip


@pytest.mark.parametrize(("order", "change", "message"), UNFIT, ids=lambda part: str(part)[:40])
def test_features_that_do_not_fit_the_network(order: str, change: dict, message: str | None, tmp_path: Path) -> None:
    document = {**FRONTEND, **change}
    if document["kind"] == "spectrogram":
        document = {key: document[key] for key in ("kind", "window", "hop", "fft")}
    options = CompileOptions("x86-64", frontend=from_document(document, "fe.yaml"))
    path = saved(network(SHAPES[order]), tmp_path)
    if message is None:
        assert import_model(path, options).inputs == ("pcm",)
    else:
        with pytest.raises(UsageError, match=message):
            import_model(path, options)


def test_the_word_is_a_kind_or_a_file(tmp_path: Path) -> None:
    (tmp_path / "fe.yaml").write_text("kind: logmel\nbands: 20\n")
    made = named_frontend(str(tmp_path / "fe.yaml"))
    assert made is not None and made.bands == 20 and made.json() == {"kind": "logmel", "bands": 20}
    assert named_frontend("mfcc") == from_document({"kind": "mfcc"}, "")
    with pytest.raises(UsageError, match="'mfc': is no file, and no kind of front end: mfcc, logmel, spectrogram, raw"):
        named_frontend("mfc")


def test_a_profile_knows_its_front_end(tmp_path: Path) -> None:
    """Nothing is asked again when it is compiled; another front end is refused."""
    frontend = from_document(FRONTEND, "front end")
    data, path = sound(tmp_path, frontend), saved(network(SHAPES["frames, bands"]), tmp_path)
    profile_model(path, data, CompileOptions("x86-64", frontend=frontend)).save(tmp_path / "profile.yaml")
    stored = tmp_path / "profile.yaml"
    with_profile = compile_model(path, tmp_path / "a", CompileOptions("x86-64"), profile=stored)
    with_data = compile_model(path, tmp_path / "b", CompileOptions("x86-64", frontend=frontend), data=data)
    assert with_profile.manifest["hash"] == with_data.manifest["hash"]
    other = CompileOptions("x86-64", frontend=from_document({**FRONTEND, "scale": 2.0}, "front end"))
    with pytest.raises(UsageError, match="--frontend differs from the front end that the profile was made with"):
        compile_model(path, tmp_path / "c", other, profile=stored)


def test_inspect_takes_a_front_end(tmp_path: Path) -> None:
    frontend = from_document(FRONTEND, "front end")
    path = saved(network(SHAPES["frames, bands"]), tmp_path)
    assert [t.name for t in inspect_model(path).inputs] == ["x"]
    found = inspect_model(path, data=Source(sound(tmp_path, frontend)), frontend=frontend)
    assert [(t.name, t.shape) for t in found.inputs] == [("pcm", (1, frontend.rows(FRAMES), frontend.step))]
    assert not found.unsupported and found.arena_estimate is not None
