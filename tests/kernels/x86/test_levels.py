"""Levels of x86-64: permission by CPU and operating system, the choice at run time, products of bytes, float
requantization.
"""

from __future__ import annotations

import ctypes
import itertools
import random
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import random_nodes
from kernel_checker import check_kernels
from small_models import model, node, saved, weights

from glowembed import pipeline
from glowembed.emit.csource import level_names, level_source
from glowembed.errors import UsageError
from glowembed.graph.ir import Array
from glowembed.graph.isa import Level
from glowembed.judge import validation
from glowembed.kernels import x86
from glowembed.kernels.x86 import conv2d, laws
from glowembed.kernels.x86.levels import LEVELS
from glowembed.law import fixedpoint
from glowembed.law.modes import MODES, Mode
from glowembed.ops.conv import Conv2dParams
from glowembed.pipeline import CompileOptions
from glowembed.ranges.datasets import Dataset
from glowembed.reference import run_int
from glowembed.run import host
from glowembed.run.kernel import shared_library, variants

pytestmark = pytest.mark.cc

WORDS = tuple(level.word for level in LEVELS)

CONV2D = conv2d("default")

ALLOWED = """#include "ge_x86.h"
uint32_t allowed(const ge_x86_features *f);
int32_t best(uint32_t allowed, int32_t most);
uint32_t allowed(const ge_x86_features *f) { return ge_x86_allowed(f); }
int32_t best(uint32_t allowed, int32_t most) { return ge_x86_best(allowed, most); }
"""

# (word of ge_x86_features, bit): leaf 1 ecx, leaf 7 ebx, leaf 7 ecx, leaf 7.1 eax, XCR0
BITS = {
    "ssse3": (0, 9), "sse4_1": (0, 19), "fma": (0, 12), "osxsave": (0, 27), "avx": (0, 28), "avx2": (1, 5),
    "avx512f": (1, 16), "avx512bw": (1, 30), "avx512vl": (1, 31), "avx512_vnni": (2, 11), "avx_vnni": (3, 4),
    "xmm state": (4, 1), "ymm state": (4, 2), "mask state": (4, 5), "zmm low state": (4, 6), "zmm high state": (4, 7),
}  # fmt: skip

YMM = {"ssse3", "sse4_1", "fma", "osxsave", "avx", "avx2", "xmm state", "ymm state"}
ZMM = YMM | {"avx512f", "avx512bw", "avx512vl", "avx512_vnni", "mask state", "zmm low state", "zmm high state"}
NEEDS = {
    "portable": set(),
    "sse41": {"ssse3", "sse4_1"},
    "avx2": YMM,
    "avxvnni": YMM | {"avx_vnni"},
    "avx512vnni": ZMM,
}


def test_every_subset_of_features_allows_the_levels_that_need_no_more() -> None:
    library = shared_library(ALLOWED)
    for present in itertools.product((False, True), repeat=len(BITS)):
        names = {name for name, there in zip(BITS, present, strict=True) if there}
        words = (ctypes.c_uint32 * 5)()
        for name in names:
            words[BITS[name][0]] |= 1 << BITS[name][1]
        expected = sum(1 << i for i, word in enumerate(WORDS) if NEEDS[word] <= names)
        assert library.allowed(words) == expected, names


@pytest.mark.parametrize(
    ("allowed", "most", "best"),
    [
        (0b11111, 4, 4),
        (0b11111, 2, 2),
        (0b00111, 4, 2),
        (0b10111, 3, 2),
        (0b00001, 4, 0),
        (0b11111, -1, 0),
        (0b00011, 9, 1),
    ],
)
def test_the_best_allowed_level_is_used_up_to_the_one_asked_for(allowed: int, most: int, best: int) -> None:
    assert shared_library(ALLOWED).best(allowed, most) == best


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> pipeline.Bundle:
    folder = tmp_path_factory.mktemp("levels")
    net = model(
        [node("Conv", "x w b", "c", pads=[1, 1, 1, 1]), node("Relu", "c", "r"), node("Conv", "r v d", "y")],
        {"x": [1, 3, 9, 7]},
        {
            "w": weights(20, 3, 3, 3),
            "b": weights(20, seed=2),
            "v": weights(70, 20, 1, 1, seed=3),
            "d": weights(70, seed=4),
        },
    )
    x = np.random.default_rng(5).uniform(-1, 2, (8, 3, 9, 7)).astype(np.float32)
    data = Dataset({"x": x}, shapes={"x": (1, 3, 9, 7)})
    return pipeline.compile_model(saved(net, folder), folder / "bundle", CompileOptions("x86-64", name="net"), data)


