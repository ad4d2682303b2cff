"""Talks to one device at the end of a line. In: a Line. Out: a Device: hello, write, infer, read, layers, checksum,
stack ...

The protocol is stop-and-wait: every request is repeated until its answer has arrived, within a bounded time. Every
result was requested in this session, comes from this bundle, and arrived complete; everything else is an exception that
says what to check. docs/protocol.md describes the protocol.
"""

from __future__ import annotations

import secrets
import struct
import time
from collections.abc import Callable
from dataclasses import field

from glowembed.errors import ToolError
from glowembed.records import dataclass
from glowembed.run import fault, protocol
from glowembed.run.fault import Fault
from glowembed.run.line import Line
from glowembed.run.protocol import ANSWER, NEW_SAMPLE, Command, Frame, Refusal

READY = b"READY glowembed "
HELLO = struct.Struct("<BIHII")
NUMBERS = struct.Struct("<6I")
TICKS = struct.Struct("<QI")
SMALLEST_CHUNK = 16
SHOWN = 60
LATENCY = (0.03, 0.5)
"""The least and the most seconds to wait for an answer beyond the time of transmission and computation."""

SHORT = 64
"""The bytes of a frame above which it is split into smaller ones when it does not get through."""

LONG_ATTEMPTS = 6
HELLO_SECONDS = (0.1, 0.4)
SILENCE = "no answer to any request"
"""The reason for a lost session in which the device answered hello and then nothing at all."""


class DeviceError(ToolError):
    """The device does not work; the message says what to check."""


class NoAnswer(DeviceError):
    """Raised when nothing that belongs to the protocol arrived in time."""


class WrongFirmware(DeviceError):
    """The device has another protocol or another bundle."""


class Malformed(DeviceError):
    """An answer arrived intact, but its length is not the one that the protocol defines."""


class DeviceFault(DeviceError):
    """The core has raised an exception."""

    def __init__(self, message: str, what: Fault) -> None:
        super().__init__(message)
        self.what = what


class Refused(DeviceError):
    """The device refuses or is unable to execute the request, or the bundle failed."""

    def __init__(self, message: str, reason: int, detail: int) -> None:
        super().__init__(message)
        self.reason, self.detail = reason, detail


class SessionLost(Exception):
    """The session must start again from hello; `reason` says why. This exception never leaves the package."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True)
class Welcome:
    """The answer of a device to hello. of_hash: CRC32 of the hash of its bundle."""

    protocol: int
    chunk: int
    sessions: int
    of_hash: int


@dataclass(frozen=True)
class Info:
    """The properties that a device reports."""

    clock_hz: int
    arena_size: int
    ram_bytes: int
    flash_bytes: int
    weights_bytes: int
    layers: int
    hash: str
    target: str = ""
    board: str = ""
    name: str = ""


@dataclass(frozen=True)
class Ticks:
    """Ticks of the device's counter, and the interrupts that occurred during them."""

    ticks: int
    interrupts: int


@dataclass
class Traffic:
    """Bytes on the line, and how many of them belong to tensors; repeated requests; new sessions; seconds."""

    sent: int = 0
    received: int = 0
    tensors: int = 0
    requests: int = 0
    retries: int = 0
    sessions: int = 0
    seconds: float = 0.0

    @property
    def overhead(self) -> float:
        """The share of the bytes that do not belong to tensors."""
        return 1 - self.tensors / self.total if self.total else 0.0

    @property
    def total(self) -> int:
        """Bytes in both directions."""
        return self.sent + self.received

    def json(self, baud: int) -> dict[str, int | float | None]:
        """All figures, with those derived from them.

        capacity_share: the share of what the line could carry in one direction, with ten bits for each byte; it may be
        more than 1 for an emulated UART, which is not limited to a rate.
        """
        per_second = self.total / self.seconds if self.seconds else None
        return {
            **vars(self),
            "bytes": self.total,
            "overhead": self.overhead,
            "baud": baud,
            "bytes_per_second": per_second,
            "capacity_share": None if per_second is None else 10 * per_second / baud,
        }


@dataclass(frozen=True)
class Settings:
    """baud: the rate of the line, for timeouts. patience: seconds without any progress before the device is given up.
    attempts: how often one request is sent. chunk: the most bytes of a tensor in a frame.
    """

    baud: int = 115200
    patience: float = 10.0
    attempts: int = 16
    chunk: int = 4096
    nonce: Callable[[], int] = field(default=lambda: secrets.randbits(32))


def printable(text: bytes) -> str:
    """Text from a device made safe for a terminal: escape codes and bytes that are not ASCII are spelled out."""
    return text.decode("ascii", "backslashreplace").encode("unicode_escape").decode("ascii").replace("\\\\", "\\")


