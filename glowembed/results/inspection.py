"""The results of `inspect` and `precision`."""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

from glowembed.results.common import Clock, Count, Milliseconds, Note, Schema


class Tensor(TypedDict):
    """An input or output of a model."""

    name: str
    shape: list[int]
    dtype: str
    layout: Annotated[str, "NCHW or NHWC if it can be determined, else empty."]


class Layer(TypedDict):
    """A node of the canonical graph."""

    name: str
    op: str
    shape: Annotated[list[int], "Of its output, as stored."]
    macs: Count
    parameters: Count


class Fit(TypedDict):
    """Whether a network fits a board, and with which options of `compile`."""

    board: str
    ram: Annotated[int, "Bytes that the network may use."]
    flash: Annotated[int, "Bytes that the network may use."]
    fits: Annotated[bool | None, "null if it is too close to call, and for the host."]
    options: Annotated[str, "Empty if it fits by default."]
    clock_hz: Clock
    milliseconds: Milliseconds


class OnTarget(TypedDict):
    """What the network needs on one target by default; without --target."""

    target: str
    arena: Count
    flash: Count
    cycles: Count
    boards: Annotated[list[Fit], "Those that execute its code, without a search for options."]
    problem: Annotated[str, "Why it cannot be compiled for this target; the figures are then 0."]


class Problem(TypedDict):
    """A reason why the model cannot be compiled."""

    node: str
    op: str
    reason: str
    hint: str


class Operator(TypedDict):
    """How the nodes of one ONNX operator are computed, with --coverage."""

    operator: str
    nodes: Count
    dtypes: list[str]
    kernels: Annotated[list[str], "fast, portable, generated or none."]
    cycles: Count
    share: Annotated[float, "Of the estimated cycles of the network."]
    refused: Annotated[list[str], "Reasons why some of its nodes are not supported."]
    reasons: Annotated[list[str], "Reasons why some of its nodes are generated, as far as they are known."]


class Inspection(TypedDict):
    """A model before it is compiled. Estimates are in bytes, for the default plan."""

    schema: Schema
    model: str
    model_sha256: str
    opset: int
    producer: str
    notes: list[Note]
    inputs: list[Tensor]
    outputs: list[Tensor]
    layers: list[Layer]
    macs: Count
    parameters: Count
    target: str
    arena_estimate: int | None
    flash_estimate: int | None
    cycles_estimate: Annotated[int | None, "By the figures with which kernels are chosen; `measure` counts them."]
    clock_hz: Clock
    milliseconds: Milliseconds
    boards: Annotated[list[Fit], "With --target: its boards."]
    targets: Annotated[list[OnTarget], "Without --target: all of them."]
    unsupported: list[Problem]
    coverage: list[Operator]


class Block(TypedDict):
    """Bytes of the arena that a tensor, or a row of it, occupies for some calls."""

    name: str
    row: int | None
    offset: int
    bytes: int
    birth: Annotated[int, "The first call."]
    death: Annotated[int, "The last call."]


class Moment(TypedDict):
    """Consecutive calls of one layer."""

    name: str
    first: int
    last: int
    live: Annotated[int, "The most bytes that are alive in one of them."]


class Memory(TypedDict):
    """The arena of a bundle, call by call."""

    name: str
    size: Annotated[int, "Bytes, with other RAMs behind it."]
    bound: Annotated[int, "The least that plans with whole tensors can do with."]
    row_bound: Annotated[int, "The least for the calls of this plan."]
    proof: str
    steps: Annotated[int, "Number of calls."]
    peak_layer: str
    blocks: list[Block]
    moments: list[Moment]


class LayerNumbers(TypedDict):
    """A layer of a bundle, with every number that its kernel reads."""

    name: str
    origins: Annotated[list[str], "The ONNX nodes that it came from."]
    op: str
    kernel: str | None
    inputs: Annotated[list[str], "Names and types."]
    output: str
    params: dict[str, Any]
    constants: dict[str, Any]
    words: Annotated[dict[str, list[str]], "What the numbers of a constant are, where it interleaves several."]


class Settings(TypedDict):
    """The precision of a node (docs/quantization.md), and for each setting the rule of precision.yaml that decided it."""

    dtype: str
    weights: str
    schema: str
    weights_schema: str
    calibration: str
    weights_calibration: str
    per_channel: bool
    bias: str
    bias_correction: bool
    requantization: str
    rules: dict[str, str]


class Precision(TypedDict):
    """The settings of all nodes of the canonical graph, and of values with a type of their own."""

    schema: Schema
    nodes: dict[str, Settings]
    values: dict[str, dict[str, Any]]
