"""`glowembed validate`: compares a bundle on a board with the integer and the float reference."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from glowembed import pipeline
from glowembed.cli import (
    STDOUT,
    BundleDir,
    ClockText,
    Data,
    HtmlFile,
    ImageWords,
    JsonFile,
    ProbeSerial,
    board_of,
    progress_bar,
    refuse_options,
    show,
    source_of,
    takes,
    tell_notes,
    write_json,
)
from glowembed.errors import UsageError, unknown_name
from glowembed.files.output import write_file
from glowembed.graph.clock import clock_of
from glowembed.graph.target import TRANSPORTS, Board, load_board
from glowembed.image.bundles import Bundle, images_of
from glowembed.judge import farm
from glowembed.judge.debugging import losses, seen
from glowembed.judge.limits import FIGURES, require
from glowembed.judge.validation import Validation
from glowembed.judge.validation import validate as run_validation
from glowembed.options.table import CompileOptions
from glowembed.options.words import byte_count, share
from glowembed.ranges.datasets import Source
from glowembed.run.ondevice import Link
from glowembed.show import report
from glowembed.show.page import views

PLACE = 50


def add_to(app: typer.Typer) -> None:
    app.command(epilog="Example:  glowembed validate bundle --board mps2-an386 --data data.npz --json result.json")(
        validate
    )


BoardName = Annotated[str | None, typer.Option("--board", help="A board, or host; by default the target's test board.")]
LabelsKey = Annotated[
    str | None, typer.Option("--labels", metavar="KEY", help="Array of the labels; by default test_y.")
]
SampleCount = Annotated[
    int | None, typer.Option("--samples", metavar="N", min=1, help="Use only N samples, evenly spaced.")
]
WithLayers = Annotated[bool, typer.Option("--layers", help="Also compare and count every layer.")]
Original = Annotated[Path | None, typer.Option("--model", metavar="ONNX", help="The original model, if it has moved.")]
BuildDir = Annotated[
    Path | None, typer.Option("--build-dir", metavar="DIR", help="Build folder; by default BUNDLE.build/BOARD.")
]
FarmFile = Annotated[
    Path | None,
    typer.Option(
        "--boards", metavar="FARM.yaml", help="A list of boards to validate at once, through their serial ports."
    ),
]
TransportName = Annotated[
    str | None,
    typer.Option(
        "--transport",
        metavar="|".join(TRANSPORTS),
        help="How to reach the board; serial: through its UART, real or emulated.",
    ),
]
PortName = Annotated[
    str | None,
    typer.Option(
        "--port",
        metavar="PORT",
        help="Port of the board: /dev/ttyACM0, socket://host:port, rfc2217://host:port, labgrid:PLACE or labgrid:TAG=VALUE.",
    ),
]
BaudRate = Annotated[int | None, typer.Option("--baud", metavar="N", help="Baud rate; by default that of board.toml.")]
FlashFirst = Annotated[bool, typer.Option("--flash", help="Flash the firmware first, with the board's tool.")]
Resume = Annotated[bool, typer.Option("--resume", help="Continue an interrupted serial run.")]


def _limit(option: str, metavar: str, text: str, **more: Any) -> Any:
    return typer.Option(option, metavar=metavar, help=text, rich_help_panel="Limits (exit code 5)", **more)


def _share(option: str, most: float, text: str) -> Any:
    return _limit(option, "SHARE", text, parser=lambda given: share(option, given, most))


def _bytes(option: str, text: str) -> Any:
    return _limit(option, "BYTES", text, parser=lambda given: byte_count(option, given))


MinAccuracy = Annotated[
    float | None, _share("--min-accuracy", 1.0, "Lowest share of samples that are right: 0.9 or 90%.")
]
MaxDrop = Annotated[float | None, _share("--max-drop", math.inf, "Largest loss of accuracy against float: 0.01 or 1%.")]
MaxCycles = Annotated[
    int | None, _limit("--max-cycles", "N", "Largest number of cycles per inference, measured or estimated.", min=0)
]
MaxRam = Annotated[int | None, _bytes("--max-ram", "Largest RAM: arena and stack; 20K is 20480.")]
MaxFlash = Annotated[int | None, _bytes("--max-flash", "Largest flash: weights, code and constants.")]


@takes("random", images=True)
def validate(
    bundle: BundleDir,
    data: Data = None,
    board: BoardName = None,
    labels: LabelsKey = None,
    samples: SampleCount = None,
    layers: WithLayers = False,
    model: Original = None,
    build_dir: BuildDir = None,
    json_file: JsonFile = None,
    boards: FarmFile = None,
    html: HtmlFile = None,
    transport: TransportName = None,
    port: PortName = None,
    baud: BaudRate = None,
    flash: FlashFirst = False,
    resume: Resume = False,
    probe: ProbeSerial = None,
    clock: ClockText = None,
    min_accuracy: MinAccuracy = None,
    max_drop: MaxDrop = None,
    max_cycles: MaxCycles = None,
    max_ram: MaxRam = None,
    max_flash: MaxFlash = None,
    **asked: Any,
) -> None:
    """Build a bundle, run samples on a board, and compare every bit with the integer reference, and both with the float
    model.

    The exit code is 1 if a bit differs, 5 if a limit does not hold. Emulated boards need qemu-system-arm, the host a C
    compiler. A real board must run the firmware of this bundle (`--flash`, `glowembed flash`); `--port` selects it.
    """
    if transport not in (None, *TRANSPORTS):
        raise unknown_name("transport", str(transport), TRANSPORTS)
    words = ImageWords.taken_from(asked)
    random = CompileOptions.from_words(asked).random
    limits = dict(zip(FIGURES, (min_accuracy, max_drop, max_cycles, max_ram, max_flash), strict=True))
    if boards is not None:
        own = {"--board": board, "--port": port, "--baud": baud, "--transport": transport, "--build-dir": build_dir}
        own |= {"--probe": probe}
        own |= {FIGURES[name].option: limit is not None for name, limit in limits.items()}
        refuse_options({**own, "--html": html, "--clock": clock}, f"for one board, and {boards} names several")
        given = {"--samples": samples, "--labels": labels, "--model": model, "--image-mean": words.mean}
        given |= {"--image-std": words.std, "--image-scale": words.scale}
        forwarded = _words(given, {"--layers": layers, "--flash": flash, "--resume": resume})
        _farm(_places(boards, bundle, data), forwarded, json_file)
        return
    opened = pipeline.load_bundle(bundle)
    images = words.options(images_of(opened))
    source, place = source_of(data, random, images, labels=labels), board_of(opened, board)
    link, timed = Link(transport, port, baud, flash, resume, probe=probe), clock is not None or max_cycles is not None
    clock_hz = clock_of(load_board(place), clock)
    with progress_bar() as progress:
        how = (layers, build_dir, progress, model, link, clock_hz, timed)
        result = run_validation(opened, source, place, samples, None, *how)
    tell_notes(words.unused(data))
    write_json(json_file, result.json)
    if html is not None:
        write_file(html, _page(opened, load_board(place), source, model, result))
    _conclude(result, json_file, limits)


def _conclude(result: Validation, json_file: Path | None, limits: Mapping[str, float | None]) -> None:
    """Show the result, and exit with its code."""
    if json_file != STDOUT:
        show(report.validation(result))
    if not result.bit_exact:
        raise typer.Exit(1)
    require(result.json, result.manifest, limits)


def _page(bundle: Bundle, board: Board, source: Source, model: Path | None, result: Validation) -> str:
    """The page of --html: the result, and where accuracy is lost."""
    with progress_bar() as progress:
        lost = losses(bundle, source, progress=progress, model=model)
        values = seen(bundle, source, progress=progress, model=model)
    return views.validation(result, bundle, board, lost, (values, bundle.graph))


def _places(boards: Path, bundle: Path, data: Path | None) -> list[farm.Place]:
    """The boards of a farm file. Raises UsageError without samples for them."""
    if data is None:
        raise UsageError(f"{boards} names several boards: give the samples for all of them with --data PATH")
    return farm.read(boards, bundle, data)


def _words(given: Mapping[str, object], flags: Mapping[str, bool]) -> list[str]:
    """Options as the words of a command line: those that were given, and the flags that are on."""
    words = [word for name, value in given.items() if value is not None for word in (name, str(value))]
    return words + [name for name, on in flags.items() if on]


def _farm(places: list[farm.Place], words: list[str], json_file: Path | None) -> None:
    rows = farm.run(places, words)
    results = [vars(row) for row in rows]
    if json_file is not None:
        write_json(json_file, {"schema": 1, "boards": results})
    if json_file != STDOUT:
        show(report.farm(rows))
    if not all(row.good for row in rows):
        raise typer.Exit(1)
