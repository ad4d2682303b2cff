"""Small models for the fuzzers to begin with. In: a seed. Out: models of all operators, random networks, quantized forms."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import onnx
from checker import one_node_model
from onnx import TensorProto, helper
from quantized_forms import FORMS
from random_networks import branching, network
from random_nodes import CASES
from small_models import model, node, weights

IMAGE = {"x": (1, 3, 8, 8)}
FLAT = {"x": (1, 8)}
ROWS = {"x": (1, 4, 6)}
UNARY = (
    "Abs", "Ceil", "Celu", "Elu", "Erf", "Exp", "Floor", "HardSigmoid", "HardSwish", "LeakyRelu", "Log", "Mish", "Neg",
    "Reciprocal", "Relu", "Round", "Selu", "Sigmoid", "Softplus", "Softsign", "Sqrt", "Tanh", "ThresholdedRelu",
)  # fmt: skip


def _folded() -> onnx.ModelProto:
    """The x.view(x.size(0), -1) that exporters produce."""
    nodes = [
        node("Shape", "x", "s"), node("Gather", "s zero", "n", axis=0), node("Unsqueeze", "n axes", "n1"),
        node("Concat", "n1 rest", "shape", axis=0), node("Reshape", "x shape", "f"), node("Gemm", "f w b", "y", transB=1),
    ]  # fmt: skip
    constants = {"zero": 0, "axes": [0], "rest": [-1], "w": weights(5, 192), "b": weights(5)}
    return model(nodes, IMAGE, constants)


def _branch() -> onnx.ModelProto:
    def branch(op: str) -> onnx.GraphProto:
        out = helper.make_tensor_value_info("b", TensorProto.FLOAT, [1, 8])
        return helper.make_graph([helper.make_node(op, ["x"], ["b"])], op, [], [out])

    choice = helper.make_node("If", ["c"], ["y"], name="choice", then_branch=branch("Relu"), else_branch=branch("Tanh"))
    return model([choice], FLAT, {"c": np.asarray(True)})


def _function() -> onnx.ModelProto:
    proto = model([helper.make_node("Mine", ["x"], ["y"], name="m", domain="own")], FLAT)
    body = [helper.make_node("Relu", ["a"], ["r"]), helper.make_node("Tanh", ["r"], ["b"])]
    proto.functions.append(helper.make_function("own", "Mine", ["a"], ["b"], body, [helper.make_opsetid("", 17)]))
    proto.opset_import.append(helper.make_opsetid("own", 1))
    return proto


def _plain() -> list[onnx.ModelProto]:
    """A line for each thing that importers know."""
    conv = {"w": weights(4, 3, 3, 3), "b": weights(4, seed=2)}
    norm = {"g": weights(3), "h": weights(3, seed=2), "m": weights(3, seed=3), "v": np.abs(weights(3, seed=4)) + 0.5}
    made = [
        model([node("Conv", "x w b", "h", pads=[1] * 4), node("Relu", "h", "y")], IMAGE, conv),
        model([node("Conv", "x w b", "h"), node("Clip", "h lo hi", "y")], IMAGE, conv | {"lo": 0.0, "hi": 6.0}),
        model([node("BatchNormalization", "x g h m v", "n"), node("Conv", "n w b", "y")], IMAGE, conv | norm),
        model([node("Conv", "x w b", "c"), node("Add", "c d", "y")], IMAGE, conv | {"d": weights(1, 4, 1, 1)}),
        model([node("ConvTranspose", "x w", "y", strides=[2, 2])], IMAGE, {"w": weights(3, 2, 2, 2)}),
        model([node("Conv", "x w", "c", group=3), node("Add", "c x", "a"), node("Mul", "a c", "y")], IMAGE,
              {"w": weights(3, 1, 1, 1)}),
        model([node("MaxPool", "x", "p", kernel_shape=[2, 2], strides=[2, 2]), node("Flatten", "p", "f"),
               node("Gemm", "f w b", "l", transB=1), node("Softmax", "l", "y", axis=-1)], IMAGE,
              {"w": weights(5, 48), "b": weights(5)}),
        model([node("GlobalAveragePool", "x", "p"), node("Squeeze", "p axes", "y")], IMAGE, {"axes": [2, 3]}),
        model([node("MatMul", "x w", "m"), node("Add", "m b", "y")], ROWS, {"w": weights(6, 5), "b": weights(5)}),
        model([node("MatMul", "x z", "y")], {"x": (1, 4, 6), "z": (1, 6, 3)}),
        model([node("Transpose", "x", "t", perm=[0, 2, 3, 1]), node("Reshape", "t s", "y")], IMAGE, {"s": [1, -1, 6]}),
        model([node("Split", "x", "a b c", axis=1), node("Concat", "a c b", "d", axis=2), node("Relu", "d", "y")], IMAGE),
        model([node("Slice", "x s e a", "c"), node("Pad", "c p v", "y")], IMAGE,
              {"s": [1], "e": [7], "a": [2], "p": [0, 0, 1, 1, 0, 0, 1, 1], "v": 0.5}),
        model([node("ReduceMean", "x", "m", axes=[2, 3]), node("Sub", "x m", "d"), node("Div", "d c", "y")], IMAGE, {"c": 2.0}),
        model([node("ReduceMax", "x", "y", axes=[1], keepdims=0)], IMAGE),
        model([node("Gather", "x i", "g", axis=1), node("PRelu", "g w", "y")], IMAGE, {"i": [2, 0], "w": weights(2, 1, 1)}),
        model([node("AveragePool", "x", "y", kernel_shape=[3, 3], pads=[1] * 4, count_include_pad=1)], IMAGE),
        model([node("Dropout", "x", "d"), node("Identity", "d", "i"), node("Relu", "i", "y")], FLAT),
        model([node("Clip", "x", "y", min=0.0, max=6.0)], FLAT, opset=10),
        model([node("Relu", "x", "a"), node("Tanh", "x", "b"), node("Sigmoid", "a", "y")], FLAT, outputs=["y", "b"]),
        model([node("Constant", "", "c", value=onnx.numpy_helper.from_array(weights(8))), node("Mul", "x c", "y")], FLAT),
        _folded(), _branch(), _function(),
    ]  # fmt: skip
    return made + [model([node(op, "x", "y")], FLAT, opset=20) for op in UNARY]


def _networks(chance: random.Random) -> list[onnx.ModelProto]:
    made = [network(chance, 4) for _ in range(4)] + [branching(chance, 2) for _ in range(4)]
    return [model(nodes, {"x": (1, 1, 15, 15)}, constants) for nodes, constants in made]


def corpus(seed: int) -> Sequence[onnx.ModelProto]:
    """The models of a seed; the same for the same seed."""
    chance = random.Random(seed)
    single = [one_node_model(chance.choice(CASES)(chance)) for _ in range(60)]
    return [*_plain(), *_networks(chance), *single, *(form.proto() for form in FORMS)]
