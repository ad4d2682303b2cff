"""`glowembed try`: answers the first questions about a model with one command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from glowembed import cli
from glowembed.cli import (
    STDOUT,
    ClockText,
    JsonFile,
    Model,
    SchedulerUrl,
    Workers,
    compile_options,
    progress_bar,
    show,
    takes,
    tell_notes,
    write_json,
)
from glowembed.errors import UsageError
from glowembed.files.output import write_file
from glowembed.graph.clock import hertz
from glowembed.graph.cnames import identifier
from glowembed.graph.target import load_board
from glowembed.judge.debugging import losses, seen
from glowembed.judge.trial import SAMPLES, Trial, trial
from glowembed.options.table import OPTIONS, CompileOptions
from glowembed.ranges.datasets import Source
from glowembed.show import trial_view
from glowembed.show.inspection import inspection
from glowembed.show.page import views

PLACE = 5

PageFile = Annotated[
    Path | None, typer.Option("--html", metavar="FILE", help="Where to write the page; by default DIR/report.html.")
]


def add_to(app: typer.Typer) -> None:
    app.command(name="try", epilog="Example:  glowembed try model.onnx data.npz")(try_)


@takes("shapes", "inputs", "outputs", "constants", "random", "input_layout")
def try_(
    model: Model,
    data: Annotated[
        Path | None,
        typer.Argument(
            metavar="DATA",
            help="Samples: .npz, .npy, .csv, .pb, or a folder of .npy, .wav, images or .pb files.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="DIR", help="Folder for bundles and page; by default try/MODEL."),
    ] = None,
    *,
    board: Annotated[
        str | None,
        typer.Option(
            "--board", help="An emulated board; by default one that the model fits, with a Cortex-M4 if possible."
        ),
    ] = None,
    samples: Annotated[
        int, typer.Option("--samples", metavar="N", min=1, help="Test samples to run, evenly spaced.")
    ] = SAMPLES,
    clock: ClockText = None,
    workers: Workers = None,
    scheduler: SchedulerUrl = None,
    html: PageFile = None,
    json_file: JsonFile = None,
    **given: Any,
) -> None:
    """Try a model: show the boards that it fits, bits and accuracy on an emulated board and here, RAM, flash and time.

    It compiles the model for both, writes one page that can be sent to others, and prints the commands for what comes
    next. `--random N` does without samples, and then says nothing about accuracy.
    """
    source = _source(data, CompileOptions.from_words({"random": given.pop("random")}).random)
    options = compile_options(given)
    out = out or Path("try") / identifier(model.stem if model.stem != "model" else model.absolute().parent.name)
    clock_hz = None if clock is None else hertz(clock)
    with progress_bar() as progress, cli.crew(workers, scheduler) as crew:
        found = trial(model, source, out, options, board, samples, clock_hz, progress, crew)
    if found.inspection.unsupported:
        show(inspection(found.inspection))
        raise typer.Exit(3)
    tell_notes(note for note in found.notes if note.level == "note")
    commands, page = _next(found, model, source, _repeated(given)), html or out / "report.html"
    with progress_bar() as progress:
        bundle = found.runs[0].bundle
        lost = losses(bundle, source, progress=progress, model=model)
        values = seen(bundle, source, progress=progress, model=model)
    words = (trial_view.model_text(found), trial_view.verdict(found.runs[0].validation.json))
    place = load_board(found.runs[0].validation.json["board"])
    write_file(page, views.trial(found, *words, commands, place, lost, (values, bundle.graph)))
    write_json(json_file, found.json())
    if json_file != STDOUT:
        show(trial_view.shown(found))
        show("\n  ".join(["\nWhat next:", f"{page}    all of this and more, as one page", *commands]))
    if not found.bit_exact:
        raise typer.Exit(1)


def _source(data: Path | None, random: int | None) -> Source:
    """The samples. A network can be tried without any, but only if the user says so."""
    if (data is None) == (random is None):
        found = "neither" if data is None else "both"
        raise UsageError(f"give samples, `try MODEL DATA`, or random ones, `try MODEL --random 16`; {found} is given")
    return Source(random=random) if data is None else Source(data)


def _repeated(given: Mapping[str, Any]) -> list[str]:
    """The options of `compile` that were given, as words: those that have another value than by default."""
    usual = CompileOptions()
    changed = [(OPTIONS[name], value) for name, value in given.items()]
    changed = [
        (option, value) for option, value in changed if value and value != option.words.written(option.of(usual))
    ]
    return [
        word
        for option, value in changed
        for text in (value if isinstance(value, list) else [value])
        for word in (option.flag, str(text))
    ]


def _next(found: Trial, model: Path, source: Source, options: Sequence[str]) -> list[str]:
    """Commands for the next steps, with the words that were used here."""
    run = found.runs[0]
    bundle, target = run.bundle.path, run.bundle.manifest["target"]
    samples = ("--random", source.random) if source.random is not None else ("--data", source.path)
    board = run.validation.json["board"]
    commands = [
        ("inspect", model, "--target", target, *samples, *options, "--coverage"),
        ("compile", model, *samples, *options, "--target", target, "-o", bundle),
        ("validate", bundle, "--board", board, *samples, "--layers"),
        *([("measure", bundle, "--board", board)] if run.validation.json["transport"] == "qemu" else []),
    ]
    return [cli.typed("glowembed", *words) for words in commands]
