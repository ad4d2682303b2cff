"""Checks for the requirements of a bundle's kernels, which the compiler sees before the kernels. In: the ISA words of
the kernels. Out: C text.

Each check is an #error with a sentence, which is clearer than an assembler's error about unknown instructions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

BYTE_ORDER = """\
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the weights of this bundle lie with the lowest byte first: compile it for a little-endian core"
#endif
"""

OTHERWISE = "or make the bundle for your core: glowembed compile --target, or --isa portable"

NEEDS: Mapping[str, tuple[str, str]] = {
    "armv6m": (
        "defined(__thumb__) && defined(__ARM_ARCH_PROFILE) && __ARM_ARCH_PROFILE == 'M'",
        "a Cortex-M core, such as Cortex-M0: compile it with -mcpu=cortex-m0 -mthumb",
    ),
    "armv7m": (
        "defined(__thumb2__) && defined(__ARM_ARCH_PROFILE) && __ARM_ARCH_PROFILE == 'M'",
        "a core with Thumb-2, such as Cortex-M3: compile it with -mcpu=cortex-m3 -mthumb",
    ),
    "dsp": (
        "defined(__ARM_FEATURE_DSP) && defined(__thumb2__)",
        "a core with the DSP extension, such as Cortex-M4, M7 or M33: compile it with -mcpu=cortex-m4 -mthumb",
    ),
    "mve": (
        "defined(__ARM_FEATURE_MVE) && __ARM_FEATURE_MVE > 0",
        "a core with Helium, such as Cortex-M55: compile it with -mcpu=cortex-m55 -mthumb -mfloat-abi=hard, not soft",
    ),
}
"""ISA word with assembly -> a condition that is true on a core that has it, and the sentence for other cores."""


def guards(words: Iterable[str]) -> str:
    """The checks for kernels with these words."""
    return "\n".join([BYTE_ORDER, *(_guard(word) for word in sorted(set(words) & NEEDS.keys()))])


def _guard(word: str) -> str:
    defined, sentence = NEEDS[word]
    return (
        "#if !defined(__GNUC__)\n"
        f'#error "the kernels of this bundle have assembly for gcc and clang: use one of them, {OTHERWISE}"\n'
        f"#elif !({defined})\n"
        f'#error "the kernels of this bundle need {sentence}, {OTHERWISE}"\n'
        "#endif\n"
    )
