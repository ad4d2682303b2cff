"""A run in slices: the bits of the whole run, no slice longer than asked, and a least slice where a layer cannot be cut further."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from compiled_models import compiled, level_here
from emulated import BOARDS
from small_models import model, node, weights

from glowembed.errors import UsageError
from glowembed.graph.ir import Array
from glowembed.graph.plan import PlanOptions
from glowembed.judge.slicing import measured_slices
from glowembed.judge.validation import build_bundle
from glowembed.measure import noise
from glowembed.options.words import Streamed
from glowembed.pipeline import Bundle
from glowembed.reference import run_int
from glowembed.run import qemu
from glowembed.run.host import HostModel

LEAST = re.compile(r"the shortest call of '(\w+)' takes about \d+ cycles; the least slice for this network is (\d+)")


def conv(x: str, y: str, weight: str, **attrs: object) -> list[object]:
    return [node("Conv", f"{x} {weight}", f"{y}_", **attrs), node("Relu", f"{y}_", y)]


def image(tail: bool = True) -> object:
    """Convolutions with padding and strides, one of them depthwise, a pool with padding, a fully connected layer."""
    same = {"pads": [1, 1, 1, 1]}
    nodes = [
        *conv("x", "a", "wa", **same),
        *conv("a", "b", "wb", group=16, **same),
        *conv("b", "c", "wc", strides=[2, 2], **same),
        node("AveragePool", "c", "d", kernel_shape=[3, 3], strides=[1, 1], pads=[1, 1, 1, 1]),
        node("Flatten", "d", "e"),
        node("MatMul", "e we", "y"),
    ]
    constants = {
        "wa": weights(16, 8, 3, 3),
        "wb": weights(16, 1, 3, 3, seed=2),
        "wc": weights(24, 16, 3, 3, seed=3),
        "we": weights(24 * 6 * 5, 48, seed=4),
    }
    return model(nodes, {"x": [1, 8, 12, 10]}, constants)


def pixels() -> object:
    """Convolutions over one pixel and over two, with many channels: only a range of outputs is short enough. The name
    of one layer looks like a part of the other.
    """
    nodes = [*conv("x", "a", "wa", pads=[1, 1, 1, 1]), *conv("a", "y", "wb", node_name="n_a__part")]
    return model(nodes, {"x": [1, 32, 1, 2]}, {"wa": weights(64, 32, 3, 3), "wb": weights(48, 64, 1, 2, seed=2)})


def cut(proto: object, folder: Path, target: str, limit: int, **options: object) -> Bundle:
    levels = level_here() if target == "x86-64" else ()
    return compiled(proto, folder, target, plan=PlanOptions(slice=limit), levels=levels, **options)


def least(proto: object, folder: Path, target: str) -> int:
    """The least slice, as the error names it, which is the least indeed."""
    with pytest.raises(UsageError) as error:
        cut(proto, folder, target, 1000)
    found = LEAST.search(str(error.value))
    assert found is not None, error.value
    cycles = int(found[2])
    with pytest.raises(UsageError, match=f"the least slice for this network is {cycles}$"):
        cut(proto, folder, target, cycles - 101)
    return cycles


CASES = [
    ("image", "x86-64", 1_500),
    ("image", "cortex-m0", None),
    ("image", "cortex-m4", None),
    ("pixels", "cortex-m4", None),
    ("image", "cortex-m55", None),
]
"""Network, target, slice; None is the least one, with which everything that can be cut is."""

NETWORKS = {"image": image, "pixels": pixels}


@pytest.mark.qemu
@pytest.mark.parametrize(("name", "target", "limit"), CASES)
def test_slices_give_the_bits_of_the_reference(name: str, target: str, limit: int | None, tmp_path: Path) -> None:
    """The harness runs the bundle slice by slice."""
    bundle = cut(NETWORKS[name](), tmp_path, target, limit or least(NETWORKS[name](), tmp_path, target))
    slices = bundle.manifest["slices"]
    assert slices["count"] > 4 and slices["longest"] <= slices["limit"]
    assert limit or "part_params" in (bundle.path / "net.c").read_text()
    given = np.random.default_rng(3).integers(-128, 128, (3, *bundle.graph.values["x"].shape)).astype(np.int8)
    expected = [run_int(bundle.graph, {"x": x})["y"].reshape(-1) for x in given]
    np.testing.assert_array_equal(_run(bundle, target, given, tmp_path), expected)


def _run(bundle: Bundle, target: str, given: Array, folder: Path) -> Array:
    if target not in BOARDS:
        host = HostModel(bundle.path)
        return np.array([host.run_stored({"x": x})["y"].reshape(-1) for x in given])
    built = build_bundle(bundle, BOARDS[target], folder / "build")
    return qemu.run(built, bundle.manifest, given.reshape(len(given), -1).view(np.uint8)).outputs[0].view(np.int8)


@pytest.mark.qemu
def test_no_slice_is_longer_than_asked(tmp_path: Path) -> None:
    """Counted on the emulated core: cycles are at least instructions, and the estimate may be wrong by a tenth."""
    bundle = cut(image(), tmp_path, "cortex-m4", 40_000)
    built = build_bundle(bundle, BOARDS["cortex-m4"], tmp_path / "build")
    found = measured_slices(bundle, built, noise(bundle.manifest))
    assert len(found) == bundle.manifest["slices"]["count"] > 8
    assert max(one.instructions for one in found) <= 40_000
    assert max(one.cycles.point for one in found if one.cycles is not None) <= 44_000


MAIN = """#include <string.h>
#include "net.h"
#define MUST(condition) do { if (!(condition)) { return __LINE__; } } while (0)
static NET_ARENA(arena);
static NET_ARENA(other);
static void fill(void *to, int value) { memset(to, value, NET_INPUT_X_SIZE); }
int main(void) {
    memset(&arena, 0xFF, sizeof arena);
    MUST(net_step(&arena) == NET_ERROR_POSITION);
    MUST(net_step(NULL) == NET_ERROR_ARENA && net_reset(NULL) == NET_ERROR_ARENA);
    MUST(net_reset(&arena) == NET_OK && net_reset(&other) == NET_OK);
    for (int run = 0; run < RUNS; run++) {
        fill(NET_INPUT_X(&arena), 3 * run);
        for (int slice = 0; slice < NET_SLICE_COUNT - 1; slice++) {
            MUST(net_step(&arena) == NET_MORE);
        }
        LAST
        MUST(memcmp(NET_OUTPUT_Y(&arena), NET_OUTPUT_Y(&other), NET_OUTPUT_Y_SIZE) == 0);
        if (run % 2) {
            fill(NET_INPUT_X(&arena), 1);
            AGAIN
        }
    }
    return 0;
}
"""


def _exit_code(bundle: Bundle, runs: int, last: str, again: str, folder: Path) -> int:
    text = MAIN.replace("RUNS", str(runs)).replace("LAST", last).replace("AGAIN", again)
    (folder / "main.c").write_text(text)
    sources = [str(bundle.path / source) for source in bundle.manifest["sources"]]
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-Wconversion", "-I", str(bundle.path)]
    subprocess.run(["gcc", *flags, "main.c", *sources, "-o", "main"], cwd=folder, check=True)
    return subprocess.run([str(folder / "main")], check=False).returncode


@pytest.mark.cc
def test_what_step_returns(tmp_path: Path) -> None:
    """The outputs are those of NAME_run, again and again; a run that was begun is given up by NAME_reset and by NAME_run."""
    bundle = cut(image(), tmp_path, "generic", 20_000)
    last = """MUST(net_step(&arena) == NET_OK);
        fill(NET_INPUT_X(&other), 3 * run);
        MUST(net_run(&other) == NET_OK);"""
    again = "MUST(net_step(&arena) == NET_MORE && (run % 3 ? net_reset : net_run)(&arena) == NET_OK);"
    assert _exit_code(bundle, 6, last, again, tmp_path) == 0


@pytest.mark.cc
def test_a_stream_in_slices(tmp_path: Path) -> None:
    """Rows are written to the input; until the first window is full, the last slice says so. A push in between is a hop like others."""
    layers = [
        *conv("x", "a", "wa", pads=[1, 1]),
        *conv("a", "b", "wb"),
        node("GlobalAveragePool", "b", "p"),
        node("Flatten", "p", "y"),
    ]
    proto = model(layers, {"x": [1, 8, 12]}, {"wa": weights(16, 8, 3), "wb": weights(16, 16, 3, seed=2)})
    bundle = cut(proto, tmp_path, "generic", 3_000, stream=Streamed("x", 2, 3))
    assert bundle.manifest["slices"]["position"] + 4 <= bundle.manifest["arena"]["size"]
    last = """int8_t rows[NET_INPUT_X_SIZE];
        fill(rows, 3 * run);
        MUST(net_step(&arena) == (run < 3 ? NET_EARLY : NET_OK));
        MUST(net_push(&other, rows) == (run < 3 ? NET_MORE : NET_OK));"""
    again = "MUST(net_run(&arena) == NET_OK && net_run((fill(NET_INPUT_X(&other), 1), &other)) == NET_OK);"
    assert _exit_code(bundle, 8, last, again, tmp_path) == 0


def test_a_network_without_layers_has_no_slices(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="computes nothing that could be cut into slices"):
        cut(model([node("Flatten", "x", "y")], {"x": [1, 4, 2]}), tmp_path, "x86-64", 5_000)
