"""TensorFlow Lite files as input: names and types are kept, and every fault of a file is a clear error."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tflite
from tflite_cases import SOFTMAX, X, cases, layer, unary
from tflite_files import T, tflite_file

from glowembed.canonicalize import canonicalize
from glowembed.errors import GlowembedError, UnsupportedModelError, UsageError
from glowembed.graph.ir import QType
from glowembed.pipeline import CompileOptions, compile_model
from glowembed.read.importer import describe, load
from glowembed.read.tflite import flat
from glowembed.reference import run_float, run_int

CONV = layer("CONV_2D", (1, 9, 8, 6), (5, 3, 3, 6), (1, 9, 8, 5))


def saved(folder: Path, data: bytes, name: str = "model.tflite") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def test_names_types_and_law_are_those_of_the_file(tmp_path: Path) -> None:
    tensors = [T("a_name/with:0", (1, 10), "int8", *X), T("out;put", (1, 10), "int8", 1 / 256, -128)]
    path = saved(
        tmp_path, tflite_file(tensors, [("SOFTMAX", "a_name/with:0", "out;put", *SOFTMAX)], *(t.name for t in tensors))
    )
    graph = load(path)
    assert (graph.inputs, graph.outputs, graph.law) == (("a_name/with:0",), ("out;put",), "tflite")
    bundle = compile_model(path, tmp_path / "bundle", CompileOptions("cortex-m4"))
    x, y = (bundle.graph.values[name] for name in (*graph.inputs, *graph.outputs))
    assert (x.qtype, y.qtype) == (QType("int8", (float(np.float32(0.047)),), (3,)), QType("int8", (1 / 256,), (-128,)))
    assert (x.model_dtype, y.model_dtype) == ("int8", "int8")
    assert describe(path).producer == "TensorFlow Lite"


def test_a_law_can_be_chosen_all_the_same(tmp_path: Path) -> None:
    path = saved(tmp_path, CONV)
    kernels = [
        {n.op for n in compile_model(path, tmp_path / "b", CompileOptions("cortex-m4", **law)).graph.nodes}
        for law in ({}, {"requantization": "default"})
    ]
    assert kernels == [{"conv2d_s8_tflite"}, {"conv2d_s8"}]


def test_two_tensors_may_have_one_name(tmp_path: Path) -> None:
    data = tflite_file([T("x", (1, 4), "float32"), T("h", (1, 4), "float32"), T("y", (1, 4), "float32")],
                       [("ABS", "x", "h"), ("EXP", "h", "y")], "x", "y")  # fmt: skip
    at = data.index(b"\x01\0\0\0h\0")
    path = saved(tmp_path, data[:at] + b"\x01\0\0\0x\0" + data[at + 6 :])
    found = run_float(load(path), {"x": np.float32([[-1, 0, 1, 2]])})["y"]
    np.testing.assert_allclose(found, np.exp([[1, 0, 1, 2]]), rtol=1e-6)


def test_float16_weights_and_an_open_batch(tmp_path: Path) -> None:
    w = np.float16([[1, 2, 3], [4, 5, 6.5]])
    tensors = [T("x", (1, 3), "float32", signature=(-1, 3)), T("h", (2, 3), "float16", data=w), T("w", (2, 3), "float32"),
               T("y", (1, 2), "float32", signature=(-1, 2))]  # fmt: skip
    operators = [("DEQUANTIZE", "h", "w"), ("FULLY_CONNECTED", "x w", "y", ("FullyConnected", {}))]
    graph = load(saved(tmp_path, tflite_file(tensors, operators, "x", "y")))
    assert run_float(graph, {"x": np.float32([[1, 1, 2]])})["y"].tolist() == [[9, 22]]


SPARSE = {
    "rows": ((0, 1), (), (2, ([0, 1, 3], [1, 0, 2])), [1, 2, 3], [[0, 1, 0], [2, 0, 3]]),
    "columns": ((1, 0), (), (3, ([0, 1, 2, 3], [1, 0, 1])), [2, 1, 3], [[0, 1, 0], [2, 0, 3]]),
    "blocks": ((0, 1, 2), (1,), (2, ([0, 1, 2], [1, 0]), 2), [1, 2, 3, 4], [[0, 0, 1, 2], [3, 4, 0, 0]]),
}
"""The order of the axes, the axes of blocks, the levels, the stored numbers, and the matrix that they stand for."""


@pytest.mark.parametrize("case", SPARSE.values(), ids=SPARSE)
def test_constants_may_be_sparse_float16(tmp_path: Path, case) -> None:
    """As converters write pruned weights: DENSIFY, then DEQUANTIZE, in front of the layer."""
    order, blocks, levels, stored, full = case
    shape = np.shape(full)
    data = tflite_file(
        [T("w", shape, "float16", data=np.asarray(stored), sparse=(order, blocks, levels)), T("d", shape, "float16"),
         T("r", shape, "float32"), T("x", (1, shape[1]), "float32"), T("y", (1, shape[0]), "float32")],
        [("DENSIFY", "w", "d"), ("DEQUANTIZE", "d", "r"), ("FULLY_CONNECTED", "x r -", "y", ("FullyConnected", {}))], "x", "y",
    )  # fmt: skip
    x = np.arange(1, shape[1] + 1, dtype=np.float32).reshape(1, -1)
    found = run_float(canonicalize(load(saved(tmp_path, data))), {"x": x})["y"]
    assert found.reshape(-1).tolist() == (np.asarray(full) @ x[0]).tolist()


@pytest.mark.parametrize(
    "levels", [(2, ([0, 1, 3], [1, 0, 3])), (2, ([0, 1, 9], [1, 0, 2])), (2,), (3, ([0, 1, 3], [1, 0, 2])), (2, 3)]
)
def test_levels_that_do_not_fit_are_damage(tmp_path: Path, levels) -> None:
    tensors = [T("w", (2, 3), "float32", data=np.ones(3), sparse=((0, 1), (), levels)), T("y", (2, 3), "float32")]
    with pytest.raises(UsageError, match="damaged"):
        flat.parse(tmp_path, tflite_file(tensors, [("DENSIFY", "w", "y")], "w", "y"))


@pytest.mark.parametrize("count", [1, 5, 6])
def test_int4_is_two_in_a_byte(count: int) -> None:
    numbers = np.arange(-8, 8)[:count]
    raw = np.frombuffer(T("w", (count,), "int4", data=numbers).raw(), np.uint8)
    assert flat.unpacked(raw, count).tolist() == numbers.tolist()


def test_inputs_of_uint8_are_int8_of_another_zero_point(tmp_path: Path) -> None:
    data = tflite_file(
        [T("x", (1, 6), "uint8", 0.5, 100), T("y", (1, 6), "uint8", 0.25, 3)], [("QUANTIZE", "x", "y")], "x", "y"
    )
    bundle = compile_model(saved(tmp_path, data), tmp_path / "b", CompileOptions("cortex-m4"))
    x = np.array([[0, 99, 100, 101, 110, 255]], np.uint8)
    found = run_int(bundle.graph, {"x": (x.astype(int) - 128).astype(np.int8)})["y"].astype(int) + 128
    assert found.tolist() == np.clip((x.astype(int) - 100) * 2 + 3, 0, 255).tolist()


def one(kind: str, options: bytes | None = None, **changes: object) -> bytes:
    tensors = [replace(T("x", (1, 4), "float32"), **changes), T("y", (1, 4), "float32")]
    return tflite_file(tensors, [(kind, "x", "y", *([options] if options is not None else ()))], "x", "y")


REFUSED: tuple[tuple[str, Callable[[], bytes], type[GlowembedError], str], ...] = (
    ("custom", lambda: one("MyOperator", b"\1\2"), UnsupportedModelError, "MyOperator 'y': a custom operator.*--ops FOLDER"),
    ("builtin", lambda: one("HASHTABLE_LOOKUP"), UnsupportedModelError, "HASHTABLE_LOOKUP 'y': the operator is not supported"),
    ("empty", lambda: b"", UsageError, "is empty"),
    ("onnx", lambda: b"\x08\x09\x12\x07pytorch", UsageError, "not an ONNX or TensorFlow Lite model"),
    ("cut", lambda: CONV[: len(CONV) // 2], UsageError, "damaged or cut short"),
    ("header only", lambda: CONV[:8], UsageError, "damaged or cut short"),
    ("infinite scale", lambda: unary("RELU", y=(float("inf"), 0)), UnsupportedModelError, "the scale of 'y' is inf"),
    ("no scale", lambda: unary("RELU", x=(0.0, 0)), UnsupportedModelError, "the scale of 'x' is 0"),
    ("zero point", lambda: unary("RELU", x=(0.1, 300)), UnsupportedModelError, "the zero point of 'x' is no int8"),
    ("complex", lambda: one("ABS", shape=(1, 4), dtype="complex64"), UnsupportedModelError, "complex64"),
    ("huge", lambda: one("ABS", shape=(1 << 20, 1 << 20)), UnsupportedModelError, "more than any target holds"),
    ("negative", lambda: one("ABS", shape=(1, -4)), UsageError, r"has the shape \[1, -4\]"),
)  # fmt: skip


@pytest.mark.parametrize(("data", "error", "message"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_it_says_what_is_wrong(
    data: Callable[[], bytes], error: type[GlowembedError], message: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=message):
        load(saved(tmp_path, data()))


def test_all_problems_are_listed_at_once(tmp_path: Path) -> None:
    tensors = [T(name, (1, 4), "float32") for name in "xhgy"]
    operators = [("MyFirst", "x", "h"), ("ABS", "h", "g"), ("MySecond", "g", "y")]
    with pytest.raises(UnsupportedModelError, match=r"2 things(.|\n)*MyFirst 'h'(.|\n)*MySecond 'y'"):
        load(saved(tmp_path, tflite_file(tensors, operators, "x", "y")))


def test_a_file_cannot_name_one_vector_without_end() -> None:
    """Many tensors with one long shape would take hours."""
    data = bytearray(tflite_file([T(f"t{i}", (1,) * 8) for i in range(200)], [("ABS", "t0", "t1")], "t0", "t1"))
    model = tflite.Model.GetRootAsModel(bytes(data), 0)
    for i in range(200):
        shape = model.Subgraphs(0).Tensors(i)._tab
        at = shape.Vector(shape.Offset(4)) - 4
        struct.pack_into("<I", data, at, len(data) // 4 - at // 4 - 1)
    with pytest.raises(UsageError, match="damaged"):
        flat.parse(Path("model.tflite"), bytes(data))


def test_any_damage_is_a_clear_error(tmp_path: Path) -> None:
    """Words of the file become offsets to anywhere; bytes change, vanish or are doubled."""
    chance, files = random.Random(7), [CONV, *list(cases().values())[::9]]
    outcomes = set()
    for number in range(400):
        data = bytearray(files[number % len(files)])
        for _ in range(chance.choice((1, 1, 2, 8))):
            at = 4 * chance.randrange(2, len(data) // 4)
            word = chance.choice(
                (0, 1, 4, 0x7FFFFFFF, 0xFFFFFFFF, 0x80000000, len(data), chance.randrange(2 * len(data)))
            )
            struct.pack_into("<I", data, at, word)
        path = saved(tmp_path, bytes(data[: chance.choice((len(data), len(data), chance.randrange(len(data))))]))
        try:
            canonicalize(load(path))
            outcomes.add("read")
        except GlowembedError as error:
            outcomes.add(type(error).__name__)
    assert outcomes == {"read", "UsageError", "UnsupportedModelError"}
