"""Tables of numbers that share one array."""

import random

import pytest

from glowembed.emit.tables import Joined


def test_equal_runs_are_stored_once():
    joined = Joined("t", "uint8_t", [[1, 2, 3, 4], [2, 3], [4, 5], [5]])
    assert joined.entry() == {"name": "t", "type": "uint8_t", "count": 5, "lines": ["1, 2, 3, 4, 5,"]}
    assert [joined.at(table) for table in ([1, 2, 3, 4], [2, 3], [4, 5], [5])] == ["t", "t + 1", "t + 3", "t + 4"]


def test_numbers_are_compared_not_their_bytes():
    joined = Joined("t", "uint16_t", [[0x0100, 0x0001], [0x010000]])
    assert joined.entry()["count"] == 3


@pytest.mark.parametrize("seed", range(20))
def test_every_table_is_in_one_piece(seed: int):
    rng = random.Random(seed)
    tables = [[rng.randrange(3) * 257 for _ in range(rng.randrange(1, 9))] for _ in range(30)]
    joined = Joined("t", "uint16_t", tables)
    numbers = [int(n) for line in joined.entry()["lines"] for n in line.rstrip(",").split(", ")]
    assert len(numbers) == joined.entry()["count"] <= sum(map(len, tables))
    for table in tables:
        start = int(joined.at(table).removeprefix("t").removeprefix(" + ") or 0)
        assert numbers[start : start + len(table)] == table


def test_no_tables():
    assert Joined("t", "uint8_t", []).entry()["count"] == 0
