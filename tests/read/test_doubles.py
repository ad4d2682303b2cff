"""--float64-as-float32: float64 in a model becomes float32 in the bundle, on every target, and a note says so."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from glowembed.__main__ import main
from glowembed.errors import UsageError
from glowembed.options.table import CompileOptions
from glowembed.pipeline import compile_model
from glowembed.read.importer import load
from glowembed.reference import run_int

KINDS = (TensorProto.FLOAT, TensorProto.DOUBLE)


def network(folder: Path, factor: float = 0.1, kind: int = TensorProto.DOUBLE) -> Path:
    """Types of float64 wherever a model can have them: an input, an output, an initializer, two kinds of constants, a cast, and a
    graph inside of a node.
    """
    wide = np.float64 if kind == TensorProto.DOUBLE else np.float32
    held = numpy_helper.from_array(np.asarray([3], wide), "held")
    unequal = helper.make_tensor_value_info("unequal", kind, [1, 4])
    nodes = [
        helper.make_node("Mul", ["x", "factor"], ["m"]),
        helper.make_node("Cast", ["n"], ["c"], to=kind),
        helper.make_node("Constant", [], ["k"], value=held),
        helper.make_node("ConstantOfShape", ["size"], ["f"], value=held),
        helper.make_node("Sum", ["m", "c", "k", "f"], ["s"]),
        helper.make_node("ReduceMax", ["n"], ["top"], keepdims=0),
        helper.make_node("Greater", ["top", "zero"], ["more"]),
    ]
    branches = {}
    for name, op in (("then_branch", "Exp"), ("else_branch", "Neg")):
        inner = helper.make_node(op, ["s"], ["unequal"])
        branches[name] = helper.make_graph([inner], name, [], [unequal])
    nodes.append(helper.make_node("If", ["more"], ["y"], **branches))
    constants = {"factor": np.asarray(factor, wide), "size": np.asarray([4], np.int64), "zero": np.asarray(0, np.int32)}
    graph = helper.make_graph(
        nodes,
        "g",
        [
            helper.make_tensor_value_info("x", kind, [1, 4]),
            helper.make_tensor_value_info("n", TensorProto.INT32, [1, 4]),
        ],
        [helper.make_tensor_value_info("y", kind, [1, 4])],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    path = folder / f"m{kind}.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), path)
    return path


@pytest.mark.parametrize("numbers", [[1, 2, -3, 0], [-1, -2, -3, 0]], ids=["then", "else"])
def test_the_bundle_is_that_of_the_same_model_in_float32(numbers: list[int], tmp_path: Path) -> None:
    options = CompileOptions("cortex-m4", dtype="model", float64_as_float32=True, name="net")
    given = {"x": np.float32([[0.3, -1.7, 2.9, 0]]), "n": np.int32([numbers])}
    results = []
    for kind in KINDS:
        bundle = compile_model(network(tmp_path, kind=kind), tmp_path / f"b{kind}", options)
        assert {v.dtype for v in bundle.graph.values.values()}.isdisjoint({"float64"})
        told = [note.text for note in bundle.notes if "float64 is computed as float32" in note.text]
        assert len(told) == (kind == TensorProto.DOUBLE), "a model without float64 needs no note"
        results.append(run_int(bundle.graph, given)["y"])
    assert results[0].dtype == np.float32 and np.isfinite(results[0]).all()
    assert np.array_equal(*results)


def test_the_manifest_records_the_option_only_where_it_is_given() -> None:
    assert "float64_as_float32" not in CompileOptions().recorded()
    assert CompileOptions(float64_as_float32=True).recorded()["float64_as_float32"] is True


def test_the_option_on_the_command_line_and_its_validation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["compile", str(network(tmp_path)), "--dtype", "model", "-o", str(tmp_path / "b"), "--target"]
    assert main([*arguments, "cortex-m4"]) == 3
    assert "--float64-as-float32" in capsys.readouterr().err
    assert main([*arguments, "x86-64", "--float64-as-float32"]) == 0
    assert "float64 is computed as float32" in capsys.readouterr().err
    data = tmp_path / "data.npz"
    np.savez(data, test_x=np.float64([[0.3, -1.7, 2.9, 0]]), test_n=np.int32([[1, 2, 3, 4]]))
    assert main(["validate", str(tmp_path / "b"), "--data", str(data)]) == 0


def test_without_the_option_float64_stays(tmp_path: Path) -> None:
    assert load(network(tmp_path), exact=True).values["y"].dtype == "float64"


def test_a_constant_that_float32_does_not_hold(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"the constant 'factor' holds 1e\+300.*without --float64-as-float32"):
        load(network(tmp_path, 1e300), exact=True, float64_as_float32=True)
