"""A bad line, for tests and benchmarks/faults.py: stands between the host and a real firmware in QEMU.

In: a Line and what goes wrong on it. Out: a Line. Every fault follows from the seed.
"""

from __future__ import annotations

import json
import random
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from glowembed.run.line import Line, LineClosed

REORDERED = 8
"""Bytes that change places among each other."""


@dataclass(frozen=True)
class Faults:
    """Probabilities per byte, in both directions. `close_after`: bytes from the device until the line closes.
    `late`: seconds that answers take longer, with probability `late_share` per piece.
    """

    drop: float = 0.0
    duplicate: float = 0.0
    corrupt: float = 0.0
    reorder: float = 0.0
    noise: float = 0.0
    """a burst of noise before a byte"""
    banner_noise: int = 0
    """bytes of noise before the device's first answer"""
    close_after: int | None = None
    late: float = 0.0
    late_share: float = 0.0
    deaf: bool = False
    """nothing reaches the device"""
    garble: bool = False
    """every byte comes out as at a wrong baud rate"""


@dataclass
class FaultyLine:
    """See the module. `count`: faults so far."""

    line: Line
    faults: Faults
    random: random.Random
    count: int = 0
    received: int = 0
    name: str = "the faulty line"
    on_piece: Callable[[], None] | None = None
    """called before every piece that comes from the device"""
    pending: bytearray = field(default_factory=bytearray)

    def __post_init__(self) -> None:
        self.pending += self._noise_bytes(self.faults.banner_noise)

    def read(self, seconds: float) -> bytes:
        if self.pending:
            data, self.pending = bytes(self.pending), bytearray()
            return data
        if self.on_piece is not None:
            self.on_piece()
        data = self.line.read(seconds)
        if self.faults.late and data and self.random.random() < self.faults.late_share:
            self.count += 1
            time.sleep(self.faults.late)
        self.received += len(data)
        if self.faults.close_after is not None and self.received >= self.faults.close_after:
            self.count += 1
            raise LineClosed(f"{self.name}: the line was closed at the other end")
        return self._spoil(data)

    def write(self, data: bytes) -> None:
        if not self.faults.deaf:
            self.line.write(self._spoil(data))

    def close(self) -> None:
        self.line.close()

    def _noise_bytes(self, count: int) -> bytes:
        return bytes(self.random.randrange(256) for _ in range(count))

    def _spoil(self, data: bytes) -> bytes:
        faults, chance = self.faults, self.random.random
        if faults.garble:
            return bytes((0x80 | byte << 1 & 0xFF ^ byte >> 3) & 0xFF for byte in data)
        out = bytearray()
        for byte in data:
            if faults.noise and chance() < faults.noise:
                self.count += 1
                out += self._noise_bytes(self.random.randrange(1, 40))
            if faults.drop and chance() < faults.drop:
                self.count += 1
                continue
            if faults.corrupt and chance() < faults.corrupt:
                self.count += 1
                byte ^= 1 << self.random.randrange(8)
            out.append(byte)
            if faults.duplicate and chance() < faults.duplicate:
                self.count += 1
                out.append(byte)
            if faults.reorder and chance() < faults.reorder:
                self.count += 1
                tail = list(out[-REORDERED:])
                self.random.shuffle(tail)
                out[-len(tail) :] = bytes(tail)
        return bytes(out)


class Monitor:
    """QEMU's control socket: resets the machine."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.socket: socket.socket | None = None

    @property
    def words(self) -> list[str]:
        """The arguments for QEMU's command line."""
        return ["-qmp", f"unix:{self.path},server=on,wait=off"]

    def reset(self) -> None:
        self._say("system_reset")

    def close(self) -> None:
        if self.socket is not None:
            self.socket.close()

    def _say(self, command: str) -> None:
        if self.socket is None:
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.settimeout(120)
            self.socket.connect(str(self.path))
            self._answer()
            self._send("qmp_capabilities")
        self._send(command)

    def _send(self, command: str) -> None:
        assert self.socket is not None
        self.socket.sendall(json.dumps({"execute": command}).encode() + b"\n")
        self._answer()

    def _answer(self) -> None:
        assert self.socket is not None
        data = b""
        while not any(word in data for word in (b'"return"', b'"QMP"', b'"error"')):
            data += self.socket.recv(4096)
