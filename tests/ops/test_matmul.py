"""MatMul and Gemm of two computed operands: matmul_s8, matmul_s16, and a loop nest in float32."""

import numpy as np
import pytest
from checker import SIZES, case, check_op, imported, one_node_model, weights
from compiled_models import level_here
from onnx_builder import build
from small_models import model, node, saved, unoptimized

from glowembed.errors import UnsupportedModelError
from glowembed.graph.op import Refused
from glowembed.graph.target import load_board
from glowembed.judge.validation import validate
from glowembed.pipeline import CompileOptions, compile_model
from glowembed.quantize.precision import parse
from glowembed.reference import run_float

pytestmark = pytest.mark.cc

PAIRS = [
    *(("inner", (3, n), (n, 2)) for n in SIZES),
    *(("rows", (n, 3), (3, 2)) for n in SIZES),
    *(("columns", (3, 2), (2, n)) for n in SIZES),
    ("attention", (1, 2, 5, 4), (1, 2, 4, 5)),
    ("batch of the first", (4, 3, 5), (5, 2)),
    ("batch of the second", (3, 5), (4, 5, 2)),
    ("batches of ones", (1, 1, 3, 5), (1, 4, 5, 2)),
    ("both batches", (2, 3, 4, 5), (2, 3, 5, 1)),
    ("one row and one column", (1, 1, 7), (1, 7, 1)),
]

CASES = [
    *(case(f"MatMul {name} {a} {b}", "MatMul", a, b) for name, a, b in PAIRS),
    case("constant batch on the right", "MatMul", (2, 3, 4), weights(2, 4, 5)),
    case("constant batch on the left", "MatMul", weights(2, 3, 4), (2, 4, 5)),
    case("positive data", "MatMul", (2, 3, 4), (2, 4, 5), low=2.0, high=3.0),
    *(case(f"sums beyond 2^23, {n} columns", "MatMul", (3, 390), (390, n), low=0.0, high=3.0) for n in (2, 7)),
    case("Gemm", "Gemm", (3, 5), (5, 2)),
    case("Gemm transA", "Gemm", (5, 3), (5, 2), transA=1),
    case("Gemm transB", "Gemm", (3, 5), (2, 5), transB=1),
    case("Gemm both", "Gemm", (5, 3), (2, 5), transA=1, transB=1),
    case("Gemm ignored bias", "Gemm", (3, 5), (5, 2), weights(2), beta=0.0),
]

SMALL = (
    case("one matrix for all", "MatMul", (3, 4), (4, 3)),
    case("a matrix for each", "MatMul", (2, 2, 3), (2, 3, 2)),
    case("for each of the second", "MatMul", (2, 3), (2, 3, 2)),
)


def random_case(chance):
    """Now and then with vectors so long that kernels multiply them in chunks."""
    batch, m, n = chance.choice((1, 1, 2, 3)), chance.choice(SIZES), chance.choice(SIZES)
    k = chance.choice((*SIZES, 130, 403))
    first = (m, k) if chance.random() < 0.3 else (batch, m, k)
    return case("node", "MatMul", first, (k, n) if chance.random() < 0.3 else (batch, k, n))


WITH_OTHER_NODES = [
    case("Gemm alpha", "Gemm", (3, 5), (5, 2), alpha=0.25),
    case("Gemm computed bias", "Gemm", (3, 5), (5, 2), (3, 2), alpha=0.5, beta=2.0),
    case("Gemm constant bias", "Gemm", (3, 5), (5, 2), weights(2)),
]
"""The factors and the bias of Gemm become separate nodes, whose kernels are tested elsewhere."""


@pytest.mark.parametrize("case", CASES, ids=str)
def test_matmul(case):
    check_op(case)


@pytest.mark.parametrize("case", WITH_OTHER_NODES, ids=str)
def test_gemm_with_factors_and_bias(case):
    proto = one_node_model(case)
    graph, rng = imported(proto), np.random.default_rng(0)
    sample = {name: rng.normal(size=graph.values[name].shape).astype(np.float32) for name in graph.inputs}
    assert [n.op for n in graph.nodes if n.op in ("MatMul", "Gemm")] == ["MatMul"]
    np.testing.assert_allclose(run_float(graph, sample)["y0"], unoptimized(proto).run(None, sample)[0], 1e-5, 1e-5)


@pytest.mark.parametrize("dtype", ["int16", "float32"])
@pytest.mark.parametrize("case", CASES[:: len(SIZES) // 2] + CASES[-6:], ids=str)
def test_other_types(case, dtype):
    check_op(case, settings={"dtype": dtype})


def attention():
    """Two heads over six tokens of eight channels; the keys are turned by the model, the values by us."""
    heads = [
        part
        for name in "qkv"
        for part in (
            node("MatMul", f"x w_{name}", f"{name}0"),
            node("Reshape", f"{name}0 split", f"{name}1"),
            node("Transpose", f"{name}1", name, perm=[0, 2, 3, 1] if name == "k" else [0, 2, 1, 3]),
        )
    ]
    nodes = [
        *heads,
        node("MatMul", "q k", "scores"),
        node("Mul", "scores scale", "scaled"),
        node("Softmax", "scaled", "chances", axis=-1),
        node("MatMul", "chances v", "context"),
        node("Transpose", "context", "turned", perm=[0, 2, 1, 3]),
        node("Reshape", "turned joined", "flat"),
        node("MatMul", "flat w_o", "y"),
    ]
    constants = {f"w_{name}": weights(8, 8, seed=ord(name)) for name in "qkvo"}
    shapes = {"split": [1, 6, 2, 4], "joined": [1, 6, 8], "scale": np.float32(0.5)}
    return model(nodes, {"x": (1, 6, 8)}, {**constants, **shapes})


@pytest.mark.parametrize(("dtype", "quality"), [("int8", 26), ("int16", 38), ("float32", 90)])
@pytest.mark.parametrize("board", ["host", pytest.param("mps2-an386", marks=[pytest.mark.qemu, pytest.mark.arm_gcc])])
def test_attention(board, dtype, quality, tmp_path):
    data = tmp_path / "data.npy"
    np.save(data, np.random.default_rng(3).normal(size=(16, 6, 8)).astype(np.float32))
    levels = level_here() if board == "host" else ()
    options = CompileOptions(load_board(board).target, precision=parse({"defaults": {"dtype": dtype}}), levels=levels)
    bundle = compile_model(saved(attention(), tmp_path), tmp_path / "bundle", options, data=data)
    result = validate(bundle, data, board, 4)
    assert result.bit_exact, result.json["first_difference"]
    assert result.json["outputs"][0]["sqnr_db"] > quality
    ops = [entry["op"] for entry in bundle.manifest["precision"]]
    assert ops.count("Attention") == 1 and "MatMul" not in ops and "Nest" not in ops


def test_sums_beyond_int32_are_refused():
    long = case("too long", "MatMul", (1, 40_000), (40_000, 1), low=0.0, high=1.0)
    with pytest.raises(UnsupportedModelError, match="more than int32 holds"):
        check_op(long)


REFUSED = [
    case("a vector", "MatMul", (7,), (7, 5)),
    case("sums of nothing", "MatMul", (3, 0), (0, 2)),
    case("both are broadcast in part", "MatMul", (2, 1, 3, 4), (1, 5, 4, 2)),
]


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_refused(case):
    """The importer then takes the loop nest of the operator."""
    with pytest.raises(Refused):
        build(one_node_model(case))
