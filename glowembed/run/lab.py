"""Reaches boards of a labgrid, which may be connected to other machines. In: the name of a place. Out: the port to its
serial line.

labgrid (https://labgrid.readthedocs.io) is reached through its own `labgrid-client`, which finds the coordinator by
LG_COORDINATOR. The place is acquired while it is used, unless the user has acquired it already.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from glowembed.errors import ToolError, UsageError
from glowembed.files import documents

PREFIX = "labgrid:"
CLIENT = "labgrid-client"
SECONDS = 60
PROTOCOLS = {"raw": "socket://{host}:{port}", "rfc2217": "rfc2217://{host}:{port}?ign_set_control"}
"""of a NetworkSerialPort, and what we open for it; as labgrid's own driver, we do not wait for the rate to be confirmed"""


@dataclass(frozen=True)
class Place:
    """A place that this process uses. port: for `open_port`. ours: this process acquired it, and releases it."""

    name: str
    port: str
    ours: bool

    def release(self) -> None:
        """Release the place for others. An error here does not matter, because the result exists already."""
        if self.ours:
            _client(self.name, "release")


def acquire(name: str, baud: int) -> Place:
    """Acquire the place of this name. Raises UsageError if another user holds it, or if it does not have exactly one
    suitable serial port.
    """
    if shutil.which(CLIENT) is None:
        raise ToolError(f"{CLIENT} is not there; install it: pipx install labgrid, or pip install glowembed[labgrid]")
    acquired = _client(name, "acquire")
    described = _client(name, "env")
    place = Place(name, "", acquired.returncode == 0)
    try:
        if described.returncode != 0:
            said = (acquired.stderr if acquired.returncode else described.stderr).strip().splitlines()
            raise UsageError(f"{PREFIX}{name}: {said[-1].removeprefix(f'{CLIENT}: ') if said else 'no answer'}")
        return Place(name, _port(name, described.stdout, baud), place.ours)
    except UsageError:
        place.release()
        raise


def _port(name: str, described: str, baud: int) -> str:
    """The port of a place's one NetworkSerialPort, as labgrid describes it."""
    found = documents.parse_yaml(described, f"{PREFIX}{name}")
    try:
        resources = [entry for target in found["targets"].values() for entry in target["resources"]]
        ports: list[Mapping[str, Any]] = [
            entry["NetworkSerialPort"] for entry in resources if "NetworkSerialPort" in entry
        ]
    except (KeyError, TypeError, AttributeError) as error:
        raise UsageError(
            f"{PREFIX}{name}: labgrid-client describes it in an unknown form: {described[:200]!r}"
        ) from error
    if len(ports) != 1:
        others = ", ".join(sorted(kind for entry in resources for kind in entry)) or "nothing"
        raise UsageError(
            f"{PREFIX}{name}: expected one NetworkSerialPort, found {len(ports)} among {others}; name a place with the "
            "one port that the firmware uses (labgrid-client add-match)"
        )
    port = ports[0]
    if port["protocol"] not in PROTOCOLS:
        raise UsageError(f"{PREFIX}{name}: its port speaks {port['protocol']}; expected one of {', '.join(PROTOCOLS)}")
    if port["protocol"] == "raw" and int(port["speed"]) != baud:
        raise UsageError(
            f"{PREFIX}{name}: its exporter opens the port at {port['speed']} baud, but the firmware uses {baud}: set "
            "'speed' in the exporter's configuration, or use the protocol rfc2217"
        )
    return PROTOCOLS[port["protocol"]].format(**port)


def _client(place: str, verb: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            [CLIENT, "-p", place, verb], capture_output=True, text=True, errors="replace", timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise ToolError(f"{PREFIX}{place}: {CLIENT} {verb} did not end within {SECONDS} s") from error
