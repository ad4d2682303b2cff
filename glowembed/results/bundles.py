"""The results of `compile` (bundle.json), `build` and `combine`."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired, TypedDict

from glowembed.results.common import Count, Note, Schema, Sha256


class Model(TypedDict):
    """The file that was compiled."""

    file: str
    sha256: Sha256


class Arena(TypedDict):
    """The memory that a bundle needs from its caller."""

    size: Count
    align: int


class PlannedArena(Arena):
    """The memory that a bundle needs from its caller, and a lower bound for it."""

    liveness_bound: Annotated[int, "The least that plans with whole tensors can do with."]


class Tensor(TypedDict):
    """An input or output."""

    name: str
    id: Annotated[str, "The name in C."]
    shape: list[int]
    layout: Annotated[list[int] | None, "Which axis of the model each stored axis is; null if they are the same."]
    dtype: str
    model_dtype: Annotated[str | None, "The model's own type, where it is an integer."]
    scale: float | None
    zero_point: int | None
    elements: Count
    offset: Annotated[int | None, "In the arena; null if it lies elsewhere."]
    bytes: Count
    handed: Literal["arena", "caller", "rows", "state"]
    rows: int | None
    found: NotRequired[Annotated[str, "The output that says how much of this one the data decided."]]
    found_axis: NotRequired[Annotated[int, "The axis whose size is an upper bound."]]


class Stored(TypedDict):
    """The output of a layer."""

    name: str
    offset: int | None
    bytes: Count
    dtype: str
    shape: list[int]
    layout: list[int] | None
    scale: float | None
    zero_point: int | None


class Layer(TypedDict):
    """A call of a kernel, or several calls for some rows each."""

    name: str
    origins: Annotated[list[str], "The ONNX nodes that it came from."]
    op: str
    kernel: str | None
    macs: Count
    streamed: Annotated[bool, "Whether it runs row by row."]
    constants: list[str]
    outputs: list[dict[str, Any]]


class Calibration(TypedDict):
    """The samples from which ranges were taken."""

    samples: Count
    images: dict[str, Any] | None
    inputs: dict[str, dict[str, float | None]]
    notes: list[Note]


class Weights(TypedDict):
    """Where the constants are."""

    place: Literal["flash", "ram", "file"]
    file: str | None
    file_bytes: int | None
    structure: Annotated[str | None, "That of the programs which a weights file fits."]
    crc: Annotated[str, "CRC-32 of the constants, or of a weights file from its byte 12 on."]


class Manifest(TypedDict):
    """bundle.json. Sizes are in bytes."""

    schema: Schema
    name: str
    generator: str
    target: str
    runs_on: str | None
    hash: Annotated[str, "Of everything that decides the bits and the interface."]
    model: Model
    options: dict[str, Any]
    calibration: Calibration | None
    precision: Annotated[list[dict[str, Any]], "The type of every node, its settings, and the reason."]
    arena: PlannedArena
    rams: list[dict[str, Any]]
    weights_bytes: Count
    weights: Weights
    macs: Count
    simplified: dict[str, Any]
    inputs: list[Tensor]
    outputs: list[Tensor]
    layers: list[Layer]
    state: NotRequired[Annotated[dict[str, Any], "The block kept from run to run, and each pair in it."]]
    stream: NotRequired[
        Annotated[dict[str, Any], "The window that runs along an input, and how many rows are new in each run."]
    ]
    levels: Annotated[list[str], "Levels of a PC's instruction sets."]
    schedule: dict[str, Any]
    buffers: list[dict[str, Any]]
    cflags: Annotated[list[str], "Flags without which the C does not compile."]
    sources: list[str]
    headers: list[str]
    reference: Annotated[dict[str, str], "Hashes of the files of the integer reference."]


class Build(TypedDict):
    """A firmware. Sizes are in bytes."""

    schema: Schema
    board: str
    elf: str
    code: Count
    rodata: Count
    data: Count
    bss: Count
    weights: Count
    stack: Annotated[int | None, "The deepest chain of functions; null if it is not known."]
    stack_path: NotRequired[
        Annotated[
            list[list[str | int]], "The functions of that chain, each with its bytes; absent where `stack` is null."
        ]
    ]
    indirect: NotRequired[Annotated[list[str], "Functions that call through pointers; absent where `stack` is null."]]


class Part(TypedDict):
    """One of several combined bundles."""

    name: str
    hash: str
    arena: Count
    weights_bytes: Count
    state: NotRequired[Annotated[int, "Bytes kept from run to run, in an arena of its own; absent without a state."]]


class Combined(TypedDict):
    """combined.json: several bundles with one arena."""

    schema: Schema
    name: str
    generator: str
    target: str
    arena: Arena
    bundles: list[Part]
    sources: list[str]


class Selftest(TypedDict):
    """What a self-test does."""

    runs: Count
    hash: Annotated[str, "FNV-1a with 64 bits over all outputs of all runs, 16 hexadecimal digits."]


class Export(TypedDict):
    """export.json: a bundle packaged for a build system or a language."""

    schema: Schema
    kind: str
    name: str
    version: Annotated[str, "That of the package."]
    generator: str
    target: str
    bundle: Annotated[str, "The hash of the bundle."]
    selftest: Selftest
    files: Annotated[list[str], "All but export.json."]
