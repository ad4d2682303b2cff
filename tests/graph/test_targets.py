"""Targets and boards are data: their contents, and the errors for wrong files."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from glowembed.errors import UsageError
from glowembed.graph.target import (
    board_names,
    boards_of,
    default_board,
    load_board,
    load_target,
    read_board,
    read_target,
    runs,
    target_names,
)

TARGETS = (
    "cortex-m0", "cortex-m0plus", "cortex-m1", "cortex-m23", "cortex-m3", "cortex-m33", "cortex-m35p", "cortex-m4",
    "cortex-m55", "cortex-m7", "generic", "riscv32", "x86-64",
)  # fmt: skip
ELSEWHERE = {
    "cortex-m0plus": "cortex-m0",
    "cortex-m1": "cortex-m0",
    "cortex-m23": "cortex-m33",
    "cortex-m35p": "cortex-m33",
    "generic": "x86-64",
}
"""Targets that are tested on the boards of another."""
BOARDS = (
    "host",
    "lm3s6965evb",
    "lm3s6965evb-m0",
    "microbit",
    "mps2-an385",
    "mps2-an386",
    "mps2-an500",
    "mps2-an505",
    "mps3-an547",
    "netduinoplus2",
    "nrf51-large",
    "nrf52840-dk",
    "nucleo-h743zi2",
    "nucleo-l4r5zi",
    "nucleo-u575zi-q",
    "riscv32-virt",
    "rpi-pico",
    "stm32vldiscovery",
)


def test_names() -> None:
    assert target_names() == TARGETS
    assert board_names() == BOARDS


@pytest.mark.parametrize(
    ("target", "isa", "has_fpu", "align"),
    [
        ("cortex-m0", ("armv6m",), False, 8),
        ("cortex-m3", ("armv7m",), False, 8),
        ("cortex-m4", ("dsp",), True, 8),
        ("cortex-m7", ("dsp",), True, 8),
        ("cortex-m33", ("dsp",), True, 8),
        ("cortex-m55", ("mve", "dsp"), True, 16),
        ("cortex-m0plus", ("armv6m",), False, 8),
        ("cortex-m1", ("armv6m",), False, 8),
        ("cortex-m23", ("armv6m",), False, 8),
        ("cortex-m35p", ("dsp",), True, 8),
        ("generic", (), True, 8),
        ("riscv32", (), False, 8),
        ("x86-64", ("x86",), True, 64),
    ],
)
def test_target(target: str, isa: tuple[str, ...], has_fpu: bool, align: int) -> None:
    found = load_target(target)
    assert (found.isa, found.has_fpu, found.arena_align) == (isa, has_fpu, align)
    assert {"-O2", "-std=c99", "-Wconversion", "-Werror"} <= set(found.cflags)
    assert "-ffreestanding" not in found.cflags


@pytest.mark.parametrize("name", TARGETS)
def test_every_target_has_one_default_board(name: str) -> None:
    core = ELSEWHERE.get(name, name)
    assert default_board(name).target == core
    assert [load_board(b).default for b in BOARDS if load_board(b).target == core].count(True) == 1


def test_a_board_runs_its_own_target_and_those_that_say_so() -> None:
    found = {name: [board.name for board in boards_of(load_target(name))] for name in ("cortex-m33", "cortex-m23")}
    assert found["cortex-m33"] == found["cortex-m23"] == ["mps2-an505", "nucleo-u575zi-q"]
    assert not runs(load_board("mps2-an505"), load_target("cortex-m0plus"))
    assert not runs(load_board("microbit"), load_target("cortex-m23")), "hardware division"


@pytest.mark.parametrize("name", [name for name in BOARDS if name != "host"])
def test_board_memories_do_not_overlap(name: str) -> None:
    memories = sorted(load_board(name).memories, key=lambda memory: memory.start)
    assert {memory.kind for memory in memories} in ({"flash", "ram"}, {"flash", "ram", "tcm"})
    for lower, upper in itertools.pairwise(memories):
        assert lower.start + lower.size <= upper.start


@pytest.mark.parametrize(
    ("load", "name", "expected"),
    [
        (load_target, "cortex-m5", "unknown target 'cortex-m5'. Did you mean 'cortex-m55'? Known: cortex-m0, "),
        (load_target, "cortex-m23p", "Did you mean 'cortex-m23'?"),
        (load_target, "", "unknown target ''. Known: "),
        (load_board, "mps2-an387", "unknown board 'mps2-an387'. Did you mean 'mps2-an38"),
        (load_board, "../boards/hosts", "/hosts/board.toml"),
        (load_target, "../cortex-m5.toml", "/cortex-m5.toml"),
    ],
)
def test_unknown_names(load, name: str, expected: str) -> None:
    with pytest.raises(UsageError) as error:
        load(name)
    assert expected in str(error.value)


GOOD = """name = "cortex-m4"
description = "a file that inherits nothing"
cpu = "cortex-m4"
architecture = "arm"
isa = ["dsp"]
word_size = 4
arena_align = 8
has_fpu = true
compiler = "arm-none-eabi-gcc"
package = "gcc-arm-none-eabi"
machine = ["-mcpu=cortex-m4", "-mthumb"]
cflags = ["-std=c99"]
warnings = ["-Wall"]
ldflags = []
[emulator]
command = ["qemu-system-arm"]
package = "qemu-system-arm"
[costs]
cycles_per_instruction = 1.17
"""


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ('cpu = "cortex-m4"', "", "cpu is missing; expected a value of type str"),
        ("word_size = 4", 'word_size = "4"', "word_size is '4'; expected a value of type int"),
        ("word_size = 4", "word_size = true", "word_size is True; expected a value of type int"),
        ("arena_align = 8", "arena_align = 7", "arena_align is 7; allowed: 4, 8, 16"),
        ('isa = ["dsp"]', 'isa = ["neon"]', "isa holds 'neon'; allowed: armv6m, armv7m, dsp, mve"),
        ("has_fpu = true", "has_fpu = true\nhas_npu = true", "has_npu is not a key that we know"),
        ("has_fpu = true", "has_fpu =", "cannot be read as TOML"),
        ('architecture = "arm"', 'architecture = "avr"', "architecture is 'avr'; allowed: arm, riscv, x86"),
        ('command = ["qemu-system-arm"]', "command = []", "emulator.command is empty"),
        ('name = "cortex-m4"', 'name = "m4"', "name is 'm4', but the file is that of 'cortex-m4'"),
        ("cycles_per_instruction = 1.17", 'cycles_per_instruction = "1"', "costs holds something that is not a number"),
    ],
)
def test_malformed_target(tmp_path: Path, old: str, new: str, expected: str) -> None:
    assert old in GOOD
    path = tmp_path / "cortex-m4.toml"
    path.write_text(GOOD.replace(old, new))
    with pytest.raises(UsageError) as error:
        read_target(path)
    assert str(path) in str(error.value)
    assert expected in str(error.value)


def test_a_target_inherits_and_says_what_differs(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('name = "mine"\ndescription = "d"\ninherits = "cortex-m4"\n[costs]\nx = 1\n')
    (tmp_path / "ours.toml").write_text('name = "ours"\ndescription = "e"\ninherits = "mine"\nhas_fpu = false\n')
    ours, m4 = read_target(tmp_path / "ours.toml"), load_target("cortex-m4")
    assert (ours.name, ours.description, ours.has_fpu) == ("ours", "e", False)
    assert (ours.cflags, ours.ldflags, ours.isa) == (m4.cflags, m4.ldflags, m4.isa)
    assert ours.costs == {**m4.costs, "x": 1.0}


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ('inherits = "cortex-m4"', "description is missing"),
        ('description = "d"\ninherits = "cortex-m99"', "'cortex-m99', which names no file"),
        ('description = "d"\ninherits = "bad"', "'bad', which inherits from itself"),
        ('description = "d"\ninherits = 4', "inherits is 4; expected"),
        ('description = "d"\ninherits = "cortex-m4"\nhas_npu = true', "has_npu is not a key"),
    ],
)
def test_malformed_inheritance(tmp_path: Path, lines: str, expected: str) -> None:
    (tmp_path / "bad.toml").write_text(f'name = "bad"\n{lines}\n')
    with pytest.raises(UsageError) as error:
        read_target(tmp_path / "bad.toml")
    assert expected in str(error.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('sources = ["nothing.c"]', "names the file nothing.c, which does not exist"),
        ('sources = []\n[uart]\nkind = "usb"\nbase = 0\nclock_hz = 1', "uart.kind is 'usb'; allowed: cmsdk, nrf51"),
        ('sources = []\n[[memories]]\nname = "ram"\nstart = 0', "memories[0].size is missing"),
        ("sources = []\nmicrojoules_per_megacycle = -1.5", "microjoules_per_megacycle is -1.5; allowed: 0 and more"),
        (
            "sources = []\nmicrojoules_per_megacycle = 'low'",
            "microjoules_per_megacycle is 'low'; expected a value of type float",
        ),
        ("sources = []\nmemories = 3", "memories is 3; expected a value of type list"),
        ("", "sources is missing"),
    ],
)
def test_malformed_board(tmp_path: Path, text: str, expected: str) -> None:
    path = tmp_path / "own" / "board.toml"
    path.parent.mkdir()
    path.write_text(f'name = "own"\ndescription = "x"\ntarget = "cortex-m4"\n{text}\n')
    with pytest.raises(UsageError) as error:
        read_board(path)
    assert expected in str(error.value)
