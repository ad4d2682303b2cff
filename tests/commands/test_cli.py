"""The command line from end to end on the digits example: printed text, written files, and JSON."""

import errno
import io
import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checkout import ROOT
from json_result import check_json
from PIL import Image

import glowembed
from glowembed import pipeline
from glowembed.__main__ import main
from glowembed.cli import PIPED
from glowembed.show.dump import graph_text

DIGITS = ROOT / "examples" / "digits"
MODEL, DATA = str(DIGITS / "model.onnx"), str(DIGITS / "data.npz")
COMMANDS = (
    "inspect",
    "profile",
    "compile",
    "build",
    "validate",
    "measure",
    "demo",
    "targets",
    "boards",
    "try",
    "doctor",
)


def run(capsys: pytest.CaptureFixture[str], *words: object, code: int = 0) -> str:
    capsys.readouterr()
    found = main([str(word) for word in words])
    said = capsys.readouterr()
    assert found == code, said.err
    return said.out


@pytest.fixture(scope="module")
def host_bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """In C99, because the compiler takes ten times as long for four levels of vectors, which other tests run."""
    path = tmp_path_factory.mktemp("cli") / "digits"
    assert main(["compile", MODEL, "--data", DATA, "--target", "x86-64", "--isa", "portable", "-o", str(path)]) == 0
    return path


@pytest.mark.parametrize("command", COMMANDS)
def test_help_explains_and_has_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = run(capsys, command, "--help")
    assert f"glowembed {command}" in said
    if command not in ("targets", "boards"):
        assert f"Example:  glowembed {command}" in said
    for line in said.splitlines():
        assert len(line) <= 80


def test_help_version_and_lists(capsys: pytest.CaptureFixture[str]) -> None:
    said = run(capsys, "--help")
    assert all(re.search(rf"^│ {command} ", said, re.MULTILINE) for command in COMMANDS)
    assert run(capsys, "--version") == f"glowembed {glowembed.__version__}\n"
    assert "cortex-m4" in [t["name"] for t in json.loads(run(capsys, "targets", "--json", "-"))]
    assert {"name": "host", "target": "x86-64"}.items() <= json.loads(run(capsys, "boards", "--json", "-"))[0].items()
    assert "cortex-m55" in run(capsys, "targets")
    assert "mps2-an386" in run(capsys, "boards")


