"""Runs a bundle on a device at the end of a line. In: a Line, the manifest of the bundle, samples as bytes. Out:
RunResult.

Every sample is written, run and read in one session. If anything goes wrong, including a restart of the device, the
sample is repeated from its beginning; a permanent failure becomes an error within a bounded time. Results are stored as
they arrive, so that an interrupted run can be continued.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from zlib import crc32

import numpy as np
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from glowembed.errors import UsageError
from glowembed.graph.target import Board
from glowembed.image.build import Image
from glowembed.image.glue import in_window
from glowembed.records import dataclass
from glowembed.run import Bytes, RunResult, line, qemu
from glowembed.run.bench import Bench
from glowembed.run.device import (
    SILENCE,
    SMALLEST_CHUNK,
    Device,
    DeviceError,
    DeviceFault,
    Info,
    NoAnswer,
    Refused,
    SessionLost,
    Settings,
    Ticks,
    WrongFirmware,
)
from glowembed.run.line import Line
from glowembed.run.pieces import Piece
from glowembed.run.store import Store

T = TypeVar("T")
Progress = Callable[[int, int], None]
TRIES = 24
"""How often one step is tried, each time in a new session."""

CLEAN_STEPS = 16
"""After this many steps without a lost session, larger frames are tried again."""

PATIENCES = 6
"""No step takes longer than this many times the patience of the settings."""

SILENT_PATIENCES = 2
"""The limit for a device that answers hello and nothing else; the request that is under way by then is waited for."""

RUN_SECONDS = 30.0
"""Seconds allowed for the first inference, whose time is not known yet."""

CYCLES_PER_MAC = 100
"""A bound on the cycles per MAC, higher than any core needs."""


@dataclass(frozen=True)
class Located:
    """The source of a wrong result: the first layer whose output differs, and the expected output.

    expected, found: the whole tensor; if only a part could be read, the rest of `found` is as expected.
    """

    layer: int
    value: str
    expected: bytes
    found: bytes


@dataclass(frozen=True)
class Weights:
    """The expected contents of flash. constants: name, offset and size of each."""

    data: bytes
    constants: tuple[tuple[str, int, int], ...]


@contextmanager
def board_line(image: Image, bench: Bench | None) -> Iterator[Line]:
    """The line to a board: its port, or the UART of the emulator that is this board, or a program on this computer."""
    if bench is None:
        with _started(image) as started:
            yield started
        return
    opened = bench.open()
    try:
        yield opened
    finally:
        opened.close()


def _started(image: Image) -> AbstractContextManager[Line]:
    board = image.board
    if board.qemu is not None:
        return line.qemu_line(qemu.machine(board, image.elf), f"board {board.name!r} under QEMU")
    if board.name == "host":
        return line.program_line([str(image.elf)], "the harness on this computer")
    raise UsageError(f"board {board.name!r} is not emulated: name its port with --port (glowembed ports lists them)")


class Session:
    """A Device whose requests are repeated in new sessions until they are answered or fail for good."""

    def __init__(self, device: Device, manifest: Mapping[str, Any], image: Image | None) -> None:
        self.device, self.manifest, self.image = device, manifest, image
        self.seconds = RUN_SECONDS
        self.info: Info | None = None
        self._fresh = False
        self._clean = 0
        self._reasons: list[str] = []

    def connect(self) -> None:
        """Start a session and check that the firmware is the right one. Raises WrongFirmware."""
        welcome = self.device.hello()
        self._fresh = True
        right = crc32(self.manifest["hash"].encode("ascii"))
        if self.info is None or welcome.of_hash != right:
            self.info = self.device.info(names=False)
            if self.info.hash != self.manifest["hash"]:
                raise wrong_firmware(self.device.info(), self.manifest, self.device.line.name)
            clock, macs = self.info.clock_hz, self.manifest.get("macs", 0)
            self.seconds = min(self.seconds, 2.0 + macs * CYCLES_PER_MAC / clock) if clock else self.seconds

    def step(self, work: Callable[[Device], T]) -> T:
        """Do `work`, and repeat it from its beginning in a new session each time one is lost."""
        begun, patience, only_silence = time.monotonic(), self.device.settings.patience, True
        for attempt in range(TRIES):
            try:
                if not self._fresh:
                    self.connect()
                result = work(self.device)
                self._went_well()
                return result
            except SessionLost as lost:
                self._fresh = False
                self._learn(lost, attempt)
                only_silence &= lost.reason == SILENCE
            except DeviceFault as error:
                raise self._explained(error) from error
            limit = SILENT_PATIENCES * patience if only_silence else PATIENCES * patience + 2 * self.seconds
            if time.monotonic() > begun + limit:
                break
        raise self._gave_up()

    def _went_well(self) -> None:
        self._clean += 1
        if self._clean % CLEAN_STEPS == 0 and self.device.chunk < self.device.longest:
            self.device.chunk = min(2 * self.device.chunk, self.device.longest)

    def _learn(self, lost: SessionLost, attempt: int) -> None:
        self._reasons.append(lost.reason)
        self._clean = 0
        if lost.reason == "too many broken frames":
            self.device.chunk = max(SMALLEST_CHUNK, self.device.chunk // 2)
        if lost.reason != "another client":
            return
        if self._reasons.count(lost.reason) > 2:
            raise DeviceError(
                f"{self.device.line.name}: another client talks to this device at the same time: stop one of the two"
            )
        time.sleep(0.05 * (attempt + 1))

    def _gave_up(self) -> Exception:
        name, reasons = self.device.line.name, self._reasons[-TRIES:]
        if reasons.count("the device has restarted") > TRIES // 2:
            return DeviceError(
                f"{name}: the device restarts again and again at the same step: check its power supply, and whether a "
                "watchdog is on"
            )
        if set(reasons) == {SILENCE}:
            return NoAnswer(
                f"{name}: the device says hello, but answers no request: reset the board, or flash the firmware again "
                "(glowembed validate --flash)"
            )
        return NoAnswer(
            f"{name}: gave up after {len(reasons)} sessions ({', '.join(sorted(set(reasons)))}): the line is too unreliable. Check "
            "the cable and ground, or use a lower baud rate"
        )

    def _explained(self, error: DeviceFault) -> DeviceFault:
        elf = self.image.elf if self.image is not None else None
        words = f"{self.device.line.name}: the board {error.what.describe(elf)}\n{error.what.registers()}"
        return DeviceFault(words, error.what)


def wrong_firmware(info: Info, manifest: Mapping[str, Any], name: str) -> WrongFirmware:
    """The error for firmware of another bundle, with what to do."""
    return WrongFirmware(
        f"{name} runs the bundle {info.name!r} ({info.hash[:12]}...) for {info.target}, not {manifest['name']!r} "
        f"({manifest['hash'][:12]}...): flash the firmware of this bundle with 'glowembed validate --flash', or "
        "validate the bundle that is on the board"
    )


def run(
    session: Session,
    samples: Bytes,
    store: Store,
    progress: Progress | None = None,
    board: Board | None = None,
) -> RunResult:
    """Run all samples that the store does not have yet, then collect the figures of the last one."""
    begun = time.monotonic()
    session.step(lambda device: None)
    missing = [index for index in range(len(samples)) if index not in store.done]
    tell = progress or (lambda done, total: None)
    tell(len(store.done), len(samples))
    for index in missing:
        store.add(index, session.step(partial(infer, session, samples[index].tobytes())))
        tell(len(store.done), len(samples))
    traffic = session.device.traffic
    traffic.seconds = time.monotonic() - begun
    sizes = [int(tensor["bytes"]) for tensor in session.manifest["outputs"]]
    rows = np.stack([np.frombuffer(store.done[index], dtype=np.uint8) for index in range(len(samples))])
    ends = np.cumsum(sizes)
    outputs = tuple(rows[:, end - size : end] for size, end in zip(sizes, ends, strict=True))
    figures = traffic.json(session.device.settings.baud)
    return replace(_figures(session, samples[-1].tobytes(), board), outputs=outputs, traffic=figures)


def infer(session: Session, sample: bytes, device: Device) -> bytes:
    """The outputs of one sample, one after the other."""
    outputs = session.manifest["outputs"]
    if device.chunk < device.longest:
        return _infer_carefully(session, sample, device)
    pieces = _pieces(session.manifest, sample, device.chunk)
    for index, (offset, data) in enumerate(pieces[:-1]):
        device.write(offset, data, new_sample=index == 0)
    offset, data = pieces[-1]
    begun = time.monotonic()
    first = device.infer(offset, data, len(pieces) == 1, session.seconds)
    session.seconds = min(session.seconds, 0.2 + 4 * (time.monotonic() - begun))
    size = int(outputs[0]["bytes"])
    found = first[:size] + device.read(outputs[0]["offset"] + len(first), size - len(first))
    return found + b"".join(device.read(tensor["offset"], int(tensor["bytes"])) for tensor in outputs[1:])


def _infer_carefully(session: Session, sample: bytes, device: Device) -> bytes:
    """The outputs of one sample, in small frames."""
    write_sample(device, session.manifest, sample)
    device.run(1, session.seconds)
    return b"".join(device.read(t["offset"], int(t["bytes"])) for t in session.manifest["outputs"])


def _pieces(manifest: Mapping[str, Any], sample: bytes, chunk: int) -> list[tuple[int, bytes]]:
    """The pieces to write and their addresses, each at most a chunk."""
    pieces, at = [], 0
    for tensor in manifest["inputs"]:
        data = sample[at : at + tensor["bytes"]]
        at += tensor["bytes"]
        pieces += [(tensor["offset"] + start, data[start : start + chunk]) for start in range(0, len(data), chunk)]
    return pieces


def write_sample(device: Device, manifest: Mapping[str, Any], sample: bytes) -> None:
    """Write all inputs without running."""
    for index, (offset, data) in enumerate(_pieces(manifest, sample, device.chunk)):
        device.write(offset, data, new_sample=index == 0)


def _figures(session: Session, sample: bytes, board: Board | None) -> RunResult:
    """The cycles or instructions of one inference and of its layers, and its stack."""
    whole, layers = session.step(lambda device: _timed(session, device, sample))
    stack = _optional(session, lambda device: device.stack(session.seconds))
    base = RunResult(outputs=(), instructions=None, stack=stack)
    costs = _optional(session, lambda device: device.calibrate())
    if costs is None or not whole.ticks:
        return base
    if board is not None and board.qemu is not None and session.image is not None:
        return _counted(base, board, whole, layers, costs)
    clock = session.info.clock_hz if session.info is not None else 0
    cycles = max(0, whole.ticks - costs[0].ticks)
    return replace(
        base,
        cycles=cycles,
        layer_cycles=tuple(max(0, layer.ticks - costs[1].ticks) for layer in layers),
        seconds=cycles / clock if clock else None,
    )


def _optional(session: Session, work: Callable[[Device], T]) -> T | None:
    try:
        return session.step(work)
    except Refused:
        return None


def _timed(session: Session, device: Device, sample: bytes) -> tuple[Ticks, list[Ticks]]:
    write_sample(device, session.manifest, sample)
    whole, _, _ = device.run(1, session.seconds)
    write_sample(device, session.manifest, sample)
    count = len(session.manifest["layers"])
    return whole, [device.layers(index, 1, session.seconds) for index in range(count)]


def _counted(base: RunResult, board: Board, whole: Ticks, layers: Sequence[Ticks], costs: Sequence[Ticks]) -> RunResult:
    """The instructions, which under an emulator follow from ticks."""
    pairs = [(entry.ticks, entry.interrupts) for entry in costs]
    named = {"empty": pairs[:1], "empty_layer": pairs[1:2], "loop": pairs[2:]}
    counter = qemu.counter(board, named)
    per_layer = tuple(counter.instructions("layer", (entry.ticks, entry.interrupts)) for entry in layers)
    total = counter.instructions("run", (whole.ticks, whole.interrupts))
    return replace(base, instructions=total, instructions_least=total, layer_instructions=per_layer)


def locate(session: Session, sample: bytes, expected: Mapping[str, bytes], where: Sequence[Piece]) -> Located | None:
    """The first layer, in order of execution, that makes a wrong value; None if all are right.

    The device computes a checksum of each layer's outputs, so that only checksums cross the line, and one piece that
    differs.
    """
    return session.step(lambda device: _locate(session, device, sample, expected, where))


def _locate(
    session: Session, device: Device, sample: bytes, expected: Mapping[str, bytes], where: Sequence[Piece]
) -> Located | None:
    write_sample(device, session.manifest, sample)
    for index in range(len(session.manifest["layers"])):
        device.layers(index, 1, session.seconds)
        for piece in (piece for piece in where if piece.after == index):
            right, end = expected[piece.value], piece.start + piece.size
            if device.checksum(piece.offset, piece.size) != crc32(right[piece.start : end]):
                found = right[: piece.start] + device.read(piece.offset, piece.size) + right[end:]
                return Located(piece.layer, piece.value, right, found)
    return None


def constants_that_differ(session: Session, weights: Weights) -> tuple[str, ...]:
    """The names of the constants in flash that differ from the bundle's."""
    return session.step(lambda device: _constants_that_differ(session, device, weights))


