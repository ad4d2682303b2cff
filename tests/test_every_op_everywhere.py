"""Every op of the spine in int16 and in float32, as one network, on every target: bit for bit with the reference."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from small_models import model, node, saved, weights

from glowembed.graph.op import dtypes_of, ops
from glowembed.graph.target import load_board
from glowembed.judge.validation import validate
from glowembed.ops.activation import FORMULAS
from glowembed.options.table import DTYPES
from glowembed.pipeline import CompileOptions, compile_model
from glowembed.quantize.precision import parse

BOARDS = ("nrf51-large", "lm3s6965evb", "mps2-an386", "mps2-an500", "mps2-an505", "mps3-an547")
EMULATED = [pytest.param(board, marks=[pytest.mark.qemu, pytest.mark.arm_gcc]) for board in BOARDS]

POSITIVE = ("Log", "Reciprocal", "Sqrt")
"""Functions that need an input above zero: they get that of Exp."""


def branch(prefix: str) -> list[onnx.NodeProto]:
    """8x8 with 4 channels; every function of one number is a part of one Concat."""
    functions = sorted(set(FORMULAS) - set(POSITIVE)) + list(POSITIVE)
    inputs = {
        "conv": "x w_conv b_conv", "relu": "conv", "depthwise": "relu w_depthwise", "largest": "relu", "mean": "relu",
        "sum": "depthwise largest", "difference": "sum mean", "product": "difference largest", "up": "product w_up",
        "cut": "up starts ends axes", "clip": "cut low high",
        **{f: "Exp" if f in POSITIVE else "clip" for f in functions},
        "all": " ".join(functions), "scaled": "all scale", "padded": "scaled pads", "turned": "padded",
        "chances": "turned", "flat": "chances shape", "dense": "flat w_dense", "y": "dense w_gemm b_gemm",
    }  # fmt: skip
    kinds = {
        "conv": ("Conv", {"pads": [1, 1, 1, 1]}),
        "relu": ("Relu", {}),
        "depthwise": ("Conv", {"group": 4, "pads": [1, 1, 1, 1], "strides": [2, 2]}),
        "largest": ("MaxPool", {"kernel_shape": [2, 2], "strides": [2, 2]}),
        "mean": ("AveragePool", {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
        "sum": ("Add", {}),
        "difference": ("Sub", {}),
        "product": ("Mul", {}),
        "up": ("ConvTranspose", {"strides": [2, 2]}),
        "cut": ("Slice", {}),
        "clip": ("Clip", {}),
        "all": ("Concat", {"axis": 1}),
        "scaled": ("Mul", {}),
        "padded": ("Pad", {}),
        "turned": ("Transpose", {"perm": [0, 2, 3, 1]}),
        "chances": ("Softmax", {"axis": -1}),
        "flat": ("Reshape", {}),
        "dense": ("MatMul", {}),
        "y": ("Gemm", {"transB": 1}),
    }
    made = []
    for output, names in inputs.items():
        kind, attrs = kinds.get(output, (output, {}))
        own = " ".join(prefix + name if name in inputs else name for name in names.split())
        made.append(node(kind, own, prefix + output, node_name=prefix + output, **attrs))
    return made


def everything() -> onnx.ModelProto:
    """One branch whose nodes begin with i_, one with f_."""
    channels, size = 2 * len(FORMULAS), 4 * 4
    constants = {
        "w_conv": weights(4, 4, 3, 3), "b_conv": weights(4), "w_depthwise": weights(4, 1, 3, 3), "w_up": weights(4, 2, 2, 2),
        "starts": [2, 2], "ends": [6, 5], "axes": [2, 3], "low": np.float32(-3), "high": np.float32(4),
        "scale": weights(1, channels, 1, 1), "pads": [0, 0, 0, 0, 0, 0, 0, 1], "shape": [1, -1],
        "w_dense": weights(channels * size, 6), "w_gemm": weights(5, 6), "b_gemm": weights(5),
    }  # fmt: skip
    return model([*branch("i_"), *branch("f_")], {"x": (1, 4, 8, 8)}, constants, ("i_y", "f_y"), opset=20)


@pytest.mark.cc
@pytest.mark.parametrize("board", ["host", *EMULATED])
def test_every_op_is_exact(board: str, tmp_path: Path) -> None:
    data = tmp_path / "data.npy"
    np.save(data, np.random.default_rng(3).uniform(-1, 1, (6, 4, 8, 8)).astype(np.float32))
    rules = [{"name": "i_*", "dtype": "int16"}, {"name": "f_*", "dtype": "float32"}]
    options = CompileOptions(load_board(board).target, precision=parse({"rules": rules}))
    bundle = compile_model(saved(everything(), tmp_path), tmp_path / "bundle", options, data=data)
    for dtype in ("int16", "float32"):
        computed = {entry["op"] for entry in bundle.manifest["precision"] if entry["dtype"] == dtype}
        assert computed >= {"Conv", "ConvTranspose", "Gemm", "Softmax", "MaxPool", "AveragePool", *FORMULAS}
    result = validate(bundle, data, board, 2)
    assert result.bit_exact, result.json["first_difference"]
    narrow, wide = result.json["outputs"]
    assert narrow["sqnr_db"] > 25 and wide["sqnr_db"] > 70


def test_every_op_has_every_dtype() -> None:
    """Nothing that a rule may lift stops at int8; only conversions have the types that they convert between."""
    liftable = [name for name, op in ops().items() if not op.converts and not op.plain]
    assert {name: set(dtypes_of(name)) for name in liftable} == {name: set(DTYPES) for name in liftable}
