"""Every op in int16: every fourth case of its own test, with weights of int8 and of int16, and the float edges."""

import runpy
from pathlib import Path

import numpy as np
import pytest
from checker import SIZES, check_kernels, check_op

from glowembed import wide
from glowembed.errors import UnsupportedModelError
from glowembed.ir import Graph, Node, QType, Value
from glowembed.lower import lower
from glowembed.op import dtypes_of

pytestmark = pytest.mark.cc

FAMILIES = (
    "activation", "add", "affine", "concat", "conv", "conv_transpose", "gemm", "layout", "mul", "pad", "pool", "slice", "softmax",
)  # fmt: skip
OP = {"Relu": "Clip", "PRelu": "LeakyRelu"}
CASES = [
    case
    for family in FAMILIES
    for case in runpy.run_path(str(Path(__file__).with_name(f"test_{family}.py")))["CASES"][::4]
    if family != "activation" or "int16" in dtypes_of(OP.get(case.op_type, case.op_type))
]

KINKS = ("HardSigmoid", "HardSwish", "Celu", "Elu", "Selu", "Softsign")
"""A straight line of the table cuts the corner; over a wide range it also cuts the bend."""


def steps(case):
    if "wide" in case.name:
        return 50.0
    return 12.0 if case.op_type in KINKS else 1.01


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.op_type} {case}")
def test_int16(case):
    check_op(case, steps(case), settings={"dtype": "int16"})


@pytest.mark.parametrize(
    "case", [c for c in CASES if c.op_type in ("Conv", "ConvTranspose", "Gemm", "MatMul")], ids=str
)
def test_weights_of_int16(case):
    check_op(case, steps(case), settings={"dtype": "int16", "weights": "int16"})


def test_zero_points_of_int16():
    for case in [
        c
        for c in CASES
        if c.op_type in ("Conv", "ConvTranspose", "Gemm", "Add", "Mul", "AveragePool", "Concat", "Pad", "Relu")
    ][::5]:
        check_op(case, settings={"dtype": "int16", "schema": "asymmetric"})


# ------------------------------------------------------------------------------------------------- conversions

INT8 = [QType("int8", (0.1,), (zero,)) for zero in (-128, 0, 5, 127)]
INT16 = [QType("int16", (scale,), (zero,)) for scale in (0.1, 3e-4, 7e-6) for zero in (-32768, 0, 77, 32767)]


@pytest.mark.parametrize("shape", [(1, 5, 4, 3), *((1, n) for n in SIZES[::3])], ids=str)
@pytest.mark.parametrize("narrow", [None, *INT8], ids=str)
def test_conversions(shape, narrow):
    for qtype in INT16:
        x, y = Value("x", shape, qtype=narrow), Value("y", shape, qtype=qtype)
        z = Value("z", shape, qtype=narrow)
        there, back = ("Quantize", "Dequantize") if narrow is None else ("Rescale", "Rescale")
        nodes = (Node("there", there, ("x",), ("y",)), Node("back", back, ("y",), ("z",)))
        graph = lower(Graph("edges", nodes, {"x": x, "y": y, "z": z}, ("x",), ("z",)))
        kind = "f32" if narrow is None else "s8"
        assert [n.op.split("_", 1)[1] for n in graph.nodes] == [f"{kind}_s16", f"s16_{kind}"]
        for node in graph.nodes:
            check_kernels(node, graph, np.random.default_rng(1))


# ------------------------------------------------------------------------------------------------- the law


@pytest.mark.parametrize("scale", [1e-9, 3.3e-5, 0.001, 0.49, 0.5, 1.0, 3.7, 1000.0])
@pytest.mark.parametrize("bits", [17, 31, 32, 40, 44])
def test_one_rounding(scale, bits):
    """Against exact rational arithmetic; the multiplier's own rounding, of half a unit, adds its share."""
    from fractions import Fraction

    if scale * 2**bits > 2**28:
        scale *= 2.0 ** (28 - bits)
    q = wide.requant([scale], 2**bits)
    rng = np.random.default_rng(bits)
    reach = min(2**bits, int(40000 / scale))
    acc = np.concatenate([rng.integers(-reach, reach, 500), [0, 1, -1, reach, -reach]]).astype(np.int64)
    found = wide.requantize(acc, q, 7, -32768, 32767)
    exact = [Fraction(int(a)) * Fraction(scale) + 7 for a in acc]
    error = [abs(int(y) - min(max(e, Fraction(-32768)), Fraction(32767))) for y, e in zip(found, exact, strict=True)]
    assert max(error) <= Fraction(1, 2) + Fraction(40000, 2 ** min(31, 61 - bits))


def test_what_leaves_no_room_is_refused():
    with pytest.raises(UnsupportedModelError, match="leave no room"):
        wide.requant([1.0], 2**50)
    with pytest.raises(UnsupportedModelError, match="wider range"):
        wide.requant([2.0**40], 2**20)
