"""The benchmark's layers have the peers' shapes, a comparison shows what changed, and a sweep is reproducible."""

from __future__ import annotations

import importlib.util
import json
import random
import sys
from math import prod
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from checkout import ROOT
from small_models import model, node, saved, weights

from glowembed.pipeline import CompileOptions, compile_model
from glowembed.quantize.precision import NODE_SETTINGS

BENCHMARKS = ROOT / "benchmarks"
PEERS = json.loads((BENCHMARKS / "peers.json").read_text("utf-8"))


def script(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A file of benchmarks/ as a module."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    spec = importlib.util.spec_from_file_location(f"benchmarks_{name}", BENCHMARKS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


def test_accuracy_knows_every_setting_and_draws_its_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One small network through the figures and the bits of the host; settings that an op refuses are a line that says so."""
    accuracy = script("accuracy", monkeypatch)
    monkeypatch.setitem(sys.modules, "accuracy", accuracy)  # its jobs import it by this name
    for settings in accuracy.CONFIGURATIONS.values():
        assert not set(settings) - set(NODE_SETTINGS)
    folder = tmp_path / "gemm"
    folder.mkdir()
    saved(model([node("Gemm", "x w", "y", transB=1)], {"x": (1, 4)}, {"w": weights(3, 4)}), folder)
    samples = np.random.default_rng(1).normal(size=(200, 4)).astype(np.float32)
    np.savez(folder / "data.npz", x=samples)
    chosen = ["default", "int16, weights int16", "power of two, kl, per tensor"]
    words = ["accuracy.py", str(tmp_path), "--only", "gemm", "--configurations", *chosen]
    kept = ["--json", str(tmp_path / "r.json")]
    monkeypatch.setattr(sys, "argv", [*words, "--boards", "host", *kept])
    assert accuracy.main() == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("|")[1].strip() for line in lines if line.startswith("|")] == [
        "configuration",
        "---",
        "float",
        *chosen,
    ]
    results = json.loads((tmp_path / "r.json").read_text("utf-8"))
    assert [r["bit_exact"] for r in results if "board" in r] == [True] * 3
    sqnr = [r["sqnr_db"] for r in results if "sqnr_db" in r]
    assert sqnr[1] > 70 > sqnr[0] > sqnr[2]

    right = accuracy.on_board
    monkeypatch.setattr(accuracy, "on_board", lambda *given: right(*given) ^ 1)
    assert accuracy.main() == 0, "what is in the file is not run again"
    (tmp_path / "r.json").unlink()
    monkeypatch.setattr(sys, "argv", [*words, "--bits-only", "--boards", "host"])
    assert accuracy.main() == 1
    assert capsys.readouterr().out.count("DIFFERS: ") == 3
    monkeypatch.setattr(sys, "argv", [*words[:5], "default", "--bits-only", "--boards", "host", "--whole"])
    assert accuracy.main() == 0


@pytest.mark.parametrize("name", sorted(PEERS["kernels"]))
def test_a_layer_is_one_kernel_with_the_macs_of_the_peers(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, data = script("shapes", monkeypatch).write(name, tmp_path)
    bundle = compile_model(model, tmp_path / "bundle", CompileOptions("cortex-m4"), data)
    layers = [layer for layer in bundle.manifest["layers"] if layer["kernel"]]
    split = any(layer["op"] == "sum_rows_s8" for layer in layers)
    assert not split or name.endswith("_global"), "only a global mean may be a sum and a division"
    assert len(layers) == (2 if split else 1)
    if not name.startswith(("add", "avgpool", "maxpool", "softmax")):
        assert bundle.manifest["macs"] == PEERS["kernels"][name]["macs"]


def test_a_layer_without_a_peer_has_one_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = script("shapes", monkeypatch)
    for name in shapes.OWN:
        model, data = shapes.write(name, tmp_path / name)
        bundle = compile_model(model, tmp_path / name / "bundle", CompileOptions("cortex-m55"), data)
        kernels = [layer["kernel"] for layer in bundle.manifest["layers"] if layer["kernel"]]
        parts = len(bundle.manifest["inputs"]) if name.startswith("concat") else 1  # a copy for each
        if name.startswith("matmul_"):  # its second matrix is turned first
            assert kernels.pop(0) == "ge_channels_last_s8_mve"
        assert len(kernels) == parts and len(set(kernels)) == 1, f"{name}: {kernels}"
        assert shapes.elements(name) == sum(prod(entry["shape"]) for entry in bundle.manifest["inputs"][:parts])


def test_a_name_of_no_form_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="no such form of a layer: 'conv3x3'"):
        script("shapes", monkeypatch).write("conv3x3", tmp_path)


def row(target: str, instructions: int) -> dict[str, Any]:
    return {"kernel": "pw_1x1x8_8", "target": target, "instructions": instructions, "cycles_estimate": None}


def whole(optimize: str, code: int) -> dict[str, Any]:
    return {"model": "kws", "target": "cortex-m4", "optimize": optimize, "code": code}


@pytest.mark.parametrize(("fail", "code"), [("0.5", 1), ("20", 0)])
def test_compare(
    fail: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before, after = tmp_path / "a.json", tmp_path / "b.json"
    kernels = [row("cortex-m0", 100), row("cortex-m3", 100), row("cortex-m4", 100)]
    before.write_text(json.dumps({"models": [whole("balanced", 80), whole("size", 50)], "kernels": kernels}))
    kernels = [row("cortex-m0", 100), row("cortex-m3", 90), row("cortex-m4", 110)]
    after.write_text(json.dumps({"models": [whole("balanced", 80), whole("size", 40)], "kernels": kernels}))
    compare = script("compare", monkeypatch)
    monkeypatch.setattr(sys, "argv", ["compare", str(before), str(after), "--fail", fail])
    assert compare.main() == code
    said = capsys.readouterr().out
    assert "-10.00 %  pw_1x1x8_8 cortex-m3 instructions" in said
    assert "+10.00 %  pw_1x1x8_8 cortex-m4 instructions" in said
    assert "-20.00 %  kws cortex-m4 size code" in said
    assert "cortex-m0" not in said
    assert "3 of 5 figures moved" in said


def test_a_sweep_repeats_itself_and_keeps_its_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep, shapes = script("sweep", monkeypatch), script("shapes", monkeypatch)
    first, again = random.Random(3), random.Random(3)
    names = [sweep._shape(first, 50_000) for _ in range(40)]
    assert names == [sweep._shape(again, 50_000) for _ in range(40)]
    assert len(set(names)) > 30
    for name in names:
        assert shapes.CONV.fullmatch(name) is not None


def test_the_model_of_a_cluster_has_its_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """One worker does all the work; many are limited by the longest job, by the scheduler, or by the contents that are sent."""
    scale = script("scale", monkeypatch)
    jobs = [scale.Job(seconds) for seconds in (4.0, 1.0, 2.0)]
    free = {"overhead": 0.0, "round_": 0.0}
    assert scale.simulated(jobs, 1, **free) == scale.Run(7.0, 1.0)
    assert scale.simulated(jobs, 3, **free).seconds == 4.0
    assert scale.simulated(jobs, 2, **free).seconds == 4.0
    assert scale.simulated([scale.Job(0.0)] * 100, 50, overhead=0.01, round_=0.0).seconds == pytest.approx(1.0)
    sent = [scale.Job(1.0, content=number, size=100.0) for number in range(4)]
    assert scale.simulated(sent, 4, bandwidth=100.0, **free).seconds == 5.0, "the scheduler sends one content at a time"
    known = [scale.Job(1.0, content=0, size=100.0)] * 4
    assert scale.simulated(known, 1, bandwidth=100.0, **free).seconds == 5.0, "a worker keeps what it has"
    assert scale.limit([scale.Job(0.001)] * 1000, 100) == "scheduler"


def test_the_hash_of_a_bundle_tells_two_laws_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    hashes = script("hashes", monkeypatch)
    default, again, onnx = (
        hashes.cell(ROOT / "examples/digits", "generic", law) for law in ("default", "default", "onnx")
    )
    assert default == again != onnx
    assert [len(found) for found in (default, onnx)] == [64, 64]
    assert hashes.cell(ROOT / "examples/digits", "no such core", "default") == "UsageError"
