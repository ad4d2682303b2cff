"""ai.onnx.ml against onnxruntime: all cases are nodes of one network, which is compiled once and runs as C too.

Where onnxruntime does not say what ONNX says, the case is not here: it takes 1 of TreeEnsemble's post transforms for LOGISTIC, and
two classes whose trees score both have the labels 0 and 1.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnxruntime
import pytest
import three_ways
from onnx import TensorProto, helper, numpy_helper

from glowembed.errors import UnsupportedModelError, UsageError
from glowembed.judge.tune import integer_outputs
from glowembed.judge.validation import samples_for
from glowembed.nest.bounds import unproved
from glowembed.nest.expr import index, maximum, minimum
from glowembed.nest.program import Recorder, Tensor
from glowembed.options.table import CompileOptions
from glowembed.pipeline import compile_model
from glowembed.reference import run_int

RNG = np.random.default_rng(11)
FEATURES, SAMPLES = 5, 40
NAN = float("nan")
TRANSFORMS = ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO")
Attributes = dict[str, Any]


def quarters(*shape: int) -> Any:
    """Numbers that are often equal."""
    return np.round(RNG.standard_normal(shape) * 4) / 4


def listed(array: Any) -> list[float]:
    return [float(v) for v in np.ravel(array).astype(np.float32)]


X = quarters(SAMPLES, FEATURES)
HOLES = np.where(RNG.random(X.shape) < 0.3, np.nan, X)
INPUTS = {
    "x": X.astype(np.float32),
    "wide": X + 1e-12,
    "holes": HOLES.astype(np.float32),
    "widths": quarters(SAMPLES, 2).astype(np.float32),
    "numbers": RNG.integers(-2, 4, (SAMPLES, FEATURES)),
    "members": RNG.integers(0, 20, (SAMPLES, FEATURES)).astype(np.float32),
}


class Case(NamedTuple):
    op: str
    attributes: Attributes
    inputs: tuple[str, ...] = ("x",)
    label: bool = False
    dtype: str = "float32"


def forest(
    prefix: str,
    count: int,
    depth: int = 3,
    trees: int = 5,
    modes: tuple[str, ...] = ("BRANCH_LEQ",),
    negative: bool = False,
    target: int | None = None,
) -> Attributes:
    """Complete trees with random thresholds; a leaf adds a weight to each of `count` results, or to one only."""
    inner, total = 2**depth - 1, 2 ** (depth + 1) - 1
    nodes = list(range(total)) * trees
    own = list(range(count)) if target is None else [target]
    leaves = [(t, i, c) for t in range(trees) for i in range(inner, total) for c in own]
    weights = RNG.standard_normal(len(leaves)) if negative else RNG.random(len(leaves)) / trees
    return {
        "nodes_treeids": [t for t in range(trees) for _ in range(total)],
        "nodes_nodeids": nodes,
        "nodes_featureids": [int(v) for v in RNG.integers(0, FEATURES, len(nodes))],
        "nodes_values": listed(quarters(len(nodes))),
        "nodes_modes": [modes[i % len(modes)] if i < inner else "LEAF" for i in nodes],
        "nodes_truenodeids": [2 * i + 1 if i < inner else 0 for i in nodes],
        "nodes_falsenodeids": [2 * i + 2 if i < inner else 0 for i in nodes],
        f"{prefix}_treeids": [t for t, _, _ in leaves],
        f"{prefix}_nodeids": [i for _, i, _ in leaves],
        f"{prefix}_ids": [c for _, _, c in leaves],
        f"{prefix}_weights": listed(weights),
    }


def as_tensors(attributes: Attributes, *names: str) -> Attributes:
    """The attributes with tensors of float64 in place of these lists."""
    tensors = {f"{n}_as_tensor": numpy_helper.from_array(np.array(attributes[n], np.float64)) for n in names}
    return {n: v for n, v in attributes.items() if n not in names} | tensors


def tracks(attributes: Attributes) -> Attributes:
    """The attributes where half of the nodes send NaN to the true child."""
    count = len(attributes["nodes_nodeids"])
    return attributes | {"nodes_missing_value_tracks_true": [i % 2 for i in range(count)]}


def classifier(labels: list[int], transform: str = "NONE", base: list[float] | None = None, **how: Any) -> Case:
    attributes = {"classlabels_int64s": labels, "post_transform": transform, **forest("class", len(labels), **how)}
    return Case("TreeEnsembleClassifier", attributes | ({"base_values": base} if base else {}), label=True)


def categories(mode: str) -> Case:
    """A split by category, as LightGBM's converter writes it: two nodes have the same inner node as true child."""
    modes = [mode, mode, "LEAF", "BRANCH_LEQ", "LEAF", "LEAF"]
    nodes = {
        "nodeids": list(range(6)), "featureids": [0, 0, 0, 1, 0, 0], "values": [1.0, 2.0, 0.0, 8.0, 0.0, 0.0], "modes": modes,
        "truenodeids": [3, 3, 0, 4, 0, 0], "falsenodeids": [1, 2, 0, 5, 0, 0], "treeids": [0] * 6,
    }  # fmt: skip
    weights = {"treeids": [0] * 3, "nodeids": [2, 4, 5], "ids": [0] * 3, "weights": [0.25, 1.5, -2.0]}
    attributes = {f"nodes_{n}": v for n, v in nodes.items()} | {f"target_{n}": v for n, v in weights.items()}
    return Case("TreeEnsembleRegressor", {"n_targets": 1, **attributes}, ("members",))


