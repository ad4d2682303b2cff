"""Trees: the tree ensembles of ai.onnx.ml on stored int8 or int16 features. Kernel-level: trees_s8, trees_s16, and for
shares trees_u8_s8, trees_u8_s16, trees_two_s8, trees_two_s16; in float32 it is the loop nest of
ops/definitions/trees.py.

A node is a word of 32 bits: the threshold in bits 31..16, "the right child is a leaf" 15, "the left child is a leaf"
14, then a number, and the feature in the lowest bits, as few as the largest feature needs. The nodes of a tree lie in
preorder, so the left child is the next word. The law:

    left if s <= threshold, where threshold = floor(t / scale) + zero_point for x <= t, and ceil(t / scale) + zero_point - 1 for x < t;
    both are computed exactly, so that a stored number takes the same branch as the real number it stands for
    S[c] = base[c] + the sum over the trees of row[c], in int32, row = round_half_up(weight * 2^k), an int16
    y[c] = clamp(((S[c] * multiplier + 2^(shift - 1)) >> shift) + zero_point, lo, hi), in int64

k is the largest for which no row exceeds int16 and no sum reaches 2^30. If all rows have the same sum, like rows of
probabilities, the last column is not stored: S[last] = base[last] - the sum of all other S, where base[last] is the
total of a sample.

Such rows are stored as shares of their sum if there are at least LEAST_TREES trees, more than KINDS rows, no negative
weight and no base. A share is in units of 1/255 of the sum instead of 2^-k: row[c] = round_half_up(shares up to c) -
round_half_up(shares up to c - 1), a uint8, so that no share is negative and they add up to 255 (trees_u8_s8,
trees_u8_s16). The error of a share is less than one unit. Equal rows are stored once. If one or two columns are stored,
a row is a uint16: the first share in its low byte, the second, or 0, above it (trees_two_s8, trees_two_s16).

Rows are numbered in the order of how many leaves have them. A node with one leaf holds the number of its row; a node
with two leaves holds both, in one half each. If two numbers do not fit, the next word holds them, left | right << 16,
and the node holds the largest possible number. A leaf beside an inner node whose number does not fit becomes a node
with two such leaves. A node with two inner children holds the number of words to skip to the right one. A node that
takes the same branch for all stored numbers, or has two leaves with the same row, is left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
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
from glowembed.records import dataclass

if TYPE_CHECKING:
    from glowembed.ops.definitions.trees import Forest

FEATURES = 128
KINDS = 8
"""The most rows for which the kernel first counts the leaves and then adds the rows."""

SHARES = 255
"""The sum of the shares of a row."""

LEAST_TREES = 50
"""The fewest trees whose rows may be shares, so that their errors cancel out in the mean."""

FREE = 14
"""The bits of a node that hold its number and its feature."""

MOST_ROWS = 65536
ADJUSTED = ("BRANCH_LT", "BRANCH_GTE")
TURNED = ("BRANCH_GT", "BRANCH_GTE")
"""Modes whose threshold becomes one less, and whose children change places."""


def packable(forest: Forest, columns: int) -> bool:
    """Whether the nodes of the forest fit into words; otherwise it remains a loop nest."""
    modes = set(forest.mode) <= {"BRANCH_LEQ", "BRANCH_LT", "BRANCH_GT", "BRANCH_GTE"}
    numbers = [*forest.split, *(weight for leaf in forest.leaves for _, weight in leaf)]
    small = max(forest.feature, default=0) < FEATURES and len({tuple(leaf) for leaf in forest.leaves}) <= MOST_ROWS
    tree = not forest.shares_nodes()
    if not (tree and modes and small and columns and forest.split and not any(map(math.isnan, numbers))):
        return False
    if any(math.isinf(weight) for leaf in forest.leaves for _, weight in leaf):
        return False
    codes = _codes(forest, _found(forest, columns))
    layout = _Layout(forest, dict.fromkeys(range(len(forest.split)), 0), -1, 1, codes)
    return all(layout.skipped(node) <= codes.largest for tree in layout.trees for node in tree)


@dataclass(frozen=True)
class _Codes:
    """The encoding of features and rows in nodes. bits: the bits of a feature; rows: the distinct rows, those of the
    most leaves first; number: the row number of each leaf; halves: the code of each row in the word after a pair of
    leaves.
    """

    bits: int
    rows: Array
    number: Sequence[int]
    halves: Sequence[int]

    @property
    def largest(self) -> int:
        """The largest number that fits into a node."""
        return (1 << (FREE - self.bits)) - 1

    def is_rare(self, leaf: int) -> bool:
        """Whether the row number of a leaf (-1, -2, ...) does not fit into a node."""
        return self.number[-1 - leaf] >= self.largest

    def pair(self, left: int, right: int) -> list[int]:
        """The number in a node with two leaves, and the word that follows it if their row numbers do not fit."""
        a, b = self.number[-1 - left], self.number[-1 - right]
        half = (FREE - self.bits) // 2
        fits = max(a, b) < 1 << half and a | b << half < self.largest
        return [a | b << half] if fits else [self.largest, self.halves[a] | self.halves[b] << 16]


def _found(forest: Forest, columns: int) -> Array:
    """The row of each leaf, as real numbers."""
    found = np.zeros((len(forest.leaves), columns))
    for row, leaf in zip(found, forest.leaves, strict=True):
        for target, weight in leaf:
            row[target] += np.float32(weight)
    return found


def _shares(found: Array, base: Array, trees: int) -> tuple[Array, float] | None:
    """The rows as shares of one sum, in units of 1/255 of it, and that unit; None if they are not shares or the trees
    are too few.
    """
    sums = found.sum(axis=1)
    alike = found.shape[1] > 1 and sums.min() > 0 and np.ptp(sums) <= 1e-5 * sums.max()
    if trees < LEAST_TREES or not alike or found.min() < 0 or base.any() or len(np.unique(found, axis=0)) <= KINDS:
        return None
    edges = round_half_up(np.cumsum(found, axis=1) / sums[:, np.newaxis] * SHARES)
    return np.diff(edges, axis=1, prepend=0), float(sums.mean()) / SHARES


def _codes(forest: Forest, found: Array) -> _Codes:
    rows, number, counts = np.unique(found, axis=0, return_inverse=True, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    place = np.argsort(order)
    bits = max(forest.feature).bit_length()
    return _Codes(max(bits, 1), rows[order], [int(place[i]) for i in number.ravel()], range(len(rows)))


class _Layout:
    """The nodes of each tree in preorder. thresholds: of each node; a threshold outside first..last - 1 always takes
    the same branch. A node whose two leaves have the same row counts as a leaf.
    """

    def __init__(self, forest: Forest, thresholds: Mapping[int, int], first: int, last: int, codes: _Codes) -> None:
        self.codes = codes
        self.pairs = [
            (b, a) if mode in TURNED else (a, b) for (a, b), mode in zip(forest.children, forest.mode, strict=True)
        ]
        self.always = {n: int(t < first) for n, t in thresholds.items() if not first <= t < last}
        self.pairs = [(self.target(a), self.target(b)) for a, b in self.pairs]
        self.ends: dict[int, int] = {}
        self.roots = [self._merged(self.target(root), codes.number) for root in forest.roots]
        self.trees = [self._preorder(root) for root in self.roots]
        self.sizes: dict[int, int] = {}
        for tree in self.trees:
            for node in reversed(tree):
                a, b = self.pairs[node]
                ends = len(codes.pair(a, b)) if a < 0 and b < 0 else 1
                self.sizes[node] = ends + sum(map(self.words, self.following(node)))

    def following(self, node: int) -> list[int]:
        """The children of a node that have words of their own: inner nodes, and a leaf that does not fit into the node
        beside an inner node.
        """
        pair = self.pairs[node]
        return [] if max(pair) < 0 else [child for child in pair if child >= 0 or self.codes.is_rare(child)]

    def words(self, child: int) -> int:
        """The number of words of a child that has words of its own."""
        return self.sizes[child] if child >= 0 else len(self.codes.pair(child, child))

    def skipped(self, node: int) -> int:
        """How many words to skip to the right child, if both children have words of their own; else 0."""
        following = self.following(node)
        return self.words(following[0]) if len(following) > 1 else 0

    def numbered(self) -> int:
        """How many of the first rows must have a number that fits into nodes."""
        pairs = [(root, root) for root in self.roots if root < 0]
        pairs += [self.pairs[node] for tree in self.trees for node in tree]
        return 1 + max((number for pair in pairs for number in self._numbers(pair)), default=0)

    def _numbers(self, pair: tuple[int, int]) -> list[int]:
        """The row numbers that a node with these children holds."""
        codes, leaves = self.codes, [child for child in pair if child < 0]
        fits = len(codes.pair(*pair)) == 1 if len(leaves) > 1 else not any(map(codes.is_rare, leaves))
        return [codes.number[-1 - leaf] for leaf in leaves] if fits else []

    def target(self, node: int) -> int:
        """The node or leaf that is reached after nodes that always take the same branch."""
        while node in self.always:
            node = self.pairs[node][self.always[node]]
        return node

    def _merged(self, root: int, rows: Sequence[int]) -> int:
        """The root of a tree in which nodes whose leaves are alike have become leaves."""
        for node in reversed(self._preorder(root)):
            a, b = (self.ends.get(child, child) for child in self.pairs[node])
            self.pairs[node] = (a, b)
            if a < 0 and b < 0 and rows[-1 - a] == rows[-1 - b]:
                self.ends[node] = a
        return self.ends.get(root, root)

    def _preorder(self, root: int) -> list[int]:
        found, waiting = [], [root]
        while waiting:
            node = waiting.pop()
            if node >= 0:
                found.append(node)
                waiting += reversed(self.pairs[node])
        return found


class Trees(nest.Nest):
    """attrs: those of Nest, `forest`, `features`, `columns`, `base` and `average`."""

    name = "Trees"
    plain = False
    output_type: ClassVar[OutputType | QType] = "profile"
    plain_constants = True
    float_by_default = (
        "one scale for features of different sizes loses those that are small; int16 keeps them if asked for"
    )

    def float_ref(self, attrs: Mapping[str, Any], inputs: Sequence[Array]) -> tuple[Array, ...]:
        """The sums that the nest computes, in its order. All trees are walked at once, because a loop in Python over
        the trees takes too long.
        """
        forest, columns, trees = attrs["forest"], attrs["columns"], len(attrs["forest"].roots)
        x = np.asarray(inputs[0], np.float32).reshape(-1, attrs["features"])
        weights, targets = forest.entries
        leaves = forest.reached(x)
        totals = np.zeros((len(x), columns), np.float32)
        at = np.arange(len(x))
        for tree in range(trees):
            for entry in range(weights.shape[1]):
                totals[at, targets[leaves[:, tree], entry]] += weights[leaves[:, tree], entry]
        if attrs["average"]:
            totals /= np.float32(trees)
        return (totals + np.asarray(attrs["base"], np.float32) if attrs["base"] else totals,)

    def lower(self, node: Node, c: LowerContext) -> None:
        x, y, attrs = node.inputs[0], node.outputs[0], node.attrs
        xq, yq, forest = c.qtype(x), c.qtype(y), attrs["forest"]
        thresholds = stored_thresholds(forest, xq)
        params, constants = _tables(node, forest, thresholds, xq, yq, c.shape(y)[0])
        kind = {"int16": "trees", "uint8": "trees_u8", "uint16": "trees_two"}[constants["rows"].array.dtype.name]
        kind += "_s8" if xq.dtype == "int8" else "_s16"
        c.add(node, kind, [x], y, params, constants, macs=params.rows * params.trees * forest.depth()[0])


@dataclass(frozen=True)
class TreesParams:
    """The numbers of samples and trees, and the requantization of the sums."""

    rows: int = i32("samples")
    features: int = i32("of a sample, 1 and more")
    columns: int = i32("classes or targets")
    trees: int = i32("number of trees")
    stored: int = i32(
        "columns of a row in the table: all, or all but the last, which is what is left of base[columns - 1]"
    )
    kinds: int = i32("different rows, if their leaves are counted first: 1..8; else 0")
    bits: int = i32("of the number of a feature in a node, 1..7")
    multiplier: int = i32("of a sum, 0..2^31 - 1")
    shift: int = i32("of the product, 1..62")
    zero_point: int = i32("of the output")
    lo: int = i32("smallest output")
    hi: int = i32("largest output")


def stored_thresholds(forest: Forest, xq: QType) -> dict[int, int]:
    """The largest stored number for which each node goes left; it lies beyond the type if all numbers, or none, go
    left.
    """
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
    attrs, columns, trees = node.attrs, node.attrs["columns"], len(forest.roots)
    base = np.asarray(attrs["base"] or [0.0] * columns, np.float64) * (trees if attrs["average"] else 1)
    rows, codes, unit, sums, stored = _stored_rows(forest, _found(forest, columns), base, trees)
    layout = _Layout(forest, thresholds, *xq.limits, codes)
    words, starts = _words(layout, forest, thresholds)
    real = unit / float(yq.scale[0]) / (trees if attrs["average"] else 1)
    shift = min(31 - math.frexp(real)[1], 62)
    if shift < 1:
        raise UnsupportedModelError(
            f"{node.name}: its output has steps of {yq.scale[0]:g}, finer than the sums of its leaves;"
            " widen the range of the output, or give the node {dtype: float32} in a precision.yaml"
        )
    multiplier = min(int(round_half_up(np.float64(real * 2.0**shift))), 2**31 - 1)
    two = rows.dtype == np.uint16
    rows = rows[: layout.numbered()] if two else rows[:, :stored]
    kinds = len(rows) if len(rows) <= KINDS and not two else 0
    params = TreesParams(
        samples, attrs["features"], columns, trees, stored, kinds, codes.bits, multiplier, shift, yq.zero_point[0],
        *yq.limits,
    )  # fmt: skip
    return params, {
        "nodes": Const(np.asarray(words, np.uint32)),
        "starts": Const(np.asarray(starts, np.uint32)),
        "rows": Const(rows.reshape(-1)),
        "base": Const(sums.astype(np.int32)),
    }


def _stored_rows(forest: Forest, found: Array, base: Array, trees: int) -> tuple[Array, _Codes, float, Array, int]:
    """The distinct rows as they are stored, their codes, the unit of rows and sums, the values that the sums begin
    with, and the number of stored columns.
    """
    columns = found.shape[1]
    if (shares := _shares(found, base, trees)) is not None:
        codes = _codes(forest, shares[0])
        sums = np.zeros(columns, np.int64)
        sums[-1] = trees * SHARES
        if columns <= 3:
            packed = _two(codes.rows[:, :-1])
            return packed, replace(codes, halves=packed.tolist()), shares[1], sums, columns - 1
        return codes.rows.astype(np.uint8), codes, shares[1], sums, columns - 1
    codes = _codes(forest, found)
    k = _fraction_bits(codes.rows, base, trees)
    sums = round_half_up(base * 2.0**k).astype(np.int64)
    rows = round_half_up(codes.rows * 2.0**k).astype(np.int16)
    if (whole := _common_sum(codes.rows, sums, k, trees)) is None:
        return rows, codes, 2.0**-k, sums, columns
    sums[-1] = whole
    return rows, codes, 2.0**-k, sums, columns - 1


def _two(shares: Array) -> Array:
    """Rows of one or two shares, packed into uint16."""
    weights = 256 ** np.arange(shares.shape[1])
    return np.asarray(shares @ weights, np.uint16)


def _fraction_bits(rows: Array, base: Array, trees: int) -> int:
    """The largest k for which no row exceeds int16 and no sum reaches 2^30."""
    largest = float(np.abs(rows).max(initial=0))
    most = trees * largest + float(np.abs(base).max(initial=0))
    k = 30 - math.frexp(most)[1] if most else 0
    if largest:
        k = min(k, 15 - math.frexp(largest)[1])
    return k - (round(largest * 2.0**k) > 32767)


def _common_sum(rows: Array, base: Array, k: int, trees: int) -> int | None:
    """The sum of all columns of a sample, if all rows have the same sum; None if they do not, or if it reaches 2^30."""
    sums = rows.sum(axis=1)
    spread = float(sums.max() - sums.min())
    whole = int(round_half_up(np.float64(trees * sums.mean() * 2.0**k))) + int(base.sum())
    alike = rows.shape[1] > 1 and spread * 2.0**k <= 0.25
    return whole if alike and abs(whole) + int(np.abs(base).sum()) < 2**30 else None


def _words(layout: _Layout, forest: Forest, thresholds: Mapping[int, int]) -> tuple[list[int], list[int]]:
    """The words of all nodes, and the index of the first one of each tree."""
    words: list[int] = []
    starts: list[int] = []
    for root in layout.roots:
        starts.append(len(words))
        waiting = [root]
        while waiting:
            node = waiting.pop()
            if node < 0:
                number, *rest = layout.codes.pair(node, node)
                words += [0xC000 | number << layout.codes.bits, *rest]
            else:
                words += _node_words(layout, node, forest, thresholds[node])
                waiting += reversed(layout.following(node))
    return words, starts


def _node_words(layout: _Layout, node: int, forest: Forest, threshold: int) -> list[int]:
    """A node as one or two words."""
    pair, following, codes = layout.pairs[node], layout.following(node), layout.codes
    left, right = (child not in following for child in pair)
    rest: list[int] = []
    if left and right:
        number, *rest = codes.pair(*pair)
    elif left or right:
        number = codes.number[-1 - pair[0 if left else 1]]
    else:
        number = layout.skipped(node)
    return [(threshold & 0xFFFF) << 16 | right << 15 | left << 14 | number << codes.bits | forest.feature[node], *rest]


def _cost(n: Any, t: Any) -> Cost:
    return Cost(16.0 * n.macs + 60.0 * n.params.rows, 400)


def _scratch(p: TreesParams) -> int:
    return 4 * (p.columns + KINDS)


def _instance(p: TreesParams) -> Mapping[str, int]:
    return {"BITS": p.bits}


def _kernel(symbol: str, **words: str) -> Kernel:
    """A kernel for other types of elements and rows, made from the file of the portable kernel."""
    template = "ge_trees_s8" if words else ""
    return Kernel(
        symbol, template=template, words=words, instance=_instance, cost=_cost, scratch=_scratch, store="rows"
    )


class TreesS8(KernelOp[TreesParams]):
    """Walks each tree for each sample."""

    name, dtype = "trees_s8", "int8"
    params = TreesParams
    geometry = per_row(lambda p: ((p.features,), p.columns))
    constants: ClassVar[Mapping[str, str]] = {
        "nodes": "uint32_t",
        "starts": "uint32_t",
        "rows": "int16_t",
        "base": "int32_t",
    }
    kernels: tuple[Kernel, ...] = (_kernel("ge_trees_s8"),)

    def int_ref(self, p: TreesParams, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        nodes, starts = ([int(v) for v in constants[name]] for name in ("nodes", "starts"))
        base = constants["base"].astype(np.int64)
        rows = self.row_finder(p, constants["rows"])
        found = []
        for x in inputs[0].reshape(p.rows, p.features).tolist():
            total = base.copy()
            for start in starts:
                total[: p.stored] += rows(*_walk(p, x, nodes, start))
            if p.stored < p.columns:
                total[-1] -= total[:-1].sum()
            y = (total * p.multiplier + (1 << (p.shift - 1))) >> p.shift
            found.append(np.clip(y + p.zero_point, p.lo, p.hi))
        return np.asarray(found).astype(self.dtype)

    def row_finder(self, p: TreesParams, stored: Array) -> Callable[[int, bool], Array]:
        """A function that maps the result of a walk to a row."""
        table = stored.astype(np.int64).reshape(-1, p.stored)
        return lambda number, _: table[number]


def _walk(p: TreesParams, x: Sequence[int], nodes: Sequence[int], at: int) -> tuple[int, bool]:
    """The row number that a sample reaches in the tree that begins at word `at`, and whether it comes from the word
    after a pair of leaves.
    """
    largest, half = (1 << (FREE - p.bits)) - 1, (FREE - p.bits) // 2
    while True:
        word = nodes[at]
        at += 1
        threshold, number = word >> 16, word >> p.bits & largest
        left_ends, right_ends = word & 0x4000, word & 0x8000
        left = x[word & ((1 << p.bits) - 1)] <= threshold - (threshold >> 15 << 16)
        if left_ends if left else right_ends:
            if number == largest and left_ends and right_ends:
                return nodes[at] & 0xFFFF if left else nodes[at] >> 16, True
            if left_ends and right_ends:
                number = number & (1 << half) - 1 if left else number >> half
            return number, False
        if not left and not left_ends:
            at += number


class TreesS16(TreesS8):
    """The op with int16 input and output."""

    name, dtype = "trees_s16", "int16"
    element_bytes = (2, 2)
    kernels = (_kernel("ge_trees_s16", ELEMENT="int16_t"),)


class TreesU8S8(TreesS8):
    """The op with rows that are shares."""

    name = "trees_u8_s8"
    constants: ClassVar[Mapping[str, str]] = {**TreesS8.constants, "rows": "uint8_t"}
    kernels = (_kernel("ge_trees_u8_s8", ROW="uint8_t"),)


class TreesU8S16(TreesS16):
    """The op with int16 input and output, and rows that are shares."""

    name = "trees_u8_s16"
    constants: ClassVar[Mapping[str, str]] = TreesU8S8.constants
    kernels = (_kernel("ge_trees_u8_s16", ELEMENT="int16_t", ROW="uint8_t"),)


class TreesTwoS8(TreesS8):
    """The op with rows that are one or two shares."""

    name = "trees_two_s8"
    constants: ClassVar[Mapping[str, str]] = {**TreesS8.constants, "rows": "uint16_t"}
    kernels = (_kernel("ge_trees_two_s8", ROW="uint16_t", TWO="1"),)

    def row_finder(self, p: TreesParams, stored: Array) -> Callable[[int, bool], Array]:
        """A function that maps the result of a walk to the shares of a row."""
        return lambda number, is_row: (
            np.asarray([number if is_row else stored[number]], np.int64) >> np.arange(p.stored) * 8 & 255
        )


class TreesTwoS16(TreesTwoS8):
    """The op with int16 input and output, and rows that are one or two shares."""

    name, dtype = "trees_two_s16", "int16"
    element_bytes = (2, 2)
    kernels = (_kernel("ge_trees_two_s16", ELEMENT="int16_t", ROW="uint16_t", TWO="1"),)


OPS = (Trees(),)
LOWERINGS = {("Trees", "int16"): Trees().lower, ("Trees", "float32"): nest.Nest().lower}
KERNEL_OPS = (TreesS8(), TreesS16(), TreesU8S8(), TreesU8S16(), TreesTwoS8(), TreesTwoS16())
