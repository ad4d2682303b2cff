"""The included example agrees with its README: its data, its layers, its accuracy in float."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest


@pytest.fixture(scope="module")
def data(digits: Path) -> dict[str, np.ndarray]:
    with np.load(digits / "data.npz", allow_pickle=False) as file:
        return dict(file)


@pytest.mark.parametrize(
    ("name", "shape", "dtype"),
    [
        ("calib_x", (128, 1, 8, 8), np.uint8),
        ("test_x", (450, 1, 8, 8), np.uint8),
        ("test_y", (450,), np.uint8),
        ("x_scale", (), np.float32),
        ("x_zero", (), np.float32),
    ],
)
def test_data(data: dict[str, np.ndarray], name: str, shape: tuple[int, ...], dtype: type) -> None:
    assert (data[name].shape, data[name].dtype) == (shape, dtype)


def test_no_held_back_image_calibrates(data: dict[str, np.ndarray]) -> None:
    calibration, held_back = ({image.tobytes() for image in data[name]} for name in ("calib_x", "test_x"))
    assert not calibration & held_back


def test_layers(digits: Path) -> None:
    ops = [node.op_type for node in onnx.load(digits / "model.onnx").graph.node]
    conv = ["Conv", "BatchNormalization", "Relu"]
    assert ops == [*conv, "MaxPool", *conv, *conv, *conv, "GlobalAveragePool", "Flatten", "Gemm"]


def test_float_accuracy(digits: Path, data: dict[str, np.ndarray]) -> None:
    session = onnxruntime.InferenceSession(digits / "model.onnx", providers=["CPUExecutionProvider"])
    images = ((data["test_x"] - data["x_zero"]) * data["x_scale"]).astype(np.float32)
    right = [
        session.run(None, {"image": image[None]})[0].argmax() == label
        for image, label in zip(images, data["test_y"], strict=True)
    ]
    assert sum(right) == 447
