"""The files of a bundle for build systems, used by real ones: NAME.mk with make, CMakeLists.txt with CMake, from any
folder.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from small_models import model, node, saved, weights

from glowembed import reference
from glowembed.graph.plan import Places, PlanOptions
from glowembed.image.combine import combine
from glowembed.pipeline import Bundle, CompileOptions, compile_model

pytestmark = pytest.mark.cc

MAIN = """#include <string.h>
#include "net.h"
static const int8_t expected[] = {%s};
static NET_ARENA(arena);
int main(void) {
    memset(NET_INPUT_X(&arena), 7, NET_INPUT_X_SIZE);
    return net_run(&arena) != NET_OK || memcmp(NET_OUTPUT_Y(&arena), expected, sizeof expected) != 0;
}
"""

MAKEFILE = """include {folder}/{name}.mk
program: main.c $({NAME}_SOURCES)
\tgcc -std=c99 -Wall -Werror $({NAME}_INCLUDES) $({NAME}_CFLAGS) $^ -o $@
"""


def compiled(folder: Path, name: str = "net", **options: object) -> Bundle:
    """Without the kernels of x86-64, which compile for ten times as long, unless `isa` is None."""
    nodes = [node("Conv", "x w", "t", pads=[1] * 4), node("Relu", "t", "y")]
    path = saved(model(nodes, {"x": [1, 3, 6, 6]}, {"w": weights(4, 3, 3, 3)}), folder)
    np.save(folder / "x.npy", np.random.default_rng(0).normal(size=(8, 3, 6, 6)).astype(np.float32))
    wanted = CompileOptions("x86-64", name=name, **{"isa": "portable", **options})  # type: ignore[arg-type]
    return compile_model(path, folder / name, wanted, folder / "x.npy")


def main_c(bundle: Bundle) -> str:
    graph = bundle.graph
    value = graph.values[graph.inputs[0]]
    found = reference.run_int(graph, {value.name: np.full(value.shape, 7, np.int8)})[graph.outputs[0]]
    return MAIN % ", ".join(map(str, found.reshape(-1).tolist()))


def run(command: Sequence[str | Path], cwd: Path, code: int = 0) -> str:
    environment = {k: v for k, v in os.environ.items() if k not in ("CFLAGS", "MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == code, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project in a folder with a space in its name."""
    folder = tmp_path / "My project"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("options", [{}, {"plan": PlanOptions(optimize="size")}], ids=["plain", "size"])
def test_make(project: Path, options: dict[str, PlanOptions]) -> None:
    bundle = compiled(project, **options)
    text = (bundle.path / "net.mk").read_text()
    assert [line.split(" :=")[0] for line in text.splitlines() if " := " in line] == [
        "NET_DIR", "NET_SOURCES", "NET_INCLUDES", *(["NET_CFLAGS"] if options else []),
    ]  # fmt: skip
    (project / "main.c").write_text(main_c(bundle))
    (project / "Makefile").write_text(MAKEFILE.format(folder="net", name="net", NAME="NET"))
    assert ("-Os" in run(["make", "program"], project)) == bool(options)
    run([project / "program"], project)


def test_make_from_another_folder(tmp_path: Path) -> None:
    bundle, elsewhere = compiled(tmp_path), tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "main.c").write_text(main_c(bundle))
    (elsewhere / "Makefile").write_text(MAKEFILE.format(folder=bundle.path, name="net", NAME="NET"))
    run(["make", "program"], elsewhere)
    run([elsewhere / "program"], elsewhere)


def test_make_says_what_it_cannot_do(project: Path) -> None:
    bundle = compiled(project)
    (project / "Makefile").write_text(
        MAKEFILE.format(folder=str(bundle.path).replace(" ", "\\ "), name="net", NAME="NET")
    )
    assert "include it by a relative path" in run(["make", "program"], project, code=2)


def test_combined_bundles(project: Path) -> None:
    bundles = [compiled(project, name, isa=None) for name in ("net", "other")]
    combine([bundle.path for bundle in bundles], project / "both", "both")
    (project / "main.c").write_text(main_c(bundles[0]).replace("net.h", "both.h").replace("NET_ARENA", "BOTH_ARENA"))
    (project / "Makefile").write_text(MAKEFILE.format(folder="both", name="both", NAME="BOTH"))
    run(["make", "program"], project)
    run([project / "program"], project)


