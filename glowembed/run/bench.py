"""Holds a board while it is used. In: the name of a port. Out: a Bench: opens the line, and can restart the board.

The port is tried at the beginning, so that nothing is built for a board that is not connected. A place of a labgrid is held until the
context ends, and its board can be switched off and on again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from glowembed.records import dataclass
from glowembed.run import lab
from glowembed.run.line import Line, open_port


@dataclass(frozen=True)
class Bench:
    """A board that is ours. name: of its port, for messages. port: for `open_port`. probe: the serial number of its debug probe."""

    name: str
    port: str
    baud: int
    probe: str | None = None
    place: lab.Place | None = None

    def open(self) -> Line:
        """The line to the board. Raises UsageError where it cannot be opened."""
        line = open_port(self.port, self.baud)
        line.name = self.name
        return line

    def flash_words(self) -> dict[str, str]:
        """What {port}, {place} and {probe} stand for in the command of a board.toml; a probe is also known from the place's tag `probe`."""
        place = self.place
        probe = self.probe or (place.tag("probe") if place is not None else "")
        return {"port": self.port, "place": place.name if place is not None else "", "probe": probe}

    def power_cycle(self) -> str:
        """Switch the board off and on again. Returns why that cannot be done, "" if it was."""
        return self.place.power_cycle() if self.place is not None else "only a place of a labgrid can be switched off"


@contextmanager
def held(port: str, baud: int, probe: str | None = None) -> Iterator[Bench]:
    """A board, held until the context ends. Raises UsageError if its port cannot be opened, or if it is not free."""

    def tried(name: str) -> None:
        open_port(name, baud).close()

    if not port.startswith(lab.PREFIX):
        tried(port)
        yield Bench(port, port, baud, probe)
        return
    with lab.held(port.removeprefix(lab.PREFIX), baud, tried) as place:
        yield Bench(f"{lab.PREFIX}{place.name}", place.port, baud, probe, place)
