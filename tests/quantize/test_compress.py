"""The tables of compressed weights: least errors, and no errors where the model has few numbers."""

from itertools import combinations

import numpy as np
import pytest

from glowembed.errors import UsageError
from glowembed.graph.ir import Array, Const, QType
from glowembed.options.table import weights_place
from glowembed.quantize import compress
from glowembed.quantize.compress import compressed


def of_scales(*scales: float) -> QType:
    return QType("int8", scales, (0,) * len(scales), axis=0)


@pytest.mark.parametrize("importance", [(1.0, 1.0), (1.0, 30.0)], ids=["equal", "one channel counts more"])
def test_no_table_has_a_smaller_error(monkeypatch: pytest.MonkeyPatch, importance: tuple[float, float]) -> None:
    monkeypatch.setattr(compress, "NUMBERS", 3)
    scales, weight = np.array([1.0, 0.25]), np.asarray(importance)
    weights = np.random.default_rng(7).normal(0, 5, (2, 9)) * scales[:, None]

    def error(table: tuple[int, ...]) -> float:
        nearest = np.abs(weights[..., None] - scales[:, None, None] * np.asarray(table)).min(axis=-1)
        return float((np.square(nearest).sum(axis=1) * weight).sum())

    found = compress.best_table(weights, scales, weight)
    least = min(error((0, *table)) for table in combinations(range(-20, 21), 2))
    assert error(found) == pytest.approx(least, rel=1e-9)


def test_a_type_with_a_table_stores_the_nearest_number() -> None:
    qtype = QType("int8", (0.5,), (0,), table=(-7, 0, 20))
    assert qtype.quantize(np.array([-9.0, -1.8, -1.7, 0.0, 4.9, 5.1, 1e30])).tolist() == [-7, -7, 0, 0, 0, 20, 20]


def test_scales_that_fit_a_table_lower_the_error() -> None:
    """A scale may only grow, so that the bias still fits."""
    weights = np.random.default_rng(5).normal(size=(12, 60))
    given = of_scales(*(np.abs(weights).max(axis=1) / 127).tolist())
    found = compressed(Const(weights), given)
    plain = QType("int8", given.scale, given.zero_point, 0, found.table)
    assert all(own >= float(np.float32(s)) for own, s in zip(found.scale, given.scale, strict=True))

    def error(qtype: QType) -> float:
        return float(np.square(qtype.dequantize(qtype.quantize(weights)) - weights).sum())

    assert error(found) < 0.95 * error(plain)


def test_sixteen_integers_are_kept() -> None:
    weights = np.random.default_rng(1).choice(np.arange(-120, 121, 16), (6, 40)) * 0.5
    found = compressed(Const(weights), of_scales(*[0.5] * 6))
    assert np.array_equal(found.dequantize(found.quantize(weights)), weights.astype(np.float32))


def test_sixteen_numbers_of_a_model_are_kept_behind_a_folded_batch_normalization() -> None:
    """Channels whose largest numbers differ have scales of their own, which give one number several integers."""
    rng = np.random.default_rng(2)
    numbers = rng.normal(size=16).astype(np.float32)
    stored = rng.choice(numbers, (5, 12))
    factors = np.float32([0.5, 2.0, 1.0, 0.25, 3.0])[:, None]
    const = Const(stored).then("scale", lambda array: array * factors)
    peaks = np.abs(const.materialize()).max(axis=1) / 127
    found = compressed(const, of_scales(*peaks.tolist()))
    assert len(found.table) <= 16
    steps = (
        np.abs(found.dequantize(found.quantize(const.materialize())) - const.materialize())
        / np.asarray(found.scale)[:, None]
    )
    assert steps.max() <= 0.5001, "each number must only be rounded to int8"


@pytest.mark.parametrize(
    "array", [np.zeros((3, 4)), np.float64([[1e-30, 5.0]]), np.full((2, 2), -3.0)], ids=["0", "tiny", "one"]
)
def test_layers_of_few_numbers(array: Array) -> None:
    found = compressed(Const(array), of_scales(*[0.05] * len(array)))
    assert np.abs(found.dequantize(found.quantize(array)) - array).max() <= 0.026


def test_the_table_is_the_same_each_time() -> None:
    weights = np.random.default_rng(3).normal(size=(8, 90))
    tables = {compressed(Const(weights), of_scales(*[0.03] * 8)).table for _ in range(3)}
    assert len(tables) == 1
    assert len(tables.pop()) == 16


def test_the_option_for_places_names_the_one_for_types() -> None:
    with pytest.raises(UsageError, match="for the type, --weights-dtype compressed"):
        weights_place("compressed")
