"""Facts about object files. In: ELF files, gcc's call graphs. Out: sizes, symbols, depth of the stack."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

TABLES = (".eh_frame", ".note", ".ARM.")


@dataclass(frozen=True)
class Sizes:
    """Bytes by what they are: executable, read only, initialised, zeroed."""

    code: int = 0
    rodata: int = 0
    data: int = 0
    bss: int = 0

    def __add__(self, other: Sizes) -> Sizes:
        return Sizes(self.code + other.code, self.rodata + other.rodata, self.data + other.data, self.bss + other.bss)


def sizes(path: Path) -> Sizes:
    """The sizes of the sections that are loaded; tables for debuggers and unwinding are not."""
    total = Sizes()
    with path.open("rb") as file:
        for section in ELFFile(file).iter_sections():
            if section["sh_flags"] & SH_FLAGS.SHF_ALLOC and not section.name.startswith(TABLES):
                total += _size_of(section["sh_flags"], section["sh_type"], section["sh_size"])
    return total


def _size_of(flags: int, kind: str, size: int) -> Sizes:
    if flags & SH_FLAGS.SHF_EXECINSTR:
        return Sizes(code=size)
    if kind == "SHT_NOBITS":
        return Sizes(bss=size)
    if flags & SH_FLAGS.SHF_WRITE:
        return Sizes(data=size)
    return Sizes(rodata=size)


def undefined_symbols(objects: Iterable[Path]) -> tuple[str, ...]:
    """What these objects need from elsewhere, sorted."""
    needed: set[str] = set()
    defined: set[str] = set()
    for path in objects:
        for name, section in _symbols(path):
            (needed if section == "SHN_UNDEF" else defined).add(name)
    return tuple(sorted(needed - defined - {"", "_GLOBAL_OFFSET_TABLE_"}))


def _symbols(path: Path) -> list[tuple[str, str | int]]:
    with path.open("rb") as file:
        table = ELFFile(file).get_section_by_name(".symtab")
        if not isinstance(table, SymbolTableSection):
            return []
        return [(symbol.name, symbol["st_shndx"]) for symbol in table.iter_symbols()]


def loaded_ranges(path: Path) -> list[tuple[int, int]]:
    """(address, bytes) of everything that takes memory in a firmware, at its place when it runs."""
    with path.open("rb") as file:
        return [
            (section["sh_addr"], section["sh_size"])
            for section in ELFFile(file).iter_sections()
            if section["sh_flags"] & SH_FLAGS.SHF_ALLOC and section["sh_size"]
        ]


def function_at(path: Path, address: int) -> str | None:
    """`name+offset` of the function that holds this address, or None."""
    with path.open("rb") as file:
        table = ELFFile(file).get_section_by_name(".symtab")
        for symbol in table.iter_symbols() if isinstance(table, SymbolTableSection) else ():
            offset = address - (symbol["st_value"] & ~1)
            if symbol["st_info"]["type"] == "STT_FUNC" and 0 <= offset < max(symbol["st_size"], 1):
                return f"{symbol.name}+0x{offset:x}"
    return None


NODE = re.compile(r'node: \{ title: "([^"]+)" label: "([^"]*)"')
EDGE = re.compile(r'edge: \{ sourcename: "([^"]+)" targetname: "([^"]+)"')
EXTERNAL_FRAME = 64  # more than the integer helpers of libgcc and the memory functions of newlib push
FRAME = re.compile(r"(\d+) bytes \((static|dynamic,bounded|dynamic)\)")


def stack_depth(graphs: Iterable[Path], entries: Iterable[str], callbacks: bool = False) -> int | None:
    """The deepest stack from the entries by gcc's own figures (-fcallgraph-info=su).

    callbacks: calls through pointers go to functions of the caller, whose stack is not counted.

    None where there is no such bound: a graph is missing, a frame is dynamic, a call is recursive or through
    a pointer. A function outside these files (memcpy, a division) counts as EXTERNAL_FRAME bytes.
    """
    frames: dict[str, int] = {}
    calls: dict[str, set[str]] = {}
    if callbacks:
        frames["__indirect_call"] = 0
    for path in graphs:
        if not path.is_file():
            return None
        text = path.read_text(encoding="utf-8")
        for title, label in NODE.findall(text):
            frame = FRAME.search(label)
            if frame is not None and frame[2] == "dynamic":
                return None
            if frame is not None:
                frames[title] = int(frame[1])
        for caller, callee in EDGE.findall(text):
            calls.setdefault(caller, set()).add(callee)
    depths = [_depth(_title(entry, frames), frames, calls, ()) for entry in entries]
    return None if None in depths else max((depth for depth in depths if depth is not None), default=None)


def _title(name: str, frames: dict[str, int]) -> str:
    return next((title for title in frames if title.split(":")[-1] == name), name)


def _depth(name: str, frames: dict[str, int], calls: dict[str, set[str]], path: tuple[str, ...]) -> int | None:
    if name in path or (name == "__indirect_call" and name not in frames):
        return None
    below = [_depth(callee, frames, calls, (*path, name)) for callee in calls.get(name, ())]
    if None in below:
        return None
    return frames.get(name, EXTERNAL_FRAME) + max((depth for depth in below if depth is not None), default=0)
