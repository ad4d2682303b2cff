"""TfIdfVectorizer against onnxruntime: all cases are nodes of one network, which is compiled once and runs as C too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import three_ways
from onnx import helper

from glowembed.errors import UnsupportedModelError
from glowembed.options.table import CompileOptions
from glowembed.pipeline import compile_model

RNG = np.random.default_rng(5)
INPUTS = {
    "row": RNG.integers(0, 4, 12).astype(np.int32),
    "rows": RNG.integers(0, 4, (5, 9)),
    "short": RNG.integers(0, 4, (3, 1)).astype(np.int32),
}
POOL = {  # two unigrams, four bigrams, two trigrams; their columns are not in the order of the pool
    "pool_int64s": [2, 3, 0, 1, 1, 1, 2, 3, 3, 0, 1, 2, 3, 0, 0, 1],
    "ngram_counts": [0, 2, 10],
    "ngram_indexes": [3, 1, 0, 2, 5, 4, 7, 6],
    "mode": "TF",
    "min_gram_length": 1,
    "max_gram_length": 3,
    "max_skip_count": 0,
}
WEIGHTS = {"weights": [0.5, 1.25, 2.0, -1.0, 3.0, 0.1, 0.7, 1.5]}

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "one row": ("row", {}),
    "a batch": ("rows", {}),
    "rows shorter than an n-gram": ("short", {"max_skip_count": 3}),
    "one element skipped": ("rows", {"max_skip_count": 1}),
    "more skipped than there are": ("row", {"max_skip_count": 50}),
    "unigrams are counted once": ("rows", {"max_gram_length": 1, "max_skip_count": 4}),
    "bigrams only": ("rows", {"min_gram_length": 2, "max_gram_length": 2, "max_skip_count": 2}),
    "whether": ("rows", {"mode": "IDF"}),
    "weights of those that occur": ("rows", {"mode": "IDF", **WEIGHTS}),
    "counts times weights": ("rows", {"mode": "TFIDF", "max_skip_count": 2, **WEIGHTS}),
    "weights that do not count": ("row", WEIGHTS),
    "two n-grams of one column": ("rows", {"ngram_indexes": [1, 1, 0, 2, 5, 4, 7, 6]}),
    "columns that nothing fills": ("row", {"ngram_indexes": [9, 1, 0, 2, 5, 4, 7, 6]}),
}


def node(inputs: str, change: dict[str, Any], output: str) -> onnx.NodeProto:
    return helper.make_node("TfIdfVectorizer", [inputs], [output], name=f"vectorizer of {output}", **{**POOL, **change})


def test_counts_and_weights_are_those_of_onnxruntime(tmp_path: Path) -> None:
    nodes = [node(inputs, change, name) for name, (inputs, change) in CASES.items()]
    outputs: three_ways.Outputs = dict.fromkeys(CASES, ("float32", None))
    found = three_ways.run(three_ways.network(nodes, INPUTS, outputs, {"": 9}, {}), INPUTS, tmp_path)
    for name, (theirs, reference, c) in found.items():
        assert reference.tobytes() == c.tobytes(), name
        np.testing.assert_allclose(reference, theirs, rtol=1e-6, err_msg=name)
        assert reference.shape == theirs.shape and (theirs.any() or name.startswith("rows shorter")), name


REFUSED = {
    "strings": ({"pool_strings": ["a", "b"]}, "pool is of strings"),
    "a mode that there is not": ({"mode": "BM25"}, "BM25"),
    "fewer columns than n-grams": ({"ngram_indexes": [0, 1]}, "2 ngram_indexes for 8 n-grams"),
    "half of a bigram": ({"ngram_counts": [0, 1, 10]}, "n-grams of 2 elements is 1 to 10"),
    "a pool that ends before it starts": ({"ngram_counts": [0, 99, 10]}, "0 to 99 of 16"),
    "longer n-grams than there are pools for": ({"max_gram_length": 4}, "1 to 4 elements in 3 pools"),
    "a negative column": ({"ngram_indexes": [-1, 1, 0, 2, 5, 4, 7, 6]}, "negative"),
    "weights for some": ({"mode": "IDF", "weights": [1.0]}, "1 weights for 8 n-grams"),
    "two weights of one column": (
        {"ngram_indexes": [1, 1, 0, 2, 5, 4, 7, 6], "mode": "IDF", **WEIGHTS},
        "differ in their weights",
    ),
    "nothing to skip": ({"max_skip_count": -2}, "max_skip_count"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_pools_that_contradict_themselves_are_refused(name: str, tmp_path: Path) -> None:
    change, words = REFUSED[name]
    model = three_ways.network([node("row", change, "y")], INPUTS, {"y": ("float32", None)}, {"": 9}, {})
    onnx.save(model, tmp_path / "m.onnx")
    with pytest.raises(UnsupportedModelError) as error:
        compile_model(tmp_path / "m.onnx", tmp_path / "b", CompileOptions(target="generic", dtype="model"))
    assert words in str(error.value) and "vectorizer of y" in str(error.value)
