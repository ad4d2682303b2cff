"""The assembly of Cortex-M needs no FPU of M4, M7 and M33, and stops with a sentence on another core."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import own_firmware
import pytest
from small_models import model, node, saved, weights

from glowembed import reference, resources
from glowembed.emit.csource import kernel_source
from glowembed.emit.guards import guards
from glowembed.graph.cstruct import params_header
from glowembed.graph.op import Kernel, KernelOp
from glowembed.graph.registry import isas, kernel_ops
from glowembed.graph.target import load_board, load_target
from glowembed.pipeline import Bundle, CompileOptions, compile_model

LIBC = "#include <stddef.h>\nvoid *memcpy(void *, const void *, size_t);\nvoid *memset(void *, int, size_t);\n"
FLOATING = re.compile(r"\tv[a-z]+")
CLANG = ["clang", "--target=thumbv7em-none-eabi", "-mcpu=cortex-m4", "-mfpu=none", "-ffreestanding", "-isystem", "libc"]
WITHOUT_FPU = {
    "M4": ["arm-none-eabi-gcc", "-mcpu=cortex-m4+nofp", "-mthumb", "-mfloat-abi=soft", "-O2"],
    "M33, with a frame pointer": [
        "arm-none-eabi-gcc", "-mcpu=cortex-m33+nofp", "-mthumb", "-mfloat-abi=soft", "-O0", "-fno-omit-frame-pointer",
    ],
    "M7": ["arm-none-eabi-gcc", "-mcpu=cortex-m7+nofp", "-mthumb", "-mfloat-abi=soft", "-O3"],
    "clang, with a frame pointer": [*CLANG, "-mfloat-abi=soft", "-O0"],
    "clang": [*CLANG, "-mfloat-abi=soft", "-Oz"],
}  # fmt: skip


def integer_kernels(op: KernelOp) -> list[Kernel]:
    return [k for k in op.kernels if k.isa == "dsp" and "_f32" not in k.symbol and k.generated is None]


def written(op: KernelOp, kernels: Sequence[Kernel], folder: Path) -> str:
    """A file with these kernels of an op, and its params beside it: compilers read the headers once for all of them."""
    params = f"{op.name}_params.h"
    (folder / params).write_text(params_header([op.params]).replace("GE_PARAMS_H", f"{op.name}_H"))
    texts = [kernel_source(kernel).replace('"ge_params.h"', f'"{params}"') for kernel in kernels]
    used = [f"void (*used_{k.symbol})(void) = (void (*)(void)){k.symbol};\n" for k in kernels]
    (folder / f"{op.name}.c").write_text("\n".join([f'#include "{params}"', *texts, *used]))
    return f"{op.name}.c"


@pytest.mark.arm_gcc
@pytest.mark.parametrize("build", WITHOUT_FPU)
def test_kernels_of_cortex_m4_need_no_fpu(build: str, tmp_path: Path) -> None:
    """However it is optimized, and with r7 as frame pointer."""
    if shutil.which(WITHOUT_FPU[build][0]) is None:
        pytest.skip("no clang")
    (tmp_path / "libc").mkdir()
    (tmp_path / "libc" / "string.h").write_text(LIBC)
    files = [written(op, own, tmp_path) for op in kernel_ops().values() if (own := integer_kernels(op))]
    (tmp_path / "ge_params.h").write_text("")
    command = [
        *WITHOUT_FPU[build],
        "-std=c99",
        "-w",
        "-I.",
        *(f"-I{folder}" for folder in resources.kernel_folders()),
        "-c",
    ]
    command += files
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    objects = [file.replace(".c", ".o") for file in files]
    listing = subprocess.run(
        ["arm-none-eabi-objdump", "-d", *objects], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout
    assert listing.count("smlad") > 100
    assert FLOATING.findall(listing) == []


SEPARABLE = [
    node("Conv", "x a", "t", strides=[2, 2], pads=[4, 1, 5, 1]),
    node("Relu", "t", "u"),
    node("Conv", "u b", "v", pads=[1] * 4, group=8),
    node("Conv", "v c", "w"),
    node("Conv", "w d", "r", pads=[1, 1, 1, 1], strides=[2, 2], group=12),
    node("Conv", "r e", "s", pads=[1] * 4),
    node("Conv", "s f", "k", pads=[2] * 4, group=12),
    node("GlobalAveragePool", "k", "p"),
    node("Flatten", "p", "q"),
    node("Gemm", "q g", "l"),
    node("Softmax", "l", "y"),
]
KERNELS = {
    "a": weights(8, 1, 10, 4), "b": weights(8, 1, 3, 3), "c": weights(12, 8, 1, 1), "d": weights(12, 1, 3, 3),
    "e": weights(12, 12, 3, 3), "f": weights(12, 1, 5, 5), "g": weights(12, 6),
}  # fmt: skip
SOFT = ["-mfloat-abi=soft"]
MAIN = """#include <string.h>
#include "semihost.h"
#include "net.h"
#define CPACR (*(volatile uint32_t *)0xE000ED88)
static const int8_t given[] = {%s};
static const int8_t expected[] = {%s};
static NET_ARENA(arena);
int main(void) {
    CPACR &= ~0x00F00000u;
    __asm__ volatile("dsb\\nisb" : : : "memory");
    %s
    memcpy(NET_INPUT_X(&arena), given, sizeof given);
    if (net_run(&arena) != NET_OK) { ge_semihost_exit(1); }
    if (memcmp(NET_OUTPUT_Y(&arena), expected, sizeof expected) != 0) { ge_semihost_exit(2); }
    ge_semihost_exit(0);
}
"""


def separable(folder: Path, mode: str) -> Bundle:
    path = saved(model(SEPARABLE, {"x": [1, 1, 25, 10]}, KERNELS), folder)
    np.save(folder / "x.npy", np.random.default_rng(0).normal(size=(16, 1, 25, 10)).astype(np.float32))
    options = CompileOptions("cortex-m4", name="net", requantization=mode)
    return compile_model(path, folder / "net", options, folder / "x.npy")


def objects(bundle: Bundle, folder: Path, level: str) -> list[Path]:
    """The bundle as a user without an FPU builds it."""
    sources = [bundle.path / name for name in bundle.manifest["sources"]]
    built = [bundle.path / f"{source.stem}.o" for source in sources]
    for source, path in zip(sources, built, strict=True):
        command = ["arm-none-eabi-gcc", "-mcpu=cortex-m4", "-mthumb", "-std=c99", level, "-c", source, "-o", path]
        subprocess.run(command, cwd=folder, check=True)
    return built


def listed(values: np.ndarray) -> str:
    return ", ".join(map(str, values.reshape(-1).tolist()))


@pytest.mark.arm_gcc
@pytest.mark.qemu
@pytest.mark.parametrize("mode", ["default", "onnx", "glow", "tflite"])
def test_a_network_runs_with_the_fpu_off(mode: str, tmp_path: Path) -> None:
    bundle = separable(tmp_path, mode)
    graph, board = bundle.graph, load_board("mps2-an386")
    wide = [x["kernel"] for x in bundle.manifest["layers"] if x["op"].startswith(("conv2d", "depthwise"))]
    assert len(wide) == 6
    assert all("_dsp" in kernel for kernel in wide)
    value = graph.values[graph.inputs[0]]
    given = np.random.default_rng(1).integers(-128, 128, value.shape).astype(np.int8)
    expected = reference.run_int(graph, {value.name: given})[graph.outputs[0]]
    text = MAIN % (listed(given), listed(expected), "")
    for level in ("-O0", "-O2"):
        elf = own_firmware.build(text, objects(bundle, tmp_path, level), tmp_path, board, SOFT)
        assert own_firmware.run(elf, "mps2-an386") == (0, "")
    if mode == "default":
        off = MAIN % (listed(given), listed(expected), '__asm__ volatile(".fpu fpv4-sp-d16\\nvmov s0, r0");')
        elf = own_firmware.build(off, objects(bundle, tmp_path, "-O2"), tmp_path, board, SOFT)
        assert own_firmware.run(elf, "mps2-an386")[0] != 0, "the FPU is not off"


WRONG = {
    "armv6m": ["cc"],
    "armv7m": ["arm-none-eabi-gcc", "-mcpu=cortex-m0", "-mthumb"],
    "dsp": ["arm-none-eabi-gcc", "-mcpu=cortex-m3", "-mthumb"],
    "mve": ["arm-none-eabi-gcc", "-mcpu=cortex-m55", "-mthumb", "-mfloat-abi=soft"],
}
RIGHT = {"armv6m": "cortex-m0", "armv7m": "cortex-m3", "dsp": "cortex-m4", "mve": "cortex-m55"}


def refusal(command: list[str], text: str) -> str:
    """The compiler's message about this text; empty if it compiles."""
    words = [*command, "-fsyntax-only", "-x", "c", "-"]
    done = subprocess.run(words, input=text, capture_output=True, text=True, check=False)
    return done.stderr if done.returncode else ""


