"""The tables of gates over all 65,536 arguments, and that they are the same words on every machine."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from glowembed.law import gates

ARGUMENTS = np.arange(-32768, 32768)


def values(name: str, *numbers: float) -> np.ndarray:
    return gates.looked_up(np.asarray(gates.table(name, *numbers)), ARGUMENTS)


def test_tanh_and_sigmoid_of_all_arguments() -> None:
    t = values("tanh")
    for found, exact, most, within in (
        (t, 32768 * np.tanh(ARGUMENTS / 4096), 1.19, 0.9998),
        ((t + 32768) >> 1, 32768 / (1 + np.exp(-ARGUMENTS / 2048)), 1.03, 0.9999),
    ):
        error = np.abs(found - exact)
        assert error.max() < most and (error <= 1).mean() > within
        assert (np.diff(found) >= 0).all()
    assert (t[0], t[32768], t[-1]) == (-32768, 0, 32767)


@pytest.mark.parametrize(
    ("name", "numbers", "exact", "most"),
    [
        ("hardsigmoid", (0.2, 0.5), lambda x: np.clip(0.2 * x + 0.5, 0, 1), 2.0),
        ("hardsigmoid", (0.3, 0.1), lambda x: np.clip(0.3 * x + 0.1, 0, 1), 25.0),  # its corners lie within segments
        ("softsign", (), lambda x: x / (1 + np.abs(x)), 2.0),
        ("scaledtanh", (0.9, -1.3), lambda x: 0.9 * np.tanh(-1.3 * x), 2.0),
    ],
)
def test_other_functions(name: str, numbers: tuple[float, ...], exact: object, most: float) -> None:
    assert callable(exact)
    error = np.abs(values(name, *numbers) - np.minimum(32768 * exact(ARGUMENTS / 4096), 32767))
    assert error.max() < most and (error <= 1).mean() > 0.99


def test_the_table_has_the_same_words_everywhere() -> None:
    words = np.asarray(gates.table("tanh"), "<i4").tobytes()
    assert hashlib.sha256(words).hexdigest()[:16] == "141b9059ae26f968"


def test_sigmoid_takes_the_table_of_tanh() -> None:
    numbers, words = gates.words_of((("sigmoid", ()), ("tanh", ()), ("softsign", ())))
    assert numbers == (1, 0, 2) and len(words) == 2 * gates.WORDS
