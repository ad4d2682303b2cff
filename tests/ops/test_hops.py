"""What the hops of a stream are made of besides layers: join_rows, slide_rows, row_sums_s8, running_sum, gather_sums and delayed_sum."""

import random

import numpy as np
import pytest
from kernel_checker import check_kernels

from glowembed.graph.ir import Graph, Node, QType, Value, verify
from glowembed.graph.registry import kernel_ops
from glowembed.ops.handover import JoinParams, SlideParams
from glowembed.ops.sums import DelayedParams, GatherParams, RowSumsParams, RunningParams

BITS = {"int8": 8, "int16": 16, "int32": 32}


def graph(op, params, inputs, y, shares=None):
    """A node alone. inputs, y: shapes and dtypes."""
    values = {
        name: Value(name, shape, qtype=QType(dtype, (1.0,), (0,)))
        for name, (shape, dtype) in {**inputs, "y": y}.items()
    }
    one = Node("node", op, tuple(inputs), ("y",), params=params, shares=shares)
    return verify(Graph("g", (one,), values, tuple(inputs), ("y",)))


def join(row, pieces, dtype="int8"):
    """pieces: for each input its rows, the first that is taken, and how many are."""
    rows = sum(count for _, _, count in pieces)
    (_, a_first, a_count), (_, b_first, b_count), (_, c_first, _) = pieces
    params = JoinParams(row, rows, a_first, a_count, b_first, b_count, c_first)
    elements = row * 8 // BITS[dtype]
    inputs = {name: ((piece[0], elements), dtype) for name, piece in zip("abc", pieces, strict=True)}
    return graph("join_rows", params, inputs, ((rows, elements), dtype))


def slide(row, rows, x_rows, first, count):
    inputs = {"old": ((rows, row), "int8"), "x": ((x_rows, row), "int8")}
    return graph("slide_rows", SlideParams(row, rows, first, count), inputs, ((rows, row), "int8"), shares=0)


def row_sums(rows, columns, channels, zero):
    params = RowSumsParams(rows, columns, channels, zero)
    return graph(
        "row_sums_s8", params, {"x": ((rows, columns, channels), "int8")}, ((rows, channels), "int16")
    )  # fmt: skip


def running(dtype, channels, zero, more, less, shares=None):
    """more, less: rows of the tensor, the first that is taken, and how many are."""
    params = RunningParams(channels, zero, *more[1:], *less[1:])
    inputs = {
        "old": ((1, channels), "int32"),
        "more": ((more[0], channels), dtype),
        "less": ((less[0], channels), dtype),
    }
    op = "running_sum_s8" if dtype == "int8" else "running_sum_s16"
    return graph(op, params, inputs, ((1, channels), "int32"), shares)


def gather(dtype, channels, zero, waiting, period, new, most):
    params = GatherParams(channels, zero, waiting, period, new, most)
    inputs = {
        "old": ((waiting, channels), "int16"),
        "last": ((1, channels), "int16"),
        "more": ((new + 1, channels), dtype),
    }
    op = "gather_sums_s8" if dtype == "int8" else "gather_sums_s16"
    return graph(op, params, inputs, ((waiting, channels), "int16"), shares=0)


def delayed(dtype, channels, zero, waiting, rows):
    inputs = {"queue": ((waiting, channels), "int16"), "more": ((rows, channels), dtype)}
    op = "delayed_sum_s8" if dtype == "int8" else "delayed_sum_s16"
    return graph(op, DelayedParams(channels, zero, rows), inputs, ((1, channels), "int32"))


def small_graphs():
    return [
        join(7, [(2, 0, 2), (3, 0, 3), (1, 0, 1)]),
        slide(7, 4, 4, 1, 2),
        row_sums(3, 2, 5, -7),
        running("int8", 5, 3, (2, 0, 2), (1, 0, 1)),
        running("int16", 5, 0, (2, 0, 2), (1, 0, 1)),
        gather("int8", 3, -7, 4, 2, 2, 3),
        gather("int16", 3, 0, 3, 1, 1, 2),
        delayed("int8", 3, 5, 1, 2),
        delayed("int16", 3, 0, 1, 2),
    ]


def piece(chance, least=0):
    """Rows of a tensor, the first that is taken, and how many are."""
    rows = chance.randint(max(1, least), 6)
    count = chance.randint(least, rows)
    return rows, chance.randint(0, rows - count), count


def random_graph(chance):
    kind = chance.choice(("join", "slide", "row_sums", "running", "gather", "delayed"))
    channels = chance.choice((1, 3, 4, 5, 8, 11, 12, 16, 31, 64))
    if kind == "join":
        dtype = chance.choice(("int8", "int16"))
        return join(channels * BITS[dtype] // 8, [piece(chance, 1), piece(chance), piece(chance)], dtype)
    if kind == "slide":
        rows = chance.randint(1, 7)
        count = chance.randint(1, rows)
        x_rows = chance.randint(count, count + 3)
        return slide(channels, rows, x_rows, chance.randint(0, x_rows - count), count)
    if kind == "row_sums":
        columns = chance.choice((1, 2, 3, 5, 32, 128))
        return row_sums(chance.randint(1, 4), columns, channels, chance.randint(-128, 127))
    dtype = chance.choice(("int8", "int16"))
    if kind == "gather":
        period, new = chance.choice((1, 1, 2, 3)), chance.randint(1, 4)
        most = new + chance.randint(0, 9)
        return gather(dtype, channels, chance.randint(-128, 127), period * chance.randint(1, 6), period, new, most)
    if kind == "delayed":
        return delayed(dtype, channels, chance.randint(-128, 127), chance.randint(1, 4), chance.randint(1, 6))
    return running(dtype, channels, chance.randint(-128, 127), piece(chance), piece(chance), chance.choice((None, 0)))


@pytest.mark.cc
def test_kernels():
    chance, rng = random.Random(0), np.random.default_rng(0)
    for made in (*small_graphs(), *(random_graph(chance) for _ in range(40))):
        assert check_kernels(made.nodes[0], made, rng, ("random", "extremes"))


def test_row_sums_of_the_extremes_fit_int16():
    """128 columns of the elements that are farthest from the zero point."""
    for zero, element in ((-128, 127), (127, -128)):
        made = row_sums(1, 128, 1, zero).nodes[0]
        found = kernel_ops()[made.op].int_ref(made.params, [np.full((1, 128, 1), element, np.int8)], {})
        assert found.reshape(-1).tolist() == [128 * (element - zero)]


def test_a_running_sum_is_the_sum_of_the_rows_that_remain():
    rows = np.random.default_rng(1).integers(-128, 128, (9, 3)).astype(np.int8)
    node = running("int8", 3, 11, (9, 6, 3), (9, 0, 2)).nodes[0]
    before = (rows[:6].astype(np.int32) - 11).sum(axis=0, dtype=np.int32)
    found = kernel_ops()[node.op].int_ref(node.params, [before, rows, rows], {})
    assert found.tolist() == (rows[2:].astype(np.int32) - 11).sum(axis=0).tolist()


def test_sums_that_wait_take_up_each_row_that_they_share_with_new_ones():
    """A queue over rows 0.. of ones: the sum k windows ahead shares the rows that are not above it."""
    new, most, waiting = 2, 5, 4
    node = gather("int8", 1, 0, waiting, 1, new, most).nodes[0]
    zeros, ones = np.zeros((waiting, 1), np.int16), np.ones((new + 1, 1), np.int8)
    found = kernel_ops()[node.op].int_ref(node.params, [zeros, zeros[:1], ones], {})
    assert found.reshape(-1).tolist() == [2, 2, 1, 0]
