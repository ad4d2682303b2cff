"""Reaches boards of a labgrid, which may be connected to other machines. In: the name of a place, or tags. Out: the place,
held until the context ends, with the port to its serial line.

    labgrid:rack-3                     the place of this name; another user may not hold it
    labgrid:rack-3?wait=600            waits until it is free, at most 600 s
    labgrid:chip=nrf52840,rack=2       any place with these tags, for which it waits (WAIT_SECONDS, or `?wait=`)
    labgrid:chip=nrf52840?not=p3,p5    any of them but these; with `?wait=600&not=p3,p5` also at most 600 s

labgrid (https://labgrid.readthedocs.io) is reached through its own `labgrid-client`, which finds the coordinator by LG_COORDINATOR. A
place that the user has acquired already is used and stays acquired. Every other one is acquired by a process of its own, which releases it when
its standard input ends: that is, when this process releases it, is interrupted, or is killed.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from glowembed.errors import ToolError, UsageError
from glowembed.files import documents
from glowembed.records import dataclass

PREFIX = "labgrid:"
CLIENT = "labgrid-client"
SECONDS = 60
WAIT_SECONDS = 600.0
SHOW_SECONDS = 20.0
"""The queue is shown again after these."""

PROTOCOLS = {"raw": "socket://{host}:{port}", "rfc2217": "rfc2217://{host}:{port}?ign_set_control"}
"""of a NetworkSerialPort, and what we open for it; as labgrid's own driver, we do not wait for the rate to be confirmed"""

HOLD = '"$0" -p "$1" acquire >/dev/null && { echo held; cat >/dev/null; "$0" -p "$1" release || { sleep 5; "$0" -p "$1" release; }; }'
"""The shell script that holds a place: it says so on standard output, and releases the place when its input ends. It tries that twice,
because a coordinator may have been started again."""

ALLOCATED = re.compile(r"allocations:\s+main: (\S+)")
TAKEN = re.compile(rf"^{PREFIX}.*: uses the place (\S+)$", re.MULTILINE)
"""What is said of a place that was found by its tags."""


@dataclass(frozen=True)
class Asked:
    """A place by its name, or by tags. wait: seconds until it is given up; 0: a place that is taken is an error. others: the names of
    places that are not wanted.
    """

    text: str
    name: str
    tags: tuple[str, ...]
    wait: float
    others: tuple[str, ...] = ()

    @staticmethod
    def of(text: str) -> Asked:
        """What comes after `labgrid:` in a port. Raises UsageError for options that there are not."""
        place, _, query = text.partition("?")
        tags = tuple(place.split(",")) if "=" in place else ()
        options = dict(entry.partition("=")[::2] for entry in query.split("&") if entry)
        others = tuple(filter(None, options.pop("not", "").split(",")))
        try:
            seconds = float(options.pop("wait", WAIT_SECONDS if tags else 0.0))
        except ValueError:
            seconds = -1.0
        if not place or options or (others and not tags) or not 0 <= seconds < float("inf"):
            raise UsageError(
                f"{PREFIX}{text}: expected {PREFIX}PLACE or {PREFIX}TAG=VALUE,..., then ?wait=SECONDS, and with tags &not=PLACE,..."
            )
        return Asked(text, "" if tags else place, tags, seconds, others)

    def without(self, names: Iterable[str]) -> str:
        """The same as text, without the places of these names."""
        others = ",".join(sorted({*self.others, *names}))
        return f"{self.text.partition('?')[0]}?wait={self.wait:g}" + (f"&not={others}" if others else "")


@dataclass(frozen=True)
class Place:
    """A place that this process uses. port: for `open_port`. holder: the process that has acquired it for us, if one has."""

    name: str
    port: str
    holder: subprocess.Popen[str] | None

    def release(self) -> None:
        """Release the place for others. An error here does not matter, because the result exists already."""
        if self.holder is not None:
            _end(self.holder)

    def power_cycle(self) -> str:
        """Switch the board off and on again. Returns why that cannot be done, "" if it was."""
        done = _client("-p", self.name, "power", "cycle")
        return "" if done.returncode == 0 else _last_line(done) or "no answer"

    def tag(self, name: str) -> str:
        """The value of a tag of the place, "" if it has none of this name."""
        shown = _client("-p", self.name, "show").stdout
        return next((tag.partition("=")[2] for tag in _tags(shown) if tag.startswith(f"{name}=")), "")


@contextmanager
def held(text: str, baud: int, tried: Callable[[str], None]) -> Iterator[Place]:
    """A place, held until the context ends. tried: opens its port and closes it again; it raises UsageError where nothing is
    connected.

    Of tags, the first place whose port opens, and its name is said. Raises UsageError if there is none within the time, if another user holds the place, or if it
    does not have exactly one suitable serial port.
    """
    if shutil.which(CLIENT) is None:
        raise ToolError(f"{CLIENT} is not there; install it in an environment of its own: pipx install labgrid")
    asked = Asked.of(text)
    place = _first_that_works(asked, baud, tried) if asked.wait or asked.tags else _tried(asked.name, baud, tried)
    if asked.tags:
        sys.stderr.write(f"{PREFIX}{text}: uses the place {place.name}\n")
    try:
        yield place
    finally:
        place.release()


def _tried(name: str, baud: int, tried: Callable[[str], None]) -> Place:
    """Acquire a place, and try its port."""
    holder, said = _holder(name)
    try:
        described = _client("-p", name, "env")
        if described.returncode != 0:
            raise UsageError(f"{PREFIX}{name}: {said or _last_line(described) or 'no answer'}")
        full_name, port = _port(name, described.stdout, baud)
        try:
            tried(port)
        except UsageError as error:
            raise UsageError(f"{PREFIX}{name}: {error}") from error
        return Place(full_name, port, holder)
    except BaseException:
        if holder is not None:
            _end(holder)
        raise


