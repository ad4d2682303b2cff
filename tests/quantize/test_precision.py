"""The layer-wise precision configuration: how rules match, what they set, and the message for every mistake."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from small_models import model, node, saved, weights

from glowembed.__main__ import main
from glowembed.canonicalize import canonicalize
from glowembed.errors import UnsupportedModelError, UsageError
from glowembed.graph.ir import Graph, QType
from glowembed.graph.target import load_board
from glowembed.judge.validation import validate
from glowembed.options.words import FOUR_BITS
from glowembed.pipeline import CompileOptions, compile_model
from glowembed.quantize import schema
from glowembed.quantize.biases import finish_biases
from glowembed.quantize.coverage import coverage, require_all_quantized
from glowembed.quantize.precision import Config, load, parse, resolve, template
from glowembed.quantize.types import quantize, refuse_unused
from glowembed.read.importer import load as load_model

RANGES = (-2.0, 3.0)


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    """conv1, pool, conv2, head (Gemm), Softmax, with values named after them."""
    nodes = [
        node("Conv", "x w1", "conv1"), node("MaxPool", "conv1", "pool", kernel_shape=[2], strides=[2]), node("Conv", "pool w2", "conv2"),
        node("Flatten", "conv2", "flat"), node("Gemm", "flat w3", "head", transB=1), node("Softmax", "head", "y"),
    ]  # fmt: skip
    constants = {"w1": weights(4, 3, 3), "w2": weights(5, 4, 2), "w3": weights(6, 10)}
    return canonicalize(load_model(saved(model(nodes, {"x": (1, 3, 8)}, constants), tmp_path)))


def typed(graph: Graph, *rules: dict, **defaults: object) -> Graph:
    precision = resolve(graph, parse({"defaults": defaults, "rules": list(rules)}))
    return quantize(graph, lambda name, _: RANGES, precision)


def by_op(graph: Graph, op: str, index: int = 0):
    return [n for n in graph.nodes if n.op == op][index]


@pytest.mark.parametrize(
    ("rule", "ops"),
    [
        ({"op": "Conv"}, ["Conv", "Conv"]),
        ({"op": ["Gemm", "Softmax"]}, ["Gemm", "Softmax"]),
        ({"op": "Conv", "position": "first"}, ["Conv"]),
        ({"position": "last"}, ["Gemm", "Softmax"]),
        ({"name": "*"}, None),
    ],
)
def test_what_a_rule_matches(graph: Graph, rule: dict, ops: list[str] | None) -> None:
    resolved = resolve(graph, parse({"rules": [{**rule, "calibration": "kl"}]}))
    matched = [n.op for n in graph.nodes if resolved.nodes[n.name].calibration == "kl"]
    assert matched == (ops if ops is not None else [n.op for n in graph.nodes])


def test_later_rules_win_and_the_table_says_which(graph: Graph) -> None:
    rules = [{"op": "Conv", "calibration": "kl", "per_channel": False}, {"position": "first", "calibration": "mse"}]
    resolved = resolve(graph, parse({"defaults": {"calibration": "sqnr"}, "rules": rules}))
    first, second = (resolved.nodes[by_op(graph, "Conv", i).name] for i in (0, 1))
    assert (first.calibration, second.calibration) == ("mse", "kl")
    assert (first.per_channel, second.per_channel) == (False, False)
    assert first.rules == {"calibration": "rule 2 (position: first)", "per_channel": "rule 1 (op: Conv)"}
    assert resolved.nodes[by_op(graph, "Gemm").name].calibration == "sqnr"


def test_rules_find_nodes_by_the_names_of_the_model(graph: Graph) -> None:
    origin = by_op(graph, "Conv", 1).origins[0]
    resolved = resolve(graph, parse({"rules": [{"name": origin, "bias": "int8"}]}))
    assert resolved.nodes[by_op(graph, "Conv", 1).name].bias == "int8"
    assert resolved.nodes[by_op(graph, "Conv", 0).name].bias == "int32"


def test_the_template_is_a_file_that_changes_nothing(graph: Graph, tmp_path: Path) -> None:
    path = tmp_path / "precision.yaml"
    path.write_text(template(graph), encoding="utf-8")
    loaded = resolve(graph, load(path))
    plain = resolve(graph)
    assert {n: s.json() for n, s in loaded.nodes.items()} == {n: s.json() for n, s in plain.nodes.items()}
    uncommented = template(graph).replace("rules: []\n", "").replace("# rules:", "rules:").replace("#   -", "  -")
    path.write_text(uncommented, encoding="utf-8")
    assert len(load(path).rules) == 6


def test_schema_and_explicit_values_reach_the_types(graph: Graph) -> None:
    done = typed(
        graph,
        {"op": "Conv", "schema": "symmetric_with_power2_scale", "weights_schema": "symmetric_with_power2_scale"},
        {"value": "head", "range": [-8, 8]},
        {"value": "x", "scale": 0.125, "zero_point": 5},
        {"value": "w3*", "scale": [0.5, 0.25, 0.5, 0.5, 0.5, 0.5]},
    )
    conv = by_op(done, "Conv")
    y, w = (done.values[n].qtype for n in (conv.outputs[0], conv.inputs[1]))
    assert y is not None and (y.scale, y.zero_point) == ((2**-5,), (0,))
    assert w is not None and all(np.log2(s) == np.round(np.log2(s)) for s in w.scale)
    head, x = done.values["head"].qtype, done.values["x"].qtype
    assert head is not None and head.scale[0] == pytest.approx(16 / 255) and head.zero_point == (0,)
    assert x is not None and (x.scale, x.zero_point) == ((0.125,), (5,))
    w3 = done.values[by_op(done, "Gemm").inputs[1]].qtype
    assert w3 is not None and w3.scale == (0.5, 0.25, 0.5, 0.5, 0.5, 0.5)


def test_calibration_and_percentile_reach_the_ranges(graph: Graph) -> None:
    asked = {}

    def range_of(name, settings):
        asked[name] = (settings.calibration, settings.percentile)
        return RANGES

    config = parse(
        {"defaults": {"calibration": "kl"}, "rules": [{"op": "Gemm", "calibration": "percentile", "percentile": 99}]}
    )
    quantize(graph, range_of, resolve(graph, config))
    assert asked["head"] == ("percentile", 99.0)
    assert asked["x"] == ("kl", 99.99)


def test_requantization_goes_to_the_node(graph: Graph) -> None:
    done = typed(graph, {"op": "Gemm", "requantization": "tflite"})
    assert by_op(done, "Gemm").attrs["requantization"] == "tflite"
    assert "requantization" not in by_op(done, "Conv").attrs


def test_a_bias_of_few_bits_is_rounded_to_them(tmp_path: Path) -> None:
    bias = np.float32([0.013, 1.27, -0.5])
    nodes, constants = [node("Gemm", "x w b", "y", transB=1)], {"w": weights(3, 4), "b": bias}
    graph = canonicalize(load_model(saved(model(nodes, {"x": (1, 4)}, constants), tmp_path)))
    precision = resolve(graph, parse({"defaults": {"bias": "int8"}}))
    done = finish_biases(quantize(graph, lambda name, _: RANGES, precision), precision, lambda name: None)
    const = done.values[by_op(done, "Gemm").inputs[2]].const
    assert const is not None
    np.testing.assert_allclose(const.materialize(), [0.01, 1.27, -0.5], atol=1e-6)


def test_coverage_names_every_node(graph: Graph) -> None:
    precision = resolve(graph)
    table = coverage(quantize(graph, lambda name, _: RANGES, precision), precision)
    assert [c.node for c in table] == [n.name for n in graph.nodes]
    assert {c.dtype for c in table} == {"int8"}
    assert [c.weights for c in table if c.op == "Conv"] == ["int8 x 4", "int8 x 5"]


MISTAKES = [
    ({"rule": []}, "unknown key 'rule'. Did you mean 'rules'?"),
    ([], "expected 'defaults:' and 'rules:'"),
    ({"defaults": {"dtyp": "int8"}}, "defaults: unknown setting 'dtyp'. Did you mean 'dtype'?"),
    ({"defaults": {"dtype": "int4"}}, "defaults: dtype: unknown value 'int4'"),
    ({"rules": {"op": "Conv"}}, "rules: expected a list"),
    ({"rules": [{"dtype": "int8"}]}, "rule 1 (): does not say what it matches"),
    ({"rules": [{"op": "Conv"}]}, "rule 1 (op: Conv): sets nothing"),
    ({"rules": [{"op": "Convv", "dtype": "int8"}]}, "unknown op 'Convv'. Did you mean 'Conv'?"),
    ({"rules": [{"op": "Flatten", "dtype": "int8"}]}, "Flatten is computed as Reshape: write 'op: Reshape'"),
    ({"rules": [{"op": "Sub", "dtype": "int8"}]}, "rule 1 (op: Sub): matches no node. Ops of the model: Conv, Gemm"),
    ({"rules": [{"name": "no", "op": "Conv", "dtype": "int8"}]}, "matches no node. unknown node 'no'"),
    ({"rules": [{"op": "MaxPool", "weights": "int4"}]}, "rule 1 (op: MaxPool): weights of int4 are for Conv"),
    ({"rules": [{"position": "middle", "dtype": "int8"}]}, "unknown position 'middle'"),
    ({"rules": [{"value": "hed", "range": [0, 1]}]}, "matches no value. unknown value 'hed'. Did you mean 'head'?"),
    ({"rules": [{"value": "x", "op": "Conv", "range": [0, 1]}]}, "matches nodes and values"),
    ({"rules": [{"value": "x", "dtype": "int8"}]}, "dtype applies to a node"),
    ({"rules": [{"op": "Conv", "scale": 1.0}]}, "scale applies to a value"),
    ({"rules": [{"value": "x", "range": [1, 0]}]}, "range must be [lowest, highest]"),
    ({"rules": [{"value": "x", "range": [0, float("nan")]}]}, "range must be"),
    ({"rules": [{"value": "x", "range": [0, 1], "scale": 1}]}, "range and scale exclude each other"),
    ({"rules": [{"value": "x", "zero_point": 1}]}, "zero_point without scale"),
    ({"rules": [{"value": "x", "scale": 0}]}, "scale must be above 0"),
    ({"rules": [{"value": "x", "scale": -1.0}]}, "scale must be above 0"),
    ({"rules": [{"value": "x", "scale": float("nan")}]}, "scale must be above 0"),
    ({"rules": [{"value": "x", "scale": "big"}]}, "scale must be a number"),
    ({"rules": [{"value": "x", "scale": [1.0, 2.0]}]}, "2 scales for 'x'; there must be 1, because it is not weights"),
    ({"rules": [{"value": "w1", "scale": [1.0, 2.0]}]}, "2 scales for 'w1'; there must be 1 or 4"),
    ({"rules": [{"value": "w1", "scale": 1.0, "zero_point": [1, 2]}]}, "1 scales and 2 zero points"),
    ({"rules": [{"value": "x", "scale": 1.0, "zero_point": 0.5}]}, "zero_point must be whole numbers"),
    (
        {"rules": [{"value": "x", "scale": 1.0, "zero_point": 128}]},
        "zero_point 128 of 'x' does not fit int8: -128..127",
    ),
    ({"rules": [{"value": "x", "scale": 1e-50}]}, "is none that float32 can hold"),
    ({"defaults": {"per_channel": "yes"}}, "per_channel: expected true or false"),
    ({"defaults": {"percentile": 20}}, "percentile: expected a number above 50"),
    ({"rules": [{"op": "Conv", "weights": "int16"}]}, "is int8; weights of int16 need int16 layers"),
]


@pytest.mark.parametrize(("document", "words"), MISTAKES, ids=[words[:40] for _, words in MISTAKES])
def test_mistakes(graph: Graph, document: object, words: str) -> None:
    with pytest.raises(UsageError) as error:
        quantize(graph, lambda name, _: RANGES, resolve(graph, parse(document)))
    assert words in str(error.value)


MISUSED = [
    ("Conv", {"dtype": "int16"}, "is int16; {kind} need int8 layers"),
    ("Conv", {"weights_schema": "asymmetric"}, "has {kind}, which have no zero point"),
    ("MaxPool", {}, "has no weights: leave weights out of this rule"),
]


@pytest.mark.parametrize(("op", "more", "words"), MISUSED, ids=[words[:30] for *_, words in MISUSED])
@pytest.mark.parametrize("weights", FOUR_BITS)
def test_weights_of_four_bits_where_they_cannot_be(graph: Graph, weights: str, op: str, more: dict, words: str) -> None:
    name = by_op(graph, op).name
    with pytest.raises(UsageError, match=words.format(kind=FOUR_BITS[weights])) as error:
        resolve(graph, parse({"rules": [{"name": name, "weights": weights, **more}]}))
    assert name in str(error.value)


def test_weights_of_int4_by_default_are_those_of_the_layers_that_have_them(graph: Graph) -> None:
    done = typed(graph, {"op": "Gemm", "dtype": "int16"}, weights="int4")
    types = {n.op: done.values[n.inputs[1]].qtype for n in done.nodes if len(n.inputs) == 3}
    assert {op: qtype.dtype for op, qtype in types.items() if qtype is not None} == {"Conv": "int4", "Gemm": "int8"}


def test_weights_of_int4_that_no_layer_can_have_are_refused(graph: Graph) -> None:
    with pytest.raises(UsageError, match="weights of int4 change nothing: they need int8 layers"):
        typed(graph, dtype="int16", weights="int4")


def test_a_network_without_such_layers_takes_weights_of_int4_as_they_are(tmp_path: Path) -> None:
    """One setting for fifty networks must not fail for the one that has no weights."""
    pooling = model([node("MaxPool", "x", "y", kernel_shape=[2], strides=[2])], {"x": (1, 3, 8)})
    done = typed(canonicalize(load_model(saved(pooling, tmp_path))), weights="int4")
    assert [n.op for n in done.nodes if n.op == "MaxPool"]


def test_the_clip_of_int4_has_the_least_squared_error() -> None:
    part = np.float32([*np.linspace(-0.5, 0.5, 63), 1.4])
    low, high = schema.least_squares(part)
    assert -low == high < 1.4

    def error(peak: float) -> float:
        scale = peak / 7
        return float(np.square(np.clip(np.rint(part / scale), -7, 7) * scale - part).sum())

    assert all(error(high) <= error(1.4 * clip) for clip in schema.CLIPS)


def test_the_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    with pytest.raises(UsageError, match=r"p\.yaml: cannot be read"):
        load(path)
    for text, words in (
        ("a: [", "cannot be read as YAML"),
        ("!!python/object:os.system {}", "YAML"),
        ("b: 1", "unknown key"),
    ):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(UsageError, match=rf"p\.yaml: .*{words}"):
            load(path)


LATE_MISTAKES = [
    ("{op: Sub, dtype: int8}", "rule 2, line 5 (op: Sub): matches no node."),
    ("{op: Gemm, dtype: int8, weights: int16}", "rule 2, line 5 (op: Gemm): Gemm "),
    ("{value: x, scale: [1.0, 2.0]}", "rule 2, line 5 (value: x): 2 scales for 'x'"),
    (
        "{value: x, scale: 1.0, zero_point: 40000}",
        "rule 2, line 5 (value: x): zero_point 40000 of 'x' does not fit int16",
    ),
    ("{value: w3*, scale: 1.0e-50}", "rule 2, line 5 (value: w3*): a scale of 'w3"),
    ("{op: Conv, dtpe: int8}", "rule 2, line 5 (op: Conv): unknown setting 'dtpe'"),
]
"""A rule, and what is said of it as the second of a file, whether the file, the graph or a type shows the mistake."""


@pytest.mark.parametrize(("rule", "words"), LATE_MISTAKES, ids=[words for _, words in LATE_MISTAKES])
def test_every_mistake_names_the_file_and_the_line(graph: Graph, rule: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(f"# ours\ndefaults: {{}}\nrules:\n  - {{op: Conv, dtype: int16}}\n  - {rule}\n", encoding="utf-8")
    with pytest.raises(UsageError) as error:
        quantize(graph, lambda name, _: RANGES, resolve(graph, load(path)))
    assert str(error.value).startswith(f"{path}: {words}")
    assert str(error.value).count("p.yaml") == 1


def test_a_rule_for_values_that_stay_float_is_refused(graph: Graph, tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"

    def compiled(*rules: str) -> Graph:
        path.write_text("rules:\n" + "".join(f"- {rule}\n" for rule in rules), encoding="utf-8")
        precision = resolve(graph, load(path))
        done = quantize(graph, lambda name, _: RANGES, precision)
        refuse_unused(done, precision)
        return done

    gemm, softmax = "{op: Gemm, dtype: float32}", "{op: Softmax, dtype: float32}"
    for value, setting in (("w3*", "range: [-1, 1]"), ("y", "scale: 0.5")):
        with pytest.raises(
            UsageError, match=r"p\.yaml: rule 3, line 4 .*: '.*' is float32, which has no (range|scale)"
        ):
            compiled(gemm, softmax, f"{{value: '{value}', {setting}}}")
    done = compiled(gemm, "{value: head, range: [-8, 8]}")  # the Softmax that follows reads it in int8
    read = done.values[by_op(done, "Softmax").inputs[0]].qtype
    assert read is not None and read.range() == pytest.approx((-8, 8), abs=0.1)


def test_without_a_file_all_is_int8(graph: Graph) -> None:
    assert {s.dtype for s in resolve(graph, Config()).nodes.values()} == {"int8"}


def edges(graph: Graph) -> list[tuple[str, str, str]]:
    """(op, value, dtype made) of every conversion."""
    kinds = {n: v.qtype.dtype if v.qtype else v.dtype for n, v in graph.values.items()}
    return [
        (n.op, n.inputs[0], kinds[n.outputs[0]]) for n in graph.nodes if n.op in ("Rescale", "Quantize", "Dequantize")
    ]


def test_a_conversion_is_put_behind_a_pool_and_before_a_pad(graph: Graph) -> None:
    """conv1 is float32, the rest int8: the pool's output is a quarter of its input."""
    done = typed(graph, {"position": "first", "dtype": "float32"})
    pool = by_op(done, "MaxPool")
    assert edges(done) == [("Quantize", pool.outputs[0], "int8")]
    assert done.values["x"].qtype is None
    back = typed(graph, {"position": "last", "dtype": "float32"})
    assert [(op, dtype) for op, _, dtype in edges(back)] == [("Dequantize", "float32")]
    assert back.values["y"].qtype is None