def regressor(count: int = 1, inputs: str = "x", change: Any = dict, **attributes: Any) -> Case:
    how = {name: attributes.pop(name) for name in ("modes", "depth") if name in attributes}
    trees = change(forest("target", count, negative=True, **how))
    return Case("TreeEnsembleRegressor", {"n_targets": count, **trees, **attributes}, (inputs,))


def linear(labels: list[int], rows: int, transform: str) -> Case:
    attributes = {
        "coefficients": listed(RNG.standard_normal(rows * FEATURES)), "intercepts": listed(RNG.standard_normal(rows)),
        "classlabels_ints": labels, "post_transform": transform,
    }  # fmt: skip
    return Case("LinearClassifier", attributes, label=True)


def machine(classes: int, kernel: str = "RBF", probable: bool = False, transform: str = "NONE") -> Case:
    """A classifier with three support vectors for each class."""
    count, pairs = 3 * classes, classes * (classes - 1) // 2
    attributes = {
        "kernel_type": kernel, "kernel_params": [0.3, 0.5, 3.0], "vectors_per_class": [3] * classes,
        "support_vectors": listed(quarters(count, FEATURES)), "rho": listed(RNG.standard_normal(pairs)),
        "coefficients": listed(RNG.standard_normal((classes - 1) * count)), "post_transform": transform,
        "classlabels_ints": [3 * c + 1 for c in range(classes)],
    }  # fmt: skip
    if probable:
        attributes |= {"prob_a": listed(-1 - RNG.random(pairs)), "prob_b": listed(RNG.random(pairs))}
    return Case("SVMClassifier", attributes, label=True)


def support(kernel: str, one_class: int = 0) -> Case:
    attributes = {
        "kernel_type": kernel, "kernel_params": [0.3, 0.5, 3.0], "n_supports": 4, "rho": [0.2],
        "coefficients": listed(RNG.standard_normal(4)), "support_vectors": listed(quarters(4, FEATURES)),
        "one_class": one_class,
    }  # fmt: skip
    return Case("SVMRegressor", attributes)


def encoder(keys: Any, values: Any, default: Any, **more: Any) -> Attributes:
    tensors = {"keys_tensor": keys, "values_tensor": values, "default_tensor": default}
    return {name: numpy_helper.from_array(np.array(value)) for name, value in tensors.items()} | more


RATES = {"offset": [0.5] * FEATURES, "scale": [2.0, 1.0, 0.5, 3.0, 1.0]}

