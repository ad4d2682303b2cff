"""What ties a bundle to a board. In: bundle.json, a Board. Out: texts of ge_bundle.c, ge_board.h, memory.ld.

The harness is the same for all bundles and boards; these three files are all that it learns about either.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from glowembed.errors import UsageError
from glowembed.target import Board

Manifest = Mapping[str, Any]
GUARD_BYTES = 64
KEYS = ("schema", "name", "target", "hash", "arena", "inputs", "outputs", "layers", "sources")
IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
PLAIN_FILE = re.compile(r"([A-Za-z0-9_][A-Za-z0-9_.-]*/)*[A-Za-z0-9_][A-Za-z0-9_.-]*")
HEXADECIMAL = re.compile(r"[0-9a-f]+")


def read_manifest(bundle: Path) -> Manifest:
    """The bundle.json of a bundle, checked as far as text is made from it."""
    path = bundle / "bundle.json"
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        problem = f"{bundle} is not a bundle: it has no bundle.json; make one with 'glowembed compile'"
        raise UsageError(problem) from error
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from error
    _check(path, manifest)
    checked: Manifest = manifest
    return checked


def _check(path: Path, manifest: Any) -> None:
    if not isinstance(manifest, dict):
        raise UsageError(f"{path} is not that of a bundle: expected an object")
    missing = [key for key in KEYS if key not in manifest]
    if missing:
        raise UsageError(f"{path} lacks {', '.join(missing)}; compile the model again")
    if not IDENTIFIER.fullmatch(str(manifest["name"])) or not HEXADECIMAL.fullmatch(str(manifest["hash"])):
        raise UsageError(f"{path}: name or hash are not what glowembed writes; compile the model again")
    for name in manifest["sources"]:
        if not PLAIN_FILE.fullmatch(name) or not (path.parent / name).is_file():
            raise UsageError(f"{path} names the source {name!r}, which is not a file of the bundle")


def c_sources(manifest: Manifest) -> list[str]:
    """The names of the C files to compile, in the order of the manifest."""
    return [name for name in manifest["sources"] if name.endswith(".c")]


def bundle_c(manifest: Manifest) -> str:
    """ge_bundle.c: the ge_bundle that the harness runs, and its arena between guards."""
    name, arena = manifest["name"], manifest["arena"]
    size, guard = int(arena["size"]), max(GUARD_BYTES, int(arena["align"]))
    padded = -(-size // 4) * 4
    outputs = [output for layer in manifest["layers"] for output in layer["outputs"]]
    firsts = _running_sums(len(layer["outputs"]) for layer in manifest["layers"])
    return f"""/* Made from bundle.json of {name}. */
#include "harness.h"

#include "{name}.h"

static uint8_t arena[{guard} + {padded} + {GUARD_BYTES}]
    __attribute__((aligned({guard}), section(".bss.ge_arena")));
{_spans("inputs", manifest["inputs"])}
{_spans("outputs", manifest["outputs"])}
{_spans("layer_outputs", outputs)}
static const uint32_t layer_output_first[{len(firsts)}] = {{{_list(firsts)}}};

const ge_bundle ge_the_bundle = {{
    "{name}", "{manifest["hash"]}", {name}_run, {name}_run_layers,
    arena + {guard}, {size}u,
    {len(manifest["inputs"])}u, {len(manifest["outputs"])}u, {len(manifest["layers"])}u,
    inputs, outputs, layer_outputs, layer_output_first,
}};
"""


def _spans(name: str, tensors: Sequence[Mapping[str, Any]]) -> str:
    rows = [f"{{{int(tensor['offset'])}u, {int(tensor['bytes'])}u}}" for tensor in tensors] or ["{0u, 0u}"]
    return f"static const ge_span {name}[{len(rows)}] = {{{', '.join(rows)}}};"


def _list(numbers: Iterable[int]) -> str:
    return ", ".join(f"{number}u" for number in numbers)


def _running_sums(counts: Iterable[int]) -> list[int]:
    sums = [0]
    for count in counts:
        sums.append(sums[-1] + count)
    return sums


def board_h(board: Board) -> str:
    """ge_board.h: the numbers of board.toml for C."""
    if board.uart is None:
        raise UsageError(f"board {board.name!r} has no [uart] in its board.toml, which firmware needs")
    total = {kind: sum(m.size for m in board.memories if m.kind == kind) for kind in ("flash", "ram")}
    return f"""/* Made from board.toml of {board.name}. */
#ifndef GE_BOARD_H
#define GE_BOARD_H
#define GE_BOARD "{board.name}"
#define GE_TARGET "{board.target}"
#define GE_CLOCK_HZ {board.clock_hz}u
#define GE_FLASH_BYTES {total["flash"]}u
#define GE_RAM_BYTES {total["ram"]}u
#define GE_UART_BASE 0x{board.uart.base:08X}u
#define GE_UART_CLOCK_HZ {board.uart.clock_hz}u
#define GE_UART_BAUD {board.uart.baud}u
#endif
"""


def memory_ld(board: Board) -> str:
    """memory.ld: the memories of board.toml for the linker."""
    rows = [
        f"    {memory.name} ({'rx' if memory.kind == 'flash' else 'rw'}) : "
        f"ORIGIN = 0x{memory.start:08X}, LENGTH = 0x{memory.size:X}"
        for memory in board.memories
    ]
    lines = ["MEMORY", "{", *rows, "}", f"ge_stack_size = 0x{board.stack_size:X};", ""]
    return f"/* Made from board.toml of {board.name}. */\n" + "\n".join(lines)
