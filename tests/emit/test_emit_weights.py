"""Weights in flash, in RAM, in a file: the same bits; a file that is not that of the bundle is refused."""

from __future__ import annotations

import json
import re
import struct
import subprocess
import zlib
from pathlib import Path
from typing import Any

import checkout
import numpy as np
import onnx
import own_firmware
import pytest
from compiled_models import compiled as small_bundle
from compiled_models import level_here
from small_models import as_array, model, node, saved
from small_models import weights as weights_of

from glowembed.emit import weights as emit_weights
from glowembed.emit.constants import weights_bytes
from glowembed.emit.structure import structure_of
from glowembed.errors import UsageError
from glowembed.graph.plan import Places, PlanOptions, Weights
from glowembed.graph.registry import kernel
from glowembed.graph.target import load_board
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
    isa = None if weights.place == "file" else "portable"  # a file has to align what kernels of x86-64 read
    levels = () if isa else level_here()
    bundle = compiled(digits, tmp_path, "x86-64", weights, places=Places("caller"), isa=isa, levels=levels)
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


EXAMPLE = checkout.ROOT / "examples/over-the-air"
ON_A_BOARD = """#include "losses.h"
#include "semihost.h"
{files}
int main(void) {{ ge_semihost_exit((int)losses_tried(before, after)); }}
"""


def retrained(digits: Path, folder: Path, seed: int = 1) -> Path:
    """The network with other weights, and so with other ranges."""
    rng, proto = np.random.default_rng(seed), onnx.load(digits / "model.onnx")
    for tensor in proto.graph.initializer:
        array = onnx.numpy_helper.to_array(tensor)
        if array.dtype == np.float32 and array.size > 1:
            other = (array * rng.uniform(0.7, 1.3, array.shape)).astype(np.float32)
            tensor.CopyFrom(onnx.numpy_helper.from_array(other, tensor.name))
    onnx.save(proto, folder / "retrained.onnx")
    return folder / "retrained.onnx"


def both(digits: Path, folder: Path, target: str) -> tuple[Bundle, Bundle]:
    """The program, and a bundle of another name whose weights fit it."""
    program = compiled(digits, folder, target, PLACES[2])
    options = CompileOptions(target, name="other", weights=PLACES[2])
    path = retrained(digits, folder)
    return program, compile_model(path, folder / "other", options, digits / "data.npz", fits=program)


