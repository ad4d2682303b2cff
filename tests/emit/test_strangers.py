"""Every file of a bundle, built as users build it, with other flags and compilers than ours; the bits are those of the
reference.

One network of int8 has every kind of layer in the shapes that kernels tell apart, one has the same in int16 and float32. Each is
compiled once for a target; its C files are then compiled with every row of the tables below and run in a firmware whose rest is
compiled as usual.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import own_firmware
import pytest
from compiled_models import level_here
from every_op import everything
from small_models import model, node, saved, weights

from glowembed.graph.ir import Array
from glowembed.graph.plan import PlanOptions
from glowembed.graph.target import load_board, load_target
from glowembed.pipeline import Bundle, CompileOptions, compile_model
from glowembed.quantize.precision import parse
from glowembed.reference import run_int

LEVELS = ("-O0", "-O1", "-O2", "-O3", "-Os", "-Oz")
STRANGE = ("-flto", "-fshort-enums", "-fstrict-aliasing", "-ffp-contract=fast", "-funsigned-char", "-std=gnu11")
FLAGS = [
    *((level,) for level in LEVELS),
    ("-O2", *STRANGE),
]
"""Flags that a build may pass to a compiler. No level names a language standard, so that it is the compiler's own, in which products and
sums of floats may be contracted; -O2 and above assume strict aliasing.
"""

BOARDS = {"cortex-m0": "nrf51-large", "cortex-m4": "mps2-an386", "cortex-m55": "mps3-an547"}


def convolutions() -> onnx.ModelProto:
    """Windows, strides, channels and groups that kernels tell apart, from one input to one sum."""
    windows = {
        "three": (8, 8, 3, 1, 1, 1), "odd": (8, 6, 3, 1, 1, 1), "five": (8, 8, 5, 2, 1, 1), "few": (8, 2, 3, 1, 1, 1),
        "one": (8, 16, 1, 0, 1, 1), "strided": (8, 8, 3, 1, 2, 1), "pixels": (8, 12, 1, 0, 2, 1),
        "depthwise": (8, 8, 3, 1, 1, 8), "halved": (8, 8, 3, 1, 2, 8), "wide": (8, 8, 5, 2, 1, 8), "grouped": (8, 8, 3, 1, 1, 2),
    }  # fmt: skip
    nodes, constants = (
        [node("Conv", "x w_x", "first", pads=[1] * 4), node("Relu", "first", "start")],
        {"w_x": weights(8, 3, 3, 3)},
    )
    for seed, (name, (inputs, outputs, size, pad, stride, groups)) in enumerate(windows.items()):
        constants[f"w_{name}"] = weights(outputs, inputs // groups, size, size, seed=seed)
        attrs = {"pads": [pad] * 4, "strides": [stride] * 2, "group": groups}
        nodes.append(node("Conv", f"start w_{name}", name, **attrs))
    nodes += [
        node("GlobalAveragePool", "odd", "mean"),
        node("Flatten", "mean", "flat"),
        node("MatMul", "flat w_y", "y"),
    ]
    return model(nodes, {"x": (1, 3, 12, 12)}, {**constants, "w_y": weights(6, 10)}, (*windows, "y"))


@cache
def bundles(target: str, isa: str | None, folder: Path, levels: tuple[str, ...]) -> tuple[Bundle, ...]:
    """The networks of this test for a target, small enough for its board."""
    wide = parse({"rules": [{"name": "i_*", "dtype": "int16"}, {"name": "f_*", "dtype": "float32"}]})
    networks = {"windows": (convolutions(), None), "narrow": (everything(), None), "wider": (everything(), wide)}
    plan = PlanOptions("greedy", effort=0)
    return tuple(
        _compiled(
            proto, folder, CompileOptions(target, name=name, isa=isa, precision=precision, plan=plan, levels=levels)
        )
        for name, (proto, precision) in networks.items()
    )


def _compiled(proto: onnx.ModelProto, folder: Path, options: CompileOptions) -> Bundle:
    place = folder / "-".join([options.target, str(options.isa), *options.levels])
    place.mkdir(exist_ok=True)
    shape = [dim.dim_value for dim in proto.graph.input[0].type.tensor_type.shape.dim]
    np.save(place / "x.npy", np.random.default_rng(3).uniform(-1, 1, (6, *shape[1:])).astype(np.float32))
    return compile_model(saved(proto, place), place / str(options.name), options, place / "x.npy")


MAIN = """#include <string.h>
{includes}
{functions}
int32_t wrong(void);
int32_t wrong(void) {{
    int32_t found = 0;
{calls}    return found;
}}
"""

FUNCTION = """
static const uint8_t {name}_given[] = {{{given}}};
{expected}
static int32_t {name}_wrong(void) {{
    static {NAME}_ARENA(arena);
    memset(&arena, 0x5A, sizeof arena);
    memcpy({NAME}_INPUT_X(&arena), {name}_given, sizeof {name}_given);
    if ({name}_run(&arena) != {NAME}_OK) {{
        return 1;
    }}
    return {checks};
}}
"""


@cache
def main_c(target: str, isa: str | None, folder: Path, levels: tuple[str, ...]) -> str:
    """A function `wrong`: 0, or a bit for each network of `bundles` whose outputs are not those of the reference."""
    found = bundles(target, isa, folder, levels)
    names = [bundle.manifest["name"] for bundle in found]
    return MAIN.format(
        includes="".join(f'#include "{name}.h"\n' for name in names),
        functions="".join(_function(bundle) for bundle in found),
        calls="".join(f"    found |= {name}_wrong() == 0 ? 0 : {1 << i};\n" for i, name in enumerate(names)),
    )


def _function(bundle: Bundle) -> str:
    name, value = bundle.manifest["name"], bundle.graph.values["x"]
    dtype = value.qtype.dtype if value.qtype else "float32"
    random = np.random.default_rng(5)
    given = random.uniform(-1, 1, value.shape).astype(dtype) if dtype == "float32" else random.integers(-128, 128, value.shape).astype(dtype)  # fmt: skip
    outputs = run_int(bundle.graph, {"x": given})
    arrays = {t["id"]: outputs[t["name"]] for t in bundle.manifest["outputs"]}
    expected = "".join(f"static const uint8_t {name}_{i.lower()}[] = {{{_bytes(a)}}};\n" for i, a in arrays.items())
    checks = " + ".join(
        f"(memcmp({name.upper()}_OUTPUT_{i}(&arena), {name}_{i.lower()}, sizeof {name}_{i.lower()}) != 0)"
        for i in arrays
    )
    return FUNCTION.format(name=name, NAME=name.upper(), given=_bytes(given), expected=expected, checks=checks)


def _bytes(array: Array) -> str:
    return ", ".join(map(str, np.ascontiguousarray(array).tobytes()))


def objects(found: Sequence[Bundle], folder: Path, compiler: str, flags: Sequence[str]) -> list[Path]:
    """The C files of the bundles, compiled without our flags."""
    made = []
    for path in (bundle.path / source for bundle in found for source in bundle.manifest["sources"]):
        made.append(folder / f"{path.stem}.o")
        run([compiler, *flags, "-Wall", "-Werror", "-c", path, "-o", made[-1]], folder)
    return made


def run(command: Sequence[str | Path], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stderr[-3000:]}"


def core_flags(target: str) -> list[str]:
    """The flags that a toolchain needs for a core, and no others."""
    return [flag for flag in load_target(target).cflags if flag.startswith("-m")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("strangers")


CLANG = {
    "cortex-m0": ("--target=thumbv6m-none-eabi", "-mcpu=cortex-m0"),
    "cortex-m4": ("--target=thumbv7em-none-eabihf", "-mcpu=cortex-m4"),
    "cortex-m55": ("--target=thumbv8.1m.main-none-eabihf", "-mcpu=cortex-m55"),
}
NEWLIB = "/usr/include/newlib"
STRICT = ("-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Wundef")

CASES = [
    *((target, None, flags) for target in BOARDS for flags in FLAGS),
    *((target, "portable", ("-std=c99", "-pedantic-errors")) for target in BOARDS),
    ("cortex-m55", "dsp", ("-O2",)),
]


def case_id(part: object) -> str:
    return " ".join(part) if isinstance(part, tuple) else str(part)


@pytest.mark.arm_gcc
@pytest.mark.qemu
@pytest.mark.parametrize(("target", "isa", "flags"), CASES, ids=case_id)
def test_emulated(target: str, isa: str | None, flags: tuple[str, ...], folder: Path, tmp_path: Path) -> None:
    check_emulated(target, isa, "arm-none-eabi-gcc", [*core_flags(target), *flags], folder, tmp_path)


@pytest.mark.arm_gcc
@pytest.mark.qemu
@pytest.mark.parametrize("level", ["-O0", "-O2"])
@pytest.mark.parametrize("target", CLANG)
def test_emulated_by_clang(target: str, level: str, folder: Path, tmp_path: Path) -> None:
    if shutil.which("clang") is None or not Path(NEWLIB).is_dir():
        pytest.skip("no clang, or no newlib in its usual place")
    flags = [*CLANG[target], "-ffreestanding", "-isystem", NEWLIB, "-fshort-enums", level, *STRICT]
    check_emulated(target, None, "clang", flags, folder, tmp_path)


def check_emulated(
    target: str, isa: str | None, compiler: str, flags: Sequence[str], folder: Path, tmp_path: Path
) -> None:
    found, board = bundles(target, isa, folder, ()), load_board(BOARDS[target])
    made = objects(found, tmp_path, compiler, flags)
    main = (
        main_c(target, isa, folder, ())
        + '#include "semihost.h"\nint main(void) {\n    ge_semihost_exit((int)wrong());\n}\n'
    )
    includes = [f"-I{bundle.path}" for bundle in found]
    includes.append("-Wl,-z,noexecstack")  # clang's objects say so, newlib's say nothing
    elf = own_firmware.build(main, made, tmp_path, board, includes)
    assert own_firmware.run(elf, board.name) == (0, "")


HOST = [
    ("gcc", None, True, ("-O0",)),
    ("gcc", None, False, ("-O1", "-march=haswell", *STRANGE)),
    ("clang", None, False, ("-O1", "-std=c99", *STRICT)),
    ("gcc", "portable", False, ("-O1", "-std=c99", "-pedantic-errors", "-U__GNUC__", "-U_FORTIFY_SOURCE", "-Wno-unknown-pragmas")),
]  # fmt: skip
"""Compiler, kernels, whether in all levels or in the best one of this computer and in portable C, flags. An optimizer takes long for
each level; test_bundle.py has clang compile all levels of a network at -O2.
"""


@pytest.mark.cc
@pytest.mark.parametrize(("compiler", "isa", "all_levels", "flags"), HOST, ids=case_id)
def test_host(
    compiler: str, isa: str | None, all_levels: bool, flags: tuple[str, ...], folder: Path, tmp_path: Path
) -> None:
    """The bundle is a shared library here, and runs at every level that it and this computer have."""
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler}")
    levels = level_here() if isa is None and not all_levels else ()
    found = bundles("x86-64", isa, folder, levels)
    made = objects(found, tmp_path, compiler, ["-fPIC", *flags])
    (tmp_path / "main.c").write_text(main_c("x86-64", isa, folder, levels))
    includes = [f"-I{bundle.path}" for bundle in found]
    run([compiler, "-shared", "-fPIC", *includes, "main.c", *made, "-o", "all.so"], tmp_path)
    library = ctypes.CDLL(str(tmp_path / "all.so"))
    for level in range(max(len(bundle.manifest["levels"]) for bundle in found) or 1):
        for bundle in found:
            if bundle.manifest["levels"]:
                getattr(library, f"{bundle.manifest['name']}_use_level")(level)
        assert library.wrong() == 0, f"level {level}"


@pytest.mark.cc
@pytest.mark.parametrize("flag", ["-ffast-math", "-ffinite-math-only"])
def test_arithmetic_that_changes_bits_is_refused(flag: str, folder: Path, tmp_path: Path) -> None:
    """Bundles that compute with floats refuse flags that change the bits; kernels of int8 for a core do not need to."""
    wider = next(b for b in bundles("x86-64", None, folder, ()) if b.manifest["name"] == "wider")
    command = ["gcc", flag, "-fsyntax-only", wider.path / "wider.c"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode != 0 and "compile it without" in done.stderr
