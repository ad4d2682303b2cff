"""Opens lines of bytes to a device. In: the name of a port, or a program. Out: a Line: read, write, close.

A port is what pyserial opens (/dev/ttyACM0, COM3, a pty, rfc2217://...), or socket://host:port. A program is an emulator,
whose UART is a socket, or one that talks on its standard input and output.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

import serial

from glowembed.errors import ToolError, UsageError

CHUNK = 65536
CONNECT_SECONDS = 10.0
LINGER_SECONDS = 2.0


class LineClosed(ToolError):
    """The other end has closed the line."""


class Line(Protocol):
    """An open line. `name`: for messages."""

    name: str

    def read(self, seconds: float) -> bytes:
        """The bytes that have arrived, after waiting at most this long for the first one. Raises LineClosed."""

    def write(self, data: bytes) -> None:
        """Send all bytes. Raises LineClosed."""

    def close(self) -> None:
        """Close the line. It may be called twice."""


class FileLine:
    """A line over file descriptors: a socket, pipes, or a terminal."""

    def __init__(self, name: str, reader: int, writer: int) -> None:
        self.name, self._reader, self._writer = name, reader, writer
        os.set_blocking(writer, False)

    def read(self, seconds: float) -> bytes:
        if not _ready(self._reader, select.POLLIN, seconds):
            return b""
        try:
            data = os.read(self._reader, CHUNK)
        except BlockingIOError:
            return b""
        except OSError:
            data = b""
        if not data:
            raise LineClosed(f"{self.name}: the line was closed at the other end")
        return data

    def write(self, data: bytes) -> None:
        """Send all bytes. If a device takes no bytes for LINGER_SECONDS, the rest is dropped, and the protocol asks
        again.
        """
        end = time.monotonic() + LINGER_SECONDS
        while data and time.monotonic() < end:
            if not _ready(self._writer, select.POLLOUT, 0.1):
                continue
            try:
                data = data[os.write(self._writer, data) :]
            except BlockingIOError:
                continue
            except OSError as error:
                raise LineClosed(f"{self.name}: the line was closed at the other end") from error

    def close(self) -> None:
        return


def _ready(descriptor: int, event: int, seconds: float) -> bool:
    """Whether the descriptor becomes readable, writable or closed within this time. poll() is used because select()
    takes only numbers below 1024.
    """
    poll = select.poll()
    poll.register(descriptor, event)
    return bool(poll.poll(max(0.0, seconds) * 1000))


class SocketLine(FileLine):
    """A line over a stream socket."""

    def __init__(self, name: str, end: socket.socket) -> None:
        self._socket = end
        if end.family != socket.AF_UNIX:
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        super().__init__(name, end.fileno(), end.fileno())

    def close(self) -> None:
        self._socket.close()


class PortLine:
    """A port that pyserial opens for exclusive use."""

    def __init__(self, name: str, port: serial.SerialBase) -> None:
        self.name, self._port = name, port

    def read(self, seconds: float) -> bytes:
        try:
            self._port.timeout = max(0.0, seconds)
            first: bytes = self._port.read(1)
            return first + self._port.read(self._port.in_waiting) if first else b""
        except (OSError, TypeError, AttributeError) as error:  # pyserial's own is an OSError
            raise LineClosed(f"{self.name}: the port is gone ({error}); was it unplugged?") from error

    def write(self, data: bytes) -> None:
        try:
            self._port.write(data)
        except serial.SerialTimeoutException:
            return
        except (OSError, TypeError, AttributeError) as error:
            raise LineClosed(f"{self.name}: the port is gone ({error}); was it unplugged?") from error

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._port.close()


def open_port(name: str, baud: int = 115200) -> Line:
    """The line of a port. Raises UsageError if the port is missing, not accessible, or in use."""
    if name.startswith("socket://"):
        return _open_socket(name)
    try:
        port = serial.serial_for_url(name, baudrate=baud, timeout=0, do_not_open=True)
        if isinstance(port, serial.Serial):
            port.exclusive, port.write_timeout = True, LINGER_SECONDS
        port.open()
    except (OSError, ValueError) as error:
        raise UsageError(_why_not(name, error)) from error
    return PortLine(name, port)


def _why_not(name: str, error: Exception) -> str:
    text = str(error)
    if "exclusively lock" in text or "Resource temporarily unavailable" in text:
        return f"{name} is in use by another program (a terminal, another glowembed?): close that first"
    if "Permission" in text:
        return (
            f"{name}: permission denied; add yourself to its group: sudo usermod -aG dialout $USER, then log in again"
        )
    if "No such file" in text:
        return f"{name} does not exist; 'glowembed ports' lists the ports there are"
    if "could not configure port" in text.lower():
        return f"{name} is no serial port; 'glowembed ports' lists the ports there are"
    if "could not open" in text:
        return f"{name} cannot be opened ({text}); 'glowembed ports' lists the ports there are"
    return f"{name} cannot be opened: {text}"


def _open_socket(name: str) -> Line:
    host, colon, port = name.removeprefix("socket://").rpartition(":")
    if not colon or not port.isdigit():
        raise UsageError(f"{name}: expected socket://HOST:PORT")
    try:
        return SocketLine(name, socket.create_connection((host, int(port)), CONNECT_SECONDS))
    except OSError as error:
        raise UsageError(f"{name}: nothing listens there ({error.strerror or error})") from error


@contextlib.contextmanager
def qemu_line(command: Sequence[str], name: str) -> Iterator[Line]:
    """The UART of an emulator: `command` is run with `-serial` added, and ends with the context."""
    if shutil.which(command[0]) is None:
        raise ToolError(f"{command[0]} is not there; please install it", command[0])
    with tempfile.TemporaryDirectory(prefix="glowembed-") as folder, socket.socket(socket.AF_UNIX) as listener:
        place = Path(folder)
        listener.bind(str(place / "uart"))
        listener.listen(1)
        listener.settimeout(CONNECT_SECONDS)
        words = [*command, "-chardev", f"socket,id=uart,path={place / 'uart'}", "-serial", "chardev:uart"]
        with (place / "said").open("wb") as said:
            process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
        try:
            line = _accept(listener, process, place / "said", name)
            try:
                yield line
            finally:
                line.close()
        finally:
            process.kill()
            process.wait()


def _accept(listener: socket.socket, process: subprocess.Popen[bytes], said: Path, name: str) -> Line:
    try:
        return SocketLine(name, listener.accept()[0])
    except TimeoutError as error:
        words = said.read_text(errors="replace").strip()[-500:] or f"exit code {process.poll()}"
        raise ToolError(f"{name}: the emulator does not start: {words}") from error


@contextlib.contextmanager
def program_line(command: Sequence[str], name: str) -> Iterator[Line]:
    """Standard input and output of a program, which ends with the context."""
    process = subprocess.Popen(
        list(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0
    )
    assert process.stdin is not None, "asked for"
    assert process.stdout is not None, "asked for"
    try:
        yield FileLine(name, process.stdout.fileno(), process.stdin.fileno())
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()
