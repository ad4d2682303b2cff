"""SCons builds the goals that are requested and no others, and refuses wrong ones with a message; build() reads the
result.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace

import fake_bundle
import pytest
from checkout import ROOT
from json_result import check_json

from glowembed import resources
from glowembed.__main__ import main
from glowembed.commands.build import result_of
from glowembed.errors import DoesNotFit, ToolError, UsageError
from glowembed.graph.target import board_names, load_board
from glowembed.image.build import build
from glowembed.judge import regress
from glowembed.run import objects
from glowembed.show import regress_view

EMULATED = [name for name in board_names() if name != "host"]


def scons(*words: str | Path, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "SCons", "-f", str(ROOT / "SConstruct"), *map(str, words)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, env={**os.environ, **env}, timeout=300)


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return fake_bundle.write(tmp_path / "bundle", "cortex-m4")


# --- build() ---------------------------------------------------------------------------------------------------


@pytest.mark.arm_gcc
def test_image(bundle: Path, tmp_path: Path) -> None:
    image = build(bundle, load_board("mps2-an386"), tmp_path / "build")
    assert image.elf.is_file()
    assert 20 < image.code < 400
    assert image.weights == 8
    assert (image.data, image.bss, image.rodata) == (0, 0, 0)
    assert image.symbols == ()
    version = subprocess.run(["arm-none-eabi-gcc", "-dumpfullversion"], capture_output=True, text=True, check=True)
    assert image.toolchain is not None and image.toolchain.startswith("GCC: ")
    assert version.stdout.strip() in image.toolchain
    used = {memory.name: size for memory, size in image.used}
    assert 1000 < used["zbt_code"] < 10_000
    assert 0 < used["psram"] < 1000
    check_json("build", json.loads(json.dumps(result_of("mps2-an386", image))))


@pytest.mark.arm_gcc
def test_symbols_show_what_the_bundle_needs(tmp_path: Path) -> None:
    source = """#include <math.h>
    int32_t fake_run(void *arena) {
        volatile float *const x = arena;
        x[0] = expf(x[1]);
        return 0;
    }"""
    bundle = fake_bundle.write(tmp_path / "bundle", "cortex-m0", fake_bundle.whole(source))
    with pytest.raises(ToolError, match="undefined reference to `expf'"):
        build(bundle, load_board("nrf51-large"), tmp_path / "build")
    source = source.replace("expf(x[1])", "x[1] * x[1]")
    bundle = fake_bundle.write(tmp_path / "bundle", "cortex-m0", fake_bundle.whole(source))
    assert build(bundle, load_board("nrf51-large"), tmp_path / "build").symbols == ("__aeabi_fmul",)


@pytest.mark.cc
@pytest.mark.arm_gcc
@pytest.mark.parametrize(
    ("target", "board", "kept"),
    [("x86-64", "host", {"bundle", "harness"}), ("cortex-m4", "mps2-an386", {"harness", "board"})],
)
def test_objects_are_shared_and_differ_with_what_they_are_made_from(
    target: str, board: str, kept: set[str], tmp_path: Path
) -> None:
    def built(name: str, result: int) -> str:
        source = fake_bundle.whole(f"int32_t fake_run(void *arena) {{ return arena ? {result} : 1; }}")
        bundle = fake_bundle.write(tmp_path / name, target, source)
        place = tmp_path / f"build-{name}"
        place.mkdir()
        return scons("-Q", f"bundle={bundle}", f"board={board}", "build=.", cwd=place, HOME=str(tmp_path)).stdout

    first, same, other = built("first", 2), built("same", 2), built("other", 3)
    assert "Retrieved" not in first
    assert {line.split("/")[1] for line in same.splitlines() if "Retrieved" in line} == kept
    assert "compile sources/bundle/fake.c" in other and "Retrieved `obj/harness/" in other
    programs = [
        next((tmp_path / f"build-{name}").glob("*.[es][lo]*")).read_bytes() for name in ("first", "same", "other")
    ]
    assert programs[0] == programs[1] != programs[2]


@pytest.mark.cc
def test_host_is_a_shared_library(tmp_path: Path) -> None:
    bundle = fake_bundle.write(tmp_path / "bundle", "x86-64")
    image = build(bundle, load_board("host"), tmp_path / "build")
    assert image.elf.name == "bundle.so"
    assert image.code > 0
    assert image.weights == 8
    assert image.stack is None


@pytest.mark.arm_gcc
@pytest.mark.parametrize(
    ("board", "weights", "arena", "expected"),
    [
        ("microbit", 300_000, 24, "flash 'flash' (262,144 bytes at 0x00000000) is too small by "),
        ("microbit", 8, 20_000, "RAM 'ram' (16,384 bytes at 0x20000000) is too small by "),
        ("lm3s6965evb-m0", 300_000, 24, "flash 'flash' (262,144 bytes"),
        ("lm3s6965evb-m0", 8, 70_000, "RAM 'sram' (65,536 bytes"),
        ("mps3-an547", 3_000_000, 24, "flash 'sram' (2,097,152 bytes"),
    ],
)
def test_board_that_is_too_small(tmp_path: Path, board: str, weights: int, arena: int, expected: str) -> None:
    found = load_board(board)
    bundle = fake_bundle.write(tmp_path / "bundle", found.target, weights=weights, arena=arena)
    with pytest.raises(DoesNotFit) as error:
        build(bundle, found, tmp_path / "build")
    assert f"does not fit board {board!r}: {expected}" in str(error.value)
    assert error.value.exit_code == 2
    (missing,) = error.value.overflows.values()
    assert 1000 < missing < 1_200_000
    assert f"{missing:,} bytes. Choose a board with more memory" in str(error.value)
    assert not (tmp_path / "build" / "firmware.elf").exists()


@pytest.mark.arm_gcc
def test_overflow_is_exact(tmp_path: Path) -> None:
    board = load_board("microbit")
    missing = []
    for weights in (300_000, 300_016):
        bundle = fake_bundle.write(tmp_path / "bundle", board.target, weights=weights)
        with pytest.raises(DoesNotFit) as error:
            build(bundle, board, tmp_path / "build")
        missing.append(error.value.overflows["flash"])
    assert missing[1] - missing[0] == 16


@pytest.mark.arm_gcc
def test_warning_is_an_error(tmp_path: Path) -> None:
    source = fake_bundle.ADD_AND_DOUBLE.replace("(int8_t)((value", "((value")
    bundle = fake_bundle.write(tmp_path / "bundle", "cortex-m4", source)
    with pytest.raises(ToolError, match="Werror=conversion"):
        build(bundle, load_board("mps2-an386"), tmp_path / "build")


@pytest.mark.parametrize(
    ("board", "package"), [("mps2-an386", "gcc-arm-none-eabi libnewlib-arm-none-eabi"), ("host", "gcc libc6-dev")]
)
def test_missing_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, board: str, package: str) -> None:
    found = load_board(board)
    bundle = fake_bundle.write(tmp_path / "bundle", found.target)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ToolError, match=f"apt-get install {package}") as error:
        build(bundle, found, tmp_path / "build")
    assert (error.value.exit_code, error.value.package) == (4, package)
    assert not (tmp_path / "build").exists()


def test_wrong_target(bundle: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is for target 'cortex-m4', but board 'mps2-an385' is 'cortex-m3'"):
        build(bundle, load_board("mps2-an385"), tmp_path / "build")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, "is not a bundle: it has no bundle.json"),
        ("{", "cannot be read"),
        ("[]", "expected an object"),
        ('{"schema": 1}', "lacks name, target, hash"),
    ],
)
def test_what_is_not_a_bundle(tmp_path: Path, text: str | None, expected: str) -> None:
    if text is not None:
        (tmp_path / "bundle.json").write_text(text)
    with pytest.raises(UsageError, match=expected):
        build(tmp_path, load_board("mps2-an386"), tmp_path / "build")


@pytest.mark.parametrize("name", ["../evil.c", "/etc/passwd", "no such.c", "a/../../b.c", "missing.c"])
def test_sources_stay_in_the_bundle(bundle: Path, tmp_path: Path, name: str) -> None:
    path = bundle / "bundle.json"
    path.write_text(path.read_text().replace('"fake.c"', f'"{name}"'))
    with pytest.raises(UsageError, match="which is not a file of the bundle"):
        build(bundle, load_board("mps2-an386"), tmp_path / "build")


# --- scons -----------------------------------------------------------------------------------------------------


@pytest.mark.arm_gcc
def test_second_scons_does_nothing(bundle: Path, tmp_path: Path) -> None:
    words = (f"bundle={bundle}", "board=mps2-an386", "build=out")
    first = scons(*words, cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    assert (tmp_path / "out" / "firmware.elf").is_file()
    assert "firmware' is up to date." in scons(*words, cwd=tmp_path).stdout

    (bundle / "fake.c").write_text((bundle / "fake.c").read_text() + "/* changed */\n")
    third = scons(*words, cwd=tmp_path).stdout
    assert "fake.o" in third or "fake.c" in third
    assert "main.c" not in third
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bundle", "out"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["bord=mps2-an386"], "unknown option 'bord'. Did you mean 'board'?"),
        (["target=cortex-m44"], "unknown target 'cortex-m44'. Did you mean 'cortex-m4'?"),
        (["board=mps2-386"], "unknown board 'mps2-386'. Did you mean 'mps2-an386'?"),
        (["regres"], "unknown goal 'regres'. Did you mean 'regress'?"),
        (["model=nothing.onnx"], "there is no file"),
        (["target=cortex-m7", "board=mps2-an386"], "board 'mps2-an386' has target 'cortex-m4', not 'cortex-m7'"),
        (["bundle=nowhere"], "nowhere is not a bundle"),
    ],
)
def test_scons_refuses(tmp_path: Path, words: list[str], expected: str) -> None:
    result = scons(*words, cwd=tmp_path)
    assert result.returncode == 2
    assert expected in result.stderr
    assert "Traceback" not in result.stderr


def test_scons_help_lists_the_choices(tmp_path: Path) -> None:
    result = scons("-h", cwd=tmp_path)
    assert result.returncode == 0
    for word in ("cortex-m0 | cortex-m0plus |", "mps2-an386", "scons regress", "scons qemu", "model", "Examples:"):
        assert word in result.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.arm_gcc
def test_scons_names_the_package_of_a_missing_compiler(bundle: Path, tmp_path: Path) -> None:
    result = scons(f"bundle={bundle}", cwd=tmp_path, PATH="")
    assert result.returncode == 2
    assert "apt-get install gcc-arm-none-eabi" in result.stderr


@pytest.mark.arm_gcc
@pytest.mark.parametrize("board", EMULATED)
def test_all_c_of_a_board_is_reached_from_any_folder(tmp_path: Path, board: str) -> None:
    elsewhere = tmp_path / "with spaces, and more"
    elsewhere.mkdir()
    bundle = fake_bundle.write(elsewhere / "a bundle", load_board(board).target)
    result = scons(f"bundle={bundle}", f"board={board}", cwd=elsewhere)
    assert result.returncode == 0, result.stderr
    assert shutil.which("arm-none-eabi-gcc") is not None


@pytest.mark.arm_gcc
def test_scons_compiles_a_model_once(tmp_path: Path) -> None:
    first = scons("-Q", "target=cortex-m0", "board=microbit", cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    assert (tmp_path / "build/digits/microbit/firmware.elf").is_file()
    assert (
        scons("-Q", "target=cortex-m0", "board=microbit", cwd=tmp_path).stdout == "scons: `firmware' is up to date.\n"
    )
    cleaned = scons("-Q", "-c", "target=cortex-m0", "board=microbit", cwd=tmp_path)
    assert cleaned.returncode == 0
    assert not any((tmp_path / "build/digits/microbit").iterdir())


@pytest.mark.arm_gcc
@pytest.mark.qemu
def test_scons_runs_and_regresses(tmp_path: Path) -> None:
    ran = scons("-Q", "qemu", "board=mps3-an547", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    regressed = scons("-Q", "regress", "targets=cortex-m4,generic", "samples=20", cwd=tmp_path)
    assert regressed.returncode == 0, regressed.stdout
    rows = [line.split("|")[1:-1] for line in regressed.stdout.splitlines() if line.startswith("| digits")]
    assert [(row[1].strip(), row[3].strip()) for row in rows] == [("cortex-m4", "yes"), ("generic", "yes")]


# --- the table -------------------------------------------------------------------------------------------------


def test_table() -> None:
    rows = [
        regress.Row("kws", "cortex-m4", "mps2-an386", True, 0.9136, 880, 8_473_853, 16_000, 9_000, 22_000, 780),
        regress.Row("kws", "cortex-m0", "microbit", error="does not fit", exit_code=2),
    ]
    text = regress_view.table(rows)
    check_json("regress", [asdict(row) for row in rows])
    assert len({len(line) for line in text.splitlines()[:4]}) == 1
    assert "| kws   | cortex-m4 | mps2-an386 |       yes |   0.9136 |" in text
    assert text.endswith("kws on cortex-m0: does not fit\n")
    assert regress.exit_code(rows) == 2


def test_jobs(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("a/model.onnx", "b/net.onnx", "c/net.onnx", "d.npz")]
    for path in paths:
        path.parent.mkdir(exist_ok=True)
        path.touch()
    cells = regress.jobs([(path, paths[3]) for path in paths[:3]], ["cortex-m4", "x86-64"])
    assert [(cell.name, cell.target, cell.board) for cell in cells[:3]] == [
        ("a", "cortex-m4", "mps2-an386"),
        ("a", "x86-64", "host"),
        ("b-net", "cortex-m4", "mps2-an386"),
    ]
    with pytest.raises(UsageError, match="there is no file"):
        regress.jobs([(tmp_path / "none.onnx", paths[3])], ["cortex-m4"])


@pytest.mark.cc
def test_two_validates_of_a_bundle_at_once(tmp_path: Path, digits: Path) -> None:
    """Both find the build folder locked by us, say that they wait, and succeed once it is free."""
    bundle, build_dir = tmp_path / "bundle", tmp_path / "build"
    data = str(digits / "data.npz")
    options = ["--data", data, "--target", "x86-64", "--isa", "portable"]
    assert main(["compile", str(digits / "model.onnx"), *options, "-o", str(bundle)]) == 0
    build_dir.mkdir()
    words = [sys.executable, "-m", "glowembed", "validate", str(bundle), "--data", data, "--board", "host"]
    words += ["--samples", "3", "--build-dir", str(build_dir)]
    with (build_dir / "lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        runs = [subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) for _ in range(2)]
        said = [next(iter(run.stderr), "") for run in runs if run.stderr is not None]
    rest = [run.communicate()[1] for run in runs]
    assert said == [f"waiting for another build in {build_dir}\n"] * 2, rest
    assert [run.returncode for run in runs] == [0, 0], rest


def test_scons_compiles_again_when_anything_of_the_compiler_changes(tmp_path: Path) -> None:
    """Modules, templates, kernels of every core and targets are what a bundle is made from."""
    digits = ROOT / "examples" / "digits"
    words = [f"model={digits / 'model.onnx'}", f"data={digits / 'data.npz'}", "board=host", f"build={tmp_path / 'out'}"]
    command = [sys.executable, "-m", "SCons", "-Q", "-n", "--tree=prune", "-f", str(ROOT / "SConstruct"), *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    wanted = ("emit/templates/bundle.c.j2", "pipeline.py", "kernels/dsp/conv2d_s8_dsp.c", "targets/x86-64.toml")
    assert all(name in done.stdout for name in wanted)


@pytest.mark.parametrize(("free", "shared"), [(objects.ROOM, True), (objects.ROOM - 1, False)])
def test_objects_are_not_shared_on_a_full_disk(
    free: int, shared: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SCons ends with a traceback where it cannot write into its cache."""
    monkeypatch.setattr(resources, "user_cache", lambda kind: tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=free))
    assert (objects.shared("a compiler") == tmp_path) is shared
