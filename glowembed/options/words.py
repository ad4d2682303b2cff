"""How the value of an option is written: on the command line, in precision.yaml, and in a manifest.

In: what a user wrote. Out: the value, or a UsageError that says what was expected.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from glowembed.errors import UsageError, unknown_name
from glowembed.graph.clock import clock_text, hertz
from glowembed.graph.external import named_external
from glowembed.graph.plan import Ram
from glowembed.records import dataclass

COMPRESSED = "compressed"
"""Weights of int8 that are at most sixteen different numbers in a layer."""

FOUR_BITS = {"int4": "weights of int4", COMPRESSED: "compressed weights"}
"""The dtypes of weights that take four bits, and their names in messages."""

MAX_DIMENSION = 2**31 - 1
RAM = re.compile(r"([A-Za-z][A-Za-z0-9_]*)=(.+)")


@dataclass(frozen=True)
class Words:
    """A value that is written as it is. metavar: what `--help` shows for it. type: what typer reads."""

    metavar: str | None = None
    type: Any = str

    def read(self, flag: str, noun: str, given: Any) -> Any:
        """The value that the words on the command line stand for. flag, noun: names of the option for messages."""
        return given

    def setting(self, given: Any) -> Any:
        """The value that a value of YAML stands for."""
        if not isinstance(given, str):
            raise UsageError(f"expected a text, found {given!r}")
        return given

    def yaml(self, value: Any) -> str:
        """The value as YAML."""
        return "null" if value is None else str(value)

    def written(self, value: Any) -> Any:
        """A value as the command line writes it; `--help` shows defaults like this."""
        return value

    def recorded(self, value: Any) -> Any:
        """The value as JSON."""
        return value


@dataclass(frozen=True)
class Choice(Words):
    """One of several words."""

    choices: Sequence[str] = ()
    of_network: Sequence[str] = ()
    """Further words, for the whole network only."""

    def read(self, flag: str, noun: str, given: Any) -> Any:
        known = (*self.choices, *self.of_network)
        if given is not None and given not in known:
            raise unknown_name(noun, given, known)
        return given

    def setting(self, given: Any) -> Any:
        if given not in self.choices:
            raise unknown_name("value", str(given), self.choices)
        return given


@dataclass(frozen=True)
class Flag(Words):
    """A boolean that is a flag on the command line. given: the value that the flag stands for."""

    type: Any = bool
    given: bool = True

    def read(self, flag: str, noun: str, given: Any) -> Any:
        return given == self.given

    def setting(self, given: Any) -> Any:
        if not isinstance(given, bool):
            raise UsageError(f"expected true or false (on or off), found {given!r}")
        return given

    def yaml(self, value: Any) -> str:
        return "true" if value else "false"

    def written(self, value: Any) -> Any:
        return value == self.given


@dataclass(frozen=True)
class OnOff(Flag):
    """A boolean that is written as on or off."""

    metavar: str | None = "on|off"
    type: Any = str

    def read(self, flag: str, noun: str, given: Any) -> Any:
        if given not in ("on", "off"):
            raise unknown_name(noun, given, ("on", "off"))
        return given == "on"

    def yaml(self, value: Any) -> str:
        return "on" if value else "off"

    written = yaml


@dataclass(frozen=True)
class Number(Words):
    """A number within limits. allowed: the limits in words. fits: whether a number is within them."""

    allowed: str = ""
    fits: Callable[[float], bool] = bool

    def read(self, flag: str, noun: str, given: Any) -> Any:
        if not self.fits(given):
            raise UsageError(f"{flag} must be {self.allowed}, found {given}")
        return given

    def setting(self, given: Any) -> Any:
        if isinstance(given, bool) or not isinstance(given, int | self.type) or not self.fits(given):
            raise UsageError(f"expected a number {self.allowed}, found {given!r}")
        return self.type(given)


@dataclass(frozen=True)
class Bytes(Words):
    """A number of bytes."""

    metavar: str | None = "BYTES"

    def read(self, flag: str, noun: str, given: Any) -> Any:
        return byte_count(flag, given)


@dataclass(frozen=True)
class Parsed(Words):
    """Words with a parser and a printer of their own."""

    parse: Callable[[Any], Any] = str
    print: Callable[[Any], Any] = str

    def read(self, flag: str, noun: str, given: Any) -> Any:
        return self.parse(given)

    def written(self, value: Any) -> Any:
        return self.print(value) or None

    def recorded(self, value: Any) -> Any:
        return self.print(value)


PLAIN = Words()
"""Text."""


def one_of(choices: Sequence[str], of_network: Sequence[str] = ()) -> Choice:
    """The words of a choice; those in `of_network` cannot be set for single nodes."""
    return Choice("|".join((*choices, *of_network)), choices=choices, of_network=of_network)


def byte_count(option: str, text: str | None) -> int | None:
    """The number of bytes that a text such as 20480, 20K or 1M stands for."""
    if text is None:
        return None
    found = re.fullmatch(r"(\d+)([kKmM]?)[bB]?", text)
    if found is None or int(found[1]) < 1:
        raise UsageError(f"{option} {text!r}: expected a number of bytes, such as 20480 or 20K")
    return int(found[1]) * {"": 1, "k": 1024, "m": 1024 * 1024}[found[2].lower()]


def share(option: str, text: str, most: float) -> float:
    """The share from 0 to `most` that a text such as `0.5%` or `0.005` stands for, here 0.005."""
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        value = -1.0
    if not 0 <= value <= most:
        raise UsageError(f"{option} {text!r}: expected a percentage such as 0.5%, or a share such as 0.005")
    return value


def named_shapes(texts: list[str] | None) -> dict[str, tuple[int, ...]]:
    """The shapes given by --shape, by the name of the input."""
    return dict(_shape(text) for text in texts or [])


def _shape(text: str) -> tuple[str, tuple[int, ...]]:
    name, _, dims = text.rpartition("=")
    try:
        shape = tuple(int(dim) for dim in dims.split(","))
    except ValueError:
        shape = ()
    if not name or not shape or not all(1 <= dim <= MAX_DIMENSION for dim in shape):
        raise UsageError(f"--shape {text!r}: expected NAME=1,3,64,64 with whole numbers from 1")
    return name, shape


def named_values(text: str | None) -> tuple[str, ...]:
    """The names given by --inputs or --outputs, with commas between them."""
    names = tuple(name.strip() for name in text.split(",")) if text is not None else ()
    if not all(names) or len(set(names)) < len(names):
        raise UsageError(
            f"--inputs or --outputs {text!r}: expected names of values of the model with commas between them, each once"
        )
    return names


def named_levels(text: str | None) -> tuple[str, ...]:
    """The words given by --levels, with commas between them."""
    words = tuple(word.strip() for word in text.split(",")) if text is not None else ()
    if not all(words) or len(set(words)) < len(words):
        raise UsageError(f"--levels {text!r}: expected levels with commas between them, each once")
    return words


def named_renames(texts: list[str] | None) -> dict[str, str]:
    """The names given by --rename: old name -> new name."""
    pairs = [text.partition("=")[::2] for text in texts or []]
    if not all(old and new for old, new in pairs) or len({old for old, _ in pairs}) < len(pairs):
        raise UsageError(f"--rename {' '.join(texts or [])}: expected OLD=NEW, each OLD once")
    return dict(pairs)


NO_STATES: Mapping[str, str] = {"none": "none"}
"""The value of --state none: the model has no states, even if names suggest some."""


def named_states(texts: list[str] | None) -> dict[str, str]:
    """The pairs given by --state: output -> input."""
    if texts == ["none"]:
        return dict(NO_STATES)
    pairs = [text.partition("=")[::2] for text in texts or []]
    outputs, inputs = {out for out, _ in pairs}, {old for _, old in pairs}
    if not all(out and old for out, old in pairs) or min(len(outputs), len(inputs)) < len(pairs):
        raise UsageError(f"--state {' '.join(texts or [])}: expected OUT=IN, each name once, or none alone")
    return dict(pairs)


@dataclass(frozen=True)
class Streamed:
    """What --stream asks for. axis: of the rows in the model's input; hop: how many rows are new in each run."""

    input: str
    axis: int = 1
    hop: int = 1


