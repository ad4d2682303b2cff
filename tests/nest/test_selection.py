"""Moves, selections and reductions at their edges: hostile indices, bounds that are not reached, NaN, shapes that contradict each other.

The expected values are those of numpy and onnxruntime; where ONNX leaves a result open, the definition clamps.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from glowembed.errors import UnsupportedModelError
from glowembed.options.table import CompileOptions
from glowembed.pipeline import Bundle, compile_model
from glowembed.reference import run_int
from glowembed.run import host

FAR = 2**63 - 1
NAN, INF = np.nan, np.inf


class Case(NamedTuple):
    """inputs: arrays that the network reads when it runs; constants: inputs after them; outputs: (dtype, shape or None)."""

    op: str
    inputs: list[Any]
    constants: list[Any]
    outputs: list[tuple[str, list[int] | None]]
    expected: Any
    attributes: dict[str, Any] = {}


def f(*shape: int) -> Any:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def floats(*values: Any) -> Any:
    return np.array(values, np.float32)


def ints(*values: Any) -> Any:
    return np.array(values, np.int64)


def y(*shape: int) -> tuple[str, list[int]]:
    return "float32", list(shape)


def places(*shape: int) -> tuple[str, list[int]]:
    return "int64", list(shape)


ANY: tuple[str, None] = ("float32", None)
CACHE = f(2, 4, 3)

RESULTS = {
    "a step beyond the tensor": Case(
        "Slice", [f(9), ints(3), ints(8), ints(0), ints(FAR)], [], [y(5)], [[3, 8, 8, 8, 8]]
    ),
    "starts, axes and steps far outside": Case(
        "Slice", [f(9), ints(-FAR), ints(8), ints(FAR), ints(-FAR)], [], [y(5)], [[0, 0, 0, 0, 0]]
    ),
    "backwards from before the first element": Case(
        "Slice", [f(5)], [ints(-10), ints(-FAR), ints(0), ints(-1)], [ANY], [[0]]
    ),
    "pads far outside": Case("Pad", [f(5), ints(-FAR, 0)], [], [y(3)], [[0, 0, 0]]),
    # A pad is clamped to 2**30, which is 4 in mirror images of a period of 6: elements 2, 1 and 0.
    "mirrored, far outside": Case(
        "Pad", [f(4), ints(-FAR, 0)], [], [y(3)], [[2, 1, 0]], {"mode": "reflect"}
    ),
    "a diagonal far outside": Case("EyeLike", [f(2, 2)], [], [y(2, 2)], [np.zeros((2, 2))], {"k": 2**40}),
    "written far outside": Case(
        "TensorScatter", [CACHE, -f(2, 1, 3), ints(FAR, -FAR)], [], [y(2, 4, 3)],
        [np.stack([[*CACHE[0, :3], -f(3)], [-f(6)[3:], *CACHE[1, 1:]]])],
    ),
    "less than the bound: Compress": Case(
        "Compress", [f(6) + 1, np.array([0, 1, 0, 1], bool)], [], [y(6)], [[2, 4, 0, 0, 0, 0]]
    ),
    "less than the bound: NonZero": Case("NonZero", [np.eye(2, dtype=np.float32)], [], [places(2, 4)], [[[0, 1, 0, 0]] * 2]),
    "less than the bound: Unique": Case(
        "Unique", [floats(3, 1, 3, 1)], [], [y(4), places(4), places(4), places(4)],
        [[1, 3, 0, 0], [1, 0, 0, 0], [1, 0, 1, 0], [2, 2, 0, 0]],
    ),
    "NaN is the largest: Unique": Case("Unique", [floats(3, NAN, 1, NAN)], [], [y(3)], [[1, 3, NAN]]),
    "NaN is the largest: TopK": Case(
        "TopK", [floats(1, NAN, 2, NAN, 5)], [ints(3)], [y(3), places(3)], [[NAN, NAN, 5], [1, 3, 4]]
    ),
    "NaN is the largest: smallest of TopK": Case(
        "TopK", [floats(1, NAN, 2, NAN, 5)], [ints(4)], [y(4), places(4)], [[1, 2, 5, NAN], [0, 2, 4, 1]], {"largest": 0}
    ),
    "the last NaN": Case("ArgMax", [floats(1, NAN, 2, NAN, 5)], [], [places(1)], [[3]], {"select_last_index": 1}),
    "an axis named twice": Case("ReduceSum", [f(2, 3)], [ints(1, -1)], [y(2, 1)], [[[3], [12]]]),
    "exponentials beyond float32": Case("ReduceLogSumExp", [floats([100, 100])], [ints(1)], [y(1, 1)], [[[100.69315]]]),
    "exponentials beyond float32, axes at run time": Case(
        "ReduceLogSumExp", [floats([100, 100], [-200, -200]), ints(1)], [], [y(2, 1)], [[[100.69315], [-199.30685]]]
    ),
    "exponentials of infinities": Case(
        "ReduceLogSumExp", [floats([-INF, -INF], [INF, 1], [NAN, 1])], [ints(1)], [y(3, 1)], [[[-INF], [INF], [NAN]]]
    ),
}  # fmt: skip

REFUSED = {
    "parts beyond the axis": Case("Split", [f(4), ints(3, 3)], [], [y(3), y(3)], "parts of"),
    "fewer steps than starts": Case("Slice", [f(9, 9), ints(3, 3), ints(8, 8), ints(0, 1), ints(1)], [], [y(5, 5)], "starts"),
    "pads of one axis of two": Case("Pad", [f(5, 5), ints(1, 1)], [], [y(7, 7)], "pads for 2 axes"),
    "the edge of nothing": Case("Pad", [f(0, 3)], [ints(1, 0, 1, 0)], [ANY], "empty tensor", {"mode": "edge"}),
    "expanded from another size": Case("Expand", [f(3), ints(5)], [], [y(5)], "shape"),
    "channels that are no blocks": Case("DepthToSpace", [f(1, 5, 2, 2)], [], [ANY], "blocks", {"blocksize": 2}),
    "rows that are no blocks": Case("SpaceToDepth", [f(1, 5, 3, 2)], [], [ANY], "blocks", {"blocksize": 2}),
    "lengths of half the batch": Case("ReverseSequence", [f(3, 4), ints(2, 2)], [], [y(3, 4)], "lengths"),
    "one value": Case("OneHot", [ints(0, 1)], [ints(3), f(1)], [ANY], "values"),
    "chosen from nothing": Case("Gather", [f(0, 3), ints(0)], [], [y(1, 3)], "chosen"),
    "indices larger than the tensor": Case(
        "GatherElements", [f(2, 2), np.zeros((5, 2), np.int64)], [], [y(5, 2)], "indices", {"axis": 1}
    ),
    "another batch": Case("GatherND", [f(2, 2), np.zeros((5, 1), np.int64)], [], [y(5)], "batch_dims", {"batch_dims": 1}),
    "more updates than indices": Case(
        "ScatterElements", [f(2, 2), np.zeros((1, 1), np.int64), f(5, 5)], [], [y(2, 2)], "updates"
    ),
    "updates larger than the tensor": Case(
        "ScatterElements", [f(2, 2), np.zeros((5, 2), np.int64), f(5, 2)], [], [y(2, 2)], "indices", {"axis": 1}
    ),
    "updates of other indices": Case("ScatterND", [f(4, 2), np.zeros((3, 1), np.int64), f(5, 9)], [], [y(4, 2)], "updates"),
    "updates of another batch": Case("TensorScatter", [CACHE, f(5, 2, 3)], [], [y(2, 4, 3)], "updates"),
    "declared with other axes": Case("NonZero", [f(2, 2)], [], [places(3, 4)], "declared"),
    "no element": Case("ArgMax", [f(2, 0)], [], [places(2, 1)], "no element", {"axis": 1}),
    "more than there are": Case("TopK", [f(3)], [ints(9)], [ANY, ("int64", None)], "largest of"),
    "more than there are, at run time": Case("TopK", [f(3), ints(9)], [], [y(9), places(9)], "largest of"),
}  # fmt: skip


def compiled(case: Case, folder: Path) -> Bundle:
    """A network of the one node."""
    inputs = {f"x{i}": np.asarray(a) for i, a in enumerate(case.inputs)}
    constants = {f"c{i}": np.asarray(a) for i, a in enumerate(case.constants)}

    def info(name: str, dtype: str, shape: Any) -> Any:
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)

    outputs = [info(f"y{j}", dtype, shape) for j, (dtype, shape) in enumerate(case.outputs)]
    node = helper.make_node(case.op, [*inputs, *constants], [o.name for o in outputs], **case.attributes)
    graph = helper.make_graph(
        [node],
        "g",
        [info(name, a.dtype.name, a.shape) for name, a in inputs.items()],
        outputs,
        [numpy_helper.from_array(a, name) for name, a in constants.items()],
    )
    opset = 24 if case.op == "TensorScatter" else 18
    path = folder / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9), path)
    return compile_model(path, folder / "bundle", CompileOptions(target="generic", dtype="model"))


@pytest.mark.parametrize("name", RESULTS)
def test_reference_and_c_give_what_is_defined(name: str, tmp_path: Path) -> None:
    """The C runs in memory that is not zero, so that an element that is not written shows."""
    case = RESULTS[name]
    bundle = compiled(case, tmp_path)
    feed = {f"x{i}": np.asarray(a) for i, a in enumerate(case.inputs)}
    reference, built = run_int(bundle.graph, feed), host.load(tmp_path / "bundle").run_stored(feed)
    for output, expected in zip(bundle.graph.outputs, case.expected, strict=True):
        np.testing.assert_array_equal(built[output], np.asarray(reference[output]))
        np.testing.assert_allclose(bundle.graph.values[output].logical(built[output]), expected, rtol=1e-6)


@pytest.mark.parametrize("name", REFUSED)
def test_shapes_that_contradict_each_other_are_refused(name: str, tmp_path: Path) -> None:
    """Each of these would lead outside of a tensor."""
    case = REFUSED[name]
    with pytest.raises(UnsupportedModelError, match=case.expected):
        compiled(case, tmp_path)