def _name(command: int) -> str:
    return Command(command).name if command in set(Command) else f"command {command}"


class Device:
    """A device; the module describes it. After SessionLost, call hello again."""

    def __init__(self, line: Line, settings: Settings | None = None) -> None:
        self.line, self.settings = line, settings or Settings()
        self.traffic = Traffic()
        self.chunk = self.longest = self.settings.chunk
        self._splitter = protocol.Splitter()
        self._frames: list[Frame | protocol.Noise] = []
        self._run = 0
        self._old_runs: set[int] = set()
        self._sequence = 0
        self._latency = LATENCY[1] / 8
        self._noise = bytearray()
        self._echoed = False

    def hello(self) -> Welcome:
        """Start a new session. Raises NoAnswer, WrongFirmware, DeviceFault."""
        nonce = self.settings.nonce()
        end = time.monotonic() + self.settings.patience
        wait = HELLO_SECONDS[0]
        self._noise.clear()
        self._old_runs.add(self._run)
        self._run = 0
        self._frames.clear()
        while (left := end - (begun := time.monotonic())) > 0:
            self._send(Command.HELLO, 0, nonce.to_bytes(4, "little"), again=True)
            answer = self._hello_answer(nonce, min(wait, left))
            if answer is not None:
                self._latency = time.monotonic() - begun
                return self._begin(answer, nonce)
            wait = min(HELLO_SECONDS[1], 1.2 * wait)
            self.traffic.retries += 1
        raise NoAnswer(self._silence())

    def _hello_answer(self, nonce: int, seconds: float) -> Frame | None:
        """The answer to hello; None if nothing arrived, or if the device reported that our frame was broken."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            frame = self._next(left)
            if isinstance(frame, protocol.Noise):
                self._noise += frame.raw
            elif frame is not None:
                self._check_fault(frame)
                self._echoed |= frame.command == Command.HELLO
                if frame.command == Command.BROKEN and not self._frames:
                    return None
                if frame.command == Command.HELLO | ANSWER and frame.payload[1:5] == nonce.to_bytes(4, "little"):
                    return frame
        return None

    def _begin(self, answer: Frame, nonce: int) -> Welcome:
        if answer.payload[0] != protocol.VERSION:
            raise WrongFirmware(
                f"{self.line.name}: the firmware speaks version {answer.payload[0]} of the protocol, this glowembed "
                f"version {protocol.VERSION}: build and flash the firmware again (glowembed validate --flash), or use "
                "the glowembed that made it"
            )
        if len(answer.payload) < HELLO.size:
            raise self._malformed(Command.HELLO, answer.payload, HELLO.size)
        version, _, chunk, sessions, of_hash = HELLO.unpack_from(answer.payload)
        self._run = protocol.run_id(of_hash, nonce)
        self._sequence = 0
        self.longest = min(self.settings.chunk, chunk)
        self.chunk = max(SMALLEST_CHUNK, min(self.chunk, self.longest))
        self.traffic.sessions += 1
        return Welcome(version, chunk, sessions, of_hash)

    def info(self, names: bool = True) -> Info:
        """Everything that the device reports about itself; without `names` only the numbers and the hash of its bundle."""
        numbers = NUMBERS.unpack(self._exactly(NUMBERS.size, Command.INFO, b"\0"))
        texts = [printable(self.request(Command.INFO, bytes([n]))) for n in range(1, 5 if names else 2)]
        return Info(*numbers, *texts)

    def _silence(self) -> str:
        said = bytes(self._noise) + bytes(self._splitter.rest)
        name, seconds = self.line.name, self.settings.patience
        if self._echoed:
            return f"{name}: the line gives back what we send: is RX connected to TX, or does a shell echo it?"
        if not said:
            return (
                f"{name}: no answer within {seconds:g} s. Check that the board has power and runs the firmware "
                "(glowembed validate --flash flashes it), the cable, that TX and RX are not swapped, and the port "
                "(glowembed ports)"
            )
        shown = said[:SHOWN].decode("ascii", "backslashreplace").strip()
        if said.startswith(READY) or READY in said:
            return f"{name}: the firmware says READY but does not answer; is the line from us to the board connected?"
        if sum(32 <= byte < 127 or byte in b"\r\n\t" for byte in said) > 0.9 * len(said):
            return f"{name}: something else answers there: {shown!r}. It is not the firmware of 'glowembed build'"
        return (
            f"{name}: {len(said)} bytes came back that make no sense ({shown!r}): wrong baud rate? We used "
            f"{self.settings.baud}; board.toml of the board says its own (--baud). Or a bad cable"
        )

    def write(self, offset: int, data: bytes, new_sample: bool = False) -> None:
        """Write bytes into the arena."""
        for start in range(0, max(1, len(data)), self.chunk):
            part = data[start : start + self.chunk]
            flag = NEW_SAMPLE if new_sample and start == 0 else 0
            self.request(Command.WRITE, struct.pack("<I", offset + start | flag) + part)
            self.traffic.tensors += len(part)

    def infer(self, offset: int, data: bytes, new_sample: bool, seconds: float) -> bytes:
        """Write a last piece that fits one chunk and run once; returns the first chunk of the first output."""
        flag = NEW_SAMPLE if new_sample else 0
        found = self.request(Command.INFER, struct.pack("<I", offset | flag) + data, seconds)
        self.traffic.tensors += len(data) + len(found)
        return found

    def run(self, times: int, seconds: float) -> tuple[Ticks, Ticks, Ticks]:
        """Run this many times; returns the ticks of the first, the shortest and the longest run."""
        found = self._exactly(3 * TICKS.size, Command.RUN, struct.pack("<I", times), seconds * times)
        first, shortest, longest = (Ticks(*entry) for entry in TICKS.iter_unpack(found))
        return first, shortest, longest

    def layers(self, first: int, count: int, seconds: float) -> Ticks:
        """Run some layers and stop; returns the ticks of the last one."""
        return Ticks(
            *TICKS.unpack(self._exactly(TICKS.size, Command.LAYERS, struct.pack("<HH", first, count), seconds))
        )

    def read(self, offset: int, length: int) -> bytes:
        """Read bytes from the arena."""
        parts = []
        for start in range(0, length, self.chunk):
            size = min(self.chunk, length - start)
            found = self.request(Command.READ, struct.pack("<IH", offset + start, size))
            if len(found) != size:
                raise SessionLost("an answer of the wrong length")
            parts.append(found)
        self.traffic.tensors += length
        return b"".join(parts)

    def checksum(self, offset: int, length: int, weights: bool = False) -> int:
        """The CRC32 of a piece of the arena, or of the weights in flash."""
        payload = struct.pack("<BII", weights, offset, length)
        found = self._exactly(4, Command.CHECKSUM, payload, 2.0 + length / 1e5)
        return int.from_bytes(found, "little")

    def stack(self, seconds: float) -> int:
        """The bytes of stack that one inference takes. Raises Refused if the firmware cannot measure it."""
        return int.from_bytes(self._exactly(4, Command.STACK, b"", seconds), "little")

    def calibrate(self) -> tuple[Ticks, ...]:
        """The ticks of an empty run, of an empty layer, of a loop, and of the same loop with interrupts."""
        return tuple(
            Ticks(*entry) for entry in TICKS.iter_unpack(self._exactly(4 * TICKS.size, Command.CALIBRATE, b"", 2.0))
        )

    def echo(self, data: bytes) -> bytes:
        """Send bytes to the device, which returns them."""
        return self.request(Command.ECHO, data)

    def reset(self) -> None:
        """Start the firmware again; the session is over."""
        self.request(Command.RESET)

    def _exactly(self, size: int, command: Command, payload: bytes, seconds: float = 0.0) -> bytes:
        """Send a request whose answer has this many bytes. Raises Malformed if its length differs."""
        answer = self.request(command, payload, seconds)
        if len(answer) != size:
            raise self._malformed(command, answer, size)
        return answer

    def _malformed(self, command: Command, answer: bytes, size: int) -> Malformed:
        return Malformed(
            f"{self.line.name}: the device answers {command.name} with {len(answer)} bytes, the protocol says {size}: build "
            "and flash the firmware again (glowembed validate --flash)"
        )

    def request(self, command: int, payload: bytes = b"", seconds: float = 0.0) -> bytes:
        """Send one request and return its answer. `seconds`: how long the device is expected to work on it at most; it
        is given up after twice that time and twice the patience of the settings.

        After silence, the answer is requested again, which is a short frame; the request itself is repeated if the
        device says that it has not received it.
        """
        self._sequence = (self._sequence + 1) & 0xFFFF
        self.traffic.requests += 1
        wait = self._transmission(len(payload) + SMALLEST_CHUNK) + min(LATENCY[1], max(LATENCY[0], 4 * self._latency))
        missing, end = True, time.monotonic() + 2 * (seconds + self.settings.patience)
        heard = self.traffic.received
        for attempt in range(self._attempts(command, payload)):
            begun = time.monotonic()
            if begun > end:
                break
            if missing:
                self._send(command, self._sequence, payload, again=attempt > 0)
            else:
                self._send(Command.AGAIN, self._sequence, b"", again=True)
            answer, missing = self._answer(command, wait + seconds, asked_again=not missing)
            if answer is not None:
                if attempt == 0 and seconds == 0:
                    self._latency = max(time.monotonic() - begun, 0.8 * self._latency)
                return answer
            wait = min(2 * LATENCY[1], 1.3 * wait)
            self.traffic.retries += 1
        raise SessionLost("too many broken frames" if self.traffic.received > heard else SILENCE)

    def _attempts(self, command: int, payload: bytes) -> int:
        """The number of attempts; frames that can be split are given up sooner."""
        answered = self.chunk if command in (Command.READ, Command.INFER) else 0
        can_be_cut = max(len(payload), answered) > SHORT and self.chunk > SMALLEST_CHUNK
        return LONG_ATTEMPTS if can_be_cut and command != Command.ECHO else self.settings.attempts

    def _transmission(self, count: int) -> float:
        return 10 * 2 * count / self.settings.baud

    def _answer(self, command: int, seconds: float, asked_again: bool) -> tuple[bytes | None, bool]:
        """The payload of the answer, or None if it must be requested again; and whether the device has lost the
        request.
        """
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            frame = self._next(left)
            if frame is None:
                return None, False
            if not isinstance(frame, Frame):
                if READY in frame.raw:
                    raise SessionLost("the device has restarted")
                continue
            self._check_fault(frame)
            if frame.command == Command.BROKEN:
                self._check_session(frame)
                return None, True
            if frame.run_id != self._run or frame.sequence != self._sequence:
                continue
            if self._is_missing(frame):
                if asked_again:
                    return None, True
            elif frame.command == Command.REFUSED:
                raise self._refused(command, frame.payload)
            elif frame.command == command | ANSWER:
                return frame.payload, False
        return None, False

    def _is_missing(self, frame: Frame) -> bool:
        """Whether the device says that it has not received the request that belongs to this AGAIN."""
        last = ((self._sequence - 1) & 0xFFFF).to_bytes(4, "little")
        return frame.command == Command.REFUSED and frame.payload == bytes([Refusal.SEQUENCE]) + last

    def _check_fault(self, frame: Frame) -> None:
        if frame.command == Command.FAULT and frame.run_id == 0 and len(frame.payload) == fault.REGISTERS.size:
            what = fault.unpack(frame.payload)
            raise DeviceFault(f"{self.line.name}: the board {what.describe(None)}", what)

    def _check_session(self, frame: Frame) -> None:
        """Check the session, which the device reports with every broken frame."""
        session = int.from_bytes(frame.payload[:4], "little")
        if session == self._run:
            return
        if session == 0:
            raise SessionLost("the device has restarted")
        raise SessionLost("confused" if session in self._old_runs else "another client")

    def _refused(self, command: int, payload: bytes) -> Exception:
        reason = payload[0] if payload else 0
        detail = int.from_bytes(payload[1:5], "little", signed=True)
        if reason == Refusal.SEQUENCE:
            return SessionLost("confused")
        words = {
            Refusal.COMMAND: "it does not know this command: build and flash the firmware again",
            Refusal.PAYLOAD: "the request does not fit the bundle: this is a bug of glowembed",
            Refusal.STATUS: f"the bundle returned error {detail}; its header says what that means",
            Refusal.OVERRUN: f"the bundle wrote outside its arena (nearest changed byte: {detail})",
            Refusal.STACK: "the stack ran out: raise stack_size in board.toml",
            Refusal.ABSENT: "its firmware cannot do that",
        }
        said = words.get(Refusal(reason), "") if reason in set(Refusal) else f"reason {reason}"
        return Refused(f"{self.line.name}: the device refuses {_name(command)}: {said}", reason, detail)

    def _send(self, command: int, sequence: int, payload: bytes, again: bool) -> None:
        """Send a frame, after a zero if the line may hold half a frame."""
        data = protocol.encode(self._run, command, sequence, payload)
        self._write(b"\0" + data if again else data)

    def _write(self, data: bytes) -> None:
        self.line.write(data)
        self.traffic.sent += len(data)

    def _next(self, seconds: float) -> Frame | protocol.Noise | None:
        """The next frame or piece of noise, or None after this many seconds without one."""
        end = time.monotonic() + seconds
        while not self._frames:
            left = end - time.monotonic()
            if left <= 0:
                return None
            data = self.line.read(left)
            self.traffic.received += len(data)
            runs = (self._run, 0) if self._run else (0,)
            self._frames += [protocol.decode(piece, runs) for piece in self._splitter.feed(data)]
        return self._frames.pop(0)
