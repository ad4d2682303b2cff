"""Samples for calibration and tests. In: a file or folder, and the inputs of the model. Out: a Dataset.

A dataset is one of: an .npz with `calib_x`, `test_x` (first axis: samples), optional `test_y`, `x_scale`, `x_zero`,
several inputs as `calib_<input>`, `test_<input>`, `<input>_scale`, `<input>_zero`, or arrays named as the inputs, which
serve for both; a single array (.npy, or an .npz with one array); a .csv with one sample a row (tables.py); a folder of
images, .npy or .wav files, one sample each, labels from its subfolders, or of .npy files named as the arrays of an .npz
(folders.py); ONNX tensor files (input_0.pb, or folders of them); or random samples. Every sample becomes float32 in the
layout of the ONNX file. Integers x stand for the real numbers (x - zero) * scale. Without a scale, or with scale 1 and
zero 0, an array with exactly the integer type of the model's input holds stored integers of that input, and any other
array real numbers. Nothing is ever unpickled. The error for data that does not fit the model says what was found and
what was expected.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from math import prod
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

import numpy as np

from glowembed.errors import UsageError, unknown_name
from glowembed.files.arrays import open_npz, read_npy
from glowembed.graph.ir import Array, Graph, Shape, Value
from glowembed.graph.notes import Note
from glowembed.graph.states import State, in_sequence
from glowembed.nest.dtypes import numpy_type
from glowembed.ranges import folders, images, tables
from glowembed.ranges.missing import may_be_missing
from glowembed.ranges.spec import IMAGE_SCALES as IMAGE_SCALES
from glowembed.ranges.spec import ImageOptions as ImageOptions
from glowembed.ranges.spec import InputSpec as InputSpec
from glowembed.ranges.spec import Integers as Integers
from glowembed.ranges.spec import Raw, only
from glowembed.read.onnxdata import read_tensor_proto
from glowembed.records import dataclass

Role = Literal["calib", "test"]
Outputs = TypeVar("Outputs", bound=Mapping[str, Array])


@dataclass(frozen=True)
class Source:
    """Where data is and how to read it.

    labels: the name of their array in an .npz file; None means test_y if it exists. limit: use at most this many
    samples, evenly spaced. random: use this many random samples and read nothing. arrays: the contents of an .npz file,
    which are used as if they had been read from `path`.
    """

    path: Path = Path("random samples")
    labels: str | None = None
    images: ImageOptions = field(default_factory=ImageOptions)
    limit: int | None = None
    random: int | None = None
    arrays: Mapping[str, Array] | None = None


@dataclass(frozen=True, eq=False)
class Dataset:
    """Samples by input name, [n, ...] float32 in the model's layout; notes say what was done to the data.

    They are real numbers; `integers` has the inputs that are integers in the model file.
    """

    inputs: Mapping[str, Array]
    labels: Array | None = None
    notes: tuple[Note, ...] = ()
    shapes: Mapping[str, Shape] = field(default_factory=dict)
    integers: Mapping[str, Integers] = field(default_factory=dict)
    images: ImageOptions | None = None
    """How images were read; None if the samples are not images."""
    states: tuple[State, ...] = ()
    """The states of the model, which are in `shapes` but not in `inputs`. The samples are then one sequence, which
    begins after a reset.
    """

    def __len__(self) -> int:
        """The number of samples; 1 for a model that needs none, because its inputs have no elements."""
        return len(next(iter(self.inputs.values()), "1"))

    def sample(self, index: int) -> dict[str, Array]:
        """One sample as real numbers, by input name, each array in the input's shape including the batch axis of size
        1.
        """
        return {name: array[index].reshape(self.shapes[name]) for name, array in self.inputs.items()}

    def model_sample(self, index: int) -> dict[str, Array]:
        """One sample in the form that the model file takes, with integers for integer inputs."""
        sample = self.sample(index)
        return sample | {n: known.to_model(sample[n]) for n, known in self.integers.items() if n in sample}

    def model_runs(self, indices: Iterable[int], run: Callable[[Mapping[str, Array]], Outputs]) -> list[Outputs]:
        """The results of `run` on samples in the form that the model file takes, in order. The states of the model
        begin with 0.
        """
        first = {state.input: np.zeros(self.shapes[state.input], np.float32) for state in self.states}
        first |= {name: known.to_model(first[name]) for name, known in self.integers.items() if name in first}
        results = in_sequence(self.states, first, map(self.model_sample, indices), run)
        return [cast(Outputs, outputs) for _, outputs in results]

    def every(self, count: int | None, in_order: bool = False) -> Dataset:
        """At most `count` samples, evenly spaced over all of them, so that all classes appear even if they are sorted.
        If the samples are a sequence, or their order matters, these are the first ones.
        """
        if count is None or count >= len(self):
            return self
        if count < 1:
            raise UsageError(f"{count} samples were asked for; at least 1 is needed")
        first = in_order or bool(self.states)
        picked = np.arange(count) if first else np.arange(count) * len(self) // count
        inputs = {name: array[picked] for name, array in self.inputs.items()}
        labels = None if self.labels is None else self.labels[picked]
        notes = (
            *self.notes,
            Note("data", f"{count} of {len(self)} samples, {'the first' if first else 'evenly spaced'}"),
        )
        return replace(self, inputs=inputs, labels=labels, notes=notes)


def input_specs(graph: Graph) -> tuple[InputSpec, ...]:
    """The inputs of a graph as in the ONNX file."""
    return tuple(
        replace(
            windows_of(graph, _spec(graph.values[name], integers(graph, name))), missing=may_be_missing(graph, name)
        )
        for name in graph.inputs
    )


def integers(graph: Graph, name: str) -> Integers | None:
    """How the model file stores an input or output as integers; None for floats."""
    value = graph.values[name]
    if value.model_dtype is None:
        return None
    beside = [n.outputs[0] for n in graph.nodes if n.inputs == (name,)]
    beside += [n.inputs[0] for n in graph.nodes if n.outputs == (name,) and n.inputs]
    known = [value.qtype, *(graph.values[other].qtype for other in beside)]
    qtype = next((q for q in known if q is not None), None)
    return None if qtype is None else Integers(value.model_dtype, qtype)


def windows_of(graph: Graph, spec: InputSpec) -> InputSpec:
    """The input in the model; for a stream this is the whole window."""
    stream = graph.stream
    if stream is None or spec.name != stream.input:
        return spec
    return replace(spec, shape=(*spec.shape[: stream.axis], stream.rows, *spec.shape[stream.axis + 1 :]))


def _spec(value: Value, known: Integers | None = None) -> InputSpec:
    if value.layout is None:
        return InputSpec(value.name, value.shape, value.dtype, known)
    order = np.argsort(value.layout)
    return InputSpec(value.name, tuple(value.shape[axis] for axis in order), value.dtype, known)


def stored(value: Value, array: Array) -> Array:
    """A tensor in the model's layout, with its axes in the order in which the graph stores it."""
    return array if value.layout is None else np.transpose(array, value.layout)


