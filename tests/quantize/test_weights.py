"""A target that chooses the types of weights itself takes the original numbers, not the rounded ones."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from small_models import model, node, saved

from glowembed import pipeline
from glowembed.errors import UsageError
from glowembed.graph.ir import Const, QType
from glowembed.graph.target import load_target
from glowembed.options import table
from glowembed.pipeline import CompileOptions
from glowembed.quantize import weights
from glowembed.quantize.schema import weights_type
from glowembed.ranges.datasets import Dataset
from glowembed.reference import run_float, run_int

W = np.random.default_rng(2).normal(size=(16, 200)).astype(np.float32)


def squared_error(stored: np.ndarray, qtype: QType) -> float:
    return float(((qtype.dequantize(stored) - W) ** 2).sum())


def test_power_of_two_from_the_floats_beats_power_of_two_from_int8() -> None:
    chosen = weights_type(W, np.zeros(16), 1.0)
    power = weights.power2(Const(W), chosen)
    assert all(math.frexp(s)[0] == 0.5 for s in power.scale)
    assert all(1 <= p / s < 2 for p, s in zip(power.scale, chosen.scale, strict=True))
    from_floats = power.quantize(W)
    from_int8 = power.quantize(chosen.dequantize(chosen.quantize(W)))
    assert np.abs(from_floats).max() <= 127
    changed = np.mean(from_floats != from_int8)
    assert 0.05 < changed < 0.5, "rounding twice gives other numbers"
    assert squared_error(from_floats, power) < 0.95 * squared_error(from_int8, power)


@pytest.mark.parametrize(("scale", "zero"), [((0.3,), (0,)), ((0.3, 0.001), (0, 0)), ((0.3, 0.3), (5, -128))])
def test_power2_keeps_the_form_of_the_type(scale: tuple[float, ...], zero: tuple[int, ...]) -> None:
    before = QType("int8", scale, zero, axis=0)
    power = weights.power2(Const(W[:2]), before)
    assert (power.dtype, power.axis, len(power.scale)) == ("int8", 0, len(scale))
    assert set(power.zero_point) == {0}
    assert np.abs(power.quantize(W[:2]).astype(int)).max() <= 127


def test_zero_weights() -> None:
    assert weights.power2(Const(np.zeros((1, 3), np.float32)), QType("int8", (0.1,), (1,), axis=0)).scale == (1.0,)


SEEN: list[tuple[str, str, str]] = []


def two_arguments(const: Const, qtype: QType) -> QType:
    return qtype


def doubled(const: Const, qtype: QType, name: str, op: str, node: str) -> QType:
    SEEN.append((name, op, node))
    return replace(qtype, scale=tuple(2 * s for s in qtype.scale))


def wrong(const: Const, qtype: QType, **of: str) -> QType:
    return QType("int8", (1.0, 2.0, 3.0), (0, 0, 0), axis=0)


@pytest.fixture
def compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Compile a small network for a cortex-m4 whose toml names this function of weights."""
    proto = model([node("Gemm", "x w b", "y", transB=1)], {"x": [1, 200]}, {"w": W, "b": W[:, 0]})
    data = Dataset({"x": np.random.default_rng(1).uniform(-1, 1, (8, 200)).astype(np.float32)}, shapes={"x": (1, 200)})

    def run(name: str):
        target = replace(load_target("cortex-m4"), weights=name)
        monkeypatch.setattr(table, "load_target", lambda _: target)
        seen = {}
        path = saved(proto, tmp_path)
        on_stage = seen.__setitem__
        bundle = pipeline.compile_model(path, tmp_path / "bundle", CompileOptions(), data=data, on_stage=on_stage)
        sample = data.sample(0)
        expected = run_float(pipeline.import_model(path, CompileOptions()), sample)["y"]
        types = {n: v.qtype for n, v in bundle.graph.values.items()}
        found = run_int(bundle.graph, {"x": types["x"].quantize(sample["x"])})["y"]
        error = np.abs(types["y"].dequantize(found) - expected).max() / types["y"].scale[0]
        return seen["quantize"].values["w"].qtype, error

    return run


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions of this file are named to the code under test, which imports it."""
    monkeypatch.syspath_prepend(Path(__file__).parent)


def test_a_target_has_its_way(compiled) -> None:
    plain, _ = compiled("")
    power, error = compiled("power2")
    twice, _ = compiled("test_weights:doubled")
    assert not any(math.frexp(s)[0] == 0.5 for s in plain.scale)
    assert all(math.frexp(s)[0] == 0.5 for s in power.scale)
    assert twice.scale == tuple(2 * s for s in plain.scale)
    assert error < 4, "bias and multipliers follow the scales"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("power3", "'power3'.*Did you mean 'power2'"),
        ("nowhere.to:find", "No module named 'nowhere'"),
        (
            "test_weights:two_arguments",
            r"unexpected keyword argument 'name'; it must take \(const, qtype, \*, name, op, node\)",
        ),
        ("test_weights:absent", "absent"),
        ("test_weights:wrong", r"n_y: weights = 'test_weights:wrong' of the target gave .* expected a type like"),
    ],
)
def test_bad_names(compiled, name: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        compiled(name)
