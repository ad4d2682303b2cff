"""Levels of a kernel: one text, compiled once for each instruction set that a CPU may have, chosen when the program
runs.

In: an ISA word. Out: its levels, worst first, in the order of runtime_c/kernels/x86/ge_x86.h, which asks the CPU. A kernel with
such a word is written in names with the word in them (runtime_c/kernels/x86/ge_x86_portable.h explains them), which csource.py
defines as those of the level. Portable C is always among the levels, so that such a kernel runs everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Level:
    """One of the variants. `word` is part of its names; `instructions` are the instruction sets that the compiler may
    use beyond the baseline. headers: the headers that define its names, in order. cpu: the flags of /proc/cpuinfo that
    it needs. instead: headers that it has of its own in the place of those that kernels include.
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


_YMM = ("sse4.1", "avx", "avx2", "fma")
_ZMM = ("avx512f", "avx512bw", "avx512vl", "avx512vnni")

LEVELS: Mapping[str, tuple[Level, ...]] = {
    "x86": (
        Level("portable", (), ("ge_x86_portable.h",), frozenset()),
        Level("sse41", ("ssse3", "sse4.1"), ("ge_x86_xmm.h", "ge_x86_floats.h"), frozenset({"ssse3", "sse4_1"})),
        Level("avx2", _YMM, ("ge_x86_ymm.h", "ge_x86_avx2.h", "ge_x86_floats.h"), frozenset({"avx2", "fma"})),
        Level(
            "avxvnni",
            (*_YMM, "avxvnni"),
            ("ge_x86_ymm.h", "ge_x86_avxvnni.h", "ge_x86_floats.h"),
            frozenset({"avx2", "fma", "avx_vnni"}),
        ),
        Level(
            "avx512vnni",
            (*_YMM, *_ZMM),
            ("ge_x86_zmm.h", "ge_x86_floats.h"),
            frozenset({"fma", "avx512f", "avx512bw", "avx512vl", "avx512_vnni"}),
            {"ge_x86_gates.h": "ge_x86_gates_zmm.h"},
        ),
    ),
}
