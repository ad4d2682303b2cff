"""C text that checks the requirements of a bundle's kernels; it comes before the kernels. In: the ISA words of the
kernels. Out: the text.

Each check is an #error with a sentence, because an assembler's errors about unknown instructions are harder to
understand.
"""

from __future__ import annotations

from collections.abc import Iterable

from glowembed.graph.registry import isas

MACHINE = """\
#include <limits.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the weights of this bundle lie with the lowest byte first: compile it for a little-endian core"
#elif INT_MAX < 0x7FFFFFFF
#error "an int has 16 bits here, and the kernels of this bundle need 32: it would compute other bits"
#endif
"""

OTHERWISE = "or make the bundle for your core: glowembed compile --target, or --isa portable"


def guards(words: Iterable[str]) -> str:
    """The checks for kernels with these ISA words."""
    return "\n".join([MACHINE, *(_guard(word) for word in sorted(set(words) - {""}) if isas()[word].condition)])


def _guard(word: str) -> str:
    isa = isas()[word]
    return (
        "#if !defined(__GNUC__)\n"
        f'#error "the kernels of this bundle have assembly for gcc and clang: use one of them, {OTHERWISE}"\n'
        f"#elif !({isa.condition})\n"
        f'#error "the kernels of this bundle need {isa.needs}, {OTHERWISE}"\n'
        "#endif\n"
    )
