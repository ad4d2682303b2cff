"""Inputs and outputs outside the arena: the same bits, nothing of the caller's written that is his, rows in order and once."""

from __future__ import annotations

import importlib.util
import subprocess
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from compiled_models import compiled, level_here
from small_models import model, node, weights

from glowembed.graph.ir import Array
from glowembed.graph.plan import Places, PlanOptions
from glowembed.judge.validation import validate
from glowembed.pipeline import Bundle, CompileOptions, compile_model
from glowembed.plan import memory, replay
from glowembed.reference import run_int
from glowembed.run.host import HostModel

ALL = [Places(io, how) for io in ("arena", "caller") for how in ("whole", "rows")]  # type: ignore[arg-type]
OUTSIDE = ALL[1:]


in_c99 = partial(compiled, isa="portable")
"""Compiles for this computer without its own kernels, which takes the compiler less time, for the same bits."""


def stored_inputs(bundle: Bundle, seed: int = 1) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    return {n: rng.integers(-128, 128, bundle.graph.values[n].shape).astype(np.int8) for n in bundle.graph.inputs}


def branches() -> object:
    """Two inputs; an output that is a view of another one, one that is a view of an input, and one inside the network."""
    nodes = [
        node("Conv", "a w", "c", pads=[1, 1, 1, 1]),
        node("Relu", "c", "inner"),
        node("Concat", "inner b", "joined", axis=1),
        node("Conv", "joined v", "y", strides=[2, 2]),
        node("Reshape", "y flat", "view"),
        node("Reshape", "b flat_b", "same"),
    ]
    constants = {"w": weights(4, 3, 3, 3), "v": weights(5, 6, 3, 3), "flat": [1, -1], "flat_b": [1, -1]}
    return model(nodes, {"a": [1, 3, 9, 7], "b": [1, 2, 9, 7]}, constants, ("y", "view", "same", "inner"))


@pytest.mark.cc
@pytest.mark.parametrize("places", ALL, ids=str)
def test_every_place_gives_the_bits_of_the_reference(places: Places, tmp_path: Path) -> None:
    bundle = in_c99(branches(), tmp_path, places=places)
    inputs = stored_inputs(bundle)
    expected = run_int(bundle.graph, inputs)
    loaded = HostModel(bundle.path)
    for _ in range(2):
        found = loaded.run_stored(inputs)
        for name in bundle.graph.outputs:
            np.testing.assert_array_equal(found[name].reshape(-1), expected[name].reshape(-1), err_msg=name)


@pytest.mark.cc
@pytest.mark.parametrize("places", OUTSIDE, ids=str)
def test_an_input_of_the_caller_is_only_read(places: Places, tmp_path: Path) -> None:
    bundle = in_c99(branches(), tmp_path, places=places)
    loaded, inputs = HostModel(bundle.path), stored_inputs(bundle)
    loaded.run_stored(inputs)
    outside = [t for t in loaded.manifest["inputs"] if t["handed"] != "arena"]
    assert len(outside) == 2
    for tensor in outside:
        np.testing.assert_array_equal(loaded.read(tensor), inputs[tensor["name"]])


@pytest.mark.cc
@pytest.mark.shared
@pytest.mark.parametrize("name", ["kws", "resnet8", "tcn", "ad01"])
def test_real_networks_on_the_host(name: str, shared_models: Path, tmp_path: Path) -> None:
    folder = shared_models / name
    places, plan = Places("caller", "rows"), PlanOptions("greedy", effort=0)
    options = CompileOptions("x86-64", input_layout="nhwc", places=places, plan=plan, levels=level_here())
    bundle = compile_model(folder / "model.onnx", tmp_path / "net", options, folder / "data.npz")
    assert validate(bundle, folder / "data.npz", "host", 5).bit_exact


@pytest.mark.arm_gcc
@pytest.mark.qemu
@pytest.mark.parametrize("places", OUTSIDE, ids=str)
def test_on_an_emulated_board(places: Places, digits: Path, tmp_path: Path) -> None:
    """Outputs, layers and the stack; the input of the device lies outside the arena."""
    options = CompileOptions("cortex-m4", places=places, plan=PlanOptions(optimize="ram"), float_io=True)
    bundle = compile_model(digits / "model.onnx", tmp_path / "net", options, digits / "data.npz")
    result = validate(bundle, digits / "data.npz", "mps2-an386", 3, layers=True)
    assert result.bit_exact, result.json["first_difference"]
    assert result.json["memory"]["stack"] > 0


@pytest.mark.cc
def test_over_the_serial_line(digits: Path, tmp_path: Path) -> None:
    options = CompileOptions("x86-64", isa="portable", places=Places("caller", "rows"))
    bundle = compile_model(digits / "model.onnx", tmp_path / "net", options, digits / "data.npz")
    from glowembed.run.ondevice import Link

    assert validate(bundle, digits / "data.npz", "host", 3, layers=True, link=Link(transport="serial")).bit_exact


