"""LSTM, GRU and RNN in integers: every form through the op checker, accuracy of whole sequences, refusals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from checker import Case, case, check_op, imported, one_node_model
from kernel_checker import check_kernels
from onnx import helper, numpy_helper
from small_models import saved

from glowembed.errors import UnsupportedModelError, UsageError
from glowembed.lower.nodes import lower
from glowembed.options.table import CompileOptions
from glowembed.pipeline import compile_model
from glowembed.quantize.types import quantize
from glowembed.reference import run_float, run_int

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
RNG = np.random.default_rng(5)


def normal(*shape: int, scale: float = 0.7) -> Any:
    return (RNG.standard_normal(shape) * scale).astype(np.float32)


def recurrent(
    name: str,
    op: str,
    steps: int = 4,
    batch: int = 1,
    features: int = 3,
    hidden: int = 4,
    given: str = "B",
    **attrs: Any,
) -> Case:
    """A node whose weights are constants, and so are the inputs that `given` names."""
    count, rows = 2 if attrs.get("direction") == "bidirectional" else 1, GATES[op]
    first = attrs.get("layout", 0) == 1
    state = (batch, count, hidden) if first else (count, batch, hidden)
    arrays = {
        "B": normal(count, 2 * rows * hidden), "lengths": np.arange(steps, steps - batch, -1).astype(np.int32),
        "h": np.clip(normal(*state), -0.9, 0.9), "c": normal(*state), "P": normal(count, 3 * hidden),
    }  # fmt: skip
    names = [*arrays][: 5 if op == "LSTM" else 3]
    inputs = [arrays[n] if n in given.split() else (state if f"{n}?" in given.split() else None) for n in names]
    x = (batch, steps, features) if first else (steps, batch, features)
    weights = [normal(count, rows * hidden, inputs_of) for inputs_of in (features, hidden)]
    # a row of one weight near 0 has a scale for which its bias is too large, and is refused
    weights = [np.where(np.abs(w) < 0.01, np.float32(0.01), w) for w in weights]
    return case(name, op, x, *weights, *inputs, hidden_size=hidden, low=-1.0, high=1.0, **attrs)


ACTIVATED = {
    "activations": ["HardSigmoid", "ScaledTanh", "Sigmoid"],
    "activation_alpha": [0.3, 0.9],
    "activation_beta": [0.4, 1.2],
}

CASES = [
    *(recurrent(f"{op} of one unit, one input, one step", op, 1, 1, 1, 1) for op in GATES),
    recurrent("LSTM, odd sizes", "LSTM", 3, 1, 5, 7),
    recurrent("LSTM, all of it", "LSTM", 4, 2, given="B lengths h c P", direction="bidirectional", clip=1.5, outputs=3),
    recurrent("LSTM, reverse, Y_h", "LSTM", direction="reverse", outputs=2, input_forget=1),
    recurrent("LSTM, states as inputs", "LSTM", 1, given="B h? c?", outputs=3),
    recurrent("LSTM, activations", "LSTM", **ACTIVATED),
    recurrent("GRU, odd sizes", "GRU", 3, 1, 5, 7, linear_before_reset=1),
    recurrent("GRU, reset first", "GRU", 4, 2, given="B lengths h", direction="bidirectional", outputs=2, clip=1.2),
    recurrent("GRU, reset first, nine units", "GRU", 3, features=5, hidden=9, given="B h?"),
    recurrent("GRU, bidirectional", "GRU", 5, direction="bidirectional", given="B h?", linear_before_reset=1, outputs=2),
    recurrent("RNN, bidirectional", "RNN", 4, 3, given="B h", direction="bidirectional", outputs=2,
              activations=["HardSigmoid", "Softsign"]),
    recurrent("LSTM, vectors beyond the registers", "LSTM", 2, features=66, hidden=67, outputs=2),
    recurrent("GRU, many units", "GRU", 2, features=41, hidden=33, linear_before_reset=1),
]  # fmt: skip


def random_case(chance: Any) -> Case:
    op, sizes = chance.choice(("LSTM", "LSTM", "GRU", "GRU", "RNN")), (1, 2, 3, 4, 8, 13, 20)
    forms = ({}, {"direction": "reverse"}, {"direction": "bidirectional"})
    attrs = {**chance.choice(forms), **({"linear_before_reset": chance.choice((0, 1))} if op == "GRU" else {})}
    return recurrent("node", op, chance.choice((1, 3)), 1, chance.choice(sizes), chance.choice(sizes), **attrs)


SMALL = tuple(recurrent(f"small {op}", op, 2, 1, 2, 2) for op in GATES)


@pytest.mark.parametrize("which", CASES, ids=str)
def test_in_int8(which: Case) -> None:
    check_op(which, steps=5.0)


@pytest.mark.parametrize("weights", ["int8", "int16"])
@pytest.mark.parametrize("which", [CASES[1], CASES[4], CASES[8], CASES[10]], ids=str)
def test_in_int16(which: Case, weights: str) -> None:
    check_op(which, steps=60.0, settings={"dtype": "int16", "weights": weights})


@pytest.mark.parametrize("which", [CASES[4], CASES[9]], ids=str)
def test_in_float32(which: Case) -> None:
    check_op(which, settings={"dtype": "float32"})


def test_batch_first() -> None:
    """layout = 1, which onnxruntime does not have, gives what layout = 0 gives with other axes."""
    last = recurrent("first", "LSTM", 3, 2, given="h c", layout=1, outputs=3, direction="bidirectional")
    states = [np.swapaxes(a, 0, 1) for a in last.inputs[5:7]]
    first = replace(last, inputs=((3, 2, 3), *last.inputs[1:5], *states), attrs={**last.attrs, "layout": 0})
    graph, twin = (imported(one_node_model(which)) for which in (last, first))
    x = normal(2, 3, 3)
    floats = [run_float(graph, {"x0": x}), run_float(twin, {"x0": np.swapaxes(x, 0, 1)})]
    ranges = {n: (float(a.min()), float(a.max())) for n, a in floats[0].items()}
    lowered = [lower(quantize(g, lambda name, _: ranges[name])) for g in (graph, twin)]
    stored = lowered[0].values["x0"].qtype.quantize(x)
    found = [run_int(lowered[0], {"x0": stored}), run_int(lowered[1], {"x0": np.swapaxes(stored, 0, 1)})]
    for values in (floats, found):
        np.testing.assert_allclose(values[0]["y0"], np.transpose(values[1]["y0"], (2, 0, 1, 3)), atol=1e-6)
        for name in ("y1", "y2"):
            np.testing.assert_allclose(values[0][name], np.swapaxes(values[1][name], 0, 1), atol=1e-6)
    for node in lowered[0].nodes:
        if node.op == "recurrent_s8":
            check_kernels(node, lowered[0], np.random.default_rng(1), known=0, thorough=False)


@pytest.mark.parametrize("op", GATES)
def test_arguments_far_beyond_int16(op: str) -> None:
    """Products exceed int16 in both directions; all kernels saturate the same numbers at the same steps."""
    rows, rng = GATES[op], np.random.default_rng(4)
    weights = [rng.normal(size=(1, rows * 6, n)).astype(np.float32) * 20 for n in (5, 6)]
    before = {"linear_before_reset": 1} if op == "GRU" else {}
    graph = imported(one_node_model(case("large", op, (6, 1, 5), *weights, hidden_size=6, **before)))
    typed = quantize(graph, lambda name, _: (-1.0, 1.0))
    typed = typed.with_nodes(replace(n, attrs={**n.attrs, "arguments": (-1.0, 1.0)}) for n in typed.nodes)
    lowered = lower(typed)
    for node in lowered.nodes:
        if node.op == "recurrent_s8":
            check_kernels(node, lowered, np.random.default_rng(1), known=0, thorough=False)


def without(which: Case, *dropped: int) -> Any:
    """The lowered graph of a node without these outputs."""
    proto = one_node_model(which)
    for i in sorted(dropped, reverse=True):
        proto.graph.node[0].output[i] = ""
        del proto.graph.output[i]
    while not proto.graph.node[0].output[-1]:
        del proto.graph.node[0].output[-1]
    return lower(quantize(imported(proto), lambda name, _: (-1.0, 1.0)))


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_states_and_cell_of_one_run_are_computed_once(direction: str, batch: int) -> None:
    """The bits are those of two nodes, of which one has only the states as its result, and the other only the cell."""
    which = recurrent("both", "LSTM", 3, batch, given="B h", outputs=3, direction=direction)
    alone = {"y0": without(which, 1, 2), "y1": without(which, 0, 2), "y2": without(which, 0, 1)}
    x = alone["y0"].values["x0"].qtype.quantize(normal(3, batch, 3))
    bits = {name: run_int(graph, {"x0": x})[name] for name, graph in alone.items()}
    for graph, result in ((without(which), 3), (without(which, 0), 4)):
        made = [n for n in graph.nodes if n.op == "recurrent_s8"]
        assert [n.params.result for n in made] == [result]
        check_kernels(made[0], graph, np.random.default_rng(1), ("random",), known=0, thorough=False)
        found = run_int(graph, {"x0": x})
        for name in graph.outputs:
            np.testing.assert_array_equal(found[name], bits[name])


def network(
    op: str, layers: int = 2, steps: int = 20, features: int = 6, hidden: int = 12, **attrs: Any
) -> onnx.ModelProto:
    """Layers as torch exports them with batch_first: Transposes around, Y squeezed, states of zeros."""
    rng, nodes, constants = np.random.default_rng(11), [], {}
    nodes.append(helper.make_node("Transpose", ["x"], ["t"], perm=[1, 0, 2]))
    count, rows, x, size = (2 if attrs.get("direction") == "bidirectional" else 1), GATES[op], "t", features
    for k in range(layers):
        shapes = {
            "W": (count, rows * hidden, size),
            "R": (count, rows * hidden, hidden),
            "B": (count, 2 * rows * hidden),
        }
        for name, shape in shapes.items():
            reach = 1.6 / np.sqrt(shape[-1]) if name != "B" else 0.2
            constants[f"{name}{k}"] = rng.uniform(-reach, reach, shape).astype(np.float32)
        constants[f"h{k}"] = np.zeros((count, 1, hidden), np.float32)
        inputs = [x, f"W{k}", f"R{k}", f"B{k}", "", f"h{k}"]
        outputs = [f"Y{k}", f"last{k}", f"cell{k}"][: 3 if op == "LSTM" else 2]
        nodes.append(helper.make_node(op, inputs, outputs, name=f"layer{k}", hidden_size=hidden, **attrs))
        nodes.append(helper.make_node("Transpose", [f"Y{k}"], [f"Z{k}"], perm=[0, 2, 1, 3]))
        nodes.append(helper.make_node("Reshape", [f"Z{k}", "flat"], [f"S{k}"]))
        x, size = f"S{k}", count * hidden
    constants["flat"] = np.asarray([0, 0, -1], np.int64)
    nodes.append(helper.make_node("Transpose", [x], ["y"], perm=[1, 0, 2]))
    given = [helper.make_tensor_value_info("x", 1, (1, steps, features))]
    made = [helper.make_tensor_value_info("y", 1, (1, steps, size))]
    initializers = [numpy_helper.from_array(a, n) for n, a in constants.items()]
    graph = helper.make_graph(nodes, "net", given, made, initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def smooth(samples: int, steps: int, features: int) -> Any:
    """Sequences that change slowly, as features of sounds do."""
    walk = np.cumsum(np.random.default_rng(7).standard_normal((samples, 1, steps, features)) * 0.4, axis=2)
    return np.clip(walk, -2, 2).astype(np.float32)


NETWORKS = {
    "LSTM": ("LSTM", {}, 30.0, 50.0),
    "bidirectional GRU": ("GRU", {"direction": "bidirectional", "linear_before_reset": 1}, 30.0, 50.0),
    "GRU, reset first": ("GRU", {}, 28.0, 50.0),
    "RNN": ("RNN", {}, 28.0, 50.0),
}
"""Operator, attributes, least SQNR in dB in int8 and in int16 with int16 weights."""


@pytest.mark.parametrize("which", NETWORKS)
def test_networks_keep_their_accuracy(which: str, tmp_path: Path) -> None:
    op, attrs, *least = NETWORKS[which]
    model = network(op, **attrs)
    samples = smooth(24, 20, 6)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    expected = np.stack([session.run(None, {"x": x})[0] for x in samples])
    np.savez(tmp_path / "data.npz", x=samples)
    for options, limit in zip(
        (CompileOptions(), CompileOptions(dtype="int16", weights_dtype="int16")), least, strict=True
    ):
        bundle = compile_model(saved(model, tmp_path), tmp_path / "bundle", options, data=tmp_path / "data.npz")
        assert not {n.op for n in bundle.graph.nodes} & {"nest", "copy_s8"} or attrs.get("direction")
        x, y = (bundle.graph.values[name] for name in (*bundle.graph.inputs, *bundle.graph.outputs))
        assert x.qtype is not None and y.qtype is not None
        found = [run_int(bundle.graph, {"x": x.qtype.quantize(s.reshape(x.shape))})["y"] for s in samples]
        error = np.stack([y.qtype.dequantize(f) for f in found]).reshape(expected.shape) - expected
        assert 10 * np.log10((expected**2).sum() / (error**2).sum()) > limit, options


def test_rules_for_weights_reach_recurrent_layers(tmp_path: Path) -> None:
    """int16 for one layer with int16 weights; weights of int16 in an int8 layer are an error that names the rule."""
    model, data = saved(network("GRU", layers=1), tmp_path), tmp_path / "data.npz"
    np.savez(data, x=smooth(4, 20, 6))
    rules = {
        "rules:\n- {op: GRU, dtype: int16, weights: int16}\n": "",
        "rules:\n- {op: GRU, weights: int16}\n": "weights of int16 need int16 layers",
    }
    for text, message in rules.items():
        (tmp_path / "precision.yaml").write_text(text)
        options = CompileOptions(precision=tmp_path / "precision.yaml")
        if not message:
            bundle = compile_model(model, tmp_path / "bundle", options, data=data)
            assert "recurrent_s16w" in {node.op for node in bundle.graph.nodes}
            continue
        with pytest.raises(UsageError, match=message):
            compile_model(model, tmp_path / "bundle", options, data=data)


WRONG = {
    "sequence_lens": ({4: np.asarray([9], np.int32)}, "sequence_lens are [9], and the input has 5 steps"),
    "initial_h": ({5: np.ones((1, 2, 4), np.float32)}, "initial_h has the shape [1, 2, 4], not [1, 1, 4]"),
    "initial_c": ({6: np.ones((1, 1, 5), np.float32)}, "initial_c has the shape [1, 1, 5], not [1, 1, 4]"),
    "P": ({7: np.ones((1, 4), np.float32)}, "P has the shape [1, 4], not [1, 12]"),
}


@pytest.mark.parametrize("which", WRONG)
def test_a_wrong_input_is_refused_by_name(which: str, tmp_path: Path) -> None:
    inputs, message = WRONG[which]
    arrays = {1: normal(1, 16, 3), 2: normal(1, 16, 4), **inputs}
    names = ["x", *(f"c{i}" if i in arrays else "" for i in range(1, 8))]
    node = helper.make_node("LSTM", names, ["y"], name="layer", hidden_size=4)
    graph = helper.make_graph(
        [node], "net", [helper.make_tensor_value_info("x", 1, (5, 1, 3))],
        [helper.make_tensor_value_info("y", 1, (5, 1, 1, 4))], [numpy_helper.from_array(a, f"c{i}") for i, a in arrays.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    options = CompileOptions(shapes={"x": (5, 1, 3)})
    with pytest.raises(UnsupportedModelError) as error:
        compile_model(saved(model, tmp_path), tmp_path / "bundle", options, data=tmp_path)
    assert message in str(error.value) and "layer" in str(error.value)