@pytest.fixture(scope="module")
def net(bundle: pipeline.Bundle) -> host.HostModel:
    return host.load(bundle.path)


@pytest.mark.parametrize("most", WORDS)
def test_a_bundle_gives_the_same_bits_at_every_level(bundle: pipeline.Bundle, net: host.HostModel, most: str) -> None:
    here = [level.word for level in variants(CONV2D) if level is not None]
    assert bundle.manifest["levels"] == list(WORDS)
    assert net.use_level(most) == [word for word in here if WORDS.index(word) <= WORDS.index(most)][-1]
    shape = bundle.graph.values["x"].shape
    for seed in range(3):
        stored = {"x": np.random.default_rng(seed).integers(-128, 128, shape).astype(np.int8)}
        expected = run_int(bundle.graph, stored)["y"]
        np.testing.assert_array_equal(net.run_stored(stored)["y"].reshape(-1), expected.reshape(-1))


def test_a_bundle_with_some_levels_uses_the_best_of_these(bundle: pipeline.Bundle, tmp_path: Path) -> None:
    """A processor with a level that the bundle lacks takes the next below it, with the same bits, and the header has no others."""
    x = np.random.default_rng(5).uniform(-1, 2, (8, 3, 9, 7)).astype(np.float32)
    data, levels = Dataset({"x": x}, shapes={"x": (1, 3, 9, 7)}), ("sse41", "avx512vnni")
    options = CompileOptions("x86-64", name="net", levels=levels)
    some = pipeline.compile_model(bundle.path.parent / "model.onnx", tmp_path / "some", options, data)
    assert some.manifest["levels"] == ["portable", *levels]
    assert some.manifest["options"]["levels"] == "sse41,avx512vnni"
    assert "AVX2" not in (some.path / "net.h").read_text()
    net, here = host.load(some.path), [level.word for level in variants(CONV2D) if level is not None]
    with pytest.raises(UsageError, match="no level 'avx2'"):
        net.use_level("avx2")
    stored = {"x": np.random.default_rng(1).integers(-128, 128, bundle.graph.values["x"].shape).astype(np.int8)}
    expected = run_int(bundle.graph, stored)["y"]
    for most in some.manifest["levels"]:
        assert (
            net.use_level(most)
            == [w for w in ("portable", *levels) if w in here and WORDS.index(w) <= WORDS.index(most)][-1]
        )
        np.testing.assert_array_equal(net.run_stored(stored)["y"].reshape(-1), expected.reshape(-1))


LEVELS_REFUSED = [
    ("x86-64", ("avx3",), "Did you mean 'avx2'"),
    ("cortex-m4", ("avx2",), "the kernels for cortex-m4 exist once"),
]


@pytest.mark.parametrize(("target", "levels", "words"), LEVELS_REFUSED)
def test_levels_that_a_target_does_not_have_are_refused(target: str, levels: tuple[str, ...], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        CompileOptions(target, levels=levels).core()


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_tiles_are_straight_code(bundle: pipeline.Bundle, tmp_path: Path, compiler: str) -> None:
    """A loop over the sums of a tile would keep them in memory, at a third of the speed."""
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler}")
    assembly = tmp_path / "net.s"
    subprocess.run([compiler, "-O2", "-S", "-o", str(assembly), str(bundle.path / "net.c")], check=True)
    lists = re.findall(r"#define GE_X86_TILES\(T\)(.*)", (bundle.path / "net_kernels.h").read_text())
    for level, product in (("avx2", "vpmaddwd"), ("avx512vnni", "vpdpbusd")):
        tiles = re.findall(r"\bT\((\d+), (\d+)\)", lists[WORDS.index(level)])
        assert assembly.read_text().count(f"\t{product}\t") >= sum(int(rows) * int(wide) for rows, wide in tiles) > 2


