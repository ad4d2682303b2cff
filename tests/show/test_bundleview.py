"""The view of a bundle's integers is complete: it is enough to compute a layer by hand."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from small_models import model, node, saved, weights

from glowembed.__main__ import main
from glowembed.errors import UsageError
from glowembed.graph.ir import QType, Value
from glowembed.pipeline import Bundle, CompileOptions, compile_model
from glowembed.reference import run_int
from glowembed.show import bundleview
from glowembed.show.graph_view import Row, svg

TYPES = [
    (Value("x", (1, 56, 56, 64), qtype=QType("int8", (0.02551,), (-128,))),
     "i8[S:0.025510000 O:-128][0.000,6.505]<1 x 56 x 56 x 64>"),
    (Value("x", (3,), qtype=QType("int16", (0.5,), (0,))), "i16[S:0.500000000 O:0][-16384.000,16383.500]<3>"),
    (Value("x", (2, 3)), "float<2 x 3>"),
    (Value("w", (2, 3), qtype=QType("int8", (0.5, 0.25), (0, 0), 0)), "i8[S:0.250000000..0.500000000 axis 0]<2 x 3>"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "text"), TYPES, ids=[t[1][:20] for t in TYPES])
def test_types_read_as_glow_prints_them(value: Value, text: str) -> None:
    assert bundleview.type_text(value) == text


@pytest.fixture(scope="module")
def bundle(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    folder: Path = request.getfixturevalue("digits")
    out = tmp_path_factory.mktemp("view") / "bundle"
    return compile_model(folder / "model.onnx", out, CompileOptions("x86-64"), data=folder / "data.npz")


def test_the_json_is_enough_to_redo_the_last_layer_by_hand(bundle: Bundle, capsys: pytest.CaptureFixture[str]) -> None:
    """Integer arithmetic on the printed numbers gives the logits of the reference."""
    assert main(["inspect", str(bundle.path), "--quantization", "--json", "-"]) == 0
    layer = json.loads(capsys.readouterr().out)[-1]
    p, constants = layer["params"], layer["constants"]
    stored = np.random.default_rng(0).integers(-128, 128, (1, 1, 8, 8)).astype(np.int8)
    known = run_int(bundle.graph, {bundle.graph.inputs[0]: stored})
    x = known[layer["inputs"][0].split(":")[0]].reshape(-1).tolist()
    for channel, expected in enumerate(known[bundle.graph.outputs[0]].reshape(-1).tolist()):
        acc = constants["bias"][channel] + sum(a * b for a, b in zip(x, constants["weights"][channel], strict=True))
        y = ((acc * constants["multiplier"][channel] + (1 << (p["shift"] - 1))) >> p["shift"]) + p["out_zero_point"]
        assert max(p["lo"], min(p["hi"], y)) == expected


def _real(numbers: Mapping[str, np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    """The factor of a requantization, computed from its numbers by their names alone."""
    right = sum((numbers[n] for n in ("pre_shift", "post_shift", "right_shift") if n in numbers), np.int64(0))
    left = numbers.get("left_shift", np.int64(31)) - 31
    return numbers["multiplier"] * 2.0 ** (left - right)


@pytest.mark.parametrize("law", ["glow", "onnx", "tflite"])
def test_numbers_of_other_laws_are_named(law: str, tmp_path: Path) -> None:
    """Their names say how to compute the scale that they stand for: of each channel, and of each operand of a sum."""
    nodes = [node("Conv", "x w", "c"), node("Sigmoid", "x", "s"), node("Add", "c s", "y")]
    path = saved(model(nodes, {"x": (1, 4, 5, 5)}, {"w": weights(4, 4, 1, 1)}), tmp_path)
    np.save(tmp_path / "data.npy", np.random.default_rng(0).normal(size=(8, 4, 5, 5)).astype(np.float32))
    options = CompileOptions("x86-64", requantization=law)
    bundle = compile_model(path, tmp_path / "out", options, data=tmp_path / "data.npy")
    graph = bundle.graph
    views = {view.op.removesuffix(f"_{law}"): view for view in bundleview.views(bundle)}
    ratios = _real(views["conv2d_s8"].named())
    assert ratios.shape == (4,) and (ratios > 0).all()
    if law == "onnx":  # whose sum here has one rounding, as that of the default law
        return
    add = views["add_each_s8"]
    added = next(n for n in graph.nodes if n.name == add.name)
    a, b, y = (graph.values[name].qtype for name in (*added.inputs, added.outputs[0]))
    assert a is not None and b is not None and y is not None
    words = {name: array.reshape(-1)[0] for name, array in add.named().items()}
    assert words["sign"] == 1
    of = [
        {n.removesuffix(f"_{t}"): v for n, v in words.items() if n.endswith(f"_{t}") or n == "right_shift"}
        for t in "ab"
    ]
    last = (
        2.0**20 * _real({n.removesuffix("_y"): v for n, v in words.items() if n.endswith("_y")})
        if law == "tflite"
        else 1.0
    )
    for numbers, q in zip(of, (a, b), strict=True):
        assert _real(numbers) * last == pytest.approx(q.scale[0] / y.scale[0], rel=1 / 128)


def test_every_layer_says_which_onnx_nodes_it_came_from(bundle: Bundle, capsys: pytest.CaptureFixture[str]) -> None:
    """Convolution, normalization and activation of the exporter are one layer."""
    origins = {layer["name"]: layer["origins"] for layer in bundle.manifest["layers"]}
    stem = ["/stem/conv/Conv", "/stem/bn/BatchNormalization", "/stem/relu/Relu"]
    assert origins["/stem/conv/Conv"] == stem
    code = (bundle.path / f"{bundle.manifest['name']}.c").read_text()
    assert f"; from {', '.join(stem)} */" in code
    assert "/halve/MaxPool -> 1 x 4 x 4 x 16 */" in code, "a layer with the name of its node says no more"
    assert main(["inspect", str(bundle.path), "--quantization"]) == 0
    assert f"from {', '.join(stem)}" in capsys.readouterr().out


def test_the_table_names_every_node(bundle: Bundle, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(bundle.path), "--quantization"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert all(node.name in text for node in bundle.graph.nodes)


SVG = "{http://www.w3.org/2000/svg}"


def edges(bundle: Bundle) -> int:
    return sum(len(n.inputs) for n in bundle.graph.nodes) + len(bundle.graph.outputs)


def test_the_graph_as_dot(bundle: Bundle, tmp_path: Path) -> None:
    bundleview.draw(bundle, tmp_path / "graph.dot")
    assert (tmp_path / "graph.dot").read_text("utf-8").count("->") == edges(bundle)


def test_the_graph_as_a_picture_with_types(bundle: Bundle, tmp_path: Path) -> None:
    """Every node once, every tensor's type, a line for every reader; it is well-formed and needs no program to draw."""
    bundleview.draw(bundle, tmp_path / "graph.svg")
    picture = ElementTree.parse(tmp_path / "graph.svg").getroot()
    texts = [e.text for e in picture.iter(f"{SVG}text")]
    for one in bundle.graph.nodes:
        assert texts.count(one.name) == 1 and (one.kernel or one.op) in texts
        assert bundleview.type_text(bundle.graph.values[one.outputs[0]]) in texts
    assert len([e for e in picture.iter(f"{SVG}path") if e.find("{*}title") is not None]) == edges(bundle)


def test_tensors_that_are_read_later_have_lanes_of_their_own() -> None:
    """x is read by the fifth row and a by the fourth: both lanes are busy at once; b, read by the next row, has none."""
    rows = [
        Row("x", "input", (), "x", round=True), Row("n1", "k", ("x",), "a"), Row("n2", "<k>", ("a", "a"), "b"),
        Row("n3", "k", ("b", "a"), "c"), Row("n4", "k", ("c", "x"), "y"), Row("y", "output", ("y",), None, round=True),
    ]  # fmt: skip
    picture = ElementTree.fromstring(svg("five", rows, {name: f"i8<{name}>" for name in "xabcy"}))
    lines = [
        (e.findtext("{*}title"), e.get("d", "")) for e in picture.iter(f"{SVG}path") if e.find("{*}title") is not None
    ]
    asides = {tip.split(":")[0]: path.split("H")[1] for tip, path in lines if tip and "H" in path}
    assert set(asides) == {"x to n4", "n1 to n3"}
    assert len({path.split("V")[0] for path in asides.values()}) == 2
    assert len(lines) == 7


def test_another_ending_is_refused(bundle: Bundle, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"\.dot or \.svg"):
        bundleview.draw(bundle, tmp_path / "graph.png")
