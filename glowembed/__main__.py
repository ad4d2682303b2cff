"""The command line. In: words. Out: calls of the pipeline, tables or JSON, and an exit code.

0 good, 1 validation differs, 2 bad usage or input, 3 model not supported, 4 tool missing or failed, 130 interrupted,
70 a bug of glowembed. Nothing is decided here: every command is one call, and a report of what it gave.
"""

# ruff: noqa: E402

from __future__ import annotations

import os
import signal
import sys
from types import FrameType


def _leave(number: int, frame: FrameType | None) -> None:
    """Ctrl-C before main() runs, while the libraries are loaded: nothing is under way that could be left half-done."""
    sys.stderr.write("error: interrupted\n")
    sys.stderr.flush()
    os._exit(130)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, _leave)

# Before numpy is loaded. The matrices are small: threads that wait for each other cost ten times what they save, and
# sums of floats would depend on how many there are.
for _library in ("OPENBLAS", "MKL", "OMP"):
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")

import json
import re
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, cast, get_args

import typer
from rich.console import Console
from rich.text import Text

from glowembed import bundleview, commands, farm, memory_view, pipeline, report, resources
from glowembed.calibrate import METHODS
from glowembed.datasets import IMAGE_SCALES, ImageOptions, Source
from glowembed.errors import GlowembedError, UsageError, unknown_name
from glowembed.fixedpoint import MODES
from glowembed.inspection import inspect_model
from glowembed.ir import Shape
from glowembed.measure import noise, shown
from glowembed.page import page
from glowembed.pipeline import Bundle, CompileOptions
from glowembed.plan import Optimize, PlanMode, PlanOptions
from glowembed.precision import resolve as resolve_precision
from glowembed.precision import template as precision_template
from glowembed.profile import Profile
from glowembed.progress import Progress, terminal
from glowembed.run.ondevice import Link
from glowembed.schema import SCHEMAS
from glowembed.target import TRANSPORTS, board_names, default_board, load_board, load_target, target_names
from glowembed.validation import Validation, build_bundle, measure_bundle
from glowembed.validation import validate as run_validation
from glowembed.version import VERSION

BUG = 70
INTERRUPTED = 130
LAYOUTS = ("model", "nhwc")
MAX_DIMENSION = 2**31 - 1

app = typer.Typer(
    name="glowembed",
    help="Compile ONNX models to static int8 C bundles for Cortex-M and x86, and prove every bit of them.",
    epilog="Start with:  glowembed demo      Any error in full:  glowembed --debug COMMAND ...",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

# ---------------------------------------------------------------------------------------------- options

Model = Annotated[Path, typer.Argument(metavar="MODEL", help="The ONNX file.", show_default=False)]
BundleDir = Annotated[
    Path, typer.Argument(metavar="BUNDLE", help="The folder that `compile` wrote.", show_default=False)
]
Data = Annotated[
    Path,
    typer.Option(
        "--data", metavar="PATH", help=".npz, .npy, .pb, or a folder of images or .pb files.", show_default=False
    ),
]
Calibration = Annotated[
    str, typer.Option("--calibration", metavar="|".join(METHODS), help="How ranges come from what was seen.")
]
Percentile = Annotated[float, typer.Option("--percentile", metavar="P", help="Share of values to keep in range.")]
SchemaOption = Annotated[
    str | None,
    typer.Option(
        "--schema",
        metavar="|".join(SCHEMAS),
        help="Scale and zero point of activations; by default asymmetric for int8, symmetric for int16.",
        rich_help_panel="Quantization",
    ),
]
Plot = Annotated[
    Path | None,
    typer.Option("--plot", metavar="FILE", help="An HTML page: histograms, chosen ranges, and what they clip."),
]
MaybeData = Annotated[
    Path | None,
    typer.Option("--data", metavar="PATH", help="Calibration samples: .npz (`calib_x`), .npy, .pb, or a folder."),
]
Shapes = Annotated[
    list[str] | None,
    typer.Option("--shape", metavar="NAME=1,3,64,64", help="Shape of an input that the model leaves open. Repeatable."),
]
InputLayout = Annotated[
    str, typer.Option("--input-layout", metavar="model|nhwc", help="nhwc: the bundle takes NHWC, without a transpose.")
]
CalibSamples = Annotated[
    int | None, typer.Option("--calib-samples", metavar="N", min=1, help="Use N samples, evenly spaced over the data.")
]
ImageMean = Annotated[
    str,
    typer.Option("--image-mean", metavar="M[,M,M]", help="Images: subtracted after scaling.", rich_help_panel="Images"),
]
ImageStd = Annotated[
    str, typer.Option("--image-std", metavar="S[,S,S]", help="Images: divided by after that.", rich_help_panel="Images")
]
ImageScale = Annotated[
    str,
    typer.Option(
        "--image-scale", metavar="|".join(IMAGE_SCALES), help="Images: what pixels become.", rich_help_panel="Images"
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines instead of tables.")]


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"glowembed {VERSION}")
        raise typer.Exit


@app.callback()
def _main(
    debug: Annotated[
        bool, typer.Option("--debug", help="Errors with their traceback; works after a command too.")
    ] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_version)
    ] = False,
) -> None:
    del debug, version  # main() and the callback have taken them


