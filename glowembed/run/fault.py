"""Explains a fault of a core. In: the registers of a fault. Out: a description, with the function in which it happened."""

from __future__ import annotations

import struct
from pathlib import Path

from glowembed.image import elf
from glowembed.records import dataclass

EXCEPTIONS = {2: "NMI", 3: "HardFault", 4: "MemManage", 5: "BusFault", 6: "UsageFault", 7: "SecureFault"}
CAUSES = {  # bits of CFSR: ARMv7-M ARM B3.2.15, ARMv8-M ARM D1.2.13
    0: "instruction fetched from where nothing may run",
    1: "access to protected memory",
    4: "the stack ran out",
    8: "instruction fetched from no memory",
    9: "access to no memory",
    10: "write to no memory",
    12: "the stack ran out",
    16: "undefined instruction",
    17: "not in Thumb state",
    19: "the FPU or vector unit is off",
    20: "the stack ran out",
    24: "unaligned access",
    25: "division by zero",
}
TRAPS = {  # mcause: RISC-V Privileged Architecture 1.12, table 3.6
    0: "instruction address misaligned",
    1: "instruction fetched from where nothing may run",
    2: "illegal instruction",
    3: "breakpoint",
    4: "unaligned read",
    5: "read of no memory or of a protected one, as below the end of the stack",
    6: "unaligned write",
    7: "write to no memory or to a protected one, as below the end of the stack",
}
REGISTERS = struct.Struct("<8I")


@dataclass(frozen=True)
class Fault:
    """The ge_fault of boards/common/board.h."""

    exception: int
    pc: int
    lr: int
    psr: int
    cfsr: int
    hfsr: int
    mmfar: int
    bfar: int

    def describe(self, program: Path | None) -> str:
        """`raised HardFault at pc=... (function+offset): cause`."""
        riscv = program is not None and elf.machine(program) == "EM_RISCV"
        name = "trap" if riscv else EXCEPTIONS.get(self.exception, "exception")
        name = f"{name} {self.exception}" if name in ("trap", "exception") else name
        where = (elf.function_at(program, self.pc) if program is not None else None) or "no function that we know"
        causes = (
            [f"{TRAPS.get(self.exception, 'unknown cause')}, address 0x{self.mmfar:08x}"]
            if riscv
            else sorted({cause for bit, cause in CAUSES.items() if self.cfsr >> bit & 1})
        )
        return f"raised {name} at pc=0x{self.pc:08x} ({where}): {', '.join(causes) or 'the core gives no cause'}"

    def registers(self) -> str:
        """All registers in one line."""
        return " ".join(f"{key}=0x{value:08x}" for key, value in vars(self).items())


def unpack(payload: bytes) -> Fault:
    """Read a Fault from the payload of a FAULT frame."""
    return Fault(*REGISTERS.unpack(payload))