CMAKE = """cmake_minimum_required(VERSION 3.16)
project(stranger C)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
add_subdirectory({folder})
add_executable(program main.c)
target_link_libraries(program {folder})
add_library(plugin SHARED empty.c)
target_link_libraries(plugin -Wl,--whole-archive {folder} -Wl,--no-whole-archive)
"""


@pytest.mark.parametrize("build_type", ["", "Debug", "MinSizeRel"])
def test_cmake(project: Path, build_type: str) -> None:
    """The bundle is optimized by default; it is part of a program and of a shared library. Kernels of x86-64 are built for size here,
    and for speed by most tests of their own.
    """
    if shutil.which("cmake") is None:
        pytest.skip("no cmake")
    small = build_type == "MinSizeRel"
    bundle = compiled(project, isa=None if small else "portable")
    (project / "main.c").write_text(main_c(bundle))
    (project / "empty.c").write_text("extern int nothing;\n")
    (project / "CMakeLists.txt").write_text(CMAKE.format(folder="net"))
    given = [f"-DCMAKE_BUILD_TYPE={build_type}"] if build_type else []
    run(["cmake", "-S", ".", "-B", "out put", "-DCMAKE_C_COMPILER=gcc", *given], project)
    run(["cmake", "--build", "out put"], project)
    run([project / "out put" / "program"], project)
    commands = json.loads((project / "out put" / "compile_commands.json").read_text())
    own = [entry["command"] for entry in commands if Path(entry["file"]).name in bundle.manifest["sources"]]
    assert len(own) == 2 and all(("-O2" in command) == (build_type == "") and "-fPIC" in command for command in own)
    api = {"net_run", "net_run_layers", "net_weights_crc"}
    assert exported(project / "out put" / "libplugin.so") == (api | {"net_use_level"} if small else api)


def exported(library: Path) -> set[str]:
    listing = run(["nm", "-D", "--defined-only", library], library.parent)
    return {line.split()[-1] for line in listing.splitlines()}


def test_the_api_is_exported_with_hidden_visibility(tmp_path: Path) -> None:
    bundle = compiled(tmp_path, isa=None)
    sources = [bundle.path / source for source in bundle.manifest["sources"]]
    run(["gcc", "-shared", "-fPIC", "-fvisibility=hidden", *sources, "-o", "net.so"], tmp_path)
    assert exported(tmp_path / "net.so") == {"net_run", "net_run_layers", "net_use_level", "net_weights_crc"}


CPP = """#include <cstdint>
#include <memory>
#include <vector>
#include "net.h"
#include "net_glow.h"
static NET_ARENA(fixed);
int main() {
    std::vector<net_arena> several(3);
    const std::unique_ptr<net_arena> one(new net_arena);
    int wrong = net_run(&fixed) + net_run(one.get());
    for (net_arena &arena : several) {
        *NET_INPUT_X(&arena) = 1;
        wrong += net_run(&arena) + *NET_OUTPUT_Y(&arena) * 0;
    }
    return wrong;
}
"""


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
@pytest.mark.parametrize("places", ["arena", "rows"])
def test_cpp(compiler: str, places: str, tmp_path: Path) -> None:
    """A bundle in C++ needs no C casts, and its arenas are aligned wherever they lie."""
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler}")
    rows = places == "rows"
    bundle = compiled(tmp_path, **({"input_layout": "nhwc", "places": Places(input="rows")} if rows else {}))
    (tmp_path / "main.cpp").write_text('#include "net_glow.h"\nint main() { return 0; }\n' if rows else CPP)
    flags = "-Wall -Wextra -Wpedantic -Wold-style-cast -Wshadow -Wconversion -Wcast-qual -Werror -std=c++17".split()
    for source in bundle.manifest["sources"]:
        run(["gcc", "-std=c99", "-c", bundle.path / source, "-o", f"{source}.o"], tmp_path)
    objects = [f"{source}.o" for source in bundle.manifest["sources"]]
    run([compiler, *flags, f"-I{bundle.path}", "main.cpp", *objects, "-o", "program"], tmp_path)
    run([tmp_path / "program"], tmp_path)
