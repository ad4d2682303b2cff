"""Every kind of export has a program in examples/exports that finds the bits of the reference and the right digit.

Where the tool of a kind cannot be had here, the program is compiled for this computer against the parts of its headers that it uses.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import fake_headers
import pytest
import yaml
from checkout import ROOT

from glowembed.export.package import kinds
from glowembed.pipeline import CompileOptions, compile_model

pytestmark = pytest.mark.cc

EXAMPLES = ROOT / "examples" / "exports"
SAID = "digits: the bits are those of the reference\ndigits: this is a 9\n"
SKETCH = "g++ -std=c++11 -include Arduino.h -x c++".split()
STRICT = "-Wall -Wextra -Wpedantic -Wconversion -Werror".split()


@pytest.fixture(scope="module")
def bundle(digits: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The digits network in portable C, which compiles quickly and runs on this computer."""
    folder = tmp_path_factory.mktemp("bundle") / "digits"
    compile_model(digits / "model.onnx", folder, CompileOptions("generic", name="digits"), digits / "data.npz")
    return folder


def run(*words: str | Path, **environment: str) -> str:
    clean = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=clean | environment)
    assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def built(folder: Path, sources: list[Path], *flags: str | Path) -> str:
    """The output of an example's program, built with the C of its export."""
    code = "csrc" if (folder / "digits/csrc").is_dir() else "src"
    own = [f"-I{folder / 'digits' / place}" for place in ("include", code)]
    objects = []
    for source in (*sorted((folder / "digits" / code).glob("*.c")), *sources):
        compiler = SKETCH if source.suffix == ".ino" else ["gcc", "-std=c99"]
        objects.append(folder / f"{source.stem}.o")
        run(*compiler, *STRICT, *own, *flags, "-c", source, "-o", objects[-1])
    run("g++", *objects, "-o", folder / "program")
    return run(folder / "program")


def zephyr(folder: Path) -> str:
    stub = folder / "stub/zephyr/sys"
    stub.mkdir(parents=True)
    (stub / "printk.h").write_text("#include <stdio.h>\n#define printk printf\n")
    app = folder / "app"
    assert (app / "../digits/zephyr/module.yml").is_file()
    return built(folder, [app / "src/main.c", app / "classify.c"], f"-I{app}", f"-I{folder / 'stub'}")


def esp_idf(folder: Path) -> str:
    app = folder / "app"
    needed = yaml.safe_load((app / "main/idf_component.yml").read_text())["dependencies"]["digits"]
    assert (app / "main" / needed["override_path"] / "idf_component.yml").is_file()
    (folder / "start.c").write_text("void app_main(void);\nint main(void) { app_main(); return 0; }\n")
    return built(folder, [app / "main/main.c", app / "classify.c", folder / "start.c"], f"-I{app}")


def platformio(folder: Path) -> str:
    app = folder / "app"
    place = (app / "platformio.ini").read_text().partition("symlink://")[2].strip()
    assert (app / place / "library.json").is_file()
    return built(folder, sorted((app / "src").glob("*.c")))


def cmsis_pack(folder: Path) -> str:
    app = folder / "app"
    project = yaml.safe_load((app / "app.cproject.yml").read_text())["project"]
    pack = ET.parse(folder / "digits/glowembed.digits.pdsc").getroot()  # our own file
    there = {":".join(str(c.get(key)) for key in ("Cclass", "Cgroup", "Csub")) for c in pack.iter("component")}
    assert {c["component"] for c in project["components"] if "::" not in c["component"]} == there
    return built(folder, [app / file["file"] for file in project["groups"][0]["files"]])


def arduino(folder: Path) -> str:
    (folder / "stub").mkdir()
    (folder / "stub/Arduino.h").write_text(fake_headers.ARDUINO)
    (folder / "serial.ino").write_text(fake_headers.ARDUINO_ON_A_PC)
    sketch = folder / "app/Digit/Digit.ino"
    return built(folder, [sketch, folder / "serial.ino"], f"-I{folder / 'stub'}")


def micropython(folder: Path) -> str:
    """The script, with a module that calls the C of the export as the module of MicroPython does."""
    library = folder / "app/libdigits.so"
    run("gcc", "-shared", "-fPIC", f"-I{folder / 'digits/src'}", *(folder / "digits/src").glob("*.c"), "-o", library)
    (folder / "app/digits.py").write_text(fake_headers.MODULE_OF_DIGITS)
    shutil.copy(folder / "app/image.h", folder)
    return run(sys.executable, folder / "app/main.py")


STAND_INS: dict[str, Callable[[Path], str]] = {
    "arduino": arduino,
    "cmsis-pack": cmsis_pack,
    "esp-idf": esp_idf,
    "micropython": micropython,
    "platformio": platformio,
    "zephyr": zephyr,
}
"""The kinds whose tools need more than the registries of CI: SDKs, cores and platforms that they download."""

TOOLS = {"rust": "cargo"}


@pytest.mark.parametrize("kind", sorted(kinds()))
def test_an_example_finds_the_bits_and_the_digit(
    kind: str, bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which(TOOLS.get(kind, "cc")) is None:
        pytest.skip(f"no {TOOLS[kind]}")
    folder = tmp_path / "a folder"
    build = "no" if kind in STAND_INS else "yes"
    said = run(EXAMPLES / "run.sh", kind, folder, BUNDLE=str(bundle), BUILD=build)
    if kind in STAND_INS:
        monkeypatch.chdir(folder)
        said = STAND_INS[kind](folder)
    assert said.endswith(SAID)


def test_every_kind_has_an_example() -> None:
    assert {path.name for path in EXAMPLES.iterdir() if path.is_dir()} - {"common"} == set(kinds())


def test_a_kind_without_its_tool_says_what_to_run(bundle: Path, tmp_path: Path) -> None:
    words = [EXAMPLES / "run.sh", "micropython", tmp_path / "out"]
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "BUNDLE": str(bundle)}, check=False)
    assert done.returncode == 4
    assert "Where it is installed, run: MICROPYTHON=" in done.stderr


def test_an_unknown_kind_is_named(tmp_path: Path) -> None:
    done = subprocess.run([EXAMPLES / "run.sh", "cmke", tmp_path], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "run.sh: no such example: cmke\n")