CASES: dict[str, Case] = {
    "Scaler": Case("Scaler", RATES),
    "Scaler of float64": Case("Scaler", {"offset": [0.3], "scale": [1e3]}, ("wide",)),
    "Scaler of integers": Case("Scaler", RATES, ("numbers",)),
    **{f"Normalizer {norm}": Case("Normalizer", {"norm": norm}) for norm in ("MAX", "L1", "L2")},
    "Normalizer of integers": Case("Normalizer", {"norm": "L2"}, ("numbers",)),
    "Imputer of NaN": Case("Imputer", {"imputed_value_floats": [9.0], "replaced_value_float": NAN}, ("holes",)),
    "Imputer of a number": Case(
        "Imputer", {"imputed_value_int64s": [9, 8, 7, 6, 5], "replaced_value_int64": 1}, ("numbers",), dtype="int64"
    ),
    "Binarizer": Case("Binarizer", {"threshold": 0.25}),
    "FeatureVectorizer": Case("FeatureVectorizer", {"inputdimensions": [FEATURES, 2]}, ("x", "widths")),
    "FeatureVectorizer, cut and filled": Case("FeatureVectorizer", {"inputdimensions": [3, 4]}, ("x", "widths")),
    "OneHotEncoder": Case("OneHotEncoder", {"cats_int64s": [-1, 0, 2], "zeros": 1}, ("numbers",)),
    "LabelEncoder, the first of equal keys": Case(
        "LabelEncoder", {"keys_int64s": [0, 1, 1], "values_floats": [5.0, 6.0, 7.0], "default_float": 4.0}, ("numbers",)
    ),
    "LinearRegressor": Case(
        "LinearRegressor", {"coefficients": [0.5, -1.0, 2.0, 0.25, 1.5], "intercepts": [0.75], "targets": 1}
    ),
    **{f"LinearClassifier of 3, {t}": linear([1, 2, 3], 3, t) for t in TRANSFORMS},
    **{f"LinearClassifier of 2, {t}": linear([1, 2], 2, t) for t in TRANSFORMS},
    **{f"LinearClassifier of 2 by one score, {t}": linear([1, 2], 1, t) for t in TRANSFORMS},
    **{f"trees of 3 classes, {t}": classifier([4, 7, 9], t) for t in TRANSFORMS},
    **{f"trees of 2 by one score, {t}": classifier([4, 7], t, target=0) for t in TRANSFORMS},
    **{f"trees of 2 by one score with a sign, {t}": classifier([4, 7], t, target=0, negative=True) for t in TRANSFORMS},
    **{f"trees of 2 by the second score, {t}": classifier([4, 7], t, target=1, negative=True) for t in TRANSFORMS},
    "trees of 2 with a base value": classifier([0, 1], "LOGISTIC", [0.25], target=0, negative=True),
    "trees of 3 with base values": classifier([0, 1, 2], "SOFTMAX", [0.25, -0.5, 0.125], negative=True),
    **{f"trees, {how}": regressor(2, aggregate_function=how, base_values=[0.5, -1.0]) for how in ("SUM", "AVERAGE", "MIN", "MAX")},
    **{f"trees, {t}": regressor(1, post_transform=t) for t in TRANSFORMS},
    **{f"trees, {mode}": regressor(modes=(mode,)) for mode in ("BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")},
    "trees of several modes": regressor(modes=("BRANCH_LEQ", "BRANCH_GT", "BRANCH_EQ")),
    "trees of leaves": regressor(depth=0),
    "trees without a way for NaN": regressor(inputs="holes"),
    "trees with a way for NaN": regressor(inputs="holes", change=tracks),
    "trees of float64": regressor(inputs="wide", change=lambda a: as_tensors(a, "nodes_values", "target_weights")),
    "trees of float64 with float32 thresholds": regressor(inputs="wide"),
    **{f"SVMRegressor {kernel}": support(kernel) for kernel in ("LINEAR", "POLY", "RBF", "SIGMOID")},
    "SVMRegressor of one class": support("RBF", 1),
    **{f"nodes of two parents, {mode}": categories(mode) for mode in ("BRANCH_EQ", "BRANCH_LT")},
    **{f"SVMClassifier {kernel}": machine(3, kernel) for kernel in ("LINEAR", "POLY", "RBF", "SIGMOID")},
    **{f"SVMClassifier of {n}, {t}": machine(n, transform=t) for n in (2, 4) for t in TRANSFORMS},
    **{f"SVMClassifier of {n} with probabilities": machine(n, probable=True) for n in (2, 3, 5)},
}  # fmt: skip


