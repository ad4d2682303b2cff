"""Judges a detector on a recording. In: a bundle, a detector.yaml, samples, and when events happened. Out: detections, misses, false
alarms, and the C header with the detector's settings.

The scores are those of the integer reference, run by run or hop by hop, so they are those of every board.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any

from glowembed import resources
from glowembed.errors import UsageError, unknown_name
from glowembed.files import documents
from glowembed.graph.cnames import identifier
from glowembed.graph.ir import QType
from glowembed.image.bundles import Bundle, form_of
from glowembed.judge import streaming
from glowembed.judge.validation import samples_for, stored_inputs
from glowembed.law.detector import AVERAGE_MAX, DetectorSettings, beginnings
from glowembed.progress import SILENT, Progress
from glowembed.ranges.datasets import Source
from glowembed.records import dataclass
from glowembed.reference import run_int

SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "required": ["begin"],
    "additionalProperties": False,
    "properties": {
        "output": {"type": "string"},
        "element": {"type": "integer", "minimum": 0},
        "average": {"type": "integer", "minimum": 1, "maximum": AVERAGE_MAX},
        "begin": {"type": "number"},
        "end": {"type": "number"},
        "pause": {"type": "number", "minimum": 0, "maximum": 86400},
        "hop": {"type": "number", "exclusiveMinimum": 0, "maximum": 86400},
        "tolerance": {"type": "number", "minimum": 0, "maximum": 86400},
    },
}

Event = tuple[float, float]


@dataclass(frozen=True)
class Detector:
    """A detector.yaml for a bundle. hop: seconds from score to score. element: of the output, in the order of the bundle."""

    output: str
    element: int
    hop: float
    tolerance: float
    settings: DetectorSettings


@dataclass(frozen=True)
class Judged:
    """Seconds at which detections began, of a recording so long; `events`: how many there were, None if it was not said."""

    seconds: float
    times: tuple[float, ...]
    events: int | None = None
    misses: int = 0
    false_alarms: int = 0

    def per_hour(self, count: int) -> float:
        return 3600 * count / self.seconds


def read(path: Path, bundle: Bundle) -> Detector:
    """The detector of a file. Raises UsageError where it does not fit the bundle."""
    document = documents.read_yaml(path)
    documents.check(document, SCHEMA, str(path))
    kept = {state.output for state in bundle.graph.states}
    outputs = [name for name in bundle.graph.outputs if name not in kept]
    output = document.get("output", outputs[0])
    if output not in outputs:
        raise unknown_name(f"output in {path}:", output, outputs)
    value, element = bundle.graph.values[output], document.get("element", 0)
    if value.qtype is None or value.qtype.dtype not in ("int8", "int16"):
        raise UsageError(
            f"{path}: {output!r} is {value.dtype}, and scores are int8 or int16: compile without --float-io"
        )
    if element >= value.elements:
        raise UsageError(f"{path}: element {element} is none of the {value.elements} of {output!r}")
    hop = document.get("hop", _hop(bundle))
    if hop is None:
        raise UsageError(
            f"{path}: write `hop: SECONDS` from one score to the next; only a stream behind a front end says it"
        )
    on, off = float(document["begin"]), float(document.get("end", document["begin"]))
    if off > on:
        raise UsageError(f"{path}: end {off:g} is above begin {on:g}: a detection would end as it begins")
    pause = round(document.get("pause", 0.0) / hop)
    settings = _settings(value.qtype, document.get("average", 1), on, off, pause)
    return Detector(output, element, hop, float(document.get("tolerance", 0.5)), settings)


def _settings(qtype: QType, average: int, on: float, off: float, pause: int) -> DetectorSettings:
    """Thresholds of the mean of real scores as those of the sum of stored ones."""
    scale, zero = qtype.scale[0], qtype.zero_point[0]
    least, below = (math.ceil(average * (real / scale + zero) - 1e-6) for real in (on, off))
    low, high = qtype.limits
    return DetectorSettings(average, least, below, pause, min(max(zero, low), high))


def _hop(bundle: Bundle) -> float | None:
    """The seconds of a hop, where a front end and a stream tell them."""
    frontend, stream = form_of(bundle).frontend, bundle.graph.stream
    if frontend is None or stream is None:
        return None
    return stream.hop * frontend.step / frontend.sample_rate


def scores(bundle: Bundle, detector: Detector, data: Path | Source, progress: Progress = SILENT) -> list[int]:
    """The stored scores of a recording: of each sample or, of a stream, of each hop with which a window is full."""
    recording = streaming.recording(bundle.graph, samples_for(bundle, data))
    inputs = stored_inputs(bundle.graph, recording.hops)
    found = []
    for index in progress.track(range(len(recording.hops)), "scores"):
        values = run_int(bundle.graph, {name: array[index] for name, array in inputs.items()})
        found.append(int(values[detector.output].reshape(-1)[detector.element]))
    return found[len(recording.hops) - len(recording.windows) :]


def judge(detector: Detector, found: Sequence[int], events: Sequence[Event] | None = None) -> Judged:
    """The detections among these scores, and which of the events they are. A detection belongs to the event in which it begins, or that
    ended at most `tolerance` seconds before; further ones in the same event are no false alarms.
    """
    times = tuple((i + 1) * detector.hop for i in beginnings(detector.settings, found))
    seconds = max(len(found), 1) * detector.hop
    if events is None:
        return Judged(seconds, times)
    inside = [[begin <= time <= end + detector.tolerance for begin, end in events] for time in times]
    hit = [any(column) for column in zip(*inside, strict=True)] if times else [False] * len(events)
    return Judged(seconds, times, len(events), hit.count(False), sum(not any(row) for row in inside))


def read_events(path: Path) -> list[Event]:
    """The events of a .csv with begin and end in seconds, one in a line."""
    found = []
    for number, row in enumerate(csv.reader(documents.read_text(path).splitlines()), 1):
        try:
            begin, end = map(float, row)
        except ValueError as error:
            raise UsageError(
                f"{path}: line {number}: expected begin,end in seconds, found {','.join(row):.60}"
            ) from error
        if not 0 <= begin <= end < math.inf:
            raise UsageError(f"{path}: line {number}: {begin:g} to {end:g} s is no time in a recording")
        found.append((begin, end))
    return found


def header(bundle: Bundle, detector: Detector) -> str:
    """The C text of the detector with its settings, for this bundle."""
    name = identifier(bundle.graph.name)
    text = (resources.runtime_c() / "ge_detector.h").read_text("ascii").removesuffix("#endif\n")
    numbers = ", ".join(map(str, astuple(detector.settings)))
    told = f"/* For element {detector.element} of an output of {name}, every {detector.hop:g} s. */"
    return f"{text}{told}\nstatic const ge_detector_settings {name}_detector = {{{numbers}}};\n\n#endif\n"