def test_a_rule_for_a_node_that_moves_holds(graph: Graph) -> None:
    done = typed(graph, {"op": "MaxPool", "dtype": "int16"})
    assert [(op, dtype) for op, _, dtype in edges(done)] == [("Rescale", "int16"), ("Rescale", "int8")]


def test_one_conversion_for_all_readers(tmp_path: Path) -> None:
    nodes = [node("Conv", "x w", "a"), node("Sigmoid", "a", "s"), node("Tanh", "a", "t"), node("Mul", "s t", "y")]
    proto = model(nodes, {"x": (1, 3, 8)}, {"w": weights(4, 3, 3)}, outputs=("y", "s"))
    graph = canonicalize(load_model(saved(proto, tmp_path)))
    done = typed(graph, {"op": ["Sigmoid", "Tanh", "Mul"], "dtype": "int16"})
    assert [(op, dtype) for op, _, dtype in edges(done)] == [("Rescale", "int16")]
    assert {done.values[n].qtype.scale[0] for n in ("s", "t")} == {1 / 32768}


def test_int16_is_symmetric_with_weights_of_int8_unless_asked(graph: Graph) -> None:
    plain = typed(graph, dtype="int16")
    asked = typed(graph, dtype="int16", weights="int16", schema="asymmetric")
    for done, dtype, zero in ((plain, "int8", True), (asked, "int16", False)):
        head, w = done.values["head"].qtype, done.values[by_op(done, "Gemm").inputs[1]].qtype
        assert head is not None and w is not None
        assert (head.dtype, w.dtype, head.zero_point == (0,)) == ("int16", dtype, zero)


