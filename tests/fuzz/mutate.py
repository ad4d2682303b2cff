"""Mutations of ONNX models. In: a random.Random and a model. Out: the model changed in place, or bytes.

They know the structure of a model: operators, attributes, wiring, names, tensors, shapes, opsets, quantization. Half of
them are mild, so that the result often compiles and what it computes can be compared.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from corpus import UNARY
from onnx import AttributeProto, NodeProto, TensorProto, helper, numpy_helper

from glowembed.graph.registry import importers
from glowembed.read.onnxquant import OPERATORS

Mutation = Callable[[random.Random, onnx.ModelProto], None]

INTS = (0, 1, 2, 3, 4, 5, 7, -1, -2, 8, 16, 100, 255, 65536, 2**31 - 1, 2**31, -(2**31), 2**62, -(2**63), 2**63 - 1)
MILD_INTS = (0, 1, 1, 2, 2, 3, 4, -1)
FLOATS = (
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    6.0,
    1e-8,
    1e-40,
    1e8,
    1e30,
    -1e30,
    3.4e38,
    float("nan"),
    float("inf"),
    -float("inf"),
)
NAMES = (
    "",
    "x",
    "y",
    "0",
    "a b",
    "é",
    "名",
    "a\0b",
    "a\nb",
    "../../x",
    "\x1b[2J",
    "int",
    "*/",
    '"',
    "\\",
    "a" * 5000,
    "%s%n",
    "\u202e",
)
DTYPES = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 21, 22, 23, 0, 99)
OTHERS = ("If", "Loop", "Scan", "LSTM", "Shape", "Size", "Constant", "ConstantOfShape", "Expand", "Tile", "Range", "Where",
          "Cast", "NonZero", "Identity", "Dropout", "Einsum", "TopK", "OneHot", "Resize", "Optional", "StringNormalizer")  # fmt: skip
BINARY = ("Add", "Sub", "Mul", "Div", "MatMul", "PRelu", "Gather", "Reshape", "Concat")
POOLS = ("GlobalAveragePool", "GlobalMaxPool", "Flatten", "Transpose", "Softmax")
DIMS = (0, 1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33, 64, -1, -8, 100000, 2**31, 2**40, 2**62)


def _node(chance: random.Random, m: onnx.ModelProto) -> NodeProto | None:
    return chance.choice(m.graph.node) if m.graph.node else None


def _names(m: onnx.ModelProto) -> list[str]:
    found = [n for node in m.graph.node for n in (*node.input, *node.output)]
    return [*found, *(t.name for t in m.graph.initializer), *(i.name for i in m.graph.input)] or ["x"]


def change_op(chance: random.Random, m: onnx.ModelProto) -> None:
    """Change the operator, often to one that takes as many inputs."""
    node = _node(chance, m)
    if node is None:
        return
    if chance.random() < 0.7:
        alike = UNARY + POOLS if len(node.input) == 1 else BINARY
        node.op_type = chance.choice(alike)
        if chance.random() < 0.8:
            del node.attribute[:]
    else:
        node.op_type = chance.choice([*importers(), *OPERATORS, "DequantizeLinear", *OTHERS, *NAMES])


def _value(chance: random.Random) -> Any:
    kind = chance.randrange(8)
    if kind < 2:
        return chance.choice(INTS)
    if kind == 2:
        return chance.choice(FLOATS)
    if kind == 3:
        return chance.choice(NAMES) or "NOTSET"
    if kind < 6:
        return [chance.choice(INTS if kind == 4 else MILD_INTS) for _ in range(chance.randint(1, 6))]
    if kind == 6:
        return numpy_helper.from_array(np.asarray([chance.choice(FLOATS)], np.float32), "t")
    return [chance.choice(FLOATS) for _ in range(chance.randint(1, 4))]


ATTRIBUTES = ("axis", "axes", "strides", "pads", "dilations", "group", "kernel_shape", "auto_pad", "alpha", "beta", "perm",
              "epsilon", "mode", "to", "keepdims", "transA", "transB", "ceil_mode", "count_include_pad", "storage_order",
              "split", "num_outputs", "output_shape", "output_padding", "allowzero", "value", "min", "max", "ends",
              "starts", "block_size", "output_dtype", "channels_last", "approximate", "momentum", "training_mode",
              "spatial", "gamma", "bias", "seed", "sparse_value", "value_ints", "value_string", "then_branch")  # fmt: skip


def set_attribute(chance: random.Random, m: onnx.ModelProto) -> None:
    node = _node(chance, m)
    if node is None:
        return
    known = [a.name for a in node.attribute]
    name = chance.choice(known) if known and chance.random() < 0.6 else chance.choice(ATTRIBUTES)
    if chance.random() < 0.9:
        for index in reversed([i for i, a in enumerate(node.attribute) if a.name == name]):
            del node.attribute[index]
    node.attribute.append(helper.make_attribute(name, _value(chance)))


def mild_attribute(chance: random.Random, m: onnx.ModelProto) -> None:
    """Another small number in place of one of an existing attribute."""
    node = _node(chance, m)
    if node is None or not node.attribute:
        return
    attribute = chance.choice(node.attribute)
    if attribute.ints:
        attribute.ints[chance.randrange(len(attribute.ints))] = chance.choice(MILD_INTS)
    elif attribute.type == AttributeProto.INT:
        attribute.i = chance.choice(MILD_INTS)
    elif attribute.type == AttributeProto.FLOAT:
        attribute.f = chance.choice((0.0, 0.1, 0.5, 1.0, 2.0, -1.0, 6.0))


def break_attribute(chance: random.Random, m: onnx.ModelProto) -> None:
    node = _node(chance, m)
    if node is None or not node.attribute:
        return
    attribute = chance.choice(node.attribute)
    kind = chance.randrange(6)
    if kind == 0:
        node.attribute.remove(attribute)
    elif kind == 1:
        node.attribute.append(attribute)
    elif kind == 2:
        attribute.type = chance.choice(list(AttributeProto.AttributeType.values()))
    elif kind == 3:
        del attribute.ints[:]
        del attribute.floats[:]
    elif kind == 4:
        attribute.name = chance.choice((*ATTRIBUTES, *NAMES))
    else:
        attribute.ref_attr_name = "outer"


def rewire(chance: random.Random, m: onnx.ModelProto) -> None:
    node = _node(chance, m)
    if node is None:
        return
    ends = node.input if chance.random() < 0.75 and node.input else node.output
    if not ends:
        return
    kind = chance.random()
    if kind < 0.6:
        ends[chance.randrange(len(ends))] = chance.choice(_names(m))
    elif kind < 0.75:
        ends.append(chance.choice([*_names(m), ""]))
    elif kind < 0.9:
        del ends[chance.randrange(len(ends))]
    else:
        ends[chance.randrange(len(ends))] = ""


def rename(chance: random.Random, m: onnx.ModelProto) -> None:
    """A value everywhere, or one place only."""
    old, new = chance.choice(_names(m)), chance.choice(NAMES)
    if chance.random() < 0.3:
        node = _node(chance, m)
        if node is not None:
            node.name = new
        return
    for node in m.graph.node:
        for ends in (node.input, node.output):
            for i, name in enumerate(ends):
                ends[i] = new if name == old else name
    for item in (*m.graph.input, *m.graph.output, *m.graph.initializer):
        if item.name == old:
            item.name = new


def insert_node(chance: random.Random, m: onnx.ModelProto) -> None:
    """A unary operator between a value and one that reads it."""
    readers = [n for n in m.graph.node if n.input]
    if not readers:
        return
    reader = chance.choice(readers)
    i = chance.randrange(len(reader.input))
    name = f"new{chance.randrange(10**6)}"
    op = chance.choice((*UNARY, "Identity", "Dropout", "Flatten", "Transpose", "Softmax", "Cast", "Shape", "Constant"))
    attrs = {"to": chance.choice(DTYPES)} if op == "Cast" else {}
    m.graph.node.append(helper.make_node(op, [reader.input[i]], [name], name=name, **attrs))
    reader.input[i] = name


def append_node(chance: random.Random, m: onnx.ModelProto) -> None:
    """A new last node on two values."""
    name, op = (
        f"end{chance.randrange(10**6)}",
        chance.choice((*UNARY, *POOLS, "Add", "Mul", "Sub", "Concat", "MatMul", "Div")),
    )
    made = [n for node in m.graph.node for n in node.output if n] or ["x"]
    count = 1 if op in UNARY + POOLS else 2
    attrs = {"axis": 1} if op == "Concat" else {}
    m.graph.node.append(helper.make_node(op, [chance.choice(made) for _ in range(count)], [name], name=name, **attrs))
    if m.graph.output and chance.random() < 0.7:
        m.graph.output[0].name = name
        m.graph.output[0].type.tensor_type.ClearField("shape")
    else:
        m.graph.output.append(helper.make_empty_tensor_value_info(name))


def remove_or_double(chance: random.Random, m: onnx.ModelProto) -> None:
    lists = [m.graph.node, m.graph.initializer, m.graph.input, m.graph.output, m.opset_import, m.functions]
    some = chance.choice([entries for entries in lists if entries] or [m.opset_import])
    if not some:
        return
    index = chance.randrange(len(some))
    if chance.random() < 0.5:
        some.append(some[index])
    else:
        del some[index]


def tensor_values(chance: random.Random, m: onnx.ModelProto) -> None:
    """A few numbers, or all, are special."""
    if not m.graph.initializer:
        return
    tensor = chance.choice(m.graph.initializer)
    try:
        array = numpy_helper.to_array(tensor).copy()
    except Exception:
        return
    if array.size == 0 or array.dtype.kind not in "fiu":
        return
    special = FLOATS if array.dtype.kind == "f" else INTS
    with np.errstate(all="ignore"):
        value = np.asarray(chance.choice(special)).astype(array.dtype)
        if chance.random() < 0.3:
            array[...] = value
        elif chance.random() < 0.3 and array.dtype.kind == "f":
            array = (array * np.asarray(chance.choice(FLOATS[:12]))).astype(array.dtype)
        else:
            array.reshape(-1)[chance.randrange(array.size)] = value
    tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


def tensor_mild(chance: random.Random, m: onnx.ModelProto) -> None:
    """Integers become other small ones; floats are scaled."""
    if not m.graph.initializer:
        return
    tensor = chance.choice(m.graph.initializer)
    try:
        array = numpy_helper.to_array(tensor).copy()
    except Exception:
        return
    if array.size == 0 or array.dtype.kind not in "fi":
        return
    if array.dtype.kind == "i":
        array.reshape(-1)[chance.randrange(array.size)] = chance.choice(MILD_INTS)
    else:
        with np.errstate(all="ignore"):
            array = (array * np.asarray(chance.choice((0.0, 0.01, -1.0, 3.0, 100.0)))).astype(array.dtype)
    tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


def tensor_shape(chance: random.Random, m: onnx.ModelProto) -> None:
    """A tensor of another shape or type, sound in itself."""
    if not m.graph.initializer:
        return
    tensor = chance.choice(m.graph.initializer)
    kind = chance.choice(("float32", "float32", "float16", "float64", "int64", "int32", "int8", "uint8", "bool"))
    dims = list(tensor.dims)
    change = chance.random()
    if dims and change < 0.5:
        dims[chance.randrange(len(dims))] = chance.choice((0, 1, 1, 2, 3, 4, 5, 8, 17))
    elif change < 0.7:
        dims.insert(chance.randint(0, len(dims)), 1)
    elif dims and change < 0.9:
        del dims[chance.randrange(len(dims))]
    if any(not 0 <= d <= 4096 for d in dims) or np.prod(dims, dtype=float) > 1e6:
        return
    rng = np.random.default_rng(chance.randrange(2**32))
    array = rng.normal(size=dims) if kind.startswith("float") else rng.integers(0, 4, dims)
    tensor.CopyFrom(numpy_helper.from_array(np.asarray(array).astype(kind), tensor.name))


def break_tensor(chance: random.Random, m: onnx.ModelProto) -> None:
    tensors = [*m.graph.initializer, *(a.t for n in m.graph.node for a in n.attribute if a.HasField("t"))]
    if not tensors:
        return
    tensor = chance.choice(tensors)
    kind = chance.randrange(8)
    if kind == 0:
        tensor.data_type = chance.choice(DTYPES)
    elif kind == 1 and tensor.dims:
        tensor.dims[chance.randrange(len(tensor.dims))] = chance.choice(DIMS)
    elif kind == 2:
        tensor.dims.append(chance.choice(DIMS))
    elif kind == 3:
        tensor.raw_data = bytes(chance.randrange(256) for _ in range(chance.choice((0, 1, 3, 4, 8, 100))))
    elif kind == 4:
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in (("location", chance.choice(("model.onnx", "absent", "../x", "", ".", "/etc/passwd", *NAMES))),
                           ("offset", str(chance.choice(INTS))), ("length", str(chance.choice(INTS)))):  # fmt: skip
            if chance.random() < 0.7:
                tensor.external_data.add(key=key, value=value)
    elif kind == 5:
        tensor.ClearField("raw_data")
        tensor.float_data.extend([chance.choice(FLOATS)] * chance.randrange(4))
    elif kind == 6:
        tensor.int32_data.extend([7] * chance.randrange(1, 4))
        tensor.string_data.append(b"\xff\x00")
    else:
        tensor.segment.begin, tensor.segment.end = 1, 2


def to_sparse(chance: random.Random, m: onnx.ModelProto) -> None:
    values = numpy_helper.from_array(
        np.ones(2, np.float32), chance.choice(_names(m)) if chance.random() < 0.5 else "sp"
    )
    indices = numpy_helper.from_array(np.asarray([chance.choice((0, 1, -1, 99)), 2]), "i")
    m.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [chance.choice((8, -1, 2**40))]))


def io_shape(chance: random.Random, m: onnx.ModelProto) -> None:
    """Change the shape or type of an input (rarely an output), or remove them."""
    infos = m.graph.input if chance.random() < 0.8 else m.graph.output
    if not infos:
        return
    info = chance.choice(infos)
    kind = chance.randrange(8)
    dims = info.type.tensor_type.shape.dim
    if kind < 4 and dims:
        dims[chance.randrange(len(dims))].dim_value = chance.choice(DIMS[:13] if kind < 3 else DIMS)
    elif kind == 4 and dims:
        dims[chance.randrange(len(dims))].dim_param = chance.choice(NAMES)
    elif kind == 5:
        dims.add().dim_value = chance.choice(DIMS)
    elif kind == 6:
        info.type.tensor_type.elem_type = chance.choice(DTYPES)
    elif chance.random() < 0.5:
        info.ClearField("type")
    else:
        info.type.sequence_type.elem_type.tensor_type.elem_type = 1


def opset(chance: random.Random, m: onnx.ModelProto) -> None:
    if not m.opset_import or chance.random() < 0.1:
        m.opset_import.append(
            helper.make_opsetid(chance.choice(("", "ai.onnx", "com.microsoft", *NAMES)), chance.choice(INTS))
        )
    else:
        entry = chance.choice(m.opset_import)
        entry.version = chance.randint(6, 24) if chance.random() < 0.9 else chance.choice(INTS)
    if chance.random() < 0.1:
        m.ir_version = chance.choice(INTS)


def domain(chance: random.Random, m: onnx.ModelProto) -> None:
    node = _node(chance, m)
    if node is not None:
        node.domain = chance.choice(("ai.onnx", "com.microsoft", "own", "ai.onnx.ml", *NAMES))


def subgraph(chance: random.Random, m: onnx.ModelProto) -> None:
    """The model itself within a node of it, to some depth."""
    node = _node(chance, m)
    if node is None:
        return
    if m.ByteSize() > 100_000:
        return
    inner = onnx.GraphProto()
    inner.CopyFrom(m.graph)
    for _ in range(
        chance.choice((0, 0, 1, 12)) if m.ByteSize() < 2000 else 0
    ):  # protobuf bounds the depth of what it parses
        inner = onnx.GraphProto(node=[helper.make_node("If", ["x"], ["y"], then_branch=inner)])
    name = chance.choice(("body", "then_branch", "else_branch"))
    node.attribute.append(helper.make_attribute(name, inner))


def function(chance: random.Random, m: onnx.ModelProto) -> None:
    """A function of the model that a node calls; now and then it calls itself."""
    node = _node(chance, m)
    if node is None:
        return
    inputs, outputs = [f"i{k}" for k in range(len(node.input))], [f"o{k}" for k in range(len(node.output))]
    inner = NodeProto()
    inner.CopyFrom(node)
    inner.input[:], inner.output[:] = inputs, outputs
    node.op_type, node.domain = "Own", "own"
    if chance.random() < 0.2:
        inner.op_type, inner.domain = "Own", "own"
    m.functions.append(helper.make_function("own", "Own", inputs, outputs, [inner], [helper.make_opsetid("", 17)]))
    m.opset_import.append(helper.make_opsetid("own", 1))


def quantization(chance: random.Random, m: onnx.ModelProto) -> None:
    """Scale or zero point of a node that quantizes."""
    nodes = [n for n in m.graph.node if "Quantize" in n.op_type or "QLinear" in n.op_type or n.op_type == "QGemm"]
    tensors = {t.name: t for t in m.graph.initializer}
    names = [
        name for n in nodes for name in n.input if name in tensors and np.prod(tensors[name].dims, dtype=float) <= 64
    ]
    if not names:
        return
    tensor = tensors[chance.choice(names)]
    try:
        old = numpy_helper.to_array(tensor)
    except Exception:
        return
    if old.dtype.kind == "f":
        scale = chance.choice(
            (0.0, -0.1, 1e-45, 1e-30, 1e30, 3e38, float("nan"), float("inf"), 0.01, 0.5, 1.0, 0.02, 0.05)
        )
        shape = old.shape if chance.random() < 0.7 else chance.choice(((1,), (2,), (4,), (8,), ()))
        new = np.full(shape, scale, np.float32)
        if new.size > 1 and chance.random() < 0.5:
            new.reshape(-1)[0] = 0.03
    else:
        kind = (
            old.dtype
            if chance.random() < 0.6
            else chance.choice(("int8", "uint8", "int32", "int16", "uint16", "int64"))
        )
        shape = old.shape if chance.random() < 0.7 else chance.choice(((1,), (2,), (4,), ()))
        new = np.full(shape, chance.choice((0, 1, 127, -128, 128, 255, 7))).astype(kind)
    tensor.CopyFrom(numpy_helper.from_array(new, tensor.name))


def quantize_output(chance: random.Random, m: onnx.ModelProto) -> None:
    """QuantizeLinear and DequantizeLinear after some value."""
    readers = [n for n in m.graph.node if n.input]
    if not readers:
        return
    reader, tag = chance.choice(readers), chance.randrange(10**6)
    i = chance.randrange(len(reader.input))
    zero = np.asarray(chance.choice((0, 3, 100)), chance.choice(("int8", "uint8")))
    m.graph.initializer.append(
        numpy_helper.from_array(np.float32(chance.choice((0.02, 0.1, 1.0))).reshape(()), f"s{tag}")
    )
    m.graph.initializer.append(numpy_helper.from_array(zero, f"z{tag}"))
    m.graph.node.append(helper.make_node("QuantizeLinear", [reader.input[i], f"s{tag}", f"z{tag}"], [f"q{tag}"]))
    m.graph.node.append(helper.make_node("DequantizeLinear", [f"q{tag}", f"s{tag}", f"z{tag}"], [f"d{tag}"]))
    reader.input[i] = f"d{tag}"


MILD: tuple[Mutation, ...] = (
    change_op, mild_attribute, mild_attribute, insert_node, insert_node, append_node, append_node, tensor_mild,
    tensor_shape, opset, quantize_output, io_shape,
)  # fmt: skip
HARSH: tuple[Mutation, ...] = (
    change_op, set_attribute, set_attribute, break_attribute, rewire, rewire, rename, remove_or_double, tensor_values,
    tensor_values, tensor_shape, break_tensor, to_sparse, io_shape, opset, domain, subgraph, function, quantization,
    quantization, quantization,
)  # fmt: skip


def mutated(chance: random.Random, models: list[onnx.ModelProto] | tuple[onnx.ModelProto, ...]) -> bytes:
    """The bytes of a mutated model; one in twenty is also truncated or has flipped bits."""
    m = onnx.ModelProto()
    m.CopyFrom(chance.choice(models))
    for _ in range(chance.choice((1, 1, 2, 2, 3, 5))):
        chance.choice(MILD if chance.random() < 0.6 else HARSH)(chance, m)
    data = m.SerializeToString()
    return flipped(chance, data) if chance.random() < 0.05 else data


def flipped(chance: random.Random, data: bytes) -> bytes:
    """Cut short, or a few bytes are others."""
    if not data or chance.random() < 0.3:
        return data[: chance.randrange(len(data) + 1)]
    changed = bytearray(data)
    for _ in range(chance.choice((1, 2, 8))):
        changed[chance.randrange(len(changed))] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
    return bytes(changed)
