"""Runs firmware under QEMU. In: an Image, the manifest of its bundle, samples as bytes. Out: RunResult.

Tensors move through files by semihosting (runtime_c/harness/transport_files.c says how). With -icount every
instruction takes 2**shift ns of the guest's time, so that its timer counts instructions: exactly, each time.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from glowembed.errors import ToolError, UsageError
from glowembed.graph.target import Board, Qemu, Target, Tool, load_target
from glowembed.image.build import Image
from glowembed.records import dataclass
from glowembed.run import Bytes, RunResult
from glowembed.run.fault import Fault

PROTOCOL = "1"
POLL_SECONDS = 0.02
START_SECONDS = 600.0
SAMPLE_SECONDS = 10.0
FAULT = re.compile(
    r"FAULT exception=(\d+)" + "".join(f" {r}=0x([0-9a-f]+)" for r in "pc lr psr cfsr hfsr mmfar bfar".split())
)
Progress = Callable[[int, int], None]


def run(
    image: Image,
    manifest: Mapping[str, Any],
    samples: Bytes,
    layers: bool = False,
    timeout: float | None = None,
    progress: Progress | None = None,
    uart: Path | None = None,
    plugin: str | None = None,
) -> RunResult:
    """Run all samples, each a row with all inputs of the bundle in order. `layers`: also record the outputs and
    instructions of every layer. `timeout`: seconds for the whole run, by default ten per sample plus ten minutes (QEMU
    does some 700 million instructions per second). `progress` is called with (samples done, samples). `uart`: a file
    for the output of the firmware's serial port. `plugin`: QEMU's -plugin option.
    """
    _check_samples(manifest, samples)
    _qemu(image.board)
    with tempfile.TemporaryDirectory(prefix="glowembed-") as folder:
        place = Path(folder)
        (place / "in").write_bytes(np.ascontiguousarray(samples, dtype=np.uint8).tobytes())
        watch = _Watch(place / "out", _sample_bytes(manifest, layers), len(samples), progress)
        words = ["fw", "in", "out", "stats", *(["layers"] if layers else [])]
        limit = timeout if timeout is not None else START_SECONDS + SAMPLE_SECONDS * len(samples)
        command = [*_command(image, words, uart), *(["-plugin", plugin] if plugin is not None else [])]
        _execute(command, place, image, watch, limit)
        stats = _Stats.read(place / "stats")
        _check_stats(stats, manifest, len(samples), layers)
        return _result(manifest, stats, (place / "out").read_bytes(), image.board, layers)


def _qemu(board: Board) -> Qemu:
    if board.qemu is None:
        raise UsageError(
            f"board {board.name!r} is not emulated, and instructions are counted under QEMU: name an emulated board of the same target, or compile for one"
        )
    emulator(load_target(board.target))
    return board.qemu


def emulator(target: Target) -> Tool:
    """The emulator of a target. Raises ToolError, with the package to install, if it is missing."""
    tool = target.emulator
    if tool is None:
        raise UsageError(f"target {target.name!r} has no emulator: its toml has no [emulator]")
    if shutil.which(tool.command[0]) is None:
        raise ToolError(f"{tool.command[0]} is not there; install it: apt-get install {tool.package}", tool.package)
    return tool


def is_here(board: Board) -> bool:
    """Whether the board can be emulated on this machine."""
    tool = load_target(board.target).emulator
    return board.qemu is not None and tool is not None and shutil.which(tool.command[0]) is not None


def _check_samples(manifest: Mapping[str, Any], samples: Bytes) -> None:
    expected = sum(int(tensor["bytes"]) for tensor in manifest["inputs"])
    found = f"{samples.dtype} of shape {samples.shape}"
    if samples.ndim != 2 or samples.dtype != np.uint8 or samples.shape[1] != expected or len(samples) == 0:
        raise UsageError(f"samples are {found}; expected uint8 of shape (n, {expected}), n > 0")


def machine(board: Board, elf: Path) -> list[str]:
    """The command that starts a firmware; every instruction takes the same time in the guest."""
    qemu = _qemu(board)
    return [
        *emulator(load_target(board.target)).command, "-M", qemu.machine, *qemu.args,
        "-display", "none", "-monitor", "none",
        "-icount", f"shift={qemu.icount_shift},sleep=off",
        "-kernel", str(elf.resolve()),
    ]  # fmt: skip


def _command(image: Image, words: Sequence[str], uart: Path | None) -> list[str]:
    semihosting = ",".join(["enable=on,target=native", *(f"arg={word}" for word in words)])
    return [*machine(image.board, image.elf), *_serial(uart), "-semihosting-config", semihosting]


def _serial(uart: Path | None) -> list[str]:
    if uart is None:
        return ["-serial", "null"]
    path = str(uart.resolve()).replace(",", ",,")
    return ["-chardev", f"file,id=uart,path={path}", "-serial", "chardev:uart"]


@dataclass(frozen=True)
class _Watch:
    """Follows the progress of a run by the size of its output file."""

    out: Path
    sample_bytes: int
    samples: int
    progress: Progress | None

    def done(self) -> int:
        size = self.out.stat().st_size if self.out.exists() else 0
        return min(self.samples, size // max(1, self.sample_bytes))

    def tell(self) -> None:
        if self.progress is not None:
            self.progress(self.done(), self.samples)


def _execute(command: list[str], place: Path, image: Image, watch: _Watch, timeout: float) -> None:
    end = time.monotonic() + timeout
    with (place / "said").open("wb") as said:
        process = subprocess.Popen(command, cwd=place, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
    try:
        while process.poll() is None:
            if time.monotonic() > end:
                raise _timed_out(image, watch, timeout)
            watch.tell()
            _wait(process)
    finally:
        process.kill()
        process.wait()
    watch.tell()
    if process.returncode != 0:
        raise _failure(image, process.returncode, (place / "said").read_text(errors="replace"))


def _wait(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(POLL_SECONDS)
    except subprocess.TimeoutExpired:
        return


def _timed_out(image: Image, watch: _Watch, timeout: float) -> ToolError:
    return ToolError(
        f"board {image.board.name!r} under QEMU did {watch.done()} of {watch.samples} samples in {timeout:g} s "
        "and was stopped. Where samples were done, ask for fewer of them or a longer timeout; where none was, "
        f"the firmware hangs: look at it with {machine(image.board, image.elf)[0]} -s -S and gdb ({image.elf})."
    )


def _failure(image: Image, code: int, said: str) -> ToolError:
    fault = FAULT.search(said)
    if fault is not None:
        return ToolError(_describe_fault(image, fault))
    errors = [line[6:] for line in said.splitlines() if line.startswith("ERROR ")]
    reason = "; ".join(errors) or said.strip()[-2000:] or "it printed nothing"
    return ToolError(f"board {image.board.name!r} under QEMU ended with code {code}: {reason}")


def _describe_fault(image: Image, found: re.Match[str]) -> str:
    fault = Fault(int(found[1]), *(int(value, 16) for value in found.groups()[1:]))
    said = found.string.strip()[-400:]
    return f"board {image.board.name!r} under QEMU {fault.describe(image.elf)}\n{said}"


@dataclass(frozen=True)
class _Stats:
    """The text report of the firmware, by key: values that it gives once, and ticks with interrupts."""

    texts: Mapping[str, str]
    ticks: Mapping[str, list[tuple[int, int]]]

    @classmethod
    def read(cls, path: Path) -> _Stats:
        texts: dict[str, str] = {}
        ticks: dict[str, list[tuple[int, int]]] = {}
        for line in path.read_text(encoding="ascii").splitlines():
            key, _, value = line.partition("=")
            count, space, interrupts = value.partition(" ")
            if space:
                ticks.setdefault(key, []).append((int(count), int(interrupts)))
            else:
                texts[key] = value
        return cls(texts, ticks)


def _check_stats(stats: _Stats, manifest: Mapping[str, Any], samples: int, layers: bool) -> None:
    timed = len(stats.ticks.get("layer" if layers else "run", []))
    found = (stats.texts.get("protocol"), stats.texts.get("bundle"), stats.texts.get("runs"), timed)
    times = samples * (len(manifest["layers"]) if layers else 1)
    expected = (PROTOCOL, manifest["hash"], str(samples), times)
    if found != expected:
        raise ToolError(
            f"the firmware reports (protocol, bundle, runs, times) {found}; expected {expected}. "
            "The firmware is not that of this bundle: build it again."
        )


class Counter:
    """Turns ticks into instructions.

    From the start of the counter to n instructions later, SysTick counts ceil(n * ticks per instruction) - 1: time
    moves by whole instructions, and the first tick goes into loading the counter. With a tick shorter than an
    instruction, this determines n. Each interrupt adds its handler, whose length follows from two runs of one loop,
    with and without interrupts. A counter wide enough to need no interrupts gives the same value twice.
    """

    def __init__(self, board: Board, qemu: Qemu, ticks: Mapping[str, Sequence[tuple[int, int]]]) -> None:
        self.ticks_per_instruction = Fraction(board.clock_hz * 2**qemu.icount_shift, 10**9)
        if self.ticks_per_instruction < 1:
            raise UsageError(f"board {board.name!r}: icount_shift {qemu.icount_shift} is too small to be exact")
        (quiet, none), (loud, interrupts) = ticks["loop"]
        extra = self.raw(loud) - self.raw(quiet)
        self.handler = round(extra / interrupts) if interrupts else 0
        # QEMU cuts every period to whole ns, less than 1/64 of an instruction.
        if none != 0 or abs(extra - self.handler * interrupts) > 1 + interrupts // 64:
            raise ToolError(
                f"QEMU does not count instructions exactly (interrupts took {extra} in {interrupts}); "
                "check that its version is 7.2 or newer"
            )
        self.empty = {
            "run": self.raw(ticks["empty"][0][0]),
            "layer": self.raw(ticks["empty_layer"][0][0]),
        }

    def raw(self, ticks: int) -> int:
        return int((ticks + 1) / self.ticks_per_instruction)

    def instructions(self, kind: str, measured: tuple[int, int]) -> int:
        """The instructions of the called function only, including its return; the empty function is just a return."""
        ticks, interrupts = measured
        return self.raw(ticks) - self.empty[kind] + 1 - interrupts * self.handler


def counter(board: Board, ticks: Mapping[str, Sequence[tuple[int, int]]]) -> Counter:
    """The conversion of ticks to instructions, from the cost of measuring: `empty`, `empty_layer`, and `loop` twice."""
    return Counter(board, _qemu(board), ticks)


def _layer_tensors(manifest: Mapping[str, Any]) -> list[list[int]]:
    return [[int(tensor["bytes"]) for tensor in layer["outputs"]] for layer in manifest["layers"]]


def _output_tensors(manifest: Mapping[str, Any]) -> list[int]:
    return [int(tensor["bytes"]) for tensor in manifest["outputs"]]


def _sample_bytes(manifest: Mapping[str, Any], layers: bool) -> int:
    inner = sum(map(sum, _layer_tensors(manifest))) if layers else 0
    return inner + sum(_output_tensors(manifest))


def _result(manifest: Mapping[str, Any], stats: _Stats, out: bytes, board: Board, layers: bool) -> RunResult:
    rows = np.frombuffer(out, dtype=np.uint8).reshape(-1, _sample_bytes(manifest, layers))
    instructions = counter(board, stats.ticks).instructions
    shapes = _layer_tensors(manifest) if layers else []
    tensors = _cut(rows, [*(size for layer in shapes for size in layer), *_output_tensors(manifest)])
    per_layer: list[tuple[Bytes, ...]] = []
    for layer in shapes:
        per_layer.append(tuple(tensors[: len(layer)]))
        tensors = tensors[len(layer) :]
    whole = [instructions("run", ticks) for ticks in stats.ticks.get("run", [])]
    parts = [instructions("layer", ticks) for ticks in stats.ticks.get("layer", [])]
    return RunResult(
        outputs=tuple(tensors),
        instructions=max(whole, default=None),
        instructions_least=min(whole, default=None),
        layer_instructions=_largest_per_layer(parts, len(shapes)) if layers else None,
        layer_outputs=tuple(per_layer) if layers else None,
        stack=int(stats.texts["stack_bytes"]),
    )


def _largest_per_layer(parts: list[int], layers: int) -> tuple[int, ...]:
    return tuple(max(parts[index::layers]) for index in range(layers))


def _cut(rows: Bytes, sizes: list[int]) -> list[Bytes]:
    ends = np.cumsum(sizes)
    return [rows[:, end - size : end] for size, end in zip(sizes, ends, strict=True)]
