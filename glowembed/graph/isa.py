"""Instruction sets for which there are kernels: what a compiler must offer, and where kernels are tested.

A package in glowembed/kernels declares the one or more that its kernels need, as `ISAS`; `graph.registry.isas()` finds them all. The C files
lie in a folder of the same name in runtime_c/kernels, and a target lists the words of those that it can run (`isa`).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Isa:
    """word: its name. condition: a C expression that is true if the compiler makes code for a core that has it; "" where kernels
    find out when they run. needs: for other cores, a sentence that begins with what is needed. boards: emulated boards
    on which kernels are tested, the usual one first; none if the kernels run on the host.
    """

    word: str
    condition: str = ""
    needs: str = ""
    boards: tuple[str, ...] = ()
