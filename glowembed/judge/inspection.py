"""What a model is, before anything is compiled. In: an ONNX file. Out: an Inspection: tensors, layers, sizes, problems.

All that keeps the model from being compiled is listed at once. The sizes of arena and flash are estimates for int8.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import prod
from pathlib import Path
from typing import Any

from glowembed.canonicalize import canonicalize
from glowembed.graph.ir import Graph, Node, Shape, Value
from glowembed.graph.spatial import channels_first, channels_last
from glowembed.graph.target import Board, board_names, load_board, load_target
from glowembed.read import importer
from glowembed.read.importer import NO_SHAPES, InputLayout, Problem

SCHEMA = 1

KERNEL_BYTES = 900
"""A guess: machine code of one kind of layer."""

LAYER_BYTES = 120
"""A guess: parameters of a layer and the code that calls it."""

CHANNEL_BYTES = 8
"""Of an output channel: an int32 bias and an int32 multiplier."""

ALIASES = ("Flatten", "Reshape", "Squeeze", "Unsqueeze")


@dataclass(frozen=True)
class Tensor:
    """An input or output. layout: NCHW or NHWC where that can be told, else empty."""

    name: str
    shape: Shape
    dtype: str
    layout: str


@dataclass(frozen=True)
class Layer:
    """A node of the canonical graph; shape is that of its output, as it is stored."""

    name: str
    op: str
    shape: Shape
    macs: int
    parameters: int


@dataclass(frozen=True)
class Fit:
    """A board, and whether the estimates are within its memories (host: None)."""

    board: str
    ram: int
    flash: int
    fits: bool | None


@dataclass(frozen=True)
class Inspection:
    """Empty but for `model` and `unsupported` where something is not supported. Estimates in bytes."""

    model: str
    model_sha256: str = ""
    opset: int = 0
    producer: str = ""
    notes: tuple[str, ...] = ()
    inputs: tuple[Tensor, ...] = ()
    outputs: tuple[Tensor, ...] = ()
    layers: tuple[Layer, ...] = ()
    macs: int = 0
    parameters: int = 0
    arena_estimate: int = 0
    flash_estimate: int = 0
    boards: tuple[Fit, ...] = ()
    unsupported: tuple[Problem, ...] = ()

    def json(self) -> dict[str, Any]:
        return {"schema": SCHEMA, **asdict(self)}


def inspect_model(
    model: Path | str,
    shapes: Mapping[str, Shape] = NO_SHAPES,
    target: str | None = None,
    input_layout: InputLayout = "model",
) -> Inspection:
    """Look at a model; `target` adds whether it fits the boards of that target."""
    if target is not None:
        load_target(target)
    model = Path(model)
    info = importer.describe(model)
    problems = tuple(importer.problems(model, shapes))
    head = Inspection(model.name, info.sha256, info.opset, info.producer, info.notes, unsupported=problems)
    if problems:
        return head
    return _described(head, importer.load(model, shapes, input_layout), target)


def _described(head: Inspection, imported: Graph, target: str | None) -> Inspection:
    graph = canonicalize(imported)
    layers = tuple(_layer(graph, node) for node in graph.nodes)
    arena, flash = _arena(graph), _flash(graph)
    return Inspection(
        model=head.model,
        model_sha256=head.model_sha256,
        opset=head.opset,
        producer=head.producer,
        notes=head.notes,
        inputs=tuple(_tensor(imported, name) for name in graph.inputs),
        outputs=tuple(_tensor(imported, name) for name in graph.outputs),
        layers=layers,
        macs=sum(layer.macs for layer in layers),
        parameters=sum(v.elements for v in graph.values.values() if v.const is not None),
        arena_estimate=arena,
        flash_estimate=flash,
        boards=tuple(_fit(load_board(name), arena, flash) for name in _boards(target)),
    )


def _tensor(graph: Graph, name: str) -> Tensor:
    value = graph.values[name]
    return Tensor(name, value.shape, value.dtype, _layout(graph, value))


def _layout(graph: Graph, value: Value) -> str:
    """Of four axes: what a Transpose to or from channels-last next to it tells, else the axis that is as short as colours."""
    if len(value.shape) != 4:
        return ""
    if value.layout is not None:
        return "NHWC"
    forward, back = channels_last(4), channels_first(4)
    readers = {tuple(n.attrs["perm"]) for n in graph.consumers()[value.name] if n.op == "Transpose"}
    makers = {tuple(n.attrs["perm"]) for n in graph.nodes if n.op == "Transpose" and value.name in n.outputs}
    if forward in readers or back in makers:
        return "NCHW"
    if back in readers or forward in makers:
        return "NHWC"
    short = [value.shape[axis] in (1, 3) for axis in (1, 3)]
    return {(True, False): "NCHW", (False, True): "NHWC"}.get((short[0], short[1]), "")


def _layer(graph: Graph, node: Node) -> Layer:
    constants = [graph.values[name] for name in node.inputs if graph.values[name].const is not None]
    shape = graph.values[node.outputs[0]].shape
    return Layer(node.name, node.op, shape, _macs(node, shape, constants), sum(value.elements for value in constants))


def _macs(node: Node, shape: Shape, constants: list[Value]) -> int:
    """Every output element is a sum over the weights of its channel; only layers with a matrix of weights count."""
    weights = next((value for value in constants if len(value.shape) >= 2), None)
    if weights is None or node.op not in ("Conv", "ConvTranspose", "Gemm", "MatMul"):
        return 0
    return prod(shape) * weights.elements // shape[-1]


def _arena(graph: Graph) -> int:
    """The most int8 bytes alive at once, when every tensor is kept whole and reshaped tensors share their memory."""
    root = {name: name for name in graph.values}
    for node in graph.nodes:
        if node.op in ALIASES:
            root[node.outputs[0]] = root[node.inputs[0]]
    last = {root[name]: step for step, node in enumerate(graph.nodes) for name in (*node.inputs, *node.outputs)}
    last |= {root[name]: len(graph.nodes) for name in graph.outputs}
    alive, peak = {root[name] for name in graph.inputs}, 0
    for step, node in enumerate(graph.nodes):
        alive |= {root[name] for name in node.outputs}
        peak = max(peak, sum(graph.values[name].elements for name in alive))
        alive = {name for name in alive if last[name] > step}
    return peak


def _flash(graph: Graph) -> int:
    weights = [v for v in graph.values.values() if v.const is not None]
    constants = sum(v.elements if len(v.shape) >= 2 else v.elements * CHANNEL_BYTES for v in weights)
    kinds = {node.op for node in graph.nodes if node.op not in ALIASES}
    return constants + KERNEL_BYTES * len(kinds) + LAYER_BYTES * len(graph.nodes)


def _boards(target: str | None) -> list[str]:
    return [name for name in board_names() if load_board(name).target == target]


def _fit(board: Board, arena: int, flash: int) -> Fit:
    ram = sum(memory.size for memory in board.memories if memory.kind != "flash")
    rom = sum(memory.size for memory in board.memories if memory.kind == "flash")
    fits = arena + board.stack_size <= ram and flash <= rom if board.memories else None
    return Fit(board.name, ram, rom, fits)
