"""The table in docs/quantization.md of what each setting changes: made from the code, op by op."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checkout import ROOT
from small_models import model, node, saved, weights

from glowembed import pipeline
from glowembed.errors import UsageError
from glowembed.graph.ir import Graph
from glowembed.pipeline import CompileOptions, compile_model
from glowembed.quantize.precision import Config, parse, resolve
from glowembed.ranges.profile import Profile

DOCS = ROOT / "docs" / "quantization.md"

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "Conv, ConvTranspose, Gemm": ("n_conv", "n_up", "n_dense"),
    "Affine": ("n_norm",),
    "Add, Sub": ("n_sum",),
    "Mul": ("n_product",),
    "AveragePool": ("n_mean",),
    "Softmax": ("n_y",),
    "Tanh, Sigmoid, Erf": ("n_tanh",),
    "other functions": ("n_exp",),
    "Concat": ("n_both",),
    "MaxPool, Reshape and what else moves": ("n_largest", "n_flat"),
}
MOVING = 2
"""Nodes of the last column: they follow their inputs, so that they are changed by themselves."""

SETTINGS = (
    ("schema", "symmetric_with_power2_scale"),
    ("calibration", "percentile"),
    ("weights", "int4"),
    ("weights", "compressed"),
    ("weights", "int16"),
    ("weights_schema", "asymmetric"),
    ("weights_calibration", "percentile"),
    ("per_channel", False),
    ("bias", "int8"),
    ("bias_correction", False),
    ("requantization", "glow"),
    ("requantization", "tflite"),
)
DTYPES = ("int8", "int16")
PERCENTILE = 60.0
"""A clip so low that it clips all observed values."""


class Stop(Exception):
    """After the stage that was asked for."""


def network() -> Any:
    nodes = [
        node("Conv", "x w b", "conv", pads=[1, 1, 1, 1]),
        node("Relu", "conv", "relu"),
        node("BatchNormalization", "relu gamma beta mu var", "norm"),
        node("ConvTranspose", "norm up_w up_b", "up", strides=[2, 2]),
        node("MaxPool", "up", "largest", kernel_shape=[2, 2], strides=[2, 2]),
        node("AveragePool", "up", "mean", kernel_shape=[2, 2], strides=[2, 2]),
        node("Tanh", "mean", "tanh"),
        node("Exp", "tanh", "exp"),
        node("Add", "largest exp", "sum"),
        node("Mul", "sum mean", "product"),
        node("Concat", "sum product", "both", axis=1),
        node("Flatten", "both", "flat"),
        node("Gemm", "flat w2 b2", "dense"),
        node("Softmax", "dense", "y"),
    ]
    constants = {
        "w": weights(4, 3, 3, 3), "b": weights(4), "up_w": weights(4, 4, 2, 2), "up_b": weights(4, seed=5), "w2": weights(128, 6), "b2": weights(6),
        "gamma": weights(4, seed=2), "beta": weights(4, seed=3), "mu": weights(4, seed=4), "var": np.float32([1, 2, 3, 4]),
    }  # fmt: skip
    return model(nodes, {"x": (1, 3, 4, 4)}, constants)


class Compiled:
    """The kernel-level ops that lowering made of each node of the network, and the types of their outputs."""

    def __init__(self, path: Path, profile: Profile, config: Config) -> None:
        stages: dict[str, Graph] = {}

        def keep(stage: str, result: Any) -> None:
            stages[stage] = result
            if stage == "lower":
                raise Stop

        with pytest.raises(Stop):
            compile_model(
                path, path.with_name("unused"), CompileOptions(precision=config), None, profile, on_stage=keep
            )
        self.quantized, self.lowered = stages["quantize"], stages["lower"]

    def type(self, name: str) -> Any:
        return next(self.quantized.values[n.outputs[0]].qtype for n in self.quantized.nodes if n.name == name)

    def arithmetic(self, name: str) -> Any:
        made = [n for n in self.lowered.nodes if n.name == name or n.name.startswith(f"{name}/")]
        return [(n.op, n.params, [(k, c.materialize().tobytes()) for k, c in n.constants.items()]) for n in made]


def effects(folder: Path) -> dict[tuple[str, str], dict[str, list[str]]]:
    """(setting, value) -> node -> the dtypes in which a rule for this node alone changes it."""
    path, data = saved(network(), folder), folder / "data.npy"
    np.save(data, np.random.default_rng(0).normal(size=(4, 3, 4, 4)).astype(np.float32))
    profile = pipeline.profile_model(path, data, CompileOptions())
    graph = pipeline.import_model(path, CompileOptions())
    names = [name for column in COLUMNS.values() for name in column]
    found = {(s, str(v)): {name: list[str]() for name in names} for s, v in SETTINGS}
    for dtype in DTYPES:
        defaults = {"dtype": dtype, "percentile": PERCENTILE}
        plain = Compiled(path, profile, parse({"defaults": defaults}))
        for (setting, value), group in product(SETTINGS, (names[:-MOVING], names[-MOVING:])):
            rules = [{"name": n, setting: value} for n in group if possible(graph, dtype, {"name": n, setting: value})]
            other = Compiled(path, profile, parse({"defaults": defaults, "rules": rules})) if rules else plain
            look: Callable[[Compiled, str], Any] = Compiled.arithmetic
            if setting in ("schema", "calibration"):
                look = Compiled.type
            for name in (str(rule["name"]) for rule in rules):
                if look(plain, name) != look(other, name):
                    found[setting, str(value)][name].append(dtype)
    return found


def possible(graph: Graph, dtype: str, rule: dict[str, Any]) -> bool:
    try:
        resolve(graph, parse({"defaults": {"dtype": dtype}, "rules": [rule]}))
    except UsageError:
        return False
    return True


def test_the_table_of_settings_is_what_the_code_does(tmp_path: Path) -> None:
    found = effects(tmp_path)
    lines = [f"| setting | {' | '.join(COLUMNS)} |", "|---|" + "---|" * len(COLUMNS)]
    for (setting, value), by_node in found.items():
        cells = []
        for column, names in COLUMNS.items():
            kinds = {tuple(by_node[name]) for name in names}
            assert len(kinds) == 1, f"{setting} {value}: {column} differ: {by_node}"
            cells.append(", ".join(kinds.pop()) or "-")
        value = {"False": "off" if setting == "bias_correction" else "false"}.get(value, value)
        lines.append(f"| `{setting}: {value}` | {' | '.join(cells)} |")
    assert "\n".join(lines) in DOCS.read_text("utf-8"), "the table must be:\n" + "\n".join(lines)
