"""Checks whether a bundle is right. In: a bundle, samples, a board. Out: a Validation: bits, metrics, figures, as JSON
too.

The same samples go through the float model (onnxruntime), the integer reference of the bundle (Python) and the program
on the board. Board and integer reference must agree in every bit; both are judged against the float model.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from pathlib import Path
from typing import Any

import numpy as np

from glowembed.errors import UsageError
from glowembed.graph.clock import clock_of, microjoules, milliseconds
from glowembed.graph.ir import Array, Graph, Value
from glowembed.graph.notes import Note
from glowembed.graph.op import is_a
from glowembed.graph.target import Board, default_board, load_board, target_of
from glowembed.image import build
from glowembed.image.build import Image
from glowembed.image.bundles import Bundle, build_folder, images_of, load_bundle
from glowembed.judge import compare, streaming
from glowembed.judge.compare import Accuracy, Difference, OutputMetrics
from glowembed.judge.values import logical_of, model_outputs, real_of, stored_of
from glowembed.measure import Figures, Measurement, Ruler, measure
from glowembed.ops.layout import View
from glowembed.pipeline import keep_whole
from glowembed.progress import SILENT, Progress
from glowembed.ranges import datachecks, datasets
from glowembed.ranges.datasets import Data, Dataset
from glowembed.read import importer
from glowembed.records import dataclass
from glowembed.reference import batches, graph_runs, run_int, run_int_all
from glowembed.run import Bytes, RunResult, host, ondevice, qemu
from glowembed.run.bench import Bench
from glowembed.run.ondevice import Link, Reference, Wrong

SCHEMA = 1
LAYER_KEYS = ("name", "op", "kernel", "macs")
LAYER_SAMPLES = 20
"""The most samples for which layers are checked, because every layer of every sample is much data."""

Arrays = Mapping[str, Array]
EMULATED = Link()
"""The board's own way: semihosting if it is emulated."""


@dataclass(frozen=True)
class LayerCheck:
    """One layer on the board compared with the integer reference. saturated: share of its outputs at an end of int8."""

    name: str
    difference: Difference | None
    saturated: float


@dataclass(frozen=True)
class Validation:
    """`json` is the machine-readable result; notes say what was done to the data."""

    json: Mapping[str, Any]
    bit_exact: bool
    layers: tuple[LayerCheck, ...] = ()
    notes: tuple[Note, ...] = ()
    labelled: bool = field(default=False)
    floats: Arrays = field(default_factory=dict)
    """outputs of the float model, [n, ...]"""
    found: Arrays = field(default_factory=dict)
    """outputs of the board as real numbers, of the same shapes"""
    labels: Array | None = None
    manifest: Mapping[str, Any] = field(default_factory=dict)
    """bundle.json"""


def build_bundle(
    bundle: Bundle | Path | str, board: str, build_dir: Path | None = None, transport: str | None = None
) -> Image:
    """Build the program of a bundle for a board, by default in `<bundle>.build/<board>[-serial|-mlperf]`."""
    path, place = bundle.path if isinstance(bundle, Bundle) else Path(bundle), load_board(board)
    transport = transport or build.default_transport(place)
    return build.build(path, place, build_dir or _build_dir(path, place.name, transport), transport)


def _build_dir(bundle: Path, board: str, transport: str) -> Path:
    return build_folder(bundle) / (board if transport == "semihosting" else f"{board}-{transport}")


