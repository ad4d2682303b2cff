"""Reads facts from object files. In: ELF files, gcc's call graphs. Out: sizes, symbols, and the depth of the stack."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile
from elftools.elf.enums import ENUM_RELOC_TYPE_ARM, ENUM_RELOC_TYPE_x64
from elftools.elf.relocation import Relocation, RelocationSection
from elftools.elf.sections import Section, Symbol, SymbolTableSection

from glowembed.records import dataclass

TABLES = (".eh_frame", ".note", ".ARM.")
RISCV_RELOCATIONS = {
    "R_RISCV_BRANCH": 16, "R_RISCV_JAL": 17, "R_RISCV_CALL": 18, "R_RISCV_CALL_PLT": 19, "R_RISCV_ALIGN": 43,
    "R_RISCV_RVC_BRANCH": 44, "R_RISCV_RVC_JUMP": 45, "R_RISCV_RELAX": 51,
}  # fmt: skip
"""The relocations of RISC-V ELF psABI 1.0, table 5, that describe the layout of code and not an address."""


@dataclass(frozen=True)
class Sizes:
    """The bytes of a program by kind: executable, read-only, initialised, zeroed."""

    code: int = 0
    rodata: int = 0
    data: int = 0
    bss: int = 0

    def __add__(self, other: Sizes) -> Sizes:
        return Sizes(self.code + other.code, self.rodata + other.rodata, self.data + other.data, self.bss + other.bss)


def sizes(path: Path) -> Sizes:
    """The sizes of the sections that are loaded; tables for debuggers and unwinding do not count."""
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


def machine(path: Path) -> str:
    """The architecture of a program in ELF's words: EM_ARM, EM_RISCV, EM_X86_64."""
    with path.open("rb") as file:
        return str(ELFFile(file)["e_machine"])


def toolchain(path: Path) -> str | None:
    """The compiler of an object file, as it named itself in the section .comment; None if it did not."""
    with path.open("rb") as file:
        section = ELFFile(file).get_section_by_name(".comment")
        names = [] if section is None else section.data().decode("utf-8", "replace").split("\0")
    return next((name for name in names if name), None)


def undefined_symbols(objects: Iterable[Path]) -> tuple[str, ...]:
    """The symbols that these objects need from elsewhere, sorted."""
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
    """Pairs (address, bytes) of everything in a firmware that occupies memory, at its run-time address."""
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
DOUBLE_FRAME = 128  # more than libgcc's helpers for double push, including the functions that they call
OF_DOUBLES = re.compile(r"__aeabi_(d\w+|cd\w+|\w+2d)$|__\w*df\w*$")
FRAME = re.compile(r"(\d+) bytes \((static|dynamic,bounded|dynamic)\)")
INDIRECT = "__indirect_call"
ASSEMBLY_FRAME = "ge_frame."
"""Symbols with this prefix, followed by the name of a function, give the bytes of stack that its assembly takes
(ge_isa_dsp_frame.h).
"""

BRANCHES = {
    "EM_RISCV": set(RISCV_RELOCATIONS),
    "EM_ARM": {"R_ARM_CALL", "R_ARM_JUMP24", "R_ARM_THM_CALL", "R_ARM_THM_JUMP24", "R_ARM_THM_JUMP19"},
    "EM_X86_64": {"R_X86_64_PLT32"},
}
"""The relocations of calls and jumps; all others store an address somewhere."""


@dataclass(frozen=True)
class Depth:
    """The deepest stack of a run, and its functions with their frames. indirect: the functions that calls through
    pointers may reach.
    """

    bytes: int
    path: tuple[tuple[str, int], ...]
    indirect: tuple[str, ...] = ()


def stack_depth(objects: Iterable[Path], entries: Iterable[str], callbacks: bool = False) -> Depth | None:
    """The deepest stack from the entries; None if one of them has no bound (see `stack_depths`)."""
    depths = stack_depths(objects, entries, callbacks).values()
    bounds = [depth for depth in depths if depth is not None]
    if not bounds or len(bounds) < len(depths):
        return None
    return max(bounds, key=lambda depth: depth.bytes)


def stack_depths(objects: Iterable[Path], entries: Iterable[str], callbacks: bool = False) -> dict[str, Depth | None]:
    """The deepest stack from each entry, by gcc's own figures (-fcallgraph-info=su, beside each object file).

    A call through a pointer may reach every function whose address these files store or load; callbacks: also functions
    of the caller, whose stack is not counted.

    An entry has None if there is no bound: a call graph is missing, a frame is dynamic, a call is recursive, or a call
    goes through a pointer and no function's address is known. A function outside these files (memcpy, a division) counts
    as EXTERNAL_FRAME bytes, one that computes with double as DOUBLE_FRAME.
    """
    frames: dict[str, int] = {}
    calls: dict[str, set[str]] = {}
    taken: set[str] = set()
    for path in objects:
        graph = path.with_suffix(".ci")
        if not graph.is_file():
            return dict.fromkeys(entries)
        text = graph.read_text(encoding="utf-8")
        for title, label in NODE.findall(text):
            frame = FRAME.search(label)
            if frame is not None and frame[2] == "dynamic":
                return dict.fromkeys(entries)
            if frame is not None:
                frames[title] = int(frame[1])
        for title, taken_by_assembly in _assembly_frames(path, frames).items():
            frames[title] += taken_by_assembly
        for caller, callee in EDGE.findall(text):
            calls.setdefault(caller, set()).add(callee)
        taken |= addressed_functions(path)
    if taken or callbacks:
        frames[INDIRECT] = 0
        calls[INDIRECT] = {_title(name, frames) for name in taken}
    used = any(INDIRECT in callees for callees in calls.values())
    indirect = tuple(sorted(taken)) if used else ()
    depths = {entry: _depth(_title(entry, frames), frames, calls, ()) for entry in entries}
    return {entry: depth and replace(depth, indirect=indirect) for entry, depth in depths.items()}