@pytest.mark.arm_gcc
@pytest.mark.qemu
def test_an_image_of_27648_bytes_that_is_never_in_memory(root: Path, tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("person", root / "benchmarks" / "person.py")
    assert spec is not None
    assert spec.loader is not None
    person = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(person)
    folder = person.write(tmp_path / "person")
    options = CompileOptions(input_layout="nhwc", places=Places(input="rows"), plan=PlanOptions("greedy", effort=0))
    bundle = compile_model(folder / "model.onnx", tmp_path / "net", options, folder / "data.npz")
    assert bundle.manifest["arena"]["size"] <= 17_000
    assert bundle.manifest["inputs"][0]["rows"] == 96
    assert validate(bundle, folder / "data.npz", "mps2-an386", 1).bit_exact


ROWS = """#include <stdio.h>
#include <string.h>
#include "net.h"
static NET_ARENA(arena);
static int32_t asked[64], count;
static void deliver(void *context, int32_t row, void *data) {
    asked[count++] = row;
    memset(data, *(int *)context + row, NET_INPUT_X_ROW_SIZE);
}
int main(void) {
    int start = -20;
    static int8_t y[NET_OUTPUT_Y_COUNT + 8] __attribute__((aligned(8)));
    const net_places places = {{deliver, &start}, y};
    const net_places none = {{NULL, &start}, y}, crooked = {{deliver, &start}, y + 1}, empty = {{deliver, &start}, NULL};
    printf("%d %d %d %d ", net_run(&arena, NULL), net_run(&arena, &none), net_run(&arena, &crooked), net_run(&arena, &empty));
    printf("%d ", (int)count);
    printf("%d ", net_run(&arena, &places));
    for (int i = 0; i < count; i++) { printf("%d ", (int)asked[i]); }
    for (int i = 0; i < NET_OUTPUT_Y_COUNT; i++) { printf("%d ", y[i]); }
    return y[NET_OUTPUT_Y_COUNT];
}
"""


def one_conv(stride: int = 2) -> object:
    return model([node("Conv", "x w", "y", strides=[stride, stride])], {"x": [1, 2, 8, 5]}, {"w": weights(3, 2, 3, 3)})


def program(bundle: Bundle, text: str, folder: Path) -> list[int]:
    (folder / "main.c").write_text(text)
    sources = [str(bundle.path / s) for s in bundle.manifest["sources"]]
    flags = "-std=c99 -Wall -Wextra -Wpedantic -Wconversion -Werror -fsanitize=address,undefined".split()
    command = ["cc", *flags, "-I", str(bundle.path), str(folder / "main.c"), *sources, "-o", str(folder / "program")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [
        int(word)
        for word in subprocess.run([folder / "program"], capture_output=True, text=True, check=True).stdout.split()
    ]


@pytest.mark.cc
def test_rows_are_asked_for_in_order_and_once(tmp_path: Path) -> None:
    """Even the last one, which no window reaches; wrong places are refused before anything happens."""
    bundle = compiled(one_conv(), tmp_path, isa="portable", places=Places("caller", "rows"))
    found = program(bundle, ROWS, tmp_path)
    assert found[:6] == [-3, -3, -3, -3, 0, 0]
    assert found[6:14] == list(range(8))
    x = np.broadcast_to(np.arange(8, dtype=np.int8).reshape(1, 8, 1, 1) - np.int8(20), (1, 8, 5, 2))
    assert found[14:] == run_int(bundle.graph, {"x": x})["y"].reshape(-1).tolist()


GLOW = """#include <stdio.h>
#include "net_glow.h"
static uint8_t memory[NET_MUTABLE_MEM_SIZE] __attribute__((aligned(NET_MEM_ALIGN)));
static uint8_t activations[NET_ACTIVATIONS_MEM_SIZE] __attribute__((aligned(NET_MEM_ALIGN)));
int main(void) {
    memset(GLOW_GET_ADDR(memory, NET_X), 7, NET_INPUT_X_SIZE);
    printf("%d %d ", net(NULL, NULL, activations), net(NULL, memory, activations));
    const int8_t *y = (const int8_t *)GLOW_GET_ADDR(memory, NET_Y);
    for (int i = 0; i < NET_OUTPUT_Y_COUNT; i++) { printf("%d ", y[i]); }
    return 0;
}
"""


@pytest.mark.cc
@pytest.mark.parametrize("places", OUTSIDE, ids=str)
def test_the_interface_of_glow(places: Places, tmp_path: Path) -> None:
    bundle = compiled(one_conv(), tmp_path, isa="portable", places=places)
    found = program(bundle, GLOW, tmp_path)
    assert found[:2] == [-1, 0]
    assert found[2:] == run_int(bundle.graph, {"x": np.full((1, 8, 5, 2), 7, np.int8)})["y"].reshape(-1).tolist()


def test_what_is_outside_takes_no_arena(tmp_path: Path) -> None:
    inside, outside = (
        compiled(one_conv(), tmp_path, places=Places(io), plan=PlanOptions(optimize="speed")).manifest
        for io in ("arena", "caller")
    )
    assert inside["arena"]["liveness_bound"] >= 80 + 18
    assert outside["arena"]["size"] <= inside["arena"]["size"] - 18
    assert [t["offset"] for t in (*outside["inputs"], *outside["outputs"])] == [None, None]


def test_the_check_sees_an_input_of_the_caller_that_is_written(tmp_path: Path) -> None:
    bundle = compiled(
        model([node("Relu", "x", "y")], {"x": [1, 2, 8, 5]}), tmp_path, isa="portable", places=Places("caller")
    )
    plan = memory.plan(bundle.graph, 8)
    replay.check(bundle.graph, plan)
    nodes = tuple(replace(n, shares=0) for n in bundle.graph.nodes)
    with pytest.raises(AssertionError, match="writes over an input of the caller"):
        replay.check(replace(bundle.graph, nodes=nodes), plan)


def test_the_header_says_what_lies_over_what(tmp_path: Path) -> None:
    bundle = compiled(one_conv(1), tmp_path)
    header = (bundle.path / "net.h").read_text("ascii")
    x, y = bundle.manifest["inputs"][0], bundle.manifest["outputs"][0]
    meet = x["offset"] < y["offset"] + y["bytes"] and y["offset"] < x["offset"] + x["bytes"]
    assert ("over the same bytes as output y" in header) == meet
