"""Finds where accuracy, or a bit, is lost: compares every tensor on the board, in the integer reference and in the
float model.

In: a bundle, samples, a board. Out: one row per layer, and all tensors. A layer's error is given twice: cumulated (what
it and all layers before it lost) and isolated (its reference fed with the float model's own input, so that it is
charged only with what it loses itself).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from io import BytesIO
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from glowembed import pipeline
from glowembed.errors import UsageError
from glowembed.files.output import write_file
from glowembed.graph.ir import Array, Graph, Node, Value
from glowembed.graph.notes import Note
from glowembed.image.bundles import form_of
from glowembed.judge import compare
from glowembed.judge.validation import (
    build_bundle,
    find_model,
    run_layers,
    samples_for,
    saturated,
    stored_inputs,
    unfinished_tensors,
)
from glowembed.pipeline import Bundle
from glowembed.progress import SILENT, Progress
from glowembed.ranges import datasets
from glowembed.ranges.datasets import Dataset, Source
from glowembed.ranges.profile import Profile, profile
from glowembed.records import dataclass
from glowembed.reference import batches, graph_runs, run_float_all, run_int_all, run_node

SAMPLES = 8
"""The number of samples: every tensor of every sample is kept, so a few must suffice."""

SEEN = 32
"""The number of samples for histograms."""

Tensors = Mapping[str, Array]
"""Value name -> [samples, stored shape]."""


@dataclass(frozen=True)
class Loss:
    """Noise against float: SQNR in dB, cosine, and the largest error in steps of the output's scale."""

    sqnr_db: float
    cosine: float
    max_steps: float


@dataclass(frozen=True)
class LayerReport:
    """One layer. `differs`: whether the board's bits differ from the reference; None if the tensor cannot be read back.

    `saturated` is the share of stored outputs at an end of their type that is not a fused ReLU's zero. `cumulated` and
    `isolated` are None for a tensor that the float model does not have, such as the parts of a concat.
    """

    name: str
    op: str
    output: str
    differs: bool | None
    saturated: float
    cumulated: Loss | None
    isolated: Loss | None


@dataclass(frozen=True)
class DebugRun:
    """The whole result; `tensors` maps `board/`, `reference/` or `float/` + value name to [samples, shape].

    Inputs are under `board/` as they were written, views with the contents of the tensors that they are views of.
    """

    layers: tuple[LayerReport, ...]
    tensors: Tensors
    notes: tuple[Note, ...] = ()

    @property
    def first_difference(self) -> str | None:
        """The first layer whose bits differ on the board."""
        return next((layer.name for layer in self.layers if layer.differs), None)

    def costliest(self, count: int = 3) -> tuple[LayerReport, ...]:
        """The layers with the lowest isolated SQNR, worst first."""
        known = [layer for layer in self.layers if layer.isolated is not None]
        return tuple(sorted(known, key=lambda layer: layer.isolated.sqnr_db if layer.isolated else 0.0)[:count])

    def json(self) -> dict[str, Any]:
        """What `debug --json` prints of it."""
        layers = [
            {**asdict(layer), "cumulated": _finite(layer.cumulated), "isolated": _finite(layer.isolated)}
            for layer in self.layers
        ]
        return {
            "first_difference": self.first_difference,
            "layers": layers,
            "notes": [note.json() for note in self.notes],
        }

    def save(self, path: Path) -> None:
        """Write all tensors to one .npz, completely or not at all."""
        content = BytesIO()
        np.savez_compressed(content, **self.tensors)  # type: ignore[arg-type]
        write_file(path, content.getvalue())


def _finite(loss: Loss | None) -> dict[str, float | None] | None:
    """A loss without infinity, which JSON does not know."""
    if loss is None:
        return None
    return {key: value if isfinite(value) else None for key, value in asdict(loss).items()}


def debug(
    bundle: Bundle | Path,
    data: Path | Source | Dataset,
    board: str,
    samples: int | None = None,
    build_dir: Path | None = None,
    progress: Progress = SILENT,
    model: Path | None = None,
) -> DebugRun:
    """Run some samples (SAMPLES by default, evenly spaced) layer by layer on the board and in both references."""
    bundle = bundle if isinstance(bundle, Bundle) else pipeline.load_bundle(bundle)
    graph = _no_stream(bundle).graph
    chosen = samples_for(bundle, data).every(samples or SAMPLES)
    floats = _floats(bundle, find_model(bundle, model), chosen, progress)
    with progress.stage("build"):
        image = build_bundle(bundle, board, build_dir)
    inputs = stored_inputs(graph, chosen)
    found = run_layers(bundle, board, image, inputs, progress)
    reference = _references(graph, inputs)
    layers = tuple(_layer(graph, node, reference, floats, found) for node in graph.nodes if node.kernel)
    seen_there = _with_views(graph, {**inputs, **found})
    tensors = {f"board/{n}": a for n, a in seen_there.items()} | {f"float/{n}": a for n, a in floats.items()}
    names = [n for n, v in graph.values.items() if v.const is None]
    return DebugRun(layers, {**tensors, **{f"reference/{n}": reference[n] for n in names}}, chosen.notes)