@pytest.mark.arm_gcc
@pytest.mark.parametrize("word", WRONG)
def test_another_core_is_told_in_a_sentence(word: str) -> None:
    core = load_target(RIGHT[word])
    said = refusal(WRONG[word], guards([word]))
    assert isas()[word].needs in said
    assert said.count("error:") == 1
    assert refusal([core.compiler, *(f for f in core.cflags if f.startswith("-m"))], guards([word])) == ""


@pytest.mark.arm_gcc
@pytest.mark.parametrize("core", ["cortex-m7", "cortex-m33"])
def test_cores_with_the_dsp_extension_are_taken(core: str) -> None:
    words = ["arm-none-eabi-gcc", f"-mcpu={core}", "-mthumb", "-mfloat-abi=soft"]
    assert refusal(words, guards(["dsp"])) == ""
    assert "DSP extension" in refusal([words[0], "-mcpu=cortex-m33+nodsp", *words[2:]], guards(["dsp"]))


@pytest.mark.arm_gcc
def test_the_other_byte_order_is_told() -> None:
    words = ["arm-none-eabi-gcc", "-mcpu=cortex-m4", "-mthumb"]
    assert "little-endian" in refusal([*words, "-mbig-endian"], guards([]))
    assert refusal(words, guards([])) == ""


@pytest.mark.cc
def test_ints_of_16_bits_are_told() -> None:
    assert "an int has 16 bits" in refusal(["cc", "-U__INT_MAX__", "-D__INT_MAX__=32767"], guards([]))
    assert refusal(["cc"], guards([])) == ""


@pytest.mark.arm_gcc
def test_a_bundle_brings_its_sentences(tmp_path: Path) -> None:
    bundle = separable(tmp_path, "default")
    command = ["arm-none-eabi-gcc", "-mcpu=cortex-m0", "-mthumb", "-std=c99", "-c", *bundle.manifest["sources"]]
    done = subprocess.run([*command, "-o", "x.o"], cwd=bundle.path, capture_output=True, text=True, check=False)
    assert (
        isas()["dsp"].needs
        in subprocess.run(
            [*command[:4], "-fsyntax-only", "net.c"], cwd=bundle.path, capture_output=True, text=True, check=False
        ).stderr
    )
    assert done.returncode != 0
    assert "Assembler messages" not in done.stderr
