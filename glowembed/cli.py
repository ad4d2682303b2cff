"""What the commands share: options with their help, checks of their values, and the terminal.

In: what typer read from the command line. Out: CompileOptions, PlanOptions, sources of data; tables, text or JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, cast, get_args

import typer
from rich.console import Console
from rich.text import Text

from glowembed.emit.weights import Weights, WeightsPlace
from glowembed.errors import UsageError, unknown_name
from glowembed.files.output import write_file
from glowembed.graph.ir import Shape
from glowembed.graph.notes import Note
from glowembed.graph.plan import Optimize, PlanMode, PlanOptions, Ram
from glowembed.graph.target import default_board, load_board, load_target, target_of
from glowembed.law.fixedpoint import MODES
from glowembed.pipeline import Bundle, CompileOptions
from glowembed.plan.places import IO, Input, Places
from glowembed.progress import Progress, terminal
from glowembed.quantize.calibrate import METHODS
from glowembed.quantize.precision import DTYPES, WEIGHT_DTYPES
from glowembed.quantize.schema import SCHEMAS
from glowembed.ranges.datasets import IMAGE_SCALES, ImageOptions

LAYOUTS = ("model", "nhwc")
MAX_DIMENSION = 2**31 - 1
RAM = re.compile(r"([A-Za-z][A-Za-z0-9_]*)=(.+)")
WEIGHTS_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*\.(?!c$|h$|mk$|txt$|json$)[A-Za-z0-9]+")

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
    str | None,
    typer.Option(
        "--calibration",
        metavar="|".join(METHODS),
        help="How ranges follow from the profile; by default mse for int8, minmax for int16.",
    ),
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
    str,
    typer.Option(
        "--input-layout", metavar="model|nhwc", help="nhwc: the bundle takes inputs in NHWC, without a transpose."
    ),
]
CalibSamples = Annotated[
    int | None, typer.Option("--calib-samples", metavar="N", min=1, help="Use N samples, evenly spaced over the data.")
]
ImageMean = Annotated[
    str | None,
    typer.Option(
        "--image-mean",
        metavar="M[,M,M]",
        help="Images: subtracted after scaling; by default 0, or as recorded in the bundle.",
        rich_help_panel="Images",
    ),
]
ImageStd = Annotated[
    str | None,
    typer.Option(
        "--image-std",
        metavar="S[,S,S]",
        help="Images: divisor after that; by default 1, or as recorded in the bundle.",
        rich_help_panel="Images",
    ),
]
ImageScale = Annotated[
    str | None,
    typer.Option(
        "--image-scale",
        metavar="|".join(IMAGE_SCALES),
        help="Images: range of pixels; by default 0..1, or as recorded in the bundle.",
        rich_help_panel="Images",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines instead of tables.")]


def compile_options(
    shape: list[str] | None = None,
    input_layout: str = "model",
    target: str = "cortex-m4",
    name: str | None = None,
    float_io: bool = False,
    calibration: str | None = None,
    percentile: float = 99.99,
    per_tensor: bool = False,
    precision: Path | None = None,
    require_all_quantized: bool = False,
    plan: PlanOptions = PlanOptions(),  # noqa: B008  frozen
    flash: int | None = None,
) -> CompileOptions:
    """The options of the pipeline. Every name is checked before any work begins."""
    for kind, word, known in (("input layout", input_layout, LAYOUTS), ("calibration", calibration or "mse", METHODS)):
        if word not in known:
            raise unknown_name(kind, word, known)
    load_target(target)
    if not 50 < percentile <= 100:
        raise UsageError(f"--percentile must be above 50 and at most 100, found {percentile}")
    return CompileOptions(
        target=target,
        name=name,
        shapes=named_shapes(shape),
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


def quantization_options(
    options: CompileOptions,
    schema: str | None = None,
    weights_schema: str = "symmetric",
    weights_calibration: str = "minmax",
    requantization: str | None = None,
    bias_correction: str = "on",
    dtype: str | None = None,
    weights_dtype: str | None = None,
) -> CompileOptions:
    """The options with those of the panel "Quantization". Every name is checked."""
    words = (
        ("schema", schema or weights_schema, SCHEMAS),
        ("weights schema", weights_schema, SCHEMAS),
        ("weights calibration", weights_calibration, METHODS),
        ("requantization", requantization or "default", MODES),
        ("bias correction", bias_correction, ("on", "off")),
        ("dtype", dtype or "int8", DTYPES),
        ("dtype of weights", weights_dtype or "int8", WEIGHT_DTYPES),
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
        bias_correction=bias_correction == "on",
        dtype=dtype,
        weights_dtype=weights_dtype,
    )


def place_options(options: CompileOptions, io: str, input_: str, weights: str) -> CompileOptions:
    """The options with the places of inputs and outputs. Every word is checked. Rows need channels-last inputs."""
    for kind, word, known in (("--io", io, get_args(IO)), ("--input", input_, get_args(Input))):
        if word not in known:
            raise unknown_name(kind, word, known)
    places = Places(cast(IO, io), cast(Input, input_))
    options = replace(options, weights=_weights(weights))
    return replace(options, places=places, input_layout="nhwc" if input_ == "rows" else options.input_layout)


def _weights(text: str) -> Weights:
    place, colon, file = text.partition(":")
    if place == "file" and WEIGHTS_NAME.fullmatch(file):
        return Weights("file", file)
    if place not in ("flash", "ram") or colon:
        raise UsageError(f"--weights {text!r}: expected flash, ram or file:NAME, with NAME such as net_weights.bin")
    return Weights(cast(WeightsPlace, place))


def plan_options(
    optimize: str, plan: str, effort: int, ram: str | None, memory: list[str] | None = None
) -> PlanOptions:
    """The options of memory planning. Every name is checked."""
    for kind, word, known in (("optimization", optimize, get_args(Optimize)), ("plan", plan, get_args(PlanMode))):
        if word not in known:
            raise unknown_name(kind, word, known)
    if not 0 <= effort <= 1000:
        raise UsageError(f"--plan-effort must be 0 to 1000, found {effort}")
    mode: PlanMode = "greedy" if plan == "greedy" or effort == 0 else "exact"
    return PlanOptions(mode, effort, cast(Optimize, optimize), byte_count("--ram", ram), rams=_rams(memory or []))


def _rams(texts: list[str]) -> tuple[Ram, ...]:
    found = [RAM.fullmatch(text) for text in texts]
    names = [match[1].lower() for match in found if match is not None]
    if None in found or len(set(names)) < len(names):
        raise UsageError(f"--memory {' '.join(texts)}: expected NAME=BYTES, such as dtcm=64K, each name once")
    return tuple(Ram(m[1], byte_count("--memory", m[2]) or 0) for m in found if m is not None)


def byte_count(option: str, text: str | None) -> int | None:
    """The number of bytes that a text such as 20480, 20K or 1M stands for."""
    if text is None:
        return None
    found = re.fullmatch(r"(\d+)([kKmM]?)[bB]?", text)
    if found is None or int(found[1]) < 1:
        raise UsageError(f"{option} {text!r}: expected a number of bytes, such as 20480 or 20K")
    return int(found[1]) * {"": 1, "k": 1024, "m": 1024 * 1024}[found[2].lower()]


def named_shapes(texts: list[str] | None) -> dict[str, Shape]:
    """The shapes given by --shape, by the name of the input."""
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


def image_options(
    mean: str | None, std: str | None, scale: str | None, recorded: ImageOptions | None = None
) -> ImageOptions:
    """How images become inputs. Every word is checked; `recorded` is used for options that are not given."""
    if scale is not None and scale not in IMAGE_SCALES:
        raise unknown_name("image scale", scale, IMAGE_SCALES)
    recorded = recorded or ImageOptions()
    return ImageOptions(
        scale or recorded.scale,
        recorded.mean if mean is None else _floats("--image-mean", mean),
        recorded.std if std is None else _floats("--image-std", std),
    )


def unused_image_options(data: Path | None, *given: str | None) -> tuple[Note, ...]:
    """A note if options say how to read images but no images are read."""
    if all(text is None for text in given) or (data is not None and data.is_dir()):
        return ()
    return (Note("image-options-unused", f"--image-* have no effect: {data or 'a profile'} is not a folder of images"),)


def _floats(option: str, text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError as error:
        raise UsageError(f"{option} {text!r}: expected a number, or one per channel with commas between") from error


def refuse_options(options: Mapping[str, Any], why: str) -> None:
    """Raise UsageError if one of these options was given, so that no option is ignored silently."""
    given = [name for name, value in options.items() if value]
    if given:
        raise UsageError(f"{' and '.join(given)}: {'is' if len(given) == 1 else 'are'} {why}")


# ---------------------------------------------------------------------------------------------- terminal


def board_of(bundle: Bundle, name: str | None) -> str:
    """The name of an existing board; by default the test board of the bundle's target."""
    return load_board(name).reference if name is not None else default_board(target_of(bundle.manifest).name).reference


