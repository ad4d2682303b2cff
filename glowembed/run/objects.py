"""Caches compiled kernels by the hash of everything they are made from, for all processes and runs of a user.

In: the inputs of a build, as texts, and a function that builds. Out: the file. Paths are not part of the hash, so that
checkouts share equal objects. Files appear by renaming; those that were unused for longest are removed first.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path

from glowembed import resources

MOST = 20_000
"""The most files that are kept, about 2 GB."""

ROOM = 16 << 20
"""The bytes that a disk must have free for objects to be shared on it."""


def built(parts: Iterable[str], suffix: str, make: Callable[[Path], Path]) -> Path:
    """The file that `make` builds in a folder from these parts, either now or earlier. Exceptions of `make` are passed
    on.
    """
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    path = _folder() / key[:2] / f"{key}{suffix}"
    with suppress(FileNotFoundError):  # another process may just have removed it
        os.utime(path)
        return path
    with tempfile.TemporaryDirectory(prefix="glowembed-") as place:
        _keep(make(Path(place)), path)
    if key.startswith("00"):
        _prune(_folder())
    return path


def shared(made_by: str) -> Path | None:
    """The folder in which SCons shares the objects of a compiler of this version; None if the user has no home to write
    into, or if its disk is full, so that a build does without.
    """
    folder = resources.user_cache(f"objects/{hashlib.sha256(made_by.encode()).hexdigest()[:16]}")
    if folder is not None and shutil.disk_usage(folder).free < ROOM:
        return None
    if folder is not None and os.getpid() % 64 == 0:  # now and then is enough
        _prune(folder)
    return folder


def _keep(made: Path, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix="building-", delete=False) as file:
        partial = Path(file.name)
    shutil.copyfile(made, partial)
    partial.replace(path)


def _prune(folder: Path) -> None:
    """If there are more than MOST files, remove all but the half that was used last."""
    files = []
    for path in folder.glob("??/*"):
        with suppress(FileNotFoundError):  # other processes rename and remove files at the same time
            files.append((path.stat().st_mtime, path))
    for _, path in sorted(files)[: len(files) // 2] if len(files) > MOST else ():
        path.unlink(missing_ok=True)


@cache
def _folder() -> Path:
    """The folder in the user's cache or, if there is no home, a folder of this process only, because libraries from a
    folder of others must not be loaded.
    """
    return resources.user_cache("kernels") or Path(tempfile.mkdtemp(prefix="glowembed-kernels-"))


@cache
def tree(*folders: Path) -> str:
    """The hash of all files below these folders."""
    found = hashlib.sha256()
    for folder in folders:
        for path in sorted(p for p in folder.rglob("*") if p.is_file()):
            found.update(f"{path.relative_to(folder)}\0{path.stat().st_size}\0".encode())
            found.update(path.read_bytes())
    return found.hexdigest()


@cache
def version(compiler: str) -> str:
    """The version text of a compiler."""
    return subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False).stdout
