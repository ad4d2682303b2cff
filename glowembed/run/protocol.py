"""Encodes and decodes the frames of the serial line. In: bytes. Out: Frame, Broken, Text. It knows no line and no
bundle. docs/protocol.md is the specification, runtime_c/harness/protocol.c the C counterpart, and
tests/vectors/frames.json holds frames for both:

    00 | COBS( command, sequence lo, sequence hi, payload ..., crc32 lo .. hi ) | 00
"""

from __future__ import annotations

import struct
import zlib
from enum import IntEnum

from glowembed.records import dataclass

VERSION = 1
ANSWER = 0x80
NEW_SAMPLE = 0x80000000
"""A bit in the offset of WRITE and INFER: the arena is filled with garbage first."""

HEAD = struct.Struct("<BH")
TAIL = struct.Struct("<I")
SHORTEST = HEAD.size + TAIL.size
BLOCK = 254
"""The most bytes without a zero in a COBS block."""

LONGEST = 1 << 17
"""More bytes than this without a zero are no frame."""


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
    """The reason why a request was refused: the first byte of REFUSED."""

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
    """Bytes between two zeros that are not a frame: a broken one, or the READY line."""

    raw: bytes


def crc32(run_id: int, body: bytes) -> int:
    """zlib's CRC32, started with the run id."""
    return zlib.crc32(body, run_id)


def run_id(of_hash: int, nonce: int) -> int:
    """The run id of a session, from the CRC32 of the bundle's hash. It is never 0, which means no session."""
    return zlib.crc32(struct.pack("<I", nonce), of_hash) or 1


def encode(run: int, command: int, sequence: int, payload: bytes = b"") -> bytes:
    """Encode a frame with its closing zero."""
    body = HEAD.pack(command, sequence) + payload
    return cobs_encode(body + TAIL.pack(crc32(run, body))) + b"\0"


def decode(raw: bytes, runs: tuple[int, ...]) -> Frame | Noise:
    """Decode the bytes between two zeros, if their checksum fits one of these run ids."""
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
    """Encode data without zeros by Consistent Overhead Byte Stuffing (Cheshire and Baker, 1999)."""
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
    """Decode the output of `cobs_encode`; None if it cannot be such output."""
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
    """Splits the bytes of a line at zeros. An incomplete piece is kept for later."""

    def __init__(self) -> None:
        self.rest = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Add bytes, and return the pieces that are now complete, without empty ones."""
        self.rest += data
        *pieces, rest = bytes(self.rest).split(b"\0")
        self.rest = bytearray(rest[-LONGEST:])
        return [piece for piece in pieces if piece]

    def clear(self) -> None:
        """Discard the incomplete piece."""
        self.rest.clear()
