"""Operators of the user: examples/own-op goes through every command, and a faulty folder gives a clear error."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from checkout import ROOT
from onnx import TensorProto, helper, save

from glowembed.errors import UsageError
from glowembed.graph import own, registry
from glowembed.ops.shared.definition import DEFINITIONS
from glowembed.read.importer import load, problems
from glowembed.reference import run_float

EXAMPLE = ROOT / "examples" / "own-op"


def glowembed(*words: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "glowembed", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **environment})


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("own")
    subprocess.run([sys.executable, EXAMPLE / "make_model.py", folder], check=True)
    return folder


@pytest.mark.cc
@pytest.mark.parametrize(
    ("target", "board"),
    [("x86-64", "host"), pytest.param("cortex-m4", "mps2-an386", marks=[pytest.mark.qemu, pytest.mark.arm_gcc])],
)
def test_the_example_is_compiled_and_proved(target: str, board: str, network: Path) -> None:
    data, bundle = network / "data.npz", network / target
    made = glowembed(
        "compile", network / "model.onnx", "--ops", EXAMPLE / "ops", "--data", data, "--target", target, "-o", bundle
    )
    assert made.returncode == 0, made.stderr
    kernels = next(bundle.glob("*_kernels.h")).read_text("ascii")
    assert "ge_median3_s8" in kernels and "int8_t median3_s8_of" in kernels
    words = ("validate", bundle, "--data", data, "--board", board, "--json", bundle / "result.json")
    done = glowembed(*words, GLOWEMBED_OPS=str(EXAMPLE / "ops"))
    assert done.returncode == 0, done.stderr
    result = json.loads((bundle / "result.json").read_text("utf-8"))
    assert result["bit_exact"] and result["outputs"][0]["sqnr_db"] > 30
    unknown = glowembed(*words)
    assert unknown.returncode == 2 and "'median3_s8'" in unknown.stderr and "--ops FOLDER" in unknown.stderr


def test_without_the_folder_the_operators_are_refused(network: Path) -> None:
    done = glowembed("inspect", network / "model.onnx")
    assert done.returncode == 3 and "--ops" in done.stdout
    there = glowembed("inspect", network / "model.onnx", f"--ops={EXAMPLE / 'ops'}", "--coverage", "--json", "-")
    rows = {row["operator"]: row for row in json.loads(there.stdout)["coverage"]}
    assert rows["Median3"]["kernels"] == ["portable"] and rows["Snake"]["dtypes"] == ["int8"]
    assert glowembed("targets", "--ops").returncode == 2


@pytest.fixture
def clean(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Restores the registry after a test that adds to it."""
    monkeypatch.setenv(own.VARIABLE, "")
    before = dict(registry.definitions())
    yield
    DEFINITIONS.clear()
    DEFINITIONS.update(before)
    os.environ[own.VARIABLE] = ""
    own._loaded.cache_clear()
    for known in (registry.ops, registry.kernel_ops, registry.lowerings, registry.importers, registry.definitions):
        known.cache_clear()


OP = """
from glowembed.graph.op import Kernel, KernelOp, Op
class Own(Op):
    name = "{name}"
    onnx = ("{onnx}",)
    def infer(self, attrs, shapes): return (shapes[0],)
    def float_ref(self, attrs, inputs): return (inputs[0],)
    def lower(self, node, c): pass
OPS = (Own(),)
"""

WRONG = {
    "no Python file": ({}, "no Python file"),
    "a syntax error": ({"a.py": "x = 1\ndef f(:\n"}, r"a\.py:2: SyntaxError"),
    "an exception": ({"a.py": "x = 1\ny = x / 0\n"}, r"a\.py:2: ZeroDivisionError"),
    "an exception inside of a library": ({"a.py": "import json\n\njson.loads('{')\n"}, r"a\.py:3: JSONDecodeError"),
    "an import that is not there": ({"a.py": "import nothing_of_this_name\n"}, r"a\.py:1: ModuleNotFoundError"),
    "the name of one of our ops": ({"a.py": OP.format(name="Conv", onnx="my:Conv")}, "two ops are named 'Conv'"),
    "two files with one name": ({n: OP.format(name="Own", onnx="my:Own") for n in ("a.py", "b.py")}, "two ops are named 'Own'"),
    "an operator that we import": ({"a.py": OP.format(name="Own", onnx="Conv")}, "two importers are named 'Conv'"),
    "an operator that we define": (
        {"a.py": "from glowembed.ops.shared.definition import operator\n@operator('Sin')\ndef f(n): pass\n"},
        "'Sin' has a definition already",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_in_a_folder_is_said(case: str, clean: None, tmp_path: Path) -> None:
    files, words = WRONG[case]
    for name, text in files.items():
        (tmp_path / name).write_text(text, "utf-8")
    with pytest.raises(UsageError, match=words):
        registry.use_ops(tmp_path)


NAMESAKES = """
from glowembed.ops.shared.definition import elementwise, operator
@operator("my.ops:Relu", "my.ops:Identity", "my.ops:QLinearAdd")
def twice(n):
    elementwise(n, [n.input(0)], lambda x: x + x)
"""


@pytest.mark.parametrize("kind", ["Relu", "Identity", "QLinearAdd"])
def test_an_operator_with_the_name_of_one_of_onnx_is_what_its_domain_says(
    kind: str, clean: None, tmp_path: Path
) -> None:
    (tmp_path / "ops").mkdir()
    (tmp_path / "ops" / "namesakes.py").write_text(NAMESAKES, "utf-8")
    tensors = [helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, 3)) for name in "xy"]
    made = helper.make_graph([helper.make_node(kind, ["x"], ["y"], domain="my.ops")], "g", tensors[:1], tensors[1:])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("my.ops", 1)]
    save(helper.make_model(made, opset_imports=opsets, ir_version=8), tmp_path / "m.onnx")
    assert "my.ops" in problems(tmp_path / "m.onnx")[0].reason
    registry.use_ops(tmp_path / "ops")
    x = np.float32([[-1, 0, 2]])
    assert np.array_equal(run_float(load(tmp_path / "m.onnx"), {"x": x})["y"], x + x)


def test_a_folder_that_is_none(clean: None, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", "utf-8")
    for place in (tmp_path / "missing", tmp_path / "file"):
        with pytest.raises(UsageError, match="is not a folder"):
            registry.use_ops(place)


def test_a_kernel_without_its_file(network: Path, tmp_path: Path) -> None:
    for path in (EXAMPLE / "ops").glob("*.py"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    data = tmp_path / "d.npz"
    np.savez(data, calib_x=np.zeros((4, 4, 8), np.float32) + np.arange(8, dtype=np.float32))
    done = glowembed("compile", network / "model.onnx", "--ops", tmp_path, "--data", data, "-o", tmp_path / "b")
    assert done.returncode == 2 and "ge_median3_s8 has no C file" in done.stderr and "median3_s8.c" in done.stderr
    assert not (tmp_path / "b").exists()