def test_weights_that_two_precisions_share_have_a_twin(tmp_path: Path) -> None:
    nodes = [node("Conv", "x w", "a"), node("Conv", "a w", "b"), node("Relu", "b", "y")]
    graph = canonicalize(load_model(saved(model(nodes, {"x": (1, 3, 8)}, {"w": weights(3, 3, 3)}), tmp_path)))
    done = typed(graph, {"position": "first", "dtype": "int16", "weights": "int16"})
    first, second = (done.values[by_op(done, "Conv", i).inputs[1]] for i in (0, 1))
    assert first.name != second.name
    assert (first.qtype and first.qtype.dtype, second.qtype and second.qtype.dtype) == ("int16", "int8")


def test_what_stays_float_is_listed_with_the_reason(graph: Graph) -> None:
    precision = resolve(graph, parse({"rules": [{"op": "Softmax", "dtype": "float32"}]}))
    table = coverage(quantize(graph, lambda name, _: RANGES, precision), precision)
    with pytest.raises(
        UnsupportedModelError, match=r"1 of \d+ nodes are not quantized:\n  Softmax '.*': rule 1 \(op: Softmax\)"
    ):
        require_all_quantized(table)


MORE_MISTAKES = [
    ({"rules": [{"op": "Conv", "dtype": "float32", "schema": "symmetric"}]}, "is float32, which has no schema"),
    (
        {"rules": [{"op": "Conv", "dtype": "int16", "requantization": "glow"}]},
        "'requantization: glow' is for int8 only",
    ),
    ({"rules": [{"op": "Conv", "dtype": "int16", "weights_schema": "asymmetric"}]}, "needs symmetric weights_schema"),
    (
        {"rules": [{"op": "Conv", "dtype": "int16", "bias": "int8"}]},
        "is int16, whose bias is int64; 'bias: int8' is for int8",
    ),
    ({"rules": [{"name": "n_y", "bias": "int8"}]}, "has no weights: leave bias out of this rule"),
]


