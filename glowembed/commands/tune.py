"""`glowembed tune`: finds the smallest set of nodes to lift above int8 that keeps the accuracy."""

from __future__ import annotations

import math
import os
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from glowembed import cli, pipeline
from glowembed.cli import (
    HtmlFile,
    ImageWords,
    JsonFile,
    Resume,
    SchedulerUrl,
    StoreUrl,
    Workers,
    progress_bar,
    source_of,
    takes,
    tell,
    tell_notes,
)
from glowembed.errors import Interrupted, UsageError, ValidationDiffers, unknown_name
from glowembed.files.output import is_special, write_file
from glowembed.graph.target import load_target
from glowembed.image.bundles import form_of, images_of
from glowembed.jobs.store import DEFAULT, Store, open_store
from glowembed.judge import tune
from glowembed.judge.tune import Budget, Task, Tuned
from glowembed.judge.validation import find_model
from glowembed.options.words import byte_count, share
from glowembed.pipeline import CompileOptions
from glowembed.ranges.datachecks import few
from glowembed.ranges.datasets import ImageOptions
from glowembed.show import report
from glowembed.show.page import views

PLACE = 80


def add_to(app: typer.Typer) -> None:
    app.command(
        "tune", epilog="Example:  glowembed tune model.onnx --data data.npz --metric top1 --drop 0.5% -o precision.yaml"
    )(command)


ModelOrBundle = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL",
        help="The float .onnx or .tflite file, or a bundle, whose model, target, shapes and image options are used.",
    ),
]
PrecisionFile = Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="The precision.yaml to write.")]
Samples = Annotated[
    Path | None, typer.Option("--data", metavar="PATH", help="Samples to calibrate and to measure with.")
]
Metric = Annotated[
    str,
    typer.Option("--metric", metavar="top1|rmse|cosine|python:M.F", help="The measure that must not get worse."),
]
AcceptableDrop = Annotated[str, typer.Option("--drop", metavar="P%", help="How much worse than float it may become.")]
TargetName = Annotated[
    str | None, typer.Option("--target", help="Target for the costs; by default cortex-m4, or that of the bundle.")
]
SampleCount = Annotated[int | None, typer.Option("--samples", metavar="N", min=1, help="Measure with N samples.")]
LabelsKey = Annotated[
    str | None, typer.Option("--labels", metavar="KEY", help="Array of the labels; by default test_y.")
]
LargestArena = Annotated[str | None, typer.Option("--ram", metavar="BYTES", help="Largest arena, such as 20K.")]
LargestFlash = Annotated[
    str | None, typer.Option("--flash", metavar="BYTES", help="Largest size of weights and code, such as 64K.")
]
MostCycles = Annotated[
    int | None, typer.Option("--cycles", metavar="N", min=1, help="Largest number of estimated cycles.")
]


@takes("shapes", "inputs", "outputs", "constants", "states", "frontend", "random", images=True)
def command(
    model: ModelOrBundle,
    out: PrecisionFile,
    data: Samples = None,
    metric: Metric = "top1",
    drop: AcceptableDrop = "0.5%",
    target: TargetName = None,
    *,
    samples: SampleCount = None,
    labels: LabelsKey = None,
    ram: LargestArena = None,
    flash: LargestFlash = None,
    cycles: MostCycles = None,
    workers: Workers = None,
    scheduler: SchedulerUrl = None,
    store: StoreUrl = DEFAULT,
    resume: Resume = True,
    html: HtmlFile = None,
    json_file: JsonFile = None,
    **given: Any,
) -> None:
    """Find the nodes that lose accuracy in int8, and lift as few of them as possible to int16 or float32.

    Other calibrations are tried first, because they cost nothing at run time. Then every node is lifted alone once; the
    most useful ones are taken until the metric is within --drop of the float model's. For top1, --drop is a share of
    samples; for rmse and cosine it is relative to the outputs; for your own function (python:module.function, called
    with outputs by name and labels) it is relative to the function's value for the float model. The search can be
    interrupted and later continues where it stopped: what it has tried is in the store. FILE.report.md lists what was
    tried, accuracy against cost.
    """
    if metric not in tune.METRICS and not metric.startswith(tune.PYTHON):
        raise unknown_name("metric", metric, (*tune.METRICS, "python:module.function"))
    sys.path.insert(0, str(Path.cwd()))
    budget = Budget(byte_count("--ram", ram), byte_count("--flash", flash), cycles)
    if is_special(out):
        raise UsageError(f"{out}: the search keeps its report beside this file: name a regular file")
    kept, most = open_store(store, afresh=not resume), share("--drop", drop, math.nextafter(1, 0))
    model, options, recorded = _start(model)
    images = ImageWords.taken_from(given)
    asked = CompileOptions.from_words(given)
    options = _over(options, asked, target)
    source = source_of(data, asked.random, images.options(recorded), labels=labels)
    with tempfile.TemporaryDirectory(prefix="glowembed-tune-") as folder, progress_bar() as progress:
        profile = Path(folder) / "profile.yaml"
        seen = pipeline.profile_model(model, replace(source, labels=None), options, progress)
        seen.save(profile)
        task = Task(model, source, profile, metric, samples, options)
        try:
            with cli.crew(workers or (None if scheduler else os.cpu_count()), scheduler) as executor:
                result = tune.tune(task, most, budget, executor=executor, store=kept, progress=progress)
        except KeyboardInterrupt as stopped:
            raise Interrupted("\n".join(["interrupted", *_kept(kept)])) from stopped
    tell_notes((*seen.assumed, *seen.notes, *few(seen.samples), *images.unused(data)))
    tell(json_file, result.json(), lambda: report.tuned(result))
    _write(out, html, result, model.name)


def _over(options: CompileOptions, asked: CompileOptions, target: str | None) -> CompileOptions:
    """The options of the model with those that the user gave."""
    return replace(
        options,
        target=load_target(target or options.target).name,
        shapes={**options.shapes, **asked.shapes},
        cut=asked.cut.over(options.cut),
        frontend=asked.frontend or options.frontend,
    )


def _start(model: Path) -> tuple[Path, CompileOptions, ImageOptions]:
    """The ONNX file to start from, with the options that a bundle recorded or with the defaults."""
    if not model.is_dir():
        return model, CompileOptions(), ImageOptions()
    bundle = pipeline.load_bundle(model)
    options = replace(form_of(bundle), target=bundle.manifest["target"])
    return find_model(bundle, None), options, images_of(bundle)


def _kept(store: Store) -> list[str]:
    """A sentence that says how to continue, if there is anything to continue with."""
    there = next(store.records(tune.KIND), None) is not None
    return [f"what was tried is in {store.where}: the same command goes on from there"] if there else []


def _write(out: Path, html: Path | None, result: Tuned, model: str) -> None:
    """Write what was tried, and the configuration if there is one that reaches the goal."""
    write_file(out.with_name(out.name + ".report.md"), tune.table(result))
    if html is not None:
        write_file(html, views.tuned(result, model))
    if result.lifted is None:
        raise ValidationDiffers(
            "no set of nodes within the budget reaches the goal; allow more with --drop or the budget"
        )
    write_file(out, result.yaml())
