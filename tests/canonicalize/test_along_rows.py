"""An axis that lies along the columns of images becomes their rows; every value agrees with onnxruntime, and no Transpose is left."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from small_models import all_values, compare, model, node, saved, weights

from glowembed.canonicalize import canonicalize
from glowembed.canonicalize.along_rows import along_rows
from glowembed.graph.ir import Graph
from glowembed.graph.op import is_a
from glowembed.ops.layout import Transpose
from glowembed.read.importer import load

BANDS, TIME, OTHER = 6, 11, 4
IMAGE = [1, 3, BANDS, TIME]
W = weights(OTHER, 3, 2, 3)

Case = tuple[list[onnx.NodeProto], list[int], Mapping[str, Any], int]
CASES: dict[str, Case] = {
    "strides, dilations and pads": (
        [node("Conv", "x w", "y", strides=[2, 1], dilations=[1, 2], pads=[0, 1, 1, 3])], IMAGE, {"w": W}, 3,
    ),
    "depthwise": ([node("Conv", "x w", "y", group=3)], IMAGE, {"w": weights(3, 1, 2, 5)}, 3),
    "transposed convolution": (
        [node("ConvTranspose", "x w", "y", strides=[2, 3], pads=[1, 0, 0, 2], output_padding=[1, 2])],
        IMAGE, {"w": weights(3, 4, 2, 3)}, 3,
    ),
    "maximum": ([node("MaxPool", "x", "y", kernel_shape=[2, 3], strides=[1, 2])], IMAGE, {}, 3),
    "mean with counted padding": (
        [node("AveragePool", "x", "y", kernel_shape=[2, 3], strides=[2, 2], pads=[0, 1, 1, 1], ceil_mode=1, count_include_pad=1)],
        IMAGE, {}, 3,
    ),
    "mean without the padding": (
        [node("AveragePool", "x", "y", kernel_shape=[3, 2], pads=[2, 0, 0, 1])], IMAGE, {}, 3,
    ),
    "resize": ([node("Resize", "x _ s", "y", mode="linear")], IMAGE, {"s": np.float32([1, 1, 2, 3])}, 3),
    "a constant for each band": ([node("Conv", "x w", "c"), node("Mul", "c k", "y")], IMAGE, {"w": W, "k": weights(1, BANDS - 1, 1)}, 3),
    "mean of all": ([node("Conv", "x w", "c"), node("GlobalAveragePool", "c", "y")], IMAGE, {"w": W}, 3),
    "classifier of all": (
        [node("Conv", "x w", "c"), node("Flatten", "c", "f"), node("MatMul", "f d", "y")],
        IMAGE, {"w": W, "d": weights(OTHER * (BANDS - 1) * (TIME - 2), 3)}, 3,
    ),
    "bands become channels": (
        [node("Conv", "x w", "c"), node("Squeeze", "c a", "s"), node("Conv", "s v", "z"), node("GlobalMaxPool", "z", "y")],
        IMAGE, {"w": weights(OTHER, 3, BANDS, 3), "a": [2], "v": weights(5, OTHER, 3)}, 3,
    ),
    "an image of one row": ([node("Conv", "x w", "y", pads=[0, 1, 0, 1])], [1, 3, 1, TIME], {"w": weights(4, 3, 1, 3)}, 3),
    "no axis for channels": (
        [node("Unsqueeze", "x a", "u"), node("Conv", "u w", "c"), node("GlobalAveragePool", "c", "y")],
        [1, BANDS, TIME], {"a": [1], "w": weights(4, 1, 2, 3)}, 2,
    ),
    "rows that the model turns into columns": (
        [node("Transpose", "x", "t", perm=[0, 2, 1]), node("Unsqueeze", "t a", "u"), node("Conv", "u w", "c"), node("GlobalMaxPool", "c", "y")],
        [1, TIME, BANDS], {"a": [1], "w": weights(4, 1, 2, 3)}, 1,
    ),
    "channels last": (
        [node("Transpose", "x", "t", perm=[0, 3, 1, 2]), node("Conv", "t w", "c"), node("GlobalMaxPool", "c", "y")],
        [1, BANDS, TIME, 3], {"w": W}, 2,
    ),
}  # fmt: skip


def loaded(case: Case, folder: Path) -> tuple[onnx.ModelProto, Graph]:
    nodes, shape, constants, axis = case
    proto = model(nodes, {"x": shape}, constants)
    return proto, load(saved(proto, folder), input_layout="nhwc" if axis > 1 else "model")


@pytest.mark.parametrize("name", CASES)
def test_columns_become_rows(name: str, tmp_path: Path) -> None:
    proto, graph = loaded(CASES[name], tmp_path)
    shape, axis = CASES[name][1], CASES[name][3]
    sample = {"x": np.random.default_rng(0).uniform(-2, 3, shape).astype(np.float32)}
    expected = all_values(proto, sample)
    turned = along_rows(graph, "x", axis)
    result = canonicalize(turned)
    for candidate in (turned, result):
        compare(candidate, sample, expected)
    value = result.values["x"]
    assert value.shape[1] == TIME
    assert (value.layout or range(4))[1] == axis
    moved = [n for n in result.nodes if is_a(n, Transpose) and n.outputs[0] not in result.outputs]
    assert not moved, "the Transposes cancel"


@pytest.mark.parametrize(("name", "axis"), [("z", 3), ("x", 0), ("x", 4), ("x", 2)])
def test_nothing_to_exchange(name: str, axis: int, tmp_path: Path) -> None:
    """Axis 2 of channels-first images is their rows already."""
    _, graph = loaded(CASES["depthwise"], tmp_path)
    assert along_rows(graph, name, axis) is graph
