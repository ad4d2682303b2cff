"""Attention as exporters write it becomes one op; all values agree with onnxruntime, and the integers with the reference on a core."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from small_models import canonical, model, node, saved, weights

from glowembed.canonicalize import canonicalize
from glowembed.graph.ir import Array
from glowembed.graph.plan import PlanOptions
from glowembed.judge import compare
from glowembed.judge.tune import integer_outputs
from glowembed.judge.validation import samples_for
from glowembed.pipeline import CompileOptions, compile_model
from glowembed.quantize.precision import parse
from glowembed.read.importer import load

Nodes = list[onnx.NodeProto]
T, C, H = 6, 8, 2
D = C // H

LOWER = np.tril(np.ones((T, T), bool))
CAUSAL = np.where(LOWER, 0, -np.inf).astype(np.float32)
BIAS = np.random.default_rng(3).normal(size=(1, H, T, T)).astype(np.float32)
CONSTANTS: dict[str, Any] = {
    "wq": weights(C, C), "wk": weights(C, C, seed=2), "wv": weights(C, C, seed=3), "wqkv": weights(C, 3 * C), "wo": weights(C, C, seed=4),
    "split": [1, T, H, D], "joined": [1, T, C], "root": np.float32(D**-0.25), "scale": np.float32(D**-0.5), "sqrt": np.float32(D**0.5),
    "causal": CAUSAL, "large": np.where(LOWER, 0, -1e4).astype(np.float32), "lower": LOWER, "upper": ~LOWER, "inf": np.float32(-np.inf), "low": np.float32(-1e9),
    "bias": BIAS, "keys": np.where(np.arange(T) < 4, 0, -1e9).astype(np.float32).reshape(1, 1, 1, T), "zero": 0.0,
    "heads": [T, H, D], "flat": [T, C], "thirds": [C, C, C], "one": [1], "c0": np.int64(0), "c1": np.int64(1), "c2": np.int64(2),
    "three": [T, 3, C], "by_head": [1, H, T, D], "joined3": [T, C], "back": [1, T, C], "y_shape": [1, T, C],
}  # fmt: skip


def product(x: str, name: str) -> onnx.NodeProto:
    return node("MatMul", f"{x} w{name}", f"{name}_all")


def split(name: str, perm: list[int]) -> Nodes:
    return [node("Reshape", f"{name}_all split", f"{name}_split"), node("Transpose", f"{name}_split", name, perm=perm)]


def heads(x: str = "x", memory: str = "x") -> Nodes:
    """q and v as [1, H, T, D], k as [1, H, D, T]."""
    return [
        product(x, "q"), product(memory, "k"), product(memory, "v"),
        *split("q", [0, 2, 1, 3]), *split("k", [0, 2, 3, 1]), *split("v", [0, 2, 1, 3]),
    ]  # fmt: skip


JOIN = [
    node("Transpose", "context", "turned", perm=[0, 2, 1, 3]),
    node("Reshape", "turned joined", "o"),
    node("MatMul", "o wo", "y"),
]


def around(*middle: onnx.NodeProto) -> Nodes:
    return [*heads(), *middle, node("MatMul", "p v", "context"), *JOIN]


SOFTMAX = node("Softmax", "t", "p", axis=-1)
SCORES = node("MatMul", "q k", "s")
SDPA = [node("Mul", "q root", "q1"), node("Mul", "k root", "k1"), node("MatMul", "q1 k1", "s")]
PACKED = [  # as nn.MultiheadAttention writes it: tokens first, one product for all three
    node("Transpose", "x", "xt", perm=[1, 0, 2]), node("MatMul", "xt wqkv", "all"), node("Reshape", "all three1", "all3"),
    node("Unsqueeze", "all3 c0v", "all5"), node("Transpose", "all5", "turned5", perm=[3, 1, 2, 0, 4]), node("Squeeze", "turned5 c3v", "qkv"),
    *(node("Gather", f"qkv c{i}", f"{n}g", axis=0) for i, n in enumerate("qkv")),
    *(node("Reshape", f"{n}g heads", f"{n}h") for n in "qkv"), *(node("Transpose", f"{n}h", f"{n}3", perm=[1, 0, 2]) for n in "qkv"),
    *(node("Reshape", f"{n}3 by_head", f"{n}") for n in "qv"), node("Reshape", "k3 by_head", "k4"), node("Transpose", "k4", "k", perm=[0, 1, 3, 2]),
    *SDPA, node("Softmax", "s", "p", axis=-1), node("MatMul", "p v", "context"),
    node("Transpose", "context", "turned", perm=[2, 0, 1, 3]), node("Reshape", "turned joined3", "o"), node("MatMul", "o wo", "flat_y"), node("Reshape", "flat_y back", "y"),
]  # fmt: skip
CONSTANTS |= {"three1": [T, 1, 3, C], "c0v": [0], "c3v": [3]}

FORMS: dict[str, tuple[Nodes, int]] = {
    "scaled by a Mul": (around(SCORES, node("Mul", "s scale", "t"), SOFTMAX), 13),
    "scaled by a Div": (around(SCORES, node("Div", "s sqrt", "t"), SOFTMAX), 13),
    "both operands scaled": (around(*SDPA[:2], node("MatMul", "q1 k1", "t"), SOFTMAX), 17),
    "causal by an Add": (around(*SDPA, node("Add", "s causal", "t"), SOFTMAX), 17),
    "causal, finite": (around(*SDPA, node("Add", "large s", "t"), SOFTMAX), 17),
    "causal by Where": (around(SCORES, node("Mul", "s scale", "m"), node("Where", "lower m low", "t"), SOFTMAX), 13),
    "causal by Where with infinity": (around(SCORES, node("Where", "upper inf s", "m"), node("Mul", "m scale", "t"), SOFTMAX), 13),
    "guarded": (
        around(*SDPA, node("Add", "s causal", "t"), node("Softmax", "t", "p0", axis=-1), node("IsNaN", "p0", "n"), node("Where", "n zero p0", "p")), 17,
    ),
    "a bias for each head": (around(SCORES, node("Mul", "s scale", "m"), node("Add", "m bias", "t"), SOFTMAX), 13),
    "masked keys": (around(SCORES, node("Mul", "s scale", "m"), node("Add", "m keys", "t"), SOFTMAX), 13),
    "a bias and masked keys": (
        around(SCORES, node("Mul", "s scale", "m"), node("Add", "m bias", "m1"), node("Add", "m1 keys", "t"), SOFTMAX), 13,
    ),
    "values in columns": (
        [*heads(), SCORES, node("Mul", "s scale", "t"), SOFTMAX, node("Transpose", "p", "pt", perm=[0, 1, 3, 2]), node("Transpose", "v", "vt", perm=[0, 1, 3, 2]),
         node("MatMul", "vt pt", "context"), node("Transpose", "context", "turned", perm=[0, 3, 1, 2]), *JOIN[1:]], 13,
    ),
    "torch.nn.MultiheadAttention": (PACKED, 17),
    "one head of matrices": (
        [node("Reshape", "x flat", "x2"), *(product("x2", n) for n in "qkv"), node("Transpose", "k_all", "k", perm=[1, 0]), node("MatMul", "q_all k", "s"),
         node("Mul", "s scale", "t"), SOFTMAX, node("MatMul", "p v_all", "o"), node("MatMul", "o wo", "y2"), node("Reshape", "y2 y_shape", "y")], 13,
    ),
    "Attention of opset 23": (
        [product("x", "q"), product("x", "k"), product("x", "v"), node("Attention", "q_all k_all v_all", "o", q_num_heads=H, kv_num_heads=H),
         node("MatMul", "o wo", "y")], 23,
    ),
    "Attention of opset 23, causal": (
        [product("x", "q"), product("x", "k"), product("x", "v"),
         node("Attention", "q_all k_all v_all", "o", q_num_heads=H, kv_num_heads=H, is_causal=1), node("MatMul", "o wo", "y")], 23,
    ),
}  # fmt: skip


def proto(nodes: Nodes, opset: int) -> onnx.ModelProto:
    read = {name for one in nodes for name in one.input}
    made = model(nodes, {"x": (1, T, C)}, {n: a for n, a in CONSTANTS.items() if n in read}, opset=opset)
    if any(one.domain == "com.microsoft" for one in nodes):
        made.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return made


def contrib() -> dict[str, tuple[Nodes, int]]:
    domain = {"domain": "com.microsoft", "num_heads": H}
    whole = node("Attention", "x wqkv bqkv", "o", **domain)
    parts = [product("x", n) for n in "qkv"]
    return {
        "Attention of com.microsoft": ([whole, node("MatMul", "o wo", "y")], 17),
        "MultiHeadAttention of com.microsoft": (
            [*parts, node("MultiHeadAttention", "q_all k_all v_all", "o", **domain), node("MatMul", "o wo", "y")],
            17,
        ),
    }


CONSTANTS["bqkv"] = weights(3 * C, seed=6)
FORMS |= contrib()


@pytest.mark.parametrize("name", FORMS)
def test_it_is_one_op(name: str, tmp_path: Path) -> None:
    made = proto(*FORMS[name])
    ops = [n.op for n in canonical(made, tmp_path, twice=False).nodes]
    assert ops.count("Attention") == 1 and not {"MatMul", "Softmax", "Nest", "Choice"} & set(ops)
    x = np.random.default_rng(4).standard_normal((16, T, C)).astype(np.float32)
    np.savez(tmp_path / "d.npz", calib_x=x, test_x=x[::-1])
    path = saved(made, tmp_path)
    for dtype, quality in (("int8", 26), ("int16", 38)):
        options = CompileOptions(plan=PlanOptions("greedy"), precision=parse({"defaults": {"dtype": dtype}}))
        bundle = compile_model(path, tmp_path / dtype, options, tmp_path / "d.npz")
        dataset = samples_for(bundle, tmp_path / "d.npz")
        theirs, ours = compare.run_onnxruntime(path, dataset)["y"], integer_outputs(bundle.graph, dataset)["y"]
        assert compare.output_metrics("y", theirs, ours).sqnr_db > quality


VALID = np.arange(T) < np.array([6, 4, 1, 5])[:, None]
OPEN = np.where(VALID, 0, -1e9).astype(np.float32)
MASKS: dict[str, tuple[Nodes, Array]] = {
    "numbers that are added": (around(*SDPA, node("Add", "s mask", "t"), SOFTMAX), OPEN[:, None, None] + BIAS[0, :1]),
    "numbers for each head": (around(*SDPA, node("Add", "mask s", "t"), SOFTMAX), OPEN[:, None, None] + BIAS),
    "tokens that count, as integers": (
        around(
            SCORES, node("Mul", "s scale", "m"), node("Unsqueeze", "mask axes", "m1"), node("Cast", "m1", "m2", to=1), node("Sub", "unit m2", "m3"),
            node("Mul", "m3 large_number", "m4"), node("Add", "m m4", "t"), SOFTMAX,
        ), VALID.astype(np.int64),
    ),
    "booleans that choose": (around(SCORES, node("Where", "mask s inf", "m"), node("Mul", "m scale", "t"), SOFTMAX), VALID[:, None, None]),
    "booleans that choose what is forbidden": (around(SCORES, node("Mul", "s scale", "m"), node("Where", "mask low m", "t"), SOFTMAX), ~VALID[:, None, None]),
    "a key_padding_mask of torch": (
        around(*SDPA, node("Where", "mask inf zero", "m1"), node("Reshape", "m1 of_keys", "m2"), node("Expand", "m2 of_heads", "m3"), node("Add", "s m3", "t"), SOFTMAX),
        ~VALID,
    ),
    "causal too": (
        around(*SDPA, node("Where", "mask s low", "m"), node("Add", "m causal", "t"), SOFTMAX), VALID[:, None, None],
    ),
    "a bias too": (around(*SDPA, node("Add", "s bias", "m"), node("Where", "mask m low", "t"), SOFTMAX), VALID[:, None, None]),
    "Attention of opset 23": (
        [product("x", "q"), product("x", "k"), product("x", "v"),
         node("Attention", "q_all k_all v_all mask", "o", q_num_heads=H, kv_num_heads=H), node("MatMul", "o wo", "y")], np.broadcast_to(VALID[:, None], (4, T, T)),
    ),
    "MultiHeadAttention of com.microsoft": (
        [product("x", "q"), product("x", "k"), product("x", "v"),
         helper.make_node("MultiHeadAttention", ["q_all", "k_all", "v_all", "", "mask"], ["o"], domain="com.microsoft", num_heads=H), node("MatMul", "o wo", "y")],
        VALID.astype(np.int32),
    ),
}  # fmt: skip
CONSTANTS |= {"axes": [1, 2], "unit": 1.0, "large_number": -3.4e38, "of_keys": [1, 1, 1, T], "of_heads": [1, H, 1, T]}


@pytest.mark.parametrize("name", MASKS)
def test_a_computed_mask_is_its_fourth_input(name: str, tmp_path: Path) -> None:
    """The samples for calibration forbid nothing; the masks of the others are kept all the same."""
    nodes, mask = MASKS[name]
    made = proto(nodes, 23 if name.startswith("Attention") else 17)
    kind = helper.np_dtype_to_tensor_dtype(mask.dtype)
    made.graph.input.append(helper.make_tensor_value_info("mask", kind, (1, *mask.shape[1:])))
    path = saved(made, tmp_path)
    assert [n.op for n in canonicalize(load(path)).nodes].count("Attention") == 1
    x = np.random.default_rng(4).standard_normal((4, T, C)).astype(np.float32)
    np.savez(tmp_path / "d.npz", calib_x=x, test_x=x, calib_mask=np.repeat(mask[:1], 4, axis=0), test_mask=mask)
    for dtype, quality in (("int8", 26), ("int16", 38), ("float32", 100)):
        options = CompileOptions(plan=PlanOptions("greedy"), precision=parse({"defaults": {"dtype": dtype}}))
        bundle = compile_model(path, tmp_path / dtype, options, tmp_path / "d.npz")
        dataset = samples_for(bundle, tmp_path / "d.npz")
        theirs, ours = compare.run_onnxruntime(path, dataset)["y"], integer_outputs(bundle.graph, dataset)["y"]
        assert compare.output_metrics("y", theirs, ours).sqnr_db > quality


OTHERS: dict[str, tuple[Nodes, int]] = {
    "a mask that data gives": (around(SCORES, node("Add", "s s", "t"), SOFTMAX), 13),
    "a factor for each key": (around(SCORES, node("Mul", "s keys", "t"), SOFTMAX), 13),
    "probabilities that are scaled": (
        [*heads(), node("MatMul", "q k", "t"), SOFTMAX, node("Mul", "p scale", "p2"), node("MatMul", "p2 v", "context"), *JOIN], 13,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_none_keeps_its_products(name: str, tmp_path: Path) -> None:
    ops = [n.op for n in canonical(proto(*OTHERS[name]), tmp_path, twice=False).nodes]
    assert ops.count("MatMul") == 2 and "Attention" not in ops
