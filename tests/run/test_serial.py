"""Devices at the end of a line: real firmware with real UART models in QEMU, good lines and bad ones."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import fake_bundle
import numpy as np
import pytest
from faulty_line import Faults, FaultyLine, Monitor

from glowembed.errors import UsageError
from glowembed.graph.target import board_names, load_board
from glowembed.image import elf
from glowembed.image.build import Image, build
from glowembed.image.glue import GUARD_BYTES, read_manifest
from glowembed.run import protocol, qemu, serial
from glowembed.run.device import Device, DeviceError, DeviceFault, NoAnswer, Refused, Settings, WrongFirmware
from glowembed.run.line import FileLine, Line, LineClosed, open_port, program_line, qemu_line
from glowembed.run.pieces import Piece, pieces
from glowembed.run.store import Store, key

BOARDS = [name for name in board_names() if load_board(name).qemu is not None]
SAMPLES = fake_bundle.samples(5)
RIGHT = fake_bundle.reference(SAMPLES)[1]


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """`make(board, source)`: the firmware of a hand-written bundle that talks over its UART."""
    made: dict[tuple[str, str], Image] = {}

    def firmware(board: str, source: str = fake_bundle.ADD_AND_DOUBLE) -> Image:
        if (board, source) not in made:
            place, folder = load_board(board), tmp_path_factory.mktemp(board)
            bundle = fake_bundle.write(folder / "bundle", place.target, source)
            made[board, source] = build(bundle, place, folder / "build", "serial")
        return made[board, source]

    return firmware


@contextmanager
def line_to(image: Image, monitor: Monitor | None = None) -> Iterator[Line]:
    if image.board.name == "host":
        context = program_line([str(image.elf)], "the harness")
    else:
        context = qemu_line([*qemu.machine(image.board, image.elf), *(monitor.words if monitor else [])], "the board")
    with context as line:
        yield line


def session_on(line: Line, image: Image, patience: float = 10.0) -> serial.Session:
    return serial.open_session(line, image, read_manifest(image.bundle), Settings(patience=patience))


def results(session: serial.Session) -> np.ndarray:
    return serial.run(session, SAMPLES, Store()).outputs[0]


@pytest.mark.arm_gcc
@pytest.mark.qemu
@pytest.mark.parametrize("board", BOARDS)
def test_every_board_through_its_uart(make: Any, tmp_path: Path, board: str) -> None:
    image = make(board)
    with line_to(image) as line:
        session = session_on(line, image)
        result = serial.run(session, SAMPLES, Store(), board=image.board)
        assert np.array_equal(result.outputs[0], RIGHT)
        info = session.device.info()
        assert (info.board, info.target, info.name) == (board, image.board.target, "fake")
        assert info.clock_hz == image.board.clock_hz
        weights = serial.weights_of(image.elf)
        assert weights.data[:8] == bytes([1] * 8)
        assert weights.constants == (("fake_weights", 0, 8),)
        assert serial.locate(session, SAMPLES[0].tobytes(), layers_of(0), where(image)) is None
        assert serial.constants_that_differ(session, weights) == ()
    files = build(image.bundle, image.board, tmp_path / "build", "semihosting")
    bulk = qemu.run(files, read_manifest(image.bundle), SAMPLES, layers=True)
    whole = qemu.run(files, read_manifest(image.bundle), SAMPLES)
    assert result.instructions in (whole.instructions, whole.instructions_least)
    assert result.layer_instructions is not None
    assert len(result.layer_instructions) == len(bulk.layer_instructions or ())
    assert result.stack == whole.stack


def layers_of(index: int) -> dict[str, bytes]:
    a, y = fake_bundle.reference(SAMPLES[index : index + 1])
    return {"a": a.tobytes(), "y": y.tobytes()}


def where(image: Image) -> list[Piece]:
    return pieces(read_manifest(image.bundle))


@pytest.mark.cc
def test_requests(make: Any) -> None:
    image = make("host")
    with line_to(image) as line:
        device = Device(line)
        device.hello()
        info = device.info()
        assert (info.layers, info.arena_size, info.hash) == (2, 24, read_manifest(image.bundle)["hash"])
        data = bytes(range(256)) * 2
        assert device.echo(data) == data
        device.write(0, SAMPLES[0].tobytes())
        device.layers(0, 1, 1)
        assert device.read(8, 8) == layers_of(0)["a"]
        for refused in (
            lambda: device.write(20, bytes(8)),
            lambda: device.read(24, 1),
            lambda: device.layers(1, 2, 1),
            lambda: device.layers(0, 0, 1),
            lambda: device.checksum(0, 25),
            lambda: device.request(77),
            lambda: device.request(protocol.Command.WRITE, b"\0"),
        ):
            with pytest.raises(Refused, match="refuses"):
                refused()


@pytest.mark.cc
def test_a_request_is_done_once_however_often_it_comes(make: Any) -> None:
    """The second answer must come from memory: the input has been overwritten by then."""
    source = fake_bundle.whole("int32_t fake_run(void *a) { uint8_t *b = a; ++b[0]; b[16] = b[0]; return 0; }")
    image = make("host", source)
    with line_to(image) as line:
        device = Device(line)
        device.hello()
        first = device.infer(0, b"\x05" + bytes(7), False, 1)
        again = protocol.encode(device._run, protocol.Command.INFER, 1, b"\0\0\0\0\x05" + bytes(7))
        line.write(b"\0" + again + again)
        line.write(protocol.encode(device._run, protocol.Command.AGAIN, 1))
        splitter, answers, end = protocol.Splitter(), list[protocol.Frame](), time.monotonic() + 60
        while len(answers) < 3 and time.monotonic() < end:
            found = [protocol.decode(piece, (device._run,)) for piece in splitter.feed(line.read(0.1))]
            answers += [answer for answer in found if isinstance(answer, protocol.Frame)]
        assert [(answer.sequence, answer.payload) for answer in answers] == [(1, first)] * 3
        assert device.read(0, 1) == b"\x06"
        assert first[0] == 6
        line.write(again)  # an old one: it must be refused
        assert device.read(0, 1) == b"\x06"


@pytest.mark.cc
def test_only_what_the_device_lacks_is_sent_again(make: Any) -> None:
    """An answer that is late costs a short question, a request that was lost is sent a second time."""
    image = make("host")
    with line_to(image) as line:
        device = Device(line)
        device.hello()
        data = bytes(range(1, 201))
        read, write, sent = line.read, line.write, list[int]()

        def write_counted(data: bytes) -> None:
            sent.append(len(data))
            write(data)

        def lose(data: bytes) -> None:
            sent.append(len(data))
            line.write = write_counted  # type: ignore[method-assign]

        def silent(seconds: float) -> bytes:
            line.read = read  # type: ignore[method-assign]
            time.sleep(seconds)
            return b""

        line.write, line.read = write_counted, silent  # type: ignore[method-assign]
        assert device.echo(data) == data
        assert len(sent) == 2
        assert sent[1] < 16 < len(data) < sent[0]
        sent.clear()
        line.write = lose  # type: ignore[method-assign]
        assert device.echo(data) == data
        assert len(sent) == 3
        assert sent[1] < 16 < len(data) < sent[2]


FAULTS = {
    "drop 1 %": Faults(drop=0.01),
    "drop 0.1 %": Faults(drop=0.001),
    "duplicate 1 %": Faults(duplicate=0.01),
    "corrupt 1 %": Faults(corrupt=0.01),
    "corrupt 0.01 %": Faults(corrupt=0.0001),
    "reorder 1 %": Faults(reorder=0.01),
    "noise": Faults(noise=0.002),
    "noise before the banner": Faults(banner_noise=400),
    "late": Faults(late=0.4, late_share=0.2),
    "everything": Faults(0.001, 0.001, 0.001, 0.001, 0.0005, banner_noise=50),
}


@pytest.mark.arm_gcc
@pytest.mark.qemu
@pytest.mark.parametrize("name", FAULTS)
def test_right_results_over_a_bad_line(make: Any, name: str) -> None:
    image = make("mps2-an386")
    with line_to(image) as line:
        session = session_on(FaultyLine(line, FAULTS[name], random.Random(name)), image)
        assert np.array_equal(results(session), RIGHT)


@pytest.mark.arm_gcc
@pytest.mark.qemu
def test_a_device_that_restarts(make: Any, tmp_path: Path) -> None:
    image = make("mps2-an386")
    monitor = Monitor(tmp_path / "qmp")
    with line_to(image, monitor) as line:
        session = session_on(line, image)
        device = session.device
        assert session.step(lambda d: serial.infer(session, SAMPLES[0].tobytes(), d)) == RIGHT[0].tobytes()
        device.write(0, SAMPLES[1].tobytes())
        monitor.reset()
        assert np.array_equal(results(session), RIGHT)
        assert device.traffic.sessions >= 2
    monitor.close()


@pytest.mark.cc
def test_a_line_that_closes_and_a_run_that_goes_on(make: Any, tmp_path: Path) -> None:
    image = make("host")
    manifest, path = read_manifest(image.bundle), tmp_path / "results"
    with line_to(image) as line:
        store = Store(path, key(manifest["hash"], SAMPLES))
        closing = FaultyLine(line, Faults(), random.Random(1))

        def close_in_the_third() -> None:
            closing.faults = Faults(close_after=closing.received + 3) if len(store.done) == 2 else Faults()

        closing.on_piece = close_in_the_third
        with pytest.raises(LineClosed, match="closed at the other end"):
            serial.run(session_on(closing, image), SAMPLES, store)
        store.close(finished=False)
        assert len(store.done) == 2
    with path.open("ab") as file:
        file.write(b"half a record")
    with line_to(image) as line:
        session = session_on(line, image)
        store = Store(path, key(manifest["hash"], SAMPLES), resume=True)
        assert len(store.done) == 2
        assert np.array_equal(serial.run(session, SAMPLES, store).outputs[0], RIGHT)
        store.close(finished=True)
    assert not path.exists()
    other = Store(path, key(manifest["hash"], SAMPLES[:2]), resume=True)
    other.close(finished=True)
    assert not other.done


@pytest.mark.cc
@pytest.mark.parametrize(
    ("faults", "words"), [(Faults(deaf=True), "READY but does not answer"), (Faults(garble=True), "wrong baud rate")]
)
def test_no_way_through(make: Any, faults: Faults, words: str) -> None:
    image = make("host")
    begun = time.monotonic()
    with line_to(image) as line, pytest.raises(NoAnswer, match=words):
        session_on(FaultyLine(line, faults, random.Random(0)), image, patience=1).step(lambda d: None)
    assert time.monotonic() - begun < 5


class Scripted(FileLine):
    """A line whose other end is a function from sent bytes to answered bytes."""

    def __init__(self, answer: Any) -> None:
        self.answer, self.name, self.waiting = answer, "the port", b""

    def read(self, seconds: float) -> bytes:
        data, self.waiting = self.waiting, b""
        if not data:
            time.sleep(min(seconds, 0.05))
        return data

    def write(self, data: bytes) -> None:
        self.waiting += self.answer(data)


OTHERS = {
    "silence": (lambda data: b"", "no answer within 1 s. Check that the board has power"),
    "a shell": (lambda data: b"login: \r\nPassword: \r\n", "something else answers there: 'login:"),
    "an echo": (lambda data: data, "gives back what we send"),
    "zeros": (lambda data: b"\0\0\0", "no answer within 1 s"),
    "other frames": (lambda data: bytes([0x80, 0xFE, 0x91, 0]) * 9, "wrong baud rate"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_somebody_else_answers(name: str) -> None:
    answer, words = OTHERS[name]
    with pytest.raises(NoAnswer, match=words):
        Device(Scripted(answer), Settings(patience=1)).hello()


def test_another_version_of_the_protocol() -> None:
    nonce = (5).to_bytes(4, "little")
    answer = protocol.encode(0, protocol.Command.HELLO | protocol.ANSWER, 0, b"\x63" + nonce + bytes(30))
    with pytest.raises(WrongFirmware, match="speaks version 99 of the protocol"):
        Device(Scripted(lambda data: answer), Settings(nonce=lambda: 5)).hello()


@pytest.mark.cc
def test_another_bundle_is_refused(make: Any) -> None:
    image = make("host")
    other = dict(read_manifest(image.bundle)) | {"hash": "ff" * 32, "name": "kws"}
    with line_to(image) as line, pytest.raises(WrongFirmware, match=r"runs the bundle 'fake' .* --flash"):
        serial.open_session(line, image, other).step(lambda d: None)


@pytest.mark.cc
def test_two_clients_on_one_line(make: Any) -> None:
    """They share the line itself here, as two programs on a bus would."""
    image = make("host")
    with line_to(image) as line:
        first, other = session_on(line, image), Device(line)
        first.step(lambda d: None)

        def in_turns() -> None:
            for _ in range(10):
                other.hello()
                first.step(lambda d: serial.infer(first, SAMPLES[0].tobytes(), d))

        with pytest.raises(DeviceError, match="another client"):
            in_turns()


def test_a_port_is_ours_alone() -> None:
    _, slave = os.openpty()
    name = os.ttyname(slave)
    line = open_port(name)
    with pytest.raises(UsageError, match="in use by another program"):
        open_port(name)
    line.close()
    open_port(name).close()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("/dev/ttyNONE", "glowembed ports"),
        ("socket://localhost", "expected socket://HOST:PORT"),
        ("socket://127.0.0.1:1", "nothing listens"),
        ("nonsense://x", "cannot be opened"),
    ],
)
def test_ports_that_are_not_there(name: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        open_port(name)


UNDEFINED = 'int32_t fake_run(void *arena) { (void)arena; __asm__ volatile("udf #0"); return 0; }'


@pytest.mark.arm_gcc
@pytest.mark.qemu
@pytest.mark.parametrize(("board", "cause"), [("mps2-an386", "undefined instruction"), ("microbit", "gives no cause")])
def test_a_fault_is_reported_with_place_and_cause(make: Any, board: str, cause: str) -> None:
    image = make(board, fake_bundle.whole(UNDEFINED))
    with line_to(image) as line:
        for _ in range(2):  # it is told again to whoever asks
            with pytest.raises(DeviceFault) as error:
                results(session_on(line, image))
            assert "raised HardFault at pc=0x" in str(error.value)
            assert "(fake_run+0x" in str(error.value)
            assert cause in str(error.value)


@pytest.mark.cc
@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("(void)arena; return -2;", "the bundle returned error -2"),
        ("((uint8_t *)arena)[24] = 1; return 0;", "wrote outside its arena .nearest changed byte: 1"),
    ],
)
def test_a_bundle_that_fails(make: Any, body: str, words: str) -> None:
    image = make("host", fake_bundle.whole(f"int32_t fake_run(void *arena) {{ {body} }}"))
    with line_to(image) as line, pytest.raises(Refused, match=words):
        results(session_on(line, image))


@pytest.mark.arm_gcc
@pytest.mark.qemu
def test_a_flipped_weight_is_found(make: Any, tmp_path: Path) -> None:
    image = make("mps2-an386")
    program, weights = image.elf.read_bytes(), bytes([1] * 8)
    assert program.count(weights) == 1
    (tmp_path / "flipped.elf").write_bytes(program.replace(weights, bytes([1, 1, 3, 1, 1, 1, 1, 1])))
    flipped = replace(image, elf=tmp_path / "flipped.elf")
    with line_to(flipped) as line:
        session = session_on(line, flipped)
        assert not np.array_equal(results(session), RIGHT)
        found = serial.locate(session, SAMPLES[0].tobytes(), layers_of(0), where(image))
        constants = serial.constants_that_differ(session, serial.weights_of(image.elf))
    assert found is not None
    assert (found.layer, constants, found.expected) == (0, ("fake_weights",), layers_of(0)["a"])


@pytest.mark.arm_gcc
@pytest.mark.qemu
def test_a_wrong_constant_in_a_kernel_is_found(make: Any) -> None:
    image = make("mps2-an386", fake_bundle.ADD_AND_DOUBLE.replace("2 * x[8 + i]", "3 * x[8 + i]"))
    with line_to(image) as line:
        session = session_on(line, image)
        found = serial.locate(session, SAMPLES[0].tobytes(), layers_of(0), where(image))
        constants = serial.constants_that_differ(session, serial.weights_of(image.elf))
    assert found is not None
    assert (found.layer, found.value, constants) == (1, "y", ())


@pytest.mark.arm_gcc
def test_the_harness_is_small(make: Any) -> None:
    """On a Cortex-M4, with chunks of 512 bytes; code and constants of runtime_c/harness, variables without the arena."""
    objects = (make("mps2-an386").elf.parent / "obj/harness").glob("*.o")
    total = sum((elf.sizes(path) for path in objects if path.stem != "ge_bundle"), elf.Sizes())
    assert total.code + total.rodata + total.data <= 4096
    assert total.data + total.bss + GUARD_BYTES * 2 <= 1024
