"""Runs one kernel on an emulated core, as run/kernel.py does on the host, for instructions that the host does not have.

In: a KernelOp, one of its Kernels, a Board. Out: a HostKernel whose calls go to a firmware that waits for them; it is
built once per process and stays in QEMU until the process ends or RUNNING_MAX others have started since. Requests and
answers go through two named pipes by semihosting; both contain a whole image of memory
(runtime_c/harness/kernel_pipe.c), so every changed byte is seen.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import select
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glowembed import resources
from glowembed.errors import ToolError
from glowembed.graph.op import Kernel, KernelOp
from glowembed.graph.registry import isas
from glowembed.graph.target import Board, load_board, load_target
from glowembed.image import glue
from glowembed.records import dataclass
from glowembed.run import objects
from glowembed.run import qemu as emulation
from glowembed.run.kernel import GUARD, HostKernel, Invocation, structs, wrapper

NO_SLOTS = 0xFFFFFFFF
TENSORS_MAX, CONSTANTS_MAX = 8, 10
FIELDS = 6
HEADER_BYTES = 4 * (FIELDS + 3 * TENSORS_MAX + CONSTANTS_MAX)
LINE, WORD = 16, 4
"""The alignment of the memory that a kernel gets: to a word and no more, as in a bundle."""

QUICK = ("-Og",)
"""The level of a firmware whose params come at run time, which no bundle has: it takes a compiler 40 % of the time of -O2."""

SECONDS = 60
RUNNING_MAX = 64
"""The most firmwares in QEMU at one time; each has a process and two of our file descriptors."""

MIB = 1 << 20


def boards() -> Mapping[str, tuple[str, ...]]:
    """ISA word -> emulated boards whose core has it, the usual one first."""
    return {word: isa.boards for word, isa in isas().items() if isa.boards}


@cache
def available(board: str) -> bool:
    """Whether firmware for this board can be built and run here."""
    target = load_target(load_board(board).target)
    return all(shutil.which(tool) for tool in (target.compiler, emulation.emulator(target).command[0]))


def load(op: KernelOp[Any], kernels: Sequence[Kernel], params: Any, board: Board) -> list[HostKernel]:
    """Load kernels of one ISA word from few firmwares: all kernels whose text does not depend on params are in one.

    They are built once per process. Raises ToolError if the compiler reports an error.
    """
    own = [kernel for kernel in kernels if _of_params(kernel)]
    words = {kernel.isa for kernel in kernels if not _of_params(kernel)}
    same = [kernel for kernel in op.kernels if not _of_params(kernel) and kernel.isa in words]
    found = {k.kernel.symbol: k for group in (own, same) for k in _loaded(op, group, params, board, known=False)}
    return [found[kernel.symbol] for kernel in kernels]


def _of_params(kernel: Kernel) -> bool:
    """Whether the text of a kernel depends on params."""
    return kernel.instance is not None or kernel.named is not None


def load_known(op: KernelOp[Any], kernels: Sequence[Kernel], params: Any, board: Board) -> list[HostKernel]:
    """Load several kernels in one firmware, each called as in a bundle, with params that the compiler knows."""
    return _loaded(op, kernels, params, board, known=True)


def _loaded(op: KernelOp[Any], kernels: Sequence[Kernel], params: Any, board: Board, known: bool) -> list[HostKernel]:
    if not kernels:
        return []
    symbols = ", ".join(kernel.symbol for kernel in kernels)
    source, header = wrapper(op, kernels, params, known=known), structs(op, kernels, params)
    session = _session(source, header, symbols, board, () if known else QUICK)
    where = f"on {board.name}{' with known params' if known else ''}"
    return [HostKernel(op, k, partial(session.execute, number), where) for number, k in enumerate(kernels)]


def close() -> None:
    """End all firmwares; kernels that are loaded later are built again."""
    for session in _STARTED:
        session.end()
    _STARTED.clear()
    _session.cache_clear()


_STARTED: list[_Session] = []
"""Sessions of this process whose firmware is built."""

_RUNNING: list[_Session] = []
"""The sessions with a running QEMU, the oldest first."""


@cache
def _session(source: str, params: str, symbol: str, board: Board, flags: tuple[str, ...]) -> _Session:
    folder = Path(tempfile.mkdtemp(prefix="glowembed-kernel-"))
    (folder / "kernel.c").write_text(source, encoding="utf-8")
    (folder / "ge_params.h").write_text(params, encoding="utf-8")
    session = _Session(folder, _build(folder, symbol, board, flags), board, symbol)
    _STARTED.append(session)
    atexit.register(session.end)
    return session


def _build(folder: Path, symbol: str, board: Board, flags: tuple[str, ...]) -> Path:
    """Build kernel.elf from kernel.c and ge_params.h in `folder`, with these flags after those of bundles."""

    def make(place: Path) -> Path:
        rest = _rest(board)
        assert board.linker_script is not None
        link: list[str | Path] = ["-T", board.linker_script, "-L", rest, "-L", resources.boards() / "common"]
        headers = (folder, *resources.kernel_folders(*load_target(board.target).isa))
        words: list[str | Path] = [*flags, *(f"-I{path}" for path in headers), "kernel.c"]
        words += sorted(rest.glob("*.o"))
        core = load_target(board.target)  # some flags may be given once only, and _compile gives those of the compiler
        words += [*(flag for flag in core.ldflags if flag not in core.cflags), *link, "-o", place / "kernel.elf"]
        _compile(folder, board, words, symbol)
        return place / "kernel.elf"

    target = load_target(board.target)
    trees = objects.tree(resources.runtime_c(), resources.boards() / "common", board.folder)
    texts = [(folder / name).read_text("utf-8") for name in ("kernel.c", "ge_params.h")]
    own = (glue.board_h(board), glue.memory_ld(board), str(_image_bytes(board)))
    made_from = (objects.version(target.compiler), *target.cflags, *flags, *target.ldflags, trees, *own, *texts)
    return objects.built(made_from, ".elf", make)


def _image_bytes(board: Board) -> int:
    """The most bytes of a request and its answer."""
    return min(4 * MIB, max(m.size for m in board.memories if m.kind != "flash") * 3 // 4) // LINE * LINE


@cache
def _rest(board: Board) -> Path:
    """A folder with the objects of everything except the kernel; it exists as long as the process."""
    folder, harness = Path(tempfile.mkdtemp(prefix="glowembed-board-")), resources.runtime_c() / "harness"
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    (folder / "ge_board.h").write_text(glue.board_h(board), encoding="utf-8")
    (folder / "memory.ld").write_text(glue.memory_ld(board), encoding="utf-8")
    paths = (
        folder,
        harness,
        harness / load_target(board.target).architecture,
        resources.runtime_c(),
        resources.boards() / "common",
    )
    words = [f"-DGE_IMAGE_BYTES={_image_bytes(board)}u", *(f"-I{path}" for path in paths), "-c"]
    _compile(folder, board, [*words, harness / "kernel_pipe.c", harness / "semihost.c", *board.sources], "the harness")
    return folder


def _compile(folder: Path, board: Board, words: Sequence[str | Path], what: str) -> None:
    target = load_target(board.target)
    flags = [flag for flag in target.cflags if not flag.startswith("-fcallgraph-info")]
    command = [target.compiler, *flags, *(str(word) for word in words)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ToolError(f"the compiler refused {what} for {board.name}:\n{done.stderr}")


@dataclass
class _Session:
    """A firmware in QEMU that answers requests; the first request starts it."""

    folder: Path
    elf: Path
    board: Board
    symbol: str
    process: subprocess.Popen[bytes] | None = None
    pipes: list[int] = field(default_factory=list)
    ticks: int = 0

    def execute(self, number: int, invocation: Invocation) -> None:
        """Send the memory, wait for kernel `number`, and copy its results back into the memory."""
        image, parts = _image(number, invocation)
        answer = self._exchange(image)
        self.ticks = int.from_bytes(answer[:4], "little")
        for offset, memory in parts:
            memory.reshape(-1).view(np.uint8)[:] = np.frombuffer(answer, np.uint8, memory.nbytes, 4 + offset)

    def _exchange(self, image: bytes) -> bytes:
        if self.process is None:
            self._start()
        request, answer = self.pipes
        poll, sent, received = select.poll(), 0, bytearray()
        poll.register(answer, select.POLLIN)
        poll.register(request, select.POLLOUT)
        while len(received) < len(image) + 4:
            events = self._wait(poll)
            if request in events and sent < len(image):
                sent += os.write(request, image[sent : sent + 65536])
                if sent == len(image):
                    poll.unregister(request)
            if events.get(answer, 0) & select.POLLIN:
                received += os.read(answer, 1 << 20)
        return bytes(received)

    def _wait(self, poll: select.poll) -> dict[int, int]:
        """Wait until the pipes are ready. The end of QEMU does not show on them, because this process has both ends
        open.
        """
        assert self.process is not None
        for _ in range(SECONDS):
            if events := dict(poll.poll(1000)):
                return events
            if self.process.poll() is not None:
                raise self._failed(f"ended with exit code {self.process.returncode}")
        raise self._failed("does not answer")

    def _start(self) -> None:
        while len(_RUNNING) >= RUNNING_MAX:
            _RUNNING[0].stop()
        for name in ("request", "answer"):
            os.mkfifo(self.folder / name)
        assert self.board.qemu is not None
        qemu = self.board.qemu
        command = [
            *emulation.emulator(load_target(self.board.target)).command, "-M", qemu.machine, *qemu.args, "-display", "none", "-monitor", "none", "-serial", "null",
            "-semihosting-config", "enable=on,target=native", "-icount", f"shift={qemu.icount_shift},sleep=off",
            "-kernel", str(self.elf),
        ]  # fmt: skip
        with (self.folder / "said").open("wb") as said:
            self.process = subprocess.Popen(
                command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=said, stderr=said
            )
        # Opened for both directions, so that opening does not wait for the other side; QEMU reads one, writes the other.
        self.pipes = [os.open(self.folder / "request", os.O_RDWR), os.open(self.folder / "answer", os.O_RDWR)]
        os.set_blocking(self.pipes[0], False)
        _RUNNING.append(self)

    def _failed(self, what: str) -> ToolError:
        said = (self.folder / "said").read_text(errors="replace").strip()
        self.stop()
        return ToolError(f"{self.symbol} on {self.board.name} under QEMU {what}; {said or 'it printed nothing'}")

    def stop(self) -> None:
        """End QEMU; the next request starts it again."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        for pipe in self.pipes:
            os.close(pipe)
        self.pipes, self.process = [], None
        for name in ("request", "answer"):
            (self.folder / name).unlink(missing_ok=True)
        _RUNNING[:] = [session for session in _RUNNING if session is not self]

    def end(self) -> None:
        """Stop and forget the firmware."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


def _image(number: int, i: Invocation) -> tuple[bytes, list[tuple[int, NDArray[np.generic]]]]:
    """The request, and the memory to update from its answer: (offset, memory)."""
    places: list[tuple[int, NDArray[np.generic]]] = []
    params = np.frombuffer(ctypes.string_at(ctypes.byref(i.params), ctypes.sizeof(i.params)), np.uint8)
    end = HEADER_BYTES

    def put(memory: NDArray[np.generic]) -> int:
        nonlocal end
        start = -(-end // LINE) * LINE + WORD
        places.append((start, memory))
        end = start + memory.nbytes
        return start

    arena, scratch = put(i.arena.memory) + GUARD, put(i.scratch.memory) + GUARD
    constants = [put(c) for c in i.constants]
    back, params_at = list(places), put(params)
    tables = [NO_SLOTS if t is None else put(t) for t in i.tables]
    header = np.zeros(HEADER_BYTES // 4, np.uint32)
    tensors = [
        (arena + min(p.offsets), table, stride) for p, table, stride in zip(i.places, tables, i.strides, strict=True)
    ]
    total = -(-end // LINE) * LINE
    header[:FIELDS] = total, number, i.rows.start, i.rows.stop, params_at, scratch
    header[FIELDS : FIELDS + 3 * len(tensors)] = np.asarray(tensors, np.uint32).reshape(-1)
    header[FIELDS + 3 * TENSORS_MAX :][: len(constants)] = constants
    image = np.zeros(total, np.uint8)
    image[:HEADER_BYTES] = header.view(np.uint8)
    for start, memory in places:
        image[start : start + memory.nbytes] = memory.reshape(-1).view(np.uint8)
    return image.tobytes(), back
