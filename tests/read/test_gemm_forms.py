"""Gemm and MatMul with the constants in every place, compared with onnxruntime before and after canonicalization."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_models import canonical, model, node, saved, sequence, weights

from glowembed.read import importer

M, K, N = 3, 4, 5
ADDENDS: dict[str, tuple[int, ...]] = {
    "none": (0,), "scalar": (), "one": (1,), "row": (N,), "1 row": (1, N), "column": (M, 1), "matrix": (M, N),
}  # fmt: skip


@pytest.mark.parametrize("computed", ["A", "B", "C", "AC", "BC"])
def test_gemm_with_constants_in_any_place(computed: str, tmp_path: Path) -> None:
    scales = ({}, {"alpha": 0.5, "beta": 2.0}, {"alpha": -1.5, "beta": 0.0})
    for (name, c), trans_a, trans_b, scale in product(ADDENDS.items(), (0, 1), (0, 1), scales):
        if "C" in computed and (name == "none" or not scale.get("beta", 1.0)):
            continue  # nothing computed is read
        shapes = {"A": (K, M) if trans_a else (M, K), "B": (N, K) if trans_b else (K, N), "C": c}
        names = "ABC" if name != "none" else "AB"
        inputs = {key: shapes[key] for key in names if key in computed}
        constants: dict[str, Any] = {key: np.asarray(weights(*shapes[key])) for key in names if key not in computed}
        gemm = node("Gemm", " ".join(names), "y", transA=trans_a, transB=trans_b, **scale)
        canonical(model([gemm], inputs, constants, opset=13), tmp_path, twice=False)


MATMULS: tuple[tuple[tuple[int, ...], tuple[int, ...], str], ...] = (
    ((M, K), (K,), "B"), ((K,), (K, N), "B"), ((K,), (1, K, N), "B"), ((K,), (1, 2, K, N), "B"), ((1, K), (1, K, N), "B"),
    ((M, K), (1, K, 1), "B"), ((1, M, K), (K,), "A"), ((K,), (K, N), "A"), ((1, M, K), (1, 2, K, N), "B"),
)  # fmt: skip


@pytest.mark.parametrize(("a", "b", "computed"), MATMULS, ids=str)
def test_matmul_with_vectors(a: tuple[int, ...], b: tuple[int, ...], computed: str, tmp_path: Path) -> None:
    shapes = {"A": a, "B": b}
    constants = {key: weights(*shape) for key, shape in shapes.items() if key != computed}
    canonical(model([node("MatMul", "A B", "y")], {computed: shapes[computed]}, constants), tmp_path, twice=False)


def test_what_becomes_of_a_gemm(tmp_path: Path) -> None:
    """A bias stays a bias; only an operand that is none becomes an addition."""
    w, row, column = weights(K, N), weights(N), weights(M, 1)
    cases: tuple[tuple[str, dict, dict, str], ...] = (
        ("x w c", {"x": (M, K)}, {"w": w, "c": row}, "Gemm"),
        ("x w c", {"x": (M, K)}, {"w": w, "c": column}, "Gemm Add"),
        ("w x c", {"x": (K, N)}, {"w": weights(M, K), "c": column}, "Transpose Gemm Transpose"),
        ("a b x", {"x": (1, N)}, {"a": weights(1, K), "b": w}, "Affine"),
        ("a b x", {"x": (M, N)}, {"a": weights(M, K), "b": w}, "Add"),
    )
    for names, inputs, constants, ops in cases:
        assert sequence(canonical(model([node("Gemm", names, "y")], inputs, constants), tmp_path)) == ops


def test_a_product_of_constants_that_nothing_holds_is_refused(tmp_path: Path) -> None:
    long = {"a": np.ones((2**14, 1), np.float32), "b": np.ones((1, 2**14), np.float32)}
    (found,) = importer.problems(saved(model([node("Gemm", "a b x", "y")], {"x": (1,)}, long), tmp_path))
    assert "268435456 elements" in found.reason


def test_a_gemm_of_two_computed_matrices_reads_both_along_their_rows(tmp_path: Path) -> None:
    proto = model([node("Gemm", "a b", "y")], {"a": (M, K), "b": (K, N)})
    assert [n.op for n in importer.load(saved(proto, tmp_path)).nodes] == ["Transpose", "MatMul"]
