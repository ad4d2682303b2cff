"""Models and single layers on emulated cores. In: an ONNX model, samples, a target. Out: a row of figures.

Everything goes through the same calls as a user's: compile, build, measure.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import shapes

from glowembed import measure, pipeline
from glowembed.graph.plan import Optimize, PlanOptions
from glowembed.graph.target import default_board
from glowembed.judge import validation
from glowembed.pipeline import CompileOptions

Row = dict[str, Any]


def model_row(
    name: str, model: Path, data: Path, target: str, peers: Mapping[str, Any], optimize: Optimize = "balanced"
) -> Row:
    """A whole network. Code is kernels and network without weights; the peer's is its smallest or its fastest build."""
    row = _measured(model, data, target, optimize)
    peer = peers["models"].get(name, {}).get(target)
    cycles = peers["cycles"].get(name) if target == "cortex-m4" else None
    code = peers["code_bytes"].get(name, {}).get(f"{target} {'size' if optimize == 'size' else 'tflm'}")
    return {
        "model": name,
        "target": target,
        "optimize": optimize,
        **row,
        "peer_instructions": peer,
        "peer_cycles": cycles,
        "peer_code": code,
    }


def kernel_row(name: str, target: str, peers: Mapping[str, Any]) -> Row:
    """One layer; its name says its shape."""
    with tempfile.TemporaryDirectory(prefix="glowembed-bench-") as folder:
        model, data = shapes.write(name, Path(folder))
        row = _measured(model, data, target)
    peer = peers["kernels"].get(name, {})
    work = peer.get("macs") or row["macs"] or shapes.elements(name)
    layers = row.pop("layers")
    return {
        "kernel": name,
        "target": target,
        **row,
        "symbols": [layer["kernel"] for layer in layers if layer["kernel"]],
        "work": work,
        "peer_instructions": peer.get("instructions", {}).get(target),
    }


def _measured(model: Path, data: Path, target: str, optimize: Optimize = "balanced") -> Row:
    with tempfile.TemporaryDirectory(prefix="glowembed-bench-") as folder:
        options = CompileOptions(target, name="bench", plan=PlanOptions(optimize=optimize))
        bundle = pipeline.compile_model(model, Path(folder) / "bundle", options, data)
        image = validation.build_bundle(bundle, default_board(target).name)
        found = validation.measure_bundle(bundle, image, measure.noise(bundle.manifest)).json()
    keys = ("instructions", "cycles_estimate", "cycles_range", "macs", "layers")
    return {
        **{key: found[key] for key in keys},
        "arena": bundle.manifest["arena"]["size"],
        "code": image.code,
        "rodata": image.rodata,
        "weights": image.weights,
        "stack": image.stack,
    }


def peer_best(row: Mapping[str, Any]) -> int | None:
    """The fewest instructions that the peer needs in any of its builds."""
    peer = row.get("peer_instructions")
    return min(peer.values()) if peer else None
