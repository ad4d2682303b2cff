"""Recurrent networks, Fourier transforms and boxes against onnxruntime: all cases are nodes of one network, which runs as C too."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import pytest
import three_ways
from onnx import helper

from glowembed.errors import UnsupportedModelError
from glowembed.options.table import CompileOptions
from glowembed.pipeline import compile_model
from glowembed.reference import run_int

RNG = np.random.default_rng(3)
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
STEPS, BATCH, WIDTH, HIDDEN = 5, 3, 2, 4


def normal(*shape: int) -> Any:
    return (RNG.standard_normal(shape) * 0.7).astype(np.float32)


class Case(NamedTuple):
    """inputs: arrays known when the network runs; constants: arrays of the model; outputs: dtype and declared shape."""

    op: str
    attributes: dict[str, Any]
    arrays: dict[str, Any]
    constants: tuple[str, ...] = ()
    outputs: tuple[tuple[str, tuple[int, ...] | None], ...] = (("float32", None),)


def recurrent(
    op: str, direction: str = "forward", given: str = "", constants: str = "W R B", **attributes: Any
) -> Case:
    """given: the names of the inputs after W and R."""
    d, gates = 2 if direction == "bidirectional" else 1, GATES[op]
    arrays = {
        "X": normal(STEPS, BATCH, WIDTH), "W": normal(d, gates * HIDDEN, WIDTH), "R": normal(d, gates * HIDDEN, HIDDEN),
        "B": normal(d, 2 * gates * HIDDEN), "lengths": RNG.integers(1, STEPS + 1, BATCH).astype(np.int32),
        "h": normal(d, BATCH, HIDDEN), "c": normal(d, BATCH, HIDDEN), "P": normal(d, 3 * HIDDEN),
    }  # fmt: skip
    names = [n if n in ("X", "W", "R", *given.split()) else "" for n in [*arrays][: 8 if op == "LSTM" else 6]]
    used = {(n or f"_{i}"): arrays.get(n) for i, n in enumerate(names)}
    count = 3 if op == "LSTM" else 2
    attributes |= {"hidden_size": HIDDEN, "direction": direction}
    return Case(op, attributes, used, tuple(constants.split()), (("float32", None),) * count)


def activated(op: str, names: str, alpha: list[float], beta: list[float]) -> Case:
    numbers = {"activation_alpha": alpha, "activation_beta": beta}
    return recurrent(op, given="B", activations=names.split(), **{n: v for n, v in numbers.items() if v})


def transform(*shape: int, length: int | None = None, dtype: str = "float32", **attributes: Any) -> Case:
    arrays = {"x": RNG.standard_normal(shape).astype(dtype)} | ({} if length is None else {"n": np.array(length)})
    return Case("DFT", attributes, arrays, ("n",), ((dtype, None),))


def frames(*shape: int, window: int = 0, constants: str = "hop w length", **attributes: Any) -> Case:
    arrays = {
        "x": normal(*shape), "hop": np.array(3), "w" if window else "_w": normal(window), "length": np.array(8),
    }  # fmt: skip
    bins = 5 if attributes.get("onesided", 1) else 8
    return Case("STFT", attributes, arrays, tuple(constants.split()), (("float32", (2, 5, bins, 2)),))


def filters(bands: int, length: int, low: float, high: float) -> Case:
    """A Mel filter bank whose lowest frequency is only known when the network runs."""
    arrays = {
        "bands": np.array(bands), "length": np.array(length), "rate": np.array(8000),
        "low": np.array(low, np.float32), "high": np.array(high, np.float32),
    }  # fmt: skip
    shape = (length // 2 + 1, bands)
    return Case("MelWeightMatrix", {}, arrays, ("bands", "length", "rate", "high"), (("float32", shape),))


SEVERAL = {
    "LSTM": ("LeakyRelu HardSigmoid ScaledTanh", [0.3, 0.4, 0.8], [0.6, 0.7]),
    "GRU": ("Affine Elu", [0.7, 0.9], [0.2]),
    "RNN": ("ThresholdedRelu", [0.2], []),
}

CASES: dict[str, Case] = {
    **{f"{op}, {d}": recurrent(op, d, "B lengths h") for op in GATES for d in ("forward", "reverse", "bidirectional")},
    **{f"{op} without biases": recurrent(op) for op in GATES},
    **{f"{op}, all is computed": recurrent(op, "bidirectional", "B lengths h", constants="") for op in GATES},
    **{f"{op}, clip": recurrent(op, given="B", clip=0.3) for op in GATES},
    **{f"{op}, activations": activated(op, *how) for op, how in SEVERAL.items()},
    **{f"RNN, {a}": activated("RNN", a, [], []) for a in ("Relu", "Sigmoid", "Softsign", "Softplus")},
    "LSTM, peepholes": recurrent("LSTM", "bidirectional", "B h c P"),
    "LSTM, coupled": recurrent("LSTM", given="B c", input_forget=1),
    "GRU, linear before reset": recurrent("GRU", "bidirectional", "B lengths h", linear_before_reset=1),
    "DFT of real numbers": transform(2, 8, 3, 1),
    "DFT of a prime length": transform(2, 7, 2),
    "DFT onesided": transform(2, 9, 1, onesided=1),
    "DFT of another axis": transform(2, 3, 6, 1, axis=2, dtype="float64"),
    "DFT, longer": transform(2, 5, 2, length=8),
    "DFT, shorter": transform(2, 5, 1, length=3),
    "DFT inverse": transform(2, 6, 2, inverse=1),
    "STFT": frames(2, 20, 1),
    "STFT with a window": frames(2, 20, window=8),
    "STFT with a computed window": frames(2, 20, 1, window=8, constants="hop length"),
    "STFT with a computed hop": frames(2, 20, 1, window=8, constants="w length"),
    "STFT of complex numbers": frames(2, 20, 2, window=8, onesided=0),
    "Mel": filters(8, 64, 0, 4000),
    "Mel, bands narrower than bins": filters(20, 8, 0, 4000),
}  # fmt: skip


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[tuple[Any, Any, Any]]]:
    nodes, outputs = [], {}
    inputs: dict[str, Any] = {}
    constants: dict[str, Any] = {}
    for i, case in enumerate(CASES.values()):
        names = {n: "" if n.startswith("_") else f"{n}{i}" for n in case.arrays}
        for n, array in case.arrays.items():
            (constants if n in case.constants else inputs)[names[n]] = array
        own = {f"y{i}_{j}": output for j, output in enumerate(case.outputs)}
        nodes.append(helper.make_node(case.op, [*names.values()], [*own], **case.attributes))
        outputs |= own
    model = three_ways.network(nodes, inputs, outputs, {"": 17}, constants)
    found = three_ways.run(model, inputs, tmp_path_factory.mktemp("recurrent"))
    return {name: [found[o] for o in node.output] for name, node in zip(CASES, nodes, strict=True)}


@pytest.mark.parametrize("name", CASES)
def test_the_results_are_those_of_onnxruntime(name: str, results: dict[str, list[tuple[Any, Any, Any]]]) -> None:
    for theirs, reference, c in results[name]:
        assert reference.dtype == c.dtype == theirs.dtype and reference.shape == theirs.shape
        assert reference.tobytes() == c.tobytes()
        assert np.allclose(reference, theirs, rtol=2e-4, atol=2e-5)


def compiled(case: Case, opset: int, folder: Path) -> Any:
    """The graph of one node all of whose inputs are constants but the first."""
    arrays = {n: a for n, a in case.arrays.items() if not n.startswith("_")}
    first, *constants = arrays
    outputs = {f"y{j}": output for j, output in enumerate(case.outputs)}
    nodes = [
        helper.make_node(case.op, ["" if n.startswith("_") else n for n in case.arrays], [*outputs], **case.attributes)
    ]
    model = three_ways.network(nodes, {first: arrays[first]}, outputs, {"": opset}, {n: arrays[n] for n in constants})
    onnx.save(model, folder / "m.onnx")
    return compile_model(folder / "m.onnx", folder / "b", CompileOptions(target="x86-64", dtype="model")).graph


@pytest.mark.parametrize("op", GATES)
def test_a_batch_that_comes_first_changes_nothing_but_the_order(op: str, tmp_path: Path) -> None:
    """onnxruntime has no layout 1."""
    given = "B lengths h" + (" c P" if op == "LSTM" else "")
    case = recurrent(op, "bidirectional", given)
    flipped = {n: np.swapaxes(a, 0, 1) if n in ("X", "h", "c") else a for n, a in case.arrays.items() if a is not None}
    other = case._replace(attributes=case.attributes | {"layout": 1}, arrays={**case.arrays, **flipped})
    plain = run_int(compiled(case, 14, tmp_path), {"X": case.arrays["X"]})
    batched = run_int(compiled(other, 14, tmp_path), {"X": flipped["X"]})
    assert np.array_equal(batched["y0"], plain["y0"].transpose(2, 0, 1, 3))
    assert np.array_equal(batched["y1"], plain["y1"].transpose(1, 0, 2))


REFUSED: dict[str, tuple[Case, str]] = {
    "weights of another width": (
        recurrent("GRU")._replace(arrays=recurrent("GRU").arrays | {"W": normal(1, 3 * HIDDEN, 7)}),
        "its input W has the shape [1, 12, 7], not [1, 12, 2]",
    ),
    "too few activations": (recurrent("LSTM", activations=["Tanh"]), "it has 1 activations, and 3 are needed"),
    "an unknown activation": (recurrent("RNN", activations=["Cosine"]), "its activation 'cosine'"),
    "a length of nothing": (transform(2, 8, 1, length=0), "its length is 0"),
    "three parts of a number": (transform(2, 8, 3), "whose last axis is not 1 or 2"),
    "frames that are too long": (frames(2, 6, 1), "its frames are 8 long, 3 apart"),
    "a window that does not fit": (frames(2, 20, 1, window=4), "its window does not fit frames of 8"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_shapes_that_contradict_each_other_are_refused(name: str, tmp_path: Path) -> None:
    case, words = REFUSED[name]
    with pytest.raises(UnsupportedModelError) as error:
        compiled(case._replace(outputs=(("float32", None),)), 17, tmp_path)
    assert words in str(error.value)


# boxes, attributes, the most boxes of a class, the overlap, the least score
BOXES: dict[str, tuple[Any, dict[str, int], int, float, float | None]] = {
    "corners": (RNG.random((2, 12, 4)), {}, 4, 0.3, 0.2),
    "centers": (RNG.random((2, 12, 4)), {"center_point_box": 1}, 20, 0.1, None),
    "nothing is good enough": (RNG.random((2, 12, 4)), {}, 4, 0.5, 2.0),
    "none is wanted": (RNG.random((2, 12, 4)), {}, 0, 0.5, 0.0),
    "boxes of nothing": (np.zeros((2, 12, 4)), {}, 12, 0.0, 0.0),
    "all may overlap": (RNG.random((2, 12, 4)), {}, 12, 1.0, 0.0),
}


@pytest.mark.parametrize("name", BOXES)
def test_boxes_are_those_of_onnxruntime_and_then_zeros(name: str, tmp_path: Path) -> None:
    boxes, attributes, most, overlap, score = BOXES[name]
    inputs = {"boxes": boxes.astype(np.float32), "scores": RNG.random((2, 2, 12)).astype(np.float32)}
    constants = {"most": np.array([most]), "overlap": np.array([overlap], np.float32)}
    constants |= {} if score is None else {"score": np.array([score], np.float32)}
    nodes = [helper.make_node("NonMaxSuppression", [*inputs, *constants], ["y"], **attributes)]
    model = three_ways.network(nodes, inputs, {"y": ("int64", (48, 3))}, {"": 11}, constants)
    theirs, reference, c = three_ways.run(model, inputs, tmp_path)["y"]
    assert np.array_equal(reference[: len(theirs)], theirs) and not reference[len(theirs) :].any()
    assert np.array_equal(reference, c)
