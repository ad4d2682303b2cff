"""The whole flow in one function, compile_model, from an ONNX file and samples to C; read it from top to bottom. Each
stage is a module with one function from data to data, and `check` verifies the graph between stages.

Nothing is written before everything is ready; then one rename puts the bundle in place.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import field, replace
from functools import partial, reduce
from math import inf
from pathlib import Path
from typing import Any

from glowembed.canonicalize import canonicalize
from glowembed.canonicalize.along_rows import along_rows
from glowembed.emit import bundle as emit
from glowembed.emit.constants import weights_bytes
from glowembed.emit.manifest import Origin
from glowembed.errors import GlowembedError, NoReuse, NoRoom, UnsupportedModelError, UsageError
from glowembed.files import output
from glowembed.files.source import read_bytes
from glowembed.graph import cnames, limits, registry
from glowembed.graph.ir import Graph
from glowembed.graph.notes import Note
from glowembed.graph.plan import OUTSIDE, Plan, PlanOptions, Tradeoff, Weights
from glowembed.graph.stages import check
from glowembed.graph.target import Target, target_of, with_isa
from glowembed.image.bundles import Bundle as Bundle
from glowembed.image.bundles import build_folder, write_bundle
from glowembed.image.bundles import load_bundle as load_bundle
from glowembed.lower import footprint
from glowembed.lower.choose import Choice, choose, fewer, within
from glowembed.lower.forms import as_lines, by_rows
from glowembed.lower.nodes import lower
from glowembed.lower.program import difference, with_shifts_of
from glowembed.lower.stream import hops, prepared, prove, reuse
from glowembed.nest.dtypes import numpy_type
from glowembed.options.table import CompileOptions as CompileOptions
from glowembed.plan import memory, placement, replay
from glowembed.plan.costs import Costs
from glowembed.plan.places import place
from glowembed.plan.prefetch import Slow, prefetch, with_bands
from glowembed.plan.room import fits, with_kernels
from glowembed.plan.slices import Calls, cut
from glowembed.plan.states import block_size
from glowembed.progress import SILENT, Progress
from glowembed.quantize.coverage import coarse_softmaxes
from glowembed.quantize.precision import asks_four_bits, config_of
from glowembed.quantize.simplify import of_any_data, simplify
from glowembed.quantize.typed import in_first_types, typed
from glowembed.quantize.types import typed_names
from glowembed.ranges.datasets import Data, Dataset, Source, first_samples
from glowembed.ranges.form import Form
from glowembed.ranges.given import NoProfile, dataset_of, notes_of, ranges_of, recorded, samples_of
from glowembed.ranges.profile import Profile
from glowembed.ranges.profile import merge as merge_profiles
from glowembed.ranges.profile import profile as run_profile
from glowembed.ranges.sound import heard
from glowembed.read.model import imported, refuse_unfit
from glowembed.read.objects import Model, model_file
from glowembed.records import dataclass
from glowembed.reference import run_int
from glowembed.version import VERSION

NO_SOLVER = (
    "OR-tools is not installed: tensors were placed without the solver; pip install 'glowembed[planner]' may save RAM"
)

STAGES = ("import", "canonicalize", "profile", "quantize", "simplify", "lower", "choose", "plan", "emit")


@dataclass
class _Stages:
    """Times the stages and shows which one is running."""

    progress: Progress
    on_stage: Callable[[str, Any], None]
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def run(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        with self.progress.stage(name):
            yield
        self.seconds[name] = time.perf_counter() - start


def model_samples(model: Path, options: CompileOptions, dataset: Dataset) -> Dataset:
    """The samples in the form that the model itself takes; after a front end, these are its features."""
    if options.frontend is None:
        return dataset
    return heard(dataset, options.frontend, imported(model, replace(options, frontend=None)))


def import_model(model: Path, options: CompileOptions) -> Graph:
    """The canonical float graph of a model, from which both profiling and compiling start."""
    return _canonical(check(imported(model, options), "import"), options)


def _canonical(graph: Graph, options: CompileOptions) -> Graph:
    """The canonical graph of an imported one, in which a stream runs along rows."""
    if options.stream is not None:
        graph = along_rows(graph, options.stream.input, options.stream.axis)
    return check(canonicalize(graph), "canonicalize")


def profile_model(
    model: Path | str,
    data: Data | None,
    options: CompileOptions,
    progress: Progress = SILENT,
    merged: Sequence[Path] = (),
) -> Profile:
    """The ranges of every value of the canonical graph over the calibration samples, merged with the profiles in
    `merged`.
    """
    runs = [Profile.load(path) for path in merged]
    options = _as_profiled(options, runs[0].form) if runs else options
    graph, data = import_model(Path(model), options), samples_of(data, options.random)
    for run in runs:
        run.require_fit(graph)
    if data is not None:
        form = Form(options.shapes, options.cut, options.frontend)
        runs.append(replace(run_profile(graph, dataset_of(data, graph), progress), form=form))
    if not runs:
        raise UsageError("give samples (--data, or --random N to try things out) or profiles (--merge)")
    return replace(reduce(merge_profiles, runs), assumed=graph.assumed)


def _as_profiled(options: CompileOptions, form: Form) -> CompileOptions:
    """The options, completed with the shapes, the cut and the front end of a profile where they do not name their
    own.
    """
    cut = options.cut.over(form.cut)
    frontend = options.frontend or form.frontend
    if form.frontend is not None and frontend != form.frontend:
        raise UsageError(
            "--frontend differs from the front end that the profile was made with: leave it out, or make another profile"
        )
    return replace(options, shapes={**form.shapes, **options.shapes}, cut=cut, frontend=frontend)


def typed_graph(model: Path, ranges: Profile, options: CompileOptions) -> Graph:
    """The quantized graph, in which every value has the type that the options choose."""
    options = _as_profiled(options, ranges.form)
    graph = replace(import_model(model, options), name=model.stem)
    return in_first_types(graph, options, ranges)


def compile_model(
    model: Model,
    out_dir: Path | str,
    options: CompileOptions | None = None,
    data: Data | None = None,
    profile: Profile | Path | str | None = None,
    progress: Progress = SILENT,
    on_stage: Callable[[str, Any], None] = lambda name, result: None,
    fits: Bundle | None = None,
) -> Bundle:
    """Compile `model` into the folder `out_dir`. A bundle there is replaced as a whole; any other folder is refused.

    Ranges come from `data` or a stored `profile`, unless the model is already quantized. `on_stage` gets the result of
    each of STAGES, and may raise to stop there. fits: a bundle whose program must be able to use the new weights file.
    """
    out_dir = Path(out_dir)
    options, data, profile = _given(options or CompileOptions(), data, profile, fits)
    target, stages = options.core(), _Stages(progress, on_stage)
    model = _file_of(model, out_dir, options, data)
    with stages.run("import"):
        graph = check(imported(model, options), "import")
        assumed = graph.assumed
        refuse_unfit(graph, model, target)
        graph = replace(graph, name=cnames.identifier(options.name or model.stem))
    on_stage("import", graph)
    with stages.run("canonicalize"):
        read, graph = graph, _canonical(graph, options)
    on_stage("canonicalize", graph)
    with stages.run("profile"):
        ranges = ranges_of(graph, data, profile, progress, options.renames, few := asks_four_bits(config_of(options)))
    on_stage("profile", ranges)
    given = typed_names(graph)
    with stages.run("quantize"):
        graph, table = typed(graph, options, target, ranges)
        notes = (*_read_notes(graph), *notes_of(graph, ranges, few and profile is not None), *coarse_softmaxes(graph))
        calibrated = recorded(graph, ranges, notes)
    on_stage("quantize", graph)
    with stages.run("simplify"):
        graph, savings = simplify(graph, given)
        check(graph, "simplify")
    on_stage("simplify", graph)
    with stages.run("lower"):
        graph, window, notes = _lowered(graph, options, notes, fits, partial(_stream_axes, read, options))
    on_stage("lower", graph)
    with stages.run("choose"):
        in_flash = None if options.weights.place == "file" else options.flash
        ways = _ways(graph, target, options, in_flash)
        graph = check(ways[0].graph, "choose")
    on_stage("choose", graph)
    with stages.run("plan"):
        graph, plan, choices = _proved(*_best(ways, target, options))
        calls, notes = _calls(graph, plan, options, notes)
    on_stage("plan", plan)
    with stages.run("emit"):
        settings = tuple(entry.json() for entry in table)
        origin = Origin(VERSION, model.name, options.recorded(), settings, savings.json(), calibrated)
        files = emit.emit(graph, plan, target, origin, options.weights, window, calls)
        write_bundle(out_dir, _fitting(files, graph, fits), model)
    on_stage("emit", files)
    return Bundle(out_dir, json.loads(files["bundle.json"]), graph, model, stages.seconds, choices, (*assumed, *notes))


def _file_of(model: Model, out_dir: Path, options: CompileOptions, data: Data | None) -> Path:
    """The path of the model. A model that is an object is written to the build folder of the bundle. Raises UsageError
    for an `out_dir` that cannot become a bundle.
    """
    output.check_out_dir(out_dir)
    return model_file(model, build_folder(out_dir), options.name, options.shapes, partial(first_samples, data))


def _require_file(options: CompileOptions, program: Bundle | None) -> None:
    """Raise UsageError if a bundle should fit a program and one of the two has no weights file."""
    if program is None:
        return
    if program.manifest["weights"].get("structure") is None:
        raise UsageError(
            f"--fits: the weights of {program.path} are part of its program; compile that with --weights file:NAME"
        )
    if options.weights.place != "file":
        raise UsageError(f"--fits {program.path} is for --weights file:{program.manifest['weights']['file']}; add that")


def _fitting(files: Mapping[str, bytes], graph: Graph, program: Bundle | None) -> Mapping[str, bytes]:
    """The files of a bundle. Raises UsageError if its weights file does not fit the program."""
    here = json.loads(files["bundle.json"])
    if program is not None and here["weights"]["structure"] != program.manifest["weights"]["structure"]:
        found = difference(program.graph, graph, program.manifest, here)
        raise UsageError(f"the weights do not fit the program of {program.path}: {found}")
    return files


def _lowered(
    typed: Graph,
    options: CompileOptions,
    notes: tuple[Note, ...],
    program: Bundle | None,
    axes: Callable[[], Sequence[int]],
) -> tuple[Graph, Graph, tuple[Note, ...]]:
    """The kernel-level graph of a run, which is a hop if the options ask for a stream; the graph of the whole window;
    and all notes. axes: finds the other axes along which the network can be a stream, for an error.
    """
    window = check(lower(typed, options.float_io), "lower")
    window = window if program is None else check(with_shifts_of(program.graph, window), "lower")
    window = check(prepared(window, options), "lower")
    try:
        graph = check(_placed(window, options), "lower")
    except NoReuse as error:
        others = " or ".join(map(str, axes()))
        hint = f"axis {others} of the input can be that of the stream" if others else "no axis of the input is better"
        raise UsageError(f"{error}; {hint}{'' if others else ': compile the model without --stream'}") from error
    if graph.stream is None:
        return graph, window, notes
    prove(window, graph, run_int)
    return graph, window, (*reuse(window, graph), *notes)


def _stream_axes(imported: Graph, options: CompileOptions) -> list[int]:
    """The other axes of its input along which a network can be a stream, found on the network in float32."""
    wanted, found = options.stream, list[int]()
    assert wanted is not None
    for axis in range(1, len(imported.values[wanted.input].shape)):
        own = CompileOptions(options.target, dtype="float32", stream=replace(wanted, axis=axis))
        with suppress(GlowembedError):
            made, _ = typed(_canonical(imported, own), own, own.core(), NoProfile(imported.model_sha256, 0, {}))
            hops(prepared(lower(made), own), own)
            found.append(axis)
    return [axis for axis in found if axis != wanted.axis]


def _given(
    options: CompileOptions, data: Data | None, profile: Profile | Path | str | None, program: Bundle | None
) -> tuple[CompileOptions, Data | None, Profile | None]:
    """The options with which the profile was made, and the data or the profile that ranges come from."""
    _require_file(options, program)
    options.check_prefetch()
    data = samples_of(data, options.random)
    if data is not None and profile is not None:
        raise UsageError("give either calibration data (--data, --random) or a profile (--profile), not both")
    if profile is None:
        return options, data, None
    profile = profile if isinstance(profile, Profile) else Profile.load(Path(profile))
    return _as_profiled(options, profile.form), data, profile


def _read_notes(graph: Graph) -> Iterator[Note]:
    """Notes about how the model was read."""
    return (Note("model", text) for text in graph.notes)


def _proved(graph: Graph, plan: Plan, choices: tuple[Choice, ...]) -> tuple[Graph, Plan, tuple[Choice, ...]]:
    """The same, after the plan was replayed. Raises UsageError if a tensor has no room."""
    check(graph, "plan")
    _require_room(graph, plan)
    replay.check(graph, plan)
    return graph, plan, choices


def _calls(
    graph: Graph, plan: Plan, options: CompileOptions, notes: tuple[Note, ...]
) -> tuple[Calls | None, tuple[Note, ...]]:
    """The calls of a run in slices of as many cycles as the options allow, or between copies of weights; None without these options. And
    the notes, with those about the plan.
    """
    notes += (Note("simpler-plan", plan.simpler),) if plan.simpler else ()
    if options.plan.mode == "exact" and options.plan.effort > 0 and not placement.have_solver():
        notes += (Note("no-solver", NO_SOLVER),)
    costs = Costs(options.core())
    if options.plan.slice is not None:
        found: Calls = (slices := cut(graph, plan, costs, options.plan.slice))
        notes += (Note("slices", slices.text()),)
    elif options.plan.prefetch is not None:
        fetched = prefetch(graph, plan, costs, options.plan.prefetch, Slow(*options.source()))
        found, notes = fetched, (*notes, *fetched.notes())
    else:
        return None, notes
    replay.check(graph, replace(plan, steps=found.steps(graph, plan)))
    return found, notes


@dataclass(frozen=True)
class _Way:
    """A graph with kernels, all that were considered, and the options by which it is planned."""

    graph: Graph
    choices: tuple[Choice, ...]
    options: CompileOptions


def _ways(graph: Graph, target: Target, options: CompileOptions, flash: int | None) -> list[_Way]:
    """The ways to plan a lowered graph of which one may be the best, beginning with the graph as it is.

    A signal may be computed by rows or as a line (lower/forms.py). `speed` takes the other form if that is much faster. For the least RAM, the
    plan that `balanced` makes and the smallest that a limit finds are among them, so that it is never larger than these.
    """

    def way(form: Graph, **changes: Any) -> _Way:
        own = replace(options, plan=replace(options.plan, **changes))
        return _Way(*choose(form, target, options.kernel_options(), own.plan.optimize, flash), own)

    goal, limited = options.plan.optimize, options.plan.ram is not None
    ways = [way(form) for form in _forms(graph, options)]
    if goal == "speed" and not limited:
        own, *others = ways
        return [
            min(
                [own, *(one for one in others if _cycles(one, target) < FASTER * _cycles(own, target))],
                key=lambda one: _cycles(one, target),
            )
        ]
    if goal == "ram" and not limited and flash is None:
        ways += [way(graph, optimize="balanced"), way(graph, optimize="balanced", ram=options.plan.state)]
    return ways


def _forms(graph: Graph, options: CompileOptions) -> list[Graph]:
    """The graph as it is, and its signals in other forms. A stream and an input that is handed over by rows have one."""
    if graph.stream is not None or options.places.input == "rows" or options.plan.optimize == "size":
        return [graph]
    return [graph, *(form for form in (by_rows(graph), as_lines(graph)) if form is not graph)]


def _cycles(way: _Way, target: Target) -> float:
    """The estimated cycles of a graph with kernels, each called once."""
    return sum(registry.kernel(node.kernel).cost(node, target).cycles for node in way.graph.nodes if node.kernel)


FASTER = 0.9
"""The most cycles of a form that `speed` takes in place of the model's own, as a share of the cycles of that one, because
lines need more RAM than rows.
"""

BALANCED = 1.05
"""The most cycles of a form that `balanced` takes for its smaller plan, as a multiple of the cycles of the model's own."""


