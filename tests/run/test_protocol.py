"""The frames of the serial line: the same vectors for Python and C, and what neither may take for a frame."""

from __future__ import annotations

import ctypes
import json
import subprocess

import pytest
from checkout import ROOT
from hypothesis import given
from hypothesis import strategies as st

from glowembed.run import protocol
from glowembed.run.protocol import Frame, Noise, Splitter

VECTORS = json.loads((ROOT / "tests/vectors/frames.json").read_text())

# Cheshire and Baker, "Consistent Overhead Byte Stuffing", and its encyclopaedia entry.
COBS = [
    ("", "01"),
    ("00", "0101"),
    ("0000", "010101"),
    ("11220033", "0311220233"),
    ("11223344", "0511223344"),
    ("11000000", "0211010101"),
    (bytes(range(1, 255)).hex(), "ff" + bytes(range(1, 255)).hex()),
    (bytes(range(255)).hex(), "01ff" + bytes(range(1, 255)).hex()),
    (bytes(range(1, 256)).hex(), "ff" + bytes(range(1, 255)).hex() + "02ff"),
    ((bytes(range(2, 256)) + b"\0").hex(), "ff" + bytes(range(2, 256)).hex() + "0101"),
]


@pytest.mark.parametrize(("data", "encoded"), COBS)
def test_cobs(data: str, encoded: str) -> None:
    assert protocol.cobs_encode(bytes.fromhex(data)).hex() == encoded
    assert protocol.cobs_decode(bytes.fromhex(encoded)) == bytes.fromhex(data)


@pytest.mark.parametrize("broken", ["02", "0511", "ff01", "0100", "00"])
def test_no_cobs(broken: str) -> None:
    assert protocol.cobs_decode(bytes.fromhex(broken)) is None


def test_crc_is_that_of_the_standard() -> None:
    assert protocol.crc32(0, b"123456789") == 0xCBF43926  # the check value of CRC-32/ISO-HDLC


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: v["name"])
def test_vectors_in_python(vector: dict[str, str | int]) -> None:
    payload = bytes.fromhex(vector["payload"])
    line = protocol.encode(vector["run_id"], vector["command"], vector["sequence"], payload)
    assert line.hex() == vector["line"]
    frame = Frame(vector["command"], vector["sequence"], payload, vector["run_id"])
    assert protocol.decode(line[:-1], (vector["run_id"],)) == frame
    assert isinstance(protocol.decode(line[:-1], (vector["run_id"] ^ 1,)), Noise)


@given(st.binary(max_size=700), st.integers(0, 2**32 - 1), st.integers(0, 255), st.integers(0, 65535))
def test_round_trip(payload: bytes, run: int, command: int, sequence: int) -> None:
    line = protocol.encode(run, command, sequence, payload)
    assert line.count(0) == 1
    assert len(line) <= len(payload) + 7 + 2 + (len(payload) + 7) // 254
    assert protocol.decode(line[:-1], (run,)) == Frame(command, sequence, payload, run)


@given(st.binary(max_size=300))
def test_no_bytes_break_the_parser(data: bytes) -> None:
    splitter = Splitter()
    for piece in splitter.feed(data) + splitter.feed(b"\0"):
        assert 0 not in piece
        assert isinstance(protocol.decode(piece, (1, 2)), Frame | Noise)


@given(st.binary(max_size=64), st.data())
def test_a_flipped_bit_is_noticed(payload: bytes, data: st.DataObject) -> None:
    line = bytearray(protocol.encode(7, 2, 3, payload))
    at = data.draw(st.integers(0, len(line) - 2))
    line[at] ^= 1 << data.draw(st.integers(0, 7))
    for piece in Splitter().feed(bytes(line)):
        assert isinstance(protocol.decode(piece, (7, 0)), Noise)


@given(st.lists(st.binary(max_size=40), max_size=5), st.binary(max_size=20))
def test_frames_are_found_after_garbage(payloads: list[bytes], garbage: bytes) -> None:
    line = garbage + b"\0" + b"".join(protocol.encode(9, 1, n, p) for n, p in enumerate(payloads))
    frames = [f for piece in Splitter().feed(line) if isinstance(f := protocol.decode(piece, (9,)), Frame)]
    assert [frame.payload for frame in frames][-len(payloads) :] == payloads or not payloads


class Receiver(ctypes.Structure):
    """The struct ge_receiver."""

    _fields_ = [
        ("bytes", ctypes.c_char_p),
        ("size", ctypes.c_uint32),
        ("count", ctypes.c_uint32),
        *((name, ctypes.c_uint8) for name in ("code", "left", "broken")),
    ]


WRITE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint8), ctypes.c_uint32)


class Port(ctypes.Structure):
    """The struct ge_port."""

    _fields_ = [("write", WRITE), ("context", ctypes.c_void_p)]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    out = tmp_path_factory.mktemp("protocol") / "protocol.so"
    flags = (
        "-std=c99 -O1 -fPIC -shared -Wall -Wextra -Wpedantic -Wconversion -Wmissing-prototypes -Wshadow -Werror".split()
    )
    subprocess.run(["cc", *flags, "-o", str(out), str(ROOT / "runtime_c/harness/protocol.c")], check=True)
    return ctypes.CDLL(str(out))


def c_encode(library: ctypes.CDLL, run: int, command: int, sequence: int, payload: bytes) -> bytes:
    out = bytearray()
    port = Port(WRITE(lambda _, data, count: out.extend(data[:count])), None)
    library.ge_send(ctypes.byref(port), ctypes.c_uint32(run), command, sequence, payload, len(payload))
    return bytes(out)


def c_decode(library: ctypes.CDLL, line: bytes) -> list[bytes | int]:
    """The result of each byte: whole frames as bytes, BROKEN as -2."""
    buffer = ctypes.create_string_buffer(1024)
    receiver = Receiver(ctypes.cast(buffer, ctypes.c_char_p), 1024)
    library.ge_receiver_clear(ctypes.byref(receiver))
    found: list[bytes | int] = []
    for byte in line:
        count = library.ge_receive(ctypes.byref(receiver), byte)
        if count != -1:
            found.append(buffer.raw[:count] if count >= 0 else count)
    return found


@pytest.mark.cc
def test_vectors_in_c(library: ctypes.CDLL) -> None:
    for vector in VECTORS:
        payload, line = bytes.fromhex(vector["payload"]), bytes.fromhex(vector["line"])
        assert c_encode(library, vector["run_id"], vector["command"], vector["sequence"], payload) == line
        (body,) = c_decode(library, line)
        assert body == protocol.cobs_decode(line[:-1])


@pytest.mark.cc
def test_c_and_python_agree(library: ctypes.CDLL) -> None:
    @given(st.binary(max_size=600), st.integers(0, 2**32 - 1))
    def sends(payload: bytes, run: int) -> None:
        assert c_encode(library, run, 3, 4, payload) == protocol.encode(run, 3, 4, payload)

    @given(st.lists(st.integers(0, 6) | st.integers(0, 255), max_size=60).map(bytes))
    def receives(data: bytes) -> None:
        found = c_decode(library, data + b"\0")
        expected = [protocol.cobs_decode(piece) for piece in Splitter().feed(data + b"\0")]
        assert found == [-2 if body is None else body for body in expected]

    sends()
    receives()