Data = Dataset | Source | Path | str | Mapping[str, Any] | Array
"""The samples that a caller may pass. A mapping is treated like an .npz file with these arrays, and an array like an
.npy file.
"""


def source_of(data: Data, labels: str | None = None, options: ImageOptions | None = None) -> Dataset | Source:
    """`data` as a Dataset or a Source. labels, options (of images): used for data that does not have its own."""
    if isinstance(data, Dataset | Source):
        return data
    options = options or ImageOptions()
    if isinstance(data, Path | str):
        return Source(Path(data), labels, options)
    named = dict(data) if isinstance(data, Mapping) else {"samples": data}
    arrays = {str(name): _as_array(str(name), array) for name, array in named.items()}
    return Source(Path("the arrays"), labels, options, arrays=arrays)


def _as_array(name: str, given: Any) -> Array:
    """An array from anything that NumPy accepts: an array, a tensor on the CPU, or nested lists of equal lengths."""
    try:
        array = np.asarray(given)
    except (TypeError, ValueError, RuntimeError) as error:
        raise UsageError(f"the arrays: {name} is no array of numbers: {error}") from error
    if array.dtype.kind not in "biuf":
        raise UsageError(f"the arrays: {name} must hold numbers, found {array.dtype} from {type(given).__name__}")
    return array


