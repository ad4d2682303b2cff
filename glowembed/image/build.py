"""Builds a program from a bundle. In: the folder of a bundle, a Board. Out: an Image: an ELF file with its sizes.

SCons does the work; this module calls it, reads the result and turns failures into messages.
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from glowembed import resources
from glowembed.errors import DoesNotFit, ToolError, UsageError
from glowembed.graph.target import Board, Memory, runs, target_of
from glowembed.image import elf, glue
from glowembed.image.elf import Depth
from glowembed.records import dataclass

OVERFLOW = re.compile(r"region [`']([^']+)' overflowed by (\d+) bytes?")
OUTPUT_LINES = 30


@dataclass(frozen=True)
class Image:
    """A program for a board. Sizes are in bytes and for the bundle only, without harness, boot code and C library."""

    elf: Path
    board: Board
    bundle: Path
    code: int
    rodata: int
    """constants that are not weights"""
    data: int
    bss: int
    """zeroed variables of the bundle, without the arena, which belongs to the caller"""
    weights: int
    deepest: Depth | None
    """the deepest stack of a run, computed from the compiler's figures; None if it gives none"""
    symbols: tuple[str, ...]
    """symbols that the bundle needs from elsewhere; an int8 bundle must need no libm and no float support"""
    transport: str
    """the protocol that the firmware speaks: one of target.FIRMWARES"""
    toolchain: str | None
    """the compiler and its version, in its own words; None if it does not say"""
    used: tuple[tuple[Memory, int], ...]
    """for each memory of the board, the bytes that the whole firmware takes"""

    @property
    def stack(self) -> int | None:
        """The most bytes of stack that a run takes, or None if unknown."""
        return None if self.deepest is None else self.deepest.bytes


def build(bundle: Path, board: Board, build_dir: Path, transport: str | None = None) -> Image:
    """Compile and link the bundle for the board; a second call rebuilds only what has changed.

    transport: by default the first one of the board. For the host, `serial` makes a program that talks on its standard
    input and output; any other makes a shared library.
    """
    transport = transport or default_transport(board)
    glue.check_path(bundle.resolve())
    glue.check_path(build_dir.resolve())
    manifest = glue.read_manifest(bundle)
    target = target_of(manifest, board)
    if not runs(board, target):
        raise UsageError(
            f"the bundle {bundle} is for target {target.name!r}, but board {board.name!r} "
            f"is {board.target!r}; compile with --target {board.target}, or choose another board"
        )
    _need(target.compiler, target.package)
    build_dir.mkdir(parents=True, exist_ok=True)
    with _alone(build_dir):
        finished = _scons(bundle.resolve(), board, build_dir.resolve(), transport)
        if finished.returncode != 0:
            raise _failure(board, finished.stderr or finished.stdout)
        return _image(manifest, bundle, board, build_dir, transport)


@contextmanager
def _alone(build_dir: Path) -> Iterator[None]:
    """A context in which only one build runs in a folder. A second build waits, and then finds everything up to
    date.
    """
    with (build_dir / "lock").open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.stderr.write(f"waiting for another build in {build_dir}\n")
            sys.stderr.flush()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def default_transport(board: Board) -> str:
    """The transport of a board if the user names none."""
    return "semihosting" if board.name == "host" else board.transports[0]


def _need(tool: str, package: str) -> None:
    if shutil.which(tool) is None:
        raise ToolError(f"{tool} is not there; install it: apt-get install {package}", package)
    if importlib.util.find_spec("SCons") is None:
        raise ToolError("SCons is not there; install it: pip install scons", "scons")


def _scons(bundle: Path, board: Board, build_dir: Path, transport: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "SCons", "-Q", "-f", str(resources.sconstruct()), "-C", str(build_dir)]
    command += [f"bundle={bundle}", f"board={board.reference}", f"build={build_dir}", f"transport={transport}"]
    package = str(resources.PACKAGE.parent)
    path = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))
    env = {**os.environ, "PYTHONPATH": path, "LC_ALL": "C"}
    return _run(command, env)


def _run(command: list[str], env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Like subprocess.run, but if this process is stopped, the compilers that SCons has started are ended, too."""
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
        env=env, start_new_session=True,
    ) as process:  # fmt: skip
        try:
            said = process.communicate()
        except BaseException:
            with suppress(ProcessLookupError):  # it has just ended
                os.killpg(process.pid, signal.SIGTERM)
            raise
    return subprocess.CompletedProcess(command, process.returncode, *said)


def _failure(board: Board, output: str) -> Exception:
    overflows = {name: int(count) for name, count in OVERFLOW.findall(output)}
    if overflows:
        return _does_not_fit(board, overflows)
    tail = "\n".join(output.strip().splitlines()[-OUTPUT_LINES:])
    return ToolError(f"the build for board {board.name!r} failed:\n{tail}")


def _does_not_fit(board: Board, overflows: dict[str, int]) -> DoesNotFit:
    parts = [
        f"{_kind(memory)} {memory.name!r} ({memory.size:,} bytes at 0x{memory.start:08x}) is too small "
        f"by {overflows[memory.name]:,} bytes"
        for memory in board.memories
        if memory.name in overflows
    ]
    return DoesNotFit(
        f"the program does not fit board {board.name!r}: {'; '.join(parts)}. "
        "Choose a board with more memory (--board), or a smaller model.",
        overflows,
    )


def _kind(memory: Memory) -> str:
    return "flash" if memory.kind == "flash" else "RAM"


def _image(manifest: glue.Manifest, bundle: Path, board: Board, build_dir: Path, transport: str) -> Image:
    names = [*glue.c_sources(manifest), *(["ge_file_weights.c"] if glue.has_weights_file(manifest) else [])]
    objects = [build_dir / "obj" / "bundle" / f"{Path(name).stem}.o" for name in names]
    weights = [path for path in objects if path.stem.endswith("_weights")]
    others = [path for path in objects if path not in weights]
    here = "harness" if transport == "serial" else "bundle.so"
    program = build_dir / (here if board.name == "host" else "firmware.elf")
    total = sum((elf.sizes(path) for path in others), elf.Sizes())
    entries = [manifest["name"] + suffix for suffix in ("_run", "_run_layers")]
    return Image(
        elf=program,
        board=board,
        bundle=bundle,
        code=total.code,
        rodata=total.rodata,
        data=total.data,
        bss=total.bss,
        weights=sum(elf.sizes(path).rodata + elf.sizes(path).data for path in weights),
        deepest=elf.stack_depth(others, entries, _asks_for_rows(manifest)),
        symbols=elf.undefined_symbols(objects),
        transport=transport,
        toolchain=elf.toolchain(objects[0]),
        used=_used(program, board),
    )


def _asks_for_rows(manifest: glue.Manifest) -> bool:
    return any(tensor.get("handed") == "rows" for tensor in manifest["inputs"])


def _used(program: Path, board: Board) -> tuple[tuple[Memory, int], ...]:
    ranges = elf.loaded_ranges(program) if board.memories else []
    return tuple(
        (memory, sum(size for start, size in ranges if memory.start <= start < memory.start + memory.size))
        for memory in board.memories
    )
