"""copy_s8, copy_into_s8, insert_s8 and fill_s8 below the ops that use them."""

import itertools

import numpy as np
import pytest
from kernel_checker import check_kernels

from glowembed.errors import UnsupportedModelError
from glowembed.graph.ir import Const, Graph, Node, QType, Value
from glowembed.graph.op import LowerContext
from glowembed.graph.registry import kernel_ops, ops
from glowembed.ops.copy import FillParams, insert_params, slice_params, transpose_params

pytestmark = pytest.mark.cc

SAME = QType("int8", (0.1,), (3,))
QTYPES = [SAME, QType("int8", (0.1,), (-100,)), QType("int8", (0.03,), (127,)), QType("int8", (7.0,), (-128,))]


def check(op, params, shapes, constants=None, shares=None):
    """All kernels of a node against int_ref. The last shape is that of the output."""
    values = {f"x{i}": Value(f"x{i}", shape, qtype=SAME) for i, shape in enumerate(shapes[:-1])}
    values["y"] = Value("y", shapes[-1], qtype=SAME)
    node = Node("n", op, tuple(values)[:-1], ("y",), params=params, constants=constants or {}, shares=shares)
    check_kernels(node, Graph("g", (node,), values, tuple(values)[:-1], ("y",)), np.random.default_rng(1))


@pytest.mark.parametrize("perm", list(itertools.permutations(range(4))), ids=str)
@pytest.mark.parametrize("shape", [(1, 3, 4, 5), (2, 3, 1, 7)], ids=str)
def test_transpose(shape, perm):
    x = np.arange(np.prod(shape)).astype(np.int8).reshape(shape)
    params = transpose_params(shape, perm, SAME, SAME)
    expected = x.transpose(perm)
    assert np.array_equal(kernel_ops()["copy_s8"].int_ref(params, [x], {}), expected.reshape(-1))
    check("copy_s8", params, [shape, expected.shape])


@pytest.mark.parametrize("yq", QTYPES, ids=str)
def test_rescale(yq):
    params = transpose_params((2, 3, 50), (1, 0, 2), SAME, yq)
    assert (params.shift == 0) == (yq == SAME)
    x = np.arange(-128, 172).astype(np.int8).reshape(2, 3, 50)
    found = kernel_ops()["copy_s8"].int_ref(params, [x], {}).astype(np.float64)
    exact = np.clip(SAME.dequantize(x).transpose(1, 0, 2).reshape(-1) / yq.scale[0] + yq.zero_point[0], -128, 127)
    assert np.abs(found - exact).max() <= 0.51
    check("copy_s8", params, [(2, 3, 50), (3, 2, 50)])


def test_runs_are_merged():
    assert transpose_params((4, 5, 6), (0, 1, 2), SAME, SAME).dims == (1, 1, 1, 1, 120)
    assert transpose_params((1, 3, 5, 6), (0, 2, 3, 1), SAME, SAME).dims == (1, 1, 1, 30, 3)
    assert insert_params((4, 5, 6), (4, 9, 6), (0, 2, 0), SAME, SAME).dims == (1, 1, 1, 4, 30)
    assert insert_params((1, 2, 5, 6), (1, 4, 5, 6), (0, 2, 0, 0), SAME, SAME).dims == (1, 1, 1, 1, 60)


ROWS = [
    ("order of columns and channels", transpose_params((1, 4, 5, 6), (0, 1, 3, 2), SAME, SAME), 4),
    ("other rows", transpose_params((1, 4, 5, 6), (0, 2, 1, 3), SAME, SAME), 1),
    ("some channels", slice_params((1, 4, 5, 6), (0, 0, 0, 5), (1, 1, 1, -2), (1, 4, 5, 3), SAME, SAME), 4),
    ("some rows", slice_params((1, 4, 5, 6), (0, 1, 0, 0), (1, 1, 1, 1), (1, 3, 5, 6), SAME, SAME), 1),
    ("the rows backwards", slice_params((1, 4, 5, 6), (0, 3, 0, 0), (1, -1, 1, 1), (1, 4, 5, 6), SAME, SAME), 1),
    ("channels behind others", insert_params((1, 4, 5, 2), (1, 4, 5, 6), (0, 0, 0, 4), SAME, SAME), 4),
    ("rows below others", insert_params((1, 4, 5, 6), (1, 7, 5, 6), (0, 3, 0, 0), SAME, SAME), 1),
    ("several images", insert_params((2, 4, 5, 2), (2, 4, 5, 6), (0, 0, 0, 4), SAME, SAME), 1),
]


@pytest.mark.parametrize(("name", "params", "rows"), ROWS, ids=[r[0] for r in ROWS])
def test_rows_that_stay_in_their_place_are_moved_one_by_one(name, params, rows):
    assert params.rows == rows


def test_rank_8_that_needs_5_loops():
    shape, perm = (1, 2, 1, 3, 2, 2, 1, 3), (7, 5, 6, 4, 3, 2, 1, 0)
    check("copy_s8", transpose_params(shape, perm, SAME, SAME), [shape, tuple(shape[a] for a in perm)])


def test_six_loops_are_refused():
    with pytest.raises(UnsupportedModelError, match="6 loops"):
        transpose_params((2, 2, 2, 2, 2, 2), (5, 4, 3, 2, 1, 0), SAME, SAME)


@pytest.mark.parametrize("yq", QTYPES, ids=str)
@pytest.mark.parametrize("steps", [(1, 1, 1), (1, 2, 1), (2, 1, 3), (1, -1, -2)], ids=str)
def test_slice(steps, yq):
    starts = [0 if step > 0 else 6 for step in steps]
    sizes = tuple(-(-7 // abs(step)) for step in steps)
    check("copy_s8", slice_params((7, 7, 7), starts, steps, sizes, SAME, yq), [(7, 7, 7), sizes])


@pytest.mark.parametrize("yq", QTYPES, ids=str)
@pytest.mark.parametrize(("shape", "starts"), [((3, 4, 5), (0, 0, 0)), ((1, 2, 3), (2, 1, 1)), ((3, 1, 1), (0, 3, 4))])
def test_parts(shape, starts, yq):
    params = insert_params(shape, (3, 4, 5), starts, SAME, yq)
    check("copy_into_s8", params, [(3, 4, 5), shape, (3, 4, 5)], shares=0)
    data = Const(np.random.default_rng(1).integers(-128, 128, shape).astype(np.int8))
    check("insert_s8", params, [(3, 4, 5), (3, 4, 5)], {"x": data}, shares=0)


@pytest.mark.parametrize("size", [1, 3, 4, 17, 1000])
@pytest.mark.parametrize("value", [-128, 0, 127])
def test_fill(size, value):
    check("fill_s8", FillParams(size, value), [(size,)])


def test_rescale_op():
    """Rescale is a copy_s8 of whole rows in one run."""
    values = {"x": Value("x", (1, 2, 3), qtype=SAME), "y": Value("y", (1, 2, 3), qtype=QTYPES[2])}
    node = Node("r", "Rescale", ("x",), ("y",))
    context = LowerContext(Graph("g", (node,), values, ("x",), ("y",)))
    ops()["Rescale"].lower(node, context)
    (lowered,) = context.nodes
    assert lowered.op == "copy_s8"
    assert (lowered.params.rows, lowered.params.dims) == (2, (1, 1, 1, 1, 3))
    assert lowered.params.shift > 0
