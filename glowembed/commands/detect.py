"""`glowembed detect`: evaluates a detector on a recording, and writes it as C."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from glowembed.cli import JsonFile, progress_bar, tell
from glowembed.files.output import write_file
from glowembed.judge import detection
from glowembed.pipeline import load_bundle

PLACE = 65


def add_to(app: typer.Typer) -> None:
    app.command(
        epilog="Example:  glowembed detect kws detector.yaml --data recording.npz --events events.csv -o detector.h"
    )(detect)


def detect(
    bundle: Annotated[Path, typer.Argument(metavar="BUNDLE", help="The folder of the bundle.")],
    detector: Annotated[Path, typer.Argument(metavar="DETECTOR", help="Average, thresholds and pause, as YAML.")],
    data: Annotated[Path, typer.Option("--data", metavar="PATH", help="A recording: samples in their order.")],
    events: Annotated[
        Path | None,
        typer.Option(
            "--events", metavar="FILE", help="Times of the events: begin,end in seconds, one event in each line."
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE", help="The C header to write.")] = None,
    json_file: JsonFile = None,
) -> None:
    """Evaluate a detector on the scores of a bundle: count detections, misses and false alarms per hour.

    A detector takes the mean of some scores; a detection begins where it reaches `begin`, ends where it falls below `end`, and no other one
    begins for `pause` seconds. The header is optional C that decides the same, bit for bit.
    """
    made = load_bundle(bundle)
    read = detection.read(detector, made)
    known = None if events is None else detection.read_events(events)
    with progress_bar() as progress:
        found = detection.judge(read, detection.scores(made, read, data, progress), known)
    if out is not None:
        write_file(out, detection.header(made, read))
    result = {
        "schema": 1,
        "seconds": found.seconds,
        "detections": list(found.times),
        "events": found.events,
        "misses": found.misses,
        "false_alarms": found.false_alarms,
    }
    tell(json_file, result, lambda: _told(found))


def _told(found: detection.Judged) -> str:
    """The counts in words."""
    times = ", ".join(f"{time:.2f}" for time in found.times[:20])
    more = f" and {len(found.times) - 20} more" if len(found.times) > 20 else ""
    count = len(found.times)
    said = f"{count} detections in {found.seconds:.1f} s, {found.per_hour(count):.1f} an hour: {times or 'none'}{more}"
    if found.events is None:
        return said
    alarms = f"{found.false_alarms} false alarms, {found.per_hour(found.false_alarms):.1f} an hour"
    return f"{said}\n{found.misses} of {found.events} events missed; {alarms}"
