"""ai.onnx.ml: tree ensembles, stored as tables that a loop walks.

The attributes of all three operators become one Forest of inner nodes and leaves. A child or a root is the number n of
a node, or -1 - n for leaf n. Thresholds are compared in float64 if the input is float64, else in float32.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import field, replace
from functools import cached_property
from typing import Any

import numpy as np

from glowembed.graph.ir import Array
from glowembed.graph.op import Refused
from glowembed.nest import dtypes
from glowembed.nest.dtypes import BOOL, INDEX
from glowembed.nest.expr import Expr, binary, constant, index, is_nan, maximum, minimum, where
from glowembed.nest.program import Tensor
from glowembed.ops.definitions import scores as common
from glowembed.ops.definitions.scores import F32, samples_of
from glowembed.ops.shared.definition import Definition, operator, require
from glowembed.ops.trees import packable
from glowembed.records import dataclass

MEMBER = "in"
MODES = {
    "BRANCH_LEQ": "<=", "BRANCH_LT": "<", "BRANCH_GTE": ">=", "BRANCH_GT": ">", "BRANCH_EQ": "==", "BRANCH_NEQ": "!=",
    "BRANCH_MEMBER": MEMBER,
}  # fmt: skip
"""For each mode of a node, in the order in which TreeEnsemble of opset 5 numbers them, the comparison with the
threshold.
"""

AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
WHOLE = (np.uint8, np.int8, np.uint16, np.int16, np.int32)
FIRST = {"MIN": math.inf, "MAX": -math.inf}


COMPARISONS = {
    "BRANCH_LEQ": np.less_equal, "BRANCH_LT": np.less, "BRANCH_GTE": np.greater_equal, "BRANCH_GT": np.greater,
}  # fmt: skip


@dataclass(frozen=True)
class Forest:
    """The inner nodes, with one entry in each sequence; for each leaf, the targets and weights that it adds; the
    roots.
    """

    feature: Sequence[int]
    split: Sequence[float]
    mode: Sequence[str]
    children: Sequence[tuple[int, int]]
    missing: Sequence[bool]
    leaves: Sequence[Sequence[tuple[int, float]]]
    roots: Sequence[int]
    members: Sequence[Sequence[float]] = field(default=())

    @cached_property
    def entries(self) -> tuple[Array, Array]:
        """The weights and targets that each leaf adds. All leaves have the same number of entries; weights of 0 fill
        them up.
        """
        most = max(map(len, self.leaves), default=0)
        weights = np.zeros((len(self.leaves), most), np.float32)
        targets = np.zeros((len(self.leaves), most), np.intp)
        for number, leaf in enumerate(self.leaves):
            for entry, (target, weight) in enumerate(leaf):
                weights[number, entry], targets[number, entry] = weight, target
        return weights, targets

    @cached_property
    def _nodes(self) -> tuple[Array, Array, Array, Array, Array]:
        """Features, float32 thresholds, modes, whether NaN goes to the true child, and children."""
        return (
            np.asarray(self.feature), np.asarray(self.split, np.float32), np.asarray(self.mode),
            np.asarray(self.missing, bool), np.asarray(self.children),
        )  # fmt: skip

    def reached(self, x: Array) -> Array:
        """The number of the leaf that each sample reaches in each tree; all trees are walked at once. No mode may test
        membership.
        """
        feature, split, mode, missing, children = self._nodes
        samples, trees = np.indices((len(x), len(self.roots))).reshape(2, -1)
        node, modes = np.asarray(self.roots)[trees], sorted(set(self.mode))
        while (waiting := np.flatnonzero(node >= 0)).size:
            at = node[waiting]
            value = x[samples[waiting], feature[at]]
            holds = missing[at] & np.isnan(value)
            for name in modes:
                holds |= (mode[at] == name) & COMPARISONS[name](value, split[at])
            node[waiting] = children[at, np.where(holds, 0, 1)]
        return -1 - node.reshape(len(x), -1)

    def depth(self) -> tuple[int, int]:
        """The most inner nodes from a root to a leaf, and the number of inner nodes that are reached. Nodes may share
        children. Raises Refused if a node is missing, or if one has itself below it.
        """
        below: dict[int, int | None] = {}
        waiting = [(root, False) for root in self.roots]
        while waiting:
            node, complete = waiting.pop()
            if node < 0:
                require(-1 - node < len(self.leaves), "a leaf that it names is missing")
            elif complete:
                below[node] = 1 + max(below[child] or 0 if child >= 0 else 0 for child in self.children[node])
            elif node in below:
                require(below[node] is not None, "its nodes are no tree: one has itself below it")
            else:
                require(node < len(self.children), "a node that it names is missing")
                below[node] = None
                waiting += [(node, True), *((child, False) for child in self.children[node])]
        return max((below[root] or 0 for root in self.roots if root >= 0), default=0), len(below)

    def shares_nodes(self) -> bool:
        """Whether an inner node has several parents, as converters write splits by category."""
        named = [child for pair in self.children for child in pair if child >= 0] + [r for r in self.roots if r >= 0]
        return len(set(named)) < len(named)

    def with_shared_leaves(self) -> Forest:
        """The forest with equal leaves stored once."""
        keys = [tuple((target, weight.hex()) for target, weight in leaf) for leaf in self.leaves]
        place = {key: number for number, key in enumerate(dict.fromkeys(keys))}
        first = {place[key]: leaf for key, leaf in reversed(list(zip(keys, self.leaves, strict=True)))}

        def moved(node: int) -> int:
            return node if node >= 0 else -1 - place[keys[-1 - node]]

        children = [(moved(true), moved(false)) for true, false in self.children]
        leaves = [first[number] for number in range(len(place))]
        return replace(self, children=children, leaves=leaves, roots=[moved(root) for root in self.roots])

    def check(self, features: int, targets: int) -> None:
        """Raise Refused for features and targets that do not exist."""
        for what, numbers, count in (
            ("feature", self.feature, features),
            ("class or target", [target for leaf in self.leaves for target, _ in leaf], targets),
        ):
            wrong = [v for v in numbers if not 0 <= v < count]
            require(not wrong, f"it names the {what} {wrong[:1]}, of {count}")


def _numbers(n: Definition, name: str) -> list[float]:
    """A list of floats, or the tensor that may stand in its place."""
    given = n.attr(f"{name}_as_tensor", n.attr(name, []))
    return [float(v) for v in np.ravel(given)]


def _integers(n: Definition, name: str, size: int | None = None) -> list[int]:
    """A list of integers; zeros if it is absent and a size is given."""
    values = [int(v) for v in np.ravel(n.attr(name, []))]
    return values if values or size is None else [0] * size


def _same_length(size: int, *lists: Sequence[object]) -> None:
    require(all(len(values) == size for values in lists), "the lists of its nodes differ in length")


def _of_lists(n: Definition, prefix: str) -> Forest:
    """The forest of TreeEnsembleClassifier and TreeEnsembleRegressor, whose nodes are named by tree and number."""
    names = list(zip(_integers(n, "nodes_treeids"), _integers(n, "nodes_nodeids"), strict=True))
    modes = [str(mode) for mode in n.attr("nodes_modes") or []]
    features, splits = _integers(n, "nodes_featureids"), _numbers(n, "nodes_values")
    tracks = _integers(n, "nodes_missing_value_tracks_true", len(names))
    sides = [_integers(n, f"nodes_{side}nodeids") for side in ("true", "false")]
    require(len(set(names)) == len(names), "two of its nodes have the same number")
    _same_length(len(names), modes, features, splits, tracks, *sides)
    inner = [i for i, mode in enumerate(modes) if mode != "LEAF"]
    place = {names[i]: at for at, i in enumerate(inner)}
    leaves: dict[tuple[int, int], list[tuple[int, float]]] = {
        name: [] for name, mode in zip(names, modes, strict=True) if mode == "LEAF"
    }
    place |= {name: -1 - at for at, name in enumerate(leaves)}
    entries = [_integers(n, f"{prefix}_{what}") for what in ("treeids", "nodeids", "ids")]
    for tree, node, target, weight in zip(*entries, _numbers(n, f"{prefix}_weights"), strict=True):
        if (tree, node) in leaves:
            leaves[tree, node].append((target, weight))
    children = [[(names[i][0], side[i]) for side in sides] for i in inner]
    missing = [child for pair in children for child in pair if child not in place]
    require(not missing, f"its node {missing[:1]} is missing")
    below = {child for pair in children for child in pair}
    roots = [name for name in names if name not in below]
    require(sorted(t for t, _ in roots) == sorted({t for t, _ in names}), "one of its trees has no root, or several")
    forest = Forest(
        [features[i] for i in inner],
        [splits[i] for i in inner],
        [modes[i] for i in inner],
        [(place[true], place[false]) for true, false in children],
        [bool(tracks[i]) for i in inner],
        list(leaves.values()),
        [place[name] for name in roots],
    )
    require(forest.depth()[1] == len(inner), "its nodes are no tree: one has itself below it")
    return forest


def _of_tensors(n: Definition) -> Forest:
    """The forest of TreeEnsemble, whose leaves have attributes of their own, with one weight each."""
    modes = _integers(n, "nodes_modes")
    require(all(0 <= mode < len(MODES) for mode in modes), "a mode of its nodes is unknown")
    sides = []
    for side in ("true", "false"):
        is_leaf = _integers(n, f"nodes_{side}leafs")
        sides.append(
            [-1 - i if leaf else i for i, leaf in zip(_integers(n, f"nodes_{side}nodeids"), is_leaf, strict=True)]
        )
    features, splits = _integers(n, "nodes_featureids"), _numbers(n, "nodes_splits")
    tracks = _integers(n, "nodes_missing_value_tracks_true", len(modes))
    _same_length(len(modes), features, splits, tracks, *sides)
    leaves = [
        [(target, weight)]
        for target, weight in zip(_integers(n, "leaf_targetids"), _numbers(n, "leaf_weights"), strict=True)
    ]
    roots = _integers(n, "tree_roots")
    require(all(root >= 0 for root in roots), "a root of its trees is negative")
    names = [list(MODES)[mode] for mode in modes]
    children = list(zip(*sides, strict=True))
    return Forest(features, splits, names, children, [bool(v) for v in tracks], leaves, roots, _members(n, names))


def _members(n: Definition, modes: Sequence[str]) -> list[list[float]]:
    """For each node, the set of numbers that it tests; in the attribute, NaN ends a set."""
    sets: list[list[float]] = [[]]
    for value in _numbers(n, "membership_values"):
        if math.isnan(value):
            sets.append([])
        else:
            sets[-1].append(value)
    testing = [i for i, mode in enumerate(modes) if mode == "BRANCH_MEMBER"]
    own = sets if sets[-1] else sets[:-1]
    require(len(own) == len(testing), f"its membership_values are {len(own)} sets for {len(testing)} nodes")
    found: list[list[float]] = [[] for _ in modes]
    for i, values in zip(testing, own, strict=True):
        found[i] = values
    return found


@dataclass(frozen=True, eq=False)
class _Walk:
    """The tables of a forest in a node, and the statements that find a sample's leaf in a tree."""

    n: Definition
    forest: Forest
    kind: str

    def __post_init__(self) -> None:
        unknown = sorted(set(self.forest.mode) - set(MODES))
        if unknown:
            raise Refused(f"nodes of the mode {unknown[0]!r}", f"supported: {', '.join(MODES)}")

    def table(self, values: Any, dtype: Any) -> Tensor:
        array = np.asarray(values, dtype)
        return self.n.add_constant(array if array.size else np.zeros(1, dtype))

    def whole(self, values: Sequence[int]) -> Tensor:
        """Integers in the smallest type that holds them all."""
        low, high = min(values, default=0), max(values, default=0)
        fits = (t for t in WHOLE if np.iinfo(t).min <= low and high <= np.iinfo(t).max)
        return self.table(values, next(fits))

    def reals(self, values: Sequence[float]) -> Tensor:
        return self.table(values, dtypes.numpy_type(self.kind))

    def leaf_finder(self, x: Tensor) -> Callable[[Expr, Expr], Expr]:
        """A function that maps a sample and the number of a tree to the number of the leaf."""
        forest, n, k = self.forest, self.n, self.n.k
        depth, _ = forest.depth()
        feature, split = self.whole(forest.feature), self.reals(forest.split)
        children = self.whole([child for pair in forest.children for child in pair])
        roots = self.whole(forest.roots)
        missing = self.table(forest.missing, np.uint8) if any(forest.missing) else None
        decide = self.decision(split)

        def find(row: Expr, tree: Expr) -> Expr:
            node = k.let(roots.flat(tree).to(INDEX))
            with k.loop(depth) as _, k.when(node >= 0):
                at = k.let(maximum(node, 0))
                value = k.let(x[row, feature.flat(at).to(INDEX)].to(self.kind))
                holds = decide(at, value)
                if missing is not None:
                    holds = holds | (is_nan(value) & missing.flat(at).differs(0))
                k.set(node, children.flat(at * 2 + where(holds, index(0), index(1))).to(INDEX))
            return n.k.let(-1 - node)

        return find

    def entries(self) -> Callable[[Expr], AbstractContextManager[tuple[Expr, Expr]]]:
        """A function that opens, for the number of a leaf, a loop over the targets and weights that it adds."""
        k, leaves = self.n.k, self.forest.leaves
        weight = self.reals([w for leaf in leaves for _, w in leaf])
        targets = [[t for t, _ in leaf] for leaf in leaves]
        every = targets[0] if targets else []
        alike = all(own == every for own in targets)
        target = self.whole(every if alike else [t for own in targets for t in own])
        begins = None if alike else self.whole(np.cumsum([0, *map(len, targets)]).tolist())

        @contextmanager
        def loop(leaf: Expr) -> Iterator[tuple[Expr, Expr]]:
            count = len(every) if begins is None else begins.flat(leaf + 1).to(INDEX)
            first = k.let(leaf * len(every) if begins is None else begins.flat(leaf).to(INDEX))
            with k.loop(count if begins is None else count - first) as w:
                place = w if begins is None else first + w
                yield k.let(target.flat(place).to(INDEX)), weight.flat(first + w)

        return loop

    def decision(self, split: Tensor) -> Callable[[Expr, Expr], Expr]:
        """A function that maps a node and the value of its feature to whether the walk continues at the true child."""
        modes = sorted(set(self.forest.mode))
        if len(modes) == 1 and modes[0] != "BRANCH_MEMBER":
            return lambda node, value: binary(MODES[modes[0]], value, split.flat(node))
        mode = self.table([modes.index(m) for m in self.forest.mode], np.uint8)
        members = self.forest.members or [[] for _ in self.forest.mode]
        begins = self.whole(np.cumsum([0, *(len(own) for own in members)]).tolist())
        member = self.reals([v for own in members for v in own])
        k = self.n.k

        def decide(node: Expr, value: Expr) -> Expr:
            holds = k.variable(False, BOOL)
            for number, name in enumerate(modes):
                with k.when(mode.flat(node).equals(number)):
                    if MODES[name] != MEMBER:
                        k.set(holds, binary(MODES[name], value, split.flat(node)))
                        continue
                    first = k.let(begins.flat(node).to(INDEX))
                    with k.loop(begins.flat(node + 1).to(INDEX) - first) as e:
                        k.set(holds, holds | member.flat(first + e).equals(value))
            return holds

        return decide


