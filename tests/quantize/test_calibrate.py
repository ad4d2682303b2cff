"""Ranges against brute force on the samples themselves, and against distributions whose answer is known."""

from dataclasses import replace

import numpy as np
import pytest

from glowembed.errors import UsageError
from glowembed.options.table import SCHEMAS
from glowembed.quantize.calibrate import (
    METHODS,
    _divergence,
    calibrate,
    calibrate_samples,
    calibrate_weights,
    grid_step,
)
from glowembed.quantize.schema import choose
from glowembed.ranges.record import ValueProfile, observe

RNG = np.random.default_rng(3)
SAMPLES = {
    "normal": RNG.normal(size=20000),
    "laplace": RNG.laplace(size=20000),
    "relu": np.maximum(RNG.normal(size=20000), 0),
    "outliers": np.concatenate([RNG.normal(size=20000), [40.0, -55.0]]),
    "one side": RNG.gamma(2.0, size=20000),
    "shifted": RNG.normal(3.0, 1.0, size=20000),
    "negative": -RNG.gamma(1.5, size=20000),
    "uniform": RNG.uniform(-1, 3, size=20000),
    "tiny": RNG.laplace(size=5000) * 1e-30,
    "huge": RNG.laplace(size=5000) * 1e30,
}


def seen(name: str) -> ValueProfile:
    return observe(SAMPLES[name].astype(np.float32).reshape(-1, 1))


def squared_error(x: np.ndarray, low: float, high: float, schema: str, dtype: str = "int8") -> float:
    q = choose(low, high, schema, dtype)
    return float((((q.quantize(x).astype(np.float64) - q.zero_point[0]) * q.scale[0] - x) ** 2).sum())


@pytest.mark.parametrize("schema", SCHEMAS)
@pytest.mark.parametrize("name", SAMPLES)
def test_mse_is_as_good_as_brute_force(name: str, schema: str) -> None:
    x = SAMPLES[name].astype(np.float32).astype(np.float64)
    low, high = min(x.min(), 0.0), max(x.max(), 0.0)
    shares = np.linspace(1 / 24, 1, 24)
    ends = max(-low, high) * np.linspace(1 / 96, 1, 96)
    pairs = [(max(low, -t), min(high, t)) for t in ends]
    if schema == "asymmetric":
        pairs += [(low * a, high * b) for a in shares for b in shares]
    best = min(squared_error(x, a, b, schema) for a, b in pairs)
    found = squared_error(x, *calibrate(seen(name), "mse", schema), schema)
    assert found <= best * 1.04
    assert found <= squared_error(x, low, high, schema) * 1.001


@pytest.mark.parametrize("schema", SCHEMAS)
@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_a_range_lies_in_what_was_seen(name: str, schema: str, method: str, dtype: str) -> None:
    value = seen(name)
    low, high = calibrate(value, method, schema, dtype)
    assert value.low <= low <= high <= value.high
    choose(low, high, schema, dtype)


def few(count: int) -> ValueProfile:
    return observe(np.random.default_rng(count).standard_normal((count, 1)).astype(np.float32))


def test_a_range_of_few_numbers_is_widened() -> None:
    clipped, held = (
        range_of(few(40), "mse", "asymmetric", "int8", 99.9)[1] for range_of in (calibrate, calibrate_samples)
    )
    others = np.abs(np.random.default_rng(1).standard_normal(10_000))
    assert squared_error(others, 0.0, held, "asymmetric") < 0.2 * squared_error(others, 0.0, clipped, "asymmetric")


@pytest.mark.parametrize(
    ("value", "method"), [(few(511), "minmax"), (few(511), "percentile"), (few(512), "mse"), (seen("normal"), "mse")]
)
def test_a_range_is_not_widened(value: ValueProfile, method: str) -> None:
    case = (value, method, "asymmetric", "int8", 99.9)
    assert calibrate_samples(*case) == calibrate(*case)


