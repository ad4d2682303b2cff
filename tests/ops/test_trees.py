"""Trees: trees_s8, trees_s16 and those with shares, whose nodes are words."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checker import Case, case, check_op, imported, one_node_model
from small_models import saved

from glowembed.graph.ir import QType
from glowembed.ops.nest import Nest
from glowembed.ops.trees import Trees, packable, stored_thresholds
from glowembed.pipeline import CompileOptions, compile_model
from glowembed.ranges.datasets import Dataset

pytestmark = pytest.mark.cc

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GT", "BRANCH_GTE")
Shape = tuple[int, int] | None
"""A tree as its left and right subtree; None is a leaf."""


def balanced(depth: int) -> Any:
    return (balanced(depth - 1), balanced(depth - 1)) if depth else None


def chain(length: int, left: bool) -> Any:
    """A chain of inner nodes, each of which has a leaf on its other side."""
    tree: Any = None
    for _ in range(length):
        tree = (tree, None) if left else (None, tree)
    return tree


def trees(
    name: str, shapes: list[Any], targets: int = 3, features: int = 5, samples: int = 4, modes: tuple[str, ...] = MODES[:1],
    votes: bool = False, alike: bool = False, turns: bool = False, seed: int = 1, split: float | None = None, **attrs: Any,
) -> Case:  # fmt: skip
    """A TreeEnsembleRegressor. votes: a leaf adds 1 to one target, else a weight to each; alike: these have the sum 1;
    turns: one target after the other.
    """
    rng = np.random.default_rng(seed)
    keys = ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids")
    nodes: dict[str, list[Any]] = {f"nodes_{key}": [] for key in keys}
    leaves: dict[str, list[Any]] = {f"target_{key}": [] for key in ("treeids", "nodeids", "ids", "weights")}
    for t, root in enumerate(shapes):
        waiting, count = [(0, root)], 1
        while waiting:
            number, tree = waiting.pop()
            at = (count, count + 1) if tree else (0, 0)
            threshold = rng.uniform(-1.9, 2.9) if split is None else split
            mode = modes[len(nodes["nodes_modes"]) % len(modes)] if tree else "LEAF"
            values = (t, number, len(nodes["nodes_modes"]) % features, float(np.float32(threshold)), mode, *at)
            for key, value in zip(keys, values, strict=True):
                nodes[f"nodes_{key}"].append(value)
            if tree:
                count += 2
                waiting += zip(at, tree, strict=True)
                continue
            own = (
                [(len(leaves["target_ids"]) % targets if turns else int(rng.integers(targets)), 1.0)]
                if votes
                else list(enumerate(_shares(rng, targets) if alike else rng.normal(size=targets).tolist()))
            )
            for target, weight in own:
                for key, value in zip(leaves, (t, number, target, weight), strict=True):
                    leaves[key].append(value)
    given = {"n_targets": targets, **nodes, **leaves, **attrs}
    return case(name, "TreeEnsembleRegressor", (samples, features), domain="ai.onnx.ml", **given)


def _shares(rng: np.random.Generator, targets: int) -> list[float]:
    shares = rng.integers(1, 9, targets)
    return [float(share) for share in shares / shares.sum()]


CASES = [
    trees("votes", [balanced(3)] * 7, votes=True),
    trees("votes of eight classes", [balanced(4)] * 9, targets=8, votes=True),
    trees("votes of nine classes", [balanced(4)] * 9, targets=9, votes=True),
    trees("weights", [balanced(3)] * 5),
    trees("many leaves that are alike", [balanced(6)] * 5, targets=2, votes=True),
    trees("one target", [balanced(4)] * 3, targets=1),
    trees("one sample", [balanced(2)] * 3, samples=1),
    trees("leaves", [None, balanced(2), None]),
    trees("one node", [balanced(1)]),
    trees("one feature", [balanced(3)] * 2, features=1),
    trees("feature 127", [balanced(5)] * 4, features=128),
    trees("chains to the left", [chain(127, True), chain(5, True)]),
    trees("rows of the same sum", [balanced(5)] * 8, alike=True),
    trees("rows of the same sum, and a base", [balanced(2)] * 3, alike=True, base_values=[0.5, -1.0, 2.0]),
    trees("shares", [balanced(3)] * 50, alike=True),
    trees("shares of two targets", [balanced(2), chain(3, True)] * 30, targets=2, features=20, alike=True),
    trees("127 skipped", [(balanced(6), balanced(6)), (chain(127, True), balanced(1))], features=128, votes=True, turns=True),
    trees("more skipped where features are few", [(chain(500, True), balanced(1))], features=16),
    trees("more rows than a node has numbers for", [balanced(5), chain(140, False), chain(9, True)], features=128),
    trees("chains to the right", [chain(300, False)]),
    trees("depth 8", [balanced(7)] * 2),
    trees("a base", [balanced(2)] * 3, base_values=[0.5, -1.0, 2.0]),
    trees("the mean", [balanced(2)] * 3, aggregate_function="AVERAGE", base_values=[0.5, -1.0, 2.0]),
    *(trees(f"of {mode}", [balanced(4)] * 4, modes=(mode,)) for mode in MODES),
    trees("of all modes", [balanced(5)] * 4, modes=MODES),
    trees("a threshold above all", [balanced(3)] * 2, split=1e9),
    trees("a threshold below all", [balanced(3)] * 2, split=-1e9, modes=MODES),
    trees("shares of five targets", [balanced(3)] * 50, targets=5, alike=True),
    trees("shares of leaves beside inner nodes", [chain(9, True), None] * 30, features=128, alike=True),
]  # fmt: skip

SMALL = (
    trees("small", [balanced(1)] * 2, targets=2, features=2, samples=3),
    trees("fewer outputs", [balanced(1)] * 3, targets=1, features=3, samples=3),
    trees("more outputs", [balanced(1)] * 2, targets=4, features=2, samples=3),
    trees("shares", [balanced(1)] * 50, targets=4, features=2, samples=3, alike=True, aggregate_function="AVERAGE"),
    trees("two shares", [balanced(1)] * 50, targets=3, features=2, samples=3, alike=True, aggregate_function="AVERAGE"),
)
"""Each output depends on each feature of its sample."""


def random_case(chance: Any) -> Case:
    shapes = [balanced(chance.randrange(6)) for _ in range(chance.choice((1, 2, 7, 50, 50)))]
    targets, features = chance.choice((1, 2, 3, 5, 9)), chance.choice((1, 5, 20))
    return trees(
        "node",
        shapes,
        targets,
        features,
        chance.choice((1, 3)),
        MODES,
        *chance.choice(((True, False), (False, True), (False, True), (False, False))),
        chance.randrange(99),
    )


@pytest.mark.parametrize("case", CASES, ids=str)
def test_trees(case: Case) -> None:
    check_op(case, settings={"dtype": "int8"})


@pytest.mark.parametrize(("dtype", "op"), [(None, "nest"), ("int8", "trees_s8"), ("int16", "trees_s16")])
def test_integers_are_asked_for(dtype: Any, op: str, tmp_path: Path) -> None:
    """By default the decisions are those of the model, whatever sizes the features have."""
    path = saved(one_node_model(CASES[0]), tmp_path)
    shape = CASES[0].inputs[0]
    data = Dataset({"x0": np.random.default_rng(1).normal(size=(5, *shape)).astype(np.float32)}, shapes={"x0": shape})
    bundle = compile_model(path, tmp_path / "bundle", CompileOptions("x86-64", dtype=dtype), data)
    assert op in {node.op for node in bundle.graph.nodes}


@pytest.mark.parametrize("dtype", ["int16", "float32"])
@pytest.mark.parametrize("case", [CASES[i] for i in (0, 2, 3, 6, 12, 16, 21)], ids=str)
def test_other_types(case: Case, dtype: str) -> None:
    """An int16 output has steps of about two units of the rows, each of which is rounded."""
    check_op(case, steps=2.0 if dtype == "int16" else 1.01, settings={"dtype": dtype})


@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_shares_are_bytes_and_cost_little(dtype: str) -> None:
    """A share is less than 1/255 wrong, and the errors of 50 trees mostly cancel out: a score is within a thousandth of their sum."""
    case = trees("shares", [balanced(3)] * 50, samples=64, alike=True)
    steps = 1.01 if dtype == "int8" else 0.001 * 65536
    check_op(case, steps=steps, settings={"dtype": dtype})


GENERIC = [
    trees("leaves only", [None, None], votes=True),
    trees("a feature too many", [balanced(6)] * 9, features=400),
    trees("128 skipped", [(chain(128, True), balanced(1))], features=128, votes=True, turns=True),
    trees("equality", [balanced(2)], modes=("BRANCH_EQ",)),
    trees("the largest", [balanced(2)], aggregate_function="MAX"),
]


@pytest.mark.parametrize("case", GENERIC, ids=str)
def test_what_nodes_cannot_hold_stays_a_loop_nest(case: Case) -> None:
    assert [node.op for node in imported(one_node_model(case)).nodes] == ["Nest"]


@pytest.mark.parametrize("dtype", ["int8", "int16"])
@pytest.mark.parametrize("mode", MODES)
def test_each_stored_number_goes_the_way_of_its_real_number(mode: str, dtype: str) -> None:
    """Thresholds on stored numbers, just beside them, between them and outside of all."""
    qtype = QType(dtype, (0.1,), (7,))
    low, high = qtype.limits
    stored = sorted({low, low + 1, -3, 6, 7, 8, 50, high - 1, high})
    real = {s: Fraction(qtype.scale[0]) * (s - 7) for s in stored}
    near = [np.float32(float(r)) for r in real.values()]
    splits = [float(t) for v in near for t in (v, np.nextafter(v, np.float32(9e9)), np.nextafter(v, np.float32(-9e9)))]
    forest = _forest(mode, [*splits, math.inf, -math.inf, 0.0])
    for node, limit in stored_thresholds(forest, qtype).items():
        t = forest.split[node]
        for s in stored:
            below = real[s] < t if mode in ("BRANCH_LT", "BRANCH_GTE") else real[s] <= t
            assert (s <= limit) == below, (s, t)


def _forest(mode: str, splits: list[float]) -> Any:
    from glowembed.ops.definitions.trees import Forest

    children = [(-1, -1)] * len(splits)
    return Forest([0] * len(splits), splits, [mode] * len(splits), children, [False] * len(splits), [[(0, 1.0)]], [0])


def test_weights_that_are_no_numbers_stay_a_loop_nest() -> None:
    assert packable(_forest("BRANCH_LEQ", [0.5]), 1) and not packable(_forest("BRANCH_LEQ", [math.nan]), 1)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_calibration_computes_the_sums_of_the_nest(case: Case) -> None:
    """The walk of all trees at a time gives the bits of the loop nest, also for NaN."""
    graph = imported(one_node_model(case))
    tree = next(node for node in graph.nodes if node.op == "Trees")
    constants = [graph.values[name].const.materialize() for name in tree.inputs[1:]]
    x = np.random.default_rng(0).normal(size=case.inputs[0]).astype(np.float32) * 2
    x[0, 0] = np.nan
    (expected,), (found,) = (op.float_ref(tree.attrs, [x, *constants]) for op in (Nest(), Trees()))
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)
