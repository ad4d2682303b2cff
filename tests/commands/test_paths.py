"""Folders whose names mean something to a shell, to SCons, to QEMU or to OpenOCD: they work, and nothing of them is run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import fake_bundle
import numpy as np
import pytest
from checkout import ROOT

from glowembed.__main__ import main
from glowembed.errors import UsageError
from glowembed.graph.target import load_board
from glowembed.image.build import build
from glowembed.image.glue import read_manifest
from glowembed.run import flash, qemu

DIGITS = ROOT / "examples" / "digits"
HOSTILE = {
    "shell": "`touch canary`$(touch canary);touch canary|touch canary&",
    "scons": "${__import__('pathlib').Path('canary').write_text('')}$$ $NAME",
    "tcl": "[exec touch canary]{a} %d",
    "quotes": 'it\'s "a" folder\\',
    "comma": "-a,b #1=:file",
    "break": "two\nlines",
    "bytes": os.fsdecode(b"latin \xe9"),
}


@pytest.fixture(params=HOSTILE)
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / HOSTILE[request.param]
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def refused(place: Path) -> bool:
    """Line breaks, and bytes that are not UTF-8: a compile takes such names, a build refuses them in words."""
    return not place.name.isprintable()


def nothing_was_run(place: Path) -> None:
    assert list(place.parent.rglob("canary")) == []


SPOKEN = [name for name, text in HOSTILE.items() if text.isprintable()]


@pytest.mark.arm_gcc
@pytest.mark.qemu
@pytest.mark.parametrize("place", SPOKEN, indirect=True)
def test_firmware_is_built_and_emulated(place: Path) -> None:
    bundle = fake_bundle.write(place / "bundle", "cortex-m4")
    image = build(bundle, load_board("mps2-an386"), place / "build")
    samples = fake_bundle.samples(3)
    found = qemu.run(image, read_manifest(bundle), samples)
    assert np.array_equal(found.outputs[0], fake_bundle.reference(samples)[1])
    nothing_was_run(place)


def test_the_host_builds_too(place: Path) -> None:
    bundle = fake_bundle.write(place / "bundle", "x86-64")
    if refused(place):
        with pytest.raises(UsageError, match="rename it"):
            build(bundle, load_board("host"), place / "build")
        assert not (place / "build").exists()
    else:
        assert build(bundle, load_board("host"), place / "build").elf.is_file()
    nothing_was_run(place)


@pytest.mark.arm_gcc
@pytest.mark.parametrize("place", ["tcl"], indirect=True)
def test_tools_that_flash_see_plain_names(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    image = build(fake_bundle.write(place / "bundle", "cortex-m4"), load_board("nucleo-l4r5zi"), place / "build")
    tools = place.parent / "tools"
    tools.mkdir()
    (tools / "openocd").write_text('#!/bin/sh\nprintf "%s" "$4" >said; test -f firmware.elf\n')
    (tools / "openocd").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
    flash.flash(image)
    assert (image.elf.parent / "said").read_text() == "program firmware.elf verify reset exit"


@pytest.mark.parametrize("place", ["shell", "bytes"], indirect=True)
def test_compile_and_validate(place: Path) -> None:
    for name in ("model.onnx", "data.npz"):
        shutil.copy(DIGITS / name, place)
    words = [
        "compile",
        str(place / "model.onnx"),
        "--data",
        str(place / "data.npz"),
        "--target",
        "x86-64",
        "--isa",
        "portable",
    ]
    assert glowembed(*words, "-o", str(place / "net")).returncode == 0
    done = glowembed("validate", str(place / "net"), "--data", str(place / "data.npz"), "--samples", "3")
    assert done.returncode == (2 if refused(place) else 0), done.stderr
    assert ("rename it" in done.stderr) == refused(place)
    nothing_was_run(place)


@pytest.mark.arm_gcc
@pytest.mark.qemu
def test_every_command(tmp_path: Path) -> None:
    """Models, data, profiles, bundles, boards, pictures and pages in one folder that says something to everybody."""
    folder = (
        tmp_path
        / "`touch canary`$(touch canary);${__import__('os').mkdir('canary')}[exec touch canary] it's \"a\",#b=%d"
    )
    folder.mkdir()
    for name in ("model.onnx", "data.npz"):
        shutil.copy(DIGITS / name, folder)
    for name in ("mps2-an386", "common"):
        shutil.copytree(ROOT / "boards" / name, folder / name)
    model, data, net = (str(folder / name) for name in ("model.onnx", "data.npz", "net"))
    profile, board = str(folder / "p.yaml"), str(folder / "mps2-an386")
    made = ["compile", model, "--profile", profile, "--target", "cortex-m4", "-o"]
    done = glowembed("profile", model, "--data", data, "-o", profile)
    assert done.returncode == 0, done.stderr
    for words in (
        [*made, net, "--curve", str(folder / "c.svg")],
        [*made, f"{net}2", "--name", "two"],
        ["inspect", net, "--quantization", "--graph", str(folder / "g.svg")],
        ["validate", net, "--data", data, "--samples", "1", "--board", board, "--html", str(folder / "v.html")],
        ["debug", net, "--data", data, "--samples", "1", "--dump", str(folder / "d.npz"), "--board", "mps2-an386"],
        ["measure", net, "--board", board, "--store", str(folder / "store")],
        ["combine", net, f"{net}2", "-o", str(folder / "both")],
    ):
        assert main(words) == 0, words[0]
    assert list(tmp_path.rglob("canary")) == []


def glowembed(*words: str) -> subprocess.CompletedProcess[str]:
    command, env = [sys.executable, "-m", "glowembed", *words], {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, env=env, capture_output=True, text=True, errors="replace", check=False)


@pytest.mark.parametrize("place", ["scons", "break"], indirect=True)
def test_scons(place: Path) -> None:
    """The model and the build are in such a folder; names that SCons cannot handle are refused with a message."""
    for name in ("model.onnx", "data.npz"):
        shutil.copy(DIGITS / name, place)
    words = [f"model={place / 'model.onnx'}", f"data={place / 'data.npz'}", "board=host", f"build={place / 'out'}"]
    command = [sys.executable, "-m", "SCons", "-Q", "-f", str(ROOT / "SConstruct"), *words]
    done = subprocess.run(command, cwd=place.parent, capture_output=True, text=True, errors="replace", check=False)
    assert done.returncode == (2 if refused(place) else 0), done.stdout + done.stderr
    assert ("rename it" in done.stdout + done.stderr) == refused(place)
    nothing_was_run(place)
