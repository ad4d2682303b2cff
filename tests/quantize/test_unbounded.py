"""Masks contain infinities, or numbers used as infinities, and branches that are not selected contain NaN: layers that
handle those are computed in float32, and so are whole numbers that are cast to integers. Everything else is computed in
int8.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from small_models import model, node, saved, weights

from glowembed.judge import compare
from glowembed.judge.tune import integer_outputs
from glowembed.judge.validation import samples_for
from glowembed.pipeline import Bundle, CompileOptions, compile_model

TRIANGLE = np.triu(np.ones((6, 6), bool), 1)
ADDED = [node("MatMul", "x w", "s"), node("Add", "s m", "h"), node("Softmax", "h", "y")]
CHOSEN = [node("MatMul", "x w", "s"), node("Where", "m f s", "h"), node("Softmax", "h", "y")]
CASES: dict[str, tuple[list[onnx.NodeProto], dict[str, np.ndarray]]] = {
    "an infinite mask is added": (ADDED, {"m": np.where(TRIANGLE, -np.inf, 0).astype(np.float32)}),
    "a large mask is added": (ADDED, {"m": np.where(TRIANGLE, -1e9, 0).astype(np.float32)}),
    "the mask of BERT is added": (ADDED, {"m": np.where(TRIANGLE, -1e4, 0).astype(np.float32)}),
    "a small mask is chosen": (CHOSEN, {"m": TRIANGLE, "f": np.float32(-1e3)}),
    "minus infinity is chosen": (CHOSEN, {"m": TRIANGLE, "f": np.float32(-np.inf)}),
    "a large number is chosen": (CHOSEN, {"m": TRIANGLE, "f": np.float32(-1e9)}),
}


@pytest.mark.parametrize("case", CASES)
def test_a_mask_costs_no_accuracy(case: str, tmp_path: Path) -> None:
    nodes, more = CASES[case]
    file = saved(model(nodes, {"x": (1, 6, 8)}, {"w": weights(8, 6), **more}), tmp_path)
    rng = np.random.default_rng(3)
    data = {key: rng.normal(size=(8, 6, 8)).astype(np.float32) for key in ("calib_x", "test_x")}
    np.savez(tmp_path / "d.npz", **data)  # type: ignore[arg-type]
    bundle = compile_model(file, tmp_path / "bundle", CompileOptions(), tmp_path / "d.npz")
    dtypes = {entry["node"]: entry["dtype"] for entry in bundle.manifest["precision"]}
    assert [dtypes[name] for name in ("n_s", "n_h", "n_y")] == ["int8", "float32", "float32"]
    dataset = samples_for(bundle, tmp_path / "d.npz")
    theirs, ours = compare.run_onnxruntime(file, dataset)["y"], integer_outputs(bundle.graph, dataset)["y"]
    assert compare.output_metrics("y", theirs, ours).sqnr_db > 30


CLASS = [
    node("MatMul", "x w", "s"),
    node("Where", "high one less", "h"),
    helper.make_node("Cast", ["h"], ["y"], name="n_y", to=7),
]
LOG = [node("MatMul", "x w", "s"), node("Log", "s", "l"), node("Where", "high l s", "h"), node("MatMul", "h v", "y")]
HIGH = helper.make_node("Greater", ["s", "zero"], ["high"], name="n_high")
NUMBERS = {"w": weights(8, 6), "v": weights(6, 3), "zero": np.float32(0), "one": np.float32(1), "less": np.float32(-1)}


def _compiled(nodes: list[onnx.NodeProto], folder: Path) -> tuple[Path, Bundle]:
    read = {name for n in nodes for name in n.input}
    constants = {name: array for name, array in NUMBERS.items() if name in read}
    proto = model(nodes, {"x": (1, 6, 8)}, constants)
    if nodes[-1].op_type == "Cast":
        proto.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.INT64
    file = saved(proto, folder)
    samples = np.random.default_rng(3).normal(size=(8, 6, 8)).astype(np.float32)
    np.savez(folder / "d.npz", calib_x=samples, test_x=samples)
    return file, compile_model(file, folder / "bundle", CompileOptions(), folder / "d.npz")


def test_a_class_of_minus_one_or_one_is_cast_as_it_is(tmp_path: Path) -> None:
    """In int8 the largest of -1 and 1 is 0.996, which a cast cuts off to 0."""
    file, bundle = _compiled([CLASS[0], HIGH, *CLASS[1:]], tmp_path)
    dataset = samples_for(bundle, tmp_path / "d.npz")
    theirs, ours = compare.run_onnxruntime(file, dataset)["y"], integer_outputs(bundle.graph, dataset)["y"]
    assert set(np.unique(ours)) == {-1, 1}
    assert (theirs.ravel() == ours.ravel()).mean() > 0.95


def test_a_branch_that_is_not_chosen_may_be_nan(tmp_path: Path) -> None:
    _, bundle = _compiled([LOG[0], HIGH, *LOG[1:]], tmp_path)
    dtypes = {entry["node"]: entry["dtype"] for entry in bundle.manifest["precision"]}
    assert [dtypes[name] for name in ("n_s", "n_l", "n_h", "n_y")] == ["int8", "float32", "float32", "int8"]


@pytest.mark.parametrize(
    ("nodes", "begins"),
    [
        ([node("MatMul", "x w", "s"), node("Log", "s", "y")], ""),
        ([node("MatMul", "x w", "s"), node("Relu", "s", "r"), node("Log", "r", "l"), node("Neg", "l", "y")], "'l'"),
    ],
    ids=["NaN", "infinity"],
)
def test_an_output_that_is_not_finite_stays_in_float32(
    nodes: list[onnx.NodeProto], begins: str, tmp_path: Path
) -> None:
    """A warning says so, with the value where it begins, and the bundle gives what the float model gives."""
    file, bundle = _compiled(nodes, tmp_path)
    dtypes = {entry["node"]: entry["dtype"] for entry in bundle.manifest["precision"]}
    assert [dtypes[name] for name in ("n_s", "n_y")] == ["int8", "float32"]
    (told,) = (n["text"] for n in bundle.manifest["calibration"]["notes"] if n["code"] == "output-not-finite")
    assert "'y' becomes NaN or infinite" in told and (not begins or f"begins with {begins};" in told)
    dataset = samples_for(bundle, tmp_path / "d.npz")
    theirs, ours = compare.run_onnxruntime(file, dataset)["y"], integer_outputs(bundle.graph, dataset)["y"]
    alike = np.isfinite(theirs.ravel()) == np.isfinite(ours.ravel())
    assert not np.isfinite(ours).all() and alike.mean() > 0.95


MEANS, DEVIATIONS = np.float32([101325, 20, 50, 0.1]), np.float32([500, 5, 20, 0.05])
NORMALIZED = [node("Sub", "x m", "c"), node("Div", "c d", "n"), node("MatMul", "n w", "y")]
FAR = [node("Sub", "x m", "c"), node("MatMul", "c w", "y")]


@pytest.mark.parametrize(
    ("nodes", "means", "deviations", "dtype"),
    [
        (NORMALIZED, MEANS, DEVIATIONS, "float32"),
        (FAR, np.full(4, 1000, np.float32), np.ones(4, np.float32), "float32"),
        (FAR, np.full(4, 10, np.float32), np.ones(4, np.float32), "int8"),
    ],
    ids=["a small channel beside a large one", "far from zero", "near zero"],
)
def test_an_input_keeps_what_integers_would_lose(
    nodes: list[onnx.NodeProto], means: np.ndarray, deviations: np.ndarray, dtype: str, tmp_path: Path
) -> None:
    """Pressure, temperature, humidity and a ratio as sensors give them: int8 that holds 101325 has steps of 397."""
    constants = {"m": means, "d": deviations, "w": weights(4, 3)}
    constants = {name: array for name, array in constants.items() if any(name in n.input for n in nodes)}
    file = saved(model(nodes, {"x": (1, 4)}, constants), tmp_path)
    rng = np.random.default_rng(5)
    data = {key: (means + deviations * rng.normal(size=(16, 1, 4))).astype(np.float32) for key in ("calib_x", "test_x")}
    np.savez(tmp_path / "d.npz", **data)  # type: ignore[arg-type]
    bundle = compile_model(file, tmp_path / "bundle", CompileOptions(), tmp_path / "d.npz")
    assert bundle.manifest["inputs"][0]["dtype"] == dtype
    dataset = samples_for(bundle, tmp_path / "d.npz")
    theirs, ours = compare.run_onnxruntime(file, dataset)["y"], integer_outputs(bundle.graph, dataset)["y"]
    assert compare.output_metrics("y", theirs, ours).sqnr_db > (30 if dtype == "float32" else 20)
