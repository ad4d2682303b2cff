"""Every kind of export, built with the tool that it is for where that is here, gives the bits of the reference."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable, Sequence
from pathlib import Path

import fake_headers
import numpy as np
import own_firmware
import pytest
import yaml
from compiled_models import compiled
from small_models import model, node, weights

from glowembed.export.package import export, kinds
from glowembed.graph.target import load_board
from glowembed.pipeline import Bundle
from glowembed.reference import run_int

pytestmark = pytest.mark.cc

SAME = "net: the bits are those of the reference"
MAIN = """#include "net_selftest.h"
static NET_ARENA(arena);
int main(void) { return (int)net_selftest(&arena); }
"""
ON_A_BOARD = """#include "net_selftest.h"
#include "semihost.h"
static NET_ARENA(arena);
int main(void) { ge_semihost_exit((int)net_selftest(&arena)); }
"""
STRICT = "-Wall -Wextra -Wpedantic -Wconversion -Werror"


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Bundle]:
    """A small network for this computer, in portable C because it is quick to compile, and for a Cortex-M4."""
    nodes = [node("Conv", "x w", "t", pads=[1] * 4), node("Relu", "t", "y")]
    folders = {target: tmp_path_factory.mktemp(target) for target in ("generic", "cortex-m4")}
    proto = model(nodes, {"x": [1, 3, 6, 6]}, {"w": weights(4, 3, 3, 3)})
    return {target: compiled(proto, folder, target) for target, folder in folders.items()}


def run(words: Sequence[str | Path], folder: Path, **environment: str) -> str:
    clean = {
        k: v for k, v in os.environ.items() if k not in ("CFLAGS", "MAKEFLAGS", "MFLAGS", "MAKELEVEL", "PYTHONPATH")
    }
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False, env=clean | environment)
    assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def needs(command: str, package: str) -> None:
    if shutil.which(command) is None:
        pytest.skip(f"no {command} ({package})")


def makes(folder: Path, bundle: Bundle) -> None:
    assert SAME in run(["make", "check"], folder, CFLAGS=f"-O1 {STRICT}")
    run(["make", "install", f"PREFIX={folder / 'own'}"], folder, CFLAGS=f"-O1 {STRICT}")
    assert (folder / "own/lib/libnet.a").is_file()
    assert (folder / "own/include/net.h").is_file()


USER = """cmake_minimum_required(VERSION 3.21)
project(user LANGUAGES C)
find_package(net 1.2 REQUIRED CONFIG)
foreach(library net sources)
    add_executable(with_${library} main.c)
    target_link_libraries(with_${library} PRIVATE net::${library})
endforeach()
"""


def makes_with_cmake(folder: Path, bundle: Bundle) -> None:
    run(["cmake", "--preset", "default"], folder)
    run(["cmake", "--build", "build"], folder)
    assert "100% tests passed" in run(["ctest", "--preset", "default"], folder)
    run(["cmake", "--install", "build", "--prefix", folder / "own"], folder)
    user = folder / "user"
    user.mkdir()
    (user / "main.c").write_text(MAIN)
    (user / "CMakeLists.txt").write_text(USER)
    run(["cmake", "-B", "build", f"-DCMAKE_PREFIX_PATH={folder / 'own'}", "-DCMAKE_BUILD_TYPE=Release"], user)
    run(["cmake", "--build", "build"], user)
    for program in ("with_net", "with_sources"):
        run([user / "build" / program], user)


def shares(folder: Path, bundle: Bundle) -> None:
    prefix = folder / "own"
    assert SAME in run(["make", "check", f"PREFIX={prefix}"], folder, CFLAGS=f"-O1 {STRICT}")
    run(["make", "install", f"PREFIX={prefix}"], folder, CFLAGS=f"-O1 {STRICT}")
    exported = re.findall(r" T (\w+)", run(["nm", "-D", "--defined-only", "lib/libnet.so"], prefix))
    assert exported == [
        "net_abi_version",
        "net_bundle_hash",
        "net_run",
        "net_run_layers",
        "net_selftest",
        "net_weights_crc",
    ]
    assert re.search(r"SONAME +libnet\.so\.1\n", run(["objdump", "-p", "lib/libnet.so"], prefix))
    needs("pkg-config", "Debian package pkg-config")
    flags = run(
        ["pkg-config", "--cflags", "--libs", "net"], prefix, PKG_CONFIG_PATH=str(prefix / "lib/pkgconfig")
    ).split()
    (folder / "main.c").write_text(MAIN)
    run(["cc", "main.c", *flags, "-o", "main"], folder)
    run([folder / "main"], folder, LD_LIBRARY_PATH=str(prefix / "lib"))


CALLS = """
import sys
import numpy as np, net
network = net.Network()
assert network.selftest()
x = np.load("x.npy")
batch, single = network.stored(x), network.stored(x=x[1])
assert all((batch[name][1] == single[name]).all() for name in batch)
real = network((x - np.float32(net.INPUTS[0].zero_point)).astype(np.float64).transpose(BACK) * net.INPUTS[0].scale)
assert real["y"].dtype == np.float32
for wrong in (x.astype(np.float32), x[:, :, :1], memoryview(x[0][:, :2])):
    try:
        network.stored(wrong)
    except (TypeError, ValueError):
        continue
    sys.exit(1)
