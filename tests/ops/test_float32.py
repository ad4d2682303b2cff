"""Every op in float32: every third case of its own test, bit for bit between Python and C."""

import ctypes
import runpy
from pathlib import Path

import numpy as np
import pytest
from checker import check_op
from small_models import model, node, saved

from glowembed.judge.validation import validate
from glowembed.law import floatmath
from glowembed.pipeline import CompileOptions, compile_model
from glowembed.run.kernel import shared_library

pytestmark = pytest.mark.cc

FAMILIES = (
    "activation", "add_and_mul", "affine", "concat", "conv", "conv_transpose", "gemm", "layout", "pad", "pool", "slice", "softmax",
)  # fmt: skip
CASES = [
    case
    for family in FAMILIES
    for case in runpy.run_path(str(Path(__file__).with_name(f"test_{family}.py")))["CASES"][::3]
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.op_type} {case}")
def test_float32(case):
    check_op(case, settings={"dtype": "float32"})


FUNCTIONS = {
    "exp": (floatmath.exp, np.exp, 4e-7),
    "log": (floatmath.log, np.log, 4e-7),
    "tanh": (floatmath.tanh, np.tanh, 4e-7),
    "sigmoid": (floatmath.sigmoid, lambda x: 1 / (1 + np.exp(-x)), 4e-7),
    "softplus": (floatmath.softplus, lambda x: np.logaddexp(0, x), 4e-7),
    "erf": (floatmath.erf, None, 0),
    "sqrt": (floatmath.sqrt, np.sqrt, 6e-8),
    "floor": (floatmath.floor, np.floor, 0),
    "ceil": (floatmath.ceil, np.ceil, 0),
    "round": (floatmath.round_even, np.rint, 0),
}


def numbers() -> np.ndarray:
    """All sizes, ties, ends of the range, and any bits."""
    rng = np.random.default_rng(1)
    sized = rng.normal(size=20000) * 10.0 ** rng.integers(-6, 3, 20000)
    ends = [0, -0.0, np.inf, -np.inf, np.nan, 3.4e38, -3.4e38, 1e-45, -1e-45, 1e-40, 88.7, 89, -87.4, -103, -104, 0.625]
    bits = rng.integers(0, 2**32, 20000, dtype=np.uint64).astype(np.uint32).view(np.float32)
    return np.concatenate([sized, np.arange(-2000, 2000) / 4, ends]).astype(np.float32), bits


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_functions(name):
    """C against Python on every bit; both against numpy in double precision."""
    python, exact, tolerance = FUNCTIONS[name]
    text = '#include "ge_float.h"\nvoid call(const float *x, float *y, int n);\nvoid call(const float *x, float *y, int n) {\n'
    library = shared_library(
        text + f"    for (int i = 0; i < n; i++) {{\n        y[i] = ge_{name}_f32(x[i]);\n    }}\n}}\n"
    )
    sized, bits = numbers()
    x = np.concatenate([sized, bits])
    y = np.zeros_like(x)
    library.call(x.ctypes.data_as(ctypes.c_void_p), y.ctypes.data_as(ctypes.c_void_p), len(x))
    expected = python(x)
    assert expected.dtype == np.float32
    same = (y.view(np.uint32) == expected.view(np.uint32)) | (np.isnan(y) & np.isnan(expected))
    assert same.all(), f"{x[~same][:5]}: {y[~same][:5]}, Python says {expected[~same][:5]}"
    if exact is not None:
        real = exact(sized.astype(np.float64))
        known = np.isfinite(real) & (np.abs(real) < 1e38)
        error = np.abs(y[: len(sized)][known] - real[known]) / np.maximum(np.abs(real[known]), 1)
        assert error.max() <= tolerance


def test_layers_with_a_constant_in_common_build_without_warnings(tmp_path: Path) -> None:
    """The scales share their bias of zeros, whose ten elements gcc then knows in the loops over 64 channels, which are not entered."""
    scales = {name: np.linspace(1, 2 + i, 10, dtype=np.float32) for i, name in enumerate("abc")}
    steps = ("Mul", "x a", "p"), ("Abs", "p", "q"), ("Mul", "q b", "r"), ("Sqrt", "r", "s"), ("Mul", "s c", "y")
    path = saved(model([node(*step) for step in steps], {"x": (1, 10)}, scales), tmp_path)
    np.save(tmp_path / "d.npy", np.random.default_rng(0).normal(size=(3, 1, 10)).astype(np.float32))
    bundle = compile_model(path, tmp_path / "b", CompileOptions("x86-64", dtype="float32"), data=tmp_path / "d.npy")
    assert validate(bundle, tmp_path / "d.npy", "host", 3).bit_exact
