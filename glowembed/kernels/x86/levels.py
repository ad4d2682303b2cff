"""The levels of x86-64, worst first, in the order of runtime_c/kernels/x86/ge_x86.h, which queries the CPU.

runtime_c/kernels/x86/ge_x86_portable.h explains the names that a level's headers define.
"""

from __future__ import annotations

from glowembed.graph.isa import Level

_YMM = ("sse4.1", "avx", "avx2", "fma")
_ZMM = ("avx512f", "avx512bw", "avx512vl", "avx512vnni")

LEVELS = (
    Level("portable", (), ("ge_x86_portable.h", "ge_x86_by_law.h"), frozenset()),
    Level(
        "sse41",
        ("ssse3", "sse4.1"),
        ("ge_x86_xmm.h", "ge_x86_turned.h", "ge_x86_floats.h", "ge_x86_by_law.h"),
        frozenset({"ssse3", "sse4_1"}),
    ),
    Level(
        "avx2",
        _YMM,
        ("ge_x86_ymm.h", "ge_x86_avx2.h", "ge_x86_turned.h", "ge_x86_floats.h", "ge_x86_by_law.h"),
        frozenset({"avx2", "fma"}),
    ),
    Level(
        "avxvnni",
        (*_YMM, "avxvnni"),
        ("ge_x86_ymm.h", "ge_x86_avxvnni.h", "ge_x86_turned.h", "ge_x86_floats.h", "ge_x86_by_law.h"),
        frozenset({"avx2", "fma", "avx_vnni"}),
    ),
    Level(
        "avx512vnni",
        (*_YMM, *_ZMM),
        ("ge_x86_zmm.h", "ge_x86_floats.h", "ge_x86_by_law.h"),
        frozenset({"fma", "avx512f", "avx512bw", "avx512vl", "avx512_vnni"}),
        {"ge_x86_gates.h": "ge_x86_gates_zmm.h"},
    ),
)
