"""llvm-mca gets code in its own syntax, instructions that it does not know are added to its figures, and its absence
is a helpful error.
"""

from __future__ import annotations

import shutil
import subprocess
from types import SimpleNamespace

import pytest

from glowembed.errors import ToolError, UsageError
from glowembed.graph.target import load_target
from glowembed.measure import mca, pipelines
from glowembed.measure import measurement as core
from glowembed.measure.counts import Block
from glowembed.measure.listing import Instruction


def code(text: str) -> tuple[Instruction, ...]:
    parts = [line.strip().partition(" ") for line in text.split(";")]
    return tuple(Instruction(0x200 + 4 * i, 4, name, rest) for i, (name, _, rest) in enumerate(parts))


LINES = {
    "vmlava.s8 r0, q1, q0": "vmlava.s8 r0, q1, q0",
    "mul.w r3, r4, r3": "mul r3, r4, r3",
    "str.w r5, [r2, #-12]": "str r5, [r2, #-12]",
    "ldr.w r4, [r2], #4": "ldr.w r4, [r2]",
    "ldrsb.w r4, [r2, #1]!": "ldrsb.w r4, [r2]",
    "vldrb.u8 q0, [r9], #16": "vldrb.u8 q0, [r9], #16",
    "bne.w 1c0 <f+0x2c>": "bne.w target",
}


@pytest.mark.parametrize("text", LINES)
def test_syntax(text: str) -> None:
    assert mca._region(code(text)).splitlines()[1] == LINES[text]


def test_instructions_that_llvm_does_not_know_are_counted_here() -> None:
    loop = code("dls lr, lr; bl 100 <f>; le lr, 200 <f>")
    assert mca._region(loop).splitlines()[1:-1] == ["nop"]
    assert mca._unknown(loop) == 2 - 1, "the nop is taken off"
    assert mca._unknown(code("add r0, r1; le lr, 200 <f>")) == 0


@pytest.mark.parametrize(("text", "figures"), [
    ("vldrb.u8 q0, [r1, q2]", (10, 16, 24)),
    ("vstrb.16 q0, [r1, q2]", (10, 12, 16)),
    ("vldrw.u32 q0, [q2, #4]", (10, 10, 12)),
    ("vldrb.u8 q0, [r1]", (10, 10, 10)),
    ("bne.n 200 <f>", (11, 11, 11)),
])  # fmt: skip
def test_gathers_and_branches_are_added(text: str, figures: tuple[int, ...]) -> None:
    total = sum(mca.cycles(Block(code(text), 1, 0), 10.0), pipelines.Cycles())
    assert (total.low, total.point, total.high) == figures


def test_without_llvm_mca_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(ToolError, match=r"apt-get install llvm-19, or measure with --ruler table"):
        mca.command()
    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}" if name == "llvm-mca" else None)
    said = SimpleNamespace(stdout="LLVM version 14.0.6")
    monkeypatch.setattr(subprocess, "run", lambda *args, **words: said)
    with pytest.raises(ToolError, match=r"needs llvm-mca 19 or newer; /bin/llvm-mca is version 14"):
        mca.command()


def test_a_core_that_llvm_mca_is_not_used_for_is_an_error() -> None:
    with pytest.raises(UsageError, match=r"does not know cortex-m4; it knows cortex-m55, cortex-m7"):
        core.check_ruler("llvm-mca", load_target("cortex-m4"))


def _installed() -> bool:
    try:
        return bool(mca.command())
    except ToolError:
        return False


@pytest.mark.skipif(not _installed(), reason="llvm-mca 19 is not installed")
def test_two_neighbours_of_one_pipe_wait_for_each_other() -> None:
    same = code("vldrb.u8 q0, [r0]; vldrb.u8 q1, [r1]; vmlava.s8 r2, q2, q3; vmlava.s8 r4, q2, q3")
    turns = code("vldrb.u8 q0, [r0]; vmlava.s8 r2, q2, q3; vldrb.u8 q1, [r1]; vmlava.s8 r4, q2, q3")
    llvm = pipelines.pipeline("cortex-m55").llvm
    assert llvm is not None
    found = mca.costs([Block(same, 1, 1), Block(turns, 1, 1)], llvm)
    assert found[turns] == pytest.approx(4, abs=0.3)
    assert found[same] == pytest.approx(6, abs=0.3)
