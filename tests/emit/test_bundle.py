"""The C of bundles: no warnings, reproducible bytes, hostile names harmless, bundles side by side."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from busy import busy_machine
from checkout import ROOT
from compiled_models import level_here
from small_models import model, node, saved, weights

from glowembed import reference, resources
from glowembed.emit.csource import kernel_source
from glowembed.graph.cstruct import params_header
from glowembed.graph.plan import PlanOptions
from glowembed.graph.registry import kernel, kernel_ops
from glowembed.graph.target import load_target
from glowembed.pipeline import Bundle, CompileOptions, compile_model, load_bundle
from glowembed.ranges.datasets import Dataset
from glowembed.run.host import HostModel

WARNINGS = (
    "-Wall -Wextra -Wpedantic -Wconversion -Wmissing-prototypes -Wstrict-prototypes -Wshadow -Wundef -Werror".split()
)
COMPILERS = ["gcc", "clang"]
CORES = ["cortex-m0", "cortex-m3", "cortex-m4", "cortex-m7", "cortex-m33", "cortex-m55"]


ARM = "arm-none-eabi-gcc"
ARM_FLAGS = {
    ARM: ["-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16"],
    "clang": ["--target=thumbv7em-none-eabihf", "-mcpu=cortex-m4", "-ffreestanding", "-isystem", "libc"],
}


def compiled(digits_dir: Path, factory: pytest.TempPathFactory, target: str, levels: tuple[str, ...] = ()) -> Bundle:
    options = CompileOptions(name="digits", target=target, levels=levels)
    out = factory.mktemp("digits") / "bundle"
    return compile_model(digits_dir / "model.onnx", out, options, data=digits_dir / "data.npz")


@pytest.fixture(scope="module")
def digits_m4(digits_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return compiled(digits_dir, tmp_path_factory, "cortex-m4")


@pytest.fixture(scope="module")
def digits_host(digits_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return compiled(digits_dir, tmp_path_factory, "x86-64")


@pytest.fixture(scope="module")
def digits_here(digits_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """For tests that run it: of the levels in `digits_host`, only the best one runs."""
    return compiled(digits_dir, tmp_path_factory, "x86-64", level_here())


@pytest.fixture(scope="module")
def digits_plain(digits_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """For tests of what surrounds the kernels: it compiles in a tenth of the time that the levels of x86-64 take."""
    return compiled(digits_dir, tmp_path_factory, "generic")


@pytest.fixture(scope="module")
def digits_dir(request: pytest.FixtureRequest) -> Path:
    folder: Path = request.getfixturevalue("digits")
    return folder


def run(command: list[str], cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stderr}\n{done.stdout}"
    return done.stdout


def files(folder: Path) -> dict[str, bytes]:
    return {
        p.relative_to(folder).as_posix(): p.read_bytes()
        for p in sorted(folder.rglob("*"))
        if p.is_file() and p.name != ".glowembed.json"
    }


@pytest.mark.cc
@pytest.mark.parametrize("compiler", COMPILERS)
def test_no_warnings_as_c99_and_c11(digits_host: Bundle, compiler: str, tmp_path: Path) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler}")
    # The optimizer warns of the same in both standards, so it runs for one of them.
    for standard, flags in (("c99", ["-O2", "-c"]), ("c11", ["-fsyntax-only"])):
        command = [compiler, f"-std={standard}", *flags, *WARNINGS, *digits_host.manifest["sources"]]
        run([*command, "-I", "."], digits_host.path)
    for file in digits_host.path.glob("*.o"):
        file.unlink()


@pytest.mark.arm_gcc
@pytest.mark.parametrize("compiler", ARM_FLAGS)
@pytest.mark.parametrize("optimize", ["-O0", "-Os", "-O3"])
def test_no_warnings_for_a_core_with_assembly(digits_m4: Bundle, compiler: str, optimize: str, tmp_path: Path) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler}")
    (tmp_path / "libc").mkdir()
    (tmp_path / "libc" / "string.h").write_text(
        "#include <stddef.h>\nvoid *memcpy(void *, const void *, size_t);\nvoid *memset(void *, int, size_t);\n"
    )
    command = [compiler, *ARM_FLAGS[compiler], "-std=c99", optimize, *WARNINGS, "-I", str(digits_m4.path), "-c"]
    run([*command, *(str(digits_m4.path / f) for f in digits_m4.manifest["sources"])], tmp_path)


@pytest.mark.arm_gcc
@pytest.mark.parametrize("target", ["cortex-m0", "cortex-m3", "cortex-m55"])
def test_assembly_of_every_core_compiles_however_it_is_optimized(target: str, tmp_path: Path) -> None:
    """Inline assembly has few registers to spare: code that compiles at -O2 may fail at other levels."""
    digits = ROOT / "examples" / "digits"
    bundle = compile_model(digits / "model.onnx", tmp_path / "net", CompileOptions(target), data=digits / "data.npz")
    assert any(layer["kernel"].endswith(load_target(target).isa) for layer in bundle.manifest["layers"])
    compile_at(("-O0", "-Os", "-O3"), bundle)


@pytest.mark.arm_gcc
@pytest.mark.parametrize("target", ["cortex-m4", "cortex-m55"])
def test_assembly_of_recurrent_layers_compiles_however_it_is_optimized(target: str, tmp_path: Path) -> None:
    """Each loop has as many operands as there are registers, so it must not share them with a caller."""
    sizes = {
        "w": weights(1, 24, 5),
        "r": weights(1, 24, 8),
        "v": weights(1, 24, 8),
        "l": weights(1, 32, 8),
        "m": weights(1, 32, 8),
    }
    nodes = [
        node("GRU", "x w r", "a h", hidden_size=8),
        node("Squeeze", "a axes", "b"),
        node("GRU", "b v r", "c i", hidden_size=8, linear_before_reset=1),
        node("Squeeze", "c axes", "d"),
        node("LSTM", "d l m", "y j", hidden_size=8),
    ]
    path = saved(model(nodes, {"x": (3, 1, 5)}, {**sizes, "axes": [1]}), tmp_path)
    np.savez(tmp_path / "data.npz", calib_x=np.ones((2, 3, 1, 5), np.float32))
    bundle = compile_model(
        path, tmp_path / "net", CompileOptions(target, plan=PlanOptions(optimize="size")), data=tmp_path / "data.npz"
    )
    compile_at(("-O1", "-Os"), bundle)


def compile_at(levels: Sequence[str], bundle: Bundle) -> None:
    """Compile a bundle for its target, with these levels of optimization."""
    core = load_target(bundle.manifest["target"])
    flags = [flag for flag in core.cflags if not flag.startswith("-fcallgraph-info")]
    for level in levels:
        run([core.compiler, *flags, level, "-c", *bundle.manifest["sources"], "-I", "."], bundle.path)


CLANG_CORES = {
    "armv6m": ["--target=thumbv6m-none-eabi", "-mcpu=cortex-m0"],
    "armv7m": ["--target=thumbv7m-none-eabi", "-mcpu=cortex-m3"],
    "dsp": ["--target=thumbv7em-none-eabihf", "-mcpu=cortex-m4"],
    "mve": ["--target=thumbv8.1m.main-none-eabihf", "-mcpu=cortex-m55"],
}


@pytest.mark.parametrize("isa", CLANG_CORES)
def test_clang_assembles_every_kernel(isa: str, tmp_path: Path) -> None:
    """It takes no .w where an instruction has but one width, which gcc's assembler does not mind."""
    if shutil.which("clang") is None:
        pytest.skip("no clang")
    (tmp_path / "string.h").write_text(
        "#include <stddef.h>\nvoid *memcpy(void *, const void *, size_t);\nvoid *memset(void *, int, size_t);\n"
    )
    for op in kernel_ops().values():
        own = (k for k in op.kernels if k.isa == isa and k.inner is None and (isa == "mve" or not k.template))
        for k in own:
            (tmp_path / "ge_params.h").write_text(params_header([op.params]))
            text = kernel_source(k)
            (tmp_path / "kernel.c").write_text(
                f"{text}\nextern void (*used)(void);\nvoid (*used)(void) = (void (*)(void)){k.symbol};\n"
            )
            flags = [
                *CLANG_CORES[isa],
                "-ffreestanding",
                "-std=c99",
                "-Os",
                "-I.",
                *(f"-I{folder}" for folder in resources.kernel_folders()),
            ]
            run(["clang", *flags, "-c", "kernel.c"], tmp_path)