def first_samples(data: Data | None, names: Sequence[str]) -> dict[str, Array] | None:
    """The first calibration sample of each input of a model that is not yet known, with a batch axis of size 1; None if
    `data` holds no arrays.
    """
    source = Source() if data is None else source_of(data)
    arrays = source.inputs if isinstance(source, Dataset) else source.arrays
    if arrays is None:
        return None
    if len(arrays) == len(names) == 1:
        found = dict(zip(names, arrays.values(), strict=True))
    else:
        specs, where = [InputSpec(name, ()) for name in names], Path("the arrays")
        found = {s.name: arrays[_array_key(where, arrays, s, "calib", len(names) == 1)] for s in specs}
    return {n: array[:1].astype(np.float32) if array.dtype.kind == "f" else array[:1] for n, array in found.items()}


def of_graph(data: Data, graph: Graph, role: Role) -> Dataset:
    """The samples of this role for a graph; states need none. Raises UsageError if they do not fit."""
    specs = {spec.name: spec for spec in input_specs(graph)}
    kept = [specs.pop(state.input) for state in graph.states]
    source = source_of(data)
    if not kept or graph.stream is not None:
        return source if isinstance(source, Dataset) else load(source, tuple(specs.values()), role)
    limit = None if isinstance(source, Dataset) else source.limit
    found = source if isinstance(source, Dataset) else load(replace(source, limit=None), tuple(specs.values()), role)
    known = {spec.name: spec.integers for spec in kept if spec.integers is not None}
    return replace(
        found,
        inputs={name: array for name, array in found.inputs.items() if name in specs},
        shapes={**found.shapes, **{spec.name: spec.shape for spec in kept}},
        integers={**found.integers, **known},
        states=graph.states,
    ).every(limit)


def stored_sample(graph: Graph, dataset: Dataset, index: int) -> dict[str, Array]:
    """A sample in real numbers, with axes in the order in which the graph stores them."""
    sample = dataset.sample(index)
    return {name: stored(graph.values[name], sample[name]) for name in graph.free_inputs}


def load(source: Path | str | Source, inputs: Sequence[InputSpec], role: Role, labels: str | None = None) -> Dataset:
    """Load the samples of this role; inputs without elements need none. Raises UsageError if they do not fit."""
    source = source if isinstance(source, Source) else Source(Path(source), labels)
    raw = _random(inputs, role, source.random) if source.random is not None else _read(source, inputs, role)
    notes = list(raw.notes)
    full = _filled(inputs)
    arrays = {spec.name: _fit(source.path, raw.arrays[spec.name], spec, inputs, notes) for spec in full}
    _same_count(source.path, arrays)
    count = len(next(iter(arrays.values())))
    for spec in inputs:
        arrays.setdefault(spec.name, np.zeros((count, *spec.sample_shape), numpy_type(spec.dtype)))
    shapes = {spec.name: spec.shape for spec in inputs}
    known = {spec.name: spec.integers for spec in inputs if spec.integers is not None}
    labelled = _checked_labels(source.path, raw.labels, count)
    dataset = Dataset(arrays, labelled, tuple(notes), shapes, known, raw.images)
    return dataset.every(source.limit)


def _filled(inputs: Sequence[InputSpec]) -> Sequence[InputSpec]:
    """The inputs that need samples: those with elements, or all if none has any."""
    return [spec for spec in inputs if prod(spec.shape)] or inputs