def check_firmware(board: str, name: str | None) -> None:
    """Refuse a firmware that cannot be built for the board."""
    if name is not None and name not in load_board(board).firmwares:
        raise unknown_name(f"transport for board {board}", name, load_board(board).firmwares)


@contextmanager
def progress_bar() -> Iterator[Progress]:
    """A progress bar on stderr if stderr is a terminal."""
    with terminal(Console(stderr=True)) as progress:
        yield progress


def tell_notes(notes: Iterable[Note]) -> None:
    """Print notes for the user on stderr, so that stdout can be JSON."""
    for note in notes:
        color = typer.colors.YELLOW if note.level == "warning" else None
        typer.secho(f"{note.level}: {note} [{note.code}]", fg=color, err=True)


PIPED = 160
"""Number of columns of tables that are not printed on a terminal."""


def show(what: Any) -> None:
    """Print text and tables for a person; print anything made of dicts and lists as JSON."""
    if isinstance(what, Mapping | list):
        typer.echo(json.dumps(what, indent=1))
    elif isinstance(what, str | Text):
        typer.echo(str(what))
    else:
        console = Console(highlight=False)
        if not console.is_terminal:
            console.width = max(console.width, PIPED)  # a file or another program wraps nothing by itself
        console.print(what)


def write_json(path: Path | None, result: Mapping[str, Any]) -> None:
    """Write a file completely or not at all; - is the standard output, None writes nothing."""
    if path is None:
        return
    text = json.dumps(result, indent=1) + "\n"
    if path == Path("-"):
        typer.echo(text, nl=False)
    else:
        write_file(path, text)
