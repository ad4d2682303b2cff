"""Bad input through the real command line: the exit code, the words of the message, and that nothing is left behind.

Broken model files come from bad_models.py and go through `compile` here; other cases are data, options, paths, tools
and interruptions.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest
from bad_models import BAD, Bad
from checkout import ROOT
from small_models import model, node, weights

from glowembed import pipeline
from glowembed.__main__ import main
from glowembed.errors import unknown_name
from glowembed.read import importer

DIGITS = ROOT / "examples" / "digits"
MODEL, DATA = str(DIGITS / "model.onnx"), str(DIGITS / "data.npz")
RANDOM = np.random.default_rng(0)


def refused(capsys: pytest.CaptureFixture[str], place: Path, words: list[str], code: int, *messages: str) -> None:
    """Run the command line in `place`; exactly one error comes, and every file is as it was."""
    before = content(place)
    found = main(words)
    said = capsys.readouterr()
    flat = " ".join(said.err.replace("│", " ").split())
    assert found == code, said.err
    for message in messages:
        assert message in flat
    assert "Traceback" not in said.err
    assert content(place) == before


def content(place: Path) -> dict[str, bytes | None]:
    return {str(p.relative_to(place)): p.read_bytes() if p.is_file() else None for p in sorted(place.rglob("*"))}


@pytest.mark.parametrize("bad", BAD, ids=str)
@pytest.mark.parametrize("command", ["compile", "inspect"])
def test_models(bad: Bad, command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = bad.write(tmp_path)
    shapes = [f"--shape={name}={','.join(map(str, shape))}" for name, shape in bad.shapes.items()]
    rest = ["--data", DATA, "-o", str(tmp_path / "out")] if command == "compile" else []
    words = bad.words if command == "compile" and not bad.shapes else ()
    before = content(tmp_path)
    assert main([command, str(model), *shapes, *rest]) == bad.error.exit_code
    said = capsys.readouterr()
    for word in words:
        assert word in said.err
    assert "Traceback" not in said.err
    assert content(tmp_path) == before


def images(count: int) -> np.ndarray:
    return RANDOM.random((count, 1, 8, 8), np.float32)


def not_finite() -> np.ndarray:
    array = images(3)
    array[2, 0, 1, 5] = np.nan
    return array


# case -> (arrays, words)
DATA_CASES: dict[str, tuple[dict[str, object], list[str]]] = {
    "shape": ({"calib_x": RANDOM.random((3, 9, 8)), "n": 1}, ["wrong shape", "(9, 8)", "(1, 8, 8)"]),
    "dtype": ({"calib_x": images(3).astype(complex), "n": 1}, ["complex128", "real numbers"]),
    "strings": ({"calib_x": np.full((3, 1, 8, 8), "one"), "n": 1}, ["<U3", "real numbers"]),
    "name": ({"calib_xx": images(3), "n": 1}, ["'calib_x'", "Nearest: 'calib_xx'"]),
    "NaN": ({"calib_x": not_finite(), "n": 1}, ["not finite", "sample 2 at (0, 1, 5)"]),
    "no samples": ({"calib_x": images(0), "n": 1}, ["no samples"]),
    "pickle": ({"calib_x": np.full((3, 1, 8, 8), {}), "n": 1}, ["pickled", "never loaded"]),
}


@pytest.mark.parametrize("case", DATA_CASES)
@pytest.mark.parametrize("command", ["compile", "profile"])
def test_data(case: str, command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arrays, messages = DATA_CASES[case]
    np.savez(tmp_path / "data.npz", **arrays)  # type: ignore[arg-type]
    words = [command, MODEL, "--data", str(tmp_path / "data.npz"), "-o", str(tmp_path / "out")]
    refused(capsys, tmp_path, words, 2, "data.npz", *messages)


def test_a_text_file_as_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "data.npz").write_text("1 2 3")
    words = ["compile", MODEL, "--data", str(tmp_path / "data.npz"), "-o", str(tmp_path / "out")]
    refused(capsys, tmp_path, words, 2, "data.npz", "npz")


@dataclass(frozen=True)
class Words:
    """A command line; FOLDER is replaced by the place of the test."""

    line: str
    messages: tuple[str, ...]
    code: int = 2


OPTIONS = {
    "no data": Words("compile MODEL -o FOLDER/out", ("--data", "--profile", "Without a range", "image")),
    "data and profile": Words("compile MODEL --data DATA --profile FOLDER/p.yaml -o FOLDER/out", ("not both",)),
    "no output": Words("compile MODEL --data DATA", ("-o DIR",)),
    "missing model": Words("compile FOLDER/no.onnx --data DATA -o FOLDER/out", ("no.onnx", "No such file")),
    "missing data": Words("compile MODEL --data FOLDER/no.npz -o FOLDER/out", ("no.npz", "no such file")),
    "missing profile": Words("compile MODEL --profile FOLDER/no.yaml -o FOLDER/out", ("no.yaml", "cannot be read")),
    "target": Words("compile MODEL --data DATA -o FOLDER/out --target cortex-m44", ("'cortex-m44'", "Did you mean 'cortex-m4'", "x86-64")),
    "target, inspect": Words("inspect MODEL --target m4", ("'m4'", "cortex-m4")),
    "option": Words("compile MODEL --dta DATA -o FOLDER/out", ("--dta", "--data")),
    "command": Words("compil MODEL", ("compil", "compile")),
    "calibration": Words("compile MODEL --data DATA -o FOLDER/out --calibration max", ("'max'", "minmax")),
    "percentile": Words("compile MODEL --data DATA -o FOLDER/out --percentile 12", ("12", "above 50")),
    "layout": Words("compile MODEL --data DATA -o FOLDER/out --input-layout nhcw", ("Did you mean 'nhwc'",)),
    "shape, words": Words("compile MODEL --data DATA -o FOLDER/out --shape image=1,a", ("image=1,a", "NAME=1,3,64,64")),
    "shape, zero": Words("compile MODEL --data DATA -o FOLDER/out --shape image=1,0", ("from 1",)),
    "shape, name": Words("compile MODEL --data DATA -o FOLDER/out --shape imagr=1,1,8,8", ("Did you mean 'image'",)),
    "samples": Words("compile MODEL --data DATA -o FOLDER/out --calib-samples 0", ("--calib-samples",)),
    "stage": Words("compile MODEL --data DATA --stop-after lowr", ("Did you mean 'lower'",)),
    "dump": Words("compile MODEL --data DATA -o FOLDER/out --dump", ("--stop-after",)),
    "image scale": Words("compile MODEL --data DATA -o FOLDER/out --image-scale 0..2", ("'0..2'", "0..255")),
    "image mean": Words("compile MODEL --data DATA -o FOLDER/out --image-mean a", ("--image-mean",)),
    "output is a file": Words("compile MODEL --data DATA -o FOLDER/file", ("is a file",)),
    "output holds other things": Words("compile MODEL --data DATA -o FOLDER/full", ("not empty", "holds no bundle")),
    "output below a file": Words("compile MODEL --data DATA -o FOLDER/file/out", ("file",)),
    "profile output": Words("profile MODEL --data DATA -o FOLDER/none/p.yaml", ("p.yaml", "cannot be written")),
    "no bundle": Words("validate FOLDER/full --data DATA", ("is not a bundle", "bundle.json")),
    "no bundle, build": Words("build FOLDER/none", ("is not a bundle",)),
    "constant input": Words("compile MODEL --data DATA -o FOLDER/out --constant image=3", ("leaves no input",)),
    "share": Words("validate FOLDER/full --data DATA --min-accuracy 95", ("--min-accuracy '95'", "a percentage")),
    "data of another model": Words("profile MODEL --data FOLDER/file.npz -o FOLDER/p.yaml", ("wrong shape",)),
}  # fmt: skip


@pytest.mark.parametrize("case", OPTIONS)
def test_options(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = OPTIONS[case]
    (tmp_path / "file").write_text("mine")
    np.savez(tmp_path / "file.npz", RANDOM.random((2, 5)))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("mine")
    line = words.line.replace("FOLDER", str(tmp_path)).replace("MODEL", MODEL).replace("DATA", DATA)
    refused(capsys, tmp_path, line.split(), words.code, *words.messages)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_place_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "locked").mkdir(mode=0o500)
    words = ["compile", MODEL, "--data", DATA, "-o", str(tmp_path / "locked" / "out")]
    refused(capsys, tmp_path, words, 2, "cannot write", "locked")


def test_a_place_that_does_not_take_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refused(capsys, tmp_path, ["compile", MODEL, "--data", DATA, "-o", "/proc/out"], 2, "cannot write to /proc")


def test_a_file_that_ends_too_early_is_not_an_abort(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever reader says so: rc 1 would mean that a validation differs."""

    def load(*_: object, **__: object) -> None:
        raise EOFError("No data left in file")

    monkeypatch.setattr(importer, "load", load)
    refused(capsys, tmp_path, ["compile", MODEL, "--data", DATA, "-o", str(tmp_path / "out")], 2, "ends too early")