@pytest.mark.cc
def test_weights_of_a_retrained_network_survive_losses_of_power(digits: Path, tmp_path: Path) -> None:
    """The example of docs/guides/over-the-air.md: one program runs with both files, and gives the bits of both references."""
    bundles = both(digits, tmp_path, "generic")
    flags = "-std=c99 -O1 -Wall -Wextra -Wpedantic -Wconversion -Werror -fsanitize=address,undefined".split()
    sources = [*sorted(EXAMPLE.glob("*.c")), bundles[0].path / "net.c"]
    includes = ["-I", str(EXAMPLE), "-I", str(bundles[0].path)]
    subprocess.run(["cc", *flags, *includes, *sources, "-o", tmp_path / "device"], check=True)
    files = [bundle.path / "net.bin" for bundle in bundles]
    said = subprocess.run([tmp_path / "device", *files], capture_output=True, text=True, check=True).stdout
    losses, *lines = said.splitlines()
    erasures_and_writes = 1 + -(-files[0].stat().st_size // 256) + 1
    assert losses == f"the power failed {2 * erasures_and_writes} times: one set of weights was always whole"
    x = (37 * np.arange(64)).astype(np.uint8).view(np.int8)
    for line, bundle in zip(lines, bundles, strict=True):
        crc, numbers = line.removeprefix(f"{bundle.path / 'net.bin'} ").split(":")
        assert crc == bundle.manifest["weights"]["crc"]
        expected = run_int(bundle.graph, {"image": x.reshape(bundle.graph.values["image"].shape)})["logits"]
        assert [int(number) for number in numbers.split()] == expected.reshape(-1).tolist()


@pytest.mark.arm_gcc
@pytest.mark.qemu
def test_losses_of_power_on_an_emulated_board(digits: Path, tmp_path: Path) -> None:
    """On a Cortex-M4 the shift of a requantization is part of a kernel: the retrained network takes that of the program."""
    bundles = both(digits, tmp_path, "cortex-m4")
    files = "".join(
        f"static const uint8_t {name}[] NET_ALIGNED = {{{', '.join(map(str, (bundle.path / 'net.bin').read_bytes()))}}};\n"
        for name, bundle in zip(("before", "after"), bundles, strict=True)
    )
    sources = [EXAMPLE / "slots.c", EXAMPLE / "losses.c", bundles[0].path / "net.c"]
    board = load_board("mps2-an386")
    includes = [f"-I{EXAMPLE}", f"-I{bundles[0].path}"]
    elf = own_firmware.build(ON_A_BOARD.format(files=files), sources, tmp_path, board, includes)
    code, _ = own_firmware.run(elf, board.name)
    assert code == 2 * (1 + -(-bundles[0].manifest["weights"]["file_bytes"] // 256) + 1)


def test_a_network_that_does_not_fit_is_refused(digits: Path, tmp_path: Path) -> None:
    program, path = compiled(digits, tmp_path, "cortex-m4", PLACES[2]), digits / "model.onnx"
    cases = {
        "add that": CompileOptions("cortex-m4"),
        "its target is cortex-m4, here it is cortex-m0": CompileOptions("cortex-m0", weights=PLACES[2]),
        "it has 7 layers, here there are 9": CompileOptions("cortex-m4", weights=PLACES[2], float_io=True),
        "its layer '/stem/conv/Conv' calls ge_": CompileOptions(
            "cortex-m4", weights=PLACES[2], plan=PlanOptions("greedy", optimize="size")
        ),
    }
    for said, options in cases.items():
        with pytest.raises(UsageError, match=said):
            compile_model(path, tmp_path / "other", options, digits / "data.npz", fits=program)
    assert not (tmp_path / "other").exists()
    plain = compile_model(path, tmp_path / "plain", CompileOptions("generic"), digits / "data.npz")
    with pytest.raises(UsageError, match="are part of its program"):
        compile_model(
            path, tmp_path / "other", CompileOptions("generic", weights=PLACES[2]), digits / "data.npz", fits=plain
        )


def test_the_structure_is_that_of_the_program() -> None:
    """Names of the bundle and comments make no difference; every other word does."""
    text = "int net_run(void) { return w[0] + 1; } /* net */"
    same = structure_of([text], "net", {"w": "@16"})
    assert same == structure_of(["int kws_run( void ){ return v[0]+1; }"], "kws", {"v": "@16"})
    for other, words in ((text, {"w": "@20"}), (text.replace("1", "2"), {"w": "@16"}), (text, {})):
        assert structure_of([other], "net", words) != same


def test_the_manifest_and_the_file_agree(digits: Path, tmp_path: Path) -> None:
    bundle = compiled(digits, tmp_path, "cortex-m4", PLACES[2])
    content = (bundle.path / "net.bin").read_bytes()
    entry = json.loads((bundle.path / "bundle.json").read_text())["weights"]
    structure, crc, size = struct.unpack("<QII", content[: emit_weights.HEAD])
    assert (size, crc) == (len(content), zlib.crc32(content[12:]))
    place = {"place": "file", "file": "net.bin", "file_bytes": size}
    assert entry == {**place, "structure": f"{structure:016x}", "crc": f"{crc:08x}"}
    assert bundle.manifest["sources"] == ["net.c"]


CHECKED = """#include <stdio.h>
#include "net.h"
int main(void) { printf("%08x %d", (unsigned)net_weights_crc(), net_weights_crc() == NET_WEIGHTS_CRC); return 0; }
"""


@pytest.mark.cc
def test_the_crc_of_constants_in_the_program(digits: Path, tmp_path: Path) -> None:
    bundle = compiled(digits, tmp_path, "generic", PLACES[0])
    (tmp_path / "main.c").write_text(CHECKED)
    flags = "-std=c99 -Wall -Wextra -Wpedantic -Wconversion -Werror".split()
    sources = [tmp_path / "main.c", bundle.path / "net.c", bundle.path / "net_weights.c"]
    subprocess.run(["cc", *flags, "-I", bundle.path, *sources, "-o", tmp_path / "program"], check=True)
    said = subprocess.run([tmp_path / "program"], capture_output=True, text=True, check=True).stdout
    assert said == f"{bundle.manifest['weights']['crc']} 1"


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
@pytest.mark.parametrize("weights", PLACES[:2], ids=str)
def test_equal_constants_are_stored_once(weights: Weights, tmp_path: Path) -> None:
    """Two layers with the same weights share every array that is equal, and compute with it; in a file each has its own."""
    nodes = [node("Conv", "x w b", "u"), node("Conv", "u w b", "v"), node("Conv", "v w2", "y")]
    constants = {"w": weights_of(4, 4, 1, 1), "b": as_array([0.1] * 4), "w2": weights_of(4, 4, 1, 1, seed=2)}
    path = saved(model(nodes, {"x": (1, 4, 5, 5)}, constants), tmp_path, "net.onnx")
    samples = {"x": np.random.default_rng(3).normal(size=(8, 4, 5, 5)).astype(np.float32)}
    options = CompileOptions("x86-64", name="net", weights=weights, levels=level_here())
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


@pytest.mark.cc
@pytest.mark.parametrize("options", [{"target": "generic"}, {"target": "x86-64", "isa": "portable"}])
def test_arrays_are_aligned_as_compilers_for_x86_take_for_granted(options: dict[str, Any], tmp_path: Path) -> None:
    """clang -O3 loads 16 aligned bytes of an array that another file defines. The first array here has 24."""
    proto = model([node("Gemm", "x w", "y", transB=1)], {"x": [1, 6]}, {"w": weights_of(4, 6)})
    bundle = small_bundle(proto, tmp_path, **options)
    names = re.findall(r"extern .* (\w+)\[", (bundle.path / "net_weights.h").read_text())
    assert len(names) >= 3
    places = ", ".join(f"(uintptr_t){name}" for name in names)
    (tmp_path / "main.c").write_text(f"""#include "net_weights.h"
int main(void) {{
    const uintptr_t places[] = {{{places}}};
    uintptr_t all = 0;
    for (unsigned i = 0; i < sizeof places / sizeof places[0]; i++) all |= places[i];
    return (int)(all & 15);
}}
""")
    program = tmp_path / "program"
    subprocess.run(
        ["cc", f"-I{bundle.path}", tmp_path / "main.c", bundle.path / "net_weights.c", "-o", program], check=True
    )
    assert subprocess.run([program], check=False).returncode == 0