def _options(
    shape: list[str] | None = None,
    input_layout: str = "model",
    target: str = "cortex-m4",
    name: str | None = None,
    float_io: bool = False,
    calibration: str = "minmax",
    percentile: float = 99.99,
    per_tensor: bool = False,
    precision: Path | None = None,
    require_all_quantized: bool = False,
    plan: PlanOptions = PlanOptions(),  # noqa: B008  frozen
    flash: int | None = None,
) -> CompileOptions:
    """Options of the pipeline, every name checked before any work."""
    for kind, word, known in (("input layout", input_layout, LAYOUTS), ("calibration", calibration, METHODS)):
        if word not in known:
            raise unknown_name(kind, word, known)
    load_target(target)
    if not 50 < percentile <= 100:
        raise UsageError(f"--percentile must be above 50 and at most 100, found {percentile}")
    return CompileOptions(
        target=target,
        name=name,
        shapes=_shapes(shape),
        input_layout="nhwc" if input_layout == "nhwc" else "model",
        float_io=float_io,
        calibration=calibration,
        percentile=percentile,
        per_channel=not per_tensor,
        precision=precision,
        require_all_quantized=require_all_quantized,
        plan=plan,
        flash=flash,
    )


def _quantization(
    options: CompileOptions, schema: str | None, weights_schema: str, weights_calibration: str, requantization: str
) -> CompileOptions:
    words = (
        ("schema", schema or weights_schema, SCHEMAS),
        ("weights schema", weights_schema, SCHEMAS),
        ("weights calibration", weights_calibration, METHODS),
        ("requantization", requantization, MODES),
    )
    for kind, word, known in words:
        if word not in known:
            raise unknown_name(kind, word, known)
    return replace(
        options,
        schema=schema,
        weights_schema=weights_schema,
        weights_calibration=weights_calibration,
        requantization=requantization,
    )