def validate(
    bundle: Bundle | Path | str,
    data: Data,
    board: str,
    samples: int | None = None,
    labels: str | None = None,
    layers: bool = False,
    build_dir: Path | None = None,
    progress: Progress = SILENT,
    model: Path | None = None,
    link: Link = EMULATED,
    clock_hz: int | None = None,
    cycles: bool = False,
) -> Validation:
    """Run all samples (or `samples` of them, evenly spaced, of a stream the first) on the board and compare.

    `model`: the path of the ONNX file. `link`: how to reach the board. clock_hz: for milliseconds; by default that of
    the board. cycles: also estimate the cycles of the first sample on an emulated board, as `layers` does.
    """
    bundle = bundle if isinstance(bundle, Bundle) else load_bundle(bundle)
    place = load_board(board)
    original = find_model(bundle, model)
    dataset = samples_for(bundle, data, labels).every(samples, in_order=bundle.graph.stream is not None)
    transport, wrong = _transport(place, link), None
    with link.held(place) as held:
        with progress.stage("build"):
            image = build_bundle(bundle, board, build_dir, transport)
        recording = streaming.recording(bundle.graph, dataset)
        inputs = stored_inputs(bundle.graph, recording.hops)
        expected = _int_reference(bundle, inputs, progress, layers)
        if image.transport == "serial":
            result, wrong = _run_on_device(bundle, image, (link, held), inputs, expected, layers, progress)
        else:
            result = _run(bundle, place, image, inputs, progress)
    found = _outputs(bundle, result)
    floats = model_outputs(
        bundle.graph,
        streaming.float_outputs(bundle, original, recording, progress),
    )
    streaming.require_windows(bundle, recording, expected, progress)
    if layers and image.transport == "serial":
        checks = _layers_of(bundle, result, expected, _estimate(bundle, place, build_dir, inputs, progress))
    elif layers:
        checks = _layer_checks(bundle, place, image, inputs, expected, progress)
    else:
        checks = _Layers(measurement=_totals(bundle, image, inputs) if cycles else None)
    clock, parts = clock_hz or clock_of(place, None), (result, floats, found, expected, checks, wrong)
    return _validation(_Run(bundle, original, place, image, recording.windows, *parts, clock))


def _totals(bundle: Bundle, image: Image, inputs: Arrays) -> Measurement | None:
    """The cycles of the first sample, without layers; None on a board that is not emulated here."""
    if image.transport == "serial" or image.board.qemu is None:
        return None
    return measure(image, bundle.manifest, _rows(bundle, {name: array[:1] for name, array in inputs.items()}))


def _transport(board: Board, link: Link) -> str:
    """The transport to build for. Raises UsageError if the board does not support the request."""
    if link.port is not None and link.transport == "semihosting":
        raise UsageError("--port is for --transport serial; semihosting needs no port")
    if (link.flash or link.resume) and link.transport == "semihosting":
        raise UsageError("--flash and --resume are for --transport serial")
    asked = "serial" if link.port is not None or link.flash else link.transport
    if asked == "semihosting" and board.qemu is None and board.name != "host":
        raise UsageError(f"board {board.name!r} is not emulated: reach it over its serial port, with --port")
    return asked or build.default_transport(board)


def _run_on_device(
    bundle: Bundle,
    image: Image,
    board: tuple[Link, Bench | None],
    inputs: Arrays,
    expected: Arrays,
    layers: bool,
    progress: Progress,
) -> tuple[RunResult, Wrong | None]:
    (link, held), rows = board, _rows(bundle, inputs)
    link = replace(link, results=link.results or image.elf.parent / "results")
    right = [np.ascontiguousarray(expected[t["name"]]).reshape(len(rows), -1) for t in bundle.manifest["outputs"]]
    reference = Reference(
        np.concatenate([array.view(np.uint8) for array in right], axis=1),
        lambda index: _value_bytes(bundle, {name: array[index] for name, array in inputs.items()}),
        [node.outputs for node in bundle.graph.nodes if node.kernel],
    )
    with progress.counter(f"on {image.board.name}") as counter:
        few = min(LAYER_SAMPLES, len(rows)) if layers else 0
        return ondevice.run(image, bundle.manifest, link, rows, reference, few, counter, held)


def _value_bytes(bundle: Bundle, sample: Arrays) -> dict[str, bytes]:
    """The expected bytes of every layer for one sample."""
    values = run_int(bundle.graph, sample)
    made = (name for node in bundle.graph.nodes if node.kernel for name in node.outputs)
    return {name: np.ascontiguousarray(values[name]).tobytes() for name in made}


def _layers_of(bundle: Bundle, result: RunResult, expected: Arrays, estimate: Measurement | None) -> _Layers:
    assert result.layer_outputs is not None, "a run with layers gives their outputs"
    pairs = zip(bundle.manifest["layers"], result.layer_outputs, strict=True)
    checks = tuple(_layer_check(bundle.graph, layer, raw, expected) for layer, raw in pairs)
    return _Layers(checks, result.layer_instructions, estimate)


def _estimate(
    bundle: Bundle, place: Board, build_dir: Path | None, inputs: Arrays, progress: Progress
) -> Measurement | None:
    """An estimate for the same core under QEMU, for comparison with a board's measurement; None if there is no
    emulator.
    """
    board = place if place.qemu is not None else default_board(target_of(bundle.manifest).name)
    if not qemu.is_here(board):
        return None
    folder = build_dir / "estimate" if build_dir is not None else None
    with progress.stage("estimate"):
        image = build_bundle(bundle, board.reference, folder, "semihosting")
        return measure_bundle(bundle, image, _rows(bundle, {name: array[:1] for name, array in inputs.items()}))


