"""Compares two sets of outputs. In: float outputs, quantized outputs, labels. Out: metrics, and the first difference.

Outputs are dicts of name -> [n, ...], one row per sample. The float reference is onnxruntime on the original model,
single-threaded, so that it gives the same bits on every run. Nothing here knows how the quantized outputs were made.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from glowembed.errors import ToolError
from glowembed.graph import own
from glowembed.graph.ir import Array, Shape, Value
from glowembed.graph.notes import Note
from glowembed.judge import litert
from glowembed.options.cut import WHOLE, Cut
from glowembed.progress import SILENT, Progress
from glowembed.ranges.datasets import Dataset, integers
from glowembed.read import cut, importer, onnxfile, onnxquant
from glowembed.records import dataclass
from glowembed.reference import run_float

NO_VALUES: Mapping[str, Value] = {}

EXACT_DB = 200.0
"""The value of sqnr_db if there is no noise at all, because JSON has no infinity."""


@dataclass(frozen=True)
class OutputMetrics:
    """The metrics of one output over all samples. top1_agreement: share of samples with the same class; None if the
    output is not classes.
    """

    name: str
    cosine: float
    rmse: float
    max_abs: float
    sqnr_db: float
    top1_agreement: float | None


@dataclass(frozen=True)
class Accuracy:
    """The accuracy against labels. metric: top1 (share that is right) or rmse (of targets of the output's shape)."""

    metric: str
    of_float: float
    of_quantized: float

    def json(self) -> dict[str, Any]:
        return {"metric": self.metric, "float": self.of_float, "quantized": self.of_quantized}


@dataclass(frozen=True)
class Difference:
    """The first element that is wrong; index is into the output as the model has it."""

    sample: int
    output: str
    index: tuple[int, ...]
    expected: int | float
    found: int | float

    def json(self) -> dict[str, Any]:
        return {**asdict(self), "index": list(self.index)}


def metrics(expected: Mapping[str, Array], found: Mapping[str, Array]) -> tuple[OutputMetrics, ...]:
    """Metrics of every output, in the order of `expected`."""
    return tuple(output_metrics(name, array, found[name]) for name, array in expected.items())


def output_metrics(name: str, expected: Array, found: Array) -> OutputMetrics:
    """The metrics of one output; all samples count as one long vector."""
    a, b = expected.astype(np.float64), found.reshape(expected.shape).astype(np.float64)
    noise = a - b
    return OutputMetrics(
        name=name,
        cosine=_cosine(a.ravel(), b.ravel()),
        rmse=float(np.sqrt(np.mean(noise**2))),
        max_abs=float(np.abs(noise).max()),
        sqnr_db=_decibel(float(np.sum(a**2)), float(np.sum(noise**2))),
        top1_agreement=float(np.mean(_classes(a) == _classes(b))) if _is_vector(a) else None,
    )


def _cosine(a: Array, b: Array) -> float:
    lengths = float(np.linalg.norm(a) * np.linalg.norm(b))
    if lengths == 0:
        return 1.0 if not a.any() and not b.any() else 0.0
    return min(1.0, float(a @ b) / lengths)


def _decibel(signal: float, noise: float) -> float:
    if noise == 0:
        return EXACT_DB
    return float(np.clip(10 * math.log10(signal / noise), -EXACT_DB, EXACT_DB)) if signal else -EXACT_DB


def _is_vector(outputs: Array) -> bool:
    """Whether an output has two classes or more per sample, all on one axis."""
    return bool(max(outputs.shape[1:], default=1) == outputs[0].size >= 2)


def _classes(outputs: Array) -> Array:
    return np.asarray(outputs.reshape(len(outputs), -1).argmax(axis=1))


def accuracy(labels: Array | None, expected: Mapping[str, Array], found: Mapping[str, Array]) -> Accuracy | None:
    """The accuracy against labels, for the first output that they fit; None if there are no labels, or if they fit no
    output.
    """
    if labels is None:
        return None
    flat = labels.reshape(len(labels), -1)
    for name, array in expected.items():
        if flat.shape[1] == 1 and labels.dtype.kind in "iub" and _is_vector(array):
            return Accuracy("top1", _right(flat, array), _right(flat, found[name]))
        if flat.shape[1] == array[0].size:
            return Accuracy("rmse", _rmse(flat, array), _rmse(flat, found[name]))
    return None


def _right(labels: Array, outputs: Array) -> float:
    return float(np.mean(_classes(outputs) == labels[:, 0]))


def _rmse(targets: Array, outputs: Array) -> float:
    return float(np.sqrt(np.mean((outputs.reshape(targets.shape).astype(np.float64) - targets) ** 2)))


LOW_DB = 10.0
LARGE_DROP = 0.05
"""A loss of accuracy that is worth a warning, as a share of samples."""


def doubts(
    found: Sequence[OutputMetrics], reached: Accuracy | None, labels: Array | None, expected: Mapping[str, Array]
) -> Iterator[Note]:
    """Notes about figures that should not be overlooked."""
    for one in found:
        if one.sqnr_db < LOW_DB:
            text = f"{one.name}: signal-to-noise ratio of {one.sqnr_db:.1f} dB against the float model, below {LOW_DB:.0f} dB"
            yield Note("low-sqnr", text)
    if reached is None or reached.metric != "top1" or labels is None:
        return
    if reached.of_float - reached.of_quantized > LARGE_DROP:
        shares = f"{100 * reached.of_float:.2f} % to {100 * reached.of_quantized:.2f} %"
        yield Note("accuracy-drop", f"accuracy falls from {shares}: `debug` says in which layers, `tune` what to lift")
    classes = next(array[0].size for array in expected.values() if _is_vector(array))
    outside = int(np.count_nonzero((labels < 0) | (labels >= classes)))
    if outside:
        text = f"{outside} of {len(labels)} labels name none of the {classes} classes ({labels.min()}..{labels.max()})"
        yield Note("labels-out-of-range", f"{text}: they count as wrong")


def first_difference(expected: Mapping[str, Array], found: Mapping[str, Array]) -> Difference | None:
    """The first difference of bits: by sample, then in the order of outputs. A different dtype is a difference too."""
    firsts = [_first(name, array, found[name]) for name, array in expected.items()]
    return min((d for d in firsts if d is not None), key=lambda d: d.sample, default=None)


def _first(name: str, expected: Array, found: Array) -> Difference | None:
    if expected.shape != found.shape or expected.dtype != found.dtype:
        raise ValueError(f"{name}: {found.dtype}{found.shape} cannot be compared with {expected.dtype}{expected.shape}")
    differs = np.argwhere(differing(expected, found))
    if not len(differs):
        return None
    at = tuple(int(i) for i in differs[0])
    return Difference(at[0], name, at[1:], expected[at].item(), found[at].item())


def differing(expected: Array, found: Array) -> Array:
    """Where the bits of two arrays of one dtype differ. NaN is equal to NaN, because processors give it different bits."""
    return np.asarray(_bits(expected) != _bits(found))


def _bits(array: Array) -> Array:
    if array.dtype.kind != "f":
        return array
    canonical = np.where(np.isnan(array), array.dtype.type(np.nan), array)
    return canonical.view(f"u{array.dtype.itemsize}")


def run_float_model(
    model: Path,
    dataset: Dataset,
    progress: Progress = SILENT,
    values: Mapping[str, Value] = NO_VALUES,
    at: Cut = WHOLE,
) -> dict[str, Array]:
    """The outputs of the original model, cut at the values of `at`, by onnxruntime, or by the float references of the ops where
    operators of the user or of another format are in use, which onnxruntime does not know. Whole TensorFlow Lite
    files without states are run by LiteRT where it is installed.
    """
    if own.folder() is None and at == WHOLE and onnxfile.is_translated(model) and litert.is_installed():
        rows = litert.run(model, dataset, progress)
        return {name: _stacked([row[name] for row in rows]) for name in rows[0]}
    if own.folder() is None and not onnxfile.has_own_operators(model):
        return run_onnxruntime(model, dataset, progress, values, at)
    graph = importer.load(model, dataset.shapes, at=at)
    stored = {name: integers(graph, name) for name in (*graph.inputs, *graph.outputs)}

    def run(inputs: Mapping[str, Array]) -> dict[str, Array]:
        """The outputs as the model file stores them, as the inputs are."""
        real = {name: known.from_model(x) if (known := stored[name]) else x for name, x in inputs.items()}
        made = run_float(graph, real)
        return {name: known.to_model(made[name]) if (known := stored[name]) else made[name] for name in graph.outputs}

    samples = progress.track(range(len(dataset)), "float reference")
    results = dataset.model_runs(samples, run)
    return {name: _stacked([result[name] for result in results]) for name in graph.outputs}


def reference_notes(model: Path) -> Iterator[Note]:
    """Which program computed the outputs of the float model, if that is not onnxruntime on the file itself."""
    if own.folder() is not None or not onnxfile.is_translated(model):
        return
    if litert.is_installed():
        yield Note("float-reference", f"the float reference is LiteRT, with its reference kernels, on {model.name}")
    else:
        engine = "glowembed's own" if onnxfile.has_own_operators(model) else "onnxruntime"
        text = f"the float reference is {engine} on {model.name} as translated to ONNX"
        yield Note("float-reference", f"{text}; pip install 'glowembed[tflite]' for LiteRT itself")


def run_onnxruntime(
    model: Path,
    dataset: Dataset,
    progress: Progress = SILENT,
    values: Mapping[str, Value] = NO_VALUES,
    at: Cut = WHOLE,
) -> dict[str, Array]:
    """The outputs of the original model, [n, ...] by name; a batch axis of 1 is left out.

    values: the outputs of the bundle. Where data decides their size, zeros follow what was found, and the number of these is
    an output of its own, as in the bundle.
    """
    try:
        session = _session_for(model, dataset.shapes, at)
        names = [output.name for output in session.get_outputs()]
        samples = progress.track(range(len(dataset)), "float reference")
        results = dataset.model_runs(
            samples,
            lambda inputs: _bounded(dict(zip(names, session.run(names, _typed(session, inputs)), strict=True)), values),
        )
    except Exception as error:  # onnxruntime has no common class of exceptions
        raise ToolError(f"onnxruntime cannot run {model}: {str(error).strip().splitlines()[0]}") from error
    return {name: _stacked([result[name] for result in results]) for name in results[0]}


def _bounded(outputs: Mapping[str, Array], values: Mapping[str, Value]) -> dict[str, Array]:
    """The outputs with the sizes that they have in the bundle, and how many elements were found."""
    result = dict(outputs)
    for name, array in outputs.items():
        if name in values and (found := values[name].found):
            rest = [(0, most - size) for most, size in zip(values[name].shape, array.shape, strict=True)]
            result[name] = np.pad(array, rest)
            result[found[0]] = np.array([array.shape[found[1]]], np.int32)
    return result


def _session_for(model: Path, shapes: Mapping[str, Shape], at: Cut) -> Any:
    """A session for inputs of these shapes, even if the model fixes another batch."""
    integers = not cut.operators(model).isdisjoint(onnxquant.INTEGER_OPERATORS)
    loadable = onnxfile.loadable(model)
    if at != WHOLE:
        return _session(cut.for_inputs(model, shapes, at) or loadable, integers)
    session = _session(loadable, integers)
    fixed = {i.name: i.shape[0] for i in session.get_inputs() if i.shape and isinstance(i.shape[0], int)}
    if all(name not in shapes or shapes[name][:1] == (batch,) for name, batch in fixed.items()):
        return session
    return _session(cut.for_inputs(model, shapes) or loadable, integers)


def _session(model: str | bytes, integers: bool) -> Any:
    """A session that runs operator by operator, because optimizations round floats to integers that do not hold them.

    `integers`: the model has operators on integers. Without optimization, a CPU without VNNI saturates the sum of two
    products of uint8 and int8 at 16 bits; with optimization, onnxruntime rewrites them to give the sums of a CPU with
    VNNI where it can.
    """
    options = session_options()
    if not integers:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    options.add_session_config_entry("session.x64quantprecision", "1")
    try:
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception:  # onnxruntime has no common class of exceptions; its message is that of the model as it is
        return onnxruntime.InferenceSession(model, session_options(), providers=["CPUExecutionProvider"])


def session_options() -> Any:
    """Options for one thread, and the same bits every time."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.use_deterministic_compute = True
    options.log_severity_level = 4
    return options


def _typed(session: Any, sample: Mapping[str, Array]) -> dict[str, Array]:
    kinds = {i.name: i.type.removeprefix("tensor(").removesuffix(")") for i in session.get_inputs()}
    dtypes = {"float": "float32", "double": "float64"}
    return {name: np.asarray(array, dtypes.get(kinds[name], kinds[name])) for name, array in sample.items()}


def _stacked(outputs: list[Array]) -> Array:
    """One output stacked over samples as [n, ...]."""
    alone = outputs[0].ndim > 0 and outputs[0].shape[0] == 1
    return np.concatenate(outputs) if alone else np.stack(outputs)
