"""Slow memories outside the chip: serial flash that is read in place (QSPI, OSPI) and PSRAM. In: words or keys. Out: their speed as data.

A copy of some bytes takes the time of the bytes at the memory's bandwidth and, for each burst, its wait states. A core that reads in
place waits in the same way for every word, unless a cache holds what it reads.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from glowembed.errors import UsageError
from glowembed.records import dataclass

BANDWIDTH = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)\s*([kMG]?)B/s", re.IGNORECASE | re.ASCII)
UNITS = {"": 1, "k": 1_000, "m": 1_000_000, "g": 1_000_000_000}

WORD = 4
"""Bytes that a core reads at once."""

TRANSFER_CYCLES = 40.0
"""An estimate of the cycles that starting a copy takes, besides its bytes."""


@dataclass(frozen=True)
class External:
    """A slow memory. bandwidth: bytes per second. wait_states: cycles of the core before the first byte of a burst; burst: bytes read at
    once. cache: bytes of a cache in front of it, 0 if there is none. dma: copies can run while the core computes.
    """

    bandwidth: int
    wait_states: int = 0
    burst: int = 32
    cache: int = 0
    dma: bool = False

    def copying(self, count: int, clock_hz: int) -> float:
        """The cycles of a copy of `count` bytes."""
        return TRANSFER_CYCLES + -(-count // self.burst) * self.wait_states + count * clock_hz / self.bandwidth

    def reading(self, count: int, clock_hz: int) -> float:
        """The cycles that a core waits for `count` bytes that it reads once, word by word."""
        return -(-count // WORD) * (self.wait_states + WORD * clock_hz / self.bandwidth)

    def text(self) -> str:
        """The words of --memory."""
        words = [f"{self.bandwidth}B/s", *(["dma"] if self.dma else [])]
        words += [f"wait={self.wait_states}"] if self.wait_states else []
        words += [f"burst={self.burst}"] if self.burst != External.burst else []
        return ":".join([*words, *([f"cache={self.cache}"] if self.cache else [])])


EXPECTED = "a bandwidth such as 20MB/s, and dma, wait=CYCLES, burst=BYTES, cache=BYTES where they apply"


def named_external(text: str, words: Sequence[str], byte_count: Callable[[str], int]) -> External:
    """The memory that some words of --memory describe. Raises UsageError that names the word; text: the whole, for messages."""
    found: dict[str, int | bool] = {}
    for word in words:
        key, equals, value = word.partition("=")
        speed = BANDWIDTH.fullmatch(word.strip())
        if speed is not None:
            key, number = "bandwidth", round(float(speed[1]) * UNITS[speed[2].lower()])
        elif word == "dma":
            number = True
        elif equals and key == "wait" and value.isdecimal() and len(value) < 6:
            key, number = "wait_states", int(value)
        elif equals and key in ("burst", "cache"):
            number = byte_count(value)
        else:
            raise UsageError(f"--memory {text}: {word!r} is not known; expected {EXPECTED}")
        if key in found:
            raise UsageError(f"--memory {text}: {word!r} gives {key} a second time")
        found[key] = number
    if not found.get("bandwidth"):
        raise UsageError(f"--memory {text}: a slow memory needs its bandwidth, such as 20MB/s")
    return External(**found)  # type: ignore[arg-type]


def external_of(values: Mapping[str, int | bool | None], problem: Callable[[str, str], UsageError]) -> External | None:
    """The memory that the keys of a board's [[memories]] describe, None if it has no bandwidth. problem: makes an error from a key and a
    text.
    """
    given = {key: value for key, value in values.items() if value is not None}
    if "bandwidth" not in given:
        for key in ("burst", "cache", "dma"):
            if key in given:
                raise problem(key, "describes a slow memory: give its bandwidth, in bytes per second, too")
        return None
    for key in ("bandwidth", "burst"):
        if given.get(key) == 0:
            raise problem(key, "is 0; allowed: 1 and more")
    return External(**given)  # type: ignore[arg-type]
