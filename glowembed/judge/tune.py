"""Finds what a network needs besides plain int8 to keep its accuracy: a calibration, and the fewest nodes in int16 or
float32; where a budget of flash is too small for int8 weights, the nodes that can have weights of four bits.

In: a model, samples, a metric, how much of it may be lost, a budget. Out: a precision configuration, and the score and
cost of every configuration that was tried. The search is deterministic: the same input gives the same answer with any
number of workers.

Another calibration costs nothing at run time, so all are tried first, and the best is kept. Then every node is lifted
alone once; its gain is the reduction of noise at the outputs. Nodes are taken by gain until the goal is met, the
shortest such list is found by bisection, and nodes that turn out to be unnecessary are dropped. An evaluation is a pure
function of picklable data, so any `concurrent.futures.Executor` can run them.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, as_completed
from dataclasses import asdict, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from glowembed import pipeline
from glowembed.errors import UsageError
from glowembed.graph.ir import Array, Graph, Value
from glowembed.graph.op import FOLLOWS
from glowembed.graph.plan import Plan
from glowembed.graph.registry import dtypes_of, ops
from glowembed.jobs import identity
from glowembed.jobs.store import Record, Store
from glowembed.judge import compare
from glowembed.judge.regress import names_of
from glowembed.lower import footprint
from glowembed.nest.dtypes import numpy_type
from glowembed.options.table import DEFAULTS, METHODS, Config, Rule, Settings
from glowembed.pipeline import CompileOptions
from glowembed.progress import SILENT, Progress
from glowembed.quantize.precision import asks_four_bits, config_of
from glowembed.ranges import datasets
from glowembed.ranges.datasets import Dataset, Source
from glowembed.ranges.given import dataset_of
from glowembed.ranges.profile import Profile
from glowembed.read import importer
from glowembed.records import dataclass
from glowembed.reference import graph_runs, run_int_all
from glowembed.version import VERSION

KIND = "tune"
"""The kind of the records in a store."""

METRICS = ("top1", "rmse", "cosine")
LIFTS = ("int16", "int16 weights", "float32")
"""The types to which a node may be lifted, the cheapest first; int16 alone has weights of int8."""

CHANGES: Mapping[str, Mapping[str, str]] = {
    "int16": {"dtype": "int16"},
    "int16 weights": {"dtype": "int16", "weights": "int16"},
    "float32": {"dtype": "float32"},
    "int4 weights": {"weights": "int4"},
    "compressed weights": {"weights": "compressed"},
    **{name: {"calibration": name} for name in METHODS},
}
"""A mapping from change to the settings of a rule that makes it."""

NARROW = ("int4 weights", "compressed weights")
"""The changes that save flash, the fastest first."""

ALL = ""
"""In place of the name of a node, this means all nodes."""

PYTHON = "python:"

Outputs = Mapping[str, Array]
"""Output name -> [n, ...] real numbers."""

Lifted = tuple[tuple[str, str], ...]
"""Pairs (node name, change), sorted, so that ALL comes first; all other settings are those of the options."""


@dataclass(frozen=True)
class Task:
    """The input that all evaluations share. It holds paths instead of contents, because it is sent to the workers."""

    model: Path
    data: Source
    profile: Path
    metric: str
    samples: int | None
    options: CompileOptions


@dataclass(frozen=True)
class Evaluation:
    """The result and cost of a configuration. score: higher is better; noise: RMS error over RMS output.

    arena: bytes of RAM. flash: bytes of weights, exact, and of kernels, estimated. cycles: estimated.
    """

    score: float
    noise: float
    arena: int
    flash: int
    cycles: float


@dataclass(frozen=True)
class Budget:
    """The limits on the cost of a configuration; None means no limit."""

    arena: int | None = None
    flash: int | None = None
    cycles: float | None = None

    def admits(self, e: Evaluation) -> bool:
        limits = ((self.arena, e.arena), (self.flash, e.flash), (self.cycles, e.cycles))
        return all(limit is None or cost <= limit for limit, cost in limits)


@dataclass(frozen=True)
class Tuned:
    """The answer. `tried` is in the order of requests; `lifted` is None if the goal cannot be met. remembered: how many
    of them an earlier, interrupted search had evaluated.
    """

    goal: float
    float_score: float
    lifted: Lifted | None
    nodes: int
    tried: Mapping[Lifted, Evaluation]
    remembered: int = 0

    @property
    def base(self) -> Evaluation:
        return self.tried[()]

    def yaml(self) -> str:
        """The text of the precision.yaml."""
        defaults: dict[str, str] = {"dtype": "int8"}
        for name, change in self.lifted or ():
            if name == ALL:
                defaults |= CHANGES[change]
        rules = [{"name": glob(name), **CHANGES[change]} for name, change in self.lifted or () if name != ALL]
        text: str = yaml.safe_dump({"defaults": defaults, "rules": rules}, sort_keys=False, allow_unicode=True)
        return text

    def json(self) -> dict[str, Any]:
        """The machine-readable result."""
        return {
            "schema": 1,
            "goal": self.goal,
            "float_score": self.float_score,
            "nodes": self.nodes,
            "lifted": None if self.lifted is None else _named(self.lifted),
            "tried": [{"lifted": _named(lifted), **asdict(found)} for lifted, found in self.tried.items()],
        }


def _named(lifted: Lifted) -> list[dict[str, Any]]:
    """Nodes and their changes for a result; all nodes are null."""
    return [{"node": None if name == ALL else name, "change": change} for name, change in lifted]


def tune(
    task: Task,
    drop: float,
    budget: Budget | None = None,
    lifts: Sequence[str] = LIFTS,
    executor: Executor | None = None,
    store: Store | None = None,
    progress: Progress = SILENT,
) -> Tuned:
    """Find the set. `drop`: the acceptable loss of the float score (a share of samples for top1; relative otherwise).

    `store` keeps evaluations, so that an interrupted search continues where it stopped, and another one with a different goal
    begins with them. Raises UsageError for a metric that does not fit the data or that fails.
    """
    search = _Search(task, executor, store, progress)
    loaded = _loaded(task)
    goal = _goal(task.metric, loaded, drop)
    budget = budget or Budget()
    names = [n.name for n in loaded.graph.nodes]
    lifted = _lift(search, loaded.graph, goal, budget, lifts)
    return Tuned(
        goal, loaded.float_score, lifted, len(names), dict(search.tried), len(search.remembered & set(search.tried))
    )


def table(result: Tuned) -> str:
    """Accuracy against cost of everything that was tried, the best score first, as a Markdown table."""
    order = sorted(result.tried, key=lambda s: (-result.tried[s].score, result.tried[s].cycles, s))
    lines = [
        f"float scores {result.float_score:.6g}, the goal is {result.goal:.6g}; noise: RMS error over RMS output",
        "",
        "| | what differs from the base | score | noise | arena, bytes | flash, bytes | cycles |",
        "|---|---|---|---|---|---|---|",
    ]
    for lifted in order:
        e, chosen = result.tried[lifted], "chosen" if lifted == result.lifted else ""
        cost = f"{e.arena:,} | {e.flash:,} | {round(e.cycles):,}"
        lines.append(f"| {chosen} | {described(lifted)} | {e.score:.6g} | {e.noise:.4g} | {cost} |")
    return "\n".join(lines) + "\n"


def described(lifted: Lifted) -> str:
    """A set in words: `sqnr; conv_1: int16`, or `nothing`."""
    words = (change if name == ALL else f"{name}: {change}" for name, change in lifted)
    return "; ".join(words).replace("|", "\\|") or "nothing"


def glob(name: str) -> str:
    """A pattern that matches this name and nothing else."""
    return "".join(f"[{c}]" if c in "*?[" else c for c in name)


class _Search:
    """The state of the search: it requests evaluations, and remembers them in memory and in the store."""

    def __init__(self, task: Task, executor: Executor | None, store: Store | None, progress: Progress) -> None:
        self.task, self.executor, self.store, self.progress = task, executor, store, progress
        self.tried: dict[Lifted, Evaluation] = {}
        self.identity = _identity(task) if store is not None else ""
        self.known: dict[Lifted, Evaluation] = {}
        self.remembered: set[Lifted] = set()

    def all(self, wanted: Iterable[Lifted], label: str) -> list[Evaluation]:
        """The evaluations of these sets, in parallel if there is an executor."""
        sets = list(dict.fromkeys(wanted))
        fresh = [s for s in sets if s not in self.known and not self.kept(s)]
        with self.progress.counter(label) as count:
            for done, (lifted, result) in enumerate(self.evaluated(fresh), start=1):
                self.known[lifted] = result
                self.keep(lifted, result)
                count(done, len(fresh))
        self.tried |= {s: self.known[s] for s in sets}
        return [self.known[s] for s in sets]

    def kept(self, lifted: Lifted) -> bool:
        """Whether an earlier search with the same input has evaluated this set; if so, it is known from now on."""
        found = self.store.get(KIND, _key(self.identity, lifted)) if self.store is not None else None
        numbers: dict[str, Any] = (
            {} if found is None else {field.name: found.get(field.name) for field in fields(Evaluation)}
        )
        if not numbers or not all(type(number) in (int, float) for number in numbers.values()):
            return False
        self.known[lifted] = Evaluation(**numbers)
        self.remembered.add(lifted)
        return True

    def keep(self, lifted: Lifted, result: Evaluation) -> None:
        """Keep an evaluation in the store."""
        if self.store is not None:
            about = {"model": names_of([self.task.model])[0], "target": self.task.options.target}
            about |= {"setting": f"{self.task.metric}, {described(lifted)}"}
            about |= {"version": VERSION, "commit": identity.commit()}
            self.store.put(Record(KIND, _key(self.identity, lifted), about, asdict(result)))

    def evaluated(self, sets: Sequence[Lifted]) -> Iterator[tuple[Lifted, Evaluation]]:
        """Evaluations in the order in which they complete, so that an interruption loses only those under way."""
        if self.executor is None:
            yield from ((lifted, evaluate(self.task, lifted)) for lifted in sets)
            return
        futures = {self.executor.submit(evaluate, self.task, lifted): lifted for lifted in sets}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        finally:
            for future in futures:
                future.cancel()

    def one(self, lifted: Lifted) -> Evaluation:
        return self.all([lifted], "search")[0]


def _lift(search: _Search, graph: Graph, goal: float, budget: Budget, lifts: Sequence[str]) -> Lifted | None:
    """The first answer within the budget. Only the score guides the search, because both score and cost rise with the
    number of nodes.
    """

    def good(lifted: Lifted) -> bool:
        return search.one(lifted).score >= goal

    def affordable(lifted: Lifted) -> bool:
        return good(lifted) and budget.admits(search.one(lifted))

    if affordable(()):
        return ()
    base = _recalibrated(search)
    if affordable(base):
        return base
    if budget.flash is not None and search.one(base).flash > budget.flash:
        narrowed = _narrowed(search, graph, base, budget.flash) if good(base) else ()
        return next((one for one in narrowed if affordable(one)), None)
    for change in lifts:
        ranked = _ranked(search, graph, change, base)
        length = _shortest(lambda n: good(_set([*base, *ranked[:n]])), len(ranked))  # noqa: B023  used at once
        if length is not None:
            found = _pruned(base, ranked[:length], good)
            if affordable(found):
                return found
    return None


def _narrowed(search: _Search, graph: Graph, base: Lifted, limit: int) -> Iterator[Lifted]:
    """Sets with weights of four bits whose flash is within the limit: first all nodes in one way, which takes one evaluation each,
    then so many nodes as are needed, those first that add the least noise for each of their weights. There, a node gets that
    change of NARROW which adds less noise.
    """
    nodes = [n for n in graph.nodes if ops()[n.op].weights_of_four_bits]
    if not nodes:
        return
    whole = [_set([*base, *((n.name, change) for n in nodes)]) for change in NARROW]
    small = [one for one in whole if search.one(one).flash <= limit]
    yield from small
    if not small:
        return
    ways = [(n.name, change) for n in nodes for change in NARROW]
    results = dict(zip(ways, search.all([_set([*base, way]) for way in ways], "weights of four bits"), strict=True))
    best = [min(((n.name, change) for change in NARROW), key=lambda way: results[way].noise) for n in nodes]
    sizes, plain = [graph.values[n.inputs[1]].elements for n in nodes], search.one(base).noise
    added = [(results[way].noise - plain) / size for way, size in zip(best, sizes, strict=True)]
    ranked = [best[i] for i in sorted(range(len(nodes)), key=lambda i: (added[i], i))]
    length = _shortest(lambda n: search.one(_set([*base, *ranked[:n]])).flash <= limit, len(ranked))
    if length is not None:
        yield _set([*base, *ranked[:length]])


def _recalibrated(search: _Search) -> Lifted:
    """The calibration of the whole network that gives the least noise; () is the given one."""
    own = Settings().applied(config_of(search.task.options).defaults, DEFAULTS).activation_calibration
    sets: list[Lifted] = [(), *(((ALL, name),) for name in METHODS if name != own)]
    results = search.all(sets, "calibration")
    return min(zip(results, sets, strict=True), key=lambda pair: pair[0].noise)[1]


def _ranked(search: _Search, graph: Graph, change: str, base: Lifted) -> list[tuple[str, str]]:
    """(node, change) by the noise that lifting the node alone removes, the largest first."""
    nodes = [(n.name, _possible(change, n.op)) for n in graph.nodes if _computes(n.op)]
    results = search.all([_set([*base, node]) for node in nodes], "sensitivity")
    order = sorted(range(len(nodes)), key=lambda i: (results[i].noise, i))
    return [nodes[i] for i in order]


def _possible(change: str, op: str) -> str:
    """The change, or the nearest one for this op: int16 without weights, or float32 if there is no int16."""
    if CHANGES[change]["dtype"] not in dtypes_of(op):
        return "float32"
    return change if ops()[op].has_weights or change == "float32" else "int16"


def _computes(op: str) -> bool:
    """Whether a node computes and so may lose accuracy; nodes that only move values follow their neighbours."""
    return ops()[op].output_type not in FOLLOWS


def _shortest(good: Callable[[int], bool], count: int) -> int | None:
    """The least n in 1..count for which a prefix of n is good, by doubling and bisection; None if none is."""
    high = 1
    while not good(min(high, count)):
        if high >= count:
            return None
        high *= 2
    low, high = high // 2, min(high, count)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if good(middle) else (middle, high)
    return high


def _pruned(base: Lifted, nodes: Sequence[tuple[str, str]], good: Callable[[Lifted], bool]) -> Lifted:
    """The set without the nodes that are not needed; the least useful are tried first."""
    kept = list(nodes)
    for node in reversed(nodes):
        without = [n for n in kept if n != node]
        if without and good(_set([*base, *without])):
            kept = without
    return _set([*base, *kept])


def _set(nodes: Iterable[tuple[str, str]]) -> Lifted:
    return tuple(sorted(nodes))


class _Stop(Exception):
    """Ends a compilation after the plan, because nothing is to be written."""


@dataclass(frozen=True, eq=False)
class _Loaded:
    """The data that a worker needs besides the set, loaded once."""

    graph: Graph
    profile: Profile
    dataset: Dataset
    floats: Outputs
    float_score: float
    calibration: Callable[[], Dataset]

    @cached_property
    def precise(self) -> Profile:
        """The profile with the samples that weights of four bits need."""
        return replace(self.profile, dataset=self.calibration())


_CACHE: dict[str, _Loaded] = {}


def _loaded(task: Task) -> _Loaded:
    """Load once per process, because a worker gets many sets of the same task."""
    key = repr(task)
    if key not in _CACHE:
        _CACHE.clear()
        _CACHE[key] = _load(task)
    return _CACHE[key]


def _load(task: Task) -> _Loaded:
    graph = pipeline.import_model(task.model, task.options)
    dataset = datasets.of_graph(task.data, graph, "test").every(task.samples)
    heard = pipeline.model_samples(task.model, task.options, dataset)
    floats = compare.run_float_model(task.model, heard, values=graph.values, at=task.options.cut)
    score = _score(task.metric, floats, floats, dataset.labels)
    profile = Profile.load(task.profile)
    return _Loaded(graph, profile, dataset, floats, score, lambda: dataset_of(replace(task.data, labels=None), graph))


def evaluate(task: Task, lifted: Lifted) -> Evaluation:
    """Compile in memory with these nodes lifted, run the integer reference over the samples, measure."""
    loaded = _loaded(task)
    rules = tuple(Rule(f"lift {name}", (glob(name) or "*",), settings=CHANGES[change]) for name, change in lifted)
    given = config_of(task.options)
    config = Config(given.defaults, (*given.rules, *rules))
    profile = loaded.precise if asks_four_bits(config) else loaded.profile
    graph, plan = _compiled(task, replace(task.options, precision=config), profile)
    found = integer_outputs(graph, loaded.dataset)
    found = {name: array.reshape(loaded.floats[name].shape) for name, array in found.items() if name in loaded.floats}
    floats = {name: loaded.floats[name] for name in found}
    signal = sum(float(np.sum(a.astype(np.float64) ** 2)) for a in floats.values())
    noise = sum(float(np.sum((a.astype(np.float64) - found[n]) ** 2)) for n, a in floats.items())
    target = task.options.core()
    return Evaluation(
        _score(task.metric, found, floats, loaded.dataset.labels),
        float(np.sqrt(noise / signal)) if signal else float(np.sqrt(noise)),
        plan.size,
        footprint.flash(graph, plan, target),
        plan.fastest_cycles + plan.extra_cycles,
    )


def _compiled(task: Task, options: CompileOptions, profile: Profile) -> tuple[Graph, Plan]:
    made: dict[str, Any] = {}

    def on_stage(name: str, result: Any) -> None:
        made[name] = result
        if name == "lower":
            raise _Stop

    with contextlib.suppress(_Stop):
        pipeline.compile_model(
            task.model, task.profile.parent / "not written", options, profile=profile, on_stage=on_stage
        )
    return pipeline.planned(made["lower"], options)


def integer_outputs(graph: Graph, dataset: Dataset) -> dict[str, Array]:
    """The outputs of the integer reference for every sample, as real numbers in the layout of the model."""
    given = (dataset.sample(index) for index in range(len(dataset)))
    samples = ({n: stored(graph.values[n], sample[n]) for n in graph.free_inputs} for sample in given)
    runs = graph_runs(graph, samples, run_int_all)
    rows = [{name: _real(graph.values[name], values[name]) for name in graph.outputs} for _, values in runs]
    return {name: np.stack([row[name] for row in rows]) for name in graph.outputs}


def stored(value: Value, real: Array) -> Array:
    """One sample of an input in the form that the bundle takes."""
    array = datasets.stored(value, real)
    return array.astype(numpy_type(value.dtype)) if value.qtype is None else value.qtype.quantize(array)


def _real(value: Value, stored: Array) -> Array:
    real = stored if value.qtype is None else value.qtype.dequantize(stored)
    return value.logical(real)


def _goal(metric: str, loaded: _Loaded, drop: float) -> float:
    if metric == "top1":
        return loaded.float_score - drop
    return loaded.float_score - drop * (abs(loaded.float_score) if metric.startswith(PYTHON) else 1.0)


def _score(metric: str, found: Outputs, floats: Outputs, labels: Array | None) -> float:
    """The score; higher is better. For rmse it is minus the error relative to the float outputs' RMS, over all outputs."""
    if metric.startswith(PYTHON):
        return _python(metric, found, labels)
    if metric == "top1":
        accuracy = compare.accuracy(labels, floats, found)
        if accuracy is None or accuracy.metric != "top1":
            raise UsageError(
                "metric top1 needs class labels (test_y) that fit an output; without labels, use rmse or cosine"
            )
        return accuracy.of_quantized
    if metric == "cosine":
        return min(m.cosine for m in compare.metrics(floats, found))
    relative = [_relative_error(a, found[n]) for n, a in floats.items()]
    return -max(relative)