def addressed_functions(path: Path) -> set[str]:
    """The functions of an object file whose address is stored or loaded; a call alone does not count."""
    found: set[str] = set()
    with path.open("rb") as file:
        elf = ELFFile(file)
        branches = BRANCHES.get(elf["e_machine"], set())
        names = {number: name for name, number in _relocation_types(elf["e_machine"]).items()}
        for section in elf.iter_sections():
            if not isinstance(section, RelocationSection) or not _is_of_program(elf.get_section(section["sh_info"])):
                continue
            table = elf.get_section(section["sh_link"])
            assert isinstance(table, SymbolTableSection)
            functions = [s for s in table.iter_symbols() if s["st_info"]["type"] == "STT_FUNC"]
            for relocation in section.iter_relocations():
                if names.get(relocation["r_info_type"]) not in branches:
                    symbol = table.get_symbol(relocation["r_info_sym"])
                    addend = relocation["r_addend"] if section.is_RELA() else _addend(elf, section, relocation)
                    found |= (
                        {symbol.name} if symbol["st_info"]["type"] == "STT_FUNC" else _begins(functions, symbol, addend)
                    )
    return found


def _relocation_types(machine: str) -> Mapping[str, int]:
    known = {"EM_ARM": ENUM_RELOC_TYPE_ARM, "EM_RISCV": RISCV_RELOCATIONS, "EM_X86_64": ENUM_RELOC_TYPE_x64}
    return known.get(machine, {})


def _is_of_program(section: Section) -> bool:
    return bool(section["sh_flags"] & SH_FLAGS.SHF_ALLOC) and not section.name.startswith(TABLES)


def _addend(elf: ELFFile, section: RelocationSection, relocation: Relocation) -> int:
    """The addend of a relocation that has none of its own: it is in the word that is relocated, where this is a word of data.

    Without it, each label of the jump table of a switch looks like the first function of its section.
    """
    if relocation["r_info_type"] != ENUM_RELOC_TYPE_ARM["R_ARM_ABS32"]:
        return 0
    at, data = relocation["r_offset"], elf.get_section(section["sh_info"]).data()
    return int.from_bytes(data[at : at + 4], "little", signed=True) & ~1


def _begins(functions: Sequence[Symbol], section: Symbol, addend: int) -> set[str]:
    """The functions that begin at an offset of a section; an offset of -4 is relative to the end of an x86-64
    instruction.
    """
    if section["st_info"]["type"] != "STT_SECTION":
        return set()
    return {
        symbol.name
        for symbol in functions
        if symbol["st_shndx"] == section["st_shndx"] and (symbol["st_value"] & ~1) in (addend, addend + 4)
    }


def _assembly_frames(path: Path, titles: Iterable[str]) -> dict[str, int]:
    """The bytes of stack that assembly takes in functions of an object file, including clones, because gcc does not
    know them.
    """
    with path.open("rb") as file:
        table = ELFFile(file).get_section_by_name(".symtab")
        symbols = table.iter_symbols() if isinstance(table, SymbolTableSection) else ()
        taken = {
            s.name.removeprefix(ASSEMBLY_FRAME): s["st_value"] for s in symbols if s.name.startswith(ASSEMBLY_FRAME)
        }
    functions = {title: title.split(":")[-1].split(".")[0] for title in titles}
    return {title: taken[name] for title, name in functions.items() if name in taken}


def _title(name: str, frames: dict[str, int]) -> str:
    return next((title for title in frames if title.split(":")[-1] == name), name)


def _depth(name: str, frames: dict[str, int], calls: dict[str, set[str]], path: tuple[str, ...]) -> Depth | None:
    if name in path or (name == INDIRECT and name not in frames):
        return None
    below = [_depth(callee, frames, calls, (*path, name)) for callee in sorted(calls.get(name, ()))]
    if None in below:
        return None
    deepest = max((depth for depth in below if depth is not None), key=lambda d: d.bytes, default=Depth(0, ()))
    own = frames.get(name, DOUBLE_FRAME if OF_DOUBLES.match(name) else EXTERNAL_FRAME)
    return Depth(own + deepest.bytes, ((name.split(":")[-1], own), *deepest.path))
