"""Every emulated board boots, runs a bundle to the bit, counts instructions exactly, and says why it failed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import fake_bundle
import numpy as np
import pytest

from glowembed.errors import ToolError, UsageError
from glowembed.graph.target import board_names, default_board, load_board, load_target, target_names
from glowembed.image.build import Image, build
from glowembed.image.glue import read_manifest
from glowembed.judge.validation import validate
from glowembed.pipeline import CompileOptions, compile_model
from glowembed.run import RunResult, qemu

pytestmark = [pytest.mark.arm_gcc, pytest.mark.qemu]
BOARDS = [name for name in board_names() if load_board(name).qemu is not None]
Make = Callable[..., Image]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """`make(board, source)`: the firmware of a hand-written bundle."""

    def firmware(board: str, source: str = fake_bundle.ADD_AND_DOUBLE, **settings: int) -> Image:
        found = load_board(board)
        bundle = fake_bundle.write(tmp_path / "a bundle" / board, found.target, source, **settings)
        return build(bundle, found, tmp_path / "build" / board)

    return firmware


def run(image: Image, samples: np.ndarray | None = None, **settings: object) -> RunResult:
    rows = fake_bundle.samples(4) if samples is None else samples
    return qemu.run(image, read_manifest(image.bundle), rows, timeout=240, **settings)


@pytest.mark.parametrize("board", BOARDS)
def test_boots_and_gives_the_bits(make: Make, tmp_path: Path, board: str) -> None:
    image, samples = make(board), fake_bundle.samples(37)
    a, y = fake_bundle.reference(samples)
    first = run(image, samples, uart=tmp_path / "uart")
    assert np.array_equal(first.outputs[0], y)
    assert (tmp_path / "uart").read_text() == f"READY glowembed 1 {'0123456789abcdef' * 4}\n"
    assert first.instructions is not None
    assert 50 < first.instructions < 500
    again = run(image, samples)
    assert (again.instructions, again.instructions_least) == (first.instructions, first.instructions_least)

    layered = run(image, samples, layers=True)
    assert layered.layer_outputs is not None
    assert np.array_equal(layered.layer_outputs[0][0], a)
    assert np.array_equal(layered.layer_outputs[1][0], y)
    assert np.array_equal(layered.outputs[0], y)
    assert layered.layer_instructions is not None
    assert len(layered.layer_instructions) == 2


@dataclass(frozen=True)
class Code:
    """Instructions of an architecture, of known number. `end`: two that return 0."""

    end: str
    into: str
    """from a1 = n to two bytes times n + 1 before the label 1"""
    into_count: int
    loop: str
    """`rounds` times two instructions"""
    loop_count: int
    undefined: str
    undefined_cause: str


ARM = Code(
    end="movs r0, #0\\n bx lr\\n",
    into=".syntax unified\\n ldr r0, =1f - 2 + 1\\n adds r1, r1, r1\\n subs r0, r0, r1\\n bx r0\\n",
    into_count=4,
    loop=".syntax unified\\n ldr r1, ={rounds}\\n 1: subs r1, r1, #1\\n bne 1b\\n",
    loop_count=1,
    undefined="udf #0",
    undefined_cause="undefined instruction",
)
RISCV = Code(
    end="li a0, 0\\n ret\\n",
    into=".option norelax\\n la a0, 1f - 2\\n slli a1, a1, 1\\n sub a0, a0, a1\\n jr a0\\n",
    into_count=5,
    loop="li t0, {rounds}\\n 1: addi t0, t0, -1\\n bnez t0, 1b\\n",
    loop_count=2,
    undefined="unimp",
    undefined_cause="illegal instruction",
)


def code(board: str) -> Code:
    return {"arm": ARM, "riscv": RISCV}[load_target(load_board(board).target).architecture]


def naked(words: str) -> str:
    return f'''__attribute__((naked)) int32_t fake_run(void *arena) {{
    __asm__ volatile("{words}");
    (void)arena;
}}'''


# layer n: into a slide of `layers` nops, n + 1 before its end
LAYERED_SLIDE = """#include "fake.h"
__attribute__((naked)) int32_t fake_run_layers(void *arena, int32_t first, int32_t count) {{
    __asm__ volatile("{into}"
                     ".rept {layers}\\n nop\\n .endr\\n 1: {end}");
    (void)arena;
    (void)first;
    (void)count;
}}
int32_t fake_run(void *arena) {{ return fake_run_layers(arena, 0, 1); }}
"""


@pytest.mark.parametrize("board", BOARDS)
def test_counts_every_instruction(make: Make, board: str) -> None:
    words = code(board)
    slide = naked(".rept 7\\n nop\\n .endr\\n " + words.end)
    assert run(make(board, fake_bundle.whole(slide))).instructions == 7 + 2
    layers = 260  # more than two periods of the pattern of ticks per instruction, 125 at most
    source = LAYERED_SLIDE.format(into=words.into, layers=layers, end=words.end)
    result = run(make(board, source, layers=layers), layers=True)
    assert result.layer_instructions == tuple(words.into_count + n + 1 + 2 for n in range(layers))


@pytest.mark.parametrize("board", BOARDS)
def test_counts_long_code_exactly_across_timer_wraps(make: Make, board: str) -> None:
    rounds = 20_000_000  # at least two wraps of 24 bits on every board
    words = code(board)
    source = fake_bundle.whole(naked(words.loop.format(rounds=rounds) + words.end))
    result = run(make(board, source), fake_bundle.samples(2))
    expected = words.loop_count + 2 * rounds + 2
    assert (result.instructions, result.instructions_least) == (expected, expected)


RECURSION = """int32_t deeper(int32_t depth);
__attribute__((noipa)) int32_t deeper(int32_t depth) {{
    volatile int32_t room[8];
    room[0] = depth;
    return (depth == 0) ? 0 : deeper(depth - 1) + room[0] - depth;
}}
int32_t fake_run(void *arena) {{
    (void)arena;
    return deeper({depth});
}}"""


@pytest.mark.parametrize("board", BOARDS)
def test_stack_mark_grows_with_depth(make: Make, board: str) -> None:
    marks = {depth: run(make(board, fake_bundle.whole(RECURSION.format(depth=depth)))).stack for depth in (0, 1, 20)}
    frame = marks[1] - marks[0]
    assert 32 <= frame <= 96
    assert marks[20] - marks[0] == 20 * frame


def test_deepest_stack_by_the_compiler_holds_what_was_seen(make: Make) -> None:
    image = make("mps2-an386")
    seen = run(image).stack
    assert image.stack is not None
    assert seen is not None
    assert seen <= image.stack <= seen + 64
    assert make("mps2-an386", fake_bundle.whole(RECURSION.format(depth=3))).stack is None


@pytest.mark.parametrize("board", BOARDS)
def test_running_out_of_stack_is_reported(make: Make, board: str) -> None:
    with pytest.raises(ToolError) as error:
        run(make(board, fake_bundle.whole(RECURSION.format(depth=1_000_000))))
    assert f"board {board!r} under QEMU" in str(error.value)
    assert any(
        words in str(error.value) for words in ("raised HardFault", "the stack ran out", "Lockup", "raised trap 7")
    )


BAD_READ = "int32_t fake_run(void *arena) { (void)arena; return *(volatile int32_t *)0xE8000000u; }"
UNDEFINED = 'int32_t fake_run(void *arena) {{ (void)arena; __asm__ volatile("{undefined}"); return 0; }}'


SILENT = ("lm3s6965evb", "lm3s6965evb-m0")  # QEMU raises no bus faults on this machine


@pytest.mark.parametrize("board", BOARDS)
@pytest.mark.parametrize("kind", ["bad read", "undefined"])
def test_fault_is_reported(make: Make, board: str, kind: str) -> None:
    if board in SILENT and kind == "bad read":
        pytest.skip("no bus faults on this machine")
    words, riscv = code(board), code(board) is RISCV
    source = BAD_READ if kind == "bad read" else UNDEFINED.format(undefined=words.undefined)
    with pytest.raises(ToolError) as error:
        run(make(board, fake_bundle.whole(source)))
    message = str(error.value)
    number = {"bad read": 5, "undefined": 2}[kind]  # RISC-V Privileged Architecture 1.12, table 3.6
    assert f"raised {f'trap {number}' if riscv else 'HardFault'} at pc=0x" in message
    assert "(fake_run+0x" in message
    cause = words.undefined_cause if kind == "undefined" else "read of no memory" if riscv else "access to no memory"
    v6m = load_board(board).target == "cortex-m0"  # ARMv6-M has no register that states the cause
    assert ("the core gives no cause" if v6m else cause) in message


OVERRUN = "int32_t fake_run(void *arena) {{ ((volatile uint8_t *)arena)[{at}] = 1; return 0; }}"


@pytest.mark.parametrize(("at", "distance"), [(-1, -1), (-64, -64), (24, 1), (87, 64)])
def test_overrun_of_the_arena_is_reported(make: Make, at: int, distance: int) -> None:
    with pytest.raises(ToolError, match=f"arena was overrun; distance of the nearest changed byte: {distance}$"):
        run(make("mps2-an386", fake_bundle.whole(OVERRUN.format(at=at))))


def test_error_of_the_bundle_is_reported(make: Make) -> None:
    source = "int32_t fake_run(void *arena) { (void)arena; return -2; }"
    with pytest.raises(ToolError, match="ended with code 66: the bundle returned -2"):
        run(make("mps2-an386", fake_bundle.whole(source)))


def test_endless_run_is_stopped(make: Make) -> None:
    source = "int32_t fake_run(void *arena) { for (;;) { ((volatile uint8_t *)arena)[0] = 1; } }"
    image = make("mps2-an386", fake_bundle.whole(source))
    with pytest.raises(ToolError, match=r"did 0 of 4 samples in 1 s and was stopped.*firmware hangs"):
        qemu.run(image, read_manifest(image.bundle), fake_bundle.samples(4), timeout=1)


def test_what_a_bundle_leaves_behind_does_not_leak_into_the_next_sample(make: Make) -> None:
    source = """int32_t fake_run(void *arena) {
        uint8_t *const bytes = arena;
        for (int32_t i = 0; i < 8; ++i) {
            bytes[16 + i] = bytes[8 + i];
        }
        return 0;
    }"""
    rows = run(make("mps2-an386", fake_bundle.whole(source))).outputs[0]
    assert len({row.tobytes() for row in rows}) == len(rows)


def test_many_samples_with_progress(make: Make) -> None:
    samples = fake_bundle.samples(3000)
    steps: list[tuple[int, int]] = []
    result = run(make("mps2-an386"), samples, progress=lambda done, total: steps.append((done, total)))
    assert np.array_equal(result.outputs[0], fake_bundle.reference(samples)[1])
    assert steps[-1] == (3000, 3000)
    assert steps == sorted(steps)


@pytest.mark.parametrize("shape", [(0, 8), (4, 7), (8,)])
def test_samples_of_the_wrong_shape(make: Make, shape: tuple[int, ...]) -> None:
    with pytest.raises(UsageError, match=r"expected uint8 of shape \(n, 8\)"):
        run(make("mps2-an386"), np.zeros(shape, dtype=np.uint8))


def test_firmware_of_another_bundle_is_refused(make: Make) -> None:
    image = make("mps2-an386")
    other = dict(read_manifest(image.bundle)) | {"hash": "ff" * 32}
    with pytest.raises(ToolError, match="not that of this bundle"):
        qemu.run(image, other, fake_bundle.samples(1))


def test_missing_qemu(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    image = make("mps2-an386")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ToolError, match="apt-get install qemu-system-arm") as error:
        run(image)
    assert error.value.package == "qemu-system-arm"


@pytest.mark.parametrize("target", [name for name in target_names() if load_target(name).runs_on])
def test_a_target_without_a_board_of_its_own_runs_on_another(target: str, root: Path, tmp_path: Path) -> None:
    """Whole firmware by the target's own flags, on the nearest core that is emulated."""
    example, board = root / "examples" / "digits", default_board(target)
    bundle = compile_model(example / "model.onnx", tmp_path / "bundle", CompileOptions(target), example / "data.npz")
    result = validate(bundle, example / "data.npz", board.name, samples=3)
    assert board.target == load_target(target).runs_on
    assert result.bit_exact
    assert result.json["target"] == target