@pytest.mark.cc
def test_the_header_can_be_included_from_cpp(digits_plain: Bundle, tmp_path: Path) -> None:
    if shutil.which("g++") is None:
        pytest.skip("no g++")
    (tmp_path / "main.cpp").write_text(
        '#include "digits.h"\nstatic DIGITS_ARENA(arena);\n'
        "int main() { return digits_run(&arena) + DIGITS_INPUT_IMAGE(&arena)[0]; }\n"
    )
    run(["g++", "-std=c++11", *WARNINGS[:3], "-Werror", "-I", str(digits_plain.path), "-c", "main.cpp"], tmp_path)


@pytest.mark.cc
def test_two_bundles_link_into_one_program(digits_here: Bundle, digits_dir: Path, tmp_path: Path) -> None:
    """Both networks run in one process, and each gives the bits that it gives alone."""
    other_model = model([node("Conv", "x w b", "y", pads=[1, 1, 1, 1])], {"x": [1, 2, 5, 5]}, two_constants())
    path = saved(other_model, tmp_path)
    data = tmp_path / "data.npy"
    np.save(data, np.random.default_rng(0).normal(size=(4, 2, 5, 5)).astype(np.float32))
    options = CompileOptions(name="other", target="x86-64", levels=level_here())
    other = compile_model(path, tmp_path / "other", options, data=data)
    (tmp_path / "main.c").write_text(
        '#include <stdio.h>\n#include <string.h>\n#include "digits.h"\n#include "other.h"\n'
        "static DIGITS_ARENA(a);\nstatic OTHER_ARENA(b);\n"
        "int main(void) {\n    unsigned sum = 0;\n"
        "    memset(DIGITS_INPUT_IMAGE(&a), 3, DIGITS_INPUT_IMAGE_SIZE);\n"
        "    memset(OTHER_INPUT_X(&b), 5, OTHER_INPUT_X_SIZE);\n"
        "    if (digits_run(&a) != DIGITS_OK || other_run(&b) != OTHER_OK) return 1;\n"
        '    for (int i = 0; i < 10; i++) printf("%d ", DIGITS_OUTPUT_LOGITS(&a)[i]);\n'
        '    for (int i = 0; i < OTHER_OUTPUT_Y_COUNT; i++) printf("%d ", OTHER_OUTPUT_Y(&b)[i]);\n'
        "    return (int)sum;\n}\n"
    )
    sources = [str(b.path / s) for b in (digits_here, other) for s in b.manifest["sources"]]
    includes = ["-I", str(digits_here.path), "-I", str(other.path)]
    run(["gcc", "-std=c99", *WARNINGS, *includes, "main.c", *sources, "-o", "both"], tmp_path)
    found = [int(t) for t in run(["./both"], tmp_path).split()]
    expected = []
    for bundle, fill in ((digits_here, 3), (other, 5)):
        value = bundle.graph.values[bundle.graph.inputs[0]]
        known = reference.run_int(bundle.graph, {value.name: np.full(value.shape, fill, np.int8)})
        expected += known[bundle.graph.outputs[0]].reshape(-1).tolist()
    assert found == expected


