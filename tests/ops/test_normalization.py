"""LayerNormalization and its family in int8, int16 and float32: normalize_s8, normalize_s16, and a loop nest."""

import math

import numpy as np
import pytest
from checker import case, check_op, one_node_model, weights
from onnx_builder import build

from glowembed.graph.ir import QType
from glowembed.graph.op import Malformed, Refused
from glowembed.graph.registry import kernel_ops
from glowembed.ops import normalization

pytestmark = pytest.mark.cc

LENGTHS = (1, 2, 3, 7, 8, 9, 17, 64, 255, 256, 257)


def layer(name, shape, *constants, axis=-1, **attrs):
    return case(f"LayerNormalization {name}", "LayerNormalization", shape, *constants, axis=axis, **attrs)


CASES = [
    *(layer(f"of {n}", (1, 5, n), weights(n), weights(n, seed=2)) for n in LENGTHS),
    layer("over two axes", (1, 3, 4, 5), weights(4, 5), axis=2),
    layer("over everything", (2, 3), weights(2, 3), weights(2, 3, seed=2), axis=0),
    layer("a scale for all", (1, 4, 6), weights(1)),
    layer("a large epsilon", (1, 4, 6), weights(6), epsilon=1.0),
    layer("a tiny epsilon", (1, 4, 6), weights(6), epsilon=1e-30),
    layer("far from zero", (1, 4, 32), weights(32), low=9.0, high=11.0),
    case("RMSNormalization", "RMSNormalization", (1, 5, 24), weights(24), opset=23, axis=-1),
    case("RMSNormalization of one sign", "RMSNormalization", (1, 5, 24), weights(24), opset=23, low=1.0),
    case("InstanceNormalization of an image", "InstanceNormalization", (1, 3, 5, 4), weights(3), weights(3, seed=2)),
    case("InstanceNormalization of images", "InstanceNormalization", (2, 3, 5, 4), weights(3), weights(3, seed=2)),
    case("InstanceNormalization in time", "InstanceNormalization", (1, 4, 9), weights(4), weights(4, seed=2)),
    case("InstanceNormalization of a volume", "InstanceNormalization", (1, 2, 3, 4, 5), weights(2), weights(2, seed=2)),
    case("LpNormalization", "LpNormalization", (1, 5, 12)),
    case("LpNormalization along channels", "LpNormalization", (1, 5, 4, 3), axis=1),
]  # fmt: skip

SMALL = (layer("small", (2, 4), weights(4)), layer("a row of two", (2, 2, 4), weights(4)))


def random_case(chance):
    shape = (1, chance.choice((1, 2, 5)), chance.choice((1, 3, 8, 33, 300)))
    return case("node", "LayerNormalization", shape, weights(shape[-1]), weights(shape[-1], seed=2), axis=-1)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_normalization(case):
    check_op(case)


@pytest.mark.parametrize("dtype", ["int16", "float32"])
@pytest.mark.parametrize("case", CASES[1:4] + CASES[-12:], ids=str)
def test_other_types(case, dtype):
    check_op(case, tolerance=1e-4, settings={"dtype": dtype})


REFUSED = [
    case("a computed scale", "LayerNormalization", (3, 4), (4,)),
    case("the mean is an output", "LayerNormalization", (3, 4), weights(4), outputs=2),
    case("another norm", "LpNormalization", (3, 4), p=1),
]


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_refused(case):
    """The importer then takes the loop nest of the operator."""
    with pytest.raises(Refused):
        build(one_node_model(case))


@pytest.mark.parametrize("epsilon", [-1e-3, float("nan"), float("inf")])
@pytest.mark.parametrize("op", ["LayerNormalization", "RMSNormalization", "InstanceNormalization"])
def test_an_epsilon_that_is_not_0_or_a_positive_number_is_refused(op, epsilon):
    constants = [weights(4)] * (2 if op == "InstanceNormalization" else 1)
    wrong = case("wrong", op, (1, 4, 4), *constants, opset=23, epsilon=epsilon)
    with pytest.raises(Malformed, match="its epsilon is"):
        build(one_node_model(wrong))


def exact(x, zero_point, centred, epsilon):
    """The exact result that the law approximates, for stored integers [rows, n] in a unit of 1."""
    x = x.astype(np.float64) - zero_point
    x = x - x.mean(axis=1, keepdims=True) if centred else x
    square = (x * x).mean(axis=1, keepdims=True) + epsilon
    return x / np.sqrt(np.where(square > 0, square, 1.0))


def vectors(n, dtype, rng):
    """Vectors of every kind: normal, uniform, one outlier, only rails, flat, one element off by one, hardly any deviation."""
    low, high = QType(dtype, (1.0,), (0,)).limits
    flat = rng.integers(low + 1, high, (64, 1)) + np.zeros((1, n), int)
    off = flat.copy()
    off[:, rng.integers(n)] += 1
    outlier = rng.integers(-2, 3, (64, n))
    outlier[:, n // 2] = high
    kinds = [
        rng.normal(size=(64, n)) * high / 3, rng.uniform(low, high, (64, n)), outlier, rng.choice([low, high], (64, n)),
        flat, off, rng.normal(size=(64, n)), np.zeros((1, n)),
    ]  # fmt: skip
    return np.clip(np.round(np.concatenate(kinds)), low, high).astype(dtype)


@pytest.mark.parametrize("dtype", ["int8", "int16"])
@pytest.mark.parametrize("n", [1, 2, 32, 64, 255, 256, 512, 4096])
@pytest.mark.parametrize(("centred", "epsilon"), [(1, 0.0), (1, 1e-5), (0, 0.3)])
def test_the_law_is_within_a_half_of_the_exact_function(dtype, n, centred, epsilon):
    """The table in docs/quantization.md. An output holds 4 deviations, or what n elements can reach."""
    rng, op = np.random.default_rng(n), kernel_ops()["normalize_s8" if dtype == "int8" else "normalize_s16"]
    x, limit = vectors(n, dtype, rng), 128 if dtype == "int8" else 32768
    scale = rng.uniform(0.5, 1.0, n)
    xq, yq = QType(dtype, (1.0,), (0 if centred else 3,)), QType(dtype, (4.0 / limit,), (0,))
    params, constants = normalization.law(xq, yq, (len(x), 1, 1, n), centred, epsilon, scale, np.zeros(n), "node")
    found = op.int_ref(params, [x], {k: c.materialize() for k, c in constants.items()}).reshape(x.shape)
    wanted = np.clip(exact(x, xq.zero_point[0], centred, epsilon) * scale / yq.scale[0], *yq.limits)
    error = np.abs(found - wanted)
    assert error.max() < (0.53 if dtype == "int8" else 0.6)
    assert np.isfinite(error).all() and math.isfinite(float(error.mean()))
