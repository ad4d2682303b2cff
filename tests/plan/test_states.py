"""States: kept in the arena from run to run with the bits of the reference, one type at both ends, reset, saved and loaded."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import own_firmware
import pytest
from emulated import BOARDS
from small_models import model, node, saved, weights

from glowembed.errors import UsageError
from glowembed.graph.ir import Array
from glowembed.graph.plan import Places, PlanOptions
from glowembed.graph.target import load_board
from glowembed.image.combine import combine
from glowembed.judge.validation import stored_inputs, validate
from glowembed.options.words import NO_STATES, named_states
from glowembed.pipeline import Bundle, CompileOptions, compile_model
from glowembed.ranges.datasets import Dataset, of_graph
from glowembed.read.importer import load
from glowembed.reference import run_int
from glowembed.run.host import HostModel

FRAME = [1, 6]


def average() -> object:
    """y = 0.25 (x W) + 0.75 y of the run before, and the last three frames."""
    nodes = [
        node("MatMul", "x w", "m"),
        node("Mul", "m new", "mine"),
        node("Mul", "old rest", "kept"),
        node("Add", "mine kept", "sum"),
        node("Relu", "sum", "y"),
        node("Concat", "f_cache x", "frames", axis=0),
        node("Slice", "frames one four axis", "f_cache_out"),
        node("ReduceMean", "frames", "mean", axes=[0], keepdims=1),
    ]
    constants = {
        "w": weights(6, 6),
        "new": np.float32(0.25),
        "rest": np.float32(0.75),
        "one": [1],
        "four": [4],
        "axis": [0],
    }
    return model(nodes, {"x": FRAME, "old": FRAME, "f_cache": [3, 6]}, constants, ("y", "sum", "f_cache_out", "mean"))


def gates(op: str, gate_count: int) -> object:
    """One step of a recurrent cell with its states as inputs and outputs, without state names."""
    states = ("h", "c") if op == "LSTM" else ("h",)
    firsts, lasts = " ".join(f"{s}_first" for s in states), " ".join(f"{s}_last" for s in states)
    nodes = [
        node("Reshape", "x seq", "frame"),
        node(op, f"frame W R _ _ {firsts}", f"Y {lasts}", hidden_size=8),
        node("Reshape", "Y flat", "y"),
    ]
    constants = {
        "W": weights(1, gate_count * 8, 6),
        "R": weights(1, gate_count * 8, 8, seed=2),
        "seq": [1, 1, 6],
        "flat": [1, 8],
    }
    return model(nodes, {"x": FRAME, **{f"{s}_first": [1, 1, 8] for s in states}}, constants, ("y", *lasts.split()), 14)


def tanh() -> object:
    """A state whose output has a fixed type, and which is read before and after it is written in the order of the model."""
    nodes = [
        node("Concat", "x state_in", "both", axis=1),
        node("Gemm", "both w", "z"),
        node("Tanh", "z", "state_out"),
        node("Sub", "state_out state_in", "y"),
    ]
    return model(nodes, {"x": FRAME, "state_in": [1, 5]}, {"w": weights(11, 5)}, ("y", "state_out"))


def swap() -> object:
    """Two states that change places, one of them under another shape, and an output that is what one of them was."""
    nodes = [
        node("Add", "x a", "sum"),
        node("Relu", "sum", "a_next"),
        node("Reshape", "a shape", "b_next"),
        node("Reshape", "b flat", "y"),
    ]
    return model(
        nodes, {"x": FRAME, "a": FRAME, "b": [2, 3]}, {"shape": [2, 3], "flat": [1, 6]}, ("y", "a_next", "b_next")
    )


NETWORKS = {
    "swap": (swap, {"a_next": "a", "b_next": "b"}, 2),
    "average": (average, {"sum": "old"}, 2),
    "LSTM": (lambda: gates("LSTM", 4), {}, 2),
    "GRU": (lambda: gates("GRU", 3), {}, 1),
    "tanh": (tanh, {}, 1),
}


def frames(count: int, seed: int) -> Array:
    return np.random.default_rng(seed).normal(size=(count, 6)).astype(np.float32)


def bundle_of(name: str, folder: Path, target: str = "x86-64", called: str = "net", **options: object) -> Bundle:
    proto, asked, _ = NETWORKS[name]
    folder.mkdir(exist_ok=True)
    np.savez(folder / "data.npz", calib_x=frames(30, 0), test_x=frames(12, 1))
    isa = "portable" if target == "x86-64" else None  # which compiles faster, for the same bits
    chosen = CompileOptions(target, name=called, states=asked, isa=isa, **options)  # type: ignore[arg-type]
    return compile_model(saved(proto(), folder), folder / "net", chosen, folder / "data.npz")  # type: ignore[no-untyped-call]


def sequence(bundle: Bundle, folder: Path) -> tuple[dict[str, Array], list[dict[str, Array]]]:
    """The inputs of all runs with the right states, and every value of each run."""
    inputs = stored_inputs(bundle.graph, of_graph(folder / "data.npz", bundle.graph, "test"))
    return inputs, [run_int(bundle.graph, {n: a[i] for n, a in inputs.items()}) for i in range(12)]


@pytest.mark.cc
@pytest.mark.parametrize(
    ("name", "dtype"),
    [*((name, "int8") for name in NETWORKS), ("average", "int16"), ("average", "float32"), ("LSTM", "int16")],
)
def test_the_arena_keeps_the_state_and_nothing_else(name: str, dtype: str, tmp_path: Path) -> None:
    bundle = bundle_of(name, tmp_path, dtype=dtype)
    states, block = bundle.graph.states, bundle.manifest["state"]
    assert len(states) == NETWORKS[name][2]
    for state in states:
        assert bundle.graph.values[state.input].qtype == bundle.graph.values[state.output].qtype
    inputs, expected = sequence(bundle, tmp_path)
    assert any(expected[1][s.output].any() for s in states)
    loaded = HostModel(bundle.path)
    kept = slice(block["offset"], block["offset"] + block["size"])
    for attempt in range(2):
        loaded.reset()
        for i, values in enumerate(expected):
            saved_state = loaded._arena[kept].copy()
            loaded._arena[:] = 17 * i + attempt  # everything except the state is noise between two runs
            loaded._arena[kept] = saved_state
            found = loaded.run_stored({"x": inputs["x"][i]})
            for output in bundle.graph.outputs:
                np.testing.assert_array_equal(found[output], values[output], err_msg=f"{output} of run {i}")


@pytest.mark.cc
@pytest.mark.parametrize(
    "options",
    [
        {"places": Places("caller", "rows"), "plan": PlanOptions(optimize="ram")},
        {"float_io": True, "input_layout": "nhwc"},
    ],
    ids=str,
)
def test_states_beside_other_options(options: dict[str, object], tmp_path: Path) -> None:
    bundle = bundle_of("average", tmp_path, **options)
    assert {t["handed"] for t in bundle.manifest["inputs"] if t["name"] != "x"} == {"state"}
    assert validate(bundle, tmp_path / "data.npz", "host").bit_exact


def rules_in(folder: Path, *rules: Mapping[str, object]) -> Path:
    """A precision.yaml with these rules."""
    path = folder / "precision.yaml"
    path.write_text(json.dumps({"rules": rules}))
    return path


TYPES = {"int8": (1, "int8"), "int16": (2, "int16"), "float32": (4, None)}


@pytest.mark.parametrize("reader", TYPES)
@pytest.mark.parametrize("maker", TYPES)
def test_a_state_has_the_type_of_the_node_that_computes_it(maker: str, reader: str, tmp_path: Path) -> None:
    """Whatever types the nodes have that read it, which convert it."""
    rules = [{"name": "n_sum", "dtype": maker}, *({"name": n, "dtype": reader} for n in ("n_kept", "n_y"))]
    bundle = bundle_of("average", tmp_path, precision=rules_in(tmp_path, *rules))
    old, new = (bundle.graph.values[name] for name in ("old", "sum"))
    size, dtype = TYPES[maker]
    assert old.qtype == new.qtype and (old.qtype.dtype if old.qtype else None) == dtype
    assert old.bytes == new.bytes == 6 * size
    inputs, expected = sequence(bundle, tmp_path)
    assert any(expected[-1]["old"].reshape(-1)) and any(inputs["x"][-1].reshape(-1))


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        (
            [{"value": "old", "range": [-4, 4]}],
            "'old' is a state and has the type of its next value; give the rule for 'sum'",
        ),
        ([{"value": "sum", "range": [-4, 4]}, {"value": "old", "range": [-8, 8]}], "rule 2.*give the rule for 'sum'"),
        ([{"value": "old", "scale": 0.1, "zero_point": 3}], "give the rule for 'sum'"),
        ([{"value": "old", "dtype": "int16"}], "dtype applies to a node"),
        (
            [{"name": "n_*", "dtype": "float32"}, {"value": "sum", "range": [-8, 8]}],
            "'sum' is float32, which has no range",
        ),
    ],
)
def test_types_of_a_state_that_do_not_agree(rules: list[dict[str, object]], words: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=words):
        bundle_of("average", tmp_path, precision=rules_in(tmp_path, *rules))


def test_a_rule_for_the_next_value_of_a_state_is_for_both_ends(tmp_path: Path) -> None:
    rule = {"value": "sum", "scale": 0.05, "zero_point": 3}
    graph = bundle_of("average", tmp_path, precision=rules_in(tmp_path, rule)).graph
    for name in ("old", "sum"):
        qtype = graph.values[name].qtype
        assert qtype is not None and (round(qtype.scale[0], 6), qtype.zero_point) == (0.05, (3,))


MAIN = """#include <string.h>
#include "net.h"
#include "semihost.h"
static NET_ARENA(arena);
static const int8_t inputs[RUNS][NET_INPUT_X_SIZE] = {INPUTS};
static const int8_t expected[RUNS][NET_OUTPUT_Y_SIZE] = {EXPECTED};
static uint8_t saved[NET_STATE_SIZE];
int main(void) {
    uint8_t *const state = arena.bytes + NET_STATE_OFFSET;
    for (int32_t again = 0; again < 2; ++again) {
        if (net_reset(&arena) != NET_OK || net_reset(arena.bytes + 1) != NET_ERROR_ARENA) {
            return 2;
        }
        for (int32_t i = 0; i < RUNS; ++i) {
            memcpy(saved, state, sizeof saved);
            memset(arena.bytes, 31 * i + again, sizeof arena.bytes);
            memcpy(state, saved, sizeof saved);
            memcpy(NET_INPUT_X(&arena), inputs[i], sizeof inputs[i]);
            if (net_run(&arena) != NET_OK || memcmp(NET_OUTPUT_Y(&arena), expected[i], sizeof expected[i]) != 0) {
                return 10 + i;
            }
        }
    }
    ge_semihost_exit(0);
}
"""


@pytest.mark.qemu
@pytest.mark.parametrize(("name", "target"), [("average", "cortex-m4"), ("LSTM", "cortex-m4"), ("LSTM", "cortex-m55")])
def test_firmware_keeps_the_state(name: str, target: str, tmp_path: Path) -> None:
    bundle = bundle_of(name, tmp_path, target)
    inputs, expected = sequence(bundle, tmp_path)

    def listed(rows: list[Array]) -> str:
        return "{" + ", ".join("{" + ", ".join(map(str, row.reshape(-1))) + "}" for row in rows) + "}"

    main = MAIN.replace("{INPUTS}", listed(list(inputs["x"]))).replace("{EXPECTED}", listed([v["y"] for v in expected]))
    folder = tmp_path / "own"
    folder.mkdir()
    sources = sorted(bundle.path.glob("*.c"))
    elf = own_firmware.build(main.replace("RUNS", "12"), sources, folder, load_board(BOARDS[target]))
    code, said = own_firmware.run(elf, BOARDS[target])
    assert code == 0, said


@pytest.mark.qemu
def test_validate_on_a_board(tmp_path: Path) -> None:
    bundle = bundle_of("tanh", tmp_path, "cortex-m4")
    result = validate(bundle, tmp_path / "data.npz", "mps2-an386", layers=True)
    assert result.bit_exact
    assert {"y", "state_out"} == set(result.found)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"y": "nothing"}, "unknown input of the model for --state OUT=IN: 'nothing'"),
        ({"nothing": "old"}, "unknown output of the model for --state OUT=IN: 'nothing'"),
        ({"mean": "f_cache"}, "'f_cache' has shape [3, 6], 'mean' has [1, 6]"),
        ({"y": "x", "sum": "old"}, "every input of the model would be a state"),
    ],
)
def test_pairs_that_are_none(asked: dict[str, str], words: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        load(saved(average(), tmp_path), states=asked)
    assert words in str(caught.value)


@pytest.mark.parametrize("texts", [["y"], ["=x"], ["y="], ["y=a", "y=b"], ["y=a", "z=a"], ["none", "y=a"]])
def test_words_of_state(texts: list[str]) -> None:
    with pytest.raises(UsageError, match="expected OUT=IN"):
        named_states(texts)


@pytest.mark.parametrize(
    ("given", "output", "paired"),
    [
        ("state_in", "state_out", True),
        ("lstm/h0", "lstm/hn", True),
        ("k_cache", "new_k_cache", True),
        ("cache_k", "cache_k_out", False),
        ("in", "out", False),
    ],
)
def test_names_that_pair(given: str, output: str, paired: bool, tmp_path: Path) -> None:
    proto = model([node("Add", f"x {given}", output)], {"x": FRAME, given: FRAME}, {}, (output,))
    path = saved(proto, tmp_path)
    graph = load(path)
    assert [(s.output, s.input) for s in graph.states] == ([(output, given)] if paired else [])
    assert [note.code for note in graph.assumed] == ["state"] * paired
    assert not load(path, states=NO_STATES).states


def test_a_network_of_states_alone_has_none(tmp_path: Path) -> None:
    """Names do not make a state of the only input: nothing would be left for the caller to give."""
    graph = load(
        saved(model([node("Relu", "state_in", "state_out")], {"state_in": FRAME}, {}, ("state_out",)), tmp_path)
    )
    assert not graph.states
    assert [note.code for note in graph.assumed] == ["state"]
    assert "stay inputs and outputs" in graph.assumed[0].text


def test_the_header_counts_states_apart(tmp_path: Path) -> None:
    """x has 6 bytes, y has 5, and the state 5, which alignment makes 8."""
    header = (bundle_of("tanh", tmp_path).path / "net.h").read_text("utf-8")
    assert re.search(r"in, out +11 bytes", header)
    assert re.search(r"state +8 bytes", header)


def test_a_sequence_is_cut_at_its_end(tmp_path: Path) -> None:
    bundle = bundle_of("tanh", tmp_path)
    data = of_graph(tmp_path / "data.npz", bundle.graph, "test")
    np.testing.assert_array_equal(data.every(5).inputs["x"], data.inputs["x"][:5])
    given = Dataset({"x": data.inputs["x"], "state_in": np.ones((12, 5), np.float32)}, shapes=data.shapes)
    assert set(of_graph(given, bundle.graph, "test").inputs) == {"x"}


def test_combined_bundles_with_a_state_have_their_own_arena(tmp_path: Path) -> None:
    proto = saved(model([node("MatMul", "x w", "y")], {"x": FRAME}, {"w": weights(6, 6)}), tmp_path, "plain.onnx")
    np.savez(tmp_path / "plain.npz", x=frames(8, 0))
    plain = compile_model(proto, tmp_path / "plain", CompileOptions("cortex-m4", name="plain"), tmp_path / "plain.npz")
    kept = bundle_of("tanh", tmp_path, "cortex-m4")
    manifest = combine([plain.path, kept.path], tmp_path / "both", "both")
    assert manifest["arena"]["size"] == plain.manifest["arena"]["size"]
    assert "static NET_ARENA(net_arena);" in (tmp_path / "both" / "both.h").read_text()
    with pytest.raises(UsageError, match="all keep a state"):
        combine([kept.path, bundle_of("tanh", tmp_path / "more", "cortex-m4", "other").path], tmp_path / "none", "none")