def _constants_that_differ(session: Session, device: Device, weights: Weights) -> tuple[str, ...]:
    info = session.info
    if info is None or info.weights_bytes != len(weights.data):
        return ()
    if device.checksum(0, len(weights.data), weights=True) == crc32(weights.data):
        return ()
    return tuple(
        name
        for name, start, size in weights.constants
        if device.checksum(start, size, weights=True) != crc32(weights.data[start : start + size])
    )


def open_session(
    opened: Line, image: Image | None, manifest: Mapping[str, Any], settings: Settings | None = None
) -> Session:
    """A session on an open line."""
    return Session(Device(opened, settings), in_window(manifest), image)


def weights_of(program: Path) -> Weights:
    """The expected weights of a firmware in flash."""
    with program.open("rb") as file:
        elf = ELFFile(file)
        section, symbols = elf.get_section_by_name(".weights"), elf.get_section_by_name(".symtab")
        if section is None or not isinstance(symbols, SymbolTableSection):
            return Weights(b"", ())
        data, start = bytes(section.data()), section["sh_addr"]
        inside = [s for s in symbols.iter_symbols() if s["st_size"] and start <= s["st_value"] < start + len(data)]
        return Weights(data, tuple((s.name, s["st_value"] - start, s["st_size"]) for s in inside))