def test_sqnr_clips_less_than_mse() -> None:
    high = calibrate(seen("outliers"), "mse", "symmetric")[1]
    assert calibrate(seen("outliers"), "sqnr", "symmetric")[1] >= high
    x = SAMPLES["outliers"]

    def ratio(t: float) -> float:
        q = choose(-t, t, "symmetric")
        stored = q.dequantize(q.quantize(x)).astype(np.float64)
        return float((stored**2).sum() / ((stored - x) ** 2).sum())

    best = max(ratio(t) for t in np.linspace(0.5, 55, 400))
    assert ratio(-calibrate(seen("outliers"), "sqnr", "symmetric")[0]) >= best * 0.97


@pytest.mark.parametrize("method", ["kl", "percentile"])
def test_two_outliers_in_twenty_thousand_are_clipped(method: str) -> None:
    low, high = calibrate(seen("outliers"), method, percentile=99.9)
    assert -45 < low < -2.5
    assert 2.5 < high < 35


@pytest.mark.parametrize("method", METHODS)
def test_nothing_is_clipped_from_a_uniform_range(method: str) -> None:
    low, high = calibrate(seen("uniform"), method)
    assert low == pytest.approx(-1, abs=0.05)
    assert high == pytest.approx(3, abs=0.05)


@pytest.mark.parametrize("method", METHODS)
def test_ranges_without_a_choice(method: str) -> None:
    assert calibrate(ValueProfile(-1.0, 2.0), method) == (-1.0, 2.0)  # a constant
    for number in (0.0, 3.0, -1e-30):
        value = observe(np.full((5, 1), number, np.float32))
        assert calibrate(value, method) == (np.float32(number), np.float32(number))


STEP = np.float32(0.5847029)
# levels in steps of STEP -> schema -> (scale / STEP, zero point), or None where the range is that of minmax
GRIDS = [
    (range(-211, 41), "asymmetric", (1, 85)),  # 252 numbers, of 4 to spare two below
    (range(-128, 128), "asymmetric", (1, 0)),
    (range(256), "asymmetric", (1, -128)),
    (range(0, 256, 5), "asymmetric", (5 / 5, -128)),  # 51 steps of 5: 5 parts each
    (range(17), "asymmetric", (1 / 15, -128)),  # 16 steps in 15 parts, to spare above only
    (range(-16, 1), "asymmetric", (1 / 15, 127)),
    (range(257), "asymmetric", None),  # more than there are
    (range(1, 252), "asymmetric", (1, -128)),  # widened to zero
    (range(-20, 100), "symmetric", (1, 0)),
    (range(-20, 50), "symmetric", (1 / 2, 0)),
    (range(-129, 10), "symmetric", None),
    (range(10), "symmetric_with_uint8", (1 / 28, -128)),
    (range(-3, 10), "symmetric_with_uint8", (1 / 14, 0)),
    (range(17), "symmetric_with_power2_scale", None),
    ([0, 1, 2.5], "asymmetric", None),
    ([0, 1, 1.5], "asymmetric", (0.5 / 85, -128)),
]


@pytest.mark.parametrize(("numbers", "law", "expected"), GRIDS)
def test_inputs_on_a_grid_are_stored_exactly(numbers: range | list, law: str, expected: tuple | None) -> None:
    levels = (np.asarray(numbers, np.float32) * STEP).astype(np.float32)
    plain = observe(levels.reshape(-1, 1))
    value = replace(plain, levels=tuple(map(float, levels)))
    assert calibrate(value, "percentile", law, percentile=90) == calibrate(plain, "percentile", law, percentile=90)
    assert calibrate(value, "minmax", law, "int16") == calibrate(plain, "minmax", law, "int16")
    if expected is None:
        assert calibrate(value, "minmax", law) == calibrate(plain, "minmax", law)
        return
    for method in ("minmax", "mse", "sqnr"):
        q = choose(*calibrate(value, method, law), law)
        assert q.scale[0] == pytest.approx(expected[0] * STEP, rel=1e-6)
        assert q.zero_point[0] == expected[1]
        np.testing.assert_allclose(q.dequantize(q.quantize(levels)), levels, rtol=2e-6)