def _no_stream(bundle: Bundle) -> Bundle:
    """The bundle, unless it is a stream, whose layers compute parts of tensors."""
    if bundle.graph.stream is not None:
        raise UsageError(
            f"{bundle.path} is a stream, and each hop computes only parts of its layers: to look at layers with debug or validate"
            " --html, compile the same model without --stream"
        )
    return bundle


def _with_views(graph: Graph, tensors: Tensors) -> dict[str, Array]:
    """The tensors, and those that share their memory under another name and shape."""
    complete = dict(tensors)
    for node in graph.nodes:
        if node.kernel is None and node.shares == 0 and node.inputs[0] in complete:
            source, shape = complete[node.inputs[0]], graph.values[node.outputs[0]].shape
            complete[node.outputs[0]] = source.reshape(len(source), *shape)
    return complete


def losses(
    bundle: Bundle,
    data: Path | Source | Dataset,
    samples: int | None = None,
    progress: Progress = SILENT,
    model: Path | None = None,
) -> tuple[LayerReport, ...]:
    """The losses of every layer against float, from the references only, without a board."""
    graph = _no_stream(bundle).graph
    chosen = samples_for(bundle, data).every(samples or SAMPLES)
    floats = _floats(bundle, find_model(bundle, model), chosen, progress)
    reference = _references(graph, stored_inputs(graph, chosen))
    return tuple(_layer(graph, node, reference, floats, {}) for node in graph.nodes if node.kernel)


def seen(
    bundle: Bundle,
    data: Path | Source | Dataset,
    samples: int | None = None,
    progress: Progress = SILENT,
    model: Path | None = None,
) -> Profile:
    """The values of the float model on some of these samples (SEEN by default), as ranges and histograms."""
    graph = _float_graph(_no_stream(bundle), find_model(bundle, model))
    return profile(graph, samples_for(bundle, data).every(samples or SEEN), progress)


def _references(graph: Graph, inputs: Tensors) -> dict[str, Array]:
    samples = ({n: a[i] for n, a in inputs.items()} for i in range(len(next(iter(inputs.values())))))
    return _stack(values for batch in batches(graph, samples) for values in run_int_all(graph, batch))


def _floats(bundle: Bundle, model: Path, dataset: Dataset, progress: Progress) -> dict[str, Array]:
    """Every activation of the float graph."""
    graph = _float_graph(bundle, model)
    names = [n for n, v in graph.values.items() if v.const is None]
    indices = progress.track(range(len(dataset)), "float")
    samples = (datasets.stored_sample(graph, dataset, index) for index in indices)
    runs = graph_runs(graph, samples, run_float_all)
    return _stack({name: _kept(bundle, name, values[name]) for name in names} for _, values in runs)


def _float_graph(bundle: Bundle, model: Path) -> Graph:
    """The canonical float graph, with the names and layouts of the bundle's tensors."""
    return pipeline.import_model(model, form_of(bundle))


def _kept(bundle: Bundle, name: str, array: Array) -> Array:
    """The channels that the bundle computes; channels on which no output depends are missing."""
    simplified = bundle.manifest.get("simplified") or {"kept": {}}
    channels = simplified["kept"].get(name)
    return array if channels is None else array[..., channels]


def _stack(rows: Iterable[Tensors]) -> dict[str, Array]:
    listed = list(rows)
    return {name: np.stack([row[name] for row in listed]) for name in listed[0]}


def _layer(graph: Graph, node: Node, reference: Tensors, floats: Tensors, found: Tensors) -> LayerReport:
    value = graph.values[node.outputs[0]]
    right = reference[value.name]
    finished = value.name in found and value.name not in unfinished_tensors(graph)
    differs = bool(np.any(compare.differing(right, found[value.name]))) if finished else None
    comparable = value.name in floats and floats[value.name].shape == right.shape
    return LayerReport(
        node.name,
        node.op,
        value.name,
        differs,
        saturated(value, right),
        _loss(value, floats[value.name], right) if comparable else None,
        _loss(value, floats[value.name], _isolated(graph, node, reference, floats)) if comparable else None,
    )


def _isolated(graph: Graph, node: Node, reference: Tensors, floats: Tensors) -> Array:
    """The reference of one node on the float model's tensors.

    An input that the float model does not have, such as the sums of a mean, is computed from those that it has.
    """
    inputs = [_as_stored(graph, graph.values[name], reference, floats) for name in node.inputs]
    count = len(next(iter(reference.values())))
    return np.stack([run_node(graph, node.name, *(array[index] for array in inputs)) for index in range(count)])


def _as_stored(graph: Graph, value: Value, reference: Tensors, floats: Tensors) -> Array:
    """[samples, stored shape] of a node's input."""
    known = floats.get(value.name)
    if known is not None and known.shape[1:] == value.shape:
        return known if value.qtype is None else value.qtype.quantize(known)
    producer = graph.producer().get(value.name)
    return reference[value.name] if producer is None else _isolated(graph, producer, reference, floats)


def _loss(value: Value, real: Array, stored: Array) -> Loss:
    quantized = stored if value.qtype is None else value.qtype.dequantize(stored)
    metrics = compare.metrics({value.name: real}, {value.name: quantized})[0]
    step = value.qtype.scale[0] if value.qtype else 1.0
    return Loss(metrics.sqnr_db, metrics.cosine, metrics.max_abs / step)
