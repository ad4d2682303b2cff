"""Runs the C of several bundles: in this process, or in one firmware on an emulated board. For onnx_backend.py.

In: bundles of one target, and calls: the number of a bundle and the content of its arena. Out: for each call what NAME_run
returned and the arena afterwards; None for calls that were not reached because an earlier one crashed or hung.
"""

from __future__ import annotations

import contextlib
import ctypes
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glowembed import resources
from glowembed.graph.target import Board, load_board, load_target
from glowembed.image import glue
from glowembed.pipeline import Bundle
from glowembed.run import qemu

Arena = NDArray[np.uint8]
Call = tuple[int, Arena]
Answer = tuple[int, Arena]

HOST = "host"
SECONDS = 300
"""The most for one firmware."""

FIRMWARE = Path(__file__).parent / "backend_firmware.c"


def target_of(board: str) -> str:
    """The target to compile for."""
    return "x86-64" if board == HOST else load_board(board).target


def execute(board: str, bundles: Sequence[Bundle], calls: Sequence[Call], folder: Path) -> list[Answer | None]:
    """Build the bundles into one program and make the calls. Raises CalledProcessError if the compiler fails."""
    if board == HOST:
        return _on_host(bundles, calls, folder)
    return _emulated(load_board(board), bundles, calls, folder)


def _sources(bundles: Sequence[Bundle]) -> list[str]:
    return [
        *(f"-I{b.path}" for b in bundles),
        *(str(b.path / source) for b in bundles for source in b.manifest["sources"]),
    ]


def _flags(target: str) -> list[str]:
    unwanted = ("-O", "-fcallgraph-info")
    return [*(flag for flag in load_target(target).cflags if not flag.startswith(unwanted)), "-O1"]


def _on_host(bundles: Sequence[Bundle], calls: Sequence[Call], folder: Path) -> list[Answer | None]:
    path = folder / "bundles.so"
    words = ["cc", *_flags("x86-64"), "-shared", "-fvisibility=default", *_sources(bundles), "-o", str(path)]
    subprocess.run(words, check=True, capture_output=True, text=True)
    library = ctypes.CDLL(str(path))
    return [_called(library, bundles[number], arena) for number, arena in calls]


def _called(library: Any, bundle: Bundle, arena: Arena) -> Answer:
    align = bundle.manifest["arena"]["align"]
    memory = np.empty(len(arena) + align, np.uint8)
    start = -memory.ctypes.data % align
    own = memory[start : start + len(arena)]
    own[:] = arena
    run = getattr(library, f"{bundle.manifest['name']}_run")
    run.argtypes, run.restype = [ctypes.c_void_p], ctypes.c_int32
    return int(run(own.ctypes.data)), own


def _emulated(board: Board, bundles: Sequence[Bundle], calls: Sequence[Call], folder: Path) -> list[Answer | None]:
    elf = _firmware(board, bundles, folder)
    parts = [np.concatenate([np.array([number], np.uint32).view(np.uint8), arena]) for number, arena in calls]
    end = np.array([len(bundles)], np.uint32).view(np.uint8)
    (folder / "calls").write_bytes(b"".join(part.tobytes() for part in (*parts, end)))
    (folder / "results").write_bytes(b"")
    words = [*qemu.machine(board, elf), "-serial", "null", "-semihosting-config", "enable=on,target=native"]
    # A firmware that faults or hangs has written the results of the calls before that.
    with contextlib.suppress(subprocess.TimeoutExpired):
        subprocess.run(words, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS, check=False)
    return list(_answers((folder / "results").read_bytes(), calls))


def _answers(written: bytes, calls: Sequence[Call]) -> Iterator[Answer | None]:
    start = 0
    for _, arena in calls:
        end = start + 4 + len(arena)
        if end > len(written):
            yield None
            continue
        found = np.frombuffer(written[start:end], np.uint8)
        yield int(found[:4].view(np.int32)[0]), found[4:].copy()
        start = end


def _firmware(board: Board, bundles: Sequence[Bundle], folder: Path) -> Path:
    """The ELF file of a firmware with all bundles."""
    (folder / "bundles.h").write_text(_table(bundles), encoding="utf-8")
    (folder / "ge_board.h").write_text(glue.board_h(board), encoding="utf-8")
    (folder / "memory.ld").write_text(glue.memory_ld(board), encoding="utf-8")
    target, harness = load_target(board.target), resources.runtime_c() / "harness"
    common = resources.boards() / "common"
    folders = (folder, harness, harness / target.architecture, resources.runtime_c(), common)
    harness_flags = [*_flags(board.target), "-Os", *(f"-I{path}" for path in (*folders, *(b.path for b in bundles)))]
    own = [FIRMWARE, harness / "semihost.c", *board.sources]
    _compile([target.compiler, *harness_flags, "-c", *map(str, own)], folder)
    flags, elf = _flags(board.target), folder / "firmware.elf"
    words = [target.compiler, *flags, *(f"-I{path}" for path in folders), *_sources(bundles)]
    words += [f"{Path(path).stem}.o" for path in own]
    words += [flag for flag in target.ldflags if flag not in flags]
    words += ["-T", str(board.linker_script), "-L", str(folder), "-L", str(common), "-o", str(elf)]
    _compile(words, folder)
    return elf


def _compile(words: Sequence[str], folder: Path) -> None:
    subprocess.run(words, cwd=folder, check=True, capture_output=True, text=True)


def _table(bundles: Sequence[Bundle]) -> str:
    """bundles.h: the bundles by number."""
    names = [b.manifest["name"] for b in bundles]
    sizes = [b.manifest["arena"]["size"] for b in bundles]
    return "\n".join(
        [
            *(f'#include "{name}.h"' for name in names),
            f"#define GE_BUNDLES {len(names)}u",
            f"#define GE_ARENA_BYTES {max(sizes)}u",
            "typedef struct {",
            "    int32_t (*run)(void *arena);",
            "    uint32_t arena_bytes;",
            "} bundle;",
            f"static const bundle bundles[{len(names)}] = {{",
            *(f"    {{{name}_run, {size}u}}," for name, size in zip(names, sizes, strict=True)),
            "};",
            "",
        ]
    )
