"""RAM against cycles: each model planned for speed, balanced and RAM, run on an emulated Cortex-M4, as a table and JSON.

    python benchmarks/memory.py --models ../shared/models [--only kws,resnet8] [--json FILE]

Every row was executed bit-exactly under QEMU; cycles are the estimate of `glowembed measure`, stack is gcc's static bound.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import person

from glowembed.pipeline import Bundle, CompileOptions, compile_model
from glowembed.places import Places
from glowembed.plan import PlanOptions
from glowembed.validation import validate

MODELS = ("kws", "resnet8", "ad01", "mobilenetv2", "tcn", "digits_cnn", "person")
"""person is our own (person.py): 96 x 96 x 3, its rows handed over on request."""

GOALS = ("speed", "balanced", "ram")
NHWC = {"mobilenetv2"}
"""Handed over with channels last, as cameras do: the input needs no second copy."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=Path, required=True)
    parser.add_argument("--only", default=",".join(MODELS))
    parser.add_argument("--target", default="cortex-m4")
    parser.add_argument("--board", default="mps2-an386")
    parser.add_argument("--json", type=Path)
    words = parser.parse_args()
    rows = []
    print(
        f"{'model':12} {'plan':9} {'arena':>7} {'bound':>7} {'rows':>7} {'proof':>9} {'instructions':>13} {'stack':>6} {'seconds':>8}"
    )
    for row in _rows(words):
        rows.append(row)
        print(
            f"{row['model']:12} {row['goal']:9} {row['arena']:7} {row['bound']:7} {row['row_bound']:7} {row['proof']:>9} "
            f"{row['instructions'] or 0:13} {row['stack']:6} {row['plan_seconds']:8.1f}{'' if row['exact'] else '  NOT EXACT'}",
            flush=True,
        )
    if words.json is not None:
        words.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


def _rows(words: argparse.Namespace) -> Iterator[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        for name in words.only.split(","):
            for goal in GOALS:
                yield _row(words, name, goal, Path(folder))


def _row(words: argparse.Namespace, name: str, goal: Any, folder: Path) -> dict[str, Any]:
    source = person.write(folder / name) if name == "person" else words.models / name
    options = CompileOptions(
        target=words.target,
        input_layout="nhwc" if name in (*NHWC, "person") else "model",
        plan=PlanOptions(optimize=goal),
        places=Places(input="rows" if name == "person" else "whole"),
    )
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
