"""Attention: attention_s8, attention_s16, and a loop nest in float32, bit for bit; and its law against the exact function."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from checker import case, imported, one_node_model, weights
from kernel_checker import KNOWN_SHARE, check_kernels

from glowembed.graph.ir import Array, Const, Graph, Node, Value, verify
from glowembed.graph.op import Malformed
from glowembed.lower.nodes import lower
from glowembed.quantize.precision import Config, resolve
from glowembed.quantize.types import quantize
from glowembed.reference import run_float, run_int

pytestmark = pytest.mark.cc


@dataclass(frozen=True)
class Case:
    """Sizes, a mask or None, and `ahead`, if it is not the number of keys."""

    name: str
    queries: int
    keys: int
    heads: int
    depth: int
    width: int
    mask: Array | None = None
    ahead: int | None = None
    batches: int = 1
    scale: float = 0.4
    low: float = -2.0
    high: float = 2.0
    computed: bool = False

    def __str__(self) -> str:
        return self.name


def forbidden(*shape: int) -> Array:
    """A mask that forbids about a third of the keys and adds to the other scores."""
    rng = np.random.default_rng(5)
    return np.where(rng.random(shape) < 0.3, -1e30, rng.normal(size=shape)).astype(np.float32)


ALL = np.full((1, 4, 5), -1e30, np.float32)
SOME = np.where(np.arange(4)[:, None] % 2 == 0, forbidden(1, 4, 5), -np.float32(1e30))

MASKS = ((1, 1, 5), (1, 4, 5), (3, 4, 5), (3, 1, 5))

CASES = [
    *(Case(f"{n} tokens", n, n, 2, 4, 4) for n in (1, 2, 3, 4, 5, 7, 8, 9, 17, 49)),
    *(Case(f"depth {d}", 5, 6, 2, d, 3) for d in (1, 2, 3, 5, 12, 16, 17, 33)),
    *(Case(f"width {d}", 5, 6, 2, 4, d) for d in (1, 2, 5, 8, 9)),
    Case("one head", 5, 5, 1, 8, 8),
    Case("batches", 3, 4, 2, 4, 4, batches=3),
    Case("other keys", 3, 11, 2, 4, 6),
    Case("a mask for all queries", 4, 5, 2, 4, 4, forbidden(1, 1, 5)),
    Case("a mask for all heads", 4, 5, 2, 4, 4, forbidden(1, 4, 5)),
    Case("a mask for each head", 4, 5, 3, 4, 4, forbidden(3, 4, 5)),
    Case("a mask for each head and all queries", 4, 5, 3, 4, 4, forbidden(3, 1, 5)),
    Case("everything is forbidden", 4, 5, 2, 4, 4, ALL),
    Case("all keys of some queries are forbidden", 4, 5, 2, 4, 4, SOME),
    Case("large masks that forbid nothing", 4, 5, 2, 4, 4, np.full((1, 1, 5), -80.0, np.float32)),
    Case("causal", 9, 9, 2, 4, 4, ahead=0),
    Case("causal behind earlier keys", 4, 9, 2, 4, 4, ahead=5),
    Case("queries that see no key", 5, 4, 2, 4, 4, ahead=-2),
    Case("a mask for each of many keys", 5, 9, 1, 4, 4, forbidden(1, 5, 9)),
    Case("causal with a mask", 4, 5, 2, 4, 4, forbidden(1, 4, 5), ahead=1),
    Case("positive data", 4, 5, 2, 4, 4, low=1.0, high=3.0),
    Case("a negative scale", 4, 5, 2, 4, 4, scale=-0.3),
    Case("steep scores", 4, 5, 2, 4, 4, scale=15.0),
    Case("sums of keys beyond 2^23", 3, 150, 1, 4, 6, low=0.0),
    Case("sums of keys beyond 2^23, causal", 3, 150, 1, 4, 2, low=0.0, ahead=140),
    *(Case(f"columns by sixteen, {d}", 3, 7, 2, 20, d, low=-1.0) for d in (16, 33, 39)),
    Case("columns by sixteen of many keys, with a mask", 3, 40, 2, 32, 32, forbidden(1, 3, 40)),
    *(Case(f"a computed mask, {'x'.join(map(str, n))}", 4, 5, 3, 4, 4, forbidden(*n), computed=True) for n in MASKS),
    Case("a computed mask of a step for each key", 4, 9, 1, 4, 4, np.arange(9, dtype=np.float32).reshape(1, 1, 9) - 4, computed=True),
    Case("a computed mask of each batch", 3, 7, 2, 4, 4, forbidden(3, 1, 1, 7), batches=3, computed=True),
    Case("a computed mask of each batch, head and query", 3, 7, 2, 4, 4, forbidden(3, 2, 3, 7), batches=3, computed=True),
    Case("causal with a computed mask", 4, 5, 2, 4, 4, forbidden(1, 4, 5), ahead=1, computed=True),
    Case("everything is forbidden by a computed mask", 4, 5, 2, 4, 4, ALL, computed=True),
    Case("a computed mask of steep scores", 4, 5, 2, 4, 4, forbidden(1, 4, 5), scale=15.0, computed=True),
    Case("columns by sixteen of many keys, with a computed mask", 3, 40, 2, 32, 32, forbidden(1, 3, 40), computed=True),
    Case("scores beyond 2^23", 3, 6, 2, 135, 4, low=0.0, scale=0.01),
]  # fmt: skip


def tokens(name, queries, keys, heads, depth, width, **attrs):
    """Attention of opset 23."""
    shapes = ((1, queries, heads * depth), (1, keys, heads * depth), (1, keys, heads * width))
    return case(name, "Attention", *shapes, q_num_heads=heads, kv_num_heads=heads, opset=23, **attrs)


SMALL = (
    tokens("one head", 3, 3, 1, 2, 2, scale=0.1),
    tokens("two heads", 3, 4, 2, 2, 1, scale=0.1),
)
"""A softmax so flat that every key counts."""


def random_case(chance):
    """Now and then so many keys, or such deep heads, that kernels sum them in chunks."""
    queries, keys, heads = chance.choice((1, 3, 5)), chance.choice((1, 2, 7, 16, 150)), chance.choice((1, 1, 2))
    return tokens(
        "node",
        queries,
        keys,
        heads,
        chance.choice((1, 4, 9, 135)),
        chance.choice((1, 2, 4, 5)),
        is_causal=int(chance.random() < 0.3),
    )


def mask_of(case: Case) -> Array:
    """The mask as [B, 1 or H, 1 or T, S]."""
    mask = np.zeros((1, 1, case.keys)) if case.mask is None else case.mask
    return np.broadcast_to(mask, (case.batches, *mask.shape[-3:])).astype(np.float32)


def network(case: Case) -> Graph:
    """A model of one Attention."""
    sizes = {
        "q": (case.batches, case.queries, case.heads * case.depth),
        "k": (case.batches, case.keys, case.heads * case.depth),
        "v": (case.batches, case.keys, case.heads * case.width),
    }
    y = Value("y", (case.batches, case.queries, case.heads * case.width))
    values = {**{name: Value(name, shape) for name, shape in sizes.items()}, "y": y}
    names = list(sizes)
    if case.mask is not None:
        names.append("mask")
        const = None if case.computed else Const(case.mask)
        values["mask"] = Value("mask", mask_of(case).shape if case.computed else case.mask.shape, const=const)
    attrs = {"heads": case.heads, "scale": case.scale, "ahead": case.keys if case.ahead is None else case.ahead}
    return verify(
        Graph("one", (), values, (*sizes, *(["mask"] if case.computed else [])), ("y",)).with_nodes(
            [Node("y", "Attention", tuple(names), ("y",), attrs)]
        )
    )


def exact(case: Case, q: Array, k: Array, v: Array, mask: Array | None = None) -> Array:
    """The attention of each batch and head separately, in float64."""
    outputs = np.zeros((case.batches, case.queries, case.heads, case.width))
    ahead = case.keys if case.ahead is None else case.ahead
    mask = (mask_of(case) if mask is None else mask).astype(np.float64)
    mask = np.broadcast_to(mask, (case.batches, case.heads, case.queries, case.keys))
    for b, t, h in np.ndindex(outputs.shape[:3]):
        keys = [j for j in range(case.keys) if j <= t + ahead and mask[b, h, t, j] > -88.7]
        if not keys:
            continue
        query = q[b, t, h * case.depth : (h + 1) * case.depth].astype(np.float64)
        own = k[b, keys, h * case.depth : (h + 1) * case.depth].astype(np.float64)
        scores = own @ query * case.scale + mask[b, h, t, keys]
        e = np.exp(scores - scores.max())
        outputs[b, t, h] = e @ v[b, keys, h * case.width : (h + 1) * case.width].astype(np.float64) / e.sum()
    return outputs.reshape(case.batches, case.queries, -1)


def of_ranges(case: Case, dtype: str) -> Graph:
    """The lowered network, for inputs and outputs of -2 to 2."""
    graph = network(case)
    return verify(lower(quantize(graph, lambda name, _: (-2.0, 2.0), resolve(graph, Config({"dtype": dtype})))))


def small_graphs():
    """Masks that are computed, with a softmax so flat that every key counts."""
    return [
        of_ranges(
            Case("small", 3, keys, 2, 2, 1, np.zeros(mask, np.float32), computed=True, batches=batches, scale=0.1),
            dtype,
        )
        for dtype in ("int8", "int16")
        for keys, mask, batches in ((3, (2, 1, 3), 1), (4, (2, 1, 1, 4), 2))
    ]


def random_graph(chance):
    queries, keys, heads = chance.choice((1, 3, 5)), chance.choice((1, 2, 7, 16, 150)), chance.choice((1, 1, 2))
    mask = np.zeros((chance.choice((1, heads)), chance.choice((1, queries)), keys), np.float32)
    sizes = (queries, keys, heads, chance.choice((1, 4, 9, 135)), chance.choice((1, 2, 4, 5)))
    ahead = 0 if chance.random() < 0.3 else keys
    made = Case(
        "random",
        *sizes,
        mask,
        ahead=ahead,
        computed=True,
        batches=chance.choice((1, 1, 2)),
        scale=chance.choice((0.1, 0.4, 2.0)),
    )
    return of_ranges(made, chance.choice(("int8", "int8", "int16")))


def lowered(case: Case, dtype: str, samples: list[dict[str, Array]]) -> Graph:
    graph = network(case)
    floats = [run_float(graph, sample) for sample in samples]
    ranges = {
        n: (float(min(f[n].min() for f in floats)), float(max(f[n].max() for f in floats)))
        for n in (*graph.inputs, "y")
    }
    return verify(lower(quantize(graph, lambda name, _: ranges[name], resolve(graph, Config({"dtype": dtype})))))


def data(case: Case, count: int = 3) -> list[dict[str, Array]]:
    graph, rng = network(case), np.random.default_rng(7)
    return [
        {
            n: rng.uniform(case.low, case.high, graph.values[n].shape).astype(np.float32)
            for n in graph.inputs
            if n != "mask"
        }
        | ({"mask": mask_of(case)} if case.computed else {})
        for _ in range(count)
    ]


@pytest.mark.parametrize("dtype", ["int8", "int16", "float32"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_attention(case: Case, dtype: str) -> None:
    """The float reference, the integers within a few steps of it, and all kernels with the bits of the reference."""
    samples = data(case)
    typed = lowered(case, dtype, samples)
    for sample in samples:
        expected = exact(case, **sample)
        np.testing.assert_allclose(run_float(network(case), sample)["y"], expected, rtol=1e-4, atol=1e-5)
        if dtype == "float32":
            np.testing.assert_allclose(
                run_int(typed, sample)["y"].reshape(expected.shape), expected, rtol=1e-3, atol=1e-4
            )
            continue
        stored = {n: typed.values[n].qtype.quantize(sample[n]) for n in typed.inputs}
        real = {n: typed.values[n].qtype.dequantize(stored[n]) for n in typed.inputs}
        qtype = typed.values["y"].qtype
        found = qtype.dequantize(run_int(typed, stored)["y"]).reshape(expected.shape)
        coarse = max(typed.values["v"].qtype.scale[0] * 3, qtype.scale[0] * 3) if dtype == "int8" else 0.03
        assert np.abs(found - np.clip(exact(case, **real), *qtype.range())).max() <= coarse
    for node in typed.nodes:
        check_kernels(
            node, typed, np.random.default_rng(1), thorough=dtype != "float32", known=KNOWN_SHARE * (dtype == "int8")
        )


@pytest.mark.parametrize(
    ("dtype", "keys", "quality"), [("int8", 64, 36), ("int8", 512, 30), ("int8", 2048, 19), ("int16", 512, 38)]
)
def test_the_error_is_that_of_the_powers(dtype: str, keys: int, quality: float) -> None:
    """Scores of a deviation of 1.5, as in docs/quantization.md; the outputs are rounded to the type too."""
    case, rng = Case("long", 8, keys, 1, 32, 32, scale=1.0), np.random.default_rng(keys)
    sample = {n: rng.normal(size=(1, t, 32)).astype(np.float32) for n, t in (("q", 8), ("k", keys), ("v", keys))}
    sample["q"] *= np.float32(1.5 / 32**0.5)
    typed = lowered(case, dtype, [sample])
    stored = {n: typed.values[n].qtype.quantize(sample[n]) for n in typed.inputs}
    real = {n: typed.values[n].qtype.dequantize(stored[n]) for n in typed.inputs}
    wanted, qtype = exact(case, **real), typed.values["y"].qtype
    error = qtype.dequantize(run_int(typed, stored)["y"]).reshape(wanted.shape) - wanted
    assert 10 * np.log10((wanted**2).sum() / (error**2).sum()) > quality


def test_the_sums_of_a_head_are_its_own() -> None:
    """Two heads with the queries and keys of one another differ only in the order of their outputs."""
    case = Case("twins", 4, 5, 2, 4, 4)
    sample = {n: weights(1, 4 if n == "q" else 5, 8, seed=ord(n)) for n in "qkv"}
    turned = {n: np.roll(x, 4, axis=2) for n, x in sample.items()}
    both = [run_float(network(case), one)["y"] for one in (sample, turned)]
    np.testing.assert_array_equal(np.roll(both[0], 4, axis=2), both[1])


def test_a_direction_that_there_is_not_is_refused():
    shape = (1, 3, 4)
    wrong = case("wrong", "Attention", shape, shape, shape, q_num_heads=2, kv_num_heads=2, is_causal=2, opset=23)
    with pytest.raises(Malformed, match="its is_causal is 2; it is 0 or 1"):
        imported(one_node_model(wrong))