def _read(source: Source, inputs: Sequence[InputSpec], role: Role) -> Raw:
    path = source.path
    if source.arrays is not None:
        return _from_archive(source, source.arrays, _filled(inputs), role)
    if not path.exists():
        raise UsageError(f"{path}: no such file or folder")
    if path.is_dir() and (tensors := _tensor_folders(path)):
        return _read_tensors(path, tensors, inputs)
    inputs = _filled(inputs)
    if path.is_dir():
        return _read_folder(source, inputs, role)
    readers = {".npz": _read_npz, ".npy": _read_npy, ".pb": _read_tensor, ".csv": _read_csv}
    if path.suffix.lower() not in readers:
        raise UsageError(
            f"{path}: unknown kind of data; expected .npz, .npy, .csv, .pb, or a folder of .npy, .wav, images or .pb files"
        )
    return readers[path.suffix.lower()](source, inputs, role)


def _read_folder(source: Source, inputs: Sequence[InputSpec], role: Role) -> Raw:
    path = source.path
    folder = next((path / name for name in (role, "test") if (path / name).is_dir()), path)
    arrays = folders.named_arrays(folder)
    if arrays.keys() & {f"{part}{spec.name}" for spec in inputs for part in ("", "calib_", "test_")}:
        read = {name: read_npy(file) for name, file in arrays.items()}
        keys = {spec.name: _array_key(path, read, spec, role, len(inputs) == 1) for spec in inputs}
        scaled = {name: _scaled(path, read, key, role) for name, key in keys.items()}
        return Raw(scaled, _labels(source, read, role))
    files, labels = folders.samples(folder, (".npy", ".wav"))
    if not files:
        return _read_images(source, inputs, role)
    spec = only(path, inputs)
    notes = _taken_from_test(spec, folder.name, role) if folder != path else ()
    return Raw({spec.name: folders.stacked(files, spec)}, labels, (folders.told(files), *notes))


def _read_csv(source: Source, inputs: Sequence[InputSpec], role: Role) -> Raw:
    return tables.read(source.path, inputs, source.labels)


def _random(inputs: Sequence[InputSpec], role: Role, count: int) -> Raw:
    """Random samples, the same every time; those for testing differ from those for calibration."""
    numbers = np.random.default_rng(0 if role == "calib" else 1)
    arrays = {spec.name: _random_array(numbers, spec, count) for spec in inputs}
    told = f"{count} random samples instead of data: ranges and accuracy say nothing about real data"
    return Raw(arrays, notes=(Note("random-data", told),))


def _random_array(numbers: np.random.Generator, spec: InputSpec, count: int) -> Array:
    """A random array for an input. Floats have mean 0 and standard deviation 1; integers of a quantized model cover
    their range, and integers that are indices, counters or masks are 0 or 1.
    """
    shape = (count, *spec.sample_shape)
    if spec.integers is not None:
        low, high = spec.integers.qtype.range()
        return numbers.uniform(low, high, shape).astype(np.float32)
    if spec.dtype.startswith("float"):
        return numbers.standard_normal(shape).astype(np.float32)
    return numbers.integers(0, 2, shape)


def _read_npy(source: Source, inputs: Sequence[InputSpec], role: Role) -> Raw:
    spec, array = only(source.path, inputs), read_npy(source.path)
    return Raw({spec.name: array}, notes=_pixels(spec, array))


def _read_npz(source: Source, inputs: Sequence[InputSpec], role: Role) -> Raw:
    with open_npz(source.path) as archive:
        return _from_archive(source, archive, inputs, role)


def _from_archive(source: Source, archive: Mapping[str, Array], inputs: Sequence[InputSpec], role: Role) -> Raw:
    names = list(archive)
    if len(names) == 1:
        array, spec = archive[names[0]], only(source.path, inputs)
        return Raw({spec.name: array}, notes=(*_taken_from_test(spec, names[0], role), *_pixels(spec, array)))
    keys = {spec.name: _array_key(source.path, archive, spec, role, len(inputs) == 1) for spec in inputs}
    arrays = {name: _scaled(source.path, archive, key, role) for name, key in keys.items()}
    notes = [note for spec in inputs for note in _same_samples(archive, spec, keys[spec.name], role)]
    unscaled = (spec for spec in inputs if f"{keys[spec.name].removeprefix(f'{role}_')}_scale" not in archive)
    notes += [note for spec in unscaled for note in _pixels(spec, archive[keys[spec.name]])]
    return Raw(arrays, _labels(source, archive, role), tuple(notes))


