"""A MobileNetV1 of a quarter of the width for images of 96 x 96 x 3, with two classes: the shape of MLPerf Tiny's visual wake
words, with seeded weights of our own. What it computes is of no use; what it needs is.

    python benchmarks/person.py FOLDER     writes model.onnx and data.npz
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SIZE, CHANNELS, CLASSES = 96, 3, 2
STEM = 8
BLOCKS = ((16, 1), (32, 2), (32, 1), (64, 2), (64, 1), (128, 2), *[(128, 1)] * 5, (256, 2), (256, 1))
"""Output channels and stride of each depthwise and pointwise pair."""

CALIBRATION, SAMPLES = 16, 8


class _Net:
    """Nodes one behind the other, with weights that keep the variance."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(96)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.last = "image"

    def constant(self, name: str, array: np.ndarray) -> str:
        self.constants.append(numpy_helper.from_array(array.astype(np.float32), name))
        return name

    def node(self, op: str, name: str, *constants: str, **attrs: object) -> None:
        self.nodes.append(helper.make_node(op, [self.last, *constants], [name], name=name, **attrs))
        self.last = name

    def conv(self, name: str, shape: tuple[int, int, int, int], stride: int, group: int = 1) -> None:
        weights = self.rng.normal(size=shape) * np.sqrt(2 / np.prod(shape[1:]))
        bias = self.rng.normal(size=shape[0]) * 0.1
        edge = shape[2] // 2
        pads = [edge, edge, edge, edge] if stride == 1 else [0, 0, edge, edge]
        self.node(
            "Conv", name, self.constant(f"{name}.w", weights), self.constant(f"{name}.b", bias),
            pads=pads, strides=[stride, stride], group=group,
        )  # fmt: skip
        self.node("Relu", f"{name}.relu")


def model() -> onnx.ModelProto:
    """The network, NCHW, float32."""
    net, width = _Net(), STEM
    net.conv("stem", (STEM, CHANNELS, 3, 3), 2)
    for i, (out, stride) in enumerate(BLOCKS):
        net.conv(f"depthwise{i}", (width, 1, 3, 3), stride, group=width)
        net.conv(f"pointwise{i}", (out, width, 1, 1), 1)
        width = out
    net.node("GlobalAveragePool", "pool")
    net.node("Flatten", "flat")
    weights = net.rng.normal(size=(CLASSES, width)) * np.sqrt(1 / width)
    net.node("Gemm", "scores", net.constant("fc.w", weights), net.constant("fc.b", np.zeros(CLASSES)), transB=1)
    net.node("Softmax", "probabilities")
    graph = helper.make_graph(
        net.nodes,
        "person",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, CHANNELS, SIZE, SIZE])],
        [helper.make_tensor_value_info(net.last, TensorProto.FLOAT, [1, CLASSES])],
        net.constants,
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="glowembed"
    )


def images(count: int, seed: int) -> np.ndarray:
    """Smooth noise in 0..1, NCHW: blocks of several sizes, one over the other."""
    rng = np.random.default_rng(seed)
    parts = [
        np.kron(rng.uniform(size=(count, CHANNELS, SIZE // b, SIZE // b)), np.ones((1, 1, b, b))) for b in (2, 8, 32)
    ]
    return (sum(parts) / len(parts)).astype(np.float32)


def write(folder: Path) -> Path:
    """model.onnx and data.npz (calib_x, test_x) in a folder, which is returned."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.onnx").write_bytes(model().SerializeToString())
    np.savez(folder / "data.npz", calib_x=images(CALIBRATION, 1), test_x=images(SAMPLES, 2))
    return folder


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    write(parser.parse_args().folder)
