"""Normalizations that exporters write out as several nodes are read as one operator; all values agree with onnxruntime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from small_models import canonical, model, node, saved, weights

from glowembed.graph.plan import PlanOptions
from glowembed.judge import compare
from glowembed.judge.tune import integer_outputs
from glowembed.judge.validation import samples_for
from glowembed.pipeline import CompileOptions, compile_model

Nodes = list[onnx.NodeProto]

CONSTANTS = {
    "two": 2.0, "half": 0.5, "minus_half": -0.5, "one": 1.0, "eps": 1e-5, "last": [-1], "third": [3], "both": [-2, -1],
    "g": weights(8) + 1, "b": weights(8, seed=2), "g2": weights(4, 8) + 1, "b2": weights(1, 4, 8, seed=2), "four": 4.0,
    "groups": [0, 3, -1], "ones": np.ones(3, np.float32), "zeros": np.zeros(3, np.float32), "gc": weights(6, 1, 1) + 1,
    "bc": weights(6, 1, 1, seed=2), "shape": [1, 6, 4, 8], "other_shape": [1, 4, 6, 8], "channels": [1], "sixth": 1 / 6, "zero": 0.0, "tiny": 1e-12, "pads": [0, 0, 0, 0, 0, 0], "all": [8], "six": 6.0,
    "rows": [1, 1, 4, 8], "lowest": -np.inf, "squares": [12, 4, 4], "square": [12, 1, 4], "ends": [1, 6, 4, 1], "quarter": 0.25, "columns": [1, 6, 1, 8], "rows_last": [1, 6, 4, 1],
}  # fmt: skip

VARIANCE = [
    node("ReduceMean", "x", "m", axes=[-1]), node("Sub", "x m", "d"), node("Pow", "d two", "q"),
    node("ReduceMean", "q", "v", axes=[-1]), node("Add", "v eps", "e"),
]  # fmt: skip
SQUARES = [node("Pow", "x two", "q"), node("ReduceMean", "q", "v", axes=[-1]), node("Add", "v eps", "e")]
SCALED = [node("Mul", "n g", "s"), node("Add", "s b", "y")]
GROUPS = [node("Reshape", "x groups", "r"), node("InstanceNormalization", "r ones zeros", "i")]

FAST = [
    node("ReduceSum", "x channels", "t", keepdims=0), node("Mul", "t sixth", "m"), node("Mul", "x x", "q"),
    node("ReduceSum", "q channels", "u", keepdims=0), node("Div", "u six", "p"), node("Mul", "m m", "mm"), node("Sub", "p mm", "v0"),
    node("Max", "zero v0", "v"), node("Reshape", "v rows", "v1"), node("Add", "v1 eps", "e"), node("Sqrt", "e", "w0"),
    node("Reciprocal", "w0", "w"), node("Reshape", "m rows", "m1"), node("Expand", "m1 shape", "m2"), node("Sub", "x m2", "d"),
]  # fmt: skip
"""The variance as the mean of squares less the square of the mean, over the channels, as Flax writes it."""

WRITTEN_OUT: dict[str, tuple[Nodes, int]] = {
    "Flax, over the channels": ([*FAST, node("Mul", "w gc", "k"), node("Mul", "d k", "n"), node("Add", "n bc", "y")], 17),
    "Flax, without a scale": ([*FAST, node("Mul", "d w", "y")], 17),
    "Keras": (
        [*VARIANCE, node("Sqrt", "e", "w0"), node("Reciprocal", "w0", "w"), node("Mul", "w g", "k"), node("Mul", "x k", "p"),
         node("Mul", "m k", "t"), node("Sub", "b t", "r"), node("Add", "p r", "y")], 13,
    ),
    "over the channels": (
        [node("ReduceMean", "x", "m", axes=[1]), node("Sub", "x m", "d"), node("Pow", "d two", "q"), node("ReduceMean", "q", "v", axes=[1]),
         node("Add", "v eps", "e"), node("Sqrt", "e", "w"), node("Div", "d w", "n"), node("Mul", "gc n", "s"), node("Add", "s bc", "y")], 13,
    ),
    "RMS over the channels": (
        [node("Mul", "x x", "q"), node("ReduceMean", "q", "v", axes=[1]), node("Add", "v eps", "e"), node("Sqrt", "e", "w"),
         node("Reciprocal", "w", "w1"), node("Mul", "w1 gc", "k"), node("Mul", "x k", "y")], 13,
    ),
    "torch": ([*VARIANCE, node("Sqrt", "e", "w"), node("Div", "d w", "n"), *SCALED], 13),
    "torch, axes as inputs": (
        [node("ReduceMean", "x third", "m"), node("Sub", "x m", "d"), node("Pow", "d two", "q"),
         node("ReduceMean", "q third", "v"), node("Add", "eps v", "e"), node("Sqrt", "e", "w"), node("Div", "d w", "n"), *SCALED], 18,
    ),
    "two differences, a product": (
        [node("ReduceMean", "x", "m", axes=[-1]), node("Sub", "x m", "d"), node("Sub", "x m", "d2"), node("Mul", "d2 d2", "q"),
         node("ReduceMean", "q", "v", axes=[-1]), node("Add", "v eps", "e"), node("Sqrt", "e", "w"), node("Div", "d w", "n"), *SCALED], 13,
    ),
    "a reciprocal": ([*VARIANCE, node("Sqrt", "e", "w"), node("Reciprocal", "w", "w1"), node("Mul", "d w1", "n"), *SCALED], 13),
    "one over": ([*VARIANCE, node("Sqrt", "e", "w"), node("Div", "one w", "w1"), node("Mul", "w1 d", "n"), *SCALED], 13),
    "powers": ([*VARIANCE, node("Pow", "e minus_half", "w"), node("Mul", "d w", "n"), *SCALED], 13),
    "over two axes": (
        [node("ReduceMean", "x", "m", axes=[-2, -1]), node("Sub", "x m", "d"), node("Pow", "d two", "q"),
         node("ReduceMean", "q", "v", axes=[-1, -2]), node("Add", "v eps", "e"), node("Pow", "e half", "w"), node("Div", "d w", "n"),
         node("Mul", "n g2", "s"), node("Add", "s b2", "y")], 13,
    ),
    "without a scale": ([*VARIANCE, node("Sqrt", "e", "w"), node("Div", "d w", "y")], 13),
    "shift only": ([*VARIANCE, node("Sqrt", "e", "w"), node("Div", "d w", "n"), node("Add", "n b", "y")], 13),
    "constants as nodes": (
        [onnx.helper.make_node("Constant", [], ["k"], value_float=2.0), onnx.helper.make_node("Constant", [], ["k1"], value_float=1e-5),
         node("ReduceMean", "x", "m", axes=[-1]), node("Sub", "x m", "d"), node("Pow", "d k", "q"), node("ReduceMean", "q", "v", axes=[-1]),
         node("Add", "v k1", "e"), node("Sqrt", "e", "w"), node("Div", "d w", "n"), *SCALED], 13,
    ),
    "RMS": ([*SQUARES, node("Sqrt", "e", "w"), node("Reciprocal", "w", "w1"), node("Mul", "x w1", "n"), node("Mul", "g n", "y")], 13),
    "RMS, divided": ([*[n for n in SQUARES if n.op_type != "ReduceMean"], node("ReduceMean", "q last", "v"), node("Sqrt", "e", "w"),
                      node("Div", "x w", "n"), node("Mul", "n g", "y")], 18),
    "a norm, torch": ([node("ReduceL2", "x", "m", axes=[1]), node("Clip", "m tiny", "c"), node("Expand", "c shape", "w"), node("Div", "x w", "y")], 13),
    "a norm behind the padding of TorchScript": (
        [node("Shape", "pads", "s"), node("Sub", "all s", "rest"), node("Cast", "rest", "count", to=7), node("ConstantOfShape", "count", "more"),
         node("Cast", "more", "more1", to=7), node("Concat", "pads more1", "p", axis=0), node("Pad", "x p", "x1"), node("ReduceL2", "x1", "m", axes=[-1]),
         node("Clip", "m tiny", "c"), node("Shape", "x1", "sh"), node("Expand", "c sh", "w"), node("Div", "x1 w", "y")], 13,
    ),
    "a norm, TensorFlow": (
        [node("Mul", "x x", "q"), node("ReduceSum", "q last", "t"), node("Max", "t tiny", "c"), node("Sqrt", "c", "w0"),
         node("Reciprocal", "w0", "w"), node("Mul", "x w", "y")], 13,
    ),
    "groups": ([*GROUPS, node("Shape", "x", "sh"), node("Reshape", "i sh", "n"), node("Mul", "n gc", "s"), node("Add", "s bc", "y")], 13),
    "groups, a constant shape": ([*GROUPS, node("Reshape", "i shape", "n"), node("Mul", "n gc", "s"), node("Add", "s bc", "y")], 13),
    "groups without a scale": ([*GROUPS, node("Reshape", "i shape", "y")], 13),
}  # fmt: skip


POWERS = [node("ReduceMax", "x", "a", axes=[-1]), node("Sub", "x a", "l"), node("Exp", "l", "p")]
SOFTMAXES: dict[str, Nodes] = {
    "a quotient": [*POWERS, node("ReduceSum", "p last", "t"), node("Div", "p t", "y")],
    "a reciprocal": [*POWERS, node("ReduceSum", "p last", "t"), node("Reciprocal", "t", "t1"), node("Mul", "p t1", "y")],
    "JAX": [
        node("ReduceMax", "x", "a0", axes=[3], keepdims=0), node("Max", "lowest a0", "a1"), node("Reshape", "a1 ends", "a2"),
        node("Expand", "a2 shape", "a"), *POWERS[1:], node("ReduceSum", "p third", "t0", keepdims=0), node("Reshape", "t0 ends", "t1"),
        node("Expand", "t1 shape", "t"), node("Div", "p t", "y"),
    ],
    "of logarithms": [node("ReduceLogSumExp", "x", "a", axes=[3]), *POWERS[1:2], node("Exp", "l", "y")],
    "of the channels": [
        node("ReduceMax", "x", "a", axes=[1]), *POWERS[1:], node("ReduceSum", "p channels", "t"), node("Div", "p t", "y"),
    ],
}  # fmt: skip


def proto(nodes: Nodes, opset: int, outputs: tuple[str, ...] = ("y",)) -> onnx.ModelProto:
    read = {name for one in nodes for name in one.input}
    constants = {n: a for n, a in CONSTANTS.items() if n in read}
    return model(_ordered(nodes), {"x": (1, 6, 4, 8)}, constants, outputs, opset)


def _ordered(nodes: Nodes) -> Nodes:
    done, rest, order = {"x", *CONSTANTS}, list(nodes), []
    while rest:
        one = next(n for n in rest if done.issuperset(n.input))
        rest.remove(one)
        order.append(one)
        done.update(one.output)
    return order


@pytest.mark.parametrize(
    ("op", "name"), [*(("Normalization", n) for n in WRITTEN_OUT), *(("Softmax", n) for n in SOFTMAXES)]
)
def test_it_is_one_operator_near_onnxruntime(op: str, name: str, tmp_path: Path) -> None:
    nodes, opset = WRITTEN_OUT[name] if op == "Normalization" else (SOFTMAXES[name], 17)
    made = proto(nodes, opset)
    ops = [n.op for n in canonical(made, tmp_path, twice=False).nodes if n.op not in ("Transpose", "Reshape")]
    assert ops == [op]
    x = np.random.default_rng(4).standard_normal((16, 6, 4, 8)).astype(np.float32)
    np.savez(tmp_path / "d.npz", calib_x=x, test_x=x[::-1])
    path = saved(made, tmp_path)
    bundle = compile_model(path, tmp_path / "bundle", CompileOptions(plan=PlanOptions("greedy")), tmp_path / "d.npz")
    assert not any(n.op == "nest" for n in bundle.graph.nodes)
    dataset = samples_for(bundle, tmp_path / "d.npz")
    theirs, ours = compare.run_onnxruntime(path, dataset)["y"], integer_outputs(bundle.graph, dataset)["y"]
    assert compare.output_metrics("y", theirs, ours).sqnr_db > 32


OTHERS: dict[str, tuple[Nodes, int]] = {
    "a mean that is spread over other rows": (
        [node("ReduceMean", "s0", "m0", axes=[2], keepdims=0), node("Reshape", "m0 square", "m"), node("Sub", "s0 m", "d"),
         node("Pow", "d two", "q"), node("ReduceMean", "q", "v", axes=[2]), node("Add", "v eps", "e"), node("Sqrt", "e", "w"),
         node("Div", "d w", "y0"), node("Reshape", "x squares", "s0"), node("Reshape", "y0 shape", "y")], 13,
    ),
    "a sum that is no mean": ([*[n for n in FAST if n.output[0] != "m"], node("Mul", "t quarter", "m"), node("Mul", "d w", "y")], 17),
    "a limit of the variance above 0": (
        [*[n for n in FAST if n.output[0] != "v"], node("Max", "one v0", "v"), node("Mul", "d w", "y")], 17,
    ),
    "a shift by another mean": (
        [*VARIANCE, node("Sqrt", "e", "w0"), node("Reciprocal", "w0", "w"), node("Mul", "w g", "k"), node("Mul", "x k", "p"),
         node("Mul", "v k", "t"), node("Sub", "b t", "r"), node("Add", "p r", "y")], 13,
    ),
    "another power": ([*VARIANCE[:2], node("Pow", "d four", "q"), *VARIANCE[3:], node("Sqrt", "e", "w"), node("Div", "d w", "y")], 13),
    "the mean of another axis": (
        [node("ReduceMean", "x", "m", axes=[1]), *VARIANCE[1:], node("Sqrt", "e", "w"), node("Div", "d w", "y")], 13,
    ),
    "a norm with a limit": ([node("ReduceL2", "x", "m", axes=[-1]), node("Clip", "m one", "w"), node("Div", "x w", "y")], 13),
    "a norm with an upper limit": ([node("ReduceL2", "x", "m", axes=[-1]), node("Clip", "m tiny one", "w"), node("Div", "x w", "y")], 13),
    "a computed epsilon": ([*VARIANCE[:-1], node("Add", "v m", "e"), node("Abs", "e", "a"), node("Sqrt", "a", "w"), node("Div", "d w", "y")], 13),
    "another difference": ([*VARIANCE, node("Sqrt", "e", "w"), node("Sub", "m x", "o"), node("Div", "o w", "y")], 13),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_no_normalization_stays(name: str, tmp_path: Path) -> None:
    nodes, opset = OTHERS[name]
    graph = canonical(proto(nodes, opset), tmp_path, twice=False)
    assert "Normalization" not in {n.op for n in graph.nodes} or name == "the mean of another axis"


def test_a_value_that_something_else_reads_remains(tmp_path: Path) -> None:
    nodes, opset = WRITTEN_OUT["torch"]
    graph = canonical(proto([*nodes, node("Relu", "v", "z")], opset, ("y", "z", "n")), tmp_path, twice=False)
    assert "Normalization" in {n.op for n in graph.nodes} and {"y", "z", "n"} <= set(graph.outputs)
