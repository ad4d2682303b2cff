"""Counts equal QEMU's to the instruction, cycles those of the reference manuals' tables, refusals say why."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import fake_bundle
import numpy as np
import pytest
from json_result import check_json
from rich.console import Console

from glowembed import measure as measuring
from glowembed.errors import ToolError
from glowembed.graph.target import board_names, default_board, load_board, load_target, target_names
from glowembed.image.build import Image, build
from glowembed.image.glue import read_manifest
from glowembed.judge.validation import validate
from glowembed.measure import counts, listing, pipelines, plugin
from glowembed.measure import measurement as core
from glowembed.measure.counts import Block
from glowembed.measure.listing import Instruction
from glowembed.pipeline import CompileOptions, compile_model

CORES = [name for name in target_names() if load_target(name).pipeline]


# one line per case: instructions (`;` between), cycles on M4, M3, M0 when run once and the last one is not a taken branch
TABLE = """
add r0, r1, r2                                              | 1 1 1
ldr r0, [r1, #4]                                            | 2 2 2
ldr r0, [r1]; ldr r2, [r3]                                  | 3 3 4
ldr r0, [r1]; ldr r2, [r0]                                  | 4 4 4
ldr r0, [r1]; ldr r2, [r3]; ldr r4, [r5]; ldr r6, [r7]      | 5 5 8
ldrsb.w r0, [r1, #1]!; ldrsb.w r2, [r3, #1]!                | 3 4 4
ldr r0, [r1], #4; ldr r2, [r1], #4                          | 4 4 4
ldr r2, [r1, #4]; ldr r0, [r1], #8                          | 3 4 4
ldr r0, [r1], #8; ldr r2, [r3, #4]                          | 3 3 4
ldr r0, [r1], #4; ldr r2, [r1, #4]                          | 3 3 4
str r0, [r1], #4; str r2, [r1], #4                          | 3 3 4
str r0, [r1], #4; str r2, [r3], #4                          | 2 2 4
str r2, [r1, #4]; str r0, [r1], #8                          | 2 2 4
str r0, [r1]; ldr r2, [r3]                                  | 4 4 4
ldr r0, [r1]; str r0, [r3], #4                              | 3 4 4
add r1, r2; ldr r0, [r1]                                    | 4 4 3
add r1, r2; ldr r0, [r3]                                    | 3 3 3
cmp r1, r2; ldr r0, [r1]                                    | 3 3 3
str r0, [r1, #4]                                            | 1 1 2
str r0, [r1, r2]                                            | 2 2 2
ldr r3, [r4]; str r0, [r1, r2]                              | 4 4 4
strd r0, r1, [sp, #8]                                       | 3 3 3
ldmia.w r0!, {r1, r2, r3, r4}                               | 5 5 5
push {r4, r5, lr}                                           | 4 4 4
vpush {d8-d9}                                               | 5 5 5
muls r0, r1                                                 | 1 1 1
mla r0, r1, r2, r3                                          | 1 2 1
smlad r0, r1, r2, r3                                        | 1 1 1
smull r0, r1, r2, r3                                        | 1 4 1
smlal r0, r1, r2, r3                                        | 1 5 1
sdiv r0, r1, r2                                             | 7 7 7
it pl                                                       | 0 0 0
bne.n 100 <f>                                               | 1 1 1
""".strip().splitlines()


def code(text: str, start: int = 0x200) -> tuple[Instruction, ...]:
    made = []
    for line in text.split(";"):
        mnemonic, _, operands = line.strip().partition(" ")
        made.append(Instruction(start, 4, mnemonic, operands.strip()))
        start = made[-1].next
    return tuple(made)


def once(text: str, name: str, times: int = 1, through: int = 1, misaligned: bool = False) -> pipelines.Cycles:
    block = Block(code(text), times, through, misaligned)
    return sum(pipelines.cycles(block, pipelines.pipeline(name)), pipelines.Cycles())


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.split("|")[0].strip())
def test_cycles_of_instructions(row: str) -> None:
    text, _, figures = row.partition("|")
    for name, expected in zip(("cortex-m4", "cortex-m3", "cortex-m0"), figures.split(), strict=True):
        assert once(text, name).point == int(expected), name


@pytest.mark.parametrize(
    ("text", "m4", "m0"),
    [
        ("b.n 100 <f>", 2, 3),
        ("bne.n 100 <f>", 2, 3),
        ("cbz r0, 100 <f>", 2, 3),
        ("bl 100 <f>", 2, 4),
        ("bx lr", 3, 3),
        ("blx r3", 3, 3),
        ("pop {r4, pc}", 5, 6),
        ("ldmia.w sp!, {r4, r5, pc}", 6, 7),
        ("ldr pc, [r1]", 5, 5),
    ],
)
def test_cycles_of_taken_branches(text: str, m4: int, m0: int) -> None:
    assert once(text, "cortex-m4", through=0).point == m4
    assert once(text, "cortex-m0", through=0).point == m0


@pytest.mark.parametrize(
    ("text", "cycles"),
    [
        ("ldr r0, [r1]; ldr r2, [r3]", 2),
        ("ldr r0, [r1]; add r2, r0, r3", 3),
        ("ldr r0, [r1]; ldr r2, [r0]", 3),
        ("ldr r0, [r1]; smlad r2, r3, r4, r0", 2),
        ("ldr r0, [r1]; smlad r2, r0, r4, r2", 3),
        ("ldr r0, [r1]; str r0, [r3]", 2),
        ("ldr r0, [r1], #4; ldr r2, [r1], #4", 2),
        ("smlad r0, r1, r2, r0; smlad r0, r3, r4, r0", 2),
        ("smmlar r0, r1, r2, r3; ssat r0, #8, r0; strb.w r0, [r4, #1]", 4),
        ("sxtb16 r0, r1; cmp r0, r2", 3),
        ("add r0, r1, r2, lsl #1; mov r3, r0", 3),
        ("add r0, r1, r2; mov r3, r0", 2),
        ("ldrd r0, r1, [r2]", 2),
        ("ldmia.w r0!, {r1, r2, r3, r4}", 4),
    ],
)
def test_cycles_of_a_cortex_m33(text: str, cycles: int) -> None:
    assert once(text, "cortex-m33").point == cycles


def test_a_loop_pays_for_the_branches_it_takes() -> None:
    loop = "ldrsb.w r5, [r4, #1]!; ldrsb.w r8, [r7, #1]!; cmp r3, r4; smlabb r6, r8, r5, r6; bne.n 200 <f>"
    assert once(loop, "cortex-m4", times=100, through=10).point == 100 * 6 + 90
    assert once(loop, "cortex-m4", times=100, through=10, misaligned=True).point == 100 * 6 + 90 * 2


# Sequences whose cycles were determined separately in a study of kernels: products of two weights in a word,
# requantization, activations to int16.
KNOWN = {
    "16 products": (
        (
            "ldr r11, [r0, #4]; ldr r10, [r0], #8; ldr lr, [r1, #128]; ldr r12, [r1], #4; smlad r2, r10, lr, r2;"
            "smlad r3, r10, r12, r3; smlad r6, r11, lr, r6; smlad r7, r11, r12, r7; sxtb16 r10, r10; sxtb16 r11, r11;"
            "smlad r4, r10, lr, r4; smlad r5, r10, r12, r5; smlad r8, r11, lr, r8; smlad r9, r11, r12, r9"
        ),
        15,
    ),
    "requantize": ("smmlar r0, r1, r2, r3; ssat r0, #8, r0; strb.w r0, [r4, #1]", 3),
    "expand 16": (
        "ldr r2, [r0, #4]; ldr r3, [r0, #8]; ldr r4, [r0, #12]; ldr r1, [r0], #16"
        + "; sxtb16 r5, r1; sxtb16 r1, r1, ror #8; str r1, [r6, #4]; str r5, [r6], #8" * 4,
        21,
    ),
    "end of a loop": ("vmov ip, s0; cmp r0, ip; bne.n 100 <f>", 3),
}


@pytest.mark.parametrize("name", KNOWN)
def test_cycles_of_known_sequences(name: str) -> None:
    text, expected = KNOWN[name]
    assert once(text, "cortex-m4").point == expected


def test_ranges() -> None:
    assert once("muls r0, r1", "cortex-m0") == pipelines.Cycles(1, 1, 32)
    assert once("add r0, r1, r2", "cortex-m7") == pipelines.Cycles(0.55, 0.75, 1.0)
    helium = "vldrb.8 q0, [r0], #16; vldrb.8 q1, [r1], #16; vmladava.s8 r2, q0, q1; add r3, r3, #1; le lr, 200 <f>"
    found = once(helium, "cortex-m55", through=0)
    assert (found.low, found.point, found.high) == pytest.approx((4 + 1, 6, 6 + 1))
    assert once("vldrb.32 q0, [r0, q1]", "cortex-m55") == pipelines.Cycles(8, 8, 8)
    assert once("vldrw.u32 q0, [q1, #4]", "cortex-m55") == pipelines.Cycles(8, 8, 8)


def test_a_strict_reading_of_base_updates_is_the_upper_end_of_the_cortex_m4() -> None:
    found = once("ldr r2, [r1, #4]; ldr r0, [r1], #8", "cortex-m4")
    assert (found.point, found.high) == (3, 4)
    found = once("ldr r0, [r1], #4; ldr r2, [r1], #4", "cortex-m4")
    assert (found.point, found.high) == (4, 4)


def test_a_long_load_across_two_words_does_not_overlap_the_load_before_it() -> None:
    for start, expected in ((0x200, 3), (0x202, 4)):
        block = Block(code("ldr r0, [r1]; ldr r2, [r3]", start), 1, 1)
        assert sum(pipelines.cycles(block, pipelines.pipeline("cortex-m4")), pipelines.Cycles()).point == expected


def test_every_core_has_a_pipeline() -> None:
    assert all(load_target(name).pipeline in pipelines.PIPELINES for name in CORES)
    with pytest.raises(Exception, match=r"unknown pipeline 'cortex-m5'.*Did you mean"):
        pipelines.pipeline("cortex-m5")


OBJDUMP = """
00000200 <f>:
 200:\t4604      \tmov\tr4, r0
 202:\tf04f 7080 \tmov.w\tr0, #16777216\t@ 0x1000000
 206:\td1fc      \tbne.n\t202 <f+0x2>
 208:\t00000200 \t.word\t0x00000200
"""


def test_reads_objdump() -> None:
    found = listing.parse(OBJDUMP)
    assert found[0x202] == Instruction(0x202, 4, "mov.w", "r0, #16777216")
    assert found[0x206] == Instruction(0x206, 2, "bne.n", "202 <f+0x2>")
    assert sorted(found) == [0x200, 0x202, 0x206]


def written(folder: Path, text: str) -> tuple[counts.Phase, ...]:
    path = folder / "counts"
    path.write_text(text)
    return counts.read(path, listing.Listing("", listing.parse(OBJDUMP), (listing.Function("f", 0x200, 0x208),)))


def test_reads_counts(tmp_path: Path) -> None:
    ((first, second),) = written(tmp_path, "phase 0\n200 3 1 0 0\n202 2 9 1 8\nend 1\n")
    assert (first.executed, first.through) == (3, 0)
    assert (second.executed, second.through, second.misaligned) == (18, 1, True)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("phase 0\n200 3 1 0 0\n", "cut short"),
        ("phase 0\n200 3 1 0 0\nend 2\n", "cut short"),
        ("phase 0\n300 3 1 0 0\nend 1\n", "code at 0x300 that the disassembly does not"),
        ("phase 0\n206 2 1 0 0\nend 1\n", "code at 0x208"),
    ],
)
def test_refuses_counts_of_another_firmware(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ToolError, match=says):
        written(tmp_path, text)


BOARDS = [name for name in board_names() if load_board(name).qemu and load_target(load_board(name).target).pipeline]
Make = Callable[..., Image]
SLIDE = """__attribute__((naked)) int32_t fake_run(void *arena) {{
    __asm__ volatile(".syntax unified\\n .rept {nops}\\n nop\\n .endr\\n movs r0, #0\\n bx lr\\n");
    (void)arena;
}}"""
LOOP = """__attribute__((naked)) int32_t fake_run(void *arena) {{
    __asm__ volatile(".syntax unified\\n .balign 4\\n ldr r1, ={rounds}\\n nop\\n 1: subs r1, r1, #1\\n bne 1b\\n"
                     " movs r0, #0\\n bx lr\\n .ltorg\\n");
    (void)arena;
}}"""


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """`make(board, source)`: the firmware of a hand-written bundle."""

    def firmware(board: str, source: str = fake_bundle.ADD_AND_DOUBLE) -> Image:
        found = load_board(board)
        bundle = fake_bundle.write(tmp_path / "a bundle, " / board, found.target, source)
        return build(bundle, found, tmp_path / "build, " / board)

    return firmware


def measured(image: Image, hot: int = 0, count: int = 3) -> measuring.Measurement:
    return measuring.measure(image, read_manifest(image.bundle), fake_bundle.samples(count), hot)


@pytest.mark.arm_gcc
@pytest.mark.qemu
@pytest.mark.cc
@pytest.mark.parametrize("board", BOARDS)
def test_counts_and_cycles_on_every_board(make: Make, board: str) -> None:
    """A loop of known length: M4 `ldr; nop; n x (subs, bne); movs; bx` is 2 + 1 + 3 n - 1 + 1 + 3 cycles.

    On the M33, LDR takes 1, and a taken branch after SUBS folds into it.
    """
    rounds = 70_001  # no constant of a MOV
    found = measured(make(board, fake_bundle.whole(LOOP.format(rounds=rounds))), hot=2)
    assert found.total.instructions == 2 * rounds + 4
    assert found.note is None
    cycles = found.total.cycles
    assert cycles is not None
    expected = {"cortex-m4": 3 * rounds + 6, "cortex-m3": 3 * rounds + 6, "cortex-m33": 2 * rounds + 5}
    target = load_board(board).target
    if target in expected:
        assert (cycles.low, cycles.point, cycles.high) == (expected[target],) * 3
    if target == "cortex-m0":
        assert cycles.point == 4 * rounds - 2 + 2 + 1 + 1 + 3
    assert cycles.low <= cycles.point <= cycles.high
    assert found.functions[0].name == "fake_run"
    assert [line.times for line in found.hot[0].lines] == [rounds, rounds]
    assert found.hot[0].share > 0.99


@pytest.mark.arm_gcc
@pytest.mark.qemu
@pytest.mark.cc
@pytest.mark.parametrize("core_name", ["cortex-m0", "cortex-m55"])
def test_layers_and_repeatable(make: Make, core_name: str) -> None:
    image = make(default_board(core_name).name)
    first, again = measured(image), measured(image)
    assert first == again
    assert len(first.layers) == 2
    assert all(50 < layer.instructions < 500 for layer in first.layers)
    json = first.json()
    check_json("measure", json)
    assert json["method"] == "plugin"
    assert json["build_id"] == listing.build_id(image.elf)
    assert json["layers"][0]["cycles_estimate"] >= json["layers"][0]["cycles_range"][0]
    assert json["instructions"] == first.total.instructions


@pytest.mark.arm_gcc
@pytest.mark.qemu
def test_without_a_compiler_there_are_instructions_and_a_note(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    image = make("mps2-an386", fake_bundle.whole(SLIDE.format(nops=7)))

    def missing(emulator: str) -> Path:
        raise ToolError("no C compiler 'cc'")

    monkeypatch.setattr(core, "plugin", missing)
    found = measured(image)
    assert found.total.instructions == 7 + 2
    assert found.total.cycles is None
    assert found.note == "instructions by QEMU alone, no cycles: no C compiler 'cc'"
    check_json("measure", found.json())
    assert found.json()["method"] == "icount"
    assert found.json()["cycles_estimate"] is None


@pytest.mark.arm_gcc
@pytest.mark.qemu
@pytest.mark.cc
def test_a_count_that_differs_is_an_error(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    image = make("mps2-an386")
    monkeypatch.setattr(core, "INTERRUPT", "fake_run_layers")
    with pytest.raises(ToolError, match=r"instruction count mismatch in phase 0: the plugin says \d+, QEMU \d+"):
        measured(image)


@pytest.mark.cc
@pytest.mark.qemu
def test_the_plugin_is_built_once(tmp_path: Path) -> None:
    path = plugin.plugin("qemu-system-arm", tmp_path)
    before = path.stat().st_mtime_ns
    assert plugin.plugin("qemu-system-arm", tmp_path) == path
    assert path.stat().st_mtime_ns == before
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize(
    ("version", "usage", "says"),
    [
        ("QEMU emulator version 7.2.22 (Debian)", "-plugin [file=]<file>", 1),
        ("QEMU emulator version 8.2.2", "-plugin [file=]<file>", 1),
        ("QEMU emulator version 9.0.0", "-plugin [file=]<file>", 2),
        ("QEMU emulator version 10.0.2", "-plugin [file=]<file>", 2),
        ("QEMU emulator version 10.0.2", "-machine", "built without plugins"),
        ("?", "", "does not report its version"),
    ],
)
def test_the_interface_follows_the_version(
    version: str, usage: str, says: int | str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugin, "_output", lambda command: version if command[1] == "--version" else usage)
    if isinstance(says, int):
        assert plugin._interface("qemu-system-arm") == says
        return
    with pytest.raises(ToolError, match=says):
        plugin._interface("qemu-system-arm")


@pytest.mark.cc
@pytest.mark.parametrize("interface", [1, 2])
def test_the_plugin_is_clean_c_for_both_interfaces(tmp_path: Path, interface: int) -> None:
    warnings = "-Wall -Wextra -Wpedantic -Wconversion -Wmissing-prototypes -Wshadow -Wundef -Werror".split()
    command = ["cc", *plugin.FLAGS, *warnings, f"-DGE_PLUGIN_API={interface}", "-o", str(tmp_path / "p.so")]
    subprocess.run([*command, str(plugin.source())], check=True)
    exported = subprocess.run(["nm", "-D", "--defined-only", str(tmp_path / "p.so")], capture_output=True, text=True)
    assert re.findall(r" [TD] (\w+)", exported.stdout) == ["qemu_plugin_install", "qemu_plugin_version"]


def test_noise_is_always_the_same() -> None:
    manifest = {"inputs": [{"bytes": 8, "dtype": "int8"}, {"bytes": 8, "dtype": "float32"}]}
    first = measuring.noise(manifest, 3)
    assert first.shape == (3, 16)
    assert np.array_equal(first, measuring.noise(manifest, 3))
    assert np.all(np.isfinite(first[:, 8:].copy().view(np.float32)))


@pytest.mark.arm_gcc
@pytest.mark.qemu
@pytest.mark.cc
def test_validate_tells_the_cycles_of_each_layer(tmp_path: Path, root: Path) -> None:
    example = root / "examples" / "digits"
    options = CompileOptions("cortex-m4", name="digits")
    bundle = compile_model(example / "model.onnx", tmp_path / "bundle", options, example / "data.npz")
    found = validate(bundle, example / "data.npz", "mps2-an386", samples=2, layers=True).json
    cycles = [layer["cycles_estimate"] for layer in found["layers"]]
    assert all(layer["instructions"] <= layer["cycles_estimate"] for layer in found["layers"] if layer["macs"])
    assert found["instructions"] < found["cycles_estimate"]
    assert 0 < max(cycles) < sum(cycles)


@pytest.mark.parametrize("cycles", [True, False])
def test_layers_are_shown_with_kernel_and_share(cycles: bool) -> None:
    """Shares are of cycles, and of instructions if there are no cycles."""
    layers = [{"name": "a", "kernel": "ge_conv2d_s8", "macs": 100}, {"name": "b", "kernel": None, "macs": 0}]
    figures = [
        core.Figures(x["name"], 30 + 40 * i, pipelines.Cycles(75, 75, 75) if cycles else None)
        for i, x in enumerate(layers)
    ]
    total = core.Figures("net", 99, pipelines.Cycles(150, 150, 150) if cycles else None)
    console = Console(width=120, color_system=None)
    with console.capture() as capture:
        console.print(
            measuring.shown(core.Measurement("net", "t", "b", "", 1, total, tuple(figures), (), (), {"layers": layers}))
        )
    text = " ".join(capture.get().split())
    expected = (
        ("a conv2d_s8 100 30 75 50.0 % 0.75", "b - - 70 75 50.0 % -") if cycles else ("a conv2d_s8 100 30 - 30.0 % -",)
    )
    assert all(line in text for line in expected), text
