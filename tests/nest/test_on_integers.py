"""Generated operators that compute with real numbers do it on stored integers in a quantized network: no node is float32, each output is
within a fraction of a step of the exact function of what the stored inputs stand for, and the C gives the bits of the reference.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from small_models import model, node, saved, weights

from glowembed.judge.validation import validate
from glowembed.nest import interpret, quantity, scaled
from glowembed.nest.expr import Expr
from glowembed.nest.program import Program, Recorder, Tensor
from glowembed.nest.quantity import Quantity, Stored, Unscalable
from glowembed.options.table import CompileOptions
from glowembed.pipeline import compile_model, load_bundle
from glowembed.quantize.precision import parse
from glowembed.reference import run_int
from glowembed.run.host import load

SHAPE, CUBE = (1, 4, 6, 5), (1, 2, 4, 5, 6)
INPUTS = {"x": SHAPE, "z": SHAPE, "v": SHAPE, "far": SHAPE, "c": CUBE, "m": (4, 7), "r": (7, 3)}
CONSTANTS = {
    "one": [1], "last": [-1], "all": [0, 1, 2, 3], "axis": np.int64(2), "slopes": weights(4, 1, 1),
    "kernel": weights(3, 2, 3, 3, 3), "bias": weights(3), "spread": weights(2, 3, 2, 2, 2),
}  # fmt: skip

OPERATORS = {
    "sum": node("Sum", "x z v", "sum"),
    "mean": node("Mean", "x z v", "mean"),
    "div": node("Div", "x far", "div"),
    "prelu": node("PRelu", "x slopes", "prelu"),
    "reduce_sum": node("ReduceSum", "x last", "reduce_sum"),
    "sum_of_channels": node("ReduceSum", "x one", "sum_of_channels", keepdims=0),
    "sum_of_all": node("ReduceSum", "x all", "sum_of_all"),
    "mean_of_two": node("ReduceMean", "x", "mean_of_two", axes=[1, 3]),
    "l1": node("ReduceL1", "x", "l1", axes=[2]),
    "l2": node("ReduceL2", "x", "l2", axes=[-1]),
    "squares": node("ReduceSumSquare", "x", "squares", axes=[1, 2]),
    "log_sum_exp": node("ReduceLogSumExp", "x", "log_sum_exp", axes=[3]),
    "log_softmax": node("LogSoftmax", "x", "log_softmax", axis=-1),
    "log_softmax_1": node("LogSoftmax", "x", "log_softmax_1", axis=1),
    "running": node("CumSum", "x axis", "running"),
    "running_back": node("CumSum", "x axis", "running_back", exclusive=1, reverse=1),
    "lrn": node("LRN", "x", "lrn", size=3, alpha=0.5),
    "norm": node("LpNormalization", "x", "norm", p=1, axis=1),
    "mvn": node("MeanVarianceNormalization", "x", "mvn"),
    "lp_pool": node("LpPool", "x", "lp_pool", kernel_shape=[2, 2], p=2),
    "conv": node("Conv", "c kernel bias", "conv", pads=[1] * 6),
    "transposed": node("ConvTranspose", "c spread", "transposed", strides=[2, 2, 2]),
    "pool": node("AveragePool", "c", "pool", kernel_shape=[2, 3, 2], pads=[1, 1, 0, 0, 0, 1]),
    "largest_of_cube": node("MaxPool", "c", "largest_of_cube", kernel_shape=[2, 2, 2]),
    "product": node("Einsum", "m r", "product", equation="ij,jk->ki"),
}

WORST = {
    "int8": {},
    "int16": {
        "log_sum_exp": 0.6, "log_softmax": 0.6, "log_softmax_1": 0.6, "lrn": 0.7, "prelu": 0.8, "conv": 2.5, "transposed": 1.5,
        "pool": 0.7,
    },
}  # fmt: skip
"""The largest error in steps where it is more than half a step and 1/32: that of float32, in which onnxruntime computes, is part of it."""


@pytest.fixture(scope="module", params=["int8", "int16"])
def compiled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    """All operators in one network, for a PC: its dtype, the model and the bundle."""
    folder = tmp_path_factory.mktemp(request.param)
    proto = model(list(OPERATORS.values()), INPUTS, CONSTANTS, tuple(OPERATORS))
    options = CompileOptions("generic", precision=parse({"defaults": {"dtype": request.param}}))
    return request.param, proto, compile_model(saved(proto, folder), folder / "b", options, data=samples(folder))


def samples(folder: Path) -> Path:
    rng = np.random.default_rng(5)
    data = {n: rng.normal(size=(8, *shape)).astype(np.float32) for n, shape in INPUTS.items()}
    data["far"] = np.abs(data["far"]) + 0.5
    np.savez(folder / "d.npz", **{f"{role}_{n}": a for n, a in data.items() for role in ("calib", "test")})
    return folder / "d.npz"


def integers(graph, seed: int, tame: bool = False):
    """Stored inputs over the whole range of their types; tame: but divisors that are positive."""
    rng = np.random.default_rng(seed)
    stored = {}
    for name in graph.inputs:
        value = graph.values[name]
        low, high = value.qtype.limits
        low = value.qtype.zero_point[0] + high // 8 if tame and name == "far" else low
        stored[name] = rng.integers(low, high + 1, value.shape).astype(value.qtype.dtype)
    return stored


@pytest.mark.cc
def test_outputs_are_the_exact_functions_rounded_once(compiled) -> None:
    dtype, proto, bundle = compiled
    assert {entry["dtype"] for entry in bundle.manifest["precision"]} == {dtype}
    graph = load_bundle(bundle.path).graph
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    for seed in range(3):
        stored = integers(graph, seed, tame=True)
        feed = {n: graph.values[n].logical(graph.values[n].qtype.dequantize(a)) for n, a in stored.items()}
        exact = dict(zip(OPERATORS, session.run(list(OPERATORS), feed), strict=True))
        found = run_int(graph, stored)
        for name in OPERATORS:
            value = graph.values[name]
            q, real = value.qtype, np.clip(exact[name].astype(np.float64), *value.qtype.range())
            error = np.abs(q.dequantize(value.logical(found[name])) - real).max() / q.scale[0]
            assert error <= WORST[dtype].get(name, 0.5 + quantity.WORST), (name, error)


@pytest.mark.cc
def test_the_c_gives_the_bits_of_the_reference(compiled) -> None:
    """Also where divisors are zero, and for the least numbers of each type."""
    _, _, bundle = compiled
    graph, host = load_bundle(bundle.path).graph, load(bundle.path)
    least = {n: np.full(graph.values[n].shape, graph.values[n].qtype.limits[0]) for n in graph.inputs}
    cases = [integers(graph, seed) for seed in range(4)]
    cases += [{n: a.astype(graph.values[n].qtype.dtype) for n, a in least.items()}]
    for stored in cases:
        expected, found = run_int(graph, stored), host.run_stored(stored)
        assert [n for n in OPERATORS if not np.array_equal(expected[n], found[n])] == []


BOARDS = [
    ("cortex-m0", "nrf51-large", "int8"),
    ("cortex-m4", "mps2-an386", "int16"),
    ("riscv32", "riscv32-virt", "int8"),
]


@pytest.mark.qemu
@pytest.mark.parametrize(("target", "board", "dtype"), BOARDS)
def test_every_core_gives_these_bits(target: str, board: str, dtype: str, tmp_path: Path) -> None:
    """In a network that does not multiply out the cycles of an emulator: some operators for each kind of arithmetic."""
    chosen = ["mean", "div", "prelu", "l2", "log_softmax", "running", "lrn", "conv"]
    nodes = [OPERATORS[name] for name in chosen]
    read = {name for one in nodes for name in one.input}
    proto = model(
        nodes, {n: INPUTS[n] for n in INPUTS if n in read}, {n: CONSTANTS[n] for n in CONSTANTS if n in read}, chosen
    )
    options = CompileOptions(target, precision=parse({"defaults": {"dtype": dtype}}))
    bundle = compile_model(saved(proto, tmp_path), tmp_path / "b", options, data=samples(tmp_path))
    assert validate(bundle, tmp_path / "d.npz", board, 1).bit_exact


def evaluated(make, *operands: tuple[np.ndarray, int, int, float]) -> tuple[np.ndarray, np.ndarray]:
    """The real numbers that a function of quantities gives, and the range that it claims, in real numbers."""
    tables = {"exp2": quantity.powers_of_two(), "log2": quantity.logarithms()}
    inputs = [Tensor(f"x{i}", a.shape, "int64") for i, (a, *_) in enumerate(operands)]
    constants = {n: Tensor.constant(n, a, "int32") for n, a in tables.items()}
    k, y = Recorder(), Tensor("y0", operands[0][0].shape, "int64")
    with k.each(y.shape) as (i,):
        given = [Quantity(t[i], scale, low, high) for t, (_, low, high, scale) in zip(inputs, operands, strict=True)]
        made, offset = make(*given, **constants)
        k.store(y, i, made.expr.to("int64"))
    program = Program((*inputs, *constants.values()), y, (), tuple(k.body))
    found = interpret.run(program, [*(a for a, *_ in operands), *tables.values()])
    assert found.min() >= made.low and found.max() <= made.high
    return found * made.scale + offset, np.array([made.low, made.high]) * made.scale + offset


def whole(low: int, high: int, scale: float) -> tuple[np.ndarray, int, int, float]:
    return np.unique(np.linspace(low, high, 200_000).astype(np.int64)), low, high, scale


@pytest.mark.parametrize(("low", "scale"), [(-255, 0.03), (-65535, 3e-4), (-3, 4.0), (-(2**40), 2e-12)])
def test_an_exponential_is_within_two_parts_of_a_hundred_thousand_of_the_largest(low: int, scale: float) -> None:
    x = whole(low, 0, scale)
    found, _ = evaluated(lambda a, exp2, log2: (quantity.exponential(a, 0.0, exp2), 0.0), x)
    assert np.abs(found - np.exp(x[0] * scale)).max() < 2e-5


@pytest.mark.parametrize(("high", "scale"), [(255, 0.5), (65535, 1e-4), (2**50, 1e-9)])
def test_a_logarithm_is_within_three_parts_of_a_hundred_thousand(high: int, scale: float) -> None:
    x = whole(0, high, scale)
    found, _ = evaluated(lambda a, exp2, log2: quantity.logarithm(a, log2), x)
    assert np.abs(found - np.log(np.maximum(x[0], 1) * scale)).max() < 3e-5


@pytest.mark.parametrize("high", [1, 2, 255, 2**20, 2**31, 2**60])
def test_a_root_is_exact_to_its_step(high: int) -> None:
    x = whole(0, high, 0.25)
    found, (_, most) = evaluated(lambda a, exp2, log2: (quantity.square_root(a), 0.0), x)
    error = np.sqrt(x[0] * 0.25) - found
    assert error.min() > -1e-9 and error.max() <= max(most * 2.0**-29, 1e-9)


def test_all_quotients_of_two_int8_numbers_are_the_exact_ones_rounded_once() -> None:
    """With an output that holds all of them; a divisor of zero counts as one step."""
    a, b = (x.reshape(-1) for x in np.meshgrid(np.arange(-128, 128), np.arange(-128, 128)))
    found, _ = evaluated(
        lambda p, q, exp2, log2: (quantity.quotient(p, q), 0.0), (a, -128, 127, 0.5), (b, -128, 127, 0.25)
    )
    assert np.abs(found - 2.0 * a / np.where(b == 0, 1, b)).max() <= 2.0 * 2.0**-21


def test_integers_of_a_root_and_their_lengths() -> None:
    numbers = np.array(
        [0, 1, 2, 3, 4, 8, 9, 2**31 - 1, 2**31, 2**52 - 1, 2**53 + 1, (2**31 - 1) ** 2, (2**31 - 1) ** 2 - 1, 2**62 - 1]
    )
    assert interpret.operation("sqrt", "int64", "int64", [numbers]).tolist() == [
        math.isqrt(n) for n in numbers.tolist()
    ]
    assert interpret.operation("length", "int64", "int64", [numbers]).tolist() == [
        n.bit_length() for n in numbers.tolist()
    ]


def recorded(function, shape=(6,)) -> Program:
    k, x, y = Recorder(), Tensor("x0", shape, "float32"), Tensor("y0", shape, "float32")
    with k.each(shape) as (i,):
        k.store(y, i, function(k, x, i))
    return Program((x,), y, (), tuple(k.body))


def _product(k: Recorder, x: Tensor, i: Expr) -> Expr:
    total = k.variable(1, "float32")
    with k.loop(6) as r:
        k.set(total, total * x[r])
    return total


REFUSED = {
    "a product of many": _product,
    "a whole number of a real one": lambda k, x, i: x[i].to("int32").to("float32"),
    "a division by the constant zero": lambda k, x, i: (x[i] + x[(i + 1) % 6]) / 0.0,
    "infinity": lambda k, x, i: x[i] + math.inf,
}


@pytest.mark.parametrize("case", REFUSED)
def test_other_programs_stay_float32(case: str) -> None:
    assert not scaled.reads_reals(recorded(REFUSED[case]), {})


def test_an_output_that_is_far_too_small_is_an_error_that_says_so() -> None:
    types = {"x0": Stored("int16", 1e6), "y0": Stored("int8", 1e-9)}
    with pytest.raises(Unscalable, match="far too small"):
        scaled.on_integers(recorded(lambda k, x, i: x[i] + x[(i + 1) % 6]), types, {})
