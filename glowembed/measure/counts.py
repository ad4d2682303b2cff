"""Reads what a firmware executed. In: the text of the counting plugin and a Listing. Out: for each phase, Blocks with
their counts.

A block is a sequence of instructions with one entry, as QEMU divides code. This module does not know what an
instruction costs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from glowembed.errors import ToolError
from glowembed.measure.listing import Instruction, Listing
from glowembed.records import dataclass

TARGET = re.compile(r"\b([0-9a-f]+) <")


@dataclass(frozen=True)
class Block:
    """A block executed `times` times, of which `through` continued with the instruction that follows in memory."""

    instructions: tuple[Instruction, ...]
    times: int
    through: int
    misaligned: bool = False
    """whether the last instruction branches to a 32-bit instruction that crosses a word boundary"""
    slow_loads: int = 0
    slow_bytes: int = 0
    """what it read from the slow memory that the plugin was told of"""

    @property
    def executed(self) -> int:
        return self.times * len(self.instructions)


Phase = tuple[Block, ...]


def read(path: Path, listing: Listing, without: str = "") -> tuple[Phase, ...]:
    """The phases of one run, in order. Code of the function `without` (an interrupt handler) is not counted."""
    phases: list[list[Block]] = []
    ended = False
    for line in path.read_text("ascii").splitlines():
        word, *rest = line.split()
        if word == "phase":
            phases.append([])
        elif word == "end":
            ended = int(rest[0]) == len(phases)
        else:
            phases[-1].append(_block(listing, int(word, 16), [int(n) for n in rest]))
    if not ended:
        raise ToolError(f"the profile {path} is cut short: did QEMU stop before its end, or is the disk full?")
    return tuple(tuple(b for b in phase if _function(listing, b) != without) for phase in phases)


def _function(listing: Listing, block: Block) -> str:
    return listing.function_at(block.instructions[0].address)


def _block(listing: Listing, address: int, numbers: Sequence[int]) -> Block:
    length, times, to_2, to_4, *slow = numbers
    loads, size = slow or (0, 0)
    instructions = tuple(_run(listing, address, length))
    last = instructions[-1]
    return Block(instructions, times, to_2 if last.size == 2 else to_4, _misaligned(listing, last), loads, size)


def _misaligned(listing: Listing, branch: Instruction) -> bool:
    named = TARGET.search(branch.operands)
    target = listing.instructions.get(int(named[1], 16)) if named is not None else None
    return target is not None and target.size == 4 and target.address % 4 != 0


def _run(listing: Listing, address: int, length: int) -> Iterator[Instruction]:
    for _ in range(length):
        instruction = listing.instructions.get(address)
        if instruction is None:
            raise ToolError(
                f"the profile has code at 0x{address:x} that the disassembly does not: it is not of this firmware"
            )
        yield instruction
        address = instruction.next


def instructions(phase: Phase) -> int:
    """The number of instructions executed in a phase."""
    return sum(block.executed for block in phase)
