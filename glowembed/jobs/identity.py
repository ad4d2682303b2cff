"""The hashes and versions on which a result depends. In: paths, commands. Out: texts that are equal only if the results
are.

A stored result is used again only if all of them are equal, and a worker that differs in one is refused.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from glowembed import resources
from glowembed.files.source import read_bytes
from glowembed.version import VERSION

PACKAGES = ("numpy", "onnx", "onnxruntime", "ortools")
"""The packages that results depend on."""

TOOLS: Mapping[str, str] = {
    "cc": "cc",
    "clang": "clang",
    "gcc-arm": "arm-none-eabi-gcc",
    "gcc-riscv": "riscv64-unknown-elf-gcc",
    "qemu": "qemu-system-arm",
    "qemu-riscv": "qemu-system-riscv32",
}
"""Tools that jobs need: for each resource of a worker, its command."""


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


@cache
def software() -> dict[str, str]:
    """The versions of everything that results depend on, except tools: glowembed by its hash, Python, packages."""
    return {
        "glowembed": f"{VERSION}, sources {of_glowembed()[:12]}",
        "Python": sys.version.split()[0],
        **{name: _version(name) for name in PACKAGES},
    }


def tools() -> dict[str, str]:
    """The output of `--version` of each tool on this computer."""
    found = {name: version_of(command) for name, command in TOOLS.items()}
    return {name: said for name, said in found.items() if said}


@cache
def version_of(command: str) -> str:
    """The output of `COMMAND --version`, or "" if the command is not there."""
    if shutil.which(command) is None:
        return ""
    done = subprocess.run([command, "--version"], capture_output=True, text=True, errors="replace", check=False)
    return done.stdout.strip() or done.stderr.strip() or command


def resource(command: str) -> str:
    """The name of the resource that a command provides, or the command's own name."""
    return next((name for name, own in TOOLS.items() if own == command), command)


@cache
def of_glowembed() -> str:
    """The hash of glowembed's own files: Python, C, targets and boards."""
    folders = (resources.PACKAGE, resources.runtime_c(), resources.targets(), resources.boards())
    return of_words(map(of_path, folders))


@cache
def commit() -> str:
    """The commit of a checkout, with `-dirty` if files have changed since; "" outside a checkout."""
    words = ["git", "-C", str(resources.root()), "describe", "--always", "--dirty", "--exclude", "*"]
    if shutil.which("git") is None or not (resources.root() / ".git").exists():
        return ""
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()


def of_path(path: Path) -> str:
    """The hash of a file, or of all files of a folder and their names."""
    if not path.is_dir():
        return hashlib.sha256(read_bytes(path)).hexdigest()
    files = sorted(file for file in path.rglob("*") if file.is_file() and "__pycache__" not in file.parts)
    named = (f"{file.relative_to(path).as_posix()}\0{of_path(file)}\n" for file in files)
    return hashlib.sha256("".join(named).encode(errors="surrogateescape")).hexdigest()


def of_words(words: Iterable[str]) -> str:
    """The hash of several texts."""
    return hashlib.sha256("\0".join(words).encode(errors="surrogateescape")).hexdigest()
