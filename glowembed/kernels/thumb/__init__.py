"""Kernels in Thumb for cores without DSP instructions: Cortex-M0 (armv6m) and Cortex-M3 (armv7m)."""

from __future__ import annotations

from glowembed.graph.isa import Isa

ISAS = (
    Isa(
        "armv6m",
        "defined(__thumb__) && defined(__ARM_ARCH_PROFILE) && __ARM_ARCH_PROFILE == 'M'",
        "a Cortex-M core, such as Cortex-M0: compile it with -mcpu=cortex-m0 -mthumb",
        ("nrf51-large",),
    ),
    Isa(
        "armv7m",
        "defined(__thumb2__) && defined(__ARM_ARCH_PROFILE) && __ARM_ARCH_PROFILE == 'M'",
        "a core with Thumb-2, such as Cortex-M3: compile it with -mcpu=cortex-m3 -mthumb",
        ("mps2-an385",),
    ),
)