def two_constants() -> dict[str, np.ndarray]:
    return {"w": weights(3, 2, 3, 3), "b": weights(3)}


def test_same_bytes_in_another_folder_with_another_hash_seed_on_a_busy_machine(
    digits_m4: Bundle, digits_dir: Path, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "some where else"
    elsewhere.mkdir()
    for name in ("model.onnx", "data.npz"):
        shutil.copy(digits_dir / name, elsewhere / name)
    script = (
        "import sys; from pathlib import Path; from glowembed.pipeline import *;"
        "compile_model(Path('model.onnx'), Path('out'), CompileOptions(name='digits'), data=Path('data.npz'))"
    )
    for seed, machine in (("1", nullcontext()), ("2", busy_machine())):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        with machine:
            subprocess.run([sys.executable, "-c", script], cwd=elsewhere, env=environment, check=True)
        assert files(elsewhere / "out") == files(digits_m4.path)


def test_the_bundle_holds_exactly_the_kernels_it_calls(digits_m4: Bundle) -> None:
    text = (digits_m4.path / "digits_kernels.h").read_text("ascii")
    lines = re.findall(r"^(?:static void (ge_\w+)\(|#define (ge_\w+) (ge_\w+)$)", text, re.MULTILINE)
    names: dict[str, str] = {}
    defined = {names.get(function, function) for function, *name in lines if function or names.update([name])}
    assert defined == {kernel(n.kernel).symbol_for(n.params) for n in digits_m4.graph.nodes if n.kernel}


def test_the_header_states_what_the_manifest_says(digits_m4: Bundle) -> None:
    text = (digits_m4.path / "digits.h").read_text("ascii")
    manifest = digits_m4.manifest
    assert f"#define DIGITS_ARENA_SIZE {manifest['arena']['size']}" in text
    for direction in ("input", "output"):
        for tensor in manifest[f"{direction}s"]:
            prefix = f"#define DIGITS_{direction.upper()}_{tensor['id']}"
            assert f"{prefix}_SIZE {tensor['bytes']} " in text
            assert f"{prefix}_ZERO_POINT ({tensor['zero_point']})" in text
            scale = re.search(rf"{prefix}_SCALE (\S+)f", text)
            assert scale is not None
            assert np.float32(scale.group(1)) == np.float32(tensor["scale"])


@pytest.mark.arm_gcc
@pytest.mark.parametrize("core", CORES)
def test_no_libm_no_float_no_64_bit_division(
    digits_dir: Path, tmp_path_factory: pytest.TempPathFactory, core: str, tmp_path: Path
) -> None:
    """The network's object needs nothing but memory copies and, on cores without them, 32-bit division and 64-bit
    multiplication helpers; and it holds no floating-point instruction.
    """
    target, bundle = load_target(core), compiled(digits_dir, tmp_path_factory, core)
    name = bundle.manifest["name"]
    command = [target.compiler, *target.cflags, "-c", f"{bundle.path}/{name}.c", "-o", "network.o"]
    run(command, tmp_path)
    undefined = set(re.findall(r" U (\w+)", run(["arm-none-eabi-nm", "network.o"], tmp_path)))
    foreign = {s for s in undefined if not s.startswith(f"{name}_")}
    allowed = {"memcpy", "memset", "memmove"}
    if core == "cortex-m0":
        allowed |= {"__aeabi_idiv", "__aeabi_uidiv", "__aeabi_idivmod", "__aeabi_uidivmod", "__aeabi_lmul"}
    assert foreign <= allowed
    if core != "cortex-m55":  # MVE shares the vector registers and their mnemonics
        listing = run(["arm-none-eabi-objdump", "-d", "network.o"], tmp_path)
        assert not re.findall(r"\tv(?:add|sub|mul|div|cvt|fma|mla|sqrt|cmp)\S*\.f\d\d", listing)


@pytest.mark.cc
def test_errors_of_the_api(digits_plain: Bundle, tmp_path: Path) -> None:
    (tmp_path / "main.c").write_text(
        '#include <stddef.h>\n#include <stdio.h>\n#include "digits.h"\nstatic DIGITS_ARENA(a);\nint main(void) {\n'
        '    printf("%d %d ", digits_run(NULL), digits_run(a.bytes + 1));\n'
        '    printf("%d %d ", digits_run_layers(&a, -1, 1), digits_run_layers(&a, 0, DIGITS_LAYER_COUNT + 1));\n'
        '    printf("%d %d ", digits_run_layers(&a, DIGITS_LAYER_COUNT, 1), digits_run_layers(&a, 2147483647, 2147483647));\n'
        '    printf("%d %d", digits_run_layers(&a, DIGITS_LAYER_COUNT, 0), digits_run(&a));\n    return 0;\n}\n'
    )
    sources = [str(digits_plain.path / s) for s in digits_plain.manifest["sources"]]
    run(["gcc", "-std=c99", "-I", str(digits_plain.path), "main.c", *sources, "-o", "errors"], tmp_path)
    assert run(["./errors"], tmp_path).split() == ["-1", "-1", "-2", "-2", "-2", "-2", "0", "0"]


SEEN = """
#include <stdint.h>
#include <stdio.h>
#include "digits.h"
void seen(int32_t layer, int32_t begins);
void seen(int32_t layer, int32_t begins) { printf("%d:%d ", (int)layer, (int)begins); }
static DIGITS_ARENA(arena);
int main(void) { return digits_run(&arena); }
"""


@pytest.mark.cc
def test_a_profile_sees_every_call_of_a_kernel(digits_plain: Bundle, tmp_path: Path) -> None:
    """Ends follow beginnings of the same layer, and each layer has at least one call; without the flag, the object is that of a text
    without the calls.
    """
    (tmp_path / "main.c").write_text(SEEN)
    sources = [str(digits_plain.path / s) for s in digits_plain.manifest["sources"]]
    flags = ["gcc", "-std=c99", *WARNINGS, "-I", str(digits_plain.path)]
    run([*flags, "-DDIGITS_PROFILE=seen", "main.c", *sources, "-o", "seen"], tmp_path)
    calls = [tuple(map(int, word.split(":"))) for word in run(["./seen"], tmp_path).split()]
    begun = [layer for layer, _ in calls[0::2]]
    assert calls == [(layer, begins) for layer in begun for begins in (1, 0)]
    assert set(begun) == set(range(len(digits_plain.manifest["layers"])))
    text = (digits_plain.path / "digits.c").read_text()
    (tmp_path / "digits.c").write_text(re.sub(r"^ *DIGITS_PROFILE\(.*\n", "", text, flags=re.MULTILINE))
    for name, source in (("with", digits_plain.path / "digits.c"), ("without", tmp_path / "digits.c")):
        run([*flags, "-O2", "-c", str(source), "-o", f"{name}.o"], tmp_path)
        run(["objcopy", "--strip-debug", "-O", "binary", "-j", ".text", f"{name}.o", f"{name}.bin"], tmp_path)
    assert (tmp_path / "with.bin").read_bytes() == (tmp_path / "without.bin").read_bytes() != b""


HOSTILE = ['a"b', "*/ int x; /*", "new\nline", "int", "ä→", "conv/1:0", "conv_1_0", "??/", "%s%n", "\\", "{{ 7 * 7 }}"]


@pytest.mark.cc
def test_hostile_names_cannot_break_the_code(tmp_path: Path) -> None:
    """Every name of the model is hostile; the bundle compiles without warnings and gives the reference's bits."""
    x, w, bias, hidden, out = HOSTILE[0], HOSTILE[1], HOSTILE[2], HOSTILE[5], HOSTILE[6]
    import onnx

    nodes = [
        onnx.helper.make_node("Conv", [x, w, bias], [hidden], name="*/\n#error broken\n/*", pads=[1, 1, 1, 1]),
        onnx.helper.make_node("LeakyRelu", [hidden], [out], name="{% endfor %}"),
    ]
    proto = model(nodes, {x: [1, 2, 4, 4]}, {w: weights(3, 2, 3, 3), bias: weights(3)}, (out,))
    proto.graph.name = "*/ evil"
    path = saved(proto, tmp_path, 'we"ird *\n? name.onnx')
    data = tmp_path / "data.npy"
    np.save(data, np.random.default_rng(0).normal(size=(4, 2, 4, 4)).astype(np.float32))
    bundle = compile_model(path, tmp_path / "out", CompileOptions(target="generic"), data=data)
    run(["gcc", "-std=c99", *WARNINGS, "-fsyntax-only", *bundle.manifest["sources"]], bundle.path)
    stored = np.random.default_rng(1).integers(-128, 128, (1, 2, 4, 4)).astype(np.int8)
    found = HostModel(bundle.path).run_stored({x: stored})[out]
    assert np.array_equal(found, reference.run_int(bundle.graph, {x: stored})[out])


def test_a_bundle_carries_its_reference(digits_m4: Bundle) -> None:
    """The graph read back from disk computes the same bits as the one in memory."""
    loaded = load_bundle(digits_m4.path).graph
    name = loaded.inputs[0]
    stored = np.random.default_rng(2).integers(-128, 128, loaded.values[name].shape).astype(np.int8)
    fresh, read = (reference.run_int(g, {name: stored}) for g in (digits_m4.graph, loaded))
    assert all(np.array_equal(fresh[v], read[v]) for v in loaded.outputs)


@pytest.mark.cc
def test_float_io_keeps_float_at_the_edges(digits_dir: Path, tmp_path: Path) -> None:
    options = CompileOptions(target="generic", float_io=True)
    bundle = compile_model(digits_dir / "model.onnx", tmp_path / "out", options, data=digits_dir / "data.npz")
    assert [t["dtype"] for t in (*bundle.manifest["inputs"], *bundle.manifest["outputs"])] == ["float32", "float32"]
    x = np.random.default_rng(0).random((1, 1, 8, 8)).astype(np.float32)
    found = HostModel(bundle.path).run_stored({bundle.graph.inputs[0]: x})
    expected = reference.run_int(bundle.graph, {bundle.graph.inputs[0]: x})
    for name in bundle.graph.outputs:
        assert np.array_equal(found[name], expected[name])


@pytest.mark.cc
def test_sanitizers_find_nothing(digits_here: Bundle, tmp_path: Path) -> None:
    """Full-range inputs through the whole network under AddressSanitizer and UndefinedBehaviorSanitizer."""
    (tmp_path / "main.c").write_text(
        '#include <stdlib.h>\n#include "digits.h"\nint main(void) {\n'
        "    uint32_t state = 1;\n"
        "    uint8_t *arena = aligned_alloc(64, (DIGITS_ARENA_SIZE + 63) / 64 * 64);\n"
        "    for (int sample = 0; sample < 20; sample++) {\n"
        "        for (int i = 0; i < DIGITS_INPUT_IMAGE_SIZE; i++) {\n"
        "            state = state * 1664525u + 1013904223u;\n"
        "            DIGITS_INPUT_IMAGE(arena)[i] = (int8_t)(state >> 24);\n        }\n"
        "        if (digits_run(arena) != DIGITS_OK) return 1;\n    }\n    free(arena);\n    return 0;\n}\n"
    )
    sources = [str(digits_here.path / s) for s in digits_here.manifest["sources"]]
    flags = ["-std=c11", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    run(["gcc", *flags, "-I", str(digits_here.path), "main.c", *sources, "-o", "sanitized"], tmp_path)
    run(["./sanitized"], tmp_path)


def test_the_manifest_is_complete(digits_m4: Bundle) -> None:
    manifest = json.loads((digits_m4.path / "bundle.json").read_text("ascii"))
    assert {"schema", "name", "target", "hash", "arena", "inputs", "outputs", "layers", "sources"} <= set(manifest)
    assert all((digits_m4.path / f).is_file() for f in (*manifest["sources"], *manifest["headers"]))
    assert sum(layer["macs"] for layer in manifest["layers"]) == manifest["macs"] > 0


def test_a_role_may_be_a_name_of_the_model(tmp_path: Path) -> None:
    """Names as newer PyTorch exporters assign them: names that lowering derives are already taken."""
    nodes = [
        node("Conv", "x w", "c", pads=[1, 1, 1, 1]),
        node("ReduceMean", "c axes", "mean", keepdims=0, node_name="node_mean"),
        node("Relu", "mean", "y", node_name="node_mean/sum"),
    ]
    constants = {"axes": np.array([2, 3]), "w": weights(8, 3, 3, 3)}
    proto = model(nodes, {"x": [1, 3, 16, 16]}, constants, opset=18)
    data = tmp_path / "data.npy"
    np.save(data, np.random.default_rng(0).normal(size=(4, 3, 16, 16)).astype(np.float32))
    options = CompileOptions("cortex-m4", plan=PlanOptions(optimize="ram"))
    bundle = compile_model(saved(proto, tmp_path), tmp_path / "out", options, data=data)
    names = [n.name for n in bundle.graph.nodes]
    assert len(names) == len(set(names))
    assert "sum_rows_s8" in [layer["op"] for layer in bundle.manifest["layers"]]


@pytest.mark.cc
def test_the_interface_of_a_glow_bundle(tmp_path: Path) -> None:
    """Three pointers and Glow's macros give the outputs of the reference; names that are our macros do no harm."""
    nodes = [node("Conv", "ok w", "arena_size", pads=[1, 1, 1, 1])]
    proto = model(nodes, {"ok": [1, 2, 5, 5]}, {"w": weights(3, 2, 3, 3)}, ("arena_size",))
    data = tmp_path / "data.npy"
    np.save(data, np.random.default_rng(0).normal(size=(4, 2, 5, 5)).astype(np.float32))
    bundle = compile_model(saved(proto, tmp_path), tmp_path / "net", CompileOptions("generic", name="net"), data=data)
    (tmp_path / "main.c").write_text(
        '#include <stdio.h>\n#include "net_glow.h"\n'
        "static uint8_t mutable_memory[NET_MUTABLE_MEM_SIZE] __attribute__((aligned(NET_MEM_ALIGN)));\n"
        "static uint8_t activations[NET_ACTIVATIONS_MEM_SIZE] __attribute__((aligned(NET_MEM_ALIGN)));\n"
        "int main(void) {\n    memset(GLOW_GET_ADDR(mutable_memory, NET_OK_TENSOR), 7, NET_INPUT_OK_SIZE);\n"
        "    if (net(NULL, mutable_memory, activations) != GLOW_SUCCESS) return 1;\n"
        "    const int8_t *y = (const int8_t *)GLOW_GET_ADDR(mutable_memory, NET_ARENA_SIZE_TENSOR);\n"
        '    for (int i = 0; i < NET_OUTPUT_ARENA_SIZE_COUNT; i++) printf("%d ", y[i]);\n'
        "    return net(NULL, mutable_memory, NULL) == NET_ERROR_ARENA ? 0 : 2;\n}\n"
    )
    sources = [str(bundle.path / s) for s in bundle.manifest["sources"]]
    run(["gcc", "-std=c99", *WARNINGS, "-I", str(bundle.path), "main.c", *sources, "-o", "glow"], tmp_path)
    value = bundle.graph.values["ok"]
    known = reference.run_int(bundle.graph, {"ok": np.full(value.shape, 7, np.int8)})
    found = [int(t) for t in run(["./glow"], tmp_path).split()]
    assert found == known["arena_size"].reshape(-1).tolist()


@pytest.mark.arm_gcc
def test_layers_of_int16_without_scratch_compile_without_warnings(tmp_path: Path) -> None:
    """gcc sees that every call passes no scratch, and must not warn of the copy that no layer makes."""
    layers = [node("MatMul", "x w", "h"), node("Relu", "h", "r"), node("MatMul", "r v", "y")]
    path = saved(model(layers, {"x": (1, 12, 16)}, {"w": weights(16, 16), "v": weights(16, 16)}), tmp_path)
    samples = np.random.default_rng(1).normal(size=(8, 12, 16)).astype(np.float32)
    data = Dataset({"x": samples}, shapes={"x": (1, 12, 16)})
    bundle = compile_model(path, tmp_path / "net", CompileOptions("cortex-m4", dtype="int16", name="net"), data)
    assert {layer["kernel"] for layer in bundle.manifest["layers"]} >= {"ge_fc_s16_dsp"}
    flags = ["-mcpu=cortex-m4", "-mthumb", "-O2", "-Wall", "-Werror", "-ffp-contract=off"]
    subprocess.run([ARM, *flags, "-c", "net.c", "-o", "net.o"], cwd=tmp_path / "net", check=True)
