"""A model that computes nothing: its C compiles, and gives the bits of its input."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_models import model, node, saved

from glowembed.graph.plan import Places
from glowembed.judge.validation import validate
from glowembed.pipeline import CompileOptions, compile_model

VIEWS: dict[str, Any] = {
    "flatten": node("Flatten", "x", "y"),
    "identity": node("Identity", "x", "y"),
    "dropout": node("Dropout", "x", "y"),
    "reshape": node("Reshape", "x to", "y"),
    "unsqueeze": node("Unsqueeze", "x axis", "y"),
}
CONSTANTS = {"reshape": {"to": [1, -1]}, "unsqueeze": {"axis": [1]}}

OPTIONS: dict[str, dict[str, Any]] = {
    "int8": {},
    "int16": {"dtype": "int16"},
    "float32": {"dtype": "float32"},
    "float-io": {"float_io": True},
    "caller": {"places": Places("caller")},
    "rows": {"places": Places("arena", "rows")},
    "caller-rows": {"places": Places("caller", "rows")},
}


def exact(nodes: list[Any], outputs: list[str], constants: dict[str, Any], options: CompileOptions, to: Path) -> bool:
    random = np.random.default_rng(1)
    arrays = {f"{part}_x": random.normal(size=(2, 3, 4, 5)).astype(np.float32) for part in ("calib", "test")}
    np.savez(to / "data.npz", **arrays)
    path = saved(model(nodes, {"x": [1, 3, 4, 5]}, constants, outputs=outputs), to)
    bundle = compile_model(path, to / "bundle", options, to / "data.npz")
    board = {"x86-64": "host", "cortex-m4": "mps2-an386"}[options.target]
    return bool(validate(bundle, to / "data.npz", board, samples=1).bit_exact)


@pytest.mark.cc
@pytest.mark.parametrize("option", OPTIONS)
def test_views(option: str, tmp_path: Path) -> None:
    """All of them at once are a model of several outputs that are the same input; one alone is a model without layers."""
    options = CompileOptions(target="x86-64", isa="portable", **OPTIONS[option])
    assert exact([VIEWS["flatten"]], ["y"], {}, options, tmp_path)
    several = [
        node("Flatten", "x", "a"),
        node("Identity", "x", "b"),
        node("Reshape", "x to", "c"),
        node("Unsqueeze", "x axis", "d"),
        node("Relu", "x", "e"),
        node("Identity", "e", "f"),
    ]
    constants = {"to": [1, -1], "axis": [1]}
    assert exact(several, list("abcdef"), constants, options, tmp_path)


@pytest.mark.cc
@pytest.mark.parametrize("view", VIEWS)
def test_each_view(view: str, tmp_path: Path) -> None:
    assert exact(
        [VIEWS[view]], ["y"], CONSTANTS.get(view, {}), CompileOptions(target="x86-64", isa="portable"), tmp_path
    )


@pytest.mark.arm_gcc
@pytest.mark.qemu
@pytest.mark.parametrize("option", ["int8", "caller"])
def test_a_view_on_a_core(option: str, tmp_path: Path) -> None:
    assert exact([VIEWS["flatten"]], ["y"], {}, CompileOptions(target="cortex-m4", **OPTIONS[option]), tmp_path)
