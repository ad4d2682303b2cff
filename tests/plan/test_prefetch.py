"""Weights that are copied ahead into a window: the bits of the reference, the copies in order, errors and notes that name the layer."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from compiled_models import compiled
from emulated import BOARDS
from small_models import model, node, weights

from glowembed.errors import UsageError
from glowembed.graph.external import External
from glowembed.graph.ir import Array
from glowembed.graph.plan import PlanOptions, Ram
from glowembed.graph.plan import Weights as Place
from glowembed.graph.target import load_board
from glowembed.judge.fitting import with_memory_of
from glowembed.judge.validation import build_bundle
from glowembed.measure import noise
from glowembed.measure.measurement import measure
from glowembed.options.words import named_rams
from glowembed.pipeline import Bundle, CompileOptions
from glowembed.plan.prefetch import _Fetch, _free, _Piece
from glowembed.reference import run_int
from glowembed.run import qemu

DMA = External(20_000_000, dma=True)
CLOCK = 120_000_000


def conv(x: str, y: str, weight: str, **attrs: object) -> list[object]:
    return [node("Conv", f"{x} {weight}", f"{y}_", **attrs), node("Relu", f"{y}_", y)]


def network() -> object:
    """Layers that stream, layers whose weights are copied in bands, a depthwise one, a fully connected one in the end."""
    same = {"pads": [1, 1, 1, 1]}
    nodes = [
        *conv("x", "a", "wa", **same),
        *conv("a", "b", "wb", group=16, **same),
        *conv("b", "c", "wc"),
        *conv("c", "d", "wd", strides=[2, 2], **same),
        node("Flatten", "d", "e"),
        node("MatMul", "e we", "y"),
    ]
    constants = {
        "wa": weights(16, 8, 3, 3),
        "wb": weights(16, 1, 3, 3, seed=2),
        "wc": weights(48, 16, 1, 1, seed=3),
        "wd": weights(24, 48, 3, 3, seed=4),
        "we": weights(24 * 6 * 5, 16, seed=5),
    }
    return model(nodes, {"x": [1, 8, 12, 10]}, constants)


def fetched(folder: Path, target: str, window: int, memory: External = DMA, **options: object) -> Bundle:
    plan = PlanOptions(prefetch=window, rams=(Ram("qspi", 1 << 23, memory),), mode="greedy")
    return compiled(network(), folder, target, plan=plan, clock=CLOCK, **options)


MAIN = """#include <stdio.h>
#include <string.h>
#include "net.h"
static NET_ARENA(arena);
static uint8_t *to_; static const uint8_t *from_; static size_t bytes_; static int running;
void net_prefetch(void *to, const void *from, size_t bytes) {
    if (running) { printf("begun while another copy runs\\n"); }
    printf("copy %ld %lu\\n", (long)((uint8_t *)to - (uint8_t *)&arena - NET_WINDOW_OFFSET), (unsigned long)bytes);
    memset(to, 0xA5, bytes); /* what is being copied must not be in use */
    to_ = to; from_ = from; bytes_ = bytes; running = 1;
}
void net_prefetched(void) {
    if (!running) { printf("waits for nothing\\n"); }
    memcpy(to_, from_, bytes_);
    running = 0;
}
int main(void) {
    for (int i = 0; i < NET_INPUT_X_SIZE; i++) { NET_INPUT_X(&arena)[i] = (int8_t)(i * 7 % 251 - 125); }
    if (net_run(&arena) != NET_OK || running) { return 1; }
    for (int i = 0; i < NET_OUTPUT_Y_SIZE; i++) { printf("%d ", NET_OUTPUT_Y(&arena)[i]); }
    return net_run(NULL) == NET_ERROR_ARENA ? 0 : 2;
}
"""
SAN = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g")


def own_dma(bundle: Bundle, folder: Path) -> list[str]:
    """What a program with a DMA of its own prints, whose bytes arrive at the last moment."""
    (folder / "main.c").write_text(MAIN)
    sources = [str(bundle.path / source) for source in bundle.manifest["sources"]]
    flags = [
        "-std=c99",
        "-O1",
        "-Wall",
        "-Wextra",
        "-Wpedantic",
        "-Werror",
        "-Wconversion",
        "-DNET_DMA",
        "-I",
        str(bundle.path),
    ]
    subprocess.run(["gcc", *flags, *SAN, "main.c", *sources, "-o", "main"], cwd=folder, check=True)
    return subprocess.run([str(folder / "main")], check=True, capture_output=True, text=True).stdout.splitlines()


def given() -> Array:
    return ((np.arange(12 * 10 * 8) * 7 % 251) - 125).astype(np.int8).reshape(1, 12, 10, 8)


@pytest.mark.cc
@pytest.mark.parametrize("window", [80_000, 12_000])
def test_copies_arrive_before_they_are_used(window: int, tmp_path: Path) -> None:
    """With a DMA that completes a copy only when it is waited for. Copies begin one at a time, lie within the window, and are as many as
    the manifest says.
    """
    bundle = fetched(tmp_path, "generic", window)
    *copies, last = own_dma(bundle, tmp_path)
    found = [re.fullmatch(r"copy (\d+) (\d+)", line) for line in copies]
    spans = [(int(m[1]), int(m[2])) for m in found if m is not None]
    said = bundle.manifest["prefetch"]
    assert None not in found and len(spans) == said["transfers"] and sum(size for _, size in spans) == said["moved"]
    assert all(at % 16 == 0 and at + size <= window for at, size in spans)
    expected = run_int(bundle.graph, {"x": given()})["y"].reshape(-1)
    np.testing.assert_array_equal(np.array(last.split(), int), expected)


def test_a_copy_begins_where_its_place_is_free() -> None:
    """Another block is in use in the first half of the place until call 2; only DMA may copy the other half before that."""
    waiting, piece = _Fetch((1, 0), 3, ((0, 1024, 2),)), _Piece("weights", 0, 1024, 0, 2048)
    late, early = replace(piece, count=512, bytes=1024), replace(piece, first=512, count=512, to=1024, bytes=1024)
    assert _free(waiting, piece, 0, 1, dma=True) == (early, late)
    assert _free(waiting, late, 0, 1, dma=True) == _free(waiting, piece, 0, 1, dma=False) == ()
    assert _free(waiting, piece, 0, 2, dma=True) == (piece,)


def test_the_schedule_hides_the_copies_and_says_what_it_takes(tmp_path: Path) -> None:
    bundle = fetched(tmp_path, "cortex-m4", 80_000)
    said, cycles = bundle.manifest["prefetch"], bundle.manifest["prefetch"]["cycles"]
    assert said["moved"] == bundle.manifest["weights_bytes"] and not said["in_place"]  # everything fits: each byte once
    assert cycles["fast"] <= cycles["overlapped"] < cycles["copied"] < cycles["slow"]
    assert cycles["copied"] >= cycles["fast"] + said["moved"] * CLOCK // DMA.bandwidth
    assert "prefetch" in {note.code for note in bundle.notes}


FIRMWARE: list[tuple[str, int, dict[str, Any]]] = [
    ("cortex-m0", 6_000, {}),
    ("cortex-m4", 6_000, {}),
    ("cortex-m4", 600, {"schema": "symmetric"}),  # outputs are clamped
    ("cortex-m4", 1_200, {"requantization": "glow"}),
    ("cortex-m55", 9_000, {}),
]


PARTS = {
    ("cortex-m0", 6_000): 0,
    ("cortex-m4", 6_000): 1,
    ("cortex-m4", 600): 3,
    ("cortex-m4", 1_200): 2,
    ("cortex-m55", 9_000): 1,
}
"""How many kernels compute bands of channels. On Cortex-M0, only fully connected layers are cut, and there is none that can be."""


@pytest.mark.qemu
@pytest.mark.parametrize(("target", "window", "options"), FIRMWARE)
def test_firmware_gives_the_bits_of_the_reference(
    target: str, window: int, options: dict[str, Any], tmp_path: Path
) -> None:
    """On cortex-m4, small windows make kernels compute bands of channels: 1x1, 3x3 and depthwise."""
    bundle = fetched(tmp_path, target, window, **options)
    kernels = {layer["kernel"] for layer in bundle.manifest["layers"]}
    banded = {kernel for kernel in kernels if "part" in kernel}
    assert len(banded) == PARTS[target, window]
    built = build_bundle(bundle, BOARDS[target], tmp_path / "build")
    found = qemu.run(built, bundle.manifest, given().reshape(1, -1).view(np.uint8)).outputs[0].view(np.int8)
    np.testing.assert_array_equal(found, run_int(bundle.graph, {"x": given()})["y"].reshape(1, -1))


def test_layers_without_room_are_named(tmp_path: Path) -> None:
    bundle = fetched(tmp_path, "cortex-m0", 2_000)
    kept = bundle.manifest["prefetch"]["in_place"]
    assert kept and "n_d_" in kept
    notes = {note.code: note.text for note in bundle.notes}
    assert "'n_d_'" in notes["weights-in-place"]


BAD = [
    ({"prefetch": 16}, {}, r"no room for the weights of any layer; the smallest piece, of '\w+', has \d+ bytes"),
    ({"slice": 10_000}, {}, "--slice exclude each other"),
    ({"rams": ()}, {}, "the memory that holds the weights is not known"),
    ({"rams": (Ram("dtcm", 4096),)}, {}, "the memory that holds the weights is not known"),
    ({}, {"clock": None}, "the clock of the core is not known"),
    ({}, {"weights": Place("ram")}, "with --weights ram, they are in RAM already"),
    ({}, {"weights": Place("file", "net.bin")}, "with --weights file:net.bin, their address is known only at run time"),
]


@pytest.mark.parametrize(("plan", "options", "message"), BAD)
def test_options_that_exclude_each_other(
    plan: dict[str, Any], options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    made = PlanOptions(**{"prefetch": 4096, "rams": (Ram("qspi", 1 << 23, DMA),), "mode": "greedy", **plan})
    with pytest.raises(UsageError, match=message):
        compiled(network(), tmp_path, "cortex-m4", **{"clock": CLOCK, **options}, plan=made)


WORDS = [
    ("qspi=8M:20MB/s:dma", External(20_000_000, dma=True)),
    ("qspi=8M:0.5kB/s:wait=6:burst=16:cache=16K", External(500, 6, 16, 16384)),
]


@pytest.mark.parametrize(("text", "external"), WORDS)
def test_a_slow_memory_in_words(text: str, external: External) -> None:
    (ram,) = named_rams([text])
    assert ram == Ram("qspi", 8 << 20, external)
    assert named_rams([f"qspi={ram}"]) == (ram,)  # as it is recorded


BAD_WORDS = [
    (["qspi=8M:fast"], "'fast' is not known; expected a bandwidth such as 20MB/s"),
    (["qspi=8M:dma"], "needs its bandwidth"),
    (["qspi=8M:0MB/s"], "needs its bandwidth"),
    (["qspi=8M:20MB/s:30MB/s"], "'30MB/s' gives bandwidth a second time"),
    (["qspi=8M:20MB/s:cache=x"], "expected a number of bytes"),
    (["qspi=8M:20MB/s:wait=-1"], "'wait=-1' is not known"),
    (["a=1M:1MB/s", "b=1M:1MB/s"], "one slow memory, found a, b"),
]


@pytest.mark.parametrize(("texts", "message"), BAD_WORDS)
def test_words_that_describe_no_memory(texts: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        named_rams(texts)


QSPI = "./examples/qspi"
"""A board whose weights lie in a memory that `measure` counts the loads from."""


@pytest.mark.qemu
@pytest.mark.cc
def test_only_copies_read_slow_memory(tmp_path: Path) -> None:
    """Counted on the emulated core: the bytes that the schedule says, all by memcpy; without a window, each weight several times. Cycles
    that the core waits are part of the cycles, and close to the estimate.
    """
    (tmp_path / "plain").mkdir()
    copied, plain = fetched(tmp_path, "cortex-m4", 6_000), compiled(network(), tmp_path / "plain", "cortex-m4")
    with_window, without = (
        measure(build_bundle(b, QSPI, tmp_path / f"build{i}"), b.manifest, noise(b.manifest), clock_hz=CLOCK)
        for i, b in enumerate((copied, plain))
    )
    said = copied.manifest["prefetch"]
    assert with_window.slow is not None and without.slow is not None
    assert with_window.slow.functions == (("memcpy", said["moved"]),)
    assert with_window.slow.cycles == said["moved"] * CLOCK / DMA.bandwidth
    assert without.slow.bytes > 10 * plain.manifest["weights_bytes"] and "memcpy" not in dict(without.slow.functions)
    assert with_window.total.cycles is not None and without.total.cycles is not None
    assert with_window.total.cycles.point < 0.5 * without.total.cycles.point
    assert with_window.total.cycles.point == pytest.approx(said["cycles"]["copied"], rel=0.2)


def test_the_board_describes_the_slow_memory(tmp_path: Path) -> None:
    board, options = load_board(QSPI), CompileOptions("cortex-m4", plan=PlanOptions(prefetch=4096))
    filled = with_memory_of(board, options)
    filled.check_prefetch()
    assert filled.source() == (DMA, board.clock_hz)
    own = replace(options, clock=CLOCK, plan=replace(options.plan, rams=(Ram("other", 4096, External(1_000)),)))
    assert with_memory_of(board, own) == own
    with pytest.raises(UsageError, match="the memory that holds the weights is not known"):
        with_memory_of(load_board("mps2-an386"), options).check_prefetch()


BAD_KEYS = [
    ("bandwidth = 20_000_000", "", r"memories\[3\].dma describes a slow memory: give its bandwidth"),
    ("20_000_000", "0", r"memories\[3\].bandwidth is 0"),
    ("dma = true", "burst = 0", r"memories\[3\].burst is 0"),
    ("dma = true", "cache = -1", r"memories\[3\].cache is -1"),
    ("dma = true", "dma = 1", r"memories\[3\].dma is 1; expected a value of type bool"),
]


@pytest.mark.parametrize(("old", "new", "message"), BAD_KEYS)
def test_a_board_with_a_wrong_key(old: str, new: str, message: str, tmp_path: Path) -> None:
    text = (Path(QSPI) / "board.toml").read_text().replace(old, new).replace('"../../boards', f'"{Path.cwd()}/boards')
    folder = tmp_path / "qspi"
    folder.mkdir()
    (folder / "board.toml").write_text(text)
    (folder / "link.ld").write_text("")
    with pytest.raises(UsageError, match=message):
        load_board(str(folder))


@pytest.mark.parametrize(("bandwidth", "bound"), [("5MB/s", True), ("5000MB/s", False)])
def test_a_network_that_is_bound_by_its_weights_says_so(bandwidth: str, bound: bool, tmp_path: Path) -> None:
    plan = PlanOptions(prefetch=9_000, rams=named_rams([f"qspi=8M:{bandwidth}:dma"]), mode="greedy")
    proto = model([node("MatMul", "x w", "y")], {"x": [1, 64]}, {"w": weights(64, 100)})
    bundle = compiled(proto, tmp_path, "cortex-m4", plan=plan, clock=CLOCK)
    assert ("weights-bound" in {note.code for note in bundle.notes}) == bound
