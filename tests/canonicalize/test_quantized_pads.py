"""A Pad between DequantizeLinear and QuantizeLinear becomes padding of the convolution, where it pads with the zero point of one type."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from small_models import model, node, saved

from glowembed import Source, compile_model
from glowembed.judge.compare import run_onnxruntime
from glowembed.judge.tune import integer_outputs
from glowembed.ranges import datasets

SCALE = 0.02


@pytest.mark.parametrize(
    ("value", "scale", "zero", "folded"),
    [
        (0.0, SCALE, 5, True),
        (0.0, SCALE, -128, True),
        (0.5, SCALE, 5, False),
        (0.0, 2 * SCALE, 5, False),
        (0.0, SCALE, 7, False),
    ],
    ids=["zeros", "zeros at the end", "another value", "another scale", "another zero point"],
)
def test_a_pad_of_a_quantized_model(value: float, scale: float, zero: int, folded: bool, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    first = zero if folded or zero == 5 else 5
    constants = {
        "s": np.float32(SCALE), "z": np.int8(first), "t": np.float32(scale), "u": np.int8(zero), "w": np.float32(0.01),
        "none": np.int8(0), "k": rng.integers(-100, 100, (4, 2, 3, 3)).astype(np.int8), "o": np.float32(0.1),
        "oz": np.int8(-3), "p": np.array([0, 0, 0, 1, 0, 0, 1, 1]), "v": np.float32(value),
    }  # fmt: skip
    nodes = [
        node("QuantizeLinear", "x s z", "q"), node("DequantizeLinear", "q s z", "d"), node("Pad", "d p v", "e"),
        node("QuantizeLinear", "e t u", "f"), node("DequantizeLinear", "f t u", "g"),
        node("DequantizeLinear", "k w none", "l"), node("Conv", "g l", "c", strides=[2, 2]),
        node("QuantizeLinear", "c o oz", "r"), node("DequantizeLinear", "r o oz", "y"),
    ]  # fmt: skip
    file = saved(model(nodes, {"x": (1, 2, 7, 8)}, constants), tmp_path)
    bundle = compile_model(file, tmp_path / "b")
    assert ("fill_s8" not in {n.op for n in bundle.graph.nodes}) == folded
    dataset = datasets.load(Source(random=4), datasets.input_specs(bundle.graph), "test")
    theirs, ours = run_onnxruntime(file, dataset)["y"], integer_outputs(bundle.graph, dataset)["y"]
    assert np.abs(theirs - ours.reshape(theirs.shape)).max() <= 0.1001  # one step: halves are rounded differently