@pytest.mark.parametrize(("document", "words"), MORE_MISTAKES, ids=[words[:40] for _, words in MORE_MISTAKES])
def test_impossible_settings(graph: Graph, document: object, words: str) -> None:
    with pytest.raises(UsageError) as error:
        resolve(graph, parse(document))
    assert words in str(error.value)


def test_an_op_that_has_no_int16_says_what_it_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = canonicalize(load_model(saved(model([node("Floor", "x", "y")], {"x": (1, 3)}), tmp_path)))
    monkeypatch.setattr("glowembed.quantize.precision.dtypes_of", lambda op: ("int8", "float32"))
    with pytest.raises(UsageError, match="cannot be int16: only int8, float32"):
        resolve(graph, parse({"rules": [{"op": "Floor", "dtype": "int16"}]}))


@pytest.mark.cc
@pytest.mark.parametrize("board", ["host", pytest.param("nrf51-large", marks=[pytest.mark.qemu, pytest.mark.arm_gcc])])
def test_three_dtypes_in_one_bundle_are_exact(digits: Path, tmp_path: Path, board: str) -> None:
    """float32, int16 and int8 layers side by side, bit for bit, in hardware and in software arithmetic."""
    rules = [
        {"position": "first", "dtype": "float32"},
        {"name": "*widen*", "dtype": "int16"},
        {"name": "*depthwise*", "dtype": "int16", "weights": "int16"},
        {"position": "last", "dtype": "float32"},
    ]
    options = CompileOptions(load_board(board).target, precision=parse({"rules": rules}))
    bundle = compile_model(digits / "model.onnx", tmp_path / "bundle", options, digits / "data.npz")
    assert {"int8", "int16", "float32"} == {entry["dtype"] for entry in bundle.manifest["precision"]}
    result = validate(bundle, digits / "data.npz", board, samples=3)
    assert result.bit_exact
    assert result.json["outputs"][0]["sqnr_db"] > 30


