"""Weights of four bits that are rounded together: no better neighbour, less noise at the outputs, the same for every order of samples."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_models import model, node, saved, weights

from glowembed.graph.ir import Array, Graph, QType
from glowembed.graph.registry import ops
from glowembed.judge.tune import integer_outputs
from glowembed.options.table import Config
from glowembed.pipeline import CompileOptions, compile_model, import_model
from glowembed.quantize import rounding
from glowembed.quantize.precision import parse
from glowembed.ranges import covariances as record
from glowembed.ranges import datasets
from glowembed.ranges.covariances import Runs
from glowembed.ranges.profile import profile
from glowembed.reference import run_float

NUMBERS = np.random.default_rng(3)
TYPES = {
    "int4": lambda scales: QType("int4", scales, (0,) * len(scales), axis=0),
    "compressed": lambda scales: QType("int8", scales, (0,) * len(scales), axis=0, table=(-9, -4, -1, 0, 2, 5, 11)),
}


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize("lacking", [0.0, 0.05])
def test_no_other_number_for_a_single_weight_is_better(kind: str, groups: int, lacking: float) -> None:
    real, mixed = NUMBERS.normal(size=(6, 10)), NUMBERS.normal(size=(groups, 10, 4))
    covariance = mixed @ mixed.transpose(0, 2, 1) + 0.1 * np.eye(10)
    h, c = rounding._whole(covariance, lacking * NUMBERS.normal(size=(groups, 10, 10)))
    problem = rounding._Problem.of(real, TYPES[kind]((0.25,) * 6), ((h, c),), (1.0,))
    numbers = problem.best()[1].astype(np.float64)

    def noise(candidate: Array) -> Array:
        """The variance of the errors of outputs, apart from what no candidate changes."""
        e, which = candidate - problem.weights, [o // (6 // groups) for o in range(6)]
        return np.asarray([e[o] @ h[g] @ e[o] - 2 * e[o] @ c[g] @ problem.weights[o] for o, g in enumerate(which)])

    single = problem.qtype.quantize(real).astype(np.float64)
    assert noise(numbers).sum() < 0.9 * noise(single).sum()
    for k in range(10):
        for other in problem.qtype.table or range(-8, 8):
            changed = numbers.copy()
            changed[:, k] = other
            best = noise(numbers)
            assert (noise(changed) >= best - 2.0**-8 * np.abs(best)).all()


def network(folder: Path) -> tuple[Path, Path]:
    """All kinds of layers, and samples whose elements depend on each other."""
    constants: dict[str, Any] = {
        "w0": weights(12, 4, 3, 3, seed=0),
        "w1": weights(12, 1, 3, 3, seed=1),
        "w2": weights(12, 4, 1, 2, seed=2),
        "w3": weights(6, 12 * 4 * 3, seed=3),
    }
    nodes = [
        node("Conv", "x w0", "a", pads=[1, 1, 1, 1], strides=[2, 2]),
        node("Relu", "a", "b"),
        node("Conv", "b w1", "c", pads=[1, 1, 1, 1], group=12),
        node("Conv", "c w2", "d", group=3),
        node("Flatten", "d", "e"),
        node("Gemm", "e w3", "y", transB=1),
    ]
    numbers = np.random.default_rng(4)
    samples = (
        (numbers.normal(size=(160, 10)) @ numbers.normal(size=(10, 4 * 8 * 8))).reshape(160, 4, 8, 8).astype(np.float32)
    )
    np.savez(folder / "data.npz", calib_x=samples[:120], test_x=samples[120:])
    return saved(model(nodes, {"x": (1, 4, 8, 8)}, constants), folder), folder / "data.npz"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return network(tmp_path_factory.mktemp("rounding"))


class Stop(Exception):
    """Nothing is to be written."""


def compiled(path: Path, config: Config, until: str, **given: Any) -> Graph:
    made: list[Graph] = []

    def on_stage(name: str, result: Any) -> None:
        if name == until:
            made.append(result)
            raise Stop

    with suppress(Stop):
        compile_model(path, "unwritten", CompileOptions(precision=config), on_stage=on_stage, **given)
    return made[0]


def test_the_patches_of_a_layer_times_its_weights_are_its_outputs(files: tuple[Path, Path]) -> None:
    graph = import_model(files[0], CompileOptions())
    known = run_float(graph, {n: NUMBERS.normal(size=graph.values[n].shape).astype(np.float32) for n in graph.inputs})
    layers = [n for n in graph.nodes if ops()[n.op].weights_of_four_bits]
    assert len(layers) == 4
    for layer in layers:
        x, w = (known[name] for name in layer.inputs[:2])
        attrs = {k: v for k, v in layer.attrs.items() if not k.startswith("act_")}
        (expected,) = ops()[layer.op].float_ref(attrs, [x, w, np.zeros(len(w), np.float32)])
        patches = ops()[layer.op].patches(layer.attrs, x)
        assert patches is not None
        found = patches @ w.reshape(len(patches), -1, patches.shape[2]).transpose(
            0, 2, 1
        )  # [groups, outputs, channels]
        found = found.transpose(1, 0, 2).reshape(-1, len(w))
        np.testing.assert_allclose(found, expected.reshape(-1, len(w)), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("attrs", [{}, {"group": 2, "strides": [2, 3], "dilations": [2, 1], "pads": [1, 0, 2, 1]}])
def test_the_patches_of_a_transposed_convolution(attrs: dict[str, Any], tmp_path: Path) -> None:
    constants = {"w": weights(6, 8 // attrs.get("group", 1), 3, 2)}
    path = saved(model([node("ConvTranspose", "x w", "y", **attrs)], {"x": (1, 6, 5, 4)}, constants), tmp_path)
    graph = import_model(path, CompileOptions())
    known = run_float(graph, {"x": NUMBERS.normal(size=graph.values["x"].shape).astype(np.float32)})
    (layer,) = [n for n in graph.nodes if n.op == "ConvTranspose"]
    x, w, y = (known[name] for name in (*layer.inputs[:2], layer.outputs[0]))
    patches = ops()[layer.op].patches(layer.attrs, x)
    assert patches is not None
    found = patches @ w.reshape(len(patches), -1, patches.shape[2]).transpose(0, 2, 1)
    np.testing.assert_allclose(found.transpose(1, 0, 2).reshape(y.shape), y, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("kind", "share"), [("int4", 0.75), ("compressed", 0.9)])
def test_the_outputs_have_less_noise_than_with_each_weight_rounded_by_itself(
    files: tuple[Path, Path], kind: str, share: float
) -> None:
    path, data = files
    graph = import_model(path, CompileOptions())
    calibration = datasets.of_graph(data, graph, "calib")
    config, test = Config({"weights": kind}), datasets.of_graph(data, graph, "test")
    exact = np.stack([run_float(graph, datasets.stored_sample(graph, test, i))["y"] for i in range(len(test))])

    def noise(**given: Any) -> float:
        return float(np.square(integer_outputs(compiled(path, config, "lower", **given), test)["y"] - exact).mean())

    assert noise(data=data) < share * noise(profile=profile(graph, calibration))


def test_a_profile_without_samples_is_said(files: tuple[Path, Path], tmp_path: Path) -> None:
    path, data = files
    graph = import_model(path, CompileOptions())
    stored = profile(graph, datasets.of_graph(data, graph, "calib"))

    def codes(kind: str, **given: Any) -> list[str]:
        options = CompileOptions("generic", precision=Config({"weights": kind}))
        return [note.code for note in compile_model(path, tmp_path / "net", options, **given).notes]

    assert "weights-rounded-alone" in codes("int4", profile=stored)
    assert "weights-rounded-alone" not in codes("int4", data=data)
    assert "weights-rounded-alone" not in codes("int8", profile=stored)


def test_moments_do_not_depend_on_the_order_of_the_samples(files: tuple[Path, Path]) -> None:
    graph = import_model(files[0], CompileOptions())
    calibration = datasets.of_graph(files[1], graph, "calib")
    backwards = datasets.Dataset(**{**vars(calibration), "inputs": {n: a[::-1] for n, a in calibration.inputs.items()}})
    typed = compiled(files[0], Config({"weights": "int4"}), "quantize", data=files[1])
    pairs = [Runs(graph, typed, samples) for samples in (calibration, backwards)]
    seen = 0
    for layer in typed.nodes:
        if ops()[layer.op].weights_of_four_bits:
            first, second = (pair.moments(layer) for pair in pairs)
            assert first is not None
            assert second is not None
            assert np.array_equal(first.exact, second.exact)
            assert np.array_equal(first.rounded, second.rounded)
            assert all(
                np.array_equal(a, b)
                for one, two in zip(first.blocks, second.blocks, strict=True)
                for a, b in zip(one, two, strict=True)
            )
            seen += 1
        for pair in pairs:
            pair.step(layer, {})
    assert seen == 4


def test_a_layer_makes_up_for_the_errors_of_the_layers_before_it(
    files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, data = files
    graph = import_model(path, CompileOptions())
    test = datasets.of_graph(data, graph, "test")
    exact = np.stack([run_float(graph, datasets.stored_sample(graph, test, i))["y"] for i in range(len(test))])

    def noise() -> float:
        made = compiled(path, Config({"weights": "int4"}), "lower", data=data)
        return float(np.square(integer_outputs(made, test)["y"] - exact).mean())

    together = noise()
    whole = rounding._whole
    monkeypatch.setattr(rounding, "_whole", lambda h, lacking: whole(h, 0 * lacking))
    assert together < 0.95 * noise()


def test_many_weights_of_an_output_are_rounded_in_blocks(
    files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "BLOCK", 50)
    path, data = files
    graph = import_model(path, CompileOptions())
    typed = compiled(path, Config({"weights": "int4"}), "quantize", data=data)
    pair = Runs(graph, typed, datasets.of_graph(data, graph, "calib"))
    sizes = []
    for layer in typed.nodes:
        if layer.op == "Gemm":
            found = pair.moments(layer)
            assert found is not None
            sizes = [h.shape[1] for h, _ in found.blocks]
        pair.step(layer, {})
    assert sizes == [48, 48, 48]


def test_a_scale_that_a_rule_gives_is_kept(files: tuple[Path, Path]) -> None:
    path, data = files
    config = parse({"defaults": {"weights": "int4"}, "rules": [{"value": "w0", "scale": 0.125}]})
    graph = compiled(path, config, "quantize", data=data)
    (value,) = [v for name, v in graph.values.items() if name.startswith("w0")]
    assert value.qtype is not None
    assert set(value.qtype.scale) == {0.125}
