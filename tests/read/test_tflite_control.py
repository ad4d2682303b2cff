"""IF, WHILE and DYNAMIC_UPDATE_SLICE of TensorFlow Lite, as Keras writes recurrent layers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tflite_files import T, tflite_file

from glowembed.canonicalize import canonicalize
from glowembed.errors import UnsupportedModelError
from glowembed.graph.op import Refused
from glowembed.read.importer import load
from glowembed.read.tflite.flat import Operator, Subgraph, Tensor
from glowembed.read.tflite.operators import control
from glowembed.reference import run_float

N, ROWS, WIDTH = "int32", 4, 3


def outputs(folder: Path, data: bytes, **inputs) -> dict[str, np.ndarray]:
    path = folder / "model.tflite"
    path.write_bytes(data)
    return run_float(canonicalize(load(path)), {name: np.asarray(x) for name, x in inputs.items()})


def scalar(name: str, number: int | None = None, dtype: str = N) -> T:
    return T(name, (), dtype, data=None if number is None else np.asarray(number))


ABOVE_ZERO = [
    ("GREATER", "s zero", "p"),
    ("IF", "p x w", "y", ("If", {"ThenSubgraphIndex": 1, "ElseSubgraphIndex": 2})),
]


def either(kind: str = "float32") -> bytes:
    """x + w if s > 0, else x * w * w."""
    scale = 0.1 if kind == "int8" else None
    x, w, y = (T(name, (1, 3), kind, scale) for name in "xwy")
    then = ([x, w, y], [("ADD", "x w", "y", ("Add", {}))], "x w", "y")
    other = ([x, w, T("h", (1, 3), kind, scale), y],
             [("MUL", "x w", "h", ("Mul", {})), ("MUL", "h w", "y", ("Mul", {}))], "x w", "y")  # fmt: skip
    main = [x, w, y, T("s", (1,), "float32"), T("zero", (1,), "float32", data=np.zeros(1)), T("p", (1,), "bool")]
    return tflite_file(main, ABOVE_ZERO, "x w s", "y", [then, other])


@pytest.mark.parametrize(("s", "y"), [(0.5, [5, 4, 1]), (-0.5, [16, 9, 0])])
def test_a_branch_is_chosen_when_the_network_runs(tmp_path: Path, s: float, y: list[float]) -> None:
    x, w = np.array([[1, 1, 0]], np.float32), np.array([[4, 3, 1]], np.float32)
    assert outputs(tmp_path, either(), x=x, w=w, s=np.array([s], np.float32))["y"].tolist() == [y]


def rows() -> bytes:
    """Rows h = h * 0.5 + x[t], joined in the way of Keras, for t = 0 to 3."""
    x, ys, h = T("x", (ROWS, 1, WIDTH), "float32"), T("ys", (ROWS, 1, WIDTH), "float32"), T("h", (1, WIDTH), "float32")
    condition = ([scalar("t"), ys, h, x, scalar("last", ROWS), scalar("go", dtype="bool")],
                 [("LESS", "t last", "go")], "t ys h x", "go")  # fmt: skip
    row = T("row", (1, 1, WIDTH), "float32")
    body = (
        [scalar("t"), ys, h, x, scalar("one", 1), T("half", (), "float32", data=np.asarray(0.5)), T("xt", (1, WIDTH), "float32"),
         T("a", (1, WIDTH), "float32"), T("b", (1, WIDTH), "float32"), scalar("u"), T("v1", (1,), N, data=[1]), T("tv", (1,), N),
         T("uv", (1,), N), T("minus", (2,), N, data=[-1, -1]), T("zeros", (2,), N, data=[0, 0]), T("first", (3,), N, data=[0, 0, 0]),
         T("size", (3,), N), T("begin", (3,), N), T("all", (3,), N, data=[-1, -1, -1]), T("before", (1, 1, 1), "float32"),
         T("after", (1, 1, WIDTH), "float32"), row, T("shape", (3,), N, data=[1, 1, WIDTH]), T("new", (ROWS, 1, WIDTH), "float32")],
        [("GATHER", "x t", "xt", ("Gather", {})), ("MUL", "h half", "a", ("Mul", {})), ("ADD", "a xt", "b", ("Add", {})),
         ("ADD", "t one", "u", ("Add", {})), ("RESHAPE", "t v1", "tv"), ("CONCATENATION", "tv minus", "size", ("Concatenation", {})),
         ("SLICE", "ys first size", "before"), ("RESHAPE", "u v1", "uv"), ("CONCATENATION", "uv zeros", "begin", ("Concatenation", {})),
         ("SLICE", "ys begin all", "after"), ("RESHAPE", "b shape", "row"),
         ("CONCATENATION", "before row after", "new", ("Concatenation", {}))], "t ys h x", "u new b x",
    )  # fmt: skip
    main = [scalar("t0", 0), T("empty", ys.shape, "float32", data=np.zeros(ys.shape)), T("h0", h.shape, "float32", data=np.zeros(h.shape)), x,
            *(scalar(name) for name in ("t4",)), T("made", ys.shape, "float32"), T("end", h.shape, "float32"), T("same", x.shape, "float32")]  # fmt: skip
    loop = ("WHILE", "t0 empty h0 x", "t4 made end same", ("While", {"CondSubgraphIndex": 1, "BodySubgraphIndex": 2}))
    return tflite_file(main, [loop], "x", "made end t4 same", [condition, body])


def test_a_loop_of_keras_writes_its_rows(tmp_path: Path) -> None:
    x = np.arange(ROWS * WIDTH, dtype=np.float32).reshape(ROWS, 1, WIDTH)
    found = outputs(tmp_path, rows(), x=x)
    h, expected = np.zeros((1, WIDTH), np.float32), []
    for t in range(ROWS):
        h = h * np.float32(0.5) + x[t]
        expected.append(h)
    assert found["made"].tolist() == np.stack(expected).tolist()
    assert (found["end"].tolist(), int(found["t4"]), found["same"].tolist()) == (h.tolist(), ROWS, x.tolist())


@pytest.mark.parametrize(("start", "at"), [((0, 1), (0, 1)), ((1, 0), (1, 0)), ((9, 9), (1, 2)), ((-5, 1), (0, 1))])
def test_a_part_is_written_where_it_fits(tmp_path: Path, start: tuple[int, int], at: tuple[int, int]) -> None:
    """As in TensorFlow Lite, a start beyond the tensor is moved to the last place where the part fits."""
    data = tflite_file(
        [T("x", (3, 4), "float32"), T("part", (2, 2), "float32"), T("start", (2,), N), T("y", (3, 4), "float32")],
        [("DYNAMIC_UPDATE_SLICE", "x part start", "y")], "x part start", "y",
    )  # fmt: skip
    x, part = np.zeros((3, 4), np.float32), np.array([[1, 2], [3, 4]], np.float32)
    expected = x.copy()
    expected[at[0] : at[0] + 2, at[1] : at[1] + 2] = part
    found = outputs(tmp_path, data, x=x, part=part, start=np.asarray(start, np.int32))
    assert found["y"].tolist() == expected.tolist()


def test_quantized_numbers_stay_outside_of_branches(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModelError, match="quantized numbers in a branch or a loop"):
        outputs(tmp_path, either("int8"))


def test_a_subgraph_that_runs_itself_is_refused(tmp_path: Path) -> None:
    tensors = [T("p", (), "bool"), T("y", (), "bool")]
    again = ("IF", "p p", "y", ("If", {"ThenSubgraphIndex": 1, "ElseSubgraphIndex": 1}))
    with pytest.raises(UnsupportedModelError, match="subgraph 1 runs itself"):
        outputs(tmp_path, tflite_file(tensors, [again], "p", "y", [(tensors, [again], "p", "y")]), p=np.asarray(True))


def graph(tensors: list[Tensor], operators: list[Operator], inputs: tuple[int, ...], output: int) -> Subgraph:
    return Subgraph("g", tuple(tensors), tuple(operators), inputs, (output,))


COUNTER, FOUR, ONE = (
    Tensor("t", N, ()),
    Tensor("four", N, (), array=np.asarray(4)),
    Tensor("one", N, (), array=np.asarray(1)),
)
BELOW_FOUR = graph([COUNTER, FOUR, Tensor("go", "bool", ())], [Operator("LESS", False, (0, 1), (2,))], (0,), 2)
COUNTS = graph([COUNTER, ONE, Tensor("u", N, ())], [Operator("ADD", False, (0, 1), (2,))], (0,), 2)
STAYS = graph([COUNTER], [], (0,), 0)


def test_steps_are_counted() -> None:
    assert [control.trip_count([np.asarray(start)], BELOW_FOUR, COUNTS) for start in (-2, 0, 3, 4, 9)] == [
        6,
        4,
        1,
        0,
        0,
    ]


@pytest.mark.parametrize(
    ("start", "body", "reason"),
    [
        (None, COUNTS, "depends on data"),
        (np.asarray(0), STAYS, "more than 10,000 steps"),
        (np.zeros(2), COUNTS, "depends on data"),
    ],
)
def test_steps_without_a_bound_are_refused(start, body: Subgraph, reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        control.trip_count([start], BELOW_FOUR, body)
