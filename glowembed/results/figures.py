"""The results of `debug`, `detect`, `profile` and `tune`."""

from __future__ import annotations

from typing import Annotated, TypedDict

from glowembed.results.common import Count, Note, Schema


class Loss(TypedDict):
    """The noise of the quantized network relative to the float model."""

    sqnr_db: Annotated[float | None, "Null if there is no noise."]
    cosine: float
    max_steps: Annotated[float, "The largest error in steps of the output's scale."]


class DebugLayer(TypedDict):
    """A layer: whether its bits on the board are right, and how much accuracy it loses."""

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


class Range(TypedDict):
    """The least and the largest number of a value over all samples."""

    name: str
    low: float
    high: float


class Profiled(TypedDict):
    """The result of `profile`. The histograms are in the file."""

    schema: Schema
    file: Annotated[str | None, "The profile that was written; null without -o."]
    samples: Count
    values: list[Range]
    notes: list[Note]


class Change(TypedDict):
    """A change from plain int8."""

    node: Annotated[str | None, "Null stands for all nodes."]
    change: Annotated[str, "What the node gets instead: a dtype, a calibration or a dtype of the weights."]


class Tried(TypedDict):
    """A configuration that was evaluated. Sizes are in bytes."""

    lifted: list[Change]
    score: Annotated[float, "By the metric; higher is better."]
    noise: Annotated[float, "RMS error over RMS output."]
    arena: Count
    flash: Annotated[int, "Weights, exact, and kernels, estimated."]
    cycles: Annotated[float, "Estimated."]


class Tuned(TypedDict):
    """The result of `tune`."""

    schema: Schema
    goal: Annotated[float, "The score that is good enough."]
    float_score: Annotated[float, "The score of the float model."]
    nodes: Count
    lifted: Annotated[list[Change] | None, "The answer; null if no configuration reaches the goal."]
    tried: Annotated[list[Tried], "All configurations, in the order of the search; the first is plain int8."]