def _taken_from_test(spec: InputSpec, key: str, role: Role) -> tuple[Note, ...]:
    if role == "test" or not f"{key}_".startswith("test_"):
        return ()
    return (
        Note("calibration-is-test", f"{spec.name}: calibrated with {key!r}: accuracy measured with it is too good"),
    )


def _same_samples(archive: Mapping[str, Array], spec: InputSpec, key: str, role: Role) -> tuple[Note, ...]:
    """A note if the samples for calibration are the same as those for testing."""
    test = key.replace("calib_", "test_", 1)
    same = role == "calib" and key.startswith("calib_") and test in archive
    if not same or not np.array_equal(archive[key], archive[test]):
        return ()
    return (Note("calibration-is-test", f"{spec.name}: {key!r} and {test!r} hold the same samples"),)


def _scaled(path: Path, archive: Mapping[str, Array], key: str, role: Role) -> Array:
    """The array of this name, converted to (x - zero) * scale if the archive gives a scale other than 1 or a zero other
    than 0.
    """
    prefix = key.removeprefix(f"{role}_")
    scale, zero = _scalar(path, archive, f"{prefix}_scale", 1.0), _scalar(path, archive, f"{prefix}_zero", 0.0)
    array = archive[key]
    if (scale, zero) == (1.0, 0.0):
        return array
    with np.errstate(all="ignore"):  # the reader refuses numbers that are not finite, and names their place
        return (_numbers(path, array, key) - np.float32(zero)) * np.float32(scale)


def _array_key(path: Path, archive: Mapping[str, Array], spec: InputSpec, role: Role, alone: bool) -> str:
    wanted = [f"{role}_{spec.name}", *([f"{role}_x"] if alone else []), spec.name]
    found = next((key for key in wanted if key in archive), None)
    if found is not None:
        return found
    names, likely = sorted(archive), wanted[-2]
    near = difflib.get_close_matches(likely, names, n=1, cutoff=0.6)
    hint = f" Nearest: {near[0]!r}." if near else ""
    raise UsageError(
        f"{path}: has no array {' or '.join(map(repr, dict.fromkeys((likely, *wanted))))} for the input"
        f" {spec.name!r}.{hint} It holds: {', '.join(names) or 'nothing'}"
    )


def _scalar(path: Path, archive: Mapping[str, Array], key: str, default: float) -> float:
    if key not in archive:
        return default
    value = archive[key]
    if value.size != 1 or not np.isfinite(value).all() or (key.endswith("_scale") and value.item() <= 0):
        raise UsageError(f"{path}: {key} must be one finite number (a scale above 0), found {value.tolist()!r:.60}")
    return float(value.item())


def _labels(source: Source, archive: Mapping[str, Array], role: Role) -> Array | None:
    if source.labels is not None and source.labels not in archive:
        raise unknown_name(f"label array in {source.path}:", source.labels, archive)
    key = source.labels or f"{role}_y"
    return archive[key] if role == "test" and key in archive else None


def _read_tensor(source: Source, inputs: Sequence[InputSpec], role: Role) -> Raw:
    spec = only(source.path, inputs)
    return Raw({spec.name: _with_samples(read_tensor_proto(source.path), spec)})


def _with_samples(array: Array, spec: InputSpec) -> Array:
    """The array with a sample axis. A tensor file holds a whole input, so an array with exactly the input's shape is
    one sample.
    """
    return array[np.newaxis] if array.shape == spec.shape else array


def _tensor_folders(path: Path) -> list[Path]:
    """The folder itself, or its subfolders (test_data_set_0 ...), whichever contain input_0.pb."""
    candidates = [path, *sorted((p for p in path.iterdir() if p.is_dir()), key=_natural)]
    return [folder for folder in candidates if (folder / "input_0.pb").is_file()]


def _natural(path: Path) -> tuple[str, int, str]:
    stem = path.name.rstrip("0123456789")
    return stem, int(path.name[len(stem) :] or 0), path.name


