#!/usr/bin/env python3
"""Accuracy of every quantization setting on every model, and whether all cores give the same bits.

In: a folder with models (NAME/model.onnx, NAME/data.npz). Out: a line per model and configuration, a Markdown table at
the end and, with --json, a file. The figures are those of the integer reference over all test samples, against
onnxruntime on the float model; with --boards, every configuration is also built and run there, and its bits compared.

    ./glow run python benchmarks/accuracy.py ../shared/models
    ./glow run python benchmarks/accuracy.py ../shared/models --only kws --boards host mps2-an386 nrf51-large mps3-an547
"""

# ruff: noqa: E402

from __future__ import annotations

import os

for _library in ("OPENBLAS", "MKL", "OMP"):
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")

import argparse
import contextlib
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, get_args

from glowembed import compare, datasets
from glowembed.datasets import Dataset
from glowembed.errors import GlowembedError
from glowembed.ir import Graph
from glowembed.pipeline import CompileOptions, compile_model, import_model, profile_model
from glowembed.plan import Optimize, PlanOptions
from glowembed.precision import CALIBRATIONS, Config
from glowembed.profile import Profile
from glowembed.target import load_board
from glowembed.tune import Outputs, integer_outputs
from glowembed.validation import validate

MODELS = ("digits_cnn", "kws", "resnet8", "mobilenetv2", "ad01", "tcn")
POWER2 = "symmetric_with_power2_scale"
SCHEMAS: Mapping[str, Mapping[str, Any]] = {
    "asymmetric": {"schema": "asymmetric"},
    "symmetric": {"schema": "symmetric"},
    "power of two": {"schema": POWER2, "weights_schema": POWER2},
}
WEIGHTS: Mapping[str, Mapping[str, Any]] = {"per channel": {}, "per tensor": {"per_channel": False}}
SINGLE: Mapping[str, Mapping[str, Any]] = {
    "default": {},
    "bias correction off": {"bias_correction": False},
    "symmetric_with_uint8": {"schema": "symmetric_with_uint8"},
    "weights asymmetric": {"weights_schema": "asymmetric"},
    "int16": {"dtype": "int16"},
    "int16, weights int16": {"dtype": "int16", "weights": "int16"},
    "float32": {"dtype": "float32"},
    "requantization glow": {"requantization": "glow"},
    "requantization tflite": {"requantization": "tflite"},
}
CROSSED: Mapping[str, Mapping[str, Any]] = {
    f"{schema}, {calibration}, {weights}": {**SCHEMAS[schema], "calibration": calibration, **WEIGHTS[weights]}
    for schema, calibration, weights in product(SCHEMAS, CALIBRATIONS, WEIGHTS)
}
CONFIGURATIONS: Mapping[str, Mapping[str, Any]] = {**SINGLE, **CROSSED}


@dataclass(frozen=True)
class Case:
    """A model with what all its configurations share. floats: what onnxruntime gives for the test samples."""

    name: str
    folder: Path
    profile: Profile
    dataset: Dataset
    floats: Outputs

    @classmethod
    def load(cls, folder: Path, samples: int | None) -> Case:
        model, data = folder / "model.onnx", folder / "data.npz"
        dataset = datasets.load(data, datasets.input_specs(import_model(model, CompileOptions())), "test")
        chosen = dataset.every(samples)
        profile = profile_model(model, data, CompileOptions())
        return cls(folder.name, folder, profile, chosen, compare.run_onnxruntime(model, chosen))


class _Stop(Exception):
    """Ends a compilation where the integers are known: nothing is to be written."""


def integer_graph(case: Case, settings: Mapping[str, Any]) -> Graph:
    """The network in integers, before kernels are chosen."""
    made: list[Graph] = []

    def on_stage(name: str, result: Any) -> None:
        if name == "lower":
            made.append(result)
            raise _Stop

    options = CompileOptions(precision=Config(dict(settings)))
    with contextlib.suppress(_Stop):
        compile_model(case.folder / "model.onnx", Path("not written"), options, None, case.profile, on_stage=on_stage)
    return made[0]


