"""A main() of a test on an emulated board, without the harness: linked as a user would, its exit code and words back."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from glowembed import resources
from glowembed.graph.target import Board, load_board, load_target
from glowembed.image import glue
from glowembed.run.qemu import machine


def build(main: str, sources: Sequence[Path], folder: Path, board: Board, flags: Sequence[str] = ()) -> Path:
    """main.elf of this main.c, these sources, and the board's own files; flags: also another -mfloat-abi."""
    assert board.linker_script is not None
    harness, common = resources.runtime_c() / "harness", resources.boards() / "common"
    (folder / "main.c").write_text(main)
    (folder / "ge_board.h").write_text(glue.board_h(board))
    (folder / "memory.ld").write_text(glue.memory_ld(board))
    target = load_target(board.target)
    own = {source.parent for source in sources}
    paths = [f"-I{path}" for path in (folder, harness, harness / target.architecture, common, *own)]
    helpers = [harness / f"{stem}.c" for stem in ("semihost", "line", "fault_files")]
    link = ["-T", str(board.linker_script), "-L", str(folder), "-L", str(common)]
    abi = ("-mfloat-abi", "-mfpu") if any(flag.startswith("-mfloat-abi") for flag in flags) else ()
    own_flags = [flag for flag in target.cflags if not flag.startswith(abi)]
    link = [*(flag for flag in target.ldflags if not flag.startswith(abi)), *link]
    command = [
        target.compiler,
        *own_flags,
        *paths,
        "main.c",
        *map(str, [*sources, *helpers, *board.sources]),
    ]
    done = subprocess.run(
        [*command, *flags, *link, "-o", "main.elf"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder / "main.elf"


def run(elf: Path, board: str) -> tuple[int, str]:
    """The exit code, and the output by semihosting."""
    words = ["-semihosting-config", "enable=on,target=native", "-serial", "null"]
    command = [*machine(load_board(board), elf), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
    return done.returncode, done.stdout + done.stderr