def _totals(n: Definition, forest: Forest, x: Tensor, kind: str, columns: int, base: Sequence[float]) -> Tensor:
    """The combined weights of the leaves that each sample reaches, for each target."""
    aggregate = n.attr("aggregate_function", "SUM")
    aggregate = AGGREGATES[aggregate] if isinstance(aggregate, int) and 0 <= aggregate < 4 else aggregate
    if aggregate not in AGGREGATES:
        raise Refused(f"its aggregate_function is {aggregate!r}", f"supported: {', '.join(AGGREGATES)}")
    forest.check(x.shape[1], columns)
    require(len(base) in (0, columns), f"it has {len(base)} base_values for {columns} scores")
    k, walk = n.k, _Walk(n, forest.with_shared_leaves(), kind)
    find, entries = walk.leaf_finder(x), walk.entries()
    totals = n.shared((x.shape[0], columns), kind)
    nothing = constant(FIRST.get(aggregate, 0.0), kind)
    with k.each(totals.shape) as at:
        k.store(totals, at, nothing)
    with k.each((x.shape[0],)) as (row,), k.loop(len(forest.roots)) as tree, entries(find(row, tree)) as (to, weight):
        k.store(totals, (row, to), _combined(aggregate, totals[row, to], weight))
    _finish(n, totals, aggregate, nothing, len(forest.roots), base)
    return totals


