"""A small client of MLPerf Tiny's protocol, after the published runner (mlcommons/tiny, benchmark/runner): a command
ends with %, an answer consists of lines up to m-ready. In: a Line. Out: the answers of the device.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass

from glowembed.run.line import Line

BYTES_PER_COMMAND = 31
SECONDS = 60.0


@dataclass(frozen=True)
class Inference:
    """results: the vector that the tool scores. microseconds: between the two time stamps."""

    results: list[float]
    microseconds: int


@dataclass
class Runner:
    """The tool's side of the line."""

    line: Line
    rest: bytes = b""

    def answer(self) -> list[str]:
        """The lines up to m-ready, without it."""
        end = time.monotonic() + SECONDS
        while b"m-ready\r\n" not in self.rest:
            assert time.monotonic() < end, f"no m-ready, only {self.rest!r}"
            self.rest += self.line.read(1.0)
        answer, _, self.rest = self.rest.partition(b"m-ready\r\n")
        return answer.decode("ascii").replace("\0", "").splitlines()

    def command(self, words: str) -> list[str]:
        self.line.write(words.encode("ascii") + b"%")
        return self.answer()

    def load(self, data: bytes) -> list[str]:
        assert self.command(f"db load {len(data)}") == [f"m-[Expecting {len(data)} bytes]"]
        said: list[str] = []
        for start in range(0, len(data), BYTES_PER_COMMAND):
            said += self.command(f"db {data[start : start + BYTES_PER_COMMAND].hex()}")
        return said

    def infer(self, times: int, warmups: int) -> Inference:
        lines = self.command(f"infer {times} {warmups}")
        laps = [int(found[1]) for line in lines if (found := re.fullmatch(r"m-lap-us-([0-9]+)", line))]
        (results,) = [found[1] for line in lines if (found := re.fullmatch(r"m-results-\[([^]]+)\]", line))]
        shape = [line for line in lines if not line.startswith(("m-lap", "m-results"))]
        assert shape == [f"m-warmup-start-{warmups}", "m-warmup-done", f"m-infer-start-{times}", "m-infer-done"]
        assert len(laps) == 2
        return Inference([float(word) for word in results.split(",")], laps[1] - laps[0])
