"""Places the constants of a bundle: in flash, in RAM, or in a file of their own that the program is given at run time.

In: the constant arrays. Out: one file of bytes with its hash, and where each array lies in it. Numbers are
little-endian, as on every target.

    bytes 0..7    FNV-1a, 64 bits, of all bytes from HEAD on
    HEAD..        the arrays, each aligned as the kernels want it, to a word of the target or to a vector
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from glowembed.graph.ir import Array

HEAD = 16
FNV_OFFSET, FNV_PRIME = 0xCBF29CE484222325, 0x100000001B3


@dataclass(frozen=True)
class WeightsFile:
    """A file of weights. offsets: the offset of each array from the start of the content."""

    content: bytes
    offsets: tuple[int, ...]
    hash: int


def weights_file(arrays: Sequence[Array], alignment: int) -> WeightsFile:
    """All arrays one after the other, after their hash."""
    content, offsets = bytearray(), []
    for array in arrays:
        content += bytes(-(HEAD + len(content)) % alignment)
        offsets.append(HEAD + len(content))
        content += array.astype(array.dtype.newbyteorder("<")).tobytes()
    digest = fnv1a(content)
    return WeightsFile(digest.to_bytes(8, "little") + bytes(HEAD - 8) + content, tuple(offsets), digest)


def fnv1a(content: bytes | bytearray, digest: int = FNV_OFFSET) -> int:
    """The hash of http://www.isthe.com/chongo/tech/comp/fnv: it detects every change of a single byte, but is no
    protection against intent. digest: that of the bytes before these.
    """
    for byte in content:
        digest = (digest ^ byte) * FNV_PRIME & 0xFFFFFFFFFFFFFFFF
    return digest
