"""`glowembed debug`: compares board, integer reference and float model layer by layer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from glowembed.cli import JsonFile, progress_bar, source_of, takes, tell, tell_notes
from glowembed.errors import ValidationDiffers
from glowembed.graph.target import default_board, target_of
from glowembed.image.bundles import images_of
from glowembed.judge import debugging
from glowembed.options.table import CompileOptions
from glowembed.pipeline import load_bundle
from glowembed.show import report

PLACE = 70


def add_to(app: typer.Typer) -> None:
    app.command(epilog="Example:  glowembed debug bundle --data data.npz --board mps2-an386 --dump tensors.npz")(debug)


@takes("random")
def debug(
    bundle: Annotated[Path, typer.Argument(metavar="BUNDLE", help="The folder that `compile` wrote.")],
    data: Annotated[Path | None, typer.Option("--data", metavar="PATH", help="Samples, as for `validate`.")] = None,
    board: Annotated[str | None, typer.Option("--board", help="A board; by default the target's first one.")] = None,
    samples: Annotated[
        int | None,
        typer.Option("--samples", metavar="N", min=1, help=f"Number of samples; by default {debugging.SAMPLES}."),
    ] = None,
    dump: Annotated[
        Path | None,
        typer.Option(
            "--dump", metavar="FILE.npz", help="Write all tensors, named board/, reference/ or float/ + name."
        ),
    ] = None,
    build_dir: Annotated[Path | None, typer.Option("--build-dir", metavar="DIR")] = None,
    model: Annotated[
        Path | None, typer.Option("--model", metavar="FILE", help="The ONNX file, if it has been moved.")
    ] = None,
    json_file: JsonFile = None,
    **given: Any,
) -> None:
    """Find the layer whose bits differ on the board, and the layers that cost accuracy.

    Every tensor is read back after its layer has run, and compared with the integer reference and the float model. A
    layer's error is *cumulated* (including all layers before it) and *isolated* (fed with the float model's own input).
    """
    loaded = load_bundle(bundle)
    source = source_of(data, CompileOptions.from_words(given).random, images_of(loaded))
    place = board or default_board(target_of(loaded.manifest).name).reference
    with progress_bar() as progress:
        run = debugging.debug(loaded, source, place, samples, build_dir, progress, model)
    tell_notes(run.notes)
    if dump is not None:
        run.save(dump)
    tell(json_file, {"schema": 1, "board": place, **run.json()}, lambda: report.losses(run))
    if run.first_difference is not None:
        raise ValidationDiffers(f"layer {run.first_difference!r} is the first whose bits differ on {place}")
