"""The whole flow in one function, compile_model, to be read from top to bottom: an ONNX file and samples in, C out.

Each stage is a module with one function from data to data, and `verify` checks the graph between stages. Nothing is
written before everything is ready; then the bundle appears in one rename.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import reduce
from math import prod
from pathlib import Path
from typing import Any, NoReturn

from glowembed.canonicalize import canonicalize
from glowembed.emit import bundle as emit
from glowembed.emit import graphfile
from glowembed.emit.constants import weights_bytes
from glowembed.emit.manifest import SCHEMA, Origin
from glowembed.errors import UnsupportedModelError, UsageError
from glowembed.files import documents, output
from glowembed.files.source import read_bytes
from glowembed.graph import cnames, limits, registry
from glowembed.graph.ir import OUTSIDE, Array, Graph, Shape
from glowembed.graph.notes import Note
from glowembed.graph.plan import Plan, PlanOptions, Tradeoff, Weights
from glowembed.graph.stages import check
from glowembed.graph.target import Target, target_of, with_isa
from glowembed.image import glue
from glowembed.lower import footprint
from glowembed.lower.choose import Choice, choose, within
from glowembed.lower.nodes import lower
from glowembed.lower.stream import hops, prove, reuse
from glowembed.nest.dtypes import numpy_type
from glowembed.ops.features import SOUND
from glowembed.options.frontend import from_document
from glowembed.options.table import CompileOptions as CompileOptions
from glowembed.options.table import Cut, Settings
from glowembed.plan import memory, replay
from glowembed.plan.costs import Costs
from glowembed.plan.places import place
from glowembed.plan.states import block_size
from glowembed.progress import SILENT, Progress
from glowembed.quantize import floating
from glowembed.quantize.biases import finish_biases
from glowembed.quantize.calibrate import calibrate, calibrate_weights
from glowembed.quantize.coverage import Coverage, coarse_softmaxes, coverage, require_all_quantized
from glowembed.quantize.precision import Precision, config_of, left_in_float
from glowembed.quantize.precision import resolve as resolve_precision
from glowembed.quantize.schema import Range
from glowembed.quantize.simplify import of_any_data, simplify, typed_names
from glowembed.quantize.states import tied
from glowembed.quantize.types import quantize, refuse_unused
from glowembed.quantize.weights import requantize_weights
from glowembed.ranges import datachecks, datasets
from glowembed.ranges.datasets import Dataset, ImageOptions, Source
from glowembed.ranges.form import Form
from glowembed.ranges.profile import Profile, ValueProfile, with_inner_ranges
from glowembed.ranges.profile import merge as merge_profiles
from glowembed.ranges.profile import profile as run_profile
from glowembed.ranges.sound import heard
from glowembed.read import importer
from glowembed.read.frontend import with_frontend
from glowembed.reference import run_int
from glowembed.version import VERSION

STAGES = ("import", "canonicalize", "profile", "quantize", "simplify", "lower", "choose", "plan", "emit")

NEEDED = ("model", "options", "weights", "weights_bytes", "schedule", "buffers", "macs")
"""Keys of bundle.json that commands read, besides those that every build reads."""

MEMORY_FILE = ".glowembed.json"
"""A file beside the bundle, not part of it: it records where the model was, so that validate finds it again."""


@dataclass(frozen=True)
class Bundle:
    """A bundle on disk. `graph` is the kernel-level graph that reference.run_int executes bit for bit."""

    path: Path
    manifest: Mapping[str, Any]
    graph: Graph
    model_path: Path | None = None
    stage_seconds: Mapping[str, float] = field(default_factory=dict)
    choices: tuple[Choice, ...] = ()
    notes: tuple[Note, ...] = ()


@dataclass
class _Stages:
    """Times the stages and shows which one runs."""

    progress: Progress
    on_stage: Callable[[str, Any], None]
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def run(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        with self.progress.stage(name):
            yield
        self.seconds[name] = time.perf_counter() - start


def _imported(model: Path, options: CompileOptions) -> Graph:
    graph = importer.load(
        model,
        options.shapes,
        _layout(options),
        options.exact,
        options.cut,
        options.float64_as_float32,
        options.states,
    )
    return with_frontend(graph, options.frontend)


def _layout(options: CompileOptions) -> str:
    """The layout of inputs: rows come first after the batch, so an input that is streamed along axis 2 is channels-last."""
    return "nhwc" if options.stream is not None and options.stream.axis == 2 else options.input_layout


def model_samples(model: Path, options: CompileOptions, dataset: Dataset) -> Dataset:
    """The samples as the model itself takes them: behind a front end, its features."""
    if options.frontend is None:
        return dataset
    return heard(dataset, options.frontend, _imported(model, replace(options, frontend=None)))


def import_model(model: Path, options: CompileOptions) -> Graph:
    """The canonical float graph of a model, from which both profiling and compiling start."""
    graph = check(_imported(model, options), "import")
    return check(canonicalize(graph), "canonicalize")


def profile_model(
    model: Path | str,
    data: Dataset | Source | Path | str | None,
    options: CompileOptions,
    progress: Progress = SILENT,
    merged: Sequence[Path] = (),
) -> Profile:
    """The ranges of every value of the canonical graph over the calibration samples, and over those of `merged`."""
    runs = [Profile.load(path) for path in merged]
    options = _as_profiled(options, runs[0].form) if runs else options
    graph, data = import_model(Path(model), options), _samples(options, data)
    for run in runs:
        run.require_fit(graph)
    if data is not None:
        form = Form(options.shapes, options.cut.inputs, options.cut.outputs)
        runs.append(replace(run_profile(graph, _dataset(data, graph), progress), form=form))
    if not runs:
        raise UsageError("give samples (--data, or --random N to try things out) or profiles (--merge)")
    return replace(reduce(merge_profiles, runs), assumed=graph.assumed)


def _samples(
    options: CompileOptions, data: Dataset | Source | Path | str | None
) -> Dataset | Source | Path | str | None:
    """The samples: random ones where --random asks for them."""
    if data is not None and options.random is not None:
        raise UsageError("give either samples (--data) or random ones (--random N), not both")
    return data if options.random is None else Source(random=options.random)


def _as_profiled(options: CompileOptions, form: Form) -> CompileOptions:
    """The options with the shapes and the cut of a profile, as far as they say nothing else."""
    cut = Cut(options.cut.inputs or form.inputs, options.cut.outputs or form.outputs)
    return replace(options, shapes={**form.shapes, **options.shapes}, cut=cut)


def typed_graph(model: Path, ranges: Profile, options: CompileOptions) -> Graph:
    """The quantized graph, with the type that the options choose for every value."""
    options = _as_profiled(options, ranges.form)
    graph = replace(import_model(model, options), name=model.stem)
    precision = resolve_precision(graph, config_of(options))
    return quantize(graph, _range_of(ranges), precision, _weights_range)


def _dataset(data: Dataset | Source | Path | str, graph: Graph) -> Dataset:
    samples = datasets.of_graph(data, graph, "calib")
    return replace(samples, notes=(*samples.notes, *datachecks.calibration(samples)))


def compile_model(
    model: Path | str,
    out_dir: Path | str,
    options: CompileOptions | None = None,
    data: Dataset | Source | Path | str | None = None,
    profile: Profile | Path | str | None = None,
    progress: Progress = SILENT,
    on_stage: Callable[[str, Any], None] = lambda name, result: None,
) -> Bundle:
    """Compile `model` into the folder `out_dir`, which is replaced as a whole if it is a bundle and refused if not.

    Ranges come from calibration samples (`data`) or from a stored `profile`; neither is needed where the model is
    quantized already. `on_stage` is called with the result of each stage of STAGES; it may raise to stop there.
    """
    model, out_dir = Path(model), Path(out_dir)
    options, data, profile = _given(options or CompileOptions(), data, profile)
    target = options.core()
    output.check_out_dir(out_dir)
    stages = _Stages(progress, on_stage)
    with stages.run("import"):
        graph = check(_imported(model, options), "import")
        assumed = graph.assumed
        _refuse_doubles(graph, target)
        graph = replace(_within_limits(graph, model), name=cnames.identifier(options.name or model.stem))
    on_stage("import", graph)
    with stages.run("canonicalize"):
        graph = check(canonicalize(graph), "canonicalize")
    on_stage("canonicalize", graph)
    with stages.run("profile"):
        ranges = _profile(graph, data, profile, progress, options.renames)
    on_stage("profile", ranges)
    given = typed_names(graph)
    with stages.run("quantize"):
        graph, table = _typed(graph, options, target, ranges)
        notes = (*_read_notes(graph), *_calibration_notes(graph, ranges), *coarse_softmaxes(graph))
        calibrated = _calibrated(graph, ranges, notes)
    on_stage("quantize", graph)
    with stages.run("simplify"):
        graph, savings = simplify(graph, given)
        check(graph, "simplify")
    on_stage("simplify", graph)
    with stages.run("lower"):
        graph, window, notes = _lowered(graph, options, notes)
    on_stage("lower", graph)
    with stages.run("choose"):
        in_flash = None if options.weights.place == "file" else options.flash
        graph, choices = choose(graph, target, options.kernel_options(), options.plan.optimize, in_flash)
        check(graph, "choose")
    on_stage("choose", graph)
    with stages.run("plan"):
        graph, plan = _proved(*_plan(graph, target, options, choices))
        notes += (Note("simpler-plan", plan.simpler),) if plan.simpler else ()
    on_stage("plan", plan)
    with stages.run("emit"):
        entries = tuple(entry.json() for entry in table)
        origin = Origin(VERSION, model.name, options.recorded(), entries, savings.json(), calibrated)
        files = emit.emit(graph, plan, target, origin, options.weights, window)
        write_bundle(out_dir, files, model)
    on_stage("emit", files)
    return Bundle(out_dir, json.loads(files["bundle.json"]), graph, model, stages.seconds, choices, (*assumed, *notes))


def _lowered(typed: Graph, options: CompileOptions, notes: tuple[Note, ...]) -> tuple[Graph, Graph, tuple[Note, ...]]:
    """The kernel-level graph of a run, which is a hop where the options ask for a stream; that of the network as it is; all notes."""
    window = check(lower(typed, options.float_io), "lower")
    graph = check(place(hops(window, options), options.places), "lower")
    if graph.stream is None:
        return graph, window, notes
    prove(window, graph, run_int)
    return graph, window, (Note("stream", reuse(window, graph)), *notes)


def _given(
    options: CompileOptions, data: Dataset | Source | Path | str | None, profile: Profile | Path | str | None
) -> tuple[CompileOptions, Dataset | Source | Path | str | None, Profile | None]:
    """The options as the profile was made with, and the data or the profile that the ranges come from."""
    data = _samples(options, data)
    if data is not None and profile is not None:
        raise UsageError("give either calibration data (--data, --random) or a profile (--profile), not both")
    if profile is None:
        return options, data, None
    profile = profile if isinstance(profile, Profile) else Profile.load(Path(profile))
    return _as_profiled(options, profile.form), data, profile


def _typed(
    graph: Graph, options: CompileOptions, target: Target, ranges: Profile
) -> tuple[Graph, tuple[Coverage, ...]]:
    """The graph with a type for every value, and how each node is computed."""
    precision = floating.by_numbers(graph, resolve_precision(graph, config_of(options)), ranges)
    graph, precision = _quantized(graph, precision, ranges)
    refuse_unused(graph, precision)
    graph = requantize_weights(graph, target.weights)
    graph = with_inner_ranges(finish_biases(graph, precision, ranges.mean), ranges)
    table = coverage(check(graph, "quantize"), precision)
    if options.require_all_quantized:
        require_all_quantized(table)
    return graph, table


def _read_notes(graph: Graph) -> Iterator[Note]:
    """Notes about how the model was read."""
    return (Note("model", text) for text in graph.notes)


def _proved(graph: Graph, plan: Plan) -> tuple[Graph, Plan]:
    """The plan after it was replayed. Raises UsageError where a tensor has no room."""
    check(graph, "plan")
    _require_room(graph, plan)
    replay.check(graph, plan)
    return graph, plan


def planned(graph: Graph, options: CompileOptions) -> tuple[Graph, Plan]:
    """A lowered graph with kernels, in order, and its plan. Raises UsageError where --ram or --flash allow none."""
    target = options.core()
    chosen, choices = choose(graph, target, options.kernel_options(), options.plan.optimize, options.flash)
    return _plan(chosen, target, options, choices)


def lowered(model: Path, options: CompileOptions, data: Dataset | Source | None, ranges: Dataset) -> Graph:
    """The graph to which `compile` assigns kernels and a plan; nothing is written.

    Without data, the samples of `ranges` stand in for them, and no channel is assumed to be dead.
    """
    made: dict[str, Any] = {}

    def keep(stage: str, result: Any) -> None:
        made[stage] = result
        if stage == ("quantize" if data is None else "lower"):
            raise _Enough

    with tempfile.TemporaryDirectory(prefix="glowembed-") as folder, suppress(_Enough):
        compile_model(model, Path(folder) / "not written", options, data or ranges, on_stage=keep)
    if data is not None:
        graph: Graph = made["lower"]
        return graph
    plain = of_any_data(made["quantize"], typed_names(made["canonicalize"]))
    return check(place(hops(lower(plain, options.float_io), options), options.places), "lower")


class _Enough(Exception):
    """Ends a compilation after the last stage that is needed."""


def tradeoffs(graph: Graph, options: CompileOptions, choices: tuple[Choice, ...]) -> tuple[Tradeoff, ...]:
    """RAM against cycles of a graph with kernels, as the stage `choose` made it with these choices."""
    target = options.core()
    costs = Costs(target, within(choices, options.plan.optimize, options.flash))
    return memory.tradeoffs(graph, _alignment(graph, target), options.plan, costs)


def _plan(graph: Graph, target: Target, options: CompileOptions, choices: tuple[Choice, ...]) -> tuple[Graph, Plan]:
    """The plan that the options ask for; if it does not fit the flash, the plan without tables of rows."""
    reserved = weights_bytes(graph) if options.weights.place == "ram" else 0
    state = block_size(graph, _alignment(graph, target))
    wanted, limit = replace(options.plan, reserved=reserved, state=state), options.flash
    costs = Costs(target, within(choices, wanted.optimize, limit))
    flag, elsewhere = "-Os" if wanted.optimize == "size" else "-O2", options.weights.place == "file"
    if wanted.optimize == "size":
        wanted = replace(wanted, optimize="speed")
    ordered, plan = memory.plan_network(graph, _alignment(graph, target), wanted, costs)
    if limit is None or footprint.flash(ordered, plan, target, flag, elsewhere) <= limit:
        return ordered, plan
    if plan.groups and wanted.ram is None:
        ordered, plan = memory.plan_network(graph, _alignment(graph, target), replace(wanted, optimize="speed"), costs)
    if footprint.flash(ordered, plan, target, flag, elsewhere) > limit:
        raise UsageError(_too_large(ordered, footprint.flash(ordered, plan, target, "-Os", elsewhere), limit))
    return ordered, plan


def _alignment(graph: Graph, target: Target) -> int:
    """The alignment of tensors: that of a word, or of their largest elements."""
    sizes = (numpy_type(v.qtype.dtype if v.qtype else v.dtype).itemsize for v in graph.values.values())
    return max(target.word_size, *sizes) if graph.values else target.word_size


def _refuse_doubles(graph: Graph, target: Target) -> None:
    """Refuse values of float64 for a target that computes them in software."""
    doubles = [v.name for v in graph.values.values() if v.dtype == "float64" and v.const is None]
    if doubles and target.word_size < 8:
        raise UnsupportedModelError(
            f"{doubles[0]!r} is float64, and {len(doubles)} values are, which {target.name} computes in software:"
            " compile with --float64-as-float32, or with --dtype float32, which takes floats of any width as float32"
        )


def _within_limits(graph: Graph, model: Path) -> Graph:
    """Refuse a model above the limits that docs/memory.md states."""
    if len(graph.nodes) > limits.NODES:
        raise UnsupportedModelError(f"{model} has {len(graph.nodes)} nodes, more than {limits.NODES}")
    sizes = {v.name: prod(v.shape) for v in graph.values.values() if v.const is not None}
    if sum(sizes.values()) > limits.PARAMETERS:
        largest = max(sizes, key=sizes.__getitem__)
        raise UnsupportedModelError(
            f"{model} has {sum(sizes.values())} numbers in constants, more than {limits.PARAMETERS}; "
            f"the largest is {largest!r} with {sizes[largest]}"
        )
    return graph


def _require_room(graph: Graph, plan: Plan) -> None:
    """Refuse a plan that is larger than what can be proved and addressed."""
    size = plan.size + sum(v.bytes for v in graph.values.values() if v.place in OUTSIDE)
    if size > limits.ARENA:
        name = graph.nodes[plan.steps[memory.peak_step(plan)].node].name if plan.steps else "the inputs"
        raise UnsupportedModelError(
            f"{graph.name} needs {size} bytes for its tensors, more than {limits.ARENA}; most is alive in {name!r}: "
            "a smaller input or fewer channels there would help"
        )


def _too_large(graph: Graph, needed: int, limit: int) -> str:
    """The error for a plan that does not fit, at a point where the kernels are already the smallest."""
    sizes = {n.name: footprint.constants(n, registry.kernel(n.kernel)) for n in graph.nodes if n.kernel}
    largest = max(sizes, key=sizes.__getitem__)
    total = sum(sizes.values())
    more = "" if needed > limit else ", and --optimize size makes it fit"
    return (
        f"{graph.name} does not fit --flash {limit}: at least it needs about {needed} bytes, with --optimize size ({total} "
        f"of constants, the rest code); most of them are for {largest!r}, {sizes[largest]}{more}"
    )


def images_of(bundle: Bundle) -> ImageOptions:
    """How images were read when the bundle was calibrated; they must be read in the same way again."""
    calibrated = bundle.manifest.get("calibration") or {}
    return ImageOptions.read(calibrated.get("images"), str(bundle.path)) or ImageOptions()


def shapes_of(bundle: Bundle) -> dict[str, Shape]:
    """The shapes of inputs that were given to `compile --shape`."""
    return {name: tuple(dims) for name, dims in bundle.manifest["options"].get("shapes", {}).items()}


def cut_of(bundle: Bundle) -> Cut:
    """The values at which `compile` cut the model."""
    options = bundle.manifest["options"]
    return Cut(tuple(options.get("inputs", ())), tuple(options.get("outputs", ())))


def form_of(bundle: Bundle) -> CompileOptions:
    """The options that say what of the model the bundle computes, and for which shapes: no later command asks for them again."""
    layout = bundle.manifest["options"]["input_layout"]
    states = dict(bundle.manifest["options"].get("states", {}))
    entry = bundle.manifest["options"].get("frontend")
    frontend = None if entry is None else from_document(entry, str(bundle.path / "bundle.json"))
    return CompileOptions(
        shapes=shapes_of(bundle), cut=cut_of(bundle), input_layout=layout, states=states, frontend=frontend
    )


def keep_whole(bundle: Bundle, folder: Path) -> Bundle:
    """A second build of the bundle in `folder` that keeps all tensors whole, so that each can be read after its layer
    has run.

    Constants and kernels are the files of the bundle itself, so an error in the bundle shows here too.
    """
    manifest = bundle.manifest
    target = with_isa(target_of(manifest), manifest["options"].get("isa"))
    plan = memory.plan(bundle.graph, _alignment(bundle.graph, target), PlanOptions("greedy", optimize="speed"))
    replay.check(bundle.graph, plan)
    origin = Origin(VERSION, manifest["model"]["file"], manifest["options"])
    weights = Weights(manifest["weights"]["place"], manifest["weights"]["file"])
    files = emit.emit(replace(bundle.graph, model_sha256=manifest["model"]["sha256"]), plan, target, origin, weights)
    own = [f"{manifest['name']}_weights.h", f"{manifest['name']}_kernels.h"]
    own.append(weights.file if weights.file is not None else f"{manifest['name']}_weights.c")
    files |= {name: read_bytes(bundle.path / name) for name in own}
    write_bundle(folder, files, bundle.model_path or Path(manifest["model"]["file"]))
    return replace(bundle, path=folder, manifest=json.loads(files["bundle.json"]))


def _profile(
    graph: Graph,
    data: Dataset | Source | Path | str | None,
    profile: Profile | None,
    progress: Progress,
    renames: Mapping[str, str],
) -> Profile:
    if profile is not None:
        return profile.fitted(graph, renames)
    if data is None:
        return _NoProfile(graph.model_sha256, 0, {})
    return run_profile(graph, _dataset(data, graph), progress)


def _calibration_notes(graph: Graph, ranges: Profile) -> tuple[Note, ...]:
    if isinstance(ranges, _NoProfile):
        return ()
    return (*ranges.notes, *datachecks.few(ranges.samples), *datachecks.calibration_clips(ranges, graph))


def _calibrated(graph: Graph, ranges: Profile, notes: tuple[Note, ...]) -> Mapping[str, Any] | None:
    """The manifest's record of where ranges come from, for comparison in validation; None where the model has its own
    types.
    """
    if isinstance(ranges, _NoProfile):
        return None
    return {
        "samples": ranges.samples,
        "images": None if ranges.images is None else ranges.images.json(),
        "inputs": datachecks.statistics(ranges, graph),
        "notes": [note.json() for note in notes],
    }


@dataclass(frozen=True, eq=False)
class _NoProfile(Profile):
    """Stands for the ranges when there are no samples and types come from the model. It records which values would have
    needed a range.
    """

    missing: dict[str, None] = field(default_factory=dict)

    def entry(self, name: str) -> ValueProfile:
        self.missing[name] = None
        return ValueProfile(-1.0, 1.0)


def _quantized(graph: Graph, precision: Precision, ranges: Profile) -> tuple[Graph, Precision]:
    """The graph with types. Without samples, nodes that a quantized model leaves in float are computed in float32."""
    made = tied(graph, lambda g: quantize(g, _range_of(ranges), precision, _weights_range))
    missing = dict(ranges.missing) if isinstance(ranges, _NoProfile) else {}
    if not missing:
        return made, precision
    typed = [
        name for name in typed_names(graph) if graph.values[name].qtype != SOUND
    ]  # of the network, not of a front end
    floating = left_in_float(graph, precision, missing) if typed else precision
    if floating == precision:
        _refuse_without(missing)
    return _quantized(graph, floating, _NoProfile(graph.model_sha256, 0, {}))


def _refuse_without(missing: Collection[str]) -> NoReturn:
    listed = "".join(f"\n  {name}" for name in list(missing)[:20])
    more = f"\n  and {len(missing) - 20} more" if len(missing) > 20 else ""
    raise UsageError(
        f"the model does not say how to store {len(missing)} of its values: give calibration data (--data) or a"
        " profile (--profile), or keep the nodes around them in float32 (--precision); --random N takes random samples, to try things out."
        f" Without a range:{listed}{more}"
    )


def _range_of(ranges: Profile) -> Callable[[str, Settings], Range]:
    """The range of an activation, by the calibration of its node, for the type that it will have."""

    def range_of(name: str, settings: Settings) -> Range:
        law: Any = settings.activation_schema
        return calibrate(ranges.entry(name), settings.activation_calibration, law, settings.dtype, settings.percentile)

    return range_of


def _weights_range(weights: Array, settings: Settings) -> Range:
    """The range of weights, by the calibration that their node uses for weights."""
    law: Any = settings.weights_schema
    return calibrate_weights(weights, settings.weights_calibration, law, settings.stored_weights, settings.percentile)


# ---------------------------------------------------------------------------------------------- on disk


def write_bundle(out_dir: Path, files: Mapping[str, bytes], model: Path) -> None:
    """Write a bundle, and record where its model was."""
    note = json.dumps({"model": str(model.absolute())}) + "\n"
    output.write_folder(out_dir, {**files, MEMORY_FILE: note.encode("utf-8")})


def window_of(bundle: Bundle) -> Graph:
    """The integer reference of the network on whole windows from which a stream was made."""
    return graphfile.read(bundle.path, {}, graphfile.WINDOW)


def load_bundle(path: Path | str) -> Bundle:
    """Load a bundle from disk, with its integer reference. Raises UsageError if it is not a bundle, or was changed."""
    path = Path(path)
    manifest = glue.read_manifest(path)
    if manifest["schema"] != SCHEMA:
        raise UsageError(
            f"{path} is a bundle of schema {manifest['schema']}, this glowembed reads {SCHEMA}: compile again"
        )
    missing = [key for key in NEEDED if key not in manifest]
    if missing:
        raise UsageError(f"{path / 'bundle.json'} lacks {', '.join(missing)}; compile the model again")
    graph = graphfile.read(path, manifest.get("reference", {}))
    for kind, names in (("inputs", graph.inputs), ("outputs", graph.outputs)):
        if [tensor["name"] for tensor in manifest[kind]] != list(names):
            raise UsageError(
                f"{path}: the {kind} of bundle.json are not those of its reference; compile the model again"
            )
    return Bundle(path, manifest, graph, _remembered_model(path))


def _remembered_model(path: Path) -> Path | None:
    try:
        return Path(documents.read_json(path / MEMORY_FILE)["model"])
    except (UsageError, KeyError, TypeError):
        return None
