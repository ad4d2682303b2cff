"""A shelf of emulated boards behind a real labgrid on this computer: places with a serial line at a TCP port, a power switch, and a tool that
flashes them.

In: the number of places, and what goes wrong at each flashing, in order. The boards are mps2-an386 in QEMU. The switches are those that
labgrid calls `rest`; the tool is a script that hands the firmware over by HTTP.
"""

from __future__ import annotations

import os
import random
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import yaml
from faulty_line import Faults, FaultyLine

from glowembed import resources
from glowembed.graph.target import load_board
from glowembed.run import qemu
from glowembed.run.line import LineClosed, qemu_line

BOARD = "mps2-an386"
NOISE = Faults(drop=2e-4, corrupt=2e-4, duplicate=2e-4, banner_noise=40)
TOOL = """import sys, urllib.request
request = urllib.request.Request(sys.argv[3] + "/flash/" + sys.argv[2], open(sys.argv[1], "rb").read(), method="PUT")
try:
    urllib.request.urlopen(request)
except OSError as error:
    sys.exit(f"lost the target: {error}")
"""
EXPORTS = """{name}:
  NetworkSerialPort: {{host: 127.0.0.1, port: {port}, speed: 115200, protocol: raw}}
  NetworkPowerPort: {{model: rest, host: "{url}/relay/{{index}}", index: {index}}}
"""


class EmulatedBoard:
    """A board at a TCP port, which serves one client after the other. firmware: an ELF file; None: its flash is empty."""

    def __init__(self) -> None:
        self.firmware: Path | None = None
        self.fault = ""
        self.on = True
        self.server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.server.getsockname()[1]
        self._started = 0
        threading.Thread(target=self._serve, daemon=True).start()

    def restart(self) -> None:
        """Start again with the firmware in flash, the next time the board is polled."""
        self._started += 1

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                client = self.server.accept()[0]
                with client, suppress(ConnectionError, LineClosed):
                    while self._pump(client, self._started):
                        pass

    def _pump(self, client: socket.socket, started: int) -> bool:
        """Move bytes until the client leaves (False) or the board starts again (True)."""
        if self.firmware is None or self.fault == "hangs" or not self.on:
            client.settimeout(0.1)
            while started == self._started:
                with suppress(TimeoutError):
                    if not client.recv(4096):
                        return False
            return True
        client.settimeout(0.002)
        with qemu_line(qemu.machine(load_board(BOARD), self.firmware), BOARD) as plain:
            line = FaultyLine(plain, NOISE, random.Random(1)) if self.fault == "noise" else plain
            while started == self._started:
                with suppress(TimeoutError):
                    data = client.recv(4096)
                    if not data:
                        return False
                    line.write(data)
                client.sendall(line.read(0.002))
        return True


class Shelf:
    """The boards by their names, and what goes wrong at the next flashings: "", dies, hangs, wrong, noise, or broken for ever."""

    def __init__(self, folder: Path, names: Sequence[str], faults: Sequence[str]) -> None:
        self.folder, self.boards = folder, {name: EmulatedBoard() for name in names}
        self.faults, self.lock, self.written = deque(faults), threading.Lock(), list[Path]()
        self.happened: list[tuple[str, str]] = []

    def flash(self, name: str, firmware: bytes) -> bool:
        """Write firmware to a board; or do what goes wrong."""
        board = self.boards[name]
        with self.lock:
            if board.fault != "broken":
                board.fault = self.faults.popleft() if self.faults else ""
            self.happened.append((name, board.fault))
            file = self.folder / f"{len(self.happened)}.elf"
            others = [other for other in self.written if other.read_bytes() != firmware]
            file.write_bytes(firmware)
            self.written.append(file)
        if board.fault in ("dies", "broken"):
            board.firmware = None
            return False
        board.firmware = (others[0] if others else None) if board.fault == "wrong" else file
        board.restart()
        return True

    def switch(self, index: int, on: bool) -> None:
        board = list(self.boards.values())[index]
        board.on = on
        if board.fault != "broken":
            board.fault = ""
        board.restart()


