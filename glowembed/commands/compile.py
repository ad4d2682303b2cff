"""`glowembed compile`: compiles a model to a bundle."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, get_args

import typer
from rich.text import Text

from glowembed import pipeline
from glowembed.cli import (
    AsJson,
    Calibration,
    CalibSamples,
    ImageMean,
    ImageScale,
    ImageStd,
    InputLayout,
    MaybeData,
    Model,
    Percentile,
    Plot,
    SchemaOption,
    Shapes,
    byte_count,
    compile_options,
    image_options,
    place_options,
    plan_options,
    progress_bar,
    quantization_options,
    show,
    tell_notes,
    unused_image_options,
)
from glowembed.errors import UsageError, unknown_name
from glowembed.files.output import write_file
from glowembed.graph.ir import Graph
from glowembed.graph.plan import Optimize, PlanMode
from glowembed.law.fixedpoint import MODES
from glowembed.pipeline import Bundle, CompileOptions
from glowembed.plan.places import IO, Input
from glowembed.quantize.calibrate import METHODS
from glowembed.quantize.precision import DTYPES, WEIGHT_DTYPES
from glowembed.quantize.schema import SCHEMAS
from glowembed.ranges.datasets import Source
from glowembed.show import curve_view, report

PLACE = 30

CURVES = {".svg": curve_view.svg, ".html": curve_view.html}


def add_to(app: typer.Typer) -> None:
    app.command(
        name="compile", epilog="Example:  glowembed compile model.onnx --data data.npz --target cortex-m4 -o bundle"
    )(compile_)


Out = Annotated[Path | None, typer.Option("-o", "--output", metavar="DIR", help="The folder for the bundle.")]

ProfileFile = Annotated[
    Path | None, typer.Option("--profile", metavar="FILE", help="Use a profile instead of samples.")
]

Renames = Annotated[
    list[str] | None,
    typer.Option(
        "--rename", metavar="OLD=NEW", help="Rename a value of --profile for this export of the model. Repeatable."
    ),
]

TargetName = Annotated[str, typer.Option("--target", help="A name (`glowembed targets` lists them) or FILE.toml.")]

BundleName = Annotated[
    str | None, typer.Option("--name", help="Prefix of C names and files; by default the name of the model's file.")
]

FloatIo = Annotated[bool, typer.Option("--float-io", help="Float inputs and outputs instead of int8.")]

WeightsSchema = Annotated[
    str,
    typer.Option(
        "--weights-schema",
        metavar="|".join(SCHEMAS),
        help="Scale and zero point of weights.",
        rich_help_panel="Quantization",
    ),
]

WeightsCalibration = Annotated[
    str,
    typer.Option(
        "--weights-calibration",
        metavar="|".join(METHODS),
        help="How ranges follow from the weights of a channel.",
        rich_help_panel="Quantization",
    ),
]

Requantization = Annotated[
    str | None,
    typer.Option(
        "--requantization",
        metavar="|".join(MODES),
        help="default: one rounding. onnx: halves to even, as onnxruntime; by default for sums and averages of "
        "quantized models. glow, tflite: the bits of a Glow bundle or of TensorFlow Lite Micro.",
        rich_help_panel="Quantization",
    ),
]

Dtype = Annotated[
    str | None,
    typer.Option(
        "--dtype",
        metavar="|".join(DTYPES),
        help="The type in which all layers compute; by default int8.",
        rich_help_panel="Quantization",
    ),
]

WeightsDtype = Annotated[
    str | None,
    typer.Option(
        "--weights-dtype",
        metavar="|".join(WEIGHT_DTYPES),
        help="Weights of int16 layers: int8, or int16 where the rounding of weights costs accuracy.",
        rich_help_panel="Quantization",
    ),
]

BiasCorrection = Annotated[
    str,
    typer.Option(
        "--bias-correction",
        metavar="on|off",
        help="Subtract the mean error of rounded weights from the bias, where the profile has the means.",
        rich_help_panel="Quantization",
    ),
]

PerTensor = Annotated[bool, typer.Option("--per-tensor", help="Use one weight scale per layer instead of per channel.")]

Isa = Annotated[
    str | None,
    typer.Option(
        "--isa",
        metavar="portable|WORD,...",
        help="Use only these instruction sets of the target; by default all. portable: C99 without assembly, for "
        "any compiler.",
    ),
]

PrecisionFile = Annotated[
    Path | None,
    typer.Option(
        "--precision", metavar="FILE", help="Settings of single layers: int8, int16, float32 and more; see `precision`."
    ),
]

RequireAllQuantized = Annotated[
    bool, typer.Option("--require-all-quantized", help="Fail if nodes stay float32, and list them.")
]

Optimization = Annotated[
    str,
    typer.Option(
        "--optimize",
        metavar="|".join(get_args(Optimize)),
        help="balanced: least RAM and flash for at most 5 % more cycles; ram: least RAM for at most twice the cycles; "
        "speed: fewest cycles; size: least flash, one small kernel for each op.",
        rich_help_panel="Memory",
    ),
]

RamLimit = Annotated[
    str | None,
    typer.Option(
        "--ram",
        metavar="BYTES",
        help="Find the fastest plan within this much RAM, such as 20K.",
        rich_help_panel="Memory",
    ),
]

FlashLimit = Annotated[
    str | None,
    typer.Option(
        "--flash",
        metavar="BYTES",
        help="Find the fastest kernels with this much flash for weights and code.",
        rich_help_panel="Memory",
    ),
]

Winograd = Annotated[
    bool,
    typer.Option(
        "--winograd",
        help="Allow kernels with 3.6 times the flash for 3x3 weights, where they are faster (cortex-m4, m7, m33).",
        rich_help_panel="Memory",
    ),
]

Polynomial = Annotated[
    bool,
    typer.Option(
        "--polynomial",
        help="Allow kernels with twice the flash for 1x1 weights, where they are faster (cortex-m4, m7, m33).",
        rich_help_panel="Memory",
    ),
]

Planning = Annotated[
    str,
    typer.Option(
        "--plan", metavar="|".join(get_args(PlanMode)), help="How offsets are found.", rich_help_panel="Memory"
    ),
]

PlanEffort = Annotated[
    int,
    typer.Option(
        "--plan-effort",
        metavar="N",
        help="How long the solver may search, in its own units of work.",
        rich_help_panel="Memory",
    ),
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

MoreRams = Annotated[
    list[str] | None,
    typer.Option(
        "--memory",
        metavar="NAME=BYTES",
        help="A RAM besides the arena, for the data used most: dtcm=64K. Repeatable, the fastest first.",
        rich_help_panel="Memory",
    ),
]

IoPlace = Annotated[
    str,
    typer.Option(
        "--io",
        metavar="|".join(get_args(IO)),
        help="Place inputs and outputs in the arena, or in buffers of the caller.",
        rich_help_panel="Memory",
    ),
]

InputPlace = Annotated[
    str,
    typer.Option(
        "--input",
        metavar="|".join(get_args(Input)),
        help="rows: a function of the caller hands inputs over row by row, channels last.",
        rich_help_panel="Memory",
    ),
]

WeightsPlace = Annotated[
    str,
    typer.Option(
        "--weights",
        metavar="flash|ram|file:NAME",
        help="Keep constants in flash, copy them to RAM at start, or load them from a file of the bundle.",
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


def compile_(
    model: Model,
    out: Out = None,
    data: MaybeData = None,
    profile: ProfileFile = None,
    rename: Renames = None,
    target: TargetName = "cortex-m4",
    isa: Isa = None,
    name: BundleName = None,
    shape: Shapes = None,
    input_layout: InputLayout = "model",
    float_io: FloatIo = False,
    calibration: Calibration = None,
    percentile: Percentile = 99.99,
    schema: SchemaOption = None,
    weights_schema: WeightsSchema = "symmetric",
    weights_calibration: WeightsCalibration = "minmax",
    requantization: Requantization = None,
    dtype: Dtype = None,
    weights_dtype: WeightsDtype = None,
    bias_correction: BiasCorrection = "on",
    plot: Plot = None,
    per_tensor: PerTensor = False,
    precision: PrecisionFile = None,
    require_all_quantized: RequireAllQuantized = False,
    optimize: Optimization = "balanced",
    ram: RamLimit = None,
    flash: FlashLimit = None,
    winograd: Winograd = False,
    polynomial: Polynomial = False,
    plan: Planning = "exact",
    plan_effort: PlanEffort = 1,
    curve: CurveFile = None,
    memory: MoreRams = None,
    io: IoPlace = "arena",
    input_: InputPlace = "whole",
    weights: WeightsPlace = "flash",
    calib_samples: CalibSamples = None,
    stop_after: StopAfter = None,
    dump: Dump = False,
    image_mean: ImageMean = None,
    image_std: ImageStd = None,
    image_scale: ImageScale = None,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> None:
    """Compile a model to a bundle: a folder of C99 that can be added to any project.

    Ranges come from calibration samples (`--data`) or from a stored profile (`--profile`). Weights are int8 per
    channel, activations int8 asymmetric, biases int32.
    """
    _check(stop_after, out, dump, curve)
    options = compile_options(
        shape,
        input_layout,
        target,
        name,
        float_io,
        calibration,
        percentile,
        per_tensor,
        precision,
        require_all_quantized,
        plan_options(optimize, plan, plan_effort, ram, memory),
        byte_count("--flash", flash),
    )
    options = place_options(options, io, input_, weights)
    options = quantization_options(
        options, schema, weights_schema, weights_calibration, requantization, bias_correction, dtype, weights_dtype
    )
    options = replace(options, winograd=winograd, polynomial=polynomial, isa=isa, renames=_renames(rename, profile))
    images = image_options(image_mean, image_std, image_scale)
    source = None if data is None else Source(data, images=images, limit=calib_samples)

    made: dict[str, Any] = {}
    with suppress(_Stop):
        with progress_bar() as progress:
            watch = _watch(made, stop_after, dump)
            bundle = pipeline.compile_model(model, out or Path("unused"), options, source, profile, progress, watch)
        tell_notes((*bundle.notes, *unused_image_options(data, image_mean, image_std, image_scale)))
        if plot is not None:
            write_file(plot, pipeline.plot_profile(model, made["profile"], options))
        _tell(bundle, options, verbose, as_json)
        if curve is not None:
            _draw(curve, bundle, made["choose"], options, as_json)
        show(bundle.manifest if as_json else report.compiled(bundle.manifest, str(bundle.path), bundle.stage_seconds))


def _renames(texts: list[str] | None, profile: Path | None) -> dict[str, str]:
    if texts and profile is None:
        raise UsageError("--rename names values of a profile: give it, with --profile FILE")
    pairs = [text.partition("=")[::2] for text in texts or []]
    if not all(old and new for old, new in pairs) or len({old for old, _ in pairs}) < len(pairs):
        raise UsageError(f"--rename {' '.join(texts or [])}: expected OLD=NEW, each OLD once")
    return dict(pairs)


def _watch(made: dict[str, Any], stop_after: str | None, dump: bool) -> Callable[[str, Any], None]:
    """The callback for each stage: it keeps the result of the stage, and stops where --stop-after says."""

    def on_stage(stage: str, result: Any) -> None:
        made[stage] = result
        if stage == stop_after and stage != "emit":
            if dump:
                show(Text(report.dump(result)))
            raise _Stop

    return on_stage


def _tell(bundle: Bundle, options: CompileOptions, verbose: bool, as_json: bool) -> None:
    for option in options.kernel_options():
        typer.echo(str(report.kernel_option(bundle, option)), err=as_json)
    if verbose and not as_json:
        show(report.considered(bundle))


def _check(stop_after: str | None, out: Path | None, dump: bool, curve: Path | None) -> None:
    if stop_after is not None and stop_after not in pipeline.STAGES:
        raise unknown_name("stage", stop_after, pipeline.STAGES)
    if out is None and stop_after in (None, "emit"):
        raise UsageError("name the folder for the bundle: -o DIR")
    if dump and stop_after is None:
        raise UsageError("--dump prints the result of a stage: name the stage with --stop-after STAGE")
    if curve is not None and curve.suffix not in CURVES:
        raise UsageError(f"{curve}: curves are {' or '.join(CURVES)}")


def _draw(curve: Path, bundle: Bundle, graph: Graph, options: CompileOptions, as_json: bool) -> None:
    """Draw RAM against cycles of the graph before it was planned. In JSON mode, the table goes to stderr."""
    points, title = pipeline.tradeoffs(graph, options, bundle.choices), f"{bundle.manifest['name']} on {options.target}"
    write_file(curve, CURVES[curve.suffix](title, points))
    typer.echo(curve_view.text(title, points), err=as_json)
