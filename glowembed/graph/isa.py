"""Instruction sets that have kernels of their own, what they require of a compiler, and where their kernels are tested.

Each package in glowembed/kernels declares the instruction sets of its kernels as `ISAS`, and `graph.registry.isas()`
finds them. The C files lie in a folder of the same name in runtime_c/kernels, and a target lists the words of those
that it can run (`isa`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from glowembed.graph.ir import Array
from glowembed.records import dataclass


@dataclass(frozen=True)
class Level:
    """One of several instruction sets for which the text of a kernel is compiled; the program chooses the best one at
    run time.

    `word` is part of its names; `instructions` are the instruction sets that the compiler may use beyond the baseline.
    headers: the headers that define its names, in order. cpu: the flags of /proc/cpuinfo that it needs. instead: its
    own headers, which replace headers that kernels include.
    """

    word: str
    instructions: tuple[str, ...]
    headers: tuple[str, ...]
    cpu: frozenset[str]
    instead: Mapping[str, str] = field(default_factory=dict)

    def defines(self, isa: str) -> str:
        """The macros of an ISA word at this level: for names, for the attributes of functions, and for loops whose
        variables should stay in registers.
        """
        target = f'target("{",".join(self.instructions)}")'
        texts = (f"__attribute__(({target} GE_X86_TUNE))", f"__attribute__((always_inline, {target}))", "GE_UNROLL")
        named = zip(("FN", "INLINE", "UNROLL"), texts, strict=True)
        name = f"#define GE_{isa.upper()}_LEVEL(before, behind) before##_{self.word}##behind\n"
        values = ((n, text if self.instructions else "") for n, text in named)
        return name + "".join(f"#define GE_{isa.upper()}_{n} {text}".rstrip() + "\n" for n, text in values)


@dataclass(frozen=True)
class Layer:
    """A layer as the text of its kernel can depend on it. rows: the numbers of rows of its calls. streamed: whether its tensors
    may be in slots. constants: as its kernel reads them.
    """

    params: Any
    rows: frozenset[int]
    streamed: bool
    constants: Mapping[str, Array]


@dataclass(frozen=True)
class Isa:
    """word: its name. condition: a C expression that is true if the compiler makes code for a core that has it; "" if
    kernels test for it at run time. needs: the error message for other cores, which begins with what is needed. boards:
    emulated boards on which kernels are tested, the usual one first; none if the kernels run on the host. levels: the
    levels for which kernels are compiled, if their texts use names that contain the ISA word; worst first. The first
    level is portable C, so that such a kernel runs everywhere.
    """

    word: str
    condition: str = ""
    needs: str = ""
    boards: tuple[str, ...] = ()
    levels: tuple[Level, ...] = ()
