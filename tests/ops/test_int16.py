"""Every op in int16, with weights of int8 and of int16, and the float edges: every fourth case of its own test, all of functions."""

import runpy
from pathlib import Path

import kernel_checker
import numpy as np
import pytest
import small_models
from checker import SIZES, check_op
from kernel_checker import check_kernels

from glowembed.errors import UnsupportedModelError
from glowembed.graph.ir import Graph, Node, QType, Value
from glowembed.law import wide
from glowembed.lower.nodes import lower
from glowembed.ops import activation_wide
from glowembed.ops.activation import FORMULAS
from glowembed.pipeline import CompileOptions, compile_model
from glowembed.reference import run_node

pytestmark = pytest.mark.cc

FAMILIES = (
    "activation", "add_and_mul", "affine", "concat", "conv", "conv_transpose", "gemm", "layout", "pad", "pool", "slice", "softmax",
)  # fmt: skip
CASES = [
    case
    for family in FAMILIES
    for case in runpy.run_path(str(Path(__file__).with_name(f"test_{family}.py")))["CASES"][
        :: 4 if family != "activation" else 1
    ]
]


@pytest.fixture
def quick(case, monkeypatch):
    """Transposed convolutions of one case only run on emulated cores, where each case has a text of its own to compile."""
    if case.op_type == "ConvTranspose" and case.name != "4x4 stride 2":
        monkeypatch.setattr(kernel_checker, "boards_for", lambda isa, node: [])


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.op_type} {case}")
def test_int16(case, quick):
    check_op(case, settings={"dtype": "int16"})


@pytest.mark.parametrize(
    "case", [c for c in CASES if c.op_type in ("Conv", "ConvTranspose", "Gemm", "MatMul")], ids=str
)
def test_weights_of_int16(case, quick):
    check_op(case, settings={"dtype": "int16", "weights": "int16"})


def test_zero_points_of_int16():
    for case in [
        c
        for c in CASES
        if c.op_type in ("Conv", "ConvTranspose", "Gemm", "Add", "Mul", "AveragePool", "Concat", "Pad", "Relu")
    ][::5]:
        check_op(case, settings={"dtype": "int16", "schema": "asymmetric"})


TYPES = [(scale, zero) for scale in (1e-5, 1e-3, 0.02) for zero in (0, -30000)]


@pytest.mark.parametrize(("scale", "zero"), TYPES)
@pytest.mark.parametrize("op", sorted({op for op, _ in activation_wide.LOWERINGS}))
def test_every_input_of_a_function(op, scale, zero):
    """Within a step of the exact function over all 65536 inputs, whichever way it is computed."""
    formula = FORMULAS[op]
    x = activation_wide.INPUTS
    real = (x.astype(np.float64) - zero) * scale
    with np.errstate(all="ignore"):
        exact = np.nan_to_num(formula.function(real, formula.defaults), nan=0.0, posinf=np.inf, neginf=-np.inf)
    reach = min(max(float(np.abs(exact).max()), 0.1), 100.0)
    types = {"x": QType("int16", (scale,), (zero,)), "y": QType("int16", (reach / 32767,), (-100,))}
    values = {name: Value(name, (1, 65536), qtype=qtype) for name, qtype in types.items()}
    graph = lower(Graph("one", (Node("n", op, ("x",), ("y",), formula.defaults),), values, ("x",), ("y",)))
    y = run_node(graph, "n", x.astype(np.int16)[None])
    with np.errstate(over="ignore"):
        wanted = np.clip(exact / types["y"].scale[0] - 100, -32768, 32767)
    assert np.abs(y[0] - wanted).max() <= (1 if graph.nodes[0].op == "lut_s16" else 0.7501)


def test_a_function_of_too_many_jumps_is_refused():
    types = {"x": QType("int16", (0.1,), (0,)), "y": QType("int16", (0.2,), (0,))}
    values = {name: Value(name, (1, 4), qtype=qtype) for name, qtype in types.items()}
    graph = Graph("one", (Node("steps", "Floor", ("x",), ("y",)),), values, ("x",), ("y",))
    with pytest.raises(
        UnsupportedModelError,
        match=r"steps: Floor over a range of 6553.6 takes more than 4096 straight lines .* dtype float32",
    ):
        lower(graph)


def test_many_periods_are_as_near_as_the_rounding_of_the_input():
    """Lines within 3/4 of a step of 26 periods of a sine would be 7,567."""
    x, scale = activation_wide.INPUTS, 166.9 / 65536
    wanted = np.sin(x * scale) * 32767
    lines = activation_wide._pieces(wanted, activation_wide._rounding(wanted))
    params = activation_wide.PiecesS16Params(1, len(x), len(lines["start"]))
    found = activation_wide.PiecesS16().int_ref(params, [x.astype(np.int16)], lines)
    assert 100 < params.pieces < 4096
    ends = [np.sin((x + half) * scale) * 32767 for half in (-0.5, 0.5)]
    assert (found <= np.maximum(*ends) + 1).all()
    assert (found >= np.minimum(*ends) - 1).all()


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
    coarse = Fraction(1, 8) if q.shift == 32 else Fraction(40000, 2 ** min(31, 61 - bits))
    assert max(error) <= Fraction(1, 2) + coarse


@pytest.mark.parametrize(
    ("scale", "bound", "accurate"),
    [(0.49, 2**30, True), (0.49, 2**31, False), (0.5, 2**20, False), (2.0**-16, 2**31 - 1, False),
     (2.0**-15, 2**31 - 1, True), (2.0**-16, 2**30, True), (2.0**-16, 2**30 + 2**10, False)],
)  # fmt: skip
def test_a_shift_of_32_where_it_is_accurate(scale, bound, accurate):
    """Scales below 1/2, sums below 2^31, and an error of at most 1/8 of a step: a bound of 2^30, or a multiplier of 2^17."""
    assert (wide.requant([scale], bound).shift == 32) == accurate


def test_the_channel_of_the_largest_error_decides():
    bounds = np.asarray([2**20, 2**31 - 1])
    assert wide.requant([2.0**-16, 2.0**-15], bounds).shift == 32
    assert wide.requant([2.0**-15, 2.0**-16], bounds).shift != 32


def test_what_leaves_no_room_is_refused():
    with pytest.raises(UnsupportedModelError, match="leave no room"):
        wide.requant([1.0], 2**50)
    with pytest.raises(UnsupportedModelError, match="wider range"):
        wide.requant([2.0**40], 2**20)


def test_a_scaling_of_a_scalar_has_one_channel(tmp_path: Path) -> None:
    """The maximum of a tensor has rank 0, as where DynamicQuantizeLinear is written out."""
    nodes = [small_models.node("ReduceMax", "x", "m", keepdims=0), small_models.node("Mul", "m c", "y")]
    path = small_models.saved(small_models.model(nodes, {"x": (1, 6)}, {"c": 0.7}), tmp_path)
    np.save(tmp_path / "d.npy", np.random.default_rng(0).normal(size=(4, 1, 6)).astype(np.float32))
    bundle = compile_model(path, tmp_path / "b", CompileOptions("x86-64", dtype="int16"), data=tmp_path / "d.npy")
    assert "depthwise_s16" in {n.op for n in bundle.graph.nodes}
    assert bundle.graph.values["y"].shape == ()