def gaussian(rng: np.random.Generator, outputs: int, inputs: int, spread: float) -> Array:
    return np.clip(np.rint(rng.normal(0, spread, (outputs, inputs))), -128, 127).astype(np.int8)


def rests(records: Array, inputs: int) -> int:
    return int(records.reshape(-1, 16 + 2 * inputs)[:, 1].sum())


@pytest.mark.parametrize(("spread", "some"), [(30, False), (54, True)])
def test_no_pair_of_a_product_of_bytes_can_saturate(spread: float, some: bool) -> None:
    matrix = gaussian(np.random.default_rng(3), 40, 96, spread)
    pairs, records = x86.products_of_bytes(matrix)
    assert (rests(records, 96) > 0) == some
    weights = pairs.reshape(-1, 2).astype(np.int64)
    assert np.maximum(weights, 0).sum(axis=1).max() * 255 < 2**15
    assert np.minimum(weights, 0).sum(axis=1).min() * 255 >= -(2**15)
    sums = weights.reshape(3, -1, 16, 4).sum(axis=(1, 3)).reshape(-1)[:40]
    np.testing.assert_array_equal(sums, matrix.astype(np.int64).sum(axis=1))


def test_weights_that_do_not_make_pairs_have_no_records() -> None:
    large = np.full((16, 64), 127, np.int8)
    assert all(len(x86.products_of_bytes(each)[1]) == 1 for each in (large, large[:, :48]))


