"""Writes firmware to a board. In: an Image. Out: nothing; the board runs it. The tool and its arguments are in
board.toml.
"""

from __future__ import annotations

import shutil
import struct
import subprocess
from collections.abc import Mapping
from pathlib import Path

from elftools.elf.elffile import ELFFile

from glowembed.errors import ToolError, UsageError
from glowembed.files.output import write_file
from glowembed.image.build import Image

SECONDS = 180
UF2_MAGIC = (0x0A324655, 0x9E5D5157, 0x0AB16F30)
UF2_PAYLOAD = 256
UF2_FAMILY_PRESENT = 0x2000
UF2_RP2040 = 0xE48BFF56
"""family id of the RP2040 (uf2families.json of the UF2 specification)"""

COPY = "copy-uf2"
"""The command of boards that are flashed by copying a file: glowembed itself does it."""

UF2_DRIVES = ("/media", "/run/media", "/Volumes", "/mnt")


PROBE = "{probe}"
"""The word of a command that stands for the words of `probe`; it vanishes where no probe is named."""


class FlashFailed(ToolError):
    """The tool could not write the firmware."""


def flash(image: Image, words: Mapping[str, str] | None = None) -> None:
    """Write the firmware into the board's flash with the tool of its board.toml. words: what {port}, {place} and {probe} stand for in its
    command, none by default.
    """
    how = image.board.flash
    if how is None:
        why = "it is emulated: its firmware is loaded as it starts" if image.board.qemu else "board.toml has no [flash]"
        raise UsageError(f"board {image.board.name!r} cannot be flashed: {why}")
    named = {"port": "", "place": "", "probe": ""} | dict(words or {})
    named |= {kind: _file(image, kind).name for kind in how.formats}
    if named["probe"] and not how.probe and how.command[0] != COPY:
        raise UsageError(f"board {image.board.name!r}: its flash command has no `probe` words to choose a probe with")
    chosen = how.probe if named["probe"] else ()
    command = [part.format(**named) for word in how.command for part in (chosen if word == PROBE else (word,))]
    if command[0] == COPY:
        _copy_uf2(image.elf.parent / named["uf2"], how.install, named["probe"])
        return
    if shutil.which(command[0]) is None:
        raise ToolError(f"{command[0]}, which flashes board {image.board.name!r}, is not there; {how.install}")
    _run(command, image.board.name, image.elf.parent)


def _run(command: list[str], board: str, folder: Path) -> None:
    """Run the tool in the folder of the firmware, so that its arguments, which may be a script, contain only plain file
    names.
    """
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, errors="replace", timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise FlashFailed(f"{command[0]} did not end within {SECONDS} s; is the board connected?") from error
    if done.returncode != 0:
        said = "\n".join((done.stderr + done.stdout).strip().splitlines()[-12:])
        raise FlashFailed(
            f"{command[0]} could not flash board {board!r} (exit code {done.returncode}); is it connected, and its "
            f"debug port free?\n{said}"
        )


def _file(image: Image, kind: str) -> Path:
    """The firmware in the format that a tool needs, beside the ELF file."""
    if kind == "elf":
        return image.elf
    path = image.elf.with_suffix(f".{kind}")
    pieces = segments(image.elf)
    writers = {"bin": as_bin, "hex": as_hex, "uf2": as_uf2}
    write_file(path, writers[kind](pieces))
    return path


def segments(elf: Path) -> list[tuple[int, bytes]]:
    """Pairs (address in flash, bytes) of everything that is loaded, by address."""
    with elf.open("rb") as file:
        found = [
            (segment["p_paddr"], bytes(segment.data()))
            for segment in ELFFile(file).iter_segments()
            if segment["p_type"] == "PT_LOAD" and segment["p_filesz"]
        ]
    return sorted(found)


def as_bin(pieces: list[tuple[int, bytes]]) -> bytes:
    """The bytes from the lowest address on, with 0xFF between the pieces, as in erased flash."""
    start = pieces[0][0]
    out = bytearray()
    for address, data in pieces:
        out += b"\xff" * (address - start - len(out))
        out += data
    return bytes(out)


def as_hex(pieces: list[tuple[int, bytes]]) -> bytes:
    """Intel HEX: records of 16 bytes below linear base addresses."""
    lines, base = [], -1
    for address, data in pieces:
        for at in range(0, len(data), 16):
            place = address + at
            if place >> 16 != base:
                base = place >> 16
                lines.append(_record(0, 4, base.to_bytes(2, "big")))
            lines.append(_record(place & 0xFFFF, 0, data[at : at + 16]))
    return ("\n".join([*lines, ":00000001FF"]) + "\n").encode("ascii")


def _record(address: int, kind: int, data: bytes) -> str:
    body = bytes([len(data), address >> 8, address & 0xFF, kind]) + data
    return f":{(body + bytes([-sum(body) & 0xFF])).hex().upper()}"


def as_uf2(pieces: list[tuple[int, bytes]]) -> bytes:
    """UF2 blocks of 256 bytes for the RP2040's boot ROM (UF2 specification, "File format")."""
    start, data = pieces[0][0], _with_checksum(as_bin(pieces))
    pages = [data[at : at + UF2_PAYLOAD].ljust(UF2_PAYLOAD, b"\xff") for at in range(0, len(data), UF2_PAYLOAD)]
    return b"".join(_uf2_block(start, number, len(pages), page) for number, page in enumerate(pages))


def _uf2_block(start: int, number: int, count: int, page: bytes) -> bytes:
    numbers = (UF2_FAMILY_PRESENT, start + number * UF2_PAYLOAD, UF2_PAYLOAD, number, count, UF2_RP2040)
    head = struct.pack("<8I", *UF2_MAGIC[:2], *numbers)
    return head + page.ljust(476, b"\0") + UF2_MAGIC[2].to_bytes(4, "little")


def _with_checksum(data: bytes) -> bytes:
    """The block with its checksum: the boot ROM runs the first 256 bytes if their last four are the checksum of the
    others.
    """
    stage = data[: UF2_PAYLOAD - 4]
    return stage + crc32_mpeg2(stage).to_bytes(4, "little") + data[UF2_PAYLOAD:]


def crc32_mpeg2(data: bytes) -> int:
    """The CRC with polynomial 0x04C11DB7, not reflected, starting from all ones (RP2040 data sheet, 2.8.1.3.1)."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte << 24
        for _ in range(8):
            crc = (crc << 1 ^ (0x04C11DB7 if crc >> 31 else 0)) & 0xFFFFFFFF
    return crc


def _copy_uf2(path: Path, install: str, drive: str) -> None:
    """Copy the firmware to the drive of a boot ROM. drive: its name, where several are mounted."""
    drives = [info.parent for top in UF2_DRIVES for info in Path(top).glob("**/INFO_UF2.TXT")]
    found = [place for place in drives if drive in ("", place.name)]
    if not found:
        there = f" of the name {drive!r}, but of {', '.join(place.name for place in drives)}" if drives else ""
        raise FlashFailed(f"no drive with INFO_UF2.TXT is mounted{there}; {install}")
    shutil.copy(path, found[0] / path.name)