def measured(case: Case, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Accuracy (None without labels), RMS error and SQNR of the outputs, of the integer reference."""
    outputs = integer_outputs(integer_graph(case, settings), case.dataset)
    found = {name: outputs[name].reshape(array.shape) for name, array in case.floats.items()}
    accuracy = compare.accuracy(case.dataset.labels, case.floats, found)
    worst = min(compare.metrics(case.floats, found), key=lambda m: m.sqnr_db)
    return {
        "samples": len(case.dataset),
        "accuracy": accuracy.json() if accuracy else None,
        "rmse": worst.rmse,
        "sqnr_db": worst.sqnr_db,
    }


def bit_exact(
    case: Case, settings: Mapping[str, Any], board: str, samples: int, optimize: Optimize, place: Path
) -> dict[str, Any]:
    """What validate says of one configuration on one board. In the same place only what changed is built again."""
    plan, precision = PlanOptions(optimize=optimize), Config(dict(settings))
    options = CompileOptions(target=load_board(board).target, precision=precision, plan=plan)
    bundle = compile_model(case.folder / "model.onnx", place / "bundle", options, profile=case.profile)
    result = validate(bundle, case.folder / "data.npz", board, samples, build_dir=place / "build").json
    return {"board": board, "samples": samples, "bit_exact": result["bit_exact"], "first": result["first_difference"]}


def cell(result: Mapping[str, Any]) -> str:
    """Accuracy in percent, or the RMS error where there are no classes; then the SQNR of the output."""
    accuracy = result["accuracy"]
    quality = f"{100 * accuracy['quantized']:.2f} %" if accuracy else f"RMS {result['rmse']:.4f}"
    return f"{quality}, {result['sqnr_db']:.1f} dB"


def table(results: Sequence[Mapping[str, Any]]) -> str:
    """A Markdown table: a row per configuration, a column per model."""
    models = list(dict.fromkeys(r["model"] for r in results))
    cells = {(r["configuration"], r["model"]): cell(r) for r in results if "sqnr_db" in r}
    floats = {r["model"]: r["accuracy"]["float"] for r in results if r.get("accuracy")}
    head = ["configuration", *models]
    rows = [["float", *(f"{100 * floats[m]:.2f} %" if m in floats else "" for m in models)]]
    names = dict.fromkeys(name for name, _ in cells)
    rows += [[name, *(cells.get((name, m), "") for m in models)] for name in names]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))


def run(options: argparse.Namespace, folder: Path) -> Iterator[dict[str, Any]]:
    """Every result as it comes; an error is a result that says so. `folder` is for what is built."""
    for model in options.only:
        case = Case.load(options.models / model, options.samples)
        for name in options.configurations:
            key = {"model": model, "configuration": name}
            if not options.bits_only:
                yield {**key, **_caught(partial(measured, case, CONFIGURATIONS[name]))}
            for board in options.boards:
                how = (options.core_samples, options.optimize, folder / model / board)
                check = partial(bit_exact, case, CONFIGURATIONS[name], board, *how)
                yield {**key, "board": board, **_caught(check)}


def _caught(work: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
    try:
        return dict(work())
    except GlowembedError as error:
        return {"error": str(error)}


def line(result: Mapping[str, Any]) -> str:
    """One result for the terminal."""
    head = f"{result['model']:12} {result['configuration']:36}"
    if "error" in result:
        return f"{head} {result.get('board', '')}: {result['error']}"
    if "board" in result:
        said = "equal" if result["bit_exact"] else f"DIFFERS: {result['first']}"
        return f"{head} {result['board']:12} {said}"
    return f"{head} {cell(result)}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", type=Path, help="folder of NAME/model.onnx and NAME/data.npz")
    parser.add_argument("--only", nargs="+", default=MODELS, metavar="NAME", help="these models")
    parser.add_argument("--configurations", nargs="+", default=list(CONFIGURATIONS), metavar="NAME")
    parser.add_argument("--boards", nargs="+", default=[], help="build and run there too, and compare the bits")
    parser.add_argument("--bits-only", action="store_true", help="only the boards, no figures")
    parser.add_argument("--samples", type=int, help="for the figures; all by default")
    parser.add_argument("--core-samples", type=int, default=3, help="on each board")
    parser.add_argument("--optimize", choices=get_args(Optimize), default="balanced", help="of what the boards run")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory(prefix="glowembed-accuracy-") as folder:
        for result in run(options, Path(folder)):
            print(line(result), flush=True)
            results.append(result)
            if options.json:
                options.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    if not options.bits_only:
        print(f"\n{table(results)}")
    return int(any("error" in r or r.get("bit_exact") is False for r in results))


if __name__ == "__main__":
    sys.exit(main())
