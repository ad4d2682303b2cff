"""`inspect --coverage`: how each operator of a model is computed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from small_models import model, node, saved, weights
from typer.testing import CliRunner

from glowembed.__main__ import app
from glowembed.judge.coverage import CONVERSIONS, Row
from glowembed.judge.inspection import inspect_model
from glowembed.options.table import CompileOptions
from glowembed.pipeline import compile_model


def network() -> onnx.ModelProto:
    nodes = [
        node("Conv", "x w", "c", pads=[1, 1, 1, 1]),
        node("Relu", "c", "r"),
        node("ReduceProd", "r", "s", axes=[3]),
        node("Sin", "s", "t"),
        node("Tile", "t times", "y"),
    ]
    constants = {"w": weights(4, 3, 3, 3), "times": [1, 1, 1, 2]}
    return model(nodes, {"x": (1, 3, 8, 8)}, constants)


def rows(path: Path, target: str) -> dict[str, Row]:
    return {row.operator: row for row in inspect_model(path, target=target, coverage=True).coverage}


@pytest.mark.parametrize(("target", "kernels"), [("cortex-m4", {"fast", "portable"}), ("generic", {"portable"})])
def test_each_operator_has_a_row(target: str, kernels: set[str], tmp_path: Path) -> None:
    found = rows(saved(network(), tmp_path), target)
    assert set(found) == {"Conv", "Relu", "ReduceProd", "Sin", "Tile", CONVERSIONS}
    assert (found["Conv"].dtypes, found["Conv"].nodes) == (("int8",), 1)
    assert set(found["Conv"].kernels) == kernels, "the input is brought to channels-last for it by portable C"
    assert found["Relu"].kernels == ("none",) and found["Relu"].cycles == 0
    assert (found["ReduceProd"].dtypes, found["ReduceProd"].kernels) == (("float32",), ("generated",))
    assert (found["Tile"].dtypes, found["Tile"].kernels) == (("int8",), ("generated",))
    assert found["Sin"].dtypes == ("int8",)
    assert found[CONVERSIONS].nodes == 0 and set(found[CONVERSIONS].dtypes) == {"int8", "float32"}
    assert sum(row.share for row in found.values()) == pytest.approx(1.0)
    assert list(found) == sorted(found, key=lambda name: (-found[name].cycles, name))


def test_nodes_inside_of_a_function_body_count_for_the_operator(tmp_path: Path) -> None:
    proto = model([node("MeanVarianceNormalization", "x", "y", axes=[2, 3])], {"x": (1, 3, 8, 8)})
    found = rows(saved(proto, tmp_path), "cortex-m4")
    assert found["MeanVarianceNormalization"].share > 0.5


def test_a_generated_operator_says_why_no_kernel_of_its_own_computes_it(tmp_path: Path) -> None:
    nodes = [
        node("Resize", "x none scales", "a"),
        node("Resize", "a none scales", "b", mode="cubic", cubic_coeff_a=-9.0),
        node("CumSum", "b axis", "y"),
    ]
    constants = {"none": np.zeros(0, np.float32), "scales": np.array([1, 1, 2, 2], np.float32), "axis": 2}
    path = saved(model(nodes, {"x": (1, 2, 4, 4)}, constants), tmp_path)
    found = rows(path, "cortex-m4")
    assert found["Resize"].nodes == 2 and set(found["Resize"].kernels) == {"portable", "generated"}
    assert found["Resize"].reasons == ("its weights are very large, or all excluded",), "the nearest one has a kernel"
    assert found["CumSum"].reasons == ("no kernels of its own compute it",)
    shown = CliRunner().invoke(app, ["inspect", str(path), "--coverage"], env={"COLUMNS": "200"})
    assert shown.exit_code == 0 and "generated, because" in shown.stdout and "very large" in shown.stdout


def test_a_refused_model_shows_which_operators_are_in_the_way(tmp_path: Path) -> None:
    proto = model([node("Relu", "x", "r"), node("RandomNormalLike", "r", "y")], {"x": (1, 3)})
    path = str(saved(proto, tmp_path))
    done = CliRunner().invoke(app, ["inspect", path, "--coverage", "--json", "-"])
    assert done.exit_code == 3
    first, second = json.loads(done.stdout)["coverage"]
    assert first["operator"] == "RandomNormalLike" and first["nodes"] == 1 and first["refused"]
    assert second["operator"] == "Relu" and not second["refused"]
    shown = CliRunner().invoke(app, ["inspect", path, "--coverage"])
    assert shown.exit_code == 3 and "not supported, because" in shown.stdout


def test_the_table_is_shown_and_printed_as_json(tmp_path: Path) -> None:
    path = str(saved(network(), tmp_path))
    shown = CliRunner().invoke(app, ["inspect", path, "--coverage"])
    assert shown.exit_code == 0 and "Operators on cortex-m4" in shown.stdout and "generated" in shown.stdout
    printed = json.loads(CliRunner().invoke(app, ["inspect", path, "--coverage", "--json", "-"]).stdout)
    assert {"operator", "nodes", "dtypes", "kernels", "cycles", "share", "refused", "reasons"} == set(
        printed["coverage"][0]
    )
    assert json.loads(CliRunner().invoke(app, ["inspect", path, "--json", "-"]).stdout)["coverage"] == []


def test_multiply_accumulates_are_those_of_the_bundle(tmp_path: Path) -> None:
    """Also of layers whose products are inside, each at its own node."""
    nodes = [
        node("LSTM", "x w r", "a h", hidden_size=5),
        node("Squeeze", "h axes", "s"),
        node("MatMul", "s d", "y"),
    ]
    constants = {"w": weights(1, 20, 3), "r": weights(1, 20, 5), "d": weights(5, 2), "axes": [0]}
    path = saved(model(nodes, {"x": (4, 1, 3)}, constants), tmp_path)
    found = inspect_model(path, target="cortex-m4")
    assert [layer.macs for layer in found.layers if layer.macs] == [4 * 20 * (3 + 5), 5 * 2]
    np.savez(tmp_path / "data.npz", calib_x=np.ones((2, 4, 1, 3), np.float32))
    bundle = compile_model(path, tmp_path / "net", CompileOptions("cortex-m4"), tmp_path / "data.npz")
    assert found.macs == bundle.manifest["macs"] == 650
