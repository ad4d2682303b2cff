"""Describes a model before anything is compiled. In: an ONNX file. Out: an Inspection: tensors, layers, sizes,
problems.

Everything that prevents compilation is listed at once. The arena is that of the default plan of `compile`; flash is its
constants and an estimate of its code. Without samples, random ones give the ranges, and no channel is assumed to be
dead, so the network may become smaller when it is compiled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from glowembed.canonicalize import canonicalize
from glowembed.errors import GlowembedError
from glowembed.graph.clock import milliseconds
from glowembed.graph.ir import Graph, Node, Shape, Value
from glowembed.graph.notes import Note
from glowembed.graph.op import is_a
from glowembed.graph.plan import InputLayout
from glowembed.graph.spatial import channels_first, channels_last
from glowembed.graph.target import load_board, load_target, target_names
from glowembed.judge.coverage import Row, refused
from glowembed.judge.coverage import coverage as covered
from glowembed.judge.fitting import Fit, Needs, OnTarget, board_for, bound_by_weights, fits, needs, on_targets
from glowembed.ops.layout import Transpose
from glowembed.options.cut import WHOLE, Cut
from glowembed.options.frontend import Frontend
from glowembed.pipeline import CompileOptions, import_model, lowered, planned
from glowembed.progress import SILENT, Progress
from glowembed.ranges.datasets import Dataset, InputSpec, Source, input_specs, load
from glowembed.read import importer
from glowembed.read.frontend import with_frontend
from glowembed.read.importer import NO_SHAPES
from glowembed.read.walk import Problem
from glowembed.records import dataclass

SCHEMA = 1
DEFAULT_TARGET = CompileOptions().target

RANDOM_SAMPLES = 2
OF_RANDOM = "RAM and flash are those of random samples; with --data they have the kernels that compile chooses"


@dataclass(frozen=True)
class Tensor:
    """An input or output. layout: NCHW or NHWC if it can be determined, else empty."""

    name: str
    shape: Shape
    dtype: str
    layout: str


@dataclass(frozen=True)
class Layer:
    """A node of the canonical graph; shape is that of its output as stored."""

    name: str
    op: str
    shape: Shape
    macs: int
    parameters: int


@dataclass(frozen=True)
class Inspection:
    """The result. If something is not supported, only `model` and `unsupported` are set. Estimates are in bytes, for
    `target`.
    """

    model: str
    model_sha256: str = ""
    opset: int = 0
    producer: str = ""
    notes: tuple[Note, ...] = ()
    inputs: tuple[Tensor, ...] = ()
    outputs: tuple[Tensor, ...] = ()
    layers: tuple[Layer, ...] = ()
    macs: int = 0
    parameters: int = 0
    target: str = DEFAULT_TARGET
    arena_estimate: int | None = None
    flash_estimate: int | None = None
    cycles_estimate: int | None = None
    clock_hz: int | None = None
    milliseconds: float | None = None
    boards: tuple[Fit, ...] = ()
    targets: tuple[OnTarget, ...] = ()
    unsupported: tuple[Problem, ...] = ()
    coverage: tuple[Row, ...] = ()

    def json(self) -> dict[str, Any]:
        return {"schema": SCHEMA, **asdict(self), "notes": [note.json() for note in self.notes]}


def inspect_model(
    model: Path | str,
    shapes: Mapping[str, Shape] = NO_SHAPES,
    target: str | None = None,
    input_layout: InputLayout = "model",
    data: Dataset | Source | None = None,
    coverage: bool = False,
    at: Cut = WHOLE,
    clock_hz: int | None = None,
    frontend: Frontend | None = None,
    everywhere: bool = False,
    progress: Progress = SILENT,
    board: str | None = None,
) -> Inspection:
    """Inspect a model; `target` adds whether it fits the boards of that target, or only `board`, `data` adds facts from samples, `coverage` adds how
    each operator is computed, `clock_hz` adds the time of an inference at this clock, `frontend` puts a front end before it,
    `everywhere` adds what it needs on every target.
    """
    target = load_board(board).target if board is not None and target is None else target
    core = load_target(target or DEFAULT_TARGET).name
    boards = None if board is None else (board_for(board, core),)
    options = CompileOptions(core, shapes=shapes, input_layout=input_layout, cut=at, frontend=frontend)
    model = Path(model)
    info = importer.describe(model)
    problems = tuple(importer.problems(model, shapes, at))
    notes = tuple(Note("data", text) for text in info.notes)
    head = Inspection(model.name, info.sha256, info.opset, info.producer, notes, target=core, clock_hz=clock_hz)
    operators = importer.operators(model, at) if coverage else {}
    if problems:
        head = replace(head, unsupported=problems)
        return replace(head, coverage=refused(operators, [(p.op, p.reason) for p in problems]) if coverage else ())
    imported = with_frontend(importer.load(model, shapes, input_layout, at=at), frontend)
    samples = load(data, input_specs(import_model(model, options)), "calib") if isinstance(data, Source) else data
    told = (*imported.assumed, *(note for note in (samples.notes if samples else ()) if note.level == "warning"))
    head = replace(head, notes=(*head.notes, *told))
    canonical = canonicalize(imported)
    found = _described(head, imported, canonical)
    try:
        graph = lowered(model, options, samples, _random(input_specs(import_model(model, options))))
        chosen, plan = planned(graph, options)
        usual = needs(chosen, plan, core)
    except GlowembedError as error:
        unknown = Note("estimate", f"RAM, flash and multiply-accumulates cannot be determined: {error}")
        return replace(found, notes=(*found.notes, unknown))
    found = _counted(found, canonical, graph)
    if samples is None:
        found = replace(found, notes=(*found.notes, Note("estimate", OF_RANDOM)))
    bound = [bound_by_weights(usual, one, clock_hz) for one in boards or ()]
    found = replace(found, notes=(*found.notes, *filter(None, bound)))
    every = progress.track(target_names(), "targets") if everywhere else ()
    return replace(
        _sized(found, usual),
        boards=fits(graph, options, usual, boards=boards) if target is not None else (),
        targets=tuple(on_targets(graph, options, every)),
        coverage=covered(operators, chosen, options.core(), imported.generated) if coverage else (),
    )


def _sized(found: Inspection, usual: Needs) -> Inspection:
    return replace(
        found,
        arena_estimate=usual.arena,
        flash_estimate=usual.flash,
        cycles_estimate=usual.cycles,
        milliseconds=milliseconds(usual.cycles, found.clock_hz),
    )


def _random(specs: Sequence[InputSpec]) -> Dataset:
    random = np.random.default_rng(0)
    return Dataset(
        {s.name: random.standard_normal((RANDOM_SAMPLES, *s.sample_shape)).astype(np.float32) for s in specs},
        shapes={s.name: s.shape for s in specs},
        integers={s.name: s.integers for s in specs if s.integers is not None},
    )


def _described(head: Inspection, imported: Graph, graph: Graph) -> Inspection:
    layers = tuple(_layer(graph, node) for node in graph.nodes)
    return replace(
        head,
        inputs=tuple(_tensor(imported, name) for name in graph.inputs),
        outputs=tuple(_tensor(imported, name) for name in graph.outputs),
        layers=layers,
        parameters=sum(v.elements for v in graph.values.values() if v.const is not None),
    )


def _tensor(graph: Graph, name: str) -> Tensor:
    value = graph.values[name]
    return Tensor(name, value.shape, value.dtype, _layout(graph, value))


def _layout(graph: Graph, value: Value) -> str:
    """The layout of four axes: that of a neighbouring Transpose to or from channels-last, or else by the axis that is
    as short as a number of colours.
    """
    if len(value.shape) != 4:
        return ""
    if value.layout is not None:
        return "NHWC"
    forward, back = channels_last(4), channels_first(4)
    readers = {tuple(n.attrs["perm"]) for n in graph.consumers()[value.name] if is_a(n, Transpose)}
    makers = {tuple(n.attrs["perm"]) for n in graph.nodes if is_a(n, Transpose) and value.name in n.outputs}
    if forward in readers or back in makers:
        return "NCHW"
    if back in readers or forward in makers:
        return "NHWC"
    short = [value.shape[axis] in (1, 3) for axis in (1, 3)]
    return {(True, False): "NCHW", (False, True): "NHWC"}.get((short[0], short[1]), "")


def _layer(graph: Graph, node: Node) -> Layer:
    constants = [graph.values[name] for name in node.inputs if graph.values[name].const is not None]
    shape = graph.values[node.outputs[0]].shape
    return Layer(node.name, node.operator, shape, 0, sum(value.elements for value in constants))


def _counted(found: Inspection, graph: Graph, made: Graph) -> Inspection:
    """The same with the multiply-accumulates of the kernel-level nodes, each at the first layer from which it is made."""
    first: dict[str, int] = {}
    for i, node in enumerate(graph.nodes):
        for origin in node.origins:
            first.setdefault(origin, i)
    macs = [0] * len(found.layers)
    for node in made.nodes:
        at = min((first[origin] for origin in node.origins if origin in first), default=None)
        if at is not None:
            macs[at] += node.macs
    layers = tuple(replace(layer, macs=n) for layer, n in zip(found.layers, macs, strict=True))
    return replace(found, layers=layers, macs=sum(node.macs for node in made.nodes))
