"""Real networks, end to end: accuracy against float, bits against the reference, and equal results from different
exports of one network.

The shared models are not part of the project; without them these tests are skipped with the reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from compiled_models import level_here
from emulated import BOARDS

from glowembed.graph.plan import PlanOptions
from glowembed.judge.validation import validate
from glowembed.pipeline import CompileOptions, compile_model
from glowembed.ranges.datasets import Source


@dataclass(frozen=True)
class Net:
    """`variants`: float files of one network. `ceiling`: RMS error against float, of a network that is no classifier."""

    name: str
    variants: tuple[str, ...]
    samples: int
    ceiling: float | None = None


NETS = [
    Net("digits_cnn", ("model", "model_opset13_folded", "model_opset18_dynamo"), 450),
    Net("kws", ("model", "model_nchw", "model_pt", "model_pt_opset18", "model_tflite_float"), 880),
    Net("resnet8", ("model", "model_nchw", "model_pt", "model_pt_opset18"), 400),
    Net("mobilenetv2", ("model", "model_opset13_folded", "model_opset18_dynamo"), 300),
    Net("tcn", ("model", "model_opset13_folded", "model_opset18_dynamo"), 240),
    Net("ad01", ("model", "model_pt", "model_pt_folded", "model_tflite_float"), 125, ceiling=0.25),
]
FEW = 16
"""Samples for the ranges where only bits and kernels are compared, and no accuracy."""

LOSS = 0.003
"""The share of samples that a classifier may lose against float with the default settings."""

OTHER_WEIGHTS = {("kws", "model_tflite_float"), ("ad01", "model_tflite_float")}
"""Files with other weights than the other files of their model (see their README); only their bits are compared."""


def few(folder: Path) -> Source:
    return Source(folder / "data.npz", limit=FEW)


@pytest.mark.shared
@pytest.mark.cc
@pytest.mark.parametrize("net", NETS, ids=lambda n: n.name)
def test_on_the_host(net: Net, shared_models: Path, tmp_path: Path) -> None:
    """All samples with their accuracy, bit for bit."""
    folder = shared_models / net.name
    data, options = folder / "data.npz", CompileOptions(target="x86-64", levels=level_here())
    bundle = compile_model(folder / "model.onnx", tmp_path / "bundle", options, data=data)
    result = validate(bundle, data, "host", net.samples)
    assert result.bit_exact, result.json["first_difference"]
    assert result.json["samples"] == net.samples
    if net.ceiling is None:
        assert result.json["accuracy"]["quantized"] >= result.json["accuracy"]["float"] - LOSS
    else:
        assert result.json["outputs"][0]["rmse"] <= net.ceiling


@pytest.mark.shared
@pytest.mark.arm_gcc
@pytest.mark.qemu
@pytest.mark.parametrize("net", NETS, ids=lambda n: n.name)
def test_exports_of_one_network_give_the_same_kernels(net: Net, shared_models: Path, tmp_path: Path) -> None:
    """NCHW or NHWC, folded or not, old opset or new: the same kernels, a transpose at most at the input, and the bits of
    the reference. Plans for less memory may differ, as the input's layout takes part in them.
    """
    folder = shared_models / net.name
    fastest = CompileOptions("cortex-m4", plan=PlanOptions(optimize="speed"))
    kernels = {}
    for variant in net.variants:
        bundle = compile_model(folder / f"{variant}.onnx", tmp_path / variant, fastest, few(folder))
        result = validate(bundle, folder / "data.npz", "mps2-an386", 5, build_dir=tmp_path / f"build {variant}")
        assert result.bit_exact, result.json["first_difference"]
        if (net.name, variant) not in OTHER_WEIGHTS:
            layers = [layer["kernel"] for layer in bundle.manifest["layers"]]
            kernels[variant] = layers[1:] if layers[0].startswith("ge_channels_last") else layers
    assert len({tuple(sorted(k)) for k in kernels.values()}) == 1, (
        kernels
    )  # of two branches, exports order nodes either way


@pytest.mark.shared
@pytest.mark.parametrize(("name", "variant"), [("kws", "model_nchw"), ("resnet8", "model_nchw")])
def test_nchw_and_nhwc_exports_give_the_same_bits(name: str, variant: str, shared_models: Path, tmp_path: Path) -> None:
    from glowembed import reference

    folder = shared_models / name
    outputs = []
    for file in ("model", variant):
        options = CompileOptions(plan=PlanOptions("greedy", effort=0))
        bundle = compile_model(folder / f"{file}.onnx", tmp_path / file, options, few(folder))
        value = bundle.graph.values[bundle.graph.inputs[0]]
        rng = np.random.default_rng(0)
        results = []
        for _ in range(20):
            height, width, channels = _hwc(value.shape, file == "model")
            stored = rng.integers(-128, 128, (1, height, width, channels)).astype(np.int8)
            fed = stored if file == "model" else np.ascontiguousarray(stored.transpose(0, 3, 1, 2))
            results.append(reference.run_int(bundle.graph, {value.name: fed})[bundle.graph.outputs[0]].reshape(-1))
        outputs.append(np.stack(results))
    assert np.array_equal(outputs[0], outputs[1])


def _hwc(shape: tuple[int, ...], channels_last: bool) -> tuple[int, int, int]:
    return (shape[1], shape[2], shape[3]) if channels_last else (shape[2], shape[3], shape[1])


@pytest.mark.shared
@pytest.mark.arm_gcc
@pytest.mark.qemu
@pytest.mark.parametrize("target", sorted(BOARDS))
@pytest.mark.parametrize("net", NETS, ids=lambda n: n.name)
def test_on_every_emulated_core(net: Net, target: str, shared_models: Path, tmp_path: Path) -> None:
    """Twenty real samples through real firmware: the bits of the Python reference on every core. The search for the smallest plan takes
    most of the time, so that each network and each core meet it once.
    """
    folder = shared_models / net.name
    searched = NETS.index(net) == sorted(BOARDS).index(target)
    options = CompileOptions(target=target, plan=PlanOptions() if searched else PlanOptions("greedy", effort=0))
    bundle = compile_model(folder / "model.onnx", tmp_path / "bundle", options, few(folder))
    result = validate(bundle, folder / "data.npz", BOARDS[target], 20, build_dir=tmp_path / "build")
    assert result.bit_exact, result.json["first_difference"]
    assert result.json["samples"] == 20
    assert result.json["instructions"] > result.json["macs"] / 8


@pytest.mark.shared
@pytest.mark.arm_gcc
@pytest.mark.qemu
def test_kws_code_is_small(shared_models: Path, tmp_path: Path) -> None:
    """Kernels and network of kws on Cortex-M4 without weights: under 12 KB."""
    folder = shared_models / "kws"
    bundle = compile_model(folder / "model.onnx", tmp_path / "bundle", data=folder / "data.npz")
    result = validate(bundle, folder / "data.npz", "mps2-an386", 1, build_dir=tmp_path / "build")
    assert result.json["memory"]["code"] + result.json["memory"]["rodata"] < 12 * 1024
