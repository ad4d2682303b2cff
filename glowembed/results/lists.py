"""The results of `targets`, `boards`, `board new`, `ports`, `flash`, `docs`, `doctor` and `results`."""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict

from glowembed.results.common import Schema


class Target(TypedDict):
    """A core with its compiler and flags."""

    name: str
    description: str
    isa: Annotated[list[str], "The instruction sets for which it takes kernels, in order of preference."]
    board: Annotated[str, "The board on which its bundles are validated by default; empty if there is none."]


class Board(TypedDict):
    """A target with memories and a way to run programs."""

    name: str
    target: str
    description: str


class NewBoard(TypedDict):
    """A board that `board new` made."""

    schema: Schema
    name: str
    target: str
    folder: str
    reference: Annotated[str, "What --board takes."]


class Port(TypedDict):
    """A serial port, and what answers there."""

    port: str
    description: str
    answer: Annotated[str, "The bundle and its board, or why there is no answer."]


class Flashed(TypedDict):
    """The firmware that `flash` wrote to a board."""

    schema: Schema
    board: str
    elf: str
    transport: Literal["serial", "mlperf"]


class Documents(TypedDict):
    """Where the documents of this version are."""

    schema: Schema
    documents: Annotated[str, "The first page."]


class Finding(TypedDict):
    """One item that glowembed needs, and whether it is there."""

    name: str
    wanted_for: str
    state: Annotated[
        Literal["here", "missing", "optional"], "`optional` is missing too, but only `wanted_for` needs it."
    ]
    packages: Annotated[list[str], "Of Debian, that hold it."]
    hint: Annotated[str, "What to do where no package helps."]


class Doctor(TypedDict):
    """What glowembed finds on this computer."""

    schema: Schema
    complete: Annotated[bool, "Whether nothing is missing but optional parts."]
    install: Annotated[str, "The command that installs what is missing; empty if there is nothing."]
    install_all: Annotated[str, "The command that installs the optional parts too."]
    findings: list[Finding]


class Kept(TypedDict):
    """A stored result: what it belongs to, and its figures."""

    made: Annotated[str, "The time, in UTC."]
    version: Annotated[str, "The commit of glowembed, or its version where there is none."]
    command: Annotated[Literal["regress", "measure", "tune"], "The command that found it."]
    model: str
    target: str
    setting: Annotated[str, "The setting of regress; what differs from the defaults of measure; what tune tried."]
    board: str
    place: Annotated[str, "The board of a farm; empty without one."]
    bit_exact: bool | None
    accuracy: float | None
    instructions: int | None
    cycles: int | None
    arena: int | None
    code: int | None
    weights: int | None
    stack: int | None
    flash: Annotated[int | None, "Of tune: bytes of weights, and of kernels by estimate."]
    score: Annotated[float | None, "Of tune, by its metric; higher is better."]
    key: Annotated[str, "The hash of all that the result was made from."]


class Results(TypedDict):
    """The results in a store: the newest of each cell, or all."""

    schema: Schema
    results: list[Kept]
