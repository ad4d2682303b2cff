"""Stores results on disk as they arrive, so that an interrupted run continues where it stopped.

In: outputs by number of the sample. Out: a file with one checked record per sample. A file of another bundle, or of
other samples, is ignored.
"""

from __future__ import annotations

import hashlib
import os
import struct
import zlib
from io import FileIO
from pathlib import Path

from glowembed.files.output import named_errors
from glowembed.run import Bytes

RECORD = struct.Struct("<III")
"""number of the sample, bytes, CRC32"""


class Store:
    """`done`: outputs by number of the sample. Without a path, results are only kept in memory."""

    def __init__(self, path: Path | None = None, key: str = "", resume: bool = False) -> None:
        self.path, self.done = path, dict[int, bytes]()
        self._file: FileIO | None = None
        if path is None:
            return
        head = f"glowembed results 1 {key}\n".encode("ascii")
        with named_errors(path):
            length = self._read(path, head) if resume and path.is_file() else 0
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("r+b" if length else "wb", buffering=0)
            try:
                self._file.truncate(length)
                self._file.seek(length)
                if not length:
                    self._write(self._file, head)
            except BaseException:
                self._file.close()
                raise

    def _read(self, path: Path, head: bytes) -> int:
        """Read all complete records; returns the length up to the last of them, 0 for a file of another kind."""
        data = path.read_bytes()
        if not data.startswith(head):
            return 0
        at = len(head)
        while at + RECORD.size <= len(data):
            index, size, crc = RECORD.unpack_from(data, at)
            output = data[at + RECORD.size : at + RECORD.size + size]
            if len(output) != size or zlib.crc32(output, index) != crc:
                break
            self.done[index] = output
            at += RECORD.size + size
        return at

    def add(self, index: int, output: bytes) -> None:
        """Add a result, which is on disk before this returns. If it cannot be written, it is not kept."""
        if self._file is not None and self.path is not None:
            with named_errors(self.path):
                self._write(self._file, RECORD.pack(index, len(output), zlib.crc32(output, index)) + output)
                os.fsync(self._file.fileno())
        self.done[index] = output

    def _write(self, file: FileIO, data: bytes) -> None:
        """Write all bytes without a buffer, which would fail a second time when it is closed."""
        while data:
            data = data[file.write(data) :]

    def close(self, finished: bool) -> None:
        """Remove the file of a run that is finished."""
        if self._file is not None and self.path is not None:
            with named_errors(self.path):
                self._file.close()
                if finished:
                    self.path.unlink(missing_ok=True)


def key(bundle_hash: str, samples: Bytes) -> str:
    """A key that distinguishes one run from another."""
    return f"{bundle_hash} {hashlib.sha256(samples.tobytes()).hexdigest()} {len(samples)}"