def _read_tensors(path: Path, folders: Sequence[Path], inputs: Sequence[InputSpec]) -> Raw:
    arrays: dict[str, Array] = {}
    for index, spec in enumerate(inputs):
        if spec not in _filled(inputs):
            continue
        tensors = [_with_samples(read_tensor_proto(f / f"input_{index}.pb"), spec) for f in folders]
        try:
            arrays[spec.name] = np.concatenate(tensors)
        except ValueError as error:
            raise UsageError(f"{path}: the input_{index}.pb files differ in shape: {error}") from error
    return Raw(arrays)


def _read_images(source: Source, inputs: Sequence[InputSpec], role: Role) -> Raw:
    spec = only(source.path, inputs)
    folder = next((source.path / name for name in (role, "test") if (source.path / name).is_dir()), source.path)
    files, labels = folders.samples(folder, images.SUFFIXES)
    if not files:
        raise UsageError(f"{folder}: holds no images ({' '.join(images.SUFFIXES)}), no .npy, no .wav and no input_0.pb")
    array, read = images.stacked(source.path, files, source.images, spec)
    notes = (read, *_taken_from_test(spec, folder.name, role)) if folder != source.path else (read,)
    return Raw({spec.name: array}, labels, notes, source.images)


def _fit(path: Path, array: Array, spec: InputSpec, inputs: Sequence[InputSpec], notes: list[Note]) -> Array:
    """The samples in the model's layout, as finite float32, or in the type of an input that is never quantized."""
    if spec.integers is not None and array.dtype.name == spec.integers.dtype:
        array = spec.integers.from_model(array)
        notes.append(Note("data", f"{spec.name}: {spec.integers.dtype} as the model's own integers"))
    elif array.dtype.name == "int8":
        notes.extend(_as_numbers(spec, array))
    plain = spec.dtype != "float32"
    numbers = _plain(path, array, spec) if plain else _numbers(path, array, spec.name)
    if numbers.ndim == 0 or len(numbers) == 0:
        raise UsageError(f"{path}: holds no samples for {spec.name!r} (shape {array.shape})")
    shaped, note = _shaped(path, numbers, spec, inputs)
    if not plain:
        _finite(
            path,
            np.nan_to_num(shaped, posinf=np.inf, neginf=-np.inf) if spec.missing else shaped,
            f"data for {spec.name!r}",
        )
    if note:
        notes.append(Note("data", f"{spec.name}: {note}"))
    return np.ascontiguousarray(shaped)


def _plain(path: Path, array: Array, spec: InputSpec) -> Array:
    """The numbers in the type of the input. Raises UsageError if the type cannot hold them."""
    if array.dtype.kind not in "fiub":
        raise UsageError(f"{path}: {spec.name!r} has the dtype {array.dtype}; expected {spec.dtype}")
    with np.errstate(all="ignore"):
        stored: Array = array.astype(numpy_type(spec.dtype))
    if stored.dtype.kind in "iub" and not np.array_equal(stored, array):
        raise UsageError(f"{path}: {spec.name!r} holds numbers that {spec.dtype}, the type of the input, does not have")
    return stored


def _as_numbers(spec: InputSpec, array: Array) -> tuple[Note, ...]:
    """A note about integers that fill half of their type's range and have no scale, because they may be stored
    integers.
    """
    low, high = (int(array.min()), int(array.max())) if array.size else (0, 0)
    if high - low < 128:
        return ()
    text = f"{spec.name}: int8 with no scale but 1 is taken as the real numbers {low}..{high}"
    return (Note("integers-as-numbers", f"{text}; give x_scale and x_zero if the integers stand for others"),)


def _pixels(spec: InputSpec, array: Array) -> tuple[Note, ...]:
    """A note about bytes without a scale for an input of real numbers: most networks for images expect 0..1."""
    if array.dtype != np.uint8 or spec.integers is not None or spec.dtype != "float32" or not (array >= 128).any():
        return ()
    text = f"{spec.name}: uint8 is taken as the real numbers {array.min()}..{array.max()}"
    return (Note("integers-as-numbers", f"{text}; if the network expects 0..1, give x_scale = 1/255, and if not, 1"),)


