"""Models that must be refused, each with its fault, the exception, and words of the message.

In: a folder. Out: a file in it. Nothing here is larger than a few kilobytes, whatever the shapes claim.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from small_models import model, node, saved, weights

from glowembed.errors import GlowembedError, UnsupportedModelError, UsageError
from glowembed.graph.ir import Shape

IMAGE = {"x": (1, 3, 8, 8)}
FLAT = {"x": (1, 8)}


@dataclass(frozen=True)
class Bad:
    """`write` makes the file; `words` are all in the message."""

    name: str
    error: type[GlowembedError]
    words: tuple[str, ...]
    write: Callable[[Path], Path]
    shapes: Mapping[str, Shape] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name


def _file(data: bytes) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        path = folder / "model.onnx"
        path.write_bytes(data)
        return path

    return write


def _model(proto: onnx.ModelProto) -> Callable[[Path], Path]:
    return _file(proto.SerializeToString())


RELU = model([node("Relu", "x", "y")], FLAT)
CONV = model([node("Conv", "x w", "y")], IMAGE, {"w": weights(4, 3, 3, 3)})


def _two_opsets() -> onnx.ModelProto:
    proto = model([node("Softmax", "x", "y")], FLAT)
    proto.opset_import.append(onnx.helper.make_opsetid("ai.onnx", 7))
    return proto


def _opset(version: int, domain: str = "") -> onnx.ModelProto:
    proto = model([node("Relu", "x", "y")], FLAT)
    proto.opset_import[0].version, proto.opset_import[0].domain = version, domain
    return proto


def _not_finite(number: float) -> onnx.ModelProto:
    array = weights(4, 3, 3, 3)
    array[1, 2, 0, 1] = number
    return model([node("Conv", "x w", "y")], IMAGE, {"w": array})


def _claimed(dims: list[int], raw: bytes) -> onnx.ModelProto:
    """An initializer that says it has `dims`."""
    proto = model([node("Add", "x w", "y")], FLAT)
    proto.graph.initializer.append(TensorProto(name="w", dims=dims, data_type=TensorProto.FLOAT, raw_data=raw))
    return proto


def _external(location: str, size: int = 32, **entry: int) -> Callable[[Path], Path]:
    """w [8] lies outside of the file; beside the folder of the model there is a file that must not be read."""

    def write(folder: Path) -> Path:
        inner = folder / "inner"
        inner.mkdir()
        for path in (folder / "secret.bin", inner / "short.bin"):
            path.write_bytes(b"\0" * size)
        (inner / "link.bin").symlink_to(folder / "secret.bin")
        proto = model([node("Add", "x w", "y")], FLAT)
        tensor = TensorProto(name="w", dims=[8], data_type=TensorProto.FLOAT, data_location=TensorProto.EXTERNAL)
        items = {"location": location.replace("FOLDER", str(folder)), **entry}
        for key, value in items.items():
            tensor.external_data.add(key=key, value=str(value))
        proto.graph.initializer.append(tensor)
        return saved(proto, inner)

    return write


def _duplicate_initializer() -> onnx.ModelProto:
    proto = model([node("Add", "x w", "y")], FLAT, {"w": weights(8)})
    proto.graph.initializer.append(numpy_helper.from_array(weights(8), "w"))
    return proto


def _text_input() -> onnx.ModelProto:
    proto = model([node("Cast", "x", "f", to=TensorProto.FLOAT), node("Relu", "f", "y")], FLAT)
    proto.graph.input[0].type.tensor_type.elem_type = TensorProto.STRING
    return proto


def _branches() -> onnx.ModelProto:
    def branch(op: str) -> onnx.GraphProto:
        out = helper.make_tensor_value_info("b", TensorProto.FLOAT, [1, 8])
        return helper.make_graph([helper.make_node(op, ["x"], ["b"])], op, [], [out])

    condition = node("ReduceMax", "x", "c", keepdims=0)
    choice = helper.make_node(
        "If", ["c"], ["y"], name="choice", then_branch=branch("Relu"), else_branch=branch("ReduceMax")
    )
    return model([condition, choice], FLAT)


def _sparse() -> onnx.ModelProto:
    proto = model([node("Relu", "x", "y")], FLAT)
    values = numpy_helper.from_array(weights(1), "sparse")
    indices = numpy_helper.from_array(np.array([2], np.int64), "indices")
    proto.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [8]))
    return proto


def _graph_in_relu() -> onnx.ModelProto:
    proto = model([node("Relu", "x", "y")], FLAT)
    inner = model([node("Relu", "x", "y")], FLAT).graph
    proto.graph.node[0].attribute.append(helper.make_attribute("body", inner))
    return proto


def _large(op: str, constants: Mapping[str, object], **attrs: object) -> onnx.ModelProto:
    """A constant subgraph whose result is huge, added to the input."""
    return model([node(op, " ".join(constants), "big", **attrs), node("Add", "x big", "y")], FLAT, constants)


def _several() -> onnx.ModelProto:
    """Three unsupported operators, with supported ones between and after them."""
    return model(
        [
            node("RandomNormalLike", "x", "a"),
            node("Relu", "a", "b"),
            node("RandomUniformLike", "b", "c"),
            helper.make_node("Gelu", ["b"], ["d"], name="mine", domain="com.example"),
            node("Relu", "d", "e"),
            node("Add", "c e", "y"),
        ],
        FLAT,
    )


def _flattened(dims: tuple[object, ...]) -> onnx.ModelProto:
    return model([node("Relu", "x", "y")], {"x": dims})  # type: ignore[dict-item]


def _declared(kind: int) -> onnx.ModelProto:
    made = model([node("Relu", "x", "y")], FLAT)
    made.graph.output[0].type.tensor_type.elem_type = kind
    return made


def _duplicate_input() -> onnx.ModelProto:
    made = model([node("Relu", "x", "y")], FLAT)
    made.graph.input.append(made.graph.input[0])
    return made


SYMBOLIC = _flattened(("batch", 3, "height", "width"))
NO_SHAPE = model([node("Relu", "x", "y")], FLAT)
NO_SHAPE.graph.input[0].type.tensor_type.ClearField("shape")
CONV_BYTES = CONV.SerializeToString()
USAGE, MODEL = UsageError, UnsupportedModelError
BIG = np.array([2**20, 2**20])

BAD = (
    # the file
    Bad("missing file", USAGE, ("absent.onnx", "No such file"), lambda folder: folder / "absent.onnx"),
    Bad("a folder", USAGE, ("is a folder", "give the file in it"), lambda folder: folder),
    Bad("empty file", USAGE, ("is empty", "not an ONNX"), _file(b"")),
    Bad("text file", USAGE, ("not an ONNX",), _file(b"# a model\nlayers: 3\n" * 20)),
    Bad("truncated file", USAGE, ("not an ONNX", "cut short"), _file(CONV_BYTES[: len(CONV_BYTES) // 2])),
    Bad("a png", USAGE, ("is a picture",), _file(b"\x89PNG\r\n\x1a\n" + bytes(100))),
    Bad("opset too old", MODEL, ("opset 0", "1 to"), _model(_opset(0))),
    Bad("two opsets", MODEL, ("names 2 opsets, 17 and 7",), _model(_two_opsets())),
    Bad("opset of the future", MODEL, ("opset 999",), _model(_opset(999))),
    # names and order
    Bad("an absent input behind a refused node", MODEL, ("NonSense", "QuantizeLinear"),
        _model(model([node("NonSense", "x", "n", domain="own"), node("QuantizeLinear", "_ s z", "q"), node("Expand", "n q", "y")],
                     FLAT, {"s": 0.5, "z": [3]}))),
    Bad("missing name", USAGE, ("'ghost'", "nothing makes", "Add"), _model(model([node("Add", "x ghost", "y")], FLAT))),
    Bad("missing output", USAGE, ("'z'", "outputs of the model"), _model(model([node("Relu", "x", "y")], FLAT, outputs=["z"]))),
    Bad("made twice", USAGE, ("'y'", "twice"), _model(model([node("Relu", "x", "y"), node("Tanh", "x", "y")], FLAT))),
    Bad("an input made again", USAGE, ("'x'", "twice"), _model(model([node("Relu", "x", "x")], FLAT, outputs=["x"]))),
    Bad("two inputs of one name", USAGE, ("'x'", "twice", "input"), _model(_duplicate_input())),
    Bad("two initializers", USAGE, ("two initializers",), _model(_duplicate_initializer())),
    Bad(
        "cycle", USAGE, ("cycle", "n_a", "n_b"),
        _model(model([node("Add", "x b", "a"), node("Relu", "a", "b"), node("Relu", "a", "y")], FLAT)),
    ),
    Bad("reads itself", USAGE, ("cycle",), _model(model([node("Add", "x y", "y")], FLAT))),
    # shapes
    Bad("open shape", USAGE, ("'x'", "--shape x=1,3,64,64", "height"), _model(SYMBOLIC)),
    Bad("no shape at all", USAGE, ("'x'", "--shape x="), _model(NO_SHAPE)),
    Bad("shape for a stranger", USAGE, ("'X'", "Known: x"), _model(RELU), {"X": (1, 8)}),
    Bad("shape that does not fit", USAGE, ("[1, 9]", "[1, 8]"), _model(RELU), {"x": (1, 9)}),
    Bad("shape of another rank", USAGE, ("[1, 8, 1]",), _model(RELU), {"x": (1, 8, 1)}),
    Bad("zero-sized by option", USAGE, ("without elements",), _model(SYMBOLIC), {"x": (1, 3, 0, 4)}),
    Bad("absurd input", MODEL, ("elements",), _model(_flattened((1, 2**20, 2**20)))),
    Bad("window larger than image", MODEL, ("n_y", "empty shape"),
        _model(model([node("Conv", "x w", "y")], IMAGE, {"w": weights(2, 3, 9, 9)}))),
    Bad("weights do not fit", MODEL, ("n_y", "do not fit"), _model(model([node("Conv", "x w", "y")], IMAGE, {"w": weights(2, 5, 3, 3)}))),
    Bad("reshape does not fit", MODEL, ("n_y", "cannot become"), _model(model([node("Reshape", "x s", "y")], FLAT, {"s": [3, -1]}))),
    Bad("constant with a scale of 0", MODEL, ("n_q", "its scale", "above 0"),
        _model(model([node("QuantizeLinear", "w s", "q"), node("DequantizeLinear", "q s", "d"), node("Add", "x d", "y")], FLAT,
                     {"w": weights(8), "s": np.array(0, np.float32)}))),
    Bad("absurd resize", MODEL, ("n_y", "elements"),
        _model(model([node("Resize", "x r k s", "y", mode="nearest")], IMAGE,
                     {"r": np.zeros(0, np.float32), "k": np.zeros(0, np.float32), "s": [1, 3, 2**31 - 1, 9]}))),
    Bad("resize by 0", MODEL, ("n_y", "scales", "above 0"),
        _model(model([node("Resize", "x r k", "y", mode="linear")], IMAGE,
                     {"r": np.zeros(0, np.float32), "k": np.array([1, 1, 0, 2], np.float32)}))),
    Bad("resize in no mode", MODEL, ("n_y", "'area'", "nearest, linear, cubic"),
        _model(model([node("Resize", "x r k", "y", mode="area")], IMAGE,
                     {"r": np.zeros(0, np.float32), "k": np.array([1, 1, 2, 2], np.float32)}))),
    Bad("integers beside real numbers", MODEL, ("n_y", "quantized integers and real numbers"),
        _model(model([node("QuantizeLinear", "x s", "q"), node("Relu", "x", "r"), node("Concat", "q r", "y", axis=1)], FLAT,
                     {"s": np.array(0.1, np.float32)}))),
    Bad("Div without inputs", MODEL, ("n_c",), _model(model([node("Div", "", "c"), node("Mul", "x c", "y")], FLAT))),
    Bad("types that differ", MODEL, ("n_y", "bool and float32", "Cast one"),
        _model(model([node("Cast", "x", "c", to=9), node("Concat", "c x", "y", axis=1)], FLAT))),
    Bad("a constant of another type", MODEL, ("n_y", "'x' and 'c' are float32 and int64", "Cast one"),
        _model(model([node("Add", "x c", "y")], FLAT, {"c": 1}))),
    Bad("an output of another type", MODEL, ("'y'", "declared as int64", "float32"), _model(_declared(TensorProto.INT64))),
    Bad("an axis that is not there", MODEL, ("n_y", "axis 5", "2 axes"),
        _model(model([node("Softmax", "x", "y", axis=5)], FLAT))),
    Bad("absurd broadcast", MODEL, ("n_y", "elements"),
        _model(model([node("Add", "x z", "y")], {"x": (1, 2**16, 1), "z": (1, 1, 2**16)}))),
    # tensors
    Bad("absurd initializer", MODEL, ("'w'", "elements"), _model(_claimed([2**40, 2**20], b""))),
    Bad("initializer without data", USAGE, ("'w'", "needs 32 bytes"), _model(_claimed([8], b"\0" * 8))),
    Bad("negative size", USAGE, ("'w'", "[-8]"), _model(_claimed([-8], b""))),
    Bad("NaN weight", USAGE, ("'w'", "[1, 2, 0, 1]", "NaN"), _model(_not_finite(float("nan")))),
    Bad("infinite weight", MODEL, ("'w'", "not finite"), _model(_not_finite(float("inf")))),
    Bad("too large for float32", USAGE, ("'w'", "infinite"),
        _model(model([node("Add", "x w", "y")], FLAT, {"w": np.full(8, 1e300)}))),
    Bad("sparse initializer", MODEL, ("sparse",), _model(_sparse())),
    # external data
    Bad("external: above the folder", USAGE, ("'w'", "../secret.bin", "only files in"), _external("../secret.bin")),
    Bad("external: absolute", USAGE, ("only files in",), _external("FOLDER/secret.bin")),
    Bad("external: through a link", USAGE, ("only files in",), _external("link.bin")),
    Bad("external: windows path", USAGE, ("only files in",), _external("C:\\secret.bin")),
    Bad("external: backslashes", USAGE, ("only files in",), _external("a\\..\\..\\secret.bin")),
    Bad("external: absent", USAGE, ("'w'", "does not exist", "folder of the model"), _external("absent.bin")),
    Bad("external: nothing", USAGE, ("only files in",), _external("")),
    Bad("external: too short", USAGE, ("needs 32 bytes",), _external("short.bin", size=16)),
    Bad("external: offset behind the end", USAGE, ("needs 32 bytes",), _external("short.bin", offset=2**40, length=32)),
    Bad("external: negative offset", USAGE, ("needs 32 bytes",), _external("short.bin", offset=-8)),
    Bad("external: not a number", USAGE, ("not numbers",), _external("short.bin", offset="x")),  # type: ignore[arg-type]
    # what the fuzzer found
    Bad("bias of another shape", MODEL, ("bias of shape [1, 4]",),
        _model(model([node("Conv", "x w b", "y")], IMAGE, {"w": weights(1, 3, 1, 1), "b": weights(1, 4)}))),
    Bad("bias of a transposed convolution", MODEL, ("bias of shape [1, 1]",),
        _model(model([node("ConvTranspose", "x w b", "y")], IMAGE, {"w": weights(3, 1, 2, 2), "b": weights(1, 1)}))),
    Bad("weights with three axes", MODEL, ("weights of shape [4, 8, 1]",),
        _model(model([node("Gemm", "x w", "y", transB=1)], FLAT, {"w": weights(4, 8, 1)}))),
    Bad("complex axes", MODEL, ("'a' is complex64",),
        _model(model([node("Slice", "x s e a", "y")], IMAGE, {"s": [0], "e": [4], "a": np.ones(1, np.complex64)}))),
    Bad("a stride of nothing", MODEL, ("strides [2, 0]",),
        _model(model([node("ConvTranspose", "x w", "y", strides=[2, 0])], IMAGE, {"w": weights(3, 2, 2, 2)}))),
    Bad("an absurd dilation", MODEL, ("2147483648", "at most 32767"),
        _model(model([node("Conv", "x w", "y", dilations=[2**31, 1])], IMAGE, {"w": weights(4, 3, 1, 1)}))),
    Bad("an absurd dilation of a transposed convolution", MODEL, ("2147483648", "at most 32767"),
        _model(model([node("ConvTranspose", "x w", "y", dilations=[2**31, 1])], IMAGE, {"w": weights(3, 2, 1, 1)}))),
    Bad("a graph in a Relu", MODEL, ("a graph inside a node",), _model(_graph_in_relu())),
    Bad("a name that is not UTF-8", USAGE, ("not UTF-8",), _file(RELU.SerializeToString().replace(b"n_y", b"n_\xff"))),
    Bad("a name of a dimension that is not UTF-8", USAGE, ("not UTF-8",),
        _file(model([node("Relu", "x", "y")], {"x": ("rows", 5)}).SerializeToString().replace(b"rows", b"ro\xff\xfe"))),
    Bad("external: a name too long", USAGE, ("'w'",), _external("a" * 300)),
    Bad("a constant that overflows", MODEL, ("more than float32",), _model(model(
        [node("DequantizeLinear", "w s z", "d"), node("Add", "x d", "y")], FLAT,
        {"w": np.full(8, 127, np.int8), "s": np.float32(3e38), "z": np.int8(-128)}))),
    # what cannot be had
    Bad("all at once", MODEL, ("3 things", "RandomNormalLike 'n_a'", "RandomUniformLike 'n_c'", "Gelu 'mine'", "com.example"), _model(_several())),
    Bad("unknown operator", MODEL, ("Wobble 'n_y'", "docs/operators.md"), _model(model([node("Wobble", "x", "y")], FLAT))),
    Bad("onnxruntime's own layout", MODEL, ("Conv 'n'", "ORT_ENABLE_EXTENDED"), _model(model(
        [helper.make_node("Conv", ["x", "x"], ["y"], name="n", domain="com.microsoft.nchwc")], FLAT))),
    Bad("a shape that is not known", MODEL, ("1 thing", "Wobble 'n_w'"), _model(model(
        [node("Wobble", "x", "w"), node("Shape", "w", "s"), node("Cast", "s", "y", to=TensorProto.FLOAT)], FLAT))),
    Bad("a typo", MODEL, ("did you mean Relu",), _model(model([node("ReLu", "x", "y")], FLAT))),
    Bad("branches", MODEL, ("If 'choice'", "its input cond is float32"), _model(_branches())),
    Bad("text input", MODEL, ("'x'", "its type is string"), _model(_text_input())),
    Bad("training", MODEL, ("Dropout 'n_y'", "training"),
        _model(model([node("Dropout", "x r t", "y")], FLAT, {"r": 0.5, "t": np.bool_(True)}))),
    Bad("random", MODEL, ("RandomNormal",), _model(model([node("RandomNormal", "", "r", shape=[8]), node("Add", "x r", "y")], FLAT))),
    Bad("negative variance", MODEL, ("n_y", "variance", "'v'"),
        _model(model([node("BatchNormalization", "x v v v v", "y")], FLAT, {"v": -weights(8) ** 2 - 1}))),
    Bad("division by zero", MODEL, ("Div", "zero"), _model(model([node("Div", "x z", "y")], FLAT, {"z": 0.0}))),
    Bad("too few inputs", MODEL, ("n_y", "not well formed"), _model(model([node("Conv", "x", "y")], IMAGE))),
    Bad("wrong attribute type", MODEL, ("n_y", "not well formed"), _model(model([node("Concat", "x x", "y", axis="one")], FLAT))),
    Bad("strides of another rank", MODEL, ("n_y",), _model(model([node("Conv", "x w", "y", strides=[1])], IMAGE, {"w": weights(2, 3, 3, 3)}))),
    Bad("zero strides", MODEL, ("n_y",), _model(model([node("Conv", "x w", "y", strides=[0, 0])], IMAGE, {"w": weights(2, 3, 3, 3)}))),
    Bad("perm repeats", MODEL, ("n_y", "perm"), _model(model([node("Transpose", "x", "y", perm=[0, 0])], FLAT))),
    Bad("a slope that is no number", MODEL, ("n_y", "alpha", "nan"), _model(model([node("LeakyRelu", "x", "y", alpha=float("nan"))], FLAT))),
    Bad("an infinite factor", MODEL, ("n_y", "alpha", "inf"),
        _model(model([node("Gemm", "x w", "y", alpha=float("inf"))], FLAT, {"w": weights(8, 2)}))),
    Bad("a limit that is no number", MODEL, ("n_y", "max", "nan"), _model(model([node("Clip", "x", "y", max=float("nan"))], FLAT, opset=10))),
    # constant subgraphs that would fill the memory
    Bad("bomb: ConstantOfShape", MODEL, ("n_big", "elements"), _model(_large("ConstantOfShape", {"s": BIG}))),
    Bad("bomb: Expand", MODEL, ("n_big", "elements"), _model(_large("Expand", {"o": [1.0], "s": BIG}))),
    Bad("bomb: Tile", MODEL, ("n_big", "elements"), _model(_large("Tile", {"o": [[1.0]], "s": BIG}))),
    Bad("bomb: Range", MODEL, ("n_big", "elements"), _model(_large("Range", {"a": 0, "b": 10**13, "c": 1}))),
    Bad("bomb: Pad", MODEL, ("n_big", "elements"), _model(_large("Pad", {"o": [1.0], "p": [0, 2**40]}))),
    Bad("bomb: outer product", MODEL, ("n_big", "elements"),
        _model(_large("MatMul", {"o": np.ones((2**14, 1), np.float32), "p": np.ones((1, 2**14), np.float32)}))),
)  # fmt: skip