def test_a_profile_of_another_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "p.yaml"
    assert main(["profile", MODEL, "--data", DATA, "-o", str(path), "--calib-samples", "2"]) == 0
    other = tmp_path / "other.onnx"
    onnx.save(model([node("Conv", "x w", "y")], {"x": (1, 1, 8, 8)}, {"w": weights(3, 1, 3, 3)}), other)
    words = ["compile", str(other), "--profile", str(path), "-o", str(tmp_path / "out")]
    refused(capsys, tmp_path, words, 2, "does not fit the model", "logits")


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The digits network, compiled for Cortex-M4."""
    path = tmp_path_factory.mktemp("bundle") / "digits"
    assert main(["compile", MODEL, "--data", DATA, "-o", str(path), "--calib-samples", "8"]) == 0
    return path


BUNDLES = {
    "board": Words("validate BUNDLE --data DATA --board mps2-an368", ("'mps2-an368'", "Did you mean 'mps2-an3")),
    "board of another target": Words(
        "validate BUNDLE --data DATA --board microbit", ("cortex-m0", "compile with --target")
    ),
    "host": Words("validate BUNDLE --data DATA --board host", ("x86-64",)),
    "labels": Words("validate BUNDLE --data DATA --labels test_z", ("'test_z'", "Did you mean")),
    "samples": Words("validate BUNDLE --data DATA --samples 0", ("--samples",)),
    "model": Words("validate BUNDLE --data DATA --model DATA", ("data.npz",)),
    "missing model": Words("validate BUNDLE --data DATA --model FOLDER/no.onnx", ("no.onnx", "--model")),
    "missing data": Words("validate BUNDLE --data FOLDER/no.npz", ("no.npz",)),
}


@pytest.mark.parametrize("case", BUNDLES)
def test_bundles(case: str, bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = BUNDLES[case]
    line = words.line.replace("FOLDER", str(tmp_path)).replace("BUNDLE", str(bundle)).replace("DATA", DATA)
    capsys.readouterr()
    refused(capsys, bundle.parent, line.split(), words.code, *words.messages)


# Every command, with each file argument. X: a path that is not a file, named X.npz where the suffix matters;
# INSIDE=NAME: a bundle in which NAME is not a file.
NO_FILE = [
    "inspect X",
    "inspect MODEL --data X.npz",
    "profile X --data DATA -o FOLDER/o.yaml",
    "profile MODEL --merge X -o FOLDER/o.yaml",
    "compile X --data DATA -o FOLDER/o",
    *(f"compile MODEL --data X.{suffix} -o FOLDER/o" for suffix in ("npz", "npy", "pb")),
    "compile MODEL --profile X -o FOLDER/o",
    "compile MODEL --data DATA --precision X -o FOLDER/o",
    "compile MODEL --data DATA --target X.toml -o FOLDER/o",
    "combine INSIDE=model.c -o FOLDER/o",
    "build INSIDE=bundle.json",
    "build INSIDE=model.c",
    "inspect INSIDE=reference/graph.json",
    "validate INSIDE=reference/constants.npz --data DATA",
    "validate BUNDLE --data X.npz",
    "validate BUNDLE --data DATA --model X",
    "measure INSIDE=reference/graph.json",
    "measure BUNDLE --store FOLDER/kept",
    "debug BUNDLE --data X.npz",
    "debug BUNDLE --data DATA --model X",
    "tune X --data DATA -o FOLDER/o.yaml",
    "tune MODEL --data X.npz -o FOLDER/o.yaml",
    "tune MODEL --data DATA -o FOLDER/o.yaml --store FOLDER/kept",
    "precision X",
    "precision MODEL --check X",
    "board new mine --answers X",
]


@pytest.mark.parametrize("kind", ["a FIFO", "a device", "a folder"])
@pytest.mark.parametrize("line", NO_FILE)
def test_what_is_no_file(
    line: str, kind: str, bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing waits for the writer of a FIFO, or reads a device without end."""
    bad = {"a FIFO": tmp_path / "fifo", "a device": Path("/dev/zero"), "a folder": tmp_path / "empty"}[kind]
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "empty").mkdir()
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "store.json").symlink_to(bad)
    words = [_no_file(word, bad, bundle, tmp_path) for word in line.split()]
    capsys.readouterr()
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.alarm(20)
    try:
        assert main(words) == 2
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    said = " ".join(capsys.readouterr().err.split())
    assert said.startswith("error: ")
    assert "Traceback" not in said
    assert not list(tmp_path.glob("o*"))


