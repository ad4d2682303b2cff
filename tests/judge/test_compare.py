"""Metrics on small cases worked out by hand, and the float reference against a model of known arithmetic."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from glowembed.errors import ToolError
from glowembed.judge import compare
from glowembed.ranges.datasets import Dataset


def test_metrics_by_hand() -> None:
    expected, found = np.array([[3.0, 4.0], [0.0, 1.0]]), np.array([[3.0, 4.0], [1.0, 0.0]])
    m = compare.output_metrics("y", expected, found)
    assert m.cosine == pytest.approx(25 / 26)
    assert m.rmse == pytest.approx(np.sqrt(2 / 4))
    assert (m.max_abs, m.top1_agreement) == (1.0, 0.5)
    assert m.sqnr_db == pytest.approx(10 * np.log10(26 / 2))


# case -> (expected, found, cosine, sqnr_db, top1_agreement)
EDGES = {
    "exact": ([[1.0, 2.0]], [[1.0, 2.0]], 1.0, 200.0, 1.0),
    "both zero": ([[0.0]], [[0.0]], 1.0, 200.0, None),
    "signal zero": ([[0.0]], [[1.0]], 0.0, -200.0, None),
    "opposite": ([[1.0, 0.0]], [[-1.0, 0.0]], -1.0, 10 * np.log10(1 / 4), 0.0),
    "image": ([[[1.0, 2.0], [3.0, 4.0]]], [[[1.0, 2.0], [3.0, 4.0]]], 1.0, 200.0, None),
    "vector with axes of 1": ([[[[1.0, 2.0]]]], [[[[1.0, 2.0]]]], 1.0, 200.0, 1.0),
}


@pytest.mark.parametrize("case", EDGES)
def test_edges(case: str) -> None:
    expected, found, cosine, sqnr, top1 = EDGES[case]
    m = compare.output_metrics("y", np.array(expected), np.array(found))
    assert m.cosine == pytest.approx(cosine)
    assert m.sqnr_db == pytest.approx(sqnr)
    assert m.top1_agreement == top1


CLASSES = {"y": np.array([[0.1, 0.9], [0.8, 0.2]])}
FLIPPED = {"y": np.array([[0.9, 0.1], [0.8, 0.2]])}


def test_accuracy() -> None:
    top1 = compare.accuracy(np.array([1, 0]), CLASSES, FLIPPED)
    assert top1 is not None
    assert top1.json() == {"metric": "top1", "float": 1.0, "quantized": 0.5}
    rmse = compare.accuracy(np.array([[0.1, 0.9], [0.8, 0.2]]), CLASSES, FLIPPED)
    assert rmse is not None
    assert (rmse.metric, rmse.of_float) == ("rmse", 0.0)
    assert rmse.of_quantized == pytest.approx(np.sqrt(2 * 0.64 / 4))
    assert compare.accuracy(None, CLASSES, FLIPPED) is None
    assert compare.accuracy(np.zeros((2, 5)), CLASSES, FLIPPED) is None


def test_first_difference() -> None:
    expected = {"a": np.zeros((3, 2), np.int8), "b": np.zeros((3, 1, 2), np.int8)}
    found = {name: array.copy() for name, array in expected.items()}
    assert compare.first_difference(expected, found) is None
    found["a"][2, 1] = 1
    found["b"][1, 0, 1] = -5
    first = compare.first_difference(expected, found)
    assert first is not None
    assert first.json() == {"sample": 1, "output": "b", "index": [0, 1], "expected": 0, "found": -5}


def test_floats_are_compared_by_their_bits() -> None:
    expected, found = {"y": np.array([[0.0]], np.float32)}, {"y": np.array([[-0.0]], np.float32)}
    assert compare.first_difference(expected, found) is not None
    nan = {"y": np.array([[np.nan]], np.float32)}
    assert compare.first_difference(nan, nan) is None


def test_other_shapes_are_not_compared() -> None:
    with pytest.raises(ValueError, match="cannot be compared"):
        compare.first_difference({"y": np.zeros((1, 2), np.int8)}, {"y": np.zeros((1, 3), np.int8)})


def model(folder: Path, batch: int | str) -> Path:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 2])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, 2])
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", [x], [y])
    path = folder / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    return path


@pytest.mark.parametrize("batch", [1, "batch"])
def test_onnxruntime(batch: int | str, tmp_path: Path) -> None:
    array = np.arange(6, dtype=np.float32).reshape(3, 2)
    outputs = compare.run_onnxruntime(model(tmp_path, batch), Dataset({"x": array}, shapes={"x": (1, 2)}))
    np.testing.assert_array_equal(outputs["y"], -array)


def test_inputs_may_be_scalars(tmp_path: Path) -> None:
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, []) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", values[:1], values[1:])
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    outputs = compare.run_onnxruntime(path, Dataset({"x": np.array([1.5, -2.0], np.float32)}, shapes={"x": ()}))
    np.testing.assert_array_equal(outputs["y"], [-1.5, 2.0])


def test_what_onnxruntime_cannot_run_is_a_tool_error(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_text("hello")
    with pytest.raises(ToolError, match=r"cannot run .*model\.onnx"):
        compare.run_onnxruntime(tmp_path / "model.onnx", Dataset({"x": np.zeros((1, 2))}, shapes={"x": (1, 2)}))
