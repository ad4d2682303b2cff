"""The result of `measure`."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired, TypedDict

from glowembed.results.common import Clock, Count, Microjoules, Milliseconds, Schema

Range = Annotated[list[int] | None, "The least and the most that the cycle model allows."]


class Function(TypedDict):
    """A C function, without the functions that it calls."""

    name: str
    instructions: Count
    cycles_estimate: int | None
    cycles_range: Range


class Layer(TypedDict):
    """A layer, including all functions that it calls."""

    name: str
    op: str
    kernel: str | None
    macs: Count
    instructions: Count
    cycles_estimate: int | None
    cycles_range: Range


class Reader(TypedDict):
    """A C function, and the bytes that it read."""

    name: str
    bytes: Count


class SlowMemory(TypedDict):
    """What an inference read from the slow memory that holds the weights, as board.toml describes it."""

    memory: str
    loads: Count
    bytes: Count
    wait_cycles_estimate: Annotated[Count, "Cycles that the core waits, without a cache; part of all cycles."]
    functions: list[Reader]


class Measurement(TypedDict):
    """Instructions and cycles of one inference, for the most expensive sample."""

    schema: Schema
    bundle: str
    bundle_hash: str
    target: str
    board: str
    build_id: Annotated[str, "Hash of the firmware that was counted."]
    samples: Count
    method: Annotated[Literal["plugin", "icount"], "`icount` counts instructions only."]
    note: Annotated[str | None, "Why there are no cycles."]
    ruler: NotRequired[Annotated[str, "The cycle model."]]
    macs: Count
    instructions: Count
    cycles_estimate: int | None
    cycles_range: Range
    clock_hz: Clock
    milliseconds: Milliseconds
    microjoules: Microjoules
    layers: list[Layer]
    functions: list[Function]
    slices: NotRequired[
        Annotated[list[Function], "Each slice with all functions that it calls, of a bundle that has slices."]
    ]
    slow_memory: NotRequired[Annotated[SlowMemory, "On a board whose weights lie in slow memory."]]
