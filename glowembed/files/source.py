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


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open a regular file for reading. An OSError inside the context becomes a UsageError that names the path."""
    try:
        with open(path, "rb", opener=_open_regular) as file:
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


def _open_regular(path: str, flags: int) -> int:
    """The descriptor. O_NONBLOCK: a FIFO opens at once, so that it can be refused; it changes nothing for a regular file."""
    descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)
    kind = stat.S_IFMT(os.fstat(descriptor).st_mode)
    if kind == stat.S_IFREG:
        return descriptor
    os.close(descriptor)
    raise UsageError(f"{path}: cannot be read: it is {KINDS.get(kind, 'something else')}, not a file")