def _best(ways: Sequence[_Way], target: Target, options: CompileOptions) -> tuple[Graph, Plan, tuple[Choice, ...]]:
    """The best plan of all ways, with the kernels that were considered for it. Raises UsageError if --ram or --flash
    allow none.
    """
    found: list[tuple[Graph, Plan, tuple[Choice, ...]]] = []
    refused: list[UsageError] = []
    for way in ways:
        most = _useful([plan.size for _, plan, _ in found], options.plan)
        try:
            found.append((*_plan(way.graph, target, way.options, way.choices, most), way.choices))
        except NoRoom as error:
            refused.append(error)
            if options.plan.ram is None:
                found.append((*error.smallest, way.choices))
        except UsageError as error:
            refused.append(error)
    if not found:
        raise min(refused, key=lambda e: e.smallest[1].arena_size if isinstance(e, NoRoom) else 0)
    plan = options.plan
    if plan.optimize == "balanced" and plan.ram is None:
        most = BALANCED * found[0][1].fastest_cycles
        found = found[:1] + [one for one in found[1:] if _taken(one[1]) <= most]
    first, then = (_taken, _size) if plan.ram is not None else (_size, _taken)
    return min(found, key=lambda one: (first(one[1]), then(one[1])))


def _useful(sizes: Sequence[int], options: PlanOptions) -> float:
    """The bytes above which a further plan is of no use, if there are plans of these sizes. Only the first is sure to be taken into account."""
    if not sizes or options.ram is not None:
        return inf
    return min(sizes) if options.optimize == "ram" else sizes[0]