def find_model(bundle: Bundle, model: Path | None) -> Path:
    """The original model: at the path that was given, or at the one recorded when the bundle was made."""
    path, recorded = model or bundle.model_path, bundle.manifest["model"]
    if model is not None and not model.is_file():
        raise UsageError(
            f"{model}: there is no such file; --model names the {recorded['file']!r} from which the bundle was made"
        )
    if path is None or not path.is_file():
        where = f"is not at {path} any more" if path is not None else "was not remembered"
        raise UsageError(f"the model {recorded['file']!r} of the bundle {where}; name its path with --model")
    if importer.describe(path).sha256 != recorded["sha256"]:
        raise UsageError(
            f"{path} is not the model that {bundle.path} was made from (its sha256 is not {recorded['sha256'][:12]}...):"
            f" compile it again, or give the right file with --model"
        )
    return path


def samples_for(bundle: Bundle, data: Data, labels: str | None = None) -> Dataset:
    """The samples of a test. Images are read as they were when the bundle was calibrated."""
    return datasets.of_graph(datasets.source_of(data, labels, images_of(bundle)), bundle.graph, "test")


def stored_inputs(graph: Graph, dataset: Dataset) -> dict[str, Array]:
    """Every input as [n, stored shape], in the form that the bundle takes."""
    samples, names = [dataset.sample(index) for index in range(len(dataset))], graph.free_inputs
    given = {name: np.stack([stored_of(graph.values[name], sample[name]) for sample in samples]) for name in names}
    return _with_states(graph, given)


def _with_states(graph: Graph, inputs: dict[str, Array]) -> dict[str, Array]:
    """The inputs with those that are states, as the integer reference leaves them from run to run.

    So every run on a board is checked separately: it begins with the right state, and what it leaves is one of its outputs.
    """
    if not graph.states:
        return inputs
    samples = ({name: array[index] for name, array in inputs.items()} for index in range(_count(inputs)))
    runs = graph_runs(graph, samples, run_int_all)
    fed = [given for given, _ in runs]
    return {name: np.stack([given[name] for given in fed]) for name in graph.inputs}


def _int_reference(bundle: Bundle, inputs: Arrays, progress: Progress, layers: bool) -> dict[str, Array]:
    """The outputs of the integer reference as [n, stored shape]; with `layers` also those of every layer, for the first
    samples.
    """
    graph, count = bundle.graph, len(next(iter(inputs.values())))
    wanted = list(graph.outputs)
    inner = [name for node in graph.nodes if node.kernel for name in node.outputs] if layers else []
    rows: dict[str, list[Array]] = {name: [] for name in (*wanted, *inner)}
    indices = progress.track(range(count), "int reference")
    samples = ({name: array[index] for name, array in inputs.items()} for index in indices)
    results = (values for batch in batches(graph, samples) for values in run_int_all(graph, batch))
    for index, values in enumerate(results):
        for name in wanted if index >= LAYER_SAMPLES else rows:
            rows[name].append(values[name])
    return {name: np.stack(arrays) for name, arrays in rows.items()}


def _run(
    bundle: Bundle, board: Board, image: Image, inputs: Arrays, progress: Progress, layers: bool = False
) -> RunResult:
    rows = _rows(bundle, inputs)
    with progress.counter(f"on {board.name}") as counter:
        if board.qemu is not None:
            return qemu.run(image, bundle.manifest, rows, layers=layers, progress=counter)
        return _run_here(bundle, image, inputs, layers)


def _rows(bundle: Bundle, inputs: Arrays) -> Bytes:
    """The inputs as uint8 [n, bytes]: all inputs of a sample one after the other."""
    parts = [np.ascontiguousarray(inputs[t["name"]]).reshape(_count(inputs), -1) for t in bundle.manifest["inputs"]]
    return np.concatenate([part.view(np.uint8) for part in parts], axis=1)


def _count(arrays: Arrays) -> int:
    return len(next(iter(arrays.values())))


