"""Tensors without elements in a quantized network: a type for CastLike, an empty list of axes, inputs and parts with an axis of 0.
They need no samples and no range.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from glowembed.errors import UnsupportedModelError
from glowembed.judge.validation import validate
from glowembed.options.table import CompileOptions
from glowembed.pipeline import Bundle, compile_model
from glowembed.ranges.datasets import input_specs
from glowembed.ranges.datasets import load as load_samples
from glowembed.read.importer import load

RNG = np.random.default_rng(3)
CASES = {
    "a type": (helper.make_node("CastLike", ["r", "e"], ["y"]), TensorProto.FLOAT, [2, 6]),
    "no axes": (helper.make_node("ReduceSum", ["r", "e"], ["y"], noop_with_empty_axes=1), TensorProto.INT64, [2, 6]),
    "no axes, so all": (helper.make_node("ReduceSum", ["r", "e"], ["y"], keepdims=0), TensorProto.INT64, []),
}


def network(name: str, folder: Path, batch: int | str = 2, first: bool = False) -> Path:
    node, kind, shape = CASES[name]
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 6]),
        helper.make_tensor_value_info("e", kind, [0]),
    ]
    nodes = [helper.make_node("Relu", ["x"], ["r"]), node]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)
    graph = helper.make_graph(nodes, "g", inputs[:: -1 if first else 1], [output])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9), folder / "net.onnx")
    return folder / "net.onnx"


def compiled(name: str, folder: Path, dtype: str, data: Path) -> Bundle:
    options = CompileOptions("x86-64", isa="portable", dtype=dtype, name="net")
    return compile_model(network(name, folder), folder / "bundle", options, data)


@pytest.mark.parametrize("dtype", ["int8", "int16"])
@pytest.mark.parametrize("name", CASES)
def test_samples_of_the_others_are_enough(name: str, dtype: str, tmp_path: Path) -> None:
    data = tmp_path / "data.npz"
    np.savez(data, **{f"{role}_x": RNG.normal(size=(8, 2, 6)).astype(np.float32) for role in ("calib", "test")})
    bundle = compiled(name, tmp_path, dtype, data)
    assert bundle.graph.values["e"].shape == (0,)
    assert not any("batch" in note.text for note in bundle.notes), "the input is empty, and no batch that is open"
    assert validate(bundle, data, "host").bit_exact


@pytest.mark.parametrize("first", [False, True])
def test_tensor_files_are_numbered_by_all_inputs(first: bool, tmp_path: Path) -> None:
    path = network("no axes", tmp_path, first=first)
    x = RNG.normal(size=(2, 6)).astype(np.float32)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "input_0.pb").write_bytes(numpy_helper.from_array(np.zeros(0, np.int64)).SerializeToString())
    (tmp_path / "data" / f"input_{int(first)}.pb").write_bytes(numpy_helper.from_array(x).SerializeToString())
    found = load_samples(tmp_path / "data", input_specs(load(path)), "calib")
    assert np.array_equal(found.sample(0)["x"], x) and found.sample(0)["e"].shape == (0,)


def test_beside_an_open_batch_it_is_a_batch_too(tmp_path: Path) -> None:
    values = load(network("a type", tmp_path, batch="n"), {"x": (1, 6)}).values
    assert values["e"].shape == (1,), "as exporters write 0 for an open batch"


HOLLOW = {
    "a reduction": ([helper.make_node("ReduceSum", ["e", "axis"], ["y"], keepdims=1)], [2, 1, 3]),
    "an activation": ([helper.make_node("Relu", ["e"], ["y"])], [2, 0, 3]),
    "a product": ([helper.make_node("MatMul", ["e", "w"], ["y"])], [2, 0, 4]),
    "a move": ([helper.make_node("Transpose", ["e"], ["y"], perm=[2, 0, 1])], [3, 2, 0]),
    "joined": ([helper.make_node("Concat", ["e", "x"], ["y"], axis=1)], [2, 4, 3]),
    "joined with a constant of nothing": ([helper.make_node("Concat", ["x", "nothing"], ["y"], axis=1)], [2, 4, 3]),
    "nothing joined": ([helper.make_node("Concat", ["e", "e"], ["y"], axis=0)], [4, 0, 3]),
    "a part": (
        [helper.make_node("Split", ["x", "parts"], ["a", "y"], axis=1), helper.make_node("Relu", ["a"], ["b"])],
        [2, 4, 3],
    ),
    "a part of integers": (
        [
            helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"]),
            helper.make_node("Split", ["q", "parts"], ["a", "b"], axis=1),
            helper.make_node("DequantizeLinear", ["b", "scale", "zero"], ["d"]),
            helper.make_node("Relu", ["d"], ["y"]),
        ],
        [2, 4, 3],
    ),
}
"""Nodes of `x`, of 2x4x3, and `e`, of 2x0x3, and the shape of `y`."""

CONSTANTS = {
    "axis": np.asarray([1]),
    "w": RNG.normal(size=(3, 4)).astype(np.float32),
    "parts": np.asarray([0, 4]),
    "scale": np.float32(0.03),
    "zero": np.int8(3),
    "nothing": np.zeros((2, 0, 3), np.float32),
}


@pytest.mark.cc
@pytest.mark.parametrize("dtype", ["int8", "int16"])
@pytest.mark.parametrize("name", HOLLOW)
def test_an_axis_of_size_0(name: str, dtype: str, tmp_path: Path) -> None:
    nodes, shape = HOLLOW[name]
    shapes = {"x": [2, 4, 3], "e": [2, 0, 3]}
    read = {i for node in nodes for i in node.input}
    inputs = [helper.make_tensor_value_info(i, TensorProto.FLOAT, s) for i, s in shapes.items() if i in read]
    constants = [numpy_helper.from_array(np.asarray(array), i) for i, array in CONSTANTS.items() if i in read]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)]
    graph = helper.make_graph(nodes, "g", inputs, outputs, constants)
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9), tmp_path / "net.onnx"
    )
    data = tmp_path / "data.npz"
    samples = RNG.normal(size=(8, 2, 4, 3)).astype(np.float32)
    np.savez(data, **{f"{role}_x": samples for role in ("calib", "test")})
    options = CompileOptions("x86-64", isa="portable", dtype=dtype, name="net")
    bundle = compile_model(tmp_path / "net.onnx", tmp_path / "bundle", options, data if "x" in read else None)
    assert list(bundle.graph.values["y"].shape) == shape
    if "x" in read:
        assert validate(bundle, data, "host").bit_exact


def test_an_output_that_dequantizes_nothing_is_refused(tmp_path: Path) -> None:
    """Its integers would bear the name of the output, which only a renaming gives them; it was a crash."""
    pair = [
        helper.make_node(f"{op}Linear", [x, "s", "z"], [y])
        for op, x, y in (("Quantize", "x", "q"), ("Dequantize", "q", "y"))
    ]
    constants = [
        numpy_helper.from_array(np.array(0.1, np.float32), "s"),
        numpy_helper.from_array(np.array(0, np.int8), "z"),
    ]
    tensors = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 0, 4]) for name in "xy"]
    graph = helper.make_graph(pair, "g", tensors[:1], tensors[1:], constants)
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9), tmp_path / "net.onnx"
    )
    with pytest.raises(UnsupportedModelError, match="DequantizeLinear 'y': it makes an output"):
        load(tmp_path / "net.onnx")
