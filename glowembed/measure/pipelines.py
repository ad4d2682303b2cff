"""Estimates what code costs on a core. In: a Block with its counts, the name of a pipeline. Out: cycles, as low, point
and high.

A pipeline is a table of timings from the core's reference manual; targets/NAME.toml names the one of its core. The
tables assume memories without wait states; caches, contention, interrupts and unaligned accesses are not modelled.
docs/measuring.md says how far to trust each table. Nothing here was measured on silicon by this project.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from glowembed.errors import unknown_name
from glowembed.measure.counts import Block
from glowembed.measure.listing import Instruction
from glowembed.records import dataclass


@dataclass(frozen=True)
class Timing:
    """Cycles of scalar instructions. Instructions that are not listed take one.

    Cortex-M4: technical reference manual (Arm 100166) table 3-1; loads, stores and their pairing as in section 3.3.2 of
    the Cortex-M3's manual (DDI 0337), and as measured on an STM32F103 and an STM32F407 (github.com/jnk0le/random,
    "pipeline cycle test", cortex_m3m4.md). A load or store is *indexed* if it updates its base register.
    """

    load: int = 2
    load_after_load: int = 1
    """if its address is not the result of the preceding load"""
    store: int = 1
    store_by_register: int = 2
    """with a register as offset"""
    same_base: int = 0
    """additional cycles of an indexed load directly after an indexed load of the same base, and likewise of stores"""
    indexed_after_load: int = 0
    """additional cycles of an indexed load directly after any load"""
    indexed_store_after_load: int = 0
    """additional cycles of an indexed store directly after a load"""
    load_after_store: int = 0
    """additional cycles of a load directly after a store"""
    misaligned_load: int = 0
    """additional cycles of a load whose 32-bit instruction crosses a word boundary, directly after a load"""
    address_wait: int = 1
    """additional cycles if the preceding instruction computes the address"""
    multiply_accumulate: int = 1
    long_multiply: int = 1
    long_accumulate: int = 1
    multiply: int = 1
    divide: int = 7
    """2 to 12, depending on the operands"""
    taken: int = 1
    """to refill the pipeline at a target that the instruction names"""
    call: int = 1
    """to refill the pipeline after BL"""
    indirect: int = 2
    """to refill the pipeline if a register or the stack holds the target"""
    popped_target: int = 2
    """to refill the pipeline after POP and LDM"""
    loaded_target: int = 3
    """to refill the pipeline after a load into the program counter and after a table branch"""
    misaligned_target: int = 1
    """additional cycles if the target is a 32-bit instruction that crosses a word boundary"""
    pair: int = 3
    """LDRD and STRD"""
    multiple: int = 1
    """LDM, STM, PUSH and POP, in addition to one cycle for each word"""
    late_result: int = 0
    """additional cycles of an instruction that uses the result of the load, multiplication, DSP instruction or shifted
    operand directly before it
    """
    beside_narrow: int = 1
    """a 16-bit branch that is not taken, after another 16-bit instruction"""
    system: int = 2
    float_divide: int = 14
    float_accumulate: int = 3


@dataclass(frozen=True)
class Llvm:
    """How LLVM names a core that it describes."""

    triple: str
    cpu: str


@dataclass(frozen=True)
class Pipeline:
    """A core. low, point, high: factors for the cycles that `timing` gives. upper: the timings of the high end, if they
    differ. vector: whether the core has Helium. llvm: what `--ruler llvm-mca` simulates.
    """

    timing: Timing
    low: float = 1.0
    point: float = 1.0
    high: float = 1.0
    upper: Timing | None = None
    vector: bool = False
    llvm: Llvm | None = None


_TABLE = Timing()
_M4 = Timing(same_base=1, load_after_store=1, misaligned_load=1)
# DDI 0337 section 3.3.2, read strictly: "Any load with a base update is not normally pipelined."
_M4_STRICT = replace(_M4, indexed_after_load=1)
# DDI 0337 (r2p1) table 3-1: MLA 2, UMULL and SMULL 3..5, UMLAL and SMLAL 4..7 with early termination.
_M3 = replace(_M4_STRICT, indexed_store_after_load=1, multiply_accumulate=2, long_multiply=4, long_accumulate=5)
# DDI 0432 table 3-1: LDR, STR 2, LDM 1+N, B 3, BL 4, BX 3, POP with PC 4+N, MULS 1 or 32, MRS, MSR and barriers 4.
_M0 = replace(
    _TABLE, load_after_load=2, store=2, store_by_register=2, address_wait=0, taken=2, call=3, popped_target=3, misaligned_target=0,
    system=4,
)  # fmt: skip
# DDI 0484 table 3-1: like the Cortex-M0, but B 2, BL 3, BX 2, POP with PC 3+N, MRS, MSR and barriers 3.
_M0PLUS = replace(_M0, taken=1, call=2, indirect=1, popped_target=2, system=3)

# Measured on an RP2350 (github.com/jnk0le/random, "pipeline cycle test"): no base update, store or alignment costs more.
_M33 = replace(
    _TABLE, load=1, store_by_register=1, address_wait=0, pair=2, multiple=0, multiply=1, late_result=1, beside_narrow=0,
    misaligned_target=0,
)  # fmt: skip

PIPELINES: Mapping[str, Pipeline] = {
    "cortex-m0": Pipeline(_M0, upper=replace(_M0, multiply=32)),
    "cortex-m0plus": Pipeline(_M0PLUS, upper=replace(_M0PLUS, multiply=32)),
    "cortex-m3": Pipeline(_M3),
    "cortex-m4": Pipeline(_M4, upper=_M4_STRICT),
    "cortex-m33": Pipeline(_M33),
    "cortex-m7": Pipeline(_TABLE, low=0.55, point=0.75, high=1.0, llvm=Llvm("thumbv7em-none-eabi", "cortex-m7")),
    "cortex-m55": Pipeline(_TABLE, vector=True, llvm=Llvm("thumbv8.1m.main-none-eabi", "cortex-m55")),
}


@dataclass(frozen=True)
class Cycles:
    """An estimate; low and high are equal if the model gives one figure."""

    low: float = 0.0
    point: float = 0.0
    high: float = 0.0

    def __add__(self, other: Cycles) -> Cycles:
        return Cycles(self.low + other.low, self.point + other.point, self.high + other.high)


Price = Callable[[Block], list[Cycles]]
"""A function that returns the cycles of each instruction of a block, over all its executions."""


def pipeline(name: str) -> Pipeline:
    """The pipeline of this name."""
    if name not in PIPELINES:
        raise unknown_name("pipeline", name, PIPELINES)
    return PIPELINES[name]


def cycles(block: Block, core: Pipeline) -> list[Cycles]:
    """The cycles of each instruction of the block, over all its executions."""
    return _vector_cycles(block) if core.vector else _scalar_cycles(block, core)


def _scalar_cycles(block: Block, core: Pipeline) -> list[Cycles]:
    plain = _totals(block, core.timing)
    upper = plain if core.upper is None else _totals(block, core.upper)
    return [Cycles(p * core.low, p * core.point, u * core.high) for p, u in zip(plain, upper, strict=True)]


def _totals(block: Block, timing: Timing) -> list[float]:
    each = static_cost(block.instructions, timing)
    totals = [float(cost * block.times) for cost in each]
    totals[-1] += refills(block, timing)
    return totals


def refills(block: Block, timing: Timing = _TABLE) -> int:
    """The additional cycles of the branches that the block takes at its end."""
    last = block.instructions[-1]
    refill = _refill(last, timing)
    waits = timing.misaligned_target if refill and block.misaligned else 0
    return (refill + waits) * (block.times if _always_taken(last) else block.times - block.through)


@lru_cache(maxsize=65536)
def static_cost(instructions: tuple[Instruction, ...], timing: Timing) -> tuple[int, ...]:
    """The cycles of each instruction when it falls through."""
    before: Sequence[Instruction | None] = [None, *instructions[:-1]]
    return tuple(_cost(i, previous, timing) for i, previous in zip(instructions, before, strict=True))


CONDITION = "(?:eq|ne|cs|cc|hs|lo|mi|pl|vs|vc|hi|ls|ge|lt|gt|le|al)?"
BRANCH = re.compile(rf"(?:b{CONDITION}|cbn?z)")
CALL = re.compile(r"bl")
INDIRECT = re.compile(rf"(?:bx|blx){CONDITION}")
TABLE = re.compile(r"tb[bh]")
LOOP = re.compile(r"(?:le|letp)")
LOAD = re.compile(rf"v?ldr(?:b|h|sb|sh|t|ex|exb|exh)?{CONDITION}")
STORE = re.compile(rf"v?str(?:b|h|t|ex|exb|exh)?{CONDITION}")
PAIR = re.compile(rf"(?:ldr|str)d{CONDITION}")
MULTIPLE = re.compile(rf"(?:v?ldm|v?stm|v?push|v?pop)(?:ia|db|fd|ea)?{CONDITION}")
MULTIPLY = re.compile(rf"muls?{CONDITION}")
ACCUMULATE = re.compile(rf"ml[as]{CONDITION}")
LONG_MULTIPLY = re.compile(rf"[us]mull{CONDITION}")
LONG_ACCUMULATE = re.compile(rf"(?:[us]mlal(?:d|dx|[bt][bt])?|umaal|smlsldx?){CONDITION}")
DIVIDE = re.compile(rf"[us]div{CONDITION}")
SYSTEM = re.compile(r"(?:mrs|msr|dsb|dmb|isb)")
FREE = re.compile(r"it[te]{0,3}")
NO_RESULT = re.compile(rf"(?:cmp|cmn|tst|teq|nop|b|bl|bx|blx|cbn?z|it[te]*|pld|bkpt|push|str\w*|stm\w*){CONDITION}")
REGISTER = re.compile(r"\b(r\d+|sl|fp|ip|sp|lr|pc)\b")
MAC = re.compile(rf"(?:smla|smml|smls|mla|mls)\w*{CONDITION}")
LATE = re.compile(r"(?:smla|smls|smul|smml|smua|smus|mla|mls|mul|sxt|uxt|pkh|ssat|usat|[su]h?(?:add|sub)(?:8|16)|q)\w*")
MOVES = re.compile(rf"(?:mov|mvn|ldr|sxt|uxt|neg)\w*{CONDITION}")
SHIFTED = re.compile(r", (?:lsl|lsr|asr|ror) #")
FLOAT_DIVIDE = re.compile(r"v(?:div|sqrt)")
FLOAT_ACCUMULATE = re.compile(r"v(?:n?ml[as]|fn?m[as])")


def bare(instruction: Instruction) -> str:
    """The mnemonic without width and type: `ldr.w` is ldr."""
    return instruction.mnemonic.split(".")[0]


def _is(kind: re.Pattern[str], instruction: Instruction | None) -> bool:
    return instruction is not None and kind.fullmatch(bare(instruction)) is not None


def _cost(i: Instruction, before: Instruction | None, timing: Timing) -> int:
    if _is(FREE, i):
        return 0
    return _own_cost(i, before, timing) + (timing.late_result if _waits(i, before) else 0)


def _own_cost(i: Instruction, before: Instruction | None, timing: Timing) -> int:
    if any(_is(kind, i) for kind in (LOAD, STORE, PAIR, MULTIPLE)):
        return _memory_cost(i, before, timing) + _address_wait(i, before, timing)
    if _is(BRANCH, i) and before is not None and before.size == i.size == 2:
        return timing.beside_narrow
    kinds = {
        TABLE: timing.load,
        MULTIPLY: timing.multiply,
        ACCUMULATE: timing.multiply_accumulate,
        LONG_MULTIPLY: timing.long_multiply,
        LONG_ACCUMULATE: timing.long_accumulate,
        DIVIDE: timing.divide,
        SYSTEM: timing.system,
        FLOAT_DIVIDE: timing.float_divide,
        FLOAT_ACCUMULATE: timing.float_accumulate,
    }
    return next((cost for kind, cost in kinds.items() if _is(kind, i)), 1)


def _memory_cost(i: Instruction, before: Instruction | None, timing: Timing) -> int:
    if _is(MULTIPLE, i):
        return timing.multiple + _listed(i.operands)
    if _is(PAIR, i):
        return timing.pair
    return _store_cost(i, before, timing) if _is(STORE, i) else _load_cost(i, before, timing)


def _store_cost(i: Instruction, before: Instruction | None, timing: Timing) -> int:
    cost = timing.store_by_register if len(REGISTER.findall(_address(i))) > 1 else timing.store
    if indexed_base(i) and _is(LOAD, before):
        cost += timing.indexed_store_after_load
    return cost + (timing.same_base if _is(STORE, before) and _same_base(i, before) else 0)


def _load_cost(i: Instruction, before: Instruction | None, timing: Timing) -> int:
    if not _is(LOAD, before):
        return timing.load + (timing.load_after_store if _is(STORE, before) else 0)
    if before is not None and _destination(before) in REGISTER.findall(_address(i)):
        return timing.load
    stalls = (
        (timing.indexed_after_load, bool(indexed_base(i))),
        (timing.same_base, _same_base(i, before)),
        (timing.misaligned_load, i.size == 4 and i.address % 4 != 0),
    )
    # Each of these only prevents the load from overlapping the one before, so it counts once.
    return min(timing.load, timing.load_after_load + sum(cost for cost, holds in stalls if holds))


def _same_base(i: Instruction, before: Instruction | None) -> bool:
    """Whether both update the same base register."""
    return before is not None and bool(indexed_base(i)) and indexed_base(i) == indexed_base(before)


def indexed_base(i: Instruction) -> str:
    """The base register that a load or store updates, or "" if it updates none."""
    inside, bracket, after = i.operands.partition("[")[2].partition("]")
    return REGISTER.findall(inside)[0] if bracket and after.strip() else ""


def _address_wait(i: Instruction, before: Instruction | None, timing: Timing) -> int:
    """1 if the preceding instruction, which is not a load, has computed a register of the address, else 0."""
    if before is None or _is(NO_RESULT, before) or any(_is(kind, before) for kind in (LOAD, PAIR, MULTIPLE)):
        return 0
    return timing.address_wait if _destination(before) in REGISTER.findall(_address(i)) else 0


def _waits(i: Instruction, before: Instruction | None) -> bool:
    """Whether the instruction needs the result of the preceding one, which comes a cycle late.

    The accumulator of a MAC and the data of a store are needed later and do not wait.
    """
    if before is None or not (_is(LOAD, before) or _is(LATE, before) or SHIFTED.search(before.operands)):
        return False
    parts = [part.strip() for part in i.operands.split(",")]
    if _is(STORE, i):
        needed = _address(i)
    elif _is(MAC, i):
        needed = ",".join(parts[1:3])
    elif _is(NO_RESULT, i) or len(parts) == 2:
        needed = i.operands if _is(NO_RESULT, i) or not _is(MOVES, i) else parts[1]
    else:
        needed = _address(i) if _is(LOAD, i) else ",".join(parts[1:])
    return _destination(before) in REGISTER.findall(needed)


def _destination(i: Instruction) -> str:
    return i.operands.split(",")[0].strip()


def _address(i: Instruction) -> str:
    """The registers from which a load or store computes its address."""
    _, bracket, inside = i.operands.partition("[")
    return inside if bracket else ("sp" if i.operands[:1] == "{" else i.operands.split(",")[0].rstrip("!"))


def _listed(operands: str) -> int:
    """The number of words in a {list} of registers."""
    inside = operands[operands.find("{") + 1 : operands.find("}")]
    return sum(_span(part.strip()) for part in inside.split(","))


def _span(part: str) -> int:
    first, dash, last = part.partition("-")
    words = 2 if first.startswith("d") else 1
    return words * (int(last[1:]) - int(first[1:]) + 1 if dash else 1)


def _always_taken(i: Instruction) -> bool:
    return bare(i) in ("b", "bl", "bx", "blx", "tbb", "tbh") or _loads_pc(i)


def _loads_pc(i: Instruction) -> bool:
    if _is(MULTIPLE, i):
        return bool(re.search(r"\bpc\}", i.operands))
    return _is(LOAD, i) and _destination(i) == "pc"


def _refill(i: Instruction, timing: Timing) -> int:
    if _is(LOOP, i):
        return 0
    if _is(TABLE, i) or (_is(LOAD, i) and _destination(i) == "pc"):
        return timing.loaded_target
    if _is(MULTIPLE, i) and _loads_pc(i):
        return timing.popped_target
    if _is(INDIRECT, i) or _destination(i) == "pc":
        return timing.indirect
    if _is(CALL, i):
        return timing.call
    return timing.taken if _is(BRANCH, i) else 0


VECTOR_MEMORY = re.compile(r"v(?:ld|st)r?[bhwd24]\w*")
VECTOR_MULTIPLY = re.compile(r"v\w*m(?:la|ls|ul|lal)\w*")
VECTOR_REGISTER = re.compile(r"\bq\d\b")
GATHER = re.compile(r"\[(?:\w+, *)?q\d")
VECTOR_CYCLES = 2
GATHER_CYCLES = 6
"""Additional cycles of a gather, which accesses one element at a time."""


def _vector_cycles(block: Block) -> list[Cycles]:
    """The cycles of vector code. Helium executes two beats per cycle, so a vector instruction takes two cycles, and
    instructions of different kinds may overlap. Low: memory accesses, multiplications and other instructions overlap
    completely, and a scalar instruction takes one cycle. High: nothing overlaps.
    """
    highs = [cost / block.times if block.times else 0.0 for cost in _totals(block, _TABLE)]
    kinds = {"memory": 0, "multiply": 0, "other": 0}
    scalars = 0
    for index, i in enumerate(block.instructions):
        kind = vector_kind(i)
        if kind is None:
            scalars += 0 if _is(LOOP, i) or _is(FREE, i) else 1
            highs[index] *= not _is(LOOP, i)
        else:
            highs[index] = VECTOR_CYCLES + (GATHER_CYCLES if GATHER.search(i.operands) else 0)
            kinds[kind] += int(highs[index])
    low = max(kinds.values()) + scalars
    high = max(sum(highs), low)
    return [_share(each * block.times, low, high, sum(highs)) for each in highs]


def _share(each: float, low: float, high: float, total: float) -> Cycles:
    part = each / total if total else 0.0
    return Cycles(part * low, part * (low + high) / 2, part * high)


ELEMENT = re.compile(r"\.[suif]?(8|16|32|64)")


def scattered(i: Instruction) -> int:
    """The number of elements that a gather or scatter moves; 0 for other instructions."""
    width = ELEMENT.search(i.mnemonic)
    return 128 // int(width[1]) if width is not None and i.mnemonic[0] == "v" and GATHER.search(i.operands) else 0


def vector_kind(i: Instruction) -> str | None:
    """The Helium pipe that an instruction uses; None for a scalar one."""
    if not i.mnemonic.startswith("v") or not VECTOR_REGISTER.search(i.operands):
        return None
    if VECTOR_MEMORY.fullmatch(bare(i)) and "[" in i.operands:
        return "memory"
    return "multiply" if VECTOR_MULTIPLY.fullmatch(bare(i)) else "other"
