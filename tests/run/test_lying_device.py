"""A device with correct frames and wrong contents: every answer that is too short, too long or inconsistent is reported."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import pytest

from glowembed.run import protocol, serial
from glowembed.run.device import HELLO, NUMBERS, TICKS, Device, DeviceError, Malformed, NoAnswer, Refused, Settings
from glowembed.run.protocol import ANSWER, Command, Frame

HASH = 0x1234
TRUTH = {
    Command.INFO: bytes(NUMBERS.size),
    Command.RUN: bytes(3 * TICKS.size),
    Command.LAYERS: bytes(TICKS.size),
    Command.CHECKSUM: bytes(4),
    Command.STACK: bytes(4),
    Command.CALIBRATE: bytes(4 * TICKS.size),
}
CALLS: Mapping[Command, Callable[[Device], object]] = {
    Command.INFO: lambda device: device.info(),
    Command.RUN: lambda device: device.run(1, 0.1),
    Command.LAYERS: lambda device: device.layers(0, 1, 0.1),
    Command.CHECKSUM: lambda device: device.checksum(0, 4),
    Command.STACK: lambda device: device.stack(0.1),
    Command.CALIBRATE: lambda device: device.calibrate(),
}


class Liar:
    """A line to a device that answers requests from a table; a command that is not in it is met with silence."""

    name = "the port"

    def __init__(self, answers: Mapping[int, bytes], refusal: bytes | None = None, hello: bytes | None = None) -> None:
        self.answers, self.refusal, self.hello = answers, refusal, hello
        self.splitter, self.waiting, self.run = protocol.Splitter(), b"", 0

    def write(self, data: bytes) -> None:
        for piece in self.splitter.feed(data):
            frame = protocol.decode(piece, (self.run, 0))
            if isinstance(frame, Frame):
                self.waiting += self.answer(frame)

    def answer(self, frame: Frame) -> bytes:
        if frame.command == Command.HELLO:
            nonce = int.from_bytes(frame.payload, "little")
            told = self.hello or HELLO.pack(protocol.VERSION, nonce, 64, 1, HASH)
            self.run = protocol.run_id(HASH, nonce)
            return protocol.encode(0, Command.HELLO | ANSWER, 0, told[:1] + frame.payload + told[5:])
        if self.refusal is not None:
            return protocol.encode(self.run, Command.REFUSED, frame.sequence, self.refusal)
        if frame.command not in self.answers:
            return b""
        return protocol.encode(self.run, frame.command | ANSWER, frame.sequence, self.answers[frame.command])

    def read(self, seconds: float) -> bytes:
        data, self.waiting = self.waiting, b""
        if not data:
            time.sleep(min(seconds, 0.01))
        return data

    def close(self) -> None:
        pass


def device(line: Liar, patience: float = 1) -> Device:
    found = Device(line, Settings(patience=patience))
    found.hello()
    return found


@pytest.mark.parametrize("command", CALLS)
def test_the_truth_is_taken(command: Command) -> None:
    CALLS[command](device(Liar(TRUTH)))


@pytest.mark.parametrize("change", [-1, 1, None], ids=["a byte less", "a byte more", "nothing"])
@pytest.mark.parametrize("command", CALLS)
def test_an_answer_of_another_length_is_told(command: Command, change: int | None) -> None:
    size = 0 if change is None else len(TRUTH[command]) + change
    with pytest.raises(
        Malformed, match=f"answers {command.name} with {size} bytes, the protocol says {len(TRUTH[command])}"
    ):
        CALLS[command](device(Liar({**TRUTH, command: bytes(size)})))


@pytest.mark.parametrize("size", range(5, HELLO.size))
def test_a_short_hello_is_told(size: int) -> None:
    with pytest.raises(Malformed, match=f"answers HELLO with {size} bytes, the protocol says {HELLO.size}"):
        device(Liar({}, hello=bytes([protocol.VERSION]).ljust(size, b"\1")))


@pytest.mark.parametrize("payload", [b"", b"\0", b"\xff", b"\3", b"\4\1\2"])
def test_any_refusal_is_told(payload: bytes) -> None:
    with pytest.raises(Refused, match="the device refuses STACK"):
        device(Liar({}, refusal=payload)).stack(0.1)


def test_what_a_device_says_of_itself_is_printable() -> None:
    """A name with escape codes would otherwise move the cursor, or set the title, of the terminal."""

    class Named(Liar):
        def answer(self, frame: Frame) -> bytes:
            if frame.command == Command.INFO and frame.payload != b"\0":
                return protocol.encode(self.run, Command.INFO | ANSWER, frame.sequence, b"\x1b]0;evil\x07\xff\nname")
            return super().answer(frame)

    info = device(Named(TRUTH)).info()
    assert info.name == r"\x1b]0;evil\x07\xff\nname"
    assert all(text.isprintable() for text in (info.hash, info.target, info.board, info.name))


def test_silence_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """A device that says hello and then nothing is given up after twice the expected time and the patience."""
    found = device(Liar({}), patience=0.3)
    begun = time.monotonic()
    with pytest.raises(Exception, match="no answer to any request"):
        found.stack(0.2)
    assert time.monotonic() - begun < 30
    with pytest.raises(NoAnswer):
        Device(Scripted(), Settings(patience=0.2)).hello()


MANIFEST = {"hash": "0" * 64, "name": "net", "layers": [], "inputs": [], "outputs": []}


def test_silence_after_hello_ends_a_whole_step() -> None:
    """The limit holds for the whole step, not only for one request: the session is restarted after each, as a command
    does.
    """
    session = serial.Session(Device(Liar({}), Settings(patience=0.2)), MANIFEST, None)
    begun = time.monotonic()
    with pytest.raises(NoAnswer, match="says hello, but answers no request"):
        session.step(lambda device: None)
    assert time.monotonic() - begun < 30


class Scripted(Liar):
    def __init__(self) -> None:
        super().__init__({})

    def answer(self, frame: Frame) -> bytes:
        return b""


def test_errors_of_devices_are_told_to_users() -> None:
    assert issubclass(Malformed, DeviceError)
    assert Malformed("x").exit_code == 4
