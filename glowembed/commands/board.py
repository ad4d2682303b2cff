"""`glowembed board`: adds a board of your own."""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path
from typing import Annotated, Any

import typer

from glowembed import resources
from glowembed.cli import JsonFile, refuse_options, tell
from glowembed.errors import GlowembedError, UsageError, unknown_name
from glowembed.files import documents
from glowembed.files.output import write_folder
from glowembed.graph.target import COMMON, UART_KINDS, Board, Target, load_target, read_board

TICKS = ("dwt", "systick", "timer_nrf")
QUESTIONS = """# The questions for `glowembed board new NAME --answers FILE`. Addresses are in the chip's reference manual.
description = "My board, chip: core at so many MHz, flash, RAM"
target = "cortex-m4"            # glowembed targets
clock_hz = 16_000_000           # of the core when main() runs
stack_size = 0x1000
ticks = "dwt"                   # dwt: from Cortex-M3 on; systick: any core that has one, and QEMU; timer_nrf: nRF51
flash_start = 0x08000000
flash_size = 0x80000
ram_start = 0x20000000
ram_size = 0x20000
uart = "stm32_dr"               # cmsdk | nrf51 | pl011 | stm32_dr (F1, F2, F4) | stm32_tdr (L4, H7, U5 ...)
uart_base = 0x40011000
uart_clock_hz = 16_000_000      # of the UART's bus
baud = 115200
# {elf}, {bin}, {hex} or {uf2} stands for the firmware; leave it empty where there is no tool
flash_command = ["openocd", "-f", "board/mine.cfg", "-c", "program {elf} verify reset exit"]
flash_install = "install it: apt-get install openocd"
"""
PINNED = ("stm32_dr", "stm32_tdr")


PLACE = 140


def add_to(app: typer.Typer) -> None:
    group = typer.Typer(help="Add a board of your own.", no_args_is_help=True)
    group.callback()(_group)
    group.command(epilog="Example:  glowembed board new my-board --answers my-board.toml")(new)
    app.add_typer(group, name="board")


def _group() -> None:
    """Add boards of your own: docs/adding-a-board.md."""