def _quantized(
    n: Definition, forest: Forest, x: Tensor, totals: Tensor, base: Sequence[float], raw: bool = False
) -> None:
    """Let the op Trees compute the scores in integers, if its nodes can hold the forest. raw: whether the last output
    is the untransformed scores.
    """
    key: int | str = totals.name if totals.name in n.between else 0
    aggregate = n.attr("aggregate_function", "SUM")
    average = aggregate in ("AVERAGE", 0)
    summed = average or aggregate in ("SUM", 1)
    if not summed or not (raw or isinstance(key, str)) or x.dtype != F32 or not packable(forest, totals.shape[1]):
        return
    attrs = {
        "forest": forest, "features": x.shape[1], "columns": totals.shape[1], "base": list(base), "average": average,
    }  # fmt: skip
    n.quantized[key] = ("Trees", attrs)
    if isinstance(key, str) and raw:
        n.copies[1] = key


def _combined(aggregate: str, a: Expr, b: Expr) -> Expr:
    if aggregate in ("MIN", "MAX"):
        return minimum(b, a) if aggregate == "MIN" else maximum(b, a)
    return a + b


def _finish(n: Definition, totals: Tensor, aggregate: str, nothing: Expr, trees: int, base: Sequence[float]) -> None:
    """Divide for a mean and add the base values. A target without a weight is 0."""
    if aggregate == "SUM" and not base:
        return
    offset = n.add_constant(np.asarray(base, dtypes.numpy_type(totals.kind))) if base else None
    with n.k.each(totals.shape) as at:
        total = totals[at] / float(trees) if aggregate == "AVERAGE" else totals[at]
        if aggregate in FIRST:
            total = where(total.equals(nothing), constant(0, total.kind), total)
        n.k.store(totals, at, total + offset.flat(at[1]) if offset is not None else total)