def ensemble(modes: tuple[int, ...] = (0,), count: int = 1, trees: int = 4, depth: int = 3, **more: Any) -> Attributes:
    """The attributes of TreeEnsemble: complete trees, with their leaves in separate lists."""
    inner, leaves = 2**depth - 1, 2**depth
    children: dict[str, list[int]] = {
        f"nodes_{side}{what}": [] for side in ("true", "false") for what in ("nodeids", "leafs")
    }
    for t in range(trees):
        for i in range(inner):
            for side, child in (("true", 2 * i + 1), ("false", 2 * i + 2)):
                is_leaf = child >= inner
                children[f"nodes_{side}leafs"].append(int(is_leaf))
                children[f"nodes_{side}nodeids"].append(child - inner + t * leaves if is_leaf else child + t * inner)
    own = [modes[i % len(modes)] for i in range(trees * inner)]
    sets = [v for m in own if m == 6 for v in (*sorted({*RNG.integers(0, 20, 5)}), NAN)]
    tensors = {
        "nodes_splits": quarters(len(own)), "leaf_weights": RNG.standard_normal(trees * leaves),
        **({"membership_values": np.array(sets)} if sets else {}),
    }  # fmt: skip
    return {
        **{n: numpy_helper.from_array(v.astype(np.float32)) for n, v in tensors.items()},
        "nodes_modes": numpy_helper.from_array(np.array(own, np.uint8)),
        "nodes_featureids": [int(v) for v in RNG.integers(0, FEATURES, len(own))],
        "leaf_targetids": [int(v) for v in RNG.integers(0, count, trees * leaves)],
        "tree_roots": [t * inner for t in range(trees)],
        "n_targets": count,
        **children,
        **more,
    }


NEWER: dict[str, Case] = {
    "TreeEnsemble of two targets": Case("TreeEnsemble", ensemble((0, 1, 2, 3, 4, 5), 2)),
    **{f"TreeEnsemble, aggregate {a}": Case("TreeEnsemble", ensemble(aggregate_function=a)) for a in range(4)},
    "TreeEnsemble of sets": Case("TreeEnsemble", ensemble((6, 0)), ("members",)),
    "TreeEnsemble with a way for NaN": Case(
        "TreeEnsemble", ensemble((0, 3), nodes_missing_value_tracks_true=[i % 2 for i in range(28)]), ("holes",)
    ),
    "LabelEncoder of NaN": Case("LabelEncoder", encoder(np.float32([0, NAN]), np.float32([1, 2]), np.float32([7])), ("holes",)),
    "LabelEncoder of int64 to int64": Case("LabelEncoder", encoder([0, 1], [10, 20], [7]), ("numbers",), dtype="int64"),
}  # fmt: skip


Results = dict[str, list[tuple[Any, Any, Any]]]


def network(cases: dict[str, Case], opset: int) -> onnx.ModelProto:
    """One node for each case; its outputs are y and a number, and label and a number for a classifier."""
    nodes, outputs = [], {}
    for i, case in enumerate(cases.values()):
        own = {f"label{i}": ("int64", None)} if case.label else {}
        own[f"y{i}"] = (case.dtype, None)
        nodes.append(
            helper.make_node(case.op, case.inputs, [*own], domain="ai.onnx.ml", name=f"n{i}", **case.attributes)
        )
        outputs |= own
    return three_ways.network(nodes, INPUTS, outputs, {"": 21, "ai.onnx.ml": opset}, {})


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """The outputs of each case, by name."""
    found: Results = {}
    for opset, cases in ((3, CASES), (5, NEWER)):
        model = network(cases, opset)
        outputs = three_ways.run(model, INPUTS, tmp_path_factory.mktemp("ml"))
        for node, case in zip(model.graph.node, cases, strict=True):
            found[case] = [outputs[name] for name in node.output]
    return found


@pytest.mark.parametrize("name", [*CASES, *NEWER])
def test_the_results_are_those_of_onnxruntime(name: str, results: Results) -> None:
    """Labels exactly, scores to float32's last places; C has the bits of the reference."""
    for theirs, reference, c in results[name]:
        assert reference.dtype == c.dtype == theirs.dtype and reference.shape == theirs.shape
        assert reference.tobytes() == c.tobytes()
        if theirs.dtype == np.int64:
            assert np.array_equal(reference, theirs)
        else:
            assert np.allclose(reference, theirs, rtol=1e-4, atol=1e-5, equal_nan=True)


TREES = forest("target", 1, depth=2, trees=2)
CLASSES = {"classlabels_ints": [1, 2, 3]}


def changed(name: str, at: int, value: Any, attributes: Attributes = TREES) -> Attributes:
    """The attributes with another element in one list."""
    values = list(attributes[name])
    values[at] = value
    return attributes | {name: values}


