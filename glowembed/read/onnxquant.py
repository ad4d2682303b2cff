"""Imports quantized models: turns operators that make, read or compute with integer tensors into nodes of the float
graph.

In: such a node, and the integer tensors known so far. Out: float nodes, constants that know their integers
(Const.grid), and a Rescale with the attrs scale, zero_point and dtype wherever the model rounds to integers; the last
pass of canonicalize turns these into types. The graph represents an integer tensor by the real numbers that it stands
for. uint8 becomes int8, with the zero point reduced by 128, and uint16 int16, both exactly. It reads no file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, MutableMapping
from dataclasses import field, replace
from functools import cache

import numpy as np

from glowembed.graph.ir import UNSIGNED, Array, Const, QType
from glowembed.graph.op import Malformed, OnnxNode, Refused
from glowembed.graph.registry import importers
from glowembed.graph.spatial import channels_first, channels_last
from glowembed.read.builder import GraphBuilder
from glowembed.records import dataclass

ACTIVATIONS = ("int8", "uint8", "int16", "uint16")
CONSTANTS = ("int4", "uint4", "int8", "uint8", "int16", "uint16", "int32")
ONNX_DTYPES = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 10: "float16", 16: "bfloat16", 17: "float8e4m3fn",
    18: "float8e4m3fnuz", 19: "float8e5m2", 20: "float8e5m2fnuz", 21: "uint4", 22: "int4", 23: "float4e2m1", 25: "uint2", 26: "int2",
}  # fmt: skip
"""The types of TensorProto that the attribute output_dtype may name."""


@cache
def moves() -> frozenset[str]:
    """Operators that only move integers or select the largest, so that they work on the real numbers, too."""
    return frozenset({"Identity", "MaxPool", *(kind for kind, op in importers().items() if op.dependence == "move")})


@cache
def choices() -> frozenset[str]:
    """`moves`, and operators of which some forms only choose among the numbers of their input; Op.chooses tells
    which.
    """
    return moves() | {kind for kind, op in importers().items() if op.output_type == "input"}


@dataclass(frozen=True)
class Integers:
    """An integer tensor. `qtype` is unknown as long as it was only moved since an input of the graph, `root`.

    `dynamic`: it is quantized at run time with an unknown scale, which is taken as 1, with zero point 0.
    """

    dtype: str
    qtype: QType | None = None
    root: str = ""
    dynamic: bool = False


@dataclass(eq=False)
class Quantized:
    """The facts that are collected while nodes are visited in order: constants as in the file, integer tensors by
    name.
    """

    builder: GraphBuilder
    arrays: MutableMapping[str, Array]
    known: dict[str, Integers] = field(default_factory=dict)

    def of(self, name: str) -> Integers | None:
        """The integer tensor of this name, with the type that its root has received in the meantime."""
        found = self.known.get(name)
        if found is not None and found.root:
            return replace(found, qtype=self.builder.values[found.root].qtype)
        return found


def add_input(q: Quantized, name: str, dtype: str) -> None:
    """Add an integer input of the graph, whose type the DequantizeLinear that reads it defines."""
    q.known[name] = Integers(dtype, root=name)
    q.builder.values[name] = replace(q.builder.values[name], model_dtype=dtype)


def untyped_inputs(q: Quantized) -> list[str]:
    """The integer inputs that no DequantizeLinear reads."""
    return [name for name, found in q.known.items() if found.root == name and q.builder.values[name].qtype is None]


def mark_outputs(q: Quantized, outputs: Iterable[str]) -> None:
    """Record the types of graph outputs that are integers in the model."""
    for name in outputs:
        if name in q.known and name in q.builder.values:
            q.builder.values[name] = replace(q.builder.values[name], model_dtype=q.known[name].dtype)


@dataclass(frozen=True, eq=False)
class _Parameters:
    """The scale (float64) and zero_point, scalars or vectors; the dtype of the integers."""

    scale: Array
    zero_point: Array
    dtype: str

    @property
    def per_tensor(self) -> bool:
        return self.scale.size == 1

    def qtype(self) -> QType:
        zero = int(self.zero_point.reshape(-1)[0]) - UNSIGNED.get(self.dtype, 0)
        return QType(self.dtype.removeprefix("u"), (float(self.scale.reshape(())),), (zero,))


def check_scales(name: str, values: Array) -> None:
    """Raise Malformed if there is no scale, or if one is not finite and above 0."""
    bad = values.reshape(-1)[~(np.isfinite(values) & (values > 0)).reshape(-1)]
    if values.size == 0 or bad.size:
        raise Malformed(f"its scale {name!r} is {bad[0] if bad.size else 'empty'}", "scales are finite and above 0")


def _parameters(
    q: Quantized, scale: str | None, zero: str | None, dtype: str | None, allowed: tuple[str, ...] = ACTIVATIONS
) -> _Parameters:
    """The scale and zero point, checked. dtype: that of the integers, if known; otherwise the zero point defines it, or
    else it is uint8.
    """
    if scale is None:
        raise Refused("it has no scale", "quantize the model again")
    stored = _constant(q, scale, "scale")
    if stored.dtype != np.float32:
        raise Malformed(f"its scale {scale!r} is {stored.dtype}, the real numbers float32", "both have one type")
    values = stored.astype(np.float64)
    check_scales(scale, values)
    if zero is None:
        return _Parameters(values, np.zeros(values.shape, np.int64), dtype or "uint8")
    points = _constant(q, zero, "zero point")
    if dtype is not None and points.dtype.name != dtype:
        raise Malformed(f"its zero point {zero!r} is {points.dtype.name}, the tensor {dtype}", "both have one type")
    _supported(points.dtype.name, allowed)
    if points.size not in (1, values.size):
        raise Malformed(f"it has {values.size} scales and {points.size} zero points", "as many of both")
    return _Parameters(values, np.broadcast_to(points.astype(np.int64).reshape(-1), (values.size,)), points.dtype.name)


def _constant(q: Quantized, name: str, what: str) -> Array:
    if name not in q.arrays:
        raise Refused(f"its {what} {name!r} is computed at run time", "use static quantization")
    return np.asarray(q.arrays[name])


def _supported(dtype: str, allowed: tuple[str, ...]) -> None:
    if dtype not in allowed:
        raise Refused(f"values quantized to {dtype}", f"supported are {', '.join(allowed)}: quantize to 8 bits")


def quantize_linear(node: OnnxNode, q: Quantized) -> None:
    """Import a QuantizeLinear of a computed tensor."""
    p = _parameters(q, node.input(1), node.input(2), _output_dtype(node))
    _rounded(q, node.inputs[0], p, node.outputs[0])


def _output_dtype(node: OnnxNode) -> str | None:
    """The type in the attribute output_dtype, if it is present and not 0."""
    code = node.attrs.get("output_dtype", 0)
    if code and code not in ONNX_DTYPES:
        raise Malformed(f"its attribute output_dtype is {code}, which is no type of ONNX", "check it with onnx.checker")
    return ONNX_DTYPES[code] if code else None


def _rounded(q: Quantized, real: str, p: _Parameters, output: str) -> None:
    _supported(p.dtype, ACTIVATIONS)
    if not p.per_tensor:
        raise Refused(f"a computed tensor with {p.scale.size} scales", "only weights can have a scale per channel")
    qtype = p.qtype()
    attrs = {"scale": qtype.scale[0], "zero_point": qtype.zero_point[0], "dtype": p.dtype}
    q.builder.add("Rescale", [real], attrs, output)
    q.known[output] = Integers(p.dtype, qtype)


def dequantize_linear(node: OnnxNode, q: Quantized) -> str | None:
    """The name of the real numbers of a computed tensor; None if the tensor was a constant and remains one."""
    x, axis = node.inputs[0], node.attrs.get("axis", 1)
    if _output_dtype(node) not in (None, "float32"):
        raise Refused(f"real numbers as {_output_dtype(node)}", "float32 is supported")
    if x in q.arrays:
        array = q.arrays[x]
        _supported(array.dtype.name, CONSTANTS)
        if node.attrs.get("block_size", 0):
            q.arrays[node.outputs[0]] = _of_blocks(node, q, array)
            q.builder.model_constant(node.outputs[0], q.arrays[node.outputs[0]])
            return None
        p = _parameters(q, node.input(1), node.input(2), array.dtype.name, CONSTANTS)
        const = stored_constant(array, p.scale, p.zero_point, axis)
        with np.errstate(over="ignore"):
            real = const.materialize().astype(np.float32)
        if not np.isfinite(real).all():
            raise Malformed(
                f"its constant {x!r} times its scale is more than float32 holds", "quantize the model again"
            )
        q.builder.stored_constant(node.outputs[0], const)
        q.arrays[node.outputs[0]] = real
        return None
    return real_of(q, x, node.input(1), node.input(2))


def real_of(q: Quantized, x: str, scale: str | None, zero: str | None) -> str:
    """The name of the real numbers of the integer tensor `x`. It must be read with the same parameters with which it
    was written.
    """
    found = q.of(x)
    if found is None:
        raise Malformed(f"its input {x!r} holds no integers", "check the model with onnx.checker")
    p = _parameters(q, scale, zero, found.dtype)
    if found.dynamic:
        return x
    _supported(p.dtype, ACTIVATIONS)
    if not p.per_tensor:
        raise Refused(f"a computed tensor with {p.scale.size} scales", "only weights can have a scale per channel")
    if found.qtype is None:
        q.builder.values[found.root] = replace(q.builder.values[found.root], qtype=p.qtype())
    elif found.qtype != p.qtype():
        wrote, reads = found.qtype, p.qtype()
        raise Refused(
            f"inconsistent types: {x!r} was written with scale {wrote.scale[0]:g} and zero point {wrote.zero_point[0]},"
            f" and is read with {reads.scale[0]:g} and {reads.zero_point[0]} (as int8)",
            "both must be the same",
        )
    return x


def _of_blocks(node: OnnxNode, q: Quantized, array: Array) -> Array:
    """The real numbers of a constant with one scale for each block along an axis. Layers round them to their own
    types, so that scales may also be negative, as onnxruntime writes them, or 0.
    """
    size, axis = int(node.attrs["block_size"]), int(node.attrs.get("axis", 1))
    x, name = node.inputs[0], node.input(1) or ""
    scale = _constant(q, name, "scale")
    zero = _constant(q, node.input(2) or "", "zero point") if node.input(2) else np.zeros(scale.shape, np.int64)
    if not np.isfinite(scale).all():
        raise Malformed(f"its scale {name!r} is not finite", "quantize the model again")
    if size < 1 or not -array.ndim <= axis < array.ndim:
        raise Malformed(f"blocks of {size} along axis {axis} of {list(array.shape)}", "check it with onnx.checker")
    blocks = list(array.shape)
    blocks[axis] = -(-array.shape[axis] // size)
    if list(scale.shape) != blocks or zero.shape != scale.shape:
        raise Malformed(
            f"scales of shape {list(scale.shape)} and zero points of {list(zero.shape)} for {x!r} of shape {list(array.shape)} in"
            f" blocks of {size}",
            f"both have the shape {blocks}",
        )
    parts = (np.repeat(a.astype(np.float64), size, axis) for a in (zero, scale))
    zeros, scales = (np.take(a, range(array.shape[axis]), axis) for a in parts)
    with np.errstate(over="ignore"):
        real: Array = ((array.astype(np.float64) - zeros) * scales).astype(np.float32)
    if not np.isfinite(real).all():
        raise Malformed(f"its constant {x!r} times its scales is more than float32 holds", "quantize the model again")
    return real


def stored_constant(array: Array, scale: Array, zero_point: Array, axis: int) -> Const:
    """The constant scale * (array - zero_point) in float64, from which the integers can be recovered exactly."""
    shape = [1] * array.ndim
    if scale.size > 1:
        if not -array.ndim <= axis < array.ndim or array.shape[axis] != scale.size:
            raise Malformed(
                f"{scale.size} scales along axis {axis} of a constant of shape {list(array.shape)}",
                "one scale, or one for each index of the axis",
            )
        shape[axis] = scale.size
    elif array.ndim == 0:
        shape = []
    grid = np.broadcast_to(scale.reshape(shape), array.shape)
    centred = array.astype(np.int64) - np.broadcast_to(zero_point.reshape(-1), (scale.size,)).reshape(shape)
    real = centred * grid
    assert (np.rint(real / grid) == centred).all()
    return Const(real, grid=grid)


def read_as_numbers(q: Quantized, name: str) -> None:
    """Import a Cast of an integer tensor to float, which means scale 1 and zero point 0."""
    found = q.of(name)
    assert found is not None
    qtype = QType(found.dtype.removeprefix("u"), (1.0,), (-UNSIGNED.get(found.dtype, 0),))
    if found.dynamic or (found.qtype is not None and found.qtype != qtype):
        raise Refused(f"a cast of the quantized tensor {name!r}", "read it with DequantizeLinear")
    if found.qtype is None:
        q.builder.values[found.root] = replace(q.builder.values[found.root], qtype=qtype)


def before_move(node: OnnxNode, q: Quantized) -> OnnxNode:
    """A node of `moves` that reads integers, rewritten to read real numbers."""
    first = q.of(node.inputs[0])
    if node.op_type == "Concat":
        others = [q.of(name) for name in node.inputs]
        if first is None or any(o is None or o.qtype is None or o.qtype != first.qtype for o in others):
            raise Refused("integer tensors of different or unknown types", "use one scale, or dequantize them before")
    if node.op_type == "Pad" and first is not None:
        return _padded(node, q, first)
    return node


def after_move(node: OnnxNode, q: Quantized) -> None:
    """Give the result of a move the type of its input; if a border has another number, too."""
    found = q.known[node.inputs[0]]
    q.known.update((name, found) for name in node.outputs if name)
    if node.op_type == "Pad" and node.outputs and (current := q.of(node.inputs[0])) is not None:
        padded = q.builder.values[node.outputs[0]]
        q.builder.values[padded.name] = replace(padded, qtype=current.qtype)


def interpolates(node: OnnxNode) -> bool:
    """Whether a node computes numbers between those of its input, in any unit: its weights add up to 1."""
    own = node.op_type in ("Resize", "Upsample") and node.attrs.get("mode", "nearest") != "nearest"
    return own and node.attrs.get("coordinate_transformation_mode") != "tf_crop_and_resize"


def interpolated(node: OnnxNode, q: Quantized) -> None:
    """Import a node that interpolates integers: its real numbers are rounded to the type of its input."""
    found = q.of(node.inputs[0])
    if found is None or found.qtype is None or found.dynamic:
        raise Refused("it interpolates integers whose type is not known here", "put a DequantizeLinear before it")
    real = _run(node, q, node.op_type, node.inputs, "real")
    attrs = {"scale": found.qtype.scale[0], "zero_point": found.qtype.zero_point[0], "dtype": found.dtype}
    q.builder.add("Rescale", [real], attrs, node.outputs[0])
    q.known[node.outputs[0]] = Integers(found.dtype, found.qtype)


def _padded(node: OnnxNode, q: Quantized, found: Integers) -> OnnxNode:
    """Rewrite a Pad: the integer that fills the border becomes a real number."""
    if found.qtype is None or node.opset < 11:
        raise Refused("padding of integers whose type is not known here", "pad before QuantizeLinear")
    name = node.input(2)
    stored = int(_constant(q, name, "padding").reshape(-1)[0]) if name is not None else 0
    real = (stored - UNSIGNED.get(found.dtype, 0) - found.qtype.zero_point[0]) * found.qtype.scale[0]
    if abs(float(real)) > float(np.finfo(np.float32).max):
        raise Refused(f"its padding of {stored} is {real:g}, more than float32 holds", "check the scale of its input")
    value = q.builder.constant(f"{node.outputs[0]}/value", Const(np.asarray(real, dtype=np.float32)))
    axes = node.inputs[3:]
    return replace(node, inputs=(*node.inputs[:2], value, *axes))


def _weights(q: Quantized, name: str, scale: str | None, zero: str | None, axis: int) -> str:
    """A constant operand as real numbers that know their integers."""
    array = _constant(q, name, "weight tensor")
    _supported(array.dtype.name, ACTIVATIONS)
    p = _parameters(q, scale, zero, array.dtype.name)
    return q.builder.constant(f"{name}/real", stored_constant(array, p.scale, p.zero_point, axis))


def _operand(q: Quantized, name: str, scale: str | None, zero: str | None, axis: int = 0) -> str:
    if name in q.arrays:
        return _weights(q, name, scale, zero, axis)
    return real_of(q, name, scale, zero)


def _through(
    node: OnnxNode, q: Quantized, op: str, inputs: tuple[str, ...], out: tuple[str | None, str | None]
) -> None:
    """Add the float operator on real numbers, and round its result to the type of the output. With the attribute
    channels_last, which the optimizer of onnxruntime sets, the first input and the output have their channels last, and
    weights are as without it.
    """
    rank = len(q.builder.shape(inputs[0]))
    turned = bool(node.attrs.get("channels_last", 0)) and rank > 2
    if turned:
        inputs = (q.builder.transpose(inputs[0], channels_first(rank)), *inputs[1:])
    real = _run(node, q, op, inputs, "real")
    if turned:
        real = q.builder.transpose(real, channels_last(rank))
    _rounded(q, real, _parameters(q, *out, None), node.outputs[0])


def _run(node: OnnxNode, q: Quantized, op: str, inputs: tuple[str, ...], role: str) -> str:
    real = q.builder.fresh(f"{node.outputs[0]}/{role}")
    q.builder.start(node.name, (*node.outputs, real))
    importers()[op].import_onnx(replace(node, op_type=op, inputs=inputs, outputs=(real,)), q.builder)
    return real


def _qlinear_conv(node: OnnxNode, q: Quantized) -> None:
    x, w = node.inputs[0], node.inputs[3]
    inputs = [_operand(q, x, node.input(1), node.input(2)), _weights(q, w, node.input(4), node.input(5), 0)]
    bias = node.input(8)
    if bias is not None:
        scale = _constant(q, node.inputs[1], "scale").astype(np.float64) * _constant(q, node.inputs[4], "scale")
        inputs.append(_bias(q, bias, scale))
    _through(node, q, "Conv", tuple(inputs), (node.input(6), node.input(7)))


def _bias(q: Quantized, name: str, scale: Array) -> str:
    stored = _constant(q, name, "bias")
    if stored.dtype != np.int32:
        raise Refused(f"its bias {name!r} is {stored.dtype}", "a bias is int32")
    const = stored_constant(stored, scale.reshape(-1), np.zeros(1, np.int64), 0)
    return q.builder.constant(f"{name}/real", const)


def _qlinear_matmul(node: OnnxNode, q: Quantized) -> None:
    a = _operand(q, node.inputs[0], node.input(1), node.input(2))
    b = _operand(q, node.inputs[3], node.input(4), node.input(5), -1)
    _through(node, q, "MatMul", (a, b), (node.input(6), node.input(7)))


def _qgemm(node: OnnxNode, q: Quantized) -> None:
    columns = 0 if node.attrs.get("transB", 0) else 1
    inputs = [
        _operand(q, node.inputs[0], node.input(1), node.input(2)),
        _weights(q, node.inputs[3], node.input(4), node.input(5), columns),
    ]
    if (bias := node.input(6)) is not None:
        scale = _constant(q, node.inputs[1], "scale").astype(np.float64) * _constant(q, node.inputs[4], "scale")
        inputs.append(_bias(q, bias, scale * float(node.attrs.get("alpha", 1.0))))
    if node.input(7) is None:
        raise Refused("a float result", "give it a scale and a zero point for its output")
    _through(node, q, "Gemm", tuple(inputs), (node.input(7), node.input(8)))


def _qlinear_binary(op: str) -> Callable[[OnnxNode, Quantized], None]:
    def add(node: OnnxNode, q: Quantized) -> None:
        a = _operand(q, node.inputs[0], node.input(1), node.input(2))
        b = _operand(q, node.inputs[3], node.input(4), node.input(5))
        _through(node, q, op, (a, b), (node.input(6), node.input(7)))

    return add


def _qlinear_unary(op: str) -> Callable[[OnnxNode, Quantized], None]:
    def add(node: OnnxNode, q: Quantized) -> None:
        x = _operand(q, node.inputs[0], node.input(1), node.input(2))
        node = replace(node, opset=node.attrs.get("opset", node.opset))
        _through(node, q, op, (x,), (node.input(3), node.input(4)))

    return add


def _qlinear_concat(node: OnnxNode, q: Quantized) -> None:
    first = range(2, len(node.inputs), 3)
    operands = tuple(_operand(q, node.inputs[i], node.input(i + 1), node.input(i + 2)) for i in first)
    _through(node, q, "Concat", operands, (node.input(0), node.input(1)))


def _integer_product(op: str) -> Callable[[OnnxNode, Quantized], None]:
    """Import MatMulInteger or ConvInteger. Their int32 result becomes a real number, because x - zero point is the real
    x divided by its scale.
    """

    def add(node: OnnxNode, q: Quantized) -> None:
        x, w, y = node.inputs[0], node.inputs[1], node.outputs[0]
        found = q.of(x)
        if found is None:
            raise Refused(f"its input {x!r} holds no integers that are known", "quantize it with QuantizeLinear")
        scale = 1.0 if found.qtype is None else found.qtype.scale[0]
        q.arrays[f"{y}/scale"] = np.asarray(scale, np.float32)
        real = real_of(q, x, f"{y}/scale", node.input(2) or _zero(q, f"{y}/zero", found.dtype))
        weights = w if (other := q.of(w)) and other.dynamic else _integer_weights(node, q, w, 0 if op == "Conv" else -1)
        if scale == 1.0:
            q.builder.start(node.name, node.outputs)
            product = replace(node, op_type=op, inputs=(real, weights))
            importers()[op].import_onnx(product, q.builder)
            return
        product_name = _run(node, q, op, (real, weights), "product")
        factor = q.builder.constant(f"{y}/over_scale", Const(np.asarray(1.0 / scale)))
        q.builder.start(node.name, node.outputs)
        times = replace(node, op_type="Mul", inputs=(product_name, factor), attrs={})
        importers()["Mul"].import_onnx(times, q.builder)

    return add


def _integer_weights(node: OnnxNode, q: Quantized, name: str, axis: int) -> str:
    """The weights of MatMulInteger or ConvInteger with scale 1."""
    y = node.outputs[0]
    zero = node.input(3) or _zero(q, f"{y}/weights_zero", _constant(q, name, "weight tensor").dtype.name)
    q.arrays[f"{y}/unit"] = np.ones(_constant(q, zero, "zero point").size, np.float32)
    return _weights(q, name, f"{y}/unit", zero, axis)


def _zero(q: Quantized, name: str, dtype: str) -> str:
    q.arrays[name] = np.asarray(0, dtype)
    return name


def _dynamic(node: OnnxNode, q: Quantized) -> None:
    """Take the scale that the model computes as 1 everywhere, because a number that is divided by it is multiplied by
    it later.
    """
    x, y = node.inputs[0], node.outputs[0]
    q.builder.add("Reshape", [x], {"shape": q.builder.shape(x)}, y)
    q.known[y] = Integers("uint8", dynamic=True)
    unit: tuple[Array, Array] = (np.asarray(1.0, np.float32), np.asarray(0, np.uint8))
    for name, array in zip(node.outputs[1:], unit, strict=False):
        if name:
            q.arrays[name] = array
            q.builder.model_constant(name, array)


OPERATORS: Mapping[str, Callable[[OnnxNode, Quantized], None]] = {
    "ConvInteger": _integer_product("Conv"),
    "DynamicQuantizeLinear": _dynamic,
    "MatMulInteger": _integer_product("MatMul"),
    "QGemm": _qgemm,
    "QLinearAdd": _qlinear_binary("Add"),
    "QLinearAveragePool": _qlinear_unary("AveragePool"),
    "QLinearConcat": _qlinear_concat,
    "QLinearConv": _qlinear_conv,
    "QLinearGlobalAveragePool": _qlinear_unary("GlobalAveragePool"),
    "QLinearLeakyRelu": _qlinear_unary("LeakyRelu"),
    "QLinearMatMul": _qlinear_matmul,
    "QLinearMul": _qlinear_binary("Mul"),
    "QLinearSigmoid": _qlinear_unary("Sigmoid"),
    "QLinearSoftmax": _qlinear_unary("Softmax"),
    "QuantizeLinear": quantize_linear,
}
"""For each ONNX operator on integers (standard or com.microsoft), the function that makes float nodes of it.
DequantizeLinear only renames.
"""

INTEGER_OPERATORS = frozenset(OPERATORS) - {"QuantizeLinear", "DynamicQuantizeLinear"}
"""The operators that compute with integers."""

DOMAINS = ("", "ai.onnx", "com.microsoft")