def _run_here(bundle: Bundle, image: Image, inputs: Arrays, layers: bool) -> RunResult:
    model, manifest = host.HostModel(bundle.path, image.elf), bundle.manifest
    outputs: list[list[Array]] = []
    inner: list[list[Array]] = []
    for index in range(_count(inputs)):
        sample = {name: array[index] for name, array in inputs.items()}
        if layers:
            inner.append(_layers_here(model, manifest, sample))
        results = model.run_stored(sample)
        outputs.append([results[t["name"]] for t in manifest["outputs"]])
    tensors = [len(layer["outputs"]) for layer in manifest["layers"]]
    return RunResult(
        outputs=_columns(outputs),
        instructions=None,
        layer_outputs=_grouped(_columns(inner), tensors) if layers else None,
    )


def _layers_here(model: host.HostModel, manifest: Mapping[str, Any], sample: Arrays) -> list[Array]:
    model.write(sample)
    results = []
    for index, layer in enumerate(manifest["layers"]):
        model.run_layer(index)
        results += [model.read(tensor) for tensor in layer["outputs"]]
    return results


def _columns(rows: Sequence[Sequence[Array]]) -> tuple[Bytes, ...]:
    """Turn arrays [samples][tensors] into uint8 [samples, bytes] per tensor."""
    return tuple(
        np.stack([np.ascontiguousarray(a).reshape(-1).view(np.uint8) for a in tensor])
        for tensor in zip(*rows, strict=True)
    )


def _grouped(tensors: tuple[Bytes, ...], counts: Sequence[int]) -> tuple[tuple[Bytes, ...], ...]:
    ends = np.cumsum(counts)
    return tuple(tensors[end - count : end] for count, end in zip(counts, ends, strict=True))


def _tensor(value: Value, raw: Bytes) -> Array:
    dtype = value.qtype.dtype if value.qtype else value.dtype
    return np.ascontiguousarray(raw).view(dtype).reshape(len(raw), *value.shape)


def _outputs(bundle: Bundle, result: RunResult) -> dict[str, Array]:
    values = bundle.graph.values
    tensors = zip(bundle.manifest["outputs"], result.outputs, strict=True)
    return {tensor["name"]: _tensor(values[tensor["name"]], raw) for tensor, raw in tensors}


@dataclass(frozen=True)
class _Layers:
    checks: tuple[LayerCheck, ...] = ()
    instructions: tuple[int, ...] | None = None
    measurement: Measurement | None = None
    """The cycles of the first sample."""


def _layer_checks(
    bundle: Bundle, board: Board, image: Image, inputs: Arrays, expected: Arrays, progress: Progress
) -> _Layers:
    few = {name: array[:LAYER_SAMPLES] for name, array in inputs.items()}
    with _whole(bundle, image) as (twin, twin_image):
        result = _run(twin, board, twin_image, few, progress, layers=True)
        assert result.layer_outputs is not None, "a run with layers gives their outputs"
        pairs = zip(twin.manifest["layers"], result.layer_outputs, strict=True)
        checks = tuple(_layer_check(twin.graph, layer, raw, expected) for layer, raw in pairs)
    if board.qemu is None:
        return _Layers(checks)
    return _Layers(checks, result.layer_instructions, measure_bundle(bundle, image, _rows(bundle, few)[:1]))


def measure_bundle(
    bundle: Bundle, image: Image, samples: Bytes, hot: int = 0, ruler: Ruler = "table", clock_hz: int | None = None
) -> Measurement:
    """Measure totals and functions in the bundle itself, and layers that it streams in a second build that does not."""
    found = measure(image, bundle.manifest, samples, hot, ruler, clock_hz)
    with _whole(bundle, image) as (twin, built):
        whole = found if twin is bundle else measure(built, twin.manifest, samples, 0, ruler, clock_hz)
        return replace(found, layers=whole.layers)


@contextmanager
def _whole(bundle: Bundle, image: Image) -> Iterator[tuple[Bundle, Image]]:
    """The bundle or, if it streams layers, a second build that does not, because rows that were overwritten cannot be
    compared.
    """
    if not any(layer.get("streamed") for layer in bundle.manifest["layers"]) and not bundle.manifest.get("rams"):
        yield bundle, image
        return
    with tempfile.TemporaryDirectory(prefix="glowembed-") as folder:
        twin = keep_whole(bundle, Path(folder) / "whole")
        yield twin, build_bundle(twin, image.board.reference, Path(folder) / "build", image.transport)


