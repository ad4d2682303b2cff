"""Places the constants of a bundle in flash, in RAM, or in a separate file that the program is given at run time.

In: the constant arrays and, for a file, everything else that depends on the values of weights or on ranges. Out: one
file of bytes, and the offset of each piece in it. Numbers are little-endian, as on every target.

    bytes 0..7     the structure, which tells which programs the file fits (structure.py)
    bytes 8..11    CRC-32 of all bytes from CRC_START on, as in zlib and IEEE 802.3
    bytes 12..15   the size of the file in bytes
    HEAD..         the pieces, each aligned to a word of the target or to a vector, as the kernels require

A program with such a file contains no params and no scales, but reads them from the file. Two networks whose programs
have the same text can therefore use each other's file.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from zlib import crc32

from glowembed.graph.ir import Array
from glowembed.nest.dtypes import NIBBLES
from glowembed.records import dataclass

HEAD = 16
CRC_START = 12
FNV_OFFSET, FNV_PRIME = 0xCBF29CE484222325, 0x100000001B3


@dataclass(frozen=True)
class Piece:
    """A part of the file. word: replaced by its address in the C text; ctype: of its elements."""

    word: str
    ctype: str
    content: bytes


@dataclass(frozen=True)
class WeightsFile:
    """The pieces of a weights file, and their offsets from the start of the file."""

    pieces: tuple[Piece, ...]
    offsets: tuple[int, ...]
    size: int

    @property
    def placed(self) -> list[tuple[Piece, int]]:
        """The pieces with their offsets."""
        return list(zip(self.pieces, self.offsets, strict=True))

    def content(self, structure: int) -> bytes:
        """The bytes of the file for programs of this structure."""
        body = bytearray(self.size)
        for piece, offset in self.placed:
            body[offset : offset + len(piece.content)] = piece.content
        body[CRC_START:HEAD] = struct.pack("<I", self.size)
        body[:CRC_START] = struct.pack("<QI", structure, crc32(body[CRC_START:]))
        return bytes(body)


def weights_file(pieces: Sequence[Piece], alignment: int) -> WeightsFile:
    """The layout of a file with these pieces, one after the other."""
    end, offsets = HEAD, []
    for piece in pieces:
        offsets.append(-(-end // alignment) * alignment)
        end = offsets[-1] + len(piece.content)
    return WeightsFile(tuple(pieces), tuple(offsets), end)


def stored_bytes(array: Array) -> bytes:
    """A constant as bytes, in the form in which every target stores it."""
    stored = array.astype("int8") if array.dtype.name in NIBBLES else array
    return stored.astype(stored.dtype.newbyteorder("<")).tobytes()


def crc_of(arrays: Sequence[Array]) -> int:
    """The CRC-32 of several constants, one after the other."""
    crc = 0
    for array in arrays:
        crc = crc32(stored_bytes(array), crc)
    return crc


def fnv1a(content: bytes | bytearray, digest: int = FNV_OFFSET) -> int:
    """The FNV-1a hash (http://www.isthe.com/chongo/tech/comp/fnv). It detects every change of a single byte, but does
    not protect against intent. digest: the hash of the bytes before these.
    """
    for byte in content:
        digest = (digest ^ byte) * FNV_PRIME & 0xFFFFFFFFFFFFFFFF
    return digest