def test_int16_keeps_a_bit_of_headroom_for_what_calibration_did_not_see(graph: Graph) -> None:
    for settings, reach in (({}, 6.0), ({"calibration": "minmax"}, 6.0), ({"calibration": "mse"}, 3.0)):
        head = typed(graph, dtype="int16", **settings).values["head"].qtype
        assert head is not None
        assert head.scale[0] == pytest.approx(reach / 32767, rel=1e-4)


@pytest.mark.parametrize("dtype", ["int16", "float32"])
def test_another_dtype_clips_as_the_type_of_a_quantized_model_did(graph: Graph, dtype: str) -> None:
    """Quantized models leave out a ReLU where the zero point is -128."""
    given = replace(graph.values["head"], qtype=QType("int8", (0.5,), (-128,)))
    graph = replace(graph, values={**graph.values, "head": given})
    assert typed(graph).values["head"].qtype == given.qtype
    lifted = by_op(typed(graph, {"op": "Gemm", "dtype": dtype}), "Gemm")
    assert (lifted.attrs["act_min"], lifted.attrs["act_max"]) == (0.0, 127.5)


def test_the_command_prints_the_table_a_template_and_checks_a_file(
    digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    net, path = str(digits / "model.onnx"), tmp_path / "p.yaml"
    assert main(["precision", net, "--template"]) == 0
    path.write_text(capsys.readouterr().out, encoding="utf-8")
    assert main(["precision", net, "--check", str(path)]) == 0
    assert "AveragePool" in capsys.readouterr().out
    path.write_text("rules: [{position: last, dtype: int16}]", encoding="utf-8")
    assert main(["precision", net, "--check", str(path), "--json", "-"]) == 0
    nodes = json.loads(capsys.readouterr().out)["nodes"]
    assert [n["dtype"] for n in nodes.values()][-1] == "int16"
    path.write_text("rules: [{position: last, dtype: int17}]", encoding="utf-8")
    assert main(["precision", net, "--check", str(path)]) == 2
    assert "rule 1, line 1 (position: last): dtype: unknown value 'int17'" in " ".join(capsys.readouterr().err.split())


def test_require_all_quantized_fails_with_the_list(
    digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "p.yaml"
    path.write_text("rules: [{position: last, dtype: float32}]", encoding="utf-8")
    words = ["--data", str(digits / "data.npz"), "--precision", str(path), "--require-all-quantized"]
    assert main(["compile", str(digits / "model.onnx"), *words, "-o", str(tmp_path / "b")]) == 3
    told = " ".join(capsys.readouterr().err.split())
    assert "not quantized" in told and "Gemm" in told and "rule 1, line 1 (position: last)" in told
    assert not (tmp_path / "b").exists()