def _no_file(word: str, bad: Path, bundle: Path, place: Path) -> str:
    if word.startswith("INSIDE="):
        copy, name = place / "bundle", word.removeprefix("INSIDE=")
        shutil.copytree(bundle, copy)
        (copy / name).unlink()
        (copy / name).symlink_to(bad)
        return str(copy)
    if word.startswith("X."):
        (place / word).symlink_to(bad)
        return str(place / word)
    known = {"X": str(bad), "MODEL": MODEL, "DATA": DATA, "BUNDLE": str(bundle)}
    return known.get(word, word.replace("FOLDER", str(place)))


def test_another_model_than_that_of_the_bundle(
    bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other.onnx"
    other.write_bytes(Path(MODEL).read_bytes() + b"\x82\x01\x00")
    words = ["validate", str(bundle), "--data", DATA, "--model", str(other)]
    assert main(words) == 2
    assert "other.onnx" in capsys.readouterr().err


TOOLS = {"arm-none-eabi-gcc": "gcc-arm-none-eabi", "qemu-system-arm": "qemu-system-arm"}


@pytest.mark.arm_gcc
@pytest.mark.parametrize("tool", TOOLS)
def test_a_missing_tool(
    tool: str, bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Links give every other program."""
    programs = {p.name: p for folder in os.get_exec_path() for p in Path(folder).glob("*") if p.name != tool}
    for name, program in programs.items():
        (tmp_path / name).symlink_to(program)
    monkeypatch.setenv("PATH", str(tmp_path))
    words = [
        "validate",
        str(bundle),
        "--data",
        DATA,
        "--samples",
        "1",
        "--build-dir",
        str(tmp_path.parent / f"b-{tool}"),
    ]
    assert main(words) == 4
    said = capsys.readouterr().err
    assert tool in said
    assert f"apt-get install {TOOLS[tool]}" in said


def test_no_compiler_for_the_host(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = str(tmp_path / "out")
    assert main(["compile", MODEL, "--data", DATA, "-o", out, "--target", "x86-64", "--calib-samples", "2"]) == 0
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["validate", out, "--data", DATA, "--samples", "1"]) == 4
    assert "apt-get install" in capsys.readouterr().err


@pytest.mark.arm_gcc
def test_a_board_that_is_too_small(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from onnx import save
    from small_models import model, node, weights

    constants = {"w": weights(64, 1, 3, 3), "v": weights(64, 64, 3, 3)}
    nodes = [node("Conv", "x w", "h", pads=[1, 1, 1, 1]), node("Conv", "h v", "y", pads=[1, 1, 1, 1])]
    save(model(nodes, {"x": (1, 1, 32, 32)}, constants), tmp_path / "large.onnx")
    np.savez(tmp_path / "data.npz", RANDOM.random((2, 1, 32, 32)))
    out = str(tmp_path / "out")
    words = ["compile", str(tmp_path / "large.onnx"), "--data", str(tmp_path / "data.npz"), "--target", "cortex-m0"]
    assert main([*words, "-o", out]) == 0
    assert main(["build", out, "--board", "microbit"]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "does not fit board 'microbit'" in said
    assert "too small by" in said


@pytest.mark.parametrize("stage", pipeline.STAGES[:-1])
def test_an_interrupted_compile_leaves_nothing(
    stage: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    compile_model = pipeline.compile_model

    def interrupted(*args: object, **named: object) -> object:
        def on_stage(name: str, result: object) -> None:
            if name == stage:
                raise KeyboardInterrupt

        return compile_model(*args, **named | {"on_stage": on_stage})  # type: ignore[arg-type]

    monkeypatch.setattr(pipeline, "compile_model", interrupted)
    refused(capsys, tmp_path, ["compile", MODEL, "--data", DATA, "-o", str(tmp_path / "out")], 130)


def test_an_interruption_while_libraries_are_loaded_has_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text(
        "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nimport time\ntime.sleep(60)\n"
    )
    (tmp_path / "glowembed").write_text("from glowembed.__main__ import main\n")
    repository = str(Path(pipeline.__file__).parents[1])
    path = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), repository])}
    words = [sys.executable, str(tmp_path / "glowembed"), "--version"]
    done = subprocess.run(words, env=path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "error: interrupted\n")


@pytest.mark.parametrize("again", [False, True])
def test_an_interrupted_write_leaves_what_was_there(
    again: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["compile", MODEL, "--data", DATA, "-o", str(tmp_path / "out"), "--calib-samples", "2"]
    if again:
        assert main(words) == 0
        capsys.readouterr()
    written, fsync = [], os.fsync

    def interrupted(descriptor: int) -> None:
        written.append(descriptor)
        if len(written) == 4:
            raise KeyboardInterrupt
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", interrupted)
    refused(capsys, tmp_path, words, 130)
    assert len(written) == 4


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_in_a_text_that_is_executed(number: int, code: int, tmp_path: Path) -> None:
    """Python notes such an interrupt, and would end by SIGINT whatever the exit code is. Dataclasses are such texts."""
    (tmp_path / "ops").mkdir()
    text = f"import os, time; os.kill(os.getpid(), {int(number)}); time.sleep(20)"
    (tmp_path / "ops" / "own.py").write_text(f"exec({text!r})\n")
    words = [sys.executable, "-m", "glowembed", "targets", "--ops", str(tmp_path / "ops")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=240, cwd=DIGITS.parents[1])
    assert (done.returncode, done.stderr) == (code, "error: interrupted\n")


def process_seconds(process: int) -> float:
    """The processor time of a process so far, which on a busy computer is much less than the time."""
    words = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_real_interrupt(number: int, code: int, tmp_path: Path) -> None:
    """A signal to a process that profiles many samples."""
    np.savez(tmp_path / "data.npz", images(50_000))
    words = ["compile", MODEL, "--data", str(tmp_path / "data.npz"), "-o", str(tmp_path / "out")]
    process = subprocess.Popen(
        [sys.executable, "-m", "glowembed", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        cwd=DIGITS.parents[1],
    )  # fmt: skip
    while process_seconds(process.pid) < 2.5 and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(number)
    _, said = process.communicate(timeout=240)
    assert process.returncode == code, said
    assert "Traceback" not in said
    assert [p.name for p in tmp_path.iterdir()] == ["data.npz"]


def test_a_long_list_of_names_is_not_printed() -> None:
    error = unknown_name("value", "relu_7", [f"relu_{index}" for index in range(60)] + ["Relu"])
    assert str(error).startswith("unknown value 'relu_7'. Did you mean 'relu_7'? The nearest of 61: relu_7, ")
    assert len(str(error)) < 120
    assert "Did you mean 'cortex-m4'? Known: cortex-m4, cortex-m55" in str(
        unknown_name("target", "M4", ["cortex-m4", "cortex-m55"])
    )


def test_an_interrupt_of_which_a_library_makes_another_error(tmp_path: Path) -> None:
    """Extension modules do so while they are loaded."""
    (tmp_path / "own.py").write_text(
        "import os, signal, time\ntry:\n    os.kill(os.getpid(), signal.SIGINT)\n    time.sleep(20)\n"
        "except KeyboardInterrupt:\n    raise ImportError('initialization failed')\n"
    )
    words = [sys.executable, "-m", "glowembed", "targets", "--ops", str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=240, cwd=DIGITS.parents[1])
    assert (done.returncode, done.stderr) == (130, "error: interrupted\n")