STREAM = re.compile(r"(.+?)(?::(\d{0,9}))?(?::(\d{1,9}))?")


def named_stream(text: str | None) -> Streamed | None:
    """The input given by --stream."""
    found = STREAM.fullmatch(text or "")
    if text is None:
        return None
    hop = int((found and found[3]) or 1)
    if found is None or hop < 1:
        raise UsageError(
            f"--stream {text!r}: expected INPUT[:AXIS][:HOP], such as features:1:2, with a HOP of 1 or more"
        )
    return Streamed(found[1], int(found[2] or 1), hop)


def written_stream(stream: Streamed | None) -> str | None:
    """The text of --stream."""
    return None if stream is None else f"{stream.input}:{stream.axis}:{stream.hop}"


def named_rams(texts: list[str] | None) -> tuple[Ram, ...]:
    """The memories given by --memory: NAME=BYTES of a RAM for data, NAME=BYTES:WORD:... of the slow memory of the weights."""
    found = [RAM.fullmatch(text) for text in texts or []]
    names = [match[1].lower() for match in found if match is not None]
    if None in found or len(set(names)) < len(names):
        raise UsageError(f"--memory {' '.join(texts or [])}: expected NAME=BYTES, such as dtcm=64K, each name once")
    rams = tuple(_memory(match) for match in found if match is not None)
    slow = [ram.name for ram in rams if ram.external is not None]
    if len(slow) > 1:
        raise UsageError(f"--memory: the weights lie in one slow memory, found {', '.join(slow)}")
    return rams


def _memory(match: re.Match[str]) -> Ram:
    size, *words = match[2].split(":")
    external = named_external(match[0], words, lambda text: byte_count("--memory", text) or 0) if words else None
    return Ram(match[1], byte_count("--memory", size) or 0, external)


def written_rams(rams: tuple[Ram, ...]) -> dict[str, Any]:
    """The memories as they are recorded: the bytes of RAMs, the words of a slow memory."""
    return {ram.name: ram.size if ram.external is None else str(ram) for ram in rams}


def given_clock(text: str | None) -> int | None:
    """The hertz of --clock."""
    return None if text is None else hertz(text)


def written_clock(clock_hz: int | None) -> str | None:
    """A clock as it is recorded."""
    return None if clock_hz is None else clock_text(clock_hz)
