"""Outputs whose size depends on data: the most that there can be, how many were found, and zeros after them. Against onnxruntime, and in C."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import pytest
import three_ways
from onnx import helper

from glowembed.errors import UnsupportedModelError
from glowembed.judge.validation import validate
from glowembed.options.table import CompileOptions
from glowembed.pipeline import compile_model

RNG = np.random.default_rng(3)
BOXES = RNG.random((2, 6, 4)).astype(np.float32)
ARRAYS = {
    "sparse": (RNG.random((3, 4)) < 0.4).astype(np.float32),
    "zeros": np.zeros((2, 3), np.int32),
    "scalar": np.array(3.5, np.float32),
    "full": np.ones((2, 3), np.float32),
    "repeated": RNG.integers(0, 4, (3, 6)).astype(np.float32),
    "whole": RNG.integers(-2, 2, 9),
    "rows": RNG.integers(0, 2, (7, 2)).astype(np.float32),
    "mask": np.array([1, 0, 1, 1], bool),
    "none": np.zeros(3, bool),
    "boxes": np.concatenate([BOXES[..., :2], BOXES[..., :2] + BOXES[..., 2:]], -1),
    "scores": RNG.random((2, 3, 6)).astype(np.float32),
    "most": np.array([2], np.int64),
}
CONSTANTS = {"two": np.array([2], np.int64), "half": np.array([0.5], np.float32)}


class Case(NamedTuple):
    """outputs: dtype, shape in the bundle, and the axis of the size that depends on data, None for another size."""

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[tuple[str, tuple[int, ...], int | None], ...]
    attributes: dict[str, Any] = {}


def unique(name: str, shape: tuple[int, ...], axis: int | None = None, **more: int) -> Case:
    places, along = ARRAYS[name].size if axis is None else shape[axis], axis or 0
    index = ("int64", (places,), 0)
    attributes = more if axis is None else {"axis": axis, **more}
    return Case(
        "Unique", (name,), ((str(ARRAYS[name].dtype), shape, along), index, (*index[:2], None), index), attributes
    )


CASES = {
    "nonzero": Case("NonZero", ("sparse",), (("int64", (2, 12), 1),)),
    "nonzero_of_a_scalar": Case("NonZero", ("scalar",), (("int64", (1, 1), 1),)),
    "nonzero_of_zeros": Case("NonZero", ("zeros",), (("int64", (2, 6), 1),)),
    "nonzero_of_ones": Case("NonZero", ("full",), (("int64", (2, 6), 1),)),
    "compress": Case("Compress", ("repeated", "mask"), (("float32", (4,), 0),)),
    "compress_rows": Case("Compress", ("sparse", "none"), (("float32", (3, 4), 0),), {"axis": 0}),
    "compress_columns": Case("Compress", ("repeated", "mask"), (("float32", (3, 4), 1),), {"axis": 1}),
    "unique": unique("repeated", (18,)),
    "unique_integers_in_order": unique("whole", (9,), sorted=0),
    "unique_rows": unique("rows", (7, 2), 0),
    "unique_columns": unique("repeated", (3, 6), 1),
    "boxes": Case("NonMaxSuppression", ("boxes", "scores", "two", "half"), (("int64", (12, 3), 0),)),
    "boxes_of_data": Case("NonMaxSuppression", ("boxes", "scores", "most", "half"), (("int64", (36, 3), 0),)),
}  # fmt: skip


def node(name: str) -> onnx.NodeProto:
    case = CASES[name]
    outputs = [f"{name}_{j}" for j in range(len(case.outputs))]
    return helper.make_node(case.op, case.inputs, outputs, name=name, **case.attributes)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("found")


@pytest.fixture(scope="module")
def results(bundle: Path) -> dict[str, tuple[Any, Any, Any]]:
    outputs: dict[str, Any] = {
        f"{name}_{j}": (dtype, None) for name, case in CASES.items() for j, (dtype, _, _) in enumerate(case.outputs)
    }
    model = three_ways.network([node(name) for name in CASES], ARRAYS, outputs, {"": 18}, CONSTANTS)
    return three_ways.run(model, ARRAYS, bundle)


@pytest.mark.parametrize("name", CASES)
def test_what_is_found_comes_first_and_is_counted(name: str, results: dict[str, tuple[Any, Any, Any]]) -> None:
    """The C runs in memory that is not zero, so that an element that is not written shows."""
    _, number, number_in_c = results[f"{name}_0_found"]
    assert number.dtype == np.int32 and number.tobytes() == number_in_c.tobytes()
    for j, (dtype, shape, axis) in enumerate(CASES[name].outputs):
        theirs, reference, c = results[f"{name}_{j}"]
        assert reference.tobytes() == c.tobytes()
        assert reference.dtype == np.dtype(dtype) and reference.shape == shape
        if axis is None:
            np.testing.assert_array_equal(reference, theirs)
            continue
        assert number[0] == theirs.shape[axis]
        found, rest = np.split(reference, [number[0]], axis)
        np.testing.assert_array_equal(found, theirs)
        assert not rest.any()


def test_the_header_says_which_output_counts(bundle: Path, results: dict[str, tuple[Any, Any, Any]]) -> None:
    text = (bundle / "b" / "m.h").read_text()
    for name, case in CASES.items():
        for j, (_, _, axis) in enumerate(case.outputs):
            own = text[text.index(f"/* Output {name}_{j}:") :].split("*/")[0]
            assert (f"M_OUTPUT_{name.upper()}_0_FOUND says how many" in own) == (axis is not None)


def graph(nodes: list[onnx.NodeProto], shape: Any = None) -> onnx.ModelProto:
    return three_ways.network(nodes, ARRAYS, {"y": ("int64", None), "places": ("int64", shape)}, {"": 18}, CONSTANTS)


NON_ZERO = helper.make_node("NonZero", ["sparse"], ["places"], name="finder")
READERS = {
    "an operator reads it": helper.make_node("Neg", ["places"], ["y"], name="reader"),
    "it has another name": helper.make_node("Identity", ["places"], ["y"], name="reader"),
}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("dtype", ["model", "int8"])
def test_a_bound_is_no_size_for_the_nodes_behind(name: str, dtype: str, tmp_path: Path) -> None:
    """A sum over zeros that were not found would be wrong."""
    onnx.save(graph([NON_ZERO, READERS[name]]), tmp_path / "m.onnx")
    with pytest.raises(UnsupportedModelError, match="depends on data") as error:
        compile_model(tmp_path / "m.onnx", tmp_path / "b", CompileOptions(target="x86-64", dtype=dtype))  # type: ignore[arg-type]
    assert "declare the shape" in str(error.value)


def test_a_declared_size_needs_no_count(tmp_path: Path) -> None:
    found = three_ways.run(
        graph([NON_ZERO, READERS["an operator reads it"]], [2, int(ARRAYS["sparse"].sum())]), ARRAYS, tmp_path
    )
    assert set(found) == {"y", "places"}
    for theirs, reference, c in found.values():
        np.testing.assert_array_equal(reference, theirs)
        np.testing.assert_array_equal(c, theirs)


def test_the_count_takes_a_name_that_is_free(tmp_path: Path) -> None:
    model = three_ways.network(
        [helper.make_node("NonZero", ["sparse"], ["y"]), helper.make_node("Neg", ["whole"], ["y_found"])],
        ARRAYS,
        {"y": ("int64", None), "y_found": ("int64", None)},
        {"": 18},
        {},
    )
    assert set(three_ways.run(model, ARRAYS, tmp_path)) == {"y", "y_found", "y_found'"}


def test_validate_compares_with_onnxruntime(tmp_path: Path) -> None:
    """The samples differ in the number of elements that are found."""
    nodes = [helper.make_node("NonZero", ["sparse"], ["places"]), helper.make_node("Unique", ["sparse"], ["y"])]
    model = three_ways.network(nodes, ARRAYS, {"places": ("int64", None), "y": ("float32", None)}, {"": 18}, {})
    onnx.save(model, tmp_path / "m.onnx")
    np.savez(tmp_path / "data.npz", sparse=(RNG.random((5, 3, 4)) < RNG.random((5, 1, 1))).astype(np.float32))
    bundle = compile_model(tmp_path / "m.onnx", tmp_path / "b", CompileOptions(target="generic", dtype="model"))
    result = validate(bundle, tmp_path / "data.npz", "host")
    assert result.bit_exact
    assert set(result.found) == set(result.floats) == {"places", "y", "places_found", "y_found"}
    for name, found in result.found.items():
        np.testing.assert_array_equal(found, result.floats[name])