REFUSED: dict[str, tuple[str, Attributes, str]] = {
    "a scale that does not fit": ("Scaler", RATES | {"scale": [1.0] * 3}, "its scale has 3 numbers for 5 features"),
    "an unknown norm": ("Normalizer", {"norm": "L3"}, "its norm is 'L3'"),
    "no values": ("Imputer", {}, "it has no imputed_value_floats"),
    "string categories": ("OneHotEncoder", {"cats_strings": ["a"]}, "its categories are strings"),
    "more keys than values": ("LabelEncoder", {"keys_floats": [1.0, 2.0], "values_floats": [1.0]}, "2 keys and 1 values"),
    "string values": ("LabelEncoder", {"keys_floats": [1.0], "values_strings": ["a"]}, "its values are strings"),
    "coefficients that do not fit": ("LinearRegressor", {"coefficients": [1.0]}, "it has 1 coefficients, and 5 are needed"),
    "string labels": ("LinearClassifier", {"coefficients": [1.0] * 10, "classlabels_strings": ["a", "b"]}, "labels are strings"),
    "one class": ("LinearClassifier", {"coefficients": [1.0] * 5, "classlabels_ints": [1]}, "it has one class"),
    "an unknown transform": ("LinearRegressor", {"coefficients": [1.0] * 5, "post_transform": "X"}, "its post_transform is 'X'"),
    "an unknown kernel": ("SVMRegressor", {"kernel_type": "X", "coefficients": [1.0] * 5, "rho": [1.0]}, "its kernel_type is 'X'"),
    "vectors that do not fit": (
        "SVMClassifier", machine(3).attributes | {"vectors_per_class": [3, 3, 2]}, "it has 18 coefficients, and 16 are needed",
    ),
    "a feature outside": ("TreeEnsembleRegressor", changed("nodes_featureids", 0, 99), "it names the feature [99], of 5"),
    "a target outside": ("TreeEnsembleRegressor", changed("target_ids", 0, 3), "it names the class or target [3], of 1"),
    "a missing child": ("TreeEnsembleRegressor", changed("nodes_truenodeids", 1, 77), "its node [(0, 77)] is missing"),
    "a tree with a circle": ("TreeEnsembleRegressor", changed("nodes_truenodeids", 1, 0), "one has itself below it"),
    "a node with two parents": ("TreeEnsembleRegressor", changed("nodes_falsenodeids", 0, 1), "several"),
    "two nodes of one number": ("TreeEnsembleRegressor", changed("nodes_nodeids", 1, 0), "two of its nodes have the same number"),
    "lists of two lengths": ("TreeEnsembleRegressor", TREES | {"nodes_values": [1.0]}, "differ in length"),
    "an unknown mode": ("TreeEnsembleRegressor", changed("nodes_modes", 0, "BRANCH_X"), "nodes of the mode 'BRANCH_X'"),
    "an unknown aggregate": ("TreeEnsembleRegressor", TREES | {"aggregate_function": "X"}, "its aggregate_function is 'X'"),
    "base values that do not fit": ("TreeEnsembleRegressor", TREES | {"base_values": [1.0, 2.0]}, "it has 2 base_values for 1 scores"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_attributes_that_contradict_each_other_are_refused(name: str, tmp_path: Path) -> None:
    op, attributes, words = REFUSED[name]
    case = Case(op, attributes, label=op.endswith("Classifier"))
    onnx.save(network({name: case}, 3), tmp_path / "m.onnx")
    with pytest.raises(UnsupportedModelError) as error:
        compile_model(tmp_path / "m.onnx", tmp_path / "b", CompileOptions(target="x86-64", dtype="model"))
    assert words in str(error.value) and "n0" in str(error.value)
    assert len(str(error.value).splitlines()) == 2, "nothing follows from it"


def test_a_zip_map_becomes_the_tensor_that_it_reads(tmp_path: Path) -> None:
    attributes = {"classlabels_int64s": [4, 7, 9], **forest("class", 3)}
    nodes = [
        helper.make_node("TreeEnsembleClassifier", ["x"], ["label", "p"], domain="ai.onnx.ml", **attributes),
        helper.make_node("ZipMap", ["p"], ["z"], domain="ai.onnx.ml", classlabels_int64s=[4, 7, 9]),
    ]
    z = helper.make_tensor_value_info("z", TensorProto.FLOAT, None)
    z.type.CopyFrom(
        helper.make_sequence_type_proto(
            helper.make_map_type_proto(TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, []))
        )
    )
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["samples", FEATURES])],
        [helper.make_tensor_value_info("label", TensorProto.INT64, ["samples"]), z],
    )
    path = tmp_path / "m.onnx"
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", 3)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), path)
    x = INPUTS["x"][:1]
    label, scores = onnxruntime.InferenceSession(path).run(None, {"x": x})
    bundle = compile_model(path, tmp_path / "b", CompileOptions(target="cortex-m4", dtype="model"))
    found = run_int(bundle.graph, {"x": x})
    assert found["label"].tolist() == label.tolist()
    assert np.allclose(found["z"][0], [scores[0][number] for number in (4, 7, 9)], rtol=1e-6)


