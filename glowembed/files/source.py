"""Opens files that users name. In: a path. Out: the open file, or its bytes; or a UsageError that names the path.

Only regular files are opened: a FIFO can wait for its writer forever, and a device such as /dev/zero never ends. Size
is bounded before anything is read.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from glowembed.errors import UsageError

KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}
MAX_BYTES = 2 << 30
"""Protobuf has the same limit."""

STAND_INS = {
    b"version https://git-lfs": "a pointer of Git LFS, not the file itself: `git lfs pull` in its repository fetches the file",
    b"/annex/objects/": "a pointer of git-annex, not the file itself: `git annex get` in its repository fetches the file",
}
"""How files begin that version control puts in place of large files."""

WEB_PAGE = "is a web page, not the file itself: download the file from its own address (on GitHub: Raw)"


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open a regular file for reading. An OSError inside the context becomes a UsageError that names the path."""
    try:
        with open(path, "rb", opener=_open_regular) as file:
            _refuse_stand_ins(path, file.peek(64))
            yield file
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror or error}") from error


def read_bytes(path: Path, most: int = MAX_BYTES) -> bytes:
    """The contents of a regular file of at most `most` bytes."""
    with opened(path) as file:
        if os.fstat(file.fileno()).st_size <= most:
            data = file.read()  # not read(most + 1): that would ask for as much memory at once
            if len(data) <= most:
                return data
        raise UsageError(f"{path}: is larger than {most >> 20} MB")


def _refuse_stand_ins(path: Path, beginning: bytes) -> None:
    for words, what in STAND_INS.items():
        if beginning.startswith(words):
            raise UsageError(f"{path}: is {what}")


def is_web_page(data: bytes) -> bool:
    """Whether bytes that are not what they should be are HTML, as what a browser saved."""
    return data.lstrip()[:14].lower().startswith((b"<!doctype html", b"<html"))


def _open_regular(path: str, flags: int) -> int:
    """The descriptor. O_NONBLOCK: a FIFO opens at once, so that it can be refused; it changes nothing for a regular file."""
    descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)
    kind = stat.S_IFMT(os.fstat(descriptor).st_mode)
    if kind == stat.S_IFREG:
        return descriptor
    os.close(descriptor)
    raise UsageError(f"{path}: cannot be read: it is {KINDS.get(kind, 'something else')}, not a file")
