"""Streams: a network on hops gives the bits of the network on windows, and keeps what the rule of reuse says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import own_firmware
import pytest
from emulated import BOARDS
from small_models import model, node, saved, weights
from stream_cases import CHANNELS, DEPTH, FULL, NETWORKS, ROWS, VALID, causal_layers, chain

from glowembed.errors import UsageError
from glowembed.graph.ir import Array, Graph
from glowembed.graph.plan import Places
from glowembed.graph.states import State
from glowembed.graph.target import load_board, load_target
from glowembed.image.bundles import window_of
from glowembed.judge.debugging import losses
from glowembed.judge.streaming import recording
from glowembed.judge.validation import samples_for, stored_inputs, validate
from glowembed.lower import footprint, stream
from glowembed.lower.choose import choose
from glowembed.options.words import Streamed, named_stream
from glowembed.pipeline import Bundle, CompileOptions, compile_model
from glowembed.reference import graph_runs, run_int, run_int_all
from glowembed.run.host import HostModel


def bundle_of(name: str, folder: Path, target: str = "x86-64", **options: object) -> Bundle:
    proto, asked, _ = NETWORKS[name]
    shape = [d.dim_value for d in proto.graph.input[0].type.tensor_type.shape.dim]  # type: ignore[attr-defined]
    x = np.random.default_rng(0).normal(size=(6, *shape[1:])).astype(np.float32)
    np.savez(folder / "data.npz", calib_x=x, test_x=x[:3])
    isa = "portable" if target == "x86-64" else None  # which compiles faster, for the same bits
    chosen = CompileOptions(target, name="net", stream=named_stream(asked), isa=isa, **options)  # type: ignore[arg-type]
    return compile_model(saved(proto, folder), folder / "net", chosen, folder / "data.npz")  # type: ignore[arg-type]


def runs(bundle: Bundle, folder: Path) -> tuple[list[Array], list[Array | None]]:
    """The new rows of each hop, and the output of the window that ends with it; None while there is none."""
    graph, wanted = bundle.graph, bundle.graph.stream
    assert wanted is not None
    found = recording(graph, samples_for(bundle, folder / "data.npz"))
    hops = list(stored_inputs(graph, found.hops)["x"])
    frames = np.concatenate([hop.reshape(wanted.hop, -1) for hop in hops])
    window = window_of(bundle)
    shape = window.values["x"].shape
    ends = [(i + 1) * wanted.hop for i in range(len(hops))]
    starts = [end - wanted.rows for end in ends]
    return hops, [
        run_int(window, {"x": frames[a:b].reshape(shape)})[window.outputs[0]] if a >= 0 else None
        for a, b in zip(starts, ends, strict=True)
    ]


@pytest.mark.cc
@pytest.mark.parametrize(
    ("name", "dtype"),
    [*((name, "int8") for name in NETWORKS), ("same", "int16"), ("image", "float32"), ("a crop at both ends", "int16")],
)
def test_hops_give_the_bits_of_windows(name: str, dtype: str, tmp_path: Path) -> None:
    bundle = bundle_of(name, tmp_path, dtype=dtype)
    hops, expected = runs(bundle, tmp_path)
    products = [sum(node.macs for node in graph.nodes) for graph in (bundle.graph, window_of(bundle))]
    assert products[0] <= NETWORKS[name][2] * products[1], products
    loaded, output = HostModel(bundle.path), bundle.graph.outputs[0]
    wanted = bundle.graph.stream
    assert wanted is not None
    assert [one is None for one in expected].count(True) == wanted.hops - 1
    references = graph_runs(bundle.graph, ({"x": hop} for hop in hops), run_int_all)
    for i, (hop, right, (_, values)) in enumerate(zip(hops, expected, references, strict=True)):
        found = loaded.run_stored({"x": hop})[output]
        np.testing.assert_array_equal(found, values[output], err_msg=f"hop {i}")
        if right is not None:
            np.testing.assert_array_equal(found, right, err_msg=f"hop {i}")


MAIN = """#include <string.h>
#include "net.h"
#include "semihost.h"
static NET_ARENA(arena);
static const int8_t hops[RUNS][NET_INPUT_X_SIZE] = {HOPS};
static const int8_t expected[RUNS][NET_OUTPUT_Y_SIZE] = {EXPECTED};
static uint8_t saved[NET_STATE_SIZE];
int main(void) {
    uint8_t *const state = arena.bytes + NET_STATE_OFFSET;
    memset(arena.bytes, 91, sizeof arena.bytes);
    for (int32_t again = 0; again < 2; ++again) {
        net_reset(&arena);
        if (net_push(&arena, NULL) != NET_ERROR_ARENA) {
            return 2;
        }
        for (int32_t i = 0; i < RUNS; ++i) {
            memcpy(saved, state, sizeof saved);
            memset(arena.bytes, 31 * i + again, sizeof arena.bytes);
            memcpy(state, saved, sizeof saved);
            const int32_t full = (i + 1) * NET_STREAM_HOP >= NET_STREAM_ROWS;
            if (net_push(&arena, hops[i]) != (full ? NET_OK : NET_MORE)) {
                return 3;
            }
            if (full && memcmp(NET_OUTPUT_Y(&arena), expected[i], sizeof expected[i]) != 0) {
                return 10 + i;
            }
        }
    }
    ge_semihost_exit(0);
}
"""


@pytest.mark.qemu
@pytest.mark.parametrize(
    ("name", "target"), [("early tops", "cortex-m4"), ("time last", "cortex-m4"), ("same", "cortex-m55")]
)
def test_push_on_a_board(name: str, target: str, tmp_path: Path) -> None:
    bundle = bundle_of(name, tmp_path, target)
    hops, expected = runs(bundle, tmp_path)
    none = np.zeros_like(next(one for one in expected if one is not None))

    def listed(rows: list[Array]) -> str:
        return "{" + ", ".join("{" + ", ".join(map(str, row.reshape(-1))) + "}" for row in rows) + "}"

    main = MAIN.replace("{HOPS}", listed(hops)).replace(
        "{EXPECTED}", listed([none if e is None else e for e in expected])
    )
    folder = tmp_path / "own"
    folder.mkdir()
    sources = sorted(bundle.path.glob("*.c"))
    elf = own_firmware.build(main.replace("RUNS", str(len(hops))), sources, folder, load_board(BOARDS[target]))
    code, said = own_firmware.run(elf, BOARDS[target])
    assert code == 0, (code, said)


def test_rows_of_a_sum_are_kept_until_their_layer_needs_them_last(tmp_path: Path) -> None:
    """Of 30 rows of 160 bytes, a hop would keep about 26 to compute the first ones of each window anew."""
    graph = bundle_of("early tops", tmp_path).graph
    kept = {state.input: graph.values[state.input] for state in graph.states}
    (tops,) = (value for name, value in kept.items() if name.endswith("/tops"))
    assert tops.shape[0] > 5, "the tops of windows that begin later"
    assert kept["r/kept"].shape[1] <= 4
    assert [name for name in kept if "sum" in name] == [
        tops.name
    ]  # which takes up the rows below the tops as they come
    assert tops.qtype is not None and tops.qtype.dtype == "int16"


@pytest.mark.parametrize(("name", "rows"), [("taps far apart", [5]), ("taps far apart, hop 2", [6, 6])])
def test_a_dilated_layer_reads_only_the_rows_of_its_taps(name: str, rows: list[int], tmp_path: Path) -> None:
    graph = bundle_of(name, tmp_path).graph
    read = [node for node in graph.nodes if getattr(node.params, "kernel_h", 1) > 1 and "/rows" in node.inputs[0]]
    assert [node.params.in_h for node in read if "by" in node.inputs[0]] == rows
    assert all(node.params.dilation_h == graph.stream.hop for node in read if "by" in node.inputs[0])  # type: ignore[union-attr]


def test_the_parts_of_a_layer_share_their_weights(tmp_path: Path) -> None:
    """Top and bottom have different fastest kernels, which read the weights in different orders."""
    deep = chain(((CHANNELS, 32), 3, {"pads": [2, 0]}), ((32, 32), 3, {"pads": [4, 0], "dilations": [2]}))
    np.savez(
        tmp_path / "data.npz", calib_x=np.random.default_rng(0).normal(size=(4, CHANNELS, ROWS)).astype(np.float32)
    )
    options = CompileOptions("cortex-m4", name="net", stream=named_stream("x:2:1"))
    bundle = compile_model(saved(deep, tmp_path), tmp_path / "net", options, tmp_path / "data.npz")  # type: ignore[arg-type]
    fastest, balanced = (
        choose(window_or_hop, load_target("cortex-m4"), optimize=goal)[0]
        for window_or_hop, goal in [(bundle.graph, "speed"), (window_of(bundle), "balanced")]
    )
    hop, window, apart = map(footprint.stored_once, (bundle.graph, balanced, fastest))
    assert hop < 1.1 * window < apart


@pytest.mark.qemu
def test_validate_compares_hops_with_windows(tmp_path: Path) -> None:
    bundle = bundle_of("same", tmp_path, "cortex-m4")
    result = validate(bundle, tmp_path / "data.npz", "mps2-an386")
    assert result.bit_exact
    assert len(result.found["y"]) == 2 * ROWS + 1  # 3 windows of ROWS rows are one recording
    assert result.json["outputs"][0]["cosine"] > 0.98
    with pytest.raises(UsageError, match="compile the same model without --stream"):
        losses(bundle, tmp_path / "data.npz")


def test_the_proof_finds_a_wrong_row(tmp_path: Path) -> None:
    """A hop graph whose state is another one than the rule says, and one that leaves out what a hop must give on."""
    bundle = bundle_of("same", tmp_path)
    window, hops = window_of(bundle), bundle.graph

    def broken(graph: Graph, inputs: object) -> dict[str, Array]:
        values = dict(run_int(graph, inputs))  # type: ignore[arg-type]
        if graph is hops:
            values |= {s.output: np.roll(values[s.output], 1, axis=1) for s in hops.states}
        return values

    stream.prove(window, hops, run_int)
    with pytest.raises(AssertionError, match="leaves other rows"):
        stream.prove(window, hops, broken)
    assert all(isinstance(state, State) for state in hops.states)


@pytest.mark.parametrize(
    ("asked", "options", "words"),
    [
        ("y:2", {}, "unknown input of the model for --stream: 'y'"),
        (
            "x:1",
            {},
            "'n_c0' mixes the 6 rows along axis 1, or computes all of its own anew, so every layer would have to be computed whole; axis 2 of the",
        ),
        ("x:3", {}, "--stream x:3: the input has shape"),
        ("x:2:20", {}, "a hop of 20 keeps nothing of 20 rows; the most is 19"),
        ("x:2:1", {"places": Places("caller")}, "leave out --io and --input"),
        ("x:2:1", {"places": Places("arena", "rows")}, "leave out --io and --input"),
    ],
)
def test_streams_that_do_not_fit(asked: str, options: dict[str, object], words: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", calib_x=np.ones((2, CHANNELS, ROWS), np.float32))
    chosen = CompileOptions("x86-64", stream=named_stream(asked), **options)  # type: ignore[arg-type]
    with pytest.raises(UsageError) as caught:
        compile_model(saved(VALID, tmp_path), tmp_path / "net", chosen, tmp_path / "data.npz")  # type: ignore[arg-type]
    assert words in str(caught.value)


FLAT = model([node("Flatten", "x", "f"), node("MatMul", "f d", "y")], {"x": [1, ROWS, 4]}, {"d": weights(ROWS * 4, 3)})
TURNED = model(
    [node("Transpose", "x", "t", perm=[0, 2, 1]), node("Conv", "t a", "c"), node("GlobalMaxPool", "c", "y")],
    {"x": [1, ROWS, 4]},
    {"a": weights(8, 4, 3)},
)
RECURRENT = model(
    [node("Transpose", "x", "t", perm=[1, 0, 2]), node("GRU", "t w r", "s h", hidden_size=5)],
    {"x": [1, ROWS, 4]},
    {"w": weights(1, 15, 4), "r": weights(1, 15, 5)},
    ["h"],
)
SMOOTHED = model(
    [node("Sigmoid", "x", "s"), node("Flatten", "s", "f"), node("MatMul", "f d", "y")],
    {"x": [1, ROWS, 4]},
    {"d": weights(ROWS * 4, 3)},
)


@pytest.mark.parametrize(
    ("proto", "asked", "words"),
    [
        (FLAT, "x:1", "'n_y' mixes the 20 rows along axis 1,.*; no axis of the input is better"),
        (TURNED, "x:2", "'n_c' mixes the 4 rows along axis 2,.*; axis 1 of the input can be"),  # not 'x/as_in_model'
        (
            RECURRENT,
            "x:1",
            "'n_s' mixes the 20 rows.*; a recurrent layer keeps nothing of a window: export the network for one step",
        ),
        (TURNED, "x:3", r"the input has shape \[1, 20, 4\]"),
    ],
)
def test_an_error_names_the_layer_of_the_model_and_the_axis_that_works(
    proto: object, asked: str, words: str, tmp_path: Path
) -> None:
    np.savez(tmp_path / "data.npz", calib_x=np.ones((2, ROWS, 4), np.float32))
    chosen = CompileOptions("x86-64", stream=named_stream(asked))
    with pytest.raises(UsageError, match=words):
        compile_model(saved(proto, tmp_path), tmp_path / "net", chosen, tmp_path / "data.npz")  # type: ignore[arg-type]


def test_a_stream_that_computes_all_products_again_says_so(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", calib_x=np.random.default_rng(0).normal(size=(2, ROWS, 4)).astype(np.float32))
    chosen = CompileOptions("x86-64", stream=named_stream("x:1"), isa="portable")
    bundle = compile_model(saved(SMOOTHED, tmp_path), tmp_path / "net", chosen, tmp_path / "data.npz")  # type: ignore[arg-type]
    (note,) = (note for note in bundle.notes if note.code == "stream-recomputed")
    assert "as many products as the whole window, because 'n_y' ends the reuse" in note.text


def test_windows_of_a_recurrent_network(tmp_path: Path) -> None:
    """Steps, batch, features: every step depends on all before it."""
    nodes = [node("LSTM", "x w r", "all last", hidden_size=4), node("Flatten", "last", "y")]
    proto = model(nodes, {"x": [ROWS, 1, CHANNELS]}, {"w": weights(1, 16, CHANNELS), "r": weights(1, 16, 4, seed=2)})
    np.savez(tmp_path / "data.npz", calib_x=np.ones((2, ROWS, 1, CHANNELS), np.float32))
    chosen = CompileOptions("x86-64", stream=Streamed("x", 0, 1))
    with pytest.raises(UsageError, match="export the network for one step, and give its state with --state"):
        compile_model(saved(proto, tmp_path), tmp_path / "net", chosen, tmp_path / "data.npz")


@pytest.mark.parametrize(
    ("strides", "hop", "words"),
    [
        ((2, 2), 1, "does not fit the stride of 'n_c0'; a hop of 4 does"),
        ((2, 1), 1, "'n_c0'; a hop of 2, 4 or 10 does"),
        ((1, 2), 5, "'n_c1'; a hop of 2, 4 or 10 does"),
        ((4, 2), 1, "'n_c0'; no hop that divides the 20 rows does. Without --stream-padding, a hop may be any"),
    ],
)
def test_a_causal_hop_that_does_not_fit_a_stride(
    strides: tuple[int, int], hop: int, words: str, tmp_path: Path
) -> None:
    layers = [(channels, 3, {"strides": [step]}) for channels, step in zip((FULL, DEPTH), strides, strict=True)]
    np.savez(tmp_path / "data.npz", calib_x=np.ones((2, CHANNELS, ROWS), np.float32))
    chosen = CompileOptions("x86-64", stream=Streamed("x", 2, hop), stream_padding="causal")
    with pytest.raises(UsageError, match=words):
        compile_model(saved(chain(*layers), tmp_path), tmp_path / "net", chosen, tmp_path / "data.npz")  # type: ignore[arg-type]


def test_phases_of_a_hop_keep_rows_as_often(tmp_path: Path) -> None:
    """The same rows as a hop of 2 keeps, twice, except those of the input, which are before the stride."""
    kept: list[dict[str, int]] = []
    for name in ("early tops", "early tops, phases"):
        folder = tmp_path / name
        folder.mkdir()
        bundle = bundle_of(name, folder)
        kept.append({state.input: bundle.graph.values[state.input].elements for state in bundle.graph.states})
    (note,) = (note.text for note in bundle.notes if "phases" in note.text)
    assert "2 phases, because the hop does not fit the stride of 'n_c'" in note
    once, twice = kept
    assert {name for name in once if twice[name] == 2 * once[name]} == once.keys() - {"x"} - {"x/kept"}


@pytest.mark.parametrize(
    ("text", "stream"),
    [
        ("x", Streamed("x", 1, 1)),
        ("x:2", Streamed("x", 2, 1)),
        ("x:2:5", Streamed("x", 2, 5)),
        ("x::5", Streamed("x", 1, 5)),
        ("in:0:1:2", Streamed("in:0", 1, 2)),
    ],
)
def test_words_of_stream(text: str, stream: Streamed) -> None:
    assert named_stream(text) == stream


@pytest.mark.parametrize("text", ["", "x:1:0"])
def test_words_that_are_no_stream(text: str) -> None:
    with pytest.raises(UsageError, match="expected INPUT"):
        named_stream(text)


@pytest.mark.parametrize("hop", [1, 4])
def test_a_causal_stream_is_one_long_window(hop: int, tmp_path: Path) -> None:
    """In float32, where types are those of both: every row of a recording is computed once, and sees all rows before it."""
    length = 3 * ROWS
    frames = np.random.default_rng(4).normal(size=(1, CHANNELS, length)).astype(np.float32)
    np.savez(tmp_path / "data.npz", calib_x=frames[:, :, :ROWS])
    chosen = CompileOptions(
        "x86-64", dtype="float32", stream=Streamed("x", 2, hop), stream_padding="causal", name="net"
    )
    path = saved(causal_layers(ROWS), tmp_path)  # type: ignore[arg-type]
    bundle = compile_model(path, tmp_path / "net", chosen, tmp_path / "data.npz")
    long = saved(causal_layers(length), tmp_path, "long.onnx")  # type: ignore[arg-type]
    np.savez(tmp_path / "long.npz", calib_x=frames)
    options = CompileOptions("x86-64", dtype="float32", input_layout="nhwc")
    whole = compile_model(long, tmp_path / "long", options, tmp_path / "long.npz").graph
    right = run_int(whole, {"x": frames.transpose(0, 2, 1)})["r1"]
    samples = ({"x": frames.transpose(0, 2, 1)[:, i : i + hop]} for i in range(0, length, hop))
    for i, (_, values) in enumerate(graph_runs(bundle.graph, samples, run_int_all)):
        end = (i + 1) * hop
        np.testing.assert_array_equal(values["r1"][:, :, -hop:], right[:, :, end - hop : end])
    assert sum(node.macs for node in bundle.graph.nodes) * ROWS == hop * sum(
        node.macs for node in window_of(bundle).nodes
    )


@pytest.mark.qemu
def test_validate_a_causal_stream(tmp_path: Path) -> None:
    bundle = bundle_of("causal", tmp_path, "cortex-m4", stream_padding="causal")
    result = validate(bundle, tmp_path / "data.npz", "mps2-an386")
    assert result.bit_exact
    assert result.json["outputs"][0]["cosine"] > 0.98
    assert "only the first window" in (bundle.path / "net.h").read_text(
        "utf-8"
    )  # the header promises no more than that


SAME = chain((FULL, 3, {"pads": [1, 1]}), (DEPTH, 3, {"group": 8, "pads": [2, 2], "dilations": [2]}))
ABOVE = chain((FULL, 3, {"pads": [2, 0]}), (DEPTH, 3, {"group": 8, "pads": [4, 0], "dilations": [2]}))


def test_a_zero_start_is_the_causal_stream_of_the_network_padded_above(tmp_path: Path) -> None:
    """The same nodes and bits, in float32, where ranges do not matter; each layer computes one row of the window's."""
    x = np.random.default_rng(2).normal(size=(4, CHANNELS, ROWS)).astype(np.float32)
    np.savez(tmp_path / "data.npz", calib_x=x, test_x=x)
    made = []
    for proto, padding in ((SAME, "zero-start"), (ABOVE, "causal")):
        folder = tmp_path / padding
        folder.mkdir()
        chosen = CompileOptions("x86-64", dtype="float32", stream=Streamed("x", 2, 1), stream_padding=padding)  # type: ignore[arg-type]
        made.append(compile_model(saved(proto, folder), folder / "net", chosen, tmp_path / "data.npz"))  # type: ignore[arg-type]
    frames = [{"x": row.reshape(1, 1, CHANNELS)} for sample in x for row in sample.T]
    found, right = ([v["y"] for _, v in graph_runs(b.graph, frames, run_int_all)] for b in made)
    np.testing.assert_array_equal(found, right)
    window = window_of(made[0])
    assert sum(n.macs for n in made[0].graph.nodes if "conv" in n.op or "depthwise" in n.op) * ROWS == sum(
        n.macs for n in window.nodes if "conv" in n.op or "depthwise" in n.op
    )


