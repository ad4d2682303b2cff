"""Every op of the spine in int16 and in float32, as one network, on every target: bit for bit with the reference."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from compiled_models import level_here
from every_op import everything
from small_models import saved

from glowembed.graph.plan import PlanOptions
from glowembed.graph.registry import dtypes_of, ops
from glowembed.graph.target import load_board
from glowembed.judge.validation import validate
from glowembed.ops.activation import FORMULAS
from glowembed.options.table import DTYPES
from glowembed.pipeline import CompileOptions, compile_model
from glowembed.quantize.precision import parse

BOARDS = ("nrf51-large", "lm3s6965evb", "mps2-an386", "mps2-an500", "mps2-an505", "mps3-an547")
EMULATED = [pytest.param(board, marks=[pytest.mark.qemu, pytest.mark.arm_gcc]) for board in BOARDS]


@pytest.mark.cc
@pytest.mark.parametrize("board", ["host", *EMULATED])
def test_every_op_is_exact(board: str, tmp_path: Path) -> None:
    data = tmp_path / "data.npy"
    np.save(data, np.random.default_rng(3).uniform(-1, 1, (6, 4, 8, 8)).astype(np.float32))
    rules = [{"name": "i_*", "dtype": "int16"}, {"name": "f_*", "dtype": "float32"}]
    target, levels = load_board(board).target, level_here() if board == "host" else ()
    plan = PlanOptions("greedy", effort=0)
    options = CompileOptions(target, precision=parse({"rules": rules}), plan=plan, levels=levels)
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
