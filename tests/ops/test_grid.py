"""GridSample in integers: near the exact function, in every mode, and the bits of its program on a host."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from checker import case, one_node_model
from kernel_checker import check_kernels
from random_nodes import typed_and_lowered
from small_models import saved

from glowembed.canonicalize import canonicalize
from glowembed.graph.ir import Array, Graph
from glowembed.read.importer import load
from glowembed.reference import run_float, run_int

pytestmark = pytest.mark.cc

FORMS = list(product(("nearest", "linear", "cubic"), ("zeros", "border", "reflection"), (0, 1)))
ERRORS = {
    ("int8", "nearest"): 0.0, ("int8", "linear"): 0.54, ("int8", "cubic"): 0.68,
    ("int16", "nearest"): 0.0, ("int16", "linear"): 1.8, ("int16", "cubic"): 4.0,
}  # fmt: skip
"""The most steps between an output and the exact one for the stored inputs."""


def sampling(folder: Path, mode: str, padding: str, corners: int) -> Graph:
    attrs = {"mode": mode, "padding_mode": padding, "align_corners": corners}
    made = one_node_model(case("grid", "GridSample", (2, 3, 7, 5), (2, 4, 6, 2), opset=20, **attrs))
    return canonicalize(load(saved(made, folder)))


def exact(graph: Graph, typed: Graph, stored: dict[str, Array]) -> Array:
    real = {n: typed.values[n].qtype.dequantize(stored[n]) for n in typed.inputs}
    return run_float(graph, real)[graph.outputs[0]]


@pytest.mark.parametrize("dtype", ["int8", "int16"])
@pytest.mark.parametrize(("mode", "padding", "corners"), FORMS)
def test_grid_sample(mode: str, padding: str, corners: int, dtype: str, tmp_path: Path) -> None:
    graph, rng = sampling(tmp_path, mode, padding, corners), np.random.default_rng(3)
    typed = typed_and_lowered(graph, {"dtype": dtype}, dict.fromkeys(graph.values, (-2.0, 2.0)))
    x, grid = graph.inputs
    worst = 0.0
    for _ in range(8):
        real = {x: rng.uniform(-2, 2, graph.values[x].shape), grid: rng.uniform(-1.4, 1.4, graph.values[grid].shape)}
        stored = {n: typed.values[n].qtype.quantize(a.astype(np.float32)) for n, a in real.items()}
        qtype = typed.values[graph.outputs[0]].qtype
        wanted = np.clip(exact(graph, typed, stored), *qtype.range())
        found = qtype.dequantize(run_int(typed, stored)[typed.outputs[0]]).reshape(wanted.shape)
        error = np.abs(found - wanted) / qtype.scale[0]
        worst = max(worst, float(np.quantile(error, 0.999 if mode == "nearest" else 1.0)))
    assert worst <= ERRORS[dtype, mode] + 1e-3
    (node,) = typed.nodes
    check_kernels(node, typed, rng, thorough=False)
