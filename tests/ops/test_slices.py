"""Slice clamps starts and ends as onnxruntime does: every combination around the ends of an axis, and far outside."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from glowembed.graph.op import Malformed
from glowembed.ops.shared.slices import sliced
from glowembed.options.table import CompileOptions
from glowembed.pipeline import compile_model
from glowembed.reference import run_int

FAR = 2**63 - 1
FAR_AWAY = (FAR, FAR - 1, -FAR, -FAR - 1, 2**31 - 1, 2**31 - 2, 2**31, -(2**31))
STEPS = (1, 2, 3, -1, -2, -3, FAR, -FAR)


def network(size: int, constants: dict[str, int], folded: bool = False) -> onnx.ModelProto:
    """A Slice of one axis, whose numbers are constants or inputs; folded: of a constant, to which x is added."""
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1 if folded else size])
    y = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
    numbers = [n for n in ("s", "e", "t") if n not in constants]
    nodes = [helper.make_node("Slice", ["w" if folded else "x", "s", "e", "", "t"], ["part" if folded else "y"])]
    stored = [numpy_helper.from_array(np.array([v]), n) for n, v in constants.items()]
    if folded:
        nodes.append(helper.make_node("Add", ["x", "part"], ["y"]))
        stored.append(numpy_helper.from_array(np.arange(size, dtype=np.float32), "w"))
    inputs = [x, *(helper.make_tensor_value_info(n, onnx.TensorProto.INT64, [1]) for n in numbers)]
    graph = helper.make_graph(nodes, "g", inputs, [y], stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=9)


@pytest.mark.parametrize("size", range(1, 5))
def test_every_clamp_is_that_of_onnxruntime(size: int) -> None:
    session = onnxruntime.InferenceSession(network(size, {}).SerializeToString())
    x, places = np.arange(size, dtype=np.float32), (*range(-size - 2, size + 3), *FAR_AWAY)
    for start, end, step in product(places, places, STEPS):
        (theirs,) = session.run(None, {"x": x, "s": np.array([start]), "e": np.array([end]), "t": np.array([step])})
        assert list(sliced(start, end, step, size)) == theirs.tolist(), (start, end, step)


def test_a_step_of_zero_is_refused() -> None:
    with pytest.raises(Malformed, match="step of 0"):
        sliced(0, 3, 0, 3)


BEFORE: dict[str, dict[str, int]] = {
    "from before the first element": {"s": -10, "e": -FAR, "t": -1},
    "backwards to the end": {"s": 3, "e": FAR, "t": -2},
}


@pytest.mark.parametrize("name", BEFORE)
@pytest.mark.parametrize("dtype", ["float32", "model"])
@pytest.mark.parametrize("folded", [False, True], ids=["computed", "folded"])
def test_networks_have_the_elements_of_onnxruntime(name: str, dtype: Any, folded: bool, tmp_path: Path) -> None:
    model, x = network(5, BEFORE[name], folded), np.ones(1, np.float32) if folded else np.arange(5, dtype=np.float32)
    (theirs,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    onnx.save(model, tmp_path / "m.onnx")
    bundle = compile_model(tmp_path / "m.onnx", tmp_path / "b", CompileOptions(target="x86-64", dtype=dtype))
    assert theirs.size and np.array_equal(run_int(bundle.graph, {"x": x})["y"], theirs)
