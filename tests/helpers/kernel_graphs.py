"""Random networks at kernel level, with the portable kernels of the host."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
from random_networks import Network, network
from small_models import canonical, model

from glowembed.graph.ir import Graph
from glowembed.graph.target import Target, load_target
from glowembed.lower.choose import choose
from glowembed.lower.nodes import lower
from glowembed.quantize.types import quantize
from glowembed.reference import run_float


def kernel_graph(seed: int, layers: int, folder: Path, make: Network = network) -> Graph:
    """The network of a seed at kernel level, for the host."""
    nodes, constants = make(random.Random(seed), layers)
    graph = canonical(model(nodes, {"x": (1, 1, 15, 15)}, constants), folder, twice=False)
    sample = {
        n: np.random.default_rng(1).uniform(-2, 2, graph.values[n].shape).astype(np.float32) for n in graph.inputs
    }
    values = run_float(graph, sample)
    ranges = {n: (float(v.min()), float(v.max())) for n, v in values.items()}
    return choose(lower(quantize(graph, lambda name, settings: ranges[name])), portable())[0]


def portable() -> Target:
    return replace(load_target("x86-64"), isa=())