def test_a_reader_that_closes_the_output_is_no_failure_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    class Closed(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    monkeypatch.setattr(sys, "stderr", sys.stderr)  # Click replaces both
    monkeypatch.setattr(sys, "stdout", Closed())
    assert main(["--version"]) == 141


def test_inspect(capsys: pytest.CaptureFixture[str]) -> None:
    said = run(capsys, "inspect", MODEL, "--target", "cortex-m0")
    for words in ("opset 17", "1 x 1 x 8 x 8", "NCHW", "logits", "112,608", "microbit"):
        assert words in said
    plain(said)
    found = json.loads(run(capsys, "inspect", MODEL, "--json", "-"))
    assert found["macs"] == 112_608 == sum(layer["macs"] for layer in found["layers"])
    assert found["inputs"] == [{"name": "image", "shape": [1, 1, 8, 8], "dtype": "float32", "layout": "NCHW"}]
    assert found["unsupported"] == []


def plain(said: str) -> None:
    """Output that goes to no terminal has no colours and no progress bars, and is as wide as its tables."""
    assert "\x1b" not in said and "…" not in said
    assert all(len(line) <= PIPED for line in said.splitlines())


def test_inspect_lists_all_that_is_not_supported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from bad_models import BAD

    model = next(bad for bad in BAD if bad.name == "all at once").write(tmp_path)
    found = json.loads(run(capsys, "inspect", model, "--json", "-", code=3))
    assert [(p["op"], p["node"]) for p in found["unsupported"]] == [
        ("RandomNormalLike", "n_a"),
        ("RandomUniformLike", "n_c"),
        ("Gelu", "mine"),
    ]
    said = run(capsys, "inspect", model, code=3)
    assert "Not supported: 3" in said
    plain(said)


def same_bundle(a: Path, b: Path) -> None:
    files = sorted(p.relative_to(a) for p in a.rglob("*") if p.is_file())
    assert files == sorted(p.relative_to(b) for p in b.rglob("*") if p.is_file())
    assert all((a / f).read_bytes() == (b / f).read_bytes() for f in files)


def test_a_profile_compiles_to_the_same_bytes(
    tmp_path: Path, host_bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = run(capsys, "profile", MODEL, "--data", DATA, "-o", tmp_path / "p.yaml")
    assert "128 samples" in said
    words = ("--profile", tmp_path / "p.yaml", "--target", "x86-64", "--isa", "portable", "-o", tmp_path / "again")
    assert "compiled model.onnx for x86-64" in run(capsys, "compile", MODEL, *words)
    same_bundle(tmp_path / "again", host_bundle)


def test_compile_prints_stages_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("compile", MODEL, "--data", DATA, "--calib-samples", 4, "--name", "my_net", "-o", tmp_path / "out")
    said = run(capsys, *words)
    assert all(stage in said for stage in pipeline.STAGES)
    assert json.loads(run(capsys, *words, "--json", "-"))["name"] == "my_net"
    assert (tmp_path / "out" / "my_net.h").is_file()


@pytest.mark.parametrize("stage", pipeline.STAGES[:-1])
def test_stop_and_dump(
    stage: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ("compile", MODEL, "--data", DATA, "--calib-samples", 2, "--stop-after", stage)
    assert run(capsys, *words) == ""
    said = run(capsys, *words, "--dump")
    assert "image" in said
    assert not list(tmp_path.iterdir())


def test_a_dump_names_types_and_kernels(tmp_path: Path) -> None:
    texts: dict[str, str] = {}

    def on_stage(name: str, result: Any) -> None:
        if name in ("quantize", "choose"):
            texts[name] = graph_text(result)

    pipeline.compile_model(DIGITS / "model.onnx", tmp_path / "out", data=DIGITS / "data.npz", on_stage=on_stage)
    assert "image[1 x 1 x 8 x 8] int8 0.00416667 -128" in texts["quantize"]  # sixteenths lie on a grid of 1/240
    assert "int8 per axis 0" in texts["quantize"]
    assert re.search(r"ge_conv2d\w*_s8", texts["choose"])


def test_images_calibrate_and_test(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The digits as PNG files in one folder per class."""
    with np.load(DATA) as data:
        pixels, labels = np.rint(data["test_x"].reshape(-1, 8, 8) * (255 / 16)).astype(np.uint8), data["test_y"]
    for i in range(60):
        folder = tmp_path / "images" / str(labels[i])
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels[i]).save(folder / f"{i}.png")
    words = ("--data", tmp_path / "images")
    run(capsys, "compile", MODEL, *words, "--target", "x86-64", "--isa", "portable", "-o", tmp_path / "out")
    result = json.loads(run(capsys, "validate", tmp_path / "out", *words, "--json", "-"))
    assert result["samples"] == 60
    assert result["accuracy"]["quantized"] >= 0.9


def check_result(result: dict[str, Any], samples: int) -> None:
    check_json("validate", result)
    assert result["bit_exact"] is True
    assert result["first_difference"] is None
    assert result["samples"] == samples
    assert sum(layer["macs"] for layer in result["layers"]) == result["macs"]


@pytest.mark.cc
def test_validate_on_the_host(host_bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = run(capsys, "validate", host_bundle, "--data", DATA, "--json", tmp_path / "r.json")
    plain(said)
    assert "bit-exact" in said
    result = json.loads((tmp_path / "r.json").read_text())
    check_result(result, 450)
    assert result["transport"] == "host"
    assert result["accuracy"]["float"] >= 0.985
    assert result["accuracy"]["quantized"] >= 0.985


@pytest.mark.arm_gcc
@pytest.mark.qemu
def test_build_and_validate_on_an_emulated_board(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "bundle"
    run(capsys, "compile", MODEL, "--data", DATA, "-o", out)
    built = json.loads(run(capsys, "build", out, "--json", "-"))
    assert built["board"] == "mps2-an386"
    assert Path(built["elf"]).is_file()
    plain(run(capsys, "build", out))
    result = json.loads(run(capsys, "validate", out, "--data", DATA, "--samples", 30, "--layers", "--json", "-"))
    check_result(result, 30)
    layers = sum(layer["instructions"] for layer in result["layers"])
    assert 0.9 < layers / result["instructions"] <= 1.01
    assert 0 < result["memory"]["stack"] <= result["memory"]["stack_computed"] < 400
    assert result["memory"]["code"] == built["code"]


@pytest.mark.cc
def test_a_bit_that_differs_is_found(host_bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The C of a bundle is changed after compilation; the first wrong layer is named."""
    weights = next(host_bundle.glob("*_weights.c"))
    text = weights.read_text()
    broken = re.sub(r"(?<=\{\n)( *)(-?\d+),", r"\1 0,", text, count=1)
    assert broken != text
    weights.write_text(broken)
    try:
        said = run(capsys, "validate", host_bundle, "--data", DATA, "--samples", 3, "--layers", code=1)
        result = json.loads(run(capsys, "validate", host_bundle, "--data", DATA, "--samples", 3, "--json", "-", code=1))
    finally:
        weights.write_text(text)
    assert "NOT bit-exact" in said
    assert "layer '/stem/conv/Conv" in " ".join(said.split("expected")[0].split())
    check_json("validate", result)
    assert result["first_difference"]["output"] == "logits"


def test_float_edges_and_nhwc_give_the_same_classes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--float-io"], ["--input-layout", "nhwc"], ["--per-tensor"], ["--calibration", "percentile"]):
        out = tmp_path / words[-1]
        words = [
            *words,
            "--isa",
            "portable",
        ]  # the edges are C99 in every bundle, and four levels take the compiler long
        run(capsys, "compile", MODEL, "--data", DATA, "--target", "x86-64", "-o", out, *words)
        result = json.loads(run(capsys, "validate", out, "--data", DATA, "--samples", 90, "--json", "-"))
        check_result(result, 90)
        assert result["accuracy"]["quantized"] >= 0.98, words


@pytest.mark.arm_gcc
@pytest.mark.qemu
@pytest.mark.cc
def test_demo(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = run(capsys, "demo", "-o", tmp_path / "demo")
    plain("\n".join(line for line in said.splitlines() if str(tmp_path) not in line))
    for words in ("mps2-an386", "host", "450 images", "What next", "99."):
        assert words in said
    assert (tmp_path / "demo" / "cortex-m4" / "digits.h").is_file()
    commands = [shlex.split(line) for line in said.partition("What next")[2].splitlines() if " glowembed " in line]
    commands = [words[words.index("glowembed") + 1 :] for words in commands]
    assert [words[0] for words in commands] == ["try", "inspect", "validate", "doctor"]
    for words in commands[1:3]:
        run(capsys, *words)
    assert commands[0] == ["try", str(Path("examples/digits/model.onnx")), str(Path("examples/digits/data.npz"))]
    check_json("demo", json.loads(run(capsys, "demo", "--board", "host", "-o", tmp_path / "demo", "--json", "-")))


@pytest.mark.cc
def test_the_python_interface(tmp_path: Path) -> None:
    options = glowembed.CompileOptions(target="x86-64", isa="portable")
    ranges = glowembed.profile_model(DIGITS / "model.onnx", DIGITS / "data.npz", options)
    bundle = glowembed.compile_model(DIGITS / "model.onnx", tmp_path / "net", options, profile=ranges)
    assert glowembed.build_bundle(bundle, "host").code > 0
    assert glowembed.validate(bundle, DIGITS / "data.npz", "host", samples=10).bit_exact
    assert glowembed.inspect_model(DIGITS / "model.onnx").macs == 112_608
    network = glowembed.load(tmp_path / "net")
    with np.load(DATA) as data:
        outputs = network(data["test_x"][0][np.newaxis])
        assert outputs["logits"].argmax() == data["test_y"][0]


def test_every_public_name_is_there() -> None:
    for name in glowembed.__all__:
        assert getattr(glowembed, name) is not None
    assert dir(glowembed) == sorted(glowembed.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        glowembed.nothing  # noqa: B018


def test_a_bug_is_told_apart(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: object, **named: object) -> None:
        raise KeyError("a bug")

    monkeypatch.setattr("glowembed.commands.inspect.inspect_model", broken)
    assert main(["inspect", MODEL]) == 70
    assert "this is a bug of glowembed" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--debug", "inspect", "none.onnx"], ["inspect", "none.onnx", "--debug"]])
def test_debug_shows_the_traceback(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    said = capsys.readouterr().err
    assert "Traceback" in said
    assert "none.onnx" in said


@pytest.mark.cc
def test_several_inputs_and_outputs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Images NCHW and a vector in, two tensors out; the data comes NHWC for one of them."""
    from small_models import model, node, saved, weights

    nodes = [
        node("Conv", "image w", "h", pads=[1, 1, 1, 1]),
        node("Relu", "h", "map"),
        node("GlobalAveragePool", "h", "g"),
        node("Flatten", "g", "f"),
        node("Add", "f vector", "classes"),
    ]
    inputs = {"image": (1, 3, 6, 5), "vector": (1, 4)}
    proto = model(nodes, inputs, {"w": weights(4, 3, 3, 3)}, outputs=["classes", "map"])
    random = np.random.default_rng(3)
    arrays = {}
    for role, count in (("calib", 16), ("test", 9)):
        arrays[f"{role}_image"] = random.normal(size=(count, 6, 5, 3))
        arrays[f"{role}_vector"] = random.integers(-5, 5, (count, 4)).astype(np.int8)
    np.savez(tmp_path / "data.npz", vector_scale=0.25, test_y=np.arange(9) % 4, **arrays)
    words = ("--data", tmp_path / "data.npz")
    core = ("--target", "x86-64", "--isa", "portable")
    assert main(list(map(str, ["compile", saved(proto, tmp_path), *words, *core, "-o", tmp_path / "out"]))) == 0
    assert "note: image: transposed NHWC to NCHW" in capsys.readouterr().err
    said = run(capsys, "validate", tmp_path / "out", *words, "--layers", "--json", tmp_path / "r.json")
    assert "image: transposed NHWC to NCHW" in said
    result = json.loads((tmp_path / "r.json").read_text())
    check_result(result, 9)
    assert [o["name"] for o in result["outputs"]] == ["classes", "map"]
    assert result["outputs"][0]["top1_agreement"] is not None
    assert result["outputs"][1]["top1_agreement"] is None
    assert all(o["cosine"] > 0.99 for o in result["outputs"])
    assert result["accuracy"]["metric"] == "top1"