@pytest.mark.cc
def test_validate_a_zero_start(tmp_path: Path) -> None:
    bundle = bundle_of("same", tmp_path, stream_padding="zero-start")
    result = validate(bundle, tmp_path / "data.npz", "host")
    assert result.bit_exact
    assert result.json["outputs"][0]["cosine"] > 0.98


def test_a_zero_start_refuses_to_join_rows_of_different_times(tmp_path: Path) -> None:
    nodes = [node("Conv", "x a", "c", pads=[1, 1]), node("Add", "c x", "y")]
    proto = model(nodes, {"x": [1, CHANNELS, ROWS]}, {"a": weights(CHANNELS, CHANNELS, 3)})
    np.savez(tmp_path / "data.npz", calib_x=np.ones((2, CHANNELS, ROWS), np.float32))
    chosen = CompileOptions("x86-64", stream=Streamed("x", 2, 1), stream_padding="zero-start")
    with pytest.raises(UsageError, match="'n_y' would be late by different numbers of rows, 0 and 1"):
        compile_model(saved(proto, tmp_path), tmp_path / "net", chosen, tmp_path / "data.npz")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("layers", "hop", "words"),
    [
        (
            [(FULL, 3, {"pads": [2, 0]})],
            3,
            "a hop of 3 does not divide the window of 20 rows, .*; a hop of 1, 2, 4, 5 or 10 does",
        ),
        (
            [(FULL, 3, {"pads": [24, 0], "dilations": [12]})],
            1,
            "'n_c0' cannot stand for rows before the window, because it sees more",
        ),
        (
            [(FULL, 3, {}), (DEPTH, 3, {"pads": [2, 0]})],
            1,
            "'n_c1' cannot .* because a layer before it has less padding",
        ),
    ],
)
def test_padding_that_cannot_be_causal(layers: list[object], hop: int, words: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", calib_x=np.ones((2, CHANNELS, ROWS), np.float32))
    chosen = CompileOptions("x86-64", stream=Streamed("x", 2, hop), stream_padding="causal")
    with pytest.raises(UsageError, match=words):
        compile_model(saved(chain(*layers), tmp_path), tmp_path / "net", chosen, tmp_path / "data.npz")  # type: ignore[arg-type]