def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the folder in boards/: a-z, 0-9, -.")],
    answers: Annotated[
        Path | None,
        typer.Option("--answers", metavar="TOML", help="File with the answers; without it, the questions are printed."),
    ] = None,
    into: Annotated[
        Path | None,
        typer.Option(
            "--into",
            metavar="DIR",
            help="Parent folder; by default boards/ of glowembed. A board elsewhere is used as --board DIR/NAME.",
        ),
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Make the folder of a board: board.toml, link.ld, startup.c, uart.c. You only have to add clock and pins."""
    if answers is None:
        refuse_options({"--json": json_file}, "for the board that is made: give --answers too")
        typer.echo(QUESTIONS, nl=False)
        return
    board = make(name, _read(answers), into or resources.boards())
    result = {
        "schema": 1,
        "name": board.name,
        "target": board.target,
        "folder": str(board.folder),
        "reference": board.reference,
    }
    tell(
        json_file,
        result,
        lambda: (
            f"{board.folder}: now fill in ge_clock_init and ge_uart_pins, then: glowembed build BUNDLE --board {board.reference}"
        ),
    )


def _read(path: Path) -> dict[str, Any]:
    found = documents.read_toml(path)
    questions = tomllib.loads(QUESTIONS)
    for key in found:
        if key not in questions:
            raise unknown_name("answer", key, questions)
    missing = [key for key in questions if key not in found]
    if missing:
        raise UsageError(f"{path} lacks {', '.join(missing)}; 'glowembed board new NAME' prints all questions")
    for key, example in questions.items():
        if type(found[key]) is not type(example):
            raise UsageError(f"{path}: {key} is {found[key]!r}; expected something like {example!r}")
    return found


def make(name: str, answers: dict[str, Any], place: Path) -> Board:
    """Write the folder, and read it back in the same way as every command does."""
    if not name or not all(c in "abcdefghijklmnopqrstuvwxyz0123456789-" for c in name):
        raise UsageError(f"board name {name!r}: use a-z, 0-9 and -")
    folder = place / name
    if folder.exists():
        raise UsageError(f"{folder} exists already: choose another name, or remove it")
    target = _target(answers, folder)
    if answers["uart"] not in UART_KINDS:
        raise unknown_name("uart", answers["uart"], UART_KINDS)
    if answers["ticks"] not in TICKS:
        raise unknown_name("ticks", answers["ticks"], TICKS)
    write_folder(folder, {file: text.encode("utf-8") for file, text in files(name, answers, target).items()})
    try:
        return read_board(folder / "board.toml")
    except GlowembedError:
        shutil.rmtree(folder)
        raise


def _target(answers: dict[str, Any], folder: Path) -> Target:
    """A target, given by its name or by the path of its file relative to the folder of the board."""
    name = answers["target"]
    return load_target(str((folder / name).resolve()) if name.endswith(".toml") else name)


def files(name: str, answers: dict[str, Any], target: Target) -> dict[str, str]:
    """The four files of a board."""
    what = answers["description"]
    return {
        "board.toml": _board_toml(name, answers),
        "link.ld": f"/* {what}. memory.ld is made from board.toml. */\nINCLUDE memory.ld\n"
        + "".join(
            f'REGION_ALIAS("{alias}", {memory});\n'
            for alias, memory in (("CODE", "flash"), ("WEIGHTS", "flash"), ("DATA", "ram"), ("ARENA", "ram"))
        )
        + "INCLUDE sections.ld\n",
        "startup.c": _startup(answers, target),
        "uart.c": _uart(answers),
    }


def _board_toml(name: str, a: dict[str, Any]) -> str:
    def text(value: str) -> str:
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'

    lines = [
        f"name = {text(name)}", f"description = {text(a['description'])}", f"target = {text(a['target'])}",
        f"clock_hz = {a['clock_hz']}", f"stack_size = 0x{a['stack_size']:X}",
        f'sources = ["startup.c", "uart.c", {text(COMMON + a["ticks"] + ".c")}]', 'linker_script = "link.ld"',
        "", "[uart]", f"kind = {text(a['uart'])}", f"base = 0x{a['uart_base']:08X}",
        f"clock_hz = {a['uart_clock_hz']}", f"baud = {a['baud']}",
    ]  # fmt: skip
    if a["flash_command"]:
        words = ", ".join(map(text, a["flash_command"]))
        lines += ["", "[flash]", f"command = [{words}]", f"install = {text(a['flash_install'])}"]
    for memory, kind in (("flash", "flash"), ("ram", "ram")):
        start, size = a[f"{memory}_start"], a[f"{memory}_size"]
        lines += [
            "",
            "[[memories]]",
            f'name = "{memory}"',
            f"start = 0x{start:08X}",
            f"size = 0x{size:X}",
            f'kind = "{kind}"',
        ]
    return "\n".join(lines) + "\n"


def _common(file: str) -> str:
    """The path of a file that all boards share; the compiler looks for headers there."""
    return file


def _startup(a: dict[str, Any], target: Target) -> str:
    fault = "fault_v6m.h" if "armv6m" in target.isa else "fault_v7m.h"
    reset = "reset_fpu.h" if target.has_fpu else "reset.h"
    includes = "\n\n".join(f'#include "{_common(file)}"' for file in ("startup.h", reset, fault))
    return (
        f'/* {a["description"]}: boot and clock. */\n{includes}\n\n#include "{_common("reg.h")}"\n\n'
        f"/* Brings the core to {a['clock_hz']} Hz: cite the manual's section with every write. Wait with ge_wait_for. */\n"
        "void ge_clock_init(void) {\n}\n"
    )


def _uart(a: dict[str, Any]) -> str:
    pins = "\n/* Switches on the clocks of the UART and of its port, and gives it its pins. */\nstatic void ge_uart_pins(void) {\n}\n"
    driver = _common(f"uart_{a['uart']}.h")
    head = f'/* {a["description"]}: UART. */\n#include "{driver}"\n'
    return head + (pins if a["uart"] in PINNED else "")
