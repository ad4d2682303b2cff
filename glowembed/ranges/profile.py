"""Records the values that occur in a model. In: a canonical graph and samples. Out: a Profile, with minimum, maximum
and histogram of each value.

A profile does not depend on the order of the samples, and `merge` of two profiles is the profile of both sets of
samples; record.py explains how.

The YAML file holds the sha256 of the model. `require_fit` refuses a profile of another network and says what is
missing, what is extra and which weights differ; another export of the same network, with the same names, is accepted.
Constants only have a range; activations also have range and mean of each channel (last axis). A person may change a
range. If an input of the network takes only few different numbers, these are recorded, because scaled bytes lie on a
grid that a type can represent exactly.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from glowembed.errors import UsageError, unknown_name
from glowembed.files import documents
from glowembed.files.output import write_file
from glowembed.graph.ir import Array, Graph, Node
from glowembed.graph.notes import Note
from glowembed.graph.registry import ops
from glowembed.progress import SILENT, Progress
from glowembed.ranges.datasets import Dataset, ImageOptions, stored_sample
from glowembed.ranges.finite import unbounded_outputs
from glowembed.ranges.form import UNSAID, Form
from glowembed.ranges.record import (
    BINS,
    LARGEST_EXPONENT,
    LARGEST_SUM,
    MAX_LEVELS,
    PRECISION_BITS,
    SMALLEST_EXPONENT,
    SUM_EXPONENT,
    Counts,
    Histogram,
    Recorder,
    ValueProfile,
    as_float32,
    bin_of,
    merged,
)
from glowembed.records import dataclass
from glowembed.reference import graph_runs, run_float_all
from glowembed.version import VERSION

FORMAT = "glowembed profile 1"


@dataclass(frozen=True, eq=False)
class Profile:
    """All float values of a canonical graph by name, in its order, over `samples` samples. notes: what was done to the data."""

    model_sha256: str
    samples: int
    values: Mapping[str, ValueProfile]
    version: str = VERSION
    notes: tuple[Note, ...] = ()
    images: ImageOptions | None = None
    """How images were read, if the samples were images."""
    form: Form = UNSAID
    assumed: tuple[Note, ...] = ()
    """Notes on what the import assumed, for the user; they are not in the file."""
    dataset: Dataset | None = None
    """The samples themselves, for weights of four bits; they are not in the file."""

    @classmethod
    def load(cls, path: Path) -> Profile:
        """Load a profile from a file. Raises UsageError if the file is not a profile."""
        return _from_document(documents.read_yaml(path), str(path))

    def save(self, path: Path) -> None:
        """Write the file; a half-written file never appears under its name."""
        write_file(path, to_yaml(self))

    def require_fit(self, graph: Graph) -> None:
        """Raise UsageError if this is not a profile of the graph; the error lists what is missing, what is superfluous,
        and the reason.
        """
        _require_fit(self, graph)

    def fitted(self, graph: Graph, renames: Mapping[str, str]) -> Profile:
        """This profile with the names of the graph, which must then fit it.

        renames: maps names in the profile to names in the graph. Without them, values with other names are matched in
        order, if profile and graph have equally many of them and they agree in their numbers of elements and channels;
        a note says so.
        """
        return _fitted(self, graph, renames)

    def entry(self, name: str) -> ValueProfile:
        """The record of the value of this name."""
        if name not in self.values:
            raise unknown_name("value in the profile:", name, self.values)
        return self.values[name]

    def mean(self, name: str) -> NDArray[np.float64] | None:
        """The mean of each channel of an activation; None if it is not known."""
        sums = self.values[name].channel_sum if name in self.values else ()
        return np.asarray([math.ldexp(float(s), SUM_EXPONENT) / self.samples for s in sums]) if sums else None


def profile(graph: Graph, dataset: Dataset, progress: Progress = SILENT) -> Profile:
    """Run every sample through the float reference (in sequence if the graph has states), and record every float value
    of the graph.
    """
    graph, recorder = graph.with_plain_constants(), Recorder(graph.inputs)
    indices = progress.track(range(len(dataset)), "profiling")
    samples = (stored_sample(graph, dataset, index) for index in indices)
    notes = dict.fromkeys(dataset.notes)
    for _, results in graph_runs(graph, samples, run_float_all):
        notes |= dict.fromkeys(unbounded_outputs(graph, results))
        for name, array in _activations(graph, results):
            recorder.add(name, array)
    values = recorder.records()
    values = {
        **{name: values[name] for name in (*graph.values, *_inner_names(graph)) if name in values},
        **_constants(graph),
    }
    return Profile(graph.model_sha256, len(dataset), values, notes=tuple(notes), images=dataset.images)


def merge(a: Profile, b: Profile) -> Profile:
    """The profile of both sets of samples. Raises UsageError unless both profiles belong to the same model and are
    unedited.
    """
    if a.form != b.form:
        raise UsageError(f"profiles of different forms cannot be merged: {a.form.json()} and {b.form.json()}")
    if a.values.keys() != b.values.keys() or _moved(a, b):
        changed = [*sorted(a.values.keys() ^ b.values.keys()), *_moved(a, b)]
        raise UsageError(f"profiles of different models cannot be merged.{_listed('they differ in', changed)}")
    edited = sorted({name for p in (a, b) for name, value in p.values.items() if value.edited})
    if edited:
        raise UsageError(
            f"a profile with edited ranges cannot be merged: merge first, then edit.{_listed('edited', edited)}"
        )
    values = {name: merged(value, b.values[name]) for name, value in a.values.items()}
    notes = tuple(dict.fromkeys((*a.notes, *b.notes, *_read_differently(a, b))))
    return replace(a, samples=a.samples + b.samples, values=values, notes=notes, images=a.images or b.images)


def _read_differently(a: Profile, b: Profile) -> tuple[Note, ...]:
    if a.images is None or b.images is None or a.images == b.images:
        return ()
    return (Note("images-differ", f"merged profiles read images differently: {a.images.json()}, {b.images.json()}"),)


SAME_CONSTANT = 1e-4
"""The ends of a constant's range may differ by this share of it, because exporters fold BatchNormalization in different
orders.
"""


def _moved(a: Profile, b: Profile) -> list[str]:
    """The constants in both profiles whose ranges differ, so that the names are the same but the network is another."""
    both = [name for name in sorted(a.values.keys() & b.values.keys()) if b.values[name].histogram is None]
    return [name for name in both if not _same_range(a.values[name], b.values[name])]


def _same_range(a: ValueProfile, b: ValueProfile) -> bool:
    tolerance = SAME_CONSTANT * max(abs(a.low), abs(a.high))
    return abs(a.low - b.low) <= tolerance and abs(a.high - b.high) <= tolerance


def _require_fit(profile: Profile, graph: Graph) -> None:
    expected, recorded = _float_names(graph), {n for n, v in profile.values.items() if v.histogram is not None}
    missing, extra = sorted(expected - recorded), sorted(recorded - expected)
    same_model = profile.model_sha256 == graph.model_sha256
    moved = [] if same_model else _moved(profile, replace(profile, values=_constants(graph)))
    if not (missing or extra or moved):
        return
    reasons = [] if same_model else [_other_model(profile, graph)]
    if profile.version != VERSION:
        reasons.append(f"it was written by glowembed {profile.version}, this is {VERSION}")
    raise UsageError(
        f"the profile does not fit the model: {'; '.join(reasons) or 'the values are others'}."
        f"{_listed('missing', missing)}{_listed('extra', extra)}{_listed('other weights', moved)}"
        " Where these are the same values under other names, say so: --rename OLD=NEW; else make a new one: glowembed profile"
        " MODEL --data DATA"
    )


def _fitted(profile: Profile, graph: Graph, renames: Mapping[str, str]) -> Profile:
    for old, new in renames.items():
        if old not in profile.values:
            raise unknown_name("value in the profile:", old, profile.values)
        if new not in graph.values:
            raise unknown_name("value of the model:", new, graph.values)
    matched = {} if renames else _matched(profile, graph)
    names = {**renames, **matched}
    values = {names.get(name, name): value for name, value in profile.values.items()}
    if len(values) < len(profile.values):
        raise UsageError("--rename gives two values of the profile one name; each needs its own")
    renamed = replace(profile, values=values, notes=(*profile.notes, *_told(matched)))
    renamed.require_fit(graph)
    return renamed


def _matched(profile: Profile, graph: Graph) -> dict[str, str]:
    """For values that only one side has, the name in the graph for each name in the profile; empty if they do not match
    in order.
    """
    recorded = [name for name, value in profile.values.items() if value.histogram is not None]
    expected = [name for name in graph.values if name in _float_names(graph)]
    extra = [name for name in recorded if name not in graph.values]
    missing = [name for name in expected if name not in profile.values]
    theirs = [_form(profile.values[name], profile.samples) for name in extra]
    ours = [
        (graph.values[name].elements, graph.values[name].shape[-1] if graph.values[name].shape else 1)
        for name in missing
    ]
    same = len(theirs) == len(ours) and all(a == c and b in (0, d) for (a, b), (c, d) in zip(theirs, ours, strict=True))
    return dict(zip(extra, missing, strict=True)) if same else {}


def _form(value: ValueProfile, samples: int) -> tuple[int, int]:
    """The numbers of elements and channels of a sample, from the histogram; 0 if unknown."""
    seen = int(value.histogram.counts.sum()) if value.histogram is not None else 0
    return seen // max(samples, 1), len(value.channel_low)


def _told(matched: Mapping[str, str]) -> tuple[Note, ...]:
    if not matched:
        return ()
    pairs = [f"{old!r} is {new!r}" for old, new in matched.items()]
    more = f" and {len(pairs) - 5} more" if len(pairs) > 5 else ""
    return (
        Note("profile-matched", f"the profile is of another export; by order and shape {', '.join(pairs[:5])}{more}"),
    )


def _other_model(profile: Profile, graph: Graph) -> str:
    return f"it is of another model file (sha256 {profile.model_sha256[:12]}, this one is {graph.model_sha256[:12]})"


def _listed(what: str, names: list[str], limit: int = 20) -> str:
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return f" {what.capitalize()}: {', '.join(map(repr, names[:limit]))}{more}." if names else ""


def _is_float(dtype: str) -> bool:
    return dtype == "float32"


def _float_names(graph: Graph) -> set[str]:
    """The names of activations. Weights have their own ranges, so a profile need not contain them."""
    return {n for n, v in graph.values.items() if _is_float(v.dtype) and v.elements and v.const is None} | set(
        _inner_names(graph)
    )


def _activations(graph: Graph, arrays: Mapping[str, Array]) -> Iterable[tuple[str, Array]]:
    for name, value in graph.values.items():
        if value.const is None and value.elements and _is_float(value.dtype):
            yield name, arrays[name]
    for node in graph.nodes:
        if ops()[node.op].inner:
            results = ops()[node.op].float_inner(node.attrs, [arrays[name] for name in node.inputs])
            yield from zip(inner_names(node), results, strict=True)


def inner_names(node: Node) -> list[str]:
    """The names in a profile of the numbers that are recorded inside a node."""
    return [f"{node.outputs[0]}/{name}" for name in ops()[node.op].inner]


def _inner_names(graph: Graph) -> list[str]:
    return [name for node in graph.nodes for name in inner_names(node)]


def with_inner_ranges(graph: Graph, profile: Profile) -> Graph:
    """The graph in which nodes have, as attrs, the ranges of the numbers that the profile recorded inside them."""
    nodes = []
    for node in graph.nodes:
        known = zip(ops()[node.op].inner, inner_names(node), strict=True)
        found = {what: profile.values[name] for what, name in known if name in profile.values}
        nodes.append(replace(node, attrs={**node.attrs, **{what: (v.low, v.high) for what, v in found.items()}}))
    return graph.with_nodes(nodes)


def _constants(graph: Graph) -> dict[str, ValueProfile]:
    arrays = {n: v.const.materialize() for n, v in graph.values.items() if v.const is not None and _is_float(v.dtype)}
    ranges = {name: (as_float32(array.min()), as_float32(array.max())) for name, array in arrays.items() if array.size}
    return {name: ValueProfile(low, high) for name, (low, high) in ranges.items()}


def to_yaml(profile: Profile) -> str:
    """The text of a profile, in a fixed order and with floats that read back to the same bits."""
    document = {
        "format": FORMAT,
        "glowembed": profile.version,
        "model_sha256": profile.model_sha256,
        "samples": profile.samples,
        **({"notes": [{note.code: note.text} for note in profile.notes]} if profile.notes else {}),
        **({"images": profile.images.json()} if profile.images is not None else {}),
        **({"form": profile.form.json()} if profile.form.json() else {}),
        "values": {name: _value_out(value) for name, value in profile.values.items()},
    }
    text: str = yaml.dump(
        document, Dumper=_DUMPER, sort_keys=False, default_flow_style=None, allow_unicode=True, width=110
    )
    return text


_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def _short(x: float) -> float:
    """The shortest decimal that reads back to the same float32."""
    return float(str(np.float32(x)))


def _value_out(value: ValueProfile) -> dict[str, Any]:
    entry: dict[str, Any] = {"range": [_short(value.low), _short(value.high)]}
    if value.histogram is None:
        return {"kind": "constant", **entry}
    entry["channel_min"] = [_short(x) for x in value.channel_low]
    entry["channel_max"] = [_short(x) for x in value.channel_high]
    if value.channel_sum:
        entry["channel_sum"] = [_sum_out(x) for x in value.channel_sum]
    if value.levels:
        entry["levels"] = [_short(x) for x in value.levels]
    entry["bin_width"] = f"2^{value.histogram.exponent}"
    entry["first_bin"] = value.histogram.first
    entry["counts"] = _run_lengths(value.histogram.counts)
    return {"kind": "activation", **entry}


def _sum_out(total: int) -> float | list[float]:
    """A number, or several numbers whose sum it is if it has more bits than a float64."""
    parts = []
    while total:
        part = float(total)
        parts.append(math.ldexp(part, SUM_EXPONENT))
        total -= int(part)
    return parts if len(parts) > 1 else parts[0] if parts else 0.0


def _sum_in(entry: Any) -> int:
    parts = entry if isinstance(entry, list) else [entry]
    if not all(isinstance(x, int | float) and not isinstance(x, bool) and math.isfinite(x) for x in parts):
        raise ValueError(f"channel_sum: {entry!r}")
    total = sum(round(math.ldexp(float(x), -SUM_EXPONENT)) for x in parts)
    if abs(total) > LARGEST_SUM:
        raise ValueError(f"channel_sum: {entry!r:.60} is more than float32 numbers can add up to:")
    return total


def _run_lengths(counts: Counts) -> str:
    """Run lengths such as `5 0x12 3`: a count of 5, twelve bins of 0, a count of 3."""
    runs = ((count, len(list(group))) for count, group in groupby(counts.tolist()))
    return " ".join(f"{count}x{length}" if length > 1 else str(count) for count, length in runs)


def _from_document(document: Any, where: str) -> Profile:
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise UsageError(f"{where}: is not a profile: its first line must be 'format: {FORMAT}'")
    samples, values = document.get("samples"), document.get("values")
    if type(samples) is not int or not 1 <= samples < 2**63 or not isinstance(values, dict):
        raise UsageError(f"{where}: must hold 'samples', a number from 1 to 2**63 - 1, and 'values'")
    notes = document.get("notes", [])
    if not isinstance(notes, list):
        raise UsageError(f"{where}: 'notes' must be a list")
    read = {str(name): _value_in(f"{where}: {name!r}", entry) for name, entry in values.items()}
    version = str(document.get("glowembed"))
    images = ImageOptions.read(document.get("images"), where)
    form = Form.read(document.get("form", {}), where)
    sha256 = str(document.get("model_sha256"))
    return Profile(sha256, samples, read, version, tuple(map(Note.read, notes)), images, form)


def _value_in(where: str, entry: Any) -> ValueProfile:
    try:
        return _parsed(entry)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise UsageError(f"{where}: {error.args[0] if error.args else repr(error)} is missing or wrong") from error


def _read_range(entry: Any) -> tuple[float, float]:
    given = entry["range"]
    try:
        low, high = (_read_float(x) for x in given)
        if low <= high:
            return low, high
    except (TypeError, ValueError):
        pass
    raise ValueError(f"range (found {given}, allowed are two finite numbers, the lower first)")


def _parsed(entry: Any) -> ValueProfile:
    low, high = _read_range(entry)
    if entry["kind"] == "constant":
        return ValueProfile(low, high)
    channel_low = tuple(_read_float(x) for x in entry["channel_min"])
    channel_high = tuple(_read_float(x) for x in entry["channel_max"])
    if len(channel_low) != len(channel_high) or any(a > b for a, b in zip(channel_low, channel_high, strict=True)):
        raise ValueError("channel_min and channel_max: a minimum above its maximum, or of different length:")
    channel_sum = tuple(_sum_in(x) for x in entry.get("channel_sum", ()))
    if len(channel_sum) not in (0, len(channel_low)):
        raise ValueError(f"channel_sum: {len(channel_sum)} sums for {len(channel_low)} channels:")
    levels = tuple(_read_float(x) for x in entry.get("levels", ()))
    if len(levels) > MAX_LEVELS or list(levels) != sorted(set(levels)):
        raise ValueError(f"levels: more than {MAX_LEVELS}, or not ascending:")
    exponent = _read_width(entry["bin_width"])
    histogram = Histogram(exponent, _read_first(entry["first_bin"]), _read_counts(entry["counts"]))
    return ValueProfile(
        low, high, histogram, channel_low, channel_high, channel_sum, levels, _is_edited(low, high, histogram)
    )


def _is_edited(low: float, high: float, histogram: Histogram) -> bool:
    """Whether the range was edited; a recorded range begins in the first bin and ends in the last."""
    last = histogram.first + len(histogram.counts) - 1
    return bin_of(low, histogram.exponent) != histogram.first or bin_of(high, histogram.exponent) != last


def _read_width(text: Any) -> int:
    base, _, exponent = str(text).partition("^")
    if base != "2" or not SMALLEST_EXPONENT <= int(exponent) <= LARGEST_EXPONENT:
        raise ValueError(f"bin_width: {text!r}")
    return int(exponent)


def _read_float(x: Any) -> float:
    if isinstance(x, bool) or not isinstance(x, int | float) or not abs(x) < 1e39 or math.isinf(as_float32(x)):
        raise ValueError(f"the number {x!r}")
    return as_float32(x)


def _read_first(x: Any) -> int:
    """The position of the first bin, which 2**PRECISION_BITS limits in every histogram of float32 numbers."""
    if type(x) is not int or not -(1 << PRECISION_BITS) <= x < 1 << PRECISION_BITS:
        raise ValueError(f"first_bin: {x!r}, not a whole number from -2**{PRECISION_BITS} to 2**{PRECISION_BITS} - 1,")
    return x


def _read_counts(text: Any) -> Counts:
    if not isinstance(text, str | int):
        raise ValueError("counts")
    runs = [tuple(map(int, run.partition("x")[::2])) if "x" in run else (int(run), 1) for run in str(text).split()]
    if any(count < 0 or length < 1 for count, length in runs):
        raise ValueError("counts: a number below 0")
    if not 0 < sum(length for _, length in runs) <= BINS or not any(count for count, _ in runs):
        raise ValueError(f"counts: all 0, or not 1..{BINS} bins:")
    return np.repeat(*map(np.asarray, zip(*runs, strict=True))).astype(np.int64)