def run_layers(
    bundle: Bundle, board: str, image: Image, inputs: Arrays, progress: Progress = SILENT
) -> dict[str, Array]:
    """The outputs of every layer on the board as [n, stored shape], each read back as soon as the layer had run."""
    with _whole(bundle, image) as (twin, twin_image):
        result = _run(twin, load_board(board), twin_image, inputs, progress, layers=True)
    assert result.layer_outputs is not None, "a run with layers gives their outputs"
    tensors = [tensor["name"] for layer in twin.manifest["layers"] for tensor in layer["outputs"]]
    raws = [raw for layer in result.layer_outputs for raw in layer]
    return {name: _tensor(bundle.graph.values[name], raw) for name, raw in zip(tensors, raws, strict=True)}


def _layer_check(graph: Graph, layer: Mapping[str, Any], raw: Sequence[Bytes], expected: Arrays) -> LayerCheck:
    tensors, unfinished = [tensor["name"] for tensor in layer["outputs"]], unfinished_tensors(graph)
    names = [name for name in tensors if name not in unfinished]
    if not names:
        return LayerCheck(layer["name"], None, 0.0)
    found = {
        name: logical_of(graph.values[name], _tensor(graph.values[name], r))
        for name, r in zip(tensors, raw, strict=True)
        if name in names
    }
    right = {name: logical_of(graph.values[name], expected[name][: len(found[name])]) for name in names}
    share = saturated(graph.values[names[0]], right[names[0]])
    return LayerCheck(layer["name"], compare.first_difference(right, found), share)


def unfinished_tensors(graph: Graph) -> frozenset[str]:
    """Tensors that a later node continues to write, such as the parts of a concat; on the board, the rest is not yet
    defined.
    """
    return frozenset(n.inputs[n.shares] for n in graph.nodes if n.shares is not None and not is_a(n, View))


def saturated(value: Value, stored: Array) -> float:
    """The share of values at the ends of the type; if the lower end stands for 0, it is a ReLU and does not count."""
    if value.qtype is None or stored.dtype.kind != "i":
        return 0.0
    low, high = value.qtype.limits
    at_low = (stored == low) & (value.qtype.zero_point[0] != low)
    return float(np.mean(at_low | (stored == high)))


@dataclass(frozen=True)
class _Run:
    """The state when everything has run."""

    bundle: Bundle
    model: Path
    board: Board
    image: Image
    dataset: Dataset
    result: RunResult
    floats: Arrays
    found: Arrays
    expected: Arrays
    layers: _Layers
    wrong: Wrong | None = None
    clock_hz: int | None = None


def _validation(run: _Run) -> Validation:
    values = run.bundle.graph.values
    right = {name: logical_of(values[name], run.expected[name]) for name in run.found}
    found = {name: logical_of(values[name], array) for name, array in run.found.items()}
    difference = compare.first_difference(right, found)
    floats = {name: run.floats[name] for name in run.found if name in run.floats}
    real = {n: real_of(values[n], run.found[n][-len(a) :]).reshape(a.shape) for n, a in floats.items()}
    accuracy = compare.accuracy(run.dataset.labels, floats, real)
    metrics = [_without_classes(run, m) for m in compare.metrics(floats, real)]
    differs = (
        difference is not None
        or run.wrong is not None
        or any(check.difference is not None for check in run.layers.checks)
    )
    notes = (*run.dataset.notes, *_doubts(run, metrics, accuracy))
    json = {
        **_head(run),
        "bit_exact": not differs,
        "first_difference": _first_difference(difference, run.layers.checks)
        if run.wrong is None
        else _located(run, run.wrong, difference),
        "outputs": [vars(m) for m in metrics],
        "accuracy": accuracy.json() if accuracy else None,
        "notes": [note.json() for note in notes],
        **_figures(run),
    }
    return Validation(
        json,
        not differs,
        run.layers.checks,
        notes,
        run.dataset.labels is not None,
        floats,
        real,
        run.dataset.labels,
        run.bundle.manifest,
    )


def _doubts(run: _Run, metrics: Sequence[OutputMetrics], accuracy: Accuracy | None) -> Iterator[Note]:
    """Notes that the user should read before trusting the figures."""
    calibrated, images, recorded = run.bundle.manifest.get("calibration"), run.dataset.images, images_of(run.bundle)
    if images is not None and images != recorded and calibrated is not None and calibrated["images"] is not None:
        yield Note(
            "images-differ", f"images are read as {images.json()}, those of the calibration as {recorded.json()}"
        )
    yield from compare.reference_notes(run.model)
    yield from datachecks.validation(run.dataset, run.bundle.graph, calibrated)
    yield from compare.doubts(metrics, accuracy, run.dataset.labels, run.floats)


