"""The command line against a board at the end of a port: real firmware in QEMU, reached by a terminal, a socket, RFC 2217,
a labgrid. Ctrl-C and --resume, scons, flash tools.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from json_result import check_json
from serial import rfc2217

from glowembed import resources
from glowembed.__main__ import main
from glowembed.commands import ports
from glowembed.errors import ToolError, UsageError
from glowembed.judge.validation import build_bundle
from glowembed.run import qemu, serial
from glowembed.run.bench import held
from glowembed.run.line import Line, LineClosed, open_port, qemu_line
from glowembed.run.store import RECORD

BOARD = "mps2-an386"
SAMPLES = 20
OUTPUT_BYTES = 10
pytestmark = [
    pytest.mark.arm_gcc,
    pytest.mark.qemu,
    pytest.mark.filterwarnings("ignore:set.* is deprecated:DeprecationWarning"),  # of pyserial
]


@pytest.fixture(scope="module")
def bundle(digits: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile the example."""
    folder = tmp_path_factory.mktemp("ports") / "net"
    words = ["compile", str(digits / "model.onnx"), "--data", str(digits / "data.npz"), "--target", "cortex-m4"]
    assert main([*words, "-o", str(folder)]) == 0
    return folder


@pytest.fixture(scope="module")
def command(bundle: Path) -> list[str]:
    """QEMU with the firmware, its UART still missing."""
    image = build_bundle(bundle, BOARD, transport="serial")
    return qemu.machine(image.board, image.elf)


@pytest.fixture
def validate(bundle: Path, digits: Path, tmp_path: Path) -> Callable[..., tuple[int, dict[str, Any]]]:
    """`validate(port)`: exit code and JSON of the command."""

    def run(port: str, *more: str) -> tuple[int, dict[str, Any]]:
        result = tmp_path / "result.json"
        result.unlink(missing_ok=True)
        code = main([*words(bundle, digits, port), "--json", str(result), *more])
        return code, json.loads(result.read_text()) if result.is_file() else {}

    return run


def words(bundle: Path, digits: Path, port: str) -> list[str]:
    data = ["--data", str(digits / "data.npz"), "--samples", str(SAMPLES)]
    return ["validate", str(bundle), *data, "--board", BOARD, "--port", port]


class Bridge:
    """A TCP server before a Line, for one client after the other. on_bytes: told how many bytes have come from the device."""

    def __init__(self, line: Line, telnet: bool = False) -> None:
        self.line, self.telnet, self.settings = line, telnet, Settings()
        self.received, self.on_bytes = 0, lambda received: None
        self.server = socket.create_server(("127.0.0.1", 0))
        self.port = self.server.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with suppress(OSError, LineClosed):
            while True:
                client = self.server.accept()[0]
                client.settimeout(0.002)
                with client, suppress(ConnectionError):
                    self._pump(client)

    def _pump(self, client: socket.socket) -> None:
        manager = rfc2217.PortManager(self.settings, Writer(client)) if self.telnet else None
        while True:
            with suppress(TimeoutError):
                data = client.recv(4096)
                if not data:
                    return
                self.line.write(b"".join(manager.filter(data)) if manager else data)
            data = self.line.read(0.002)
            self.received += len(data)
            self.on_bytes(self.received)
            client.sendall(b"".join(manager.escape(data)) if manager else data)


class Settings:
    """The settings that RFC 2217 makes at a port."""

    baudrate, bytesize, parity, stopbits = 9600, 8, "N", 1
    xonxoff = rtscts = dsrdtr = dtr = rts = cts = dsr = ri = cd = break_condition = False

    def reset_input_buffer(self) -> None: ...

    def reset_output_buffer(self) -> None: ...


class Writer:
    def __init__(self, client: socket.socket) -> None:
        self.write = client.sendall


@pytest.fixture
def bridge(command: list[str]) -> Iterator[Callable[..., Bridge]]:
    """`bridge()`: the board, reached by a TCP port."""
    with ExitStack() as stack:

        def start(telnet: bool = False) -> Bridge:
            found = Bridge(stack.enter_context(qemu_line(command, BOARD)), telnet)
            stack.callback(found.server.close)
            return found

        yield start


