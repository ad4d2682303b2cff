"""Reads NumPy files that may be damaged or hostile. In: a path or an open file. Out: arrays, or a UsageError.

The size that an array claims is compared with the bytes of the file before anything is allocated. Pickled objects,
archives with a name twice, and archives that expand to more than MAX_BYTES are refused.
"""

from __future__ import annotations

import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.lib.npyio import NpzFile
from numpy.typing import NDArray

from glowembed.errors import UsageError
from glowembed.files.source import WEB_PAGE, is_web_page, opened

Array = NDArray[Any]

MAX_BYTES = 4 << 30


def read_npy(path: Path) -> Array:
    """Return the array in an .npy file."""
    with _readable(path, "npy"), opened(path) as file:
        _check_array(path, path.name, file, path.stat().st_size)
        file.seek(0)
        array: Array = npy.read_array(file, allow_pickle=False)
        return array


@contextmanager
def open_npz(path: Path) -> Iterator[NpzFile]:
    """Return the arrays of an .npz archive by name; each is read when it is accessed."""
    with _readable(path, "npz"), opened(path) as file:
        _check_archive(path, file)
        file.seek(0)
        with np.load(file, allow_pickle=False) as archive:
            assert isinstance(archive, NpzFile)
            yield archive


@contextmanager
def _readable(path: Path, kind: str) -> Iterator[None]:
    """Turn what NumPy raises over a damaged file into a UsageError. A header as Python 2 wrote it is read in silence."""
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings(
                "ignore", message="Reading `.npy` or `.npz` file required additional header parsing"
            )
            yield
    except (
        ValueError,
        EOFError,
        NotImplementedError,
        RuntimeError,
        SyntaxError,
        TypeError,
        tokenize.TokenError,
        zlib.error,
        zipfile.BadZipFile,
    ) as error:
        # SyntaxError, TypeError, TokenError: a header that is no Python literal, or too deep a one; NotImplementedError: a way of compressing that zipfile does not know; RuntimeError: an encrypted entry
        raise UsageError(f"{path}: is not a readable .{kind} file: {_reason(path, error)}") from error


def _reason(path: Path, error: Exception) -> str:
    """What is wrong with a file that NumPy or zipfile cannot read."""
    with opened(path) as file:
        beginning = file.read(1000)
    if not beginning:
        return "it is empty"
    if is_web_page(beginning):
        return f"it {WEB_PAGE}"
    if "is encrypted" in str(error):
        return "it is encrypted: unpack it with its password, and save its arrays without one"
    if isinstance(error, zipfile.BadZipFile | zlib.error | EOFError) or str(error).startswith("EOF: "):
        return "it is damaged or cut short: copy or save it again"
    return f"{error}"


def _check_archive(path: Path, file: IO[bytes]) -> None:
    with zipfile.ZipFile(file) as archive:
        entries = archive.infolist()
        names = [entry.filename for entry in entries]
        if len(set(names)) < len(names):
            raise UsageError(f"{path}: holds an array of the same name twice: {', '.join(sorted(names))[:200]}")
        total = sum(entry.file_size for entry in entries)
        if total > MAX_BYTES:
            raise UsageError(f"{path}: expands to {total} bytes, more than {MAX_BYTES}")
        for entry in entries:
            if not entry.filename.endswith(".npy"):
                raise UsageError(f"{path}: holds {entry.filename!r:.100}, which is not an array")
            with archive.open(entry) as array:
                _check_array(path, entry.filename.removesuffix(".npy"), array, entry.file_size)


def _check_array(path: Path, name: str, file: IO[bytes], size: int) -> None:
    """Check that an array's header claims no more than the `size` bytes of its file."""
    read_header = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}.get(npy.read_magic(file))
    if read_header is None:
        raise UsageError(f"{path}: {name!r:.100} is of an unknown version of the .npy format")
    try:
        shape, _, dtype = read_header(file)
    except MemoryError as error:  # a header is short: its brackets are nested too deeply for Python's parser
        raise UsageError(f"{path}: the header of {name!r:.100} cannot be read") from error
    if dtype.hasobject:
        raise UsageError(
            f"{path}: holds pickled Python objects, which are never loaded; save plain number arrays (np.savez)"
        )
    needed = prod(shape) * dtype.itemsize
    if any(n < 0 for n in shape) or needed > size - file.tell():
        raise UsageError(
            f"{path}: {name!r:.100} says it has the shape {list(shape)!s:.100}, but there are {size} bytes"
        )