def _without_classes(run: _Run, metrics: OutputMetrics) -> OutputMetrics:
    """Without labels, an output with exactly the shape of an input is a reconstruction, so its elements are not
    classes.
    """
    shapes = [array.shape for array in run.dataset.inputs.values()]
    reconstruction = run.dataset.labels is None and run.floats[metrics.name].shape in shapes
    return replace(metrics, top1_agreement=None) if reconstruction else metrics


def _first_difference(output: Difference | None, layers: Sequence[LayerCheck]) -> dict[str, Any] | None:
    """The first difference. A layer that differs says more than the output that differs because of it."""
    for check in layers:
        if check.difference is not None:
            return {**check.difference.json(), "layer": check.name}
    return output.json() if output else None


def _located(run: _Run, wrong: Wrong, output: Difference | None) -> dict[str, Any]:
    """The device's findings about the sample that is wrong, and about its flash."""
    layers = run.bundle.manifest["layers"]
    flash = {"constants_in_flash_differ": list(wrong.constants)}
    if wrong.located is None:
        owners = [layer["name"] for layer in layers if set(wrong.constants) & set(layer.get("constants", ()))]
        return {**(output.json() if output else {}), **({"layer": owners[0]} if owners else {}), **flash}
    name = wrong.located.value
    value = run.bundle.graph.values[name]
    right, found = (
        {name: logical_of(value, _tensor(value, np.frombuffer(raw, np.uint8)[None]))}
        for raw in (wrong.located.expected, wrong.located.found)
    )
    difference = compare.first_difference(right, found)
    assert difference is not None, "their checksums differ"
    layer = layers[wrong.located.layer]["name"]
    return {**difference.json(), "sample": wrong.sample, "layer": layer, **flash}


def _head(run: _Run) -> dict[str, Any]:
    manifest = run.bundle.manifest
    return {
        "schema": SCHEMA,
        "model": manifest["model"]["file"],
        "model_sha256": manifest["model"]["sha256"],
        "target": manifest["target"],
        "board": run.board.name,
        "transport": "serial" if run.image.transport == "serial" else "host" if run.board.qemu is None else "qemu",
        "toolchain": run.image.toolchain,
        "samples": len(run.dataset),
    }


def _figures(run: _Run) -> dict[str, Any]:
    manifest, image = run.bundle.manifest, run.image
    measured = run.layers.measurement
    estimate = _cycles(measured.total) if measured else None
    return {
        "instructions": run.result.instructions,
        "cycles_estimate": estimate,
        "cycles_measured": run.result.cycles,
        "latency_us": None if run.result.seconds is None else 1e6 * run.result.seconds,
        "clock_hz": run.clock_hz,
        "milliseconds": milliseconds(run.result.cycles or estimate, run.clock_hz),
        "microjoules": microjoules(run.result.cycles or estimate, image.board),
        "macs": manifest["macs"],
        "layers": _layer_rows(manifest, run.layers, run.result),
        "memory": {
            "arena": manifest["arena"]["size"],
            "arena_liveness_bound": manifest["arena"]["liveness_bound"],
            "weights": image.weights,
            "code": image.code,
            "rodata": image.rodata,
            "data": image.data,
            "bss": image.bss,
            "stack": run.result.stack or image.stack or 0,
            "stack_computed": image.stack,
        },
        **({"line": dict(run.result.traffic)} if run.result.traffic is not None else {}),
    }


def _layer_rows(manifest: Mapping[str, Any], layers: _Layers, result: RunResult) -> list[dict[str, Any]]:
    """One row per layer; cycles_measured is present if the device has a clock that counts them."""
    unknown: list[None] = [None] * len(manifest["layers"])
    counts: Sequence[int | None] = layers.instructions or unknown
    known = layers.measurement if layers.checks else None
    estimates = [_cycles(found) for found in known.layers] if known else unknown
    rows = [
        {**{key: layer[key] for key in LAYER_KEYS}, "instructions": count, "cycles_estimate": estimate}
        for layer, count, estimate in zip(manifest["layers"], counts, estimates, strict=True)
    ]
    cycles: Sequence[int] = result.layer_cycles or ()
    return [{**row, "cycles_measured": count} for row, count in zip(rows, cycles, strict=True)] if cycles else rows


def _cycles(found: Figures) -> int | None:
    return None if found.cycles is None else round(found.cycles.point)
