"""`glowembed profile`: records the range of every value over calibration samples in a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from glowembed import pipeline
from glowembed.cli import (
    CalibSamples,
    ImageWords,
    JsonFile,
    MaybeData,
    Model,
    Plot,
    compile_options,
    progress_bar,
    takes,
    tell,
    tell_notes,
)
from glowembed.errors import UsageError
from glowembed.files.output import write_file
from glowembed.graph.notes import Note
from glowembed.ranges.datachecks import few
from glowembed.ranges.datasets import Source
from glowembed.ranges.profile import Profile
from glowembed.show.page import views

PLACE = 20


def add_to(app: typer.Typer) -> None:
    app.command(epilog="Example:  glowembed profile model.onnx --data data.npz -o model.profile.yaml")(profile)


@takes(
    "calibration",
    "percentile",
    "schema",
    "shapes",
    "inputs",
    "outputs",
    "constants",
    "states",
    "frontend",
    "random",
    images=True,
)
def profile(
    model: Model,
    data: MaybeData = None,
    out: Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE", help="The profile to write.")] = None,
    merge: Annotated[
        list[Path] | None,
        typer.Option("--merge", metavar="FILE", help="A profile to merge. Repeatable; --data is then optional."),
    ] = None,
    plot: Plot = None,
    *,
    calib_samples: CalibSamples = None,
    json_file: JsonFile = None,
    **given: Any,
) -> None:
    """Run calibration samples through the float model and record the range of every value.

    The file is for `compile --profile`: profile once where the data is, then compile as often and wherever you like.
    The file is text: if you edit the `range` of a value, the edited range is used. --merge combines profiles of several
    runs, exactly as if all samples had been in one run. --calibration and --schema are used by --plot only.
    """
    if out is None and plot is None and json_file is None:
        raise UsageError("name the file for the profile: -o FILE")
    images = ImageWords.taken_from(given)
    source = None if data is None else Source(data, images=images.options(), limit=calib_samples)
    options = compile_options(given)
    with progress_bar() as progress:
        ranges = pipeline.profile_model(model, source, options, progress, merge or ())
    if out is not None:
        ranges.save(out)
    if plot is not None:
        write_file(plot, views.profile(ranges, pipeline.typed_graph(model, ranges, options)))
    notes = (*ranges.assumed, *ranges.notes, *few(ranges.samples), *images.unused(data))
    tell_notes(notes)
    written = out or plot or json_file
    tell(
        json_file,
        _json(ranges, out, notes),
        lambda: f"{len(ranges.values)} values over {ranges.samples} samples: {written}",
    )


def _json(ranges: Profile, out: Path | None, notes: Sequence[Note]) -> dict[str, Any]:
    """The result for --json: the range of every value, without the histograms, which are in the file."""
    return {
        "schema": 1,
        "file": None if out is None else str(out),
        "samples": ranges.samples,
        "values": [{"name": name, "low": value.low, "high": value.high} for name, value in ranges.values.items()],
        "notes": [note.json() for note in notes],
    }
