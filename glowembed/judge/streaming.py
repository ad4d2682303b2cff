"""Feeds a stream with windows: the samples are one recording, which is cut into hops, and every window that ends with a hop is a sample of
the network on windows.

In: a graph and a dataset of windows. Out: the hops for the bundle, and the windows for the float model and for the reference.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from glowembed.errors import GlowembedError, UsageError
from glowembed.graph.ir import Array, Graph
from glowembed.graph.notes import Note
from glowembed.image.bundles import Bundle, cut_of, form_of, window_of
from glowembed.judge import compare
from glowembed.nest.dtypes import numpy_type
from glowembed.options.words import Streamed
from glowembed.pipeline import lowered, model_samples
from glowembed.progress import Progress
from glowembed.ranges import datasets
from glowembed.ranges.datasets import Dataset
from glowembed.records import dataclass
from glowembed.reference import graph_runs, run_int, run_int_all


@dataclass(frozen=True)
class Recording:
    """hops: what goes into the bundle, run by run. windows: the samples of the model; they are those of the last runs."""

    hops: Dataset
    windows: Dataset


def recording(graph: Graph, dataset: Dataset) -> Recording:
    """The samples as hops and windows; both are the dataset itself for a bundle that is no stream."""
    stream = graph.stream
    if stream is None:
        return Recording(dataset, dataset)
    windows = np.moveaxis(dataset.inputs[stream.input], stream.axis, 1)
    frames = windows.reshape(-1, *windows.shape[2:])
    count = len(frames) // stream.hop
    if count < stream.hops:
        raise UsageError(
            f"{len(frames)} rows do not fill a window of {stream.rows} in hops of {stream.hop}: give more samples"
        )
    ends = np.arange(stream.hops, count + 1) * stream.hop

    def cut(starts: Array, length: int) -> Dataset:
        pieces = np.stack([frames[start : start + length] for start in starts])
        arrays = {stream.input: np.moveaxis(pieces, 1, stream.axis)}
        shape = dataset.shapes[stream.input]
        shapes = {stream.input: (*shape[: stream.axis], length, *shape[stream.axis + 1 :])}
        return replace(dataset, inputs=arrays, shapes=shapes, labels=None)

    joined = Note(
        "data", f"{len(dataset)} samples are one recording of {len(frames)} rows: {count} hops, {len(ends)} windows"
    )
    hops, whole = cut(np.arange(count) * stream.hop, stream.hop), cut(ends - stream.rows, stream.rows)
    return Recording(replace(hops, states=graph.states), replace(whole, notes=(*dataset.notes, joined)))


def float_outputs(bundle: Bundle, original: Path, found: Recording, progress: Progress) -> Mapping[str, Array]:
    """The outputs of the float model for each window; of a causal stream those of the same stream in float32, since a window of the
    model has another meaning.
    """
    stream, graph = bundle.graph.stream, bundle.graph
    if stream is None or not stream.causal:
        windows = model_samples(original, form_of(bundle), found.windows)
        return compare.run_float_model(original, windows, progress, graph.values, cut_of(bundle))
    wanted = Streamed(stream.input, stream.axis, stream.hop)
    options = replace(form_of(bundle), dtype="float32", stream=wanted, stream_padding=stream.padding)
    floats = lowered(original, replace(options, target="x86-64"), found.windows.every(1), found.windows)
    samples = (datasets.stored_sample(floats, found.hops, index) for index in range(len(found.hops)))
    runs = graph_runs(floats, samples, run_int_all)
    rows = [
        {n: floats.values[n].logical(values[n]) for n in floats.outputs if n in graph.outputs} for _, values in runs
    ]
    last = rows[-len(found.windows) :]
    kept = {state.output for state in floats.states}
    return {name: np.stack([row[name] for row in last]) for name in last[0] if name not in kept}


def require_windows(bundle: Bundle, found: Recording, expected: Mapping[str, Array], progress: Progress) -> None:
    """Compare the reference of the stream with that of the network on windows, window by window; of a causal stream the first one. Raises GlowembedError with the first
    difference.
    """
    stream = bundle.graph.stream
    if stream is None:
        return
    graph = window_of(bundle)
    value, windows = graph.values[stream.input], found.windows
    count = 1 if stream.causal else len(windows)
    for index in progress.track(range(count), "windows"):
        real = datasets.stored(value, windows.sample(index)[stream.input])
        given = real.astype(numpy_type(value.dtype)) if value.qtype is None else value.qtype.quantize(real)
        made = run_int(graph, {stream.input: given})
        hop = len(found.hops) - len(windows) + index
        right = {name: made[name][None] for name in graph.outputs}
        difference = compare.first_difference(right, {name: expected[name][hop : hop + 1] for name in graph.outputs})
        if difference is not None:
            raise GlowembedError(
                f"hop {hop} gives another {difference.output!r} than the window that ends with it, {difference.found} instead of"
                f" {difference.expected} at {list(difference.index)}: this is a bug of glowembed"
            )
