"""Instruction sets for which there are kernels: what a compiler must offer, and where kernels are tested.

A package in glowembed/kernels declares the one or more that its kernels need, as `ISAS`; `graph.registry.isas()` finds them all. The C files
lie in a folder of the same name in runtime_c/kernels, and a target lists the words of those that it can run (`isa`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Level:
    """One of several instruction sets, for each of which a kernel's text is compiled; the best is chosen when the program runs.

    `word` is part of its names; `instructions` are the instruction sets that the compiler may use beyond the baseline. headers: the
    headers that define its names, in order. cpu: the flags of /proc/cpuinfo that it needs. instead: headers that it has of its own
    in place of those that kernels include.
    """

    word: str
    instructions: tuple[str, ...]
    headers: tuple[str, ...]
    cpu: frozenset[str]
    instead: Mapping[str, str] = field(default_factory=dict)

    def defines(self, isa: str) -> str:
        """The macros of an ISA word at this level: of names, of the attributes of its functions, and of loops whose variables should be in registers."""
        target = f'target("{",".join(self.instructions)}")'
        texts = (f"__attribute__(({target} GE_X86_TUNE))", f"__attribute__((always_inline, {target}))", "GE_UNROLL")
        named = zip(("FN", "INLINE", "UNROLL"), texts, strict=True)
        name = f"#define GE_{isa.upper()}_LEVEL(before, behind) before##_{self.word}##behind\n"
        values = ((n, text if self.instructions else "") for n, text in named)
        return name + "".join(f"#define GE_{isa.upper()}_{n} {text}".rstrip() + "\n" for n, text in values)


@dataclass(frozen=True)
class Isa:
    """word: its name. condition: a C expression that is true if the compiler makes code for a core that has it; "" where kernels
    find out when they run. needs: for other cores, a sentence that begins with what is needed. boards: emulated boards
    on which kernels are tested, the usual one first; none if the kernels run on the host. levels: where kernels are
    written in names with the ISA word in them, the levels for which they are compiled, worst first. The first is portable C, so
    that such a kernel runs everywhere.
    """

    word: str
    condition: str = ""
    needs: str = ""
    boards: tuple[str, ...] = ()
    levels: tuple[Level, ...] = ()