def _kind(x: Tensor) -> str:
    return "float64" if x.kind == "float64" else F32


@operator("ai.onnx.ml:TreeEnsembleRegressor")
def _regressor(n: Definition) -> None:
    x, kind = samples_of(n.input(0)), common.post_transform(n)
    base, count = _numbers(n, "base_values"), int(n.attr("n_targets", 1))
    forest = _of_lists(n, "target")
    totals = _totals(n, forest, x, _kind(x), count, base)
    _quantized(n, forest, x, totals, base, raw=kind == "NONE")
    common.store_scores(n, kind, totals, n.output(0, totals.shape, F32), one_is_raw=True)


@operator("ai.onnx.ml:TreeEnsemble")
def _ensemble(n: Definition) -> None:
    x, kind = samples_of(n.input(0)), common.post_transform(n)
    forest = _of_tensors(n)
    totals = _totals(n, forest, x, _kind(x), int(n.attr("n_targets", 1)), [])
    _quantized(n, forest, x, totals, [], raw=kind == "NONE")
    common.store_scores(n, kind, totals, n.output(0, totals.shape, x.dtype), one_is_raw=True)


@operator("ai.onnx.ml:TreeEnsembleClassifier")
def _classifier(n: Definition) -> None:
    """Define TreeEnsembleClassifier. If all weights of two classes belong to one class, the score of that class
    decides: above 0.5 if no weight is negative, else above 0.
    """
    x, labels, kind = samples_of(n.input(0)), common.class_labels(n), common.post_transform(n)
    forest, base = _of_lists(n, "class"), _numbers(n, "base_values")
    weights: list[tuple[int, float]] = [entry for leaf in forest.leaves for entry in leaf]
    decided = len(labels) == 2 and len(Counter(target for target, _ in weights)) == 1
    positive = min((weight for _, weight in weights), default=0.0) >= 0
    if not decided:
        totals = _totals(n, forest, x, _kind(x), len(labels), base)
        _quantized(n, forest, x, totals, base, raw=kind == "NONE")
        common.store_best_label(n, labels, totals)
        common.store_scores(n, kind, totals, n.output(1, totals.shape, F32))
        return
    column = weights[0][0]
    require(not base or (column == 0 and len(base) == 1), "its base_values do not fit its one score for two classes")
    totals = _totals(n, forest, x, _kind(x), 1 if column == 0 else 2, base)
    _quantized(n, forest, x, totals, base)
    common.store_label_of_two(n, labels, totals, column, 0.5 if positive else 0.0)
    if column == 0:
        common.store_two_columns(n, kind, totals, complement=positive)
    else:
        common.store_scores(n, kind, totals, n.output(1, totals.shape, F32))
