"""Trees: the ensembles of ai.onnx.ml over stored int8 or int16 features. Kernel-level: trees_s8, trees_s16; in float32 it is the loop
nest of ops/definitions/trees.py.

A node is a word of 32 bits: the threshold in bits 31..16, "the right child is a leaf" 15, "the left child is a leaf" 14, a number in
13..7, the feature in 6..0. The nodes of a tree lie in preorder, so the left child is the next word. The law:

    left if s <= threshold, where threshold = floor(t / scale) + zero_point for x <= t, and ceil(t / scale) + zero_point - 1 for x < t;
    both are computed exactly, so that the decision is that of the real number for which s stands
    S[c] = base[c] + the sum over the trees of row[leaf][c], in int32, row = round_half_up(weight * 2^k)
    y[c] = clamp(((S[c] * multiplier + 2^(shift - 1)) >> shift) + zero_point, lo, hi), in int64

k is the largest for which no sum reaches 2^30. A node that decides alike for all stored numbers, or has two
leaves of the same row, is left out.

If there are at most 8 different rows, as where each leaf votes for a class, the number holds those of the two children, three bits
each, or what to skip to the right child where both are inner nodes. Else it is the inner nodes of the left subtree: leaves are
numbered from left to right, and going right adds 1 and this number to that of the leaf.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from glowembed.errors import UnsupportedModelError
from glowembed.graph.cstruct import i32
from glowembed.graph.geometry import per_row
from glowembed.graph.ir import Array, Const, Node, QType
from glowembed.graph.op import Cost, Kernel, KernelOp, LowerContext, OutputType
from glowembed.law.fixedpoint import round_half_up
from glowembed.ops import nest

if TYPE_CHECKING:
    from glowembed.ops.definitions.trees import Forest

FEATURES = SKIPPED = 128
KINDS = 8
"""The most rows whose number fits into a node."""

MOST_ROWS = 65536
ADJUSTED = ("BRANCH_LT", "BRANCH_GTE")
TURNED = ("BRANCH_GT", "BRANCH_GTE")
"""Modes whose threshold is less by one, and whose children change places."""


def packable(forest: Forest, columns: int) -> bool:
    """Whether the nodes of the forest fit into words; else it remains a loop nest."""
    modes = set(forest.mode) <= {"BRANCH_LEQ", "BRANCH_LT", "BRANCH_GT", "BRANCH_GTE"}
    numbers = [*forest.split, *(weight for leaf in forest.leaves for _, weight in leaf)]
    small = max(forest.feature, default=0) < FEATURES and len({tuple(leaf) for leaf in forest.leaves}) <= MOST_ROWS
    if not (modes and small and columns and forest.split and not any(map(math.isnan, numbers))):
        return False
    if any(math.isinf(weight) for leaf in forest.leaves for _, weight in leaf):
        return False
    layout = _Layout(forest, dict.fromkeys(range(len(forest.split)), 0), -1, 1, range(len(forest.leaves)))
    return all(layout.inner(layout.pairs[node][0]) < SKIPPED for tree in layout.trees for node in tree)


class _Layout:
    """The nodes of each tree in preorder. thresholds: of each node; those outside of first..last - 1 decide alike always. rows: the
    row of each leaf; a node whose two leaves have the same one is a leaf.
    """

    def __init__(
        self, forest: Forest, thresholds: Mapping[int, int], first: int, last: int, rows: Sequence[int]
    ) -> None:
        self.pairs = [
            (b, a) if mode in TURNED else (a, b) for (a, b), mode in zip(forest.children, forest.mode, strict=True)
        ]
        self.always = {n: int(t < first) for n, t in thresholds.items() if not first <= t < last}
        self.pairs = [(self.target(a), self.target(b)) for a, b in self.pairs]
        self.ends: dict[int, int] = {}
        self.roots = [self._merged(self.target(root), rows) for root in forest.roots]
        self.trees = [self._preorder(root) for root in self.roots]
        self.sizes: dict[int, int] = {}
        for tree in self.trees:
            for node in reversed(tree):
                self.sizes[node] = 1 + sum(self.inner(child) for child in self.pairs[node])

    def target(self, node: int) -> int:
        """The node or leaf that is reached through nodes that decide alike always."""
        while node in self.always:
            node = self.pairs[node][self.always[node]]
        return node

    def _merged(self, root: int, rows: Sequence[int]) -> int:
        """The root of a tree, after nodes whose leaves are alike became leaves."""
        for node in reversed(self._preorder(root)):
            a, b = (self.ends.get(child, child) for child in self.pairs[node])
            self.pairs[node] = (a, b)
            if a < 0 and b < 0 and rows[-1 - a] == rows[-1 - b]:
                self.ends[node] = a
        return self.ends.get(root, root)

    def inner(self, node: int) -> int:
        """The inner nodes from this one on."""
        return self.sizes[node] if node >= 0 else 0

    def _preorder(self, root: int) -> list[int]:
        found, waiting = [], [root]
        while waiting:
            node = waiting.pop()
            if node >= 0:
                found.append(node)
                waiting += reversed(self.pairs[node])
        return found


# ------------------------------------------------------------------------------------------------ lowering


class Trees(nest.Nest):
    """attrs: those of Nest, `forest`, `features`, `columns`, `base` and `average`."""

    name = "Trees"
    plain = False
    output_type: ClassVar[OutputType | QType] = "profile"
    plain_constants = True
    float_by_default = (
        "one scale for features of different sizes loses those that are small; int16 keeps them if asked for"
    )

    def lower(self, node: Node, c: LowerContext) -> None:
        x, y, attrs = node.inputs[0], node.outputs[0], node.attrs
        xq, yq, forest = c.qtype(x), c.qtype(y), attrs["forest"]
        thresholds = stored_thresholds(forest, xq)
        params, constants = _tables(node, forest, thresholds, xq, yq, c.shape(y)[0])
        kind = "trees_s8" if xq.dtype == "int8" else "trees_s16"
        c.add(node, kind, [x], y, params, constants, macs=params.rows * params.trees * forest.depth()[0])


@dataclass(frozen=True)
class TreesParams:
    """Samples, trees and the rounding of the sums."""

    rows: int = i32("samples")
    features: int = i32("of a sample, 1 and more")
    columns: int = i32("classes or targets")
    trees: int = i32("number of trees")
    kinds: int = i32("different rows of leaves, if nodes hold their numbers: 1..8; else 0")
    multiplier: int = i32("of a sum, 0..2^31 - 1")
    shift: int = i32("of the product, 1..62")
    zero_point: int = i32("of the output")
    lo: int = i32("smallest output")
    hi: int = i32("largest output")


def stored_thresholds(forest: Forest, xq: QType) -> dict[int, int]:
    """The largest stored number for which each node goes left; beyond the type where all, or none, do."""
    scale, zero = Fraction(float(xq.scale[0])), int(xq.zero_point[0])
    found = {}
    for node, (t, mode) in enumerate(zip(forest.split, forest.mode, strict=True)):
        if math.isinf(t):
            found[node] = 2**31 if t > 0 else -(2**31)
            continue
        steps = Fraction(float(np.float32(t))) / scale
        found[node] = zero + (math.ceil(steps) - 1 if mode in ADJUSTED else math.floor(steps))
    return found


def _tables(
    node: Node, forest: Forest, thresholds: Mapping[int, int], xq: QType, yq: QType, samples: int
) -> tuple[TreesParams, dict[str, Const]]:
    attrs, columns = node.attrs, node.attrs["columns"]
    base, rows, number = _rows(forest, columns, attrs["base"])
    layout = _Layout(forest, thresholds, *xq.limits, number)
    trees = len(forest.roots)
    if attrs["average"]:
        base = base * trees
    most = trees * float(np.abs(rows).max(initial=0)) + float(np.abs(base).max(initial=0))
    bits = 30 - math.frexp(most)[1] if most else 0
    kinds = len(rows) if len(rows) <= KINDS else 0
    words, starts, leaves = _words(layout, forest, thresholds, number, kinds)
    real = 2.0**-bits / float(yq.scale[0]) / (trees if attrs["average"] else 1)
    shift = min(31 - math.frexp(real)[1], 62)
    if shift < 1:
        raise UnsupportedModelError(
            f"{node.name}: its output has steps of {yq.scale[0]:g}, finer than the sums of its leaves;"
            " widen the range of the output, or give the node {dtype: float32} in a precision.yaml"
        )
    multiplier = min(int(round_half_up(np.float64(real * 2.0**shift))), 2**31 - 1)
    params = TreesParams(
        samples, attrs["features"], columns, trees, kinds, multiplier, shift, yq.zero_point[0], *yq.limits
    )
    return params, {
        "nodes": Const(np.asarray(words, np.uint32)),
        "starts": Const(np.asarray(starts, np.uint32)),
        "leaves": Const(np.asarray([0] if kinds else leaves, np.uint16)),
        "table": Const(round_half_up(np.vstack([base, rows]) * 2.0**bits).astype(np.int32).reshape(-1)),
    }


def _words(
    layout: _Layout, forest: Forest, thresholds: Mapping[int, int], number: Sequence[int], kinds: int
) -> tuple[list[int], list[int], list[int]]:
    """The words of all nodes, the first one of each tree, and the rows of all leaves. A tree that is a leaf has one node."""
    words: list[int] = []
    starts: list[int] = []
    leaves: list[int] = []
    for root, tree in zip(layout.roots, layout.trees, strict=True):
        starts.append(len(words))
        words += [_word(layout, node, forest, thresholds[node], number if kinds else None) for node in tree]
        if not tree:
            words.append(0xC000 | (number[-1 - root] * 9 << 7 if kinds else 0))
        leaves += [number[leaf] for leaf in _leaves(layout, root)]
    return words, starts, leaves


def _rows(forest: Forest, columns: int, base: Sequence[float]) -> tuple[Array, Array, list[int]]:
    """The base values, the different rows of leaves, and the row of each leaf."""
    found = np.zeros((len(forest.leaves), columns))
    for row, leaf in zip(found, forest.leaves, strict=True):
        for target, weight in leaf:
            row[target] += np.float32(weight)
    rows, number = np.unique(found, axis=0, return_inverse=True)
    return np.asarray(base or [0.0] * columns, np.float64), rows, [int(i) for i in number.ravel()]


def _leaves(layout: _Layout, root: int) -> list[int]:
    """The leaves of a tree from left to right; that of a tree without nodes twice, as its word has two children."""
    if root < 0:
        return [-1 - root] * 2
    found, waiting = [], [root]
    while waiting:
        node = waiting.pop()
        if node < 0:
            found.append(-1 - node)
        else:
            waiting += reversed(layout.pairs[node])
    return found


def _word(layout: _Layout, node: int, forest: Forest, threshold: int, rows: Sequence[int] | None) -> int:
    """A node as 32 bits. rows: the row of each leaf, if nodes hold it."""
    left, right = layout.pairs[node]
    number = layout.inner(left)
    if rows is not None and min(left, right) < 0:
        number = (rows[-1 - left] if left < 0 else 0) | (rows[-1 - right] << 3 if right < 0 else 0)
    flags = (right < 0) << 15 | (left < 0) << 14
    return (threshold & 0xFFFF) << 16 | flags | number << 7 | forest.feature[node]


# ------------------------------------------------------------------------------------------------ kernel


def _cost(n: Any, t: Any) -> Cost:
    return Cost(16.0 * n.macs + 60.0 * n.params.rows, 400)


def _scratch(p: TreesParams) -> int:
    return 4 * (p.columns + KINDS)


class TreesS8(KernelOp[TreesParams]):
    """Walks each tree for each sample."""

    name, dtype = "trees_s8", "int8"
    params = TreesParams
    geometry = per_row(lambda p: ((p.features,), p.columns))
    constants: ClassVar[Mapping[str, str]] = {
        "nodes": "uint32_t",
        "starts": "uint32_t",
        "leaves": "uint16_t",
        "table": "int32_t",
    }
    kernels: tuple[Kernel, ...] = (Kernel("ge_trees_s8", cost=_cost, scratch=_scratch, store="rows"),)

    def int_ref(self, p: TreesParams, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        nodes, starts, leaves = ([int(v) for v in constants[name]] for name in ("nodes", "starts", "leaves"))
        base, *rows = constants["table"].astype(np.int64).reshape(-1, p.columns)
        found = []
        for x in inputs[0].reshape(p.rows, p.features).tolist():
            ends = (_walk(p, x, nodes, leaves, start, start + tree) for tree, start in enumerate(starts))
            total = base + sum(rows[end] for end in ends)
            y = (total * p.multiplier + (1 << (p.shift - 1))) >> p.shift
            found.append(np.clip(y + p.zero_point, p.lo, p.hi))
        return np.asarray(found).astype(self.dtype)


def _walk(p: TreesParams, x: Sequence[int], nodes: Sequence[int], leaves: Sequence[int], at: int, leaf: int) -> int:
    """The number of the row that a sample reaches in the tree whose first node and leaf these are."""
    while True:
        word = nodes[at]
        at += 1
        threshold, number, left_ends = word >> 16, word >> 7 & 127, word & 0x4000
        if x[word & 127] <= threshold - (threshold >> 15 << 16):
            if left_ends:
                return number & 7 if p.kinds else leaves[leaf]
            continue
        leaf += 1 + number
        if word & 0x8000:
            return number >> 3 & 7 if p.kinds else leaves[leaf]
        at += 0 if p.kinds and left_ends else number


class TreesS16(TreesS8):
    """The op with int16 input and output."""

    name, dtype = "trees_s16", "int16"
    element_bytes = (2, 2)
    kernels = (
        Kernel(
            "ge_trees_s16",
            template="ge_trees_s8",
            words={"ELEMENT": "int16_t"},
            cost=_cost,
            scratch=_scratch,
            store="rows",
        ),
    )


OPS = (Trees(),)
LOWERINGS = {("Trees", "int16"): Trees().lower, ("Trees", "float32"): nest.Nest().lower}
KERNEL_OPS = (TreesS8(), TreesS16())
