"""Finds the files that are not Python. In: nothing. Out: paths of targets/, boards/, runtime_c/, SConstruct.

In a checkout they are beside the package; in an installed wheel they are inside it, in glowembed/_data.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from glowembed.errors import ToolError

PACKAGE = Path(__file__).resolve().parent
MARKS = ("targets", "boards", "runtime_c", "SConstruct")


@cache
def root() -> Path:
    """The folder that holds targets/, boards/, runtime_c/ and SConstruct."""
    for place in (PACKAGE / "_data", PACKAGE.parent):
        if all((place / mark).exists() for mark in MARKS):
            return place
    raise ToolError(
        f"the installation of glowembed is not complete: {', '.join(MARKS)} are neither in "
        f"{PACKAGE / '_data'} nor in {PACKAGE.parent}; install it again with pip"
    )


def targets() -> Path:
    """The folder of NAME.toml files, one per target."""
    return root() / "targets"


def boards() -> Path:
    """The folder of board folders."""
    return root() / "boards"


def runtime_c() -> Path:
    """The folder of C headers, kernels and the harness."""
    return root() / "runtime_c"


def documents() -> Path:
    """The first page of the documents: that of the site in a wheel, or the Markdown of a checkout. Raises ToolError if there is neither."""
    for place in (root() / "site" / "index.html", root() / "docs" / "index.md"):
        if place.is_file():
            return place
    raise ToolError("this wheel was built without the documents; they are in docs/ of the repository")


def user_cache(kind: str) -> Path | None:
    """~/.cache/glowembed/KIND, made if need be; None if the user has no home to write into.

    Callers do without, or take a folder of their own process: code from a folder of others must not be run.
    """
    try:
        folder = Path.home() / ".cache" / "glowembed" / kind
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # RuntimeError: there is no home
        return None
    return folder if os.access(folder, os.W_OK) else None


@cache
def kernel_folders(*cores: str) -> tuple[Path, ...]:
    """The folders in which kernels of these cores look for headers: those of the cores before all others.

    A text that several cores share includes a header by a plain name, such as planes.h, that each of them has in its folder.
    """
    folders = sorted(path for path in (runtime_c() / "kernels").iterdir() if path.is_dir())
    return (runtime_c(), *sorted(folders, key=lambda path: path.name not in cores))


@cache
def kernel_cores() -> tuple[str, ...]:
    """The names of the folders with kernels of a core, which are the words that `isa` of a target may hold."""
    return tuple(sorted(path.name for path in kernel_folders() if path.name not in ("portable", runtime_c().name)))


@cache
def kernel_header(name: str, core: str = "") -> Path:
    """The header that a kernel of a core includes by this name."""
    return next(path for folder in kernel_folders(core) if (path := folder / name).is_file())


def sconstruct() -> Path:
    """The build description."""
    return root() / "SConstruct"
