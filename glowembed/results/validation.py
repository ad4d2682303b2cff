"""The results of `validate`, `demo` and `regress`."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired, TypedDict

from glowembed.results.common import Clock, Count, Microjoules, Milliseconds, Note, Schema, Sha256
from glowembed.results.inspection import Fit, Inspection


class Output(TypedDict):
    """The distance of an output from that of the float model, over all samples as one vector."""

    name: str
    cosine: Annotated[float, "Cosine of the angle between both."]
    rmse: Annotated[float, "Root of the mean squared error."]
    max_abs: Annotated[float, "Largest absolute error."]
    sqnr_db: Annotated[float, "Power of the float output over that of the error, in decibels."]
    top1_agreement: Annotated[float | None, "Share of samples with the same class; null if the output is not classes."]


class Difference(TypedDict):
    """The first element that differs from the integer reference, and where it comes from, as far as that is known."""

    sample: NotRequired[Count]
    output: NotRequired[str]
    index: NotRequired[Annotated[list[int], "In the output as the model has it."]]
    expected: NotRequired[float]
    found: NotRequired[float]
    layer: NotRequired[Annotated[str, "The first layer that differs."]]
    constants_in_flash_differ: NotRequired[list[str]]


class Accuracy(TypedDict):
    """The accuracy against labels."""

    metric: Annotated[Literal["top1", "rmse"], "Share that is right, or error against targets of the output's shape."]
    float: float
    quantized: float


class Layer(TypedDict):
    """A layer of the bundle, for one inference."""

    name: str
    op: str
    kernel: str | None
    macs: Count
    instructions: Annotated[int | None, "Counted under QEMU."]
    cycles_estimate: Annotated[int | None, "By the cycle model of the target, with --layers."]
    cycles_measured: NotRequired[Annotated[int, "By the cycle counter of a real board."]]


class Memory(TypedDict):
    """Sizes in bytes."""

    arena: Count
    arena_liveness_bound: Annotated[int, "The least that plans with whole tensors can do with."]
    weights: Annotated[int, "Constants of the network."]
    code: Annotated[int, "Instructions of kernels and network, without harness and start-up."]
    rodata: Annotated[int, "Other constants of kernels and network."]
    data: Count
    bss: Count
    stack: Annotated[int, "Used in the run, or computed where nothing was painted."]
    stack_computed: Annotated[int | None, "The deepest chain of functions that is possible; null if it is not known."]


class Line(TypedDict):
    """Traffic of a serial line (docs/protocol.md)."""

    sent: Annotated[int, "Bytes to the device."]
    received: Annotated[int, "Bytes from the device."]
    tensors: Annotated[int, "Bytes of both that belong to tensors."]
    requests: Count
    retries: Annotated[int, "Requests that were repeated."]
    sessions: Annotated[int, "How often the device was greeted."]
    seconds: float
    bytes: Annotated[int, "In both directions."]
    overhead: Annotated[float, "Share of the bytes that do not belong to tensors."]
    baud: int
    bytes_per_second: float | None
    capacity_share: Annotated[
        float | None, "Share of what the line carries in one direction; an emulated one may carry more."
    ]


class Validation(TypedDict):
    """One bundle on one board. Instructions, cycles and microseconds are per inference."""

    schema: Schema
    model: Annotated[str, "The name of the model's file."]
    model_sha256: Sha256
    target: str
    board: str
    transport: Literal["host", "qemu", "serial"]
    toolchain: Annotated[str | None, "The compiler and its version, as it wrote them into the program."]
    samples: Count
    bit_exact: Annotated[bool, "Whether every output of every sample has the bits of the integer reference."]
    first_difference: Difference | None
    outputs: list[Output]
    accuracy: Annotated[Accuracy | None, "Null if the data has no labels."]
    notes: list[Note]
    instructions: int | None
    cycles_estimate: int | None
    cycles_measured: int | None
    latency_us: float | None
    clock_hz: Clock
    milliseconds: Annotated[Milliseconds, "Measured cycles count before estimated ones."]
    microjoules: Microjoules
    macs: Count
    layers: list[Layer]
    memory: Memory
    line: NotRequired[Line]


class TrialRun(TypedDict):
    """A bundle on a board."""

    bundle: Annotated[str, "The folder of the bundle."]
    validation: Validation


class TrialPlan(TypedDict):
    """A plan that no other plan beats in both figures."""

    ram: Annotated[int, "Bytes of the arena."]
    cycles: Annotated[float, "Estimated."]


class Trial(TypedDict):
    """A model tried on an emulated board, if there is one, and on this computer."""

    schema: Schema
    inspection: Inspection
    boards: Annotated[list[Fit], "Every board, with estimates of plans that are found quickly."]
    runs: list[TrialRun]
    plans: Annotated[list[TrialPlan], "RAM against cycles of other plans for the first run, the smallest first."]
    notes: list[Note]


class FarmRow(TypedDict):
    """One board of a farm."""

    name: Annotated[str, "Of the place in farm.yaml."]
    board: str
    seconds: float
    result: Annotated[Validation | None, "Null if the board gave none."]
    error: str | None


class Farm(TypedDict):
    """One bundle on many boards."""

    schema: Schema
    boards: list[FarmRow]


class RegressRow(TypedDict):
    """One model on one target. All figures are null if it did not run."""

    model: str
    target: str
    board: str
    bit_exact: bool | None
    accuracy: float | None
    samples: int | None
    instructions: int | None
    arena: int | None
    code: int | None
    weights: int | None
    stack: int | None
    error: str | None
    exit_code: int
    place: Annotated[str, "The name of the board in the file of `--boards`; empty without one."]
    setting: Annotated[str, "The name of the options of compile; empty where none are set."]
    cycles: Annotated[int | None, "Measured or estimated, with a clock."]
    worse: Annotated[list[str], "What is worse than the baseline."]