@pytest.mark.parametrize(("sides", "stride", "spread"), [((5, 3), 1, 54), ((9, 13), 2, 54), ((2, 5), 1, 30)])
def test_products_of_bytes_are_exact(sides: tuple[int, int], stride: int, spread: float) -> None:
    chance, rng = random.Random(4), np.random.default_rng(4)
    (h, w), inputs, outputs = sides, 64, 88
    law, constants = random_nodes.requantization(chance, outputs, 40 * 5000)
    out = tuple((n - 1) // stride + 1 for n in sides)
    p = Conv2dParams(h, w, inputs, *out, outputs, 1, 1, stride, stride, 1, 1, 0, 0, 1, -7, **law)
    matrix = gaussian(rng, outputs, inputs, spread)
    assert (rests(x86.products_of_bytes(matrix)[1], inputs) > 0) == (spread > 50)
    constants = {"weights": matrix.reshape(outputs, 1, 1, inputs), **constants}
    graph = random_nodes.kernel_node("conv2d_s8", p, constants, (h, w, inputs), (*out, outputs))
    assert check_kernels(graph.nodes[0], graph, rng, ("random", "extremes"), "x86")


# (rows, columns, input channels, output channels, groups, side of the kernel, stride)
GROUPED = [
    (5, 6, 32, 32, 8, 3, 1),  # four groups to a vector of outputs
    (4, 5, 64, 64, 2, 3, 2),  # two vectors to a group
    (5, 5, 20, 50, 5, 3, 1),  # a vector meets two groups, the next one three
    (2, 5, 6, 6, 2, 3, 1),  # fewer outputs than a vector
    (3, 7, 48, 24, 12, 1, 1),  # points
    (6, 3, 33, 99, 3, 3, 1),  # runs that begin at any byte
]


@pytest.mark.parametrize(("h", "w", "inputs", "outputs", "groups", "side", "stride"), GROUPED)
def test_groups_are_exact(h: int, w: int, inputs: int, outputs: int, groups: int, side: int, stride: int) -> None:
    rng = np.random.default_rng(4)
    law, constants = random_nodes.requantization(random.Random(4), outputs, 200_000)
    out = tuple((n + side // 2 * 2 - side) // stride + 1 for n in (h, w))
    pad = side // 2
    p = Conv2dParams(h, w, inputs, *out, outputs, side, side, stride, stride, 1, 1, pad, pad, groups, -7, **law)
    matrix = rng.integers(-128, 128, (outputs, side, side, inputs // groups)).astype(np.int8)
    graph = random_nodes.kernel_node("conv2d_s8", p, {"weights": matrix, **constants}, (h, w, inputs), (*out, outputs))
    assert check_kernels(graph.nodes[0], graph, rng, ("random", "extremes"), "x86")


@pytest.mark.parametrize(
    ("h", "w", "channels", "stride"), [(5, 9, 31, 1), (4, 7, 72, 1), (6, 5, 130, 2), (3, 11, 8, 1)]
)
def test_sweeps_are_exact(h: int, w: int, channels: int, stride: int) -> None:
    """Several pixels in a register, a last register that begins early, one with unused lanes, an odd number of rows, and
    a channel that floats would round to even, whose neighbours stay in floats.
    """
    rng = np.random.default_rng(5)
    law, constants = random_nodes.requantization(random.Random(5), channels, 100_000)
    constants["multiplier"][3] = 1 << (law["shift"] - 8)
    out = ((h - 1) // stride + 1, (w - 1) // stride + 1)
    p = Conv2dParams(h, w, channels, *out, channels, 3, 3, stride, stride, 1, 1, 1, 1, channels, 9, **law)
    matrix = rng.integers(-128, 128, (3, 3, channels)).astype(np.int8)
    graph = random_nodes.kernel_node(
        "depthwise_s8", p, {"weights": matrix, **constants}, (h, w, channels), (*out, channels)
    )
    assert check_kernels(graph.nodes[0], graph, rng, ("random", "extremes"), "x86")


# (width, outputs, rows and columns of padding, zero point): both tile heights of one and of two vectors, a last tile that
# overlaps the one before, a line of one tile, padding that is not zero, not there, or of two columns
WINDOWS = [
    (16, 16, (1, 1), -128), (19, 48, (1, 1), -128), (8, 32, (2, 1), -128), (14, 32, (1, 1), 5), (30, 16, (0, 0), -128),
    (7, 64, (1, 1), -128), (8, 32, (1, 2), -128),
]  # fmt: skip


@pytest.mark.parametrize(("w", "outputs", "pads", "zero_point"), WINDOWS)
def test_windows_of_three_columns_are_exact(w: int, outputs: int, pads: tuple[int, int], zero_point: int) -> None:
    rng, h, inputs = np.random.default_rng(8), 5, 8
    law, constants = random_nodes.requantization(random.Random(8), outputs, 72 * 5000)
    out = (h + 2 * pads[0] - 2, w + 2 * pads[1] - 2)
    p = Conv2dParams(h, w, inputs, *out, outputs, 3, 3, 1, 1, 1, 1, *pads, 1, zero_point, **law)
    constants["weights"] = rng.integers(-128, 128, (outputs, 3, 3, inputs)).astype(np.int8)
    assert (CONV2D.packed(constants, p)["scale"] >= 0).all(), "other tiles are for channels that floats cannot compute"
    graph = random_nodes.kernel_node("conv2d_s8", p, constants, (h, w, inputs), (*out, outputs))
    assert check_kernels(graph.nodes[0], graph, rng, ("random", "extremes"), "x86")


@pytest.mark.parametrize(("h", "w", "outputs", "side"), [(7, 5, 64, 1), (3, 13, 32, 1), (2, 11, 48, 1), (4, 9, 24, 3)])
def test_channels_that_are_moved_are_exact(h: int, w: int, outputs: int, side: int) -> None:
    """Halves of channel 3 are exact, and floats would round them to even; 1x1 kernels read such inputs in place."""
    rng = np.random.default_rng(9)
    law, constants = random_nodes.requantization(random.Random(9), outputs, side * side * 8 * 5000)
    constants["multiplier"][3] = 1 << (law["shift"] - 8)
    constants["bias"][3] = 5
    constants["weights"] = rng.integers(-128, 128, (outputs, side, side, 8)).astype(np.int8)
    constants["weights"][3] = rng.integers(-2, 3, (side, side, 8))
    p = Conv2dParams(h, w, 8, h, w, outputs, side, side, 1, 1, 1, 1, side // 2, side // 2, 1, -7, **law)
    packed = CONV2D.packed(constants, p)
    assert packed["bias"][-1] == 1 and packed["scale"][3] > 0
    graph = random_nodes.kernel_node("conv2d_s8", p, constants, (h, w, 8), (h, w, outputs))
    assert check_kernels(graph.nodes[0], graph, rng, ("random", "extremes"), "x86")


@pytest.mark.parametrize(("kernel", "inputs"), [((5, 4), 1), ((3, 1), 3)])
def test_rows_of_a_window_as_one_run_are_exact(kernel: tuple[int, int], inputs: int) -> None:
    rng = np.random.default_rng(6)
    law, constants = random_nodes.requantization(random.Random(6), 40, 100_000)
    p = Conv2dParams(11, 9, inputs, 6, 5, 40, *kernel, 2, 2, 1, 1, kernel[0] // 2, kernel[1] // 2, 1, -3, **law)
    matrix = rng.integers(-128, 128, (40, *kernel, inputs)).astype(np.int8)
    graph = random_nodes.kernel_node("conv2d_s8", p, {"weights": matrix, **constants}, (11, 9, inputs), (6, 5, 40))
    assert check_kernels(graph.nodes[0], graph, rng, ("random", "extremes"), "x86")


LOOK_UP = """#include "ge.h"
#include "ge_x86_portable.h"
void look_up(int8_t *to, const int8_t *x, int32_t count, const int8_t *table, int32_t plain);
static GE_X86_FN void by_level(int8_t *to, const int8_t *x, int32_t count, const int8_t *table) {
    ge_x86_look_up(to, x, count, table);
}
void look_up(int8_t *to, const int8_t *x, int32_t count, const int8_t *table, int32_t plain) {
    ge_x86_use(GE_X86_AVX512VNNI);
    ge_x86_in_use = plain ? ge_x86_in_use % GE_X86_VBMI : ge_x86_in_use;
    by_level(to, x, count, table);
}
"""


@pytest.mark.parametrize("plain", [True, False])
def test_tables_are_exact_with_and_without_permutations_of_bytes(plain: bool) -> None:
    level = next((level for level in variants(CONV2D) if level is not None and level.word == "avx512vnni"), None)
    if level is None:
        pytest.skip("this computer has no AVX512-VNNI")
    library = shared_library(
        "\n".join([*level_names("x86", LEVELS, [LOOK_UP]), *level_source("x86", level, [LOOK_UP])])
    )
    rng = np.random.default_rng(7)
    table = rng.integers(-128, 128, 256).astype(np.int8)
    for count in (1, 63, 64, 65, 256, 1000):
        x = rng.permutation(np.resize(np.arange(-128, 128), count)).astype(np.int8)
        found = np.zeros(count + 1, np.int8)
        pointers = [a.ctypes.data_as(ctypes.c_void_p) for a in (found, x, table)]
        library.look_up(pointers[0], pointers[1], count, pointers[2], int(plain))
        np.testing.assert_array_equal(found, [*table[x.astype(int) + 128], 0])


LAW = """#include "ge.h"
#include "ge_x86_law_NAME.h"
void all(const int32_t *acc, const int32_t *words, const float *rows, int32_t form, const int32_t *law, int8_t *out,
         int32_t vectors);
static GE_X86_FN void law_of_all(const int32_t *acc, const int32_t *words, const float *rows, int32_t form,
                                 const int32_t *law, int8_t *out, int32_t vectors) {
    const ge_x86_law made = ge_x86_law_of(law[0], law[1], law[2], law[3]);
    for (int32_t i = 0; i < vectors; i++) {
        ge_x86_store_shorts1(out + 16 * i, ge_x86_NAME_sums(ge_x86_load(acc + 16 * i), words, rows, form, &made), 16, &made);
    }
}
void all(const int32_t *acc, const int32_t *words, const float *rows, int32_t form, const int32_t *law, int8_t *out,
         int32_t vectors) {
    law_of_all(acc, words, rows, form, law, out, vectors);
}
"""

HERE = tuple(level for level in variants(CONV2D) if level is not None)
IN_FLOATS = tuple(level for level in HERE if level.word != "portable")


def requantized(level: Level, acc: Array, q: fixedpoint.Requant, rows: Array | None, law: tuple[int, ...]) -> Array:
    """The outputs of a level for all these sums of a channel: by its rows of floats, or by integers where that is None."""
    padded = np.pad(acc, (0, -len(acc) % 16)).astype(np.int32)
    out = np.zeros(padded.shape, np.int8)
    words = np.repeat(np.asarray(q.multiplier, np.int32), 16)
    floats = np.repeat(np.zeros(16, np.float32) if rows is None else rows, 16).astype(np.float32)
    text = LAW.replace("_NAME.h", ".h" if q.mode == "default" else f"_{q.mode}.h").replace("NAME", q.mode)
    shared_library("\n".join([*level_names("x86", LEVELS, [text]), *level_source("x86", level, [text])])).all(
        *(a.ctypes.data_as(ctypes.c_void_p) for a in (padded, words, floats)),
        -1 if rows is None else int(rows[0]),
        np.asarray(law, np.int32).ctypes.data_as(ctypes.c_void_p),
        out.ctypes.data_as(ctypes.c_void_p),
        len(padded) // 16,
    )
    return out[: len(acc)]


def expected(acc: Array, q: fixedpoint.Requant, law: tuple[int, ...]) -> Array:
    return fixedpoint.requantize(acc, q, *law[1:])


@pytest.mark.parametrize("level", HERE, ids=lambda level: level.word)
@pytest.mark.parametrize("mode", MODES)
def test_the_integer_path_is_the_law(level: Level, mode: Mode) -> None:
    rng = np.random.default_rng(1)
    for scale in (2.0**-31, 3e-5, 0.0123, 0.499999, 0.5, 0.75, 1.0, 60.0):
        q = fixedpoint.requant([scale], mode)
        law = (q.shift, int(rng.integers(-128, 128)), -100, 127)
        reach = int(min(2**31 - 1, 2**30 / scale))
        acc = np.concatenate([rng.integers(-reach, reach, 4000), np.arange(-2000, 2000), [-reach, reach, 0]])
        np.testing.assert_array_equal(requantized(level, acc, q, None, law), expected(acc, q, law), str(scale))


@pytest.mark.parametrize("mode", MODES)
def test_floats_that_are_proved_are_the_law_for_every_sum_in_reach(mode: Mode) -> None:
    rng, proved, corrected = np.random.default_rng(2), 0, 0
    for trial in range(24):
        scale = float(2.0 ** rng.uniform(-12.5, -6 if trial % 2 else -10))
        q = fixedpoint.requant([scale], mode)
        lo, hi = sorted(rng.integers(-128, 128, 2).tolist()) if trial % 2 else (-128, 127)
        zero_point = int(rng.integers(-128, 128))
        low, high = (int(end / scale) for end in rng.uniform((-200, 50), (-50, 200)))
        rows = rows_of(q, zero_point, (lo, hi), (low, high))
        if rows[0] < 0:
            continue
        proved, corrected = proved + 1, corrected + (mode in ("onnx", "tflite") and rows[0] > 0)
        acc, law = np.arange(low, high + 1), (q.shift, zero_point, lo, hi)
        for level in IN_FLOATS:
            found = requantized(level, acc, q, rows, law)
            np.testing.assert_array_equal(found, expected(acc, q, law), f"{level.word} {q} {law}")
    assert proved >= 20, "nearly all channels of real networks have them"
    assert corrected > 0 or mode in ("default", "glow"), "some of these channels have exceptions"


def rows_of(q: fixedpoint.Requant, zero_point: int, limits: tuple[int, int], reach: tuple[int, int]) -> Array:
    words = laws.words(np.asarray(q.multiplier), q.mode)
    ends = (np.asarray([end], np.int64) for end in reach)
    return laws.float_rows(laws.Channels(q.mode, words, q.shift, zero_point, limits, tuple(ends)))[:, 0]


NO_FLOATS = [
    ("default", 0.5, (-99, 99), "halves: the law takes them up, the fused multiply-add to even"),
    ("default", 0.001, (-(2**24) - 1, 5), "a sum that is no float"),
    ("tflite", 0.001, (-(2**24) - 1, 5), "a sum that is no float"),
    ("default", 0.9, (-99, 2**23), "an output that shares bits with 1.5 * 2^23"),
    ("onnx", 0.9, (-99, 2**23), "an output that shares bits with 1.5 * 2^23"),
    ("default", 0.0, (-99, 99), "a multiplier of zero, whose thresholds are nowhere"),
    ("tflite", 0.0, (-99, 99), "a multiplier of zero, whose thresholds are nowhere"),
    ("glow", 0.9, (-99, 2**24), "a product of 32 bits"),
]


@pytest.mark.parametrize(("mode", "scale", "reach", "why"), NO_FLOATS)
def test_floats_are_refused(mode: Mode, scale: float, reach: tuple[int, int], why: str) -> None:
    assert rows_of(fixedpoint.requant([scale], mode), 3, (-128, 127), reach)[0] < 0, why


def test_channels_of_a_block_take_the_form_of_the_worst() -> None:
    rows = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    rows[:, 0] = [[0, 2, 1, 0], [0, -1, 3, 0]]
    together = laws.in_one_form(rows)
    np.testing.assert_array_equal(together[:, 0], [[2] * 4, [-1] * 4])
    np.testing.assert_array_equal(together[:, 1:], rows[:, 1:])


def test_sixteen_channels_keep_their_multipliers_in_a_block_of_integers() -> None:
    row = np.full((2, 1, 64), 0.25, np.float32)
    row[1, 0, [5, 40]] = [-1, 1.5]
    together = laws.in_one_form(row)
    np.testing.assert_array_equal(together[0], row[0])
    np.testing.assert_array_equal(together[1, 0], np.repeat([-1, -0.25, -1, -0.25], 16))


def test_a_channel_that_is_not_proved_takes_its_sixteen_with_it() -> None:
    ones = dict.fromkeys(
        ("in_h", "in_w", "out_h", "out_w", "kernel_h", "kernel_w", "stride_h", "stride_w", "groups"), 1
    )
    rest = {"in_c": 8, "out_c": 20, "dilation_h": 1, "dilation_w": 1, "pad_top": 0, "pad_left": 0, "in_zero_point": 0}
    params = Conv2dParams(**ones, **rest, shift=31, out_zero_point=0, lo=-128, hi=127)
    constants = {
        "weights": np.ones((20, 1, 1, 8), np.int8),
        "bias": np.where(np.arange(20) == 17, 1 << 24, 0).astype(np.int32),  # larger than a float can count to
        "multiplier": np.full(20, 12345678, np.int32),
    }
    scale = CONV2D.packed(constants, params)["scale"]
    assert (scale[:16] > 0).all()
    assert (scale[16:] < 0).all()


@pytest.mark.parametrize("channels", [1, 3, 4, 5])
def test_the_planes_of_a_picture_build(channels: int, tmp_path: Path) -> None:
    """gcc copies functions for the params of a layer, and must see that parts for other numbers of channels are not reached."""
    nodes = [node("Conv", "x w b", "y", strides=[2, 2], pads=[1, 1, 1, 1])]
    constants = {"w": weights(8, channels, 3, 3), "b": weights(8)}
    path = saved(model(nodes, {"x": (1, channels, 83, 101)}, constants), tmp_path)
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(2, channels, 83, 101)).astype(np.float32))
    options = CompileOptions("x86-64", levels=("sse41",))
    bundle = pipeline.compile_model(path, tmp_path / "bundle", options, tmp_path / "x.npy")
    assert validation.validate(bundle, tmp_path / "x.npy", "host", samples=1).bit_exact
