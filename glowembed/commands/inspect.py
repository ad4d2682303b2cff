"""`glowembed inspect`: a model before anything is compiled, or the inside of a bundle."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from glowembed import pipeline
from glowembed.cli import AsJson, InputLayout, Model, Shapes, compile_options, show
from glowembed.errors import UsageError
from glowembed.judge.inspection import inspect_model
from glowembed.pipeline import Bundle
from glowembed.show import bundleview, memory_view, report

PLACE = 10


def add_to(app: typer.Typer) -> None:
    app.command(epilog="Example:  glowembed inspect model.onnx --target cortex-m4")(inspect)


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
    options = compile_options(shape, input_layout)
    found = inspect_model(model, options.shapes, target, "nhwc" if input_layout == "nhwc" else "model")
    show(found.json() if as_json else report.inspection(found))
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
        show(bundleview.as_json(bundle) if as_json else report.quantization(bundle))
