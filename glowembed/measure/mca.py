"""Asks llvm-mca what code costs. In: the Blocks of a run, a Pipeline that names a processor of LLVM. Out: cycles of
each block.

llvm-mca simulates one block at a time, as if it ran in a loop, with LLVM's description of the core. This module adds
the cycles that refill the pipeline after a taken branch, and corrects the description: LLVM counts every gather and
scatter as one vector access, but the cores move two elements per cycle at best (docs/measuring.md).
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence

from glowembed.errors import ToolError
from glowembed.measure.counts import Block
from glowembed.measure.listing import Instruction
from glowembed.measure.pipelines import Cycles, Llvm, Price, bare, refills, scattered

OLDEST = 19
"""The first version that can skip instructions that it does not know."""

COMMANDS = ("llvm-mca", *(f"llvm-mca-{version}" for version in range(OLDEST, OLDEST + 4)))

ITERATIONS = 50
TIMEOUT = 300
GATHER = 2
"""The cycles that LLVM counts for a gather or scatter."""

UNKNOWN = re.compile(r"(?:w|d)ls(?:tp)?|le(?:tp)?|it[te]{0,3}|blx?")
"""Instructions that llvm-mca does not know, or takes for calls of 100 cycles. Those in FREE take no cycle, the others
one.
"""

TOTAL = re.compile(r"^Total Cycles:\s+(\d+)", re.MULTILINE)
SCALAR = re.compile(r"(?:ldrs?|str)[bh]?")
INDEXED = re.compile(r"\[(\w+)(?:, #-?\d+\]!|\], #-?\d+)")
"""Matches the update of a base register by a scalar access, which is removed because LLVM 19 crashes on it."""

FREE = re.compile(r"le(?:tp)?|it[te]{0,3}")

ONLY_WIDE = ("mul", "adc", "adcs", "sbc", "sbcs")

TARGET = re.compile(r"\b[0-9a-f]+ <[^>]*>")

Code = tuple[Instruction, ...]


def command() -> str:
    """The newest llvm-mca that is installed. Raises ToolError with how to install one."""
    found = [(_version(path), path) for name in COMMANDS if (path := shutil.which(name)) is not None]
    usable = [path for version, path in sorted(found, reverse=True) if version >= OLDEST]
    if not usable:
        have = f"; {found[0][1]} is version {found[0][0]}" if found else ""
        raise ToolError(
            f"--ruler llvm-mca needs llvm-mca {OLDEST} or newer{have}. Install it, for example with "
            "apt-get install llvm-19, or measure with --ruler table."
        )
    return usable[0]


def _version(path: str) -> int:
    said = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=TIMEOUT, check=False).stdout
    found = re.search(r"version (\d+)", said)
    return int(found[1]) if found else 0


def costs(blocks: Iterable[Block], core: Llvm) -> Mapping[Code, float]:
    """The cycles of one execution of every distinct block, without the refill after a branch."""
    codes = sorted({block.instructions for block in blocks}, key=lambda code: code[0].address)
    text = "".join(_region(code) for code in codes)
    tool = command()
    arguments = [tool, f"-mtriple={core.triple}", f"-mcpu={core.cpu}", f"-iterations={ITERATIONS}"]
    arguments += ["-instruction-info=0", "-resource-pressure=0", "-arm-implicit-it=always"]
    arguments += ["-skip-unsupported-instructions=lack-sched"]
    done = subprocess.run(arguments, input=text, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    totals = TOTAL.findall(done.stdout)
    if done.returncode != 0 or len(totals) != len(codes):
        said = "\n".join(done.stderr.strip().splitlines()[:6])
        raise ToolError(f"{tool} cannot read the code that ran; measure with --ruler table.\n{said}")
    return {code: int(total) / ITERATIONS + _unknown(code) for code, total in zip(codes, totals, strict=True)}


def _region(code: Sequence[Instruction]) -> str:
    # A region needs at least one instruction.
    lines = [_line(i) for i in code if not UNKNOWN.fullmatch(bare(i))]
    return "\n".join(["# LLVM-MCA-BEGIN", *(lines or ["nop"]), "# LLVM-MCA-END", ""])


def _line(i: Instruction) -> str:
    """The instruction in LLVM's syntax, which has no `.w` if only the wide form exists."""
    only_wide = bare(i) in ONLY_WIDE or "#-" in i.operands
    mnemonic = i.mnemonic.removesuffix(".w") if only_wide else i.mnemonic
    operands = INDEXED.sub(r"[\1]", i.operands) if SCALAR.fullmatch(bare(i)) else i.operands
    return f"{mnemonic} {TARGET.sub('target', operands)}"


def _unknown(code: Sequence[Instruction]) -> float:
    """The cycles of the instructions that are missing in the text, minus those of the one in their place."""
    left_out = [i for i in code if UNKNOWN.fullmatch(bare(i))]
    return float(sum(not FREE.fullmatch(bare(i)) for i in left_out) - (len(left_out) == len(code)))


def price(blocks: Iterable[Block], core: Llvm) -> Price:
    """A function that gives the cycles of any of these blocks."""
    known = costs(blocks, core)
    return lambda block: cycles(block, known[block.instructions])


def cycles(block: Block, cost: float) -> list[Cycles]:
    """The cycles of a block over all its executions, in equal shares for its instructions.

    A gather or scatter of n elements takes n / 2 cycles; at the low end as many as LLVM counts, at the high end n.
    """
    elements = [n for i in block.instructions if (n := scattered(i))]
    whole = [
        block.times * (cost + sum(max(0.0, n * share - GATHER) for n in elements)) + refills(block)
        for share in (0.0, 0.5, 1.0)
    ]
    count = len(block.instructions)
    return [Cycles(*(each / count for each in whole))] * count