def _holder(name: str) -> tuple[subprocess.Popen[str] | None, str]:
    """The process that holds a place; or None, and why it could not be acquired."""
    holder = subprocess.Popen(
        ["sh", "-c", HOLD, CLIENT, name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,  # Ctrl-C is for us
    )
    assert holder.stdout is not None, "asked for"
    try:
        if holder.stdout.readline():
            return holder, ""
    except BaseException:
        _end(holder)
        raise
    return None, _last_line(subprocess.CompletedProcess((), 1, *holder.communicate()))


def _end(holder: subprocess.Popen[str]) -> None:
    """Let the process that holds a place release it. If that takes long, it does so after we have ended."""
    with suppress(subprocess.TimeoutExpired):
        holder.communicate(timeout=SECONDS)


def _first_that_works(asked: Asked, baud: int, tried: Callable[[str], None]) -> Place:
    """The first place that labgrid gives us and whose port opens. While we look, places that do not work or are not wanted stay reserved,
    so that another one is given to us.
    """
    end, gone = time.monotonic() + asked.wait, dict[str, str]()
    with ExitStack() as reserved:  # an acquired place needs its reservation no more
        while True:
            name = _reserved(asked, end, gone, reserved)
            if name in asked.others:
                gone[name] = f"{PREFIX}{name}: not wanted (not={name})"
                continue
            try:
                return _tried(name, baud, tried)
            except UsageError as error:
                gone[name] = str(error)


def _reserved(asked: Asked, end: float, gone: Mapping[str, str], reserved: ExitStack) -> str:
    """The name of a place that is reserved for us, after waiting for it. Raises UsageError at the end of the time."""
    made = _client("reserve", *(asked.tags or (f"name={asked.name}",)))
    token = re.search(r"token: (\S+)", made.stdout)
    if made.returncode != 0 or token is None:
        raise UsageError(f"{PREFIX}{asked.text}: {_last_line(made) or 'no answer'}")
    reserved.callback(_client, "cancel-reservation", token[1])
    found = ALLOCATED.findall(made.stdout)
    while not found:
        _refuse_hopeless(asked, gone)
        left = end - time.monotonic()
        queue = _queue(token[1])
        if left <= 0:
            raise UsageError(f"{PREFIX}{asked.text}: no place was free within {asked.wait:g} s{queue}{_why(gone)}")
        sys.stderr.write(f"{PREFIX}{asked.text}: waits for a place, at most {left:.0f} s more{queue}\n")
        found = ALLOCATED.findall(_client("wait", token[1], seconds=min(left, SHOW_SECONDS)).stdout)
    return str(found[-1])


def _refuse_hopeless(asked: Asked, gone: Mapping[str, str]) -> None:
    """Raise UsageError if there is no place like this, or if all of them were tried already."""
    blocks = re.split(r"^Place '", _client("-v", "places").stdout, flags=re.MULTILINE)[1:]
    places = {block.partition("'")[0]: _tags(block) for block in blocks}
    matching = [name for name, tags in places.items() if name == asked.name or (asked.tags and tags >= {*asked.tags})]
    if not matching:
        known = ", ".join(sorted(places)) or "none"
        raise UsageError(f"{PREFIX}{asked.text}: labgrid has no such place; there are: {known}")
    if gone.keys() >= set(matching):
        raise UsageError(f"{PREFIX}{asked.text}: none of its places works{_why(gone)}")


def _queue(token: str) -> str:
    """Who waits before us, in words."""
    before = _client("reservations").stdout.partition(f"'{token}'")[0]
    owners = [
        owner for owner, state in re.findall(r"owner: (\S+)\s+token: \S+\s+state: (\S+)", before) if state == "waiting"
    ]
    return f"; before us in the queue: {', '.join(owners)}" if owners else "; nobody is before us in the queue"


def _why(gone: Mapping[str, str]) -> str:
    return "".join(f"\n{said}" for said in gone.values())


def _tags(shown: str) -> set[str]:
    """The tags in labgrid's description of a place."""
    line = re.search(r"^ *tags: (.*)$", shown, re.MULTILINE)
    return set(line[1].replace(",", " ").split()) if line else set()


def _port(name: str, described: str, baud: int) -> tuple[str, str]:
    """The full name of a place, and the port of its one NetworkSerialPort, as labgrid describes it."""
    found = documents.parse_yaml(described, f"{PREFIX}{name}")
    try:
        (full_name,) = found["targets"]
        resources = found["targets"][full_name]["resources"]
        ports: list[Mapping[str, Any]] = [
            entry["NetworkSerialPort"] for entry in resources if "NetworkSerialPort" in entry
        ]
    except (KeyError, TypeError, AttributeError, ValueError) as error:
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
    return full_name, PROTOCOLS[port["protocol"]].format(**port)


def _client(*words: str, seconds: float | None = None) -> subprocess.CompletedProcess[str]:
    """What labgrid-client says. seconds: it may take longer than this, and has said nothing then."""
    command = [CLIENT, *words]
    try:
        return subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=seconds or SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        if seconds is not None:
            return subprocess.CompletedProcess(command, 1, "", "")
        raise ToolError(f"{' '.join(command)} did not end within {SECONDS} s") from error


def _last_line(done: subprocess.CompletedProcess[str]) -> str:
    said = done.stderr.strip().splitlines()
    return said[-1].removeprefix(f"{CLIENT}: ") if said else ""
