"""Models that fix a batch, or leave shapes open: the test follows the advice of the error, and then the model compiles
and is compared.

A batch that the model fixes is kept where the samples come in such batches.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from small_models import Inputs, model, node, saved, weights

from glowembed.errors import GlowembedError
from glowembed.judge import compare
from glowembed.judge.tune import integer_outputs
from glowembed.judge.validation import samples_for
from glowembed.options.words import named_shapes
from glowembed.pipeline import Bundle, CompileOptions, compile_model

CONV = node("Conv", "x w", "c")
LAST = node("MatMul", "f m", "y")
WEIGHTS = {"w": weights(4, 3, 3, 3), "m": weights(144, 5)}
X = {"x": (32, 3, 8, 8)}
MODELS: dict[str, tuple[list[onnx.NodeProto], Inputs, Mapping[str, Any], str]] = {
    # case -> (nodes, inputs, more constants, text of the first error)
    "flatten": ([CONV, node("Flatten", "c", "f"), LAST], X, {}, "If 32 is the batch"),
    "reshape to the batch": (
        [CONV, node("Reshape", "c s", "f"), LAST], X, {"s": np.array([32, 144])}, "If 32 is the batch",
    ),
    "two reshapes, one constant": (
        [CONV, node("Reshape", "c s", "e"), node("Relu", "e", "r"), node("Reshape", "r s", "f"), LAST],
        X, {"s": np.array([32, 144])}, "If 32 is the batch",
    ),
    "reshape to the rest": (
        [CONV, node("Reshape", "c s", "f"), LAST], X, {"s": np.array([-1, 144])}, "If 32 is the batch",
    ),
    "a constant is reshaped to as many": (
        [node("Reshape", "k s", "w2"), node("Conv", "x w2", "y")], X,
        {"k": weights(32, 27), "s": np.array([32, 3, 3, 3])}, "If 32 is the batch",
    ),
    "two inputs": (
        [CONV, node("Flatten", "c", "f"), node("MatMul", "f m", "p"), node("Add", "p v", "y")],
        {**X, "v": (32, 5)}, {}, "--shape x=1,3,8,8 --shape v=1,5",
    ),
    "two axes": ([node("MatMul", "x m", "y")], {"x": (32, 144)}, {}, "If 32 is the batch"),
    "an open shape": (
        [CONV, node("GlobalAveragePool", "c", "y")], {"x": ("n", 3, "h", "w")}, {}, "shapes are open",
    ),
    "open channels": (
        [node("Conv", "x v", "c", group=3), node("GlobalAveragePool", "c", "y")], {"x": ("n", "c", "h", "w")},
        {"v": weights(6, 2, 3, 3)}, "--shape x=1,6,64,64",
    ),
}  # fmt: skip


def compiled(file: Path, folder: Path, shapes: list[str]) -> Bundle:
    return compile_model(file, folder / "bundle", CompileOptions(shapes=named_shapes(shapes)), folder / "d.npz")


@pytest.mark.parametrize("case", MODELS)
def test_the_advice_works(case: str, tmp_path: Path) -> None:
    nodes, inputs, more, words = MODELS[case]
    file = saved(model(nodes, inputs, {**WEIGHTS, **more}), tmp_path)
    sizes = {name: [d if isinstance(d, int) else 64 for d in shape[1:]] for name, shape in inputs.items()}
    sizes |= {"x": [6, 64, 64]} if case == "open channels" else {}
    rng = np.random.default_rng(5)
    made = {
        f"{role}_{n}": rng.normal(size=(9, *s)).astype(np.float32)
        for n, s in sizes.items()
        for role in ("calib", "test")
    }
    np.savez(tmp_path / "d.npz", **made)  # type: ignore[arg-type]
    with pytest.raises(GlowembedError) as error:
        compiled(file, tmp_path, [])
    assert words in str(error.value)
    advice = list(dict.fromkeys(re.findall(r"--shape ([^\s)]+)", str(error.value))))
    bundle = compiled(file, tmp_path, advice)
    dataset = samples_for(bundle, tmp_path / "d.npz")
    theirs, ours = compare.run_onnxruntime(file, dataset)["y"], integer_outputs(bundle.graph, dataset)["y"]
    assert compare.output_metrics("y", theirs, ours).sqnr_db > 10, "means of noise are small"


BATCHED: dict[str, tuple[list[onnx.NodeProto], Inputs, Mapping[str, Any]]] = {
    "fully connected": ([node("MatMul", "x m", "h"), node("Relu", "h", "y")], {"x": (3, 144)}, {}),
    "images": ([CONV, node("Relu", "c", "r"), node("GlobalAveragePool", "r", "y")], {"x": (3, 3, 8, 8)}, {}),
    "images of an earlier operator": ([node("Mul", "x k", "h"), node("Conv", "h w", "y")], {"x": (1, 3, 8, 8)}, {"k": weights(5, 1, 1, 1)}),
    "moves": ([node("Transpose", "x", "t", perm=[1, 0, 2]), node("Sigmoid", "t", "y")], {"x": (3, 4, 5)}, {}),
    "pool": ([node("MaxPool", "x", "p", kernel_shape=[2, 2]), node("Flatten", "p", "y")], {"x": (2, 3, 4, 4)}, {}),
}  # fmt: skip


@pytest.mark.parametrize("case", BATCHED)
def test_a_batch_is_kept(case: str, tmp_path: Path) -> None:
    nodes, inputs, more = BATCHED[case]
    file = saved(model(nodes, inputs, {**WEIGHTS, **more}), tmp_path)
    rng, shape = np.random.default_rng(5), inputs["x"]
    rows = 6 * shape[0]
    np.savez(
        tmp_path / "d.npz",
        calib_x=rng.normal(size=(rows, *shape[1:])).astype(np.float32),
        test_x=rng.normal(size=(rows, *shape[1:])).astype(np.float32),
    )
    bundle = compiled(file, tmp_path, [])
    assert bundle.manifest["inputs"][0]["elements"] == np.prod(shape)
    dataset = samples_for(bundle, tmp_path / "d.npz")
    assert len(dataset) == 6
    theirs, ours = compare.run_onnxruntime(file, dataset)["y"], integer_outputs(bundle.graph, dataset)["y"]
    assert compare.output_metrics("y", theirs, ours).sqnr_db > 20
