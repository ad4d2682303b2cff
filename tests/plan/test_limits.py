"""Long tensors, many nodes and hostile graphs: every compilation ends within bounds of time and memory, with a proved
plan or a message.

The plans are proved by replay in `compile_model`; the bundles run on the host and give the bits of the reference.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from small_models import model, node, saved, weights

from glowembed.errors import UnsupportedModelError
from glowembed.graph import limits
from glowembed.graph.ir import Array
from glowembed.pipeline import CompileOptions, compile_model, load_bundle
from glowembed.ranges.datasets import Dataset
from glowembed.read import importer
from glowembed.reference import run_int
from glowembed.run.host import HostModel

Shape = Sequence[int]

GIGABYTES, SECONDS = 2, 60
"""Limits of a compilation; each of these cases once took up to 36 GB, or minutes."""


def chain(count: int) -> onnx.ModelProto:
    nodes = [node("Relu" if i % 2 else "Sigmoid", f"t{i}" if i else "x", f"t{i + 1}") for i in range(count)]
    return model(nodes, {"x": [1, 4]}, outputs=[f"t{count}"])


def branches(count: int) -> onnx.ModelProto:
    nodes = [node("Mul", f"x c{i}", f"b{i}") for i in range(count)]
    sums = [node("Add", f"{f's{i - 1}' if i > 1 else 'b0'} b{i}", f"s{i}") for i in range(1, count)]
    constants = {f"c{i}": weights(1, 4, 1, seed=i) for i in range(count)}
    return model([*nodes, *sums], {"x": [1, 4, 5]}, constants, [f"s{count - 1}"])


def apart(count: int) -> onnx.ModelProto:
    """Nodes of which none reads another one, with an input and an output each of many short rows."""
    nodes = [node("Transpose", f"x{i}", f"y{i}", perm=[0, 2, 1]) for i in range(count)]
    return model(nodes, {f"x{i}": [1, 64, 64] for i in range(count)}, outputs=[f"y{i}" for i in range(count)])


def gated(length: int) -> onnx.ModelProto:
    """Gates of a long signal, which look like those of a recurrent layer."""
    nodes = [node("Conv", "x w", "a", pads=[1, 1]), node("Tanh", "a", "b"), node("Conv", "b w", "c", pads=[1, 1])]
    nodes += [node("Tanh", "c", "d"), node("Sigmoid", "c", "s"), node("Mul", "d s", "y")]
    return model(nodes, {"x": [1, 2, length]}, {"w": weights(2, 2, 3)})


def one(op: str, shape: Shape, constants: Mapping[str, Array] | None = None, **attrs: Any) -> onnx.ModelProto:
    names = " ".join(["x", *(constants or {})])
    return model([node(op, names, "y", **attrs)], {"x": list(shape)}, constants)


def residual(shape: Shape) -> onnx.ModelProto:
    nodes = [node("Relu", "x", "a"), node("Sigmoid", "x", "b"), node("Add", "a b", "y")]
    return model(nodes, {"x": list(shape)})


def detector() -> onnx.ModelProto:
    """Depthwise separable layers on 240x320, with heads at three of them."""
    nodes, constants, outputs, at, channels = [], {}, [], "x", 3

    def conv(x: str, y: str, width: int, kernel: int, stride: int = 1, group: int = 1) -> str:
        constants[f"w_{y}"] = weights(width, channels // group, kernel, kernel, seed=len(nodes))
        pads = [kernel // 2] * 4
        nodes.append(node("Conv", f"{x} w_{y}", y, pads=pads, strides=[stride] * 2, group=group))
        return y

    for i, width in enumerate((8, 16, 16, 32, 32, 64, 64)):
        at = conv(at, f"d{i}", channels, 3, 2 if i % 2 == 0 else 1, channels)
        at, channels = conv(at, f"p{i}", width, 1), width
        nodes.append(node("Relu", at, f"r{i}"))
        at = f"r{i}"
        if i in (2, 4, 6):
            outputs += [conv(at, f"classes{i}", 6, 3), conv(at, f"boxes{i}", 12, 3)]
    return model(nodes, {"x": [1, 3, 240, 320]}, constants, outputs)


MODELS = {
    "MatMul over the last axis": lambda: one("MatMul", [1, 4, 100_000], {"w": weights(100_000, 2)}),
    "MatMul of many rows": lambda: one("MatMul", [1, 220_000, 2], {"w": weights(2, 2)}),
    "Conv1d": lambda: one("Conv", [1, 2, 100_000], {"w": weights(2, 2, 3)}, pads=[1, 1]),
    "gates of a long signal": lambda: gated(100_000),
    "Conv over the height": lambda: one("Conv", [1, 2, 100_000, 1], {"w": weights(2, 2, 3, 1)}, pads=[1, 0, 1, 0]),
    "MaxPool of steps of 1": lambda: one("MaxPool", [1, 1, 220_000], kernel_shape=[3]),
    "AveragePool over the height": lambda: one("AveragePool", [1, 2, 100_000, 1], kernel_shape=[2, 1], strides=[2, 1]),
    "GlobalAveragePool": lambda: one("GlobalAveragePool", [1, 2, 220_000]),
    "Softmax over all": lambda: one("Softmax", [1, 100_000], axis=-1),
    "Softmax of many rows": lambda: one("Softmax", [1, 100_000, 2], axis=-1),
    "Transpose": lambda: one("Transpose", [1, 4, 100_000], perm=[0, 2, 1]),
    "Transpose back": lambda: one("Transpose", [1, 100_000, 4], perm=[0, 2, 1]),
    "Add of long rows": lambda: residual([1, 2, 100_000]),
    "Add of many rows": lambda: residual([1, 100_000, 2]),
    "a face detector": detector,
    "a chain": lambda: chain(500),
    "branches": lambda: branches(100),
    "nodes apart": lambda: apart(30),
}


def samples(proto: onnx.ModelProto) -> Dataset:
    shapes = {i.name: tuple(d.dim_value for d in i.type.tensor_type.shape.dim) for i in proto.graph.input}
    random = np.random.default_rng(3)
    arrays = {name: random.normal(size=(1, *shape[1:])).astype(np.float32) for name, shape in shapes.items()}
    return Dataset(arrays, shapes=shapes)


def compile_all(folder: Path) -> None:
    """The child process: it compiles each model within its limits."""
    resource.setrlimit(resource.RLIMIT_AS, (GIGABYTES << 30, GIGABYTES << 30))
    for name, make in MODELS.items():
        proto, place = make(), folder / name
        place.mkdir()
        resource.setrlimit(resource.RLIMIT_CPU, (int(used()) + SECONDS, resource.RLIM_INFINITY))
        bundle = compile_model(saved(proto, place), place / "bundle", CompileOptions("generic"), samples(proto))
        print(f"{name}: {[n.text for n in bundle.notes if n.code == 'simpler-plan']}")
    print("done")


def used() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


@pytest.mark.cc
def test_all_are_compiled_within_their_limits(tmp_path: Path) -> None:
    """Notes name the simpler plans, and two of the bundles give the bits of the reference. One test, because the child process takes long."""
    command = [
        sys.executable,
        "-c",
        f"import test_limits, pathlib; test_limits.compile_all(pathlib.Path({str(tmp_path)!r}))",
    ]
    here = Path(__file__).resolve().parent
    environment = {**os.environ, "PYTHONPATH": str(here.parent / "helpers")}
    child = subprocess.run(command, capture_output=True, text=True, cwd=here, env=environment, check=False)
    assert child.returncode == 0 and "done" in child.stdout, child.stdout + child.stderr
    lines = dict(line.split(": ", 1) for line in child.stdout.splitlines() if ": " in line)
    assert "more than 2048 rows, because it has 100000" in lines["Add of many rows"]
    assert "row by row, because model has 500 nodes" in lines["a chain"]
    assert lines["a face detector"] == "[]"
    for name in ("MatMul over the last axis", "MatMul of many rows"):
        right_on_the_host(tmp_path / name / "bundle")


def right_on_the_host(bundle: Path) -> None:
    loaded, graph = HostModel(bundle), load_bundle(bundle).graph
    value = graph.values[graph.inputs[0]]
    inputs = {value.name: np.random.default_rng(1).integers(-128, 128, value.shape).astype(np.int8)}
    expected, found = run_int(graph, inputs), loaded.run_stored(inputs)
    for output in graph.outputs:
        np.testing.assert_array_equal(found[output].reshape(-1), expected[output].reshape(-1), err_msg=output)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: one("Relu", [1, 1 << 14, 1 << 14]), "more than 134217728"),
        (lambda: chain(limits.NODES + 1), "has 10001 nodes, more than 10000"),
    ],
)
def test_refused_in_words(make: Any, words: str, tmp_path: Path) -> None:
    proto = make()
    with pytest.raises(UnsupportedModelError, match=words):
        compile_model(saved(proto, tmp_path), tmp_path / "bundle", CompileOptions("x86-64"))


def test_an_arena_that_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "ARENA", 1000)
    for size, fits in ((1000, True), (1001, False)):
        proto = one("Softmax", [1, size], axis=-1)
        place = tmp_path / str(size)
        place.mkdir()
        with (
            nullcontext()
            if fits
            else pytest.raises(UnsupportedModelError, match="more than 1000; most is alive in 'n_y'")
        ):
            compile_model(saved(proto, place), place / "bundle", CompileOptions("generic"), samples(proto))


def test_small_files_whose_constants_are_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each constant alone is within its limit; the third is too much for all."""
    nodes = [node("ConstantOfShape", "s", f"c{i}") for i in range(3)]
    sums = [node("Add", f"{a} c{i}", b) for i, (a, b) in enumerate((("x", "a"), ("a", "b"), ("b", "y")))]
    path = saved(model([*nodes, *sums], {"x": [1, 40]}, {"s": np.array([1, 40])}), tmp_path)
    monkeypatch.setattr(limits, "FOLDED_IN_ALL", 120)
    importer.load(path)
    monkeypatch.setattr(limits, "FOLDED_IN_ALL", 119)
    with pytest.raises(
        UnsupportedModelError, match=r"ConstantOfShape 'n_c2': with its result, 120 elements .* more than 119"
    ):
        importer.load(path)
