"""Several networks in one program share one arena: each gives the bits that it gives alone, on an emulated board."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import own_firmware
import pytest
from small_models import model, node, saved, weights

from glowembed.errors import UsageError
from glowembed.graph.ir import Array
from glowembed.graph.plan import Places, Weights
from glowembed.graph.target import load_board
from glowembed.image.combine import combine
from glowembed.pipeline import Bundle, CompileOptions, compile_model
from glowembed.reference import run_int

BOARD = "mps2-an386"


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory, root: Path) -> list[Bundle]:
    """The included example, and a convolution with its input handed over by rows."""
    folder, digits = tmp_path_factory.mktemp("combine"), root / "examples" / "digits"
    first = compile_model(
        digits / "model.onnx", folder / "first", CompileOptions("cortex-m4", name="digits"), digits / "data.npz"
    )
    proto = model([node("Conv", "x w", "y", pads=[1, 1, 1, 1])], {"x": [1, 4, 16, 16]}, {"w": weights(6, 4, 3, 3)})
    np.save(folder / "x.npy", np.random.default_rng(0).normal(size=(4, 4, 16, 16)).astype(np.float32))
    options = CompileOptions("cortex-m4", name="conv", input_layout="nhwc", places=Places(input="rows"))
    return [first, compile_model(saved(proto, folder), folder / "second", options, folder / "x.npy")]


MAIN = """#include <string.h>
#include "both.h"
#include "semihost.h"
static BOTH_ARENA(arena);
static const int8_t digits_expected[] = {%s};
static const int8_t conv_expected[] = {%s};
static void row(void *context, int32_t y, void *data) {
    (void)context;
    memset(data, 3 * y - 20, CONV_INPUT_X_ROW_SIZE);
}
int main(void) {
    const conv_places places = {{row, NULL}};
    for (int32_t i = 0; i < 3; i++) {
        memset(&arena, 0x5A + i, sizeof arena);
        memset(DIGITS_INPUT_IMAGE(&arena), 9, DIGITS_INPUT_IMAGE_SIZE);
        if (digits_run(&arena) != DIGITS_OK) { ge_semihost_exit(1); }
        if (memcmp(DIGITS_OUTPUT_LOGITS(&arena), digits_expected, sizeof digits_expected) != 0) { ge_semihost_exit(2); }
        if (conv_run(&arena, &places) != CONV_OK) { ge_semihost_exit(3); }
        if (memcmp(CONV_OUTPUT_Y(&arena), conv_expected, sizeof conv_expected) != 0) { ge_semihost_exit(4); }
    }
    ge_semihost_say("both are right");
    ge_semihost_exit(0);
}
"""


def expected(bundle: Bundle, stored: Array) -> str:
    graph = bundle.graph
    return ", ".join(map(str, run_int(graph, {graph.inputs[0]: stored})[graph.outputs[0]].reshape(-1).tolist()))


@pytest.mark.arm_gcc
@pytest.mark.qemu
def test_two_networks_on_an_emulated_board(bundles: list[Bundle], tmp_path: Path) -> None:
    manifest = combine([b.path for b in bundles], tmp_path / "both", "both")
    sizes = [b.manifest["arena"]["size"] for b in bundles]
    assert manifest["arena"]["size"] == max(sizes) < sum(sizes)
    digits = bundles[0].graph.values["image"]
    rows = np.arange(16, dtype=np.int8).reshape(1, 16, 1, 1) * np.int8(3) - np.int8(20)
    main = MAIN % (
        expected(bundles[0], np.full(digits.shape, 9, np.int8)),
        expected(bundles[1], np.broadcast_to(rows, (1, 16, 16, 4))),
    )
    sources = [tmp_path / "both" / source for source in manifest["sources"]]
    elf = own_firmware.build(main, sources, tmp_path, load_board(BOARD))
    assert own_firmware.run(elf, BOARD) == (0, "both are right")


def test_the_folder_is_complete_and_the_same_every_time(bundles: list[Bundle], tmp_path: Path) -> None:
    found = []
    for _ in range(2):
        combine([b.path for b in bundles], tmp_path / "both", "both")
        found.append({p.name: p.read_bytes() for p in (tmp_path / "both").iterdir()})
    assert found[0] == found[1]
    assert set(found[0]) == {
        *("both.h", "both.mk", "CMakeLists.txt", "combined.json"),
        *(f"{name}{end}" for name in ("digits", "conv") for end in (".h", ".c", "_kernels.h", "_weights.h", "_weights.c", "_glow.h")),
    }  # fmt: skip


@pytest.mark.arm_gcc
def test_the_build_files_name_all_sources(bundles: list[Bundle], tmp_path: Path) -> None:
    if shutil.which("make") is None:
        pytest.skip("no make")
    combine([b.path for b in bundles], tmp_path / "both", "both")
    (tmp_path / "Makefile").write_text(
        "include both/both.mk\nall:\n\tarm-none-eabi-gcc -mcpu=cortex-m4 -mfloat-abi=hard -mfpu=fpv4-sp-d16 -mthumb -std=c99 -r -nostdlib $(BOTH_INCLUDES) $(BOTH_SOURCES) -o all.o\n"
    )
    subprocess.run(["make", "-s"], cwd=tmp_path, check=True)
    assert " UNITY_BUILD OFF" in (tmp_path / "both/CMakeLists.txt").read_text()  # both have the same static functions


def test_what_cannot_be_combined_is_refused(bundles: list[Bundle], digits: Path, tmp_path: Path) -> None:
    first, second = (b.path for b in bundles)
    with pytest.raises(UsageError, match="two or more bundles"):
        combine([first], tmp_path / "both")
    with pytest.raises(UsageError, match="two of these are named 'digits'"):
        combine([first, second], tmp_path / "both", "digits")
    other = compile_model(
        digits / "model.onnx", tmp_path / "other", CompileOptions("cortex-m7", name="other"), digits / "data.npz"
    )
    with pytest.raises(UsageError, match="different targets: cortex-m4, cortex-m7"):
        combine([first, other.path], tmp_path / "both")
    with pytest.raises(UsageError, match="holds no combined bundles"):
        combine([first, second], first)


def test_weights_files_go_along(digits: Path, tmp_path: Path) -> None:
    made = []
    for name, file in (("a", "a.bin"), ("b", "b.bin"), ("c", "a.bin")):
        options = CompileOptions("cortex-m4", name=name, weights=Weights("file", file))
        made.append(compile_model(digits / "model.onnx", tmp_path / name, options, digits / "data.npz").path)
    combine(made[:2], tmp_path / "both")
    assert (tmp_path / "both" / "b.bin").read_bytes() == (made[1] / "b.bin").read_bytes()
    assert json.loads((tmp_path / "both" / "combined.json").read_text())["sources"] == ["a.c", "b.c"]
    with pytest.raises(UsageError, match="weights files of the same name"):
        combine([made[0], made[2]], tmp_path / "both")