def _numbers(path: Path, array: Array, name: str) -> Array:
    if array.dtype.kind not in "fiub":
        raise UsageError(f"{path}: {name!r} has the dtype {array.dtype}; expected real numbers (float or integer)")
    with np.errstate(over="ignore"):
        numbers: Array = array.astype(np.float32)
    return numbers


def _shaped(path: Path, array: Array, spec: InputSpec, inputs: Sequence[InputSpec]) -> tuple[Array, str]:
    """The array as [n, sample...], and what was done to it. Raises UsageError for a shape that can be read in two ways,
    unless one reading fits unchanged.
    """
    target = spec.sample_shape
    if array.shape[1:] in (target, spec.shape):
        return array.reshape(len(array), *target), ""
    for note, view in _readings(array):
        if view.shape[1:] == target:
            return view, note
    if target and array.shape[1:] == target[1:] and len(array) % target[0] == 0:
        note = f"read in batches of {target[0]}, which the model fixes; for single samples compile with {_single(spec, inputs)}"
        return array.reshape(-1, *target), note
    raise _wrong_shape(path, array, spec, inputs)


def _single(spec: InputSpec, inputs: Sequence[InputSpec]) -> str:
    """The options that give the first axis of an input, and the same axis of others, the batch size 1."""
    same = [other for other in inputs if other.shape[:1] == spec.shape[:1]]
    return " ".join(f"--shape {other.name}={','.join(map(str, (1, *other.shape[1:])))}" for other in same)


def _readings(array: Array) -> Iterator[tuple[str, Array]]:
    """Other readings of a sample's shape: channels moved to the other end, two axes swapped, axes of size 1 added."""
    if array.ndim == 4:
        yield "transposed NHWC to NCHW", array.transpose(0, 3, 1, 2)
        yield "transposed NCHW to NHWC", array.transpose(0, 2, 3, 1)
    if array.ndim == 3:
        yield "transposed, the two axes of a sample swapped", array.transpose(0, 2, 1)
        yield "added a channel axis of 1", array[:, np.newaxis]
        yield "added a channel axis of 1", array[..., np.newaxis]


def _wrong_shape(path: Path, array: Array, spec: InputSpec, inputs: Sequence[InputSpec]) -> UsageError:
    shape, target = array.shape[1:], spec.sample_shape
    readings = (
        f" (nor read as NHWC or NCHW: {shape[2:] + shape[:2]}, {shape[1:] + shape[:1]})" if len(shape) == 3 else ""
    )
    flat = " It has as many numbers: reshape it to the model's shape." if prod(shape) == prod(target) else ""
    batch = (
        f" If {target[0]} is the batch, compile with {_single(spec, inputs)}" if target and target[1:] == shape else ""
    )
    return UsageError(
        f"{path}: wrong shape for the input {spec.name!r}: found {len(array)} samples of {shape},"
        f" expected samples of {target}{readings}.{flat}{batch}"
    )


def _finite(path: Path, array: Array, what: str) -> None:
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        index = tuple(int(i) for i in bad[0])
        raise UsageError(
            f"{path}: {what} holds {len(bad)} values that are not finite, the first ({array[index]}) in sample"
            f" {index[0]} at {index[1:]}"
        )


def _same_count(path: Path, arrays: Mapping[str, Array]) -> None:
    counts = {name: len(array) for name, array in arrays.items()}
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{name}: {count}" for name, count in counts.items())
        raise UsageError(f"{path}: the inputs have different numbers of samples: {listed}")


def _checked_labels(path: Path, labels: Array | None, count: int) -> Array | None:
    if labels is None:
        return None
    if labels.dtype.kind not in "fiub":
        raise UsageError(f"{path}: labels have the dtype {labels.dtype}; expected class numbers or targets")
    if labels.ndim == 0 or len(labels) != count:
        found = len(labels) if labels.ndim else "a single number"
        raise UsageError(f"{path}: {found} labels for {count} samples; there must be one each")
    if labels.dtype.kind == "f":
        _finite(path, labels, "the label array")
    return labels
