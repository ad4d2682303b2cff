"""What the commands share: options with their help, checks of their values, and the terminal.

In: what typer read from the command line. Out: CompileOptions, PlanOptions, sources of data; tables, text or JSON.
"""

from __future__ import annotations

import inspect
import json
import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from rich.console import Console
from rich.text import Text

from glowembed import resources
from glowembed.errors import UsageError, unknown_name
from glowembed.files.output import write_file
from glowembed.graph.notes import Note
from glowembed.graph.target import default_board, load_board, load_target, target_of
from glowembed.options.option import Option, arranged, table
from glowembed.options.table import CompileOptions
from glowembed.pipeline import Bundle
from glowembed.progress import Progress, terminal
from glowembed.ranges.datasets import IMAGE_SCALES, ImageOptions, Source
from glowembed.records import dataclass

Model = Annotated[Path, typer.Argument(metavar="MODEL", help="The .onnx or .tflite file.", show_default=False)]
BundleDir = Annotated[
    Path, typer.Argument(metavar="BUNDLE", help="The folder that `compile` wrote.", show_default=False)
]
Data = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="PATH",
        help=".npz, .npy, .csv, .pb, or a folder of .npy, .wav, images or .pb files.",
        show_default=False,
    ),
]
Plot = Annotated[
    Path | None,
    typer.Option("--plot", metavar="FILE", help="An HTML page: histograms, chosen ranges, and what they clip."),
]
MaybeData = Annotated[
    Path | None,
    typer.Option("--data", metavar="PATH", help="Calibration samples: .npz (`calib_x`), .npy, .csv, .pb, or a folder."),
]
CalibSamples = Annotated[
    int | None, typer.Option("--calib-samples", metavar="N", min=1, help="Use N samples, evenly spaced over the data.")
]
ClockText = Annotated[
    str | None,
    typer.Option("--clock", metavar="120MHz", help="Clock of the core, for milliseconds; by default the board's."),
]
HtmlFile = Annotated[
    Path | None,
    typer.Option("--html", metavar="FILE", help="Also write the result as one self-contained HTML page."),
]
STDOUT = Path("-")
"""What --json takes for the standard output, on which nothing else is printed then."""
JsonFile = Annotated[
    Path | None,
    typer.Option("--json", metavar="FILE", help="Also write the result as JSON; - prints only that."),
]
ProbeSerial = Annotated[
    str | None,
    typer.Option(
        "--probe", metavar="SERIAL", help="The debug probe to flash with, or the UF2 drive, if there are several."
    ),
]
StoreUrl = Annotated[
    str,
    typer.Option(
        "--store", metavar="URL", help="Where results are kept: a folder, or a URL such as s3://bucket/store."
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers", metavar="N", min=1, help="Do the jobs in N processes of this computer, at the same time."
    ),
]
SchedulerUrl = Annotated[
    str | None,
    typer.Option("--scheduler", metavar="URL", help="The scheduler of a Dask cluster: tcp://host:8786."),
]
Resume = Annotated[
    bool,
    typer.Option("--resume/--again", help="Go on from what is kept, or do all of it again."),
]


Command = TypeVar("Command", bound=Callable[..., None])