@contextmanager
def terminal(command: list[str]) -> Iterator[str]:
    """The board at a pseudo terminal."""
    with subprocess.Popen([*command, "-serial", "pty"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            found = re.search(r"/dev/pts/\d+", process.stdout.readline())
            assert found
            yield found[0]
        finally:
            process.kill()


def test_a_terminal(
    command: list[str], validate: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ports, "PATIENCE", 60.0)
    with terminal(command) as name:
        code, result = validate(name)
        assert (code, result["bit_exact"], result["transport"]) == (0, True, "serial")
        assert main(["ports", name]) == 0
        assert "bundle 'model' (" in " ".join(capsys.readouterr().out.split())
        line = open_port(name)
        assert validate(name)[0] == 2
        assert "in use by another program" in capsys.readouterr().err
        line.close()


def test_a_socket(bridge: Any, validate: Any) -> None:
    code, result = validate(f"socket://127.0.0.1:{bridge().port}")
    assert (code, result["bit_exact"]) == (0, True)


def test_rfc_2217_sets_the_rate(bridge: Any, validate: Any) -> None:
    server = bridge(telnet=True)
    code, result = validate(f"rfc2217://127.0.0.1:{server.port}", "--baud", "230400")
    assert (code, result["bit_exact"], server.settings.baudrate) == (0, True, 230400)


def results_on_disk(path: Path) -> int:
    """The number of results that a running validation has stored. The bytes on the line do not tell, because a busy
    computer needs more of them.
    """
    records = path.read_bytes().partition(b"\n")[2] if path.is_file() else b""
    return len(records) // (RECORD.size + OUTPUT_BYTES)


def test_ctrl_c_and_resume(
    bridge: Any, validate: Any, bundle: Path, digits: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = bridge()
    port = f"socket://127.0.0.1:{server.port}"
    _, whole = validate(port)
    path = build_bundle(bundle, BOARD, transport="serial").elf.parent / "results"
    process = subprocess.Popen(
        [sys.executable, "-m", "glowembed", *words(bundle, digits, port)],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(resources.PACKAGE.parent)},
    )

    def press_once(received: int) -> None:
        if results_on_disk(path) >= SAMPLES // 4:
            server.on_bytes = lambda received: None
            process.send_signal(signal.SIGINT)

    server.on_bytes = press_once
    said = process.communicate()[1]
    assert process.returncode == 130
    kept = re.fullmatch(rf"error: interrupted\n(\d+) of {SAMPLES} results are on disk: .* --resume goes on\n", said)
    assert kept, said
    code, result = validate(port, "--resume")
    assert (code, result["bit_exact"]) == (0, True)
    assert 0 < int(kept[1]) < SAMPLES
    assert result["line"]["tensors"] < whole["line"]["tensors"]
    assert result["outputs"] == whole["outputs"]


def test_a_line_that_is_cut_says_how_to_go_on(
    bridge: Any, validate: Any, bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = bridge()
    port = f"socket://127.0.0.1:{server.port}"
    path = build_bundle(bundle, BOARD, transport="serial").elf.parent / "results"

    def cut(received: int) -> None:
        if results_on_disk(path) >= SAMPLES // 4:
            server.on_bytes = lambda received: None
            raise ConnectionError

    server.on_bytes = cut
    assert validate(port) == (4, {})
    assert re.search(r"closed at the other end\n\d+ of 20 results are on disk: .* --resume", capsys.readouterr().err)
    code, result = validate(port, "--resume")
    assert (code, result["bit_exact"]) == (0, True)


@pytest.fixture
def openocd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tool that only writes down how it was called."""
    tool = tmp_path / "tools/openocd"
    tool.parent.mkdir()
    tool.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/said\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:{os.environ['PATH']}")
    return tmp_path / "said"


def test_a_port_is_tried_before_anything_is_built_and_flashed(
    bundle: Path, digits: Path, openocd: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [*words(bundle, digits, "socket://127.0.0.1:1"), "--flash", "--build-dir", str(tmp_path / "build")]
    assert main([word.replace(BOARD, "nucleo-l4r5zi") for word in command]) == 2
    assert "nothing listens there" in capsys.readouterr().err
    assert not openocd.exists()
    assert not (tmp_path / "build").exists()


def test_flash_says_what_it_wrote(
    bundle: Path, openocd: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["flash", bundle, "--board", "nucleo-l4r5zi", "--build-dir", tmp_path / "build", "--json", "-"]
    assert main([str(word) for word in words]) == 0
    result = json.loads(capsys.readouterr().out)
    check_json("flash", result)
    assert (tmp_path / "build" / "firmware.elf").samefile(result["elf"])
    assert "firmware.elf verify reset exit" in openocd.read_text()


def scons(cwd: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "SCons", "-Q", "-f", str(resources.sconstruct()), *words]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


def test_scons_validates_and_flashes(bridge: Any, digits: Path, openocd: Path, tmp_path: Path) -> None:
    net = (f"model={digits / 'model.onnx'}", f"data={digits / 'data.npz'}")
    port = f"port=socket://127.0.0.1:{bridge().port}"
    done = scons(tmp_path, "validate", f"board={BOARD}", port, "samples=3", *net)
    assert done.returncode == 0, done.stderr
    assert "bit-exact" in done.stdout
    done = scons(tmp_path, "flash", "board=nucleo-l4r5zi", *net)
    assert done.returncode == 0, done.stderr
    assert "firmware.elf verify reset exit" in openocd.read_text()


PLANS = {"layer by layer": "speed", "row by row": "ram"}
"""`compile --optimize`; in the second, /depthwise/conv/Conv and what follows it keep rows only"""


@pytest.fixture(scope="module", params=PLANS)
def planned(request: pytest.FixtureRequest, digits: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bugs") / "net"
    words = ["compile", str(digits / "model.onnx"), "--data", str(digits / "data.npz"), "--target", "cortex-m4"]
    assert main([*words, "--optimize", PLANS[request.param], "-o", str(folder)]) == 0
    groups = json.loads((folder / "bundle.json").read_text())["schedule"]["groups"]
    assert bool(groups) == (request.param == "row by row")
    return folder


def found_bug(planned: Path, digits: Path, tmp_path: Path, elf: Path) -> dict[str, Any]:
    """The report of validate on the planned bundle when a board runs this firmware instead of the bundle's."""
    image = build_bundle(planned, BOARD, transport="serial")
    with qemu_line(qemu.machine(image.board, elf), BOARD) as line:
        server = Bridge(line)
        command = words(planned, digits, f"socket://127.0.0.1:{server.port}")
        assert main([*command, "--json", str(tmp_path / "result.json")]) == 1
        server.server.close()
    result = json.loads((tmp_path / "result.json").read_text())
    assert not result["bit_exact"]
    first: dict[str, Any] = result["first_difference"]
    return first


@pytest.mark.parametrize("layer", ["/widen/conv/Conv", "/pointwise/conv/Conv", "/classify/Gemm"])
def test_a_flipped_weight_in_flash(
    planned: Path, digits: Path, tmp_path: Path, layer: str, capsys: pytest.CaptureFixture[str]
) -> None:
    image = build_bundle(planned, BOARD, transport="serial")
    weights = serial.weights_of(image.elf)
    name = layer.strip("/").replace("/", "_")
    ((constant, start, size),) = [entry for entry in weights.constants if name in entry[0]]
    program = bytearray(image.elf.read_bytes())
    assert program.count(weights.data) == 1
    program[program.index(weights.data) + start + size // 2] ^= 0x40
    (tmp_path / "flipped.elf").write_bytes(program)
    first = found_bug(planned, digits, tmp_path, tmp_path / "flipped.elf")
    assert (first["layer"], first["constants_in_flash_differ"]) == (layer, [constant])
    assert f"In its flash {constant} " in " ".join(capsys.readouterr().out.split())


KERNEL_BUGS = {
    "/depthwise/conv/Conv": ("ge_dsp_depthwise_rows", "p->out_zero_point", "(p->out_zero_point + 1)"),
    "/average/GlobalAveragePool/sum": ("ge_sum_rows", "y == 0", "y == 1"),
}
"""Layer -> its kernel or the loop of it, a constant in it, and a wrong one"""


@pytest.mark.parametrize(
    ("planned", "layer"),
    [
        ("layer by layer", "/depthwise/conv/Conv"),
        ("row by row", "/depthwise/conv/Conv"),
        ("row by row", "/average/GlobalAveragePool/sum"),
    ],
    indirect=["planned"],
)
def test_a_wrong_constant_in_a_kernel(planned: Path, digits: Path, tmp_path: Path, layer: str) -> None:
    shutil.copytree(planned, tmp_path / "net")
    kernels = tmp_path / "net/model_kernels.h"
    kernel, right, wrong = KERNEL_BUGS[layer]
    before, name, after = re.split(rf"(static void\s{kernel})", kernels.read_text(), maxsplit=1)
    body, end, after = after.partition("\n}\n")
    assert right in body
    kernels.write_text(before + name + body.replace(right, wrong) + end + after)
    image = build_bundle(tmp_path / "net", BOARD, transport="serial")
    first = found_bug(planned, digits, tmp_path, image.elf)
    assert (first["layer"], first["constants_in_flash_differ"]) == (layer, [])


CLIENT = """#!/bin/sh
echo "$@" >> {said}
case $3 in
acquire) [ -z "$TAKEN" ] || {{ echo "labgrid-client: Error: place $2 is taken by bob" >&2; exit 1; }} ;;
env) [ "$TAKEN" != bob ] || exit 1; cat {described} ;;
esac
case $1 in
reserve) echo "token: T allocations: main: p$(grep -c ^reserve {said})" ;;
esac
"""
RESOURCE = "NetworkSerialPort: {{host: 127.0.0.1, port: {port}, speed: {speed}, protocol: {protocol}}}"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """`place(resources)`: a client of labgrid that knows one place; the path of what it was asked."""

    def make(*found: str, taken: str = "") -> Path:
        tool = tmp_path / "client/labgrid-client"
        tool.parent.mkdir(exist_ok=True)
        tool.write_text(CLIENT.format(said=tmp_path / "asked", described=tmp_path / "described"))
        tool.chmod(0o755)
        (tmp_path / "described").write_text(
            f"targets: {{rack: {{resources: [{', '.join(map('{{{}}}'.format, found))}]}}}}"
        )
        monkeypatch.setenv("PATH", f"{tool.parent}:/usr/bin:/bin")
        monkeypatch.setenv("TAKEN", taken)
        return tmp_path / "asked"

    return make


@pytest.mark.parametrize(("protocol", "taken"), [("raw", ""), ("rfc2217", ""), ("raw", "me")])
def test_a_place_is_ours_while_we_use_it(place: Any, bridge: Any, validate: Any, protocol: str, taken: str) -> None:
    server = bridge(telnet=protocol == "rfc2217")
    asked = place(RESOURCE.format(port=server.port, speed=115200, protocol=protocol), taken=taken)
    code, result = validate("labgrid:rack")
    assert (code, result["bit_exact"]) == (0, True)
    released = [] if taken else ["-p rack release"]
    assert asked.read_text().splitlines() == ["-p rack acquire", "-p rack env", *released]


@pytest.mark.parametrize(
    ("found", "taken", "error"),
    [
        ((), "bob", "labgrid:rack: Error: place rack is taken by bob"),
        ((), "", "expected one NetworkSerialPort, found 0 among nothing"),
        (("USBPowerPort: {}",), "", "found 0 among USBPowerPort"),
        ((RESOURCE.format(port=1, speed=115200, protocol="ssh"),), "", "its port speaks ssh"),
        (
            (RESOURCE.format(port=1, speed=9600, protocol="raw"),),
            "",
            "opens the port at 9600 baud, but the firmware uses",
        ),
        (
            (RESOURCE.format(port=1, speed=115200, protocol="raw"),),
            "",
            "labgrid:rack: socket://127.0.0.1:1: nothing listens",
        ),
    ],
)
def test_places_that_are_no_port(place: Any, found: tuple[str, ...], taken: str, error: str) -> None:
    asked = place(*found, taken=taken)
    with pytest.raises(UsageError, match=error), held("labgrid:rack", 115200):
        pass
    assert (asked.read_text().splitlines()[-1] == "-p rack release") == (not taken)


def test_places_that_are_not_wanted_stay_reserved_until_another_is_found(
    place: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        asked = place(RESOURCE.format(port=server.getsockname()[1], speed=115200, protocol="raw"))
        with held("labgrid:chip=m4?wait=60&not=p2,p1", 115200) as bench:
            assert bench.name == "labgrid:rack"
    assert capsys.readouterr().err == "labgrid:chip=m4?wait=60&not=p2,p1: uses the place rack\n"
    ends = ["cancel-reservation T"] * 3
    right = [*["reserve chip=m4"] * 3, "-p p3 acquire", "-p p3 env", *ends, "-p p3 release"]
    assert asked.read_text().splitlines() == right


def test_no_labgrid(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolError, match="pipx install labgrid"), held("labgrid:rack", 115200):
        pass


@pytest.mark.parametrize(
    "port",
    ["", "rack?wait", "rack?wait=-1", "rack?wait=soon", "rack?wait=inf", "rack?not=p3", "chip=m4?for=60"],
)
def test_ports_that_name_no_place(place: Any, port: str) -> None:
    place()
    with (
        pytest.raises(UsageError, match="expected labgrid:PLACE or labgrid:TAG=VALUE"),
        held(f"labgrid:{port}", 115200),
    ):
        pass