def test_numbers_at_random_are_no_grid() -> None:
    for count in (3, 30, 256):
        assert grid_step(sorted(RNG.normal(size=count))) is None
    assert grid_step([]) is None
    assert grid_step([0.0]) is None
    assert grid_step([1e-45, 1.0]) is None


def test_percentile() -> None:
    array = np.concatenate([np.linspace(-1, 1, 9998), [-50, 100]]).astype(np.float32)
    value = observe(array)
    assert calibrate(value) == (-50, 100)
    low, high = calibrate(value, "percentile", percentile=99.9)
    assert -1.2 <= low <= -0.9
    assert 0.9 <= high <= 1.2
    assert calibrate(value, "percentile", percentile=100) == (-50, 100)
    for bad in (50, 101, float("nan")):
        with pytest.raises(UsageError, match="percentile"):
            calibrate(value, "percentile", percentile=bad)
    with pytest.raises(UsageError, match="Did you mean 'percentile'"):
        calibrate(value, "precentile")


def slow_divergence(counts: list[float], begin: int, end: int, levels: int) -> float:
    """The algorithm word for word, with loops."""
    p = list(counts[begin:end])
    p[0] += sum(counts[:begin])
    p[-1] += sum(counts[end:])
    size, q = len(p) // levels, [0.0] * len(p)
    for level in range(levels):
        first = level * size
        last = first + size if level < levels - 1 else len(p)
        occupied = [i for i in range(first, last) if p[i] > 0]
        for i in occupied:
            q[i] = sum(counts[begin + first : begin + last]) / len(occupied)

    def smooth(values: list[float]) -> list[float]:
        empty = sum(v <= 0 for v in values)
        taken = 1e-4 * empty / max(1, len(values) - empty)
        result = [1e-4 if v <= 0 else v - taken for v in values]
        return [v / sum(result) for v in result]

    return sum(a * np.log(a / b) for a, b in zip(smooth(p), smooth(q), strict=True))


@pytest.mark.parametrize(("begin", "end", "levels"), [(0, 60, 15), (3, 50, 15), (10, 25, 15), (0, 60, 7), (5, 60, 9)])
def test_divergence_is_the_algorithm(begin: int, end: int, levels: int) -> None:
    counts = RNG.poisson(3.0, 60).astype(float)
    expected = slow_divergence(counts.tolist(), begin, end, levels)
    assert _divergence(counts, begin, end, levels) == pytest.approx(expected, rel=1e-9)


def test_kl_leaves_alone_what_has_fewer_bins_than_the_type_has_numbers() -> None:
    assert calibrate(seen("outliers"), "kl", "symmetric", "int16") == (seen("outliers").low, seen("outliers").high)
    few = observe(np.arange(100, dtype=np.float32))
    assert len(few.histogram.counts) > 255 or calibrate(few, "kl") == (0, 99)


@pytest.mark.parametrize("zeros", [0.0, 0.5, 0.95])
def test_kl_does_not_mind_the_zeros_of_a_relu(zeros: float) -> None:
    rng = np.random.default_rng(4)
    x = np.abs(rng.normal(size=100_000)) * (rng.random(100_000) >= zeros)
    low, high = calibrate(observe(x.astype(np.float32)[:, None]), "kl")
    assert low < 1e-3
    assert high > 2.5


def test_kl_of_a_symmetric_schema_is_symmetric_until_what_was_seen() -> None:
    low, high = calibrate(seen("laplace"), "kl", "symmetric")
    assert low == pytest.approx(-high, rel=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_weights(method: str) -> None:
    w = np.concatenate([np.random.default_rng(1).normal(size=500), [30.0]])
    low, high = calibrate_weights(w, method, percentile=99.0)
    assert w.min() - 1e-6 <= low <= 0 <= high <= 30.0
    assert (high < 15.0) == (method == "percentile")  # the squared error of clipping 30 is too high a price
    assert calibrate_weights(np.zeros(9), method) == (0.0, 0.0)
