"""RAM against cycles: each model planned for speed, balanced and RAM, run on an emulated Cortex-M4, as a table and JSON.

    python benchmarks/memory.py --models ../shared/models [--only kws,resnet8] [--json FILE]
    python benchmarks/memory.py --models ../shared/models --only resnet8,mobilenetv2 --curve docs [--points 5]
    python benchmarks/memory.py --models ../shared/models --only mobilenet_144 --curve FOLDER

Every row was executed bit-exactly under QEMU; stack is gcc's static bound. With --curve each model is compiled once for each
limit of RAM that the planner's own curve has (`compile --curve`), run, and measured: NAME-ram.svg has the cycles of `glowembed
measure`. --points: so many of these limits, evenly spread from the least to the most.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import networks
import numpy as np
import person

from glowembed import pipeline
from glowembed.graph.ir import Graph
from glowembed.graph.plan import Places, PlanOptions, Tradeoff
from glowembed.judge.validation import build_bundle, validate
from glowembed.measure import measure, noise
from glowembed.pipeline import Bundle, CompileOptions, compile_model
from glowembed.show import curve_view

MODELS = ("kws", "resnet8", "ad01", "mobilenetv2", "tcn", "digits_cnn", "person")
"""person is our own (person.py): 96 x 96 x 3, its rows handed over on request. `--only` also takes the names of networks.py, with the input
in the caller's buffer.
"""

PUBLISHED = {
    "mobilenet_144": "8560 x1.68, 14132 x1.56, 15199 x1.38, 21389 x1.30, 25803 x1.25, 67996 x1.10, 83133 x1.02"
}
"""Bytes and factors of products that others report (arXiv 2505.11483), printed beside a curve."""

GOALS = ("speed", "balanced", "ram")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=Path, required=True)
    parser.add_argument("--only", default=",".join(MODELS))
    parser.add_argument("--target", default="cortex-m4")
    parser.add_argument("--board", default="mps2-an386")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--curve", type=Path, metavar="FOLDER")
    parser.add_argument("--points", type=int, metavar="N")
    words = parser.parse_args()
    if words.curve is not None:
        _draw(words)
        return
    rows = []
    print(
        f"{'model':12} {'plan':9} {'arena':>7} {'bound':>7} {'rows':>7} {'proof':>9} {'instructions':>13} {'stack':>6} {'seconds':>8}"
    )
    for row in _rows(words):
        rows.append(row)
        print(
            f"{row['model']:12} {row['goal']:9} {row['arena']:7} {row['bound']:7} {row['row_bound']:7} {row['proof']:>9} "
            f"{row['instructions'] or 0:13} {row['stack'] or 0:6} {row['plan_seconds']:8.1f}{'' if row['exact'] else '  NOT EXACT'}",
            flush=True,
        )
    if words.json is not None:
        words.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


def _rows(words: argparse.Namespace) -> Iterator[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        for name in words.only.split(","):
            for goal in GOALS:
                yield _row(words, name, goal, Path(folder))


def _source(words: argparse.Namespace, name: str, folder: Path) -> Path:
    """The folder of a model and its samples."""
    if name == "person":
        return person.write(folder / name)
    return _made(name, folder / name) if _is_made(name) else words.models / name


def _is_made(name: str) -> bool:
    return any(re.fullmatch(pattern, name) for pattern in networks.FAMILIES)


def _made(name: str, folder: Path) -> Path:
    """A network of networks.py and two samples of noise."""
    folder.mkdir(exist_ok=True)
    network = networks.network(name)
    (folder / "model.onnx").write_bytes(network.SerializeToString())
    shape = [dim.dim_value for dim in network.graph.input[0].type.tensor_type.shape.dim]
    noise = np.random.default_rng(0).normal(size=(2, *shape[1:])).astype(np.float32)
    np.savez(folder / "data.npz", **{network.graph.input[0].name: noise})
    return folder


def _options(words: argparse.Namespace, name: str, plan: PlanOptions) -> CompileOptions:
    return CompileOptions(
        target=words.target,
        input_layout="nhwc" if name == "person" or _is_made(name) else "model",
        plan=plan,
        places=Places(input="rows" if name == "person" else "whole", io="caller" if _is_made(name) else "arena"),
    )


def _draw(words: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name in words.only.split(","):
            points, title = list(_measured(words, name, Path(folder))), f"{name} on {words.target}"
            print(curve_view.text(title, points, "cycles"), flush=True)
            if name in PUBLISHED:
                print(f"published, bytes and products: {PUBLISHED[name]}", flush=True)
            drawing = curve_view.svg(title, points, cycles="cycles")
            (words.curve / f"{name}-ram.svg").write_text(drawing, encoding="utf-8")


def _measured(words: argparse.Namespace, name: str, folder: Path) -> Iterator[Tradeoff]:
    """The plans that limits of RAM give, with their cycles; those that are no faster than a smaller one are left out."""
    source, chosen = _source(words, name, folder), []

    def on_stage(stage: str, result: Any) -> None:
        if stage == "lower":
            chosen.append(result)

    options = _options(words, name, PlanOptions("greedy"))
    compile_model(source / "model.onnx", folder / name, options, source / "data.npz", on_stage=on_stage)
    graph: Graph = chosen[0]
    limits = [point.ram for point in pipeline.tradeoffs(graph, options)]
    if words.points is not None and words.points < len(limits):
        limits = [limits[round(i)] for i in np.linspace(0, len(limits) - 1, words.points)]
    fastest = _cycles(words, name, PlanOptions(optimize="speed"), source, folder)
    best = float("inf")
    for limit in limits:
        arena, cycles = _cycles(words, name, PlanOptions(ram=limit), source, folder)
        if cycles < best:
            best = cycles
            yield Tradeoff(arena, cycles, fastest[1])
    if fastest[1] < best:
        yield Tradeoff(*fastest, fastest[1])


def _cycles(words: argparse.Namespace, name: str, plan: PlanOptions, source: Path, folder: Path) -> tuple[int, float]:
    """Arena and cycles of a plan that gives the right bits."""
    out = folder / f"{name}-{plan.ram}-{plan.optimize}"
    bundle = compile_model(source / "model.onnx", out, _options(words, name, plan), source / "data.npz")
    result = validate(bundle, source / "data.npz", words.board, samples=1)
    assert result.bit_exact, result.json["first_difference"]
    found = measure(build_bundle(bundle, words.board), bundle.manifest, noise(bundle.manifest))
    assert found.total.cycles is not None, found.note
    return bundle.manifest["arena"]["size"], found.total.cycles.point


def _row(words: argparse.Namespace, name: str, goal: Any, folder: Path) -> dict[str, Any]:
    source = _source(words, name, folder)
    options = _options(words, name, PlanOptions(optimize=goal))
    start = time.perf_counter()
    bundle: Bundle = compile_model(source / "model.onnx", folder / f"{name}-{goal}", options, source / "data.npz")
    seconds = time.perf_counter() - start
    result = validate(bundle, source / "data.npz", words.board, samples=2).json
    arena, schedule = bundle.manifest["arena"], bundle.manifest["schedule"]
    return {
        "model": name,
        "goal": goal,
        "arena": arena["size"],
        "bound": arena["liveness_bound"],
        "row_bound": schedule["row_bound"],
        "proof": schedule["proof"],
        "calls": schedule["calls"],
        "exact": result["bit_exact"],
        "instructions": result["instructions"],
        "stack": result["memory"]["stack_computed"],
        "plan_seconds": bundle.stage_seconds.get("plan", seconds),
    }


if __name__ == "__main__":
    main()
