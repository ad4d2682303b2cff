"""Masks hold infinities, or numbers that stand for them: what handles those is computed in float32, everything else in int8."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from small_models import model, node, saved, weights

from glowembed.judge import compare
from glowembed.judge.tune import integer_outputs
from glowembed.judge.validation import samples_for
from glowembed.pipeline import CompileOptions, compile_model

TRIANGLE = np.triu(np.ones((6, 6), bool), 1)
ADDED = [node("MatMul", "x w", "s"), node("Add", "s m", "h"), node("Softmax", "h", "y")]
CHOSEN = [node("MatMul", "x w", "s"), node("Where", "m f s", "h"), node("Softmax", "h", "y")]
CASES: dict[str, tuple[list[onnx.NodeProto], dict[str, np.ndarray]]] = {
    "an infinite mask is added": (ADDED, {"m": np.where(TRIANGLE, -np.inf, 0).astype(np.float32)}),
    "a large mask is added": (ADDED, {"m": np.where(TRIANGLE, -1e9, 0).astype(np.float32)}),
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
