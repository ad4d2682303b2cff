#!/usr/bin/env python3
"""Accuracy of every quantization setting on every model, and whether all cores give the same bits.

In: a folder with models (NAME/model.onnx, NAME/data.npz). Out: a table on stdout and, with --json, a file.

    ./glow run python benchmarks/accuracy.py ../shared/models
    ./glow run python benchmarks/accuracy.py ../shared/models --only kws --boards host mps2-an386 nrf51-large mps3-an547
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from glowembed.errors import GlowembedError
from glowembed.pipeline import CompileOptions, compile_model, profile_model
from glowembed.precision import Config
from glowembed.profile import Profile
from glowembed.target import load_board
from glowembed.validation import validate

MODELS = ("digits_cnn", "kws", "resnet8", "mobilenetv2", "ad01", "tcn")
CONFIGURATIONS: Mapping[str, Mapping[str, Any]] = {
    "default": {},
    "symmetric": {"schema": "symmetric"},
    "symmetric_with_uint8": {"schema": "symmetric_with_uint8"},
    "symmetric_with_power2_scale": {
        "schema": "symmetric_with_power2_scale",
        "weights_schema": "symmetric_with_power2_scale",
    },
    "kl": {"calibration": "kl"},
    "mse": {"calibration": "mse"},
    "sqnr": {"calibration": "sqnr"},
    "percentile 99.99": {"calibration": "percentile", "percentile": 99.99},
    "per tensor": {"per_channel": False},
    "int16": {"dtype": "int16"},
    "requantization glow": {"requantization": "glow"},
    "requantization tflite": {"requantization": "tflite"},
}


def measured(
    folder: Path, profile: Profile, settings: Mapping[str, Any], board: str, samples: int | None
) -> dict[str, Any]:
    """What validate says of one configuration on one board."""
    options = CompileOptions(target=load_board(board).target, precision=Config(dict(settings)))
    with tempfile.TemporaryDirectory(prefix="glowembed-accuracy-") as place:
        bundle = compile_model(folder / "model.onnx", Path(place) / "bundle", options, profile=profile)
        result = validate(bundle, folder / "data.npz", board, samples, build_dir=Path(place) / "build")
    return dict(result.json)


def row(model: str, name: str, result: Mapping[str, Any]) -> str:
    """One line of the table."""
    accuracy, output = result["accuracy"], result["outputs"][0]
    quality = f"{accuracy['quantized']:8.2%} ({accuracy['float']:.2%})" if accuracy else f"rmse {output['rmse']:.4f}"
    return f"{model:12} {name:28} {quality:24} {output['sqnr_db']:7.2f} dB  {'equal' if result['bit_exact'] else 'DIFFERS'}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", type=Path, help="folder of NAME/model.onnx and NAME/data.npz")
    parser.add_argument("--only", nargs="+", default=MODELS, metavar="NAME", help="these models")
    parser.add_argument("--configurations", nargs="+", default=list(CONFIGURATIONS), metavar="NAME")
    parser.add_argument(
        "--boards", nargs="+", default=["host"], help="the first gives the figures, the others the bits"
    )
    parser.add_argument("--samples", type=int, help="of the first board; all by default")
    parser.add_argument("--core-samples", type=int, default=3, help="of the other boards")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    results, failed = [], 0
    for model in options.only:
        folder = options.models / model
        profile = profile_model(folder / "model.onnx", folder / "data.npz", CompileOptions())
        for name in options.configurations:
            for index, board in enumerate(options.boards):
                try:
                    samples = options.core_samples if index else options.samples
                    result = measured(folder, profile, CONFIGURATIONS[name], board, samples)
                except GlowembedError as error:
                    print(f"{model:12} {name:28} {board}: {error}", flush=True)
                    failed += 1
                    continue
                results.append({"model": model, "configuration": name, **result})
                failed += not result["bit_exact"]
                if index == 0:
                    print(row(model, name, result), flush=True)
                elif not result["bit_exact"]:
                    print(f"{model:12} {name:28} DIFFERS on {board}: {result['first_difference']}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
