"""`glowembed inspect`: shows a model before it is compiled, or the contents of a bundle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from glowembed import pipeline
from glowembed.cli import (
    STDOUT,
    ClockText,
    HtmlFile,
    JsonFile,
    compile_options,
    progress_bar,
    refuse_options,
    show,
    source_of,
    takes,
    tell,
    write_json,
)
from glowembed.errors import UsageError
from glowembed.files.output import write_file
from glowembed.graph.clock import hertz
from glowembed.judge.inspection import Inspection, inspect_model
from glowembed.pipeline import Bundle, CompileOptions
from glowembed.show import bundleview, memory_view, report
from glowembed.show.inspection import inspection
from glowembed.show.memory_view import View

PLACE = 10


def add_to(app: typer.Typer) -> None:
    app.command(epilog="Example:  glowembed inspect model.onnx --target cortex-m4")(inspect)


ModelOrBundle = Annotated[
    Path, typer.Argument(metavar="MODEL", help="The .onnx or .tflite file, or a bundle.", show_default=False)
]
TargetName = Annotated[
    str | None,
    typer.Option(
        "--target",
        help="Show which boards of this target the model fits, and with which options; by default all targets.",
    ),
]
BoardName = Annotated[
    str | None,
    typer.Option("--board", help="Show whether the model fits this board: its name, or the folder of a board."),
]
MemoryMap = Annotated[
    Path | None,
    typer.Option("--memory-map", metavar="FILE", help="Of a bundle: draw its RAM over time, as .svg or .html."),
]


@takes("shapes", "inputs", "outputs", "constants", "frontend", "random", "input_layout")
def inspect(
    model: ModelOrBundle,
    target: TargetName = None,
    board: BoardName = None,
    data: Annotated[
        Path | None,
        typer.Option("--data", metavar="PATH", help="Calibration samples, whose ranges are used for RAM and flash."),
    ] = None,
    *,
    coverage: Annotated[
        bool, typer.Option("--coverage", help="How each operator is computed: dtype, kernels, share of the cycles.")
    ] = False,
    quantization: Annotated[
        bool,
        typer.Option("--quantization", help="Of a bundle: types, multipliers, shifts and biases of its nodes."),
    ] = False,
    graph: Annotated[
        Path | None,
        typer.Option("--graph", metavar="FILE", help="Of a bundle: draw the graph with types, as .dot or .svg."),
    ] = None,
    memory: Annotated[
        bool, typer.Option("--memory", help="Of a bundle: the contents of its RAM, step by step.")
    ] = False,
    memory_map: MemoryMap = None,
    html: HtmlFile = None,
    clock: ClockText = None,
    json_file: JsonFile = None,
    **given: Any,
) -> None:
    """Show a model before anything is compiled: inputs, outputs, layers, MACs, RAM and estimated flash.

    Everything that is not supported is listed at once, with what to do about it; the exit code is then 3. For a bundle,
    which is a folder, it shows the contents; the default is --quantization.
    """
    inside = {"--quantization": quantization, "--graph": graph, "--memory": memory, "--memory-map": memory_map}
    before = {
        "--target": target,
        "--board": board,
        "--data": data,
        "--coverage": coverage,
        "--clock": clock,
        "--shape": given["shapes"],
        "--inputs": given["inputs"],
        "--outputs": given["outputs"],
        "--constant": given["constants"],
        "--frontend": given["frontend"],
        "--random": given["random"],
        "--input-layout": given["input_layout"] != "model",
    }
    if model.is_dir() or (any(inside.values()) and not model.exists()):
        refuse_options(before, f"for a model, and {model} is a bundle, for which this is settled")
        _inspect_bundle(pipeline.load_bundle(model), inside, json_file, html)
        return
    refuse_options(inside, f"for a bundle, the folder that `compile` wrote, and {model} is a file")
    found = _inspect_model(model, target, board, data, coverage, clock, compile_options(given))
    _tell(found, json_file, html)


def _inspect_model(
    model: Path,
    target: str | None,
    board: str | None,
    data: Path | None,
    coverage: bool,
    clock: str | None,
    options: CompileOptions,
) -> Inspection:
    source = source_of(data, options.random) if data is not None or options.random is not None else None
    with progress_bar() as progress:
        return inspect_model(
            model,
            options.shapes,
            target,
            options.input_layout,
            source,
            coverage,
            options.cut,
            None if clock is None else hertz(clock),
            options.frontend,
            everywhere=target is None and board is None,
            progress=progress,
            board=board,
        )


def _tell(found: Inspection, json_file: Path | None, html: Path | None) -> None:
    """Print what was found and write the page; exit code 3 if something is not supported."""
    if html is not None:
        from glowembed.show.page import views

        write_file(html, views.inspection(found))
    tell(json_file, found.json(), lambda: inspection(found))
    if found.unsupported:
        raise typer.Exit(3)


def _inspect_bundle(bundle: Bundle, asked: Mapping[str, Any], json_file: Path | None, html: Path | None) -> None:
    files = asked["--graph"] or asked["--memory-map"] or html
    quantization = asked["--quantization"] or not (asked["--memory"] or (files and json_file is None))
    if json_file is not None and quantization and asked["--memory"]:
        raise UsageError("--json prints one result: ask for --quantization or for --memory")
    if html is not None:
        from glowembed.show.page import views

        write_file(html, views.bundle(bundle))
    if asked["--graph"] is not None:
        bundleview.draw(bundle, asked["--graph"])
    shown = memory_view.view(bundle.manifest)
    if asked["--memory-map"] is not None:
        _draw(shown, asked["--memory-map"])
    if json_file is not None:
        write_json(json_file, bundleview.as_json(bundle) if quantization else asdict(shown))
    if json_file == STDOUT:
        return
    if quantization:
        show(report.quantization(bundle))
    if asked["--memory"]:
        typer.echo(memory_view.text(shown))


def _draw(shown: View, drawing: Path) -> None:
    from glowembed.show.page import views  # here, because few commands draw

    draw = {".svg": memory_view.svg, ".html": views.memory}.get(drawing.suffix)
    if draw is None:
        raise UsageError(f"{drawing}: drawings of memory are .svg or .html")
    write_file(drawing, draw(shown))