def _relative_error(real: Array, found: Array) -> float:
    rms = float(np.sqrt(np.mean(real.astype(np.float64) ** 2))) or 1.0
    return float(np.sqrt(np.mean((real.astype(np.float64) - found) ** 2))) / rms


def metric_function(metric: str) -> Callable[[Outputs, Array | None], float]:
    """The function named by `python:module.function`; it takes outputs by name and labels. Raises UsageError."""
    module, _, name = metric.removeprefix(PYTHON).rpartition(".")
    try:
        function: Callable[[Outputs, Array | None], float] = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise UsageError(
            f"metric {metric!r}: {error}; expected python:module.function, importable from here"
        ) from error
    return function


def _python(metric: str, found: Outputs, labels: Array | None) -> float:
    try:
        score = float(metric_function(metric)(found, labels))
    except UsageError:
        raise
    except Exception as error:  # a stranger's function may raise anything
        raise UsageError(f"metric {metric!r} raised {type(error).__name__}: {error}") from error
    if not np.isfinite(score):
        raise UsageError(f"metric {metric!r} gave {score}; expected a finite number, higher is better")
    return score


def _identity(task: Task) -> str:
    """The hash of all that the evaluations of a task depend on, besides the set."""
    given = task.data
    arrays = {name: hashlib.sha256(array.tobytes()).hexdigest() for name, array in (given.arrays or {}).items()}
    data = [identity.of_path(given.path)] if given.random is None and given.arrays is None else [str(arrays)]
    files = [importer.describe(task.model).sha256, *data, identity.of_path(task.profile)]
    how = [given.labels, given.images, given.limit, given.random, task.metric, task.samples, task.options]
    return identity.of_words([*files, *map(repr, how), *identity.software().values()])


def _key(of_task: str, lifted: Lifted) -> str:
    return identity.of_words([of_task, json.dumps(lifted)])
