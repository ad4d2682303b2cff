"""Nodes whose inputs or attributes contradict each other are refused in words: neither exceptions of Python nor numpy's text."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import pytest
import three_ways
from onnx import helper

from glowembed.errors import UnsupportedModelError
from glowembed.options.table import CompileOptions
from glowembed.pipeline import compile_model

PYTHON = re.compile(
    r"zip\(\)|Error:|NoneType|unpack|subscript|out of range|object|operands could|np\.|numpy|argument \d|0x"
)
INPUTS = {
    "scalar": np.array(3.5, np.float32),
    "two": np.ones(2, np.float32),
    "three": np.ones(3, np.float32),
    "matrix": np.ones((3, 4), np.float32),
    "image": np.ones((1, 2, 8, 8), np.float32),
}
CONSTANTS = {"one": np.array([1]), "zero": np.array(0), "pair": np.array([0, 1]), "row": np.ones(5, np.float32)}
CONSTANTS["filters"] = np.ones((2, 2, 3, 3), np.float32)
SCALARS = (
    "ArgMax",
    "ArgMin",
    "TopK",
    "CumSum",
    "Softmax",
    "LogSoftmax",
    "Hardmax",
    "Gather",
    "Concat",
    "Trilu",
    "MatMul",
)
WINDOWED = ("Conv", "ConvTranspose", "MaxPool", "AveragePool", "LpPool")
SECOND = {
    "TopK": "one",
    "CumSum": "zero",
    "Gather": "zero",
    "MatMul": "scalar",
    "Conv": "filters",
    "ConvTranspose": "filters",
}


class Case(NamedTuple):
    op: str
    inputs: str
    words: str
    attributes: dict[str, Any] = {}


CASES = {
    **{f"{op} of a scalar": Case(op, f"scalar {SECOND.get(op, '')}", "ax", {"axis": 0} if op == "Concat" else {}) for op in SCALARS},
    **{
        f"{op} with pads below 0": Case(op, f"image {SECOND.get(op, '')}", "pads", {"kernel_shape": [3, 3], "pads": [2, 0, -1, 0]})
        for op in WINDOWED
    },
    "other sizes": Case("Add", "two three", "the shapes [2], [3] do not fit each other"),
    "other sizes in a definition": Case("Pow", "two three", "the shapes [2], [3] do not fit each other"),
    "constants of other sizes": Case("Pow", "row pair", "constant result"),
    "more starts than ends": Case("Slice", "matrix pair one", "do not fit each other"),
    "matrices of other sizes": Case("MatMul", "matrix matrix", "sizes must be the same"),
    "weights of another size": Case("Gemm", "matrix row", ""),
    "a type that no tensor has": Case("Cast", "two", "its type is complex64 (real numbers", {"to": 14}),
    "rows that differ": Case("Concat", "matrix two", "", {"axis": 0}),
    "no such permutation": Case("Transpose", "matrix", "", {"perm": [0, 5]}),
    "a permutation of three": Case("Transpose", "matrix", "", {"perm": [0, 1, 2]}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", ["model", "float32"])
def test_the_reason_is_said_in_words(name: str, dtype: Any, tmp_path: Path) -> None:
    case = CASES[name]
    outputs = ["y", "places"][: 2 if case.op == "TopK" else 1]
    nodes = [
        helper.make_node(case.op, case.inputs.split(), outputs, name="wrong", **case.attributes),
        helper.make_node("Relu", ["two"], ["z"]),
    ]
    types: three_ways.Outputs = {"y": ("int64" if case.op[:3] == "Arg" else "float32", None), "z": ("float32", None)}
    onnx.save(three_ways.network(nodes, INPUTS, types, {"": 18}, CONSTANTS), tmp_path / "m.onnx")
    with pytest.raises(UnsupportedModelError) as error:
        compile_model(tmp_path / "m.onnx", tmp_path / "b", CompileOptions(target="x86-64", dtype=dtype))
    (line,) = (line for line in str(error.value).splitlines() if "'wrong'" in line)
    assert case.words in line and not PYTHON.search(line)
