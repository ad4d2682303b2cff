"""Weights in flash, in RAM, in a file: the same bits; a file that is not that of the bundle is refused."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
from small_models import as_array, model, node, saved
from small_models import weights as weights_of

from glowembed.emit import weights as emit_weights
from glowembed.emit.constants import weights_bytes
from glowembed.errors import UsageError
from glowembed.graph.plan import Places, PlanOptions, Weights
from glowembed.graph.registry import kernel
from glowembed.judge.validation import validate
from glowembed.lower import footprint
from glowembed.options.table import weights_place
from glowembed.pipeline import Bundle, CompileOptions, compile_model
from glowembed.reference import run_int
from glowembed.run.host import HostModel

PLACES = [Weights(), Weights("ram"), Weights("file", "net.bin")]


def compiled(digits: Path, folder: Path, target: str, weights: Weights, **more: object) -> Bundle:
    options = CompileOptions(target, name="net", weights=weights, **more)  # type: ignore[arg-type]
    return compile_model(digits / "model.onnx", folder / "net", options, digits / "data.npz")


@pytest.mark.cc
@pytest.mark.parametrize("weights", PLACES, ids=str)
def test_the_same_bits_on_the_host(weights: Weights, digits: Path, tmp_path: Path) -> None:
    bundle = compiled(digits, tmp_path, "x86-64", weights, places=Places("caller"))
    x = np.random.default_rng(0).integers(-128, 128, bundle.graph.values["image"].shape).astype(np.int8)
    found, expected = HostModel(bundle.path).run_stored({"image": x}), run_int(bundle.graph, {"image": x})
    np.testing.assert_array_equal(found["logits"], expected["logits"])
    assert (bundle.path / "net_weights.c").exists() == (weights.place != "file")


@pytest.mark.arm_gcc
@pytest.mark.qemu
@pytest.mark.parametrize("weights", PLACES[1:], ids=str)
def test_the_same_bits_on_an_emulated_board(weights: Weights, digits: Path, tmp_path: Path) -> None:
    """Weights in RAM are where the linker puts variables; layers are checked in a second build with the same weights."""
    bundle = compiled(digits, tmp_path, "cortex-m4", weights)
    result = validate(bundle, digits / "data.npz", "mps2-an386", 3, layers=True)
    assert result.bit_exact
    assert result.json["memory"]["weights"] >= bundle.manifest["weights_bytes"]


MAIN = """#include <stdio.h>
#include <string.h>
#include "net.h"
static NET_ARENA(arena);
static struct { uint8_t bytes[NET_WEIGHTS_SIZE + 8]; } memory __attribute__((aligned(64)));
static int32_t tried(const void *weights) {
    const net_places places = { weights };
    return net_run(&arena, &places);
}
int main(int count, char **words) {
    FILE *file = fopen(words[1], "rb");
    if (count != 2 || file == NULL || fread(memory.bytes, 1, NET_WEIGHTS_SIZE, file) != NET_WEIGHTS_SIZE) { return 1; }
    fclose(file);
    printf("%d %d ", tried(memory.bytes), net_check_weights(memory.bytes));
    printf("%d %d %d ", tried(NULL), tried(memory.bytes + 4), net_check_weights(NULL));
    memory.bytes[NET_WEIGHTS_SIZE - 1] ^= 1;
    printf("%d ", net_check_weights(memory.bytes));
    memory.bytes[0] ^= 1;
    printf("%d %d", tried(memory.bytes), net_check_weights(memory.bytes));
    return 0;
}
"""


@pytest.mark.cc
def test_a_file_is_checked_by_its_hash(digits: Path, tmp_path: Path) -> None:
    bundle = compiled(digits, tmp_path, "x86-64", PLACES[2])
    (tmp_path / "main.c").write_text(MAIN)
    flags = "-std=c99 -Wall -Wextra -Wpedantic -Wconversion -Werror -fsanitize=address,undefined".split()
    command = ["cc", *flags, "-I", str(bundle.path), str(tmp_path / "main.c"), str(bundle.path / "net.c")]
    subprocess.run([*command, "-o", str(tmp_path / "program")], check=True)
    said = subprocess.run([tmp_path / "program", bundle.path / "net.bin"], capture_output=True, text=True, check=True)
    assert said.stdout.split() == "0 0 -4 -4 -4 -4 -4 -4".split()


def test_the_manifest_and_the_file_agree(digits: Path, tmp_path: Path) -> None:
    bundle = compiled(digits, tmp_path, "cortex-m4", PLACES[2])
    content = (bundle.path / "net.bin").read_bytes()
    entry = json.loads((bundle.path / "bundle.json").read_text())["weights"]
    digest = emit_weights.fnv1a(content[emit_weights.HEAD :])
    assert entry == {"place": "file", "file": "net.bin", "file_bytes": len(content), "hash": f"{digest:016x}"}
    assert content[:8] == digest.to_bytes(8, "little")
    assert bundle.manifest["sources"] == ["net.c"]


def test_fnv_has_its_published_values() -> None:
    assert emit_weights.fnv1a(b"") == 0xCBF29CE484222325
    assert emit_weights.fnv1a(b"foobar") == 0x85944171F73967E8


def test_weights_in_ram_count(digits: Path, tmp_path: Path) -> None:
    """The error says how many bytes are weights; within the limit, the arena gets what is left."""
    with pytest.raises(UsageError, match=r"needs at least \d+ bytes of RAM \(8\d\d\d of them for weights"):
        compiled(digits, tmp_path, "cortex-m4", PLACES[1], plan=PlanOptions("greedy", ram=9000))
    bundle = compiled(digits, tmp_path, "cortex-m4", PLACES[1], plan=PlanOptions("greedy", ram=11_000))
    assert bundle.manifest["arena"]["size"] + bundle.manifest["weights_bytes"] <= 11_000


@pytest.mark.parametrize(
    "text", ["rom", "ram:x", "file", "file:", "file:a/b.bin", "file:net.c", "file:.bin", "file:noending"]
)
def test_other_words_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="expected flash, ram or file:NAME"):
        weights_place(text)


def test_the_words() -> None:
    assert [weights_place(str(weights)) for weights in PLACES] == PLACES


@pytest.mark.cc
@pytest.mark.parametrize("weights", PLACES, ids=str)
def test_equal_constants_are_stored_once(weights: Weights, tmp_path: Path) -> None:
    """Two layers with the same weights share every array that is equal, and compute with it."""
    nodes = [node("Conv", "x w b", "u"), node("Conv", "u w b", "v"), node("Conv", "v w2", "y")]
    constants = {"w": weights_of(4, 4, 1, 1), "b": as_array([0.1] * 4), "w2": weights_of(4, 4, 1, 1, seed=2)}
    path = saved(model(nodes, {"x": (1, 4, 5, 5)}, constants), tmp_path, "net.onnx")
    samples = {"x": np.random.default_rng(3).normal(size=(8, 4, 5, 5)).astype(np.float32)}
    options = CompileOptions("x86-64", name="net", weights=weights)
    np.savez(tmp_path / "data.npz", **samples)
    bundle = compile_model(path, tmp_path / "net", options, tmp_path / "data.npz")
    first, second, third = (layer for layer in bundle.manifest["layers"] if layer["constants"])
    assert set(first["constants"]) & set(second["constants"])
    both = set(first["constants"]) & set(third["constants"])
    assert all(name.endswith(("_pairs", "_records")) for name in both), "of products of bytes, which neither layer has"
    graph = bundle.graph
    each = sum(footprint.constants(n, kernel(n.kernel or "")) for n in graph.nodes if n.kernel)
    assert bundle.manifest["weights_bytes"] == weights_bytes(graph) < each
    x = np.random.default_rng(0).integers(-128, 128, graph.values["x"].shape).astype(np.int8)
    found, expected = HostModel(bundle.path).run_stored({"x": x}), run_int(graph, {"x": x})
    np.testing.assert_array_equal(found["y"], expected["y"])
