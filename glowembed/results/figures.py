"""The results of `debug` and `detect`."""

from __future__ import annotations

from typing import Annotated, TypedDict

from glowembed.results.common import Count, Note, Schema


class Loss(TypedDict):
    """Noise against the float model."""

    sqnr_db: Annotated[float | None, "Null if there is no noise."]
    cosine: float
    max_steps: Annotated[float, "The largest error in steps of the output's scale."]


class DebugLayer(TypedDict):
    """A layer: its bits on the board, and what it loses."""

    name: str
    op: str
    output: str
    differs: Annotated[bool | None, "From the reference; null if the tensor cannot be read back."]
    saturated: Annotated[float, "The share of outputs at an end of their type, 0 to 1."]
    cumulated: Loss | None
    isolated: Loss | None


class Debug(TypedDict):
    """The result of `debug`."""

    schema: Schema
    board: str
    first_difference: Annotated[str | None, "The first layer whose bits differ."]
    layers: list[DebugLayer]
    notes: list[Note]


class Detect(TypedDict):
    """The result of `detect`."""

    schema: Schema
    seconds: Annotated[float, "The length of the recording."]
    detections: Annotated[list[float], "The seconds at which they begin."]
    events: Annotated[int | None, "Null if --events does not say."]
    misses: Count
    false_alarms: Count
