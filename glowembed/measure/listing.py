"""Reads the machine code of a firmware as data. In: an ELF file. Out: a Listing: instructions by address, and
functions.

GNU objdump provides it, because it is the only disassembler that decodes Helium. This module does not know what an
instruction costs.
"""

from __future__ import annotations

import bisect
import hashlib
import re
import shutil
import subprocess
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from glowembed.errors import ToolError
from glowembed.graph.target import Target
from glowembed.records import dataclass

LINE = re.compile(r"^\s*([0-9a-f]+):\t([0-9a-f]{4}(?: [0-9a-f]{4})?)\s*\t(\S+)(?:\t(.*))?$")
COMMENT = re.compile(r"\s*(?:@|;|//).*$")


@dataclass(frozen=True)
class Instruction:
    """One line of the disassembly; `operands` without objdump's comments."""

    address: int
    size: int
    mnemonic: str
    operands: str

    @property
    def next(self) -> int:
        return self.address + self.size

    @property
    def text(self) -> str:
        return f"{self.mnemonic} {self.operands}".strip()


@dataclass(frozen=True)
class Function:
    """A function of the symbol table."""

    name: str
    start: int
    end: int


@dataclass(frozen=True)
class Listing:
    """The code of one firmware. `build_id`: the hash of the ELF file, which ties counts to the firmware that was
    counted.
    """

    build_id: str
    instructions: Mapping[int, Instruction]
    functions: tuple[Function, ...]

    @cached_property
    def _starts(self) -> list[int]:
        return [function.start for function in self.functions]

    def function_at(self, address: int) -> str:
        """The name of the function that holds the address, or `?`."""
        index = bisect.bisect_right(self._starts, address) - 1
        if index >= 0 and address < self.functions[index].end:
            return self.functions[index].name
        return "?"

    def function(self, name: str) -> Function:
        """The function of this name. Raises KeyError if there is none."""
        return {function.name: function for function in self.functions}[name]

    def body(self, name: str) -> list[Instruction]:
        """The instructions of a function in order."""
        function = self.function(name)
        return [self.instructions[a] for a in sorted(self.instructions) if function.start <= a < function.end]


def build_id(elf: Path) -> str:
    """An identifier of a firmware that changes if any byte changes."""
    return hashlib.sha256(elf.read_bytes()).hexdigest()


def read(elf: Path, target: Target) -> Listing:
    """Disassemble a firmware. Raises ToolError if the target's disassembler is missing or fails."""
    if (tool := target.disassembler) is None:
        raise ToolError(f"target {target.name!r} has no disassembler: its toml has no [disassembler]", "binutils")
    if shutil.which(tool.command[0]) is None:
        raise ToolError(f"{tool.command[0]} is not there; install it: apt-get install {tool.package}", tool.package)
    command = [*tool.command, "-d", str(elf)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ToolError(f"{tool.command[0]} failed on {elf}: {done.stderr.strip()[-500:]}")
    return Listing(build_id(elf), parse(done.stdout), _functions(elf))


def parse(text: str) -> dict[int, Instruction]:
    """The instructions by address, from the output of objdump -d."""
    found = (LINE.match(line) for line in text.splitlines())
    return {i.address: i for i in (_instruction(match) for match in found if match is not None)}


def _instruction(match: re.Match[str]) -> Instruction:
    size = 2 * len(match[2].split())
    return Instruction(int(match[1], 16), size, match[3], COMMENT.sub("", match[4] or "").strip())


def _functions(elf: Path) -> tuple[Function, ...]:
    """The functions by address; if several names have one address, the last one in alphabetical order."""
    with elf.open("rb") as file:
        table = ELFFile(file).get_section_by_name(".symtab")
        symbols = list(table.iter_symbols()) if isinstance(table, SymbolTableSection) else []
    functions = (s for s in symbols if s["st_info"]["type"] == "STT_FUNC")
    found = sorted((s["st_value"] & ~1, s.name, int(s["st_size"])) for s in functions)
    return tuple({start: Function(name, start, start + size) for start, name, size in found}.values())