def _write_plot(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from error


def _plan_options(optimize: str, plan: str, effort: int, ram: str | None) -> PlanOptions:
    for kind, word, known in (("optimization", optimize, get_args(Optimize)), ("plan", plan, get_args(PlanMode))):
        if word not in known:
            raise unknown_name(kind, word, known)
    if not 0 <= effort <= 1000:
        raise UsageError(f"--plan-effort must be 0 to 1000, found {effort}")
    mode: PlanMode = "greedy" if plan == "greedy" or effort == 0 else "exact"
    return PlanOptions(mode, effort, cast(Optimize, optimize), _bytes("--ram", ram))


def _bytes(option: str, text: str | None) -> int | None:
    """20480, 20K or 1M as a number."""
    if text is None:
        return None
    found = re.fullmatch(r"(\d+)([kKmM]?)[bB]?", text)
    if found is None or int(found[1]) < 1:
        raise UsageError(f"{option} {text!r}: expected a number of bytes, such as 20480 or 20K")
    return int(found[1]) * {"": 1, "k": 1024, "m": 1024 * 1024}[found[2].lower()]


def _shapes(texts: list[str] | None) -> dict[str, Shape]:
    return dict(_shape(text) for text in texts or [])


def _shape(text: str) -> tuple[str, Shape]:
    name, _, dims = text.rpartition("=")
    try:
        shape = tuple(int(dim) for dim in dims.split(","))
    except ValueError:
        shape = ()
    if not name or not shape or not all(1 <= dim <= MAX_DIMENSION for dim in shape):
        raise UsageError(f"--shape {text!r}: expected NAME=1,3,64,64 with whole numbers from 1")
    return name, shape


def _images(mean: str, std: str, scale: str) -> ImageOptions:
    if scale not in IMAGE_SCALES:
        raise unknown_name("image scale", scale, IMAGE_SCALES)
    return ImageOptions(scale, _floats("--image-mean", mean), _floats("--image-std", std))


def _floats(option: str, text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError as error:
        raise UsageError(f"{option} {text!r}: expected a number, or one per channel with commas between") from error


# ---------------------------------------------------------------------------------------------- commands


@app.command(epilog="Example:  glowembed inspect model.onnx --target cortex-m4")
def inspect(
    model: Model,
    target: Annotated[
        str | None, typer.Option("--target", help="Also tell which boards of this target it fits.")
    ] = None,
    shape: Shapes = None,
    input_layout: InputLayout = "model",
    quantization: Annotated[
        bool,
        typer.Option("--quantization", help="MODEL is a bundle: types, multipliers, shifts and biases of its nodes."),
    ] = False,
    graph: Annotated[
        Path | None,
        typer.Option("--graph", metavar="FILE", help="MODEL is a bundle: draw it with types, .dot or .svg."),
    ] = None,
    memory: Annotated[
        bool, typer.Option("--memory", help="MODEL is a bundle: what is in its RAM, step by step.")
    ] = False,
    memory_map: Annotated[
        Path | None,
        typer.Option("--memory-map", metavar="FILE", help="MODEL is a bundle: draw its RAM by time, .svg or .html."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Look at a model before anything is compiled: inputs, outputs, layers, MACs, estimated RAM and flash.

    Everything that is not supported is listed at once, with what to do about it; the exit code is then 3.
    With --quantization or --graph it looks into a compiled bundle instead.
    """
    if memory or memory_map is not None:
        _inspect_memory(pipeline.load_bundle(model), memory, memory_map)
        return
    if quantization or graph is not None:
        _inspect_bundle(pipeline.load_bundle(model), quantization, graph, as_json)
        return
    options = _options(shape, input_layout)
    found = inspect_model(model, options.shapes, target, "nhwc" if input_layout == "nhwc" else "model")
    _show(found.json() if as_json else report.inspection(found))
    if found.unsupported:
        raise typer.Exit(3)


def _inspect_memory(bundle: Bundle, table: bool, drawing: Path | None) -> None:
    shown = memory_view.view(bundle.manifest)
    if drawing is not None:
        draw = {".svg": memory_view.svg, ".html": memory_view.html}.get(drawing.suffix)
        if draw is None:
            raise UsageError(f"{drawing}: drawings of memory are .svg or .html")
        drawing.write_text(draw(shown), encoding="utf-8")
    if table:
        typer.echo(memory_view.text(shown))


def _inspect_bundle(bundle: Bundle, quantization: bool, graph: Path | None, as_json: bool) -> None:
    if graph is not None:
        bundleview.draw(bundle, graph)
    if quantization:
        _show(bundleview.as_json(bundle) if as_json else report.quantization(bundle))


@app.command(epilog="Example:  glowembed profile model.onnx --data data.npz -o model.profile.yaml")
def profile(
    model: Model,
    data: MaybeData = None,
    out: Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE", help="The profile to write.")] = None,
    merge: Annotated[
        list[Path] | None,
        typer.Option("--merge", metavar="FILE", help="Add what this profile saw. Repeatable; --data is then optional."),
    ] = None,
    plot: Plot = None,
    calibration: Calibration = "minmax",
    percentile: Percentile = 99.99,
    schema: SchemaOption = None,
    shape: Shapes = None,
    calib_samples: CalibSamples = None,
    image_mean: ImageMean = "0",
    image_std: ImageStd = "1",
    image_scale: ImageScale = "0..1",
) -> None:
    """Run calibration samples through the float model and record the range of every value.

    The file is for `compile --profile`: profile once where the data is, compile as often and wherever you like.
    It is text: change the `range` of a value by hand, and that is what will be represented. Profiles of several runs
    become one with --merge, exactly as if all samples had been in one run. --calibration and --schema are for --plot.
    """
    if out is None and plot is None:
        raise UsageError("say where the profile goes: -o FILE")
    images = _images(image_mean, image_std, image_scale)
    source = None if data is None else Source(data, images=images, limit=calib_samples)
    options = _quantization(
        _options(shape, calibration=calibration, percentile=percentile), schema, "symmetric", "minmax", "default"
    )
    with _progress() as progress:
        ranges = pipeline.profile_model(model, source, options, progress, merge or ())
    if out is not None:
        ranges.save(out)
    if plot is not None:
        _write_plot(plot, pipeline.plot_profile(model, ranges, options))
    _notes(ranges)
    _show(f"{len(ranges.values)} values over {ranges.samples} samples: {out or plot}")


class _Stop(Exception):
    """Raised after the stage of --stop-after."""


@app.command(
    name="compile", epilog="Example:  glowembed compile model.onnx --data data.npz --target cortex-m4 -o bundle"
)
def compile_(
    model: Model,
    out: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="DIR", help="The folder for the bundle.")
    ] = None,
    data: MaybeData = None,
    profile: Annotated[
        Path | None, typer.Option("--profile", metavar="FILE", help="A profile instead of samples.")
    ] = None,
    target: Annotated[str, typer.Option("--target", help="`glowembed targets` lists them.")] = "cortex-m4",
    name: Annotated[
        str | None, typer.Option("--name", help="Prefix of C names and files; by default the name of the graph.")
    ] = None,
    shape: Shapes = None,
    input_layout: InputLayout = "model",
    float_io: Annotated[bool, typer.Option("--float-io", help="Float inputs and outputs instead of int8.")] = False,
    calibration: Calibration = "minmax",
    percentile: Percentile = 99.99,
    schema: SchemaOption = None,
    weights_schema: Annotated[
        str,
        typer.Option(
            "--weights-schema",
            metavar="|".join(SCHEMAS),
            help="The same for weights.",
            rich_help_panel="Quantization",
        ),
    ] = "symmetric",
    weights_calibration: Annotated[
        str,
        typer.Option(
            "--weights-calibration",
            metavar="|".join(METHODS),
            help="How ranges come from the weights of a channel.",
            rich_help_panel="Quantization",
        ),
    ] = "minmax",
    requantization: Annotated[
        str,
        typer.Option(
            "--requantization",
            metavar="|".join(MODES),
            help="default: one rounding. glow, tflite: the bits of a Glow bundle, of TensorFlow Lite Micro.",
            rich_help_panel="Quantization",
        ),
    ] = "default",
    plot: Plot = None,
    per_tensor: Annotated[
        bool, typer.Option("--per-tensor", help="One weight scale per layer, not per channel.")
    ] = False,
    precision: Annotated[
        Path | None,
        typer.Option(
            "--precision", metavar="FILE", help="Layer by layer: int8, int16, float32 and more; see `precision`."
        ),
    ] = None,
    require_all_quantized: Annotated[
        bool, typer.Option("--require-all-quantized", help="Fail, with a list, where a node stays float32.")
    ] = False,
    optimize: Annotated[
        str,
        typer.Option(
            "--optimize",
            metavar="|".join(get_args(Optimize)),
            help="balanced: least RAM for at most 5 % more cycles; ram: for at most twice; speed: no row by row.",
            rich_help_panel="Memory",
        ),
    ] = "balanced",
    ram: Annotated[
        str | None,
        typer.Option(
            "--ram", metavar="BYTES", help="The fastest within so much RAM, as 20K.", rich_help_panel="Memory"
        ),
    ] = None,
    flash: Annotated[
        str | None,
        typer.Option("--flash", metavar="BYTES", help="Fail if weights and code need more.", rich_help_panel="Memory"),
    ] = None,
    plan: Annotated[
        str,
        typer.Option(
            "--plan", metavar="|".join(get_args(PlanMode)), help="How offsets are found.", rich_help_panel="Memory"
        ),
    ] = "exact",
    plan_effort: Annotated[
        int,
        typer.Option("--plan-effort", metavar="N", help="How long the solver may try.", rich_help_panel="Memory"),
    ] = 1,
    calib_samples: CalibSamples = None,
    stop_after: Annotated[
        str | None, typer.Option("--stop-after", metavar="STAGE", help=f"Stop there: {', '.join(pipeline.STAGES)}.")
    ] = None,
    dump: Annotated[bool, typer.Option("--dump", help="Print what the last stage made.")] = False,
    image_mean: ImageMean = "0",
    image_std: ImageStd = "1",
    image_scale: ImageScale = "0..1",
    as_json: AsJson = False,
) -> None:
    """Compile a model to a bundle: a folder of C99 that drops into any project.

    Ranges come from calibration samples (`--data`) or from a stored profile (`--profile`). Weights are int8 per channel,
    activations int8 asymmetric, biases int32.
    """
    if stop_after is not None and stop_after not in pipeline.STAGES:
        raise unknown_name("stage", stop_after, pipeline.STAGES)
    if out is None and stop_after in (None, "emit"):
        raise UsageError("say where the bundle goes: -o DIR")
    if dump and stop_after is None:
        raise UsageError("--dump prints what a stage made: say which, with --stop-after STAGE")
    options = _options(
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
        _plan_options(optimize, plan, plan_effort, ram),
        _bytes("--flash", flash),
    )
    options = _quantization(options, schema, weights_schema, weights_calibration, requantization)
    images = _images(image_mean, image_std, image_scale)
    source = None if data is None else Source(data, images=images, limit=calib_samples)

    seen: list[Profile] = []

    def on_stage(stage: str, result: Any) -> None:
        if isinstance(result, Profile):
            seen.append(result)
        if stage == stop_after and stage != "emit":
            if dump:
                _show(Text(report.dump(result)))
            raise _Stop

    try:
        with _progress() as progress:
            bundle = pipeline.compile_model(model, out or Path("unused"), options, source, profile, progress, on_stage)
    except _Stop:
        return
    _notes(*seen)
    if plot is not None:
        _write_plot(plot, pipeline.plot_profile(model, seen[0], options))
    _show(bundle.manifest if as_json else report.compiled(bundle.manifest, str(bundle.path), bundle.stage_seconds))


@app.command(epilog="Example:  glowembed precision model.onnx --template > precision.yaml")
def precision(
    model: Model,
    check: Annotated[
        Path | None,
        typer.Option("--check", metavar="FILE", help="A precision.yaml: check it, and print what it gives."),
    ] = None,
    template: Annotated[
        bool, typer.Option("--template", help="Print a precision.yaml for this model to start from.")
    ] = False,
    target: Annotated[str, typer.Option("--target", help="The target that must be able to do it.")] = "cortex-m4",
    shape: Shapes = None,
    input_layout: InputLayout = "model",
    as_json: AsJson = False,
) -> None:
    """Print how each node of a model is computed: its dtype, schema, calibration, and the rule that says so.

    A precision.yaml holds `defaults:` and `rules:`. A rule matches nodes by `name` (a glob), `op` or `position` (first,
    last), or values by `value`, and sets what `--template` lists. Later rules win. Give it to `compile --precision`.
    """
    options = _options(shape, input_layout, target, precision=check)
    graph = pipeline.import_model(model, options)
    if template:
        typer.echo(precision_template(graph), nl=False)
        return
    resolved = resolve_precision(graph, options.config())
    nodes = {name: {**settings.json(), "rules": dict(settings.rules)} for name, settings in resolved.nodes.items()}
    values = {name: vars(fixed) for name, fixed in resolved.values.items()}
    _show({"schema": 1, "nodes": nodes, "values": values} if as_json else report.precision(graph, resolved))


@app.command(epilog="Example:  glowembed build bundle --board mps2-an386")
def build(
    bundle: BundleDir,
    board: Annotated[
        str | None, typer.Option("--board", help="By default the test board of the bundle's target.")
    ] = None,
    build_dir: Annotated[
        Path | None, typer.Option("--build-dir", metavar="DIR", help="By default BUNDLE.build/BOARD.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Build a bundle with the test harness into a firmware for a board, and tell what it needs of each memory."""
    opened = pipeline.load_bundle(bundle)
    place = _board(opened, board)
    with _progress() as progress, progress.stage("build"):
        image = build_bundle(opened, place, build_dir)
    keys = ("code", "rodata", "data", "bss", "weights", "stack")
    sizes = {"schema": 1, "board": place, "elf": str(image.elf), **{key: getattr(image, key) for key in keys}}
    _show(sizes if as_json else report.built(image))


@app.command(epilog="Example:  glowembed validate bundle --board mps2-an386 --data data.npz --json result.json")
def validate(
    bundle: BundleDir,
    data: Data,
    board: Annotated[
        str | None, typer.Option("--board", help="A board, or host; by default the target's test board.")
    ] = None,
    labels: Annotated[
        str | None, typer.Option("--labels", metavar="KEY", help="Array of the labels; test_y where it is not given.")
    ] = None,
    samples: Annotated[
        int | None, typer.Option("--samples", metavar="N", min=1, help="Only N samples, evenly spaced.")
    ] = None,
    layers: Annotated[bool, typer.Option("--layers", help="Also compare and count every layer.")] = False,
    model: Annotated[
        Path | None, typer.Option("--model", metavar="ONNX", help="The original model, if it has moved.")
    ] = None,
    build_dir: Annotated[
        Path | None, typer.Option("--build-dir", metavar="DIR", help="By default BUNDLE.build/BOARD.")
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Also write the result as JSON; - prints only that.")
    ] = None,
    boards: Annotated[
        Path | None,
        typer.Option("--boards", metavar="FARM.yaml", help="Many boards at once, through their serial ports."),
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Also write one self-contained page with pictures.")
    ] = None,
    transport: Annotated[
        str | None,
        typer.Option(
            "--transport", metavar="|".join(TRANSPORTS), help="serial: through the board's UART, real or emulated."
        ),
    ] = None,
    port: Annotated[
        str | None, typer.Option("--port", metavar="PORT", help="Where the board is: /dev/ttyACM0, socket://host:port.")
    ] = None,
    baud: Annotated[int | None, typer.Option("--baud", metavar="N", help="By default that of board.toml.")] = None,
    flash: Annotated[bool, typer.Option("--flash", help="Flash the firmware first, with the board's tool.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a serial run that was broken off.")] = False,
    image_mean: ImageMean = "0",
    image_std: ImageStd = "1",
    image_scale: ImageScale = "0..1",
) -> None:
    """Build a bundle, run samples on a board, and compare: every bit with the integer reference, and both with float.

    Exit code 1 says that a bit differs. Emulated boards need qemu-system-arm; the host needs a C compiler. A real board
    runs the firmware of this very bundle (`--flash`, `glowembed flash`) and is named by its `--port`.
    """
    if transport is not None and transport not in TRANSPORTS:
        raise unknown_name("transport", transport, TRANSPORTS)
    if boards is not None:
        words = ["--samples", str(samples)] if samples is not None else []
        _farm(farm.read(boards, bundle, data), words + (["--labels", labels] if labels is not None else []), json_file)
        return
    opened = pipeline.load_bundle(bundle)
    source = Source(data, labels, _images(image_mean, image_std, image_scale))
    with _progress() as progress:
        result = run_validation(
            opened,
            source,
            _board(opened, board),
            samples,
            layers=layers,
            build_dir=build_dir,
            progress=progress,
            model=model,
            link=Link(transport, port, baud, flash, resume),
        )
    _write_json(json_file, result.json)
    if html is not None:
        html.write_text(page(result), encoding="utf-8")
    if json_file != Path("-"):
        _show(report.validation(result))
    if not result.bit_exact:
        raise typer.Exit(1)


def _farm(places: list[farm.Place], words: list[str], json_file: Path | None) -> None:
    rows = farm.run(places, words)
    results = [vars(row) for row in rows]
    if json_file is not None:
        _write_json(json_file, {"schema": 1, "boards": results})
    if json_file != Path("-"):
        _show(report.farm(rows))
    if not all(row.good for row in rows):
        raise typer.Exit(1)


@app.command(epilog="Example:  glowembed measure bundle --hot 3")
def measure(
    bundle: BundleDir,
    board: Annotated[
        str | None, typer.Option("--board", help="An emulated board; by default the target's test board.")
    ] = None,
    hot: Annotated[
        int, typer.Option("--hot", metavar="N", min=0, help="Also show the N costliest stretches of machine code.")
    ] = 0,
    samples: Annotated[
        int, typer.Option("--samples", metavar="N", min=1, help="Random inputs to run; the costliest is told.")
    ] = 1,
    build_dir: Annotated[
        Path | None, typer.Option("--build-dir", metavar="DIR", help="By default BUNDLE.build/BOARD.")
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Also write the result as JSON; - prints only that.")
    ] = None,
) -> None:
    """Count the instructions of every layer and function exactly, and estimate their cycles, without hardware.

    Needs QEMU, and a C compiler (cc) for the plugin that counts; without one there are instructions only. Cycles are those
    of the core with memories that never wait: docs/measuring.md says how far to trust them.
    """
    opened = pipeline.load_bundle(bundle)
    with _progress() as progress:
        with progress.stage("build"):
            image = build_bundle(opened, _board(opened, board), build_dir)
        with progress.stage("measure"):
            found = measure_bundle(opened, image, noise(opened.manifest, samples), hot)
    _write_json(json_file, found.json())
    if json_file != Path("-"):
        _show(shown(found))


@app.command(epilog="Example:  glowembed demo")
def demo(
    out: Annotated[Path, typer.Option("-o", "--output", metavar="DIR", help="Where the bundles go.")] = Path(
        "build/demo"
    ),
    boards: Annotated[
        list[str] | None, typer.Option("--board", help="Boards to run on. Repeatable.", show_default="mps2-an386, host")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compile the carried example (handwritten digits), run it on an emulated Cortex-M4 and on this computer, compare.

    It takes some seconds, and shows all that glowembed does: compile, build, run, prove.
    """
    results = [_demo_on(board, out, quiet=as_json) for board in boards or ["mps2-an386", "host"]]
    if as_json:
        _show([result.json for result in results])
    else:
        _demo_summary([result.json for result in results], out)
    if not all(result.bit_exact for result in results):
        raise typer.Exit(1)


def _demo_on(board: str, out: Path, quiet: bool) -> Validation:
    """Compile the example for the target of a board, and validate it there."""
    example, target = resources.root() / "examples" / "digits", load_board(board).target
    folder = out / target
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _progress() as progress:
        bundle = pipeline.compile_model(
            example / "model.onnx",
            folder,
            CompileOptions(target, name="digits"),
            example / "data.npz",
            progress=progress,
        )
        if not quiet:
            _show(f"compiled for {target} in {sum(bundle.stage_seconds.values()):.1f} s; running on {board} ...")
        return run_validation(bundle, example / "data.npz", board, progress=progress)


def _demo_summary(results: list[Mapping[str, Any]], out: Path) -> None:
    samples = results[0]["samples"]
    _show(report.summary(results))
    _show(
        f"{samples} images of handwritten digits that training never saw, each compared with\n"
        f"the float model in onnxruntime and, bit for bit, with the integer reference.\n\n"
        f"What next:\n"
        f"  {out}/cortex-m4/digits.h    the bundle: read the header, it is the manual\n"
        f"  glowembed inspect YOUR.onnx\n"
        f"  glowembed compile YOUR.onnx --data YOUR.npz -o bundle\n"
        f"  glowembed validate bundle --data YOUR.npz"
    )


@app.command()
def targets(as_json: AsJson = False) -> None:
    """List the targets: what to give to `--target`."""
    entries = [load_target(name) for name in target_names()]
    machine = [{"name": t.name, "description": t.description, "isa": list(t.isa)} for t in entries]
    _show(machine if as_json else report.targets(entries))


@app.command()
def boards(as_json: AsJson = False) -> None:
    """List the boards: what to give to `--board`."""
    entries = [load_board(name) for name in board_names()]
    machine = [{"name": b.name, "target": b.target, "description": b.description} for b in entries]
    _show(machine if as_json else report.boards(entries))


commands.add_all(app)

# ---------------------------------------------------------------------------------------------- terminal


def _board(bundle: Bundle, name: str | None) -> str:
    return load_board(name).name if name is not None else default_board(bundle.manifest["target"]).name


@contextmanager
def _progress() -> Iterator[Progress]:
    with terminal(Console(stderr=True)) as progress:
        yield progress


def _notes(*profiles: Profile) -> None:
    """What was done to the data, on stderr, so that JSON stays JSON."""
    for note in (note for profile in profiles for note in profile.notes):
        typer.echo(f"note: {note}", err=True)


def _show(what: Any) -> None:
    """Text and tables for a person; anything made of dicts and lists as JSON."""
    if isinstance(what, Mapping | list):
        typer.echo(json.dumps(what, indent=1))
    elif isinstance(what, str | Text):
        typer.echo(str(what))
    else:
        Console(highlight=False).print(what)


def _write_json(path: Path | None, result: Mapping[str, Any]) -> None:
    if path is None:
        return
    text = json.dumps(result, indent=1) + "\n"
    if path == Path("-"):
        typer.echo(text, nl=False)
        return
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)


def main(words: list[str] | None = None) -> int:
    """Run a command. An error that a user can mend is one message on stderr."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    words = list(sys.argv[1:] if words is None else words)
    debug = "--debug" in words
    try:
        app([word for word in words if word != "--debug"], prog_name="glowembed")
    except SystemExit as exit_:
        return _failed("interrupted", INTERRUPTED, False) if _code(exit_) == INTERRUPTED else _code(exit_)
    except KeyboardInterrupt:
        return _failed("interrupted", INTERRUPTED, debug)
    except GlowembedError as error:
        return _failed(str(error), error.exit_code, debug)
    except OSError as error:
        return _failed(f"{error.filename or 'a file'}: {error.strerror or error}", 2, debug)
    except Exception:
        traceback.print_exc()
        return _failed("this is a bug of glowembed; please report it with the lines above", BUG, False)
    return 0


def _code(exit_: SystemExit) -> int:
    return exit_.code if isinstance(exit_.code, int) else int(exit_.code is not None)


def _failed(message: str, code: int, debug: bool) -> int:
    if debug:
        traceback.print_exc()
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    console.print(Text.assemble(("error: ", "bold red"), message.rstrip()))
    return code


if __name__ == "__main__":
    sys.exit(main())