np.save("y.npy", batch["y"])
np.save("real.npy", real["y"])
"""


def installs(folder: Path, bundle: Bundle) -> None:
    environment = folder / "environment"
    run([sys.executable, "-m", "venv", environment], folder)
    pip = [environment / "bin/python", "-m", "pip", "--disable-pip-version-check"]
    run([*pip, "install", "-q", "--no-deps", "."], folder, CFLAGS=f"-O1 {STRICT}")
    site = next((environment / "lib").glob("*/site-packages"))
    (site / "ours.pth").write_text(f"{Path(np.__file__).parent.parent}\n")  # NumPy alone is taken from here
    work = folder / "work"
    work.mkdir()
    graph = bundle.graph
    value = graph.values[graph.inputs[0]]
    x = np.random.default_rng(0).integers(-128, 128, (5, *value.shape)).astype(np.int8)
    np.save(work / "x.npy", x)
    layout = bundle.manifest["inputs"][0]["layout"]
    back = [0, *(1 + int(axis) for axis in np.argsort(layout))] if layout else list(range(x.ndim))
    run([environment / "bin/python", "-c", CALLS.replace("BACK", str(back))], work)
    y = graph.outputs[0]
    expected = np.stack([run_int(graph, {value.name: sample})[y] for sample in x]).reshape(
        np.load(work / "y.npy").shape
    )
    np.testing.assert_array_equal(np.load(work / "y.npy"), expected)
    qtype = graph.values[y].qtype
    assert qtype is not None
    out = bundle.manifest["outputs"][0]["layout"]
    real = qtype.dequantize(expected)
    real = real if out is None else real.transpose([0, *(1 + int(axis) for axis in np.argsort(out))])
    np.testing.assert_array_equal(np.load(work / "real.npy"), real)


def is_cpp(folder: Path, bundle: Bundle) -> None:
    for standard in ("-std=c++17", "-std=c++20"):
        run(["make", "clean"], folder)
        said = run(["make", "check"], folder, CFLAGS="-O1", CXXFLAGS=f"-O1 {standard} {STRICT}")
        assert SAME in said
        assert "net: quantize and dequantize are right" in said


def cargo(folder: Path, bundle: Bundle) -> None:
    needs("cargo", "Debian package cargo")
    said = run(["cargo", "test", "--offline"], folder, CARGO_TARGET_DIR=str(folder / "target"))
    assert said.count("test result: ok. 2 passed") == 1


def runs_on_a_board(folder: Path, code: str, public: str) -> None:
    """The sources, in the folders of the export, on an emulated Cortex-M4."""
    sources = sorted((folder / code).glob("*.c"))
    assert {path.name for path in sources} == {"net.c", "net_selftest.c", "net_weights.c"}
    work = folder.parent / "firmware"
    work.mkdir()
    board = load_board("mps2-an386")
    elf = own_firmware.build(ON_A_BOARD, sources, work, board, [f"-I{folder / public}", *STRICT.split()])
    assert own_firmware.run(elf, board.name) == (0, "")


def zephyr(folder: Path, bundle: Bundle) -> None:
    module = yaml.safe_load((folder / "zephyr/module.yml").read_text())
    build = module["build"]
    assert (folder / build["cmake"] / "CMakeLists.txt").is_file()
    assert (folder / module["samples"][0] / "selftest/prj.conf").is_file()
    symbols = set(re.findall(r"^config (\w+)$", (folder / build["kconfig"]).read_text(), re.MULTILINE))
    used = re.findall(r"CONFIG_(\w+)", (folder / "CMakeLists.txt").read_text())
    asked = re.findall(r"CONFIG_(GLOWEMBED_\w*)", (folder / "samples/selftest/prj.conf").read_text())
    assert (
        symbols == {"GLOWEMBED_NET", "GLOWEMBED_NET_SELFTEST"} == set(used) == set(asked)
    )  # CONFIG_NET is Zephyr's own
    named = re.findall(r"src/\S+\.c", (folder / "CMakeLists.txt").read_text())
    assert sorted(named) == ["src/net.c", "src/net_selftest.c", "src/net_weights.c"]
    sample = yaml.safe_load((folder / "samples/selftest/sample.yaml").read_text())
    assert sample["tests"]["net.selftest"]["harness_config"]["regex"] == [SAME]


def platformio(folder: Path, bundle: Bundle) -> None:
    library = json.loads((folder / "library.json").read_text())
    assert (library["name"], library["version"]) == ("net", "1.2.3")
    example = library["examples"][0]
    for path in (*library["build"].values(), *(f"{example['base']}/{file}" for file in example["files"])):
        assert (folder / path).exists(), path
    if shutil.which("pio"):
        run(
            ["pio", "pkg", "pack", "-o", folder.parent / "net.tar.gz"], folder, PLATFORMIO_SETTING_ENABLE_TELEMETRY="No"
        )


def arduino(folder: Path, bundle: Bundle) -> None:
    properties = dict(line.split("=", 1) for line in (folder / "library.properties").read_text().splitlines())
    required = {"name", "version", "author", "maintainer", "sentence", "paragraph", "url", "category", "architectures"}
    assert required <= set(properties)
    stub = folder.parent / "stub"
    stub.mkdir()
    (stub / "Arduino.h").write_text(fake_headers.ARDUINO)
    for sketch in sorted((folder / "examples").glob("*/*.ino")):
        assert sketch.stem == sketch.parent.name  # Arduino wants it so
        flags = ["-std=c++11", *STRICT.split(), "-include", "Arduino.h", f"-I{stub}", f"-I{folder / 'src'}"]
        run(["g++", "-fsyntax-only", *flags, "-x", "c++", sketch], folder)


CORES = "0 0+ 1 3 4 7 23 33 35P 52 55 85".split()
NAME, PART, SUB = r"[-_A-Za-z0-9]+", r"[A-Za-z0-9][-A-Za-z0-9_+()'/ .]{1,31}", r"[A-Za-z0-9][-A-Za-z0-9_+():/ .]{0,31}"
VERSION, ANY = r"\d+\.\d+\.\d+", r"[\s\S]*"
PACK: dict[str, tuple[str, dict[str, str], str]] = {
    "package": (
        r"vendor,name,description,url,license,releases,keywords,conditions,components,",
        {"schemaVersion": r"1\.7\.\d+"},
        ANY,
    ),
    "vendor": ("", {}, NAME),
    "name": ("", {}, NAME),
    "description": ("", {}, r"[\s\S]{1,256}"),
    "url": ("", {}, r"(https://\S+)?"),
    "license": ("", {}, r"\S+"),
    "releases": (r"(release,)+", {}, ANY),
    "release": ("", {"version": VERSION}, ANY),
    "keywords": (r"(keyword,)+", {}, ANY),
    "keyword": ("", {}, ANY),
    "conditions": (r"(condition,)+", {}, ANY),
    "condition": (r"(description,)?((accept|require|deny),)*", {"id": r"\S+"}, ANY),
    "accept": ("", {"Dcore": f"Cortex-M({'|'.join(map(re.escape, CORES))})"}, ""),
    "require": ("", {}, ""),
    "components": (r"(component,)+", {}, ANY),
    "component": (
        r"description,(RTE_Components_h,)?files,",
        {"Cclass": PART, "Cgroup": PART, "Csub": SUB, "Cversion": VERSION, "condition": r"\S+"},
        ANY,
    ),
    "RTE_Components_h": ("", {}, ANY),
    "files": (r"(file,)+", {}, ANY),
    "file": ("", {"category": "doc|header|include|sourceC", "name": r"\S+"}, ""),
}
"""The content that PACK.xsd 1.7.32 of the Open-CMSIS-Pack specification allows for the elements of our packs: the
children in their order (of `package` and `component` any order is allowed), the attributes that all of ours have, and
the text.
"""
OPTIONAL = {
    "accept": {"Ddsp": "DSP|NO_DSP", "Dmve": "MVE|FP_MVE|NO_MVE"},
    "require": {
        "Dendian": "Little-endian|Big-endian|Configurable",
        "condition": r"\S+",
        "Cclass": PART,
        "Cgroup": PART,
        "Csub": SUB,
    },
}
"""element -> attributes of PACK that only some of ours have."""


def follows_the_schema(element: ET.Element) -> None:
    children, attributes, text = PACK[element.tag]
    assert re.fullmatch(children, "".join(f"{child.tag}," for child in element)), element.tag
    given = {name: value for name, value in element.attrib.items() if not name.startswith("{")}
    assert set(attributes) <= set(given) <= set(attributes) | set(OPTIONAL.get(element.tag, {})), element.tag
    attributes = attributes | OPTIONAL.get(element.tag, {})
    for name, value in given.items():
        assert re.fullmatch(attributes[name], value), (element.tag, name, value)
    assert re.fullmatch(text, element.text or ""), (element.tag, element.text)
    for child in element:
        follows_the_schema(child)


def cmsis_pack(folder: Path, bundle: Bundle) -> None:
    pdsc = ET.parse(folder / "glowembed.net.pdsc").getroot()  # our own file
    follows_the_schema(pdsc)
    assert [release.get("version") for release in pdsc.iter("release")] == ["1.2.3"]
    conditions = {condition.get("id"): condition for condition in pdsc.iter("condition")}
    assert [accept.get("Dcore") for accept in conditions["core"].iter("accept")] == ["Cortex-M4"]
    for component in pdsc.iter("component"):
        assert {"Cclass", "Cgroup", "Csub", "Cversion"} <= set(component.keys())
        assert component.get("condition") in conditions
    network, selftest = pdsc.iter("component")
    own = {key: network.get(key) for key in ("Cclass", "Cgroup", "Csub")}
    assert [require.attrib for require in conditions[str(selftest.get("condition"))]][1:] == [
        {"condition": "core"},
        own,
    ]
    named = {str(file.get("name")) for file in pdsc.iter("file")}
    assert all((folder / name).exists() for name in named)
    assert {f"src/{path.name}" for path in (folder / "src").glob("*.c")} <= named


@pytest.mark.parametrize(
    ("target", "options", "accepted"),
    [
        ("cortex-m0plus", {}, [{"Dcore": "Cortex-M0+"}]),
        ("cortex-m7", {}, [{"Dcore": "Cortex-M7"}]),
        ("cortex-m33", {}, [{"Dcore": "Cortex-M33", "Ddsp": "DSP"}]),
        ("cortex-m55", {}, [{"Dcore": "Cortex-M55", "Dmve": "MVE"}, {"Dcore": "Cortex-M55", "Dmve": "FP_MVE"}]),
        ("cortex-m55", {"dtype": "float32"}, [{"Dcore": "Cortex-M55", "Dmve": "FP_MVE"}]),
        ("cortex-m33", {"isa": "portable"}, [{"Dcore": "Cortex-M33"}]),
        ("generic", {}, []),
    ],
)
def test_packs_and_zephyr_modules_name_the_extensions_that_their_kernels_use(
    target: str, options: dict[str, str], accepted: list[dict[str, str]], tmp_path: Path
) -> None:
    proto = model([node("Relu", "x", "y")], {"x": [1, 3, 6, 6]}, {})
    bundle = compiled(proto, tmp_path, target, **options)
    export(bundle, "cmsis-pack", tmp_path / "pack", "1.0.0")
    pdsc = ET.parse(tmp_path / "pack/glowembed.net.pdsc").getroot()  # our own file
    follows_the_schema(pdsc)
    assert [accept.attrib for accept in pdsc.iter("accept")] == accepted
    export(bundle, "zephyr", tmp_path / "module", "1.0.0")
    for file, asked in (("Kconfig", "depends on FPU"), ("samples/selftest/prj.conf", "CONFIG_FPU=y")):
        assert (asked in (tmp_path / "module" / file).read_text()) == any("Dmve" in core for core in accepted)


def esp_idf(folder: Path, bundle: Bundle) -> None:
    text = (folder / "CMakeLists.txt").read_text()
    assert sorted(re.findall(r'"(src/\S+\.c)"', text)) == ["src/net.c", "src/net_selftest.c", "src/net_weights.c"]
    component = yaml.safe_load((folder / "idf_component.yml").read_text())
    assert component["version"] == "1.2.3"
    example = folder / component["examples"][0]["path"] / "main"
    needed = yaml.safe_load((example / "idf_component.yml").read_text())["dependencies"]["net"]
    assert (example / needed["override_path"]).resolve() == folder.resolve()
    run(["gcc", "-std=c99", *STRICT.split(), "-fsyntax-only", f"-I{folder / 'include'}", example / "main.c"], folder)


def micropython(folder: Path, bundle: Bundle) -> None:
    stub = folder.parent / "stub"
    (stub / "py").mkdir(parents=True)
    (stub / "py/obj.h").write_text(fake_headers.MICROPYTHON)
    (stub / "py/runtime.h").write_text('#include "py/obj.h"\n')
    flags = ["-std=gnu99", "-Wall", "-Wextra", "-Werror", f"-I{stub}", f"-I{folder / 'src'}"]
    run(["gcc", *flags, "-fsyntax-only", "modnet.c"], folder)
    for file in ("micropython.mk", "micropython.cmake"):
        named = re.findall(r"_(?:DIR|DIR\)|LIST_DIR})[)}]?/(\S+\.c)", (folder / file).read_text())
        assert sorted(named) == ["modnet.c", "src/net.c", "src/net_selftest.c", "src/net_weights.c"]


PROOFS: dict[str, tuple[str, Callable[[Path, Bundle], None]]] = {
    "arduino": ("cortex-m4", arduino),
    "cmake": ("generic", makes_with_cmake),
    "cmsis-pack": ("cortex-m4", cmsis_pack),
    "cpp": ("generic", is_cpp),
    "esp-idf": ("cortex-m4", esp_idf),
    "make": ("generic", makes),
    "micropython": ("cortex-m4", micropython),
    "platformio": ("cortex-m4", platformio),
    "rust": ("generic", cargo),
    "shared": ("generic", shares),
    "wheel": ("generic", installs),
    "zephyr": ("cortex-m4", zephyr),
}
"""kind -> the target of the bundle, and the proof that the export is right."""


def test_every_kind_has_a_proof() -> None:
    assert set(PROOFS) == set(kinds())


@pytest.mark.arm_gcc
@pytest.mark.qemu
@pytest.mark.parametrize("kind", PROOFS)
def test_an_export_gives_the_bits_of_the_reference(kind: str, bundles: dict[str, Bundle], tmp_path: Path) -> None:
    target, proof = PROOFS[kind]
    folder = tmp_path / "net"
    export(bundles[target], kind, folder, "1.2.3")
    if target == "cortex-m4":
        runs_on_a_board(folder, kinds()[kind].code, kinds()[kind].public or kinds()[kind].code)
    proof(folder, bundles[target])
