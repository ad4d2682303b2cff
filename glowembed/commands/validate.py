"""`glowembed validate`: compares a bundle on a board with the integer and the float reference."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from glowembed import pipeline
from glowembed.cli import (
    BundleDir,
    Data,
    ImageMean,
    ImageScale,
    ImageStd,
    board_of,
    image_options,
    progress_bar,
    refuse_options,
    show,
    source_of,
    takes,
    tell_notes,
    unused_image_options,
    write_json,
)
from glowembed.errors import UsageError, unknown_name
from glowembed.files.output import write_file
from glowembed.graph.target import TRANSPORTS
from glowembed.judge import farm
from glowembed.judge.debugging import losses, seen
from glowembed.judge.validation import validate as run_validation
from glowembed.options.table import CompileOptions
from glowembed.pipeline import images_of
from glowembed.run.ondevice import Link
from glowembed.show import report
from glowembed.show.page import page

PLACE = 50


def add_to(app: typer.Typer) -> None:
    app.command(epilog="Example:  glowembed validate bundle --board mps2-an386 --data data.npz --json result.json")(
        validate
    )


@takes("random")
def validate(
    bundle: BundleDir,
    data: Data = None,
    board: Annotated[
        str | None, typer.Option("--board", help="A board, or host; by default the target's test board.")
    ] = None,
    labels: Annotated[
        str | None, typer.Option("--labels", metavar="KEY", help="Array of the labels; by default test_y.")
    ] = None,
    samples: Annotated[
        int | None, typer.Option("--samples", metavar="N", min=1, help="Use only N samples, evenly spaced.")
    ] = None,
    layers: Annotated[bool, typer.Option("--layers", help="Also compare and count every layer.")] = False,
    model: Annotated[
        Path | None, typer.Option("--model", metavar="ONNX", help="The original model, if it has moved.")
    ] = None,
    build_dir: Annotated[
        Path | None, typer.Option("--build-dir", metavar="DIR", help="Build folder; by default BUNDLE.build/BOARD.")
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Also write the result as JSON; - prints only that.")
    ] = None,
    boards: Annotated[
        Path | None,
        typer.Option(
            "--boards", metavar="FARM.yaml", help="A list of boards to validate at once, through their serial ports."
        ),
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
        str | None,
        typer.Option(
            "--port",
            metavar="PORT",
            help="Port of the board: /dev/ttyACM0, socket://host:port, rfc2217://host:port, labgrid:PLACE.",
        ),
    ] = None,
    baud: Annotated[
        int | None, typer.Option("--baud", metavar="N", help="Baud rate; by default that of board.toml.")
    ] = None,
    flash: Annotated[bool, typer.Option("--flash", help="Flash the firmware first, with the board's tool.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Continue an interrupted serial run.")] = False,
    image_mean: ImageMean = None,
    image_std: ImageStd = None,
    image_scale: ImageScale = None,
    **asked: Any,
) -> None:
    """Build a bundle, run samples on a board, and compare every bit with the integer reference, and both with the float
    model.

    The exit code is 1 if a bit differs. Emulated boards need qemu-system-arm; the host needs a C compiler. A real board
    must run the firmware of this bundle (`--flash`, `glowembed flash`) and is selected by `--port`.
    """
    if transport is not None and transport not in TRANSPORTS:
        raise unknown_name("transport", transport, TRANSPORTS)
    random = CompileOptions.from_words(asked).random
    if boards is not None:
        if data is None:
            raise UsageError(f"{boards} names several boards: give the samples for all of them with --data PATH")
        own = {"--board": board, "--port": port, "--baud": baud, "--transport": transport, "--build-dir": build_dir}
        refuse_options({**own, "--html": html}, f"for one board, and {boards} names several")
        given = {"--samples": samples, "--labels": labels, "--model": model, "--image-mean": image_mean}
        given |= {"--image-std": image_std, "--image-scale": image_scale}
        flags = {"--layers": layers, "--flash": flash, "--resume": resume}
        words = [word for name, value in given.items() if value is not None for word in (name, str(value))]
        _farm(farm.read(boards, bundle, data), words + [name for name, on in flags.items() if on], json_file)
        return
    opened = pipeline.load_bundle(bundle)
    images = image_options(image_mean, image_std, image_scale, images_of(opened))
    source = source_of(data, random, images, labels=labels)
    with progress_bar() as progress:
        result = run_validation(
            opened,
            source,
            board_of(opened, board),
            samples,
            layers=layers,
            build_dir=build_dir,
            progress=progress,
            model=model,
            link=Link(transport, port, baud, flash, resume),
        )
    tell_notes(unused_image_options(data, image_mean, image_std, image_scale))
    write_json(json_file, result.json)
    if html is not None:
        with progress_bar() as progress:
            lost = losses(opened, source, progress=progress, model=model)
            values = seen(opened, source, progress=progress, model=model)
        write_file(html, page(result, lost, (values, opened.graph)))
    if json_file != Path("-"):
        show(report.validation(result))
    if not result.bit_exact:
        raise typer.Exit(1)


def _farm(places: list[farm.Place], words: list[str], json_file: Path | None) -> None:
    rows = farm.run(places, words)
    results = [vars(row) for row in rows]
    if json_file is not None:
        write_json(json_file, {"schema": 1, "boards": results})
    if json_file != Path("-"):
        show(report.farm(rows))
    if not all(row.good for row in rows):
        raise typer.Exit(1)
