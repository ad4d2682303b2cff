"""`glowembed precision`: shows how each node of a model is computed, and writes a template of precision.yaml."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from glowembed import pipeline
from glowembed.cli import JsonFile, Model, compile_options, takes, tell
from glowembed.quantize.precision import config_of
from glowembed.quantize.precision import resolve as resolve_precision
from glowembed.quantize.precision import template as precision_template
from glowembed.show import report

PLACE = 90


def add_to(app: typer.Typer) -> None:
    app.command(epilog="Example:  glowembed precision model.onnx --template > precision.yaml")(precision)


@takes("shapes", "inputs", "outputs", "constants", "states", "frontend", "input_layout")
def precision(
    model: Model,
    check: Annotated[
        Path | None,
        typer.Option("--check", metavar="FILE", help="Check this precision.yaml, and print its effect."),
    ] = None,
    template: Annotated[
        bool, typer.Option("--template", help="Print a precision.yaml for this model to start from.")
    ] = False,
    target: Annotated[str, typer.Option("--target", help="The target that must support the settings.")] = "cortex-m4",
    *,
    json_file: JsonFile = None,
    **given: Any,
) -> None:
    """Print how each node of a model is computed: its dtype, schema, calibration, and the rule that says so.

    A precision.yaml holds `defaults:` and `rules:`. A rule matches nodes by `name` (a glob), `op` or `position` (first,
    last), or values by `value`, and sets what `--template` lists. Later rules override earlier ones. Pass the file to
    `compile --precision`.
    """
    options = compile_options({**given, "target": target, "precision": check})
    graph = pipeline.import_model(model, options)
    if template:
        typer.echo(precision_template(graph), nl=False)
        return
    resolved = resolve_precision(graph, config_of(options))
    nodes = {name: {**settings.json(), "rules": dict(settings.rules)} for name, settings in resolved.nodes.items()}
    values = {name: vars(fixed) for name, fixed in resolved.values.items()}
    tell(json_file, {"schema": 1, "nodes": nodes, "values": values}, lambda: report.precision(graph, resolved))
