"""Writes files and folders. In: a path and its content. Out: a file or folder that is complete, or unchanged.

Links are followed; devices, FIFOs and open descriptors (/dev/stdout, /dev/fd/3) are written through, never replaced.
Anything else is written under a unique name in the same folder, flushed to the disk, and renamed. Modes follow the
umask. Every error names the path.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from glowembed.errors import UsageError

DESCRIPTOR = re.compile(r"/proc/(\d+)/(?:task/\d+/)?fd/(\d+)")
MAX_LINKS = 40
"""Linux has the same limit."""


@contextmanager
def named_errors(path: Path | str) -> Iterator[None]:
    """A context in which an OSError becomes a UsageError that names the path."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror or error}") from error


def write_file(path: Path, content: str | bytes) -> None:
    """Write a file completely or not at all. Raises UsageError if it cannot be written."""
    data = content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content
    with named_errors(path):
        descriptor = _descriptor(path)
        if descriptor is not None or is_special(path):
            with _opened(path, descriptor) as file:
                file.write(data)
        else:
            _replace(Path(os.path.realpath(path)), data)


def is_special(path: Path) -> bool:
    """Whether the path is a device, a FIFO or a socket; also true for a folder, for which open() gives a clear error."""
    try:
        return not stat.S_ISREG(path.stat().st_mode)
    except FileNotFoundError:
        return False


def _descriptor(path: Path) -> int | None:
    """The open file of this process to which the path leads through /proc, or None. Such links lead to no path that
    could be replaced.
    """
    at = path.absolute()
    for _ in range(MAX_LINKS):
        at = Path(os.path.realpath(at.parent)) / at.name
        found = DESCRIPTOR.fullmatch(str(at))
        if found:
            return int(found[2]) if int(found[1]) == os.getpid() else None
        if not at.is_symlink():
            return None
        at = at.parent / at.readlink()
    return None


def _opened(path: Path, descriptor: int | None) -> BinaryIO:
    """Open a file for writing. A descriptor is shared, so that earlier output to it is kept."""
    if descriptor is None:
        return os.fdopen(os.open(path, os.O_WRONLY | os.O_NOCTTY), "wb")
    if descriptor == 1:
        sys.stdout.flush()
    return os.fdopen(os.dup(descriptor), "wb")


def _replace(path: Path, data: bytes) -> None:
    """Replace a file that is not a link. An existing file keeps its mode, and a read-only file is not replaced."""
    mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else None
    if mode is not None and not os.access(path, os.W_OK):
        raise PermissionError(13, os.strerror(13))
    fresh = _beside(path)
    try:
        _write_synced(fresh, data)
        if mode is not None:
            fresh.chmod(mode)
        fresh.replace(path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _beside(path: Path) -> Path:
    """A name in the same folder that no other run uses."""
    return path.parent / f".glowembed-{secrets.token_hex(8)}"


def _write_synced(path: Path, data: bytes) -> None:
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    """Flush a folder, so that a new name survives a loss of power; some file systems cannot do this."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def check_out_dir(out_dir: Path, what: str = "bundle", marker: str = "bundle.json") -> None:
    """Refuse, before any work, a folder that cannot be written or that holds anything other than files with this
    marker.
    """
    real = Path(os.path.realpath(out_dir))
    if real in (Path.cwd(), *Path.cwd().parents) or os.path.ismount(real):
        raise UsageError(
            f"{out_dir}: the {what} would replace the current folder, one that holds it, or a mounted one; "
            "name a folder of its own with -o"
        )
    with named_errors(out_dir):
        if real.exists() and not real.is_dir():
            raise UsageError(f"{out_dir} is a file; -o names the folder for the {what}")
        if real.is_dir() and any(real.iterdir()) and not (real / marker).is_file():
            raise UsageError(f"{out_dir} is not empty and holds no {what}; name another folder with -o")
        parent = next(folder for folder in real.parents if folder.exists())
    try:
        Path(tempfile.mkdtemp(prefix=".glowembed-", dir=parent)).rmdir()
    except OSError as error:
        raise UsageError(f"cannot write to {parent}: {error.strerror}; name another folder with -o") from error


def write_folder(out_dir: Path, files: Mapping[str, bytes]) -> None:
    """Write the files beside `out_dir` and swap them in by renaming, so that the folder is complete or unchanged."""
    real = Path(os.path.realpath(out_dir))
    fresh, missing = _beside(real), [folder for folder in real.parents if not folder.exists()]
    with named_errors(out_dir):
        try:
            fresh.mkdir(parents=True)
            for name, content in files.items():
                (fresh / name).parent.mkdir(parents=True, exist_ok=True)
                _write_synced(fresh / name, content)
            _sync_folder(fresh)
            with _alone_in(real.parent):
                _swap(fresh, real)
        except BaseException:
            shutil.rmtree(fresh, ignore_errors=True)
            with suppress(OSError):  # those of which another run makes use
                for folder in missing:
                    folder.rmdir()
            raise


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """A context in which only one run renames in a folder; on a file system without locks it has no effect."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
        with suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _swap(fresh: Path, real: Path) -> None:
    """Replace `real` by `fresh`; if that fails, put `real` back."""
    if not real.exists():
        fresh.rename(real)
        return
    old = _beside(real)
    try:
        real.rename(old)
        fresh.rename(real)
    except BaseException:
        if old.exists() and not real.exists():
            old.rename(real)
        raise
    shutil.rmtree(old, ignore_errors=True)
