"""The stage `profile`, which determines the ranges of a graph from given samples, random samples, or a stored profile.
In: a float graph, and samples or a Profile.

Out: a Profile, notes about it, and its record in bundle.json.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any

from glowembed.errors import UsageError
from glowembed.graph.ir import Graph
from glowembed.graph.notes import Note
from glowembed.progress import Progress
from glowembed.ranges import datachecks, datasets
from glowembed.ranges.datasets import Data, Dataset, Source
from glowembed.ranges.profile import Profile
from glowembed.ranges.profile import profile as run_profile
from glowembed.ranges.record import ValueProfile
from glowembed.records import dataclass


@dataclass(frozen=True, eq=False)
class NoProfile(Profile):
    """Stands in for the ranges if there are no samples and types come from the model. It records which values would
    have needed a range.
    """

    missing: dict[str, None] = field(default_factory=dict)

    def entry(self, name: str) -> ValueProfile:
        self.missing[name] = None
        return ValueProfile(-1.0, 1.0)


ALONE = (
    "weights of four bits are rounded one by one, because a profile has no samples; "
    "with --data in place of --profile they are more accurate"
)


def samples_of(data: Data | None, random: int | None) -> Data | None:
    """The samples, which are random if --random asks for it."""
    if data is not None and random is not None:
        raise UsageError("give either samples (--data) or random ones (--random N), not both")
    return data if random is None else Source(random=random)


def dataset_of(data: Data, graph: Graph) -> Dataset:
    """The calibration samples of a graph, with notes about anything odd in them."""
    samples = datasets.of_graph(data, graph, "calib")
    return replace(samples, notes=(*samples.notes, *datachecks.calibration(samples)))


def ranges_of(
    graph: Graph, data: Data | None, profile: Profile | None, progress: Progress, renames: Mapping[str, str], few: bool
) -> Profile:
    """The ranges of every value: those of the profile or of the samples, or NoProfile if neither is given. few: whether
    weights may have four bits.
    """
    if profile is not None:
        return profile.fitted(graph, renames)
    if data is None:
        return NoProfile(graph.model_sha256, 0, {})
    dataset = dataset_of(data, graph)
    return replace(run_profile(graph, dataset, progress), dataset=dataset if few else None)


def notes_of(graph: Graph, ranges: Profile, alone: bool) -> tuple[Note, ...]:
    """Notes about what is probably not intended in the ranges. alone: whether weights of four bits have only ranges to go by."""
    if isinstance(ranges, NoProfile):
        return ()
    return (
        *((Note("weights-rounded-alone", ALONE),) if alone and ranges.dataset is None else ()),
        *ranges.notes,
        *datachecks.few(ranges.samples),
        *datachecks.calibration_clips(ranges, graph),
    )


def recorded(graph: Graph, ranges: Profile, notes: tuple[Note, ...]) -> Mapping[str, Any] | None:
    """The manifest's record of where the ranges come from, for comparison by validate; None if the model has its own
    types.
    """
    if isinstance(ranges, NoProfile):
        return None
    return {
        "samples": ranges.samples,
        "images": None if ranges.images is None else ranges.images.json(),
        "inputs": datachecks.statistics(ranges, graph),
        "notes": [note.json() for note in notes],
    }
