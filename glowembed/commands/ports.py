"""`glowembed ports`: lists the serial ports of this computer and what answers on them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Annotated

import typer
from serial.tools import list_ports

from glowembed.cli import JsonFile, tell
from glowembed.errors import GlowembedError, ToolError
from glowembed.run.bench import held
from glowembed.run.device import Device, SessionLost, Settings
from glowembed.show import report

PATIENCE = 1.0
NO_PORTS = "no serial ports; is the board connected? A port of another computer: socket://host:port"


PLACE = 110


def add_to(app: typer.Typer) -> None:
    app.command(epilog="Example:  glowembed ports --baud 921600")(ports)


def ports(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="PORT", help="Ports to query instead, such as socket://host:port."),
    ] = None,
    baud: Annotated[int, typer.Option("--baud", metavar="N", help="Baud rate.")] = 115200,
    json_file: JsonFile = None,
) -> None:
    """List the serial ports, and which bundle on which board answers there.

    Every port is opened and queried; a port that another program has open is reported as such. The exit code is not 0 if one of the
    ports that were named does not answer.
    """
    found = {port.device: port.description for port in list_ports.comports()} if not names else dict.fromkeys(names, "")
    with ThreadPoolExecutor(len(found) or 1) as pool:
        answers = list(pool.map(lambda name: who(name, baud), found))
    rows = [(name, found[name] or "-", answer) for name, (answer, _) in zip(found, answers, strict=True)]
    result = [{"port": name, "description": found[name], "answer": answer} for name, _, answer in rows]
    tell(json_file, result, lambda: report.ports(rows) if rows else NO_PORTS)
    if names and (code := max(code for _, code in answers)):
        raise typer.Exit(code)


def who(name: str, baud: int) -> tuple[str, int]:
    """A description of the firmware that answers on a port, or why none does; and an exit code."""
    try:
        with held(name, baud) as bench, closing(bench.open()) as line:
            return _answer(Device(line, Settings(baud=baud, patience=PATIENCE))), 0
    except (GlowembedError, SessionLost) as error:
        return str(error).removeprefix(f"{name}: "), getattr(error, "exit_code", ToolError.exit_code)


def _answer(device: Device) -> str:
    device.hello()
    info = device.info()
    return f"bundle {info.name!r} ({info.hash[:12]}) on {info.board or 'a firmware of its own'}, {info.target}"