def test_a_forest_is_walked_once_over_tables_of_the_smallest_types(tmp_path: Path) -> None:
    """20 trees of depth 6 with 3 classes: 63 nodes and 64 leaves each, of which a node takes a byte for the feature, 4 for the
    threshold, and 2 for each child; a leaf takes 12.
    """
    case = classifier([4, 7, 9], trees=20, depth=6)
    proto = network({"forest": case}, 3)
    onnx.save(proto, tmp_path / "m.onnx")
    bundle = compile_model(tmp_path / "m.onnx", tmp_path / "b", CompileOptions("cortex-m4", dtype="model"))
    tables = {
        name: v for n in bundle.graph.nodes for name in n.inputs if (v := bundle.graph.values[name]).const is not None
    }
    assert sum(v.bytes for v in tables.values()) <= 20 * (63 * (1 + 4 + 4) + 64 * 12 + 2) + 3 + 3 * 8
    walking = [n for n in bundle.graph.nodes if any(v.elements >= 20 * 63 for v in map(tables.get, n.inputs) if v)]
    assert len(walking) == 1 and len(bundle.graph.nodes) == 3


def test_equal_leaves_are_one(tmp_path: Path) -> None:
    case = regressor()
    alike = case.attributes | {"target_weights": [0.25] * len(case.attributes["target_weights"])}
    onnx.save(network({"forest": case._replace(attributes=alike)}, 3), tmp_path / "m.onnx")
    bundle = compile_model(tmp_path / "m.onnx", tmp_path / "b", CompileOptions("cortex-m4", dtype="model"))
    weights = [v for v in bundle.graph.values.values() if v.const is not None and v.dtype == "float32"]
    assert 1 in [v.elements for v in weights]
    assert np.allclose(run_int(bundle.graph, {"x": INPUTS["x"]})["y0"], 5 * 0.25)


@pytest.mark.parametrize(("size", "proved"), [(9, False), (10, True)])
def test_a_walk_over_a_table_of_known_numbers_needs_no_clamp(size: int, proved: bool) -> None:
    table, x, y = (
        Tensor.constant("c0", np.int8([-3, 9]), "int8"),
        Tensor("x0", (size,), "float32"),
        Tensor("y0", (1,), "float32"),
    )
    k = Recorder()
    node = k.let(table.flat(0).to("index"))
    with k.loop(4):
        at = k.let(maximum(node, 0))
        k.store(y, index(0), x.flat(at))
        k.set(node, table.flat(minimum(at, 1)).to("index"))
    assert (not unproved(k.body)) is proved


def test_samples_may_have_nan_where_the_model_tests_for_it(tmp_path: Path) -> None:
    """The Imputer stays in float32, and what follows it is quantized. Infinities are refused."""
    nodes = [
        helper.make_node(CASES["Imputer of NaN"].op, ["holes"], ["full"], domain="ai.onnx.ml", **CASES["Imputer of NaN"].attributes),
        helper.make_node("MatMul", ["full", "w"], ["y"]),
    ]  # fmt: skip
    constants = {"w": RNG.standard_normal((FEATURES, 3)).astype(np.float32)}
    onnx.save(
        three_ways.network(nodes, INPUTS, {"y": ("float32", None)}, {"": 21, "ai.onnx.ml": 3}, constants),
        tmp_path / "m.onnx",
    )
    holes = RNG.standard_normal((4, *INPUTS["holes"].shape)).astype(np.float32)
    holes[RNG.random(holes.shape) < 0.2] = np.nan
    options = CompileOptions(shapes={"holes": INPUTS["holes"].shape})
    bundle = compile_model(tmp_path / "m.onnx", tmp_path / "b", options, {"calib_holes": holes})
    ours = integer_outputs(bundle.graph, samples_for(bundle, {"test_holes": holes}))["y"]
    exact = np.where(np.isnan(holes), 9, holes) @ constants["w"]
    assert np.abs(ours.reshape(exact.shape) - exact).max() < np.ptp(exact) / 100
    assert {entry["dtype"] for entry in bundle.manifest["precision"]} == {"float32", "int8"}
    with pytest.raises(UsageError, match="not finite"):
        compile_model(tmp_path / "m.onnx", tmp_path / "b", options, {"calib_holes": holes * np.float32(np.inf)})
