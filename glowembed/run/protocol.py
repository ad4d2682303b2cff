"""Frames of the serial line: bytes to frames and back. In: bytes. Out: Frame, Broken, Text. Knows no line and no bundle.

docs/protocol.md is the law, runtime_c/harness/protocol.c the twin, tests/vectors/frames.json what both must do:

    00 | COBS( command, sequence lo, sequence hi, payload ..., crc32 lo .. hi ) | 00
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from enum import IntEnum

VERSION = 1
ANSWER = 0x80
NEW_SAMPLE = 0x80000000
"""In the offset of WRITE and INFER: the arena is filled with junk first."""

HEAD = struct.Struct("<BH")
TAIL = struct.Struct("<I")
SHORTEST = HEAD.size + TAIL.size
BLOCK = 254
"""Most bytes without a zero in a COBS block."""

LONGEST = 1 << 17
"""More bytes without a zero than this are no frame of anybody's."""


class Command(IntEnum):
    """Requests; the answer has ANSWER on top. The last three come from a device only."""

    HELLO = 1
    WRITE = 2
    INFER = 3
    RUN = 4
    LAYERS = 5
    READ = 6
    CHECKSUM = 7
    STACK = 8
    CALIBRATE = 9
    ECHO = 10
    RESET = 11
    INFO = 12
    AGAIN = 13
    FAULT = 0xFD
    BROKEN = 0xFE
    REFUSED = 0xFF


class Refusal(IntEnum):
    """Why a request was not done: the first byte of REFUSED."""

    COMMAND = 1
    PAYLOAD = 2
    STATUS = 3
    OVERRUN = 4
    STACK = 5
    SEQUENCE = 6
    ABSENT = 7


@dataclass(frozen=True)
class Frame:
    """A frame whose checksum fits one of the run ids that the reader knows."""

    command: int
    sequence: int
    payload: bytes
    run_id: int


@dataclass(frozen=True)
class Noise:
    """Bytes between two zeros that are no frame: a broken one, or the READY line."""

    raw: bytes


def crc32(run_id: int, body: bytes) -> int:
    """zlib's CRC32, started with the run id."""
    return zlib.crc32(body, run_id)


def run_id(of_hash: int, nonce: int) -> int:
    """The run id of a session, from the CRC32 of the bundle's hash: never 0, which stands for none."""
    return zlib.crc32(struct.pack("<I", nonce), of_hash) or 1


def encode(run: int, command: int, sequence: int, payload: bytes = b"") -> bytes:
    """A frame with its closing zero."""
    body = HEAD.pack(command, sequence) + payload
    return cobs_encode(body + TAIL.pack(crc32(run, body))) + b"\0"


def decode(raw: bytes, runs: tuple[int, ...]) -> Frame | Noise:
    """What lies between two zeros, if its checksum fits one of these run ids."""
    body = cobs_decode(raw)
    if body is None or len(body) < SHORTEST:
        return Noise(raw)
    found = TAIL.unpack(body[-TAIL.size :])[0]
    for run in runs:
        if crc32(run, body[: -TAIL.size]) == found:
            command, sequence = HEAD.unpack(body[: HEAD.size])
            return Frame(command, sequence, body[HEAD.size : -TAIL.size], run)
    return Noise(raw)


def cobs_encode(data: bytes) -> bytes:
    """Consistent Overhead Byte Stuffing (Cheshire and Baker, 1999): the same data without zeros."""
    out = bytearray()
    parts = data.split(b"\0")
    for index, part in enumerate(parts):
        for start in range(0, len(part) - BLOCK + 1, BLOCK):
            out.append(BLOCK + 1)
            out += part[start : start + BLOCK]
        rest = part[len(part) // BLOCK * BLOCK :]
        last_is_full = index == len(parts) - 1 and not rest and part
        if not last_is_full:
            out.append(len(rest) + 1)
            out += rest
    return bytes(out)


def cobs_decode(raw: bytes) -> bytes | None:
    """The data of `cobs_encode`, or None where that cannot have made it."""
    out = bytearray()
    at = 0
    while at < len(raw):
        code = raw[at]
        block = raw[at + 1 : at + code]
        if code == 0 or len(block) != code - 1:
            return None
        out += block
        at += code
        if code <= BLOCK and at < len(raw):
            out.append(0)
    return bytes(out) if b"\0" not in raw else None


class Splitter:
    """Cuts what a line gives at its zeros. What is left over waits for more."""

    def __init__(self) -> None:
        self.rest = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """The pieces that have now ended, empty ones left out."""
        self.rest += data
        *pieces, rest = bytes(self.rest).split(b"\0")
        self.rest = bytearray(rest[-LONGEST:])
        return [piece for piece in pieces if piece]

    def clear(self) -> None:
        """Forget what has not ended."""
        self.rest.clear()
