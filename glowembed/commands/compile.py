"""`glowembed compile`: compiles a model to a bundle."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from glowembed import cli, pipeline
from glowembed.cli import (
    STDOUT,
    CalibSamples,
    ImageWords,
    JsonFile,
    MaybeData,
    Model,
    Plot,
    SchedulerUrl,
    Workers,
    compile_options,
    progress_bar,
    refuse_options,
    show,
    takes,
    tell,
    tell_notes,
)
from glowembed.errors import UsageError, unknown_name
from glowembed.files.output import write_file
from glowembed.graph.notes import Note
from glowembed.graph.plan import Tradeoff
from glowembed.graph.target import Board
from glowembed.image.bundles import load_bundle
from glowembed.judge.fitting import board_for, needs, too_small, with_flash_of, with_memory_of
from glowembed.pipeline import Bundle, CompileOptions
from glowembed.ranges.datasets import Source
from glowembed.show import report
from glowembed.show.dump import dump as dump_text

PLACE = 30

CURVES = (".svg", ".html")


def add_to(app: typer.Typer) -> None:
    app.command(
        name="compile", epilog="Example:  glowembed compile model.onnx --data data.npz --target cortex-m4 -o bundle"
    )(compile_)


Out = Annotated[Path | None, typer.Option("-o", "--output", metavar="DIR", help="The folder for the bundle.")]

ProfileFile = Annotated[
    Path | None, typer.Option("--profile", metavar="FILE", help="Use a profile instead of samples.")
]

CurveFile = Annotated[
    Path | None,
    typer.Option(
        "--curve",
        metavar="FILE",
        help="Also draw RAM against cycles of other plans, as .svg or .html; it shows useful values for --ram.",
        rich_help_panel="Memory",
    ),
]

Fits = Annotated[
    Path | None,
    typer.Option(
        "--fits",
        metavar="BUNDLE",
        help="Fail unless the weights file fits the program of this bundle: for an update over the air.",
        rich_help_panel="Memory",
    ),
]

BoardName = Annotated[
    str | None,
    typer.Option(
        "--board",
        metavar="NAME",
        help="Warn if the bundle does not fit this board, and say what would help. --optimize speed may use all of its flash.",
        rich_help_panel="Memory",
    ),
]

StopAfter = Annotated[
    str | None, typer.Option("--stop-after", metavar="STAGE", help=f"Stop after one of: {', '.join(pipeline.STAGES)}.")
]

Dump = Annotated[bool, typer.Option("--dump", help="Print the result of the last stage.")]

Verbose = Annotated[
    bool,
    typer.Option(
        "--verbose",
        "-v",
        help="Show every kernel that was considered: cycles, flash, scratch, and why it was not taken.",
    ),
]


class _Stop(Exception):
    """Raised after the stage that --stop-after names."""


@takes(images=True, plot="bias_correction", curve="plan_effort", workers="curve", scheduler="workers")
def compile_(
    model: Model,
    out: Out = None,
    data: MaybeData = None,
    profile: ProfileFile = None,
    *,
    calib_samples: CalibSamples = None,
    stop_after: StopAfter = None,
    dump: Dump = False,
    verbose: Verbose = False,
    json_file: JsonFile = None,
    plot: Plot = None,
    curve: CurveFile = None,
    workers: Workers = None,
    scheduler: SchedulerUrl = None,
    fits: Fits = None,
    board: BoardName = None,
    **given: Any,
) -> None:
    """Compile a model to a bundle: a folder of C99 that can be added to any project.

    Ranges come from calibration samples (`--data`) or from a stored profile (`--profile`). Weights are int8 per
    channel, activations int8 asymmetric, biases int32.
    """
    _check(stop_after, out, dump, curve, {"--workers": workers, "--scheduler": scheduler})
    images = ImageWords.taken_from(given)
    options = compile_options(given)
    if options.random is not None and data is not None:
        raise UsageError("give samples with --data PATH, or random ones with --random N, not both")
    if options.renames and profile is None:
        raise UsageError("--rename names values of a profile: give it, with --profile FILE")
    place = None if board is None else board_for(board, options.target)
    options = options if place is None else with_memory_of(place, options)
    source = None if data is None else Source(data, images=images.options(), limit=calib_samples)

    made: dict[str, Any] = {}
    with suppress(_Stop):
        with progress_bar() as progress:
            watch = _watch(made, stop_after, dump)
            program = None if fits is None else load_bundle(fits)
            make = partial(
                pipeline.compile_model, model, out or Path("unused"), data=source, profile=profile, progress=progress,
                on_stage=watch, fits=program,
            )  # fmt: skip
            bundle = _for_board(place, options, make)
        tell_notes((*bundle.notes, *images.unused(data), *_too_small(place, options, bundle, made)))
        if plot is not None:
            from glowembed.show.page import views

            write_file(plot, views.profile(made["profile"], pipeline.typed_graph(model, made["profile"], options)))
        _tell(bundle, options, verbose, json_file == STDOUT)
        if curve is not None:
            with cli.crew(workers, scheduler) as crew:
                _draw(curve, bundle, pipeline.tradeoffs(made["lower"], options, crew.map), json_file)
        tell(
            json_file,
            bundle.manifest,
            lambda: report.compiled(bundle.manifest, str(bundle.path), bundle.stage_seconds),
        )


def _for_board(board: Board | None, options: CompileOptions, make: Callable[..., Bundle]) -> Bundle:
    """The bundle with the flash of the board as its limit, where that helps; without it, if the network needs more."""
    limited = options if board is None else with_flash_of(board, options)
    if limited != options:
        with suppress(UsageError):
            return make(options=limited)
    return make(options=options)


def _too_small(
    board: Board | None, options: CompileOptions, bundle: Bundle, made: Mapping[str, Any]
) -> tuple[Note, ...]:
    """What is missing on the board. made: what the stages made."""
    if board is None:
        return ()
    found = too_small(made["lower"], options, needs(bundle.graph, made["plan"], options.target), board)
    return () if found is None else (found,)


def _watch(made: dict[str, Any], stop_after: str | None, dump: bool) -> Callable[[str, Any], None]:
    """The callback for each stage: it keeps the result of the stage, and stops where --stop-after says."""

    def on_stage(stage: str, result: Any) -> None:
        made[stage] = result
        if stage == stop_after and stage != "emit":
            if dump:
                show(Text(dump_text(result)))
            raise _Stop

    return on_stage


def _tell(bundle: Bundle, options: CompileOptions, verbose: bool, as_json: bool) -> None:
    for option in options.kernel_options():
        typer.echo(str(report.kernel_option(bundle, option)), err=as_json)
    if verbose and not as_json:
        show(report.considered(bundle))


def _check(
    stop_after: str | None, out: Path | None, dump: bool, curve: Path | None, jobs: Mapping[str, object]
) -> None:
    if curve is None:
        refuse_options(jobs, "for the plans of --curve")
    if stop_after is not None and stop_after not in pipeline.STAGES:
        raise unknown_name("stage", stop_after, pipeline.STAGES)
    if out is None and stop_after in (None, "emit"):
        raise UsageError("name the folder for the bundle: -o DIR")
    if dump and stop_after is None:
        raise UsageError("--dump prints the result of a stage: name the stage with --stop-after STAGE")
    if curve is not None and curve.suffix not in CURVES:
        raise UsageError(f"{curve}: curves are {' or '.join(CURVES)}")


def _draw(curve: Path, bundle: Bundle, points: Sequence[Tradeoff], json_file: Path | None) -> None:
    """Draw RAM against cycles of the other plans. In JSON mode, the table goes to stderr."""
    from glowembed.show import curve_view
    from glowembed.show.page import views

    title = f"{bundle.manifest['name']} on {bundle.manifest['target']}"
    draw = curve_view.svg if curve.suffix == ".svg" else views.curve
    write_file(curve, draw(title, points, Tradeoff.taken(bundle.manifest)))
    typer.echo(curve_view.text(title, points), err=json_file == STDOUT)
