"""debug names the layer whose bits differ, and attributes errors to the layers that cause them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from json_result import check_json

from glowembed.__main__ import main
from glowembed.graph.plan import PlanOptions
from glowembed.judge import debugging
from glowembed.pipeline import Bundle, CompileOptions, compile_model

pytestmark = pytest.mark.cc


@pytest.fixture(scope="module")
def bundle(digits_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    out, options = tmp_path_factory.mktemp("debug") / "bundle", CompileOptions("x86-64", levels=("sse41",))
    return compile_model(digits_dir / "model.onnx", out, options, data=digits_dir / "data.npz")


@pytest.fixture(scope="module")
def digits_dir(request: pytest.FixtureRequest) -> Path:
    folder: Path = request.getfixturevalue("digits")
    return folder


def test_a_sound_bundle_has_no_difference_and_small_losses(bundle: Bundle, digits_dir: Path, tmp_path: Path) -> None:
    run = debugging.debug(bundle, digits_dir / "data.npz", "host", 4, tmp_path)
    assert run.first_difference is None
    assert [layer.name for layer in run.layers] == [layer["name"] for layer in bundle.manifest["layers"]]
    known = [layer.isolated for layer in run.layers if layer.isolated is not None]
    assert len(known) >= 6, "every layer that the float model has too"
    assert all(loss.sqnr_db > 20 for loss in known)
    first = run.layers[0]
    assert first.cumulated == first.isolated, "before the first layer nothing is lost but the input's rounding"


def test_a_mean_in_two_steps_is_charged_with_its_own_loss_alone(digits_dir: Path, tmp_path: Path) -> None:
    """The float model has no sums: they are made from its own input, not taken from the reference."""
    options = CompileOptions("cortex-m4", plan=PlanOptions(optimize="ram"))
    bundle = compile_model(digits_dir / "model.onnx", tmp_path / "bundle", options, data=digits_dir / "data.npz")
    layers = debugging.losses(bundle, digits_dir / "data.npz", 4)
    mean = next(layer for layer in layers if layer.op == "mean_s32_s8")
    assert mean.isolated is not None and mean.cumulated is not None
    assert mean.isolated.sqnr_db > mean.cumulated.sqnr_db + 3


def test_the_page_of_a_validation_draws_what_the_values_were(bundle: Bundle, digits_dir: Path, tmp_path: Path) -> None:
    """One histogram with the range of its type for every value that float model and bundle both have."""
    page, data = tmp_path / "page.html", str(digits_dir / "data.npz")
    words = ["validate", str(bundle.path), "--data", data, "--board", "host", "--samples", "3", "--html", str(page)]
    assert main([*words, "--build-dir", str(tmp_path / "build")]) == 0
    text = page.read_text("utf-8")
    names = [n.outputs[0] for n in bundle.graph.nodes if n.kernel]
    assert [f"<figcaption>{name}: seen " in text for name in names] == [True] * len(names)
    assert f"{debugging.SEEN} samples, " in text and 'class="held"' in text


def test_the_dump_holds_board_reference_and_float(bundle: Bundle, digits_dir: Path, tmp_path: Path) -> None:
    run = debugging.debug(bundle, digits_dir / "data.npz", "host", 2, tmp_path)
    run.save(tmp_path / "tensors.npz")
    with np.load(tmp_path / "tensors.npz") as archive:
        every = {name for name, value in bundle.graph.values.items() if value.const is None}
        assert set(bundle.graph.inputs) <= every
        assert any(node.op == "view" for node in bundle.graph.nodes), "a view is the same memory under another name"
        assert set(archive) == {f"{side}/{name}" for side in ("board", "reference", "float") for name in every}
        for name in every:
            assert np.array_equal(archive[f"board/{name}"], archive[f"reference/{name}"]), name
            assert archive[f"float/{name}"].shape == archive[f"board/{name}"].shape, name


def test_a_flipped_weight_is_found_and_its_layer_named(
    digits_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One weight of the second convolution is changed in the C file: validate fails, debug names the layer."""
    folder = tmp_path / "bundle"
    bundle = compile_model(digits_dir / "model.onnx", folder, CompileOptions("generic"), data=digits_dir / "data.npz")
    victim = [layer for layer in bundle.manifest["layers"] if layer["op"] == "conv2d_s8"][1]["name"]
    source = folder / "model_weights.c"
    arrays = re.split(r"(?=^const )", source.read_text("ascii"), flags=re.MULTILINE)
    index = [i for i, text in enumerate(arrays) if "_weights[" in text and text.startswith("const int8_t")][1]
    arrays[index] = re.sub(
        r"(\{\n\s+)(-?\d+)", lambda m: m.group(1) + str(-int(m.group(2)) or 99), arrays[index], count=1
    )
    source.write_text("".join(arrays), "ascii")
    data = str(digits_dir / "data.npz")
    kept = ["--build-dir", str(tmp_path / "build"), "--json", str(tmp_path / "r.json")]
    code = main(["debug", str(folder), "--data", data, "--board", "host", *kept])
    assert code == 1
    result = json.loads((tmp_path / "r.json").read_text())
    check_json("debug", result)
    assert result["first_difference"] == victim
    assert f"{victim!r} is the first whose bits differ" in " ".join(capsys.readouterr().err.split())


def test_parts_of_a_concat_are_judged_when_they_are_whole(tmp_path: Path) -> None:
    """While a concat is written part by part, the rest of its memory is not defined: that is no difference."""
    from small_models import model, node, saved, weights

    from glowembed.judge.validation import validate

    nodes = [
        node("Relu", "x", "a"),
        node("Conv", "x w", "b", pads=[1, 1, 1, 1]),
        node("Concat", "a b", "y", axis=1),
    ]
    path = saved(model(nodes, {"x": [1, 3, 4, 4]}, {"w": weights(2, 3, 3, 3)}), tmp_path)
    data = tmp_path / "data.npy"
    np.save(data, np.random.default_rng(0).normal(size=(6, 3, 4, 4)).astype(np.float32))
    bundle = compile_model(path, tmp_path / "bundle", CompileOptions("generic"), data=data)
    assert any(layer["op"].startswith("copy_into") for layer in bundle.manifest["layers"])
    assert validate(bundle, data, "host", 3, layers=True, build_dir=tmp_path / "build").bit_exact
    assert debugging.debug(bundle, data, "host", 3, tmp_path / "build").first_difference is None
