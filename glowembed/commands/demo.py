"""`glowembed demo`: compiles the included example and tests it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from glowembed import pipeline, resources
from glowembed.cli import STDOUT, JsonFile, progress_bar, show, typed, write_json
from glowembed.graph.target import load_board
from glowembed.judge.validation import Validation
from glowembed.judge.validation import validate as run_validation
from glowembed.pipeline import CompileOptions
from glowembed.show import report

PLACE = 0


def add_to(app: typer.Typer) -> None:
    app.command(epilog="Example:  glowembed demo")(demo)


def demo(
    out: Annotated[Path, typer.Option("-o", "--output", metavar="DIR", help="Folder for the bundles.")] = Path(
        "build/demo"
    ),
    boards: Annotated[
        list[str] | None, typer.Option("--board", help="Boards to run on. Repeatable.", show_default="mps2-an386, host")
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Compile the included example (handwritten digits), run it on an emulated Cortex-M4 and on this computer, and
    compare.

    It takes some seconds and shows what glowembed does: compile, build, run and compare.
    """
    results = [_demo_on(board, out, quiet=json_file == STDOUT) for board in boards or ["mps2-an386", "host"]]
    write_json(json_file, [result.json for result in results])
    if json_file != STDOUT:
        _demo_summary([result.json for result in results], out)
    if not all(result.bit_exact for result in results):
        raise typer.Exit(1)


def _demo_on(board: str, out: Path, quiet: bool) -> Validation:
    """Compile the example for the target of a board, and validate it there."""
    example, target = resources.root() / "examples" / "digits", load_board(board).target
    folder = out / target
    folder.parent.mkdir(parents=True, exist_ok=True)
    with progress_bar() as progress:
        bundle = pipeline.compile_model(
            example / "model.onnx",
            folder,
            CompileOptions(target, name="digits"),
            example / "data.npz",
            progress=progress,
        )
        if not quiet:
            show(f"compiled for {target} in {sum(bundle.stage_seconds.values()):.1f} s; running on {board} ...")
        return run_validation(bundle, example / "data.npz", board, progress=progress)


def _demo_summary(results: list[Mapping[str, Any]], out: Path) -> None:
    samples, example = results[0]["samples"], _near(resources.root() / "examples" / "digits")
    model, data, bundle = example / "model.onnx", example / "data.npz", out / results[0]["target"]
    commands = (
        ("try", model, data),
        ("inspect", model, "--target", results[0]["target"]),
        ("validate", bundle, "--data", data, "--layers"),
        ("doctor",),
    )
    show(report.summary(results))
    show(
        f"{samples} images of handwritten digits that training never saw, each compared with\n"
        f"the float model in onnxruntime and, bit for bit, with the integer reference.\n\n"
        f"What next, with your own model and samples in place of these:\n"
        f"  {bundle}/digits.h    the bundle: read the header, it is the manual\n"
        + "\n".join(f"  {typed('glowembed', *words)}" for words in commands)
    )


def _near(path: Path) -> Path:
    """A path as seen from the current folder, if it lies below it."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