def _handler(shelf: Shelf) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            said = self.rfile.read(int(self.headers["Content-Length"]))
            _, what, which = self.path.split("/")
            good = True
            if what == "flash":
                good = shelf.flash(which, said)
            else:
                shelf.switch(int(which), said == b"1")
            self.send_response(200 if good else 500)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            return

    return Handler


@contextmanager
def shelf(folder: Path, count: int, faults: Sequence[str]) -> Iterator[tuple[Shelf, Path]]:
    """The shelf with its coordinator and exporter, and the folder of the board: places p0, p1, ... with the tag chip=m4, and the place `gone`,
    whose port nobody serves.
    """
    names = [f"p{index}" for index in range(count)]
    boards = Shelf(folder, names, faults)
    web = ThreadingHTTPServer(("127.0.0.1", 0), _handler(boards))
    url = f"http://127.0.0.1:{web.server_address[1]}"
    threading.Thread(target=web.serve_forever, daemon=True).start()
    with socket.create_server(("127.0.0.1", 0)) as unused:
        gone = unused.getsockname()[1]
    ports = [*((name, board.port) for name, board in boards.boards.items()), ("gone", gone)]
    exports = (EXPORTS.format(name=name, port=port, url=url, index=index) for index, (name, port) in enumerate(ports))
    (folder / "exports.yaml").write_text("".join(exports))
    with ExitStack() as stack:
        stack.callback(web.server_close)
        stack.callback(web.shutdown)
        for board in boards.boards.values():
            stack.callback(board.server.close)
        _places(folder, names)
        address = _said(_start(stack, folder, "labgrid-coordinator", "-l", "127.0.0.1:0"), "listening on ")
        os.environ["LG_COORDINATOR"] = address
        exporter = _start(stack, folder, "labgrid-exporter", "-c", address, "-n", "here", "exports.yaml")
        _said(exporter, "creating poll task")  # the coordinator has all resources
        yield boards, _board(folder, url)


def _start(stack: ExitStack, folder: Path, *command: str) -> tuple[subprocess.Popen[bytes], Path]:
    """Start a server of labgrid; it, and the file of what it says."""
    log = folder / f"{command[0]}.log"
    with log.open("wb") as said:
        process = stack.enter_context(subprocess.Popen(command, cwd=folder, stdout=said, stderr=said))
    stack.callback(process.terminate)
    return process, log


def _said(started: tuple[subprocess.Popen[bytes], Path], words: str) -> str:
    """Wait until a server has said a line with these words; the rest of the line."""
    process, log = started
    end = time.monotonic() + 120
    while (said := log.read_text(errors="replace")).count(words) == 0 or "\n" not in said.split(words)[1]:
        assert process.poll() is None and time.monotonic() < end, f"no {words!r}: {said}"
        time.sleep(0.05)
    return said.split(words)[1].splitlines()[0]


def _places(folder: Path, names: Sequence[str]) -> None:
    """Write the places into the file that the coordinator keeps them in: a call of labgrid-client takes half a second."""
    matches = {name: [{"exporter": "here", "group": name, "cls": "*"}] for name in (*names, "gone")}
    places = {
        name: {"matches": found, "tags": {"chip": "m4"} if name in names else {}} for name, found in matches.items()
    }
    (folder / "places.yaml").write_text(yaml.safe_dump(places))


def _board(folder: Path, url: str) -> Path:
    """A board like mps2-an386 with a tool that flashes it."""
    made = folder / "shelf-board"
    shutil.copytree(resources.boards() / BOARD, made)
    (folder / "tool.py").write_text(TOOL)
    words = f'command = ["{sys.executable}", "{folder}/tool.py", "{{elf}}", "{{place}}", "{url}"]'
    text = (made / "board.toml").read_text().replace(f'name = "{BOARD}"', 'name = "shelf-board"', 1)
    text = text.replace("../common/", "{common}/")
    head, qemu_table, rest = text.partition("[qemu]")
    (made / "board.toml").write_text(f'{head}[flash]\n{words}\ninstall = "it is here"\n\n{qemu_table}{rest}')
    return made