def takes(*names: str, images: bool = False, **after: str) -> Callable[[Command], Command]:
    """Give a command these options of `compile`, or all of them if none is named, as keywords.

    `--help` lists them where the command's own parameters have their `*`. images: also give it the options of
    ImageWords. after: the option that `--help` lists before an own parameter, if that is not the previous parameter.
    """

    def decorate(command: Command) -> Command:
        own = inspect.signature(command, eval_str=True).parameters
        listed = table(CompileOptions)
        found = {name: _parameter(listed[name]) for name in names or listed}
        found |= {name: p for name, p in own.items() if p.kind is p.KEYWORD_ONLY}
        found |= IMAGE_PARAMETERS if images else {}
        first = [p for p in own.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
        order = arranged((name, after.get(name, "")) for name in found)
        command.__signature__ = inspect.Signature([*first, *(found[name] for name in order)])  # type: ignore[attr-defined]
        return command

    return decorate


def _parameter(option: Option) -> inspect.Parameter:
    words, default = option.words, option.words.written(option.default)
    told = typer.Option(option.flag, metavar=words.metavar, help=option.help, rich_help_panel=option.panel)
    hint = Annotated[words.type if default is not None else words.type | None, told]  # type: ignore[valid-type]
    return inspect.Parameter(option.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)


def compile_options(given: Mapping[str, Any]) -> CompileOptions:
    """The options given by words of the command line. All are checked before any work begins."""
    options = CompileOptions.from_words(given)
    load_target(options.target)
    if options.plan.effort == 0:
        options = replace(options, plan=replace(options.plan, mode="greedy"))
    if options.places.input == "rows":  # rows need channels-last inputs
        options = replace(options, input_layout="nhwc")
    return options


def _image_parameter(part: str, metavar: str, text: str) -> inspect.Parameter:
    told = typer.Option(f"--image-{part}", metavar=metavar, help=f"Images: {text}", rich_help_panel="Images")
    return inspect.Parameter(
        f"image_{part}", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[str | None, told]
    )


IMAGE_PARAMETERS = {
    p.name: p
    for p in (
        _image_parameter(
            "mean", "M[,M,M]", "mean to subtract after scaling; by default 0, or as recorded in the bundle."
        ),
        _image_parameter("std", "S[,S,S]", "divisor after --image-mean; by default 1, or as recorded in the bundle."),
        _image_parameter(
            "scale", "|".join(IMAGE_SCALES), "range of pixels; by default 0..1, or as recorded in the bundle."
        ),
    )
}


@dataclass(frozen=True)
class ImageWords:
    """The words of --image-mean, --image-std and --image-scale; None for those that were not given."""

    mean: str | None
    std: str | None
    scale: str | None

    @staticmethod
    def taken_from(given: dict[str, Any]) -> ImageWords:
        """Remove these words from the keywords of a command."""
        return ImageWords(*(given.pop(name) for name in IMAGE_PARAMETERS))

    def options(self, recorded: ImageOptions | None = None) -> ImageOptions:
        """How images become inputs. Every word is checked; `recorded` is used for options that are not given."""
        if self.scale is not None and self.scale not in IMAGE_SCALES:
            raise unknown_name("image scale", self.scale, IMAGE_SCALES)
        recorded = recorded or ImageOptions()
        return ImageOptions(
            self.scale or recorded.scale,
            recorded.mean if self.mean is None else _floats("--image-mean", self.mean),
            recorded.std if self.std is None else _floats("--image-std", self.std),
        )

    def unused(self, data: Path | None) -> tuple[Note, ...]:
        """A note if options say how to read images but no images are read."""
        if self == ImageWords(None, None, None) or (data is not None and data.is_dir()):
            return ()
        what = data or "a profile"
        return (Note("image-options-unused", f"--image-* have no effect: {what} is not a folder of images"),)


def source_of(
    data: Path | None,
    random: int | None,
    images: ImageOptions | None = None,
    limit: int | None = None,
    labels: str | None = None,
) -> Source:
    """The samples that --data or --random name. Raises UsageError unless it is one of them."""
    if (data is None) == (random is None):
        found = "neither" if data is None else "both"
        raise UsageError(f"give samples with --data PATH, or random ones with --random N; {found} is given")
    images = images or ImageOptions()
    return Source(random=random) if data is None else Source(data, labels, images, limit)


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


def board_of(bundle: Bundle, name: str | None) -> str:
    """The name of an existing board; by default the test board of the bundle's target."""
    return load_board(name).reference if name is not None else default_board(target_of(bundle.manifest).name).reference


def check_firmware(board: str, name: str | None) -> None:
    """Refuse a firmware that cannot be built for the board."""
    if name is not None and name not in load_board(board).firmwares:
        raise unknown_name(f"transport for board {board}", name, load_board(board).firmwares)


@contextmanager
def crew(workers: int | None, scheduler: str | None) -> Iterator[Executor]:
    """Who does the jobs of a command, as --workers and --scheduler say; see jobs.crew."""
    from glowembed.jobs import crew as jobs  # here, because few commands have jobs
    from glowembed.judge import farm

    with jobs.crew(workers, scheduler, farm.parts_of, lambda text: typer.echo(text, err=True)) as executor:
        yield executor


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


def typed(*words: object) -> str:
    """A command for the user to copy. In a checkout, it runs in the checkout's own environment, whatever the user's is."""
    script = resources.root() / "glow"
    if not script.is_file():
        return shlex.join(map(str, words))
    near = os.path.relpath(script)
    place = str(script) if near.startswith("..") else f"./{near}"
    return shlex.join([place, "run", *map(str, words)])


def tell(json_file: Path | None, result: Any, shown: Callable[[], Any]) -> None:
    """Write the result as JSON where --json asks for it, and show it to people unless that is the standard output."""
    write_json(json_file, result)
    if json_file != STDOUT:
        show(shown())


def write_json(path: Path | None, result: Any) -> None:
    """Write a file completely or not at all; - is the standard output, None writes nothing."""
    if path is None:
        return
    text = json.dumps(result, indent=1) + "\n"
    if path == STDOUT:
        typer.echo(text, nl=False)
    else:
        write_file(path, text)
