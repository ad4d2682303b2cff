"""Clocks in words, and the times that they give."""

from __future__ import annotations

from dataclasses import replace

import pytest

from glowembed.errors import UsageError
from glowembed.graph.clock import clock_of, energy_text, hertz, microjoules, milliseconds, time_text
from glowembed.graph.target import load_board

CLOCKS = [
    ("120MHz", 120_000_000),
    ("120 mhz", 120_000_000),
    ("1.8GHz", 1_800_000_000),
    ("32.768kHz", 32_768),
    ("1Hz", 1),
]


@pytest.mark.parametrize(("text", "expected"), CLOCKS)
def test_a_clock_is_read(text: str, expected: int) -> None:
    assert hertz(text) == expected


@pytest.mark.parametrize("text", ["120", "MHz", "-1MHz", "0Hz", "0.1Hz", "1e9Hz", "101GHz", "120MHz,", "\u0661MHz", ""])
def test_what_is_not_a_clock_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="such as 120MHz"):
        hertz(text)


def test_times() -> None:
    board = load_board("nucleo-l4r5zi")
    assert clock_of(board, None) == 120_000_000
    assert clock_of(board, "80MHz") == 80_000_000
    assert clock_of(load_board("host"), None) is None
    assert milliseconds(240_000, 120_000_000) == 2.0
    assert milliseconds(None, 120_000_000) is None
    assert milliseconds(1, None) is None
    assert time_text(2.0, 120_000_000) == "2 ms at 120 MHz"
    assert time_text(None, 32_768) == "-"


def test_energy_follows_from_cycles_and_board() -> None:
    board = load_board("nucleo-l4r5zi")
    assert microjoules(2_500_000, board) is None
    rated = replace(board, microjoules_per_megacycle=110.0)
    assert microjoules(2_500_000, rated) == 275.0
    assert microjoules(None, rated) is None
    assert energy_text(275.0) == "275 µJ"
