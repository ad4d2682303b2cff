"""Clocks and energy of cores. In: texts such as 120MHz, counts of cycles. Out: hertz, milliseconds, microjoules.

A board's own clock is `clock_hz` in its board.toml; `--clock` names another one. `microjoules_per_megacycle` in the
same file is an average over programs, so the energy of a network is an estimate even if its cycles are measured.
"""

from __future__ import annotations

import re

from glowembed.errors import UsageError
from glowembed.graph.target import Board

CLOCK = re.compile(r"(\d{1,12}(?:\.\d{1,9})?)\s*([kMG]?Hz)", re.IGNORECASE | re.ASCII)
UNITS = {"hz": 1, "khz": 1_000, "mhz": 1_000_000, "ghz": 1_000_000_000}
FASTEST = 100_000_000_000


def hertz(text: str) -> int:
    """The hertz of a clock such as 120MHz or 32.768kHz. Raises UsageError for anything else."""
    found = CLOCK.fullmatch(text.strip())
    value = round(float(found[1]) * UNITS[found[2].lower()]) if found else 0
    if not 0 < value <= FASTEST:
        raise UsageError(f"--clock {text!r}: expected a frequency with its unit, such as 120MHz or 32768Hz")
    return value


def clock_of(board: Board, given: str | None) -> int | None:
    """The given clock, or else the board's, in hertz; None if neither is known, as on a PC."""
    return hertz(given) if given is not None else board.clock_hz or None


def milliseconds(cycles: float | None, clock_hz: int | None) -> float | None:
    """The time that these cycles take; None if the cycles or the clock are not known."""
    return None if cycles is None or not clock_hz else 1e3 * cycles / clock_hz


def microjoules(cycles: float | None, board: Board) -> float | None:
    """An estimate of the energy that these cycles take on a board; None if the cycles or the board's energy are not
    known.
    """
    rate = board.microjoules_per_megacycle
    return None if cycles is None or not rate else cycles * rate / 1e6


def energy_text(energy: float) -> str:
    """An energy as text, such as 12.3 µJ."""
    return f"{energy:,.3g} µJ"


def time_text(time: float | None, clock_hz: int | None) -> str:
    """A time at a clock as text, such as 1.23 ms at 120 MHz; a dash if it is not known."""
    return "-" if time is None or not clock_hz else f"{time:,.3g} ms at {clock_text(clock_hz)}"


def clock_text(clock_hz: int) -> str:
    """A clock as text, such as 120 MHz."""
    unit = next(name for name in ("GHz", "MHz", "kHz", "Hz") if clock_hz >= UNITS[name.lower()])
    return f"{clock_hz / UNITS[unit.lower()]:g} {unit}"