def _size(plan: Plan) -> float:
    return plan.size


def _taken(plan: Plan) -> float:
    """The estimated cycles of a plan."""
    return plan.fastest_cycles + plan.extra_cycles


def planned(graph: Graph, options: CompileOptions) -> tuple[Graph, Plan]:
    """A lowered graph with kernels, in order, and its plan. Raises UsageError if --ram or --flash allow none."""
    target = options.core()
    ordered, plan, _ = _best(_ways(graph, target, options, options.flash), target, options)
    return ordered, plan


def lowered(model: Path, options: CompileOptions, data: Dataset | Source | None, ranges: Dataset) -> Graph:
    """The graph to which `compile` would assign kernels and a plan; nothing is written.

    Without data, the samples of `ranges` take their place, and no channel is assumed to be dead.
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
    return check(_placed(prepared(lower(plain, options.float_io), options), options), "lower")


def _placed(window: Graph, options: CompileOptions) -> Graph:
    """The graph of a run, with its inputs and outputs in their places. Inputs that are handed over by rows have rows along
    time.
    """
    graph = hops(window, options)
    return place(by_rows(graph) if options.places.input == "rows" else graph, options.places)


class _Enough(Exception):
    """Ends a compilation after the last stage that is needed."""


def tradeoffs(graph: Graph, options: CompileOptions, run: Callable[..., Iterable[Any]] = map) -> tuple[Tradeoff, ...]:
    """The tradeoffs between RAM and cycles of a lowered graph. run: does what `map` does, such as the `map` of an
    executor.
    """
    target, found = options.core(), list[Tradeoff]()
    for form in _forms(graph, options):
        chosen, choices = choose(form, target, options.kernel_options(), options.plan.optimize, options.flash)
        costs = Costs(target, within(choices, options.plan.optimize, options.flash))
        found += memory.tradeoffs(
            chosen.with_plain_constants(), _alignment(graph, target), options.plan.for_data, costs, run
        )
    return memory.best(found)


def _with_fewer_kernels(
    graph: Graph, plan: Plan, target: Target, costs: Costs, choices: tuple[Choice, ...]
) -> tuple[Graph, Plan]:
    """The plan without kernels that cost more flash than they save cycles. No tensor moves."""
    found = fits(graph, plan, costs)
    possible = {name: {symbol: fit.cycles for symbol, fit in of_node.items()} for name, of_node in found.items()}
    return with_kernels(graph, plan, fewer(graph, target, choices, possible), found)


def _plan(
    graph: Graph, target: Target, options: CompileOptions, choices: tuple[Choice, ...], most: float = inf
) -> tuple[Graph, Plan]:
    """The plan that the options ask for; if it does not fit the flash, the plan without tables of rows. most: as in `plan_network`."""
    reserved = weights_bytes(graph) if options.weights.place == "ram" else 0
    state = block_size(graph, _alignment(graph, target), options.plan.slice, options.plan.prefetch)
    wanted, limit = replace(options.plan.for_data, reserved=reserved, state=state), options.flash
    graph, costs = _banded(graph, options, Costs(target, within(choices, wanted.optimize, limit)))
    flag, elsewhere = "-Os" if wanted.optimize == "size" else "-O2", options.weights.place == "file"
    if wanted.optimize == "size":
        wanted = replace(wanted, optimize="speed")
    ordered, plan = memory.plan_network(graph, _alignment(graph, target), wanted, costs, most)
    if limit is None and wanted.saves_flash and target.word_size < 8:
        ordered, plan = _with_fewer_kernels(ordered, plan, target, costs, choices)
    if limit is None or footprint.flash(ordered, plan, target, flag, elsewhere) <= limit:
        return ordered, plan
    if plan.groups and wanted.ram is None:
        ordered, plan = memory.plan_network(graph, _alignment(graph, target), replace(wanted, optimize="speed"), costs)
    if footprint.flash(ordered, plan, target, flag, elsewhere) > limit:
        raise UsageError(_too_large(ordered, footprint.flash(ordered, plan, target, "-Os", elsewhere), limit))
    return ordered, plan


def _banded(graph: Graph, options: CompileOptions, costs: Costs) -> tuple[Graph, Costs]:
    """The graph and its costs, with kernels for bands of channels where weights are copied to a window that has no room for all of them."""
    if options.plan.prefetch is None:
        return graph, costs
    target = options.core()
    banded = with_bands(graph, target, options.plan.prefetch, Slow(*options.source()))
    changed = [node for node, old in zip(banded.nodes, graph.nodes, strict=True) if node.kernel != old.kernel]
    own = {n.name: [(n.kernel, registry.kernel(n.kernel).cost(n, target).cycles)] for n in changed if n.kernel}
    return banded, replace(costs, legal={**costs.legal, **own})


def _alignment(graph: Graph, target: Target) -> int:
    """The alignment of tensors: that of a word, or of the largest elements."""
    sizes = (numpy_type(v.qtype.dtype if v.qtype else v.dtype).itemsize for v in graph.values.values())
    return max(target.word_size, *sizes) if graph.values else target.word_size


def _require_room(graph: Graph, plan: Plan) -> None:
    """Refuse a plan that is larger than what can be verified and addressed."""
    size = plan.size + sum(v.bytes for v in graph.values.values() if v.place in OUTSIDE)
    if size > limits.ARENA:
        name = graph.nodes[plan.steps[memory.peak_step(plan)].node].name if plan.steps else "the inputs"
        raise UnsupportedModelError(
            f"{graph.name} needs {size} bytes for its tensors, more than {limits.ARENA}; most is alive in {name!r}: "
            "a smaller input or fewer channels there would help"
        )


def _too_large(graph: Graph, needed: int, limit: int) -> str:
    """The error for a plan that does not fit even with the smallest kernels."""
    sizes = {n.name: footprint.constants(n, registry.kernel(n.kernel)) for n in graph.nodes if n.kernel}
    largest = max(sizes, key=sizes.__getitem__)
    total = sum(sizes.values())
    more = "" if needed > limit else ", and --optimize size makes it fit"
    return (
        f"{graph.name} does not fit --flash {limit}: at least it needs about {needed} bytes, with --optimize size ({total} "
        f"of constants, the rest code); most of them are for {largest!r}, {sizes[largest]}{more}"
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
