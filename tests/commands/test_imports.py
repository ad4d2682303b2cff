"""Modules that the command line imports: a command imports its own file, `--help` and `--version` import none."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from glowembed import commands, resources

LIGHT = {"glowembed", "glowembed.__main__", "glowembed.commands", "glowembed.errors", "glowembed.law", "glowembed.law.blas", "glowembed.records", "glowembed.version"}  # fmt: skip
HEAVY = {"jinja2", "ml_dtypes", "numpy", "onnx", "onnxruntime", "ortools", "pandas", "PIL", "serial", "yaml"}


def imported(*words: str) -> set[str]:
    """The modules that are loaded after a command has run in a separate process."""
    told = f"from glowembed.__main__ import main; import sys; main({list(words)!r}); print('|', *sys.modules)"
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    return set(done.stdout.rpartition("|")[2].split())


@pytest.mark.parametrize("word", ["--help", "--version"])
def test_help_imports_no_command_and_nothing_heavy(word: str) -> None:
    found = imported(word)
    assert {name for name in found if name.partition(".")[0] == "glowembed"} == LIGHT
    assert not found & HEAVY


def test_ordinary_words_need_no_pydantic() -> None:
    words = ["nowhere.onnx", "--data", "nowhere.npz", "--calib-samples", "100", "--target", "cortex-m4", "-o", "out"]
    assert not imported("compile", *words) & {"pydantic", "pydantic_core"}


def test_compile_imports_no_tool_of_other_commands() -> None:
    assert not imported("compile", "--help") & {
        "onnxruntime",
        "onnx.reference",
        "jsonschema",
        "elftools",
        "serial",
        "ortools",
    }


def test_onnxruntime_tells_nobody_of_the_models(tmp_path: Path) -> None:
    """Where it does, it writes the identity of this computer when it is imported; in CI it keeps silent by itself."""
    env = {"HOME": str(tmp_path), "TMPDIR": str(tmp_path), "PATH": os.environ["PATH"]}
    subprocess.run([sys.executable, "-c", "import glowembed, onnxruntime"], env=env, check=True)
    assert list(tmp_path.iterdir()) == []


def test_a_build_imports_nothing_heavy() -> None:
    """Each build starts SCons, which loads what SConstruct and runtime_c/SConscript import."""
    scripts = (resources.sconstruct(), resources.runtime_c() / "SConscript")
    lines = [
        line for path in scripts for line in re.findall(r"(?m)^from glowembed\b(?:.*\([^)]*\)|.*)", path.read_text())
    ]
    told = "\n".join([*lines, "import sys; print(*sys.modules)"])
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    assert len(lines) >= 6 and not set(done.stdout.split()) & (HEAVY - {"yaml"})


def test_every_command_is_listed_with_a_sentence_and_can_be_loaded() -> None:
    listed = commands.listed()
    assert next(iter(listed)) == "demo", "a new user begins with it"
    assert [command.place for command in listed.values()] == sorted({command.place for command in listed.values()})
    for command in listed.values():
        assert command.summary.endswith(".") and command.summary[0].isupper(), command.name
        assert commands.loaded(command.name, "markdown").name == command.name
