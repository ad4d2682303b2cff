"""Generated operators on emulated boards: the bits of the reference, integers as inputs and outputs, and a stack below its bound."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from glowembed.__main__ import main
from glowembed.options.table import CompileOptions
from glowembed.pipeline import compile_model
from glowembed.reference import run_int
from glowembed.run.host import load

RNG = np.random.default_rng(5)
TARGETS = ("cortex-m4", "cortex-m0", "cortex-m55", "riscv32")


def attention(folder: Path) -> Path:
    """Normalization, products of computed tensors, a softmax, a table of embeddings that integers index, two outputs."""
    nodes = [
        helper.make_node("Gather", ["table", "words"], ["e"]),
        helper.make_node("LayerNormalization", ["e", "scale", "bias"], ["n"]),
        helper.make_node("MatMul", ["n", "w"], ["q"]),
        helper.make_node("Transpose", ["n"], ["k"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["q", "k"], ["s"]),
        helper.make_node("Softmax", ["s"], ["a"], axis=-1),
        helper.make_node("MatMul", ["a", "n"], ["m"]),
        helper.make_node("Sin", ["m"], ["y"]),
        helper.make_node("ArgMax", ["m"], ["i"], axis=-1),
    ]
    constants = {
        "table": RNG.standard_normal((20, 8)).astype(np.float32),
        "scale": np.ones(8, np.float32),
        "bias": np.zeros(8, np.float32),
        "w": RNG.standard_normal((8, 8)).astype(np.float32),
    }
    graph = helper.make_graph(
        nodes,
        "attention",
        [helper.make_tensor_value_info("words", TensorProto.INT32, [1, 6])],
        [
            helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 6, 8]),
            helper.make_tensor_value_info("i", TensorProto.INT64, [1, 6, 1]),
        ],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    path = folder / "attention.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    return path


@pytest.mark.qemu
@pytest.mark.parametrize("target", TARGETS)
def test_the_bits_are_those_of_the_reference(target: str, tmp_path: Path) -> None:
    words = RNG.integers(-20, 20, (4, 6)).astype(np.int32)
    np.savez(tmp_path / "data.npz", calib_words=words, test_words=words)
    bundle = tmp_path / "bundle"
    model = str(attention(tmp_path))
    assert main(["compile", model, "--target", target, "--dtype", "model", "-o", str(bundle)]) == 0
    report = tmp_path / "result.json"
    assert main(["validate", str(bundle), "--data", str(tmp_path / "data.npz"), "--json", str(report)]) == 0
    result = json.loads(report.read_text())
    assert result["bit_exact"]
    assert all(output["sqnr_db"] > 100 for output in result["outputs"])
    assert result["memory"]["stack"] <= result["memory"]["stack_computed"]


@pytest.mark.cc
def test_indices_beyond_a_table_are_clamped(tmp_path: Path) -> None:
    """No index in the data reads outside of a tensor: the C does what the reference does for every index."""
    bundle = compile_model(attention(tmp_path), tmp_path / "bundle", CompileOptions(target="generic", dtype="model"))
    host = load(tmp_path / "bundle")
    for words in ([[20, -21, 2**31 - 1, -(2**31), 0, 19]], [[10**9, -(10**9), 1, -1, 25, -25]]):
        given = {"words": np.array(words, np.int32)}
        expected, found = run_int(bundle.graph, given), host.run_stored(given)
        assert all(np.array_equal(expected[name], found[name]) for name in ("y", "i"))


def test_numbers_that_the_type_of_an_input_lacks_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = tmp_path / "bundle"
    assert main(["compile", str(attention(tmp_path)), "--target", "x86-64", "--dtype", "model", "-o", str(bundle)]) == 0
    np.savez(tmp_path / "data.npz", test_words=np.full((2, 6), 0.5, np.float32))
    assert main(["validate", str(bundle), "--data", str(tmp_path / "data.npz")]) == 2
    assert "numbers that int32" in capsys.readouterr().err


def test_float64_is_for_targets_that_have_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x, y = (helper.make_tensor_value_info(name, TensorProto.DOUBLE, [1, 4]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Exp", ["x"], ["y"])], "g", [x], [y])
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    arguments = ["compile", str(path), "-o", str(tmp_path / "b")]
    assert main([*arguments, "--target", "x86-64", "--dtype", "model"]) == 0
    assert main([*arguments, "--target", "cortex-m4", "--dtype", "float32"]) == 0
    capsys.readouterr()
    assert main([*arguments, "--target", "cortex-m4", "--dtype", "model"]) == 3
    told = capsys.readouterr().err
    assert "'x' is float64" in told and "--float64-as-float32" in told
